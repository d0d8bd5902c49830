"""What checks ask of compressed gradients: messages, means, errors kept, bytes. Names as in compression."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from labkit import virtual
from labkit.checks import expect

LENGTHS = (1, 7, 8, 9, 1003)  # values: one, around a full byte of bits, and not a multiple of 2, 3, 4 or 8
# Of float16: usual values; with a scale; four of these add up to inf; these become 0 unless scaled up.
HALVES = ((1.0, 1.0), (1.0, 1024.0), (60_000.0, 1.0), (1e-8, 2.0**20))


def gradients(n: int, p: int = 1, size: float = 1.0) -> dict[str, np.ndarray]:
    """What gradients may look like: name -> float32, shape (p, n), magnitudes from size/10 to size."""
    above = size * np.random.default_rng([n, p]).uniform(0.1, 1, (p, n)).astype(np.float32)
    signs = np.where(np.arange(n) % 3 == 1, -1, 1).astype(np.float32)
    found = {"both signs": above * signs, "all above 0": above, "all below 0": -above, "all 0": 0 * above}
    return found | {"every third 0": above * (np.arange(n) % 3 > 0)}


def whole(values: np.ndarray) -> np.ndarray:
    """A simple message to test with: values to the nearest whole number, -128 to 127, a byte each."""
    return np.rint(values).astype(np.int8).view(np.uint8)


def from_whole(message: np.ndarray, n: int) -> np.ndarray:
    """The n values (float32) of such a message."""
    return message.view(np.int8).astype(np.float32)


def expect_bits(compress: Callable, expand: Callable) -> None:
    """Fail unless messages are two means (float32) and a bit for each value, and come back as these means."""
    for n in LENGTHS:
        for name, (values,) in gradients(n).items():
            given, who, up = values.copy(), f"{n} values, {name}", values >= 0
            message = compress(given)
            _look_at_input(given, values, who)
            _look_at_bytes(message, 8 + -(-n // 8), who)
            means = [values[side].mean() if side.any() else 0 for side in (~up, up)]
            words = f"{who}: the message's two means (of the values below 0, of the others)"
            expect.close(message[:8].copy().view(np.float32), means, words)
            _look_at_values(expand(message, n), np.where(up, means[1], means[0]), who)


def expect_top(compress: Callable, expand: Callable) -> None:
    """Fail unless compress(values, k) says places (int32) and values of the k of largest magnitude."""
    for n, k in [(length, k) for length in LENGTHS for k in (1, 3, length) if k <= length]:
        for name, (values,) in gradients(n).items():
            given, who = values.copy(), f"{n} values, {name}, k = {k}"
            message = compress(given, k)
            _look_at_input(given, values, who)
            _look_at_bytes(message, 8 * k, who)
            places = message[: 4 * k].copy().view(np.int32)
            fits = len(set(places.tolist())) == k and places.min() >= 0 and places.max() < n
            expect(fits, f"{who}: the message does not begin with {k} different places (int32) below {n}.")
            largest = np.sort(np.abs(values))[n - k :]
            expect.equal(np.sort(np.abs(values[places])), largest, f"{who}: magnitudes at the places sent")
            sent = message[4 * k :].copy().view(np.float32)
            expect.equal(sent, values[places], f"{who}: the values sent, in the order of their places")
            _look_at_values(expand(message, n), np.where(np.isin(np.arange(n), places), values, 0), who)


def _look_at_bytes(message, nbytes: int, who: str) -> None:
    kind = getattr(message, "dtype", type(message).__name__)
    expect(kind == np.uint8, f"{who}: the message should be an array of uint8, not {kind}.")
    expect.equal(len(message), nbytes, f"{who}: bytes of the message")


def _look_at_values(got, want, who: str) -> None:
    expect.equal(np.shape(got), want.shape, f"{who}: shape of what comes back")
    expect.close(got, want, f"{who}: what comes back")
    kind = getattr(got, "dtype", type(got).__name__)
    expect(kind == np.float32, f"{who}: what comes back should be float32, not {kind}.")


def _look_at_input(after, before, who: str) -> None:
    words = f"{who}: your function changed the values that it was given. Put the result in a new array."
    expect(np.array_equal(after, before), words)


def expect_half(average: Callable, p: int) -> None:
    """Fail unless average(comm, gradient, scale) is the mean, float32, of what p virtual ranks have.

    With no more on the wire than two bytes for a value, there and back, and with inf where one overflows;
    added up in float32, and with the gradient left as it was.
    """
    for n in LENGTHS:
        for given, scale, who in _halves(n, p):
            done = virtual.Cluster(nodes=p).run(_own, average, given, scale)
            for rank, (got, left) in enumerate(done.results):
                at = f"{p} ranks, {n} values, {who}"
                _look_at_mean(got, given, f"{at}: the mean on rank {rank}")
                _look_at_input(left, given[rank], at)
            done.expect_sent(exactly=2 * (p - 1) * -(-n // p) * 2, named="float16, there and back,")
        _look_at_sum(average, n, p)
        _look_at_overflow(average, n, p)


def try_half(comm, average: Callable) -> None:
    """The same on real ranks, where nobody counts bytes."""
    for given, scale, who in _halves(1003, comm.size):
        got, _ = _own(comm, average, given, scale)
        _look_at_mean(got, given, f"{comm.size} real ranks, {who}: the mean")


def _halves(n: int, p: int) -> Iterator[tuple[np.ndarray, float, str]]:
    for size, scale in HALVES:
        for name, given in gradients(n, p, size).items():
            yield given, scale, f"{name}, up to {size:g}, scale {scale:g}"


def _own(comm, average, given, scale):
    """The mean, and this rank's gradient afterwards."""
    mine = given[comm.rank].copy()
    return average(comm, mine, scale), mine


def _look_at_mean(got, given, what: str) -> None:
    # float16 has 11 significant bits: two roundings are at most 2 * 2**-11 off.
    expect.close(got, given.astype(np.float64).mean(axis=0), what, rtol=1.5e-3, atol=0)
    expect(got.dtype == np.float32, f"{what} should be float32, not {got.dtype}.")


def _look_at_sum(average, n: int, p: int) -> None:
    # To a float16 of 1024, 0.499 adds nothing. Both are float16 already: only the mean is rounded, by 2**-11.
    given = np.full((p, n), np.float16(0.499), np.float32)
    given[0] = 1024
    for rank, (got, _) in enumerate(virtual.Cluster(nodes=p).run(_own, average, given, 1.0).results):
        what = f"{p} ranks, {n} values, 1024 on rank 0 and 0.499 elsewhere: the mean (of a float32 sum)"
        expect.close(got, given.mean(axis=0), f"{what} on rank {rank}", rtol=5.5e-4)


def _look_at_overflow(average, n: int, p: int) -> None:
    given = gradients(n, p)["both signs"]
    given[-1, -1] = 1e6
    for rank, (got, _) in enumerate(virtual.Cluster(nodes=p).run(_own, average, given, 1.0).results):
        who = f"{p} ranks, {n} values, one of rank {p - 1} is 1e6: on rank {rank}"
        told = not np.isfinite(got[-1])
        expect(told, f"{who} the mean there should be inf, so that all can see it, not {got[-1]:g}.")
        expect.close(got[:-1], given.mean(axis=0)[:-1], f"{who} the other values", rtol=2e-3)


def expect_feedback(average: Callable, way: tuple, p: int) -> None:
    """Fail unless `average` gives the right means and errors on p virtual ranks, step after step."""
    for n in LENGTHS:
        given = _steps(n, p)
        done = virtual.Cluster(nodes=p).run(_several, average, given, way)
        _look_at_steps(done.results, given, way, f"{p} ranks, {n} values")
        nbytes = sum(len(way[0](step[0])) for step in given)
        done.expect_sent(exactly=(p - 1) * nbytes, named="an allgather of the messages")


def try_feedback(comm, average: Callable, way: tuple) -> None:
    """The same on real ranks."""
    given = _steps(1003, comm.size)
    results = comm.allgather(_several(comm, average, given, way))
    _look_at_steps(results, given, way, f"{comm.size} real ranks")


def _steps(n: int, p: int) -> list[np.ndarray]:
    return [10 * step for step in gradients(n, p).values()]


def _several(comm, average, given, way):
    """(what came out, the error, the gradient afterwards) of each step. given: gradients [step][rank]."""
    error, out = np.zeros_like(given[0][0]), []
    for step in given:
        mine = step[comm.rank].copy()
        result = average(comm, mine, error, *way)
        out.append((result, error.copy(), mine))
    return out


def _look_at_steps(results, given, way, who: str) -> None:
    """results: [rank][step], as of `_several`. Recomputed here without messages."""
    compress, expand = way
    errors = 0 * given[0]
    for number, step in enumerate(given):
        wanted = step + errors
        said = np.array([expand(compress(one), len(one)) for one in wanted])
        forgot = np.array([expand(compress(one), len(one)) for one in step])
        for rank, steps in enumerate(results):
            (got, left, mine), at = steps[number], f"{who}, step {number + 1}, rank {rank}"
            pairs = [(got, said.mean(axis=0), forgot.mean(axis=0))]
            pairs += [(left, (wanted - said)[rank], (step - forgot)[rank])]
            slips = [_like(one, slip) and not _like(want, slip) for one, want, slip in pairs]
            expect(not (number and any(slips)), f"{at}: as if nothing was left of the step before.")
            expect.close(got, said.mean(axis=0), f"{at}: the mean of what the messages say", 1e-4, 1e-4)
            expect.close(left, (wanted - said)[rank], f"{at}: the error that is left", 1e-4, 1e-4)
            _look_at_input(mine, step[rank], at)
        errors = wanted - said


def _like(got, want) -> bool:
    return np.shape(got) == want.shape and np.allclose(got, want, 1e-4, 1e-4)
