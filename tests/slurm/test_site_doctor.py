"""`make site NAME=x` and `make doctor SITE=x` on a real Slurm: the tabletop cluster."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from subprocess import CompletedProcess

import labkit
import pytest
from labkit import paths
from labkit.cluster import sites

from slurm import new_site, tabletop
from tests.authoring import tiny_lab
from tests.helpers import awaited

pytestmark = pytest.mark.slow
TABLE = "sitedoctor"
ROOT = paths.root()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A cluster of two nodes with two GPUs each (in name)."""
    with tabletop.up(TABLE, nodes=2, gpus=2, home=tmp_path_factory.mktemp("table")) as running:
        yield running


class Site:
    """A checkout with site files and one lab of its own, on a cluster that runs."""

    def __init__(self, checkout, env: dict[str, str]):
        self.root, self._python = checkout.root, checkout.python
        self.env = {**env, "SITE": ""}
        shutil.copytree(labkit.__path__[0] + "/../../slurm", self.root / "slurm")
        (self.root / ".venv").symlink_to(sys.prefix)
        tiny_lab.put(checkout)

    def write(self, name: str, **changes: str) -> None:
        """The tabletop's site file under another name, with other values."""
        text = (self.root / "slurm/sites/tabletop.sh").read_text(encoding="utf-8")
        text = text.replace("SITE=tabletop", f"SITE={name}")
        text += "".join(f'export {key}="{value}"\n' for key, value in changes.items())
        (self.root / f"slurm/sites/{name}.sh").write_text(text, encoding="utf-8")

    def make_site(self, name: str, **variables: str) -> CompletedProcess:
        """`make site NAME=…`."""
        return self._python("-m", "slurm.new_site", name, env=self.env | variables)

    def doctor(self, *arguments: str, **variables: str) -> CompletedProcess:
        """`make doctor SITE=…`."""
        return self._python("-m", "slurm.doctor", *arguments, env=self.env | variables)


@pytest.fixture
def site(checkout, table):
    return Site(checkout, table.env)


def jobs(table) -> list[str]:
    return table.run(["squeue", "-h", "-o", "%j"]).stdout.split()


def test_a_site_file_holds_what_slurm_says(site):
    """And nothing of what the user has chosen for themselves, nor a word that bash would run."""
    modules = "gcc/13:cuda/12.4:mvapich2:CUDA-something"
    ended = site.make_site("mine", LOADEDMODULES=modules, SBATCH_PARTITION="own")
    assert ended.returncode == 0, ended
    assert "Next, also on a login node: make doctor SITE=mine" in ended.stdout
    file = site.root / "slurm/sites/mine.sh"
    text = file.read_text(encoding="utf-8")
    assert "not run here" not in text
    settings = sites.load("mine", {"PATH": os.environ["PATH"]})
    assert settings == {
        "SITE": "mine",
        "SBATCH_PARTITION": "tabletop",
        "LABKIT_GPUS_PER_NODE": "2",
        "LABKIT_GPU_FORM": "gpus-per-node",
        "SBATCH_GPUS_PER_NODE": "2",
        "LABKIT_SBATCH_OPTIONS": "--cpus-per-task=8",  # 16 cores for 2 GPUs
        "LABKIT_MODULES": "gcc/13 mvapich2 CUDA-something",
        "LABKIT_SETUP_MODULES": "cuda/12.4",
        "LABKIT_LAUNCHER": "srun",
        "LABKIT_MPI": "mpich",
    }
    for name in ("mine", "tabletop", "template"):
        assert "is there already, and is left as it is" in site.make_site(name).stderr
    assert file.read_text(encoding="utf-8") == text
    assert site.make_site("other", LOADEDMODULES="$(id)").returncode == 0
    assert "LABKIT_MODULES" not in sites.load("other", {"PATH": os.environ["PATH"]})


def test_a_slurm_that_takes_gpus_by_gres():
    template = (ROOT / "slurm/sites/template.sh").read_text(encoding="utf-8")
    text = new_site.fill(template, {"SBATCH_GRES": "gpu:4", "SBATCH_GPUS_PER_NODE": ""})
    assert '\nexport SBATCH_GRES="gpu:4"\n' in text
    assert "\n# export SBATCH_GPUS_PER_NODE=…\n" in text


def test_the_doctor_finds_nothing_wrong_on_the_tabletop(site, table):
    ended = site.doctor("tabletop")
    assert ended.returncode == 0, ended
    for sentence in (
        "ok         Slurm 2",
        "ok         sbatch would take `sbatch --time=2 --nodes=2 --ntasks-per-node=2 ",
        "ok         A job ran on node1, which sees this folder and its Python.",
        "ok         srun --mpi=pmi2 started 4 ranks on 2 nodes (node1, node2); they exchanged the",
        "ok         MPI: MPICH ",
        "ok         MPI allows MPI_THREAD_MULTIPLE",
        "note       No InfiniBand",
        "Labs on the nodes: 1 of 1 run as they are",
        "90_tiny  runs here",
        "Nothing is wrong.",
    ):
        assert sentence in ended.stdout, ended.stdout
    assert "WRONG" not in ended.stdout
    assert jobs(table) == []


def test_what_does_not_fit_the_site_file_is_named_with_a_cure(site, table):
    more = {"LABKIT_GPUS_PER_NODE": "4", "LABKIT_HOROVOD": "nccl"}
    site.write("wrong", LABKIT_LAUNCHER="srun --mpi=none", LABKIT_MPI="openmpi", **more)
    ended = site.doctor("wrong", "--nodes", "1")
    assert ended.returncode == 1, ended
    for said in (
        "each of which thinks it is alone",
        "Try another --mpi=",
        "The site file says 4 GPUs in a node, but PyTorch sees 0 in this job.",
        "LABKIT_MPI says openmpi, but the ranks run on MPICH ",
        "LABKIT_HOROVOD asks for Horovod's build 'nccl'; on the node there is: host.",
        "4 things to mend.",
    ):
        assert said in ended.stdout, ended.stdout
    assert jobs(table) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"SBATCH_PARTITION": "gpu"}, "Set SBATCH_PARTITION; `sinfo -s` lists them."),
        ({"SBATCH_CONSTRAINT": "a100&ib"}, "SBATCH_CONSTRAINT names a feature that no node has"),
        ({"SBATCH_GPUS_PER_NODE": "5"}, "refuses `SBATCH_GPUS_PER_NODE=5 sbatch --time=2"),
        ({"SBATCH_GRES": "gpu:a100:2"}, "refuses `SBATCH_GRES=gpu:a100:2 sbatch --time=2"),
        ({"LABKIT_SBATCH_OPTIONS": "--cpus-per-task=99"}, "configuration is not available"),
    ],
)
def test_what_slurm_refuses_is_named_before_a_job_is_tried(site, table, changes, says):
    site.write("refused", **changes)
    ended = site.doctor("refused")
    assert ended.returncode == 1, ended
    assert ended.stderr == ""
    assert says in ended.stdout
    assert "No job was tried" in ended.stdout
    assert jobs(table) == []


def test_what_is_misspelt_in_the_site_file_is_named(site):
    site.write("refused", LABKIT_SBATCH_OPTIONS="--comment='open")
    assert 'is "--comment=\'open": No closing' in site.doctor("refused").stderr
    site.write("refused", LABKIT_MPI="mpi", LABKIT_LAUNCHER="run", LABKIT_GPUS_PER_NODE="four")
    ended = site.doctor("refused", SBATCH_CONSTRAINT="none")
    for said in (
        "LABKIT_GPUS_PER_NODE is 'four' in slurm/sites/refused.sh. Write one of: 0, 1, 2,",
        "LABKIT_MPI is 'mpi' in slurm/sites/refused.sh. Write one of: mpich,",
        "LABKIT_LAUNCHER is 'run' in slurm/sites/refused.sh. Write one of: srun,",
    ):
        assert said in ended.stdout


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"LABKIT_MODULES": "gcc nonesuch"}, "module"),
        ({"LABKIT_LAUNCHER": "srun --mpi=pmi9"}, "started 0 of 2 ranks, .* It said: .*pmi9"),
    ],
)
def test_what_the_job_cannot_do_is_said_in_its_own_words(site, changes, says):
    site.write("cannot", **changes)
    ended = site.doctor("cannot", "--nodes", "1")
    assert ended.returncode == 1, ended
    assert re.search(f"(?s)WRONG .*{says}", ended.stdout), ended.stdout


def test_a_full_queue_leaves_the_rest_unchecked_and_no_job_behind(site, table):
    sleeper = ["sbatch", "-N2", "--exclusive", "--job-name=sleeper", "--output=/dev/null"]
    table.run([*sleeper, "--wrap=sleep 300"])
    try:
        ended = site.doctor("tabletop", "--patience", "2")
        assert ended.returncode == 0, ended
        assert "unchecked  The queue is full (job " in ended.stdout
        assert "the rest is unchecked" in ended.stdout
        assert "Which labs run on the nodes is unchecked." in ended.stdout
        assert jobs(table) == ["sleeper"]
        command = [sys.executable, "-m", "slurm.doctor", "tabletop"]
        env = {**os.environ, **site.env, "PYTHONPATH": str(site.root / "labs")}
        waiting = subprocess.Popen(command, cwd=site.root, env=env, stdout=subprocess.PIPE)
        awaited(lambda: "labkit-doctor" in jobs(table), 60)
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=60)
        assert waiting.returncode == 130
        assert jobs(table) == ["sleeper"]
    finally:
        table.run(["scancel", "--name=sleeper"])


def test_nodes_that_do_not_see_the_folder(site, table):
    # Inside the cluster /dev/shm is another one than on this machine: a folder that is not shared.
    hidden = f"/dev/shm/labkit-{os.getpid()}"
    try:
        ended = site.doctor("tabletop", "--nodes", "1", LABKIT_HOME=hidden)
    finally:
        shutil.rmtree(hidden)
    assert ended.returncode == 1, ended
    assert "nothing that it wrote is seen here. Do the nodes see " in ended.stdout
    assert jobs(table) == []
