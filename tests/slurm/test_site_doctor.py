"""`make site` and `make doctor SITE=x` on a real Slurm: the tabletop cluster."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import labkit
import pytest
from labkit.cluster import sites

from slurm import tabletop
from tests.authoring import tiny_lab
from tests.slurm import test_sites

pytestmark = pytest.mark.slow
TABLE = "sitedoctor"


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
        tiny_lab.put(checkout)

    def write(self, name: str, **changes: str) -> None:
        """The tabletop's site file under another name, with other values."""
        text = (self.root / "slurm/sites/tabletop.sh").read_text(encoding="utf-8")
        text = text.replace("SITE=tabletop", f"SITE={name}")
        text += "".join(f'export {key}="{value}"\n' for key, value in changes.items())
        (self.root / f"slurm/sites/{name}.sh").write_text(text, encoding="utf-8")

    def make_site(self, answers: str) -> subprocess.CompletedProcess:
        """`make site`, with these answers on its stdin."""
        return self._python("-m", "slurm.new_site", env=self.env, input=answers)

    def doctor(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        """`make doctor SITE=…`."""
        return self._python("-m", "slurm.doctor", *arguments, env=self.env | variables)


@pytest.fixture
def site(checkout, table):
    return Site(checkout, table.env)


@pytest.fixture
def without_slurm(checkout, tmp_path):
    """A machine without Slurm, as anybody's laptop."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "env"):
        (tools / name).symlink_to(shutil.which(name))
    return Site(checkout, {"PATH": str(tools)})


def jobs(table) -> list[str]:
    return table.run(["squeue", "-h", "-o", "%j"]).stdout.split()


def test_the_questions_suggest_what_slurm_says_and_check_each_answer(site):
    answers = "tabletop\nMy Site\nmine\n\nxx\n\n9\n2\nfoo\n\n"
    answers += "mpifoo\nsrun --mpi=bad\nsrun --mpi=pmi2\nfoo\n-\nbad\n\nrccl\nmpi\nhost\n"
    ended = site.make_site(answers)
    assert ended.returncode == 0, ended
    for sentence in (
        "slurm/sites/tabletop.sh is there already, and is left as it is. Choose another name.",
        "A name is small letters, digits, _ and -",
        "Partition (queue) for the labs [tabletop]: xx",
        "There is no partition 'xx'; sinfo knows tabletop.",
        "sinfo shows 2 GPUs in a node of partition tabletop.",
        "The ways to ask for GPUs are: gpus-per-node, gres, none.",
        "A launcher begins with one of: srun, mpirun_rsh",
        "srun has no MPI plugin 'bad'; it has ",
        "module",
        "The kit knows these MPI libraries: mpich, mvapich2",
        "Horovod has no build 'rccl'; its builds are host, nccl, mpi",
        "The build 'mpi' of Horovod is not here (here: host)",
        "Written: slurm/sites/mine.sh. Next, also on a login node: make doctor SITE=mine",
    ):
        assert sentence in ended.stdout, sentence
    text = (site.root / "slurm/sites/mine.sh").read_text(encoding="utf-8")
    for line in text.splitlines():
        assert not line or line.startswith("# ") or test_sites.LINE.fullmatch(line), line
    settings = sites.load("mine", {"PATH": os.environ["PATH"]})
    assert settings["SITE"] == "mine"
    assert settings["SBATCH_PARTITION"] == "tabletop"
    assert settings["SBATCH_GPUS_PER_NODE"] == settings["LABKIT_GPUS_PER_NODE"] == "2"
    assert settings["LABKIT_LAUNCHER"] == "srun --mpi=pmi2"
    assert settings["LABKIT_SBATCH_OPTIONS"] == "--cpus-per-task=8"  # 16 cores for 2 GPUs
    assert settings["LABKIT_HOROVOD"] == "host"
    own = {"PATH": os.environ["PATH"], "LABKIT_HOROVOD": "nccl"}
    assert sites.load("mine", own)["LABKIT_HOROVOD"] == "nccl"
    assert "SBATCH_ACCOUNT" not in settings
    again = site.make_site("mine\n")
    assert again.returncode == 1
    assert "mine.sh is there already" in again.stdout
    assert (site.root / "slurm/sites/mine.sh").read_text(encoding="utf-8") == text


def test_what_slurm_refuses_today_can_be_insisted_on(site, table):
    ended = site.make_site("mine\n\n\n0\ngpus-per-node\nnone\nsrun\n-\nmpich\n\n")
    assert ended.returncode == 0, ended
    assert "Without GPUs in a node the form is none." in ended.stdout
    assert sites.load("mine")["LABKIT_GPU_FORM"] == "none"
    update = ["scontrol", "update", "partitionname=tabletop"]
    assert table.run([*update, "state=inactive"]).returncode == 0
    try:
        ended = site.make_site("other\nproj\n\n2\ngres\ngres\nsrun\n-\nmpich\n-\n")
    finally:
        table.run([*update, "state=up"])
    assert ended.returncode == 0, ended
    assert "Slurm refuses such a job: Required partition not available" in ended.stdout
    assert ended.stdout.count("Say the same again to keep it.") == 1
    assert "Kept, since you said it twice." in ended.stdout
    assert sites.load("other")["SBATCH_GRES"] == "gpu:2"
    assert sites.load("other", {"PATH": os.environ["PATH"]})["SBATCH_ACCOUNT"] == "proj"


def test_without_slurm_the_answers_are_taken_and_said_to_be_unchecked(without_slurm):
    ended = without_slurm.make_site("far\nproj_1\ngpu\n4\ngres\nmpirun_rsh -export-all\n-\nmvapich2-gdr\n\n")
    assert ended.returncode == 0, ended
    assert "Slurm does not answer here (" in ended.stdout
    settings = sites.load("far", {"PATH": os.environ["PATH"]})
    assert settings["SBATCH_GRES"] == "gpu:4"
    assert settings["SBATCH_ACCOUNT"] == "proj_1"
    assert settings["LABKIT_LAUNCHER"] == "mpirun_rsh -export-all"
    assert sites.load("far", {"PATH": os.environ["PATH"], "SBATCH_ACCOUNT": "me"})["SBATCH_ACCOUNT"] == "me"
    ended = without_slurm.make_site('x\n$(id)\n"\n')
    assert ended.stdout.count("may stand in an answer") == 2
    assert not (without_slurm.root / "slurm/sites/x.sh").exists()


def test_the_doctor_finds_nothing_wrong_on_the_tabletop(site, table):
    ended = site.doctor("tabletop")
    assert ended.returncode == 0, ended
    for sentence in (
        "ok         Slurm 2",
        "ok         Partition tabletop: 2 nodes, 2 GPUs in a node.",
        "ok         srun has the plugin pmi2",
        "ok         A job ran on node1, which sees this folder and its Python.",
        "ok         srun --mpi=pmi2 started 4 ranks on 2 nodes (node1, node2); they exchanged their first",
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
    assert "each of which thinks it is alone" in ended.stdout
    assert "Try another --mpi=" in ended.stdout
    assert "The site file says 4 GPUs in a node; the job got 0 from Slurm" in ended.stdout
    assert "LABKIT_MPI says openmpi, but the ranks run on MPICH " in ended.stdout
    assert "LABKIT_HOROVOD asks for Horovod's build 'nccl'; on the node there is: host." in ended.stdout
    assert "4 things to mend." in ended.stdout
    assert jobs(table) == []


def test_what_slurm_refuses_is_named_before_a_job_is_tried(site, table):
    for changes, says in (
        (
            {"SBATCH_PARTITION": "gpu"},
            ("There is no partition 'gpu' here. sinfo knows tabletop.", "sbatch refuses"),
        ),
        (
            {"SBATCH_CONSTRAINT": "a100&ib"},
            ("SBATCH_CONSTRAINT asks for a100, ib; the nodes' features are: none",),
        ),
        (
            {"LABKIT_GPU_FORM": "gpus-per-node", "SBATCH_GPUS_PER_NODE": "5"},
            ("--gpus-per-node=5: ",),
        ),
        (
            {"LABKIT_GPU_FORM": "gres", "SBATCH_GRES": "gpu:a100:2"},
            ("--gres=gpu:a100:2: ", "so many of such GPUs"),
        ),
        ({"LABKIT_SBATCH_OPTIONS": "--cpus-per-task=99"}, ("configuration is not available",)),
    ):
        site.write("refused", **changes)
        ended = site.doctor("refused")
        assert ended.returncode == 1, ended
        assert ended.stderr == ""
        for sentence in says:
            assert sentence in ended.stdout, (changes, ended.stdout)
        assert "No job was tried" in ended.stdout
    site.write("refused", LABKIT_SBATCH_OPTIONS="--comment='open")
    ended = site.doctor("refused")
    assert (ended.returncode, 'is "--comment=\'open": No closing' in ended.stderr) == (1, True), ended
    more = {"LABKIT_GPUS_PER_NODE": "four", "LABKIT_MODULES": "gcc nonesuch", "LABKIT_HOROVOD": "rccl"}
    site.write("refused", LABKIT_MPI="mpi", LABKIT_LAUNCHER="srun --mpi=pmi9", **more)
    ended = site.doctor("refused", "--patience", "0", SBATCH_CONSTRAINT="none")
    assert "LABKIT_HOROVOD is 'rccl'; Horovod's builds are: host, nccl, mpi." in ended.stdout
    assert "LABKIT_MPI is 'mpi' in slurm/sites/refused.sh; known: mpich," in ended.stdout
    assert "srun has no MPI plugin 'pmi9', only " in ended.stdout
    assert "LABKIT_GPUS_PER_NODE is 'four' in slurm/sites/refused.sh; write 0, 1, 2, …" in ended.stdout
    assert "module" in next(line for line in ended.stdout.splitlines() if "avail" in line and "WRONG" in line)
    assert jobs(table) == []


def test_a_full_queue_leaves_the_rest_unchecked_and_no_job_behind(site, table):
    table.run(
        ["sbatch", "-N2", "--exclusive", "--job-name=sleeper", "--output=/dev/null", "--wrap=sleep 300"]
    )
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
        deadline = time.monotonic() + 60
        while "labkit-doctor" not in jobs(table) and time.monotonic() < deadline:
            time.sleep(0.2)
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=60)
        assert waiting.returncode == 130
        assert jobs(table) == ["sleeper"]
    finally:
        table.run(["scancel", "--name=sleeper"])


def test_nodes_that_do_not_see_the_folder(site, table, tmp_path):
    # Inside the cluster /dev/shm is another one than on this machine: a folder that is not shared.
    hidden = f"/dev/shm/labkit-{os.getpid()}"
    try:
        ended = site.doctor("tabletop", LABKIT_HOME=hidden)
    finally:
        shutil.rmtree(hidden)
    assert ended.returncode == 1, ended
    assert "nothing that it wrote is seen here. Do the nodes see " in ended.stdout
    assert jobs(table) == []
