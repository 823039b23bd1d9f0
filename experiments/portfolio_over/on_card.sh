#!/bin/bash
# A portfolio of attention over a domain: heads of 64, 128 and 256; 1 to 256 sequences; 1 to 32,768 queries on 1 to 131,072 keys; 8 to
# 64 heads on as many, fewer or one; with the causal mask and without it.
#   on_card.sh pack OUT.tar.xz                   where the source tree, git and a build are: packs the programs and what they read, for `run`
#   on_card.sh run OUT SECONDS [cuda|cpu]        in the unpacked folder (or in a source tree that is built): makes the run, learns the table,
#                                                proves it on 200 drawn shapes and exports the bundle, until SECONDS are over. Another call goes
#                                                on, also on another machine of the same kind that has OUT. `cpu`: the rehearsal, small
# OUT gets run/ (the search and what was measured), portfolio.json (the table and its figures on drawn and on listed shapes), portfolio.txt,
# bundle/, card.txt and log.txt. On cuda the search is that of run.tar.xz, whose kernels were judged on a card; FRESH=yes: a new one (then
# SHAPES=100). SHAPES and PROOF: how many shapes are drawn to learn from and to prove (520, 200; cpu: 8, 8). MOST_GIB: the greatest tensors of
# a shape, all together (4; they also lie in the memory of the host). RESERVE: seconds that are left for confirmations (220). SET: the
# workloads of a new search (everywhere: 42).
# The exit code is 0 if the table is proved on all of them, 4 if time was over before, else that of the command that failed.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,/^set -u/{/^#/p}' "$0" >&2; exit 2; }
case ${1:-} in
  pack)
    [ $# -eq 2 ] || usage
    set -e
    root=$(cd "$here/../.." && pwd) out=$(realpath "$2")
    work=$(mktemp -d "${TMPDIR:-/tmp}/cultivar-over-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    sh "$root/tests/gpu/bundle.sh" "$root/build/release" "$work/over" >&2
    mkdir -p "$work/over/experiments"
    (cd "$root" && git archive HEAD experiments/portfolio_over experiments/attention_h200/ideas experiments/attention_h200/evolved) | tar x -C "$work/over"
    rm -f "$work/over/bin/tests-gpu" "$work"/over/bin/bench-* "$work/over/experiments/attention_h200/evolved/runs.tar.xz"
    tar c -C "$work" over | xz -T0 -3 >"$out"
    ls -l "$out" >&2
    exit 0 ;;
  run) [ $# -ge 3 ] || usage ;;
  *) usage ;;
esac
target=${4:-cuda} end=$(($(date +%s) + $3))
root=$(cd "$here/../.." && pwd)
mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
if [ -x "$root/bin/cultivar" ]; then
  program=$root/bin/cultivar
  export LD_LIBRARY_PATH=$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  program=$root/build/release/bin/cultivar
fi
case $target in
  cuda)
    config=attention.yaml shapes=${SHAPES:-520} proof=${PROOF:-200} with=(--with 3 --with 9 --without 2 --without 5)  # few_queries and packed, of run.tar.xz, beside the best, #4
    [ "${FRESH:-no}" = no ] || with=(--with 2 --with 3 --with 4 --with 5)
    domain="B: 1-256, H: 8-64 step x2, H_kv: 1-64 step x2, S_q: 1-32768, S_kv: 1-131072, D: 64-256 step x2, causal: 0-1"
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader >"$out/card.txt" ;;
  cpu)
    config=attention_cpu.yaml shapes=${SHAPES:-8} proof=${PROOF:-8} with=(--with 2)
    domain="B: 1-4, H: 4-16 step x2, H_kv: 1-16 step x2, S_q: 64-2048, S_kv: 64-4096, D: 64-128 step x2, causal: 0-1"
    grep -m 1 'model name' /proc/cpuinfo >"$out/card.txt" ;;
  *) usage ;;
esac
export CULTIVAR_CACHE=${CULTIVAR_CACHE:-$out/cache}
left() { echo $((end - $(date +%s) - ${1:-5})); }
# step NAME command...: within the time that is left; what it prints goes to log.txt.
step() {
  local name=$1 rc
  shift
  [ "$(left)" -gt 0 ] || { echo "on_card.sh: no time for: $name" >&2; exit 4; }
  echo "== $(date -u +%H:%M:%S) $name" | tee -a "$out/log.txt" >&2
  timeout -s INT -k 20 "$(left)" "$@" >"$out/$name.txt" 2> >(tee -a "$out/log.txt" >&2)
  rc=$?
  [ $rc -ne 124 ] && [ $rc -ne 130 ] || { echo "on_card.sh: time was over in: $name" >&2; exit 4; }
  [ $rc -eq 0 ] || { tail -n 20 "$out/$name.txt" >&2; exit $rc; }
}
if [ "$target" = cuda ] && [ ! -d "$out/run" ] && [ "${FRESH:-no}" = no ]; then
  tar xJf "$here/run.tar.xz" -C "$out" && touch "$out/searched" || exit 2
fi
if [ ! -f "$out/searched" ]; then
  if [ ! -f "$out/run/run.db" ]; then
    step search "$program" run "$here/$config" --run-dir "$out/run" ${SET:+--set workloads="$SET"}
  else
    step search "$program" resume "$out/run"
  fi
  if [ "$target" = cuda ]; then
    split=$root/configs/tasks/attention_forward/seeds/cuda_split.cu@LEAST=1,WARPS=2,WAVES=1
    if [ ! -f "$out/submitted" ]; then
      step submit "$program" submit "$out/run" "$split"
      step submit_second "$program" submit "$out/run" "$split,KEYS=32"
      touch "$out/submitted"
    fi
    step resume "$program" resume "$out/run" --set budget.evaluations=5
  fi
  touch "$out/searched"
fi
over=("$program" portfolio "$out/run" --over "$domain" "${with[@]}" --kernels 5 --shapes "$shapes" --proof "$proof" --most-gib "${MOST_GIB:-4}")
step portfolio "${over[@]}" --budget "$(left "${RESERVE:-220}")s" --json  # confirmations come on top
mv "$out/portfolio.txt" "$out/portfolio.json"
cp "$out/run/portfolio.over.jsonl" "$out/measured.jsonl"
step bundle_files "$program" export "$out/run" --portfolio --out "$out/bundle"
python3 - "$out/portfolio.json" "$proof" <<'END' | tee "$out/portfolio.txt"
import json, sys
found = json.load(open(sys.argv[1]))
print("kernels", found["over"]["kernels"], "learnt from", found["over"]["learnt"], "left out", found["over"]["left_out"])
for name in ("drawn", "listed"):
    print(name, json.dumps(found[name], indent=1))
beside = [(min(t["contenders"].values()) / min(t["kernels"].values()), t["shape"]) for t in found["over"]["drawn"] if t["contenders"] and t["kernels"]]
print("drawn shapes on which the best member is below 0.95 of the fastest contender:")
for ratio, shape in sorted(beside):
    if ratio < 0.95:
        print("  %.3f %s" % (ratio, shape))
sys.exit(0 if found["drawn"]["shapes"] >= int(sys.argv[2]) else 4)
END
exit "${PIPESTATUS[0]}"
