#!/bin/sh
# bundle.sh BUILD_DIR OUT_DIR: collects programs, their libraries and the sources that tests read in one folder of less than
# 64 MiB that runs on any machine with a driver, a CUDA toolkit (NVRTC) and g++: OUT_DIR/run.sh. It has the layout of a
# source tree (bin/, configs/), so that its program `cultivar` works as in a source folder.
# If OUT_DIR exists, it must be empty or an earlier bundle, which is replaced.
set -eu
if [ $# -ne 2 ] || [ -z "$1" ] || [ -z "$2" ]; then
  echo "usage: bundle.sh BUILD_DIR OUT_DIR (as in: sh tests/gpu/bundle.sh build/release build/bundle)" >&2
  exit 2
fi
build=$1 out=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
marker=.cultivar-bundle
programs="cultivar cultivar-worker-cuda cultivar-worker-cpu cultivar-cell cultivar-nvrtc bench-gpu-judgements
  bench-gpu-gate bench-honest-under-load tests-gpu"
for name in $programs; do
  if [ ! -x "$build/bin/$name" ]; then
    echo "bundle.sh: $build has no bin/$name; build all targets first: cmake --build $build" >&2
    exit 1
  fi
done
if [ -e "$out" ] || [ -L "$out" ]; then
  if [ ! -d "$out" ] || { [ -n "$(ls -A "$out")" ] && [ ! -f "$out/$marker" ]; }; then
    echo "bundle.sh: $out exists and is not an earlier bundle (it has no $marker); give a new or empty folder" >&2
    exit 2
  fi
  rm -rf "$out"
fi
mkdir -p "$out/bin" "$out/lib" "$out/source/tests"
: >"$out/$marker"
if [ -x "$build/bin/bench-cudnn-independent" ]; then programs="$programs bench-cudnn-independent"; fi
for name in $programs; do
  program=$build/bin/$name
  strip -o "$out/bin/$name" "$program"
  ldd "$program" | awk '$2 == "=>" { print $3 }'
done | sort -u | grep -Ev '/(libstdc\+\+|libgcc_s|libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | while read -r library; do
  cp -L "$library" "$out/lib/"
done
for library in "$build"/lib/libcultivar-contender-*.so; do  # the contenders of this build; vendors' libraries are on the target machine
  if [ -e "$library" ]; then strip -o "$out/lib/$(basename "$library")" "$library"; fi
done
cp -r "$source/configs" "$out/"
mkdir -p "$out/source/evaluators/contenders"
cp "$source/evaluators/contenders/cultivar_contender.h" "$out/source/evaluators/contenders/"
cp -r "$source/configs" "$out/source/"
cp -r "$source/tests/kernels" "$out/source/tests/"
if [ -d "$source/evaluators/contenders" ]; then  # tests compile a contender with its header
  mkdir -p "$out/source/evaluators/contenders"
  cp "$source"/evaluators/contenders/*.h "$out/source/evaluators/contenders/"
fi
cp "$source/tests/gpu/run.sh" "$source/tests/gpu/honest_under_load.sh" "$out/"
kib=$(du -sk "$out" | cut -f1)
echo "$out: $kib KiB"
if [ "$kib" -gt 65536 ]; then
  echo "bundle.sh: the bundle exceeds 64 MiB" >&2
  exit 1
fi
