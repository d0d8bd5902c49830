"""A class for the tests of the board and for its picture: learners whose files real checks have written.

Everybody is one user here, as in a hub that runs as one: JUPYTERHUB_USER tells them apart.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from labkit import journal, lab
from labkit.checks import hint
from labkit.errors import CheckFailed

from tests.labs.visit import Visit
from tests.labs.wrong_answers import Wrong

STEM = "23_ring_allreduce"
NAMES = (
    "amina", "bjorn", "chiara", "dmitri", "elena", "farid", "grace", "hiro", "ines", "jonas", "kavya",
    "liam", "mei", "noor", "olga", "pavel", "quentin", "rosa", "samir", "tove", "uma", "victor",
    "wanda", "xavier", "yara", "zoltan", "adele", "boris", "carla", "diego", "esther", "felix", "gita",
    "hugo", "irene", "jamal", "kira", "lars", "mona", "nils",
)  # fmt: skip


AWAY = (34, 35)  # of them: nothing since the day before


class School:
    """A class folder, and a folder of their own for each learner; `now` is the time of all that they do."""

    def __init__(self, folder: Path, start: float):
        self.homes = folder / "homes"
        self.shared = folder / "class"
        self.shared.mkdir(parents=True, mode=0o700)
        self.now = start

    def variables(self, name: str) -> dict[str, str]:
        """The environment of that learner."""
        home = self.homes / name
        home.mkdir(parents=True, exist_ok=True)
        return {"LABKIT_HOME": str(home), "LABKIT_CLASS": str(self.shared), "JUPYTERHUB_USER": name}

    @contextlib.contextmanager
    def learner(self, name: str) -> Iterator[None]:
        """As long as this is open, this process is that learner's, at the time `now`."""
        clock = mock.patch.object(time, "time", return_value=self.now)
        with mock.patch.dict(os.environ, self.variables(name)), clock, contextlib.redirect_stdout(None):
            lab.reset_for_tests()
            yield

    def share(self, name: str, named: bool = True) -> None:
        """They agree."""
        with self.learner(name):
            journal.share(named=named)


class Desk(Visit):
    """Lab 23, solved or with one of its seeded mistakes, in this process and by its real checks.

    Its first two exercises try virtual ranks; of real ones there are none here, for there are forty learners.
    """

    def __init__(self, school: School):
        super().__init__(STEM)
        self.school = school
        self.by_number = {exercise.number: exercise for exercise in self.lab.exercises}
        self.names: dict[str, object] = {"__name__": "desk"}
        with school.learner("nobody"), mock.patch.dict(os.environ, {"LABKIT_SOLVED": "1"}):
            end = self.by_number["23.1"].answers[0]
            for position in range(end):
                self.run(position, self.solved[position].source)

    def run(self, position: int, text: str) -> None:
        """Run that cell of the lab, if it is code; tracebacks and inspect find its lines."""
        if self.solved[position].kind == "code":
            name = f"<{STEM}, cell {position + 1}>"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), self.names)

    def mistakes(self, number: str) -> list[Wrong]:
        """The seeded mistakes of an exercise that end at once."""
        return [wrong for wrong in self.wrong if wrong.exercise == number and not wrong.hangs]

    def attempt(self, name: str, number: str, wrong: Wrong | None, minutes: float) -> str:
        """`minutes` later that learner runs the check, on a mistake or the right answer; what it says."""
        self.school.now += 60 * minutes
        exercise = self.by_number[number]
        answers = {position: self.solved[position].source for position in exercise.answers}
        texts = wrong.edited(answers) if wrong else {}
        with self.school.learner(name), mock.patch.dict(os.environ, {"LABKIT_LAB": STEM}):
            try:
                for position in range(exercise.answers[0], exercise.check + 1):
                    self.run(position, texts.get(position, self.solved[position].source))
            except CheckFailed as error:
                return str(error)
        return ""

    def hint(self, name: str, number: str) -> None:
        """That learner reads the next hint."""
        with self.school.learner(name), mock.patch.dict(os.environ, {"LABKIT_LAB": STEM}):
            hint(number)

    def begin(self, name: str, stem: str = STEM) -> None:
        """That learner runs the first cell of a lab."""
        with self.school.learner(name):
            journal.note("start", lab=stem)


def forty(school: School, desk: Desk, seed: int = 23) -> None:
    """Forty learners at lab 23: 38 agree, 6 of them without a name.

    16 are stuck at its first exercise, most of them by one mistake, 5 at its second; 2 are away.
    """
    draw = random.Random(seed)
    gather = next(wrong for wrong in desk.mistakes("23.2") if wrong.mistake.startswith("adds in"))
    begun = school.now
    scatter = desk.mistakes("23.1")
    most = next(wrong for wrong in scatter if wrong.mistake.startswith("adds to a copy"))
    for place, name in enumerate(NAMES):
        if place < 38:
            school.share(name, named=place % 6 != 5)
        school.now = begun + 60 * draw.uniform(0, 4) - (86_400 if place in AWAY else 0)
        desk.begin(name, "30_average_gradients" if place >= 36 else STEM)
        if place < 16:  # stuck, most of them by one mistake
            mistakes = [most] * draw.randint(3, 5) if place < 12 else draw.choices(scatter, k=4)
            for wrong in mistakes:
                desk.attempt(name, "23.1", wrong, draw.uniform(1, 3))
            for _ in range(draw.randint(0, 2)):
                desk.hint(name, "23.1")
        elif place < 22:  # at work on it
            desk.attempt(name, "23.1", draw.choice(scatter), draw.uniform(6, 12))
        elif place < 34:  # past it, some of them stuck at the next
            desk.attempt(name, "23.1", draw.choice(scatter), draw.uniform(1, 3))
            desk.attempt(name, "23.1", None, draw.uniform(2, 4))
            for _ in range(3 if place < 27 else draw.randint(0, 1)):
                desk.attempt(name, "23.2", gather, draw.uniform(1, 3))
    school.now = begun + 60 * 19
