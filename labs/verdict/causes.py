"""Why a link may be slower than it should be, the likeliest cause first: the table is
causes.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from verdict.judge import Verdict


def likeliest(verdict: Verdict, count: int = 3) -> list[str]:
    """The sentences of the likeliest causes of a slow verdict, in order."""
    hold = verdict.reading.facts | _looks(verdict)
    scores = {}
    for cause in _causes():
        if cause["where"] in _places(verdict):
            signs = hold & cause["signs"].keys()
            scores[cause["says"]] = cause["weight"] + sum(cause["signs"][sign] for sign in signs)
    return sorted((says for says, score in scores.items() if score > 0), key=lambda s: -scores[s])[
        :count
    ]


def _places(verdict: Verdict) -> tuple[str, ...]:
    if verdict.expectation.bound == float("inf"):
        return ("any", "between", "host")
    if verdict.hardware.nodes > 1:
        return ("any", "between")
    by_gpu = verdict.reading.tool.startswith("nccl") or "gpu" in verdict.reading.facts
    return ("any", "inside" if by_gpu else "host")


def _looks(verdict: Verdict) -> set[str]:
    """What the numbers look like."""
    ratio, found, hardware = verdict.ratio, verdict.expectation, verdict.hardware
    measured = verdict.measured or 0.0
    rates = [row.size / row.seconds for row in verdict.reading.rows if row.size >= 1 << 16]
    by_card = hardware.nodes > 1 and hardware.cards > 1 and verdict.measured
    used = measured / hardware.card.reached if by_card else 0.0
    looks = {
        "a quarter": ratio < 0.25,
        "half": 0.35 < ratio < 0.65,
        "nearly": ratio > 0.65,
        "NVLink": found.bound > 40e9,
        "few links": verdict.fits_few_links,
        "like PCIe": found.reached > 60e9 and 0 < measured < 30e9,
        "both ways": "typed" in found.source and found.bound > 300e9 and ratio < 0.65,
        "several cards": by_card,
        "few cards": 0.5 < used < hardware.cards - 0.5 and abs(used - round(used)) < 0.12 * used,
        "many nodes": hardware.nodes > 2,
        "falls": len(rates) > 2 and rates[-1] < 0.6 * max(rates),
        "rising": any("still rises" in doubt for doubt in verdict.doubts),
        "slow start": verdict.measured is None,
    }
    return {name for name, holds in looks.items() if holds}


@cache
def _causes() -> list[dict]:
    text = Path(__file__).with_name("causes.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)
