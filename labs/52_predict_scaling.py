# %% [markdown]
# <!-- Generated from solutions/52_predict_scaling.py by `make labs`. Learners work on a copy in work/. -->
# # 52 Predict scaling
#
# You write a model of a training step in about 25 lines. You fit it to some published runs, and
# then it has to foretell runs that it has not seen. In the end you ask it for 1,024 and 10,000
# GPUs.
#
# **You will be able to** (1) write down what a step on many GPUs is made of, (2) fit a model and
# judge it on systems that it has not seen, (3) say how far such a prediction can be trusted.
#
# Needs: cpu · Ranks: 1 · Minutes: 45 · Level: advanced · Before: 24, 26, 31, 32

# %%
import math

import numpy as np
import pandas
from labkit import check, hint, lab, nets, predict, record
from support import lab52

lab.start("52_predict_scaling")

# %% tags=["parameters"]
bucket_mib = 64  # MiB of gradients that are sent together; Horovod's default in its first years

# %% [markdown]
# ## 1. When gradients are ready
# One GPU alone takes some time for a step. A third of it goes forwards. Two thirds go backwards,
# through the layers from the **last to the first**. In both, a layer's part is its part of the
# operations ([lab 02](02_why_parallel.ipynb)).
#
# Backward finishes the gradients of one layer after another. They are collected in a **bucket**
# ([lab 32](32_buckets_and_overlap.ipynb)). As soon as a bucket holds `limit` bytes or more, it is sent, and an empty one begins.
# What is left at the end is the last bucket.
#
# So a bucket has two numbers: its bytes, and the **share** of the step's computing that is over
# when it is full. A small net of three layers:
#
# | layer | parameters | bytes | operations | over when its gradients are ready |
# |---|---|---|---|---|
# | third | 40 | 160 | 10 % | 1/3 + 2/3 · 0.1 = 0.4 |
# | second | 10 | 40 | 60 % | 1/3 + 2/3 · 0.7 = 0.8 |
# | first | 5 | 20 | 30 % | 1/3 + 2/3 · 1.0 = 1 |
#
# With `limit` = 180 it has two buckets: `[(0.8, 200), (1.0, 20)]`.
#
# ### Predict
# VGG-16 has 553 MB of gradients. Its last three layers hold 494 MB of them, and 0.8 % of the
# operations. Which share of the step is over when these 494 MB are ready?

# %%
predict("52.1", share=...)  # between 0 and 1


# %% [markdown]
# [Lab 32](32_buckets_and_overlap.ipynb) asked for such buckets. Here they are given, with their shares.

# %%
def buckets(layers, limit):
    """[(share of the step's computing that is over, bytes), …] of the buckets, in the order they
    are sent."""
    share = 1 / 3
    held = 0
    ready = []
    for parameters, flops in zip(layers.parameters[::-1], layers.flops[::-1], strict=True):
        share += 2 / 3 * flops / layers.flops.sum()
        held += 4 * parameters
        if held >= limit:
            ready.append((share, held))
            held = 0
    if held:
        ready.append((share, held))
    return ready


# %%
NETS = ("alexnet", "googlenet", "inception_v3", "resnet50", "resnet101", "resnet152", "vgg16")
READY = {net: buckets(nets.layer_table(net), bucket_mib * 2**20) for net in NETS}
for net, ready in READY.items():
    parts = ", ".join(f"{nbytes / 1e6:.0f} MB at {share:.2f}" for share, nbytes in ready)
    print(f"{net:12} {parts}")
vgg16 = nets.layer_table("vgg16")
last_three = vgg16[vgg16.kind == "linear"]
predict.right("52.1", share=1 / 3 + 2 / 3 * last_three.flops.sum() / vgg16.flops.sum())

# %% [markdown]
# **Explain.** Most of VGG-16's bytes are ready when hardly any of backward is over. So there is
# time to hide them. ResNet-101's come evenly. And each net has a last bucket, at 1.00: nothing is
# left to hide it behind.
#
# ## 2. What a bucket costs
# A run is a `row` of a table. Of the row we need:
#
# | `row.` | what it is |
# |---|---|
# | `gpus`, `per_node`, `nodes` | GPUs in all, GPUs in a node, nodes |
# | `line` | seconds that a byte takes on a node's network card |
# | `inside` | seconds that a byte takes from a GPU to the next one in its node |
# | `network` | the software between nodes: `"RDMA"`, `"TCP"`, `"host"`, `"gRPC"`; in one node, any word |
# | `algorithm` | `"ring"`, `"tree"`, `"halving"`, `"server"` |
# | `senders`, `busiest` | for `"server"`: how many send, and the busiest server's share of the bytes |
#
# No byte passes at the card's full speed. Software adds something to each byte. We do not know how
# much: the fit will tell. Its numbers come in a dict, `learned`:
#
# - `learned[row.network]`: seconds that this software adds to a byte between nodes,
# - `learned["inside"]`: the same inside a node,
# - `learned["round"]`: seconds that each round of messages takes, whatever its size.
#
# From these you make **β**, the seconds of a byte on the slowest link of the way. Inside a node it
# is `row.inside + learned["inside"]`. With more than one node it is the larger one of that and
# `row.line + learned[row.network]`.
#
# Now n bytes on p GPUs take:
#
# | algorithm | seconds | why |
# |---|---|---|
# | ring (23) | 2 (p - 1) · (round + n/p · β) | one stream passes each card |
# | tree (24) | 2 lg p · round + 2 n · β | up and down; cut into chunks that follow one another |
# | halving (24) | 2 lg p · round + 2 n · (c · line + (p - 1)/p · software) | a node's GPUs share its card |
# | server (31) | round + senders · busiest · n · β | all send to the busiest server |
#
# In a node alone, we take every algorithm for a ring. In *halving*, c is how often the n bytes pass
# a node's card, one way. It depends on the partner that comes first. With the **farthest** first,
# which we take, c is `per_node · (1 - 1/nodes)`: each GPU sends halves of a whole vector out of the
# node. With the nearest first, as MPICH has it ([lab 24](24_trees_and_halving.ipynb)), a node has summed before anything leaves
# it, and c is only 1 - 1/nodes. The software of one GPU handles only its own bytes: that is
# `learned[row.network]`, as each GPU has a process of its own.
#
# A server's share is not simply one part in so many. TensorFlow gives each *tensor* to one server.
# The largest one stays whole, and so do its bytes: VGG-16's has 411 of 553 MB.
#
# ### Predict
# 16 GPUs in 4 nodes. How often do the n bytes pass a node's card, there and back together, (a) in a
# ring, (b) in halving with the farthest partner first?

# %%
predict("52.1", ring=..., halving=...)  # times n


# %% [markdown]
# ### Exercise 52.1 · What a bucket costs
# Write down the first three rows of the table; that of the server is given. `exchange` returns the
# seconds of one bucket of `nbytes`. About 10 lines. *(advanced)*
#
# For example: 16 GPUs, 4 in each of 4 nodes, line 0.3 ns, software 0.2 ns, round 20 µs, a ring, and
# a link inside that is faster. Then β is 0.5 ns, and 64 MB take 2 · 15 · (20 µs + 4 MB · 0.5 ns) =
# 60.6 ms.
#
# <details><summary>Hint 1: β first</summary>
#
# `beta = row.inside + learned["inside"]`, and where `row.nodes > 1`,
# `beta = max(beta, row.line + learned[row.network])`. Not before: inside one node there is no
# network.
# </details>
# <details><summary>Hint 2: one `if` for each line of the table</summary>
#
# `if row.nodes == 1 or row.algorithm == "ring": return 2 * (p - 1) * (learned["round"] + nbytes / p * beta)`,
# and so on; lg p is `math.log2(p)`.
# </details>

# %%
def exchange(nbytes, row, learned):
    """Seconds that the GPUs of a row need to sum a bucket; for servers, to send it to them."""
    if row.algorithm == "server" and row.nodes > 1:
        return lab52.to_servers(nbytes, row, learned)
    raise NotImplementedError("exercise 52.1: What a bucket costs")


# %%
# Asked: The seconds of 64 MB by each algorithm, in one node and in several, on
# slow and fast links.
check("52.1", exchange)

# %%
predict.right("52.1", ring=2 * 15 / 16, halving=2 * 4 * (1 - 1 / 4))


# %% [markdown]
# **Explain.** In the ring, 15/16 of the bytes pass a card on the way there, and as much on the way
# back. In halving with the farthest partner first all four GPUs send through the card at once, 6 n
# in all. That is not the price of halving, but of a shared card and of this order. With the nearest
# partner first it would be 1.5 n, less than the ring's 1.875 n. [Lab 26](26_hierarchical_allreduce.ipynb) gets there by summing inside
# the node first.
#
# ## 3. The whole step
# Three things are still missing.
#
# - **Overlap.** Buckets are sent one after another. A bucket begins when it is full *and* the one
#   before it has arrived. The step is over when computing is, and the last bucket has arrived.
# - **Stragglers.** All wait for the slowest GPU. When steps scatter by a share s, the slowest of p
#   comes later by about s · √(2 ln p): so large is the largest of p normal numbers, roughly. (For
#   many; for two it is twice too much.) Computing takes `row.alone · (1 + s · √(2 ln p))`; s is
#   `learned["straggler"]`.
# - **Input.** A node reads its images while it computes. A step is never shorter than `row.input`,
#   the seconds that its images take to be read. It is 0 for images made up in memory.
#
# With servers, the new weights come back the same way. That takes as long as to send **all** the
# gradients there as one bucket. It begins when the last bucket has arrived, and the step is not
# over before it ends. This is so only between nodes.
#
# ### Exercise 52.2 · The step
# `READY[row.net]` holds the buckets of the row's net. Return the seconds of a step. About 9 lines.
# *(intermediate)*
#
# For example: computing takes 0.4 s, and two buckets are full after 0.5 and all of it. They take
# 0.3 and 0.1 s. The first one arrives at 0.2 + 0.3 = 0.5, the second at 0.5 + 0.1 = 0.6: the step
# takes 0.6 s.
#
# <details><summary>Hint 1: one bucket after another</summary>
#
# Keep `end`, when the last bucket arrived; at first 0. A bucket arrives at
# `max(end, share * computing) + exchange(nbytes, row, learned)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `return max(computing, end, row.input)`, after
# `if row.algorithm == "server" and row.nodes > 1: end += exchange(bytes of all buckets, row, learned)`.
# </details>

# %%
def step(row, learned):
    """Seconds of a training step of a row."""
    raise NotImplementedError("exercise 52.2: The step")


# %%
# Asked: Steps of several nets and algorithms, with stragglers, with slow input,
# in one node.
check("52.2", step)


# %% [markdown]
# ## 4. Runs that others have published
# The kit has 108 published runs of seven systems, each with its source (`labs/support/lab52.csv`).
# All figures are the authors' own but seven, which we computed from the share of the ideal that the
# authors give. For one system the speed of the network is an estimate, and for two the number of
# servers; the column `source` says so.
#
# We also had to guess algorithms, and `source` says for which runs. Those with MPI on the host are
# taken for halving, but the README that they are from installs Open MPI, whose versions of that
# time summed long vectors in a ring. Of the DGX-1's 15 runs, the nine with Inception V3 and the
# ResNets kept their variables on the CPU, and only those with AlexNet and VGG-16 summed by NCCL; we
# take all for rings. Facebook's GPUs summed by NCCL inside a node and by halving between nodes; we
# take that for a ring, too.
#
# | system | what is there | sources |
# |---|---|---|
# | Horovod 25 Gb/s RoCE | 16 to 512 Pascal GPUs; NCCL, MPI, gRPC | Horovod's README (2017), benchmarks |
# | DGX-1 P100 | 2 to 8 GPUs of one node; five nets | TensorFlow's page "Benchmarks", May 2017 |
# | Horovod 40 Gb/s Ethernet | 64 Pascal GPUs; NCCL, MPI, gRPC | Horovod's README, 2017 |
# | EC2 p2.8xlarge | 2 to 128 K80 GPUs; gRPC; some with real images | the same page; Bugliarello, CSCS 2017 |
# | Piz Daint | 2 to 128 P100 GPUs, one a node; gRPC | Bugliarello, CSCS 2017 |
# | DLPerf V100 EDR | 8 to 32 V100 GPUs; six frameworks, NCCL | OneFlow's DLPerf report, 2020 |
# | Facebook P100 | 256 GPUs | Goyal and others, arXiv 1706.02677 |
#
# The fit may see the first two: every `network` of the table is in them. The other five are
# **unseen**.
#
# Why not deal the rows out like cards? Two rows of one system are like twins: the same cluster,
# software and hands. A fit that has seen the one knows the other. So a system is seen with all its
# rows, or with none.
#
# ### Exercise 52.3 · Split, and judge
# `split` returns two lists of rows: those whose `row.system` is among the names in `seen`, and all
# others.
#
# `errors` returns a number for each row: how much faster the prediction is than the published run.
# +0.1 means 10 % more images per second. `row.step` holds the seconds of the published step. A
# *shorter* step is more images. 3 lines. *(beginner)*
#
# <details><summary>Hint 1: images per second, or seconds</summary>
#
# Images per second are some number over the seconds of a step. So predicted over published is
# `row.step / step(row, learned)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `[row for row in rows if row.system in seen]`, the same with `not in`; and
# `[… - 1 for row in rows]`.
# </details>

# %%
def split(rows, seen):
    """(rows of the systems in `seen`, all other rows)."""
    raise NotImplementedError("exercise 52.3: Split, and judge")


def errors(rows, learned):
    """[predicted over published images per second, less 1, …]"""
    raise NotImplementedError("exercise 52.3: Split, and judge")


# %%
# Asked: Whole systems on one side or the other, all rows; errors of images per
# second, with sign.
check("52.3", split, errors)

# %% [markdown]
# ### Predict
# A guess: the model has seven numbers to learn. It learns them from two systems. (a) What will be
# the **median** error on the other five, in percent and without sign: half of the rows are better,
# half are worse? (b) And the worst?

# %%
predict("52.3", median_percent=..., worst_percent=...)

# %% [markdown]
# ### Measure
# `lab52.fit` looks for the numbers with which your `step` comes nearest to the rows that it is
# given.

# %%
fitted, unseen = split(lab52.published(), lab52.SEEN)
learned = lab52.fit(step, fitted)
for name, value in learned.items():
    unit = {"round": "µs a round", "straggler": "% of a step"}.get(name, "ns a byte")
    factor = {"round": 1e6, "straggler": 100}.get(name, 1e9)
    print(f"{name:10} {factor * value:6.2f} {unit}")
parts = {"fitted": fitted, "unseen": unseen}


def worst_of(errors):
    """The largest error, with its sign."""
    return errors[errors.abs().idxmax()]


judged = pandas.DataFrame(
    {
        "part": part,
        "system": row.system,
        "run": str(row),
        "error, %": 100 * error,
    }
    for part, rows in parts.items()
    for row, error in zip(rows, errors(rows, learned), strict=True)
)
by_system = judged.groupby(["part", "system"])["error, %"]
print(
    by_system.agg(rows="size", median=lambda errors: errors.abs().median(), worst=worst_of).round(0)
)

# %%
size_of_errors = np.abs(errors(unseen, learned))
middle = 100 * float(np.median(size_of_errors))
worst = 100 * float(size_of_errors.max())
record.add("unseen systems", median_percent=middle, worst_percent=worst, rows=len(unseen))
predict.compare("52.3", median_percent=middle, worst_percent=worst)

# %% [markdown]
# **First control: has the fit peeked?** Multiply all that was published of the unseen systems by
# 10, and do everything again. The learned numbers must stay exactly the same.

# %%
spoilt = [
    lab52.ten_times(row) if row.system not in lab52.SEEN else row for row in lab52.published()
]
again = lab52.fit(step, split(spoilt, lab52.SEEN)[0])
print("the same numbers:", again == learned)

# %% [markdown]
# **Second control: what does it take to be that good?** Two rivals that know nothing of buckets or
# links. The *ideal* says: p GPUs are p times as fast. The *rule of thumb* learns a single number
# from the fitted rows: a step takes so much longer than alone, whatever the system.

# %%
typical = float(np.median([row.step / row.alone for row in fitted]))
rivals = {
    "ideal": lambda row: row.alone,
    f"rule of thumb: {typical:.2f} times alone": lambda row: typical * row.alone,
    "your model": lambda row: step(row, learned),
}
for name, model in rivals.items():
    off = np.array([100 * abs(row.step / model(row) - 1) for row in unseen])
    hard = np.median(off[[row.alone < 0.75 * row.step for row in unseen]])
    print(
        f"{name:35} median {np.median(off):4.1f} %, worst {off.max():5.0f} %; hard rows:"
        f" {hard:.0f} %"
    )
hardest = judged[judged.part == "unseen"].sort_values("error, %", key=abs)[-12:]
like_hardest = judged[(judged.part == "fitted") & judged.run.str.contains("gRPC, vgg16")]
print("The hardest rows, and two that were fitted:")
print(
    pandas.concat([hardest, like_hardest])[["part", "run", "error, %"]]
    .round(0)
    .to_string(index=False)
)
lab52.draw(
    parts, rivals["your model"], "Seven numbers from two systems foretell most runs of five others"
)

# %% [markdown]
# **Explain.** Read the tables from the top.
#
# The median error on unseen systems is below 10 %. Is the model good, then? Look at the rule of
# thumb: its median is about the same. Most published runs reach 80 to 95 % of the ideal, and
# whoever says 90 % is never far off. **A median over easy rows is an easy judge.** The hard rows
# tell the two apart: those that reach less than 75 %. There the rule of thumb is off by 73 % in the
# median, and by 88 times at worst; the model by 21 %, and by 93 % at worst.
#
# Where does the model fail? The tables show where. Why, they do not: what follows is likely, not
# measured.
#
# - **Horovod 40 Gb/s, MPI on the host** (too fast by 26 to 93 %). What software adds to a byte was
#   learned on 4 nodes of another cluster. On 16 nodes the same software may need more: in the model
#   nothing grows there. A wrong guess of the algorithm is not the cause. Fitted as rings, or as
#   halving with the nearest partner first, these runs are still too fast by 23 to 73 %, and the
#   fitted ones are met as well as before. So these data cannot tell which algorithm it was.
# - **gRPC on VGG-16** (too fast by 40 to 45 %). The two rows that were fitted stand below the
#   hardest: they have 16 senders, not 64, and are as far off. So it is not that the senders have
#   become more. Perhaps a byte costs more in a tensor of 411 MB.
# - **Piz Daint** (too slow by 9 to 27 %). Perhaps its processors carry a byte faster than those
#   from which gRPC was learned: one number cannot tell them apart. Or its network is faster than
#   the estimate.
# - **Twins that differ.** The table of "Horovod 40 Gb/s" has ResNet-101 over gRPC twice: 2,996
#   images/s, and 4,269 with the variables on the CPU. For the model these two rows are the same.
#   The six frameworks of DLPerf are of that kind, too.
#
# Stragglers have come out at nothing. That does not say that there are none: a *round* of 35 µs is
# far more than a message costs. Both grow with the GPUs, so one may stand for the other. The next
# cell prints both: see how far they move when other rows are fitted.
#
# And a warning. The split kept the *numbers* from seeing the five systems. It did not keep the
# **form**: the formulas of this lab were written by somebody who had seen the whole table. Only a
# run that is published tomorrow is quite unseen.
#
# Would the fit do as well from other systems?
# <details><summary>Answer</summary>
#
# The next cell leaves each system out in turn. Without "Horovod 25 Gb/s" no row tells what RDMA
# costs on a slow link: the errors on that system are several times as large. A fit cannot know what
# it was never shown.
# </details>

# %%
everything = lab52.published()
left_out = lab52.without_each(step, everything)
for system, numbers in left_out.items():
    alone = [row for row in everything if row.system == system]
    off = 100 * float(np.median(np.abs(errors(alone, numbers))))
    print(
        f"fitted without {system:25} error on it, median: {off:5.1f} %; a round:"
        f" {1e6 * numbers['round']:4.1f} µs, stragglers: {100 * numbers['straggler']:4.2f} %"
    )

# %% [markdown]
# ## 5. 1,024 and 10,000 GPUs
# ResNet-101 on the cluster of "Horovod 25 Gb/s": 512 GPUs reached 90 % of the ideal. And 1,024?
# 10,000?
#
# A prediction without a range is a guess. Our range comes from two doubts: the seven fits above,
# each without another system; and whether the library sums in a ring or in a tree.

# %%
(start,) = [row for row in fitted if row.net == "resnet101" and row.gpus == 512]
for gpus in (512, 1024, 10_000):
    for algorithm in ("ring", "tree"):
        asked = lab52.at(start, gpus, algorithm)
        shares = {left: asked.alone / step(asked, numbers) for left, numbers in left_out.items()}
        lowest = min(shares, key=shares.get)
        highest = max(shares, key=shares.get)
        low = shares[lowest]
        high = shares[highest]
        most = asked.images(asked.alone)
        print(
            f"{gpus:6,} GPUs, {algorithm}: {low:4.0%} to {high:4.0%} of the ideal, "
            f"{low * most:9,.0f} to {high * most:9,.0f} images/s"
        )
        print(f"{'':18}lowest without {lowest}, highest without {highest}")
        record.add("asked", gpus=gpus, algorithm=algorithm, low=low, high=high, net=asked.net)

# %% [markdown]
# **Explain.** For 1,024 GPUs the range is narrow: 83 to 94 %. For 10,000 it is anything from a
# fifth to nine tenths. A ring has 20,000 rounds for each bucket. The seven fits disagree about a
# round: their table shows it. At 512 GPUs that does not matter much: see the first two ranges. Now
# it decides.
#
# This is why NCCL has trees since version 2.4 ([lab 24](24_trees_and_halving.ipynb)). It is also what extrapolation means: 20
# times beyond the largest run, a number that the data hardly know becomes the answer. One of the
# fits says 89 % even for the ring: it is the one that has never seen this cluster, and its round
# costs nothing.
#
# Not in the range are: switches that are shared, failures, a batch that learns nothing any more
# ([lab 34](34_large_batch.ipynb)).
#
# ### What you take away
# - A step is computing, buckets that become ready, an algorithm on links that may be shared, the
#   slowest of all, and input. That fits into 35 lines.
# - A model is judged on systems that it has not seen. Rows of one system are twins.
# - A median alone flatters. Ask what a rule of thumb would reach, and look at the hard rows.
# - Beyond the data, the number that mattered least may decide. Give a range, and say what it is
#   made of.
