"""Lab 68: checks; a GPT that generates text on one device and over ranks; a server of requests; two
pools of virtual GPUs."""

from __future__ import annotations

import copy
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from typing import NamedTuple

import numpy as np
import pandas
import torch
import virtual
from labkit import check, expect, launch, nets, plots, timing, world
from labkit.counting import CallLog, PassOn, on_every_size
from labkit.errors import LabError, counted
from torch.nn.functional import cross_entropy, gelu, linear, scaled_dot_product_attention


@check.exercise("68.1")
def cached_as_recomputed(attend):
    """The cache grows by every new position, attention looks at all of it, and a GPT chooses the
    same tokens as one that computes everything again.
    """
    for first, size, dtype in ((2, 6, torch.float64), (200, 4, torch.float32)):
        _prefill_and_decode(attend, first, size, dtype)
    # Large weights: with small ones the tokens are the same for any attention.
    net = GPT(Sizes(characters=11, hidden=12, heads=2, layers=2, places=40), std=0.5).double()
    prompt = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    tokens = generate(net, prompt, 12, attend).tolist()
    own = "each layer has a cache of its own: keep nothing outside `cache`"
    expect.equal(tokens, recompute(net, prompt, 12).tolist(), "Tokens of a GPT", because=own)


def _prefill_and_decode(attend: Callable, first: int, size: int, dtype: torch.dtype) -> None:
    """A prefill of `first` positions, then two steps of decode."""
    torch.manual_seed(0)
    every = torch.randn(3, 2, 3, first + 2, size, dtype=dtype)  # 2 sequences, 3 heads
    want = scaled_dot_product_attention(*every, is_causal=True)
    cache = empty_cache(2, 3, size, every)
    begin = 0
    for end in (first, first + 1, first + 2):
        where = f"Prefill of {end} positions" if begin == 0 else f"Decode, position {end - 1}"
        new = every[:, :, :, begin:end]
        own = new.clone()
        got = attend(*own, cache)
        expect(torch.is_tensor(got), f"{where}: `attend` returned {type(got).__name__}, no tensor.")
        expect.unchanged(new, own, f"{where}: one of queries, keys and values")
        for name, right in zip(("keys", "values"), every[1:, :, :, :end], strict=True):
            there, entry = cache[name], f'cache["{name}"]'
            expect(torch.is_tensor(there), f"{where}: {entry} is no tensor any more.")
            because = "append all new positions along axis 2"
            if there.shape == right[:, :, :begin].shape:
                because = f"`cache` did not change: assign to `{entry}`"
            shape = f"{where}: the shape of {entry}"
            expect.equal(tuple(there.shape), tuple(right.shape), shape, because=because)
            expect.equal(there.dtype, dtype, f"{where}: the dtype of {entry}")
            expect.close(there, right, f"{where}: {entry}")
        seen = (new[0], *every[1:, :, :, :end])
        slips = {
            "in a prefill a position must not see later ones (is_causal)": (
                scaled_dot_product_attention(*seen)
            ),
            "with is_causal=True PyTorch lets a single query see the first position alone": (
                scaled_dot_product_attention(*seen, is_causal=True)
            ),
            "the new position does not see itself: append first": (
                scaled_dot_product_attention(new[0], *every[1:, :, :, :begin])
            ),
            "the scores are divided by the root of `features`, as PyTorch does without `scale`": (
                scaled_dot_product_attention(*seen, is_causal=begin == 0, scale=0.5)
            ),
        }
        what = f"{where}: the attention to all {end} positions"
        expect.close(got, want[:, :, begin:end], what, rtol=1e-4, atol=1e-5, slips=slips)
        begin = end


@check.exercise("68.2")
def work_of_a_step(step_cost):
    """Flops and bytes of prefill, decode and steps between them, of weights, attention and cache,
    for numbers of several sizes.
    """
    for sequences, new, context, hidden, layers, size in (
        (1, 1, 100, 64, 5, 1),
        (8, 1, 300, 64, 3, 4),
        (1, 128, 128, 512, 6, 4),
        (3, 4, 1000, 96, 1, 8),
        (64, 1, 1000, 4096, 32, 2),
    ):
        with check.case(
            f"{counted(sequences, 'sequence')}, {new} new of {context} positions, hidden {hidden},"
            f" {counted(layers, 'layer')}, {size} bytes"
        ):
            got = step_cost(sequences, new, context, hidden, layers, size)
            expect(np.shape(got) == (2,), f"Return two numbers, flops and bytes, not {got!r}.")
            weights = 12 * hidden**2 * layers
            cache = 2 * sequences * context * hidden * layers
            tokens = sequences * new
            attention = 4 * tokens * context * hidden * layers
            flops = 2 * weights * tokens + attention
            half = "attention has two products, of queries and keys and with the values"
            if new > 1:
                half = "all `context` positions count, also in a prefill, whose mask hides half"
            slips = {
                "a multiply-add counts as two": flops / 2,
                "the flops of the attention are missing": flops - attention,
                "every sequence does this work": flops / sequences,
                "each new token does this work": flops / new,
                "a token attends to all `context` positions, not only to new ones": (
                    2 * weights * tokens + attention * new / context
                ),
                half: flops - attention / 2,
                "every layer has an attention": 2 * weights * tokens + attention / layers,
            }
            expect.close(got[0], flops, "flops", slips=slips)
            slips = {
                "the cache is missing": size * weights,
                "keys and values are two tensors": size * (weights + cache / 2),
                "weights are read once for all sequences": size * (sequences * weights + cache),
                "each sequence has a cache": size * (weights + cache / sequences),
                "weights are read once for all new tokens": size * (new * weights + cache),
                "every layer has a cache": size * (weights + cache / layers),
                "all `context` positions of the cache are read, not only new ones": (
                    size * (weights + cache * new / context)
                ),
                "bytes are asked, and each number has `itemsize` of them": weights + cache,
                "a number in the cache has `itemsize` bytes, too": (
                    size * weights + (cache if size > 1 else 2 * cache)
                ),
            }
            expect.close(got[1], size * (weights + cache), "bytes", slips=slips)


@check.exercise("68.3")
def layer_over_ranks(parallel_layer, most, patience):
    """What leaves a layer is as on one device, for several positions and for one, in groups of
    every size, with two allreduces.
    """
    ranks = launch.ranks_here(most)
    function = partial(_try_layer, parallel_layer)
    tried = launch.run(on_every_size, function, ranks=ranks, threads=1, timeout=patience)
    for size in tried[0]:
        layer = _tried_layer(size)
        for batch, entering in enumerate(_tried_inputs(size)):
            want = whole_layer(entering, Part(layer, 2))
            slips = _layer_slips([Part(layer, 2, rank, size) for rank in range(size)], entering)
            for rank in range(size):
                got, calls, times = tried[rank][size][batch]
                where = f"{counted(size, 'rank')}, rank {rank}"
                where = f"{where}, {counted(entering.shape[1], 'position')}"
                names = f"{len(calls)}: {', '.join(calls)}" if calls else "none"
                two = f"{where}: a layer takes two collectives, one for the attention and one for"
                expect(len(calls) == 2, f"{two} the MLP. This one called {names}.")
                expect.close(got, want, f"{where}: what leaves", rtol=1e-6, slips=slips)
                why = "With a cache, each call of `part.attention` stores the positions once more"
                expect.equal(times, 1, f"{where}: calls of `part.attention`", because=why)


def _tried_layer(size: int) -> Layer:
    """With two heads of size 2 for each of `size` ranks."""
    torch.manual_seed(2)
    layer = Layer(4 * size).double()
    for weights in (*layer.norm1.parameters(), *layer.norm2.parameters()):
        weights.data += torch.rand_like(weights)  # as after a training: the norms differ
    return layer


def _tried_inputs(size: int) -> list[torch.Tensor]:
    """Batches of two sequences, with five new positions and with one."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(2, new, 4 * size) for new in (5, 1)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@torch.inference_mode()
def _try_layer(parallel_layer: Callable, comm) -> list:
    """By batch: (what leaves, names of the collectives, computations of the attention)."""
    part = Part(_tried_layer(comm.size), 2, comm.rank, comm.size)
    attended = []

    def attend(*arguments):
        attended.append(1)
        return without_cache(*arguments)

    part.attend = attend
    batches = []
    for entering in _tried_inputs(comm.size):
        attended.clear()
        log = CallLog(comm)
        got = parallel_layer(log, entering, part)
        if not torch.is_tensor(got):
            raise LabError(f"The layer is to return a tensor, not {type(got).__name__}.")
        calls = [call for call in log.calls if not call.startswith("_")]
        batches.append((got.numpy(), calls, len(attended)))
    return batches


def _layer_slips(parts: Sequence[Part], entering: torch.Tensor) -> dict[str, torch.Tensor]:
    """What leaves the layer of all these parts, by mistakes."""
    size = len(parts)
    bias = "each rank's bias was added up. Add it after the allreduce"
    mistakes: dict[str, dict] = {
        bias: {"out_bias": size, "down_bias": size},
        f"of the attention, {bias}": {"out_bias": size},
        f"of the MLP, {bias}": {"down_bias": size},
        "what entered was added up with the terms. Add it after the allreduce": {
            "entering": size,
            "middle": size,
        },
        "in the attention, what entered was added up with the terms": {"entering": size},
        "`middle` was added up with the terms of the MLP. Add it after the allreduce": {
            "middle": size
        },
        "`entering` is missing in `middle`": {"entering": 0},
        "`middle` is missing in what leaves: both parts of a layer are added to what is there": {
            "middle": 0
        },
        "`part.out_bias` is missing": {"out_bias": 0},
        "`part.down_bias` is missing": {"down_bias": 0},
        "both biases are missing": {"out_bias": 0, "down_bias": 0},
        "`part.out_bias` belongs to the attention, `part.down_bias` to the MLP": {"swapped": True},
        "the MLP takes `middle`, not `entering`": {"fed": "entering"},
        "`entering` and not `middle` was added to the terms of the MLP": {"kept": "entering"},
        "the MLP has a norm of its own, `part.norm2`": {"norm": "norm1"},
        "the terms of the MLP need `part.norm2` before them": {"norm": None},
        "the terms of the ranks are added up. This is their mean": {
            "joined": lambda terms: sum(terms) / size
        },
        "the terms of the ranks are added up. This is their maximum": {
            "joined": partial(reduce, torch.maximum)
        },
    }
    return {words: _layer_with(parts, entering, **each) for words, each in mistakes.items()}


def _layer_with(
    parts,
    entering,
    /,
    *,
    fed="middle",
    kept="middle",
    norm="norm2",
    swapped=False,
    joined=sum,
    **times: float,
):
    """What leaves with a mistake; times: how often something is in a sum."""
    scale = defaultdict(lambda: 1.0, times)
    out_bias, down_bias = parts[0].out_bias, parts[0].down_bias
    if swapped:
        out_bias, down_bias = down_bias, out_bias
    terms = joined([part.attention(part.norm1(entering)) for part in parts])
    middle = scale["entering"] * entering + scale["out_bias"] * out_bias
    values = {"entering": entering, "middle": middle + terms}
    into = values[fed] if norm is None else getattr(parts[0], norm)(values[fed])
    leaving = scale["middle"] * values[kept] + scale["down_bias"] * down_bias
    return leaving + joined([part.mlp(into) for part in parts])


@check.exercise("68.4")
def two_ways(seconds_of_both):
    """The seconds of both for several numbers of requests and devices, with a step that grows with
    its requests and an allreduce that grows with its bytes.
    """
    for requests, devices, layers, hidden, size in (
        (12, 3, 24, 512, 8),
        (64, 8, 40, 5120, 2),
        (4, 4, 2, 64, 4),
    ):
        step = np.poly1d([1e-4, 5e-3])
        allreduce = np.poly1d([1e-9, 2e-5])
        with check.case(f"{requests} requests, {devices} devices, {layers} layers"):
            got = seconds_of_both(step, allreduce, requests, devices, layers, hidden, size)
            expect(np.shape(got) == (2,), f"Return two numbers of seconds, not {got!r}.")
            replicas = step(requests / devices)
            nbytes = requests * hidden * size
            compute = step(requests) / devices
            sums = 2 * layers * allreduce(nbytes)
            slips = {
                "a replica serves requests / devices": step(requests),
                "a replica does a step of its own, whose weights it reads alone": compute,
                "replicas come first, then tensor parallelism": compute + sums,
            }
            expect.close(got[0], replicas, "seconds of replicas", slips=slips)
            slips = {
                "a layer has two allreduces": compute + sums / 2,
                "an allreduce waits for the computation before it: add both": max(compute, sums),
                "the allreduces are missing": compute,
                "every layer has two allreduces": compute + sums / layers,
                "each request has a row in the allreduce": (
                    compute + 2 * layers * allreduce(hidden * size)
                ),
                "with tensor parallelism every device works on all requests": (
                    step(requests / devices) + sums
                ),
                "a device has 1 / devices of the weights": step(requests) + sums,
                "`allreduce` takes bytes, and each number has `itemsize` of them": (
                    compute + 2 * layers * allreduce(requests * hidden)
                ),
                "each rank adds up the complete array, not its share": (
                    compute + 2 * layers * allreduce(nbytes / devices)
                ),
                "every device takes part in all allreduces": compute + sums / devices,
            }
            expect.close(got[1], compute + sums, "seconds of tensor parallelism", slips=slips)


@check.exercise("68.5")
def places_are_taken_over(continuous):
    """Who runs in each step: finished requests leave at once, the earliest waiting ones take all
    free slots, and there are never more than `slots`.
    """
    for slots, lengths, arrivals, batches in (
        (2, (3, 1, 2, 2), (0, 0, 0, 0), [{0, 1}, {0, 2}, {0, 2}, {3}, {3}, set()]),
        (3, (5, 2, 1, 3), (0, 1, 1, 4), [{0}, {0, 1, 2}, {0, 1}, {0}, {0, 3}, {3}, {3}, set()]),
        (
            3,
            (1, 4, 2, 1, 1, 3, 2),
            (0,) * 7,
            [{0, 1, 2}, {1, 2, 3}, {1, 4, 5}, {1, 5, 6}, {5, 6}, set()],
        ),
        (1, (2, 1), (0, 0), [{0}, {0}, {1}, set()]),
    ):
        with check.case(
            f"{counted(slots, 'slot')}, requests of {list(lengths)} tokens that arrive before steps"
            f" {list(arrivals)}"
        ):
            got = _played(continuous, slots, lengths, arrivals)
            before: set[int] = set()
            gone: set[int] = set()
            for step, ((running, retired), want) in enumerate(zip(got, batches, strict=False)):
                crowd = f"Step {step}: {counted(len(running), 'request')} in the batch."
                expect(len(running) <= slots, f"{crowd} There are {counted(slots, 'slot')}.")
                gone |= before - want
                finished = sorted(gone & set(running))
                idle = f"Step {step}: request {finished} is finished and still in the batch."
                expect(not finished, f"{idle} Its slot is empty for nothing.")
                free = "waiting requests take all free slots, whether or not a request leaves"
                slips = {free: sorted(before & want)}
                what = f"Requests in step {step}"
                expect.equal(sorted(running), sorted(want), what, slips=slips)
                left = sorted(before - want)
                expect.equal(sorted(retired), left, f"Returned before step {step}")
                before = want
            expect.equal(len(got), len(batches), "Steps until all requests are finished")


def _played(
    schedule: Callable, slots: int, lengths: Sequence[int], arrivals: Sequence[int] = ()
) -> list[tuple[list, list]]:
    """By step, the requests in the batch, and those that were returned before it.

    arrivals: before which step each request comes, in order; without them, all before step 0.
    """
    requests = [Request(name, 0.0, None, length) for name, length in enumerate(lengths)]
    coming = deque(zip(arrivals or [0] * len(lengths), requests, strict=True))
    waiting: deque[Request] = deque()
    running: list[Request] = []
    rows: list[tuple[list, list]] = []
    while len(rows) <= 2 * sum(lengths):
        while coming and coming[0][0] <= len(rows):
            waiting.append(coming.popleft()[1])
        queue, left = [one.name for one in waiting], [one.left for one in requests]
        retired = schedule(waiting, running, slots)
        several = isinstance(retired, Sequence)
        returned = several and all(isinstance(one, Request) for one in retired)
        expect(returned, f"Return the list of requests that leave, not {retired!r}.")
        rows.append(([one.name for one in running], [one.name for one in retired]))
        _expect_moved(f"Step {len(rows) - 1}: ", queue, waiting, *rows[-1])
        lowered = "The server lowers `left` after each step; a scheduler only reads it."
        expect([one.left for one in requests] == left, lowered)
        if not running and not coming and (not waiting or not retired):
            break
        for request in running:
            request.left = max(0, request.left - 1)
    return rows


def _expect_moved(step: str, queue: Sequence[int], waiting, running, retired) -> None:
    """Fail where a request of the queue got lost, or runs and still waits."""
    still = {one.name for one in waiting}
    for name in queue:
        lost = name not in still and name not in running and name not in retired
        change = "change the list itself, with `running[:] = …` or `append`."
        expect(not lost, f"{step}request {name} left `waiting` and is not in `running`: {change}")
        both = name in still and name in running
        change = "change the deque itself, with `popleft`."
        expect(not both, f"{step}request {name} is in `running` and still in `waiting`: {change}")


def steps(schedule: Callable, slots: int, lengths: Sequence[int]) -> int:
    """Steps until requests of these lengths are finished that all wait at the beginning."""
    return sum(bool(running) for running, _ in _played(schedule, slots, lengths))


# -- the GPT


class Sizes(NamedTuple):
    """How large the GPT is: characters that it knows, numbers for each position, heads, layers,
    positions."""

    characters: int
    hidden: int
    heads: int
    layers: int
    places: int


class Layer(torch.nn.Module):
    """Weights and biases of a layer."""

    def __init__(self, hidden: int):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(hidden)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.out = torch.nn.Linear(hidden, hidden)
        self.norm2 = torch.nn.LayerNorm(hidden)
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)


class GPT(torch.nn.Module):
    """The GPT of lab 64, for generating: (sequences, positions) of tokens in."""

    def __init__(self, sizes: Sizes, seed: int = 0, std: float = 0.05):
        super().__init__()
        self.sizes = sizes
        self.characters = torch.nn.Embedding(sizes.characters, sizes.hidden)
        self.places = torch.nn.Embedding(sizes.places, sizes.hidden)
        self.layers = torch.nn.ModuleList([Layer(sizes.hidden) for _ in range(sizes.layers)])
        self.norm = torch.nn.LayerNorm(sizes.hidden)
        self.head = torch.nn.Linear(sizes.hidden, sizes.characters, bias=False)
        generator = torch.Generator().manual_seed(seed)
        for name, values in self.named_parameters():
            if "norm" not in name:
                torch.nn.init.normal_(values, std=std, generator=generator)

    def parts(self, rank: int = 0, ranks: int = 1) -> list[Part]:
        head = self.sizes.hidden // self.sizes.heads
        return [Part(layer, head, rank, ranks) for layer in self.layers]

    def forward(self, tokens, places, parts: Sequence[Part], layer: Callable) -> torch.Tensor:
        """Scores of the next token at each position. tokens, places: (sequences, new)."""
        values = self.characters(tokens) + self.places(places)
        for part in parts:
            values = layer(values, part)
        return self.head(self.norm(values))


class Part:
    """A rank's part of a layer, cut as in lab 64. Attention has no cache until `begin`.

    norm1, norm2: functions. attention, mlp: functions whose results are this rank's terms, without
    the biases out_bias and down_bias, which all ranks hold.
    """

    def __init__(self, layer: Layer, head: int, rank: int = 0, ranks: int = 1):
        self.head_size = head
        self.norm1, self.norm2 = layer.norm1, layer.norm2
        thirds = [
            [third.chunk(ranks)[rank] for third in tensor.chunk(3)]
            for tensor in (layer.qkv.weight, layer.qkv.bias)
        ]
        self._qkv = [torch.cat(own) for own in thirds]
        self._up = [
            tensor.chunk(ranks)[rank].contiguous() for tensor in (layer.up.weight, layer.up.bias)
        ]
        self._out, self._down = (
            whole.weight.chunk(ranks, dim=1)[rank].contiguous() for whole in (layer.out, layer.down)
        )
        self.out_bias, self.down_bias = layer.out.bias, layer.down.bias
        self.attend: Callable = without_cache
        self.caches: list[dict] = [{}]

    def begin(self, sequences: int, attend: Callable) -> None:
        """New sequences, which share one cache as they grow together."""
        self.attend = attend
        self.caches = [self.empty(sequences)]

    def empty(self, sequences: int) -> dict[str, torch.Tensor]:
        weights = self._qkv[0]
        heads = len(weights) // (3 * self.head_size)
        return empty_cache(sequences, heads, self.head_size, weights)

    def attention(self, values: torch.Tensor) -> torch.Tensor:
        """values: (sequences, new, hidden). Each cache serves an equal share of the sequences."""
        thirds = linear(values, *self._qkv).chunk(3, dim=-1)
        by_head = [third.unflatten(-1, (-1, self.head_size)).transpose(1, 2) for third in thirds]
        own = zip(*(tensor.chunk(len(self.caches)) for tensor in by_head), strict=True)
        mixed = [self.attend(*three, cache) for three, cache in zip(own, self.caches, strict=True)]
        return linear(torch.cat(mixed).transpose(1, 2).flatten(2), self._out)

    def mlp(self, values: torch.Tensor) -> torch.Tensor:
        return linear(gelu(linear(values, *self._up)), self._down)


def empty_cache(sequences: int, heads: int, size: int, like: torch.Tensor) -> dict:
    """ "keys" and "values" of no position yet."""
    return {name: like.new_empty(sequences, heads, 0, size) for name in ("keys", "values")}


def without_cache(queries, keys, values, cache) -> torch.Tensor:
    """The attention of all positions at once, each to itself and to earlier ones."""
    return scaled_dot_product_attention(queries, keys, values, is_causal=True)


def whole_layer(entering: torch.Tensor, part: Part) -> torch.Tensor:
    """A layer on one device, where nothing has to be added up."""
    middle = entering + part.attention(part.norm1(entering)) + part.out_bias
    return middle + part.mlp(part.norm2(middle)) + part.down_bias


def recompute(net: GPT, prompt: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` most likely next tokens of each sequence; each step computes all positions
    again."""
    tokens = prompt
    decoder = Decoder(net, without_cache)
    for _ in range(count):
        tokens = torch.cat([tokens, decoder.prefill(tokens)], dim=1)
    return tokens[:, prompt.shape[1] :]


@torch.inference_mode()
def next_tokens(net: GPT, parts: Sequence[Part], tokens, layer=whole_layer) -> torch.Tensor:
    """The token that follows in each sequence, (sequences, 1). tokens: (sequences, new), those that
    follow on the cached ones."""
    known = torch.tensor([cache["keys"].shape[2] for cache in parts[0].caches])
    places = (known[:, None] + torch.arange(tokens.shape[1])).to(tokens.device)
    return net(tokens, places.expand_as(tokens), parts, layer)[:, -1:].argmax(-1)


class Decoder:
    """A GPT with a cache: `prefill(prompt)` once, then `decode()` as often as wanted.

    layer: layer(values, part). tokens: the last ones, (sequences, 1).
    """

    def __init__(self, net: GPT, attend: Callable, layer: Callable = whole_layer, parts=None):
        self.net = net
        self.attend = attend
        self.layer = layer
        self.parts = net.parts() if parts is None else parts
        self.tokens = torch.empty(0)

    def prefill(self, prompt: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            part.begin(len(prompt), self.attend)
        self.tokens = prompt
        return self.decode()

    def decode(self) -> torch.Tensor:
        self.tokens = next_tokens(self.net, self.parts, self.tokens, self.layer)
        return self.tokens

    def back_to(self, known: int) -> None:
        """Forget what came after the first `known` positions."""
        for part in self.parts:
            for cache in part.caches:
                for name in ("keys", "values"):
                    cache[name] = cache[name][:, :, :known]


def generate(net: GPT, prompt: torch.Tensor, count: int, attend: Callable) -> torch.Tensor:
    """As `recompute`, with a prefill and count - 1 steps of decode."""
    decoder = Decoder(net, attend)
    tokens = [decoder.prefill(prompt)]
    tokens += [decoder.decode() for _ in range(count - 1)]
    return torch.cat(tokens, dim=1)


def trained(corpus, sizes: Sizes, steps: int, texts: int = 8, rate: float = 3e-3) -> GPT:
    """A GPT that has learned to continue Python's source, in float64: rounding chooses no token."""
    net = GPT(sizes)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    places = torch.arange(sizes.places).expand(texts, -1)
    for step in range(steps):
        begins = np.random.default_rng(step).integers(0, len(corpus.tokens) - sizes.places, texts)
        window = corpus.tokens[begins[:, None] + np.arange(sizes.places + 1)]
        tokens = torch.from_numpy(window.astype(np.int64))
        scores = net(tokens[:, :-1], places, net.parts(), whole_layer)
        optimizer.zero_grad()
        cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
    return net.double()


def wide(hidden: int, layers: int, places: int) -> GPT:
    """A GPT that is large enough to be timed, for texts of 512 tokens, or of `places` if that is
    more. Its weights are random: times do not depend on them."""
    return GPT(Sizes(96, hidden, 8, layers, max(512, places)))


# -- measurements on one device


class Roofs(NamedTuple):
    """flop/s of a product of matrices; bytes/s of a copy, read and written (lab 12)."""

    peak: float
    bandwidth: float


def roofs(device: str, rows: int = 1024, megabytes: int = 128) -> Roofs:
    """Both roofs of this device, measured as in lab 12."""
    a, b = torch.randn(2, rows, rows, device=device)
    source = torch.ones(megabytes * 250_000, device=device)
    target = torch.empty_like(source)
    options = {"device": device, "seconds": 2}
    product = timing.measure(lambda: a @ b, **options)
    copy = timing.measure(lambda: target.copy_(source), **options)
    return Roofs(product.rate(2 * rows**3), copy.rate(2 * source.nbytes))


def random_prompt(net: GPT, sequences: int, places: int, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sequences)
    shape = (sequences, places)
    return torch.randint(net.sizes.characters, shape, generator=generator).to(device)


class Timed(NamedTuple):
    """A step. shape: its sequences, new tokens of each, and positions to which these attend."""

    shape: tuple[int, int, int]
    took: timing.Measurement


def time_steps(
    net: GPT, attend: Callable, batches: Sequence[int], prompt: int, device: str, seconds: float
) -> dict[str, Timed]:
    """A prefill of one sequence of `prompt` tokens, and steps of decode that follow on it, for each
    number of sequences."""
    decoder = Decoder(net.to(device), attend)
    one = random_prompt(net, 1, prompt, device)
    options = {"device": device, "seconds": seconds}
    took = timing.measure(lambda: decoder.prefill(one), **options)
    steps = {f"prefill, {prompt} tokens": Timed((1, prompt, prompt), took)}
    for batch in batches:
        decoder.prefill(random_prompt(net, batch, prompt, device))
        took = timing.measure(partial(_one_step, decoder, prompt), **options)
        steps[f"decode, {batch}"] = Timed((batch, 1, prompt + 1), took)
    return steps


def between_measured(timed: Mapping[str, Timed]) -> Callable[[float], float]:
    """Seconds of a step of decode by its sequences: measured, or between two measured ones."""
    decode = [each for name, each in timed.items() if name.startswith("decode")]
    sequences = [each.shape[0] for each in decode]
    seconds = [each.took.median for each in decode]
    return lambda requests: float(np.interp(requests, sequences, seconds))


def draw_roofline(roofs: Roofs, steps: pandas.DataFrame, batches: Sequence[int], title: str):
    """The steps, with columns flops/byte and Gflop/s, below both roofs."""
    reach = np.geomspace(0.3, 200, 200)
    curves = {"roof": (reach, np.minimum(roofs.peak, reach * roofs.bandwidth) / 1e9)}
    for phase in ("prefill", "decode"):
        rows = steps[steps.index.str.startswith(phase)]
        curves[phase] = tuple(rows[name].astype(float) for name in ("flops/byte", "Gflop/s"))
    axes = {"xlabel": "flops per byte", "ylabel": "Gflop/s", "logx": True, "logy": True}
    return plots.lines(
        curves, title=title, name="roofline", labels={"decode": list(batches)}, **axes
    )


def _one_step(decoder: Decoder, known: int) -> None:
    decoder.back_to(known)
    decoder.decode()


# -- ranks


@torch.inference_mode()
def answers_and_time(comm, net: torch.nn.Module, images: np.ndarray, classify: Callable) -> tuple:
    """The labels (on rank 0), and the times of a call and of the network for a rank's part
    alone."""
    labels = classify(comm, net, images)
    mine = torch.from_numpy(np.array_split(images, comm.size)[comm.rank])
    calls = {"whole": partial(classify, comm, net, images), "net": partial(net, mine)}
    took = timing.in_turns(calls, comm=comm, repeat=40, seconds=3)
    return labels, took["whole"], took["net"]


def classifier(samples, epochs: int = 10) -> torch.nn.Module:
    """The network of lab 10, trained as there."""
    net = nets.torch_digits()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(samples.train_x))
        for batch in order.reshape(-1, 128):
            optimizer.zero_grad()
            scores = net(torch.from_numpy(samples.train_x[batch]))
            cross_entropy(scores, torch.from_numpy(samples.train_y[batch])).backward()
            optimizer.step()
    return net


class Traffic(PassOn):
    """A communicator that counts collectives, their bytes, and the seconds spent in them."""

    calls = 0
    nbytes = 0
    seconds = 0.0

    def __getattr__(self, name: str):
        method = super().__getattr__(name)
        if name.startswith("Get_") or not callable(method):
            return method

        def collective(*arrays, **options):
            begin = time.perf_counter()
            result = method(*arrays, **options)
            self.seconds += time.perf_counter() - begin
            self.calls += 1
            self.nbytes += max((getattr(array, "nbytes", 0) for array in arrays), default=0)
            return result

        return collective


class Generated(NamedTuple):
    """tokens: (sequences, count). calls, nbytes: allreduces of one step of decode."""

    tokens: list[list[int]]
    calls: float
    nbytes: float
    device: str


@launch.on_devices()
def generate_over_ranks(
    comm, net: GPT, prompt: torch.Tensor, count: int, attend: Callable, layer: Callable
) -> Generated:
    """`count` tokens with layer(comm, entering, part), each rank with its part of every layer."""
    device = world.device()
    net = copy.deepcopy(net).to(device)  # under a launcher, it is the notebook's own
    traffic = Traffic(comm)
    decoder = Decoder(net, attend, partial(layer, traffic), net.parts(comm.rank, comm.size))
    tokens = [decoder.prefill(prompt.to(device))]
    traffic.calls = traffic.nbytes = 0
    tokens += [decoder.decode() for _ in range(count - 1)]
    steps = count - 1
    rows = torch.cat(tokens, dim=1).tolist()
    return Generated(rows, traffic.calls / steps, traffic.nbytes / steps, device)


class Both(NamedTuple):
    """A step of decode for the same requests: seconds of replicas and of tensor parallelism; share
    of the latter that rank 0 spends in allreduces, in which it also waits for other ranks."""

    replicas: timing.Measurement
    tensor: timing.Measurement
    waiting: float


@launch.on_devices()
def time_both(
    comm,
    hidden: int,
    layers: int,
    prompt: int,
    requests: Sequence[int],
    attend: Callable,
    layer: Callable,
    seconds: float,
) -> tuple[dict[int, Both], dict[int, timing.Measurement]]:
    """By requests, what replicas and tensor parallelism take on these ranks; and the time of an
    allreduce by its bytes."""
    device = world.device()
    net = wide(hidden, layers, prompt + 1).to(device)
    found = {}
    for count in requests:
        traffic = Traffic(comm)
        replica = Decoder(net, attend)
        replica.prefill(random_prompt(net, max(1, count // comm.size), prompt, device))
        whole = Decoder(net, attend, partial(layer, traffic), net.parts(comm.rank, comm.size))
        whole.prefill(random_prompt(net, count, prompt, device))
        calls = {
            "replicas": partial(_one_step, replica, prompt),
            "tensor": partial(_one_step, whole, prompt),
        }
        for call in 3 * list(calls.values()):
            call()
        traffic.seconds = 0.0
        times = timing.in_turns(calls, comm=comm, device=device, seconds=seconds, warmup=0)
        waiting = traffic.seconds / sum(times["tensor"].samples)
        found[count] = Both(times["replicas"], times["tensor"], waiting)
    sizes = [4 * hidden * count for count in (1, 4, 16, 64)]
    return found, {nbytes: _time_allreduce(comm, nbytes, device) for nbytes in sizes}


def _time_allreduce(comm, nbytes: int, device: str) -> timing.Measurement:
    own = torch.ones(nbytes // 4, device=device)
    total = torch.empty_like(own)
    call = partial(comm.Allreduce, own, total)
    return timing.measure(call, comm=comm, device=device, batch=20, seconds=1)


def allreduce_on(cluster: virtual.Cluster) -> Callable[[float], float]:
    """Seconds of an allreduce by its bytes, each from a run on a virtual cluster."""

    def program(comm, mine) -> None:
        comm.Allreduce(mine, np.empty_like(mine))

    @lru_cache
    def seconds(nbytes: float) -> float:
        return cluster.run(program, virtual.vector(np.ones(1000), round(nbytes))).time

    return seconds


# -- a server of requests


@dataclass
class Request:
    """A request, and what has come of it.

    left: tokens that are still to be generated. times: seconds at which its tokens were there.
    returned: seconds at which the scheduler let it go.
    """

    name: int
    arrival: float
    prompt: torch.Tensor | None
    left: int
    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    caches: list[dict] = field(default_factory=list)
    returned: float = 0.0


def requests(net: GPT, lengths: Sequence[int], prompt: int, rate: float, device: str) -> list:
    """Requests that come at random, `rate` of them in a second on average (a Poisson process)."""
    gaps = np.random.default_rng(0).exponential(1 / rate, len(lengths))
    prompts = random_prompt(net, len(lengths), prompt, device)
    rows = zip(np.cumsum(gaps), prompts, lengths, strict=True)
    return [
        Request(name, arrival, row[None], left) for name, (arrival, row, left) in enumerate(rows)
    ]


def serve(
    net: GPT, coming: Sequence[Request], schedule: Callable, slots: int, attend: Callable
) -> float:
    """Serve all requests with schedule(waiting, running, slots) before each step; the seconds.

    The clock is that of the computation; where no request is there, it jumps to the next one.
    """
    parts = net.parts()
    left = deque(coming)
    waiting: deque = deque()
    running: list[Request] = []
    clock = 0.0
    while left or waiting or running:
        while left and left[0].arrival <= clock:
            waiting.append(left.popleft())
        for request in schedule(waiting, running, slots):
            request.returned = clock
        if running:
            clock = _serve_step(net, parts, running, attend, clock)
        elif left:
            clock = max(clock, left[0].arrival)
        elif waiting:
            raise LabError("The scheduler lets requests wait, although no other one runs.")
    return clock


def _serve_step(net: GPT, parts, running: Sequence[Request], attend, clock: float) -> float:
    """Prefill of each new request, then one step of decode for the others together."""
    old = [request for request in running if request.tokens]
    for request in running:
        if not request.tokens:
            request.caches = [part.empty(1) for part in parts]
            clock = _advance(net, parts, [request], request.prompt, attend, clock)
    if old:
        last = torch.tensor([[request.tokens[-1]] for request in old])
        clock = _advance(net, parts, old, last.to(old[0].prompt.device), attend, clock)
    return clock


def _advance(net: GPT, parts, rows: Sequence[Request], tokens, attend, clock: float) -> float:
    begin = time.perf_counter()
    for number, part in enumerate(parts):
        part.attend = attend
        part.caches = [request.caches[number] for request in rows]
    chosen = next_tokens(net, parts, tokens)[:, 0].tolist()
    clock += time.perf_counter() - begin
    for request, token in zip(rows, chosen, strict=True):
        if request.left > 0:
            request.left -= 1
            request.times.append(clock)
        request.tokens.append(token)
    return clock


def service(done: Sequence[Request], seconds: float) -> dict[str, float]:
    """What requests have seen that were served within so many seconds since the first arrived.

    throughput: tokens a second. first, latency: median seconds from arrival to the first token, and
    to the return of the request. gap, worst_gap: between two tokens, median and 99th percentile.
    """
    gaps = np.concatenate([np.diff(request.times) for request in done])
    return {
        "throughput": sum(len(request.times) for request in done) / (seconds - done[0].arrival),
        "first": float(np.median([request.times[0] - request.arrival for request in done])),
        "latency": float(np.median([request.returned - request.arrival for request in done])),
        "gap": float(np.median(gaps)),
        "worst_gap": float(np.percentile(gaps, 99)),
    }


@plots.styled
def draw_service(curves: Mapping[str, tuple], loads: Sequence[float], title: str):
    """Latency against throughput by scheduler: (tokens/s, seconds), with its load at each point."""
    figure, axes = plots.one_axes(title, "tokens per second", "median time in the server (s)")
    for index, (name, places) in enumerate(curves.items()):
        plots.points(axes, {x: (y, y, y) for x, y in zip(*places, strict=True)}, name, index)
        away = {"xytext": (0, -17 if index else 8), "textcoords": "offset points", "ha": "center"}
        for load, place in zip(loads, zip(*places, strict=True), strict=True):
            axes.annotate(f"{load:g}", place, **away, fontsize=10)
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.legend()
    return plots.done(figure, "schedulers")


# -- two pools on the virtual cluster


class Work(NamedTuple):
    """A GPU's work. prefill: seconds for a prompt. step: seconds of decode by its sequences.
    cache: bytes of a prompt's KV cache."""

    prefill: float
    step: Callable[[int], float]
    cache: float


class Demand(NamedTuple):
    """arrivals: seconds, in order. lengths: tokens to generate."""

    arrivals: list[float]
    lengths: list[int]


def demand(count: int, rate: float, tokens: int) -> Demand:
    """Requests of a Poisson process, with lengths of half to one and a half times `tokens`."""
    random = np.random.default_rng(0)
    arrivals = np.cumsum(random.exponential(1 / rate, count))
    lengths = random.integers(tokens // 2, 3 * tokens // 2, count)
    return Demand(arrivals.tolist(), lengths.tolist())


def one_pool(comm, asked: Demand, work: Work) -> dict[int, list[float]]:
    """Every rank does prefill and decode of its share of the requests: times of their tokens.

    A prefill goes first, as the request waits for its first token.
    """
    coming = deque(range(comm.rank, len(asked.arrivals), comm.size))
    running: dict[int, int] = {}
    times: dict[int, list[float]] = {}
    while coming or running:
        if coming and asked.arrivals[coming[0]] <= comm.Wtime():
            name = coming.popleft()
            comm.compute(work.prefill)
            times[name] = [comm.Wtime()]
            running[name] = asked.lengths[name] - 1
        elif running:
            _decode(comm, running, times, work)
        else:
            comm.compute(asked.arrivals[coming[0]] - comm.Wtime())
    return times


def _decode(comm, running: dict[int, int], times: dict[int, list[float]], work: Work) -> None:
    comm.compute(work.step(len(running)))
    for name in list(running):
        times[name].append(comm.Wtime())
        running[name] -= 1
        if running[name] <= 0:
            del running[name]


def two_pools(comm, asked: Demand, work: Work, pool: int) -> dict[int, list[float]]:
    """The first `pool` ranks do all prefill and send the caches to the others, which decode."""
    names = range(len(asked.arrivals))
    decoders = comm.size - pool
    if comm.rank < pool:
        return _prefill_rank(comm, asked, work, names[comm.rank :: pool], pool, decoders)
    own = names[comm.rank - pool :: decoders]
    return _decode_rank(comm, asked, work, own, pool)


def _prefill_rank(comm, asked, work, own, pool: int, decoders: int) -> dict[int, list[float]]:
    times = {}
    sent = []
    for name in own:
        comm.compute(max(0.0, asked.arrivals[name] - comm.Wtime()))
        comm.compute(work.prefill)
        times[name] = [comm.Wtime()]
        cache = virtual.vector(np.ones(1), work.cache)
        sent.append(comm.Isend(cache, pool + name % decoders, name))
    for request in sent:
        request.Wait()
    return times


def _decode_rank(comm, asked, work, own, pool: int) -> dict[int, list[float]]:
    coming = {}
    for name in own:
        cache = virtual.vector(np.zeros(1), work.cache)
        coming[name] = comm.Irecv(cache, name % pool, name)
    running: dict[int, int] = {}
    times: dict[int, list[float]] = {}
    while coming or running:
        if not running:
            coming[next(iter(coming))].Wait()
        for name in [name for name, request in coming.items() if request.Test()]:
            del coming[name]
            times[name] = []
            running[name] = asked.lengths[name] - 1
        if running:
            _decode(comm, running, times, work)
    return times


def seen(run: virtual.Run, asked: Demand) -> dict[str, float]:
    """What requests have seen in a run, in milliseconds: first token, and time between tokens."""
    times: dict[int, list[float]] = {}
    for of_rank in run.results:
        for name, moments in of_rank.items():
            times[name] = sorted([*times.get(name, []), *moments])
    gaps = [np.diff(moments) for moments in times.values()]
    first = [times[name][0] - arrival for name, arrival in enumerate(asked.arrivals)]
    noticed = {
        f"{what}, {words}": 1e3 * float(np.percentile(seconds, percent))
        for what, seconds in (("first token", first), ("between tokens", np.concatenate(gaps)))
        for words, percent in (("median", 50), ("99 %", 99))
    }
    return noticed | {"second token, median": 1e3 * float(np.median([gap[0] for gap in gaps]))}
