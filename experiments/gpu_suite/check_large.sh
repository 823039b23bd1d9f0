#!/bin/sh
# softmax and cross_entropy on large logits and on rows that are masked with the lowest number, before and after they were mended, and
# what that costs; attention of few queries with one large value. On an H100 or H200:
#   check_large.sh prepare BUNDLE           where the source tree and git are; BUNDLE: a folder that tests/gpu/bundle.sh made. Adds the
#                                           kernels as they were (BUNDLE/before) and tasks with the values below (BUNDLE/checks)
#   check_large.sh BUNDLE OUT [PART...]     on the card. OUT gets PART.txt. PART, in the order of importance (default: all):
#     softmax        (40 s)  the evolved kernels and the seed: those of before must be refused, today's must pass
#     cross_entropy  (20 s)  the same; the seeds were right
#     softmax_speed  (50 s)  #64, #85, the first session's kernel and the seed, each after against before, on the set gpu
#     cross_entropy_speed (15 s)  #100, the same
#     stages         (50 s)  each kernel of today through all stages of its task up to `edge`; those of the index up to `confirm`
#     needle         (40 s)  attention of few queries on 3,000 and 4,097 keys, beside FlashAttention-3 and cuDNN: the errors where all
#                            values but one of each column are 0, and three more distributions
# The exit code is 1 if a part did not end as it must. LIMIT: seconds for each command (60).
set -u
case ${1:-} in '' | -h | --help) sed -n '2,/^set -u/{/^#/p}' "$0" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
before_mending=54e2c4e4
softmax="evolved/seeds_h100/softmax/kernel.cu evolved/h100/softmax/kernel.cu evolved/softmax.cu ../../configs/tasks/softmax/seeds/cuda_rows.cu"
cross_entropy="evolved/h100/cross_entropy/kernel.cu evolved/cross_entropy.cu"
name_of() { echo "$1" | sed 's#^../../configs/tasks/##; s#/#_#g'; }

# task_with TASK SHAPES: a copy of the task whose stress values are those of standard input, on these shapes.
task_with() {
  folder=$bundle/checks/large/$1
  mkdir -p "${folder%/*}" && rm -rf "$folder" && cp -r "$bundle/configs/tasks/$1" "$bundle/configs/tasks/headers" "${folder%/*}/" &&
    { sed '/^  stress_shapes:/,$d' "$bundle/configs/tasks/$1/task.yaml"; echo "  stress_shapes:"; echo "$2"; echo "  stress:"; cat
      sed -n '/^  edge:/,$p' "$bundle/configs/tasks/$1/task.yaml"; } >"$folder/task.yaml"
}
if [ "$1" = prepare ]; then
  bundle=$(cd "${2:?the bundle}" && pwd) && mkdir -p "$bundle/before" || exit 2
  for file in $softmax $cross_entropy; do
    (cd "$here" && git show "$before_mending:./$file") >"$bundle/before/$(name_of "$file")" || exit 1
  done
  for task in softmax cross_entropy; do
    x=x shapes='    - {R: 64, C: 512}
    - {R: 5, C: 2048}
    - {R: 7, C: 1001}
    - {R: 3, C: 40000}'
    [ $task = softmax ] || x=logits shapes=$(echo "$shapes" | sed 's/C:/V:/')
    task_with $task "$shapes" <<EOF || exit 1
    far_above: {about: "one value is far above all others", $x: {kind: one_hot, a: 0, b: 1.0e+5, axis: 1}}
    very_far_above: {about: "the same", $x: {kind: one_hot, a: 0.5, b: 1.0e+10, axis: 1}}
    large: {about: "finite, and the product with log2(e) has no bits left for differences", $x: {kind: normal, a: 0, b: 1.0e+18}}
    magnitudes: {about: "all magnitudes of bf16", $x: {kind: spread, a: 1, b: 86}}
    largest: {about: "the product with log2(e) is infinite", $x: {kind: constant, a: 3.3e+38}}
    masked: {about: "all values are the lowest number", $x: {kind: constant, a: -3.38953139e+38}}
    far_below: {about: "all values are far below zero", $x: {kind: normal, a: -1.0e+31, b: 1.0e+29}}
EOF
  done
  task_with attention_forward '    - {B: 16, H: 32, H_kv: 8, S_q: 1, S_kv: 4097, D: 128}
    - {B: 4, H: 64, H_kv: 8, S_q: 4, S_kv: 3000, D: 64, causal: 1}' <<EOF || exit 1
    needle: {about: "one large value, all others zero", v: {kind: one_hot, a: 0, b: 100, axis: 1}}
    one_key: {about: "one key is far from zero, all others are zero", k: {kind: one_hot, a: 0, b: 100, axis: 1}}
    outlier_keys: {about: "one key in a hundred is 30 times as large", k: {kind: outliers, a: 1, b: 30, axis: 3}}
    peaked: {about: "few keys have almost all of the weight", q: {kind: normal, a: 0, b: 3}, k: {kind: normal, a: 0, b: 3}}
EOF
  echo "$bundle: before, checks/large"
  exit 0
fi

[ $# -ge 2 ] || { echo "check_large.sh: BUNDLE OUT [PART...]; without arguments it says more" >&2; exit 2; }
bundle=$(cd "$1" && pwd) && mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
shift 2
[ -d "$bundle/checks/large" ] || { echo "check_large.sh: $bundle has no checks/large: check_large.sh prepare $bundle makes it" >&2; exit 2; }
folders=$bundle/lib
. "$here/../attention_h200/vendors.sh"
cultivar="timeout -s INT -k 10 ${LIMIT:-60} $bundle/bin/cultivar"
! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader

must() {  # passed | refused, then what to evaluate
  wanted=$1
  shift
  $cultivar evaluate "$@" --target cuda --json >"$out/.json" 2>"$out/.log" </dev/null
  code=$?
  if grep -qE '"verdict": "(passed|measured)"' "$out/.json"; then verdict=passed; elif grep -q '"verdict": "rejected"' "$out/.json"; then verdict=refused; else verdict="no verdict (exit code $code)"; fi
  echo "$2: must be $wanted: $verdict"
  grep -E '"(stage|reason)":' "$out/.json"
  case $verdict in no*) tail -n 5 "$out/.log" ;; esac
  [ "$verdict" = "$wanted" ]
}
large() {  # task, files
  task=$1 result=0
  shift
  for file in "$@"; do
    must passed "$bundle/checks/large/$task" "$here/$file" --workloads quick --stop-after stress || result=1
    must refused "$bundle/checks/large/$task" "$bundle/before/$(name_of "$file")" --workloads quick --stop-after stress || result=1
  done
  return $result
}
speed() {  # task, seconds each, files
  task=$1 seconds=$2
  shift 2
  for file in "$@"; do
    echo "== $file, after against before"
    $cultivar compare "$task" "$here/$file" "$bundle/before/$(name_of "$file")" --target cuda --workloads gpu --max-seconds "$seconds"
  done
}
part() {
  # shellcheck disable=SC2086
  case $1 in
    softmax) large softmax $softmax ;;
    cross_entropy) large cross_entropy $cross_entropy ;;
    softmax_speed) speed softmax 8 $softmax ;;
    cross_entropy_speed) speed cross_entropy 8 evolved/h100/cross_entropy/kernel.cu ;;
    stages)
      result=0
      for file in $softmax; do must passed softmax "$here/$file" --workloads gpu --stop-after edge || result=1; done
      for file in $cross_entropy; do must passed cross_entropy "$here/$file" --workloads gpu --stop-after edge || result=1; done
      must passed softmax "$here/evolved/seeds_h100/softmax/kernel.cu" --workloads gpu --stop-after confirm || result=1
      must passed cross_entropy "$here/evolved/h100/cross_entropy/kernel.cu" --workloads gpu --stop-after confirm || result=1
      return $result ;;
    needle)
      # shellcheck disable=SC2086
      $cultivar evaluate "$bundle/checks/large/attention_forward" "cuda_split@LEAST=1,WARPS=2,WAVES=1" "$here/../attention_h200/evolved/few_queries.cu" --target cuda \
        --workloads decode $contenders ;;
    *) echo "check_large.sh: there is no part $1" >&2; return 2 ;;
  esac
}
failed=0
[ $# -gt 0 ] || set -- softmax cross_entropy softmax_speed cross_entropy_speed stages needle
for each in "$@"; do
  began=$(date +%s) ended=0
  part "$each" >"$out/$each.txt" 2>&1 </dev/null || ended=$?
  # An undecided comparison has its own exit code; its figures count.
  case $each in *speed) ;; *) [ $ended -eq 0 ] || failed=1 ;; esac
  echo "== $each: exit code $ended, $(($(date +%s) - began)) s" && grep -av '^compiling' "$out/$each.txt"
done
rm -f "$out/.json" "$out/.log"
exit $failed
