# %% [markdown]
# <!-- Generated from solutions/52_predict_scaling.py by `make labs`. Learners work on a copy in work/. -->
# # 52 Predict scaling
#
# Before you ask for a thousand GPUs, you want to know how fast your training would run on them. You
# cannot measure this on the eight GPUs that you have, and the law that fits your first measurements
# may be wrong on many nodes ([lab 50](50_strong_and_weak_scaling.ipynb)). A model of the training step can predict it from the speed of
# the GPUs and of the network. But a model that fits known runs well may still fail on a new system,
# and a prediction without a range tells you little.
#
# In this lab we write a model of a training step in about 35 lines, fit it to published runs, and
# test it on systems that it has not seen. We build it from the buckets of [gradients](../labs/GLOSSARY.md#gradient), the cost of an
# [allreduce](../labs/GLOSSARY.md#allreduce) on links that may be shared, and overlap. We then compare it with rivals that know much
# less, look for the runs on which it fails, and finally ask it for predictions for 1,024 and 10,000
# GPUs.
#
# **After this lab you can** (1) write down the parts of a training step on many GPUs, (2) fit a
# model and judge it on systems that it has not seen, and (3) say how far such a prediction can be
# trusted.
#
# ![Timeline of a step of 0.6 seconds. The GPU computes for 0.4 seconds. The first bucket is sent from 0.2 to 0.5 seconds, and the second one from 0.5 to 0.6](../notebooks/figures/52_step.svg)
#
# *The model of a step, with the numbers of the example in section 3. A bucket is sent when its
# gradients are ready and the link is free. What is sent after the computation ends makes the step
# longer.*
#
# Needs: cpu · Ranks: 1 · Minutes: 65 · Level: advanced · Before: 24, 26, 31, 32

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
# A single GPU takes some time for a training step. We assume that a third of it is the forward
# pass, and that two thirds are the [backward pass](../labs/GLOSSARY.md#backward-pass), which goes through the layers from the **last to
# the first**. In both passes, each layer takes the share of the time that corresponds to its share
# of the operations ([lab 02](02_why_parallel.ipynb)).
#
# The backward pass computes the gradients of one layer after another, and they are collected in a
# **bucket** ([lab 32](32_buckets_and_overlap.ipynb)). As soon as a bucket contains `limit` bytes or more, it is sent, and a new
# bucket begins. The gradients that are left at the end form the last bucket.
#
# The model therefore needs two numbers for each bucket: its bytes, and the **share** of the step's
# computing that is done when the bucket is full. This table shows them for a small network of three
# layers:
#
# | layer | parameters | bytes | operations | share done when its gradients are ready |
# |---|---|---|---|---|
# | third | 40 | 160 | 10 % | 1/3 + 2/3 · 0.1 = 0.4 |
# | second | 10 | 40 | 60 % | 1/3 + 2/3 · 0.7 = 0.8 |
# | first | 5 | 20 | 30 % | 1/3 + 2/3 · 1.0 = 1 |
#
# With `limit` = 180, this network has two buckets: `[(0.8, 200), (1.0, 20)]`.
#
# ### Predict
# VGG-16 has 553 MB of gradients. Its last three layers have 494 MB of them, but only 0.8 % of the
# operations. Which share of the step's computing is done when these 494 MB are ready?

# %%
predict("52.1", share=...)  # between 0 and 1


# %% [markdown]
# [Lab 32](32_buckets_and_overlap.ipynb) asked you to write such buckets. Here the function is given, and it also computes the
# shares.

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
# **Explain.** Most of VGG-16's bytes are ready when hardly any of the backward pass is done, so
# there is much time to hide them behind it. The gradients of ResNet-101 become ready at an even
# rate. And each network has a last bucket at 1.00, for which no computing is left to hide it.
#
# ## 2. What a bucket costs
# A published run is a `row` of a table. We need these columns:
#
# | `row.` | what it is |
# |---|---|
# | `gpus`, `per_node`, `nodes` | number of GPUs in all, of GPUs in a node, and of nodes |
# | `line` | seconds that a byte takes on a node's NIC (network interface card) |
# | `inside` | seconds that a byte takes from a GPU to the next one in its node |
# | `alone` | seconds that a training step takes on a single GPU |
# | `network` | the software between nodes: `"RDMA"`, `"TCP"`, `"host"`, `"gRPC"`; in a single node, any word |
# | `algorithm` | `"ring"`, `"tree"`, `"halving"`, `"server"` |
# | `senders`, `busiest` | for `"server"`: how many send, and the busiest server's share of the bytes |
#
# Bytes are never sent at the full speed of the [NIC](../labs/GLOSSARY.md#NIC), because software adds some time to each byte.
# We do not know how much, so the fit has to find this out. Its numbers come in a dict,
# `learned`:
#
# - `learned[row.network]` is the seconds that this software adds to a byte between nodes,
# - `learned["inside"]` is the same inside a node,
# - `learned["round"]` is the seconds that each round of messages takes, whatever its size. (A round
#   is what [lab 23](23_ring_allreduce.ipynb) calls a step of the algorithm. In this lab, a step is always a training step.)
#
# For example, the check uses this dict, with 0.2 ns per byte for TCP and 20 µs per round. Its last
# entry belongs to section 3:
#
#     {"TCP": 0.2e-9, "host": 0.5e-9, "gRPC": 0.7e-9,
#      "inside": 0.05e-9, "round": 20e-6, "straggler": 0.02}
#
# From these numbers you compute **β**, the seconds per byte on the slowest link that is used:
#
# - with one node, `row.inside + learned["inside"]`;
# - with more than one node, the larger of this value and `row.line + learned[row.network]`.
#
# The allreduce of n bytes on p = `row.gpus` GPUs then takes this time (the number in brackets is
# the lab in which you met the algorithm):
#
# | algorithm | seconds | why |
# |---|---|---|
# | ring (23) | 2 (p - 1) · (round + n/p · β) | one stream passes each NIC |
# | tree (24) | 2 log₂ p · round + 2 n · β | up and down, in chunks that follow one another |
# | halving (24) | 2 log₂ p · round + 2 n · (c · line + (p - 1)/p · software) | the GPUs of a node share its NIC |
# | server (31) | round + senders · busiest · n · β | all send to the busiest server |
#
# In a single node, we use the formula of the ring for every algorithm.
#
# In *halving*, *software* is `learned[row.network]`, and c is how often n bytes leave a node in the
# [reduce-scatter](../labs/GLOSSARY.md#reduce-scatter). As many leave it in the [allgather](../labs/GLOSSARY.md#allgather), which is the second half of the algorithm.
#
# The value of c depends on which partner comes first. We assume that the **farthest** partner is
# first, and that p and `nodes` are powers of two. Then the first log₂ nodes rounds go to other
# nodes. In these rounds a GPU sends n/2, n/4 and so on, n · (1 - 1/nodes) in all. The NIC carries
# this for every GPU of the node, so c is `per_node · (1 - 1/nodes)`.
#
# If the nearest partner is first, as in [MPICH](https://www.mpich.org) ([lab 24](24_trees_and_halving.ipynb)), the GPUs of a node have added
# their vectors before anything leaves the node, and c is only 1 - 1/nodes.
#
# The software is not shared as the NIC is. Each GPU has a process of its own, which handles only
# this GPU's bytes, so `learned[row.network]` is multiplied by (p - 1)/p and not by c.
#
# With several servers, the busiest one has more than an equal share of the bytes, because
# TensorFlow gives each *tensor* to one server. The largest tensor is not divided, and in VGG-16 it
# accounts for 411 of 553 MB.
#
# ### Predict
# There are 16 GPUs in 4 nodes. How many times n bytes leave a node in a whole allreduce, (a) in a
# ring, (b) in halving with the farthest partner first?

# %%
predict("52.1", ring=..., halving=...)  # times n


# %% [markdown]
# ### Exercise 52.1 · What a bucket costs
# Write the first three rows of the table. The row of the server is given. `exchange` returns the
# seconds for one bucket of `nbytes`. About 10 lines. *(advanced)*
#
# For example, take a ring of 16 GPUs, 4 in each of 4 nodes, with line 0.3 ns, software 0.2 ns,
# round 20 µs, and a faster link inside the nodes. Then β is 0.5 ns, and 64 MB take 30 · (20 µs + 4
# MB · 0.5 ns) = 60.6 ms. The same in halving has c = 3 and takes 139.4 ms, and in a tree it takes
# 64.2 ms.
#
# <details><summary>Hint 1: β first</summary>
#
# `beta = row.inside + learned["inside"]`, and if `row.nodes > 1`,
# `beta = max(beta, row.line + learned[row.network])`. Do not use `row.network` otherwise, because
# inside a single node there is no network.
# </details>
# <details><summary>Hint 2: one `if` for each line of the table</summary>
#
# `if row.nodes == 1 or row.algorithm == "ring": return 2 * (p - 1) * (learned["round"] + nbytes / p * beta)`,
# and so on. log₂ p is `math.log2(p)`.
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
# **Explain.** In the ring, one GPU of each node sends to the next node. It sends 15/16 n in the
# reduce-scatter and as many bytes in the allgather, which is 1.875 n. In halving with the farthest
# partner first, all four GPUs send through the NIC at the same time, 6 n in all. This is not the
# cost of halving as such, but of a shared NIC and of this order. With the nearest partner first it
# would be 1.5 n, which is less than the ring's 1.875 n. [Lab 26](26_hierarchical_allreduce.ipynb) achieves the same by adding inside
# the node first.
#
# ## 3. The whole step
# The model still lacks three parts.
#
# - **Overlap.** The buckets are sent one after another. A bucket starts when it is full *and* the
#   one before it has arrived. The step is complete when computing is done and the last bucket has
#   arrived.
# - **Stragglers.** All GPUs wait for the slowest one. If step times vary by a share s, the slowest
#   of p GPUs is later by about s · √(2 ln p), which is approximately the largest of p normally
#   distributed numbers. (This value is 15 % too large for 1,024 GPUs, a third too large for 16, and
#   twice too large for two.) Computing therefore takes `row.alone · (1 + s · √(2 ln p))`, and s is
#   `learned["straggler"]`.
# - **Input.** A node reads its images while it computes. A step is never shorter than `row.input`,
#   the seconds that reading its images takes. This number is 0 for synthetic images that are
#   generated in memory.
#
# With servers, the new weights have to be sent back in the same way. This takes as long as sending
# **all** gradients to the servers as one bucket. It starts when the last bucket has arrived, and
# the step is not complete before it ends. This part applies only if there is more than one node.
#
# ### Exercise 52.2 · The step
# `READY[row.net]` contains the buckets of the row's network. Return the seconds of a step. About 9
# lines. *(intermediate)*
#
# For example, computing takes 0.4 s, and one bucket is full after half of this time and the other
# at its end. They take 0.3 and 0.1 s. The first bucket arrives at 0.2 + 0.3 = 0.5 s, and the second
# one at 0.5 + 0.1 = 0.6 s, so the step takes 0.6 s, as in the figure at the top of this lab.
#
# <details><summary>Hint 1: one bucket after another</summary>
#
# Keep `end`, the time at which the last bucket arrived, beginning with 0. A bucket arrives at
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
# The kit contains 108 published runs of seven systems, each with its source
# (`labs/support/lab52.csv`). All numbers are the authors' own except seven, which we computed from
# the share of the ideal that the authors give. For one system the speed of the network is an
# estimate, and for two systems the number of servers is. The column `source` marks these estimates.
#
# We also had to guess some algorithms, and `source` says for which runs. We use halving for the
# runs with [MPI](../labs/GLOSSARY.md#MPI) on the host, but the README from which they are taken installs Open MPI, whose
# versions of that time reduced long vectors in a ring. Of the 15 runs of the DGX-1, the nine with
# Inception V3 and the ResNets kept their variables on the CPU, and only those with AlexNet and
# VGG-16 used [NCCL](../labs/GLOSSARY.md#NCCL), yet we use rings for all of them. Facebook's GPUs used NCCL inside a node and
# halving between nodes, which we also model as a ring.
#
# | system | what it contains | sources |
# |---|---|---|
# | Horovod 25 Gb/s RoCE | 16 to 512 Pascal GPUs; NCCL, MPI, gRPC | Horovod's README (2017), [benchmarks](https://horovod.readthedocs.io/en/stable/benchmarks_include.html) |
# | DGX-1 P100 | 2 to 8 GPUs of one node; five networks | TensorFlow's page "Benchmarks", May 2017 |
# | Horovod 40 Gb/s Ethernet | 64 Pascal GPUs; NCCL, MPI, gRPC | Horovod's README, 2017 |
# | EC2 p2.8xlarge | 2 to 128 K80 GPUs; gRPC; some with real images | the same page; Bugliarello, CSCS 2017 |
# | Piz Daint | 2 to 128 P100 GPUs, one per node; gRPC | Bugliarello, CSCS 2017 |
# | DLPerf V100 EDR | 8 to 32 V100 GPUs; six frameworks, NCCL | OneFlow's [DLPerf](https://github.com/Oneflow-Inc/DLPerf) report, 2020 |
# | Facebook P100 | 256 GPUs | Goyal et al., 2017 |
#
# The fit sees only the first two systems, which between them contain every `network` of the table.
# The other five are **unseen**.
#
# We divide the runs by system, and do not assign rows to the two groups at random, because two rows
# of one system are like twins. They come from the same cluster, the same software, and the same
# people, so a fit that has seen one of them knows much about the other. Therefore either all rows
# of a system are seen, or none.
#
# ### Exercise 52.3 · Split, and judge
# `split` returns two lists of rows: those whose `row.system` is among the names in `seen`, and all
# others.
#
# `errors` returns a number for each row, which says how much faster the prediction is than the
# published run. For example, +0.1 means 10 % more images per second. `row.step` is the seconds of
# the published step. Note that a *shorter* step means more images. 3 lines. *(beginner)*
#
# <details><summary>Hint 1: images per second, or seconds</summary>
#
# Images per second are some number divided by the seconds of a step. Predicted over published is
# therefore `row.step / step(row, learned)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `[row for row in rows if row.system in seen]`, the same with `not in`, and
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
# Guess how good the model will be. It has seven numbers to learn, and learns them from two systems.
# (a) What will be the **median** error on the other five systems, in percent and ignoring the sign,
# so that half of the rows are better and half are worse? (b) And what will be the worst error?

# %%
predict("52.3", median_percent=..., worst_percent=...)

# %% [markdown]
# ### Measure: fit and test
# `lab52.fit` looks for the numbers with which your `step` comes closest to the rows that it gets.

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
# **First control: has the fit seen the test data?** To find out, the next cell multiplies all
# published results of the unseen systems by 10 and fits again. The learned numbers must stay
# exactly the same. This tests your `split`, not the model.

# %%
spoilt = [
    lab52.ten_times(row) if row.system not in lab52.SEEN else row for row in lab52.published()
]
again = lab52.fit(step, split(spoilt, lab52.SEEN)[0])
print("the same numbers:", again == learned)

# %% [markdown]
# **Second control: how good are simpler models?** We compare yours with two rivals that do not know
# buckets or links. The *ideal* says that p GPUs are p times as fast as one. The *rule of thumb*
# learns a single number from the fitted rows, namely the factor by which a step is longer than on
# one GPU, whatever the system.

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
    parts, rivals["your model"], "Seven numbers from two systems predict most runs of five others"
)

# %% [markdown]
# **Explain.** Read the tables from the top.
#
# The median error on unseen systems is below 10 %, which looks good. But the median error of the
# rule of thumb is about the same. Most published runs reach 80 to 95 % of the ideal, so anyone who
# predicts 90 % is never far off. **A median over easy rows does not distinguish a good model from a
# simple one.** The hard rows, which reach less than 75 % of the ideal, do. On these, the rule of
# thumb is off by 73 % in the median, and at worst by a factor of 89 (about 8,780 % in the table).
# The model is off by 21 % in the median, and by 93 % at worst.
#
# The plot shows the same on logarithmic axes. The easy rows crowd in the upper right corner, where
# the ideal is not far off either. The hard rows extend over two orders of magnitude to the left of
# it, and the model follows them but is too optimistic: 10 of the 15 unseen ones lie above the line.
#
# The tables also show where the model fails, but not why. The following causes are likely and not
# measured.
#
# - **Horovod 40 Gb/s, MPI on the host** (too fast by 26 to 93 %). The time that software adds to a
#   byte was learned on 4 nodes of another cluster. On 16 nodes the same software may need more
#   time, but in the model it does not depend on the number of nodes. A wrong guess of the algorithm
#   is not the cause. If these runs are fitted as rings, or as halving with the nearest partner
#   first, they are still too fast by 23 to 73 %, and the fitted runs are matched as well as before.
#   These data therefore cannot tell which algorithm it was.
# - **gRPC on VGG-16** (too fast by 40 to 45 %). The two fitted rows below the hardest ones have 16
#   senders, not 64, and are equally far off. The larger number of senders is therefore not the
#   cause. Perhaps a byte costs more in a tensor of 411 MB.
# - **Piz Daint** (too slow by 9 to 27 %). Perhaps its processors handle a byte faster than those
#   from which the number for gRPC was learned, because one number cannot describe both. Or its
#   network is faster than the estimate.
# - **Twins that differ.** The table of "Horovod 40 Gb/s" has ResNet-101 over gRPC twice, with 2,996
#   images/s, and with 4,269 if the variables are on the CPU. For the model, these two rows are the
#   same. The six frameworks of DLPerf are a similar case.
#
# The fit has set the stragglers to nothing. This does not mean that there are none, because a
# *round* of 35 µs is far longer than a message takes. Both costs grow with the number of GPUs, so
# one may stand for the other. The next cell prints both, and you can see how much they change when
# other rows are fitted.
#
# There is one more limit. The split kept the learned *numbers* from depending on the five systems.
# It did not keep the **form** of the model from depending on them, because the author of this lab's
# formulas had seen the whole table. Only a run that is published tomorrow is completely unseen.
#
# Would a fit to other systems do as well?
# <details><summary>Answer</summary>
#
# The next cell leaves out each system in turn. Without "Horovod 25 Gb/s", no row shows what [RDMA](../labs/GLOSSARY.md#RDMA)
# (remote direct memory access) costs on a slow link, and the errors on this system are several
# times as large. A fit cannot learn what it was never shown.
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
# With ResNet-101, the cluster of "Horovod 25 Gb/s" reached 90 % of the ideal on 512 GPUs. We now
# ask the model for 1,024 and for 10,000 GPUs.
#
# A prediction without a range is only a guess. Our range comes from two uncertainties: the seven
# fits above, each without another system, and whether the library performs the allreduce in a ring
# or in a tree.

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
# **Explain.** For 1,024 GPUs the range is narrow, 83 to 94 % of the ideal. For 10,000 GPUs it
# extends from a fifth to nine tenths. A ring has 20,000 rounds for each bucket, and the seven fits
# disagree about the cost of a round, as their table shows. At 512 GPUs this disagreement matters
# little, as you can see from the first two ranges, but at 10,000 it determines the result.
#
# This is why NCCL has had trees since version 2.4 ([lab 24](24_trees_and_halving.ipynb)). It is also a typical problem of
# extrapolation. Twenty times beyond the largest run, a number that the data hardly determine
# becomes the most important one. One of the fits predicts 89 % even for the ring. This is the fit
# that has never seen this cluster, and its round costs nothing.
#
# The range does not include shared switches, failures, or a batch that is too large to be useful
# ([lab 34](34_large_batch.ipynb)).
#
# ### What you take away
# - The model of a step consists of the computation, the times at which buckets become ready, an
#   algorithm on links that may be shared, the slowest GPU, and input. All of this fits into 35
#   lines.
# - Judge a model on systems that it has not seen. Rows of the same system are twins.
# - A median alone makes a model look better than it is. Compare with a rule of thumb, and look at
#   the hard rows.
# - Beyond the data, the number that mattered least may determine the result. Give a range, and say
#   what it includes.
#
# ### Further reading
# - P. Goyal et al., *[Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour](https://arxiv.org/abs/1706.02677)*, 2017. The source of the run on 256 GPUs, with a description of the allreduce that was
#   used.
# - A. Sergeev and M. Del Balso, *[Horovod: fast and easy distributed deep learning in TensorFlow](https://arxiv.org/abs/1802.05799)*, 2018. How Horovod's runs were measured.
# - R. Thakur, R. Rabenseifner and W. Gropp, *[Optimization of Collective Communication Operations in MPICH](https://doi.org/10.1177/1094342005051521)*, International Journal of High Performance Computing Applications 19(1), 2005. The cost of rings, trees and halving on a network, and their choice by size.
# - [Massively Scale Your Deep Learning Training with NCCL 2.4](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/). Why NCCL added trees, with measurements on thousands of GPUs.
# - T. Hoefler and R. Belli, *[Scientific Benchmarking of Parallel Computing Systems](https://doi.org/10.1145/2807591.2807644)*, SC, 2015. Rules for reporting and interpreting performance models and measurements.
