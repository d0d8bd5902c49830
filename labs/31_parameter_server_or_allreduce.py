# %% [markdown]
# <!-- Generated from solutions/31_parameter_server_or_allreduce.py by `make labs`. Learners work on a copy in work/. -->
# # 31 Parameter server or allreduce
#
# Who adds up the gradients: one server, several servers, or everybody? You build the first two from
# messages, find the link that all wait for, and see how much of a published hot spot, VGG-16 on 64
# GPUs, it explains.
#
# **You will be able to** (1) write a synchronous parameter server and split it over several, (2)
# say how many bytes its busiest link carries, beside a ring's, (3) explain a published hot spot
# from a table of layers.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 20, 23, 30

# %%
import numpy as np
import virtual
from labkit import check, hint, lab, launch, nets, plots, predict, record, timing, world
from labkit.collectives import ring_allreduce, tree_allreduce
from support import lab31

lab.start("31_parameter_server_or_allreduce")

# %% tags=["parameters"]
per_worker = 32  # images per worker and step
epochs = 3  # passes over the 1,536 training images
learning_rate = 0.2  # plain SGD
workers_virtual = (2, 4, 8, 16, 32, 64)  # workers on the virtual cluster
values_real = 1 << 20  # float32 values (4 bytes) per vector in the measurement on real ranks
patience = 30  # seconds after which a check calls the ranks stuck


# %% [markdown]
# In [lab 30](30_average_gradients.ipynb) all ranks added up together. The older way has two kinds of rank. A **parameter server**
# keeps the parameters. In each step every **worker** *pushes* its gradient to the server. The
# server takes the mean and makes the step. Then the workers *pull* the new parameters. That is easy
# to build.
#
# Courses such as SURF's call this way **centralised**, and [lab 30](30_average_gradients.ipynb)'s **decentralised**: who adds up,
# a centre or all?
#
# ### Exercise 31.1 · A parameter server
# Rank 0 is the server and computes no gradient. All others are workers. Write one step:
#
# | the server (rank 0) | each worker |
# |---|---|
# | receives each worker's gradient into a `box`, and adds it to a sum | sends its gradient to rank 0 |
# | makes the step in `parameters`, in place | |
# | sends `parameters` to each worker | receives them, into its own `parameters` |
#
# The step is `parameters -= rate * mean`. It writes into the array that is there; `parameters = …`
# would make another. `comm.Recv(box)` without a `source` takes the message that comes first. About
# 10 lines. *(beginner)*
#
# <details><summary>Hint 1: a worker</summary>
#
# Two lines: `Send` the gradient to rank 0, `Recv` the parameters from there, into `parameters`
# itself.
# </details>
# <details><summary>Hint 2: the server, nearly the answer</summary>
#
# `total = np.zeros_like(parameters)`, and a `box` of its size. `workers` times: receive into `box`,
# add it to `total`. Then `parameters -= rate * total / …` (how many?), and
# `comm.Send(parameters, dest=…)` to each.
# </details>

# %%
def server_step(comm, parameters, gradient, rate):
    """One SGD step with the mean of the workers' gradients. Then all ranks have the new
    `parameters`."""
    workers = comm.size - 1
    raise NotImplementedError("exercise 31.1: A parameter server")


# %%
# Asked: The server's step, with the mean of the workers' gradients, is in the
# parameters of all 2 to 16 virtual ranks, which began with different ones, and
# no byte too many is sent; and real ranks train as one process.
check("31.1", server_step)

# %% [markdown]
# The two trainings are equal to rounding, not to the last bit: gradients are added in whatever
# order they come.
#
# ### Predict
# VGG-16 has 138 million values, 553 MB. Take 64 workers, and links of 40 Gb/s: 5 GB/s in and 5 GB/s
# out at once. How many seconds of communication has a step with one server, through whose link all
# vectors go, in and then out? And with a ring, where each rank sends 2(p - 1)/p vectors ([lab 23](23_ring_allreduce.ipynb))?
#
# Now 16 servers. VGG has 16 layers with values, so each server gets one whole layer. How many
# percent of all values has the fullest server? (The largest layer joins 7·7·512 numbers to 4,096.)

# %%
predict("31.2", one_server=..., ring=..., percent_on_fullest=...)

# %% [markdown]
# ### Measure: who waits for whom?
# One step with one server and 4 workers on the virtual cluster ([lab 23](23_ring_allreduce.ipynb)), with vectors as long as
# VGG-16's.

# %%
zeros = np.zeros(4096, np.float32)
vectors = [virtual.vector(zeros, stands_for=553.4e6) for _ in range(2)]  # VGG-16's
# 40 Gb/s for each rank, and adding up takes no time.
forty = virtual.ideal(alpha=20e-6, bandwidth=40e9 / 8)
run = virtual.Cluster(nodes=5, machine=forty).run(lab31.one_step, *vectors, server_step, trace=True)
plots.timeline(run, title="One server (rank 0), 4 workers, VGG-16: all wait for one link")


# %% [markdown]
# **Explain.** In the first half all four workers send at the same time and share rank 0's way in,
# so each has a quarter of its speed. In the second half rank 0 sends, one worker after the other.
# How much of the time does a worker's own link work?
#
# <details><summary>Answer</summary>
#
# A worker's link carries two vectors, one out and one in; rank 0's carries eight. So at full speed
# it would be busy for a quarter of the time. With 64 workers it is a 64th.
# </details>
#
# ### Exercise 31.2 · Cut the parameters
# One link is too slow. So take S servers, each with a piece of the parameters. Whole layers make
# unequal pieces. Cut the flat vector instead, so that all servers hold as many *values*, or one
# more. 3 lines. *(beginner)*
#
# <details><summary>Hint 1: what counts</summary>
#
# Layers do not matter, only `total = sum(sizes)`: a piece may end in the middle of a layer.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Piece s begins at `s * total // servers` and ends where piece s + 1 begins.
# </details>

# %%
def cut(sizes, servers):
    """A list of slices of the flat vector, slice(first, end), one per server. sizes: values in each
    layer."""
    raise NotImplementedError("exercise 31.2: Cut the parameters")


# %%
# The values of each layer of three nets.
tables = {net: nets.layer_table(net).parameters for net in ("vgg16", "resnet101", "inception_v3")}
layers = {net: [int(values) for values in table if values] for net, table in tables.items()}

# %%
# Asked: There are so many slices, one after another, from the first value to
# the last, equal but for one value.
check("31.2", cut)


# %% [markdown]
# ### Exercise 31.3 · Several servers
# Ranks 0 to S - 1 do what rank 0 did, each with its piece. But nobody may deal with one rank after
# another now. If all servers took the first worker's message, then the second's, all would meet in
# one worker's link, and the other links would idle. So everybody *begins* all its messages with
# `Isend` and `Irecv`, keeps the requests in a list, and then waits for each ([lab 20](20_ranks_and_messages.ipynb)):
#
# | a server (ranks 0 to S - 1) | a worker (ranks from S on) |
# |---|---|
# | begins an `Irecv` from each worker, into its box | begins an `Irecv` of each piece of `parameters` |
# | waits for all | begins an `Isend` of each piece of `gradient` |
# | makes the step in its piece of `parameters`, in place | waits for all |
# | begins an `Isend` of its piece to each worker; waits for all | |
#
# `own = parameters[pieces[comm.rank]]` is a view: what changes in it, in place, changes in
# `parameters`. A server's boxes are
# `boxes = [np.empty_like(own) for worker in range(servers, comm.size)]`, and their sum is
# `sum(boxes)`. About 13 lines. *(intermediate)*
#
# <details><summary>Hint 1: a server</summary>
#
# Box i is for rank servers + i: `requests = [comm.Irecv(box, source=servers + i) for i, box in
# enumerate(boxes)]`. When all have come, `own -= rate * sum(boxes) / workers`.
# </details>
# <details><summary>Hint 2: a worker, nearly the answer</summary>
#
# `requests = [comm.Irecv(parameters[piece], source=s) for s, piece in enumerate(pieces)]`; add
# `[comm.Isend(gradient[piece], dest=s) for …]` to the list;
# `for request in requests: request.Wait()`.
# </details>

# %%
def servers_step(comm, parameters, gradient, rate, pieces):
    """server_step with len(pieces) servers. Afterwards all workers have all of the new
    `parameters`."""
    servers = len(pieces)
    workers = comm.size - servers
    raise NotImplementedError("exercise 31.3: Several servers")


# %%
# Asked: The step is right for many numbers of workers and servers, and nobody
# waits for one after another; and real ranks train as one process.
check("31.3", servers_step)

# %%
# The messages of a step on virtual ranks, and who holds how many values.
vgg = layers["vgg16"]


def exchange(workers, sizes, way):
    """A step's messages at 40 Gb/s, for layers of such sizes. way: an allreduce, or values on each
    server."""
    vectors = [
        virtual.vector(np.zeros(4096, np.float32), stands_for=4 * sum(sizes)) for _ in range(2)
    ]
    if callable(way):
        return virtual.Cluster(nodes=workers, machine=forty).run(way, vectors[0])
    cluster = virtual.Cluster(nodes=workers + len(way), machine=forty)
    return cluster.run(lab31.one_step, *vectors, servers_step, lab31.in_ratio(way, 4096))


def dealt(sizes, servers=16):
    """Values on each server if whole layers are dealt like cards."""
    return [sum(sizes[s::servers]) for s in range(servers)]


def greedy(sizes, servers=16):
    """Values on each server if each layer in turn goes to the one that has fewest."""
    loads = [0] * servers
    for values in sizes:
        loads[loads.index(min(loads))] += values
    return loads


def even(servers):
    """Values on each server if VGG-16's flat vector is cut."""
    return [sum(vgg) / servers] * servers


# %% [markdown]
# ### Measure: VGG-16 over links of 40 Gb/s
# A step's messages in six ways, on 2 to 64 workers. Lines show the time. Bars show what the busiest
# link sends, in one direction. *Layers* gives whole layers to the servers, each to the one that has
# fewest values so far. *Tree* adds on the way up a tree and sends the sum down again, as in [lab 21](21_collectives.ipynb).
# About 20 s.

# %%
ways = {
    "1 server": lambda workers: even(1),
    "16 servers,\nlayers": lambda workers: greedy(vgg),
    "16 servers,\ncut": lambda workers: even(16),
    "a server\nper worker": even,
    "tree": lambda workers: tree_allreduce,
    "ring": lambda workers: ring_allreduce,
}
runs = {}
for way, loads in ways.items():
    runs[way] = {workers: exchange(workers, vgg, loads(workers)) for workers in workers_virtual}
times = {
    way.replace("\n", " "): {workers: run.time for workers, run in row.items()}
    for way, row in runs.items()
}
title = "A server's time doubles with the workers, a ring's hardly grows"
plots.lines(times, xlabel="workers", ylabel="time (s)", title=title, logx=True, logy=True)
most = max(workers_virtual)
busiest = {way: {"": max(row[most].sent_bytes) / 1e9} for way, row in runs.items()}
plots.bars(busiest, ylabel="GB sent", title=f"The busiest link in a step, {most} workers")
last = {"one_server": times["1 server"][most], "ring": times["ring"][most]}
predict.compare("31.2", **last, percent_on_fullest=100 * max(dealt(vgg)) / sum(vgg))

# %% [markdown]
# **Explain.** You should see that one server's time grows with the workers, and that 16 servers
# with equal pieces take a 16th of it, once there are more workers than servers. With whole layers
# they take nearly as long as one: one server has layer fc6, three quarters of all values. A server
# for each worker and the ring take about as long at 64 workers, although a ring's rank sends twice
# as much. Why is the ring not slower?
#
# <details><summary>Answer</summary>
#
# With a server for each worker, a link carries one vector in one direction, and later one in the
# other. The ring's links carry nearly two vectors each way, but in and out at the same time. And
# the ring needs half the links, as it has no servers. Could a ring be beaten? Not by much where
# only ranks add: [lab 23](23_ring_allreduce.ipynb) has the bound.
# </details>
#
# ### A published hot spot
# Horovod's README of 2017 (github.com/horovod/horovod at d54e3a88) has images/s of TensorFlow's
# parameter servers and of Horovod, on 16 machines with 4 GPUs and 40 Gb/s each, 64 images a GPU.
# The program was tf_cnn_benchmarks. It gives each variable in turn to the server that holds fewest
# bytes: our `greedy`. (An older default of TensorFlow deals them like cards: our `dealt`.)
#
# How much of the published time do our links alone explain? "Published" is a step's time on 64 GPUs
# less that on one GPU. The README has two rows for the servers, with the workers' variables on the
# CPU or on the GPU.
#
# Two things differ from our model:
#
# - How many servers there were is not said. 16 is our guess, one for each machine.
# - Our 64 workers have a link each, and there four GPUs shared one. Four gradients leave by that
#   link in the time in which the fullest of 16 servers takes in a 16th of 64 gradients or more:
#   four or more. So the servers' links decide in both.

# %%
# images/s: one GPU; 64 GPUs with servers (variables on CPU, on GPU), with Horovod and NCCL
readme = [
    ("vgg16", 149.6, 100.8, 97.0, 6084.2),
    ("resnet101", 136.0, 4269.2, 2996.0, 7741.6),
    ("inception_v3", 148.8, 5297.4, 4225.3, 7932.1),
]


def seconds_lost(images, one_gpu):
    """Of a step of 64 images on each of 64 GPUs, against one GPU alone."""
    return 64 * 64 / images - 64 / one_gpu


# %%
ours, published = {}, {}
columns = ("on CPU", "on GPU", "greedy", "dealt", "greedy / on CPU")
print("seconds a step: published (variables on CPU, on GPU), and our links (greedy, dealt)")
print(" " * 14, *(f"{column:>17}" for column in columns))
for net, one_gpu, on_cpu, on_gpu, ring in readme:
    links = [exchange(64, layers[net], place(layers[net])).time for place in (greedy, dealt)]
    lost = [seconds_lost(images, one_gpu) for images in (on_cpu, on_gpu)]
    row = [f"{seconds:17.2f}" for seconds in (*lost, *links)]
    print(f"{net:14}", *row, f"{100 * links[0] / lost[0]:15.0f} %")
    published[f"{net}, servers"] = lost[0]
    ours[f"{net}, servers"] = links[0]
    published[f"{net}, ring"] = seconds_lost(ring, one_gpu)
    ours[f"{net}, ring"] = exchange(64, layers[net], ring_allreduce).time
title = "64 GPUs: our links, and published"
plots.compare(ours, published, unit="seconds a step", title=title, names=("our links", "published"))


# %% [markdown]
# **Explain.** For ResNet-101 and Inception-v3 our links with greedy placement take about 90 % of
# the published time with variables on the CPU. Do not trust that too far. In the published step
# there are updates and copies, which our model leaves out, and part of the messages may hide behind
# computing, which makes it shorter. Two errors may cancel.
#
# For VGG-16 the links explain a quarter, and no such error is as large. No placement helps VGG:
# layer fc6, 411 MB, is on one server. 64 gradients of fc6 in and 64 copies out, in 40 s: that is
# 1.3 GB/s, and a link has 5 GB/s. What may take the rest of the time?
#
# <details><summary>Answer</summary>
#
# Nobody has published it, so this is a guess: **gRPC**, which carried TensorFlow's tensors. It
# packs each tensor into a message, cuts that into frames, copies it through TCP, and unpacks it.
# Awan and others (CCGrid 2019, arXiv 1810.11112) tried gRPC alone, gRPC with InfiniBand or MPI
# below it, and allreduces without it. The allreduces won.
# </details>
#
# Horovod is no free ride either. The same README has its own row without NCCL, with MPI's allreduce
# on CPUs: ResNet-101 then ran at 3,762 images/s, slower than with TensorFlow's servers and
# variables on the CPU (4,269).
#
# ### For those who have time: your own ranks
# This part is not in the minutes of the lab. It takes about 5 more.
#
# A step's messages on real ranks: one server with its update, your ring of [lab 23](23_ring_allreduce.ipynb), and MPI's own
# allreduce. The ring has all ranks as workers, the server one less.

# %%
def real_times(comm):
    """A step's messages on real ranks, the server's with its update. Across ranks: the slowest
    counts."""
    own, other = np.zeros(values_real, np.float32), np.zeros(values_real, np.float32)
    ways = {
        "server": lambda: server_step(comm, own, other, 0.2),
        "ring": lambda: ring_allreduce(comm, own),
        "MPI's own": lambda: comm.Allreduce(own, other),
    }
    return {way: timing.measure(call, comm=comm) for way, call in ways.items()}


ranks = launch.ranks_here(4)
real = launch.run(real_times, ranks=ranks)[0]
cores = world.cores()
plots.spread(real, title=f"{4 * values_real / 1e6:.1f} MB on {ranks} real ranks, {cores} cores")
for way, time in real.items():
    record.add(
        "exchange", way=way, ranks=ranks, bytes=4 * values_real, seconds=time, **record.BY_MPI
    )

# %% [markdown]
# **Explain.** You should see the server behind both others: its rank moves three vectors in and
# three out, and adds them, while the others wait. You may see them close together. Through shared
# memory all ranks use one memory, so there is no link of the server's own; and with fewer cores
# than ranks the others' waiting may cost little.
#
# ### What you take away
# - A server's link carries every worker's vector, in and out: W workers, W vectors. Everybody waits
#   for it.
# - S servers divide that by S, if their pieces have equal bytes. One large layer undoes it.
# - Centralised: servers add up. Decentralised: all ranks do, as in a ring. Both give every rank the
#   same mean.
# - Ring: less than 2 vectors through any link, however many workers, and no more machines.
# - An asynchronous server waits for nobody, but steps with gradients of old parameters. (This lab
#   has not shown it.)
# - Next: [lab 32](32_buckets_and_overlap.ipynb) hides the exchange, and [lab 33](33_gossip_topologies.ipynb) asks only neighbours.
