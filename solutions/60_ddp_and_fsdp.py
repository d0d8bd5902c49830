# %% [markdown]
# # 60 DDP and FSDP
#
# PyTorch brings data parallelism of its own. You build the heart of DDP yourself, count what it
# keeps on every rank, and then shard the rest away: ZeRO and FSDP.
#
# **You will be able to** (1) say what DDP does and when, (2) if you have time: accumulate gradients
# without paying for each part, (3) compute what ZeRO's stages hold and send, (4) say how FSDP
# shards a net, what it holds and sends.
#
# ![Bars of what each of four ranks keeps with DDP and with stages 1, 2 and 3 of ZeRO: more and
# more of it is cut into quarters](60_zero.svg)
#
# *What each of four ranks keeps. ZeRO cuts first the optimizer state, then the gradients, then the
# parameters into one shard per rank.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 50 · Level: intermediate · Before: 30, 32

# %%
import numpy as np
import pandas
import torch
import torch.distributed as dist
from labkit import check, hint, home, lab, launch, predict, record, workloads
from support import lab60
from torch.nn.functional import cross_entropy

lab.start("60_ddp_and_fsdp")
ranks = 2

# %% tags=["parameters"]
width = 512  # numbers between two blocks of the net
pictures = 64  # of each rank, in a step of the measurement
repeat = 20  # timed steps of each way
bucket_bytes = 4 * 2**20  # the most that a bucket holds
patience = 60  # seconds after which a check calls a program stuck
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %% [markdown]
# ## 1. Under PyTorch's own launcher
# `torch.distributed` is PyTorch's layer for many processes (lab 51). Each process finds in its
# environment who it is: `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, and where to meet: `MASTER_ADDR`,
# `MASTER_PORT`. PyTorch's launcher sets them:
#
#     torchrun --nproc-per-node=4 train.py
#     srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d \
#         --rdzv-id=$SLURM_JOB_ID --rdzv-endpoint=$(scontrol show hostnames | head -n1):29500 train.py
#
# Here `launch.run(…, controller="torch")` does the same. On CPUs the library **Gloo** carries the
# messages, on GPUs NCCL does.
#
# On one machine a program can also start its own ranks:
# `torch.multiprocessing.spawn(work, args=(data,), nprocs=4)` starts four new Python processes, and
# number *i* calls `work(i, data)`. It sets none of the variables above, so `work` has to give its
# rank and the meeting point to `init_process_group` itself. The processes share no variables,
# because each imports the program anew and receives pickled copies of its arguments. Tensors are
# the exception. A tensor that is passed as an argument, or through a queue of
# `torch.multiprocessing`, is moved to shared memory, so all processes see it change ([PyTorch's
# documentation](@pytorch_multiprocessing)).
#
# In PyTorch the gradients' average is one line: `model = DistributedDataParallel(net)`, **DDP** for
# short. What it does inside:
#
# 1. at the beginning it gives every rank the weights of rank 0 (lab 30);
# 2. it puts the parameters into **buckets**, from the last layer to the first: in the order in
#    which backward computes their gradients;
# 3. as soon as all gradients of a bucket are there, it begins to average them, while backward goes
#    on;
# 4. at the end of backward it waits for all averages.
#
# You know the idea from lab 32. Now the two pieces that matter are yours: 3 and 4. A *hook* calls
# them: PyTorch calls a hook of a parameter whenever its gradient is complete, and `lab60.attach`
# counts them: at the last one of a bucket it calls your `start(bucket)`. At the end of backward it
# calls `finish(bucket, started)`, where `started` is what your `start` returned for that bucket.
#
# Three calls are new:
#
# - `work = dist.all_reduce(tensor, async_op=True)` begins to add `tensor` up over all ranks, in
#   place, and returns at once; the numbers may be used after `work.wait()`;
# - `torch.cat([a.flatten(), b.flatten()])` is one flat tensor with the numbers of several;
# - `dist.get_world_size()` is how many ranks there are.
#
# ### Exercise 60.1 · The heart of DDP
# `bucket` is a list of parameters that have their gradients, as `weights.grad`. `start` begins to
# average them, all in **one** message, and returns whatever `finish` needs. `finish` waits, and
# writes the average into the gradients. 3 and 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: one message, and back</summary>
#
# `flat = torch.cat([weights.grad.flatten() for weights in bucket])` is what is sent. Return `flat`
# and `work` as a pair. In `finish`, take `weights.grad.numel()` numbers of it for each parameter,
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
    ### BEGIN SOLUTION
    # Across ranks: one sum for the whole bucket, begun and not waited for.
    flat = torch.cat([weights.grad.flatten() for weights in bucket])
    work = dist.all_reduce(flat, async_op=True)
    return flat, work
    ### END SOLUTION


def finish(bucket, started):
    """Wait for what start(bucket) returned, and write the average over all ranks into the
    gradients."""
    ### BEGIN SOLUTION
    flat, work = started
    work.wait()
    flat /= dist.get_world_size()
    parts = flat.split([weights.grad.numel() for weights in bucket])
    for weights, part in zip(bucket, parts, strict=True):
        weights.grad.copy_(part.view_as(weights.grad))
    ### END SOLUTION


# %%
check("60.1", start, finish)

# %% [markdown]
# ### Predict
# Your DDP and PyTorch's average the same bytes. How many times PyTorch's step does yours take? And
# how many times PyTorch's, if each tensor has a bucket of its own: 12 messages in place of a few?
# You cannot compute the second: guess.

# %%
predict("60.1", yours=..., a_bucket_each=...)  # 1 is as fast

# %% [markdown]
# ### Measure
# A step of a net of six blocks, in turns: yours, yours with a bucket for each tensor, PyTorch's,
# and, as a control, no exchange at all. About 20 s.

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
    record.add("step", seconds=took, ranks=size, way=way, width=width)
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
# **Explain.** Yours takes about as long as PyTorch's, for the same gradients: what you wrote *is*
# DDP's heart. The line without exchange is what computing alone takes; the rest of the step is the
# exchange, as far as it is not hidden.
#
# A bucket for each tensor costs more, because each message has a cost of its own (lab 32). Where
# this was written, a step with 12 messages in place of a few took 1.4 to 1.8 times as long as
# PyTorch's, though half of the messages are long. Those timings were not steady. If yours are not,
# compare nothing, and run the cell again.
#
# ## 2. Accumulate, and pay once (for those who have time)
# A batch that does not fit into memory is cut into parts, whose gradients add up: `backward()`
# *adds* to `weights.grad`. But DDP would average after every part. `with model.no_sync():` switches
# that off: inside, gradients stay on the rank, provided that the part's forward pass is inside,
# too. Only the last part is computed outside of it.
#
# ### Exercise 60.2 · One average for all parts
# `model` is a DDP model, `batches` a list of (pictures, labels) of equal lengths. Afterwards the
# gradients are those of one batch with all pictures, averaged over the ranks, and there was **one**
# exchange. The gradients are empty before. 5 to 8 lines. *(beginner)*
#
# When the check passes, take your `no_sync` out and run it again: it tells how many exchanges there
# are then.
#
# <details><summary>Hint 1: the mean of all</summary>
#
# `cross_entropy` is the mean over its pictures. The mean over all pictures is the sum of the parts'
# means, divided by the number of parts: so divide each loss.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# First `with model.no_sync():` with a loop over `batches[:-1]`, then the last batch outside of it.
# In both: `(cross_entropy(model(inputs), labels) / len(batches)).backward()`.
# </details>


# %%
def accumulate(model, batches):
    """Gradients of all batches together in the parameters of the DDP `model`, with one exchange."""
    ### BEGIN SOLUTION
    with model.no_sync():
        for inputs, labels in batches[:-1]:
            (cross_entropy(model(inputs), labels) / len(batches)).backward()
    inputs, labels = batches[-1]
    (cross_entropy(model(inputs), labels) / len(batches)).backward()
    ### END SOLUTION


# %%
check("60.2", accumulate)

# %% [markdown]
# ## 3. What every rank keeps, and need not: ZeRO
# With DDP every rank holds **everything**: for each parameter 4 bytes of itself, 4 of its gradient,
# and 8 of Adam's two averages (lab 02). All ranks hold the same. ZeRO (Rajbhandari and others,
# 2020) deals it out among the p ranks, in stages:
#
# | stage | dealt out among the ranks | in PyTorch |
# |---|---|---|
# | 0 | nothing | DDP |
# | 1 | Adam's averages | `ZeroRedundancyOptimizer` |
# | 2 | those, and the gradients | FSDP with `reshard_after_forward=False` (see below) |
# | 3 | those, and the parameters | FSDP |
#
# What is dealt out must travel when it is needed. With n parameters, a rank sends in a step, by
# rings:
#
# - stages 0 to 2: as much as one allreduce: n (p - 1) / p numbers twice;
# - stage 3: an allgather of the parameters for forward, another for backward, and a reduce-scatter
#   of the gradients: n (p - 1) / p numbers three times. (An allreduce is a reduce-scatter and an
#   allgather: two.)
#
# ### Exercise 60.3 · Bytes and traffic
# Two functions: the bytes that one rank holds in a stage, with 32-bit numbers and Adam, and the
# numbers that it sends in a step. About 6 lines together. *(beginner)*
#
# <details><summary>Hint 1: three kinds of bytes</summary>
#
# Parameters 4 n, gradients 4 n, averages 8 n: each is divided by `ranks` from its stage on.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `8 * n / (ranks if stage >= 1 else 1)` are the averages. The others are alike, from stages 2 and 3
# on.
# </details>


# %%
def bytes_held(stage, n, ranks):
    """Bytes on one rank for n parameters: themselves, gradients and Adam's averages, in ZeRO's
    stage."""
    ### BEGIN SOLUTION
    averages = 8 * n / (ranks if stage >= 1 else 1)
    gradients = 4 * n / (ranks if stage >= 2 else 1)
    parameters = 4 * n / (ranks if stage >= 3 else 1)
    return parameters + gradients + averages
    ### END SOLUTION


def numbers_sent(stage, n, ranks):
    """Numbers that one rank sends in a step with n parameters, by ring algorithms, in ZeRO's
    stage."""
    ### BEGIN SOLUTION
    times = 3 if stage == 3 else 2
    return times * n * (ranks - 1) / ranks
    ### END SOLUTION


# %%
check("60.3", bytes_held, numbers_sent)

# %% [markdown]
# ### Predict
# A net of 7 billion parameters on 64 GPUs. How many gigabytes does each hold in stage 0, and in
# stage 3?

# %%
predict("60.3", gigabytes_stage_0=..., gigabytes_stage_3=...)

# %%
gigabytes = {stage: bytes_held(stage, 7e9, 64) / 1e9 for stage in range(4)}
predict.right("60.3", gigabytes_stage_0=gigabytes[0], gigabytes_stage_3=gigabytes[3])

# %% [markdown]
# ## 4. FSDP
# In PyTorch it is three lines, before the optimizer is made:
#
#     for block in net:
#         fully_shard(block)   # reshard_after_forward=False keeps its parameters until backward
#     fully_shard(net)
#
# From then on every parameter is a *DTensor*: this rank holds a piece of it. Before a block
# computes, its pieces are gathered from all ranks; afterwards they are let go again.
#
# ### Measure
# A net on two ranks, three steps by each way: bytes held after the last one, and what its
# collectives sent. Both are counted, not timed: bytes of this rank's tensors, and the lengths of
# the collectives' arrays, as rings send them. About 15 s.

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
    record.add(
        "sharded", ranks=ranks, way=way, bytes=most, sent=sent, loss=results[0][way]["losses"][-1]
    )
    row = {
        "way": way,
        "bytes a parameter": most / n,
        "by your formula": bytes_held(stage, 1, ranks),
    }
    rows.append(
        row
        | {
            "sent, of n": sent / n,
            "sent, by formula": numbers_sent(stage, 1, ranks),
            "loss": results[0][way]["losses"][-1],
        }
    )
print(pandas.DataFrame(rows).set_index("way").round(3))
for way in stage_of:
    print(f"Calls in a step, {way}: {results[0][way]['calls']}")

# %% [markdown]
# **Explain.** The last column is the control, the loss of the third step: all four train the same,
# to the last digit shown. The bytes are those of your formula, and so is most of the traffic. Two
# rows need a word:
#
# - "FSDP, parameters kept" holds, *after* the step, as little as FSDP: PyTorch lets go of the
#   parameters then. Between forward and backward it keeps them whole, which these bytes do not
#   show: the traffic does, which lacks the second gathering.
# - ZeRO-1 sends more than the formula. The paper deals the *sums* of the gradients out; PyTorch's
#   `ZeroRedundancyOptimizer` gives every rank all of them, as DDP does, and then sends the new
#   parameters round: the allreduce and the broadcasts of the last lines. It also deals out whole
#   tensors, so one rank may hold a little more than its share.
#
# For what price? Three in place of two, half as many bytes again. How much of that a step feels,
# your links decide: measure it, as in 60.1.
#
# ## 5. Save and load
# A net whose pieces lie on many ranks is saved by all of them: each writes its own. Loading puts
# them together again, for any number of ranks. `torch.distributed.checkpoint` does both:
#
#     checkpoint.save({"net": net.state_dict()}, checkpoint_id=folder)   # on all ranks
#     state = {"net": net.state_dict()}                                   # of a net of any number of ranks
#     checkpoint.load(state, checkpoint_id=folder)
#     net.load_state_dict(state["net"])

# %%
folder = home() / "60_checkpoint"
files = launch.run(lab60.save_and_load, width, folder, ranks=ranks, controller="torch")
for rank, own in enumerate(files):
    print(f"rank {rank} wrote {own}")
# Into a net of zeros, so that nothing but the files can bring them back.
loaded = lab60.load(width, folder)
want = lab60.new_net(width).state_dict()
same = all(torch.equal(loaded.state_dict()[key], want[key]) for key in want)
print(f"Loaded in one process: every weight as it was saved: {same}")

# %% [markdown]
# **Explain.** Each rank wrote about half of the bytes, and one process read them all into zeros:
# the number of ranks need not be that of the saving. An exact resume needs more: the optimizer, the
# place in the data, the random numbers.
#
# When would you take which?
# <details><summary>Answer</summary> DDP (or Horovod) as long as everything fits on one device: it sends least
# and is simplest. ZeRO-1 when Adam's averages are what is too much. FSDP when the net does not fit;
# cutting it between its layers is the other way (labs 62 and 63). Both compute with whole layers,
# which FSDP gathers for a moment. When one *layer* does not fit, the layer itself has to be cut:
# lab 64.</details>
#
# ## 6. On GPUs: a model that fills them
# (About two minutes on GPUs, not counted above. On a CPU the next cell prints one sentence.)
#
# The network above has so few parameters that most of its step is waiting. Here the same four
# pieces, your `start` and `finish`, PyTorch's DDP, FSDP, and no exchange as a control, train the two
# workloads of lab 10: ResNet-50 on images of 224 × 224 pixels, and GPT-2 with 124 million parameters
# on texts of 1,024 tokens. There is one rank for each GPU, and each has a batch of its own. A bucket
# holds 25 MiB, which is DDP's own default. Lab 10 explains MFU, the share of the device's peak that
# a step reaches.
#
# The parameter `workload` chooses the networks as in lab 10, and `"tiny"` tests the code on any
# device.

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
# **Explain.** The share of communication is what each way takes longer than no exchange, relative to
# its own step. With several GPUs and NVLink most of DDP's communication should be hidden behind the
# backward pass. Yours should come close to DDP: it copies each bucket before the sum and after it,
# where DDP keeps the gradients inside its buckets. FSDP sends half as much again, and here it buys
# memory that these two networks do not need. With a single GPU nothing is sent, and the differences
# are what each way costs by itself.

# %% [markdown]
# ### What you take away
# - DDP is a sum for each bucket, begun by hooks, waited for at the end.
# - `no_sync` pays for one exchange in place of one for each part (section 2).
# - ZeRO deals out Adam's averages, gradients, parameters: 16 bytes a parameter become 16 / p, for
#   half as much traffic again.
