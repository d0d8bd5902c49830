"""What the gallery's failures need: a rank with little memory, a package in two versions, ports."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path


def limit_memory(megabytes: int) -> None:
    """Let this process have so much more address space than it has now, and no more (RLIMIT_AS)."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + megabytes * 2**20
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


@contextlib.contextmanager
def two_nodes() -> Iterator[list[Path]]:
    """Folders of two "nodes", each with its own version of a package `recipe`, which makes a net.

    1.0 makes a net of two layers, 1.1 one of three.
    """
    layers = {"1.0": "nn.Linear(64, 10)", "1.1": "nn.Linear(64, 64), nn.Linear(64, 10)"}
    with tempfile.TemporaryDirectory(prefix="lab72-") as top:
        folders = []
        for version, rest in layers.items():
            folder = Path(top, f"node-with-{version}")
            about = folder / f"recipe-{version}.dist-info"
            about.mkdir(parents=True)
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: recipe\nVersion: {version}\n")
            text = (
                f"from torch import nn\n\n\ndef net():\n    return nn.Sequential(nn.Linear(64, 64), {rest})\n"
            )
            (folder / "recipe.py").write_text(text)
            folders.append(folder)
        yield folders


def use_node(folder: Path) -> None:
    """Let this process import from the folder of its "node" first."""
    sys.path.insert(0, str(folder))


@contextlib.contextmanager
def three_ports() -> Iterator[dict[str, int]]:
    """Ports of the loopback: one that answers, one where nobody listens, and a silent one.

    The silent one is what a firewall that drops packets looks like: the queue of those who knock is full, so
    that the kernel leaves further ones without any answer.
    """
    with contextlib.ExitStack() as stack:

        def listening(queue: int) -> socket.socket:
            server = stack.enter_context(socket.socket())
            server.bind(("127.0.0.1", 0))
            server.listen(queue)
            return server

        answers = listening(16)
        silent = listening(0)
        for _ in range(4):
            guest = stack.enter_context(socket.socket())
            guest.setblocking(False)
            guest.connect_ex(silent.getsockname())
        nobody = stack.enter_context(socket.socket())
        nobody.bind(("127.0.0.1", 0))  # taken, but nobody listens
        yield {
            "answers": answers.getsockname()[1],
            "nobody listens": nobody.getsockname()[1],
            "a firewall drops it": silent.getsockname()[1],
        }


def knock(port: int, patience: float = 2) -> str:
    """Connect to a port of this computer: what came of it, and after how many seconds."""
    begin = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), patience):
            answer = "connected"
    except OSError as error:
        answer = f"{type(error).__name__}: {error}"
    return f"{answer} after {time.monotonic() - begin:.1f} s"


def meet(port: int, patience: float = 2) -> str:
    """What PyTorch says, after so many seconds, to a rank that wants to meet the others at that port."""
    from torch import distributed

    with tempfile.TemporaryFile() as words, _stderr_to(words):
        try:
            distributed.TCPStore("127.0.0.1", port, 2, False, timeout=timedelta(seconds=patience))
        except RuntimeError as error:
            return f"{type(error).__name__}: {error}"
    return "met"


@contextlib.contextmanager
def _stderr_to(file) -> Iterator[None]:
    """Send what C++ writes to standard error elsewhere: pages of C frames for each try."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
