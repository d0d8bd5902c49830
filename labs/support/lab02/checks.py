"""The checks of lab 02."""

from __future__ import annotations

import pandas
from labkit import check, expect

small = pandas.DataFrame({"parameters": [10, 20], "flops": [100.0, 300.0], "activations": [7, 9]})


@check.exercise("02.1")
def check_training_flops(training_flops, vgg16):
    """The operations of three trainings."""
    for table, pictures, epochs in ((small, 1, 1), (small, 50, 4), (vgg16, 1_200_000, 74)):
        forward = table.flops.sum()
        expect.close(
            training_flops(table, pictures, epochs),
            3 * forward * pictures * epochs,
            f"operations of a training: {forward:.3g} forward, {pictures:,} pictures, {epochs} epochs",
            slips={
                "this is the way forward alone; the way back takes two times as many": forward
                * pictures
                * epochs,
                "the way back alone is two times the way forward; the way forward belongs to it": 2
                * forward
                * pictures
                * epochs,
                "this is one epoch": 3 * forward * pictures,
                "this counts parameters, not operations": 3 * table.parameters.sum() * pictures * epochs,
            },
        )


@check.exercise("02.2")
def check_training_bytes(training_bytes, vgg16):
    """The bytes for two tables, and batches of 1 to 256 pictures."""
    for table, batch in ((small, 1), (small, 10), (vgg16, 32), (vgg16, 256)):
        parameters = table.parameters.sum()
        activations = table.activations.sum()
        expect.close(
            training_bytes(table, batch),
            16 * parameters + 4 * batch * activations,
            f"bytes for {parameters:,} parameters, {activations:,} activations a picture, {batch} pictures",
            slips={
                "these are numbers; each has 4 bytes": 4 * parameters + batch * activations,
                "the parameters are there once, however many pictures there are": 4
                * batch
                * (4 * parameters + activations),
                "each picture of the batch has its own activations": 16 * parameters + 4 * activations,
                "Adam keeps two averages for each parameter": 8 * parameters + 4 * batch * activations,
                "each parameter has itself, two averages and a gradient": 12 * parameters
                + 4 * batch * activations,
            },
        )


@check.exercise("02.3")
def check_best_speedup(best_speedup):
    """The bound where computing takes longer, and where the exchange does."""
    for devices, compute, gradient, link in (
        (1, 0.5, 4e8, 2e9),
        (4, 0.5, 1e8, 1e9),
        (4, 0.5, 8e8, 5e8),
        (100, 0.4, 1e9, 1e9),
    ):
        exchange = 2 * (devices - 1) / devices * gradient / link
        where = f"{devices} devices, {compute} s of computing, {gradient / 1e6:.0f} MB at {link / 1e9:g} GB/s"
        expect.close(
            best_speedup(devices, compute, gradient, link),
            devices * compute / max(compute, exchange),
            f"the most that is possible for {where}",
            slips={
                "at best the exchange runs beside the computing: the longer one counts, not the sum": devices
                * compute
                / (compute + exchange),
                "this leaves the exchange out": devices,
                "each device keeps its own batch: its computing is not shared out": compute
                / max(compute / devices, exchange),
                "the shorter of the two cannot be the step's time": devices
                * compute
                / min(compute, exchange or compute),
                "this is the step's time, not the speed-up": max(compute, exchange),
                "this is a share of the ideal; times the devices it is the speed-up": compute
                / max(compute, exchange),
            },
        )
