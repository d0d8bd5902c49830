"""The checks of lab 44, and the words with which they reject. Part of labkit.fusion."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count

from labkit.checks import expect
from labkit.errors import CheckFailed

from support.lab44.cases import ALONE, ASKED, CASES, ROUNDED, STEPS, STORIES, made_up
from support.lab44.ranks import CACHED, SEVEN, THRESHOLDS
from support.lab44.timeline import Tensor, asked_in, lines, sent, spent, story, tensors

MANY = 2000  # calls, after which a loop over five tensors cannot be about to end


@contextmanager
def because(why: str):
    """Appends to the sentence of a failed expectation why another answer was expected."""
    try:
        yield
    except CheckFailed as error:
        text = str(error)
        raise CheckFailed(f"{text}{'' if text.endswith('.') else '.'} {why}") from None


def expect_reading(phases, late, events) -> None:
    """44.1, on made-up lines and on two timelines of real ranks."""
    for name, (_, table, waited) in STORIES.items():
        given = made_up(name)
        expect.equal(phases(given), table, f'phases(fusion.made_up("{name}"))')
        expect(given == made_up(name), "phases changed the lines that it was given: `late` reads them too.")
        what, got = f'late(fusion.made_up("{name}"))', late(given)
        words = isinstance(got, dict) and any(isinstance(rank, str) for rank in got)
        expect(not words, f"{what}: a rank is a number here, not a word: int(name).")
        expect.equal(got, waited, what)
    alone = late(story(ALONE))
    expect(not any(alone.values()), f"late, of one rank alone: it waits for nobody, but you charge {alone}.")
    for name in ("late", "always the same"):
        what = f'phases(fusion.lines(events["{name}"]))'
        expect.equal(phases(lines(events[name])), spent(events[name]), what)


def _watched(ready: list[Tensor]) -> list[Tensor]:
    """The same tensors; who asks for their bytes without end is stopped."""
    looks = count()

    class Watched(Tensor):
        @property
        def bytes(self) -> int:
            if next(looks) > MANY:
                raise CheckFailed("fuse does not end. What was taken must not stay in `left`.")
            return self[1]

    return [Watched(*one) for one in ready]


def expect_fused(rounded, fuse, events, ranks_on_node: int) -> None:
    """44.2, on made-up tensors and on what real ranks sent."""
    for threshold, many, want in ROUNDED:
        expect.equal(rounded(threshold, many), want, f"Limit for {threshold} bytes, {many} ranks on a node")
    for text, limit, want, why in CASES:
        ready = _watched(tensors(text))
        messages = fuse(ready, limit)
        expect(messages is not None, "fuse returned None. Does it return its messages?")
        messages = [[*message] for message in messages]
        right = all(isinstance(one, Tensor) for message in messages for one in message)
        expect(right, "fuse: each message has to be a list of the Tensors themselves.")
        got = "|".join(" ".join(one.name for one in message) for message in messages)
        with because(why):
            expect.equal(got, want, f"Messages of '{text}', limit {limit}")
        expect(ready == tensors(text), "fuse changed the list that it was given.")
    for threshold, calls in travelled(events).items():
        mine = [[one.name for one in message] for message in fuse(SEVEN, rounded(threshold, ranks_on_node))]
        expect.equal(mine, calls, f"Messages of the seven tensors, real ranks, threshold {threshold}")


def travelled(events) -> dict[int, list[list[str]]]:
    """{threshold: names of SEVEN, call by call}, from the timelines of real ranks."""
    return {n: sent(events[f"up to {n}"], len(SEVEN)) for n in THRESHOLDS}


def _link(alpha: float, rate: float):
    """seconds(bytes) of a message; who sends without end is stopped."""
    calls = count()

    def seconds(n: int) -> float:
        if next(calls) > MANY:
            raise CheckFailed("step_time does not end. Does time pass, and does what was sent leave `left`?")
        return alpha + n / rate

    return seconds


def expect_step_time(step_time) -> None:
    """44.3, on made-up steps."""
    for text, limit, cycle, alpha, rate, want, why in STEPS:
        gradients = [Tensor(one.name, one.bytes, ready=float(one.dtype)) for one in tensors(text)]
        what = f"'{text}' (bytes, ready at), limit {limit}, a look every {cycle} s, {alpha} s + n / {rate}"
        given = list(gradients)
        got = step_time(given, limit, cycle, _link(alpha, rate))
        pair = isinstance(got, tuple | list) and len(got) == 2
        expect(pair, f"{what}: return two values, end and messages.")
        with because(why):
            expect.close(got[0], want[0], f"{what}: end of the step", rtol=1e-9)
            expect.equal(got[1], want[1], f"{what}: messages")
        expect(given == gradients, "step_time changed the list that it was given.")


def expect_asked(asked, events) -> dict[str, list[int]]:
    """44.4, on made-up steps and on real ranks. Returns {way: what real ranks asked about, by step}."""
    for texts, places, want, why in ASKED:
        steps = [tensors(text) for text in texts]
        got = asked(steps, places)
        with because(why):
            expect.equal(got, want, f"Steps {' | '.join(texts)}, {places} places")
        same = steps == [tensors(text) for text in texts]
        expect(same, "asked changed the steps that it was given.")
    truth = {name: asked_in(events[name], steps) for name, (_, steps) in CACHED.items()}
    for name, (places, steps) in CACHED.items():
        what = f"Tensors asked about, by step, real ranks, '{name}'"
        expect.equal(asked([[*step] for step in steps], places), truth[name], what)
    return truth
