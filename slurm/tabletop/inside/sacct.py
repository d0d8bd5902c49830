"""A stand-in for sacct, which needs a database: jobs that ended (jobs.txt) and jobs that live
(scontrol).

Understands -j, -o/--format, -n, -P/--parsable2, -X, --name and -s/--state. Steps are not listed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

USUAL = "JobID,JobName,Partition,NNodes,AllocCPUS,State,ExitCode,Elapsed"
# What sacct calls a field: its name in jobs.txt or in `scontrol show job`, in this order.
FIELDS = {
    "jobid": ("JobId",),
    "jobname": ("Name", "JobName"),
    "user": ("UserId",),
    "partition": ("Partition",),
    "state": ("JobState",),
    "exitcode": ("ExitCode",),
    "start": ("StartTime",),
    "end": ("EndTime",),
    "submit": ("SubmitTime",),
    "timelimit": ("TimeLimit",),
    "nodelist": ("NodeList",),
    "nnodes": ("NodeCnt", "NumNodes"),
    "alloccpus": ("ProcCnt", "NumCPUs"),
    "workdir": ("WorkDir",),
    "elapsed": ("RunTime",),
}
TITLES = {"jobid": "JobID", "jobname": "JobName", "nnodes": "NNodes", "alloccpus": "AllocCPUS"} | {
    "exitcode": "ExitCode",
    "nodelist": "NodeList",
    "timelimit": "Timelimit",
    "workdir": "WorkDir",
}


def records(text: str) -> list[dict[str, str]]:
    """One dict per line of `Key=value Key=value`; a value ends where the next key begins."""
    lines = [line for line in text.splitlines() if line.startswith("JobId=")]
    return [dict(re.findall(r"(\w+)=(.*?)(?= [\w:/]+=|\s*$)", line)) for line in lines]


def jobs() -> list[dict[str, str]]:
    """All jobs of this cluster, also of its earlier lives; what ended is known from jobs.txt."""
    # enter.sh sets SLURM_CONF, once it has seen whose files these are
    finished = Path(os.environ["SLURM_CONF"]).parents[1] / "state" / "jobs.txt"
    try:
        ended = {job["JobId"]: job for job in records(finished.read_text(encoding="utf-8"))}
    except FileNotFoundError:  # no job has ended yet
        ended = {}
    live = subprocess.run(
        ["scontrol", "-o", "show", "job"], capture_output=True, text=True, check=True
    ).stdout
    known = {job["JobId"]: job for job in records(live)} | ended
    return [known[number] for number in sorted(known, key=int)]


def elapsed(job: dict[str, str]) -> str:
    """How long it ran: [days-]HH:MM:SS."""
    if "RunTime" in job:
        return job["RunTime"]
    try:
        ran = datetime.fromisoformat(job["EndTime"]) - datetime.fromisoformat(job["StartTime"])
        seconds = max(0, int(ran.total_seconds()))
    except (KeyError, ValueError):  # cancelled before it began
        seconds = 0
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def value(job: dict[str, str], field: str) -> str:
    """One field of one job, spelled as sacct does."""
    if field == "elapsed":
        return elapsed(job)
    text = next((job[key] for key in FIELDS[field] if key in job), "")
    return text.split("(")[0] if field == "user" else text


def parser() -> argparse.ArgumentParser:
    """The options that this stand-in understands."""
    top = argparse.ArgumentParser(prog="sacct", description=__doc__)
    top.add_argument("-j", "--jobs", default="")
    top.add_argument("-o", "--format", default=USUAL)
    top.add_argument("-n", "--noheader", action="store_true")
    top.add_argument("-P", "-p", "--parsable2", "--parsable", action="store_true")
    top.add_argument("-X", "--allocations", action="store_true")
    top.add_argument("-s", "--state", default="")
    top.add_argument("--name", default="")
    return top


def main(arguments: list[str]) -> int:
    """Print the table; status 1 for a field that is unknown here."""
    options = parser().parse_args(arguments)
    fields = [name.split("%")[0].lower() for name in options.format.split(",") if name]
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        print(
            f"sacct: no field {unknown[0]}; this stand-in has {', '.join(FIELDS)}", file=sys.stderr
        )
        return 1
    numbers = {number.split(".")[0] for number in options.jobs.split(",") if number}
    rows = [
        [value(job, field) for field in fields]
        for job in jobs()
        if (not numbers or job["JobId"] in numbers)
        and (not options.state or value(job, "state") in options.state.upper().split(","))
        and (not options.name or value(job, "jobname") in options.name.split(","))
    ]
    heads = [TITLES.get(field, field.capitalize()) for field in fields]
    if options.parsable2:
        for row in rows if options.noheader else [heads, *rows]:
            print("|".join(row))
        return 0
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(fields))]
    table = rows if options.noheader else [heads, ["-" * width for width in widths], *rows]
    for row in table:
        print(" ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
