"""A run on one machine listens to that machine alone: on a shared login node or hub, anybody may
knock.

Two ways together. Libraries that can be told where to listen are told: MPI's take shared memory,
and Gloo and NCCL the loopback interface. Others ask for every address of the machine and know no
such setting: the control port of MPI's launchers, PyTorch's store, TensorFlow's servers. They get
the loopback address instead: `make setup` compiles a library of one function, `bind`, which
LD_PRELOAD puts before the system's (env/install/loopback.c).

Why not a network namespace: many kernels, and most containers, refuse it to an ordinary user, ranks
inside of one could fetch nothing, and what a notebook serves to its ranks would be out of their
reach. Why not MPICH's other launcher, gforker, which needs no port: it takes two seconds to notice
the end of every fourth run, and the death of a rank leaves its exit status 0 (both seen with MPICH
5.0.2).
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

LIBRARY = "labkit-loopback.so"  # in lib/ of the environment; env/install/loopback.py makes it
SETTINGS = {
    "UCX_TLS": "^tcp",  # MPICH and Open MPI over UCX: all transports but TCP, on which UCX listens
    "FI_TCP_IFACE": "lo",  # the same over libfabric
    "FI_SOCKETS_IFACE": "lo",
    "GLOO_SOCKET_IFNAME": "lo",  # PyTorch's Gloo
    "HOROVOD_GLOO_IFACE": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
}
# What a batch system sets in a job. There a launcher may place ranks on several nodes.
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "COBALT_JOBID", "FLUX_JOB_ID")


def loopback_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What a run on this machine is started with, beside `environ`. What is set there already
    stays.

    On Linux; elsewhere {}.
    """
    if not sys.platform.startswith("linux"):
        return {}
    chosen = {name: value for name, value in SETTINGS.items() if name not in environ}
    before = environ.get("LD_PRELOAD", "")
    library = str(_library())
    if loopback_gap() is None and library not in before:
        chosen["LD_PRELOAD"] = f"{library} {before}".strip()
    return chosen


def loopback_gap() -> str | None:
    """Why servers that name no address would listen to every network here; None if they do not."""
    library = _library()
    begin = (
        "A run on this machine listens to every network of it, at MPI's and PyTorch's control"
        " ports: "
    )
    if not library.exists():
        return f"{begin}lib/{LIBRARY} is not in the environment. `make setup` makes it, on Linux."
    # LD_PRELOAD has no way to write such a path, and the linker would complain in every process.
    if any(letter.isspace() or letter == ":" for letter in str(library)):
        return (
            f"{begin}a path with a space or a colon cannot be preloaded; move the checkout to one"
            " without."
        )
    return None


def _library() -> Path:
    return Path(sys.prefix, "lib", LIBRARY)


def in_batch_job(environ: Mapping[str, str]) -> bool:
    """Does a batch job surround this process, of whose nodes a launcher makes use?"""
    return any(name in environ for name in _JOBS)


def close_inherited() -> None:
    """Close the listening sockets that this process has inherited: MPICH's launcher leaves its own
    open.

    For a process that has just begun, before it listens itself.
    """
    for number in _open_files():
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode) and _listens(number):
                os.close(number)
        except OSError:
            continue  # the folder's own descriptor, which is closed by now


def _open_files() -> list[int]:
    return (
        [int(name) for name in os.listdir("/proc/self/fd")]
        if os.path.isdir("/proc/self/fd")
        else []
    )


def _listens(number: int) -> bool:
    own = socket.socket(fileno=os.dup(number))
    with own:
        return bool(own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
