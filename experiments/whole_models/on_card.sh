#!/bin/sh
# on_card.sh OUT SECONDS [MODEL...]: one call of the campaigns of models.py. Ends within SECONDS and goes on where the call before
# stopped: each model is profiled (import), searched (optimise) for BUDGET, and gets its kernels, which are proven (apply).
# OUT gets campaigns.tar.gz (profiles, records, packages), for each model MODEL.profile.md, MODEL.table.md, MODEL.proof.json and
# MODEL.README.md, and log.txt.
#   campaigns.tar.gz beside this script: the calls before, where the folder WORK is lost between calls
#   BUDGET=20m   of search, for each model;   SLICE=3m;   PYTHON=python3   a Python with PyTorch 2 and numpy
#   DEVICE=cuda  default: cuda if nvidia-smi lists a card, otherwise cpu, with tiny sizes: a rehearsal
#   KNOWN=--known   only functions that an installed task computes; empty: modules become tasks too, from naive seeds
#   PROOF=20   seconds of timed blocks of a proof;   LEAST=0.02   the share of the time that a region must promise
#   AUTOTUNE=yes   no: not beside torch.compile with max-autotune, which takes minutes of each model's import
#   WORK=/tmp/cultivar_whole_models   where it works: the same in each call, since records name files by their paths
#   CULTIVAR=PROGRAM   default: ../bin/cultivar
# The exit code is 1 if a step failed; see log.txt.
set -u
case ${2:-} in '') sed -n '2,/^set -u/{/^#/p}' "$0" >&2; exit 2 ;; esac
began=$(date +%s)
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd) seconds=$2
shift 2
cultivar=${CULTIVAR:-$here/../bin/cultivar} python=${PYTHON:-python3} work=${WORK:-/tmp/cultivar_whole_models}
device=${DEVICE:-$(if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then echo cuda; else echo cpu; fi)}
models=${*:-llama llama_short bert gpt2 vit whisper qwen3_moe convnext resnet50 gemma autoencoder}
mkdir -p "$work" || exit 2
if [ -f "$here/campaigns.tar.gz" ] && [ ! -d "$work/campaigns" ]; then tar xzf "$here/campaigns.tar.gz" -C "$work" || exit 2; fi
mkdir -p "$work/campaigns"
tiny=False autotune=
if [ "${AUTOTUNE:-yes}" = no ]; then autotune=--no-autotune; fi
if [ "$device" = cpu ]; then tiny=True; fi
sed "s/^TINY = False/TINY = $tiny/" "$here/models.py" >"$work/models.py"
export CULTIVAR_CACHE="${CULTIVAR_CACHE:-$work/cache}"
log=$out/log.txt
: >"$log"
left() { echo $((seconds - 30 - $(date +%s) + began)); }  # 30 s: what is stopped, and the tar
failed=0
step() {  # name, the least seconds for which it is begun, and the command; 0: it is done
  [ "$(left)" -gt "$2" ] || return 1
  name=$1
  shift 2
  echo "== $name: $*" >>"$log"
  timeout -s INT -k 20 "$(left)" "$cultivar" "$@" >>"$log" 2>&1
  code=$?
  echo "== $name: exit code $code, $(left) s are left" >>"$log"
  [ $code -eq 0 ] && return 0
  # 124: out of time; 130: stopped with a checkpoint
  [ $code -eq 124 ] || [ $code -eq 130 ] || [ $code -eq 137 ] || { failed=1 && touch "$work/campaigns/$model.failed"; }
  return 1
}
for model in $models; do
  build=$model inputs=${model}_inputs
  case $model in llama_short) build=llama ;; convnext | resnet50) inputs=image_inputs ;; esac
  camp=$work/campaigns/$model
  if [ -f "$camp.done" ] || [ -f "$camp.failed" ]; then continue; fi
  if [ ! -f "$camp.imported" ]; then
    rm -rf "$camp"
    step "$model, import" 60 import "$work/models.py:$build" --inputs "$inputs" --out "$camp" --device "$device" --budget "${BUDGET:-20m}" \
      --least "${LEAST:-0.02}" ${KNOWN---known} $autotune --python "$python" && touch "$camp.imported" || continue
  fi
  if [ -f "$camp/campaign.yaml" ]; then
    if [ ! -f "$camp.searched" ]; then
      step "$model, optimise" 60 optimise "$camp" --slice "${SLICE:-3m}" --trust && touch "$camp.searched" || continue
    fi
    rm -rf "$camp/fast"
    step "$model, apply" 120 apply "$camp" --out "$camp/fast" --seconds "${PROOF:-20}" --json || continue
  fi
  touch "$camp.done"
done
for model in $models; do
  camp=$work/campaigns/$model
  for pair in profile.md:profile.md profile.svg:profile.svg profile.json:profile.json runs/table.md:table.md fast/README.md:README.md \
    fast/proof.json:proof.json; do
    if [ -f "$camp/${pair%%:*}" ]; then cp "$camp/${pair%%:*}" "$out/$model.${pair##*:}"; fi
  done
done
tar czf "$out/campaigns.tar.gz" -C "$work" --exclude=checkpoints --exclude=build --exclude=.scratch campaigns
open=
for model in $models; do [ -f "$work/campaigns/$model.done" ] || open="$open $model"; done
echo "$(($(date +%s) - began)) s; not finished:${open:- none}; $(du -k "$out/campaigns.tar.gz" | cut -f1) KiB in $out/campaigns.tar.gz"
exit $failed
