"""`make run LAB=40 NP=4`: a lab's script as plain Python or under mpiexec, with other parameters if asked."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

from labkit import copies, labfile, launch, paths, world
from labkit.errors import LabError


def run(lab: str, ranks: int = 1, settings: Sequence[str] = (), solved: bool = False) -> int:
    """Run the learner's script (or the solved one) on that many ranks. Returns its exit status.

    A solved run keeps its progress and records apart, in home()/solved.
    """
    if ranks < 1:
        raise LabError(f"A lab runs on 1 rank or more; NP={ranks} makes no sense.")
    stem = labfile.find(lab)
    path = paths.root() / ("solutions" if solved else "labs") / f"{stem}.py"
    if not path.exists():
        raise LabError(f"{path.relative_to(paths.root())} is missing: `make labs` writes it.")
    env = dict(os.environ)
    if solved:
        env |= {"LABKIT_HOME": str(paths.home() / "solved"), "LABKIT_SOLVED": "1"}
    # Ranks share the cores: more threads than cores only get into each other's way.
    for name in launch.THREAD_VARIABLES if ranks > 1 else ():
        env.setdefault(name, str(max(1, world.cores() // ranks)))
    values = dict(labfile.read_setting(text) for text in settings)
    with copies.with_parameters(path, values) as script:
        return _run([*launcher(ranks), sys.executable, str(script)], env)


def launcher(ranks: int) -> list[str]:
    """The command that starts so many ranks here; [] for one rank, which is plain Python."""
    if ranks == 1:
        return []
    command = launch.mpiexec()
    kind = launch.flavor(command)
    if kind == "mpirun_rsh":
        return [command, "-export-all", "-np", str(ranks), *["localhost"] * ranks]
    if kind == "openmpi":
        return [command, "-n", str(ranks), "--oversubscribe"]
    return [command, "-n", str(ranks)]


def _run(command: list[str], env: dict[str, str]) -> int:
    # mpiexec ends its ranks itself when it is told to end, so it gets the chance before it is killed.
    process = subprocess.Popen(command, env=env, cwd=paths.root())
    try:
        with _passing_on(process, signal.SIGTERM):
            return process.wait()
    except KeyboardInterrupt:  # the terminal has sent Ctrl-C to the children as well
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(10)
        return 130
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _passing_on(process: subprocess.Popen, number: int) -> Iterator[None]:
    before = signal.signal(number, lambda *_: process.send_signal(number))
    try:
        yield
    finally:
        signal.signal(number, before)
