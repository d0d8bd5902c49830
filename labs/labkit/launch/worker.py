"""One rank of a run that `labkit.launch` started: `python worker.py FOLDER`, once per rank.

The process forks at once. The child is the rank: it runs the learner's function. The parent waits
for it and tells how it ended, so that a rank that dies by a signal is named, and so that the MPI
launcher does not kill the others (and write its own obituary) before their output is through.

Files in FOLDER: `task` (function and arguments), `events` (a pipe: one short line per thing that
happened), `out.R` (a pipe: everything rank R prints), `gate` (a pipe that ends when ranks may go),
`result.R`, `failure.R`, `dump.R`, `case.R` (what rank R is trying, see cases.py).
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import pickle
import select
import signal
import sys
import threading
import time


class Folder:
    """The run's private folder, as a rank uses it."""

    def __init__(self, path: str, rank: int):
        self.path = path
        self.rank = rank
        self.events = os.open(self.file("events"), os.O_WRONLY)
        self.gate = os.open(self.file("gate"), os.O_RDONLY)

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def tell(self, what: str, *numbers: object) -> None:
        """One line to the notebook's side; short enough to be written in one piece."""
        os.write(self.events, f"{what} {self.rank} {' '.join(map(str, numbers))}\n".encode())

    def store(self, name: str, write) -> None:
        """Write a file that is either complete or not there. `write(file)` fills it.

        Where a result does not fit, the failure takes the room of what was written of it.
        """
        part = os.open(self.file(f"part.{self.rank}"), os.O_WRONLY | os.O_CREAT, 0o600)
        with open(part, "wb") as file:
            write(file)
            file.truncate()
        os.replace(self.file(f"part.{self.rank}"), self.file(f"{name}.{self.rank}"))

    def wait_at_gate(self) -> None:
        """Stay until all are through. MPI may have to move messages others wait for, but without
        spinning."""
        poll = select.poll()
        poll.register(self.gate, 0)  # a hang-up is always reported
        while not poll.poll(2 if _progress() else None):
            pass


def _progress() -> bool:
    """Give MPI a chance to move messages. False when MPI is not in use here."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return False
    mpi.COMM_SELF.Iprobe()
    return True


def _guard(launcher: int) -> None:
    """The parent's part, at first: should the launcher die, take along all that the rank
    started."""

    from labkit.launch import supervisor

    def end(*_) -> None:
        supervisor.kill_descendants()
        os._exit(1)

    supervisor.adopt_orphans()
    signal.signal(signal.SIGTERM, end)
    supervisor.die_with_parent(launcher, signal.SIGTERM)


def _watch(folder: Folder, child: int) -> None:
    """The parent's part, then: say how the rank ended."""
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    folder.tell("ended", code, time.monotonic())
    if code:
        folder.wait_at_gate()


def _keep_temporary_files(path: str) -> None:
    """Temporary files of the rank belong to the run's folder, which is removed with the run.

    TensorFlow writes one for each traced function, and removes it only where Python ends in peace.
    """
    os.environ["TMPDIR"] = path
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None  # else it stays with the folder it has found


def _catch_output(folder: Folder) -> None:
    """Send file descriptors 1 and 2 to the notebook's side: what C libraries print is caught
    too."""
    pipe = os.open(folder.file(f"out.{folder.rank}"), os.O_WRONLY)
    os.dup2(pipe, 1)
    os.dup2(pipe, 2)
    os.close(pipe)
    # New stream objects: the old ones were made for whatever file the launcher gave.
    sys.stdout = sys.__stdout__ = _lines_to(1)
    sys.stderr = sys.__stderr__ = _lines_to(2)


def _lines_to(number: int):
    return open(
        number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def _leave_traces(folder: Folder, number: int) -> None:
    """Have a crash, and the signal that asks a stuck rank where it is, write the Python lines to
    `dump.R`.

    faulthandler does this in C without the interpreter's lock, so it works inside a blocked MPI
    call.
    """
    dump = open(folder.file(f"dump.{folder.rank}"), "wb", buffering=0)  # noqa: SIM115 - stays open until the end
    faulthandler.enable(dump, all_threads=True)
    faulthandler.register(number, dump, all_threads=True, chain=False)


def _communicator(ranks: int):
    """MPI_COMM_WORLD, after a check that this MPI library and the launcher found each other."""
    from labkit import mpis
    from labkit.launch import shm

    mpis.prefer_own_cuda()
    from mpi4py import MPI

    if MPI.COMM_WORLD.size != ranks:
        from labkit.errors import NotHere

        library = mpis.first_line(MPI.Get_library_version())
        raise NotHere(
            f"{ranks} ranks were started, but each sees {MPI.COMM_WORLD.size}: mpi4py loads"
            f" {library!r}, which is not the MPI that this mpiexec belongs to. `make doctor` shows"
            " both."
        )
    MPI.COMM_WORLD.Barrier()
    shm.unlink_own()
    return MPI.COMM_WORLD


def _check_builds() -> None:
    """Of a rank that was given builds: has it these, and no other? The rest need not wait for the
    import."""
    if "LABKIT_HOROVOD" in os.environ or "LABKIT_MPI_BUILD" in os.environ:
        from labkit import builds

        builds.check()


def _run(folder: Folder, settings: dict) -> None:
    from labkit.launch import cases, diagnosis

    cases.leave_in(folder.file(f"case.{folder.rank}"))
    phase = "load"
    try:
        _check_builds()
        with open(folder.file("task"), "rb") as file:
            fn, args, kwargs = pickle.load(file)
        if settings["comm"]:
            args = (_communicator(settings["ranks"]), *args)
        folder.tell("begin")
        phase = "run"
        result = fn(*args, **kwargs)
        _check_builds()  # now that its libraries are loaded
        phase = "result"
        import cloudpickle

        folder.store("result", lambda file: cloudpickle.dump(result, file, protocol=5))
    except BaseException as error:  # SystemExit and KeyboardInterrupt end a rank just as well
        failure = diagnosis.describe(error, phase, time.monotonic())
        folder.store("failure", lambda file: pickle.dump(tuple(failure), file))
        sys.stdout.flush()
        folder.tell("failed", failure.when)
    else:
        sys.stdout.flush()
        folder.tell("done")
    folder.wait_at_gate()


def _end() -> None:
    """What a Python program does at its end, but for one thing: to give back all objects of all
    modules.

    After PyTorch or TensorFlow was imported that takes a second, for which the learner would wait.
    Forks of Python's own multiprocessing end in this way, too.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main(path: str) -> None:
    """The rank never returns from here; its watcher does, once the rank has ended."""
    launcher = os.getppid()
    with open(os.path.join(path, "settings"), "rb") as file:
        settings = pickle.load(file)
    sys.path[:] = settings["sys_path"]
    from labkit import noise, world
    from labkit.launch import loopback, supervisor

    loopback.close_inherited()
    place = world.launched(os.environ)
    folder = Folder(path, place.rank)
    os.environ["LABKIT_RANK"] = str(place.rank)
    os.environ["LABKIT_SIZE"] = str(settings["ranks"])
    _keep_temporary_files(path)
    _guard(launcher)
    watcher = os.getpid()
    child = os.fork()
    if child:
        _watch(folder, child)
        supervisor.kill_descendants()  # of a fork nobody else finds what the rank has started
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    supervisor.die_with_parent(watcher)
    _catch_output(folder)
    _leave_traces(folder, settings["signal"])
    folder.tell("start", os.getpid())
    noise.silence()
    _run(folder, settings)
    _end()


if __name__ == "__main__":
    main(sys.argv[1])
