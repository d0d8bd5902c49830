"""What the emulated GPUs refuse, in the words of PyTorch, NCCL and MPI, and what they let pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.emulated_gpu import ROOT, environment

BEGIN = """
import numpy as np, time, torch
from labkit import timing
from mpi4py import MPI
torch.cuda.set_device(1)
host, other = torch.ones(3), torch.ones(3, device="cuda:0")
x = torch.ones(3, device="cuda")
net = torch.nn.Linear(3, 2).to("cuda")
"""
REFUSED = {
    "x.numpy()": "can't convert cuda:1 device type tensor to numpy",
    "np.asarray(x)": "can't convert cuda:1",
    "np.dot(x, np.ones(3))": "can't convert cuda:1",
    "x + host": "Expected all tensors to be on the same device",
    "x + other": "at least two devices, cuda:0 and cuda:1",
    "x.index_add(0, torch.tensor([0, 2]), x[:2])": "(in aten::index_add)",
    "net(host)": "Expected all tensors to be on the same device",
    "torch.zeros(2, device='cuda:2')": "invalid device ordinal",
    "torch.cuda.set_device(2)": "invalid device ordinal",
    "MPI.COMM_SELF.Allreduce(MPI.IN_PLACE, x)": "an MPI without CUDA would crash here",
    "MPI.COMM_SELF.Bcast(net.weight.detach())": "an MPI without CUDA would crash here",
}
TRUE = (
    "x.device == torch.device('cuda', 1) and x.is_cuda and x.get_device() == 1",
    "(x * 2 + 1).sum().device == x.device and (x * 2).sum().item() == 6",
    "net(x).device == x.device and torch.zeros_like(x).device == x.device",
    "x.cpu().device == torch.device('cpu') and x.cpu().numpy().sum() == 3",
    "x.to('cpu').to('cuda:0').device == other.device and x.half().device == x.device",
    "torch.tensor([1.0], device='cuda').device == x.device",
    "x[torch.tensor([0, 2])].device == x.device and (x + torch.tensor(1.0)).device == x.device",
    "host.copy_(x).device == torch.device('cpu') and host.numpy().sum() == 3",
    "MPI.COMM_SELF.Allreduce(MPI.IN_PLACE, host.numpy()) is None",
    "net(x).sum().backward() is None and net.weight.grad.device == x.device",
    "torch.optim.Adam(net.parameters()).step() is None and net.weight.device == x.device",
)


def answers(lines: list[str], **variables: str) -> list:
    """What came of each expression in a process with two GPUs: its value, or its error's text."""
    program = BEGIN + "out = []\n"
    for line in lines:
        program += (
            f"try:\n    out.append({line})\nexcept Exception as error:\n   "
            " out.append(str(error))\n"
        )
    program += "import json; print(json.dumps(out, default=str))"
    how = run(program, **variables)
    assert how.returncode == 0, how.stderr
    return json.loads(how.stdout)


def run(program: str, **variables: str) -> subprocess.CompletedProcess:
    """A program in a process with two GPUs."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment(2), **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_what_is_refused_and_what_is_not():
    got = answers([*REFUSED, *(f"bool({line})" for line in TRUE)])
    refused = dict(zip(REFUSED, got, strict=False))
    assert {line: says in refused[line] for line, says in REFUSED.items()} == dict.fromkeys(
        REFUSED, True
    )
    assert dict(zip(TRUE, got[len(REFUSED) :], strict=True)) == dict.fromkeys(TRUE, True)


@pytest.mark.slow
def test_a_clock_without_synchronizing_reads_too_little():
    """An operation takes 50 ms on the device; labkit's timing waits for it, and a bare clock does
    not."""
    lines = [
        "(time.perf_counter(), x * 2, time.perf_counter())",
        "timing.measure(lambda: x * 2, repeat=5, warmup=1, device='cuda:1').median",
        (
            "timing.measure(lambda: x * 2, repeat=5, warmup=1, device='cuda:1',"
            " comm=MPI.COMM_SELF).median"
        ),
        "timing.measure(lambda: x * 2, repeat=5, warmup=1).median",
    ]
    bare, by_events, by_clock, unaware = answers(lines, EMULATED_SECONDS="0.05")
    assert bare[2] - bare[0] < 0.02
    assert by_events == pytest.approx(0.05, rel=0.3)
    assert by_clock == pytest.approx(0.05, rel=0.3)
    assert unaware < 0.02


GROUPS = {
    "its own GPU": ("local_rank", "torch.ones(3, device='cuda')", "[6.0, 6.0]"),
    "a host tensor": (
        "local_rank",
        "torch.ones(3)",
        "No backend type associated with device type cpu",
    ),
    "one GPU for two": ("0", "torch.ones(3, device='cuda')", "Duplicate GPU detected"),
}


@pytest.mark.slow
def test_groups_of_nccl():
    program = """
import torch
from torch import distributed
from labkit import launch, world

def rank(device, tensor):
    torch.cuda.set_device(eval(device, {"local_rank": world.local_rank()}))
    distributed.init_process_group("nccl")
    try:
        values = eval(tensor, {"torch": torch})
        distributed.all_reduce(values)
        distributed.barrier()
        return values.sum().item()
    finally:
        distributed.destroy_process_group()
"""
    for device, tensor, _ in GROUPS.values():
        program += (
            f"try:\n    print(launch.run(rank, {device!r}, {tensor!r}, ranks=2, controller='torch',"
            " timeout=200))\nexcept Exception as error:\n    print(str(error).splitlines()[0])\n"
        )
    how = run(program)
    lines = how.stdout.splitlines()[-len(GROUPS) :]
    for (what, (_, _, says)), line in zip(GROUPS.items(), lines, strict=True):
        assert says in line, (what, how.stdout, how.stderr)
