"""What checks ask of LARS and of LAMB. Names as in large_batch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
from labkit import nets, virtual
from labkit.checks import expect
from labkit.counting import CallLog


def _layers(seed: int) -> tuple[list, list]:
    """Weights and, for each of four steps, gradients: layers of sizes and scales that differ; float64."""
    rng = np.random.default_rng(seed)
    shapes, scales = ((6, 4), (4,), (4, 5), (5,), (5, 3), (3,)), (1, 0.5, 0.1, 0.1, 3, 1)
    weights = [scale * rng.standard_normal(shape) for shape, scale in zip(shapes, scales, strict=True)]
    steps = [[10.0 ** rng.integers(-3, 2) * rng.standard_normal(shape) for shape in shapes] for _ in range(4)]
    return weights, steps


def _state(weights) -> SimpleNamespace:
    return SimpleNamespace(t=0, m=[0 * one for one in weights], v=[0 * one for one in weights])


def _walk(update, weights, steps, rates, **options) -> list[list[np.ndarray]]:
    """The weights after each step, from copies of what is given."""
    mine, after = [one.copy() for one in weights], []
    state = _state(mine)
    for state.t, (gradients, rate) in enumerate(zip(steps, rates, strict=False), start=1):
        given = [one.copy() for one in gradients]
        update(mine, given, state, rate, **options)
        same = all(np.array_equal(one, other) for one, other in zip(given, gradients, strict=True))
        expect(same, "The gradients were changed: they belong to the caller.")
        after.append([one.copy() for one in mine])
    return after


def _lars(weights, gradients, state, rate, trust, decay, momentum, slip=""):
    norm = np.linalg.norm
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        local, used = 1.0, 0.0 if slip == "nodecay" else decay
        if w.ndim > 1 or slip == "biases":
            size, slope = norm(w), norm(g)
            if slip == "whole":
                size, slope = (np.sqrt(sum(norm(x) ** 2 for x in xs[::2])) for xs in (weights, gradients))
            if slip == "spectral" and w.ndim > 1:
                size, slope = norm(w, 2), norm(g, 2)
            below = slope + (0 if slip == "below" else decay * size)
            below = norm(g + decay * w) if slip == "together" else below
            local = trust * size / below if size and below and (slope or slip == "zero") else 1.0
        step = local * (g + used * w * (w.ndim > 1 or slip in ("biases", "decayed")))
        state.m[i] = momentum * state.m[i] + (1 if slip == "outside" else rate) * step
        w -= (rate if slip == "outside" else 1) * state.m[i]
        state.m[i] *= slip != "forget"


SPECTRAL = "the norm is the root of all squares' sum, np.linalg.norm(w); a matrix's norm with a 2 is another"
LARS_SLIPS = {
    "biases": "biases are excluded: local rate 1, no decay",
    "decayed": "no decay for biases",
    "whole": "each layer has its own norms; these are of the whole net",
    "below": "below the fraction stands the gradient's norm plus decay times the weights' norm",
    "together": "two norms stand below the fraction, ‖g‖ + decay * ‖w‖; this is the norm of g + decay * w",
    "spectral": SPECTRAL,
    "nodecay": "the direction is the gradient plus decay times the weights",
    "forget": "state.m[i] is to be kept for the next step",
    "outside": "the rate of a step goes into the momentum, not onto all of it",
}


def expect_lars(update: Callable) -> None:
    """Fail unless update(weights, gradients, state, rate, trust, decay, momentum) is LARS."""
    weights, steps = _layers(1)
    plain = {"trust": 0.02, "decay": 0.0, "momentum": 0.9}
    for i, name in ((0, "a matrix"), (4, "another matrix")):
        one, other = (
            _walk(update, weights, [[f * g for g in steps[0]]], (0.1,), **plain)[0] for f in (1, 1000)
        )
        moved, more = (np.linalg.norm(after[i] - weights[i]) for after in (one, other))
        expect(
            moved > 0, f"After a step {name} is what it was: change the caller's arrays in place, `w -= …`."
        )
        words = f"Gradients 1,000 times as large move {name} {more / moved:.4g} times as far"
        expect(np.isclose(moved, more), f"{words}. With LARS the gradient's size has no say, in matrices.")
    for trust, decay, momentum in ((0.02, 0.0, 0.0), (0.02, 0.0, 0.9), (0.05, 0.1, 0.9), (0.001, 0.01, 0.5)):
        options = {"trust": trust, "decay": decay, "momentum": momentum}
        _compare(update, _lars, LARS_SLIPS, weights, steps, options)
    for what, kept, slopes in (("weights", 0, 1), ("gradients", 1, 0)):
        given = [kept * one for one in weights], [[slopes * one for one in step] for step in steps]
        for decay in (0.0, 0.1):
            options, who = plain | {"decay": decay}, f"All {what} 0, decay {decay}"
            with np.errstate(all="ignore"):
                got = _walk(update, *given, (0.1, 0.1), **options)
                finite = all(np.isfinite(w).all() for w in got[-1])
                expect(finite, f"{who}: not finite any more. A norm is 0 there.")
                words = f"{who} (where a norm is 0, the local rate is 1), "
                _compare(update, _lars, {}, *given, options, words)


def _lamb(weights, gradients, state, rate, decay, betas, eps, slip=""):
    norm, (one, two) = np.linalg.norm, betas
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        state.m[i] = one * state.m[i] + (1 - one) * g
        state.v[i] = two * state.v[i] + (1 - two) * g**2
        young, t = 0 if slip == "bias" else 1, state.t + (slip == "counted")
        m, v = state.m[i] / (1 - young * one**t), state.v[i] / (1 - young * two**t)
        if slip == "stored":
            state.m[i], state.v[i] = m, v
        direction = m / np.sqrt(v + eps) if slip == "inside" else m / (np.sqrt(v) + eps)
        local = 1.0
        if slip == "decayed" and w.ndim == 1:
            direction = direction + decay * w
        if w.ndim > 1 or slip == "biases":
            bare = norm(direction)
            direction = direction + decay * w * (slip != "nodecay")
            below = norm(g) if slip == "gradient" else bare if slip == "late" else norm(direction)
            local = norm(w) / below if norm(w) and below and slip != "noratio" else 1.0
            if slip == "spectral" and w.ndim > 1:
                local = norm(w, 2) / norm(direction, 2)
            if slip == "apart":
                direction = direction - decay * w
                local = norm(w) / bare
                w -= rate * decay * w * (w.ndim > 1)
        w -= rate * local * direction
        state.m[i], state.v[i] = state.m[i] * (slip != "forget"), state.v[i] * (slip != "forget")


LAMB_SLIPS = {
    "bias": "without Adam's bias correction, m / (1 - beta**t), the first steps are wrong",
    "biases": "biases are excluded: ratio 1, no decay",
    "gradient": "the ratio's lower part is the norm of the direction, not of the gradient",
    "late": "decay is part of the direction before its norm is taken",
    "apart": "decay is part of the direction, which the ratio scales; AdamW's stands apart",
    "spectral": SPECTRAL,
    "nodecay": "the direction is Adam's plus decay times the weights",
    "decayed": "no decay for biases",
    "counted": "state.t is this step's number, 1 in the first: it is counted for you",
    "stored": "divide under a new name; state.m[i] and state.v[i] go on undivided",
    "inside": "eps is added to the root, not under it",
    "forget": "state.m[i] and state.v[i] are to be kept for the next step",
    "noratio": "this is Adam: the layer's ratio is missing",
}


def expect_lamb(update: Callable) -> None:
    """Fail unless update(weights, gradients, state, rate, decay, betas, eps) is LAMB."""
    weights, steps = _layers(2)
    for decay, betas, eps in ((0.0, (0.9, 0.999), 1e-6), (0.1, (0.9, 0.999), 1e-6), (0.01, (0.5, 0.9), 1e-3)):
        _compare(update, _lamb, LAMB_SLIPS, weights, steps, {"decay": decay, "betas": betas, "eps": eps})
    usual = {"decay": 0.0, "betas": (0.9, 0.999), "eps": 1e-6}
    for what, kept, slopes in (("weights", 0, 1), ("gradients", 1, 0)):
        given = [kept * one for one in weights], [[slopes * one for one in step] for step in steps]
        with np.errstate(all="ignore"):
            _compare(update, _lamb, {}, *given, usual, f"All {what} 0 (where a norm is 0, the ratio is 1), ")


def _compare(update, right, slips, weights, steps, options, before="") -> None:
    rates = (0.1, 0.2, 0.05, 0.1)  # they change, as in a schedule
    want = _walk(right, weights, steps, rates, **options)
    got = _walk(update, weights, steps, rates, **options)
    named = ", ".join(f"{name} {value}" for name, value in options.items())
    for number, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        for i, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            kind = "the matrix" if one.ndim > 1 else "the bias"
            who = f"{before}{named}, step {number + 1}: {kind} weights[{i}]"
            if not np.allclose(one, other, rtol=1e-6, atol=1e-12):
                same = not before and np.array_equal(one, weights[i])
                expect(not same, f"{who} is what it was: change the caller's array in place, `w -= …`.")
                for slip, words in slips.items():
                    wrong = _walk(right, weights, steps, rates, **options, slip=slip)[number][i]
                    expect(not np.allclose(one, wrong, rtol=1e-6, atol=1e-12), f"{who}: {words}.")
            expect.close(one, other, who, rtol=1e-6, atol=1e-12)


# What a check asks of a schedule of rates. Names as in large_batch.


# batch, base rate, power, epochs of warm-up, epochs, images, base batch. 100 does not divide 1,536.
CASES = (
    (256, 0.025, 1, 5, 20, 1536, 16),
    (256, 0.025, 0.5, 5, 20, 1536, 16),
    (100, 0.1, 1, 3, 8, 1536, 32),
    (64, 0.05, 0, 2, 10, 1536, 16),
    (500, 0.025, 1, 0, 6, 1300, 50),
    (1536, 0.01, 0.5, 1, 4, 1536, 16),
    (64, 0.05, 1, 2, 6, 1300, 128),
)


def expect_rate(rate: Callable) -> None:
    """Fail unless rate(step, batch, base, power, warm_up, epochs, images, base_batch) is as lab 34 has it."""
    for case in CASES:
        batch, base, power, warm, epochs, images, base_batch = case
        per_epoch = images // batch
        total, first = per_epoch * epochs, per_epoch * warm
        terms = (base, base * (batch / base_batch) ** power, warm, epochs)
        who = f"Batch {batch} of {images} images, base {base} at {base_batch}, power {power}, "
        who += f"warm-up {warm} of {epochs}"
        for step in sorted({0, 1, first // 2, abs(first - 1), first, (2 * first + total) // 3, total - 1}):
            got, what = rate(step, *case), f"{who}: the rate of step {step} of {total}"
            expect(np.ndim(got) == 0 and got is not None, f"{what} should be a number, not {got!r}.")
            want = _rate(step, per_epoch, *terms)
            for words, wrong in _slips(step, case).items():
                like = np.isclose(got, wrong) and not np.isclose(want, wrong)
                expect(not like, f"{what}: {got:.4g}. {words}.")
            expect.close(got, want, what, rtol=1e-9)


def _slips(step, case) -> dict[str, float]:
    """What is wrong -> the rate that it makes of this step."""
    batch, base, power, warm, epochs, images, base_batch = case
    per_epoch, peak = images // batch, base * (batch / base_batch) ** power
    terms, begun = (base, peak, warm, epochs), step - step % per_epoch
    stairs = begun if step < warm * per_epoch else step
    return {
        f"An epoch has {images} // {batch} steps": _rate(step, images / batch, *terms),
        f"This is with 32 for base_batch, which is {base_batch} here": _rate(
            step, per_epoch, base, base * (batch / 32) ** power, warm, epochs
        ),
        f"batch / base_batch is {batch / base_batch:g} here: take it as it is": _rate(
            step, per_epoch, base, base * max(1, batch // base_batch) ** power, warm, epochs
        ),
        f"This is with 1,536 images, but there are {images:,} here": _rate(step, 1536 // batch, *terms),
        "What does not fill a batch is left out: round down": _rate(step, -(-images // batch), *terms),
        "Python reads `epochs * images // batch` as `(epochs * images) // batch`: put `images // batch` into "
        "brackets": _rate(step, per_epoch, *terms, left=per_epoch * epochs - epochs * images // batch),
        "Warm-up begins at the base rate, not at 0": _rate(step, per_epoch, 0, *terms[1:]),
        "In the warm-up the rate climbs with every step, not with every epoch": _rate(
            stairs, per_epoch, *terms
        ),
        "The cosine begins when the warm-up is over, not at step 0": _rate(step, per_epoch, *terms, 0),
        "Before the last step one step is left, so f is not yet 1 there": _rate(
            step, per_epoch, *terms, left=1
        ),
    }


def _rate(step, per_epoch, base, peak, warm, epochs, since=None, left=0) -> float:
    """since: the step at which the cosine begins. left: steps before the end at which it is 0."""
    first = warm * per_epoch
    if step < first:
        return base + (peak - base) * step / first
    since = first if since is None else since
    return peak * (1 + np.cos(np.pi * (step - since) / (epochs * per_epoch - left - since))) / 2


# What a check asks of a large batch's step on several ranks. Names as in large_batch.


RATE = 0.1
LIKE = "A buffer is to be like the gradient: np.empty_like(mine)"


def expect_parallel(step: Callable, updates: dict, p: int) -> None:
    """Fail unless step(comm, weights, images, labels, update, state, rate) is one process's, on p ranks."""
    for name, update in updates.items():
        done = virtual.Cluster(nodes=p).run(_three_steps, step, update)
        _look_at_ranks(done.results, update, f"{name} on {p} rank{'s' * (p > 1)}")


def try_parallel(comm, step: Callable, updates: dict) -> None:
    """The same on real ranks."""
    for name, update in updates.items():
        results = comm.allgather(_three_steps(comm, step, update))
        _look_at_ranks(results, update, f"{name} on {comm.size} real ranks")


def _problem(p: int):
    """Weights (float64: sums in any order are alike), images and labels of three batches.

    A batch has about 24 images, as many for each of the p ranks.
    """
    from support.lab34 import training

    images, labels, *_ = training.digits()
    weights = [one.astype(np.float64) for one in training.start_weights(5)]
    size = p * max(1, 24 // p)
    parts = [slice(k * size, (k + 1) * size) for k in range(3)]
    return nets.gradient, weights, [(images[part], labels[part]) for part in parts]


def _three_steps(comm, step, update) -> tuple[list, list, list]:
    """(the weights after each step, the gradients that update got, the calls of MPI) on this rank."""
    from support.lab34 import training

    (_, weights, batches), after, seen, tally = _problem(comm.size), [], [], CallLog(comm)
    state = training.fresh_state(weights)
    _one_step_float32(comm, step, *batches[0])

    def spy(weights, gradients, state, rate):
        right = len(gradients) == len(weights)
        lists = f"{len(weights)} arrays, like the weights; these are {len(gradients)}"
        expect(right, f"update takes a list of {lists}. Join before the Allreduce, cut after it.")
        wants = f"The rate is {RATE}, and update got {rate:.4g}"
        expect(rate == RATE, f"{wants}: the schedule has scaled it for the whole batch already.")
        seen.append([np.array(one) for one in gradients])
        update(weights, gradients, state, rate)

    for state.t, (images, labels) in enumerate(batches, start=1):
        mine = slice(comm.rank, None, comm.size)
        step(tally, weights, images[mine], labels[mine], spy, state, RATE)
        after.append([one.copy() for one in weights])
    return after, seen, tally.calls


def _one_step_float32(comm, step, images, labels) -> None:
    """A step with float32 weights, as in the lab's trainings: MPI refuses a buffer of another dtype."""
    from support.lab34 import training

    weights = training.start_weights(5)
    state, mine = training.fresh_state(weights), slice(comm.rank, None, comm.size)
    state.t = 1

    step(comm, weights, images[mine].astype(np.float32), labels[mine], lambda *_, **__: None, state, RATE)


def _look_at_ranks(results, update, who: str) -> None:
    """results: of `_three_steps`, by rank."""
    from support.lab34 import training

    p, (gradient, weights, batches) = len(results), _problem(len(results))
    state, start = training.fresh_state(weights), [one.copy() for one in weights]
    for state.t, (images, labels) in enumerate(batches, start=1):
        mean = gradient(weights, images, labels)
        own = [gradient(weights, images[r::p], labels[r::p]) for r in range(p)]
        update(weights, mean, state, RATE)
        for rank, (after, seen, _) in enumerate(results):
            at = f"{who}, step {state.t}, rank {rank}"
            words = (
                f"{at}: {len(seen)} calls of update in {len(batches)} steps. Every rank calls it once a step"
            )
            expect(len(seen) == len(batches), f"{words}.")
            got = seen[state.t - 1]
            expect.equal(len(got), len(mean), f"{at}: arrays given to update")
            for one, other in zip(got, mean, strict=True):
                words = f"{at}: update got {one.dtype}, but the gradients are {other.dtype} here"
                expect(one.dtype.itemsize >= other.dtype.itemsize, f"{words}. {LIKE}.")
            if p > 1:
                early = "an update needs the norm of the mean, so average first"
                expect(not _like(got, own[rank]), f"{at}: update got this rank's own gradient; {early}.")
                summed = [p * one for one in mean]
                hidden = "LARS hides that in matrices, not in biases"
                expect(
                    not _like(got, summed),
                    f"{at}: update got the sum over the ranks, not the mean; {hidden}.",
                )
                unused = [one / p for one in own[rank]]
                words = f"{at}: update got this rank's own gradient / {p}: use what Allreduce receives"
                expect(not _like(got, unused), f"{words}.")
            again = "the gradient is a mean over the images already: divide the sum by the ranks alone"
            many = len(images) // p
            for wrong in {1 / many, p / many} - {1.0}:
                expect(not _like(got, [wrong * one for one in mean]), f"{at}: {again}.")
            expect.close(got, mean, f"{at}: the gradient given to update", 1e-6, 1e-10)
            still = all(map(np.array_equal, after[state.t - 1], start))
            expect(
                not still, f"{at}: the weights are what they were. Give update those of the caller, no copy."
            )
            words = "The gradients given to update were right. Is `state` the caller's own"
            expect(_like(after[state.t - 1], weights), f"{at}: the weights are not one process's. {words}?")

    for _, _, calls in results:
        most = len(batches) * (p > 1) or len(calls)
        words = f"{who}: {len(calls)} calls of MPI in {len(batches)} steps: {', '.join(dict.fromkeys(calls))}"
        expect(len(calls) <= most, f"{words}. One Allreduce a step is enough: join the gradients.")


def _like(got, want) -> bool:
    return all(
        np.shape(a) == b.shape and np.allclose(a, b, 1e-6, 1e-10) for a, b in zip(got, want, strict=True)
    )
