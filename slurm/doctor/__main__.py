"""`make doctor SITE=x`: python -m slurm.doctor NAME [--nodes N] [--patience SECONDS]."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from labkit import doctor, paths, world
from labkit.cluster import sites, slurm
from labkit.errors import LabError, counted, exit_status

from slurm.doctor import login, verdict
from slurm.doctor.findings import OK, Finding, show


def main(arguments: list[str] | None = None) -> int:
    """0: nothing is wrong; 1: something is, or the site is unknown; 130: Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="slurm.doctor", description="Check a cluster by its site file."
    )
    parser.add_argument(
        "site", help="its file in slurm/sites/, without .sh; on the cluster's login node"
    )
    parser.add_argument("--nodes", type=int, default=2, help="nodes of the trial job (2)")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds it may wait in the queue (120)"
    )
    options = parser.parse_args(arguments)
    return exit_status(lambda: examine(options.site, options.nodes, options.patience))


def examine(site: str, nodes: int, patience: float) -> int:
    """Look, print each finding as it is known, and return 1 if something is wrong, else 0.

    nodes: of the trial job. patience: seconds it may wait in the queue.
    """
    begin = time.monotonic()
    if nodes < 1:
        raise LabError(f"The doctor's job needs 1 node or more; NODES={nodes} makes no sense.")
    # The trial job gets this, so without the secrets; sbatch itself may need SLURM_JWT.
    kept = (name for name in os.environ if name == "SLURM_JWT" or not world.is_secret(name))
    env = sites.environment(site, {name: os.environ[name] for name in kept})
    print(f"{site}, by slurm/sites/{site}.sh")
    client = slurm.at(site, env)
    show([Finding(OK, f"Slurm {client.version()} answers.")])
    wrong = show(login.misspelt(site, env))
    options = login.job_options(env, nodes)
    if show([login.submission(env, client, options)]):
        print("No job was tried, so that the nodes are unchecked. Mend this first.")
        return 1
    print(
        f"A job is tried now: it may wait {patience:.0f} s, and then runs for a minute or two …",
        flush=True,
    )
    with tempfile.TemporaryDirectory(
        dir=paths.home(), prefix="doctor-", ignore_cleanup_errors=True
    ) as folder:
        outcome = login.try_out(client, options, Path(folder), patience)
    wrong += show(verdict.judge(site, env, nodes, outcome))
    labs = verdict.labs(env, outcome)
    if labs:
        runs = sum(lab["status"] == doctor.RUNS for lab in labs.values())
        doctor.show_labs(labs, f"Labs on the nodes: {runs} of {len(labs)} run as they are")
    else:
        print("\nWhich labs run on the nodes is unchecked.")
    result = f"{counted(wrong, 'thing')} to mend." if wrong else "Nothing is wrong."
    print(f"\n{result} ({time.monotonic() - begin:.0f} s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
