"""LARS and LAMB by their formulas, and the mistakes that one makes with them.

Each optimizer is a class whose methods are the parts of its step; a mistake is the same class with one part
replaced. Called, it moves the weights in place: optimizer(weights, gradients, state, rate, **options).
"""

from __future__ import annotations

import numpy as np

norm = np.linalg.norm


class Lars:
    """You, Gitman and Ginsburg 2017, "Large Batch Training of Convolutional Networks"."""

    def __call__(self, weights, gradients, state, rate, trust, decay, momentum):
        for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
            step = self.direction(w, g, decay)
            if self.has_rate(w):
                size, slope = self.norms(w, g, weights, gradients)
                if size and slope:
                    step = trust * size / self.divisor(w, g, size, slope, decay) * step
            state.m[i] = self.move(w, state.m[i], step, rate, momentum)

    def direction(self, w, g, decay):
        return g + decay * w if w.ndim > 1 else g

    def has_rate(self, w) -> bool:
        return w.ndim > 1

    def norms(self, w, g, weights, gradients):
        return norm(w), norm(g)

    def divisor(self, w, g, size, slope, decay):
        return slope + decay * size

    def move(self, w, m, step, rate, momentum):
        """Moves w; returns the momentum that is kept."""
        m = momentum * m + rate * step
        w -= m
        return m


class _LarsOfBiases(Lars):
    def direction(self, w, g, decay):
        return g + decay * w

    def has_rate(self, w):
        return True


class _LarsDecayOfBiases(Lars):
    def direction(self, w, g, decay):
        return g + decay * w


class _LarsNormsOfTheNet(Lars):
    def norms(self, w, g, weights, gradients):
        return [np.sqrt(sum(norm(matrix) ** 2 for matrix in arrays[::2])) for arrays in (weights, gradients)]


class _LarsWithoutDecayBelow(Lars):
    def divisor(self, w, g, size, slope, decay):
        return slope


class _LarsNormOfTheSum(Lars):
    def divisor(self, w, g, size, slope, decay):
        return norm(g + decay * w)


class _LarsSpectral(Lars):
    def norms(self, w, g, weights, gradients):
        return norm(w, 2), norm(g, 2)


class _LarsWithoutDecay(Lars):
    def direction(self, w, g, decay):
        return g


class _LarsForgets(Lars):
    def move(self, w, m, step, rate, momentum):
        return 0 * super().move(w, m, step, rate, momentum)


class _LarsRateOutside(Lars):
    def move(self, w, m, step, rate, momentum):
        m = momentum * m + step
        w -= rate * m
        return m


_SPECTRAL = "the norm is the root of all squares' sum, np.linalg.norm(w); a matrix's norm with a 2 is another"
LARS_MISTAKES = {
    "biases are excluded: local rate 1, no decay": _LarsOfBiases(),
    "no decay for biases": _LarsDecayOfBiases(),
    "each layer has its own norms; these are of the whole net": _LarsNormsOfTheNet(),
    "below the fraction stands the gradient's norm plus decay times the weights' norm": (
        _LarsWithoutDecayBelow()
    ),
    "two norms stand below the fraction, ‖g‖ + decay * ‖w‖; this is the norm of g + decay * w": (
        _LarsNormOfTheSum()
    ),
    _SPECTRAL: _LarsSpectral(),
    "the direction is the gradient plus decay times the weights": _LarsWithoutDecay(),
    "keep state.m[i] for the next step": _LarsForgets(),
    "the rate of a step goes into the momentum, not onto all of it": _LarsRateOutside(),
}


class Lamb:
    """You et al. 2019, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes"."""

    def __call__(self, weights, gradients, state, rate, decay, betas=(0.9, 0.999), eps=1e-6):
        for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
            state.m[i] = betas[0] * state.m[i] + (1 - betas[0]) * g
            state.v[i] = betas[1] * state.v[i] + (1 - betas[1]) * g**2
            m = state.m[i] / (1 - betas[0] ** state.t)
            v = state.v[i] / (1 - betas[1] ** state.t)
            w -= rate * self.step(w, g, m / (np.sqrt(v) + eps), decay)

    def step(self, w, g, adam, decay):
        """The step at a rate of 1. adam: Adam's direction, without decay."""
        if w.ndim == 1:
            return adam
        direction = adam + decay * w
        return self.ratio(w, g, direction) * direction

    def ratio(self, w, g, direction):
        size = norm(w)
        length = norm(direction)
        return size / length if size and length else 1.0


class _LambOfBiases(Lamb):
    def step(self, w, g, adam, decay):
        direction = adam + decay * w if w.ndim > 1 else adam
        return self.ratio(w, g, direction) * direction


class _LambGradientsNorm(Lamb):
    def ratio(self, w, g, direction):
        return norm(w) / norm(g)


class _LambUpsideDown(Lamb):
    def ratio(self, w, g, direction):
        return norm(direction) / norm(w)


class _LambDecayTwice(Lamb):
    def step(self, w, g, adam, decay):
        if w.ndim == 1:
            return adam
        direction = adam + 2 * decay * w
        return self.ratio(w, g, direction) * direction


class _LambSpectral(Lamb):
    def ratio(self, w, g, direction):
        return norm(w, 2) / norm(direction, 2)


class _LambWithoutRatio(Lamb):
    def ratio(self, w, g, direction):
        return 1.0


class _LambTrusts(Lamb):
    def ratio(self, w, g, direction):
        return 0.05 * super().ratio(w, g, direction)


LAMB_MISTAKES = {
    "biases are excluded: they move as in `adam`": _LambOfBiases(),
    "the ratio's lower part is the norm of the step, not of the gradient": _LambGradientsNorm(),
    "the ratio is upside down: the weights' norm stands above": _LambUpsideDown(),
    "decay is in `adam_step`'s step already": _LambDecayTwice(),
    _SPECTRAL: _LambSpectral(),
    "this is Adam: the layer's ratio is missing": _LambWithoutRatio(),
    "LAMB has no `trust`": _LambTrusts(),
}
