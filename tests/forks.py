"""Many commands of the kit in little time: one Python has imported it, and each command is a fork
of it.

`python -m tests.forks` reads a command a line, as JSON: `command` (a module and its arguments, as
after `python -m`), `env`, and `limit` (seconds). It answers with a line each: the exit status, and
all that was printed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import sys
import tempfile
from importlib import import_module

WARM = (
    "authoring.guide",
    "authoring.release",
    "labkit.cli",
    "labkit.cluster",
    "nbformat",
    "rich.table",
    "slurm.doctor",
    "slurm.hub",
    "support.lab80",
)
_FORK = multiprocessing.get_context("fork")


def main() -> None:
    for name in WARM:
        import_module(name)
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


def answer(command: list[str], env: dict[str, str], limit: float) -> tuple[int, str]:
    """Run one command in a fork. Raises TimeoutError."""
    with tempfile.TemporaryFile() as said:
        process = _FORK.Process(target=_become, args=(command, env, said.fileno()))
        process.start()
        process.join(limit)
        if process.exitcode is None:
            process.terminate()
            raise TimeoutError(command)
        said.seek(0)
        return process.exitcode, said.read().decode(errors="replace")


def _become(command: list[str], env: dict[str, str], said: int) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has closed the one that there was
    os.environ.clear()
    os.environ.update(env)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
