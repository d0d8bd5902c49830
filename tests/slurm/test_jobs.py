"""The batch scripts on real Slurm daemons: labs' through sbatch, the track's by `make rehearse`,
and what a job that ends badly says.

The cluster is the tabletop of slurm/tabletop, with two nodes on this machine. In CI, and with
EVERY_LAB=1, the scripts of all labs run, which takes ten minutes on two cores; else those that
differ in more than their lab.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from pathlib import Path

import psutil
import pytest
from authoring import rehearsal
from labkit import builds, copies, labfile, paths
from labkit.cluster import jobs

from slurm import tabletop
from tests.helpers import awaited, until
from tests.labs import solved_runs
from tests.slurm import ends_badly

ROOT = paths.root()
# The scripts differ in their lab's name, ranks and cores alone. These labs cross the network each
# in a way of its own: MPI, tensors over MPI, Horovod with either framework, Gloo, TensorFlow's
# servers; or they read what a job leaves: logs, records, checkpoints.
USUAL = ("20", "26", "30", "51", "53", "60", "61", "70", "80")
STEMS = [
    path.stem
    for path in sorted((ROOT / "slurm").glob("[0-9][0-9]_*.sbatch"))
    if (solved_runs.EVERY_LAB or path.stem[:2] in USUAL) and path.stem[:2] not in rehearsal.TRACK
]
SCRIPT = f"slurm/{ends_badly.STEM}.sbatch"
SLEEPS = ends_badly.line("time.sleep(600)")
SECONDS = 400  # to end a job that hangs; no speed is asserted
pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 60)]
# They have something to do for several ranks on each of several nodes.
FOUR = ("20", "21", "26", "53")
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}


class Cluster:
    """The tabletop cluster of these tests, and what is asked of it."""

    def __init__(self, table: tabletop.Tabletop, folder: Path):
        self.table, self.folder = table, folder
        self.home = folder / "home"

    def submit(self, script: str, *options: str, cwd: Path = ROOT, **variables: str) -> str:
        """The number of a new job."""
        env = {**os.environ, **self.table.env, "LABKIT_HOME": str(self.home), **variables}
        command = ["sbatch", "--parsable", f"--output={self.folder}/%x-%j.out", *options, script]
        done = self.table.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ask(self, *command: str) -> str:
        done = self.table.run(list(command), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def facts(self, job: str) -> dict[str, str]:
        """What `scontrol show job` says: JobState, ExitCode, NodeList, …"""
        return dict(
            word.split("=", 1)
            for word in self.ask("scontrol", "show", "job", job).split()
            if "=" in word
        )

    def output(self, job: str) -> str:
        files = list(self.folder.glob(f"*-{job}.out"))
        return files[0].read_text(encoding="utf-8") if files else ""

    def wait(self, job: str) -> tuple[str, str, str]:
        """(state, exit code, output) of a job that is over."""
        over = until(lambda: self.facts(job)["JobState"] in OVER, SECONDS, 0.3)
        facts = self.facts(job)
        assert over, f"job {job} is {facts['JobState']}:\n{self.output(job)}"
        return facts["JobState"], facts["ExitCode"], self.output(job)

    def wait_for(self, job: str, text: str) -> None:
        """Until the job has printed the text."""
        assert until(lambda: text in self.output(job), 60), self.output(job)

    def records(self, job: str) -> list[dict]:
        files = self.home.rglob("records/*.jsonl")
        entries = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [entry for entry in entries if entry["job"] == job]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    with tabletop.up("test", nodes=2, bandwidth="1gbit", home=folder / "cluster") as table:
        yield Cluster(table, folder)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    return ends_badly.checkout(tmp_path_factory.mktemp("labs") / "checkout")


@pytest.fixture(scope="module")
def bad_jobs(cluster, checkout) -> dict[str, str]:
    """Jobs that end badly, all at once: they wait more than they work. The way they end ->
    number."""
    jobs = {"hang": cluster.submit(SCRIPT, "--time=1", cwd=checkout, SOLVED="1", SET="how=hang")}
    for how, *_ in BAD:
        # A secret of whoever submits: rank 3 of "exit" looks for it.
        jobs[how] = cluster.submit(SCRIPT, cwd=checkout, SOLVED="1", SET=f"how={how}", A_TOKEN="x")
    return jobs


SILENT = "rank 3 on node2. It left no message; its launcher says:"
BAD = [
    (
        "raise",
        1,
        "rank 3 failed: ValueError: rank three has had enough  (line {raise ValueError} in",
    ),
    ("exit", 7, f"{SILENT} Exited with exit code 7"),
    ("kill", 137, f"{SILENT} Killed"),
    ("inside", 1, "failed: ZeroDivisionError: division by zero  (line {return 1} in divide"),
]


@pytest.mark.parametrize(("how", "status", "says"), BAD, ids=[how for how, *_ in BAD])
def test_a_job_whose_rank_fails_says_which_one(cluster, bad_jobs, how, status, says):
    state, code, output = cluster.wait(bad_jobs[how])
    assert (state, code) == ("FAILED", f"{status}:0"), output
    last = output.split("Lab 90_ends_badly failed after ")[1]
    assert "First to fail: rank 3 on node2" in last
    assert re.sub(r"\{(.+?)\}", lambda match: ends_badly.line(match[1]), says) in last
    assert "labs/labkit/" not in output, "no traceback through the kit's own files"


def test_scancel_ends_all_ranks(cluster, checkout):
    job = cluster.submit(SCRIPT, cwd=checkout, SOLVED="1", SET="how=hang")
    cluster.wait_for(job, "rank 3 sleeps")
    cluster.ask("scancel", job)
    assert cluster.wait(job)[0] == "CANCELLED"
    cluster.wait_for(job, f"Job {job} was cancelled (scancel).")
    cluster.wait_for(job, f"Where the ranks were: rank 3 in line {SLEEPS} of rank_3_ends")
    assert_nothing_runs(cluster, job)


def test_an_unsolved_exercise_fails_the_job(cluster, checkout):
    copies.bring(checkout, [labfile.find("20")])
    (book,) = (checkout / "work").glob("20_*.ipynb")
    text = book.read_text(encoding="utf-8").replace("Ranks and messages", "Ranks, messages")
    book.write_text(text, encoding="utf-8")
    later = time.time() + 60
    os.utime(book, (later, later))
    state, code, output = cluster.wait(cluster.submit(f"slurm/{book.stem}.sbatch", cwd=checkout))
    assert (state, code) == ("FAILED", "1:0"), output
    assert f"work/{book.name} is newer than work/{book.stem}.py and wins" in output
    assert "Ranks, messages" in (checkout / "work" / f"{book.stem}.py").read_text(encoding="utf-8")
    assert "First to fail: rank " in output
    assert "✗ 20.1  not solved yet." in output.split("First to fail")[1]


def assert_nothing_runs(cluster: Cluster, job: str) -> None:
    """No process of the job is left, on whichever node: Slurm ends them within a moment."""
    awaited(lambda: not [one for one in psutil.process_iter() if is_of(one, cluster, job)], 15)


def is_of(process: psutil.Process, cluster: Cluster, job: str) -> bool:
    try:
        env = process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    ours = env.get("LABKIT_HOME", "").startswith(str(cluster.home))
    return ours and env.get("SLURM_JOB_ID") == job


def assert_ran_well(stem: str, output: str, records: list[dict]) -> None:
    """All checks passed, on both nodes, and what the lab measures is recorded."""
    solved_runs.assert_each_check_passed_once(stem, output)
    assert " ranks on node1 and node2 ended well after " in output.splitlines()[-1]
    assert "slurmstepd" not in output
    # Lab 43 reads logs: it measures nothing, and the kit has no results of it to compare with.
    if (ROOT / "solutions" / "results" / f"{stem}.jsonl").exists():
        assert records, "the job has recorded what its lab measures"
    assert {entry["site"] for entry in records} <= {"tabletop"}
    assert {entry["lab"] for entry in records} <= {stem}
    assert {entry["host"] for entry in records} <= {"node1", "node2"}


@pytest.mark.timeout(1200)
def test_the_tracks_jobs_run_and_are_ready(cluster, monkeypatch, capsys):
    """`make rehearse`: solved, with small parameters, as it runs before a class at its site."""
    strict = {"PYTHONWARNINGS": solved_runs.own_warnings_are_errors()}
    for name, value in {**cluster.table.env, **strict, "LABKIT_HOME": str(cluster.home)}.items():
        monkeypatch.setenv(name, value)
    try:
        status = rehearsal.main(["--site", "tabletop", "--patience", "900"])
    finally:
        rehearsal.cancelled(jobs())
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith(("✓", "✗"))]
    assert status == 0, "\n".join(lines)
    # Lab 46 runs once with each build of Horovod; without GPUs there is one.
    track = ["40", "41", "42", "43", *["46"] * len(builds.horovod_builds())]
    assert [line[2:4] for line in lines] == track
    assert all(re.search(r"\): (tensors on cpu|every check passed)", line) for line in lines)
    assert f"{len(lines)} of {len(lines)} jobs ready on tabletop." in printed
    assert len(jobs()) == len(track)
    for job in jobs():
        assert_ran_well(job.lab, job.output(), job.entries())


@pytest.mark.parametrize("stem", STEMS)
def test_a_labs_batch_script_runs(cluster, stem):
    """On two nodes: those of FOUR with as many ranks as their scripts ask for, the others with
    two. As with `make submit`, the site file gives each rank one core, for both nodes are on this
    machine; only lab 13, which is about cores, gets what its script asks for."""
    small = solved_runs.small(stem).items()
    values = " ".join(shlex.quote(f"{name}={value!r}") for name, value in small)
    strict = {"PYTHONWARNINGS": solved_runs.own_warnings_are_errors()}
    options = [] if stem[:2] in FOUR else ["--ntasks-per-node=1"]
    options += [] if stem.startswith("13") else ["--cpus-per-task=1"]
    job = cluster.submit(f"slurm/{stem}.sbatch", *options, SOLVED="1", SET=values, **strict)
    state, code, output = cluster.wait(job)
    assert (state, code) == ("COMPLETED", "0:0"), output
    records = cluster.records(job)
    assert_ran_well(stem, output, records)
    if stem[:2] in FOUR:
        assert 4 in {entry["ranks"] for entry in records}, "it measures on all ranks"


def test_a_job_that_hangs_into_its_limit_says_where(cluster, bad_jobs):
    job = bad_jobs["hang"]
    assert cluster.wait(job)[0] == "TIMEOUT"
    cluster.wait_for(job, "at its time limit, 00:01:00 hours:minutes:seconds")
    cluster.wait_for(
        job, f"Where the ranks were: rank 3 in line {SLEEPS} of rank_3_ends: time.sleep"
    )
    assert_nothing_runs(cluster, job)


def test_a_node_that_fails_is_named(cluster, checkout):
    job = cluster.submit(SCRIPT, cwd=checkout, SOLVED="1", SET="how=hang")
    cluster.wait_for(job, "rank 3 sleeps")
    cluster.table.fail(2)
    state, _, output = cluster.wait(job)
    assert state == "NODE_FAIL"
    cluster.wait_for(job, "node2 failed")
    cluster.table.heal(2)
    assert_nothing_runs(cluster, job)
