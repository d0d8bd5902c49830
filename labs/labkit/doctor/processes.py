"""Runs the probes as processes, all at once and with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit import mpis, noise, world
from labkit.errors import NotHere

PROBES = ("numpy", "torch", "tensorflow", "mpi", "mpi_init", "gpu", "nccl")


def start(names: tuple[str, ...] = PROBES) -> dict:
    """Start these probes; `collect` waits for them and must be called, it ends them all."""
    return {name: _start(name) for name in names}


def collect(started: dict, limit: float = 60.0) -> tuple[dict, dict[str, str]]:
    """(findings by key, reason by probe that failed). Waits `limit` seconds at most, for all
    together.

    Of two probes that say the same key the first is heard.
    """
    findings = {}
    reasons = {}
    deadline = time.monotonic() + limit
    try:
        for name, (process, out, err) in started.items():
            reason = _wait(process, deadline, limit)
            out.seek(0)
            err.seek(0)
            findings = parse_findings(out.read()) | findings
            if reason:
                lines = [line for line in err.read().splitlines() if line.strip()]
                reasons[name] = lines[-1].strip() if lines and reason == "failed" else reason
    finally:
        for process, out, err in started.values():
            _end(process)
            out.close()
            err.close()
    return findings, reasons


def _start(name: str):
    # No launcher's variables: an MPI_Init in there must not join the job that the doctor itself
    # runs in.
    env = {**noise.SETTINGS, **world.clean_env()}
    env["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[2]), env.get("PYTHONPATH")])
    )
    out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the probe
    err = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
    command = [sys.executable, "-m", "labkit.doctor.probe", name]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True
    )
    return process, out, err


def _wait(process: subprocess.Popen, deadline: float, limit: float) -> str:
    """ "" when it ended well, else why not."""
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"no answer within {limit:g} s"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return "failed" if code else ""


def _end(process: subprocess.Popen) -> None:
    """End the probe and whatever it has started (it leads a process group of its own)."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def parse_findings(text: str) -> dict:
    """Key -> value of the lines that a probe printed; a line cut off by a crash is left out."""
    findings = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            finding = json.loads(line)
            findings[finding["key"]] = finding["value"]
    return findings


def which_mpi(limit: float = 20.0) -> mpis.Library:
    """The MPI that a rank would load here, asked in a process of its own. NotHere with the reason
    if none."""
    findings, reasons = collect(start(("mpi",)), limit)
    if "mpi.files" not in findings:
        raise NotHere(reasons.get("mpi", "no answer"))
    return mpis.Library(*(findings[f"mpi.{name}"] for name in mpis.Library._fields))
