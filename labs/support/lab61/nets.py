"""Two small nets: one with VGG-16's shares of parameters, one with a ResNet's; and the digits for them."""

from __future__ import annotations

import numpy as np
from labkit import data
from labkit.nets import layer_table

NETS = ("small VGG", "small ResNet")
SEED = 61


def build(kind: str):
    """The Keras net of this name, (n, 64) -> logits (n, 10), always with the same weights. No biases.

    small VGG: three convolutions, then three dense layers. The first of those holds 77 % of the parameters,
    as VGG-16's fc6 holds 74 %. small ResNet: seven convolutions, most of them around short cuts, and
    one small dense layer: a third of the parameters, spread evenly, as those of ResNet-101.
    """
    import keras

    keras.utils.set_random_seed(SEED)
    layers = keras.layers
    pictures = keras.Input((64,))
    flow = layers.Reshape((8, 8, 1))(pictures)
    if kind == "small VGG":
        for _ in range(3):
            flow = layers.Conv2D(64, 3, padding="same", activation="relu", use_bias=False)(flow)
        flow = layers.Flatten()(layers.MaxPooling2D()(flow))
        for units in (512, 160):
            flow = layers.Dense(units, activation="relu", use_bias=False)(flow)
    elif kind == "small ResNet":
        flow = layers.Conv2D(64, 3, padding="same", activation="relu", use_bias=False)(flow)
        for block in range(3):
            inner = layers.Conv2D(64, 3, padding="same", activation="relu", use_bias=False)(flow)
            inner = layers.Conv2D(64, 3, padding="same", use_bias=False)(inner)
            flow = layers.ReLU()(layers.Add()([flow, inner]))
            if block == 0:
                flow = layers.MaxPooling2D()(flow)
        flow = layers.GlobalAveragePooling2D()(flow)
    else:
        raise ValueError(f"{kind!r} is none of {', '.join(NETS)}")
    return keras.Model(pictures, layers.Dense(10, use_bias=False)(flow))


def sizes_of(net) -> list[int]:
    """Numbers in each variable of a net that is trained, in the order in which they were made."""
    return [int(np.prod(weights.shape)) for weights in net.trainable_variables]


def variables_of(name: str) -> list[int]:
    """Numbers in each trained variable of a net of layer_table, in the order in which a framework makes them.

    A convolution or dense layer has weights, and a bias where no batch normalisation follows it; a batch
    normalisation has scale and shift.
    """
    layers = layer_table(name)
    names = set(layers["layer"])
    counts = []
    for layer in layers[layers["parameters"] > 0].itertuples():
        if layer.kind == "batchnorm":
            counts += [layer.parameters // 2, layer.parameters // 2]
        elif f"{layer.layer}.bn" in names:
            counts.append(layer.parameters)
        else:
            # At each place of the output every weight is used in one multiply-add, and every bias in one add.
            places = (layer.flops // 2 + layer.activations) // layer.parameters
            biases = layer.activations // places
            counts += [layer.parameters - biases, biases]
    return [int(count) for count in counts]


def optimizer_for(net, rate: float):
    """Plain SGD for the net, all its own variables made at once."""
    import keras

    optimizer = keras.optimizers.SGD(rate)
    optimizer.build(net.trainable_variables)
    return optimizer


def global_batches(images: int, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(pictures, labels) of each step's `images` digits of all workers together, the same everywhere."""
    digits = data.digits()
    batches = []
    epoch = 0
    while len(batches) < steps:
        for rows in data.batches(len(digits.train_x), images, epoch, seed=SEED):
            batches.append((digits.train_x[rows], digits.train_y[rows].astype(np.int32)))
        epoch += 1
    return batches[:steps]


def part_of(batch: tuple[np.ndarray, np.ndarray], worker: int, workers: int) -> tuple:
    """This worker's equal part of a global batch."""
    return tuple(data.shard(values, worker, workers) for values in batch)
