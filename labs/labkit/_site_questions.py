"""The questions of `make site`: each with what this machine suggests, and a check that answers at once."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from typing import NamedTuple

import labkit
from labkit import _job_look, _mpi_identity, _probing, _slurm_ask, sites
from labkit.errors import LabError

Answers = dict[str, str]


class RefusedBySlurm(LabError):
    """The answer is one that the kit knows, but Slurm would not take such a job now."""


class Question(NamedTuple):
    """`suggest` gives a default, "" if nothing is known; `check` raises LabError with what is wrong."""

    key: str
    text: str
    suggest: Callable[[Machine, Answers], str]
    check: Callable[[Machine, Answers, str], None]


class Machine:
    """What this machine says, asked once. Everything is empty where Slurm does not answer."""

    def __init__(self, environ: Mapping[str, str] = os.environ):
        self.env = {
            key: value for key, value in environ.items() if not key.startswith(("SBATCH_", "LABKIT_"))
        }
        self.version = _slurm_ask.version(self.env)
        up = self.version.ok
        self.partitions = _slurm_ask.partitions(self.env) if up else {}
        self.plugins = _slurm_ask.mpi_plugins(self.env) if up else []
        self.accounts = (_slurm_ask.accounts(self.env, getpass.getuser()) or {}) if up else {}
        text = _slurm_ask.ask(self.env, "scontrol", "show", "config").text if up else ""
        self.config = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))
        self.account = environ.get("SBATCH_ACCOUNT", "")

    def cores(self, partition: str) -> int:
        """Cores that Slurm counts in the smallest node of a partition; 0 if not known."""
        counts = _slurm_ask.ask(self.env, "sinfo", "-h", "-p", partition, "-o", "%c").text.split()
        return min((int(count.rstrip("+")) for count in counts if count.rstrip("+").isdecimal()), default=0)


def _name(machine: Machine, _: Answers) -> str:
    name = re.sub(r"[^a-z0-9_-]+", "_", machine.config.get("ClusterName", "").lower()).strip("_-")
    return "" if name in ("template", *sites.names()) else name


def _check_name(_: Machine, __: Answers, name: str) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise LabError("A name is small letters, digits, _ and -, such as my_cluster.")
    if name == "template" or name in sites.names():
        raise LabError(f"slurm/sites/{name}.sh is there already, and is left as it is. Choose another name.")


def _account(machine: Machine, _: Answers) -> str:
    return machine.account or (next(iter(machine.accounts)) if len(machine.accounts) == 1 else "")


def _check_account(machine: Machine, _: Answers, account: str) -> None:
    if account and machine.accounts and account not in machine.accounts:
        raise LabError(
            f"Slurm knows no account {account!r} of yours; it knows {', '.join(machine.accounts)}."
        )


def _partition(machine: Machine, _: Answers) -> str:
    """The default partition if its nodes have GPUs, else the first that has some, else the default."""
    known = machine.partitions.items()
    ranked = sorted(known, key=lambda one: (-(one[1][2] > 0), -one[1][0]))
    return ranked[0][0] if ranked else ""


def _check_partition(machine: Machine, _: Answers, partition: str) -> None:
    if partition and machine.partitions and partition not in machine.partitions:
        raise LabError(f"There is no partition {partition!r}; sinfo knows {', '.join(machine.partitions)}.")


def _gpus(machine: Machine, answers: Answers) -> str:
    there = machine.partitions.get(answers["partition"])
    return str(there[2]) if there else ""


def _check_gpus(machine: Machine, answers: Answers, gpus: str) -> None:
    if not gpus.isdecimal() or int(gpus) > 64:
        raise LabError("The number of GPUs in a node is 0, 1, 2, …")
    there = machine.partitions.get(answers["partition"])
    if there and int(gpus) > there[2]:
        raise LabError(f"sinfo shows {there[2]} GPUs in a node of partition {answers['partition']}.")


def _form(machine: Machine, answers: Answers) -> str:
    if answers["gpus"] == "0":
        return "none"
    if not machine.config:
        return ""
    return "gpus-per-node" if "cons_tres" in machine.config.get("SelectType", "") else "gres"


def _check_form(machine: Machine, answers: Answers, form: str) -> None:
    if form not in sites.GPU_FORMS:
        raise LabError(f"The ways to ask for GPUs are: {', '.join(sites.GPU_FORMS)}.")
    if (form == "none") < (answers["gpus"] == "0"):
        raise LabError("Without GPUs in a node the form is none.")
    if not machine.version.ok:
        return
    options = {"gpus-per-node": f"--gpus-per-node={answers['gpus']}", "gres": f"--gres=gpu:{answers['gpus']}"}
    words = ["--test-only", "--nodes=1", "--ntasks-per-node=1", "--time=2"]
    words += [options[form]] if form in options else []
    words += [f"--partition={answers['partition']}"] if answers["partition"] else []
    words += [f"--account={answers['account']}"] if answers["account"] else []
    answer = _slurm_ask.ask(machine.env, "sbatch", *words, "slurm/doctor.sh", "test", "test")
    if not answer.ok:
        raise RefusedBySlurm(f"Slurm refuses such a job: {answer.reason.rstrip('.')}.")


def _launcher(machine: Machine, _: Answers) -> str:
    if machine.config.get("MpiDefault", "none") not in ("none", "(null)", ""):
        return "srun"
    best = next((name for name in ("pmi2", "pmix", "cray_shasta") if name in machine.plugins), None)
    return f"srun --mpi={best}" if best else ""


def _check_launcher(machine: Machine, _: Answers, launcher: str) -> None:
    if not launcher or launcher.split()[0] not in sites.LAUNCHERS:
        raise LabError(f"A launcher begins with one of: {', '.join(sites.LAUNCHERS)}.")
    plugin = re.search(r"--mpi[= ](\S+)", launcher)
    if plugin and machine.plugins and plugin[1] not in machine.plugins:
        raise LabError(f"srun has no MPI plugin {plugin[1]!r}; it has {', '.join(machine.plugins)}.")


def _modules(machine: Machine, _: Answers) -> str:
    return " ".join(filter(None, machine.env.get("LOADEDMODULES", "").split(":")))


_LOAD = """source slurm/launch.sh; set +eu; bring_modules
declare -F module >/dev/null || stop "This machine has no module command: leave it empty with -."
for name in "$@"; do module load "$name" || stop "The module $name does not load here."; done"""


def _check_modules(machine: Machine, _: Answers, modules: str) -> None:
    if not modules:
        return
    done = subprocess.run(
        ["bash", "-c", _LOAD, "bash", *modules.split()], cwd=labkit.root(), env=machine.env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        raise LabError((done.stderr.strip().splitlines() or ["The modules do not load here."])[-1])


def _flavor(_: Machine, __: Answers) -> str:
    """The flavour of the MPI library that a rank would load now."""
    found, _reasons = _probing.collect(_probing.start(("mpi",)), limit=20.0)
    family, _version = _mpi_identity.identify(found.get("mpi.all", ""), found.get("mpi.mpiname") or "")
    return next((flavor for flavor, families in _job_look._FLAVORS.items() if family == families[0]), "")


def _check_flavor(_: Machine, __: Answers, flavor: str) -> None:
    if flavor and flavor not in sites.FLAVORS:
        raise LabError(f"The kit knows these MPI libraries: {', '.join(sites.FLAVORS)}.")


QUESTIONS = (
    Question("name", "Name of this cluster", _name, _check_name),
    Question(
        "account", "Account that pays for jobs; a user's own SBATCH_ACCOUNT wins", _account, _check_account
    ),
    Question("partition", "Partition (queue) for the labs", _partition, _check_partition),
    Question("gpus", "GPUs in a node", _gpus, _check_gpus),
    Question("form", f"How GPUs are asked for ({', '.join(sites.GPU_FORMS)})", _form, _check_form),
    Question("launcher", "What starts the ranks", _launcher, _check_launcher),
    Question("modules", "Modules to load, in this order", _modules, _check_modules),
    Question("flavor", f"MPI library ({', '.join(sites.FLAVORS)})", _flavor, _check_flavor),
)
