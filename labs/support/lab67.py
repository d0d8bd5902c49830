"""Lab 67: checks; attention whose keys and values travel around a ring, forward and back, on real
ranks and on the virtual cluster; Ulysses, and what all of them send."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import virtual
from labkit import check, expect, launch, record, timing, world
from labkit.counting import CallLog, PassOn, on_every_size
from labkit.errors import LabError, counted


class Partial(NamedTuple):
    """What some keys give to some queries. largest, total: (heads, queries, 1), the largest score,
    and the sum of exp(score - largest). weighted: (heads, queries, size), the values, weighted by
    exp(score - largest) and added up."""

    largest: torch.Tensor
    total: torch.Tensor
    weighted: torch.Tensor


def nothing(q: torch.Tensor) -> Partial:
    """The Partial of no keys at all."""
    none = torch.zeros_like(q[..., :1])
    return Partial(none - torch.inf, none, torch.zeros_like(q))


def finish(part: Partial) -> tuple[torch.Tensor, torch.Tensor]:
    """(the output of attention, the log-sum-exp of the scores) of a Partial of all keys."""
    return part.weighted / part.total, part.largest + part.total.log()


# -- checks


def _partial_of(scores: torch.Tensor, values: torch.Tensor) -> Partial:
    largest = scores.amax(-1, keepdim=True)
    weights = (scores - largest).exp()
    return Partial(largest, weights.sum(-1, keepdim=True), weights @ values)


@check.exercise("67.1")
def merged_as_one(merge):
    """Two partial results become that of all their keys: for small scores, for scores in the
    thousands, in either order, for heads and queries that differ by thousands, and where queries
    have seen no keys yet, all of them or one."""
    generator = torch.Generator().manual_seed(67)
    ours, theirs = torch.randn(2, 2, 3, 4, generator=generator, dtype=torch.float64)
    values = torch.randn(2, 8, 5, generator=generator, dtype=torch.float64)
    apart = torch.tensor([[3000.0, 0, -3000], [-1000, 2000, 0]], dtype=torch.float64).unsqueeze(-1)
    for words, first, second in (
        ("small scores", ours, theirs + 1),
        ("the larger scores first", ours + 3, theirs),
        ("scores of 3000 and of -3000", ours + 3000, theirs - 3000),
        ("scores of -2000 and of 1000", ours - 2000, theirs + 1000),
        ("queries with scores of 3000, 0 and -3000", ours + apart, theirs - apart),
    ):
        one = _partial_of(first, values[:, :4])
        other = _partial_of(second, values[:, 4:])
        want = finish(_partial_of(torch.cat([first, second], -1), values))
        _expect_merged(merge, one, other, want, words)
    low = _partial_of(ours - 1000, values[:, :4])
    empty = nothing(low.weighted)
    _expect_merged(merge, empty, low, finish(low), "no keys yet, then some")
    _expect_merged(merge, low, empty, finish(low), "some keys, then none")
    unseen = torch.tensor([True, False, False]).unsqueeze(-1)
    one = _partial_of(ours, values[:, :4])
    one = Partial(*(torch.where(unseen, *pair) for pair in zip(empty, one, strict=True)))
    other = _partial_of(theirs, values[:, 4:])
    scores = torch.cat([torch.where(unseen, -torch.inf, ours), theirs], -1)
    want = finish(_partial_of(scores, values))
    _expect_merged(merge, one, other, want, "a query that has seen no keys, beside others")


def _expect_merged(merge: Callable, one: Partial, other: Partial, want: tuple, words: str) -> None:
    with check.case(words):
        given = [tensor.clone() for tensor in (*one, *other)]
        got = merge(one, other)
        named = all(hasattr(got, part) for part in Partial._fields)
        told = "`merge` returns a Partial(largest, total, weighted), not a bare tuple or tensor"
        expect(named, f"{told}: the next cells read its three parts by name.")
        got = Partial(*(torch.as_tensor(getattr(got, part)) for part in Partial._fields))
        for part, tensor in zip(Partial._fields, got, strict=True):
            told = f"`{part}` is {tensor.dtype}, and what `merge` was given is {one.total.dtype}."
            expect(tensor.dtype == one.total.dtype, told)
        for before, after in zip(given, (*one, *other), strict=True):
            expect.unchanged(before, after, "A partial result that `merge` was given")
        output, log_sum = finish(got)
        added = one.weighted + other.weighted
        largest = torch.maximum(one.largest, other.largest)
        total = (want[1] - largest).exp()
        mine = (largest - one.largest).exp()
        its = (largest - other.largest).exp()
        inverted = mine * one.weighted + its * other.weighted
        slips = {
            "the weighted values are added without rescaling them": added / total,
            "both are added without rescaling them": added / (one.total + other.total),
            "the factors are inverted: they are exp(its own largest - the new largest)": (
                inverted / (mine * one.total + its * other.total)
            ),
            "this is the mean of the two outputs": (
                (one.weighted / one.total + other.weighted / other.total) / 2
            ),
        }
        infinite = "The merged result is not finite. Does exp() get numbers that are at most 0?"
        single = got.largest.unique().numel() == 1 < largest.unique().numel()
        if single or (got.largest > largest).any():
            infinite = (
                "`largest` of some queries is none of their scores, but each query has its own."
            )
            infinite = f"{infinite} Far smaller scores then become 0 / 0. Compare place by place."
        expect(torch.isfinite(output).all(), infinite)
        expect.close(output, want[0], "weighted / total, which is the output", slips=slips)
        expect.close(log_sum, want[1], "largest + log(total)")


class Listening(CallLog):
    """A CallLog that knows the array into which the newest Irecv receives."""

    into = None

    def Irecv(self, buf, *args, **options):
        self.into = buf
        return self.__getattr__("Irecv")(buf, *args, **options)


def visits_on_ranks(comm, ring: Callable) -> list[tuple]:
    """On a rank, what `ring` visits: (owner, first value, all values alike, requests under way, may
    the block be overwritten meanwhile)."""
    log = Listening(comm)
    block = torch.full((2, 3), float(comm.rank))
    visits = []

    def visit(visited, owner) -> None:
        tensor = torch.as_tensor(visited)
        first = float(tensor[0, 0])
        alike = bool((tensor == first).all())
        under_way = log.under_way()
        into = log.into if log.into is not None else torch.empty(0)
        shared = under_way > 0 and tensor.data_ptr() == torch.as_tensor(into).data_ptr()
        visits.append((int(owner), first, alike, under_way, shared))

    ring(log, block, torch.empty_like(block), visit)
    pickled = sorted({name for name in log.calls if name in ("isend", "issend", "irecv")})
    if pickled:
        told = f"comm.{pickled[0]} packs a copy of the block and does not receive into `room`."
        raise LabError(f"{told} Use Isend and Irecv.")
    return visits


@check.exercise("67.2")
def around_the_ring(ring, patience):
    """Each rank visits the blocks of all ranks, its own first. Messages go to the right, are
    launched before the block is visited, and hide behind it. Virtual ranks with NumPy arrays, then
    real ones with tensors."""
    for p in (1, 2, 3, 8):
        where = f"With {counted(p, 'rank')}"
        short = ring_run(ring, p, visit=2e-3, message=1e-3)
        for rank, visits in enumerate(short.results):
            owners = [owner for owner, _ in visits]
            right = [(rank - step) % p for step in range(p)]
            slips = {
                "the blocks come from the left neighbor": [(rank + step) % p for step in range(p)]
            }
            what = f"{where}: the owners of the blocks that rank {rank} visits, in order"
            expect.equal(owners, right, what, slips=slips)
            held = [value for _, value in visits]
            what = f"{where}: whose block rank {rank} really holds at each visit"
            expect.equal(held, right, what)
        strays = [link for link in short.links if link[1] != (link[0] + 1) % p]
        expect(not strays, f"{where}, some messages do not go to the right neighbor: {strays[:3]}.")
        told = f"{where}, a rank sends {counted(short.sent[0], 'message')}, and needs {p - 1}"
        told = f"{told}: one in each step but the last"
        if short.sent[0] == p:
            told = f"{told}, because after its last visit nobody needs a block"
        expect(short.sent == [p - 1] * p, f"{told}.")
        turns = p * 2 + (p - 1)
        slips = {"messages and computing take turns: launch both before the visit": turns}
        what = f"{where}, a visit of 2 ms and a message of 1 ms: milliseconds in all"
        expect.close(1e3 * short.time, 2 * p, what, rtol=1e-3, slips=slips)
        long = ring_run(ring, p, visit=1e-3, message=2e-3)
        what = f"{where}, a visit of 1 ms and a message of 2 ms: milliseconds in all"
        expect.close(1e3 * long.time, 2 * (p - 1) + 1, what, rtol=1e-3)
    ranks = launch.ranks_here(3)
    visits = partial(visits_on_ranks, ring=ring)
    tried = launch.run(on_every_size, visits, ranks=ranks, timeout=patience)
    for p in range(min(ranks, 8), 0, -1):
        for rank, of_sizes in enumerate(tried[:p]):
            where = f"{counted(p, 'real rank')}, rank {rank}"
            owners = [(rank - step) % p for step in range(p)]
            got = [(owner, value, alike) for owner, value, alike, *_ in of_sizes[p]]
            want = [(owner, float(owner), True) for owner in owners]
            expect.equal(got, want, f"{where}: (owner, its values, all alike) of each visit")
            under_way = [number for *_, number, _ in of_sizes[p]]
            what = f"{where}: requests under way during each visit"
            expect.equal(under_way, [2] * (p - 1) + [0], what)
            told = f"{where}: the next block is received into the one that is being visited."
            expect(not any(shared for *_, shared in of_sizes[p]), f"{told} Use the other array.")


def ring_run(
    ring: Callable, p: int, visit: float, message: float, trace: bool = False
) -> virtual.Run:
    """A ring of p virtual ranks: seconds of a visit, and of a message, which waits for its
    receiver."""

    def program(comm, block, room) -> list[tuple]:
        visits = []

        def visited(held, owner) -> None:
            visits.append((int(owner), int(np.asarray(held).flat[0])))
            comm.compute(visit)

        ring(comm, block, room, visited)
        return visits

    machine = virtual.ideal(alpha=0, bandwidth=1e9).but(eager=0)
    blocks = [virtual.vector(np.full((2, 4), rank), stands_for=message * 1e9) for rank in range(p)]
    rooms = [np.zeros_like(block) for block in blocks]
    cluster = virtual.Cluster(nodes=p, machine=machine)
    return cluster.run(program, virtual.by_rank(blocks), virtual.by_rank(rooms), trace=trace)


def in_turns(comm, block, room, visit) -> None:
    """In place of the learner's ring: a block is visited first, and sent on afterwards."""
    for step in range(comm.size):
        visit(block, (comm.rank - step) % comm.size)
        if step < comm.size - 1:
            right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            comm.Sendrecv(block, dest=right, recvbuf=room, source=left)
            block, room = room, block


@check.exercise("67.3")
def equal_work(zigzag, work):
    """The work of some pairs of chunks. Then each chunk belongs to one rank, and in each step all
    ranks have as much to compute."""
    for queries, keys, want in (
        ((3,), (1,), 1),
        ((1,), (3,), 0),
        ((2,), (2,), 0.5),
        ((0, 7), (2, 5), 2),
        ((2, 3), (2, 3), 2),
        ((2, 3), (0, 1), 4),
        ((0, 1), (6, 7), 0),
        ((1, 2), (0, 1), 3.5),
        ((0, 1), (1, 2), 0.5),
    ):
        every = len(queries) * len(keys)
        slips = {
            "a pair on the diagonal is half masked, so it counts a half": sum(
                query >= key for query in queries for key in keys
            ),
            "this also counts keys after the query, which are masked": every,
            "queries see earlier keys, not later ones": sum(
                (query < key) + 0.5 * (query == key) for query in queries for key in keys
            ),
        }
        expect.close(work(queries, keys), want, f"work({queries}, {keys})", slips=slips)
    for p in (1, 2, 3, 4, 8):
        where = f"With {counted(p, 'rank')}"
        owned = [_chunks(zigzag(rank, p), f"{where}, rank {rank}") for rank in range(p)]
        for rank, own in enumerate(owned):
            expect(len(own) == 2, f"{where}, rank {rank} owns two chunks, not {len(own)}: {own}.")
        every = sorted(chunk for own in owned for chunk in own)
        told = f"{where}, each of the chunks 0 to {2 * p - 1} belongs to one rank; yours: {owned}."
        expect(every == list(range(2 * p)), told)
        for step in range(p):
            done = [_work(owned[rank], owned[(rank - step) % p]) for rank in range(p)]
            told = f"{where} and the chunks {owned}, the ranks compute {done} pairs in step {step}."
            expect(len(set(done)) == 1, f"{told} Each should have as much as the others.")


def _chunks(given, whose: str) -> list[int]:
    """The chunks of a rank as integers; an error if they are none, or can be read only once."""
    expect(
        given is not None and hasattr(given, "__len__"), f"{whose}: `zigzag` returns two integers."
    )
    try:
        return [operator.index(chunk) for chunk in given]
    except TypeError:
        told = f"{whose}: the numbers of chunks are integers, and yours are {list(given)}."
        raise LabError(f"{told} `//` divides integers.") from None


def _work(queries: Sequence[int], keys: Sequence[int]) -> float:
    return sum((query > key) + 0.5 * (query == key) for query in queries for key in keys)


@check.exercise("67.4")
def bytes_and_length(bytes_sent, hides_from, ring):
    """The bytes of virtual runs. Then 2 % more positions hide the messages, and 2 % fewer do
    not. It needs a ring that overlaps."""
    took = ring_run(ring, 2, visit=2e-3, message=1e-3).time
    told = "Your `ring` of exercise 67.2 does not send while it computes. Solve 67.2 first."
    expect(took < 4.1e-3, told)
    for n, p, hidden, kv, size in (
        (4096, 4, 512, 512, 2),
        (65536, 8, 1024, 128, 2),
        (1152, 3, 96, 32, 4),
    ):
        got = bytes_sent(n, p, hidden, kv, size)
        model = Model(hidden, kv, size, flops=1e12)
        for way in WAYS:
            expect(way in got, f"`bytes_sent` has no {way!r}. Its keys are {list(WAYS)}.")
            run = layer_run(ring, way, n, p, model)
            what = f"{way}, {n} positions, {p} ranks, hidden {hidden}, kv {kv}, size {size}: bytes"
            half = "these are the bytes of keys alone, and values travel as well"
            if size != 2:
                half = f"a number has `size` bytes, {size} here"
            slips = {
                half: run.sent_bytes[0] / 2,
                "a rank keeps its own part and does not send it": run.sent_bytes[0] * p / (p - 1),
            }
            if way == "Ulysses":
                sentence = "keys and values have `kv` numbers, not `hidden`"
                slips[sentence] = 4 * hidden * size * n / p * (p - 1) / p
            expect.close(got[way], run.sent_bytes[0], what, rtol=1e-3, slips=slips)
    for p, hidden, kv, size, flops, bandwidth in (
        (4, 512, 512, 2, 1e14, 1e10),
        (16, 2048, 128, 2, 7e14, 5e10),
        (3, 80, 32, 4, 2e10, 1e9),
    ):
        n = hides_from(p, hidden, kv, size, flops, bandwidth)
        where = f"{p} ranks, hidden {hidden}, kv {kv}, size {size}, {flops:g} flop/s"
        where = f"{where}, {bandwidth:g} bytes/s"
        expect.between(n, 1, 1e12, f"{where}: positions")
        model = Model(hidden, kv, size, flops)
        machine = virtual.ideal(alpha=0, bandwidth=bandwidth)
        for part, hides, fault in ((1.02, True, "few"), (0.98, False, "many")):
            computing = p * model.visit(part * n / p)
            took = layer_run(ring, "ring", part * n, p, model, machine).time
            told = f"{where}: {n:.0f} positions are too {fault}. With {part:.0%} of them computing"
            told = f"{told} takes {1e3 * computing:.4g} ms, and the ring {1e3 * took:.4g} ms."
            told = f"{told}{_length_slip(n, p, kv / hidden * size * flops / bandwidth, size)}"
            expect((took < 1.0001 * computing) == hides, told)


def _length_slip(n: float, p: int, own: float, size: int) -> str:
    """A sentence on what is wrong with a sequence of n positions. own: right for a rank. size:
    bytes of a number."""
    if np.isclose(n, own):
        return " These are the positions of one rank, but the sequence is that of all ranks."
    if np.isclose(n, p * own * 2 / size) and size != 2:
        return f" A number has `size` bytes, {size} here."
    if np.isclose(n, p * own / 2):
        return " With zigzag a rank computes two of the four pairs of chunks in each step."
    return ""


def shares_on_ranks(comm, pass_on: Callable, full: Callable, visit: float = 0.0) -> list[float]:
    """On a rank, the gradient of its own block when it has come back. Rank r's share in that of
    block b is 10^r (b + 1): its digits show who took part. full: makes an array of a value."""
    arriving = full(3, 0.0)
    launched = []
    for step in range(comm.size):
        if visit:
            comm.compute(visit)
        owner = (comm.rank - step) % comm.size
        share = full(3, 10.0**comm.rank * (owner + 1))
        launched = pass_on(comm, share, arriving, list(launched))
        if not isinstance(launched, list | tuple):
            raise LabError("`pass_on` returns the list of the requests that it has launched.")
    for request in launched:
        request.Wait()
    return arriving.tolist()


@check.exercise("67.5")
def gradients_come_home(pass_on, patience):
    """The gradient of each block comes back to its owner with the shares of all ranks. A gradient
    travels while the next share is computed. Virtual ranks with NumPy arrays, then real ones with
    tensors."""
    for p in (1, 2, 3, 5):
        # 24 bytes take 1 ms, and a blocking send as long.
        cluster = virtual.Cluster(nodes=p, machine=virtual.ideal(0, 24e3).but(eager=0))
        run = cluster.run(shares_on_ranks, pass_on, np.full, visit=2e-3)
        _expect_home(run.results, f"{counted(p, 'virtual rank')}")
        what = f"{counted(p, 'virtual rank')}, 2 ms for a share, 1 ms for a message: milliseconds"
        told = "only wait for the requests of the *previous* call, before you add, and use Isend"
        slips = {told: 3 * p}
        expect.close(1e3 * run.time, 2 * p + 1, what, rtol=1e-3, slips=slips)
    ranks = launch.ranks_here(3)
    shares = partial(shares_on_ranks, pass_on=pass_on, full=_tensor)
    tried = launch.run(on_every_size, shares, ranks=ranks, timeout=patience)
    for p in range(min(ranks, 8), 0, -1):
        _expect_home([tried[rank][p] for rank in range(p)], counted(p, "real rank"))


def _tensor(length: int, value: float) -> torch.Tensor:
    return torch.full((length,), value, dtype=torch.float64)


def _expect_home(results: Sequence, where: str) -> None:
    p = len(results)
    for rank, got in enumerate(results):
        early = f"{where}, rank {rank}: `arriving` was read before its receive had completed."
        expect(not np.isnan(got).any(), f"{early} First wait, then add, then launch.")
        digits = [10.0**other * (rank + 1) for other in range(p)]
        slips = {
            "only the left neighbor's share arrives: add what has arrived to `share`": [
                digits[rank - 1]
            ]
            * 3,
            "nothing arrives: receive into `arriving`": [0.0] * 3,
        }
        what = f"{where}: rank {rank}'s gradient (a digit for each rank)"
        expect.equal(got, [sum(digits)] * 3, what, slips=slips)


# -- attention on a ring of ranks


class Parts(NamedTuple):
    """The notebook's functions, of which attention on a ring is made; the last two for its backward
    pass."""

    partial: Callable
    merge: Callable
    ring: Callable
    back: Callable | None = None
    pass_on: Callable | None = None


def pairs(own: Sequence[int], theirs: Sequence[int], causal: bool) -> Iterator[tuple]:
    """(place among own chunks, place among theirs, on the diagonal) of the pairs to compute."""
    for mine, query in enumerate(own):
        for its, key in enumerate(theirs):
            if not causal or query >= key:
                yield mine, its, causal and query == key


def _mask(chunk: torch.Tensor, diagonal: bool) -> torch.Tensor | None:
    n = chunk.shape[-2]
    return torch.ones(n, n, dtype=torch.bool, device=chunk.device).tril() if diagonal else None


def forward(comm, parts: Parts, q, block, owned: Callable, causal: bool = True) -> tuple:
    """(output, log-sum-exp) of this rank's queries. q (2 chunks, heads, n, size); block (keys and
    values, 2 chunks, heads, n, size). owned(rank, ranks): numbers of its two chunks."""
    own = owned(comm.rank, comm.size)
    done = [nothing(chunk) for chunk in q]

    def visit(block, owner) -> None:
        keys, values = block
        for i, j, diagonal in pairs(own, owned(owner, comm.size), causal):
            part = parts.partial(q[i], keys[j], values[j], _mask(q[i], diagonal))
            done[i] = parts.merge(done[i], part)

    parts.ring(comm, block.clone(), torch.empty_like(block), visit)
    outputs, log_sums = zip(*map(finish, done), strict=True)
    return torch.stack(outputs), torch.stack(log_sums)


def backward(comm, parts: Parts, q, block, finished, gradient, owned, causal: bool = True) -> tuple:
    """(gradient of q, of block), from that of the output. finished: what `forward` returned."""
    output, log_sum = finished
    own = owned(comm.rank, comm.size)
    delta = (gradient * output).sum(-1, keepdim=True)
    of_q = torch.zeros_like(q)
    arriving = torch.zeros_like(block)
    launched = []

    def visit(block, owner) -> None:
        keys, values = block
        share = torch.zeros_like(block)
        for i, j, diagonal in pairs(own, owned(owner, comm.size), causal):
            rows = (q[i], keys[j], values[j], gradient[i], log_sum[i], delta[i])
            three = parts.back(*rows, _mask(q[i], diagonal))
            of_q[i] += three[0]
            share[0, j] += three[1]
            share[1, j] += three[2]
        launched[:] = parts.pass_on(comm, share, arriving, list(launched))

    parts.ring(comm, block.clone(), torch.empty_like(block), visit)
    for request in launched:
        request.Wait()
    return of_q, arriving


def whole_attention(q, k, v, causal: bool = True) -> torch.Tensor:
    """By PyTorch, all at once: what a ring is compared with."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def own_chunks(whole: torch.Tensor, chunks: Sequence[int], ranks: int) -> torch.Tensor:
    """(2, heads, n, size): these chunks of (heads, positions, size)."""
    every = whole.chunk(2 * ranks, dim=-2)
    return torch.stack([every[chunk] for chunk in chunks])


class Counted(PassOn):
    """A communicator that passes everything on, and counts the bytes of Isend."""

    sent = 0

    def Isend(self, buf, dest: int, tag: int = 0):
        self.sent += buf.nbytes
        return self.comm.Isend(buf, dest, tag)


class Compared(NamedTuple):
    """errors: what -> the largest error, as a share of the largest value that is right. sent: bytes
    in the forward pass, and in the backward pass. device: where the tensors were."""

    errors: dict[str, float]
    sent: tuple[int, int]
    device: str


def _drawn(heads: int, positions: int, size: int) -> torch.Tensor:
    """q, k, v, and a gradient of the output, the same on all ranks."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4, heads, positions, size, generator=generator, dtype=torch.float64)
    return drawn.to(world.device())


@launch.on_devices()
def compare_ways(comm, ways: Mapping[str, tuple], heads: int, chunk: int, size: int) -> dict:
    """Ways of attention over ranks, each beside PyTorch's on all positions.

    ways: name -> (Parts, owned, causal), compared forward and back, or forward alone where the
    parts have no `back`. Returns name -> Compared.
    """
    q, k, v, gradient = _drawn(heads, 2 * comm.size * chunk, size)
    results = {}
    for way, (parts, owned, causal) in ways.items():
        leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
        output = whole_attention(*leaves, causal)
        own = owned(comm.rank, comm.size)
        cut = partial(own_chunks, chunks=own, ranks=comm.size)
        counted_comm = Counted(comm)
        block = torch.stack([cut(k), cut(v)])
        finished = forward(counted_comm, parts, cut(q), block, owned, causal)
        there = counted_comm.sent
        beside = {"output": (finished[0], output.detach())}
        if parts.back:
            output.backward(gradient)
            of_q, of_block = backward(
                counted_comm, parts, cut(q), block, finished, cut(gradient), owned, causal
            )
            got = (of_q, *of_block)
            for what, mine, leaf in zip(("dQ", "dK", "dV"), got, leaves, strict=True):
                beside[what] = (mine, leaf.grad)
        errors = {}
        for what, (mine, right) in beside.items():
            off = float((mine - cut(right)).abs().max() / right.abs().max())
            errors[what] = max(comm.allgather(off))
        sent = (there, counted_comm.sent - there)
        results[way] = Compared(errors, sent, str(world.device()))
    return results


def record_compared(what: str, results: Mapping[str, Compared], ranks: int) -> None:
    """One record for each way. what: what is compared, in front of the way."""
    for way, compared in results.items():
        measured = {"errors": compared.errors, "sent": compared.sent, "trained_on": compared.device}
        record.add("compared", ranks=ranks, way=f"{what}{way}", **measured)


@launch.on_devices()
def compare_output(comm, attention: Callable, causal: bool, heads: int, positions: int, size: int):
    """The output of attention(comm, q, k, v), of which each rank has neighboring positions, beside
    PyTorch's on all positions, as a Compared."""
    q, k, v, _ = _drawn(heads, positions, size)
    counted_comm = Counted(comm)
    mine = [tensor.chunk(comm.size, dim=1)[comm.rank] for tensor in (q, k, v)]
    right = whole_attention(q, k, v, causal).chunk(comm.size, dim=1)[comm.rank]
    output = attention(counted_comm, *mine)
    off = float((output - right).abs().max() / right.abs().max())
    errors = {"output": max(comm.allgather(off))}
    return Compared(errors, (counted_comm.sent, 0), str(world.device()))


# -- Ulysses


def all_to_all(comm, tensor: torch.Tensor, cut: int, join: int) -> torch.Tensor:
    """Part r along axis `cut` goes to rank r; what comes from all ranks is joined along `join`."""
    give = [part.contiguous() for part in tensor.chunk(comm.size, cut)]
    take = [torch.empty_like(part) for part in give]
    take[comm.rank] = give[comm.rank]
    requests = []
    for distance in range(1, comm.size):
        source = (comm.rank - distance) % comm.size
        dest = (comm.rank + distance) % comm.size
        requests += [comm.Irecv(take[source], source=source), comm.Isend(give[dest], dest=dest)]
    for request in requests:
        request.Wait()
    return torch.cat(take, join)


# -- on the virtual cluster


WAYS = ("ring", "allgather", "Ulysses")


class Model(NamedTuple):
    """A layer's attention. hidden: numbers of the queries of a position, all heads. kv: of its
    keys, and of its values. size: bytes of a number. flops: operations per second of a rank."""

    hidden: int
    kv: int
    size: int
    flops: float

    def visit(self, own: float) -> float:
        """Seconds of two of the four pairs of chunks, with `own` positions on each rank."""
        return 2 * own**2 * self.hidden / self.flops


def layer_run(ring, way: str, n: float, ranks: int, model: Model, cluster=None) -> virtual.Run:
    """The forward pass of a layer's causal attention, with n positions. cluster: a machine with a
    rank on each node, or a Cluster."""
    own = n / ranks
    if not isinstance(cluster, virtual.Cluster):
        cluster = virtual.Cluster(nodes=ranks, machine=cluster)

    def numbers(each: float) -> np.ndarray:
        return virtual.vector(np.ones(ranks), stands_for=own * each * model.size)

    def by_ring(comm) -> None:
        block = numbers(2 * model.kv)
        visit = model.visit(own)
        ring(comm, block, np.zeros_like(block), lambda held, owner: comm.compute(visit))

    def by_allgather(comm) -> None:
        block = numbers(2 * model.kv)
        comm.Allgather(block, np.concatenate([block] * ranks))
        comm.compute(ranks * model.visit(own))

    def by_ulysses(comm) -> None:
        for each in (model.hidden, model.kv, model.kv):
            given = numbers(each)
            comm.Alltoall(given, np.zeros_like(given))
        comm.compute(ranks * model.visit(own))
        given = numbers(model.hidden)
        comm.Alltoall(given, np.zeros_like(given))

    return cluster.run(dict(zip(WAYS, (by_ring, by_allgather, by_ulysses), strict=True))[way])


def hidden_from(ring, ranks: int, model: Model, cluster: virtual.Cluster) -> float:
    """Positions from which a simulated ring takes at most 1 % longer than computing alone, within
    half a percent."""
    low, high = 1e2, 1e8
    while high / low > 1.005:
        n = (low * high) ** 0.5
        hidden = layer_run(ring, "ring", n, ranks, model, cluster).time
        if hidden < 1.01 * ranks * model.visit(n / ranks):
            high = n
        else:
            low = n
    return high


def pairs_by_step(
    ways: Mapping[str, Callable], work: Callable, ranks: int
) -> dict[tuple[str, str], list[float]]:
    """(Way, rank or "slowest") -> pairs of chunks to compute in each step. ways: name -> owned."""
    table = {}
    for way, owned in ways.items():
        of_ranks = [
            [work(owned(rank, ranks), owned((rank - step) % ranks, ranks)) for step in range(ranks)]
            for rank in range(ranks)
        ]
        table |= {(way, f"rank {rank}"): steps for rank, steps in enumerate(of_ranks)}
        table[way, "slowest"] = [max(step) for step in zip(*of_ranks, strict=True)]
    return table


def balance_run(ring, owned: Callable, ranks: int) -> virtual.Run:
    """A causal ring of virtual ranks, 1 ms for a pair of chunks, 1 ms for a message."""

    def program(comm) -> None:
        own = owned(comm.rank, comm.size)
        block = virtual.vector(np.ones(4), stands_for=1e6)

        def visit(held, owner) -> None:
            comm.compute(1e-3 * _work(own, owned(owner, comm.size)))

        ring(comm, block, np.zeros_like(block), visit)

    return virtual.Cluster(nodes=ranks).run(program)


# -- times on real ranks


def sleep_through(comm, ring, ways: Mapping[str, tuple], nap: float, repeat: int) -> dict:
    """Times of rings whose ranks sleep in place of computing, `nap` seconds for a pair of chunks.

    ways: name -> (owned, work), functions as in 67.3.
    """

    def around(owned: Callable, work: Callable) -> None:
        block = np.zeros(4096)
        own = owned(comm.rank, comm.size)

        def visit(held, owner) -> None:
            time.sleep(nap * work(own, owned(owner, comm.size)))

        ring(comm, block, np.empty_like(block), visit)

    calls = {way: partial(around, *functions) for way, functions in ways.items()}
    return timing.in_turns(calls, comm=comm, repeat=repeat)
