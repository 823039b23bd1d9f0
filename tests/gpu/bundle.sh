#!/bin/sh
# bundle.sh BUILD_DIR OUT_DIR: programs, their libraries and the sources that tests read, in one folder that runs on any
# machine with a driver, a CUDA toolkit (NVRTC) and g++: OUT_DIR/run.sh.
set -eu
build=$1 out=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/source/tests"
for program in "$build"/bin/cultivar-worker-cuda "$build"/bin/cultivar-nvrtc \
  "$build"/bin/bench-gpu-judgements "$build"/bin/bench-cudnn-independent "$build"/bin/tests-gpu; do
  strip -o "$out/bin/$(basename "$program")" "$program"
  ldd "$program" | awk '$2 == "=>" { print $3 }'
done | sort -u | grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | while read -r library; do
  cp -L "$library" "$out/lib/"
done
for contender in "$build"/lib/libcultivar-contender-*.so; do  # their vendors' libraries are on the machine
  if [ -e "$contender" ]; then strip -o "$out/lib/$(basename "$contender")" "$contender"; fi
done
mkdir -p "$out/source/evaluators/contenders"
cp "$source/evaluators/contenders/cultivar_contender.h" "$out/source/evaluators/contenders/"
cp -r "$source/configs" "$out/source/"
cp -r "$source/tests/kernels" "$out/source/tests/"
cp "$source/tests/gpu/run.sh" "$out/"
du -sh "$out"
