#!/bin/bash
# Measures each step from nothing to an exported kernel: `./cultivar run configs/quickstart.yaml` on a bare machine.
set -eu

help() {
  cat <<'END'
Runs `./cultivar run configs/quickstart.yaml` with the files of this commit in a minimal root filesystem made by debootstrap,
on two cores, and prints how long each step took: packages, configure, build, search, export. Making the root filesystem does
not count. Needs root, debootstrap and bubblewrap. Run it on an idle machine.

Usage: tests/fresh_machine.sh [OPTION...] [FOLDER]

  FOLDER            where to create the root filesystem (default: a new folder in /var/tmp)
  --suite SUITE     bookworm (default) or noble
  --mirror URL      default: the mirror that this machine's apt uses for the suite
  --keyring FILE    the keyring of that mirror, if debootstrap does not know it
  --cores N         the number of cores to use (default: 2)
  --set A.B=C       replace a value of the configuration; may be repeated
  --all             also build and verify the exported project, and run `./cultivar test` (half an hour)
  --keep            do not delete the root filesystem
  --help            print this text

Examples:
  tests/fresh_machine.sh
  tests/fresh_machine.sh --keep --set budget.wall=20s /var/tmp/bare
  tests/fresh_machine.sh --suite noble --all
END
}

suite=bookworm mirror='' keyring='' keep='' cores=2 all='' folder='' overrides=''
value() { (($# >= 2)) || { echo "$1 needs a value; see --help" >&2; exit 2; }; }
while (($#)); do
  case $1 in
    --help | -h) help; exit 0 ;;
    --suite) value "$@"; suite=$2; shift 2 ;;
    --mirror) value "$@"; mirror=$2; shift 2 ;;
    --keyring) value "$@"; keyring=$2; shift 2 ;;
    --cores) value "$@"; cores=$2; shift 2 ;;
    --set) value "$@"; overrides+=" --set $(printf %q "$2")"; shift 2 ;;
    --all) all=1; shift ;;
    --keep) keep=1; shift ;;
    -*) echo "unknown option $1; see --help" >&2; exit 2 ;;
    *) folder=$1; shift ;;
  esac
done
here=$(dirname "$(readlink -f -- "$0")")
# shellcheck source=tests/support/bare_root.sh
source "$here/support/bare_root.sh"
lacking=$(bare_root_lacks "$suite" "$mirror")
[[ -z $lacking ]] || { echo "$lacking" >&2; exit 3; }
[[ -n $folder ]] || folder=$(mktemp -d -u /var/tmp/cultivar-bare.XXXXXX)
[[ ! -e $folder ]] || { echo "$folder already exists; give a new folder" >&2; exit 2; }
folder=$(realpath -m -- "$folder")

[[ -n $keep ]] || trap 'rm -rf --one-file-system "$folder" "$folder.log"' EXIT
echo "Creating a minimal $suite in $folder."
make_bare_root "$folder" "$suite" "$mirror" "$keyring"
mkdir "$folder/root/cultivar"
git -C "${here%/*}" archive HEAD | tar -x -C "$folder/root/cultivar"
taskset -cp "0-$((cores - 1))" $$ >/dev/null
inside() { in_bare_root "$folder" "cd /root/cultivar && $1"; }

# The lines that the launcher and the program print mark the beginning of each step.
declare -A at=()
code=1
note() { local now=${EPOCHREALTIME/./}; [[ -n ${at[$1]-} ]] || at[$1]=$((now / 1000)); }
run() {
  note start
  local line
  while IFS= read -r line; do
    if [[ $line == 'exit code '* ]]; then code=${line##* }; break; fi
    printf '%s\n' "$line"
    case $line in
      'Configuring ('*) note configure ;;
      'Building with '*) note build ;;
      'Built in '*) note launch ;;
      'Searching: '*) note search ;;
      *': attention_forward on cpu, '*) note export ;;
      'The best kernel is exported to '*) note end ;;
    esac
  done < <(inside "stdbuf -oL ./cultivar run configs/quickstart.yaml$overrides 2>&1; echo exit code \$?")
}
run
echo
if [[ $code != 0 || -z ${at[end]-} ]]; then
  echo "The run ended with exit code $code, so no times are reported." >&2
  exit 1
fi

# The wall-clock budget of the search, in milliseconds.
budget=$(inside './cultivar status runs/quickstart --json' |
  awk '/"wall": {/ {wall = 1} wall && /"limit":/ {gsub(/[^0-9.]/, ""); printf "%d", $0 * 1000; exit}')
row() { printf '%-38s %6d.%d s\n' "$1" $(($2 / 1000)) $(($2 % 1000 / 100)); }
between() { echo $((at[$2] - at[$1])); }
printf 'From nothing to the exported kernel: %s, %s cores, commit %s\n' "$suite" "$cores" \
  "$(git -C "$here" rev-parse --short HEAD)"
row packages "$(between start configure)"
row configure "$(between configure build)"
row build "$(between build launch)"
row 'program start' "$(between launch search)"
row search "$(between search export)"
row export "$(between export end)"
row total "$(between start end)"
row "total without the search budget" $((at[end] - at[start] - budget))

step() {  # name, command
  local start=$SECONDS ended=0
  inside "$2" || ended=$?
  row "$1" $(((SECONDS - start) * 1000))
  ((ended == 0)) || { echo "$1: exit code $ended" >&2; code=1; }
}
step 'second start (--version)' './cultivar --version'
if [[ -n $all ]]; then
  step 'building and verifying the export' \
    'cmake -S runs/quickstart/best -B /root/best && cmake --build /root/best && /root/best/verify'
  step './cultivar test' './cultivar test'
fi
exit "$code"
