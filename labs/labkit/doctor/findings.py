"""What this machine and site really have, and which lab runs here: the doctor's report. Lab 00
reads it.

Nothing fails because something is missing: what was not found is said with what it would enable.
What might crash or hang is asked in processes of its own, all at once, with a time limit.
"""

from __future__ import annotations

import re
import time

from labkit import builds, labfile, launch, mpis, paths
from labkit.doctor import facts, fitness, processes

_report: dict | None = None  # of this process


def report(*, fresh: bool = False, limit: float = 60.0) -> dict:
    """Everything found, as plain data: report()["mpi"]["version"] is "5.0.2", or None where it was
    not found.

    Groups and keys: FACTS of labkit/doctor/facts.py. Beside them: "missing" (key -> sentence),
    "advice" (sentences on what will go wrong), "labs" (stem -> {"status", "sentence", "needs",
    "ranks", "minutes"}), "seconds" (that this took). The first call takes a few seconds, later ones
    in the same process return the same report; `fresh=True` looks again. `limit`: seconds after
    which a probe without an answer is given up.
    """
    global _report
    if _report is None or fresh:
        _report = _examine(limit)
    return _report


def _examine(limit: float) -> dict:
    begin = time.perf_counter()
    report = facts.empty()
    started = processes.start()
    try:
        for fact in facts.FACTS:
            if fact.here:
                facts.put(report, fact.key, fact.here())
    finally:
        said, reasons = processes.collect(started, limit)
    for fact in facts.FACTS:
        if not fact.here:
            value = fact.told(said, report) if fact.told else said.get(fact.key)
            facts.put(report, fact.key, value)
    report["missing"] = _missing(report, reasons)
    report["advice"] = advice(report, reasons)
    report["labs"] = {}
    for stem, header in labfile.headers(paths.root()).items():
        status, sentence = fitness.judge(header, report)
        report["labs"][stem] = {"status": status, "sentence": sentence, **header._asdict()}
    report["seconds"] = round(time.perf_counter() - begin, 1)
    return report


def _missing(report: dict, reasons: dict[str, str]) -> dict[str, str]:
    """Key -> "not found (for what it would enable): why the probe failed" for every fact that is
    None."""
    sentences = {}
    for fact in facts.FACTS:
        if facts.get(report, fact.key) is not None:
            continue
        reason = reasons.get(fact.probe, "")
        if "NVMLError_LibraryNotFound" in reason:  # no driver: nothing to add
            reason = ""
        sentences[fact.key] = f"not found (for {fact.enables})" + (f": {reason}" if reason else "")
    return sentences


def advice(report: dict, reasons: dict[str, str]) -> list[str]:
    """Sentences on what will go wrong here, and the cure; what concerns MPI first."""
    sentences = advice_on_mpi(report)
    gpus = report["gpu"]["devices"]
    works = report["gpu"]["works"]
    operations = report["horovod"]["operations"] or []
    if gpus and report["versions"]["torch"] and not report["libraries"]["cuda_torch"]:
        sentences.append(
            "There is a GPU, but PyTorch was built for the processor: install its CUDA build."
        )
    if works not in (None, "yes"):
        sentences.append(
            f"There is a GPU, but PyTorch cannot compute on it ({works}). Install a driver and a"
            " PyTorch that fit it, or keep the labs on the processor: `export"
            " CUDA_VISIBLE_DEVICES=`."
        )
    if gpus and operations and "nccl" not in operations:
        if "nccl" in builds.horovod_builds():
            cure = "HOROVOD=nccl (make run, make submit, launch.run) chooses the build that has it"
        else:
            cure = "`make setup GPU_OPERATIONS=NCCL` makes a build that has it"
        sentences.append(f"The build of Horovod in use has no NCCL for the GPUs here: {cure}.")
    if report["slurm"]["version"] and not (report["slurm"]["controller"] or report["slurm"]["job"]):
        sentences.append(
            "srun is installed, but no Slurm controller answers: this machine is not part of a"
            " cluster."
        )
    gap = launch.loopback_gap()
    if gap:
        sentences.append(gap)
    for name in ("torch", "tensorflow"):
        if report["versions"][name] and name in reasons:
            sentences.append(f"{name} is installed but does not load: {reasons[name]}")
    return sentences


def advice_on_mpi(report: dict) -> list[str]:
    """Sentences on what will go wrong with this MPI, most important first."""
    mpi = report["mpi"]
    sentences = []
    files = mpi["files"] or []
    if len(files) > 1:
        sentences.append(
            f"Two MPI libraries meet in one process: {' and '.join(files)}. Horovod and mpi4py must"
            " use the same one: put one MPI's lib folder first in LD_LIBRARY_PATH, or build again"
            " with `make setup` and MPI_HOME."
        )
    if mpi["threads"] not in (None, "MPI_THREAD_MULTIPLE"):
        sentences.append(mpis.thread_advice(mpi["family"], mpi["threads"]))
    state = facts.gpu_switch(report)
    if mpi["cuda_built"] and report["gpu"]["devices"] and state and not state[0]:
        name = re.match(r"\w+", state[1])[0]
        sentences.append(
            f"This MPI was built for GPU memory, but that is switched off: set {name}=1."
        )
    return sentences
