#!/bin/sh
# Runs every test and benchmark that needs a GPU in under 8 minutes, and finally prints a short table.
#   run.sh OUT_DIR [STEP...]
# Without steps: all, in the order of `every`. Works in a folder made by bundle.sh, or with a build:
# CULTIVAR_BUILD=build/release. Writes four files to OUT_DIR: table.txt, logs.txt, and the search's record and export. The steps
# `views`, `export`, `verify` and `pytorch` use the run of `search`, from this call or an earlier one (its record is in
# OUT_DIR). `pytorch` needs a Python with PyTorch: $PYTHON, otherwise python3.
every="doctor session misbehaviour sanitizer judgements smoke_failures evaluate search views export verify pytorch contenders
  cudnn_independent profile"
# Only by name; most of them do not fit into eight minutes.
by_name="check_build gate_trials every_shape judgements_alone honest_under_load"
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/out}
if [ $# -gt 0 ]; then shift; fi
named=$* steps=${*:-$every}
for step in $steps; do
  for known in $every $by_name; do [ "$step" != "$known" ] || continue 2; done
  echo "run.sh: unknown step $step; known steps:" $every $by_name >&2
  exit 2
done
if [ -n "${CULTIVAR_BUILD:-}" ]; then
  bin=$(cd "$CULTIVAR_BUILD" && pwd)/bin source=$(cd "$here/../.." && pwd)
else
  bin=$here/bin source=$here/source
fi
if ! command -v nvidia-smi >/dev/null && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ] && [ ! -d /usr/local/nvidia ]; then
  echo "run.sh: this machine has no GPU; nothing was run" >&2
  exit 77
fi
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/cultivar-gpu-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
run=$work/run best=$work/best
attention=$source/configs/tasks/attention_forward
began=$(date +%s)
if [ -f "$out/run.db.gz" ]; then mkdir -p "$run" && gunzip -c "$out/run.db.gz" >"$run/run.db"; fi
rm -f "$out/logs.txt" "$out/table.txt"
! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,temperature.gpu,power.draw --format=csv,noheader
echo "$(date -u), $(nproc) cores, g++ $(g++ -dumpversion 2>/dev/null || echo absent), cmake $(cmake --version 2>/dev/null | head -n 1 || echo absent)"

tell() { printf '%-16s %6s %8s  %s\n' "$1" "$2" "$3" "$4" >>"$out/table.txt"; }
failed=0
cannot() {  # step, reason: a step requested by name has failed
  tell "$1" - - "$2"
  [ -z "$named" ] || failed=1
}
# Measures how busy the card is: the share of time in which a kernel ran, as counted by the driver.
watch_card() {
  watcher=
  command -v nvidia-smi >/dev/null || return 0
  nvidia-smi --query-gpu=utilization.gpu,clocks.sm,temperature.gpu,power.draw --format=csv,noheader,nounits -lms 200 \
    >"$1" 2>/dev/null &
  watcher=$!
}
unwatch_card() {
  [ -n "$watcher" ] || return 0
  kill "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null
  awk -F', ' '{ n++; busy += $1; clock += $2; if ($3 > hot) hot = $3; power += $4 }
    END { if (n) printf "card: busy %.0f %% of the time over %d readings, %.0f MHz, at most %d C, %.0f W on average\n",
      busy / n, n, clock / n, hot, power / n }' "$1"
}
timed() {  # name, limit in seconds, command...: output to the log
  name=$1 limit=$2
  shift 2
  if [ $(($(date +%s) - began)) -gt ${CULTIVAR_GPU_SECONDS:-450} ]; then
    cannot "$name" "left out: the 8 minutes are over"
    return 0
  fi
  begin=$(date +%s)
  echo "=== $name: $*" >>"$out/logs.txt"
  watch_card "$work/$name.card"
  timeout -k 10 "$limit" "$@" >"$work/$name.log" 2>&1
  code=$?
  # A suite that was skipped also exits with 0 and says so.
  if [ $code -eq 0 ] && grep -aq 'Test suite .* is skipped because precondition failed' "$work/$name.log"; then code=77; fi
  words=$(last "$name" $code)  # only of the step; the card's activity is appended below
  unwatch_card "$work/$name.card" >>"$work/$name.log"
  cat "$work/$name.log" >>"$out/logs.txt"
  if [ $code -ne 0 ] && { [ $code -ne 77 ] || [ -n "$named" ]; }; then failed=1; fi
  tell "$name" $code $(($(date +%s) - begin)) "$words"
}
# The table's text for a step: a figure if it succeeded, otherwise the error.
last() {
  if [ "$2" -eq 124 ]; then echo "stopped after $limit s"; return; fi
  pattern='^.'
  case $1 in
    session | misbehaviour | profile | contenders | sanitizer) pattern='\*\*\*|error: in|fatal' ;;
    judgements* | smoke_failures) pattern='^judged' ;;
    gate_trials) pattern='^(planted|itself)' ;;
    honest_under_load) pattern='^load:' ;;
    doctor) pattern='GFLOPS|unusable' ;;
    evaluate | every_*) pattern='^[^ ].*TFLOPS|rejected' ;;
    search) pattern='^  best +#|failed:|without a kernel|cultivar run:' ;;
    show) pattern='FLOPS' ;;
    export) pattern='is exported|cultivar export:' ;;
    verify_build) pattern='Built target|[Ee]rror' ;;
    replay) pattern='agree|differ' ;;
    verify) pattern='verified|FAILED|verify:' ;;
    pytorch) pattern='^(passed|FAILED|skipped):' ;;
  esac
  if [ "$2" -eq 77 ]; then pattern='precondition failed|^skipped:'; fi
  found=$(grep -aE "$pattern" "$work/$1.log" | tail -n 1)
  echo "${found:-$(tail -n 1 "$work/$1.log")}" | sed 's/.*precondition failed: /skipped: /' | tr -s ' \t' ' ' | cut -c1-150
}

# Contenders load their vendors' libraries by name; this finds libraries outside the usual toolkit folders.
vendors=
find_vendors() {
  [ -z "$vendors" ] || return 0  # already found
  for library in libcudart.so.13 libcublasLt.so.13 libcudnn.so.9; do
    found=$(find /usr/local /opt /usr/lib -name "$library" -not -path "*/stubs/*" 2>/dev/null | head -n 1)
    echo "$library: ${found:-not found}"
    if [ -n "$found" ]; then vendors=$vendors$(dirname "$found"):; fi
  done
}
suite() {  # step, limit, suite of tests-gpu; skipped if this build lacks it
  if [ ! -x "$bin/tests-gpu" ]; then
    tell "$1" - - "there is no $bin/tests-gpu"
    failed=1
    return 0
  fi
  if ! "$bin/tests-gpu" --list_content 2>&1 | grep -q "^$3"; then
    cannot "$1" "this build has no suite $3"
    return 0
  fi
  timed "$1" "$2" env "LD_LIBRARY_PATH=$vendors${LD_LIBRARY_PATH:-}" "$bin/tests-gpu" --run_test="$3" --log_level=test_suite \
    --color_output=no
}

built() {  # builds the exported project once
  [ -d "$best" ] || timed export 60 "$bin/cultivar" export "$run" --out "$best"
  [ ! -x "$best/build/verify" ] || return 0
  command -v make >/dev/null || export CMAKE_GENERATOR=Ninja
  timed verify_build 100 sh -c "cmake -S '$best' -B '$best/build' && cmake --build '$best/build' --parallel 8"
}

for step in $steps; do
  case $step in
    doctor) timed doctor 100 "$bin/cultivar" doctor ;;
    session) suite session 100 cuda_session ;;
    misbehaviour) suite misbehaviour 160 cuda_misbehaviour ;;
    profile) suite profile 150 cuda_profile ;;
    sanitizer) suite sanitizer 120 cuda_sanitizer ;;
    check_build) suite check_build 240 cuda_check_build ;;
    contenders)
      find_vendors
      suite contenders 100 cuda_contender
      ;;
    cudnn_independent)
      find_vendors
      if [ -x "$bin/bench-cudnn-independent" ]; then
        timed cudnn_independent 90 env "LD_LIBRARY_PATH=$vendors${LD_LIBRARY_PATH:-}" \
          "$bin/bench-cudnn-independent" "$attention" avo_mha 50
      else
        cannot cudnn_independent "this build has no bench-cudnn-independent"
      fi
      ;;
    judgements)
      timed judgements 120 "$bin/bench-gpu-judgements" "$attention" avo_mha 35 2 fresh "$attention/seeds/cuda_wgmma.cu" ;;
    judgements_alone)
      timed judgements_alone 90 "$bin/bench-gpu-judgements" "$attention" avo_mha 25 1 compiled \
        "$attention/seeds/cuda_wgmma.cu" ;;
    smoke_failures) timed smoke_failures 60 "$bin/bench-gpu-judgements" "$source/configs/tasks/softmax" gpu 15 2 fresh \
      "$source/tests/kernels/cuda/cheats/answers_a_constant.cu" ;;
    gate_trials)
      timed gate_trials 580 "$bin/bench-gpu-gate" "$attention" \
        "$attention/seeds/cuda_wgmma.cu@BLOCK_N=128,BLOCK_N_CAUSAL=128,OVERLAP=1" 200 avo_mha:1 40 avo_mha \
        "$out/gate_trials.jsonl" 540
      ;;
    honest_under_load)
      timed honest_under_load 590 sh "$here/honest_under_load.sh" "$bin/bench-honest-under-load" "${CULTIVAR_LOAD_LIMIT:-540s}"
      ;;
    every_shape)
      for set in avo_mha avo_gqa8 fa_sweep; do
        timed "every_$set" 280 "$bin/cultivar" evaluate attention_forward cuda_wgmma cuda_mma cuda_naive --target cuda \
          --workloads $set
      done
      ;;
    evaluate) timed evaluate 90 "$bin/cultivar" evaluate attention_forward cuda_wgmma --target cuda --workloads quick ;;
    search)
      rm -rf "$run"
      timed search 300 "$bin/cultivar" run "$source/configs/attention_gpu_quick.yaml" --run-dir "$run" \
        --set budget.wall="${CULTIVAR_SEARCH_WALL:-75s}" --verbose
      [ ! -f "$run/run.db" ] || gzip -c "$run/run.db" >"$out/run.db.gz"
      ;;
    views)
      timed status 20 "$bin/cultivar" status "$run"
      timed show 20 "$bin/cultivar" show "$run" best
      timed lineage 20 "$bin/cultivar" lineage "$run"
      timed replay 30 "$bin/cultivar" replay "$run"
      ;;
    export)
      timed export 60 "$bin/cultivar" export "$run" --out "$best"
      [ ! -d "$best" ] || (cd "$work" && tar czf "$out/best.tar.gz" best)
      ;;
    verify)
      built
      timed verify 60 "$best/build/verify" --quick
      ;;
    pytorch)
      built
      timed pytorch 120 "${PYTHON:-python3}" "$best"/pytorch/test_*.py
      ;;
  esac
done

for name in doctor session misbehaviour sanitizer judgements judgements_alone smoke_failures gate_trials every_avo_mha \
  every_avo_gqa8 every_fa_sweep honest_under_load evaluate search status show lineage replay export \
  verify pytorch contenders cudnn_independent profile; do
  [ -f "$work/$name.log" ] || continue
  echo "--- $name"
  case $name in
    session | misbehaviour | sanitizer | judgements*)
      grep -aE "precondition failed|ceilings|MiB: |a timed run|fate:|error: in|judged|measured|TFLOPS|card: " "$work/$name.log" ;;
    gate_trials | every_* | honest_under_load) cat "$work/$name.log" ;;
    contenders) grep -aE "^contender|beside:|waits:|error:|refuses" "$work/$name.log" ;;
    cudnn_independent | profile) cat "$work/$name.log" ;;
    smoke_failures) tail -n 2 "$work/$name.log" ;;
    search) tail -n 40 "$work/$name.log" ;;
    pytorch) grep -aE '^(FAILED|PyTorch|passed|skipped)|RMS|stream|graph|compile|refuses' "$work/$name.log" | tail -n 40 ;;
    show) head -n 30 "$work/$name.log" ;;
    *) tail -n 25 "$work/$name.log" ;;
  esac | cut -c1-220
done
echo "--- step, exit code, seconds, result"
cat "$out/table.txt"
exit $failed
