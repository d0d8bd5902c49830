"""`make run` with a build of Horovod and an MPI of its own, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from labkit import paths

from tests import environments
from tests.labkit.cluster import job_lab


@pytest.fixture
def checkout_with_builds(checkout, tmp_path, monkeypatch):
    """A checkout with a lab that says what its ranks have; a second build of Horovod, and a second MPI."""
    environment = environments.linked(tmp_path / "venv")
    environments.add_horovod(environment, "nccl")
    environments.add_mpi(environment)
    environments.use(environment, monkeypatch)
    job_lab.build_in(checkout)
    return checkout


@pytest.mark.slow
def test_the_ranks_of_a_run_have_the_builds_asked_for(checkout_with_builds):
    words = ["run", "93", "--np", "2", "--solved", "--horovod", "nccl", "--mpi", "mvapich2"]
    ended = checkout_with_builds.python("-m", "labkit", *words)
    assert ended.returncode == 0, ended.stderr
    [line] = (paths.home() / "solved" / "records" / "93_builds.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["launcher"], entry["ranks"], entry["horovod_build"]) == ("mpiexec", 2, "nccl")
    for total, file, libraries in entry["by_rank"]:
        assert total == 2.0
        assert "/horovod-nccl/horovod/" in file
        assert [Path(library).parts[-3:-1] for library in libraries] == [("mvapich2", "lib")]
