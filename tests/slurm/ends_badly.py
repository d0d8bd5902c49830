"""For the tests of batch jobs: a checkout with a lab whose rank 3 ends badly, as its parameter
says."""

from __future__ import annotations

import shutil
from pathlib import Path

from labkit import paths

STEM = "90_ends_badly"
LAB = """\
# %% [markdown]
# # 90 Ends badly
#
# Needs: mpi · Ranks: 4 · Minutes: 1 · Level: beginner · Before: -

# %%
import os
import signal
import sys
import time

from labkit import lab, launch

lab.start("90_ends_badly")
from mpi4py import MPI

# %% tags=["parameters"]
how = "raise"  # a word

# %%
def divide(comm):
    return 1 / (3 - comm.rank)


def rank_3_ends():
    if how == "raise":
        raise ValueError("rank three has had enough")
    if how == "exit":
        os._exit(7 if "A_TOKEN" not in os.environ else 8)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    print("rank 3 sleeps", file=sys.stderr, flush=True)
    time.sleep(600)


def wait_for_all():
    request = MPI.COMM_WORLD.Ibarrier()
    while not request.Test():
        time.sleep(0.05)


if how == "inside":
    launch.run(divide, ranks=4)
wait_for_all()
if MPI.COMM_WORLD.rank == 3:
    rank_3_ends()
wait_for_all()
"""


def line(text: str) -> str:
    """The number of the lab's line that begins so."""
    lines = enumerate(LAB.splitlines(), 1)
    return next(str(number) for number, content in lines if content.strip().startswith(text))


def checkout(root: Path) -> Path:
    """Make a small checkout there: labkit, the batch scripts, this lab, and lab 20 as a learner has
    it."""
    real = paths.root()
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(real / "labs/labkit", root / "labs/labkit", ignore=ignore)
    shutil.copytree(real / "slurm", root / "slurm", ignore=ignore)
    (root / ".venv").symlink_to(real / ".venv")
    for name in ("solutions", "notebooks"):
        (root / name).mkdir()
        for path in (real / name).glob("20_*"):
            shutil.copy2(path, root / name)
    for path in (real / "labs").glob("20_*.py"):
        shutil.copy2(path, root / "labs")
    (root / "solutions" / f"{STEM}.py").write_text(LAB, encoding="utf-8")
    (script,) = (real / "slurm").glob("20_*.sbatch")
    text = script.read_text(encoding="utf-8").replace(script.stem, STEM)
    (root / "slurm" / f"{STEM}.sbatch").write_text(text, encoding="utf-8")
    return root
