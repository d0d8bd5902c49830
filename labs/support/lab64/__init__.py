"""What lab 64 needs beside its exercises: a small GPT cut over ranks, trials of f and g, 3-D layouts.

Sizes, Text          how large the GPT is; the text that it learns, as batches
Pieces, whole        the functions of which the GPT is made; those of one process, with nothing cut
train, train_ways    on a rank: train the GPT, once or of several pieces: losses, what was sent, what is held
Trained, Alone       what train returns; a communicator of this process alone
try_pair             on a rank: two functions as f and g, in a group of every size
cases                what try_pair gave on all ranks, one function, way and rank at a time
Gather, Scatter      f and g of sequence parallelism
Traffic              a communicator that notes the bytes of its collectives

Net, Layout, Cost    a published GPT with its record; a 3-D layout; the parts of a step's time
published, layouts   the ten GPTs of Narayanan and others (2021); all layouts of a net that fit
bytes_on_a_gpu       what a layout holds on a GPU
GPUs                 GPUs of DGX A100 nodes: arithmetic, and sums as played on the virtual cluster
parts_of_step        a step's time by part, as the lab's text has it
fit, error           the share of the GPUs' peak from published steps; how far a model is off
"""

from support.lab64.checks import cases, try_pair
from support.lab64.gpt import Pieces, Sizes, whole
from support.lab64.gpus import GPUs, fit
from support.lab64.megatron import (
    Cost,
    Layout,
    Net,
    bytes_on_a_gpu,
    error,
    layouts,
    parts_of_step,
    published,
)
from support.lab64.pairs import Gather, Scatter
from support.lab64.training import Alone, Text, Traffic, Trained, train, train_ways

__all__ = [
    "Alone",
    "Cost",
    "GPUs",
    "Gather",
    "Layout",
    "Net",
    "Pieces",
    "Scatter",
    "Sizes",
    "Text",
    "Traffic",
    "Trained",
    "bytes_on_a_gpu",
    "cases",
    "error",
    "fit",
    "layouts",
    "parts_of_step",
    "published",
    "train",
    "train_ways",
    "try_pair",
    "whole",
]
