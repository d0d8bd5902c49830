# Horovod on PyTorch: horovodrun -np 2 python torch_horovod.py WIDTH BATCH STEPS
import sys
import time

import horovod.torch as hvd
import torch
from labkit import data
from torch.nn.functional import cross_entropy

width, batch, steps = map(int, sys.argv[1:])
hvd.init()
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
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
digits = data.digits()
pictures = torch.from_numpy(digits.train_x)
labels = torch.from_numpy(digits.train_y)
order = data.batches(len(pictures), batch, epoch=0)

for step in range(steps):
    rows = order[step % len(order)]
    rows = data.shard(rows, hvd.rank(), hvd.size())
    optimizer.zero_grad()
    loss = cross_entropy(net(pictures[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    print(step, time.time(), loss.item(), flush=True)
