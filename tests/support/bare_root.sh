# shellcheck shell=bash
# Functions for scripts that need a bare machine: a minimal root filesystem made by debootstrap. The mirrors are those of
# this machine's apt. bubblewrap makes the mounts for each command, so that nothing stays mounted.
#
#   bare_root_lacks SUITE [MIRROR]                   prints what this machine lacks for it
#   make_bare_root FOLDER SUITE [MIRROR [KEYRING]]   SUITE is bookworm or noble; writes the log to FOLDER.log
#   in_bare_root FOLDER COMMAND                      runs COMMAND there with sh, as root, with a minimal environment

bare_root_lacks() {
  [[ $(id -u) == 0 ]] || { echo "creating a root filesystem needs root"; return; }
  local program
  for program in debootstrap bwrap; do
    command -v "$program" >/dev/null || { echo "$program is missing: apt-get install debootstrap bubblewrap"; return; }
  done
  [[ -n ${2-} || -n $(mirror_of "$1") ]] || echo "this machine's apt has no mirror of $1; give one with --mirror"
}

mirror_of() {  # suite
  # shellcheck disable=SC2016  # apt's own placeholders
  apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$1" '$1 == suite {print $2; exit}'
}

make_bare_root() {
  local folder=$1 suite=$2 mirror=${3:-$(mirror_of "$2")} keyring=${4-}
  local components=main script=/usr/share/debootstrap/scripts/$suite
  if [[ $suite == noble ]]; then
    components=main,universe
    [[ -e $script ]] || script=${script%/*}/gutsy  # later Ubuntu releases are links to this script
  fi
  debootstrap --variant=minbase --components="$components" ${keyring:+--keyring="$keyring"} \
    "$suite" "$folder" "$mirror" "$script" >"$folder.log" 2>&1 || { tail -n 5 "$folder.log" >&2; return 1; }
  # What is needed to reach the mirror: name resolution, proxies.
  cp /etc/resolv.conf /etc/hosts "$folder/etc/"
  apt-config dump Acquire | grep -i proxy >"$folder/etc/apt/apt.conf.d/99host" || true
}

in_bare_root() {
  bwrap --bind "$1" / --dev /dev --proc /proc --ro-bind /sys /sys --perms 1777 --tmpfs /tmp --cap-add ALL \
    --die-with-parent --clearenv --setenv HOME /root --setenv PATH /usr/sbin:/usr/bin:/sbin:/bin \
    --setenv LANG C.UTF-8 /bin/sh -c "$2"
}
