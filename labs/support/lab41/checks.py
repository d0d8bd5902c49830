"""What the check cells of lab 41 try on ranks: a made-up node, broadcasts counted, one process beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import keras
import numpy as np
import tensorflow as tf
from labkit import check, data, expect, launch, nets, timing

from support.lab41.callbacks import steps_seen


@contextmanager
def on_a_node(local_rank: int, local_size: int) -> Iterator[None]:
    """In this block Horovod says that this rank is number `local_rank` of `local_size` ranks of its node.

    On one node the numbers among all ranks and those on the node are the same. A cluster tells them apart.
    """
    import horovod.tensorflow as hvd

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


@check.exercise("41.1")
def check_begin(begin, my_part, few, images_per_rank, patience):
    """A GPU by local rank, which grows; and of each global batch, all elements once."""

    # Nodes of 2 and 3 GPUs, then images on nodes of one rank each.
    def try_begin():
        begin([])
        expect(hvd.is_initialized(), "Horovod was not started: hvd.init() comes before anything else of hvd.")
        begin(tf.config.list_physical_devices("GPU"))  # before the first tensor
        for local_rank, count in ((1 - hvd.rank() % 2, 2), (2 + hvd.rank() % 2, 2), (2, 3)):
            with on_a_node(local_rank, local_size=4):
                devices = Devices(begin, count)
            gpu = f"GPU {local_rank % count}"
            subject = (
                f"{count} GPUs, rank {hvd.rank()}, number {local_rank} on its node: the GPU made visible"
            )
            expect(devices.visible, "begin chose no GPU: TensorFlow on this rank will take all of them.")
            because = "GPUs are counted on each node, as its ranks are"
            expect.equal(devices.visible, [gpu], subject, because=because)
            expect(
                gpu in devices.growing, f"The memory of {gpu} does not grow: its first rank takes all of it."
            )
        with on_a_node(local_rank=0, local_size=1):  # each rank on a node of its own
            part = my_part(tf.data.Dataset.range(2 * images_per_rank * hvd.size()))
        expect(part is not None, "my_part returned nothing: return the dataset of this rank's batches.")
        return [batch.numpy().tolist() for batch in part]

    parts = launch.run(try_begin, ranks=few, timeout=patience)
    first = sorted(image for part in parts for image in part[0])
    taken = f"the ranks' first batches take {len(set(first))} of the elements up to {max(first)}"
    expect(len(set(first)) == len(first), f"Some ranks take the same samples: {taken}.")
    whole = f"{taken}, and not the first {len(first)}, as one process does"
    expect(max(first) < len(first), f"Another global batch: {whole}. Every rank takes each n-th element.")
    sizes = [[len(batch) for batch in part] for part in parts]
    expect.equal(sizes, [[images_per_rank] * 2] * few, "images in each batch, by rank, of 2 global batches")
    by_turns = [[rank + few * place for place in range(images_per_rank)] for rank in range(few)]
    because = "Elements are dealt out first, as cards are, and then put into batches"
    expect.equal([part[0] for part in parts], by_turns, "first batch, by rank", because=because)


@check.exercise("41.2")
def check_begin_equal(begin_equal, begin, few, patience):
    """Weights, momentum and learning rate of rank 0 on all ranks, in as many broadcasts on each."""

    # Rank 0 has momentum; the others have another net and rate.
    def try_begin_equal():
        begin(tf.config.list_physical_devices("GPU"))
        digits_net = nets.keras_digits(nets.start_weights(seed=hvd.rank()))
        net = keras.Sequential([*digits_net.layers, keras.layers.BatchNormalization()])
        net.build((None, 64))
        net.layers[-1].moving_mean.assign(tf.fill(10, float(hvd.rank())))  # a variable that is not trained
        optimizer = keras.optimizers.SGD(1.0 + hvd.rank(), momentum=0.9)
        if hvd.rank() == 0:
            ones = [tf.ones(variable.shape) for variable in net.trainable_variables]
            optimizer.apply(ones, net.trainable_variables)
        sent = plans(begin_equal, net, optimizer)  # first only count who would send what
        agree = all(plan == sent[0] for plan in sent)
        expect(agree, f"Ranks would wait for ever. Variables in each broadcast: {as_text(sent)}.")
        begin_equal(net, optimizer)
        optimizer.build(net.trainable_variables)
        moving = net.layers[-1].moving_mean.numpy().sum()
        momentum = optimizer.variables[2].numpy().sum()  # of the first weights
        return net.get_weights()[0].sum(), moving, momentum, float(optimizer.learning_rate)

    by_rank = launch.run(try_begin_equal, ranks=few, timeout=patience)
    weights, moving, moments, rates = zip(*by_rank, strict=True)
    before = float(nets.start_weights(seed=0)[0].sum() - nets.start_weights(seed=0)[0].size)
    expect.close(weights, [before] * few, "Sum of the first weights by rank (what rank 0 had)", rtol=1e-4)
    because = "Batch normalisation keeps means that no gradient trains: they are in net.variables"
    expect.close(moving, [0.0] * few, "Sum of the moving means by rank (rank 0 had 0)", because=because)
    size = nets.start_weights(seed=0)[0].size
    expect.close(moments, [-float(size)] * few, "Sum of the momentum by rank, in the optimizer's variables")
    expect.close(rates, [1.0] * few, "Learning rate by rank, in the optimizer's variables (rank 0's is 1)")


@check.exercise("41.3")
def check_by_tape(by_tape, begin, few, images_per_rank, patience, rate_per_rank):
    """After two steps the net of one process that has all images, and its losses."""

    # Two steps from unequal nets, beside one process with all images.
    def try_tape():
        begin(tf.config.list_physical_devices("GPU"))

        def train(net, part):
            return by_tape(net, part.batch(images_per_rank))

        with on_a_node(local_rank=0, local_size=1):  # each rank on a node of its own
            return expect_as_one_process(train, images_per_rank, rate_per_rank, equal=False)

    weights = launch.run(try_tape, ranks=few, timeout=patience)
    expect.close(weights, weights[:1] * few, "Sum of the weights by rank, after two steps")


@check.exercise("41.4")
def check_fit(fit, begin, dataset, few, images_per_rank, layers, new_net, patience, rate_per_rank):
    """Two steps as of one process, with its loss; from unequal nets, all go on with rank 0's."""

    # Nets that begin equal, and nets that do not.
    def try_equal_nets(net, part):
        """Nets that begin equal: fit returns its history and trains as one process."""
        seen = steps_seen()
        history = fit(net, seen, x=part.batch(images_per_rank), shuffle=False, verbose=0)
        is_history = isinstance(history, dict) and "loss" in history
        kind = type(history).__name__
        expect(is_history, f"fit returned a {kind}, not the dict .history of what net.fit returns.")
        expect(seen.steps, "fit got one more callback, which was never called: `more` belongs into the list.")
        return history["loss"]

    def try_fit():
        begin(tf.config.list_physical_devices("GPU"))
        with on_a_node(local_rank=0, local_size=1):  # each rank on a node of its own
            expect_as_one_process(try_equal_nets, images_per_rank, rate_per_rank)
        images, labels = (part[hvd.rank() : 1540 : 20] for part in data.load(dataset)[:2])
        net = new_net(seed=hvd.rank())  # once more, from unequal nets
        seen = steps_seen()
        fit(net, seen, x=images, y=labels, verbose=0)
        return net.get_weights()[0], seen.unequal()[0]

    fitted, unequal = zip(*launch.run(try_fit, ranks=few, timeout=patience), strict=True)
    expect(np.ptp(fitted, axis=0).max() < 1e-6, "Unequal nets stay unequal: which callback sends rank 0's?")
    away = [float(np.abs(fitted[0] - nets.start_weights(seed, layers)[0]).sum()) for seed in range(few)]
    expect.equal(away.index(min(away)), 0, "the rank whose net all ranks go on with")
    early = "The nets were equal before the first step. Leave that to BroadcastGlobalVariablesCallback here."
    expect(unequal[0] == (few > 1), early)


@check.exercise("41.5")
def check_job_rate(job_rate, begin, few, patience):
    """The images/s of all ranks together."""

    # Steps of half a second and of a quarter, on nodes of one rank each.
    def try_job_rate():
        begin(tf.config.list_physical_devices("GPU"))
        with on_a_node(local_rank=0, local_size=1):
            half = job_rate(timing.Measurement(np.full(5, 0.5)), images=10)
            quarter = job_rate(timing.Measurement(np.full(5, 0.25)), images=6)
            return half, quarter

    rates = launch.run(try_job_rate, ranks=few, timeout=patience)
    for place, (each, seconds) in enumerate(((10, 0.5), (6, 0.25))):
        of_one = each / seconds
        slips = {
            "that is what one rank trains, not the job": [of_one] * few,
            "that is seconds for images, not images per second": [each * seconds * few] * few,
        }
        subject = f"Images/s, by rank, of {few} ranks with {each} pictures each in {seconds} s"
        expect.close([both[place] for both in rates], [of_one * few] * few, subject, slips=slips)
