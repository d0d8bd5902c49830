"""What checks ask of Adasum, and of a search among settings: behind labkit.knobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from labkit import virtual
from labkit.checks import expect
from labkit.errors import CheckFailed, LabError

MIB = 1 << 20
HEADER = "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
HEADER += "tensor_fusion_threshold,score\n"
# Logs as Horovod writes them, blank after a comma and all. The first is finished: it says the best again.
LOGS = {
    HEADER + "0,0,0, 1,5,4,98.1\n0,0,0, 1,50,32,12.5\n0,0,0, 1,25,16,24.2\n0,0,0, 1,10,8,61.7\n"
    "0,0,0, 1,1.5,60.25,131.9\n0,0,0, 1,3.2,0.5,87.4\n0,0,0, 1,1.5,60.25,131.9\n": (63176704, 1.5, 131.9),
    HEADER + "0,0,0, 1,5,4,9.75\n0,0,0, 1,50,32,1.2\n0,0,0, 1,25,16,2.41\n": (4194304, 5.0, 9.75),
    HEADER + "0,0,0, 1,5,4,95.2\n0,0,0, 1,50,32,20.9\n0,0,0, 1,10,8,104.6\n0,0,0, 1,25,16,31.3\n": (
        8388608,
        10.0,
        104.6,
    ),
    HEADER + "0,0,0, 1,5,4,98.1\n0,0,0, 1,50,32,12.5\n0,0,0, 1,25,16,98.6\n": (16777216, 25.0, 98.6),
}
STRICT = virtual.ideal().but(eager=64)  # messages above 64 bytes wait for their receiver, as long ones do


def gradients(p: int, values: int, seed: int = 0) -> np.ndarray:
    """float32 of shape (p, values), neither orthogonal nor parallel: a part that all have, and one's own."""
    random = np.random.default_rng([seed, p, values])
    return (random.standard_normal(values) + random.standard_normal((p, values))).astype(np.float32)


def right_pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Adasum of two gradients (Maleki et al. 2020, "Adaptive Summation"; adasum.h)."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    dot, shares = a @ b, [one @ one for one in (a, b)]
    return sum(
        (1 - dot / (2 * share) if share else 1) * one for one, share in zip((a, b), shares, strict=True)
    )


def expect_pair(pair: Callable) -> None:
    """Fail unless pair(a, b) is Adasum of two gradients, in their own type."""
    a, b = gradients(2, 1003)
    zero, across = np.zeros_like(a), np.where(np.arange(1003) % 2, a, 0)
    cases = {
        "Orthogonal gradients (Adasum is their sum)": (across, a - across),
        "Twice the same gradient (Adasum is that gradient)": (a, a),
        "A gradient and three times it (Adasum is their mean)": (a, 3 * a),
        "A gradient and its opposite": (a, -a),
        "0 and a gradient (Adasum is the gradient)": (zero, a),
        "A gradient and 0 (Adasum is the gradient)": (a, zero),
        "0 and 0": (zero, zero),
        "Two gradients": (a, b),
        "One of them 100 times as large": (a, 100 * b),
        "Values of 1e25, whose squares float32 does not hold": (1e25 * a, 1e25 * b),
        "Values of 1e-25, whose squares are 0 in float32": (1e-25 * a, 1e-25 * b),
        "Gradients of one value": (a[:1], b[:1]),
        "Gradients of float64": (a.astype(np.float64), b.astype(np.float64)),
    }
    for name, (one, other) in cases.items():
        given = one.copy(), other.copy()
        with np.errstate(all="ignore"):  # the wrong value that follows says more
            got, want = pair(*given), right_pair(one, other)
        expect(got is not None, f"{name}: got None. Does the function return its result?")
        returned = f"{name}: the result should be an array like a, not a {type(got).__name__}."
        expect(isinstance(got, np.ndarray), returned)
        expect.close(got, want, name, rtol=1e-4, atol=2e-6 * max(np.abs(one).max(), np.abs(other).max()))
        typed = f"{name}: {one.dtype} came in, so {one.dtype} should come out, not {got.dtype}."
        expect(got.dtype == one.dtype, typed)
        same = (given[0] == one).all() and (given[1] == other).all()
        expect(same, f"{name}: the gradients that were given are changed.")
        own = not any(np.shares_memory(got, array) for array in given)
        expect(own, f"{name}: return a new array, such as b.copy(): writing to this one changes a gradient.")


def expect_adasum(adasum: Callable) -> None:
    """Fail unless adasum(comm, gradient, layers) is Adasum layer by layer, by recursive doubling."""
    for p in (1, 2, 4, 8, 16, 32):
        for layers in ([slice(0, 1003)], [slice(0, 7), slice(7, 8), slice(8, 1003)]):
            given = gradients(p, 1003)
            run = virtual.Cluster(nodes=p, machine=STRICT).run(_own, adasum, given, layers)
            run.where += f" and {len(layers)} layer{'s' * (len(layers) > 1)}"
            what = "Adasum layer by layer" if len(layers) > 1 else "Adasum"
            want = _tree(given, layers)
            if len(layers) > 1:
                whole = np.allclose(run.results[0], _tree(given, [slice(0, 1003)]), rtol=1e-3, atol=1e-4)
                expect(
                    p == 1 or not whole,
                    f"With {p} ranks all layers were taken for one: each has its own dot product.",
                )
            run.expect_results(want, what, rtol=1e-3)
            swaps = p.bit_length() - 1
            run.expect_messages(exactly=swaps, named="recursive doubling")
            slack = 256 * swaps  # bytes: a pickled message is a little longer
            run.expect_sent(exactly=swaps, unit=4 * 1003, named="recursive doubling", rounding=slack)
    for p in (3, 5, 6, 12):
        try:
            run = virtual.Cluster(nodes=p).run(refusal, adasum, gradients(p, 8))
        except LabError as error:
            raise CheckFailed(f"With {p} ranks, not a power of two: no ValueError, but {error}") from None
        told = [one for one in run.results if str(p) in one]
        sentence = f"With {p} ranks, not a power of two, {len(told)} raised a ValueError that names the {p}"
        expect(len(told) == p, f"{sentence}; Horovod refuses on every rank.")
        expect(not sum(run.sent), f"With {p} ranks messages were sent before the refusal.")


def _own(comm, adasum, given, layers):
    mine = given[comm.rank].copy()
    got = adasum(comm, mine, layers)
    expect(got is not None, "adasum returned None. Does it return its result?")
    expect((mine == given[comm.rank]).all(), "The gradient that was given is changed: begin with a copy.")
    return got


def refusal(comm, adasum, given) -> str:
    try:
        adasum(comm, given[comm.rank].copy(), [slice(0, 8)])
    except ValueError as error:
        return str(error)
    return ""


def _tree(given: np.ndarray, layers: Sequence[slice]) -> np.ndarray:
    """What all ranks should have: neighbours first, then pairs of pairs, each layer by itself."""
    parts = list(given)
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [np.concatenate([right_pair(a[one], b[one]) for one in layers]) for a, b in pairs]
    return parts[0].astype(np.float32)


def expect_bytes(bytes_sent: Callable, step_share: Callable) -> None:
    """Fail unless bytes_sent(n, nodes) and step_share(n, nodes, rate, rest) are as exercise 45.3 has them."""
    for nodes, halving, doubling in ((2, 1, 1), (4, 1.5, 2), (8, 1.75, 3), (64, 1.96875, 6)):
        for n in (1, 1_000_000):
            want = {"float32": 4 * halving, "float16": 2 * doubling, "Adasum": 4 * halving}
            want = {way: n * one for way, one in (want | {"Adasum, float16": 2 * halving}).items()}
            expect.close(bytes_sent(n, nodes), want, f"{nodes} nodes, values: {n}: bytes that a node sends")
        for rate, rest in ((25e6, 0), (25e6, 0.3), (1e9, 0.01)):
            share = (want["float16"] / rate + rest) / (want["float32"] / rate + rest)
            words = f"{n} values, {nodes} nodes, {rate / 1e6:g} MB/s, {rest} s of other work"
            expect.close(step_share(n, nodes, rate, rest), share, f"{words}: float16 over float32")


def expect_search(search: Callable) -> None:
    """Fail unless search(measure, settings, rounds) goes in turns, and no lucky run decides."""
    settings, calls = [(0, 1.0), (MIB, 1.0), (64 * MIB, 5.0)], []

    def called(setting):
        expect(setting in settings, f"measure{setting}: a setting is unpacked, as in measure{settings[0]}.")
        calls.append(setting)

    def uneven(*setting):  # the middle setting is best, but for its first run; the last one's last is lucky
        called(setting)
        usual, run = {settings[0]: 50.0, settings[1]: 60.0, settings[2]: 20.0}[setting], calls.count(setting)
        return {(settings[1], 1): 1.0, (settings[2], 5): 900.0}.get((setting, run), usual)

    def tiring(*setting):  # a machine that slows down by half while one watches: the last setting is best
        called(setting)
        return (1 + settings.index(setting) / 2) * 0.9 ** len(calls)

    for measure, rounds, best, why in (
        (uneven, 5, 1, "one lucky run of a slow one, and one unlucky run of the best"),
        (tiring, 4, 2, "a machine that tires"),
    ):
        calls.clear()
        given = list(settings)
        got = search(measure, given, rounds)
        made = f"The measurements made, {rounds} rounds of 3 settings"
        expect.equal(sorted(calls), sorted(rounds * settings), made)
        turns = [sorted(calls[place : place + 3]) == sorted(settings) for place in range(0, 3 * rounds, 3)]
        expect(all(turns), "In each round every setting has its turn: not all of one, then the next.")
        told = f"search returned {got!r}; expected one of the settings, such as {settings[0]}."
        expect(isinstance(got, (tuple, list)), told)
        expect.equal(tuple(got), settings[best], f"The setting found in spite of {why}")
        expect(given == settings, "search changed the list of settings that it was given.")
