# %% [markdown]
# <!-- Generated from solutions/20_ranks_and_messages.py by `make labs`. Learners work on a copy in work/. -->
# # 20 Ranks and messages
#
# Training on many devices is one program, started many times, whose copies talk: here you let them
# talk.
#
# **You will be able to** (1) write a program whose ranks do different things, (2) read a deadlock
# message and cure it, (3) compute while a message travels, and say what that gains, (4) say what a
# short and a long message cost here. Two parts at the end are for those who have time: they are not
# in the minutes.
#
# Needs: mpi · Ranks: 4 · Minutes: 60 · Level: beginner · Before: 00

# %%
import time
from functools import partial

import numpy as np
from labkit import check, errors, expect, hint, lab, launch, plots, predict, record, timing, world
from sklearn.datasets import load_sample_image

lab.start("20_ranks_and_messages")

# %% tags=["parameters"]
few = 10  # values in a short message, 8 bytes each
many = 1_000_000  # values in a long message (8 MB)
patience = 20  # seconds after which a check calls a program stuck
blur_steps = 40  # how often the photograph of 20.3 is blurred
late_runs = 15  # how often each way is timed when a neighbour is late
sizes = (8, 64, 512, 4096, 32768, 262144, 2097152, 8388608)  # bytes per message in the measurement


# %% [markdown]
# ### Meet the ranks
# A *rank* is one running copy of the program: a process with a memory of its own. All ranks run the
# same code. What differs is `comm.rank`, a number from 0 to `comm.size - 1`. `comm` is the
# *communicator*: the group of ranks that can talk to each other.
#
# They talk by *messages*. There are two kinds of calls:
#
# | to send | to receive | carries |
# |---|---|---|
# | `comm.send(thing, dest=1)` | `thing = comm.recv(source=0)` | any Python object, packed and unpacked |
# | `comm.Send(array, dest=1)` | `comm.Recv(array, source=0)` | the memory of a NumPy array, as it is: fast |
#
# With capital letters the receiver must bring an array of that length and dtype, and `Recv` fills
# it.
#
# `launch.run(function, ranks=4)` starts four processes, runs `function(comm)` in each, and returns
# their four results in a list. What a rank prints appears after its number: `[1] hello`.
#
# Messages from one rank to another arrive in the order in which they were sent.

# %%
def meet(comm):
    # Across ranks: the same code everywhere, so each rank asks who it is.
    if comm.rank == 0:
        comm.send("the first letter", dest=1)
        comm.send("the second letter", dest=1)
    if comm.rank == 1:
        print("I open", comm.recv(source=0))
        print("I open", comm.recv(source=0))
    return f"I am rank {comm.rank} of {comm.size}"


launch.run(meet, ranks=4)

# %% [markdown]
# ### Predict
# Four ranks in a ring. Rank 0 sends the number 0 to its right neighbour, rank 1. Every other rank
# adds its own rank to what arrives and passes the sum on. What arrives at rank 0 in the end? After
# how many messages?

# %%
predict("20.1", arrives_at_rank_0=..., messages=...)


# %% [markdown]
# ### Exercise 20.1 · Pass a token round the ring
# Write this for any number of ranks, with `send` and `recv`. The right neighbour of the last rank
# is rank 0. **Return what arrived**, on every rank: 0 on rank 1, 0 + 1 on rank 2, 0 + 1 + 2 on
# rank 3. Each rank sends one message and receives one. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: who starts?</summary>
#
# If every rank receives first, nobody ever sends. Rank 0 must send first, so there are two cases:
# `if comm.rank == 0:` and all others.
# </details>
# <details><summary>Hint 2: what does each do?</summary>
#
# Rank 0 sends, then receives. All others receive, then send: what they got plus their own rank.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# Rank 0: `comm.send(0, dest=right)`, then `return comm.recv(source=left)`. The others: `token =
# comm.recv(source=left)`, send `token + comm.rank` to `right`, return `token`.
# </details>

# %%
def pass_token(comm):
    """Send a token once round the ring. Returns, on every rank, the number that arrived there."""
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    if comm.size == 1:
        return 0  # alone, there is nobody to send to
    raise NotImplementedError("exercise 20.1: Pass a token round the ring")


# %%
# Asked: The right number on 1 to 5 ranks, by one message from each.
check("20.1", pass_token)


# %% [markdown]
# ### Predict
# Two ranks swap vectors, and **both send first**, then both receive. Does that end (1) or hang (0),
# with 10 values, and with a million? Here is the program; guess before you run the next two cells.

# %%
def both_send_first(comm, length):
    own = np.full(length, comm.rank)
    theirs = np.empty(length, int)
    partner = 1 - comm.rank
    comm.Send(own, dest=partner)
    comm.Recv(theirs, source=partner)
    return f"rank {comm.rank} holds {theirs[0]}"


predict("20.2", ends_with_10=..., ends_with_a_million=...)


# %%
def ends(length):
    """Run both_send_first with so many values. Returns 1 if it ends within 3 s, 0 if it hangs."""
    try:
        print(f"{length} values:", launch.run(both_send_first, length, ranks=2, timeout=3))
    except errors.RankFailed as stuck:
        print(f"{length} values:", stuck)
        return 0
    return 1


ended = {"ends_with_10": ends(few)}
if world.launcher() is None:  # under mpiexec or srun the hang would take the whole job with it
    ended["ends_with_a_million"] = ends(many)
predict.compare("20.2", **ended)


# %% [markdown]
# **Explain.** That was a *deadlock*. The message names the line of the cell in which each rank
# waits.
#
# What happened? MPI has two ways to send. A short message is put aside for the receiver, in a
# buffer of MPI's, and `Send` returns at once: it is *eager*. A long message stays with the sender
# until the receiver asks for it, and until then `Send` does not return: that is called
# *rendezvous*. With a million values both ranks wait in `Send`, so neither reaches the `Recv` for
# which the other one waits.
#
# A program that needs eager messages passes the small test and hangs with the real model. There are
# two cures. An *order*: half of the ranks receive first. Or *one call that does both*, and leaves
# the order to MPI:
#
#     comm.Sendrecv(own, dest=2, recvbuf=theirs, source=7)  # own goes to rank 2, theirs is filled by rank 7
#
# ### Exercise 20.2 · Everyone to the right
# Every rank gives its vector to its right neighbour and returns what comes from the left, for
# vectors of any length and for any number of ranks. With one rank, left and right are the rank
# itself. A plain `Send` to oneself may hang, in some MPIs however short it is: nobody else can call
# the `Recv`. 1 to 6 lines. *(beginner)*
#
# <details><summary>Hint 1: which cure?</summary>
#
# `Sendrecv` needs no order, and a rank may even send to itself with it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(own, dest=…, recvbuf=theirs, source=…)`: to the right, from the left.
# </details>

# %%
def shift_right(comm, own):
    """Give `own` to the right neighbour. Returns the left neighbour's, of the same length."""
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    theirs = np.empty_like(own)
    raise NotImplementedError("exercise 20.2: Everyone to the right")
    return theirs


# %%
# Asked: The left neighbour's vector, short or long, with 1 to 5 ranks.
check("20.2", shift_right)


# %% [markdown]
# ### A message that you need not wait for
# `Isend` and `Irecv` take the same arguments as `Send` and `Recv`. The I stands for *immediate*:
# they only start a message and return a *request*. `request.Wait()` ends it. Between the two you
# may compute.
#
# **Until its `Wait`, the array belongs to MPI:** do not read what is being received, do not write
# what is being sent.

# %%
def swap(comm):
    own = np.full(3, comm.rank)
    theirs = np.empty(3, int)
    # Across ranks: both start both messages, so no order can block.
    receiving = comm.Irecv(theirs, source=1 - comm.rank)
    sending = comm.Isend(own, dest=1 - comm.rank)
    elsewhere = sum(range(10))  # this needs neither array
    receiving.Wait()
    sending.Wait()
    return elsewhere, theirs


launch.run(swap, ranks=2)


# %% [markdown]
# ### Exercise 20.3 · Compute while messages travel
# A picture that is too large for one device is cut into strips of rows, one per rank. A blur
# replaces each row by the mean of three rows: itself, the one above and the one below. At a strip's
# edges one of the three lives on another rank. The copy of such a foreign row is called a *halo*.
#
# | this rank's strip | what its blur needs |
# |---|---|
# | `strip[0]` | the halo `above`, which is the last row of the rank `up` |
# | `strip[1]` to `strip[-2]`, the *inside* | nothing from others |
# | `strip[-1]` | the halo `below`, which is the first row of the rank `down` |
#
# Below, the first lines start to receive both halos, and the last ones compute the two edge rows.
# Between them you write three things:
#
# 1. Start to send your own edge rows, `strip[0]` to `up` and `strip[-1]` to `down`. Their requests
#    go into the list `pending`, to the two that are in it.
# 2. While all four messages travel, compute the inside, `new[1:-1]`. The rows above it are
#    `strip[:-2]`, the rows below it `strip[2:]`.
# 3. Wait for all four.
#
# `MPI.PROC_NULL` is the neighbour beyond the picture's edge. A message to it or from it ends at
# once and changes nothing, so no case of its own is needed. About 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: the two sends</summary>
#
# `pending += [comm.Isend(strip[0], dest=up), …]`, and the other one in the same way.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `new[1:-1] = (strip[:-2] + strip[1:-1] + strip[2:]) / 3`, then
# `for request in pending: request.Wait()`.
# </details>

# %%
def blur(comm, strip):
    """One blur step. strip: this rank's rows of the picture, 2 or more. Returns the new strip."""
    from mpi4py import MPI

    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    above = strip[0].copy()  # at the picture's edge a row is its own neighbour
    below = strip[-1].copy()
    new = np.empty_like(strip)
    # Across ranks: both halos are asked for. Until the Waits these two arrays belong to MPI.
    pending = [comm.Irecv(above, source=up), comm.Irecv(below, source=down)]
    raise NotImplementedError("exercise 20.3: Compute while messages travel")
    new[0] = (above + strip[0] + strip[1]) / 3
    new[-1] = (strip[-2] + strip[-1] + below) / 3
    return new


# %%
# What your function blurs, whole and in strips.
photo = load_sample_image("china.jpg").mean(axis=2)  # 427 rows of 640 grey values

# %%
# Asked: The blur of the whole photo, also where half of the ranks are late;
# calls that do not block, each waited for; and all of the inside computed while
# all four are under way.
check("20.3", blur)

# %% [markdown]
# ### Measure: what does overlap gain?
# Rank 1 comes late: it sleeps as long as rank 0 needs to compute. Rank 0 blurs a large strip in two
# ways: by your `blur`, and by `blur_late`, which differs in one thing: it exchanges its halos
# first, by blocking calls. As a control, rank 0 without any neighbour.
#
# ### Predict
# Computing takes 1, the neighbour is late by 1. How long does rank 0 take, in this unit, with
# blocking calls, and with yours?

# %%
predict("20.3", blocking=..., yours=...)


# %%
def blur_late(comm, strip):
    """The blur with blocking calls: first the halos, then all rows."""
    from mpi4py import MPI

    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    above = strip[0].copy()
    below = strip[-1].copy()
    new = np.empty_like(strip)
    comm.Sendrecv(strip[0], dest=up, recvbuf=below, source=down)
    comm.Sendrecv(strip[-1], dest=down, recvbuf=above, source=up)
    new[1:-1] = (strip[:-2] + strip[1:-1] + strip[2:]) / 3
    new[0] = (above + strip[0] + strip[1]) / 3
    new[-1] = (strip[-2] + strip[-1] + below) / 3
    return new


# %%
def time_when_late(comm):
    """Seconds of rank 0, `late_runs` of each way."""
    from mpi4py import MPI

    strip = np.tile(photo, (6, 1))
    alone = timing.measure(partial(blur, MPI.COMM_SELF, strip), seconds=0.5)
    late = comm.bcast(alone.median, root=0)
    seconds = {"no neighbour": alone}
    for name, way in (("late, blocking calls", blur_late), ("late, your blur", blur)):
        seconds[name] = []
        for _ in range(late_runs):
            comm.Barrier()  # Across ranks: both begin together
            if comm.rank == 1:
                time.sleep(late)
            start = time.perf_counter()
            way(comm, strip)
            seconds[name].append(time.perf_counter() - start)
    return seconds


waits = launch.run(time_when_late, ranks=2)[0]
plots.spread(waits, title="Overlap hides waiting", xlabel="rank 0's time")
alone, blocking, yours = (timing.quartiles(row)[0] for row in waits.values())
record.add("late neighbour", alone_s=alone, blocking_s=blocking, yours_s=yours, **record.BY_MPI)
predict.compare("20.3", blocking=blocking / alone, yours=yours / alone)

# %% [markdown]
# **Explain.** You should see: with blocking calls rank 0 first waits and then computes, about 2.
# Your blur computes in that time, and takes hardly more than the control. That is what non-blocking
# calls are for: they hide *waiting*. You may see instead: all three wide and near each other. Then
# most likely other programs keep the cores busy; run the cell again. Or yours takes about 2, too:
# where this MPI sends a row, 5,120 bytes, by rendezvous, it may move only when rank 1 waits for it.
#
# Does overlap also hide the time of *moving* a long message? <details><summary>Answer</summary>
# Only if somebody else moves it. A network card can. Between two ranks on one machine it is a core
# that copies, and it is yours, inside a call of MPI. [Lab 32](32_buckets_and_overlap.ipynb) measures that.</details>
#
# ### Measure: what does a message cost?
# Two ranks play *ping-pong*: one sends, the other sends back. Half a round trip is one message.
# Guess: how many µs do 8 bytes take, and how many GB/s do 8 MB reach?

# %%
predict("20.3", short_us=..., long_GB_per_s=...)


# %%
def ping_pong(comm):
    def round_trip(ball):
        if comm.rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
        else:
            comm.Recv(ball, source=0)
            comm.Send(ball, dest=0)

    trips = {}
    for nbytes in sizes:
        call = partial(round_trip, np.zeros(nbytes, np.uint8))
        # Across ranks: comm= starts both together and counts the slower; `batch` round trips make
        # one sample.
        trips[nbytes] = timing.measure(call, comm=comm, batch=10 if nbytes <= 4096 else 1)
    return trips


trips = launch.run(ping_pong, ranks=2)[0]
for nbytes, trip in trips.items():
    record.add("ping-pong", bytes=nbytes, round_trip=trip, **record.BY_MPI)
    print(
        f"{nbytes:>9} bytes: {trip.median / 2 * 1e6:10.2f} µs",
        "" if trip.steady else "  (not steady)",
    )
halves = {nbytes: trip.samples / 2 for nbytes, trip in trips.items()}
plots.bandwidth(
    {"median, middle half": halves}, title="A short message costs latency, a long one bandwidth"
)
short = trips[sizes[0]].median / 2
long = trips[sizes[-1]].median / 2
predict.compare("20.3", short_us=short * 1e6, long_GB_per_s=sizes[-1] / long / 1e9)


# %% [markdown]
# **Explain.** You should see: at first the time hardly depends on the length. That part is the
# *latency*. Then it grows with the length, by seconds per byte; their inverse is the *bandwidth*.
# You may see instead: a bandwidth that falls again for the longest messages. Likely causes: they do
# not fit into the processor's cache, or other programs use the memory too.
#
# A point is the median of many samples, and its bar holds the middle half of them. Where the bar is
# long, the line says *not steady* ([lab 01](01_time_it_properly.ipynb)). Such a number is not to be quoted.
#
# Between two machines a message may take 2 µs and 12 GB/s. Which of the two numbers decides for one
# number, which for a gradient of 100 MB? <details><summary>Answer</summary> One number of 8 bytes
# needs 2 µs, nearly all of it latency. 100 MB need 8,300 µs for their bytes, and the 2 µs do not
# count.</details>
#
# ## For those who have time
# Two parts of about 15 minutes, which are not in the lab's 60. Lab 22 compares with the eager
# limit, if you have measured it.
#
# ### What are halos good for?
# The same blur, 40 times, on 4 ranks: once with neighbours, and once with each rank alone, as a
# control. Where two strips meet, a row should differ from the next no more than elsewhere.

# %%
def blur_often(comm):
    together = np.array_split(photo, comm.size)[comm.rank]
    apart = together
    # Across ranks: a communicator for each by itself, so no neighbours.
    nobody = comm.Split(comm.rank)
    for _ in range(blur_steps):
        together = blur(comm, together)
        apart = blur(nobody, apart)
    return together, apart


strips = launch.run(blur_often, ranks=4)
curves = {}
for column, name in ((1, "each rank alone"), (0, "with halos")):
    picture = np.concatenate([pair[column] for pair in strips])
    curves[name] = abs(np.diff(picture, axis=0)).mean(axis=1)
plots.lines(
    curves,
    xlabel="row of the photo",
    ylabel="difference from the next row (grey values)",
    title="Without halos the strips' borders show",
)


# %% [markdown]
# **Explain.** Four strips have three borders, near rows 107, 214 and 320. Without halos the curve
# jumps there: both sides were blurred as if the picture ended. With halos no border can be seen.
# Far from the borders the two curves agree.
#
# ### Measure: the eager limit
# 80 bytes were eager, 8 MB were not. Where is the limit? `is_eager` tries one size: rank 0 starts
# an `Isend`, and asks the request with `Test()` whether it is over. `Test` is a `Wait` that does
# not wait: it returns True or False. Rank 1 calls its `Recv` only after that.
#
# Two messages are then on their way to rank 1, and it wants the second one first. So each has a
# *tag*, a number on the envelope: `comm.recv(source=0, tag=2)` takes the message with tag 2.
#
# `largest` finds the limit by *bisection*. It knows a size that is eager, `low`, and one that is
# not, `high`. It tries the middle: whatever the answer, one of the two moves there, and the
# distance is halved. It goes on until they are neighbours. `holds(n)` answers for n.

# %%
def largest(holds, low, high):
    """The largest n for which holds(n) is true. It is for `low`, and is not for `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def is_eager(comm, nbytes):
    """Does rank 0's send of so many bytes end before rank 1 asks for it? The same answer on both
    ranks."""
    message = np.zeros(nbytes, np.uint8)
    if comm.rank == 0:
        sending = comm.Isend(message, dest=1, tag=1)
        time.sleep(0.002)
        over = sending.Test()
        comm.send(over, dest=1, tag=2)
        sending.Wait()
    else:
        # Across ranks: the other message lies there, not asked for.
        over = comm.recv(source=0, tag=2)
        comm.Recv(message, source=0, tag=1)
    return over


def eager_limit(comm):
    if comm.rank > 1:
        return None
    return largest(partial(is_eager, comm), 8 * few, 8 * many)


limit = launch.run(eager_limit, ranks=2)[0]
print(f"Up to {limit:,} bytes are eager here.")
record.add("eager limit", bytes=limit, **record.BY_MPI)
if world.launcher() is None:
    for length in (limit // 8, limit // 8 + 1):
        ends(length)

# %% [markdown]
# **Explain.** The last two lines are the control: `both_send_first` with as many values as fit into
# the limit ends, with one value more it hangs. The limit belongs to this MPI, to its settings and
# to the way between the two ranks: over a network it is another. So no program may depend on it.
# (Under `mpiexec` or `srun` the two lines are left out: a hang would take the whole job with it.)
#
# Why is not every message eager?
# <details><summary>Answer</summary> An eager message is copied twice, into a buffer of MPI's and out of it,
# and the buffer takes memory for every sender. For long messages asking first is cheaper.</details>
#
# ### What you take away
# - All ranks run the same program; `comm.rank` decides who does what; only messages cross between
#   memories.
# - A program that works because its messages are short is a deadlock in waiting: use `Sendrecv`, or
#   an order.
# - `Isend` and `Irecv` let you compute instead of waiting. Until `Wait`, hands off the buffers.
# - A message costs a fixed latency plus bytes over bandwidth: few long ones beat many short ones.
# - Next: lab 21 builds the collectives, such as the allreduce that averages gradients, from these
#   calls.
