"""What the emulated GPUs refuse, in the words of PyTorch, NCCL and MPI, and what they let pass."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.emulated_gpu import ROOT, environment
from tests.helpers import ran

BEGIN = """
import json, time
import numpy as np, torch
from labkit import launch, timing, world
from mpi4py import MPI
from tests.emulated_gpu import device

def of_rank(gpu, tensor):
    from torch import distributed
    torch.cuda.set_device(eval(gpu, {"local_rank": world.local_rank()}))
    distributed.init_process_group("nccl")
    try:
        values = eval(tensor, {"torch": torch})
        distributed.all_reduce(values)
        distributed.barrier()
        return values.sum().item()
    finally:
        distributed.destroy_process_group()

def rank(*how):
    return launch.run(of_rank, *how, ranks=2, controller="torch", timeout=200)

torch.cuda.set_device(1)
host, other = torch.ones(3), torch.ones(3, device="cuda:0")
x = torch.ones(3, device="cuda")
double = lambda: x * 2
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


# Each on a device of which every operation takes 50 ms: labkit's timing waits for it, a bare clock
# does not. The least and the most seconds.
CLOCKS = {
    "(lambda begin: (x * 2, time.perf_counter() - begin))(time.perf_counter())[1]": (0, 0.02),
    "timing.measure(double, repeat=5, warmup=1, device='cuda:1').median": (0.035, 0.065),
    "timing.measure(double, repeat=5, device='cuda:1', comm=MPI.COMM_SELF).median": (0.035, 0.065),
    "timing.measure(double, repeat=5, warmup=1).median": (0, 0.02),
}
# Of two ranks of a group of NCCL: device and tensor of each, and what they get.
GROUPS = {
    "rank('local_rank', \"torch.ones(3, device='cuda')\")": "[6.0, 6.0]",
    "rank('local_rank', 'torch.ones(3)')": "No backend type associated with device type cpu",
    "rank('0', \"torch.ones(3, device='cuda')\")": "Duplicate GPU detected",
}


@pytest.mark.slow
def test_what_is_refused_what_is_not_and_what_takes_time():
    """All in one process with two GPUs, which says of each expression its value, or its error."""
    program = BEGIN + "out = []\n"
    lines = [*REFUSED, *(f"bool({line})" for line in TRUE), *GROUPS]
    for line in [*lines, "setattr(device, 'SECONDS', 0.05)", *CLOCKS]:
        program += f"try:\n    out.append({line})\nexcept Exception as error:\n"
        program += "    out.append(str(error))\n"
    program += "print(json.dumps(out, default=str))"
    env = {**os.environ, **environment(2)}
    done = ran(sys.executable, "-c", program, env=env, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    answers = dict(zip([*REFUSED, *TRUE, *GROUPS, "seconds", *CLOCKS], got, strict=True))
    for line, says in {**REFUSED, **GROUPS}.items():
        assert says in str(answers[line]), line
    assert [line for line in TRUE if answers[line] is not True] == []
    for line, (least, most) in CLOCKS.items():
        assert least <= answers[line] <= most, line
