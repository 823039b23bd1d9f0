#!/bin/sh
# What exactness costs: the flagship (ideas/one_pass.cu, #511) and the kernel whose heaviest weights need no rounding
# (ideas/exact_peaks.cu, with other values of what it watches), interleaved with cuDNN and FlashAttention-3 on an H100 or H200. Each is
# checked, timed, and its errors are compared with the contenders' on each stress distribution. About 3 minutes.
#   exact.sh OUT [SET...]      OUT: a folder for what is said; SET: workload sets (default: avo_mha)
# CULTIVAR names a program that is built already; otherwise ./cultivar builds it. SECONDS_EACH (150) is the limit of a set.
set -u
case ${1:-} in '' | -h | --help) sed -n 2,6p "$0" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
command -v nvidia-smi >/dev/null || { echo "exact.sh: this machine has no NVIDIA driver (nvidia-smi)" >&2; exit 77; }
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit 2
shift
cultivar=${CULTIVAR:-$here/../../cultivar}
cultivar=$(command -v "$cultivar") || { echo "exact.sh: there is no program ${CULTIVAR:-$here/../../cultivar}" >&2; exit 2; }
folders="$(dirname "$cultivar")/../lib $(dirname "$cultivar")/build/release/lib"
. "$here/vendors.sh"
python=${PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null && contenders="$contenders --contender torch --python $python"  # FlashAttention-2 is in it

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader | tee "$out/exact.txt"
date -u | tee -a "$out/exact.txt"
peaks=$here/ideas/exact_peaks.cu
failed=0
for set in "${@:-avo_mha}"; do
  # shellcheck disable=SC2086
  timeout -k 5 "${SECONDS_EACH:-150}" "$cultivar" evaluate attention_forward "$here/ideas/one_pass.cu" "$peaks" "$peaks@PEAK=1,HEAVY=8" \
    "$peaks@WATCH=all,PEAK=1,HEAVY=8" --target cuda --workloads "$set" $contenders >"$out/exact_$set.txt" 2>&1 </dev/null
  code=$?
  [ $code -eq 0 ] || failed=1
  { echo "== $set (exit code $code)"; cat "$out/exact_$set.txt"; } | tee -a "$out/exact.txt"
done
exit $failed
