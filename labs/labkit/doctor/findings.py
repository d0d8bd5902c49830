"""What this machine and site really have, and which lab runs here: the doctor's report. Lab 00 reads it.

Nothing fails because something is missing: what was not found is said with what it would enable. What might
crash or hang is asked in processes of its own, all at once, with a time limit.
"""

from __future__ import annotations

import os
import platform
import time

from labkit import builds, labfile, launch, paths
from labkit.doctor import facts, fitness, machine, nvidia, tensors
from labkit.doctor import mpi as doctor_mpi
from labkit.errors import LabError, NotHere

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

_report: dict | None = None  # of this process


def report(*, fresh: bool = False, limit: float = 60.0) -> dict:
    """Everything found, as plain data: report()["mpi"]["version"] is "5.0.2", or None where it was not found.

    Groups and keys: FACTS of labkit/doctor/facts.py. Beside them: "missing" (key -> sentence), "advice"
    (sentences on what will go wrong), "labs" (stem -> {"status", "sentence", "needs", "ranks", "minutes"}),
    "seconds" (that this took). The first call takes a few seconds, later ones in the same process return the
    same report; `fresh=True` looks again. `limit`: seconds after which a probe without an answer is given up.
    """
    global _report
    if _report is None or fresh:
        _report = _examine(limit)
    return _report


def require(names: str) -> None:
    """Raise NotHere that names what is missing of `names`, a comma list of needs as in a lab's header."""
    wanted = tuple(word.strip() for word in names.split(",") if word.strip())
    known = ("cpu", "mpi", "horovod", "torch", "tensorflow", "slurm", "gpu", "nccl")
    for word in wanted:
        if word not in known:
            raise LabError(f"--require knows {', '.join(known)}, but not {word!r}.")
    missing, reduced = fitness.lacking(labfile.Header(wanted, 1, 0), report())
    if missing or reduced:
        raise NotHere("Missing here: " + " ".join(missing + reduced))


def _examine(limit: float) -> dict:
    begin = time.perf_counter()
    report = facts.empty()
    started = machine.start()
    try:
        machine.machine(report)
        machine.network(report)
        machine.slurm(report)
        facts.put(report, "libraries.cuda_toolkit", machine.toolkit())
        _versions(report)
        _builds(report)
    finally:
        answers, reasons = machine.collect(started, limit)
    _fill(report, answers)
    report["missing"] = _missing(report, reasons)
    report["advice"] = _advice(report, reasons)
    report["labs"] = {}
    for stem, header in labfile.headers(paths.root()).items():
        status, sentence = fitness.judge(header, report)
        report["labs"][stem] = {"status": status, "sentence": sentence, **header._asdict()}
    report["seconds"] = round(time.perf_counter() - begin, 1)
    return report


def _versions(report: dict) -> None:
    """What the installed packages say of themselves, and the variables that limit threads."""
    facts.put(report, "versions.python", platform.python_version())
    candidates = {name: (name,) for name in ("torch", "keras", "numpy", "mpi4py", "jupyterlab")}
    candidates["tensorflow"] = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm")
    for name, distributions in candidates.items():
        facts.put(report, f"versions.{name}", machine.version(*distributions))
    facts.put(report, "horovod.version", machine.version("horovod"))
    set_here = {name: os.environ[name] for name in launch.THREAD_VARIABLES if os.environ.get(name)}
    facts.put(report, "threads.variables", set_here)


def _builds(report: dict) -> None:
    """The builds of Horovod and of MPI that stand side by side: "host (default): .venv/lib/…"."""
    sides = (
        ("mpi.builds", builds.mpi_builds(), builds.own_mpi()),
        ("horovod.builds", builds.horovod_builds(), builds.default_horovod()),
    )
    for key, folders, default in sides:
        lines = [
            f"{name}{' (default)' if name == default else ''}: {paths.shown(folder)}"
            for name, folder in folders.items()
        ]
        facts.put(report, key, lines or None)


def _fill(report: dict, answers: dict) -> None:
    """Take over what the probes said; a few facts are put together from several of them."""
    for fact in facts.FACTS:
        if answers.get(fact.key) is not None:
            facts.put(report, fact.key, answers[fact.key])
    _fill_mpi(report["mpi"], answers)
    libraries = report["libraries"]
    libraries["cudnn"] = libraries["cudnn"] or answers.get("cudnn.tensorflow")
    wheel = machine.version("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
    libraries["nccl"] = libraries["nccl"] or answers.get("nccl.linker") or (wheel and f"{wheel} (wheel)")
    onednn = [answers.get("onednn.torch")]
    if "onednn.tensorflow" in answers:
        onednn.append(f"{answers['onednn.tensorflow']} (TensorFlow)")
    libraries["onednn"] = ", ".join(filter(None, onednn)) or None
    if report["gpu"]["devices"]:
        report["gpu"]["links"] = nvidia.links(answers.get("gpu.topology", ""))
    for name in ("torch", "tensorflow"):
        built = answers.get(f"horovod.{name}")
        if built is None:
            continue
        horovod = report["horovod"]
        horovod["frameworks"] = [*(horovod["frameworks"] or []), name]
        horovod["controllers"] = [library for library in ("mpi", "gloo") if library in built]
        horovod["operations"] = [library for library in built if library not in ("cuda", "rocm")]
    if report["gpu"]["devices"] and report["mpi"]["family"]:
        report["mpi"]["gpu_tensors"] = tensors.by_mpi(report["mpi"], os.environ)
        built = answers.get("horovod.torch")
        if built is not None:
            words = tensors.by_horovod(built, builds.current_horovod(), report["mpi"]["gpu_tensors"])
            report["horovod"]["gpu_tensors"] = words


def _fill_mpi(mpi: dict, answers: dict) -> None:
    text = answers.get("mpi.all") or ""
    mpi["family"], mpi["version"] = doctor_mpi.identify(text, answers.get("mpi.mpiname") or "")
    mpi["banner"] = doctor_mpi.banner(text) or None
    seen = [answers.get("mpi.files") or [], answers.get("mpi.together") or [], doctor_mpi.loaded_mpi()]
    mpi["files"] = max(seen, key=len) or None
    settings = doctor_mpi.parameters(os.environ, mpi["files"] or [])
    state = doctor_mpi.switch(mpi["family"], settings, mpi["version"])
    if state:
        cannot = ", which this build cannot follow" if mpi["cuda_built"] is False else ""
        mpi["cuda_switch"] = state[1] + cannot
    try:
        mpi["launcher"] = launch.mpiexec()
    except NotHere:
        mpi["launcher"] = None


def _missing(report: dict, reasons: dict[str, str]) -> dict[str, str]:
    """Key -> "not found (for what it would enable): why the probe failed" for every fact that is None."""
    sentences = {}
    for fact in facts.FACTS:
        if facts.get(report, fact.key) is not None:
            continue
        reason = reasons.get(_PROBE_OF.get(fact.key, ""), "")
        if "NVMLError_LibraryNotFound" in reason:  # no driver: nothing to add
            reason = ""
        sentences[fact.key] = f"not found (for {fact.enables})" + (f": {reason}" if reason else "")
    return sentences


def _advice(report: dict, reasons: dict[str, str]) -> list[str]:
    """Sentences on what will go wrong here, and the cure."""
    sentences = doctor_mpi.advice(report, os.environ)
    gpus = report["gpu"]["devices"]
    operations = report["horovod"]["operations"] or []
    if gpus and report["versions"]["torch"] and not report["libraries"]["cuda_torch"]:
        sentences.append("There is a GPU, but PyTorch was built for the processor: install its CUDA build.")
    if gpus and operations and "nccl" not in operations:
        if "nccl" in builds.horovod_builds():
            cure = "HOROVOD=nccl (make run, make submit, launch.run) chooses the build that has it"
        else:
            cure = "`make setup GPU_OPERATIONS=NCCL` makes a build that has it"
        sentences.append(f"The build of Horovod in use has no NCCL for the GPUs here: {cure}.")
    if report["slurm"]["version"] and not (report["slurm"]["controller"] or report["slurm"]["job"]):
        sentences.append(
            "srun is installed, but no Slurm controller answers: this machine is not part of a cluster."
        )
    gap = launch.loopback_gap()
    if gap:
        sentences.append(gap)
    for name in ("torch", "tensorflow"):
        if report["versions"][name] and name in reasons:
            sentences.append(f"{name} is installed but does not load: {reasons[name]}")
    return sentences
