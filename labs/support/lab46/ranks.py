"""On the ranks: Horovod of either framework, made-up images, and steps under a timeline."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from labkit import builds, data, launch, placement, timing
from labkit.errors import LabError
from labkit.horovod import meet_by_gloo, timeline

from support.lab46 import nets

MODULES = {"pytorch": "horovod.torch", "keras": "horovod.tensorflow"}
METRIC = "loss"  # what a step averages beside its gradients, while the timeline is written


class Steps(NamedTuple):
    """A training step whose gradients Horovod averages, the same without, and the bytes of the gradients."""

    together: Callable[[], object]
    alone: Callable[[], object]
    nbytes: int


class Watched(NamedTuple):
    """Some steps under the timeline: calls of libraries, names of the gradients, and how many steps."""

    calls: list[timeline.Collective]
    gradients: frozenset[str]
    steps: int


class Run(NamedTuple):
    """What rank 0 brings home from a run.

    times: "weak" and "strong" -> {"step", "alone"}, in pairs, and of "weak" also "no Horovod". nbytes: of the
    gradients. place: for records: device, staged, library, build of Horovod, MPI.
    """

    times: dict[str, dict[str, timing.Measurement]]
    watched: Watched | None
    nbytes: int
    place: dict[str, str | None]
    nodes: int
    ranks: int


def place(comm, where: placement.Placement) -> tuple[dict[str, str | None], int, int]:
    """(what records say of where this rank's tensors are and of its libraries, nodes, ranks of the run)."""
    hosts = set(comm.allgather(socket.gethostname()))
    return {**where.fields(), **builds.in_use()}, len(hosts), comm.size


@contextmanager
def started(comm, framework: str) -> Iterator[placement.Placement]:
    """Horovod on the ranks of comm, each with its own GPU if there are any; yields where its tensors will be.

    It is ended with the block, so that this process may start it again.
    """
    hvd = horovod(framework)
    with ExitStack() as stack:
        if os.environ.get("HOROVOD_CONTROLLER") == "gloo":
            stack.enter_context(meet_by_gloo(comm))
        hvd.init()
        stack.callback(hvd.shutdown)
        where = placement.of_horovod(hvd)
        if framework == "keras" and where.device != "cpu":
            import tensorflow as tf

            gpus = tf.config.list_physical_devices("GPU")
            tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
        yield where


def horovod(framework: str):
    """Horovod for this framework, "pytorch" or "keras". LabError for another."""
    if framework not in MODULES:
        raise LabError(f'framework is "pytorch" or "keras", not {framework!r}.')
    return importlib.import_module(MODULES[framework])


def images_of(kind: str, images: int, rank: int, ranks: int) -> int:
    """Images of this rank in a step. kind "weak": `images` each; "strong": its part of `images`."""
    if kind == "weak":
        return images
    if images < ranks:
        raise LabError(f'{images} images are too few for {ranks} ranks: SET="images={2 * ranks}", say.')
    return len(data.shard(range(images), rank, ranks))


def made_up_images(framework: str, net: str, count: int, device: str) -> tuple:
    """Random pictures and labels for the net, in this framework's order, on the device."""
    pixels = nets.PIXELS[net]
    classes = nets.CLASSES[net]
    if framework == "pytorch":
        import torch

        pictures = torch.rand(count, 3, pixels, pixels, device=device)
        return pictures, torch.randint(classes, (count,), device=device)
    import tensorflow as tf

    labels = tf.random.uniform((count,), maxval=classes, dtype=tf.int32)
    return tf.random.uniform((count, pixels, pixels, 3)), labels


def watch(comm, framework: str, make: Callable, steps: int, file: Path) -> Watched | None:
    """Start Horovod once more, and have it write a timeline of `steps` training steps. None but on rank 0.

    make(where) returns Steps. Behind each step, a number on the host is averaged, as training scripts average
    their loss. Apart from the timed steps, since the thread that writes a timeline never rests.
    """
    hvd = horovod(framework)
    with launch.environment({"HOROVOD_TIMELINE": "DYNAMIC"}), started(comm, framework) as where:
        step = make(where).together
        average = _allreduce_on_host(framework)
        step()  # connections, buffers and the cache of names are made before
        comm.Barrier()
        hvd.start_timeline(str(file))
        comm.Barrier()
        for _ in range(steps):
            step()
            average()
        hvd.stop_timeline()  # returns when all is written
    if comm.rank:
        return None
    calls = timeline.collectives(timeline.read(file))
    names = {tensor for call in calls for tensor in call.tensors}
    return Watched(calls, frozenset(name for name in names if METRIC not in name), steps)


def _allreduce_on_host(framework: str) -> Callable[[], object]:
    """An allreduce of one number in host memory."""
    hvd = horovod(framework)
    if framework == "pytorch":
        import torch

        number = torch.zeros(1)
        return lambda: hvd.allreduce(number, name=METRIC)
    import tensorflow as tf

    with tf.device("CPU:0"):
        value = tf.zeros(1)
    return lambda: hvd.allreduce(value, name=METRIC).numpy()
