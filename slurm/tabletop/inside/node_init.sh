#!/usr/bin/env bash
# Process 1 of a node: its own shared memory, interfaces and host name, then slurmd. Usage: node_init.sh N
set -euo pipefail
name=node$1
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
run=/dev/shm/.tabletop

hostname "$name"
# A command line may hold a secret: users see their own processes.
mount -t proc -o remount,hidepid=2 proc /proc
# A shared memory of its own as on a machine of its own; the cluster's folder shows through.
mkdir -p "$run/nodes/$name" "$run/spool/$name"
mount -t tmpfs -o mode=1777 "$name" "$run/nodes/$name"
mkdir "$run/nodes/$name/.tabletop"
mount --bind "$run" "$run/nodes/$name/.tabletop"
for gpu in "$run"/gpu/*; do
    [[ -e $gpu ]] && mount --bind /dev/null "$run/nodes/$name/.tabletop/gpu/${gpu##*/}"
done
mount --rbind "$run/nodes/$name" /dev/shm
bash "$here/sys.sh"
# Connections of processes that were killed give up after seconds: for so long they keep the network alive.
echo 3 >/proc/sys/net/ipv4/tcp_orphan_retries

ip link set lo up
until [[ -e /sys/class/net/eth0/operstate && $(</sys/class/net/eth0/operstate) == up ]]; do sleep 0.01; done
export SLURM_CONF=$run/conf/slurm.conf
slurmd -D -N "$name" &
wait -n "$!"
