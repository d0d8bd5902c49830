# %% [markdown]
# # 69 FSDP from the inside
#
# Fully Sharded Data Parallel (FSDP) trains networks that do not fit into one GPU, and from the
# outside it takes three lines (lab 60). When it runs out of memory or wastes half of the step on
# communication, however, you have to know what happens inside: when the parameters of a layer
# exist, who frees them, and which messages are sent while the GPU computes.
#
# In this lab we build FSDP for a stack of layers, compare its results with one device, prove its
# overlap of gathers and computation from a trace, and count its memory. For each layer you write
#
# - the *gather* of its parameters from all ranks before its use, and their *release* after it,
# - the *reduce-scatter* of its gradients, which leaves each rank a part of their sum, and
# - the *prefetch*, which launches the gather of the next layer before this layer computes.
#
# Two optional parts (about 13 minutes more) follow the recap.
#
# **After this lab you can** (1) shard the parameters of a layer over the ranks, gather them before
# use and release them after it, (2) reduce gradients into shards, (3) prefetch the next layer, (4)
# prove overlap and memory with a profiler, and (5, optional) compute a norm over shards and say
# what PyTorch's FSDP2 does differently.
#
# ![A forward pass of three layers on a time axis. Without prefetch, each gather is followed by its layer's computation. With prefetch, the gather of the next layer takes place while a layer computes, and the parameters of two layers are in memory](69_fsdp.svg)
#
# *The forward pass of three sharded layers. With prefetch the link and the processor work at the
# same time, and the full parameters of two layers are in memory instead of those of one.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 60 · Level: advanced · Before: 32, 60

# %%
import pandas
import torch
import torch.distributed as dist
from labkit import check, hint, lab, launch, own_folder, predict, record
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
# How can a layer have parameters that exist only while it computes? FSDP joins all parameters of
# the layer in one **flat tensor**. Each of *p* ranks keeps a **shard** of it, which is one of *p*
# consecutive parts of equal length. If *p* does not divide the length, the flat tensor is
# **padded** with zeros. For example, two ranks keep the numbers 1 to 5 as (1, 2, 3) and (4, 5, 0).
#
# (PyTorch's first FSDP works in this way. The `fully_shard` of lab 60 shards each parameter by
# itself, and gathers, releases and prefetches in the same way.)
#
# Before the layer is used, an *allgather* (lab 21) joins the shards of all ranks on every rank. In
# `torch.distributed`, the call with `async_op=True` only launches it and returns a handle:
#
#     work = dist.all_gather_into_tensor(full, shard, async_op=True)      # full: p × len(shard)
#     work.wait()                                                         # before full is used
#
# Between the two calls, the gather is *in flight*.
#
# The layer's parameters are *views* of the flat tensor, which means that they use its memory, and
# autograd keeps references to them for the backward pass. If we deleted the flat tensor after the
# layer's use, these views would still keep the memory.
#
# FSDP therefore empties the *storage*, the object that owns the memory of a tensor and of all its
# views. Its size can be changed:


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
# The shape survives although the memory is gone, and the view sees the new numbers.
#
# `lab69.Unit` prepares a layer in this way. (PyTorch calls parameters that are gathered together an
# *FSDP unit*. Here each layer is a unit.)
#
# | | what it is |
# |---|---|
# | `unit.layer` | the layer, whose parameters are views of `unit.full` |
# | `unit.full` | the flat tensor of all parameters, padded; its storage is empty at first |
# | `unit.shard` | this rank's shard, the parameter that the optimizer updates |
# | `unit.work` | the handle of a gather in flight, or `None` |
# | `unit.gathered` | true if `unit.full` has memory, also while its gather is in flight; you don't set it |
#
# `len(unit.full)` and `unit.full.nbytes` are known even while the storage is empty.
#
# ### Exercise 69.1 · Shard and gather
# Write three functions. *(intermediate)*
#
# - `shard_of` returns a copy of a rank's shard of a flat tensor, so that the other shards can be
#   freed. `pad(flat, (0, n))` appends *n* zeros. 2 lines.
# - `launch_gather` gives the storage of `unit.full` its memory, launches the gather into
#   `unit.full`, and keeps the handle. It gathers `unit.shard.detach()`, because autograd must not
#   record a collective. It does nothing if `unit.gathered`. 4 lines.
# - `wait` waits for a gather in flight, if there is one, with `unit.work.wait()`, and sets
#   `unit.work` to `None`. 3 lines.
#
# <details><summary>Hint 1: padding</summary>
#
# `-len(flat) % ranks` numbers are missing. Without `.clone()` a part is a view, which keeps the
# memory of all numbers.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `pad(flat, (0, -len(flat) % ranks)).chunk(ranks)[rank].clone()` is the shard. In `launch_gather`,
# return if `unit.gathered`. Then resize the storage as above, and give `unit.full` and
# `unit.shard.detach()` to the gather.
# </details>


# %%
def shard_of(flat, rank, ranks):
    """This rank's part of a flat tensor, in memory of its own. All ranks' parts have one length."""
    ### BEGIN SOLUTION
    padded = pad(flat, (0, -len(flat) % ranks))
    return padded.chunk(ranks)[rank].clone()
    ### END SOLUTION


def launch_gather(unit):
    """Launch the gather of the unit's parameters, unless they are there or on their way."""
    ### BEGIN SOLUTION
    if not unit.gathered:
        unit.full.untyped_storage().resize_(unit.full.nbytes)
        # Across ranks: all shards, one after the other.
        unit.work = dist.all_gather_into_tensor(unit.full, unit.shard.detach(), async_op=True)
    ### END SOLUTION


def wait(unit):
    """Wait until the unit's parameters are there, if their gather is in flight."""
    ### BEGIN SOLUTION
    if unit.work is not None:
        unit.work.wait()
        unit.work = None
    ### END SOLUTION


# %%
check("69.1", shard_of, launch_gather, wait)

# %% [markdown]
# ## 2. Before and after each layer
# FSDP registers *hooks*, functions that PyTorch calls at certain moments of a pass. `lab69.Sharded`
# does the same for a stack of layers, and calls two functions that you write:
#
# | moment | call |
# |---|---|
# | layer i is going to compute, in the forward pass | `before(units, i, 1)` |
# | layer i has computed its output | `after(units, i, 1)` |
# | the gradient of layer i's output is there, in the backward pass | `before(units, i, -1)` |
# | all gradients of layer i's parameters are there | `after(units, i, -1)` |
#
# The third argument is the direction, 1 in the forward pass and −1 in the backward pass. The layer
# that is used after layer i is layer i + direction. You need this only in section 4.
#
# Freeing the parameters between the two passes is called **resharding after forward**. It costs a
# second gather of each layer. (In practice the last layer is often kept, as the backward pass
# begins with it. Here it is released, too.)
#
# ### Exercise 69.2 · Gather before use, release after it
# `release` frees the memory of the unit's full parameters. `before` makes sure that the parameters
# of layer i are there, and `after` releases them. While a layer computes, no other layer's full
# parameters are in memory. 1 or 2 lines each. *(beginner)*
#
# For example, these are the calls for two layers:
#
#     forward     before(0)  layer 0 computes  after(0)  before(1)  layer 1 computes  after(1)
#     backward    before(1)  layer 1 computes  after(1)  before(0)  layer 0 computes  after(0)
#
# <details><summary>Hint 1: release</summary>
#
# As in the example of section 1, the storage is resized to 0. The tensor `unit.full` remains.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `before`: `launch_gather(units[i])`, then `wait(units[i])`. The direction does not matter yet.
# </details>


# %%
def release(unit):
    """Free the memory of the unit's full parameters. Its shard stays."""
    ### BEGIN SOLUTION
    unit.full.untyped_storage().resize_(0)
    ### END SOLUTION


def before(units, i, direction):
    """Layer i is going to compute: its parameters have to be there."""
    ### BEGIN SOLUTION
    launch_gather(units[i])
    wait(units[i])
    ### END SOLUTION


def after(units, i, direction):
    """Layer i has computed."""
    ### BEGIN SOLUTION
    release(units[i])
    ### END SOLUTION


# %%
check("69.2", release, before, after)

# %% [markdown]
# ## 3. Gradients
# After the backward pass of a layer, each rank has the full gradients of its own batch. A rank
# updates only its shard of the parameters, so it needs only this part of the average gradients.
#
# A *reduce-scatter* adds up the flat tensors of all ranks and leaves one part of the sum on each
# rank. The average is this sum divided by the number of ranks, `dist.get_world_size()`:
#
#     work = dist.reduce_scatter_tensor(part, flat, async_op=True)        # part: len(flat) / p
#     work.wait()                                                         # before part is used
#
# Here are four parameters on two ranks:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | gradients of its own batch | 1, 2, 3, 4 | 3, 4, 5, 6 |
# | after the reduce-scatter | 4, 6 | 8, 10 |
# | gradient of its shard, the average | 2, 3 | 4, 5 |
#
# Your `start(unit)` is called when all gradients of a layer are there. It launches the
# reduce-scatter and frees the full gradients, which would otherwise take the memory that we have
# just saved. Your `finish(unit, started)` gets what `start` returned, and is called one layer
# later. For three layers, the order in the backward pass is:
#
#     before(2)  layer 2 computes  after(2)             start(2)
#     before(1)  layer 1 computes  after(1)  finish(2)  start(1)
#     before(0)  layer 0 computes  after(0)  finish(1)  start(0)
#     the pass ends                          finish(0)
#
# So the collective of layer 2 can complete while layer 1 computes, and the full gradients of at
# most two layers exist.
#
# ### Exercise 69.3 · Reduce-scatter
# Write both functions. *(intermediate)*
#
# - `start` joins the gradients of `unit.layer.parameters()` in this order, and pads them to
#   `len(unit.full)`. It launches one reduce-scatter of the result, sets the `.grad` of each of
#   these parameters to `None`, and returns what `finish` needs. 7 lines.
# - `finish` only waits, and overwrites `unit.shard.grad` with the average over all ranks. (Don't
#   add to the old `unit.shard.grad`, which may be `None`.) 3 lines.
#
# <details><summary>Hint 1: start</summary>
#
# `torch.cat([weights.grad.flatten() for weights in unit.layer.parameters()])`, as in lab 60. The
# result of the reduce-scatter needs room: `torch.empty_like(unit.shard.detach())`. `finish` needs
# this tensor and the handle.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In `start`: join, `pad(flat, (0, len(unit.full) - len(flat)))`, free the gradients, make the room,
# and return it together with what `dist.reduce_scatter_tensor(part, flat, async_op=True)` returns.
# In `finish`: `part, work = started`, wait, and divide by `dist.get_world_size()`.
# </details>


# %%
def start(unit):
    """Launch the reduce-scatter of a layer's gradients, and free them. Returns what finish
    needs."""
    ### BEGIN SOLUTION
    parameters = list(unit.layer.parameters())
    flat = torch.cat([weights.grad.flatten() for weights in parameters])
    flat = pad(flat, (0, len(unit.full) - len(flat)))
    for weights in parameters:
        weights.grad = None
    part = torch.empty_like(unit.shard.detach())
    # Across ranks: the sum of the full gradients, each rank its part of it.
    return part, dist.reduce_scatter_tensor(part, flat, async_op=True)
    ### END SOLUTION


def finish(unit, started):
    """Wait for what start(unit) returned, and write the average into the shard's gradient."""
    ### BEGIN SOLUTION
    part, work = started
    work.wait()
    unit.shard.grad = part / dist.get_world_size()
    ### END SOLUTION


# %%
check("69.3", start, finish)

# %% [markdown]
# Why can the optimizer work on shards without any communication?
# <details><summary>Answer</summary>
#
# SGD and Adam treat each parameter separately, so the update of a shard needs only the gradients
# of that shard and, with Adam, its averages of them. An optimizer that uses whole matrices (Muon,
# Shampoo) or a norm of each layer (LARS, lab 34) would need communication.
# </details>
#
# ## 4. Prefetch
# So far, the processor is idle during each gather, and no gather uses the link while a layer
# computes. To **prefetch** means to launch the gather of the layer that is used next before the
# current layer computes, and to wait for it only when it is needed. The bottom half of the figure
# shows a forward pass. With three layers, these gathers are in flight:
#
# | while this layer computes | in the forward pass | in the backward pass |
# |---|---|---|
# | layer 0 | of layer 1 | none |
# | layer 1 | of layer 2 | of layer 0 |
# | layer 2 | none | of layer 1 |
#
# ### Exercise 69.4 · The next layer's gather
# `prefetch` replaces `before`. While layer i computes, its parameters are there, and the gather of
# the layer that is used next is in flight, but no other. The layer's own gather is launched first.
# 4 or 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: the ends of the stack</summary>
#
# The next layer is `i + direction`, if `0 <= i + direction < len(units)`. In Python `units[-1]` is
# the last unit. It would be gathered before the optimizer updates it, so the next forward pass
# would use old parameters.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Begin as in `before`: its `launch_gather` is for the first layer, which has not been prefetched,
# and its `wait` for all layers. Then `launch_gather(units[i + direction])`, if there is such a
# layer.
# </details>


# %%
def prefetch(units, i, direction):
    """Layer i is going to compute: its parameters have to be there, and the next ones on their
    way."""
    ### BEGIN SOLUTION
    launch_gather(units[i])
    wait(units[i])
    following = i + direction
    if 0 <= following < len(units):
        launch_gather(units[following])
    ### END SOLUTION


# %%
check("69.4", prefetch)

# %% [markdown]
# ## 5. Does it train like one device?
# The next cell trains the same network with SGD, from the same weights, in five ways:
#
# | row of the printed table | way of training |
# |---|---|
# | *one device* | with the batches of both ranks |
# | *DDP* | two ranks, distributed data parallel (lab 60) |
# | *yours* and *yours, prefetch* | two ranks, your functions without and with prefetch |
# | *yours, sums* | the control, which does not divide the sums by the number of ranks |
#
# The last column contains the largest distance from one device. This takes about 10 s.


# %%
def sums(unit, started):
    """In place of finish: sums, not averages."""
    finish(unit, started)
    unit.shard.grad *= dist.get_world_size()


parts = lab69.Parts(shard_of, before, after, start, finish)
ways = {lab69.DDP: None, "yours": parts, "yours, prefetch": parts._replace(before=prefetch)}
every = {lab69.ONE: None, **ways, "yours, sums": parts._replace(finish=sums)}
setting = lab69.Setting(width, layers, samples, steps, repeat)
job = {"ranks": ranks, "controller": "torch", "threads": 1, "timeout": 300}
losses = pandas.DataFrame(launch.run(lab69.train_ways, every, setting, **job)[0])
apart = losses.sub(losses[lab69.ONE], axis=0).abs().max()
table = {"first loss": losses.iloc[0], "last loss": losses.iloc[-1], "apart, at most": apart}
print(pandas.DataFrame(table).to_string(float_format="{:.6g}".format))

# %% [markdown]
# **Explain.** You should see that all ways but the control agree to about six digits, because
# 32-bit numbers are rounded after about seven, and the ways add them up in different orders.
#
# We train with SGD because Adam would hide the mistake of the control. Adam divides each gradient
# by its typical size, so sums would hardly change the losses.
#
# ## 6. Is the communication hidden?
# ### Predict
# Your network has 8 layers and 3.6 million parameters, and releases each layer after its forward
# pass. It trains with Adam on two ranks.
#
# - `gathers` and `reduce_scatters`: how many of each does a rank launch in one step?
# - `megabytes` (10⁶ bytes): how much does a rank keep between two steps for its parameters,
#   gradients and Adam's averages? (Lab 60 counts 16 bytes for each parameter, divided by *p*.)
#
# The predictions are kept under the number of exercise 69.4.

# %%
predict("69.4", gathers=..., reduce_scatters=..., megabytes=...)

# %% [markdown]
# ### Measure: a trace
# PyTorch's profiler records what this rank computes and its collectives in each step. (Lab 12 uses
# it, but you don't need that lab here.) The *hidden* time of a gather is the time between its
# launch and its completion in which this rank computes. (Any PyTorch operator counts as computing,
# also a copy.)
#
# The next cell prints the hidden share of the gathers' time, and the duration of a step. The
# control is your FSDP without prefetch. If a line says *do not quote*, don't compare the two
# durations.
#
# The plot shows a step without and a step with prefetch, each with a row for computation, one for
# gathers, and one for reduce-scatters. A gather is hidden while the *computes* row of the same step
# has a bar, too. Very short bars are drawn wider, so that you can see them. This takes about 20 s.

# %%
sharded = {name: ways[name] for name in ("yours", "yours, prefetch")}
traced = launch.run(lab69.trace_ways, sharded, setting, own_folder(), **job)[0]
for way, each in traced.items():
    print(f"{way}: {each.hidden:.0%} of the gathers' time hidden; a step takes {each.step}")
    record.add("traced", seconds=each.step, ranks=ranks, way=way, hidden=each.hidden, **each.calls)
print("The trace with prefetch:", traced["yours, prefetch"].file)
calls = traced["yours, prefetch"].calls
predict.right("69.4", gathers=calls["gathers"], reduce_scatters=calls["reduce-scatters"])
lab69.draw_traced(traced, title="What one rank computes and sends in a step")

# %% [markdown]
# **Explain.** Each layer is gathered twice, once for each pass, and its gradients are reduced once.
# Without prefetch none of the gathers is hidden, because `before` waits for each of them. With
# prefetch a part of their time is hidden, but not
#
# - the first gather of each pass, because no layer of this pass computes before it, and
# - the part of a gather's time that exceeds the computation time of the preceding layer. (The layer
#   at either end is so small that it hides hardly anything.)
#
# On the machine on which this lab was written (two ranks on two cores), 27 to 55 % of the gathers'
# time was hidden in four runs, the least while other programs were running.
#
# <details><summary>How can you look at the trace itself?</summary>
#
# `make trace FILE=…` opens the file of the trace in the viewer Perfetto. Gloo, the library that
# sends between CPUs, makes a reduce-scatter of an allreduce, so in the trace it is called
# `gloo:all_reduce`.
# </details>
#
# Hidden is not the same as free. If ranks share a processor's cores, moving the bytes takes time on
# a core that could be computing, so the step may get shorter by less than the hidden time, or not
# at all. On GPUs the collectives run at the same time as the computation, but they too take a share
# of the GPU's cores and memory bandwidth.
#
# ## 7. How much memory does it save?
# The next plot shows the bytes of one rank's tensors. The control is DDP, which keeps everything.
#
# - *Dashed line:* all tensors that exist between two steps.
# - *Curve:* these tensors, plus what the next step has allocated, minus what it has released, as
#   the same profiler records it.
#
# The forward pass, the backward pass and the update are drawn with the same width. This takes about
# 10 s.
#
# <details><summary>Why does the cell pause for 3 ms after each wait for a collective?</summary>
#
# Gloo's threads use tensors slightly longer than your program does, and the profiler does not see
# what they release. During the pause they finish.
# </details>

# %%
used = launch.run(lab69.memory_ways, ways, setting, **job)[0]
for way, memory in used.items():
    record.add("memory", ranks=ranks, way=way, between=memory.nbytes[0], peak=max(memory.nbytes))
predict.compare("69.4", megabytes=used["yours"].nbytes[0] / 1e6)
lab69.draw_memory(used, title="Memory of one rank's tensors in a step")

# %% [markdown]
# **Explain: between two steps.** A rank keeps these bytes for each parameter of the network:
#
# | | DDP | your functions |
# |---|---|---|
# | parameter | 4 | 4 / *p* |
# | gradient | 4 | 4 / *p* |
# | Adam's averages | 8 | 8 / *p* |
# | buckets (lab 60) | 0 with `gradient_as_bucket_view=True`, as here; otherwise 4 | 0 |
# | together | 16 | 16 / *p* |
#
# The batch adds 0.03 MB.
#
# Your curves begin below the dashed line, because `zero_grad` frees the gradients of the shards, a
# quarter of these bytes. With DDP, the gradients are views of the buckets, which stay.
#
# **Explain: the peak.** The peak of your functions is in the backward pass. At the highest peaks of
# our runs, these tensors of the size of a whole layer (2.36 MB) existed:
#
# | | without prefetch | with prefetch |
# |---|---|---|
# | moment | the gather of layer i has been launched | layer i computes |
# | full parameters | of layer i | of layers i and i − 1 |
# | Gloo's copy for the gather in flight | of layer i | of layer i − 1 |
# | full gradients | none | of layer i |
# | Gloo's copy for the reduce-scatter in flight | of layer i + 1 | of layer i + 1 |
# | together | 3 × 2.36 = 7.1 MB | 5 × 2.36 = 11.8 MB |
#
# So prefetch adds the parameters of layer i − 1, and because Gloo's copy of them exists while layer
# i computes, also the full gradients of layer i.
#
# The table is only an estimate. It leaves out activations and other smaller tensors, and our peaks
# with prefetch were higher by 2 to 4 MB, not by 4.7.
#
# However many layers there are, the full parameters and gradients of only a few exist together.
# With 4, 8 and 16 layers, our peak without prefetch was 7.0 MB above the dashed line. The dashed
# line itself rises with the number of layers, by 16 bytes for each parameter with DDP and by
# 16 / *p* with sharding.
#
# The largest *unit* limits FSDP, because its full parameters and gradients must fit into memory. If
# you call `fully_shard` only on the whole network, there is one unit. All parameters are then
# gathered at once, no computation can hide this gather, and all full gradients exist together.
#
# What happens with units that are very small?
# <details><summary>Answer</summary>
#
# Each gather has its overhead (lab 22), and short messages do not reach the bandwidth of the link.
# In practice a unit is one transformer block.
# </details>
#
# ### What you take away
# - FSDP gathers a layer's parameters before each use, and empties their storage after it, because
#   autograd keeps references to them.
# - A reduce-scatter leaves each rank with the sum of the gradients of its shard, so that the full
#   gradients of a layer can be freed at once.
# - To prefetch, launch the next gather, compute, and only then wait. This costs the memory of at
#   least one more layer.
# - A claim about overlap needs a trace, and one about memory needs a count of the tensors and a
#   record of allocations, each with a control.
#
# ## Going further (optional): the norm of sharded gradients (7 minutes)
# The **norm of the gradients**, √(g₁² + g₂² + …) over *all* parameters, is used to clip gradients
# and to notice that something is going wrong. In the table of section 3 it is √(4 + 9 + 16 + 25) =
# √54. Each rank has only two of these four numbers, so the norm needs communication.
#
# ### Exercise 69.5 · A norm over shards (optional)
# `norm` returns the norm of the averaged gradients of all units, the same on each rank, and leaves
# the gradients as they are. 3 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: what adds up?</summary>
#
# The norms of parts do not add up, but their squares do. `unit.shard.grad.square().sum()` is the
# square for one shard.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Add up the squares over the units, add up the result over the ranks with `dist.all_reduce`, and
# take the square root at the very end.
# </details>


# %%
def norm(units):
    """The norm of the averaged gradients of all units, on all ranks."""
    ### BEGIN SOLUTION
    total = sum(unit.shard.grad.square().sum() for unit in units)
    dist.all_reduce(total)
    return total.sqrt()
    ### END SOLUTION


# %%
check("69.5", norm)

# %% [markdown]
# ### Measure: what Adam hides
# The next cell trains again as in section 5, but with Adam, and takes the norm in each step. The
# columns contain the largest distances from one device. Those of the norms are divided by the norm
# on one device.

# %%
trained = launch.run(lab69.norm_ways, every, setting, norm, **job)[0]
losses, norms = (pandas.DataFrame({way: each[i] for way, each in trained.items()}) for i in (0, 1))
apart = {
    "losses apart, at most": losses.sub(losses[lab69.ONE], axis=0).abs().max(),
    "norms apart, relative": norms.div(norms[lab69.ONE], axis=0).sub(1).abs().max(),
}
print(pandas.DataFrame(apart).to_string(float_format="{:.2g}".format))

# %% [markdown]
# **Explain.** In our run the losses of the control differed from those of one device by at most
# 0.0003, so with Adam they hardly show the mistake. The control's norm is twice as large as that of
# one device, which is a relative distance of 1, whereas the norms of all other ways agree to about
# six digits. So a comparison of losses alone can miss a wrong scale, and a comparison of norms
# finds it.
#
# ## Going further (optional): what FSDP2 does differently (6 minutes)
# Your functions shard a layer as PyTorch's first FSDP, `FullyShardedDataParallel`, does. FSDP2,
# `fully_shard`, also gathers and releases unit by unit, but shards in another way:
#
# | | this lab, and the first FSDP | FSDP2 |
# |---|---|---|
# | what is sharded | the flat tensor of a unit | each parameter, by its first dimension |
# | what a rank keeps | a part of the flat tensor | a DTensor (lab 64) for each parameter |
# | the price | padding | copies, and padding if *p* does not divide the first dimension |
#
# A checkpoint of FSDP2 therefore contains parameters with their names and shapes, and frozen
# parameters do not interfere with trainable ones. The copies are made before and after each gather
# and before each reduce-scatter, as each sends the shards of several parameters together.
#
# The next cell repeats all measurements for FSDP2, which is `fully_shard` for each layer and for
# the whole network. This takes about 20 s.

# %%
theirs = {lab69.FSDP2: None}
again = launch.run(lab69.train_ways, {lab69.ONE: None, **theirs}, setting, **job)[0]
traced |= launch.run(lab69.trace_ways, theirs, setting, own_folder(), **job)[0]
used |= launch.run(lab69.memory_ways, theirs, setting, **job)[0]
apart = abs(pandas.Series(again[lab69.FSDP2]) - again[lab69.ONE]).max()
print(f"FSDP2: losses apart from one device, at most: {apart:.2g}")
rows = {}
for way in ("yours, prefetch", lab69.FSDP2):
    each, memory = traced[way], used[way].nbytes
    megabytes = {"MB between steps": memory[0] / 1e6, "MB at the peak": max(memory) / 1e6}
    rows[way] = {**each.calls, "hidden": f"{each.hidden:.0%}", **megabytes}
print(pandas.DataFrame(rows).T.to_string(float_format="{:.3g}".format))
each, memory = traced[lab69.FSDP2], used[lab69.FSDP2].nbytes
about = {"ranks": ranks, "way": lab69.FSDP2}
record.add("traced", seconds=each.step, hidden=each.hidden, **about, **each.calls)
record.add("memory", between=memory[0], peak=max(memory), **about)
lab69.draw_traced({lab69.FSDP2: each}, title="FSDP2: what one rank does in a step")

# %% [markdown]
# **Explain.** FSDP2 trains like one device, keeps as many bytes between steps, and launches as many
# collectives as your functions do, but on CPUs it hides nothing. By default it launches gathers
# without `async_op`, so that on a GPU only a stream, a queue of the GPU's work, waits for them. A
# CPU has no such streams, so the program itself waits.
#
# In the backward pass, FSDP2 finds the next layer from the order of the forward pass. It also has
# these settings:
#
# - `set_modules_to_forward_prefetch` and `set_modules_to_backward_prefetch` prefetch more than one
#   layer.
# - `reshard_after_forward=False` keeps the parameters after the forward pass. This saves the second
#   gather, but costs the memory of all parameters (stage 2 in lab 60).
#
# ### Further reading
# - [@zhao2023] FSDP with flat parameters, prefetching and its limits, by those who built it.
# - [@rajbhandari2020] ZeRO, whose stage 3 this lab builds.
# - [@pytorch_fsdp2] The documentation of `fully_shard`.
# - [@zhang2024] The same as ordinary PyTorch operations, which a compiler reorders.
# - [@liang2025] FSDP2 together with the other kinds of parallelism, for training Llama.
