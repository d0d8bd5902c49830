# %% [markdown]
# <!-- Generated from solutions/61_tf_distribute.py by `make labs`. Learners work on a copy in work/. -->
# # 61 TensorFlow's own distribution
#
# TensorFlow can train on many machines without Horovod. It comes with [parameter servers](../labs/GLOSSARY.md#parameter-server), which keep
# the variables for all workers, and with a ring among the workers. Both send their tensors with
# gRPC, a library for remote procedure calls. In the first years of distributed deep learning this
# was the usual setup, and it disappointed many users, because with some models 64 GPUs were slower
# than one. To understand why, you need to know how many bytes each process sends, and which process
# becomes the bottleneck.
#
# In this lab we start real clusters of TensorFlow processes, write one training step that runs
# under every strategy, compute the bytes of servers and rings, and compare the numbers with what
# the operating system counts on the wire. At the end we compare with Horovod over a slow
# link, and see in published runs how slow parameter servers could be.
#
# **After this lab you can** (1) write TF_CONFIG from Slurm's variables, (2) write a training step
# that runs under every strategy of TensorFlow, (3) compute the bytes that servers and rings send,
# and (4) find the server that is a bottleneck, and explain what it meant for published runs.
#
# ![Left: two workers and two parameter servers, one of which keeps the large variable fc6 and sends most bytes. Right: two workers in a ring send equally many bytes](../notebooks/figures/61_servers.svg)
#
# *Two ways to exchange [gradients](../labs/GLOSSARY.md#gradient). A server sends its variables to every worker (left), so the
# server with the largest variable becomes the bottleneck. In a ring (right) all workers send the
# same number of bytes.*
#
# Needs: horovod, tensorflow · Ranks: 2 · Minutes: 60 · Level: intermediate · Before: 11, 31, 41

# %%
import json

import pandas
from labkit import check, cluster, hint, lab, launch, predict, record
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
# ## 1. `tf.device`, and the tensors that cross a wire
# How does a tensor get from one machine to another? We begin inside one machine. TensorFlow runs
# each operation on a *device*, which `tf.device` selects. The call `lab61.devices(3)` above made
# TensorFlow split this machine into three devices: CPU:0, CPU:1 and CPU:2.

# %%
with tf.device("CPU:1"):
    first = tf.ones((2, 2))
with tf.device("CPU:2"):
    second = first @ first
print(first.device)
print(second.device)


# %% [markdown]
# **Explain.** `second` was computed on CPU:2 from a tensor on CPU:1, although the program did not
# ask for a copy. TensorFlow noticed that the tensor had to change devices, and copied it. In a
# graph (`tf.function`, [lab 11](11_same_net_in_tensorflow.ipynb)) it inserts a *Send* on one side and a *Recv* on the other. In [lab 62](62_model_parallel.ipynb)
# you write these messages yourself.
#
# The printed names show how this extends to several machines. `/job:localhost` and `/task:0`
# together name a **process**. In a cluster the processes are called `/job:worker/task:1` or
# `/job:ps/task:0` (ps is a parameter server), and `with tf.device("/job:ps/task:0"):` works in the
# same way.
#
# In a cluster, Send and Recv are in two processes, and a library has to transfer the tensor between
# them. TensorFlow uses [**gRPC**](https://grpc.io/docs/), which calls functions in other processes over TCP.
#
# ## 2. The identity of a process: TF_CONFIG
# A process of a TensorFlow cluster has to find out which process it is and which others exist. It
# usually reads this from the environment variable `TF_CONFIG`, a text in JSON. For four workers on
# two nodes, the last worker has
#
#     {"cluster": {"worker": ["node1:5000", "node1:5001", "node2:5000", "node2:5001"]},
#      "task": {"type": "worker", "index": 3}}
#
# [Slurm](https://slurm.schedmd.com/srun.html) does not set `TF_CONFIG`, but it describes each task in the task's
# environment. You convert one into the other, as TensorFlow's `SlurmClusterResolver` does. You need
# two variables, and their values are always strings:
#
# | variable | meaning | for the task above |
# |---|---|---|
# | `SLURM_NTASKS` | number of tasks in the job | `"4"` |
# | `SLURM_PROCID` | number of this task, from 0 | `"3"` |
#
# Every node has the same number of tasks, and tasks fill one node after the other. Of 6 tasks on 2
# nodes, for example, tasks 0, 1 and 2 are on the first.
#
# We choose the ports. Two tasks of a node cannot use the same one, so they take `port`, `port + 1`
# and so on, and each node begins with `port` again.
#
# ### Exercise 61.1 · TF_CONFIG from Slurm
# `slurm` is a dictionary of these variables, `hosts` is the list of nodes in Slurm's order, and
# `port` is the first port on each node. Return the TF_CONFIG of this task. All tasks are workers.
# `json.dumps(…)` converts a dictionary to a string. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: where is task t?</summary>
#
# With `each` tasks on a node, task `t` is on node `t // each`, where it has the number `t % each`.
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
# A [**strategy**](https://www.tensorflow.org/guide/distributed_training) of TensorFlow determines where variables are and which
# processes run a step. Here are three of them:
#
# | strategy | variables | which devices or processes run the step | communication |
# |---|---|---|---|
# | `MirroredStrategy` | a copy on each device | every device of this process | allreduce inside the process |
# | `MultiWorkerMirroredStrategy` | a copy in each process | every process | a ring, here over gRPC |
# | `ParameterServerStrategy` | one copy, on servers | any worker that is free | servers, over gRPC |
#
# A copy together with its device is called a *replica*. The same step runs under all three
# strategies if you write it with two calls:
#
# - `strategy.run(function, args=(pictures, labels))` calls `function` on every replica, with the
#   replica's own images and labels. The results are kept separately, one value for each replica.
# - `strategy.reduce("SUM", values, axis=None)` adds such values up, over all processes.
#
# For example, these lines count the images of all replicas:
#
#     def count(pictures):
#         return tf.shape(pictures)[0]
#
#     counts = strategy.run(count, args=(pictures,))       # one number for each replica
#     images = strategy.reduce("SUM", counts, axis=None)   # their sum
#
# Inside the function, `optimizer.apply_gradients(zip(gradients, variables))` first **adds** the
# gradients of all replicas. It does not compute their mean. The sum, however, should be the
# gradient of the mean over all images of all replicas, so the [loss](../labs/GLOSSARY.md#loss) of each replica has to be
# divided by a number. By which one?
# <details><summary>Answer</summary>
#
# By the number of replicas. The loss of a replica is the mean over its own images, and all replicas
# have the same number of images. If the losses of two replicas are 1 and 3, the mean over all
# images is 2, which is 1/2 + 3/2.
# </details>
#
# `strategy.num_replicas_in_sync` is the number of replicas that take a step together. With servers
# it is 1 on our CPUs, because each worker takes its own steps.
#
# ### Exercise 61.2 · A step for every strategy
# Write `train_step`. It takes one step on all replicas and returns the mean loss over all images.
# For the images of one replica, `cross_entropy(labels, net(pictures, training=True))` in the cell
# below is the mean loss. Compute the gradients as in [lab 11](11_same_net_in_tensorflow.ipynb), with `tf.GradientTape`. Leave out
# `@tf.function`, because the code that calls your function adds it. About 9 lines. *(intermediate)*
#
# <details><summary>Hint 1: two functions</summary>
#
# Inside `train_step`, define `on_replica(pictures, labels)` with the tape, the loss, the gradients,
# `apply_gradients`, and `return loss`. Then call it with `strategy.run`, and add up the results
# with `strategy.reduce`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compute `loss = cross_entropy(…) / strategy.num_replicas_in_sync` on the tape. The sum of these
# losses is the mean over all images.
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
# Asked: Weights and loss as of one device with all images, on 3 replicas and on
# 1.
check("61.2", train_step)

# %% [markdown]
# Why not Keras' `fit`?
# <details><summary>Answer</summary>
#
# Keras 3 cannot do this (as of version 3.15). With `MultiWorkerMirroredStrategy` its `fit` ends in
# an error (Keras issue 20585), and parameter servers are not supported (Keras issue 18624). In a
# training loop that you write yourself, the layers and optimizers of Keras 3 work.
# </details>
#
# ## 4. Bytes, computed
# Which strategy sends fewer bytes, and which process sends them? This depends on the sizes of the
# variables. VGG-16 and ResNet-101 need about the same time per image ([lab 31](31_parameter_server_or_allreduce.ipynb)). But VGG-16 has three
# times as many parameters, and most of its parameters are in **one** variable, that of layer fc6.
# Two small networks represent these two here:
#
# | | parameters | its largest variable |
# |---|---|---|
# | VGG-16 | 138 million | 74 % of them |
# | ResNet-101 | 45 million | 5 % |
# | `small VGG` | 682,112 | 77 % |
# | `small ResNet` | 222,400 | 17 % |
#
# The next cell prints their variables, in the order in which they are created:

# %%
sizes = {name: lab61.sizes_of(lab61.build(name)) for name in lab61.NETS}
for name in lab61.NETS:
    print(f"{name}: {sizes[name]}, together {sum(sizes[name]):,}")


# %% [markdown]
# `ParameterServerStrategy` distributes variables in turn. The first goes to server 0, the next to
# server 1, and the one after the last server's to server 0 again. A variable is not split unless
# you tell the strategy to (`variable_partitioner`).
#
# In a step, each worker reads every variable from its server and sends its gradient there. A server
# therefore sends its variables once to each worker. For example, three variables with 10, 20 and 30
# numbers of 4 bytes are on two servers, and there is one worker. Server 0 sends 4 · (10 + 30) = 160
# bytes, and server 1 sends 80.
#
# In a ring there are no servers. Each of p workers sends 2 (p − 1) / p times the whole gradient
# ([lab 23](23_ring_allreduce.ipynb)). A gradient of 90 numbers has 360 bytes, and each of three workers sends 4/3 of them,
# which is 480 bytes.
#
# ### Exercise 61.3 · Who sends how much?
# Write two functions. `servers_send` returns the list of the bytes that each server sends in a step
# in which every worker takes part. `ring_sends` returns the bytes that one worker of a ring sends.
# 2 lines in all, or a few more with loops. *(beginner)*
#
# <details><summary>Hint 1: a slice with a step</summary>
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
# Asked: The variables in turn, to each worker once; the ring's 2 (p - 1) / p.
check("61.3", servers_send, ring_sends)

# %% [markdown]
# ### Predict
# Take the small VGG, two servers and two workers. How many megabytes does each server send in a
# step, and how many does each worker of a ring of two? Compute from the sizes printed above,
# without your functions.

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
# cluster of two servers, two workers and a chief. Each of the two trains both networks. The *chief*
# distributes the steps, and a free worker takes the next one. With servers, *a step* in the tables
# means that every worker has taken one step.
#
# The operating system counts the bytes. For each TCP connection its kernel knows how many bytes
# were sent and acknowledged (`TCP_INFO`), which includes the data that gRPC adds to a tensor.
#
# TensorFlow's servers listen on all networks of a machine, for every client, without a password.
# Use them only inside a cluster. In this lab they end with the measurement.
#
# ### Measure
# The first cell trains, which takes 30 to 60 s, most of it spent starting the processes. The second
# one compares each process's count with the results of your functions. `ps 0` and `ps 1` are the
# two servers.

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

# %% [markdown]
# **Explain.** You should see a `counted / predicted` just above 1, by about one part in a hundred
# at most. The difference is what gRPC sends in addition to the tensors.
#
# One of the two servers of the small VGG sends nearly five times as many bytes as the other,
# because it has the variable that represents fc6. The servers of the small ResNet share the work
# well.
#
# **Was the sum right?** One process with all the images should have the same losses as the ring.
# The next cell compares them. As a control, the process also trains with `ranks` times the learning
# rate, which for our plain SGD is the same as adding the gradients and not averaging them.

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

# %% [markdown]
# **Explain.** The losses agree in the first line, so your division by the number of replicas was
# right, and the sum did cross the wire. In the second line they differ.
#
# With servers there is no such comparison. Each worker takes its own steps, with weights that
# another worker may have changed in the meantime ([lab 31](31_parameter_server_or_allreduce.ipynb)). This strategy is *asynchronous*.
#
# **Would more servers help?** The next cell prints the server of each variable of the small VGG, as
# TensorFlow placed it. Then it computes how much the busiest of several servers would send.

# %%
places = outcomes[net, lab61.SERVERS].servers
print(f"Variables of the {net} are on servers {places}")
for servers in (1, 2, 3, 6):
    busiest = max(servers_send(sizes[net], servers, ranks))
    print(f"Computed: servers: {servers}; the busiest sends {busiest / 1e6:.2f} MB")

# %% [markdown]
# **Explain.** The variables were distributed in turns, as you computed. For two workers, the
# busiest of two servers sends 4.50 MB, and the busiest of six still sends 4.19 MB, because one
# variable is never on two servers.
#
# Now consider a network in which each layer has a weight and then a bias. What does each of two
# servers have?
# <details><summary>Answer</summary>
#
# Server 0 has all weights, and server 1 has all biases. With any even number of servers, half of
# them have only biases. There are two remedies. TensorFlow's benchmarks distributed variables by
# size ([lab 31](31_parameter_server_or_allreduce.ipynb)), and `variable_partitioner` can split a variable.
# </details>
#
# ## 6. Without gRPC
# Would another library be faster? Horovod's ring ([lab 41](41_horovod_tensorflow.ipynb)) sends as many bytes as TensorFlow's. But
# it fuses gradients, and passes them to a library that was made for long messages. In a job this is
# [MPI](../labs/GLOSSARY.md#MPI). Here it is Gloo, because inside one machine MPI would use shared memory and not TCP.
#
# ### Predict
# Consider two workers. Let S be all bytes that workers and servers send in a step, and R all bytes
# that the workers of a ring send. What is S / R?

# %%
predict("61.3", servers_over_ring=...)

# %% [markdown]
# ### Measure
# The next cells train both networks with Horovod, which takes about 20 s, and print a table of all
# the ways:
#
# - `ms alone` is the time of a worker's step that does not communicate. Such steps are timed in
#   between, in the same processes.
# - *[Efficiency](../labs/GLOSSARY.md#efficiency)* is `ms alone` divided by `ms a step`, the share of its speed that a worker keeps.
# - With servers, steps without communication are not timed, so these fields are empty (`NaN`).

# %%
for net, outcome in lab61.with_horovod(lab61.NETS, ranks, batch, repeat).items():
    outcomes[net, lab61.HOROVOD] = outcome

# %%
rows = {}
hosts = launch.nodes_here()
for (net, way), outcome in sorted(outcomes.items()):
    alone = outcome.alone or outcomes[net, lab61.RING].alone
    share = alone.median / outcome.step.median
    speed = ranks * batch / outcome.step.median
    each = sum(outcome.sent.values()) / (ranks * batch)
    rows[net, way] = {"ms a step": 1e3 * outcome.step.median, "images/s": speed}
    rows[net, way] |= {"kB an image": each / 1e3, "steady": outcome.step.steady}
    if outcome.alone:
        rows[net, way] |= {"ms alone": 1e3 * alone.median, "efficiency %": 100 * share}
        rows[net, way]["steady"] &= alone.steady
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
ring, servers = (rows[lab61.NETS[0], way]["kB an image"] for way in (lab61.RING, lab61.SERVERS))
predict.compare("61.3", servers_over_ring=servers / ring)

# %% [markdown]
# **Explain.** Begin with the column `kB an image`, which is a count and not a time. With servers,
# the servers send each worker all variables once, and each worker sends all its gradients once. A
# worker in a ring of two sends 2 · 1/2 = 1 gradient, which is half as much. (With p workers the
# factor is p / (p − 1), and the cell counts it for your [ranks](../labs/GLOSSARY.md#rank).)
#
# The small VGG sends three times as many bytes per image as the small ResNet, no matter which
# library transfers them.
#
# The times are less reliable. All processes share this machine's cores, and messages between them
# do not cross a network. Do not compare rows in which `steady` is False, whose times varied too
# much.
#
# ### Predict
# Two nodes have a link of 200 Mb/s between them, which transfers 25 MB per second. In a ring of
# two, the 2.7 MB of the small VGG take 109 ms, and the 0.9 MB of the small ResNet take 36 ms. If a
# worker begins to send only when it has finished computing, the share of its speed that it keeps is
#
#     computing / (computing + sending)
#
# With 20 ms of computing and 60 ms of sending, for example, it keeps 20 / (20 + 60), which is 25
# percent. What does each network keep in the ring over gRPC? On the kit's machine, computing takes
# 11 ms for the small VGG and 13 ms for the small ResNet. If you are going to run the job below on
# your own machine, use your `ms alone` from the table above instead.

# %%
predict("61.3", tabletop_vgg=..., tabletop_resnet=...)  # percent

# %% [markdown]
# ### On the tabletop
# `make tabletop BANDWIDTH=200mbit` starts two such nodes on this machine, and
# `make submit LAB=61 NODES=2` runs this lab there, in about two minutes. Afterwards this cell
# shows the job's table. Without a job it shows the kit's own. The column `ms alone` contains the
# job's own times, for which you can compute the shares again.

# %%
frame, whose = cluster.records_or_reference("61", "training")
frame = (
    frame[frame["nodes"] > 1].drop_duplicates(["net", "way"], keep="last").set_index(["net", "way"])
)
frame["ms alone"] = 1e3 * frame["efficiency"] * frame["seconds"]
columns = ["nodes", "images_per_second", "ms alone", "efficiency", "bytes_per_image"]
print(f"On several nodes ({whose}):")
print(frame[columns].round(2).to_string())
if len(frame):
    shares = [100 * frame.loc[(net, lab61.RING), "efficiency"] for net in lab61.NETS]
    predict.compare("61.3", tabletop_vgg=shares[0], tabletop_resnet=shares[1])

# %% [markdown]
# **Explain.** Compare the rows `ring, gRPC` with what you computed. Both networks lose most of
# their speed over this link, and the one that sends three times as many bytes loses more. In the
# kit's own table, the small VGG keeps 8 % and the small ResNet 24 %, where the formula gives 9 and
# 27 %.
#
# In the rows `servers, gRPC`, the efficiency uses the ring's `ms alone`, because steps without
# communication are not timed with servers. It compares processes of two runs, so trust it least.
#
# Is the link the reason? As a control, compute both shares for 2 Gb/s (for the kit's 11 and 13 ms,
# they would be 50 and 78 %), then run
# `make tabletop BANDWIDTH=2000mbit` and `make submit LAB=61 NODES=2`, and run the cell again.
#
# Now compare gRPC's ring with Horovod's. They lose nearly the same amount (in the kit's table,
# Horovod's ring keeps 8 and 23 %), because the bytes are the same, and so is the wire. Why, then,
# were the published runs with gRPC so slow?
#
# ### The busiest server in published runs
# At that time, gRPC usually meant parameter servers. Your two functions work for any network.
# Suppose that there is one server for every four workers. Then for a step they compute:
#
# | process that sends most | 4 workers | 64 workers | times as much |
# |---|---|---|---|
# | VGG-16, busiest server | 2.2 GB | 26.5 GB | 12 |
# | ResNet-101, busiest server | 0.7 GB | 1.1 GB | 1.5 |
# | VGG-16, any worker of a ring | 0.8 GB | 1.1 GB | 1.3 |
#
# The busiest server of VGG-16 sends fc6 to all 64 workers, because fc6 stays on one server. The
# large variables of ResNet-101 (in its usual form, in which convolutions have no biases) are spread
# over the servers. A worker of a ring never sends more than twice the gradient.
#
# Horovod's README of 2017 contains the result for 64 GPUs over TCP:
#
# | VGG-16 on | images/s |
# |---|---|
# | one GPU | 150 |
# | 64 GPUs, servers over gRPC | 101 |
# | 64 GPUs, Horovod with MPI, from host memory | 1,463 |
# | 64 GPUs, Horovod with NCCL | 6,084 |
#
# Servers and Horovod differ both in which process sends how much and in the library, so these runs
# do not show how much each of the two contributed.
#
# ### What you take away
# - A strategy determines where variables are. The same step runs under all strategies if the loss
#   is divided by the number of replicas.
# - `TF_CONFIG` is a single JSON string, and Slurm knows everything in it except the port.
# - You can compute the bytes before anything runs. Look for the one server that has the one large
#   variable.
# - On a slow link, the number of bytes determines the time, whichever library sends them.
#
# [Lab 62](62_model_parallel.ipynb) continues with networks that do not fit into one device.
#
# ## Going further (optional): gRPC on fast links (3 minutes)
# At 100 Gb/s the wire costs little. The main costs are then packing each tensor into a message and
# copying it through TCP, and gRPC has no direct path to InfiniBand or to a GPU's memory.
# [Awan et al.](https://arxiv.org/abs/1810.11112) compared three kinds of communication:
#
# | name | which library transfers the gradients | in TensorFlow |
# |---|---|---|
# | gRPC | only gRPC | since 0.8, the first distributed version (2016) |
# | gRPC+X | gRPC coordinates, and X transfers: InfiniBand verbs (`grpc+verbs`), MPI, or GPUDirect RDMA (GDR) | 1.x, `tf.contrib` |
# | no gRPC | Baidu's allreduce, over MPI | 1.x, `tf.contrib.mpi_collectives` |
# | no gRPC | Horovod's allreduce, over MPI, NCCL or Gloo | no, it is a separate package |
#
# In most of their configurations "no gRPC" was the fastest. You cannot observe this on CPUs with
# TCP, so we only quote it.
#
# TensorFlow 2 removed gRPC+X together with `tf.contrib`, so a server of today's TensorFlow refuses
# `protocol="grpc+verbs"`. One such X still exists, because with GPUs TensorFlow's ring can use
# [NCCL](../labs/GLOSSARY.md#NCCL), and gRPC then only connects the workers.
#
# ### Further reading
# - A. Awan, J. Bédorf, C. Chu, H. Subramoni and D. Panda, *[Scalable Distributed DNN Training using TensorFlow and CUDA-Aware MPI](https://arxiv.org/abs/1810.11112)*, CCGRID, 2019. The measurements of gRPC, gRPC+X and [allreduce](../labs/GLOSSARY.md#allreduce) that this lab quotes.
# - [TensorFlow: Distributed training](https://www.tensorflow.org/guide/distributed_training). TensorFlow's guide to its strategies.
# - M. Li et al., *[Scaling Distributed Machine Learning with the Parameter Server](https://www.usenix.org/conference/osdi14/technical-sessions/presentation/li_mu)*, OSDI, 2014. The design of the parameter server.
# - A. Sergeev and M. Del Balso, *[Horovod: fast and easy distributed deep learning in TensorFlow](https://arxiv.org/abs/1802.05799)*, 2018. Why Uber replaced parameter servers by a ring.
# - M. Abadi et al., *[TensorFlow: A System for Large-Scale Machine Learning](https://arxiv.org/abs/1605.08695)*, OSDI, 2016. The paper about TensorFlow, with devices, Send and Recv.
