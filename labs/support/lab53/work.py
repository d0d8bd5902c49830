"""What ranks have to do in each step, with one of them at a disadvantage; and the play of it on paper."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

READ = 0.006  # seconds in which a rank reads the images of a step
EACH = 0.001  # seconds in which it computes the gradient of one image
IMAGES = 24  # of a rank in a step
EXCHANGE = 0.008  # seconds in which a rank's bytes leave in a step
NOISE = 0.03  # standard deviation of every part, as a share of it
CAUSES = ("slow disk", "slow core", "imbalance", "slow link", "jitter")


class Span(NamedTuple):
    """kind: "input", "compute", "exchange", and within it "send". begin, end: seconds."""

    rank: int
    kind: str
    begin: float
    end: float


class Work(NamedTuple):
    """images: (ranks,) of a step. read, compute, send: (steps, ranks) seconds; send is of one message."""

    images: np.ndarray
    read: np.ndarray
    compute: np.ndarray
    send: np.ndarray


def work(rng: np.random.Generator, ranks: int, steps: int, rank: int, cause: str, late: float) -> Work:
    """Work of ranks, one of which is behind the others by `late` of their computing, for that cause.

    "jitter": in each step another rank is behind, whatever `rank` says. Two things mislead: one rank reads
    for longer, but has fewer images; and one rank, not the culprit, has one very bad step.
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
    """The spans of each step: every rank reads, computes, and sends round a ring, as soon as it can.

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
    """When each rank's messages leave, and when the ring's sum is there. seconds: of a message, by rank."""
    free = arrived.copy()  # when a rank has sent its last message
    there = arrived.copy()  # when it has what it sends next
    spans = []
    for _ in range(_messages(len(arrived))):
        begin = np.maximum(free, there)
        free = begin + seconds
        spans += [Span(rank, "send", begin[rank], free[rank]) for rank in range(len(arrived))]
        there = np.maximum(np.roll(free, 1), arrived)
    return spans, np.maximum(free, there)
