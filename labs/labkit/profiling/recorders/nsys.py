"""Hooks for NVIDIA's Nsight Systems on a machine with a GPU: ranges for spans, and where recording begins.

`nsys profile -t cuda,nvtx,mpi --capture-range=cudaProfilerApi python lab.py` collects what lies between the
first and the last recorded step, with a range for each span. Not run: no GPU was at hand.
"""

from __future__ import annotations

from labkit.errors import NotHere
from labkit.profiling import spans
from labkit.profiling.spans import Span


class Nsys:
    """Adds nothing to the table; what it marks is for nsys."""

    error = 0.0

    def __init__(self):
        try:
            import torch
        except ImportError as error:
            raise NotHere('kind="nsys" needs PyTorch, which is not installed here: `make setup`.') from error
        if not torch.cuda.is_available():
            raise NotHere('kind="nsys" marks ranges on an NVIDIA GPU, and PyTorch sees none here.')
        self._cuda = torch.cuda
        self._cuda.profiler.start()

    def start(self) -> None:
        spans.ranges = self._cuda.nvtx
        self._cuda.nvtx.range_push("recorded step")

    def stop(self, begin: float, end: float) -> list[Span]:
        self._cuda.nvtx.range_pop()
        spans.ranges = None
        return []

    def finish(self) -> list[str]:
        return []

    def close(self) -> None:
        spans.ranges = None
        self._cuda.profiler.stop()
