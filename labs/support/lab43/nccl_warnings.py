"""Warnings of NCCL in plain words: what happened and what to do."""

from __future__ import annotations

import re

_HIDDEN = (
    "NCCL knows of a GPU that this process may not see. Let every rank of a node see all its GPUs (srun "
    "--gpus-per-node=N --gpu-bind=none, no CUDA_VISIBLE_DEVICES of one GPU) and choose by local rank."
)
_SHM = (
    "NCCL's shared memory did not fit into /dev/shm. Give a container more (docker run --shm-size=1g), or "
    "remove what old jobs left there."
)
_GONE = "Another rank ended or cannot be reached. Look for the first error in the other ranks' output."
_CARD = (
    "The network card reported a failed transfer. Check the card, its GID index (NCCL_IB_GID_INDEX), and "
    "whether NCCL_NET_GDR_LEVEL=LOC (no GPUDirect RDMA) helps."
)
# Every pattern with its sentence; the groups of the pattern are put in. First match wins.
KNOWN = [
    (
        r"Duplicate GPU detected : rank (\d+) and rank (\d+) both on CUDA device (\w+)",
        "Ranks {0} and {1} took the same GPU (PCI bus {2}); NCCL wants one GPU for each rank. Choose it by "
        "local rank, and start no more ranks on a node than it has GPUs.",
    ),
    (r"nvmlDeviceGetHandleByPciBusId\(\) failed: Not Found", _HIDDEN),
    (r"posix_fallocate failed|creating shared memory segment|No space left on device", _SHM),
    (r"Failed to find CUDA library", "No CUDA driver library was found: is there a GPU driver on this node?"),
    (r"Failed to open libibverbs", "No InfiniBand library was found: NCCL goes on with sockets (TCP)."),
    (r"Got (?:async event|completion)", _CARD),
    (r"[Cc]onnection (?:closed|refused|reset)|[Cc]onnect to .* failed|Connection timed out", _GONE),
    (r"ignoring (NCCL_\w+=\S+)", "NCCL does not follow {0} here: it is not supported for this job."),
    (
        r"Cuda failure (?:\d+ )?'([^']+)'",
        'A call of CUDA failed: "{0}". The first such line of all ranks counts.',
    ),
    (
        r"mismatch|Mismatch",
        "Ranks do not agree (versions, sizes or calls). Check that all run the same library and code.",
    ),
]
# Not of NCCL's log itself, but of the program that used it: ncclGetErrorString in src/init.cc
_ERRORS = [
    (
        r"unhandled system error",
        "NCCL gave up after an error of the system: see its warnings.",
    ),
    (r"unhandled cuda error", "NCCL gave up after an error of CUDA: see its warnings."),
    (r"remote process exited or there was a network error", _GONE),
    (
        r"ncclCommInitRank failed: invalid usage|ncclInvalidUsage",
        "NCCL was used wrongly: see its warnings.",
    ),
]


def of_warning(text: str) -> str:
    """The sentence for a warning, or the warning itself where none is known."""
    return _first(KNOWN, text) or text


def of_error(line: str) -> str | None:
    """The sentence for a program's line about an error of NCCL; None if it is none."""
    return _first(_ERRORS, line)


def _first(table, text: str) -> str | None:
    for pattern, sentence in table:
        match = re.search(pattern, text)
        if match:
            return sentence.format(*match.groups())
    return None
