"""What lab 13 needs beside exercises and checks: cores and threads, steps on real ranks, a heat map.

| name | what it gives |
|---|---|
| `describe`, `usable` | the cores that this process may use: a sentence by NUMA node; a list |
| `threads` | this process's threads |
| `policies` | the values of OMP_WAIT_POLICY to measure |
| `grid`, `ways` | on real ranks: seconds of a step by processes and threads; bound, unbound, on one core |
| `heat_map` | throughput by processes and threads |
"""

from support.lab13.affinity import describe, threads, usable
from support.lab13.ranks import grid, policies, ways
from support.lab13.show import heat_map

__all__ = [
    "describe",
    "grid",
    "heat_map",
    "policies",
    "threads",
    "usable",
    "ways",
]
