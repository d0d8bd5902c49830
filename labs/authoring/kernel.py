"""Runs cells in a kernel, and ends all that they have started: the one way in which the tour and
the tests execute a lab's notebook.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from pathlib import Path

from labkit.errors import LabError

from authoring.cell import Cell
from authoring.notebooks import notebook

PATIENCE = 15.0  # seconds that a kernel and its ranks get to end when they are told to
_POLL = 0.2


def run(
    stem: str,
    cells: Iterable[Cell],
    root: Path,
    *,
    seconds: float,
    env: Mapping[str, str],
    tick: Callable[[int, int], None] = lambda done, cells: None,
):
    """Execute the cells of lab `stem` in order, with the labs of the checkout `root`.

    seconds: until all that runs is ended. env: variables of the kernel, beside this process's own.
    tick(done, cells) is called a few times a second. Returns the notebook, with outputs as far as
    it came, and the error that ended it, or None. Ctrl-C ends the kernel and what it has started.
    """
    import nbclient
    import psutil
    from traitlets.config import Config

    book = notebook(stem, cells)
    client = nbclient.NotebookClient(
        book,
        # As `make lab` has it: other users could connect to its port.
        config=Config({"KernelManager": {"transport_encryption": "required"}}),
        timeout=None,
        startup_timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(root / "notebooks")}},
    )
    # A cell with sliders does not end at times, if nbclient answers as the front end that holds
    # their output: it sends on the socket on which it waits for the kernel's reply, and ZeroMQ
    # then may not wake it for a reply that is there already. The output goes to the cell instead.
    client.widget_registry = {}
    folders = [str(root / "labs"), str(root), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, **env, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    end = time.monotonic() + seconds
    before = set(psutil.Process().children(recursive=True))
    options = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # On a thread of its own, nbclient leaves the signals alone.
    with futures.ThreadPoolExecutor(1) as pool:
        ran = pool.submit(lambda: asyncio.run(client.async_execute(**options)))
        try:
            while not ran.done() and time.monotonic() < end:
                futures.wait([ran], _POLL)
                tick(client.code_cells_executed, len(book.cells))
        finally:
            is_late = not ran.done()
            while not ran.done():  # it may be starting processes this moment
                _end(set(psutil.Process().children(recursive=True)) - before)
                futures.wait([ran], _POLL)
    if is_late:
        return book, LabError(f"It took longer than {seconds / 60:.0f} minutes.")
    return book, ran.exception()


def _end(processes: set) -> None:
    """Tell processes to end, and kill those that do not."""
    import psutil

    for signal in ("terminate", "kill"):
        for process in processes:
            try:
                getattr(process, signal)()
            except psutil.NoSuchProcess:
                continue
        _, processes = psutil.wait_procs(processes, PATIENCE)
