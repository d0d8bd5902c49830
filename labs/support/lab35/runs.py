"""Compressed gradients on virtual ranks: what a net learns, the bytes of messages, their time.

A way is a pair (compress, expand): compress(values) makes a message (uint8) of float32 values, and
expand(message, n) makes n values of it. An average(comm, gradient, error, compress, expand) has error
feedback: it returns the mean over all ranks of what their messages say, and leaves in `error` what this
rank's own did not say (Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014).
half(comm, gradient) returns the mean of float16 values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from labkit import data, nets, virtual
from labkit.collectives import ring_allreduce


def accuracy(average: Callable, way: tuple | None, *, keep: bool = True, **training) -> list[float]:
    """Percent of the digits' test images that are right after training, for each seed.

    way: None for MPI's float32 mean. keep: False throws the error away after each step. training: as
    `nets.accuracy` takes it.
    """

    def plain(comm, gradient, error):
        mean = np.empty_like(gradient)
        comm.Allreduce(gradient, mean)
        return mean / comm.size

    def compressed(comm, gradient, error):
        mean = average(comm, gradient, error, *way)
        error *= keep
        return mean

    return nets.accuracy(compressed if way else plain, **training)


def first_gradient(images: int = 8) -> np.ndarray:
    """The flat gradient of a rank's first step: of so many images, by the weights at the start."""
    pictures, labels, *_ = data.digits()
    return nets.join(nets.gradient(nets.start_weights(), pictures[:images], labels[:images]))


class Kept(NamedTuple):
    """What a message keeps of a gradient. cosine: of the angle between both.

    largest, smaller: shares of the message's sum of squares, where the gradient's largest 1 % of the values
    are, and where its smaller half is; by magnitude.
    """

    cosine: float
    largest: float
    smaller: float


def kept(said: np.ndarray, gradient: np.ndarray) -> Kept:
    """Of what a message says, compared with the gradient that it was made of."""
    order = np.argsort(np.abs(gradient))
    squares = said[order] ** 2 / np.sum(said**2)
    n = len(order)
    cosine = said @ gradient / np.linalg.norm(said) / np.linalg.norm(gradient)
    return Kept(float(cosine), float(squares[n - n // 100 :].sum()), float(squares[: n // 2].sum()))


def ring_and_bits(p: int, n: int) -> tuple[int, int]:
    """Bytes that the busiest of p virtual ranks sends for n values: float32 in a ring; bits to all, n / 8."""

    def bits_to_all(comm, vector):
        own = np.zeros(n // 8, np.uint8)
        comm.Allgather(own, np.empty((p, len(own)), np.uint8))

    ring, bits = (max(_run(p, call, n).sent_bytes) for call in (ring_allreduce, bits_to_all))
    return ring, bits


def bytes_counted(p: int, n: int, half: Callable, average: Callable, ways: Mapping) -> dict[str, int]:
    """Bytes that the busiest of p virtual ranks sends for n values: "float32" (a ring), "float16", `ways`.

    ways: name -> (compress, expand).
    """
    calls = {"float32": ring_allreduce, "float16": half}
    calls |= {name: _with_error(average, way) for name, way in ways.items()}
    return {name: max(_run(p, call, n).sent_bytes) for name, call in calls.items()}


def seconds_over(bandwidth: float, p: int, n: int, average: Callable, way: tuple, work: float) -> tuple:
    """Virtual seconds of float32 in a ring, and of `way` with `work` seconds of packing, over such links.

    bandwidth: bytes/s. n: values on each of p ranks.
    """
    link = virtual.ideal(alpha=0, bandwidth=bandwidth)
    plain = _run(p, ring_allreduce, n, link).time
    return plain, _run(p, _with_error(average, way), n, link, work).time


def traffic(p: int, kind: str, nbytes: float, machine) -> float:
    """Virtual seconds of the messages alone, on p nodes of one rank. nbytes: of each rank's message.

    kind: "ring" (allreduce), "there and back" (chunks to their owners and to all), "allgather".
    """

    def program(comm):
        if kind == "ring":
            ring_allreduce(comm, virtual.vector(np.ones(comm.size), stands_for=nbytes))
        if kind == "there and back":
            chunks = virtual.vector(np.ones(comm.size), stands_for=nbytes)
            comm.Alltoall(chunks, np.empty_like(chunks))
            comm.Allgather(chunks[:1], np.empty_like(chunks))
        if kind == "allgather":
            comm.Allgather(virtual.vector(np.ones(1), stands_for=nbytes), np.empty(comm.size))

    return virtual.Cluster(nodes=p, machine=machine).run(program).time


def _with_error(average: Callable, way: tuple) -> Callable:
    return lambda comm, vector: average(comm, vector, np.zeros_like(vector), *way)


def _run(p: int, call: Callable, n: int, machine=None, work: float = 0.0):
    def program(comm):
        comm.compute(work)
        call(comm, np.ones(n, np.float32))

    return virtual.Cluster(nodes=p, machine=machine).run(program)
