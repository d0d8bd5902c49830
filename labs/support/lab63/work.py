"""The arithmetic of one stage, micro-batch by micro-batch, with the bytes that it holds meanwhile."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional


class Work:
    """One stage's part of a step. Arrays go in and come out; who sends them where is not its affair.

    stage: the blocks of this rank. pictures (n, …), labels (n,): of the whole batch. micro: how many
    micro-batches the batch is cut into. first, last: whether the net begins, ends here.
    done: what was done, in order: ("F", number), ("B", number).
    most_bytes: the most that the way back needed at any time, of all micro-batches under way.
    """

    def __init__(self, stage: torch.nn.Sequential, pictures, labels, micro: int, *, first: bool, last: bool):
        self.stage = stage
        self.first = first
        self.last = last
        self.pictures = torch.chunk(pictures, micro)
        self.labels = torch.chunk(labels, micro)
        self.micro = micro
        self.losses: list[float] = []
        self.done: list[tuple[str, int]] = []
        self.most_bytes = 0
        self._under_way: dict[int, tuple] = {}  # micro-batch -> (entering, leaving, bytes)

    def room_for_entering(self, number: int) -> np.ndarray:
        """An empty float32 array for what enters this stage with that micro-batch."""
        return np.empty((len(self.pictures[number]), self.stage[0][0].in_features), np.float32)

    def room_for_gradient(self, number: int) -> np.ndarray:
        """An empty float32 array for the gradient of what left this stage with that micro-batch."""
        return np.empty((len(self.pictures[number]), self.stage[-1][0].out_features), np.float32)

    def forward(self, number: int, entering: np.ndarray | None) -> np.ndarray | None:
        """The way forward. entering: None on the first stage. Returns what leaves; None on the last stage."""
        self.done.append(("F", number))
        inputs = self.pictures[number] if self.first else torch.from_numpy(entering).requires_grad_()
        kept: dict[int, int] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            outputs = self.stage(inputs)
            if self.last:
                outputs = functional.cross_entropy(outputs, self.labels[number]) / self.micro
                self.losses.append(outputs.item())
        parameters = {weights.data_ptr() for weights in self.stage.parameters()}
        size = sum(nbytes for address, nbytes in kept.items() if address not in parameters)
        self._under_way[number] = (inputs, outputs, size)
        self.most_bytes = max(self.most_bytes, sum(held for *_, held in self._under_way.values()))
        return None if self.last else outputs.detach().numpy()

    def backward(self, number: int, gradient: np.ndarray | None) -> np.ndarray | None:
        """The way back; gradients add up in the parameters. gradient: of what left; None on the last stage.

        Returns the gradient of what entered; None on the first stage.
        """
        self.done.append(("B", number))
        inputs, outputs, _ = self._under_way.pop(number)
        outputs.backward(None if self.last else torch.from_numpy(gradient))
        return None if self.first else inputs.grad.numpy()
