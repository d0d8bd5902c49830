"""A class at a glance: what the board shows, as text or as a page."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from labkit import paths
from labkit.errors import counted

from classroom import curriculum, learner, reader, sources
from classroom.curriculum import Lab
from classroom.learner import AWAY_STATE, STATES, STUCK, Learner, Work

_NUMBER = re.compile(r"-?\d[\d.,e+\-]*")
_LONGEST_NAME = 60  # characters


@dataclass(frozen=True)
class Place:
    """An exercise at which somebody is: how many, how many of them stuck, and what its check says
    most.

    told: how many learners of those here were told `said`. half: is it among the places that
    together hold half of all who are stuck?
    """

    number: str
    title: str
    lab: str
    here: int
    stuck: int
    said: str
    told: int
    half: bool


@dataclass(frozen=True)
class LabRow:
    """One lab: how many began it, finished it, and are in it now; tries for each exercise
    solved."""

    name: str
    began: int
    finished: int
    here: int
    tries: float


@dataclass(frozen=True)
class Classroom:
    """What the board shows. headline: the one sentence to read. notes: what could not be read."""

    headline: str
    places: list[Place]
    learners: list[Learner]
    labs: list[LabRow]
    titles: dict[str, str]
    notes: list[str]
    hidden: bool
    when: str

    def count(self, state: str) -> int:
        """How many learners are in that state."""
        return sum(learner.state == state for learner in self.learners)


def look(
    folder: Path | None = None, hide_names: bool = False, now: float | None = None
) -> Classroom:
    """The class of a class folder; None: of the one that LABKIT_CLASS names.

    hide_names: show the pseudonym of everybody, also of those who gave their name. now: seconds
    since 1970. Raises LabError where the folder cannot be read.
    """
    moment = time.time() if now is None else now
    labs = curriculum.read(paths.root())
    notes: dict[str, str] = {}  # whose entries -> one sentence about them
    learners = []
    for found in sources.read(folder, labs, moment):
        if isinstance(found, sources.Problem):
            name = "One learner" if hide_names else reader.printable(found.name, _LONGEST_NAME)
            notes.setdefault(found.name, f"{name} {found.sentence}.")
            continue
        shared = found.shared
        login = reader.printable(found.name, _LONGEST_NAME)
        name = login if shared.named and not hide_names else shared.pseudonym
        if shared.skipped:
            lines = counted(shared.skipped, "line")
            notes[found.name] = f"{name}: {lines} of the shared file could not be read."
        someone = learner.follow(name, shared.events, labs, moment)
        if someone is None:
            notes[found.name] = f"{name} agreed, and has not begun a lab since."
            continue
        if name == shared.pseudonym:
            _without_login(someone, found.name)
        learners.append(someone)
    for name, times in Counter(someone.name for someone in learners).items():
        if times > 1:
            notes[name] = f"{times} learners call themselves {name}: somebody may have copied it."
    learners.sort(
        key=lambda someone: (STATES.index(someone.state), -someone.here.failures, someone.name)
    )
    places = _places(learners, labs)
    return Classroom(
        headline=_headline(learners, places),
        places=places,
        learners=learners,
        labs=_lab_rows(learners, labs),
        titles={number: title for lab in labs.values() for number, title in lab.exercises.items()},
        notes=list(notes.values()),
        hidden=hide_names,
        when=datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
    )


def _without_login(someone: Learner, login: str) -> None:
    """A sentence may hold the login, of a path for example; whoever is shown by a pseudonym is not
    named."""
    own = re.compile(rf"(?<!\w){re.escape(login)}(?!\w)", re.IGNORECASE)
    someone.said = own.sub("…", someone.said)
    for work in someone.works.values():
        work.said = Counter(
            {own.sub("…", sentence): times for sentence, times in work.said.items()}
        )


def commonest(works: Iterable[Work]) -> tuple[str, int]:
    """(the sentence that most of these learners were told, how many); ("", 0) where none was told
    any.

    Sentences that differ in numbers alone are one: "expected 3, got 2" and "expected 5, got 1".
    That nothing is written yet counts only where nothing else was said.
    """
    learners: Counter = Counter()
    wordings: dict[str, Counter] = {}
    for work in works:
        for key in {_NUMBER.sub("#", sentence) for sentence in work.said if sentence}:
            learners[key] += 1
        for sentence, times in work.said.items():
            wordings.setdefault(_NUMBER.sub("#", sentence), Counter())[sentence] += times
    real = {
        key: count for key, count in learners.items() if not learner.is_unsolved(key)
    } or learners
    if not real:
        return "", 0
    key = min(real, key=lambda text: (-real[text], text))
    return min(wordings[key], key=lambda text: (-wordings[key][text], text)), real[key]


def _places(learners: list[Learner], labs: dict[str, Lab]) -> list[Place]:
    """Where people are, most stuck first."""
    groups: dict[str, list[Learner]] = {}
    for someone in learners:
        if someone.exercise and someone.state != AWAY_STATE:
            groups.setdefault(someone.exercise, []).append(someone)
    ordered = sorted(
        groups, key=lambda number: (-_stuck(groups[number]), -len(groups[number]), number)
    )
    every = sum(_stuck(group) for group in groups.values())
    places, before = [], 0
    for number in ordered:
        group = groups[number]
        lab = labs[group[0].stem]
        said, told = commonest(someone.here for someone in group)
        stuck = _stuck(group)
        half = stuck > 0 and before < every / 2
        places.append(
            Place(number, lab.exercises[number], lab.name, len(group), stuck, said, told, half)
        )
        before += stuck
    return places


def _stuck(group: list[Learner]) -> int:
    return sum(someone.state == STUCK for someone in group)


def _lab_rows(learners: list[Learner], labs: dict[str, Lab]) -> list[LabRow]:
    """The labs that somebody began, in order."""
    rows = []
    for stem, lab in labs.items():
        works = [
            [someone.works.get(number, Work()) for number in lab.exercises] for someone in learners
        ]
        here = sum(someone.stem == stem and someone.state != AWAY_STATE for someone in learners)
        began = sum(
            someone.stem == stem or any(work.tries or work.passed for work in own)
            for someone, own in zip(learners, works, strict=True)
        )
        finished = sum(bool(own) and all(work.passed for work in own) for own in works)
        solved = [work.tries for own in works for work in own if work.passed]
        if began:
            rows.append(LabRow(lab.name, began, finished, here, sum(solved) / max(1, len(solved))))
    return rows


def _headline(learners: list[Learner], places: list[Place]) -> str:
    """Where half the class is stuck, in a sentence."""
    at_work = sum(someone.state != AWAY_STATE for someone in learners)
    stuck = sum(place.stuck for place in places)
    if not learners:
        return "Nobody shares their progress yet: `make share` in a learner's terminal does."
    if not at_work:
        return "Nobody has done anything for half an hour."
    if not stuck:
        most = f" Most are at {places[0].number}, {places[0].title}." if places else ""
        return f"Nobody of {at_work} is stuck.{most}"
    named = [place for place in places if place.stuck][:3]
    where = [f"{place.stuck} at {place.number}" for place in named]
    where[0] += f", {named[0].title}"
    elsewhere = stuck - sum(place.stuck for place in named)
    if elsewhere:
        where.append(f"{elsewhere} elsewhere")
    return f"{stuck} of {at_work} {'is' if stuck == 1 else 'are'} stuck: {'; '.join(where)}."
