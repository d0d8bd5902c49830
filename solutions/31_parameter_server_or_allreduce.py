# %% [markdown]
# # 31 Parameter server or allreduce
#
# Before allreduce became the usual way to average gradients, most distributed training used a
# *parameter server*, a process that collects the gradients of all workers, updates the parameters,
# and sends them back. This is easy to understand and to build, but its speed depends on details
# that the training script does not show. In a well-known benchmark of 2017, 64 GPUs with parameter
# servers trained VGG-16 more slowly than a single GPU, while other networks scaled acceptably on
# the same machines.
#
# In this lab we build a parameter server from messages, split it over several servers, and compare
# both with an allreduce. We count the bytes that pass through the busiest link, and find out how
# much of the published result for VGG-16 on 64 GPUs the links alone explain.
#
# **After this lab you can** (1) write a synchronous parameter server and split it over several
# servers, (2) say how many bytes its busiest link transfers, compared with those of a ring, and (3)
# explain a published *hot spot*, a server whose link is far busier than the others, from a table of
# layers.
#
# ![Left, four workers exchange whole vectors with one server. Center, four workers exchange half vectors with each of two servers. Right, four ranks form a ring](31_servers.svg)
#
# *With one server, all vectors pass through that server's link. Two servers hold half of the
# parameters each, so the link of each server transfers half as much. In a ring allreduce there is
# no server, and all links transfer the same number of bytes.*
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
workers_virtual = (2, 4, 8, 16, 32, 64)  # workers on the virtual cluster
values_real = 1 << 20  # float32 values (4 bytes) per vector in the measurement on real ranks
patience = 30  # seconds after which a check calls the ranks stuck

# %% [markdown]
# ## Two kinds of ranks
# In lab 30 every rank computed gradients and took part in the allreduce. The older approach has two
# kinds of ranks. A **parameter server** holds the parameters. In each step every **worker**
# *pushes* its gradient to the server, the server takes the mean and updates the parameters, and
# then the workers *pull* the new parameters. We study the **synchronous** form, in which the server
# waits for all workers before it updates.
#
# This approach is also called **centralized**, because the gradients are added in one place. The
# approach of lab 30, in which all ranks add them, is **decentralized**.
#
# A small example with two workers shows a whole step. The parameter is 10, the learning rate is
# 0.5, and the gradients are 2 and 4. The workers push 2 and 4, the server computes the mean 3 and
# the new parameter 10 − 0.5 · 3 = 8.5, and both workers pull 8.5.
#
# ### Exercise 31.1 · A parameter server
# Rank 0 is the server and computes no gradient, so its argument `gradient` has no meaning. All
# other ranks are workers. Write one step:
#
# | the server (rank 0) | each worker |
# |---|---|
# | receives each worker's gradient into a `box`, and adds it to a sum | sends its gradient to rank 0 |
# | updates `parameters`, in place | |
# | sends `parameters` to each worker | receives them into its own `parameters` |
#
# - Use `Send` and `Recv`, not a collective, because the lab compares the two.
# - A `box` is an array of the same size as `parameters`. `comm.Recv(box)` without a `source`
#   accepts whichever message arrives first.
# - The update is `parameters -= rate * mean`, in which `rate` is the learning rate. It writes into
#   the existing array, while `parameters = …` would create another one.
#
# This takes about 10 lines. *(beginner)*
#
# <details><summary>Hint 1: a worker</summary>
#
# A worker needs two lines. It calls `Send` with its gradient and rank 0 as the destination, and
# then `Recv` from rank 0 into `parameters` itself.
# </details>
# <details><summary>Hint 2: the server, nearly the answer</summary>
#
# Start with `total = np.zeros_like(parameters)` and a `box` of the same size. Repeat `workers`
# times: receive into `box`, and add it to `total`. Then compute `parameters -= rate * total / …`
# (divided by how many?), and call `comm.Send(parameters, dest=…)` for each worker.
# </details>


# %%
def server_step(comm, parameters, gradient, rate):
    """One SGD step with the mean of the workers' gradients. Then all ranks have the new
    `parameters`."""
    workers = comm.size - 1
    ### BEGIN SOLUTION
    if comm.rank == 0:
        total = np.zeros_like(parameters)
        box = np.empty_like(parameters)
        for _ in range(workers):
            # Across ranks: whichever gradient comes first.
            comm.Recv(box)
            total += box
        parameters -= rate * total / workers
        for worker in range(1, comm.size):
            # Across ranks: the workers wait for this.
            comm.Send(parameters, dest=worker)
    else:
        # Across ranks: push, then pull.
        comm.Send(gradient, dest=0)
        comm.Recv(parameters, source=0)
    ### END SOLUTION


# %%
check("31.1", server_step)

# %% [markdown]
# The check also trains a small network, once with your step on real ranks and once in one process.
# The losses are equal only up to rounding, because the server adds the gradients in the order in
# which they arrive.
#
# ### Predict
# The gradient of VGG-16 is a vector of 138 million values, or 553 MB in float32. There are 64
# workers. Each rank has a link of 40 Gb/s, which can transfer 5 GB/s in and another 5 GB/s out at
# the same time. How many seconds does the communication of one step take
#
# - with a single server, whose link transfers all vectors, first in and then out;
# - with a ring of p workers, in which each rank sends 2(p − 1)/p vectors (lab 23) while it receives
#   as many?

# %%
predict("31.1", one_server=14.2, ring=0.22)

# %%
one_vector = 553.4e6 / 5e9  # seconds in which a link transfers VGG-16's gradient
predict.right("31.1", one_server=2 * 64 * one_vector, ring=2 * 63 / 64 * one_vector)

# %% [markdown]
# **Explain.** A link transfers one vector in 0.11 s. The server's link transfers 64 vectors in and
# then 64 out, which takes 14.2 s. A link of the ring transfers fewer than two in each direction, at
# the same time, which takes 0.22 s.
#
# ### Measure: who waits for whom?
# To see what the workers do meanwhile, we run one step with one server and 4 workers on the virtual
# cluster, the simulator of lab 23. The vectors are treated as if they were as long as those of
# VGG-16. The plot has a row for each rank.

# %%
zeros = np.zeros(4096, np.float32)
vectors = [virtual.vector(zeros, stands_for=553.4e6) for _ in range(2)]  # VGG-16's
# 40 Gb/s for each rank, and adding up takes no time.
forty = virtual.ideal(alpha=20e-6, bandwidth=40e9 / 8)
run = virtual.Cluster(nodes=5, machine=forty).run(lab31.one_step, *vectors, server_step, trace=True)
plots.timeline(run, title="One server (rank 0), 4 workers, VGG-16: all wait for one link")

# %% [markdown]
# **Explain.** In the first half all four workers send at the same time. They share the link into
# rank 0, so each of them gets a quarter of its speed. In the second half rank 0 sends to one worker
# after another.
#
# Suppose that a worker's own link transferred its vectors at full speed. For what share of the step
# would this link be busy?
#
# <details><summary>Answer</summary>
#
# A worker's link transfers two vectors, one out and one in, while the link of rank 0 transfers
# eight. At full speed a worker's link would therefore be busy for a quarter of the time. With 64
# workers it would be busy for 1/64 of the time.
# </details>
#
# ### Predict
# Because one link is too slow, we take several servers, and each of them holds a piece of the
# parameters. Suppose that each server gets whole layers. VGG-16 has 16 layers with parameters, so
# with 16 servers each gets one layer.
#
# The largest layer, fc6, connects 7 · 7 · 512 input features to 4,096 output features. What
# percentage of all parameters does the server with this layer hold?

# %%
predict("31.2", percent_on_fullest=74)

# %%
# The values of each layer of three nets.
tables = {net: nets.layer_table(net).parameters for net in ("vgg16", "resnet101", "inception_v3")}
layers = {net: [int(values) for values in table if values] for net, table in tables.items()}
predict.right("31.2", percent_on_fullest=100 * max(layers["vgg16"]) / sum(layers["vgg16"]))

# %% [markdown]
# ### Exercise 31.2 · Cut the parameters
# fc6 has 103 of the 138 million values, so whole layers are pieces of very different sizes.
# Instead, cut the *flat vector*, in which the values of all layers follow one another, into one
# piece per server. All S servers must hold the same number of *values*, or one more. With fewer
# values than servers, some pieces are empty.
#
# For example, 10 values on 4 servers can be cut into pieces of 2, 3, 2 and 3 values. The result is
# then `[slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 10)]`. This takes 3 lines. *(beginner)*
#
# <details><summary>Hint 1: what counts</summary>
#
# The layers do not matter, only `total = sum(sizes)`. A piece may end in the middle of a layer.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Piece s begins at `s * total // servers` and ends where piece s + 1 begins.
# </details>


# %%
def cut(sizes, servers):
    """A list of slices of the flat vector, slice(first, end), one per server. sizes: values in each
    layer."""
    ### BEGIN SOLUTION
    total = sum(sizes)
    ends = [s * total // servers for s in range(servers + 1)]
    return [slice(low, high) for low, high in zip(ends, ends[1:], strict=False)]
    ### END SOLUTION


# %%
check("31.2", cut)

# %% [markdown]
# ### Exercise 31.3 · Several servers
# Ranks 0 to S − 1 now do what rank 0 did, each with its own piece of the parameters. The order of
# the messages matters more than before. If every server received from the first worker, then from
# the second, and so on, all servers would wait for the link of a single worker.
#
# All ranks should therefore *launch* all their messages with `Isend` and `Irecv`, keep the requests
# in a list, and then wait for each of them (lab 20):
#
# | a server (ranks 0 to S − 1) | a worker (ranks from S on) |
# |---|---|
# | has a box for each worker, and launches an `Irecv` from each worker into that worker's box | launches an `Irecv` from each server into that server's piece of `parameters` |
# | waits for all | launches an `Isend` of that server's piece of `gradient` to each server |
# | updates its piece of `parameters`, in place | waits for all |
# | launches an `Isend` of its piece to each worker; waits for all | |
#
# The pieces that you are given may differ in length. Two lines help a server:
#
# - `own = parameters[pieces[comm.rank]]` is a view of the server's piece, so an in-place change of
#   `own` also changes `parameters`.
# - `boxes = [np.empty_like(own) for worker in range(servers, comm.size)]` creates the boxes. Their
#   sum is `sum(boxes)`.
#
# For example, let ranks 0 and 1 be servers and ranks 2, 3 and 4 workers. The vector of five values
# is cut into a piece of two and a piece of three. Rank 1 then
#
# - receives the last three values of each worker's gradient,
# - takes the mean over the workers, and updates the last three values of its `parameters`,
# - sends these three values to each worker.
#
# This takes about 13 lines. *(intermediate)*
#
# <details><summary>Hint 1: a server</summary>
#
# Box i is for rank servers + i, so write
# `requests = [comm.Irecv(box, source=servers + i) for i, box in enumerate(boxes)]`. When all
# gradients have arrived, compute `own -= rate * sum(boxes) / workers`.
# </details>
# <details><summary>Hint 2: a worker, nearly the answer</summary>
#
# Write `requests = [comm.Irecv(parameters[piece], source=s) for s, piece in enumerate(pieces)]`,
# add `[comm.Isend(gradient[piece], dest=s) for …]` to the list, and wait with
# `for request in requests: request.Wait()`.
# </details>


# %%
def servers_step(comm, parameters, gradient, rate, pieces):
    """server_step with len(pieces) servers. Afterwards all workers have all of the new
    `parameters`."""
    servers = len(pieces)
    workers = comm.size - servers
    ### BEGIN SOLUTION
    if comm.rank < servers:
        own = parameters[pieces[comm.rank]]
        boxes = [np.empty_like(own) for worker in range(servers, comm.size)]
        # Across ranks: as in 31.1, but only this server's piece, and from all workers at the same
        # time.
        requests = [comm.Irecv(box, source=servers + i) for i, box in enumerate(boxes)]
        for request in requests:
            request.Wait()
        own -= rate * sum(boxes) / workers
        # Across ranks: all workers at the same time.
        requests = [comm.Isend(own, dest=worker) for worker in range(servers, comm.size)]
    else:
        # Across ranks: all servers at the same time.
        requests = [comm.Irecv(parameters[piece], source=s) for s, piece in enumerate(pieces)]
        requests += [comm.Isend(gradient[piece], dest=s) for s, piece in enumerate(pieces)]
    for request in requests:
        request.Wait()
    ### END SOLUTION


# %%
check("31.3", servers_step)

# %% [markdown]
# ### Measure: VGG-16 over links of 40 Gb/s
# We simulate the messages of one step in six ways, on 2 to 64 workers:
#
# | way | how the gradients are added |
# |---|---|
# | *1 server* | by one server |
# | *16 servers, layers* | by 16 servers; each layer in turn goes to the one that has the fewest values so far |
# | *16 servers, cut* | by 16 servers with your equal pieces |
# | *a server per worker* | the same, with as many servers as workers |
# | *tree* | by the ranks of a tree, up to its root, which then sends the sum down again (lab 21) |
# | *ring* | by the ranks, as in lab 23 |
#
# The next cell computes how many values each server holds if it gets whole layers (`greedy`) or the
# pieces of your `cut` (`even`).

# %%
vgg = layers["vgg16"]


def greedy(sizes, servers=16):
    """Values on each server if each layer in turn goes to the one that has fewest."""
    loads = [0] * servers
    for values in sizes:
        loads[loads.index(min(loads))] += values
    return loads


def even(servers):
    """Values on each server if VGG-16's flat vector is cut."""
    return [piece.stop - piece.start for piece in cut(vgg, servers)]


# %% [markdown]
# `lab31.exchange` runs your `servers_step`, or an allreduce, on the virtual cluster with links of
# 40 Gb/s. The first plot shows the time. The second shows, for 64 workers, how many bytes the
# busiest link sends in one direction.

# %%
ways = {
    "1 server": lambda workers: even(1),
    "16 servers,\nlayers": lambda workers: greedy(vgg),
    "16 servers,\ncut": lambda workers: even(16),
    "a server\nper worker": even,
    "tree": lambda workers: tree_allreduce,
    "ring": lambda workers: ring_allreduce,
}
runs = {
    way: {
        workers: lab31.exchange(servers_step, forty, workers, vgg, loads(workers))
        for workers in workers_virtual
    }
    for way, loads in ways.items()
}
times = {
    way.replace("\n", " "): {workers: run.time for workers, run in row.items()}
    for way, row in runs.items()
}
title = "A server's time doubles with the workers, a ring's levels off"
plots.lines(times, xlabel="workers", ylabel="time (s)", title=title, logx=True, logy=True)
most = max(workers_virtual)
busiest = {way: {"": max(row[most].sent_bytes) / 1e9} for way, row in runs.items()}
plots.bars(busiest, ylabel="GB sent", title=f"What the busiest link sends, {most} workers")

# %% [markdown]
# **Explain.** You should see these times in the first plot:
#
# | way | time of a step | reason |
# |---|---|---|
# | *1 server* | grows with the workers, to the predicted 14.2 s | its link transfers all vectors |
# | *16 servers, layers* | three quarters of one server's time | a single server holds fc6 |
# | *16 servers, cut*, from 16 workers on | a 16th of one server's time | each server's link transfers a 16th of each vector |
# | *16 servers, cut*, fewer workers | 0.22 s | a worker's own link transfers one vector out and one in |
# | *tree* | 1.3 s with 64 workers | the root receives log₂ *p* = 6 vectors, and then sends 6 |
#
# At 64 workers, a server for each worker takes about as long as the ring, although a rank of the
# ring sends twice as many bytes. Before you open the answer, compare the directions in which the
# bytes travel.
#
# <details><summary>Why is the ring not slower?</summary>
#
# With a server for each worker, a link first transfers one vector in one direction, and then one in
# the other direction. This takes as long as sending two vectors. A link of the ring transfers
# nearly two vectors in and nearly two out, but at the same time, so it takes just as long. In
# addition, the ring needs only half as many links, because it has no servers.
# </details>
#
# ### A published hot spot
# In 2017 the [README of Horovod](@horovod_readme) reported images per second for TensorFlow's
# parameter servers and for [Horovod](@horovod) with [NCCL](@nccl) (NVIDIA Collective Communications
# Library). It used 16 machines with 4 GPUs and a 40 Gb/s link each, and 64 images per GPU.
#
# A step on 64 GPUs takes longer than a step on one GPU, although each GPU computes the same number
# of images. We call the difference the *lost time*. How much of it do the links explain? This is
# the calculation for VGG-16 with servers:
#
# | | what | seconds |
# |---|---|---|
# | published | a step on 64 GPUs: 64 · 64 images at 100.8 images/s | 40.6 |
# | published | a step on one GPU: 64 images at 149.6 images/s | 0.4 |
# | | lost time: the difference | **40.2** |
# | computed | fc6 has 411 MB, and passes 64 times into its server and 64 times out, at 5 GB/s | **10.5** |
#
# We assume 16 servers, one for each machine, because the README does not say how many there were.
# The benchmark program gave each variable in turn to the server with the fewest bytes, and our
# `greedy` does this with whole layers.
#
# In our model each worker has its own link, while in the benchmark four GPUs shared one. For VGG-16
# this makes no difference, because the link of fc6's server transfers much more than the link that
# four workers share. For ResNet-101 and Inception-v3 it might, because their layers are spread more
# evenly.
#
# The next two cells compute both times for these three networks, with servers and with the ring.
# Each line shows the lost time, the time in which our links transfer the messages, and the second
# time in percent of the first.

# %%
# Images/s: one GPU; 64 GPUs with servers (the faster of two ways), and with Horovod and NCCL.
readme = [
    ("vgg16", 149.6, 100.8, 6084.2),
    ("resnet101", 136.0, 4269.2, 7741.6),
    ("inception_v3", 148.8, 5297.4, 7932.1),
]


def seconds_lost(images, one_gpu):
    """Of a step of 64 images on each of 64 GPUs, against one GPU alone."""
    return 64 * 64 / images - 64 / one_gpu


def transfer(net, way):
    """Seconds in which our links transfer the messages of 64 workers."""
    return lab31.exchange(servers_step, forty, 64, layers[net], way).time


# %%
ours, published = {}, {}
for net, one_gpu, servers, ring in readme:
    published[f"{net}, servers"] = seconds_lost(servers, one_gpu)
    ours[f"{net}, servers"] = transfer(net, greedy(layers[net]))
    published[f"{net}, ring"] = seconds_lost(ring, one_gpu)
    ours[f"{net}, ring"] = transfer(net, ring_allreduce)
for row, lost in published.items():
    print(f"{row:21}  lost {lost:6.3f} s, our links {ours[row]:6.3f} s, {ours[row] / lost:4.0%}")
title = "Servers: our links do not explain VGG-16"
names = ("our links", "lost (published)")
plots.compare(ours, published, unit="seconds a step", title=title, names=names)

# %% [markdown]
# **Explain.** Our links take these shares of the lost time:
#
# | | servers | ring |
# |---|---|---|
# | ResNet-101 | 86 % | 124 %: some messages were probably hidden behind computation |
# | Inception-v3 | 91 % | 46 %: more than half of the lost time has another cause |
# | VGG-16 | **26 %** | 90 % |
#
# Do not trust the agreement of 86 % and 91 % too far, because our model leaves out updates and
# copies, and hides no messages behind computation.
#
# For VGG-16 with servers, the link of fc6's server could transfer all 128 copies of fc6 in 10.5 s,
# but 40 s were lost. What could take the remaining time?
#
# <details><summary>Answer</summary>
#
# We know of no published measurement, so this is a guess. TensorFlow transferred its tensors with
# [gRPC](@grpc), a library for remote procedure calls, which packs each tensor into a message,
# copies the message through TCP, and unpacks it.
#
# A study of 2019 (Awan and others, under *Further reading*) compared gRPC alone, gRPC with
# InfiniBand or MPI below it, and allreduces without gRPC. The allreduces were the fastest.
# </details>
#
# ### What you take away
# - With one server and W workers, the server's link transfers W whole vectors in and W out. All
#   workers wait for this link.
# - S servers divide this load by S if their pieces have equal numbers of bytes. If layers are kept
#   whole, a single large layer cancels most of the gain.
# - In the centralized approach servers add the gradients. In the decentralized approach all ranks
#   do, as in a ring. Both give every worker the same mean.
# - A ring sends less than 2 vectors through any link in each direction, however many workers there
#   are, and it needs no extra machines.
# - Lab 32 hides communication behind the backward pass, and in lab 33 each rank communicates only
#   with its neighbors.
#
# ## Going further (optional): your own ranks (5 minutes)
# The next cell measures the messages of a step on four real ranks in three ways: with one server,
# including its update, with the ring of lab 23, and with MPI's own allreduce. With the server only
# three of the ranks are workers, while in both allreduces all four are.


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
# **Explain.** You should see that the server takes longer than both others, because its rank
# receives three vectors, adds them, and sends three, while the workers wait. On your machine the
# three times may also be close together, because the ranks of one machine exchange their messages
# through shared memory.
#
# ### Further reading
# - [@li2014] The design of a parameter server with many servers, including asynchronous updates.
# - [@dean2012] DistBelief, an early system in which many servers hold parts of a large model.
# - [@sergeev2018] The Horovod paper, which compares parameter servers with a ring allreduce.
# - [@awan2019] Measurements of gRPC, MPI and allreduce for TensorFlow on clusters with GPUs.
# - [@jiang2020] BytePS, a newer design in which additional CPU machines serve as parameter servers.
