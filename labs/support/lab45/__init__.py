"""Lab 45: Adasum of gradients, Horovod's float16, and settings that autotune or a search finds.

| of | name | what it is |
|---|---|---|
| Adasum | `pairs` | two gradients of all kinds, and Adasum of them |
| | `gradients`, `adasum_of_all` | gradients of many ranks, and Adasum of them |
| | `ONE_LAYER`, `THREE_LAYERS`, `STRICT` | their layers; a virtual machine on which long messages wait |
| | `refusals` | what ranks say whose number is no power of two |
| | `accuracies`, `OF_NODES` | what a net learns by sum, mean, Adasum, and Adasum between nodes |
| | `first_steps` | how long its first step is by each of them |
| | `LAYERS`, `horovods_adasum` | layers of the digits' net; Horovod's own Adasum of its gradients |
| | `deltas` | Horovod's optimizer with Adasum beside Adasum of gradients |
| bytes | `BYTES_A_VALUE` | what a node sends |
| | `exchange`, `between_nodes` | what Horovod's allreduce costs; results of several nodes |
| settings | `best`, `machines` | the best setting of autotune's log; machines on which to search |
| | `autotune`, `watch`, `sweep` | Horovod's variables; steps while it tunes; steps of a search |
"""

from support.lab45.cases import (
    BYTES_A_VALUE,
    LAYERS,
    ONE_LAYER,
    STRICT,
    THREE_LAYERS,
    adasum_of_all,
    gradients,
    machines,
    pairs,
)
from support.lab45.ranks import autotune, deltas, exchange, horovods_adasum, sweep, watch
from support.lab45.runs import OF_NODES, accuracies, first_steps, refusals
from support.lab45.show import best, between_nodes

__all__ = [
    "BYTES_A_VALUE",
    "LAYERS",
    "OF_NODES",
    "ONE_LAYER",
    "STRICT",
    "THREE_LAYERS",
    "accuracies",
    "adasum_of_all",
    "autotune",
    "best",
    "between_nodes",
    "deltas",
    "exchange",
    "first_steps",
    "gradients",
    "horovods_adasum",
    "machines",
    "pairs",
    "refusals",
    "sweep",
    "watch",
]
