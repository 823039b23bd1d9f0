#!/bin/sh
# Reproduces best/ on a machine with an H100 or H200, in one command of about two minutes after Cultivar is built:
#   sh experiments/attention_h200/reproduce.sh [OUT]        OUT: a folder for what is said (default: reproduced)
# 1. builds best/, with nothing of Cultivar's, and checks it against its oracle;
# 2. runs its PyTorch module's own test, and times it in turn with PyTorch's attention, if $PYTHON (default: python3) has PyTorch;
# 3. judges it as the search did, in turn with cuDNN and FlashAttention-3 where Cultivar was built with them
#    (evaluators/contenders/README.md), on avo_mha, and on the shapes that no search saw, and checks fa_sweep.
# CULTIVAR names a program that is built already; otherwise ./cultivar builds it. summary.txt has the outcome; the exit
# code is 1 if something failed, 77 if there is no driver. What this machine cannot do is left out with its reason.
set -u
here=$(cd "$(dirname "$0")" && pwd)
best=$here/best build=$here/best/build python=${PYTHON:-python3}
[ -f "$best/bundle.json" ] || { echo "reproduce.sh: there is no $best: cultivar export writes it" >&2; exit 2; }
command -v nvidia-smi >/dev/null || { echo "reproduce.sh: this machine has no NVIDIA driver (nvidia-smi)" >&2; exit 77; }
out=${1:-reproduced}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
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
}
# The knobs, as evaluate takes them: NAME=VALUE,NAME=VALUE
knobs=$(sed -n '/"configuration": {/,/}/p' "$best/bundle.json" | sed -n 's/^ *"\([A-Z_0-9]*\)": "\{0,1\}\([A-Za-z0-9_]*\)"\{0,1\},*$/\1=\2/p' |
  paste -sd, -)
variant=$best/kernel.cu${knobs:+@$knobs}

command -v make >/dev/null || export CMAKE_GENERATOR=Ninja
step build 'rror' sh -c "cmake -S '$best' -B '$build' && cmake --build '$build' --parallel"
step verify 'verified|FAILED' "$build/verify" --quick
if "$python" -c 'import torch' 2>/dev/null; then
  step pytorch '^(passed|FAILED|skipped):' "$python" "$best/pytorch/test_cultivar_attention_forward.py"
  step beside_pytorch '^\||FAILED' "$python" "$here/beside_pytorch.py" "$best"
else
  say "pytorch: left out, $python has no PyTorch (PYTHON names another)"
fi
# shellcheck disable=SC2086
step avo_mha 'TFLOPS|_D128_|rejected' "$cultivar" evaluate attention_forward "$variant" --target cuda --workloads avo_mha $contenders
# shellcheck disable=SC2086
step holdout 'TFLOPS|_D128_|rejected' "$cultivar" evaluate attention_forward "$variant" --target cuda --workloads holdout $contenders
step fa_sweep 'passed|rejected' "$cultivar" evaluate attention_forward "$variant" --target cuda --workloads fa_sweep --stop-after edge
say "$([ $failed -eq 0 ] && echo 'all of it went well' || echo 'something failed')"
exit $failed
