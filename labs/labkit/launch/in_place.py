"""`launch.run` in a file that runs on several ranks of MPI already: the function runs on those."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from labkit import builds, world
from labkit.launch import cases, diagnosis, excepthook, meeting, notes, plans, process
from labkit.launch.task import Run

GRACE = 1.0  # seconds in which other ranks may say that they failed too
MEET_LIMIT = 300.0  # seconds until every rank must have called launch.run
_warned_of: set[int] = set()  # numbers of ranks that were asked for and are not there


def run_here(run: Run) -> list:
    """Run its task here; everyone's results, the same on every rank."""
    meeting.refuse_without_mpi()
    job = meeting.join()
    # and end the whole job when one rank fails outside of launch.run
    excepthook.print_lab_errors_plainly()
    builds.check()
    builds.refuse_another(run.horovod, run.mpi)
    task = run.task
    taking_part = min(run.ranks, job.size) if task.wants_comm else job.size
    if taking_part != run.ranks and job.rank == 0 and run.ranks not in _warned_of:
        _warned_of.add(run.ranks)
        print(
            f"{run.ranks} ranks were asked for; this job has {job.size}, and all take part.",
            flush=True,
        )
    with _address(job, run.controller) as address:
        offers = _meet(job, address, run.timeout)
        process.limit_threads(process.fair_threads([cores for cores, _ in offers]))
        settings = _torch_settings(job, offers[0][1]) | run.env
        own = _communicator(taking_part) if task.wants_comm else None
        args = (own, *task.args) if task.wants_comm else task.args
        if job.rank < taking_part:
            with (
                process.threads(run.threads),
                process.environment(settings),
                process.output(job.rank, run.echo),
                _watchdog(job, run.timeout),
            ):
                payload, failure = _call(task.fn, args, task.kwargs)
        else:
            payload = pickle.dumps(None)
            failure = None
        results = _results(job, payload, failure, run.timeout)[:taking_part]
    if own is not None:
        _free(job, own)
    return results


def _meet(job, address: tuple[str, str] | None, timeout: float) -> list:
    """Wait until all ranks call launch.run. Returns (cores it may use, address it offers) by
    rank."""
    offer = pickle.dumps((process.my_cores(), address))
    offers = job.gather(offer, max(MEET_LIMIT, timeout))
    if offers is None:
        _leave(job, f"rank {job.rank} called launch.run, but not every other rank of this job did.")
    return [pickle.loads(offer) for offer in offers]


def _results(job, payload: bytes, failure: diagnosis.Failure | None, timeout: float) -> list:
    everyone = job.gather(payload, GRACE if failure else timeout + MEET_LIMIT)
    if everyone is None:
        if failure:
            _leave(job, str(diagnosis.raised(job.rank, failure)))
        _leave(job, f"rank {job.rank} has finished, but not every other rank came back.")
    replies = [pickle.loads(reply) for reply in everyone]
    failures = {
        rank: reply for rank, reply in enumerate(replies) if isinstance(reply, diagnosis.Failure)
    }
    if failures:
        first = min(failures, key=lambda rank: failures[rank].when)
        raise diagnosis.raised(first, failures[first])
    return replies


def _call(fn: Callable, args: tuple, kwargs: dict) -> tuple[bytes, diagnosis.Failure | None]:
    """The pickled result of the function and None, or the account of its failure, pickled and as it
    is."""
    phase = "run"
    try:
        result = fn(*args, **kwargs)
        phase = "result"
        return _dumps(result), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit inside the function ends a rank just as well
        failure = diagnosis.describe(error, phase, meeting.now())
        return pickle.dumps(failure), failure


def _dumps(result: object) -> bytes:
    try:
        return pickle.dumps(result, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle  # takes functions and classes made on the spot as well

        return cloudpickle.dumps(result, protocol=5)


def _communicator(taking_part: int):
    from mpi4py import MPI

    inside = MPI.COMM_WORLD.rank < taking_part
    return MPI.COMM_WORLD.Split(0 if inside else MPI.UNDEFINED)


def _free(job, own) -> None:
    """Give a communicator made for one run back: MPI has about two thousand of them.

    One with a message that no rank has received is kept: MPI would give its number to the next
    run's, and the message with it.
    """
    from mpi4py import MPI

    inside = own != MPI.COMM_NULL
    if not job.any(inside and own.Iprobe()) and inside:
        own.Free()


@contextlib.contextmanager
def _address(job, controller: str) -> Iterator[tuple[str, str] | None]:
    """Rank 0's host and port for torch.distributed's process group, new for every run; None
    elsewhere.

    While this is open nobody else is given the port.
    """
    if controller != "torch" or job.rank:
        yield None
        return
    with plans.reserve_port("") as taken:
        host = "127.0.0.1" if world.local_size() == job.size else socket.gethostname()
        yield host, str(taken.getsockname()[1])


def _torch_settings(job, address: tuple[str, str] | None) -> dict[str, str]:
    """What init_process_group reads, when rank 0 offers an address."""
    if address is None:
        return {}
    settings = {"MASTER_ADDR": address[0], "MASTER_PORT": address[1]}
    settings |= {"RANK": str(job.rank), "WORLD_SIZE": str(job.size)}
    return settings | {
        "LOCAL_RANK": str(world.local_rank()),
        "LOCAL_WORLD_SIZE": str(world.local_size()),
    }


@contextlib.contextmanager
def _watchdog(job, timeout: float) -> Iterator[None]:
    """After `timeout` seconds say where this rank is stuck, let the others say it too, and end the
    job."""
    timeout = min(float(timeout), 1e9)  # the timers below take no other number, and not "inf"
    thread = threading.get_ident()

    def speak() -> None:
        frames = diagnosis.stack(sys._current_frames()[thread])
        frame = diagnosis.innermost([diagnosis.Frame(*frame) for frame in frames])
        place = f"waits in {frame.stuck_place()}" if frame else "did not return"
        case = f", {cases.now()}" if cases.now() else ""
        _say(f"after {timeout:g} s without an end{case}: rank {job.rank} {place}")
        time.sleep(GRACE)
        job.abort()

    timer = threading.Timer(timeout, speak)
    timer.daemon = True
    timer.start()
    # Compiled code that keeps the interpreter's lock keeps the thread from speaking; this one needs
    # no lock.
    faulthandler.dump_traceback_later(timeout + 3 * GRACE, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _say(text: str) -> None:
    notes.failed(text)
    os.write(2, (text + "\n").encode("utf-8", errors="backslashreplace"))


def _leave(job, text: str) -> None:
    """The last words of a rank whose job cannot go on."""
    sys.stdout.flush()
    _say(text)
    time.sleep(0.3)  # a launcher may drop what it has not read when it hears of the end
    job.abort()
