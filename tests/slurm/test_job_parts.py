"""What a batch job does on its first node, part by part; whole jobs are in tests/test_slurm.py."""

from __future__ import annotations

import json
import os
import time

import jupytext
import nbformat
import pytest
from authoring import generate
from labkit import copies
from labkit.errors import LabError

from slurm.job import launcher as job_launcher
from slurm.job import outcome
from slurm.job import shape as job_shape
from tests.authoring import tiny_lab

NOTEBOOK, SCRIPT = "notebooks/90_tiny.ipynb", "labs/90_tiny.py"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A job of two nodes, as Slurm's variables tell it, with a scontrol that knows its nodes."""
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$3" = "n[7-8]" ] && printf "n7\\nn8\\n"\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scontrol.parent}:{os.environ['PATH']}")
    return {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[7-8]", "SLURM_TASKS_PER_NODE": "2,1"}


def test_the_shape_of_a_job(slurm):
    shape = job_shape.read(slurm | {"SLURM_GPUS_ON_NODE": "2"})
    assert (shape.hosts, shape.tasks, shape.ranks, shape.gpus) == (("n7", "n8"), (2, 1), 3, 2)
    assert shape.places() == [("n7", 0), ("n7", 1), ("n8", 0)]
    with pytest.raises(LabError, match="This is no Slurm job"):
        job_shape.read({})
    with pytest.raises(LabError, match="scontrol cannot name the nodes 'm1'"):
        job_shape.read(slurm | {"SLURM_JOB_NODELIST": "m1"})


def test_threads_are_the_jobs_cores_but_no_more_than_there_are(slurm, monkeypatch):
    monkeypatch.setattr(job_shape.world, "cores", lambda: 8)
    assert job_shape.read(slurm).threads == 1
    assert job_shape.read(slurm | {"SLURM_CPUS_PER_TASK": "3"}).threads == 3
    assert job_shape.read(slurm | {"SLURM_CPUS_PER_TASK": "16"}).threads == 4
    shape = job_shape.read(slurm | {"SLURM_CPUS_PER_TASK": "3"})
    assert job_shape.environment(shape, ("A", "B"), {"A": "7"}) == {"B": "3"}


def test_the_device_map_is_that_of_the_devices(slurm, tmp_path):
    shape = job_shape.read(slurm | {"SLURM_GPUS_ON_NODE": "2"})
    lines = job_shape.device_map(shape, dev=tmp_path)
    assert [line.split() for line in lines[1:4]] == [
        ["0", "n7", "0", "cpu"],
        ["1", "n7", "1", "cpu"],
        ["2", "n8", "0", "cpu"],
    ]
    assert "2 GPUs on each node, but this node has no NVIDIA device" in lines[4]
    (tmp_path / "nvidia0").touch()
    assert [line.split()[-1] for line in job_shape.device_map(shape, dev=tmp_path)[1:]] == [
        "cuda:0",
        "cuda:1",
        "cuda:0",
    ]


@pytest.fixture
def launcher(slurm, tmp_path):
    """The command for a launcher, all of which are in one folder."""
    for name in ("srun", "mpirun_rsh", "mpiexec", "ibrun"):
        path = tmp_path / "bin" / name
        path.write_text("#!/bin/sh\necho HYDRA build details\n")
        path.chmod(0o755)

    def command(words: str, **more: str) -> str:
        env = slurm | {"PATH": os.environ["PATH"], "LABKIT_LAUNCHER": words, "MPI_HOME": str(tmp_path)} | more
        shape = job_shape.read(env)
        found = job_launcher.command(shape, ["python", "x.py"], env, tmp_path)
        return " ".join(found).replace(f"{tmp_path}/bin/", "").replace(f"{tmp_path}/", "")

    return command


def test_srun(launcher):
    plain = "srun --mpi=pmix --nodes 2 --ntasks 3 --distribution=block --kill-on-bad-exit=1"
    assert launcher("srun --mpi=pmix") == f"{plain} python x.py"
    # Not --gpus-per-task: a rank must see its neighbours' GPUs.
    assert launcher("srun --mpi=pmix", SLURM_GPUS_ON_NODE="2") == f"{plain} --gpu-bind=none python x.py"
    assert "gpu" not in launcher("srun", SLURM_GPUS_ON_NODE="2", LABKIT_GPU_FORM="none")


def test_mpirun_rsh(launcher, tmp_path):
    said = launcher("mpirun_rsh -export-all", MV2_USE_CUDA="1", OMP_NUM_THREADS="2", OTHER="x", SITE="here")
    pairs = "MV2_USE_CUDA=1 OMP_NUM_THREADS=2 SITE=here SLURM_JOB_ID=5"
    assert said == f"mpirun_rsh -export-all -np 3 -hostfile hosts {pairs} python x.py"
    assert (tmp_path / "hosts").read_text() == "n7\nn7\nn8\n"


def test_hydra_and_ibrun(launcher):
    assert launcher("mpiexec") == "mpiexec -n 3 -ppn 2 python x.py"
    assert launcher("ibrun") == "ibrun python x.py"


def test_launchers_that_are_not_there(launcher):
    with pytest.raises(LabError, match="begins with 'jsrun'; known are srun, mpirun_rsh"):
        launcher("jsrun")
    with pytest.raises(LabError, match=r"mpirun_rsh, the launcher of the site file .* is not on this node"):
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
        (["srun: error: n0: tasks 1-2: Exited with exit code 7"], "rank 1 on n0.*: Exited with exit code 7"),
        (
            ["[n1:mpispawn_1][child_handler] MPI process (rank: 3, pid: 77) exited with status 7"],
            "rank 3 on n1.*: exited with status 7",
        ),
        (
            ["=   RANK 3 PID 4711 RUNNING AT n1", "=   KILLED BY SIGNAL: 9 (Killed)"],
            r"rank 3 on n1.*: killed by signal: 9 \(killed\)",
        ),
        (
            ["mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed)."],
            "rank 3 on n1.*: exited on signal 9",
        ),
        (["srun: error: Node failure on n1"], "The node n1 failed"),
    ],
)
def test_what_launchers_say_of_a_rank(lines, says, tmp_path):
    listener = outcome.Listener()
    for number, line in enumerate(lines):
        listener.hear(line, float(number))
    import re

    assert re.search(says, outcome.first_failure(tmp_path, listener))


def test_the_first_one_counts(notes, tmp_path):
    listener = outcome.Listener()
    notes(2, 11.0, "rank 2 failed: second")
    notes(1, 10.0, "rank 1 failed: first")
    assert outcome.first_failure(tmp_path, listener) == "First to fail: rank 1 on n0.\nrank 1 failed: first"
    # The launcher hears of rank 3's death after it ended those that waited for rank 1: no reason of its own.
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


@pytest.fixture
def pair(checkout):
    """A checkout with the tiny lab, and a function that edits a file of it and makes it the newer one."""
    tiny_lab.put(checkout)
    generate.write_all()

    def edit(name: str, old: str, new: str) -> None:
        path = checkout.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        later = time.time() + 60
        os.utime(path, (later, later))

    checkout.edit = edit
    return checkout


def test_nothing_is_said_of_files_that_agree(pair):
    assert copies.sync("90_tiny", pair.root) is None
    pair.edit(NOTEBOOK, '"nbformat_minor": ', '"nbformat_minor":  ')  # saved again: no cell differs
    assert copies.sync("90_tiny", pair.root) is None


def test_the_newer_notebook_wins(pair, capsys):
    pair.edit(NOTEBOOK, "Write the sum.", "Write a sum.")
    said = copies.sync("90_tiny", pair.root)
    assert said.startswith(f"{NOTEBOOK} is newer than {SCRIPT} and wins")
    assert "# Write a sum." in (pair.root / SCRIPT).read_text(encoding="utf-8")
    assert f"Set aside: {SCRIPT}" in capsys.readouterr().out
    assert copies.sync("90_tiny", pair.root) is None


def test_the_newer_script_wins_and_outputs_of_other_cells_stay(pair):
    path = pair.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[1].outputs = [nbformat.v4.new_output("stream", text="hello")]
    nbformat.write(book, path)
    pair.edit(SCRIPT, "# Write the sum.", "# Write a sum.")
    assert copies.sync("90_tiny", pair.root).startswith(f"{SCRIPT} is newer than {NOTEBOOK} and wins")
    after = nbformat.read(path, as_version=4)
    assert after.cells[1].outputs[0].text == "hello"
    assert [cell.id for cell in after.cells] == [cell.id for cell in book.cells]
    script = jupytext.read(pair.root / SCRIPT, fmt="py:percent")
    assert [cell.source for cell in after.cells] == [cell.source for cell in script.cells]
    assert copies.sync("90_tiny", pair.root) is None


def test_a_file_that_is_missing_or_broken(pair):
    (pair.root / SCRIPT).unlink()
    assert copies.sync("90_tiny", pair.root).startswith(f"{SCRIPT} was missing")
    (pair.root / NOTEBOOK).write_text("{", encoding="utf-8")
    with pytest.raises(LabError, match="90_tiny.ipynb is no notebook: `make reset LAB=90`"):
        copies.sync("90_tiny", pair.root)
    (pair.root / SCRIPT).unlink()
    (pair.root / NOTEBOOK).unlink()
    with pytest.raises(LabError, match="labs/90_tiny.py is missing: `make reset LAB=90`"):
        copies.sync("90_tiny", pair.root)
