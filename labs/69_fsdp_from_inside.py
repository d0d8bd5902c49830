# %% [markdown]
# <!-- Generated from solutions/69_fsdp_from_inside.py by `make labs`. Learners work on a copy in work/. -->
# # 69 FSDP from the inside
#
# Fully Sharded Data Parallel ([FSDP](../labs/GLOSSARY.md#FSDP)) trains networks that do not fit into one GPU, and from the
# outside it takes three lines ([lab 60](60_ddp_and_fsdp.ipynb)). When it runs out of memory or wastes half of the step in
# communication, however, you have to know what happens inside: when the parameters of a layer
# exist, who frees them, which messages are in flight while the GPU computes, and where a [gradient](../labs/GLOSSARY.md#gradient)
# is when the [backward pass](../labs/GLOSSARY.md#backward-pass) has left its layer.
#
# In this lab we build FSDP for a stack of layers: the gather before a layer's use, the release
# after it, the [reduce-scatter](../labs/GLOSSARY.md#reduce-scatter) of the gradients, and the prefetch. We check its losses and the norm
# of its gradients against one device, prove the overlap from a trace and the memory from the
# profiler's record of allocations, and compare all of this with PyTorch's own `fully_shard`.
#
# **After this lab you can** (1) shard the parameters of a layer, gather them before use and release
# them after it, (2) reduce gradients into shards, and compute their norm, (3) prefetch the next
# layer, (4) prove overlap and memory with a profiler, and (5) say what FSDP2 does differently.
#
# ![A forward pass of three layers on a time axis. Without prefetch, each gather is followed by its layer's computation. With prefetch, the gather of the next layer takes place while a layer computes, and the parameters of two layers are in memory](../notebooks/figures/69_fsdp.svg)
#
# *The [forward pass](../labs/GLOSSARY.md#forward-pass) of three sharded layers. With prefetch the link and the processor work at the
# same time, and the full parameters of two layers are in memory instead of those of one.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 75 · Level: advanced · Before: 32, 60

# %%
import pandas
import torch
import torch.distributed as dist
from labkit import check, hint, home, lab, launch, plots, predict, record
from support import lab69
from torch.nn.functional import pad

lab.start("69_fsdp_from_inside")
ranks = 2

# %% tags=["parameters"]
width = 768  # numbers between two layers
layers = 8  # a small first layer, six of width × width, and a small last one
samples = 128  # of each rank, in a step
steps = 5  # steps whose losses are compared
repeat = 6  # steps that are traced
patience = 60  # seconds after which a check calls a program stuck

# %% [markdown]
# ## 1. A flat tensor, and an empty storage
# [Lab 60](60_ddp_and_fsdp.ipynb) computes what [sharding](../labs/GLOSSARY.md#sharding) saves. To shard a layer, FSDP puts all its parameters into one
# **flat tensor**, and each [rank](../labs/GLOSSARY.md#rank) keeps a **shard**, which is one of *p* consecutive parts of equal
# length. Two [collectives](../labs/GLOSSARY.md#collective) ([lab 21](21_collectives.ipynb)) connect shards and full tensors. An *[allgather](../labs/GLOSSARY.md#allgather)* joins the shards
# of all ranks on every rank, and a *reduce-scatter* adds up full tensors and leaves one part of the
# sum on each rank. In `torch.distributed` they take flat tensors:
#
#     work = dist.all_gather_into_tensor(full, shard, async_op=True)        # full: p × len(shard)
#     work = dist.reduce_scatter_tensor(part, full, async_op=True)          # part: len(full) / p
#     work.wait()                                                #  before full, or part, is used
#
# (PyTorch 2.13 prefers the names `all_gather_single` and `reduce_scatter_single`, and may warn
# about these.) Both need parts of equal length, so a flat tensor whose length *p* does not divide
# is **padded** with zeros.
#
# The parameters of the layer are views of the flat tensor, and [autograd](../labs/GLOSSARY.md#autograd) keeps references to them
# for the backward pass. Deleting the flat tensor after the forward pass would therefore free
# nothing, so FSDP empties the storage below it. A tensor and all its views share one *storage*, the
# object that owns the memory, whose size can be changed:

# %%
full = torch.arange(6.0)
weight = full[:4].view(2, 2)  # a view, as a layer's parameter is one
storage = full.untyped_storage()
storage.resize_(0)  # the memory is freed; both tensors still exist; reading one now may crash
print(f"Released: {storage.nbytes()} bytes, the view has the shape {tuple(weight.shape)}")
storage.resize_(full.nbytes)  # new memory, with undefined content until it is filled
full.copy_(torch.arange(10.0, 16.0))
print(f"Filled again: {storage.nbytes()} bytes, the view contains {weight.tolist()}")


# %% [markdown]
# `lab69.Unit` prepares a layer like this. (PyTorch calls what is gathered together an *FSDP unit*.)
# A `unit` has
#
# - `unit.layer`, the layer, whose parameters are views of `unit.full`;
# - `unit.full`, the flat tensor for all (padded) parameters, whose storage is empty at first;
# - `unit.shard`, this rank's shard of them, a parameter of its own, which the optimizer updates
#   (collectives get `unit.shard.detach()`, because autograd must not record them);
# - `unit.work`, the handle of a gather that has been launched and not awaited, or `None`;
# - `unit.gathered`, which is true if the storage of `unit.full` has memory, even while its gather
#   is still in flight. You don't set it.
#
# ### Exercise 69.1 · Shard and gather
# `shard_of` returns a rank's shard of a flat tensor, in memory of its own, so that the rest can be
# freed. `launch_gather` gives the storage of `unit.full` its memory, launches the gather, and keeps
# its handle. It does nothing if the unit is gathered, or its gather is in flight. `wait` waits for
# the gather, if there is one. 2, 4 and 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: padding</summary>
#
# `pad(flat, (0, n))` appends *n* zeros. `-len(flat) % ranks` numbers are missing. Without
# `.clone()` a part is a view, which keeps the memory of all numbers.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `pad(flat, (0, -len(flat) % ranks)).chunk(ranks)[rank].clone()` is the shard. In `launch_gather`,
# return if `unit.gathered`. Then resize the storage as above, and give `unit.shard.detach()` to the
# gather. After waiting, set `unit.work` to `None`.
# </details>

# %%
def shard_of(flat, rank, ranks):
    """This rank's part of a flat tensor, in memory of its own. All ranks' parts have one length."""
    raise NotImplementedError("exercise 69.1: Shard and gather")


def launch_gather(unit):
    """Launch the gather of the unit's parameters, unless they are there or on their way."""
    raise NotImplementedError("exercise 69.1: Shard and gather")


def wait(unit):
    """Wait until the unit's parameters are there, if their gather is in flight."""
    raise NotImplementedError("exercise 69.1: Shard and gather")


# %%
# Asked: The shards of a flat tensor, of lengths that do not divide; then
# parameters that are gathered from them, on real ranks.
check("69.1", shard_of, launch_gather, wait)


# %% [markdown]
# ## 2. Before and after each layer
# FSDP registers *hooks*, which PyTorch calls at four moments for each unit. `lab69.Sharded` does
# the same for a stack of layers, and calls two functions of yours:
#
# | moment | call |
# |---|---|
# | layer i is going to compute, in the forward pass | `before(units, i, 1)` |
# | layer i has computed its output | `after(units, i, 1)` |
# | the gradient of layer i's output is there, in the backward pass | `before(units, i, -1)` |
# | all gradients of layer i's parameters are there | `after(units, i, -1)` |
#
# The third argument is the direction in which the pass goes through the stack: the layer that
# follows layer i has the number i + direction. To free the parameters between the two passes is
# called **resharding after forward**, and costs a second gather. Here even the last layer is
# released and gathered again at once, for simplicity. In practice it is often kept.
#
# ### Exercise 69.2 · Gather before use, release after it
# `release` frees the memory of the unit's full parameters. `before` makes sure that the parameters
# of layer i are there, and `after` releases them. 1 or 2 lines each. *(beginner)*
#
# <details><summary>Hint 1: release</summary>
#
# As in the example above: the storage is resized to 0. The tensor `unit.full` remains.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `before`: `launch_gather(units[i])`, then `wait(units[i])`. The direction does not matter yet.
# </details>

# %%
def release(unit):
    """Free the memory of the unit's full parameters. Its shard stays."""
    raise NotImplementedError("exercise 69.2: Gather before use, release after it")


def before(units, i, direction):
    """Layer i is going to compute: its parameters have to be there."""
    raise NotImplementedError("exercise 69.2: Gather before use, release after it")


def after(units, i, direction):
    """Layer i has computed."""
    raise NotImplementedError("exercise 69.2: Gather before use, release after it")


# %%
# Asked: A forward and a backward pass, twice. Where a layer computes, its own
# parameters are there, and no others; in the end none are.
check("69.2", release, before, after)


# %% [markdown]
# ## 3. Gradients
# After the backward pass of a layer each rank has the full gradients of its own batch. A rank
# updates only its shard, so it only needs the average of that part of the gradients. A
# reduce-scatter leaves the sum of it there. The full gradients must be freed, or they would add up
# to the memory that we have just saved.
#
# `lab69.Sharded` calls your `start(unit)` when all gradients of a layer are there. It calls
# `finish(unit, started)`, with the result of `start`, one layer later in the backward pass (for
# layer 0 at the end of the pass). The collective thus has the time of one layer to complete, and
# the full gradients of at most two layers exist.
#
# The **norm of the gradients**, which is used to clip gradients and to notice that something is
# going wrong, needs communication, too: it is √(g₁² + g₂² + …) over *all* parameters, of which a
# rank has only its shards.
#
# ### Exercise 69.3 · Reduce-scatter, and a norm
# `start` joins the gradients of `unit.layer.parameters()` in this order, pads them to the length of
# `unit.full`, launches the reduce-scatter, and sets each `weights.grad` to `None`. It returns what
# `finish` needs, which writes the average over all ranks into `unit.shard.grad`
# (`dist.get_world_size()` is their number). `norm` returns the norm of the averaged gradients of
# all units, the same on each rank. 7, 3 and 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: start</summary>
#
# `torch.cat([weights.grad.flatten() for weights in unit.layer.parameters()])`, as in lab 60. The
# result of the reduce-scatter needs room: `torch.empty_like(unit.shard)`, detached.
# </details>
# <details><summary>Hint 2: the norm</summary>
#
# Add up `unit.shard.grad.square().sum()` over the units, add up the result over the ranks with
# `dist.all_reduce`, and take the square root at the very end.
# </details>

# %%
def start(unit):
    """Launch the reduce-scatter of a layer's gradients, and free them. Returns what finish
    needs."""
    raise NotImplementedError("exercise 69.3: Reduce-scatter, and a norm")


def finish(unit, started):
    """Wait for what start(unit) returned, and write the average into the shard's gradient."""
    raise NotImplementedError("exercise 69.3: Reduce-scatter, and a norm")


def norm(units):
    """The norm of the averaged gradients of all units, on all ranks."""
    raise NotImplementedError("exercise 69.3: Reduce-scatter, and a norm")


# %%
# Asked: The averages over all ranks, each rank its shard of them; the full
# gradients freed; and the norm of all gradients, as one device has it.
check("69.3", start, finish, norm)


# %% [markdown]
# Why may the optimizer work on shards without any communication?
# <details><summary>Answer</summary> SGD and Adam treat each parameter separately, so the update of a shard needs only the gradients and averages of that shard. An optimizer that uses whole matrices (Muon, Shampoo) or a norm of each layer ([LARS](../labs/GLOSSARY.md#LARS), [lab 34](34_large_batch.ipynb)) would need communication.</details>
#
# ## 4. Prefetch
# So far, the processor is idle during each gather, and the link is idle while a layer computes. To
# **prefetch** means to launch the gather of the layer that is used next before the current layer
# computes, and to wait for it only when it is needed. The bottom half of the figure shows it.
#
# ### Exercise 69.4 · The next layer's gather
# `prefetch` replaces `before`: while layer i computes, the gather of the layer that is used next
# should be in flight, and no other. In the forward pass the next layer is i + 1, and in the
# backward pass it is i − 1. 4 or 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: the ends of the stack</summary>
#
# The next layer is `i + direction`, if `0 <= i + direction < len(units)`. In Python `units[-1]` is
# the last unit, and nobody would release it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Begin as in `before`: its `launch_gather` is for the first layer, which nobody has prefetched, and
# its `wait` for all layers. Then `launch_gather(units[i + direction])`, if there is such a layer.
# </details>

# %%
def prefetch(units, i, direction):
    """Layer i is going to compute: its parameters have to be there, and the next ones on their
    way."""
    raise NotImplementedError("exercise 69.4: The next layer's gather")


# %%
# Asked: While a layer computes, the gather of the layer that is used next is in
# flight, and no other.
check("69.4", prefetch)

# %% [markdown]
# ## 5. Does it train like one device?
# The next cell trains the same network in five ways, from the same weights: on one device with the
# batches of all ranks, and on two ranks with [DDP](../labs/GLOSSARY.md#DDP), with your functions with and without prefetch,
# and with FSDP2, which is `fully_shard` for each layer and for the whole network. The optimizer is
# Adam. The table compares losses and norms of the gradients with those of one device. This takes
# about 10 s.

# %%
parts = lab69.Parts(shard_of, before, after, start, finish)
ours = lab69.Ours(parts, parts._replace(before=prefetch), norm)
setting = lab69.Setting(width, layers, samples, steps, repeat)
job = {"ranks": ranks, "controller": "torch", "threads": 1, "timeout": 300}
trained = launch.run(lab69.train_ways, ours, setting, **job)[0]
losses = pandas.DataFrame({way: losses for way, (losses, _) in trained.items()})
norms = pandas.DataFrame({way: norms for way, (_, norms) in trained.items()})
apart = {
    "last loss": losses.iloc[-1],
    "losses apart, at most": losses.sub(losses["one device"], axis=0).abs().max(),
    "last norm": norms.iloc[-1],
    "norms apart, relative": norms.div(norms["one device"], axis=0).sub(1).abs().max(),
}
print(pandas.DataFrame(apart).to_string(float_format="{:.6g}".format))

# %% [markdown]
# **Explain.** You should see that all ways agree to about six digits, because 32-bit numbers are
# rounded after about seven, and the ways add them up in different orders. Equal losses alone prove
# little here: Adam divides each gradient by its own typical size, so sums instead of averages would
# hardly change the losses. The norm would be twice as large, which is why both are compared.
#
# ### Predict
# In FSDP, how many gathers and how many reduce-scatters does a step of a network with 8 layers
# need, if each layer is released after its forward pass? And how many megabytes (10⁶ bytes) does
# each of two ranks need for its parameters, gradients and Adam's averages, if the network has 3.6
# million parameters? [Lab 60](60_ddp_and_fsdp.ipynb) has the formula.

# %%
predict("69.4", gathers=..., reduce_scatters=..., megabytes=...)

# %% [markdown]
# ### Measure: a trace
# PyTorch's profiler ([lab 12](12_find_the_bottleneck.ipynb)) records the operators of this rank and the collectives of Gloo or [NCCL](../labs/GLOSSARY.md#NCCL)
# in each step. We count the collectives. Of the gathers we compute which share of their time, from
# launch to completion, lies under operators that compute. The control is the way without prefetch.
# Each way's trace is written to a file, which `make trace FILE=…` opens in the viewer Perfetto.
# This takes about 30 s.

# %%
traced = launch.run(lab69.trace_ways, ours, setting, home(), **job)[0]
rows = {}
for way, each in traced.items():
    timing = {"step, ms": 1e3 * each.step.median, "steady": each.step.steady}
    gathers = {"ms of gathers": 1e3 * each.gathers, "hidden": f"{each.hidden:.0%}"}
    rows[way] = {**each.calls, **gathers, **timing}
    record.add("traced", seconds=each.step, ranks=ranks, way=way, hidden=each.hidden, **each.calls)
print(pandas.DataFrame(rows).T.to_string(float_format="{:.0f}".format))
print("The trace with prefetch:", traced[lab69.AHEAD].file)
lanes = {
    f"{way}: {name}": intervals
    for way in (lab69.PLAIN, lab69.AHEAD, lab69.FSDP2)
    for name, intervals in traced[way].rows.items()
}
plots.lanes(lanes, title="What one rank computes and sends in a step")

# %% [markdown]
# **Explain.** Without prefetch none of the gathers is hidden, because `before` waits for each of
# them. With prefetch a part of their time lies under computation. The exceptions are the first
# gather of each pass, which nothing precedes, and the time by which a gather takes longer than the
# layer before it computes. On the machine on which this lab was written (two ranks on two cores),
# 27 to 55 % of the gathers' time was hidden in four runs, the smallest share while other programs
# were running. On a faster link, or with more `samples`, it is more.
#
# FSDP2 launches as many collectives as your functions do. On CPUs it hides nothing, however,
# because it leaves the waiting to streams of a GPU. As PyTorch's source shows (`unshard_async_op`),
# its gathers are launched without `async_op` by default, so that on a GPU only a stream waits for
# them, while the program goes on. A CPU has no such streams, and each gather blocks it. (The
# *[allreduces](../labs/GLOSSARY.md#allreduce)* are those of DDP's [buckets](../labs/GLOSSARY.md#bucket). Gloo itself makes a reduce-scatter from an allreduce, as
# the names in the trace show, and so sends more than necessary. NCCL has a reduce-scatter of its
# own.)
#
# Hidden is not the same as free. Where ranks share a processor's cores, as on a laptop, moving the
# bytes takes time on a core that could be computing, so a gather that is hidden takes longer, and
# so does the computation. The step therefore gets shorter by less than the hidden time, and if
# *steady* is False, do not compare the steps at all. On GPUs with NVLink or InfiniBand the copies
# hardly need the processor, and what is hidden is nearly all gained.
#
# ### Measure: memory
# The same profiler also records each allocation and each release. We count the bytes of one rank's
# parameters, gradients and Adam's averages between two steps, and add up what one more step
# allocates and releases: full parameters, gradients, [activations](../labs/GLOSSARY.md#activation), and the buffers of collectives.
# The control is DDP, which keeps everything. This takes about 15 s.

# %%
used = launch.run(lab69.memory_ways, ours, setting, **job)[0]
rows = {}
for way, memory in used.items():
    between, most = (nbytes / 1e6 for nbytes in (memory.nbytes[0], max(memory.nbytes)))
    rows[way] = {"MB between steps": between, "MB at the peak": most, "more": most - between}
    record.add("memory", ranks=ranks, way=way, between=memory.nbytes[0], peak=max(memory.nbytes))
print(pandas.DataFrame(rows).T.to_string(float_format="{:.1f}".format))
calls = traced[lab69.AHEAD].calls
predict.right(
    "69.4",
    gathers=calls["gathers"],
    reduce_scatters=calls["reduce-scatters"],
    megabytes=used[lab69.AHEAD].nbytes[0] / 1e6,
)
lab69.draw_memory(used, "Memory of one rank's tensors in a step")

# %% [markdown]
# **Explain.** Between two steps (dashed), a rank with your functions keeps 16 / *p* bytes for each
# parameter, as [lab 60](60_ddp_and_fsdp.ipynb) computes, and DDP 16. The curves show three more things:
# - *The start of a step* frees the gradients of the one before (`zero_grad`), a quarter of these
#   bytes, so the sharded curves fall from 28.8 to 21.6 MB at once. DDP's curve does not, because
#   its gradients are views of buckets, which stay allocated.
# - *The peak* contains the full parameters of one layer, the full gradients of one or two, the
#   copies that go into the reduce-scatter, and the activations.
# - *Prefetch* adds the parameters of one more layer (up to 2.4 MB here, and the profiler may show
#   some MB more).
#
# What the step adds does not depend on the number of layers, apart from the activations, whereas
# DDP's bytes all do. So the deeper the network, the more sharding saves. (The profiler does not see
# what the threads of Gloo release until the memory is used again, so the peaks may be a few MB too
# high, and differ from run to run.)
#
# The largest *layer* limits FSDP, because its full parameters and gradients must fit. Therefore
# units should be neither too large nor too small: `fully_shard` on the whole network alone makes
# one unit, whose gather nothing can hide, and which keeps the full parameters and gradients of the
# whole network at the peak, when only Adam's averages are sharded. What happens with units that are
# very small?
# <details><summary>Answer</summary> Each gather has its overhead ([lab 22](22_latency_and_bandwidth.ipynb)), and short messages do not reach the [bandwidth](../labs/GLOSSARY.md#bandwidth) of the link. In practice a unit is one transformer block.</details>
#
# ## 6. What FSDP2 does differently
# PyTorch's first FSDP, `FullyShardedDataParallel`, had flat tensors like ours. FSDP2,
# `fully_shard`, cuts each parameter by its first dimension instead, and keeps the shards as
# [DTensors](../labs/GLOSSARY.md#DTensor) ([lab 64](64_tensor_parallel.ipynb)). A [checkpoint](../labs/GLOSSARY.md#checkpoint) then contains parameters with their names and shapes, and frozen
# parameters or several data types do not interfere with each other. The price is a copy before and
# after each collective, because the shards of several parameters have to be sent together. In its
# plot you may see these copies as additional computation.
#
# On GPUs both use several CUDA streams: collectives run on streams of their own, and events make
# sure that nothing is read too early or freed too early. The order of launches decides what
# overlaps, as it does in your `prefetch`. In the backward pass, FSDP2 finds the next layer from the
# order of the forward pass, and `set_modules_to_forward_prefetch` and
# `set_modules_to_backward_prefetch` prefetch more than one layer. With
# `reshard_after_forward=False` the second half of the gathers is saved for the memory of all
# parameters (stage 2 in [lab 60](60_ddp_and_fsdp.ipynb)).
#
# ### What you take away
# - FSDP gathers a layer's parameters before each use, and empties their storage after it, so that
#   autograd's references survive.
# - A reduce-scatter leaves each rank with the average gradients of its shard. Norms need one more
#   allreduce, of squares.
# - Prefetch is an order: launch the next gather, compute, and only then wait. It costs the memory
#   of one more layer.
# - A claim about overlap needs a trace, and one about memory needs a record of allocations, each
#   with a control.
#
# ### Further reading
# - Y. Zhao et al., *[PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel](https://arxiv.org/abs/2304.11277)*, VLDB, 2023. FSDP with flat parameters, prefetching and its limits, by those who built it.
# - S. Rajbhandari, J. Rasley, O. Ruwase and Y. He, *[ZeRO: Memory Optimizations Toward Training Trillion Parameter Models](https://arxiv.org/abs/1910.02054)*, SC, 2020. [ZeRO](../labs/GLOSSARY.md#ZeRO), whose stage 3 this lab builds.
# - [PyTorch: fully_shard (FSDP2)](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html). The documentation of `fully_shard`.
# - R. Zhang et al., *[SimpleFSDP: Simpler Fully Sharded Data Parallel with torch.compile](https://arxiv.org/abs/2411.00284)*, arXiv, 2024. The same as ordinary PyTorch operations, which a compiler reorders.
# - W. Liang et al., *[TorchTitan: One-stop PyTorch native solution for production ready LLM pre-training](https://arxiv.org/abs/2410.06511)*, ICLR, 2025. FSDP2 together with the other kinds of parallelism, for training Llama.
