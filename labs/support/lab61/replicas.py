"""The learner's step on several devices of this one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from labkit.errors import LabError

from support.lab61 import nets

RATE = 0.5  # SGD's learning rate


class Step(NamedTuple):
    """A small net's weights (64, 10) before and after a step, what the step returned, and what is right."""

    before: np.ndarray
    after: np.ndarray
    loss: float
    right_after: np.ndarray
    right_loss: float
    first_loss: float  # of the first replica's images alone


def devices(count: int) -> list[str]:
    """Have TensorFlow take this machine for `count` devices, and leave GPUs alone; their names.

    LabError where it has begun with another number: that cannot be changed later.
    """
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    try:
        tf.config.set_visible_devices([], "GPU")
        tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError:  # TensorFlow has begun: fine if it has begun so
        pass
    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    if len(names) != count:
        raise LabError(f"TensorFlow runs on {len(names)} devices already. Restart the kernel.")
    return names


def try_step(train_step: Callable, replicas: int) -> Step:
    """train_step(strategy, net, optimizer, pictures, labels) once, on so many devices, inside of tf.function.

    Every replica has other images. What is right comes from one device, all images, and no strategy.
    """
    import keras
    import tensorflow as tf

    # Without collectives: TensorFlow 2.21 ends those of a third device when two were used before.
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{place}" for place in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    batch = nets.global_batches(12 * replicas, 1)[0]
    with strategy.scope():
        keras.utils.set_random_seed(1)
        net = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10, use_bias=False)])
        optimizer = nets.optimizer_for(net, RATE)
    before = net.get_weights()[0]

    def of_replica(which: int):
        def part(context):
            own = nets.part_of(batch, context.replica_id_in_sync_group, replicas)
            return tf.constant(own[which])

        return strategy.experimental_distribute_values_from_function(part)

    @tf.function(autograph=False)
    def step(pictures, labels):
        return train_step(strategy, net, optimizer, pictures, labels)

    returned = step(of_replica(0), of_replica(1))
    after = net.get_weights()[0]
    right_loss, slope = _loss_and_slope(before, *batch)
    first_loss, _ = _loss_and_slope(before, *nets.part_of(batch, 0, replicas))
    loss = returned if returned is None else np.asarray(returned)
    return Step(before, after, loss, before - RATE * slope, right_loss, first_loss)


def _loss_and_slope(weights: np.ndarray, pictures: np.ndarray, labels: np.ndarray) -> tuple:
    """Mean cross-entropy of a linear net and its gradient by the weights, in NumPy."""
    logits = pictures @ weights
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(shares[rows, labels]).mean()
    shares[rows, labels] -= 1
    return float(loss), pictures.T @ shares / len(labels)


def losses_alone(train_step: Callable, net: str, images: int, steps: int, rate: float) -> list[float]:
    """Losses of the same training in this one process, with all `images` of a step at once."""
    import tensorflow as tf

    model = nets.build(net)
    optimizer = nets.optimizer_for(model, rate)
    strategy = tf.distribute.get_strategy()  # the one that is there without any: one replica

    @tf.function(autograph=False)
    def step(pictures, labels):
        return train_step(strategy, model, optimizer, pictures, labels)

    return [
        float(step(tf.constant(pictures), tf.constant(labels)))
        for pictures, labels in nets.global_batches(images, steps)
    ]
