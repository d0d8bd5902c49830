#!/usr/bin/env bash
# Mount /sys afresh for this network namespace, and put the control groups back into it.
set -euo pipefail
keep=/dev/shm/.tabletop-cgroup
mkdir -p "$keep"
groups=false
if mountpoint --quiet /sys/fs/cgroup; then
    mount --rbind /sys/fs/cgroup "$keep"
    groups=true
fi
mount -t sysfs sysfs /sys
if $groups; then
    mount --rbind "$keep" /sys/fs/cgroup
    umount --lazy "$keep"
fi
rmdir "$keep"
