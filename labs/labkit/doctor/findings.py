"""From what the probes said to the doctor's report: facts, what is missing, advice."""

from __future__ import annotations

import os
import platform

from labkit import launch
from labkit.doctor import facts, machine, probe
from labkit.doctor import mpi as doctor_mpi
from labkit.errors import NotHere

# The probe that finds a fact, where its failure is worth telling; the others read files.
_PROBE_OF = {
    "threads.blas": "numpy",
    "threads.torch": "torch",
    "threads.tensorflow": "tensorflow",
    "gpu.devices": "gpu",
    "mpi.family": "mpi",
    "mpi.version": "mpi",
    "mpi.threads": "mpi_init",
}


def versions(found: dict) -> None:
    """What the installed packages say of themselves, and the variables that limit threads."""
    facts.put(found, "versions.python", platform.python_version())
    candidates = {name: (name,) for name in ("torch", "keras", "numpy", "mpi4py", "jupyterlab")}
    candidates["tensorflow"] = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm")
    for name, distributions in candidates.items():
        facts.put(found, f"versions.{name}", machine.version(*distributions))
    facts.put(found, "horovod.version", machine.version("horovod"))
    set_here = {name: os.environ[name] for name in launch.THREAD_VARIABLES if os.environ.get(name)}
    facts.put(found, "threads.variables", set_here)


def fill(found: dict, findings: dict) -> None:
    """Take over what the probes said; a few facts are put together from several of them."""
    for fact in facts.FACTS:
        if findings.get(fact.key) is not None:
            facts.put(found, fact.key, findings[fact.key])
    _fill_mpi(found["mpi"], findings)
    libraries = found["libraries"]
    libraries["cudnn"] = libraries["cudnn"] or findings.get("cudnn.tensorflow")
    wheel = machine.version("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
    libraries["nccl"] = libraries["nccl"] or findings.get("nccl.linker") or (wheel and f"{wheel} (wheel)")
    onednn = [findings.get("onednn.torch")]
    onednn += [f"{findings['onednn.tensorflow']} (TensorFlow)"] if "onednn.tensorflow" in findings else []
    libraries["onednn"] = ", ".join(filter(None, onednn)) or None
    if found["gpu"]["devices"]:
        found["gpu"]["links"] = probe.links(findings.get("gpu.topology", ""))
    for name in ("torch", "tensorflow"):
        built = findings.get(f"horovod.{name}")
        if built is None:
            continue
        horovod = found["horovod"]
        horovod["frameworks"] = [*(horovod["frameworks"] or []), name]
        horovod["controllers"] = [one for one in ("mpi", "gloo") if one in built]
        horovod["operations"] = [one for one in built if one not in ("cuda", "rocm")]


def _fill_mpi(mpi: dict, findings: dict) -> None:
    text = findings.get("mpi.all") or ""
    mpi["family"], mpi["version"] = doctor_mpi.identify(text, findings.get("mpi.mpiname") or "")
    mpi["banner"] = doctor_mpi.banner(text) or None
    together, here = findings.get("mpi.together") or [], probe.loaded_mpi()
    mpi["files"] = max([findings.get("mpi.files") or [], together, here], key=len) or None
    state = doctor_mpi.switch(mpi["family"], os.environ)
    if state:
        mpi["cuda_switch"] = state[1] + (
            ", which this build cannot follow" if mpi["cuda_built"] is False else ""
        )
    try:
        mpi["launcher"] = launch.mpiexec()
    except NotHere:
        mpi["launcher"] = None


def missing(found: dict, reasons: dict[str, str]) -> dict[str, str]:
    """Key -> "not found (for what it would enable): why the probe failed" for every fact that is None."""
    sentences = {}
    for fact in facts.FACTS:
        if facts.get(found, fact.key) is not None:
            continue
        reason = reasons.get(_PROBE_OF.get(fact.key, ""), "")
        if "NVMLError_LibraryNotFound" in reason:  # no driver: nothing to add
            reason = ""
        sentences[fact.key] = f"not found (for {fact.enables})" + (f": {reason}" if reason else "")
    return sentences


def advice(found: dict, reasons: dict[str, str]) -> list[str]:
    """Sentences on what will go wrong here, and the cure."""
    said = doctor_mpi.advice(found, os.environ)
    gpus, operations = found["gpu"]["devices"], found["horovod"]["operations"] or []
    if gpus and found["versions"]["torch"] and not found["libraries"]["cuda_torch"]:
        said.append("There is a GPU, but PyTorch was built for the processor: install its CUDA build.")
    if gpus and operations and "nccl" not in operations:
        said.append(
            "Horovod was built without NCCL: `make setup GPU_OPERATIONS=NCCL` builds it for the GPUs here."
        )
    if found["slurm"]["version"] and not (found["slurm"]["controller"] or found["slurm"]["job"]):
        said.append(
            "srun is installed, but no Slurm controller answers: this machine is not part of a cluster."
        )
    for name in ("torch", "tensorflow"):
        if found["versions"][name] and name in reasons:
            said.append(f"{name} is installed but does not load: {reasons[name]}")
    return said
