"""`make site`: a few questions, then slurm/sites/NAME.sh for a new cluster. Nothing is overwritten.

Each question suggests what this machine says and checks the answer at once, where Slurm answers here.
"""

from __future__ import annotations

import datetime
import getpass
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

from labkit import builds, doctor, mpis, paths
from labkit.cluster import sites, slurm
from labkit.errors import LabError, NotHere, exit_status

Answers = dict[str, str]

# What may stand between double quotes in bash without a meaning of its own.
_PLAIN = re.compile(r"[\w./:+=@,% -]*")


class RefusedBySlurm(LabError):
    """The answer is one that the kit knows, but Slurm would not take such a job now."""


class Question(NamedTuple):
    """`suggest` gives a default, "" if nothing is known; `check` raises LabError with what is wrong."""

    key: str
    text: str
    suggest: Callable[[Machine, Answers], str]
    check: Callable[[Machine, Answers, str], None]


class Machine:
    """What this machine says, asked once. Everything is empty where Slurm does not answer: see `silence`."""

    def __init__(self, environ: Mapping[str, str] = os.environ):
        own = {name: value for name, value in environ.items() if not name.startswith(("SBATCH_", "LABKIT_"))}
        self.env = own
        self.client = slurm.Client(env=own)
        self.account = environ.get("SBATCH_ACCOUNT", "")
        self.version = self.silence = ""
        self.partitions: dict[str, slurm.Partition] = {}
        self.plugins: list[str] = []
        self.accounts: dict[str, set[str]] = {}
        self.config: dict[str, str] = {}
        try:
            self.version = self.client.version()
            self.partitions = {partition.name: partition for partition in self.client.partitions()}
        except slurm.Failed as failed:
            self.silence = failed.reason
            return
        self.plugins = self.client.mpi_plugins()
        self.accounts = self.client.accounts(getpass.getuser()) or {}
        text = self.client.ask("scontrol", "show", "config")
        self.config = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))

    def cores(self, partition: str) -> int:
        """Cores that Slurm counts in the smallest node of a partition; 0 if not known."""
        counts = self.client.ask("sinfo", "-h", "-p", partition, "-o", "%c").split()
        return min((int(count.rstrip("+")) for count in counts if count.rstrip("+").isdecimal()), default=0)


def run(answers_from: TextIO | None = None) -> Path:
    """Ask, check, write. Returns the new file. LabError, and nothing written, if the answers end too soon."""
    answers_from = answers_from or sys.stdin
    machine = Machine()
    print("A site file for this cluster. Enter takes the value in [brackets], - leaves it empty.")
    if machine.version:
        print(f"Slurm {machine.version} answers here, so that each answer is checked at once.\n")
    else:
        print(f"Slurm does not answer here ({machine.silence}): `make doctor` checks the answers later.\n")
    answers: Answers = {}
    for question in QUESTIONS:
        answers[question.key] = _ask(question, machine, answers, answers_from)
    file = _write(answers, text(answers, machine))
    name = answers["name"]
    print(f"\nWritten: slurm/sites/{name}.sh. Next, also on a login node: make doctor SITE={name}")
    return file


def _ask(question: Question, machine: Machine, answers: Answers, lines: TextIO) -> str:
    """One answer that passes its check. What only Slurm refused may be said twice: then it is kept."""
    default = question.suggest(machine, answers)
    refused = None
    while True:
        answer = _answer(question.text, default, lines)
        try:
            if not _PLAIN.fullmatch(answer):
                raise LabError("Only letters, digits, spaces and . / : + = @ , % _ - may stand in an answer.")
            question.check(machine, answers, answer)
            return answer
        except RefusedBySlurm as error:
            if answer == refused:
                print("  Kept, since you said it twice.")
                return answer
            print(f"  {error} Say the same again to keep it.")
            refused = answer
        except LabError as error:
            print(f"  {error}")


def _answer(question: str, default: str, lines: TextIO) -> str:
    """The next line: Enter is the default, - is nothing. LabError when there is no line any more."""
    print(f"{question} [{default}]: ", end="", flush=True)
    line = lines.readline()
    if not line:
        print()
        raise LabError(f"The answers ended at the question {question!r}: nothing was written.")
    answer = line.strip()
    if not lines.isatty():
        print(answer)  # so that a log shows the answers beside the questions
    return "" if answer == "-" else answer or default


def text(answers: Answers, machine: Machine) -> str:
    """The site file."""
    name = answers["name"]
    gpus = answers["gpus"]
    form = answers["form"]
    today = datetime.date.today().isoformat()
    lines = [
        f"# {name}: written by `make site` on {today}. slurm/sites/template.sh explains each line.",
        f"# Check it on the cluster with `make doctor SITE={name}`; what is empty was not known.",
        f"export SITE={name}",
        "",
        "# The account that pays. A user's own SBATCH_ACCOUNT wins.",
        _choice("SBATCH_ACCOUNT", answers["account"]),
        "# The partition (queue) whose nodes the jobs use.",
        _choice("SBATCH_PARTITION", answers["partition"]),
        "",
        "# GPUs in a node, and how this site wants them asked for.",
        f"export LABKIT_GPUS_PER_NODE={gpus}",
        f'export LABKIT_GPU_FORM="{form}"',
    ]
    if form == "gpus-per-node":
        lines.append(f"export SBATCH_GPUS_PER_NODE={gpus}")
    if form == "gres":
        lines.append(f'export SBATCH_GRES="gpu:{gpus}"')
    cores = machine.cores(answers["partition"]) // int(gpus) if gpus != "0" and answers["partition"] else 0
    if cores:
        lines.append("# Further options of sbatch: the cores of a node, shared out over its GPUs.")
        lines.append(f'export LABKIT_SBATCH_OPTIONS="--cpus-per-task={cores}"')
    else:
        lines += ["# Further options of sbatch.", 'export LABKIT_SBATCH_OPTIONS=""']
    lines += [
        "",
        "# Modules, what starts the ranks, and which MPI library they then run on.",
        f'export LABKIT_MODULES="{answers["modules"]}"',
        f'export LABKIT_LAUNCHER="{answers["launcher"]}"',
        f'export LABKIT_MPI="{answers["flavor"]}"',
        "",
        "# Which build of Horovod the jobs use, where there are several; HOROVOD= of `make submit` wins.",
        _choice("LABKIT_HOROVOD", answers["horovod"]),
    ]
    return "\n".join(lines) + "\n"


def _choice(variable: str, value: str) -> str:
    if not value:  # set but empty, it would be an account of no name
        return f"# export {variable}=…"
    return f'export {variable}="${{{variable}:-{value}}}"'


def _write(answers: Answers, content: str) -> Path:
    file = paths.root() / "slurm" / "sites" / f"{answers['name']}.sh"
    part = file.with_suffix(".part")
    try:
        part.write_text(content, encoding="utf-8")
        os.link(part, file)  # as a whole, and only if nobody else wrote one meanwhile
    except FileExistsError:
        raise LabError(f"slurm/sites/{file.name} has appeared meanwhile and is left as it is.") from None
    except OSError as error:
        raise LabError(f"slurm/sites/{file.name} cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)
    return file


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
    known = machine.partitions.values()
    best = min(known, key=lambda partition: (partition.gpus == 0, not partition.default), default=None)
    return best.name if best else ""


def _check_partition(machine: Machine, _: Answers, partition: str) -> None:
    if partition and machine.partitions and partition not in machine.partitions:
        raise LabError(f"There is no partition {partition!r}; sinfo knows {', '.join(machine.partitions)}.")


def _gpus(machine: Machine, answers: Answers) -> str:
    partition = machine.partitions.get(answers["partition"])
    return str(partition.gpus) if partition else ""


def _check_gpus(machine: Machine, answers: Answers, gpus: str) -> None:
    if not gpus.isdecimal() or int(gpus) > 64:
        raise LabError("The number of GPUs in a node is 0, 1, 2, …")
    partition = machine.partitions.get(answers["partition"])
    if partition and int(gpus) > partition.gpus:
        raise LabError(f"sinfo shows {partition.gpus} GPUs in a node of partition {partition.name}.")


def _form(machine: Machine, answers: Answers) -> str:
    if answers["gpus"] == "0":
        return "none"
    if not machine.config:
        return ""
    return "gpus-per-node" if "cons_tres" in machine.config.get("SelectType", "") else "gres"


def _check_form(machine: Machine, answers: Answers, form: str) -> None:
    if form not in sites.GPU_FORMS:
        raise LabError(f"The ways to ask for GPUs are: {', '.join(sites.GPU_FORMS)}.")
    if answers["gpus"] == "0" and form != "none":
        raise LabError("Without GPUs in a node the form is none.")
    if not machine.version:
        return
    options = ["--test-only", "--nodes=1", "--ntasks-per-node=1", "--time=2"]
    if form == "gpus-per-node":
        options.append(f"--gpus-per-node={answers['gpus']}")
    if form == "gres":
        options.append(f"--gres=gpu:{answers['gpus']}")
    for name in ("partition", "account"):
        if answers[name]:
            options.append(f"--{name}={answers[name]}")
    try:
        machine.client.call("sbatch", *options, "slurm/doctor.sh", "test", "test")
    except slurm.Failed as failed:
        raise RefusedBySlurm(f"Slurm refuses such a job: {failed.reason.rstrip('.')}.") from None


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
        ["bash", "-c", _LOAD, "bash", *modules.split()], cwd=paths.root(), env=machine.env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        raise LabError((done.stderr.strip().splitlines() or ["The modules do not load here."])[-1])


def _flavor(_: Machine, __: Answers) -> str:
    """The flavour of the MPI library that a rank would load now."""
    try:
        family = doctor.which_mpi().family
    except NotHere:
        return ""
    return next((flavor for flavor, families in mpis.FLAVORS.items() if family == families[0]), "")


def _check_flavor(_: Machine, __: Answers, flavor: str) -> None:
    if flavor and flavor not in mpis.FLAVORS:
        raise LabError(f"The kit knows these MPI libraries: {', '.join(mpis.FLAVORS)}.")


def _horovod(_: Machine, answers: Answers) -> str:
    """On nodes with GPUs NCCL's build, if it is here; else none, which is the default build."""
    return "nccl" if answers["gpus"] != "0" and "nccl" in builds.horovod_builds() else ""


def _check_horovod(_: Machine, __: Answers, horovod: str) -> None:
    if horovod:
        builds.horovod_folder(horovod)  # NotHere, or LabError for a name that is none


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
    Question("flavor", f"MPI library ({', '.join(mpis.FLAVORS)})", _flavor, _check_flavor),
    Question(
        "horovod",
        f"Build of Horovod ({', '.join(builds.HOROVOD)}); empty for the default",
        _horovod,
        _check_horovod,
    ),
)


def main() -> int:
    """`make site`. 0: the file is written; 1: it is not, and why; 130: Ctrl-C."""

    def write() -> int:
        run()
        return 0

    return exit_status(write)


if __name__ == "__main__":
    sys.exit(main())
