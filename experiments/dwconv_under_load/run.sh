#!/bin/sh
# run.sh PROGRAM TASK_FOLDER OUT [SECONDS_OF_AN_ANSWER] [MINUTES] [LOOPS]: the search beside LOOPS busy loops (6; 0 on a machine that is
# loaded anyway), and how long a question was open.
# TASK_FOLDER: the task dwconv3x3 (a user's, not part of this repository). Run it for two programs in turn, on a machine with
# nothing else to do, and compare the two last lines.
set -eu
loads=
program=$1 task=$2 out=$3 seconds=${4:-45} minutes=${5:-22} loops=${6:-6}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cat > "$out/search.yaml" <<END
name: dwconv_under_load
task: $task
target: cpu
workloads: cpu_quick
holdout: cpu_holdout
seeds: [naive]
budget: {wall: ${minutes}m}
operators: {tune: 1, mutate: 3, crossover: 1, critique_repair: 2, plan: 0.5, reflect: 0.5}
asking: {in_flight: 2}
models:
  recorded: {provider: command, command: [python3, $here/answers.py, $out/answers, "$seconds"], prices: {input: 1, output: 1}}
END
for i in $(seq "$loops"); do
  sh -c 'while :; do :; done' &
  loads="$loads $!"
done
(while :; do cut -d" " -f1 /proc/loadavg; sleep 10; done) > "$out/load.txt" &
load_log=$!
trap 'kill $load_log $loads 2>/dev/null || true' EXIT INT TERM
"$program" run "$out/search.yaml" --run-dir "$out/run" > "$out/out.txt" 2>&1 || true
kill $load_log 2>/dev/null || true
python3 "$here/open_share.py" "$out/run/run.db"
