#!/bin/bash
# What the judge is to be shown on a machine with one GPU or two and many cores, in calls of limited time:
#   card.sh pack OLD_BUILD OUT.tar.xz    where git and both builds are: packs the program of this tree, that of 54e2c4e4 (OLD_BUILD) and what both read
#   card.sh run RESULTS SECONDS PART...  in the unpacked folder: runs the parts at the same time until SECONDS are over, and goes on where an earlier call
#                                        stopped. RESULTS gets the files that belong beside this script, and PART.txt
# Parts: cpu (the scored mutants), cuda (mutants that the old program has not judged yet, then the scored ones), registers (20 mutants),
#        index (every kernel of the repository up to confirm), honest (checks alone), load (honest_under_load), tests (tests/gpu/run.sh),
#        d256, large (the scripts of attention_h200 and gpu_suite), judgements and cost (old and new in turn; alone).
# GPU parts take the cards in turn; the cpu parts take the upper half of the cores, the others the lower half.
# Nothing here kills by name: programs of the machine may have similar ones.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case ${1:-} in
  pack)
    [ $# -eq 3 ] || { sed -n '2,12p' "$0" >&2; exit 2; }
    set -e
    root=$(cd "$here/../.." && pwd) old=$(cd "$2" && pwd) out=$(realpath "$3")
    work=$(mktemp -d "${TMPDIR:-/tmp}/cultivar-card-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    sh "$root/tests/gpu/bundle.sh" "$root/build/release" "$work/new" >&2
    mkdir -p "$work/new/experiments" "$work/old/bin" "$work/old/lib" "$work/git"
    (cd "$root" && git archive HEAD experiments/judge_mutants experiments/attention_h200 experiments/gpu_suite experiments/quickstart \
      experiments/two_hours_cpu experiments/mailbox_evolution) | tar x -C "$work/new"
    find "$work/new/experiments" \( -name '*.db.gz' -o -name '*.svg' -o -name '*.tar.xz' -o -name '*.png' \) -delete
    sh "$root/experiments/attention_h200/check_d256.sh" prepare "$work/new" >&2
    sh "$root/experiments/gpu_suite/check_large.sh" prepare "$work/new" >&2
    for kernel in $(sed -n 's/.*"kernel": "\([^"]*\)".*/\1/p' "$here"/mutants_c*.jsonl | sort -u); do  # as they were when mutants were made
      mkdir -p "$work/base/${kernel%/*}"
      git -C "$root" show "54e2c4e4:$kernel" >"$work/base/$kernel"
    done
    printf '#!/bin/sh\nfor last; do :; done\nexec cat "$PACK/base/${last#*:}"\n' >"$work/git/git"
    chmod +x "$work/git/git"
    for name in cultivar cultivar-worker-cuda cultivar-worker-cpu cultivar-cell cultivar-nvrtc bench-gpu-judgements; do
      strip -o "$work/old/bin/$name" "$old/bin/$name"
      ldd "$old/bin/$name" | awk '$2 == "=>" { print $3 }'
    done | sort -u | grep -Ev '/(libstdc\+\+|libgcc_s|libc|libm|libdl|libpthread|librt)\.so' | while read -r library; do
      [ -e "$work/new/lib/${library##*/}" ] || cp -L "$library" "$work/old/lib/"
    done
    (cd "$root" && git archive 54e2c4e4 configs) | tar x -C "$work/old"
    tar c -C "$work" new old base git | xz -T0 -3 >"$out"
    ls -l "$out" >&2
    exit 0 ;;
  run) [ $# -ge 4 ] || { sed -n '2,12p' "$0" >&2; exit 2; } ;;
  *) sed -n '2,12p' "$0" >&2; exit 2 ;;
esac
mkdir -p "$2" || exit 2
results=$(cd "$2" && pwd) end=$(($(date +%s) + $3))
shift 3
PACK=$(cd "$here/../../.." && pwd)
new=$PACK/new/bin/cultivar old=$PACK/old/bin/cultivar
export PACK new results PATH=$PACK/git:$PATH LD_LIBRARY_PATH=$PACK/new/lib:$PACK/old/lib PYTHON=${PYTHON:-python3}
cores=$(nproc) low=0-$(($(nproc) / 2 - 1))
cards=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') card=0
left() { echo $((end - $(date +%s) - ${1:-5})); }
pairs() { seq $((cores / 4)) $((cores / 2 - 1)); }  # of the upper half
evaluate() {  # card task file options name
  CUDA_VISIBLE_DEVICES=$1 CULTIVAR_CACHE=$results/../cache_$1 timeout 170 "$new" evaluate "$2" "$3" --target cuda $4 --stop-after confirm --checks-only \
    >"$results/index/$5.txt" 2>"$results/index/$5.err"
  echo "$5 $? $(grep -aE 'rejected|passed every' "$results/index/$5.txt" | head -n 1)" >>"$results/index.txt"
}
export -f evaluate
kernels() {  # task|file|options|name, evolved ones first
  for file in "$PACK"/new/experiments/gpu_suite/evolved/*.cu "$PACK"/new/experiments/gpu_suite/evolved/*/*/*.cu "$PACK"/new/experiments/attention_h200/evolved/*.cu \
    "$PACK"/new/experiments/attention_h200/ideas/*.cu "$PACK"/new/configs/tasks/*/seeds/*.cu; do
    [ -f "$file" ] || continue
    task=$(sed -n 's/^task: *//p' "$file" | head -n 1) options=
    case $task:$file in linear:*decode* | *skinny* | *few_queries*) options="--workloads decode" ;; *evolved/d64.cu) options="--workloads d64" ;; esac
    name=$(echo "${file#"$PACK"/new/}" | tr / _)
    grep -q "^$name " "$results/index.txt" 2>/dev/null || echo "$task|$file|$options|$name"
  done
}
mutants() { taskset -c "$1" timeout "$(left 10)" python3 mutants.py judge "${@:2}"; }
part() {  # part card
  cd "$here" || return 1
  export CUDA_VISIBLE_DEVICES=$2
  case $1 in
    cpu | honest)
      for pair in $(pairs); do
        first=$((2 * pair)) cache=/tmp/card_$pair
        if [ "$1" = cpu ]; then
          own=$(python3 -c "
import judging; ids = sorted(judging.accepted_ids('cpu', 'baseline')); n = max(1, $((cores / 4))); print(*ids[$pair % n::n])") || return 1
          # shellcheck disable=SC2086
          mutants "$first,$((first + 1))" --program "$new" --name "card_$pair" --evaluations 3 --jobs 2 --work "$cache" $own &
        else
          taskset -c "$first,$((first + 1))" timeout "$(left 10)" python3 mutants.py honest --program "$new" --name "card_$pair" --times 5 --jobs 2 --checks-only --work "$cache" &
        fi
      done
      wait ;;
    load)
      for pair in $(pairs); do
        taskset -c $((2 * pair)),$((2 * pair + 1)) timeout "$(left 5)" "$PACK/new/bin/bench-honest-under-load" "$(left 40)s" 8 >"$results/load_$pair.txt" 2>&1 &
      done
      wait
      cat "$results"/load_*.txt ;;
    registers)
      own=$(python3 -c "
import mutants, judging; k = {m['id']: m['kind'] for m in mutants.read_lines(mutants.mutants_file('cuda'))}
print(*[e['id'] for e in mutants.read_lines(judging.HERE / 'proofs_cuda.jsonl') if e.get('wrong') and k[e['id']] == 'registers'][:20])")
      # shellcheck disable=SC2086
      mutants "$low" --target cuda --device cuda --program "$new" --name card_registers --evaluations 1 --jobs 8 --work "/tmp/card_n$2" --timeout 170 $own ;;
    cuda)
      mutants "$low" --target cuda --device cuda --program "$old" --name baseline --evaluations 1 --jobs 8 --work "/tmp/card_o$2" --timeout 170 \
        --stop-after confirm --stop-at-accepted 110 --until "$(date -d "+$(($(left) * 45 / 100)) seconds" +%H:%M)"
      mutants "$low" --target cuda --device cuda --program "$new" --name card --of baseline --evaluations 3 --jobs 8 --work "/tmp/card_n$2" --timeout 170 ;;
    index)
      mkdir -p "$results/index"
      kernels | timeout "$(left)" taskset -c "$low" xargs -d '\n' -P 5 -I{} bash -c 'IFS="|" read -r t f o n <<<"{}"; evaluate '"$2"' "$t" "$f" "$o" "$n"'
      cat "$results/index.txt" ;;
    tests) (cd "$PACK/new" && CULTIVAR_GPU_SECONDS=$(left 60) timeout "$(left)" taskset -c "$low" sh run.sh "$results/gpu" check_build search export verify pytorch) ;;
    d256) (cd "$PACK/new" && LIMIT=150 timeout "$(left)" taskset -c "$low" sh experiments/attention_h200/check_d256.sh "$PACK/new" "$results/d256" all contenders) ;;
    large) (cd "$PACK/new" && LIMIT=150 timeout "$(left)" taskset -c "$low" sh experiments/gpu_suite/check_large.sh "$PACK/new" "$results/large" stages softmax_speed) ;;
    judgements)
      for program in new old new old new old; do
        (cd "$PACK/$program" && echo "== $program" && CULTIVAR_CACHE=/tmp/card_j$program taskset -c "$low" timeout 85 bin/bench-gpu-judgements configs/tasks/attention_forward avo_mha 35 2 fresh \
          configs/tasks/attention_forward/seeds/cuda_wgmma.cu | tail -n 1)
      done ;;
    cost)
      TIMEFORMAT='%U %S %R'
      for round in 1 2 3 4 5 6; do
        for program in old new; do
          for task in softmax matmul rmsnorm attention_forward layernorm; do
            seed=$(ls "$PACK/$program/configs/tasks/$task"/seeds/*.cpp | tail -n 1)
            echo "$round $program $task $( { time CULTIVAR_CACHE=/tmp/card_k$program taskset -c "$low" "$PACK/$program/bin/cultivar" evaluate "$task" "$seed" --stop-after edge >/dev/null 2>&1; } 2>&1)"
          done
        done
      done ;;
    *) echo "card.sh: there is no part $1" >&2; return 2 ;;
  esac
}
[ "$cards" -eq 0 ] || nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader >"$results/card.txt"
date -u >>"$results/card.txt"
for each in "$@"; do
  (part "$each" "$card" >>"$results/$each.txt" 2>&1) &
  case $each in cpu | honest | load | cost) ;; *) [ "$cards" -eq 0 ] || card=$(((card + 1) % cards)) ;; esac
done
wait
cp "$here"/judged_*card* "$here"/judged_cuda_baseline.jsonl "$here"/honest_*card* "$results/" 2>/dev/null
for each in "$@"; do echo "== $each"; tail -n 20 "$results/$each.txt" | tr '\r' '\n' | tail -n 20 | cut -c1-300; done
