# %% [markdown]
# <!-- Generated from solutions/22_latency_and_bandwidth.py by `make labs`. Learners work on a copy in work/. -->
# # 22 Latency and bandwidth
#
# Every [allreduce](../labs/GLOSSARY.md#allreduce) and every [broadcast](../labs/GLOSSARY.md#broadcast) consists of messages, so the cost of a message determines what
# communication costs in data-parallel training. Vendors and papers quote this cost as numbers such
# as "1.5 µs" or "12 GB/s". Such a number means little unless we know how it was measured:
#
# - Half a round trip and a whole round trip differ by a factor of two.
# - Between nodes, short messages have one rate if each waits for the one before it, and another if
#   64 are *in flight*, which means sent but not yet arrived. The two can differ by a factor of ten
#   or more.
# - The same allreduce has two different [bandwidths](../labs/GLOSSARY.md#bandwidth), and both are in use.
#
# In this lab we write the benchmarks with which [latency](../labs/GLOSSARY.md#latency) and bandwidth are usually measured, and run
# them on this machine. First we measure latency with a ping-pong and bandwidth with many messages
# in flight. Then we fit the two parameters α and β, with which the following labs predict the time
# of whole algorithms. At the end we convert the time of an allreduce into the two bandwidths that
# are quoted in reports.
#
# **After this lab you can** (1) measure latency and bandwidth as the OSU Micro-Benchmarks do, (2)
# fit the model α + nβ, in which α is the time of an empty message of *n* = 0 bytes and β the time
# of each byte, (3) convert the time of an allreduce into its algorithm bandwidth and its bus
# bandwidth, and (4) recognize which convention a published number follows.
#
# ![In a round of ping-pong one ball goes from rank 0 to rank 1 and back. In a round of the bandwidth test many messages follow each other closely, and one reply comes back](../notebooks/figures/22_rounds.svg)
#
# *Left: in the latency test one message is in flight at any time. Right: in the bandwidth test [rank](../labs/GLOSSARY.md#rank)
# 0 starts many messages without waiting, and rank 1 replies when all of them have arrived.*
#
# Needs: mpi · Ranks: 2 · Minutes: 70 · Level: beginner · Before: 01, 20, 21

# %%
import numpy as np
import verdict
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
# ## Latency
# How long does a message take to get from one rank to another? We cannot subtract the time of
# sending on rank 0 from the time of arrival on rank 1, because the clocks of two ranks are not
# synchronized. For example, if the clock of rank 1 is 50 µs ahead, a message of 2 µs appears to
# take 52 µs in one direction and −48 µs in the other.
#
# A **ping-pong** avoids this problem because it reads only one clock. Rank 0 sends a message, rank
# 1 sends it back, and half of this round trip on the clock of rank 0 is the *latency*. With the
# message of 2 µs the round trip takes 4 µs, and half of it is the right answer.
#
# ### Predict
# How many µs does an empty message take to get from one rank to another on this machine? The
# ping-pong in [lab 20](20_ranks_and_messages.ipynb) sent messages of 8 bytes, so its result is a good guess.

# %%
predict("22.1", empty_message_us=...)


# %% [markdown]
# ### Exercise 22.1 · Latency, half a round trip
# Write the ping-pong. The [communicator](../labs/GLOSSARY.md#communicator) `comm` always has exactly two ranks.
#
# - In a *round*, rank 0 sends `ball` and rank 1 sends it back. Play `skip + rounds` rounds.
# - Time each round separately. Read `start = clock()`, play the round, and take half of
#   `clock() - start`, which is in seconds. Both ranks can run these lines, but only the numbers of
#   rank 0 count.
# - The first `skip` rounds are a [warm-up](../labs/GLOSSARY.md#warm-up) that opens connections and fills caches, so do not count
#   them.
# - Return the **median** of the other halves, which a few interrupted rounds hardly change ([lab 01](01_time_it_properly.ipynb)), and the list of these halves in the order of the rounds.
#
# For example, with `skip=1` and `rounds=3` the median is 3 µs:
#
# | round | 1, a warm-up | 2 | 3 | 4 |
# |---|---|---|---|---|
# | round trip (µs) | 90 | 4 | 60 | 6 |
# | half, in the list (µs) | | 2 | 30 | 3 |
#
# Take the time only from `clock()`. The check first runs your function on ranks of the *virtual
# cluster*, the simulator of [lab 21](21_collectives.ipynb) ([lab 23](23_ring_allreduce.ipynb) describes it). Its clock follows a rule, so the right
# answer is known exactly. This takes about 12 lines. *(beginner)*
#
# <details><summary>Hint 1: one round</summary>
#
# Rank 0 sends `ball` to rank 1 and then receives it, while rank 1 first receives and then sends.
# Read the clock before and after these two calls.
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
# ### Measure: how long does a message take here?
# The next cell runs your function for sizes from 0 bytes to 16 MiB, on two ranks of this machine,
# and also between nodes if the job has several. It prints your median for each size. This takes
# about 15 s.
#
# The plot has three curves, which are your median, the mean of the same rounds, and the mean that
# `python -m mpi4py.bench pingpong` measures on the same ranks. Its left half shows times, its right
# half bandwidths. The bars reach from the first to the third quartile of the rounds.

# %%
sizes = [0, *(1 << power for power in range(longest.bit_length()))]
pair = launch.ranks_here(2)  # a batch job starts all of its ranks, and two at a time play
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
# **Explain.** You should see two parts. For short messages, on the left, the time hardly depends on
# the size. For long messages, on the right, it nearly doubles with the size. If bars are wide, or
# if the curve jumps up and down between neighboring sizes, other programs were probably running. In
# that case, run the cell again before you quote a number.
#
# Why might mpi4py's mean lie above your median?
# <details><summary>Answer</summary>
#
# Both programs time each round by itself. An interruption can only make a round longer, and each
# long round raises the mean but hardly changes the median. The mean of your own rounds is the
# control, because it comes from the same rounds as your median and should lie above it as well.
# </details>

# %% [markdown]
# ## Bandwidth
# In a ping-pong only one message is in flight, so the sender is idle while it waits for the answer.
# A training program often sends several messages at the same time, and a link can transfer them one
# directly after the other. The bandwidth test therefore sends a whole *window* of messages,
# followed by one reply.
#
# For example, suppose that a message needs 2 µs to arrive, of which its bytes occupy the link for
# only 0.1 µs. With a window of 64, the rate is about 12 times as high:
#
# | | time of 64 messages |
# |---|---|
# | ping-pong, one message every 2 µs | 64 · 2 = 128 µs |
# | window: all bytes, and the other 1.9 µs of the last message | 64 · 0.1 + 1.9 = 8.3 µs |
# | window and a reply of 2 µs | 10.3 µs |
#
# The reply is necessary because a send is complete as soon as its buffer can be used again, and
# that can be long before the message arrives. Only the receiver knows that all messages have
# arrived.
#
# ### Exercise 22.2 · Bandwidth, a window of messages
# Write one round of the bandwidth test, with `Isend`, `Irecv` and `Wait` from [lab 20](20_ranks_and_messages.ipynb):
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | start all | `window` times `Isend` of `data` | `window` times `Irecv`, each into its own row of `inbox` |
# | then wait | for all its requests | for all its requests |
# | end of the round | receives `reply` | sends `reply` |
#
# The loop, the clock and the rate are given. The rate is the number of bytes in the window, divided
# by the time from the start to the arrival of the reply, in MB/s with MB = 10⁶ bytes. This takes
# about 10 lines. *(intermediate)*
#
# <details><summary>Hint 1: start all, then wait</summary>
#
# On rank 0 write `requests = [comm.Isend(data, dest=1) for _ in range(window)]`, and on rank 1
# `[comm.Irecv(row, source=0) for row in inbox]`. Then wait for all of them with
# `for request in requests: request.Wait()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After the waits, call `comm.Recv(reply, source=1)` on rank 0 and `comm.Send(reply, dest=0)` on
# rank 1.
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
            rates.append(window * nbytes / (clock() - start) / 1e6)
    return rates


# %%
# Asked: A window of messages at the rate of the link, then one reply.
check("22.2", bandwidth)

# %% [markdown]
# ### Measure: one message or many?
# Now we compare a window of 64 messages with the ping-pong from above. The left half of the plot
# shows the time per message. This takes about 5 s.

# %%
some = [n for n in sizes if 0 < n <= 1 << 20]
all_rates = launch.run(
    benchmarks.sweep, bandwidth, some, *window_rounds, window=window, ranks=pair
)[0]
for where, rates in all_rates.items():
    typical = {n: float(np.median(rates[n])) for n in some}
    benchmarks.show(f"{where}: {window} messages in flight, median", "Bandwidth (MB/s)", typical)
    row = {"bytes": some, "MB_per_s": list(typical.values())}
    record.add("bandwidth", where=where, ranks=2, unit="MB/s", **row, **record.BY_MPI)
    curves = {
        "ping-pong": {n: all_trips[where][n][1] for n in some},
        f"{window} in flight": {n: n / 1e6 / np.array(rates[n]) for n in some},  # s per message
    }
    plots.bandwidth(curves, title=f"One message in flight, or many, {where}")

# %% [markdown]
# **Explain.** Inside one machine a short message arrives soon, so a window saves little time. It
# can even lose if other programs use the same cores, because a round of 64 messages takes long
# enough to be interrupted. Its bars are then much wider than those of the ping-pong.
#
# For the longest messages the rate of the window might fall again, even below that of the
# ping-pong. The first optional section at the end of the lab tests whether the cache is the reason.
#
# Between nodes a window can save more. The next cell therefore runs the same two functions on the
# [virtual cluster](../labs/GLOSSARY.md#virtual-cluster) with `k80_edr`, a model of nodes that are connected by EDR (Enhanced Data Rate)
# InfiniBand. Its last column says how many times as fast the window is.

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
# **Explain.** On the virtual network short messages are many times as fast with a window, while
# messages of 1 MiB gain hardly anything. In the ping-pong the sender waits once per message until
# it has reached the other rank. In the window it waits twice per 64 messages, once for the last of
# them and once for the reply. For long messages this matters little, because their bytes take
# nearly all of the time.
#
# ## Hockney's model
# You now have two tables with many numbers. Hockney's model (1994) summarizes a table in two
# parameters: a message of n bytes takes **α + nβ** seconds, where α is the time of an empty message
# and β is the time of each further byte. 1/β is therefore the bandwidth that very long messages
# approach.
#
# The size at which a message reaches half of this bandwidth is called **n½**. At this size the
# bytes take as long as the empty message, so n½ β = α. With α = 1 µs and 1/β = 4 GB/s, for example,
# n½ is 4,000 bytes.
#
# ### Predict
# At which of its sizes does your ping-pong first reach half of its best bandwidth? The model's
# answer is n½ = α · 1/β. Take both numbers from the table of your ping-pong, with times in seconds:
#
# - α is the time of 0 bytes.
# - 1/β is the number of bytes in the last row, divided by their time.

# %%
predict("22.3", half_at_bytes=...)


# %% [markdown]
# ### Exercise 22.3 · α, β and n½
# Find α, β and n½ from measured times t of messages of n bytes. Fit α and β by least squares on the
# *relative* error, so that the sum of ((α + nβ − t) / t)² is as small as possible. With absolute
# errors, the longest messages alone would determine the fit, because 10 % of the time of a 16 MiB
# message is about a thousand times as much as 10 % of the time of an 8-byte message.
#
# NumPy solves such problems. `np.linalg.lstsq(A, b, rcond=None)[0]` returns the x for which the sum
# of the squares of A x − b is smallest. The array `A` has a row for each measurement and a column
# for each unknown, as in this example with two unknowns and three equations:
#
#     A = np.array([[1, 0], [1, 2], [1, 4]])  # x0 + 0 x1 = 1, x0 + 2 x1 = 5, x0 + 4 x1 = 9
#     np.linalg.lstsq(A, np.array([1, 5, 9]), rcond=None)[0]  # [1, 2]
#
# Divide your equations α + nβ = t by t first. This takes about 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: as a system of equations</summary>
#
# After the division by t, each measurement says that α · (1/t) + β · (n/t) = 1. The columns of `A`
# are therefore 1/t and n/t, and b consists of ones.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `columns = np.stack([1 / seconds, sizes / seconds], axis=1)` and `ones = np.ones(len(sizes))`. The
# third result n½ follows from α = n½ β.
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
# ### Measure: does one line fit?
# Over n, the model α + nβ is a straight line. The next cell fits one line to all times of your
# ping-pong. For comparison, it also fits two lines, one for the shorter and one for the longer
# messages, and it tries out at which size a bend between them fits best. Each line is printed with
# its α and its bandwidth 1/β, and in addition:
#
# | | printed | meaning |
# |---|---|---|
# | one line | in parentheses | the 95 % interval of α |
# | | *half of it at* | n½ |
# | | *misfit* | the typical relative error (root mean square) |
# | two lines | *up to* | the size of the bend |

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
# **Explain.** If the times of short messages are steady, you should see that one line misses the
# middle sizes, while two lines can bend there. The bend may be the change from *eager* messages to
# *[rendezvous](../labs/GLOSSARY.md#rendezvous)* ([lab 20](20_ranks_and_messages.ipynb)). If you measured the eager limit in [lab 20](20_ranks_and_messages.ipynb), compare it with the printed size
# of the bend. If the two are far apart, suspect the cache. For the longest messages no line fits
# well, and this lab does not measure why.
#
# Does the ping-pong reach half of its bandwidth at the size that the line predicts?
# <details><summary>Answer</summary>
#
# Often it needs a much longer message, as in this run on two cores:
#
# | | one line | ping-pong |
# |---|---|---|
# | α | 1.3 µs | 3.7 µs, the α of the line above the bend |
# | bandwidth | 1/β = 9.2 GB/s | 13.5 GB/s, the rate of the 16 MiB message |
# | half of it first reached at | 11,901 bytes | 131,072 bytes |
#
# There are three reasons:
#
# - A message above the bend begins with a larger α, so it needs more bytes to reach the same rate.
# - The best rate is higher than that of the line, so half of it is reached later. With these two
#   reasons alone, it would be reached at 3.7 µs · 13.5 GB/s, which is about 50,000 bytes.
# - Messages of 16 to 64 KiB took longer than this α and rate predict, for example 11.0 µs for 64
#   KiB and not 8.6 µs. This lab does not measure why.
#
# For this reason you should always quote α and β together with the sizes for which they hold.
# </details>
#
# ## Two bandwidths of an allreduce
# So far we have measured single messages. Now we ask how fast an allreduce is, for which nccl-tests
# reports two bandwidths:
#
# - The **algorithm bandwidth** (algbw) is n / time, where n is the number of bytes in the vector of
#   one rank. It shows how fast the operation is for its user.
# - The **bus bandwidth** (busbw) is algbw · 2(p − 1)/p for p ranks. It can be compared with the
#   bandwidth of a link, because the busiest rank has to send at least 2(p − 1)/p · n bytes ([lab 23](23_ring_allreduce.ipynb)). These bytes divided by the time are busbw, so the link of this rank has averaged at least
#   this rate.
#
# For example, if 4 ranks allreduce 100 MB in 20 ms, algbw is 5 GB/s and busbw is 7.5 GB/s. (With 2
# ranks the factor is 1, so both are equal.)
#
# <details><summary>Can busbw exceed the bandwidth of the link?</summary>
#
# Yes, if the switches add as well, because the ranks then send fewer bytes. The factor 2(p − 1)/p
# assumes that the ranks do all the adding.
# </details>
#
# You can now read the columns of the programs from which most published numbers come. The [OSU
# Micro-Benchmarks](https://mvapich.cse.ohio-state.edu/benchmarks/) of Ohio State University measure an [MPI](../labs/GLOSSARY.md#MPI) (Message Passing
# Interface) library, and [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) measures [NCCL](../labs/GLOSSARY.md#NCCL) (NVIDIA [Collective](../labs/GLOSSARY.md#collective) Communications
# Library):
#
# | program | columns | what is timed |
# |---|---|---|
# | `osu_latency` | `# Size  Latency (us)` | half a round trip, mean |
# | `osu_bw` | `# Size  Bandwidth (MB/s)` | 64 sends and one reply; MB = 10⁶ bytes |
# | `osu_allreduce` | `# Size  Avg Latency(us)` | a call, mean over calls and ranks |
# | nccl-tests | `time` (µs), `algbw`, `busbw` | a call, mean; GB = 10⁹ bytes |
#
# You have written the first two programs. For the other two, you now write the arithmetic.
#
# ### Exercise 22.4 · algbw and busbw of an allreduce
# Compute three columns from measured times, which are the mean over calls and ranks in µs, algbw in
# GB/s and busbw in GB/s, as in the example above. The array `seconds` has a row for each rank and a
# column for each call. This takes about 4 lines. *(beginner)*
#
# <details><summary>Hint 1: how many ranks?</summary>
#
# There are as many ranks as rows, which is `len(seconds)`. `np.mean(seconds)` is the mean over all
# rows and columns.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `algbw = nbytes / mean / 1e9`, and busbw is `algbw * 2 * (p - 1) / p`. The first of the three
# results is in µs.
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
# ### Measure: MPI's allreduce
# Now we time MPI's own allreduce on as many ranks as there are cores, but at most 4, and in a batch
# job on all of its ranks. Below the table, the cell prints the best busbw, the best rate of your
# ping-pong, and how fast a rank adds. This takes about 10 s.

# %%
# Across ranks: a barrier before each call, outside of the timed part, lets all begin together.
# With fewer cores than ranks, most of the time is waiting for a core.
ranks = launch.ranks_here(max(2, min(4, world.cores())))
per_rank = launch.run(benchmarks.allreduces, sizes[4:], *call_rounds, ranks=ranks)
p = len(per_rank)
seconds = {n: np.array([row[n] for row in per_rank]) for n in sizes[4:]}  # [rank, call] by size
rows = {n: columns(seconds[n], n) for n in seconds}
benchmarks.show(
    f"MPI's allreduce, {p} ranks", ("Avg Latency(us)", "algbw (GB/s)", "busbw (GB/s)"), rows
)
row = {"bytes": list(rows), "us": [us for us, _, _ in rows.values()]}
calls = record.add("allreduce", ranks=p, unit="us", **row, **record.BY_MPI)
means = {"calls, mean over the ranks": {n: seconds[n].mean(axis=0) for n in seconds}}
plots.bandwidth(means, factor=2 * (p - 1) / p, what="busbw", title=f"MPI's allreduce on {p} ranks")
best = max(busbw for _, _, busbw in rows.values())
print(f"Best busbw {best:.2f} GB/s; best rate of the ping-pong {fastest / 1e9:.2f} GB/s.")
added = launch.run(benchmarks.additions, [n for n in sizes if n >= 8192], ranks=pair)[0]
adding = scaling.fit_alpha_beta(added).bandwidth
print(f"A rank adds {adding / 1e9:.1f} GB/s.")

# %% [markdown]
# **Explain.** You should see that busbw rises with the size, as the bandwidth of the ping-pong did,
# although it may fall again for the longest vectors. With fewer cores than ranks it stays far
# lower, because the ranks wait for a core. The table contains means and the plot medians. If the
# two differ by much, some calls were interrupted, and you should not quote the table.
#
# What fraction of the ping-pong's best rate does the allreduce reach, and how much of its time do
# the additions take?
# <details><summary>Answer</summary>
#
# The last printed lines contain the three rates. In one run on two cores, for example, the best
# busbw was 6.2 GB/s, which is 46 % of the ping-pong's 13.5 GB/s.
#
# In this run a rank added 21.6 GB/s. If the ranks share the additions equally, each of them adds
# (p − 1)/p · n bytes, which is half of what it sends. The additions then take
# busbw / (2 · 21.6 GB/s) of the time, here 14 %, so they were not the main reason.
#
# Likely reasons, which this lab does not separate, are that the allreduce needs several steps, and
# that each rank sends *and* receives at the same time through one shared memory.
# </details>
#
# A report says that an allreduce of 1 GB on 8 GPUs took 5 ms and reached "350 GB/s". Which column
# is that?
# <details><summary>Answer</summary>
#
# It is busbw. The algorithm bandwidth is 1 GB / 5 ms = 200 GB/s, which is what the user gets, and
# busbw is 200 · 2 · 7/8 = 350 GB/s.
# </details>
#
# ### Store the results for the next labs
# Labs [23](23_ring_allreduce.ipynb) to [26](26_hierarchical_allreduce.ipynb) can compute with numbers measured on this machine, so the next cell stores your two
# lines. The last printed line shows what was stored. Its bandwidth is a median over the long
# messages, so it can differ from the 1/β of your two lines.
#
# These labs need one more number, the *gap*, which is the time that the sender needs for each short
# message. The window gives it approximately. If the window sends 0.5 million messages of 1 byte per
# second, for example, the gap is 1 s / 0.5 million = 2 µs.
#
# If the OSU benchmarks are installed, the cell also prints their own results for comparison.

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
# - Latency is half a round trip after a warm-up, as a median. Bandwidth is measured with many
#   messages in flight and one reply.
# - A message of n bytes takes about α + nβ. Below n½ = α/β the number of messages determines the
#   cost, and above it the number of bytes. No machine follows one line exactly, so quote α and β
#   with the sizes for which they hold.
# - algbw is what the user of an allreduce gets. busbw is 2(p − 1)/p times as much and can be
#   compared with the bandwidth of a link. Always ask which of the two is quoted.
#
# [Lab 23](23_ring_allreduce.ipynb) builds the allreduce for long vectors, and [lab 24](24_trees_and_halving.ipynb) those for short ones.
#
# ## Going further (optional): does the cache limit long windows? (4 minutes)
# The 64 rows of 1 MiB each may be too many for the cache of the processor, while the single ball of
# the ping-pong fits more easily. The next cell repeats your window for long messages. As a control,
# it also runs the window with all messages received into one row of `inbox`.
#
# MPI forbids two receives into the same buffer at the same time, so your function has rows.
# `osu_bw` nevertheless uses one buffer unless it is started with `-b multiple`.

# %%
def into_one_row(comm, *positional, **named):
    """Your `bandwidth`, with all messages received into the first row of `inbox`."""
    return bandwidth(lab22.OneRow(comm), *positional, **named)


long = [n for n in some if n > benchmarks.LARGE]
tried = {}
for rows, benchmark in ((f"{window} rows", bandwidth), ("one row", into_one_row)):
    tried[rows] = launch.run(
        benchmarks.sweep, benchmark, long, *window_rounds, window=window, ranks=pair
    )[0]
for where in all_rates:
    curves = {"ping-pong, from above": {n: all_trips[where][n][1] for n in long}}
    for rows, rates in tried.items():
        label = f"{window} in flight, {rows}"
        curves[label] = {n: n / 1e6 / np.array(rates[where][n]) for n in long}  # s per message
    plots.bandwidth(curves, title=f"Many rows, or one, {where}")

# %% [markdown]
# **Explain.** The control has as many messages in flight and uses only one row. If the rate falls
# for the longest messages with 64 rows but not with one, the cache is the likely reason. If both
# curves fall, or neither does, this test does not show that it is.
#
# ## Going further (optional): is this bandwidth normal? (3 minutes)
# You can now answer this question, because a call takes a latency and the time of the bytes that
# must pass the link, and you know the rate of the link.
#
# `make verdict FILE=out.txt` does this arithmetic for the output of nccl-tests, of the OSU
# benchmarks or of `mpi4py.bench`, and compares it with a machine or link that you name, for example
# `MACHINE=h100_ndr` or `LINK=25GB/s`. The next cell asks for a verdict on the allreduce that you
# measured, with the link of your ping-pong.

# %%
nodes = launch.nodes_here()
several = {"nodes": str(nodes)} if nodes > 1 else {}
print(verdict.of_record(calls, machine="here", **several))

# %% [markdown]
# **Explain.** The verdict says which share of the known speed your longest calls reach, how sure it
# is, and which causes are likeliest. The list of causes tells you what to test first, but it proves
# nothing.
#
# On two ranks and two cores, for example, the verdict was *slower than expected*, with 65 % of the
# rate that such a link is known to reach. The first cause was that the ranks share one memory,
# through which each message is copied twice.
#
# ### Further reading
# - R. Hockney, *[The communication challenge for MPP: Intel Paragon and Meiko CS-2](https://doi.org/10.1016/S0167-8191(06)80021-9)*, Parallel Computing 20(3), 1994. The paper from which the model α + nβ takes its name.
# - D. Culler et al., *[LogP: Towards a Realistic Model of Parallel Computation](https://doi.org/10.1145/155332.155333)*, PPoPP, 1993. LogP also models the time during which a processor is busy with a message.
# - A. Alexandrov, M. Ionescu, K. Schauser and C. Scheiman, *[LogGP: Incorporating Long Messages into the LogP Model](https://doi.org/10.1145/215399.215427)*, SPAA, 1995. LogGP adds the time per byte of long messages to LogP.
# - T. Hoefler and R. Belli, *[Scientific Benchmarking of Parallel Computing Systems](https://doi.org/10.1145/2807591.2807644)*, SC, 2015. Twelve rules for measurements that others can interpret, among them when to use a
#   median.
# - [OSU Micro-Benchmarks](https://mvapich.cse.ohio-state.edu/benchmarks/). The programs `osu_latency`, `osu_bw` and `osu_allreduce`.
# - [NCCL tests: Performance reported](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). This page defines algbw and busbw, and derives the factor for each collective.
