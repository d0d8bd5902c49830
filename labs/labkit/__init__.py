"""labkit: what the labs share. A page of its face; each part is imported on first use.

| part | what it is for |
|---|---|
| `lab` | the first call of every lab: which lab this is, and where it runs |
| `world` | rank, size, local rank, cores and device of this process, under any launcher |
| `placement` | where tensors are, and how they get to MPI, NCCL and Gloo |
| `launch` | one function on several processes, from a notebook, a script or a job |
| `timing` | the only way the labs time: median, spread, ratios, and benchmarks as OSU's |
| `record` | results in JSON lines, with where and how they were measured |
| `profiling` | what the steps of a training are spent on |
| `scaling` | speed-up, efficiency, laws and fits; closed forms of collectives |
| `plots` | one way to draw curves, bars, time lines and diagrams |
| `checks` | `check`, `expect`, `hint`, `predict` (offered here too) |
| `journal` | what a learner did, for them alone; shared with a class once they agree |
| `data`, `nets` | digits and other data; small nets, and well-known ones as tables of layers |
| `workloads` | ResNet-50 and GPT-2 on made-up data, timed; model FLOPs utilization |
| `collectives`, `counting` | reference collectives; communicators that note what passes |
| `sequence_parallel` | gather and scatter for PyTorch, with backward passes |
| `mpi` | MPI's special numbers, and what is replaced in mpi4py while programs are tried |
| `horovod` | Horovod's timeline, and its training steps on real ranks |
| `cluster` | batch jobs on Slurm, from a notebook or a terminal |
| `builds` | builds of Horovod and of MPI side by side, and what a process needs to use one |
| `mpis` | MPI libraries: how each is told, its switch for GPU memory, what it wants to be told |
| `doctor` | what this machine has, and which lab runs here |
| `errors`, `paths`, `edition` | sentences for people; where things are; checkout or archive |
| `labfile`, `copies` | a lab's file, read; a learner's files, kept and held alike |
| `files`, `jsonl` | a file replaced at once, what a command says; one JSON object per line |
| `chrome_trace` | writes Chrome's trace format, which Perfetto and TensorBoard read |
| `noise`, `ports` | libraries' chatter kept off the screen; ports that a job's nodes agree on |
| `cli`, `make` | `python -m labkit VERB …`; what `make` calls with the words typed after it |
"""

from __future__ import annotations

import importlib

_FROM = dict.fromkeys(("check", "expect", "hint", "predict"), "labkit.checks")
_FROM |= dict.fromkeys(("home", "own_folder", "root"), "labkit.paths")


def __getattr__(name: str):
    # A package of its own now; a learner's older notebook imports it from here.
    if name == "virtual":
        return importlib.import_module("virtual")
    if name in _FROM:
        return getattr(importlib.import_module(_FROM[name]), name)
    try:
        if not name.startswith("_"):
            return importlib.import_module(f"labkit.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"labkit.{name}":  # it is a part of labkit that lacks a package
            raise
    raise AttributeError(f"labkit has no {name!r}; help(labkit) shows what it offers")
