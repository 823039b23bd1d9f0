#!/bin/sh
# bundle.sh BUILD_DIR OUT_DIR: programs, their libraries and the sources that tests read, in one folder of less than
# 64 MiB that runs on any machine with a driver, a CUDA toolkit (NVRTC) and g++: OUT_DIR/run.sh. Its layout is that of a
# house (bin/, configs/), so that the program `cultivar` in it works as it does in a source folder.
set -eu
build=$1 out=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/source/tests"
for name in cultivar cultivar-worker-cuda cultivar-worker-cpu cultivar-cell cultivar-nvrtc bench-gpu-judgements \
  bench-cudnn-independent tests-gpu; do
  program=$build/bin/$name
  strip -o "$out/bin/$name" "$program"
  ldd "$program" | awk '$2 == "=>" { print $3 }'
done | sort -u | grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | while read -r library; do
  cp -L "$library" "$out/lib/"
done
for contender in "$build"/lib/libcultivar-contender-*.so; do  # their vendors' libraries are on the machine
  if [ -e "$contender" ]; then strip -o "$out/lib/$(basename "$contender")" "$contender"; fi
done
mkdir -p "$out/source/evaluators/contenders"
cp "$source/evaluators/contenders/cultivar_contender.h" "$out/source/evaluators/contenders/"
cp -r "$source/configs" "$out/"
cp -r "$source/configs" "$out/source/"
cp -r "$source/tests/kernels" "$out/source/tests/"
cp "$source/tests/gpu/run.sh" "$out/"
kib=$(du -sk "$out" | cut -f1)
echo "$out: $kib KiB"
if [ "$kib" -gt 65536 ]; then
  echo "bundle.sh: more than 64 MiB" >&2
  exit 1
fi
