#!/bin/bash
# Both README commands on a machine that has nothing: a bare root filesystem, made by debootstrap, with this commit's
# files in it. Prints how long each step took. Needs root and debootstrap; takes about half an hour.
#
#   tests/fresh_machine.sh [--suite SUITE] [--mirror URL] [--keyring FILE] [--only-setup] [--keep] FOLDER
#
# SUITE is bookworm or noble; the mirror is the one that this machine's own apt uses for that suite, unless given.
set -eu

suite=bookworm mirror='' keyring='' keep='' only_setup='' folder=''
while (($#)); do
  case $1 in
    --suite) suite=$2; shift 2 ;;
    --mirror) mirror=$2; shift 2 ;;
    --keyring) keyring=$2; shift 2 ;;
    --keep) keep=1; shift ;;
    --only-setup) only_setup=1; shift ;;
    -*) echo "usage: see the head of $0" >&2; exit 2 ;;
    *) folder=$1; shift ;;
  esac
done
[[ -n $folder ]] || { echo "name the folder to make" >&2; exit 2; }
[[ ! -e $folder ]] || { echo "$folder is there already" >&2; exit 2; }
[[ $(id -u) == 0 ]] || { echo "debootstrap and chroot need root" >&2; exit 3; }
command -v debootstrap >/dev/null || { echo "apt-get install debootstrap" >&2; exit 3; }
source=$(git -C "$(dirname "$(readlink -f -- "$0")")" rev-parse --show-toplevel)

if [[ -z $mirror ]]; then
  # shellcheck disable=SC2016  # apt's own placeholders
  mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite {print $2; exit}')
  [[ -n $mirror ]] || { echo "this machine's apt knows no mirror of $suite: name one with --mirror" >&2; exit 3; }
fi
components=main
script=/usr/share/debootstrap/scripts/$suite
if [[ $suite == noble ]]; then
  components=main,universe
  [[ -e $script ]] || script=${script%/*}/gutsy  # what later names of Ubuntu are links to
fi

# shellcheck disable=SC2317  # called by the trap
clean_up() {
  for mount in tmp dev/shm dev sys proc; do mountpoint -q "$folder/$mount" && umount -l "$folder/$mount"; done
  [[ -n $keep ]] || rm -rf --one-file-system "$folder"
}
trap clean_up EXIT

declare -a report
step() {  # name, command...
  local name=$1 start=$SECONDS code=0
  shift
  printf '\n== %s\n' "$name"
  "$@" || code=$?
  report+=("$(printf '%5d s  exit %d  %s' $((SECONDS - start)) "$code" "$name")")
  return "$code"
}
# shellcheck disable=SC2317  # called by step
inside() { chroot "$folder" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh -c "cd /root/cultivar && $1"; }

step "a bare $suite" debootstrap --variant=minbase --components="$components" ${keyring:+--keyring="$keyring"} \
  "$suite" "$folder" "$mirror" "$script" >"$folder.log" 2>&1
# What the host needs to reach its mirror: names, proxies.
cp /etc/resolv.conf "$folder/etc/resolv.conf"
cp /etc/hosts "$folder/etc/hosts"
apt-config dump Acquire | grep -i proxy >"$folder/etc/apt/apt.conf.d/99host" || true
mount -t proc proc "$folder/proc"
mount --rbind /sys "$folder/sys" && mount --make-rslave "$folder/sys"
mount -t tmpfs dev "$folder/dev"
for node in null zero full random urandom tty; do
  [[ -e /dev/$node ]] && cp -a "/dev/$node" "$folder/dev/$node"
done
ln -s /proc/self/fd "$folder/dev/fd"
mkdir "$folder/dev/shm" && mount -t tmpfs shm "$folder/dev/shm"
mount -t tmpfs tmp "$folder/tmp"
mkdir "$folder/root/cultivar"
git -C "$source" archive HEAD | tar -x -C "$folder/root/cultivar"

result=0
if [[ -n $only_setup ]]; then
  step "./cultivar setup" inside './cultivar setup' || result=1
else
  step "./cultivar run configs/quickstart.yaml (set-up, build, search, export)" \
    inside './cultivar run configs/quickstart.yaml' || result=1
  step "the exported project, built and verified" inside \
    'cmake -S runs/quickstart/best -B /root/best && cmake --build /root/best && /root/best/verify' || result=1
  step "./cultivar test" inside './cultivar test' || result=1
fi
step "a second start" inside './cultivar --version' || result=1

printf '\n'
printf '%s\n' "${report[@]}"
exit "$result"
