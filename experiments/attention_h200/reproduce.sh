#!/bin/sh
# Reproduces what this folder says on a machine with an H100 or H200, in one command of at most six minutes after Cultivar is built:
#   sh experiments/attention_h200/reproduce.sh [OUT]        OUT: a folder for what is said (default: reproduced)
# 1. unpacks and builds best.tar.xz, with nothing of Cultivar's, and checks it against its oracle;
# 2. runs its PyTorch module's own test, and times it in turn with PyTorch's attention, if $PYTHON (default: python3) has PyTorch;
# 3. judges, as a search does, in turn with cuDNN and FlashAttention-3 where Cultivar was built with them
#    (evaluators/contenders/README.md): the kernel of best.tar.xz, for prompts on avo_mha, for heads of 64 and for few queries on
#    their sets, and the fastest seed of attention_backward. Errors beside the contenders' on each distribution are in OUT/STEP.txt.
# CULTIVAR names a program that is built already; otherwise ./cultivar builds it. STEPS names the steps to run (all). summary.txt has
# the outcome; the exit code is 1 if something failed, 77 if there is no driver. What this machine cannot do is left out with its reason.
set -u
case ${1:-} in -h | --help) sed -n 2,10p "$0"; exit 0 ;; esac
steps="build verify pytorch beside_pytorch avo_mha d64 decode backward"
for each in ${STEPS:-}; do
  case " $steps " in *" $each "*) ;; *) echo "reproduce.sh: STEPS: there is no step $each; the steps are $steps" >&2; exit 2 ;; esac
done
here=$(cd "$(dirname "$0")" && pwd)
archive=$here/best.tar.xz python=${PYTHON:-python3}
[ -f "$archive" ] || { echo "reproduce.sh: there is no $archive" >&2; exit 2; }
command -v nvidia-smi >/dev/null || { echo "reproduce.sh: this machine has no NVIDIA driver (nvidia-smi)" >&2; exit 77; }
out=${1:-reproduced}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
best=$out/best build=$out/best/build
[ -f "$best/bundle.json" ] || tar xJf "$archive" -C "$out" || exit 2
cultivar=${CULTIVAR:-$here/../../cultivar}
cultivar=$(command -v "$cultivar") || { echo "reproduce.sh: there is no program ${CULTIVAR:-$here/../../cultivar}" >&2; exit 2; }
folders="$(dirname "$cultivar")/../lib $(dirname "$cultivar")/build/release/lib"
. "$here/vendors.sh"
[ -n "$contenders" ] || echo "reproduce.sh: this Cultivar was built without cuDNN's and FlashAttention-3's headers; no ratios to them"

failed=0
say() { echo "$*" | tee -a "$out/summary.txt"; }
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader >"$out/summary.txt"
date -u >>"$out/summary.txt"
step() {  # name, pattern of the lines to sum up, command...
  name=$1 pattern=$2
  shift 2
  echo "== $name"
  "$@" >"$out/$name.txt" 2>&1 </dev/null
  code=$?
  say "$name: $([ $code -eq 0 ] && echo well || echo "exit code $code; see $out/$name.txt")"
  grep -aE "$pattern" "$out/$name.txt" | sed 's/^/    /' | tee -a "$out/summary.txt"
  [ $code -eq 0 ] || failed=1
  return $code
}
command -v make >/dev/null || export CMAKE_GENERATOR=Ninja
wanted() { case " ${STEPS:-$1} " in *" $1 "*) return 0 ;; esac; return 1; }
if wanted build; then step build 'rror' sh -c "cmake -S '$best' -B '$build' && cmake --build '$build' --parallel"; fi
verifying=
verified() { [ -z "$verifying" ] || wait "$verifying" || failed=1; verifying=; }
if wanted verify; then  # beside the next step, which is not timed either
  step verify 'verified|FAILED' "$build/verify" --quick &
  verifying=$!
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
  say "pytorch: left out, $python has no PyTorch (PYTHON names another)"
else
  if wanted pytorch; then step pytorch '^(passed|FAILED|skipped):' "$python" "$best/pytorch/test_cultivar_attention_forward.py"; fi
  verified
  if wanted beside_pytorch; then step beside_pytorch '^\||FAILED' "$python" "$here/beside_pytorch.py" "$best"; fi
fi
verified
judge() {  # step, task, set, kernels...; every contender of this build that knows the task
  name=$1 task=$2 set=$3
  shift 3
  if ! wanted "$name"; then return; fi
  # shellcheck disable=SC2086
  step "$name" 'TFLOPS|_D[0-9]+_|Beside|rejected' "$cultivar" evaluate "$task" "$@" --target cuda --workloads "$set" $contenders
}
judge avo_mha attention_forward avo_mha "$here/../../configs/tasks/attention_forward/seeds/cuda_sections.cu"
judge d64 attention_forward d64 "$here/evolved/d64.cu"
judge decode attention_forward decode cuda_split@LEAST=1,WARPS=2,WAVES=1,KEYS=32  # by tune
case $contenders in *flash_attention_3*) contenders="--contender flash_attention_3" ;; *) contenders= ;; esac  # cudnn.so: forward only
judge backward attention_backward gpu cuda_persistent
say "$([ $failed -eq 0 ] && echo 'all of it went well' || echo 'something failed')"
exit $failed
