"""world: every launcher's variables, nested launchers, cores and secrets."""

import io
import os
import subprocess
import sys

import pytest
from labkit import world
from labkit.world import cpus, launchers

SRUN = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_LOCALID": "1"}
SRUN |= {"SLURM_NODEID": "1", "SLURM_NTASKS": "16", "SLURM_STEP_NUM_TASKS": "7"}
SRUN |= {"SLURM_STEP_TASKS_PER_NODE": "4,3", "SLURM_TASKS_PER_NODE": "8(x2)"}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
MVAPICH = {"MV2_COMM_WORLD_RANK": "6", "MV2_COMM_WORLD_SIZE": "8"}
MVAPICH |= {"MV2_COMM_WORLD_LOCAL_RANK": "2", "MV2_COMM_WORLD_LOCAL_SIZE": "4"}
OPENMPI = {name.replace("MV2", "OMPI"): value for name, value in MVAPICH.items()}
CRAY = {"PMI_RANK": "9", "PMI_SIZE": "16", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "8"}
HOROVOD = {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "gloo"}
HOROVOD |= {"HOROVOD_GLOO_IFACE": "lo"}
TORCH = {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
TORCH |= {"MASTER_ADDR": "n1"}
SHELL = SRUN | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}
ONE_TASK = {"SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"}
ALONE = (None, 0, 1, 0, 1)


@pytest.fixture
def env(monkeypatch):
    """Sets variables in an environment without any launcher's."""
    for name in set(os.environ) - set(launchers.clean(os.environ)):
        monkeypatch.delenv(name)
    return lambda variables: [monkeypatch.setenv(*each) for each in variables.items()]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ALONE),
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
        (CRAY, ("mpiexec", 9, 16, 1, 8)),  # PMI without hydra's variables
        # A rank of launch.run: its own mark wins, whatever other variables Horovod or PyTorch
        # needed.
        (HYDRA | {"LABKIT_RANK": "1", "LABKIT_SIZE": "2"}, ("labkit", 1, 2, 1, 2)),
        # A batch script itself, and salloc.
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, ALONE),
        (SHELL | {"SLURM_PTY_PORT": "40000"}, ALONE),  # srun --pty bash
        (SHELL | {"SLURM_STEP_ID": "4294967290"}, ALONE),  # salloc with an interactive step
        # A terminal in JupyterLab that a hub started with srun.
        (SHELL | {"JUPYTERHUB_USER": "ada"}, ALONE),
        (SHELL | ONE_TASK, ("srun", 0, 1, 0, 1)),  # in a batch script it is a job of one
        ({"RANK": "0"}, ALONE),  # half of torchrun's variables is somebody else's variable
    ],
)
def test_each_launcher_alone_and_inside_of_another(env, monkeypatch, variables, expected):
    env(variables)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # nobody types
    asked = (world.launcher, world.rank, world.size, world.local_rank, world.local_size)
    assert tuple(call() for call in asked) == expected
    assert world.is_root() is (expected[1] == 0)


def test_slurms_tasks_per_node():
    rows = {"4": [4], "4(x2),3": [4, 4, 3], "2,1(x3)": [2, 1, 1, 1], "": [], "?": []}
    assert {text: launchers.tasks_per_node(text) for text in rows} == rows


SECRETS = """
    JUPYTERHUB_API_TOKEN JPY_API_TOKEN CONFIGPROXY_AUTH_TOKEN JUPYTERHUB_API_URL HF_TOKEN
    AWS_SECRET_ACCESS_KEY PGPASSWORD WANDB_API_KEY my_token SLURM_JWT
"""
NO_SECRETS = """
    JUPYTERHUB_USER TOKENIZERS_PARALLELISM MAX_TOKENS PATH HOROVOD_TIMELINE NCCL_DEBUG SLURM_CONF
    LABKIT_HOME MV2_USE_CUDA HOROVOD_FUSION_THRESHOLD OMP_NUM_THREADS MPIR_CVAR_X
"""


def test_a_new_job_is_given_no_secrets_and_nothing_of_a_launcher(env):
    of_launchers = SRUN | HYDRA | MVAPICH | OPENMPI | HOROVOD | TORCH
    secrets, kept = set(SECRETS.split()), set(NO_SECRETS.split())
    env(of_launchers | dict.fromkeys(secrets | kept, "x"))
    assert {name for name in secrets | kept if launchers.is_secret(name)} == secrets
    assert launchers.without_secrets(os.environ).keys() >= kept
    cleaned = world.clean_env()
    assert not cleaned.keys() & (secrets | of_launchers.keys())
    assert cleaned.keys() >= kept - {"SLURM_CONF"}
    assert os.environ["PMI_RANK"] == "3"  # a copy


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ([], 0),
        (["dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm"], 2),
        (["dev/dxg"], 0),  # WSL2 has it with each card
        (["dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"], 1),
    ],
)
def test_gpus_by_the_files_of_their_driver(files, count, tmp_path):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert world.gpu_files(tmp_path) == count


def python(code: str) -> str:
    """What a process of its own prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_importing_world_and_timing_is_light():
    code = (
        "import sys; from labkit import world; world.describe(); print(*sys.modules); "
        "from labkit import timing; timing.measure(int, device='cpu'); print(*sys.modules)"
    )
    by_world, by_timing = python(code).splitlines()
    assert "numpy" not in by_world.split()
    heavy = {"torch", "tensorflow", "pandas", "matplotlib", "mpi4py"}
    assert not heavy & set(by_timing.split())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks on this system")
def test_cores_follows_the_affinity_mask():
    bound = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    assert python(f"{bound}; from labkit import world; print(world.cores())") == "1\n"


CPU, QUOTA = "cpu,cpuacct", "cpu,cpuacct{}/cpu.cfs_quota_us"
PERIOD = {f"{CPU}{where}/cpu.cfs_period_us": "100000" for where in ("", "/box")}


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        # cgroup 2: every level counts
        ("0::/a/step\n", {"a/step/cpu.max": "max 100000", "a/cpu.max": "250000 100000"}, 2.5),
        ("0::/docker/abc\n", {"cpu.max": "150000 100000"}, 1.5),  # in a container, the host's path
        (f"4:{CPU}:/box\n3:memory:/box\n", PERIOD | {QUOTA.format("/box"): "300000"}, 3.0),
        (f"4:{CPU}:/\n", PERIOD | {QUOTA.format(""): "-1"}, None),
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
