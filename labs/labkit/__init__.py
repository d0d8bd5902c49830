"""labkit: what the labs share. A page of its face; each part is imported on first use.

| part | what it is for |
|---|---|
| `lab` | the first call of every lab: which lab this is, and where it runs |
| `world` | rank, size, local rank, cores and device of this process, under any launcher |
| `placement` | where tensors are, and how they get to MPI, NCCL and Gloo |
| `launch` | one function on several processes, from a notebook, a script or a job |
| `timing` | the only way the labs time: median, spread, ratios, and benchmarks as OSU's |
| `record` | results in JSON lines, with where and how they were measured |
| `reporting` | a report of a scaling study that holds no number without a record |
| `energy` | joules, where this machine counts them |
| `profiling` | what the steps of a training are spent on |
| `scaling` | speed-up, efficiency, laws and fits; closed forms of collectives |
| `plots` | one way to draw curves, bars, time lines and diagrams |
| `checks` | `check`, `expect`, `hint`, `predict` (offered here too), and the learner's progress |
| `journal` | what a learner did, for them alone; shared with the class board once they agree |
| `board` | the class board: who of those who agreed is where, and stuck at what |
| `data`, `nets` | digits and other data; small nets, and well-known ones as tables of layers |
| `collectives`, `counting` | reference collectives; communicators that count what passes through them |
| `mpi` | MPI's special numbers, and what is replaced in mpi4py while programs are tried |
| `horovod` | Horovod's timeline, and its training steps on real ranks |
| `cluster` | batch jobs on Slurm, from a notebook or a terminal |
| `builds` | builds of Horovod and of MPI side by side, and what a process needs to use one |
| `doctor` | what this machine has, and which lab runs here |
| `errors`, `paths`, `edition` | sentences for people; where things are; a checkout or an archive of it |
| `labfile`, `copies` | a lab's file, read; a learner's files, kept and held alike |
| `jsonl` | files of one JSON object per line, safe with many writers |
| `chrome_trace` | writes Chrome's trace format, which Perfetto and TensorBoard read |
| `noise`, `ports` | libraries' chatter kept off the screen; ports that a job's nodes agree on |
| `cli`, `make` | `python -m labkit VERB …`; what `make` calls with the words typed after it |
"""

from __future__ import annotations

import importlib

_PARTS = (
    "board",
    "builds",
    "checks",
    "cluster",
    "collectives",
    "counting",
    "data",
    "doctor",
    "edition",
    "energy",
    "errors",
    "horovod",
    "journal",
    "lab",
    "launch",
    "mpi",
    "nets",
    "placement",
    "plots",
    "profiling",
    "record",
    "reporting",
    "scaling",
    "timing",
    "world",
)
_OF_CHECKS = ("check", "expect", "hint", "predict")
_OF_PATHS = ("home", "root")
__all__ = [*_PARTS, *_OF_CHECKS, *_OF_PATHS]


def __getattr__(name: str):
    if name in _OF_CHECKS:
        return getattr(importlib.import_module("labkit.checks"), name)
    if name in _OF_PATHS:
        return getattr(importlib.import_module("labkit.paths"), name)
    if name in _PARTS:
        return importlib.import_module(f"labkit.{name}")
    raise AttributeError(f"labkit has no {name!r}; it offers {', '.join(__all__)}")
