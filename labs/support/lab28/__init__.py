"""Lab 28's networks on the virtual cluster, and the published numbers that it quotes.

NETWORKS            name of a network, as people say it -> name of the virtual machine that has it
connect             a virtual cluster of so many GPUs, all on one network
free                the same machine, whose messages have no latency, or whose bytes take no time
ranked              networks in the order of their times, as one line
pairs_in_order      how many pairs of an order are as the times say
torus_allreduce     an allreduce of nodes that share cards (lab 26's two dimensions)
RESNET50            bytes of its gradients, operations of a picture's training
GPUS                published images per second of ResNet-50's training, and peaks, by GPU
MEASURED            published times of allreduces over Omni-Path
DEVICES             published peaks and bandwidths of seven devices
LAYERS, intensity   three layers, and their operations for each byte that they move
allreduce           the virtual cluster's own, as a function of a rank
expect_…            what the checks expect of each exercise's function
"""

from support.lab28.checks import allreduce, expect_balance, expect_roofs, expect_time, expect_waiting
from support.lab28.clusters import NETWORKS, connect, free, pairs_in_order, ranked, torus_allreduce
from support.lab28.devices import DEVICES, LAYERS, Device, intensity
from support.lab28.published import GPUS, MEASURED, RESNET50

__all__ = [
    "DEVICES",
    "GPUS",
    "LAYERS",
    "MEASURED",
    "NETWORKS",
    "RESNET50",
    "Device",
    "allreduce",
    "connect",
    "expect_balance",
    "expect_roofs",
    "expect_time",
    "expect_waiting",
    "free",
    "intensity",
    "pairs_in_order",
    "ranked",
    "torus_allreduce",
]
