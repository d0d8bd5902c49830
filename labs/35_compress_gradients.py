# %% [markdown]
# <!-- Generated from solutions/35_compress_gradients.py by `make labs`. Learners work on a copy in work/. -->
# # 35 Compress gradients
#
# On a slow network, data-parallel training spends most of its time sending [gradients](../labs/GLOSSARY.md#gradient). You can send
# fewer bytes instead: half of the bits of each value, a single bit of each value, or only the few
# values that matter most. Such methods lose information, and it is not obvious whether a network
# still learns from what remains. They also need time for packing and unpacking the values, so on a
# fast network they make a step slower.
#
# In this lab we send gradients in three compressed forms, count the bytes, see what is lost, and
# test whether *error feedback*, which adds the lost part to the next gradient, recovers it. Then we
# compute the [bandwidth](../labs/GLOSSARY.md#bandwidth) below which each form is worth its cost.
#
# **After this lab you can** (1) send gradients as float16, as bits and as the top k values (those
# of largest magnitude), and count the bytes, (2) keep the error for the next step, and say what
# happens without it, and (3) say below which bandwidth compression is worth its cost.
#
# ![One gradient of six values in four forms: float32, float16, one bit per value with two means, and the top two values with their places](../notebooks/figures/35_forms.svg)
#
# *A gradient of six values as float32, as float16, as one bit per value with two means that replace
# the values, and as the two values of largest magnitude with their places. The widths of the boxes
# are proportional to the bytes.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 23, 30

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
seeds = (0, 1, 2)  # a training run for each: start weights and order of the images
share = 0.01  # part of the values that top-k sends
values_real = 1 << 20  # float32 values (4 bytes) per vector in the measurement on real ranks
patience = 30  # seconds after which a check calls the ranks stuck

# %% [markdown]
# ## Fewer bytes
# A gradient of n float32 values has 4n bytes, and all p [ranks](../labs/GLOSSARY.md#rank) need the mean of their gradients. How
# much can we save by sending a single bit for each value? A ring adds up numbers on their way from
# rank to rank. Bits cannot be added up in this way, so those of each rank have to reach all others:
#
# | way | a rank sends |
# |---|---|
# | float32 in a ring ([lab 23](23_ring_allreduce.ipynb)) | 2(p - 1)/p · 4n bytes |
# | one bit for each value, to all other ranks (`Allgather`) | (p - 1) · n/8 bytes |
#
# ### Predict
# By what factor do the bits reduce the number of bytes, with 4 ranks and with 64? Divide the first
# row by the second. (The bytes are then counted on *virtual ranks*, in the simulator of [lab 23](23_ring_allreduce.ipynb).)

# %%
predict("35.1", fewer_with_4=..., fewer_with_64=...)

# %%
# Bytes that a virtual rank sends, both ways.
counted = {p: lab35.ring_and_bits(p, n=64_000) for p in (4, 64)}
fewer = {p: ring / bits_to_all for p, (ring, bits_to_all) in counted.items()}
predict.right("35.1", fewer_with_4=fewer[4], fewer_with_64=fewer[64])


# %% [markdown]
# **Explain.** The ratio is 64 / p, because the bytes of the ring hardly grow with p, while those of
# the [allgather](../labs/GLOSSARY.md#allgather) grow in proportion to p - 1. So with 4 ranks the bits take 16 times fewer bytes, and
# with 64 ranks they take as many as float32.
#
# ### Exercise 35.1 · Half precision
# We begin with the form that loses least. A **float16** value ([FP16](../labs/GLOSSARY.md#FP16)) has 2 bytes, 11 significant
# bits and a magnitude in a narrow range, from about 6e-8 to 65,504. An average in float16 has to
# avoid both ends of this range:
#
# - *Multiply by a scale first.* The value 1e-8 becomes 0 in float16, while 2²⁰ · 1e-8, about 0.01,
#   does not.
# - *Compute the mean in float32.* The sum of four values of 60,000 is too large for float16,
#   although their mean is not. Round only this mean to float16.
#
# A value that is still too large becomes `inf` (infinity), and you don't need to do anything about
# it. The mean is then `inf` on all ranks, so that all of them notice and can skip the step, as in
# [lab 14](14_mixed_precision_and_memory.ipynb). (The mean is `nan` if one rank has `inf` and another `-inf`.)
#
# The gradient is cut into p chunks, the rows of the array `chunks`, and rank r computes the mean of
# row r. Write steps 1, 3 and 5 in place of the three `raise` lines, one line each. *(intermediate)*
#
# | step | |
# |---|---|
# | 1 | multiply the gradient by `scale`, *then* convert to float16: an assignment to `chunks.ravel()[:n]` converts |
# | 2, given | send row r of `chunks` to rank r; row s of `arrived` is then from rank s |
# | 3 | `mean`: the mean of the rows in float32, `arrived.mean(axis=0, dtype=np.float32)`, as float16 again (`.astype`) |
# | 4, given | send `mean` to all ranks; row r of `chunks` is then the mean of rank r |
# | 5 | convert the first n values of `chunks.ravel()` to float32, *then* divide by `scale`, and return the result |
#
# For example, two ranks have these gradients, and `scale` is 1:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | gradient | 1 2 3 | 3 4 9 |
# | rows of `chunks` after step 1 | (1 2) and (3 0) | (3 4) and (9 0) |
# | rows of `arrived` after step 2 | (1 2) and (3 4) | (3 0) and (9 0) |
# | `mean` | 2 3 | 6 0 |
# | result | 2 3 6 | 2 3 6 |
#
# (Not every [MPI](../labs/GLOSSARY.md#MPI) library knows float16, so steps 2 and 4 send the same memory as 16-bit integers,
# with `.view(np.uint16)`.)
#
# <details><summary>Hint 1: there</summary>
#
# `chunks.ravel()[:n] = gradient * scale` converts to float16.
# </details>
# <details><summary>Hint 2: and back, nearly the answer</summary>
#
# `mean = arrived.mean(axis=0, dtype=np.float32).astype(np.float16)`. Return the first n values of
# `chunks.ravel()` as float32, divided by `np.float32(scale)`.
# </details>

# %%
def half_average(comm, gradient, scale=1.0):
    """The mean of all ranks' gradients (float32), only float16 on the wire; `gradient` stays."""
    p, n = comm.size, len(gradient)
    chunks = np.zeros((p, -(-n // p)), np.float16)  # row r for rank r; the last may end in zeros
    arrived = np.empty_like(chunks)
    with np.errstate(over="ignore", invalid="ignore"):  # no warning of inf: we want it
        raise NotImplementedError("exercise 35.1: Half precision")
        # Across ranks: chunk r of each rank goes to rank r, which sends its mean to all ranks.
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
# Your `half_average` sends half as many bytes as float32 on any number of ranks.
#
# **Horovod** has an option for float16, `compression=hvd.Compression.fp16`. How many bytes it saves
# depends on the library that adds up the values. MPICH, for example, sends whole float16 vectors of
# 2n bytes in log₂ p steps (recursive doubling, [lab 24](24_trees_and_halving.ipynb)), which halves the bytes only on 2 ranks:
#
# | ranks | float32 in a ring | float16 with MPICH |
# |---|---|---|
# | 2 | 4n bytes | 2n bytes |
# | 4 | 6n bytes | 4n bytes |
# | 16 | 7.5n bytes | 8n bytes |
#
# ## One bit, and the error that it leaves
# **1-bit SGD** ([Seide et al., 2014](https://doi.org/10.21437/Interspeech.2014-274); used in Microsoft's CNTK) sends one bit for each
# value: 0 if the value is below 0, and 1 if it is not. Where the bit is 0, the receiver uses the
# *mean of the values below 0*, and where it is 1, the *mean of the others*. (CNTK computes the two
# means for each column of a weight matrix, while we compute them for the whole gradient.)
#
# | | two means | | | | |
# |---|---|---|---|---|---|
# | values | | 3 | -1 | 1 | -5 |
# | message | -3 and 2 | 1 | 0 | 1 | 0 |
# | received values | | 2 | -3 | 2 | -3 |
#
# ### Exercise 35.2 · One bit a value
# Write `one_bit`, which makes the message, and `from_one_bit`, which converts it back. 5 lines, and
# 2 for the conversion back. *(intermediate)*
#
# A message is an array of bytes with two parts:
#
# - `means`: the mean of the values below 0, then the mean of the others, as float32 (8 bytes). If
#   there are no such values, the mean stays 0. `means.view(np.uint8)` is the same memory as bytes,
#   and `.view(np.float32)` converts back.
# - the bits of `up`, which is True where a value is not below 0. `np.packbits(up)` packs 8 booleans
#   into a byte and fills the last byte with zeros. `np.unpackbits(bytes, count=n)` returns n
#   numbers, each of them 0 or 1.
#
# <details><summary>Hint 1: the means</summary>
#
# `if up.any(): means[1] = values[up].mean()`; `~up` are the values below 0.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.concatenate([means.view(np.uint8), np.packbits(up)])`. Back:
# `means = message[:8].view(np.float32)` and `np.unpackbits(message[8:], count=n)`, which are n
# numbers 0 or 1 that you can use as indices into `means`.
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
# With **error feedback**, a sender remembers what its message leaves out, and adds it to its next
# gradient. In each step a rank makes a message of the *wanted* values, gradient + `error`. The new
# `error` is the wanted values minus the values of *its own* message. These are two steps, both with
# the gradient from above:
#
# | step | gradient + error = wanted | received values | new error |
# |---|---|---|---|
# | 1 | 3 -1 1 -5 | 2 -3 2 -3 | 1 2 -1 -2 |
# | 2 | 4 1 0 -7 | 1.67 1.67 1.67 -7 | 2.33 -0.67 -1.67 0 |
#
# The error holds everything that was not sent yet. The two gradients add up to 6 -2 2 -10, and
# after both steps this is missing:
#
# | error | sum of the received values | missing |
# |---|---|---|
# | kept | 3.67 -1.33 3.67 -10 | 2.33 -0.67 -1.67 0, the last error |
# | dropped after each step | 4 -6 4 -6 | 2 4 -2 -4, twice the error of one step |
#
# Write `feedback_average`, which does one such step on every rank and returns the mean of the
# values of all messages. 6 lines. *(advanced)*
#
# - `compress(values)` and `expand(message, n)` are a pair of functions like `one_bit` and
#   `from_one_bit`. All messages have the same length.
# - `comm.Allgather(message, messages)` sends the messages to all ranks, one row for each rank. Each
#   rank expands the rows.
# - `error` is the caller's array, so change it in place.
#
# <details><summary>Hint 1: what remains</summary>
#
# `error[:] = wanted - expand(message, n)`. With `error = …` the caller would never see the change.
# </details>
# <details><summary>Hint 2: the communication, nearly the answer</summary>
#
# `comm.Allgather(message, messages)` into
# `messages = np.empty((comm.size, len(message)), np.uint8)`. Bytes have no mean, but values do:
# `sum(expand(row, n) for row in messages) / comm.size`.
# </details>

# %%
def feedback_average(comm, gradient, error, compress, expand):
    """The mean over all ranks of what their messages say. `error`: own, changed in place
    (`gradient` not)."""
    n = len(gradient)
    raise NotImplementedError("exercise 35.3: Keep the error")


# %%
# Two pairs of functions for the check (`simple` sends whole numbers), and a training run.
bits, simple = (one_bit, from_one_bit), (lab35.whole, lab35.from_whole)
settings = {"epochs": epochs, "batch": batch, "rate": rate, "seeds": seeds}
trained = partial(lab35.accuracy, feedback_average, **settings)  # % of test images, for each seed

# %%
# Asked: Five steps with two kinds of messages, on virtual ranks and on real
# ones.
check("35.3", feedback_average)

# %% [markdown]
# ### Predict
# After ten [epochs](../labs/GLOSSARY.md#epoch), a network trained with float32 classifies about 97 % of the test images
# correctly. A network that has learned nothing reaches about 10 %, because there are ten digits.
#
# What percentage does a network trained with bits classify correctly, if the error is kept for the
# next step, and if the error is dropped (`lost`)? Both are guesses.

# %%
predict("35.3", kept=..., lost=...)

# %% [markdown]
# ### Measure: what does a network learn from bits?
# We train on the digits for ten epochs, on 4 virtual ranks, with three seeds for each bar. A
# [learning rate](../labs/GLOSSARY.md#learning-rate) that suits float32 might be too large for bits. As a control we therefore repeat all
# runs with a tenth of this rate (the bars *rate / 10*). This takes about a minute.

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
    title="Accuracy with bits, if the error is kept or lost",
    name="bits",
)
predict.compare("35.3", kept=np.median(right["1 bit, kept"]), lost=np.median(right["1 bit, lost"]))

# %% [markdown]
# **Explain.** If the error is kept, you should see that bits are as good as float32. If the error
# is dropped, the network learns nothing or almost nothing.
#
# With a tenth of the learning rate and the error dropped, the network learns more, but still less
# than with float32 at this rate. So a rate that is too large is not the only reason.
#
# ### Measure: which part of a gradient does a message keep?
# What does one bit per value do to a gradient? We mark the places of its largest values and of the
# smaller half of its values, by magnitude. Then we compute the share of the sum of squares in these
# places, both for the gradient and for the received values. In the example of 35.2:
#
# | | values | squares | share of the largest value | share of the smaller half |
# |---|---|---|---|---|
# | gradient | 3 -1 1 -5 | 9 1 1 25 | 25/36 = 69 % | 2/36 = 6 % |
# | received | 2 -3 2 -3 | 4 9 4 9 | 9/26 = 35 % | 13/26 = 50 % |
#
# The **cosine** is 1 if two vectors have the same direction and 0 if they are orthogonal. Here it
# is 26 / √(36 · 26) = 0.85.
#
# The next cell prints the same for a real gradient of our network, with the largest 1 % of its
# values.

# %%
gradient = lab35.first_gradient()  # of 8 images, by the weights at the start
lab35.print_kept("gradient", gradient, gradient)
lab35.print_kept("1 bit", from_one_bit(one_bit(gradient), len(gradient)), gradient)


# %% [markdown]
# **Explain.** You should see that more than half of the gradient's sum of squares is in its largest
# 1 %, while the squares of the received values are spread much more evenly.
#
# Each value is replaced by the mean of its group (below 0, or not). The few large values therefore
# arrive too small, and the small ones too large, so weights that should hardly change do change. If
# the error is kept, the next steps correct both.
#
# ## The top k values
# Instead of sending all values coarsely, you can send a few values exactly, namely the **k values
# of largest magnitude**, with error feedback for the others.
#
# The message contains the places of these values (int32, 4 bytes each), and then the values
# (float32) in the same order. For 3 -1 1 -5, the top 2 are at places 3 and 0 (counted from 0), with
# the values -5 and 3.
#
# The next cell has a pair of functions like yours for bits, and prints the same shares and the
# cosine for its message.

# %%
def top_k(values, k):
    """A message (uint8): the places (int32) of the k values of largest magnitude, then these
    (float32)."""
    places = np.argpartition(np.abs(values), -k)[-k:].astype(np.int32)
    return np.concatenate([places.view(np.uint8), values[places].view(np.uint8)])


def from_top_k(message, n):
    """The n values (float32) that such a message stands for, with 0 at all other places."""
    half = len(message) // 2
    values = np.zeros(n, np.float32)
    values[message[:half].view(np.int32)] = message[half:].view(np.float32)
    return values


k = max(1, round(len(gradient) * share))
received = from_top_k(top_k(gradient, k), len(gradient))
lab35.print_kept("gradient", gradient, gradient)
lab35.print_kept(f"top {100 * share:g} %", received, gradient)

# %% [markdown]
# ### Measure: the top k in training
# As before, we train with and without the error, now sending one value in a hundred. The plot
# repeats the bars for bits. This takes about 20 s.

# %%
few = (partial(top_k, k=k), from_top_k)
top = f"top {100 * share:g}%"
right |= {f"{top}, kept": trained(few), f"{top}, lost": trained(few, keep=False)}
bars = {name.replace(", ", ",\n"): {"": row} for name, row in right.items()}
bars["float32\nrate / 10"] = {"": slow["float32"]}
title = "Accuracy with bits and with the top k"
plots.bars(bars, ylabel="test images right (%), median", title=title, name="accuracy")
for name, row in right.items():
    record.add("accuracy", unit="%", way=name, right=row, ranks=4, device="cpu", **settings)


# %% [markdown]
# **Explain.** You should see that the top 1 % with the error kept is as good as float32. If the
# error is dropped, the accuracy falls by only a few points. Why does this form need the error so
# much less than bits do?
# <details><summary>Answer</summary>
#
# The values that are sent are exact, and they contain a large part of the gradient. The others are
# received as 0 and change nothing. A step therefore points more in the gradient's direction (see
# the cosine above), although most of its values are 0.
#
# (In the last bar, float32 with much shorter steps is a few points worse, too.)
# </details>
#
# ## When compression is worth its cost
# Compression pays off if it saves more time on the link than packing costs, where *packing* means
# to make messages and to expand them again. We first need the bytes that a rank sends for n values:
#
# | way | a rank sends |
# |---|---|
# | float32 in a ring | 2(p - 1)/p · 4n bytes |
# | float16 | 2(p - 1)/p · 2n bytes |
# | one bit (two means, and n bits) | (p - 1) · (8 + n/8) bytes |
# | top k (k places, and k values) | (p - 1) · 8k bytes |
#
# The next cell compares these formulas with the bytes that 4 virtual ranks send for 7,200 values.

# %%
def ways(k):
    return {"1 bit": bits, "top k": (partial(top_k, k=k), from_top_k)}


# As a control: bytes that 4 virtual ranks really send for 7,200 values.
counted = lab35.bytes_counted(4, 7200, half_average, feedback_average, ways(k=72))
for way, computed in lab35.bytes_sent(7200, 4, k=72).items():
    print(f"{way:>8}: {computed:8,.0f} bytes computed, {counted[way]:8,} counted")

# %% [markdown]
# Without compression a rank sends `full` bytes, which takes full / B over a link of B bytes/s. With
# compression it sends only `small` bytes, but packing takes `seconds`, together small / B +
# seconds. Both ways take equally long if
#
#     B = (full - small) / seconds
#
# For example, if 100 MB become 20 MB and packing takes 40 ms, B = 80 MB / 40 ms = 2 GB/s, which is
# 16 Gb/s. Over slower links compression is faster.
#
# ### Measure: how long does packing take?
# Now we measure `seconds` on real ranks, without sending anything. All ranks pack at the same time,
# and each packs and expands only its own message. The expansion of one more message is timed
# separately, and added p - 1 times. NumPy does the packing, so everything is in host memory.
#
# Each printed line has the time beyond that of float32, and the bytes that a rank would send. This
# takes about 20 s.

# %%
k = round(values_real * share)
averages = (half_average, feedback_average, ways(k), values_real)
times = launch.run(lab35.exchange_times, *averages, ranks=ranks)[0]
sent = lab35.bytes_sent(values_real, ranks, k)
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
# Below how many Gb/s are bits worth their cost? Use the formula for B, with `full` from the line
# *float32*, and with `small` and `seconds` from the line *1 bit*. The result is in bytes per
# second, and 1 Gb/s is 0.125 · 10⁹ bytes per second.

# %%
predict("35.3", bits_pay_below_Gbps=...)

# %%
below = lab35.links(times, values_real, k)
title = "The link over which both ways take equally long"
plots.lines(below, xlabel="ranks", ylabel="link (Gb/s)", title=title, logx=True, logy=True)
packing = lab35.packing(times, "1 bit", ranks)
bandwidth = lab35.break_even(sent["float32"], sent["1 bit"], packing)  # bytes/s
predict.compare("35.3", bits_pay_below_Gbps=8e-9 * bandwidth)

# %% [markdown]
# **Explain.** Each point is the bandwidth B of one form. Over a slower link this form is faster,
# and over a faster link float32 is. The curves depend on the number of ranks:
#
# - *With few ranks* the curves may still rise. A ring sends 4n bytes per rank on 2 ranks and 6n on
#   4, so compression saves more.
# - *With more ranks* the curves for bits and for the top k fall, because each rank expands the
#   messages of all ranks, and because an allgather saves fewer bytes. From 64 ranks on, bits take
#   at least as many bytes as the ring, and then no link is slow enough.
# - *For float16* the curve does not fall, because a rank converts n values however many ranks there
#   are.
#
# The height of the curves depends on NumPy and your cores. Only the number of ranks printed above
# was measured, and for the other points the time of expanding a message is multiplied by p - 1. The
# formula leaves out latencies, and communication that the [backward pass](../labs/GLOSSARY.md#backward-pass) hides.
#
# Bits can pay off on many ranks, too, if they are packed *twice*, as in the paper on 1-bit SGD. A
# rank then receives its chunk of the gradient from all ranks in bits, and sends the mean of this
# chunk to all ranks in bits. This takes about 2(p - 1)/p · n/8 bytes, 32 times fewer than float32,
# for any number of ranks.
#
# ### What you take away
# - float16 halves the bytes if each rank averages a chunk. Scale first, and compute the mean in
#   float32. (This lab did not train with float16.)
# - With bits or the top k, keep the error. The cost of an allgather grows with p, but that of
#   packing twice does not.
# - Compression is worth its cost below a certain bandwidth: the bytes that it saves, divided by the
#   seconds of packing.
# - Compare with the same training in float32, because fewer bytes are worth something only at the
#   same accuracy.
#
# ### Further reading
# - F. Seide, H. Fu, J. Droppo, G. Li and D. Yu, *[1-bit stochastic gradient descent and its application to data-parallel distributed training of speech DNNs](https://doi.org/10.21437/Interspeech.2014-274)*, Interspeech, 2014. 1-bit SGD with error feedback.
# - Y. Lin, S. Han, H. Mao, Y. Wang and W. Dally, *[Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training](https://arxiv.org/abs/1712.01887)*, ICLR, 2018. Deep Gradient Compression, which sends 0.1 % of the values.
# - S. Stich, J. Cordonnier and M. Jaggi, *[Sparsified SGD with Memory](https://arxiv.org/abs/1809.07599)*, NeurIPS, 2018. Why error feedback works, with a proof.
# - T. Vogels, S. Karimireddy and M. Jaggi, *[PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization](https://arxiv.org/abs/1905.13727)*, NeurIPS, 2019. PowerSGD, a compression that can be added up in an [allreduce](../labs/GLOSSARY.md#allreduce).
# - D. Alistarh, D. Grubic, J. Li, R. Tomioka and M. Vojnovic, *[QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding](https://arxiv.org/abs/1610.02132)*, NeurIPS, 2017. QSGD, which rounds randomly instead of keeping the error.
