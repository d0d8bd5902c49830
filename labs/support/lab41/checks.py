"""What the check cells of lab 41 try on ranks: a made-up node, broadcasts counted, one process beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from labkit import data, expect, launch, nets


@contextmanager
def on_a_node(local_rank: int, local_size: int) -> Iterator[None]:
    """In this block Horovod says that this rank is number `local_rank` of `local_size` ranks of its node.

    On one node the numbers among all ranks and those on the node are the same. A cluster tells them apart.
    """
    import horovod.tensorflow as hvd
    import horovod.tensorflow.keras as hvd_keras

    modules = (hvd, hvd_keras)
    before = [(module.local_rank, module.local_size) for module in modules]
    for module in modules:
        module.local_rank = lambda: local_rank
        module.local_size = lambda: local_size
    try:
        yield
    finally:
        for module, (rank, size) in zip(modules, before, strict=True):
            module.local_rank = rank
            module.local_size = size


class Devices:
    """GPUs that are made up, and what `begin` asks TensorFlow to do with them.

    names: of the GPUs. visible: those that this process is to see, once they are chosen. growing: those whose
    memory is to grow. TensorFlow itself hears nothing of it.
    """

    def __init__(self, begin: Callable[[list], object], count: int = 2):
        self.names = [f"GPU {number}" for number in range(count)]
        self.visible: list = []
        self.growing: list = []
        with self._noted():
            begin(list(self.names))

    def _see(self, devices, device_type: str | None = None) -> None:
        self.visible = devices if isinstance(devices, list) else [devices]

    def _grow(self, device, enable: bool) -> None:
        if enable:
            self.growing.append(device)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        import tensorflow as tf

        config = tf.config
        experimental = tf.config.experimental  # older programs call the same functions here
        before = config.set_visible_devices, experimental.set_memory_growth
        config.set_visible_devices = self._see
        experimental.set_visible_devices = self._see
        experimental.set_memory_growth = self._grow
        try:
            yield
        finally:
            config.set_visible_devices, experimental.set_memory_growth = before
            experimental.set_visible_devices = before[0]


def plans(begin_equal: Callable, net, optimizer) -> list[list[int]]:
    """By rank, how many variables each call of hvd.broadcast_variables would send. Nothing is sent."""
    import horovod.tensorflow as hvd

    plan: list[int] = []
    broadcast = hvd.broadcast_variables
    hvd.broadcast_variables = lambda variables, *positional, **named: plan.append(len(list(variables)))
    try:
        begin_equal(net, optimizer)
    finally:
        hvd.broadcast_variables = broadcast
    return hvd.allgather_object(plan)


def as_text(plans: Sequence[Sequence[int]]) -> str:
    """Plans of `plans` as people read them: "rank 0: 6, then 8; rank 1: 6, then 2"."""
    ranks_of: dict[tuple, list[int]] = {}
    for rank, plan in enumerate(plans):
        ranks_of.setdefault(tuple(plan), []).append(rank)
    parts = []
    for plan, ranks in ranks_of.items():
        sizes = ", then ".join(map(str, plan)) or "none"
        parts.append(f"{launch.ranks_text(ranks)}: {sizes}")
    return "; ".join(parts)


def expect_as_one_process(
    train: Callable,
    images_per_rank: int,
    rate_per_rank: float,
    *,
    batches: Sequence[int] = (0, 1),
    equal: bool = True,
    reports: bool = True,
) -> float:
    """Two steps of plain SGD on all ranks, and of one process with the images of all: the same net.

    train(net, part): trains `net`, the digits' net, on this rank's images, a tf.data.Dataset not yet in
    batches; returns losses, means over all ranks, of each step or of both.
    batches: numbers of the global batches, in order. equal: whether all ranks begin with the same weights.
    reports: whether the losses are looked at.

    All ranks call this, and all raise the same CheckFailed. Returns the sum of this rank's first weights.
    """
    import horovod.tensorflow as hvd

    ranks = hvd.size()
    global_batches = _global_batches(batches, images_per_rank * ranks)
    with _whole_float32():
        wanted = _one_process(global_batches, rate_per_rank * ranks)
        net = nets.keras_digits(nets.start_weights(seed=0 if equal else hvd.rank()))
        reported = train(net, _part(global_batches, hvd.rank(), ranks))
    weights, losses = zip(*hvd.allgather_object((net.get_weights(), reported)), strict=True)
    _expect_one_net(weights)
    _expect_moved(weights[0][-1], losses[0], *wanted)
    if reports:
        for rank, its_losses in enumerate(losses):
            subject = f"Loss that rank {rank} reports (is it the mean over all ranks?)"
            expect.close(_mean(its_losses), np.mean(wanted[1]), subject)
    return float(net.get_weights()[0].sum())


def _global_batches(numbers: Sequence[int], size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(images, labels) of each; many ranks ask for more digits than there are, then from the beginning."""
    digits = data.digits()
    batches = []
    for number in numbers:
        rows = np.arange(number * size, (number + 1) * size) % len(digits.train_x)
        batches.append((digits.train_x[rows], digits.train_y[rows]))
    return batches


def _part(global_batches: Sequence[tuple], rank: int, ranks: int):
    """This rank's images of each batch, every ranks-th from its own number on, as a tf.data.Dataset."""
    import tensorflow as tf

    images = np.concatenate([images[rank::ranks] for images, _ in global_batches])
    labels = np.concatenate([labels[rank::ranks] for _, labels in global_batches])
    return tf.data.Dataset.from_tensor_slices((images, labels))


@contextmanager
def _whole_float32() -> Iterator[None]:
    """On a GPU too: TF32, which keeps 11 bits, would hide what is compared here."""
    import tensorflow as tf

    config = tf.config.experimental
    before = config.tensor_float_32_execution_enabled()
    config.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        config.enable_tensor_float_32_execution(before)


def _one_process(global_batches: Sequence[tuple], rate: float) -> tuple[np.ndarray, list[float]]:
    """Plain SGD on whole global batches: the last biases afterwards, and the loss of each step."""
    import keras
    import tensorflow as tf

    net = nets.keras_digits()
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = []
    for images, labels in global_batches:
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, net(images, training=True))
        gradients = tape.gradient(loss, net.trainable_variables)
        for variable, gradient in zip(net.trainable_variables, gradients, strict=True):
            variable.assign_sub(rate * gradient)
        losses.append(float(loss))
    return net.get_weights()[-1], losses


def _expect_one_net(weights: Sequence[Sequence[np.ndarray]]) -> None:
    """weights: by rank. Biases begin as zeros on every rank: they part where gradients are not averaged."""
    biases = [arrays[-1] for arrays in weights]
    averaged = np.ptp(biases, axis=0).max() < 1e-6
    expect(averaged, "Each rank applied its own gradient: nothing is averaged, and the nets part.")
    first = [arrays[0] for arrays in weights]
    same = np.ptp(first, axis=0).max() < 1e-6
    expect(same, "The ranks train different nets: they have to begin with the variables of rank 0.")


def _expect_moved(biases: np.ndarray, reported, alone: np.ndarray, losses: Sequence[float]) -> None:
    """The biases after two steps beside those of one process; why they are elsewhere, as far as seen."""
    far = np.linalg.norm(biases) / np.linalg.norm(alone)
    why = "were gradients summed, not averaged?" if far > 1 else "is this the learning rate of one rank?"
    # The second loss is taken after the first update: if it is right, so was that update.
    if far > 1 and reported is not None and np.isclose(_mean(reported), np.mean(losses), rtol=1e-4):
        why = "the first step is right, the second is not. Plain SGD has no momentum."
    expect(0.8 < far < 1.25, f"The net moved {far:.1f} times as far as in one process: {why}")
    expect.close(biases, alone, "The last biases after two steps, beside one process", 1e-4, 1e-6)


def _mean(losses) -> float | None:
    """The mean loss of what `train` returned; None of nothing."""
    return None if losses is None else float(np.mean(losses))


def suspect(losses: Sequence[float], wanted: Sequence[float], rtol: float = 1e-5) -> str:
    """Where losses of all ranks leave those of one process, what to look at first; "" if they agree."""
    off = np.flatnonzero(~np.isclose(losses, wanted, rtol=rtol, atol=0))
    if not len(off):
        return ""
    if off[0] == 0:
        return "the first loss differs already: other images (41.1), another net (41.2), or no mean."
    return f"loss {off[0] + 1} is the first that differs: the update (mean of the gradients, learning rate)."
