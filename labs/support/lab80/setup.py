"""What is studied: which ranks, which links, how long an image takes and how many bytes are summed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from labkit import launch, nets, virtual, world
from labkit.errors import LabError

from support.lab80 import steps

WIDTH = 32  # channels of the real ranks' net, as in lab 50
CALIBRATION = 6  # steps of one rank alone


@dataclass(frozen=True)
class Setup:
    """counts: numbers of ranks. per_image: seconds of an image on one rank. nbytes: of the gradients.

    per_node: ranks of a node. machine: of the virtual cluster; for real ranks the links of lab 22's records.
    """

    where: str
    machine: virtual.Machine
    net: str
    counts: tuple[int, ...]
    per_image: float
    nbytes: float
    per_node: int

    def link(self, ranks: int) -> tuple[float, float]:
        """(seconds of a message, seconds of a byte) of the slowest link that a ring of so many ranks uses."""
        inside = self.machine.inside
        between = self.machine.between
        if self.nodes(ranks) == 1 or inside.bandwidth < between.bandwidth:
            return inside.latency, 1 / inside.bandwidth
        return between.latency, 1 / between.bandwidth

    def nodes(self, ranks: int) -> int:
        """Nodes that so many ranks take, node by node."""
        return -(-ranks // self.per_node)

    def __str__(self) -> str:
        latency, beta = self.link(max(self.counts))
        return (
            f"{self.where}: {', '.join(map(str, self.counts))} ranks; "
            f"an image takes {1e3 * self.per_image:.2f} ms on one rank; "
            f"{self.nbytes / 1e6:.2f} MB of gradients; the slowest link of {max(self.counts)} ranks: "
            f"{1e6 * latency:.2f} µs a message, {1e-9 / beta:.2f} GB/s"
        )


def begin(where: str, machine: str, net: str, speed: float, images: int, most: int) -> Setup:
    """The setup of a study. On real ranks one rank is timed first, alone."""
    if where not in ("virtual", "here"):
        raise LabError(f'where is "virtual" or "here", not {where!r}.')
    if images < 1 or most < 1 or not speed > 0:
        raise LabError("images and most are 1 or more, and speed is above 0.")
    if where == "virtual":
        nbytes = 4 * int(nets.layer_table(net).parameters.sum())
        chosen = virtual.machine(machine)
        return Setup(where, chosen, net, doubled(most), 1 / speed, nbytes, chosen.ranks_per_node)
    there = launch.ranks_here(world.cores())
    (alone,) = launch.run(steps.real, "weak", images, WIDTH, CALIBRATION, ranks=1, threads=1)
    per_image = float(steps.mean_step([alone])) / images
    counts = doubled(min(most, there))
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) if world.launcher() else 1
    per_node = -(-there // nodes)
    return Setup(where, virtual.machine("here"), "small conv", counts, per_image, alone.nbytes, per_node)


def doubled(most: int) -> tuple[int, ...]:
    """1, 2, 4, … up to `most`, which is among them."""
    counts = [2**power for power in range(most.bit_length()) if 2**power < most]
    return (*counts, most)
