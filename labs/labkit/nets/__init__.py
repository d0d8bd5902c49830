"""FACE of labkit.nets."""

from labkit.nets.digits import keras_digits, layer_table, start_weights, torch_conv, torch_digits
from labkit.nets.layers import rows
from labkit.nets.training import accuracy, cut, gradient, join, percent_right

__all__ = [
    "accuracy",
    "cut",
    "gradient",
    "join",
    "keras_digits",
    "layer_table",
    "percent_right",
    "rows",
    "start_weights",
    "torch_conv",
    "torch_digits",
]
