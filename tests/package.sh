#!/bin/bash
# Tests that an installed Cultivar works without its source folder: in a prefix, or as a Debian package in a bare root.
set -eu

help() {
  cat <<'END'
Installs Cultivar and uses it where its source folder is not visible: lists tasks, runs a short search with an installed
configuration, exports the kernel, replays the run, and checks that nothing was written to the installation.

Usage: tests/package.sh [--prefix BUILD]
       tests/package.sh --root [--suite SUITE] [--mirror URL] [--keyring FILE] [--docker | --deb FILE]
                        [--keep] [FOLDER]

  --prefix BUILD    install that build folder (default: build/release) into a temporary folder with `cmake --install`,
                    and hide the source folder. Exit code 77: this machine does not permit that
  --root            build the package (`./cultivar package`) and install it with apt in a minimal root filesystem made by
                    debootstrap in FOLDER (default: a new folder in /var/tmp); also build and verify the exported project.
                    Needs root, debootstrap and bubblewrap
  --deb FILE        with --root: use this package instead of building one
  --docker          with --root: build the package in a second minimal root filesystem, with the steps of the Dockerfile
  --suite SUITE     bookworm (default) or noble
  --mirror URL, --keyring FILE   as for tests/fresh_machine.sh
  --keep            do not delete the root filesystem
  --help            print this text

Examples:
  tests/package.sh
  tests/package.sh --root
  tests/package.sh --root --docker --keep /var/tmp/bare
END
}

here=$(dirname "$(readlink -f -- "$0")")
source=${here%/*}
build=$source/build/release root='' suite=bookworm mirror='' keyring='' docker='' deb='' keep='' folder=''
value() { (($# >= 2)) || { echo "$1 needs a value; see --help" >&2; exit 2; }; }
while (($#)); do
  case $1 in
    --help | -h) help; exit 0 ;;
    --prefix) value "$@"; build=$(realpath -- "$2"); shift 2 ;;
    --root) root=1; shift ;;
    --docker) docker=1; shift ;;
    --deb) value "$@"; deb=$(realpath -- "$2"); shift 2 ;;
    --suite) value "$@"; suite=$2; shift 2 ;;
    --mirror) value "$@"; mirror=$2; shift 2 ;;
    --keyring) value "$@"; keyring=$2; shift 2 ;;
    --keep) keep=1; shift ;;
    -*) echo "unknown option $1; see --help" >&2; exit 2 ;;
    *) folder=$1; shift ;;
  esac
done

# The use of an installation, as an sh script. The program is in PATH, the current folder is empty.
# shellcheck disable=SC2016  # expanded where it runs
use='set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
place=$(dirname "$(dirname "$(readlink -f "$(command -v cultivar)")")")
sleep 1; : >"$HOME/before"
cultivar --help >help.txt
if grep -q "^  setup" help.txt; then fail "--help lists commands of the launcher"; fi
cultivar tasks | grep -q "^attention_forward" || fail "tasks"
for each in recorded_demo mailbox; do cultivar run "$each" --check >/dev/null || fail "configuration $each"; done
# On a busy machine, 20 s may be too short for the first confirmation.
cultivar run configs/quickstart.yaml --set budget.wall=20s 2>messages.txt ||
  cultivar resume quickstart --set budget.wall=2m 2>>messages.txt || { cat messages.txt >&2; fail "run"; }
grep -q "^configs/quickstart.yaml is not in the current folder; using $place/share/" messages.txt || fail "the run does not name the configuration that it uses"
cultivar status quickstart
[ -s runs/quickstart/best/kernel.cpp ] || fail "no exported kernel"
cultivar export quickstart --out other >/dev/null || fail "export"
cultivar replay quickstart >/dev/null || fail "replay"
for each in man/man1/cultivar.1.gz man/man1/cultivar-dashboard.1.gz man/man1/cultivar-report.1.gz bash-completion/completions/cultivar zsh/vendor-completions/_cultivar fish/vendor_completions.d/cultivar.fish; do
  # Small images leave out manual pages.
  [ -s "$place/share/$each" ] || grep -qs "path-exclude.*/man" /etc/dpkg/dpkg.cfg.d/* || fail "no $each"
done
[ "$(cultivar completion --words status q)" = ":folders
quickstart	run" ] || fail "completion does not offer the run"
cultivar report quickstart --html --out story >/dev/null && grep -q "Content-Security-Policy" story/report.html || fail "report --html"
[ -d "$HOME/.cache/cultivar" ] || fail "no cache in the home folder"
# lib/cultivar is there only if the build found CUDA.
written=$(find "$place/share/cultivar" "$place/libexec/cultivar" "$place/lib/cultivar" -newer "$HOME/before" 2>/dev/null || true)
[ -z "$written" ] || fail "files written to the installation: $written"
'

if [[ -z $root ]]; then
  unshare=(unshare --mount)
  [[ $(id -u) == 0 ]] || unshare+=(--map-root-user)
  if ! "${unshare[@]}" mount -t tmpfs tmpfs "$source" 2>/dev/null; then
    echo "e2e/package is skipped because precondition failed: unshare cannot create a mount namespace on this machine"
    exit 77
  fi
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cmake --install "$build" --prefix "$folder/installed" --strip >"$folder/install.log" ||
    { cat "$folder/install.log"; exit 1; }
  mkdir "$folder/home" "$folder/work"
  "${unshare[@]}" env -i HOME="$folder/home" PATH="$folder/installed/bin:/usr/bin:/bin" LANG=C.UTF-8 sh -c '
    set -eu
    for hidden in "$1" "$2"; do [ ! -d "$hidden" ] || mount -t tmpfs tmpfs "$hidden"; done
    [ ! -e "$1/configs" ]
    cd "$3" && exec sh -c "$4"' - "$source" "$build" "$folder/work" "$use"
  exit
fi

# shellcheck source=tests/support/bare_root.sh
source "$here/support/bare_root.sh"
lacking=$(bare_root_lacks "$suite" "$mirror")
[[ -z $lacking ]] || { echo "$lacking" >&2; exit 3; }
[[ -n $folder ]] || folder=$(mktemp -d -u /var/tmp/cultivar-package.XXXXXX)
[[ ! -e $folder ]] || { echo "$folder already exists; give a new folder" >&2; exit 2; }
folder=$(realpath -m -- "$folder")
[[ -n $keep ]] || trap 'rm -rf --one-file-system "$folder" "$folder.log" "$folder.build" "$folder.build.log"' EXIT
[[ -n $docker || -n $deb ]] || deb=$("$source/cultivar" package)
echo "Creating a minimal $suite in $folder."
make_bare_root "$folder" "$suite" "$mirror" "$keyring"
if [[ -n $docker ]]; then
  cp -a "$folder" "$folder.build"
  mkdir "$folder.build/cultivar"
  git -C "$source" archive HEAD | tar -x -C "$folder.build/cultivar"
  in_bare_root "$folder.build" 'cd /cultivar && ./cultivar package'
  cp "$folder.build"/cultivar/build/release/cultivar_*.deb "$folder/root/"
else
  cp "$deb" "$folder/root/"
fi
in_bare_root "$folder" 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends install \
  /root/cultivar_*.deb' >"$folder.log" 2>&1 || { tail -n 20 "$folder.log" >&2; exit 1; }
mkdir "$folder/root/work"
in_bare_root "$folder" "cd /root/work && $use
cmake -S runs/quickstart/best -B built >/dev/null && cmake --build built >/dev/null && built/verify --quick"
