#!/usr/bin/env bash
# on_card.sh OLD_CULTIVAR NEW_CULTIVAR [MINUTES] [JOBS]: the cuda mutants on a card. Can be started again: it goes on.
set -u
cd "$(dirname "$0")"
old=$1 new=$2 minutes=${3:-6} jobs=${4:-16}
end=$(date -d "+$minutes minutes" +%H:%M)
third=$(date -d "+$((minutes / 2 + 1)) minutes" +%H:%M)
python3 mutants.py prove --target cuda --jobs "$jobs" --cache /tmp/judge_mutants_cuda
python3 mutants.py judge --target cuda --device cuda --program "$old" --name baseline --evaluations 1 --jobs "$jobs" \
  --stop-after confirm --work /tmp/judge_mutants_old --timeout 120 --until "$third"
python3 mutants.py judge --target cuda --device cuda --program "$new" --name new --of baseline --evaluations 3 --jobs "$jobs" \
  --work /tmp/judge_mutants_new --timeout 120 --until "$end"
python3 mutants.py table --target cuda --name new --of baseline --list
# Results lie beside this script; where a run gives back what is under $OUT, they go there.
if [ -n "${OUT:-}" ]; then cp proofs_cuda.jsonl judged_cuda_*.jsonl "$OUT"/; fi
