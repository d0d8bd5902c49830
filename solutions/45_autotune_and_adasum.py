# %% [markdown]
# # 45 Autotune and Adasum
#
# Three of Horovod's knobs: **Adasum** adds gradients more carefully than a sum, **float16** halves each
# value, **autotune** turns the others by itself. You build the first, predict the second and check the third.
#
# **You will be able to** (1) add gradients by Adasum, across ranks, (2) say what float16 saves on how many
# nodes, and why it may be less than half, (3) read autotune's log, and beat it, or not, with your own search.
#
# Needs: mpi, horovod, torch · Ranks: 4 · Minutes: 50 · Before: 30, 40

# %%
import csv

import numpy as np
from labkit import check, cluster, expect, hint, home, lab, launch, plots, predict, record, world
from support import lab45

lab.start("45_autotune_and_adasum")

# %% tags=["parameters"]
ranks_wanted = 4  # processes, where no launcher has started some
epochs = 4  # passes over the 1,536 training images
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
values = 1 << 20  # float32 values (4 bytes) in the allreduce that is measured
layers = 12  # matrices, a step's gradients
width = 256  # rows and columns of each, float32: 256 KiB
steps = 20  # timed steps under each setting
samples = 7  # autotune tries one setting more
rounds = 3  # how often your search tries each setting
watch = True  # under a launcher: watch autotune, or search (False); Horovod cannot do both

# %% [markdown]
# ### Exercise 45.1 · Two gradients
# Two ranks have gradients a and b. Do these point in *different* directions (orthogonal), both steps help:
# take the sum. Do they *agree*, the sum goes twice as far as either thinks is safe: take the mean. **Adasum**
# (Maleki et al. 2020, "Scaling Distributed Training with Adaptive Summation") does both, and all between:
#
# adasum(a, b) = (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b
#
# A gradient of zeros leaves the other as it is. float32 holds no |a|² above 3e38: compute in float64.
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
    ### BEGIN SOLUTION
    x, y = a.astype(np.float64), b.astype(np.float64)
    dot = x @ y
    of_x = 1 - dot / (2 * (x @ x)) if x.any() else 1
    of_y = 1 - dot / (2 * (y @ y)) if y.any() else 1
    return (of_x * x + of_y * y).astype(a.dtype)
    ### END SOLUTION


# %%
with check("45.1"):  # orthogonal, parallel, opposite, zeros, huge, tiny
    lab45.expect_pair(pair)

# %% [markdown]
# ### Predict
# Each rank takes 16 images a step, the learning rate (0.05) suits *one* rank, nobody tunes it again. Which
# share of test images (%) is right with 16 ranks, by sum, mean and Adasum of the gradients? (One rank: 97.)

# %%
predict("45.2", by_sum=76, by_mean=65, by_adasum=89)

# %% [markdown]
# ### Exercise 45.2 · All ranks
# Adasum of more is Adasum of pairs, then of pairs of pairs. **Recursive doubling**: swap the whole gradient
# with the rank 1 away, then 2, 4, … (in this order: another gives other pairs); the partner at distance d is
# `rank ^ d` (one bit flipped), and both compute the same. After log2(p) swaps all have the result, if p is a
# power of two; else raise `ValueError` that names p, *before* anything is sent (Horovod refuses too). Each
# layer has its own dot product: one with large gradients must not decide for the others. 9 lines.
#
# <details><summary>Hint 1: a power of two</summary>
#
# has one bit: `p & (p - 1)` is 0.
# </details>
# <details><summary>Hint 2: the swap</summary>
#
# `mine = gradient.copy()`, `theirs = np.empty_like(mine)`, and while `distance < comm.size`:
# `comm.Sendrecv(mine, other, recvbuf=theirs, source=other)`, one message for all layers.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# After a swap, `for layer in layers: mine[layer] = pair(mine[layer], theirs[layer])`, then `distance *= 2`.
# </details>


# %%
def adasum(comm, gradient, layers):
    """Adasum over all ranks of `gradient` (1-D); layers: its slices. Returns the result, on every rank."""
    ### BEGIN SOLUTION
    if comm.size & (comm.size - 1):
        raise ValueError(f"Adasum needs a power of two of ranks, not {comm.size}.")
    mine, theirs, distance = gradient.copy(), np.empty_like(gradient), 1
    while distance < comm.size:
        # Across ranks: swap with the partner; both then hold the Adasum of both.
        other = comm.rank ^ distance
        comm.Sendrecv(mine, other, recvbuf=theirs, source=other)
        for layer in layers:
            mine[layer] = pair(mine[layer], theirs[layer])
        distance *= 2
    return mine
    ### END SOLUTION


# %%
ranks = launch.ranks_here(ranks_wanted)
quick = lab45.autotune(samples, 2, home() / "autotune.csv")  # variables: short samples, where the log goes
work = {"layers": layers, "width": width, "steps": steps}


def on_ranks(comm):
    """Yours beside hvd.Adasum, what an allreduce costs, and autotune: after it Horovod cannot start again."""
    tuned = watch or not world.launcher()
    return lab45.try_adasum(comm, adasum, values, 7) | (lab45.watch(comm, samples, **work) if tuned else {})


with check("45.2"):  # answers, messages and bytes on 1 to 32 virtual ranks; then beside Horovod's
    lab45.expect_adasum(adasum)
    found = launch.run(on_ranks, ranks=ranks, env=quick, timeout=300)[0]

# %%
axes = {"xlabel": "ranks", "ylabel": "test images right (%)", "logx": True}
for rate in (0.2, 0.05):
    right = lab45.accuracies(adasum, (1, 4, 16, 32), rate, seeds, epochs)  # way -> ranks -> % for each seed
    plots.lines(right, title=f"The digits, learning rate {rate} for any number of ranks", **axes)
    record.add("accuracy", unit="%", rate=rate, right=right, epochs=epochs)
predict.compare("45.2", **{f"by_{way.lower()}": np.median(of[16]) for way, of in right.items()})

# %% [markdown]
# **Explain.** Where gradients agree Adasum is near the mean, which is safe; where they differ, near the sum,
# which is fast. It saves *some* tuning, not all: see the larger rate. And 32 ranks make 3 steps an epoch.
#
# ### Predict
# Two nodes add ResNet-50's gradients (102 MB) with `compression=hvd.Compression.fp16`: what share (0 to 1) of
# float32's bytes leaves a node? And on 8 nodes?

# %%
predict("45.3", on_2_nodes=0.5, on_8_nodes=0.86)

# %% [markdown]
# ### Exercise 45.3 · What float16 saves
# A sum by halving and doubling (lab 24), MPICH's for long vectors, lets each of p nodes send 2(p - 1)/p times
# the vector. But Horovod adds float16 by an **operation of its own**, for which MPICH cuts no vector
# into pieces (another MPI may): it takes *recursive doubling*, log2(p) times the vector (its source,
# `allreduce_intra_recursive_doubling.c`, says why). Horovod's **Adasum** halves and doubles by itself, with
# either type. How many bytes does a node send for n values (p a power of two)? And how long is a step with
# float16 over one with float32, if messages take bytes / rate seconds and all else `rest`? 5 lines.
#
# <details><summary>Hint 1: two factors</summary>
#
# `halving = 2 * (nodes - 1) / nodes` and `doubling = np.log2(nodes)`; 4 bytes a value, or 2.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `{"float32": 4 * n * halving, "float16": 2 * n * doubling, …}`, and the share is `(sent["float16"] / rate +
# rest) / (sent["float32"] / rate + rest)`.
# </details>


# %%
def bytes_sent(n, nodes):
    """Bytes that a node sends: {"float32": …, "float16": …, "Adasum": …, "Adasum, float16": …}"""
    ### BEGIN SOLUTION
    halving, doubling = 2 * (nodes - 1) / nodes, np.log2(nodes)
    adasums = {"Adasum": 4 * n * halving, "Adasum, float16": 2 * n * halving}
    return {"float32": 4 * n * halving, "float16": 2 * n * doubling} | adasums
    ### END SOLUTION


def step_share(n, nodes, rate, rest):
    """Seconds of a step with float16 over those with float32. rate: bytes/s. rest: seconds in both."""
    ### BEGIN SOLUTION
    sent = bytes_sent(n, nodes)
    return (sent["float16"] / rate + rest) / (sent["float32"] / rate + rest)
    ### END SOLUTION


# %%
with check("45.3"):  # 2 to 64 nodes, slow and fast links
    lab45.expect_bytes(bytes_sent, step_share)

# %% [markdown]
# ### Measure
# The four on the ranks of check 45.2; "packed" begins with float32, as `Compression.fp16` does. On one node
# messages go through memory. Does half the bytes take half the time? (Adasum also computes dot products.)

# %%
for way, (time, vectors) in found["exchange"].items():
    record.add("exchange", way=way, ranks=ranks, nodes=found["nodes"], seconds=time, float32_vectors=vectors)
plots.spread({way: time for way, (time, _) in found["exchange"].items()}, title="One allreduce")

# %% [markdown]
# Is it as `bytes_sent` says between nodes? (200 Mb/s: the kit's tabletop, or your own jobs, once sent below.)

# %%
sent, took, whose = lab45.between_nodes("45_autotune_and_adasum")  # tables of nodes x ways, over float32's
pairs = {f"{way}, {p:.0f} nodes": (way, p) for way in sent for p in sent.index if "16" in way}
guess = {name: bytes_sent(1, p)[way] / bytes_sent(1, p)["float32"] for name, (way, p) in pairs.items()}
counted = {name: sent[way][p] for name, (way, p) in pairs.items()}
plots.compare(guess, counted, title="Bytes that leave a node, over float32's")
print(f"Seconds over float32's ({whose}):", took.round(2), sep="\n")
predict.compare("45.3", **{f"on_{p:.0f}_nodes": sent["float16"][p] for p in sent.index})

# %% [markdown]
# **Explain.** Over a slow link half the bytes take half the time. Yet we once measured 0.86 for a whole step
# (ResNet-50, 2 nodes) and blamed MPI's algorithm. Counting cleared it: 103.1 and 51.6 MB left a node. To
# blame was `rest`: two threads a rank on two busy cores, waiting for one another in 107 layers. Once more:
# 6.93 and 4.29 s (0.62); with `OMP_NUM_THREADS=1`, 4.46 and 2.37: 0.53. The algorithm costs from 4 nodes on:
# 0.67 of the bytes, 0.86 on 8. (Unlike lab 35's, Horovod's sums are float16 too: above 65,504 `inf`.)
#
# ### Predict
# Horovod collects gradients for a **cycle time** (1 ms) and sends them together, up to a **fusion threshold**
# (128 MiB; lab 44). `HOROVOD_AUTOTUNE=1` tries others while you train. For 12 matrices of 256 KiB: how long
# is a step with what it chose, over a step by default (below 1: it won)?

# %%
predict("45.4", autotuned_share=1.2)

# %% [markdown]
# ### Exercise 45.4 · Watch it, and do it yourself
# `HOROVOD_AUTOTUNE_LOG=file` begins with names, `…,cycle_time_ms,tensor_fusion_threshold,score`; then a line
# for each setting, such as `0,0,0, 1,10,8,104.6`: 10 **ms**, 8 **MiB**, **score** in bytes/µs, the median of
# five. Four settings are given, then a Gaussian process proposes, from 0 to 64 MiB and 1 to 100 ms: not the
# default of 128 MiB. A finished log ends with the best once more, one cut short does not: find it in either.
#
# Then search yourself: `measure(*setting)` returns MB/s. Try all settings in turns, `rounds` times (a machine
# that slows down hits all alike); the highest **median** wins, no lucky run. 9 lines.
#
# <details><summary>Hint 1: the log</summary>
#
# `csv.DictReader(log.splitlines(), skipinitialspace=True)` gives rows by the first line's names, as text:
# `float(row["score"])`. A MiB is `2**20` bytes.
# </details>
# <details><summary>Hint 2: the search, nearly the answer</summary>
#
# `for _ in range(rounds):` and in it `for setting in settings:` append `measure(*setting)` to a list of that
# setting's in `scores`; then `max(settings, key=lambda setting: np.median(scores[setting]))`.
# </details>


# %%
def best(log):
    """log: the text. Returns (threshold [bytes, int], cycle time [ms], score) of the highest score."""
    ### BEGIN SOLUTION
    rows = csv.DictReader(log.splitlines(), skipinitialspace=True)
    row = max(rows, key=lambda row: float(row["score"]))
    threshold = int(float(row["tensor_fusion_threshold"]) * 2**20)
    return threshold, float(row["cycle_time_ms"]), float(row["score"])
    ### END SOLUTION


def search(measure, settings, rounds):
    """settings: tuples for measure(*setting). Returns the one with the highest median of its measurements."""
    ### BEGIN SOLUTION
    scores = {setting: [] for setting in settings}
    for _ in range(rounds):
        for setting in settings:
            scores[setting].append(measure(*setting))
    return max(settings, key=lambda setting: np.median(scores[setting]))
    ### END SOLUTION


# %%
with check("45.4"):
    for log, want in lab45.LOGS.items():
        expect.equal(best(log), want, f"The best in this log:\n{log}")
    lab45.expect_search(search)

# %%
kinds, chosen = {way: found[way] for way in ("default", "autotune's") if way in found}, None
if kinds:
    print(found["log"])
    chosen = best(found["log"])[:2]
    print(f"Autotune chose {chosen[0] / 2**20:.1f} MiB, {chosen[1]:.1f} ms.")
if not (kinds and world.launcher()):  # your search, and autotune's choice once more, in one run
    more = work | {"ranks": ranks, "env": quick, "timeout": 300}
    mine, kinds = launch.run(lab45.sweep, search, (0, 2**20, 2**27), rounds, chosen, **more)[0]
    print(f"Of 0 (each matrix alone), 1, 128 MiB at 1 ms your search chose {mine[0] / 2**20:g}.")
for way, taken in kinds.items():
    record.add("step", way=way, ranks=ranks, nodes=found["nodes"], seconds=taken)
if "autotune's" in kinds:
    predict.compare("45.4", autotuned_share=kinds["autotune's"].median / kinds["default"].median)
plots.spread(kinds, title=f"A step of {layers} matrices, {width} x {width}, by setting")

# %% [markdown]
# And between nodes: `make tabletop` starts two. This cell runs the lab as you saved it there, to search, then
# to watch. That takes a minute or two.

# %%
if cluster.here() and not world.launcher():
    for what in (False, True):
        small = {"watch": what, "epochs": 1, "samples": 4, "rounds": 2, "steps": 10}
        job = cluster.submit("45", settings=small)
        job.wait()
        print("Yours:", job.records("step").reindex(columns=["nodes", "way", "seconds"]), sep="\n")
frame = record.reference(lab.current(), "step").reindex(columns=["site", "nodes", "ranks", "way", "seconds"])
print("The kit's reference, not yours:", frame.fillna({"site": "one machine"}), sep="\n")

# %% [markdown]
# **Explain.** Did autotune beat the default? Short samples on a machine that also does other things decide,
# and the default is not among what it tries: with little to send it may end behind. By default it takes (3 to
# warm up + 21) · 5 · 10 = 1,200 steps, and searches four times over unless cache and allgather are set.
#
# ### What you take away
# - Adasum: sum of what differs, mean of what agrees, each layer by itself. It saves some tuning, not all.
# - Horovod's float16: half the bytes on 2 nodes, 0.86 on 8 with MPICH, which cuts no vector for it.
# - Before you blame an algorithm, count its bytes: here the rest of the step was to blame.
# - Autotune knows only what it tries. Compare its choice with the default, in one run, by medians.
