"""labkit.cluster on a real Slurm: jobs to their end, the queue, failures, studies, what goes
missing."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from authoring import rehearsal
from labkit import builds, cli, cluster, paths
from labkit.cluster import job as cluster_job
from labkit.cluster import slurm
from labkit.errors import LabError

from slurm import tabletop
from tests import environments
from tests.helpers import awaited
from tests.labkit.cluster import job_lab
from tests.labkit.cluster.job_lab import STEM

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    with tabletop.up("jobs", nodes=2, home=tmp_path_factory.mktemp("tabletop")) as running:
        yield running


@pytest.fixture(autouse=True)
def _sourced(table, checkout, monkeypatch):
    """As in a shell that has sourced the cluster's env.sh, in a checkout of its own."""
    for name, value in table.env.items():
        monkeypatch.setenv(name, value)
    job_lab.build_in(checkout)
    yield
    for job in cluster.jobs():
        if not job.status().ended:
            job.cancel()


def test_a_job_goes_through_the_queue_and_its_records_come_back(capsys):
    job = cluster.submit(
        "91", nodes=2, ranks_per_node=2, settings={"pause": 1, "note": "two words"}, solved=True
    )
    assert (job.lab, job.site, job.nodes, job.ranks) == (STEM, "tabletop", 2, 4)
    assert job.wait(60) == job.state() == "completed"
    assert f"{paths.home()}/jobs/{STEM}-{job.number}-" in capsys.readouterr().out
    assert "ended well after" in job.output().splitlines()[-1]
    frame = job.records("strong")
    assert list(frame["ranks"]) == [1, 2, 3, 4]
    assert set(frame["note"]) == {"two words"}
    assert set(frame["job"]) == {job.number}
    assert set(frame["site"]) == {"tabletop"}
    assert set(frame["submitted"]) == {job.submitted}
    again = cluster.jobs(91)[-1]  # as after a restart of the notebook
    assert again == replace(job, final=again.final)
    assert again.final["state"] == "completed"
    again_frame, label = cluster.records_or_reference("91", "strong")
    assert label == f"your job {job.number} on tabletop"
    assert again_frame.equals(frame)
    assert job.records("weak").empty
    assert f"No result 'weak' in {job}; it has strong." in capsys.readouterr().out


def test_a_rehearsal_takes_its_jobs_back_where_a_later_one_is_refused(monkeypatch, capsys):
    submit, taken = cluster.submit, []

    def once(*arguments, **options):
        if taken:
            raise LabError("Your account may have 1 job.")
        taken.append(submit(*arguments, **{**options, "settings": {"pause": 300}}))
        return taken[0]

    monkeypatch.setattr(cluster, "submit", once)
    assert rehearsal.main(["--site", "tabletop", "--labs", "91,91"]) == 1
    said = f"may have 1 job. The rehearsal cancelled its jobs ({taken[0].number})"
    assert said in capsys.readouterr().err
    awaited(lambda: taken[0].state() == "cancelled")


def test_without_records_the_reference_stands_in_and_says_so(checkout):
    results = checkout.root / "solutions" / "results"
    results.mkdir()
    line = {"lab": STEM, "result": "strong", "seconds": 1.0}
    line |= {"utc": "2026-01-02T03:04", "cpu": "Xeon", "cores": 4}
    (results / f"{STEM}.jsonl").write_text(json.dumps(line) + "\n")
    frame, label = cluster.records_or_reference("91", "strong")
    assert label == "the kit's reference: Xeon, 4 cores, 2026-01-02, not yours"
    assert list(frame["seconds"]) == [1.0]


def test_the_failing_ranks_sentence_is_what_one_reads(capsys):
    status = cli.main(["submit", "91", "--solved", "--wait", "--set", "fail=the net is too wide"])
    printed = capsys.readouterr()
    assert status == 1
    assert "First to fail: rank 1 on node" in printed.err
    assert "the net is too wide\nAll it printed: " in printed.err
    assert "Traceback" not in printed.err
    assert cluster.jobs()[-1].state() == "failed"
    assert Path(printed.err.strip().rpartition(" ")[2]).exists()


def test_queue_interrupt_and_cancel(capsys):
    long = cluster.submit("91", nodes=2, ranks_per_node=16, settings={"pause": 300}, solved=True)
    awaited(lambda: long.state() == "running")
    behind = cluster.submit("91", nodes=2, settings={"pause": 300}, solved=True)
    assert behind.wait(timeout=8) == "pending"
    printed = capsys.readouterr().out
    assert "waits for free nodes" in printed
    assert "place 1 of 1" in printed
    assert "after 8 s no longer waited for" in printed
    process = subprocess.Popen(
        [sys.executable, "-c", "from labkit import cluster; cluster.jobs()[0].wait()"],
        env={**os.environ, "PYTHONPATH": str(paths.root() / "labs")}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert "runs on node[1-2]" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=30)[0]
    assert process.returncode != 0
    assert f"Stopped waiting; job {long.number} goes on." in rest
    assert long.state() == "running"
    for job in (behind, long):
        job.cancel()
        with pytest.raises(LabError, match="was cancelled"):
            job.wait(60)
    assert [job.state() for job in cluster.jobs()] == ["cancelled", "cancelled"]


def test_a_study_gives_one_table(capsys):
    with pytest.raises(LabError, match="can have 2 nodes, so NODES=8 will not start"):
        cluster.study("91", solved=True)
    assert cluster.jobs() == []
    assert cli.main(["scaling", "91", "--nodes", "2,1", "--ranks", "2", "--solved", "--wait"]) == 0
    study = cluster.last_study("91")
    assert [(job.nodes, job.ranks) for job in study] == [(1, 2), (2, 4)]
    frame = study.table("strong")
    assert list(frame["ranks"]) == [2, 4]
    assert list(frame["seconds"]) == [4.0, 2.0]
    assert list(frame["speedup"]) == [2.0, 4.0]
    assert list(frame["efficiency"]) == [1.0, 1.0]
    assert study.table("weak").empty
    assert study.plot("strong").axes[0].get_title("left") == "strong: speed-up on tabletop"
    capsys.readouterr()
    assert cli.main(["scaling", "91"]) == 0
    assert "speedup  efficiency" in capsys.readouterr().out
    assert cli.main(["results", "91"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "91 solved" in line]
    assert len(rows) == 2
    assert all("completed" in row and ".out" in row for row in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"nodes": 3}, "A job in partition tabletop can have 2 nodes, so NODES=3 will not start"),
        ({"site": "perlmutter"}, "`sbatch` says: .*[Ii]nvalid"),  # its constraint is no node's here
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(arguments, says):
    with pytest.raises(LabError, match=says) as refused:
        cluster.submit(**{"lab": "91", "solved": True, **arguments})
    assert "\n" not in str(refused.value)
    assert cluster.jobs() == []


@pytest.fixture
def two_of_each(tmp_path, checkout, monkeypatch):
    """The checkout's environment has a second build of Horovod, and a second MPI; its folder."""
    environment = environments.linked(tmp_path / "venv")
    environments.add_horovod(environment, "nccl")
    environments.add_mpi(environment)
    environments.use(environment, monkeypatch)
    (checkout.root / ".venv").unlink()
    (checkout.root / ".venv").symlink_to(environment)
    return environment


@pytest.mark.timeout(1200)
def test_a_job_with_builds_and_variables_of_its_own(two_of_each, table, capsys):
    site = paths.root() / "slurm" / "sites" / "tabletop.sh"
    site.write_text(f"{site.read_text()}export NCCL_DEBUG=site LABKIT_HOROVOD=host\n")
    chosen = ["--horovod", "nccl", "--mpi", "mvapich2", "--env", "NCCL_DEBUG=two words", "B=2"]
    status = cli.main(["submit", "93", "--nodes", "2", "--solved", "--wait", *chosen])
    printed = capsys.readouterr()
    assert status == 0, printed
    job = cluster.jobs()[-1]
    assert (job.horovod, job.mpi) == ("nccl", "mvapich2")
    assert job.env == {"NCCL_DEBUG": "two words", "B": "2"}
    for line in ("Horovod: build nccl (", "Set: NCCL_DEBUG=two words B=2"):
        assert line in printed.out
    [entry] = job.entries()
    assert entry["variable"] == "two words", "not the site file's"
    assert (entry["horovod_build"], entry["mpi"][:5]) == ("nccl", "MPICH"), "what really carried it"
    for total, file, libraries in entry["by_rank"]:
        assert total == 2.0
        assert Path(file).samefile(two_of_each / file.partition(".venv/")[2])
        assert "/horovod-nccl/" in file
        (library,) = libraries
        assert Path(library).samefile(two_of_each / "mvapich2/lib/libmpi.so.12")
    assert cli.main(["results"]) == 0
    [row] = [line for line in capsys.readouterr().out.splitlines() if "93 solved" in line]
    assert "HOROVOD=nccl MPI=mvapich2 NCCL_DEBUG=two words B=2" in row
    # With the site's own MPI and launcher, srun; a rank keeps the build with which the job was
    # started.
    job = cluster.submit("93", nodes=2, settings={"wish": "host"}, solved=True, horovod="nccl")
    with pytest.raises(LabError, match="was started with the build 'nccl' of Horovod"):
        job.wait(600)
    # A whole path stands before srun, if the learner's srun is that of a tabletop.
    assert re.search(r"Now: \S*srun --mpi=pmi2 --nodes 2", job.output())


@pytest.mark.timeout(1200)
def test_a_job_on_mvapich2_over_two_nodes(capsys):
    if "mvapich2" not in builds.mpi_builds():
        pytest.skip("MVAPICH2 is not here: `make mvapich2` builds it")
    job = cluster.submit("93", nodes=2, ranks_per_node=2, solved=True, mpi="mvapich2")
    job.wait(1000)
    [entry] = job.entries()
    assert (entry["ranks"], entry["mpi"], entry["launcher"]) == (4, "MVAPICH2 2.3.7", "mpiexec")
    assert [total for total, *_ in entry["by_rank"]] == [4.0] * 4
    assert {len(libraries) for _, _, libraries in entry["by_rank"]} == {1}
    assert "4 ranks on node1 and node2 ended well" in job.output()
    assert "the site file says mpich" not in job.output()
    wide = {"fail": "too wide"}
    failing = cluster.submit("91", nodes=2, settings=wide, solved=True, mpi="mvapich2")
    with pytest.raises(LabError, match="First to fail: rank 1 on node2"):
        failing.wait(1000)


def test_a_site_that_asks_for_a_build_that_is_not_here():
    site = paths.root() / "slurm" / "sites" / "tabletop.sh"
    site.write_text(f'{site.read_text()}export LABKIT_HOROVOD="${{LABKIT_HOROVOD:-nccl}}"\n')
    with pytest.raises(LabError, match="The build 'nccl' of Horovod is not here"):
        cluster.submit("91", solved=True)
    assert cluster.submit("91", solved=True, horovod="host").wait(60) == "completed"


def test_a_controller_that_does_not_answer(table, monkeypatch):
    job = cluster.submit("91", nodes=1, settings={"pause": 60}, solved=True)
    awaited(lambda: job.state() == "running")
    assert table.inside(["pkill", "-STOP", "-x", "slurmctld"]).returncode == 0
    try:
        with monkeypatch.context() as hurried:
            hurried.setattr(slurm, "QUERY_SECONDS", 1)
            hurried.setattr(cluster_job, "PATIENCE", 1.0)
            with pytest.raises(LabError, match="`scontrol` said nothing for 1 s. It has been so"):
                job.wait(30)
            with pytest.raises(LabError, match="Slurm does not answer: `sinfo` said nothing"):
                cluster.submit("91", nodes=1, solved=True)
            assert cli.main(["results"]) == 0
    finally:
        table.inside(["pkill", "-CONT", "-x", "slurmctld"])
    awaited(lambda: table.run(["squeue"]).returncode == 0)


def test_a_job_that_slurm_forgot():
    job = cluster.submit("91", nodes=1, solved=True)
    job.wait(60)
    lost = replace(job, number="99999", final=None)
    assert lost.state() == "completed", "its output ends with labkit's own last line"
    same_number = replace(job, final=None, file=job.file.replace("-20", "-19"))
    assert same_number.state() == "completed", "sacct has it; the clocks agree"
    later = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    other = replace(same_number, final=None, submitted=later)
    assert other.state() == "unknown", "Slurm's is an older one, with another output"
    Path(job.file).write_text("began\n")
    with pytest.raises(LabError, match="no longer knows job 99999 .* does not say how it ended"):
        replace(lost, final=None).wait(5)


def test_a_tabletop_that_is_gone(table, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.environ["PATH"].replace(f"{table.state}/bin:", ""))
    with tabletop.up("short", nodes=1, home=tmp_path) as other:
        monkeypatch.setenv("PATH", other.env["PATH"])
        job = cluster.submit("91", nodes=1, settings={"pause": 60}, solved=True)
    with pytest.raises(LabError, match="followed: The tabletop cluster 'short' is not running"):
        job.wait(5)
    assert job.state() == "unknown"
    assert cli.main(["results"]) == 0
    Path(job.file).write_text("Lab 91_job failed after 3 s, exit status 3.\nrank 0 is lost\n")
    with pytest.raises(LabError, match="failed: rank 0 is lost"):
        job.wait(5)


CELL = """
from labkit import cluster
job = cluster.submit("91", nodes=1, settings={"pause": 2}, solved=True)
job.wait()
"""


def test_in_a_notebook_one_line_rewrites_itself(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    cell = nbformat.v4.new_code_cell(CELL)
    book = nbformat.v4.new_notebook(cells=[cell])
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book.metadata["kernelspec"] = kernel
    env = {**os.environ, "PYTHONPATH": str(paths.root() / "labs")}
    NotebookClient(book, timeout=90).execute(env=env)
    kinds = [output["output_type"] for output in cell.outputs]
    assert kinds == ["display_data", "execute_result"], cell.outputs
    assert "completed, ran" in cell.outputs[0]["data"]["text/plain"]
