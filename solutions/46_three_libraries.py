# %% [markdown]
# # 46 One job, three libraries
#
# The same training script, the same batch job, and each time another library carries the gradients:
# host MPI, a CUDA-aware MPI, NCCL. Which is faster, by how much, and how do you know that it was
# the one you asked for?
#
# **You will be able to** (1) say what each library needs, (2) prove from Horovod's timeline which
# one carried the gradients, (3) measure images per second, efficiency, and what communication adds
# to a step, (4) predict from calls and bytes between which bounds a step will lie.
#
# ![Software stack: the framework, Horovod with its control and data planes, then MPI, Gloo and
# NCCL, and the wire below them](46_stack.svg)
#
# *From the gradient to the wire. This lab exchanges the library in the third row.*
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 70 · Level: intermediate · Before: 40, 42, 50

# %%
import math
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
from labkit import check, cluster, hint, home, lab, launch, plots, predict, record, timing, world
from support import lab46

lab.start("46_three_libraries")
ranks = launch.ranks_here(2)

# %% tags=["parameters"]
framework = "pytorch"  # or "keras"
net = "auto"  # "small", or "resnet50"; "auto" is ResNet-50 on GPUs, and the small one elsewhere
# "fp32", or "bf16" with channels last; "auto" is bf16 on GPUs that have it, else fp32
precision = "auto"
images = 32  # per step: of each rank (weak scaling), of the whole job (strong scaling)
repeat = 12  # timed steps of each kind
watched_steps = 6  # steps under Horovod's timeline
rate = 0.01  # SGD's learning rate
limit = 300  # seconds for one run, and for a cluster job

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", exercise 46.1 is the one to do.*
#
# ## 1. Who talks, who carries?
# Between your gradients and the network Horovod does two things:
#
# 1. It **negotiates**: the ranks tell each other which gradients are ready. Who does this is called
#    the *controller*. Here it is MPI, which also starts the ranks.
# 2. It **carries**: the gradients of all ranks are summed. This can be another library.
#
# | library | reads GPU memory itself | Horovod's build |
# |---|---|---|
# | host MPI | no | `host` |
# | Gloo | no | `host` |
# | CUDA-aware MPI, as MVAPICH2-GDR | yes | `mpi` |
# | NCCL | yes, and nothing else | `nccl` |
#
# A library that cannot read GPU memory gets a copy in the host's memory, and its sum is copied
# back. That is called *staging*.
#
# This lab runs every line of the table that your machine can run. On a laptop these are host MPI
# and Gloo; on a GPU cluster, all. What cannot run is named with its reason, and never gets a
# number.
#
# NCCL carries the gradients. Which library negotiates then?
# <details><summary>Answer</summary>
#
# MPI, because this lab starts its ranks by MPI. Horovod can also let Gloo negotiate beside NCCL
# (`HOROVOD_CONTROLLER=gloo`), and by its documentation with about the same performance. Then a job
# with NCCL needs no MPI at all.
# </details>
#
# What has to be there? Asked in this order:
#
# | question for | what is missing |
# |---|---|
# | CUDA-aware MPI, NCCL: they move GPU memory | the node has no GPU |
# | all | Horovod's build for this library is not there |
# | CUDA-aware MPI | this MPI does not take GPU memory |
# | NCCL | a GPU for each rank: there are more ranks than GPUs |
#
# A library that can run also wants **variables**, set before the ranks start:
#
# | | variables | why |
# |---|---|---|
# | Gloo | `HOROVOD_CPU_OPERATIONS=gloo` | MPI would carry |
# | MVAPICH2, whatever carries | `MV2_ENABLE_AFFINITY=0` | Horovod's thread needs a core: lab 42 |
# | MVAPICH2-GDR as CUDA-aware MPI | `MV2_USE_CUDA=1` | only then it looks at GPU memory |
# | the same | `MV2_SUPPORT_DL=1` | its guide asks for it with Horovod: lab 42 |
# | MVAPICH-Plus as CUDA-aware MPI | `MVP_ENABLE_GPU=1` | it reads no `MV2_` variable |
#
# What of this does your machine have? A **way** is a library together with an MPI: host MPI may go
# by MPICH and by MVAPICH2 (`make mvapich2` builds one). Every way that can run will be started,
# with the build and the variables that are printed.

# %%
# Which ways can run here?
plans = {}  # way -> (build, variables), of those that can run
shut = {}  # name of a way -> the sentence that says why not
for way in lab46.ways():
    machine = lab46.machine(way, ranks)
    reason = lab46.closed(way) or lab46.missing(way.library, machine)
    if reason:
        shut[way.name] = reason
        print(f"{way.name:15} cannot run here: {reason}")
    else:
        plans[way] = lab46.BUILDS[way.library], lab46.variables(way.library, machine.mpi)
        print(f"{way.name:15} Horovod's build {plans[way][0]!r}, variables {plans[way][1]}")

# %% [markdown]
# ## 2. The training script
# It has two training steps. In one, Horovod averages the gradients. The other is its **control**:
# the same step with a plain optimizer, on a net of its own, and so without communication.
#
# All ranks run both, in turns. What slows the machine for a moment slows a step and its control
# alike. Their difference is what communication adds.
#
# It is measured twice. *Weak scaling*: each rank has `images` images in a step. *Strong scaling*:
# all ranks share so many.
#
# Here they are in PyTorch (lab 40), and below in Keras (lab 41). Read the one that you know. The
# parameter `framework` chooses. `where` knows where the tensors are, and stages them where Horovod
# cannot (lab 27). Mostly it has nothing to do. On a GPU the networks compute in bf16 (lab 14), as
# training jobs do, while weights and gradients stay in 32 bits. The step then gets shorter and its
# messages do not, so communication takes a larger share of it. The parameter `precision` chooses
# another one.


# %%
def torch_steps(where, pictures, labels):
    """The step with Horovod, its control, and the bytes of the gradients: in PyTorch."""
    import horovod.torch as hvd
    import torch

    layout = torch.channels_last if bits == "bf16" else torch.contiguous_format
    own = lab46.in_torch(kind_of_net).to(where.device, memory_format=layout)
    twin = lab46.in_torch(kind_of_net).to(where.device, memory_format=layout)
    pictures = pictures.to(memory_format=layout)
    mixed = torch.autocast(torch.device(where.device).type, torch.bfloat16, enabled=bits == "bf16")
    # Across ranks: begin equal; step() waits for the mean of each gradient.
    where.broadcast_parameters(hvd, own.state_dict())
    together = hvd.DistributedOptimizer(
        torch.optim.SGD(own.parameters(), lr=rate),
        named_parameters=own.named_parameters(),
        compression=where.compression(hvd),
    )
    alone = torch.optim.SGD(twin.parameters(), lr=rate)

    def step(net, optimizer):
        optimizer.zero_grad()
        with mixed:
            loss = torch.nn.functional.cross_entropy(net(pictures), labels)
        loss.backward()
        optimizer.step()

    nbytes = sum(4 * weights.numel() for weights in own.parameters())
    return lab46.Steps(partial(step, own, together), partial(step, twin, alone), nbytes)


# %%
def keras_steps(where, pictures, labels):
    """The step with Horovod, its control, and the bytes of the gradients: in Keras on
    TensorFlow."""
    import horovod.tensorflow as hvd
    import keras
    import tensorflow as tf

    keras.mixed_precision.set_dtype_policy("mixed_bfloat16" if bits == "bf16" else "float32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def make_step(net, wrap):
        optimizer = keras.optimizers.SGD(rate)
        optimizer.build(net.trainable_variables)

        @tf.function(autograph=False)
        def step():
            with tf.GradientTape() as tape:
                value = loss(labels, net(pictures, training=True))
            gradients = wrap(tape).gradient(value, net.trainable_variables)
            optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
            return value

        return lambda: step().numpy()  # a number is there when the step is over

    own = lab46.in_keras(kind_of_net)
    twin = lab46.in_keras(kind_of_net)
    # Across ranks: begin equal; this tape's gradient waits for the mean over the ranks.
    hvd.broadcast_variables(own.variables, root_rank=0)
    nbytes = sum(4 * math.prod(weights.shape) for weights in own.trainable_variables)
    together = make_step(own, hvd.DistributedGradientTape)
    alone = make_step(twin, lambda tape: tape)
    return lab46.Steps(together, alone, nbytes)


# %%
kind_of_net = lab46.chosen(net)
bits = lab46.chosen_precision(precision)
make_steps = {"pytorch": torch_steps, "keras": keras_steps}[framework]


def steps_of(comm, kind, where):
    """The step and its control, on this rank's images of "weak" or "strong" scaling."""
    # Across ranks: weak, each has `images` of its own; strong, they share `images`.
    own = lab46.images_of(kind, images, comm.rank, comm.size)
    return make_steps(where, *lab46.made_up_images(framework, kind_of_net, own, where.device))


def train(comm, file):
    """On every rank of a run: the training, weak and strong; then a timeline, written to file."""
    times = {}
    with lab46.started(comm, framework) as where:  # hvd.init(), and this rank's own GPU
        # Keras' steps end when all is done.
        device = where.device if framework == "pytorch" else None
        for kind in ("strong", "weak"):
            steps = steps_of(comm, kind, where)
            turns = {"step": steps.together, "alone": steps.alone}
            # Across ranks: each run begins at a barrier and ends with the slowest rank.
            times[kind] = timing.in_turns(turns, repeat=repeat, comm=comm, device=device)
    # Horovod has ended. The control once more: what did Horovod's own thread cost, with
    # nothing to send?
    times["weak"]["no Horovod"] = timing.measure(
        steps.alone, repeat=repeat, comm=comm, device=device
    )
    # A few steps more, under Horovod's timeline: apart, since writing it takes time.
    make = partial(steps_of, comm, "weak")
    watched = lab46.watch(comm, framework, make, watched_steps, file)
    return lab46.Run(times, watched, steps.nbytes, *lab46.place(comm, where))


# %% [markdown]
# ### Measure
# Each way starts ranks of its own, with the build and the variables printed above. One rank alone
# comes first: it needs no library, and is what the efficiency will be measured by. Half a minute to
# a minute; the times come out later.

# %%
runs = {}  # (name of the way, ranks) -> what rank 0 brought home
for way, (build, variables) in plans.items():
    sizes = [ranks]
    if not runs and not world.launcher():  # a job has as many ranks as it has
        sizes = [1, ranks]
    for size in sizes:
        by_rank = launch.run(
            train,
            home() / f"timeline_46_{way.file_name}.json",
            ranks=size,
            threads=1,  # on one rank, too: else it would have more cores than each of several
            horovod=build,
            mpi=way.mpi,
            env=variables,
            timeout=limit,
        )
        runs[way.name, size] = by_rank[0]
        print(f"{way.name}, {size} rank(s): done; {by_rank[0].place['mpi']} started the ranks")
ran = {name: run for (name, size), run in runs.items() if size == ranks}

# %% [markdown]
# ## 3. The proof
# Asking for a library is not getting it. A net that was never moved to the GPU, a build that fell
# back, a forgotten variable: the job still runs, and its numbers are those of another library.
#
# Horovod's **timeline** is the proof (lab 42). labkit's reader makes of it the calls of libraries,
# in order. A `call` has `.backend` ("MPI", "GLOO" or "NCCL"), `.tensors` (the names of those that
# it carried together) and `.seconds`. For example, two gradients, packed together:
#
#     call.backend   "NCCL"
#     call.tensors   ["fc2", "fc1"]
#     call.seconds   0.003
#
# There are two traps. A timeline holds more than gradients: ranks also average their loss, and at
# the start rank 0 sends its weights. And the 3 ms above are those of **one** call, not of each
# tensor in it. So `carriers` counts calls that carried **a gradient**, alone or with other tensors
# (you wrote such a count in lab 42).


# %%
def carriers(calls, gradients, steps):
    """calls: of a timeline. Returns {library: (calls a step, seconds a step)}, of calls with
    gradients."""
    count = Counter()
    seconds = Counter()
    for call in calls:
        if gradients & set(call.tensors):
            count[call.backend] += 1
            seconds[call.backend] += call.seconds
    return {name: (count[name] / steps, seconds[name] / steps) for name in count}


# %% [markdown]
# ### Predict
# The small net has 4 layers with a weight and a bias each, so 8 gradients. Its backward pass begins
# at the end of the net, and takes some 20 ms. About when each layer's two gradients are ready:
#
# | layer | second linear | first linear | second convolution | first convolution |
# |---|---|---|---|---|
# | ready after | 0.2 ms | 2 ms | 12 ms | 20 ms |
#
# Horovod looks every millisecond for what is ready, and packs that into one call. About how many
# calls has a step?

# %%
predict("46.1", calls_a_step=4)

# %% [markdown]
# Was it as asked? The rule, for a library of our table:
#
# - NCCL, CUDA-aware MPI: that library **alone** carried, and nothing was staged.
# - host MPI, Gloo: that library alone carried. On GPUs they always stage.
#
# The timeline says MPI for host MPI and for CUDA-aware MPI, and GLOO for Gloo.


# %%
def proof_of(library, watched, staged):
    """A line of the table: which library carried the gradients, and was it the one asked for?"""
    proof = carriers(watched.calls, watched.gradients, watched.steps)
    calls = sum(count for count, _ in proof.values())
    milliseconds = 1e3 * sum(seconds for _, seconds in proof.values())
    return {
        "carried by": sorted(proof),
        "calls a step": round(calls, 1),
        "ms in them": round(milliseconds, 1),
        "staged": staged,
        "as asked?": "yes" if lab46.as_asked(library, proof, staged != "no") else "NO",
    }


# %%
proofs = {}  # name of a way -> its line
for way in plans:
    run = ran[way.name]
    proofs[way.name] = proof_of(way.library, run.watched, run.place["staged"])
print(pd.DataFrame(proofs).T)
for name, why in shut.items():
    print(f"{name} cannot run here: {why}")
if ranks == 1:
    print("One rank has nothing to carry: start two.")
first = next(iter(ran))  # the first way that ran: host MPI, where it can run at all
predict.compare("46.1", calls_a_step=proofs[first]["calls a step"])

# %% [markdown]
# And the control: does the proof see a mistake? Gloo once more, but somebody forgot its variable.
# (Left out in a job, whose build of Horovod may be another.)


# %%
def watch_only(comm, file):
    """On every rank: steps under a timeline, and nothing else."""
    return lab46.watch(comm, framework, partial(steps_of, comm, "weak"), watched_steps, file)


# %%
if not world.launcher():
    file = home() / "timeline_46_forgotten.json"
    watched = launch.run(watch_only, file, ranks=ranks, threads=1, horovod="host", timeout=limit)[0]
    staged = ran[first].place["staged"]
    print(pd.DataFrame({"Gloo, forgotten": proof_of("Gloo", watched, staged)}).T)

# %% [markdown]
# **Explain.** Each line is a proof: this library carried, and no other. The control trained as well
# as the others, without an error. Only its timeline tells that MPI did the work, and that its times
# are not Gloo's. The line of NCCL, on a cluster that has it, is read in the same way.
#
# You should see between 2 and 4 calls a step. It need be no whole number: what is ready when
# Horovod looks goes together, and that is a matter of chance. You may see fewer calls than the
# table of layers promises. While a call of MPI or Gloo is under way Horovod does not look, and what
# gets ready meanwhile goes together. (A call of NCCL runs on the GPU, and Horovod looks on beside
# it.) Lab 44 turns these knobs.
#
# On a GPU cluster the column *staged* is what to read first: "through the host" in the line of host
# MPI, "no" in those of CUDA-aware MPI and NCCL. On a laptop there is nothing to stage.
#
# ## 4. Images per second
# The step is measured; now the three numbers that a report wants.
#
# - **Images per second**: images of *all* ranks in a step, over the seconds of the step.
# - **Efficiency**: what the job does, over what the same ranks would do if each were as fast as the
#   smallest job's. In images per second it is one formula for strong and for weak scaling.
# - **Share of communication**: the part of a step that is gone when the gradients are not summed. A
#   step of 50 ms, whose control takes 40 ms, has a share of 20 %.
#
# For the last, Horovod's timeline is no help. Its calls run, in part, while the backward pass still
# computes, and then they cost nothing. And what a late rank costs is not in the calls: Horovod
# begins a call only when all ranks have the gradient, so the others wait before it, in `NEGOTIATE`
# (lab 44).
#
# So the lab measured the control: each step and its control right after each other, as a pair. A
# neighbour that slows the machine for a second slows both.
#
# ### Predict
# Two ranks here, weak scaling. (a) The efficiency? (b) The share of communication with host MPI,
# (c) with Gloo? The small net has 4.3 MB of gradients, and its step takes some 25 ms. Think of the
# cores, too: does each rank have one for itself, and who else wants to compute? Write numbers
# between 0 and 1. They are guesses, as nothing of it was measured yet.

# %%
predict("46.1", efficiency_weak=0.8, share_host_mpi=0.15, share_gloo=0.2)

# %% [markdown]
# ### Exercise 46.1 · The three numbers of a report
# *(The one to do in the track "PPoPP hands-on, 90 minutes".)* One to three lines each.
# *(intermediate)*
#
# - `images_per_second(images_by_rank, seconds)`: `images_by_rank` lists how many images each rank
#   has in a step, `seconds` is an array, a value for each timed step. Use the median.
# - `efficiency(rates)`: `rates` is `{ranks: images per second of the job}`. Return
#   `{ranks: efficiency}`; the fewest ranks have 1.0.
# - `share(step, alone)`: arrays of seconds, `step[i]` and `alone[i]` measured one right after the
#   other. The share of communication **of each pair**, and then the median of these. It may be
#   below 0.
#
# `np.median(values)` is the median of an array. Arithmetic with arrays goes element by element.
#
# <details><summary>Hint 1: images per second</summary>
#
# The job has `sum(images_by_rank)` images a step, and a step takes `np.median(seconds)`.
# </details>
# <details><summary>Hint 2: efficiency</summary>
#
# With `fewest = min(rates)`, one rank of the smallest job does `rates[fewest] / fewest` images per
# second. On p ranks, p times that would be perfect.
# </details>
# <details><summary>Hint 3: the share</summary>
#
# Of a pair: what communication adds, `step - alone`, over the whole, `step`. NumPy does it for all
# pairs at once: `1 - alone / step`. Then `np.median` of that.
# </details>


# %%
def images_per_second(images_by_rank, seconds):
    """images_by_rank: images in a step, of each rank. seconds: array, of each step. Returns a
    float."""
    ### BEGIN SOLUTION
    return sum(images_by_rank) / np.median(seconds)
    ### END SOLUTION


def efficiency(rates):
    """rates: {ranks: images per second of the whole job}. Returns {ranks: efficiency}."""
    ### BEGIN SOLUTION
    fewest = min(rates)
    of_one_rank = rates[fewest] / fewest
    return {p: rate / (p * of_one_rank) for p, rate in rates.items()}
    ### END SOLUTION


def share(step, alone):
    """step, alone: arrays of seconds, in pairs. Returns the share of communication in a step."""
    ### BEGIN SOLUTION
    return np.median(1 - alone / step)
    ### END SOLUTION


# %%
check("46.1", images_per_second, efficiency, share)


# %%
def numbers(run, kind):
    """(images per second, share of communication) of a run, "weak" or "strong"."""
    by_rank = [lab46.images_of(kind, images, rank, ranks) for rank in range(ranks)]
    step = run.times[kind]["step"].samples
    alone = run.times[kind]["alone"].samples
    return images_per_second(by_rank, step), share(step, alone)


# %%
results = {}  # way -> {"weak": (images per second, share), "strong": …}
table = {}
for name, run in ran.items():
    results[name] = {kind: numbers(run, kind) for kind in ("weak", "strong")}
    table[name] = {}
    for kind, (speed, part) in results[name].items():
        table[name] |= {f"{kind}: images/s": f"{speed:.0f}", f"{kind}: share": f"{part:.0%}"}
        took = run.times[kind]
        if not took["step"].steady:
            print(f"{name}, {kind}: {took['step'].verdict}")
        record.add(
            f"{kind} {name}",
            seconds=took["step"],
            alone=took["alone"],
            images_per_second=speed,
            share=part,
            images=images * ranks if kind == "weak" else images,
            nodes=run.nodes,
            ranks=run.ranks,
            way=name,
            carried_by=proofs[name]["carried by"],
            calls_a_step=proofs[name]["calls a step"],
            gradient_bytes=run.nbytes,
            framework=framework,
            net=kind_of_net,
            precision=bits,
            **run.place,
        )
print(pd.DataFrame(table).T)
for name, why in shut.items():
    print(f"{name} cannot run here: {why}")

# %%
parts = {}
for name, run in ran.items():
    label = name.replace(", ", ",\n")
    parts[f"{label}\n{ranks} ranks"] = lab46.parts(run.times["weak"])
rates = {ranks: results[first]["weak"][0]}
if ranks > 1 and (first, 1) in runs:
    one = runs[first, 1].times["weak"]
    rates[1] = images_per_second([images], one["step"].samples)
    parts = {"1 rank": lab46.parts(one)} | parts
plots.bars(
    parts, ylabel="time of a step (ms)", title="Weak scaling: what Horovod adds to computing"
)

# %%
measured = {}  # only what this run can tell: a job on two nodes has not been on one
if 1 in rates:
    measured["efficiency_weak"] = efficiency(rates)[ranks]
for library, guess in (("host MPI", "share_host_mpi"), ("Gloo", "share_gloo")):
    names = [way.name for way in plans if way.library == library]
    if names:
        measured[guess] = results[names[0]]["weak"][1]
predict.compare("46.1", **measured)

# %% [markdown]
# **Explain.** Each bar has three parts. Which of them would a faster library make shorter?
# <details><summary>Answer</summary> The uppermost. The middle one is Horovod's own, and depends on the
# library only in how its ranks wait: see below.</details>
#
# *Computing* is the step without Horovod. On two ranks it can take longer than on one, although
# each has as many images as before. They may share the memory's bandwidth, or their two "cores" are
# two threads of one. This measurement does not tell which.
#
# *Horovod's thread* is what the control takes longer while Horovod runs, and has nothing to send.
# The control without Horovod is timed later, not in pairs: believe this part only where it is
# larger than the spread. Once a millisecond this thread asks the other ranks whether something is
# ready. Where ranks have no core to spare for it, it takes its time from the computing. How much
# that is depends on how an MPI waits for an answer: compare the bars of MPICH and MVAPICH2, if both
# are here (`make mvapich2`).
#
# *Communication* stands on top. Inside one machine host MPI sends through shared memory, Gloo
# through TCP.
#
# In the table, strong scaling has a larger share: half the images to compute, and as many bytes to
# send.
#
# You may see instead: a share below 0, or a line "do not quote". Then something else computes on
# this machine. Run section 2's measurement again when it is quiet.
#
# **What a GPU cluster adds.** Horovod's authors measured 16 GPUs in 4 servers with links of 25 Gb/s
# ([README of September 2017](@horovod_readme)); *host*
# is their "allreduce on CPU". Your `efficiency` makes this of it:

# %%
for line in lab46.published(gpus=16):
    share_of_ideal = efficiency({1: line.one_gpu, line.gpus: line.images})[line.gpus]
    print(f"{line!s:38} {line.images:7.1f} images/s, efficiency {share_of_ideal:.0%}")

# %% [markdown]
# Inception V3 sends 95 MB in a step that computes for 476 ms: which library carries them hardly
# matters.
#
# VGG-16 sends 553 MB in a step that computes for 489 ms: with NCCL over RDMA its efficiency is 85
# %, with the host 30 %. So ask first how much a net sends for what it computes.
#
# ## 5. A step between two bounds
# Can a step be predicted? MPICH sums long vectors by halving and doubling (lab 24). On p = 2, 4, 8,
# … ranks, n bytes take
#
# **T(n) = 2 lg p · α + 2 (p - 1)/p · n · β**
#
# where lg is the logarithm to base 2. α is what a message costs, whatever its size. β is what a
# byte costs. (For another p the formula is too low: the ranks beyond the power of two below p first
# hand their vectors to others, and get the sums back, which costs 2 (α + nβ) more.)
#
# Horovod adds a **wait** w to each call: its thread looks every millisecond for what is ready, and
# then the ranks agree on what all of them have. (For 1 KiB MPI alone took some microseconds on the
# kit's machine, and Horovod 1.07 ms. That call just missed a look. A gradient that gets ready at
# any moment waits half of it on average. So where waits are most of C, a step may even be shorter
# than the lower bound below.) A step sends its gradients in some calls. So its communication takes,
# with all their bytes together,
#
# **C = calls · (w + 2 lg p · α) + 2 (p - 1)/p · bytes · β**
#
# How much of C you *see* depends on how much of it the backward pass hides: gradients of the last
# layers are on their way while the first layers still compute. There are two bounds.
#
# - **All hidden**: a step takes the longer of computing and C.
# - **Nothing hidden**: it takes their sum.
#
# ### Predict
# VGG-16 has 553 MB of gradients. 16 GPUs sum them over links of 25 Gb/s, so that a byte takes β =
# 0.32 ns. Leave w and α out. A step of one GPU takes 489 ms. How many milliseconds is a step of 16
# GPUs (a) with all hidden, (b) with nothing hidden? (c) NCCL over RDMA needed 573 ms: which share
# of C, between 0 and 1, was hidden?

# %%
predict("46.2", all_hidden=489, nothing_hidden=821, share_hidden=0.75)

# %% [markdown]
# ### Exercise 46.2 · From the link to the step
# Write `bounds(alone, calls, nbytes, p, wait, alpha, beta)`. `alone` is the seconds of the step
# without communication, the rest as in C. Return the seconds of a step:
# `(all hidden, nothing hidden)`.
#
# For example, a step of 0.02 s alone that sends 4 MB in 2 calls on 4 ranks, with w = 1 ms, α = 10
# µs and β = 1 ns, lies between 0.02 and 0.02808 s.
#
# 2 to 4 lines. *(beginner)*
#
# <details><summary>Hint 1: what is C?</summary>
#
# In the example: 2 · (0.001 + 4 · 0.00001) + 1.5 · 4,000,000 · 10⁻⁹ = 0.00808 s.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# With `communication` for C: `max(alone, communication)` and `alone + communication`.
# </details>


# %%
def bounds(alone, calls, nbytes, p, wait, alpha, beta):
    """Seconds of a step on p ranks that sends nbytes in so many calls: (all hidden, nothing
    hidden)."""
    ### BEGIN SOLUTION
    communication = calls * (wait + 2 * math.log2(p) * alpha) + 2 * (p - 1) / p * nbytes * beta
    return max(alone, communication), alone + communication
    ### END SOLUTION


# %%
check("46.2", bounds)

# %% [markdown]
# First your own step, as it would be on such servers: with its computing, calls and bytes of today,
# w = 1 ms and α = 10 µs. Then the published runs, each between its bounds; w and α are left out.

# %%
alone = ran[first].times["weak"]["alone"].median
for p in (2, 4, 16, 64):
    low, high = bounds(
        alone, proofs[first]["calls a step"], ran[first].nbytes, p, 1e-3, 1e-5, 0.32e-9
    )
    print(
        f"your step on {p:2} such servers, predicted: efficiency {alone / high:.0%} to"
        f" {alone / low:.0%}"
    )
there = {}
for line in [*lab46.published("vgg16"), *lab46.published("inception_v3", gpus=16)]:
    low, high = bounds(line.alone, 0, line.nbytes, line.gpus, 0, 0, line.beta)
    there[str(line)] = (low / line.alone, high / line.alone, line.step / line.alone)
lab46.draw_bounds(there, title="NCCL's steps lie near their bounds, the host's need not")

# %%
(rdma,) = [line for line in lab46.published("vgg16", gpus=16) if line.carrier == "NCCL over RDMA"]
low, high = bounds(rdma.alone, 0, rdma.nbytes, rdma.gpus, 0, 0, rdma.beta)
hidden = (high - rdma.step) / (high - rdma.alone)
predict.compare("46.2", all_hidden=1e3 * low, nothing_hidden=1e3 * high, share_hidden=hidden)

# %% [markdown]
# **Explain.** Start with VGG-16 on 16 GPUs; the link is the same in all four lines. NCCL over RDMA
# is in the left part of its bar: the network card moves the bytes while the GPU computes, and three
# quarters of them are hidden. NCCL over TCP is near the right end: hardly anything is hidden, or
# TCP does not reach 25 Gb/s. The place in the bar cannot tell the two apart.
#
# The two lines with 64 GPUs come from another table of that README, with links of 40 Gb/s. NCCL
# over TCP is a little beyond its bar there.
#
# The host is far beyond its bar: with 16 GPUs its step took 1.66 s, and the bytes that C counts do
# not explain that. C gives each rank a link of its own, and here four ranks of a server share one.
# Does this explain the host?
# <details><summary>Answer</summary>
#
# It depends on the algorithm. The README installs Open MPI, whose versions of these years sum long
# vectors in a ring. A ring in the order of the ranks sends 2 · 15/16 n through a server's link, as
# C has it, so a step takes 0.82 s at most: no explanation.
#
# Halving and doubling, on another MPI, may send more. Of 16 ranks each has partners 8, 4, 2 and 1
# places away, and only those 8 and 4 away are on other servers. An MPI that begins with the
# farthest sends them n/2 and n/4, and as much again when doubling: 1.5 n for each of four ranks, 6
# n for the link, and a step of 1.55 s. MPICH begins with the nearest and sends n/8 and n/16: 1.5 n
# for all four, and 0.75 s.
# </details>
#
# What remains is outside of C: staging copies 553 MB to host memory and back, on four GPUs at once,
# and the processors have to add. Both are likely causes, not measured here; a profiler on such a
# cluster would tell. Where a shared link is the cause, lab 26 has the cure: sum inside a server
# first.
#
# ## 6. The same script as a batch job
# A process holds one build, so each library gets a job of its own. The batch script is the same:
#
#     make submit LAB=46 NODES=2 HOROVOD=host
#     make submit LAB=46 NODES=2 HOROVOD=mpi       # the site's CUDA-aware MPI, as MVAPICH2-GDR
#     make submit LAB=46 NODES=2 HOROVOD=nccl      # MPI starts the ranks and negotiates
#     make scaling LAB=46 NODES=1,2,4 HOROVOD=nccl
#
# In a job, `MV2_` variables must be there *before* MPI starts, and that is before your function
# runs. A site file with `LABKIT_MPI=mvapich2-gdr` sets them; by hand,
# `ENV="MV2_USE_CUDA=1 MV2_SUPPORT_DL=1"`.
#
# `make tabletop BANDWIDTH=1gbit` makes a cluster of two nodes on this machine. Below is what your
# newest job measured, else the kit's reference.

# %%
frame, whose = cluster.records_or_reference("46")
columns = ["result", "ranks", "images_per_second", "share", "carried_by", "staged"]
between_nodes = frame[(frame["nodes"] > 1) & frame["result"].str.match("weak |strong ")]
print(
    f"On several nodes ({whose}):", between_nodes[columns].round(2).to_string(index=False), sep="\n"
)

# %% [markdown]
# **Explain.** Over 1 Gb/s our 4.3 MB take at least 34 ms, and no library can change that. What
# communication added to a step is its images over the images per second, times the share. In the
# kit's reference, with 64 images in a step of weak scaling, this is about 56 ms for Gloo and 106 ms
# for MPICH. The link alone accounts for 34 ms of each. One likely cause of the rest is that the two
# nodes of a tabletop share one machine's cores, and a library that waits for a message may keep a
# core busy. These lines do not tell how much is the library's own, so measure on a real cluster
# before you choose between libraries there.
#
# ### What you take away
# - Who negotiates is one question, who carries another. Build, variables and the tensor's place
#   decide.
# - A number without its proof is the number of an unknown library.
# - Images per second, efficiency, share: each has a baseline, and the share needs its control.
# - A step lies between two bounds; between them is what the backward pass hides.
# - Next: which library for which size, and whether one runtime could do all of it (51).
