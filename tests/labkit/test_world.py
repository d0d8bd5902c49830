"""world: every launcher's variables, nested launchers, Jupyter kernels, cores and devices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from labkit.world import cpus, launchers
from labkit.world import place as world_place

SRUN = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "16",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_STEP_TASKS_PER_NODE": "4,3",
    "SLURM_TASKS_PER_NODE": "8(x2)",
}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
MVAPICH = {
    "MV2_COMM_WORLD_RANK": "6",
    "MV2_COMM_WORLD_SIZE": "8",
    "MV2_COMM_WORLD_LOCAL_RANK": "2",
    "MV2_COMM_WORLD_LOCAL_SIZE": "4",
}
OPENMPI = {name.replace("MV2", "OMPI"): value for name, value in MVAPICH.items()}
HOROVOD = {
    "HOROVOD_CONTROLLER": "mpi",
    "HOROVOD_CPU_OPERATIONS": "gloo",
    "HOROVOD_GLOO_IFACE": "lo",
}
TORCH = {
    "RANK": "2",
    "WORLD_SIZE": "3",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "n1",
}
SHELL = {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}


@pytest.fixture
def env(monkeypatch):
    """Sets variables in an environment without any launcher's."""
    for name in set(os.environ) - set(launchers.clean(os.environ)):
        monkeypatch.delenv(name)

    def put(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


def place():
    return (
        world_place.launcher(),
        world_place.rank(),
        world_place.size(),
        world_place.local_rank(),
        world_place.local_size(),
    )


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, 0, 1, 0, 1)),
        (MVAPICH, ("mpirun_rsh", 6, 8, 2, 4)),
        (OPENMPI, ("openmpi", 6, 8, 2, 4)),
        (HYDRA, ("mpiexec", 3, 4, 1, 2)),
        (SRUN, ("srun", 5, 7, 1, 3)),
        (TORCH, ("torchrun", 2, 3, 0, 1)),
        # mpirun_rsh -launcher srun, and hydra inside a Slurm job: Slurm's step counts their
        # helpers.
        (SRUN | MVAPICH, ("mpirun_rsh", 6, 8, 2, 4)),
        (SRUN | HYDRA, ("mpiexec", 3, 4, 1, 2)),
        # MVAPICH2's own mpiexec sets both kinds of variables; 2.3.7's has no MPI_LOCALRANKID.
        (MVAPICH | HYDRA, ("mpiexec", 6, 8, 2, 4)),
        (SRUN | MVAPICH | {"PMI_RANK": "6", "PMI_SIZE": "8"}, ("mpiexec", 6, 8, 2, 4)),
        # mpirun_rsh -launcher srun, where srun --mpi=pmi2 numbers its helpers.
        (SRUN | MVAPICH | {"MPIRUN_ID": "77", "PMI_RANK": "0"}, ("mpirun_rsh", 6, 8, 2, 4)),
        # srun --mpi=pmi2 gives PMI_RANK as well, but the place on the node only in Slurm's
        # variables.
        (SRUN | {"PMI_RANK": "5", "PMI_SIZE": "7", "PMI_JOBID": "7.0"}, ("srun", 5, 7, 1, 3)),
        # Cray's launcher speaks PMI without hydra's variables.
        (
            {"PMI_RANK": "9", "PMI_SIZE": "16", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "8"},
            ("mpiexec", 9, 16, 1, 8),
        ),
        # A rank of launch.run: its own mark wins, whatever other variables Horovod or PyTorch
        # needed.
        (HYDRA | {"LABKIT_RANK": "1", "LABKIT_SIZE": "2"}, ("labkit", 1, 2, 1, 2)),
    ],
)
def test_each_launcher_alone_and_inside_of_another(env, variables, expected):
    env(variables)
    assert place() == expected
    assert world_place.is_root() is (expected[1] == 0)


@pytest.mark.parametrize(
    "variables",
    [
        {
            "SLURM_JOB_ID": "7",
            "SLURM_PROCID": "0",
            "SLURM_NTASKS": "8",
        },  # the batch script itself, and salloc
        SRUN | SHELL | {"SLURM_PTY_PORT": "40000"},  # srun --pty bash
        SRUN | SHELL | {"SLURM_STEP_ID": "4294967290"},  # salloc with an interactive step
        SRUN
        | SHELL
        | {"JUPYTERHUB_USER": "ada"},  # a terminal in JupyterLab that a hub started with srun
        {"RANK": "0"},  # half of torchrun's variables is somebody else's variable
    ],
)
def test_no_launcher(env, variables):
    env(variables)
    assert place() == (None, 0, 1, 0, 1)


def test_one_task_of_srun_in_a_batch_script_is_a_job_of_one(env, monkeypatch):
    env(
        SRUN | SHELL | {"SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"}
    )
    with open(os.devnull) as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        assert place() == ("srun", 0, 1, 0, 1)


@pytest.mark.parametrize(
    ("text", "counts"),
    [("4", [4]), ("4(x2),3", [4, 4, 3]), ("2,1(x3)", [2, 1, 1, 1]), ("", []), ("?", [])],
)
def test_slurms_tasks_per_node(text, counts):
    assert launchers.tasks_per_node(text) == counts


def test_clean_env_forgets_launchers_and_keeps_the_rest(env):
    kept = {
        "MV2_USE_CUDA": "1",
        "HOROVOD_FUSION_THRESHOLD": "0",
        "OMP_NUM_THREADS": "3",
        "MPIR_CVAR_X": "1",
    }
    env(SRUN | HYDRA | MVAPICH | OPENMPI | HOROVOD | TORCH | kept)
    cleaned = world_place.clean_env()
    assert not cleaned.keys() & (SRUN | HYDRA | MVAPICH | OPENMPI | HOROVOD | TORCH).keys()
    assert kept.items() <= cleaned.items()
    assert os.environ["PMI_RANK"] == "3"  # a copy


SECRETS = (
    *(
        "JUPYTERHUB_API_TOKEN",
        "JPY_API_TOKEN",
        "CONFIGPROXY_AUTH_TOKEN",
        "JUPYTERHUB_API_URL",
        "HF_TOKEN",
    ),
    *("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "WANDB_API_KEY", "my_token", "SLURM_JWT"),
)
NO_SECRETS = (
    *(
        "JUPYTERHUB_USER",
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "PATH",
        "HOROVOD_TIMELINE",
        "NCCL_DEBUG",
    ),
    *("SLURM_CONF", "LABKIT_HOME"),
)


@pytest.mark.parametrize("name", SECRETS + NO_SECRETS)
def test_what_is_a_secret(name):
    assert launchers.is_secret(name) == (name in SECRETS)


def test_a_new_job_is_given_no_secrets(env):
    env(dict.fromkeys(SECRETS + NO_SECRETS, "x"))
    assert not world_place.clean_env().keys() & set(SECRETS)
    assert launchers.without_secrets(os.environ).keys() >= set(NO_SECRETS)


def test_importing_world_is_light():
    code = "import sys; from labkit import world; world.describe(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert not {"numpy", "mpi4py", "tensorflow", "pandas"} & set(loaded.split())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks on this system")
def test_cores_follows_the_affinity_mask():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from labkit import"
        " world; "
    )
    code += "print(world.cores())"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out == "1\n"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        # cgroup 2: every level counts
        (
            "0::/jobs/step\n",
            {"jobs/step/cpu.max": "max 100000", "jobs/cpu.max": "250000 100000"},
            2.5,
        ),
        # In a container, whose path is the host's.
        ("0::/docker/abc\n", {"cpu.max": "150000 100000"}, 1.5),
        (
            "4:cpu,cpuacct:/box\n3:memory:/box\n",
            {
                "cpu,cpuacct/box/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/box/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            "4:cpu,cpuacct:/\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            None,
        ),
        ("", {}, None),
    ],
)
def test_quota_of_a_cgroup(own, files, cores, tmp_path):
    (tmp_path / "self").write_text(own)
    for name, text in files.items():
        file = tmp_path / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert cpus.cgroup_quota(tmp_path / "fs", tmp_path / "self") == cores
    assert cpus.cgroup_quota(tmp_path / "none", tmp_path / "nothing") is None
