"""Lab 42 as a job on two nodes, over MPICH and, where it is built or its source is at hand, over
MVAPICH2."""

from __future__ import annotations

import os
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from labkit import builds, cluster

from slurm import tabletop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(
    os.environ.get("MVAPICH2_SOURCE") or ROOT.parent / "shared/data/mvapich2-2.3.7.tar.xz"
)
SMALL = import_module("tests.labs.wrong_answers.42_horovod_mvapich2_gdr").SMALL


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    with tabletop.up("lab42", nodes=2, home=tmp_path_factory.mktemp("tabletop")) as running:
        yield running


def build_mvapich2() -> None:
    """As `make mvapich2` does, from the source that is at hand; out of the user's cache, once it is
    there."""
    if not SOURCE.exists():
        pytest.skip(
            "MVAPICH2 is not here: `make mvapich2` builds it; nor is its source"
            " (MVAPICH2_SOURCE=file)"
        )
    env = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    command = ["bash", "env/mvapich2/build.sh", f"--source={SOURCE}"]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("mpi", "library"), [(None, "MPICH "), ("mvapich2", "MVAPICH2 2.3.7")])
def test_a_job_of_lab_42_is_carried_by_its_mpi(table, mpi, library, monkeypatch, tmp_path):
    if mpi and mpi not in builds.mpi_builds():
        build_mvapich2()
    for name, value in table.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    job = cluster.submit("42", nodes=2, settings=SMALL, solved=True, mpi=mpi)
    job.wait(1200)
    steps = job.records("step")
    assert list(steps["way"]) == ["fused", "unfused"]
    assert set(steps["nodes"]) == {2}
    assert set(steps["ranks"]) == {2}
    assert set(steps["carried_by"]) == {"MPI_ALLREDUCE"}
    assert all(name.startswith(library) for name in steps["mpi"])
    levels = job.records("thread level")
    assert set(levels["level"]) == {"MULTIPLE"}
