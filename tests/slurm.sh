#!/bin/bash
# Searches on a Slurm cluster of two nodes that is started here, on loopback, and ended again.
set -u

help() {
  cat <<'END'
Starts a Slurm cluster of two nodes on this machine (munged, slurmctld and two slurmd in a temporary folder, as this user),
and searches on it: with one worker on each node, while a worker is cancelled, a node dies and the controller is restarted;
and as a batch job of configs/cluster/slurm.sbatch that is told that its time ends, requeues itself and
resumes, and that Slurm kills and requeues.

Usage: tests/slurm.sh [--programs FOLDER] [--keep] [CASE ...]

  CASE                faults or batch (default: both)
  --programs FOLDER   of cultivar and its workers (default: build/release/bin)
  --keep              do not delete the temporary folder
  --help              print this text

Needs Debian's packages slurm-wlm and munge. Exit code 77: Slurm cannot be started here, with the reason.

Example:
  tests/slurm.sh --keep faults
END
}

source=$(dirname "$(dirname "$(readlink -f -- "$0")")")
programs=$source/build/release/bin keep='' cases=()
while (($#)); do
  case $1 in
    --help | -h) help; exit 0 ;;
    --programs) programs=$(realpath -- "${2:?--programs needs a folder}"); shift 2 ;;
    --keep) keep=1; shift ;;
    faults | batch) cases+=("$1"); shift ;;
    *) echo "unknown argument $1; see --help" >&2; exit 2 ;;
  esac
done
((${#cases[@]})) || cases=(faults batch)

skip() { echo "slurm is skipped because precondition failed: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }
PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd srun sbatch scontrol scancel squeue; do
  command -v "$program" >/dev/null || skip "$program is missing: apt-get install slurm-wlm munge"
done

# munged and slurmctld refuse folders into which others may write.
folder=$(mktemp -d /tmp/cultivar-slurm.XXXXXX) daemons=() search=''
ended() {  # SECONDS PID: with force after that time
  local tries=$(($1 * 10))
  kill "$2" 2>/dev/null
  while kill -0 "$2" 2>/dev/null && ((tries-- > 0)); do sleep 0.1; done
  { kill -9 "$2"; wait "$2"; } 2>/dev/null
}
finish() {  # in the order in which they need each other
  local code=$? i
  trap - EXIT INT TERM
  [[ -z $search ]] || ended 20 "$search"
  if ((${#daemons[@]})); then
    scancel --full --user="$(id -un)" 2>/dev/null
    until_ 10 no_jobs
  fi
  for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do ended 5 "${daemons[i]}"; done
  if [[ $code != 0 && $code != 77 ]]; then tail -n 15 "$folder"/controller.log "$folder"/*.out >&2 2>/dev/null; fi
  if [[ -n $keep ]]; then echo "kept: $folder"; else rm -rf --one-file-system "$folder"; fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

until_() {  # SECONDS COMMAND...: false when it does not succeed in that time
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do ((SECONDS < end)) || return 1; sleep 0.2; done
}
no_jobs() { [[ -z $(squeue -h -o %i) ]]; }
unused_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}
start_controller() { slurmctld -D -f "$SLURM_CONF" >>"$folder/controller.log" 2>&1 & controller=$!; daemons+=($!); }
start_node() { slurmd -D -N "$1" -f "$SLURM_CONF" >>"$folder/$1.log" 2>&1 & last_node=$!; daemons+=($!); }

start_cluster() {
  local ports=("$(unused_port)" "$(unused_port)" "$(unused_port)")
  chmod 755 "$folder"
  mkdir -m 755 "$folder/munge"
  mkdir -m 700 "$folder/key" "$folder/state"
  (umask 077; head -c 128 /dev/urandom >"$folder/key/key")
  munged --foreground --key-file="$folder/key/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
    --seed-file="$folder/key/seed" --num-threads=10 >"$folder/munge.log" 2>&1 &
  daemons+=($!)
  until_ 5 test -S "$folder/munge/socket" || skip "munged does not start: $(tail -n 1 "$folder/munge.log")"
  export SLURM_CONF=$folder/slurm.conf
  cat >"$SLURM_CONF" <<END
ClusterName=loopback
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[0]}
AuthInfo=socket=$folder/munge/socket
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/controller.pid
SlurmdPidFile=$folder/%n.pid
SlurmdParameters=config_overrides  # this machine has fewer cores than the nodes
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=5
KillWait=2
GresTypes=gpu
NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=8 RealMemory=2000 Gres=gpu:1
NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=8 RealMemory=2000 Gres=gpu:1
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE
END
  # A GPU is what one step at a time gets; the file stands for its device.
  echo 'NodeName=n[1-2] Name=gpu File=/dev/zero' >"$folder/gres.conf"
  start_controller; start_node n1; start_node n2
  until_ 20 timeout 10 srun -N2 -n2 true ||
    skip "Slurm does not start: $(sinfo -N -h -o '%n %T %E' 2>&1 | tail -n 2 | paste -sd';')"
}

# Few samples: what is tested is not how fast kernels are.
quick=(--set budget.wall=1h --set evaluation.screening_samples=5 --set evaluation.max_samples=5 --set 'contenders=[]')
cultivar() { "$programs/cultivar" "$@"; }
count() {  # of the evaluations of $run
  local facts; facts=$(cultivar status "$run" --json 2>/dev/null)
  [[ $facts =~ \"evaluations\":\ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}
evaluated() { (($(count) >= $1)); }
has_best() { cultivar show "$run" best; }
jobs_on() { squeue -h -t running -o %i -w "$1"; }
two_workers() { [[ -n $(jobs_on n1) && -n $(jobs_on n2) ]]; }
goes_on() {  # at least one more result
  local before; before=$(count)
  until_ 30 evaluated $((before + 1)) || fail "no result in 30 s after: $*"
  kill -0 "$search" || fail "the search ended after: $*"
}
no_one_is_condemned() {  # for what befell its worker
  local id
  for id in $(sed -n 's/.* rejected *#\([0-9]*\).*/\1/p' "$folder/faults.out"); do
    ! cultivar show "$run" "$id" | grep -i "SIGTERM\|SIGKILL\|from outside" || fail "#$id was rejected for a fault of the host"
  done
}

# Each worker is a job of its own. The search outlives the loss of each of them, of a node and of the controller.
faults() {
  run=$folder/faults
  "$programs/cultivar" run "$source/configs/quickstart.yaml" --run-dir "$run" "${quick[@]}" --set evaluation.patience=10m \
    --set 'evaluation.launcher={measure: [srun, --exclusive, -N1, -n1, -c1, --quiet]}' \
    --set evaluation.workers_per_device=2 --verbose >"$folder/faults.out" 2>&1 &
  search=$!
  until_ 40 evaluated 2 || fail "the search does not begin"
  until_ 10 two_workers || fail "two nodes do not have a worker each: $(squeue)"

  scancel "$(jobs_on n1)"
  goes_on "scancel of one worker"

  ended 10 "$controller"
  goes_on "the end of the controller"
  start_controller
  until_ 20 scontrol ping || fail "the controller does not start again"
  goes_on "the restart of the controller"
  until_ 20 two_workers || fail "after the restart, two nodes do not have a worker each: $(squeue)"

  ended 0 "$last_node"
  scontrol update nodename=n2 state=down reason=test  # it would notice this itself after a minute
  goes_on "the loss of a node"
  start_node n2
  until_ 30 two_workers || fail "after the return of the node, two nodes do not have a worker each: $(squeue)"
  goes_on "the return of the node"

  until_ 60 has_best || fail "no kernel was confirmed"
  cultivar stop "$run" >/dev/null || fail "stop"
  wait "$search"; search=''
  until_ 10 no_jobs || fail "jobs are left after the end of the search: $(squeue)"
  no_one_is_condemned
  cultivar replay "$run" >/dev/null || fail "the replay differs"
  cultivar export "$run" --out "$folder/kernel" >/dev/null || fail "export"
}

# The example of configs/cluster, as it is, without GPUs.
batch() {
  run=$folder/batch
  CULTIVAR=$programs/cultivar sbatch --nodes=2 --gpus-per-node=0 --output="$folder/batch.out" \
    "$source/configs/cluster/slurm.sbatch" "$source/configs/quickstart.yaml" "$run" \
    "${quick[@]}" >"$folder/sbatch.out" 2>&1 || fail "sbatch: $(cat "$folder/sbatch.out")"
  job=$(grep -o '[0-9]*$' "$folder/sbatch.out")
  until_ 40 evaluated 2 || fail "the job's search does not begin: $(squeue -h -o '%T %r')"
  scancel --batch --signal=USR1 "$job"
  until_ 20 grep -q "requeued and will resume" "$folder/batch.out" || fail "the job does not requeue itself"
  resumes "a requeue by itself"
  scontrol requeue "$job"  # as a preemption does
  resumes "a requeue by Slurm"
  scancel --batch --signal=TERM "$job"
  until_ 20 no_jobs || fail "the job does not end: $(squeue)"
  cultivar replay "$run" >/dev/null || fail "the replay differs"
}
resumes() {
  local before; before=$(count)
  until_ 20 pending "$job" || fail "the job is not requeued: $(squeue)"
  # After a requeue, Slurm waits for two minutes; a node refuses the job only in the second in which it ended.
  sleep 2
  scontrol update jobid="$job" starttime=now
  until_ 40 evaluated $((before + 1)) || fail "after $1, the job does not resume: $(squeue -h -o '%T %r')"
}
pending() { [[ $(squeue -h -o %T -j "$1") == PENDING ]]; }

start_cluster
for case in "${cases[@]}"; do
  begin=$SECONDS
  "$case"
  echo "$case: passed in $((SECONDS - begin)) s"
done
