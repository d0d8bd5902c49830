"""`make submit DRY=1`: the whole command of each launcher on two nodes with four GPUs, word for
word."""

from __future__ import annotations

import shutil

import pytest
from labkit import paths

from slurm.job import dry

ROOT = paths.root()
SITE = """
export SITE=made_up LABKIT_GPUS_PER_NODE=4 LABKIT_GPU_FORM=gpus-per-node SBATCH_GPUS_PER_NODE=4
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=16" LABKIT_MODULES="gcc mpi"
"""
RANK = "python work/40_horovod_pytorch.py"
SLURM = "--nodes 2 --ntasks 8 --distribution=block --kill-on-bad-exit=1 --gpu-bind=none"
# LABKIT_MPI, LABKIT_LAUNCHER, further lines of the site file -> the command, variables that the
# ranks find.
GDR = ("MV2_ENABLE_AFFINITY=0", "MV2_SUPPORT_DL=1", "MV2_USE_CUDA=1")
JOBS = {
    "MVAPICH2-GDR by mpirun_rsh": (
        "mvapich2-gdr", "mpirun_rsh -export-all", "",
        "mpirun_rsh -export-all -np 8 -hostfile hosts ", (*GDR, "OMP_NUM_THREADS=16"),
    ),
    "MVAPICH2-GDR by srun": (
        "mvapich2-gdr", "srun --mpi=pmi2", "", f"srun --mpi=pmi2 {SLURM} {RANK}", GDR,
    ),
    "MVAPICH-Plus, PMI2": (
        "mvapich-plus", "srun --mpi=pmi2", "", f"srun --mpi=pmi2 {SLURM} {RANK}", ("MVP_ENABLE_GPU=1",),
    ),
    "MVAPICH-Plus, PMIx": (
        "mvapich-plus", "srun --mpi=pmix", "", f"srun --mpi=pmix {SLURM} {RANK}", ("MVP_ENABLE_GPU=1",),
    ),
    "Open MPI over UCX": (
        "openmpi", "mpirun", "export UCX_NET_DEVICES=mlx5_0:1",
        "mpirun -n 8 --map-by ppr:4:node -x LABKIT_GPU", ("UCX_NET_DEVICES=mlx5_0:1",),
    ),
    "MPICH": ("mpich", "mpiexec", "", f"mpiexec -n 8 -ppn 4 {RANK}", ()),
    "NCCL's allreduce": (
        "openmpi", "srun --mpi=pmix", "export NCCL_SOCKET_IFNAME=ib0",
        f"srun --mpi=pmix {SLURM} {RANK}", ("NCCL_SOCKET_IFNAME=ib0",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("job", JOBS)
def test_what_a_job_would_be(job, checkout, capsys):
    mpi, launcher, more, command, variables = JOBS[job]
    sites = checkout.root / "slurm" / "sites"
    sites.mkdir(parents=True)
    for file in ("slurm/40_horovod_pytorch.sbatch", "solutions/40_horovod_pytorch.py"):
        shutil.copy(ROOT / file, checkout.root / file)
    text = f'{SITE}export LABKIT_MPI={mpi} LABKIT_LAUNCHER="{launcher}"\n{more}\n'
    (sites / "made_up.sh").write_text(text, encoding="utf-8")
    assert dry.main(["40", "--site", "made_up"]) == 0
    printed = capsys.readouterr().out
    assert command in printed.splitlines()[-1]
    assert printed.splitlines()[-1].endswith(RANK)
    assert set(variables) <= set(printed.splitlines())
    line = "sbatch --cpus-per-task=16 --nodes=2 --ntasks-per-node=4 slurm/40_horovod_pytorch.sbatch"
    assert line in printed.splitlines()
    assert (ROOT / "slurm/40_horovod_pytorch.sbatch").read_text() in printed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["01", "--site", "tabletop"], "runs on one rank"),
        (["40", "--nodes", "0", "--site", "tabletop"], "1 node or more"),
        (["40", "--site", "mars"], "no site 'mars'"),
    ],
)
def test_what_cannot_be(arguments, says, capsys):
    assert dry.main(arguments) == 1
    assert says in capsys.readouterr().err
