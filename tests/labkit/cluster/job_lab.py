"""A very small lab with two ranks and no MPI, for the tests of batch jobs; and a checkout that holds it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import labkit
from authoring import generate

STEM = "91_job"

LAB = """\
# %% [markdown]
# # 91 Job lab
#
# A small job, to see how it goes through the queue.
#
# **You will be able to** (1) wait, (2) read.
#
# Needs: cpu · Ranks: 2 · Minutes: 5 · Before: -

# %%
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
ALONE = LAB.replace("91 Job lab", "92 Alone").replace("91_job", "92_alone").replace("Ranks: 2", "Ranks: 1")


def build_in(checkout) -> None:
    """Generate the labs in the checkout, with all that a batch job needs there."""
    root: Path = checkout.root
    (root / "solutions" / f"{STEM}.py").write_text(LAB, encoding="utf-8")
    (root / "solutions" / "92_alone.py").write_text(ALONE, encoding="utf-8")
    (root / "slurm" / "sites").mkdir(parents=True)
    real = labkit_root()
    shutil.copy(real / "slurm" / "launch.sh", root / "slurm")
    for site in ("tabletop", "template", "perlmutter"):
        shutil.copy(real / "slurm" / "sites" / f"{site}.sh", root / "slurm" / "sites")
    (root / ".venv").symlink_to(sys.prefix)
    generate.write_all()


def labkit_root() -> Path:
    """The real checkout, also where a test has put another one in its place."""
    return Path(labkit.__file__).resolve().parents[2]
