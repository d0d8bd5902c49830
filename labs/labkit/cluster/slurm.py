"""Slurm's commands: found, called with a time limit, and understood. What goes wrong becomes one sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from labkit import lab, paths
from labkit.errors import LabError, NotHere

QUERY_SECONDS = 30  # squeue itself gives up after 20 s without an answer
SUBMIT_SECONDS = 90

NO_SLURM = (
    "There is no Slurm here. `make tabletop` starts one on this machine (then SITE=tabletop); "
    "on a cluster, do this on its login node."
)
_NOT_SET_UP = ("Could not establish a configuration source", "is not running. Start it")
_NO_ANSWER = ("Unable to contact slurm controller", "timed out", "connect failure", "Connection refused")
# What the user's own settings would make of the columns that are read here.
_FORMATS = re.compile(r"(SQUEUE|SINFO|SACCT|SCONTROL)_\w+")


class NoAnswer(LabError):
    """Slurm's controller does not answer now; it may a moment later."""


class Refused(LabError):
    """Slurm answered, and said no. `.said` is its own sentence."""

    def __init__(self, text: str, said: str):
        super().__init__(text)
        self.said = said


class Partition(NamedTuple):
    """A partition's name, and the most nodes that a job may have there."""

    name: str
    nodes: int


def commands(site: str | None) -> Path | None:
    """The folder of Slurm's commands for a site; None: those in PATH. NotHere when there are none."""
    if site == "tabletop":
        folder = tabletop()
        if folder is None:
            raise NotHere("No tabletop cluster runs here. `make tabletop` starts one.")
        return folder
    if shutil.which("sbatch") is None:
        raise NotHere(NO_SLURM)
    return None


def learners_home() -> Path:
    """paths.home(); in a run of a solved lab that has a home of its own in that one, the learner's."""
    home = paths.home().resolve()
    return home.parent if lab.solved() and home.name == "solved" else home


def tabletop() -> Path | None:
    """The commands of a tabletop cluster that runs: the one sourced in this shell, else "table", else any."""
    sourced = shutil.which("sbatch")
    states = sorted(learners_home().glob("tabletop/*/holder"), key=lambda path: path.parent.name != "table")
    for holder in ([Path(sourced).parents[1] / "holder"] if sourced else []) + states:
        if _holds(holder):
            return holder.parent / "bin"
    return None


def _holds(holder: Path) -> bool:
    """Is the process named in a tabletop's file still there? Its network tells it from a later process."""
    try:
        pid, network = holder.read_text(encoding="utf-8").split()
        return os.readlink(f"/proc/{int(pid)}/ns/net") == network
    except (OSError, ValueError):
        return False


def call(name: str, *words: str, where: Path | None, env: Mapping[str, str] | None = None, cwd=None) -> str:
    """What the command printed. NotHere, NoAnswer or Refused when it did not succeed.

    where: the folder of the commands, see `commands`.
    """
    seconds = SUBMIT_SECONDS if name == "sbatch" else QUERY_SECONDS
    environ = {key: value for key, value in (env or os.environ).items() if not _FORMATS.fullmatch(key)}
    environ["SLURM_TIME_FORMAT"] = "standard"
    program = str(where / name) if where else shutil.which(name)
    if program is None:
        raise NotHere(NO_SLURM)
    try:
        done = subprocess.run(
            [program, *words], env=environ, cwd=cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"Slurm does not answer: `{name}` said nothing for {seconds} s.") from None
    except OSError as error:
        raise NotHere(f"`{name}` cannot be started ({error.strerror}).") from error
    if done.returncode:
        raise _refusal(name, done.stderr.strip() or done.stdout.strip(), done.returncode)
    return done.stdout


def _refusal(name: str, text: str, status: int) -> LabError:
    lines = [re.sub(r"^\w+: (error|fatal): ", "", line) for line in text.splitlines() if line.strip()]
    said = " ".join(dict.fromkeys(lines)) or f"nothing, but status {status}"
    if _NOT_SET_UP[0] in said:
        return NotHere(NO_SLURM)
    if _NOT_SET_UP[1] in said:
        return NotHere(lines[-1])
    if any(words in said for words in _NO_ANSWER):
        return NoAnswer(f"Slurm's controller does not answer; `{name}` says: {lines[-1]}")
    return Refused(f"`{name}` says: {said}", said)


def partitions(where: Path | None) -> list[Partition]:
    """All partitions, the default one first; [] where sinfo shows none."""
    return parse_partitions(call("sinfo", "-h", "-a", "-o", "%P|%D|%s", where=where))


def parse_partitions(text: str) -> list[Partition]:
    """sinfo's lines "name|nodes|sizes": a star marks the default, "1-infinite" or "4" the sizes allowed."""
    nodes: dict[str, int] = {}
    most: dict[str, float] = {}
    for line in text.splitlines():
        name, count, sizes = line.rsplit("|", 2)
        nodes[name] = nodes.get(name, 0) + int(count)
        largest = sizes.rpartition("-")[2]
        most[name] = int(largest) if largest.isdigit() else float("inf")
    order = sorted(nodes, key=lambda name: not name.endswith("*"))
    return [Partition(name.rstrip("*"), int(min(nodes[name], most[name]))) for name in order]


def job_number(text: str) -> str:
    """The number in what `sbatch --parsable` printed, below whatever greeting a site prints first."""
    for line in reversed(text.splitlines()):
        found = re.fullmatch(r"(\d+)(;\S+)?", line.strip()) or re.search(r"Submitted batch job (\d+)", line)
        if found:
            return found[1]
    raise LabError(f"sbatch did not name the job's number; it said: {text.strip() or 'nothing'}.")


# Asks Slurm's own tools: which partitions, features, accounts, MPI plugins. Nothing here submits a job.


_PREFIX = re.compile(r"^(\w+: )?(error: |fatal: )?(Batch job submission failed: |allocation failure: )?")


class Answer(NamedTuple):
    """What a tool said: `ok` is exit status 0; `text` its output; `reason` the line that says why not."""

    ok: bool
    text: str
    reason: str


def ask(env: Mapping[str, str], *command: str, limit: float = 30.0) -> Answer:
    """Run a tool of the environment's PATH in the checkout, `limit` seconds at most."""
    tool = shutil.which(command[0], path=env.get("PATH"))
    if tool is None:
        return Answer(False, "", f"there is no {command[0]} here")
    try:
        done = subprocess.run(
            [tool, *command[1:]], env=dict(env), cwd=paths.root(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Answer(False, "", f"{command[0]} gave no answer within {limit:g} s")
    if done.returncode:
        return Answer(False, done.stdout, reason(done.stderr or done.stdout) or f"{command[0]} failed")
    return Answer(True, done.stdout or done.stderr, "")


def reason(text: str) -> str:
    """The line of a tool's complaint that says most, without its "sbatch: error: "."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|fatal|invalid|failure", line, re.IGNORECASE)]
    return _PREFIX.sub("", (telling or lines or [""])[-1])


def version(env: Mapping[str, str]) -> Answer:
    """`.text` such as "22.05.8", if Slurm's client is here and its controller answers."""
    client = ask(env, "sinfo", "--version")
    if not client.ok:
        return client
    ping = ask(env, "scontrol", "ping", limit=10.0)
    if not ping.ok or " is UP" not in ping.text:
        why = ping.reason or reason(ping.text) or "the controller does not answer"
        return Answer(False, "", f"Slurm's controller: {why}")
    return Answer(True, client.text.split()[-1], "")  # "slurm 23.11.4", Debian's "slurm-wlm 22.05.8"


def ask_partitions(env: Mapping[str, str]) -> dict[str, tuple[bool, int, int]]:
    """Partition -> (the default?, nodes, GPUs of a node), in sinfo's order; {} if sinfo does not say."""
    found: dict[str, tuple[bool, int, int]] = {}
    for line in ask(env, "sinfo", "-h", "-o", "%P|%D|%G").text.splitlines():
        name, nodes, gres = (line.split("|") + ["", ""])[:3]
        default, name = name.endswith("*"), name.rstrip("*").strip()
        _, before, gpus = found.get(name, (False, 0, 0))
        found[name] = (default, before + int(nodes or 0), max(gpus, gpu_count(gres)))
    return found


def gpu_count(gres: str) -> int:
    """GPUs in a node's list of resources: gpu:4, gpu:a100:4(S:0-1), gpu:a100:2,gpu:h100:2 -> 4."""
    # gpu:TYPE:N, gpu:N, or gpu alone, which is one
    counts = re.findall(r"(?:^|,)gpu(?=[:,(]|$)(?::[^:,(]*[^:,(\d][^:,(]*)?(?::(\d+))?", gres)
    return sum(int(count or 1) for count in counts)


def features(env: Mapping[str, str], partition: str) -> set[str]:
    """The features that a constraint may name."""
    where = ["-p", partition] if partition else []
    words = re.split(r"[,\s]+", ask(env, "sinfo", "-h", *where, "-o", "%f").text)
    return {word for word in words if word and word != "(null)"}


def accounts(env: Mapping[str, str], user: str) -> dict[str, set[str]] | None:
    """Account -> its QOS names for this user; None where there is no accounting database to ask."""
    answer = ask(env, "sacctmgr", "-nP", "show", "assoc", f"user={user}", "format=account,qos")
    if not answer.ok:
        return None
    found: dict[str, set[str]] = {}
    for line in answer.text.splitlines():
        account, _, qos = line.partition("|")
        if account:
            found.setdefault(account, set()).update(filter(None, qos.split(",")))
    return found


def mpi_plugins(env: Mapping[str, str]) -> list[str]:
    """What `srun --mpi=list` offers: none, pmi2, pmix, …; [] if it does not say."""
    return parse_plugins(ask(env, "srun", "--mpi=list").text)


def parse_plugins(text: str) -> list[str]:
    """The names in what srun prints, one a line; older versions put "srun: " before each line."""
    words = re.split(r"[\s,]+", re.sub(r"^srun: ", "", text, flags=re.MULTILINE))
    talk = ("plugin", "types", "are", "specific", "versions", "available")
    named = [word for word in words if re.fullmatch(r"[a-z][a-z0-9_]*", word) and word not in talk]
    return list(dict.fromkeys(named))
