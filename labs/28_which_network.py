# %% [markdown]
# <!-- Generated from solutions/28_which_network.py by `make labs`. Learners work on a copy in work/. -->
# # 28 Which network?
#
# InfiniBand or Ethernet, one card or eight, and which processor at the end of the cable? You rank
# networks before you run them on the virtual cluster, and find out when latency decides, when
# bandwidth, when neither.
#
# **You will be able to** (1) foretell an allreduce from a network's two numbers, (2) say from which
# size on its bandwidth counts, (3) say which share of a training step a network takes, (4) read a
# device's data sheet by its roofline.
#
# Needs: cpu · Ranks: 1 · Minutes: 50 · Level: intermediate · Before: 22, 24, 26

# %%
import math

import numpy as np
import pandas
import virtual
from labkit import check, hint, lab, plots, predict, record
from labkit.collectives import ring_allreduce
from support import lab28

lab.start("28_which_network")

# %% tags=["parameters"]
gpus = 8  # on each network, a power of two
nodes = 8  # of 8 GPUs, where nodes have several cards
pictures = 64  # of each GPU in a training step

# %% [markdown]
# ## 1. The same GPUs, nine networks
# A network card is told apart by its bits per second. A byte has 8 bits: 100 Gb/s are 12.5 GB/s,
# and a little less is left for your data.
#
# | name | what it is | Gb/s |
# |---|---|---|
# | 10, 25, 100 GbE | Gigabit Ethernet with **TCP**: each message goes by the operating system | 10, 25, 100 |
# | RoCE | the same Ethernet with **RDMA**: the cards read and write the memory by themselves | 100 |
# | Omni-Path | Intel's, since 2020 Cornelis Networks'; it, too, goes past the operating system | 100 |
# | FDR, EDR, NDR | InfiniBand of 2011, 2014 and 2022, with RDMA | 56, 100, 400 |
# | NVLink | links and switches for GPUs that are **close**; no network card | 3,600 |
#
# How close depends on the machine: in a DGX H100, from which our number is, NVLink ends at the
# node, and in a GB200 NVL72 it joins the GPUs of a whole rack. Its 3,600 Gb/s are one direction of
# an H100.
#
# Nobody has all nine at hand. So this lab runs on the virtual cluster: what it prints is
# *simulated*. Each of its machines is a list of numbers, and says where they come from. (GB here
# are 10⁹ bytes.)

# %%
machine = virtual.machine("edr")
print(machine, "\n")
for number in ("between.latency", "between.bandwidth"):
    print(f"{number}: {machine.sources[number]}")
print(
    "between.latency of Ethernet with TCP:"
    f" {virtual.machine('ethernet100').sources['between.latency']}"
)

# %% [markdown]
# `between` is the link between nodes: its *latency* α is what even an empty message takes, its
# *bandwidth* 1/β says how many bytes follow each second. All networks have the same GPUs: H100s.
# Only the network differs.
#
# Some numbers are estimates. We took **one** latency for all networks with RDMA (Omni-Path among
# them), since we found no measurements of GPUs' messages that would tell them apart. We took one
# for TCP, too, which was measured on Gigabit Ethernet and stands for 10 to 100 GbE. So for short
# messages networks of a group cannot differ here.
#
# **Do not compare the latency of NVLink with that of RDMA**: the first is a constant of NCCL's
# tuning model, the second a ping-pong of MPI. In NCCL's model, which has both, a step over the
# network takes about 3 to 6 times as long as one over NVLink (9.6 and 3.4 µs in the protocol
# Simple, 2.7 and 0.47 µs in LL, which is for short messages).

# %%
links = {}  # network -> its link, with .alpha in s and .beta in s/byte
for name, known in lab28.NETWORKS.items():
    numbers = virtual.machine(known)
    links[name] = numbers.inside if name == "NVLink" else numbers.between
    print(
        f"{name:<10} α {1e6 * links[name].alpha:>5.2f} µs   1/β {1e-9 / links[name].beta:>6.2f}"
        " GB/s"
    )

# %% [markdown]
# ### Predict
# One allreduce of 8 GPUs, each in a node of its own (with NVLink: all eight in one node). Put five
# networks in order, the fastest first, for 4 bytes, for 64 KB and for 100 MB: "10 GbE", "100 GbE",
# "FDR", "NDR", "NVLink". Write each order as names in brackets: `("FDR", "NDR", …)`. Where two are
# alike, within 5 %, either order is right.

# %%
predict(
    "28.1",
    order_4_B=...,  # five names
    order_64_KB=...,
    order_100_MB=...,
)


# %% [markdown]
# ### Exercise 28.1 · The time of an allreduce
# MPICH long summed by one of two algorithms ([lab 24](24_trees_and_halving.ipynb)), and the virtual cluster still does. Let p,
# the number of ranks, be a power of two. lg p is the logarithm to base 2: `math.log2(p)`.
#
# | vectors | way | messages, one after the other | bytes of each rank |
# |---|---|---|---|
# | up to 2,048 bytes | recursive doubling | lg p | lg p · n |
# | longer | Rabenseifner | 2 lg p | 2 (p - 1)/p · n |
#
# Each message costs α seconds, each byte β seconds. (2,048 bytes are MPICH's old limit. MPICH 5 and
# Open MPI choose otherwise.) So 4 bytes on 8 ranks take 3α + 12β.
#
# Write `allreduce_time(nbytes, p, alpha, beta)`, in seconds. 4 to 6 lines. *(beginner)*
#
# <details><summary>Hint 1: the short way</summary>
#
# `math.log2(p)` messages, each with the whole vector: `math.log2(p) * (alpha + nbytes * beta)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For `nbytes <= 2048` return the line above. Else `2 * math.log2(p) * alpha` plus `2 * (p - 1) / p`
# times the vector's `nbytes * beta`.
# </details>

# %%
def allreduce_time(nbytes, p, alpha, beta):
    """Seconds of an allreduce on p = 1, 2, 4, … ranks. alpha: seconds a message, beta: seconds a
    byte."""
    raise NotImplementedError("exercise 28.1: The time of an allreduce")


# %%
# Asked: The time of the virtual cluster's own Allreduce, on links that have α
# and β alone.
check("28.1", allreduce_time)


# %% [markdown]
# ### Measure
# All nine networks, simulated. In brackets: the simulated time, divided by that of your formula.
# `lab28.connect` puts the GPUs on a network. Its messages wait for no handshake ([lab 24](24_trees_and_halving.ipynb)). Those of
# NCCL hardly ever do, because its receivers announce their buffers ahead.

# %%
def by_formula(network, nbytes):
    """Seconds by your formula, on that network's link."""
    return allreduce_time(nbytes, gpus, links[network].alpha, links[network].beta)


def stand_in(nbytes):
    """64 numbers that count as so many bytes: a long vector is simulated as quickly as a short
    one."""
    return virtual.vector(np.ones(64), stands_for=nbytes)


sizes = {"4 B": 4, "64 KB": 64_000, "100 MB": 100_000_000}
seconds = {}  # size -> network -> simulated seconds
table = {}
for label, nbytes in sizes.items():
    vector = stand_in(nbytes)
    seconds[label] = {
        name: lab28.connect(name, gpus).run(lab28.allreduce, vector).time for name in lab28.NETWORKS
    }
    table[f"{label}, µs"] = {
        name: f"{1e6 * took:,.0f} ({took / by_formula(name, nbytes):.2f})"
        for name, took in seconds[label].items()
    }
    record.add("simulated allreduce", nbytes=nbytes, gpus=gpus, seconds_of=seconds[label])
print("Simulated (and divided by your formula):", pandas.DataFrame(table).to_string(), sep="\n")

# %%
# Your orders.
guesses = predict.recall("28.1")
for label in sizes:
    order = guesses.get(f"order_{label.replace(' ', '_')}")
    print(f"{label:>6}, simulated (= is closer than 5 %): {lab28.ranked(seconds[label])}")
    if order:
        right, count = lab28.pairs_in_order(order, seconds[label])
        print(f"        yours: {', '.join(order)}: {right} of {count} pairs are in order")

# %%
curves = {}
for name in ("10 GbE", "100 GbE", "FDR", "EDR", "NDR", "NVLink"):
    cluster = lab28.connect(name, gpus)
    powers = [4**k for k in (1, 3, 5, 7, 9, 11, 13)]
    curves[name] = {n: 1e3 * cluster.run(lab28.allreduce, stand_in(n)).time for n in powers}
plots.lines(
    curves,
    xlabel="bytes of the vector",
    ylabel="ms, simulated",
    title="Left latency parts the networks, right bandwidth",
    logx=True,
    logy=True,
    xbytes=True,
)

# %% [markdown]
# **Explain.** You should see that what decides changes with the size.
#
# - **4 B**: two groups. With RDMA, or on NVLink, it is some 10 µs; with TCP 90 µs, at 10 Gb/s as
#   at 100. (Inside a group the times are alike because we took the latencies to be alike. On real
#   machines NVLink would probably lead its group: section 1.)
# - **64 KB**: FDR leads 100 GbE by far, although it carries little more than half as many bytes a
#   second.
# - **100 MB**: the bits per second decide. RoCE, Omni-Path, EDR and 100 GbE, all of 100 Gb/s, are
#   within 15 % of each other. FDR has fallen behind them.
#
# So RDMA is worth most where messages are short. Where they are long, TCP on the same wire is
# nearly as good *if it fills the wire*. ESnet, from whom our 100 GbE is, expects 90 Gb/s of enough
# streams at once (twelve in its example), and 15 to 35 Gb/s of one stream alone.
#
# Why does NVLink take 16 % longer for 100 MB than your formula says?
# <details><summary>Answer</summary> It leaves out that somebody adds. Each GPU adds 7/8 of 100 MB, by its
# data sheet in 78 µs. Beside 15 ms on EDR nobody sees that, beside 0.5 ms on NVLink one
# does.</details>
#
# ### Is it latency or bandwidth? A control
# To see what a time is made of, take a part away. Below, latency is set to 0 on each network; then,
# instead, bytes take no time. The table shows how much of the time is left.

# %%
table = {}
for label, nbytes in sizes.items():
    for what in ("latency", "bytes"):
        left = {}
        for name in lab28.NETWORKS:
            changed = lab28.free(name, what)
            took = lab28.connect(name, gpus, changed).run(lab28.allreduce, stand_in(nbytes)).time
            left[name] = f"{took / seconds[label][name]:.0%}"
        table[f"{label}, no {what}"] = left
print("Left of the simulated time:", pandas.DataFrame(table).to_string(), sep="\n")
with_it = lab28.connect("EDR", gpus, machine).run(lab28.allreduce, stand_in(64_000)).time
print(f"EDR, 64 KB, with the handshakes of an MPI: {1e6 * with_it:.0f} µs")


# %% [markdown]
# **Explain.** At 4 B without latency nothing is left: latency is all. At 100 MB, without latency,
# hardly anything changes: bandwidth is nearly all. (On NVLink a sixth is left without bytes. Most
# of that is the adding: see above.) At 64 KB it depends on the network. (There a handshake would
# count, too: see the last line.) From which size on does bandwidth count?
#
# ## 2. The size at which both count alike
# ### Exercise 28.2 · Balance
# Take Rabenseifner's row of the table above. At one size its bytes take as long as its messages.
# Below it, latency is the larger part, above it bandwidth. Write `balance(p, alpha, beta)`, that
# size in bytes. 1 to 2 lines. *(intermediate)*
#
# <details><summary>Hint 1: an equation</summary>
#
# 2 lg p · α = 2 (p - 1)/p · n · β. Solve it for n.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Divide by 2, and bring everything but n to the left: lg p · p/(p - 1) · α/β.
# </details>

# %%
def balance(p, alpha, beta):
    """Bytes from which on Rabenseifner's bytes cost more than its messages, on p = 2, 4, 8, …
    ranks."""
    raise NotImplementedError("exercise 28.2: Balance")


# %%
# Asked: The bytes for which both parts are equal, on 2 to 64 ranks.
check("28.2", balance)

# %% [markdown]
# ### Predict
# Use your function, or the table of α and 1/β above. For which network is this size the largest:
# where must messages be longest? And how many kB is it there, on 8 GPUs?

# %%
predict("28.2", network=..., kilobytes=...)  # a name in quotes, and a number

# %%
balances = {}
for name, link in links.items():
    balances[name] = balance(gpus, link.alpha, link.beta) / 1e3
    print(f"{name:<10} {balances[name]:>6,.0f} kB, by your formula")
largest = max(balances, key=balances.get)
predict.right("28.2", network=largest, kilobytes=balances[largest])

# %% [markdown]
# **Explain.** The largest size belongs to the network with the most bandwidth. The size is in
# proportion to α/β. From FDR to NDR 1/β grew nearly eightfold, and α we took to be the same. So, at
# the same latency, the more bandwidth, the longer a message must be to profit. On NVLink everything
# below some megabytes waits for latency. 100 GbE comes second, by the latency of TCP.
#
# That is why DDP and Horovod pack gradients together (labs [32](32_buckets_and_overlap.ipynb) and [44](44_timeline_and_fusion.ipynb)).
#
# ## 3. How many cards?
# A node may have several network cards. DGX H100 has eight GPUs and eight cards of 400 Gb/s.
#
# Now 8 nodes of 8 GPUs. `lab28.torus_allreduce` is [lab 26](26_hierarchical_allreduce.ipynb)'s way in two dimensions: the GPUs of a
# node each take one part of the vector to the other nodes, and share the cards that there are. As a
# control, a flat ring ([lab 23](23_ring_allreduce.ipynb)) goes through all 64 GPUs in the order of the nodes. Only one GPU of
# a node has a neighbour on the next node.
#
# ### Predict
# For 100 MB, how many times as fast are eight cards as one (a) in two dimensions, with EDR, (b) in
# the flat ring? For (a) take the times of the first table: that of EDR between the nodes, to be
# shared out among the cards, and that of NVLink inside them, which stays. (c) Which takes longer in
# two dimensions, "one NDR" card or "eight EDR" cards? Compare their GB/s.

# %%
predict("28.2", torus_gain=..., ring_gain=..., longer=...)  # two numbers, and a text in quotes


# %%
def on_cards(network, cards, nbytes, flat=False):
    """Simulated seconds on nodes of 8 GPUs with so many cards each."""
    numbers = virtual.machine(lab28.NETWORKS[network]).but(nics=cards, handshake=0.0)
    cluster = virtual.Cluster(nodes, 8, numbers)
    vector = virtual.vector(np.ones(8 * nodes), stands_for=nbytes)
    if flat:
        return cluster.run(ring_allreduce, vector).time
    return cluster.run(lab28.torus_allreduce, vector, 8).time


cards = (1, 2, 4, 8)
times = {}
for name in ("10 GbE", "EDR", "NDR"):
    times[name] = {count: 1e3 * on_cards(name, count, 1e8) for count in cards}
times["EDR, flat ring"] = {count: 1e3 * on_cards("EDR", count, 1e8, flat=True) for count in cards}
short = {
    f"{name}, 4 B": {count: 1e3 * on_cards(name, count, 4) for count in cards}
    for name in ("EDR", "NDR")
}
table = pandas.DataFrame({**times, **short}).T
print("ms, simulated, by cards of a node:", table.to_string(float_format="{:.3g}".format), sep="\n")

# %%
plots.lines(
    times,
    xlabel="cards of a node",
    ylabel="ms, simulated",
    title="More cards help the way that uses them (100 MB)",
    logx=True,
    logy=True,
)
predict.right(
    "28.2",
    torus_gain=times["EDR"][1] / times["EDR"][8],
    ring_gain=times["EDR, flat ring"][1] / times["EDR, flat ring"][8],
    longer="one NDR" if times["NDR"][1] > times["EDR"][8] else "eight EDR",
)


# %% [markdown]
# **Explain.** For 100 MB what counts is the **sum** of a node's cards: one NDR card (48 GB/s) takes
# about as long as four of EDR (46 GB/s), and eight of EDR beat it.
#
# For 4 B cards do not matter. In the flat ring they do not help either: it sends through one card
# of each node. (NCCL lays several rings, each through another card.)
#
# Why does NDR gain only 3.8 times from eight cards?
# <details><summary>Answer</summary> Each doubling halves the time between the nodes, and only that. Inside
# the nodes it stays: about 0.5 ms on NVLink. With eight cards of NDR that is as long as the time
# between.</details>
#
# ## 4. Which share of a step?
# A vector of 100 MB is no invention: ResNet-50 has 102 MB of gradients, in 32 bits. How much does a
# training step feel of their exchange?
#
# Gradients can travel while the way back still computes ([lab 32](32_buckets_and_overlap.ipynb)). Say that a share `hidden` of the
# computing can cover the exchange. What is longer than that is *exposed*: all wait for it.
#
# - hidden = 0: nothing is covered; a step computes, then exchanges.
# - hidden = 2/3: the whole way back covers it (it is two thirds of the operations: [lab 02](02_why_parallel.ipynb)). In a
#   plain step it is not more.
#
# ### Exercise 28.3 · The share that one waits
# Write `waiting(compute, exchange, hidden)`: which share of the *step* one waits for the exchange.
# A step is the computing and what is exposed. For example, 0.1 s of computing and 0.06 s of
# exchange with hidden = 0.2: 0.02 s are covered, 0.04 s exposed, so the share is 0.04 / 0.14. 2 to
# 3 lines. *(beginner)*
#
# <details><summary>Hint 1: what is exposed?</summary>
#
# The exchange less `hidden * compute`, but never less than 0: `max(0, …)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `exposed / (compute + exposed)`.
# </details>

# %%
def waiting(compute, exchange, hidden):
    """Share of a step, 0 to 1, that waits for the exchange. compute, exchange: seconds. hidden: 0
    to 1."""
    raise NotImplementedError("exercise 28.3: The share that one waits")


# %%
# Asked: The share with nothing hidden, with a part, and with all of it.
check("28.3", waiting)

# %% [markdown]
# ### Predict
# ResNet-50, 64 pictures a GPU, 64 GPUs in nodes of 8 with **one** card each. An A100 computes such
# a step in 26 ms; a P100, four years older, took 292 ms. On 10 GbE the exchange takes 153 ms. Which
# percentage of the step does each wait, with hidden = 2/3? And on how many of the eight networks
# (here NVLink ends at the node) does an A100 then wait for nothing? The times for 100 MB are in the
# first table; one card for eight GPUs changes them little.

# %%
predict("28.3", percent_A100=..., percent_P100=..., networks_without_waiting=...)

# %% [markdown]
# ### Measure
# The exchange is simulated. The computing is from published images per second of training ResNet-50
# on **one** GPU: seconds of a step = 64 pictures / images per second. (NVIDIA's runs had larger
# steps, so a step of 64 may take a little longer than that.)

# %%
for gpu in lab28.GPUS:
    print(
        f"{gpu.name}: {gpu.images:g} images/s, a step of {1e3 * pictures / gpu.images:.0f} ms."
        f" {gpu.source}"
    )
rows = {}
shares = {}  # (network, GPU) -> share of the step, with the whole way back as cover
for name in lab28.NETWORKS:
    if name == "NVLink":
        continue  # here it ends at the node
    exchange = on_cards(name, 1, lab28.RESNET50.gradient)
    rows[name] = {"exchange, ms": f"{1e3 * exchange:.1f}"}
    for gpu in lab28.GPUS:
        bare = waiting(pictures / gpu.images, exchange, 0)
        shares[name, gpu.name] = waiting(pictures / gpu.images, exchange, 2 / 3)
        rows[name][gpu.name] = f"{bare:.0%} to {shares[name, gpu.name]:.0%}"
    record.add("simulated step", network=name, exchange=exchange, pictures=pictures)
table = pandas.DataFrame(rows).T
print(
    "\nShare of the step that waits, nothing hidden to all of the way back:",
    table.to_string(),
    sep="\n",
)

# %%
waits = {"percent_A100": 100 * shares["10 GbE", "A100, 16 bits"]}
waits["percent_P100"] = 100 * shares["10 GbE", "P100, 32 bits"]
of_a100 = [share for (_, gpu), share in shares.items() if gpu == "A100, 16 bits"]
predict.right("28.3", **waits, networks_without_waiting=of_a100.count(0))

# %% [markdown]
# **Explain.** Read a row: the faster the GPU, the more of its step one network takes. The P100 of
# 2016 can hide the exchange even on 10 GbE. An A100 can just hide it with 100 Gb/s, and not with
# FDR's 56. (How far "just" can be trusted, the control below says.) The gradients are the same; the
# time in which to hide them shrank.
#
# Read a column: from 100 Gb/s on all can be hidden in this simulation, if the overlap is as good as
# can be. Between the two numbers of a field lies what software does (labs [32](32_buckets_and_overlap.ipynb) and [46](46_three_libraries.ipynb)).
#
# The rows of 100 Gb/s are nearly equal. So for this net one buys RDMA for other reasons. Which
# messages of a training are short?
# <details><summary>Answer</summary> Gradients of single layers, where nobody packs them together ([lab 32](32_buckets_and_overlap.ipynb));
# the agreement on what is ready, in every cycle of Horovod ([lab 44](44_timeline_and_fusion.ipynb)); the statistics of batch
# normalisation over all ranks.</details>
#
# ### Is the simulation right? A control
# In 2017 Baidu published 35 times of allreduces over Omni-Path (DeepBench; Intel's library MLSL,
# processors Xeon Phi). Here is each of them, divided by the simulated time of the same bytes on as
# many nodes.

# %%
table = {}  # MB -> nodes -> published over simulated
for point in lab28.MEASURED:
    took = lab28.connect("Omni-Path", point.nodes).run(lab28.allreduce, stand_in(point.nbytes)).time
    table.setdefault(f"{point.nbytes / 1e6:.3g} MB", {})[f"{point.nodes} nodes"] = (
        point.seconds / took
    )
print("Published time / simulated time:", pandas.DataFrame(table).T.round(2).to_string(), sep="\n")
print(point.source)


# %% [markdown]
# **Explain.** The published times are 0.9 to 3 times the simulated ones. They agree best for 67 MB
# on up to 8 nodes. Shorter vectors take up to 3 times as long as simulated, and the two longest up
# to 2.4 times. Our cluster has no switch that is shared, no library with delays of its own, and its
# messages never wait for a processor.
#
# Two of the times are shorter than one link allows. On 4 and on 8 nodes the 67 MB take 7.54 and
# 8.66 ms, so each node sends 13.4 and 13.6 GB/s, and a link of 100 Gb/s carries 12.5. The source
# names processors with Omni-Path in their package (Xeon Phi 7250F) and a separate card besides. So
# those nodes may have had two links.
#
# What does that mean for the results above? For long vectors a factor of ten between two networks
# will stand. Ten percent say nothing. So that an A100 "just" hides its exchange at 100 Gb/s does
# not stand: it has 17 ms for 16 or 17. That it cannot at 10 Gb/s does. TCP, and messages of a few
# bytes, were not checked here: that TCP takes nine times as long for 4 B is as good as the latency
# that we estimated.
#
# ## 5. Which processor?
# A network is one number that can hold up a device. Its memory is another. The **roofline** ([lab 12](12_find_the_bottleneck.ipynb)) needs two numbers of a data sheet: the *peak*, operations a second, and the memory's
# *bandwidth*, bytes a second. A program has one number: its *intensity*, operations for each byte
# that it moves.
#
# - Memory lets bandwidth · intensity operations pass in a second. That is the slanted roof.
# - The flat roof is the peak. The lower roof is the limit.
# - They meet at the **ridge**: left of it memory is the limit, right of it the peak.
#
# For example, a device of 10¹² operations/s and 10¹¹ bytes/s has its ridge at 10 operations a byte;
# at 2 operations a byte it reaches 2 · 10¹¹ of them a second. You wrote the second function in
# [lab 12](12_find_the_bottleneck.ipynb).

# %%
def ridge(peak, bandwidth):
    """Operations a byte from which on the peak is the limit. peak: operations/s, bandwidth:
    bytes/s."""
    return peak / bandwidth


def attainable(intensity, peak, bandwidth):
    """The most operations/s of a program with so many operations a byte."""
    return min(peak, bandwidth * intensity)


# %% [markdown]
# ### Predict
# The layer fc6 of VGG-16 has 103 million parameters. With one picture each of them is read once,
# for a multiplication and an addition. (a) How many operations a byte is that in 16 bits? (b) Which
# percentage of its peak of 989 · 10¹² does an H100 reach then, with 3.35 · 10¹² bytes/s?

# %%
predict("28.3", operations_a_byte=..., percent_H100=...)

# %% [markdown]
# Nine devices, by their data sheets. A data sheet's peak counts operations on numbers of *its*
# kind: 32, 16 or 8 bits. A smaller number is also fewer bytes. (TPU, IPU and FPGA: Google's chip
# for matrices, Graphcore's with all memory on the chip, and a chip whose circuits one programs.
# NNP-T and Gaudi 2 are Intel's: it gave up the first, from Nervana, in 2020 for the second kind,
# from Habana.)
#
# Three cases are held against them, all from VGG-16: fc6 with 1 picture and with 256, and the
# convolution conv4_2 with 32.

# %%
rows = {}
for device in lab28.DEVICES:
    kind = "8-bit integers" if device.size == 1 else f"{8 * device.size} bits"
    rows[device.name] = {
        "year": device.year,
        "numbers": kind,
        "peak, 10¹²/s": f"{device.peak / 1e12:.4g}",
        "GB/s": f"{device.bandwidth / 1e9:,.0f}",
        "memory, GB": f"{device.memory / 1e9:,.1f}",
        "ridge": f"{ridge(device.peak, device.bandwidth):.3g}",
    }
print(pandas.DataFrame(rows).T.to_string(), "\n")
for device in lab28.DEVICES:
    print(f"{device.name}: {device.source}.")

# %%
# Seven curves can be told apart: Intel's two are left out. Gaudi 2 would lie below the H100.
intensities = np.geomspace(0.1, 10_000, 61)
roofs = {}
for device in lab28.DEVICES[:7]:
    most = [attainable(place, device.peak, device.bandwidth) / 1e12 for place in intensities]
    roofs[device.name] = (intensities, most)
plots.lines(
    roofs,
    xlabel="operations a byte",
    ylabel="10¹² operations/s, by the data sheet",
    title="Left of the ridge memory decides, right of it the peak",
    logx=True,
    logy=True,
    markers=False,
)

# %%
rows = {}
for device in lab28.DEVICES:
    rows[device.name] = {}
    for layer, count in lab28.LAYERS:
        place = lab28.intensity(layer, count, device.size)
        most = attainable(place, device.peak, device.bandwidth)
        text = f"{most / 1e12:.3g} ({most / device.peak:.1%})"
        rows[device.name][f"{layer}, pictures: {count}"] = text
print("At most, 10¹² operations/s (of the peak), by the data sheets:")
print(pandas.DataFrame(rows).T.to_string())
h100 = next(device for device in lab28.DEVICES if device.name == "H100")
place = lab28.intensity("fc6", 1, h100.size)
reached = 100 * attainable(place, h100.peak, h100.bandwidth) / h100.peak
predict.right("28.3", operations_a_byte=place, percent_H100=reached)

# %% [markdown]
# **Explain.** With one picture fc6 is left of every ridge: the order is that of the memories, and
# the peaks do not matter. (The FPGA's numbers are the shortest, so its memory brings more of them.)
# The convolution with 32 pictures is right of all ridges: the order is that of the peaks. With 256
# pictures fc6 is so, too, but for the H100. V100 and TPU v3 lie on each other.
#
# From the K80 to the H100 the peak grew 113 times, partly by smaller numbers, and the bandwidth 7
# times. So the ridge moved from 18 to 295: newer devices need larger batches to be busy.
#
# The IPU's ridge is at 2.8. Its memory lies on the chip, beside the arithmetic, and is as fast as
# 13 H100's. What is the price?
# <details><summary>Answer</summary> It holds 0.3 GB. The weights of fc6 fit in 16 bits (0.2 GB), those of
# VGG-16 (0.28 GB) just about, without any activation. A larger net is cut over many IPUs, and then
# links between chips are what counts.</details>
#
# On which of these would your framework run?
# <details><summary>Answer</summary> PyTorch and TensorFlow run as they are on the CPU and on NVIDIA's GPUs,
# as long as their build still knows the GPU: CUDA 12 has dropped the K80, and CUDA 13 the V100. The
# TPU, the IPU and Gaudi train with a package of their maker that translates your program:
# PyTorch/XLA (TensorFlow knows TPUs itself), PopTorch, and Intel's bridge with the device `hpu`.
# Such a package has its own list of versions and operations that it takes. NNP-T had drivers for
# TensorFlow and PaddlePaddle when Intel gave it up. The FPGA's processor only runs nets that were
# trained elsewhere and then quantized for it. So ask for the software first, and then for the
# roof.</details>
#
# *Sources: deprecated architectures in CUDA's release notes; the documentation of PyTorch/XLA,
# PopTorch, Intel Gaudi and Vitis AI (UG1414); Linley Newsletter, August 2019 and February 2020.*
#
# ### And in truth? A control
# A roof is a bound. How much of its peak did ResNet-50's training reach, by the published images
# per second of section 4?

# %%
for gpu in lab28.GPUS:
    reached = gpu.images * lab28.RESNET50.flops / 1e12
    peak = gpu.peak / 1e12
    print(f"{gpu.name}: {reached:4.1f} of {peak:g} · 10¹² operations/s, {reached / peak:.0%}")

# %% [markdown]
# **Explain.** In 32 bits training reaches half of the peak, in 16 bits a fifth. A likely reason, by
# the roofline: with the ridge so far right, more of the net's layers lie left of it. (That is no
# proof: [lab 12](12_find_the_bottleneck.ipynb) shows how to measure.)
#
# Not shown here: prices, watts, and how much of each device's peak its software can reach.
#
# ### Going further: the network is a roof, too
# Take the bytes that a GPU *sends* in place of those that it reads: about 2 · 102 MB in a step of
# ResNet-50. Then `ridge` says how many operations there must be for each byte sent, if the network
# is not to be the limit. It takes about 5 minutes.

# %%
step = pictures * lab28.RESNET50.flops / (2 * lab28.RESNET50.gradient)
print(f"ResNet-50, {pictures} pictures a step: {step:,.0f} operations for each byte sent")
for gpu in lab28.GPUS:
    speed = gpu.images * lab28.RESNET50.flops  # operations/s that training reaches, not the peak
    needed = {
        name: ridge(speed, 1 / links[name].beta) for name in ("10 GbE", "25 GbE", "EDR", "NDR")
    }
    print(
        f"{gpu.name}: the ridge is at",
        ", ".join(f"{place:,.0f} ({name})" for name, place in needed.items()),
    )

# %% [markdown]
# **Explain.** Where the ridge is left of the step's number, the exchange is shorter than the step's
# computing. You know the answer from section 4; this is the short way to it. And it shows two cures
# besides a faster network: more pictures in a step ([lab 34](34_large_batch.ipynb)), and fewer bytes ([lab 35](35_compress_gradients.ipynb)).
#
# ### What you take away
# - Short messages: RDMA or TCP decides. Long ones: bits per second, times the cards that the
#   algorithm uses.
# - Between them lies lg p · p/(p - 1) · α/β. At the same latency, more bandwidth needs longer
#   messages.
# - A faster GPU needs a faster network: there is less time in which to hide the exchange.
# - The lower of two roofs is the limit, of memory as of a network. [Lab 22](22_latency_and_bandwidth.ipynb) fits such numbers on your
#   machine.
