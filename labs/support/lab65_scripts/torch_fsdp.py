# FSDP2: torchrun --nproc-per-node=2 torch_fsdp.py WIDTH BATCH STEPS
import sys
import time

import torch
from labkit import data
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

width, batch, steps = map(int, sys.argv[1:])
distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
torch.manual_seed(65)
net = torch.nn.Sequential(
    torch.nn.Linear(64, width),
    torch.nn.ReLU(),
    torch.nn.Linear(width, width),
    torch.nn.ReLU(),
    torch.nn.Linear(width, width),
    torch.nn.ReLU(),
    torch.nn.Linear(width, 10),
)
for layer in net:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(net, mesh=mesh)
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
digits = data.digits()
pictures = torch.from_numpy(digits.train_x)
labels = torch.from_numpy(digits.train_y)
order = data.batches(len(pictures), batch, epoch=0)

for step in range(steps):
    rows = order[step % len(order)]
    rows = data.shard(rows, distributed.get_rank(), distributed.get_world_size())
    optimizer.zero_grad()
    loss = cross_entropy(net(pictures[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    print(step, time.time(), loss.item(), flush=True)
