# %% [markdown]
# # 27 CUDA-aware MPI
#
# Gradients lie in a GPU's memory, and a plain MPI cannot read that. You send them by way of the host, then in
# chunks so that copies and messages overlap, and find out when MPI may be given the device's memory itself.
#
# **You will be able to** (1) stage an exchange through pinned host memory, (2) pipeline it with two buffers,
# (3) prove that an MPI takes device memory before you hand it any, (4) choose way and chunk by size.
#
# Needs: mpi · Ranks: 2 · Minutes: 50 · Before: 20, 22

# %%
import os
from math import sqrt

import numpy as np
from labkit import check, expect, hint, lab, launch, plots, predict, record, scaling, virtual
from support import lab27
from support.lab27 import pipeline_time

lab.start("27_cuda_aware_mpi")

# %% tags=["parameters"]
copy_start = 4e-4  # seconds until a copy of the stand-in device moves its first byte; a GPU takes some 1e-5
copy_rate = 2.5e8  # bytes per second of the stand-in's copies; over PCIe 3.0 x16 a GPU reaches some 1e10
longest = 1 << 24  # bytes of the longest message on real ranks (16 MiB)
slow_read = 1e9  # bytes per second at which some servers let a network card read a GPU; assumed, not measured

# %% [markdown]
# ### A device, and what stands in for it
# `device` is this rank's GPU. Where there is none, it is a **stand-in**: memory that the host cannot touch,
# behind copies that really move the bytes, at a fortieth of a GPU's pace. Every plot and record says which.
# `device.to_host(host, memory)` and `device.to_device(memory, host)` **start** a copy and return at once;
# `.wait()` of what they return comes back when it is over. Leave both ends alone until then. Each direction
# has an engine, which does one copy after another. `host` has to be *pinned*: other memory the system may
# move meanwhile. It takes long to get, so your functions are given theirs. Slices (`memory[a:b]`) are views.
#
# ### Predict
# The stand-in copies 0.25 GB/s; two ranks of a node may exchange at 4 GB/s. A copy, a message and a copy:
# how many times as long as the message alone is that?

# %%
predict("27.1", staged_over_host=33.0)

# %% [markdown]
# ### Exercise 27.1 · Staged through the host
# Every rank sends device memory `out` to `dest`, and fills `into` with what `source` sends. `outbox` and
# `inbox` are pinned and as long as these. 3 lines.
#
# <details><summary>Hint 1: in the middle</summary>
#
# Everybody sends and receives at once: `comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Before it, `device.to_host(outbox, out).wait()`. Without `.wait()` you send what was in `outbox` before.
# </details>


# %%
def staged(comm, device, out, into, outbox, inbox, dest, source):
    """Send device memory `out` to dest; fill device memory `into` with what source sends."""
    ### BEGIN SOLUTION
    device.to_host(outbox, out).wait()
    # Across ranks: host memory travels; each rank sends and receives at once.
    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)
    device.to_device(into, inbox).wait()
    ### END SOLUTION


# %%
ranks, here = launch.ranks_here(2), {"start": copy_start, "rate": copy_rate}
with check("27.1"):
    lab27.trials(staged, lengths=(1, 1000, 4099))  # on 1 to 5 virtual ranks: answer, copies, messages, time
    launch.run(lab27.on_ranks, staged, 100_003, None, **here, ranks=ranks, timeout=20)

# %% [markdown]
# ### Predict
# While a message travels, both engines sleep. So cut it: while one chunk travels, the next is copied to the
# host and the one before to the device. **T = the sum of a chunk's three steps + (k - 1) × the slowest**. If
# copies are as fast as messages and no step takes time to start, how many times as fast are 10 chunks?

# %%
predict("27.2", times_as_fast=2.5)

# %% [markdown]
# ### Exercise 27.2 · Pipelined staging
# `outbox` and `inbox` now have two halves of one chunk each, which take turns: `half(outbox, i)` is the one
# for chunk i, cut to its length. Chunk 0's copy to the host is started for you. For each chunk i: `Irecv`,
# wait for `copy`, `Isend`, start the next chunk's copy to the host, only *then* wait for what comes (MPI
# moves long messages while you wait in it), and start its copy to the device. Before a half is used again,
# wait until whoever used it is done; no sooner. About 13 lines.
#
# <details><summary>Hint 1: who used the half?</summary>
#
# `half(inbox, i)`: the copy to the device of chunk i - 2, `landed[i - 2]`. `half(outbox, i + 1)`: the send of
# chunk i - 1, `sent[i - 1]`. The first time nobody did.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `sent.append(comm.Isend(half(outbox, i), dest=dest))` and later
# `landed.append(device.to_device(into[pieces[i]], half(inbox, i)))`. Before the `Irecv`, if i > 1:
# `landed[i - 2].wait()`. After the loop wait for all of `sent` (`Wait()`) and all of `landed` (`wait()`).
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
    ### BEGIN SOLUTION
    for i in range(len(pieces)):
        if i > 1:
            landed[i - 2].wait()
        # Across ranks: the receive is there before its message, so that nobody waits for us.
        coming = comm.Irecv(half(inbox, i), source=source)
        copy.wait()
        sent.append(comm.Isend(half(outbox, i), dest=dest))
        if i + 1 < len(pieces):
            if i > 0:
                sent[i - 1].Wait()
            copy = device.to_host(half(outbox, i + 1), out[pieces[i + 1]])
        coming.Wait()
        landed.append(device.to_device(into[pieces[i]], half(inbox, i)))
    for request, copy in zip(sent, landed, strict=True):
        request.Wait()
        copy.wait()
    ### END SOLUTION


# %%
with check("27.2"):
    lab27.trials(pipelined, lengths=(1, 999, 1000, 1001, 2000, 7003), chunk=1000)
    for beta in (2e-10, 1e-9, 5e-9):  # a copy's seconds per byte, beside 1e-9 of a message
        lab27.trials(pipelined, lengths=[200_000], chunk=20_000, copy=(1e-5, beta))
    launch.run(lab27.on_ranks, pipelined, 100_003, 30_000, **here, ranks=ranks, timeout=20)
    ways = {"staged": (staged, None), "pipelined": (pipelined, 1 << 20)}
    races, name = launch.run(lab27.race, [1 << 22], ways, start=1e-3, rate=5e7, ranks=ranks)[0]
    best = {way: [times[way][1 << 22].samples.min() for times in races.values()] for way in ways}
    gain = min(np.divide(best["staged"], best["pipelined"]))  # the fastest runs: the machine may be busy
    expect(gain > 1.15 or "cuda" in name, f"4 chunks, real ranks: {gain:.2f} times as fast as staged.")

# %%
no_start = {"copy": (0, 1e-9), "link": (1e-12, 1e-9), "ranks": [2], "trace": True}
[slow] = lab27.trials(staged, [10**6], **no_start)
[fast] = lab27.trials(pipelined, [10**6], 10**5, **no_start)
plots.lanes(lab27.busy(slow, "staged") | lab27.busy(fast, "cut"), title="1 MB: what is busy when?")
predict.compare("27.2", times_as_fast=slow.time / fast.time)

# %% [markdown]
# ### Exercise 27.3 · May this MPI have device memory?
# A *CUDA-aware* MPI takes it as it is, `comm.Send(memory, …)`: mpi4py hands on the address. Any other MPI
# would read there as if it were the host's, and crash, or worse. So prove it, by two answers. **Was it built
# so?** `MPIX_Query_cuda_support()` says `True` or `False`; some have no such function: `None`. (That Open
# MPI's `ompi_info` lists an extension `cuda` proves nothing.) **Is it switched on?** The first of `switches`
# whose name is in the *first line* of the library's version (paths stand below) has the variable; `0` and
# `false` are off. Only both make it safe; but Cray MPICH need not answer the first (`None` will do, `False`
# will not). What is not in the list is not safe. About 5 lines.
#
# <details><summary>Hint 1: which library?</summary>
#
# `for name, variable, default in switches:`, and `if name in version.splitlines()[0]`, decide and return.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `on = environment.get(variable, default) not in ("0", "false")`. If on, what may `built` be? After the loop
# `return False`.
# </details>

# %%
switches = [  # name, variable, what counts if it is unset
    ("MVAPICH2", "MV2_USE_CUDA", "0"),  # MVAPICH2-GDR too: off, even where it was built for GPUs
    ("MVAPICH", "MVP_ENABLE_GPU", "1"),  # MVAPICH 3, 4 and MVAPICH-Plus
    ("CRAY MPICH", "MPICH_GPU_SUPPORT_ENABLED", "0"),
    ("MPICH", "MPIR_CVAR_ENABLE_GPU", "1"),
    ("Open MPI", "OMPI_MCA_opal_cuda_support", "1"),
]


def takes_device_memory(version, built, environment):
    """True or False. version: a text. built: True, False or None. environment: a dict of texts."""
    ### BEGIN SOLUTION
    for name, variable, default in switches:
        if name in version.splitlines()[0]:
            on = environment.get(variable, default) not in ("0", "false")
            return on and (built is True or (built is None and name == "CRAY MPICH"))
    return False
    ### END SOLUTION


# %%
yes, no = True, False
every = {(yes, "1"): yes, (yes, "0"): no, (no, "1"): no, (no, None): no, (None, "1"): no, (None, None): no}
cases = {  # (version, variable) -> {(built, the variable's value): safe?}
    ("MVAPICH2 Version      :\t2.3.7", "MV2_USE_CUDA"): every | {(yes, None): no},
    ("MVAPICH2 Version      :\t2.3.7", "MVP_ENABLE_GPU"): {(yes, "1"): no},
    ("MVAPICH Version:   4.1\nconfigure: /opt/MVAPICH2", "MVP_ENABLE_GPU"): every | {(yes, None): yes},
    ("CRAY MPICH version 8.1", "MPICH_GPU_SUPPORT_ENABLED"): every | {(yes, None): no, (None, "1"): yes},
    ("MPICH Version: 5.0.2\nCC: /opt/MVAPICH2/cc", "MPIR_CVAR_ENABLE_GPU"): every | {(yes, None): yes},
    ("Open MPI v5.0.11", "OMPI_MCA_opal_cuda_support"): every | {(yes, None): yes, (yes, "false"): no},
    ("Intel(R) MPI Library 2021.13", "MV2_USE_CUDA"): {(yes, "1"): no},
}
with check("27.3"):
    for version, variable, built, value, safe in [(*a, *b, c) for a in cases for b, c in cases[a].items()]:
        answer = takes_device_memory(version, built, {variable: value} if value else {})
        who = f"{version.splitlines()[0]!r}, built: {built}, {variable}={value}: you say {answer}"
        expect(answer is safe, f"{who}; it {'takes device memory' if safe else 'would crash'}: {safe}.")
version, built = launch.run(lab27.ask_mpi, ranks=ranks)[0]
safe = takes_device_memory(version, built, os.environ)
print(f"{version.splitlines()[0]}, built for CUDA: {built}. May it have device memory? {safe}")

# %% [markdown]
# All ways between two ranks. If your function says yes and there is a GPU, `devices.direct` joins in: a
# `Sendrecv` of device memory, once the GPU is idle, as MPI does not know its streams. When does cutting pay?

# %%
ways |= {"device buffers": (lab27.direct, None)} if safe and name.startswith("cuda") else {}
sizes = [n for n in (1024, 16384, 262144, 1 << 20, 1 << 22) if n < longest] + [longest]
races, name = launch.run(lab27.race, sizes, ways | lab27.STEPS, **here, ranks=ranks)[0]
for where, times in races.items():
    plots.bandwidth({way: times[way] for way in [*ways, "message"]}, title=f"{name}, {where}")
    for way, n in [(way, n) for way in times for n in sizes]:
        record.add("exchange", way=way, where=where, device=name, bytes=n, seconds=times[way][n], ranks=2)
predict.compare("27.1", staged_over_host=times["staged"][longest].median / times["message"][longest].median)

# %% [markdown]
# ### Exercise 27.4 · Choose the way and the chunk
# `steps` holds (start, seconds per byte) of the three. Let a be the start of the one with most seconds per
# byte, r what the *others* together take per byte. Only **ka + nr/k** of T depends on k, the number of
# chunks; at the minimum a = nr/k². Return the bytes of a chunk, a whole number from 1 to n; but 0 if `direct`
# (start, seconds per byte), device memory to MPI, is faster. `pipeline_time` is T. 5 lines.
#
# <details><summary>Hint 1: the chunk</summary>
#
# k = sqrt(nr/a), so a chunk has n/k = sqrt(na/r) bytes, `round`ed, at least 1 and at most n. The slowest step
# is `max(steps, key=lambda step: step[1])`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `rest = sum(each for _, each in steps) - slow`. Compare `direct[0] + nbytes * direct[1]` with
# `pipeline_time(nbytes, nbytes / chunk, steps)`.
# </details>


# %%
def choose(nbytes, steps, direct=None):
    """Bytes per chunk for staging nbytes, or 0: hand the MPI device memory."""
    ### BEGIN SOLUTION
    start, slow = max(steps, key=lambda step: step[1])
    rest = sum(each for _, each in steps) - slow
    chunk = max(1, min(nbytes, round(sqrt(nbytes * start / rest))))
    if direct and direct[0] + nbytes * direct[1] < pipeline_time(nbytes, nbytes / chunk, steps):
        return 0
    return chunk
    ### END SOLUTION


# %%
with check("27.4"):
    pairs = ((2e-5, 1e-10), (1e-5, 1.6e-10)), ((1e-4, 1e-9), (2e-4, 2e-10)), ((0, 1e-10),) * 2
    for copy, message in pairs:  # (start, seconds per byte)
        steps = [copy, message, copy]
        for n in (1000, 10**6, 10**9):
            best = n / min(np.geomspace(1, n, 9001), key=lambda count: pipeline_time(n, count, steps))
            chunk, who = choose(n, steps), f"{n:.0e} bytes, copies {copy}, message {message}:"
            good = isinstance(chunk, int | np.integer) and chunk > 0 and abs(chunk - best) < 1 + best / 50
            expect(good, f"{who} chunks of {chunk!r} bytes; {best:.0f}, a whole number, is best.")
            for share in (0.97, 1.03):
                half = share * pipeline_time(n, n / best, steps) / 2  # to start, and for all bytes
                zero = choose(n, steps, (half, half / n)) == 0
                expect.equal(zero, share < 1, f"{who} direct takes {share} of the best staging. Is 0 right?")

# %%
tried = {longest >> power: (pipelined, longest >> power) for power in (8, 6, 5, 4, 3, 2, 0)}
found, name = launch.run(lab27.race, [longest], tried, **here, ranks=ranks)[0]
for where, times in races.items():  # a start: the least time of 1 KiB, as no line fits every network
    steps = [(min(times[x][1024].samples), scaling.fit_alpha_beta(times[x]).beta) for x in lab27.STEPS]
    curves = {"T": {c / 1024: 1e3 * pipeline_time(longest, longest / c, steps) for c in tried}}
    curves["yours"] = {c / 1024: 1e3 * found[where][c][longest].samples for c in tried}
    plots.lines(curves, title=f"Which chunk? {name}", xlabel="chunk (KiB)", ylabel="ms", logx=True)
    print(f"{where}: by your formula {choose(longest, steps) / 1024:.4g} KiB. How sharp is the bottom?")

# %% [markdown]
# With **GPUDirect RDMA** the card itself reads and writes the GPU's memory: one step. NVIDIA measured 6.39
# GB/s so over FDR InfiniBand. But some servers let a card read a GPU slowly: say, at `slow_read`. **GDRCopy**
# maps the GPU's memory, so that the CPU copies: it starts at once, an engine in 6 to 7 µs, but each read goes
# to the GPU and back. Below, times **computed** from published ones (GDRCopy: P100, engine: K40) on that link
# (5 µs, an estimate). Up to which power of two is the CPU faster to the host, and slow RDMA than chunks?

# %%
predict("27.4", cpu_to_host_bytes=2048, slow_rdma_bytes=16384)

# %%
link, engine = virtual.machine("k80_fdr").between, lab27.COPY_ENGINE
net, bad, sizes = (link.latency, link.beta), (link.latency, 1 / slow_read), [1 << i for i in range(7, 28)]
steps, ends = [engine, net, engine], lab27.CPU_TO_DEVICE
paths = {"GDRCopy": {n: s + ends[n] + pipeline_time(n, 1, [net]) for n, s in lab27.CPU_TO_HOST.items()}}
for path, one in {"RDMA": [net], "RDMA, slow reads": [bad], "staged": steps}.items():
    paths[path] = {n: pipeline_time(n, 1, one) for n in sizes}
paths["best chunks"] = {n: pipeline_time(n, n / choose(n, steps), steps) for n in sizes}
plots.bandwidth(paths, title="From GPU to GPU over FDR InfiniBand (computed)")
cpu = max(n for n, s in lab27.CPU_TO_HOST.items() if s < pipeline_time(n, 1, [engine]))
rdma = max((n for n in sizes if not choose(n, steps, bad)), default=0)
predict.compare("27.4", cpu_to_host_bytes=cpu, slow_rdma_bytes=rdma)

# %% [markdown]
# Such limits ship with the libraries. MVAPICH-Plus: `MVP_GDRCOPY_MAX_SIZE_D2H` 2048, `…_H2D` 32768.
# MVAPICH2-GDR: `MV2_GDRCOPY_LIMIT` 8192 (if `MV2_GPUDIRECT_GDRCOPY_LIB` names the library), RDMA up to
# `MV2_GPUDIRECT_LIMIT` 8192, above it chunks of `MV2_CUDA_BLOCK_SIZE` 262144: the best for which n = c²r/a?
#
# ### What you take away
# - Pipelined staging takes hardly more than its slowest step. Best chunk: sqrt(na/r), twice as long for 4n.
# - Built for CUDA is not switched on: ask the library *and* the environment. MVAPICH2 wants `MV2_USE_CUDA=1`.
# - By size: CPU copies for the shortest, RDMA where the card reads fast, else chunks through the host.
