"""A process that imports TensorFlow once, and forks the processes of TensorFlow clusters on this node.

Importing costs seconds of a core, a fork none. cluster.train starts it as
`python -m support.lab61.nursery PIPE PARENT`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing import connection
from pathlib import Path

from labkit import launch, noise


class Child:
    """One forked process and its pipe."""

    def __init__(self, role: str, order, folder: str):
        from support.lab61 import roles

        self.role = role
        self.name = roles.name_of(order)
        self.errors = Path(folder, f"{time.monotonic_ns()}.txt")
        self.pipe, other = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        parent = os.getpid()

        def begin() -> None:
            launch.die_with_parent(parent)
            roles.play(role, order, other, str(self.errors))

        self.process = context.Process(target=begin, daemon=True)
        self.process.start()
        other.close()

    def report(self) -> tuple:
        """Wait for ("report", …) or ("error", sentence)."""
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            last = self.errors.read_text(errors="replace").strip().splitlines()[-3:]
            return "error", f"it ended with status {self.process.exitcode}. " + " ".join(last)

    def end(self) -> None:
        with contextlib.suppress(OSError):  # it is gone already
            self.pipe.send("end")


def reports_of(children: list[Child]) -> list[tuple]:
    """(name, "report" or "error", …) of each child; at the first error the others are not waited for."""
    answers = []
    missing = {child.pipe: child for child in children}
    while missing:
        for pipe in connection.wait(list(missing)):
            child = missing.pop(pipe)
            answers.append((child.name, *child.report()))
            if answers[-1][1] == "error":
                return answers
    return answers


def main() -> None:
    """Serve one rank until its pipe ends: ("play", [(role, order), …]) starts processes, ("end",) ends."""
    pipe = connection.Connection(int(sys.argv[1]))
    launch.die_with_parent(int(sys.argv[2]))
    noise.silence()
    import keras  # noqa: F401  imported here for all forks
    import tensorflow  # noqa: F401

    children: list[Child] = []
    with tempfile.TemporaryDirectory() as folder:
        while True:
            try:
                command, *rest = pipe.recv()
            except EOFError:
                break
            if command == "play":
                children = [Child(role, order, folder) for role, order in rest[0]]
                waited_for = [child for child in children if child.role != "server"]
            else:
                for child in children:
                    child.end()
                waited_for = [child for child in children if child.role == "server"]
            pipe.send(reports_of(waited_for))
            if command == "end":
                for child in children:
                    child.process.join(5)
                    child.process.kill()


if __name__ == "__main__":
    main()
