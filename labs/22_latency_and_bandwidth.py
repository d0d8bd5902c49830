# %% [markdown]
# <!-- Generated from solutions/22_latency_and_bandwidth.py by `make labs`. Learners work on a copy in work/. -->
# # 22 Latency and bandwidth
#
# What does a message cost? You write the benchmarks that everyone quotes, and find two numbers
# behind them.
#
# **You will be able to** (1) measure latency and bandwidth as the OSU benchmarks do, (2) fit α and
# β, (3) turn an allreduce's time into algbw and busbw, (4) say which convention a published number
# follows.
#
# Needs: mpi · Ranks: 2 · Minutes: 60 · Level: beginner · Before: 01, 20, 21

# %%
import numpy as np
import virtual
from labkit import check, hint, lab, launch, plots, predict, record, scaling, world
from labkit.timing import benchmarks
from support import lab22

lab.start("22_latency_and_bandwidth")

# %% tags=["parameters"]
longest = 1 << 24  # bytes of the longest message (16 MiB)
window = 64  # messages in flight in the bandwidth test, as in osu_bw
network = "k80_edr"  # the virtual cluster that stands for a network between nodes
trip_rounds = ((5000, 100), (200, 10))  # rounds that count, and warm-up: up to 8 KiB; above
window_rounds = ((100, 10), (20, 2))  # the same for windows, as in osu_bw
call_rounds = ((200, 20), (20, 3))  # the same for allreduces

# %% [markdown]
# ### Whose numbers?
# "12 GB/s" means little without the program that printed it. These are quoted most:
#
# | program | columns | what is timed |
# |---|---|---|
# | `osu_latency` | `# Size  Latency (us)` | half a round trip, mean |
# | `osu_bw` | `# Size  Bandwidth (MB/s)` | 64 sends and one reply; MB = 10⁶ bytes |
# | `osu_allreduce` | `# Size  Avg Latency(us)` | a call, mean over calls and ranks |
# | nccl-tests | `time` (µs), `algbw`, `busbw` | a call, mean; GB = 10⁹ bytes |
#
# Sizes are powers of two. The size of an allreduce is that of *one* rank's vector. You write the
# first two by yourself, and the arithmetic of the other two.
#
# <details><summary>How many rounds do they take?</summary>
#
# Up to 8 KiB, and above it; in brackets the warm-up. `osu_latency`: 10,000 (100), 1,000 (10).
# `osu_bw`: 100 (10), 20 (2). `osu_allreduce`: 1,000 (100), 100 (10). nccl-tests: 20 (5) for all
# sizes. `python -m mpi4py.bench pingpong`, which times what `osu_latency` times: 10,000 (100) up to
# 16 KiB, 10 (1) above 1 MiB.
#
# *Sources: OSU's `util.h`, nccl-tests' `README.md` and `PERFORMANCE.md`, mpi4py 4.*
# </details>
#
# ### Predict
# How many µs does an empty message take from one rank to another, on this machine? [Lab 20](20_ranks_and_messages.ipynb)'s
# ping-pong had 8 bytes.

# %%
predict("22.1", empty_message_us=...)


# %% [markdown]
# ### Exercise 22.1 · Latency, half a round trip
# The clocks of two ranks differ, so nobody can time one way alone. Rank 0 sends `ball`, rank 1
# sends it back, and half of that time counts. Time each round by itself: `start = clock()`, the
# round, then `clock() - start`, in seconds. Both ranks may run these lines; the numbers of rank 0
# are the ones that count.
#
# The first `skip` rounds do not count: they open connections and fill caches. After them come
# `rounds` that do. Return the **median** of the halves, which a few interrupted rounds do not move
# ([lab 01](01_time_it_properly.ipynb)), and the list of all of them, in the order of the rounds.
#
# Take the time from `clock()` only. The check runs your function on *virtual* ranks first ([lab 23](23_ring_allreduce.ipynb)).
# Their clock goes by a rule, so the right answer is known. About 12 lines. *(beginner)*
#
# <details><summary>Hint 1: one round</summary>
#
# Rank 0 sends `ball` to 1, then receives it; rank 1 receives, then sends. Read the clock before and
# after.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if turn >= skip: seconds.append((clock() - start) / 2)`, and after the loop
# `typical = np.median(seconds)`.
# </details>

# %%
def latency(comm, nbytes, rounds, skip, clock):
    """Ping-pong of ranks 0 and 1. Returns seconds: (the number to quote, all `rounds` half round
    trips)."""
    ball = np.zeros(nbytes, np.uint8)
    seconds = []
    raise NotImplementedError("exercise 22.1: Latency, half a round trip")
    return typical, seconds


# %%
# Asked: Half a round trip, after the warm-up; all `rounds` values and their
# median.
check("22.1", latency)

# %% [markdown]
# ### Measure
# Yours, beside `python -m mpi4py.bench pingpong` on the same ranks; and between nodes, if there are
# several. About 15 s.

# %%
sizes = [0, *(1 << power for power in range(longest.bit_length()))]
pair = launch.ranks_here(2)  # under a launcher all of its ranks
all_trips = launch.run(benchmarks.sweep, latency, sizes, *trip_rounds, ranks=pair)[0]
theirs = launch.run(benchmarks.mpi4py_pingpong, longest, trip_rounds[0][0], ranks=pair)[0]
for where, trips in all_trips.items():
    typical = {n: median * 1e6 for n, (median, _) in trips.items()}
    benchmarks.show(f"{where}: half a round trip, median", "Latency (us)", typical)
    row = {"bytes": sizes, "us": list(typical.values())}
    record.add("latency", where=where, ranks=2, unit="us", **row, **record.BY_MPI)
    curves = {
        "yours (median)": {n: seconds for n, (_, seconds) in trips.items()},
        "yours (mean)": {n: float(np.mean(seconds)) for n, (_, seconds) in trips.items()},
        "mpi4py.bench (mean)": theirs[where],
    }
    plots.bandwidth(curves, title=f"Ping-pong {where}: first latency, then bytes")
predict.compare("22.1", empty_message_us=typical[0])


# %% [markdown]
# **Explain.** You should see two parts: on the left the time is nearly the same for all sizes, on
# the right it doubles with the size. Wide bars mean a busy machine; then run the cell again before
# you quote anything.
#
# Up to which size do the bytes cost less than the message itself?
# <details><summary>Answer</summary> Up to where the time is twice that of the empty message; often
# some KiB. Find it in your table.</details>
#
# Why may mpi4py's mean lie above your median? <details><summary>Answer</summary> It times the same
# round. But an interruption only ever lengthens a round, and a mean takes its part of that. The
# control is the mean of your own rounds: it lies above your median as well. Beyond 1 MiB mpi4py has
# only 10 rounds.</details>

# %% [markdown]
# ### Exercise 22.2 · Bandwidth, a window of messages
# In ping-pong one message is under way, and nobody sends while it travels. A link can carry several
# at once. So now a round is a *window*:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | start all | `window` times `Isend` of `data` | `window` times `Irecv`, each into its own row of `inbox` |
# | then wait | for all its requests | for all its requests |
# | end of the round | receives `reply` | sends `reply` |
#
# What is the reply for? A send is over when its buffer may be used again. Only the receiver knows
# that all has arrived.
#
# The loop, the clock and the rate are there: all bytes of the window, over the time until the reply
# is there, in MB/s with MB = 10⁶ bytes. You write one round. About 10 lines. *(intermediate)*
#
# <details><summary>Hint 1: start all, then wait</summary>
#
# `requests = [comm.Isend(data, dest=1) for _ in range(window)]` on rank 0, on rank 1
# `[comm.Irecv(row, source=0) for row in inbox]`; then `for request in requests: request.Wait()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After the waits `comm.Recv(reply, source=1)` on rank 0, `comm.Send(reply, dest=0)` on rank 1.
# </details>

# %%
def bandwidth(comm, nbytes, rounds, skip, clock, window):
    """From rank 0 to rank 1, `window` messages in flight. Returns `rounds` values in MB/s (10^6
    bytes)."""
    data = np.zeros(nbytes, np.uint8)
    inbox = np.zeros((window, nbytes), np.uint8)
    reply = np.zeros(4, np.uint8)
    rates = []
    for turn in range(skip + rounds):
        start = clock()
        raise NotImplementedError("exercise 22.2: Bandwidth, a window of messages")
        if turn >= skip:
            rates.append(window * nbytes / (clock() - start) / 1e6)  # by 0 if nothing was sent
    return rates


# %%
# Asked: A window of messages at the rate of the link, then one reply.
check("22.2", bandwidth)


# %% [markdown]
# ### Measure
# A window of 64, beside the ping-pong of above. As a control, the same window with all messages
# received into one row. Then the same two functions of yours on a virtual link: `k80_edr` is a
# model of nodes with EDR InfiniBand between them. About 15 s.

# %%
def into_one_row(comm, *positional, **named):
    """Your `bandwidth`, with all messages received into the first row of `inbox`."""
    return bandwidth(lab22.OneRow(comm), *positional, **named)


some = [n for n in sizes if 0 < n <= 1 << 20]
all_rates = launch.run(
    benchmarks.sweep, bandwidth, some, *window_rounds, window=window, ranks=pair
)[0]
row_rates = launch.run(
    benchmarks.sweep, into_one_row, some, *window_rounds, window=window, ranks=pair
)[0]
for where, rates in all_rates.items():
    typical = {n: float(np.median(rates[n])) for n in some}
    benchmarks.show(f"{where}: {window} messages in flight, median", "Bandwidth (MB/s)", typical)
    row = {"bytes": some, "MB_per_s": list(typical.values())}
    record.add("bandwidth", where=where, ranks=2, unit="MB/s", **row, **record.BY_MPI)
    curves = {"ping-pong, n / latency": {n: all_trips[where][n][1] for n in some}}
    for rows, measured in ((f"{window} rows", rates), ("one row", row_rates[where])):
        label = f"{window} in flight, {rows}"
        curves[label] = {n: n / 1e6 / np.array(measured[n]) for n in some}  # seconds per message
    plots.bandwidth(curves, title=f"One message under way, or many, {where}")

# %%
# The same on a virtual network.
nodes = virtual.Cluster(nodes=2, ranks_per_node=1, machine=network)


def try_both(comm, nbytes):
    """(MB/s in ping-pong, with a window) of so many bytes."""
    half, _ = latency(comm, nbytes, rounds=5, skip=2, clock=comm.Wtime)
    rates = bandwidth(comm, nbytes, rounds=5, skip=2, clock=comm.Wtime, window=window)
    return nbytes / half / 1e6, float(np.median(rates))


print(
    f"Between two nodes of {network}, virtual: bytes, MB/s in ping-pong, MB/s with {window} in"
    " flight"
)
for nbytes in (64, 1024, 8192, 1 << 20):
    single, many = nodes.run(try_both, nbytes).results[0]
    print(f"{nbytes:>9}{single:>12.0f}{many:>12.0f}   {many / single:.1f} times")

# %% [markdown]
# **Explain.** The window pays the way there once, not once a message. On the virtual network you
# see what that gains: for short messages many times as much, for 1 MiB hardly anything, as there
# the bytes take nearly all the time. Inside a node the way is short, and less is won.
#
# For the longest messages the rate of the window may fall again, even below the ping-pong's.
# <details><summary>Why?</summary> 64 rows of 1 MiB do not fit into the cache, one ball does. The control says
# whether that is so here: it has as many in flight, but only one row. If that curve does not fall,
# it was the cache. (`osu_bw` receives into one buffer, unless it is told `-b multiple`. MPI forbids
# two receives into one buffer at a time, so your function has rows.)</details>
#
# ### Hockney's model
# A message of n bytes takes **α + nβ** seconds. α is the time of an empty message, 1/β the
# bandwidth of an endless one. **n½** is the size at which half of that bandwidth is reached. There
# the bytes take as long as the empty message: n½ β = α.
#
# ### Predict
# Take α from your ping-pong's table, the time of 0 bytes, and 1/β from its last row, bytes over
# seconds; or take 1.5 µs and 8 GB/s. At which size does the ping-pong reach half of its bandwidth?

# %%
predict("22.3", half_at_bytes=...)


# %% [markdown]
# ### Exercise 22.3 · α, β and n½
# Find α and β from measured times t of sizes n. Fit by least squares of the *relative* error: the
# sum of ((α
# + nβ - t) / t)² is to be smallest. With plain errors 16 MiB would decide alone: its error is a
#   thousand
# times that of 8 bytes.
#
# NumPy solves such systems: `np.linalg.lstsq(A, b, rcond=None)[0]` gives the x for which the sum of
# squares of A x - b is smallest. `A` has a row for each measurement and a column for each unknown:
#
#     A = np.array([[1, 0], [1, 2], [1, 4]])  # x0 + 0 x1 = 1, x0 + 2 x1 = 5, x0 + 4 x1 = 9
#     np.linalg.lstsq(A, np.array([1, 5, 9]), rcond=None)[0]  # [1, 2]
#
# Divide your equations α + nβ = t by t first. About 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: as a system of equations</summary>
#
# Divided by t, each measurement says α · (1/t) + β · (n/t) = 1. So the columns are 1/t and n/t, and
# b holds ones.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `columns = np.stack([1 / seconds, sizes / seconds], axis=1)`, `ones = np.ones(len(sizes))`. n½: α
# = n½ β.
# </details>

# %%
def fit(sizes, seconds):
    """(α in seconds, β in seconds per byte, n½ in bytes); sizes in bytes and seconds are arrays."""
    raise NotImplementedError("exercise 22.3: α, β and n½")


# %%
# Asked: The line of least relative error, for exact times and for times 20%
# off.
check("22.3", fit)

# %% [markdown]
# ### Measure
# One line through all your ping-pong's times, and two: one up to the size that fits best, one
# above.

# %%
# Fitting and drawing. What is printed last is of the last place: between nodes, if any.
two_lines = {}
for where, trips in all_trips.items():
    times = {n: seconds for n, (_, seconds) in trips.items()}
    medians = {n: median for n, (median, _) in trips.items()}
    one_line = scaling.fit_alpha_beta(times)
    two_lines[where] = lab22.two_lines(medians, fit)
    print(f"{where}: one line, {one_line}\n{where}: two lines, {two_lines[where]}")
    models = {"one line": one_line, "two lines": two_lines[where]}
    plots.bandwidth(times, model=models, title=f"α + nβ, {where}")
pingpong = {n: n / median for n, median in medians.items()}  # bytes per second
fastest = max(pingpong.values())
half = next(n for n, rate in pingpong.items() if rate >= fastest / 2)
print(
    f"Half of the best measured rate is reached at {half} bytes; by one line, n½ is"
    f" {one_line.half:.0f}."
)
predict.compare("22.3", half_at_bytes=half)


# %% [markdown]
# **Explain.** You should see that one line misses the middle sizes; two lines can bend there. Is
# the bend the step from eager messages to rendezvous ([lab 20](20_ranks_and_messages.ipynb))? Compare its size, which is printed,
# with the eager limit, if you measured it in [lab 20](20_ranks_and_messages.ipynb); else leave that open. Far from it, it may be
# the cache. At the right end no line holds. Likely causes, not tried here: MPI copies long messages
# in another way, or the ball does not fit into the cache any more.
#
# Is the half where the line says? <details><summary>Answer</summary> Only about. *Measured* is the
# first of your sizes that reaches half of the best bandwidth, and sizes are powers of two. The
# line's n½ is α/β of a line that fits no size exactly. Quote α and β with the sizes that they hold
# for.</details>
#
# ### Exercise 22.4 · algbw and busbw of an allreduce
# `osu_allreduce` prints the mean time over calls and ranks. nccl-tests divides:
#
# - **algbw** = n / time, with n bytes of one rank's vector. It is what the user sees.
# - **busbw** = algbw · 2(p - 1)/p. It is what a link carried: where only ranks add, the busiest
#   must send at least 2(p - 1)/p · n ([lab 23](23_ring_allreduce.ipynb)). Beside the link's own bandwidth it grades the
#   allreduce.
#
# An example: 4 ranks, 100 MB in 20 ms. algbw is 5 GB/s, busbw 7.5 GB/s. (A switch that adds by
# itself saves messages; then busbw may exceed what a link carries.)
#
# `seconds` has a row for each rank and a column for each call. About 4 lines. *(beginner)*
#
# <details><summary>Hint 1: how many ranks?</summary>
#
# As many as rows: `len(seconds)`. `np.mean(seconds)` is the mean over all of it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `algbw = nbytes / mean / 1e9`, and busbw is `algbw * 2 * (p - 1) / p`. The first of the three is
# in µs.
# </details>

# %%
def columns(seconds, nbytes):
    """An allreduce's (mean in µs, algbw in GB/s, busbw in GB/s). seconds: an array [rank, call]."""
    raise NotImplementedError("exercise 22.4: algbw and busbw of an allreduce")


# %%
# Asked: The mean over calls and ranks; both bandwidths, in 10^9 bytes per
# second.
check("22.4", columns)

# %% [markdown]
# ### Measure
# MPI's allreduce on as many ranks as there are cores, at most 4. About 10 s.

# %%
# Across ranks: a barrier before each call, outside of the timed part, lets all begin together.
# With fewer cores than ranks, most of the time is waiting for a core.
ranks = max(2, min(4, world.cores()))
per_rank = launch.run(benchmarks.allreduces, sizes[4:], *call_rounds, ranks=ranks)
p = len(per_rank)
seconds = {n: np.array([row[n] for row in per_rank]) for n in sizes[4:]}  # [rank, call] by size
rows = {n: columns(seconds[n], n) for n in seconds}
benchmarks.show(
    f"MPI's allreduce, {p} ranks", ("Avg Latency(us)", "algbw (GB/s)", "busbw (GB/s)"), rows
)
row = {"bytes": list(rows), "us": [us for us, _, _ in rows.values()]}
record.add("allreduce", ranks=p, unit="us", **row, **record.BY_MPI)
means = {"calls, mean over the ranks": {n: seconds[n].mean(axis=0) for n in seconds}}
plots.bandwidth(means, factor=2 * (p - 1) / p, what="busbw", title=f"MPI's allreduce on {p} ranks")
best = max(busbw for _, _, busbw in rows.values())
print(f"Best busbw {best:.2f} GB/s; best rate of the ping-pong {fastest / 1e9:.2f} GB/s.")
added = launch.run(benchmarks.additions, [n for n in sizes if n >= 8192], ranks=pair)[0]
adding = scaling.fit_alpha_beta(added).bandwidth
print(f"A rank adds {adding / 1e9:.1f} GB/s.")

# %% [markdown]
# **Explain.** You should see: busbw rises with the size as bandwidth did, and ends below the
# ping-pong's best rate or near it.
#
# Which part of that rate did it reach, and where is the rest? <details><summary>Answer</summary>
# The last lines say the part. An allreduce also adds: if a rank adds many times as fast as busbw,
# that is not where the time goes. What is left are its several rounds, and that each rank sends
# *and* receives at once, which share one memory. This lab does not tell these two apart.</details>
#
# "350 GB/s", says a report of an allreduce of 1 GB on 8 GPUs that took 5 ms. Which column is that?
# <details><summary>Answer</summary> algbw is 1 GB / 5 ms = 200 GB/s, and busbw 200 · 2 · 7/8 = 350 GB/s. So
# it is busbw. What a user's vector saw was 200 GB/s.</details>
#
# ### For the next labs
# Labs [23](23_ring_allreduce.ipynb) to [26](26_hierarchical_allreduce.ipynb) can compute for this machine. For that they read what is stored here. If the OSU
# benchmarks are installed, their own numbers are printed for comparison.

# %%
steps = launch.run(benchmarks.sweep, benchmarks.step, (1024,), *trip_rounds, ranks=pair)[0]
for where, trips in all_trips.items():
    medians = {n: median for n, (median, _) in trips.items()}
    busy = 1e-6 / np.median(all_rates[where][1])  # seconds per 1-byte message of a window
    numbers = two_lines[where].numbers(medians, busy, step=steps[where][1024])
    record.add("link", where=where, ranks=2, **numbers, **record.BY_MPI)
record.add("addition", speed=adding, bytes=list(added), unit="bytes/s")
for tool in ("osu_latency", "osu_bw", "osu_allreduce"):
    print(benchmarks.osu(tool, 2))
print(virtual.machine("here").name)

# %% [markdown]
# ### What you take away
# - Latency: half a round trip, after warm-up, as a median. Bandwidth: many messages in flight, and
#   a reply.
# - n bytes take α + nβ: below n½ = α/β messages count, above it bytes. One line fits no machine
#   exactly.
# - algbw is what the user sees, busbw = 2(p-1)/p of it what a link carried. Ask which is quoted.
# - Next: [lab 23](23_ring_allreduce.ipynb) builds the allreduce for long vectors, [lab 24](24_trees_and_halving.ipynb) those for short ones.
