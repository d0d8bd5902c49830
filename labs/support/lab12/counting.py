"""What a call does, counted: PyTorch's operators, the bytes that these move, floating-point operations.

`Clock` takes the place of timing.measure in a check: it counts what is timed, and tells known times.
"""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import torch
from labkit import timing
from labkit.checks import expect
from labkit.timing import FEWEST, Measurement
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

# These write to their first argument and do not look at it.
_NOT_READ = ("copy_", "fill_", "zero_", "uniform_", "normal_", "random_")
# These read as much as they write.
_PICKS = ("index", "index_select", "gather", "embedding")


def flops(call) -> int:
    """Floating-point operations of the products and convolutions in call(), as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


class Count(TorchDispatchMode):
    """While on, notes PyTorch's operators but those that only look at numbers in another shape.

    calls: their names. moved: bytes read and written. fresh: bytes of new tensors. sources: tensors read.
    views: how often numbers were looked at in another shape. double, blank, onto_itself: whether float64 was
    among them, a tensor that was read before anything was written to it, or one that was copied onto itself.
    """

    def __init__(self):
        super().__init__()
        self.calls: list[str] = []
        self.sources: list[torch.Tensor] = []
        self.moved = 0
        self.fresh = 0
        self.views = 0
        self.double = False
        self.blank = False
        self.onto_itself = False
        self._empty: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name.startswith(("empty", "new_empty")):
            self._empty.add(_place(out))
        elif func.is_view:
            self.views += 1
        elif func.namespace == "aten":
            self._note(func._schema.arguments, name, args, kwargs, out)
        return out

    def _note(self, arguments, name, args, kwargs, out) -> None:
        by_name = [(argument, kwargs.get(argument.name)) for argument in arguments]
        passed = [*zip(arguments, args, strict=False), *by_name]
        changed = _tensors([value for argument, value in passed if _is_written(argument)])
        read = _tensors([value for argument, value in passed if _is_read(argument)])
        if name in _NOT_READ:
            read = read[1:]
        written = changed or _tensors([out])
        self.calls.append(name)
        self.sources += read
        if not changed:
            self.fresh += _bytes(written)
        self.moved += _bytes(written) + (_bytes(written) if name in _PICKS else _bytes(read))
        self.blank |= not self._empty.isdisjoint(map(_place, read))
        self._empty -= set(map(_place, written))
        self.onto_itself |= name == "copy_" and read[0].data_ptr() == written[0].data_ptr()
        self.double |= any(tensor.dtype == torch.float64 for tensor in read + written)


def _is_written(argument) -> bool:
    return bool(argument.alias_info and argument.alias_info.is_write)


def _is_read(argument) -> bool:
    return not (argument.kwarg_only and argument.alias_info)  # out=… is written alone


def _tensors(values) -> list[torch.Tensor]:
    flat = []
    for value in values:
        flat += value if isinstance(value, (list, tuple)) else [value]
    return [value for value in flat if isinstance(value, torch.Tensor)]


def _bytes(tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@dataclass
class Timed:
    """What a function returned, and what the call did that it gave to timing.measure."""

    result: object
    flops: int  # of its products and convolutions
    count: Count  # of the timed call
    whole: Count  # of all that the function did

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.count.moved

    @property
    def fresh(self) -> int:
        """Bytes of new tensors."""
        return self.count.fresh

    @property
    def onto_itself(self) -> bool:
        """Whether an array was copied onto itself."""
        return self.count.onto_itself

    @property
    def read(self) -> int:
        """Bytes of the largest tensor that was read."""
        return max((tensor.nbytes for tensor in self.count.sources), default=0)

    @property
    def dense(self) -> bool:
        """Whether all tensors that were read lie in one piece, a number beside the other."""
        return all(tensor.is_contiguous() for tensor in self.count.sources)

    @property
    def filled(self) -> bool:
        """Whether something other than zeros was written to all that was read, before it was timed."""
        return not self.whole.blank and all(bool(tensor.any()) for tensor in self.count.sources)

    @property
    def types(self) -> list[str]:
        """The types of numbers that were read, such as "float32"."""
        return sorted({str(tensor.dtype).removeprefix("torch.") for tensor in self.count.sources})

    @property
    def devices(self) -> set[str]:
        """The kinds of devices on which the tensors lie that were read."""
        return {tensor.device.type for tensor in self.count.sources}

    def others(self, *operators: str) -> str:
        """The names of operators beside these, "" if there are none."""
        return ", ".join(sorted(set(self.count.calls) - set(operators)))


class Clock:
    """In a check, takes the place of timing.measure: runs the call once, counted, and tells known times."""

    TIMES = np.array([9.0, 1.0, 2.0, 2.5, 2.0])  # seconds: fastest 1, median 2, mean 3.3

    def __init__(self, device: str):
        self.device = str(device)
        self.used = False
        self.flops = 0
        self.count = Count()  # of the timed call
        self.whole = Count()  # of all that the function does

    def measure(self, call, *, repeat=20, warmup=3, comm=None, device=None, seconds=None, batch=1):
        """As timing.measure, and insists on a function, on `device`, on a warm-up and enough runs."""
        function = "a function, which it calls many times: write `lambda:` before what is to be timed"
        expect(callable(call), f"Give timing.measure {function}.")
        asynchronous = "a GPU's calls return before the work is done"
        expect(str(device) == self.device, f"Give timing.measure device=device: {asynchronous}.")
        expect(warmup > 0, "No warm-up: the first call pays for what later ones find ready.")
        expect(repeat >= FEWEST, f"Take at least {FEWEST} runs: fewer cannot show the spread.")
        self.used = True
        with self.count:
            self.flops = flops(call)
        return Measurement(self.TIMES)

    def watch(self, function, *args) -> Timed:
        """What function(*args) does with this clock."""
        with patch.object(timing, "measure", self.measure), self.whole:
            result = function(*args)
        expect(self.used, "Time the call with timing.measure: it was not used.")
        return Timed(result, self.flops, self.count, self.whole)
