# %% [markdown]
# <!-- Generated from solutions/46_three_libraries.py by `make labs`. Learners work on a copy in work/. -->
# # 46 One job, three libraries
#
# A training job does not say which library averages its [gradients](../labs/GLOSSARY.md#gradient). Depending on how Horovod was
# built and on a few environment variables, the same script can use a *host [MPI](../labs/GLOSSARY.md#MPI)* (Message Passing
# Interface, for host memory only), a [CUDA-aware MPI](../labs/GLOSSARY.md#CUDA-aware-MPI) such as MVAPICH2-GDR (for GPU memory, too), or
# NCCL (NVIDIA's library for its GPUs).
#
# The choice can change the speed by a factor of three for one model and hardly matter for another,
# because models differ in how many bytes they send for the time that they compute.
#
# In this lab we run one training script with every communication library that your machine offers,
# and prove from Horovod's [timeline](../labs/GLOSSARY.md#timeline) that the job used the library that it asked for. We then turn
# the measured times into the three numbers of a report, and use the bytes and the link to predict
# the bounds between which the time of a step should lie.
#
# **After this lab you can** (1) say what each library needs, (2) prove from Horovod's timeline
# which library performed the [allreduce](../labs/GLOSSARY.md#allreduce), (3) measure images per second, efficiency, and the share of
# communication in a step, and (4) predict from calls and bytes between which bounds a step should
# lie.
#
# ![Software stack: the framework, Horovod with its control and data planes, then MPI, Gloo and NCCL, and the wire below them](../notebooks/figures/46_stack.svg)
#
# *From the gradient to the wire. This lab exchanges the library in the third row.*
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 60 · Level: intermediate · Before: 40, 42, 50

# %%
import math
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
from labkit import check, cluster, hint, lab, launch, own_folder, plots, predict, timing, world
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
# *In the track "PPoPP hands-on, 90 minutes", run the cells in order, do exercise 46.1 in section 4,
# and skip section 5.*
#
# ## 1. Which library negotiates, and which one transfers?
# To average your gradients, Horovod does two things:
#
# 1. It **negotiates**: the [ranks](../labs/GLOSSARY.md#rank) tell each other which gradients are ready. The part of Horovod
#    that does this is called the *controller*. In this lab the controller uses MPI, which also
#    starts the ranks.
# 2. It **performs the allreduce**, which adds up the gradients of all ranks. For this it can use
#    another library, its *backend*.
#
# A *build* of Horovod is a copy that was compiled for certain libraries:
#
# | library | reads | Horovod's build |
# |---|---|---|
# | host MPI | host memory | `host` |
# | [Gloo](https://github.com/pytorch/gloo) | host memory | `host` |
# | CUDA-aware MPI, such as [MVAPICH2-GDR](https://mvapich.cse.ohio-state.edu/userguide/gdr/) | host and GPU memory | `mpi` |
# | [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html) | GPU memory | `nccl` |
#
# If the gradients are in GPU memory and the library cannot read it, Horovod gives the library a
# copy in host memory, and copies the sum back. This is called *staging*.
#
# Could a job with NCCL do without MPI?
# <details><summary>Answer</summary>
#
# Yes. This lab starts its ranks with MPI, so MPI negotiates even if NCCL performs the allreduce.
# With `HOROVOD_CONTROLLER=gloo` Gloo negotiates instead, and a job with NCCL needs no MPI at all.
# </details>
#
# ### Which libraries can run here?
# On a laptop, host MPI and Gloo can run. The other two also need GPUs:
#
# | library | what it needs besides its build of Horovod |
# |---|---|
# | Gloo | `HOROVOD_CPU_OPERATIONS=gloo` as environment variable, or else Horovod uses MPI |
# | CUDA-aware MPI | a GPU, an MPI library that supports GPU memory, and its variables ([lab 42](42_horovod_mvapich2_gdr.ipynb)) |
# | NCCL | one GPU for each rank |
#
# The next cell checks these points for each **way**, which in this lab means a library together
# with the MPI that starts the ranks. It prints the build and the variables with which a way will be
# started, or the reason why the way cannot run.
#
# Host MPI with MPICH and with MVAPICH2 are two ways. `make mvapich2` builds MVAPICH2, whose
# variables contain `MV2_ENABLE_AFFINITY=0`, so that the background thread in which Horovod
# negotiates finds a core ([lab 42](42_horovod_mvapich2_gdr.ipynb)).

# %%
# Which ways can run here?
plans = {}  # way -> (build, variables), of those that can run
shut = {}  # name of a way -> the sentence that says why not
for way in lab46.ways():
    machine = lab46.machine(way, ranks, framework)
    reason = lab46.closed(way) or lab46.missing(way.library, machine)
    if reason:
        shut[way.name] = reason
        print(f"{way.name:15} cannot run here: {reason}")
    else:
        plans[way] = lab46.BUILDS[way.library], lab46.variables(way.library, machine.mpi)
        print(f"{way.name:15} Horovod's build {plans[way][0]!r}, variables {plans[way][1]}")


# %% [markdown]
# ## 2. The training script
# What does communication cost? To find out, the script contains two training steps. In the first
# one, Horovod averages the gradients. The second one is its **control**: the same step with a plain
# optimizer and a second network, and therefore without communication. If the step takes 25 ms and
# its control 20 ms, communication costs 5 ms. All ranks run both steps in turns, so that a
# disturbance slows a step and its control alike.
#
# We measure two kinds of scaling:
#
# - In *[weak scaling](../labs/GLOSSARY.md#weak-scaling)*, each rank has `images` images per step.
# - In *[strong scaling](../labs/GLOSSARY.md#strong-scaling)*, all ranks together have this number of images.
#
# Of the next two cells, read the one for the framework that you know, PyTorch ([lab 40](40_horovod_pytorch.ipynb)) or Keras
# ([lab 41](41_horovod_tensorflow.ipynb)). In both, `own` is the network whose gradients Horovod averages, and `twin` is the
# network of the control.
#
# The third cell contains `train`, which every rank runs. It times the step and the control, strong
# and weak, and then runs a few steps under Horovod's timeline. The exercises only use the results
# of `train`.
#
# <details><summary>What are <code>where</code> and <code>mixed</code>?</summary>
#
# The argument `where` knows on which device the tensors are, and stages them in the rare case that
# Horovod cannot ([lab 27](27_cuda_aware_mpi.ipynb)).
#
# On a GPU, both scripts compute in [bf16](../labs/GLOSSARY.md#bf16) ([lab 14](14_mixed_precision_and_memory.ipynb); `mixed` in PyTorch), while weights and gradients
# stay in 32 bits. The computation then takes less time but the messages do not, so communication
# becomes a larger share of the step.
# </details>

# %%
def torch_steps(where, pictures, labels):
    """The step with Horovod, its control, and the bytes of the gradients: in PyTorch."""
    import horovod.torch as hvd
    import torch

    # Only the images are channels last: Horovod refuses weights and gradients that are.
    layout = torch.channels_last if bits == "bf16" else torch.contiguous_format
    own = lab46.in_torch(kind_of_net).to(where.device)
    twin = lab46.in_torch(kind_of_net).to(where.device)
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
kind_of_net = lab46.chosen(net, framework)
bits = lab46.chosen_precision(precision, framework)
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
# Each way starts its own ranks, with the build and the variables printed above. A single rank runs
# first, because section 4 compares several ranks with one. This takes half a minute to a minute,
# and the cell only prints which runs are done. Section 3 checks which library was at work before
# section 4 looks at the times.

# %%
runs = {}  # (name of the way, ranks) -> what rank 0 brought home
for way, (build, variables) in plans.items():
    file = own_folder() / f"timeline_46_{way.name.replace(', ', '_').replace(' ', '_')}.json"
    sizes = [ranks]
    if not runs and not world.launcher():  # a job has as many ranks as it has
        sizes = [1, ranks]
    for size in sizes:
        by_rank = launch.run(
            train,
            file,
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
# Did each job use the library that it asked for? Not necessarily. If the model was never moved to
# the GPU, or if a variable is missing, the job still runs, but its numbers are those of another
# library.
#
# The proof is Horovod's [timeline](https://horovod.readthedocs.io/en/stable/timeline_include.html), its record of what happened to each tensor,
# and when ([lab 42](42_horovod_mvapich2_gdr.ipynb)). labkit's reader extracts the library calls from the timeline, in order. Here is
# a call with two *fused* gradients, which are combined into one message:
#
#     call.backend   "NCCL"               # or "MPI" or "GLOO"
#     call.tensors   ["fc2", "fc1"]       # which were processed together
#     call.seconds   0.003                # of the call, not of each tensor
#
# The function `carriers` counts these calls for each library, as you did in [lab 42](42_horovod_mvapich2_gdr.ipynb), and adds up
# their seconds. It only counts calls with **a gradient**, because ranks also average their [loss](../labs/GLOSSARY.md#loss),
# and rank 0 sends its weights at the start. If the call above were the only one in a step,
# `carriers` would return `{"NCCL": (1.0, 0.003)}`: one call and 0.003 seconds per step.

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
# The small network has 4 layers with one weight and one bias each, so 8 gradients. Its backward
# pass takes about 20 ms and begins with the last layer. This is roughly when the two gradients of
# each layer are ready:
#
# | layer | second linear | first linear | second convolution | first convolution |
# |---|---|---|---|---|
# | ready after | 0.2 ms | 2 ms | 12 ms | 20 ms |
#
# Horovod's background thread wakes up every millisecond and fuses all gradients that are ready into
# one call. About how many calls does a step have? (On GPUs `auto` is ResNet-50, which has other
# gradients, so your prediction is only compared with the small network.)

# %%
predict("46.1", calls_a_step=...)


# %% [markdown]
# The next cells print a line for each way, with these columns:
#
# - *allreduce by* is the library according to the timeline, in which host MPI and CUDA-aware MPI
#   have the same name, "MPI".
# - *calls a step* and *ms in them* (the time of these calls per step) come from `carriers`.
# - *staged* distinguishes both kinds of MPI on GPUs. It does not come from the timeline, but from
#   the device of the tensors and Horovod's build ([lab 42](42_horovod_mvapich2_gdr.ipynb)).
# - *as asked?* compares the line with this table:
#
# | library | *allreduce by* | *staged* on GPUs |
# |---|---|---|
# | host MPI | MPI | through the host |
# | Gloo | GLOO | through the host |
# | CUDA-aware MPI | MPI | no |
# | NCCL | NCCL | no |
#
# On a laptop there is nothing to stage, so a line for host MPI says `[MPI]`, "no", and "yes".

# %%
def proof_of(library, watched, staged):
    """A line of the table: which library performed the allreduces, and was it the one asked for?"""
    proof = carriers(watched.calls, watched.gradients, watched.steps)
    calls = sum(count for count, _ in proof.values())
    milliseconds = 1e3 * sum(seconds for _, seconds in proof.values())
    return {
        "allreduce by": sorted(proof),
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
    print("One rank needs no allreduce: start two ranks.")
first = next(iter(ran))  # the first way that ran: host MPI, where it can run at all
if kind_of_net == "small":
    predict.compare("46.1", calls_a_step=proofs[first]["calls a step"])


# %% [markdown]
# Does the proof detect a mistake? As a control, we use Gloo once more, but without its variable. (A
# batch job leaves this run out.)

# %%
def watch_only(comm, file):
    """On every rank: steps under a timeline, and nothing else."""
    return lab46.watch(comm, framework, partial(steps_of, comm, "weak"), watched_steps, file)


# %%
if not world.launcher():
    file = own_folder() / "timeline_46_forgotten.json"
    watched = launch.run(watch_only, file, ranks=ranks, threads=1, horovod="host", timeout=limit)[0]
    staged = ran[first].place["staged"]
    print(pd.DataFrame({"Gloo, forgotten": proof_of("Gloo", watched, staged)}).T)

# %% [markdown]
# **Explain.** *The library.* For the watched steps, each line with "yes" proves that this library,
# and no other, performed the allreduces. The timed steps ran in the same processes, with the same
# build and variables. For host MPI, the timeline does not say which MPI it was, but section 2
# printed which MPI started the ranks.
#
# *The control* ran without an error, too. Only its timeline shows that MPI did the work and that
# the times are not those of Gloo.
#
# *The calls.* In the table of the prediction, no two layers become ready in the same millisecond,
# so one would expect 4 calls per step. With the small network you should see between 2 and 4. There
# can be fewer than 4, because the thread does not look for gradients while a call is in progress,
# and then fuses all that became ready in the meantime. The mean does not need to be a whole number,
# because chance decides which gradients are ready when the thread wakes up.
#
# ## 4. Images per second
# Now that we know which library did the work, what did its communication cost? A report needs three
# numbers:
#
# - **Images per second**: the number of images of *all* ranks in a step, divided by the seconds of
#   the step.
# - **Efficiency**: the images per second of p ranks, divided by p times those of one rank. If 1
#   rank processes 100 images per second and 4 ranks process 300, the efficiency is 300/400 = 75 %.
#   If the smallest job has several ranks, those of one rank are the job's images per second divided
#   by its number of ranks.
# - **Share of communication**: the part of a step that is saved if the gradients are not averaged.
#   A step of 50 ms whose control takes 40 ms has a share of 20 %.
#
# The share comes from the control and not from the timeline, because the timeline's calls can run
# while the [backward pass](../labs/GLOSSARY.md#backward-pass) still computes, and then cost no additional time.
#
# ### Predict
# Suppose that in weak scaling each of two ranks computes for 20 ms on 32 images, and in strong
# scaling for half of this time on 16 images. Averaging the gradients adds 4 ms to each step. What
# is the share of communication in weak scaling, and in strong scaling? Write numbers between 0 and
# 1. The measurement below shows how your machine differs from these assumptions.

# %%
predict("46.1", share_weak=..., share_strong=...)


# %% [markdown]
# ### Exercise 46.1 · The three numbers of a report
# *(The exercise to do in the track "PPoPP hands-on, 90 minutes".)* Write three functions, of one to
# three lines each. `np.median(values)` is the median of an array, and arithmetic with arrays works
# element by element. *(intermediate)*
#
# - `images_per_second(images_by_rank, seconds)`: `images_by_rank` is a list of the number of images
#   of each rank in a step, and `seconds` is an array with one value for each timed step. Divide by
#   the median of `seconds`. For `[32, 16]` and steps of 0.1, 0.9 and 0.2 s, return 48/0.2 = 240.
# - `efficiency(rates)`: `rates` is `{ranks: images per second of the job}`, in any order. Return
#   `{ranks: efficiency}`, where the smallest number of ranks has efficiency 1.0. For
#   `{2: 180, 4: 270}`, return `{2: 1.0, 4: 0.75}`.
# - `share(step, alone)`: both are arrays of seconds, where `step[i]` and `alone[i]` were measured
#   directly after each other. Compute the share of communication **of each pair**, and return the
#   median of these shares, which may be negative. For steps of 0.05 and 0.1 s with controls of 0.04
#   and 0.09 s, the shares are 0.2 and 0.1, so return 0.15.
#
# <details><summary>Hint 1: images per second</summary>
#
# The job processes `sum(images_by_rank)` images per step, and a step takes `np.median(seconds)`.
# </details>
# <details><summary>Hint 2: efficiency</summary>
#
# With `fewest = min(rates)`, one rank of the smallest job processes `rates[fewest] / fewest` images
# per second. On p ranks, p times this rate would be perfect.
# </details>
# <details><summary>Hint 3: the share</summary>
#
# For one pair, communication adds `step - alone` to a step of length `step`. NumPy computes this
# for all pairs at once: `1 - alone / step`. Then take `np.median`.
# </details>

# %%
def images_per_second(images_by_rank, seconds):
    """images_by_rank: images in a step, of each rank. seconds: array, of each step. Returns a
    float."""
    raise NotImplementedError("exercise 46.1: The three numbers of a report")


def efficiency(rates):
    """rates: {ranks: images per second of the whole job}. Returns {ranks: efficiency}."""
    raise NotImplementedError("exercise 46.1: The three numbers of a report")


def share(step, alone):
    """step, alone: arrays of seconds, in pairs. Returns the share of communication in a step."""
    raise NotImplementedError("exercise 46.1: The three numbers of a report")


# %%
# Asked: Images of all ranks, by the median; any fewest ranks; the median of the
# pairs' shares.
check("46.1", images_per_second, efficiency, share)


# %% [markdown]
# The next cells apply your functions to the measured times. First comes a table with a line for
# each way, then a plot that shows what a step consists of in weak scaling, with the single rank as
# its first bar. The last cell prints the efficiency of the first way.

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
        took = run.times[kind]["step"]
        if not took.steady:
            print(f"{name}, {kind}: {took.verdict}")
        measured = {"images_per_second": speed, "share": part}
        settings = {"framework": framework, "net": kind_of_net, "precision": bits}
        lab46.keep(name, kind, run, proofs[name], images, **measured, **settings)
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
if 1 in rates:
    print(f"{first}, weak scaling: efficiency of {ranks} ranks {efficiency(rates)[ranks]:.0%}")
if kind_of_net == "small" and ranks == 2:
    predict.compare(
        "46.1", share_weak=results[first]["weak"][1], share_strong=results[first]["strong"][1]
    )

# %% [markdown]
# **Explain.** *The two shares.* With the assumed times, the share is 4/24 = 17 % in weak scaling
# and 4/14 = 29 % in strong scaling. You should also see a larger share in strong scaling, because
# each rank computes half as many images but sends the same number of bytes.
#
# *The bars.* Each bar has three parts:
#
# - *Computing* is the step without Horovod. On two ranks it can take longer than on one, because
#   the ranks might share the memory's [bandwidth](../labs/GLOSSARY.md#bandwidth), or the two [hyper-threads](../labs/GLOSSARY.md#hyper-threads) of one core.
# - *Horovod's thread* is the time by which the control becomes longer while Horovod runs and has
#   nothing to send. Once per millisecond, Horovod's background thread asks the other ranks whether
#   a gradient is ready. If the ranks have no spare core, the thread takes time from the
#   computation. (The control without Horovod was timed later, so believe this part only if it is
#   still there when you repeat the measurement.)
# - *Communication* is the time by which a step is longer than its control. Within one machine, host
#   MPI sends through shared memory, and Gloo sends through TCP.
#
# Which of these parts would a faster library make shorter?
# <details><summary>Answer</summary>
#
# Communication. The middle part is Horovod's own time, which depends on the library only because
# libraries differ in how their ranks wait.
# </details>
#
# If you see a negative share, or a line "do not quote", the times vary too much to show what
# communication costs, probably because other programs compute on this machine. (A part that came
# out negative is missing in its bar.) Repeat the measurement of section 2 when the machine is idle.
#
# ### What a GPU cluster adds
# How much can the choice matter on a cluster? Horovod's authors measured 16 GPUs in 4 servers with
# links of 25 Gb/s ([README of September 2017](https://github.com/horovod/horovod/blob/d54e3a88/README.md)). The next cell prints their images
# per second, and the efficiency that your function computes from them. Here *host* is what they
# call "allreduce on CPU". With [RDMA](../labs/GLOSSARY.md#RDMA) (remote direct memory access), the [NIC](../labs/GLOSSARY.md#NIC) (network interface card)
# accesses the memory of another server without that server's CPU.

# %%
for line in lab46.published():
    share_of_ideal = efficiency({1: line.one_gpu, line.gpus: line.images})[line.gpus]
    print(f"{line!s:38} {line.images:7.1f} images/s, efficiency {share_of_ideal:.0%}")

# %% [markdown]
# **Explain.** Compare the four lines of each model:
#
# | model | gradients | computation | efficiency |
# |---|---|---|---|
# | Inception V3 | 95 MB | 476 ms | 93 to 96 % with all libraries |
# | VGG-16 | 553 MB | 489 ms | 85 % with NCCL over RDMA, 29 to 30 % with the host |
#
# The choice hardly matters for Inception V3, but it does for VGG-16, which sends far more for about
# the same computation. Therefore ask first how much a model sends for the time that it computes.
#
# ## 5. A step between two bounds
# Can we predict the time of a step before we run it? Suppose that a step computes for 20 ms and
# that its communication takes C = 8 ms. The gradients of the last layers are sent while the first
# layers still compute, so the backward pass *hides* a part of C. This gives two bounds:
#
# - **All hidden**: a step takes as long as the longer of computation and C, here 20 ms.
# - **Nothing hidden**: a step takes as long as both together, here 28 ms.
#
# The [forward pass](../labs/GLOSSARY.md#forward-pass) cannot hide communication. If C is longer than the backward pass, a step is
# therefore somewhat longer than the bound *all hidden* even if everything that can be hidden is
# hidden.
#
# ### How long do the bytes take?
# Long vectors are added in a ring or, as in MPICH, by recursive halving and doubling ([lab 24](24_trees_and_halving.ipynb)). In
# both, each of p ranks sends 2 (p − 1)/p times the bytes of the gradients. If a byte takes β
# seconds on the link, and no other rank uses this link, these bytes take
#
# $$2\,\frac{p - 1}{p} \cdot \text{bytes} \cdot \beta$$
#
# For example, 4 MB at β = 1 ns per byte take 4 ms, so 4 ranks need 1.5 · 4 ms = 6 ms.
#
# ### Predict
# VGG-16 has 553 MB of gradients, and a step on one GPU takes 489 ms. Over links of 25 Gb/s, a byte
# takes β = 0.32 ns.
#
# - `all_hidden`, `nothing_hidden`: how many milliseconds does a step on 16 GPUs take if all
#   communication is hidden, and if nothing is hidden?
# - `share_hidden`: the measured step with NCCL over RDMA took 573 ms. What share of the
#   communication, between 0 and 1, was hidden, if NCCL used the whole bandwidth of the links?

# %%
predict("46.2", all_hidden=..., nothing_hidden=..., share_hidden=...)

# %%
(rdma,) = [line for line in lab46.published("vgg16") if line.carrier == "NCCL over RDMA"]
sending = 2 * 15 / 16 * rdma.nbytes * rdma.beta  # seconds
predict.compare(
    "46.2",
    all_hidden=1e3 * max(rdma.alone, sending),
    nothing_hidden=1e3 * (rdma.alone + sending),
    share_hidden=1 - (rdma.step - rdma.alone) / sending,
)


# %% [markdown]
# **Explain.** *The bounds.* The bytes take 2 · 15/16 · 553 MB · 0.32 ns = 332 ms, so a step takes
# between 489 ms and 489 + 332 = 821 ms.
#
# *The share.* In the measured step, only 573 − 489 = 84 of the 332 ms are visible, so 75 % of the
# communication was hidden.
#
# ### Each call costs time, too
# For VGG-16 we counted only bytes. With a small network like ours, the calls matter more, because
# each call adds two costs:
#
# - A **wait** w: Horovod's thread looks for ready gradients only every millisecond, and the ranks
#   then have to agree on them. On the kit's machine an allreduce of 1 KiB took a few microseconds
#   with MPI alone and 1.07 ms with Horovod, so we take w = 1 ms.
# - The **latency** α of its messages. On p = 2, 4, 8, … ranks, recursive halving and doubling sends
#   2 log₂ p messages, one after another.
#
# For example, a call on 4 ranks sends 2 log₂ 4 = 4 messages. With α = 10 µs, 2 calls cost
# 2 · (1 ms + 4 · 10 µs) = 2.08 ms. Together with the 6 ms for the bytes above, C = 8.08 ms. In
# general
#
# $$C = \text{calls} \cdot (w + 2 \log_2 p \cdot \alpha) + 2\,\frac{p - 1}{p} \cdot \text{bytes} \cdot \beta$$
#
# This C is rather too large, because a gradient that becomes ready at a random moment waits only
# half a millisecond on average.
#
# ### Exercise 46.2 · From the link to the step
# Write `bounds(alone, calls, nbytes, p, wait, alpha, beta)`. The argument `alone` is the number of
# seconds of the step without communication, and the other arguments are those of C. The number of
# calls is a mean over several steps, so it can be a fraction such as 2.8. Return the time of a step
# in seconds: `(all hidden, nothing hidden)`.
#
# For the example above, if a step alone takes 0.02 s, the call is
# `bounds(0.02, 2, 4_000_000, 4, 1e-3, 1e-5, 1e-9)`. It returns 0.02 and 0.02808.
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
    raise NotImplementedError("exercise 46.2: From the link to the step")


# %%
# Asked: The longer one of computing and communication, and their sum, on 2, 4,
# 8 or 16 ranks.
check("46.2", bounds)

# %% [markdown]
# How would your own step do on servers with links of 25 Gb/s? The next cell predicts it from the
# computation, calls and bytes that you measured today, with w = 1 ms and α = 10 µs. For example, a
# step that computes for 20 ms and sends 4.3 MB in 3 calls has C = 5.8 ms on 16 servers. If nothing
# is hidden, its efficiency is 20/25.8 = 77 %.

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

# %% [markdown]
# Do measured steps keep to their bounds? The next cell draws the published runs of two models. Here
# C is only the time of the bytes, without w and α. Each bar reaches from *all hidden* to *nothing
# hidden*, in multiples of the step of one GPU, and the mark is the published step. The bar of
# VGG-16, for example, reaches from 489/489 = 1 to 821/489 = 1.68.

# %%
there = {}
for line in [*lab46.published("vgg16"), *lab46.published("inception_v3")]:
    low, high = bounds(line.alone, 0, line.nbytes, line.gpus, 0, 0, line.beta)
    there[str(line)] = (low / line.alone, high / line.alone, line.step / line.alone)
lab46.draw_bounds(there, title="Only the host's steps of VGG-16 lie far outside their bounds")

# %% [markdown]
# **Explain.** Look at the four rows of VGG-16, which have the same bar:
#
# - **NCCL over RDMA** is in the left part, with 573 ms. Most of its communication is hidden,
#   probably because the NIC moves the bytes while the GPU computes.
# - **NCCL over TCP** is near the right end, with 782 ms. Either hardly any communication is hidden,
#   or TCP does not reach 25 Gb/s. The position in the bar cannot distinguish these two causes.
# - **The host** is far beyond its bar, with 1.66 s. Something that C leaves out costs time.
#
# The four steps of Inception V3 are inside their bars, which are short because this model sends
# little for its computation.
#
# What might C leave out on the host?
# <details><summary>Answer</summary>
#
# Three causes are likely, although we did not measure them:
#
# - Staging copies 553 MB to host memory and back, on four GPUs at once.
# - The CPUs have to add the gradients.
# - C assumes that no other rank uses a rank's link, while the four ranks of a server share one. In
#   a ring in the order of the servers, such as NCCL's, only one of them sends to the next server.
#   Other allreduces add the gradients inside each server first ([lab 26](26_hierarchical_allreduce.ipynb)).
# </details>
#
# ### What you take away
# - Horovod's controller negotiates, and its backend, possibly another library, performs the
#   allreduce. The build, the environment variables and the device of the tensors determine the
#   backend.
# - Without a proof, you do not know to which library a measured number belongs.
# - A report contains images per second, the efficiency, which needs a baseline, and the share of
#   communication, which needs a control.
# - A step lies between two bounds if C is right. Its position between them shows how much
#   communication the backward pass hides.
#
# [Lab 51](51_mpi_against_nccl.ipynb) asks which library is best for which message size, and whether one runtime could do all of
# it.
#
# ## Going further (optional): the same script as a batch job (4 minutes)
# A process can load only one build of Horovod, so each library gets its own job, which runs while
# you read on. The batch script is the same for all of them:
#
#     make submit LAB=46 NODES=2 HOROVOD=host
#     make submit LAB=46 NODES=2 HOROVOD=mpi       # the site's CUDA-aware MPI, as MVAPICH2-GDR
#     make submit LAB=46 NODES=2 HOROVOD=nccl      # MPI starts the ranks and negotiates
#     make scaling LAB=46 NODES=1,2,4 HOROVOD=nccl
#
# With MVAPICH2-GDR, a site file with `LABKIT_MPI=mvapich2-gdr` sets its variables before MPI
# starts. To set them yourself, add `ENV="MV2_USE_CUDA=1 MV2_SUPPORT_DL=1"`. (MVAPICH-Plus has
# `MVP_ENABLE_GPU=1` instead.)
#
# If you have no cluster, `make tabletop BANDWIDTH=1gbit` creates one of two nodes on this machine.
#
# The next cell shows what your most recent job measured, or the kit's reference if you have none.
# The column *share* is the share of communication in a step, and *carried_by* is the library
# according to the timeline.

# %%
frame, whose = cluster.records_or_reference("46")
columns = ["result", "ranks", "images_per_second", "share", "carried_by", "staged"]
between_nodes = frame[(frame["nodes"] > 1) & frame["result"].str.match("weak |strong ")]
print(
    f"On several nodes ({whose}):", between_nodes[columns].round(2).to_string(index=False), sep="\n"
)

# %% [markdown]
# **Explain.** The kit's reference is from a tabletop with 1 Gb/s, over which 4.3 MB take at least
# 34 ms. No library can change that. To find the time that communication added to a step, multiply
# the share by the time of the step, as here for weak scaling with 64 images:
#
# | library | images per second | step | share | added to the step |
# |---|---|---|---|---|
# | Gloo | 432 | 148 ms | 38 % | 56 ms |
# | MPICH | 345 | 186 ms | 57 % | 106 ms |
#
# The time beyond the 34 ms is not necessarily the library's own time, because the two nodes of a
# tabletop share one machine's cores. And a part of the 34 ms can be hidden, as in section 5. So
# measure on a real cluster before you choose between libraries there.
#
# With Gloo and MVAPICH2 the share is larger in strong scaling, as section 4 explains, but not with
# MPICH (57 % weak, 55 % strong). The likely reason is that the ranks of a tabletop also wait for
# cores.
#
# ### Further reading
# - A. Awan, J. Bédorf, C. Chu, H. Subramoni and D. Panda, *[Scalable Distributed DNN Training using TensorFlow and CUDA-Aware MPI](https://arxiv.org/abs/1810.11112)*, CCGRID, 2019. The paper compares Horovod over MVAPICH2-GDR and over NCCL, as this lab does.
# - A. Sergeev and M. Del Balso, *[Horovod: fast and easy distributed deep learning in TensorFlow](https://arxiv.org/abs/1802.05799)*, 2018. Horovod's authors on efficiency with many GPUs, with and without RDMA.
# - [Horovod with MPI](https://horovod.readthedocs.io/en/stable/mpi_include.html). Which variables Horovod reads when it runs with MPI.
# - [Horovod on GPU](https://horovod.readthedocs.io/en/stable/gpus_include.html). The builds of Horovod for NCCL and for CUDA-aware MPI.
# - R. Thakur, R. Rabenseifner and W. Gropp, *[Optimization of Collective Communication Operations in MPICH](https://doi.org/10.1177/1094342005051521)*, International Journal of High Performance Computing Applications 19(1), 2005. The source of the cost formula for recursive halving and doubling.
