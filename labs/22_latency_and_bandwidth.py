# %% [markdown]
# # 22 Latency and bandwidth
#
# What does a message cost? You write the benchmarks that everyone quotes, and find two numbers behind them.
#
# **You will be able to** (1) measure latency and bandwidth as the OSU benchmarks do, (2) fit α and β, (3)
# turn an allreduce's time into algbw and busbw, (4) say which convention a published number follows.
#
# Needs: mpi · Ranks: 2 · Minutes: 60 · Before: 20, 21, 01

# %%
import numpy as np
from labkit import check, expect, hint, lab, launch, plots, predict, record, scaling, virtual, world
from labkit.timing import benchmarks
from support import lab22

lab.start("22_latency_and_bandwidth")

# %% tags=["parameters"]
longest = 1 << 24  # bytes of the longest message (16 MiB)
window = 64  # messages in flight in the bandwidth test, as in osu_bw
trip_rounds = ((5000, 100), (200, 10))  # rounds that count, and warm-up: up to 8 KiB; above
window_rounds = ((100, 10), (20, 2))  # the same for windows, as in osu_bw
call_rounds = ((200, 20), (20, 3))  # the same for allreduces

# %% [markdown]
# ### Whose numbers?
# "12 GB/s" means little without the program that printed it:
#
# | program | columns | what is timed | rounds (warm-up): to 8 KiB, above |
# |---|---|---|---|
# | `osu_latency` | `# Size  Latency (us)` | half a round trip, mean | 10,000 (100), 1,000 (10) |
# | `osu_bw` | `# Size  Bandwidth (MB/s)` | 64 sends, one reply; MB = 10⁶ bytes | 100 (10), 20 (2) |
# | `osu_allreduce` | `# Size  Avg Latency(us)` | call; mean over calls, ranks | 1,000 (100), 100 (10) |
# | nccl-tests | `time` (µs), `algbw`, `busbw` | mean of a call; GB = 10⁹ bytes | 20, all sizes |
# | `mpi4py.bench pingpong` | MB/s, seconds | half a round trip, mean | 10,000 (100), 1,000 (10) |
#
# Sizes are powers of two; an allreduce's is that of *one* rank's vector. (From OSU's `util.h`, nccl-tests'
# `PERFORMANCE.md`, and mpi4py 4, which does 10,000 up to 16 KiB and 10 above 1 MiB.)
#
# ### Predict
# How many µs does an empty message take from one rank to another, on this machine?

# %%
predict("22.1", empty_message_us=...)


# %% [markdown]
# ### Exercise 22.1 · Latency, half a round trip
# The clocks of two ranks differ, so nobody times one way alone: rank 0 sends, rank 1 sends back, and half of
# that counts. The first `skip` rounds do not: they open connections and fill caches. Quote the median: a few
# interrupted rounds do not move it (lab 01). Take seconds from `clock()`: the check first runs your function
# on *virtual* ranks (lab 23), whose clock goes by α + nβ, so the right answer is known. About 12 lines.
#
# <details><summary>Hint 1: one round</summary>
#
# Rank 0 sends `ball` to 1, then receives it; rank 1 receives, then sends. Read the clock before and after.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if turn >= skip: seconds.append((clock() - start) / 2)`, and after the loop `typical = np.median(seconds)`.
# </details>

# %%
def latency(comm, nbytes, rounds, skip, clock):
    """Ping-pong of ranks 0 and 1. Returns seconds: (the number to quote, all `rounds` half round trips)."""
    ball = np.zeros(nbytes, np.uint8)
    seconds = []
    raise NotImplementedError("exercise 22.1: Latency, half a round trip")
    return typical, seconds


# %%
def try_trips(comm, nbytes, held_up):
    comm = lab22.Interrupted(comm, held_up) if held_up else comm
    return latency(comm, nbytes, rounds=40, skip=10, clock=comm.Wtime)


# %%
# What is asked: half a round trip, after the warm-up; all `rounds` values, and their median.
with check("22.1"):
    for alpha, rate in ((1e-6, 1e9), (20e-6, 1e8)):
        two = virtual.Cluster(nodes=2, machine=virtual.ideal(alpha, rate))
        for nbytes, held_up in ((0, 0), (1000, 0), (100_000, 0), (1000, 10)):
            run = two.run(try_trips, nbytes, held_up)
            got, seconds = run.results[0]
            want = alpha + nbytes / rate
            link = f"On a virtual link where {nbytes} bytes take {want * 1e6:g} µs"
            if held_up:
                link += ", but the first 10 rounds and some later ones are held up by 1 ms"
            expect.equal(len(seconds), 40, f"{link}: the number of values, with rounds=40 and skip=10")
            warm = not held_up or max(seconds[:5]) < 5e-4
            expect(warm, f"{link}: one of those 10 is among your values.")
            slips = {f"you say {got * 1e6:g}, which is there and back": 2 * want}
            expect.close(got, want, f"{link}: your latency in seconds", rtol=0.01, slips=slips)
            expect(run.time > 75 * want, f"{link}: both send at once. Rank 1 must receive before it sends.")
    real = launch.run(benchmarks.sweep, latency, (8,), (51, 5), (), ranks=2)[0]
    got, seconds = next(iter(real.values()))[8]
    expect.close(got, np.median(seconds), "On real ranks, 8 bytes: your number, beside your values' median")

# %% [markdown]
# ### Measure
# Yours, beside `python -m mpi4py.bench pingpong` on the same ranks, and between nodes if there are several.
# Up to which size do the bytes cost nearly nothing? And why do the means lie above your medians?

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
    curves = {"yours (median)": {n: seconds for n, (_, seconds) in trips.items()}}
    plots.bandwidth(curves | {"mpi4py.bench (mean)": theirs[where]}, title=f"Ping-pong {where}")
predict.compare("22.1", empty_message_us=typical[0])


# %% [markdown]
# ### Exercise 22.2 · Bandwidth, a window of messages
# In ping-pong one message is under way. Now rank 0 starts `window` sends, rank 1 as many receives, one into
# each row of `inbox`; both wait for all. Then rank 1 sends `reply`, which ends the round on rank 0: a send is
# over when its buffer is free again, only the receiver knows that all has arrived. About 13 lines.
#
# <details><summary>Hint 1: start all, then wait</summary>
#
# `requests = [comm.Isend(data, dest=1) for _ in range(window)]` on rank 0, on rank 1
# `[comm.Irecv(row, source=0) for row in inbox]`; then `for request in requests: request.Wait()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After the waits `comm.Recv(reply, source=1)` on rank 0, `comm.Send(reply, dest=0)` on rank 1. The rate to
# append, as in 22.1, is `window * nbytes / (clock() - start) / 1e6`.
# </details>

# %%
def bandwidth(comm, nbytes, rounds, skip, clock, window):
    """From rank 0 to rank 1, `window` messages in flight. Returns `rounds` values in MB/s (10^6 bytes)."""
    data = np.zeros(nbytes, np.uint8)
    inbox = np.zeros((window, nbytes), np.uint8)
    reply = np.zeros(4, np.uint8)
    rates = []
    raise NotImplementedError("exercise 22.2: Bandwidth, a window of messages")
    return rates


# %%
def try_windows(comm, nbytes, in_flight, held_up=0):
    comm = lab22.Interrupted(comm, held_up) if held_up else comm
    return bandwidth(comm, nbytes, rounds=20, skip=10, clock=comm.Wtime, window=in_flight)


# %%
# What is asked: all bytes of a window, over the time until the one reply, in 10^6 bytes per second.
with check("22.2"):
    link = virtual.Link(latency=0.8e-6, bandwidth=1e9, overhead=0.1e-6)  # α = latency + 2 overhead = 1 µs
    two = virtual.Cluster(nodes=2, machine=virtual.ideal().but(between=link, eager=512, handshake=5e-6))
    for nbytes, in_flight in ((500, 64), (1000, 64), (1000, 4)):
        run = two.run(try_windows, nbytes, in_flight)
        rates = run.results[0]
        got = np.median(rates)
        rest = 2e-6 + 4e-9 + (5e-6 if nbytes > 512 else 0)  # there and back, the reply's bytes, a handshake
        want = in_flight * nbytes / (in_flight * nbytes / 1e9 + rest) / 1e6
        case = f"On a virtual link of 1000 MB/s, {nbytes} bytes, {in_flight} in flight:"
        expect.equal(len(rates), 20, f"{case} the number of values, with rounds=20 and skip=10")
        case += f" {got:.6g} MB/s,"
        expect(
            got <= 1000, f"{case} more than the link carries. Did you time until the reply? In 10^6 bytes?"
        )
        expect(
            got > 0.7 * want, f"{case} not {want:.4g}. Are all started before the first Wait, and counted?"
        )
        slips = {"that is in units of 2^20 bytes; MB is 10^6": want / 1.048576}
        expect.close(got, want, f"{case} which is off", rtol=0.01, slips=slips)
        expect.equal(
            run.sent[0], in_flight * run.sent[1], f"{case} but not one reply a window: messages sent"
        )
    interrupted = two.run(try_windows, 500, 64, 640).results[0]
    expect(min(interrupted) > 1, "A warm-up round is among your values.")
    launch.run(benchmarks.sweep, bandwidth, (8, 65536), (9, 2), (9, 2), window=8, ranks=2)  # real ranks too

# %%
some = [n for n in sizes if 0 < n <= 1 << 20]
all_rates = launch.run(benchmarks.sweep, bandwidth, some, *window_rounds, window=window, ranks=pair)[0]
for where, rates in all_rates.items():
    typical = {n: float(np.median(rates[n])) for n in some}
    benchmarks.show(f"{where}: {window} messages in flight, median", "Bandwidth (MB/s)", typical)
    row = {"bytes": some, "MB_per_s": list(typical.values())}
    record.add("bandwidth", where=where, ranks=2, unit="MB/s", **row, **record.BY_MPI)
    curves = {"ping-pong, n / latency": {n: all_trips[where][n][1] for n in some}}
    curves[f"{window} in flight, per message"] = {n: n / 1e6 / np.array(rates[n]) for n in some}
    plots.bandwidth(curves, title=f"One message under way, or {window}, {where}")

# %% [markdown]
# The window pays the travel once, not once a message: inside a node little is won, between nodes much. Long
# messages may lose: 64 rows do not fit the cache, one ball does. (Wide bars: a busy machine. Run it again.)
#
# ### Predict
# At which message size does *ping-pong* reach half of its bandwidth?

# %%
predict("22.3", half_at_bytes=...)


# %% [markdown]
# ### Exercise 22.3 · α, β and n½
# Hockney's model: n bytes take **α + nβ**. α is the time of an empty message, 1/β the bandwidth of an endless
# one; **n½** is the size that reaches half of it: there α and nβ cost the same. Fit by least squares of the
# *relative* error, the sum of ((α + nβ - t) / t)²; of plain errors, 16 MiB alone would decide. About 3 lines.
#
# <details><summary>Hint 1: as a system of equations</summary>
#
# Divided by t, each measurement says α · (1/t) + β · (n/t) = 1. The numbers for which that is least wrong:
# `np.linalg.lstsq(columns, ones, rcond=None)[0]`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `columns = np.stack([1 / seconds, sizes / seconds], axis=1)`, `ones = np.ones(len(sizes))`. n½: α = n½ β.
# </details>

# %%
def fit(sizes, seconds):
    """(α in seconds, β in seconds per byte, n½ in bytes); sizes in bytes and seconds are arrays."""
    raise NotImplementedError("exercise 22.3: α, β and n½")


# %%
# What is asked: the line of least relative error, of exact times and of times that are up to 20% off.
with check("22.3"):
    n = 2.0 ** np.arange(25)
    for alpha, rate, noise in ((2e-6, 12e9, 0), (50e-6, 1e9, 0), (2e-6, 12e9, 0.2)):
        times = (alpha + n / rate) * (1 + noise * np.cos(2 * np.arange(25)))
        slope, start = np.polyfit(n, times, 1, w=1 / times)
        kind = "times 20% off (is each error divided by its own t?)" if noise else "exact times"
        wanted = (start, slope, start / slope)
        for name, got, want in zip(("α", "β", "n½"), fit(n, times), wanted, strict=True):
            expect.close(got, want, f"1/β = {rate:g} bytes/s, {kind}: your {name}", rtol=1e-3, atol=0)

# %%
steps = launch.run(benchmarks.sweep, benchmarks.step, (1024,), *trip_rounds, ranks=pair)[0]
for where, trips in all_trips.items():
    times = {n: seconds for n, (_, seconds) in trips.items()}
    medians = {n: median for n, (median, _) in trips.items()}
    one_line = scaling.fit_alpha_beta(times)
    two_lines = lab22.two_lines(medians, fit)
    print(f"{where}: one line, {one_line}\n{where}: two lines, {two_lines}")
    plots.bandwidth(times, model={"one line": one_line, "two lines": two_lines}, title=f"α + nβ, {where}")
    busy = 1e-6 / np.median(all_rates[where][1])  # seconds per 1-byte message of a window
    numbers = two_lines.numbers(medians, busy, step=steps[where][1024])
    record.add("link", where=where, ranks=2, **numbers, **record.BY_MPI)
predict.compare("22.3", half_at_bytes=one_line.half)


# %% [markdown]
# One line misses the *step* from eager messages to rendezvous (lab 20); two see it. At the right end MPI
# copies in another way, or the ball leaves the cache: no line holds. Has the curve its half at the line's n½?
#
# ### Exercise 22.4 · algbw and busbw of an allreduce
# `osu_allreduce` prints the mean time; nccl-tests divides: **algbw** = n / time, n bytes of a rank's vector.
# At least 2(p-1)/p · n must pass each rank's link (lab 21), so on equal links algbw falls with p. **busbw** =
# algbw · 2(p-1)/p is what a link carried: beside 1/β it grades the allreduce. About 4 lines.
#
# <details><summary>Hint 1: how many ranks?</summary>
#
# `seconds` has a row for each rank: `len(seconds)`. `np.mean(seconds)` is the mean over all of it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `algbw = nbytes / mean / 1e9`, and busbw is `algbw * 2 * (p - 1) / p`. The first of the three is in µs.
# </details>

# %%
def columns(seconds, nbytes):
    """An allreduce's (mean in µs, algbw in GB/s, busbw in GB/s). seconds: an array [rank, call]."""
    raise NotImplementedError("exercise 22.4: algbw and busbw of an allreduce")


# %%
# What is asked: the mean over calls and ranks, and both bandwidths from it, in 10^9 bytes per second.
with check("22.4"):
    for p in (2, 3, 4, 8, 1):
        seconds = 0.02 + 0.01 * np.arange(p)[:, None] + np.array([0, -0.003, 0.006])  # [rank, call]
        mean = seconds.mean()
        us, algbw, busbw = columns(seconds, 10**8)
        case = f"{p} ranks, 10^8 bytes, calls of {mean:.3g} s in the mean:"
        expect.close(us, mean * 1e6, f"{case} µs")
        expect.close(algbw, 0.1 / mean, f"{case} algbw in GB/s, of 10^9 bytes")
        expect.close(busbw, scaling.costs.busbw(0.1, mean, p), f"{case} busbw in GB/s")

# %%
# Across ranks: a barrier before each call, outside of the timed part, lets all begin together.
ranks = max(2, min(4, world.cores()))  # with fewer cores than ranks, most of the time is waiting for a core
per_rank = launch.run(benchmarks.allreduces, sizes[4:], *call_rounds, ranks=ranks)
p = len(per_rank)
seconds = {n: np.array([row[n] for row in per_rank]) for n in sizes[4:]}  # [rank, call] by size
rows = {n: columns(seconds[n], n) for n in seconds}
benchmarks.show(f"MPI's allreduce, {p} ranks", ("Avg Latency(us)", "algbw (GB/s)", "busbw (GB/s)"), rows)
row = {"bytes": list(rows), "us": [us for us, _, _ in rows.values()]}
record.add("allreduce", ranks=p, unit="us", **row, **record.BY_MPI)
slowest = {"slowest rank": {n: seconds[n].max(axis=0) for n in seconds}}
plots.bandwidth(slowest, factor=2 * (p - 1) / p, what="busbw", title=f"MPI's allreduce on {p} ranks")

# %%
added = launch.run(benchmarks.additions, [n for n in sizes if n >= 8192], ranks=pair)[0]
record.add("addition", speed=scaling.fit_alpha_beta(added).bandwidth, bytes=list(added), unit="bytes/s")
print(*(benchmarks.osu(tool, 2) for tool in ("osu_latency", "osu_bw", "osu_allreduce")), sep="\n")
print(virtual.machine("here").name)

# %% [markdown]
# Which part of 1/β does the best busbw reach? Labs 23 to 26 read the last line, what you measured here.
# ### What you take away
# - Latency: half a round trip, after warm-up, as a median. Bandwidth: many messages in flight, and a reply.
# - n bytes take α + nβ: below n½ = α/β messages count, above it bytes. A line misses the step and the cache.
# - algbw is what the user sees, busbw = 2(p-1)/p of it what a link carried. Ask which is quoted.
# - Next: lab 23 builds the allreduce for long vectors, lab 24 those for short ones.
