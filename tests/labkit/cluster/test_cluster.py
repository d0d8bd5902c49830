"""labkit.cluster without a Slurm: what it refuses, what a job's environment is, and what Slurm's
words mean.

The texts of Slurm are what 22.05.8 really printed.
"""

import json
import os
import shlex
import time
from datetime import datetime, timedelta, timezone

import pytest
from labkit import cli, cluster, jsonl, labfile, paths, record
from labkit.cluster import job as cluster_job
from labkit.cluster import request, sites, slurm
from labkit.cluster import status as cluster_status
from labkit.cluster.job import Job
from labkit.cluster.jobs import Study
from labkit.cluster.slurm import Partition
from labkit.errors import LabError, NotHere

from tests.labkit.cluster import job_lab

SOON = "2026-11-21T18:18:26"
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


KILLED = FAILED.replace("=3:0", "=0:9")


@pytest.mark.parametrize(
    ("text", "known"),
    [  # state, ended, waits, seconds, hosts, nodes, ranks, partition, exit
        (RUNNING, ("running", False, False, 2, "node[1-2]", 2, 4, "tabletop", 0)),
        (WAITING, ("pending", False, True, 2, "", 2, 4, "tabletop", 0)),
        (FAILED, ("failed", True, False, 2, "node[1-2]", 2, 4, "tabletop", 3)),
        (KILLED, ("failed", True, False, 2, "node[1-2]", 2, 4, "tabletop", 137)),
    ],
)
def test_what_scontrol_says_of_a_job(text, known):
    assert slurm.parse_job(text)["StdOut"] == "/tmp/o b/ab-1-tok.out"
    assert slurm.parse_job(text)["TRES"] == "cpu=4,node=2,billing=4"
    said = status(text)
    names = ["state", "ended", "waits", "seconds", "hosts", "nodes", "ranks", "partition", "exit"]
    assert tuple(getattr(said, name) for name in names) == known


def why(text: str) -> str:
    return cluster_status.why(status(text), datetime.fromisoformat("2026-11-21T18:16:26"))


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("Resources", "waits for free nodes"),
        ("Priority", "waits behind jobs of higher priority"),
        ("None", "waits its turn"),
        ("QOSMaxWallLimit", "waits: a limit of its QOS is reached (QOSMaxWallLimit)"),
        ("AssocGrpCpuLimit", "waits: a limit of your account is reached (AssocGrpCpuLimit)"),
        ("ReqNodeNotAvail,_Unavailable:n2", "waits: nodes that it needs are down or reserved"),
        ("SomethingNew", "waits; Slurm's reason: SomethingNew"),
    ],
)
def test_why_a_job_waits_in_plain_words(reason, sentence):
    assert why(WAITING.replace("=Resources", f"={reason}").replace(SOON, "")) == sentence


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (SOON, ", expected to start in about 2 minutes"),
        ("2026-11-21T18:16:40", ", expected to start within a minute"),
        ("2026-11-21T23:30:00", ", expected to start at 23:30"),
        ("2026-11-23T07:05:00", ", expected to start on 2026-11-23 at 07:05"),
        ("2026-11-21T17:00:00", ""),
        ("Unknown", ""),
    ],
)
def test_when_it_is_expected_to_start(start, expected):
    assert why(WAITING.replace(SOON, start)) == f"waits for free nodes{expected}"


@pytest.mark.parametrize(
    ("line", "state", "code", "seconds", "hosts"),
    [
        ("CANCELLED by 1000|0:15|1-00:00:34|n1|2026-11-21T18:18:25", "cancelled", 143, 86434, "n1"),
        # An earlier job of that number.
        ("COMPLETED|0:0|00:00:34|n1|2026-11-20T18:18:25", "unknown", None, None, ""),
        ("", "unknown", None, None, ""),
    ],
)
def test_what_accounting_says_of_a_job(line, state, code, seconds, hosts):
    since = datetime.fromisoformat("2026-11-21T18:18:20").astimezone()
    said = cluster_status.parse_accounting(f"{line}\n", since)
    assert (said.state, said.exit, said.seconds, said.hosts) == (state, code, seconds, hosts)


@pytest.fixture
def in_paris(monkeypatch):
    """The local time of Paris, where 2:30 comes twice on the last Sunday of October."""
    with monkeypatch.context() as context:
        context.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def test_a_job_of_the_hour_that_comes_twice_is_known(in_paris):
    for hour in (0, 1):  # in UTC
        since = datetime(2026, 10, 25, hour, 30, tzinfo=timezone.utc)
        line = "COMPLETED|0:0|00:00:34|n1|2026-10-25T02:30:01\n"
        assert cluster_status.parse_accounting(line, since).state == "completed"


SINFO = """\
small|1|1-infinite|(null)
tabletop*|2|1-infinite|gpu:2
tabletop*|1|1-infinite|gpu:a100:4(S:0)
short|64|1-4|(null)
one|9|1|gpu:1,nvme:2
"""
GREETING = "-----\n  Welcome\n-----\nNo reservation for this job\nSubmitted batch job 4711\n"


def test_sinfo_and_sbatch():
    assert slurm.parse_partitions(SINFO) == [
        Partition("small", default=False, nodes=1, largest=1, gpus=0),
        Partition("tabletop", default=True, nodes=3, largest=3, gpus=4),
        Partition("short", default=False, nodes=64, largest=4, gpus=0),
        Partition("one", default=False, nodes=9, largest=1, gpus=1),
    ]
    numbers = [slurm.job_number(said) for said in ("17\n", "17;gpu\n", GREETING)]
    assert numbers == ["17", "17", "4711"]
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
    with pytest.raises(NotHere, match="There is no Slurm here. `make tabletop` starts one on"):
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


@pytest.fixture
def environment(checkout):
    """The environment of a job at a site, whose file sets these variables."""
    (checkout.root / "slurm" / "sites").mkdir(parents=True)

    def made(own: dict, site: str, file: str, **choices) -> dict[str, str]:
        (checkout.root / "slurm" / "sites" / f"{site}.sh").write_text(f"export {file}\n")
        chosen = {"settings": {}, "solved": False, "env": {}, "horovod": None, "mpi": None}
        return request.environment(own, sites.load(site, own), site, chosen | choices)

    return made


OWN = {
    "PATH": os.environ["PATH"], "SITE": "alpha", "SBATCH_CONSTRAINT": "gpu", "SBATCH_QOS": "mine",
    "SBATCH_ACCOUNT": "", "SBATCH_EXPORT": "NONE", "SLURM_CONF": "/etc/x", "SLURM_JOB_ID": "3",
    "PMI_RANK": "0", "MPLBACKEND": "module://matplotlib_inline.backend_inline", "SET": "old=1",
    "JPY_SESSION_NAME": "notebooks/91_job.ipynb", "KEEP": "this", "JUPYTERHUB_API_TOKEN": "x",
}  # fmt: skip
ACCOUNT = 'SBATCH_ACCOUNT="${SBATCH_ACCOUNT:-}"'


def test_a_jobs_environment(environment):
    environment(OWN, "alpha", f"SITE=alpha {ACCOUNT} SBATCH_CONSTRAINT=gpu SBATCH_QOS=debug")
    choices = {"settings": {"pause": 1}, "solved": True, "horovod": "nccl"}
    env = {"A": "two words", "B": "2"}
    assert environment(OWN, "beta", f"SITE=beta {ACCOUNT}", env=env, **choices) == {
        "PATH": OWN["PATH"], "SBATCH_QOS": "mine", "SLURM_CONF": "/etc/x", "KEEP": "this",
        "SITE": "beta", "LABKIT_HOME": str(paths.home()), "SET": "pause=1", "SOLVED": "1",
        "LABKIT_ENV": "'A=two words' B=2", "LABKIT_HOROVOD": "nccl",
    }  # fmt: skip
    with_account = {**OWN, "SITE": "beta", "SBATCH_ACCOUNT": "me"}
    env = environment(with_account, "beta", f"SITE=beta {ACCOUNT}")
    assert env["SBATCH_ACCOUNT"] == "me"
    assert not {"SOLVED", "SET", "LABKIT_ENV", "LABKIT_HOROVOD", "LABKIT_MPI_BUILD"} & set(env)
    words = {"a": "false", "b": "mpi", "c": "1", "d": True}
    settings = shlex.split(environment(OWN, "beta", f"SITE=beta {ACCOUNT}", settings=words)["SET"])
    assert dict(labfile.read_setting(text) for text in settings) == words


@pytest.mark.parametrize("file", ["=mpi", '="${LABKIT_HOROVOD:-mpi}"'])
def test_whose_build_wins(environment, file):
    own = {"PATH": os.environ["PATH"]}
    chosen = own | {"LABKIT_HOROVOD": "nccl"}
    for wish, env, build in ((None, own, "mpi"), (None, chosen, "nccl"), ("host", chosen, "host")):
        made = environment(env, "alpha", f"SITE=alpha LABKIT_HOROVOD{file}", horovod=wish)
        assert made["LABKIT_HOROVOD"] == build


def test_variables_that_cannot_be(built):
    for env, says in (  # bad_inputs has the rest
        ({"A": 1}, "text in one line, which A=1 is not"),
        ({"LABKIT_MPI_BUILD": "x"}, "MPI=… chooses the build of MPI"),
        ({"HF_TOKEN": "x"}, "HF_TOKEN looks like a secret"),
    ):
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


@pytest.fixture
def sending(monkeypatch):
    """A request to a Slurm that takes each job as number 17 and then answers nothing; what it was
    called with."""
    called = []

    def call(client, *words: str, limit=None) -> str:
        called.append((*words, client.env and client.env.get("LABKIT_SUBMITTED")))
        if words[0] in ("sbatch", "scancel"):
            return "17\n"
        raise slurm.NoAnswer("Slurm's controller does not answer.", "no answer")

    monkeypatch.setattr(slurm.Client, "call", call)
    choices = {"settings": {}, "solved": True, "env": {}, "horovod": None, "mpi": None}
    return request.Request("91_job", "here", slurm.Client(None, {}), (), choices), called


def test_a_job_that_slurm_took_is_written_down_whatever_slurm_says_next(sending):
    requested, called = sending
    sent = requested.send(1)
    assert (sent.number, called[-1][0]) == ("17", "scontrol")
    assert cluster.jobs() == [sent]
    assert called[0][-1] == sent.submitted, "its records name it"


def test_a_job_that_cannot_be_written_down_is_cancelled(sending):
    requested, called = sending
    cluster_job.ledger().mkdir()
    with pytest.raises(LabError, match=r"took the job as number 17, .*Cannot write the job to"):
        requested.send(1)
    assert called[-1][:2] == ("scancel", "17")


def job(number="1", **more):
    home = str(paths.home())
    known = {"lab": "91_job", "site": "here", "nodes": 1, "ranks": 2} | more
    file = f"{home}/jobs/91_job-{number}-t-t.out"
    return Job(number, submitted=cluster_job.now(), file=file, home=home, **known)


def test_jobs_of_an_earlier_release_and_spoiled_lines():
    cluster_job.remember(job("1"))
    line = json.loads(cluster_job.ledger().read_text())
    for name in ("env", "horovod", "mpi"):
        del line[name]
    spoiled = '{"number": "2", "lab"\n{"number": "3"}\n'
    cluster_job.ledger().write_text(f"{json.dumps(line)}\n{spoiled}")
    cluster_job.remember(job("4"))
    with pytest.warns(UserWarning, match="not a job, skipped") as warned:
        first, last = cluster.jobs()
    assert [str(warning.message).split(": ")[0] for warning in warned] == [
        f"{cluster_job.ledger()}:{n}" for n in (2, 3)
    ]
    assert (first.number, first.env, first.horovod, first.mpi) == ("1", {}, None, None)
    assert last.number == "4"


def test_a_job_that_slurm_does_not_show_hides_no_other(monkeypatch, capsys):
    of_a_study = {"lab": "40_horovod_pytorch", "study": "40-x"}
    seventh, eighth = job("7", **of_a_study), job("8", **of_a_study)
    eighth.file = "/scratch/[course]/8.out"
    for known in (seventh, eighth):
        cluster_job.remember(known)
    ended = {"number": "8", "file": eighth.file, "state": "completed"}
    jsonl.append(cluster_job.ledger(), ended)

    def denied(client, *words: str, limit=None) -> str:
        raise slurm.Refused("`scontrol` says: Access denied", "Access denied")

    monkeypatch.setattr(slurm.Client, "call", denied)
    assert cli.main(["results"]) == 0
    said = capsys.readouterr().out
    assert "not known" in said
    assert "completed" in said
    assert "/scratch/[course]/8.out" in said
    assert "job 7 (lab 40, 1 node, 2 ranks, here): `scontrol` says: Access denied" in said
    assert cli.main(["scaling", "40"]) == 0
    assert "Jobs: 7 unknown, 8 completed" in capsys.readouterr().out


def test_records_of_another_job_of_the_same_number_are_not_mine():
    seventh = job("7")
    now = cluster_job.now()
    earlier = (datetime.now(timezone.utc) - timedelta(hours=1)).isoformat()
    file = paths.home() / "records" / "91_job.jsonl"
    file.parent.mkdir()
    mine = {"result": "strong", "job": "7", "site": "here", "utc": now}
    mine |= {"submitted": seventh.submitted}
    others = [{"site": "there"}, {"job": "8"}, {"utc": earlier}, {"job": None, "site": None}]
    others.append({"submitted": earlier})  # on another tabletop
    of_an_earlier_release = {name: mine[name] for name in mine if name != "submitted"}
    lines = [mine, *(mine | other for other in others), of_an_earlier_release]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert seventh.entries() == [mine, of_an_earlier_release]


SRUN = "srun: error: node1: task 0: Exited with exit code 1"
LAST = "Lab 91_job failed after 3 s, exit status 1.\nFirst to fail: rank 1.\nToo wide."


@pytest.mark.parametrize(
    ("output", "last"),
    [
        (f"step 1\n{LAST}\n{SRUN}\n", "First to fail: rank 1.\nToo wide."),
        (f"slurm/launch.sh: no such site\n{SRUN}\n\n", "slurm/launch.sh: no such site"),
        (f"{SRUN}\n", SRUN),
        ("", ""),
    ],
)
def test_the_last_sentence_of_an_output(output, last):
    assert cluster_job.last_sentence(output) == last


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


def test_a_table_holds_what_a_requeued_job_measured_last(monkeypatch):
    first = {"result": "sum", "ranks": 2, "seconds": 1.0, "host": "n1"}  # of an earlier release
    again = first | {"seconds": 2.0, "host": "n7", "restarts": 1}
    monkeypatch.setattr(Job, "entries", lambda self: [first, again])
    assert list(Study("91_job", [job()]).table("sum")["seconds"]) == [2.0]


def test_weak_results_are_known_by_their_name(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    seconds = {1: 8.0, 2: 10.0}

    def entries(job) -> list[dict]:
        entry = {"ranks": job.ranks, "seconds": seconds[job.ranks]}
        entry |= {"seconds_q1": seconds[job.ranks] - 2, "seconds_q3": seconds[job.ranks] + 6}
        return [{"result": name, **entry} for name in ("weak step", "strong", "workload")]

    monkeypatch.setattr(Job, "entries", entries)
    study = Study("91_job", [job("1", ranks=1), job("2", ranks=2)])
    frame = study.table()
    assert list(frame["result"]) == ["strong"] * 2 + ["weak step"] * 2 + ["workload"] * 2
    assert list(frame["efficiency"]) == pytest.approx([1.0, 0.4, 1.0, 0.8, 1.0, 0.8])
    assert list(frame["speedup"]) == pytest.approx([1.0, 0.8, 1.0, 1.6, 1.0, 1.6])
    points = study.plot("workload").axes[0].containers[0].lines
    assert points[0].get_ydata() == pytest.approx([1.0, 1.6])
    assert points[2][0].get_segments()[1][:, 1] == pytest.approx([1.0, 2.0])  # 2 * 8 / 16, / 8


def test_only_a_job_of_slurm_names_job_and_site(monkeypatch):
    when = "2026-11-21T18:18:25.000+00:00"
    for number, site, restarts in (
        (None, "tabletop", "1"),
        ("17", "tabletop", None),
        ("17", None, "2"),
    ):
        variables = {"SLURM_JOB_ID": number, "SITE": site, "LABKIT_SUBMITTED": when}
        variables["SLURM_RESTART_COUNT"] = restarts
        for name, value in variables.items():
            monkeypatch.delenv(name, raising=False)
            if value:
                monkeypatch.setenv(name, value)
        # A shell that knows a site is no job there.
        known = {"site": site, "submitted": when, "restarts": int(restarts or 0)}
        unknown = dict.fromkeys(known)
        assert record.batch_job() == {"job": number, **(known if number else unknown)}
        own = paths.home() / "jobs" / number if number else paths.home()
        assert paths.own_folder() == own
        assert own.is_dir()
