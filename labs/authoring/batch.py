"""The batch script of a lab, slurm/NN_name.sbatch, written from the lab's header like its notebook.

Two nodes share the ranks. Nothing in it knows the cluster: that is in slurm/sites/SITE.sh.
"""

from __future__ import annotations

from typing import NamedTuple

from authoring.source import Header, Lab

_NODES = 2  # the smallest number that shows what a network does
_MINUTES = 15
# A rank that trains computes, has Horovod's thread or another one that communicates, and loads
# data. With one core, as Slurm gives by default, they take turns.
_CORES_TO_TRAIN = 4
_TRAINING = {"torch", "tensorflow", "horovod"}
_OPTIONS = (
    ("job-name={stem}", "its name in the queue, and in the output's file"),
    (
        "output=%x-%j.out",
        "what it prints goes to NAME-JOB.out, in the folder where you call sbatch",
    ),
    ("nodes={nodes}", "computers"),
    ("ntasks-per-node={tasks}", "ranks on each of them"),
    ("cpus-per-task={cores}", "cores for each rank, and the threads that it may use"),
    ("time=00:{minutes}:00", "hours:minutes:seconds, then Slurm ends it"),
)
_TEXT = """\
#!/usr/bin/env bash
# Generated from the header of solutions/{stem}.py by `make labs`.
{options}
# Other values are options of sbatch: sbatch --nodes=4 slurm/{stem}.sbatch
[[ -r slurm/launch.sh ]] || {{
  echo "Call sbatch in the folder of the labs, which holds slurm/."
  exit 1
}}
source slurm/launch.sh
launch {stem}
"""


class Job(NamedTuple):
    """What a batch script asks for: nodes, ranks on each, and the minutes after which Slurm ends
    it."""

    nodes: int
    tasks: int
    minutes: int


def job(header: Header) -> Job | None:
    """The job of a lab; None for one of a single rank, which has no batch script."""
    nodes = min(_NODES, header.ranks)
    return Job(nodes, -(-header.ranks // nodes), _MINUTES) if header.ranks > 1 else None


def outputs(lab: Lab) -> dict[str, str]:
    """{"slurm/NN_name.sbatch": its text}; {} for a lab of one rank."""
    asked = job(lab.header)
    if asked is None:
        return {}
    cores = _CORES_TO_TRAIN if _TRAINING & set(lab.header.needs) else 1
    fields = {"stem": lab.stem, "cores": cores, **asked._asdict()}
    options = [(f"#SBATCH --{option.format(**fields)}", comment) for option, comment in _OPTIONS]
    width = max(len(option) for option, _ in options)
    lines = "\n".join(f"{option:<{width}}  # {comment}" for option, comment in options)
    return {f"slurm/{lab.stem}.sbatch": _TEXT.format(options=lines, stem=lab.stem)}
