"""What lab 12's checks count with: PyTorch's operators, the bytes these move, and a clock that counts."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import torch
from labkit import timing
from labkit.checks import expect
from labkit.timing import FEWEST, Measurement
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

_NOT_READ = (
    "copy_",
    "fill_",
    "zero_",
    "uniform_",
    "normal_",
    "random_",
)  # write to their first argument and do not look at it
_PICKS = ("index", "index_select", "gather", "embedding")  # read as much as they write


class Count(TorchDispatchMode):
    """While on, notes PyTorch's operators but those that only look at numbers in another shape.

    calls: their names. moved: bytes read and written. fresh: bytes of new tensors. sources: tensors read.
    views: how often numbers were looked at in another shape. double, blank, onto_itself: whether float64 was
    among them, one that was read before anything was written to it, or one that was copied onto itself.
    """

    def __init__(self):
        super().__init__()
        self.calls: list[str] = []
        self.moved = self.fresh = self.views = 0
        self.sources: list[torch.Tensor] = []
        self.double = self.blank = self.onto_itself = False
        self._empty: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name.startswith(("empty", "new_empty")):
            self._empty.add(out.untyped_storage().data_ptr())
        elif func.is_view:
            self.views += 1
        elif func.namespace == "aten":
            self._note(func._schema.arguments, name, args, kwargs, out)
        return out

    def _note(self, arguments, name, args, kwargs, out) -> None:
        given = [*zip(arguments, args, strict=False), *((one, kwargs.get(one.name)) for one in arguments)]
        changed = [value for one, value in given if one.alias_info and one.alias_info.is_write]
        changed = _tensors(changed)
        read = [v for one, v in given if not (one.kwarg_only and one.alias_info) and v is not None]
        read = _tensors(read[1:] if name in _NOT_READ else read)
        written = changed or _tensors([out])
        self.calls.append(name)
        self.fresh += 0 if changed else _bytes(written)
        self.moved += _bytes(written) * (2 if name in _PICKS else 1)
        self.moved += 0 if name in _PICKS else _bytes(read)
        self.sources += read
        self.blank |= not self._empty.isdisjoint(one.untyped_storage().data_ptr() for one in read)
        self._empty -= {one.untyped_storage().data_ptr() for one in written}
        self.onto_itself |= name == "copy_" and read[0].data_ptr() == written[0].data_ptr()
        self.double |= any(one.dtype == torch.float64 for one in read + written)


def _tensors(values) -> list[torch.Tensor]:
    flat = [inner for one in values for inner in (one if isinstance(one, (list, tuple)) else [one])]
    return [one for one in flat if isinstance(one, torch.Tensor)]


def _bytes(tensors) -> int:
    return sum(one.nbytes for one in tensors)


def flops(call) -> int:
    """Floating-point operations of the products and convolutions in call(), as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


class Clock:
    """In a check, takes the place of timing.measure: runs the call once, counted, and tells known times."""

    TIMES = np.array([9.0, 1.0, 2.0, 2.5, 2.0])  # seconds: median 2, mean 3.3

    def __init__(self, device: str):
        self.device, self.asked, self.flops, self.running = str(device), 0, 0, False
        self.count, self.whole = Count(), Count()  # the timed call; all that the function does

    def measure(self, call, *, repeat=20, warmup=3, comm=None, device=None, seconds=None, batch=1):
        asynchronous = "a GPU's calls return before the work is done"
        function = "a function, which it calls many times: write `lambda:` before what is to be timed"
        expect(callable(call), f"Give timing.measure {function}.")
        expect(str(device) == self.device, f"Give timing.measure device=device: {asynchronous}.")
        expect(warmup > 0, "No warm-up: the first call pays for what later ones find ready.")
        expect(repeat >= FEWEST, f"Take at least {FEWEST} runs: fewer cannot show the spread.")
        self.asked += 1
        self.running = True
        with self.count:
            self.flops = flops(call)
        self.running = False
        return Measurement(self.TIMES)

    def watch(self, function, *args):
        """What function(*args) returns, with this clock."""
        with patch.object(timing, "measure", self.measure), self.whole:
            result = function(*args)
        expect(self.asked, "Time the call with timing.measure: it was not used.")
        return result

    def expect_rate(self, got, work, unit, half) -> None:
        """That `got` is work per second, at the median."""
        expect(isinstance(got, (float, int)), f"Return one number, {unit} per second. This is {got!r}.")
        for seconds, said in ((1.0, "the fastest run"), (self.TIMES.mean(), "the mean")):
            expect(not np.isclose(got, work / seconds), f"This is {said}. Take the median of the runs.")
        expect(not np.isclose(2 * got, work / 2), f"Half of what was done: {half}.")
        expect(
            not np.isclose(got * work, 2), f"This is seconds for one of the {unit}: turn the fraction round."
        )
        expect(not np.isclose(got, 2), f"This is the time. Divide the {unit} by it.")
        expect.close(got, work / 2, f"{unit} per second (in this check the median run takes 2 s)")
