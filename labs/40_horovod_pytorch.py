# %% [markdown]
# <!-- Generated from solutions/40_horovod_pytorch.py by `make labs`. Learners work on a copy in work/. -->
# # 40 Horovod in PyTorch
#
# A training script for one GPU needs surprisingly few changes to run on hundreds of them. Every
# process has to find the others, take its own GPU and its own part of each batch, start from the
# same weights, and average its gradients with those of all other processes before each update.
# [Horovod](https://horovod.readthedocs.io) reduces these changes to a handful of calls.
#
# The difficulty is that the script still runs when most of these calls are missing. The [loss](../labs/GLOSSARY.md#loss) falls,
# only more slowly, or each GPU silently trains a different model, and you notice it weeks later,
# when two accuracies are compared.
#
# In this lab we convert the training script of [lab 10](10_train_on_one_device.ipynb) to Horovod, one change at a time. Then we
# compare its losses with those of a single process that sees the whole batch, because only this
# comparison proves that many [ranks](../labs/GLOSSARY.md#rank) compute what one process would compute. At the end we leave the
# changes out one by one and find out which mistakes stay silent.
#
# **After this lab you can** (1) turn a PyTorch script for one process into one for any number of
# ranks, (2) explain what each added line does, and (3) prove that many ranks compute what one
# process would compute.
#
# ![A data-parallel step on four ranks: each computes gradients of its own images, an allreduce averages them, and all apply the same update](../notebooks/figures/40_step.svg)
#
# *One step of data-parallel training. The ranks communicate only in the [allreduce](../labs/GLOSSARY.md#allreduce) in the middle.*
#
# Needs: horovod, torch · Ranks: 4 · Minutes: 70 · Level: beginner · Before: 10, 30

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
    lab,
    launch,
    nets,
    own_folder,
    plots,
    predict,
    record,
    timing,
    workloads,
    world,
)
from labkit.horovod import as_it_is, ranks_here

lab.start("40_horovod_pytorch")
ranks = ranks_here(4)

# %% tags=["parameters"]
dataset = "digits"  # or files of yours, "mnist:FOLDER" or "cifar10:FOLDER": see lab 10
images_per_rank = 32  # images per step on each rank
rate_per_rank = 0.05  # SGD's learning rate for those 32 images
epochs = 10  # passes over the training images
patience = 30  # seconds after which a check calls the ranks stuck
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", do exercise 40.3. It needs the answer to 40.1, which
# `make solve LAB=40 EX=40.1` writes into your notebook.*
#
# ## The script for one process
# We start with the network, the data and the training loop of [lab 10](10_train_on_one_device.ipynb). The function `make_step`
# takes one training step, and `train_alone` calls it for every batch of every [epoch](../labs/GLOSSARY.md#epoch). A batch is an
# array of row numbers, `rows`.
#
# To be comparable with the ranks later, this process takes the images of all ranks in each step,
# with the learning rate `rate_per_rank * ranks`, which exercise 40.3 explains.

# %%
samples = data.load(dataset)
layers = (samples.train_x.shape[1], 128, 64, 10)  # pixels that go in, units of each layer
checkpoint = own_folder() / "checkpoints" / "digits.pt"
checkpoint.parent.mkdir(exist_ok=True)


def new_net(seed=0):
    """The network with the initial weights of this seed, on the CPU."""
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
expect(
    whole_batch <= len(images),
    f"A step of {ranks} ranks needs {whole_batch} images, and there are {len(images)}. Give each"
    f' rank fewer: add SET="images_per_rank={len(images) // ranks}" to make run or make submit.',
)
alone = train_alone(new_net().to(device), images, labels, whole_batch, rate_per_rank * ranks)
print(f"{ranks} ranks will share the work.")
print(f"one process, {whole_batch} images per step: loss from {alone[0]:.3f} to {alone[-1]:.3f}")


# %% [markdown]
# ## Horovod, and the launcher that starts the ranks
# A **launcher** starts the same script several times. Each of these processes is a *rank*. In a
# shell you would type one of
#
#     mpiexec -n 4 python train.py          # or: srun -n 4 python train.py
#     horovodrun -np 4 python train.py      # Horovod's own launcher
#
# and in this notebook we use `launch.run(function, ranks=4)`, which calls a function on each rank
# and returns the list of the results, ordered by rank.
#
# Horovod is a layer between your script and the network. Its ranks tell each other which gradients
# are ready, and then let a communication library ([MPI](../labs/GLOSSARY.md#MPI), Gloo or [NCCL](../labs/GLOSSARY.md#NCCL)) average them with an
# allreduce. Your script needs four calls to know where it runs:
#
# | call | what it does or returns |
# |---|---|
# | `hvd.init()` | connects the ranks; you must call it before all other functions of Horovod |
# | `hvd.size()` | the number of all ranks |
# | `hvd.rank()` | the number of this rank among all ranks, from 0 to size − 1 |
# | `hvd.local_rank()` | the number of this rank among the ranks of *its node* |
#
# For example, with two ranks on each of two nodes:
#
# | node | first | first | second | second |
# |---|---|---|---|---|
# | `hvd.rank()` | 0 | 1 | 2 | 3 |
# | `hvd.local_rank()` | 0 | 1 | 0 | 1 |
#
# The functions of [lab 30](30_average_gradients.ipynb) had a [communicator](../labs/GLOSSARY.md#communicator) as their first argument, `comm`. By default, Horovod's
# calls involve all ranks, so the functions of this lab don't need that argument.
#
# ### Exercise 40.1 · Begin: your GPU, your images
# Write the two functions that make the ranks different from each other.
#
# **`begin(gpus)`** is the first call of each rank. The argument `gpus` is the number of GPUs on the
# rank's node.
#
# - It starts Horovod.
# - If there are no GPUs, it returns `"cpu"`.
# - Otherwise the rank takes one GPU. GPUs are numbered from 0 on each node, so take the number that
#   `hvd.local_rank()` returns. If a node has more ranks than GPUs, they have to share, so take the
#   remainder `% gpus`. (NCCL refuses two ranks on one GPU, as [lab 43](43_horovod_nccl2.ipynb) shows.)
# - PyTorch has a **current** GPU, which is used by everything that does not name a device, for
#   example `.cuda()` and some libraries. At first this is GPU 0 for all ranks. Call
#   `torch.cuda.set_device(number)` to make your GPU the current one.
# - It returns the name of the device, such as `"cuda:1"`.
#
# For example, on a node with three ranks and two GPUs, the ranks take `cuda:0`, `cuda:1` and
# `cuda:0`.
#
# **`my_rows(rows)`** picks this rank's images. The argument `rows` is the **global batch**, which
# is the same array on all ranks, so leave it as it is. Every rank takes a different part of the
# same size, and together the parts contain all rows, as in [lab 30](30_average_gradients.ipynb). For example, two ranks can take
# `[7, 5]` and `[2, 0]` of the batch `[7, 2, 5, 0]`, or `[7, 2]` and `[5, 0]`. The result is an
# index, so `images[my_rows(rows)]` must be the images of this rank.
#
# 5 lines and 1 line. *(beginner)*
#
# <details><summary>Hint 1: which number?</summary>
#
# GPUs are numbered on each node, so use `hvd.local_rank()`. Images are distributed among all ranks,
# so use `hvd.rank()` and `hvd.size()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Call `hvd.init()`, and return `"cpu"` if there are no GPUs. Otherwise
# `number = hvd.local_rank() % gpus`, then `torch.cuda.set_device(number)`, and return
# `f"cuda:{number}"`. For the images, take every size-th row, starting at the rank's own number:
# `return rows[hvd.rank() :: hvd.size()]`.
# </details>

# %%
def begin(gpus):
    """Start Horovod, and make this rank's GPU current. gpus: how many this node has.

    Returns this rank's device: "cpu", "cuda:0", …
    """
    raise NotImplementedError("exercise 40.1: Begin: your GPU, your images")


def my_rows(rows):
    """rows: the indices of a global batch. Returns those of this rank."""
    raise NotImplementedError("exercise 40.1: Begin: your GPU, your images")


# %%
# Asked: On nodes of several kinds hvd.init(), the device and the current GPU;
# other rows by rank.
check("40.1", begin, my_rows)


# %% [markdown]
# ### Exercise 40.2 · Begin equal
# Each rank creates its own network with its own random weights. In addition, rank 0 alone may have
# read a [checkpoint](../labs/GLOSSARY.md#checkpoint), which is a file from an earlier training run. Then only rank 0's optimizer has
# the learning rate and the momentum of that run. (*Momentum* is an average of earlier gradients
# that some optimizers keep for each weight.)
#
# Before the first step, all ranks must have the same state as rank 0. Horovod has two calls for
# this, and **all ranks** make both of them, in this order:
#
# 1. `hvd.broadcast_optimizer_state(optimizer, root_rank=0)` overwrites the state of the optimizer
#    with that of rank 0.
# 2. `hvd.broadcast_parameters(tensors, root_rank=0)` overwrites named tensors with those of rank 0.
#    `net.state_dict()` names all of them: the weights, and other values that a layer keeps, such as
#    the running mean of a batch-normalization layer.
#
# The tensors come last because the first call can change the weights. To create a momentum that it
# can overwrite, Horovod takes one step with zero gradients. With *weight decay*, which makes each
# weight a little smaller in every step, this step changes the weights.
#
# Plain SGD has no state, so for plain SGD the first call sends nothing, not even the learning rate.
#
# 2 lines. *(beginner)*
#
# <details><summary>Hint 1: in an if?</summary>
#
# No. Rank 0 sends, but the other ranks have to receive, and they receive with the same call.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.broadcast_optimizer_state(optimizer, root_rank=0)`, then
# `hvd.broadcast_parameters(net.state_dict(), root_rank=0)`.
# </details>

# %%
def begin_equal(net, optimizer):
    """Give every rank the tensors of rank 0's network, and the state of its optimizer."""
    raise NotImplementedError("exercise 40.2: Begin equal")


# %%
# Asked: On all ranks the net's tensors, the momentum and the learning rate that
# rank 0 had.
check("40.2", begin_equal)


# %% [markdown]
# ### Exercise 40.3 · Step together
# *(the exercise to do in the 90-minute track)* A plain optimizer applies only the gradients of its
# own rank. The call
#
#     optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
#
# turns it into an optimizer for all ranks. As soon as `backward` has computed a gradient, Horovod
# starts to average it over all ranks. `optimizer.step()` waits until every gradient is that
# **mean**, and then takes the step of the plain optimizer with it.
#
# A step of p ranks uses p times as many images, so an epoch has only 1/p as many steps. To move as
# far per epoch, we multiply the **learning rate** `rate_per_rank`, which fits the images of one
# rank, by p. (This is a rule of thumb, and [lab 34](34_large_batch.ipynb) examines when it holds.)
#
# For example, let `rate_per_rank` be 0.05, and let the gradients of a weight on four ranks be 1, 2,
# 3 and 4. Then the learning rate is 0.2 and the mean is 2.5, so on each rank the weight falls by
# 0.5.
#
# Write `make_optimizer(net)`, which creates plain SGD without momentum for all parameters of `net`,
# with the learning rate for p ranks, and returns it as an optimizer for all ranks. 2 lines.
# *(beginner)*
#
# <details><summary>Hint 1: which learning rate?</summary>
#
# `rate_per_rank * hvd.size()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Create `optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank * hvd.size())`, and return
# the result of `hvd.DistributedOptimizer` for it and for `net.named_parameters()`.
# </details>

# %%
def make_optimizer(net):
    """Plain SGD on all ranks together. Returns a Horovod optimizer for the parameters of net."""
    raise NotImplementedError("exercise 40.3: Step together")


# %%
# Asked: A rate that grows with the ranks, the mean gradient, and no momentum in
# the second step.
check("40.3", make_optimizer)


# %% [markdown]
# ### Exercise 40.4 · Report and save once
# **`mean_over_ranks(values)`** averages a list over the ranks, because a rank knows only the loss
# of its own images. `hvd.allreduce(tensor)` returns the mean of a tensor over the ranks, and all
# ranks have to call it. Each call sends messages, so we average the losses of a whole run in a
# single call. You make a tensor from a list:
#
#     torch.tensor([0.5, 0.25])             # its .tolist() is a list again
#
# If another rank has `[1.5, 0.75]`, both ranks get `[1.0, 0.5]`.
#
# **`save(net, optimizer, path)`** writes a file, and overwrites the file of an earlier call. If
# several ranks write the same file at the same time, they can corrupt it. All ranks have the same
# network, so one of *all* ranks, rank 0, writes the file.
#
# Use `torch.save(what, path)`, and save a dictionary with two entries: under `"net"` the network's
# `state_dict()`, and under `"optimizer"` the optimizer's `state_dict()`.
#
# 1 line and 2 lines. *(beginner)*
#
# <details><summary>Hint 1: which ranks call what?</summary>
#
# Every rank calls `hvd.allreduce`, because the call waits for all of them. Only rank 0 calls
# `torch.save`.
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
    raise NotImplementedError("exercise 40.4: Report and save once")


def save(net, optimizer, path):
    """Write {"net": …, "optimizer": …}, their state_dict()s, to path: once for all ranks."""
    raise NotImplementedError("exercise 40.4: Report and save once")


# %%
# Asked: The mean over all ranks; one file of one rank, with both states in it.
check("40.4", mean_over_ranks, save)


# %% [markdown]
# ### Exercise 40.5 · Put together
# Now turn `train_alone`, from the beginning of this lab, into `train` for all ranks. The
# function `train` is called after `begin`, and its `net` is already on the right device. The
# function `make_step` does not change, but the code around it does:
#
# 1. The optimizer is the one for all ranks. After it has been created, all ranks begin equal.
# 2. The global batch has `images_per_rank` images *for each rank*.
# 3. In its step, a rank uses only its own rows of each global batch.
# 4. After the last step, save to `path`. All ranks return the losses, averaged over the ranks.
#
# Call the **arguments** `optimize`, `start` and `part`, whose defaults are `make_optimizer`,
# `begin_equal` and `my_rows`, so that we can later leave out a piece by passing another function.
#
# 8 lines. *(intermediate)*
#
# <details><summary>Hint 1: which lines change?</summary>
#
# The loop stays. `batch` becomes `images_per_rank * hvd.size()`, and in the call of the step
# function `rows` becomes `part(rows)`. The seed stays 0 on all ranks, because all of them need the
# same global batches.
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
    raise NotImplementedError("exercise 40.5: Put together")


# %%
# Asked: The pieces that were given, as many steps as one process makes, its
# losses, and a file.
check("40.5", train)


# %% [markdown]
# ## What breaks when a piece is missing?
# Now we run the training six times. The next cell defines a replacement for each piece:
#
# | run | what is replaced |
# |---|---|
# | *complete* | nothing |
# | *start_as_you_are* | `begin_equal`, by a function that sends nothing |
# | *first_rows* | `my_rows`: all ranks take the same rows |
# | *own_gradients* | `make_optimizer`, by a plain optimizer that averages nothing |
# | *rate_of_one_rank* | `make_optimizer`: the mean gradient, with the learning rate of one rank |
# | *sum_at_rate_of_one* | `make_optimizer`: the sum of the gradients (`op=hvd.Sum`), with the learning rate of one rank |

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
# Every rank starts with its own random weights, and all runs except *start_as_you_are* call
# `begin_equal`. After each of these runs, how many *different* networks are there on your ranks?
# (The first cell that trained printed how many ranks there are.)

# %%
predict(
    "40.5",
    start_as_you_are=...,
    first_rows=...,
    own_gradients=...,
    rate_of_one_rank=...,
    sum_at_rate_of_one=...,
)


# %% [markdown]
# ### Measure
# All six runs use the same ranks, one run after another, and then we measure the time of a step for
# the optional part at the end. This takes about 15 s. In the code you need to read only the loop
# over `WAYS`. The table has a row for each run and three columns:
#
# | column | meaning | how to read it |
# |---|---|---|
# | *last loss* | the mean loss of the last step | |
# | *off one process* | the largest relative difference of a step's loss from the loss of one process in that step | about 1e-06 is rounding error, so the losses are equal; 1e-01 means 10 % |
# | *different networks* | how many different sums the ranks' weights have, rounded to 3 digits | different sums prove that networks differ; equal sums are strong evidence, but no proof |
#
# The line below the table compares *rate_of_one_rank* with one process that also trains with the
# learning rate of one rank.

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
print(f"{'':18} last loss  off one process  different networks")
for way, (losses, _) in results.items():
    sums_of_weights = [of_rank[way][1] for of_rank, _, _ in by_rank]
    nets_by_way[way] = len({round(total, 3) for total in sums_of_weights})
    off_by_way[way] = np.abs(np.divide(losses, alone) - 1).max()
    print(f"{way:18} {losses[-1]:9.3f}  {off_by_way[way]:15.1e}  {nets_by_way[way]:18}")
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
title = "Each loss falls, even if a piece is missing"
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
# **Explain.** Look at the table first, and then at the plot. None of the six runs printed an error,
# and each loss fell.
#
# Three runs end with one network, and each agrees with a single process:
#
# - *complete*: in every step the loss equals that of one process, except for the last bits. This
#   agreement shows that all pieces are in place.
# - *rate_of_one_rank*: this run is not wrong, and the line below the table shows that it agrees
#   with one process at that learning rate. But each update is smaller, so after the same number of
#   epochs its loss is higher.
# - *sum_at_rate_of_one*: the losses are those of *complete*. With p ranks the sum is p times the
#   mean, and the learning rate is divided by p, so each update is the same.
#
# In two runs there are as many networks as ranks:
#
# - *start_as_you_are*: equal gradients keep equal networks equal, but they do not make different
#   networks equal.
# - *own_gradients*: each network is trained on its own images. Their mean loss falls nevertheless.
#
# In *first_rows* there is one network, and its loss looks right. But all ranks compute the same
# gradients, so four ranks do the work of one and leave three quarters of each global batch unused.
#
# In the plot, the curves of *one process*, *complete* and *sum_at_rate_of_one* coincide. Those of
# *first_rows* and *own_gradients* come so close to them that they alone do not show a mistake.
#
# The loss of *start_as_you_are* falls slowly, because with p ranks only 1/p of each update comes
# from the gradient of the rank's own network. This is the likely reason why its curve is close to
# that of *rate_of_one_rank*.
#
# <details><summary>Why can the last loss of <i>first_rows</i> be the lowest of all?</summary>
#
# A loss of 32 images varies more from step to step than a loss of 128.
# </details>
#
# A falling loss therefore does not prove that a script is right. Which two numbers would you check
# in your own script?
# <details><summary>Answer</summary>
#
# The first is the number of different networks, for instance from the ranks' sums of weights. It
# reveals a missing [broadcast](../labs/GLOSSARY.md#broadcast) and a missing average. The second is the loss of one process with the
# same global batches and the learning rate that you want for them. It reveals the other mistakes.
# </details>
#
# ### What you take away
# - A script for many ranks needs six changes: its own device, its own images, an equal start,
#   averaged gradients, a learning rate for the *global* batch (which grows with the ranks), and one
#   report and one file for all ranks.
# - If the equal start, each rank's own images or the average is missing, there is no error message.
#   The number of different networks and the losses of one process reveal it.
# - `make run LAB=40 NP=4` runs this file under `mpiexec`. [Lab 41](41_horovod_tensorflow.ipynb) does the same in TensorFlow, and
#   [lab 50](50_strong_and_weak_scaling.ipynb) measures how the training scales.
#
# ## Going further (optional)
# The minutes of these three parts are not included in the minutes above.
#
# ### What your own script needs in addition (1 minute)
# - **PyTorch's data loader**: `torch.utils.data.distributed.DistributedSampler(dataset,
#   num_replicas=hvd.size(), rank=hvd.rank())` picks a rank's images. Call its `set_epoch(epoch)` in
#   each epoch, because otherwise the order never changes.
# - **Gradient clipping**: the mean exists only after communication has completed, which is normally
#   inside `step`. Call `optimizer.synchronize()` first, then clip, then
#   `with optimizer.skip_synchronize(): optimizer.step()`.
# - **Another library**: Horovod's last release is from 2023. `torch.distributed` offers the same
#   operations, except that it does not send the state of the optimizer:
#
# | operation | in `torch.distributed` |
# |---|---|
# | connect the ranks | `init_process_group` |
# | the number of this rank on its node | `LOCAL_RANK` |
# | broadcast of the network, mean of the gradients | `DistributedDataParallel(net)` |
# | allreduce | `all_reduce`, which adds |
#
# ### The time of a step (3 minutes)
# How long does a step of all ranks take, compared with one process that computes all of the images
# itself?

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
# **Explain.** On a machine without other work, you should see that the ranks take several times
# longer. In our reference run on two cores, the step took 0.4 ms in one process and 3.1 ms on four
# ranks. Three effects add time to the step of this small network, and these two numbers do not show
# which of them costs most:
#
# - Horovod's background thread wakes up only once per millisecond (its *[cycle time](../labs/GLOSSARY.md#cycle-time)*) to look for
#   gradients that are ready, while the network computes for less than a millisecond.
# - Then the messages follow.
# - With fewer cores than ranks, the ranks also have to take turns.
#
# More ranks only pay off for a network that computes for longer, as in labs [41](41_horovod_tensorflow.ipynb), [46](46_three_libraries.ipynb) and [50](50_strong_and_weak_scaling.ipynb).
#
# ### On GPUs: your script with a real workload (5 minutes)
# This part takes about a minute on GPUs. On a CPU the cell after next prints one sentence.
#
# Your functions `begin`, `begin_equal` and `make_optimizer` work for any network, so here they
# train the two workloads of [lab 10](10_train_on_one_device.ipynb). (The parameter `workload` chooses among them.)
#
# | workload | a batch consists of |
# |---|---|
# | ResNet-50 | images of 224 × 224 pixels |
# | GPT-2 with 124 million parameters | texts of 1,024 tokens |
#
# There is one rank for each GPU, and each has its own batch ([weak scaling](../labs/GLOSSARY.md#weak-scaling)). As a control, printed
# as *no exchange*, a copy of the network takes the same step with a plain optimizer, so the
# difference between the two is the cost of communication.
#
# Each printed result includes the [MFU](../labs/GLOSSARY.md#MFU) (model FLOPs utilization), which is the share of the device's
# peak performance that a step reaches. [Lab 10](10_train_on_one_device.ipynb) explains it.

# %%
def train_workload(comm, name):
    """On a rank: {way: speed} of steps on a workload, with Horovod and without; where its tensors
    were."""
    begin(torch.cuda.device_count())
    where = as_it_is()
    # Horovod takes contiguous tensors alone.
    load = workloads.load(name, where.device, contiguous=True, comm=comm)
    twin = workloads.load(name, where.device, contiguous=True, comm=comm)
    optimizer = make_optimizer(load.net)
    # Across ranks: begin with rank 0's net; step() waits for the mean of each gradient.
    begin_equal(load.net, optimizer)
    plain = torch.optim.SGD(twin.net.parameters(), lr=rate_per_rank)
    everything = slice(None)  # in place of a batch's rows
    steps = {
        "Horovod": lambda: make_step(load.net, optimizer, load.inputs, load.labels, everything),
        "no exchange": lambda: make_step(twin.net, plain, load.inputs, load.labels, everything),
    }
    # Across ranks: a step begins at a barrier and takes as long as that of the slowest rank.
    return load.speeds(steps, comm=comm, control="no exchange"), where


# %%
for name in workloads.chosen(workload):
    size = workloads.ranks(ranks)
    speeds, where = launch.run(train_workload, name, ranks=size, threads=1, timeout=300)[0]
    for way, speed in speeds.items():
        print(f"{way}, {size} rank(s): {speed}")
        record.add("workload", way=way, **where.fields() | speed.fields())

# %% [markdown]
# **Explain.** Horovod averages a gradient while the [backward pass](../labs/GLOSSARY.md#backward-pass) still computes the next ones.
# With NCCL on the GPUs of one node, the control can therefore take nearly as long as the step with
# Horovod. If communication takes a large share of the time, look at `device` and `library` in
# the record. A build of Horovod that does not accept GPU memory copies everything through the
# host's memory, or even computes there. Labs [43](43_horovod_nccl2.ipynb) and [46](46_three_libraries.ipynb) compare the builds.
#
# ### Further reading
# - [Horovod with PyTorch](https://horovod.readthedocs.io/en/stable/pytorch.html). The official instructions for the changes of this lab, with a complete
#   script.
# - A. Sergeev and M. Del Balso, *[Horovod: fast and easy distributed deep learning in TensorFlow](https://arxiv.org/abs/1802.05799)*, 2018. The paper that introduced Horovod, with its motivation and first measurements.
# - [Horovod: Concepts](https://horovod.readthedocs.io/en/stable/concepts_include.html). Horovod's documentation of *rank*, *local rank*, *size* and the allreduce.
# - P. Goyal et al., *[Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour](https://arxiv.org/abs/1706.02677)*, 2017. The learning rate that grows with the number of ranks, and when it fails.
# - [PyTorch: DistributedDataParallel notes](https://docs.pytorch.org/docs/stable/notes/ddp.html). How PyTorch's own DistributedDataParallel does the same.
