"""Devices by their data sheets, and layers to hold against them."""

from __future__ import annotations

from typing import NamedTuple

from labkit import nets


class Device(NamedTuple):
    """By its data sheet. peak: operations a second; size: bytes of the numbers that these work on.

    bandwidth: bytes a second of its memory; memory: bytes of that memory.
    """

    name: str
    year: int
    peak: float
    size: int
    bandwidth: float
    memory: float
    source: str


DEVICES = (
    Device(
        "CPU (EPYC 7763)",
        2021,
        64 * 2.45e9 * 32,
        4,
        204.8e9,
        4e12,
        "AMD's product page: 64 cores, 2.45 GHz, 8 channels of DDR4-3200, up to 4 TB; the peak is computed: "
        "32 operations a cycle and core (two units of 8 multiply-adds)",
    ),
    Device("K80", 2014, 8.73e12, 4, 480e9, 24e9, "NVIDIA, Tesla K80: both GPUs of the board, at boost clock"),
    Device("V100", 2017, 125e12, 2, 900e9, 16e9, "NVIDIA, Tesla V100 SXM2 data sheet: tensor cores"),
    Device("H100", 2022, 989e12, 2, 3.35e12, 80e9, "NVIDIA, H100 SXM data sheet: tensor cores, not sparse"),
    Device("TPU v3", 2018, 123e12, 2, 900e9, 32 * 2**30, "Google, cloud.google.com/tpu/docs/v3: one chip"),
    Device(
        "IPU (GC2)",
        2018,
        124.5e12,
        2,
        45e12,
        304 * 2**20,
        "Jia and others, arXiv 1912.03413: mixed precision; the nominal bandwidth of its on-chip memory",
    ),
    Device(
        "FPGA (Alveo U280)",
        2018,
        17.2e12,
        1,
        460e9,
        8e9,
        "AMD, PG367: the processor for convolutions DPUCAHX8H on a U280, integers of 8 bits; UG1393: its "
        "HBM2 memory",
    ),
)

_SHAPES = {"fc6": (25088, 4096), "conv4_2": (512 * 28 * 28, 512 * 28 * 28)}  # numbers in and out, a picture
LAYERS = (("fc6", 1), ("fc6", 256), ("conv4_2", 32))  # of VGG-16, with so many pictures


def intensity(layer: str, pictures: int, size: int) -> float:
    """Operations of a layer of VGG-16 on its way forward, for each byte that it moves at least.

    It reads its parameters once and each picture's numbers, and writes each picture's numbers. size: bytes
    of a number.
    """
    (row,) = nets.layer_table("vgg16").query("layer == @layer").itertuples()
    moved = row.parameters + pictures * sum(_SHAPES[layer])
    return pictures * row.flops / (size * moved)
