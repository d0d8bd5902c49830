#!/usr/bin/env bash
# Process 1 of a tabletop cluster: builds its private world, starts Slurm's daemons and waits. When this process
# ends, however it ends, the kernel ends every other process of the cluster and removes its mounts and interfaces.
# Called by holder.py inside fresh namespaces. Usage: cluster.sh STATE NODES
set -euo pipefail
state=$1 nodes=$2
read -r # a line comes once this cluster is noted; none if who starts it is killed before
exec </dev/null
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
run=/dev/shm/.tabletop # short, since a Unix socket's path must stay below 108 characters; gone with the cluster

# A shared memory of its own, and in it the folder that all nodes share.
mount -t tmpfs -o mode=1777 tabletop /dev/shm
mkdir "$run" "$run"/{conf,nodes,spool,ctld,munge,gpu,state}
cp "$state"/conf/* "$run/conf"
mount --bind "$state" "$run/state"
mount --bind "$run/conf/hosts" /etc/hosts
cp "$state/name" "$run/name" # the wrappers find out by it whether they already are inside
cp "$state/settings" "$run/settings"

# /sys shows the interfaces of the network it was mounted in, and UCX looks there. slurmd wants the cgroups back.
bash "$here/sys.sh"
# Connections of processes that were killed give up after seconds: for so long they keep the network alive.
echo 3 >/proc/sys/net/ipv4/tcp_orphan_retries

hostname login
mount -t proc -o remount,hidepid=2 proc /proc # users see their own processes, as on the nodes
ip link set lo up
ip link add bridge type bridge forward_delay 0
ip link set bridge mtu 9000 up
ip address add 10.77.0.1/16 dev bridge

# `--gpus-per-node` is granted by device files; here each is another name of /dev/null.
# shellcheck source=/dev/null
source "$run/settings" # assigns gpus
# shellcheck disable=SC2154
for ((gpu = 0; gpu < gpus; gpu++)); do
    touch "$run/gpu/gpu$gpu"
    mount --bind /dev/null "$run/gpu/gpu$gpu"
done

(umask 077 && head -c 1024 /dev/urandom >"$run/munge/key")
chmod 711 "$run/munge"
export SLURM_CONF=$run/conf/slurm.conf
# Of each daemon: its process, and when it was started again, in seconds of this shell's life.
declare -A pid again=([munged]=-60 [slurmctld]=-60)

start() { # munged | slurmctld
    local command=(slurmctld -D)
    if [[ $1 == munged ]]; then
        # --force: the folders above the socket are the machine's root's, inside maybe a stranger
        command=(munged --foreground --force --num-threads=4 --key-file="$run/munge/key"
            --socket="$run/munge/socket" --pid-file="$run/munge/pid" --seed-file="$run/munge/seed"
            --log-file="$state/log/munged.log")
    fi
    "${command[@]}" >>"$state/log/$1.log" 2>&1 &
    pid[$1]=$!
}

start munged
until [[ -S $run/munge/socket ]]; do
    kill -0 "${pid[munged]}"
    sleep 0.02
done
start slurmctld
for ((node = 1; node <= nodes; node++)); do
    bash "$here/node.sh" start "$node" &
    starting+=("$!")
done
for process in "${starting[@]}"; do wait "$process"; done

# A daemon that was killed, as when memory ran out, starts again: its state is on file, and nodes and
# jobs go on. One that ends twice within a minute ends the cluster. As process 1 this shell also takes
# in what the nodes leave behind.
while true; do
    wait -n "${pid[@]}" || true
    for daemon in munged slurmctld; do
        kill -0 "${pid[$daemon]}" 2>/dev/null && continue
        echo "$daemon ended; see log/$daemon.log"
        ((SECONDS - again[$daemon] < 60)) && exit 1
        again[$daemon]=$SECONDS
        start "$daemon"
    done
done
