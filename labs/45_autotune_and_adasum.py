# %% [markdown]
# <!-- Generated from solutions/45_autotune_and_adasum.py by `make labs`. Learners work on a copy in work/. -->
# # 45 Autotune and Adasum
#
# Three of Horovod's knobs. **Adasum** adds gradients more carefully than a sum does. **float16** halves each
# value on its way. **Autotune** turns other knobs by itself. You build the first, predict the second, and
# check the third.
#
# **You will be able to** (1) add gradients by Adasum, across ranks, and say what it does on GPUs, (2) say
# what float16 saves on how many nodes, and why it may be less than half, (3) beat autotune, or not, with your
# own search, and say what it never tries.
#
# Needs: mpi, horovod, torch · Ranks: 4 · Minutes: 60 · Before: 24, 30, 40, 44

# %%
import numpy as np
from labkit import check, cluster, expect, hint, home, lab, launch, plots, predict, record, virtual, world
from support import lab45

lab.start("45_autotune_and_adasum")

# %% tags=["parameters"]
ranks_wanted = 4  # processes, where no launcher has started some
epochs = 4  # passes over the 1,536 training images
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
rates = (0.05, 0.125, 0.2)  # learning rates: of one rank, 2.5 and 4 times as large
values = 1 << 20  # float32 values (4 bytes) in the allreduce that is measured
layers = 12  # matrices, a step's gradients
width = 256  # rows and columns of each, float32: 256 KiB
steps = 20  # timed steps under each setting
samples = 7  # autotune tries one setting more
rounds = 3  # how often your search tries each setting
watch = True  # under a launcher: watch autotune, or search (False); Horovod cannot do both


# %% [markdown]
# ## Adasum
# Two ranks have gradients a and b. Each asks for a step. What should both do together?
#
# - If the gradients point in *different* directions (orthogonal), the steps do not disturb each other. Take
#   the **sum**: both help.
# - If they *agree*, the sum goes twice as far as either thinks is safe. Take the **mean**.
#
# **Adasum** (Maleki et al. 2020, "Scaling Distributed Training with Adaptive Summation") does both, and all
# between. With a·b the dot product, and |a|² = a·a:
#
#     adasum(a, b) = (1 - a·b / (2|a|²)) a + (1 - a·b / (2|b|²)) b
#
# | a | b | a·b | factor of a | factor of b | adasum(a, b) | |
# |---|---|---|---|---|---|---|
# | (2, 0) | (0, 3) | 0 | 1 | 1 | (2, 3) | the sum |
# | (2, 0) | (2, 0) | 4 | 1/2 | 1/2 | (2, 0) | the mean |
# | (2, 0) | (4, 0) | 8 | 0 | 3/4 | (3, 0) | the mean |
#
# ### Exercise 45.1 · Two gradients
# Write the formula for NumPy vectors: `x @ y` is their dot product. Two traps:
#
# - Where a gradient is all zeros, |a|² is 0. The other gradient then stays as it is.
# - float32 holds no number above 3e38, and gradients may have squares above that. Compute in float64, and
#   return the type that came in.
#
# About 5 lines. *(beginner)*
#
# <details><summary>Hint 1: float64</summary>
#
# `x, y = a.astype(np.float64), b.astype(np.float64)`; `x @ y` is a·b, `x @ x` is |a|².
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `of_x = 1 - dot / (2 * (x @ x)) if x.any() else 1`, so with y; return `(of_x * x + …).astype(a.dtype)`.
# </details>

# %%
def pair(a, b):
    """Adasum of two gradients (1-D, of one type). Returns a new array of that type."""
    raise NotImplementedError("exercise 45.1: Two gradients")


# %%
# What is asked: Adasum of gradients orthogonal, parallel, opposite, zeros, huge, tiny; in a new array.
with check("45.1"):
    for what, a, b, want, atol in lab45.pairs():
        own = a.copy(), b.copy()
        with np.errstate(all="ignore"):  # the wrong value that follows says more
            got = pair(*own)
        array = f"{what}: the result should be an array like a, not a {type(got).__name__}."
        expect(isinstance(got, np.ndarray), array)
        expect.close(got, want, what, rtol=1e-4, atol=atol)
        expect.equal(str(got.dtype), str(a.dtype), f"{what}: type of the result (as of what came in)")
        expect.unchanged([a, b], list(own), f"{what}: one of the gradients")
        shared = any(np.shares_memory(got, gradient) for gradient in own)
        expect(not shared, f"{what}: return a new array, such as b.copy(): writing to it changes a gradient.")

# %% [markdown]
# ### Predict
# 16 ranks train the net of lab 30 on digits, 16 images each in a step. The learning rate, 0.05, suits **one**
# rank, and nobody tunes it again. There are 1,536 images: one rank makes 96 steps in a pass over them, 16
# ranks make 6.
#
# The *mean* makes steps that are as long as one rank's, and 6 are few. The *sum* makes steps up to 16 times
# as long. Which way gets most test images right: "sum", "mean" or "Adasum"? You cannot compute this: guess.

# %%
predict("45.2", best=...)


# %% [markdown]
# ### Exercise 45.2 · All ranks
# Adasum of more gradients is Adasum of pairs, then of pairs of pairs. **Recursive doubling** (lab 24) does it
# in log₂ p swaps, for 4 ranks:
#
#     rank              0        1        2        3
#     swap with         1        0        3        2      distance 1
#     then has         0+1      0+1      2+3      2+3
#     swap with         2        3        0        1      distance 2
#     then has         all      all      all      all
#
# The partner at distance d is `rank ^ d`: one bit of the rank is flipped. Partners swap whole gradients, and
# both compute the same. The distances are 1, 2, 4, … in this order, as in Horovod: another order makes other
# pairs, and another result.
#
# - Each **layer** has its own dot product: one with large gradients must not decide for the others. Say a is
#   (1, 0) in one layer and (100, 0) in another, and b is (0, 1) and (100, 0). Layer by layer that makes (1,
#   1), the sum, and (100, 0), the mean. Taken for one vector, a and b agree, and the first layer gets (0.5,
#   0.5).
# - `layers` is a list of slices, and `mine[layer]` the part of one layer. But a swap is **one** message for
#   all layers: `comm.Sendrecv(mine, other, recvbuf=theirs, source=other)` sends `mine` and receives `theirs`.
# - It works for a power of two of ranks. For another number raise a `ValueError` that names it, *before*
#   anything is sent. Horovod refuses, too. (`p & (p - 1)` is 0 for powers of two, and only for them.)
# - The caller's gradient stays as it is: `mine` begins as a copy.
#
# About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: the swap</summary>
#
# While `distance < comm.size`: `other = comm.rank ^ distance`, and the line with Sendrecv.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After a swap, `for layer in layers: mine[layer] = pair(mine[layer], theirs[layer])`, then `distance *= 2`.
# </details>

# %%
def adasum(comm, gradient, layers):
    """Adasum over all ranks of `gradient` (1-D); layers: its slices. Returns the result, on every rank."""
    mine = gradient.copy()
    theirs = np.empty_like(gradient)
    distance = 1
    raise NotImplementedError("exercise 45.2: All ranks")
    return mine


# %%
# This cell only prepares the check: it need not be read.
ranks = launch.ranks_here(ranks_wanted)
quick = lab45.autotune(samples, 2, home() / "autotune.csv")  # variables: short samples, where the log goes
work = {"layers": layers, "width": width, "steps": steps}


def on_virtual_ranks(comm, gradients, layers):
    own = gradients[comm.rank].copy()
    result = adasum(comm, own, layers)
    expect.unchanged(gradients[comm.rank], own, "The gradient", because="Begin with a copy")
    return result


def beside_horovod(comm):
    """On real ranks: as hvd.Adasum, and refused where Horovod refuses."""
    gradient = lab45.gradients(comm.size, lab45.LAYERS[-1].stop, seed=1)[comm.rank]
    want = lab45.horovods_adasum(comm, gradient)
    if want is None:
        refused = "Horovod refuses this number of ranks. `adasum`, too"
        expect.raises(ValueError, lambda: adasum(comm, gradient, lab45.LAYERS), refused)
    else:
        own = adasum(comm, gradient, lab45.LAYERS)
        expect.close(own, want, f"Yours beside hvd.Adasum, {comm.size} ranks", rtol=1e-3, atol=1e-4)


# %%
def expect_adasum(p, layers):
    """On p virtual ranks: the right result, by log2(p) swaps of the whole gradient."""
    gradients = lab45.gradients(p, 1003)
    run = virtual.Cluster(nodes=p, machine=lab45.STRICT).run(on_virtual_ranks, gradients, layers)
    want = lab45.adasum_of_all(gradients, layers)
    as_one = lab45.adasum_of_all(gradients, lab45.ONE_LAYER)
    slips = {"all layers were taken for one: each has its own dot product": as_one}
    what = f"{p} ranks, layers: {len(layers)}: Adasum on rank 0"
    expect.close(run.results[0], want, what, rtol=1e-3, atol=1e-4, slips=slips)
    run.expect_results(want, "Adasum", rtol=1e-3)
    swaps = p.bit_length() - 1
    run.expect_messages(exactly=swaps, named="recursive doubling")
    longer = 256 * swaps  # bytes: a pickled message is a little longer
    run.expect_sent(exactly=swaps, unit=4 * 1003, named="recursive doubling", rounding=longer)


# What is asked: Adasum layer by layer, on 1 to 32 virtual ranks; no message, and a ValueError, where p is no
# power of two; and the same as Horovod on real ranks.
with check("45.2"):
    for p in (1, 2, 4, 8, 16, 32):
        expect_adasum(p, lab45.ONE_LAYER)
        expect_adasum(p, lab45.THREE_LAYERS)
    for p in (3, 5, 6, 12):
        run = lab45.refusals(adasum, p)  # results: the text of each rank's ValueError
        raised = sum(str(p) in text for text in run.results)
        sentence = f"With {p} ranks, not a power of two, {raised} raised a ValueError that names the {p}"
        expect(raised == p, f"{sentence}; Horovod refuses on every rank.")
        expect(not sum(run.sent), f"With {p} ranks messages were sent before the refusal.")
    launch.run(beside_horovod, ranks=ranks, env=quick, timeout=300)


# %% [markdown]
# ### Measure
# Now train by your `adasum`, on virtual ranks: by sum, by mean and by Adasum, at three learning rates, on 1
# to 32 ranks. A fourth way, *Adasum, nodes of 4*, is explained below. Each is done with three seeds, for
# start weights and order of images. The points are medians, the bars the middle half. About a minute.

# %%
# Real ranks measure what is shown later, under "In Horovod", "float16" and "Autotune". This cell need not be
# read.
def measure_on_ranks(comm):
    """What an allreduce costs, and autotune: after it Horovod cannot start again in this process."""
    measured = lab45.exchange(comm, values, repeat=7)
    measured["deltas"] = lab45.deltas(comm)
    if watch or not world.launcher():
        measured |= lab45.watch(comm, samples, **work)
    return measured


measured = launch.run(measure_on_ranks, ranks=ranks, env=quick, timeout=300)[0]

# %%
axes = {"xlabel": "ranks", "ylabel": "test images right (%)", "logx": True}
learned = {}  # rate -> way -> ranks -> % for each seed
for rate in rates:
    learned[rate] = lab45.accuracies(adasum, (1, 4, 16, 32), rate, seeds, epochs)
    plots.lines(learned[rate], title=f"One learning rate, {rate}, for any number of ranks", **axes)
    record.add("accuracy", unit="%", rate=rate, right=learned[rate], epochs=epochs)
medians = {way: float(np.median(learned[rates[0]][way][16])) for way in ("sum", "mean", "Adasum")}
print(f"16 ranks, rate {rates[0]}: {medians}")
predict.compare("45.2", best=max(medians, key=medians.get))
print("Length of the first step, over the mean's, by seed:")
for p in (4, 16, 32):
    print(f"{p:2} ranks:", lab45.first_steps(adasum, p, seeds))

# %% [markdown]
# **Explain.** At 0.05, one rank's own rate, you should see Adasum above the other two on 16 and 32 ranks, by
# more than the bars.
#
# The last lines tell how long the steps are. On 16 ranks the sum's is 16 times as long as the mean's, and
# Adasum's is between the two: the gradients of 16 ranks partly agree, and partly not. So at this rate the sum
# goes too far, and the mean not far enough.
#
# Sum and mean differ by this length alone. So the sum at 0.05 on 4 ranks is the mean at 0.2 on 4 ranks: find
# both points in the plots.
#
# Is Adasum always best? Look at the larger rates before you read on.
# <details><summary>Answer</summary>
#
# No. At 0.2 the bars of mean and Adasum overlap on 4 and 16 ranks: a longer step is what the mean lacked, and
# now has. On 32 ranks the mean at 0.2 gets about as far as Adasum at 0.05. And 0.2 was the largest rate that
# was tried: the mean may get further. So Adasum saves *tuning the rate*. That it beats a mean whose rate has
# been tuned, nothing here shows.
# </details>
#
# Three seeds are few: where bars overlap, nobody has won. And 32 ranks make three steps in a pass. They would
# need more passes in any way.
#
# ### In Horovod
# One word switches it on:
#
#     optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters(), op=hvd.Adasum)
#
# This optimizer adds no gradients. Each rank first takes the step that its own gradient asks for, and Adasum
# adds the **changes of the weights** (`_DistributedAdasumOptimizer` in 0.28.1's `torch/optimizer.py`). Is
# that the same as adding gradients? Plain SGD and SGD with momentum each made five steps on the same
# gradients, once with Adasum of the gradients, once with Adasum of the changes. How far apart the weights are
# then, as a share of the way that they went:

# %%
apart = measured["deltas"]
if apart is None:
    print(f"Horovod's Adasum refuses {ranks} ranks: no power of two.")
else:
    for optimizer, share in apart.items():
        print(f"{optimizer}: {share:.2g}")

# %% [markdown]
# **Explain.** With plain SGD a change is the gradient times the rate, and all is the same up to rounding.
# With momentum it is another training: every rank keeps a momentum of its own gradients alone.
#
# ### On GPUs
# All that was Adasum of tensors in **host memory**. With GPUs and a build of Horovod for **NCCL** something
# else happens (`adasum_gpu_operations.cc`, `operations.cc`):
#
# 1. NCCL adds the gradients **inside** a node, as a plain sum.
# 2. MPI adds these sums by Adasum **between** the nodes, on the hosts.
# 3. The result is divided by the GPUs of a node.
#
# So each node counts as the mean of its GPUs. That is the fourth curve in the plots. Two things follow:
#
# - It wants a power of two of **nodes**, with equally many ranks on each.
# - **On one node no Adasum takes place**, only the mean, and nothing says so. Look at 4 ranks in the plots:
#   *Adasum, nodes of 4* lies on *mean*.
#
# GPUs of a build without NCCL have their tensors copied to the host, and a warning says so.
#
# For those who have time: which learning rate? Horovod advises to begin with one worker's rate times the
# **GPUs of a node**. Inside a node there is a mean, and for a mean the usual rule is: one worker's rate times
# the workers. On CPUs the advice is 2 to 2.5 times one worker's (`docs/adasum_user_guide.rst`, both). Does it
# help here? Compare 0.05 with 0.2 for *nodes of 4*, and 0.05 with 0.125 for *Adasum*.
# <details><summary>Answer</summary>
#
# It helps *nodes of 4* on 16 ranks, where they come close to *Adasum*. On 4 ranks the bars of *Adasum* at
# both rates overlap, and on 32 ranks it is worse with the larger rate. Such a rate is where to begin a
# search, not where to end it.
# </details>
#
# ## float16
# `hvd.DistributedOptimizer(…, compression=hvd.Compression.fp16)` sends gradients as float16: 2 bytes a value,
# not 4. Does half as much leave a node? That depends on how the messages are made. Two ways from lab 24, for
# p nodes:
#
# | way | bytes that a node sends, over those of the vector |
# |---|---|
# | halving and doubling: halves, quarters, … of the vector | 2(p - 1)/p |
# | recursive doubling: whole vectors | log₂ p |
#
# MPICH takes *halving and doubling* for long vectors of float32. But MPI has no float16 that it can add. So
# Horovod brings an **operation of its own**, and for such an operation MPICH cuts no vector into pieces: it
# takes *recursive doubling*. (Its source, `allreduce_intra_recursive_doubling.c`, says why. Another MPI may
# do otherwise.)
#
# Horovod's **Adasum** does not ask MPI to add. It halves and doubles by itself, with either type.
#
# ### Predict
# Two nodes add ResNet-50's gradients (102 MB) with float16: what share (0 to 1) of float32's bytes leaves a
# node? And on 8 nodes? The table tells.

# %%
predict("45.3", on_2_nodes=..., on_8_nodes=...)


# %% [markdown]
# ### Exercise 45.3 · What float16 saves
# How many bytes does a node send for n values? The number of nodes is a power of two. Return a dict with four
# ways: float32, float16, Adasum, and Adasum with float16. About 4 lines. *(beginner)*
#
# <details><summary>Hint 1: two factors</summary>
#
# `halving = 2 * (nodes - 1) / nodes` and `doubling = np.log2(nodes)`; 4 bytes a value, or 2.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `{"float32": 4 * n * halving, "float16": 2 * n * doubling, …}`. Both of Adasum's ways halve and double.
# </details>

# %%
def bytes_sent(n, nodes):
    """Bytes that a node sends: {"float32": …, "float16": …, "Adasum": …, "Adasum, float16": …}"""
    raise NotImplementedError("exercise 45.3: What float16 saves")


# %%
# What is asked: the bytes that a node sends, of 2 to 64 nodes.
with check("45.3"):
    for nodes, of_a_value in lab45.BYTES_A_VALUE.items():
        for n in (1, 1_000_000):
            want = {way: n * nbytes for way, nbytes in of_a_value.items()}
            expect.close(bytes_sent(n, nodes), want, f"{nodes} nodes, values: {n}: bytes that a node sends")

# %% [markdown]
# ### Measure
# The four ways, on the ranks above, and float16 once more *packed*: this begins with float32, packs it, and
# unpacks it, as `Compression.fp16` does. On one node the messages go through memory.

# %%
print(measured["where"].describe())
here = {"ranks": ranks, "nodes": measured["nodes"], **measured["where"].fields()}
for way, (time, vectors) in measured["exchange"].items():
    record.add("exchange", way=way, seconds=time, float32_vectors=vectors, **here)
plots.spread({way: time for way, (time, _) in measured["exchange"].items()}, title="One allreduce here")
with np.errstate(over="ignore"):
    print("60000 + 60000 in float16:", np.float16(60000) + np.float16(60000))

# %% [markdown]
# **Explain.** On one node float16 need not win, for memory is fast. One reason may be that Horovod's
# operation converts every value to float32 and back to add it (`half.cc`). Adasum also computes dot products.
# If a way is not steady, compare nothing.
#
# Horovod adds, and so its sums are float16, too: above 65,504 they are `inf`, as the printed one.
#
# And between nodes? There bytes count. The next plot shows bytes that left a node, counted at its network
# card, beside your `bytes_sent`. It is from your own jobs, if you have sent some (below), else from the
# kit's, over 200 Mb/s.

# %%
sent, took, whose = lab45.between_nodes("45_autotune_and_adasum")  # tables of nodes x ways, over float32's
guess = {}
counted = {}
for way in ("float16", "Adasum, float16"):
    for p in sent.index:
        of_node = bytes_sent(1, int(p))
        name = f"{way}, {p:.0f} nodes"
        guess[name] = of_node[way] / of_node["float32"]
        counted[name] = sent[way][p]
title = "float16 is half of the bytes on two nodes alone"
plots.compare(guess, counted, unit="bytes that leave a node, over float32's", title=title)
print(f"Seconds over float32's ({whose}):", took.round(2), sep="\n")
predict.compare("45.3", **{f"on_{p:.0f}_nodes": sent["float16"][p] for p in sent.index})

# %% [markdown]
# **Explain.** Your formulas tell the bytes to about a hundredth: the rest are headers. Over this slow link
# the seconds (in the table) follow the bytes.
#
# For those who have time: somebody measures a whole step on 2 nodes with float16, and it takes 0.86 of one
# with float32. Does MPI send too much?
# <details><summary>Answer</summary>
#
# On 2 nodes it cannot: both ways send one vector, so float16 is half of the bytes. Then the rest of the step,
# in which nothing is sent, is long. If it takes 2.57 times as long as the messages of float32, the share is
# (0.5 + 2.57) / (1 + 2.57) = 0.86. Count bytes before you blame an algorithm.
# </details>
#
# ## Autotune
# Horovod collects gradients for a **cycle time** and sends them together, up to a **fusion threshold** (lab
# 44). The defaults are 1 ms and 128 MiB. `HOROVOD_AUTOTUNE=1` tries other values while you train. It begins
# with four that are built in, and then a statistical model (a Gaussian process) proposes more: cycle times
# from 1 to 100 ms, thresholds from 0 to 64 MiB. **The default is not among them.** At the end it keeps what
# was best.
#
# ### Predict
# A step of 12 matrices of 256 KiB, ready at once: how long is it with what autotune chose after 8 tries, over
# a step by default? (Below 1: autotune won.) You cannot compute this: guess.

# %%
predict("45.4", autotuned_share=...)


# %% [markdown]
# ### Exercise 45.4 · Do it yourself
# `search` is your own way to tune. `settings` is a list of tuples. `measure(*setting)` tries one of them and
# returns MB/s: for the setting `(0, 1.0)` call `measure(0, 1.0)`. Try all settings in turns, `rounds` times:
# a machine that slows down then hits all alike. The setting with the highest **median** wins: no lucky run
# decides. About 5 lines. *(beginner)*
#
# <details><summary>Hint 1: what to keep</summary>
#
# A list of scores for each setting: `scores = {setting: [] for setting in settings}`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for _ in range(rounds):` and in it `for setting in settings:` append `measure(*setting)` to
# `scores[setting]`; then `max(settings, key=lambda setting: np.median(scores[setting]))`.
# </details>

# %%
def search(measure, settings, rounds):
    """settings: tuples for measure(*setting). Returns the one with the highest median of its measurements."""
    raise NotImplementedError("exercise 45.4: Do it yourself")


# %%
# What is asked: a search in turns, `rounds` times, whose highest median wins.
with check("45.4"):
    for machine in lab45.machines():  # machine(*setting) is what one run measures
        settings = list(machine.SETTINGS)
        chosen = search(machine, settings, machine.rounds)
        every = machine.rounds * machine.SETTINGS
        made = f"The measurements made, {machine.rounds} rounds of 3 settings"
        expect.equal(sorted(machine.calls), sorted(every), made)
        turns = [sorted(machine.calls[first : first + 3]) for first in range(0, len(every), 3)]
        in_turns = all(turn == machine.SETTINGS for turn in turns)
        expect(in_turns, "In each round every setting has its turn: not all of one, then the next.")
        one_of = f"search returned {chosen!r}; expected one of the settings, such as {settings[0]}."
        expect(isinstance(chosen, (tuple, list)), one_of)
        expect.equal(chosen, machine.best, f"The setting found in spite of {machine.spite}")
        expect.unchanged(machine.SETTINGS, settings, "The list of settings")

# %% [markdown]
# ### Measure: autotune
# Autotune has been watched above. Here is its log, which `HOROVOD_AUTOTUNE_LOG=file` asks for: a line for
# each setting. Its last columns are the cycle time in ms, the threshold in MiB, and the score in bytes/µs,
# the median of five.

# %%
chosen = None
if "log" in measured:
    print(measured["log"])
    chosen = lab45.best(measured["log"])
    print(f"The best line: {chosen[0] / 2**20:.1f} MiB, {chosen[1]:.1f} ms. Autotune keeps it.")

# %% [markdown]
# **Explain.** 128 MiB with 1 ms, the default, is in no line. The last line says the best once more.
#
# Now your search among three thresholds, and autotune's choice once more, in the same run. (A batch job has
# started its ranks only once. It does one of the two, as the parameter `watch` says.)

# %%
if chosen and world.launcher():
    kinds = {way: measured[way] for way in ("default", "autotune's")}
else:
    more = work | {"ranks": ranks, "env": quick, "timeout": 300}
    setting_found, kinds = launch.run(lab45.sweep, search, (0, 2**20, 2**27), rounds, chosen, **more)[0]
    print(f"Of 0 (each matrix alone), 1, 128 MiB at 1 ms your search chose {setting_found[0] / 2**20:g}.")
for way, taken in kinds.items():
    record.add("step", way=way, seconds=taken, **here)
if "autotune's" in kinds:
    predict.compare("45.4", autotuned_share=kinds["autotune's"].median / kinds["default"].median)
plots.spread(kinds, title=f"A step of {layers} matrices: where boxes overlap, nobody won")

# %% [markdown]
# **Explain.** Does the box of *autotune's* lie left or right of that of *default*? If they overlap, nobody
# won. Where a line says *not steady*, conclude nothing.
#
# On the machine of the kit's records it lies right: slower. Among 8 settings, the default not among them,
# there need not be a better one. You may see it left: then one of the 8 suits your machine better, or a noisy
# score was lucky.
#
# And your own search? It had the default among its three. So what it chose was no slower than the default,
# by the medians that it saw.
#
# ### For those who have time: between nodes
# `make tabletop` starts two nodes. This cell runs the lab there as you saved it, first to search, then to
# watch. That takes a minute or two. Without a cluster you see the kit's jobs.

# %%
if cluster.here() and not world.launcher():
    for what in (False, True):
        small = {"watch": what, "epochs": 1, "samples": 4, "rounds": 2, "steps": 10}
        job = cluster.submit("45", settings=small)
        job.wait()
        print("Yours:", job.records("step").reindex(columns=["nodes", "way", "seconds"]), sep="\n")
frame = record.reference(lab.current(), "step")
for name in ("seconds", "seconds_q1", "seconds_q3"):
    frame[name.replace("seconds", "ms")] = (1e3 * frame[name]).round(1)
frame = frame.reindex(columns=["site", "nodes", "ranks", "way", "ms", "ms_q1", "ms_q3"])
print("The kit's reference, not yours:", frame.fillna({"site": "one machine"}), sep="\n")

# %% [markdown]
# **Explain.** In the table compare *autotune's* with *default* of the same number of nodes: the middle half
# of the steps is from `q1` to `q3`. In the kit's jobs no autotune of these few samples has beaten the
# default.
#
# A real search is longer: 21 settings, each with 5 scores of 10 steps, 1,050 steps. And it searches once for
# each combination of the switches that nobody has set. Any build has two of them: the cache and the
# hierarchical allgather. A build with NCCL has two more: the hierarchical and the torus allreduce (lab 43).
# This lab sets all four, and searches once. How many steps is it where nobody sets them, in either build?
# <details><summary>Answer</summary>
#
# Without NCCL 2 × 2 searches, 4,200 steps. With NCCL 16 searches, 16,800 steps (`parameter_manager.cc`,
# `operations.cc` of 0.28.1).
# </details>
#
# ### What you take away
# - Adasum: sum of what differs, mean of what agrees, each layer by itself. It saves some tuning, not all.
# - On GPUs with NCCL it is between nodes: on one node you get the mean.
# - Horovod's float16: half the bytes on 2 nodes, 0.86 on 8 with MPICH, which cuts no vector for it.
# - Before you blame an algorithm, count its bytes.
# - Autotune knows only what it tries. Compare its choice with the default, in one run, by medians.
