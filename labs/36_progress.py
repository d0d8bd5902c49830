# %% [markdown]
# <!-- Generated from solutions/36_progress.py by `make labs`. Learners work on a copy in work/. -->
# # 36 Progress
#
# Lab 32 begins a sum and goes on computing. Has the sum begun? Here you find out who moves a
# message while you compute, move it yourself, and measure what that gains.
#
# **You will be able to** (1) say why a message that was begun may stand still, (2) move it on with
# `Test`, often enough, (3) tell what overlap gains on your machine from what it gains over a slow
# link.
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
# ## The letter in the out-tray
# `comm.Iallreduce` returns at once. Think of a letter that you have put into your out-tray. It
# leaves when somebody carries it to the post; from there it travels by itself. With MPI that
# somebody is mostly **your own process, inside a call of MPI**. While PyTorch computes, nobody
# carries letters. Who carries them, and when, is called **progress**.
#
# | moves messages while you compute | on |
# |---|---|
# | nobody, until the next call of MPI | MPICH and Open MPI over TCP, as here |
# | the network card, for parts of a message | InfiniBand and its like |
# | a thread of its own | Horovod, NCCL, an MPI with asynchronous progress |
#
# Why does one call not do? An allreduce is many messages. Lab 23's ring has 2(p - 1) **rounds**,
# and a rank can send its next chunk only when it has received one. The bytes of a round travel by
# themselves. But the next round begins in a call of MPI, which finds that the round before it is
# over.
#
# `request.Test()` is such a call. It asks "is it over?", carries what is there to carry, and never
# waits:
#
#     request = comm.Iallreduce(own, total)   # the first round begins
#     ...                                     # compute
#     request.Test()                          # begins the next round, if this one is over
#     ...                                     # compute
#     request.Wait()                          # carries until all rounds are over
#
# ## A machine to think with
# Four virtual ranks (lab 23), on which a round begins in a call only, and then runs by itself. A
# sum has 2 · 3 = 6 rounds of 10 ms: 60 ms, if one does nothing else. Each rank begins the sum, then
# computes for 60 ms, then calls Wait.
#
# ### Predict
# How many ms does that take, from the beginning of the sum to the end of Wait,
#
# - with no call of MPI while it computes? (The first round began with the sum.)
# - with a `Test` after every 20 ms of computing?
# - with a `Test` after every 4 ms? (A round that is over at 10 ms is found over at 12.)

# %%
predict("36.1", left=..., tested_every_20_ms=..., tested_every_4_ms=...)


# %% [markdown]
# ### Exercise 36.1 · Carry the letters
# Write `carry(requests)`. It will be called after every layer, with the list of sums that have been
# begun. It gives **each of them** a chance to move, and waits for none. (A `Test` of a sum that is
# over does nothing. MPICH moves all messages in any call; the standard promises it only for the one
# that is asked about.) 2 lines. *(beginner)*
#
# <details><summary>Hint 1: which call?</summary>
#
# `request.Test()` never waits. `request.Wait()` does.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for request in requests:` and one line below it.
# </details>

# %%
def carry(requests):
    """requests: the sums begun so far. Moves each on a little; waits for none. Returns nothing."""
    raise NotImplementedError("exercise 36.1: Carry the letters")


# %%
# Asked: Every sum that was begun is tested once in every call, and none is
# waited for.
check("36.1", carry)


# %% [markdown]
# ### Measure: how often must you look?
# The sum and 60 ms of computing, on the virtual ranks: left alone, then with `carry` after every
# 60, 30, 20, … ms. As a control, the time of both if somebody else moved the messages: 60 ms.

# %%
def leave(requests):
    """In place of carry: nobody moves them."""


pauses = (60, 30, 20, 12, 10, 6, 5, 4, 3, 2, 1)  # ms of computing between two calls of carry
left = lab36.timed(leave, layers=15, layer_ms=4)
carried = {pause: lab36.timed(carry, layers=60 // pause, layer_ms=pause) for pause in pauses}

# %%
# The plot.
curves = {
    "left alone": dict.fromkeys(pauses, left),
    "carried": carried,
    "moved by somebody else": dict.fromkeys(pauses, 60),
}
axes = {
    "xlabel": "ms of computing between two Tests",
    "ylabel": "computing and sum (ms)",
    "logx": True,
}
plots.lines(curves, title="Look once a round, or wait for the rounds", **axes)
predict.compare("36.1", left=left, tested_every_20_ms=carried[20], tested_every_4_ms=carried[4])

# %% [markdown]
# **Explain.** *Left alone*: one round of six hides behind computing. The other five take 50 ms
# more.
#
# With a Test after every 20 ms, three of the six rounds are hidden (left alone: one). With one
# after every 4 ms five of the six are, each a little late: a round of 10 ms is seen after 12, and
# the last begins when computing ends. (Where the pause divides 10 ms, as 5 does, a look comes just
# when a round is over; after 3, 4 or 6 ms it comes late. So the curve is jagged.) What counts is a
# look **at least once a round**. On fast links a round is microseconds long.
#
# ## On real ranks
# Two ranks, a net of 12 linear layers, 3 MB of gradients, and so many images that backward lasts as
# long as the sum. Forward is half as long as backward. (It takes 16 images at least. If the sum is
# very short, as in one machine's memory, backward therefore takes longer than the sum.)
#
# ### Predict
# Take the sum's time as 1. Then the arithmetic is 1.5, and a step with the sum at the end 2.5. How
# many times as fast is a step whose sum hides behind backward completely?

# %%
predict("36.1", at_best_times_as_fast=...)

# %% [markdown]
# ### Measure: here
# Steps of these kinds take turns, on nets in host memory. About 10 s. (They are in host memory also
# where there are GPUs: MPI's arrays are NumPy's here, and copies from a GPU in the middle of the
# backward pass would be what is measured.)
#
# | name | what it does | who moves the sums |
# |---|---|---|
# | *arithmetic alone* | forward and backward | there are none |
# | *at the end* | one sum of all gradients, after backward | Wait |
# | *begun, left* | a sum begun for each gradient, in backward | the calls that begin others, Wait |
# | *begun, carried* | the same, and your `carry` after each gradient | Test |
# | *nobody to talk to, carried* | *begun, carried* in a group of one rank | nothing to move |
# | *sum alone* | one sum of all gradients, and no arithmetic | Wait |
#
# The group of one rank is a control: it shows what beginning and carrying cost (copies and calls),
# not what they gain.

# %%
ranks = launch.ranks_here(2)
times, what = launch.run(lab36.measure, carry, width, repeat, ranks=ranks, threads=1)[0]
print(f"{what['images']} images a rank, {what['bytes'] / 1e6:.1f} MB of gradients")
for name, time in times.items():
    record.add("step", way=name, ranks=ranks, seconds=time, **what, **record.BY_MPI)
plots.spread(times, title=f"A step on {ranks} real ranks, on {world.cores()} cores")
predict.right("36.1", at_best_times_as_fast=2.5 / 1.5)

# %% [markdown]
# **Explain.** On one machine expect **no** gain, rather a loss. Here a message is no bytes on a
# wire. It is a copy in memory, which a core has to make: the same core that computes. There is
# nothing that somebody else could do meanwhile. "Begun" is even slower than "at the end". A likely
# reason is that it has 24 sums, of 12 layers' weights and biases, in place of one: there is no
# control for that here.
#
# Beside that the control shows what copies, begun sums and looks cost where there is no message at
# all. Where other programs run, the boxes overlap ("not steady"); then this plot says nothing about
# a few percent.
#
# ### Measure: over a slow link
# Between two nodes the kernel and the card carry bytes, while your core computes. This cell shows
# what your newest job has measured: `make submit LAB=36 NODES=2` runs the lab on two nodes, also on
# those of `make tabletop` (lab 00). Without a job it shows the kit's reference.

# %%
frame, whose = cluster.records_or_reference("36", "step")
rows = frame.groupby("way", sort=False).last().reindex(list(times))
lab36.draw_two_nodes(rows, whose)
gain = rows["seconds"]["at the end"] / rows["seconds"]["begun, carried"]
predict.compare("36.1", at_best_times_as_fast=gain)

# %% [markdown]
# **Explain.** Compare *begun, left* with *begun, carried*: the same sums, begun at the same
# moments. The difference is who moves them, and nothing else. In the kit's reference, half of what
# overlap gains is there when the sums are begun and left, probably because each call that begins a
# sum also moves those before it. Carrying gains the other half. The bound of the prediction is not
# reached. Two likely reasons, which we have not measured apart: the sum of the first layer comes
# last and hides behind nothing, and the bytes of a message cost the kernel time on the same cores.
#
# ## A thread that looks
# Tests in hooks are work for the programmer, and a long layer has no hook in its middle. So a
# **thread** can call MPI in their place, every millisecond, and sleep in between. The MPIs of this
# kit move *all* messages in *any* call, so a cheap one will do: `comm.Iprobe()` asks whether a
# message has come, and returns at once. (Two threads that call MPI need its highest thread level,
# `MULTIPLE`, which mpi4py asks for: lab 42.)
#
# Such a thread costs something, although it does next to nothing: it takes turns with the rank's
# own thread at the core, where a rank has only one, and at Python's lock, as only one thread runs
# Python at a time. Horovod (lab 40, to come) needs neither Test nor thread in your code. Why?
# <details><summary>Answer</summary>
#
# Horovod starts that thread. It looks once in a cycle, a millisecond unless told otherwise, for new
# gradients, and calls MPI for them (lab 44). Its thread is C++ and needs no Python lock, and on a
# cluster it gets a core of its own: this is why `--cpus-per-task` is more than 1 there (labs 13,
# 42).
# </details>
#
# ### What you take away
# - Begun is not under way. MPI may move messages in its calls only, and a collective needs a call
#   for each round.
# - Test in hooks, for *all* sums under way: at least once a round.
# - A thread can move them, too; it takes turns with your own at the core.
# - On one machine messages are work for the cores: overlap is measured between nodes.
