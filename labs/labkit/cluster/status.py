"""What Slurm says of one job: its state, why it waits, when it is expected to start, how it
ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from labkit.cluster import slurm
from labkit.errors import counted

UNKNOWN = "unknown"
GOOD = "completed"
# What a job did that did not end well, by its state.
ENDED_HOW = {
    "failed": "failed",
    "cancelled": "was cancelled",
    "timeout": "was ended at its time limit (`export SBATCH_TIMELIMIT=30` asks for 30 minutes)",
    "node_fail": "lost a node",
    "out_of_memory": "needed more memory than it had asked for",
    "preempted": "was ended to make room for another job",
    "boot_fail": "could not start its nodes",
    "deadline": "was ended at its deadline",
    "revoked": "was handed to another cluster",
}
# Reasons in squeue(1), in plain words; a name may stand for all that begin with it.
_REASONS = {
    "None": "waits its turn",
    "WaitingForScheduling": "waits its turn",
    "Resources": "waits for free nodes",
    "Priority": "waits behind jobs of higher priority",
    "BeginTime": "waits for the time at which it may begin",
    "Dependency": "waits for another job",
    "DependencyNeverSatisfied": "waits for a job that will never do as it should: cancel it",
    "JobHeldUser": "is held by you: `scontrol release` lets it go",
    "JobHeldAdmin": "is held by the cluster's staff",
    "Licenses": "waits for a licence",
    "PartitionDown": "waits: its partition is down",
    "PartitionInactive": "waits: its partition starts no jobs now",
    "PartitionConfig": (
        "asks for more than its partition's nodes have, and will not start: cancel it"
    ),
    "PartitionNodeLimit": "asks for more nodes than its partition can give now",
    "PartitionTimeLimit": (
        "asks for more time than its partition allows, and will not start: cancel it"
        " (`export SBATCH_TIMELIMIT=10` makes the next one ask for 10 minutes)"
    ),
    "ReqNodeNotAvail": "waits: nodes that it needs are down or reserved",
    "NodeDown": "waits: a node that it needs is down",
    "BadConstraints": "asks for what no node has, and will not start: cancel it",
    "InvalidAccount": "names an account that Slurm does not know, and will not start: cancel it",
    "InvalidQOS": "names a QOS that Slurm does not know, and will not start: cancel it",
    "Reservation": "waits for its reservation",
    "QOS": "waits: a limit of its QOS is reached",
    "Assoc": "waits: a limit of your account is reached",
    "launch failed requeued held": "could not be started on its node, and is held",
}


@dataclass(frozen=True)
class Status:
    """`seconds`: that it ran. `start`: local time, expected while it waits. `place`: (place, of how
    many)."""

    state: str
    reason: str = ""
    start: datetime | None = None
    seconds: int | None = None
    exit: int | None = None
    hosts: str = ""
    partition: str = ""
    nodes: int | None = None
    ranks: int | None = None
    place: tuple[int, int] | None = None

    @property
    def ended(self) -> bool:
        """Will it stay as it is?"""
        return self.state in (GOOD, UNKNOWN, *ENDED_HOW)

    @property
    def waits(self) -> bool:
        """Is it in the queue?"""
        return self.state == "pending"


def ask(number: str, client: slurm.Client, token: str, since: datetime) -> Status:
    """The status of a job that was submitted at `since`; `token` stands in the name of its output.

    A number is given anew when a cluster starts afresh: another job of the same number is not taken
    for it. UNKNOWN where the controller has forgotten it and nobody keeps accounts.
    """
    try:
        fields = client.job(number)
        if token in fields.get("StdOut", ""):
            return from_scontrol(fields)
    except slurm.Refused as refused:
        if "Invalid job id" not in str(refused):
            raise
    columns = "State,ExitCode,Elapsed,NodeList,Submit"
    try:
        text = client.call("sacct", "-X", "-n", "-P", "-j", number, "-o", columns)
    except slurm.Refused:
        return Status(UNKNOWN)
    return parse_accounting(text, since)


def from_scontrol(fields: dict[str, str]) -> Status:
    """The status in the fields of scontrol."""
    return Status(
        state=_state(fields["JobState"]),
        reason=fields.get("Reason", ""),
        start=_time(fields.get("StartTime", "")),
        seconds=_seconds(fields.get("RunTime", "")),
        exit=_exit(fields.get("ExitCode", "")),
        hosts=_hosts(fields.get("NodeList", "")),
        partition=fields.get("Partition", ""),
        nodes=_first_number(fields.get("NumNodes", "")),
        ranks=_first_number(fields.get("NumTasks", "")),
    )


def parse_accounting(text: str, since: datetime) -> Status:
    """The last line of `sacct -X -n -P -o State,ExitCode,Elapsed,NodeList,Submit` not older than
    `since`."""
    lines = [line.split("|") for line in text.splitlines() if line.count("|") == 4]
    if not lines:
        return Status(UNKNOWN)
    state, code, elapsed, hosts, submitted = lines[-1]
    when = _time(submitted)
    # The later one of an hour that comes twice when summer time ends. Clocks of two machines may
    # differ.
    if when and when.replace(fold=1).astimezone() < since - timedelta(seconds=60):
        return Status(UNKNOWN)
    return Status(_state(state), seconds=_seconds(elapsed), exit=_exit(code), hosts=_hosts(hosts))


def place(number: str, client: slurm.Client, partition: str = "") -> tuple[int, int] | None:
    """(place, of how many) among the jobs that wait, as far as Slurm shows other people's jobs."""
    chosen = ["-p", partition] if partition else []
    numbers = client.call("squeue", "-h", "-t", "PD", "--sort=-p,i", "-o", "%i", *chosen).split()
    return (numbers.index(number) + 1, len(numbers)) if number in numbers else None


def why(status: Status, now: datetime | None = None) -> str:
    """Why it waits and how long that may take, in plain words."""
    text = _reason(status.reason)
    if status.place:
        text += f", place {status.place[0]} of {status.place[1]}"
    now = now or datetime.now()
    if status.start and status.start > now:
        text += f", expected to start {_when(status.start, now)}"
    return text


def _reason(reason: str) -> str:
    name = reason.split(",")[0].strip("()")
    if name in _REASONS:
        return _REASONS[name]
    for start in ("QOS", "Assoc"):
        if name.startswith(start):
            return f"{_REASONS[start]} ({name})"
    return f"waits; Slurm's reason: {name.replace('_', ' ')}"


def _when(start: datetime, now: datetime) -> str:
    minutes = round((start - now).total_seconds() / 60)
    if minutes < 1:
        return "within a minute"
    if minutes < 90:
        return f"in about {counted(minutes, 'minute')}"
    same_day = start.date() == now.date()
    return f"at {start:%H:%M}" if same_day else f"on {start:%Y-%m-%d at %H:%M}"


def _state(text: str) -> str:
    return text.split()[0].rstrip("+").lower()  # sacct says "CANCELLED by 1000"


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # "Unknown", "N/A"
        return None


def _seconds(text: str) -> int | None:
    """Seconds of "1-02:03:04" or "00:00:34"."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _exit(text: str) -> int | None:
    """Exit status of "3:0"; 128 and more when a signal ended it, as a shell says it."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match:
        return None
    status = int(match[1])
    signal = int(match[2])
    return 128 + signal if status == 0 and signal else status


def _hosts(text: str) -> str:
    return "" if text in ("(null)", "None assigned") else text


def _first_number(text: str) -> int | None:
    match = re.match(r"\d+", text)
    return int(match[0]) if match else None
