"""The ways to train the lab's net on several ranks: their scripts, and what each framework has to be told."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from labkit import ports
from labkit.errors import LabError

_SCRIPTS = Path(__file__).with_name("scripts")


class Way(NamedTuple):
    """A way to train: its script, the one-device script beside it, and how its processes meet."""

    script: str
    alone: str
    meet: str  # torch, horovod, tensorflow, or "" for one device


WAYS = {
    "PyTorch DDP": Way("torch_ddp", "torch_alone", "torch"),
    "FSDP2": Way("torch_fsdp", "torch_alone", "torch"),
    "Horovod on PyTorch": Way("torch_horovod", "torch_alone", "horovod"),
    "Horovod on TensorFlow": Way("tf_horovod", "tf_alone", "horovod"),
    "tf.distribute": Way("tf_distribute", "tf_alone", "tensorflow"),
}
ALONE = {
    "PyTorch alone": Way("torch_alone", "torch_alone", ""),
    "TensorFlow alone": Way("tf_alone", "tf_alone", ""),
}


def path_of(name: str) -> Path:
    """The file of a script."""
    return _SCRIPTS / f"{name}.py"


def scripts(way: str) -> tuple[str, str]:
    """The texts of two scripts: for one device, and for many in this way. LabError for no way of the lab."""
    known = _known(way)
    return path_of(known.alone).read_text(encoding="utf-8"), path_of(known.script).read_text(encoding="utf-8")


def alone_of(way: str) -> str:
    """The name, in ALONE, of the one-device run that a way has to be compared with."""
    return next(name for name, one in ALONE.items() if one.script == _known(way).alone)


def groups(ways: list[str]) -> dict[str, list[str]]:
    """Whom a decision may be among: "any" of the ways, or those of one framework, where there are several."""
    chosen = {"any": list(ways)}
    for framework in ("PyTorch", "TensorFlow"):
        chosen[framework] = [way for way in ways if alone_of(way) == f"{framework} alone"]
    return {name: some for name, some in chosen.items() if len(some) > 1}


def _known(way: str) -> Way:
    if way not in WAYS:
        raise LabError(f"{way!r} is none of the lab's ways: {', '.join(WAYS)}.")
    return WAYS[way]


@contextmanager
def meeting(comm, meet: str) -> Iterator[dict[str, str]]:
    """The variables by which this rank's process finds the others, while the block lasts. All ranks enter.

    Each framework reads its own: RANK and MASTER_ADDR, or HOROVOD_…, or TF_CONFIG.
    """
    names = comm.allgather(socket.gethostname())
    together = len(set(names)) == 1
    hosts = ["127.0.0.1"] * comm.size if together else names
    if meet == "horovod":
        # As `horovodrun --gloo` would, without its servers that listen on every interface.
        from labkit.horovod import meet_by_gloo

        with meet_by_gloo(comm):
            ours = ("HOROVOD_", "_HOROVOD_SECRET_KEY")
            yield {name: value for name, value in os.environ.items() if name.startswith(ours)}
    elif meet == "torch":
        with ports.agree(comm, 1) as port:
            yield _of_torch(comm.rank, comm.size, hosts[0], port, together)
    elif meet == "tensorflow":
        with ports.agree(comm, comm.size) as first:
            workers = [f"{host}:{first + rank}" for rank, host in enumerate(hosts)]
            task = {"type": "worker", "index": comm.rank}
            yield {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task})}
    else:
        yield {}


def _of_torch(rank: int, size: int, host: str, port: int, together: bool) -> dict[str, str]:
    """What torchrun would set. On one machine Gloo keeps to its loopback."""
    variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": "0"}
    variables |= {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    return variables | ({"GLOO_SOCKET_IFNAME": "lo"} if together else {})
