#!/bin/sh
# Runs every test and figure that needs a GPU, from a folder made by bundle.sh or from a build, in under 8 minutes; a
# short table comes last. run.sh [OUT_DIR]
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/out}
mkdir -p "$out"
bin=$here/bin source=$here/source
seeds=$source/configs/tasks/attention_forward/seeds
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,temperature.gpu,power.draw --format=csv,noheader
date -u

timed() {  # name limit command...
  name=$1 limit=$2
  shift 2
  begin=$(date +%s)
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  code=$?
  echo "$name $code $(($(date +%s) - begin))" >>"$out/table"
}
: >"$out/table"
timed session 100 "$bin/tests-gpu" --run_test=cuda_session --log_level=message --color_output=no
timed misbehaviour 160 "$bin/tests-gpu" --run_test=cuda_misbehaviour --log_level=message --color_output=no
timed judgements 90 "$bin/bench-gpu-judgements" "$source/configs/tasks/attention_forward" avo_mha 40 "$seeds"/cuda_wgmma.cu
timed smoke_failures 40 "$bin/bench-gpu-judgements" "$source/configs/tasks/softmax" gpu 10 \
  "$source/tests/kernels/cuda/cheats/answers_a_constant.cu"
timed profile 150 "$bin/tests-gpu" --run_test=cuda_profile --log_level=message --color_output=no

echo "--- profiles"
cut -c1-180 "$out"/profile.log
echo "--- what failed, and figures"
grep -hE "ceilings|MiB: |a timed run|fate:|error: in|judged|measured|TFLOPS" "$out"/session.log "$out"/misbehaviour.log \
  "$out"/judgements.log "$out"/profile.log | cut -c1-220
tail -n 1 "$out"/smoke_failures.log
echo "--- step, exit code, seconds"
cat "$out/table"
