"""A class on one hub: `python -m tests.endurance.forty_learners [--learners 40] [--at-once 4]`, as root.

Each learner logs in, gets a notebook server as a Slurm job of a tabletop cluster, and works through lab 23,
solved, in a kernel of their own, cell by cell through the server's API. Prints how long starts took, memory
and CPU time of each, failures, and what is left when all have logged out.

On few cores cells queue: --at-once of them run at a time. Nobody logs out before everybody is done, so that
memory is that of a full class.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psutil
from authoring import generate
from authoring.cells import solved_cells
from labkit.errors import LabError, exit_status

from slurm.hub import settings
from tests.slurm.hub_client import Learner
from tests.slurm.own_machine import OwnMachine

STEM = "23_ring_allreduce"
BYTES = 4.5e8  # memory that one learner may take: a server, a kernel, and a share of the ranks


@dataclass
class Result:
    """What became of one learner. Seconds; memory in bytes, each page shared out among its users."""

    name: str
    start: float = 0.0
    done: float = 0.0
    longest_cell: float = 0.0
    memory: int = 0
    cpu: float = 0.0
    failures: list[str] = field(default_factory=list)


class School:
    """The learners' work, and what is measured of it."""

    def __init__(self, address: str, words: dict[str, str], at_once: int, seconds_between: float):
        self.address = address
        self.words = words
        self.seconds_between = seconds_between
        self.turn = threading.Semaphore(at_once)
        self.all_done = threading.Barrier(len(words) + 1)
        self.measured = threading.Event()
        lab = generate.load(STEM)
        self.cells = [cell.source for cell in solved_cells(lab) if cell.kind == "code"]

    def attend(self, number: int, name: str) -> Result:
        """One learner, from log-in to log-out. A failure is noted, and the others go on."""
        result = Result(name)
        learner = Learner(self.address, name, self.words[name])
        time.sleep(number * self.seconds_between)
        begin = time.monotonic()
        try:
            if not learner.log_in():
                raise RuntimeError("the password was not taken")
            result.start = learner.start()
            self._work(learner, result)
        except Exception as error:  # whatever it is, the class goes on
            result.failures.append(f"{type(error).__name__}: {str(error)[-500:]}")
        result.done = time.monotonic() - begin
        self.all_done.wait()
        self.measured.wait()
        learner.log_out()
        return result

    def _work(self, learner: Learner, result: Result) -> None:
        with self.turn:
            kernel = learner.kernel()
        for cell in self.cells:
            with self.turn:
                begin = time.monotonic()
                kernel.run(cell)
                result.longest_cell = max(result.longest_cell, time.monotonic() - begin)


def of_user(number: int) -> list[psutil.Process]:
    """The processes of a user id."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.uids().real == number:
                found.append(process)
        except psutil.Error:
            continue
    return found


def measure(result: Result, number: int) -> None:
    """Memory and CPU time of all that this user runs, with that of their processes that have ended."""
    for process in of_user(number):
        try:
            result.memory += process.memory_full_info().pss
            times = process.cpu_times()
        except psutil.Error:
            continue
        result.cpu += times.user + times.system + times.children_user + times.children_system


def user_ids(machine: OwnMachine, names: list[str]) -> dict[str, int]:
    lines = (machine.folder / "etc" / "passwd").read_text(encoding="utf-8").splitlines()
    entries = [line.split(":") for line in lines]
    return {entry[0]: int(entry[2]) for entry in entries if entry[0] in names}


def succeed(done) -> str:
    """What a command printed. LabError with its complaint when it failed."""
    if done.returncode:
        raise LabError(done.stderr.strip())
    return done.stdout


def run(options: argparse.Namespace) -> int:
    """The whole day. Returns 1 when somebody failed, or something is left."""
    if os.geteuid():
        raise LabError("Only root can make forty users: run it as root, on a machine of its own.")
    room = psutil.virtual_memory().available
    if room < options.learners * BYTES:
        raise LabError(
            f"{room / 1e9:.0f} GB are free, and {options.learners} learners need "
            f"{options.learners * BYTES / 1e9:.0f}: take --learners {int(room / BYTES)}."
        )
    with OwnMachine() as machine:
        succeed(machine.module("env.jupyterhub", timeout=900))
        try:
            return _school_day(machine, options)
        finally:
            machine.hub("down")
            machine.tabletop("down")


def _school_day(machine: OwnMachine, options: argparse.Namespace) -> int:
    port = settings.free_port()
    print(succeed(machine.hub("up", "--learners", str(options.learners), "--port", str(port))), flush=True)
    file = machine.home / "hub" / "private" / "passwords.txt"
    words = dict(line.split() for line in file.read_text(encoding="utf-8").splitlines())
    words.pop(settings.INSTRUCTOR)
    ids = user_ids(machine, list(words))
    before = psutil.virtual_memory().available
    lowest = [before]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1):
            lowest[0] = min(lowest[0], psutil.virtual_memory().available)

    threading.Thread(target=watch, daemon=True).start()
    school = School(f"http://127.0.0.1:{port}", words, options.at_once, options.between)
    begin = time.monotonic()
    with ThreadPoolExecutor(len(words)) as people:
        waiting = [people.submit(school.attend, number, name) for number, name in enumerate(words)]
        school.all_done.wait()
        lasted = time.monotonic() - begin
        measures = [Result(name) for name in words]
        for measured in measures:
            measure(measured, ids[measured.name])
        over.set()
        school.measured.set()
        results = [future.result() for future in waiting]
    left = _left(machine, list(ids.values()))
    report(results, measures, lasted, before - lowest[0], left)
    return 1 if left or any(result.failures for result in results) else 0


def _left(machine: OwnMachine, numbers: list[int], patience: float = 120) -> list[str]:
    """Jobs and processes of the learners that are there after at most `patience` seconds."""
    squeue = machine.home / "tabletop" / "table" / "bin" / "squeue"
    deadline = time.monotonic() + patience
    while True:
        jobs = machine.run(str(squeue), "-h", "-o", "job %i of %u").stdout.splitlines()
        processes = [process for number in numbers for process in of_user(number)]
        if not (jobs or processes) or time.monotonic() > deadline:
            return [*jobs, *map(str, processes)]
        time.sleep(1)


def report(
    results: list[Result], measures: list[Result], lasted: float, peak: float, left: list[str]
) -> None:
    """Print the figures. peak: bytes that the class took of the machine's memory at the most."""

    def spread(values: list[float], unit: str) -> str:
        return f"median {statistics.median(values):.0f} {unit}, most {max(values):.0f} {unit}"

    failed = [result for result in results if result.failures]
    print(f"learners                {len(results)}, on {psutil.cpu_count()} cores; lab {STEM[:2]}, solved")
    print(f"start of a server       {spread([result.start for result in results], 's')}")
    print(f"log-in to last cell     {spread([result.done for result in results], 's')}; all {lasted:.0f} s")
    print(f"longest cell            {spread([result.longest_cell for result in results], 's')}")
    print(f"memory of a learner     {spread([each.memory / 1e6 for each in measures], 'MB')}, lab done")
    print(f"CPU time of a learner   {spread([each.cpu for each in measures], 's')}")
    print(f"memory of all, at most  {peak / 1e9:.1f} GB")
    print(f"failures                {len(failed)}")
    for result in failed:
        print(f"  {result.name}: {result.failures[0]}")
    print(f"left                    {', '.join(left) or 'no job, no process'}", flush=True)


def main() -> int:
    """The command line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # told to end, it takes hub and tabletop down
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.forty_learners", description=__doc__)
    parser.add_argument("--learners", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=4, help="cells that run at a time (default: 4)")
    parser.add_argument(
        "--between", type=float, default=1.5, help="seconds from one log-in to the next (default: 1.5)"
    )
    return exit_status(lambda: run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
