"""FACE of labkit.nets."""

from labkit.nets.digits import keras_digits, layer_table, start_weights, torch_conv, torch_digits
from labkit.nets.layers import rows

__all__ = [
    "keras_digits",
    "layer_table",
    "rows",
    "start_weights",
    "torch_conv",
    "torch_digits",
]
