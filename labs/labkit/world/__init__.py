"""FACE of labkit.world."""

from labkit.world.launchers import clean, launched, tasks_per_node
from labkit.world.place import (
    clean_env,
    cores,
    describe,
    device,
    in_kernel,
    is_root,
    launcher,
    local_rank,
    local_size,
    rank,
    size,
)

__all__ = [
    "clean",
    "clean_env",
    "cores",
    "describe",
    "device",
    "in_kernel",
    "is_root",
    "launched",
    "launcher",
    "local_rank",
    "local_size",
    "rank",
    "size",
    "tasks_per_node",
]
