#!/usr/bin/env bash
# Run a command inside a tabletop cluster, as if from its login node. The names in bin/ are links to a copy of this
# file: called as `srun` it runs the cluster's srun. Working folder, environment, stdin, terminal and exit status
# are kept. Written by config.py, which fills in the five lines below.
set -euo pipefail
name=@name@
state=@state@
python=@python@
root=@root@
tools=@tools@ # where this machine keeps Slurm's programs

run=/dev/shm/.tabletop
command=$(basename "$0")

missing() {
    echo "The tabletop cluster '$name' is not running. Start it in $root with: make tabletop NAME=$name" >&2
    exit 1
}

case $command in
tabletop-enter) ;;
tabletop-node)
    number=${1:-} && number=${number#node}
    if [[ ! $number =~ ^[0-9]+$ || $# -lt 2 ]]; then
        echo "Say which node and which command: tabletop-node 2 ip address" >&2
        exit 2
    fi
    shift
    # shellcheck disable=SC2016 # $0 is the inner shell's
    set -- /bin/bash -c 'p=/dev/shm/.tabletop/nodes/node$0.pid
        [[ -e $p ]] || { echo "node$0 is not running; see: make tabletop-status" >&2; exit 1; }
        n=/proc/$(<"$p")/ns
        exec nsenter --mount="$n/mnt" --net="$n/net" --uts="$n/uts" --ipc="$n/ipc" --pid="$n/pid_for_children" \
            /bin/bash -c "cd -- \"\$0\" && exec \"\$@\"" "$PWD" "$@"' "$number" "$@"
    ;;
sacct) set -- "$python" "$root/slurm/tabletop/inside/sacct.py" "$@" ;;
*) set -- "$tools/$command" "$@" ;;
esac

PATH=$PATH:/usr/sbin:/sbin

# Inside already (a job's own srun)? Outside of a cluster /dev/shm is the machine's, and any user may
# make these files: only root's are believed, and no links. Inside, root is who started the cluster.
inside() {
    local found
    found=$(LC_ALL=C stat --format=%u:%F "$run" "$run/name" 2>/dev/null) || return
    [[ $found == $'0:directory\n0:regular file' && $(<"$run/name") == "$name" ]]
}

if inside; then # there is nothing to enter
    export SLURM_CONF=$run/conf/slurm.conf
    exec "$@"
fi

[[ -e $state/holder ]] || missing
read -r holder network <"$state/holder"
[[ -e /proc/$holder/ns/net && $(readlink "/proc/$holder/ns/net") == "$network" ]] || missing

# A shell inside a job of another Slurm: this cluster knows nothing of that job.
if [[ -n ${SLURM_JOB_ID:-} ]]; then
    unset "${!SLURM_@}"
fi
export SLURM_CONF=$run/conf/slurm.conf # in there

ns=/proc/$holder/ns
keys=(--mount="$ns/mnt" --net="$ns/net" --uts="$ns/uts" --ipc="$ns/ipc" --pid="$ns/pid_for_children")
if [[ $(readlink "$ns/user") != "$(readlink /proc/self/ns/user)" ]]; then
    keys=(--user="$ns/user" --preserve-credentials "${keys[@]}")
fi
# shellcheck disable=SC2016 # $0 and $@ are the inner shell's
exec nsenter "${keys[@]}" -- /bin/bash -c 'cd -- "$0" && exec "$@"' "$PWD" "$@"
