#!/bin/sh
# Times the kernel of ideas/ with other values of its knobs, each in turn with cuDNN and FlashAttention-3, every output checked.
#   judge_ideas.sh BUNDLE OUT [NAME...]      BUNDLE: a folder that tests/gpu/bundle.sh made; NAME: rows below (default: all)
# A row takes about 15 seconds. OUT gets NAME.txt, and ideas.txt: the ratios of all. Contenders that the bundle does not
# have are left out; the vendors' libraries are looked for where toolkits usually are.
set -u
[ $# -ge 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
bundle=$(cd "$1" && pwd) && mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
shift 2
[ -x "$bundle/bin/cultivar" ] || { echo "judge_ideas.sh: $bundle is no bundle: sh tests/gpu/bundle.sh build/release $bundle makes one" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
ideas=$here/ideas folders=$bundle/lib
. "$here/vendors.sh"

# name, set, file, values of its knobs. Of an idea its own knob alone differs from the row that it is compared with.
rows='
full              full   one_pass
full_alone        full   one_pass PAIRS=0
full_turns        full   one_pass TURNS=1
full_keys         full   one_pass KEY_STAGES=3,VALUE_STAGES=2
full_three        full   one_pass KEY_STAGES=3,PLACES=1
causal            causal one_pass
causal_alone      causal one_pass PAIRS_CAUSAL=0
causal_turns      causal one_pass TURNS_CAUSAL=1
causal_values     causal one_pass KEY_STAGES_CAUSAL=2,VALUE_STAGES_CAUSAL=3
causal_sections   causal one_pass SECTION_MB=64
'
for asked in "$@"; do
  case "$rows" in *"
$asked "*) ;; *) echo "judge_ideas.sh: no row is called $asked" >&2 && exit 2 ;; esac
done
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,power.limit --format=csv,noheader
: >>"$out/ideas.txt"
rm -f "$out/failed"
echo "$rows" | while read -r name set file knobs; do
  [ -n "$name" ] || continue
  [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
  # shellcheck disable=SC2086
  timeout -k 5 90 "$bundle/bin/cultivar" evaluate attention_forward "$ideas/$file.cu${knobs:+@$knobs}" --target cuda \
    --workloads "avo_mha_$set" $contenders >"$out/$name.txt" 2>&1 </dev/null || { echo "exit $?" | tee "$out/failed" >>"$out/$name.txt"; }
  {
    echo "== $name: $file $knobs"
    grep -aE 'TFLOPS|B[0-9]+_|rejected|contender|cultivar evaluate:|exit' "$out/$name.txt"
  } | tee -a "$out/ideas.txt"
done
[ ! -f "$out/failed" ] || exit 1
