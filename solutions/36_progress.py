# %% [markdown]
# # 36 Progress
#
# Lab 32 begins a sum and goes on computing. Has the sum begun? Here you find out who moves a message while
# you compute, move it yourself, let a thread do it, and measure what each of them costs.
#
# **You will be able to** (1) say why a message that was begun may stand still, (2) move it on with `Test`,
# often enough, (3) let a thread move it, and say what it costs, (4) tell what overlap gains on your machine
# from what it gains over a slow link.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 40 · Before: 23, 32

# %%
import numpy as np
from labkit import check, hint, lab, launch, plots, predict
from support import lab36

lab.start("36_progress")

# %% tags=["parameters"]
width = 256  # of the net timed on real ranks: 12 linear layers, most of width x width
repeat = 15  # steps of it in each way
every = 0.001  # seconds between two looks of the thread in 36.3
patience = 60  # seconds after which a check calls the ranks stuck

# %% [markdown]
# ## The letter in the out-tray
# `comm.Iallreduce` returns at once. Think of a letter that you have put into your out-tray. It leaves when
# somebody carries it to the post; from there it travels by itself. With MPI that somebody is mostly **your
# own process, inside a call of MPI**. While PyTorch computes, nobody carries letters. Who carries them, and
# when, is called **progress**.
#
# | moves messages while you compute | on |
# |---|---|
# | nobody, until the next call of MPI | MPICH and Open MPI over TCP, as here |
# | the network card, for parts of a message | InfiniBand and its like |
# | a thread of its own | Horovod, NCCL, an MPI with asynchronous progress |
#
# Why does one call not do? An allreduce is many messages. Lab 23's ring has 2(p - 1) **rounds**, and a rank
# can send its next chunk only when it has received one. The bytes of a round travel by themselves. But the
# next round begins in a call of MPI, which finds that the round before it is over.
#
# `request.Test()` is such a call. It asks "is it over?", carries what is there to carry, and never waits:
#
#     request = comm.Iallreduce(own, total)   # the first round begins
#     ...                                     # compute
#     request.Test()                          # begins the next round, if this one is over
#     ...                                     # compute
#     request.Wait()                          # carries until all rounds are over
#
# ## A machine to think with
# Four virtual ranks (lab 23), on which a round begins in a call only, and then runs by itself. A sum has
# 2 · 3 = 6 rounds of 10 ms: 60 ms, if one does nothing else. Each rank begins the sum, then computes for 60
# ms, then calls Wait.
#
# ### Predict
# How many ms does that take, from the beginning of the sum to the end of Wait,
#
# - with no call of MPI while it computes? (The first round began with the sum.)
# - with a `Test` after every 20 ms of computing?
# - with a `Test` after every 4 ms? (A round that is over at 10 ms is found over at 12.)

# %%
predict("36.1", left=120, tested_every_20_ms=60, tested_every_4_ms=60)

# %% [markdown]
# ### Exercise 36.1 · Carry the letters
# Write `carry(requests)`. It will be called after every layer, with the list of sums that have been begun.
# It gives **each of them** a chance to move, and waits for none. (A `Test` of a sum that is over does
# nothing. MPICH moves all messages in any call; the standard promises it only for the one that is asked
# about.) 2 lines. *(beginner)*
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
    ### BEGIN SOLUTION
    for request in requests:
        request.Test()
    ### END SOLUTION


# %%
check("36.1", carry)

# %% [markdown]
# ### Measure: how often must you look?
# The sum and 60 ms of computing, on the virtual ranks: left alone, then with `carry` after every 60, 30,
# 20, … ms. As a control, the time of both if somebody else moved the messages: 60 ms.


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
axes = {"xlabel": "ms of computing between two Tests", "ylabel": "computing and sum (ms)", "logx": True}
plots.lines(curves, title="Look once a round, or wait for the rounds", **axes)
predict.compare("36.1", left=left, tested_every_20_ms=carried[20], tested_every_4_ms=carried[4])

# %% [markdown]
# **Explain.** *Left alone*: one round of six hides behind computing. The other five take 50 ms more.
#
# With a Test after every 20 ms, three of the six rounds are hidden (left alone: one). With one after every 4
# ms five of the six are, each a little late: a round of 10 ms is seen after 12, and the last begins when
# computing ends. (Where the pause divides 10 ms, as 5 does, a look comes just when a round is over; after 3,
# 4 or 6 ms it comes late. So the curve is jagged.) What counts is a look **at least once a round**. On fast
# links a round is microseconds long.
#
# ### Exercise 36.2 · How long will it take?
# Write a function that predicts the curve. Computing is `layers` layers of `layer_ms` each, with a Test after
# each of them. The sum has `rounds` rounds of `round_ms` each; the first begins at 0. A round that is over at
# the very moment of a Test is seen by it. After the last layer comes Wait. 6 to 8 lines. *(intermediate)*
#
# Follow one round: it **arrives** `round_ms` after it began. The next begins at the first Test at or after
# that. If there is no such Test, computing is over before it arrives: Wait is there and begins the next at
# once.
#
# <details><summary>Hint 1: a loop over rounds</summary>
#
# `now = 0` is when the round under way began. For each round: `arrives = now + round_ms`, and then
# the `now` of the next. The Tests are at `layer_ms * k`, k from 1 to `layers`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `later = [test for test in tests if test >= arrives]`. If there are some, `now = later[0]`, else `now =
# arrives`. At the end return `max(now, layers * layer_ms)`.
# </details>


# %%
def step_ms(layers, layer_ms, rounds, round_ms):
    """Milliseconds from the beginning of the sum to the end of Wait."""
    ### BEGIN SOLUTION
    end = layers * layer_ms
    tests = [layer_ms * number for number in range(1, layers + 1)]
    now = 0
    for _ in range(rounds):
        arrives = now + round_ms
        later = [test for test in tests if test >= arrives]
        now = later[0] if later else arrives
    return max(now, end)
    ### END SOLUTION


# %%
check("36.2", step_ms)

# %% [markdown]
# ## A thread that looks
# Tests in hooks are work for the programmer, and a long layer has no hook in its middle. So let a **thread**
# call MPI. The MPIs of this kit move *all* messages in *any* call, so a cheap one will do: `comm.Iprobe()`
# asks whether a message has come, and returns at once. (Two threads that call MPI need its highest thread
# level, `MULTIPLE`, which mpi4py asks for: lab 42.)
#
# A thread must be told when to end. `over` is a `threading.Event`, a flag that another thread raises:
#
#     over.wait(seconds)   # sleeps so long, or until the flag is up; returns True if it is up
#
# ### Exercise 36.3 · Look until it is over
# Write `look_until`, which runs in the thread: a call of `comm.Iprobe()` every `every` seconds, until
# `over` is raised. In between it must **sleep**: a thread that only asks takes a core of its own. 2 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: sleep and ask in one</summary>
#
# `over.wait(every)` sleeps, and tells whether it is time to end.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `while not over.wait(every):` and one line below it.
# </details>


# %%
def look_until(comm, over, every):
    """Calls MPI every `every` seconds until `over` is raised."""
    ### BEGIN SOLUTION
    while not over.wait(every):
        comm.Iprobe()
    ### END SOLUTION


# %%
check("36.3", look_until)

# %% [markdown]
# ## On real ranks
# Two ranks, a net of 12 linear layers, 3 MB of gradients, and so many images that backward lasts as long as
# the sum. Forward is half as long as backward.
#
# ### Predict
# Take the sum's time as 1. Then the arithmetic is 1.5, and a step with the sum at the end 2.5. How many times
# as fast is a step whose sum hides behind backward completely?
#
# And the looking thread, if there is nothing to carry: by how many percent does it lengthen the arithmetic?
# (A guess.)

# %%
predict("36.3", at_best_times_as_fast=1.67, thread_costs_percent=5)

# %% [markdown]
# ### Measure: here
# Steps of these kinds take turns. About a minute.
#
# | name | what it does | who moves the sums |
# |---|---|---|
# | *arithmetic alone* | forward and backward | there are none |
# | *at the end* | one sum of all gradients, after backward | Wait |
# | *begun, left* | a sum begun for each gradient, in backward | the calls that begin others, Wait |
# | *begun, carried* | the same, and your `carry` after each layer | Test |
# | *begun, thread* | the same, beside your `look_until` | the thread |
# | *nobody to talk to, carried* | *begun, carried* in a group of one rank | nothing to move |
# | *nobody to talk to, thread* | *arithmetic alone*, beside your `look_until` | there are none |
#
# The last two are controls: they show what carrying costs, not what it gains.

# %%
ranks = launch.ranks_here(2)
times, what, where = launch.run(
    lab36.measure, carry, look_until, width, repeat, every, ranks=ranks, threads=1
)[0]

# %%
# The plot, the records.
lab36.show(times, what, where, ranks)
median = {name: time.median for name, time in times.items()}
cost = 100 * (median["nobody to talk to, thread"] / median["arithmetic alone"] - 1)
predict.right("36.3", at_best_times_as_fast=2.5 / 1.5)
predict.compare("36.3", thread_costs_percent=cost)

# %% [markdown]
# **Explain.** On one machine expect **no** gain, rather a loss. Here a message is no bytes on a wire. It is a
# copy in memory, which a core has to make: the same core that computes. There is nothing that somebody else
# could do meanwhile. "Begun" is even slower than "at the end". A likely reason is that it has 24 sums, of 12
# layers' weights and biases, in place of one: there is no control for that here.
#
# Beside that you may see the cost of looking in the two controls. Where other programs run, the boxes overlap
# ("not steady"); then this plot says nothing about a few percent.
#
# ### Measure: over a slow link
# Between two nodes the kernel and the card carry bytes, while your core computes. With `make tabletop` (lab
# 00) this cell submits a job that runs the same measurement on two nodes. Else it shows the kit's
# reference.

# %%
seconds, whose = lab36.over_slow_link(repeat)
print(f"{whose}:")
bars = {}
for name, row in seconds.items():
    bars[name.replace(" ", "\n")] = {"step": [1e3 * value for value in row]}
if bars:
    title = "Two nodes: what was begun must be carried, too"
    plots.bars(bars, ylabel="ms", title=title, name="two nodes")

# %%
# The same in numbers.
median = {name: np.median(row) for name, row in seconds.items()}
if median:
    for name in ("at the end", "begun, left", "begun, carried", "begun, thread"):
        exposed = median[name] - median["arithmetic alone"]
        print(f"{name:>15}: {1e3 * median[name]:6.0f} ms, of which {1e3 * exposed:4.0f} ms are not hidden")
    thread = median["nobody to talk to, thread"] - median["arithmetic alone"]
    print(f"the thread, with nothing to carry, costs {1e3 * thread:.0f} ms")
    gain = median["at the end"] / median["begun, carried"]
    predict.compare("36.3", at_best_times_as_fast=gain)

# %% [markdown]
# **Explain.** Compare *begun, left* with *begun, carried*: the same sums, begun at the same moments. The
# difference is who moves them, and nothing else. You should see that most of what overlap gains is gained
# by carrying. The bound of the prediction is not reached. Two likely reasons, which we have not measured
# apart: the sum of the first layer comes last and hides behind nothing, and the bytes of a message cost the
# kernel time on the same cores.
#
# The thread moves messages about as well as Test does. What does it cost? Look at *nobody to talk to,
# thread*, and at the measurement on one machine above. Where ranks are as many as cores it can cost more
# than it gains. Why does a thread that does next to nothing cost anything?
# <details><summary>Answer</summary>
#
# It may take turns with the rank's own thread at two places; these bars do not tell which. One is the core,
# where a rank has only one: every millisecond it changes hands, there and back. The other is Python's lock:
# only one thread runs Python at a time. A hook that wants to begin a sum waits until the looking thread gives
# the lock back. Horovod's thread is C++ and needs no Python lock, and on a cluster it gets a core of its own:
# this is why `--cpus-per-task` is more than 1 there (labs 13, 42).
# </details>
#
# Horovod (lab 40, to come) needs neither Test nor thread in your code. Why?
# <details><summary>Answer</summary>
#
# Horovod starts that thread. It looks once in a cycle, a millisecond unless told otherwise, for new
# gradients, and calls MPI for them (lab 44).
# </details>
#
# ### What you take away
# - Begun is not under way. MPI may move messages in its calls only, and a collective needs a call for each
#   round.
# - Test in hooks, for *all* sums under way: at least once a round.
# - A thread moves them, too. A control in which it has nothing to move shows what it costs.
# - On one machine messages are work for the cores: overlap is measured between nodes.
