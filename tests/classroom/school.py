"""A class for the tests of the board: learners whose files checks and hints have written.

Everybody is one user here, as in a hub that runs as one: JUPYTERHUB_USER tells them apart.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from labkit import expect, journal, lab
from labkit.checks import hint
from labkit.errors import CheckFailed

from tests.labkit.checks.tried import tried

STEM = "23_ring_allreduce"


class School:
    """A class folder, and a folder of their own for each learner; `now` is the time of all that
    they do."""

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

    def attempt(self, name: str, number: str, said: str = "") -> str:
        """A minute later that learner runs a check, which says this of their answer; what they
        read."""
        self.now += 60
        with self.learner(name, LABKIT_LAB=STEM):
            try:
                tried(number, lambda: expect(not said, said))
            except CheckFailed as error:
                return str(error)
        return ""

    def hint(self, name: str, number: str) -> None:
        """That learner reads the next hint."""
        with self.learner(name, LABKIT_LAB=STEM):
            hint(number)
