"""What a batch job does on its first node, part by part; whole jobs are in
tests/slurm/test_jobs.py."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from labkit import labfile, launch, mpis, paths
from labkit.errors import LabError

from slurm.job import dry, header, outcome
from slurm.job import launcher as job_launcher
from slurm.job import shape as job_shape
from tests import environments

GPUS = {"SLURM_GPUS_ON_NODE": "2"}
ONE_RANK = {"SLURM_JOB_NODELIST": "n7", "SLURM_TASKS_PER_NODE": "1"}


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


@pytest.mark.parametrize(
    ("tasks", "variables", "threads"),
    [
        ((2, 1), {}, 1),
        ((2, 1), {"SLURM_CPUS_PER_TASK": "3"}, 3),
        ((2, 1), {"SLURM_CPUS_PER_TASK": "16"}, 4),
        ((1, 2), {"SLURM_CPUS_PER_TASK": "16"}, 8),  # the 8 cores are the first node's
        # 8 cores in all, for 3 ranks
        ((2, 1), {"SLURM_CPUS_PER_TASK": "16", "SITE": "tabletop"}, 2),
    ],
)
def test_the_shape_of_a_job(tasks, variables, threads, slurm, monkeypatch):
    """A rank's threads are the job's cores, but no more than there are."""
    monkeypatch.setattr(job_shape.world, "cores", lambda: 8)
    slurm["SLURM_TASKS_PER_NODE"] = f"{tasks[0]},{tasks[1]}"
    shape = job_shape.read(slurm | GPUS | variables)
    assert (shape.hosts, shape.tasks, shape.ranks) == (("n7", "n8"), tasks, 3)
    assert (shape.gpus, shape.threads) == (2, threads)


def test_what_is_no_job(slurm):
    with pytest.raises(LabError, match="This is no Slurm job"):
        job_shape.read({})
    with pytest.raises(LabError, match="scontrol cannot name the nodes 'm1'"):
        job_shape.read(slurm | {"SLURM_JOB_NODELIST": "m1"})


@pytest.mark.parametrize(
    ("variables", "driver", "devices"),
    [
        ({}, True, ("cpu", "cpu")),
        (GPUS, False, ("cpu", "cpu")),
        (GPUS, True, ("cuda:0, cuda:1", "cuda:0")),
        # Each rank is shown one GPU alone, which is its first.
        (GPUS | {"SLURM_GPUS_PER_TASK": "1"}, True, ("cuda:0, cuda:0", "cuda:0")),
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
        (ONE_RANK, (), ["made for 4 ranks; "]),
        (GPUS, None, ["Slurm gives GPUs, but this node has no NVIDIA"]),
        (GPUS, (0, 0, 1, 1), []),
        (GPUS, (-1, -1), []),
        # As on a DGX A100 or at Perlmutter, whose GPUs are numbered the other way round.
        (GPUS, (1, 0), ["(GPU 0 on 1, GPU 1 on 0, in the order of bus"]),
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
        env = {**slurm, "PATH": os.environ["PATH"], "MPI_HOME": str(tmp_path)}
        env |= {"LABKIT_LAUNCHER": chosen, **more}
        words = job_launcher.command(job_shape.read(env), ["python", "x.py"], env, tmp_path)
        return " ".join(words).replace(f"{tmp_path}/bin/", "").replace(f"{tmp_path}/", "")

    return command


TOLD = {"MV2_USE_CUDA": "1", "OMP_NUM_THREADS": "2", "SITE": "here"}
OWN = {"LABKIT_ENV": "OTHER=x", "OTHER": "x", "PYTHONPATH": "/kit", "MPI4PY_MPIABI": "mpich"}
SPACED = {"LABKIT_ENV": "'OTHER=two words'", "OTHER": "two words"}
NOWHERE = {"MPI_HOME": "", "PATH": "/nonexistent"}


@pytest.mark.parametrize(
    ("words", "env", "pairs"),
    [
        ("mpirun_rsh", TOLD | {"OTHER": "x"}, "MV2_USE_CUDA=1 OMP_NUM_THREADS=2 SITE=here "),
        ("mpirun_rsh", OWN, "LABKIT_ENV=OTHER=x MPI4PY_MPIABI=mpich OTHER=x PYTHONPATH=/kit "),
        ("mpirun_rsh -export-all", SPACED, ""),
    ],
)
def test_mpirun_rsh_is_told_what_to_pass_on(words, env, pairs, launcher, tmp_path):
    said = launcher(words, **env).replace(f"LABKIT_LAUNCHER={words} ", "")
    assert said == f"{words} -np 3 -hostfile hosts {pairs}SLURM_JOB_ID=5 python x.py"
    assert (tmp_path / "hosts").read_text() == "n7\nn7\nn8\n"


@pytest.mark.parametrize(
    ("words", "env", "says"),
    [
        ("jsrun", {}, "begins with 'jsrun'; known are srun, mpirun_rsh"),
        ("mpirun_rsh", NOWHERE, "mpirun_rsh, the launcher of the site file .* is not on this node"),
        ("mpirun_rsh", SPACED, "cannot pass on a value with a space in it, as OTHER has"),
    ],
)
def test_a_launcher_that_cannot_be_used(words, env, says, launcher):
    with pytest.raises(LabError, match=says):
        launcher(words, **env)


@pytest.fixture
def mvapich2(tmp_path, monkeypatch):
    """An environment with a second MPI, which brings its own mpiexec."""
    environment = environments.linked(tmp_path / "venv")
    environments.add_mpi(environment)
    environments.use(environment, monkeypatch)
    return environment / "mvapich2"


def test_another_mpi_than_the_sites_is_started_by_its_own_launcher(launcher, mvapich2, tmp_path):
    own = f"{mvapich2.relative_to(tmp_path)}/bin/mpiexec"
    command = launcher("srun --mpi=pmix", LABKIT_MPI_BUILD="mvapich2")
    assert command == f"{own} -n 3 -machinefile hosts python x.py"
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
    told = chosen(gdr)
    assert told["MV2_GPUDIRECT_GDRCOPY_LIB"] == "/opt/libgdrapi.so"
    assert told["MV2_USE_CUDA"] == told["MV2_SUPPORT_DL"] == "1"
    assert "MV2_SUPPORT_DL" not in chosen(gdr | {"MV2_SUPPORT_DL": "0"}), "it is set already"
    users = {"LABKIT_ENV": "MV2_USE_CUDA=0 'A=two words' MV2_CPU_BINDING_LEVEL=socket"}
    own = {"MV2_USE_CUDA": "0", "A": "two words", "MV2_CPU_BINDING_LEVEL": "socket"}
    assert (
        chosen(gdr | users) == {n: v for n, v in told.items() if n != "MV2_ENABLE_AFFINITY"} | own
    )
    beside = chosen({"LABKIT_MPI": "mvapich-plus", "LABKIT_MPI_BUILD": "mvapich2"})
    assert beside["MV2_ENABLE_AFFINITY"] == "0"
    assert "MVP_ENABLE_GPU" not in beside, "the site's MPI is not in use"


SRUN_SAYS = "srun: error: n1: task 3: Killed\nsrun: error: n0: tasks 0-1: Terminated"
SRUN_CODE = "srun: error: n0: tasks 1-2: Exited with exit code 7"
HYDRA_SAYS = "=   RANK 3 PID 4711 RUNNING AT n1\n=   KILLED BY SIGNAL: 9 (Killed)"
SPAWN_SAYS = "[n1:mpispawn_1][child_handler] MPI process (rank: 3, pid: 77) exited with status 7"
OPEN_MPI_SAYS = "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9."


@pytest.mark.parametrize(
    ("lines", "says", "status"),
    [
        (SRUN_SAYS, "rank 3 on n1.*: Killed", 137),
        (SRUN_CODE, "rank 1 on n0.*: Exited .* code 7", 7),
        (SPAWN_SAYS, "rank 3 on n1.*: exited with status 7", 7),
        (HYDRA_SAYS, r"rank 3 on n1.*: killed by signal: 9 \(killed\)", 137),
        (OPEN_MPI_SAYS, "rank 3 on n1.*: exited on signal 9", 137),
        ("srun: error: Node failure on n1", "The node n1 failed", None),
    ],
)
def test_what_launchers_say_of_a_rank(lines, says, status, tmp_path):
    listener = outcome.Listener()
    for number, line in enumerate(lines.splitlines()):
        listener.hear(line, float(number))
    assert re.search(says, outcome.first_failure(tmp_path, listener))
    assert listener.status() == status


def leave(folder: Path, rank: int, when: float, text: str) -> None:
    """A note of a rank, as the rank leaves it."""
    note = {"rank": rank, "host": f"n{rank // 2}", "when": when, "text": text}
    (folder / f"failed.{rank}").write_text(json.dumps(note), encoding="utf-8")


@pytest.mark.parametrize(
    ("says", "when", "first", "status"),
    [
        (None, 0, "rank 1 on n0.\nrank 1 failed: first", None),
        # The launcher hears of rank 3's death after it ended those that waited for rank 1.
        ("Killed", 10.9, "rank 1 on n0.\nrank 1 failed: first", 137),
        # Rank 3 died, without a word, before the others noticed.
        ("Segmentation fault", 9.9, "rank 3 on n1. It left no message", 139),
    ],
)
def test_the_first_one_counts(says, when, first, status, tmp_path):
    leave(tmp_path, 2, 11.0, "rank 2 failed: second")
    leave(tmp_path, 1, 10.0, "rank 1 failed: first")
    listener = outcome.Listener()
    if says:
        listener.hear(f"srun: error: n1: task 3: {says}", when)
    assert outcome.first_failure(tmp_path, listener).startswith(f"First to fail: {first}")
    assert listener.status() == status


def test_a_failure_that_all_ranks_know_is_the_one_ranks(tmp_path):
    for rank in range(4):
        leave(tmp_path, rank, 10.0 + rank, "✗ 23.1  rank 3 failed: ZeroDivisionError")
    said = outcome.first_failure(tmp_path, outcome.Listener())
    assert said.startswith("First to fail: rank 3 on n1.\n✗ 23.1")
    assert outcome.first_failure(tmp_path / "bin", outcome.Listener()) is None


# --- `make submit DRY=1`: the whole command of each launcher on two nodes with four GPUs

ROOT = paths.root()
SITE_FILE = """
export SITE=made_up LABKIT_GPUS_PER_NODE=4 LABKIT_GPU_FORM=gpus-per-node SBATCH_GPUS_PER_NODE=4
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=16" LABKIT_MODULES="gcc mpi"
"""
RANK = "python work/40_horovod_pytorch.py"
SLURM = "--nodes 2 --ntasks 8 --distribution=block --kill-on-bad-exit=1"
BOUND = f"{SLURM} --gpu-bind=none"  # a rank must see its neighbours' GPUs
GDR = "MV2_ENABLE_AFFINITY=0 MV2_SUPPORT_DL=1 MV2_USE_CUDA=1"
RSH = "mpirun_rsh -export-all -np 8 -hostfile hosts LABKIT"
OPEN = "mpirun -n 8 --map-by ppr:4:node -x LABKIT_GPU"
# LABKIT_MPI, LABKIT_LAUNCHER, further variables of the site file -> the command, variables that the
# ranks find.
JOBS = [
    ("mvapich2-gdr", "mpirun_rsh -export-all", "", RSH, f"{GDR} OMP_NUM_THREADS=16"),
    ("mvapich2-gdr", "srun --mpi=pmi2", "", f"srun --mpi=pmi2 {BOUND} {RANK}", GDR),
    ("mvapich-plus", "srun --mpi=pmi2", "", f"srun --mpi=pmi2 {BOUND} {RANK}", "MVP_ENABLE_GPU=1"),
    ("mvapich-plus", "srun --mpi=pmix", "", f"srun --mpi=pmix {BOUND} {RANK}", "MVP_ENABLE_GPU=1"),
    ("openmpi", "mpirun", "UCX_NET_DEVICES=mlx5_0:1", OPEN, "UCX_NET_DEVICES=mlx5_0:1"),
    ("mpich", "mpiexec", "", f"mpiexec -n 8 -ppn 4 {RANK}", ""),
    ("mpich", "/opt/mpi/bin/mpirun", "", f"/opt/mpi/bin/mpirun -n 8 -ppn 4 {RANK}", ""),
    ("openmpi", "srun", "NCCL_SOCKET_IFNAME=ib0", f"srun {BOUND}", "NCCL_SOCKET_IFNAME=ib0"),
    ("mpich", "srun", "LABKIT_GPU_FORM=none", f"srun {SLURM} {RANK}", ""),
    ("mpich", "srun --gpu-bind=closest", "", f"srun --gpu-bind=closest {SLURM} {RANK}", ""),
]


def pages_in(printed: str) -> dict[str, str]:
    """The table of pages: option or variable -> page."""
    lines = printed.split("# the documentation's page\n")[1].split("\n\n")[0].splitlines()
    pages = dict(re.split("  +", line) for line in lines)
    assert all(page.startswith("https://") for page in pages.values())
    return pages


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
    stem = "40_horovod_pytorch"
    for file in (
        f"slurm/{stem}.sbatch",
        f"solutions/{stem}.py",
        f"labs/{stem}.py",
        f"notebooks/{stem}.ipynb",
    ):
        (checkout.root / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, checkout.root / file)

    def ask(site: str, *typed: str) -> str:
        (sites / "made_up.sh").write_text(site, encoding="utf-8")
        assert dry.main(["40", "--site", "made_up", *typed]) == 0
        return capsys.readouterr().out

    return ask


@pytest.mark.parametrize(("mpi", "launcher", "more", "command", "variables"), JOBS)
def test_what_a_job_would_be(mpi, launcher, more, command, variables, printed):
    text = printed(f'{SITE_FILE}export LABKIT_MPI={mpi} LABKIT_LAUNCHER="{launcher}" {more}\n')
    lines = text.splitlines()
    assert lines[-1].startswith(command)
    assert lines[-1].endswith(RANK)
    assert set(variables.split()) <= set(lines)
    line = "sbatch --cpus-per-task=16 --nodes=2 --ntasks-per-node=4 slurm/40_horovod_pytorch.sbatch"
    assert line in lines
    assert (ROOT / "slurm/40_horovod_pytorch.sbatch").read_text() in text
    assert not undocumented(text, pages_in(text)), "an option or a variable without its page"


def test_the_launcher_of_an_mpi_beside_the_sites_takes_its_own_options(printed, mvapich2):
    site = f"{SITE_FILE}export LABKIT_MPI=openmpi LABKIT_LAUNCHER=mpirun\n"
    text = printed(site, "--mpi", "mvapich2")
    assert text.splitlines()[-1] == f"mpiexec -n 8 -ppn 4 {RANK}"
    assert "Hydra" in pages_in(text)["mpiexec -n"]


def test_the_page_that_says_most_of_a_variable_or_an_option_counts():
    assert mpis.page("MV2_OTHER") == mpis.MVAPICH2_GUIDE != mpis.page("MV2_USE_CUDA")
    assert launch.page("srun", "--ntasks") != launch.page("srun", "--mpi")


@pytest.mark.parametrize(("typed", "ranks"), [([], 8), (["--ranks", "3"], 3)])
def test_all_gpus_of_a_node_are_used_where_nobody_says_otherwise(typed, ranks, printed):
    site = f"{SITE_FILE.replace('=4', '=8')}export LABKIT_MPI=mpich LABKIT_LAUNCHER=srun\n"
    text = printed(site, *typed)
    assert f"--ntasks-per-node={ranks} slurm/40" in text
    assert f"srun --nodes 2 --ntasks {2 * ranks} " in text.splitlines()[-1]


def test_the_job_of_a_solved_lab_with_other_parameters(printed, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    site = f"{SITE_FILE}export LABKIT_MPI=mpich LABKIT_LAUNCHER=srun\n"
    lines = printed(site, "--solved", "--set", "epochs=1", "--env", "NCCL_ALGO=Ring").splitlines()
    home = f"LABKIT_HOME={paths.home().resolve()}"
    assert lines[-1].endswith(" python solutions/40_horovod_pytorch.py")
    wanted = {f"{home}/solved", "LABKIT_SOLVED=1", "NCCL_ALGO=Ring", "NCCL_DEBUG=WARN", "epochs=1"}
    assert wanted <= set(lines)
    lines = printed(site).splitlines()
    assert lines[-1].endswith(" python work/40_horovod_pytorch.py")
    assert home in lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["01", "--site", "tabletop"], "runs on one rank"),
        (["40", "--nodes", "0", "--site", "tabletop"], "1 node or more"),
        (["40", "--site", "mars"], "no site 'mars'"),
        (["40", "--site", "tabletop", "--solved", "--set", "epoch=1"], "no parameter 'epoch'"),
        (["40", "--site", "tabletop", "--solved", "--env", "LABKIT_HOME=/x"], "is not for ENV"),
        (["40", "--site", "tabletop", "--solved", "--env", "A"], "set as NAME=VALUE"),
    ],
)
def test_what_cannot_be(arguments, says, capsys):
    assert dry.main(arguments) == 1
    assert says in capsys.readouterr().err
