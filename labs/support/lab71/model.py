"""One rank of an elastic job, played in this process: what its state goes through, call by call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

# Horovod's own HorovodInternalError is a RuntimeError, and so is what PyTorch says of shapes that do not fit.
MISTAKES = {
    "ValueError": ValueError("a mistake in train"),
    "RuntimeError": RuntimeError("a mistake in train"),
}


class Case(NamedTuple):
    """What happens to the rank. rounds: (steps, end) of each call of train, where `end` is "returns", "rank
    lost", "hosts updated", "ValueError" or "RuntimeError", and "sync" for a rank that is lost while the state
    is sent.
    joined: the step at which a new rank finds the others; None for a rank of the first hour.
    begins: the step at which each call of train has to begin."""

    words: str
    rounds: tuple
    joined: int | None
    begins: tuple


CASES = (
    Case("nothing happens", ((5, "returns"),), None, (0,)),
    Case("a rank is lost", ((4, "rank lost"), (9, "returns")), None, (0, 3)),
    Case("a node comes", ((4, "hosts updated"), (9, "returns")), None, (0, 4)),
    Case("this rank is new", ((2, "returns"),), 12, (12,)),
    Case(
        "two ranks are lost, and a node comes",
        ((4, "rank lost"), (2, "rank lost"), (2, "hosts updated"), (1, "returns")),
        None,
        (0, 3, 3, 5),
    ),
    Case(
        "a rank is lost, and another while the state is sent",
        ((4, "rank lost"), (0, "sync"), (1, "returns")),
        None,
        (0, 3),
    ),
    Case("there is a mistake in train", ((1, "ValueError"),), None, (0,)),
    Case("train has a mistake that PyTorch finds", ((1, "RuntimeError"),), None, (0,)),
)


class Call(NamedTuple):
    """A call of train: the step it begins at, the steps in the weights, and what came before. orderly: there
    was a save or a restore between the interruption and the meeting."""

    step: int
    weights: int
    met: bool
    synced: bool
    orderly: bool


class Attempt(NamedTuple):
    """result: what run_elastic returned; error: what it raised; by: what raised last before, "train", "sync"
    or "commit"; endless: train was called again after it had returned."""

    calls: list[Call]
    result: object
    error: Exception | None
    by: str
    endless: bool

    def came_out(self) -> str:
        """What run_elastic raised, in a sentence."""
        what = "Nothing" if self.error is None else type(self.error).__name__
        return f"{what} came out of run_elastic."

    def advice(self) -> str:
        """What to do about an error that had to be caught."""
        advice = {
            "train": "`train` raised it: catch both exceptions, each in its own `except`.",
            "sync": "`sync` raised it: a rank may die there, too, so it belongs inside of `try`.",
            "commit": "`commit` also asks for newcomers again, and raises uncaught: `save` only saves.",
        }
        return advice.get(self.by, "")


class Endless(BaseException):
    """The loop goes on although train has returned."""


class _State:
    """Steps as numbers: `step` is what the state says, `weights` what the net has really done."""

    def __init__(self, game: _Game, joined: int | None):
        self.game, self.joined = game, joined
        self.step = self.weights = self.saved = 0

    def save(self) -> None:
        self.saved = self.step
        self.game.orderly = True

    def restore(self) -> None:
        self.step = self.weights = self.saved
        self.game.orderly = True

    def check_host_updates(self) -> None:
        """By the learner's loop, not by train: by then one node more has come."""
        self.game.interrupt("hosts updated", "commit")

    def commit(self) -> None:
        self.save()
        self.check_host_updates()

    def sync(self) -> None:
        if self.joined is not None:
            self.weights = self.saved = self.joined
            self.joined = None
        self.step = self.saved  # as Horovod: the net as it is, numbers as they were saved
        self.game.synced = True
        if self.game.left and self.game.left[0][1] == "sync":
            self.game.left.pop(0)
            self.game.interrupt("rank lost", "sync")


class _Game:
    """The rounds of a case, one after the other."""

    def __init__(self, case: Case, lost: type[Exception], updated: type[Exception]):
        self.left = list(case.rounds)
        self.errors = {"rank lost": lost("a message failed"), "hosts updated": updated(False), **MISTAKES}
        self.calls: list[Call] = []
        self.met = True
        self.synced = False
        self.orderly = self.met_orderly = True
        self.by = ""
        self.returned = False

    def interrupt(self, end: str, by: str) -> None:
        self.met = self.synced = self.orderly = False
        self.by = by
        raise self.errors[end]

    def train(self, state: _State) -> str:
        if self.returned:
            raise Endless
        self.calls.append(Call(state.step, state.weights, self.met, self.synced, self.met_orderly))
        steps, end = self.left.pop(0) if self.left else (0, "returns")
        for _ in range(steps):
            state.step += 1
            state.weights += 1
            if state.step % 3 == 0:
                state.save()
        if end == "rank lost":
            state.weights += 0.5  # it is lost in the middle of a step
        if end != "returns":
            self.interrupt(end, "train")
        self.returned = True
        return "done"

    def meet(self) -> None:
        self.met_orderly = self.orderly
        self.met = True
        self.synced = False


def try_loop(run_elastic: Callable, case: Case) -> Attempt:
    """run_elastic(train, state, meet) in this process. Errors that are no part of the case are raised."""
    from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

    game = _Game(case, HorovodInternalError, HostsUpdatedInterrupt)
    result = error = None
    endless = False
    try:
        result = run_elastic(game.train, _State(game, case.joined), game.meet)
    except (ValueError, RuntimeError) as raised:
        kinds = [type(one) for one in game.errors.values()]
        if not game.by or type(raised) not in kinds:
            raise
        error = raised
    except Endless:
        endless = True
    return Attempt(game.calls, result, error, game.by, endless)
