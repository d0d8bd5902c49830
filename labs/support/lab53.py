"""Lab 53: its checks, steps of random length, cases with a straggler, naps, and training.

Work on real ranks is a nap: naps need no core, so that a few cores are enough for all ranks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np
import pandas
from labkit import check, data, expect, nets, plots, profiling

MEAN = 0.020  # seconds of a step on one rank
SPREAD = 0.005  # their standard deviation
KINDS = ("steady", "normal", "heavy-tailed")
INDEX = 3  # of the Pareto distribution: the chance of a time beyond t falls as t to the power of -3
READ = 0.006  # seconds in which a rank reads the images of a step
EACH = 0.001  # seconds in which it computes the gradient of one image
IMAGES = 24  # of a rank in a step
EXCHANGE = 0.008  # seconds in which a rank's bytes leave in a step
NOISE = 0.03  # standard deviation of every part, as a share of it
STEPS = 12
LATE = 0.4  # of its computing: how far a culprit is behind
WHY = {
    "slow disk": (
        "it waits least in most steps, and of its own parts reading is furthest above the others'"
    ),
    "slow core": "it waits least in most steps, and computes longer for each image than the others",
    "imbalance": "it waits least in most steps, and computes longer because it has more images",
    "slow link": "it waits least in most steps, and its bytes leave slowly",
    "jitter": "no rank waits least in more than half of the steps: one bad step is no slow rank",
}
CAUSES = tuple(WHY)
BATCH = 8  # images of a rank in a step of `train`
RATE = 0.1  # learning rate of `train`
LOOK = 1e-4  # seconds between two looks whether a request is over
LOOKS = {
    "input": plots.Look("input", plots.COLORS[1], "...."),
    "compute": plots.Look("compute", plots.COLORS[0]),
    "exchange": plots.Look("in the exchange, waiting", "#e0e0e0", edge=0),
    "send": plots.Look("in the exchange, sending", plots.COLORS[4], "////"),
}


@check.exercise("53.1")
def slowest_of_many(expected_slowest):
    """The expected slowest of p, from the times of one rank, by the chances above."""
    random = np.random.default_rng(1)
    for samples in ([10, 20], [3, 1, 3, 2], [6, 5, 4, 3, 2, 1], random.exponential(size=500)):
        samples = np.array(samples, float)
        for size in (1, 2, 5, 64):
            before = samples.copy()
            got = expected_slowest(samples, size)
            expect.unchanged(before, samples, "The array of samples")
            # The longest, less every gap below it where all ranks fall short of it.
            ordered = np.sort(samples)
            short = (np.arange(1, len(ordered)) / len(ordered)) ** size
            want = ordered[-1] - np.sum(short * np.diff(ordered))
            slips = {"this is one rank's mean": ordered.mean()}
            slips["this is the longest of all"] = ordered[-1]
            spread = f"from {ordered[0]:.3g} to {ordered[-1]:.3g}"
            what = f"Slowest of {size}, {len(samples)} samples {spread}"
            expect.close(got, want, what, rtol=1e-6, slips=slips)


@check.exercise("53.2")
def parts_of_a_step(parts):
    """The seconds of each part, by rank, of a step made up."""
    made_up = [
        *[(1, "send", 5, 6), (0, "input", 0, 1), (0, "compute", 1, 3), (0, "exchange", 3, 8)],
        *[(1, "input", 0, 2), (0, "send", 3, 4), (1, "compute", 2, 5), (1, "exchange", 5, 8)],
        *[(0, "send", 6, 7), (1, "send", 6, 8), (2, "compute", 0, 4), (2, "exchange", 4, 4.5)],
    ]
    given = list(made_up)
    got = parts(given, 3)
    expect(isinstance(got, dict), f"Return a dict; this is a {type(got).__name__}.")
    want = {"input": [1, 2, 0], "compute": [2, 3, 4], "send": [2, 3, 0], "wait": [3, 0, 0.5]}
    whole = {"wait": {"this is the whole exchange: its sends are no waiting": [5, 3, 0.5]}}
    for part, seconds in want.items():
        expect(part in got, f"The dict has no {part!r}.")
        expect.close(got[part], seconds, f"Step made up: seconds of {part}", slips=whole.get(part))
    expect.unchanged(made_up, given, "The list of spans")
    # Compute has two spans, and rank 1 has none.
    alone = [(0, "input", 0, 0.3), (0, "compute", 1, 2), (0, "send", 2, 2.2)]
    got = parts([*alone, (0, "compute", 0.3, 1), (0, "exchange", 2, 3)], 2)
    for part, seconds in {"input": 0.3, "compute": 1.7, "send": 0.2, "wait": 0.8}.items():
        expect.close(got[part], [seconds, 0], f"Only rank 0 of 2 has spans: seconds of {part}")


@check.exercise("53.3")
def culprits_of_cases(find, hunt):
    """Rank and cause in 30 cases; each has one very bad step, and one rank that reads for long."""
    for each in cases(range(6)):
        with check.case(each.name):
            want = _in_words((each.rank, each.cause))
            answer = _in_words(hunt(each.steps, each.images))
            expect.equal(answer, want, "rank and cause", because=WHY[each.cause])
    for what, (steps, want, why) in by_hand().items():
        given = copy.deepcopy(steps)
        answer = _in_words(find(given, np.array([24, 26 if "26 images" in what else 24, 24, 24])))
        if answer == "no rank, jitter":
            why = "rank 1 waits least in more than half of the steps"
        expect.equal(answer, want, what, because=why)
        expect.unchanged(steps, given, "The list of steps")


def by_hand() -> dict[str, tuple]:
    """What rank 1 of 4 does -> steps in seconds, the answer in words, and why.

    Each rank has 24 images; rank 1 has 26 where what it does says so.
    """

    def step(late: int, **others) -> dict[str, np.ndarray]:
        parts = {"input": [10] * 4, "compute": [24] * 4, "send": [8] * 4, "wait": [9.0] * 4}
        seconds = {part: np.array(values, float) for part, values in (parts | others).items()}
        seconds["wait"][late] = 1
        return seconds

    slower = step(1, compute=[24, 27, 24, 24])
    once = step(0, input=[10, 90, 10, 10], compute=[24, 27, 24, 24])
    return {
        "Ranks 0 and 1 in turns": (
            [step(late) for late in (0, 1) * 4],
            "no rank, jitter",
            "half of the steps are not most",
        ),
        "Rank 1 waits least in 5 of 8 steps, and reads 4 s longer": (
            [step(late, input=[10, 14, 10, 10]) for late in (1, 1, 0, 1, 2, 1, 3, 1)],
            "rank 1, slow disk",
            "5 of 8 steps are more than half",
        ),
        "Rank 1 reads 80 s longer in 1 step, waits least in 7 others, and computes 3 s longer": (
            [slower] * 4 + [once] + [slower] * 3,
            "rank 1, slow disk",
            "the mean over all steps decides: 10 s more of input, 3 s more of compute",
        ),
        "Rank 1 reads 12 s, the others 10, and computes 26.8 s, the others 24": (
            [step(1, input=[10, 12, 10, 10], compute=[24, 26.8, 24, 24])] * 4,
            "rank 1, slow core",
            "2.8 s more than 24 is further above than 2 s more than 10",
        ),
        "Rank 1 reads 12.5 s, the others 6, 10, 10, and computes 28 s, the others 24, 24, 100": (
            [step(1, input=[6, 12.5, 10, 10], compute=[24, 28, 24, 100])] * 4,
            "rank 1, slow core",
            "lab53.above compares with the median of the others, and the tenth is of a median, too",
        ),
        "Rank 1 reads 2 s, the others 10, and computes 26 images in 28.4 s, the others 24 in 24": (
            [step(1, input=[10, 2, 10, 10], compute=[24, 28.4, 24, 24])] * 3,
            "rank 1, imbalance",
            "it reads less than the others, and needs 9 % more for each image, less than a tenth",
        ),
    }


def _in_words(answer):
    """A hunter's answer, such as "rank 5, slow disk", or "no rank, jitter"."""
    expect(np.shape(answer) == (2,), f"return two things, rank and cause; this is {answer!r}.")
    rank, cause = answer
    number = rank is None or isinstance(rank, int | np.integer)
    expect(number, f"The rank is a number or None; this is {rank!r}.")
    return f"{'no rank' if rank is None else f'rank {rank}'}, {cause}"


def draw(kind: str, steps: int, ranks: int, seed: int = 0) -> np.ndarray:
    """Seconds of each step on each rank: (steps, ranks), independent of each other.

    kind: "steady" (all MEAN), "normal", or "heavy-tailed": of the same MEAN and SPREAD, by a Pareto
    distribution, whose mean is a / (a - 1) and whose variance a / ((a - 1)^2 (a - 2)) of its
    shortest value 1, with a = INDEX.
    """
    rng = np.random.default_rng((seed, steps, ranks))
    if kind == "steady":
        return np.full((steps, ranks), MEAN)
    if kind == "normal":
        # Four standard deviations below its mean a time would be negative; that is cut off.
        return np.maximum(MEAN + SPREAD * rng.standard_normal((steps, ranks)), MEAN / 100)
    values = 1 + rng.pareto(INDEX, (steps, ranks))
    mean = INDEX / (INDEX - 1)
    spread = np.sqrt(INDEX / (INDEX - 2)) / (INDEX - 1)
    return MEAN + SPREAD * (values - mean) / spread


class Span(NamedTuple):
    """kind: "input", "compute", "exchange", and within it "send". begin, end: seconds."""

    rank: int
    kind: str
    begin: float
    end: float


class Work(NamedTuple):
    """images: (ranks,) of a step. read, compute, send: (steps, ranks) seconds; send is of one
    message."""

    images: np.ndarray
    read: np.ndarray
    compute: np.ndarray
    send: np.ndarray


def work(
    rng: np.random.Generator, ranks: int, steps: int, rank: int, cause: str, late: float
) -> Work:
    """Work of ranks, one of which is behind the others by `late` of their computing, for that
    cause.

    "jitter": in each step another rank is behind, whatever `rank` says. Two things mislead: one
    rank reads for longer, but has fewer images; and one rank, not the culprit, has one very bad
    step.
    """
    behind = late * EACH * IMAGES
    images = np.full(ranks, IMAGES)
    others = rng.permutation([other for other in range(ranks) if other != rank])
    read = np.full((steps, ranks), READ)
    each = np.full((steps, ranks), EACH)
    send = np.full((steps, ranks), EXCHANGE / _messages(ranks))
    images[others[0]] -= IMAGES // 4
    read[:, others[0]] += 0.8 * EACH * (IMAGES // 4)
    if cause == "slow disk":
        read[:, rank] += behind
    elif cause == "slow core":
        images[rank] += 1  # misleads, too
        each[:, rank] *= (1 + late) * IMAGES / images[rank]
    elif cause == "imbalance":
        images[rank] += round(late * IMAGES)
    elif cause == "slow link":
        send[:, rank] += behind / _messages(ranks)
    compute = each * images
    if cause == "jitter":
        whose = rng.permutation([step % ranks for step in range(steps)])
        for step, unlucky in enumerate(whose):
            part = read if rng.random() < 0.5 else compute
            part[step, unlucky] += behind
    compute[rng.integers(steps), others[1]] += 6 * EACH * IMAGES
    noisy = [part * (1 + NOISE * rng.standard_normal(part.shape)) for part in (read, compute, send)]
    return Work(images, *noisy)


def _messages(ranks: int) -> int:
    """That a rank sends in an allreduce over a ring."""
    return 2 * (ranks - 1)


def play(todo: Work) -> list[list[Span]]:
    """The spans of each step: every rank reads, computes, and sends round a ring, as soon as it
    can.

    A rank may send a message when it has received the one before from its left neighbour (lab 23).
    """
    steps, ranks = todo.read.shape
    begin = np.zeros(ranks)
    spans = []
    for step in range(steps):
        of_step = []
        for rank in range(ranks):
            has_read = begin[rank] + todo.read[step, rank]
            has_computed = has_read + todo.compute[step, rank]
            of_step.append(Span(rank, "input", begin[rank], has_read))
            of_step.append(Span(rank, "compute", has_read, has_computed))
            begin[rank] = has_computed
        sends, over = _ring(begin, todo.send[step])
        of_step += [Span(rank, "exchange", begin[rank], over[rank]) for rank in range(ranks)]
        spans.append(of_step + sends)
        begin = over
    return spans


def _ring(arrived: np.ndarray, seconds: np.ndarray) -> tuple[list[Span], np.ndarray]:
    """When each rank's messages leave, and when the ring's sum is there. seconds: of a message, by
    rank."""
    free = arrived.copy()  # when a rank has sent its last message
    there = arrived.copy()  # when it has what it sends next
    spans = []
    for _ in range(_messages(len(arrived))):
        begin = np.maximum(free, there)
        free = begin + seconds
        spans += [Span(rank, "send", begin[rank], free[rank]) for rank in range(len(arrived))]
        there = np.maximum(np.roll(free, 1), arrived)
    return spans, np.maximum(free, there)


class Case(NamedTuple):
    """images: of each rank, in every step. steps: the Spans of each. rank, cause: the answer."""

    name: str
    images: np.ndarray
    steps: list[list[Span]]
    rank: int | None
    cause: str


def case(cause: str, seed: int, late: float = LATE, ranks: int | None = None) -> Case:
    """A case of that cause, with 4 to 8 ranks; the culprit and all times are drawn with that
    seed."""
    rng = np.random.default_rng((seed, CAUSES.index(cause)))
    if ranks is None:
        ranks = int(rng.integers(4, 9))
    rank = int(rng.integers(ranks))
    todo = work(rng, ranks, STEPS, rank, cause, late)
    answer = None if cause == "jitter" else rank
    return Case(f"Case {seed}, {ranks} ranks", todo.images, play(todo), answer, cause)


def cases(seeds: Sequence[int], late: float = LATE) -> Iterator[Case]:
    """A case of each cause for each of the seeds."""
    for seed in seeds:
        for cause in CAUSES:
            yield case(cause, seed, late)


def share_found(hunter: Callable, late: float, seeds: Sequence[int]) -> tuple[float, float]:
    """Shares of cases (with one culprit) whose rank is found, and whose rank and cause are.

    hunter(steps, images): steps as Spans. late: how far a culprit is behind, as a share of its
    computing.
    """
    tried = [each for each in cases(seeds, late) if each.rank is not None]
    answers = [hunter(each.steps, each.images) for each in tried]
    ranks = [rank == each.rank for each, (rank, _) in zip(tried, answers, strict=True)]
    both = [answer == (each.rank, each.cause) for each, answer in zip(tried, answers, strict=True)]
    return float(np.mean(ranks)), float(np.mean(both))


def share_blamed(hunter: Callable, seeds: Sequence[int]) -> float:
    """Share of cases in which a rank is named, though none is behind. hunter: as for
    `share_found`."""
    healthy = [case("slow disk", seed, late=0) for seed in seeds]
    return float(np.mean([hunter(each.steps, each.images)[0] is not None for each in healthy]))


def above(values: Sequence[float], rank: int) -> float:
    """How far a rank's value is above the median of all other ranks' values."""
    values = np.asarray(values, float)
    return float(values[rank] - np.median(np.delete(values, rank)))


def table(rows: Sequence[tuple]) -> str:
    """In ms. rows: (kind of times, ranks, predicted seconds, seconds of each step)."""
    shown = [
        (kind, size, predicted, seconds.mean(), seconds.std() / len(seconds) ** 0.5)
        for kind, size, predicted, seconds in rows
    ]
    frame = pandas.DataFrame(shown, columns=["times", "ranks", "predicted", "mean step", "+-"])
    frame[["predicted", "mean step", "+-"]] *= 1e3
    return frame.round(1).to_string(index=False)


@plots.styled
def draw_step(spans: Sequence[Span], title: str):
    """A row for each rank, from the first one's begin on. Returns the figure."""
    zero = min(span.begin for span in spans)
    rows: dict[int, dict] = {}
    for rank, kind, begin, end in sorted(spans):
        row = rows.setdefault(rank, {kind: [] for kind in LOOKS})
        row[kind].append((begin - zero, end - zero))
    names = [(str(rank), row) for rank, row in rows.items()]
    return plots.done(plots.draw_rows(names, LOOKS, title=title, ylabel="rank"), title)


def step_seconds(comm, times: dict[str, np.ndarray]) -> dict[str, dict[int, np.ndarray]]:
    """kind -> ranks -> seconds of each synchronous step, on 1, 2, 4 … ranks of comm; on every rank.

    times: kind -> (steps, ranks or more) seconds for which each rank naps before the allreduce of a
    step.
    """
    sizes = [2**power for power in range(comm.size.bit_length())]
    seconds: dict[str, dict[int, np.ndarray]] = {kind: {} for kind in times}
    for size in sizes:
        group = comm.Split(int(comm.rank >= size), comm.rank)
        if comm.rank < size:
            for kind, naps in times.items():
                seconds[kind][size] = _steps(group, naps[:, comm.rank])
        _wait(comm.Ibarrier())
        group.Free()
    return comm.bcast(seconds)


def _steps(comm, naps: np.ndarray) -> np.ndarray:
    own = np.ones(1)
    total = np.empty(1)
    ends = []
    for nap in (0, *naps):
        sleep(nap)
        _wait(comm.Iallreduce(own, total))
        ends.append(perf_counter())
    return np.diff(ends)


def _wait(request) -> None:
    """Until a request is over, without keeping a core busy."""
    while not request.Test():
        sleep(LOOK)


def recorded(
    comm, cause: str | None, seed: int, steps: int
) -> tuple[profiling.Profile | None, np.ndarray, tuple[int | None, str]]:
    """Play a case with naps and messages. Returns its Profile, each rank's images, and (culprit,
    cause).

    Only rank 0 returns the Profile: it grows with the square of the ranks, and launch.run would
    send each rank's to every other.

    cause: one of CAUSES; None: any but jitter. What is drawn is drawn with the seed, the same on
    every rank.
    """
    rng = np.random.default_rng(seed)
    culprit = int(rng.integers(comm.size))
    if cause is None:
        cause = str(rng.choice([each for each in CAUSES if each != "jitter"]))
    todo = work(rng, comm.size, steps + 1, culprit, cause, 2 * LATE)
    played = iter(range(steps + 1))  # the first one warms up
    profile = profiling.record(
        lambda: _play(comm, todo, next(played)), steps=steps, comm=comm, overhead=False
    )
    told = profile if comm.rank == 0 else None
    return told, todo.images, (None if cause == "jitter" else culprit, cause)


def _play(comm, todo: Work, step: int) -> None:
    """One step: read, compute, and an allreduce over a ring whose every message takes its time to
    leave."""
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    leaving = np.zeros(1)
    coming = np.empty(1)
    # The recording's own barrier keeps cores busy, which delays who leaves it.
    _wait(comm.Ibarrier())
    with profiling.span("input", "input"):
        sleep(todo.read[step, comm.rank])
    with profiling.span("compute", "compute"):
        sleep(todo.compute[step, comm.rank])
    with profiling.span("communication", "exchange"):
        for _ in range(_messages(comm.size)):
            receive = comm.Irecv(coming, source=left)
            with profiling.span("communication", "send"):
                sleep(todo.send[step, comm.rank])
                send = comm.Isend(leaving, dest=right)
            _wait(receive)
            send.Wait()


def spans_of(profile: profiling.Profile, step: int) -> list[Span]:
    """A recorded step of all ranks, on one clock."""
    return [
        Span(trace.rank, span.name, span.begin, span.end)
        for trace in profile.ranks
        for span in trace.spans[step]
    ]


def slow_rank(steps: int, ranks: int, rank: int) -> np.ndarray:
    """Seconds of normal steps with a tenth of the SPREAD, (steps, ranks); one rank's are 1.5 times
    as long."""
    times = MEAN + 0.1 * (draw("normal", steps, ranks) - MEAN)
    times[:, rank] *= 1.5
    return times


def train(used: np.ndarray, every: int, own_digits: bool, seed: int) -> tuple[float, float]:
    """Percent right of all test images and of the sevens, after training the digits' network.

    used: (steps, ranks), whether a rank's weights enter the average that begins the next steps.
    every: H; with 1, the average of the weights is as that of the gradients. own_digits: rank r
    reads only images of digit r; else each reads of all.
    """
    images, labels, test_images, test_labels = data.digits()
    steps, ranks = used.shape
    rng = np.random.default_rng(seed)
    shards = np.array_split(rng.permutation(len(labels)), ranks)
    if own_digits:
        shards = [np.flatnonzero(labels == rank) for rank in range(ranks)]
    start = nets.start_weights(seed)
    vectors = np.stack([nets.join(start)] * ranks)
    for step in range(steps):
        for vector, shard in zip(vectors, shards, strict=True):
            rows = rng.choice(shard, BATCH)
            gradient = nets.gradient(nets.cut(vector, start), images[rows], labels[rows])
            vector -= RATE * nets.join(gradient)
        if (step + 1) % every == 0:
            vectors[:] = vectors[used[step]].mean(axis=0)
    weights = nets.cut(vectors.mean(axis=0), start)
    seven = test_labels == 7
    return (
        nets.percent_right(weights, test_images, test_labels),
        nets.percent_right(weights, test_images[seven], test_labels[seven]),
    )
