"""A large net on several ranks: the net with its pictures, one rank alone, and who shares which cores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from labkit import launch, placement
from labkit.errors import LabError

POLL = 1e-3  # seconds between two looks of a rank that sleeps


def network(name: str, side: int, images: int):
    """A net of keras.applications with random weights, which returns logits of 1000 classes, and a batch.

    Returns (net, pictures, labels): pictures (images, side, side, 3) float32 and labels (images,) int64, made
    of random numbers, the same on all ranks. Raises LabError for a name that keras.applications lacks.
    """
    import keras
    import tensorflow as tf

    make = getattr(keras.applications, name, None)
    if not callable(make):
        known = [name for name in dir(keras.applications) if name[0].isupper()]
        raise LabError(f"keras.applications has no net {name!r}. It has {', '.join(known)}.")
    shape = (side, side, 3)
    net = make(weights=None, input_shape=shape, classes=1000, classifier_activation=None)
    pictures = tf.random.stateless_uniform((images, *shape), seed=(0, 0))
    labels = tf.random.stateless_uniform((images,), seed=(0, 1), maxval=1000, dtype=tf.int64)
    return net, pictures, labels


def on_rank_0(comm, call: Callable[[], object]) -> Callable[[], None]:
    """A call for all ranks in which rank 0 makes `call` and the others sleep until it is over.

    A barrier of MPI would not do: who waits in it asks again and again, and takes a core from rank 0.
    """

    def on_rank_0_alone() -> None:
        if comm.rank == 0:
            call()
        over = comm.Ibarrier()
        while not over.Test():
            time.sleep(POLL)

    return on_rank_0_alone


class Place(NamedTuple):
    """Where a run takes place. units: cores, or GPUs (kind), that all ranks together may use. crowd: ranks
    that share one of them where it is worst; 1.0: none shares."""

    nodes: int
    ranks: int
    kind: str
    units: int
    crowd: float


def facts(comm, net, pictures, gpus: int) -> dict[str, object]:
    """What a record of a run says beside its times, the same on every rank. gpus: how many this node has.

    Keys: side [pixels] and images of this rank's pictures, gradient_bytes of a step, place (a Place), and
    device, staged and library: where tensors are, and what carries them.
    """
    import horovod.tensorflow as hvd

    images, side = pictures.shape[:2]
    gradient_bytes = sum(weights.numpy().nbytes for weights in net.trainable_variables)
    where = placement.of_horovod(hvd).fields()
    return {
        "side": side,
        "images": images,
        "gradient_bytes": gradient_bytes,
        "place": place(comm, gpus),
        **where,
    }


def place(comm, gpus: int) -> Place:
    """Of this run: on GPUs the ranks of a node share them, else those with the same mask its cores."""
    places = comm.allgather((*launch.my_cores(), gpus))
    hosts = [host for host, _, _ in places]
    nodes = len(set(hosts))
    if gpus:
        units = {(host, number) for host, _, count in places for number in range(count)}
        crowd = max(hosts.count(host) / max(1, count) for host, _, count in places)
        return Place(nodes, comm.size, "GPUs", len(units), max(1.0, crowd))
    units = {(host, core) for host, mask, _ in places for core in mask}
    crowd = max(places.count(place) / max(1, len(place[1])) for place in places)
    return Place(nodes, comm.size, "cores", len(units), max(1.0, crowd))
