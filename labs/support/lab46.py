"""Lab 46: its checks, the ways that gradients can go here, its nets, its ranks, and published
runs."""

from __future__ import annotations

import importlib
import math
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from labkit import (
    builds,
    check,
    data,
    doctor,
    expect,
    launch,
    mpis,
    nets,
    placement,
    plots,
    record,
    timing,
    world,
)
from labkit.horovod import timeline


@check.exercise("46.1")
def three_numbers_of_a_report(images_per_second, efficiency, share):
    """Images of all ranks, by the median; any fewest ranks; the median of the pairs' shares."""
    seconds = np.array([0.4, 0.48, 0.6, 8.0, 0.3])  # one step was held up
    in_order = "the median is the value in the middle after sorting"
    slips = {
        "these are the images of one rank": 32 / 0.48,
        "one rank has fewer images than the first: add up": 4 * 32 / 0.48,
        "by the mean, the one step of 8 s decides": 127 / np.mean(seconds),
        "every step was timed after the warm-up, the first one too": 127 / np.median(seconds[1:]),
        in_order: 127 / seconds[2],
    }
    given = seconds.copy()
    got = images_per_second([32, 32, 32, 31], given)
    expect.close(
        got, 127 / 0.48, "images per second, of 32 + 32 + 32 + 31 a step of 0.48 s", slips=slips
    )
    expect.unchanged(seconds, given, "The array of seconds")
    got = images_per_second([20, 20], np.array([0.6, 0.2, 0.4, 0.3]))
    middle = "of an even number of steps the median is the mean of the two in the middle"
    slips = {"divide by the median of the seconds": (40 / 0.4 + 40 / 0.3) / 2}
    what = "images per second, of steps of 0.2 to 0.6 s"
    expect.close(got, 40 / 0.35, what, slips=slips, because=middle)
    vgg = {1: 130.9, 16: 1787.4}  # VGG-16 with NCCL over RDMA, as published: see below
    slips = {"this is the speed-up": {1: 1.0, 16: 1787.4 / 130.9}}
    expect.close(
        efficiency(vgg), {1: 1.0, 16: 0.8534}, f"efficiency of {vgg}", rtol=1e-3, slips=slips
    )
    large = {6: 360.0, 2: 150.0, 3: 135.0}  # a net too large for one GPU, and unlucky with three
    bases = {
        "compared with the rate of the whole smallest job": 150,
        "the base is the job with the fewest ranks, which is not the first in the dict": 360 / 6,
        "the base is the job with the fewest ranks, not the one with the lowest rate": 135 / 3,
        "the base is the rate of the job with the fewest ranks, not the lowest rate": 135 / 2,
    }
    slips = {why: {p: rate / p / base for p, rate in large.items()} for why, base in bases.items()}
    slips["3 // 2 drops the fraction"] = {6: 0.8, 2: 1.0, 3: 0.9}
    want = {6: 0.8, 2: 1.0, 3: 0.6}
    expect.close(efficiency(large), want, f"efficiency of {large}", slips=slips)
    better = {1: 100.0, 2: 210.0}  # it happens: what fits into two caches, and not into one
    expect.close(efficiency(better), {1: 1.0, 2: 1.05}, f"efficiency of {better}")
    given = dict(large)
    efficiency(given)
    expect.unchanged(large, given, "The dict of rates")
    # Communication is a fifth of each step but the first, which something held up. A neighbour
    # makes every other pair three times as long: so the medians of the two columns are of different
    # moments.
    alone = 0.08 * np.where(np.arange(25) % 2 == 0, 1.0, 3.0)
    step = alone / 0.8
    step[0] *= 20
    slips = {
        "the two medians are of different moments: first the pairs": 1
        - np.median(alone) / np.median(step),
        "by the mean, the one step that was held up counts": np.mean(1 - alone / step),
        "this is over the control; the share is over the whole step": 0.25,
    }
    given = step.copy(), alone.copy()
    expect.close(share(*given), 0.2, "share of communication, of 25 pairs", slips=slips)
    expect.unchanged((step, alone), given, "An array of seconds")
    three = share(np.array([1.0, 2.0, 4.0]), np.array([0.9, 0.8, 3.6]))
    slips = {
        "first the share of each pair as it was timed, then the median": 0.2,
        "every pair was timed after the warm-up, the first one too": 0.35,
        in_order: 0.6,
    }
    what = "share of communication, of three pairs with 0.1, 0.6 and 0.1"
    expect.close(three, 0.1, what, slips=slips)
    two = share(np.array([1.0, 1.0]), np.array([0.8, 0.6]))
    expect.close(two, 0.3, "share of communication, of two pairs with 0.2 and 0.4", because=middle)
    longer = share(np.array([0.9]), np.array([1.0]))
    expect.close(longer, -1 / 9, "share where the control took longer: negative, leave it so")


@check.exercise("46.2")
def between_two_bounds(bounds):
    """The longer one of computing and communication, and their sum, on 2, 4, 8 or 16 ranks."""
    for p in (4, 2, 16, 8):
        for alone, calls, wait in ((0.5, 3.5, 2e-3), (0.01, 50, 1e-3)):
            _one_step(bounds, p, alone, calls, wait)
    _one_step(bounds, 4, 0.02, 2, 1e-3, nbytes=4 * 10**6, alpha=1e-5, beta=1e-9)


def _one_step(
    bounds, p: int, alone: float, calls: float, wait: float, nbytes=10**8, alpha=3e-4, beta=2e-10
) -> None:
    messages = calls * 2 * math.log2(p) * alpha
    moving = 2 * (p - 1) / p * nbytes * beta
    communication = calls * wait + messages + moving
    case = f"{p} ranks, {alone} s alone, {nbytes / 1e6:g} MB in {calls} calls"
    got = bounds(alone, calls, nbytes, p, wait, alpha, beta)
    expect(np.shape(got) == (2,), f"{case}: bounds returns two numbers, not {got!r}.")
    slips = {
        "the wait comes with each call": alone + wait + messages + moving,
        "communication counts α once, not for each call": alone
        + calls * wait
        + messages / calls
        + moving,
        "this is the step with all hidden: it comes first": max(alone, communication),
        "the logarithm is to base 2: math.log2": alone
        + communication
        + messages * (math.log(2) - 1),
        "the bytes of all calls together are nbytes": alone + communication + (calls - 1) * moving,
        "calls can be a fraction": alone + int(calls) * (wait + messages / calls) + moving,
        "calls can be a fraction, so do not round them": alone
        + math.ceil(calls) * (wait + messages / calls)
        + moving,
    }
    expect.close(
        got[1], alone + communication, f"{case}: a step with nothing hidden", rtol=1e-4, slips=slips
    )
    longer = "communication" if communication > alone else "computation"
    slips = {f"a step is never shorter than its {longer}": min(alone, communication)}
    expect.close(
        got[0], max(alone, communication), f"{case}: a step with all hidden", rtol=1e-4, slips=slips
    )


# ---------------------------------------- ways that gradients could go here

BESIDE = "mvapich2"  # the MPI that `make mvapich2` puts beside the one of the set-up
BUILDS = {"host MPI": "host", "Gloo": "host", "CUDA-aware MPI": "mpi", "NCCL": "nccl"}  # HOROVOD=…


class Machine(NamedTuple):
    """What decides which libraries can carry gradients.

    builds: Horovod's builds that are there, of "host", "mpi", "nccl". mpi: the family of the MPI
    library, as mpis.identify names it. mpi_takes_gpu_memory: was it built for that? gpus, ranks: on
    each node.
    """

    builds: tuple[str, ...]
    mpi: str
    mpi_takes_gpu_memory: bool
    gpus: int
    ranks: int


class Way(NamedTuple):
    """A library, and the MPI under it, which starts the ranks in every way.

    name: in tables. mpi: a build of MPI, as in launch.run(mpi=…); None is the one that is used
    anyway.
    """

    name: str
    library: str
    mpi: str | None = None


def ways() -> list[Way]:
    """All that this lab would like to run here: host MPI by each MPI that is there, then other
    libraries."""
    own = _own_family()
    every = [Way(f"host, {own}", "host MPI")]
    others = [
        name
        for name in dict.fromkeys([*builds.mpi_builds(), BESIDE])
        if name != builds.current_mpi()
    ]
    if not own.startswith("MVAPICH"):
        every += [Way(f"host, {name.upper()}", "host MPI", name) for name in others]
    return [
        *every,
        Way("CUDA-aware MPI", "CUDA-aware MPI"),
        Way("NCCL", "NCCL"),
        Way("Gloo", "Gloo"),
    ]


def closed(way: Way) -> str:
    """Why this run cannot take the way, whatever the machine has; "" if it can.

    A process holds one MPI library. In a job it is that with which it was started.
    """
    if way.mpi and way.mpi not in builds.mpi_builds():
        return f"not here: `make {way.mpi}` builds it"
    if way.mpi and world.launcher():
        return f"another MPI than this job's: `make submit LAB=46 MPI={way.mpi}` runs it"
    return ""


def machine(way: Way, ranks: int, framework: str) -> Machine:
    """What this machine has, for this way on so many ranks. In a job: what the job was started
    with."""
    in_a_job = world.launcher() is not None
    own_build = builds.current_horovod()
    there = (own_build,) if in_a_job and own_build else tuple(builds.horovod_builds())
    family = way.mpi.upper() if way.mpi else _own_family()
    gpus = _gpus(framework)
    asked = in_a_job or gpus > 0  # in a job by all ranks, of which some may see no GPU
    takes = asked and launch.run(_takes_gpu_memory, ranks=launch.ranks_here(1), echo=False)[0]
    return Machine(there, family, takes, gpus, world.local_size() if in_a_job else ranks)


def missing(library: str, machine: Machine) -> str:
    """What is missing so that this library could carry gradients on the machine; "" if nothing
    is."""
    build = BUILDS[library]
    if build != "host" and not machine.gpus:
        return f"no GPU here. On a GPU cluster: `make submit LAB=46 HOROVOD={build}`"
    if build not in machine.builds:
        return f"this run has no build `{build}` of Horovod: `make submit LAB=46 HOROVOD={build}`"
    if library == "CUDA-aware MPI" and not machine.mpi_takes_gpu_memory:
        return "this MPI was built without CUDA; MVAPICH2-GDR would do"
    if library == "NCCL" and machine.ranks > machine.gpus:
        return "NCCL wants a GPU for each rank: start as many ranks on a node as it has GPUs"
    return ""


def variables(library: str, mpi: str) -> dict[str, str]:
    """The variables with which Horovod lets this library carry gradients. mpi: the family of the
    MPI.

    Gloo's: Horovod 0.28.1, horovod/common/utils/env_parser.cc.
    """
    needed = {"HOROVOD_CPU_OPERATIONS": "gloo"} if library == "Gloo" else {}
    flavor = mpi.lower()
    if library != "CUDA-aware MPI":  # no GPU memory comes to the MPI
        flavor = {"mvapich2-gdr": "mvapich2", "mvapich-plus": ""}.get(flavor, flavor)
    return needed | mpis.switches(flavor, {})


def as_asked(library: str, carried: Iterable[str], staged: bool) -> bool:
    """Did the job do what was asked? library: as in the lab's table. carried: "MPI", "GLOO",
    "NCCL".

    That library alone has carried; and what reads GPU memory itself was not staged.
    """
    wanted = {"NCCL": "NCCL", "Gloo": "GLOO"}.get(library, "MPI")
    return set(carried) == {wanted} and not (library in ("NCCL", "CUDA-aware MPI") and staged)


def _own_family() -> str:
    """The MPI that is used here, by what it says of itself; in a job, that of its ranks."""
    if world.launcher():
        mpi = launch.run(_loaded_mpi, ranks=launch.ranks_here(1), echo=False)[0]
    else:
        mpi = doctor.which_mpi()
    return mpi.family or mpi.banner


def _loaded_mpi(comm) -> mpis.Library:
    return mpis.loaded_library()


def _gpus(framework: str) -> int:
    """GPUs of this node for the ranks: those that PyTorch can use; in a job, those that its ranks
    have. 0 where the framework sees none."""
    on_cpu = _device(framework) == "cpu"
    if not world.launcher():
        return 0 if on_cpu else world.gpu_count()
    from mpi4py import MPI

    # Across ranks: all come here, also those that see no GPU.
    everyone = MPI.COMM_WORLD.allgather("" if on_cpu else placement.own_gpu())
    host = socket.gethostname()
    return len({gpu for gpu in everyone if gpu.split()[:1] == [host]})


def _device(framework: str) -> str:
    """This rank's device, where the framework computes: TensorFlow may see no GPU where PyTorch
    does."""
    return world.device() if framework == "pytorch" else placement.device_of_tensorflow()


def _takes_gpu_memory(comm) -> bool:
    """On a rank, whose communicator says that MPI runs: was it built for GPU memory?"""
    return bool(comm and mpis.takes_gpu_memory())


# ---------------------------------------- the two nets

PIXELS = {"small": 32, "resnet50": 224}
CLASSES = {"small": 10, "resnet50": 1000}


def chosen(net: str, framework: str) -> str:
    """The net that is meant: "auto" is ResNet-50 where there is a GPU, and the small one
    elsewhere."""
    return {"auto": "small" if _device(framework) == "cpu" else "resnet50"}.get(net, net)


def chosen_precision(precision: str, framework: str) -> str:
    """The precision that is meant: "auto" is bf16 on a GPU that has it, and fp32 elsewhere."""
    import torch

    on_gpu = _device(framework) != "cpu"
    # On GPUs before Ampere PyTorch would emulate bf16, which is slower than fp32.
    has_it = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
    return {"auto": "bf16" if has_it else "fp32"}.get(precision, precision)


def in_torch(net: str):
    """The net in PyTorch: (n, 3, pixels, pixels) float32 -> logits (n, classes). Always the same
    weights."""
    import torch
    from labkit import workloads

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {"small": _torch_small, "resnet50": workloads.resnet50}[net]()


def in_keras(net: str):
    """The net in Keras: (n, pixels, pixels, 3) float32 -> logits (n, classes)."""
    import keras

    keras.utils.set_random_seed(0)
    shape = (PIXELS[net], PIXELS[net], 3)
    if net == "resnet50":
        return keras.applications.ResNet50(
            weights=None, input_shape=shape, classes=CLASSES[net], classifier_activation=None
        )
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(256, activation="relu"),
            layers.Dense(CLASSES[net]),
        ]
    )


def _torch_small():
    """Two convolutions and two linear layers: 1,070,794 parameters, 4.3 MB of gradient, most in one
    layer.

    Like VGG-16 it sends much for what it computes.
    """
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 256),
        nn.ReLU(),
        nn.Linear(256, CLASSES["small"]),
    )


# ---------------------------------------- on the ranks

MODULES = {"pytorch": "horovod.torch", "keras": "horovod.tensorflow"}
METRIC = "loss"  # what a step averages beside its gradients, while the timeline is written


class Steps(NamedTuple):
    """A training step whose gradients Horovod averages, the same without, and the bytes of the
    gradients."""

    together: Callable[[], object]
    alone: Callable[[], object]
    nbytes: int


class Watched(NamedTuple):
    """Some steps under the timeline: calls of libraries, names of the gradients, and how many
    steps."""

    calls: list[timeline.Collective]
    gradients: frozenset[str]
    steps: int


class Run(NamedTuple):
    """What rank 0 brings home from a run.

    times: "weak" and "strong" -> {"step", "alone"}, in pairs, and of "weak" also "no Horovod".
    nbytes: of the gradients. place: for records: device, staged, library, build of Horovod, MPI.
    """

    times: dict[str, dict[str, timing.Measurement]]
    watched: Watched | None
    nbytes: int
    place: dict[str, str | None]
    nodes: int
    ranks: int


def place(comm, where: placement.Placement) -> tuple[dict[str, str | None], int, int]:
    """(what records say of where this rank's tensors are and of its libraries, nodes, ranks of the
    run)."""
    hosts = set(comm.allgather(socket.gethostname()))
    return {**where.fields(), **builds.in_use()}, len(hosts), comm.size


@contextmanager
def started(comm, framework: str) -> Iterator[placement.Placement]:
    """Horovod on the ranks of comm, each with its own GPU if there are any; yields where its
    tensors will be.

    It is ended with the block, so that this process may start it again.
    """
    hvd = horovod(framework)
    hvd.init()
    try:
        where = placement.of_horovod(hvd)
        if framework == "keras" and where.device != "cpu":
            import tensorflow as tf

            gpus = tf.config.list_physical_devices("GPU")
            own = gpus[hvd.local_rank() % len(gpus)]
            tf.config.set_visible_devices(own, "GPU")
            # Or one rank takes all of a shared GPU.
            tf.config.experimental.set_memory_growth(own, True)
        yield where
    finally:
        hvd.shutdown()


def horovod(framework: str):
    """Horovod for this framework, "pytorch" or "keras"."""
    return importlib.import_module(MODULES[framework])


def images_of(kind: str, images: int, rank: int, ranks: int) -> int:
    """Images of this rank in a step. kind "weak": `images` each; "strong": its part of `images`."""
    return images if kind == "weak" else len(data.shard(range(images), rank, ranks))


def made_up_images(framework: str, net: str, count: int, device: str) -> tuple:
    """Random pictures and labels for the net, in this framework's order, on the device."""
    pixels = PIXELS[net]
    classes = CLASSES[net]
    if framework == "pytorch":
        import torch

        pictures = torch.rand(count, 3, pixels, pixels, device=device)
        return pictures, torch.randint(classes, (count,), device=device)
    import tensorflow as tf

    labels = tf.random.uniform((count,), maxval=classes, dtype=tf.int32)
    return tf.random.uniform((count, pixels, pixels, 3)), labels


def watch(comm, framework: str, make: Callable, steps: int, file: Path) -> Watched | None:
    """Start Horovod once more, and have it write a timeline of `steps` training steps. None but on
    rank 0.

    make(where) returns Steps. Behind each step, a number on the host is averaged, as training
    scripts average their loss. Apart from the timed steps, since the thread that writes a timeline
    never rests.
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


def parts(times: Mapping[str, timing.Measurement]) -> dict[str, np.ndarray]:
    """The parts of a step for plots.bars, in ms: computing, and what Horovod's thread and
    communication add.

    times: of "step" and "alone", in pairs, and of "no Horovod". A part that came out below 0 is
    nothing.
    """
    step = 1e3 * times["step"].samples
    alone = 1e3 * times["alone"].samples
    bare = 1e3 * times["no Horovod"].samples
    return {
        "computing": bare,
        "Horovod's thread": np.maximum(0.0, alone - np.median(bare)),
        "communication": np.maximum(0.0, step - alone),
    }


def keep(name: str, kind: str, run: Run, proof: Mapping[str, object], images: int, **fields):
    """A record of a run. kind: "weak" or "strong". proof: its line in the table. images: those of
    the lab's parameter."""
    record.add(
        f"{kind} {name}",
        seconds=run.times[kind]["step"],
        alone=run.times[kind]["alone"],
        images=images * run.ranks if kind == "weak" else images,
        nodes=run.nodes,
        ranks=run.ranks,
        way=name,
        carried_by=proof["allreduce by"],
        calls_a_step=proof["calls a step"],
        gradient_bytes=run.nbytes,
        **fields,
        **run.place,
    )


# ---------------------------------------- published


class Published(NamedTuple):
    """A line of a published table.

    carrier: of the gradients. images: per second, of all GPUs; one_gpu: of a single one. gbit: of a
    server's link, in 10^9 bits/s.
    """

    carrier: str
    net: str
    gpus: int
    gbit: float
    images: float
    one_gpu: float
    batch: int = 64  # images of each GPU in a step

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self.batch * self.gpus / self.images

    @property
    def alone(self) -> float:
        """Seconds of a step of a single GPU."""
        return self.batch / self.one_gpu

    @property
    def nbytes(self) -> int:
        """Bytes of the gradients, in float32."""
        return 4 * int(nets.layer_table(self.net)["parameters"].sum())

    @property
    def beta(self) -> float:
        """Seconds that a byte takes on the link."""
        return 8 / (self.gbit * 1e9)

    def __str__(self) -> str:
        names = {"vgg16": "VGG-16", "resnet101": "ResNet-101", "inception_v3": "Inception V3"}
        return f"{names[self.net]}, {self.gpus} GPUs, {self.carrier}"


SOURCE = "Horovod's README of September 2017 (github.com/horovod/horovod, blob/d54e3a88/README.md)"
# Servers with 4 Pascal GPUs each; synthetic images, 64 for each GPU. "host": "allreduce on CPU", by
# MPI.
_GPUS = 16
_GBIT = 25
_ONE_GPU = {"inception_v3": 134.4, "resnet101": 119.4, "vgg16": 130.9}
_TABLE = {
    "host over TCP": {"inception_v3": 2073.3, "resnet101": 1338.3, "vgg16": 616.8},
    "host over RDMA": {"inception_v3": 2073.1, "resnet101": 1446.3, "vgg16": 618.0},
    "NCCL over TCP": {"inception_v3": 1990.7, "resnet101": 1685.1, "vgg16": 1308.7},
    "NCCL over RDMA": {"inception_v3": 2022.6, "resnet101": 1746.2, "vgg16": 1787.4},
}


def published(net: str | None = None) -> list[Published]:
    """The lines of the table in SOURCE that were measured with Horovod; of one net, or of all."""
    lines = [
        Published(carrier, name, _GPUS, _GBIT, row[name], one_gpu)
        for name, one_gpu in _ONE_GPU.items()
        for carrier, row in _TABLE.items()
    ]
    return [line for line in lines if net in (None, line.net)]


@plots.styled
def draw_bounds(rows: Mapping[str, tuple[float, float, float]], title: str):
    """For each name, of (all hidden, nothing hidden, measured), a bar between the two and a
    mark."""
    figure, axes = plots.one_axes(
        title, "step, in times a step without communication", "", height=1.6 + 0.42 * len(rows)
    )
    figure.set_figwidth(9.5)
    hidden, added, measured = np.array(list(rows.values())).T
    places = np.arange(len(rows))
    label = "between all hidden and nothing hidden"
    axes.barh(places, added - hidden, 0.5, left=hidden, color=plots.COLORS[3], label=label)
    axes.plot(measured, places, linestyle="", marker="D", color=plots.INK, label="measured")
    axes.axvline(1, color=plots.FAINT, linewidth=1.5, zorder=1.5)  # below the marks
    axes.set_yticks(places, list(rows))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(left=0)
    figure.legend(loc="outside lower center", ncols=2)
    return plots.done(figure, title)
