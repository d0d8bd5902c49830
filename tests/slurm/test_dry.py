"""`make submit DRY=1`: the whole command of each launcher on two nodes with four GPUs, word for
word."""

from __future__ import annotations

import re
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


MVAPICH2 = "https://mvapich.cse.ohio-state.edu"
SRUN = "https://slurm.schedmd.com/srun.html"
MPI_OF_SRUN = {"srun --mpi": "https://slurm.schedmd.com/mpi_guide.html", "srun --ntasks": SRUN}
PAGES = {
    "MVAPICH2-GDR by mpirun_rsh": {
        "mpirun_rsh -hostfile": f"{MVAPICH2}/static/media/mvapich/mvapich2-2.3.7-userguide.html",
        "MV2_USE_CUDA": f"{MVAPICH2}/userguide/gdr/",
        "MV2_ENABLE_AFFINITY": "https://hidl.cse.ohio-state.edu/userguide/horovod/",
    },
    "MVAPICH2-GDR by srun": {**MPI_OF_SRUN, "MV2_SUPPORT_DL": f"{MVAPICH2}/userguide/gdr/"},
    "MVAPICH-Plus, PMI2": {**MPI_OF_SRUN, "MVP_ENABLE_GPU": f"{MVAPICH2}/userguide/"},
    "MVAPICH-Plus, PMIx": {**MPI_OF_SRUN, "srun --gpu-bind": SRUN},
    "Open MPI over UCX": {
        "mpirun --map-by": "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html",
        "UCX_NET_DEVICES": "https://openucx.readthedocs.io/en/master/faq.html",
    },
    "MPICH": {
        "mpiexec -n": "https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/"
        "Using_the_Hydra_Process_Manager.md",
    },
    "NCCL's allreduce": {
        **MPI_OF_SRUN,
        "NCCL_SOCKET_IFNAME": "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    },
}


def pages_in(printed: str) -> dict[str, str]:
    """The table of pages: option or variable -> page."""
    lines = printed.split("# the documentation's page\n")[1].split("\n\n")[0].splitlines()
    return dict(re.split("  +", line) for line in lines)


def undocumented(printed: str, pages: dict[str, str]) -> set[str]:
    """What the command and the variables hold that has no page, but for the kit's own."""
    program, *words = printed.splitlines()[-1].split()
    options = {f"{program} {word.partition('=')[0]}" for word in words if word.startswith("-")}
    part = printed.split("# variables that the ranks find\n")[1].split("\n\n")[0]
    names = {line.partition("=")[0] for line in part.splitlines()}
    own = {name for name in names if name.startswith("LABKIT_") or name == "SITE"}
    return (options | names) - own - pages.keys()


@pytest.fixture
def printed(checkout, capsys):
    """What `make submit LAB=40 DRY=1` prints at a site whose file has these lines."""
    sites = checkout.root / "slurm" / "sites"
    sites.mkdir(parents=True)
    for file in ("slurm/40_horovod_pytorch.sbatch", "solutions/40_horovod_pytorch.py"):
        shutil.copy(ROOT / file, checkout.root / file)

    def ask(site: str, *typed: str) -> str:
        (sites / "made_up.sh").write_text(site, encoding="utf-8")
        assert dry.main(["40", "--site", "made_up", *typed]) == 0
        return capsys.readouterr().out

    return ask


@pytest.mark.parametrize("job", JOBS)
def test_what_a_job_would_be(job, printed):
    mpi, launcher, more, command, variables = JOBS[job]
    text = printed(f'{SITE}export LABKIT_MPI={mpi} LABKIT_LAUNCHER="{launcher}"\n{more}\n')
    lines = text.splitlines()
    assert command in lines[-1]
    assert lines[-1].endswith(RANK)
    assert set(variables) <= set(lines)
    line = "sbatch --cpus-per-task=16 --nodes=2 --ntasks-per-node=4 slurm/40_horovod_pytorch.sbatch"
    assert line in lines
    assert (ROOT / "slurm/40_horovod_pytorch.sbatch").read_text() in text
    pages = pages_in(text)
    assert not undocumented(text, pages), "an option or a variable without its page"
    assert PAGES[job].items() <= pages.items()


@pytest.mark.parametrize(("typed", "ranks"), [([], 8), (["--ranks", "3"], 3)])
def test_all_gpus_of_a_node_are_used_where_nobody_says_otherwise(typed, ranks, printed):
    site = f"{SITE.replace('=4', '=8')}export LABKIT_MPI=mpich LABKIT_LAUNCHER=srun\n"
    text = printed(site, *typed)
    assert f"--ntasks-per-node={ranks} slurm/40" in text
    assert f"srun --nodes 2 --ntasks {2 * ranks} " in text.splitlines()[-1]


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
