#!/usr/bin/env bash
# One node of a tabletop cluster: start it, shape its link, lose it. Runs inside the cluster's namespaces.
# Usage: node.sh start N | slow N RATE | fail N     (RATE in bit/s)
set -euo pipefail
verb=$1 number=$2
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
run=/dev/shm/.tabletop
name=node$number port=link$number
# shellcheck source=/dev/null
source "$run/settings" # rate [bit/s], latency [us], gpus

# A token bucket holds a port to a rate: `burst` may pass at once, what waits longer than 50 ms is dropped.
shape() { # device rate [bit/s] latency [us]
    local device=$1 rate=$2 latency=$3 under=(root handle 1:)
    local burst=$((rate / 8 / 1000 > 40000 ? rate / 8 / 1000 : 40000)) # 1 ms, and never less than 4 frames
    if ((latency > 0)); then
        tc qdisc replace dev "$device" root handle 1: netem delay "${latency}us" limit 100000
        under=(parent 1: handle 2:)
    fi
    tc qdisc replace dev "$device" "${under[@]}" tbf rate "${rate}bit" burst "$burst" latency 50ms
}

# The device at the node's own end: entered through the process that holds the node.
inside() { nsenter --net="/proc/$(<"$run/nodes/$name.pid")/ns/net" "$@"; }

slow() { # rate
    shape "$port" "$1" 0
    inside bash -c "$(declare -f shape); shape eth0 $1 $latency"
    echo "$1" >"$run/nodes/$name.rate"
}

start() {
    setsid unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc \
        bash "$here/node_init.sh" "$number" </dev/null >>"$run/state/log/$name.log" 2>&1 &
    local holder=$!
    echo "$holder" >"$run/nodes/$name.pid"
    while [[ $(readlink "/proc/$holder/ns/net") == "$(readlink /proc/self/ns/net)" ]]; do sleep 0.01; done
    ip link add "$port" mtu 9000 type veth peer name eth0 mtu 9000 netns "$holder"
    ip link set "$port" master bridge up
    slow "$rate"
    inside ip address add "10.77.0.$((10 + number))/16" dev eth0
    inside ip link set eth0 up # node_init.sh waits for this
}

fail() { # as when the plug is pulled: the link first, so that nobody hears a goodbye
    ip link delete "$port"
    local holder
    holder=$(<"$run/nodes/$name.pid")
    rm "$run/nodes/$name.pid"
    kill -KILL "$holder"
    while [[ -e /proc/$holder ]]; do sleep 0.02; done
}

"$verb" "${@:3}"
