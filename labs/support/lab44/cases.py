"""What the checks of lab 44 try, made up: tensors, steps, timelines, with right answers and reasons."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from labkit.errors import CheckFailed, LabError

from support.lab44.timeline import Line, Tensor, story

MOST_CALLS = 2000  # after which a loop over five tensors cannot be about to end

# Tensors that are ready, the largest sum of bytes that may travel together, what does, and why.
FUSED = (
    ("a:40 b:40 c:40", 80, "a b|c", "80 bytes are within 80, 120 are not."),
    ("a:40 b:40 c:40", 79, "a|b|c", "No two are within 79."),
    ("a:40 b:40 c:40", 120, "a b c", "All three are within 120."),
    ("a:40 b:40 c:40", 0, "a|b|c", "The first always travels, even if it alone is above the limit."),
    ("a:200 b:8 c:8", 100, "a|b c", "The first always travels, even if it alone is above the limit."),
    ("a:60 b:50 c:30", 100, "a|b c", "60 and 50 skipped are above 100: a's message is closed before c."),
    ("a:40 b:40:float64 c:40 d:40:float64", 100, "a c|b d", "b has another type: skip it, and look further."),
    ("a:40 b:40:float64 c:40", 80, "a c|b", "40 and 40 skipped are within 80: look further."),
    ("a:40 b:80:float64 c:40", 100, "a|b|c", "40 and 80 skipped are above 100: closed before c."),
    ("a:20 b:20:float64 c:20 d:20:float64 e:20", 200, "a c e|b d", "Two are skipped, all within 200."),
    ("a:30 b:30:float64 c:30 d:30", 90, "a c d|b", "b is skipped: 30 and 30, then 60 and 30, are within 90."),
    (
        "a:30 b:30:float64 c:30 d:1:float64 e:30",
        90,
        "a c|b d|e",
        "60 and all that was skipped, 31, are above 90: closed before e.",
    ),
    ("a:8", 100, "a", "One tensor is one message."),
    ("", 100, "", "Nothing is ready: no message."),
)


class Step(NamedTuple):
    """A step whose time is known.

    gradients: "name:bytes:ready at [s]" each. limit: bytes. cycle: seconds between looks. alpha, rate: a
    message of n bytes takes alpha + n / rate seconds. end [s], messages: the answer, and why it is so.
    """

    gradients: str
    limit: int
    cycle: float
    alpha: float
    rate: float
    end: float
    messages: int
    why: str

    def __str__(self) -> str:
        given = f"'{self.gradients}' (bytes, ready at), limit {self.limit}, a look every {self.cycle} s"
        return f"{given}, {self.alpha} s + n / {self.rate}"

    def tensors(self) -> list[Tensor]:
        parts = [part.split(":") for part in self.gradients.split()]
        return [Tensor(name, int(size), ready=float(ready)) for name, size, ready in parts]

    def link(self) -> Callable[[int], float]:
        """seconds(bytes) of a message; it stops who sends without end."""
        calls = count()

        def seconds(n: int) -> float:
            if next(calls) > MOST_CALLS:
                raise CheckFailed(
                    "step_time does not end. Does time pass, and does what was sent leave `left`?"
                )
            return self.alpha + n / self.rate

        return seconds


STEPS = (
    Step("a:100:0", 1000, 10, 1, 100, 3, 1, "Look 0 to 1, a 1 to 3. That ends the step: no look more."),
    Step("a:100:2", 1000, 10, 1, 100, 13, 1, "Looks begin at 0 and 10; the second takes a."),
    Step("a:100:0 b:100:0", 199, 10, 1, 100, 5, 2, "Look 0 to 1, then two messages of 2 s each."),
    Step("a:100:0 b:100:0", 200, 10, 1, 100, 4, 1, "Look 0 to 1, then one message of 3 s."),
    Step("a:300:0 b:100:2 c:100:3", 1000, 1, 1, 100, 9, 2, "Looks begin at 0 and, a being sent, at 5."),
    Step("a:100:0 b:100:5", 1000, 4, 1, 20, 14, 2, "Looks begin at 0 and, a being sent, at 7: not at 8."),
    Step(
        "a:500:0 b:100:5 c:100:10.5",
        1000,
        4,
        1,
        100,
        14,
        3,
        "Looks begin at 0, at 7 and at 11: 4 after the look before, late or not.",
    ),
    Step("a:100:0.5", 1000, 1, 1, 100, 4, 1, "a was not ready when the look at 0 began: the next takes it."),
    Step("a:100:2", 1000, 1, 3, 100, 10, 1, "A look takes 3 s, if it finds something or not: at 0, at 3."),
    Step("b:100:2 a:100:0", 1000, 5, 1, 100, 8, 2, "Looks begin at 0, for a, and at 5, for b."),
    Step(
        "a:100:0 b:100:4 c:100:9 d:300:20",
        1000,
        4,
        0.5,
        200,
        22.5,
        4,
        "Looks begin at 0, 4, 8, 12, 16, 20; those at 8 and 16 find nothing.",
    ),
)

# Steps, with a cache or without, tensors asked about by step, and why.
ASKED = (
    (("a:4 b:4", "a:4 b:4", "a:4 b:4"), True, [2, 0, 0], "Known after the first step."),
    (("a:4 b:4", "a:4 b:4", "a:4 b:4"), False, [2, 2, 2], "Without a cache nothing is ever known."),
    (("a:4 b:4", "a:8 b:4", "a:8 b:4", "a:4 b:4"), True, [2, 1, 0, 1], "a's bytes change twice."),
    (("a:8", "a:8:float64", "a:8:float64"), True, [1, 1, 0], "a's type changes."),
    (("a:4 b:4", "b:4", "a:4"), True, [2, 0, 0], "What is not used for a step is still known."),
    (("a:4", "b:4", "a:4 b:4"), True, [1, 1, 0], "Both are known, from different steps."),
    (("a:4 m1:4", "a:4 m2:4", "a:4 m3:4"), True, [2, 1, 1], "A new name each time."),
    (("a:4 b:8", "a:8 b:4"), True, [2, 2], "Each is known with its own bytes, not with another's."),
)


class MadeUp(NamedTuple):
    """A timeline as Horovod writes it. text: its lines. lost [us]: by rank, the right reading.

    slips: {sentence: the reading that this mistake gives}.
    """

    text: str
    lost: dict[int, int]
    slips: dict[str, dict]


_SUM = "Tensors that wait at the same time lose that time once: lab44.covered of a rank's spans"
_FIRST = "charged from the first X on; without the last rank, all would have been ready at the X before"
_TEXT = "a rank is a number here, not a word: int(name)"
_HULL = "one span from a rank's first to its last: between its negotiations nobody waits"
_ONCE = "a rank may be last in several negotiations: keep all of its spans"

MADE_UP = {
    "a and b, then c": MadeUp(
        """
0 - i CYCLE_START
5 a B NEGOTIATE_ALLREDUCE
6 a X 0
7 b B NEGOTIATE_ALLREDUCE
8 b X 0
20 a X 2
21 b X 2
1000 - i CYCLE_START
1003 c B NEGOTIATE_ALLREDUCE
1004 c X 0
1010 a X 1
1011 a E -
1012 b X 1
1013 b E -
1014 c X 1
1017 c X 2
1018 c E -
1030 a B ALLREDUCE
1031 b B ALLREDUCE
1053 a B MPI_ALLREDUCE
1054 b B MPI_ALLREDUCE
1353 a E -
1354 b E -
1370 a E -
1371 b E -
1380 c B ALLREDUCE
1381 c B MPI_ALLREDUCE
1581 c E -
1590 c E -
""",
        {1: 992, 2: 3},
        {
            _SUM: {1: 1981, 2: 3},
            _FIRST: {1: 1006, 2: 13},
            _TEXT: {"1": 992, "2": 3},
            _ONCE: {1: 991, 2: 3},
        },
    ),
    "a three times, then known": MadeUp(
        """
0 a B NEGOTIATE_ALLREDUCE
1 a X 1
2 a X 0
12 a X 2
13 a E -
20 a B ALLREDUCE
21 a B MPI_ALLREDUCE
121 a E -
130 a E -
1000 - i CYCLE_START
1001 a B NEGOTIATE_ALLREDUCE
1002 a X 1
3000 a X 2
3004 a X 0
3005 a E -
3011 a B ALLREDUCE
3012 a B MPI_ALLREDUCE
3062 a E -
3070 a E -
4001 a B NEGOTIATE_ALLREDUCE
4002 a X 0
4003 a X 1
4010 a X 2
4011 a E -
4021 a B ALLREDUCE
4022 a B MPI_ALLREDUCE
4062 a E -
4070 a E -
5000 a B NEGOTIATE_ALLREDUCE
5050 a E -
5060 a B ALLREDUCE
5061 a B MPI_ALLREDUCE
5071 a E -
5080 a E -
""",
        {2: 17, 0: 4},
        {
            _FIRST: {2: 19, 0: 2002},
            _TEXT: {"2": 17, "0": 4},
            _HULL: {2: 4008, 0: 4},
            _ONCE: {2: 7, 0: 4},
        },
    ),
}


def made_up(name: str) -> list[Line]:
    """The lines of a made-up timeline, by its name."""
    if name not in MADE_UP:
        raise LabError(f"No made-up timeline is called {name!r}. There are: {', '.join(MADE_UP)}.")
    return story(MADE_UP[name].text)


def one_rank_alone() -> list[Line]:
    """The lines of one negotiation in which rank 0 has nobody to wait for."""
    return story("0 a B NEGOTIATE_ALLREDUCE\n1 a X 0\n9 a E -")
