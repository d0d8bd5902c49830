"""`make run` with a build of Horovod and an MPI of its own, as a user runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from labkit import paths

from tests import environments
from tests.labkit.cluster import job_lab

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.mark.slow
def test_a_run_of_one_process_has_them_as_well(checkout_with_builds):
    words = ["run", "93", "--solved", "--horovod", "nccl", "--set", "wish=host"]
    ended = checkout_with_builds.python("-m", "labkit", *words)
    assert ended.returncode == 0, ended.stderr
    [line] = (paths.home() / "solved" / "records" / "93_builds.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert entry["horovod_build"] == "nccl", "of the process that wrote the record"
    assert all("/site-packages/horovod/" in file for _, file, _ in entry["by_rank"]), "as its ranks asked for"


def test_builds_that_are_not_there_are_a_sentence(built):
    for words, says in (
        (["--horovod", "rccl"], "Horovod has no build 'rccl'; its builds are host, nccl, mpi"),
        (["--mpi", "lam"], "There is no build 'lam' of MPI (here: mpich"),
    ):
        ended = built.python("-m", "labkit", "run", "90", *words)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1), ended
        assert says in ended.stderr


@pytest.mark.parametrize("verb", ["run", "submit", "scaling"])
def test_make_passes_on_what_is_typed_and_nothing_of_the_environment(verb):
    def command(*words: str, **environ: str) -> str:
        done = subprocess.run(
            ["make", "-n", verb, "LAB=40", *words],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", **environ},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()[-1]

    typed = command("HOROVOD=nccl", "MPI=mvapich2", "ENV=A=1 B='x y'")
    assert "--horovod nccl --mpi mvapich2" in typed
    assert ("--env A=1 B='x y'" in typed) == (verb != "run")
    plain = command(HOROVOD="x", MPI="/opt/mpi", ENV="~/.kshrc")
    assert not {"--horovod", "--mpi", "--env"} & set(plain.split())
