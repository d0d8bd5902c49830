"""A very small lab with two ranks and no MPI, for the tests of batch jobs; and a checkout that
holds it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import labkit
from authoring import generate

STEM = "91_job"

HEADER = """\
# %% [markdown]
# # {title}
#
# A small job.
#
# **You will be able to** (1) wait, (2) read.
#
# Needs: {needs} · Ranks: 2 · Minutes: 5 · Level: beginner · Before: -

# %%
"""
LAB = """\
import time

from labkit import lab, record, world
from labkit.errors import LabError

lab.start("91_job")

# %% tags=["parameters"]
pause = 0.0  # seconds
note = ""  # goes into the record
fail = ""  # what rank 1 says when it fails

# %%
time.sleep(pause)
if fail and world.rank() == 1:
    raise LabError(fail)
if fail:
    time.sleep(60)
for ranks in range(1, world.size() + 1):
    record.add("strong", seconds=8.0 / ranks, ranks=ranks, note=note)
"""
# What its ranks have of Horovod and MPI, and of their variables.
BUILDS = """\
import os

import horovod
import horovod.torch as hvd
import torch
from labkit import lab, launch, mpis, record

lab.start("93_builds")

# %% tags=["parameters"]
name = "NCCL_DEBUG"  # a variable
wish = ""  # a build of Horovod that launch.run asks for


# %%
def add_up():
    hvd.init()
    total = hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
    return total, horovod.__file__, mpis.loaded()


results = launch.run(add_up, ranks=2, horovod=wish or None)
record.add("builds", by_rank=[list(result) for result in results], variable=os.environ.get(name))
"""


def build_in(checkout) -> None:
    """Generate the labs in the checkout, with all that a batch job needs there."""
    root: Path = checkout.root
    for stem, title, needs, cells in (
        (STEM, "91 Job lab", "cpu", LAB),
        ("93_builds", "93 Which Horovod, which MPI?", "horovod, torch", BUILDS),
    ):
        text = HEADER.format(title=title, needs=needs) + cells
        (root / "solutions" / f"{stem}.py").write_text(text, encoding="utf-8")
    (root / "slurm" / "sites").mkdir(parents=True)
    real = labkit_root()
    for name in ("__init__.py", "launch.sh"):
        shutil.copy(real / "slurm" / name, root / "slurm")
    bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(real / "slurm" / "job", root / "slurm" / "job", ignore=bytecode)
    for site in ("tabletop", "template", "perlmutter"):
        shutil.copy(real / "slurm" / "sites" / f"{site}.sh", root / "slurm" / "sites")
    (root / ".venv").symlink_to(sys.prefix)
    generate.write_all()


def labkit_root() -> Path:
    """The real checkout, also where a test has put another one in its place."""
    return Path(labkit.__file__).resolve().parents[2]
