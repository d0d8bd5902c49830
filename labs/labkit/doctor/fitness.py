"""For each lab: does it run here, does it run reduced, or what does it need? From its header
alone."""

from __future__ import annotations

from labkit.errors import counted
from labkit.labfile import Header

RUNS, REDUCED, NEEDS = "runs here", "runs reduced", "needs"


def judge(header: Header, report: dict) -> tuple[str, str]:
    """(RUNS, REDUCED or NEEDS; a sentence that says how or what)."""
    missing = list(filter(None, [_missing(need, header, report) for need in header.needs]))
    reduced = list(filter(None, [_reduced(need, report) for need in header.needs]))
    if missing:
        return NEEDS, " ".join(missing)
    if reduced:
        return REDUCED, " ".join(reduced)
    cores = report["machine"]["cores"]
    gpus = 0 if _unusable(report) else len(report["gpu"]["devices"] or ())
    if header.ranks > cores:
        return (
            RUNS,
            f"{header.ranks} ranks share {counted(cores, 'core')}: right, but slower than apart.",
        )
    if gpus and ("torch" in header.needs or "horovod" in header.needs):
        return RUNS, f"On {counted(gpus, 'GPU')}."
    return RUNS, f"On {counted(cores, 'core')}."


def _unusable(report: dict) -> bool:
    """Is it known that PyTorch cannot compute on the GPUs?"""
    return report["gpu"]["works"] not in (None, "yes")


def _missing(need: str, header: Header, report: dict) -> str | None:
    frameworks = report["horovod"]["frameworks"] or []
    if need == "mpi" and not (report["mpi"]["version"] and report["mpi"]["launcher"]):
        return (
            "An MPI with mpiexec: `make setup` installs MPICH; on a cluster load the site's module."
        )
    if need == "mpi" and not report["versions"]["mpi4py"]:
        return "mpi4py: `make setup` installs it."
    if need == "horovod":
        wanted = [
            name
            for name in ("torch", "tensorflow")
            if name in header.needs and name not in frameworks
        ]
        if not frameworks:
            return "Horovod: `make setup` builds it."
        if wanted:
            return (
                f"Horovod for {' and '.join(wanted)}: `make setup` builds it where that is"
                " installed."
            )
    if need in ("torch", "tensorflow") and report["threads"][need] is None:
        name = {"torch": "PyTorch", "tensorflow": "TensorFlow"}[need]
        installed = report["versions"][need]
        return (
            f"A {name} that can be imported." if installed else f"{name}: `make setup` installs it."
        )
    if need == "slurm" and not (report["slurm"]["job"] or report["slurm"]["controller"]):
        return "Slurm: a login node of a cluster, or a job on it."
    return None


def _reduced(need: str, report: dict) -> str | None:
    if need in ("gpu", "nccl") and not report["gpu"]["devices"]:
        return {
            "gpu": "No GPU: it runs on the processor.",
            "nccl": "No GPU: other collectives stand in for NCCL.",
        }[need]
    if need == "gpu" and not report["libraries"]["cuda_torch"]:
        return "There is a GPU, but this PyTorch was built for the processor."
    if need in ("gpu", "nccl") and _unusable(report):
        return "There is a GPU, but PyTorch cannot compute on it."
    if need == "nccl" and not report["libraries"]["nccl"]:
        return "There is a GPU, but no NCCL: other collectives stand in for it."
    return None
