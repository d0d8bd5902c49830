"""The checks of lab 00."""

from __future__ import annotations

import copy
import dis
import numbers
import os
import platform
import types

from labkit import check, expect, launch, predict
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
            expect.close(got, want, "your answer's", slips=slips)
            expect.unchanged(node, given, "The report")
    for name in ("threads", "gpus"):
        whole = isinstance(got[name], numbers.Integral) and not isinstance(got[name], bool)
        expect(whole, f"`{name}` is {got[name]!r}, but it must be a whole number, an int.")
    print(f"Each of {ranks} ranks may use here: {per_rank(report, ranks)}")


@check.exercise("00.2")
def who_the_ranks_are(who_am_i, ranks):
    """Every one of three ranks, and of four, tells its number and process, and names its MPI."""

    def answer_and_truth(comm):
        from mpi4py import MPI

        return who_am_i(comm), (platform.node(), os.getpid(), MPI.Get_library_version())

    expect(
        not loads_mpi_outside(who_am_i),
        "`who_am_i` uses an MPI that was imported outside of it, so that the notebook loaded MPI,"
        " too. Write `from mpi4py import MPI` inside of the function.",
    )
    for count in (3, ranks):
        # Across ranks: one dict from every rank, in the order of the ranks, and what is true there.
        told = launch.run(answer_and_truth, ranks=count)
        people = [answer for answer, _ in told]
        expect(
            isinstance(people[0], dict),
            f"Every rank returns a dict, but rank 0 returned {people[0]}.",
        )
        numbers = [person["rank"] for person in people]
        expect.equal(numbers, list(range(len(people))), "`rank`, from rank to rank")
        expect.equal(
            {person["ranks"] for person in people}, {len(people)}, "`ranks`, as the ranks see it"
        )
        pids = [person["pid"] for person in people]
        processes = {(person["host"], person["pid"]) for person in people}
        different = len(processes) == len(people)
        expect(different, f"pids {pids} are not all different. Ask on the rank: os.getpid().")
        for person, (host, pid, version) in told:
            expect.equal(person["host"], host, f"`host` of rank {person['rank']}")
            expect.equal(person["pid"], pid, f"`pid` of rank {person['rank']}, from os.getpid()")
            library = person["library"]
            is_text = isinstance(library, str)
            expect(is_text, f"`library` is {library}, but MPI.Get_library_version() gives text.")
            expect(
                library.strip() == version.strip(),
                f"`library` is {library!r}: ask MPI.Get_library_version(), no quotes.",
            )
    print("Library:", library.splitlines()[0])
    predict.compare("00.2", processes=len({*pids, os.getpid()}))


def loads_mpi_outside(function) -> bool:
    """Whether a function takes mpi4py, or a part of it, from the notebook's names."""
    taken = [step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"]
    modules = [function.__globals__.get(name) for name in taken]
    return any(
        isinstance(module, types.ModuleType) and module.__name__.startswith("mpi4py")
        for module in modules
    )


@check.exercise("00.3")
def greetings_round_a_ring(pass_on, patience, ranks):
    """Each rank returns its left neighbor's greeting, with three ranks and with four."""

    def pass_on_and_tell(comm):
        return os.getpid(), pass_on(comm)

    # Across ranks: three as well as `ranks`, since some mistakes show with an odd number only.
    for count in (3, ranks):
        told = launch.run(pass_on_and_tell, ranks=count, timeout=patience)
        sent = [f"greetings from rank {rank}, process {pid}" for rank, (pid, _) in enumerate(told)]
        want = sent[-1:] + sent[:-1]  # what each rank's left neighbor sent
        got = [greeting for _, greeting in told]
        expect.equal(got, want, f"what {len(got)} ranks returned, rank by rank")
