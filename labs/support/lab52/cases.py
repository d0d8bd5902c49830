"""What answers of lab 52 are tried on: a small net, made-up rows, made-up numbers of a model."""

from __future__ import annotations

from dataclasses import replace

import pandas

from support.lab52.fits import Learned
from support.lab52.rows import Row

# ------------------------------------------------------------------------------------------- buckets (52.1)

SMALL = pandas.DataFrame({"parameters": [5, 10, 40], "flops": [30.0, 60.0, 10.0]})  # in forward order

# (limit, bytes of each bucket, share that is over when it is full)
BUCKETS = (
    (180, [200, 20], [0.8, 1.0]),
    (160, [160, 60], [0.4, 1.0]),  # 160 bytes are as many as the limit
    (1, [160, 40, 20], [0.4, 0.8, 1.0]),
    (220, [220], [1.0]),
    (1000, [220], [1.0]),
)


def forwards(limit: int) -> list[int]:
    """Bytes of SMALL's buckets if they were filled from the first layer to the last."""
    sizes = []
    held = 0
    for parameters in SMALL.parameters:
        held += 4 * parameters
        if held >= limit:
            sizes.append(held)
            held = 0
    return sizes + ([held] if held else [])


# ----------------------------------------------------------------------------------- rows and numbers (52.2)

_ROW = Row(
    system="made up",
    net="resnet50",
    gpus=16,
    per_node=4,
    network="TCP",
    algorithm="ring",
    line=3e-10,
    inside=1e-10,
    batch=64,
    alone=0.4,
    step=0.5,
)

# Seconds per byte, seconds, share: rounder than those of a fit, and far from one another.
LEARNED = Learned(
    {"TCP": 2e-10, "host": 5e-10, "gRPC": 7e-10, "inside": 5e-11, "round": 2e-5, "straggler": 0.02}
)


def run_of(**changes) -> Row:
    """A made-up run of 16 GPUs in 4 nodes by a ring over TCP, with these fields changed."""
    return replace(_ROW, **changes)


def run_here(ranks: int, batch: int, alone: float) -> Row:
    """The run on this machine: each rank is a node, Gloo carries its bytes, all that they cost is learned."""
    return replace(
        _ROW,
        system="here",
        net="here",
        gpus=ranks,
        per_node=1,
        network="Gloo",
        line=0.0,
        inside=0.0,
        batch=batch,
        alone=alone,
        step=None,
    )


def ten_times(row: Row) -> Row:
    """The row with ten times the published images per second, which nobody could have measured."""
    return replace(row, step=row.step / 10)
