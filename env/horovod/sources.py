"""Horovod 0.28.1's sources as this kit builds them: what is taken out, patched and added.

Each patch has its reasons above its hunks, and is applied without fuzz: sources other than those
that it was written for are refused.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from env.install.steps import Step

HERE = Path(__file__).resolve().parent
FOR_CUDA = "5-cuda.patch"  # only where PyTorch was built with CUDA
# All that serves ranks over a network, and what cannot work without it.
REMOVED = ("horovod/runner", "horovod/ray", "horovod/spark", "horovod/tensorflow/data")
# Files of ours that join the wheel: their place there -> their name here.
ADDED = {
    "horovod/_keras/keras3.py": "keras3.py",
    "horovod/runner/__init__.py": "runner.py",
    "horovod/runner/launch.py": "horovodrun.py",
}


def patches(cuda_torch: bool) -> list[Path]:
    """The patches in the order in which they are applied."""
    every = sorted((HERE / "patches").glob("*.patch"))
    return [patch for patch in every if cuda_torch or patch.name != FOR_CUDA]


def prepare(step: Step, root: Path, cuda_torch: bool) -> list[str]:
    """Change the sources under `root`; the patches' names. Raises StepFailed when one does not
    fit."""
    for folder in REMOVED:
        shutil.rmtree(root / folder)
    names = []
    for patch in patches(cuda_torch):
        step.run(["patch", "-p1", "--fuzz=0", "--batch", "-i", patch], cwd=root)
        names.append(patch.stem)
    for target, name in ADDED.items():
        (root / target).parent.mkdir(exist_ok=True)
        shutil.copyfile(HERE / name, root / target)
    return names


def digest(cuda_torch: bool) -> str:
    """A fingerprint of all that is changed: part of the key of the cached wheel."""
    files = [*patches(cuda_torch), *(HERE / name for name in ADDED.values())]
    parts = [f"{file.name}\0{file.read_text(encoding='utf-8')}" for file in files]
    return hashlib.sha256("\0".join([*REMOVED, *ADDED, *parts]).encode()).hexdigest()
