# %% [markdown]
# # 66 Expert parallelism
#
# A larger model learns more, but every token then passes through more parameters, and computing
# gets more expensive. A **mixture of experts** (MoE) breaks this link. A layer has many small MLPs
# (multi-layer perceptrons), the *experts*, and a *router* sends each token to only a few of them.
# DeepSeek-V3 has 671 billion parameters, of which a token uses 37 billion.
#
# No single GPU can hold all of these experts, so they are distributed over the ranks, and in every
# layer the tokens travel to their experts and back. The router decides only during the step. It is
# therefore not known in advance how many bytes a rank will send, or whether one rank will get most
# of the work.
#
# In this lab we build a mixture-of-experts layer: a top-k router, and the two exchanges around the
# experts, *dispatch* and *combine*, with `Alltoallv` on real ranks. We check that it trains as one
# process does, and compare it with a layer whose experts are all cut as in lab 64.
#
# Three optional parts follow: experts that drop tokens (about 10 minutes more), the link that
# limits the exchanges (10 minutes), and a layout for DeepSeek-V3 (20 minutes).
#
# **After this lab you can** (1) write a router and its load-balancing loss, (2) write dispatch and
# combine, and test that they compute what one device does, (3) say what imbalance costs, (4)
# compare expert parallelism with tensor parallelism in bytes, time and memory, and (5, in the
# optional parts) explain which link limits the exchanges, and how an all-to-all in two hops helps.
#
# ![Two ranks with two experts each: the router chooses an expert for each token, dispatch brings the token to the rank of that expert, combine brings the result back](66_layer.svg)
#
# *An MoE layer on two ranks, with one expert per token. Dispatch and combine are all-to-alls (every
# rank sends to every rank), and the lengths of their messages depend on what the router has
# chosen.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Level: advanced · Before: 21, 26, 62, 64

# %%
import math
from functools import partial

import numpy as np
import pandas
import torch
import virtual
from labkit import check, hint, lab, launch, plots, predict, record
from support import lab66
from torch.nn.functional import one_hot

lab.start("66_expert_parallel")

# %% tags=["parameters"]
count = 16  # experts of a layer
chosen = 2  # experts of each token
steps = 150  # steps of each training
tokens = 256  # tokens of a rank in a step
many = 512  # tokens of a rank where layouts are compared
wide = 384  # numbers of a token there
seconds = 20.0  # of measuring both layouts with all routings, which take turns
ranks_of_map = 64  # virtual ranks, eight a node
rows_of_map = (8, 32, 128, 512, 4096)  # tokens of a virtual rank
most = 3  # ranks on which checks run, where no launcher says how many there are
patience = 20  # seconds after which a check calls a program stuck

# %% [markdown]
# ## 1. The router
# How does a layer decide which experts a token visits? These are the words for it:
#
# | term | meaning |
# |---|---|
# | **expert** | one of the MLPs of an MoE layer |
# | **router**, gate | a small matrix that gives each token a score for each expert |
# | k | number of experts per token (*top-k routing*) |
# | choice | one token with one of its k experts; T tokens make k·T choices |
# | **load** | number of choices that go to an expert, or to a rank |
#
# The softmax of a token's scores gives its *probabilities*. The token goes to the k experts with
# the largest probabilities, and the layer returns a weighted sum of what these experts compute. The
# **weights** are their probabilities, divided by their sum so that they add up to 1. For example,
# with k = 2:
#
# | expert | 0 | 1 | 2 | 3 |
# |---|---|---|---|---|
# | probability | 0.5 | 0.1 | 0.3 | 0.1 |
# | weight | 0.625 | not chosen | 0.375 | not chosen |
#
# Gradients reach the router through the weights, but not through the choice.
#
# So far, the router has no reason to use all experts. In a long training run, an expert that is
# chosen more often learns more, so it is chosen even more often
# ([Shazeer et al., 2017](@shazeer2017)). The **load-balancing loss** works against this. In the
# form of [Switch Transformers](@fedus2021) it is, for E experts,
#
# $$ L = E \sum_{e} f_e P_e $$
#
# where $f_e$ is the share of all choices that go to expert e, and $P_e$ its mean probability over
# all tokens. If all $f_e$ and $P_e$ are 1/E, the loss is 1. If two experts have f = (0.75, 0.25)
# and P = (0.6, 0.4), it is 2 · (0.45 + 0.1) = 1.1.
#
# Only $P_e$ has a gradient, and where $f_e$ is large, the loss lowers the probability. The
# load-balancing loss is multiplied by a small factor α and added to the loss of the model.
#
# ### Exercise 66.1 · Top-k router and load-balancing loss
# Write both functions. `tensor.topk(k, dim=1)` returns the k largest values of each row and their
# places, `tensor.softmax(dim=1)` works on rows, and `torch.bincount(numbers, minlength=n)` counts
# how often each of 0 … n − 1 occurs. 3 lines each. *(beginner)*
#
# <details><summary>Hint 1: the router</summary>
#
# `best, experts = scores.softmax(dim=1).topk(k, dim=1)`. Divide `best` by its sum over dimension 1,
# with `keepdim=True`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For the loss, `share = torch.bincount(experts.flatten(), minlength=scores.shape[1])` divided by
# `experts.numel()`, and `scores.softmax(dim=1).mean(dim=0)` are $f_e$ and $P_e$.
# </details>


# %%
def route(scores, k):
    """scores: (tokens, experts). Returns weights and numbers of each token's k experts, both
    (tokens, k)."""
    ### BEGIN SOLUTION
    best, experts = scores.softmax(dim=1).topk(k, dim=1)
    weights = best / best.sum(dim=1, keepdim=True)
    return weights, experts
    ### END SOLUTION


def balance_loss(scores, experts):
    """The load-balancing loss of these scores (tokens, experts) and choices (tokens, k)."""
    ### BEGIN SOLUTION
    share = torch.bincount(experts.flatten(), minlength=scores.shape[1]) / experts.numel()
    probability = scores.softmax(dim=1).mean(dim=0)
    return scores.shape[1] * (share * probability).sum()
    ### END SOLUTION


# %%
check("66.1", route, balance_loss)

# %% [markdown]
# ## 2. Rows that travel
# Now the experts are distributed. For p ranks, rank 0 has the first E/p experts, rank 1 the next
# E/p, and so on. This is **expert parallelism**. Tokens are distributed as in data parallelism, so
# each rank has its own tokens. How do they reach their experts?
#
# The collective for this is an **all-to-all**, in which every rank sends a different message to
# every rank. `comm.Alltoall(a, b)` sends messages of equal length, where `a` has one equal part for
# each rank.
#
# If the lengths differ, `comm.Alltoallv` needs them from both sides. For example, on rank 0 of two
# ranks, this sends 1 number to rank 0 (itself) and 3 to rank 1, and receives 1 from rank 0 and 2
# from rank 1:
#
#     comm.Alltoallv([numbers, [1, 3]], [box, [1, 2]])
#
# What is received is in `box`, in the order of the ranks. Both `numbers` and `box` can be torch
# tensors, which are passed as they are.
#
# MPI counts *numbers*, but we send *rows*. A **row** is the vector of one token for one of its
# choices and has `width` numbers, so n rows are n · width numbers.
#
# An exchange only moves rows, so its backward pass moves the gradients of the rows back to where
# the rows came from. This is the same exchange with the two lists of counts swapped.
#
# ### Exercise 66.2 · Exchange and its gradient
# Fill `arrived` with one call, and write `backward`. `sent[r]` is the number of rows for rank r,
# and `received[r]` the number from rank r. All ranks make the call, also a rank without rows. As in
# lab 64, `backward` returns one value for each argument after `ctx`, so four. About 4 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: rows and numbers</summary>
#
# `[width * rows for rows in sent]` gives how many numbers are sent to each rank.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Backward: `exchange(ctx.comm, gradient, …, …)` with the two lists of counts swapped, and `None`
# three times.
# </details>


# %%
def exchange(comm, rows, sent, received):
    """Send sent[r] rows to rank r, in order, and return the received[r] rows of each rank, in
    order."""
    rows = rows.detach().contiguous()
    width = rows.shape[1]
    arrived = rows.new_empty(sum(received), width)
    ### BEGIN SOLUTION
    outgoing = [width * number for number in sent]
    incoming = [width * number for number in received]
    # Across ranks: every rank sends to every rank, each pair as many rows as it has.
    comm.Alltoallv([rows, outgoing], [arrived, incoming])
    ### END SOLUTION
    return arrived


class Exchange(torch.autograd.Function):
    """exchange, with a backward pass."""

    @staticmethod
    def forward(ctx, rows, comm, sent, received):
        ctx.comm = comm
        ctx.sent = sent
        ctx.received = received
        return exchange(comm, rows, sent, received)

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        # Across ranks: gradients go back the way that rows came.
        return exchange(ctx.comm, gradient, ctx.received, ctx.sent), None, None, None
        ### END SOLUTION


# %%
check("66.2", exchange, Exchange)

# %% [markdown]
# ### Dispatch and combine
# Before the exchange, the rows have to be sorted by expert, so that those for one rank are
# adjacent. Take rank 0 of two ranks with two experts each, and five choices for the experts 2, 0,
# 3, 0, 1:
#
# | position | 0 | 1 | 2 | 3 | 4 |
# |---|---|---|---|---|---|
# | expert of the choice at this position, before sorting | 2 | 0 | 3 | 0 | 1 |
# | `order`: which choice comes here after sorting | 1 | 3 | 4 | 0 | 2 |
# | its expert | 0 | 0 | 1 | 2 | 3 |
#
# Rank 0 sends 3 rows to rank 0 (itself) and 2 to rank 1.
#
# The other ranks do not know how many rows will come, so the ranks first exchange their counts.
# `counts[r]` has a number for each expert of rank r, here [2, 1] for rank 0 and [1, 1] for rank 1.
# After `comm.Alltoall(counts, arriving)`, `arriving[r]` says how many rows rank r sends to each of
# *this* rank's experts.
#
# After the experts, the results go back by the same exchange in the other direction, and arrive in
# the order in which the rows were sent. `combine` puts them back in the order of the choices,
# multiplies them by their weights, and adds them up for each token.
#
# ### Exercise 66.3 · Dispatch and combine
# Complete both functions. You need these calls:
# - To tell all ranks the counts, use `comm.Alltoall(counts, arriving)`.
# - To sort, use `experts.argsort()`.
# - To count, use `counts.sum(dim=1).tolist()`, which adds up the experts of each rank and returns a
#   list.
# - To send, use `Exchange.apply(rows, comm, sent, received)`.
# - To add up, use `result.index_add(0, token, rows)`, which adds `rows[i]` to `result[token[i]]`
#   and returns a new tensor.
#
# The choices come in any order of their tokens, and a token or a whole rank may have none. You need
# about 5 lines and 3 lines, and no new tensor. If your lines create one, put it on the device of
# the rows (`device=rows.device`), since the layer may train on GPUs. *(advanced)*
#
# <details><summary>Hint 1: undoing an order</summary>
#
# If `back` is `rows[order]`, then `back[order.argsort()]` is `rows` again.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In `combine`, `back = Exchange.apply(done, comm, received, sent)`, where the counts have swapped
# their roles, and then `back[order.argsort()] * weights[:, None]`.
# </details>


# %%
def dispatch(comm, rows, experts, count):
    """Send each row to the rank of its expert.

    rows: (choices, width); experts: (choices,), numbers below `count`. Returns the rows for this
    rank's experts, by source rank and then by expert, in any order within an expert; how many there
    are of each, (ranks, experts of a rank); and what `combine` needs.
    """
    counts = torch.bincount(experts, minlength=count).reshape(comm.size, -1)
    arriving = torch.empty_like(counts)
    ### BEGIN SOLUTION
    order = experts.argsort()
    # Across ranks: how many rows come is told first.
    comm.Alltoall(counts, arriving)
    sent = counts.sum(dim=1).tolist()
    received = arriving.sum(dim=1).tolist()
    arrived = Exchange.apply(rows[order], comm, sent, received)
    ### END SOLUTION
    return arrived, arriving, (order, sent, received)


def combine(comm, done, weights, token, tokens, way_back):
    """Send the experts' results back, and add them up for each of `tokens` tokens.

    done: (arrived rows, width). weights, token: (choices,), a choice's weight, and its token's
    number.
    """
    order, sent, received = way_back
    result = done.new_zeros(tokens, done.shape[1])
    ### BEGIN SOLUTION
    back = Exchange.apply(done, comm, received, sent)
    rows = back[order.argsort()] * weights[:, None]
    return result.index_add(0, token, rows)
    ### END SOLUTION


# %%
check("66.3", dispatch, combine)

# %% [markdown]
# ### The layer, put together
# The next cell combines your functions. `moe` routes the tokens, dispatches them, applies to each
# row the expert that it came for (`lab66.by_experts`), and combines the results.


# %%
def moe(comm, x, scores, own, k):
    """An MoE layer. x: this rank's tokens; scores: what the router gives them; own: (up, down) of
    each of this rank's experts."""
    weights, experts = (both.flatten() for both in route(scores, k))
    token = torch.arange(len(x), device=x.device).repeat_interleave(k)
    arrived, arriving, way_back = dispatch(comm, x[token], experts, scores.shape[1])
    done = lab66.by_experts(arrived, arriving, own)
    return combine(comm, done, weights, token, len(x), way_back)


# %% [markdown]
# ### Predict
# We now train the layer with 16 experts and k = 2 on Python's own source, without the
# load-balancing loss and with α = 0.1. How many times the mean load does the busiest expert have in
# the last ten steps, in both cases?
#
# Purely random choices would give about 1.2, because by chance some expert always gets more than
# the mean. 8 is the most that is possible (why?).

# %%
predict("66.1", without_loss=..., with_loss=...)  # times the mean

# %% [markdown]
# <details><summary>Why 8?</summary>
#
# A token never chooses the same expert twice, so an expert has at most one of the two choices of
# each token. That is half of all choices, while the mean load is a sixteenth of them.
# </details>
#
# ### Measure
# The network predicts the next character of Python's standard library from the eight before it,
# which together are turned into one token. It trains on two ranks with your functions and, as a
# control, in one process that computes every expert without any exchange.
#
# Each rank computes the load-balancing loss of its own tokens, and so does the one process for each
# half of the batch.
#
# The router and the other small matrices are on all ranks, so their gradients are added up. Those
# of the experts are not: why?
# <details><summary>Answer</summary>
#
# All tokens that an expert worked on, from whichever rank, were sent to it, and so are their
# gradients. The expert's gradient is therefore complete on its rank. The small matrices have seen
# only the tokens of their own rank.
# </details>
#
# The plot shows how the load of the busiest expert develops, with random choices for comparison. If
# each rank has its own GPU, the tensors stay there and NCCL sends them (lab 64). This takes about
# 25 s, and longer if other programs use the cores.

# %%
size = min(launch.ranks_here(2), 2)
ways = {"α = 0": 0.0, "α = 0.1": 0.1}
net = lab66.Net(count, chosen, tokens, steps, parts=size)
functions = lab66.Functions(moe, route, balance_loss)
alone = lab66.whole(route, balance_loss)
on_ranks = launch.run(lab66.train_ways, functions, net, ways, ranks=size, threads=1)[0]
whole = launch.run(lab66.train_ways, alone, net, ways, ranks=1, threads=1)[0]
table = lab66.training_table(on_ranks, whole)
placed = {"ranks": size, "trained_on": on_ranks["α = 0"].device}
for way, result in on_ranks.items():
    losses = {"loss": result.losses[-1], "apart": table[way]["losses, difference to one process"]}
    record.add("trained", way=way, imbalance=result.imbalance, **placed, **losses)
print(f"Rank 0 of {size} on {placed['trained_on']}, one process on {whole['α = 0'].device}")
print(pandas.DataFrame(table).map("{:.3g}".format))
curves = {way: lab66.in_tens(result.imbalances) for way, result in on_ranks.items()}
curves["random choices"] = ([0, steps], [lab66.imbalance_at_random(net)] * 2)
plots.lines(
    curves,
    xlabel="step",
    ylabel="busiest / mean load, over 10 steps",
    title="The load-balancing loss spreads the tokens",
    markers=False,
    from_zero=True,
)
loads = {way: row["busiest expert / mean"] for way, row in table.items()}
predict.compare("66.1", without_loss=loads["α = 0"], with_loss=loads["α = 0.1"])

# %% [markdown]
# **Explain.** First the control. *Losses, difference to one process* is the largest difference in
# any step. You should see only differences of rounding, so the ranks train the same network as the
# one process. *Busiest expert / mean* answers the prediction:
#
# - **Without the load-balancing loss,** the busiest expert should get more than twice its share. It
#   does so from the first step, because many tokens are alike (7 % of them are eight spaces, and 30
#   % of all characters are spaces) and go to the same experts.
# - **With α = 0.1,** the load is clearly more even, and the loss of the model is about the same.
#   (Switch Transformers used α = 0.01.)
#
# DeepSeek-V3 balances the load mostly by a bias, which it adds to each expert's score and adjusts
# after every step. Earlier systems also let busy experts drop tokens (first optional part).
#
# ## 3. Cut the experts, or distribute them?
# There is another way to place the same layer on p ranks: cut *each* expert by columns and by rows,
# as in lab 64, so that every rank has 1/p of every expert. Which way sends less, and which one
# depends on the routing?
#
# A token needs all parts of its experts, so with cut experts every rank needs all tokens. They are
# gathered first (an allgather). At the end the partial sums are added up, and each rank keeps those
# of its own tokens (a reduce-scatter).
#
# In a ring, each of the two collectives has p − 1 steps, in which a rank sends one block, as large
# as the tokens of one rank.
#
# ### Predict
# Each of p ranks has T tokens of d numbers, and k = 2. Count the numbers that a rank sends to
# *other* ranks in a forward pass with an even load:
#
# - (a) in allgather and reduce-scatter, with cut experts
# - (b) in dispatch and combine
#
# What is (b) / (a) for p = 2, and for p = 4?
#
# Then suppose that on two ranks the router sends three quarters of all choices to the experts of
# rank 0. How many times as long as with an even load do the forward and backward pass of the
# expert-parallel layer take?

# %%
predict("66.3", bytes_on_2=..., bytes_on_4=..., times_as_long=...)  # bytes: (b) / (a)

# %% [markdown]
# Counting gives this table for the forward pass. The backward pass sends as much again.
#
# | each of p ranks, with T tokens of d numbers | tensor parallel | expert parallel, even load |
# |---|---|---|
# | parameters | 1/p | 1/p |
# | numbers sent, forward pass | 2 (p − 1) T d | 2 k T d (p − 1)/p |
# | work of a rank depends on the routing | no | yes |
#
# ### Measure
# The first cell counts bytes with an even load, on 2 and 4 ranks. In its table, *MB kept* is what
# autograd keeps for the backward pass, and *outputs, difference* is the largest difference from the
# outputs of one process.
#
# The second cell measures a forward and backward pass on 2 ranks, with an even routing and with
# three that send a larger share of the choices to rank 0. This takes about 30 s.

# %%
layouts = {"tensor": partial(lab66.tensor_layer, route), "expert": moe}
shares = (0.5, 0.625, 0.75, 0.875)  # of the choices, to the experts of rank 0
sizes = lab66.Sizes(count, chosen, many, wide)
counted = {
    number: launch.run(lab66.count_bytes, layouts, sizes, ranks=number, threads=1)
    for number in sorted({size, min(launch.ranks_here(4), 4)})
    if count % number == 0
}
lab66.record_bytes(counted)
print(pandas.DataFrame(lab66.table_of_bytes(counted)).T.map("{:.3g}".format).to_string())

# %%
compared = launch.run(lab66.compare, layouts, sizes, shares, seconds, ranks=size, threads=1)[0]
times = lab66.record_times(compared, size, counted[size][0]["expert"].device)
plots.lines(
    times,
    xlabel="rows of the busiest rank / mean",
    ylabel="ms, forward and backward pass",
    title="Time of a layer: median and middle half of the runs",
    from_zero=True,
)
for share in (0.5, 0.75):
    print(f"expert, {share:.0%} of the choices on rank 0: {compared[share]['expert']}")
ratios = {
    f"bytes_on_{number}": results[0]["expert"].forward / results[0]["tensor"].forward
    for number, results in counted.items()
    if number > 1
}
longer = compared[0.75]["expert"].median / compared[0.5]["expert"].median
predict.compare("66.3", **ratios, times_as_long=longer)

# %% [markdown]
# **Explain.** *Bytes.* A token sends k rows, each to one rank, while tensor parallelism brings each
# token to all p ranks. With an even load, expert parallelism therefore sends k/p as much: the same
# on two ranks, and half on four. (The tensor-parallel layer also gathers the scores, which adds a
# little.)
#
# *Memory.* Both have the same share of the parameters. Tensor parallelism keeps all gathered tokens
# for the backward pass, so *MB kept* grows with the number of ranks. In expert parallelism it stays
# the same, as long as the load is even.
#
# *Time.* In the tensor-parallel layer each rank does the same part of every row's work, whatever
# the routing. The expert-parallel layer waits for its busiest rank. With three quarters of the
# choices, rank 0 computes about 1.5 times as long as with an even load. The whole layer should take
# longer, but less than 1.5 times as long, because some of its time does not depend on the load.
#
# If a printed line says *do not quote*, the times varied too much, for example because other
# programs used the cores, and *times_as_long* is no answer to the prediction. The curve can also be
# flat on a GPU that spends more time on launching kernels than on computing.
#
# ### What you take away
# - A router sends each token to k experts. Without a load-balancing loss it may use some far more
#   than others.
# - Dispatch and combine are all-to-alls with lengths that are known only at run time. The backward
#   pass is the same exchange with the counts swapped.
# - With an even load, expert parallelism sends k/p of what tensor parallelism sends (more if k > p)
#   and keeps no gathered tokens, but it waits for the rank with the most rows.
#
# ## Going further (optional): experts that drop tokens
# This part takes about 10 more minutes.
#
# What happens if too many tokens choose the same expert? Memory is often allocated before the
# tokens come, and all ranks wait for the busiest one. [GShard](@lepikhin2020) and Switch
# Transformers therefore gave each expert a **capacity**, the number of choices that it accepts:
#
# $$ \text{capacity} = \left\lceil \text{capacity factor} \cdot \frac{k \, T}{E} \right\rceil $$
#
# The brackets mean that the result is rounded up. k·T/E is the mean number of choices per expert,
# and the **capacity factor** says how many times this number an expert accepts. For example, 10
# tokens with k = 2 make 20 choices. With 8 experts and a factor of 1 each expert accepts 3, because
# 20/8 = 2.5.
#
# T counts the tokens of one rank, since each of the p ranks drops tokens independently before it
# sends. An expert may therefore receive up to p times its capacity.
#
# Choices beyond the capacity are **dropped**. The expert does not see this token, and its part of
# the weighted sum is missing. The token itself survives, because a transformer adds the layer's
# result to what entered it.
#
# Choices are accepted in the order of their positions (first come, first served). If experts 1, 0,
# 1, 1, 0 are chosen in this order and the capacity is 2, only the fourth choice is dropped, because
# it is the third for expert 1.
#
# ### Exercise 66.4 · Capacity and dropped tokens (optional)
# Write both functions. `math.ceil(x)` rounds up. `one_hot(experts, count)` has a row for each
# choice, with a 1 in the column of its expert, and `tensor.cumsum(dim=0)` adds up along columns.
# What does the running sum of a choice's own column say? 1 line, and about 3 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: which place in the queue?</summary>
#
# The running sum in the column of its expert is 1 for the first choice of this expert, 2 for the
# second, and so on.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `places = one_hot(experts, count).cumsum(dim=0)`, and `places[range(len(experts)), experts]`
# selects from each row the column of its expert.
# </details>


# %%
def capacity_of(tokens, k, count, factor):
    """How many choices each of `count` experts accepts, for so many tokens with k experts each."""
    ### BEGIN SOLUTION
    return math.ceil(factor * k * tokens / count)
    ### END SOLUTION


def kept(experts, count, capacity):
    """experts: (choices,), in the order of positions. Returns for each True, or False if it is
    dropped."""
    ### BEGIN SOLUTION
    places = one_hot(experts, count).cumsum(dim=0)
    own = places.gather(1, experts[:, None])[:, 0]
    return own <= capacity
    ### END SOLUTION


# %%
check("66.4", capacity_of, kept)

# %% [markdown]
# ### Compute
# How many of the choices would have been dropped in the last step of both training runs above? The
# table shows it in percent, with a row for each capacity factor.

# %%
dropped = {
    way: {
        factor: 100 * result.dropped(kept, capacity_of(tokens, chosen, count, factor))
        for factor in (1.0, 1.25, 2.0)
    }
    for way, result in on_ranks.items()
}
print(pandas.DataFrame(dropped).rename_axis("factor").map("{:.3g}".format))

# %% [markdown]
# **Explain.** At a factor of 1.25, you should see many dropped choices without the load-balancing
# loss, and fewer with it. A larger factor drops fewer choices, but it needs more memory.
# DeepSeek-V3 drops no tokens.
#
# ## Going further (optional): which link decides?
# This part takes about 10 more minutes.
#
# Inside a node, GPUs exchange rows over NVLink. Between nodes they use NICs (network interface
# cards), which are several times slower. In an all-to-all over m nodes of g ranks, a rank sends
# (m − 1)·g messages through its NIC.
#
# With few tokens these messages are small. For example, if 64 ranks have 8 tokens each, with 8
# experts per token, each message is one row on average. Can a rank send fewer?
#
# A **hierarchical all-to-all** goes in two hops, here first between nodes and then inside. Take two
# nodes, with ranks 0 and 1 on the first and ranks 2 and 3 on the second. Rank 0 has rows for ranks
# 2 and 3:
#
# - *Hop 1, between nodes:* rank 0 sends both to rank 2 in one message. In general, rank i of a node
#   sends to rank i of node b everything that goes to *any* rank of node b.
# - *Hop 2, inside:* rank 2 keeps its own rows and passes those for rank 3 on.
#
# A rank thus sends m − 1 large messages through its NIC in place of (m − 1)·g small ones. On the
# other hand, most bytes also travel inside a node. [Tutel](@hwang2022) and
# [DeepSpeed-MoE](@rajbhandari2022) do this with the hops in the opposite order.
#
# In the next cell, `inside` and `across` are the communicators of lab 26, and `blocks[b, j]` goes
# to rank j of node b. The cell compares the result with that of one `Alltoall`, and counts the
# messages that a rank sends through its NIC.


# %%
def two_hops(inside, across, blocks):
    """An all-to-all of blocks (nodes, ranks of a node, values): between nodes first, then
    inside."""
    first = np.empty_like(blocks)
    # Across ranks: rank i of each node; first[a, j] comes from rank i of node a, for rank j here.
    across.Alltoall(blocks, first)
    turned = first.swapaxes(0, 1).copy()  # Alltoall sends along the first axis
    second = np.empty_like(turned)
    inside.Alltoall(turned, second)  # second[i, a] comes from rank i of node a
    return second.swapaxes(0, 1)  # [a, i], in the order of the source ranks


for nodes, g in ((2, 2), (3, 2), (4, 3)):
    same, messages = lab66.beside_alltoall(two_hops, nodes, g)
    print(
        f"{nodes} nodes of {g} ranks: the same as Alltoall: {same}. Messages of a rank through its"
        f" NIC: {messages[0]:g} in two hops, {messages[1]:g} in one Alltoall."
    )

# %% [markdown]
# Two hops save messages but no bytes. A third way saves bytes as well, and the library
# [DeepEP](@deepep) uses it. If several of a token's experts are on the same node, its row goes
# there only once and is copied within the node. DeepSeek-V3 also limits each token to experts of at
# most 4 nodes.
#
# The table shows how many rows the first hop sends per token on average, if a token's 8 experts are
# spread at random over the nodes. (All three numbers include rows for the token's own node.)
#
# | what the first hop sends | rows |
# |---|---|
# | a row for each expert | 8 |
# | a row once per node, experts on 8 nodes | 8 · (1 − (7/8)⁸) = 5.25 |
# | a row once per node, experts on at most 4 nodes | 4 · (1 − (3/4)⁸) = 3.6 |
#
# The third way below has both savings.
#
# ### Measure
# We compare the three ways on the virtual cluster, the simulator that lab 23 introduced. It has 8
# nodes of 8 H100 GPUs, with one NIC of 400 Gb/s per GPU. Every rank has 8 to 4,096 tokens with 8
# experts each, 7,168 bytes per row (FP8, one byte per number). The control is a single node of the
# same GPUs.
#
# The table shows microseconds of one dispatch, by tokens of a rank. The plot shows how many times
# as fast as the flat all-to-all on 8 nodes each of the others is. This takes a few seconds.

# %%
machine = virtual.machine("h100_ndr")
print(machine)
hops = {
    "flat": lab66.flat,
    "two hops": partial(lab66.in_two_hops, two_hops),
    "two hops, a row once per node": partial(lab66.in_two_hops, two_hops, across_share=3.6 / 8),
}
dispatched = {}
for way, function in hops.items():
    dispatched[way] = {
        rows: lab66.dispatch_time(function, machine, ranks_of_map, rows) for rows in rows_of_map
    }
dispatched["one node, flat"] = {
    rows: lab66.dispatch_time(lab66.flat, machine, 8, rows) for rows in rows_of_map
}
plots.lines(
    {
        way: {rows: dispatched["flat"][rows] / time for rows, time in row.items()}
        for way, row in dispatched.items()
        if way != "flat"
    },
    xlabel="tokens of a rank",
    ylabel="times as fast as flat on 8 nodes",
    title="Dispatch on 8 nodes of 8 GPUs, simulated",
    logx=True,
    from_zero=True,
)
print(pandas.DataFrame(dispatched).mul(1e6).map("{:.0f}".format).to_string())

# %% [markdown]
# **Explain.** Read the plot from left to right:
#
# - *For 8 tokens* a message of the flat all-to-all does not wait for its receiver, because it stays
#   below the *eager limit*. Longer messages are not sent before their receiver is ready.
# - *For 32 or 128 tokens* two hops are about three to four times as fast as the flat all-to-all,
#   because a rank sends 7 + 7 messages in place of 63, one after the other.
# - *For many tokens* two hops gain little, because both bring the same bytes through the NICs. Only
#   the third way saves bytes there.
# - *The single node* is two to three times as fast as the three ways on 8 nodes for 8 tokens, and
#   four to nine times for 4,096, although each of its ranks receives as many rows.
#
# So the network between the nodes is the bottleneck, and a method pays off if it saves messages or
# bytes there. (These times are simulated, and `machine.sources` names the sources of the machine's
# numbers.)
#
# ## Going further (optional): a layout for DeepSeek-V3
# This part takes about 20 more minutes.
#
# Over how many GPUs should the experts of a real model be distributed, and should they be cut as
# well? We ask this for [DeepSeek-V3](@deepseek2024):
#
# - It has 58 MoE layers with d = 7,168. Each has 256 routed experts, of which a token uses 8, on at
#   most 4 nodes. (We leave out one more expert, which all tokens use.)
# - It was trained on H800 GPUs in nodes of 8, with NVLink at 160 GB/s and a NIC of 50 GB/s per GPU.
# - Its 16 pipeline stages have 128 GPUs and 58/16 = 3.6 MoE layers each.
#
# A **layout** of the MoE layers is a pair (tensor, expert): each expert is cut into `tensor` parts
# on neighboring GPUs, and the experts are distributed over `expert` such groups. These
# tensor · expert GPUs hold all 256 experts once. A stage has 128/(tensor · expert) such replicas,
# which add up their gradients in each step. For example, (2, 4) has 4 groups of 2 GPUs, and a stage
# has 128/8 = 16 replicas.
#
# The first part of the cost model is how many rows one exchange moves for a token, in two hops,
# with a row sent once per node:
#
# - The GPUs are on n = tensor · expert / 8 nodes, or 1 if there are fewer than 8 GPUs. A node has g
#   of these GPUs: 8, or tensor · expert if that is smaller. `tensor` is at most 8, so that the
#   parts of an expert are in one node.
# - *Between nodes* a token sends `net.nodes_of_a_token(n)` · (n − 1)/n rows: the number of nodes
#   that it needs on average, times the share of them that are not its own.
# - *Inside* nodes it sends `net.groups_of_a_token(layout)` · tensor · (g − 1)/g rows. Each group
#   that holds one of its experts needs the row on all `tensor` GPUs, and a share 1/g of these GPUs
#   has it already.
#
# For example, with (2, 4) everything is on one node, so nothing is sent between nodes. A token's 8
# experts, spread at random over 4 groups, are in 4 · (1 − (3/4)⁸) = 3.6 groups on average, which is
# what `net.groups_of_a_token` returns. Within the node, 3.6 · 2 · 7/8 = 6.3 rows are sent per
# token.
#
# The second part of the model is how long these rows take:
#
# - Each hop takes rows · bytes of a row / bandwidth. Both hops overlap, so an exchange takes as
#   long as the slower one.
# - Dispatch sends 1 byte per number (FP8) and combine 2 bytes (BF16, a 16-bit format), in the
#   forward pass and again in the backward pass.
#
# ### Exercise 66.5 · Seconds of the exchanges (optional)
# Write the model for the `net.tokens` tokens of a GPU in one MoE layer, forward and backward pass
# together. `net.hidden`, `gpus.between` and `gpus.inside` (bytes per second) are numbers. About 7
# lines. *(intermediate)*
#
# <details><summary>Hint 1: the rows</summary>
#
# `ranks = tensor * expert`, `nodes = max(1, ranks / 8)`, `g = min(8, ranks)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `between = net.nodes_of_a_token(nodes) * (nodes - 1) / nodes`. In all four exchanges together, a
# row takes 2 · (1 + 2) · hidden bytes. The time is this number, times `net.tokens`, times
# `max(between / gpus.between, inside / gpus.inside)`.
# </details>


# %%
def exchange_seconds(net, layout, gpus):
    """Seconds of both dispatches and both combines of an MoE layer, in this layout (tensor,
    expert)."""
    tensor, expert = layout
    ### BEGIN SOLUTION
    ranks = tensor * expert
    nodes = max(1, ranks / 8)
    g = min(8, ranks)
    between = net.nodes_of_a_token(nodes) * (nodes - 1) / nodes
    inside = net.groups_of_a_token(layout) * tensor * (g - 1) / g
    nbytes = 2 * (1 + 2) * net.hidden * net.tokens
    return nbytes * max(between / gpus.between, inside / gpus.inside)
    ### END SOLUTION


# %%
check("66.5", exchange_seconds)

# %% [markdown]
# ### Predict
# - Which layout tensor × expert of 64 GPUs has the fastest exchanges: 1 × 64, 8 × 8, or something
#   in between?
# - How many GPUs should hold one full set of experts, so that exchanges and gradients together take
#   the least time, if the experts may fill the 80 GB of a GPU: 8, 16 or 64?

# %%
predict("66.5", tensor_of_64=..., ranks=...)

# %% [markdown]
# ### Compute
# The next cell adds the other two costs of a layout, for a micro-batch of one sequence (4,096
# tokens) on each GPU of a stage:
#
# - One is the allreduce of the experts' gradients, shared by the 120 micro-batches of a step.
# - The other is memory: the experts' weights, gradients, optimizer states and activations, as the
#   DeepSeek-V3 report describes them, but nothing outside of the experts.
#
# The table has a row for each layout that fits into 80 GB, written as tensor × expert. The cell
# after it chooses the fastest layout, by the sum of both times, for less and less memory.

# %%
net, gpus = lab66.DEEPSEEK_V3, lab66.H800
rows = {}
for layout in lab66.layouts(net):
    exchanges = exchange_seconds(net, layout, gpus) * net.layers_of_a_stage
    gradients = lab66.gradient_seconds(net, layout, gpus)
    rows[layout] = {
        "replicas": net.gpus_of_a_stage // (layout.tensor * layout.expert),
        "exchanges, ms": 1e3 * exchanges,
        "gradients, ms": 1e3 * gradients,
        "sum, ms": 1e3 * (exchanges + gradients),
        "experts, GB": lab66.bytes_of_experts(net, layout) / 1e9,
    }
shown = pandas.DataFrame(rows).T
shown.index = [f"{layout.tensor} × {layout.expert}" for layout in rows]
print(shown[shown["experts, GB"] < 80].map("{:.3g}".format).to_string())

# %%
choice = {}
for gigabytes in (80, 60, 40, 30):
    fit = {layout: row for layout, row in rows.items() if row["experts, GB"] <= gigabytes}
    choice[gigabytes] = min(fit, key=lambda layout: fit[layout]["sum, ms"])
    tensor, expert = choice[gigabytes]
    print(f"{gigabytes} GB for the experts: {tensor} × {expert} is fastest")
of_64 = [layout for layout in rows if layout.tensor * layout.expert == 64]
fastest = min(of_64, key=lambda layout: rows[layout]["exchanges, ms"])
predict.right("66.5", tensor_of_64=fastest.tensor, ranks=choice[80].tensor * choice[80].expert)

# %% [markdown]
# **Explain.** *Cut or not?* Among the layouts of 64 GPUs, uncut experts are the fastest. Cutting an
# expert into t parts brings each row to t GPUs, so the bytes inside the node grow. DeepSeek-V3 used
# no tensor parallelism.
#
# *How many GPUs?* With much memory, the model keeps all experts inside one node, and pays with
# larger gradients to add up. More GPUs save memory and cost time, but from 32 to 128 GPUs only
# about 20 % more for all exchanges, because of the limit of 4 nodes per token. The published
# layout, 64 GPUs on 8 nodes, is what our model chooses if about 30 of 80 GB are left for the
# experts.
#
# All these times are computed, and the report says that the exchanges are hidden behind the
# computation of another micro-batch, which our model leaves out.
#
# For a layout, therefore, do not cut experts if there are enough of them, use as few nodes as the
# memory allows, and hide the exchanges behind computation.
#
# ### Further reading
# - [@shazeer2017] The sparsely gated MoE layer, and why its load must be balanced.
# - [@lepikhin2020] Top-2 routing with capacities, on 2,048 TPUs.
# - [@fedus2021] One expert per token, the capacity factor, and the loss of this lab.
# - [@rajbhandari2022] Expert parallelism combined with other kinds, and a hierarchical all-to-all.
# - [@hwang2022] A layout that changes at run time, and the two-dimensional all-to-all.
# - [@deepseek2024] The network of the last optional part, and the experts of at most four nodes.
# - [@deepep] Dispatch and combine as a library, with measured bandwidths.
