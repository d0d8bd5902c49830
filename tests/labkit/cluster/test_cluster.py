"""labkit.cluster without a Slurm: what it refuses, what a job's environment is, and what Slurm's
words mean.

The texts of Slurm are what 22.05.8 really printed.
"""

import json
import os
from datetime import datetime, timedelta, timezone

import pytest
from labkit import cli, cluster, paths, record
from labkit.cluster import job as cluster_job
from labkit.cluster import request, sites, slurm
from labkit.cluster import status as cluster_status
from labkit.cluster.job import Job
from labkit.cluster.jobs import Study
from labkit.cluster.slurm import Partition
from labkit.errors import LabError, NotHere

from tests.labkit.cluster import job_lab

RUNNING = (
    "JobId=1 JobName=ab UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0"
    " Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=0"
    " ExitCode=0:0 RunTime=00:00:02 TimeLimit=00:02:00 TimeMin=N/A SubmitTime=2026-11-21T18:18:25"
    " StartTime=2026-11-21T18:18:26 EndTime=2026-11-21T18:20:26 Partition=tabletop"
    " AllocNode:Sid=0.0.0.0:0 ReqNodeList=(null) ExcNodeList=(null) NodeList=node[1-2]"
    " BatchHost=node1 NumNodes=2 NumCPUs=4 NumTasks=4 CPUs/Task=1 TRES=cpu=4,node=2,billing=4"
    " Socks/Node=* NtasksPerN:B:S:C=2:0:*:* Command=/tmp/t.sbatch WorkDir=/tmp/c StdErr=/tmp/o"
    " b/ab-1-tok.out StdIn=/dev/null StdOut=/tmp/o b/ab-1-tok.out Power= \n"
)
WAITING = RUNNING.replace("RUNNING Reason=None", "PENDING Reason=Resources").replace(
    "NodeList=node[1-2] BatchHost=node1 NumNodes=2 ", "NodeList= NumNodes=2-2 "
)
FAILED = RUNNING.replace("RUNNING Reason=None", "FAILED Reason=NonZeroExitCode").replace(
    "=0:0 R", "=3:0 R"
)


def status(text):
    return cluster_status.from_scontrol(slurm.parse_job(text))


@pytest.mark.parametrize(
    ("text", "known"),
    [  # state, ended, waits, seconds, hosts, nodes, ranks, partition, exit
        (RUNNING, ("running", False, False, 2, "node[1-2]", 2, 4, "tabletop", 0)),
        (WAITING, ("pending", False, True, 2, "", 2, 4, "tabletop", 0)),
        (FAILED, ("failed", True, False, 2, "node[1-2]", 2, 4, "tabletop", 3)),
        (
            FAILED.replace("=3:0", "=0:9"),
            ("failed", True, False, 2, "node[1-2]", 2, 4, "tabletop", 137),
        ),
    ],
)
def test_what_scontrol_says_of_a_job(text, known):
    assert slurm.parse_job(text)["StdOut"] == "/tmp/o b/ab-1-tok.out"
    assert slurm.parse_job(text)["TRES"] == "cpu=4,node=2,billing=4"
    said = status(text)
    names = ("state", "ended", "waits", "seconds", "hosts", "nodes", "ranks", "partition", "exit")
    assert tuple(getattr(said, name) for name in names) == known


SOON = "2026-11-21T18:18:26"


@pytest.mark.parametrize(
    ("reason", "start", "sentence"),
    [
        ("Resources", SOON, "waits for free nodes, expected to start in about 2 minutes"),
        (
            "Resources",
            "2026-11-21T18:16:40",
            "waits for free nodes, expected to start within a minute",
        ),
        ("Priority", "2026-11-21T17:00:00", "waits behind jobs of higher priority"),
        ("None", "Unknown", "waits its turn"),
        ("None", "2026-11-21T23:30:00", "waits its turn, expected to start at 23:30"),
        ("None", "2026-11-23T07:05:00", "waits its turn, expected to start on 2026-11-23 at 07:05"),
        (
            "QOSMaxJobsPerUserLimit",
            "",
            "waits: a limit of its QOS is reached (QOSMaxJobsPerUserLimit)",
        ),
        ("AssocGrpCpuLimit", "", "waits: a limit of your account is reached (AssocGrpCpuLimit)"),
        (
            "ReqNodeNotAvail,_UnavailableNodes:node2",
            "",
            "waits: nodes that it needs are down or reserved",
        ),
        ("SomethingNew", "", "waits; Slurm's reason: SomethingNew"),
    ],
)
def test_why_a_job_waits_in_plain_words(reason, start, sentence):
    text = WAITING.replace("=Resources", f"={reason}").replace(SOON, start)
    now = datetime.fromisoformat("2026-11-21T18:16:26")
    assert cluster_status.why(status(text), now) == sentence


def test_what_accounting_says_of_a_job():
    since = datetime.fromisoformat("2026-11-21T18:18:20").astimezone()
    line = "CANCELLED by 1000|0:15|1-00:00:34|node1|2026-11-21T18:18:25\n"
    cancelled = cluster_status.parse_accounting(line, since)
    assert (cancelled.state, cancelled.exit) == ("cancelled", 143)
    assert (cancelled.seconds, cancelled.hosts) == (86434, "node1")
    older = "COMPLETED|0:0|00:00:34|node1|2026-11-20T18:18:25\n"
    assert cluster_status.parse_accounting(older, since).state == "unknown", (
        "an earlier job of that number"
    )
    assert cluster_status.parse_accounting("", since).state == "unknown"


def test_sinfo_and_sbatch():
    text = "small|1|1-infinite|(null)\ntabletop*|2|1-infinite|gpu:2\ntabletop*|1|1-infinite|gpu:a100:4(S:0)\n"
    text += "short|64|1-4|(null)\none|9|1|gpu:1,nvme:2\n"
    assert slurm.parse_partitions(text) == [
        Partition("small", default=False, nodes=1, largest=1, gpus=0),
        Partition("tabletop", default=True, nodes=3, largest=3, gpus=4),
        Partition("short", default=False, nodes=64, largest=4, gpus=0),
        Partition("one", default=False, nodes=9, largest=1, gpus=1),
    ]
    assert slurm.job_number("17\n") == slurm.job_number("17;gpu\n") == "17"
    greeting = (
        "-----\n  Welcome to the machine\n-----\nNo reservation for this job\nSubmitted batch job"
        " 4711\n"
    )
    assert slurm.job_number(greeting) == "4711"
    with pytest.raises(LabError, match="it said: nothing"):
        slurm.job_number("")


def test_what_a_partition_is_asked_by():
    names = request.partition_names
    assert names({"SBATCH_PARTITION": "gpu,long"}, []) == ["gpu", "long"]
    for options in ("--partition=x", "--partition x", "-p x", "-px", "--gres=gpu:4 -p x"):
        assert names({"SBATCH_PARTITION": "gpu"}, options.split()) == ["x"], options
    assert names({}, ["--gpus-per-node=4"]) == []


@pytest.fixture
def built(checkout, monkeypatch):
    """A checkout with a lab that has a batch script; no Slurm command in PATH, no site."""
    job_lab.build_in(checkout)
    monkeypatch.delenv("SITE", raising=False)
    (checkout.root / "empty").mkdir()
    monkeypatch.setenv("PATH", str(checkout.root / "empty"))
    return checkout


def test_without_slurm_one_sentence_says_how_to_come_by_one(built, monkeypatch, capsys):
    assert cluster.here() is None
    with pytest.raises(
        NotHere, match="There is no Slurm here. `make tabletop` starts one on this machine"
    ):
        cluster.submit("91", solved=True)
    # Where the commands are installed, no cluster is behind them.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    with pytest.raises(NotHere, match="No tabletop cluster runs here. `make tabletop` starts one."):
        cluster.submit("91", site="tabletop", solved=True)
    assert cli.main(["results"]) == 0
    assert "No batch jobs yet" in capsys.readouterr().out
    assert cli.main(["scaling", "91"]) == 1
    assert "There is no study of lab 91 yet: make scaling LAB=91" in capsys.readouterr().err
    assert sites.names() == ["perlmutter", "tabletop"]


def chosen(**choices) -> dict:
    return {"settings": {}, "solved": False, "env": {}, "horovod": None, "mpi": None} | choices


def test_a_jobs_environment(checkout, monkeypatch):
    job_lab.build_in(checkout)
    site = checkout.root / "slurm" / "sites"
    (site / "alpha.sh").write_text(
        'export SITE=alpha SBATCH_ACCOUNT="${SBATCH_ACCOUNT:-}" SBATCH_CONSTRAINT=gpu'
        " SBATCH_QOS=debug\n"
    )
    (site / "beta.sh").write_text('export SITE=beta SBATCH_ACCOUNT="${SBATCH_ACCOUNT:-}"\n')
    own = {
        "PATH": os.environ["PATH"], "SITE": "alpha", "SBATCH_CONSTRAINT": "gpu", "SBATCH_QOS": "mine",
        "SBATCH_ACCOUNT": "", "SBATCH_EXPORT": "NONE", "SLURM_CONF": "/etc/x", "SLURM_JOB_ID": "3",
        "PMI_RANK": "0", "MPLBACKEND": "module://matplotlib_inline.backend_inline", "SET": "old=1",
        "JPY_SESSION_NAME": "notebooks/91_job.ipynb", "KEEP": "this", "JUPYTERHUB_API_TOKEN": "x",
    }  # fmt: skip
    solved = chosen(
        settings={"pause": 1}, solved=True, env={"A": "two words", "B": "2"}, horovod="nccl"
    )
    env = request.environment(own, sites.load("beta", own), "beta", solved)
    assert env == {
        "PATH": own["PATH"], "SBATCH_QOS": "mine", "SLURM_CONF": "/etc/x", "KEEP": "this", "SITE": "beta",
        "LABKIT_HOME": str(paths.home()), "SET": "pause=1", "SOLVED": "1",
        "LABKIT_ENV": "'A=two words' B=2", "LABKIT_HOROVOD": "nccl",
    }  # fmt: skip
    with_account = {**own, "SITE": "beta", "SBATCH_ACCOUNT": "me"}
    env = request.environment(with_account, sites.load("beta", with_account), "beta", chosen())
    assert env["SBATCH_ACCOUNT"] == "me"
    assert "SOLVED" not in env
    assert "SET" not in env
    assert not {"LABKIT_ENV", "LABKIT_HOROVOD", "LABKIT_MPI_BUILD"} & set(env)


@pytest.mark.parametrize(
    "line", ["export LABKIT_HOROVOD=mpi", 'export LABKIT_HOROVOD="${LABKIT_HOROVOD:-mpi}"']
)
def test_whose_build_wins(checkout, line):
    job_lab.build_in(checkout)
    (checkout.root / "slurm" / "sites" / "alpha.sh").write_text(f"export SITE=alpha {line}\n")

    def build(wish: str | None, **own: str) -> str:
        own |= {"PATH": os.environ["PATH"]}
        env = request.environment(own, sites.load("alpha", own), "alpha", chosen(horovod=wish))
        return env["LABKIT_HOROVOD"]

    assert build(None) == "mpi"
    assert build(None, LABKIT_HOROVOD="nccl") == "nccl"
    assert build("host", LABKIT_HOROVOD="nccl") == "host"


@pytest.mark.parametrize(
    ("env", "says"),
    [  # bad_inputs has the rest
        ({"A": 1}, "text in one line, which A=1 is not"),
        ({"LABKIT_MPI_BUILD": "x"}, "MPI=… chooses the build of MPI"),
        ({"HF_TOKEN": "x"}, "HF_TOKEN looks like a secret"),
    ],
)
def test_variables_that_cannot_be(built, env, says):
    with pytest.raises(LabError, match=says):
        cluster.submit("91", solved=True, env=env)


def test_a_solved_run_submits_the_solved_lab_to_the_learners_cluster(checkout, monkeypatch):
    job_lab.build_in(checkout)
    sent = []
    monkeypatch.setattr(request.Request, "send", lambda self, nodes, study=None: sent.append(self))
    alone = Partition("debug", default=True, nodes=2, largest=2, gpus=0)
    monkeypatch.setattr(slurm.Client, "partitions", lambda self: [alone])
    monkeypatch.setattr(slurm, "at", lambda site: slurm.Client())
    learners = paths.home().resolve()
    for home, variable in ((learners, ""), (learners / "solved", "1")):
        monkeypatch.setenv("LABKIT_HOME", str(home))
        monkeypatch.setenv("LABKIT_SOLVED", variable)
        solved = variable == "1"
        cluster.submit(job_lab.STEM, site="tabletop")
        assert sent[-1].choices["solved"] is solved
        assert ("SOLVED" in sent[-1].client.env) is solved
        assert sent[-1].client.env["LABKIT_HOME"] == str(learners)
    state = learners / "tabletop" / "table"
    (state / "bin").mkdir(parents=True)
    (state / "holder").touch()
    for door, commands in (("false", None), ("true", state / "bin")):
        (state / "bin" / "tabletop-enter").unlink(missing_ok=True)
        (state / "bin" / "tabletop-enter").symlink_to(f"/bin/{door}")
        assert slurm.tabletop() == commands  # still as LABKIT_HOME=…/solved


def job(number="1", **more):
    home = str(paths.home())
    known = {
        "lab": "91_job",
        "site": "here",
        "nodes": 1,
        "ranks": 2,
        "submitted": cluster_job.now(),
    }
    return Job(
        number, **{**known, "file": f"{home}/jobs/91_job-{number}-t-t.out", "home": home, **more}
    )


def test_a_job_of_an_earlier_release_is_remembered():
    cluster_job.remember(job("1"))
    text = cluster_job.ledger().read_text()
    line = json.loads(text)
    for name in ("env", "horovod", "mpi"):
        del line[name]
    cluster_job.ledger().write_text(json.dumps(line) + "\n")
    [known] = cluster.jobs()
    assert (known.env, known.horovod, known.mpi) == ({}, None, None)


def test_a_spoiled_line_among_the_jobs_is_named_and_skipped():
    cluster_job.remember(job("1"))
    with open(cluster_job.ledger(), "a") as file:
        file.write('{"number": "2", "lab"\n{"number": "3"}\n')
    cluster_job.remember(job("4"))
    with pytest.warns(UserWarning, match="not a job, skipped") as warned:
        assert [known.number for known in cluster.jobs()] == ["1", "4"]
    assert [str(warning.message).split(": ")[0] for warning in warned] == [
        f"{cluster_job.ledger()}:{n}" for n in (2, 3)
    ]


def test_records_of_another_job_of_the_same_number_are_not_mine():
    seventh = job("7")
    earlier = datetime.now(timezone.utc) - timedelta(hours=1)
    file = paths.home() / "records" / "91_job.jsonl"
    file.parent.mkdir()
    lines = [
        ("7", "here", cluster_job.now()),
        ("7", "there", cluster_job.now()),
        ("8", "here", cluster_job.now()),
    ]
    lines += [("7", "here", earlier.isoformat()), (None, None, cluster_job.now())]
    texts = [
        json.dumps({"result": "strong", "job": number, "site": site, "utc": utc, "value": index})
        for index, (number, site, utc) in enumerate(lines)
    ]
    file.write_text("\n".join(texts) + "\n")
    assert [entry["value"] for entry in seventh.entries()] == [0]


def test_the_last_sentence_of_an_output():
    last = cluster_job.last_sentence
    srun = "srun: error: node1: task 0: Exited with exit code 1\n"
    failed = (
        "step 1\nLab 91_job failed after 3 s, exit status 1.\nFirst to fail: rank 1.\nToo"
        f" wide.\n{srun}"
    )
    assert last(failed) == "First to fail: rank 1.\nToo wide."
    assert last(f"slurm/launch.sh: no such site\n{srun}\n") == "slurm/launch.sh: no such site"
    assert last(srun) == srun.strip()
    assert last("") == ""


def test_a_table_asks_which_records_when_there_are_several(monkeypatch):
    lines = [
        {"result": "sum", "ranks": 2, "seconds": s, "bytes": b} for s, b in ((1.0, 8), (2.0, 64))
    ]
    monkeypatch.setattr(Job, "entries", lambda self: lines)
    study = Study("91_job", [job()])
    with pytest.raises(
        LabError, match=r"2 records of 'sum' on 2 ranks, which differ in `bytes`.*bytes=8\)"
    ):
        study.table("sum")
    assert list(study.table("sum", bytes=64)["seconds"]) == [2.0]


def test_weak_results_are_known_by_their_name(monkeypatch):
    seconds = {"1": 8.0, "2": 10.0}
    monkeypatch.setattr(
        Job,
        "entries",
        lambda self: [
            {"result": name, "ranks": self.ranks, "seconds": seconds[self.number]}
            for name in ("weak", "strong")
        ],
    )
    frame = Study("91_job", [job("1", ranks=1), job("2", ranks=2)]).table()
    assert list(frame["result"]) == ["strong", "strong", "weak", "weak"]
    assert list(frame["efficiency"]) == pytest.approx([1.0, 0.4, 1.0, 0.8])
    assert list(frame["speedup"]) == pytest.approx([1.0, 0.8, 1.0, 1.6])


def test_only_a_job_of_slurm_names_job_and_site(monkeypatch):
    monkeypatch.setenv("SITE", "tabletop")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert record.batch_job() == {
        "job": None,
        "site": None,
    }, "a shell that knows a site is no job there"
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert record.batch_job() == {"job": "17", "site": "tabletop"}
    monkeypatch.delenv("SITE")
    assert record.batch_job() == {"job": "17", "site": None}
