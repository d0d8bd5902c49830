"""What labs 14 and 16 need beside their exercises: bytes of a step, trial steps, trainings, measurements.

| name | what it gives |
|---|---|
| `trial_steps`, `small_vgg_step` | training steps with their bytes by part, and the bytes of known mistakes |
| `gradients_with` | two tensors of float16 gradients, one of them with a number of choice |
| `wrong_updates` | the weights that known mistakes of loss scaling leave |
| `steps_beside_float32` | a mixed step and a float32 step on equal nets, step by step |
| `DeepTrial` | a deep net with checkpoints: what is kept, how often layers run, gradients, the peak |
| `largest_for_small_vgg` | the largest batch in a budget, predicted and found by trying |
| `train_scaled`, `fine_training` | the digits with a tiny loss; with a small learning rate |
| `abilities`, `speeds` | what the device has for 16 bits; a convolution net by type and layout |
| `bytes_by_way` | a step's bytes by part in float32, mixed, and all in bfloat16 |
| `trade`, `edge` | a deep net's memory and time by segments; its largest batch, predicted and tried |
"""

from support.lab14.cases import gradients_with, wrong_updates
from support.lab14.checks import (
    DeepTrial,
    largest_for_small_vgg,
    small_vgg_step,
    steps_beside_float32,
    trial_steps,
)
from support.lab14.measurements import abilities, bytes_by_way, edge, speeds, trade
from support.lab14.training import fine_training, train_scaled

__all__ = [
    "DeepTrial",
    "abilities",
    "bytes_by_way",
    "edge",
    "fine_training",
    "gradients_with",
    "largest_for_small_vgg",
    "small_vgg_step",
    "speeds",
    "steps_beside_float32",
    "trade",
    "train_scaled",
    "trial_steps",
    "wrong_updates",
]
