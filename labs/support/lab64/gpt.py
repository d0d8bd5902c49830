"""A small GPT whose blocks may be cut over ranks. Numbers go through it as (places, texts, hidden).

The places of the text come first, so that a part of them is one piece of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional

WHOLE = ("norm1.weight", "norm1.bias", "out.bias", "norm2.weight", "norm2.bias", "down.bias")


class Sizes(NamedTuple):
    """How large the GPT is: characters that it knows, numbers for each place, heads, layers, places."""

    characters: int
    hidden: int
    heads: int
    layers: int
    places: int


class Pieces(NamedTuple):
    """Of what the GPT's blocks are made.

    cut(name, weight, bias, rank, ranks): this rank's (weight, bias) of "qkv", "out", "up" or "down".
    attention(comm, entering, qkv, out, size, f, g), mlp(comm, entering, up, down, f, g): what leaves, on all
    ranks; qkv, out, up, down are (weight, bias), size is the numbers of a head. f, g(tensor, comm): the pair.
    """

    cut: Callable
    attention: Callable
    mlp: Callable
    f: Callable
    g: Callable


def _whole_attention(comm, entering, qkv, out, size, f, g):
    places, texts, hidden = entering.shape
    queries, keys, values = (
        part.view(places, texts, hidden // size, size).permute(1, 2, 0, 3)
        for part in functional.linear(entering, *qkv).chunk(3, dim=-1)
    )
    mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return functional.linear(mixed.permute(2, 0, 1, 3).reshape(places, texts, hidden), *out)


def _whole_mlp(comm, entering, up, down, f, g):
    return functional.linear(functional.gelu(functional.linear(entering, *up)), *down)


def _not_cut(name, weight, bias, rank, ranks):
    return weight, bias


whole = Pieces(_not_cut, _whole_attention, _whole_mlp, None, None)


class Block(torch.nn.Module):
    """Attention and MLP, each behind a norm and added to what entered. Holds this rank's parts."""

    def __init__(self, weights: dict[str, torch.Tensor], sizes: Sizes, comm, pieces: Pieces):
        super().__init__()
        self.comm = comm
        self.pieces = pieces
        self.size = sizes.hidden // sizes.heads
        self.parts = torch.nn.ParameterDict()  # its keys must not hold a dot
        for name in ("qkv", "out", "up", "down"):
            matrix = (weights[f"{name}.weight"], weights[f"{name}.bias"])
            part = pieces.cut(name, *matrix, comm.rank, comm.size)
            for kind, tensor in zip(("weight", "bias"), part, strict=True):
                self.parts[f"{name}_{kind}"] = tensor.clone()
        for name in ("norm1", "norm2"):
            for kind in ("weight", "bias"):
                self.parts[f"{name}_{kind}"] = weights[f"{name}.{kind}"].clone()

    def part(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.parts[f"{name}_weight"], self.parts[f"{name}_bias"]

    def normed(self, name: str, entering: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(entering, entering.shape[-1:], *self.part(name))

    def forward(self, entering: torch.Tensor) -> torch.Tensor:
        _, attention, mlp, f, g = self.pieces
        inner = self.normed("norm1", entering)
        middle = entering + attention(self.comm, inner, self.part("qkv"), self.part("out"), self.size, f, g)
        inner = self.normed("norm2", middle)
        return middle + mlp(self.comm, inner, self.part("up"), self.part("down"), f, g)


class GPT(torch.nn.Module):
    """The net: characters in, for each place a number for each character that may come next.

    All ranks make the same whole weights from one seed, and keep their parts. own: the places of the text
    that this rank has outside of f and g, a slice.
    """

    def __init__(self, sizes: Sizes, comm, pieces: Pieces, own: slice, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        hidden = sizes.hidden

        def drawn(*shape: int) -> torch.Tensor:
            return 0.05 * torch.randn(*shape, generator=generator)

        self.own = own
        self.characters = torch.nn.Parameter(drawn(sizes.characters, hidden))
        self.places = torch.nn.Parameter(drawn(sizes.places, 1, hidden))
        self.blocks = torch.nn.ModuleList()
        for _ in range(sizes.layers):
            weights = {}
            for name, shape in _shapes(hidden).items():
                weights[f"{name}.weight"] = drawn(*shape)
                weights[f"{name}.bias"] = drawn(shape[0])
            for name in ("norm1", "norm2"):
                weights[f"{name}.weight"] = torch.ones(hidden)
                weights[f"{name}.bias"] = torch.zeros(hidden)
            self.blocks.append(Block(weights, sizes, comm, pieces))
        self.norm = torch.nn.LayerNorm(hidden)
        self.head = torch.nn.Parameter(drawn(sizes.characters, hidden))

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """characters (places, texts) -> (own places, texts, characters)."""
        values = functional.embedding(characters[self.own], self.characters)
        values = values + self.places[: len(characters)][self.own]
        for block in self.blocks:
            values = block(values)
        return functional.linear(self.norm(values), self.head)

    def uncut(self) -> list[torch.nn.Parameter]:
        """The parameters that every rank holds in full."""
        parts = [block.parts[name.replace(".", "_")] for block in self.blocks for name in WHOLE]
        return [self.characters, self.places, self.head, *self.norm.parameters(), *parts]


def _shapes(hidden: int) -> dict[str, tuple[int, int]]:
    """(numbers that leave, numbers that enter) of a block's matrices, as PyTorch keeps them."""
    return {
        "qkv": (3 * hidden, hidden),
        "out": (hidden, hidden),
        "up": (4 * hidden, hidden),
        "down": (hidden, 4 * hidden),
    }
