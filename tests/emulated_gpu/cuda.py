"""torch.cuda with emulated GPUs: the functions that the labs and PyTorch's own modules call."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import torch

from tests.emulated_gpu import device, nccl

MEMORY = 16 << 30  # bytes; nobody counts them


class Stream:
    """A stream of the current device; all streams of a device share its time line."""

    def __init__(self, device_of=None, priority=0, **_):
        self.device = torch.device("cuda", device.number(device_of))
        self.device_index = self.device.index
        self.cuda_stream = 0

    def synchronize(self):
        device.wait(self.device_index)

    def wait_stream(self, stream):
        """Nothing to do, as there is one time line."""

    def wait_event(self, event):
        """Nothing to do, as there is one time line."""

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def is_capturing(self):
        return False

    def query(self):
        return device.busy_until.get(self.device_index, 0.0) <= time.perf_counter()


class Event:
    """A point on a device's time line."""

    def __init__(self, enable_timing=False, **_):
        self.at = None
        self.device_index = None

    def record(self, stream=None):
        index = stream.device_index if stream else device.current
        self.device_index = index
        self.at = max(device.busy_until.get(index, 0.0), time.perf_counter())

    def synchronize(self):
        time.sleep(max(0.0, self.at - time.perf_counter()))

    def wait(self, stream=None):
        """Nothing to do, as there is one time line."""

    def query(self):
        return self.at is None or self.at <= time.perf_counter()

    def elapsed_time(self, end):
        """Milliseconds to `end`; RuntimeError for one that is not there yet, as in CUDA."""
        if not end.query():
            raise RuntimeError("CUDA error: device not ready")
        return (end.at - self.at) * 1e3


class OnDevice:
    """`with torch.cuda.device(1):`"""

    def __init__(self, index):
        self.index = device.number(index)

    def __enter__(self):
        self.before, device.current = device.current, self.index

    def __exit__(self, *_):
        device.current = self.before
        return False


@contextmanager
def _nothing(*_, **__):
    yield


def _set_device(index) -> None:
    found = device.number(index)
    if found is not device.HOST:
        device.current = found


def _properties(index=None):
    index = device.number(index)
    uuid = f"GPU-emulated-{index}"
    return SimpleNamespace(
        name="emulated GPU",
        uuid=uuid,
        total_memory=MEMORY,
        major=8,
        minor=0,
        multi_processor_count=1,
    )


FUNCTIONS = {
    "is_available": lambda: device.count > 0,
    "is_initialized": lambda: True,
    "init": lambda: None,
    "_lazy_init": lambda: None,
    "device_count": lambda: device.count,
    "current_device": lambda: device.current,
    "set_device": _set_device,
    "synchronize": device.wait,
    "current_stream": Stream,
    "default_stream": Stream,
    "stream": _nothing,
    "set_stream": lambda stream: None,
    "get_device_name": lambda index=None: _properties(index).name,
    "get_device_capability": lambda index=None: (8, 0),
    "get_device_properties": _properties,
    "memory_allocated": lambda index=None: 0,
    "max_memory_allocated": lambda index=None: 0,
    "reset_peak_memory_stats": lambda index=None: None,
    "empty_cache": lambda: None,
    "is_bf16_supported": lambda including_emulation=True: True,
    "manual_seed_all": lambda seed: None,
    "Stream": Stream,
    "Event": Event,
    "device": OnDevice,
}


def install(count: int) -> None:
    """Let this process have `count` emulated GPUs, in this thread and in all that it starts."""
    device.count = count
    for name, function in FUNCTIONS.items():
        setattr(torch.cuda, name, function)
    torch.cuda.nccl.version = lambda: (2, 0, 0)
    # A PyTorch with CUDA would ask the driver, which is not here.
    torch.accelerator.current_stream = Stream
    torch.Tensor.record_stream = lambda tensor, stream: None
    nccl.install()
    _let_autocast_reach_the_host()
    _let_the_profiler_see_the_host()
    device.change_tensors()
    device.enter_modes()
    run = threading.Thread.run

    def run_with_modes(thread):
        device.enter_modes()
        run(thread)

    threading.Thread.run = run_with_modes


def _let_the_profiler_see_the_host() -> None:
    """A PyTorch without CUDA that is asked to profile CUDA prints a stack of C++ for each
    operation."""
    kinds = torch.profiler.ProfilerActivity
    begin = torch.profiler.profile.__init__

    def begin_on_host(self, *, activities=(kinds.CPU,), **kwargs):
        begin(self, activities=[each for each in activities if each != kinds.CUDA], **kwargs)

    torch.profiler.profile.__init__ = begin_on_host


def _let_autocast_reach_the_host() -> None:
    """torch.autocast("cuda") acts on what the processor computes, since that does the device's
    work."""
    begin = torch.amp.autocast_mode.autocast.__init__

    def begin_on_host(self, device_type, *args, **kwargs):
        begin(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    torch.amp.autocast_mode.autocast.__init__ = begin_on_host
