# %% [markdown]
# <!-- Generated from solutions/47_step_from_the_link.py by `make labs`. Learners work on a copy in work/. -->
# # 47 A step from its link
#
# Time an allreduce of a short and of a long vector: three numbers come out, and with them you know, before
# you train, between which bounds a step will lie, on 2 ranks and on 64.
#
# **You will be able to** (1) tell what Horovod's looking costs from what a message costs, (2) foretell a step
# from its calls and bytes, (3) say how much of its communication the backward pass hides.
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 45 · Before: 24, 40, 46

# %%
import math

import horovod.torch as hvd
import torch
from labkit import check, expect, hint, home, lab, launch, predict, record, timing
from support import lab46

lab.start("47_step_from_the_link")
ranks = launch.ranks_here(2)

# %% tags=["parameters"]
images = 32  # of each rank in a step (weak scaling)
repeat = 12  # timed steps of each kind
watched_steps = 6  # steps under Horovod's timeline
seldom = 5.0  # ms between Horovod's looks, in the control

# %% [markdown]
# ## 1. What an allreduce costs
# MPI sums long vectors by halving and doubling (lab 24). On p ranks, n bytes then take
#
# **T(n) = 2 lg p · α + 2 (p - 1)/p · n · β**
#
# where lg is the logarithm to base 2. α is what a message costs, whatever its size. β is what a byte costs.
#
# Horovod adds something of its own. A thread looks every millisecond for what is ready. A gradient that just
# missed a look waits for the next one, and then the ranks agree on what all of them have. This **wait** w is
# paid once a call. We take it as the same for any number of ranks: the looking is; the agreeing grows with
# them, and this is left out.
#
# **H(n) = w + T(n)**
#
# Three times tell the three numbers:
#
# | an allreduce of | by | takes |
# |---|---|---|
# | 1 KiB | MPI alone | T(1 KiB) |
# | 1 KiB | Horovod | H(1 KiB) |
# | 32 MiB | Horovod | H(32 MiB) |
#
# MPICH sums a short vector, up to 2 KiB, by recursive doubling instead, in lg p messages. So our α may be
# about half of what a message costs.
#
# Why does MPI alone have to be timed? Could α not be had from Horovod's short call?
# <details><summary>Answer</summary>
#
# Not by two ranks: there lg p is 1, and H(1 KiB) holds w + 2 α in one piece. The two grow apart only with
# more ranks: α is paid 2 lg p times, w once.
# </details>
#
# ### Predict
# We call Horovod's allreduce of 1 KiB again and again, each call as soon as the one before has ended. That
# was just behind a look. (a) How many milliseconds will a call take, (b) and how many if Horovod looks only
# every 5 ms (`HOROVOD_CYCLE_TIME=5`)?

# %%
predict("47.1", ms_a_call=..., ms_with_rare_looks=...)

# %% [markdown]
# ### Exercise 47.1 · Three numbers of a link
# Write `link(by_mpi, short, long, p)`. All three are seconds: T(1 KiB), H(1 KiB) and H(32 MiB). `SHORT` and
# `LONG` are their bytes. Return `(wait, alpha, beta)`.
#
# Begin with β: in H(32 MiB) - H(1 KiB) both w and α are gone. For example, on 4 ranks, `(3e-5, 1.03e-3,
# 0.05)` gives about `(1e-3, 7.1e-6, 9.7e-10)`.
#
# 3 to 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: β</summary>
#
# The difference is 2 (p - 1)/p · (`LONG` - `SHORT`) · β. Solve it for β.
# </details>
# <details><summary>Hint 2: α</summary>
#
# From T(1 KiB) take what its bytes cost, 2 (p - 1)/p · `SHORT` · β. The rest is 2 lg p · α; `math.log2(p)` is
# lg p.
# </details>
# <details><summary>Hint 3: the wait</summary>
#
# H(1 KiB) and T(1 KiB) differ by w alone.
# </details>

# %%
SHORT = lab46.SHORT  # 1 KiB
LONG = lab46.LONG  # 32 MiB


def link(by_mpi, short, long, p):
    """Seconds of an allreduce on p ranks: SHORT by MPI, SHORT and LONG by Horovod. Returns (w, α, β)."""
    raise NotImplementedError("exercise 47.1: Three numbers of a link")


# %%
# What is asked: w, α and β that give these times again, on any number of ranks.
with check("47.1"):
    for p, wait, alpha, beta in ((4, 1e-3, 2e-5, 5e-10), (2, 8e-4, 5e-7, 4e-9), (6, 5e-3, 3e-4, 2e-10)):
        moved = 2 * (p - 1) / p * beta
        by_mpi = 2 * math.log2(p) * alpha + moved * SHORT
        long_by_horovod = wait + 2 * math.log2(p) * alpha + moved * LONG
        got = link(by_mpi, wait + by_mpi, long_by_horovod, p)
        expect(got is not None and len(got) == 3, f"link returns three numbers, not {got!r}.")
        case = f"{p} ranks, {by_mpi:.3g}, {wait + by_mpi:.3g} and {long_by_horovod:.3g} s"
        slips = {
            "the wait is in it": 1e9 * (long_by_horovod - by_mpi) / (2 * (p - 1) / p * (LONG - SHORT)),
            "a byte moves 2 (p - 1)/p times": 1e9 * moved,
            "the two calls differ by LONG - SHORT bytes": 1e9 * beta * (LONG - SHORT) / LONG,
        }
        expect.close(1e9 * got[2], 1e9 * beta, f"{case}: β, in ns", rtol=1e-6, slips=slips)
        slips = {
            "the wait is in it: take MPI's time": 1e6 * (alpha + wait / (2 * math.log2(p))),
            "there are 2 lg p messages": 1e6 * alpha * 2 * math.log2(p),
            "what the bytes cost is in it": 1e6 * by_mpi / (2 * math.log2(p)),
        }
        expect.close(1e6 * got[1], 1e6 * alpha, f"{case}: α, in µs", rtol=1e-4, slips=slips)
        slips = {"that is all of H": 1e3 * (wait + by_mpi)}
        expect.close(1e3 * got[0], 1e3 * wait, f"{case}: the wait, in ms", rtol=1e-4, slips=slips)


# %% [markdown]
# ### Measure
# On two ranks, each on a core of its own, with nothing else to do: the link alone. And a training step of the
# small net of lab 46, in turns with its control, a step without communication. Every MPI that is here, one
# after the other: about 10 s each.
#
# There is one more control: the long allreduce while each rank also computes. The ranks of a training step
# compute on the very cores that have to move the bytes.

# %%
def make_steps(comm, where):
    """The step with Horovod, its control without, and the bytes of the gradients."""
    own = lab46.in_torch("small").to(where.device)
    twin = lab46.in_torch("small").to(where.device)
    pictures, labels = lab46.made_up_images("pytorch", "small", images, where.device)
    # Across ranks: begin equal; step() waits for the mean of each gradient.
    where.broadcast_parameters(hvd, own.state_dict())
    plain = torch.optim.SGD(own.parameters(), lr=0.01)
    names = own.named_parameters()
    together = hvd.DistributedOptimizer(plain, named_parameters=names, compression=where.compression(hvd))
    alone = torch.optim.SGD(twin.parameters(), lr=0.01)

    def step(net, optimizer):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(pictures), labels).backward()
        optimizer.step()

    nbytes = sum(4 * weights.numel() for weights in own.parameters())
    return lab46.Steps(lambda: step(own, together), lambda: step(twin, alone), nbytes)


def measure(comm, file):
    """On every rank: a step and its control; steps under a timeline; the link alone."""
    with lab46.started(comm, "pytorch") as where:  # hvd.init(), and this rank's own GPU
        steps = make_steps(comm, where)
        turns = {"step": steps.together, "alone": steps.alone}
        # Across ranks: each run begins at a barrier and ends with the slowest rank.
        times = timing.in_turns(turns, repeat=repeat, comm=comm, device=where.device)
        place = lab46.place(comm, where)[0]
    watched = lab46.watch(comm, "pytorch", lambda where: make_steps(comm, where), watched_steps, file)
    return times, lab46.time_link(comm, seldom), watched, steps.nbytes, place


# %%
measured = {}  # name of an MPI -> what rank 0 brought home
for way in lab46.ways():
    if way.library != "host MPI" or lab46.closed(way):
        continue
    variables = lab46.variables(way.library, lab46.machine(way, ranks).mpi)
    file = home() / f"timeline_47_{way.file_name}.json"
    settings = {"horovod": "host", "mpi": way.mpi, "env": variables, "timeout": 300}
    measured[way.name] = launch.run(measure, file, ranks=ranks, threads=1, **settings)[0]
expect(measured, "This job's controller is Gloo: start one without HOROVOD_CONTROLLER=gloo.")

# %%
links = {}  # name of an MPI -> wait, α, β
for name, (_, times, _, _, place) in measured.items():
    if ranks == 1:
        print("One rank has no link.")
        break
    links[name] = link(times.mpi.median, times.short.median, times.long.median, ranks)
    wait, alpha, beta = links[name]
    print(f"{name}: wait {timing.human(wait)}, α {timing.human(alpha)}, 1/β {1e-9 / beta:.2f} GB/s")
    busy = timing.Ratio(times.busy, times.long)
    print(
        f"    1 KiB: by MPI {timing.human(times.mpi.median)}, by Horovod {timing.human(times.short.median)}"
    )
    print(f"    with a look every {seldom:g} ms: {timing.human(times.rare.median)}")
    print(f"    32 MiB while the cores compute: {busy} times as long")
    record.add("link of Horovod", way=name, ranks=ranks, wait=wait, alpha=alpha, beta=beta, unit="s", **place)

# %%
first = next(iter(measured.values()))[1]
predict.compare("47.1", ms_a_call=1e3 * first.short.median, ms_with_rare_looks=1e3 * first.rare.median)

# %% [markdown]
# **Explain.** A call of Horovod takes a look's time, whatever MPI needs for so few bytes. With a look every
# 5 ms it takes 5. So it is the looking, and not the messages: these are the same in both.
#
# You may see instead: a wait far from 1 ms, or an α of milliseconds. Then something else computes on these
# cores, and a rank that has to answer does not get one. Run the cell again when it is quiet.
#
# That is why Horovod packs gradients together (lab 44): a call of its own for each of 161 gradients of
# ResNet-50 would wait often, for bytes that take no time.
#
# The last line is the control for what follows. The link is slower while the cores compute. You may see more
# or less, since the ranks' own threads now share each core. On a GPU cluster the cores are free: the network
# card and the GPU move the bytes.
#
# ## 2. A step between two bounds
# A step sends its gradients in some calls. So its communication takes, with all their bytes together,
#
# **C = calls · (w + 2 lg p · α) + 2 (p - 1)/p · bytes · β**
#
# How much of C you *see* depends on how much of it the backward pass hides: gradients of the last layers are
# on their way while the first layers still compute. There are two bounds.
#
# - **All hidden**: a step takes the longer of computing and C.
# - **Nothing hidden**: it takes their sum.
#
# ### Predict
# VGG-16 has 553 MB of gradients. 16 GPUs sum them over links of 25 Gb/s, so that a byte takes β = 0.32 ns.
# Leave w and α out. A step of one GPU takes 489 ms. How many milliseconds is a step of 16 GPUs (a) with all
# hidden, (b) with nothing hidden? (c) NCCL over RDMA needed 573 ms: which share of C was hidden?

# %%
predict("47.2", all_hidden=..., nothing_hidden=..., share_hidden=...)


# %% [markdown]
# ### Exercise 47.2 · From the link to the step
# Write `bounds(alone, calls, nbytes, p, wait, alpha, beta)`. `alone` is the seconds of the step without
# communication, the rest as in C. Return the seconds of a step: `(all hidden, nothing hidden)`.
#
# For example, a step of 0.02 s alone that sends 4 MB in 2 calls on 4 ranks, with w = 1 ms, α = 10 µs and
# β = 1 ns, lies between 0.02 and 0.02808 s.
#
# 2 to 4 lines. *(beginner)*
#
# <details><summary>Hint 1: what is C?</summary>
#
# In the example: 2 · (0.001 + 4 · 0.00001) + 1.5 · 4,000,000 · 10⁻⁹ = 0.00808 s.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# With `communication` for C: `max(alone, communication)` and `alone + communication`.
# </details>

# %%
def bounds(alone, calls, nbytes, p, wait, alpha, beta):
    """Seconds of a step on p ranks that sends nbytes in so many calls: (all hidden, nothing hidden)."""
    raise NotImplementedError("exercise 47.2: From the link to the step")


# %%
# Tries your answer; need not be read.
def expect_bounds(p, alone, calls, nbytes, wait, alpha, beta):
    """The longer one of computing and communication, and their sum."""
    case = f"{p} ranks, {alone} s alone, {nbytes // 10**6} MB in {calls} calls"
    every_round = calls * 2 * math.log2(p) * (wait + alpha)
    messages = 2 * math.log2(p) * alpha
    moving = 2 * (p - 1) / p * nbytes * beta
    communication = calls * (wait + messages) + moving
    got = bounds(alone, calls, nbytes, p, wait, alpha, beta)
    expect(got is not None and len(got) == 2, f"{case}: bounds returns two numbers, not {got!r}.")
    slips = {
        "the wait comes with each call": alone + wait + calls * messages + moving,
        "the wait is left out": alone + calls * messages + moving,
        "the wait is paid once a call, not in each of 2 lg p rounds": alone + every_round + moving,
        "communication counts α once, not for each call": alone + calls * wait + messages + moving,
        "this is the step with all hidden: it comes first": max(alone, communication),
        "the bytes are those of all calls together": alone + communication + (calls - 1) * moving,
        "there are 2 lg p rounds: lg p to halve, and lg p to double": alone
        + communication
        - calls * messages / 2,
        "this is the communication alone": communication,
    }
    expect.close(got[1], alone + communication, f"{case}: a step with nothing hidden", rtol=1e-4, slips=slips)
    slips = {"a step is never shorter than its communication": min(alone, communication)}
    expect.close(got[0], max(alone, communication), f"{case}: a step with all hidden", rtol=1e-4, slips=slips)


# %%
# What is asked: the longer one of computing and communication, and their sum, on any number of ranks.
with check("47.2"):
    for p in (4, 2, 16, 6):
        expect_bounds(p, alone=0.5, calls=4, nbytes=10**8, wait=2e-3, alpha=3e-4, beta=2e-10)
        expect_bounds(p, alone=0.01, calls=50, nbytes=10**8, wait=1e-3, alpha=3e-4, beta=2e-10)

# %% [markdown]
# ### Measure
# Your prediction of this machine's steps, from the link alone, beside the steps that were timed.

# %%
here = {}  # for the picture
for name, (times, _, watched, nbytes, _) in measured.items():
    if name not in links:
        continue
    calls = len([call for call in watched.calls if watched.gradients & set(call.tensors)]) / watched.steps
    alone = times["alone"].median
    step = times["step"].median
    low, high = bounds(alone, calls, nbytes, ranks, *links[name])
    print(f"{name}: {nbytes / 1e6:.1f} MB in {calls:.1f} calls a step; alone {timing.human(alone)}")
    print(f"    predicted {timing.human(low)} to {timing.human(high)}, measured {times['step']}")
    here[f"here: {name}"] = lab46.Bounds(low / alone, high / alone, step / alone)
    for p in (4, 16, 64):
        low, high = bounds(alone, calls, nbytes, p, *links[name])
        print(f"    {p:2} ranks on such links, predicted: efficiency {alone / high:.0%} to {alone / low:.0%}")

# %% [markdown]
# The last lines are predictions, not measurements: on this machine 64 ranks would share two cores. On a
# cluster `make scaling LAB=46 NODES=1,2,4,8` measures such a curve.
#
# And published runs, each between its bounds. Horovod's authors measured 16 GPUs in 4 servers with links of
# 25 Gb/s ([README of September 2017](https://github.com/horovod/horovod/blob/d54e3a88/README.md)); *host* is
# their "allreduce on CPU". β is that of the servers' network; w and α are left out.

# %%
there = {}
for line in [*lab46.published("vgg16"), *lab46.published("inception_v3", gpus=16)]:
    low, high = bounds(line.alone, 0, line.nbytes, line.gpus, 0, 0, line.beta)
    there[str(line)] = lab46.Bounds(low / line.alone, high / line.alone, line.step / line.alone)
title = "NCCL's steps lie near their bounds, the host's need not"
lab46.show_bounds(here | there, title=title)

# %%
(rdma,) = [line for line in lab46.published("vgg16", gpus=16) if line.carrier == "NCCL over RDMA"]
low, high = bounds(rdma.alone, 0, rdma.nbytes, rdma.gpus, 0, 0, rdma.beta)
hidden = (high - rdma.step) / (high - rdma.alone)
predict.compare("47.2", all_hidden=1e3 * low, nothing_hidden=1e3 * high, share_hidden=hidden)

# %% [markdown]
# **Explain.** Start with VGG-16 on 16 GPUs; the link is the same in all four lines. NCCL over RDMA is in
# the left part of its bar: the network card moves the bytes while the GPU computes, and three quarters of
# them are hidden. NCCL over TCP is near the right end: hardly anything is hidden, or TCP does not reach 25
# Gb/s. The place in the bar cannot tell the two apart.
#
# The host is far beyond its bar: the bytes that C counts do not explain it. C gives each rank a link of its
# own. Here four ranks of a server share one. What do halving and doubling then send over it?
# <details><summary>Answer</summary>
#
# Of 16 ranks each has partners 8, 4, 2 and 1 places away, and only those 8 and 4 away are on other servers.
# Who begins with the farthest sends them n/2 and n/4, and as much again when doubling: 1.5 n. Four ranks
# share the link: 6 n. Who begins with the nearest sends them n/8 and n/16: 1.5 n for all four.
# </details>

# %%
host = [line for line in lab46.published("vgg16", gpus=16) if line.carrier.startswith("host")]
for order, times_n in (("farthest", 6), ("nearest", 1.5)):
    added = rdma.alone + times_n * rdma.nbytes * rdma.beta
    print(
        f"the {order} partner first: {times_n} n over a server's link; nothing hidden: {added:.2f} s a step"
    )
for line in host:
    print(f"{line}: measured {line.step:.2f} s")

# %% [markdown]
# So the order of the partners alone could explain the host's steps. It need not be the reason: staging copies
# 553 MB to host memory and back, on four GPUs at once, and that is in none of these sums. The table does not
# say which MPI it was. A profiler on such a cluster would tell. Lab 26 has the cure for a shared link: sum
# inside a server first.
#
# Here, you should see the measured step inside its bar, or near it. You may see it beyond: the link was timed
# while the cores were idle. You have seen what it takes when they compute.
#
# With more ranks a byte costs at most twice what it costs with two, as 2 (p - 1)/p stays below 2. A call's
# wait we took as the same. What a message costs is paid in 2 lg p rounds; where α is large, on many ranks it
# decides, and fewer, larger calls help.
#
# ### What you take away
# - w, α and β: what a call, a message and a byte cost. Three times of an allreduce tell them.
# - They bound a step from both sides. Between the bounds lies what the backward pass hides.
# - A bound counts the bytes of an algorithm on links of their own. Ranks that share a link are another sum.
# - Next: which library for which size (51).
