"""What the check cells of lab 44 need: answers as text, loops stopped, real timelines read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from labkit import check, expect
from labkit.errors import CheckFailed

from support.lab44.cases import ASKED, FUSED, MADE_UP, MOST_CALLS, STEPS, made_up, one_rank_alone
from support.lab44.ranks import CACHED, SEVEN, THRESHOLDS
from support.lab44.timeline import Tensor, asked_in, limit, sent, tensors


def patient(text: str) -> list[Tensor]:
    """The tensors of "a:40 b:8:float64". A loop that reads their bytes without end is stopped."""
    looks = count()

    class Watched(Tensor):
        @property
        def bytes(self) -> int:
            if next(looks) > MOST_CALLS:
                raise CheckFailed("fuse does not end. What was taken must not stay in `left`.")
            return self[1]

    return [Watched(*tensor) for tensor in tensors(text)]


def names(messages: Sequence[Sequence[Tensor]] | None) -> str | None:
    """Messages as text: "a b|c", if a and b travel together, then c alone. None stays None."""
    if messages is None:
        return None
    for message in messages:
        if not all(isinstance(tensor, Tensor) for tensor in message):
            raise CheckFailed("fuse: each message has to be a list of the Tensors themselves.")
    return "|".join(" ".join(tensor.name for tensor in message) for message in messages)


def travelled(events) -> dict[int, str]:
    """{threshold: how SEVEN travelled, as of `names`}, from the timelines of real ranks."""
    calls = {threshold: sent(events[f"up to {threshold}"], len(SEVEN)) for threshold in THRESHOLDS}
    return {threshold: "|".join(map(" ".join, messages)) for threshold, messages in calls.items()}


def asked_about(events) -> dict[str, list[int]]:
    """{way of CACHED: how many tensors real ranks asked about, by step}, from their timelines."""
    return {way: asked_in(events[way], steps) for way, (_, steps) in CACHED.items()}


@check.exercise("44.1")
def check_charge(charge):
    """The µs lost to each rank. print(*lab44.made_up("…"), sep="\n") shows a timeline."""
    for name, story in MADE_UP.items():
        timeline = made_up(name)
        expect.equal(charge(timeline), story.lost, f'charge(lab44.made_up("{name}"))', slips=story.slips)
        expect.unchanged(made_up(name), timeline, "The timeline that `charge` got")
    alone = charge(one_rank_alone())
    expect(not any(alone.values()), f"One rank alone waits for nobody, but you charge {alone}.")


@check.exercise("44.2")
def check_fuse(fuse, events, on_node):
    """Who travels with whom, of tensors made up, and of the seven on real ranks. "a b|c": c alone."""
    for text, most, want, why in FUSED:
        ready = patient(text)  # tensors that stop a loop without end
        messages = names(fuse(ready, most))
        expect.equal(messages, want, f"Messages of '{text}', limit {most}", because=why)
        expect.unchanged(tensors(text), ready, "The list of tensors that `fuse` got")
    for threshold, want in travelled(events).items():
        messages = names(fuse(SEVEN, limit(threshold, on_node)))
        expect.equal(messages, want, f"Messages of the seven tensors, real ranks, threshold {threshold}")


@check.exercise("44.3")
def check_step_time(step_time):
    """When a step ends, and with how many messages; a case says its gradients, cycle and link."""
    for case in STEPS:
        gradients = case.tensors()
        got = step_time(gradients, case.limit, case.cycle, case.link())
        expect.equal(np.size(got), 2, f"{case}: values that `step_time` returns (end, messages)")
        expect.close(got[0], case.end, f"{case}: end of the step", rtol=1e-9, because=case.why)
        expect.equal(got[1], case.messages, f"{case}: messages", because=case.why)
        expect.unchanged(case.tensors(), gradients, "The list of gradients that `step_time` got")


@check.exercise("44.4")
def check_asked(asked, events):
    """For each step how many tensors are asked about, in steps made up, and on real ranks."""
    for texts, cached, want, why in ASKED:
        steps = [tensors(text) for text in texts]
        what = f"Steps {' | '.join(texts)}, {'with' if cached else 'without'} a cache"
        expect.equal(asked(steps, cached), want, what, because=why)
        unchanged = [tensors(text) for text in texts]
        expect.unchanged(unchanged, steps, "The list of steps that `asked` got")
    truth = asked_about(events)  # way -> counts, as real ranks asked
    for name in ("always the same", "f changes", "a metric without a name", "no cache"):
        places, steps = CACHED[name]
        got = asked(steps, places > 0)
        expect.equal(got, truth[name], f"Tensors asked about, by step, real ranks, '{name}'")
