"""Builds of Horovod side by side in one environment, of which each process uses one.

    host   always; on a GPU machine compiled with CUDA, so that it sends GPU tensors through host
           memory
    nccl   HOROVOD_GPU_OPERATIONS=NCCL
    mpi    HOROVOD_GPU_OPERATIONS=MPI, for an MPI that takes GPU memory

`host` lies in site-packages, the others in folders beside it: PYTHONPATH=folder chooses one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from env.install.environment import pip, site_packages
from env.install.steps import Step, StepFailed

OPERATIONS = {"host": "", "nccl": "NCCL", "mpi": "MPI"}
DEFAULT = "host"
LIST = "horovod-builds.json"
METADATA = "horovod/metadata.json"


def wanted(operations: str) -> list[str]:
    """The flavours for a GPU_OPERATIONS such as "NCCL MPI". Raises StepFailed for another word."""
    words = operations.split()
    unknown = [word for word in words if word not in OPERATIONS.values()]
    if unknown:
        raise StepFailed(
            f"GPU_OPERATIONS={operations}: {unknown[0]} is unknown",
            'Use GPU_OPERATIONS=NCCL, or GPU_OPERATIONS="NCCL MPI" for one more build, which hands'
            " GPU tensors to a CUDA-aware MPI, or GPU_OPERATIONS=none on a machine without GPUs.",
        )
    return [name for name, operation in OPERATIONS.items() if name == DEFAULT or operation in words]


def folder(venv: Path, flavour: str) -> Path:
    """The folder that holds this build's package `horovod`."""
    site = site_packages(venv)
    return site if flavour == DEFAULT else site.with_name(f"horovod-{flavour}")


def is_installed(place: Path, wheel: Path) -> bool:
    """True when the Horovod in that folder comes from this very file (pip notes where one came
    from)."""
    notes = place.glob("horovod-*.dist-info/direct_url.json")
    return any(
        json.loads(note.read_text(encoding="utf-8"))["url"] == wheel.as_uri() for note in notes
    )


def install(step: Step, venv: Path, flavour: str, wheel: Path) -> None:
    """Put the wheel into the flavour's folder, unless it is there."""
    place = folder(venv, flavour)
    if is_installed(place, wheel):
        return
    if flavour == DEFAULT:
        step.run([*pip(venv), "install", "--no-deps", "--force-reinstall", wheel])
        return
    shutil.rmtree(place, ignore_errors=True)
    step.run([*pip(venv), "install", "--no-deps", "--target", place, wheel])


def keep_only(venv: Path, names: list[str]) -> None:
    """Remove the builds that are no longer asked for, and write the list of those that are here."""
    places = {name: folder(venv, name) for name in names}
    for place in venv.glob("lib/python3.*/horovod-*"):
        if place not in places.values():
            shutil.rmtree(place)
    folders = {name: str(place.relative_to(venv)) for name, place in places.items()}
    text = json.dumps({"default": DEFAULT, "folders": folders}, indent=1)
    (venv / LIST).write_text(text + "\n", encoding="utf-8")


def all_there(venv: Path) -> bool:
    """True when there is a list, and each build on it is in its folder."""
    try:
        folders = json.loads((venv / LIST).read_text(encoding="utf-8"))["folders"].values()
    except (OSError, ValueError, KeyError):
        return False
    return all((venv / place / METADATA).exists() for place in folders)
