"""Bad inputs to all commands of the kit are answered in a sentence.

Numbers, paths, sizes, words, files and sites that cannot be, given to make, labkit, authoring, the
tabletop, the site doctor, `make site` and the set-up, in a copy of the checkout. A good answer has
no traceback, a status other than 0, and a sentence that names what was wrong. Goals of make are
asked without the set-up, which is asked by itself.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from labkit import paths

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LIMIT = 120.0  # seconds for an answer, on a busy machine
PARTS = (
    "labs",
    "slurm",
    "env",
    "solutions",
    "notebooks",
    "tests",
    "Makefile",
    "README.md",
    "pyproject.toml",
)
PYTHON = "{python}"  # and {files}, {home}: filled in when a case is asked
LONG = "x" * 300  # no file system takes such a name
NO_FILES = ("{files}/none", "{files}/folder", f"{{files}}/{LONG}", "/proc/self/mem/x")
COUNTS = ("0", "-1", "1.5", "many", "1e9", "²", "99999999999999999999999")


class Case(NamedTuple):
    """A command, what its answer has to name (a pattern), and variables."""

    command: tuple[str, ...]
    names: str
    env: Mapping[str, str] = {}

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.env.items()]
        return " ".join([*words, *(word or "''" for word in self.command)]).replace(LONG, "xxx…")

    def fault(self, status: int, text: str) -> str:
        """What is wrong with an answer, by status and all that was printed; "" if it is a good
        one."""
        if "Traceback (most recent call last)" in text:
            return "a traceback"
        if status == 0:
            return "status 0"
        if status < 0:
            return f"ended by signal {-status}"
        spoken = [
            line for line in text.splitlines() if not line.startswith(("make: ***", "usage:"))
        ]
        if not any(len(line.split()) >= 5 for line in spoken):
            return "no sentence"
        if not re.search(self.names, "\n".join(spoken), re.IGNORECASE):
            return f"does not name {self.names}"
        return ""


def module(name: str, *words: str, names: str, env: Mapping[str, str] | None = None) -> Case:
    return Case((PYTHON, "-m", name, *words), names, env or {})


def make(goal: str, names: str, **values: str) -> Case:
    assigned = [f"{name}={value}" for name, value in values.items()]
    return Case(("make", "-o", "setup", "-o", "setup-tests", goal, *assigned), names)


def of_labs() -> Iterable[Case]:
    """Which lab, how many ranks, which parameters and builds."""
    for lab in (
        "99",
        "4O",
        "40_",
        "../99",
        "ÄÖ",
        "",
        "40 41",
        "-5",
        "²",
        "4" * 40,
        LONG,
        "solutions",
    ):
        yield module("labkit", "run", lab, names="lab|unrecognized|required")
        yield module("labkit", "submit", lab, names="lab|unrecognized|required")
    for lab in ("99", "4O", "²", LONG):
        yield module("labkit", "results", lab, names="lab")
        yield module("labkit", "scaling", lab, names="lab")
        yield make("run", "lab", LAB=lab)
    for goal in ("run", "submit", "scaling", "new", "reset", "solve"):
        yield make(goal, "Say which lab")
    for count in ("0", "-1", "1.5", "many", "²", ""):
        yield module("labkit", "run", "20", "--np", count, names="np")
    yield make("run", "np", LAB="20", NP="-4")
    yield make("run", "np", LAB="20", NP="four")
    for setting in ("epochs", "=1", "1x=2", "nonsense=1", "a b=1", "²=1", "length="):
        yield module("labkit", "run", "20", "--set", setting, names="parameter|NAME=VALUE")
        yield module("labkit", "submit", "20", "--set", setting, names="parameter|NAME=VALUE")
    for build in ("tensorflow", "../host", "", "NCCL "):
        yield module("labkit", "run", "40", "--horovod", build or "''", names="horovod|build")
    for build in ("none-such", "../mpich", "/usr/bin"):
        yield module("labkit", "run", "20", "--np", "2", "--mpi", build, names="mpi|build")
    yield make("run", "horovod|build", LAB="40", HOROVOD="fast")
    yield make("run", "mpi|build", LAB="20", NP="2", MPI="fast")


def of_jobs() -> Iterable[Case]:
    """Nodes, ranks, sites and variables of batch jobs; there is no cluster in this home."""
    for count in COUNTS:
        yield module("labkit", "submit", "40", "--nodes", count, names="NODES|nodes|node")
        yield module("labkit", "submit", "40", "--ranks", count, names="RANKS|ranks|site|Slurm")
        yield module(
            "labkit", "scaling", "50", "--nodes", f"1,{count}", names="NODES|nodes|site|Slurm"
        )
    for counts in ("1,,2", ",", "1;2", "2,2", ""):
        yield module("labkit", "scaling", "50", "--nodes", counts, names="NODES|nodes|site|Slurm")
    for site in (
        "nowhere",
        "../tabletop",
        "template",
        "Tabletop",
        "a b",
        LONG,
        "broken",
        "latin",
        "failing",
    ):
        yield module("labkit", "submit", "40", "--site", site, names="site|slurm/sites")
        yield module("slurm.doctor", site, names="site|slurm/sites")
    for variable in ("A", "=1", "1A=2", "LABKIT_HOME=/tmp", "SLURM_JOB_ID=1", "A=a\nb", "Ä=1"):
        yield module("labkit", "submit", "40", "--env", variable, names="variable|ENV|NAME=VALUE")
    yield make("submit", "NODES", LAB="40", NODES="two")
    yield make("submit", "site", LAB="40", SITE="nowhere")
    yield make("submit", "ENV", LAB="40", ENV="A", SITE="tabletop")
    yield make("scaling", "NODES", LAB="50", NODES="1,two")
    yield make("doctor", "site", SITE="nowhere")
    for words in (
        ["--nodes", "0"],
        ["--nodes", "two"],
        ["--patience", "long"],
        ["--patience", "nan"],
    ):
        yield module("slurm.doctor", "tabletop", *words, names="nodes|patience|tabletop")
    yield module("labkit", "submit", "28", names="one rank")  # it has no batch job


def of_the_doctor() -> Iterable[Case]:
    for words in (["--limit", "soon"], ["--json", "x"]):
        yield module("labkit", "doctor", *words, names="x|soon")
    for limit in ("nan", "-1", "0"):
        yield module("labkit", "doctor", "--limit", limit, names="limit")


def of_files() -> Iterable[Case]:
    """Traces and reports."""
    for file in (*NO_FILES, *(f"{{files}}/{name}" for name in BAD_TRACES)):
        yield module(
            "labkit",
            "trace",
            file,
            "--no-browser",
            names="no trace|cannot read|no Horovod timeline|cut short",
        )
    for port in ("0", "-1", "70000", "many", "99999999999999999999"):
        yield module(
            "labkit", "trace", "{files}/good.json", "--no-browser", "--port", port, names="port"
        )
    for file in NO_FILES:
        yield module("verdict", file, names="cannot be read")
    for option in ("--nodes", "--nics", "--gpus", "--link", "--nic", "--latency", "--machine"):
        for value in COUNTS:
            names = f"{option[2:].upper()}|number with a unit|machine"
            yield module("verdict", "{files}/good.json", f"{option}={value}", names=names)
    yield make("verdict", "Say which output")
    yield make("verdict", "no table", FILE="{files}/good.json", LINK="25GB/s")
    yield make("trace", "Say which trace")
    yield make("trace", "none", FILE="{files}/none")
    yield make("trace", "port", FILE="{files}/good.json", PORT="many")
    for file in (*NO_FILES, *(f"{{files}}/{name}" for name in BAD_REPORTS)):
        yield module("support.lab80", file, names="report|none|folder|xxx|mem|study|text")
    yield module("support.lab80", names="report")
    yield make("report", "report", FILE="{files}/none.md")
    yield make("report", "study", FILE="{files}/empty.md")


def of_homes() -> Iterable[Case]:
    """Folders of one's own that cannot be, or hold rubbish."""
    for home in ("/dev/null/x", "/proc/none", "{files}/good.json", f"{{files}}/{LONG}"):
        for words in (["progress"], ["results"], ["submit", "40", "--site", "tabletop"]):
            yield module(
                "labkit", *words, names="/dev/null|/proc|good.json|xxx", env={"LABKIT_HOME": home}
            )
        for words in (
            ["support.lab80"],
            ["slurm.tabletop", "up"],
            ["slurm.job.dry", "40"],
            ["authoring", "rehearse"],
        ):
            yield module(*words, names="/dev/null|/proc|good.json|xxx", env={"LABKIT_HOME": home})


def of_words() -> Iterable[Case]:
    """Verbs and options that are none."""
    for name in ("labkit", "authoring", "slurm.tabletop", "slurm.doctor"):
        yield module(name, names="required|arguments")
        yield module(name, "sing", "--loud", names="sing|loud|invalid")
    for verb in ("progress", "results", "doctor", "run", "trace"):
        yield module("labkit", verb, "--sideways", names="sideways|required")
    yield Case(("make", "sing"), "sing")


def of_authors() -> Iterable[Case]:
    """Labs as their authors make them, and what goes with them."""
    for lab in ("99", "../99", "²"):
        yield module("authoring", "labs", lab, names="lab")
        yield module("authoring", "reset", lab, names="lab")
        yield module("authoring", "solve", lab, "40.1", names="lab")
        yield module("authoring", "tour", "--labs", lab, names="lab")
    for stem in (
        "Other",
        "6_x",
        "40_other",
        "66_Ä",
        "../66_x",
        "66_",
        "",
        "66_" + LONG,
        "66 my topic",
    ):
        yield module("authoring", "new", stem, names="lab|number|name|unrecognized")
    for exercise in ("40.99", "41.1", "first", "", "²"):
        yield module("authoring", "solve", "40", exercise, names="exercise")
    yield module("authoring", "tour", "--labs", ",", names="lab")
    yield module("authoring", "tour", "--labs", "20,,99", names="lab")
    yield module(
        "authoring", "tour", "--labs", "20", "--out", "{files}/good.json", names="good.json"
    )
    yield module("authoring", "tour", "--labs", "20", "--out", "{files}/folder", names="folder")
    for count in ("0", "-1", "many", "nan"):
        yield module("authoring", "guide", "--learners", count, names="learner")
    for folder in ("{files}/none", "{files}/good.json"):
        yield module("authoring", "guide", "--report", folder, names="report")
        yield module("authoring", "guide", "--track", folder, names="timetable")
    yield module("authoring", "guide", "--out", "{files}/good.json/x", names="good.json")
    yield module("authoring", "release", names="git|commit|checkout")  # a copy, and no checkout
    yield module(
        "authoring", "labs", "--check", names="broken", env={"PYTHONPATH": "{broken}/labs"}
    )
    yield module("authoring", "labs", names="broken", env={"PYTHONPATH": "{broken}/labs"})
    yield make("new", "lab", LAB="Other")
    yield make("solve", "Say which exercise", LAB="40")
    yield make("solve", "exercise", LAB="40", EX="40.99")
    yield make("guide", "learner", LEARNERS="none")
    yield make("tour", "lab", LABS="99")


def of_tables() -> Iterable[Case]:
    """The tabletop cluster."""
    for option in ("--nodes", "--gpus"):
        for count in ("-1", "1.5", "many", "1e9", "²", "33", ""):
            yield module("slurm.tabletop", "up", option, count, names="NODES|GPUS")
    for rate in ("0", "fast", "1", "-1mbit", "11gbit", "1e9mbit", "²mbit", "200 mbit/s", "nan", ""):
        yield module("slurm.tabletop", "up", "--bandwidth", rate, names="BANDWIDTH")
    for delay in ("soon", "1", "2s", "-1ms", "0ms", "1h"):
        yield module("slurm.tabletop", "up", "--latency", delay, names="LATENCY")
    for name in ("../x", "Table", "1x", "a b", "x" * 31, "", "ä"):
        yield module("slurm.tabletop", "up", "--name", name, names="NAME")
        yield module("slurm.tabletop", "status", "--name", name, names="NAME")
    for verb in ("status", "fail --node 1", "heal --node 1", "slow --node 1 --bandwidth 1mbit"):
        yield module("slurm.tabletop", *verb.split(), "--name", "none", names="No tabletop")
    for goal in ("fail", "heal", "slow"):
        yield make(f"tabletop-{goal}", "tabletop|node")
    yield make("tabletop", "NODES", NODES="many")
    yield make("tabletop", "BANDWIDTH", BANDWIDTH="fast")
    yield make("tabletop-status", "NAME", NAME="../x")


def of_hubs() -> Iterable[Case]:
    """JupyterHub for a class."""
    for count in ("0", "-1", "1.5", "many", "²", "99999"):
        yield module("slurm.hub", "up", "--learners", count, names="LEARNERS")
    for learner in ("Ada", "root;", "ä", "instructor", "x" * 99):
        yield module("slurm.hub", "up", "--names", learner, names="NAMES")
    for port in ("0", "80", "70000", "many", "²"):
        yield module("slurm.hub", "up", "--learners", "x", "--port", port, names="PORT")
    yield module("slurm.hub", names="required")


def of_sites() -> Iterable[Case]:
    """make site: names of a new site file, and a machine without Slurm."""
    for name in ("My Cluster", "x;rm", "ä", "", "x" * 99, "../x"):
        yield module("slurm.new_site", name, names="NAME")
    for name in ("tabletop", "template"):
        yield module("slurm.new_site", name, names="is there already")
    yield module("slurm.new_site", "new", names="login node")
    yield make("site", "Say which cluster")


def of_set_ups() -> Iterable[Case]:
    """The set-up, in a copy that has none: all of these end before anything is fetched."""
    for python in ("/none", "python9.9", "/etc/passwd", "/bin/true", ""):
        yield Case((PYTHON, "{bare}/env/setup.py"), "python", {"PYTHON": python or "/"})
    for wish in ("NCLL", "²", "GLOO"):
        yield Case((PYTHON, "{bare}/env/setup.py"), "GPU_OPERATIONS", {"GPU_OPERATIONS": wish})
    yield Case(
        (PYTHON, "{bare}/env/setup.py"), "cuda", {"GPU_OPERATIONS": "NCCL", "CUDA_HOME": "/none"}
    )
    yield Case((PYTHON, "{bare}/env/setup.py", "--fast"), "fast")
    nowhere = {"PATH": "{files}/folder", "PYTHON": PYTHON, "CXX": "", "CC": ""}
    yield Case((PYTHON, "{bare}/env/setup.py"), r"g\+\+, make, patch not found", nowhere)
    mvapich2 = ("bash", "env/mvapich2/build.sh")
    # The default device may be built here already; this one asks for the compiler on every machine.
    tools = {"PATH": f"{{files}}/folder:{os.environ['PATH']}", "CC": "no-such-compiler"}
    yield Case((*mvapich2, "--device=mrail"), "no-such-compiler", tools)
    yield Case((PYTHON, "{bare}/env/setup.py"), "holds no bin/|none", {"MPI_HOME": "{files}/none"})
    for words, names in (
        (("--device=carrier-pigeon",), "DEVICE"),
        (("--source={files}/none",), "none"),
        (("--device=mrail", "--source={files}/good.json"), "good.json|InfiniBand"),
        (("--fast",), "fast"),
    ):
        yield Case((*mvapich2, *words), names)
    yield Case(("bash", "{bare}/env/offline.sh"), "Name the folder")
    yield Case(("bash", "{bare}/env/offline.sh", "{files}/folder"), "make setup")


GROUPS = (
    of_labs,
    of_jobs,
    of_the_doctor,
    of_files,
    of_homes,
    of_words,
    of_authors,
    of_tables,
    of_sites,
    of_set_ups,
    *([of_hubs] if (paths.root() / "slurm/hub").exists() else []),
)
GOOD_TRACE = b'{"traceEvents": []}'
BAD_TRACES = {
    "empty.json": b"",
    "words.json": b"not json",
    "number.json": b"5",
    "no_events.json": b'{"traceEvents": 3}',
    "open.json": b'[{"name": 3}, 7',
    "letters.json": b'["a", "b"]',
    "noise.json": bytes(range(256)),
    "utf16.json": '{"traceEvents": []}'.encode("utf-16"),
    "nested.json": b"[" * 100_000,
    "noise.json.gz": bytes(range(256)),
    "cut.json.gz": gzip.compress(GOOD_TRACE * 100)[:-12],
    "spoilt.json.gz": gzip.compress(GOOD_TRACE * 100)[:12] + b"\xff" * 40,
}
BAD_REPORTS = {
    "empty.md": b"",
    "noise.md": bytes(range(256)),
    "latin.md": "Gr\u00f6\u00dfe".encode("latin-1"),
    "no_study.md": b"# A report\n\nIt scales well.\n",
    "other_study.md": b"Study: none-such\n\n{efficiency_strong_8}\n",
    "open.md": b"Study: x\n\n{efficiency_strong_8\n",
}
BAD_SITES = {
    "broken": b"if then\n",
    "latin": 'export SBATCH_ACCOUNT="Gr\u00f6\u00dfe"\n'.encode("latin-1"),
    "failing": b"export A=1\nexit 3\n",
}


class Kit:
    """A copy of the checkout, one without an environment, one with a broken lab, and the bad
    files."""

    def __init__(self, folder: Path):
        real = paths.root()
        for name, parts in (
            ("checkout", PARTS),
            ("broken", PARTS),
            ("bare", ("env", "pyproject.toml")),
        ):
            for part in parts:
                if (real / part).is_dir():
                    ignore = shutil.ignore_patterns("__pycache__", "results")
                    shutil.copytree(real / part, folder / name / part, ignore=ignore)
                elif (real / part).exists():
                    shutil.copy(real / part, folder / name / part)
        for name in ("checkout", "broken"):
            (folder / name / ".venv").symlink_to(sys.prefix)
        shutil.rmtree(folder / "broken/solutions")
        (folder / "broken/solutions").mkdir()
        broken = folder / "broken/solutions/66_broken.py"
        broken.write_bytes(b"# %% [markdown]\n# # 66 broken\n# %%\ndef (:\n")
        for name, content in BAD_SITES.items():
            (folder / "checkout/slurm/sites" / f"{name}.sh").write_bytes(content)
        files = folder / "files"
        (files / "folder/inside").mkdir(parents=True)
        for name, content in {"good.json": GOOD_TRACE, **BAD_TRACES, **BAD_REPORTS}.items():
            (files / name).write_bytes(content)
        (folder / "home").mkdir()
        self.folder = folder
        self.places = {
            PYTHON: sys.executable,
            "{files}": str(files),
            "{bare}": str(folder / "bare"),
            "{broken}": str(folder / "broken"),
            "{home}": str(folder / "home"),
        }
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "SITE"))
        }
        self.env |= {
            "PYTHONPATH": str(folder / "checkout/labs"),
            "LABKIT_HOME": self.filled("{home}"),
        }
        self.env |= {"MAKEFLAGS": "", "PYTHONDONTWRITEBYTECODE": "1"}
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.forks"], cwd=folder / "checkout", env=self.env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def filled(self, word: str) -> str:
        for name, value in self.places.items():
            word = word.replace(name, value)
        return word

    def ask(self, case: Case) -> tuple[int, str]:
        """The exit status of a command, and all that it printed."""
        env = self.env | {name: self.filled(value) for name, value in case.env.items()}
        command = [self.filled(word) for word in case.command]
        own_folder = "PYTHONPATH" in case.env
        if case.command[:2] == (PYTHON, "-m") and not own_folder:
            asked = {"command": command[2:], "env": env, "limit": LIMIT}
            self.server.stdin.write(json.dumps(asked) + "\n")
            self.server.stdin.flush()
            return tuple(json.loads(self.server.stdout.readline()))
        folder = self.folder / ("broken" if own_folder else "checkout")
        done = subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def kit(tmp_path_factory) -> Iterator[Kit]:
    kit = Kit(tmp_path_factory.mktemp("kit").resolve())
    yield kit
    kit.server.communicate()  # it ends when nothing more can be asked


@pytest.mark.parametrize("group", GROUPS)
def test_a_bad_input_is_answered_in_a_sentence(kit, group):
    bad = []
    for case in group():
        status, text = kit.ask(case)
        fault = case.fault(status, text)
        if fault:
            bad.append(f"{case}\n  {fault}, status {status}:\n{text[-1500:]}")
    assert not bad, "\n".join(bad)
