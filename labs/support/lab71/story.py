"""What a job's diary tells: which steps were lost, which samples were used, who was there."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Story(NamedTuple):
    """events: of all ranks, in order of time.
    ports: address and port of what listened in the job's network while a rank was alone.
    outside: the same of this machine's own network, seen from this process at that moment.
    known: a socket that this process had open there at that moment: a control, to be found in `outside`."""

    events: list[dict]
    ports: list[tuple[str, int]] = []
    outside: list[tuple[str, int]] = []
    known: tuple[str, int] | None = None

    def kept(self) -> list[dict]:
        """The events "step" that the final weights hold: none that was undone later."""
        steps: list[dict] = []
        for event in self.events:
            if event["event"] == "begins":
                steps = [step for step in steps if step["step"] <= event["step"]]
            elif event["event"] == "step":
                steps.append(event)
        return steps

    def losses(self) -> list[float]:
        """The loss of each step, once."""
        by_step = {event["step"]: event["loss"] for event in self.kept()}
        return [by_step[step] for step in sorted(by_step)]

    def sizes(self) -> list[int]:
        """How many ranks took part in each step."""
        by_step = {event["step"]: event["ranks"] for event in self.kept()}
        return [by_step[step] for step in sorted(by_step)]

    def samples(self) -> list[int]:
        """Samples used by steps so far: the sum after each step."""
        by_step = Counter()
        for event in self.kept():
            by_step[event["step"]] += len(event["used"])
        total, sums = 0, []
        for step in sorted(by_step):
            total += by_step[step]
            sums.append(total)
        return sums

    def used(self) -> Counter:
        """How often each sample is in the final weights."""
        return Counter(sample for event in self.kept() for sample in event["used"])

    def lost(self) -> list[int]:
        """Steps that were computed whole and undone, at each new beginning that undid some."""
        counts = []
        steps: set[int] = set()
        for event in self.events:
            if event["event"] == "begins":
                undone = {step for step in steps if step > event["step"]}
                if undone:
                    counts.append(len(undone))
                steps -= undone
            elif event["event"] == "step":
                steps.add(event["step"])
        return counts

    def processes(self) -> list[tuple[int, int]]:
        """(ranks of each meeting, processes in it that had taken no step before), in order."""
        meetings: list[dict] = []
        known: set[int] = set()
        for event in self.events:
            if event["event"] != "begins":
                continue
            fresh = event["pid"] not in known
            known.add(event["pid"])
            last = meetings[-1] if meetings else None
            if last and event["pid"] not in last["pids"] and len(last["pids"]) < last["ranks"]:
                last["pids"].add(event["pid"])
                last["fresh"] += fresh
            else:
                meetings.append({"ranks": event["ranks"], "pids": {event["pid"]}, "fresh": int(fresh)})
        return [(meeting["ranks"], meeting["fresh"]) for meeting in meetings]

    def first(self, name: str, after: float = 0.0) -> dict:
        """The first event of a name, after a time."""
        return next(event for event in self.events if event["event"] == name and event["time"] > after)
