"""Lab 34: its checks, a net that large batches are hard for, its training in NumPy, and what time
is worth.

An update(weights, gradients, state, rate) moves a list of arrays in place: matrices (inputs,
outputs) and biases in turn. Its state has t, the step's number 1, 2, …, and lists m and v of arrays
like the weights, 0 at the start. A way to train is a pair: such an update, and rate(step, batch)
with steps 0, 1, ….
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from statistics import median
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import virtual
from labkit import check, data, expect, launch, nets, plots, record, timing
from labkit.counting import CallLog, on_every_size
from labkit.errors import counted
from threadpoolctl import threadpool_limits

# 100 does not divide 1,536; batches below, at and above the base batch; no warm-up; one step an
# epoch.
# batch, base, power, warm_up, epochs, images, base_batch: the arguments of learning_rate
TRAININGS = (
    (256, 0.025, 1, 5, 20, 1536, 16),
    (256, 0.025, 0.5, 5, 20, 1536, 16),
    (100, 0.1, 1, 3, 8, 1536, 32),
    (64, 0.05, 0, 2, 10, 1536, 16),
    (500, 0.025, 1, 0, 6, 1300, 50),
    (1536, 0.01, 0.5, 1, 4, 1536, 16),
    (64, 0.05, 1, 2, 6, 1300, 128),
)


@check.exercise("34.1")
def rates_of_seven_trainings(learning_rate):
    """The rates of seven training runs, at steps in the warm-up, at its end, later, and at the
    last."""
    for batch, base, power, warm_up, epochs, images, base_batch in TRAININGS:
        peak = base * (batch / base_batch) ** power
        first = warm_up * (images // batch)
        total = epochs * (images // batch)
        told = f"Batch {batch} of {images} images, base {base} at {base_batch}, power {power}, "
        told += f"warm-up {warm_up} of {epochs} epochs"
        later = (2 * first + total) // 3
        for step in sorted({0, 1, first // 2, abs(first - 1), first, later, total - 1}):
            slips = {
                "Warm-up begins at the base rate, not at 0": _rate(step, first, total, 0, peak),
                f"an epoch has {images} // {batch} steps": _rate(
                    step, warm_up * images / batch, epochs * images / batch, base, peak
                ),
                "the cosine begins when the warm-up is over, not at step 0": (
                    peak * (1 + np.cos(np.pi * step / total)) / 2
                ),
            }
            got = learning_rate(step, batch, base, power, warm_up, epochs, images, base_batch)
            what = f"{told}: the rate of step {step} of {total}"
            expect.close(got, _rate(step, first, total, base, peak), what, rtol=1e-6, slips=slips)


def _rate(step: int, first: float, total: float, base: float, peak: float) -> float:
    """From base to peak in the steps before `first`, then by a cosine to 0 at step `total`."""
    if step < first:
        return base + (peak - base) * step / first
    return peak * (1 + np.cos(np.pi * (step - first) / (total - first))) / 2


# ---------------------------------------- LARS and LAMB

RATES = (0.1, 0.2, 0.05, 0.1)  # of the steps: they change, as in a schedule
SHAPES = ((6, 4), (4,), (4, 5), (5,), (5, 3), (3,))
SCALES = (1, 0.5, 0.1, 0.1, 30, 1)  # of the weights of each layer
IN_PLACE = "change the caller's arrays in place, `w -= …`"
norm = np.linalg.norm


def local_rate(w, g, trust, decay) -> float:
    """LARS's own."""
    return trust * norm(w) / (norm(g) + decay * norm(w)) if w.any() and g.any() else 1


def right_lars(
    weights, gradients, state, rate, trust, decay, momentum, local=local_rate, biases=False
):
    """You, Gitman and Ginsburg 2017, "Large Batch Training of Convolutional Networks".

    local, biases: as in a mistake, another local rate, and one for biases, too.
    """
    for w, g, m in zip(weights, gradients, state.m, strict=True):
        step = g
        if w.ndim == 2 or biases:
            step = local(w, g, trust, decay) * (g + decay * w)
        m *= momentum
        m += rate * step
        w -= m


def right_lamb(weights, gradients, state, rate, decay, ratio=True, biases=False):
    """You et al. 2019, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes".

    ratio, biases: as in a mistake, no ratio, and one for biases, too.
    """
    for w, g, m, v in zip(weights, gradients, state.m, state.v, strict=True):
        m += 0.1 * (g - m)
        v += 0.001 * (g * g - v)
        step = m / (1 - 0.9**state.t) / (np.sqrt(v / (1 - 0.999**state.t)) + 1e-6)
        if w.ndim == 2:
            step += decay * w
        if ratio and (w.ndim == 2 or biases):
            step *= norm(w) / norm(step) if w.any() and step.any() else 1
        w -= rate * step


def layers(seed: int) -> tuple[list, list]:
    """Weights and, for each of four steps, gradients: layers of sizes and scales that differ;
    float64."""
    rng = np.random.default_rng(seed)
    weights = [
        scale * rng.standard_normal(shape) for shape, scale in zip(SHAPES, SCALES, strict=True)
    ]
    steps = [
        [10.0 ** rng.integers(-3, 2) * rng.standard_normal(shape) for shape in SHAPES]
        for _ in RATES
    ]
    return weights, steps


def walk(update: Callable, start: list, steps: Sequence[list], **options) -> list[list[np.ndarray]]:
    """The weights after each step of `update`, from copies. Fails if `update` changes the
    gradients."""
    weights = [array.copy() for array in start]
    arrays = list(weights)  # the caller's own, whatever `update` puts into the list
    state = fresh_state(weights)
    after = []
    with np.errstate(all="ignore"):  # what is not finite is seen in what comes out
        for t, (gradients, rate) in enumerate(zip(steps, RATES, strict=False), start=1):
            state.t = t
            given = [array.copy() for array in gradients]
            update(weights, given, state, rate, **options)
            expect.unchanged(gradients, given, "The list of gradients")
            expect.equal(state.t, t, "state.t after a step", because="The caller counts the steps")
            after.append([array.copy() for array in arrays])
    return after


def expect_steps(update, right, weights, steps, slips=None, because="", **options) -> None:
    """The weights after each step are those of `right`. slips: of the first step; because: of the
    others."""
    told = ", ".join(f"{name} {value}" for name, value in options.items())
    got = walk(update, weights, steps, **options)
    want = walk(right, weights, steps, **options)
    for step, (after, right_after) in enumerate(zip(got, want, strict=True)):
        why = {"because": because} if step or not slips else {"slips": slips}
        what = f"{told}, step {step + 1}: weights"
        expect.close(after, right_after, what, rtol=1e-6, atol=1e-12, **why)


def expect_without_norms(update, right, weights, steps, because: str, **options) -> None:
    """The same where all weights, and where all gradients, are 0."""
    with check.case("all weights 0"):
        expect_steps(
            update, right, [0 * array for array in weights], steps[:2], because=because, **options
        )
    with check.case("all gradients 0"):
        no_steps = [[0 * array for array in step] for step in steps[:2]]
        expect_steps(update, right, weights, no_steps, because=because, **options)


@check.exercise("34.2")
def lars_in_place(lars):
    """How far matrices move with larger gradients, and the weights after each step, norms of 0
    included."""
    weights, steps = layers(1)
    gradients = steps[0]
    moved, more = (distances(lars, weights, gradients, factor) for factor in (1, 1000))
    expect(all(moved), f"After a step a matrix is what it was: {IN_PLACE}.")
    what = "How far matrices move with gradients 1,000 times as large (expected: no change)"
    same = "With LARS the size of the gradient does not matter in matrices; this call has decay=0"
    expect.close(more, moved, what, because=same)

    size, slope = (norm([norm(one) for one in arrays[::2]]) for arrays in (weights, gradients))
    mistakes = {
        "biases are excluded: local rate 1, no decay": {"biases": True},
        "each layer has its own norms; these are of the whole net": {
            "local": lambda w, g, trust, decay: trust * size / (slope + decay * size)
        },
        "the denominator is the sum of two norms, ‖g‖ + decay * ‖w‖": {
            "local": lambda w, g, trust, decay: trust * norm(w) / norm(g + decay * w)
        },
        "the decay belongs into the denominator, too": {
            "local": lambda w, g, trust, decay: trust * norm(w) / norm(g)
        },
    }
    first = {"trust": 0.05, "decay": 0.1, "momentum": 0.9}
    slips = {
        words: walk(right_lars, weights, steps[:1], **first, **mistake)[0]
        for words, mistake in mistakes.items()
    }
    later = "The rate of a step goes into the momentum, not onto all of it, and state.m[i] is kept"
    expect_steps(lars, right_lars, weights, steps, slips, later, **first)
    for trust, decay, momentum in ((0.02, 0.0, 0.0), (0.02, 0.0, 0.9), (0.001, 0.01, 0.5)):
        options = {"trust": trust, "decay": decay, "momentum": momentum}
        passed = f"trust, decay and momentum are those of the call. {later}"
        expect_steps(lars, right_lars, weights, steps, because=passed, **options)
    for decay in (0.0, 0.1):
        options = {"trust": 0.02, "decay": decay, "momentum": 0.9}
        zero = "where a norm is 0, the local rate is 1, and step is g + decay * w"
        expect_without_norms(lars, right_lars, weights, steps, zero, **options)


def distances(lars: Callable, weights: list, gradients: list, factor: float) -> list[float]:
    """How far a step of LARS moves each matrix, with gradients `factor` times as large and no
    decay."""
    larger = [factor * array for array in gradients]
    after = walk(lars, weights, [larger], trust=0.02, decay=0.0, momentum=0.9)[0]
    return [float(norm(now - before)) for now, before in zip(after[::2], weights[::2], strict=True)]


@check.exercise("34.3")
def lamb_in_place(lamb):
    """The weights after each of four steps, with and without decay, and where norms are 0."""
    weights, steps = layers(2)

    slips = {
        IN_PLACE: weights,
        "biases are excluded: they move as in `adam`": (
            walk(right_lamb, weights, steps[:1], decay=0.0, biases=True)[0]
        ),
        "this is Adam: the layer's ratio is missing": (
            walk(right_lamb, weights, steps[:1], decay=0.0, ratio=False)[0]
        ),
    }
    later = "Call `adam_step` once for each array; its step has the decay already"
    expect_steps(lamb, right_lamb, weights, steps, slips, later, decay=0.0)
    for decay in (0.1, 0.01):
        expect_steps(lamb, right_lamb, weights, steps, because=later, decay=decay)
    zero = "where ‖w‖ or ‖step‖ is 0, the ratio is 1; with decay, step is not 0 where g is"
    for decay in (0.0, 0.1):
        expect_without_norms(lamb, right_lamb, weights, steps, zero, decay=decay)


# ---------------------------------------- a step on many ranks

RATE = 0.1
STEPS = 3
BATCH = 24  # images, nearly: as many for each rank


class Seen(NamedTuple):
    """What happened on a rank, by step: the weights afterwards, the gradients of update; and calls
    of MPI."""

    weights: list[list[np.ndarray]]
    gradients: list[list[np.ndarray]]
    calls: list[str]


@check.exercise("34.4")
def as_one_process(parallel_step, patience, updates, workers):
    """Three steps on 1 to 4 virtual ranks, then on real ones, are those of one process, and one
    Allreduce is all that a step calls.
    """

    def try_parallel(comm):
        for name, update in updates.items():
            seen = comm.gather(three_steps(comm, parallel_step, update))
            if comm.rank == 0:
                expect_one_process(seen, update, f"{name} on {counted(comm.size, 'real rank')}")

    for p in (1, 2, 3, 4):
        for name, update in updates.items():
            run = virtual.Cluster(nodes=p).run(three_steps, parallel_step, update)
            expect_one_process(run.results, update, f"{name} on {counted(p, 'virtual rank')}")
    launch.run(on_every_size, try_parallel, ranks=launch.ranks_here(workers), timeout=patience)


def three_steps(comm, step: Callable, update: Callable) -> Seen:
    """Three calls of step(comm, weights, images, labels, update, state, rate) on this rank, in
    float64.

    Before them one in float32, as in the lab's trainings: MPI refuses a buffer of another dtype.
    """
    _one_step_in_float32(comm, step)
    weights = _float64_weights()
    state = fresh_state(weights)
    seen = Seen([], [], [])
    log = CallLog(comm)

    def spy(weights, gradients, state, rate):
        arrays = f"{len(weights)} arrays, like the weights; these are {len(gradients)}"
        sentence = f"update takes a list of {arrays}. Join before the Allreduce, cut after it."
        expect(len(gradients) == len(weights), sentence)
        right = RATE / (len(seen.weights) + 1)
        sentence = f"The rate is {right:.4g}, and update got {rate:.4g}"
        scaled = f"{sentence}: the schedule has scaled it for the whole batch already."
        expect(rate == right, scaled)
        seen.gradients.append([np.array(array) for array in gradients])
        update(weights, gradients, state, rate)

    for state.t, (images, labels) in enumerate(_batches(comm.size), start=1):
        own = slice(comm.rank, None, comm.size)
        step(log, weights, images[own], labels[own], spy, state, RATE / state.t)
        seen.weights.append([array.copy() for array in weights])
    seen.calls.extend(log.calls)
    return seen


def expect_one_process(ranks: Sequence[Seen], update: Callable, where: str) -> None:
    """Fail unless three steps on ranks are those of one process. ranks: what each saw. where: in
    words."""
    p = len(ranks)
    weights = _float64_weights()
    state = fresh_state(weights)
    for state.t, (images, labels) in enumerate(_batches(p), start=1):
        gradient = nets.gradient(weights, images, labels)
        before = [array.copy() for array in weights]
        update(weights, gradient, state, RATE / state.t)
        for rank, seen in enumerate(ranks):
            at = f"{where}, step {state.t}, rank {rank}"
            once = "Every rank calls update once a step"
            expect.equal(
                len(seen.gradients), STEPS, f"{at}: calls of update in 3 steps", because=once
            )
            given = seen.gradients[state.t - 1]
            what = f"{at}: the gradient given to update"
            dtypes = {str(part.dtype) for part in given}
            like = "A buffer is to be like the gradient"
            expect.equal(dtypes, {"float64"}, f"{what}: dtypes", because=like)
            slips = {
                "this is the rank's own gradient; average first, LARS and LAMB need the "
                "mean's norm": nets.gradient(before, images[rank::p], labels[rank::p]),
                "this is the sum over the ranks, not the mean; LARS hides that in matrices, "
                "not in biases": [p * part for part in gradient],
                "it is a mean over the images already: divide the sum by the ranks alone": [
                    part * p / len(images) for part in gradient
                ],
            }
            expect.close(given, gradient, what, rtol=1e-6, atol=1e-10, slips=slips)
            what = f"{at}: the weights, by right gradients"
            same = {"they are what they were: give update those of the caller, no copy": before}
            own = "Is `state` the caller's own, changed by update alone?"
            after = seen.weights[state.t - 1]
            expect.close(after, weights, what, rtol=1e-6, atol=1e-10, slips=same, because=own)
    calls = [name for seen in ranks for name in seen.calls]
    pickled = [name for name in calls if name[0].islower()]
    sentence = (
        f"comm.{pickled[0]} pickles its argument; the call for arrays is Allreduce."
        if pickled
        else ""
    )
    expect(not pickled, f"{where}: {sentence}")
    others = [name for name in calls if name not in ("Allreduce", "Iallreduce")]
    sentence = f"comm.{others[0]} is one call too many. " if others else ""
    own = "Each rank takes the gradient of its own images; one Allreduce a step brings their mean."
    expect(not others, f"{where}: {sentence}{own}")
    most = max(len(seen.calls) for seen in ranks)
    enough = "One Allreduce a step is enough: join the gradients."
    expect(p == 1 or most <= STEPS, f"{where}: {most} calls of MPI in 3 steps. {enough}")


def _one_step_in_float32(comm, step: Callable) -> None:
    weights = start_weights(5)
    state = fresh_state(weights)
    state.t = 1
    images, labels = _batches(comm.size)[0]
    own = slice(comm.rank, None, comm.size)
    part = images[own].astype(np.float32)
    step(comm, weights, part, labels[own], lambda *_, **__: None, state, RATE)


def _float64_weights() -> list[np.ndarray]:
    """In float64, so that sums in any order are alike."""
    return [array.astype(np.float64) for array in start_weights(5)]


def _batches(p: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and labels of each step, as many for each of the p ranks."""
    images, labels, *_ = digits()
    size = p * max(1, BATCH // p)
    parts = [slice(step * size, (step + 1) * size) for step in range(STEPS)]
    return [(images[part], labels[part]) for part in parts]


# ---------------------------------------- training

# Units per layer, input first: 17,290 parameters, no normalisation.
SIZES = (64, 64, 64, 64, 64, 10)


class Trained(NamedTuple):
    """One training: % of the test images right at its end, and epochs until `goal` % were (None:
    never)."""

    right: float
    epochs_to_goal: float | None


def start_weights(seed: int = 0) -> list[np.ndarray]:
    """[W1 (64, 64), b1 (64,), …], float32, as `nets.start_weights` draws them."""
    return nets.start_weights(seed, SIZES)


def norm_ratios(seeds: Sequence[int]) -> np.ndarray:
    """‖w‖ / ‖g‖ of each matrix at the start of training, for all training images: mean of the
    seeds."""
    ratios = []
    for seed in seeds:
        weights = start_weights(seed)
        gradients = nets.gradient(weights, *digits()[:2])
        pairs = zip(weights[::2], gradients[::2], strict=True)
        ratios.append([norm(w) / norm(g) for w, g in pairs])
    return np.mean(ratios, axis=0)


def fresh_state(weights: list[np.ndarray]) -> SimpleNamespace:
    """What an update may remember, before the first step."""
    return SimpleNamespace(t=0, m=[0 * w for w in weights], v=[0 * w for w in weights])


@cache
def digits() -> data.Dataset:
    """data.digits(), read once."""
    return data.digits()


@cache
def train(
    update: Callable, rates: tuple, batch: int, epochs: int, seed: int, goal: float
) -> Trained:
    """Train on the digits, one rate a step; the same call twice trains once. goal: % of the test
    images.

    The test images are looked at four times an epoch (after each step, where there are fewer).
    """
    images, labels, test_images, test_labels = digits()
    weights = start_weights(seed)
    state = fresh_state(weights)
    reached = None
    order = [
        rows for epoch in range(epochs) for rows in data.batches(len(images), batch, epoch, seed)
    ]
    per_epoch = len(order) // epochs
    right = 0.0
    # A rate that is too high ends in inf. Products as small as these gain nothing from a second
    # thread.
    with np.errstate(all="ignore"), threadpool_limits(1):
        for state.t, (rows, rate) in enumerate(zip(order, rates, strict=True), start=1):
            update(weights, nets.gradient(weights, images[rows], labels[rows]), state, rate)
            if state.t % max(1, per_epoch // 4) == 0 or state.t == len(order):
                right = nets.percent_right(weights, test_images, test_labels)
                if reached is None and right >= goal:
                    reached = state.t / per_epoch
                if not np.isfinite(weights[-1]).all():
                    break
    return Trained(right, reached)


def sweep(
    ways: Mapping, batches: Iterable[int], seeds: Iterable[int], epochs: int, goal: float
) -> dict:
    """way -> {batch: [a Trained for each seed]}, recorded too. ways: name -> (update, rate(step,
    batch))."""
    trained: dict = {}
    for name, (update, rate) in ways.items():
        trained[name] = {}
        for batch in batches:
            total = epochs * (data.TRAIN_IMAGES // batch)
            rates = tuple(float(rate(step, batch)) for step in range(total))
            trained[name][batch] = [
                train(update, rates, batch, epochs, seed, goal) for seed in seeds
            ]
        rows = trained[name].values()
        fields = {
            "batches": list(batches),
            "right": [[training.right for training in row] for row in rows],
            "epochs_to_goal": [[training.epochs_to_goal for training in row] for row in rows],
        }
        record.add("accuracy", unit="%", way=name, epochs=epochs, seeds=seeds, goal=goal, **fields)
    return trained


def draw_wrong(trained: Mapping, title: str) -> None:
    """Plot the test images that are wrong (%) by batch, and print what the seeds got right."""
    wrong = {
        way: {batch: [100 - training.right for training in row] for batch, row in rows.items()}
        for way, rows in trained.items()
    }
    axes = {"xlabel": "images per step", "ylabel": "test images wrong (%)"}
    plots.lines(wrong, title=title, logx=True, logy=True, **axes)
    for way, rows in wrong.items():
        spans = [
            f"{batch}: {100 - max(row):.0f}-{100 - min(row):.0f}" for batch, row in rows.items()
        ]
        print(f"{way:>20}: % right, lowest to highest, by batch   {'   '.join(spans)}")


def holds(rows: Mapping, least: float) -> int:
    """The largest batch up to which the median loses less than `least` % against the smallest
    batch's.

    rows: batch -> [a Trained for each seed].
    """
    middle = {batch: np.median([training.right for training in row]) for batch, row in rows.items()}
    smallest = min(middle)
    good = smallest
    for batch in sorted(middle):
        if middle[batch] <= middle[smallest] - least:
            break
        good = batch
    return good


# ---------------------------------------- time


def step_times(updates: Mapping, images: int) -> dict[str, timing.Measurement]:
    """Seconds that a core computes in a step: the gradient of so many images, and the update."""
    own = [part[:images] for part in digits()[:2]]

    def step(update, weights, state) -> None:
        update(weights, nets.gradient(weights, *own), state, 1e-6)

    calls = {}
    for name, update in updates.items():
        weights = start_weights()
        state = fresh_state(weights)
        state.t = 1
        calls[name] = partial(step, update, weights, state)
    with threadpool_limits(1):
        return timing.in_turns(calls, seconds=1.0)


@cache
def allreduce_seconds(gpus: int, machine: str) -> float:
    """Virtual seconds to sum the net's gradient (float32) on so many GPUs of a virtual machine."""
    nbytes = 4 * sum(array.size for array in start_weights())

    def program(comm):
        gradient = virtual.vector(np.ones(gpus), stands_for=nbytes)
        comm.Allreduce(gradient, np.empty_like(gradient))

    return virtual.Cluster.of(gpus, None, machine).run(program).time


def times_to_goal(
    trained: Mapping, computing: Mapping, per_gpu: int, machine: str
) -> dict[str, dict]:
    """way -> {batch: (seconds of an epoch, seconds to the goal)}, with per_gpu images on each GPU
    and step.

    trained: of `sweep`. computing: way -> seconds of a step without messages. The seconds to the
    goal are the median over the seeds, inf where half of them did not reach it.
    """
    table: dict = {}
    for way, by_batch in trained.items():
        table[way] = {}
        for batch, trainings in by_batch.items():
            step = computing[way] + allreduce_seconds(max(1, batch // per_gpu), machine)
            epoch = step * (data.TRAIN_IMAGES // batch)
            epochs = median(training.epochs_to_goal or np.inf for training in trainings)
            table[way][batch] = (epoch, epochs * epoch)
    return table


def measured_times(
    trained: Mapping, computing: Mapping[str, timing.Measurement], per_gpu: int, machine: str
) -> dict[str, dict]:
    """`times_to_goal`, recorded. computing: of `step_times`, by the optimizer that a way begins
    with."""
    seconds = {way: computing[way.split(",")[0]].median for way in trained}
    times = times_to_goal(trained, seconds, per_gpu, machine)
    for name, time in computing.items():
        record.add("step", way=name, images=per_gpu, seconds=time)
    for way, rows in times.items():
        epoch, goal = zip(*rows.values(), strict=True)
        fields = {"batches": list(rows), "epoch": epoch, "goal": goal}
        record.add("times", unit="s", way=way, gpu=per_gpu, machine=machine, **fields)
    return times


def speed_ups(times: Mapping, first: str) -> tuple[dict[int, float], dict[str, dict[int, float]]]:
    """How many times as fast as in the way `first` at its smallest batch: an epoch, and each way to
    the goal.

    times: of `times_to_goal`. Returns {batch: number} of the epoch, and way -> {batch: number} of
    the goal, without the batches, and the ways, that do not reach it.
    """
    one_epoch, one_goal = times[first][min(times[first])]
    epoch = {batch: one_epoch / time for batch, (time, _) in times[first].items()}
    goals: dict = {}
    for way, rows in times.items():
        for batch, (_, time) in rows.items():
            if np.isfinite(time) and np.isfinite(one_goal):
                goals.setdefault(way, {})[batch] = one_goal / time
    return epoch, goals


def draw_speed_ups(epoch: Mapping, goals: Mapping, goal: float, per_gpu: int) -> None:
    """Plot both results of `speed_ups`; without "SGD, linear", which is like the one with
    warm-up."""
    curves = {f"{goal} %: {way}": row for way, row in goals.items() if way != "SGD, linear"}
    axes = {
        "xlabel": f"images per step, {per_gpu} a GPU",
        "ylabel": "times as fast as SGD on 1 GPU",
    }
    title = f"Epochs get faster, the time to {goal} % improves less"
    plots.lines(curves | {"an epoch": epoch}, title=title, logx=True, logy=True, **axes)


def print_gains(goals: Mapping, per_gpu: int) -> None:
    """For each way: its best batch, in GPUs, and the gain. goals: of `speed_ups`."""
    for way, row in goals.items():
        batch = max(row, key=row.get)
        used = batch // per_gpu
        gain = f"{row[batch]:4.1f} times as fast, with {used:2} GPUs"
        print(f"{way:>22}: {gain}: {row[batch] / used:.2f} per GPU")
