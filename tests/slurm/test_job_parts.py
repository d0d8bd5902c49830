"""What a batch job does on its first node, part by part; whole jobs are in
tests/slurm/test_jobs.py."""

from __future__ import annotations

import json
import os
import re

import pytest
from labkit import labfile
from labkit.errors import LabError

from slurm.job import header, outcome
from slurm.job import launcher as job_launcher
from slurm.job import shape as job_shape
from tests import environments


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A job of two nodes, as Slurm's variables tell it, with a scontrol that knows its nodes."""
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\ncase $3 in "n[7-8]") echo n7; echo n8;; n7) echo n7;; *) exit 1; esac\n'
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scontrol.parent}:{os.environ['PATH']}")
    return {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[7-8]", "SLURM_TASKS_PER_NODE": "2,1"}


def test_the_shape_of_a_job(slurm):
    shape = job_shape.read(slurm | {"SLURM_GPUS_ON_NODE": "2"})
    assert (shape.hosts, shape.tasks, shape.ranks, shape.gpus) == (("n7", "n8"), (2, 1), 3, 2)
    with pytest.raises(LabError, match="This is no Slurm job"):
        job_shape.read({})
    with pytest.raises(LabError, match="scontrol cannot name the nodes 'm1'"):
        job_shape.read(slurm | {"SLURM_JOB_NODELIST": "m1"})


@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({}, 1),
        ({"SLURM_CPUS_PER_TASK": "3"}, 3),
        ({"SLURM_CPUS_PER_TASK": "16"}, 4),
        ({"SLURM_CPUS_PER_TASK": "16", "SITE": "tabletop"}, 2),  # 8 cores in all, for 3 ranks
    ],
)
def test_threads_are_the_jobs_cores_but_no_more_than_there_are(
    variables, threads, slurm, monkeypatch
):
    monkeypatch.setattr(job_shape.world, "cores", lambda: 8)
    assert job_shape.read(slurm | variables).threads == threads


ALONE = {"SLURM_GPUS_PER_TASK": "1"}


@pytest.mark.parametrize(
    ("variables", "driver", "devices"),
    [
        ({}, True, ("cpu", "cpu")),
        ({"SLURM_GPUS_ON_NODE": "2"}, False, ("cpu", "cpu")),
        ({"SLURM_GPUS_ON_NODE": "2"}, True, ("cuda:0, cuda:1", "cuda:0")),
        # Each rank is shown one GPU alone, which is its first.
        ({"SLURM_GPUS_ON_NODE": "2"} | ALONE, True, ("cuda:0, cuda:0", "cuda:0")),
        ({"SLURM_GPUS_PER_TASK": "a100:1"}, True, ("cuda:0, cuda:0", "cuda:0")),
    ],
)
def test_where_the_ranks_are(variables, driver, devices, slurm, tmp_path):
    (tmp_path / "dev").mkdir()
    if driver:
        (tmp_path / "dev/nvidia0").touch()
    shape = job_shape.read(slurm | variables)
    assert header.places(shape, tmp_path) == [
        f"n7: ranks 0, 1 on {devices[0]}, 1 thread for each",
        f"n8: rank 2 on {devices[1]}, 1 thread for each",
    ]


LAB = labfile.Header(needs=("mpi",), ranks=4, minutes=5)


@pytest.mark.parametrize(
    ("variables", "nodes", "says"),
    [
        ({"LABKIT_MPI": "mpich"}, (), []),
        ({"LABKIT_MPI": "openmpi"}, (), ["the site file says openmpi, but this is MPICH: "]),
        ({"SLURM_JOB_NODELIST": "n7", "SLURM_TASKS_PER_NODE": "1"}, (), ["made for 4 ranks; "]),
        ({"SLURM_GPUS_ON_NODE": "2"}, None, ["Slurm gives GPUs, but this node has no NVIDIA"]),
        ({"SLURM_GPUS_ON_NODE": "2"}, (0, 0, 1, 1), []),
        ({"SLURM_GPUS_ON_NODE": "2"}, (-1, -1), []),
        # As on a DGX A100 or at Perlmutter, whose GPUs are numbered the other way round.
        ({"SLURM_GPUS_ON_NODE": "2"}, (1, 0), ["(GPU 0 on 1, GPU 1 on 0, in the order of bus"]),
    ],
)
def test_what_is_odd_about_a_job_is_noted(variables, nodes, says, slurm, tmp_path):
    """nodes: those of the GPUs; None: of a machine without a driver."""
    (tmp_path / "dev").mkdir()
    if nodes is not None:
        (tmp_path / "dev/nvidia0").touch()
    for number, node in enumerate(nodes or ()):
        bus = f"0000:{number:02x}:00.0"
        (tmp_path / "proc/driver/nvidia/gpus" / bus).mkdir(parents=True)
        place = tmp_path / "sys/bus/pci/devices" / bus
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{node}\n", encoding="ascii")
    shape = job_shape.read(slurm | variables)
    notes = list(header.notes(LAB, shape, variables, "MPICH", tmp_path))
    assert len(notes) == len(says), notes
    assert all(said in note for said, note in zip(says, notes, strict=True)), notes


@pytest.fixture
def launcher(slurm, tmp_path):
    """The command for a launcher, all of which are in one folder."""
    for name in ("srun", "mpirun_rsh", "mpiexec", "ibrun"):
        path = tmp_path / "bin" / name
        path.write_text("#!/bin/sh\necho HYDRA build details\n")
        path.chmod(0o755)

    def command(chosen: str, **more: str) -> str:
        env = (
            slurm
            | {"PATH": os.environ["PATH"], "LABKIT_LAUNCHER": chosen, "MPI_HOME": str(tmp_path)}
            | more
        )
        shape = job_shape.read(env)
        command = job_launcher.command(shape, ["python", "x.py"], env, tmp_path)
        return " ".join(command).replace(f"{tmp_path}/bin/", "").replace(f"{tmp_path}/", "")

    return command


def test_srun(launcher):
    plain = "srun --mpi=pmix --nodes 2 --ntasks 3 --distribution=block --kill-on-bad-exit=1"
    assert launcher("srun --mpi=pmix") == f"{plain} python x.py"
    # Not --gpus-per-task: a rank must see its neighbours' GPUs.
    assert (
        launcher("srun --mpi=pmix", SLURM_GPUS_ON_NODE="2")
        == f"{plain} --gpu-bind=none python x.py"
    )
    assert "gpu" not in launcher("srun", SLURM_GPUS_ON_NODE="2", LABKIT_GPU_FORM="none")


def test_mpirun_rsh(launcher, tmp_path):
    command = launcher(
        "mpirun_rsh -export-all", MV2_USE_CUDA="1", OMP_NUM_THREADS="2", OTHER="x", SITE="here"
    )
    pairs = "MV2_USE_CUDA=1 OMP_NUM_THREADS=2 SITE=here SLURM_JOB_ID=5"
    assert command == f"mpirun_rsh -export-all -np 3 -hostfile hosts {pairs} python x.py"
    assert (tmp_path / "hosts").read_text() == "n7\nn7\nn8\n"


@pytest.fixture
def mvapich2(tmp_path, monkeypatch):
    """An environment with a second MPI, which brings its own mpiexec."""
    environment = environments.linked(tmp_path / "venv")
    environments.add_mpi(environment)
    environments.use(environment, monkeypatch)
    return environment / "mvapich2"


def test_another_mpi_than_the_sites_is_started_by_its_own_launcher(launcher, mvapich2, tmp_path):
    command = launcher("srun --mpi=pmix", LABKIT_MPI_BUILD="mvapich2")
    assert (
        command
        == f"{mvapich2.relative_to(tmp_path)}/bin/mpiexec -n 3 -machinefile hosts python x.py"
    )
    assert (tmp_path / "hosts").read_text() == "n7\nn7\nn8\n"
    even = launcher("srun --mpi=pmix", LABKIT_MPI_BUILD="mvapich2", SLURM_TASKS_PER_NODE="2(x2)")
    assert even.endswith("/bin/mpiexec -n 4 -ppn 2 python x.py")
    assert launcher("srun", LABKIT_MPI_BUILD="mpich").startswith("srun "), "the site's own"


def test_a_launchers_helper_has_the_cores_of_all_its_ranks(slurm, mvapich2):
    job = slurm | {"SLURM_CPUS_PER_TASK": "4", "SLURM_TASKS_PER_NODE": "2(x2)"}
    shape = job_shape.read(job)
    for words, cores in (
        ("mpiexec", "8"),
        ("mpirun --mca a b", "8"),
        ("srun --mpi=pmi2", None),
        ("ibrun", None),
        ("mpirun_rsh -export-all -launcher srun", None),
    ):
        env = job_launcher.environment(shape, job | {"LABKIT_LAUNCHER": words})
        assert env.get("SRUN_CPUS_PER_TASK") == cores, words
        assert ("SLURM_MPI_TYPE" in env) == words.startswith("mpirun_rsh"), words
    env = job | {"LABKIT_LAUNCHER": "srun", "LABKIT_MPI_BUILD": "mvapich2"}
    assert job_launcher.environment(shape, env) == {"SRUN_CPUS_PER_TASK": "8"}


def test_variables_of_the_ranks(mvapich2):
    chosen = job_launcher.chosen
    assert chosen({}) == chosen({"LABKIT_MPI": "mpich"}) == {}
    gdr = {"LABKIT_MPI": "mvapich2-gdr", "LABKIT_GDRCOPY": "/opt/libgdrapi.so"}
    assert chosen(gdr) == {
        "MV2_ENABLE_AFFINITY": "0",
        "MV2_USE_CUDA": "1",
        "MV2_SUPPORT_DL": "1",
        "MV2_GPUDIRECT_GDRCOPY_LIB": "/opt/libgdrapi.so",
    }
    assert chosen(gdr | {"MV2_SUPPORT_DL": "0"}).get("MV2_SUPPORT_DL") is None, "it is set already"
    users = {"LABKIT_ENV": "MV2_USE_CUDA=0 'A=two words' MV2_CPU_BINDING_LEVEL=socket"}
    assert chosen(gdr | users) == {
        "MV2_SUPPORT_DL": "1",
        "MV2_GPUDIRECT_GDRCOPY_LIB": "/opt/libgdrapi.so",
        "MV2_USE_CUDA": "0",
        "A": "two words",
        "MV2_CPU_BINDING_LEVEL": "socket",
    }
    beside = chosen({"LABKIT_MPI": "mvapich-plus", "LABKIT_MPI_BUILD": "mvapich2"})
    assert beside["MV2_ENABLE_AFFINITY"] == "0"
    assert "MVP_ENABLE_GPU" not in beside, "the site's MPI is not in use"


def test_what_launchers_must_be_told_to_pass_on(launcher):
    users = {"LABKIT_ENV": "OTHER=x", "OTHER": "x", "PYTHONPATH": "/kit"}
    command = launcher("mpirun_rsh", LABKIT_HOROVOD="nccl", MPI4PY_MPIABI="mpich", **users)
    for pair in ("LABKIT_HOROVOD=nccl", "MPI4PY_MPIABI=mpich", "OTHER=x", "PYTHONPATH=/kit"):
        assert f" {pair} " in command
    spaced = {"LABKIT_ENV": "'OTHER=two words'", "OTHER": "two words"}
    with pytest.raises(
        LabError, match="mpirun_rsh cannot pass on a value with a space in it, as OTHER has"
    ):
        launcher("mpirun_rsh", **spaced)
    assert "OTHER" not in launcher("mpirun_rsh -export-all", **spaced).replace("LABKIT_ENV", "")


def test_launchers_that_are_not_there(launcher):
    with pytest.raises(LabError, match="begins with 'jsrun'; known are srun, mpirun_rsh"):
        launcher("jsrun")
    with pytest.raises(
        LabError, match=r"mpirun_rsh, the launcher of the site file .* is not on this node"
    ):
        launcher("mpirun_rsh", MPI_HOME="", PATH="/nonexistent")


@pytest.fixture
def notes(tmp_path):
    """Leaves a note of a rank, as the rank would."""

    def leave(rank: int, when: float, text: str) -> None:
        note = {"rank": rank, "host": f"n{rank // 2}", "when": when, "text": text}
        (tmp_path / f"failed.{rank}").write_text(json.dumps(note), encoding="utf-8")

    return leave


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            ["srun: error: n1: task 3: Killed", "srun: error: n0: tasks 0-1: Terminated"],
            "rank 3 on n1.*: Killed",
        ),
        (
            ["srun: error: n0: tasks 1-2: Exited with exit code 7"],
            "rank 1 on n0.*: Exited with exit code 7",
        ),
        (
            ["[n1:mpispawn_1][child_handler] MPI process (rank: 3, pid: 77) exited with status 7"],
            "rank 3 on n1.*: exited with status 7",
        ),
        (
            ["=   RANK 3 PID 4711 RUNNING AT n1", "=   KILLED BY SIGNAL: 9 (Killed)"],
            r"rank 3 on n1.*: killed by signal: 9 \(killed\)",
        ),
        (
            [
                "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9"
                " (Killed)."
            ],
            "rank 3 on n1.*: exited on signal 9",
        ),
        (["srun: error: Node failure on n1"], "The node n1 failed"),
    ],
)
def test_what_launchers_say_of_a_rank(lines, says, tmp_path):
    listener = outcome.Listener()
    for number, line in enumerate(lines):
        listener.hear(line, float(number))
    assert re.search(says, outcome.first_failure(tmp_path, listener))


def test_the_first_one_counts(notes, tmp_path):
    listener = outcome.Listener()
    notes(2, 11.0, "rank 2 failed: second")
    notes(1, 10.0, "rank 1 failed: first")
    assert (
        outcome.first_failure(tmp_path, listener)
        == "First to fail: rank 1 on n0.\nrank 1 failed: first"
    )
    # The launcher hears of rank 3's death after it ended those that waited for rank 1: no reason of
    # its own.
    listener.hear("srun: error: n1: task 3: Killed", 10.9)
    assert "rank 1 on n0" in outcome.first_failure(tmp_path, listener)
    # Rank 3 died, without a word, before the others noticed.
    early = outcome.Listener()
    early.hear("srun: error: n1: task 3: Segmentation fault", 9.9)
    assert "rank 3 on n1" in outcome.first_failure(tmp_path, early)
    assert early.status() == 139


def test_a_failure_that_all_ranks_know_is_the_one_ranks(notes, tmp_path):
    for rank in range(4):
        notes(rank, 10.0 + rank, "✗ 23.1  rank 3 failed: ZeroDivisionError: division by zero")
    assert outcome.first_failure(tmp_path, outcome.Listener()).startswith(
        "First to fail: rank 3 on n1.\n✗ 23.1"
    )
    assert outcome.first_failure(tmp_path / "bin", outcome.Listener()) is None
