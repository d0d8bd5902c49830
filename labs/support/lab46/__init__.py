"""Lab 46: one training script over host MPI, CUDA-aware MPI, NCCL and Gloo. Lab 47: its step, foretold.

| of | name | what it is |
|---|---|---|
| answers tried | `TIMELINES`, `GRADIENTS` | calls of made-up timelines |
| | `drifting_runs` | times of steps with and without communication |
| ways | `ways`, `machine`, `Machine` | what this lab would run here; what the machine has for it |
| | `missing`, `closed`, `why_not` | why one cannot be taken here, in a word and in a sentence |
| | `BUILDS` | Horovod's build for each library |
| | `variables` | what Horovod and MPI want to be told for it |
| nets | `chosen`, `in_torch`, `in_keras` | "auto"; a net by its name in PyTorch, in Keras |
| ranks | `started` | Horovod of a framework on the ranks of a run, each with its own GPU |
| | `images_of`, `made_up_images` | images of a rank; as many random ones |
| | `time_link`, `LinkTimes`, `SHORT`, `LONG` | an allreduce alone, by MPI and by Horovod; its bytes |
| | `watch`, `place` | steps under Horovod's timeline; where, on what |
| | `Steps`, `Run`, `Watched` | what is handed about |
| shown and kept | `print_table`, `PROOF_COLUMNS`, `proof_cells`, `listed` | tables; the one of proofs |
| | `print_results`, `keep` | the table of results, and their records |
| | `parts`, `Bounds`, `show_bounds` | parts of a step; a step between its bounds |
| elsewhere | `published`, `elsewhere` | Horovod's own benchmarks; this lab as batch jobs |
"""

from support.lab46.cases import (
    GRADIENTS,
    TIMELINES,
    drifting_runs,
    published,
)
from support.lab46.jobs import elsewhere
from support.lab46.link import LONG, SHORT, LinkTimes, time_link
from support.lab46.machines import BUILDS, Machine, closed, machine, missing, variables, ways, why_not
from support.lab46.nets import chosen, in_keras, in_torch
from support.lab46.ranks import (
    Run,
    Steps,
    Watched,
    images_of,
    made_up_images,
    place,
    started,
    watch,
)
from support.lab46.show import (
    PROOF_COLUMNS,
    Bounds,
    keep,
    listed,
    parts,
    print_results,
    print_table,
    proof_cells,
    show_bounds,
)

__all__ = [
    "BUILDS",
    "GRADIENTS",
    "LONG",
    "PROOF_COLUMNS",
    "SHORT",
    "TIMELINES",
    "Bounds",
    "LinkTimes",
    "Machine",
    "Run",
    "Steps",
    "Watched",
    "chosen",
    "closed",
    "drifting_runs",
    "elsewhere",
    "images_of",
    "in_keras",
    "in_torch",
    "keep",
    "listed",
    "machine",
    "made_up_images",
    "missing",
    "parts",
    "place",
    "print_results",
    "print_table",
    "proof_cells",
    "published",
    "show_bounds",
    "started",
    "time_link",
    "variables",
    "watch",
    "ways",
    "why_not",
]
