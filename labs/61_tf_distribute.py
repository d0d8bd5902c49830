# %% [markdown]
# <!-- Generated from solutions/61_tf_distribute.py by `make labs`. Learners work on a copy in work/. -->
# # 61 TensorFlow's own distribution
#
# TensorFlow can train on many machines without Horovod: with parameter servers, or with a ring,
# both over gRPC. You start real clusters of processes, count every byte, and read why most people
# left gRPC.
#
# **You will be able to** (1) write TF_CONFIG from Slurm's variables, (2) write a training step that
# runs under every strategy of TensorFlow, (3) compute the bytes of servers and rings, and find a
# hot server, (4) say what gRPC, gRPC+X and "no gRPC" were.
#
# Needs: horovod, tensorflow · Ranks: 2 · Minutes: 65 · Level: intermediate · Before: 11, 31, 41

# %%
import json

import pandas
from labkit import check, cluster, hint, lab, launch, predict, record, world
from support import lab61

lab.start("61_tf_distribute")
import keras  # after lab.start, which turns off TensorFlow's start-up messages
import tensorflow as tf

ranks = launch.ranks_here(2)  # each is a node with one worker
lab61.devices(3)  # TensorFlow takes this machine for three devices; GPUs are left alone

# %% tags=["parameters"]
batch = 32  # images of each worker in a step
repeat = 15  # timed rounds of each way and net
proof = 5  # steps that are compared with one process

# %% [markdown]
# ## 1. `tf.device`, and what crosses a wire
# TensorFlow runs each operation on a *device*, and `tf.device` says on which. A device has a long
# name, and a short one. `lab61.devices(3)` above had TensorFlow split this machine into three:
# CPU:0, CPU:1 and CPU:2.

# %%
with tf.device("CPU:1"):
    first = tf.ones((2, 2))
with tf.device("CPU:2"):
    second = first @ first
print(first.device)
print(second.device)

# %% [markdown]
# **Explain.** `second` was computed on CPU:2, from a tensor on CPU:1. Nobody asked for a copy.
# TensorFlow saw that the tensor has to cross, and put a *Send* on one side and a *Recv* on the
# other. A net is cut over devices in the same way, each block under a `with` of its own; in [lab 62](62_model_parallel.ipynb)
# you write the messages yourself.
#
# The long name says where that could lead. `/job:localhost/task:0` is a **process**. In a cluster
# the processes are named `/job:worker/task:1`, `/job:ps/task:0`, and
# `with tf.device("/job:ps/task:0"):` works just as well. Then Send and Recv are in two processes,
# and something has to carry the tensor: **gRPC**.
#
# gRPC is a library for calling functions in other processes, over TCP. It was made for web
# services: many short calls. Gradients are few, and long.
#
# | | who carries the gradients | in TensorFlow |
# |---|---|---|
# | gRPC | gRPC alone | since 0.8, the first distributed version (2016) |
# | gRPC+X | gRPC arranges; X carries: InfiniBand verbs, MPI, or GPUDirect RDMA (GDR) | 1.x, `tf.contrib` |
# | no gRPC | Baidu's allreduce, over MPI | 1.x, `tf.contrib.mpi_collectives` |
# | no gRPC | Horovod's allreduce, over MPI, NCCL or Gloo | no: a package beside it |
#
# These three kinds are those of Awan and others (CCGrid 2019, arXiv 1810.11112), who measured them
# all. In most of their configurations "no gRPC" was the fastest, and how much faster depended on
# its allreduce.
#
# <details><summary>Where did gRPC+X go? (history)</summary>
#
# TensorFlow 2.0 dropped all of `tf.contrib`: each project had to find somebody to keep it
# (github.com/tensorflow/community, rfcs/20180907-contrib-sunset.md). In that list the fate of
# `verbs` is "delete (no owner)", and those of `mpi`, `gdr` and `mpi_collectives` are empty. All
# four went to a repository of their own, tensorflow/networking.
#
# One X stayed, in another place: with GPUs, TensorFlow's ring can be **NCCL**'s
# (`CommunicationImplementation.NCCL`). gRPC then only introduces the workers to each other.
# </details>
#
# What `pip` installs today has none of gRPC+X. Ask your TensorFlow for a server that speaks
# gRPC+verbs:

# %%
try:
    tf.distribute.Server(
        {"worker": ["127.0.0.1:1"]}, "worker", 0, protocol="grpc+verbs", start=False
    )
except tf.errors.NotFoundError as error:
    print(error.message.splitlines()[-1])


# %% [markdown]
# ## 2. Who am I? TF_CONFIG
# A process of a TensorFlow cluster has to learn who it is, and who the others are. Usually it reads
# this from one environment variable, `TF_CONFIG`, a text in JSON. Of four workers on two nodes, the
# last one has:
#
#     {"cluster": {"worker": ["node1:5000", "node1:5001", "node2:5000", "node2:5001"]},
#      "task": {"type": "worker", "index": 3}}
#
# Slurm does not set `TF_CONFIG`. But `srun` says who a task is, in the task's environment.
# TensorFlow's `tf.distribute.cluster_resolver.SlurmClusterResolver` reads that, and a strategy that
# is given one needs no `TF_CONFIG`. Here you write yourself what it does. A value in the
# environment is always a text:
#
# | variable | what it is | of the task above |
# |---|---|---|
# | `SLURM_NTASKS` | tasks in the job | `"4"` |
# | `SLURM_PROCID` | this task's number, from 0 | `"3"` |
#
# `scontrol show hostnames` gives the names of the nodes. Every node has equally many tasks, and
# they fill the nodes one after the other: of 6 tasks on 2 nodes, 0, 1, 2 are on the first. The port
# is ours to choose. Two tasks of a node cannot have the same, so they take `port`, `port + 1` and
# so on.
#
# ### Exercise 61.1 · TF_CONFIG from Slurm
# `slurm` is a dict of those variables, `hosts` the list of nodes, `port` the first port. Return
# this task's TF_CONFIG. All tasks are workers. `json.dumps(…)` makes a text of a dict. About 6
# lines. *(beginner)*
#
# <details><summary>Hint 1: where is task t?</summary>
#
# With `each` tasks on a node, task `t` is on node `t // each`. It is number `t % each` there.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `workers = [f"{hosts[t // each]}:{port + t % each}" for t in range(tasks)]`
# </details>

# %%
def tf_config(slurm, hosts, port):
    """TF_CONFIG of one task, as text. slurm: its SLURM_ variables; hosts: names of nodes; port: the
    first."""
    raise NotImplementedError("exercise 61.1: TF_CONFIG from Slurm")


# %%
# Asked: JSON with all workers' addresses, and this task's own number among all.
check("61.1", tf_config)


# %% [markdown]
# ## 3. One step for every strategy
# A **strategy** of TensorFlow decides where variables are, and who runs a step. Three of them:
#
# | strategy | variables | who runs the step | exchange |
# |---|---|---|---|
# | `MirroredStrategy` | a copy on each device | every device of this process | allreduce inside the process |
# | `MultiWorkerMirroredStrategy` | a copy in each process | every process | a ring, here over gRPC |
# | `ParameterServerStrategy` | once, on servers | any worker, when it is free | servers, over gRPC |
#
# A copy with its device is called a *replica*. The same step runs under all three, if it is written
# so:
#
# - `strategy.run(function, args=(pictures, labels))` calls `function` on every replica, with this
#   replica's own pictures and labels. What it returns is kept apart, one value for each replica.
# - `strategy.reduce("SUM", values, axis=None)` adds such values up to one.
# - `strategy.num_replicas_in_sync` is how many replicas step together. With servers it is 1 on our
#   CPUs, as each worker steps on its own.
# - Inside, `optimizer.apply_gradients(zip(gradients, variables))` first **adds** the gradients of
#   all replicas. It adds; it takes no mean.
#
# Usually Keras' `fit` would do this for you. Keras 3 cannot: with `MultiWorkerMirroredStrategy` its
# `fit` ends in an error (tried here; Keras issue 20585), and parameter server training "is not
# supported in Keras 3, generally speaking" (its author, Keras issue 18624). Layers and optimizers
# of Keras 3 do work in a loop of one's own.
#
# The optimizer adds. What must each replica's loss be divided by, so that the sum of the gradients
# is the mean over all images of all replicas?
# <details><summary>Answer</summary>
#
# By the number of replicas. A replica's loss is the mean over its own images. Each has as many, so
# the mean over all images is the mean over the replicas' means: their sum, divided by how many
# there are.
# </details>
#
# ### Exercise 61.2 · A step for every strategy
# Write `train_step`. It takes one step on all replicas, and returns the mean loss over all images.
# For one replica's images, `cross_entropy(labels, net(pictures, training=True))` below is the mean
# loss. Inside, take the gradients as in lab 11, with `tf.GradientTape`. About 9 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: two functions</summary>
#
# Inside of `train_step` define `on_replica(pictures, labels)`: tape, loss, gradients,
# `apply_gradients`, and `return loss`. Then `strategy.run` it, and `strategy.reduce` what it
# returned.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `loss = cross_entropy(…) / strategy.num_replicas_in_sync` is computed on the tape. The sum of
# these losses is the mean over all images.
# </details>

# %%
def cross_entropy(labels, logits):
    """The mean loss over the images of one replica."""
    return tf.reduce_mean(
        keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    )


def train_step(strategy, net, optimizer, pictures, labels):
    """One step on all replicas. pictures, labels: each replica has its own. Returns the mean loss
    of all."""
    raise NotImplementedError("exercise 61.2: A step for every strategy")


# %%
# Asked: Weights and loss as of one device with all images, on 2, 1 and 3
# replicas.
check("61.2", train_step)

# %% [markdown]
# ## 4. Bytes, computed
# Two small nets stand for two large ones:
#
# | | parameters | its largest variable | images/s on one GPU |
# |---|---|---|---|
# | VGG-16 | 138 million | 74 % of them | 150 |
# | ResNet-101 | 45 million | 5 % | 136 |
# | `small VGG` | 682,112 | 77 % | see below |
# | `small ResNet` | 222,400 | 17 % | see below |
#
# VGG-16 has three times ResNet-101's parameters, for about the same time per image (the last column
# is of Horovod's README of 2017, lab 31). And most of them are **one** variable, of layer fc6. The
# small nets keep the first proportion, 3 to 1, and roughly the second, which the table shows. Their
# variables, in the order in which they are made:

# %%
sizes = {name: lab61.sizes_of(lab61.build(name)) for name in lab61.NETS}
for name in lab61.NETS:
    print(f"{name}: {sizes[name]}, together {sum(sizes[name]):,}")


# %% [markdown]
# `ParameterServerStrategy` deals variables like cards: the first to server 0, the next to server 1,
# and after the last server to server 0 again. It cuts none, unless it is told to
# (`variable_partitioner`). In a step, each worker reads every variable from its server, and sends
# its gradient there. So a server sends its variables once to each worker.
#
# In a ring, each of p workers sends 2 (p - 1) / p times the whole gradient ([lab 23](23_ring_allreduce.ipynb)). A number has 4
# bytes.
#
# ### Exercise 61.3 · Who sends how much?
# Two functions. `servers_send` returns a list: the bytes that each server sends in a step in which
# every worker takes part. `ring_sends` returns the bytes that each worker of a ring sends. 5 lines
# together. *(beginner)*
#
# <details><summary>Hint 1: dealing with a slice</summary>
#
# `sizes[server::servers]` are the variables of this server.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `[4 * workers * sum(sizes[server::servers]) for server in range(servers)]`
# </details>

# %%
def servers_send(sizes, servers, workers):
    """Bytes that each server sends in a step of all workers. sizes: numbers in each variable, in
    order."""
    raise NotImplementedError("exercise 61.3: Who sends how much?")


def ring_sends(sizes, workers):
    """Bytes that each worker of a ring sends in a step."""
    raise NotImplementedError("exercise 61.3: Who sends how much?")


# %%
# Asked: The variables dealt like cards, to each worker once; the ring's 2 (p -
# 1) / p.
check("61.3", servers_send, ring_sends)

# %% [markdown]
# ### Predict
# The small VGG, two servers, two workers. How many megabytes does each server send in a step? And
# each worker of a ring of two? The sizes of the variables are printed above.

# %%
predict("61.3", server_0=..., server_1=..., ring=...)  # megabytes (1e6 bytes)

# %%
of_servers = servers_send(sizes["small VGG"], 2, 2)
of_ring = ring_sends(sizes["small VGG"], 2)
predict.right(
    "61.3", server_0=of_servers[0] / 1e6, server_1=of_servers[1] / 1e6, ring=of_ring / 1e6
)

# %% [markdown]
# ## 5. Real processes over gRPC
# Now your `tf_config` and your `train_step` run on real processes: a ring of two workers, and a
# cluster of two servers, two workers and a chief, each with both nets. The *chief* hands out steps:
# a worker that is free takes the next one.
#
# The bytes are counted by the kernel: for each TCP connection it knows how many were sent and
# acknowledged (`TCP_INFO`). The count also has what gRPC adds to a tensor. It leaves out TCP's own
# headers.
#
# TensorFlow's servers listen on all networks of a machine, for everybody, with no password. Use
# them inside of a cluster only. Here they are gone after half a minute.
#
# ### Measure
# Takes 30 to 60 s, most of it to start.

# %%
ways = [(lab61.RING, lab61.NETS), *((lab61.SERVERS, (net,)) for net in lab61.NETS)]
outcomes = lab61.train(
    train_step, tf_config, ways, nodes=ranks, batch=batch, repeat=repeat, proof=proof
)

# %%
rows = []
for (net, way), outcome in outcomes.items():
    if way == lab61.RING:
        predicted = {f"worker {number}": ring_sends(sizes[net], ranks) for number in range(ranks)}
    else:
        by_server = servers_send(sizes[net], ranks, ranks)
        predicted = {f"ps {number}": sent for number, sent in enumerate(by_server)}
    for process, sent in predicted.items():
        counted = outcome.sent[process]
        rows.append({"net": net, "way": way, "process": process, "predicted MB": sent / 1e6})
        rows[-1]["counted MB"] = counted / 1e6
        rows[-1]["counted / predicted"] = counted / sent
        record.add(
            "bytes", net=net, way=way, process=process, predicted=sent, counted=counted, ranks=ranks
        )
print(pandas.DataFrame(rows).set_index(["net", "way", "process"]).round(3).to_string())

# %%
net = lab61.NETS[0]
together = outcomes[net, lab61.RING].losses
for title, rate in {
    "as it is": lab61.RATE,
    "control, a sum for the mean": ranks * lab61.RATE,
}.items():
    alone = lab61.losses_alone(train_step, net, batch * ranks, proof, rate)
    apart = max(abs(one - other) for one, other in zip(alone, together, strict=True))
    print(f"{proof} losses of the ring and of one process ({title}): at most {apart:.1e} apart")
places = outcomes[net, lab61.SERVERS].servers
print(f"Variables of the {net} are on servers {places}")
for servers in (1, 2, 3, 6):
    busiest = max(servers_send(sizes[net], servers, ranks))
    print(f"Computed: servers: {servers}; the busiest sends {busiest / 1e6:.2f} MB")

# %% [markdown]
# **Explain.** The count is what you computed, to about one part in a hundred. The rest is what gRPC
# says beside the tensors.
#
# The ring trains as one process with all the images: your division by the replicas was right, and
# the sum crossed the wire. The control is one process that steps as far as a sum would take it. Its
# losses differ. With servers there is no such comparison. There each worker steps on its own, with
# weights that another may have changed meanwhile ([lab 31](31_parameter_server_or_allreduce.ipynb)): that strategy is *asynchronous*.
#
# The small VGG's servers are not alike: one sends nearly five times as much as the other. It has
# the variable that stands for fc6. More servers would hardly help, as the last lines show: one
# variable is never on two. The small ResNet's servers share the work well.
#
# Look at the list of servers: dealt like cards, as you computed. Now think of a net whose layers
# have a weight and a bias each, in turns. What do two servers hold?
# <details><summary>Answer</summary>
#
# Server 0 has all weights, and server 1 all biases. With any even number of servers, half of them
# have biases alone. It is a real trap: our nets have no biases, to avoid it. TensorFlow's
# benchmarks dealt by size ([lab 31](31_parameter_server_or_allreduce.ipynb)), and `variable_partitioner` can cut a variable.
# </details>
#
# ## 6. Without gRPC
# Horovod's ring (lab 41) sends as many bytes as TensorFlow's. But it packs gradients together, and
# hands them to a library that was made for long messages: here Gloo, as MPI would use the memory
# that the ranks share on one machine; in a job, MPI.
#
# ### Predict
# A guess: which share of a worker's speed alone is left in the ring, for each net, over gRPC? In
# percent. Over a fast link the wire itself costs little, and on one machine the link is its memory.
# But computing and carrying share its cores.

# %%
predict("61.3", percent_vgg=..., percent_resnet=...)

# %% [markdown]
# ### Measure
# About 20 s. *Efficiency* is the images per second of all workers, against as many times a worker's
# alone. In a ring, and with Horovod, a worker's step alone is timed between the others, in the same
# processes. With servers it is not timed, so their rows take the time of the ring's workers.

# %%
for net, outcome in lab61.with_horovod(lab61.NETS, ranks, batch, repeat).items():
    outcomes[net, lab61.HOROVOD] = outcome

# %%
rows = {}
hosts = ranks // world.local_size() if world.launcher() else 1
for (net, way), outcome in sorted(outcomes.items()):
    alone = outcome.alone or outcomes[net, lab61.RING].alone
    share = alone.median / outcome.step.median
    speed = ranks * batch / outcome.step.median
    each = sum(outcome.sent.values()) / (ranks * batch)
    rows[net, way] = {"ms a step": 1e3 * outcome.step.median, "ms alone": 1e3 * alone.median}
    rows[net, way] |= {"images/s": speed, "efficiency %": 100 * share, "kB an image": each / 1e3}
    rows[net, way] |= {"steady": outcome.step.steady and alone.steady}
    fields = {
        "images_per_second": speed,
        "efficiency": share,
        "bytes_per_image": each,
        "nodes": hosts,
    }
    record.add(
        "training", seconds=outcome.step, net=net, way=way, ranks=ranks, device="cpu", **fields
    )
print(pandas.DataFrame.from_dict(rows, orient="index").round(1).to_string())
shares = [rows[net, lab61.RING]["efficiency %"] for net in lab61.NETS]
predict.compare("61.3", percent_vgg=shares[0], percent_resnet=shares[1])

# %% [markdown]
# **Explain.** First the column `kB an image`: it is a count, not a time. An image of the small VGG
# costs three times the bytes of one of the small ResNet, whatever carries them. Servers cost twice
# the ring's bytes at two workers, since every worker both fetches all variables and sends all
# gradients.
#
# The times are another matter. Here all processes share this machine's cores, so expect low
# efficiencies for everybody, and rank nothing where `steady` says False. Trust the servers'
# efficiency least: it compares processes of two runs, and can even exceed 100 %. For a link that is
# one, see next.
#
# ### Predict
# Two nodes, with a link of 200 Mb/s between them: 25 MB cross in a second. In a ring of two the
# small VGG's 2.7 MB take 109 ms, the small ResNet's 0.9 MB take 36 ms. If a net computes for 15 ms
# in a step, and sends when it has computed, then 15 / (15 + 109) of its speed alone is left for the
# VGG: 12 percent. What is left of each net with your `ms alone` of its ring?

# %%
predict("61.3", tabletop_vgg=..., tabletop_resnet=...)  # percent

# %% [markdown]
# ### On the tabletop
# `make tabletop BANDWIDTH=200mbit` starts two such nodes on this machine, and
# `make submit LAB=61 NODES=2` runs this lab there, in about two minutes. Then this cell shows the
# job's table, and without a job the kit's own.

# %%
frame, whose = cluster.records_or_reference("61", "training")
frame = (
    frame[frame["nodes"] > 1].drop_duplicates(["net", "way"], keep="last").set_index(["net", "way"])
)
print(f"On several nodes ({whose}):")
print(frame[["nodes", "images_per_second", "efficiency", "bytes_per_image"]].round(2).to_string())
if len(frame):
    shares = [100 * frame.loc[(net, lab61.RING), "efficiency"] for net in lab61.NETS]
    predict.compare("61.3", tabletop_vgg=shares[0], tabletop_resnet=shares[1])

# %% [markdown]
# **Explain.** You should see about what you computed: over the same link one net **collapses**, and
# it is the one that sends three times as many bytes. Times may be longer where the two nodes share
# a busy machine.
#
# Is it the link? Compute both shares for 2 Gb/s. Then `make tabletop BANDWIDTH=2000mbit` and the
# same cell are the control.
#
# Over a link of 200 Mb/s, compare gRPC's ring and Horovod's in the table. They should lose nearly
# alike: the bytes are the same, and so is the wire. Why, then, was gRPC left?
# <details><summary>Answer</summary>
#
# Because links became fast. At 100 Gb/s the wire costs little. What is left is the cost of packing
# each tensor, and of copying it through TCP, with none of InfiniBand's or the GPU's own ways. MPI
# and NCCL use them. On a CPU machine with TCP you cannot see that part: we take it from Awan and
# others.
# </details>
#
# ### VGG-16 itself
# Your two functions know any net. With a server for every four workers, the busiest server of the
# real VGG-16 sends twelve times as many bytes for 64 workers as for 4, as fc6 stays on one;
# ResNet-101's sends half more. A ring's worker sends about the same for any number of workers.
#
# Horovod's README has the end of it. With 64 GPUs over TCP, VGG-16 ran at 101 images/s with
# servers. With Horovod it ran at 1,463, when MPI carried from host memory, and at 6,084 by NCCL.
# One GPU alone ran at 150. Two things differ between servers and Horovod: who sends what, which you
# computed, and the library.
#
# What this lab does not show: strategies on GPUs, `variable_partitioner`, and recovery after a lost
# worker.
#
# ### What you take away
# - A strategy decides where variables are; the same step runs under all, if the loss is divided by
#   the replicas.
# - `TF_CONFIG` is one JSON text, and Slurm knows all that is in it but the port.
# - Bytes can be computed before anything runs. Look for the one server that holds the one large
#   variable.
# - Here the bytes decided, whoever carried them. By others' measurements (Awan) gRPC carries badly:
#   X was an answer, an allreduce beside TensorFlow was the better one.
# - Next: nets that do not fit into one device (62).
