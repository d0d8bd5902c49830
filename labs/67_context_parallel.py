# %% [markdown]
# <!-- Generated from solutions/67_context_parallel.py by `make labs`. Learners work on a copy in work/. -->
# # 67 Context parallelism: ring attention
#
# A language model that reads several books or a code base at once needs sequences of a million
# tokens. The [activations](../labs/GLOSSARY.md#activation) of such a sequence do not fit into one GPU, even if the model does, and
# the work of attention grows with the square of the length. [Data parallelism](../labs/GLOSSARY.md#data-parallelism) does not help, because
# there is only one sequence. [Tensor parallelism](../labs/GLOSSARY.md#tensor-parallelism) partitions the matrices, but each attention head
# needs all positions.
#
# Therefore the positions themselves have to be partitioned over the [ranks](../labs/GLOSSARY.md#rank) throughout the model,
# including in attention. This is **context parallelism**. Its difficulty is that in attention each
# position needs the keys and values of the others.
#
# In this lab we compute attention block by block, with sums that are corrected after each block
# (*online softmax*), and send the keys and values around a ring of ranks while each rank computes.
# Then we balance the work under a causal mask, which hides from each position the later ones.
#
# Two optional parts follow. One compares the ring with other ways, and finds the length of sequence
# from which its messages are hidden (about 30 minutes more). In the other one, [gradients](../labs/GLOSSARY.md#gradient) follow the
# blocks around the ring (15 minutes).
#
# **After this lab you can** (1) merge partial results of attention without overflow, (2) pass
# blocks around a ring while computing, (3) assign positions to ranks so that all of them have equal
# work under a causal mask, and (4, in an optional part) compute from a machine's flop/s and
# [bandwidth](../labs/GLOSSARY.md#bandwidth) from which length on the communication is hidden.
#
# ![Four ranks in a ring, each with its own queries, pass blocks of keys and values to the right; on the timeline of rank 0 the next block arrives while the present one is used](../notebooks/figures/67_ring.svg)
#
# *Left: each rank keeps its queries Q, and blocks of keys and values (KV) travel to the right.
# Right: what rank 0 does. While it computes with one block, the next one arrives.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Level: advanced · Before: 20, 23, 64

# %%
import math

import pandas
import torch
import virtual
from labkit import check, hint, lab, launch, plots, predict, record
from labkit.timing import Ratio
from support import lab67

lab.start("67_context_parallel")
Partial = lab67.Partial
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
heads = 4  # of the attention in the runs on real ranks
size = 32  # numbers of a head
nap = 0.01  # seconds for which a rank of an emulated device sleeps for a pair of chunks
repeat = 10  # runs of it
many = 64  # virtual ranks, at most
patience = 20  # seconds after which a check calls a program stuck


# %% [markdown]
# ## 1. Attention in blocks
# Attention computes for each query *q* the scores *s* = *q*·*k* / √*d* with all keys, where *d* is
# the size of a head ([lab 64](64_tensor_parallel.ipynb)). The softmax of the scores gives the weights with which the values *v*
# are averaged:
#
# $$\text{output} = \frac{\sum_j e^{s_j} v_j}{\sum_j e^{s_j}}$$
#
# Both sums can be computed in parts, so a rank does not need all keys at the same time.
#
# However, e¹⁰⁰ is too large for a 32-bit floating-point number. Implementations therefore subtract
# the largest score from all scores, which does not change the quotient.
#
# If the keys come in blocks, the largest score is known only after the last block. **Online
# softmax** ([Milakov and Gimelshein, 2018](https://arxiv.org/abs/1805.02867)) uses the largest score *so far*, and
# corrects the sums whenever a larger one is found. So it keeps three things for each query:
#
# | term | meaning |
# |---|---|
# | `largest` | the largest score of the query in the blocks seen so far |
# | `total` | the sum of exp(s − `largest`) over these scores |
# | `weighted` | the sum of exp(s − `largest`) · v over these scores |
#
# **An example.** A query sees two keys in one block, and one key in another:
#
# | block | scores | values | `largest` | `total` | `weighted` |
# |---|---|---|---|---|---|
# | first | 2 and 0 | 10 and 20 | 2 | 1 + e⁻² = 1.135 | 10 + 20 · e⁻² = 12.71 |
# | second | 3 | 30 | 3 | 1 | 30 |
#
# In the next cell, `partial` computes the three parts for some keys, and `finish` the output when
# all keys have been seen. (`k.mT` exchanges the last two axes of `k`.)

# %%
def partial(q, k, v, mask=None):
    """What some keys give to some queries, as a Partial(largest, total, weighted).

    q (heads, queries, size), k and v (heads, keys, size). mask (queries, keys): True where a query
    may see a key; None: everywhere.
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    largest = scores.amax(-1, keepdim=True)
    weights = (scores - largest).exp()
    return Partial(largest, weights.sum(-1, keepdim=True), weights @ v)


def finish(part):
    """The output, from the Partial of all keys."""
    return part.weighted / part.total


# %% [markdown]
# How do the two blocks of the example become one? We must not add 12.71 and 30, just as we must not
# add the 3 of 3 km and the 500 of 500 m. Each partial result has its own unit, exp(`largest`): e²
# for the first one, and e³ for the second one. As with lengths, we first convert both to the larger
# unit, and then add. Both factors of the conversion are then at most 1, so nothing can overflow.
#
# ### Exercise 67.1 · Merge two partial results
# Return the `Partial` of all keys of `one` and `other`. About 4 lines. *(intermediate)*
#
# - All parts are tensors with one row for each query, so operations apply to all queries at once.
#   `torch.maximum(a, b)` is the elementwise maximum.
# - The first merge of a query starts from `lab67.nothing(q)`, the `Partial` of no keys. Its
#   `largest` is −∞, and its sums are 0. (Two of these are never merged.)
#
# You can check your formula by hand. For the example, the merged parts have to be 3, 1.418 and
# 34.67, and the output is 34.67 / 1.418 = 24.5.
#
# <details><summary>Hint 1: the factors</summary>
#
# With the new `largest`, the sums of `one` have to be multiplied by exp(`one.largest` − `largest`),
# and those of `other` by exp(`other.largest` − `largest`).
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `largest = torch.maximum(one.largest, other.largest)`, then
# `mine = (one.largest - largest).exp()`, and the same for `other`. The new total is
# `mine * one.total + its * other.total`, and the weighted values are merged in the same way.
# </details>

# %%
def merge(one, other):
    """The Partial of the keys of two Partials together. Neither of them is changed."""
    raise NotImplementedError("exercise 67.1: Merge two partial results")


# %%
# Asked: Two partial results become that of all their keys: for small scores,
# for scores in the thousands, in either order, for heads and queries that
# differ by thousands, and where queries have seen no keys yet, all of them or
# one.
check("67.1", merge)

# %% [markdown]
# ### Measure: does the largest score matter?
# Here 64 queries see 64 keys, in four blocks and in 32-bit numbers. The control adds up exp(s)
# without subtracting anything. We compare the outputs of both with PyTorch's own attention.
#
# In the table, each column is a factor (1, 10 or 100) by which the queries, and so the scores, are
# multiplied.

# %%
generator = torch.Generator().manual_seed(1)
q, k, v = torch.randn(3, heads, 64, size, generator=generator)
table = {}
for factor in (1, 10, 100):
    right = lab67.whole_attention(factor * q, k, v, causal=False)
    done = lab67.nothing(q)
    for keys, values in zip(k.chunk(4, 1), v.chunk(4, 1), strict=True):
        done = merge(done, partial(factor * q, keys, values))
    weights = (factor * q @ k.mT / math.sqrt(size)).exp()
    plain = weights @ v / weights.sum(-1, keepdim=True)
    off = [float((output - right).abs().max()) for output in (finish(done), plain)]
    table[f"scores x {factor}"] = {"online softmax": off[0], "without the largest": off[1]}
print("Largest error:", pandas.DataFrame(table).map("{:.1e}".format), sep="\n")

# %% [markdown]
# **Explain.** Without the largest score, the output is right only as long as the scores are small.
# In the last column it is *not a number* (`nan`), because exp(s) has become infinite there.
#
# The blocks give the same output as PyTorch, up to rounding errors, which grow with the scores. A
# 32-bit number has about 7 digits, so a score of 500 is only known to about 3 · 10⁻⁵, and exp()
# turns this into a relative error of the same size.
#
# [FlashAttention](https://arxiv.org/abs/2205.14135) computes attention in this way on one GPU. We now do it across ranks.
#
# ## 2. Around the ring
# Each of *p* ranks has the queries, keys and values of its own positions. Its queries stay where
# they are. Its keys and values are one array, the **block**, which travels from rank to rank. A
# rank computes with the block that it holds, merges the result with its earlier ones, and goes on
# with the next block. This is **ring attention** ([Liu et al., 2023](https://arxiv.org/abs/2310.01889)).
#
# Computing does not change the block. A rank can therefore send it on *before* it computes with it,
# and receive the next block at the same time. (In the first half of [lab 23](23_ring_allreduce.ipynb)'s ring, a rank had to
# add to a chunk before it could send it on, so the links were idle in the meantime.)
#
# ### Predict
# A ring has 4 ranks. Computing with a block takes 2 ms, and a message 1 ms. How many ms does the
# whole ring take, (a) if each rank computes first, and then sends and receives, and (b) if it does
# both at the same time? The first block is already there, and the last one is not sent on.

# %%
predict("67.2", in_turns=..., overlapped=...)


# %% [markdown]
# To do both at the same time, a rank needs two arrays, which are the block in use, and `room` for
# the next one. A program that reads pages from a disk would use the same pattern:
#
#     request = disk.start_reading(into=spare)
#     use(page)
#     request.Wait()
#     page, spare = spare, page       # exchanges the names, copies nothing
#
# `comm.Isend(array, dest=…)` and `comm.Irecv(array, source=…)` return such requests ([lab 20](20_ranks_and_messages.ipynb)). Until
# `Wait` has returned, an array that is sent must not be changed, and one that is received must not
# be read.
#
# ### Exercise 67.2 · Pass blocks around while computing
# `visit` is a function that the caller gives you, such as one that computes attention with the
# block. Call `visit(block, owner)` once for the block of each rank, your own block first. `owner`
# is the rank to which a block belongs. About 8 lines. *(intermediate)*
#
# - Blocks travel to the next rank, `right`, and the last rank's to rank 0.
# - Before each visit but the last, launch a receive into `room` with `Irecv` and a send of `block`
#   with `Isend`, and wait for both after the visit. After the last visit the block is not needed
#   any more.
# - Blocks are NumPy arrays on virtual ranks and tensors on real ones. No copy of them is needed.
#
# <details><summary>Hint 1: whose block is it?</summary>
#
# In step i, counted from 0, a rank holds the block that its left neighbor had one step earlier.
# This is the block of rank − i (mod *p*).
# </details>
# <details><summary>Hint 2: the last step</summary>
#
# There are `comm.size` visits and `comm.size - 1` messages. Begin each step with `requests = []`,
# and fill the list only if `step < comm.size - 1`.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# `requests = [comm.Irecv(room, source=left), comm.Isend(block, dest=right)]`, then
# `visit(block, (comm.rank - step) % comm.size)`, then wait for each request, and then
# `block, room = room, block`.
# </details>

# %%
def ring(comm, block, room, visit):
    """Call visit(block, owner) for the blocks of all ranks, while they travel to the right.

    block: this rank's own. room: an array like it. Both may hold anything afterwards.
    """
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    raise NotImplementedError("exercise 67.2: Pass blocks around while computing")


# %%
# Asked: Each rank visits the blocks of all ranks, its own first. Messages go to
# the right, are launched before the block is visited, and hide behind it.
# Virtual ranks with NumPy arrays, then real ones with tensors.
check("67.2", ring)

# %% [markdown]
# ### Measure: what is hidden?
# Four virtual ranks ([lab 23](23_ring_allreduce.ipynb)) run your ring with the times of the prediction. The control,
# `lab67.in_turns`, visits a block first, and then sends it with `Sendrecv`.

# %%
runs = {"your ring": lab67.ring_run(ring, 4, visit=2e-3, message=1e-3, trace=True)}
runs["in turns"] = lab67.ring_run(lab67.in_turns, 4, visit=2e-3, message=1e-3, trace=True)
for name, run in runs.items():
    plots.timeline(run, title=f"Four ranks, {name}: {1e3 * run.time:.0f} ms", name=name)
slow = lab67.ring_run(ring, 4, visit=1e-3, message=2e-3)
print(f"If a message takes 2 ms and a visit 1 ms: {1e3 * slow.time:.0f} ms")
right = {"in_turns": 1e3 * runs["in turns"].time, "overlapped": 1e3 * runs["your ring"].time}
predict.right("67.2", **right)


# %% [markdown]
# **Explain.** Your ring takes 4 visits of 2 ms. All three messages are hidden, because each of them
# is shorter than a visit. In turns, the three messages of 1 ms are added to the visits.
#
# If a message takes longer than a visit, as in the printed line, every step takes as long as its
# message, except for the last step, which has none. This makes 3 · 2 ms + 1 ms.
#
# In a sequence that is twice as long, each visit computes four times as much, but its message only
# doubles. So there is a length from which messages are hidden. The first optional part finds it.
#
# ### Measure: the same output on real ranks?
# Ring attention now takes only a few lines, and `visit` merges the partial result of each block.
# The cell runs it on real ranks with 32 positions each, in 64-bit arithmetic, and compares its
# output with PyTorch's attention on all positions. The error should be a rounding error, below
# 10⁻¹².

# %%
def ring_attention(comm, q, k, v):
    """The output of this rank's queries, which see the positions of all ranks."""
    done = lab67.nothing(q)

    def visit(block, owner):
        nonlocal done
        keys, values = block
        done = merge(done, partial(q, keys, values))

    block = torch.stack([k, v])
    ring(comm, block, torch.empty_like(block), visit)
    return finish(done)


positions = 32 * ranks
compared = launch.run(
    lab67.compare_output, ring_attention, False, heads, positions, size, ranks=ranks, threads=1
)[0]
print(f"{ranks} real ranks: largest relative error {compared.errors['output']:.1e}")


# %% [markdown]
# ## 3. The causal mask, and zigzag
# In a language model a position must not see later ones ([lab 64](64_tensor_parallel.ipynb)). With this **causal mask**, about
# half of all pairs of a query and a key are not needed. Cut the positions into 2*p* chunks,
# numbered from 0. The work for a pair of chunks depends on their order:
#
# - If the queries come after the keys, the whole pair is computed.
# - If both are the same chunk, half of the pair is masked.
# - If the queries come before the keys, there is nothing to do.
#
# ![Causal mask over eight chunks as a triangle, and the owner of each chunk: with neighbors the ranks have 0 0 1 1 2 2 3 3, with zigzag 0 1 2 3 3 2 1 0](../notebooks/figures/67_zigzag.svg)
#
# *Left: queries (rows) and keys (columns) in eight chunks. Dark pairs are computed, and the
# pairs on the diagonal are half masked. Right: two ways to assign the chunks to four ranks, each
# with its own color, and what a rank has to compute in all.*
#
# If each rank owns two **neighboring** chunks, the last rank has to compare its queries with all
# keys, and the first rank has hardly anything to do. The next layer has to wait for the last rank.
#
# A balanced assignment gives each rank one early and one late chunk. It is called **zigzag**,
# because the owners of the chunks are 0, 1, …, *p* − 1, and then back to 0.
#
# **An example.** With neighboring chunks, rank 0 of 2 owns chunks 0 and 1, and rank 1 owns chunks 2
# and 3. They compute these pairs (query, key):
#
# | queries of | block of | whole pairs | half pairs | sum |
# |---|---|---|---|---|
# | rank 0 | rank 0 | (1, 0) | (0, 0) and (1, 1) | 2 |
# | rank 0 | rank 1 | none | none | 0 |
# | rank 1 | rank 1 | (3, 2) | (2, 2) and (3, 3) | 2 |
# | rank 1 | rank 0 | (2, 0), (2, 1), (3, 0) and (3, 1) | none | 4 |
#
# ### Exercise 67.3 · Equal work for all
# 1 to 4 lines each. *(intermediate)*
#
# - `zigzag` returns the two chunks of a rank as two integers.
# - `work` returns how many pairs of chunks have to be computed for some chunks of queries and some
#   chunks of keys, where a pair of equal chunks counts a half.
#
# <details><summary>Hint 1: the late chunk</summary>
#
# Rank 0 owns the first and the last chunk, which are 0 and 2*p* − 1. Rank 1 owns the second and the
# second to last.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `zigzag` returns `rank, 2 * ranks - 1 - rank`. For `work`, go through all `query in queries` and
# `key in keys`: add 1 if `query > key`, and 0.5 if they are equal.
# </details>

# %%
def zigzag(rank, ranks):
    """The indices of the two chunks that a rank owns, of 2 * ranks chunks."""
    raise NotImplementedError("exercise 67.3: Equal work for all")


def work(queries, keys):
    """Pairs of chunks to compute with the causal mask; one of equal chunks counts a half.

    queries, keys: indices of chunks, such as (2, 3).
    """
    raise NotImplementedError("exercise 67.3: Equal work for all")


# %%
# Asked: The work of some pairs of chunks. Then each chunk belongs to one rank,
# and in each step all ranks have as much to compute.
check("67.3", zigzag, work)


# %%
def neighbors(rank, ranks):
    """The chunks of a rank that has neighboring positions."""
    return 2 * rank, 2 * rank + 1


masked = {"neighbors": neighbors, "zigzag": zigzag}
table = pandas.DataFrame(lab67.pairs_by_step(masked, work, 4)).rename_axis("step")
print("Pairs to compute in each step, and those of the slowest rank", table.to_string(), sep="\n")

# %% [markdown]
# ### Predict
# A step takes as long as its slowest rank. For neighbors, the slowest rank in the table has 2 pairs
# in the first step and 4 in every other step. With zigzag, it has 2 in every step. These values are
# the same for any number of ranks. How many times as fast is zigzag on 2 ranks, and on 64 ranks?

# %%
predict("67.3", on_2_ranks=..., on_64_ranks=...)

# %% [markdown]
# ### Measure: on the virtual cluster
# Rings of virtual ranks spend 1 ms on each pair of chunks, and their messages take 1 ms. The
# control is a ring without a mask, whose ranks all compute four pairs in each step.

# %%
counts = [p for p in (2, 4, 8, 16, 32, 64) if p <= many]
times = {
    name: {p: lab67.balance_run(ring, owned, p).time for p in counts}
    for name, owned in masked.items()
}
faster = {
    f"causal, {name}": {p: 4e-3 * p / of_ranks[p] for p in counts}
    for name, of_ranks in times.items()
}
axes = {"xlabel": "ranks", "ylabel": "times as fast as without a mask", "logx": True}
plots.lines(faster, title="Only balanced work saves half of the time", **axes)
gains = {p: times["neighbors"][p] / times["zigzag"][p] for p in counts}
predict.right("67.3", on_2_ranks=gains[2], on_64_ranks=gains[counts[-1]])

# %% [markdown]
# **Explain.** The mask saves half of the work, but with neighboring chunks it saves little time. In
# every step but the first, some rank has to compute all four pairs. On four ranks, the slowest
# ranks of the four steps therefore compute 14 pairs, where without a mask they compute 16.
#
# With zigzag all ranks compute two pairs in *every* step, so no rank waits for another. Zigzag is
# (4*p* − 2) / (2*p*) times as fast as neighbors, which is 1.5 on 2 ranks and approaches 2 for many.
#
# ### Measure: on real ranks
# First we compare the outputs of both assignments with full causal attention. They are computed by
# `lab67.forward`, which is like `ring_attention`, but a rank owns two chunks, and calls `partial`
# only for the pairs that the mask leaves. If each rank has its own GPU, tensors stay there, and
# [NCCL](../labs/GLOSSARY.md#NCCL) sends them ([lab 64](64_tensor_parallel.ipynb)).
#
# Then we time your ring. If there are fewer cores than ranks, a rank that has nothing to do would
# leave its core to the others. Therefore each rank uses an emulated device that needs no core ([lab 63](63_pipeline_parallel.ipynb)). It *sleeps* for 10 ms for each pair of chunks instead of computing, but ranks and messages
# are real. The cell takes about 10 s.

# %%
parts = lab67.Parts(partial, merge, ring)
ways = {name: (parts, owned, True) for name, owned in masked.items()}
results = launch.run(lab67.compare_ways, ways, heads, 16, size, ranks=ranks, threads=1)[0]
lab67.record_compared("causal, ", results, ranks)
for way, compared in results.items():
    print(f"{way}, on {compared.device}: largest relative error {compared.errors['output']:.1e}")

ways = {name: (owned, work) for name, owned in masked.items()}
ways = {"no mask": (neighbors, lambda queries, keys: 4), **ways}
times = launch.run(lab67.sleep_through, ring, ways, nap, repeat, ranks=ranks, threads=1)[0]
for way, measured in times.items():
    record.add("ring", way=way, ranks=ranks, nap=nap, seconds=measured, **record.BY_MPI)
plots.spread(times, title=f"A ring of {ranks} real ranks that sleep")
for way in ("no mask", "neighbors"):
    share = Ratio(times[way], times["zigzag"])
    record.add("over zigzag", way=way, ranks=ranks, nap=nap, share=share, **record.BY_MPI)
    print(f"{way}: {share.median:.2f} times as long as zigzag")


# %% [markdown]
# **Explain.** Both errors are rounding errors. With four ranks, the slowest ranks have 16 pairs
# without a mask, 14 with neighbors and 8 with zigzag. So the ring without a mask should take about
# 2 times as long as zigzag, and neighbors about 1.75 times.
#
# On a busy machine each sleep ends late by about the same time, however long it is, which pulls
# both ratios toward 1.
#
# ### What you take away
# - Partial results of attention can be merged exactly if each of them carries its largest score,
#   its sum of exponentials and its weighted values.
# - In a ring, a block is sent on *before* it is used, so that its message can be hidden behind the
#   computation (shown here on virtual ranks). This takes a long sequence, because computing grows
#   faster than the messages.
# - A causal mask saves time only if the work is balanced in every step, as with zigzag.
#
# ## Going further (optional): bytes, and when they are hidden
# This part takes about 30 more minutes.
#
# A ring is not the only way to bring queries and keys together. Two other ways are common:
#
# - **Allgather**: every rank receives all keys and values, and then computes. This is simple, and
#   any mask can be used, but the messages come before the computation.
# - **Ulysses** ([Jacobs et al., 2023](https://arxiv.org/abs/2309.14509)): an **all-to-all** exchanges positions for
#   heads. Before it, a rank has all heads of its positions, and afterwards all positions of its
#   heads. The rank computes attention for its heads as one process would, and a second all-to-all
#   brings the output back to the owners of the positions.
#
# The given function `lab67.all_to_all` cuts a tensor into one part for each rank along the axis
# `cut`, and joins the parts that arrive along the axis `join`. With it, Ulysses takes only a few
# lines, and needs neither `merge` nor zigzag:

# %%
def ulysses(comm, q, k, v):
    """The output of causal attention for this rank's positions, which are neighbors.

    q, k, v: (all heads, own positions, size).
    """
    mine = [lab67.all_to_all(comm, tensor, cut=0, join=1) for tensor in (q, k, v)]
    output = lab67.whole_attention(*mine)  # (own heads, all positions, size)
    return lab67.all_to_all(comm, output, cut=1, join=0)


compared = launch.run(
    lab67.compare_output, ulysses, True, heads * ranks, positions, size, ranks=ranks, threads=1
)[0]
lab67.record_compared("", {"Ulysses": compared}, ranks)
print(f"Ulysses on {ranks} real ranks: largest relative error {compared.errors['output']:.1e}")

# %% [markdown]
# The error can be exactly 0, because each head is computed by the same function on the same numbers
# as in one process.
#
# ### How many bytes?
# Does the ring send less than the other two? Every layer of a model sends its own messages. These
# symbols describe one layer:
#
# | symbol | meaning |
# |---|---|
# | *n* | positions in the sequence, of which a rank has *n*/*p* |
# | `hidden` | numbers in the queries of a position, in all heads; the output has as many |
# | `kv` | numbers in the keys of a position; the values have as many |
# | `size` | bytes of a number, 2 for 16-bit numbers (and not, as above, the numbers of a head) |
#
# In the simplest case `kv` equals `hidden`. In models with **grouped-query attention**, several
# heads of queries share one head of keys and values, so `kv` is smaller. In Llama 3 with 405
# billion parameters, it is 1/16 of `hidden` ([Grattafiori et al., 2024](https://arxiv.org/abs/2407.21783)).
#
# **An example.** For 8 ranks, *n* = 8,000, `kv` = `hidden` = 2,048 and numbers of 2 bytes, a block
# contains the keys and values of 1,000 positions. This is 1,000 · 2 · 2,048 · 2 bytes = 8.2 MB.
#
# ### Predict
# For `kv` = `hidden` and 8 ranks, how many times as many bytes does a rank send in the [forward pass](../labs/GLOSSARY.md#forward-pass)
# with a ring as with Ulysses? Ulysses exchanges four arrays (queries, keys, values and output), and
# a rank keeps 1/*p* of its part of each without sending it.

# %%
predict("67.4", ring_over_ulysses=...)


# %% [markdown]
# ### When is a message hidden?
# In each step, the *n*/*p* queries of a rank meet the *n*/*p* keys of a block. With zigzag, the
# mask leaves half of these pairs of positions, that is, (*n*/*p*)² / 2 pairs. The message of this
# step, a block, travels in the meantime.
#
# Each pair costs 4 · `hidden` operations, which are 2 · `hidden` for the score (a multiplication
# and an addition for each number), and 2 · `hidden` for the weighted value.
#
# In the example above, a step takes the following times, so this sequence is too short by far:
#
# | part of the step | amount | rate | time |
# |---|---|---|---|
# | 500,000 pairs | 4.1 · 10⁹ operations | 740 · 10¹² operations/s (a GPU) | 5.5 μs |
# | the message | 8.2 MB | 48 GB/s (a link) | 171 μs |
#
# ### Exercise 67.4 · Bytes sent, and the length that hides them (optional)
# Write two functions, about 7 lines in all. *(intermediate)*
#
# - `bytes_sent` returns the bytes that one rank sends in the forward pass, for `"ring"`,
#   `"allgather"` and `"Ulysses"`. We assume that the allgather passes the blocks around a ring, so
#   it sends as much as the ring. Ulysses exchanges the four arrays of the prediction.
# - `hides_from` returns the positions *n* of the whole sequence from which a step (with zigzag)
#   computes at least as long as its message takes. `flops` is the number of operations that a rank
#   performs per second, and `bandwidth` the number of bytes that it can send per second. Neglect
#   the [latency](../labs/GLOSSARY.md#latency).
#
# <details><summary>Hint 1: bytes</summary>
#
# A block has `n / ranks * 2 * kv * size` bytes, and takes `ranks - 1` steps. Ulysses sends
# `(ranks - 1) / ranks` of four arrays: queries and output, with `hidden` numbers for each of the
# rank's positions, and keys and values, with `kv` numbers.
# </details>
# <details><summary>Hint 2: the equation</summary>
#
# Let *m* = *n*/*p*. Computing takes *m*² / 2 · 4 · `hidden` / `flops` seconds, and the message
# takes *m* · 2 · `kv` · `size` / `bandwidth` seconds. Set them equal, and solve for *m*.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# *m* = `kv / hidden * size * flops / bandwidth`, and the sequence has `ranks` times as many
# positions.
# </details>

# %%
def bytes_sent(n, ranks, hidden, kv, size):
    """Bytes that a rank sends in a layer's forward pass: {"ring": …, "allgather": …,
    "Ulysses": …}."""
    raise NotImplementedError("exercise 67.4: Bytes sent, and the length that hides them (optional)")


def hides_from(ranks, hidden, kv, size, flops, bandwidth):
    """Positions of a sequence from which a ring with zigzag hides its messages."""
    raise NotImplementedError("exercise 67.4: Bytes sent, and the length that hides them (optional)")


# %%
# Asked: The bytes of virtual runs. Then 2 % more positions hide the messages,
# and 2 % fewer do not. It needs a ring that overlaps.
check("67.4", bytes_sent, hides_from)

# %%
sent = bytes_sent(131_072, 8, 2048, 2048, 2)
print({way: f"{nbytes / 1e6:.0f} MB" for way, nbytes in sent.items()})
predict.right("67.4", ring_over_ulysses=sent["ring"] / sent["Ulysses"])

# %% [markdown]
# With `kv` = `hidden`, the ring sends *p*/2 times as many bytes as Ulysses, so 4 times as many on 8
# ranks. With more ranks, each rank sends less with Ulysses. With the ring, it sends nearly 2 · `kv`
# · `size` · *n* bytes on any large number of ranks. Does the ring ever pay off, then?
#
# ### Compute: a ring on eight H100 GPUs
# Eight virtual ranks run a layer in 16-bit numbers, with these assumptions:
#
# | assumption | value | source |
# |---|---|---|
# | `hidden` | 2,048 | the part of one of 8 tensor ranks of Llama 3's largest model |
# | computing | 740 · 10¹² flop/s | the best rate that [Shah et al. (2024)](https://arxiv.org/abs/2407.08608) measured with FlashAttention-3 on an H100 |
# | link between nodes | 48 GB/s | the machine model `h100_ndr` |
#
# We use the rate of computing for steps of any length, although short steps may not reach it.
#
# In the plot, each rank is on a separate node. The plot shows the time of the ring, divided by that
# of computing alone. Above 1, its messages make the layer take longer. Where a curve meets 1, they
# are hidden. The vertical lines are at the lengths that your formula gives.
#
# The table compares these lengths with those of the simulation, where the ring takes at most 1 %
# longer than computing. It also has eight GPUs in one node, connected by NVLink.

# %%
flops = 740e12
machine = virtual.machine("h100_ndr")
links = {
    "one NIC each": (machine.between, virtual.Cluster(nodes=8, machine=machine)),
    "NVLink": (machine.inside, virtual.Cluster(nodes=1, ranks_per_node=8, machine=machine)),
}
nodes = links["one NIC each"][1]
models = {kv: lab67.Model(2048, kv, 2, flops) for kv in (2048, 128)}


def relative(way, n, model):
    """Time of a layer on eight nodes, divided by that of computing alone."""
    return lab67.layer_run(ring, way, n, 8, model, nodes).time / (8 * model.visit(n / 8))


lengths = [round(1000 * 2 ** (power / 2)) for power in range(6, 21)]
curves = {}
rows = []
for kv, model in models.items():
    times = [relative("ring", n, model) for n in lengths]
    curves[f"ring, kv = {kv}"] = ([n / 1000 for n in lengths], times)
    formula = hides_from(8, 2048, kv, 2, flops, machine.between.bandwidth)
    curves[f"formula, kv = {kv}"] = ([formula / 1000, formula / 1000], [1, 10])
    for name, (link, cluster) in links.items():
        formula = hides_from(8, 2048, kv, 2, flops, link.bandwidth)
        simulated = lab67.hidden_from(ring, 8, model, cluster)
        rows.append({"link": name, "kv": kv, "formula": formula, "simulated": simulated})
axes = {"xlabel": "positions / 1000", "ylabel": "time / computing alone"}
title = "Eight H100 on eight nodes: long sequences hide a ring"
plots.lines(curves, title=title, logx=True, logy=True, markers=False, **axes)
print("The ring is hidden from this number of positions on:")
print(pandas.DataFrame(rows).to_string(index=False, float_format="{:,.0f}".format))

# %% [markdown]
# **Explain.** With `kv` = `hidden`, the ring between nodes hides its messages from the length on
# that your formula gives, about 247,000 positions.
#
# With grouped-query attention (`kv` = 128), the formula gives a sixteenth of this. The simulated
# ring needs about 1.4 times as many positions as the formula gives, because the formula neglects
# the latency. At this length a step computes for only about 20 μs, and each message has a latency
# of several μs.
#
# Over NVLink, steps are shorter still, and for `kv` = 128 the latency alone determines the length.
# So use the formula if a step takes much longer than the latency.
#
# ### Compute: the ring against the others
# The next table has the same times for all three ways, again with one rank on each node, divided by
# that of computing alone. Look for the smallest number in each column.

# %%
table = {
    (f"kv = {kv}", f"{n:,}"): {way: relative(way, n, model) for way in lab67.WAYS}
    for kv, model in models.items()
    for n in (32_000, 128_000, 180_000, 190_000, 256_000)
}
print("Time / computing alone", pandas.DataFrame(table).round(2).to_string(), sep="\n")


# %% [markdown]
# **Explain.** From the length on at which its messages are hidden, the ring adds no time. The
# messages of Ulysses and of the allgather always add time, because here they come before or after
# the computation. (Between processes that compute on CPU cores you could not measure this, because
# a core has to copy each message.)
#
# Whether Ulysses is better for shorter sequences depends on the model:
#
# - For `kv` = `hidden`, Ulysses is the fastest up to about 185,000 positions, because it sends a
#   quarter of the bytes. From there on, the ring is faster, although a part of its messages is not
#   hidden yet.
# - With grouped-query attention, Ulysses is the slowest, because it also exchanges the queries and
#   the output, which are much longer than the keys and values here.
# - Each rank needs at least one head of the queries, and one of the keys and values. In Llama 3,
#   `kv` = 128 is a single head, so eight ranks would have to copy it and send more than the table
#   counts.
#
# Why does Llama 3 use an allgather, although its messages are never hidden?
# <details><summary>Answer</summary>
#
# Its authors give two reasons. The first is that an allgather makes it easier to support different
# masks, such as one that separates the documents in a sequence.
#
# The second is that with grouped-query attention, the keys and values are much smaller than the
# queries, so the exposed allgather costs little. Its time grows with <i>n</i>, while that of
# attention grows with <i>n</i>². The table shows this second reason.
# Llama 3 also assigns the chunks by zigzag.
# </details>
#
# In short:
#
# - A ring hides its messages from *n* = *p* · (`kv` / `hidden`) · `size` · flop/s / bandwidth
#   positions on, if its steps are much longer than the latency.
# - If keys are as long as queries and there are more than two ranks, Ulysses sends fewer bytes,
#   which makes it faster for shorter sequences.
# - With grouped-query attention, even an exposed allgather costs little.
#
# ## Going further (optional): the backward pass
# This part takes about 15 more minutes.
#
# For training we need the gradients of the queries, keys and values. Their formulas use these
# symbols:
#
# | symbol | meaning |
# |---|---|
# | *L* | the **log-sum-exp** of all scores of a query: `largest` + log(`total`) after all keys |
# | *P* | the weights of a block, exp(*s* − *L*) |
# | d*O* | the gradient of the output *O* |
# | ∘ | multiplication element by element |
# | *D* | the sum of d*O* ∘ *O* in each row |
#
# Then the gradients are ([FlashAttention](https://arxiv.org/abs/2205.14135) has the derivation):
#
# $$dV = P^T dO \qquad dS = P \circ (dO\,V^T - D) \qquad dQ = dS\,K/\sqrt{d} \qquad dK = dS^T Q/\sqrt{d}$$
#
# You don't need to follow them in detail. The important point is which data they need. In addition
# to the block, these are only the rank's own queries, d*O*, *D* and *L* (`lab67.forward` returns
# *L* together with the output). With these a rank can compute the weights of any block again, so
# the blocks may come in any order.

# %%
def back(q, k, v, gradient, log_sum, delta, mask=None):
    """(dQ, dK, dV) of some queries and some keys. gradient: dO. log_sum: of all scores of these
    queries. delta: D."""
    scale = 1 / math.sqrt(q.shape[-1])
    scores = scale * q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = (scores - log_sum).exp()
    of_scores = weights * (gradient @ v.mT - delta)
    return scale * of_scores @ k, scale * of_scores.mT @ q, weights.mT @ gradient


# %% [markdown]
# The blocks travel around the ring once more. d*Q* belongs to a rank's own queries and is added up
# where it is. d*K* and d*V* belong to the block. Every rank adds its **share** to them, so they
# travel with the block, one step behind it.
#
# With four ranks, block 0 is visited by the ranks 0, 1, 2 and 3. Its gradient is complete when rank
# 3 has added its share. It then makes one more step, from rank 3 to rank 0, which owns the block.
#
# Again we do not want to wait. A rank can compute its share before the shares of the other ranks
# have arrived, because it only has to add them. So in each step a rank computes its share, and
# *then* waits for the sum that its left neighbor has launched one step earlier.
#
# ### Predict
# The gradient of a block has as many bytes as the block. There are four ranks. Divide the bytes
# that one of them sends in the [backward pass](../labs/GLOSSARY.md#backward-pass), in blocks and in gradients, by those of the forward
# pass.

# %%
predict("67.5", back_over_forward=...)


# %% [markdown]
# ### Exercise 67.5 · Gradients travel with their block (optional)
# `pass_on` is called after each of the *p* visits with this rank's `share` in the gradient of the
# visited block. About 4 lines. *(advanced)*
#
# 1. Wait for the requests that the previous call has launched. Then `arriving` contains what the
#    ranks before you have added up for this block.
# 2. Add it to `share`.
# 3. Launch two messages: send `share` to the right, and receive the next sum from the left into
#    `arriving`. By convention, gradients have `tag=1`.
# 4. Return the list of the two requests.
#
# The caller makes the arrays, which are again NumPy arrays or tensors:
#
# | argument | in all calls | in the first call |
# |---|---|---|
# | `share` | a new array in each call, which `pass_on` may change | no difference |
# | `arriving` | the same array in all calls | contains zeros |
# | `launched` | the list that the previous call returned | empty |
#
# After the last visit the caller waits for your last requests, and `arriving` is then the gradient
# of the rank's own block.
#
# <details><summary>Hint 1: the order</summary>
#
# Wait, add, launch. You must not add before the wait, because `arriving` may still be incomplete,
# and you must not receive before the addition, because this would overwrite `arriving`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for request in launched: request.Wait()`, then `share += arriving`, then return
# `[comm.Irecv(arriving, source=left, tag=1), comm.Isend(…)]`.
# </details>

# %%
def pass_on(comm, share, arriving, launched):
    """Add what has arrived to `share`, and send the sum to the right.

    share: this rank's part of the gradient of the block that it has visited; may be changed.
    arriving: into which the gradient of the next block is received. launched: list of the requests
    of the previous call. Returns the list of the requests launched now.
    """
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    raise NotImplementedError("exercise 67.5: Gradients travel with their block (optional)")


# %%
# Asked: The gradient of each block comes back to its owner with the shares of
# all ranks. A gradient travels while the next share is computed. Virtual ranks
# with NumPy arrays, then real ones with tensors.
check("67.5", pass_on)


# %% [markdown]
# ### Measure: forward and backward against one process
# Real ranks run both passes with your functions in 64-bit arithmetic. Every rank also computes full
# attention, and its gradients by PyTorch's [autograd](../labs/GLOSSARY.md#autograd). In the control the gradients stay where they
# are, so each rank adds up the shares of all blocks that pass.
#
# The table shows the largest relative error, which is the largest difference divided by the largest
# right value. The mask is causal only in the row *causal, zigzag*.

# %%
def stay(comm, share, arriving, launched):
    """In place of pass_on: gradients do not travel."""
    arriving += share
    return []


both = parts._replace(back=back, pass_on=pass_on)
ways = {
    "your ring": (both, neighbors, False),
    "gradients stay": (both._replace(pass_on=stay), neighbors, False),
    "causal, zigzag": (both, zigzag, True),
}
results = launch.run(lab67.compare_ways, ways, heads, 16, size, ranks=ranks, threads=1)[0]
lab67.record_compared("both passes, ", results, ranks)
table = {way: compared.errors for way, compared in results.items()}
print(f"{ranks} real ranks, {results['your ring'].device}. Largest relative error:")
print(pandas.DataFrame(table).T.map("{:.1e}".format))
there, again = results["your ring"].sent
print(f"A rank sends {there} bytes in the forward pass, {again} in the backward pass.")
predict.compare("67.5", back_over_forward=again / there)

# %% [markdown]
# **Explain.** All four results of your ring agree with one process up to rounding, also with the
# causal mask. If the gradients stay where they are, the output and d*Q* are still right, and only
# d*K* and d*V* are wrong. Without the comparison, this mistake would be hard to notice.
#
# In the forward pass a block takes *p* − 1 steps. In the backward pass it takes *p* − 1 steps
# again, and its gradient takes *p*, so four ranks send 7/3 times as much. Are the messages of the
# backward pass more difficult to hide?
# <details><summary>Answer</summary>
#
# No. The backward pass also computes more: `partial` has two products of matrices, while `back` has
# five. In each step it computes 5/2 times as much and sends twice as much, so it hides these
# messages slightly better. Only the last step of the gradient has nothing to hide behind.
# </details>
#
# ### Further reading
# - M. Milakov and N. Gimelshein, *[Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867)*, 2018. The online softmax.
# - T. Dao et al., *[FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness](https://arxiv.org/abs/2205.14135)*, NeurIPS, 2022. Attention in blocks on one GPU, forward and backward.
# - H. Liu, M. Zaharia and P. Abbeel, *[Ring Attention with Blockwise Transformers for Near-Infinite Context](https://arxiv.org/abs/2310.01889)*, 2023. Ring attention, and its condition for hidden messages (without a mask, so half the
#   length is enough).
# - W. Brandon et al., *[Striped Attention: Faster Ring Attention for Causal Transformers](https://arxiv.org/abs/2311.09431)*, 2023. Another assignment that balances the causal mask.
# - S. Jacobs et al., *[DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme Long Sequence Transformer Models](https://arxiv.org/abs/2309.14509)*, 2023. Ulysses, with its count of bytes.
# - A. Grattafiori et al., *[The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783)*, 2024. Section 3.3.2 describes context parallelism by an allgather.
# - [ring-flash-attention](https://github.com/zhuzilin/ring-flash-attention). Rings with zigzag for GPUs, in a few hundred lines.
