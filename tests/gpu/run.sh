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

# Contenders find their vendors' libraries by name; where those lie elsewhere than toolkits usually do, they are found so.
vendors=
for library in libcudart.so.13 libcublasLt.so.13 libcudnn.so.9; do
  found=$(find /usr/local /opt /usr/lib -name "$library" -not -path "*/stubs/*" 2>/dev/null | head -n 1)
  echo "$library: ${found:-not found}"
  if [ -n "$found" ]; then vendors=$vendors$(dirname "$found"):; fi
done

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
timed contenders 100 env "LD_LIBRARY_PATH=$vendors$LD_LIBRARY_PATH" \
  "$bin/tests-gpu" --run_test=cuda_contender --log_level=message --color_output=no
timed cudnn_independent 90 env "LD_LIBRARY_PATH=$vendors$LD_LIBRARY_PATH" \
  "$bin/bench-cudnn-independent" "$source/configs/tasks/attention_forward" avo_mha 50
timed smoke_failures 40 "$bin/bench-gpu-judgements" "$source/configs/tasks/softmax" gpu 10 \
  "$source/tests/kernels/cuda/cheats/answers_a_constant.cu"

grep -hE "ceilings|MiB: |a timed run|fate:|error: in|judged|measured|TFLOPS" "$out"/session.log "$out"/misbehaviour.log \
  "$out"/judgements.log | cut -c1-220
tail -n 1 "$out"/smoke_failures.log
grep -hE "^contender|beside:|waits:|error:|refuses" "$out"/contenders.log | cut -c1-260
cat "$out"/cudnn_independent.log
echo "--- step, exit code, seconds"
cat "$out/table"
