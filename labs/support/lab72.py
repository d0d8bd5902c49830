"""Lab 72: checks; faults that are placed at random; ranks that hang and die, and what is found of
them."""

from __future__ import annotations

import fcntl
import inspect
import json
import math
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
from labkit import check, expect, launch, world
from labkit.errors import RankFailed

RANKS = 3
STEPS = 5
LOOKS = 30  # looks at a rank, all alike, after which it waits
LONGEST = 40.0  # seconds after which all is ended, whatever it does
LOOKING = 20.0  # seconds after which py-spy is not waited for
TICK = 0.05
UNDECIDED = "neither ended nor waited in time"


# -- what is found of a rank


class Frame(NamedTuple):
    """One line of a stack: a function, its file, and the line that it is in."""

    function: str
    file: str
    line: int


class Record(NamedTuple):
    """One call of the flight recorder: "all_reduce", how many numbers, and the line of the
    program."""

    call: str
    numbers: int
    line: int


class Rank(NamedTuple):
    """What was found of one rank when nothing moved any more.

    state: "waits", "finished", "raised", the name of the signal that ended it, or UNDECIDED. stack:
    outermost first, of a rank that waits, or of its exception. seen_by: what read that stack.
    result: what the program returned. error: the last line of the exception. note: what the job's
    `watch` or `tell` left.
    """

    rank: int
    state: str
    error: str = ""
    stack: Sequence[Frame] = ()
    seen_by: str = "the rank itself"
    records: Sequence[Record] = ()
    result: object = None
    note: object = None


# -- the checks


@check.exercise("72.1")
def line_of_its_own(odd_one_out, epoch, faults, hangs):
    """The rank and its line, of made-up stacks and of the four runs."""
    cases = []
    for lines, want in (((9, 7, 7), (0, 9)), ((7, 9, 5, 9, 7, 7), (2, 5))):
        inner = [Frame("wait", "library", 30 + rank) for rank in range(len(lines))]
        frames = [Frame("epoch", "cell", line) for line in lines]
        cases.append((list(zip(frames, inner, strict=True)), want))
    for fault, ranks in zip(faults, hangs, strict=True):
        cases.append(([rank.stack for rank in ranks], (fault.rank, line_of(epoch, fault))))
    slips = {"this is where it is inside of a library": (0, 30)}
    for stacks, want in cases:
        lines = ", ".join(str(stack[0].line) for stack in stacks)
        what = f"Ranks in lines {lines} of epoch: (rank, line)"
        expect.equal(odd_one_out(stacks), want, what, slips=slips)


@check.exercise("72.2")
def mended_epochs(mend, epoch, faults):
    """`epoch` runs to its end with what `mend` returns, on ranks with four such faults."""
    blocking = Nearby([fault for fault in faults if fault.what != "short"])
    # Not on rank 0, whose own number, sent to all ranks, would be the smallest.
    uneven = Nearby([replace(it, rank=it.rank or 1) for it in faults if it.what == "short"])
    first, second = play([Job(epoch, deal, mend, written) for deal in (blocking, uneven)])
    what = "Ranks with a file, a log and a lock that do not answer"
    epoch_is_complete(first, STEPS, what, "`epoch` has to use what is in `nearby`.")
    (short,) = uneven.faults
    what = f"{short.step} files on rank {short.rank}, {STEPS} on the others"
    why = "All ranks need as many copies as the shortest shard has files."
    epoch_is_complete(second, short.step, what, why)


def epoch_is_complete(ranks, steps, what, why):
    """An epoch went to its end on all ranks, with all steps that all have files for."""
    through(ranks, what, why)
    because = f"{steps} steps are possible, and `epoch` writes a line for each"
    want = [f"{step} {10.0 + step}" for step in range(steps)]
    for rank in ranks:
        for name, lines in zip(("log", "table"), rank.note, strict=True):
            subject = f"{what}; rank {rank.rank}, lines of nearby / {name!r}"
            expect.equal(len(lines), steps, subject, because=because)
            expect.equal(lines, want, subject)


@check.exercise("72.3")
def first_call_that_differs(first_difference, disorders, mixed_up, train):
    """Rank and line of the first call that does not fit, of made-up records and of the three
    runs."""
    usual = [Record("all_reduce", 6, 7), Record("reduce", 1, 14), Record("barrier", 0, 15)]
    longer = [usual[0], Record("reduce", 2, 14), usual[2], usual[0]]
    twice = [usual[0], Record("broadcast", 6, 9), usual[1], usual[2]]
    moved = [Record("all_reduce", 6, 8), *usual[1:]]
    line_8 = "Rank 1 has the same call in line 8, rank 0 reduces 2 numbers"
    made_up = (
        ([usual, usual, usual, longer], (3, 14), "Rank 3 reduces 2 numbers, the others 1"),
        ([usual, twice, usual], (1, 9), "Rank 1 has a broadcast too many"),
        ([longer, moved, usual], (0, 14), line_8),
        ([[twice[1]], usual, usual], (0, 9), "Rank 0 has a broadcast of as many numbers"),
    )
    real = [
        (
            [rank.records for rank in ranks],
            (fault.rank, line_of(train, fault)),
            f"Ranks that made {', '.join(str(len(rank.records)) for rank in ranks)} calls",
        )
        for fault, ranks in zip(disorders, mixed_up, strict=True)
    ]
    for records, want, what in (*made_up, *real):
        got = first_difference(records)
        expect(got is not None, f"{what}: you return None, as if all calls matched.")
        expect.equal(got, want, f"{what}: (rank, line)")
    got = first_difference([usual, usual[:2], usual])
    expect(got is None, f"Rank 1 has stopped, and all calls fit: you return {got!r}, and not None.")


@check.exercise("72.4")
def agreed_batches(agree, disorders, train):
    """The same batches on all ranks; then training runs with them, on ranks with the same three
    faults, to its end.
    """

    def by_agreement(batches):
        return ([agree(batch) for batch in batches],)

    def agreed_and_given(batches):
        return ([(agree(batch), batch) for batch in batches],)

    wishes = [[batch, LAST_WISH] for batch in WISHES]
    asked = Job(lambda batches: batches, lambda rank, folder: (wishes[rank],), agreed_and_given)
    all_agree(play([asked])[0])
    (trained,) = play([Job(train, lambda rank, _: usual_batches(rank, *disorders), by_agreement)])
    through(trained, "Training with the batches of your `agree`")


WISHES = (  # of three ranks, which have to agree
    {"loss": 2.0, "statistics": ["width", "loss"]},
    {"loss": 7.5, "statistics": ["right", "height"]},
    {"loss": 4.0, "statistics": ["left", "loss", "area", "width"]},
)
LAST_WISH = {"loss": 3.0, "statistics": []}
AGREED = (
    {"loss": 7.5, "statistics": ["area", "height", "left", "loss", "right", "width"]},
    {"loss": 3.0, "statistics": []},
)


def all_agree(ranks):
    """Ranks with WISHES go by the same batches: the largest loss, all that some rank wants, by
    name."""
    through(ranks, "Ranks that agree on two batches")
    losses = [wish["loss"] for wish in WISHES]
    wanted = [wish["statistics"] for wish in WISHES]
    for rank in ranks:
        expect.equal(len(rank.result), 2, f"Rank {rank.rank}: batches")
        for number, ((batch, given), right) in enumerate(zip(rank.result, AGREED, strict=True)):
            what = f"Batch {number}, rank {rank.rank}"
            expect(isinstance(batch, dict), f"{what}: `agree` returns {batch!r}, and no dict.")
            because = f"the losses by rank are {losses}" if number == 0 else ""
            expect.equal(batch.get("loss"), right["loss"], f"{what}: loss", because=because)
            names = batch.get("statistics")
            expect(names is not None, f"{what}: there are no statistics.")
            because = f"wanted are, by rank, {wanted}" if number == 0 else ""
            expect.equal(list(names), right["statistics"], f"{what}: statistics", because=because)
            before = (WISHES[rank.rank], LAST_WISH)[number]
            expect.unchanged(before, given, f"{what}: the batch", because="return a new dict")


@check.exercise("72.5")
def averages_of_those_there(averages, patience):
    """The averages on three ranks with even and uneven shards, one of them empty."""
    cases = ([2, 2, 2], [3, 1, 2], [1, 0, 3])
    by_rank = launch.run(try_averages, averages, cases, ranks=RANKS, threads=1, timeout=patience)
    for number, counts in enumerate(cases):
        for rank, results in enumerate(by_rank):
            who = f"Ranks with {', '.join(map(str, counts))} gradients, rank {rank}"
            expect(results[number] is not None, f"{who}: `averages` returns nothing.")
            expect.equal(len(results[number]), counts[rank], f"{who}: averages")
            for step, got in enumerate(results[number]):
                there = [given(other, step) for other in range(RANKS) if counts[other] > step]
                want = sum(there) / len(there)
                slips = {
                    "zeros of ranks that have joined were counted": sum(there) / RANKS,
                    "this is the sum": sum(there),
                    "this is its own gradient": given(rank, step),
                    "a gradient of zeros counts, too": sum(there) / max(1, np.count_nonzero(there)),
                }
                slips = {words: three(value) for words, value in slips.items()}
                expect.close(got, three(want), f"{who}: the average of step {step}", slips=slips)


def given(rank, step):
    """The number of a gradient: 0 on rank 0 in step 0, and averages that are no rank's own."""
    return rank**2 + 10 * step


def three(number):
    """Three numbers in place of one, each another."""
    return [1.0 * number, 2.0 * number, -1.0 * number]


def try_averages(averages, cases):
    """On a rank: what averages(gradients) gave, for each case of so many gradients by rank.

    The gradient of rank r in step s is `three(given(r, s))`.
    """
    import horovod.torch as hvd
    import torch

    hvd.init()
    results = []
    for lengths in cases:
        with launch.case(f"with {', '.join(map(str, lengths))} gradients"):
            rank = hvd.rank()
            gradients = [torch.tensor(three(given(rank, step))) for step in range(lengths[rank])]
            answers = averages(gradients)
            results.append(
                None if answers is None else [np.asarray(answer).tolist() for answer in answers]
            )
    return results


@check.exercise("72.6")
def first_note(first_bad, learn, poisoned, poisons):
    """The rank and the line of the first note, of made-up notes and of the three runs."""
    for notes, want in (([(1, 12), (1, 9), (2, 5)], (1, 9)), ([None, (1, 5), (0, 27)], (2, 27))):
        expect.equal(first_bad(notes), want, f"Notes {notes}: (rank, line)")
    for fault, ranks in zip(poisons, poisoned, strict=True):
        notes = [rank.note for rank in ranks]
        want = (fault.rank, line_of(learn, fault))
        expect.equal(first_bad(notes), want, f"Notes {notes}: (rank, line)")


@check.exercise("72.7")
def skipped_together(average):
    """In each step all ranks average their gradients and say so, or all say that they skip it."""
    nan = float("nan")
    inf = float("inf")
    steps = {  # by name: the gradients of ranks 0, 1, 2
        "all finite": ([1.0, 2.0], [3.0, 4.0], [8.0, 6.5]),
        "a nan on rank 1": ([1.0, 2.0], [3.0, nan], [8.0, 6.0]),
        "inf on rank 0, -inf on rank 2": ([inf, 2.0], [3.0, 4.0], [-inf, 6.0]),
        "inf on rank 2": ([1.0, 2.0], [3.0, 4.0], [inf, 6.0]),
        "-inf on rank 1": ([1.0, 2.0], [3.0, -inf], [8.0, 6.0]),
        "all finite again": ([1.0, 1.0], [1.0, 1.0], [4.0, 7.0]),
    }
    pairs = {f"{name}, of two ranks": gradients[:2] for name, gradients in steps.items()}

    def job(some):
        by_rank = [[list(gradient) for gradient in own] for own in zip(*some.values(), strict=True)]
        return Job(train_safely, lambda rank, folder: (average, by_rank[rank]), ranks=len(by_rank))

    for some, tried in zip((steps, pairs), play([job(steps), job(pairs)]), strict=True):
        decide_together(tried, some)


def train_safely(average, gradients):
    """A program for ranks: (what average(gradient) gave, the gradient after it) in each step."""
    import torch

    results = []
    for numbers in gradients:
        gradient = torch.tensor(numbers)
        answer = average(gradient)
        results.append((answer, gradient.tolist()))
    return results


def decide_together(ranks, steps):
    """All ranks said the same in each step, and averaged where they may. steps: the ranks'
    gradients."""
    through(ranks, "The steps")
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


ALONE = (
    "A collective waits until all ranks are in it, so no rank may decide alone whether to call one."
)


def through(ranks, what, why=ALONE):
    """All ranks have finished; else say who raised what, took too long, or waits where, and why."""
    for rank in ranks:
        place = _own_line(rank, " in {place}")
        expect(rank.state != "raised", f"{what}: rank {rank.rank} raised {rank.error}{place}")
    undecided = [str(rank.rank) for rank in ranks if rank.state == UNDECIDED]
    expect(
        not undecided,
        f"{what}: after {LONGEST:.0f} s, rank {' and rank '.join(undecided)} had neither ended nor"
        " come to wait. This computer was too busy to tell whether your answer is right, or a loop"
        " in it has no end. Run the cell again.",
    )
    places = []
    for rank in ranks:
        if rank.state != "finished":
            where = _own_line(rank, "is in {place}") or rank.state
            places.append(f"rank {rank.rank} {where}")
    expect(not places, f"{what}: nothing moves any more: {'; '.join(places)}. {why}")


def _own_line(rank: Rank, words: str) -> str:
    """The learner's innermost line of a rank's stack, in such words; "" if there is none."""
    own = [frame for frame in rank.stack if launch.is_learners(frame.file)]
    if not own:
        return ""
    function, file, line = own[-1]
    return words.format(place=launch.Frame(file, line, function).stuck_place())


# -- faults: deal(rank, folder) is called on each rank, and returns what its program gets


def own_dice(name: str, number: int) -> random.Random:
    """Of this learner's case `number`: another person on another computer meets another fault."""
    # By the number: in a container a user may have no name.
    who = f"{os.getuid()}@{socket.gethostname()}/{number}"
    return random.Random(f"{name} {zlib.crc32(who.encode())}")


def fresh(fault: type, number: int) -> list:
    """One case of each kind of a fault, drawn for this learner's case `number`; neighbours on other
    ranks."""
    dice = own_dice(fault.__name__, number)
    cases = []
    rank = dice.randrange(RANKS)
    for what in dice.sample(list(fault.TEXTS), len(fault.TEXTS)):
        cases.append(fault(what, rank, dice.randrange(1, STEPS - 1)))
        rank = (rank + dice.randrange(1, RANKS)) % RANKS
    return cases


@dataclass(frozen=True, order=True)
class Fault:
    """What is wrong, on which rank, in which step. TEXTS: by `what`, what stands in the line that
    shows it."""

    what: str
    rank: int
    step: int


class Hang(Fault):
    """Deals the files, the log and the table of section 1's epoch. One rank gets one that does not
    answer.

    what: "disk", "log", "table" or "short", a shard with fewer files.
    """

    # What stands in the line where that rank waits.
    TEXTS = {"disk": "read_bytes", "log": "print(", "table": "flock(", "short": "dist.barrier"}

    def __call__(self, rank: int, folder: Path) -> tuple:
        return self.spoil(rank, own_files(rank, folder), *outputs(rank, folder))

    def spoil(self, rank: int, files: list[Path], log, table: Path) -> tuple:
        """The same, with this fault."""
        if rank == self.rank:
            if self.what == "disk":
                files[self.step].unlink()
                os.mkfifo(files[self.step])  # opening it waits for a writer, and none comes
            elif self.what == "log":
                log = _full_pipe()
            elif self.what == "table":
                # As a process that died on another node may hold it: for as long as this process
                # lives.
                held = os.open(table, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(held, fcntl.LOCK_EX)
            else:
                files = files[: self.step]
        return files, log, table


def _full_pipe():
    """A file to write to, which nobody reads any more. Its other end stays open: else writing would
    fail."""
    _, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    return os.fdopen(writer, "w")


def own_files(rank: int, folder: Path) -> list[Path]:
    """The files of a rank, written into a folder."""
    files = [folder / f"shard_{rank}_{step}.bin" for step in range(STEPS)]
    for step, file in enumerate(files):
        file.write_bytes(bytes(10 + step))
    return files


def outputs(rank: int, folder: Path) -> tuple:
    """(log, table) of a rank."""
    return (folder / f"epoch_{rank}.log").open("w"), folder / f"table_{rank}.txt"


class Nearby(NamedTuple):
    """Deals files, log and table with all these faults, and a folder with copies of the files."""

    faults: Sequence[Hang]

    def __call__(self, rank: int, folder: Path) -> tuple:
        nearby = folder / f"disk_of_rank_{rank}"
        nearby.mkdir()
        own_files(rank, nearby)
        dealt = (own_files(rank, folder), *outputs(rank, folder))
        for fault in self.faults:
            dealt = fault.spoil(rank, *dealt)
        return (*dealt, nearby)


def written(files, log, table, nearby: Path) -> list[list[str]]:
    """On a rank: the lines of nearby/log and of nearby/table; none where there is no such file."""
    paths = [nearby / name for name in ("log", "table")]
    return [path.read_text().splitlines() if path.exists() else [] for path in paths]


class Disorder(Fault):
    """Deals the batches of section 2's training. One rank's calls differ from one step on.

    what: "loss" (it calls for a new start), "order" (its statistics come in another order),
    "missing" (it lacks the last of them).
    """

    # What stands in the line of that rank's first call that the others do not make.
    TEXTS = {"loss": "dist.broadcast", "order": "dist.reduce", "missing": "dist.all_reduce"}

    def __call__(self, rank: int, folder: Path) -> tuple:
        return usual_batches(rank, self)


def usual_batches(rank: int, *disorders: Disorder) -> tuple:
    """(the batches of a rank,), with these faults."""
    batches = [{"loss": 2.0 - 0.1 * step, "statistics": ["right", "loss"]} for step in range(STEPS)]
    other = {
        "loss": {"loss": 1e6},
        "order": {"statistics": ["loss", "right"]},
        "missing": {"statistics": ["right"]},
    }
    for fault in disorders:
        if rank == fault.rank:
            batches[fault.step] |= other[fault.what]
    return (batches,)


class Poison(Fault):
    """Deals the pictures of section 4's training, digits of scikit-learn. One picture of one rank
    is broken.

    what: "black", "one colour", or "dead pixel", which is far too bright.
    """

    # What stands in the line whose result is the first that is no number.
    TEXTS = {"black": "bright =", "one colour": "contrast =", "dead pixel": "energy ="}

    def __call__(self, rank: int, folder: Path) -> tuple:
        import torch
        from labkit import data

        pictures = torch.tensor(data.digits().train_x, dtype=torch.float32).reshape(-1, 64)
        batches = [batch.clone() for batch in pictures.split(8)[rank * STEPS : (rank + 1) * STEPS]]
        if rank == self.rank:
            picture = batches[self.step][3]
            if self.what == "black":
                picture[:] = 0
            elif self.what == "one colour":
                picture[:] = 0.5
            else:
                picture[20] = 1e30
        return (batches,)


def shards(number: int) -> list[int]:
    """Batches of each rank in section 3: one has fewer. This learner's case `number`."""
    dice = own_dice("shards", number)
    lengths = [dice.randrange(5, 8)] * RANKS
    lengths[dice.randrange(RANKS)] = dice.randrange(1, 5)
    return lengths


def line_of(program: Callable, fault: Fault) -> int:
    """The number of the program's one line that shows a fault."""
    lines, first = inspect.getsourcelines(program)
    (place,) = [place for place, line in enumerate(lines) if fault.TEXTS[fault.what] in line]
    return first + place


# -- ranks that may hang and die


class Job(NamedTuple):
    """A program for some ranks.

    deal(rank, folder) gives the program's arguments on a rank, a tuple. prepare: called with these,
    it returns those that the program gets. tell: called with what was dealt when the program has
    returned; it returns the rank's note. watch: called with the program before it begins, it
    returns a function that tells the note. py_spy: it reads the stacks of ranks that wait, half a
    second of a core each; else each rank tells its own.
    """

    program: Callable
    deal: Callable
    prepare: Callable | None = None
    tell: Callable | None = None
    watch: Callable | None = None
    py_spy: bool = False
    ranks: int = RANKS


def play(jobs: Sequence[Job]) -> list[list[Rank]]:
    """Play all jobs at the same time, each on its own ranks; for each job what was found of its
    ranks."""
    env = {**world.clean_env(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    env |= launch.loopback_variables(env)
    with tempfile.TemporaryDirectory(prefix="lab72-") as top:
        calls = []
        for number, job in enumerate(jobs):
            folder = Path(top, str(number))
            folder.mkdir()
            calls += [(_on_rank, job, rank, folder) for rank in range(job.ranks)]
        # The flight recorder imports torch._inductor.codecache to tell lines.
        preload = ["torch.distributed", "torch._inductor.codecache"]
        with launch.processes(calls, env, preload) as running:
            found = iter(_watched(running, [call[1] for call in calls]))
    return [[next(found)._replace(rank=rank) for rank in range(job.ranks)] for job in jobs]


def _watched(running: Sequence, jobs: Sequence[Job]) -> list[Rank]:
    """What is found of all ranks when none of them moves any more, or time is up. jobs: that of
    each rank."""
    news: list[Rank | None] = [None] * len(running)  # None: it moves
    pipes = {one.pipe: place for place, one in enumerate(running)}
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        moved = _receive(running, pipes, news, TICK)
        if moved or None in news:
            continue
        found = list(news)
        for place, (job, rank) in enumerate(zip(jobs, found, strict=True)):
            if job.py_spy and rank.state == "waits":
                found[place] = _seen_from_outside(running[place].process.pid, job) or rank
        if not _receive(running, pipes, news, 0):  # else something moved while we looked
            return found
    # That a rank waits is known once all wait: in the middle of things it may yet go on.
    undecided = Rank(0, UNDECIDED)
    return [rank if rank and rank.state != "waits" else undecided for rank in news]


def _receive(running: Sequence, pipes: dict, news: list, seconds: float) -> bool:
    """Note what ranks say of themselves, and who has ended; False if nobody says anything."""
    ready = connection.wait(list(pipes), seconds)
    for pipe in ready:
        place = pipes[pipe]
        try:
            news[place] = pickle.loads(pipe.recv_bytes())
        except (EOFError, ConnectionError):
            del pipes[pipe]
            if news[place] is None or news[place].state == "waits":
                process = running[place].process
                process.join()
                status = process.exitcode
                ended = f"ended with status {status}"
                news[place] = Rank(0, signal.Signals(-status).name if status < 0 else ended)
    return bool(ready)


def _seen_from_outside(pid: int, job: Job) -> Rank | None:
    """The main thread's stack of a rank that waits, as py-spy reads it; None where it may not, or
    is late."""
    beside = str(Path(sys.executable).parent)
    py_spy = shutil.which("py-spy", path=beside) or shutil.which("py-spy") or "py-spy"
    # Not blocking: a stopped rank could be read while it is started again, and needs more rights.
    command = [py_spy, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LOOKING)
    except (subprocess.SubprocessError, OSError):
        return None
    threads = json.loads(done.stdout)
    mains = [thread for thread in threads if thread["thread_name"] == "MainThread"]
    frames = reversed((mains or threads)[-1]["frames"])
    stack = [Frame(frame["name"], frame["filename"], frame["line"]) for frame in frames]
    return Rank(0, "waits", stack=_of_program(stack, job.program), seen_by="py-spy")


def _of_program(stack: list[Frame], program: Callable) -> list[Frame]:
    """The stack from the program's own frame on."""
    code = program.__code__
    for place, frame in enumerate(stack):
        if frame.function == code.co_name and Path(frame.file).name == Path(code.co_filename).name:
            return stack[place:]
    return stack


def _on_rank(pipe, job: Job, rank: int, folder: Path) -> None:
    """In a process of its own: meet the others, run the program, and say what can be known of
    it."""
    from torch import distributed

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(job.ranks)}
    distributed.set_debug_level_from_env()
    store = distributed.FileStore(str(folder / "store"), job.ranks)
    patience = timedelta(seconds=LONGEST)
    distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=job.ranks, timeout=patience
    )
    distributed.barrier()
    witness = _Witness(pipe, job.program)
    try:
        note, result = _played(job, rank, folder)
        witness.say("finished", result=result, note=note)
    except BaseException as error:
        sys.settrace(None)
        frames = traceback.walk_tb(error.__traceback__)
        stack = [Frame(one.f_code.co_name, one.f_code.co_filename, line) for one, line in frames]
        words = traceback.format_exception_only(error)[-1].strip()
        witness.say("raised", error=words, stack=stack)
        os._exit(1)
    time.sleep(1000)  # stays until all are through: a connection that closes is another failure


def _played(job: Job, rank: int, folder: Path) -> tuple[object, object]:
    """(the note, what the program returned)."""
    dealt = job.deal(rank, folder)
    arguments = job.prepare(*dealt) if job.prepare else dealt
    tell_note = job.watch(job.program) if job.watch else lambda: None
    result = job.program(*arguments)
    sys.settrace(None)
    return job.tell(*dealt) if job.tell else tell_note(), result


class _Witness:
    """A thread that says "waits" when the main thread has not moved for LOOKS looks, and takes it
    back."""

    def __init__(self, pipe, program: Callable):
        self.pipe = pipe
        self.program = program
        self.lock = threading.Lock()
        self.over = False
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Looks are counted, and not seconds: where a rank gets little of a core, so does this
        thread."""
        main = threading.main_thread().ident
        before = None
        alike = 0
        while True:
            time.sleep(TICK)
            frame = sys._current_frames()[main]
            now = [(id(one), one.f_lasti) for one, _ in traceback.walk_stack(frame)], _last_call()
            was_waiting = alike >= LOOKS
            alike = alike + 1 if now == before else 0
            before = now
            with self.lock:
                if self.over:
                    return
                if alike == LOOKS:
                    frames = [
                        Frame(function, file, line) for file, line, function in launch.stack(frame)
                    ]
                    self._send(Rank(0, "waits", stack=_of_program(frames, self.program)))
                elif was_waiting and not alike:
                    self.pipe.send_bytes(pickle.dumps(None))
            del frame

    def say(self, state: str, **found) -> None:
        """The program is over."""
        with self.lock:
            self.over = True
            self._send(Rank(0, state, **found))

    def _send(self, rank: Rank) -> None:
        # Not by send: PyTorch would leave the tensors in this process, which ends.
        self.pipe.send_bytes(pickle.dumps(rank._replace(records=_records(self.program))))


def _last_call() -> int:
    """The number of this process's last call that the flight recorder has."""
    # PyTorch's documentation dumps its recorder by this module.
    from torch._C import _distributed_c10d as recorder

    entries = json.loads(recorder._dump_fr_trace_json()).get("entries", [])
    return max((entry["record_id"] for entry in entries), default=-1)


def _records(program: Callable) -> list[Record]:
    """What the flight recorder has of the calls that the program made, in order."""
    from torch._C import _distributed_c10d as recorder

    code = program.__code__
    found = []
    entries = pickle.loads(recorder._dump_fr_trace()).get("entries", [])
    for entry in sorted(entries, key=lambda entry: entry["record_id"]):
        frames = [frame for frame in entry["frames"] if frame["filename"] == code.co_filename]
        lines = [frame["line"] for frame in frames if frame["name"] == code.co_name]
        if lines:
            numbers = sum(math.prod(sizes) for sizes in entry["input_sizes"])
            found.append(Record(entry["profiling_name"].partition(":")[2], numbers, lines[0]))
    return found


def watch_numbers(program: Callable) -> Callable:
    """Watch the tensors of `program`, which is about to be called; tells (step, line) of the first
    bad one.

    A bad tensor holds an inf or a nan. step: the program's own variable of that name. None: all was
    well.
    """
    import torch

    noted: list[tuple[int, int]] = []
    last = [0]

    def look(frame, event: str, _):
        if noted or event not in ("line", "return"):
            return look
        values = frame.f_locals
        for value in values.values():
            if torch.is_tensor(value) and value.is_floating_point() and not value.isfinite().all():
                noted.append((values["step"], last[0]))
                break
        last[0] = frame.f_lineno
        return look

    sys.settrace(lambda frame, *_: look if frame.f_code is program.__code__ else None)
    return lambda: noted[0] if noted else None


def stall(lengths: Sequence[int]) -> None:
    """Let ranks with so many batches each train with Horovod, and print what its stall check
    says."""
    env = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2"}
    try:
        launch.run(_uneven, list(lengths), ranks=len(lengths), threads=1, env=env, timeout=60)
    except RankFailed as error:
        print(f"rank {error.rank} failed: {error.kind}: {error.message}")


def _uneven(lengths: list[int]) -> None:
    import horovod.torch as hvd
    import torch

    hvd.init()
    for step in range(lengths[hvd.rank()]):
        hvd.allreduce(torch.ones(3), name=f"step.{step}")


def sums_in_another_order() -> list[dict[str, list]]:
    """Two ranks sum `a` and `b`, rank 1 in the other order: for each rank {library: [a's sum, b's
    sum]}."""
    with tempfile.TemporaryDirectory(prefix="lab72-") as folder:
        return launch.run(_swapped, folder, ranks=2, threads=1)


def _swapped(folder: str) -> dict[str, list]:
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


# -- what is shown


def show_program(program: Callable) -> None:
    """Print a function with the numbers of its lines."""
    lines, first = inspect.getsourcelines(program)
    for number, line in enumerate(lines, first):
        print(f"{number:4}  {line.rstrip()}")


def show_stacks(ranks: Sequence[Rank]) -> None:
    """Print the stack of each rank that waits, as py-spy does: the innermost line first."""
    for rank in ranks:
        seen = f" (seen by {rank.seen_by})" if rank.state == "waits" else ""
        print(f"rank {rank.rank} {rank.state}{seen}")
        for frame in reversed(rank.stack):
            print(f"    {frame.function} ({'/'.join(frame.file.split('/')[-2:])}:{frame.line})")


def show_records(ranks: Sequence[Rank], last: int = 12) -> None:
    """Print the recorded calls of all ranks beside each other, numbered from 0."""
    longest = max(len(rank.records) for rank in ranks)
    print("call  " + "".join(f"{'rank ' + str(rank.rank):26}" for rank in ranks))
    for place in range(max(0, longest - last), longest):
        cells = []
        for rank in ranks:
            calls = rank.records[place : place + 1]
            text = "".join(f"{call}({numbers}) line {line}" for call, numbers, line in calls)
            cells.append(f"{text:26}")
        print(f"{place:4}  " + "".join(cells).rstrip())
