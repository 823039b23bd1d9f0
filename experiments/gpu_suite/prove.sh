#!/bin/sh
# What is to be shown of the operators on a Hopper GPU, in parts of less than ten minutes each:
#   prove.sh OUT PART...     CULTIVAR: the program (default: ./cultivar); PYTHON: a Python with PyTorch and Triton (python3);
#                            LIMIT: seconds for each command (540)
# Parts:
#   seeds_1 seeds_2 seeds_3  every cuda seed through all stages up to `edge`
#   prepare_1 to prepare_4   compiles the rivals of some tasks at the same time; what is measured meanwhile counts for nothing, and
#                            what their autotuners chose is removed, so that rivals_TASK only chooses anew
#   rivals_TASK              the kernel of a task in evolved/h100, or the best of the run EVOLVED/TASK (or its individual EVOLVED_ID), or
#                            else its good seed, beside PyTorch, torch.compile and Triton (and cuBLASLt), on all its shapes
#   suite_NAME               the search of one task of configs/gpu_suite.yaml; the same call continues an interrupted one
#   tuned_NAME               the same of tuned.yaml
#   evolve_NAME              the same of evolve.yaml; WALL=18m raises its budget when prompts have been answered
#   table                    the tables of what is recorded
# On a machine without the source tree: a bundle of tests/gpu/bundle.sh and this folder, with CULTIVAR=BUNDLE/bin/cultivar CONFIGS=BUNDLE/configs.
# The exit code is 1 if a part failed. Results: OUT/PART.txt, and the runs OUT/gpu_suite, OUT/tuned, OUT/evolve. All that `prove.sh list` prints is to be run.
set -eu
case ${1:-} in '' | -h | --help) sed -n '2,/^set -eu/{/^#/p}' "$0" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
cultivar=${CULTIVAR:-./cultivar} python=${PYTHON:-python3}
configs=${CONFIGS:-$here/../../configs}
tasks="softmax rmsnorm add_rmsnorm layernorm silu_mul gelu transpose linear swiglu_up cross_entropy rope row_reduce rmsnorm_backward"
more="linear_decode linear_bias_gelu swiglu_up_decode"
four="add_rmsnorm softmax cross_entropy linear_decode"
if [ "$1" = list ]; then
  echo seeds_1 seeds_2 seeds_3
  echo prepare_1 prepare_2 prepare_3 prepare_4
  for name in $tasks $more; do echo "rivals_$name"; done
  for name in $tasks $more; do echo "suite_$name"; done
  for name in $four; do echo "tuned_${name}_naive tuned_${name}_good evolve_$name"; done
  echo table
  exit 0
fi
out=$1
shift
[ $# -ge 1 ] || { echo "prove.sh: no part is named, as in: prove.sh OUT seeds_1 (prove.sh list names them all)" >&2; exit 2; }
command -v "$cultivar" >/dev/null || { echo "prove.sh: there is no program $cultivar (CULTIVAR names it)" >&2; exit 2; }
mkdir -p "$out" && out=$(cd "$out" && pwd)
export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$out/pytorch/inductor}" TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$out/pytorch/triton}"
limit="timeout -s INT -k 30 ${LIMIT:-540}"
seeds_of() { (cd "$configs/tasks/$1/seeds" && ls cuda_*.cu); }
check() {
  for task in "$@"; do
    set=quick
    case $task in linear | swiglu_up) set=decode ;; esac  # which all of their seeds take
    $limit $cultivar evaluate "$task" $(seeds_of "$task" | sed 's/\.cu$//') --target cuda --workloads "$set" --stop-after edge
  done
}
good() { seeds_of "$1" | sed 's/\.cu$//' | grep -v naive | head -n 1; }
rivals() {  # name
  task=$1 set=gpu seed= more=
  case $1 in
    linear_decode | swiglu_up_decode) task=${1%_decode} set=decode seed=cuda_skinny ;;
    linear_bias_gelu) task=linear set=bias_gelu seed=cuda_wgmma ;;
    linear | swiglu_up) seed=cuda_wgmma ;;
  esac
  case $task in linear) more="--contender cublas" ;; esac
  evolved=${EVOLVED:-$here/evolved/h100}/$1
  if [ -f "$evolved/run.db" ]; then evolved=$evolved:${EVOLVED_ID:-best}; elif [ -f "$evolved/kernel.cu" ]; then evolved=$evolved/kernel.cu; else evolved=; fi
  $limit $cultivar evaluate "$task" "${evolved:-${seed:-$(good "$task")}}" --target cuda --workloads "$set" --contender torch --contender torch_compile \
    --contender triton $more --python "$python"
}
prepare() {  # names; with caches of their own, because programs with the same cache take turns at the GPU
  for name in "$@"; do
    (CULTIVAR_CACHE=$out/caches/$name && export CULTIVAR_CACHE && rivals "$name" >"$out/prepare_$name.txt" 2>&1) &
  done
  wait
  find "$TORCHINDUCTOR_CACHE_DIR" -name '*.best_config' -delete
}
suite() {  # file, name
  $limit $cultivar suite "$1" --run-dir "$out/$(basename "$1" .yaml)" --only "$2" --trust --set "evaluation.python=$python" \
    ${WALL:+--set "budget.wall=$WALL"}
}
part() {
  case $1 in
    seeds_1) check softmax rmsnorm add_rmsnorm layernorm ;;
    seeds_2) check silu_mul gelu transpose rope row_reduce ;;
    seeds_3) check linear swiglu_up cross_entropy rmsnorm_backward ;;
    prepare_1) prepare softmax add_rmsnorm rmsnorm layernorm ;;
    prepare_2) prepare silu_mul gelu transpose rope ;;
    prepare_3) prepare cross_entropy row_reduce rmsnorm_backward linear_decode ;;
    prepare_4) prepare linear_bias_gelu swiglu_up_decode linear swiglu_up ;;
    rivals_*) rivals "${1#rivals_}" ;;
    suite_*) suite "$configs/gpu_suite.yaml" "${1#suite_}" ;;
    tuned_*) suite "$here/tuned.yaml" "${1#tuned_}" ;;
    evolve_*) suite "$here/evolve.yaml" "${1#evolve_}" ;;
    table) for file in "$configs/gpu_suite.yaml" "$here/tuned.yaml" "$here/evolve.yaml"; do
      folder=$out/$(basename "$file" .yaml)
      [ ! -d "$folder" ] || $cultivar suite "$file" --run-dir "$folder" --table || true
    done ;;
    *) echo "prove.sh: unknown part $1; prove.sh list names them all" >&2; return 2 ;;
  esac
}
failed=0
for each in "$@"; do
  code=0
  part "$each" >"$out/$each.txt" 2>&1 || code=$?
  [ $code -eq 0 ] || failed=1
  echo "$each: exit code $code, $out/$each.txt"
done
exit $failed
