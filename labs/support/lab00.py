"""The checks of lab 00."""

from __future__ import annotations

import copy
import dis
import numbers
import os
import platform
import time
import types

from labkit import check, expect, launch
from labkit.counting import CallLog, on_every_size, sizes_of_groups
from labkit.errors import counted


@check.exercise("00.1")
def shares_of_a_machine(per_rank, ranks, report):
    """The shares of a machine with 6 cores and 2 GPUs, of 1 to 12 ranks; with one GPU, and none."""
    # Another machine: 64 cores, of which a job may use 6; 256 GiB, of which 33.1 are free.
    machine = {"cores": 6, "cores_in_all": 64, "memory_gib": 256.0, "memory_free_gib": 33.1}
    two = [{"name": "A100"}, {"name": "A100"}]
    for count, threads, devices in (
        (1, 6, two),
        (3, 2, two),
        (2, 3, two[:1]),
        (2, 3, None),
        (4, 1, two),
        (12, 1, two),
    ):
        node = {"machine": machine, "gpu": {"devices": devices}}
        gpus = len(devices or [])
        want = {"threads": threads, "memory_gib": 33.1 / count, "gpus": gpus}
        slips = {
            "`gpus` is not divided: every rank sees all of them": {**want, "gpus": gpus // count}
        }
        here = f"6 cores of 64, 33.1 GiB free of 256, {counted(gpus, 'GPU')}"
        with check.case(f"Ranks: {count}, {here}"):
            given = copy.deepcopy(node)
            got = per_rank(given, count)
            kind = type(got).__name__
            expect(got is None or isinstance(got, dict), f"It returns a {kind}, not a dict.")
            expect.close(got, want, "the returned dict", slips=slips)
            expect.unchanged(node, given, "The report")
            for name in ("threads", "gpus"):
                whole = isinstance(got[name], numbers.Integral) and not isinstance(got[name], bool)
                expect(whole, f"`{name}` is {got[name]!r}, but it must be a whole number, an int.")
    print(f"Each of {ranks} ranks may use here: {per_rank(report, ranks)}")


@check.exercise("00.2")
def who_the_ranks_are(who_am_i):
    """Every one of three ranks tells its number and process, and names its MPI."""
    asked = {
        "rank": "comm.rank",
        "ranks": "comm.size",
        "host": "platform.node()",
        "pid": "os.getpid()",
        "library": "MPI.Get_library_version()",
    }

    def answer_and_truth(comm):
        from mpi4py import MPI

        library = MPI.Get_library_version().strip()
        truth = (comm.rank, comm.size, platform.node(), os.getpid(), library)
        return who_am_i(comm), dict(zip(asked, truth, strict=True))

    expect(
        not loads_mpi_outside(who_am_i),
        "`who_am_i` uses an MPI that was imported outside of it, so that the notebook loaded MPI,"
        " too. Write `from mpi4py import MPI` inside of the function.",
    )
    # Across ranks: one dict from every rank, in the order of the ranks, and what is true there.
    for rank, (me, truth) in enumerate(launch.run(answer_and_truth, ranks=3)):
        kind = "None. Is a `return` missing?" if me is None else f"a {type(me).__name__}."
        expect(isinstance(me, dict), f"Every rank returns a dict, but rank {rank} returned {kind}")
        for key, value in truth.items():
            expect(key in me, f"The dict that rank {rank} returned has no entry `{key}`.")
            got = me[key].strip() if isinstance(me[key], str) else me[key]
            because = f"It is the value of {asked[key]} on that rank"
            expect.equal(got, value, f"`{key}` of rank {rank}", because=because)
    print("Library:", truth["library"].splitlines()[0])


def loads_mpi_outside(function) -> bool:
    """Whether a function takes mpi4py, or a part of it, from the notebook's names."""
    taken = [step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"]
    modules = [function.__globals__.get(name) for name in taken]
    return any(
        isinstance(module, types.ModuleType) and module.__name__.startswith("mpi4py")
        for module in modules
    )


@check.exercise("00.3")
def greetings_round_a_ring(pass_on, patience):
    """Each rank returns its left neighbor's greeting, with four, three and two ranks; some begin
    late.
    """

    def expect_greeting(comm):
        if comm.size == 1:  # MPICH's send to the rank itself waits, however short the message
            return
        time.sleep(0.05 * comm.rank)
        log = CallLog(comm)  # passes every call on, and notes its request
        got = pass_on(log)
        pids = comm.allgather(os.getpid())  # so every rank has sent what it sends
        greetings = [f"greetings from rank {rank}, process {pid}" for rank, pid in enumerate(pids)]
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        slips = {
            "this is the rank's own greeting": greetings[comm.rank],
            "this is the right neighbor's greeting": greetings[right],
        }
        subject = f"{counted(comm.size, 'rank')}, what rank {comm.rank} returned"
        expect.equal(got, greetings[left], subject, slips=slips)
        log.expect_waited()
        extra = comm.recv() if comm.iprobe() else None
        expect(extra is None, f"Rank {comm.rank} was sent a message that it never received.")

    # Across ranks: in groups of all ranks, of all but the last, and so on.
    per_rank = launch.run(
        on_every_size, expect_greeting, ranks=launch.ranks_here(4), timeout=patience
    )
    expect.equal(list(per_rank[0]), sizes_of_groups(len(per_rank)), "Numbers of ranks tried")
