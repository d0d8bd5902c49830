"""An NVIDIA GPU as a device, through PyTorch."""

from __future__ import annotations

import numpy as np

from support.lab27.emulated import EMPTY
from support.lab27.host import Copy, Pinned, refuse


class Cuda:
    """An NVIDIA GPU through PyTorch; `name` is "cuda:0 (…)". Copies run on a stream for each direction."""

    def __init__(self, name: str):
        import torch

        self._torch = torch
        self._device = torch.device(name)
        torch.cuda.set_device(self._device)  # MPI libraries look at the current device, too
        self._up = torch.cuda.Stream(self._device)
        self._down = torch.cuda.Stream(self._device)
        self.name = f"{name} ({torch.cuda.get_device_name(self._device)})"

    def empty(self, nbytes: int):
        return self._torch.full((nbytes,), EMPTY, dtype=self._torch.uint8, device=self._device)

    def array(self, values: np.ndarray):
        return self._torch.from_numpy(np.array(values, np.uint8)).to(self._device)

    def peek(self, memory) -> np.ndarray:
        return memory.cpu().numpy()

    def pinned(self, *shape: int) -> Pinned:
        return self._torch.empty(shape, dtype=self._torch.uint8, pin_memory=True).numpy().view(Pinned)

    def to_host(self, host: Pinned, memory) -> Copy:
        refuse(host, memory, self._torch.Tensor, "to_host(host, memory)")
        return self._start(self._down, self._torch.from_numpy(host), memory)

    def to_device(self, memory, host: Pinned) -> Copy:
        refuse(host, memory, self._torch.Tensor, "to_device(memory, host)")
        return self._start(self._up, memory, self._torch.from_numpy(host))

    def for_mpi(self, memory):
        """The tensor itself: mpi4py takes its address. MPI knows no streams, so all work has to be over."""
        self._torch.cuda.synchronize(self._device)
        return memory

    def _start(self, stream, into, source) -> Copy:
        stream.wait_stream(self._torch.cuda.current_stream(self._device))  # kernels that still write `source`
        with self._torch.cuda.stream(stream):
            into.copy_(source, non_blocking=True)
            over = self._torch.cuda.Event()
            over.record(stream)
        return Copy(over.synchronize)
