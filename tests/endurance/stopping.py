"""What the tests that tests.endurance.sigterm stops have in common: ranks and a cluster that run for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit import launch

from slurm import tabletop

FOLDER = Path(
    os.environ.get("ENDURANCE_FOLDER", ".")
)  # a file there says that the ranks, or the cluster, are up


def run_ranks() -> None:
    """Two ranks, each with a child and a daemon."""
    launch.run(rest, FOLDER / "ranks", ranks=2, timeout=900)


def rest(file: Path) -> None:
    import subprocess
    import time

    subprocess.Popen(["sleep", "1000"]).returncode = 0
    subprocess.Popen(["sleep", "1000"], start_new_session=True).returncode = 0
    file.touch()
    time.sleep(1000)


@contextmanager
def cluster(home: Path) -> Iterator[tabletop.Tabletop]:
    """A tabletop cluster on which a job runs."""
    with tabletop.up("stopped", home=home) as table:
        table.run(["sbatch", "-N2", "-o", "/dev/null", "--wrap", "srun sleep 300"])
        while not table.run(["squeue", "-h", "-t", "running"]).stdout.strip():
            time.sleep(0.1)
        (FOLDER / "table").touch()
        yield table
