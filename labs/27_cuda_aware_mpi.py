# %% [markdown]
# <!-- Generated from solutions/27_cuda_aware_mpi.py by `make labs`. Learners work on a copy in work/. -->
# # 27 CUDA-aware MPI
#
# Gradients lie in a GPU's memory, and a plain MPI cannot read that. You send them by way of the
# host, then in chunks so that copies and messages overlap, and find out when MPI may be given the
# device's memory itself.
#
# **You will be able to** (1) stage an exchange through pinned host memory, (2) pipeline it with two
# buffers, (3) ask for a proof before you hand an MPI device memory, and, if you have time left, (4)
# choose way and chunk by size.
#
# Needs: mpi · Ranks: 2 · Minutes: 50 · Level: intermediate · Before: 20, 22, 23

# %%
import itertools
from math import sqrt

import numpy as np
import virtual
from labkit import check, hint, lab, launch, plots, predict, record, scaling, world
from support import lab27

lab.start("27_cuda_aware_mpi")

# %% tags=["parameters"]
copy_start = (
    4e-4  # seconds until a copy of the stand-in device moves its first byte; a GPU takes some 1e-5
)
copy_rate = (
    2.5e8  # bytes per second of the stand-in's copies; over PCIe 3.0 x16 a GPU reaches some 1e10
)
longest = 1 << 24  # bytes of the longest message on real ranks (16 MiB)
slow_read = 1e9  # bytes per second of a network card that reads a GPU slowly (last part); assumed

# %% [markdown]
# ### A device, and what stands in for it
# `device` is this rank's GPU. Where there is none, it is a **stand-in**: memory that the host
# cannot touch, behind copies that really move the bytes, at a fortieth of a GPU's pace. Every plot
# and record says which.
#
# A copy is *started*, and later waited for:
#
#     copy = device.to_host(host, memory)    # begins to copy device memory into host memory; returns at once
#     copy.wait()                            # comes back when the copy is over
#     device.to_device(memory, host).wait()  # the other way: begun, and waited for at once
#
# Leave both ends alone until the wait is over. Each direction has an *engine* of its own, which
# does one copy after another, while the program goes on.
#
# The host's end has to be *pinned*: memory that the system promises not to move. Getting it takes
# long, so your functions are given theirs, once. Slices (`memory[a:b]`) are views, not copies.
#
# ### Predict
# The stand-in copies 0.25 GB/s, and a message between two ranks of a node moves some 4 GB/s. A copy
# to the host, a message, a copy to the device: how many times as long as the message alone is that?

# %%
predict("27.1", staged_over_host=...)


# %% [markdown]
# ### Exercise 27.1 · Staged through the host
# Every rank sends its device memory `out` to rank `dest`, and fills its device memory `into` with
# what rank `source` sends. Plain MPI can do that with host memory only. So: to the host, exchange,
# to the device.
#
# `outbox` and `inbox` are pinned, and as long as `out` and `into`. All send and receive at once,
# which one call of MPI does ([lab 20](20_ranks_and_messages.ipynb)):
# `comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)`. 3 lines. *(beginner)*
#
# <details><summary>Hint 1: the order</summary>
#
# `out` to `outbox`, then the exchange, then `inbox` to `into`. Each step needs what the one before
# has finished.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Before it, `device.to_host(outbox, out).wait()`. Without `.wait()` you send what was in `outbox`
# before.
# </details>

# %%
def staged(comm, device, out, into, outbox, inbox, dest, source):
    """Send device memory `out` to dest; fill device memory `into` with what source sends."""
    raise NotImplementedError("exercise 27.1: Staged through the host")


# %%
ranks = launch.ranks_here(2)
here = {"start": copy_start, "rate": copy_rate}  # of the stand-in, where there is no GPU

# %%
# Asked: The right bytes arrive, without waste, round a ring of 1 to 5 virtual
# ranks and on real ranks.
check("27.1", staged)

# %% [markdown]
# ### Predict
# While the message of 27.1 travels, both engines sleep. So cut it into chunks: while one chunk
# travels, the next is copied to the host, and the one before to the device.
#
# | time | to host | message | to device |
# |---|---|---|---|
# | 1 | chunk 0 | | |
# | 2 | chunk 1 | chunk 0 | |
# | 3 | chunk 2 | chunk 1 | chunk 0 |
# | 4 | chunk 3 | chunk 2 | chunk 1 |
# | 5 | | chunk 3 | chunk 2 |
# | 6 | | | chunk 3 |
#
# The first chunk takes its three steps one after another. Then a chunk is ready whenever the
# slowest step has done one more: **T = the sum of a chunk's three steps + (k - 1) × the slowest**,
# for k chunks.
#
# Let copies be as fast as messages, and no step take time to start. How many times as fast as one
# piece are 10 chunks?

# %%
predict("27.2", times_as_fast=...)


# %% [markdown]
# ### Exercise 27.2 · Pipelined staging
# `outbox` and `inbox` now have two halves of one chunk each, which take turns. `half(outbox, i)` is
# the one for chunk i, cut to its length. `pieces[i]` is chunk i's place in `out` and `into`.
#
# Chunks i and i + 2 use the same half. So before a half is used again, wait until its last user is
# done. Copies have `wait()`. `comm.Irecv(buffer, source=…)` and `comm.Isend(buffer, dest=…)` return
# requests, which have `Wait()`.
#
# The copy of chunk 0 to the host is started for you: `copy`. Then, for each chunk i, in this order:
#
# | | wait for | then begin |
# |---|---|---|
# | 1 | if i > 1: `landed[i - 2]`, a copy from this half | `Irecv` into `half(inbox, i)` |
# | 2 | `copy`: this chunk is on the host | `Isend` of `half(outbox, i)`; append it to `sent` |
# | 3 | if i > 0: `sent[i - 1]`, from the next half | the *next* chunk's copy to the host: the new `copy` |
# | 4 | the `Irecv` of row 1 | this chunk's copy to the device; append it to `landed` |
#
# The last chunk has no next: it has no row 3. After the loop, wait for all of `sent` and of
# `landed`. To wait a second time for what is over does no harm.
#
# Why does row 3 come before row 4? While you wait in row 4, MPI moves the message ([lab 36](36_progress.ipynb)), and the
# engine copies the next chunk. About 13 lines. *(advanced)*
#
# <details><summary>Hint 1: rows 1 and 2</summary>
#
# `if i > 1:` wait for `landed[i - 2]`. Then `coming = comm.Irecv(half(inbox, i), source=source)`.
# Then `copy.wait()` and `sent.append(comm.Isend(half(outbox, i), dest=dest))`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Row 3 stands below `if i + 1 < len(pieces):`, its wait below `if i > 0:`. It ends in
# `copy = device.to_host(half(outbox, i + 1), out[pieces[i + 1]])`. Row 4 is `coming.Wait()` and
# `landed.append(device.to_device(into[pieces[i]], half(inbox, i)))`.
# </details>

# %%
def pipelined(comm, device, out, into, outbox, inbox, dest, source):
    """As `staged`, but in chunks. outbox, inbox: two rows of one chunk each."""
    chunk = outbox.shape[1]
    pieces = [slice(at, min(at + chunk, len(out))) for at in range(0, len(out), chunk)]

    def half(box, i):
        return box[i % 2][: pieces[i].stop - pieces[i].start]

    sent, landed = [], []  # by chunk: requests of Isend, copies to the device
    copy = device.to_host(half(outbox, 0), out[pieces[0]])
    raise NotImplementedError("exercise 27.2: Pipelined staging")


# %%
# Asked: The right bytes arrive in chunks, without waste, whichever step is the
# slowest, and on real ranks faster than staged.
check("27.2", pipelined)

# %%
# What is busy when: 1 MB on a virtual rank, staged in one piece and cut into 10; no step takes time
# to start.
no_start = {"copy": (0, 1e-9), "link": (1e-12, 1e-9), "trace": True}
whole = lab27.trial(staged, 2, 10**6, **no_start)
cut = lab27.trial(pipelined, 2, 10**6, 10**5, **no_start)
rows = lab27.busy(whole, "staged") | lab27.busy(cut, "cut")
plots.lanes(rows, title="Cut into chunks, copies and messages overlap")
one_step = 1e6 * 1e-9  # seconds of 1 MB in each step
predict.right("27.2", times_as_fast=3 * one_step / ((3 + 9) * one_step / 10))
print(f"yours, on the virtual rank's clock: {whole.time / cut.time:.2f} times as fast")

# %% [markdown]
# **Explain.** Above, each row waits for the one before it. Below, the three are busy at the same
# time, but for the first and the last chunk: they are why it is 2.5 and not 3.

# %% [markdown]
# ### May this MPI have device memory?
# A *CUDA-aware* MPI takes it as it is, `comm.Send(memory, …)`: mpi4py hands on the address. An MPI
# that is not would read there as if it were the host's, and crash, or worse. So ask for a proof, by
# two answers.
#
# **Was it built so?** `MPIX_Query_cuda_support()` says yes or no. Some libraries have no such
# function, and Cray MPICH need not answer. **Is it switched on?** Each family has a variable of its
# own:
#
# | library | variable | if it is unset |
# |---|---|---|
# | MVAPICH2, MVAPICH2-GDR | `MV2_USE_CUDA` | off, even where it was built for GPUs |
# | MVAPICH 3, 4, MVAPICH-Plus | `MVP_ENABLE_GPU` | on |
# | Cray MPICH | `MPICH_GPU_SUPPORT_ENABLED` | off |
# | MPICH | `MPIR_CVAR_ENABLE_GPU` | on |
# | Open MPI 4 | `OMPI_MCA_opal_cuda_support`, and files | on |
#
# conda-forge's Open MPI is built for CUDA, and its file switches that off. Open MPI 5 has no
# switch, and its answer is about this very run. `lab27.why_not` asks both questions. (Labs [42](42_horovod_mvapich2_gdr.ipynb) and
# [46](46_three_libraries.ipynb) prove that it is so.)

# %%
reason = launch.run(lab27.why_not, ranks=ranks)[0]
print("May it have device memory?", f"No: {reason}." if reason else "Yes.")

# %% [markdown]
# ### Measure
# All ways between two ranks, and the steps of staging, each alone. If the answer was yes and there
# is a GPU, `lab27.direct` joins in: a `Sendrecv` of device memory. MPI does not know what work the
# GPU still has before it, so `direct` waits first until the GPU is idle. When does cutting pay?
# About half a minute.

# %%
ways = {"staged": (staged, None), "pipelined": (pipelined, 1 << 20)}  # function, bytes of a chunk
if not reason and world.device().startswith("cuda"):
    ways["device buffers"] = (lab27.direct, None)
sizes = [n for n in (1024, 16384, 262144, 1 << 20, 1 << 22) if n < longest] + [longest]
races, name = launch.run(lab27.race, sizes, ways | lab27.STEPS, **here, ranks=ranks)[0]
for where, times in races.items():
    raced = {way: times[way] for way in [*ways, "message"]}
    plots.bandwidth(raced, title=f"Staging pays for copies; {name}, {where}")
    for way, n in itertools.product(times, sizes):
        path = "no" if way == "device buffers" else "through the host"
        place = {"device": name, "staged": path, "library": "MPI"}
        record.add(
            "exchange", way=way, where=where, bytes=n, seconds=times[way][n], ranks=2, **place
        )
    median = {way: times[way][longest].median for way in times}
    slowest_step = max(median[step] for step in lab27.STEPS)
    print(f"{where}, {longest / 2**20:g} MiB, in times of the slowest step:", end=" ")
    print(
        f"staged {median['staged'] / slowest_step:.2f}, pipelined"
        f" {median['pipelined'] / slowest_step:.2f}"
    )
predict.compare("27.1", staged_over_host=median["staged"] / median["message"])


# %% [markdown]
# **Explain.** You should see: a staged message takes the sum of its steps, two copies and hardly
# more. A pipelined one comes near its slowest step, one copy, once the message has several chunks
# (of 1 MiB here); shorter messages are one chunk, and there both ways are the same.
#
# You may see instead: *pipelined* further from its slowest step, 1.2 times and more. Then perhaps
# the ranks share cores, and whoever should start the next copy waits for one.
#
# Why, by T, would a faster network not help the stand-in?
#
# <details><summary>Answer</summary>
#
# The slowest step sets the pace, and that is the copy. Real GPUs copy at some 10 GB/s and more,
# about as fast as a good network, so there all three steps count.
# </details>
#
# ### What you take away
# - Staging takes the sum of its steps. Pipelined, it takes little more than its slowest step.
# - Built for CUDA is not switched on: ask the library *and* the environment. MVAPICH2 wants
#   `MV2_USE_CUDA=1`.
#
# ## Going further: which chunk, which way?
# This part is not in the minutes of the lab. It takes about 25 more.
#
# ### Exercise 27.3 · Choose the way and the chunk
# Large chunks overlap little; small ones pay the start of each step often. What is best? `steps`
# holds (start, seconds per byte) of the three. Let
#
# - a be the start of the step with most seconds per byte, the slowest;
# - r be what the *other two* together take per byte.
#
# Of T only **ka + nr/k** depends on k, the number of chunks: k starts of the slowest step, and one
# chunk's time in the others. It is least where both are equal, k = sqrt(nr/a). So a chunk has **n/k
# = sqrt(na/r)** bytes.
#
# Return the bytes of a chunk: a whole number (`round`), at least 1 and at most n. But return 0 if
# `direct` (start, seconds per byte), device memory to MPI in one piece, is faster. T is
# `lab27.pipeline_time(nbytes, k, steps)`. 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: the chunk</summary>
#
# The slowest step is `start, slow = max(steps, key=lambda step: step[1])`. `max(1, min(nbytes, …))`
# keeps a number from 1 to n.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `rest = sum(per_byte for _, per_byte in steps) - slow`. Compare `direct[0] + nbytes * direct[1]`
# with `lab27.pipeline_time(nbytes, nbytes / chunk, steps)`.
# </details>

# %%
def choose(nbytes, steps, direct=None):
    """Bytes per chunk for staging nbytes, or 0: hand the MPI device memory."""
    raise NotImplementedError("exercise 27.3: Choose the way and the chunk")


# %%
# Asked: T is least for your chunks, and you return 0 where `direct` is faster
# than these, but only there.
check("27.3", choose)

# %%
# T beside your pipeline, the longest message in chunks of several lengths; about 20 s.
chunks = [longest >> power for power in (8, 6, 5, 4, 3, 2, 0)]
tried = {chunk: (pipelined, chunk) for chunk in chunks}
cut_races, name = launch.run(lab27.race, [longest], tried, **here, ranks=ranks)[0]
for where, times in races.items():
    steps = []
    for step in lab27.STEPS:  # its start: the least time of 1 KiB, as no line fits every network
        start = min(times[step][1024].samples)
        steps.append((start, scaling.fit_alpha_beta(times[step]).beta))
    model = {
        chunk / 1024: 1e3 * lab27.pipeline_time(longest, longest / chunk, steps) for chunk in chunks
    }
    yours = {chunk / 1024: 1e3 * cut_races[where][chunk][longest].samples for chunk in chunks}
    title = f"Which chunk is best? {name}"
    curves = {"T, computed": model, "yours, measured": yours}
    plots.lines(curves, title=title, xlabel="chunk (KiB)", ylabel="time (ms)", logx=True)
    print(f"{where}: by your formula {choose(longest, steps) / 1024:.4g} KiB")

# %% [markdown]
# **Explain.** You should see a curve that falls, has a flat bottom at about the length of your
# formula, and rises to the right end, one chunk. Measured times lie somewhat above T, perhaps
# because a rank needs a moment between the steps.
#
# The bottom is flat: half or twice the best chunk costs some percent. So libraries can do with one
# fixed length.
#
# ### Ways past the host
# With **GPUDirect RDMA** the network card itself reads and writes the GPU's memory: one step.
# NVIDIA measured 6.39 GB/s so (manual of GPUDirect RDMA 1.8). It names no card; we take FDR
# InfiniBand, which carries 6.8 GB/s. But some servers let a card read a GPU slowly: say, at
# `slow_read`.
#
# **GDRCopy** maps the GPU's memory into the program's address space, so that the CPU itself reads
# and writes it. It starts at once, where an engine takes 6 to 7 µs. But each of the CPU's reads
# goes to the GPU and back.
#
# The next cells **compute** times from published ones, of several machines. The CPU copies 128
# bytes to the host in 3.5 µs, 2 KiB in 5.6 µs, 4 KiB in 10.5 µs, 8 KiB in 17.8 µs (GDRCopy's
# README, a P100). An engine takes 6.5 µs and 0.1 ns a byte (a K40, an older GPU). The link takes 5
# µs (an estimate) and 0.16 ns a byte.
#
# ### Predict
# Up to which power of two of bytes is the CPU faster to the host than an engine? And up to which is
# RDMA at `slow_read`, 1 ns a byte, faster than the best chunks? (Short messages are one chunk: two
# copies and a message.)

# %%
predict("27.3", cpu_to_host_bytes=..., slow_rdma_bytes=...)

# %%
# The time of each way, computed.
sizes = [1 << power for power in range(7, 28)]
link = virtual.machine("k80_fdr").between
engine = lab27.COPY_ENGINE
network = (link.latency, link.beta)
slow_network = (link.latency, 1 / slow_read)
steps = [engine, network, engine]
paths = {
    "GDRCopy": {
        n: seconds + lab27.pipeline_time(n, 1, [network]) + lab27.CPU_TO_DEVICE[n]
        for n, seconds in lab27.CPU_TO_HOST.items()
    },
    "RDMA": {n: lab27.pipeline_time(n, 1, [network]) for n in sizes},
    "RDMA, slow reads": {n: lab27.pipeline_time(n, 1, [slow_network]) for n in sizes},
    "staged": {n: lab27.pipeline_time(n, 1, steps) for n in sizes},
    "best chunks": {n: lab27.pipeline_time(n, n / choose(n, steps), steps) for n in sizes},
}
plots.bandwidth(paths, title="From GPU to GPU over FDR InfiniBand (computed)")
by_cpu = [
    n for n, seconds in lab27.CPU_TO_HOST.items() if seconds < lab27.pipeline_time(n, 1, [engine])
]
by_rdma = [n for n in sizes if choose(n, steps, slow_network) == 0]
predict.right("27.3", cpu_to_host_bytes=max(by_cpu), slow_rdma_bytes=max(by_rdma, default=0))
for n in (10**6, 10**7, 10**8):
    fixed = lab27.pipeline_time(n, n / 262144, steps)
    share = fixed / lab27.pipeline_time(n, n / choose(n, steps), steps) - 1
    print(f"{n:.0e} bytes: chunks of 262144 bytes take {100 * share:.0f} % longer than the best")

# %% [markdown]
# **Explain.** In the left plot, RDMA takes the least time wherever the card reads fast. Where it
# reads slowly, only short messages gain: they have few bytes to read slowly, and save the starts of
# two copies.
#
# GDRCopy beats the engines (*staged*) for short messages, but never RDMA. Libraries use it for
# short messages all the same, because RDMA has costs that our model leaves out: memory has to be
# registered with the card, and both sides have to agree on the place.
#
# Such limits ship with the libraries:
#
# | library | variable | default | what happens above |
# |---|---|---|---|
# | MVAPICH-Plus | `MVP_GDRCOPY_MAX_SIZE_D2H`, `…_H2D` | 2048, 32768 | no copies by the CPU |
# | MVAPICH2-GDR 2.3.7 | `MV2_GDRCOPY_LIMIT` | 8192 | no copies by the CPU |
# | the same | `MV2_GPUDIRECT_LIMIT` | 8192 | the card does not read the sender's GPU |
# | the same | `MV2_USE_GPUDIRECT_RECEIVE_LIMIT` | 131072 | the card does not write the receiver's GPU |
# | the same | `MV2_CUDA_BLOCK_SIZE` | 262144 | (the bytes of a chunk) |
#
# MVAPICH2-GDR's are as its guide lists them, and nominal: the library sets others by the machine
# that it finds. GDRCopy's library has to be found, by `MV2_GPUDIRECT_GDRCOPY_LIB` or in
# `LD_LIBRARY_PATH`.
#
# For which n is a chunk c of 262144 bytes the best?
#
# <details><summary>Answer</summary>
#
# From c = sqrt(na/r) follows n = c²r/a. With the numbers above the slowest step is the link, a = 5
# µs, and r is 0.2 ns, two copies: n is 2.7 MB. The printed lines say what a library loses that
# cannot change its chunk: a few percent from 1 to 10 MB, as the bottom is flat, and more far away.
# </details>
#
# ### What you take away from this part
# - The best chunk has sqrt(na/r) bytes, twice as many for 4n. The bottom is flat.
# - By size: RDMA where the card reads fast. Where it reads slowly, RDMA for short messages and
#   chunks through the host for long ones. Without RDMA, the CPU's copies beat the engines for the
#   shortest.
