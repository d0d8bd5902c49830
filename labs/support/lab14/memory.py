"""Bytes that a training step in PyTorch holds: by part, kept for backward, and at the peak (labs 14, 16).

On a CPU no allocator tells what PyTorch holds, so the tensors are counted: each storage once, however many
tensors look into it. What libraries use inside an operation (oneDNN's scratch space) is not in these numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import contextmanager

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

KINDS = {"Conv2d": "conv", "Linear": "linear", "ReLU": "relu", "MaxPool2d": "pool"}


class OverBudget(MemoryError):
    """A step held more bytes than it was given."""


def table(net: torch.nn.Sequential, images: torch.Tensor):
    """The layers of `net` as a DataFrame: kind, parameters, activations (numbers in one image's output).

    Columns as in nets.layer_table. A layer that only looks at its input in another shape has no row.
    """
    import pandas

    rows = []
    x = images[:1]
    with torch.no_grad():
        for layer in net:
            x = layer(x)
            kind = KINDS.get(type(layer).__name__)
            if kind:
                rows.append((kind, sum(p.numel() for p in layer.parameters()), x.numel()))
    return pandas.DataFrame(rows, columns=["kind", "parameters", "activations"])


def kept(forward: Callable[[], torch.Tensor], *apart: torch.Tensor, note: Callable | None = None) -> int:
    """Bytes that autograd keeps for backward in `forward()`, without those of the tensors `apart`.

    note(tensor) is called with each tensor that is kept.
    """
    storages: dict[int, torch.UntypedStorage] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
        if note is not None:
            note(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    without = {tensor.untyped_storage().data_ptr() for tensor in apart}
    total = sum(storage.nbytes() for place, storage in storages.items() if place not in without)
    del result  # until here: what is freed could be used again, and counted once instead of twice
    return total


def parts(net, optimizer, images, labels, *, mixed: bool = False) -> dict[str, int]:
    """Bytes by part in one training step: parameters, gradients, optimizer, activations.

    Activations: what is kept for backward except weights and labels. Optimizer: its state, after its step.
    mixed: forward runs under autocast to bfloat16, and "copies of weights" is a part of its own. A copy is
    told by its type and shape, so choose a batch that no weight has as a side.
    """
    held: dict = {}
    weights = list(net.parameters())
    shapes = {tuple(weight.shape) for weight in weights} if mixed else set()
    copies: dict[int, int] = {}

    def forward():
        with torch.autocast(images.device.type, torch.bfloat16, enabled=mixed):
            logits = net(images)
        logits = logits.float() if mixed else logits
        held["loss"] = functional.cross_entropy(logits, labels)
        return held["loss"]

    def note(tensor):
        shape = tuple(tensor.shape)
        if tensor.dtype == torch.bfloat16 and (shape in shapes or shape[::-1] in shapes):
            copies[_place(tensor)] = tensor.untyped_storage().nbytes()

    activations = kept(forward, labels, *weights, note=note) - sum(copies.values())
    held.pop("loss").backward()
    gradients = sum(weight.grad.nbytes for weight in weights)
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values()]
    states = [value.nbytes for value in states if torch.is_tensor(value)]
    counts = {
        "parameters": sum(weight.nbytes for weight in weights),
        "gradients": gradients,
        "optimizer": sum(states),
        "activations": activations,
    }
    if mixed:
        counts["copies of weights"] = sum(copies.values())
    return counts


def peak(call: Callable[[], object], device: str = "cpu") -> int:
    """Most bytes that `call()` held at a time, above what was there before it.

    On a GPU the allocator's word (torch.cuda.max_memory_allocated); on a CPU the tensors made by PyTorch's
    operations, counted.
    """
    if str(device).startswith("cuda"):
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with _Live(None) as live:
        call()
    return live.most


@contextmanager
def budget(nbytes: int, device: str = "cpu"):
    """`with memory.budget(50_000_000):` a block that holds more than that at a time gets an OverBudget.

    On a CPU what tensors hold, counted from the start of the block. On a GPU all that this process has, by
    the allocator, which takes memory in blocks of megabytes.
    """
    if str(device).startswith("cuda"):
        all_bytes = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.empty_cache()
        limit = min(1.0, (torch.cuda.memory_reserved(device) + nbytes) / all_bytes)
        torch.cuda.set_per_process_memory_fraction(limit, device)
        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            raise OverBudget(str(error).split(". ")[0]) from None
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        return
    with _Live(nbytes):
        yield


def largest(step: Callable[[int], object], nbytes: int, most: int, device: str = "cpu") -> int:
    """The largest batch up to `most` for which step(batch) stays within `nbytes`, found by trying."""
    low = 0
    high = most + 1  # `low` fits, `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            with budget(nbytes, device):
                step(middle)
            low = middle
        except OverBudget:
            high = middle
    return low


class _Live(TorchDispatchMode):
    """Counts bytes of the storages that operations make while it is on, until they are freed."""

    def __init__(self, limit: int | None):
        super().__init__()
        self.limit = limit
        self.now = 0
        self.most = 0
        self._known: weakref.WeakSet = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        arguments = {_place(leaf) for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if torch.is_tensor(leaf) and _place(leaf) not in arguments:  # else a view, or changed in place
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        nbytes = storage.nbytes()
        self.now += nbytes
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._freed, nbytes)
        if self.limit is not None and self.now > self.limit:
            raise OverBudget(f"{self.now:,} bytes at a time, and {self.limit:,} were given.")

    def _freed(self, nbytes: int) -> None:
        self.now -= nbytes


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
