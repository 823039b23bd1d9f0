#!/bin/sh
# prepare.sh CHECKOUT OUT: makes the folder OUT that is carried to a card, here, where PyTorch for the cpu and a build of all targets are.
#   CHECKOUT  a checkout of KernelBench (https://github.com/ScalingIntelligence/KernelBench)
#   BUILD=build/release   the build;   PYTHON=python3   a Python with PyTorch 2;   DRAWN=drawn.txt   which problems;   PART=4   the most problems of a suite
#   FACTOR=1  timed sizes need this share of the memory of the problems' own
# OUT holds the programs (tests/gpu/bundle.sh, without its tests), the imported tasks and suites, and the scripts: OUT/kernelbench/on_card.sh.
# PROGRAMS=no leaves the programs out, for a run on this machine.
set -eu
case ${2:-} in '') sed -n '2,/^set -eu/{/^#/p}' "$0" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
checkout=$1 out=$2 build=${BUILD:-$source/build/release} python=${PYTHON:-python3} drawn=${DRAWN:-$here/drawn.txt}
[ -f "$drawn" ] || { echo "prepare.sh: there is no $drawn; see draw.py" >&2; exit 2; }
if [ "${PROGRAMS:-yes}" = yes ]; then
  sh "$source/tests/gpu/bundle.sh" "$build" "$out"
  rm -rf "$out/source" "$out/run.sh" "$out/honest_under_load.sh" "$out"/bin/bench-* "$out"/bin/tests-*
fi
mkdir -p "$out/kernelbench/tasks"
for level in $(grep -v '^#' "$drawn" | cut -d' ' -f1 | sort -u); do
  numbers=$(awk -v l="$level" '$1 == l { printf "%s%s", sep, $2; sep = "," }' "$drawn")
  "$build/bin/cultivar" import --kernelbench "$checkout" --level "$level" --problems "$numbers" --out "$out/kernelbench/level$level" \
    --memory-factor "${FACTOR:-1}" --python "$python"
  grep -v '^#' "$drawn" | awk -v l="$level" '$1 == l { print $4 }' | while read -r folder; do
    [ -f "$out/kernelbench/level$level/$folder/task.yaml" ] || { echo "prepare.sh: $folder is no task any more: $out/kernelbench/level$level/table.md" >&2; exit 1; }
    rm -rf "$out/kernelbench/tasks/$folder"
    mv "$out/kernelbench/level$level/$folder" "$out/kernelbench/tasks/"
  done
done
python3 "$here/suites.py" "$drawn" ../../tasks "$out/kernelbench/suites" "${PART:-4}"
cp "$here/on_card.sh" "$here/letters.py" "$out/kernelbench/"
echo "$out: $(du -sk "$out" | cut -f1) KiB"
