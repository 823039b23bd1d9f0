#!/bin/sh
# on_card.sh OUT SECONDS [SUITE...]: one call of the campaign, in a folder that prepare.sh made. Ends within SECONDS, and writes OUT/runs.tar.gz
# (all records and letters), OUT/SUITE.md (the tables) and OUT/log_N.txt. Without SUITE: all of them.
#   runs.tar.gz beside this script: the calls before, which this one continues (without it: what lies in WORK)
#   answers/SUITE/TASK/ID.md beside this script: answers to letters, see letters.py
#   TURN=60s   how long each search works before the next one has its turn;   PYTHON=python3   a Python with PyTorch
#   LANES=4    how many suites share a card at a time, which their kernels have in turns (on the cpu: 1)
#   CARDS=N    how many cards share the suites (default: all that nvidia-smi lists; 0: the cpu suites on this machine's cores)
#   WORK=/tmp/cultivar_kernelbench   where it works: the same in each call, since records name the contenders by their paths
#   CULTIVAR=PROGRAM   default: ../bin/cultivar
# The exit code is 1 if a suite failed; see its log.
set -u
case ${2:-} in '') sed -n '2,/^set -u/{/^#/p}' "$0" >&2; exit 2 ;; esac
began=$(date +%s)
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd) seconds=$2
shift 2
cultivar=${CULTIVAR:-$here/../bin/cultivar} python=${PYTHON:-python3} work=${WORK:-/tmp/cultivar_kernelbench} turn=${TURN:-60s}
cards=${CARDS:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')}
kind=gpu
lanes=${LANES:-4}
# Each worker draws its own inputs, up to 6.4 GB and three times that in the memory of the host, and keeps them for the next kernel.
workers='--set evaluation.workers_per_device=1'
if [ "$cards" -eq 0 ]; then kind=cpu lanes=1 workers=; fi
rm -rf "$work/tasks" "$work/suites" "$work/taken"
mkdir -p "$work/runs" "$work/taken" && cp -r "$here/tasks" "$here/suites" "$work/" || exit 2
if [ -f "$here/runs.tar.gz" ]; then rm -rf "$work/runs" && tar xzf "$here/runs.tar.gz" -C "$work" || exit 2; fi
for answer in "$here"/answers/*/*/*; do  # to letters that are still open
  task=$(dirname "$answer") id=$(basename "$answer")
  letters=$work/runs/$(basename "$(dirname "$task")")/$(basename "$task")/letters
  [ ! -f "$letters/requests/${id%.*}.md" ] || cp "$answer" "$letters/answers/"
done
export CULTIVAR_CACHE="${CULTIVAR_CACHE:-$work/cache}" TORCHINDUCTOR_CACHE_DIR="$work/inductor" TRITON_CACHE_DIR="$work/triton"
suites=${*:-$(cd "$here/suites/$kind" && ls | sed 's/\.yaml$//')}
left() { echo $((seconds - 40 - $(date +%s) + began)); }  # 40 s: a suite that is stopped, tables and the tar
search() {  # suite
  [ "$(left)" -gt 10 ] || return 0
  timeout -s INT -k 25 "$(left)" "$cultivar" suite "$work/suites/$kind/$1.yaml" --run-dir "$work/runs/$1" --trust --turn "$turn" \
    --set "evaluation.python=$python" $workers
  code=$?
  [ $code -eq 0 ] || [ $code -eq 130 ] || [ $code -eq 124 ]
}
part() {  # card: takes one suite after another that no other lane has taken
  failed=0
  for suite in $suites; do
    mkdir "$work/taken/$suite" 2>/dev/null || continue
    if [ $kind = gpu ]; then CUDA_VISIBLE_DEVICES=$1 && export CUDA_VISIBLE_DEVICES; fi
    search "$suite" || failed=1
  done
  return $failed
}
pids=
lane=0
while [ "$lane" -lt "$((lanes * (cards > 0 ? cards : 1)))" ]; do
  card=$((cards > 0 ? lane % cards : 0))
  part "$card" >"$out/log_$lane.txt" 2>&1 &
  pids="$pids $!"
  lane=$((lane + 1))
done
failed=0
for pid in $pids; do wait "$pid" || failed=1; done
for suite in $suites; do
  [ -f "$work/runs/$suite/table.md" ] || continue
  cp "$work/runs/$suite/table.md" "$out/$suite.md"
  cp "$work/runs/$suite/table.json" "$out/$suite.json"
done
tar czf "$out/runs.tar.gz" -C "$work" --exclude=checkpoints --exclude=build runs
open=$(find "$work/runs" -path '*/letters/requests/*.md' -not -path '*/closed/*' | wc -l)
echo "$(($(date +%s) - began)) s, $open letters wait for answers, $(du -k "$out/runs.tar.gz" | cut -f1) KiB in $out/runs.tar.gz"
exit $failed
