# %% [markdown]
# # 20 Ranks and messages
#
# Training on many devices is one program, started many times, whose copies talk: here you let them talk.
#
# **You will be able to** (1) write a program whose ranks do different things, (2) read a deadlock message and
# cure it, (3) compute while messages travel, (4) say what a short and a long message cost here.
#
# Needs: mpi · Ranks: 4 · Minutes: 35 · Before: -

# %%
import time
from functools import partial

import numpy as np
from labkit import check, errors, expect, hint, lab, launch, plots, predict, record, timing, world
from labkit.counting import CallLog, on_every_size
from sklearn.datasets import load_sample_image

lab.start("20_ranks_and_messages")

# %% tags=["parameters"]
few = 10  # values in a short message, 8 bytes each
many = 1_000_000  # values in a long message (8 MB)
patience = 10  # seconds after which a check calls a program stuck
blur_steps = 40  # how often the photograph of 20.3 is blurred
sizes = (8, 64, 512, 4096, 32768, 262144, 2097152, 8388608)  # bytes per message in the measurement


# %% [markdown]
# ### Meet the ranks
# A *rank* is one running copy of the program: a process with a memory of its own. All run the same code. What
# differs is `comm.rank`, 0 to `comm.size - 1`. They talk by *messages* within a group, the *communicator*:
#
# - `comm.send(thing, dest=1)` and `thing = comm.recv(source=0)` carry any Python object, packed and unpacked;
# - `comm.Send(array, dest=1)` and `comm.Recv(array, source=0)` carry a NumPy array's memory as it is: fast,
#   but the receiver must provide an array of that length and dtype.
#
# `launch.run(function, ranks=4)` starts four processes, runs `function(comm)` in each, returns four results.

# %%
def meet(comm):
    # Across ranks: the same code everywhere, so each rank asks who it is. A tag is a number on the envelope.
    if comm.rank == 0:
        comm.send("sent first", dest=1, tag=1)
        comm.send("sent second", dest=1, tag=2)
    if comm.rank == 1:
        print(comm.recv(source=0, tag=2), "but received before what was", comm.recv(source=0, tag=1))
    return f"I am rank {comm.rank} of {comm.size}"


launch.run(meet, ranks=4)

# %% [markdown]
# ### Predict
# Four ranks in a ring. Rank 0 sends the number 0 to its right neighbour; every other rank adds its own rank
# to what arrives and passes it on. What arrives at rank 0 in the end, after how many messages?

# %%
predict("20.1", arrives_at_rank_0=..., messages=...)


# %% [markdown]
# ### Exercise 20.1 · Pass a token round the ring
# For any number of ranks, with `send` and `recv`. **Return what arrived**, on every rank: 0 on rank 1, 0+1 on
# rank 2, 0+1+2 on rank 3. About 6 lines.
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
# Rank 0: `comm.send(0, dest=right)`, then `return comm.recv(source=left)`. The others:
# `token = comm.recv(source=left)`, send `token + comm.rank` to `right`, return `token`.
# </details>

# %%
def pass_token(comm):
    """Send a token once round the ring. Returns, on every rank, the number that arrived there."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if comm.size == 1:
        return 0  # alone, there is nobody to send to
    raise NotImplementedError("exercise 20.1: Pass a token round the ring")


# %%
with check("20.1"):
    per_rank = launch.run(on_every_size, pass_token, ranks=launch.ranks_here(5), timeout=patience)
    for size in range(len(per_rank), 0, -1):
        got = [results[size] for results in per_rank[:size]]
        want = [sum(range((rank - 1) % size + 1)) for rank in range(size)]
        expect.equal(got, want, f"With {size} ranks, sent to the right, what arrived at [rank]")
    predict.compare("20.1", arrives_at_rank_0=0 + 1 + 2 + 3, messages=4)

# %% [markdown]
# ### Predict
# Two ranks swap vectors, and both send first. Does that end (1) or hang (0): with 10 values, with a million?

# %%
predict("20.2", ends_with_10=..., ends_with_a_million=...)


def both_send_first(comm, length):
    own, theirs = np.full(length, comm.rank), np.empty(length, int)
    partner = 1 - comm.rank
    comm.Send(own, dest=partner)
    comm.Recv(theirs, source=partner)
    return f"rank {comm.rank} holds {theirs[0]}"


print(f"{few} values:", launch.run(both_send_first, few, ranks=2))
if world.launcher() is None:  # under mpiexec or srun the hang would take the whole job with it
    try:
        launch.run(both_send_first, many, ranks=2, timeout=3)
    except errors.RankFailed as stuck:
        print(f"{many} values:", stuck)
predict.compare("20.2", ends_with_10=1, ends_with_a_million=0)


# %% [markdown]
# A *deadlock*; the message names the line in which each rank waits. A short message is put aside for the
# receiver (*eager*): `Send` returns. A long one stays until the receiver asks (*rendezvous*): both ranks wait
# in `Send`, nobody asks. Code that needs eager messages passes the small test and hangs with the real model.
#
# ### Exercise 20.2 · Everyone to the right
# Every rank gives its vector to its right neighbour and returns what comes from the left: any length, any
# number of ranks, even one. 1 to 6 lines.
#
# <details><summary>Hint 1: two ways out</summary>
#
# Either even ranks send first and odd ranks receive first, or one call does both and leaves the order to MPI.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(own, dest=…, recvbuf=theirs, source=…)`. Even a rank alone may send to itself this way.
# </details>

# %%
def shift_right(comm, own):
    """Give `own` to the right neighbour. Returns the left neighbour's, of the same length."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    theirs = np.empty_like(own)
    raise NotImplementedError("exercise 20.2: Everyone to the right")
    return theirs


# %%
def expect_shift(comm, length):
    own = np.full(length, comm.rank)
    theirs = shift_right(comm, own)
    subject = f"{comm.size} ranks, {length} values, rank {comm.rank}"
    before = np.full(length, comm.rank)
    expect.unchanged(before, own, f"{subject}: `own`", because="Receive into another array")
    expect.equal(np.unique(theirs), [(comm.rank - 1) % comm.size], f"{subject}: what came from the left")
    return int(theirs[0])


with check("20.2"):
    for length in (few, many):
        test = partial(expect_shift, length=length)
        per_rank = launch.run(on_every_size, test, ranks=launch.ranks_here(5), timeout=patience)
        expect.equal(per_rank[0], {size: size - 1 for size in per_rank[0]}, "What came to rank 0, by size")


# %% [markdown]
# ### Exercise 20.3 · Compute while messages travel
# A picture too large for one device is cut into strips of rows, one per rank. A blur replaces each row by the
# mean of itself and the rows above and below; at a strip's edges those live on another rank. `Isend` and
# `Irecv` only *start* a message and return a request, `request.Wait()` ends it. **Until `Wait`, the buffers
# belong to MPI:** do not read what is being received, do not write what is being sent.
#
# Start four messages, compute the inside rows, wait, compute the two edge rows. `MPI.PROC_NULL` is the
# neighbour beyond the picture: a message to or from it ends at once and changes nothing. About 8 lines.
#
# <details><summary>Hint 1: the four messages</summary>
#
# `comm.Irecv` into `above` from `up`, into `below` from `down`; `comm.Isend` of `strip[0]` to `up`, of
# `strip[-1]` to `down`. Keep the four requests in a list, `pending`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `new[1:-1] = (strip[:-2] + strip[1:-1] + strip[2:]) / 3`, then `for request in pending: request.Wait()`,
# then `new[0] = (above + strip[0] + strip[1]) / 3`, and `new[-1]` in the same way with `below`.
# </details>

# %%
def blur(comm, strip):
    """One blur step. strip: this rank's rows of the picture, 2 or more. Returns the new strip."""
    from mpi4py import MPI

    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    above, below = strip[0].copy(), strip[-1].copy()  # at the picture's edge a row is its own neighbour
    new = np.empty_like(strip)
    raise NotImplementedError("exercise 20.3: Compute while messages travel")
    return new


# %%
photo = load_sample_image("china.jpg").mean(axis=2)  # 427 rows of 640 grey values


def expect_blur(comm):
    """Compare with a blur of the whole photo, twice; half of the ranks come late. Returns blocking calls."""
    around = np.pad(photo, ((1, 1), (0, 0)), mode="edge")
    blurred = (around[:-2] + photo + around[2:]) / 3
    before = np.array_split(photo, comm.size)[comm.rank]
    want = np.array_split(blurred, comm.size)[comm.rank]
    subject = f"{comm.size} ranks, rank {comm.rank}"
    log = CallLog(comm)
    for late in (0, 1):
        if comm.rank % 2 == late:
            time.sleep(0.2)
        strip = before.copy()
        new = blur(log, strip)
        expect.unchanged(before, strip, f"{subject}: `strip`", because="While it is sent, write to `new`")
        wrong = [row for row in range(len(new)) if not np.allclose(new[row], want[row])]
        trap = "At the edges: is each halo the right one, and used only after its Wait?"
        expect(not wrong, f"{subject}: rows {wrong[:3]} of 0 to {len(new) - 1} are wrong. {trap}")
    return {"Send", "Recv", "Sendrecv"} & set(log.calls)


with check("20.3"):
    per_rank = launch.run(on_every_size, expect_blur, ranks=launch.ranks_here(4), timeout=patience)
    blocking = ", ".join(per_rank[0][len(per_rank)])
    expect(not blocking, f"The picture is right, but {blocking} blocks. Start messages by Isend and Irecv.")


# %%
def blur_often(comm):
    together = apart = np.array_split(photo, comm.size)[comm.rank]
    nobody = comm.Split(comm.rank)  # Across ranks: a communicator for each by itself, so no neighbours
    for _ in range(blur_steps):
        together = blur(comm, together)
        apart = blur(nobody, apart)
    return together, apart


together, apart = zip(*launch.run(blur_often, ranks=4), strict=True)
curves = {}
for name, strips in {"each rank alone": apart, "with halo exchange": together}.items():
    blurred = np.concatenate(strips)
    curves[name] = abs(np.diff(blurred, axis=0)).mean(axis=1)
plots.lines(curves, xlabel="row of the photo", ylabel="mean step to the next row", title="Look for the seams")

# %% [markdown]
# ### Measure
# Two ranks play *ping-pong*; half a round trip is one message. Guess: 8 bytes in µs, and 8 MB in GB/s.

# %%
predict("20.3", short_us=..., long_GB_per_s=...)


def ping_pong(comm):
    first, second = (comm.Send, comm.Recv) if comm.rank == 0 else (comm.Recv, comm.Send)

    def round_trip(ball):
        first(ball, 1 - comm.rank)
        second(ball, 1 - comm.rank)

    calls = {nbytes: partial(round_trip, np.zeros(nbytes, np.uint8)) for nbytes in sizes}
    # Across ranks: comm= starts both together and counts the slower; `batch` round trips make one sample.
    return {
        nbytes: timing.measure(call, comm=comm, batch=10 if nbytes <= 4096 else 1)
        for nbytes, call in calls.items()
    }


trips = launch.run(ping_pong, ranks=2)[0]
for nbytes, trip in trips.items():
    record.add("ping-pong", bytes=nbytes, round_trip=trip, **record.BY_MPI)
plots.bandwidth({nbytes: trip.samples / 2 for nbytes, trip in trips.items()}, title="One message")
short = trips[sizes[0]].median / 2
long = trips[sizes[-1]].median / 2
predict.compare("20.3", short_us=short * 1e6, long_GB_per_s=sizes[-1] / long / 1e9)

# %% [markdown]
# At first the time hardly depends on the length: *latency*. Then it grows with it: *bandwidth*. A network
# between machines has perhaps 2 µs and 12 GB/s: which matters for a gradient of 100 MB, which for one number?
#
# ### What you take away
# - All ranks run the same program; `comm.rank` decides who does what; only messages cross between memories.
# - A program that works because its messages are short is a deadlock in waiting: use `Sendrecv`, or an order.
# - `Isend` and `Irecv` let work and messages overlap. Until `Wait`, hands off the buffers.
# - A message costs a fixed latency plus bytes over bandwidth: few long ones beat many short ones.
# - Next: lab 21 builds the collectives, such as the allreduce that averages gradients, from these calls.
