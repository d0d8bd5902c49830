# %% [markdown]
# <!-- Generated from solutions/30_average_gradients.py by `make labs`. Learners work on a copy in work/. -->
# # 30 Average gradients
#
# Data-parallel training by hand: every rank has the whole net and a part of each batch; ten lines
# make them one.
#
# **You will be able to** (1) shard a batch, start equal, average gradients, (2) prove that four
# ranks compute what one process does, (3) say what breaks, silently, without each part, (4) measure
# what communication costs.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 50 · Level: beginner · Before: 10, 20, 21

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
# The loss of a batch is a mean over its images. So its gradient is the mean of the images'
# gradients.
#
# Now cut the batch into p equal parts, one for each rank. The mean of the parts' gradients is the
# gradient of the batch:
#
# | | images | gradient |
# |---|---|---|
# | one process | 0 1 2 3 4 5 6 7 | mean of 8 |
# | rank 0 of 2 | 0 2 4 6 | mean of 4 |
# | rank 1 of 2 | 1 3 5 7 | mean of 4 |
# | both ranks | 0 1 2 3 4 5 6 7 | mean of the two means: the same mean of 8 |
#
# So p ranks can share the work on each batch. If they begin with equal weights, and all use that
# mean, nothing changes but the time.
#
# Two things are needed for that. The parts have to be equal: with parts of 6 and 2, the mean of the
# two means would count an image of the small part three times as much. And an image's loss may not
# depend on its neighbours, as it does with batch normalisation: there each rank would take the mean
# of its own part.
#
# Here all ranks add up together, and none is in charge. SURF's course calls such training
# **decentralised**. In the **centralised** way a server collects the gradients. Lab 31 builds that
# one.
#
# The net is lab 10's: 64 pixels, then layers of 128, 64 and 10 units, each with a weight matrix and
# a bias. Here is lab 10's training in one process, to compare with.
# `data.batches(images, batch, epoch, seed)` shuffles the image numbers and cuts them into batches.
# With equal arguments it gives equal batches on every rank.

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
# MPI sends arrays, and a net has many tensors. These two helpers turn a list of tensors into one
# flat array, and back. They work on weights as well as on gradients.

# %%
def to_vector(tensors):
    """All numbers of the tensors in one flat float32 array: a copy."""
    return parameters_to_vector(tensors).detach().cpu().numpy()


def from_vector(vector, tensors):
    """Write a flat array back into the tensors, in the same order."""
    vector_to_parameters(torch.from_numpy(vector).to(world.device()), tensors)


# %% [markdown]
# ### Predict
# With four ranks and a global batch of 128: how many images has each rank in a step? And how many
# float32 values does each put into the average, one for each weight and bias of 64 → 128 → 64 → 10?

# %%
predict("30.1", images_per_rank=..., values_averaged=...)


# %% [markdown]
# ### Exercise 30.1 · Shard the batch
# `rows` are the image numbers of a global batch, the same on all ranks. Return this rank's part:
# equal parts, every image on exactly one rank. One line. *(beginner)*
#
# <details><summary>Hint 1: dealing cards</summary>
#
# Deal the rows like cards: the first to rank 0, the second to rank 1, … What does rank r get?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# A slice with a step: begin at `rank`, take every `size`-th: `rows[start::step]`.
# </details>

# %%
def my_share(rows, rank, size):
    """This rank's part of a global batch: len(rows) / size of its rows."""
    raise NotImplementedError("exercise 30.1: Shard the batch")


# %%
# Asked: The parts are equal, they are of the batch's own rows, and each row is
# on exactly one rank.
check("30.1", my_share)


# %% [markdown]
# ### Exercise 30.2 · Start equal
# Equal gradients keep equal weights equal. They do not *make* them equal: that is done once, before
# the first step. Give every rank the weights of rank 0, with `to_vector` and `from_vector` from
# above. 3 lines. *(beginner)*
#
# Lab 21's broadcast is one call in MPI. All ranks make it. On rank 0 it reads the array, on all
# others it overwrites it:
#
#     comm.Bcast(array, root=0)
#
# <details><summary>Hint 1: three steps</summary>
#
# All weights (`net.parameters()`) into one vector; rank 0's vector to everybody; back into the net.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `weights = to_vector(net.parameters())`, then the `Bcast` of `weights`. It overwrites the array,
# not the net: `from_vector(weights, …)` comes last.
# </details>

# %%
def start_equal(comm, net):
    """Give the net of every rank the weights of rank 0."""
    raise NotImplementedError("exercise 30.2: Start equal")


# %%
# Asked: Nets that differ from rank to rank are, afterwards, what rank 0's was.
check("30.2", start_equal)


# %% [markdown]
# ### Exercise 30.3 · Average the gradients
# After `backward()` each weight has its gradient in `weight.grad`. Replace each by its mean over
# the ranks.
#
# As in 21.4, `comm.Allreduce(own, total)` leaves the sum of all ranks' `own` in everybody's
# `total`, an array like it. Each call costs a latency, so put all six gradients (real nets:
# hundreds) into **one** vector, and make **one** call. `from_vector` writes into gradients as it
# does into weights. 5 lines. *(beginner)*
#
# <details><summary>Hint 1: which tensors?</summary>
#
# `gradients = [weight.grad for weight in net.parameters()]`: weights and biases, in the same order
# everywhere.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `own = to_vector(gradients)`, `total = np.empty_like(own)`, the `Allreduce`, and the mean,
# `total / comm.size`, back with `from_vector`.
# </details>

# %%
def average_gradients(comm, net):
    """Replace every gradient of the net by its mean over all ranks."""
    raise NotImplementedError("exercise 30.3: Average the gradients")


# %%
# Asked: On every number of ranks all gradients are their mean, after one call
# of MPI.
check("30.3", average_gradients)


# %% [markdown]
# ### Exercise 30.4 · The training step
# The loop of `train_alone`, on every rank, with its own rows `share` in place of `rows`. Write the
# step. 6 lines. *(intermediate)*
#
# - Call `average(comm, net)` where it belongs. `average` is an argument of `train`: your
#   `average_gradients`, or what the next cells put in its place. `start`, `share_of` and `rate` are
#   arguments for the same reason.
# - `losses` gets the loss of the *global* batch, one number, the same on every rank.
#   `comm.allreduce(x)`, with a small a, takes a single number and returns the sum over the ranks.
# - The learning rate stays what it was: it is the same global batch.
#
# <details><summary>Hint 1: where does the average go?</summary>
#
# `backward()` makes gradients, `optimizer.step()` uses them. Between the two.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# As in `train_alone`, with `images[share]`, `labels[share]`. The loss:
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
            raise NotImplementedError("exercise 30.4: The training step")
    return losses, to_vector(net.parameters())


# %%
# Asked: Every loss is that of one process, on every rank and on any number of
# ranks; and all ranks' weights stay equal.
check("30.4", train)

# %%
losses, _ = launch.run(train, ranks=ranks)[0]
plots.loss(
    {"one process": alone, f"{ranks} ranks": losses},
    title=f"{ranks} ranks train as one process does",
)
print(f"largest difference between the two curves: {np.abs(np.subtract(losses, alone)).max():.1e}")


# %% [markdown]
# **Explain.** You should see one curve, drawn twice. The difference is a rounding error: a sum of
# floating-point numbers depends on its order, and four ranks add in another order than one process.
#
# *Between the ranks* every bit is equal: the check has compared their weights with `==`. Why is
# that so, although they too add in some order?
# <details><summary>Answer</summary>
#
# All ranks receive the result of the same `Allreduce`, and it is one result: in [lab 23](23_ring_allreduce.ipynb)'s ring, each
# chunk is added up once, along a chain of ranks, and then copied to all. From equal weights and
# equal gradients each computes the same update.
# </details>
#
# ## What breaks without each part
# `train` takes its three parts as arguments. So each can be replaced by a mistake that is often
# made:
#
# | | in place of | |
# |---|---|---|
# | no average | `average_gradients` | every rank goes its own way |
# | the sum | `average_gradients` | p times the mean |
# | no broadcast | `start_equal` | equal gradients, but each rank has drawn weights of its own |
# | the same part | `my_share` | all ranks work on rank 0's images |
#
# A fifth training adds up, too, but on purpose: *the sum, rate / p*. A step is rate times gradient,
# and
#
# | | gradient | times | is |
# |---|---|---|---|
# | the mean | (sum of all) / p | rate | rate · sum / p |
# | the sum, and a p-th of the rate | sum of all | rate / p | the same |

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
# Each of the four trains for ten epochs. A guess: how many of them end in an error? How many get
# less than half of the 261 test images right? (Training as it should be gets about 95 % right.)

# %%
predict("30.4", end_in_an_error=..., right_below_50_percent=...)


# %% [markdown]
# ### Measure: four broken trainings
# For each, and for the sum with a p-th of the rate: the losses, the test images that each rank's
# net gets right, and how far its weights are from rank 0's at the end. About 30 s.

# %%
def percent_right(weights):
    """Percent of the test images that the net with these weights gets right."""
    net = new_net(seed=0)
    from_vector(weights, net.parameters())
    images, labels = (torch.tensor(part, device=world.device()) for part in data.load(dataset)[2:])
    guesses = net(images).argmax(dim=1)
    return 100 * (guesses == labels).float().mean().item()


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

# %%
# A table, a plot, and the records.
curves = {name: ranks_of[0][0] for name, ranks_of in results.items()}
right = {
    name: [percent_right(weights) for _, weights in ranks_of] for name, ranks_of in results.items()
}
print(
    f"{'':>17}  test images right, by rank (%)  weights apart  leaves the curve of one process at"
    " step"
)
for name, ranks_of in results.items():
    apart = max(np.linalg.norm(weights - ranks_of[0][1]) for _, weights in ranks_of)
    off = [step for step, loss in enumerate(curves[name]) if abs(loss - alone[step]) > 1e-3]
    departs = off[0] if off else "never"
    percents = ", ".join(f"{percent:.0f}" for percent in right[name])
    print(f"{name:>17}  {percents:>30}  {apart:>13.2f}  {departs}")
    record.add("broken", unit="%", way=name, ranks=ranks, right=right[name], apart=float(apart))
del curves["the sum, rate / p"]  # which lies on the first
plots.loss(curves, title="Broken in four ways, and all of them learn")
wrong = ("no average", "the sum", "no broadcast", "the same part")
failed = sum(min(right[name]) < 50 for name in wrong if name in right)
predict.compare("30.4", end_in_an_error=errors, right_below_50_percent=failed)

# %% [markdown]
# **Explain.** You should see five curves that all fall, no error, and no net that gets less than
# half of the images right. MPI and PyTorch do what they are told.
#
# - *No average*: the ranks' weights are apart. These are four nets, each trained on a quarter of
#   each batch.
# - *The sum*: four times the mean, so four times the learning rate. The weights are equal, but the
#   loss leaps: it is another training. (In [lab 10](10_train_on_one_device.ipynb) you may have seen what too high a rate does.)
# - *The sum, rate / p* is the control, and not broken: it never leaves the curve of one process (so
#   it is not in the plot). Sum or mean is a matter of taste, if the rate goes with it. To a mean
#   belongs the rate of the whole batch, to a sum a p-th of that.
# - *No broadcast*: all ranks make the same step, which leaves their nets as far apart as they were.
#   The mean gradient is downhill for the mean of their losses, so that falls. But these are four
#   nets.
# - *The same part*: equal weights, and four ranks do the work of one, on a quarter of the images.
#
# The numbers of right images alone would not tell you: one run of one seed says little about 90
# against 95 %. What does tell, at once, is the last column. Which part is missing if the very first
# loss is off, and which if it is the second?
# <details><summary>Answer</summary>
#
# The first loss (step 0) comes before any update: the weights (no broadcast) or the images (the
# same part) are not those of one process. If the second (step 1) is the first to be off, the update
# is: no average, or the sum.
# </details>
#
# ## What it costs
# A step is computing, then averaging. With p ranks each computes 1/p of the images. But the vector
# that is averaged has as many bytes on any number of ranks: one number for each weight and bias.
#
# | net | multiplications and additions for an image, there and back | gradient |
# |---|---|---|
# | the digits' net | 0.1 million | 69 kB |
# | a convolutional net | 150 million | 265 kB |
#
# ### Predict
# With two ranks rather than one: how many times as fast is a step of each net? 2 would be perfect,
# 1 no gain, less than 1 a loss.
#
# Take roughly these times. One core computes a step of 128 images in 0.4 ms for the digits' net,
# and in 180 ms for the convolutional net. An average of 69 kB takes 0.2 ms with one rank (the
# gradients are copied into a vector and back) and 0.3 ms with two. One of 265 kB takes 1 ms.

# %%
predict("30.4", digits_net=..., convolutional_net=...)


# %% [markdown]
# ### Measure: computing and averaging
# 128 images over all ranks. Each rank computes with one thread, also where it is alone. About 20 s.

# %%
def time_steps(comm):
    return lab30.step_times(comm, my_share, average_gradients, batch)


# Across ranks: with more ranks than cores they would wait for a core, not for messages.
most = min(ranks, max(2, world.cores()))
times = launch.run(on_every_size, time_steps, ranks=most, threads=1)[0]

# %%
# Two plots, the records, the comparison.
gains = {}
for net in times[1]:
    bars = {}
    for size in sorted(times):
        parts = times[size][net]
        bars[f"p = {size}"] = {
            part: 1e3 * measurement.samples for part, measurement in parts.items()
        }
        medians = {part: 1e3 * measurement.median for part, measurement in parts.items()}
        record.add("step", unit="ms", net=net, ranks=size, **medians, **through_numpy().fields())
    plots.bars(bars, title=f"A step of {net}, {batch} images", name=f"step {net}")
    alone_ms, shared_ms = (
        sum(part.median for part in times[size][net].values()) for size in (1, min(2, most))
    )
    gains[net] = alone_ms / shared_ms
predict.compare(
    "30.4", digits_net=gains["the digits' net"], convolutional_net=gains["a convolutional net"]
)

# %% [markdown]
# **Explain.** You should see: in the convolutional net computing shrinks, the average is a thin
# slice, and two ranks are faster than one. In the digits' net the average is a large part of the
# step, and two ranks gain little, or even lose.
#
# The digits' net may do worse than predicted, because its computing hardly shrinks. Half the images
# are half the arithmetic. A likely cause, not measured here: a step is dozens of calls of PyTorch,
# and each takes some microseconds, however little it computes.
#
# You may see instead: computing of the convolutional net that does not halve. Then the two ranks
# share something: a core, its two hardware threads (many virtual machines count these as cores), or
# the way to memory. `make doctor` says how many cores you have. If other programs run, the lines at
# the bars' ends, the middle half of the runs, are long.
#
# Why does the convolutional net gain, although its gradient is four times as long?
# <details><summary>Answer</summary>
#
# What counts is computing against bytes. It computes more than a thousand times as much for an
# image, and sends four times as much. The digits' net has too little work to share.
# </details>
#
# ## On GPUs: gradients of real size
# (About a minute on GPUs, not counted above. On a CPU the next cell prints one sentence.)
#
# Both networks above have gradients of less than a megabyte. ResNet-50 has 102 MB of them and
# GPT-2 498 MB, and both compute long enough to fill a GPU (lab 10 describes the two workloads, and
# MFU). Here your `average_gradients` averages them over one rank for each GPU. As a control, the
# same step runs without the average, so the difference between the two is what communication costs.
#
# Your function copies the gradients into host memory for MPI and back. That copy counts as
# communication, also with a single GPU. The parameter `workload` chooses the networks as in lab 10,
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
# **Explain.** The average should take a visible share of the step although each rank computes much
# more than before, since the gradients are 390 and 1,900 times as long as those of the convolutional
# network, and your function copies them to host memory and back. Three changes shorten it: a library that reads GPU memory (labs [27](27_cuda_aware_mpi.ipynb) and [43](43_horovod_nccl2.ipynb)), averaging while backward still computes ([lab 32](32_buckets_and_overlap.ipynb)), and fewer bytes ([lab 35](35_compress_gradients.ipynb)).

# %% [markdown]
# ### What you take away
# - Equal parts, equal start, the mean of the gradients before every update: p ranks are one, to
#   rounding, where the loss is a plain mean over images.
# - Sum and mean are the same training, if the rate goes with them. MPI adds up; libraries for
#   training, such as Horovod and PyTorch's DDP, give the mean.
# - No error warns of a missing part, and the loss falls all the same. Compare with one process,
#   step by step.
# - The average has as many bytes on any number of ranks, the computing shrinks. A net that computes
#   little loses.
# - Next: who should add (lab 31), how to hide the average behind backward (32), Horovod does it all
#   (40).
