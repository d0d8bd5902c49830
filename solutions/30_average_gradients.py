# %% [markdown]
# # 30 Average gradients
#
# The simplest way to train on many devices is to give each of them a full copy of the network and a
# part of every batch, and to average the gradients before each update. This is **data
# parallelism**, and most distributed training begins with it. If it is done right, the result is
# the same as that of one device, up to rounding. But would we notice if a part of it were missing?
#
# In this lab we write data-parallel training by hand, with PyTorch for the gradients and MPI
# (Message Passing Interface) for the average. We prove that four ranks compute what one process
# computes, then remove each part in turn to see what breaks and how we would notice, and finally
# measure when the communication pays off.
#
# **After this lab you can** (1) shard a batch, start all ranks with equal weights, and average
# gradients, (2) prove that four ranks compute what one process computes, (3) say what breaks
# without each part, and (4) measure the cost of communication.
#
# ![A batch of eight images is dealt to two ranks. Each computes the mean gradient of its four images, and the mean of both is the gradient of the whole batch](30_average.svg)
#
# *Two ranks shard a batch of eight images. The mean of their two mean gradients is the gradient
# that one process would compute for all eight images.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 65 · Level: beginner · Before: 10, 20, 21

# %%
import numpy as np
import torch
import torch.nn.functional as F
from labkit import (
    check,
    data,
    hint,
    lab,
    launch,
    nets,
    plots,
    predict,
    record,
    workloads,
    world,
)
from labkit.counting import on_every_size
from labkit.errors import LabError
from labkit.placement import through_numpy
from support import lab30
from torch.nn.utils import parameters_to_vector, vector_to_parameters

lab.start("30_average_gradients")

# %% tags=["parameters"]
dataset = "digits"  # or files of yours, "mnist:FOLDER" or "cifar10:FOLDER": see lab 10
batch = 128  # images per step, over all ranks together (the global batch)
epochs = 10  # passes over the 1,536 training images
learning_rate = 0.2  # plain SGD
workers = 4  # ranks to start, unless a launcher has started some
patience = 30  # seconds after which a check calls the ranks stuck
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %% [markdown]
# ## Why it works
# The loss of a batch is the mean of the losses of its images, so its gradient is the mean of the
# gradients of its images. Now divide the batch into p equal parts, one for each rank. The mean of
# the gradients of the parts is then the gradient of the batch:
#
# | | images | gradient |
# |---|---|---|
# | one process | 0 1 2 3 4 5 6 7 | mean of 8 |
# | rank 0 of 2 | 0 2 4 6 | mean of 4 |
# | rank 1 of 2 | 1 3 5 7 | mean of 4 |
# | both ranks | 0 1 2 3 4 5 6 7 | mean of the two means, which is the same mean of 8 |
#
# Therefore p ranks can share the work on each batch. If they start with equal weights and all of
# them use this mean, only the time changes.
#
# Besides an equal start, this requires two things:
#
# - The parts must have **equal size**. With parts of 6 and 2 images, the mean of the two means
#   would give an image of the small part three times the weight of an image of the large one.
# - The loss of an image must **not depend on the other images** of its batch. Batch normalization
#   breaks this rule, because it normalizes each image with the mean of its batch. Each rank would
#   use the mean of its own part, so the result would differ.
#
# ### One process, for comparison
# The next cell repeats the training from lab 10 in one process. The network takes 64 pixels and has
# layers of 128, 64 and 10 units, each with a weight matrix and a bias.
#
# In the cell, `data.batches(images, batch, epoch, seed)` shuffles the numbers of the images and
# divides them into batches. With equal arguments it returns equal batches on every rank.


# %%
# Pixels that go in, units of each layer.
layers = (data.load(dataset).train_x.shape[1], 128, 64, 10)


def new_net(seed):
    """The net with the start weights of this seed."""
    return nets.torch_digits(nets.start_weights(seed, layers)).to(world.device())


def train_alone():
    """One process. Returns the loss of every step."""
    images, labels = (torch.tensor(part, device=world.device()) for part in data.load(dataset)[:2])
    net = new_net(seed=0)
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed=0):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


ranks = launch.ranks_here(workers)
alone = train_alone()
print(
    f"one process on {world.device()}: loss from {alone[0]:.3f} to {alone[-1]:.3f} in {len(alone)}"
    " steps"
)

# %% [markdown]
# MPI sends arrays, and a network consists of many tensors. These two helpers convert a list of
# tensors to one flat array and back. They work for weights as well as for gradients.


# %%
def to_vector(tensors):
    """All numbers of the tensors in one flat float32 array: a copy."""
    return parameters_to_vector(tensors).detach().cpu().numpy()


def from_vector(vector, tensors):
    """Write a flat array back into the tensors, in the same order."""
    vector_to_parameters(torch.from_numpy(vector).to(world.device(), copy=True), tensors)


# %% [markdown]
# ### Predict
# With four ranks and a global batch of 128 images, how many images does each rank have in a step?
#
# How many float32 values does each rank contribute to the average? There is one for each weight and
# bias of the layers 64 → 128 → 64 → 10. For example, a layer 5 → 3 has 5 · 3 weights and 3 biases,
# so it contributes 18 values.

# %%
predict("30.1", images_per_rank=32, values_averaged=17226)

# %% [markdown]
# ### Exercise 30.1 · Shard the batch
# The argument `rows` contains the image numbers of a global batch and is the same on all ranks.
# Return the part of this rank as an array or a list, so that all parts have equal size and every
# image belongs to exactly one rank, as in the table of *Why it works*. One line. *(beginner)*
#
# <details><summary>Hint 1: dealing cards</summary>
#
# Deal the rows like cards: the first row to rank 0, the second to rank 1, and so on. Which rows
# does rank r get?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# A slice with a step starts at `rank` and takes every `size`-th row: `rows[start::step]`.
# </details>


# %%
def my_share(rows, rank, size):
    """This rank's part of a global batch: len(rows) / size of its rows."""
    ### BEGIN SOLUTION
    return rows[rank::size]
    ### END SOLUTION


# %%
check("30.1", my_share)

# %% [markdown]
# In prediction 30.1, each rank has 128 / 4 = 32 images and contributes 17,226 values. In the table,
# + 1 stands for the bias:
#
# | layer | values |
# |---|---|
# | 64 → 128 | (64 + 1) · 128 = 8,320 |
# | 128 → 64 | (128 + 1) · 64 = 8,256 |
# | 64 → 10 | (64 + 1) · 10 = 650 |
#
# ### Exercise 30.2 · Start equal
# Equal gradients keep equal weights equal, but they do not *make* different weights equal. This has
# to be done once, before the first step. The broadcast of lab 21 is one call in MPI, which all
# ranks make. On rank 0 it reads the array, and on all other ranks it overwrites the array:
#
#     comm.Bcast(array, root=0)
#
# Give every rank the weights of rank 0, with `to_vector` and `from_vector` from above. 3 lines.
# *(beginner)*
#
# <details><summary>Hint 1: three steps</summary>
#
# Convert all weights (`net.parameters()`) to one vector, broadcast the vector of rank 0, and write
# the result back into the network.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `weights = to_vector(net.parameters())`, then the `Bcast` of `weights`. It overwrites the array
# and not the network, so `from_vector(weights, …)` comes last.
# </details>


# %%
def start_equal(comm, net):
    """Give the net of every rank the weights of rank 0."""
    ### BEGIN SOLUTION
    weights = to_vector(net.parameters())
    # Across ranks: rank 0's weights for everybody.
    comm.Bcast(weights, root=0)
    from_vector(weights, net.parameters())
    ### END SOLUTION


# %%
check("30.2", start_equal)

# %% [markdown]
# ### Exercise 30.3 · Average the gradients
# After `backward()`, the gradient of each weight is in `weight.grad`. Replace each gradient by its
# mean over the ranks. As in exercise 21.4, `comm.Allreduce(own, total)` leaves the sum of `own`
# over all ranks in `total`, an array of the same shape, on every rank.
#
# Each call costs a latency, and real networks have hundreds of gradients. Therefore put all
# gradients of the network into **one** vector and make **one** call. 5 lines. *(beginner)*
#
# - Write `Allreduce` with a capital A, because the vector is an array.
# - `from_vector` writes into gradients as it does into weights.
# - This network has six gradients, but your function will later average networks that have more.
#
# <details><summary>Hint 1: which tensors?</summary>
#
# `gradients = [weight.grad for weight in net.parameters()]` contains those of all weights and
# biases, in the same order on all ranks.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `own = to_vector(gradients)`, `total = np.empty_like(own)`, then the `Allreduce`, and write the
# mean, `total / comm.size`, back with `from_vector`.
# </details>


# %%
def average_gradients(comm, net):
    """Replace every gradient of the net by its mean over all ranks."""
    ### BEGIN SOLUTION
    gradients = [weight.grad for weight in net.parameters()]
    own = to_vector(gradients)
    total = np.empty_like(own)
    # Across ranks: one sum for all gradients, and everybody gets it.
    comm.Allreduce(own, total)
    from_vector(total / comm.size, gradients)
    ### END SOLUTION


# %%
check("30.3", average_gradients)

# %% [markdown]
# ### Exercise 30.4 · The training step
# This is the loop of `train_alone`, which runs on every rank with the rank's own rows, `share`,
# instead of `rows`. Write the step. 6 lines. *(intermediate)*
#
# - Call `average(comm, net)` at the right place. It is an argument of `train`, like `start`,
#   `share_of` and `rate`, so that later cells can replace your functions.
# - Append the loss of the *global* batch to `losses`. It is one number, the same on every rank.
#   `comm.allreduce(x)`, with a lower-case a, takes a single number and returns the sum over the
#   ranks.
# - The learning rate does not change, because the global batch is the same.
#
# <details><summary>Hint 1: where does the average go?</summary>
#
# `backward()` computes the gradients, and `optimizer.step()` uses them. The average has to come
# between the two.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Write the step as in `train_alone`, with `images[share]` and `labels[share]`. The loss is
# `comm.allreduce(loss.item()) / comm.size`.
# </details>


# %%
def train(
    comm, average=average_gradients, start=start_equal, share_of=my_share, rate=learning_rate
):
    """Data-parallel SGD. Returns the global loss of every step, and this rank's weights at the
    end."""
    images, labels = (torch.tensor(part, device=world.device()) for part in data.load(dataset)[:2])
    net = new_net(seed=comm.rank)  # each its own seed
    start(comm, net)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed=0):
            share = share_of(rows, comm.rank, comm.size)
            ### BEGIN SOLUTION
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images[share]), labels[share])
            loss.backward()
            # Across ranks: the mean of all ranks' gradients, before anybody moves.
            average(comm, net)
            optimizer.step()
            # Across ranks: the mean of the parts' losses is the loss of the global batch.
            losses.append(comm.allreduce(loss.item()) / comm.size)
            ### END SOLUTION
    return losses, to_vector(net.parameters())


# %%
check("30.4", train)

# %% [markdown]
# Now we train on all ranks and plot the losses on top of those of one process.

# %%
losses, _ = launch.run(train, ranks=ranks)[0]
plots.loss(
    {"one process": alone, f"{ranks} ranks": losses},
    title=f"{ranks} ranks train as one process does",
)
print(f"largest difference between the two curves: {np.abs(np.subtract(losses, alone)).max():.1e}")

# %% [markdown]
# **Explain.** You should see two curves that coincide. The small difference comes from rounding. A
# sum of floating-point numbers depends on the order of its terms, and four ranks add in a different
# order from one process. Each step starts from weights that differ slightly, so the difference may
# grow with the steps.
#
# *Among the ranks* there is no difference at all. The check compared their weights at the end with
# `==`. Why are these weights equal, although the ranks, too, must add in some order?
# <details><summary>Answer</summary>
#
# All ranks receive the result of the same `Allreduce`, and there is only one result. In the ring of
# lab 23, for example, each chunk is added up once, along a chain of ranks, and then copied to all
# ranks. From equal weights and equal gradients, each rank computes the same update.
# </details>
#
# ## What breaks without each part
# Because `train` takes its three parts as arguments, we can replace each of them by a common
# mistake:
#
# | mistake | instead of | what it does |
# |---|---|---|
# | no average | `average_gradients` | every rank uses its own gradients |
# | the sum | `average_gradients` | the gradients are p times the mean |
# | no broadcast | `start_equal` | each rank has its own random weights |
# | the same part | `my_share` | all ranks work on the images of rank 0 |
#
# A fifth run is a control: *the sum, rate / p* also adds up the gradients, but divides the learning
# rate by p. An update is the rate times the gradient, and (rate / p) · sum is the same as
# rate · (sum / p), which is the update with the mean.


# %%
def no_average(comm, net):
    """In place of average_gradients: every rank goes its own way."""


def sum_of_gradients(comm, net):
    """In place of average_gradients: somebody forgot to divide."""
    average_gradients(comm, net)
    for weight in net.parameters():
        weight.grad *= comm.size


def start_as_drawn(comm, net):
    """In place of start_equal: every rank keeps its own weights."""


def first_share(rows, rank, size):
    """In place of my_share: somebody wrote 0 for rank."""
    return my_share(rows, 0, size)


# %% [markdown]
# ### Predict
# Each of the four runs with a mistake trains for ten epochs. How many of them end in an error? And
# in how many does at least one rank's network get less than half of the 261 test images right? (The
# correct training gets about 95 % right.)

# %%
predict("30.4", end_in_an_error=1, right_below_50_percent=3)

# %% [markdown]
# ### Measure: four broken training runs
# The next cell trains the correct version, the four with a mistake and the control, which takes 10
# to 30 s.

# %%
broken = {
    "as it should be": {},
    "no average": {"average": no_average},
    "the sum": {"average": sum_of_gradients},
    "no broadcast": {"start": start_as_drawn},
    "the same part": {"share_of": first_share},
    "the sum, rate / p": {"average": sum_of_gradients, "rate": learning_rate / ranks},
}
results = {}
errors = 0
for name, parts in broken.items():
    try:
        results[name] = launch.run(train, ranks=ranks, **parts)
    except LabError as error:
        errors += 1
        print(name, error)

# %% [markdown]
# The next cell prints a row for each run, with these columns:
#
# - **test images right**: the percentage for each rank's network;
# - **weights apart**: the largest distance of a rank's weights from those of rank 0 at the end (0
#   means equal);
# - **first step that differs**: the first step whose loss differs from that of one process by more
#   than 0.001.

# %%
right = lab30.show_runs(results, alone, new_net(seed=0), dataset)
curves = {name: ranks_of[0][0] for name, ranks_of in results.items()}
del curves["the sum, rate / p"]  # which lies on the first
plots.loss(curves, title="The correct training, and one with each mistake")
wrong = ("no average", "the sum", "no broadcast", "the same part")
failed = sum(min(right[name]) < 50 for name in wrong if name in right)
predict.compare("30.4", end_in_an_error=errors, right_below_50_percent=failed)

# %% [markdown]
# **Explain.** With four ranks and the digits, you should see no error, five losses that are lower
# at the end than at the start, and no network that gets less than half of the images right. MPI and
# PyTorch do what the program tells them, so they do not detect a missing part.
#
# | mistake | weights of the ranks | what happens |
# |---|---|---|
# | no average | differ | four networks, each trained on a quarter of each batch |
# | the sum | equal | acts like four times the learning rate that you chose, so the loss jumps |
# | no broadcast | differ | all ranks add the same update, so the initial differences stay |
# | the same part | equal | four ranks do the work of one, on a quarter of the images |
#
# With *no broadcast*, this update is the mean gradient of four different networks. The mean of
# their losses falls nevertheless.
#
# The control, *the sum, rate / p*, never leaves the curve of one process, so it is not in the plot.
#
# The percentages alone would not reveal the mistakes, because they also depend on the seed. We ran
# these cases with ten seeds each, in one process that computed the updates of all ranks:
#
# | run | test images right |
# |---|---|
# | as it should be | 95 to 98 % |
# | the same part | 87 to 96 % |
# | the sum | 71 to 99 %, nine of ten runs at least 96 % |
# | the sum of eight ranks | 7 to 35 % |
#
# The printed column **first step that differs** does reveal that something is wrong. Which two
# mistakes are possible if this step is 0, and which two if it is 1?
# <details><summary>Answer</summary>
#
# The loss of step 0 is computed before any update. If this loss is wrong, the weights (no
# broadcast) or the images (the same part) differ from those of one process. If the loss of step 1
# is the first wrong one, the update is wrong, because there is no average or it is the sum.
# </details>
#
# ## What it costs
# A step consists of computation and the average. With p ranks, each rank computes 1/p of the
# images. But the vector that is averaged has one number for each weight and bias, so its length is
# the same for any number of ranks. How much do we then gain from more ranks?
#
# We compare the digits' network with a convolutional one, for a step of 128 images:
#
# | network | operations | gradient | computation, one rank | average, one rank | average, two ranks |
# |---|---|---|---|---|---|
# | digits | 0.1 million | 69 kB | 0.4 ms | 0.2 ms | 0.3 ms |
# | convolutional | 150 million | 265 kB | 180 ms | 1 ms | 1 ms |
#
# The *operations* are the multiplications and additions for one image, in the forward and backward
# pass. The *computation* is these two passes, on one core. The *average* takes time even on one
# rank, which copies its gradients into a vector and back. All times are rounded measurements from a
# virtual machine with two cores.
#
# ### Predict
# According to these times, how many times as fast is a step with two ranks as with one, if half of
# the images take half of the time? A value of 2 would be perfect, and 1 means no gain.

# %%
predict("30.4", digits_net=1.2, convolutional_net=2)

# %% [markdown]
# ### Measure: computation and average
# All ranks together process 128 images, and each rank computes with one thread. Each bar shows the
# two parts of a step, for one rank (p = 1) or for more, with the interquartile range as a thin
# line. The medians are printed, too. This takes 10 to 20 s.


# %%
def time_steps(comm):
    return lab30.step_times(comm, my_share, average_gradients, batch)


# Across ranks: with more ranks than cores they would wait for a core, not for messages.
most = ranks if world.launcher() else min(ranks, max(2, world.cores()))
times = launch.run(on_every_size, time_steps, ranks=most, threads=1)[0]

# %%
gains = lab30.show_steps(times, batch)
predict.compare(
    "30.4", digits_net=gains["the digits' net"], convolutional_net=gains["a convolutional net"]
)

# %% [markdown]
# **Explain.** The table shows how many times as fast two ranks are as one. The measured and the
# assumed times are from the same virtual machine with two cores:
#
# | network | with the assumed times | measured |
# |---|---|---|
# | digits | (0.4 + 0.2) / (0.2 + 0.3) = 1.2 | 0.87 |
# | convolutional | (180 + 1) / (90 + 1) = 2.0 | 1.5 |
#
# For the **convolutional network**, you should see that the computation time shrinks, that the
# average can hardly be seen in the bar, and that two ranks are faster than one.
#
# If its computation does not take half of the time, the two ranks share something: a core, its two
# hyper-threads (many virtual machines count these as cores), or the path to memory. If other
# programs use the cores, two ranks may even be slower.
#
# For the **digits' network** the average takes up a large part of the step, so two ranks gain
# little or even lose. In that measurement, the computation shrank only from 0.36 to 0.33 ms
# while the average grew from 0.19 to 0.30 ms. Half of the images need half of the arithmetic, but a
# step has dozens of PyTorch calls of a few microseconds each, which do not shrink. (This is a
# likely cause that is not measured here.)
#
# Why does the convolutional network gain, although its gradient is four times as long?
# <details><summary>Answer</summary>
#
# The gain depends on the ratio of computation to bytes. The convolutional network computes more
# than a thousand times as much per image, but sends only four times as many bytes.
# </details>
#
# ### What you take away
# - If the loss is a plain mean over images, then with equal parts, an equal start, and the mean of
#   the gradients before every update, p ranks compute the same result as one process, up to
#   rounding.
# - The sum leads to the same training as the mean if the learning rate is divided by p. MPI adds
#   up, while libraries for training, such as Horovod and PyTorch's DDP, average.
# - No error message tells you that a part is missing, and the loss usually falls nevertheless.
#   Compare with one process, step by step.
# - With more ranks the average has the same number of bytes, while the computation per rank
#   shrinks. A network that computes little therefore loses.
#
# In this lab all ranks took part equally in the average, which is called **decentralized**
# training. In **centralized** training a server collects the gradients, and lab 31 compares the
# two. Lab 32 hides the average behind the backward pass, and lab 40 lets Horovod do all of this.
#
# ## Going further (optional): gradients of real size on GPUs
# The time stated for this lab does not include this part, which takes about a minute on GPUs. On a
# CPU the next cell prints one sentence.
#
# How large is the share of the average in a network of real size? ResNet-50 has gradients of 102 MB
# and GPT-2 of 498 MB, and both compute long enough to fill a GPU. Lab 10 describes these networks
# and the model FLOPs utilization (MFU), which the next cell prints.
#
# The cell trains them with your `average_gradients` and one rank for each GPU. As a control,
# the same step runs without the average, so the difference is the cost of communication.
#
# Your function copies the gradients into host memory for MPI and back. This copy counts as
# communication, even with a single GPU. The parameter `workload` chooses the networks as in lab 10,
# and `"tiny"` tests the code on any device.

# %%
for name in workloads.chosen(workload):
    # Across ranks: each has a GPU of its own, and images or texts of its own.
    size = workloads.ranks(most)
    speeds = launch.run(
        lab30.workload_speeds, average_gradients, name, ranks=size, threads=1, timeout=300
    )[0]
    for way, speed in speeds.items():
        print(f"{way}, {size} rank(s): {speed}")
        record.add("workload", way=way, **through_numpy().fields() | speed.fields())

# %% [markdown]
# **Explain.** The average should take a visible share of the step, because the gradients are about
# 390 and 1,900 times as long as those of the convolutional network and are copied to host memory
# and back. Three changes shorten it: a library that reads GPU memory (labs 27 and 43), averaging
# while the backward pass still computes (lab 32), and fewer bytes (lab 35).
#
# ### Further reading
# - [@li2020] How PyTorch's DistributedDataParallel averages gradients, and what it had to solve.
# - [@bennun2019] A survey that compares data parallelism with the other forms of parallelism.
# - [@goyal2017] Section 3 lists common mistakes of distributed training, among them wrong averages.
# - [@mpi4py] The documentation of `Bcast` and `Allreduce`.
