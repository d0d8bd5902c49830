"""A small study on record, and a report about it that is right; tests change one thing of
either."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from labkit import record
from support.lab80 import records

NAME = "2026-11-23 08:00:00 virtual"
TIMES = {"strong": {1: 0.8, 2: 0.44, 4: 0.25}, "weak": {1: 0.8, 2: 0.84, 4: 0.86}}
COMMON = {
    "lab": records.LAB, "unit": "s", "host": "tester", "cpu": "A Processor", "cores": 2,
    "device": "virtual", "staged": "no", "library": "virtual", "python": "3.11.7",
    "torch": "2.13.0+cpu", "job": None, "site": None, "revision": "0123456789ab", "changed": False,
    "study": NAME, "where": "virtual", "machine": "roce25_p100", "net": "resnet101",
}  # fmt: skip
SETUP = {
    "result": "study", "question": "Up to how many ranks does it pay?", "enough": 0.7, "images": 64,
    "epoch": 1281167, "rounds": 2, "method": "Simulated.", "command": "make run LAB=80 NP=1",
}  # fmt: skip
CITATION = {
    "result": "published", "name": "kurth", "value": 90.7, "unit": "%",
    "source": "Kurth and others, SC18",
}  # fmt: skip


def entries() -> list[dict]:
    """The records, oldest first: setup, predictions, a citation, six measured steps."""
    made = [SETUP]
    for kind, times in TIMES.items():
        made += [
            {"result": "prediction", "kind": kind, "ranks": ranks, "predicted": 0.95 * seconds}
            for ranks, seconds in times.items()
        ]
    made.append(CITATION)
    for kind, times in TIMES.items():
        made += [run(kind, ranks, seconds) for ranks, seconds in times.items()]
    return [
        {**COMMON, "utc": f"2026-11-23T08:00:{second:02d}.000+00:00", **fields}
        for second, fields in enumerate(made)
    ]


def run(kind: str, ranks: int, seconds: float) -> dict:
    """A measured step: three samples about `seconds`, and its parts."""
    return {
        "result": kind, "ranks": ranks, "nodes": -(-ranks // 4),
        "images": 64 if kind == "strong" else 64 * ranks,
        "seconds": seconds, "seconds_q1": 0.95 * seconds, "seconds_q3": 1.05 * seconds,
        "seconds_runs": 3, "seconds_steady": True,
        "samples": [0.9 * seconds, seconds, 1.1 * seconds],
        "compute": 0.7 * seconds, "wait": 0.1 * seconds, "communicate": 0.2 * seconds,
        "joules": None, "meter": None, "no_meter": "virtual ranks have no meter",
    }  # fmt: skip


def put(lines: list[dict], file: Path | None = None) -> Path:
    """Write records into the learner's file."""
    file = file or record.path(records.LAB)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def study(change: Callable[[list[dict]], object] | None = None) -> records.Study:
    """The study, after `change` of its records."""
    lines = entries()
    if change:
        change(lines)
    put(lines)
    return records.load()


def measured(lines: list[dict], kind: str, ranks: int) -> dict:
    """The record of a measured step."""
    (line,) = [line for line in lines if line["result"] == kind and line["ranks"] == ranks]
    return line


REPORT = f"""---
study: {NAME}
---

# A study of ResNet-101

## Question

{{question}} It pays from an efficiency of {{enough}} on; whoever asks for nodes has to know it.

## Prediction

By a model of computing and a ring it pays up to {{predicted_answer_strong}};
nobody is late in it.

## Method

{{method}} Everything was run in turns, on 1, 2 and 4 ranks, 64 images for the job or for each rank.

## Strong scaling

It pays up to {{answer_strong}}: a step on 4 ranks takes {{time_strong_4}}, and that is
{{speedup_strong_4}} as fast.

{{table_strong}}

## Weak scaling

With equal work for each rank the efficiency is still {{efficiency_weak_most}} at the largest number of them.

{{plot_weak}}

## Where the time goes

Of a step {{communicate_strong_most}} is sending, and {{wait_strong_most}} is waiting for the last to come.

{{table_parts}}

## Prediction against measurement

The prediction is off by {{error_strong_most}}, since nobody waits for anybody in the model of lab 80.

## Reference

{{reference}} Kurth and others had {{published_kurth}} ({{source_kurth}}), on another machine
with another net, so that only the order compares.

## Cost

An epoch takes {{node_hours_strong_most}} on {{ranks_most}}; the cheapest is {{cheapest_strong}}, and we would
take it while nobody waits. {{energy}}

{{table_cost}}

## Limits

Only one net and one batch were looked at; nothing overlaps, and the jitter is an assumption of ours.
"""
