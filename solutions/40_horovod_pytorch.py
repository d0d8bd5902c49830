# %% [markdown]
# # 40 Horovod in PyTorch
#
# In lab 30 you averaged gradients yourself. Horovod does it for any net in a handful of lines. You
# add each of them, and see what breaks, silently, when one is missing.
#
# **You will be able to** (1) turn a one-process script into one for any number of ranks, (2) say
# what each added line is for, (3) prove that many ranks compute what one would.
#
# ![A data-parallel step on four ranks: each computes gradients of its own images, an allreduce
# averages them, and all apply the same update](40_step.svg)
#
# *One step of data-parallel training. Only the allreduce in the middle needs the network.*
#
# Needs: horovod, torch · Ranks: 4 · Minutes: 60 · Level: beginner · Before: 10, 30

# %%
import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from labkit import (
    check,
    data,
    expect,
    hint,
    home,
    lab,
    launch,
    nets,
    plots,
    predict,
    record,
    timing,
    workloads,
    world,
)
from labkit.horovod import as_it_is

lab.start("40_horovod_pytorch")
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
dataset = "digits"  # or files of yours, "mnist:FOLDER" or "cifar10:FOLDER": see lab 10
images_per_rank = 32  # images per step on each rank
rate_per_rank = 0.05  # SGD's learning rate for those 32 images
epochs = 10  # passes over the training images
patience = 30  # seconds after which a check calls the ranks stuck
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", exercise 40.3 is the one to do. It needs the answer of
# 40.1: `make solve LAB=40 EX=40.1` puts it into your notebook.*
#
# ## What there is: one process
# The net, the data and the loop of lab 10. `make_step` is one training step. `train_alone` does it
# for every batch of every epoch. A batch is an array of row numbers, `rows`.

# %%
samples = data.load(dataset)
layers = (samples.train_x.shape[1], 128, 64, 10)  # pixels that go in, units of each layer
checkpoint = home() / "checkpoints" / "digits.pt"
checkpoint.parent.mkdir(exist_ok=True)


def new_net(seed=0):
    """The net with the start weights of this seed, on the CPU."""
    return nets.torch_digits(nets.start_weights(seed, layers))


def make_step(net, optimizer, images, labels, rows):
    """One training step on the images of these rows. Returns their mean loss."""
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    return loss.item()


def train_alone(net, images, labels, batch, learning_rate):
    """One process. Returns the loss of every step."""
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed=0):
            losses.append(make_step(net, optimizer, images, labels, rows))
    return losses


# %%
device = world.device()
images = torch.tensor(samples.train_x, device=device)
labels = torch.tensor(samples.train_y, device=device)
whole_batch = images_per_rank * ranks
alone = train_alone(new_net().to(device), images, labels, whole_batch, rate_per_rank * ranks)
print(f"{ranks} ranks will share the work.")
print(f"one process, {whole_batch} images a step: loss from {alone[0]:.3f} to {alone[-1]:.3f}")

# %% [markdown]
# ## Horovod, and who starts the ranks
# A **launcher** starts the same script several times. Each of these processes is a *rank*. In a
# shell it is
#
#     mpiexec -n 4 python train.py          # or srun; on one machine also horovodrun -np 4 python train.py
#
# and in this notebook `launch.run(function, ranks=4)`. It calls a function on each rank, and
# returns the list of the results, by rank.
#
# Horovod stands between your script and the network. Its ranks tell each other which gradients are
# ready, and then have them summed. MPI, Gloo or NCCL does the work: that is the subject of lab 46.
#
# | call | what it returns or does |
# |---|---|
# | `hvd.init()` | the ranks find each other; no call about ranks works before it |
# | `hvd.size()` | how many ranks there are in all |
# | `hvd.rank()` | this rank's number among all: 0 to size − 1 |
# | `hvd.local_rank()` | this rank's number among those of *its node* |
#
# On two nodes with two ranks each:
#
# | node | first | first | second | second |
# |---|---|---|---|---|
# | `hvd.rank()` | 0 | 1 | 2 | 3 |
# | `hvd.local_rank()` | 0 | 1 | 0 | 1 |
#
# In lab 30 a function got a communicator, `comm`. Horovod has one communicator, with all ranks in
# it. So your functions take none.
#
# ### Exercise 40.1 · Begin: your GPU, your images
# **`begin(gpus)`** is what each rank does first. `gpus` is the number of GPUs of its node.
#
# - It starts Horovod.
# - Without GPUs it returns `"cpu"`.
# - Else the rank takes one. GPUs are counted from 0 on each node, so take the number that
#   `hvd.local_rank()` says. If a node has more ranks than GPUs, they share: count round, by the
#   remainder `% gpus`.
# - PyTorch has a **current** GPU. What does not name a device goes there: `.cuda()`, and some
#   libraries. At first it is GPU 0, for all ranks. `torch.cuda.set_device(number)` makes it yours.
# - It returns the device's name, such as `"cuda:1"`.
#
# **`my_rows(rows)`** picks this rank's images. `rows` is the **global batch**, the same array on
# all ranks. Every rank takes a different part, as large as the others', and together they take all.
# (Lab 30 did so.)
#
# 5 lines and 1 line. *(beginner)*
#
# <details><summary>Hint 1: which number?</summary>
#
# GPUs are counted on each node: `hvd.local_rank()`. Images are shared among all ranks: `hvd.rank()`
# and `hvd.size()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.init()`; without GPUs return `"cpu"`. Else `number = hvd.local_rank() % gpus`, then
# `torch.cuda.set_device(number)`, and return `f"cuda:{number}"`. For the images, every size-th row
# from one's own number on: `return rows[hvd.rank() :: hvd.size()]`.
# </details>


# %%
def begin(gpus):
    """Start Horovod, and make this rank's GPU current. gpus: how many this node has.

    Returns this rank's device: "cpu", "cuda:0", …
    """
    ### BEGIN SOLUTION
    # Across ranks: find the others, then take the GPU that is ours on this node.
    hvd.init()
    if not gpus:
        return "cpu"
    number = hvd.local_rank() % gpus
    torch.cuda.set_device(number)
    return f"cuda:{number}"
    ### END SOLUTION


def my_rows(rows):
    """rows: the indices of a global batch. Returns those of this rank."""
    ### BEGIN SOLUTION
    # Across ranks: every rank takes other images of the same batch.
    return data.shard(rows, hvd.rank(), hvd.size())
    ### END SOLUTION


# %%
check("40.1", begin, my_rows)

# %% [markdown]
# ### Exercise 40.2 · Begin equal
# Each rank makes its own net, with its own random weights. Suppose further that rank 0 has read a
# checkpoint, a file of an earlier training. Then its optimizer alone has that training's learning
# rate and momentum. Before the first step, all ranks must have what rank 0 has. Horovod has two
# calls for that, and **all ranks** make both:
#
# - `hvd.broadcast_optimizer_state(optimizer, root_rank=0)` overwrites the optimizer's state with
#   rank 0's.
# - `hvd.broadcast_parameters(tensors, root_rank=0)` overwrites named tensors with rank 0's.
#   `net.state_dict()` names them all: the weights, and what else a layer keeps, such as the running
#   mean of a batch normalisation.
#
# **In this order.** A fresh optimizer has no momentum that could be overwritten. So Horovod lets it
# make one step first, with gradients of zero. If the optimizer has weight decay, that step moves
# the weights: they are to be overwritten after it.
#
# (Plain SGD never has a state. For it the first call sends nothing, not even the learning rate.)
#
# 2 lines. *(beginner)*
#
# <details><summary>Hint 1: in an if?</summary>
#
# No. Rank 0 sends, but the others have to receive, and that is the same call.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.broadcast_optimizer_state(optimizer, root_rank=0)`, then
# `hvd.broadcast_parameters(net.state_dict(), root_rank=0)`.
# </details>


# %%
def begin_equal(net, optimizer):
    """Give every rank the tensors of rank 0's net, and the state of its optimizer."""
    ### BEGIN SOLUTION
    # Across ranks: rank 0 sends what it has, the others overwrite what they had.
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    ### END SOLUTION


# %%
check("40.2", begin_equal)

# %% [markdown]
# ### Exercise 40.3 · Step together
# *(must do on the 90-minute track)* A plain optimizer applies the gradients of its own rank.
#
#     optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
#
# makes of it one for all ranks. As soon as `backward` has a gradient, Horovod begins to average it
# over all ranks. `optimizer.step()` waits until every gradient is that **mean**, and then makes the
# plain optimizer's step with it.
#
# With p ranks the global batch is p times as large, and one step replaces p steps. So the
# **learning rate** is made p times as large, too: `rate_per_rank` is right for the images of one
# rank. (When that rule holds, and when not, is lab 34's subject.)
#
# Take plain SGD, without momentum. 2 lines. *(beginner)*
#
# <details><summary>Hint 1: which learning rate?</summary>
#
# `rate_per_rank * hvd.size()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank * hvd.size())`, then return what
# `hvd.DistributedOptimizer` makes of it and of `net.named_parameters()`.
# </details>


# %%
def make_optimizer(net):
    """Plain SGD on all ranks together. Returns a Horovod optimizer for the parameters of net."""
    ### BEGIN SOLUTION
    optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank * hvd.size())
    # Across ranks: step() waits for the mean of each gradient over the ranks.
    return hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
    ### END SOLUTION


# %%
check("40.3", make_optimizer)

# %% [markdown]
# ### Exercise 40.4 · Report and save once
# A rank knows the loss of its own images only. `hvd.allreduce(tensor)` returns the mean of a tensor
# over the ranks; all ranks have to call it. Here the losses of a whole run go in one call, as each
# call is a message.
#
#     torch.tensor([0.5, 0.25])             # a tensor of a list; its .tolist() is a list again
#
# And ranks that write one file at the same time spoil it. All hold the same net, so one of *all*
# ranks is enough: rank 0. `torch.save(what, path)` writes it. The file is to hold a dict of two
# things: under `"net"` the net's `state_dict()`, and under `"optimizer"` the optimizer's.
#
# 1 line and 2 lines. *(beginner)*
#
# <details><summary>Hint 1: who calls what?</summary>
#
# Every rank calls `hvd.allreduce`, as it waits for all of them. Only rank 0 calls `torch.save`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `return hvd.allreduce(torch.tensor(values)).tolist()`, and `if hvd.rank() == 0:` before
# `torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path)`.
# </details>


# %%
def mean_over_ranks(values):
    """values: a list of floats, as long on every rank. Returns the list of their means over the
    ranks."""
    ### BEGIN SOLUTION
    # Across ranks: all ranks call this, all get the mean.
    return hvd.allreduce(torch.tensor(values)).tolist()
    ### END SOLUTION


def save(net, optimizer, path):
    """Write {"net": …, "optimizer": …}, their state_dict()s, to path: once for all ranks."""
    ### BEGIN SOLUTION
    # Across ranks: all hold the same, so one writes.
    if hvd.rank() == 0:
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path)
    ### END SOLUTION


# %%
check("40.4", mean_over_ranks, save)

# %% [markdown]
# ### Exercise 40.5 · Put together
# Now turn `train_alone`, at the top, into `train` for all ranks. `make_step` stays as it is. Around
# it:
#
# 1. The optimizer is that of all ranks. After it is made, all ranks begin equal.
# 2. The global batch has `images_per_rank` images *for each rank*.
# 3. Of each global batch, a rank steps on its own rows only.
# 4. After the last step, save to `path`, and return the losses, averaged over the ranks.
#
# Use the three **arguments** `optimize`, `start` and `part` in place of `make_optimizer`,
# `begin_equal` and `my_rows`. If nobody gives others, they are these. So a piece can be left out
# later, by giving another.
#
# `train` begins when `begin` is over, and its `net` is on the right device. 8 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: which lines change?</summary>
#
# The loop stays. `batch` becomes `images_per_rank * hvd.size()`, and `rows` becomes `part(rows)`
# where the step is made. The seed stays 0 on all ranks: they have to see the same global batches.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer = optimize(net)`, `start(net, optimizer)`, then the loop of `train_alone` with
# `make_step(net, optimizer, images, labels, part(rows))`. At the end `save(net, optimizer, path)`
# and `return mean_over_ranks(losses)`.
# </details>


# %%
def train(net, images, labels, path, part=my_rows, start=begin_equal, optimize=make_optimizer):
    """Train net on all ranks, and save it to path. Returns each step's loss, the mean over the
    ranks."""
    ### BEGIN SOLUTION
    optimizer = optimize(net)
    # Across ranks: begin with rank 0's net; one global batch for all; own rows; one report.
    start(net, optimizer)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), images_per_rank * hvd.size(), epoch, seed=0):
            losses.append(make_step(net, optimizer, images, labels, part(rows)))
    save(net, optimizer, path)
    return mean_over_ranks(losses)
    ### END SOLUTION


# %%
check("40.5", train)

# %% [markdown]
# ## What breaks when a piece is missing?
# The training runs six times: complete, three times with a piece left out, once with another
# learning rate, and once with that rate and the *sum* of the gradients.
# `hvd.DistributedOptimizer(…, op=hvd.Sum)` adds up and does not divide. What stands in for the
# piece:


# %%
def start_as_you_are(net, optimizer):
    """In place of begin_equal: nothing is sent."""


def first_rows(rows):
    """In place of my_rows: all ranks take the first rows."""
    return rows[: len(rows) // hvd.size()]


def own_gradients(net):
    """In place of make_optimizer: nothing is averaged."""
    return torch.optim.SGD(net.parameters(), lr=rate_per_rank * hvd.size())


def rate_of_one_rank(net):
    """In place of make_optimizer: the mean gradient, at the learning rate of one rank."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank)
    return hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())


def sum_at_rate_of_one(net):
    """In place of make_optimizer: the sum of the gradients, at the learning rate of one rank."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank)
    return hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters(), op=hvd.Sum)


WAYS = {
    "complete": {},
    "start_as_you_are": {"start": start_as_you_are},
    "first_rows": {"part": first_rows},
    "own_gradients": {"optimize": own_gradients},
    "rate_of_one_rank": {"optimize": rate_of_one_rank},
    "sum_at_rate_of_one": {"optimize": sum_at_rate_of_one},
}

# %% [markdown]
# ### Predict
# Every rank draws random weights of its own. How many *different* nets are there after the
# training, with each of these? Take as many ranks as there are here: the first cell that trained
# prints it. (`begin_equal` is called in all but the first.)

# %%
predict(
    "40.5",
    start_as_you_are=4,
    first_rows=1,
    own_gradients=4,
    rate_of_one_rank=1,
    sum_at_rate_of_one=1,
)

# %% [markdown]
# ### Measure
# All ways on the same ranks, one after the other, and then the time of a step. Two nets count as
# different if the sums of their weights, to 3 digits, are. About 15 s.


# %%
def train_in_all_ways():
    """On a rank: {way: (losses, sum of the weights)}, the time of a step, and where the tensors
    were."""
    device = begin(torch.cuda.device_count())
    # This device, or the host's memory if this build of Horovod takes no tensors of GPUs.
    where = as_it_is()
    expect(where.device in (device, "cpu"), f"This rank's device is {where.device}, not {device}.")
    images, labels = (torch.tensor(part, device=where.device) for part in data.load(dataset)[:2])
    results = {}
    for way, replaced in WAYS.items():
        # Across ranks: each draws other weights; begin_equal makes them equal.
        net = new_net(seed=hvd.rank()).to(where.device)
        path = checkpoint if way == "complete" else checkpoint.with_suffix(".broken")
        losses = train(net, images, labels, path, **replaced)
        results[way] = losses, sum(weights.sum().item() for weights in net.parameters())
    return results, time_of_step(where.device, images, labels), where


def time_of_step(device, images, labels):
    """On a rank: the time of a step of all ranks together."""
    net = new_net().to(device)
    optimizer = make_optimizer(net)
    rows = np.arange(images_per_rank * hvd.size())
    return timing.measure(
        lambda: make_step(net, optimizer, images, labels, my_rows(rows)), repeat=30, device=device
    )


# %%
by_rank = launch.run(train_in_all_ways, ranks=ranks, timeout=10 * patience)
results, step, where = by_rank[0]
print(f"Rank 0: {where.describe()}")
nets_by_way = {}
off_by_way = {}
print(f"{'':18} last loss  off one process  different nets")
for way, (losses, _) in results.items():
    sums_of_weights = [of_rank[way][1] for of_rank, _, _ in by_rank]
    nets_by_way[way] = len({round(total, 3) for total in sums_of_weights})
    off_by_way[way] = np.abs(np.divide(losses, alone) - 1).max()
    print(f"{way:18} {losses[-1]:9.3f}  {off_by_way[way]:15.1e}  {nets_by_way[way]:14}")
slow = train_alone(new_net().to(device), images, labels, whole_batch, rate_per_rank)
off_slow = np.abs(np.divide(results["rate_of_one_rank"][0], slow) - 1).max()
print(f"rate_of_one_rank is off one process with that rate by {off_slow:.1e}")
difference = off_by_way["complete"]
expect(
    difference < 1e-3, "The ranks do not compute what one process computes: which piece is wrong?"
)
predict.compare("40.5", **{way: nets_by_way[way] for way in WAYS if way != "complete"})

# %%
# Draws the losses, and records them.
curves = {"one process": alone} | {way: losses for way, (losses, _) in results.items()}
of_epochs = {name: np.reshape(losses, (epochs, -1)).mean(axis=1) for name, losses in curves.items()}
title = "Each loss falls, also where a piece is missing"
record.add(
    "training",
    ranks_used=ranks,
    step=step,
    loss=results["complete"][0][-1],
    difference=difference,
    **where.fields(),
)
plots.loss(
    of_epochs, title=title, xlabel="epoch", ylabel="loss, mean of the epoch", name="pieces left out"
)

# %% [markdown]
# **Explain.** Look at the table first, then at the picture. Nobody complained, and each loss fell.
#
# - *complete*: one net, and in every step the loss of one process, but for its last bits. This is
#   the proof.
# - *start_as_you_are*: as many nets as ranks. Equal gradients keep equal nets equal; they do not
#   make unequal nets equal.
# - *first_rows*: one net, and a loss that looks right. But all ranks compute the same. With four
#   ranks, three of four images of each batch are not looked at in this step, and four ranks do the
#   work of one.
# - *own_gradients*: as many nets as ranks, each trained on its own images. Their mean loss falls
#   all the same.
# - *sum_at_rate_of_one*: one net, and the losses of *complete*. With p ranks the sum is p times the
#   mean, and the rate is a p-th: each step is as long. So a script that adds up keeps one rank's
#   rate, and one that averages takes p times of it. (Lab 30 averaged and kept its rate: there the
#   global batch was the same for any number of ranks.)
# - *rate_of_one_rank*: one net, on the right images. It is not wrong: the last line shows that it
#   is the training of one process with that rate. But each step is shorter, and so after these
#   epochs its loss is higher.
#
# So a loss that falls proves nothing. Which two numbers would you look at in a script of your own?
# <details><summary>Answer</summary>
#
# The number of different nets, for instance by comparing the sum of the weights over the ranks: it
# finds a missing broadcast and a missing mean. And the losses of one process with the same global
# batches, at the rate that you want for them: they find the rest.
# </details>
#
# ### What a script of your own needs besides
#
# <details><summary>A list to come back to</summary>
#
# - **PyTorch's data loader**:
#   `torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())`
#   picks a rank's images. Call its `set_epoch(epoch)` in each epoch, or the order stays.
# - **Clipping of gradients**: the mean is there only in `step`. So `optimizer.synchronize()` first,
#   then clip, then `with optimizer.skip_synchronize(): optimizer.step()`.
# - **Momentum from a file**: only rank 0 reads it; `begin_equal` brings it to the others.
# - **Another library**: Horovod's last release is of 2023. `torch.distributed` has all of this too:
#   `init_process_group`, `LOCAL_RANK`, `DistributedDataParallel(net)` for broadcast and mean, and
#   `all_reduce`, which sums.
# </details>
#
# ## On GPUs: your script with a real workload
# (About a minute on GPUs, not counted above. On a CPU the cell after the next prints one sentence.)
#
# The digits' network is far too small to judge Horovod by. Your `begin`, `begin_equal` and
# `make_optimizer` work for any network, so here they train the two workloads of lab 10: ResNet-50 on
# images of 224 × 224 pixels, and GPT-2 with 124 million parameters on texts of 1,024 tokens. There is
# one rank for each GPU, and each has a batch of its own (weak scaling). As a control, a twin of the
# network takes the same step with a plain optimizer, so the difference between the two is what
# communication costs. Lab 10 explains MFU, the share of the device's peak that a step reaches.
#
# The parameter `workload` chooses the networks as in lab 10, and `"tiny"` tests the code on any
# device.


# %%
def train_workload(name):
    """On a rank: {way: speed} of steps on a workload, with Horovod and without; where its tensors
    were."""
    begin(torch.cuda.device_count())
    where = as_it_is()
    # Horovod takes contiguous tensors alone.
    load = workloads.load(name, where.device, contiguous=True)
    twin = workloads.load(name, where.device, contiguous=True)
    optimizer = make_optimizer(load.net)
    # Across ranks: begin with rank 0's net; step() waits for the mean of each gradient.
    begin_equal(load.net, optimizer)
    plain = torch.optim.SGD(twin.net.parameters(), lr=rate_per_rank)
    everything = slice(None)  # in place of a batch's rows
    steps = {
        "Horovod": lambda: make_step(load.net, optimizer, load.inputs, load.labels, everything),
        "no exchange": lambda: make_step(twin.net, plain, load.inputs, load.labels, everything),
    }
    return load.speeds(steps, control="no exchange"), where


# %%
for name in workloads.chosen(workload):
    size = workloads.ranks(ranks)
    speeds, where = launch.run(train_workload, name, ranks=size, threads=1, timeout=300)[0]
    for way, speed in speeds.items():
        print(f"{way}, {size} rank(s): {speed}")
        record.add("workload", way=way, **where.fields() | speed.fields())

# %% [markdown]
# **Explain.** Horovod averages a gradient while backward still computes the next ones, so with NCCL
# on GPUs of one node the control should take nearly as long as the step with Horovod. If
# communication is a large share, look at `device` and `library` in the record: a build of Horovod
# that takes no GPU memory sends everything through the host, or even computes there. Labs 43 and 46
# compare the builds, and lab 50 adds ranks.

# %% [markdown]
# ### What you take away
# - Five additions: own device, own images, equal start, averaged gradients, one report and one
#   file.
# - Without equal start, own images or the mean nothing complains. The number of nets, and the
#   losses of one process, tell.
# - The learning rate belongs to the *global* batch: it grows when ranks are added.
# - `make run LAB=40 NP=4` runs this file under `mpiexec`. Next: the same in TensorFlow (41);
#   scaling (50).
#
# ## For those who have time: the time of a step
# It is not in the minutes above. How long does a step of all ranks take, compared with one process
# that takes all of the images itself?

# %%
if world.launcher():
    print("Nothing to compare: under a launcher all ranks would time their one process at once.")
else:
    net = new_net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank)
    rows = np.arange(whole_batch)
    step_alone = timing.measure(
        lambda: make_step(net, optimizer, images, labels, rows), repeat=30, device=device
    )
    print(f"A step of {whole_batch} images: one process {step_alone}; {ranks} ranks {step}")
    record.add("step", one_process=step_alone, all_ranks=step, ranks_used=ranks)

# %% [markdown]
# **Explain.** You should see that the ranks take longer, by several times. This net computes for
# less than a millisecond. Horovod's thread looks only once a millisecond for gradients that are
# ready, and then messages follow. If there are fewer cores than ranks, these also take turns. Which
# of the three costs most, these two numbers do not tell. It takes a net that computes for long to
# gain by ranks: labs 41, 46 and 50.
