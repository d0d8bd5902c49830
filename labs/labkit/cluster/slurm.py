"""The client of Slurm's commands: found, called with a time limit, and understood.

    client = slurm.at("tabletop")      # NotHere where there are no such commands
    client.partitions()
    client.call("scancel", "17")

A command that does not succeed raises NoSlurm, NoAnswer or Refused, all of them `Failed`: one
sentence, and in `.reason` the few words of it that another sentence can take up.
"""

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
PING_SECONDS = 10

NO_SLURM = (
    "There is no Slurm here. `make tabletop` starts one on this machine (then SITE=tabletop); "
    "on a cluster, do this on its login node."
)
_NO_CONFIGURATION = "Could not establish a configuration source"
_TABLETOP_IS_DOWN = "is not running. Start it"
_NO_ANSWER = (
    "Unable to contact slurm controller",
    "timed out",
    "connect failure",
    "Connection refused",
)
# What the user's own settings would make of the columns that are read here.
_FORMATS = re.compile(r"(SQUEUE|SINFO|SACCT|SCONTROL)_\w+")
_PREFIX = re.compile(
    r"^(\w+: )?(error: |fatal: )?(Batch job submission failed: |allocation failure: )?"
)


class Failed(LabError):
    """A command of Slurm's did not do what it was asked for. `.reason`: why, in the fewest
    words."""

    def __init__(self, sentence: str, reason: str):
        super().__init__(sentence)
        self.reason = reason


class NoSlurm(Failed, NotHere):
    """Slurm's commands are not here, or belong to no cluster."""


class NoAnswer(Failed):
    """Slurm's controller does not answer now; it may a moment later."""


class Refused(Failed):
    """Slurm answered, and said no."""


class Partition(NamedTuple):
    """A partition. `largest`: the most nodes that one job may have there. `gpus`: of its best
    node."""

    name: str
    default: bool
    nodes: int
    largest: int
    gpus: int


class Client:
    """Slurm's commands in a folder (None: in the PATH), called in an environment (None: this
    process's)."""

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] | None = None):
        self.folder = folder
        self.env = env

    def call(self, command: str, *arguments: str, limit: float | None = None) -> str:
        """What the command printed. Raises Failed when it did not succeed within `limit`
        seconds."""
        return self._run(command, arguments, limit).stdout

    def ask(self, command: str, *arguments: str) -> str:
        """As `call`, for what is only nice to know: "" where the command does not succeed."""
        try:
            return self.call(command, *arguments)
        except Failed:
            return ""

    def version(self) -> str:
        """Such as "22.05.8". Raises Failed where there is no Slurm, or its controller does not
        answer."""
        # "slurm 23.11.4", "slurm-wlm 22.05.8".
        version = self.call("sinfo", "--version").split()[-1]
        try:
            answer = self.call("scontrol", "ping", limit=PING_SECONDS)
        except Failed as failed:
            raise NoAnswer(str(failed), f"Slurm's controller: {failed.reason}") from None
        if " is UP" not in answer:
            why = shortest_reason(answer) or "the controller does not answer"
            raise NoAnswer(
                f"Slurm's controller does not answer: {why}.", f"Slurm's controller: {why}"
            )
        return version

    def partitions(self) -> list[Partition]:
        """All partitions, in sinfo's order."""
        return parse_partitions(self.call("sinfo", "-h", "-a", "-o", "%P|%D|%s|%G"))

    def mpi_plugins(self) -> list[str]:
        """What `srun --mpi=list` offers: none, pmi2, pmix, …; [] if it does not say."""
        try:
            done = self._run("srun", ["--mpi=list"])
        except Failed:
            return []
        return parse_plugins(done.stdout or done.stderr)

    def submit(self, *arguments: str) -> str:
        """Hand a batch script to Slurm; the job's number. `arguments`: sbatch's options, then the
        script."""
        return job_number(self.call("sbatch", "--parsable", *arguments))

    def job(self, number: str, limit: float | None = None) -> dict[str, str]:
        """The fields of `scontrol show job`. Raises Refused for a job that the controller has
        forgotten."""
        return parse_job(self.call("scontrol", "-o", "show", "job", number, limit=limit))

    def _run(
        self, command: str, arguments, limit: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        env = os.environ if self.env is None else self.env
        env = {name: value for name, value in env.items() if not _FORMATS.fullmatch(name)}
        env["SLURM_TIME_FORMAT"] = "standard"
        limit = limit or (SUBMIT_SECONDS if command == "sbatch" else QUERY_SECONDS)
        program = (
            str(self.folder / command)
            if self.folder
            else shutil.which(command, path=env.get("PATH"))
        )
        if program is None:
            raise NoSlurm(NO_SLURM, f"there is no {command} here")
        try:
            done = subprocess.run(
                [program, *arguments], env=env, cwd=paths.root(), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NoAnswer(
                f"Slurm does not answer: `{command}` said nothing for {limit:g} s.",
                f"{command} gave no answer within {limit:g} s",
            ) from None
        except OSError as error:
            sentence = f"`{command}` cannot be started ({error.strerror})"
            raise NoSlurm(f"{sentence}.", sentence) from error
        if done.returncode:
            raise _failure(command, done.stderr.strip() or done.stdout.strip(), done.returncode)
        return done


def at(site: str | None, env: Mapping[str, str] | None = None) -> Client:
    """The client for a site; None: for the commands in the PATH. NoSlurm when there are none.

    env: the environment in which they are called, by default this process's.
    """
    if site == "tabletop":
        folder = tabletop()
        if folder is None:
            raise NoSlurm(
                "No tabletop cluster runs here. `make tabletop` starts one.",
                "no tabletop cluster runs here",
            )
        return Client(folder, env)
    if shutil.which("sbatch", path=None if env is None else env.get("PATH")) is None:
        raise NoSlurm(NO_SLURM, "there is no sbatch here")
    return Client(None, env)


def learners_home() -> Path:
    """paths.home(); in a run of a solved lab that has a home of its own in that one, the
    learner's."""
    home = paths.home().resolve()
    return home.parent if lab.solved() and home.name == "solved" else home


def tabletop() -> Path | None:
    """The commands of a tabletop cluster that runs: the one sourced in this shell, else "table",
    else any."""
    homes = dict.fromkeys([learners_home(), paths.services().resolve()])
    found = (file for home in homes for file in home.glob("tabletop/*/holder"))
    holders = sorted(found, key=lambda file: file.parent.name != "table")
    folders = [holder.parent / "bin" for holder in holders]
    sourced = shutil.which("sbatch")
    if sourced:
        folders.insert(0, Path(sourced).parent)
    return next((folder for folder in folders if _can_enter(folder)), None)


def _can_enter(folder: Path) -> bool:
    """Does the cluster of these commands run? Its own door knows, from outside and from inside."""
    try:
        tried = subprocess.run(
            [str(folder / "tabletop-enter"), "true"], cwd="/", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PING_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):  # a Slurm that is no tabletop has no such door
        return False
    return tried.returncode == 0


def _failure(command: str, output: str, status: int) -> Failed:
    """What a command that ended with `status` means by what it printed."""
    lines = [
        re.sub(r"^\w+: (error|fatal): ", "", line) for line in output.splitlines() if line.strip()
    ]
    message = " ".join(dict.fromkeys(lines)) or f"nothing, but status {status}"
    reason = shortest_reason(output) or f"{command} failed"
    if _NO_CONFIGURATION in message:
        return NoSlurm(NO_SLURM, reason)
    if _TABLETOP_IS_DOWN in message:
        return NoSlurm(lines[-1], reason)
    if any(sign in message for sign in _NO_ANSWER):
        return NoAnswer(
            f"Slurm's controller does not answer; `{command}` says: {lines[-1]}", reason
        )
    return Refused(f"`{command}` says: {message}", reason)


def shortest_reason(output: str) -> str:
    """The line of a command's complaint that says most, without its "sbatch: error: "."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [
        line for line in lines if re.search(r"error|fatal|invalid|failure", line, re.IGNORECASE)
    ]
    return _PREFIX.sub("", (telling or lines or [""])[-1])


def parse_partitions(text: str) -> list[Partition]:
    """sinfo's lines "name|nodes|sizes|resources", several for a partition whose nodes differ.

    A star marks the default partition; "1-infinite" or "4" are the sizes of a job that it takes.
    """
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        name, count, sizes, resources = line.split("|", 3)
        default = name.endswith("*")
        name = name.rstrip("*").strip()
        before = partitions.get(name, Partition(name, default, 0, 0, 0))
        nodes = before.nodes + int(count)
        largest = sizes.rpartition("-")[2]
        partitions[name] = Partition(
            name,
            default,
            nodes,
            min(nodes, int(largest)) if largest.isdigit() else nodes,
            max(before.gpus, gpu_count(resources)),
        )
    return list(partitions.values())


def gpu_count(resources: str) -> int:
    """GPUs in a node's list of resources: gpu:4, gpu:a100:4(S:0-1), gpu:a100:2,gpu:h100:2 -> 4."""
    # gpu:TYPE:N, gpu:N, or gpu alone, which is one
    counts = re.findall(r"(?:^|,)gpu(?=[:,(]|$)(?::[^:,(]*[^:,(\d][^:,(]*)?(?::(\d+))?", resources)
    return sum(int(count or 1) for count in counts)


def parse_plugins(text: str) -> list[str]:
    """The names in what `srun --mpi=list` prints; older versions put "srun: " before each line."""
    candidates = re.split(r"[\s,]+", re.sub(r"^srun: ", "", text, flags=re.MULTILINE))
    prose = ("plugin", "types", "are", "specific", "versions", "available")
    names = [
        name for name in candidates if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in prose
    ]
    return list(dict.fromkeys(names))


def parse_job(text: str) -> dict[str, str]:
    """The fields of one line of `scontrol -o show job`; a value may hold spaces, as a path may."""
    pairs = re.findall(
        r"(?:^|(?<= ))([A-Z][\w/:]*)=(.*?)(?= [A-Z][\w/:]*=|\s*$)", text.splitlines()[0]
    )
    return dict(pairs)


def job_number(text: str) -> str:
    """The number in what `sbatch --parsable` printed, below whatever greeting a site prints
    first."""
    for line in reversed(text.splitlines()):
        match = re.fullmatch(r"(\d+)(;\S+)?", line.strip()) or re.search(
            r"Submitted batch job (\d+)", line
        )
        if match:
            return match[1]
    raise LabError(f"sbatch did not name the job's number; it said: {text.strip() or 'nothing'}.")
