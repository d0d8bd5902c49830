"""Where one learner is: lab, exercise, since when, and whether they are stuck there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from classroom.curriculum import Lab
from classroom.reader import Event

# A learner is stuck at an exercise who failed this often there, or is there for so many times its
# share of the lab's stated minutes; and away who showed no sign of life for so many minutes.
FAILURES = 3
SHARES = 2.0
AWAY = 30.0
_UNSOLVED = "not solved yet"

STATES = STUCK, WORKING, FINISHED, AWAY_STATE = "stuck", "working", "finished", "away"


@dataclass
class Work:
    """One learner at one exercise. failures: since it last passed. said: sentence -> how often a
    check said it."""

    tries: int = 0
    hints: int = 0
    passed: bool = False
    failures: int = 0
    said: Counter = field(default_factory=Counter)


@dataclass
class Learner:
    """One learner, as the board shows them.

    exercise: "" where all of the lab is solved. minutes: at it, without pauses; quiet: since they
    last did anything. said: what its check said last, "" if it did not fail. state: stuck, working,
    away or finished. works: exercise -> Work.
    """

    name: str
    stem: str
    exercise: str
    minutes: float
    quiet: float
    state: str
    said: str
    works: dict[str, Work]

    @property
    def here(self) -> Work:
        """Their work at the exercise at which they are."""
        return self.works.get(self.exercise, Work())

    @property
    def solved(self) -> int:
        """Exercises that they have solved, of all labs."""
        return sum(work.passed for work in self.works.values())

    @property
    def state_in_words(self) -> str:
        """ "stuck", or "away 45 min"."""
        if self.state != AWAY_STATE:
            return self.state
        return f"away {self.quiet:.0f} min" if self.quiet < 120 else f"away {self.quiet / 60:.0f} h"


def follow(
    name: str, events: tuple[Event, ...], labs: dict[str, Lab], now: float
) -> Learner | None:
    """The learner after these events; None where there are none that say where they are.

    now: seconds since 1970.
    """
    works: dict[str, Work] = {}
    place = ("", "")
    last = worked = 0.0
    said = ""
    for event in events:
        if event.exercise:
            _count(works.setdefault(event.exercise, Work()), event)
        there = _place(event, place, labs, works)
        worked += _at_work(event.at - last)
        last = max(last, event.at)
        if there != place:
            place = there
            worked = 0.0
            said = ""
        if event.kind == "failed" and event.exercise == place[1]:
            said = event.said
    stem, exercise = place
    if not stem:
        return None
    worked += _at_work(now - last)
    learner = Learner(name, stem, exercise, worked / 60, (now - last) / 60, WORKING, said, works)
    learner.state = _state(learner, labs[stem])
    return learner


def _at_work(seconds: float) -> float:
    """A gap between two signs of life; 0 where the learner was away."""
    return seconds if 0 < seconds <= AWAY * 60 else 0.0


def _count(work: Work, event: Event) -> None:
    work.tries = max(work.tries, event.tries)
    work.hints = max(work.hints, event.hints)
    work.passed = work.passed or event.passed
    if event.passed:
        work.failures = 0
    if event.kind == "failed":
        work.said[event.said] += 1
        work.failures += not is_unsolved(event.said)


def is_unsolved(sentence: str) -> bool:
    """Does it say that nothing is written yet? All cells run at once say that, and nobody is stuck
    for it."""
    return sentence.startswith(_UNSOLVED)


def _place(
    event: Event, before: tuple[str, str], labs: dict[str, Lab], works: dict[str, Work]
) -> tuple[str, str]:
    """(stem, exercise) where a learner is after an event: the exercise tried, or the next one not
    solved."""
    if event.kind in ("failed", "hint"):
        unsolved_here = before[0] == event.stem and before[1] not in ("", event.exercise)
        if event.kind == "failed" and is_unsolved(event.said) and unsolved_here:
            return before  # all cells were run: they are still at the first one
        return event.stem, event.exercise
    if event.kind == "start" and before[0] == event.stem and before[1]:
        return before  # a kernel that was started again
    numbers = list(labs[event.stem].exercises)
    first = numbers.index(event.exercise) + 1 if event.exercise else 0
    in_turn = numbers[first:] + numbers[:first]
    open_ones = [number for number in in_turn if number not in works or not works[number].passed]
    return event.stem, open_ones[0] if open_ones else ""


def _state(learner: Learner, lab: Lab) -> str:
    if learner.quiet > AWAY:
        return AWAY_STATE
    if not learner.exercise:
        return FINISHED
    slow = learner.minutes > SHARES * lab.share
    return STUCK if slow or learner.here.failures >= FAILURES else WORKING
