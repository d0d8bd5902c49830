"""The board of a class whose files checks have written: in a process, and in many at once."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import classroom
import pytest
from labkit import expect, hint, journal, lab
from labkit.errors import CheckFailed

from tests.helpers import until
from tests.labkit.checks.tried import tried

STEM = "23_ring_allreduce"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _no_class(monkeypatch):
    monkeypatch.delenv("LABKIT_CLASS", raising=False)


class School:
    """A class folder, and a folder of their own for each learner; `now` is the time of all that
    they do.

    Everybody is one user here, as in a hub that runs as one: JUPYTERHUB_USER tells them apart.
    """

    def __init__(self, folder: Path, start: float):
        self.homes = folder / "homes"
        self.shared = folder / "class"
        self.shared.mkdir(mode=0o700)
        self.now = start

    def variables(self, name: str) -> dict[str, str]:
        """The environment of that learner."""
        home = self.homes / name
        home.mkdir(parents=True, exist_ok=True)
        return {"LABKIT_HOME": str(home), "LABKIT_CLASS": str(self.shared), "JUPYTERHUB_USER": name}

    @contextlib.contextmanager
    def learner(self, name: str) -> Iterator[None]:
        """As long as this is open, this process is that learner's, in the lab, at the time `now`."""
        clock = mock.patch.object(time, "time", return_value=self.now)
        own = mock.patch.dict(os.environ, self.variables(name))
        with own, clock, contextlib.redirect_stdout(None):
            lab.reset_for_tests()
            os.environ["LABKIT_LAB"] = STEM
            yield

    def share(self, name: str, named: bool = True) -> None:
        """They agree, and begin the lab."""
        with self.learner(name):
            journal.share(named=named)
            journal.note("start", lab=STEM)

    def attempt(self, name: str, number: str, said: str = "") -> str:
        """A minute later that learner runs a check, which says this of their answer; what they
        read."""
        self.now += 60
        with self.learner(name):
            try:
                tried(number, lambda: expect(not said, said))
            except CheckFailed as error:
                return str(error)
        return ""


def test_what_checks_tell_a_class_is_what_the_board_shows(tmp_path):
    made = School(tmp_path, time.time() - 20 * 60)
    copy = "On rank 2, chunk rank + 1 is wrong: expected 6, got 3."
    for name in ("ada", "bob", "cleo"):
        made.share(name, named=name != "cleo")
    for name in ("ada", "cleo", "dora") * 3:
        told = made.attempt(name, "23.1", copy)
    with made.learner("cleo"):
        hint("23.1")
    made.attempt("bob", "23.1")
    made.attempt("bob", "23.2", "The chunk is added in twice.")
    seen = classroom.look(made.shared, now=made.now)
    assert seen.headline == "2 of 3 are stuck: 2 at 23.1, Reduce-scatter around a ring."
    places = [(place.number, place.here, place.told, place.half) for place in seen.places]
    assert places == [("23.1", 2, 2, True), ("23.2", 1, 1, False)]
    assert seen.places[0].said in told
    learners = {someone.name: someone for someone in seen.learners}
    (hidden,) = set(learners) - {"ada", "bob"}
    assert journal.PSEUDONYM.fullmatch(hidden), "and dora did not agree"
    assert (learners[hidden].here.tries, learners[hidden].here.hints) == (3, 1)
    assert (learners["bob"].solved, learners["bob"].here.tries) == (1, 1)
    assert seen.notes == []
    text = classroom.as_page(classroom.look(made.shared, hide_names=True, now=made.now))
    assert not re.search(r"\b(ada|bob|cleo|dora)\b", text)
    with made.learner("ada"):
        journal.unshare()
    left = classroom.look(made.shared, now=made.now).learners
    assert "ada" not in [someone.name for someone in left]


WORK = """
import sys
from labkit import expect, lab
from labkit.errors import CheckFailed
from tests.labkit.checks.tried import tried
lab.start("23_ring_allreduce")
for count in range(int(sys.argv[1])):
    try:
        tried("23.1", lambda: expect(False, f"Chunk {count} is wrong."))
    except CheckFailed:
        pass
"""


def test_the_board_reads_while_many_write_and_one_is_killed(tmp_path):
    made = School(tmp_path, time.time())
    work = []
    for name, count in (("ada", 15), ("ada", 15), ("bob", 10**9)):
        made.share(name)
        env = {**os.environ, **made.variables(name)}
        command = [sys.executable, "-c", WORK, str(count)]
        work.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL))
    *whole, killed = work
    looks = 0
    while any(process.poll() is None for process in whole) or looks < 3:
        notes = classroom.look(made.shared).notes
        assert not [note for note in notes if "could not be read" in note], "a line is there or not"
        looks += 1
        time.sleep(0.05)

    def bobs_tries():
        learners = classroom.look(made.shared).learners
        return sum(one.here.tries for one in learners if one.name == "bob")

    assert until(lambda: bobs_tries() > 3)
    killed.kill()
    killed.wait()
    assert [process.returncode for process in whole] == [0, 0]
    learners = {someone.name: someone for someone in classroom.look(made.shared).learners}
    ada, bob = (learners[name] for name in ("ada", "bob"))
    counts = (ada.here.tries, ada.here.failures)
    assert counts == (30, 30), "two notebooks of one learner lose nothing"
    assert (bob.state, bob.here.tries > 3) == ("stuck", True)
