"""What PyTorch keeps for the way back."""

from __future__ import annotations

import torch


def kept(net: torch.nn.Module, inputs: torch.Tensor) -> int:
    """Bytes of the tensors that PyTorch keeps for the way back of net(inputs), parameters apart."""
    parameters = {weights.data_ptr() for weights in net.parameters()}
    sizes: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        sizes[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        net(inputs)
    return sum(size for address, size in sizes.items() if address not in parameters)
