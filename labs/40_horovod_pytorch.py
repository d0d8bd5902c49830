# %% [markdown]
# # 40 Horovod in PyTorch
#
# In lab 30 you averaged gradients yourself. Horovod does it for any net in a handful of lines: here you add
# each of them, and see what breaks, silently, when one is missing.
#
# **You will be able to** (1) turn a one-process script into one for any number of ranks, (2) say what each
# added line is for, (3) prove that many ranks compute what one would.
#
# Needs: horovod, torch · Ranks: 4 · Minutes: 45 · Before: 10, 30

# %%
from functools import partial

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, data, expect, hint, home, lab, launch, nets, plots, predict, record, timing, world
from labkit.horovod import as_it_is
from support import lab40

lab.start("40_horovod_pytorch")
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
images_per_rank = 32  # images per step on each rank
rate_per_rank = 0.05  # SGD's learning rate for those 32 images
epochs = 10  # passes over the training images
patience = 30  # seconds after which a check calls the ranks stuck

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", exercise 40.3 is the one to do. It needs the answer of 40.1:
# `make solve LAB=40 EX=40.1` puts it into your notebook.*
#
# ## What there is: one process
# The net, the data and the loop of lab 10. What must be added for four ranks?

# %%
digits = data.digits()
checkpoint = home() / "checkpoints" / "digits.pt"
checkpoint.parent.mkdir(exist_ok=True)


def train_alone(batch, learning_rate):
    """One process, on its GPU if it has one. Returns the training loss of every step."""
    device = world.device()
    net = nets.torch_digits().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    images = torch.tensor(digits.train_x, device=device)
    labels = torch.tensor(digits.train_y, device=device)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed=0):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


alone = train_alone(images_per_rank * ranks, rate_per_rank * ranks)
print(f"one process, {images_per_rank * ranks} images a step: loss from {alone[0]:.3f} to {alone[-1]:.3f}")


# %% [markdown]
# ### Exercise 40.1 · Begin: your GPU, your images
# A launcher (`mpiexec`, `srun`, `horovodrun`; here `launch.run`) starts the same script several times.
# `hvd.init()` lets these ranks find each other, by MPI or by Gloo. From then on Horovod is the communicator,
# and functions take no `comm`: `hvd.rank()` is this rank's number among all `hvd.size()`, and
# `hvd.local_rank()` its number *on its node*.
#
# Ranks of one node take different GPUs; with more ranks than GPUs, count round. A rank also makes its GPU
# PyTorch's **current** one: `torch.cuda.set_device(number)`. All that does not name a device goes to the
# current one: `.cuda()`, pinned memory, a CUDA-aware MPI. Else that is GPU 0 for all ranks.
#
# Of each **global** batch (`rows`, the same on all ranks) every rank takes a different part. 5 + 1 lines.
#
# <details><summary>Hint 1: which number?</summary>
#
# GPUs are counted on each node from 0. With two nodes of two GPUs, ranks 2 and 3 find GPUs 0 and 1 again on
# theirs: `hvd.local_rank()`. Images are shared among all ranks: `hvd.rank()` and `hvd.size()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.init()`; without GPUs return `"cpu"`. Else `number = hvd.local_rank() % gpus`: the remainder serves a
# node with more ranks than GPUs. Then `torch.cuda.set_device(number)`, and return `f"cuda:{number}"`. For the
# images: `return rows[hvd.rank() :: hvd.size()]`.
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
# Nodes that are tried: (what is said of them, ranks on each, GPUs on each).
NODES = [("without GPUs", 2, 0), ("of two ranks and four GPUs", 2, 4), ("of three ranks and two GPUs", 3, 2)]


def try_begin():
    """For each of NODES: was Horovod started, the device, the GPUs made current; and this rank's rows."""
    tried = []
    for _, on_node, gpus in NODES:
        with lab40.nodes_of(on_node) as asked:  # notes set_device: this machine may lack those GPUs
            device = begin(gpus)
            tried.append((asked.started, device, asked.current))
            rows = my_rows(np.arange(100, 100 + 12 * hvd.size()))
    return tried, rows


# %%
# What is asked: on nodes of several kinds hvd.init(), the device and the current GPU; other rows by rank.
with check("40.1"):
    results, parts = zip(*launch.run(try_begin, ranks=ranks, timeout=patience), strict=True)
    for place, (kind, on_node, gpus) in enumerate(NODES):
        started, devices, current = zip(*[tried[place] for tried in results], strict=True)
        expect(
            all(started), f"Nodes {kind}: Horovod was not started: hvd.init() comes before all else of hvd."
        )
        want = ["cpu"] * ranks
        if gpus:
            want = [f"cuda:{rank % on_node % gpus}" for rank in range(ranks)]
        expect.equal(list(devices), want, f"devices by rank, on nodes {kind}")
        named = [[device] if gpus else [] for device in want]
        why = "torch.cuda.set_device makes a rank's GPU the current one, where there are GPUs"
        expect.equal(list(current), named, f"GPUs made current by rank, on nodes {kind}", because=why)
    seen = np.concatenate(parts)
    expect(len(set(seen.tolist())) == len(seen), "A rank takes the same samples as another.")
    expect.equal([len(part) for part in parts], [12] * ranks, f"images by rank, of {12 * ranks} in the batch")
    expect.equal(np.sort(seen), np.arange(100, 100 + len(seen)), "The rows of all ranks together")

# %% [markdown]
# ### Predict
# Every rank draws random weights of its own, then gradients are averaged in each step. How many *different*
# nets are there on 4 ranks after training, if nothing else is done?

# %%
predict("40.2", different_nets=...)  # a number


# %% [markdown]
# ### Exercise 40.2 · Begin equal
# Before the first step, send rank 0's parameters **and its optimizer's state** to all: if rank 0 alone has
# loaded a checkpoint, it alone has that learning rate and momentum. 2 lines.
#
# <details><summary>Hint 1: which calls?</summary>
#
# `hvd.broadcast_parameters(…, root_rank=0)` takes `net.state_dict()`; a second call is for the optimizer.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.broadcast_parameters(net.state_dict(), root_rank=0)` and
# `hvd.broadcast_optimizer_state(optimizer, root_rank=0)`.
# </details>

# %%
def begin_equal(net, optimizer):
    """Give every rank the parameters and the optimizer state of rank 0."""
    raise NotImplementedError("exercise 40.2: Begin equal")


# %%
def try_begin_equal():
    begin(0)  # every rank has another net, momentum and learning rate
    net = nets.torch_digits(nets.start_weights(seed=hvd.rank()))
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0 + hvd.rank(), momentum=0.9)
    net(torch.ones(1, 64) * (1 + hvd.rank())).sum().backward()
    optimizer.step()
    begin_equal(net, optimizer)
    moments = sum(state["momentum_buffer"].sum().item() for state in optimizer.state.values())
    return optimizer.param_groups[0]["lr"], moments, sum(p.sum().item() for p in net.parameters())


with check("40.2"):
    rates, moments, weights = zip(*launch.run(try_begin_equal, ranks=ranks, timeout=patience), strict=True)
    expect.close(weights, weights[:1] * ranks, "Sum of the weights by rank (equal to rank 0's)")
    expect.close(moments, moments[:1] * ranks, "Sum of the momentum by rank, in the optimizer's state")
    expect.close(rates, [1.0] * ranks, "Learning rate by rank, in the optimizer's state (rank 0's is 1)")


# %% [markdown]
# ### Exercise 40.3 · Step together
# `hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())` returns an optimizer whose
# `step()` waits until every gradient is the **mean over all ranks**; each is sent as soon as backward has it.
# A global batch `hvd.size()` times as large also wants a learning rate that much larger (lab 34 says why).
# Plain SGD here, without momentum. 2 lines.
#
# <details><summary>Hint 1: which learning rate?</summary>
#
# `rate_per_rank` is right for the images of one rank: take `rate_per_rank * hvd.size()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank * hvd.size())`, then return what
# `hvd.DistributedOptimizer` makes of it and of `net.named_parameters()`.
# </details>

# %%
def make_optimizer(net):
    """Plain SGD on all ranks together. Returns a Horovod optimizer for the parameters of net."""
    raise NotImplementedError("exercise 40.3: Step together")


# %%
def try_step():
    begin(0)  # one weight, whose gradient is rank + 1: by how much does it move, in each of two steps?
    weight = torch.nn.Linear(1, 1, bias=False)
    optimizer = make_optimizer(weight)
    places = [weight.weight.item()]
    for _ in range(2):
        optimizer.zero_grad()
        (weight(torch.ones(1, 1)) * (hvd.rank() + 1)).sum().backward()
        optimizer.step()
        places.append(weight.weight.item())
    return optimizer.param_groups[0]["lr"], *-np.diff(places)


with check("40.3"):
    rates, moves, second = zip(*launch.run(try_step, ranks=ranks, timeout=patience), strict=True)
    expect.close(rates, [rate_per_rank * ranks] * ranks, "learning rate by rank (it grows with the ranks)")
    used = np.divide(moves, rates)
    own = np.arange(1, ranks + 1)  # a rank's own gradient is rank + 1
    slips = {
        "Each rank used its own gradient: nothing is averaged": own,
        "The gradients were summed, not averaged": [own.sum()] * ranks,
    }
    subject = f"gradient used, by rank: the mean of 1 to {ranks}"
    expect.close(used, [own.mean()] * ranks, subject, rtol=1e-3, slips=slips)
    plain = "With the same gradient, plain SGD moves as far in the second step as in the first"
    expect.close(np.array(second), np.array(moves), "second move, by rank", rtol=1e-3, because=plain)


# %% [markdown]
# ### Exercise 40.4 · Report and save once
# A rank knows the loss of its own images only: `hvd.allreduce` averages a tensor over the ranks. And ranks
# that all write one checkpoint file spoil it: rank 0 alone, the one of *all* ranks, may `torch.save`. 1 + 2
# lines.
#
# <details><summary>Hint 1: how do numbers become a tensor and return?</summary>
#
# `torch.tensor(values)` and `.tolist()`. Every rank must call `hvd.allreduce`: it waits for all of them.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `return hvd.allreduce(torch.tensor(values)).tolist()`, and `if hvd.rank() == 0:` before
# `torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path)`.
# </details>

# %%
def mean_over_ranks(values):
    """values: a list of floats, as long on every rank. Returns the list of their means over the ranks."""
    raise NotImplementedError("exercise 40.4: Report and save once")


def save(net, optimizer, path):
    """Write {"net": …, "optimizer": …}, their state_dict()s, to path: once for all ranks."""
    raise NotImplementedError("exercise 40.4: Report and save once")


# %%
def try_report():
    begin(0)  # every rank gives save() another file name: that shows who wrote
    net = nets.torch_digits()
    path = checkpoint.with_suffix(f".try{hvd.rank()}")
    path.unlink(missing_ok=True)
    with lab40.nodes_of(2):
        save(net, torch.optim.SGD(net.parameters(), lr=0.1), path)
    saved = torch.load(path) if path.exists() else {}
    held = {name: sorted(state) for name, state in saved.items()}
    want = {"net": sorted(net.state_dict()), "optimizer": ["param_groups", "state"]}
    return mean_over_ranks([1.0 * hvd.rank(), 5.0]), held, want


with check("40.4"):
    results = launch.run(try_report, ranks=ranks, timeout=patience)
    means, files, held = zip(*results, strict=True)
    want = np.array([[(ranks - 1) / 2, 5.0]] * ranks)
    slips = {"This is the sum over the ranks, not the mean": ranks * want}
    slips["This was divided by the number of ranks twice"] = want / ranks
    expect.close(np.array(means), want, "mean_over_ranks([rank, 5]), by rank", slips=slips)
    writers = [rank for rank in range(ranks) if files[rank]]
    expect.equal(writers, [0], "Ranks that wrote the checkpoint (all hold the same: rank 0 is enough)")
    expect.equal(files[0], held[0], "What the checkpoint holds, of the net and of the optimizer")


# %% [markdown]
# ## Put together
# The loop of `train_alone`, with your pieces. What is there because of the other ranks is marked.

# %%
def train_step(net, optimizer, images, labels, rows):
    """One step on this rank's part of the global batch `rows`. Returns the loss of that part."""
    # Across ranks: the rows that are ours.
    own = my_rows(rows)
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images[own]), labels[own])
    loss.backward()
    optimizer.step()
    return loss.detach()


# %%
def train(equal=True):
    """Train on all ranks. Returns the global loss of every step, time of a step, sum of weights, where."""
    # Across ranks: find the others, own device.
    device = begin(torch.cuda.device_count())
    where = as_it_is()  # in host memory, if this build of Horovod takes no tensors of GPUs
    expect(where.device in (device, "cpu"), f"This rank's device is {where.device}, not {device}.")
    # Across ranks: weights of their own, which begin_equal must repair.
    net = nets.torch_digits(nets.start_weights(seed=hvd.rank())).to(where.device)
    optimizer = make_optimizer(net)
    if equal:
        begin_equal(net, optimizer)
    images, labels = (torch.tensor(part, device=where.device) for part in digits[:2])
    step = partial(train_step, net, optimizer, images, labels)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), images_per_rank * hvd.size(), epoch, seed=0):
            losses.append(step(rows))
    save(net, optimizer, checkpoint)
    # Across ranks: one message for all losses of the run.
    curve = mean_over_ranks(torch.stack(losses).tolist())
    weights = sum(p.sum().item() for p in net.parameters())
    return curve, timing.measure(lambda: step(rows), repeat=30, device=where.device), weights, where


# %%
unequal = launch.run(train, equal=False, ranks=ranks)
curve, time, _, where = launch.run(train, ranks=ranks)[0]
difference = np.abs(np.divide(curve, alone) - 1).max()
print(f"{ranks} ranks: a step takes {time}. Largest difference of a loss: {difference:.1e}")
print(f"Rank 0: {where.describe()}")
expect(difference < 1e-5, "The ranks do not compute what one process computes: which piece is wrong?")
curves = {"one process": alone, f"{ranks} ranks": curve, "without begin_equal": unequal[0][0]}
plots.loss(curves, title="The same training, and one with a piece forgotten")
record.add("training", ranks_used=ranks, step=time, loss=curve[-1], difference=difference, **where.fields())
predict.compare("40.2", different_nets=len({round(weights, 3) for _, _, weights, _ in unequal}))

# %% [markdown]
# **Explain.** Equal gradients keep equal nets equal; they do not make unequal nets equal. Nothing complained,
# and that loss fell too: only equal nets and the curve of one process prove that the ranks work together.
#
# Horovod's last release is of 2023; `torch.distributed` has all of it too: `init_process_group`,
# `LOCAL_RANK`, `DistributedDataParallel(net)` for broadcast and mean, and `all_reduce`, which sums.
#
# ### What you take away
# - Five additions: own device, own images, equal start, averaged gradients, one report and one file.
# - The learning rate belongs to the *global* batch: it grows when ranks are added.
# - `make run LAB=40 NP=4` runs this file under `mpiexec`. Next: the same in TensorFlow (41); scaling (50).
