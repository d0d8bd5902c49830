"""What the checks of LARS and LAMB try: weights, the gradients of some steps, options, and right weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from labkit.checks import expect

from support.lab34.optimizers import LAMB_MISTAKES, LARS_MISTAKES, Lamb, Lars
from support.lab34.training import fresh_state

RATES = (0.1, 0.2, 0.05, 0.1)  # of the steps: they change, as in a schedule
_SHAPES = ((6, 4), (4,), (4, 5), (5,), (5, 3), (3,))
_SCALES = (1, 0.5, 0.1, 0.1, 3, 1)  # of the weights of each layer


@dataclass
class Steps:
    """Some steps of an optimizer. what: which, in words. steps: the gradients of each step.

    right, mistakes: the optimizer as it should be, and sentence -> as it should not. because: why, if the
    answer is wrong.
    """

    what: str
    weights: list[np.ndarray]
    steps: list[list[np.ndarray]]
    options: Mapping
    right: Callable
    mistakes: Mapping[str, Callable] = field(default_factory=dict)
    because: str = ""

    def walk(self, update: Callable) -> list[list[np.ndarray]]:
        """The weights after each step of `update`, from copies. Fails if `update` changes the gradients."""
        weights = [array.copy() for array in self.weights]
        arrays = list(weights)  # the caller's own, whatever `update` puts into the list
        state = fresh_state(weights)
        after = []
        with np.errstate(all="ignore"):  # what is not finite is seen in what comes out
            for state.t, (gradients, rate) in enumerate(zip(self.steps, RATES, strict=False), start=1):
                given = [array.copy() for array in gradients]
                update(weights, given, state, rate, **self.options)
                expect.unchanged(gradients, given, "The list of gradients")
                after.append([array.copy() for array in arrays])
        return after

    @cached_property
    def want(self) -> list[list[np.ndarray]]:
        """The right weights after each step."""
        return self.walk(self.right)

    @cached_property
    def _wrong(self) -> dict[str, list]:
        return {sentence: self.walk(mistake) for sentence, mistake in self.mistakes.items()}

    def slips(self, step: int) -> dict[str, list[np.ndarray]]:
        """What is wrong -> the weights after this step (0, 1, …) that it makes."""
        unmoved = {"change the caller's arrays in place, `w -= …`": self.weights} if self.mistakes else {}
        return unmoved | {sentence: after[step] for sentence, after in self._wrong.items()}


def _layers(seed: int) -> tuple[list, list]:
    """Weights and, for each of four steps, gradients: layers of sizes and scales that differ; float64."""
    rng = np.random.default_rng(seed)
    weights = [scale * rng.standard_normal(shape) for shape, scale in zip(_SHAPES, _SCALES, strict=True)]
    steps = [[10.0 ** rng.integers(-3, 2) * rng.standard_normal(shape) for shape in _SHAPES] for _ in RATES]
    return weights, steps


def _zeros(weights, steps, options, right, because: str) -> list[Steps]:
    """The same with all weights 0, and with all gradients 0."""
    named = ", ".join(f"{name} {value}" for name, value in options.items())
    no_weights = [0 * array for array in weights]
    no_steps = [[0 * array for array in step] for step in steps[:2]]
    return [
        Steps(f"All weights 0, {named}", no_weights, steps[:2], options, right, because=because),
        Steps(f"All gradients 0, {named}", weights, no_steps, options, right, because=because),
    ]


def lars_steps() -> list[Steps]:
    """Four steps with and without decay and momentum; steps in which norms are 0."""
    weights, steps = _layers(1)
    cases = []
    for trust, decay, momentum in ((0.02, 0.0, 0.0), (0.02, 0.0, 0.9), (0.05, 0.1, 0.9), (0.001, 0.01, 0.5)):
        options = {"trust": trust, "decay": decay, "momentum": momentum}
        what = f"trust {trust}, decay {decay}, momentum {momentum}"
        cases.append(Steps(what, weights, steps, options, Lars(), LARS_MISTAKES))
    for decay in (0.0, 0.1):
        options = {"trust": 0.02, "decay": decay, "momentum": 0.9}
        cases += _zeros(weights, steps, options, Lars(), "where a norm is 0, the local rate is 1")
    return cases


def lamb_steps() -> list[Steps]:
    """Four steps with and without decay; steps in which norms are 0."""
    weights, steps = _layers(2)
    cases = [
        Steps(f"decay {decay}", weights, steps, {"decay": decay}, Lamb(), LAMB_MISTAKES)
        for decay in (0.0, 0.1, 0.01)
    ]
    return cases + _zeros(weights, steps, {"decay": 0.0}, Lamb(), "where a norm is 0, the ratio is 1")


def distances(lars: Callable, factor: float) -> list[float]:
    """How far a step of LARS moves each matrix, with gradients `factor` times as large and no decay."""
    weights, steps = _layers(1)
    gradients = [factor * array for array in steps[0]]
    options = {"trust": 0.02, "decay": 0.0, "momentum": 0.9}
    after = Steps("one step", weights, [gradients], options, Lars()).walk(lars)[0]
    return [float(np.linalg.norm(now - before)) for now, before in zip(after[::2], weights[::2], strict=True)]
