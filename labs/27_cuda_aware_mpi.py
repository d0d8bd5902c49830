# %% [markdown]
# <!-- Generated from solutions/27_cuda_aware_mpi.py by `make labs`. Learners work on a copy in work/. -->
# # 27 CUDA-aware MPI
#
# When a network is trained on GPUs, its [gradients](../labs/GLOSSARY.md#gradient) are in the memory of a GPU, and a plain [MPI](../labs/GLOSSARY.md#MPI)
# library (MPI is the Message Passing Interface) cannot read that memory. The simplest solution is
# to copy the gradients to the host, send them from there, and copy what arrives back to the GPU.
# This works everywhere, but the two copies can cost more than the message. An MPI library that is
# *CUDA-aware* accepts GPU memory directly. If a program passes GPU memory to any other library, the
# program can crash or send wrong values.
#
# In this lab we copy GPU memory to the host and send the copy (*[staging](../labs/GLOSSARY.md#staging)*), first in one piece, and
# then in a pipeline in which copies and messages overlap. After that we ask an MPI library whether
# it accepts GPU memory. You don't need a GPU, because an emulated device takes its place.
#
# **After this lab you can** (1) stage an exchange through pinned host memory, (2) pipeline it with
# two buffers, (3) name the two questions to ask an MPI library before you pass device memory to it,
# and (4, in the optional part) choose the way and the chunk by size.
#
# ![Above: a message between two GPUs is copied to host memory, sent, and copied to the other GPU, or sent directly by a CUDA-aware MPI. Below: in one piece the three steps follow each other, and in four chunks they overlap and take half the time](../notebooks/figures/27_staging.svg)
#
# *Above: plain MPI sends host memory, so two copies are necessary, while a CUDA-aware MPI library
# takes the memory of the GPU. Below: the three steps over time, if each takes equally long.*
#
# Needs: mpi · Ranks: 2 · Minutes: 45 · Level: intermediate · Before: 20, 22, 23

# %%
import itertools
from math import sqrt

import numpy as np
import virtual
from labkit import check, hint, lab, launch, plots, predict, record, scaling, world
from support import lab27

lab.start("27_cuda_aware_mpi")

# %% tags=["parameters"]
copy_start = 4e-4  # seconds until an emulated device's copy moves its first byte; a GPU: some 1e-5
copy_rate = 2.5e8  # bytes per second of its copies; over PCIe 3.0 x16 a GPU reaches some 1e10
longest = 1 << 24  # bytes of the longest message on real ranks (16 MiB)
slow_read = 1e9  # bytes per second of a network card (NIC) with slow reads from a GPU; assumed

# %% [markdown]
# ## The device, and what takes its place
# The variable `device` is the GPU of this [rank](../labs/GLOSSARY.md#rank). Where there is no GPU, it is an **emulated
# device**, which plots and records call a *stand-in*. The host cannot touch its memory, and its
# copies really move the bytes, at about a fortieth of the speed of a GPU.
#
# Your program starts a copy, and a later call waits for it:
#
#     copy = device.to_host(host, memory)    # begins to copy device memory into host memory; returns at once
#     copy.wait()                            # comes back when the copy is over
#     device.to_device(memory, host).wait()  # the other way: begun, and waited for at once
#
# Until the wait has returned, your program must not change the source of the copy or use its
# target. Each direction has its own *copy engine*, which does one copy after another while the
# program continues.
#
# The host memory of such a copy has to be *pinned*, which means that the operating system promises
# not to move it. Allocating pinned memory takes long, so your functions get theirs as arguments,
# allocated once. All lengths are in bytes, and slices (`memory[a:b]`) are views and not copies.
#
# ### Predict
# How many times as long as the message alone do a copy to the host, a message and a copy to the
# device take together? The emulated device copies at 0.25 GB/s, and a message between two ranks of
# a node travels at about 4 GB/s. For example, with copies at 1 GB/s and messages at 2 GB/s, a byte
# takes 1 + 0.5 + 1 = 2.5 ns, which is 5 times as long as the message alone.

# %%
predict("27.1", staged_over_host=...)


# %% [markdown]
# ### Exercise 27.1 · Staged through the host
# Write an exchange in which every rank sends its device memory `out` to rank `dest`, and fills its
# device memory `into` with what rank `source` sends. Because plain MPI can only send and receive
# host memory, the exchange has three parts: copy to the host, exchange there, and copy to the
# device.
#
# `outbox` and `inbox` are pinned host memory and as long as `out` and `into`. All ranks send and
# receive at the same time, for which MPI has a single call ([lab 20](20_ranks_and_messages.ipynb)):
# `comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)`. This takes 3 lines. *(beginner)*
#
# <details><summary>Hint 1: the order</summary>
#
# Copy `out` to `outbox`, then exchange, then copy `inbox` to `into`. Each step needs the result of
# the step before, so wait for it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Before the exchange, call `device.to_host(outbox, out).wait()`. Without `.wait()` you would send
# the old values of `outbox`.
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
# ## Copies and messages at the same time
# Can we do better than one step after another? While the message of exercise 27.1 is on its way,
# both copy engines are idle, and while a copy runs, the link is idle. If we cut the vector into
# chunks, all three can work at the same time. Here are 4 chunks:
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
# The first chunk goes through its three steps one after another. After that, one more chunk is
# finished each time the slowest step has processed one, so k chunks take
#
# **T = the sum of a chunk's three steps + (k − 1) × the slowest step**
#
# In the table each step takes a quarter of the time t that it takes for the whole vector, so T is
# 3t/4 + 3 · t/4 = 1.5 t. In one piece, the three steps take 3t, so 4 chunks are 2 times as fast.
#
# ### Predict
# How many times as fast are 10 chunks as one piece, if copies are as fast as messages and no step
# takes time to start?

# %%
predict("27.2", times_as_fast=...)


# %% [markdown]
# ### Exercise 27.2 · Pipelined staging
# Now `outbox` and `inbox` have room for two chunks. Each consists of two *halves* as long as one
# chunk, which are used in turns.
# `half(outbox, i)` is the half for chunk i, cut to the length of this chunk, and `pieces[i]` is the
# place of chunk i in `out` and `into`.
#
# Chunks i and i + 2 use the same half, so before you use a half again, wait until its last use is
# finished. With three chunks, `outbox` contains the following:
#
# | | half 0 | half 1 |
# |---|---|---|
# | chunk 0 is sent, chunk 1 is copied to the host | chunk 0 | chunk 1 |
# | chunk 1 is sent, chunk 2 is copied to the host | chunk 2, once chunk 0 has been sent | chunk 1 |
#
# A copy has a `wait()` method. `comm.Irecv(buffer, source=…)` and `comm.Isend(buffer, dest=…)`
# return requests, which have a `Wait()` method. The copy of chunk 0 to the host has already been
# started for you and is called `copy`. Then do the following for each chunk i, in this order:
#
# | | wait for | then begin |
# |---|---|---|
# | 1 | if i > 1: `landed[i - 2]`, the copy to the device from this half of `inbox` | `Irecv` into `half(inbox, i)` |
# | 2 | `copy`: this chunk is on the host | `Isend` of `half(outbox, i)`; append it to `sent` |
# | 3 | if i > 0: `sent[i - 1]`, because chunk i − 1 used the half into which chunk i + 1 is copied next | the *next* chunk's copy to the host: the new `copy` |
# | 4 | the `Irecv` of row 1 | this chunk's copy to the device; append it to `landed` |
#
# The last chunk has no next chunk, so it has no row 3. After the loop, wait for all requests in
# `sent` and for all copies in `landed`. Waiting a second time for something that has finished does
# no harm.
#
# Row 3 comes before row 4 so that the next chunk is copied while you wait for the message in row 4.
# This takes about 13 lines. *(advanced)*
#
# <details><summary>Hint 1: rows 1 and 2</summary>
#
# Wait for `landed[i - 2]` below `if i > 1:`. Then write
# `coming = comm.Irecv(half(inbox, i), source=source)`. After `copy.wait()` follows
# `sent.append(comm.Isend(half(outbox, i), dest=dest))`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Row 3 is below `if i + 1 < len(pieces):`, and its wait is below `if i > 0:`. It ends with
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

# %% [markdown]
# The next cell runs `staged` and `pipelined` on virtual ranks, with 1 MB in one piece and in 10
# chunks. No step takes time to start. The plot shows when rank 0 is busy with each step.

# %%
no_start = {"copy": (0, 1e-9), "link": (1e-12, 1e-9), "trace": True}
whole = lab27.trial(staged, 2, 10**6, **no_start)
cut = lab27.trial(pipelined, 2, 10**6, 10**5, **no_start)
rows = lab27.busy(whole, "staged") | lab27.busy(cut, "cut")
plots.lanes(rows, title="Cut into chunks, copies and messages overlap")
one_step = 1e6 * 1e-9  # seconds of 1 MB in each step
predict.right("27.2", times_as_fast=3 * one_step / ((3 + 9) * one_step / 10))
print(f"yours, on the virtual rank's clock: {whole.time / cut.time:.2f} times as fast")

# %% [markdown]
# **Explain.** Each row of the plot shows when a copy engine or the link was busy. In the upper
# three rows, where the message is sent in one piece, each step waits for the previous one. In the
# lower three rows the steps overlap, except for the first and the last chunks. According to T, 10
# chunks take 3t/10 + 9 · t/10 = 1.2 t, so the pipeline is 3 / 1.2 = 2.5 times as fast, and not 3
# times.

# %% [markdown]
# ## Does this MPI library accept device memory?
# Staging works with every MPI library. A *CUDA-aware* library also accepts device memory as it is,
# in `comm.Send(memory, …)`, where mpi4py passes on its address. Any other library would use this
# address as if it belonged to host memory. A program should therefore ask two questions first:
#
# 1. **Was the library built with CUDA support?** In C, the function `MPIX_Query_cuda_support()`
#    returns 1 or 0, if the library has it. The lines below call it from Python.
# 2. **Is the support switched on?** Each family of libraries has its own environment variable for
#    this. MVAPICH2-GDR, for example, is built for GPUs, but accepts device memory only with
#    `MV2_USE_CUDA=1`.
#
# In Python the two questions look like this, once MPI runs. Here `file` is the MPI library that the
# program has loaded, such as `libmpi.so`:
#
#     library = ctypes.CDLL(file)
#     built = hasattr(library, "MPIX_Query_cuda_support") and library.MPIX_Query_cuda_support()
#     switched_on = os.environ.get("MV2_USE_CUDA") == "1"  # of MVAPICH2-GDR
#
# <details><summary>The switches of other libraries</summary>
#
# | library | variable | if it is unset |
# |---|---|---|
# | MVAPICH2, [MVAPICH2-GDR](https://mvapich.cse.ohio-state.edu/userguide/gdr/) | `MV2_USE_CUDA` | off, even where it was built for GPUs |
# | [MVAPICH](https://mvapich.cse.ohio-state.edu) 3, 4, MVAPICH-Plus | `MVP_ENABLE_GPU` | on |
# | Cray MPICH | `MPICH_GPU_SUPPORT_ENABLED` | off |
# | [MPICH](https://www.mpich.org) | `MPIR_CVAR_ENABLE_GPU` | on |
# | [Open MPI](https://docs.open-mpi.org/en/main/tuning-apps/networking/cuda.html) 4 | `OMPI_MCA_opal_cuda_support`, or `openmpi-mca-params.conf` | on |
# </details>
#
# The function `lab27.why_not` asks both questions, for MVAPICH2-GDR and the libraries of the table
# above. If it does not know a library, its answer is No. The answers are only what a library
# reports about itself, so labs [42](42_horovod_mvapich2_gdr.ipynb) and [46](46_three_libraries.ipynb) check them with a real transfer. On a machine without a
# GPU you normally see "No", with the reason.

# %%
reason = launch.run(lab27.why_not, ranks=ranks)[0]
print("May it have device memory?", f"No: {reason}." if reason else "Yes.")

# %% [markdown]
# ### Measure: staged, pipelined, and direct
# From which size on is it worth cutting the message? The next cell times all ways of sending
# between two ranks, and also each step of staging by itself. If the answer above was yes and there
# is a GPU, it also times `lab27.direct`, a `Sendrecv` of device memory. This takes about half a
# minute.
#
# The plots show the time and the bytes per second of each way, and *message* is the message without
# copies. The line below the plots compares the longest message with its slowest step. For
# example, with copies of 68 ms and a message of 4 ms, staging takes 68 + 4 + 68 = 140 ms, which is
# 2.06 times the slowest step.

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
# **Explain.** You should see that a staged message takes the sum of its steps, which on the
# emulated device is little more than two copies. The pipeline is faster as soon as the message
# consists of several chunks (of 1 MiB here). Shorter messages fit into a single chunk, so both ways
# are equally fast for them.
#
# According to T, the 16 chunks of 16 MiB take as long as 17 copies and a message of 1 MiB. On the
# emulated device these are 17 · 4.59 + 0.26 = 78.3 ms, or 1.16 times the slowest step, which is one
# copy of 67.5 ms. If your pipeline takes clearly longer, a rank probably had to wait for a core
# before it could start the next copy.
#
# For prediction 27.1, a byte takes 4 + 0.25 + 4 = 8.25 ns, which is 33 times as long as the message
# alone at 4 GB/s. You may measure less if other programs on these cores slow down the message, by
# which we divide.
#
# Would a faster network make the pipeline faster on the emulated device?
#
# <details><summary>Answer</summary>
#
# Hardly. Only the first chunk's message would take less time, because each further chunk takes as
# long as the slowest step, and on the emulated device this is the copy. Real GPUs copy at some 10
# GB/s and more, about as fast as a good network sends, so either step can be the slowest there.
# </details>
#
# ### What you take away
# - A staged message takes the sum of its three steps, and a pipelined message of many chunks takes
#   little more than its slowest step.
# - A library that was built for CUDA might still have its support switched off, so ask the library
#   *and* look at the environment. MVAPICH2-GDR needs `MV2_USE_CUDA=1`.
#
# ## Going further (optional): which chunk, which way?
# The time stated for this lab does not include this part, which takes about 25 minutes more.
#
# ### How long should a chunk be?
# Long chunks overlap little, and short chunks pay for the start of each step many times. The best
# length lies in between, and T tells us where. Each step has a start in seconds, and seconds per
# byte. Let
#
# - a be the start of the step with the most seconds per byte, which is the slowest one unless
#   chunks are very short, and s its seconds per byte,
# - r be the seconds per byte that the *other two* steps take together.
#
# A chunk has n/k bytes, so its three steps take the sum of all three starts plus (r + s) · n/k.
# With the other k − 1 chunks in the slowest step, T is
#
# T = starts + (r + s) · n/k + (k − 1)(a + s · n/k)
#
# Multiplied out, s · n/k cancels, and only **ka + nr/k** depends on k. This sum is smallest if both
# terms are equal, so k = √(nr/a), and a chunk has **n/k = √(na/r)** bytes. With a = 10 µs and
# r = 0.1 ns, for example, a message of 1 MB should be cut into chunks of √(10⁶ · 10⁻⁵ / 10⁻¹⁰) =
# 316,000 bytes.
#
# ### Exercise 27.3 · Choose the way and the chunk
# Write `choose`, which returns the number of bytes of a chunk as a whole number (use `round`), at
# least 1 and at most n. The list `steps` contains (start, seconds per byte) of the three steps. If
# `direct` is given, it contains the same two numbers for passing device memory to MPI in one piece.
# Return 0 if this is faster than staging. The formula T is `lab27.pipeline_time(nbytes, k, steps)`.
# This takes 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: the chunk</summary>
#
# You get the slowest step with `start, slow = max(steps, key=lambda step: step[1])`.
# `max(1, min(nbytes, …))` keeps a number between 1 and n.
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

# %% [markdown]
# The next cell measures your pipeline with chunks of several lengths and plots it with T. The
# printed line is the length by your formula. This takes about 20 s.

# %%
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
# **Explain.** You should see a curve that falls, has a flat minimum near the length that your
# formula gives, and rises again up to its right end, which is a single chunk. If the ranks share
# cores with other programs, short chunks, which have the most steps, can take much longer.
#
# Because the minimum is flat, half or twice the best length costs only a few percent. For this
# reason libraries can use one fixed length, such as the 262144 bytes that MVAPICH2-GDR uses.
#
# ### Ways that avoid host memory
# With **GPUDirect RDMA** (remote direct memory access) the [NIC](../labs/GLOSSARY.md#NIC) (network interface card) reads and
# writes the memory of the GPU, so a message takes only one step. On some servers, however, a NIC
# reads the memory of a GPU only slowly. Which way is faster then, [RDMA](../labs/GLOSSARY.md#RDMA) or chunks through the host?
#
# The next cell **computes** times from these values, and the last column shows where each one comes
# from:
#
# | step | start | per byte | source |
# |---|---|---|---|
# | a copy by a copy engine | 6.5 µs | 0.1 ns | README of [GDRCopy](https://github.com/NVIDIA/gdrcopy); rCUDA's measurement with a K40 |
# | a message, or RDMA | 5 µs | 0.16 ns | start: an estimate; per byte: manual of [GPUDirect RDMA](https://docs.nvidia.com/cuda/gpudirect-rdma/) 1.8 |
# | RDMA with slow reads | 5 µs | 1 ns | assumed: the parameter `slow_read` |
#
# ### Predict
# Up to which power of two of bytes is RDMA with slow reads faster than staging a message in a
# single chunk, which takes two copies and a message?

# %%
predict("27.3", slow_rdma_bytes=...)

# %%
# The time of each way, computed.
sizes = [1 << power for power in range(7, 28)]
link = virtual.machine("k80_fdr").between
engine = lab27.COPY_ENGINE
network = (link.latency, link.beta)
slow_network = (link.latency, 1 / slow_read)
steps = [engine, network, engine]
paths = {
    "RDMA": {n: lab27.pipeline_time(n, 1, [network]) for n in sizes},
    "RDMA, slow reads": {n: lab27.pipeline_time(n, 1, [slow_network]) for n in sizes},
    "staged": {n: lab27.pipeline_time(n, 1, steps) for n in sizes},
    "best chunks": {n: lab27.pipeline_time(n, n / choose(n, steps), steps) for n in sizes},
}
plots.bandwidth(paths, title="From GPU to GPU over FDR InfiniBand (computed)")
by_rdma = [n for n in sizes if choose(n, steps, slow_network) == 0]
predict.right("27.3", slow_rdma_bytes=max(by_rdma, default=0))

# %% [markdown]
# **Explain.** In the left plot RDMA takes the least time if the NIC reads the GPU fast. If it reads
# slowly, only short messages gain from RDMA, because they avoid the start of two copies. RDMA then
# takes 5 µs + n · 1 ns, and staging takes 18 µs + n · 0.36 ns. Both take equally long at
# 13 µs / 0.64 ns = 20,000 bytes, so RDMA is faster up to 16,384.
#
# Another technique is **GDRCopy**, with which the CPU itself copies to and from the memory of the
# GPU. Such a copy starts at once, so libraries use it for short messages. In MVAPICH2-GDR, for
# example, `MV2_GDRCOPY_LIMIT` sets the largest message for which it is used, nominally 8192 bytes.
#
# ### What you take away from the optional part
# - The best chunk has √(na/r) bytes, and the minimum is flat.
# - Choose the way by size. If the NIC reads the GPU fast, use RDMA. If it reads slowly, use RDMA
#   for short messages and chunks through host memory for long ones.
#
# ### Further reading
# - S. Potluri, K. Hamidouche, A. Venkatesh, D. Bureddy and D. Panda, *[Efficient Inter-node MPI Communication Using GPUDirect RDMA for InfiniBand Clusters with NVIDIA GPUs](https://doi.org/10.1109/ICPP.2013.17)*, ICPP, 2013. How MVAPICH2 uses GPUDirect RDMA, and where it pipelines through host memory.
# - [GPUDirect RDMA](https://docs.nvidia.com/cuda/gpudirect-rdma/). How a NIC gets access to the memory of a GPU.
# - [GDRCopy](https://github.com/NVIDIA/gdrcopy). Copies by the CPU, with measurements.
# - [MVAPICH2-GDR User Guide](https://mvapich.cse.ohio-state.edu/userguide/gdr/). The variables of MVAPICH2-GDR and their defaults.
# - [Open MPI: CUDA support](https://docs.open-mpi.org/en/main/tuning-apps/networking/cuda.html). CUDA support in Open MPI, and how to ask for it.
# - [MPI for Python (mpi4py)](https://mpi4py.readthedocs.io). The documentation of mpi4py has a section on GPU-aware MPI.
