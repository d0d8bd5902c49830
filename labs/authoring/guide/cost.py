"""What a lab costs on a cluster: node-minutes for a class, from its batch script."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """One learner's batch job: nodes, ranks, and the minutes after which Slurm ends it."""

    nodes: int
    ranks: int
    minutes: float

    def node_minutes(self, learners: int) -> float:
        """At most so many for a class in which everybody submits the job once."""
        return self.nodes * self.minutes * learners


def read(root: Path, stem: str) -> Cost | None:
    """The cost of a lab's job; None for a lab of one rank, which has no batch script."""
    script = root / "slurm" / f"{stem}.sbatch"
    if not script.exists():
        return None
    options = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", script.read_text(encoding="utf-8"), re.MULTILINE))
    nodes = int(options["nodes"])
    hours, minutes, seconds = (int(part) for part in options["time"].split(":"))
    return Cost(nodes, nodes * int(options["ntasks-per-node"]), 60 * hours + minutes + seconds / 60)
