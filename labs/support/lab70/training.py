"""A training with all that an exact resume has to think of: momenta, a schedule, dropout, noise, an order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from labkit import data, nets

RATE = 0.003  # Adam's first learning rate
DROPPED = 0.2  # the share of hidden units that dropout sets to zero
NOISE = 0.1  # standard deviation of what is added to each pixel


class Training:
    """Data-parallel training of the digits' net on the ranks of `comm`, the same with every number of them.

    net, optimizer (Adam), schedule (a cosine that falls over `horizon` steps): PyTorch's own. epoch, step:
    the next batch is number `step` of epoch `epoch`. noise: this rank's NumPy generator, for the pixels'
    noise. Dropout draws from PyTorch's global generator, which this seeds. done: steps done since the start.
    after_step(training, loss): called after each step, if there is one.

    One thread a rank, and on CPUs: sums are then always taken in the same order.
    """

    def __init__(self, comm, seed: int = 0, batch: int = 64, horizon: int = 60):
        import torch

        torch.set_num_threads(1)
        self.comm = comm
        self.data = _digits()
        self.batch = batch
        self.net = build(seed)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=horizon)
        self.noise = np.random.default_rng((seed, comm.rank))
        torch.manual_seed(1000 * seed + comm.rank)
        self.epoch = 0
        self.step = 0
        self.after_step: Callable[[Training, float], None] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch."""
        return data.TRAIN_IMAGES // self.batch

    @property
    def done(self) -> int:
        """Steps done since the start."""
        return self.epoch * self.steps_per_epoch + self.step

    def advance(self) -> float:
        """One step on all ranks. Returns the mean loss of the whole batch."""
        import torch

        indices = data.batches(data.TRAIN_IMAGES, self.batch, self.epoch)[self.step]
        own = data.shard(indices, self.comm.rank, self.comm.size)
        pictures = self.data.train_x[own]
        pictures = pictures + self.noise.normal(0, NOISE, pictures.shape).astype(np.float32)
        labels = torch.from_numpy(self.data.train_y[own])
        loss = torch.nn.functional.cross_entropy(self.net(torch.from_numpy(pictures)), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self._average()
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        if self.step == self.steps_per_epoch:
            self.epoch += 1
            self.step = 0
        mean = self.comm.allreduce(loss.item()) / self.comm.size
        if self.after_step is not None:
            self.after_step(self, mean)
        return mean

    def _average(self) -> None:
        """The mean over the ranks in each gradient, by one allreduce."""
        import torch

        gradients = [weights.grad for weights in self.net.parameters()]
        flat = torch.cat([gradient.flatten() for gradient in gradients]).numpy()
        total = np.empty_like(flat)
        self.comm.Allreduce(flat, total)
        parts = torch.from_numpy(total / self.comm.size).split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


@cache
def _digits() -> data.Dataset:
    """Read once in a process: that takes longer than many steps."""
    return data.digits()


def build(seed: int = 0):
    """The digits' net with dropout behind each hidden layer."""
    import torch

    layers = []
    for layer in nets.torch_digits(nets.start_weights(seed)):
        layers.append(layer)
        if isinstance(layer, torch.nn.ReLU):
            layers.append(torch.nn.Dropout(DROPPED))
    return torch.nn.Sequential(*layers)
