"""Lab 64: checks; a small GPT that is cut over ranks and trained; layouts of published nets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
import torch
import virtual
from labkit import check, data, expect, launch, world
from labkit.counting import CallLog, PassOn, on_every_size
from labkit.errors import LabError, counted
from labkit.scaling import costs
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Tried(NamedTuple):
    """What f or g gave on a rank in one pass, what it called, and whether it changed what it was
    given."""

    got: np.ndarray | None
    calls: list[str]
    changed: bool


def try_pair(comm, f: Callable, g: Callable) -> dict[int, dict[tuple[str, str], Tried]]:
    """f and g on this rank in both passes, in a group of every size: {ranks: {("f", "backward"):
    Tried}}."""
    return on_every_size(comm, lambda group: _try(group, "f", f) | _try(group, "g", g))


def _inputs(way: str, size: int) -> torch.Tensor:
    """What each rank of a group has in this pass: whole numbers, others on each, which 16 bits do
    not hold."""
    numbers = np.random.default_rng([size, len(way)]).integers(3000, 10_000, (size, 3, 4))
    return torch.from_numpy(numbers.astype(np.float64))


def _try(comm, name: str, function: Callable) -> dict[tuple[str, str], Tried]:
    log, alone = CallLog(comm), CallLog(comm.Split(comm.rank))
    own = _inputs("forward", comm.size)[comm.rank]
    entering = own.clone().requires_grad_()
    leaving = function(entering, log)
    if not torch.is_tensor(leaving):
        raise LabError(f"The forward pass has to return a tensor, not {type(leaving).__name__}.")
    left = leaving.detach().numpy().copy()
    forward = Tried(left, list(log.calls), not torch.equal(entering.detach(), own))
    function(own.clone().requires_grad_(), alone)  # a later layer's, in another group
    log.calls.clear()
    alone.calls.clear()
    gradient = _inputs("backward", comm.size)[comm.rank]
    given = gradient.clone()
    leaving.backward(given)
    log.expect_waited()
    if alone.calls:
        raise LabError(f"{name}'s backward pass used another call's `comm`: keep each in its ctx.")
    left = None if entering.grad is None else entering.grad.numpy().copy()
    back = Tried(left, list(log.calls), not torch.equal(given, gradient))
    return {(name, "forward"): forward, (name, "backward"): back}


def _a_part(got, whole: torch.Tensor, where: str) -> None:
    """Fail unless it is a tensor of numbers like the whole's."""
    expect(torch.is_tensor(got), f"{where} is of type {type(got).__name__}, not a tensor.")
    expect(got.dtype == whole.dtype, f"{where} is {got.dtype}, and the whole is {whole.dtype}.")


@check.exercise("64.1")
def parts_of_a_layer(column, row):
    """The right part for every rank, of weights and of a bias, on 1 to 4 ranks."""
    for function, what, shape, axis in (
        (column, "column of a weight (48, 12)", (48, 12), 0),
        (column, "column of a bias (48)", (48,), 0),
        (row, "row of a weight (12, 48)", (12, 48), 1),
        (row, "row of a weight (5, 24)", (5, 24), 1),
    ):
        whole = torch.randn(*shape)
        for size in (1, 2, 3, 4):
            for rank in range(size):
                where = f"rank {rank} of {size}: {what}"
                given = whole.clone()
                got = function(given, rank, size)
                _a_part(got, whole, where)
                expect.unchanged(whole, given, f"{where}: the given tensor")
                want = whole.tensor_split(size, axis)[rank]
                slips = {"this is the other cut": whole.tensor_split(size, axis - 1)[rank]}
                expect.close(got, want, where, slips=slips)


@check.exercise("64.2")
def sums_by_the_table(f, g, most, patience):
    """Sums where the table has them, own values elsewhere, for every size of a group of ranks."""
    ranks = launch.ranks_here(most)
    tried = launch.run(try_pair, f, g, ranks=ranks, threads=1, timeout=patience)
    for size in tried[0]:
        for name, way in (("f", "forward"), ("f", "backward"), ("g", "forward"), ("g", "backward")):
            inputs = _inputs(way, size)
            total = inputs.sum(dim=0)
            adds = (name, way) in (("f", "backward"), ("g", "forward"))
            for rank, own in enumerate(inputs):
                got, calls, changed = tried[rank][size][name, way]
                where = f"{name}, {counted(size, 'rank')}, rank {rank}, {way} pass"
                expect(not changed, f"{where}: what it was given was changed. Others use it, too.")
                dtype = getattr(got, "dtype", inputs.numpy().dtype)
                expect(dtype == np.float64, f"{where}: {dtype}, and it was given float64.")
                want, slip = (total, own) if adds else (own, total)
                reason = "this was not added up" if adds else "this was added up"
                slips = {f"{reason}, see the table": slip}
                expect.close(got, want, f"{where}: the result", slips=slips)
                needless = f"{where}: right, but nothing has to be sent, and it calls {calls}."
                expect(adds or not calls, needless)


@check.exercise("64.3")
def queries_keys_values(own_heads):
    """Own queries, then keys, then values, for a matrix and for its bias."""
    # 12 heads of one row each: queries 0 to 11, keys 12 to 23, values 24 to 35; then 8 of them.
    for heads, size in ((12, 2), (12, 3), (12, 4), (12, 6), (12, 1), (8, 2), (8, 4)):
        bias = torch.arange(3.0 * heads)
        matrix = 100 * bias.reshape(-1, 1) + torch.arange(4)
        for rank in range(size):
            where = f"rank {rank} of {size}, {heads} heads of one row"
            own = bias.reshape(3, size, -1)[:, rank].flatten()
            mixed = bias.reshape(3, size, -1)[:, rank].T.flatten()
            slips = {
                f"this cuts q0 to v{heads - 1} in one go, and tears heads apart": (
                    bias.chunk(size)[rank]
                ),
                "these are the right rows in another order": mixed,
            }
            rows = 100 * own.reshape(-1, 1) + torch.arange(4)
            for whole, part, what in ((bias, own, "the bias's"), (matrix, rows, "the matrix's")):
                got = own_heads(whole.clone(), rank, size)
                expect.close(got, part, f"{where}: {what} rows", slips=slips)
                _a_part(got, whole, f"{where}: what holds {what} rows")


@check.exercise("64.4")
def five_parts(step_seconds):
    """The seconds of the five parts above, for layouts of all kinds."""
    nets = published()
    for net, shape, reached in (
        (nets[0], (1, 1, 32, 1), 0.5),
        (nets[0], (1, 8, 4, 1), 0.5),
        (nets[3], (8, 1, 32, 1), 0.5),
        (nets[3]._replace(sequence=1024), (2, 4, 32, 4), 0.4),
        (nets[6], (8, 8, 24, 2), 0.5),
    ):
        gpus = GPUs(share=reached)
        layout = Layout(*shape)
        cost = parts_of_step(net, layout, gpus)
        nbytes = 2 * net.parameters / (layout.tensor * layout.pipeline)
        neighbors = gpus.allreduce(layout.data, 1, nbytes)
        where = f"{net.name} billion parameters, sequences of {net.sequence}, "
        where += f"(tensor, pipeline, data, micro) {shape}"
        slips = {
            "the bubble is missing": cost.total - cost.bubble,
            "the allreduce of the gradients is missing": cost.total - cost.gradients,
            "data ranks are `tensor` GPUs apart": cost.total - cost.gradients + neighbors,
        }
        expect.close(step_seconds(net, layout, gpus), cost.total, f"{where}: seconds", slips=slips)


@check.exercise("64.6")
def the_longer_of_two_in_each_pass(layer_seconds):
    """In each of three passes, the longer of what the GPU computes and what the CPU launches."""
    net = Net("made up", heads=16, hidden=2048, layers=24, batch=32, gpus=8, sequence=1024)
    for shape, launches, case in (
        ((1, 8, 1, 4), 1e-4, "the GPU has more to do in all passes"),
        ((8, 1, 1, 8), 1e-4, "the GPU has more to do in all passes"),
        ((4, 2, 1, 1), 6e-3, "the CPU has more to do in all passes"),
        ((2, 4, 1, 2), 5e-3, "only the backward pass has more for the GPU"),
    ):
        layout = Layout(*shape)
        gpus = DetailedGPUs(0.5, 10.0, launches)
        matrices = gpus.multiply(net, layout.micro) / layout.tensor
        moved = gpus.move(bytes_of_layer(net, layout))
        nbytes = 2 * layout.micro * net.sequence * net.hidden
        sums = 6 * gpus.allreduce(layout.tensor, 1, nbytes)
        busy = matrices + moved + sums
        whole_matrices = busy + (layout.tensor - 1) * matrices
        bytes_cut_twice = busy - moved + moved / layout.tensor
        slips = {
            "the GPU computes while the CPU launches, so the longer counts, not the sum": (
                busy + launches
            ),
            "the longer is to be found in each pass, not in the whole layer": max(busy, launches),
            "the launches are missing": busy,
            "the tensor ranks share the matrices": _in_passes(whole_matrices, launches),
            "bytes_of_layer are the bytes of one GPU already": (
                _in_passes(bytes_cut_twice, launches)
            ),
            "the bytes that are moved are missing": _in_passes(matrices + sums, launches),
            "the allreduces of the tensor ranks are missing": _in_passes(
                matrices + moved, launches
            ),
        }
        where = f"{case}, (tensor, pipeline, data, micro) {shape}: seconds"
        right = _in_passes(busy, launches)
        expect.close(layer_seconds(net, layout, gpus), right, where, slips=slips)


def _in_passes(busy: float, launches: float) -> float:
    """The three passes of a layer that keeps a GPU busy and a CPU launching for so long."""
    return 2 * max(busy / 4, launches / 3) + max(busy / 2, launches / 3)


@check.exercise("64.5")
def same_as_dtensor(plan_of_block, cut, attention, mlp, f, g, most, patience):
    """Each matrix is cut as yours is; then the output, every part and every gradient agree."""
    plan = plan_of_block()
    styles = {"columns": "ColwiseParallel", "rows": "RowwiseParallel"}
    ways = dict.fromkeys(("q", "k", "v", "up"), "columns") | dict.fromkeys(("out", "down"), "rows")
    for name, way in ways.items():
        expect(name in plan, f"The plan says nothing about `{name}`. It names all six matrices.")
        called = f"`{name}` has a class as its style. Call it: {styles[way]}()."
        expect(not isinstance(plan[name], type), called)
        got = type(plan[name]).__name__
        told = f"`{name}` is cut by {way} in your layers, so {styles[way]} is its style, not {got}."
        expect(got == styles[way], told)
    ranks = launch.ranks_here(most)
    pieces = Pieces(cut, attention, mlp, f, g)
    sizes = Sizes(0, 8 * ranks, 2 * ranks, 1, 6)
    long = 3 * patience  # Gloo's groups take long to begin on a busy machine
    tried = launch.run(beside_dtensor, plan, pieces, sizes, 3, ranks=ranks, threads=1, timeout=long)
    for rank, result in enumerate(tried):
        for what, (yours, theirs) in result.values.items():
            where = f"{counted(ranks, 'rank')}, rank {rank}: {what}, yours and DTensor's"
            expect.close(yours, theirs, where, rtol=1e-4, atol=1e-5)


# -- the GPT


class Sizes(NamedTuple):
    """How large the GPT is: characters that it knows, numbers for each place, heads, layers,
    places."""

    characters: int
    hidden: int
    heads: int
    layers: int
    places: int


class Pieces(NamedTuple):
    """Of what the GPT's blocks are made.

    cut(name, weight, bias, rank, ranks): this rank's (weight, bias) of "qkv", "out", "up" or
    "down". attention(comm, entering, qkv, out, size, f, g), mlp(comm, entering, up, down, f, g):
    what leaves, on all ranks; qkv, out, up, down are (weight, bias), size is the numbers of a head.
    f, g(tensor, comm): the pair.
    """

    cut: Callable
    attention: Callable
    mlp: Callable
    f: Callable
    g: Callable


def _attended(queries, keys, values, size: int) -> torch.Tensor:
    """Causal attention in heads of `size` numbers: (places, texts, numbers) of three of them."""
    heads = [part.unflatten(-1, (-1, size)).permute(1, 2, 0, 3) for part in (queries, keys, values)]
    mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
    return mixed.permute(2, 0, 1, 3).flatten(2)


def _whole_attention(comm, entering, qkv, out, size, f, g):
    thirds = functional.linear(entering, *qkv).chunk(3, dim=-1)
    return functional.linear(_attended(*thirds, size), *out)


def _whole_mlp(comm, entering, up, down, f, g):
    return functional.linear(functional.gelu(functional.linear(entering, *up)), *down)


def _not_cut(name, weight, bias, rank, ranks):
    return weight, bias


whole = Pieces(_not_cut, _whole_attention, _whole_mlp, None, None)

Matrices = Mapping[str, tuple[torch.Tensor, torch.Tensor]]  # name -> (weight, bias)


class Block(torch.nn.Module):
    """Attention and MLP, each behind a norm and added to what entered. Holds this rank's parts."""

    def __init__(self, matrices: Matrices, sizes: Sizes, comm, pieces: Pieces):
        super().__init__()
        self.comm = comm
        self.pieces = pieces
        self.size = sizes.hidden // sizes.heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(sizes.hidden) for _ in range(2))
        self.parts = torch.nn.ModuleDict()
        for name, matrix in matrices.items():
            part = pieces.cut(name, *matrix, comm.rank, comm.size)
            self.parts[name] = torch.nn.ParameterList(tensor.clone() for tensor in part)

    def forward(self, entering: torch.Tensor) -> torch.Tensor:
        _, attention, mlp, f, g = self.pieces
        qkv, out, up, down = (tuple(self.parts[name]) for name in ("qkv", "out", "up", "down"))
        inner = self.norms[0](entering)
        middle = entering + attention(self.comm, inner, qkv, out, self.size, f, g)
        return middle + mlp(self.comm, self.norms[1](middle), up, down, f, g)


class GPT(torch.nn.Module):
    """The net: characters in, for each place a number for each character that may come next.

    All ranks make the same whole weights from one seed, and keep their parts. own: the places of
    the text that this rank has outside of f and g, a slice.
    """

    def __init__(self, sizes: Sizes, comm, pieces: Pieces, own: slice):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        hidden = sizes.hidden

        def drawn(*shape: int) -> torch.Tensor:
            return 0.05 * torch.randn(*shape, generator=generator)

        self.own = own
        self.kept: dict[int, int] = {}  # address -> bytes, of the last way forward
        self.characters = torch.nn.Parameter(drawn(sizes.characters, hidden))
        self.places = torch.nn.Parameter(drawn(sizes.places, 1, hidden))
        self.blocks = torch.nn.ModuleList()
        shapes = {  # (numbers that leave, numbers that enter), as PyTorch keeps them
            "qkv": (3 * hidden, hidden),
            "out": (hidden, hidden),
            "up": (4 * hidden, hidden),
            "down": (hidden, 4 * hidden),
        }
        for _ in range(sizes.layers):
            matrices = {name: (drawn(*shape), drawn(shape[0])) for name, shape in shapes.items()}
            self.blocks.append(Block(matrices, sizes, comm, pieces))
        self.norm = torch.nn.LayerNorm(hidden)
        self.head = torch.nn.Parameter(drawn(sizes.characters, hidden))

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """characters (places, texts) -> (own places, texts, characters)."""
        values = functional.embedding(characters[self.own], self.characters)
        values = values + self.places[: len(characters)][self.own]
        self.kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor):
            for block in self.blocks:
                values = block(values)
        return functional.linear(self.norm(values), self.head)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        self.kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def kept_bytes(self) -> int:
        """Of what the layers keep for the way back, parameters left out."""
        own = {weights.untyped_storage().data_ptr() for weights in self.parameters()}
        return sum(nbytes for address, nbytes in self.kept.items() if address not in own)

    def uncut(self) -> list[torch.nn.Parameter]:
        """The parameters that every rank holds in full."""
        uncut = [self.characters, self.places, self.head, *self.norm.parameters()]
        for block in self.blocks:
            biases = [block.parts[name][1] for name in ("out", "down")]
            uncut += [*block.norms.parameters(), *biases]
        return uncut


# -- the same layers by PyTorch's DTensor


class Separate(torch.nn.Module):
    """Attention and MLP as one process computes them, with six layers that PyTorch can cut.

    size: numbers of a head. A rank that holds some of the heads finds out how many from what `q`
    gives.
    """

    def __init__(self, hidden: int, size: int):
        super().__init__()
        self.size = size
        for name in ("q", "k", "v", "out"):
            self.add_module(name, torch.nn.Linear(hidden, hidden))
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)

    def forward(self, entering: torch.Tensor) -> torch.Tensor:
        attended = _attended(self.q(entering), self.k(entering), self.v(entering), self.size)
        middle = entering + self.out(attended)
        return middle + self.down(functional.gelu(self.up(middle)))


class Beside(NamedTuple):
    """values: what -> (of the learner's layers, of DTensor's), on this rank. calls: of both, ways
    forward and back: name -> (calls forward, calls back)."""

    values: dict[str, tuple[np.ndarray, np.ndarray]]
    calls: dict[str, tuple[int, int]]


@launch.on_devices(group=True)
def beside_dtensor(comm, plan: Mapping, pieces: Pieces, sizes: Sizes, texts: int) -> Beside:
    """On a rank: one way forward and back through an attention and an MLP, cut by these pieces, and
    by PyTorch's parallelize_module with this plan, of the same weights."""
    torch.manual_seed(0)  # the same weights and numbers on every rank
    net = Separate(sizes.hidden, sizes.hidden // sizes.heads)
    entering, gradient = torch.randn(2, sizes.places, texts, sizes.hidden).to(world.device())
    net.to(world.device())
    yours, your_calls = _by_pieces(comm, net, pieces, entering, gradient)
    theirs, their_calls = _by_dtensor(comm, net, plan, entering, gradient)
    values = {what: (yours[what], theirs[what]) for what in yours}
    return Beside(values, {"yours": your_calls, "DTensor": their_calls})


def _by_pieces(comm, net: Separate, pieces: Pieces, entering, gradient) -> tuple[dict, tuple]:
    traffic = Traffic(comm)
    matrices = {name: (layer.weight, layer.bias) for name, layer in net.named_children()}
    thirds = [matrices.pop(name) for name in ("q", "k", "v")]
    matrices["qkv"] = [torch.cat(kind) for kind in zip(*thirds, strict=True)]
    parts = {}
    for name, matrix in matrices.items():
        part = pieces.cut(name, *matrix, comm.rank, comm.size)
        parts[name] = [tensor.detach().clone().requires_grad_() for tensor in part]
    entering = entering.clone().requires_grad_()
    _, attention, mlp, f, g = pieces
    middle = entering + attention(traffic, entering, parts["qkv"], parts["out"], net.size, f, g)
    leaving = middle + mlp(traffic, middle, parts["up"], parts["down"], f, g)
    forward = len(traffic.arrays)
    leaving.backward(gradient)
    pairs = {
        f"{name}.{kind}": (own, own.grad)
        for name, part in parts.items()
        for kind, own in zip(("weight", "bias"), part, strict=True)
    }
    return _on_host(leaving, entering, pairs), (forward, len(traffic.arrays) - forward)


def _by_dtensor(comm, net: Separate, plan: Mapping, entering, gradient) -> tuple[dict, tuple]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.distributed.tensor.parallel import parallelize_module

    kind = torch.device(world.device()).type
    mesh = init_device_mesh(kind, (comm.size,), mesh_dim_names=("tensor",))
    parallelize_module(net, mesh, dict(plan))
    entering = entering.clone().requires_grad_()
    with CommDebugMode() as counter:
        leaving = net(entering)
        forward = counter.get_total_counts()
        leaving.backward(gradient)
        total = counter.get_total_counts()
    pairs = {name: (own.to_local(), own.grad.to_local()) for name, own in net.named_parameters()}
    for kind in ("weight", "bias"):
        thirds = [pairs.pop(f"{name}.{kind}") for name in ("q", "k", "v")]
        pairs[f"qkv.{kind}"] = tuple(map(torch.cat, zip(*thirds, strict=True)))
    return _on_host(leaving, entering, pairs), (forward, total - forward)


def _on_host(leaving, entering, pairs: Mapping[str, tuple]) -> dict[str, np.ndarray]:
    """All values as arrays. pairs: of each name this rank's part, and its gradient."""
    values = {"the output": leaving, "the gradient of the input": entering.grad}
    for name, (own, gradient) in pairs.items():
        values[f"this rank's part of {name}"] = own
        values[f"the gradient of its part of {name}"] = gradient
    return {what: (value.detach() + 0).cpu().numpy() for what, value in values.items()}


# -- training


# What a rank sends by rings, as a share of the whole array: times (p - 1) / p.
_RINGS = {"Allreduce": 2, "Allgather": 1, "Reduce_scatter_block": 1}


class Traffic(PassOn):
    """A communicator that passes everything on and notes the collectives of arrays.

    arrays: (name, bytes of the whole array, added or gathered) of each.
    """

    def __init__(self, comm):
        super().__init__(comm)
        self.arrays: list[tuple[str, int]] = []

    @property
    def sent(self) -> float:
        """Bytes that this rank sends, by rings."""
        shares = sum(_RINGS[name] * nbytes for name, nbytes in self.arrays)
        return shares * (self.size - 1) / self.size

    def __getattr__(self, name: str):
        method = super().__getattr__(name)
        if name not in _RINGS:
            return method

        def collective(*arrays, **options):
            # The whole is the longest array: gathered, it is the one that comes; scattered, the one
            # given.
            whole = max(array.nbytes for array in arrays if hasattr(array, "nbytes"))
            self.arrays.append((name, whole))
            return method(*arrays, **options)

        return collective


class Text:
    """Python's own source as batches: characters (places, texts) and those that follow, both
    int64."""

    def __init__(self, size: int, places: int, texts: int):
        self.corpus = data.corpus(size)
        self.places = places
        self.texts = texts

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same batch on every rank, another in every step."""
        tokens = self.corpus.tokens
        starts = np.random.default_rng(step).integers(0, len(tokens) - self.places, self.texts)
        window = starts[None, :] + np.arange(self.places + 1)[:, None]
        characters = torch.from_numpy(tokens[window].astype(np.int64))
        return characters[:-1], characters[1:]


class Trained(NamedTuple):
    """What came of a training on this rank.

    losses: of each step, on all ranks alike. calls, added, sent: of the last step, in all layers:
    name -> calls; bytes of the arrays that were added up or gathered; bytes that this rank sends by
    rings. held: numbers that are parameters, of this rank. in_layers: of them those of the layers.
    kept: bytes that the layers keep for the way back. drift: how far the parameters that every rank
    holds in full are from those of rank 0 at the end, at most. device: where all this was.
    """

    losses: list[float]
    calls: dict[str, int]
    added: int
    sent: float
    held: int
    in_layers: int
    kept: int
    drift: float
    device: str


def _train(comm, pieces: Pieces, sizes: Sizes, text: Text, steps: int, by_places: bool) -> Trained:
    """Train the GPT of these pieces with Adam on world.device(). by_places: outside of f and g each
    rank has its own places."""
    device = world.device()
    traffic = Traffic(comm)
    own = slice(None)
    if by_places:
        length = sizes.places // comm.size
        own = slice(comm.rank * length, (comm.rank + 1) * length)
    net = GPT(sizes, traffic, pieces, own).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        traffic.arrays.clear()
        characters, following = (batch.to(device) for batch in text.batch(step))
        optimizer.zero_grad()
        scores = net(characters)
        wanted = following[own].flatten()
        loss = functional.cross_entropy(scores.flatten(0, 1), wanted, reduction="sum")
        loss = loss / following.numel()
        loss.backward()
        total = loss.item()
        if by_places:
            # Each rank has the gradients of its own places: those of parameters that all hold are
            # added up.
            gradients = [weights.grad for weights in net.uncut()]
            added = parameters_to_vector(gradients)
            comm.Allreduce(added.clone(), added)
            vector_to_parameters(added, gradients)
            total = comm.allreduce(total)
        optimizer.step()
        losses.append(total)
    held = sum(weights.numel() for weights in net.parameters())
    in_layers = sum(weights.numel() for weights in net.blocks.parameters())
    uncut = parameters_to_vector(net.uncut()).detach().cpu().numpy()
    drift = float(np.abs(uncut - comm.bcast(uncut)).max())
    calls = dict(Counter(name for name, _ in traffic.arrays))
    added = sum(nbytes for _, nbytes in traffic.arrays)
    kept = net.kept_bytes()
    return Trained(losses, calls, added, traffic.sent, held, in_layers, kept, drift, device)


@launch.on_devices()
def train_ways(
    comm,
    ways: Mapping[str, Pieces],
    sizes: Sizes,
    text: Text,
    steps: int,
    by_places: bool = False,
) -> dict[str, Trained]:
    """Train the GPT of each of these pieces, one after the other. by_places: each rank has its own
    places outside of f and g."""
    return {
        way: _train(comm, pieces, sizes, text, steps, by_places) for way, pieces in ways.items()
    }


# -- published nets and layouts


MEMORY = 80e9  # bytes of an A100's memory (A100 80GB)


class Layout(NamedTuple):
    """tensor, pipeline, data: ranks in each direction. micro: sequences of a micro-batch."""

    tensor: int
    pipeline: int
    data: int
    micro: int = 1

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data


class Net(NamedTuple):
    """A GPT, the batch of a step in sequences, and the record: its layout and TFLOP/s of a GPU."""

    name: str
    heads: int
    hidden: int
    layers: int
    batch: int
    gpus: int
    layout: Layout | None = None
    teraflops: float | None = None
    sequence: int = 2048
    vocabulary: int = 51_200

    @property
    def parameters(self) -> float:
        """Narayanan and others (2021), equation (2): 12 l h² (1 + 13/(12 h) + (V + s)/(12 l h))."""
        hidden = self.hidden
        inner = 12 * self.layers * hidden**2 + 13 * self.layers * hidden
        return inner + (self.vocabulary + self.sequence) * hidden

    def flops(self, sequences: int) -> float:
        """Floating-point operations of `sequences` sequences in a step, activations computed twice.

        Narayanan and others (2021), equation (3): 96 B s l h² (1 + s/(6 h) + V/(16 l h)).
        """
        return self.layers * self.flops_of_layer(sequences) + self.flops_of_head(sequences)

    def flops_of_layer(self, sequences: int) -> float:
        """The part of one layer: 96 B s h² (1 + s/(6 h))."""
        more = 1 + self.sequence / (6 * self.hidden)
        return 96 * sequences * self.sequence * self.hidden**2 * more

    def flops_of_head(self, sequences: int) -> float:
        """The part of the scores of all tokens, on the last stage: 6 B s h V."""
        return 6 * sequences * self.sequence * self.hidden * self.vocabulary


# Narayanan and others, "Efficient Large-Scale Language Model Training on GPU Clusters Using
# Megatron-LM", SC 2021 (arXiv 2104.04473), table 1; micro-batches from NVIDIA/Megatron-LM,
# examples/academic_paper_scripts/sc21/run_table_1.sh. billions, heads, hidden, layers, tensor,
# pipeline, GPUs, batch, micro-batch, TFLOP/s a GPU, PFLOP/s of all
TABLE = (
    ("1.7", 24, 2304, 24, 1, 1, 32, 512, 16, 137, 4.4),
    ("3.6", 32, 3072, 30, 2, 1, 64, 512, 16, 138, 8.8),
    ("7.5", 32, 4096, 36, 4, 1, 128, 512, 16, 142, 18.2),
    ("18.4", 48, 6144, 40, 8, 1, 256, 1024, 8, 135, 34.6),
    ("39.1", 64, 8192, 48, 8, 2, 512, 1536, 4, 138, 70.8),
    ("76.1", 80, 10240, 60, 8, 4, 1024, 1792, 2, 140, 143.8),
    ("145.6", 96, 12288, 80, 8, 8, 1536, 2304, 2, 148, 227.1),
    ("310.1", 128, 16384, 96, 8, 16, 1920, 2160, 1, 155, 297.4),
    ("529.6", 128, 20480, 105, 8, 35, 2520, 2520, 1, 163, 410.2),
    ("1008.0", 160, 25600, 128, 8, 64, 3072, 3072, 1, 163, 502.0),
)


def published() -> list[Net]:
    """The ten GPTs of the paper's table 1, from 1.7 to 1008 billion parameters. 145.6 is
    GPT-3-like."""
    nets = []
    for name, heads, hidden, layers, tensor, pipeline, gpus, batch, micro, teraflops, _ in TABLE:
        layout = Layout(tensor, pipeline, gpus // (tensor * pipeline), micro)
        nets.append(Net(name, heads, hidden, layers, batch, gpus, layout, teraflops))
    return nets


def bytes_on_a_gpu(net: Net, layout: Layout) -> float:
    """Bytes of the first stage's GPUs: parameters with Adam, and activations, of which most are not
    kept.

    20 bytes a parameter: weights and gradients in 16 bits and in 32, and Adam's averages
    (NVIDIA/Megatron-LM, documentation of its distributed optimizer: fp16 parameters and gradients
    without it). Each layer keeps what enters it, 2 bytes a number, for as many micro-batches as
    1F1B has in flight; the layer whose activations are just there has s b h (10 + 24/t + 5 a s/(h
    t)) bytes: Korthikanti and others, 2022 (arXiv 2205.05198), equation (2).
    """
    tensor, pipeline, data, micro = layout
    numbers = net.sequence * micro * net.hidden
    under_way = min(pipeline, net.batch / (data * micro))
    entering = 2 * numbers * net.layers / pipeline * under_way
    return 20 * net.parameters / (tensor * pipeline) + entering + bytes_of_layer(net, layout)


def bytes_of_layer(net: Net, layout: Layout) -> float:
    """Bytes of a layer's activations on one GPU: Korthikanti and others, 2022, equation (2)."""
    numbers = net.sequence * layout.micro * net.hidden
    shared = 24 + 5 * net.heads * net.sequence / net.hidden
    return numbers * (10 + shared / layout.tensor)


def layouts(net: Net) -> Iterator[Layout]:
    """All layouts of the net's GPUs with micro-batches of one sequence, that come out even and
    fit."""
    for tensor in (1, 2, 4, 8, 16, 32):
        for pipeline in range(1, net.layers + 1):
            model = tensor * pipeline
            if net.heads % tensor or net.layers % pipeline or net.gpus % model:
                continue
            layout = Layout(tensor, pipeline, net.gpus // model)
            if net.batch % layout.data == 0 and bytes_on_a_gpu(net, layout) <= MEMORY:
                yield layout


class Cost(NamedTuple):
    """Seconds of a step by part: arithmetic, the tensor ranks' allreduces, the bubble, and the
    gradients' allreduce."""

    arithmetic: float
    allreduces: float
    bubble: float
    gradients: float

    @property
    def total(self) -> float:
        return sum(self)


def parts_of_step(net: Net, layout: Layout, gpus) -> Cost:
    """A step's seconds by part. gpus: answers to compute(net, sequences), allreduce(ranks, apart,
    nbytes)."""
    tensor, pipeline, data, micro = layout
    count = net.batch / (data * micro)
    arithmetic = gpus.compute(net, micro) / (tensor * pipeline)
    nbytes = 2 * micro * net.sequence * net.hidden
    sums = 6 * net.layers / pipeline * gpus.allreduce(tensor, 1, nbytes)
    gradients = gpus.allreduce(data, tensor, 2 * net.parameters / (tensor * pipeline))
    return Cost(count * arithmetic, count * sums, (pipeline - 1) * (arithmetic + sums), gradients)


def error(step_seconds: Callable, net: Net, gpus) -> float:
    """How far the model's TFLOP/s of a published net are off: 0.1 is 10 % too fast."""
    seconds = step_seconds(net, net.layout, gpus)
    return net.flops(net.batch) / seconds / net.gpus / (1e12 * net.teraflops) - 1


# -- GPUs of DGX A100 nodes


# operations a second of an A100's tensor cores with 16-bit numbers (NVIDIA, A100 data sheet)
PEAK = 312e12

# Selene, as Narayanan and others (2021), section 5, describe it: 8 A100 80GB a node, and eight HDR
# cards.
MACHINE = virtual.Machine(
    "a100_hdr",
    virtual.Link(
        latency=3.4e-6,  # NCCL, src/graph/tuning.cc: a ring's step over NVLink, protocol Simple
        # an estimate: 82 %, as on H100, of 300 GB/s each way (NVIDIA, A100 data sheet)
        bandwidth=247e9,
    ),
    virtual.Link(
        latency=4.06e-6,  # an estimate: as measured between GPUs of two nodes over InfiniBand
        bandwidth=24e9,  # an estimate: 96 % of HDR's 200 Gb/s
    ),
    ranks_per_node=8,
    nics=8,
    reduce=680e9,  # a third of the memory bandwidth, 2039 GB/s (NVIDIA, A100 data sheet)
)


class GPUs:
    """GPUs of that machine, of which a share of the peak is reached. Times in seconds."""

    def __init__(self, share: float):
        self.share = share

    def compute(self, net: Net, sequences: int) -> float:
        """Seconds that one GPU would need for all arithmetic of so many sequences in a step."""
        return net.flops(sequences) / (self.share * PEAK)

    def allreduce(self, ranks: int, apart: int, nbytes: float) -> float:
        """Seconds of a sum of `nbytes` bytes over `ranks` GPUs, of which every `apart`-th takes
        part: by a ring or by two dimensions (lab 26), the faster; 0 for one."""
        if ranks == 1:
            return 0.0
        local = max(1, MACHINE.ranks_per_node // apart)
        inside, between = (
            (link.latency, 1 / link.bandwidth) for link in (MACHINE.inside, MACHINE.between)
        )
        if ranks <= local:
            return costs.ring_allreduce_time(nbytes, ranks, *inside, MACHINE.gamma)
        seconds = costs.ring_allreduce_time(nbytes, ranks, *between, MACHINE.gamma)
        if local == 1 or ranks % local:
            return seconds
        nodes = ranks // local
        both = costs.two_dimensional_allreduce_time(
            nbytes, nodes, local, inside, between, MACHINE.gamma
        )
        return min(seconds, both)


def fit(step_seconds: Callable, nets: Sequence[Net]) -> GPUs:
    """The GPUs whose share of the peak brings a model nearest to the published speeds of some nets.

    Nearest: the least sum of squared relative errors, by shares of 0.005.
    """

    def misfit(gpus: GPUs) -> float:
        return sum(error(step_seconds, net, gpus) ** 2 for net in nets)

    return min((GPUs(place / 200) for place in range(40, 200)), key=misfit)


# -- a layer in detail, and vTrain's measurements


MEMORY_BANDWIDTH = 2039e9  # bytes a second (NVIDIA, A100 80GB data sheet)


class DetailedGPUs(GPUs):
    """GPUs of which three numbers are known: the share of the peak that matrices reach, how often
    a step moves each byte of a layer's activations, and the seconds in which a CPU launches all
    kernels of a layer."""

    def __init__(self, share: float, moves: float, launches: float):
        super().__init__(share)
        self.moves = moves
        self.launches = launches

    def multiply(self, net: Net, sequences: int) -> float:
        """Seconds in which one GPU multiplies all matrices of one layer."""
        return net.flops_of_layer(sequences) / (self.share * PEAK)

    def move(self, nbytes: float) -> float:
        """Seconds in which activations of so many bytes are moved, as often as a step does it."""
        return self.moves * nbytes / MEMORY_BANDWIDTH

    def score(self, net: Net, layout: Layout) -> float:
        """Seconds of the last stage's scores: a matrix, and 4 bytes for each token and word."""
        nbytes = 4 * layout.micro * net.sequence * net.vocabulary
        matrix = net.flops_of_head(layout.micro) / (self.share * PEAK)
        return (matrix + self.move(nbytes)) / layout.tensor


LayerSeconds = Callable[[Net, Layout, DetailedGPUs], float]


def step_of(layer_seconds: LayerSeconds) -> Callable[[Net, Layout, DetailedGPUs], float]:
    """The model of a step that has this model of a layer. The last stage, which also computes the
    scores, sets the pace of the pipeline."""

    def step_seconds(net: Net, layout: Layout, gpus: DetailedGPUs) -> float:
        tensor, pipeline, data, micro = layout
        count = net.batch / (data * micro)
        stage = net.layers / pipeline * layer_seconds(net, layout, gpus)
        last = stage + gpus.score(net, layout)
        gradients = gpus.allreduce(data, tensor, 2 * net.parameters / (tensor * pipeline))
        return (pipeline - 1) * stage + count * last + gradients

    return step_seconds


class Measured(NamedTuple):
    """A step that somebody measured."""

    net: Net
    layout: Layout
    seconds: float


VTRAIN = Path(__file__).with_name("lab64_vtrain")


def vtrain(folder: Path | str = VTRAIN) -> tuple[list[Measured], list[Measured]]:
    """vTrain's measured steps on one node, and on several. folder: a sample by default; README.md
    in it says how to get all rows."""
    names = ("ground_truth_single.csv", "ground_truth_multi.csv")
    single, multi = (_measured(Path(folder) / name) for name in names)
    return single, multi


def _measured(file: Path) -> list[Measured]:
    rows = []
    for row in pandas.read_csv(file, encoding="utf-8-sig").to_dict("records"):
        parts = ("tensor parallelism", "pipeline parallelism", "data parallelism", "micro batch")
        layout = Layout(*(int(row[part]) for part in parts))
        sizes = ("attention heads", "hidden size", "# layers", "global batch", "# GPUs")
        net = Net("vTrain", *(int(row[size]) for size in sizes), sequence=row["sequence length"])
        rows.append(Measured(net, layout, row["iteration time (ms)"] / 1e3))
    return rows


def misses(step_seconds: Callable, rows: Sequence[Measured], gpus: GPUs) -> np.ndarray:
    """How far a model is off on each row, in percent of the measured time, without sign."""
    predicted = [step_seconds(row.net, row.layout, gpus) for row in rows]
    return 100 * np.abs(np.array(predicted) / [row.seconds for row in rows] - 1)


def fit_three(
    layer_seconds: LayerSeconds, rows: Sequence[Measured], without: str | None = None
) -> DetailedGPUs:
    """The GPUs whose three numbers bring a model of a layer nearest to these rows: by the least
    mean of the errors without sign (scipy.optimize, Nelder-Mead). without: a number that is 0."""
    from scipy.optimize import minimize

    def numbers(logs: np.ndarray) -> DetailedGPUs:
        share, moves, launches = np.exp(logs)
        gpus = DetailedGPUs(min(share, 1.0), moves, launches)
        if without:
            setattr(gpus, without, 0.0)
        return gpus

    def misfit(logs: np.ndarray) -> float:
        return float(misses(step_of(layer_seconds), rows, numbers(logs)).mean())

    begin = np.log([0.6, 10, 3e-3])
    options = {"xatol": 1e-3, "fatol": 1e-3, "initial_simplex": begin + 0.4 * np.eye(4, 3)}
    return numbers(minimize(misfit, begin, method="Nelder-Mead", options=options).x)


def fit_share(step_seconds: Callable, rows: Sequence[Measured]) -> GPUs:
    """The GPUs whose share alone brings a model nearest to these rows, by shares of 0.005."""
    shares = (GPUs(place / 200) for place in range(2, 200))
    return min(shares, key=lambda gpus: misses(step_seconds, rows, gpus).mean())
