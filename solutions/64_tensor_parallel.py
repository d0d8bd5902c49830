# %% [markdown]
# # 64 Tensor parallelism
#
# Lab 62 cut a net between its layers. Here each layer itself is cut, and all ranks work on it at
# once. You build it, train a small GPT with it on Python's own source, and let a cost model choose
# a layout for nets like GPT-3.
#
# **You will be able to** (1) cut a layer by columns and by rows, (2) write the pair of functions
# that makes it train, (3) count what it sends, (4) choose how many ranks go into which kind of
# parallelism, (5) have PyTorch's DTensor do the same, and prove that it does.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 70 · Level: advanced · Before: 21, 30, 62, 63

# %%
import numpy as np
import pandas
import torch
from labkit import check, hint, lab, launch, plots, predict, record
from support import lab64
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

lab.start("64_tensor_parallel")

# %% tags=["parameters"]
hidden = 64  # numbers for each place of a text
heads = 4  # heads of the attention
layers = 2  # layers of the GPT
places = 64  # characters of a text in a batch
texts = 16  # texts in a batch
steps = 120  # steps of each training
read = 262_144  # characters of Python's source that are read
most = 3  # ranks on which f and g are tried, where no launcher says how many there are
patience = 20  # seconds after which a check calls a program stuck

# %% [markdown]
# ## 1. Two ways to cut a layer
# A layer computes `linear(x, weight, bias)`: each number that leaves is a weighted sum of all
# numbers that enter. PyTorch keeps `weight` in the shape (numbers that leave, numbers that enter).
# It can be cut along either axis:
#
# | cut | a rank holds | needs | computes |
# |---|---|---|---|
# | by **columns** | some of the numbers that leave: rows of PyTorch's `weight` | all of x | its part of y |
# | by **rows** | some of the numbers that enter: columns of `weight` | its part of x | a term of all of y |
#
# (The names come from papers, which write y = xA. Their A is PyTorch's `weight` lying on its side,
# so their columns are its rows.) After a cut by rows the terms of all ranks must be added up.
#
# The trick of Megatron-LM (Shoeybi and others, 2019) is to take both, one behind the other. An
# **MLP** is two layers with a GELU, a rounded ReLU, in between. The first is cut by columns, the
# second by rows:
#
#     x → [columns] → a part of the middle → GELU → [rows] → a term of y → sum over ranks → y
#
# The part of the middle that a rank computes is just what its part of the second layer needs. So
# nothing is sent in between, and **one sum** is enough. GELU looks at one number at a time, so
# parts do not disturb it.
#
# ### Exercise 64.1 · Columns and rows
# Return this rank's part of a tensor: `column` cuts the first axis, `row` the second. `column` is
# used for the bias of a layer, too, which has one axis only. `tensor.chunk(3, dim=1)` is a list of
# three equal pieces along axis 1. 1 line each. *(beginner)*
#
# <details><summary>Hint 1: which piece?</summary>
#
# Cut into `ranks` pieces, and take number `rank` of the list.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `tensor.chunk(ranks, dim=0)[rank]` is the one. The other has another axis.
# </details>


# %%
def column(tensor, rank, ranks):
    """This rank's part of a layer's weight or bias, cut by the numbers that leave."""
    ### BEGIN SOLUTION
    return tensor.chunk(ranks, dim=0)[rank]
    ### END SOLUTION


def row(tensor, rank, ranks):
    """This rank's part of a layer's weight, cut by the numbers that enter."""
    ### BEGIN SOLUTION
    return tensor.chunk(ranks, dim=1)[rank]
    ### END SOLUTION


# %%
check("64.1", column, row)

# %% [markdown]
# Why not the first layer by rows and the second by columns?
# <details><summary>Answer</summary> Then the middle would be a sum of terms, and GELU of a sum is not the sum
# of GELUs. The terms would have to be added before the GELU, and in a GPT the middle is four times
# as long as y. Behind the second layer each rank would have its part of y, so that the sum there
# would become a gather.</details>
#
# ## 2. The pair f and g
# Training goes back, too. Write **f** for what stands in front of the cut layers, and **g** for
# what stands behind them:
#
#     x → f → columns → GELU → rows → g → y
#
# *Forward*: every rank has all of x, so f has nothing to do. g adds the terms up.
#
# *Back*: every rank has all of y, computes the same loss, and so has the same gradient of y. In a
# sum, each term's gradient is that of the sum: g has nothing to do. But all ranks used x, and each
# finds only what x did through *its* part. So f adds the gradients up.
#
# | | forward | back |
# |---|---|---|
# | f | nothing | sum over all ranks |
# | g | sum over all ranks | nothing |
#
# PyTorch does not know what a message is, so it must be told how to go back through f and g. A
# `torch.autograd.Function` says both ways. This one multiplies by a number:
#
#     class Scale(torch.autograd.Function):
#         @staticmethod
#         def forward(ctx, tensor, factor):
#             ctx.factor = factor                # kept for the way back
#             return factor * tensor
#
#         @staticmethod
#         def backward(ctx, gradient):           # of what left
#             return ctx.factor * gradient, None # of what entered; of factor: none
#
# It is used as `Scale.apply(tensor, 3.0)`. `backward` returns one value for each argument of
# `forward`, and `None` for those that are no tensors. A sum over all ranks, as a new tensor, is
# here for you:


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
# Write both ways of both functions. `comm` is the communicator; it has no gradient. 1 or 2 lines
# each. *(intermediate)*
#
# <details><summary>Hint 1: f</summary>
#
# Forward: keep `comm` in `ctx`, and return the tensor as it is. Back: `added(ctx.comm, gradient)`,
# and None for `comm`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# g, forward: `return added(comm, tensor)`. g, back: `return gradient, None`.
# </details>


# %%
class Copy(torch.autograd.Function):
    """f: hands a tensor on as it is; on the way back the gradients of all ranks are added up."""

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
    """g: the sum over all ranks; on the way back the gradient is handed on as it is."""

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
# A GPT reads a text, and foretells for each place which character comes next. It is a stack of
# layers; each has an *attention* and an MLP. In attention every place looks at itself and back at
# the places before it:
#
# - three layers make of each place a *query*, a *key* and a *value*;
# - a place takes from its own value and those of earlier places, most where its query fits their
#   key;
# - a last layer, `out`, mixes the result.
#
# This is done in several **heads**: each has some of the queries, keys and values, and looks at no
# others. So heads are what to deal out: each rank gets some heads, whole. `out` follows, cut by
# rows, and g.
#
# One matrix makes all queries, keys and values. Its rows, for 4 heads:
#
# | rows | head 0 | head 1 | head 2 | head 3 |
# |---|---|---|---|---|
# | first third: queries | q0 | q1 | q2 | q3 |
# | second third: keys | k0 | k1 | k2 | k3 |
# | last third: values | v0 | v1 | v2 | v3 |
#
# They stand one behind the other: q0, q1, … v3. Rank 0 of two is to hold q0, q1, k0, k1, v0, v1.
#
# ### Exercise 64.3 · This rank's heads
# Return this rank's rows, in that order, whatever the number of heads. `tensor` is the matrix, or
# its bias, which has one axis. `torch.cat([a, b])` puts tensors behind each other along the first
# axis. 1 or 2 lines. *(intermediate)*
#
# <details><summary>Hint 1: thirds</summary>
#
# `tensor.chunk(3)` gives the queries, the keys and the values. Of each of them a rank holds what
# `column` gives.
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
# Here your functions meet; read `mlp` beside the picture of section 2. Note the bias of a layer
# that is cut by rows: it is added **behind** g. Why?
# <details><summary>Answer</summary> In front of g each rank would add it to its term, and the sum would hold
# it once for each rank.</details>


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
# What passes through f and g has the shape (places, texts, hidden): here 64 × 16 × 64 numbers of 4
# bytes. A layer of the GPT has an attention and an MLP, each with an f and a g.
#
# How many sums over the ranks does *one* layer need in a step, forward and back together? How many
# megabytes (10⁶ bytes) are added up in them? And which share of the layers' parameters does each of
# two ranks hold, about?

# %%
predict("64.3", sums=..., megabytes=..., share=...)

# %% [markdown]
# ### Measure
# The GPT learns Python's own source, the files of its standard library: given 64 characters,
# foretell each next one. Three times: in one process (by PyTorch's functions, without any of
# yours), on two ranks with your pieces, and, as a control, on two ranks without f. Calls and bytes
# are counted, not timed. It takes about 30 s.
#
# Where each rank has a GPU to itself, the GPT is trained there, and `comm` hands tensors to NCCL,
# NVIDIA's library for messages between GPUs. Otherwise tensors stay in host memory, and MPI carries
# them. Your functions are the same in both cases.


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
        "sums a layer": result.calls.get("Allreduce", 0) / layers,
        "MB added a layer": result.added / layers / 1e6,
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
    sums=ours["sums a layer"],
    megabytes=ours["MB added a layer"],
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
        "no knowledge but how often each character comes": [frequencies] * steps,
    },
    title="Two ranks learn Python as one process does",
)
print(
    f"Loss of a guess among all characters: {uniform:.2f}, of the frequencies alone:"
    f" {frequencies:.2f}"
)

# %% [markdown]
# **Explain.** *Losses apart* compares each step's loss with that of one process: equal but for
# rounding, since terms are added in another order. The GPT learns more than how often each
# character comes (the level line). *Ranks apart* compares what all ranks hold in full (norms, and
# what stands outside of the layers): with f it stays alike.
#
# Without f the loss falls nearly as well, and nothing crashes. But every rank goes another way:
# what was alike is so no longer, and this is not the net that you wrote down. Only the comparison
# shows it.
#
# *Share of the layers* is a little more than a half: norms, and the biases behind g, are not cut.
# *Share of the net* is more still: this lab does not cut what turns characters into numbers and
# back. (Megatron-LM does, by entries of its vocabulary.)
#
# Data parallelism would add up the gradients instead: 12 hidden² numbers a layer, whatever the
# texts. When does tensor parallelism add up less?
# <details><summary>Answer</summary> Four sums of places × texts × hidden against 12 hidden²: if places ×
# texts, the characters of a step, are less than 3 hidden. Here 1,024 are more than 192. But bytes
# are not all. A gradient's sum can travel while other gradients are computed (lab 32), but the next
# layer waits for each sum of f and g. Only f's sum, on the way back, has something to overlap with:
# the gradients of the same layer's weights, which Megatron-LM computes meanwhile. So these sums
# want the fastest links there are.</details>
#
# ## 4. Sequence parallelism
# Between g and the next f every rank does the same arithmetic on the same numbers: norms, biases,
# additions. It also keeps them all for the way back. **Sequence parallelism** (Korthikanti and
# others, 2022) deals these out, too: each rank has some of the *places* there.
#
# An allreduce is a reduce-scatter and an allgather (lab 21). So g becomes the first half, and the
# next f the second. On the way back each does the opposite:
#
#     g' forward: sum, keep own places    f' forward: gather all places
#     g' back:    gather all places       f' back:    sum, keep own places
#
# They are written as your pair, with `comm.Reduce_scatter_block` and `comm.Allgather`, and stand in
# `labs/support/lab64.py`: `lab64.Gather` is f', `lab64.Scatter` is g'.
#
# ### Measure
# The same training with this pair. "MB sent" is what rings send: an allreduce twice (p - 1) / p of
# its array, each half once (lab 23). "MB kept" is what the layers keep for the way back. About 10
# s.

# %%
dealt = pieces._replace(f=lab64.Gather.apply, g=lab64.Scatter.apply)
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
# **Explain.** The same losses, the same bytes sent, and fewer kept. It could be fewer still: what f
# gathered is kept whole here; Megatron-LM keeps the part, and gathers once more on the way back.
#
# One thing is new outside of the layers. Each rank now has the loss of its own places only, so the
# gradients of what all hold in full must be added up: `lab64.train_ways` does so once a step, which is
# not in the table.
#
# ## 5. Three dimensions
# Three kinds of parallelism share the GPUs of a large machine:
#
# | kind | cuts | sends | when |
# |---|---|---|---|
# | tensor | each layer | 6 sums a layer, see below | each time, and all wait |
# | pipeline | between layers (lab 63) | what leaves a stage | and leaves a bubble |
# | data | the batch | the sum of the gradients | once a step |
#
# A **layout** is three numbers of ranks whose product is the number of GPUs, and `micro`, the
# sequences of a micro-batch. GPUs are numbered so that tensor ranks are neighbours, and those of
# data parallelism are `tensor` apart. (A *sequence* is one text, here of 2,048 places.)
#
# The net is a GPT from Narayanan and others (2021), table 1. They ran it on Selene: nodes of 8
# A100, NVLink inside, a card of 200 Gb/s for each GPU. A model of a step's time takes five lines:
#
# 1. a pipeline does batch / (data · micro) micro-batches in a step;
# 2. the arithmetic of one micro-batch is shared by tensor · pipeline GPUs;
# 3. a stage has layers / pipeline layers. Each of them makes 6 sums of 2 · micro · sequence ·
#    hidden bytes (16-bit numbers) over the tensor ranks: 4 as in yours, and 2 because forward is
#    computed twice, to keep less (lab 14);
# 4. arithmetic and sums come once for each micro-batch, and pipeline - 1 times more, which is the
#    bubble;
# 5. at the end the gradients, 2 · parameters / (tensor · pipeline) bytes, are added up over the
#    data ranks.
#
# Left out: messages between stages, which are few; and any overlap. What `gpus` answers is in
# seconds:
#
# | call | seconds of |
# |---|---|
# | `gpus.compute(net, sequences)` | all arithmetic of so many sequences on **one** GPU |
# | `gpus.allreduce(ranks, apart, nbytes)` | a sum over ranks of which every `apart`-th GPU is one |
#
# The sums are computed by the closed forms, for Selene's links: by a ring, or by two dimensions
# (lab 26), whichever is faster.
#
# ### Exercise 64.4 · Seconds of a step
# Write the model. `net.batch`, `net.layers`, `net.hidden`, `net.sequence`, `net.parameters` are
# numbers. 6 to 8 lines. *(advanced)*
#
# <details><summary>Hint 1: one micro-batch</summary>
#
# `gpus.compute(net, micro) / (tensor * pipeline)`, and to it `6 * net.layers / pipeline` times
# `gpus.allreduce(tensor, 1, nbytes)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `(count + pipeline - 1) * one + gpus.allreduce(data, tensor, …)`, where `count` is the first line,
# and `one` the seconds of one micro-batch.
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
# A net of 162 billion parameters in 32 layers on 64 GPUs, with one data rank, so tensor × pipeline
# = 64. The batch has 32 sequences. Few tensor ranks leave a long pipeline with a large bubble; many
# of them lie on several nodes. Which number of tensor ranks is fastest: 2, 4, 8, 16 or 32?
#
# Micro-batches have one sequence, so you can compute the bubble: (pipeline - 1) / micro-batches of
# the rest. What the sums take is a guess.

# %%
predict("64.4", tensor=...)

# %% [markdown]
# ### Compute
# One number is missing: which share of their peak the GPUs reach in arithmetic. We take the share
# that suits five of the paper's ten nets best, and foretell the other five. That says how far the
# model may be trusted.

# %%
nets = lab64.published()
gpus = lab64.fit(step_seconds, nets[::2])
off = {net.name: 100 * lab64.error(step_seconds, net, gpus) for net in nets}
unseen = [abs(off[net.name]) for net in nets[1::2]]
print(f"Fitted: the GPUs reach {gpus.share:.1%} of their peak in arithmetic.")
print(
    f"Foretold nets: off by {np.median(unseen):.0f} % in the middle, {max(unseen):.0f} % at worst"
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
        f"A sum of 84 MB over {count} tensor ranks: {1e3 * gpus.allreduce(count, 1, 84e6):.2f} ms"
    )

# %% [markdown]
# **Explain.** From left to right the pipeline gets shorter, and so does the bubble. The sums grow,
# most of all where a group of tensor ranks is larger than a node: the printed sum takes longer on
# 16 than on 8, though each rank computes half as much. Eight, a node's GPUs, is the middle.
#
# Eight and sixteen differ by less than the model's error, so the model alone could not decide
# between them. The paper measured this very net (figure 13), and found what the picture says:
# tensor ranks up to the GPUs of a node, pipeline beyond.
#
# ### Choose
# For each net of the paper's table all layouts that fit into 80 GB are tried, with micro-batches of
# one sequence. (20 bytes a parameter, and activations: `lab64.bytes_on_a_gpu`.) The paper's own
# layout, (tensor, pipeline, data), stands beside the best. The net of 145.6 billion parameters is
# like GPT-3.

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
# **Explain.** From 76 billion parameters on the model takes 8 tensor ranks, as the paper did: as
# many as a node has. The column "tensor, within 10 %" says which numbers come as near as that,
# about the model's error: often 4, hardly ever 16.
#
# From 3.6 to 39 billion the model takes fewer tensor ranks than the paper, and saves up to 15 %.
# That is about its error, so it decides nothing there. Nor does it for the number of stages, where
# the last column has several. Messages between stages, which we left out, speak for fewer.
#
# Why is the model too fast for small nets (plus in "model off"), and too slow for large ones? Two
# likely reasons, which nothing here tells apart. It takes one share of the peak for all, though
# larger matrices compute better (lab 12). And the paper ran interleaved pieces for most of its
# large nets (lab 63), whose bubble is smaller.
#
# What the lab does not show is time on your machine. Losses, calls and bytes are those of real
# ranks; seconds are computed, and held against the paper's.
#
# ## 6. The same by PyTorch's DTensor
# In practice nobody writes f and g by hand, because PyTorch can derive both. A **DTensor** is a
# tensor that knows how it is spread over the ranks, and each operation on it works out what the
# result looks like and which messages that takes. How it is spread is called its *placement*:
#
# | placement | a rank holds | in this lab |
# |---|---|---|
# | `Shard(0)` | its part along the first axis | a weight cut by columns (`column`) |
# | `Shard(1)` | its part along the second axis | a weight cut by rows (`row`) |
# | `Replicate()` | everything | x, y, and the bias behind g |
# | `Partial()` | a term; the sum over the ranks is the tensor | y in front of g |
#
# A layer that has a weight in `Shard(1)` gives a `Partial()` result, and turning that into a
# `Replicate()` one is an allreduce, which is your g. For the layers of an ordinary module there are
# two ready-made styles: `ColwiseParallel()` cuts a layer by columns, and `RowwiseParallel()` cuts it
# by rows and makes its result whole. `parallelize_module(module, mesh, plan)` replaces the weights
# of a module by DTensors. The *mesh* says which ranks take part, and the plan maps names of layers
# to styles:
#
#     mesh = init_device_mesh("cuda", (8,), mesh_dim_names=("tensor",))
#     parallelize_module(model, mesh, {"embedding": RowwiseParallel(), "head": ColwiseParallel()})
#
# `lab64.Separate` is an attention and an MLP as one process would compute them. It differs from
# yours in one respect. Its queries, keys and values have a layer each, `q`, `k` and `v`, since
# `Shard(0)` of the one large matrix would tear heads apart, as it did in 64.3.
#
# ### Exercise 64.5 · A plan for DTensor
# Write the plan for its six layers, `q`, `k`, `v`, `out`, `up` and `down`, so that each is cut as
# yours is. The check runs both on the same weights, and compares what leaves, what each rank holds
# and every gradient. 6 lines. *(beginner)*
#
# <details><summary>Hint 1: which cut?</summary>
#
# The function `cut` above says it: what goes through `column` or `own_heads` is cut by columns.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `out` and `down` stand in front of g, so they are `RowwiseParallel()`. All others are
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
# Your attention and your MLP together take four allreduces: f and g of each. DTensor cuts the same
# matrices in the same way, but it handles `q`, `k` and `v` as three layers. How many allreduces does
# it take on the way forward, and how many on the way back?

# %%
predict("64.5", forward=..., back=...)  # two whole numbers

# %% [markdown]
# ### Measure
# Both go forward and back once, with the sizes of the training above and the same weights. Calls are
# counted by the communicator for yours, and by PyTorch's `CommDebugMode` for DTensor's. On CPUs
# DTensor's messages go by Gloo, on GPUs by NCCL. About 5 s.

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
# **Explain.** Both hold the same parts and compute the same numbers, up to the order in which terms
# are added. So DTensor is no other kind of parallelism; it writes your f and g for you.
#
# It sends more, though, because it treats every layer by itself. Each of `q`, `k` and `v` has an f of
# its own, and each f sums a gradient on the way back, where yours sums once for all three. On the way
# forward both have two sums, one for each layer that is cut by rows. PyTorch can merge the three
# where the attention is a module of its own: the style `PrepareModuleInput` turns what enters that
# module into one DTensor, so that the three gradients are added up on each rank first. Tried here,
# it brought the sums on the attention's way back from three to one.
#
# ### What you take away
# - Columns, then rows: one sum forward for an MLP, one for attention by heads, and as many back.
# - f and g are a pair: where one adds up forward, the other adds up back. Without f the net trains,
#   wrongly.
# - DTensor derives f and g from placements: `Shard(0)` is a cut by columns, `Shard(1)` one by rows.
# - The next layer waits for each sum: keep tensor ranks inside of a node, where links are fast.
# - Sequence parallelism sends as much and keeps less. (Megatron-LM sends a quarter more, to keep
#   less still.)
# - A layout: tensor ranks up to the node; then, as the paper advises, pipeline until the net fits,
#   and data for the rest.
