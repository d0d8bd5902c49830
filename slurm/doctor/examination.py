"""`make doctor SITE=x`: does the cluster do what its site file says, and which lab runs there?"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from labkit import cluster, doctor, paths
from labkit.errors import LabError, NotHere

from slurm.doctor import login, trial, verdict
from slurm.doctor.findings import NOTE, OK, UNCHECKED, WRONG, Finding

_MARKS = {OK: "  ok       ", NOTE: "  note     ", WRONG: "  WRONG    ", UNCHECKED: "  unchecked"}
# A user's own format of a tool's columns would hide those that are read here.
_FORMATS = re.compile(r"(SQUEUE|SINFO|SACCT|SCONTROL)_\w+")


def examine(site: str, nodes: int | None = None, patience: float = 120.0) -> int:
    """Look, print each finding as it is known, and return 1 if something is wrong, else 0.

    nodes: of the trial job (default: 2 where there are two). patience: seconds it may wait in the queue.
    """
    begin = time.monotonic()
    if nodes is not None and nodes < 1:
        raise LabError(f"The doctor's job needs 1 node or more; NODES={nodes} makes no sense.")
    env = _environment(site)
    print(f"{site}, by slurm/sites/{site}.sh")
    if _show([login.reach(site, env)]):
        return 1
    wrong = _show(login.look(site, env))
    job = login.plan(env, nodes)
    refused = _show([login.submission(env, job)])
    if refused:
        print("No job was tried, so that the nodes are unchecked. Mend this first.")
        return 1
    wrong += _on_the_nodes(site, env, job, patience)
    many = f"{wrong} thing{'s' * (wrong != 1)}"
    print(f"\n{f'{many} to mend.' if wrong else 'Nothing is wrong.'} ({time.monotonic() - begin:.0f} s)")
    return 1 if wrong else 0


def _on_the_nodes(site: str, env: dict[str, str], job: login.Plan, patience: float) -> int:
    folder = Path(tempfile.mkdtemp(prefix="doctor-", dir=paths.home()))
    try:
        outcome = trial.try_out(env, job, folder, patience)
        wrong = _show(verdict.judge(site, env, job, outcome))
        _show_labs(verdict.labs(env, outcome))
    finally:
        shutil.rmtree(folder)
    return wrong


def _environment(site: str) -> dict[str, str]:
    """What sbatch will see: the site file's variables, and a tabletop's commands even if not sourced."""
    clean = {key: value for key, value in os.environ.items() if not _FORMATS.fullmatch(key)}
    env = cluster.environment(site, clean)
    if site == "tabletop":
        try:
            env["PATH"] = f"{cluster.commands(site)}{os.pathsep}{env.get('PATH', '')}"
        except NotHere:
            return env  # the first finding says so
    return env


def _show(findings: Iterable[Finding]) -> int:
    """Print the findings, each as it comes. The number of those that are wrong."""
    wrong = 0
    for status, sentence in findings:
        print(f"{_MARKS[status]}  {sentence.strip().replace(chr(10), chr(10) + ' ' * 13)}", flush=True)
        wrong += status == WRONG
    return wrong


def _show_labs(found: dict[str, dict]) -> None:
    if not found:
        print("\nWhich labs run on the nodes is unchecked.")
        return
    runs = sum(lab["status"] == doctor.RUNS for lab in found.values())
    doctor.show_labs(found, f"Labs on the nodes: {runs} of {len(found)} run as they are")
