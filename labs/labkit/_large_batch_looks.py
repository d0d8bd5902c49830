"""What checks ask of LARS and of LAMB. Names as in large_batch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from labkit.expectations import expect


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
