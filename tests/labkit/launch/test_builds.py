"""launch.run, `labkit run` and `mpiexec` with builds of Horovod and MPI: what real ranks have
loaded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from labkit import builds, launch, paths, record, world

from tests import environments
from tests.labkit.cluster import job_lab
from tests.labkit.launch.leftovers import failed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
PATIENCE = 400  # seconds, where other tests keep the cores busy
# A script, [horovod=NAME] [mpi=NAME]: `launch.run` with a wish.
JOB = """
import json, sys
from labkit import lab, launch, world
from tests.labkit.launch.test_builds import of_this_rank

lab.start("00_check_environment")
results = launch.run(of_this_rank, ranks=2, **dict(word.split("=") for word in sys.argv[1:]))
if world.is_root():
    print("RESULT", json.dumps(results))
"""


def of_this_rank() -> dict:
    """Horovod's file and sum, the MPI libraries that are loaded, and what a record says."""
    import horovod
    import horovod.torch as hvd
    import torch
    from labkit import mpis
    from mpi4py import MPI

    hvd.init()
    return {
        "sum": hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist(),
        "size": MPI.COMM_WORLD.size,
        "horovod": horovod.__file__,
        "libraries": mpis.loaded(),
        **builds.in_use(),
    }


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """This environment with a second build of Horovod, and a second MPI."""
    folder = environments.linked(tmp_path_factory.mktemp("builds") / "venv")
    environments.add_horovod(folder, "nccl")
    environments.add_mpi(folder)
    return folder


@pytest.fixture
def here(environment, monkeypatch) -> Path:
    environments.use(environment, monkeypatch)
    return environment


def on_two_ranks(results: list[dict], horovod: Path, libmpi: Path) -> bool:
    """Did both ranks add up over MPI, with this build of Horovod and this one libmpi?"""
    for result in results:
        assert result["sum"] == [2.0, 2.0], result
        assert result["size"] == 2, result
        assert Path(result["horovod"]).samefile(horovod / "horovod" / "__init__.py"), result
        assert [Path(file).samefile(libmpi) for file in result["libraries"]] == [True], result
    return len(results) == 2


VARIABLES = {"LABKIT_HOROVOD": "nccl", "LABKIT_MPI_BUILD": "mvapich2"}


@pytest.mark.parametrize(
    ("variables", "wishes", "horovod", "mpi"),
    [
        ({}, {}, "host", ""),
        ({}, {"mpi": "mvapich2", "horovod": "nccl"}, "nccl", "mvapich2"),
        (VARIABLES, {}, "nccl", "mvapich2"),
        (VARIABLES, {"horovod": "host", "mpi": "mpich"}, "host", ""),
    ],
)
def test_two_ranks_have_the_builds_that_were_wished(
    here, monkeypatch, variables, wishes, horovod, mpi
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    results = launch.run(of_this_rank, ranks=2, timeout=PATIENCE, **wishes)
    libmpi = here / mpi / "lib" / "libmpi.so.12"
    assert on_two_ranks(results, builds.horovod_builds()[horovod], libmpi)
    assert {result["horovod_build"] for result in results} == {horovod}
    copied = f"MPICH {metadata.version('mpich')}"
    assert {result["mpi"] for result in results} == {copied}


def test_what_a_rank_starts_has_its_build_too(here):
    def of_a_child():
        child = [sys.executable, "-c", "import horovod; print(horovod.__file__)"]
        return subprocess.run(child, capture_output=True, text=True, check=True).stdout.strip()

    file = str(builds.horovod_builds()["nccl"] / "horovod" / "__init__.py")
    assert launch.run(of_a_child, ranks=1, horovod="nccl", timeout=PATIENCE) == [file]
    names = ("LABKIT_HOROVOD", "LABKIT_MPI_BUILD", "MPI4PY_MPIABI")
    assert launch.run(lambda: [name for name in names if name in os.environ], ranks=1) == [[]]


def test_what_a_rank_loads_in_spite_of_its_wish_is_named(here):
    def spoil():
        sys.path.insert(0, str(builds.horovod_builds()["nccl"]))
        import horovod  # noqa: F401 - of another build than this rank was given

    said = str(failed(spoil, ranks=2, horovod="host"))
    assert re.search("given the build 'host' of Horovod .*, but would import nccl", said)
    env = {"LD_LIBRARY_PATH": "", "MPI4PY_MPIABI": "mpich"}
    said = str(failed(of_this_rank, ranks=1, mpi="mvapich2", env=env))
    assert re.search("build 'mvapich2' of MPI .*, but has loaded .*/libmpi.so.12", said)


def test_a_lab_that_is_run_by_a_command_has_the_builds_asked_for(here, checkout):
    job_lab.build_in(checkout)
    words = ["run", "93", "--np", "2", "--solved", "--horovod", "nccl", "--mpi", "mvapich2"]
    ended = checkout.python("-m", "labkit", *words)
    assert ended.returncode == 0, ended.stderr
    (entry,) = record.entries(paths.home() / "solved" / "records" / "93_builds.jsonl")
    assert (entry["launcher"], entry["ranks"], entry["horovod_build"]) == ("mpiexec", 2, "nccl")
    for total, file, libraries in entry["by_rank"]:
        assert total == 2.0
        assert "/horovod-nccl/horovod/" in file
        assert [Path(library).parts[-3:-1] for library in libraries] == [("mvapich2", "lib")]


def test_more_ranks_than_cores_on_mvapich2():
    """The real one: not bound to cores, so that there may be more ranks, and all threads may call
    MPI."""
    if "mvapich2" not in builds.mpi_builds():
        pytest.skip("MVAPICH2 is not here: `make mvapich2` builds it")

    def level():
        import horovod.torch as hvd

        hvd.init()
        return hvd.mpi_threads_supported()

    ranks = world.cores() + 2
    results = launch.run(of_this_rank, ranks=ranks, mpi="mvapich2", timeout=PATIENCE)
    assert [result["sum"] for result in results] == [[float(ranks)] * 2] * ranks
    assert {result["mpi"] for result in results} == {"MVAPICH2 2.3.7"}
    assert {len(result["libraries"]) for result in results} == {1}
    assert launch.run(level, ranks=2, mpi="mvapich2", timeout=PATIENCE) == [True, True]


# --- under a launcher that is there already


def under_mpiexec(*words: str, **variables: str) -> subprocess.CompletedProcess:
    """Two ranks of the script, which mpiexec starts with these variables."""
    env = world.clean_env() | {"OMP_NUM_THREADS": "1"} | variables
    mpiexec = launch.mpiexec(env.get("LABKIT_MPI_BUILD"))
    command = [mpiexec, "-n", "2", sys.executable, "-c", JOB, *words]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_in_place_the_wish_is_what_the_job_was_started_with(here):
    given = builds.variables("nccl", "mvapich2", world.clean_env())
    done = under_mpiexec("horovod=nccl", "mpi=mvapich2", **given)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.partition("RESULT ")[2])
    libmpi = here / "mvapich2" / "lib" / "libmpi.so.12"
    assert on_two_ranks(results, builds.horovod_builds()["nccl"], libmpi)


START = "Start it so: make run LAB=… NP=… MPI=mvapich2, or make submit LAB=… MPI=mvapich2."


@pytest.mark.parametrize(
    ("words", "variables", "says"),
    [
        (["horovod=nccl"], {}, "with the build 'host' of Horovod, and a process keeps its build"),
        (["mpi=mvapich2"], {}, START),
        # Given in name only.
        ([], {"LABKIT_HOROVOD": "nccl"}, "Horovod (LABKIT_HOROVOD), but would import host"),
    ],
)
def test_in_place_another_build_is_refused(here, words, variables, says):
    done = under_mpiexec(*words, **variables)
    assert done.returncode != 0
    assert says in done.stderr
    assert done.stderr.count(says) == 1 or not words, "the wish of all is refused once"
    assert "Traceback" not in done.stderr
