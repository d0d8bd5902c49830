"""The checks of lab 21."""

from __future__ import annotations

from functools import partial
from inspect import signature

import numpy as np
import virtual
from labkit import check, expect, launch, predict
from labkit.counting import EVERY_SIZE, CallLog, by_arrays_alone, on_every_size, sizes_of_groups
from labkit.errors import counted
from labkit.timing import human

LENGTHS = (8, 7, 3)  # values per vector: even, odd, and fewer than ranks
MANY = 64  # simulated ranks, as in the computed curves
MODEL = {"alpha": 2e-6, "bandwidth": 12e9}  # of the computed curves


@check.exercise("21.1")
def broadcast_by_a_tree(broadcast, patience):
    """The right values lie in the caller's own array, on 1 to 5 ranks and on 64 simulated ones,
    from any root, after as few steps as a tree needs, with as many vectors sent as needed.
    """
    right_and_cheap(broadcast, lambda vectors, root: [vectors[root]] * len(vectors), patience)
    # The function again, on 16 simulated ranks.
    sixteen = virtual.Cluster(16).run(broadcast, np.ones(4), 0)
    predict.compare("21.1", steps=max(sixteen.steps), messages=sum(sixteen.sent))


@check.exercise("21.2")
def reduce_and_allreduce(reduce, allreduce_tree, patience):
    """The sum lies in the root's own array, then in every rank's, after a tree's steps and after
    twice as many.
    """

    def sum_on_root(vectors, root):
        return [sum(vectors) if rank == root else None for rank in range(len(vectors))]

    right_and_cheap(reduce, sum_on_root, patience)
    right_and_cheap(
        allreduce_tree, lambda vectors, root: [sum(vectors)] * len(vectors), patience, times=2
    )


@check.exercise("21.3")
def chunks_in_turns(reduce_scatter, patience):
    """Chunk r of the sum lies in rank r's own array, after p - 1 steps."""

    def chunks_of_sum(vectors, root):
        return np.array_split(sum(vectors), len(vectors))

    right_and_cheap(
        reduce_scatter, chunks_of_sum, patience, steps=lambda size: size - 1, chunk=True
    )


@check.exercise("21.4")
def mean_by_allreduce(average, patience):
    """Each of 1 to 5 ranks gets the mean, by one Allreduce of the array."""
    ranks = launch.ranks_here(5)
    per_rank = launch.run(
        on_every_size, partial(expect_mean, average), ranks=ranks, timeout=patience
    )
    expect.equal(list(per_rank[0]), sizes_of_groups(len(per_rank)), "Numbers of ranks tried")


def right_and_cheap(
    function, want, patience, steps=lambda size: (size - 1).bit_length(), times=1, chunk=False
):
    """The right values, in times * steps(p), with times * (p - 1) vectors sent by all p ranks
    together.

    steps: by default those of a tree.
    """
    test = partial(expect_results, function=function, want=want, chunk=chunk)
    sizes = launch.run(on_every_size, test, ranks=launch.ranks_here(5), timeout=patience)[0]
    for size in sizes:
        for root in roots_of(function, size):
            # The function again, on as many simulated ranks, which count.
            vector = np.ones(LENGTHS[0])
            run = virtual.Cluster(size).run(function, vector, *root)
            where = f"with {counted(size, 'rank')}" + (f" and root {root[0]}" if root else "")
            subject = f"{function.__name__} is right. But {where}, the number of"
            vectors = sum(run.sent_bytes) / vector.nbytes
            expect.equal(vectors, times * (size - 1), f"{subject} vectors sent")
            expect.equal(max(run.steps), times * steps(size), f"{subject} steps")
    right_on_many(function, want, chunk, times * steps(MANY))


def right_on_many(function, want, chunk, steps):
    """The right values on many simulated ranks too, which take the time of so many steps."""
    vectors = list(np.random.default_rng(MANY).integers(1, 100, (MANY, MANY)).astype(float))

    def part_asked(comm, vector, *root):
        function(comm, vector, *root)
        return np.array_split(vector, comm.size)[comm.rank] if chunk else vector

    # The first root, and one from which the numbers go around the end.
    for root in roots_of(function, MANY)[:2]:
        cluster = virtual.Cluster(MANY, machine=virtual.ideal(**MODEL))
        run = cluster.run(part_asked, virtual.by_rank(vectors), *root)
        where = f"{MANY} simulated ranks" + (f", root {root[0]}" if root else "")
        rights = want(vectors, *(root or [0]))
        for rank, (got, right) in enumerate(zip(run.results, rights, strict=True)):
            if right is not None:
                expect.close(
                    got,
                    right,
                    f"{function.__name__}, {where}: on rank {rank}, "
                    + (f"chunk {rank} of `vector`" if chunk else "`vector`"),
                    because="With few ranks it is right.",
                )
        one_by_one = steps * (MODEL["alpha"] + got.nbytes / MODEL["bandwidth"])
        expect(
            run.time < 1.001 * one_by_one,
            f"{function.__name__} is right. But on {where} it takes {human(run.time)}, and"
            f" {human(one_by_one)} if one message follows another: messages of a rank that begin"
            " together, as with Isend, share its bandwidth. Use Send.",
        )


def roots_of(function, size):
    """[root] for each rank that is tried as the root; [] alone for a function that has none.

    Of a large group's ranks only three: every try takes a communicator, and MPI has about two
    thousand of them.
    """
    if "root" not in signature(function).parameters:
        return [[]]
    roots = range(size) if size <= EVERY_SIZE else (0, size // 3, size - 1)
    return [[root] for root in roots]


def expect_results(comm, function, want, chunk):
    """want(vectors, root)[rank] must lie in `vector`, or in this rank's chunk of it."""
    for rooted in roots_of(function, comm.size):
        root = rooted[0] if rooted else 0
        for length in LENGTHS if root == 0 else LENGTHS[:1]:
            vectors = (
                np.random.default_rng(root).integers(1, 100, (comm.size, length)).astype(np.float32)
            )
            vector = vectors[comm.rank].copy()
            case = f"root {root}, {length} values" if rooted else f"{length} values"
            with check.case(case):
                by_arrays_alone(comm, function, vector, *rooted)
            right = want(vectors, root)[comm.rank]
            if right is None:
                continue
            own = np.array_split(vector, comm.size)[comm.rank] if chunk else vector
            before = (
                np.array_split(vectors[comm.rank], comm.size)[comm.rank]
                if chunk
                else vectors[comm.rank]
            )
            part = f"chunk {comm.rank} of `vector`" if chunk else "`vector`"
            subject = (
                f"{function.__name__}, {counted(comm.size, 'rank')}, {case}: on rank {comm.rank},"
                f" {part}"
            )
            place = (
                "it is as it was before the call: either no message reached this rank, or the"
                " result lies in a new array instead of this one"
            )
            expect.close(own, right, subject, slips={place: before})


def expect_mean(average, comm):
    gradients = np.random.default_rng(comm.size).random((comm.size, 3, 2)).astype(np.float32)
    before = gradients[comm.rank]
    gradient = before.copy()
    log = CallLog(comm)
    mean = average(log, gradient)
    want = gradients.mean(axis=0)
    subject = f"{counted(comm.size, 'rank')}: on rank {comm.rank}"
    slips = {
        "this is the sum over the ranks, not the mean": comm.size * want,
        "this is the rank's own gradient: the others' are not in it": before,
        "this is one number for all positions; each position has its own mean": np.full(
            want.shape, want.mean()
        ),
    }
    named = False
    if np.shape(mean) == want.shape:
        share = float(np.ravel(mean)[0] / want.flat[0])
        if 0.01 < share < 100:
            slips[f"this is the mean times {share:.3g}"] = share * want
        named = any(np.allclose(mean, slip) for slip in slips.values())
    unknown = np.shape(mean) == want.shape and not named
    because = "Do all ranks call Allreduce, and is the result returned?" if unknown else ""
    expect.close(mean, want, f"{subject}, the mean", slips=slips, because=because)
    type_name = type(mean).__name__
    expect(isinstance(mean, np.ndarray), f"{subject}: expected an array, got a {type_name}.")
    expect.unchanged(before, gradient, f"{subject}, `gradient`")
    calls = ", ".join(log.calls) or "none"
    by_calls = f"{subject}: the right mean, but by the calls: {calls}. One Allreduce is asked for"
    expect(log.calls == ["Allreduce"], f"{by_calls}, also on one rank.")
    expect.equal(mean.dtype.name, "float32", f"{subject}: the mean's dtype")
