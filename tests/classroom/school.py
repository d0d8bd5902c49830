"""A class for the tests of the board: learners whose files real checks have written.

Everybody is one user here, as in a hub that runs as one: JUPYTERHUB_USER tells them apart.
"""

from __future__ import annotations

import contextlib
import linecache
import os
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
    def learner(self, name: str, **variables: str) -> Iterator[None]:
        """As long as this is open, this process is that learner's, at the time `now`."""
        clock = mock.patch.object(time, "time", return_value=self.now)
        own = mock.patch.dict(os.environ, self.variables(name))
        with own, clock, contextlib.redirect_stdout(None):
            lab.reset_for_tests()
            os.environ.update(variables)
            yield

    def share(self, name: str, named: bool = True) -> None:
        """They agree, and begin lab 23."""
        with self.learner(name):
            journal.share(named=named)
            journal.note("start", lab=STEM)


class Desk(Visit):
    """Lab 23, solved or with one of its seeded mistakes, in this process and by its real checks.

    Its first two exercises try virtual ranks; of real ones there are none here.
    """

    def __init__(self, school: School):
        super().__init__(STEM)
        self.school = school
        self.by_number = {exercise.number: exercise for exercise in self.lab.exercises}
        self.names: dict[str, object] = {"__name__": "desk"}
        with school.learner("nobody", LABKIT_SOLVED="1"):
            end = self.by_number["23.1"].answers[0]
            for position in range(end):
                self.run(position, self.solved[position].source)

    def run(self, position: int, text: str) -> None:
        """Run that cell of the lab, if it is code; tracebacks and inspect find its lines."""
        if self.solved[position].kind == "code":
            name = f"<{STEM}, cell {position + 1}>"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), self.names)

    def mistake(self, number: str, words: str) -> Wrong:
        """The seeded mistake of an exercise that is described with these words."""
        return next(wrong for wrong in self.wrong if wrong.exercise == number and words in wrong.mistake)

    def attempt(self, name: str, number: str, wrong: Wrong | None = None) -> str:
        """A minute later that learner runs the check, on a mistake or the right answer; what it says."""
        self.school.now += 60
        exercise = self.by_number[number]
        answers = {position: self.solved[position].source for position in exercise.answers}
        texts = wrong.edited(answers) if wrong else {}
        with self.school.learner(name, LABKIT_LAB=STEM):
            try:
                for position in range(exercise.answers[0], exercise.check + 1):
                    self.run(position, texts.get(position, self.solved[position].source))
            except CheckFailed as error:
                return str(error)
        return ""

    def hint(self, name: str, number: str) -> None:
        """That learner reads the next hint."""
        with self.school.learner(name, LABKIT_LAB=STEM):
            hint(number)
