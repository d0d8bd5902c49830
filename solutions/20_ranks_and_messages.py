# %% [markdown]
# # 20 Ranks and messages
#
# Training on many devices means that one program is started many times, and that its copies
# exchange data while they run. Such a program can fail in a way that no program for one device can:
# every copy waits for another, nothing is computed, and there is no error message. It can also be
# correct and still waste most of its time, because a processor that waits for a message does not
# compute. Both problems are easy to see with four small processes on one machine.
#
# In this lab we write programs whose ranks send messages to each other with MPI (Message Passing
# Interface). We pass a number around a ring, provoke a deadlock and fix it, compute while messages
# are in transit, and at the end measure what a short and a long message cost on this machine.
#
# **After this lab you can** (1) write a program whose ranks do different things, (2) read a
# deadlock message and fix the deadlock, (3) overlap computation with communication and explain what
# that gains, and (4) say what a short and a long message cost on your machine. An optional part at
# the end is not included in the minutes.
#
# ![Four ranks of one communicator, each with the same program and its own memory; an arrow shows a message from rank 0 to rank 1](20_ranks.svg)
#
# *Four ranks run the same program, each with its own memory. Only messages move data from one
# memory to another.*
#
# Needs: mpi · Ranks: 4 · Minutes: 55 · Level: beginner · Before: 00

# %%
import time
from functools import partial

import numpy as np
from labkit import check, errors, expect, hint, lab, launch, plots, predict, record, timing, world
from sklearn.datasets import load_sample_image
from support import lab20

lab.start("20_ranks_and_messages")

# %% tags=["parameters"]
few = 10  # values in a short message, 8 bytes each
many = 1_000_000  # values in a long message (8 MB)
patience = 20  # seconds after which a check calls a program stuck
late_runs = 15  # how often each way is timed when a neighbor is late
sizes = (8, 64, 512, 4096, 32768, 262144, 2097152, 8388608)  # bytes per message in the measurement

# %% [markdown]
# ## Meet the ranks
# A *rank* is one running copy of the program: a process with its own memory. All ranks run the same
# code. They differ only in `comm.rank`, a number from 0 to `comm.size - 1`. Here `comm` is the
# *communicator*, which is the group of ranks that can exchange messages.
#
# Ranks exchange data by *messages*. [mpi4py](@mpi4py), which is MPI for Python, has two kinds of
# calls for them:
#
# | to send | to receive | what is sent |
# |---|---|---|
# | `comm.send(thing, dest=1)` | `thing = comm.recv(source=0)` | any Python object, which is serialized and restored |
# | `comm.Send(array, dest=1)` | `comm.Recv(array, source=0)` | the memory of a NumPy array, without any conversion, which is fast |
#
# For the calls with a capital letter, the receiver has to provide an array of the same dtype, which
# is at least as long as the message. `Recv` then fills it.
#
# A receive waits until its message has arrived. Messages from one rank to another arrive in the
# order in which they were sent, as the next cell shows.
#
# As in lab 00, `launch.run(function, ranks=4)` runs `function(comm)` in four processes, shows the
# lines that they print with the rank's number in front, and returns the list of their results.


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
# Four ranks form a ring. Rank 0 sends the number 0 to its right neighbor, rank 1. Every other rank
# adds its own rank to the number that arrives, and sends the sum to its right neighbor. Which
# number arrives at rank 0 in the end, and after how many messages?

# %%
predict("20.1", arrives_at_rank_0=6, messages=4)

# %% [markdown]
# ### Exercise 20.1 · Pass a token round the ring
# Write this program for any number of ranks, with `send` and `recv`. About 6 lines. *(beginner)*
#
# - Each rank sends one message and receives one. The right neighbor of the last rank is rank 0.
# - **Return the number that arrived**, on every rank. For example, this is 0 on rank 1, 0 + 1 on
#   rank 2, and 0 + 1 + 2 on rank 3.
#
# <details><summary>Hint 1: who starts?</summary>
#
# If every rank receives first, no rank ever sends. Rank 0 must send first, so there are two cases:
# `if comm.rank == 0:` and all other ranks.
# </details>
# <details><summary>Hint 2: what does each rank do?</summary>
#
# Rank 0 sends and then receives. All other ranks receive and then send the number that they
# received plus their own rank.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# Rank 0: `comm.send(0, dest=right)`, then `return comm.recv(source=left)`. The others:
# `token = comm.recv(source=left)`, send `token + comm.rank` to `right`, return `token`.
# </details>


# %%
def pass_token(comm):
    """Send a token once round the ring. Returns, on every rank, the number that arrived there."""
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    if comm.size == 1:
        return 0  # alone, there is nobody to send to
    ### BEGIN SOLUTION
    # Across ranks: rank 0 starts the token and waits for it, the others receive before they send.
    if comm.rank == 0:
        comm.send(0, dest=right)
        return comm.recv(source=left)
    token = comm.recv(source=left)
    comm.send(token + comm.rank, dest=right)
    return token
    ### END SOLUTION


# %%
check("20.1", pass_token)

# %% [markdown]
# **Explain.** With four ranks, 0 + 1 + 2 + 3 = 6 arrives at rank 0, after four messages, one from
# each rank.
#
# ## A deadlock
# In the ring, rank 0 sends first and the others receive first. What happens if all ranks send
# first?
#
# ### Predict
# Two ranks exchange vectors. **Both send first**, and then both receive, as in the next cell. Does
# this program end (1) or hang (0) with 10 values, and with a million values?


# %%
def both_send_first(comm, length):
    own = np.full(length, comm.rank)
    theirs = np.empty(length, int)
    partner = 1 - comm.rank
    comm.Send(own, dest=partner)
    comm.Recv(theirs, source=partner)
    return f"rank {comm.rank} holds {theirs[0]}"


predict("20.2", ends_with_10=1, ends_with_a_million=0)


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
# **Explain.** The second run was a *deadlock*, in which each rank waits for the other, so neither
# of them can continue. The error message names the line of the cell in which each rank waits.
#
# The reason is that MPI libraries usually have two protocols for sending (the standard prescribes
# neither):
#
# - *Eager*: the library copies a short message into an internal buffer for the receiver, and `Send`
#   returns immediately.
# - *Rendezvous*: a long message stays with the sender until the receiver asks for it, and `Send`
#   does not return before that.
#
# ![Two sequence diagrams of a sender and a receiver. Left, eager: Send copies the message and returns at once. Right, rendezvous: Send waits until the receiver has called Recv](20_protocols.svg)
#
# *The two protocols for sending; time runs downward.*
#
# With a million values both ranks wait in `Send`, so neither of them reaches the `Recv` for which
# the other one waits. A program that relies on eager messages therefore passes the small test and
# hangs with the real model.
#
# There are two ways to fix such a deadlock. One is an *order*, in which some ranks send first and
# the others receive first. The other is *one call that sends and receives*, and leaves the order to
# MPI:
#
#     comm.Sendrecv(own, dest=2, recvbuf=theirs, source=7)  # own goes to rank 2, theirs is filled by rank 7
#
# ### Exercise 20.2 · Everyone to the right
# Every rank sends its vector to its right neighbor and returns the vector that comes from its left
# neighbor. 1 to 6 lines. *(beginner)*
#
# - Use the calls for arrays, which begin with a capital letter.
# - The function must work for vectors of any length and dtype, also where even a short `Send` waits
#   for its `Recv`, as the standard allows.
# - It must work for any number of ranks. A single rank is its own left and right neighbor. A plain
#   `Send` to itself can hang, because this rank cannot call `Recv` while it waits in `Send`.
#
# <details><summary>Hint 1: which fix?</summary>
#
# `Sendrecv` needs no order, and with it a rank can even send to itself.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(own, dest=…, recvbuf=theirs, source=…)` sends to the right and receives from the
# left.
# </details>


# %%
def shift_right(comm, own):
    """Give `own` to the right neighbor. Returns the left neighbor's, of the same length."""
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    theirs = np.empty_like(own)
    ### BEGIN SOLUTION
    # Across ranks: one call sends and receives, so no order of calls can block.
    comm.Sendrecv(own, dest=right, recvbuf=theirs, source=left)
    ### END SOLUTION
    return theirs


# %%
check("20.2", shift_right)

# %% [markdown]
# ## Messages that you don't need to wait for
# A rank that waits in `Send` or `Recv` does not compute. The **non-blocking** calls `Isend` and
# `Irecv` avoid this waiting (the I stands for *immediate*). They take the same arguments, but only
# start the message and return a *request*. Later, `request.Wait()` completes the message. Between
# the two calls the rank can compute.
#
# **Until its `Wait` returns, the array belongs to MPI.** Do not read an array that is being
# received, and do not write to an array that is being sent.
#
# In the next cell two ranks exchange vectors in this way. Each of them returns the sum that it
# computed in the meantime (45) and the vector that it received.


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
# An image that is too large for one device is partitioned into strips of rows, one per rank. A blur
# replaces each row by the mean of three rows: the row itself, the row above and the row below. For
# the two edge rows of a strip, one of these three rows is on another rank. The copy of such a row
# is called a *halo*.
#
# | this rank's strip | what its blur needs |
# |---|---|
# | `strip[0]` | the halo `above`, which is the last row of the rank `up` |
# | `strip[1]` to `strip[-2]`, the *inside* | no rows of other ranks |
# | `strip[-1]` | the halo `below`, which is the first row of the rank `down` |
#
# A step of the blur has five parts. The cell below contains the first and the last. Write the other
# three in place of the `raise` line (the lines below it stay):
#
# 1. *(given)* Start to receive both halos. The list `pending` contains the two requests.
# 2. Start to send your own edge rows, `strip[0]` to `up` and `strip[-1]` to `down`. Append their
#    requests to `pending`.
# 3. While all four messages (two to receive, two to send) are in transit, compute the inside,
#    `new[1:-1]`. The rows above it are `strip[:-2]`, and the rows below it are `strip[2:]`.
# 4. Wait for all four requests.
# 5. *(given)* Compute the two edge rows.
#
# `MPI.PROC_NULL` stands for the neighbor beyond the image's edge. A message to or from it completes
# immediately and changes nothing, so you don't need to treat this case separately. About 5 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: the two sends</summary>
#
# `pending += [comm.Isend(strip[0], dest=up), …]`, and the other send in the same way.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `new[1:-1] = (strip[:-2] + strip[1:-1] + strip[2:]) / 3`, then
# `for request in pending: request.Wait()`.
# </details>


# %%
def blur(comm, strip):
    """One blur step. strip: this rank's rows of the image, 2 or more. Returns the new strip."""
    from mpi4py import MPI

    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    above = strip[0].copy()  # at the image's edge a row is its own neighbor
    below = strip[-1].copy()
    new = np.empty_like(strip)
    # Across ranks: both halos are asked for. Until the Waits these two arrays belong to MPI.
    pending = [comm.Irecv(above, source=up), comm.Irecv(below, source=down)]
    ### BEGIN SOLUTION
    # Across ranks: send, compute what needs nobody, and wait for all four.
    pending += [comm.Isend(strip[0], dest=up), comm.Isend(strip[-1], dest=down)]
    new[1:-1] = (strip[:-2] + strip[1:-1] + strip[2:]) / 3
    for request in pending:
        request.Wait()
    ### END SOLUTION
    new[0] = (above + strip[0] + strip[1]) / 3
    new[-1] = (strip[-2] + strip[-1] + below) / 3
    return new


# %%
# What your function blurs, whole and in strips.
photo = load_sample_image("china.jpg").mean(axis=2)  # 427 rows of 640 gray values


# %%
check("20.3", blur)

# %% [markdown]
# ### Measure: what does overlap gain?
# In this measurement rank 1 sleeps for as long as rank 0 computes, so the rows of rank 1 arrive
# late. Rank 0 blurs a large strip in three ways:
#
# - with *no neighbor*, as the control;
# - with `blur_late`, which first exchanges its halos with blocking calls, and then computes;
# - with your `blur`.
#
# The two ways with a neighbor are timed 15 times each, and both ranks start together each time. The
# code is `time_when_late` in `labs/support/lab20.py`.
#
# ### Predict
# The computation takes 1 unit of time, and the neighbor is late by 1 unit. How many units does rank
# 0 take with blocking calls, and how many with your function?

# %%
predict("20.3", blocking=2.0, yours=1.0)


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
waits = launch.run(lab20.time_when_late, blur, blur_late, photo, late_runs, ranks=2)[0]
plots.spread(waits, title="Does overlap hide waiting?", xlabel="rank 0's time")
alone, blocking, yours = (timing.quartiles(row)[0] for row in waits.values())
record.add("late neighbour", alone_s=alone, blocking_s=blocking, yours_s=yours, **record.BY_MPI)
predict.compare("20.3", blocking=blocking / alone, yours=yours / alone)

# %% [markdown]
# **Explain.** The unit is the median of *no neighbor*. With blocking calls rank 0 first waits and
# then computes, so you should see about 2 units. Your blur computes while it waits, and should take
# hardly more than the control. Non-blocking calls can therefore hide *waiting*, which is their
# purpose.
#
# Your result may differ for two reasons:
#
# - *The distributions are wide, or your blur takes much more than 1 unit.* Other programs probably
#   keep the cores busy, so run the cell again.
# - *Your blur always takes about 2 units on a quiet machine.* This MPI might send a row of 5,120
#   bytes by rendezvous. Rank 1 then starts its send after 1 unit, computes for 1 unit, and moves
#   the row only in its `Wait`. (The optional part at the end measures up to which length a message
#   is eager.)
#
# Does overlap also hide the time that it takes to *move* a long message?
# <details><summary>Answer</summary>
#
# Only if something other than your core moves it. A network interface card can. Between two ranks
# on one machine a core has to copy the message, and this core is your own, inside a call of MPI.
# Lab 36 measures that.
# </details>
#
# ## Measure: what does a message cost?
# Two ranks play *ping-pong*: one sends a message, and the other sends it back. Half of such a round
# trip is the time of one message.
#
# ### Predict
# Between two machines of a cluster, a short message might take 2 µs, and a long one might reach
# 12 GB/s. On one machine, a core copies the message in memory instead. How many µs does a message
# of 8 bytes take between two ranks on this machine, and how many GB/s does a message of 8 MB reach?

# %%
predict("20.3", short_us=1.0, long_GB_per_s=5.0)

# %% [markdown]
# The next cell prints the time of one message for each size. It plots this time on the left, and
# the bytes per second on the right. In a batch job the two are ranks 0 and 1, which usually run on
# the same node. Lab 22 also measures messages between nodes.


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
    {"median, interquartile range": halves},
    title="A short message costs latency, a long one bandwidth",
)
short = trips[sizes[0]].median / 2
long = trips[sizes[-1]].median / 2
predict.compare("20.3", short_us=short * 1e6, long_GB_per_s=sizes[-1] / long / 1e9)

# %% [markdown]
# **Explain.** Each point is the median of many samples, and its bar spans the middle half of them
# (the *interquartile range*). A printed line says *not steady* (lab 01) where the bar is long, or
# where the last samples were slower or faster than the first. You should not quote such a number.
#
# You should see two parts of the curve:
#
# - For short messages the time hardly depends on the length. This time is the *latency*.
# - For longer messages the time grows by a certain number of seconds per byte. The inverse of this
#   number, in bytes per second, is the *bandwidth*.
#
# The bandwidth might fall again for the longest messages. A likely cause is that they do not fit
# into the processor's cache.
#
# Take the two machines of the prediction, with a latency of 2 µs and a bandwidth of 12 GB/s. Which
# of the two numbers matters for a message of 8 bytes, and which for a gradient of 100 MB?
# <details><summary>Answer</summary>
#
# The 8 bytes take 2 µs, nearly all of it latency. Transferring 100 MB takes 8,300 µs, so the
# latency of 2 µs does not matter.
# </details>
#
# ### What you take away
# - All ranks run the same program. `comm.rank` decides what each of them does, and only messages
#   move data from one memory to another.
# - A program that works only because its messages are short will hang with longer ones. Use
#   `Sendrecv`, or an order.
# - `Isend` and `Irecv` let a rank compute instead of waiting. Until `Wait` returns, do not touch
#   the buffers.
# - The time of a message is approximately a fixed latency plus its bytes divided by the bandwidth.
#   The same bytes therefore arrive sooner in a few long messages than in many short ones.
#
# Lab 21 builds collectives, such as the allreduce that averages gradients, from these calls.
#
# ## Going further (optional): the eager limit (15 minutes)
# In the deadlock section messages of 80 bytes were eager, and messages of 8 MB were not, so the
# limit is between them. This part measures the limit, which you can compare with a result of lab
# 22.
#
# The function `is_eager` tries one size. Its two messages are told apart by a *tag*, a number that
# is sent with a message. For example, `comm.recv(source=0, tag=2)` takes the message with tag 2.
#
# 1. Rank 0 starts an `Isend` of the message with tag 1.
# 2. After 2 ms, rank 0 asks the request with `Test()` whether the send has completed. (`Test`
#    returns True or False instead of waiting.)
# 3. Rank 0 sends this answer with tag 2.
# 4. Rank 1 receives the answer first, and only then the message with tag 1. An earlier `Recv` would
#    let even a rendezvous send complete.
#
# The function `largest` finds the limit by *bisection*. It starts with a size that is eager, `low`,
# and a size that is not, `high`. It tries the middle between them, which replaces `low` if it is
# eager and `high` if not, until `low` and `high` are neighbors.


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
# **Explain.** The last two printed results are the control: `both_send_first` ends with as many
# values as fit into the limit, and hangs with one value more. (The control is left out under
# `mpiexec` or `srun`.) The limit depends on this MPI library, on its settings and on the connection
# between the two ranks, so a program must not depend on it.
#
# Why is not every message eager?
# <details><summary>Answer</summary>
#
# An eager message is copied twice, into an internal buffer of MPI and out of it, and this buffer
# takes memory for every sender. For long messages it is cheaper to ask first.
# </details>
#
# ### Further reading
# - [@mpi4py] The tutorial of MPI for Python has an example of each call used here.
# - [@mpi_standard] The chapter on point-to-point communication defines when a send may wait
#   (*standard mode*), and what non-blocking calls guarantee.
# - [@osu_benchmarks] The programs `osu_latency` and `osu_bw` measure the same ping-pong, and their
#   results are published for most clusters.
# - [@hoefler2008] The paper asks which part of a system moves a message while your program
#   computes.
