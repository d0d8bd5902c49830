"""What lab 13 needs beside its exercises: masks of threads, trial cases, steps on real ranks, a heat map.

| name | what it gives |
|---|---|
| `describe`, `usable` | the cores that this process may use: a sentence by NUMA node; a list |
| `threads`, `masks` | this process's threads; the cores on which each may run |
| `kept`, `make_pool`, `origin` | masks that come back, a pool of threads to bind, whose thread it is |
| `trial_masks` | cores as a system numbers them, and how many ranks share them |
| `ten_images` | a step tried on 10 images and virtual ranks, with the right gradient and the wrong ones |
| `policies` | the values of OMP_WAIT_POLICY to measure |
| `grid`, `ways` | on real ranks: seconds of a step by processes and threads; bound, unbound, on one core |
| `shares_by_host` | the cores of the ranks that `ways` has bound, by host |
| `heat_map` | throughput by processes and threads |
"""

from support.lab13.affinity import describe, kept, make_pool, masks, origin, threads, usable
from support.lab13.cases import trial_masks
from support.lab13.checks import shares_by_host, ten_images
from support.lab13.ranks import grid, policies, ways
from support.lab13.show import heat_map

__all__ = [
    "describe",
    "grid",
    "heat_map",
    "kept",
    "make_pool",
    "masks",
    "origin",
    "policies",
    "shares_by_host",
    "ten_images",
    "threads",
    "trial_masks",
    "usable",
    "ways",
]
