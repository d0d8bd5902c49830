# %% [markdown]
# <!-- Generated from solutions/36_progress.py by `make labs`. Learners work on a copy in work/. -->
# # 36 Progress
#
# [Lab 32](32_buckets_and_overlap.ipynb) launches an [allreduce](../labs/GLOSSARY.md#allreduce) during the [backward pass](../labs/GLOSSARY.md#backward-pass) and continues to compute, in the hope that
# the allreduce runs in the background. Often it does not. A library for [MPI](../labs/GLOSSARY.md#MPI) (Message Passing
# Interface) needs processor time to move data, and by default it has that time only while your own
# process is inside an MPI call.
#
# While your process computes, the allreduce therefore hardly advances, and nearly all of its time
# is spent in `Wait`. The program is correct and looks as if it overlapped communication with
# computation, but it is no faster.
#
# In this lab we find out what moves a message while a [rank](../labs/GLOSSARY.md#rank) computes, move it ourselves with `Test`,
# and measure what that gains, on this machine and over a slow link.
#
# **After this lab you can** (1) explain why an operation that was launched may make no progress,
# (2) make progress with `Test`, often enough, and (3) distinguish what overlap gains on your
# machine from what it gains over a slow link.
#
# ![Timelines of a backward pass and an allreduce: launched and left alone it makes one of four steps before Wait; with a Test after each layer all four are hidden](../notebooks/figures/36_progress.svg)
#
# *Without progress (top) the allreduce continues only in `Wait`, after the backward pass. With a
# `Test` after each layer (bottom) all four steps are hidden.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 30 · Level: advanced · Before: 23, 32

# %%
import numpy as np
from labkit import check, cluster, hint, lab, launch, plots, predict, record, world
from support import lab36

lab.start("36_progress")

# %% tags=["parameters"]
width = 256  # of the net timed on real ranks: 12 linear layers, most of width x width
repeat = 15  # steps of it in each way

# %% [markdown]
# ## What moves a message
# `comm.Iallreduce` returns at once. The work that remains, which moves the messages, is called
# **progress**. In MPI, it is usually done by **your own process, inside an MPI call**, and
# therefore not while PyTorch computes. The first row of the table is this usual case, and the
# other rows are the exceptions.
#
# | what makes progress while you compute | where |
# |---|---|
# | nothing until your next MPI call, apart from bytes that the kernel already has (see below) | MPICH and Open MPI, over TCP and between the ranks of one machine |
# | the network interface card (NIC), for parts of a message | InfiniBand and similar networks |
# | a separate thread | Horovod, NCCL between nodes, an MPI with asynchronous progress |
#
# One call is not enough, because an allreduce consists of many messages. The ring of [lab 23](23_ring_allreduce.ipynb) on *p*
# ranks has 2(*p* − 1) **steps**. In each step a rank sends one chunk of its vector, and it can send
# the next chunk only after it has received one.
#
# Over a network, the bytes that MPI has already given to the operating system's kernel or to the
# [NIC](../labs/GLOSSARY.md#NIC) travel by themselves. However, the next step begins only in an MPI call that finds that the
# previous step has completed.
#
# `request.Test()` is such a call. It asks whether the operation has completed, moves what can be
# moved at this moment, and never waits:
#
#     request = comm.Iallreduce(own, total)   # the first step begins
#     ...                                     # compute
#     request.Test()                          # begins the next step, if this one has completed
#     ...                                     # compute
#     request.Wait()                          # makes progress until all steps have completed
#
# ## A simple machine model
# We first count on four virtual ranks, which a simulator runs ([lab 23](23_ring_allreduce.ipynb)). On them a step begins only
# in an MPI call and then runs by itself for 10 ms.
#
# As an example, take an allreduce of three such steps and 30 ms of computation, with a `Test` after
# every 15 ms. It takes 40 ms, because each step has to wait for the next call:
#
# | ms | what happens |
# |---|---|
# | 0 | the launch begins step 1, which completes at 10 |
# | 15 | the first Test notices it and begins step 2, which completes at 25 |
# | 30 | the second Test notices it and begins step 3; the computation ends, and Wait follows |
# | 40 | step 3 completes |
#
# Without any Test, the same allreduce is *left alone*. It takes 50 ms, because only step 1 is
# hidden, and Wait begins step 2 at 30 ms and step 3 at 40 ms.
#
# ### Predict
# On four ranks an allreduce has 2 · 3 = 6 steps of 10 ms, so it takes 60 ms if the rank does
# nothing else. Each rank launches the allreduce, then computes for 60 ms, and then calls Wait. How
# many ms does this take, from the launch of the allreduce to the end of Wait,
#
# - without any MPI call during the computation? (The first step began with the launch.)
# - with a `Test` after every 20 ms of computation?
# - with a `Test` after every 4 ms? (A step that completes at 10 ms is noticed at 12 ms.)

# %%
predict("36.1", left=..., tested_every_20_ms=..., tested_every_4_ms=...)


# %% [markdown]
# ### Exercise 36.1 · Make progress
# Write `carry(requests)`, which gives **each** allreduce that has been launched a chance to make
# progress. It waits for none of them, and leaves the list `requests` as it is. It is called after
# every layer, and on the real ranks below after every [gradient](../labs/GLOSSARY.md#gradient). 2 lines. *(beginner)*
#
# For example, when three allreduces have been launched, one call of `carry` tests each of the three
# once. A `Test` of a completed allreduce does nothing, so you can test it again.
#
# <details><summary>Why test all of them?</summary>
#
# Some libraries, such as MPICH, move all messages in any call, and since version 4.1 the MPI
# standard demands this of every call that waits or tests. Earlier versions promise progress only
# for the operation that you test.
# </details>
#
# <details><summary>Hint 1: which call?</summary>
#
# `request.Test()` never waits, while `request.Wait()` does.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for request in requests:` and one line below it.
# </details>

# %%
def carry(requests):
    """requests: all allreduces launched so far. Lets each make progress, and waits for none."""
    raise NotImplementedError("exercise 36.1: Make progress")


# %%
# Asked: Every allreduce that was launched is tested once in every call, and
# none is waited for.
check("36.1", carry)


# %% [markdown]
# ### Measure: how often do you have to test?
# We run the allreduce and 60 ms of computation on the virtual ranks, first left alone, and then
# with `carry` after every 60, 30, 20, … ms. As a control, a third curve shows the time if something
# else moved the messages, which is 60 ms.

# %%
def leave(requests):
    """In place of carry: makes no progress."""


pauses = (60, 30, 20, 12, 10, 6, 5, 4, 3, 2, 1)  # ms of computing between two calls of carry
left = lab36.timed(leave, layers=15, layer_ms=4)
carried = {pause: lab36.timed(carry, layers=60 // pause, layer_ms=pause) for pause in pauses}

# %%
# The plot.
curves = {
    "left alone": dict.fromkeys(pauses, left),
    "with carry": carried,
    "something else moves the messages": dict.fromkeys(pauses, 60),
}
axes = {
    "xlabel": "ms of computing between two Tests",
    "ylabel": "computation and allreduce (ms)",
    "logx": True,
}
plots.lines(curves, title="About one Test per step hides most of the allreduce", **axes)
predict.compare("36.1", left=left, tested_every_20_ms=carried[20], tested_every_4_ms=carried[4])

# %% [markdown]
# **Explain.** The steps that are not hidden behind the 60 ms of computation take 10 ms each:
#
# | | hidden steps, of 6 | in all |
# |---|---|---|
# | left alone | 1 | 60 + 50 = 110 ms |
# | a Test every 20 ms | 3 | 60 + 30 = 90 ms |
# | a Test every 4 ms | 5 | 60 + 10 = 70 ms |
#
# A Test helps only after a step has ended, so the time depends on when the next Test comes:
#
# | ms between two Tests | what a step loses |
# |---|---|
# | 1, 2, 5, 10 | nothing, because a Test falls exactly on its end |
# | 3, 4, 6, 12 | 2 ms |
# | 20, 30, 60 | the time of one or more whole steps |
#
# **About one Test per step** is therefore enough. However, on fast links a step takes only
# microseconds, much less than a layer, so Tests between layers come too rarely.
#
# ## On real ranks
# Now two real ranks train a model of 12 linear layers with 2.7 MB of gradients. The lab chooses the
# number of images, at least 16, so that the backward pass takes about as long as the allreduce.
#
# ### Predict
# Let the allreduce take exactly as long as the backward pass, and the [forward pass](../labs/GLOSSARY.md#forward-pass) half as long as
# the backward pass. Compared with a training step that performs the allreduce at the end, how many
# times as fast is a training step whose allreduce is completely hidden behind the backward pass?

# %%
predict("36.1", at_best_times_as_fast=...)

# %% [markdown]
# ### Measure: here
# We time training steps of the kinds in the table below, which take turns. This takes about 10 s.
#
# | name | what it does | what makes progress |
# |---|---|---|
# | *arithmetic alone* | forward and backward pass | there is no communication |
# | *at the end* | one allreduce of all gradients, after the backward pass | Wait |
# | *launched, left* | an allreduce launched for each gradient, during the backward pass | the calls that launch others, Wait |
# | *launched, carried* | the same, and your `carry` after each gradient | Test |
# | *group of one, carried* | *launched, carried* in a group of one rank | there is nothing to move |
# | *allreduce alone* | one allreduce of all gradients, without arithmetic | Wait |
#
# The group of one rank is a control. It shows the cost of launching and carrying messages (copies
# and calls), but no gain.
#
# <details><summary>What if there are GPUs?</summary>
#
# The model is in host memory even then, because MPI's arrays are NumPy arrays here. Otherwise we
# would measure the copies from a GPU in the middle of the backward pass.
# </details>

# %%
ranks = launch.ranks_here(2)
times, what = launch.run(lab36.measure, carry, width, repeat, ranks=ranks, threads=1)[0]
print(f"{what['images']} images a rank, {what['bytes'] / 1e6:.1f} MB of gradients")
arithmetic, allreduce = (times[f"{part} alone"].median for part in ("arithmetic", "allreduce"))
print(f"completely hidden allreduce: {(arithmetic + allreduce) / arithmetic:.2f} times as fast")
for name, time in times.items():
    record.add("step", way=name, ranks=ranks, seconds=time, **what, **record.BY_MPI)
plots.spread(times, title=f"A step on {ranks} real ranks, on {world.cores()} cores")
predict.right("36.1", at_best_times_as_fast=2.5 / 1.5)

# %% [markdown]
# **Explain.** If the forward pass takes 0.5, the backward pass 1 and the allreduce 1, hiding the
# allreduce makes a training step 2.5 / 1.5 = 1.67 times as fast.
#
# The printed value for a *completely hidden allreduce* is this bound on your machine, computed from
# the medians of *arithmetic alone* and *allreduce alone*. It is smaller if the backward pass takes
# longer than the allreduce even with the minimum of 16 images.
#
# On a single machine you should see **no** gain and, if anything, a slower training step. Here a
# message is not bytes on a wire but a copy in memory. MPI makes this copy in your calls, on the
# core that also computes.
#
# *Launched, left* and *launched, carried* can even be slower than *at the end*. A likely reason is
# that they have 24 allreduces, for the weights and biases of 12 layers, instead of one, but this
# lab has no control for that.
#
# *Group of one, carried* shows what launches, copies and tests cost when there is no message at
# all. If two boxes overlap, or a box is marked "not steady", the plot cannot show differences of a
# few percent.
#
# ### Measure: over a slow link
# Between two nodes, the kernel and the NIC move bytes while your core computes. To measure this,
# `make submit LAB=36 NODES=2` runs the lab as a job on two nodes, which can be those of
# `make tabletop`, a small Slurm cluster on this machine. The next cell shows your most recent job,
# or, without a job, the reference measurement of this kit.

# %%
frame, whose = cluster.records_or_reference("36", "step")
rows = frame.groupby("way", sort=False).last().reindex(list(times))
lab36.draw_two_nodes(rows, whose)
gain = rows["seconds"]["at the end"] / rows["seconds"]["launched, carried"]
predict.compare("36.1", at_best_times_as_fast=gain)

# %% [markdown]
# **Explain.** The table shows the kit's reference, from two tabletop nodes with one rank each on a
# machine with two cores. The allreduce alone took 109 ms there for 2.7 MB, which is a link of about
# 200 Mb/s.
#
# | training step | ms | times as fast as *at the end* |
# |---|---|---|
# | arithmetic alone | 167 | |
# | at the end | 285 | 1 |
# | launched, left | 250 | 1.14 |
# | launched, carried | 214 | 1.33 |
# | bound: a completely hidden allreduce | | (167 + 109) / 167 = 1.65 |
#
# *Launched, left* and *launched, carried* launch the same allreduces after the same gradients, and
# differ only in the calls that make progress. Launching alone already gains something, probably
# because each call that launches an allreduce also moves the previous ones. Carrying gains about as
# much again.
#
# *Launched, carried* takes 47 ms more than the arithmetic. In the group of one, launches, copies
# and tests cost 7 ms. We have not measured the other reasons, but three are likely:
#
# - The last allreduces are launched when the backward pass is nearly over.
# - A step of an allreduce that completes between two gradients has to wait for the next Test.
# - The kernel needs time on the same cores to move the bytes.
#
# ### What you take away
# - An operation that has been launched does not necessarily make progress. MPI often moves messages
#   only in its calls, and a [collective](../labs/GLOSSARY.md#collective) needs a call for each of its steps.
# - Call Test in hooks, for *all* allreduces in flight, about once per step of the allreduce.
# - A separate thread can make progress, too, as in Horovod, but it needs time on a core.
# - On a single machine, messages are work for the cores, so measure overlap between nodes.
#
# ## Going further (optional): a thread that makes progress (3 minutes)
# Tests in hooks mean extra work for the programmer, and a long layer has no hook in the middle.
# Instead, a **thread** can call MPI every millisecond and sleep in between. The MPI libraries of
# this kit move *all* messages in *any* call, so a cheap call such as `comm.Iprobe()` is enough.
# (Two threads that call MPI need its highest [thread level](../labs/GLOSSARY.md#thread-level), `MULTIPLE`; see [lab 42](42_horovod_mvapich2_gdr.ipynb).)
#
# Such a thread has a cost, although it does almost nothing. If the rank has only one core, its two
# threads share this core. On any number of cores the threads also wait for each other at Python's
# lock, because only one thread runs Python at a time. This lab does not measure these costs.
#
# Horovod ([lab 40](40_horovod_pytorch.ipynb)) needs neither Test nor a thread in your code. Why?
# <details><summary>Answer</summary>
#
# Horovod starts this thread itself. In every cycle, by default once per millisecond, it looks for
# new gradients and calls MPI for them ([lab 44](44_timeline_and_fusion.ipynb)). Its thread is written in C++ and needs no Python
# lock, and on a cluster it gets its own core, which is why `--cpus-per-task` is more than 1 there
# (labs [13](13_cpu_threads_and_affinity.ipynb) and [42](42_horovod_mvapich2_gdr.ipynb)).
# </details>
#
# ### Further reading
# - T. Hoefler and A. Lumsdaine, *[Message Progression in Parallel Computing: To Thread or not to Thread?](https://doi.org/10.1109/CLUSTR.2008.4663774)*, IEEE Cluster, 2008. Whether a thread should make progress, with measurements.
# - [MPI: A Message-Passing Interface Standard](https://www.mpi-forum.org/docs/). The section on progress says what a library has to do, and when.
# - [MPICH](https://www.mpich.org). MPICH's documentation, including its options for asynchronous progress.
