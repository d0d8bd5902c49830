"""A small process that forks smaller ones and kills them while they save: `python -m support.lab70.killer`.

It reads an order, pickled, on stdin: (what, write, folder, options); and leaves the answer in folder/answer.
Nothing in it is large, so that a death and a new start take milliseconds.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from labkit import launch

from support.lab70 import files
from support.lab70.watch import Watch

MOST_MOMENTS = 300


def main() -> None:
    """Carry out the order."""
    launch.die_with_parent(os.getppid())
    what, write, folder, options = pickle.load(sys.stdin.buffer)
    folder = Path(folder)
    answer = {"everywhere": everywhere, "at random": at_random}[what](write, folder, **options)
    (folder / "answer").write_bytes(pickle.dumps(answer))


def everywhere(write: Callable, folder: Path, size: int) -> dict:
    """A save that is killed at its first moment, a new one at its second, … until one comes to its end.

    Returns {"deaths": [(the call, what is in the file then)], "calls": those of the whole save, "left_open":
    how many files it did not close, "leftovers": how many other files there are at the end, "error"}.
    """
    path = folder / "net.checkpoint"
    contents = {"old": content_of(1, size), "new": content_of(2, size)}
    deaths = []
    killer = os.getpid()
    for die_at in range(1, MOST_MOMENTS):
        path.write_bytes(contents["old"])
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            launch.die_with_parent(killer)
            os.close(reading)
            watch = Watch(writing, die_at)
            watch.install()
            _leave(write, path, contents["new"], watch)
        os.close(writing)
        calls = _lines(reading)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            last = calls.pop()  # of `_leave`
            left = _left(path, contents)
            leftovers = len(list(folder.iterdir())) - path.exists()
            return {
                "deaths": deaths,
                "calls": calls,
                "end": left,
                "path": str(path),
                "leftovers": leftovers,
                **last,
            }
        deaths.append((calls[-1], _left(path, contents)))
    raise SystemExit("it writes in too many pieces")


def at_random(write: Callable, folder: Path, kills: int, size: int, seconds: float, seed: int = 0) -> dict:
    """A process saves version after version, and is killed at a random moment; so `kills` times.

    Returns counts: "kills", "in a save" of them, "newest" (the file holds the version last begun or last
    finished), "lost" (an older one, though whole), "torn" (none that is whole); and "error". The first save
    and all waiting for moments fit into so many seconds, if the first save alone does.
    """
    path = folder / "net.checkpoint"
    counts = {"kills": kills, "in a save": 0, "newest": 0, "lost": 0, "torn": 0, "error": None}
    began = time.perf_counter()
    try:
        write(path, content_of(0, size))
    except Exception as error:
        return counts | {"error": f"{type(error).__name__}: {error}"}
    duration = time.perf_counter() - began
    end = began + seconds
    draw = random.Random(seed)
    killer = os.getpid()
    finished = 0
    for done in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            launch.die_with_parent(killer)
            os.close(reading)
            _save_for_ever(write, path, size, finished, writing)
        os.close(writing)
        first = os.read(reading, 1)  # its first save has begun
        time.sleep(draw.uniform(0, longest_wait(duration, end - time.perf_counter(), kills - done)))
        os.kill(child, signal.SIGKILL)
        lines = _lines(reading, first)
        os.waitpid(child, 0)
        counts["error"] = next((line["error"] for line in lines if "error" in line), None)
        if counts["error"]:
            return counts
        begun = max((line["begun"] for line in lines if "begun" in line), default=finished)
        finished = max([finished, *(line["finished"] for line in lines if "finished" in line)])
        counts["in a save"] += begun > finished
        version = version_in(path)
        if version is None:
            counts["torn"] += 1
        elif version >= finished:
            counts["newest"] += 1
        else:
            counts["lost"] += 1
        finished = max(finished, version or 0)
    return counts


def longest_wait(duration: float, left: float, kills: int) -> float:
    """Seconds that may pass before the next kill: three saves, if all `kills` fit into the seconds `left`.

    Where saves take longer than one kill's share of the time, kills hit the beginning of a save alone.
    """
    return min(3 * duration, max(0.0, left) / kills)


def content_of(version: int, size: int) -> bytes:
    """A file's content that differs from version to version in every byte of its payload."""
    return files.pack(bytes([version % 251]) * size, f"version {version}")


def version_in(path: Path) -> int | None:
    """The version in the file; None if it is not there, or not whole."""
    try:
        label, payload = files.split(path.read_bytes())
    except FileNotFoundError:
        return None
    if label is None or files.pack(payload, label["model"]) != path.read_bytes():
        return None
    return int(label["model"].split()[1])


def _left(path: Path, contents: dict[str, bytes]) -> str:
    """What the file holds: old, new, nothing, half of something, too much; or no file is there."""
    if not path.exists():
        return "gone"
    content = path.read_bytes()
    if not content:
        return "empty"
    if content.endswith(contents["new"]) and content != contents["new"]:
        return "the new one behind what a killed save had left"
    return next((name for name, value in contents.items() if value == content), "half")


def _leave(write: Callable, path: Path, content: bytes, watch: Watch) -> None:
    """In the child: save once, say how that was, and end."""
    before = len(os.listdir("/proc/self/fd"))
    failure = None
    try:
        write(path, content)
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
    watch.note(error=failure, left_open=len(os.listdir("/proc/self/fd")) - before)
    os._exit(0)


def _save_for_ever(write: Callable, path: Path, size: int, version: int, pipe: int) -> None:
    """In the child: one version after the other, until somebody kills this process."""
    try:
        while True:
            version += 1
            content = content_of(version, size)
            os.write(pipe, json.dumps({"begun": version}).encode() + b"\n")
            write(path, content)
            os.write(pipe, json.dumps({"finished": version}).encode() + b"\n")
    except BaseException as error:
        os.write(pipe, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        signal.pause()


def _lines(pipe: int, text: bytes = b"") -> list[dict]:
    """All that was written into a pipe until its other end closed."""
    with os.fdopen(pipe, "rb") as reading:
        text += reading.read()
    lines = []
    for line in text.splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last may be cut by the kill
            lines.append(json.loads(line))
    return lines


if __name__ == "__main__":
    main()
