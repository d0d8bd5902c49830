"""`make doctor SITE=x`: python -m slurm.doctor NAME [--nodes N] [--patience SECONDS]."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from labkit import doctor, paths, world
from labkit.cluster import sites, slurm
from labkit.errors import LabError, exit_status

from slurm.doctor import login, trial, verdict
from slurm.doctor.findings import OK, WRONG, Finding, show, some


def main(arguments: list[str] | None = None) -> int:
    """0: nothing is wrong; 1: something is, or the site is unknown; 130: Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="slurm.doctor", description="Check a cluster by its site file."
    )
    parser.add_argument(
        "site", help="its file in slurm/sites/, without .sh; on the cluster's login node"
    )
    parser.add_argument("--nodes", type=int, help="nodes of the trial job (default 2)")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds it may wait in the queue (120)"
    )
    options = parser.parse_args(arguments)
    return exit_status(lambda: examine(options.site, options.nodes, options.patience))


def examine(site: str, nodes: int | None, patience: float) -> int:
    """Look, print each finding as it is known, and return 1 if something is wrong, else 0.

    nodes: of the trial job (None: 2). patience: seconds it may wait in the queue.
    """
    begin = time.monotonic()
    if nodes is not None and nodes < 1:
        raise LabError(f"The doctor's job needs 1 node or more; NODES={nodes} makes no sense.")
    # The trial job gets this, so without the secrets; sbatch itself may need SLURM_JWT.
    kept = (name for name in os.environ if name == "SLURM_JWT" or not world.is_secret(name))
    env = sites.environment(site, {name: os.environ[name] for name in kept})
    print(f"{site}, by slurm/sites/{site}.sh")
    try:
        client = slurm.at(site, env)
        show([Finding(OK, f"Slurm {client.version()} answers.")])
    except slurm.Failed as failed:
        cure = f"Do this on the login node of {site}."
        if site == "tabletop":
            cure = "`make tabletop` starts it."
        show([Finding(WRONG, f"Slurm does not answer: {failed.reason}. {cure}")])
        return 1
    wrong = show(login.look(site, env, client))
    job = trial.plan(env, nodes)
    if show([login.submission(env, client, job)]):
        print("No job was tried, so that the nodes are unchecked. Mend this first.")
        return 1
    print(
        f"A job is tried now: it may wait {patience:.0f} s, and then runs for a minute or two …",
        flush=True,
    )
    wrong += _try_out(site, env, client, job, patience)
    result = f"{some([wrong], 'thing')} to mend." if wrong else "Nothing is wrong."
    print(f"\n{result} ({time.monotonic() - begin:.0f} s)")
    return 1 if wrong else 0


def _try_out(
    site: str, env: dict[str, str], client: slurm.Client, job: trial.Plan, patience: float
) -> int:
    folder = Path(tempfile.mkdtemp(prefix="doctor-", dir=paths.home()))
    try:
        outcome = trial.try_out(client, job, folder, patience)
    finally:
        shutil.rmtree(folder)
    wrong = show(verdict.judge(site, env, job, outcome))
    labs = verdict.labs(env, outcome)
    if labs:
        runs = sum(lab["status"] == doctor.RUNS for lab in labs.values())
        doctor.show_labs(labs, f"Labs on the nodes: {runs} of {len(labs)} run as they are")
    else:
        print("\nWhich labs run on the nodes is unchecked.")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
