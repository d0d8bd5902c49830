"""Asks Slurm's own tools: which partitions, features, accounts, MPI plugins. Nothing here submits a job."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

import labkit

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
            [tool, *command[1:]], env=dict(env), cwd=labkit.root(), stdin=subprocess.DEVNULL,
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


def partitions(env: Mapping[str, str]) -> dict[str, tuple[bool, int, int]]:
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
