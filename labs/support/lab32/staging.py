"""A net's parameters and gradients as arrays for MPI: the net's own memory, or pinned copies of a GPU's."""

from __future__ import annotations

import numpy as np
from labkit import placement


class Arrays:
    """`parameters`, `gradients`: a module's, as flat arrays, one a tensor, in the order of parameters().

    In host memory they are the module's own memory: what is written there, the module has. On a GPU they are
    pinned copies; `bring` and `take` move a tensor, and on the host there is nothing to move. (The calls for
    GPU memory that MVAPICH2-GDR's guide lists, 2.3.7, section 14, have no Iallreduce and no Ireduce.)
    """

    def __init__(self, module, staged: bool | None = None):
        """staged: copies in any case; None: of a module on a GPU."""
        import torch

        self._weights = list(module.parameters())
        for weight in self._weights:
            weight.grad = torch.zeros_like(weight)
        self.staged = any(weight.is_cuda for weight in self._weights) if staged is None else staged
        self._parameters = [self._on_host(weight.detach()) for weight in self._weights]
        self._gradients = [self._on_host(weight.grad) for weight in self._weights]
        self.parameters: list[np.ndarray] = [tensor.numpy().reshape(-1) for tensor in self._parameters]
        self.gradients: list[np.ndarray] = [tensor.numpy().reshape(-1) for tensor in self._gradients]

    def _on_host(self, tensor):
        if not self.staged:
            return tensor
        copy = placement.pinned_like(tensor)
        copy.copy_(tensor)
        return copy

    def bring(self, i: int) -> None:
        """Copy gradient i from the GPU; it is there when this returns."""
        if self.staged:
            self._gradients[i].copy_(self._weights[i].grad)

    def take(self, i: int) -> None:
        """Copy parameter i to the GPU, before what is asked of the GPU next. `bring` waits for it."""
        if self.staged:
            self._weights[i].detach().copy_(self._parameters[i], non_blocking=True)
