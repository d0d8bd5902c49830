# %% [markdown]
# <!-- Generated from solutions/60_ddp_and_fsdp.py by `make labs`. Learners work on a copy in work/. -->
# # 60 DDP and FSDP
#
# PyTorch has its own library for [data parallelism](../labs/GLOSSARY.md#data-parallelism). Its class DistributedDataParallel (DDP) keeps a
# full copy of the model on every [rank](../labs/GLOSSARY.md#rank), and averages the [gradients](../labs/GLOSSARY.md#gradient) while the [backward pass](../labs/GLOSSARY.md#backward-pass) is still
# computing.
#
# This is simple and fast, but every rank keeps the same parameters, gradients and optimizer state.
# With Adam and 32-bit numbers these are 16 bytes for each parameter. A model with 7 billion
# parameters then needs 112 GB on every GPU, and most GPUs have less memory.
#
# The ZeRO method (Zero Redundancy Optimizer) and PyTorch's Fully Sharded Data Parallel (FSDP)
# remove this redundancy. They shard the parameters, gradients and optimizer state: each rank keeps
# only one part, its shard. If the parameters are sharded, too, the price is more communication.
#
# In this lab we build the core of DDP ourselves and compare its speed with PyTorch's. Then we
# compute what the stages of ZeRO keep and send, compare these numbers with FSDP on real ranks, and
# save and load a sharded model.
#
# **After this lab you can** (1) say what DDP does and when, (2) in the optional section, accumulate
# the gradients of several parts of a batch and communicate only once, (3) compute what the stages
# of ZeRO keep and send, and (4) say how FSDP shards a network, and what it keeps and sends.
#
# ![Bars of what each of four ranks keeps with DDP and with stages 1, 2 and 3 of ZeRO: more and more of it is cut into quarters](../notebooks/figures/60_zero.svg)
#
# *What each of four ranks keeps. ZeRO shards first the optimizer state, then also the gradients,
# and then also the parameters.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 50 · Level: intermediate · Before: 30, 32

# %%
import numpy as np
import pandas
import torch
import torch.distributed as dist
from labkit import check, hint, lab, launch, own_folder, plots, predict, record, workloads
from support import lab60
from torch.nn.functional import cross_entropy

lab.start("60_ddp_and_fsdp")
ranks = launch.ranks_here(2)

# %% tags=["parameters"]
width = 512  # input and output features of the inner blocks
pictures = 64  # of each rank, in a step of the measurement
repeat = 20  # timed steps of each way
bucket_bytes = 4 * 2**20  # the most that a bucket holds
patience = 60  # seconds after which a check calls a program stuck
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"


# %% [markdown]
# ## 1. Under PyTorch's own launcher
# [`torch.distributed`](https://docs.pytorch.org/docs/stable/distributed.html) is PyTorch's layer for several processes ([lab 51](51_mpi_against_nccl.ipynb)).
# Each process reads its identity from the environment variables `RANK`, `WORLD_SIZE` and
# `LOCAL_RANK`, and the address at which the processes meet from `MASTER_ADDR` and `MASTER_PORT`.
# PyTorch's [launcher](../labs/GLOSSARY.md#launcher), [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), sets these variables, for example for four processes
# with `torchrun --nproc-per-node=4 train.py`. In this lab `launch.run(…, controller="torch")` does
# the same.
#
# The messages are carried on CPUs by **Gloo**, a library for [collectives](../labs/GLOSSARY.md#collective) over TCP ([lab 51](51_mpi_against_nccl.ipynb)), and on
# GPUs by [NCCL](../labs/GLOSSARY.md#NCCL).
#
# <details><summary>And on several nodes?</summary>
#
# `srun` starts one torchrun on each node, and each torchrun starts its node's processes:
#
#     srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d \
#         --rdzv-id=$SLURM_JOB_ID --rdzv-endpoint=$(scontrol show hostnames | head -n1):29500 train.py
#
# The options that begin with `--rdzv` (for *[rendezvous](../labs/GLOSSARY.md#rendezvous)*) let the launchers find each other: they
# all connect to the first node of the job, at port 29500.
# </details>
#
# ### The four parts of DDP
# In PyTorch, averaging the gradients takes one line, `model = DistributedDataParallel(net)`.
# [Inside](https://docs.pytorch.org/docs/stable/notes/ddp.html), DDP does the following:
#
# 1. At the beginning it gives every rank the weights of rank 0 ([lab 30](30_average_gradients.ipynb)).
# 2. It groups the parameters into **buckets**, from the last layer to the first, which is usually
#    the order in which the backward pass computes their gradients.
# 3. As soon as all gradients of a bucket are ready, it launches an [allreduce](../labs/GLOSSARY.md#allreduce) that averages them,
#    while the backward pass continues.
# 4. At the end of the backward pass it waits until all allreduces have completed.
#
# You know the idea from [lab 32](32_buckets_and_overlap.ipynb). Now you write the two most important parts, 3 and 4, as the
# functions `start` and `finish`. The kit's function `lab60.attach` calls them:
#
# - After the last gradient of a bucket, it calls your `start(bucket)`. For this it uses *hooks*,
#   which are functions that PyTorch calls whenever a parameter's gradient is complete.
# - At the end of the backward pass, it calls `finish(bucket, started)`, where `started` is the
#   value that your `start` returned for this bucket.
#
# You need these calls:
#
# - `work = dist.all_reduce(tensor, async_op=True)` launches an allreduce that adds `tensor` over
#   all ranks in place, and returns at once. The sums can be used only after `work.wait()`.
# - `flat = torch.cat([a.flatten(), b.flatten()])` is a new one-dimensional tensor with copies of
#   the numbers of several tensors.
# - `flat.split([3, 5])` divides `flat` into parts of these lengths again, and `part.view_as(a)` has
#   the shape of `a`.
# - `dist.get_world_size()` is the number of ranks.
#
# ### Exercise 60.1 · Average the gradients of a bucket
# `bucket` is a list of parameters whose gradients, `weights.grad`, are ready. Write two functions.
# 3 and 6 lines. *(intermediate)*
#
# - `start` launches the averaging of all these gradients in **one** message, does not wait, and
#   returns what `finish` needs.
# - `finish` waits, and writes the averages into the gradients, for example with
#   `weights.grad.copy_(…)`.
#
# For example, let a bucket have two parameters, with the gradients (1, 2) and (5) on rank 0, and
# (3, 8) and (1) on rank 1. Rank 0 launches the allreduce of (1, 2, 5). After `finish`, both ranks
# have the gradients (2, 5) and (3).
#
# <details><summary>Hint 1: one message, and back</summary>
#
# `flat = torch.cat([weights.grad.flatten() for weights in bucket])` is the message. Return `flat`
# and `work` as a pair. In `finish`, take `weights.grad.numel()` numbers from it for each parameter,
# in the same order.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# ```python
# flat, work = started
# work.wait()
# parts = flat.split([weights.grad.numel() for weights in bucket])
# for weights, part in zip(bucket, parts):
#     weights.grad.copy_(part.view_as(weights.grad) / …)
# ```
# </details>

# %%
def start(bucket):
    """Begin to add up the gradients of a bucket's parameters over all ranks. Returns what finish
    needs."""
    raise NotImplementedError("exercise 60.1: Average the gradients of a bucket")


def finish(bucket, started):
    """Wait for what start(bucket) returned, and write the average over all ranks into the
    gradients."""
    raise NotImplementedError("exercise 60.1: Average the gradients of a bucket")


# %%
# Asked: PyTorch's own gradients, by one allreduce for each bucket, all launched
# before the first wait.
check("60.1", start, finish)

# %% [markdown]
# ### Predict
# Your DDP and PyTorch's average the same bytes. Both copy gradients into buckets and back, yours
# from Python, PyTorch's in C++. The network has six blocks, each with a weight matrix and a bias,
# which are 12 tensors. Guess how many times as long as PyTorch's step your step takes
#
# - with buckets of the same size as PyTorch's (`yours`),
# - with a separate bucket for each tensor (`a_bucket_each`).

# %%
predict("60.1", yours=..., a_bucket_each=...)  # 1 is as fast

# %% [markdown]
# ### Measure
# We time a step of this network in four ways, which take turns. This takes about 20 s.
#
# | way | gradients |
# |---|---|
# | *yours* | averaged by your DDP, in buckets |
# | *yours, a bucket for each tensor* | averaged by your DDP, one tensor at a time |
# | *PyTorch's DDP* | averaged by PyTorch, in buckets |
# | *no exchange* | not averaged, without any communication (the control) |
#
# In the output, *times PyTorch's* is the answer to the prediction, and *steady* tells whether the
# times of this row varied little. If a row is not steady, run the cell again before you compare it.

# %%
size = ranks
timings = launch.run(
    lab60.compare_steps,
    start,
    finish,
    width,
    pictures,
    repeat,
    bucket_bytes,
    ranks=size,
    controller="torch",
    threads=1,
)[0]
theirs = timings["PyTorch's DDP"].median
rows = []
for way, took in timings.items():
    record.add("weak step", seconds=took, ranks=size, way=way, width=width)
    rows.append(
        {
            "way": way,
            "ms": 1e3 * took.median,
            "times PyTorch's": took.median / theirs,
            "steady": took.steady,
        }
    )
print(pandas.DataFrame(rows).set_index("way").round(2))
own, each = (
    timings["yours"].median / theirs,
    timings["yours, a bucket for each tensor"].median / theirs,
)
predict.compare("60.1", yours=own, a_bucket_each=each)


# %% [markdown]
# **Explain.** You should see that your DDP takes about as long as PyTorch's, because both send the
# same gradients in few large messages while the backward pass computes. The row *no exchange* is
# the time of the computation. The rest of a step is the communication that the backward pass does
# not hide, and the hooks and copies.
#
# One bucket per tensor usually takes longer, because each message has an overhead ([lab 32](32_buckets_and_overlap.ipynb)).
#
# ## 2. Accumulate gradients, and communicate once (optional)
# This section takes about ten minutes, which are not counted above. A batch that does not fit into
# memory is divided into parts whose gradients add up, because `backward()` *adds* to
# `weights.grad`. However, DDP would average after every part, which gives the same gradients but
# communicates each time.
#
# The block `with model.no_sync():` switches the averaging off. Put the [forward pass](../labs/GLOSSARY.md#forward-pass) of all parts
# except the last into it, because DDP notes in the forward pass whether to average. The last part
# stays outside, and its backward pass averages the accumulated gradients.
#
# ### Exercise 60.2 · One average for all parts
# `model` is a DDP model whose gradients are empty, and `batches` is a list of the parts, which are
# pairs (images, labels) of equal length. Write `accumulate`. 5 to 8 lines. *(beginner)*
#
# - Each part has its own forward and backward pass. The [loss](../labs/GLOSSARY.md#loss) of a part is
#   `cross_entropy(model(images), labels)`, the mean over its images.
# - Afterwards the gradients are those of a single batch with all the images, averaged over the
#   ranks.
# - The ranks communicate only **once**.
# - The weights, `batches` and the images stay as they are.
#
# For example, with three parts:
#
# | | gradients of the parts' mean losses | of a single batch with all images |
# |---|---|---|
# | rank 0 | 1, 2, 6 | 3 |
# | rank 1 | 4, 4, 7 | 5 |
#
# In the end both ranks have the gradient 4.
#
# <details><summary>Hint 1: the mean of all images</summary>
#
# `cross_entropy` is the mean over the images of its part. The mean over all images is the sum of
# these means, divided by the number of parts, so divide each loss.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# First `with model.no_sync():` with a loop over `batches[:-1]`, then the last batch outside of it.
# In both: `(cross_entropy(model(inputs), labels) / len(batches)).backward()`.
# </details>

# %%
def accumulate(model, batches):
    """Gradients of all batches together in the parameters of the DDP `model`, averaged once."""
    raise NotImplementedError("exercise 60.2: One average for all parts")


# %%
# Asked: The gradients of one large batch, with a single allreduce.
check("60.2", accumulate)


# %% [markdown]
# When the check passes, remove your `no_sync` and run the check again. It tells you how often the
# ranks communicate without it.
#
# ## 3. What every rank keeps, and does not need: ZeRO
# With DDP every rank keeps **everything**: for each parameter 4 bytes for itself, 4 for its
# gradient, and 8 for Adam's two averages ([lab 02](02_why_parallel.ipynb)). All ranks keep the same values. ZeRO
# (Rajbhandari et al., 2020) shards them among the p ranks, in stages:
#
# | stage | sharded among the ranks | in PyTorch |
# |---|---|---|
# | 0 | nothing | DDP |
# | 1 | Adam's averages | `ZeroRedundancyOptimizer` |
# | 2 | Adam's averages and the gradients | FSDP (section 4) with an option |
# | 3 | Adam's averages, the gradients and the parameters | FSDP |
#
# Sharded values have to be sent when another rank needs them. A [reduce-scatter](../labs/GLOSSARY.md#reduce-scatter) gives each rank the
# sums for its shard, and an [allgather](../labs/GLOSSARY.md#allgather) gives every rank all shards ([lab 23](23_ring_allreduce.ipynb)). With n parameters and
# ring algorithms, a rank sends n (p − 1) / p numbers in each of these two collectives, and twice as
# many in an allreduce, which consists of both:
#
# | stage | collectives of a step | numbers that a rank sends |
# |---|---|---|
# | 0 | an allreduce of the gradients | n (p − 1) / p, twice |
# | 1 and 2 | a reduce-scatter of the gradients, and after the update an allgather of the new parameters | n (p − 1) / p, twice |
# | 3 | an allgather of the parameters for the forward pass, another one for the backward pass, and a reduce-scatter of the gradients | n (p − 1) / p, three times |
#
# ### Exercise 60.3 · Bytes and traffic
# Write two functions for a stage from 0 to 3. `bytes_held` gives the bytes that a rank keeps, with
# 32-bit numbers and Adam, and `numbers_sent` gives how many numbers a rank sends in a step. Do not
# round. About 6 lines in all. *(beginner)*
#
# For example, in stage 1 and on 2 ranks, 100 parameters take 400 + 400 + 800 / 2 bytes, so
# `bytes_held(1, 100, 2)` is 1200.0. On 2 ranks a rank sends n numbers per step in stages 0 to 2,
# and 1.5 n in stage 3.
#
# <details><summary>Hint 1: three kinds of bytes</summary>
#
# Parameters take 4 n bytes, gradients 4 n, and Adam's averages 8 n. Each of the three is divided by
# `ranks` from its stage on.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `8 * n / (ranks if stage >= 1 else 1)` are Adam's averages. The gradients are divided from stage 2
# on, and the parameters from stage 3 on.
# </details>

# %%
def bytes_held(stage, n, ranks):
    """Bytes on one rank for n parameters: themselves, gradients and Adam's averages, in ZeRO's
    stage."""
    raise NotImplementedError("exercise 60.3: Bytes and traffic")


def numbers_sent(stage, n, ranks):
    """Numbers that one rank sends in a step with n parameters, by ring algorithms, in ZeRO's
    stage."""
    raise NotImplementedError("exercise 60.3: Bytes and traffic")


# %%
# Asked: Bytes and numbers of each stage, also where n does not divide.
check("60.3", bytes_held, numbers_sent)

# %% [markdown]
# ### Predict
# Consider a model with 30 billion parameters on 48 GPUs. How many gigabytes does each GPU keep in
# stage 1, and how many in stage 3?

# %%
predict("60.3", gigabytes_stage_1=..., gigabytes_stage_3=...)

# %%
gigabytes = {stage: bytes_held(stage, 30e9, 48) / 1e9 for stage in range(4)}
predict.right("60.3", gigabytes_stage_1=gigabytes[1], gigabytes_stage_3=gigabytes[3])


# %%
# Move the sliders. From how many GPUs on do 13 billion parameters fit into 80 GB in each stage?
def draw_memory(billions, gpus):
    kept = {f"stage {stage}": bytes_held(stage, billions * 1e9, gpus) / 1e9 for stage in range(4)}
    plots.bars(
        {stage: {"kept by each GPU": gigabytes} for stage, gigabytes in kept.items()},
        ylabel="GB on each GPU, without activations",
        title=f"{billions} billion parameters on {gpus} GPUs",
        name="zero_memory",
    )


plots.slider(draw_memory, billions=(1, 3, 7, 13, 70, 405), gpus=(1, 2, 3, 4, 5, 6, 8, 64, 512))

# %% [markdown]
# <details><summary>In which stage do 13 billion parameters fit into 80 GB?</summary>
#
# | stage | fits | because |
# |---|---|---|
# | 0 and 1 | on no number of GPUs | parameters and gradients alone are 104 GB |
# | 2 | from 6 GPUs on | each keeps 52 GB and a sixth of 156 GB |
# | 3 | from 3 GPUs on | each keeps a third of 208 GB |
# </details>
#
# ## 4. FSDP
# In PyTorch, [FSDP](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html) takes three lines before the optimizer is created:
#
#     for block in net:
#         fully_shard(block)   # reshard_after_forward=False keeps its parameters until backward
#     fully_shard(net)
#
# From then on every parameter is a *[DTensor](../labs/GLOSSARY.md#DTensor)* (distributed tensor), of which each rank has a shard.
# Before a block computes, in the forward or the backward pass, its shards are gathered from all
# ranks, and afterwards the gathered parameters are freed. (In [lab 69](69_fsdp_from_inside.ipynb) you write this yourself.)
#
# The loop makes each block a separate unit of this gathering, so that only a few blocks are whole
# at any time. The last call takes the parameters outside of the blocks, and coordinates the units.
#
# ### Measure
# A network trains on two ranks for three steps in each of four ways. This takes about 15 s.
#
# | way | stage |
# |---|---|
# | *DDP* | 0 |
# | *ZeRO-1*, which is `ZeroRedundancyOptimizer` | 1 |
# | *FSDP, parameters kept*, with `reshard_after_forward=False` | 2 |
# | *FSDP* | 3 |
#
# The output shows the bytes that a rank keeps for each parameter after the last step, and how many
# numbers a rank sends in a step, as a multiple of n. The value of your formula is to the right of
# each.
#
# None of these values is timed. The bytes are those of the tensors on the rank that keeps most. The
# numbers sent follow from the lengths of the arrays in rank 0's collectives, assuming that rings
# send them.

# %%
results = launch.run(lab60.sharded, width, ranks=ranks, controller="torch", threads=1)
n = sum(weights.numel() for weights in lab60.new_net(width).parameters())
stage_of = {"DDP": 0, "ZeRO-1": 1, "FSDP, parameters kept": 2, "FSDP": 3}
rows = []
for way, stage in stage_of.items():
    most = max(
        sum(result[way][part] for part in ("parameters", "gradients", "optimizer"))
        for result in results
    )
    sent = results[0][way]["sent"]
    loss = results[0][way]["losses"][-1]
    record.add("sharded", ranks=ranks, way=way, bytes=most, sent=sent, loss=loss)
    rows.append(
        {
            "way": way,
            "bytes a parameter": most / n,
            "by your formula": bytes_held(stage, 1, ranks),
            "sent, of n": sent / n,
            "sent, by formula": numbers_sent(stage, 1, ranks),
            "loss": loss,
        }
    )
print(pandas.DataFrame(rows).set_index("way").round(3).to_string())
for way in stage_of:
    print(f"Calls in a step, {way}: {results[0][way]['calls']}")

# %% [markdown]
# **Explain.** The last column is the control, the loss of the third step. All four ways should
# train identically, to the last digit shown. Most of the bytes and of the traffic agree with your
# formulas. There are three exceptions:
#
# - *FSDP, parameters kept* shows 8 bytes and not 10, because the bytes are counted after the step.
#   From the forward pass on, the gathered parameters stay whole on each rank, which saves the
#   second allgather. PyTorch frees them in the backward pass.
# - *ZeRO-1* sends more than the formula says. PyTorch's DDP gives all sums to every rank, with an
#   allreduce in place of the reduce-scatter, and `ZeroRedundancyOptimizer` then sends the new
#   parameters with [broadcasts](../labs/GLOSSARY.md#broadcast). The last lines of the output show both.
# - In *ZeRO-1* a rank can also keep slightly more than its share, because whole tensors are
#   assigned to ranks.
#
# *FSDP* sends 1.5 times as many numbers as *DDP*, because its two allgathers and one reduce-scatter
# replace one allreduce, which counts as two. How much longer a step takes depends on your links.
#
# ## 5. Save and load
# A network whose shards are on many ranks is saved by all of them, and each rank writes its own
# shards. Loading reassembles the shards, for any number of ranks.
# [`torch.distributed.checkpoint`](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html) does both:
#
#     checkpoint.save({"net": net.state_dict()}, checkpoint_id=folder)   # on all ranks
#     state = {"net": net.state_dict()}                                   # on another number of ranks
#     checkpoint.load(state, checkpoint_id=folder)
#     net.load_state_dict(state["net"])

# %%
folder = own_folder() / "60_checkpoint"
files = launch.run(lab60.save_and_load, width, folder, ranks=ranks, controller="torch")
for rank, own in enumerate(files):
    print(f"rank {rank} wrote {own}")
# Into a net of zeros, so that nothing but the files can bring them back.
loaded = lab60.load(width, folder)
want = lab60.new_net(width).state_dict()
same = all(torch.equal(loaded.state_dict()[key], want[key]) for key in want)
print(f"Loaded in one process: every weight as it was saved: {same}")

# %% [markdown]
# **Explain.** Each rank wrote about half of the bytes, and a single process read all of them into a
# network of zeros, so the number of ranks does not have to be the same for saving and loading.
#
# To resume a training run exactly you also need the optimizer state, the position in the data, and
# the state of the random number generators.
#
# When would you use which method?
# <details><summary>Answer</summary>
#
# | situation | method |
# |---|---|
# | everything fits on one device | DDP (or Horovod), which is the simplest, and none of these methods sends less |
# | only Adam's averages are too large | ZeRO-1 |
# | the model does not fit | FSDP, or a partition between its layers (labs [62](62_model_parallel.ipynb) and [63](63_pipeline_parallel.ipynb)) |
# | a single *layer* does not fit | a partition of the layer itself ([lab 64](64_tensor_parallel.ipynb)), because the other methods compute with whole layers, which FSDP gathers for a moment |
# </details>
#
# ### What you take away
# - DDP is an allreduce for each bucket, launched by hooks, and completed at the end of the backward
#   pass.
# - `no_sync` lets you communicate once instead of once for each part of a batch (section 2).
# - ZeRO shards Adam's averages, gradients and parameters. In stage 3, the 16 bytes per parameter
#   become 16 / p, at the cost of 1.5 times the traffic.
#
# ## Going further (optional): a model that fills GPUs
# This part takes about two minutes on GPUs, which is not counted above. On a CPU the next cell
# prints one sentence.
#
# The network above is too small to fill a GPU. Here we train the two workloads of [lab 10](10_train_on_one_device.ipynb), among
# which the parameter `workload` chooses:
#
# - ResNet-50 on images of 224 × 224 pixels,
# - GPT-2 with 124 million parameters on texts of 1,024 tokens.
#
# The methods are your `start` and `finish`, PyTorch's DDP, FSDP, and, as a control, no
# communication. Each GPU has one rank with its own batch, and a bucket has 25 MiB, which is DDP's
# default. [MFU](../labs/GLOSSARY.md#MFU) (model FLOPs utilization) is the share of the device's peak that a step reaches
# ([lab 10](10_train_on_one_device.ipynb)).

# %%
for name in workloads.chosen(workload):
    size = workloads.ranks(ranks)
    speeds = launch.run(
        lab60.workload_speeds,
        start,
        finish,
        name,
        ranks=size,
        controller="torch",
        threads=1,
        timeout=300,
    )[0]
    for way, speed in speeds.items():
        print(f"{way}, {size} rank(s): {speed}")
        record.add("workload", way=way, **speed.fields())

# %% [markdown]
# **Explain.** The share of communication is the additional time of each method, compared with no
# communication, relative to the method's own step.
#
# With several GPUs and NVLink most of DDP's communication should be hidden behind the backward
# pass, and your DDP should come close to it. FSDP sends 1.5 times as much as DDP, and here it saves
# memory that these two networks do not need. With a single GPU nothing is sent, and the differences
# are the overheads of the methods.
#
# ## Going further (optional): ranks without a launcher
# This part takes one minute, which is not counted above. Without a launcher, a program can start
# its own ranks on one machine. `torch.multiprocessing.spawn(work, args=(data,), nprocs=4)` starts
# four new Python processes, and process *i* calls `work(i, data)`. `spawn` sets none of the
# environment variables of section 1, so `work` has to give its rank and the meeting point to
# `init_process_group` itself.
#
# The processes share no Python variables. However, tensors that are passed as arguments or through
# a queue are moved to shared memory ([PyTorch's documentation](https://docs.pytorch.org/docs/stable/multiprocessing.html)).
#
# ### Further reading
# - S. Li et al., *[PyTorch Distributed: Experiences on Accelerating Data Parallel Training](https://arxiv.org/abs/2006.15704)*, VLDB, 2020. The paper about DDP, with buckets, hooks and measurements.
# - S. Rajbhandari, J. Rasley, O. Ruwase and Y. He, *[ZeRO: Memory Optimizations Toward Training Trillion Parameter Models](https://arxiv.org/abs/1910.02054)*, SC, 2020. The paper that introduced ZeRO and its three stages.
# - Y. Zhao et al., *[PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel](https://arxiv.org/abs/2304.11277)*, VLDB, 2023. How PyTorch's FSDP was built, and what it needed besides sharding.
# - [PyTorch: fully_shard (FSDP2)](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html). The documentation of `fully_shard`, which this lab uses.
