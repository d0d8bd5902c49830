"""Functions for ranks: Horovod's stall, sums in another order, and the learner's mends tried."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from labkit import expect, launch
from labkit.errors import RankFailed

from support.lab72.evidence import UNDECIDED, Rank, source
from support.lab72.faults import STEPS, Disorder, Nearby, agreed
from support.lab72.ward import LONGEST, Given, Job


def stall(lengths: Sequence[int], check: int = 1, shutdown: int = 2) -> None:
    """Let ranks with so many batches each train with Horovod, and print what its stall check says.

    check, shutdown: seconds after which it warns, and after which it ends everything.
    """
    env = {
        "HOROVOD_STALL_CHECK_TIME_SECONDS": str(check),
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": str(shutdown),
    }
    try:
        launch.run(_uneven, list(lengths), ranks=len(lengths), threads=1, env=env, timeout=60)
    except RankFailed as error:
        print(error)


def _uneven(lengths: list[int]) -> None:
    import horovod.torch as hvd
    import torch

    hvd.init()
    for step in range(lengths[hvd.rank()]):
        hvd.allreduce(torch.ones(3), name=f"step.{step}")


def try_on_ranks(averages: Callable, cases: Sequence[Sequence[int]], timeout: float) -> list[list[list]]:
    """What `try_averages` gives on each of three ranks; RankFailed if they do not end in so many seconds."""
    return launch.run(try_averages, averages, cases, ranks=3, threads=1, timeout=timeout)


def three(number: float) -> list[float]:
    """Three numbers in place of one, each another."""
    return [1.0 * number, 2.0 * number, -1.0 * number]


def try_averages(averages: Callable, cases: Sequence[Sequence[int]]) -> list[list]:
    """On a rank: what averages(gradients) gave, for each case of so many gradients by rank.

    The gradient of rank r in step s is `three(r + 1 + 10 s)`.
    """
    import horovod.torch as hvd
    import torch

    hvd.init()
    results = []
    for lengths in cases:
        with launch.case(f"with {', '.join(map(str, lengths))} gradients"):
            rank = hvd.rank()
            gradients = [torch.tensor(three(rank + 1 + 10 * step)) for step in range(lengths[rank])]
            answers = averages(gradients)
            results.append(None if answers is None else [answer.tolist() for answer in answers])
    return results


def swapped(folder: str) -> dict[str, list]:
    """On two ranks: sums of `a` (1 on each rank) and `b` (10), where rank 1 begins with `b`.

    By torch.distributed over Gloo, and by Horovod: {library: [a's sum, b's sum]} of this rank.
    """
    import horovod.torch as hvd
    import torch
    from torch import distributed

    hvd.init()
    rank = hvd.rank()
    order = ["a", "b"] if rank == 0 else ["b", "a"]
    store = distributed.FileStore(str(Path(folder, "store")), hvd.size())
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=hvd.size())
    try:
        tensors = {"a": torch.ones(3), "b": torch.full((3,), 10.0)}
        works = [distributed.all_reduce(tensors[name], async_op=True) for name in order]
        for work in works:
            work.wait()
        distributed.barrier()
    finally:
        distributed.destroy_process_group()
    by_gloo = [tensors[name][0].item() for name in ("a", "b")]
    tensors = {"a": torch.ones(3), "b": torch.full((3,), 10.0)}
    handles = {name: hvd.allreduce_async(tensors[name], name=name, op=hvd.Sum) for name in order}
    by_horovod = [hvd.synchronize(handles[name])[0].item() for name in ("a", "b")]
    return {"torch.distributed": by_gloo, "Horovod": by_horovod}


def sums_in_another_order() -> list[dict[str, list]]:
    """What `swapped` gives on each of two ranks."""
    with tempfile.TemporaryDirectory(prefix="lab72-") as folder:
        return launch.run(swapped, folder, ranks=2, threads=1)


def expect_through(ranks: Sequence[Rank], what: str) -> None:
    """Expect that all ranks have finished; else say who raised what, took too long, or waits where."""
    for rank in ranks:
        place = f" in line {rank.line}: {source(rank.file, rank.line)}" if rank.line else ""
        expect(rank.state != "raised", f"{what}: rank {rank.rank} raised {rank.error}{place}")
    undecided = [str(rank.rank) for rank in ranks if rank.state == UNDECIDED]
    expect(
        not undecided,
        f"{what}: after {LONGEST:.0f} s, rank {' and rank '.join(undecided)} had neither ended nor come to "
        "wait. This computer was too busy to tell whether your answer is right, or a loop in it has no end. "
        "Run the cell again.",
    )
    waiting = [rank for rank in ranks if rank.state != "finished"]
    places = []
    for rank in waiting:
        own = [frame for frame in rank.stack if launch.is_learners(frame.file)]
        where = f" in line {own[-1].line} of {own[-1].function}" if own else f": {rank.state}"
        text = f", {source(own[-1].file, own[-1].line)}" if own else ""
        places.append(f"rank {rank.rank}{where}{text}")
    expect(
        not places,
        f"{what}: nothing moves any more. It stands {'; '.join(places)}. An exchange waits until all ranks "
        "are in it: no rank may decide alone whether to make one.",
    )


def expect_epoch(ranks: Sequence[Rank], dealt: Nearby) -> None:
    """Expect that an epoch went to its end on all ranks, with all steps that all have files for."""
    fault = dealt.fault
    broken = {
        "disk": "a file does not answer",
        "log": "nobody reads the log",
        "table": "somebody holds the table's lock",
        "short": f"a shard has {dealt.steps} files and the others {STEPS}",
    }[fault.what]
    what = f"On rank {fault.rank} {broken}"
    expect_through(ranks, what)
    for rank in ranks:
        for name, lines in zip(("log", "table"), rank.note, strict=True):
            because = f"{dealt.steps} steps are possible, and `epoch` writes a line for each"
            expect.equal(
                len(lines),
                dealt.steps,
                f"{what}; rank {rank.rank}, lines of nearby / {name!r}",
                because=because,
            )
            want = [f"{step} {10.0 + step}" for step in range(dealt.steps)]
            expect.equal(lines, want, f"{what}; rank {rank.rank}, lines of nearby / {name!r}")


def as_dealt(batches: list[dict]) -> list[dict]:
    """A program that makes nothing of its batches."""
    return batches


WISHES = Given(
    [
        ([{"loss": loss, "statistics": names.split()}, {"loss": 3.0, "statistics": []}],)
        for loss, names in ((2.0, "width loss"), (7.0, "right height"), (4.0, "left loss area width"))
    ]
)


def expect_agreed(ranks: Sequence[Rank]) -> None:
    """Expect that ranks that were dealt WISHES go by the same batches."""
    expect_through(ranks, "Ranks that agree on two batches")
    want = agreed(WISHES.arguments)
    dealt = [batches[0]["statistics"] for (batches,) in WISHES.arguments]
    for rank in ranks:
        expect.equal(len(rank.result), len(want), f"Rank {rank.rank}: batches")
        for number, (batch, right) in enumerate(zip(rank.result, want, strict=True)):
            what = f"Batch {number}, rank {rank.rank}"
            expect(isinstance(batch, dict), f"{what}: `agree` returns {batch!r}, and no dict.")
            losses = [batches[number]["loss"] for (batches,) in WISHES.arguments]
            because = f"the losses by rank are {losses}"
            expect.equal(batch.get("loss"), right["loss"], f"{what}: loss", because=because)
            because = f"wanted are, by rank, {dealt}" if number == 0 else "nobody wants any"
            names = batch.get("statistics")
            expect(names is not None, f"{what}: there are no statistics.")
            expect.equal(list(names), right["statistics"], f"{what}: statistics", because=because)


def expect_in_step(ranks: Sequence[Rank], fault: Disorder) -> None:
    """Expect that all ranks made the same calls in training: those that the agreed batches want."""
    expect_through(ranks, f"Training with the batches of your `agree`, rank {fault.rank}'s differ")
    calls = []
    for batch in agreed(fault(Path())):
        calls.append("all_reduce")
        if batch["loss"] > 100:
            calls.append("broadcast")
        calls += ["all_gather" if name == "right" else "reduce" for name in batch["statistics"]]
    calls.append("barrier")
    for rank in ranks:
        made = [record.call for record in rank.records]
        expect.equal(made, calls, f"Training, rank {rank.rank}: calls")


def train_safely(average: Callable, gradients: Sequence[Sequence[float]]) -> list[tuple]:
    """A program for ranks: (what average(gradient) gave, the gradient after it) in each step."""
    import torch

    results = []
    for numbers in gradients:
        gradient = torch.tensor(numbers)
        answer = average(gradient)
        results.append((answer, gradient.tolist()))
    return results


def tries(average: Callable, steps: Sequence[Sequence[Sequence[float]]]) -> Job:
    """The job that tries average(gradient). steps: for each step the gradients of the ranks."""
    by_rank = zip(*steps, strict=True)
    dealt = Given([(average, list(gradients)) for gradients in by_rank])
    return Job(train_safely, dealt, from_outside=False)


def expect_together(ranks: Sequence[Rank], steps: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """Expect of what `tries` found that all ranks said the same in each step, and averaged where they may.

    steps: by name, the gradients of the ranks.
    """
    expect_through(ranks, "The steps")
    for number, (name, gradients) in enumerate(steps.items()):
        whole = np.array(gradients)
        fine = bool(np.isfinite(whole).all())
        for rank in ranks:
            answer, after = rank.result[number]
            what = f"Step {name!r}, rank {rank.rank}"
            expect(answer is not None, f"{what}: `average` returns nothing.")
            because = "one rank's gradient is not finite, so that no rank may use this step"
            expect.equal(bool(answer), fine, f"{what}: answer", because="" if fine else because)
            if fine:
                slips = {
                    "this is the sum": whole.sum(axis=0),
                    "this is its own gradient, as before": whole[rank.rank],
                }
                expect.close(after, whole.mean(axis=0), f"{what}: gradient afterwards", slips=slips)
