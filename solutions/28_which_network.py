# %% [markdown]
# # 28 Which network?
#
# Anyone who buys a cluster for training, or who asks for time on one, has to choose between
# InfiniBand and Ethernet, and between one network card per node and eight. The data sheets contain
# large numbers for everything, but they do not say which number determines the time of a training
# step. A network with four times the bandwidth makes some allreduces four times as fast and others
# no faster at all, and whether a network is fast enough also depends on the GPUs.
#
# In this lab we predict the order of nine networks before we simulate them, and find out when
# latency determines the time of an allreduce, when bandwidth does, and when neither matters. Then
# we count network cards, and compute the share of a training step that waits for the network. An
# optional part compares nine processors by the two numbers of their rooflines.
#
# **After this lab you can** (1) predict the time of an allreduce from a network's two numbers, its
# latency and its bandwidth, (2) compute the size from which its bandwidth matters, (3) predict
# whether more network cards make an allreduce faster, and (4) compute which share of a training
# step waits for a network.
#
# ![With TCP a message passes from memory through the operating system and the NIC of one node to the NIC, the operating system and the memory of another. With RDMA it bypasses the operating system, and NVLink connects GPUs through a switch](28_paths.svg)
#
# *Three kinds of connection. With TCP (Transmission Control Protocol) the operating system handles
# every message, which costs latency at both ends. With RDMA (remote direct memory access) the
# network cards (NICs) read and write the memory themselves. NVLink connects GPUs that are close to
# each other.*
#
# Needs: cpu · Ranks: 1 · Minutes: 60 · Level: intermediate · Before: 22, 24, 26

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
nodes = 8  # of 8 GPUs, where nodes have several NICs
images = 64  # of each GPU in a training step

# %% [markdown]
# ## 1. The same GPUs, nine networks
# The network card of a node (NIC, network interface card) is labeled with its bits per second. A
# byte has 8 bits, so 100 Gb/s are 12.5 GB/s, and protocol headers leave a little less for your
# data. We compare these nine networks:
#
# | name | what it is | Gb/s |
# |---|---|---|
# | 10, 25, 100 GbE | Gigabit Ethernet with **TCP**: each message goes through the operating system | 10, 25, 100 |
# | RoCE | the same Ethernet with **RDMA**: the NICs read and write memory themselves | 100 |
# | Omni-Path | Intel's, since 2020 Cornelis Networks'; it also bypasses the operating system | 100 |
# | FDR, EDR, NDR | InfiniBand of 2011, 2014 and 2022, with RDMA | 56, 100, 400 |
# | NVLink | links and switches for GPUs that are **close** to each other; no NIC | 3,600, one direction of an H100 |
#
# The speed of NVLink is that of NVIDIA's DGX H100, a node with eight H100 GPUs, where NVLink ends
# at the node. (In this lab a kB or KB has 1,000 bytes, a GB has 10⁹, and a KiB has 1,024.)
#
# Hardly anyone has access to all nine networks. For this reason the lab uses the **virtual
# cluster**, the simulator that lab 23 introduced, and everything that it prints is *simulated*. All
# networks connect the same GPUs, which are H100s, so only the network differs.
#
# Two numbers describe a link. Its *latency* α is the time that even an empty message takes, and its
# *bandwidth* 1/β is the number of bytes that follow per second. The next cell prints both for each
# network, and below them the sources of the latencies. The sources of the bandwidths are in
# `labs/virtual/machines.yaml`.
#
# The latencies are rough. One measurement is used for all networks with RDMA, another one for all
# networks with TCP, and the value for NVLink comes from a different source. For short messages,
# therefore, **compare only RDMA with TCP**.
# %%
links = {}  # network -> its link, with .alpha in s and .beta in s/byte
for name, known in lab28.NETWORKS.items():
    numbers = virtual.machine(known)
    links[name] = numbers.inside if name == "NVLink" else numbers.between
    print(
        f"{name:<10} α {1e6 * links[name].alpha:>5.2f} µs   1/β {1e-9 / links[name].beta:>6.2f}"
        " GB/s"
    )
for group, known, number in (
    ("RDMA", "edr", "between.latency"),
    ("TCP", "ethernet100", "between.latency"),
    ("NVLink", "ndr", "inside.latency"),
):
    print(f"\nα of {group}: {virtual.machine(known).sources[number]}")

# %% [markdown]
# ### Exercise 28.1 · The time of an allreduce
# Write `allreduce_time(nbytes, p, alpha, beta)`, which returns the seconds that an allreduce takes
# on a link with the two numbers α and β. This takes 4 to 6 lines. *(beginner)*
#
# The virtual cluster uses one of two algorithms, as the library MPICH did for many years. Lab 24
# derived their costs. The number of ranks p is a power of two, log₂ p is its logarithm to base 2,
# `math.log2(p)`, and the vector has n bytes.
#
# | vectors | algorithm | messages, one after the other | bytes of each rank |
# |---|---|---|---|
# | up to 2,048 bytes | recursive doubling | log₂ p | log₂ p · n |
# | longer | Rabenseifner | 2 log₂ p | 2 (p − 1)/p · n |
#
# Each message costs α seconds and each byte costs β seconds. For example, an allreduce of 4 bytes
# on 8 ranks consists of 3 messages of 4 bytes, so it takes 3α + 12β. An allreduce of 8,000 bytes
# consists of 6 messages with 2 · 7/8 · 8,000 = 14,000 bytes in all, so it takes 6α + 14,000β.
#
# <details><summary>Hint 1: short vectors</summary>
#
# There are `math.log2(p)` messages, each with the whole vector, so they take
# `math.log2(p) * (alpha + nbytes * beta)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For `nbytes <= 2048` return the expression above. Otherwise return `2 * math.log2(p) * alpha` plus
# `2 * (p - 1) / p` times the vector's `nbytes * beta`.
# </details>


# %%
def allreduce_time(nbytes, p, alpha, beta):
    """Seconds of an allreduce on p = 1, 2, 4, … ranks. alpha: seconds a message, beta: seconds a
    byte."""
    ### BEGIN SOLUTION
    rounds = math.log2(p)
    if nbytes <= 2048:
        return rounds * (alpha + nbytes * beta)
    return 2 * rounds * alpha + 2 * (p - 1) / p * nbytes * beta
    ### END SOLUTION


# %%
check("28.1", allreduce_time)

# %% [markdown]
# ### Predict
# Put networks in order for one allreduce of 8 GPUs, the fastest first. Each GPU is in its own node,
# except with NVLink, where all eight are in one node. You can use your function and the table of α
# and 1/β.
#
# - For 64 KB, put "10 GbE", "100 GbE", "FDR" and "NDR" in order.
# - For 100 MB, put the same four and "NVLink" in order.
#
# Write each order as names in parentheses: `("FDR", "NDR", …)`.
# %%
predict(
    "28.1",
    order_64_KB=("NDR", "FDR", "100 GbE", "10 GbE"),  # four names
    order_100_MB=("NVLink", "NDR", "100 GbE", "FDR", "10 GbE"),  # five names
)
# %% [markdown]
# ### Measure: nine networks, three sizes
# The next cell simulates an allreduce on all nine networks, for the two sizes of your prediction
# and for 4 bytes. The function `lab28.connect` puts the GPUs on a network. In the table, the number
# in parentheses is the simulated time divided by the time of your formula. For example, 12 (1.00)
# means 12 µs, exactly as your formula says.


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
        print(f"        yours: {lab28.judge(order, seconds[label])}")

# %% [markdown]
# **Explain.** You should see that latency, bandwidth or both determine the time, depending on the
# size. These times are simulated, so they should be the same on your machine.
#
# - **4 B**: the networks form two groups. The allreduce takes about 10 µs with RDMA (and on NVLink,
#   whose latency is from another source), but 90 µs with TCP, at 10 Gb/s as well as at 100.
# - **64 KB**: FDR is much faster than 100 GbE, although it transfers little more than half as many
#   bytes per second.
# - **100 MB**: the bandwidth determines the order. RoCE, Omni-Path, EDR and 100 GbE, which all have
#   100 Gb/s, differ by about ten percent, and FDR is slower than these four.
#
# RDMA is therefore worth most for short messages. For long messages, TCP over the same cable is
# nearly as good *if it uses the full bandwidth*.
#
# For our 100 GbE we assume 11.25 GB/s, which are the 90 Gb/s that the network operator ESnet
# expects with enough parallel streams (TCP connections). With one stream, ESnet expects only 15 to
# 35 Gb/s.
#
# Why does NVLink take 16 % longer for 100 MB than your formula says?
# <details><summary>Answer</summary>
#
# The formula leaves out the additions, each of which reads two values from memory and writes one.
#
# | | |
# |---|---|
# | each GPU adds | 7/8 of 100 MB = 87.5 MB |
# | bytes that pass through its memory | 3 · 87.5 MB |
# | time, at the 3.35 TB/s given in the data sheet | 78 µs |
#
# This time matters only because NVLink itself takes no more than 0.5 ms.
# </details>
#
# The next cell simulates the allreduce on six of the networks for seven sizes. You should see
# curves that are flat for short vectors and rise in proportion to the bytes for long ones.

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
    title="Latency separates the networks for short vectors, bandwidth for long ones",
    logx=True,
    logy=True,
    xbytes=True,
)

# %% [markdown]
# **Explain.** The curves have three parts:
#
# - Up to 1 KiB latency is nearly all of the time, so 10 GbE takes as long as 100 GbE.
# - From 1 to 16 KiB the times double even where bytes cost almost nothing, because above 2,048
#   bytes the allreduce consists of 6 messages instead of 3.
# - At 64 MiB the curves are in the order of the bandwidths.
#
# ### Is it latency or bandwidth? A control
# To see what a time consists of, we take one part away. In the next cell the latency of each
# network is first set to 0. Then, instead, bytes take no time. The table shows how much of the time
# is left. For 64 KB on FDR, for example, 42% is left without latency, so latency was the larger
# part.

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


# %% [markdown]
# **Explain.** The table shows which part is the larger one at each size:
#
# - At 4 B latency is all of the time.
# - At 64 KB latency is the larger part on every network, but on FDR bytes already take two fifths
#   of the time.
# - At 100 MB bandwidth is nearly all of the time. On NVLink a sixth is left when bytes take no
#   time, most of which is the addition that we found above.
#
# The next section computes the size above which bandwidth is the larger part.
#
# ## 2. The size at which latency and bandwidth matter equally
# For a single message this size is n½ = α/β (lab 22), at which its bytes take as long as an empty
# message. With α = 2 µs and 1/β = 10 GB/s, for example, n½ is 20 kB. An allreduce consists of
# several messages, which do not all have n bytes, so its *balance*, the size at which both parts
# take equally long, is at another size.
#
# ### Exercise 28.2 · Balance
# Write `balance(p, alpha, beta)`, which returns the balance of an allreduce in bytes. At this size,
# the bytes of the allreduce take as long as the latencies of its messages. Below this size latency
# is the larger part of the time, and above it bandwidth is. Use Rabenseifner's row in the table of
# 28.1, even if the size is below 2,048 bytes. This takes 1 to 2 lines. *(intermediate)*
#
# For example, take 2 ranks, α = 2 µs and 1/β = 10 GB/s. The two messages cost 4 µs. Each rank sends
# 2 · 1/2 · n = n bytes, and in 4 µs it can send 40 kB, so the balance is at n = 40 kB.
#
# <details><summary>Hint 1: an equation</summary>
#
# Solve 2 log₂ p · α = 2 (p − 1)/p · n · β for n.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Divide by 2, and bring everything except n to the left side: log₂ p · p/(p − 1) · α/β.
# </details>


# %%
def balance(p, alpha, beta):
    """Bytes of the vector whose Rabenseifner allreduce on p = 2, 4, 8, … ranks spends as long on
    bytes as on messages."""
    ### BEGIN SOLUTION
    return math.log2(p) * p / (p - 1) * alpha / beta
    ### END SOLUTION


# %%
check("28.2", balance)

# %% [markdown]
# ### Predict
# For which of the nine networks is this size the largest, so that vectors have to be longest before
# bandwidth is the larger part? Use the table of α and 1/β above.

# %%
predict("28.2", network="NVLink")  # a name in quotes

# %%
balances = {}
for name, link in links.items():
    balances[name] = balance(gpus, link.alpha, link.beta) / 1e3
    print(f"{name:<10} {balances[name]:>6,.0f} kB, by your formula")
largest = max(balances, key=balances.get)
predict.right("28.2", network=largest)

# %% [markdown]
# **Explain.** The size is proportional to α/β, so it depends on both numbers of a network:
#
# - NVLink has the largest size, because its bandwidth 1/β is by far the highest.
# - At equal latency, a network with more bandwidth needs longer vectors before its bandwidth helps.
#   From FDR to NDR, for example, 1/β increased 7.5 times while we assumed that α stayed the same.
# - TCP has a large α, so 100 GbE has a larger size than NDR.
#
# Below its balance, an allreduce spends most of its time on latency, however few bytes it has. For
# this reason PyTorch's DDP (DistributedDataParallel) and [Horovod](@horovod) combine gradients into
# longer vectors (labs 32 and 44). By default DDP collects gradients until a vector has about 25
# MiB, which is above the balance of all nine networks.
#
# ## 3. How many NICs?
# A node can have several NICs. A DGX H100, for example, has eight GPUs and eight NICs of 400 Gb/s.
# When do more NICs help?
#
# We take 8 nodes of 8 GPUs and compare two allreduces:
#
# - **In two dimensions** (lab 26): the GPUs of a node first add up their vectors, so that each of
#   them has an eighth of the sum. Each GPU then adds its eighth to those of the other nodes,
#   through the NICs, which the GPUs of a node share. At the end the GPUs of a node collect all
#   eighths.
# - **In a flat ring** (lab 23): all 64 GPUs form one ring in the order of the nodes. Each GPU sends
#   only to its right neighbor.
#
# With eight NICs each GPU has its own NIC, and with fewer the GPUs share them equally.
#
# ### Predict
# How many times as fast are eight NICs as one, for 100 MB on EDR, (a) in two dimensions (`gain_2d`)
# and (b) in the flat ring (`gain_ring`)?
#
# For (a), add two times from the table of section 1, which together are about the time with one
# NIC:
#
# - 15.3 ms between the nodes, as for EDR. Each GPU of a node sends only an eighth of the vector, so
#   all of them *together* send as many bytes as *one* GPU did there.
# - 0.57 ms inside the nodes, as for NVLink.
#
# Which of the two parts gains from more NICs?
# %%
predict("28.2", gain_2d=6, gain_ring=1)


# %%
def over_nics(network, nics, nbytes, flat=False):
    """Simulated seconds on nodes of 8 GPUs with so many NICs each."""
    # No handshakes (lab 24), because messages of NCCL hardly ever wait for one.
    numbers = virtual.machine(lab28.NETWORKS[network]).but(nics=nics, handshake=0.0)
    cluster = virtual.Cluster(nodes, 8, numbers)
    vector = virtual.vector(np.ones(8 * nodes), stands_for=nbytes)
    if flat:
        return cluster.run(ring_allreduce, vector).time
    return cluster.run(lab28.torus_allreduce, vector, 8).time


nics = (1, 2, 4, 8)
times = {}
for name in ("10 GbE", "EDR", "NDR"):
    times[name] = {count: 1e3 * over_nics(name, count, 1e8) for count in nics}
times["EDR, flat ring"] = {count: 1e3 * over_nics("EDR", count, 1e8, flat=True) for count in nics}
short = {"NDR, 4 B": {count: 1e3 * over_nics("NDR", count, 4) for count in nics}}
table = pandas.DataFrame({**times, **short}).T  # a column for each number of NICs
print("ms, simulated, by NICs of a node:", table.to_string(float_format="{:.3g}".format), sep="\n")

# %%
plots.lines(
    times,
    xlabel="NICs of a node",
    ylabel="ms, simulated",
    title="More NICs help the algorithm that uses them (100 MB)",
    logx=True,
    logy=True,
)
predict.right(
    "28.2",
    gain_2d=times["EDR"][1] / times["EDR"][8],
    gain_ring=times["EDR, flat ring"][1] / times["EDR, flat ring"][8],
)

# %% [markdown]
# **Explain.** In the table, more NICs help in only one of three cases:
#
# - **Two dimensions, 100 MB**: the **sum** of the bandwidths of a node's NICs determines the time.
#   One NDR NIC (48 GB/s) takes about as long as four EDR NICs (46 GB/s), and eight EDR NICs are
#   faster.
# - **Flat ring**: more NICs do not help, because the ring leaves each node through only one of
#   them. (NCCL, the NVIDIA Collective Communications Library, builds several rings, each through
#   another NIC.)
# - **4 B**: the number of NICs makes no difference, because the time is the latency of 14 messages
#   inside the nodes and 14 between them.
#
# Why are eight NDR NICs less than four times as fast as one?
# <details><summary>Answer</summary>
#
# Only the bytes between the nodes gain from more NICs:
#
# | ms, on NDR | 1 NIC | 8 NICs |
# |---|---|---|
# | bytes between the nodes | 3.65 | 0.46 |
# | bytes and additions inside the nodes | 0.55 | 0.55 |
# | latencies (the row for 4 B) | 0.1 | 0.1 |
# | sum | 4.3 | 1.1 |
#
# </details>
#
# ## 4. Which share of a training step?
# ResNet-50 has 102 MB of gradients in FP32 (32-bit floating-point numbers), about as much as our
# longest vector. How long does a training step wait for the allreduce of these gradients? (We
# assume that they are sent in FP32 also where a GPU computes with 16 bits.)
#
# An allreduce can run while the backward pass is still computing (lab 32). Suppose that it can
# overlap with a share `hidden` of the computation. The part of the allreduce that is longer than
# this is *exposed*, which means that all GPUs wait for it.
#
# - With hidden = 0 nothing overlaps. A training step first computes and then runs the allreduce.
# - With hidden = 2/3 the allreduce overlaps with the whole backward pass, which has two thirds of
#   the operations (lab 02). In a plain training step nothing more is possible.
#
# For example, suppose that a training step computes for 0.1 s and its allreduce takes 0.06 s, with
# hidden = 0.2:
#
# | | |
# |---|---|
# | hidden part of the allreduce | 0.2 · 0.1 s = 0.02 s |
# | exposed part | 0.06 s − 0.02 s = 0.04 s |
# | step | 0.1 s + 0.04 s = 0.14 s |
# | share spent waiting | 0.04 / 0.14 = 29 % |
#
# ### Exercise 28.3 · The share spent waiting
# Write `waiting(compute, exchange, hidden)`, which returns the share of the *step* spent waiting
# for the allreduce, which the code calls the *exchange*. A step consists of the computation and the
# exposed part of the allreduce. This takes 2 to 3 lines. *(beginner)*
#
# <details><summary>Hint 1: what is exposed?</summary>
#
# The exposed part is the exchange minus `hidden * compute`, but never less than 0, so use
# `max(0, …)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Return `exposed / (compute + exposed)`.
# </details>


# %%
def waiting(compute, exchange, hidden):
    """Share of a step, 0 to 1, that waits for the exchange. compute, exchange: seconds. hidden: 0
    to 1."""
    ### BEGIN SOLUTION
    exposed = max(0, exchange - hidden * compute)
    return exposed / (compute + exposed)
    ### END SOLUTION


# %%
check("28.3", waiting)

# %% [markdown]
# ### Predict
# Take ResNet-50 with 64 images per GPU on 64 GPUs, in nodes of 8 with **one** NIC each, and hidden
# = 2/3.
#
# An A100 computes such a step in 26 ms, while a P100, which is four years older, took 292 ms.
#
# (a) On 10 GbE the allreduce takes 153 ms. Which percentage of its step does each of the two GPUs
# wait?
#
# (b) On how many of the eight networks (without NVLink) does an A100 not wait at all? These are the
# times for 100 MB, from the table of section 1. For the 102 MB of ResNet-50, with eight GPUs that
# share a NIC, they change little, for example to 15 to 17 ms at 100 Gb/s:
#
# | | 25 GbE | FDR | four networks with 100 Gb/s | NDR |
# |---|---|---|---|---|
# | ms | 60 | 27 | 14 to 16 | 4 |

# %%
predict("28.3", percent_A100=84, percent_P100=0, networks_without_waiting=5)

# %% [markdown]
# ### Measure: the share that waits
# The time of the allreduce is simulated. The time of the computation is 64 images divided by the
# published images per second of **one** GPU that trains ResNet-50.
#
# In the table of the next cell a row is a network, a column is a GPU, and each field contains two
# shares, first with hidden = 0 and then with hidden = 2/3. For example, "50% to 0%" means that half
# of the step is spent waiting if nothing overlaps, and nothing if the allreduce overlaps with the
# whole backward pass.

# %%
for gpu in lab28.GPUS:
    print(
        f"{gpu.name}: {gpu.images:g} images/s, a step of {1e3 * images / gpu.images:.0f} ms."
        f" {gpu.source}"
    )
rows = {}
shares = {}  # (network, GPU) -> share of the step, with the whole backward pass hidden
for name in lab28.NETWORKS:
    if name == "NVLink":
        continue  # here it ends at the node
    exchange = over_nics(name, 1, lab28.RESNET50.gradient)
    rows[name] = {"exchange, ms": f"{1e3 * exchange:.1f}"}
    for gpu in lab28.GPUS:
        bare = waiting(images / gpu.images, exchange, 0)
        shares[name, gpu.name] = float(waiting(images / gpu.images, exchange, 2 / 3))
        rows[name][gpu.name] = f"{bare:.0%} to {shares[name, gpu.name]:.0%}"
    record.add("simulated step", network=name, exchange=exchange, images=images)
table = pandas.DataFrame(rows).T
print(
    "\nShare of the step that waits, from nothing hidden to the whole backward pass hidden:",
    table.to_string(),
    sep="\n",
)

# %%
waits = {"percent_A100": 100 * shares["10 GbE", "A100, 16 bits"]}
waits["percent_P100"] = 100 * shares["10 GbE", "P100, 32 bits"]
of_a100 = [share for (_, gpu), share in shares.items() if gpu == "A100, 16 bits"]
predict.right("28.3", **waits, networks_without_waiting=of_a100.count(0))

# %% [markdown]
# **Explain.** In each row of the table, the faster the GPU is, the larger is the share of its step
# that the same network takes. A P100 of 2016 can hide the allreduce even on 10 GbE. An A100 can
# only just hide it with 100 Gb/s, and cannot hide it with the 56 Gb/s of FDR. The gradients are the
# same for both GPUs, but the time in which they can be hidden has become shorter.
#
# The second number of each field is 0 % at 100 Gb/s and above, so the whole allreduce can be hidden
# in this simulation if the overlap is as good as possible. The difference between the two numbers
# is what good software gains (labs 32 and 46).
#
# Which NIC should one buy? In two dimensions, 2 · 7/8 · 102.2 MB = 179 MB pass through the NIC of a
# node in each step:
#
# | | A100 | P100 |
# |---|---|---|
# | time in which it can be hidden | 17.3 ms | 195 ms |
# | of this, for the bytes inside the node and the latencies | about 0.65 ms | about 0.65 ms |
# | bandwidth that the NIC needs | 179 MB / 16.6 ms = 10.8 GB/s | 179 MB / 194 ms = 0.9 GB/s |
# | enough | 100 Gb/s, but not 56 Gb/s | 10 Gb/s |
#
# ### Is the simulation right? A control
# In 2017 Baidu published measured times of allreduces over Omni-Path (DeepBench, with Intel's
# library MLSL and Xeon Phi processors). The next cell divides each of them by the simulated time
# for the same number of bytes (row) on the same number of nodes (column). The value 2, for example,
# means that the real allreduce took twice as long as ours.

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
# **Explain.** The published times are 0.9 to 3 times the simulated ones. The virtual cluster has no
# shared switch, no library with its own delays, and its messages never wait for a busy processor.
# For the results above this means:
#
# - *Reliable:* a factor of ten between two networks for long vectors. At 10 Gb/s an A100 certainly
#   cannot hide its allreduce, because sending 179 MB alone takes 143 ms.
# - *Not reliable:* a difference of ten percent. An A100 has 17 ms in which to hide 15 to 17 ms at
#   100 Gb/s, so we cannot be sure that it succeeds.
# - *Not tested:* TCP and messages of a few bytes, where our results are only as good as the
#   estimated latencies.
#
# ### What you take away
# - For short messages the choice between RDMA and TCP determines the time. For long messages it is
#   the bits per second, multiplied by the number of NICs that the algorithm uses.
# - For an allreduce, the boundary between short and long is at log₂ p · p/(p − 1) · α/β bytes. At
#   equal latency, a network with more bandwidth needs longer messages.
# - A faster GPU needs a faster network, because its steps leave less time in which an allreduce can
#   be hidden. If the network is too slow, more images in a step (lab 34) or fewer bytes (lab 35)
#   also help.
#
# ## Going further (optional): which processor? (13 minutes)
# A fast processor needs a fast network, and it also needs a fast memory. How do you read this from
# a data sheet?
#
# The **roofline** model (lab 12) uses two numbers of a processor, its *peak* in operations per
# second and the *bandwidth* of its memory in bytes per second. A program has one number, its
# *intensity*, which is the number of operations per byte that it moves.
#
# The memory allows bandwidth · intensity operations per second, and the lower one of this product
# and the peak is the limit. Both are equal at the **ridge**, which is the intensity peak /
# bandwidth. Programs with a lower intensity are limited by the memory, and programs with a higher
# one by the peak.
#
# For example, a processor with 10¹² operations/s and 10¹¹ bytes/s has its ridge at 10 operations
# per byte. A program with 2 operations per byte reaches at most 2 · 10¹¹ operations per second on
# it, which is 20 % of the peak. You wrote the second function of the next cell in lab 12.


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
# The layer fc6 of VGG-16 has 103 million parameters. With a batch of one image, each parameter is
# read once, for one multiplication and one addition. (a) How many operations per byte is this with
# 16-bit parameters? (b) What percentage of its peak of 989 · 10¹² operations/s does an H100 reach
# then, with 3.35 · 10¹² bytes/s?

# %%
predict("28.3", operations_a_byte=1, percent_H100=0.34)

# %%
h100 = next(device for device in lab28.DEVICES if device.name == "H100")
place = lab28.intensity("fc6", 1, h100.size)
reached = 100 * attainable(place, h100.peak, h100.bandwidth) / h100.peak
predict.right("28.3", operations_a_byte=place, percent_H100=reached)

# %% [markdown]
# ### Nine processors by their data sheets
# The next cell compares a CPU and three GPUs of NVIDIA (K80, V100 and H100) with five other
# processors:
#
# | processor | what it is |
# |---|---|
# | TPU v3 | Google's processor for matrices |
# | IPU | Graphcore's, which has all of its memory on the chip |
# | FPGA | a chip whose circuits can be programmed |
# | NNP-T | Intel's, from Nervana; given up in 2020 in favor of Gaudi |
# | Gaudi 2 | Intel's, from Habana |
#
# Each peak counts operations on the kind of numbers in the column `numbers`, which have 32, 16 or 8
# bits. In the table, look at the last column, the ridge. The V100, for example, needs 139
# operations per byte to reach its peak.
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

# %% [markdown]
# The next cell plots the most that a processor reaches at any intensity. Its curve rises up to the
# ridge and is flat from there on. The plot leaves out the TPU, whose curve would cover that of the
# V100, and Intel's two processors.

# %%
roofs = {}
for device in lab28.DEVICES:
    if device.name in ("TPU v3", "NNP-T", "Gaudi 2"):
        continue
    intensities = (0.1, ridge(device.peak, device.bandwidth), 10_000)
    most = [attainable(place, device.peak, device.bandwidth) / 1e12 for place in intensities]
    roofs[device.name] = (intensities, most)
plots.lines(
    roofs,
    xlabel="operations per byte",
    ylabel="10¹² operations/s, by the data sheet",
    title="Left of the ridge memory decides, right of it the peak",
    logx=True,
    logy=True,
    markers=False,
)

# %% [markdown]
# What do the ridges mean for a model? The next cell takes three cases from VGG-16: the layer fc6
# with 1 image and with 256 images, and the convolution conv4_2 with 32 images. For each it prints
# the intensity and the processors whose ridge is higher, so that their memory is the limit.

# %%
for layer, count in lab28.LAYERS:
    limited = [
        device.name
        for device in lab28.DEVICES
        if lab28.intensity(layer, count, device.size) < ridge(device.peak, device.bandwidth)
    ]
    print(
        f"{layer}, images: {count}: {lab28.intensity(layer, count, 2):,.0f} operations per byte"
        f" (16 bits). Limited by the memory: {', '.join(limited) or 'none'}"
    )
# %% [markdown]
# **Explain.** With one image the intensity of fc6 is below every ridge, so only the memories
# matter, and the peaks do not. The convolution is above all ridges, so only the peaks matter. With
# 256 images fc6 is above all ridges except that of the H100.
#
# From the K80 to the H100 the peak increased 113 times, partly because of shorter numbers, but the
# bandwidth increased only 7 times. The ridge therefore moved from 18 to 295, and newer GPUs need
# larger batches to reach their peak.
#
# The ridge of the IPU is at only 2.8, because its memory on the chip is as fast as the memories of
# 13 H100s. What is the disadvantage?
# <details><summary>Answer</summary>
#
# This memory holds only 0.3 GB. The 16-bit weights of VGG-16 (0.28 GB) barely fit, even without any
# activations. A larger network has to be distributed over many IPUs, so that the links between the
# chips determine its speed.
# </details>
#
# On which of these processors would your framework run?
# <details><summary>Answer</summary>
#
# PyTorch and TensorFlow run without changes on the CPU and on the NVIDIA GPUs that their build
# supports. The TPU, the IPU and Gaudi train with a package from their manufacturer that translates
# your program and has its own list of supported operations. The processor on the FPGA only runs
# networks that were trained elsewhere. So ask about the software first, and about the roofline
# second.
# </details>
#
# ### How much of the peak is reached? A control
# A roofline is only an upper bound. The next cell computes how much of its peak each GPU reached
# when it trained ResNet-50, from the published images per second of section 4.

# %%
for gpu in lab28.GPUS:
    reached = gpu.images * lab28.RESNET50.flops / 1e12
    peak = gpu.peak / 1e12
    print(f"{gpu.name}: {reached:4.1f} of {peak:g} · 10¹² operations/s, {reached / peak:.0%}")

# %% [markdown]
# **Explain.** In FP32 training reaches half of the peak, and with 16-bit numbers about a fifth. A
# likely reason, which we did not measure here (lab 12 shows how), is the ridge. It is at a much
# higher intensity with 16 bits, so more layers of the network are limited by the memory.
#
# ### Further reading
# - [@thakur2005] The two allreduce algorithms of this lab, and MPICH's limits between them.
# - [@williams2009] The roofline model.
# - [@awan2019] Allreduce for training on GPU clusters, by CUDA-aware MPI and by NCCL.
# - [@jia2018] How hierarchical allreduces of fused gradients helped to train on ImageNet in
#   minutes.
# - [@nccl_tests] How NCCL's bandwidth is measured and compared with that of the links.
