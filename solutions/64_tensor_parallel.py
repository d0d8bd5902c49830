# %% [markdown]
# # 64 Tensor parallelism
#
# Partitioning a network between its layers, as in lab 62, does not help if a single layer is too
# large, and it leaves ranks idle. In large language models, a single matrix can have hundreds of
# millions of parameters. **Tensor parallelism** partitions each matrix among the ranks, so that all
# ranks work on the same layer at the same time. The ranks then have to add up their partial results
# within every layer, and the next computation waits for these sums. Whether this pays off depends
# on where the matrices are cut, and on how fast the links between the ranks are.
#
# In this lab we cut the layers of a small GPT (generative pre-trained transformer) by columns and
# by rows, write the pair of functions that makes the cut layers train, and train the model on
# Python's own source. Then we let a cost model choose a layout of tensor, pipeline and data
# parallelism for models like GPT-3, compare it with published measurements, and have PyTorch's
# DTensor do the same as our layers. An optional part finds out where the cost model loses time on
# small models, and tests the answer on measured steps that it has not seen.
#
# **After this lab you can** (1) cut a layer by columns and by rows, (2) write the pair of functions
# that makes cut layers train, (3) count what they send, (4) choose how many ranks to use for which
# kind of parallelism, and (5) have PyTorch's DTensor do the same, and prove that it does.
#
# ![An MLP on two ranks: both have all of x, each has half of the first matrix by columns and half of the second by rows; their partial sums are added by an allreduce](64_mlp.svg)
#
# *An MLP on two ranks. The first matrix is cut by columns and the second by rows, so that nothing
# is sent between them. One allreduce (g) adds the partial sums. In the backward pass, f adds up the
# gradients of x.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 70 · Level: advanced · Before: 21, 30, 62, 63

# %%
import numpy as np
import pandas
import torch
from labkit import check, hint, lab, launch, plots, predict, record
from labkit.sequence_parallel import Gather, Scatter
from support import lab64
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

lab.start("64_tensor_parallel")

# %% tags=["parameters"]
hidden = 64  # features of each position
heads = 4  # heads of the attention
layers = 2  # layers of the GPT
places = 64  # positions in a sequence: characters of a text
texts = 16  # sequences in a batch
steps = 120  # steps of each training run
read = 262_144  # characters of Python's source that are read
most = 3  # ranks on which f and g are tried, where no launcher says how many there are
patience = 20  # seconds after which a check calls a program stuck

# %% [markdown]
# ## 1. Two ways to cut a layer
# A layer computes `linear(x, weight, bias)`: each output feature is a weighted sum of all input
# features. PyTorch stores `weight` in the shape (output features, input features). It can be cut
# along either axis:
#
# | cut | a rank has | needs | computes |
# |---|---|---|---|
# | by **columns** | some of the output features: rows of PyTorch's `weight` | all of x | its part of y |
# | by **rows** | some of the input features: columns of `weight` | its part of x | a partial sum of all of y |
#
# (The names come from papers, which write y = xA. Their A is the transpose of PyTorch's `weight`,
# so their columns are its rows.) After a cut by rows, the partial sums of all ranks must be added
# up.
#
# Megatron-LM ([Shoeybi et al., 2019](@shoeybi2019)) combines both cuts. An **MLP** (multilayer
# perceptron) consists of two layers with a GELU, a smooth approximation of ReLU, in between. The
# first layer is cut by columns, and the second by rows:
#
#     x → [columns] → a part of the hidden activation → GELU → [rows] → a partial sum → allreduce → y
#
# The part of the hidden activation that a rank computes is exactly the input of its part of the
# second layer. Nothing has to be sent in between, and **one allreduce** is enough. GELU works on
# each number separately, so it can be applied to parts.
#
# ### Exercise 64.1 · Columns and rows
# Return this rank's part of a tensor: `column` cuts the first axis, and `row` the second. `column`
# is also used for the bias of a layer, which has only one axis. For example,
# `tensor.chunk(3, dim=1)` is a list of three equal parts along axis 1. 1 line each. *(beginner)*
#
# <details><summary>Hint 1: which part?</summary>
#
# Cut into `ranks` parts, and take number `rank` of the list.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `tensor.chunk(ranks, dim=0)[rank]` is the first function. The other one uses another axis.
# </details>


# %%
def column(tensor, rank, ranks):
    """This rank's part of a layer's weight or bias, cut by its output features."""
    ### BEGIN SOLUTION
    return tensor.chunk(ranks, dim=0)[rank]
    ### END SOLUTION


def row(tensor, rank, ranks):
    """This rank's part of a layer's weight, cut by its input features."""
    ### BEGIN SOLUTION
    return tensor.chunk(ranks, dim=1)[rank]
    ### END SOLUTION


# %%
check("64.1", column, row)

# %% [markdown]
# Why is the first layer not cut by rows and the second by columns?
# <details><summary>Answer</summary> Then the hidden activation would be a sum over the ranks, and
# the GELU of a sum is not the sum of GELUs. The partial sums would have to be added before the
# GELU, and in a GPT the hidden activation is four times as long as y. After the second layer, each
# rank would have its part of y, so an allgather would be needed instead of the allreduce.</details>
#
# ## 2. The pair f and g
# Training also needs the backward pass. Let **f** be the function before the cut layers, and **g**
# the function after them (Megatron-LM calls them a *conjugate pair*):
#
#     x → f → columns → GELU → rows → g → y
#
# *Forward pass*: every rank has all of x, so f has nothing to do. g adds up the partial sums.
#
# *Backward pass*: every rank has all of y and computes the same loss, so it also has the same
# gradient of y. The gradient of each term of a sum is the gradient of the sum, so g has nothing to
# do. But all ranks used x, and each rank only finds the effect of x through *its own* part.
# Therefore f adds up the gradients.
#
# | | forward pass | backward pass |
# |---|---|---|
# | f | nothing | allreduce |
# | g | allreduce | nothing |
#
# PyTorch does not know messages, so you have to tell it the backward pass of f and g. A
# `torch.autograd.Function` defines both directions. This one multiplies by a number:
#
#     class Scale(torch.autograd.Function):
#         @staticmethod
#         def forward(ctx, tensor, factor):
#             ctx.factor = factor                # kept for the backward pass
#             return factor * tensor
#
#         @staticmethod
#         def backward(ctx, gradient):           # of the output
#             return ctx.factor * gradient, None # of the input; of factor: none
#
# It is called as `Scale.apply(tensor, 3.0)`. `backward` returns one value for each argument of
# `forward`, and `None` for arguments that are not tensors. This function returns the sum over all
# ranks as a new tensor:


# %%
def added(comm, tensor):
    """The sum of this tensor over all ranks of `comm`, on every rank. The tensor itself stays as it
    is."""
    # Across ranks: by MPI in host memory, by NCCL where each rank has a GPU to itself.
    total = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    comm.Allreduce(tensor.detach().contiguous(), total)
    return total


# %% [markdown]
# ### Exercise 64.2 · f and g
# Write both directions of both functions. `comm` is the communicator, which has no gradient. 1 or 2
# lines each. *(intermediate)*
#
# <details><summary>Hint 1: f</summary>
#
# Forward: keep `comm` in `ctx`, and return the tensor unchanged. Backward:
# `added(ctx.comm, gradient)`, and None for `comm`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# g, forward: `return added(comm, tensor)`. g, backward: `return gradient, None`.
# </details>


# %%
class Copy(torch.autograd.Function):
    """f: returns a tensor as it is; the backward pass adds up the gradients of all ranks."""

    @staticmethod
    def forward(ctx, tensor, comm):
        ### BEGIN SOLUTION
        ctx.comm = comm
        return tensor
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        # Across ranks: what entered was used by all.
        return added(ctx.comm, gradient), None
        ### END SOLUTION


class Add(torch.autograd.Function):
    """g: the sum over all ranks; the backward pass returns the gradient as it is."""

    @staticmethod
    def forward(ctx, tensor, comm):
        ### BEGIN SOLUTION
        # Across ranks: the terms become the sum.
        return added(comm, tensor)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        return gradient, None
        ### END SOLUTION


f = Copy.apply
g = Add.apply

# %%
check("64.2", f, g)

# %% [markdown]
# ## 3. Attention, by heads
# A GPT reads a text and predicts for each position the next token, which here is a character. It is
# a stack of layers, each of which has an *attention* and an MLP ([Vaswani et al.,
# 2017](@vaswani2017)). In attention, every position uses information from itself and from earlier
# positions:
#
# - Three layers compute a *query*, a *key* and a *value* for each position.
# - A position takes a weighted mean of its own value and those of earlier positions, with large
#   weights where its query fits their key.
# - A last layer, `out`, mixes the result.
#
# This is done in several **heads**. Each head has some of the queries, keys and values, and does
# not use the others. Attention is therefore sharded by heads: each rank gets some whole heads. Then
# come `out`, cut by rows, and g.
#
# One matrix computes all queries, keys and values. For 4 heads it has these rows:
#
# | rows | head 0 | head 1 | head 2 | head 3 |
# |---|---|---|---|---|
# | first third: queries | q0 | q1 | q2 | q3 |
# | second third: keys | k0 | k1 | k2 | k3 |
# | last third: values | v0 | v1 | v2 | v3 |
#
# The rows are stored one after the other: q0, q1, … v3. Rank 0 of two ranks must get q0, q1, k0,
# k1, v0, v1.
#
# ### Exercise 64.3 · This rank's heads
# Return this rank's rows in that order, for any number of heads. `tensor` is the matrix, or its
# bias, which has one axis. `torch.cat([a, b])` joins tensors along the first axis. 1 or 2 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: thirds</summary>
#
# `tensor.chunk(3)` returns the queries, the keys and the values. A rank has the part of each of
# them that `column` returns.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `torch.cat([column(third, rank, ranks) for third in …])`
# </details>


# %%
def own_heads(tensor, rank, ranks):
    """This rank's rows of the matrix of queries, keys and values, or of its bias."""
    ### BEGIN SOLUTION
    return torch.cat([column(third, rank, ranks) for third in tensor.chunk(3)])
    ### END SOLUTION


# %%
check("64.3", own_heads)

# %% [markdown]
# ### The layer, put together
# The next cell combines your functions. Compare `mlp` with the diagram in section 2. The bias of a
# layer that is cut by rows is added **after** g. Why?
# <details><summary>Answer</summary> If it were added before g, each rank would add the bias to its
# partial sum, and the sum would contain it once for each rank.</details>


# %%
def cut(name, weight, bias, rank, ranks):
    """What this rank keeps of the matrix of that name."""
    if name == "qkv":
        return own_heads(weight, rank, ranks), own_heads(bias, rank, ranks)
    if name == "up":
        return column(weight, rank, ranks), column(bias, rank, ranks)
    return row(weight, rank, ranks), bias  # out, down


def mlp(comm, entering, up, down, f, g):
    middle = gelu(linear(f(entering, comm), *up))
    return g(linear(middle, down[0]), comm) + down[1]


def attention(comm, entering, qkv, out, size, f, g):
    """entering: (places, texts, hidden). size: numbers of a head."""
    thirds = linear(f(entering, comm), *qkv).chunk(3, dim=-1)
    by_head = [third.unflatten(-1, (-1, size)).permute(1, 2, 0, 3) for third in thirds]
    # (texts, own heads, places, size)
    mixed = scaled_dot_product_attention(*by_head, is_causal=True)
    together = mixed.permute(2, 0, 1, 3).flatten(2)
    return g(linear(together, out[0]), comm) + out[1]


# %% [markdown]
# ### Predict
# The tensors in f and g have the shape (positions, sequences, hidden), here 64 × 16 × 64 numbers of
# 4 bytes. A layer of the GPT has an attention block and an MLP, each with an f and a g.
#
# How many allreduces does *one* layer need in a step, in the forward and backward pass together?
# How many megabytes (10⁶ bytes) of data do they sum? And roughly which share of the layers'
# parameters does each of two ranks have?

# %%
predict("64.3", allreduces=..., megabytes=..., share=...)

# %% [markdown]
# ### Measure
# The GPT learns Python's own source, which are the files of its standard library: given 64
# characters, it predicts the next one at each position. It trains three times: in one process (with
# PyTorch's functions and without yours), on two ranks with your functions, and, as a control, on
# two ranks without f. Calls and bytes are counted, not timed. This takes about 30 s.
#
# If each rank has its own GPU, the GPT is trained there, and `comm` passes tensors to
# [NCCL](@nccl), NVIDIA's library for messages between GPUs. Otherwise tensors stay in host memory,
# and MPI sends them. Your functions are the same in both cases.


# %%
def nothing(tensor, comm):
    return tensor


size = min(launch.ranks_here(2), 2)
text = lab64.Text(read, places, texts)
sizes = lab64.Sizes(len(text.corpus.vocabulary), hidden, heads, layers, places)
pieces = lab64.Pieces(cut, attention, mlp, f, g)
ways = {f"{size} ranks": pieces, f"{size} ranks, without f": pieces._replace(f=nothing)}
results = launch.run(lab64.train_ways, ways, sizes, text, steps, ranks=size, threads=1)
whole = {"one process": lab64.whole}
trained = launch.run(lab64.train_ways, whole, sizes, text, steps, ranks=1, threads=1)[0]
trained = {way: [result] for way, result in trained.items()}
for way in ways:
    trained[way] = [of_rank[way] for of_rank in results]

# %%
one = trained["one process"][0]
got = trained[f"{size} ranks"][0]
table = {}
for way, results in trained.items():
    result = results[0]
    table[way] = {
        "last loss": result.losses[-1],
        "losses apart, at most": np.abs(np.subtract(result.losses, one.losses)).max(),
        "ranks apart, at most": max(other.drift for other in results),
        "allreduces per layer": result.calls.get("Allreduce", 0) / layers,
        "MB added per layer": result.added / layers / 1e6,
        "share of the layers": result.in_layers / one.in_layers,
        "share of the net": result.held / one.held,
    }
    measured = {"loss": result.losses[-1], "added": result.added, "trained_on": result.device}
    record.add("trained", ranks=len(results), way=way, **measured)
print("On rank 0's device:", {way: results[0].device for way, results in trained.items()})
print(pandas.DataFrame(table).map("{:.3g}".format))
ours = table[f"{size} ranks"]
predict.right(
    "64.3",
    allreduces=ours["allreduces per layer"],
    megabytes=ours["MB added per layer"],
    share=ours["share of the layers"],
)

# %%
count = np.bincount(text.corpus.tokens) / read
uniform = np.log(len(count))
frequencies = -np.sum(count * np.log(count))
plots.loss(
    {
        "one process": one.losses,
        f"{size} ranks": got.losses,
        "without f": trained[f"{size} ranks, without f"][0].losses,
        "unigram baseline: frequencies of the characters": [frequencies] * steps,
    },
    title="Two ranks learn Python as one process does",
)
print(
    f"Loss of a guess among all characters: {uniform:.2f}, of the frequencies alone:"
    f" {frequencies:.2f}"
)

# %% [markdown]
# **Explain.** *Losses apart* compares the loss of each step with that of one process. You should
# see that they are equal up to rounding, because terms are added in another order. The GPT learns
# more than the frequencies of the characters (the horizontal line, which is the unigram baseline).
# *Ranks apart* compares the values that all ranks have in full (norms, and everything outside of
# the layers). With f they stay equal.
#
# Without f the loss falls nearly as well, and nothing crashes. But every rank computes different
# updates, so values that should be equal differ, and this is not the network that you defined. Only
# the comparison shows it.
#
# *Share of the layers* is slightly more than a half, because norms and the biases after g are not
# cut. *Share of the net* is larger still, because this lab does not cut the layers that convert
# characters to numbers and back. (Megatron-LM cuts them by the entries of its vocabulary.)
#
# Data parallelism would instead add up the gradients, which are 12 hidden² numbers per layer,
# regardless of the texts. When does tensor parallelism have less data to add up?
# <details><summary>Answer</summary> Four allreduces of positions × sequences × hidden numbers are
# less than 12 hidden² if positions × sequences, which is the number of tokens in a step, is less
# than 3 hidden. Here 1,024 is more than 192. But the number of bytes is not all that matters. The
# allreduce of a gradient can overlap with the computation of other gradients (lab 32), while the
# next layer waits for each allreduce of f and g. Only the allreduce of f, in the backward pass, can
# overlap: with the gradients of the same layer's weights, as in Megatron-LM. Tensor parallelism
# therefore needs the fastest links.</details>
#
# ## 4. Sequence parallelism
# Between g and the next f every rank does the same arithmetic on the same numbers: norms, biases,
# additions. It also keeps all of these activations for the backward pass. **Sequence parallelism**
# ([Korthikanti et al., 2022](@korthikanti2022)) shards this part, too: each rank has some of the
# *positions* there.
#
# An allreduce is a reduce-scatter followed by an allgather (lab 21). So g becomes the first half,
# and the next f the second. In the backward pass each does the opposite:
#
#     g' forward:  sum, keep own positions    f' forward:  gather all positions
#     g' backward: gather all positions       f' backward: sum, keep own positions
#
# They are written like your pair, with `comm.Reduce_scatter_block` and `comm.Allgather`, in
# `labs/labkit/sequence_parallel.py`: `Gather` is f', and `Scatter` is g'.
#
# ### Measure
# We repeat the training with this pair. "MB sent" is the number of bytes that rings send: an
# allreduce sends 2 (p − 1) / p of its array, and each half sends (p − 1) / p (lab 23). "MB kept" is
# what the layers keep for the backward pass. This takes about 10 s.

# %%
dealt = pieces._replace(f=Gather.apply, g=Scatter.apply)
way = f"{size} ranks, by places"
results = launch.run(
    lab64.train_ways, {way: dealt}, sizes, text, steps, by_places=True, ranks=size, threads=1
)
by_places = [of_rank[way] for of_rank in results]
trained[way] = by_places
table = {}
for way, results in trained.items():
    result = results[0]
    table[way] = {
        "losses apart, at most": np.abs(np.subtract(result.losses, one.losses)).max(),
        "MB sent a layer": result.sent / layers / 1e6,
        "MB kept a layer": result.kept / layers / 1e6,
    }
    record.add("by places", ranks=len(results), way=way, sent=result.sent, kept=result.kept)
print(pandas.DataFrame(table).T.map("{:.3g}".format))
print("Calls in a step, by places:", by_places[0].calls)

# %% [markdown]
# **Explain.** You should see the same losses, the same number of bytes sent, and fewer bytes kept.
# It could be fewer still: the result of the allgather in f' is kept whole here, while Megatron-LM
# keeps the part, and gathers once more in the backward pass.
#
# One thing is new outside of the layers. Each rank now has only the loss of its own positions, so
# the gradients of the values that all ranks have in full must be added up. `lab64.train_ways` does
# this once per step, which is not in the table.
#
# ## 5. Three dimensions
# On a large machine, three kinds of parallelism are combined:
#
# | kind | partitions | sends | when |
# |---|---|---|---|
# | tensor | each layer | 6 allreduces per layer, see below | for each micro-batch, and all ranks wait |
# | pipeline | between layers (lab 63) | the output of a stage | for each micro-batch, and leaves a bubble |
# | data | the batch | the gradients, with an allreduce | once per step |
#
# A **layout** consists of three counts of ranks, whose product is the number of GPUs, and of
# `micro`, the number of sequences in a micro-batch. GPUs are numbered so that tensor ranks are
# neighbors, and those of data parallelism are `tensor` apart. (A *sequence* is one text, here with
# 2,048 positions.)
#
# The model is a GPT from [Narayanan et al. (2021)](@narayanan2021), table 1. They trained it on
# Selene, whose nodes have 8 A100 GPUs with NVLink inside, and one NIC (network interface card) of
# 200 Gb/s for each GPU. A model of the time of a step takes five statements:
#
# 1. A pipeline processes batch / (data · micro) micro-batches per step.
# 2. The arithmetic of one micro-batch is shared by tensor · pipeline GPUs.
# 3. A stage has layers / pipeline layers. Each layer makes 6 allreduces of 2 · micro · sequence ·
#    hidden bytes (16-bit numbers) over the tensor ranks: 4 as in your layer, and 2 because the
#    forward pass is computed twice, in order to keep less (lab 14).
# 4. Arithmetic and allreduces occur once for each micro-batch, and pipeline − 1 more times because
#    of the bubble.
# 5. At the end the gradients, 2 · parameters / (tensor · pipeline) bytes, are added up over the
#    data ranks.
#
# The model leaves out the messages between stages, which are small, and any overlap. The functions
# of `gpus` return seconds:
#
# | call | seconds of |
# |---|---|
# | `gpus.compute(net, sequences)` | all arithmetic of that many sequences on **one** GPU |
# | `gpus.allreduce(ranks, apart, nbytes)` | an allreduce over ranks, of which every `apart`-th GPU is one |
#
# The times of allreduces are computed by formulas for Selene's links, for a ring or a
# two-dimensional algorithm (lab 26), whichever is faster.
#
# ### Exercise 64.4 · Seconds of a step
# Write the model. `net.batch`, `net.layers`, `net.hidden`, `net.sequence`, `net.parameters` are
# numbers. For example, a batch of 32 sequences with data = 2 and micro = 4 makes 4 micro-batches in
# each pipeline. 6 to 8 lines. *(advanced)*
#
# <details><summary>Hint 1: one micro-batch</summary>
#
# `gpus.compute(net, micro) / (tensor * pipeline)`, plus `6 * net.layers / pipeline` times
# `gpus.allreduce(tensor, 1, nbytes)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `(count + pipeline - 1) * one + gpus.allreduce(data, tensor, …)`, where `count` is the number of
# micro-batches, and `one` is the time of one micro-batch.
# </details>


# %%
def step_seconds(net, layout, gpus):
    """Seconds of a training step of the net in this layout (tensor, pipeline, data, micro)."""
    tensor, pipeline, data, micro = layout
    ### BEGIN SOLUTION
    count = net.batch / (data * micro)
    nbytes = 2 * micro * net.sequence * net.hidden
    one = gpus.compute(net, micro) / (tensor * pipeline)
    one += 6 * net.layers / pipeline * gpus.allreduce(tensor, 1, nbytes)
    gradients = gpus.allreduce(data, tensor, 2 * net.parameters / (tensor * pipeline))
    return (count + pipeline - 1) * one + gradients
    ### END SOLUTION


# %%
check("64.4", step_seconds)

# %% [markdown]
# ### Predict
# Take a model with 162 billion parameters in 32 layers on 64 GPUs, with one data rank, so that
# tensor × pipeline = 64. The batch has 32 sequences. With few tensor ranks, the pipeline is long
# and its bubble large. Many tensor ranks are spread over several nodes. Which number of tensor
# ranks is fastest: 2, 4, 8, 16 or 32?
#
# Micro-batches have one sequence, so you can compute the bubble: (pipeline − 1) / micro-batches of
# the remaining time. The allreduces' time is a guess.

# %%
predict("64.4", tensor=...)

# %% [markdown]
# ### Compute
# One number is missing: the share of their peak flop/s that the GPUs reach. We take the
# share that fits five of the paper's ten models best, and predict the other five. The error of
# these predictions shows how far the model can be trusted.

# %%
nets = lab64.published()
gpus = lab64.fit(step_seconds, nets[::2])
off = {net.name: 100 * lab64.error(step_seconds, net, gpus) for net in nets}
unseen = [abs(off[net.name]) for net in nets[1::2]]
print(f"Fitted: the GPUs reach {gpus.share:.1%} of their peak in arithmetic.")
print(
    f"Predicted networks: off by {np.median(unseen):.0f} % in the middle, {max(unseen):.0f} % at worst"
)

# %%
net = lab64.Net("162.2", heads=128, hidden=20480, layers=32, batch=32, gpus=64)
bars = {}
totals = {}
for tensor in (2, 4, 8, 16, 32):
    layout = lab64.Layout(tensor, 64 // tensor, 1)
    totals[tensor] = step_seconds(net, layout, gpus)
    parts = lab64.parts_of_step(net, layout, gpus)._asdict()
    parts.pop("gradients")  # none: there is one data rank
    bars[f"{tensor} x {64 // tensor}"] = parts
plots.bars(bars, ylabel="seconds of a step", title="64 GPUs: tensor ranks x pipeline ranks")
print("Seconds of a step:", {tensor: round(seconds, 2) for tensor, seconds in totals.items()})
predict.right("64.4", tensor=min(totals, key=totals.get))
for count in (8, 16):
    print(
        f"An allreduce of 84 MB over {count} tensor ranks: {1e3 * gpus.allreduce(count, 1, 84e6):.2f} ms"
    )

# %% [markdown]
# **Explain.** From left to right in the plot, the pipeline becomes shorter, and so does the bubble.
# The time of the allreduces grows, most of all where a group of tensor ranks is larger than a node:
# the printed allreduce takes longer on 16 ranks than on 8, although each rank computes half as
# much. Eight ranks, which is the number of GPUs in a node, give the shortest time.
#
# Eight and sixteen differ by less than the error of the model, so the model alone could not decide
# between them. The paper measured exactly this model (figure 13), and came to the same conclusion
# as the plot: use tensor ranks up to the number of GPUs in a node, and pipeline ranks beyond.
#
# ### Choose
# For each model of the paper's table, the next cell tries all layouts that fit into 80 GB, with
# micro-batches of one sequence (20 bytes per parameter, and activations: `lab64.bytes_on_a_gpu`).
# It shows the paper's own layout, (tensor, pipeline, data), next to the best one. The model with
# 145.6 billion parameters is similar to GPT-3.

# %%
rows = []
for net in nets:
    tried = {layout: step_seconds(net, layout, gpus) for layout in lab64.layouts(net)}
    best = min(tried, key=tried.get)
    own = net.layout._replace(micro=1)
    near = [layout for layout, seconds in tried.items() if seconds < 1.1 * tried[best]]
    row_of_net = {
        "billions": net.name,
        "GPUs": net.gpus,
        "TFLOP/s": net.teraflops,
        "model off, %": round(off[net.name], 1),
        "paper": tuple(own)[:3],
        "best": tuple(best)[:3],
        "paper's time / best": round(tried[own] / tried[best], 2),
        "tensor, within 10 %": sorted({layout.tensor for layout in near}),
        "pipeline, too": sorted({layout.pipeline for layout in near}),
    }
    record.add("layout", net=net.name, layout=tuple(best)[:3], slower=tried[own] / tried[best])
    rows.append(row_of_net)
print(pandas.DataFrame(rows).set_index("billions").to_string())

# %% [markdown]
# **Explain.** From 76 billion parameters on, our cost model chooses 8 tensor ranks, like the paper,
# which is the number of GPUs in a node. The column "tensor, within 10 %" contains the numbers that
# are about as fast, within the error of the cost model: often 4, hardly ever 16.
#
# For models of 3.6 to 39 billion parameters it chooses fewer tensor ranks than the paper, whose
# layouts take up to 15 % longer. This is about its error, so it does not decide anything there. Nor
# does it decide about the number of stages, where the last column has several. The messages between
# stages, which we left out, favor fewer stages.
#
# Why is the cost model too fast for small models (plus in "model off") and too slow for large ones?
# There are two likely reasons, which nothing here distinguishes. It uses one share of the peak for
# all, although larger matrices compute more efficiently (lab 12). And the paper used interleaved
# schedules for most of its large models (lab 63), whose bubble is smaller. The optional part at the
# end of this lab follows the small models.
#
# This lab does not show time on your machine. Losses, calls and bytes come from real ranks, while
# seconds are computed and compared with those of the paper.
#
# ## 6. The same with PyTorch's DTensor
# In practice you would not write f and g by hand, because PyTorch can derive both. A
# [**DTensor**](@pytorch_dtensor) (distributed tensor) knows how it is distributed over the ranks,
# and each operation on it determines how the result is distributed and which messages this takes.
# The distribution is called its *placement*:
#
# | placement | a rank has | in this lab |
# |---|---|---|
# | `Shard(0)` | its part along the first axis | a weight cut by columns (`column`) |
# | `Shard(1)` | its part along the second axis | a weight cut by rows (`row`) |
# | `Replicate()` | everything | x, y, and the bias after g |
# | `Partial()` | a partial sum; the sum over the ranks is the tensor | y before g |
#
# A layer whose weight has the placement `Shard(1)` returns a `Partial()` result, and converting it
# to `Replicate()` is an allreduce, which is your g. For the layers of an ordinary module there are
# two predefined styles: `ColwiseParallel()` cuts a layer by columns, and `RowwiseParallel()` cuts
# it by rows and makes its result whole. `parallelize_module(module, mesh, plan)` replaces the
# weights of a module by DTensors. The *mesh* contains the ranks that take part, and the plan maps
# names of layers to styles:
#
#     mesh = init_device_mesh("cuda", (8,), mesh_dim_names=("tensor",))
#     parallelize_module(model, mesh, {"embedding": RowwiseParallel(), "head": ColwiseParallel()})
#
# `lab64.Separate` is an attention block and an MLP as one process would compute them. It differs
# from yours in one respect: queries, keys and values have separate layers, `q`, `k` and `v`,
# because `Shard(0)` of the single large matrix would split heads incorrectly, as in 64.3.
#
# ### Exercise 64.5 · A plan for DTensor
# Write the plan for its six layers, `q`, `k`, `v`, `out`, `up` and `down`, so that each is cut like
# yours. The check runs both on the same weights, and compares the output, the parts of each rank
# and every gradient. 6 lines. *(beginner)*
#
# <details><summary>Hint 1: which cut?</summary>
#
# The function `cut` above shows it: everything that uses `column` or `own_heads` is cut by columns.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `out` and `down` come before g, so they are `RowwiseParallel()`. All others are
# `ColwiseParallel()`.
# </details>


# %%
def plan_of_block():
    """The style in which each layer of lab64.Separate is cut: {name: style}."""
    ### BEGIN SOLUTION
    columns = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    rows = {name: RowwiseParallel() for name in ("out", "down")}
    return columns | rows
    ### END SOLUTION


# %%
check("64.5", plan_of_block)

# %% [markdown]
# ### Predict
# Your attention and your MLP together take four allreduces: one each for their f and g. DTensor
# cuts the same matrices in the same way, but it treats `q`, `k` and `v` as three layers. How many
# allreduces does it take in the forward pass, and how many in the backward pass?

# %%
predict("64.5", forward=..., back=...)  # two whole numbers

# %% [markdown]
# ### Measure
# Both compute one forward and one backward pass, with the sizes of the training above and the same
# weights. The communicator counts the calls that your layers make, and PyTorch's `CommDebugMode`
# counts those of DTensor. On CPUs DTensor uses Gloo, and on GPUs NCCL. This takes about 5 s.

# %%
beside = launch.run(
    lab64.beside_dtensor, plan_of_block(), pieces, sizes, texts, ranks=size, threads=1
)
apart = {
    what: max(float(np.abs(np.subtract(*of_rank.values[what])).max()) for of_rank in beside)
    for what in beside[0].values
}
calls = beside[0].calls
print(pandas.DataFrame(calls, index=["allreduces forward", "allreduces back"]))
print(
    f"Yours and DTensor's are apart by {max(apart.values()):.1e} at most, in {len(apart)} tensors"
)
record.add("dtensor", ranks=size, apart=max(apart.values()), calls=calls)
predict.right("64.5", forward=calls["DTensor"][0], back=calls["DTensor"][1])

# %% [markdown]
# **Explain.** Both keep the same parts and compute the same numbers, up to the order in which terms
# are added. DTensor is therefore not another kind of parallelism. It writes f and g for you.
#
# However, it sends more, because it treats every layer separately. Each of `q`, `k` and `v` has its
# own f, and each f adds up a gradient in the backward pass, while yours adds once for all three. In
# the forward pass both make two allreduces, one for each layer that is cut by rows. PyTorch can
# merge the three if the attention is a separate module: the style `PrepareModuleInput` converts the
# input of this module to one DTensor, so that the three gradients are first added on each rank. We
# tried it, and it reduced the allreduces in the attention's backward pass from three to one.
#
# ### What you take away
# - Cut by columns and then by rows. This takes one allreduce in the forward pass for an MLP and one
#   for an attention, and as many in the backward pass.
# - f and g are a pair: where one adds in the forward pass, the other adds in the backward pass.
#   Without f the network trains, but wrongly.
# - DTensor derives f and g from placements: `Shard(0)` is a cut by columns, and `Shard(1)` one by
#   rows.
# - The next layer waits for each allreduce, so keep tensor ranks inside a node, where links are
#   fast.
# - Sequence parallelism sends just as much but keeps less. (Megatron-LM sends a quarter more, to
#   keep even less.)
# - For a layout, use tensor ranks up to the size of a node. Then, as the paper advises, use
#   pipeline ranks until the model fits, and data ranks for the rest.
#
# ## Going further (optional): where small models lose time
# This part is for those who have time and takes about 25 minutes more.
#
# The cost model of section 5 was compared with ten large models. To see how far it can be trusted,
# we need many measured steps, also of small models. The largest open collection that we know
# belongs to [vTrain](@vtrain_code), a simulator of training ([Bang et al., 2024](@vtrain2024)):
# 1,440 steps on one node of 8 A100 GPUs, with 1,024 or 2,048 hidden features, and 109 on several
# nodes with 64 to 512 GPUs and up to 175 billion parameters. The kit contains every fifth of the
# first and every second of the last. `labs/support/lab64_vtrain/README.md` explains how to get all
# of them and gives their license. So far, no number of the cost model has been fitted to any of
# these steps.

# %%
one_node, several_nodes = lab64.vtrain()  # with vtrain("vTrain/data") after a git clone: all rows
table = []
for row_of_node in one_node:
    predicted = step_seconds(row_of_node.net, row_of_node.layout, gpus)
    about = {"hidden": row_of_node.net.hidden, **row_of_node.layout._asdict()}
    table.append({**about, "measured / predicted": row_of_node.seconds / predicted})
table = pandas.DataFrame(table)
for column_of_table in ("hidden", "micro", "tensor"):
    factors = table.groupby(column_of_table)["measured / predicted"].median().round(2)
    print(f"measured / predicted on one node, median, by {column_of_table}: {factors.to_dict()}")
for name, rows in (("one node", one_node), ("several nodes", several_nodes)):
    print(f"{name}: off by {lab64.misses(step_seconds, rows, gpus).mean():.0f} % in the mean")

# %% [markdown]
# **Explain.** On several nodes the error is moderate. On one node nearly every step takes longer
# than predicted, and the factor is largest where one GPU has little work: with fewer features, with
# micro-batches of one sequence, and with many tensor ranks. With 8 tensor ranks a step takes
# several times as long as predicted. So the model lacks something that does *not* shrink with the
# arithmetic.
#
# There are three candidates. Each has one number, which we do not know and will fit:
#
# 1. **Matrices.** As before, they reach some `share` of the peak.
# 2. **Bytes moved.** Softmax, dropout, GELU and normalization compute little for each byte, so the
#    memory's bandwidth limits them (lab 12). A layer has `lab64.bytes_of_layer(net, layout)` bytes
#    of activations on one GPU. Each byte is written and read several times in a step: the number of
#    `moves`.
# 3. **Launches.** The CPU launches every kernel of a layer, and this takes it `launches` seconds
#    for a layer and micro-batch, whatever the size of the matrices.
#
# The third one is not simply added. The CPU launches kernels ahead of the GPU, so only the
# **longer** of the two times matters, in each of three passes: the forward pass, the same again
# because activations are computed twice, and the backward pass. We assume that a forward pass has a
# quarter of the GPU's work and the backward pass has half of it, and that each pass has a third of
# the launches.
#
# | the GPU is busy for | launches take | forward, twice | backward | layer |
# |---|---|---|---|---|
# | 12 ms | 3 ms | 3 ms each: GPU | 6 ms: GPU | 12 ms |
# | 2 ms | 3 ms | 1 ms each: CPU | 1 ms: CPU | 3 ms |
# | 3 ms | 3 ms | 1 ms each: CPU | 1.5 ms: GPU | 3.5 ms |
#
# ### Exercise 64.6 · Seconds of a layer (optional)
# Return the seconds of one layer for one micro-batch on one GPU. The GPU is busy with its part of
# the matrices, with the bytes that it moves, and with the 6 allreduces of exercise 64.4. The
# functions of `gpus` return seconds:
#
# | call | seconds of |
# |---|---|
# | `gpus.multiply(net, sequences)` | a layer's matrices for that many sequences on **one** GPU |
# | `gpus.move(nbytes)` | moving so many bytes of activations, as often as a step does it |
# | `gpus.allreduce(ranks, apart, nbytes)` | an allreduce, as in exercise 64.4 |
# | `gpus.launches` | (a number) launching all kernels of a layer |
#
# 4 to 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: how long is the GPU busy?</summary>
#
# `gpus.multiply(net, layout.micro) / layout.tensor`, plus `gpus.move(…)`, plus 6 times
# `gpus.allreduce(layout.tensor, 1, nbytes)`. `bytes_of_layer` is already what one GPU has.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `return 2 * max(busy / 4, gpus.launches / 3) + max(…)`
# </details>


# %%
def layer_seconds(net, layout, gpus):
    """Seconds of a layer of this net for one micro-batch, in the layout (tensor, …, micro)."""
    ### BEGIN SOLUTION
    nbytes = 2 * layout.micro * net.sequence * net.hidden
    busy = gpus.multiply(net, layout.micro) / layout.tensor
    busy += gpus.move(lab64.bytes_of_layer(net, layout))
    busy += 6 * gpus.allreduce(layout.tensor, 1, nbytes)
    return 2 * max(busy / 4, gpus.launches / 3) + max(busy / 2, gpus.launches / 3)
    ### END SOLUTION


# %%
check("64.6", layer_seconds)

# %% [markdown]
# ### Predict
# We fit the three numbers to half of the kit's steps on one node, and predict the other half and
# all steps on several nodes. By how many percent will the predictions be off, on average?

# %%
predict("64.6", one_node=..., several_nodes=...)

# %% [markdown]
# ### Measure
# `lab64.step_of(layer_seconds)` is your model of a step. It differs in one more respect: the last
# stage also computes the scores of all tokens, and sets the pace of the pipeline, because a short
# network on four stages spends much of its time there. This adds no number.
#
# The controls are the cost model of section 5, this model with its share fitted to the rows to
# which yours is fitted, and your model without launches and without moves, each fitted again. This
# takes a few seconds.

# %%
every = len(one_node) // 144  # 144 rows are fitted, the same ones if you have all rows
fitted = one_node[::every]
unseen_rows = {
    "one node": [row for place, row in enumerate(one_node) if place % every],
    "several nodes": several_nodes,
}
models = {
    "section 5": (step_seconds, gpus),
    "section 5, fitted here": (step_seconds, lab64.fit_share(step_seconds, fitted)),
}
own = lab64.step_of(layer_seconds)
models["yours"] = (own, lab64.fit_three(layer_seconds, fitted))
for number in ("launches", "moves"):
    fewer = lab64.fit_three(layer_seconds, fitted, without=number)
    models[f"yours, no {number}"] = (own, fewer)
three = models["yours"][1]
print(f"Fitted: matrices reach {three.share:.0%} of the peak,")
print(f"each byte is moved {three.moves:.1f} times, launches take {1e3 * three.launches:.1f} ms")

errors = {}
table = []
for name, (model, machine) in models.items():
    for where, rows in unseen_rows.items():
        errors[name, where] = lab64.misses(model, rows, machine)
        mean = errors[name, where].mean()
        decile = lab64.worst_decile(errors[name, where])
        table.append({"model": name, "where": where, "mean": mean, "worst decile": decile})
        record.add("vtrain", model=name, where=where, mean=mean, decile=decile, rows=len(rows))
print("Error in % of the measured time, without sign, on rows that were not fitted:")
print(pandas.DataFrame(table).pivot(index="model", columns="where").round(1).to_string())
predict.compare(
    "64.6",
    one_node=errors["yours", "one node"].mean(),
    several_nodes=errors["yours", "several nodes"].mean(),
)

# %%
percent = np.arange(101)
curves = {
    f"{name}: {where}": (percent, np.percentile(errors[name, where], percent))
    for where in unseen_rows
    for name in ("section 5", "yours")
}
plots.lines(
    curves,
    xlabel="% of the unseen steps, the best ones first",
    ylabel="error at most, %",
    title="Launches and memory explain what small models lose",
)

# %% [markdown]
# **Explain.** With the kit's sample, the mean error on one node falls from 52 % to 8 %, and on
# several nodes from 13 % to 8 %, although no step on several nodes was fitted. With all of vTrain's
# rows we computed errors of 7.7 % (1,296 rows of one node that were not fitted) and 8.4 % (109 rows
# of several nodes). The errors of section 5's model are 51.5 and 14.0 %. For its own simulator,
# which measures every operation on a GPU first, vTrain's paper states 8.4 % on one node and 14.7 %
# on several.
#
# The controls show what matters. A better share does not help: fitted to one node, the model of
# section 5 is still off by 41 % there, and by 55 % on several nodes. Without launches, your model
# is off by 35 % on one node, while on several nodes hardly anything changes. Without the bytes, it
# is off by 10 % on one node, but by 22 % on several. Launches are therefore what small models lose,
# and the bytes make the numbers hold for large ones. With 3.6 ms of launches for each layer and
# micro-batch, a network of 24 layers cannot finish a micro-batch in less than 86 ms on one stage,
# whatever the number of tensor ranks.
#
# How far can this be trusted?
#
# - **The worst tenth** of the sample's steps is off by 22 % on one node and by 26 % on several (21
#   and 31 % with all rows). On one node, more than half of the steps with 8 tensor ranks are in it.
#   They take longer than predicted even where launches take most of the time. On several nodes, the
#   worst steps have micro-batches of 2 or 3 sequences, or 16 tensor ranks (whose allreduces leave
#   the node), or micro-batches of 64 sequences.
# - **The numbers are less certain than the predictions.** Fitted to ten other tenths of the
#   one-node rows, the mean errors stay between 7.7 and 8.1 % on one node and between 7.9 and 9.5 %
#   on several, but the share varies from 71 to 89 %, and the moves from 11 to 16. The numbers also
#   stand for more than their names say. 14 moves are probably more than the kernels of a layer
#   need. Attention's matrices, which are slow because they are thin, grow in the same way, so the
#   number may include them. And we used Selene's links, although vTrain's machine is a different
#   one.
# - **The rows were unseen, but the form was not.** Whoever wrote these formulas tried several, such
#   as one maximum for the whole layer, with both tables at hand (as in lab 52). The rows on several
#   nodes have other sizes than the fitted ones, which makes them the harder test. Rows on one node
#   are twins.
#
# vTrain's steps ran on a single kind of machine with one library. CUDA graphs, which launch many
# kernels with one call, or fused attention would change two of the three numbers.
#
# ### Further reading
# - [@shoeybi2019] The paper that introduced this way of cutting a transformer.
# - [@narayanan2021] How to combine tensor, pipeline and data parallelism on thousands of GPUs.
# - [@vtrain2024] The measured steps of the optional part, and a simulator that predicts them.
# - [@korthikanti2022] Sequence parallelism, and recomputing only some activations.
# - [@pytorch_dtensor] PyTorch's distributed tensors and their placements.
