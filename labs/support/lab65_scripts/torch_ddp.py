# PyTorch DDP: torchrun --nproc-per-node=2 torch_ddp.py WIDTH BATCH STEPS
import sys
import time

import torch
from labkit import data
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

width, batch, steps = map(int, sys.argv[1:])
distributed.init_process_group("gloo")
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
net = DistributedDataParallel(net)
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
