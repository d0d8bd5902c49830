# %% [markdown]
# <!-- Generated from solutions/35_compress_gradients.py by `make labs`. Learners work on a copy in work/. -->
# # 35 Compress gradients
#
# Where the network is slow, send less: half of each value's bits, one of them, or only a few
# values. You put all three on the wire, see what is lost, get it back, and find out when it is
# worth the trouble.
#
# **You will be able to** (1) send gradients as float16, as bits and as the top k, and count the
# bytes, (2) keep the error, and say why training fails without, (3) say below which bandwidth
# compression pays.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 50 · Level: intermediate · Before: 23, 30

# %%
from functools import partial

import numpy as np
from labkit import check, hint, lab, launch, placement, plots, predict, record
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
# ## Fewer bytes
# A gradient of n float32 values has 4n bytes. All p ranks need the mean of their gradients. Two
# ways to get it:
#
# | | a rank sends |
# |---|---|
# | a ring (lab 23), float32 | 2(p - 1)/p · 4n bytes |
# | a bit for each value, everybody's bits to all (`Allgather`) | (p - 1) · n/8 bytes |
#
# Bits cannot be added up on the way, as numbers can. So each rank's bits have to reach all others.
#
# ### Predict
# How many times fewer bytes are the bits, with 4 ranks and with 64?

# %%
predict("35.1", fewer_with_4=..., fewer_with_64=...)

# %%
# Bytes that a virtual rank sends, both ways.
counted = {p: lab35.ring_and_bits(p, n=64_000) for p in (4, 64)}
fewer = {p: ring / bits_to_all for p, (ring, bits_to_all) in counted.items()}
predict.right("35.1", fewer_with_4=fewer[4], fewer_with_64=fewer[64])


# %% [markdown]
# **Explain.** A ring's bytes hardly grow with p, an allgather's do. So bits send 64 / p times
# fewer.
#
# ### Exercise 35.1 · Half precision
# **float16** has 2 bytes, 11 significant bits and a narrow range: magnitudes below 3e-8 become 0,
# from 65,520 on they are `inf`. The mean of all ranks' gradients takes five steps, with only
# float16 on the wire:
#
# | step | call |
# |---|---|
# | 1. multiply by `scale`, *then* make float16 of it | `chunks.ravel()[:n] = …` converts |
# | 2. chunk r of every rank goes to rank r | there: row s of `arrived` is rank s's |
# | 3. rank r takes the mean of its chunk **in float32** | `arrived.mean(axis=0, dtype=np.float32)` |
# | 4. the means, float16 again (`.astype`), go to all | there: row r of `chunks` is rank r's |
# | 5. make float32 of it, *then* divide by `scale`; return it | the first n of `chunks.ravel()` |
#
# The messages of 2 and 4 are there. Write 1, 3 with the float16 of 4, and 5: a line each. Call the
# means `mean`. *(intermediate)*
#
# Why the scale: so that small values do not become 0. Why float32 inside: four times 60,000 is too
# much for float16, their mean is not. Why no care for `inf`: it reaches *all* ranks, and all can
# skip the step and halve the scale. Clipped to 65,504, it would be wrong, and nobody would see it.
#
# (MPI may not know float16, but it carries 16 bits of any kind: `array.view(np.uint16)` is the same
# memory.)
#
# <details><summary>Hint 1: there</summary>
#
# `chunks.ravel()[:n] = gradient * scale` makes float16 of it.
# </details>
# <details><summary>Hint 2: and back, nearly the answer</summary>
#
# `mean = arrived.mean(axis=0, dtype=np.float32).astype(np.float16)`. Return the first n of
# `chunks.ravel()` as float32, divided by `np.float32(scale)`.
# </details>

# %%
def half_average(comm, gradient, scale=1.0):
    """The mean of all ranks' gradients (float32), only float16 on the wire; `gradient` stays."""
    p, n = comm.size, len(gradient)
    chunks = np.zeros((p, -(-n // p)), np.float16)  # row r is for rank r; the last may end in zeros
    arrived = np.empty_like(chunks)
    with np.errstate(over="ignore", invalid="ignore"):  # no warning of inf: we want it
        raise NotImplementedError("exercise 35.1: Half precision")
        # Across ranks: chunk r of everybody goes to rank r, who gives its mean to everybody.
        comm.Alltoall(chunks.view(np.uint16), arrived.view(np.uint16))
        raise NotImplementedError("exercise 35.1: Half precision")
        comm.Allgather(mean.view(np.uint16), chunks.view(np.uint16))
        raise NotImplementedError("exercise 35.1: Half precision")


# %%
ranks = launch.ranks_here(4)

# %%
# Asked: Means of usual gradients, large, tiny, zeros; inf where one overflows;
# no more than two bytes a value on the wire, there and back; and the same on
# real ranks.
check("35.1", half_average)


# %% [markdown]
# **In Horovod** `compression=hvd.Compression.fp16` sends gradients as float16. Does half as much
# leave a node? MPI has no float16 that it can add. So Horovod brings an operation of its own, and
# for such an operation MPICH cuts no vector into pieces: it takes *recursive doubling*, whole
# vectors in log₂ p steps, where it sends float32 by *halving and doubling* ([lab 24](24_trees_and_halving.ipynb)). On p nodes,
# over the bytes of float32:
#
# | nodes | 2 | 4 | 8 | 64 |
# |---|---|---|---|---|
# | float16 sends | 0.50 | 0.67 | 0.86 | 1.52 |
#
# float16 is half on two nodes alone. Counted at the network cards of 2, 4 and 8 nodes over 200
# Mb/s, the shares were the same to a hundredth. Horovod adds in float16, too: above 65,504 its sums
# are `inf`. Your `half_average` sends half of the bytes on any number of nodes, and adds in
# float32.
#
# ### Exercise 35.2 · One bit a value
# **1-bit SGD** (Seide et al., Interspeech 2014; in Microsoft's CNTK) says of each value only
# whether it is below 0. For those the receiver takes the *mean of the values below 0*, for all
# others the *mean of the others*:
#
# | | | | | | two means |
# |---|---|---|---|---|---|
# | values | 3 | -1 | 1 | -5 | |
# | message | 1 | 0 | 1 | 0 | -3 and 2 |
# | what it says | 2 | -3 | 2 | -3 | |
#
# (The paper has a pair of means for each column of a weight matrix; here one serves the vector.)
#
# Write the message: two float32, 8 bytes, then n bits; and the way back. `np.packbits(up)` packs 8
# booleans into a byte and fills the last with zeros; `np.unpackbits(bytes, count=n)` gives n
# numbers 0 or 1. A group that is empty has the mean 0. 5 lines, and 2 back. *(intermediate)*
#
#
# <details><summary>Hint 1: the means</summary>
#
# `if up.any(): means[1] = values[up].mean()`; `~up` are the values below 0.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.concatenate([means.view(np.uint8), np.packbits(up)])`. Back:
# `means = message[:8].view(np.float32)` and `np.unpackbits(message[8:], count=n)`, n numbers 0 or
# 1: places in `means`.
# </details>

# %%
def one_bit(values):
    """A message (uint8): the mean of the values below 0, the mean of the others, a bit for each
    value."""
    means, up = np.zeros(2, np.float32), values >= 0
    raise NotImplementedError("exercise 35.2: One bit a value")


def from_one_bit(message, n):
    """The n values (float32) that such a message stands for."""
    raise NotImplementedError("exercise 35.2: One bit a value")


# %%
# Asked: Two means (float32) and a bit for each value, 0 where it is below 0;
# and back.
check("35.2", one_bit, from_one_bit)


# %% [markdown]
# ### Exercise 35.3 · Keep the error
# What a message does not say is not lost if its sender remembers it: **error feedback**. The values
# from above, for two steps with the same gradient:
#
# | step | gradient + error = wanted | message says | new error |
# |---|---|---|---|
# | 1 | 3 -1 1 -5 | 2 -3 2 -3 | 1 2 -1 -2 |
# | 2 | 4 1 0 -7 | 1.67 1.67 1.67 -7 | 2.33 -0.67 -1.67 0 |
#
# So in each step a rank *wants* to send gradient + `error`. It sends what fits in a message. The
# new `error` is the rest: what it wanted minus what *its own* message says. Over many steps
# everything gets sent, only later.
#
# `comm.Allgather(message, messages)` brings the messages to all, a row for each rank. Each rank
# expands them and takes the mean. `compress(values)` and `expand(message, n)` are functions as in
# 35.2; all messages have the same length. `error` is the caller's array: change it in place. 6
# lines. *(advanced)*
#
# <details><summary>Hint 1: what is left</summary>
#
# `error[:] = wanted - expand(message, n)`. With `error = …` the caller would never see it.
# </details>
# <details><summary>Hint 2: the exchange, nearly the answer</summary>
#
# `comm.Allgather(message, messages)` into
# `messages = np.empty((comm.size, len(message)), np.uint8)`. Bytes have no mean, values do:
# `sum(expand(row, n) for row in messages) / comm.size`.
# </details>

# %%
def feedback_average(comm, gradient, error, compress, expand):
    """The mean over all ranks of what their messages say. `error`: own, changed in place
    (`gradient` not)."""
    n = len(gradient)
    raise NotImplementedError("exercise 35.3: Keep the error")


# %%
bits, simple = (one_bit, from_one_bit), (lab35.whole, lab35.from_whole)
settings = {"epochs": epochs, "batch": batch, "rate": rate, "seeds": seeds}
trained = partial(lab35.accuracy, feedback_average, **settings)  # % of test images, for each seed

# %%
# Asked: Five steps with two kinds of messages, on virtual ranks and on real
# ones.
check("35.3", feedback_average)

# %% [markdown]
# ### Predict
# A net that trains with float32 gets about 97 % of the test images right after ten epochs. How many
# with bits, if the error is kept for the next step? And if it is lost? (Both are guesses.)

# %%
predict("35.3", kept=..., lost=...)

# %% [markdown]
# ### Measure: what does a net learn from bits?
# Ten epochs of the digits on 4 virtual ranks, three seeds; and, as a control, the same with a tenth
# of the learning rate. About a minute.

# %%
right = {
    "float32": trained(None),
    "1 bit, kept": trained(bits),
    "1 bit, lost": trained(bits, keep=False),
}
slow = {"float32": trained(None, rate=rate / 10), "1 bit, kept": trained(bits, rate=rate / 10)}
slow["1 bit, lost"] = trained(bits, keep=False, rate=rate / 10)

# %%
bars = {name.replace(", ", ",\n"): {"": row} for name, row in right.items()}
bars |= {f"{name}\nrate / 10".replace(", ", ",\n"): {"": row} for name, row in slow.items()}
plots.bars(
    bars,
    ylabel="test images right (%), median",
    title="Keep the error, and bits are enough",
    name="bits",
)
predict.compare("35.3", kept=np.median(right["1 bit, kept"]), lost=np.median(right["1 bit, lost"]))

# %% [markdown]
# **Explain.** You should see: with the error kept, bits are as good as float32. With the error lost
# the net learns nothing, or nearly; with a tenth of the rate it learns something, still less than
# float32 at that rate.
#
# ### Measure: what does a message keep of a gradient?
# Sort a gradient's values by magnitude. How much of ‖g‖², the sum of all squares, is in the largest
# 1 % of them, and how much in the smaller half? And the same values of the message, how much of
# *its* sum of squares are they? (A **cosine** of 1 says that two vectors point the same way, 0 that
# they have nothing in common.)

# %%
gradient = lab35.first_gradient()  # of 8 images, by the weights at the start


def print_kept(name, said):
    cosine, largest, smaller = lab35.kept(said, gradient)
    shares = (
        f"{100 * largest:5.1f} % in the largest 1 %, {100 * smaller:5.1f} % in the smaller half"
    )
    print(f"{name:>9}: {shares}; cosine with the gradient {cosine:.2f}")


print_kept("gradient", gradient)
print_kept("1 bit", from_one_bit(one_bit(gradient), len(gradient)))


# %% [markdown]
# **Explain.** Much of the gradient is in few values, and hardly anything in half of them. A bit can
# say neither. The few large values arrive as small as their group's mean. The small ones arrive as
# large as that, and are a good part of the message: weights are moved that should stay where they
# are.
#
# The error makes up for both in the next steps, if it is kept. What would a much lower rate do, if
# it is lost?
# <details><summary>Answer</summary>
#
# The control has it: at a tenth of the rate the net learns. Probably what is wrong in a small step
# does less harm, and over many steps a part of it cancels. Feedback does better: it takes a wrong
# step back in the next.
# </details>
#
# ## The top k
# Or send few values, but exactly: the **k of largest magnitude**, with error feedback for the rest.
# (Strom 2015 sent what exceeds a threshold, Aji and Heafield 2017 the top 1 %; Lin et al. 2018,
# Deep Gradient Compression, 0.1 %.)
#
# The message: their places (int32, 4 bytes each), then these values (float32) in the same order. Of
# 3 -1 1 -5 the top 2 are: places 3 0, values -5 3. Here it is, with the way back;
# `feedback_average` takes such a pair as it took the bits' pair.

# %%
def top_k(values, k):
    """A message (uint8): the places (int32) of the k values of largest magnitude, then these
    (float32)."""
    places = np.argpartition(np.abs(values), -k)[-k:].astype(np.int32)
    return np.concatenate([places.view(np.uint8), values[places].view(np.uint8)])


def from_top_k(message, n):
    """The n values (float32) that such a message stands for: 0 where it says nothing."""
    half = len(message) // 2
    values = np.zeros(n, np.float32)
    values[message[:half].view(np.int32)] = message[half:].view(np.float32)
    return values


print_kept("gradient", gradient)
k = max(1, round(len(gradient) * share))
print_kept(f"top {100 * share:g} %", from_top_k(top_k(gradient, k), len(gradient)))

# %% [markdown]
# ### Measure: the top k in training
# As before, with and without the error, of one value in a hundred. About 20 s.

# %%
few = (partial(top_k, k=k), from_top_k)
top = f"top {100 * share:g}%"
right |= {f"{top}, kept": trained(few), f"{top}, lost": trained(few, keep=False)}
bars = {name.replace(", ", ",\n"): {"": row} for name, row in right.items()}
bars["float32\nrate / 10"] = {"": slow["float32"]}
title = "Lost, the top k costs little, and bits cost all"
plots.bars(bars, ylabel="test images right (%), median", title=title, name="accuracy")
for name, row in right.items():
    record.add("accuracy", unit="%", way=name, right=row, ranks=4, device="cpu", **settings)


# %% [markdown]
# **Explain.** The top 1 % with the error kept is as good as float32. Lost, it costs a few points
# only, not everything: why does it bear that so much better than bits do?
# <details><summary>Answer</summary>
#
# What is sent is exact: the large values, where much of the gradient is. What is not sent is 0, and
# moves nothing. So a step points more the gradient's way (the cosine above) and goes less far. What
# going less far costs is not shown: the last bar, float32 with a tenth of the rate, loses some
# points, too, but its steps are far shorter still.
# </details>
#
# ## When it pays
# What does a rank send for n values? In float32 by the ring: see the first table. As float16 half
# of that. And by 35.3 p - 1 messages, of 8 bytes and n bits, or of 8k bytes:

# %%
def bytes_sent(n, p, k):
    """Bytes that each rank sends for n values: {"float32" (the ring): …, "float16", "1 bit", "top
    k"}."""
    ring = 2 * (p - 1) / p * 4 * n
    bits_of_one = 8 + -(-n // 8)  # -(-n // 8) is n / 8, rounded up
    return {
        "float32": ring,
        "float16": ring / 2,
        "1 bit": (p - 1) * bits_of_one,
        "top k": (p - 1) * 8 * k,
    }


def ways(k):
    return {"1 bit": bits, "top k": (partial(top_k, k=k), from_top_k)}


# As a control: bytes that 4 virtual ranks really send for 7,200 values.
counted = lab35.bytes_counted(4, 7200, half_average, feedback_average, ways(k=72))
for way, computed in bytes_sent(7200, 4, k=72).items():
    print(f"{way:>8}: {computed:8,.0f} bytes computed, {counted[way]:8,} counted")


# %% [markdown]
# Without compression a rank sends `full` bytes. With it, it sends `small` bytes, and packing takes
# `seconds`. Over a link of B bytes/s both take as long where full / B = small / B + seconds:

# %%
def break_even(full, small, seconds):
    """Bytes/s of the link over which both take as long (over slower ones, compression wins); 0:
    none."""
    return max(0, full - small) / seconds


# %% [markdown]
# ### Measure: what does packing take?
# It is timed on real ranks. A group of one rank packs, sends nothing and expands one message; p
# ranks expand p - 1 more, and one expansion is timed alone. About 20 s.
#
# All of it is in host memory, also where there are GPUs: packing is NumPy's here.

# %%
k = round(values_real * share)
averages = (half_average, feedback_average, ways(k), values_real)
times = launch.run(lab35.exchange_times, *averages, ranks=ranks)[0]
sent = bytes_sent(values_real, ranks, k)
for way, row in times.items():
    packing = lab35.packing(times, way, ranks)
    print(
        f"{way:>8}: {1e3 * packing:6.1f} ms of packing, {sent[way] / 1e6:.2f} MB sent, {ranks}"
        " ranks"
    )
    costs = {"bytes": sent[way], "packing": packing, "seconds": row[0]}
    record.add(
        "exchange",
        way=way,
        ranks=ranks,
        values=values_real,
        **costs,
        **placement.on_host("MPI").fields(),
    )

# %% [markdown]
# ### Predict
# From these lines: over links of less than how many Gb/s do bits pay? 1 Gb/s is 0.125 GB/s.

# %%
predict("35.3", bits_pay_below_Gbps=...)

# %%
below = lab35.links(times, bytes_sent, break_even, values_real, k)
title = "Compression pays over links slower than this"
plots.lines(below, xlabel="ranks", ylabel="link (Gb/s)", title=title, logx=True, logy=True)
packing = lab35.packing(times, "1 bit", ranks)
predict.compare(
    "35.3", bits_pay_below_Gbps=8e-9 * break_even(sent["float32"], sent["1 bit"], packing)
)

# %% [markdown]
# **Explain.** A point says: over any slower link this way wins, over any faster one float32. The
# points are computed, from `break_even` and the packing that was timed: a group of one, and p - 1
# expansions.
#
# The curves of bits and of the top k fall where ranks are many, for two reasons. Each rank expands
# everybody's messages, and an allgather saves fewer bytes. float16's curve does not fall. From 64
# ranks on, bits in an allgather are as many as the ring's bytes: then no link is slow enough.
#
# The height of the curves is that of NumPy on your cores, with as many ranks at once as the first
# line of this lab says. On a GPU packing is faster, and links are, too. If ranks are more than
# cores, they pack in turns, and the links look slower than they have to be.
#
# More ranks? Bytes of bits in an allgather grow with p, a ring's do not. The paper packs *twice*: a
# rank gets its chunk of everybody in bits, and sends the mean in bits. That is 2(p - 1)/p · n/8
# bytes, 32 times fewer than float32's, for any number of ranks.
#
# ### What you take away
# - float16: half the bytes. Scale before, add in float32, let `inf` through so that all skip the
#   step. (Nothing was trained with it here.)
# - Bits, or the top k: keep the error. An allgather of them grows with p; packing twice does not.
# - It pays below a bandwidth: bytes saved / seconds of packing.
# - Fewer bytes are worth nothing without the control: the same training, with float32, to the same
#   accuracy.
