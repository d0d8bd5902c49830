"""Lab 46: one training script over host MPI, CUDA-aware MPI, NCCL and Gloo.

| of | name | what it is |
|---|---|---|
| answers tried | `NEEDS`, `Machine` | machines, and what a library needs there |
| | `TIMELINES`, `GRADIENTS` | calls of made-up timelines |
| | `drifting_runs` | times of steps with and without communication |
| ways | `ways`, `machine` | what this lab would run here; what the machine has for it |
| | `closed`, `why_not` | why one cannot be taken here, in a sentence |
| | `variables` | what Horovod and MPI want to be told for it |
| nets | `chosen`, `in_torch`, `in_keras` | "auto"; a net by its name in PyTorch, in Keras |
| ranks | `started` | Horovod of a framework on the ranks of a run, each with its own GPU |
| | `images_of`, `made_up_images` | images of a rank; as many random ones |
| | `time_link`, `time_rare_looks`, `alpha_beta` | Horovod's allreduce alone; with rarer looks; α and β |
| | `watch`, `place` | steps under Horovod's timeline; where, on what |
| | `Steps`, `Run`, `Watched` | what is handed about |
| shown and kept | `print_table`, `PROOF_COLUMNS`, `proof_cells`, `listed` | tables; the one of proofs |
| | `print_results`, `keep` | the table of results, and their records |
| | `parts`, `Bounds`, `show_bounds` | parts of a step; a step between its bounds |
| elsewhere | `published`, `elsewhere` | Horovod's own benchmarks; this lab as batch jobs |
"""

from support.lab46.cases import (
    GRADIENTS,
    NEEDS,
    TIMELINES,
    Machine,
    drifting_runs,
    published,
)
from support.lab46.jobs import elsewhere
from support.lab46.machines import closed, machine, variables, ways, why_not
from support.lab46.nets import chosen, in_keras, in_torch
from support.lab46.ranks import (
    Run,
    Steps,
    Watched,
    alpha_beta,
    images_of,
    made_up_images,
    place,
    started,
    time_link,
    time_rare_looks,
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
    "GRADIENTS",
    "NEEDS",
    "PROOF_COLUMNS",
    "TIMELINES",
    "Bounds",
    "Machine",
    "Run",
    "Steps",
    "Watched",
    "alpha_beta",
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
    "parts",
    "place",
    "print_results",
    "print_table",
    "proof_cells",
    "published",
    "show_bounds",
    "started",
    "time_link",
    "time_rare_looks",
    "variables",
    "watch",
    "ways",
    "why_not",
]
