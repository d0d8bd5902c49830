# %% [markdown]
# # 35 Compress gradients
#
# Where the network is slow, send less: half of each value's bits, one of them, or only a few values. You put
# all three on the wire, see what is lost, get it back, and find out when it is worth the trouble.
#
# **You will be able to** (1) send gradients as float16, as bits and as the top k, and count the bytes, (2)
# keep the error, and say why training fails without, (3) say below which bandwidth compression pays.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 45 · Before: 23, 30

# %%
from functools import partial
from itertools import product

import numpy as np
from labkit import check, cluster, expect, hint, lab, launch, plots, predict, record, virtual, world
from labkit.counting import on_every_size
from support import lab35

lab.start("35_compress_gradients")

# %% tags=["parameters"]
batch = 32  # images per step, over all ranks together
epochs = 10  # passes over the 1,536 training images
rate = 0.1  # learning rate of plain SGD
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
share = 0.01  # part of the values that top-k sends
values_real = 1 << 20  # float32 values (4 bytes) per vector in the measurement on real ranks
patience = 30  # seconds after which a check calls the ranks stuck

# %% [markdown]
# ### Predict
# n float32 values on each of p ranks, and all need the mean: in a ring each rank sends 2(p - 1)/p · 4n bytes.
# With one bit for each value, all ranks' bits go to all (`Allgather`): (p - 1) · n/8 bytes. How many times
# fewer is that, with 4 ranks and with 64? And of a net that trains with such bits: how much of the test
# images (%) does it get right if the bits' error is kept for the next step, and if it is lost? (float32: 97)

# %%
predict("35.5", fewer_with_4=16, fewer_with_64=1)
predict("35.3", kept=97, lost=50)

# %% [markdown]
# ### Exercise 35.1 · Half precision
# float16 has 11 significant bits and a narrow range: magnitudes below 3e-8 become 0, from 65,520 on they are
# `inf`. So multiply by `scale` *before* values become float16, and divide when they are float32 again.
# Add up in float32: four times 60,000 is too much for float16, their mean is not. Leave an `inf` as it is: it
# reaches *all* ranks, and all can skip the step and halve the scale. Cut off, it would be wrong unseen.
# Two calls: `Alltoall` brings chunk r of every rank to rank r, who takes the mean; `Allgather` brings the
# means to all. MPI may not know float16, but carries 16 bits of any kind: `.view(np.uint16)`. 5 lines.
#
# <details><summary>Hint 1: there</summary>
#
# `chunks.ravel()[:n] = gradient * scale` makes float16 of it. Then `comm.Alltoall(chunks.view(np.uint16),
# arrived.view(np.uint16))`: row s of `arrived` is what rank s has for my chunk.
# </details>
# <details><summary>Hint 2: and back, nearly the answer</summary>
#
# `mean = arrived.mean(axis=0, dtype=np.float32).astype(np.float16)`, which `comm.Allgather` brings, viewed as
# above, into `chunks`. Return the first n of `chunks.ravel()` as float32, divided by `np.float32(scale)`.
# </details>


# %%
def half_average(comm, gradient, scale=1.0):
    """The mean of all ranks' gradients (float32), only float16 on the wire; `gradient` stays."""
    p, n = comm.size, len(gradient)
    chunks = np.zeros((p, -(-n // p)), np.float16)  # row r is for rank r; the last may end in zeros
    arrived = np.empty_like(chunks)
    with np.errstate(over="ignore", invalid="ignore"):  # no warning of inf: we want it
        ### BEGIN SOLUTION
        chunks.ravel()[:n] = gradient * scale
        # Across ranks: chunk r of everybody goes to rank r, who gives its mean to everybody.
        comm.Alltoall(chunks.view(np.uint16), arrived.view(np.uint16))
        mean = arrived.mean(axis=0, dtype=np.float32).astype(np.float16)
        comm.Allgather(mean.view(np.uint16), chunks.view(np.uint16))
        return chunks.ravel()[:n].astype(np.float32) / np.float32(scale)
        ### END SOLUTION


# %%
ranks = launch.ranks_here(4)


def expect_dtype(array, dtype, what):
    expect.equal(str(getattr(array, "dtype", type(array).__name__)), dtype, f"{what}: dtype")


def try_half(comm, case):
    """On a rank: case.gradients by rank, to be averaged with case.scale."""
    own = case.gradients[comm.rank].copy()
    mean = half_average(comm, own, case.scale)
    what = f"{comm.size} ranks, {case.what}: the mean on rank {comm.rank}"
    expect.close(mean, case.mean, what, rtol=case.rtol, atol=0, because=case.because)
    expect_dtype(mean, "float32", what)
    expect.unchanged(case.gradients[comm.rank], own, f"{comm.size} ranks, {case.what}: the gradient")


def try_half_cases(comm):
    for case in lab35.half_cases(comm.size, lengths=(1003,)):
        try_half(comm, case)


# %%
# What is asked: means of usual gradients, large, tiny, zeros; inf where one overflows; no more than two bytes
# a value on the wire, there and back; and the same on real ranks.
with check("35.1"):
    for p in (1, 2, 3, 4):
        for case in lab35.half_cases(p):
            run = virtual.Cluster(nodes=p).run(try_half, case)
            chunk = 2 * -(-case.gradients.shape[1] // p)  # bytes
            run.expect_sent(exactly=2 * (p - 1) * chunk, named="float16, there and back,")
    launch.run(on_every_size, try_half_cases, ranks=ranks, timeout=patience)

# %% [markdown]
# ### Exercise 35.2 · One bit a value
# **1-bit SGD** (Seide et al., Interspeech 2014; in Microsoft's CNTK) says of each value only whether it is
# below 0. For those the receiver takes the *mean of the values below 0*, for all others the *mean of the
# others*. (The paper has a pair of means for each column of a weight matrix; here one serves the vector.)
# The message: two float32, 8 bytes, then n bits. `np.packbits(up)` packs 8 booleans into a byte and fills the
# last with zeros. Mind the group that is empty, its mean is 0. 5 lines, and 2 back.
#
# <details><summary>Hint 1: the means</summary>
#
# `if up.any(): means[1] = values[up].mean()`; `~up` are the values below 0.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.concatenate([means.view(np.uint8), np.packbits(up)])`. Back: `means = message[:8].view(np.float32)` and
# `np.unpackbits(message[8:], count=n)`, n numbers 0 or 1: places in `means`.
# </details>


# %%
def one_bit(values):
    """A message (uint8): the mean of the values below 0, the mean of the others, a bit for each value."""
    means, up = np.zeros(2, np.float32), values >= 0
    ### BEGIN SOLUTION
    if not up.all():
        means[0] = values[~up].mean()
    if up.any():
        means[1] = values[up].mean()
    return np.concatenate([means.view(np.uint8), np.packbits(up)])
    ### END SOLUTION


def from_one_bit(message, n):
    """The n values (float32) that such a message stands for."""
    ### BEGIN SOLUTION
    means = message[:8].view(np.float32)
    return means[np.unpackbits(message[8:], count=n)]
    ### END SOLUTION


# %%
def expect_message(message, nbytes, what):
    expect_dtype(message, "uint8", f"{what}: the message")
    expect.equal(len(message), nbytes, f"{what}: bytes of the message")


def expect_back(values, want, what):
    expect.equal(np.shape(values), want.shape, f"{what}: shape of what comes back")
    expect.close(values, want, f"{what}: what comes back")
    expect_dtype(values, "float32", f"{what}: what comes back")


# What is asked: two means (float32) and a bit for each value, and back; of both signs, all above 0, …
with check("35.2"):
    for what, values, means, by_means in lab35.vectors():
        given = values.copy()
        message = one_bit(given)
        expect.unchanged(values, given, f"{what}: the vector")
        expect_message(message, 8 + -(-len(values) // 8), what)
        sent = message[:8].copy().view(np.float32)
        expect.close(sent, means, f"{what}: the message's two means (of the values below 0, of the others)")
        expect_back(from_one_bit(message, len(values)), by_means, what)

# %% [markdown]
# ### Exercise 35.3 · Keep the error
# What a message does not say is not lost if its sender remembers it: **error feedback**. In each step a rank
# *wants* to send gradient + `error`. It sends what fits in a message, and the new `error` is the rest: what
# it wanted minus what *its own* message says. Over many steps everything gets sent, only later. `Allgather`
# brings the messages to all, who expand each and take the mean. `compress(values)` and `expand(message, n)`
# are as in 35.2, and all messages have the same length. 6 lines.
#
# <details><summary>Hint 1: what is left</summary>
#
# `error[:] = wanted - expand(message, n)`. With `error = …` the caller would never see it.
# </details>
# <details><summary>Hint 2: the exchange, nearly the answer</summary>
#
# `comm.Allgather(message, messages)` into `messages = np.empty((comm.size, len(message)), np.uint8)`. Bytes
# have no mean, values do: `sum(expand(row, n) for row in messages) / comm.size`.
# </details>


# %%
def feedback_average(comm, gradient, error, compress, expand):
    """The mean over all ranks of what their messages say. `error`: own, changed in place (`gradient` not)."""
    n = len(gradient)
    ### BEGIN SOLUTION
    wanted = gradient + error
    message = compress(wanted)
    error[:] = wanted - expand(message, n)
    messages = np.empty((comm.size, len(message)), np.uint8)
    # Across ranks: everybody gets everybody's message.
    comm.Allgather(message, messages)
    return sum(expand(row, n) for row in messages) / comm.size
    ### END SOLUTION


# %%
# Steps on a rank: the right means, and the right errors carried on.
bits, simple = (one_bit, from_one_bit), (lab35.whole, lab35.from_whole)
settings = {"epochs": epochs, "batch": batch, "rate": rate, "seeds": seeds}
trained = partial(lab35.accuracy, feedback_average, **settings)  # % of test images, for each seed


def try_feedback(comm, steps, way):
    """On a rank: step after step, with the error that the steps before have left."""
    error = np.zeros_like(steps[0].mean)
    for number, step in enumerate(steps):
        own = step.gradients[comm.rank].copy()
        mean = feedback_average(comm, own, error, *way)
        at = f"{comm.size} ranks, {len(own)} values, step {number + 1}, rank {comm.rank}"
        slips = {"as if nothing was left of the step before": step.forgetful_mean}
        what = f"{at}: the mean of what the messages say"
        expect.close(mean, step.mean, what, rtol=1e-4, atol=1e-4, slips=slips)
        slips = {"as if nothing was left of the step before": step.forgetful_errors[comm.rank]}
        what = f"{at}: the error that is left"
        expect.close(error, step.errors[comm.rank], what, rtol=1e-4, atol=1e-4, slips=slips)
        expect.unchanged(step.gradients[comm.rank], own, f"{at}: the gradient")


# %%
def expect_feedback(way, p):
    """Means, errors carried on, and no more than an allgather of the messages."""
    for n in (1, 7, 8, 9, 1003):
        steps = lab35.feedback_steps(p, n, *way)
        run = virtual.Cluster(nodes=p).run(try_feedback, steps, way)
        nbytes = sum(len(way[0](step.gradients[0])) for step in steps)
        run.expect_sent(exactly=(p - 1) * nbytes, named="an allgather of the messages")


def try_bits(comm):
    try_feedback(comm, lab35.feedback_steps(comm.size, 1003, *bits), bits)


# %%
# What is asked: five steps with two kinds of messages, on virtual ranks and on real ones; then training,
# which has to be as good as with float32.
with check("35.3"):
    for p in (1, 2, 3, 4):
        expect_feedback(simple, p)
        expect_feedback(bits, p)
    launch.run(on_every_size, try_bits, ranks=ranks, timeout=patience)
    right = {"float32": trained(None), "1 bit, kept": trained(bits), "1 bit, lost": trained(bits, keep=False)}
    full, kept, lost = (np.mean(row) for row in right.values())
    near = 1 if epochs >= 10 else 5  # points: after a short training, nets differ more
    expect(kept >= full - near, f"With bits and the error kept {kept:.1f} % right, float32 {full:.1f} %.")
    predict.compare("35.3", kept=kept, lost=lost)

# %% [markdown]
# Why does it fail without? A bit cannot say *nearly 0*: a small value arrives as large as its group's mean,
# and moves the net in directions that do not matter. Feedback takes that back a step later. Seeds 0 to 5, 10
# epochs, % right: float32 95 to 98, kept 95 to 99, lost 7 to 20; rate 0.01: 90 to 92, 90 to 91, 80 to 85.
#
# ### Exercise 35.4 · The top k
# Or send few values, but exactly: the k of largest magnitude. The message: their places (int32, 4 bytes),
# then these values (float32) in this order. `np.argpartition(x, -k)[-k:]`: places of the k largest x.
#
# <details><summary>Hint 1: largest what?</summary>
#
# -5 matters more than 3: `np.abs(values)`. Places of 4 bytes: `.astype(np.int32)`.
# </details>
# <details><summary>Hint 2: back, nearly the answer</summary>
#
# `half = len(message) // 2`; places are `message[:half].view(np.int32)`. Into `np.zeros(n, np.float32)`.
# </details>


# %%
def top_k(values, k):
    """A message (uint8): the places (int32) of the k values of largest magnitude, then these (float32)."""
    ### BEGIN SOLUTION
    places = np.argpartition(np.abs(values), -k)[-k:].astype(np.int32)
    return np.concatenate([places.view(np.uint8), values[places].view(np.uint8)])
    ### END SOLUTION


def from_top_k(message, n):
    """The n values (float32) that such a message stands for: 0 where it says nothing."""
    ### BEGIN SOLUTION
    half = len(message) // 2
    values = np.zeros(n, np.float32)
    values[message[:half].view(np.int32)] = message[half:].view(np.float32)
    return values
    ### END SOLUTION


# %%
def expect_top(values, k, what):
    """A message of the k values of largest magnitude, and back."""
    n, given = len(values), values.copy()
    message = top_k(given, k)
    expect.unchanged(values, given, f"{what}: the vector")
    expect_message(message, 8 * k, what)
    places = message[: 4 * k].copy().view(np.int32)
    fits = len(set(places.tolist())) == k and places.min() >= 0 and places.max() < n
    expect(fits, f"{what}: the message does not begin with {k} different places (int32) below {n}.")
    largest = np.sort(np.abs(values))[n - k :]
    expect.equal(np.sort(np.abs(values[places])), largest, f"{what}: magnitudes at the places sent")
    sent = message[4 * k :].copy().view(np.float32)
    expect.equal(sent, values[places], f"{what}: the values sent, in the order of their places")
    expect_back(from_top_k(message, n), np.where(np.isin(np.arange(n), places), values, 0), what)


# What is asked: messages of the top 1, 3 and all, and back; and steps with the error kept.
with check("35.4"):
    for what, values, *_ in lab35.vectors():
        for k in sorted({1, min(3, len(values)), len(values)}):
            expect_top(values, k, f"{what}, k = {k}")
    for p in (1, 2, 3, 4):
        expect_feedback((partial(top_k, k=1), from_top_k), p)
    expect.between(values_real * share, 1, values_real, "values_real * share, values of the top k")

# %%
few, top = (partial(top_k, k=max(1, round(17226 * share))), from_top_k), f"top {100 * share:g}%"
right |= {f"{top}, kept": trained(few), f"{top}, lost": trained(few, keep=False)}
bars = {name.replace(", ", ",\n"): {"": row} for name, row in right.items()}
plots.bars(bars, ylabel="test images right (%), median", title="The digits, 4 ranks", name="accuracy")
for name, row in right.items():
    record.add("accuracy", unit="%", way=name, right=row, ranks=4, device="cpu", **settings)

# %% [markdown]
# ### Exercise 35.5 · When it pays
# What does a rank send for n values in the ring, in 35.1, and in 35.3 with 35.2 or 35.4? And if it sends
# `full` bytes without compression, `small` with it, and packing takes `seconds`: over a link of how many
# bytes/s do both take as long? 5 lines.
#
# <details><summary>Hint 1: break even</summary>
#
# `full / B = small / B + seconds`. Solve for B. If `small` is not smaller, there is none: 0.
# </details>
# <details><summary>Hint 2: bytes, nearly the answer</summary>
#
# The ring: see Predict. float16: half. The others: p - 1 messages, of `8 + -(-n // 8)` bytes or of `8 * k`.
# </details>


# %%
def bytes_sent(n, p, k):
    """Bytes that each rank sends for n values: by "float32" (the ring), "float16", "1 bit", "top k"."""
    ### BEGIN SOLUTION
    ring, bits = 2 * (p - 1) / p * 4 * n, 8 + -(-n // 8)
    return {"float32": ring, "float16": ring / 2, "1 bit": (p - 1) * bits, "top k": (p - 1) * 8 * k}
    ### END SOLUTION


def break_even(full, small, seconds):
    """Bytes/s of the link over which both take as long (over slower ones, compression wins); 0: none."""
    ### BEGIN SOLUTION
    return max(0, full - small) / seconds
    ### END SOLUTION


# %%
def ways(k):
    return {"1 bit": bits, "top k": (partial(top_k, k=k), from_top_k)}


# What is asked: bytes that virtual ranks send; and that both ways take as long over a link of `break_even`.
with check("35.5"):
    for p in (1, 2, 3, 4, 5, 8, 16):
        for k in (1, 50):
            want = lab35.bytes_counted(p, 720 * p, half_average, feedback_average, ways(k))
            expect.close(bytes_sent(720 * p, p, k), want, f"{p} ranks, {720 * p} values, k = {k}: bytes sent")
    expect.equal(break_even(100, 200, 1.0), 0, "100 bytes without and 200 with compression: break_even")
    for p, work in product((2, 4, 8), (1e-3, 0.1)):
        sent = bytes_sent(7200, p, 1)
        rate = break_even(sent["float32"], sent["1 bit"], work)
        what = f"{p} ranks, 7200 values, {work} s of packing"
        expect(rate > 0, f"{what}: break_even should be above {rate}.")
        plain, packed = lab35.seconds_over(rate, p, 7200, feedback_average, bits, work)
        what += f": seconds with bits over a link of break_even, {rate:.4g} bytes/s, as without"
        expect.close(packed, plain, what, rtol=1e-3, because="Both should take as long")
    expect.close(bytes_sent(9, 2, 1)["1 bit"], 10, "2 ranks, 9 values: bytes sent ['1 bit']")
    some = {p: bytes_sent(64_000, p, 1) for p in (4, 64)}
    predict.compare("35.5", **{f"fewer_with_{p}": row["float32"] / row["1 bit"] for p, row in some.items()})

# %% [markdown]
# ### Measure
# A group of one rank packs, sends nothing, expands one message; p ranks expand p - 1 more. How slow must a
# link be, with these times? (From 64 ranks on no link is: bits in an allgather are as many as the ring's.)
# Where the gradient lies on a GPU, its way to NumPy on the host, and back, is part of the packing.

# %%
n, k = values_real, round(values_real * share)
averages = (half_average, feedback_average, ways(k), n)
times, places = launch.run(lab35.exchange_times, *averages, ranks=ranks)[0]
print(places["1 bit"].describe())
axes = {"xlabel": "ranks", "logx": True, "logy": True}
sent = bytes_sent(n, ranks, k)
below = lab35.links(times, bytes_sent, break_even, n, k)
plots.lines(below, ylabel="link (Gb/s)", title="It pays over links slower than", **axes)
for way, row in times.items():
    costs = {"bytes": sent[way], "packing": lab35.packing(times, way, ranks), "seconds": row[0]}
    record.add("exchange", way=way, ranks=ranks, values=n, **costs, **places[way].fields())

# %% [markdown]
# Over a real slow link: `make tabletop` starts two nodes; without, the kit's reference. "Predicted" takes
# the link's speed from float32's time, and adds the packing. In the reference, 200 Mb/s look like 281 in this
# way: MPI's allreduce sends less between nodes than a ring. So float16 looks too fast; the rest mostly packs.

# %%
if cluster.here() and not world.launcher():
    cluster.submit("35", settings={"epochs": 4}).wait()
frame, whose = cluster.records_or_reference("35", "exchange")
last = frame.groupby("way", sort=False).last()
model = last.bytes / last.bytes["float32"] * last.seconds["float32"] + last.packing
title = f"Two nodes, {last.ranks.iloc[0]} ranks"
plots.compare(model.to_dict(), last.seconds.to_dict(), unit="seconds", title=title)
print(f"These are {whose}.")

# %% [markdown]
# More ranks: a virtual machine, one GPU a node, VGG-16's 138 million values, messages alone. The paper packs
# *twice*: a rank gets its chunk of everybody in bits, and sends the mean in bits: bytes do not grow with p.

# %%
n = 138.4e6
sizes = (2, 4, 8, 16, 32, 64)
kinds = {"float32": ("ring", 4 * n), "float16": ("there and back", 2 * n), "1 bit": ("allgather", n / 8)}
kinds |= {"top 1 %": ("allgather", 0.08 * n), "bits, twice": ("there and back", n / 8)}
times = {way: [lab35.traffic(p, *kind, "ethernet10_4gpu") for p in sizes] for way, kind in kinds.items()}
gain = {way: dict(zip(sizes, np.divide(times["float32"], row), strict=True)) for way, row in times.items()}
plots.lines(gain, ylabel="times as fast as float32", title="VGG-16 over 10 Gb/s: messages", **axes)

# %% [markdown]
# ### What you take away
# - float16: half the bytes. Scale before, add in float32, let `inf` through so that all skip the step.
# - Bits, or the top k: keep the error. An allgather of them grows with p; packing twice does not.
# - It pays below a bandwidth: bytes saved / seconds of packing. Paper: 8 GPUs 3.6 to 6.3 times as fast as 1.
