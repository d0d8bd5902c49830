"""A learner's way to save, killed with kill -9: at every moment of a save, and at random ones."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import cloudpickle
from labkit.errors import LabError

SECONDS = 60  # for all the kills of an order
_WAITING = 0.75  # of them at most, between the kills; the rest is for the start, the forks and the deaths
_WHERE = {
    "open": "before it opens {path}",
    "write": "before it writes to {path}",
    "half": "when half of the bytes are in {path}",
    "fsync": "before the fsync of {path}",
    "replace": "before {path} is renamed to {to}",
}


class Death(NamedTuple):
    """Where a save was killed, in words, and what the file is then: old, new, gone, empty, half, …"""

    where: str
    left: str


class Trial(NamedTuple):
    """Of write(path, content): its deaths, one at every moment; and the calls of a whole save, in order.

    Each call is a dict: "call" (open, write, half, fsync, replace), "path", and "to" or "bytes".
    left_open: how many files or folders the save opened and did not close. leftovers: how many files of other
    names all those saves have left in the folder.
    """

    deaths: list[Death]
    calls: list[dict]
    end: str
    path: str
    left_open: int
    leftovers: int

    @property
    def other_folders(self) -> list[str]:
        """Folders of files that were renamed to `path` from elsewhere."""
        folder = os.path.dirname(self.path)
        sources = [self.calls[place]["path"] for place in self._renames()]
        return [os.path.dirname(source) for source in sources if os.path.dirname(source) != folder]

    @property
    def renamed(self) -> bool:
        """Does the name come by a rename?"""
        return bool(self._renames())

    @property
    def synced_before(self) -> bool:
        """Are all bytes of what is renamed on the disk when that happens?"""
        for place in self._renames():
            source = self.calls[place]["path"]
            writes = self._places("write", source)
            syncs = [sync for sync in self._places("fsync", source) if sync < place]
            if not syncs or not writes or max(writes) > max(syncs):
                return False
        return True

    @property
    def synced_after(self) -> bool:
        """Is the folder, which holds the name, on the disk at the end?"""
        syncs = self._places("fsync", os.path.dirname(self.path))
        renames = self._renames()
        return bool(syncs) and bool(renames) and max(syncs) > max(renames)

    def _renames(self) -> list[int]:
        """The places of renames to `path`."""
        return [place for place in self._places("replace") if self.calls[place]["to"] == self.path]

    def _places(self, call: str, path: str | None = None) -> list[int]:
        """At which places of `calls` there is such a call, of that path."""
        return [
            place
            for place, entry in enumerate(self.calls)
            if entry["call"] == call and path in (None, entry["path"])
        ]


def kill_everywhere(write: Callable, size: int = 5000) -> Trial:
    """Kill a save of write(path, content) at each of its moments, in turn. size: bytes of the content.

    The file holds an older content before. LabError when `write` itself raises an error, or does not
    get through in SECONDS.
    """
    answer = _order("everywhere", write, size=size)
    deaths = [Death(_words(call), left) for call, left in answer["deaths"]]
    whole = (answer["calls"], answer["end"], answer["path"])
    return Trial(deaths, *whole, answer["left_open"], answer["leftovers"])


def kill_at_random(write: Callable, kills: int, size: int, seed: int = 0) -> dict[str, int]:
    """Kill a process that saves one version after the other, `kills` times, each at a random moment.

    Returns counts: "kills"; "in a save", how many of them were; what the file held afterwards: "newest" (the
    version last finished, or the one that was being saved), "lost" (an older one) and "torn" (no whole one).
    LabError when `write` itself raises an error, or does not get through in SECONDS.
    """
    seconds = _WAITING * SECONDS
    answer = _order("at random", write, kills=kills, size=size, seconds=seconds, seed=seed)
    del answer["error"]
    return answer


def _order(what: str, write: Callable, **options: float) -> dict:
    path = os.pathsep.join(filter(None, sys.path))
    # A fork of a process with threads may hang: NumPy's are not wanted here.
    env = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        with _pythons_own_open(write):
            order = cloudpickle.dumps((what, write, folder, options))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "support.lab70.killer"],
                input=order, env=env, capture_output=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise LabError(
                f"`write` was not through with all saves after {SECONDS} s: does a loop in it have no end? "
                "If not, this computer is too busy or its disk too slow: run the cell again."
            ) from None
        answer = Path(folder, "answer")
        if done.returncode or not answer.exists():
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise LabError(f"`write` ended the process that tried it: {lines[-1]}")
        result = pickle.loads(answer.read_bytes())
    if result["error"]:
        if result["error"].startswith("NotImplementedError: "):
            raise NotImplementedError(result["error"].partition(": ")[2])
        raise LabError(f"`write` failed. {result['error'].replace(folder + os.sep, '')}")
    return result


@contextmanager
def _pythons_own_open(function: Callable) -> Iterator[None]:
    """While this is open, the function's `open` is Python's, also in a notebook.

    There IPython puts one of its own around it into the names of all cells, and that could not be watched.
    """
    names = getattr(function, "__globals__", {})
    other = names.get("open")
    if getattr(other, "__wrapped__", None) is not io.open:
        yield
        return
    del names["open"]
    try:
        yield
    finally:
        names["open"] = other


def _words(call: dict) -> str:
    names = {name: Path(value).name for name, value in call.items() if name in ("path", "to")}
    return _WHERE[call["call"]].format(**names)
