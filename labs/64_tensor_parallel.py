# %% [markdown]
# <!-- Generated from solutions/64_tensor_parallel.py by `make labs`. Learners work on a copy in work/. -->
# # 64 Tensor parallelism
#
# Partitioning a network between its layers, as in [lab 62](62_model_parallel.ipynb), leaves [ranks](../labs/GLOSSARY.md#rank) idle. It also does not help
# if a single layer is too large for one rank, and in large language models a single matrix can have
# hundreds of millions of parameters.
#
# **Tensor parallelism** partitions each matrix among the ranks, so all ranks work on the same layer
# at the same time. The ranks then have to add up their partial results within every layer, and the
# next computation waits for these sums. Whether this pays off depends on where the matrices are cut
# and on how fast the links between the ranks are.
#
# In this lab we cut the layers of a small GPT (generative pre-trained transformer) by columns and
# by rows, write the pair of functions that makes the cut layers trainable, and train the model on
# Python's own source code. Then a cost model chooses a layout of tensor, pipeline and data
# parallelism for models like GPT-3, and we compare it with published measurements. Three optional
# parts (about 47 minutes more) follow the recap.
#
# **After this lab you can** (1) cut a layer by columns and by rows, (2) write the pair of functions
# that makes cut layers trainable, (3) count the [allreduces](../labs/GLOSSARY.md#allreduce) and bytes that these layers need, (4)
# choose how many ranks to use for each kind of parallelism, and (5, in an optional part) have
# PyTorch's DTensor shard the same layers and show that its results agree with yours.
#
# ![An MLP on two ranks: both have all of x, and each has half of the columns of the first matrix and half of the rows of the second; an allreduce adds up their partial sums](../notebooks/figures/64_mlp.svg)
#
# *Two layers (an MLP) on two ranks. The first matrix is cut by columns and the second by rows, so
# nothing is sent between the layers. One allreduce, in the function g, adds up the partial sums. In
# the [backward pass](../labs/GLOSSARY.md#backward-pass), an allreduce in the function f adds up the [gradients](../labs/GLOSSARY.md#gradient) of x.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 60 · Level: advanced · Before: 21, 30, 62, 63

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
# A layer computes `linear(x, weight, bias)`, so each output feature is a weighted sum of all input
# features. PyTorch stores `weight` with the shape (output features, input features). This matrix
# can be cut along either axis:
#
# | cut | a rank has | needs | computes |
# |---|---|---|---|
# | by **columns** | some of the output features: rows of PyTorch's `weight` | all of x | its part of y |
# | by **rows** | some of the input features: columns of `weight` | its part of x | a partial sum of all of y |
#
# (The names come from papers that write y = xA. The matrix A is the transpose of the `weight` in
# PyTorch, so its columns are the rows of `weight`.)
#
# For example, take the `weight` [[1, 2], [3, 4]] and x = (10, 1), so that y = (12, 34). On two
# ranks:
#
# | cut | rank 0 has | and computes | rank 1 has | and computes |
# |---|---|---|---|---|
# | by columns | [[1, 2]] and x | 12 | [[3, 4]] and x | 34 |
# | by rows | [[1], [3]] and 10 | (10, 30) | [[2], [4]] and 1 | (2, 4) |
#
# After the cut by rows, the partial sums (10, 30) and (2, 4) must be added up.
#
# Megatron-LM ([Shoeybi et al., 2019](https://arxiv.org/abs/1909.08053)) combines both cuts in an **MLP** (multilayer
# perceptron), which consists of two layers with a GELU (a smooth approximation of ReLU) between
# them. The first layer is cut by columns and the second by rows. We call the numbers between the
# layers the *middle [activation](../labs/GLOSSARY.md#activation)*:
#
#     x → [columns] → a part of the middle activation → GELU → [rows] → a partial sum → allreduce → y
#
# GELU is applied to each number separately, so each rank can apply it to its own part of the middle
# activation. This part is exactly the input that the rank's part of the second layer needs. Nothing
# has to be sent between the layers, so **one allreduce** is enough.
#
# ### Exercise 64.1 · Columns and rows
# Write two functions that return this rank's part of a tensor. `column` cuts along the first axis,
# also for a layer's bias, which has only one axis. `row` cuts along the second axis. For example,
# `tensor.chunk(3, dim=1)` returns three equal parts along the second axis. 1 line each.
# *(beginner)*
#
# <details><summary>Hint 1: which part?</summary>
#
# Cut the tensor into `ranks` parts, and return part number `rank`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `column` returns `tensor.chunk(ranks, dim=0)[rank]`, and `row` uses the other axis.
# </details>

# %%
def column(tensor, rank, ranks):
    """This rank's part of a layer's weight or bias, cut by its output features."""
    raise NotImplementedError("exercise 64.1: Columns and rows")


def row(tensor, rank, ranks):
    """This rank's part of a layer's weight, cut by its input features."""
    raise NotImplementedError("exercise 64.1: Columns and rows")


# %%
# Asked: The right part for every rank, of weights and of a bias, on 1 to 4
# ranks.
check("64.1", column, row)


# %% [markdown]
# Why don't we cut the first layer by rows and the second by columns?
# <details><summary>Answer</summary>
#
# Then the middle activation would be a sum over the ranks, and the GELU of a sum is not the sum of
# the GELUs. The partial sums would have to be added up before the GELU, and in a GPT the middle
# activation is four times as large as y. After the second layer, each rank would have only its own
# part of y.
# </details>
#
# ## 2. The pair f and g
# Training also needs a backward pass. Let **f** be the function before the cut layers and **g** the
# function after them (Megatron-LM calls them a *conjugate pair*):
#
#     x → f → columns → GELU → rows → g → y
#
# In the two passes, f and g do the following:
#
# - *[Forward pass](../labs/GLOSSARY.md#forward-pass).* Every rank has all of x, so f has nothing to do. Then g adds up the partial
#   sums.
# - *Backward pass of g.* If y = a + b, the gradient of a is that of y, and so is the gradient of b.
#   All ranks already have the gradient of y, because they compute the same [loss](../labs/GLOSSARY.md#loss), so nothing is
#   sent.
# - *Backward pass of f.* Every rank used x, but has only the part of the gradient of x that comes
#   through *its own* part of the layers. Therefore f adds up these parts.
#
# | | forward pass | backward pass |
# |---|---|---|
# | f | nothing | allreduce |
# | g | allreduce | nothing |
#
# PyTorch does not see the messages that we send ourselves, so you have to define both passes of f
# and g, each as a `torch.autograd.Function`. The following example multiplies a tensor by a number:
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
# `forward`, and it returns `None` for arguments that are not tensors.
#
# For the sums in f and g, use the next function. It returns the sum over all ranks as a new tensor:

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
# Write the forward and backward passes of f (the class `Copy`) and of g (the class `Add`). `comm`
# is the [communicator](../labs/GLOSSARY.md#communicator), which has no gradient and may differ between calls. Every result has the data
# type (`dtype`) of the given tensor. 1 or 2 lines each. *(intermediate)*
#
# <details><summary>Hint 1: f</summary>
#
# Forward: keep `comm` in `ctx`, and return the tensor unchanged. Backward: return
# `added(ctx.comm, gradient)` for the tensor and `None` for `comm`.
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
        raise NotImplementedError("exercise 64.2: f and g")

    @staticmethod
    def backward(ctx, gradient):
        raise NotImplementedError("exercise 64.2: f and g")


class Add(torch.autograd.Function):
    """g: the sum over all ranks; the backward pass returns the gradient as it is."""

    @staticmethod
    def forward(ctx, tensor, comm):
        raise NotImplementedError("exercise 64.2: f and g")

    @staticmethod
    def backward(ctx, gradient):
        raise NotImplementedError("exercise 64.2: f and g")


f = Copy.apply
g = Add.apply

# %%
# Asked: Sums where the table has them, own values elsewhere, for every size of
# a group of ranks.
check("64.2", f, g)


# %% [markdown]
# ## 3. Attention, by heads
# At each position of a text, a GPT predicts the next token, which in this lab is a character. A GPT
# is a stack of *GPT layers*, each of which has an *attention* block and an MLP ([Vaswani et al.,
# 2017](https://arxiv.org/abs/1706.03762)).
#
# In attention, every position uses information from itself and from earlier positions:
#
# - A *query*, a *key* and a *value* are computed for each position.
# - Each position computes a weighted mean of its own value and the values of earlier positions,
#   with large weights where its query matches their keys.
# - A final layer, `out`, mixes the features of the result.
#
# Attention is computed in several **heads**, each of which uses only its own part of the queries,
# keys and values. Attention is therefore sharded by head, and each rank gets a whole number of
# heads. The heads are followed by `out`, which is cut by rows, and by g.
#
# A single matrix computes all queries, keys and values. For 4 heads, it has these rows, where q0
# are the rows for the queries of head 0:
#
# | rows | head 0 | head 1 | head 2 | head 3 |
# |---|---|---|---|---|
# | first third: queries | q0 | q1 | q2 | q3 |
# | second third: keys | k0 | k1 | k2 | k3 |
# | last third: values | v0 | v1 | v2 | v3 |
#
# The rows are stored in the order q0, q1, …, v3. With two ranks, rank 0 must get q0, q1, k0, k1, v0
# and v1.
#
# ### Exercise 64.3 · This rank's heads
# Return this rank's rows in that order for any number of heads. `tensor` is either the matrix or
# its bias, which has only one axis. `torch.cat([a, b])` joins tensors along the first axis. 1 or 2
# lines. *(intermediate)*
#
# <details><summary>Hint 1: thirds</summary>
#
# `tensor.chunk(3)` returns the queries, the keys and the values. A rank has the part of each third
# that `column` returns.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `torch.cat([column(third, rank, ranks) for third in …])`
# </details>

# %%
def own_heads(tensor, rank, ranks):
    """This rank's rows of the matrix of queries, keys and values, or of its bias."""
    raise NotImplementedError("exercise 64.3: This rank's heads")


# %%
# Asked: Own queries, then keys, then values, for a matrix and for its bias.
check("64.3", own_heads)


# %% [markdown]
# ### The layer, put together
# The next cell combines your functions. It calls the matrix of queries, keys and values `qkv`, and
# the two matrices of an MLP `up` and `down`.

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
# Compare `mlp` with the diagram in section 2. Why is the bias of a layer that is cut by rows added
# **after** g?
# <details><summary>Answer</summary>
#
# If the bias were added before g, each rank would add it to its own partial sum, and the total
# would contain the bias once for each rank.
# </details>
#
# ### Predict
# The tensors that f and g receive have the shape (positions, sequences, hidden), which here is 64 ×
# 16 × 64. Each number has 4 bytes. A layer of the GPT has an attention block and an MLP, each with
# an f and a g. For *one* such layer:
#
# - `allreduces`: how many allreduces does a step need, counting the forward and backward passes?
# - `megabytes`: how many megabytes (10⁶ bytes) of data do these allreduces sum? (Each array is
#   counted once, not once per rank.)
# - `share`: roughly what share of the layer's parameters does each of two ranks have?

# %%
predict("64.3", allreduces=..., megabytes=..., share=...)


# %% [markdown]
# ### Measure
# The GPT learns Python's own source code, that is, the files of its standard library. Given 64
# characters, it predicts the next character at each position. We train it three times:
#
# - in one process, with the functions of PyTorch instead of your pair,
# - on two ranks with your functions,
# - on two ranks without f, as a control.
#
# The table has a column for each of the three, with losses, calls and bytes but no times. This
# takes about 30 s.
#
# If each rank has its own GPU, the GPT is trained there, and [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html), NVIDIA's library for
# messages between GPUs, sends the tensors. Otherwise [MPI](../labs/GLOSSARY.md#MPI) sends them from host memory.

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

# %% [markdown]
# **Explain.** The rows of the table show the following:
#
# - *Losses apart* compares each step's loss with that of one process. With your functions, you
#   should see the same losses except for rounding, since terms are added in a different order.
# - *Ranks apart* compares the parameters that all ranks have in full, such as norms (normalization
#   layers) and everything outside the GPT layers. With f, they stay equal. Without f, the ranks
#   compute different updates, so parameters that should be equal differ, and this is not the
#   network that you defined.
# - *Allreduces per layer* counts one for each g in the forward pass and one for each f in the
#   backward pass. With your functions these are 4, and *MB added per layer* is four times 0.26 MB.
# - *Share of the layers* is slightly more than one half because norms and the biases after g are
#   not cut. *Share of the net* is larger still, because this lab does not cut the layers that
#   convert characters to numbers and back.

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
# **Explain.** The losses of one process and of your two ranks fall below the horizontal line (the
# unigram baseline), so the GPT learns more than the frequencies of the characters. Without f, the
# loss falls about as far, and nothing crashes. The plot alone does not reveal the mistake.
#
# [Data parallelism](../labs/GLOSSARY.md#data-parallelism) adds up the gradients of all parameters. Regardless of the number of tokens,
# these are 12 hidden² numbers per layer: 3 hidden² for queries, keys and values, hidden² for the
# output of attention, and 4 hidden² for each matrix of the MLP. When does tensor parallelism add up
# less data?
# <details><summary>Answer</summary>
#
# Four allreduces add up 4 · tokens · hidden numbers, where the tokens of a step are positions ·
# sequences. This is less than 12 hidden² if there are fewer than 3 · hidden tokens. Here there are
# 1,024 tokens, and 3 · hidden is only 192.
#
# However, the number of bytes is not all that matters. The allreduce of one gradient can overlap
# with the computation of other gradients ([lab 32](32_buckets_and_overlap.ipynb)), while the next layer waits for each allreduce of
# g. Tensor parallelism therefore needs the fastest links.
# </details>
#
# ## 4. Three dimensions
# Training on a large machine combines three kinds of parallelism. How many ranks should each kind
# get?
#
# | kind | partitions | sends | when |
# |---|---|---|---|
# | tensor | each layer | partial sums, with 4 allreduces per layer (6 in the cost model below) | for each micro-batch, and all ranks wait |
# | pipeline | between layers ([lab 63](63_pipeline_parallel.ipynb)) | the output of a stage | for each micro-batch, and leaves a bubble (idle time at the beginning and end of a step) |
# | data | the batch | the gradients, with an allreduce | once per step |
#
# A **layout** consists of four numbers:
#
# - `tensor`, `pipeline` and `data`, the numbers of ranks of each kind. Their product is the number
#   of GPUs. GPUs are numbered so that tensor ranks are neighbors, while consecutive data ranks are
#   `tensor` GPUs apart.
# - `micro`, the number of sequences in a [micro-batch](../labs/GLOSSARY.md#micro-batch). A sequence is one text.
#
# In the formulas, `sequence` is the number of positions in a sequence, 2,048 in the models below.
#
# ### A cost model
# We compare layouts by a cost model for the time of a step. Our models are the ten GPTs in table 1
# of [Narayanan et al. (2021)](https://arxiv.org/abs/2104.04473), which were trained on Selene, whose nodes have 8
# A100 GPUs connected by NVLink and one 200 Gb/s [NIC](../labs/GLOSSARY.md#NIC) (network interface card) per GPU.
#
# The cost model consists of five parts. In the last column, the layout has tensor 2, pipeline 4,
# data 2, micro 1 and a batch of 16 sequences:
#
# | | part | in general | example |
# |---|---|---|---|
# | 1 | micro-batches that a pipeline processes per step | batch / (data · micro) | 16 / 2 = 8 |
# | 2 | arithmetic of one micro-batch on each GPU | the total / (tensor · pipeline) | an eighth of the total |
# | 3 | allreduces of one micro-batch in a stage, over the tensor ranks | 6 · layers / pipeline, of 2 · micro · sequence · hidden bytes each (16-bit numbers) | 6 · layers / 4 |
# | 4 | how often the time of parts 2 and 3 is counted | once for each micro-batch, and pipeline − 1 more times for the bubble | 8 + 3 times |
# | 5 | an allreduce of the gradients at the end of the step, over the data ranks | 2 · parameters / (tensor · pipeline) bytes | once |
#
# Why 6 allreduces for each layer? As in your layer, there are 2 in the forward pass and 2 in the
# backward pass. There are 2 more because the backward pass first computes the forward pass again,
# to save memory ([lab 14](14_mixed_precision_and_memory.ipynb)).
#
# The cost model leaves out any overlap and the messages between stages, which are small.
#
# ### Exercise 64.4 · Seconds of a step
# Write the cost model. `net.batch`, `net.layers`, `net.hidden`, `net.sequence` and `net.parameters`
# are numbers. The functions of `gpus` return seconds:
#
# | call | seconds of |
# |---|---|
# | `gpus.compute(net, sequences)` | all arithmetic of that many sequences on **one** GPU |
# | `gpus.allreduce(ranks, apart, nbytes)` | an allreduce of `nbytes` bytes over that many ranks, which are `apart` GPUs apart; 0 for one rank |
#
# 6 to 8 lines. *(advanced)*
#
# <details><summary>Hint 1: one micro-batch</summary>
#
# One micro-batch takes `gpus.compute(net, micro) / (tensor * pipeline)` plus
# `6 * net.layers / pipeline` times `gpus.allreduce(tensor, 1, nbytes)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Return `(count + pipeline - 1) * one + gpus.allreduce(data, tensor, …)`, where `count` is the
# number of micro-batches and `one` is the time of one micro-batch.
# </details>

# %%
def step_seconds(net, layout, gpus):
    """Seconds of a training step of the net in this layout (tensor, pipeline, data, micro)."""
    tensor, pipeline, data, micro = layout
    raise NotImplementedError("exercise 64.4: Seconds of a step")


# %%
# Asked: The seconds of the five parts above, for layouts of all kinds.
check("64.4", step_seconds)

# %% [markdown]
# ### Predict
# A model with 162 billion parameters in 32 layers is trained on 64 GPUs with one data rank, so
# tensor × pipeline = 64. The batch has 32 sequences, and each micro-batch has one. Which number of
# tensor ranks does the cost model make fastest: 2, 4, 8, 16 or 32?
#
# You can compute the [bubble](../labs/GLOSSARY.md#bubble), which is (pipeline − 1) / (number of micro-batches) of the remaining
# time. You have to guess the allreduce times.

# %%
predict("64.4", tensor=...)

# %% [markdown]
# ### Compute
# The share of peak flop/s that the GPUs reach is still unknown. The next cell takes the share that
# fits five of the ten models best, and predicts the other five. The errors of these predictions
# show how far the cost model can be trusted.
#
# The cell after it computes the step times of the five layouts.

# %%
nets = lab64.published()
gpus = lab64.fit(step_seconds, nets[::2])
off = {net.name: 100 * lab64.error(step_seconds, net, gpus) for net in nets}
unseen = [abs(off[net.name]) for net in nets[1::2]]
print(f"Fitted: the GPUs reach {gpus.share:.1%} of their peak in arithmetic.")
print(f"Predicted models: off by {np.median(unseen):.0f} % (median), {max(unseen):.0f} % at most")

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
# **Explain.** From left to right in the plot, two parts of a step change:
#
# - *The bubble* becomes shorter, because the pipeline does.
# - *The allreduces* take more time, because each stage has more layers, and especially if a group
#   of tensor ranks is larger than a node. The allreduce time printed above is longer on 16 ranks
#   than on 8, although each of the 16 ranks has half as much of each layer.
#
# The step is fastest with eight tensor ranks, the number of GPUs in a node.
#
# The times for 8 and 16 tensor ranks differ by less than the cost model's error, so the model alone
# cannot show which is better. The paper measured this GPT (figure 13) and came to the same
# conclusion as the plot: use tensor ranks up to the number of GPUs in a node, and pipeline ranks
# beyond that number.
#
# ### Choose
# Does this hold for other models? For each model in the paper's table, the next cell tries all
# layouts that fit into 80 GB with micro-batches of one sequence. These are the columns of its
# table:
#
# - *off, %* is the cost model's error for the paper's own layout: positive where it predicts too
#   high a speed.
# - *paper* and *best* are the paper's layout (tensor, pipeline, data) and the fastest one by the
#   cost model.
# - *paper's time / best* compares their step times, both by the cost model.
# - *tensor, within 10 %* lists the numbers of tensor ranks that are about as fast as the best.
#
# The model with 145.6 billion parameters is similar to GPT-3.

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
        "off, %": round(off[net.name], 1),
        "paper": tuple(own)[:3],
        "best": tuple(best)[:3],
        "paper's time / best": round(tried[own] / tried[best], 2),
        "tensor, within 10 %": sorted({layout.tensor for layout in near}),
    }
    record.add("layout", net=net.name, layout=tuple(best)[:3], slower=tried[own] / tried[best])
    rows.append(row_of_net)
print(pandas.DataFrame(rows).set_index("billions").to_string())

# %% [markdown]
# **Explain.** For models with at least 76 billion parameters, our cost model and the paper both
# choose 8 tensor ranks, the number of GPUs in a node. The column *tensor, within 10 %* often
# contains 4 but hardly ever 16.
#
# For models with 3.6 to 39 billion parameters, the cost model prefers fewer tensor ranks than the
# paper. The difference (15 % at most) is about as large as the cost model's error, so we cannot say
# which layout is better.
#
# The cost model predicts too high a speed for small models and too low a speed for large ones. Two
# reasons are likely, but were not measured here:
#
# - Larger matrices are multiplied more efficiently ([lab 12](12_find_the_bottleneck.ipynb)).
# - For the models from 76 to 530 billion parameters, the paper used interleaved schedules, which
#   have a smaller bubble ([lab 63](63_pipeline_parallel.ipynb)).
#
# The last optional part examines the small models.
#
# All step times here are computed and compared with the paper's. Only losses, calls and bytes come
# from your machine.
#
# ### What you take away
# - Cut the first layer by columns and the next layer by rows. An MLP and an attention block then
#   each need one allreduce in the forward and one in the backward pass.
# - Of the pair f and g, g performs an allreduce in the forward pass, and f performs one in the
#   backward pass. Without f, the network trains, but incorrectly.
# - To choose a layout, use tensor ranks up to the number of GPUs in a node, where the links are
#   fast. Then, as the paper advises, add pipeline ranks until the model fits, and use the remaining
#   GPUs for data ranks.
#
# ## Going further (optional): sequence parallelism (7 minutes)
# Can the ranks also share the work *between* the cut layers? Between g and the next f, every rank
# does the same arithmetic on the same numbers, namely norms, biases and additions, and keeps all of
# these activations for the backward pass. **Sequence parallelism** ([Korthikanti et al.,
# 2022](https://arxiv.org/abs/2205.05198)) shards this part, too, so each rank has only some of the *positions*
# there.
#
# An allreduce is a [reduce-scatter](../labs/GLOSSARY.md#reduce-scatter) followed by an [allgather](../labs/GLOSSARY.md#allgather) ([lab 21](21_collectives.ipynb)). We separate the two: a
# function g' replaces g and does the reduce-scatter, and a function f' replaces the next f and does
# the allgather. In the backward pass, each function does the opposite:
#
# | | forward pass | backward pass |
# |---|---|---|
# | g' | sum, keep own positions | gather all positions |
# | f' | gather all positions | sum, keep own positions |
#
# The functions f' and g' are written like your pair, but with `comm.Reduce_scatter_block` and
# `comm.Allgather`. In `labs/labkit/sequence_parallel.py`, `Gather` is f' and `Scatter` is g'.
#
# ### Measure
# We repeat the training run with f' and g'. This takes about 10 s. The table has these columns:
#
# - *MB sent* is the amount of data that each of p ranks sends with ring algorithms. An allreduce
#   sends 2 (p − 1) / p of its array, and a reduce-scatter or an allgather sends half as much ([lab 23](23_ring_allreduce.ipynb)).
# - *MB kept* is the amount of data that the layers keep for the backward pass.

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
# **Explain.** You should see the same losses, the same number of bytes sent as with f and g, and
# fewer bytes kept. Instead of four allreduces, a layer makes four calls of each kind in a step.
#
# Here, each rank keeps the whole result of the allgather in f'. Megatron-LM keeps even fewer bytes,
# because each rank keeps only its own part and repeats the allgather in the backward pass.
#
# Each rank now computes the loss of only its own positions, so the gradients of the parameters that
# all ranks have in full must be added up. `lab64.train_ways` does this once per step, which the
# table does not include.
#
# ## Going further (optional): the same layers with PyTorch's DTensor (15 minutes)
# In practice you would not write f and g by hand, because PyTorch can derive both. A
# [**DTensor**](https://docs.pytorch.org/docs/stable/distributed.tensor.html) (distributed tensor) records its *placement*, that is, how it is
# distributed over the ranks. Each operation on a DTensor determines the placement of the result and
# the messages that are needed. A placement is one of these:
#
# | placement | a rank has | in this lab |
# |---|---|---|
# | `Shard(0)` | its part along the first axis | a weight cut by columns (`column`) |
# | `Shard(1)` | its part along the second axis | a weight cut by rows (`row`) |
# | `Replicate()` | everything | x, y, and the bias after g |
# | `Partial()` | a partial sum; the sum over the ranks is the tensor | y before g |
#
# A layer whose weight has the placement `Shard(1)`, and whose input is sharded along the same
# features, returns a `Partial()` result. Converting this result to `Replicate()` takes an
# allreduce, which is your g.
#
# For the layers of an ordinary module, PyTorch has two predefined *styles*:
#
# - `ColwiseParallel()` cuts a layer by columns.
# - `RowwiseParallel()` cuts a layer by rows and converts its result to `Replicate()`.
#
# `parallelize_module(module, mesh, plan)` replaces the weights of a module with DTensors. The
# *mesh* contains the ranks that take part, and the *plan* maps names of layers to styles. For
# example, this cuts the layer `model.head` by columns over 8 GPUs:
#
#     mesh = init_device_mesh("cuda", (8,), mesh_dim_names=("tensor",))
#     parallelize_module(model, mesh, {"head": ColwiseParallel()})
#
# `lab64.Separate` contains an attention block and an MLP, written for a single process. Unlike
# yours, it has separate layers for queries, keys and values (`q`, `k` and `v`), because `Shard(0)`
# of a single large matrix would split the heads incorrectly (see exercise 64.3).
#
# ### Exercise 64.5 · A plan for DTensor (optional)
# Write the plan for the six layers of `lab64.Separate` (`q`, `k`, `v`, `out`, `up` and `down`), so
# that each layer is cut like yours. The check runs both versions with the same weights and compares
# the output, each rank's parts and every gradient. 6 lines. *(beginner)*
#
# <details><summary>Hint 1: which cut?</summary>
#
# Every matrix for which the function `cut` above calls `column` or `own_heads` is cut by columns.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `out` and `down` come before g, so their style is `RowwiseParallel()`. All other layers use
# `ColwiseParallel()`.
# </details>

# %%
def plan_of_block():
    """The style in which each layer of lab64.Separate is cut: {name: style}."""
    raise NotImplementedError("exercise 64.5: A plan for DTensor (optional)")


# %%
# Asked: Each matrix is cut as yours is; then the output, every part and every
# gradient agree.
check("64.5", plan_of_block)

# %% [markdown]
# ### Predict
# Your attention block and your MLP together need four allreduces, one for each f and one for each
# g. DTensor cuts the same matrices in the same way, but it treats `q`, `k` and `v` as three
# separate layers. How many allreduces does DTensor need in the forward pass (`forward`), and how
# many in the backward pass (`back`)?

# %%
predict("64.5", forward=..., back=...)  # two whole numbers

# %% [markdown]
# ### Measure
# Your layers and those of DTensor both compute one forward and one backward pass, with the same
# weights and the sizes of the training runs above. The communicator counts your layers' calls, and
# PyTorch's `CommDebugMode` counts DTensor's calls. DTensor uses Gloo on CPUs and [NCCL](../labs/GLOSSARY.md#NCCL) on GPUs. This
# takes about 5 s.

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
# **Explain.** Both versions keep the same parts and compute the same numbers except for rounding.
# DTensor is therefore the same kind of parallelism, but it provides f and g for you.
#
# However, DTensor sends more data, because it treats every layer separately:
#
# - *Forward pass.* Both versions perform two allreduces, one for each layer that is cut by rows.
# - *Backward pass.* Each of `q`, `k` and `v` has its own f, and each f performs an allreduce. With
#   the one for `up`, DTensor performs four. Your version needs only one for `q`, `k` and `v`
#   together, so it performs two.
#
# (PyTorch's style `PrepareModuleInput` for the attention block merges the three allreduces into
# one.)
#
# ## Going further (optional): where small models lose time (25 minutes)
# The cost model of section 4 fits large models. Does it also fit small ones?
# [vTrain](https://github.com/VIA-Research/vTrain), a simulator of training ([Bang et al., 2024](https://arxiv.org/abs/2312.12391)), comes with
# many measured steps on A100 GPUs:
#
# | measured on | models | steps | in the kit |
# |---|---|---|---|
# | one node of 8 GPUs | 1,024 or 2,048 hidden features | 1,440 | every fifth |
# | several nodes with 64 to 512 GPUs | up to 175 billion parameters | 109 | every second |
#
# (`labs/support/lab64_vtrain/README.md` explains how to get all steps, and states their license.)
#
# The next cell predicts these steps, to which no number in the cost model has been fitted. It
# prints how many times as long as predicted a measured step took, by hidden features, by
# micro-batch and by tensor ranks, and then the mean errors.

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
# **Explain.** On several nodes, the error is moderate. On one node, nearly every step takes longer
# than predicted, and the ratio is largest where each GPU has little work: with fewer features, with
# micro-batches of one sequence, and with many tensor ranks. The cost model therefore lacks a cost
# that does *not* shrink with the arithmetic.
#
# We consider three costs, each with one unknown number that we will fit:
#
# 1. **Matrices.** As before, matrix multiplications reach some `share` of the peak.
# 2. **Bytes moved.** Softmax, dropout, GELU and normalization do little arithmetic for each byte,
#    so memory [bandwidth](../labs/GLOSSARY.md#bandwidth) limits their speed ([lab 12](12_find_the_bottleneck.ipynb)). A layer has
#    `lab64.bytes_of_layer(net, layout)` bytes of activations on one GPU, and each byte is moved
#    (written or read) `moves` times in a step.
# 3. **Launches.** The CPU launches every kernel (a function that runs on the GPU) of a layer. For
#    each layer and micro-batch, this takes `launches` seconds, regardless of the size of the
#    matrices.
#
# The CPU launches kernels ahead of the GPU, so the third cost is not simply added. A pass through a
# layer takes the **longer** of the GPU's time and the launch time. A layer has three passes:
#
# - two forward passes (because activations are computed twice), each with a quarter of the GPU's
#   work and a third of the launches;
# - the backward pass, with half of the GPU's work and a third of the launches.
#
# For example:
#
# | the GPU is busy for | launches take | forward, twice | backward | layer |
# |---|---|---|---|---|
# | 12 ms | 3 ms | 3 ms each: GPU | 6 ms: GPU | 12 ms |
# | 2 ms | 3 ms | 1 ms each: CPU | 1 ms: both | 3 ms |
# | 3 ms | 3 ms | 1 ms each: CPU | 1.5 ms: GPU | 3.5 ms |
#
# ### Exercise 64.6 · Seconds of a layer (optional)
# Return the seconds that one layer takes for one micro-batch on one GPU. The GPU is busy with its
# part of the matrices, with the bytes that it moves, and with the 6 allreduces of exercise 64.4.
# The functions of `gpus` return seconds:
#
# | call | seconds of |
# |---|---|
# | `gpus.multiply(net, sequences)` | a layer's matrices for that many sequences on **one** GPU |
# | `gpus.move(nbytes)` | moving that many bytes of activations as often as a step does |
# | `gpus.allreduce(ranks, apart, nbytes)` | an allreduce, as in exercise 64.4 |
# | `gpus.launches` | (a number) launching all kernels of a layer |
#
# 4 to 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: how long is the GPU busy?</summary>
#
# The GPU is busy for `gpus.multiply(net, layout.micro) / layout.tensor` plus `gpus.move(…)` plus 6
# times `gpus.allreduce(layout.tensor, 1, nbytes)`. `bytes_of_layer` already returns the number of
# bytes on one GPU.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `return 2 * max(busy / 4, gpus.launches / 3) + max(…)`
# </details>

# %%
def layer_seconds(net, layout, gpus):
    """Seconds of a layer of this net for one micro-batch, in the layout (tensor, …, micro)."""
    raise NotImplementedError("exercise 64.6: Seconds of a layer (optional)")


# %%
# Asked: In each of three passes, the longer of what the GPU computes and what
# the CPU launches.
check("64.6", layer_seconds)

# %% [markdown]
# ### Predict
# We fit the three numbers to half of the kit's steps on one node. Then we predict the other half
# and all steps on several nodes. By what percentage will the predictions of each kind be off on
# average?

# %%
predict("64.6", one_node=..., several_nodes=...)

# %% [markdown]
# ### Measure
# `lab64.step_of(layer_seconds)` turns your function into a model of a whole step, which we compare
# with four controls. The table has these rows:
#
# | row | model |
# |---|---|
# | section 4 | the cost model of section 4 |
# | section 4, fitted here | the same model, with its share fitted to the same steps as yours |
# | yours | your model |
# | yours, no launches; yours, no moves | your model without launches, and without moves |
#
# It shows the mean error of each model on steps that were not fitted. This takes a few seconds.

# %%
every = len(one_node) // 144  # 144 rows are fitted, the same ones if you have all rows
fitted = one_node[::every]
unseen_rows = {
    "one node": [row for place, row in enumerate(one_node) if place % every],
    "several nodes": several_nodes,
}
models = {
    "section 4": (step_seconds, gpus),
    "section 4, fitted here": (step_seconds, lab64.fit_share(step_seconds, fitted)),
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
for name, (model, machine) in models.items():
    errors[name] = {}
    for where, rows in unseen_rows.items():
        errors[name][where] = lab64.misses(model, rows, machine).mean()
        record.add("vtrain", model=name, where=where, mean=errors[name][where], rows=len(rows))
print("Mean error in % of the measured time, without sign, on rows that were not fitted:")
print(pandas.DataFrame(errors).T.round(1).to_string())
predict.compare(
    "64.6",
    one_node=errors["yours"]["one node"],
    several_nodes=errors["yours"]["several nodes"],
)

# %% [markdown]
# **Explain.** With the kit's sample, your model reduces the mean error from 52 % to 8 % on one node
# and from 13 % to 8 % on several nodes, although no step on several nodes was used for fitting.
#
# The controls show which costs matter:
#
# - *A better share does not help.* The cost model of section 4, fitted to one-node steps, is still
#   off by 41 % on one node, and by 55 % on several nodes.
# - *Launches explain the time that small models lose.* Without them, the error is 35 % on one node
#   and hardly changes on several nodes.
# - *Moves make the predictions accurate for large models.* Without them, the error is 10 % on one
#   node and 22 % on several nodes.
#
# With 3.6 ms of launches per layer and micro-batch, a network of 24 layers on one stage needs at
# least 86 ms per micro-batch, regardless of the number of tensor ranks. This holds for the measured
# machine and library. CUDA graphs (which launch many kernels with one call) or fused attention
# would change two of the three numbers.
#
# <details><summary>How far can these results be trusted?</summary>
#
# The predictions are more certain than the fitted numbers. These are the ranges when we fitted the
# model to ten other tenths of the one-node steps:
#
# | number | range |
# |---|---|
# | mean error on one node | 7.7 to 8.1 % |
# | mean error on several nodes | 7.9 to 9.5 % |
# | share | 71 to 89 % |
# | moves | 11 to 16 |
#
# A fitted number can also include other costs that grow in the same way.
#
# The predicted steps were unseen, but the authors of the formulas tried several and knew both
# tables (as in [lab 52](52_predict_scaling.ipynb)). The steps on several nodes differ in size from the fitted steps, which
# makes them the harder test.
# </details>
#
# ### Further reading
# - M. Shoeybi et al., *[Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism](https://arxiv.org/abs/1909.08053)*, 2019. The paper that introduced this way of cutting a transformer.
# - D. Narayanan et al., *[Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM](https://arxiv.org/abs/2104.04473)*, SC, 2021. How to combine tensor, pipeline and data parallelism on thousands of GPUs.
# - J. Bang et al., *[vTrain: A Simulation Framework for Evaluating Cost-Effective and Compute-Optimal Large Language Model Training](https://arxiv.org/abs/2312.12391)*, MICRO, 2024. The measured steps of the last optional part and a simulator that predicts them.
# - V. Korthikanti et al., *[Reducing Activation Recomputation in Large Transformer Models](https://arxiv.org/abs/2205.05198)*, 2022. Sequence parallelism, and recomputing only some activations.
# - [PyTorch: DTensor](https://docs.pytorch.org/docs/stable/distributed.tensor.html). PyTorch's distributed tensors and their placements.
