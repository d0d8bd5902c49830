"""The checks of lab 41, what they try on ranks, and ResNet-50 on ranks.

To import this imports TensorFlow: after lab.start, which turns off its start-up messages.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import keras
import numpy as np
import tensorflow as tf
from labkit import check, data, expect, launch, nets, placement, plots, timing

POLL = 1e-3  # seconds between two looks of a rank that sleeps


@check.exercise("41.1")
def check_begin(begin, my_part, few, images_per_rank, patience):
    """A GPU by local rank, which grows; and of each global batch, all elements once."""

    # Nodes of 2 and 3 GPUs, then images on nodes of one rank each.
    def try_begin():
        begin([])
        expect(
            hvd.is_initialized(),
            "Horovod was not started: hvd.init() comes before anything else of hvd.",
        )
        begin(tf.config.list_physical_devices("GPU"))  # before the first tensor
        for local_rank, count in ((1 - hvd.rank() % 2, 2), (2 + hvd.rank() % 2, 2), (2, 3)):
            with on_a_node(local_rank, local_size=4):
                devices = Devices(begin, count)
            gpu = f"GPU {local_rank % count}"
            subject = (
                f"{count} GPUs, rank {hvd.rank()}, number {local_rank} on its node: the GPU made"
                " visible"
            )
            expect(
                devices.visible,
                "begin chose no GPU: TensorFlow on this rank will take all of them.",
            )
            because = "GPUs are counted on each node, as its ranks are"
            expect.equal(devices.visible, [gpu], subject, because=because)
            expect(
                gpu in devices.growing,
                f"The memory of {gpu} does not grow: its first rank takes all of it.",
            )
        with on_a_node(local_rank=0, local_size=1):  # each rank on a node of its own
            part = my_part(tf.data.Dataset.range(2 * images_per_rank * hvd.size()))
        expect(
            isinstance(part, tf.data.Dataset),
            f"my_part returned a {type(part).__name__}, not a tf.data.Dataset: return the dataset"
            " of this rank's batches.",
        )
        batches = [batch.numpy().tolist() for batch in islice(part, 3)]  # there should be two
        grouped = all(isinstance(batch, list) for batch in batches)
        expect(grouped, "my_part holds single elements: put them into batches of images_per_rank.")
        return batches

    parts = launch.run(try_begin, ranks=few, timeout=patience)
    expect(all(parts), "my_part leaves a rank without images.")
    first = sorted(image for part in parts for image in part[0])
    taken = f"the ranks' first batches take {len(set(first))} of the elements up to {max(first)}"
    expect(len(set(first)) == len(first), f"Some ranks take the same samples: {taken}.")
    whole = f"{taken}, and not the first {len(first)}, as one process does"
    expect(
        max(first) < len(first),
        f"Another global batch: {whole}. Every rank takes each n-th element.",
    )
    sizes = [[len(batch) for batch in part] for part in parts]
    expect.equal(
        sizes, [[images_per_rank] * 2] * few, "images in each batch, by rank, of 2 global batches"
    )
    by_turns = [[rank + few * place for place in range(images_per_rank)] for rank in range(few)]
    because = "First shard, which takes every n-th element, and then batch"
    expect.equal([part[0] for part in parts], by_turns, "first batch, by rank", because=because)


@check.exercise("41.2")
def check_begin_equal(begin_equal, begin, few, patience):
    """All variables of rank 0 on all ranks: weights, momentum, steps and rate; in as many
    broadcasts on each."""

    # Rank 0 has momentum; the others have another net, none, and another rate.
    def try_begin_equal():
        begin(tf.config.list_physical_devices("GPU"))
        digits_net = nets.keras_digits()
        # It has variables that are not trained.
        net = keras.Sequential([*digits_net.layers, keras.layers.BatchNormalization()])
        net.build((None, 64))
        for variable in net.variables:
            variable.assign(variable + hvd.rank())
        optimizer = keras.optimizers.SGD(1.0 + hvd.rank(), momentum=0.9)
        new = keras.optimizers.SGD(1.0, momentum=0.9)
        if hvd.rank() == 0:
            ones = [tf.ones(variable.shape) for variable in net.trainable_variables]
            optimizer.apply(ones, net.trainable_variables)
        before = state(net, optimizer)
        # First only count who would send what.
        for where, tried in (("", optimizer), (", with a new optimizer on every rank", new)):
            sent = plans(begin_equal, net, tried)
            agree = all(plan == sent[0] for plan in sent)
            text = f"Variables in each broadcast{where}: {as_text(sent)}"
            expect(agree, f"Ranks would wait for ever. {text}.")
        begin_equal(net, optimizer)
        optimizer.build(net.trainable_variables)
        return before, state(net, optimizer)

    by_rank = launch.run(try_begin_equal, ranks=few, timeout=patience)
    wanted = by_rank[0][0]
    for rank, (_, after) in enumerate(by_rank):
        for (name, want), (_, is_now) in zip(wanted, after, strict=True):
            same = np.array_equal(want, is_now)
            expect(same, f"rank {rank}: {name} is not what it was on rank 0 before.")


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
        seen = StepsSeen()
        # Two epochs of one step: without these settings there would be one of two, or four steps.
        settings = {"epochs": 2, "steps_per_epoch": 1, "shuffle": False, "verbose": 0}
        history = fit(net, seen, x=part.batch(images_per_rank), **settings)
        is_history = isinstance(history, dict) and "loss" in history
        kind = type(history).__name__
        expect(is_history, f"fit returned a {kind}, not the dict .history of what net.fit returns.")
        expect(
            seen.steps,
            "fit got one more callback, which was never called: `more` belongs into the list.",
        )
        expect(seen.steps == 2, f"Steps of fit: {seen.steps}, not 2. Pass on all of `settings`.")
        return history["loss"]

    def try_fit():
        begin(tf.config.list_physical_devices("GPU"))
        with on_a_node(local_rank=0, local_size=1), eagerly():  # each rank on a node of its own
            expect_as_one_process(try_equal_nets, images_per_rank, rate_per_rank)
        images, labels = (part[hvd.rank() : 1540 : 20] for part in data.load(dataset)[:2])
        net = new_net(seed=hvd.rank())  # once more, from unequal nets
        seen = StepsSeen()
        with eagerly():
            fit(net, seen, x=images, y=labels, verbose=0)
        return net.get_weights()[0], seen.unequal()[0]

    fitted, unequal = zip(*launch.run(try_fit, ranks=few, timeout=patience), strict=True)
    expect(
        np.ptp(fitted, axis=0).max() < 1e-6,
        "Unequal nets stay unequal: which callback sends rank 0's?",
    )
    away = [
        float(np.abs(fitted[0] - nets.start_weights(seed, layers)[0]).sum()) for seed in range(few)
    ]
    expect.equal(away.index(min(away)), 0, "the rank whose net all ranks go on with")
    early = (
        "The nets were equal before the first step. Leave that to BroadcastGlobalVariablesCallback"
        " here."
    )
    expect(unequal[0] == (few > 1), early)


@contextmanager
def on_a_node(local_rank: int, local_size: int) -> Iterator[None]:
    """In this block Horovod says that this rank is number `local_rank` of `local_size` ranks of its
    node.

    On one node the numbers among all ranks and those on the node are the same. A cluster tells them
    apart.
    """
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


@contextmanager
def eagerly() -> Iterator[None]:
    """In this block no graphs are traced, which takes longer than a few steps of a small net."""
    tf.config.run_functions_eagerly(True)
    try:
        with warnings.catch_warnings():  # that a tf.data.Dataset still has graphs
            warnings.filterwarnings("ignore", "Even though the `tf.config", UserWarning)
            yield
    finally:
        tf.config.run_functions_eagerly(False)


class Devices:
    """GPUs that are made up, and what `begin` asks TensorFlow to do with them.

    names: of the GPUs. visible: those that this process is to see, once they are chosen. growing:
    those whose memory is to grow. TensorFlow itself hears nothing of it.
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


def state(net, optimizer) -> list[tuple[str, np.ndarray]]:
    """(name, copy) of all variables of both."""
    own = [(v.path + ", which is not trained," * (not v.trainable), v) for v in net.variables]
    both = own + [(f"the optimizer's {v.path}", v) for v in optimizer.variables]
    return [(name, variable.numpy().copy()) for name, variable in both]


def plans(begin_equal: Callable, net, optimizer) -> list[list[str]]:
    """By rank, how many variables each call of hvd.broadcast_variables would send, and from which
    rank. Nothing is sent."""
    plan: list[str] = []

    def note(variables, root_rank=0, **named) -> None:
        plan.append(f"{len(list(variables))}" + (f" from rank {root_rank}" if root_rank else ""))

    broadcast = hvd.broadcast_variables
    hvd.broadcast_variables = note
    try:
        begin_equal(net, optimizer)
    finally:
        hvd.broadcast_variables = broadcast
    return hvd.allgather_object(plan)


def as_text(plans: Sequence[Sequence[str]]) -> str:
    """Plans of `plans` as people read them: "rank 0: 6, then 8; rank 1: 6, then 2"."""
    ranks_of: dict[tuple, list[int]] = {}
    for rank, plan in enumerate(plans):
        ranks_of.setdefault(tuple(plan), []).append(rank)
    parts = []
    for plan, ranks in ranks_of.items():
        sizes = ", then ".join(plan) or "none"
        parts.append(f"{launch.ranks_text(ranks)}: {sizes}")
    return "; ".join(parts)


def expect_as_one_process(
    train: Callable, images_per_rank: int, rate_per_rank: float, *, equal: bool = True
) -> float:
    """Two steps of plain SGD on all ranks, and of one process with the images of all: the same net.

    train(net, part): trains `net`, the digits' net, on this rank's images, a tf.data.Dataset not
    yet in batches; returns the loss of each step, the mean over all ranks. equal: whether all ranks
    begin with the same weights.

    All ranks call this, and all raise the same CheckFailed. Returns the sum of this rank's first
    weights.
    """
    ranks = hvd.size()
    global_batches = whole_batches((0, 1), images_per_rank * ranks)
    with whole_float32():
        biases, wanted = one_process(global_batches, rate_per_rank * ranks)
        net = nets.keras_digits(nets.start_weights(seed=0 if equal else hvd.rank()))
        reported = train(net, part_of(global_batches, hvd.rank(), ranks))
    weights, losses = zip(*hvd.allgather_object((net.get_weights(), reported)), strict=True)
    moved = any(its_weights[-1].any() for its_weights in weights)  # biases, which begin as zeros
    expect(moved, "The net did not change: apply the gradients to the net that is passed.")
    expect_one_net(weights)
    expect_moved(weights[0][-1], losses[0], biases, wanted, ranks)
    for rank, its_losses in enumerate(losses):
        subject = f"Loss that rank {rank} reports (is it the mean over all ranks?)"
        expect.close(np.mean(its_losses), np.mean(wanted), subject)
    return float(net.get_weights()[0].sum())


def whole_batches(numbers: Sequence[int], size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(images, labels) of each; many ranks ask for more digits than there are, then from the
    beginning."""
    digits = data.digits()
    batches = []
    for number in numbers:
        rows = np.arange(number * size, (number + 1) * size) % len(digits.train_x)
        batches.append((digits.train_x[rows], digits.train_y[rows]))
    return batches


def part_of(global_batches: Sequence[tuple], rank: int, ranks: int):
    """This rank's images of each batch, every ranks-th from its own number on, as a
    tf.data.Dataset."""
    images = np.concatenate([images[rank::ranks] for images, _ in global_batches])
    labels = np.concatenate([labels[rank::ranks] for _, labels in global_batches])
    return tf.data.Dataset.from_tensor_slices((images, labels))


@contextmanager
def whole_float32() -> Iterator[None]:
    """On a GPU too: TF32, which keeps 11 bits, would hide what is compared here."""
    config = tf.config.experimental
    before = config.tensor_float_32_execution_enabled()
    config.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        config.enable_tensor_float_32_execution(before)


def one_process(global_batches: Sequence[tuple], rate: float) -> tuple[np.ndarray, list[float]]:
    """Plain SGD on whole global batches: the last biases afterwards, and the loss of each step."""
    import keras

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


def expect_one_net(weights: Sequence[Sequence[np.ndarray]]) -> None:
    """weights: by rank. Biases begin as zeros on every rank: they part where gradients are not
    averaged."""
    biases = [arrays[-1] for arrays in weights]
    averaged = np.ptp(biases, axis=0).max() < 1e-6
    expect(averaged, "Each rank applied its own gradient: nothing is averaged, and the nets part.")
    first = [arrays[0] for arrays in weights]
    same = np.ptp(first, axis=0).max() < 1e-6
    expect(same, "The ranks train different nets: they have to begin with the variables of rank 0.")


def expect_moved(
    biases: np.ndarray,
    reported: Sequence[float],
    alone: np.ndarray,
    losses: Sequence[float],
    ranks: int,
) -> None:
    """The biases after two steps beside those of one process; why they are elsewhere, as far as
    seen."""
    # The second loss is taken after the first update: if it is right, so was that update.
    right = np.isclose(reported, losses, rtol=1e-4)
    first = f"the loss of the first step is {float(reported[0]):.4f}, not {losses[0]:.4f}"
    expect(
        right[0] or np.allclose(biases, alone, 1e-4, 1e-6),
        f"The net is another one than in one process, and {first}. Is it the mean of"
        " `cross_entropy`, and do all ranks begin with rank 0's variables?",
    )
    far = np.linalg.norm(biases) / np.linalg.norm(alone)
    if far < 1:
        why = f"is the learning rate multiplied by the number of ranks, here {ranks}?"
    elif right[1]:
        why = "the first step is right, the second is not. Plain SGD has no momentum."
    else:
        why = "were gradients summed, not averaged? Is it plain SGD?"
    expect(0.9 < far < 1.1, f"The net moved {far:.1f} times as far as in one process: {why}")
    subject = "The last biases after two steps, beside one process (is each gradient the mean?)"
    expect.close(biases, alone, subject, 1e-4, 1e-6)


class StepsSeen(keras.callbacks.Callback):
    """A callback for fit on all ranks: the loss of each step, and what the net was when it began.

    After fit, on all ranks: `.losses()` of each step, mean over the ranks; `.unequal()`: for each
    step, whether the ranks began it with different nets. `.steps`: how many steps there were, on
    this rank.
    """

    def __init__(self):
        super().__init__()
        self._losses: list[float] = []
        self._sums: list[float] = []  # of the first weights, when each step began
        self._total = 0.0

    @property
    def steps(self) -> int:
        return len(self._losses)

    def on_train_batch_begin(self, batch, logs=None):
        self._sums.append(float(np.sum(self.model.get_weights()[0], dtype=np.float64)))

    def on_train_batch_end(self, batch, logs=None):
        # fit tells the mean over the steps of this epoch so far.
        if batch == 0:
            self._total = 0.0
        total = logs["loss"] * (batch + 1)
        self._losses.append(total - self._total)
        self._total = total

    def losses(self) -> list[float]:
        return np.mean(hvd.allgather_object(self._losses), axis=0).tolist()

    def unequal(self) -> list[bool]:
        return (np.ptp(hvd.allgather_object(self._sums), axis=0) > 1e-6).tolist()


def network(name: str, side: int, images: int):
    """A net of keras.applications with random weights, which returns logits of 1000 classes, and a
    batch.

    Returns (net, pictures, labels): pictures (images, side, side, 3) float32 and labels (images,)
    int64, made of random numbers, the same on all ranks.
    """
    shape = (side, side, 3)
    make = getattr(keras.applications, name)
    net = make(weights=None, input_shape=shape, classes=1000, classifier_activation=None)
    pictures = tf.random.stateless_uniform((images, *shape), seed=(0, 0))
    labels = tf.random.stateless_uniform((images,), seed=(0, 1), maxval=1000, dtype=tf.int64)
    return net, pictures, labels


def on_rank_0(comm, call: Callable[[], object]) -> Callable[[], None]:
    """A call for all ranks in which rank 0 makes `call` and the others sleep until it is over.

    A barrier of MPI would not do: who waits in it asks again and again, and takes a core from
    rank 0.
    """

    def on_rank_0_alone() -> None:
        if comm.rank == 0:
            call()
        over = comm.Ibarrier()
        while not over.Test():
            time.sleep(POLL)

    return on_rank_0_alone


def facts(comm, net, pictures, gpus: int) -> dict[str, object]:
    """What a record of a run says beside its times, the same on every rank. gpus: how many this
    node has.

    images, side [pixels]: of this rank's pictures. gradient_bytes: of a step. crowd: ranks that
    share a core, or a GPU, where it is worst; 1.0: none shares. device, staged and library: where
    tensors are, and what carries them.
    """
    places = comm.allgather((*launch.my_cores(), gpus))
    hosts = [host for host, _, _ in places]
    if gpus:
        shares = [hosts.count(host) / count for host, _, count in places]
    else:
        shares = [places.count(place) / len(place[1]) for place in places]
    return {
        "images": pictures.shape[0],
        "side": pictures.shape[1],
        "gradient_bytes": sum(weights.numpy().nbytes for weights in net.trainable_variables),
        "ranks": comm.size,
        "nodes": len(set(hosts)),
        "crowd": max(1.0, *shares),
        **placement.of_horovod(hvd).fields(),
    }


def draw_rates(times: Mapping[str, object], network: str, images: int, ranks: int, crowd: float):
    """Images per second of one rank alone, of as many as there are that lose nothing, and of all
    without and with the allreduce."""
    alone = images / timing.samples_of(times["alone"])
    rates = {
        "1 rank\nalone": alone,
        f"{ranks} times\n1 rank alone": ranks * alone,
        f"{ranks} ranks\nside by side": images * ranks / timing.samples_of(times["side by side"]),
        f"{ranks} ranks\ntogether": images * ranks / timing.samples_of(times["together"]),
    }
    bars = {name: {"images per second": samples} for name, samples in rates.items()}
    title = f"{network}: what contention and the allreduce cost"
    if crowd > 1:
        title += f"\n({crowd:.3g} of them share a core or a GPU)"
    plots.bars(bars, ylabel="images per second", title=title, name="images per second")
