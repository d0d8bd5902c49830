"""The batch script of a lab, slurm/NN_name.sbatch, written from the lab's header like its notebook.

Two nodes share the ranks. Nothing in it knows the cluster: that is in slurm/sites/SITE.sh.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from labkit import labfile

from authoring.source import Lab

_NODES = 2  # the smallest number that shows what a network does
# A rank that trains computes, has Horovod's thread or another one that communicates, and loads data. With one
# core, as Slurm gives by default, they take turns.
_CORES_TO_TRAIN = 4
_TRAINING = {"torch", "tensorflow", "horovod"}
_OPTIONS = (
    ("job-name={stem}", "its name in the queue, and in the output's file"),
    ("output=%x-%j.out", "what it prints goes to NAME-JOB.out, in the folder where you call sbatch"),
    ("nodes={nodes}", "computers"),
    ("ntasks-per-node={tasks}", "ranks on each of them"),
    ("cpus-per-task={cores}", "cores for each rank, and the threads that it may use"),
    ("time=00:15:00", "hours:minutes:seconds, then Slurm ends it"),
)
_TEXT = """\
#!/usr/bin/env bash
# Generated from the header of solutions/{stem}.py by `make labs`.
{options}
# Other values are options of sbatch: sbatch --nodes=4 slurm/{stem}.sbatch
[[ -r slurm/launch.sh ]] || {{ echo "Call sbatch in the folder of the labs, which holds slurm/."; exit 1; }}
source slurm/launch.sh
launch {stem}
"""


def outputs(lab: Lab) -> dict[str, str]:
    """{"slurm/NN_name.sbatch": its text}; {} for a lab of one rank."""
    if lab.header.ranks < 2:
        return {}
    nodes = min(_NODES, lab.header.ranks)
    cores = _CORES_TO_TRAIN if _TRAINING & set(lab.header.needs) else 1
    fields = {"stem": lab.stem, "nodes": nodes, "tasks": -(-lab.header.ranks // nodes), "cores": cores}
    options = [(f"#SBATCH --{option.format(**fields)}", comment) for option, comment in _OPTIONS]
    width = max(len(option) for option, _ in options)
    lines = "\n".join(f"{option:<{width}}  # {comment}" for option, comment in options)
    return {f"slurm/{lab.stem}.sbatch": _TEXT.format(options=lines, stem=lab.stem, number=lab.stem[:2])}


def orphans(root: Path, known: Collection[str]) -> list[Path]:
    """Batch scripts of labs that are gone, or that have one rank now."""
    headers = labfile.headers(root)
    alone = {stem for stem, header in headers.items() if header.ranks < 2}
    return [
        path
        for path in root.glob("slurm/[0-9][0-9]_*.sbatch")
        if path.stem not in known or path.stem in alone
    ]
