#!/bin/sh
# Heads of 256 of the seed cuda_sections (even_sections), before and after they were mended (multiply_again), on an H100 or H200:
#   check_d256.sh prepare BUNDLE           where the source tree and git are; BUNDLE: a folder that tests/gpu/bundle.sh made. Adds the
#                                          kernel as it was (BUNDLE/before) and tasks with the shapes and values below (BUNDLE/checks)
#   check_d256.sh BUNDLE OUT [PART...]     on the card. OUT gets PART.txt. PART, in the order of importance (default: all):
#     tails      (25 s)   causal, ordinary values, S_kv = S_q - 1 (mod 64): the kernel of before must be refused, today's must pass
#     outliers   (20 s)   keys 30 times as large from 257 keys up, one dimension of q and k far above the others, peaked rows; the same
#     heads      (15 s)   512 keys, 4 heads and 5; the same
#     speed      (40 s)   after against before in random order, on the set d256 (`cultivar compare`)
#     all        (25 s)   today's kernel through all stages of the task, holdout, memcheck and racecheck included
#     contenders (25 s)   today's kernel beside cuDNN and FlashAttention-3 on the set d256
#   and only by name:
#     heavy      (25 s)   evolved/d64.cu with HEAVY=32, which has smaller errors, against itself on the set d64
# The exit code is 1 if a part did not end as it must. LIMIT: seconds for each command (60).
set -u
case ${1:-} in '' | -h | --help) sed -n '2,/^set -u/{/^#/p}' "$0" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
before_mending=54e2c4e4

# task_with NAME: a copy of the task whose shapes and values are those of standard input.
task_with() {
  folder=$bundle/checks/$1/attention_forward
  rm -rf "${folder%/*}" && mkdir -p "${folder%/*}" && cp -r "$bundle/configs/tasks/attention_forward" "$bundle/configs/tasks/headers" "${folder%/*}/" &&
    { sed '/^checks:/,$d' "$bundle/configs/tasks/attention_forward/task.yaml"; cat; sed -n '/^workload_sets:/,$p' "$bundle/configs/tasks/attention_forward/task.yaml"; } >"$folder/task.yaml"
}

if [ "$1" = prepare ]; then
  bundle=$(cd "${2:?the bundle}" && pwd) || exit 2
  mkdir -p "$bundle/before" || exit 2
  (cd "$here/../.." && git show "$before_mending:experiments/attention_h200/ideas/even_sections.cu") >"$bundle/before/even_sections.cu" || exit 1
  common='  smoke:
    - {B: 1, H: 2, S_q: 64, D: 256}
    - {B: 1, H: 2, S_q: 64, D: 256, causal: 1}
  edge:
    - {B: 1, H: 1, S_q: 127, D: 256}
    - {B: 1, H: 1, S_q: 129, D: 64, causal: 1, window: 1, softcap: 1}
    - {B: 1, H: 2, S_q: 192, D: 64, causal: 1, window: 50}'
  task_with tails <<EOF || exit 1
checks:
$common
  sweep:
    - {B: 1, H: 2, S_q: 2, S_kv: 66, D: 256, causal: 1}
    - {B: 1, H: 2, S_q: 2, S_kv: 65, D: 256, causal: 1}
    - {B: 1, H: 2, S_q: 66, S_kv: 65, D: 256, causal: 1}
    - {B: 1, H: 2, S_q: 64, S_kv: 127, D: 256, causal: 1}
    - {B: 1, H: 2, S_q: 1000, S_kv: 2023, D: 256, causal: 1}
    - {B: 2, H: 4, H_kv: 2, S_q: 130, S_kv: 257, D: 256, causal: 1}
  stress_shapes:
    - {B: 1, H: 2, S_q: 66, S_kv: 65, D: 256, causal: 1}
  stress:
    needle: {about: "one large value, all others zero", v: {kind: one_hot, a: 0, b: 100, axis: 1}}

EOF
  task_with outliers <<EOF || exit 1
checks:
$common
  sweep:
    - {B: 1, H: 2, S_q: 128, D: 256}
  stress_shapes:
    - {B: 1, H: 2, S_q: 64, S_kv: 257, D: 256}
    - {B: 1, H: 2, S_q: 128, S_kv: 640, D: 256}
    - {B: 2, H: 3, S_q: 320, D: 256, causal: 1}
    - {B: 1, H: 4, H_kv: 1, S_q: 200, S_kv: 1300, D: 256, causal: 1}
  stress:
    outlier_keys: {about: "one key in a hundred is 30 times as large", k: {kind: outliers, a: 1, b: 30, axis: 3}}
    outlier_dimension: {about: "one dimension of queries and keys is 40 times as large", q: {kind: hot, a: 1, b: 40, axis: 3}, k: {kind: hot, a: 1, b: 40, axis: 3}}
    rising_dimension: {about: "queries and keys grow along the dimensions", q: {kind: rising, a: 8, b: 1, axis: 3}, k: {kind: rising, a: 8, b: 1, axis: 3}}
    peaked: {about: "few keys have almost all of the weight", q: {kind: normal, a: 0, b: 3}, k: {kind: normal, a: 0, b: 3}}
    extreme_range: {about: "logits over many orders of magnitude", q: {kind: spread, a: 1, b: 2.5}}

EOF
  task_with heads <<EOF || exit 1
checks:
$common
  sweep:
    - {B: 1, H: 4, S_q: 512, D: 256}
    - {B: 1, H: 5, S_q: 512, D: 256}
    - {B: 3, H: 7, S_q: 500, S_kv: 512, D: 256}
  stress_shapes:
    - {B: 1, H: 5, S_q: 512, D: 256}
  stress:
    outlier_keys: {about: "one key in a hundred is 30 times as large", k: {kind: outliers, a: 1, b: 30, axis: 3}}

EOF
  echo "$bundle: before, checks"
  exit 0
fi

[ $# -ge 2 ] || { echo "check_d256.sh: BUNDLE OUT [PART...]; without arguments it says more" >&2; exit 2; }
bundle=$(cd "$1" && pwd) && mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
shift 2
[ -f "$bundle/before/even_sections.cu" ] || { echo "check_d256.sh: $bundle has no before/even_sections.cu: check_d256.sh prepare $bundle makes it" >&2; exit 2; }
folders=$bundle/lib
. "$here/vendors.sh"
cultivar="timeout -s INT -k 10 ${LIMIT:-60} $bundle/bin/cultivar"
after=$here/../../configs/tasks/attention_forward/seeds/cuda_sections.cu old=$bundle/before/even_sections.cu
! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader

must() {  # passed | refused, then what to evaluate; three evaluations of what must be refused, because each draws anew
  wanted=$1
  shift
  # shellcheck disable=SC2086
  $cultivar evaluate "$@" --target cuda --workloads d256 --json >"$out/.json" 2>"$out/.log" </dev/null
  code=$?
  if grep -qE '"verdict": "(passed|measured)"' "$out/.json"; then verdict=passed; elif grep -q '"verdict": "rejected"' "$out/.json"; then verdict=refused; else verdict="no verdict (exit code $code)"; fi
  echo "$2: must be $wanted: $verdict"
  grep -E '"(stage|reason)":' "$out/.json"
  [ "$verdict" = refused ] && grep '"diagnostics":' "$out/.json" | cut -c1-600
  case $verdict in no*) tail -n 5 "$out/.log" ;; esac
  [ "$verdict" = "$wanted" ]
}
pair() {  # a task of BUNDLE/checks
  result=0
  must passed "$bundle/checks/$1/attention_forward" "$after" --stop-after edge || result=1
  must refused "$bundle/checks/$1/attention_forward" "$old" --stop-after edge || result=1
  return $result
}
part() {
  case $1 in
    tails | outliers | heads) pair "$1" ;;
    speed) $cultivar compare attention_forward "$after" "$old" --target cuda --workloads d256 --max-seconds 25 ;;
    all) must passed attention_forward "$after" --stop-after confirm ;;
    contenders) # shellcheck disable=SC2086
      $cultivar evaluate attention_forward "$after" --target cuda --workloads d256 $contenders ;;
    heavy) $cultivar compare attention_forward "$here/evolved/d64.cu@HEAVY=32" "$here/evolved/d64.cu" --target cuda --workloads d64 --max-seconds 20 ;;
    *) echo "check_d256.sh: there is no part $1" >&2; return 2 ;;
  esac
}
failed=0
[ $# -gt 0 ] || set -- tails outliers heads speed all contenders
for each in "$@"; do
  began=$(date +%s) ended=0
  part "$each" >"$out/$each.txt" 2>&1 </dev/null || ended=$?
  # An undecided comparison has its own exit code; its figures count.
  case $each in speed | heavy) ;; *) [ $ended -eq 0 ] || failed=1 ;; esac
  echo "== $each: exit code $ended, $(($(date +%s) - began)) s" && grep -av '^compiling' "$out/$each.txt"
done
rm -f "$out/.json" "$out/.log"
exit $failed
