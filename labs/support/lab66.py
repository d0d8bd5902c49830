"""Lab 66: checks; an MoE layer that is trained; its layouts; exchanges on the virtual cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import virtual
from labkit import check, data, expect, launch, record, timing, world
from labkit.counting import CallLog, PassOn, on_every_size
from labkit.errors import CheckFailed, counted
from labkit.sequence_parallel import Gather, Scatter
from torch.nn import functional


@check.exercise("66.1")
def choices_weights_and_loss(route, balance_loss):
    """The right experts and weights that add up to 1; the loss by its formula, also for choices
    that are not the scores' own; the gradients of both."""
    for tokens, count, k in ((5, 4, 2), (7, 6, 3), (3, 4, 1)):
        where = f"{tokens} tokens, {count} experts, k = {k}"
        scores = torch.randn(tokens, count, generator=torch.Generator().manual_seed(count))
        before = scores.clone()
        scores.requires_grad_()
        weights, experts = route(scores, k)
        for name, tensor in (("weights", weights), ("experts", experts)):
            expect(torch.is_tensor(tensor), f"{where}: the {name} are no tensor.")
            expect.equal(tuple(tensor.shape), (tokens, k), f"{where}: shape of the {name}")
        order = "`route` returns the weights first, then the experts, which are whole numbers."
        expect(not experts.is_floating_point(), f"{where}: {order}")
        expect.unchanged(before, scores.detach(), f"{where}: `scores`")
        dense = scores.softmax(dim=1)
        best = dense >= dense.sort(dim=1).values[:, -k][:, None]
        want = _shares(dense * best)
        got = torch.zeros(tokens, count).scatter(1, experts, weights.detach())
        slips = {
            "these are the probabilities: divide them by their sum": dense * best,
            "this is the softmax of probabilities: divide them by their sum": _shares(
                dense.exp() * best
            ),
        }
        for number in range(tokens):
            chosen = sorted(experts[number].tolist())
            right = best[number].nonzero()[:, 0].tolist()
            expect.equal(chosen, right, f"{where}: experts of token {number}")
        expect.close(got, want, f"{where}: weights, by token and expert", slips=slips)
        lost = f"{where}: no gradient flows from the weights to the scores."
        expect(weights.requires_grad, lost)
        numbers = 1.0 + torch.arange(count)
        pair = (weights * numbers[experts]).sum(), (want * numbers).sum()
        _expect_gradient(*pair, scores, f"{where}: weights")
        _expect_loss(balance_loss, scores, (experts + 1) % count, where)
        expect.unchanged(before, scores.detach(), f"{where}: `scores`, after balance_loss,")
    scores = torch.tensor([[2.0, 1.0, 0.0, -9.0], [0.0, 2.0, 1.0, -9.0]], requires_grad=True)
    where = "2 tokens, 4 experts, k = 2, the last expert not chosen"
    _expect_loss(balance_loss, scores, torch.tensor([[0, 1], [1, 2]]), where)
    even = balance_loss(torch.zeros(4, 4), torch.arange(4)[:, None])
    expect.close(even, 1.0, "balance_loss, where probabilities and choices are even")


def _shares(values: torch.Tensor) -> torch.Tensor:
    return values / values.sum(dim=1, keepdim=True)


def _expect_gradient(got, want, scores, what: str) -> None:
    gradients = (torch.autograd.grad(each, scores, retain_graph=True)[0] for each in (got, want))
    detached = "The values are right, so a part of them is detached from the scores."
    what = f"{what}: gradient of the scores"
    expect.close(*gradients, what, rtol=1e-3, atol=1e-5, because=detached)


def _expect_loss(balance_loss, scores, experts, where: str) -> None:
    count = scores.shape[1]
    probability = scores.softmax(dim=1).mean(dim=0)
    want = _balance(scores, experts)
    own = scores.topk(experts.shape[1], dim=1)[1]
    slips = {
        "E times too small: a mean in place of the sum, or the factor E is missing": want / count,
        "a share is of all k choices of all tokens": want * experts.shape[1],
        "f is the share of choices, not of probability": count * (probability**2).sum(),
        "count the choices in `experts`, not the experts with the best scores": _balance(
            scores, own
        ),
    }
    try:
        got = balance_loss(scores, experts)
    except RuntimeError as error:
        fewer = f"{where}: {error}. Has `share` a number for each expert? (`minlength`)"
        expect(int(experts.max()) + 1 == count, fewer)
        raise
    shape = f"{where}: balance_loss returns {np.size(got)} values: add up over the experts."
    expect(got is None or np.ndim(got) == 0, shape)
    expect.close(got, want, f"{where}: balance_loss", slips=slips)
    lost = f"{where}: no gradient flows from balance_loss to the scores."
    expect(torch.is_tensor(got) and got.requires_grad, lost)
    _expect_gradient(got, want, scores, f"{where}: balance_loss")


def _balance(scores, experts) -> torch.Tensor:
    count = scores.shape[1]
    chosen = torch.stack([(experts == number).float().mean() for number in range(count)])
    return count * (chosen * scores.softmax(dim=1).mean(dim=0)).sum()


# -- 66.2


class Sent(PassOn):
    """A communicator that passes everything on and adds up the bytes that this rank sends to
    others, by whichever call."""

    nbytes = 0.0

    def __getattr__(self, name: str):
        method = super().__getattr__(name)
        if not callable(method):
            return method

        def call(*args, **options):
            self.nbytes += self._leaving(name, *args, *options.values())
            return method(*args, **options)

        return call

    def _leaving(self, name: str, give=None, dest=None, *_) -> float:
        kind = _kind(name)
        if kind in ("send", "ssend", "sendrecv"):
            return _nbytes(give) if dest != self.rank else 0
        if kind == "alltoallv":
            counts = _counts(give[1])
            return (sum(counts) - counts[self.rank]) * give[0].itemsize
        if name in ("alltoall", "ialltoall"):  # of objects, one for each rank
            return _nbytes(give) - _nbytes(give[self.rank])
        if kind in ("alltoall", "reduce_scatter_block"):
            return _nbytes(give) * (self.size - 1) / self.size
        return _nbytes(give) * (self.size - 1) if kind.startswith("allgather") else 0


def _kind(name: str) -> str:
    """The name of a call without case, and without the i of those that return a request."""
    return name.lower().removeprefix("i")


def _nbytes(given) -> int:
    """Of an array, or of all arrays in a list."""
    if isinstance(given, list | tuple):
        return sum(map(_nbytes, given))
    return getattr(given, "nbytes", 0)


def _counts(given) -> list[int]:
    """The counts of mpi4py's `counts`, or of its `(counts, displacements)`."""
    return [int(number) for number in (given[0] if np.ndim(given[0]) else given)]


WIDE = 3  # numbers of a row that is sent


class Agreed(Sent, CallLog):
    """A communicator that compares the collectives of all ranks before they begin, as MPI would
    hang, or end the ranks without a reason. sent, received: rows of this rank."""

    def __init__(self, comm, sent: Sequence[int], received: Sequence[int]):
        super().__init__(comm)
        self.among = comm.Dup()  # for what the ranks tell each other here
        self.lists = [[WIDE * int(rows) for rows in each] for each in (sent, received)]

    def __getattr__(self, name: str):
        method = super().__getattr__(name)
        if not _kind(name).startswith(("alltoall", "allgather")):
            return method

        def call(*args, **options):
            buffers = [*args, *options.values()][:2]
            counts = self._counts_of(*buffers) if _kind(name) == "alltoallv" else ()
            if name in ("Alltoall", "Ialltoall"):
                give, take = (side[0] if isinstance(side, list) else side for side in buffers)
                equal = (
                    math.prod(give.shape) == math.prod(take.shape) and len(give) % self.size == 0
                )
                told = "`Alltoall` sends equally long parts. The lengths differ: use Alltoallv."
                expect(equal, told)
            self.calls.append(name)  # as the comparison may fail
            self._agree(name, counts)
            return method(*args, **options)

        return call

    @property
    def asked(self) -> bool:
        """Whether this rank has called anything but the exchange of rows."""
        return any(_kind(name) != "alltoallv" for name in self.calls)

    def end(self) -> None:
        """The learner's function is over on this rank."""
        self._agree("")
        self.expect_waited()

    def _counts_of(self, give, take) -> list[list[int]]:
        if not all(isinstance(side, list | tuple) for side in (give, take)):
            told = "Alltoallv takes [tensor, counts] from both sides, or it sends equal parts."
            raise CheckFailed(told)
        counts = [_counts(side[1]) for side in (give, take)]
        for does, numbers, side in zip(("sends", "receives"), counts, (give, take), strict=True):
            size = math.prod(side[0].shape)
            what = (
                f"Alltoallv: rank {self.rank} {does} {sum(numbers)} numbers by its counts, and the"
                f" rows have {size} numbers."
            )
            of_rows = sum(numbers) == len(side[0]) != size
            expect(not of_rows, f"{what} MPI counts numbers, and a row has `width` of them.")
            exchanged = (
                "Are `sent` and `received` exchanged? Their roles are exchanged in the backward"
                " pass and in `combine`, and only there."
            )
            missing = "The counts must cover all rows, also those that a rank sends to itself."
            hint = exchanged if numbers in self.lists else missing
            expect(sum(numbers) == size, f"{what} {hint}")
        return counts

    def _agree(self, call: str, counts: Sequence = ()) -> None:
        """Compare this call ("" for none) and its counts with those of all ranks."""
        everywhere = self.among.allgather((call, counts))
        names = [name for name, _ in everywhere]
        caller = next((rank for rank, name in enumerate(names) if name), 0)
        for rank, name in enumerate(names):
            if name != names[caller]:
                raise CheckFailed(
                    f"Rank {caller} calls {names[caller]}, and rank {rank}"
                    f" {f'calls {name} instead' if name else 'does not'}. All ranks must take part"
                    " in a collective, also those that have nothing to send or to receive."
                )
        if not counts:
            return
        for source, (_, (sent, _)) in enumerate(everywhere):
            for dest, (_, (_, room)) in enumerate(everywhere):
                if sent[dest] != room[source]:
                    raise CheckFailed(
                        f"Alltoallv: rank {source} sends {sent[dest]} numbers to rank {dest}, which"
                        f" receives {room[source]} from it. The counts of the two sides differ."
                        " What a rank receives is what others send, not what it sends itself."
                    )


@contextmanager
def _case(words: str) -> Iterator[None]:
    """check.case, whose words stand before what a CheckFailed says, too."""
    with check.case(words):
        try:
            yield
        except CheckFailed as error:
            raise CheckFailed(f"{words}: {error}") from None


def _rows(source: int, dest: int, number: int) -> torch.Tensor:
    """The rows from one rank to another: whole numbers that tell which."""
    first = 1 + 100.0 * source + 10 * dest + torch.arange(number)[:, None]
    return torch.cat([first, -first, first + 0.5], dim=1)


def _try_exchange(exchange: Callable, Exchange: type, comm) -> dict[str, tuple]:
    """What came of both on a rank, (got, want)."""
    values = {}
    for routing, idle in (("with rows on all ranks", None), ("without rows from or to rank 0", 0)):
        numbers = [
            [(2 * a + 3 * b + 1) % 4 * (idle not in (a, b)) for b in range(comm.size)]
            for a in range(comm.size)
        ]
        sent = numbers[comm.rank]
        received = [row[comm.rank] for row in numbers]
        own = torch.cat([_rows(comm.rank, dest, rows) for dest, rows in enumerate(sent)])
        own.requires_grad_()
        want = torch.cat([_rows(source, comm.rank, rows) for source, rows in enumerate(received)])
        agreed = Agreed(comm, sent, received)
        with _case(routing):
            arrived = exchange(agreed, own, sent, received)
            agreed.end()
            nbytes = agreed.nbytes
        with _case(f"{routing}, backward pass"):
            Exchange.apply(own, agreed, sent, received).backward(3 * want)
            agreed.end()
        to_others = 4 * WIDE * (sum(sent) - sent[comm.rank])
        values |= {
            f"{routing}: rows that arrive": (arrived.detach().numpy(), want.numpy()),
            f"{routing}: gradient of the rows": (own.grad.numpy(), 3 * own.detach().numpy()),
            f"{routing}: bytes that it sends to other ranks": (nbytes, to_others),
        }
    return values


@check.exercise("66.2")
def rows_there_and_gradients_back(exchange, Exchange, most, patience):
    """Rows arrive from every rank, and their gradients come back, for every size of a group. No
    rank sends more than its rows, and one without rows takes part."""
    ranks = launch.ranks_here(most)
    function = partial(_try_exchange, exchange, Exchange)
    tried = launch.run(on_every_size, function, ranks=ranks, threads=1, timeout=patience)
    reason = "Send each row only to its own rank, as Alltoallv does"
    for size in reversed(tried[0]):
        for rank in range(size):
            for what, (got, want) in tried[rank][size].items():
                because = reason if "bytes" in what else ""
                where = f"{counted(size, 'rank')}, rank {rank}, {what}"
                expect.close(got, want, where, because=because)


# -- 66.3


EACH = 3  # experts of a rank, and of a token, where dispatch and combine are tried
MIXED = "mixed"
UNEVEN = "all to the last rank, none from rank 0 or from a rank's last token"


def _choices(rank: int, size: int, routing: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    """experts and tokens of a rank's choices, in no order, and how many tokens the rank has."""
    tokens = 4 + rank if routing == MIXED or rank or size == 1 else 1
    token = torch.arange(tokens).repeat_interleave(EACH)
    choice = torch.arange(EACH).repeat(tokens)
    if routing == MIXED:
        experts = (5 * token + 3 * rank + 1 + choice * (1 + token % 2)) % (EACH * size)
    else:
        experts = EACH * size - 1 - choice
    order = torch.randperm(len(token), generator=torch.Generator().manual_seed(rank))
    if routing == UNEVEN:
        order = order[token[order] < tokens - 1]
    return experts[order], token[order], tokens


def _try_trip(dispatch: Callable, combine: Callable, comm) -> dict[str, tuple]:
    """What dispatch and combine gave on a rank: what -> (got, want, slips)."""
    values = {}
    for routing in (MIXED, UNEVEN):
        with _case(f"routing: {routing}"):
            tried = _try_routing(dispatch, combine, routing, comm)
        values |= {f"routing: {routing}: {what}": each for what, each in tried.items()}
        right = all(np.array_equal(got, want) for got, want, _ in tried.values())
        if not all(comm.allgather(right)):
            break
    return values


def _try_routing(dispatch: Callable, combine: Callable, routing: str, comm) -> dict[str, tuple]:
    count = EACH * comm.size
    experts, token, tokens = _choices(comm.rank, comm.size, routing)
    numbers = torch.arange(len(experts))
    weights = (1.0 + numbers % 4).requires_grad_()
    rows = (100.0 * comm.rank + numbers[:, None].repeat(1, WIDE)).requires_grad_()
    unsorted, coming, lengths = [], [], []
    for source in range(comm.size):
        theirs, _, _ = _choices(source, comm.size, routing)
        mine = (theirs // EACH == comm.rank).nonzero()[:, 0]
        unsorted.append(100.0 * source + mine)
        mine = mine[theirs[mine].argsort(stable=True)]
        coming.append(torch.stack([100.0 * source + mine, theirs[mine]], dim=1))
        lengths.append([int((theirs == EACH * comm.rank + own).sum()) for own in range(EACH)])
    sent = torch.bincount(experts // EACH, minlength=comm.size).tolist()
    agreed = Agreed(comm, sent, [sum(each) for each in lengths])
    arrived, arriving, way_back = _dispatched(dispatch, agreed, rows, experts, count)
    coming = torch.cat(coming)
    want = coming[:, :1].repeat(1, WIDE)
    right = arrived.shape == want.shape
    if right:  # in any order within an expert
        blocks = arrived.split(sum(lengths, []))
        right = torch.equal(torch.cat([block.sort(dim=0)[0] for block in blocks]), want)
    slips = {"they are not sorted by expert": torch.cat(unsorted)[:, None].repeat(1, WIDE).numpy()}
    values = {
        "rows that arrive": ((want if right else arrived.detach()).numpy(), want.numpy(), slips),
        "`arriving`": (arriving.numpy(), np.array(lengths), {}),
    }
    if not all(comm.allgather(right)):
        return values
    done = arrived * (1 + coming[:, 1:])
    result = combine(agreed, done, weights, token, tokens, way_back)
    agreed.end()
    factors = 1.0 + experts[:, None]
    plain = (factors * rows).detach()
    scale = weights.detach()[:, None]
    order = experts.argsort(stable=True)
    sums = {
        words: torch.zeros(tokens, WIDE).index_add(0, into, each).numpy()
        for words, into, each in (
            ("right", token, plain * scale),
            ("the rows are not multiplied by their weights", token, plain),
            ("the rows are still in the order of sending", token, plain[order] * scale),
            (
                "rows[order] sorts once more: undo with order.argsort()",
                token,
                plain[order][order] * scale,
            ),
            (
                "the weights are in the order of sending, and the rows are not",
                token,
                plain * scale[order],
            ),
            (
                "`token` says to which token a row belongs; neighbors may belong to different ones",
                token.sort()[0],
                plain * scale,
            ),
        )
    }
    values["the sum for each token"] = (result.detach().numpy(), sums.pop("right"), sums)
    gradient = 1.0 + torch.arange(tokens)[:, None].repeat(1, WIDE)
    with _case("backward pass"):
        if result.requires_grad and result.shape == gradient.shape:
            result.backward(gradient)
        agreed.end()
    of_rows = gradient[token] * factors * scale
    of_weights = (gradient[token] * plain).sum(dim=1)
    for name, tensor, want in (("rows", rows, of_rows), ("weights", weights, of_weights)):
        got = None if tensor.grad is None else tensor.grad.numpy()
        values[f"the gradient of the {name}"] = (got, want.numpy(), {})
    return values


def _dispatched(dispatch: Callable, agreed: Agreed, rows, experts, count: int):
    unknown = (
        "`dispatch` sends rows before the ranks have told each other how many there are, so that"
        " `arriving` is memory that nobody has filled. Exchange the counts first."
    )
    try:
        given = dispatch(agreed, rows, experts, count)
    except Exception:
        agreed.expect_waited()
        expect(agreed.asked, unknown)
        raise
    agreed.end()
    expect(agreed.asked, unknown)
    return given


@check.exercise("66.3")
def as_one_device_computes(dispatch, combine, most, patience):
    """What arrives, the sums and all gradients are those of one device, for every size of a group,
    for tokens in any order, and for a routing that leaves ranks and tokens without rows.
    """
    ranks = launch.ranks_here(most)
    trip = partial(_try_trip, dispatch, combine)
    tried = launch.run(on_every_size, trip, ranks=ranks, threads=1, timeout=patience)
    for size in reversed(tried[0]):
        for rank in range(size):
            for what, (got, want, slips) in tried[rank][size].items():
                where = f"{counted(size, 'rank')}, rank {rank}, {what}"
                lost = f"{where} is lost. Does the exchange go through Exchange.apply, and is"
                expect(got is not None, f"{lost} nothing detached?")
                expect.close(got, want, where, slips=slips)


@check.exercise("66.4")
def first_come_first_served(capacity_of, kept):
    """Capacities are rounded up; each expert keeps its first choices."""
    for tokens, k, count, factor, want in ((64, 2, 8, 1.0, 16), (64, 2, 8, 1.25, 20),
                                           (10, 2, 8, 1.0, 3), (4, 2, 3, 2.0, 6),
                                           (9, 2, 8, 1.25, 3), (10, 1, 4, 1.25, 4),
                                           (0, 2, 8, 1.0, 0)):  # fmt: skip
        what = f"capacity of {count} experts for {tokens} tokens, k = {k}, factor {factor}"
        slips = {
            "round once, at the end": math.ceil(int(factor * k * tokens) / count),
            "round up": want - 1,
            "each token makes k choices": math.ceil(want / k),
            "round up once, at the end": math.ceil(factor * math.ceil(k * tokens / count)),
            "the formula has no other limit": min(tokens, want) if tokens else 1,
        }
        expect.equal(capacity_of(tokens, k, count, factor), want, what, slips=slips)
    for experts, count, capacity in (
        ([1, 0, 1, 1, 0, 2, 1, 0, 0, 1], 4, 2),
        ([3, 3, 3, 0, 3], 4, 1),
        ([0, 1, 2, 0, 1, 2], 3, 5),
        ([2, 2], 3, 0),
    ):
        given = torch.tensor(experts)
        want = [experts[:place].count(own) < capacity for place, own in enumerate(experts)]
        later = [experts[place + 1 :].count(own) < capacity for place, own in enumerate(experts)]
        slips = {
            "one choice too few": [
                experts[:place].count(own) < capacity - 1 for place, own in enumerate(experts)
            ],
            "these are the last choices of each expert": later,
            "each expert has a queue of its own": [place < capacity for place in range(len(want))],
        }
        got = torch.as_tensor(kept(given, count, capacity))
        truth = f"`kept` returns True or False for each choice, not {got.dtype}: compare."
        expect(got.dtype == torch.bool, truth)
        expect.equal(
            got.tolist(), want, f"experts {experts}, capacity {capacity}: kept", slips=slips
        )
        expect.equal(given.tolist(), experts, "`experts` after the call")


@check.exercise("66.5")
def the_slower_hop(exchange_seconds):
    """The seconds of the cost model, for layouts in a node and on several."""
    other = DEEPSEEK_V3._replace(hidden=1000, tokens=10, limit=2)
    slow = GPUs(inside=100e9, between=3e9)
    pairs = ((1, 64), (1, 8), (2, 4), (8, 1), (8, 8), (4, 8), (1, 2), (1, 16), (2, 16))
    for net, gpus in (
        (DEEPSEEK_V3, H800),
        (DEEPSEEK_V3, slow),
        (other, GPUs(inside=9e9, between=8e9)),
    ):
        for layout in map(Layout._make, pairs):
            ranks = layout.tensor * layout.expert
            inside = net.groups_of_a_token(layout) * layout.tensor / gpus.inside
            of_g = 1 - 1 / min(8, ranks)
            nodes = max(1, ranks // 8)
            between = net.nodes_of_a_token(nodes) / gpus.between
            others = 1 - 1 / nodes
            uncut = max(1, layout.expert / 8)
            nbytes = 6 * net.hidden * net.tokens
            want = nbytes * max(of_g * inside, others * between)
            slips = {
                "the slower hop decides, not the sum of both": of_g * inside + others * between,
                "all `tensor` GPUs of a group need a row": max(
                    of_g * inside / layout.tensor, others * between
                ),
                "a part of the rows stays on the own node": max(of_g * inside, between),
                "one GPU has a row already": max(inside, others * between),
                "`nodes_of_a_token` takes the number of nodes, not of GPUs": max(
                    of_g * inside, others * net.nodes_of_a_token(ranks) / gpus.between
                ),
                "a layout has tensor · expert GPUs": max(
                    of_g * inside,
                    (1 - 1 / uncut) * net.nodes_of_a_token(uncut) / gpus.between,
                ),
            }
            slips = {words: nbytes * value for words, value in slips.items()}
            slips["forward and backward pass, please"] = want / 2
            what = f"layout {tuple(layout)}, hidden {net.hidden}, {gpus}: seconds"
            expect.close(exchange_seconds(net, layout, gpus), want, what, slips=slips)


# -- training


EMBEDDED = 8  # numbers of a character
BEFORE = 8  # characters that are seen
WIDTH = EMBEDDED * BEFORE
INNER = 2 * WIDTH


class Net(NamedTuple):
    """The net that is trained. count, chosen: experts, and those of a token. tokens: of a rank in
    a step. parts: ranks among which the batch is divided, in whatever number of processes."""

    count: int
    chosen: int
    tokens: int
    steps: int
    parts: int


class Functions(NamedTuple):
    """moe(comm, x, scores, own, k), route(scores, k) and balance_loss(scores, experts)."""

    moe: Callable
    route: Callable
    balance_loss: Callable


class Trained(NamedTuple):
    """What came of a training.

    losses, imbalances: of each step; the busiest expert's load as a multiple of the mean. experts:
    the choices of each part in the last step. device: where this rank's tensors were.
    """

    losses: list[float]
    imbalances: list[float]
    experts: list[np.ndarray]
    count: int
    device: str

    @property
    def imbalance(self) -> float:
        """The mean over the last ten steps."""
        return float(np.mean(self.imbalances[-10:]))

    def dropped(self, kept: Callable, capacity: int) -> float:
        """The share of the last step's choices that experts of this capacity would drop."""
        stays = [
            torch.as_tensor(kept(torch.from_numpy(experts), self.count, capacity))
            for experts in self.experts
        ]
        return 1 - float(torch.cat(stays).float().mean())


def training_table(
    on_ranks: Mapping[str, Trained], whole: Mapping[str, Trained]
) -> dict[str, dict[str, float]]:
    """Way -> what its training on ranks gave, and how far it is from that in one process."""
    table = {}
    for way, result in on_ranks.items():
        losses = np.abs(np.subtract(result.losses, whole[way].losses))
        table[way] = {
            "last loss": result.losses[-1],
            "losses, difference to one process": float(losses.max()),
            "busiest expert / mean": result.imbalance,
        }
    return table


def imbalance_at_random(net: Net, draws: int = 200) -> float:
    """The busiest expert's load as a multiple of the mean, on average, if choices are random."""
    generator = torch.Generator().manual_seed(0)
    ratios = []
    for _ in range(draws):
        scores = torch.rand(net.parts * net.tokens, net.count, generator=generator)
        experts = scores.topk(net.chosen, dim=1)[1].flatten()
        load = torch.bincount(experts, minlength=net.count)
        ratios.append(float(load.max() / load.float().mean()))
    return float(np.mean(ratios))


def in_tens(values: Sequence[float]) -> dict[int, float]:
    """Step -> the mean of this and the following nine, for every tenth step."""
    return {
        begin: float(np.mean(values[begin : begin + 10])) for begin in range(0, len(values), 10)
    }


def whole(route: Callable, balance_loss: Callable) -> Functions:
    """The layer as one process computes it: every expert for its own choices, without exchanges."""

    def moe(comm, x, scores, own, k):
        return _by_all_experts(x, *route(scores, k), own)

    return Functions(moe, route, balance_loss)


def by_experts(arrived, arriving, own) -> torch.Tensor:
    """Apply to each row the expert that it came for. arriving: of `dispatch`. own: (up, down) of
    this rank's experts."""
    numbers = torch.arange(arriving.shape[1], device=arriving.device).repeat(len(arriving))
    expert_of_row = numbers.repeat_interleave(arriving.flatten())
    done = torch.zeros_like(arrived)
    for number, pair in enumerate(own):
        places = (expert_of_row == number).nonzero()[:, 0]
        done = done.index_add(0, places, _one_expert(arrived[places], *pair))
    return done


def _by_all_experts(x, weights, experts, own) -> torch.Tensor:
    result = torch.zeros_like(x)
    for number, pair in enumerate(own):
        token, place = (experts == number).nonzero(as_tuple=True)
        rows = weights[token, place][:, None] * _one_expert(x[token], *pair)
        result = result.index_add(0, token, rows)
    return result


def _one_expert(rows, up, down) -> torch.Tensor:
    return functional.linear(functional.gelu(functional.linear(rows, up)), down)


def drawn_experts(count: int, width: int, inner: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The same (up, down) of all experts, on every rank."""
    generator = torch.Generator().manual_seed(1)
    pairs = []
    for _ in range(count):
        up = torch.randn(inner, width, generator=generator) / math.sqrt(width)
        down = torch.randn(width, inner, generator=generator) / math.sqrt(inner)
        pairs.append((up, down))
    return pairs


def own_part(whole: Sequence, rank: int, ranks: int, device: str) -> list:
    """The experts of a rank, each a parameter of its own on this device."""
    each = len(whole) // ranks
    part = whole[rank * each : (rank + 1) * each]
    return [
        tuple(tensor.to(device, copy=True).requires_grad_() for tensor in pair) for pair in part
    ]


@launch.on_devices()
def train_ways(
    comm, functions: Functions, net: Net, ways: Mapping[str, float]
) -> dict[str, Trained]:
    """Train the net with each of these factors of the load-balancing loss, on world.device()."""
    return {way: _train(comm, functions, net, factor) for way, factor in ways.items()}


def _train(comm, functions: Functions, net: Net, factor: float) -> Trained:
    device = world.device()
    corpus = data.corpus(262_144)
    generator = torch.Generator().manual_seed(0)
    characters = len(corpus.vocabulary)
    shapes = ((characters, EMBEDDED), (net.count, WIDTH), (characters, WIDTH))
    small = [0.3 * torch.randn(shape, generator=generator) for shape in shapes]
    small = [tensor.to(device).requires_grad_() for tensor in small]
    embedding, router, head = small
    own = own_part(drawn_experts(net.count, WIDTH, INNER), comm.rank, comm.size, device)
    optimizer = torch.optim.Adam([*small, *(tensor for pair in own for tensor in pair)], lr=3e-3)
    mine = [part for part in range(net.parts) if part * comm.size // net.parts == comm.rank]
    losses, imbalances = [], []
    for step in range(net.steps):
        optimizer.zero_grad()
        loss = torch.zeros((), device=device)
        chosen = []
        for part in mine:
            batch = _batch(corpus.tokens, step, part, net)
            seen, following = (tensor.to(device) for tensor in batch)
            x = embedding[seen].flatten(1)
            scores = functional.linear(x, router)
            y = x + functions.moe(comm, x, scores, own, net.chosen)
            wrong = functional.cross_entropy(functional.linear(y, head), following)
            experts = functions.route(scores, net.chosen)[1]
            loss = loss + wrong.detach() / net.parts
            balance = functions.balance_loss(scores, experts)
            (wrong / net.parts + factor * balance / net.parts).backward()
            chosen.append(experts.flatten().cpu().numpy())
        for tensor in small:
            total = torch.empty_like(tensor)
            comm.Allreduce(tensor.grad, total)
            tensor.grad = total
        optimizer.step()
        losses.append(comm.allreduce(float(loss)))
        everywhere = [experts for part in comm.allgather(chosen) for experts in part]
        load = np.bincount(np.concatenate(everywhere), minlength=net.count)
        imbalances.append(float(load.max() / load.mean()))
    return Trained(losses, imbalances, everywhere, net.count, device)


def _batch(tokens: np.ndarray, step: int, part: int, net: Net) -> tuple[torch.Tensor, torch.Tensor]:
    """Characters (tokens, BEFORE) of a part, and those that follow."""
    starts = np.random.default_rng([step, part]).integers(0, len(tokens) - BEFORE - 1, net.tokens)
    window = tokens[starts[:, None] + np.arange(BEFORE + 1)].astype(np.int64)
    return torch.from_numpy(window[:, :-1]), torch.from_numpy(window[:, -1])


# -- layouts of one layer


class Sizes(NamedTuple):
    """Experts, those of a token, tokens of a rank, and numbers of a token."""

    count: int
    chosen: int
    tokens: int
    wide: int


def tensor_layer(route: Callable, comm, x, scores, own, k) -> torch.Tensor:
    """The layer with a part of every expert: all tokens are gathered, partial sums added up."""
    everything = Gather.apply(x, comm)
    weights, experts = route(Gather.apply(scores, comm), k)
    return Scatter.apply(_by_all_experts(everything, weights, experts, own), comm)


def scores_for(sizes: Sizes, ranks: int, share: float) -> torch.Tensor:
    """Scores (tokens, experts) by which this share of the choices goes to rank 0, and the others
    are spread evenly."""
    first = sizes.count // ranks
    scores = torch.randn(sizes.tokens, sizes.count, generator=torch.Generator().manual_seed(2))
    edges = np.floor(np.arange(sizes.tokens + 1) * share * sizes.chosen)
    here = np.arange(sizes.chosen) < np.diff(edges)[:, None]
    here |= first == sizes.count
    near, far = (np.cumsum(which).reshape(here.shape) - 1 for which in (here, ~here))
    numbers = np.where(here, near % first, first + far % max(1, sizes.count - first))
    scores[torch.arange(sizes.tokens)[:, None], torch.from_numpy(numbers)] += 10
    return scores


def _prepared(comm, layouts: Iterable[str], sizes: Sizes, device: str):
    """This rank's tokens, and its part of all experts in each layout, on this device."""
    x = torch.randn(
        sizes.tokens, sizes.wide, generator=torch.Generator().manual_seed(3 + comm.rank)
    ).to(device)
    everything = drawn_experts(sizes.count, sizes.wide, 2 * sizes.wide)
    cut = [
        (up.chunk(comm.size)[comm.rank], down.chunk(comm.size, dim=1)[comm.rank].contiguous())
        for up, down in everything
    ]
    parts = {
        "expert": own_part(everything, comm.rank, comm.size, device),
        "tensor": own_part(cut, 0, 1, device),
    }
    return x, {layout: parts[layout] for layout in layouts}


def _both_ways(comm, layer: Callable, x, scores, own, k) -> None:
    x = x.detach().requires_grad_()
    layer(comm, x, scores.detach().requires_grad_(), own, k).sum().backward()


class Counted(NamedTuple):
    """Of a layer on a rank: bytes sent forward and back, and kept for the backward pass; how far
    its output is from that of one process, at most. device: where all this was."""

    forward: float
    backward: float
    kept: int
    apart: float
    device: str


@launch.on_devices()
def count_bytes(comm, layouts: Mapping[str, Callable], sizes: Sizes) -> dict[str, Counted]:
    """What each layout sends and keeps, with an even load."""
    device = world.device()
    x, parts = _prepared(comm, layouts, sizes, device)
    scores = scores_for(sizes, comm.size, 1 / comm.size).to(device)
    drawn = drawn_experts(sizes.count, sizes.wide, 2 * sizes.wide)
    everything = [tuple(tensor.to(device) for tensor in pair) for pair in drawn]
    results = {}
    for layout, layer in layouts.items():
        sent = Sent(comm)
        own = parts[layout]
        weights = {tensor.untyped_storage().data_ptr() for pair in own for tensor in pair}
        stored: dict[int, torch.UntypedStorage] = {}

        def keep(tensor, stored=stored):
            stored[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            y = layer(
                sent, x.clone().requires_grad_(), scores.clone().requires_grad_(), own, sizes.chosen
            )
        forward = sent.nbytes
        y.sum().backward()
        kept = sum(each.nbytes() for place, each in stored.items() if place not in weights)
        best, experts = scores.softmax(dim=1).topk(sizes.chosen, dim=1)
        want = _by_all_experts(x, best / best.sum(dim=1, keepdim=True), experts, everything)
        apart = float((y.detach() - want).abs().max())
        results[layout] = Counted(forward, sent.nbytes - forward, kept, apart, device)
    return results


def table_of_bytes(counted: Mapping[int, Sequence[Mapping[str, Counted]]]) -> dict[tuple, dict]:
    """(Ranks, layout) -> means over the ranks in MB, and how far outputs are from one process."""
    table = {}
    for number, results in counted.items():
        for layout in results[0]:
            of_ranks = [result[layout] for result in results]
            table[f"{number} ranks", layout] = {
                "MB sent, forward": np.mean([result.forward for result in of_ranks]) / 1e6,
                "MB kept": np.mean([result.kept for result in of_ranks]) / 1e6,
                "outputs, difference": max(result.apart for result in of_ranks),
            }
    return table


def record_bytes(counted: Mapping[int, Sequence[Mapping[str, Counted]]]) -> None:
    """One record for each number of ranks and each layout."""
    for number, results in counted.items():
        for layout, first in results[0].items():
            nbytes = {
                what: [getattr(result[layout], what) for result in results]
                for what in ("forward", "backward", "kept")
            }
            record.add("bytes", ranks=number, layout=layout, trained_on=first.device, **nbytes)


@launch.on_devices()
def compare(
    comm, layouts: Mapping[str, Callable], sizes: Sizes, shares: Sequence[float], seconds: float
) -> dict[float, dict[str, timing.Measurement]]:
    """Times of each layout on world.device(), forward and backward pass, for each share of the
    choices on rank 0.

    All take turns, so that other work on the machine slows all alike.
    """
    device = world.device()
    x, parts = _prepared(comm, layouts, sizes, device)
    calls = {}
    for share in shares:
        scores = scores_for(sizes, comm.size, share).to(device)
        for layout, layer in layouts.items():
            calls[share, layout] = partial(
                _both_ways, comm, layer, x, scores, parts[layout], sizes.chosen
            )
    measured = timing.in_turns(calls, comm=comm, device=device, seconds=seconds)
    return {share: {layout: measured[share, layout] for layout in layouts} for share in shares}


def record_times(
    compared: Mapping[float, Mapping[str, timing.Measurement]], ranks: int, device: str
) -> dict[str, dict[float, list[float]]]:
    """One record for each share of the choices on rank 0 and each layout. Returns layout -> busiest
    rank's load as a multiple of the mean -> times in ms."""
    times: dict[str, dict[float, list[float]]] = {}
    placed = {"ranks": ranks, "trained_on": device}
    for share, measured in compared.items():
        busiest = ranks * share if ranks > 1 else 1.0
        for layout, measurement in measured.items():
            record.add("layer", layout=layout, busiest=busiest, seconds=measurement, **placed)
            milliseconds = [1e3 * sample for sample in measurement.samples]
            # A little apart, so that no error bar lies on another.
            place = busiest - 0.015 * (layout != "expert")
            times.setdefault(layout, {})[place] = milliseconds
    return times


# -- the virtual cluster


PER_NODE = 8
ROW = 7168  # bytes of a token in FP8
CHOSEN = 8  # experts of a token


def flat(comm, blocks) -> np.ndarray:
    """One Alltoall."""
    arrived = np.empty_like(blocks)
    comm.Alltoall(blocks, arrived)
    return arrived


class Less(PassOn):
    """A communicator whose Alltoall sends a share of the bytes: rows of which others are copies."""

    def __init__(self, comm, share: float):
        super().__init__(comm)
        self.share = share

    def Alltoall(self, blocks, arrived) -> None:
        fewer = blocks.copy()
        fewer.scale *= self.share
        self.comm.Alltoall(fewer, arrived)


def in_two_hops(two_hops: Callable, comm, blocks, across_share: float = 1.0) -> np.ndarray:
    """two_hops(inside, across, blocks) on nodes as `blocks` (nodes, ranks of one, …) tells."""
    g = blocks.shape[1]
    inside = comm.Split(comm.rank // g, comm.rank)
    across = comm.Split(comm.rank % g, comm.rank)
    return two_hops(inside, across if across_share == 1 else Less(across, across_share), blocks)


def beside_alltoall(two_hops: Callable, nodes: int, g: int) -> tuple[bool, tuple[float, float]]:
    """Whether two_hops does what one Alltoall does, and how many messages per rank leave a node in
    both."""
    size = nodes * g
    blocks = [1000.0 * rank + np.arange(2.0 * size).reshape(nodes, g, 2) for rank in range(size)]
    runs = [
        virtual.Cluster(nodes, ranks_per_node=g).run(function, virtual.by_rank(blocks))
        for function in (partial(in_two_hops, two_hops), flat)
    ]
    same = all(map(np.array_equal, runs[0].results, runs[1].results))
    messages = [sum(count for count, _ in run.node_links.values()) / size for run in runs]
    return same, (messages[0], messages[1])


def dispatch_time(function: Callable, machine: virtual.Machine, ranks: int, tokens: int) -> float:
    """Seconds in which every rank's tokens reach their experts, spread evenly over all ranks."""
    shape = (ranks // PER_NODE, PER_NODE, 1)
    blocks = virtual.vector(np.zeros(shape), stands_for=float(tokens * CHOSEN * ROW))
    return virtual.Cluster(shape[0], PER_NODE, machine=machine).run(function, blocks).time


# -- a published net and its layouts


class Layout(NamedTuple):
    """Each expert is cut into `tensor` parts; `expert` groups of GPUs share the experts."""

    tensor: int
    expert: int


class GPUs(NamedTuple):
    """Bytes per second of a GPU's links inside a node and between nodes."""

    inside: float
    between: float


class Model(NamedTuple):
    """A net with MoE layers, and how it was trained. limit: nodes of a token, at most. tokens: of a
    GPU in a micro-batch. sequences: of a step, with so many tokens each."""

    hidden: int
    inner: int
    layers: int
    experts: int
    chosen: int
    limit: int
    tokens: int
    sequences: int
    stages: int
    gpus: int

    @property
    def gpus_of_a_stage(self) -> int:
        return self.gpus // self.stages

    @property
    def layers_of_a_stage(self) -> float:
        return self.layers / self.stages

    def nodes_of_a_token(self, nodes: float) -> float:
        """Nodes that have at least one of a token's experts, on average, of `nodes` nodes."""
        return _different(min(nodes, self.limit), self.chosen)

    def groups_of_a_token(self, layout: Layout) -> float:
        """Groups that have at least one of a token's experts, on average."""
        groups = min(layout.expert, self.limit * PER_NODE // layout.tensor)
        return _different(groups, self.chosen)


def _different(places: float, draws: int) -> float:
    """How many of so many places are hit by independent draws, on average."""
    return places * (1 - (1 - 1 / places) ** draws)


# DeepSeek-AI, "DeepSeek-V3 Technical Report" (arXiv 2412.19437): sections 4.2 (sizes of the net,
# sequences of 4,096 tokens, 15,360 of them in a step), 3.1 and 3.2 (2,048 H800, 16 stages, 8 nodes
# for 64 GPUs of expert parallelism), 3.2.2 (160 and 50 GB/s, at most 4 nodes). 58 of 61 layers have
# experts.
DEEPSEEK_V3 = Model(7168, 2048, 58, 256, 8, 4, 4096, 15_360, 16, 2048)
H800 = GPUs(inside=160e9, between=50e9)


def layouts(net: Model) -> list[Layout]:
    """All layouts by powers of two that the GPUs of a stage have room for."""
    powers = [2**power for power in range(net.gpus_of_a_stage.bit_length())]
    return [
        Layout(tensor, expert)
        for tensor in (1, 2, 4, 8)
        for expert in powers
        if 1 < tensor * expert <= net.gpus_of_a_stage
    ]


def _parameters(net: Model, layout: Layout) -> float:
    """Of the experts on a GPU: three matrices each."""
    of_layer = net.experts * 3 * net.hidden * net.inner
    return net.layers_of_a_stage * of_layer / (layout.tensor * layout.expert)


def _replicas(net: Model, layout: Layout) -> float:
    return net.gpus_of_a_stage / (layout.tensor * layout.expert)


def gradient_seconds(net: Model, layout: Layout, gpus: GPUs) -> float:
    """Seconds of the allreduce of the experts' gradients (FP32, a ring between nodes), shared by
    the micro-batches of a step."""
    replicas = _replicas(net, layout)
    nbytes = 2 * (replicas - 1) / replicas * 4 * _parameters(net, layout)
    return nbytes / gpus.between / (net.sequences / net.gpus_of_a_stage)


def bytes_of_experts(net: Model, layout: Layout) -> float:
    """Bytes of the experts on a GPU: the report's sections 3.2.1 and 3.3.3.

    Two copies of the weights (BF16), gradients (FP32), and the optimizer's 8 bytes (FP32 weights,
    two moments in BF16), sharded over the replicas by ZeRO-1. For each of stages + 1 micro-batches:
    the rows that came in, and what the first two matrices gave, in FP8; what follows is recomputed.
    """
    states = (2 * 2 + 4 + 8 / _replicas(net, layout)) * _parameters(net, layout)
    rows = net.groups_of_a_token(layout) * layout.tensor * net.hidden
    inner = 2 * net.chosen * net.inner
    kept = (net.stages + 1) * net.layers_of_a_stage * net.tokens * (rows + inner)
    return states + kept
