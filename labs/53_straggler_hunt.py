# %% [markdown]
# <!-- Generated from solutions/53_straggler_hunt.py by `make labs`. Learners work on a copy in work/. -->
# # 53 Straggler hunt
#
# All ranks wait for the slowest. You predict how slow the slowest of p ranks is, find out from
# timelines which rank is late and why, and see what helps where nobody is to blame.
#
# **You will be able to** (1) predict the step of p ranks from the times of one, (2) name a late
# rank and its cause from a timeline, (3) say what backup workers and local SGD gain, and what they
# cost.
#
# Needs: mpi · Ranks: 4 · Minutes: 40 · Level: advanced · Before: 01, 23, 50

# %%
import numpy as np
import pandas
from labkit import check, hint, lab, launch, predict, record
from support import lab53

lab.start("53_straggler_hunt")
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
steps = 60  # of each kind on real ranks
many = 1000  # steps of 16 and 64 ranks, drawn by chance
fresh = 10  # cases of each cause with which your hunter is tried
mystery = 10  # which recording section 3 shows: any number from 0 on
recorded_steps = 8  # of each recording

# %% [markdown]
# ## 1. The slowest of p
# A **straggler** is a rank that others wait for. It need not be broken. Every rank's step takes a
# little more at one time and a little less at another: that is **jitter**. A synchronous step takes
# as long as the slowest rank's, and of many ranks one is always unlucky. [Lab 01](01_time_it_properly.ipynb) threw dice for
# that. Here you predict it.
#
# Let a rank's step take 20 ms in the mean, with a standard deviation of 5 ms. How far above the
# mean is the slowest of p, in the mean of many steps? That depends on the *shape* of the times. If
# they are **normal**, it is so many standard deviations:
#
# | ranks | 1 | 2 | 4 | 10 | 16 | 64 | 1024 |
# |---|---|---|---|---|---|---|---|
# | standard deviations | 0 | 0.56 | 1.03 | 1.54 | 1.77 | 2.34 | 3.25 |
#
# Times are often **heavy-tailed** instead: mostly a little below the mean, and now and then far
# above it. The ones of this lab have the same mean and the same standard deviation, but a time
# beyond t is about as rare as 1/t³ (a Pareto distribution).
#
# ### Predict
# The mean step in ms: of 4 ranks and of 64 with normal times, which you can compute, and of 64
# ranks with heavy-tailed times, which you guess.

# %%
predict("53.1", normal_4=..., normal_64=..., heavy_64=...)


# %% [markdown]
# What if you know no formula, only n measured times of *one* rank? Sort them: t₁ ≤ t₂ ≤ … ≤ tₙ.
# Suppose that every step takes one of these, each with chance 1/n, whatever the other ranks' take.
#
# - A step of one rank takes at most tᵢ with chance i/n.
# - The steps of p ranks *all* take at most tᵢ with chance (i/n)ᵖ.
# - So the slowest of p takes just tᵢ with chance **(i/n)ᵖ - ((i-1)/n)ᵖ**.
#
# For example, with times of 10 and 20 ms and 2 ranks: the slowest takes 10 ms with chance 1/4, and
# 20 ms with chance 3/4. Expected are 10 · 1/4 + 20 · 3/4 = 17.5 ms.
#
# ### Exercise 53.1 · Expect the slowest
# Return the expected time of the slowest of `ranks` ranks. `samples` are the times of one rank, in
# any order; leave the array as it is. About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: all chances at once</summary>
#
# `at_most = (np.arange(n + 1) / n) ** ranks` are the chances (i/n)ᵖ for i from 0 to n.
# `np.diff(at_most)` are the n differences of neighbours.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.sum(np.sort(samples) * np.diff(at_most))`: each time, multiplied by its chance.
# </details>

# %%
def expected_slowest(samples, ranks):
    """The expected longest of `ranks` times, each drawn from samples (n,); in the unit of
    samples."""
    raise NotImplementedError("exercise 53.1: Expect the slowest")


# %%
# Asked: The expected slowest of p, from the times of one rank, by the chances
# above.
check("53.1", expected_slowest)

# %% [markdown]
# ### Measure
# Real ranks, whose work is a nap of random length and then an allreduce. They *sleep*, since your
# computer may have fewer cores than ranks, and one that sleeps disturbs nobody. "Steady" is the
# control: naps of 20 ms each. Your function gets the measured steps of one rank, and nothing else.
# For 16 and 64 ranks the times are drawn by chance, and your function gets 10,000 drawn times of
# one. About 15 s.

# %%
naps = {kind: lab53.draw(kind, steps, ranks, seed=1) for kind in lab53.KINDS}
measured = launch.run(lab53.step_seconds, naps, ranks=ranks, threads=1)[0]
rows = []
for kind, by_size in measured.items():
    for size, seconds in by_size.items():
        predicted = expected_slowest(by_size[1], size)
        rows.append(
            [kind, size, "real", predicted, seconds.mean(), seconds.std() / len(seconds) ** 0.5]
        )
        record.add("slowest", kind=kind, ranks=size, seconds=seconds.mean(), predicted=predicted)
for kind in ("normal", "heavy-tailed"):
    samples = lab53.draw(kind, 10_000, 1, seed=2).ravel()
    for size in (16, 64):
        seconds = lab53.draw(kind, many, size).max(axis=1)
        error = seconds.std() / len(seconds) ** 0.5
        rows.append([kind, size, "drawn", expected_slowest(samples, size), seconds.mean(), error])
table = pandas.DataFrame(rows, columns=["times", "ranks", "where", "predicted", "mean step", "+-"])
table[["predicted", "mean step", "+-"]] *= 1e3
print(
    "Milliseconds:", table.sort_values(["times", "ranks"]).round(1).to_string(index=False), sep="\n"
)
step = {(kind, size): 1e3 * mean for kind, size, _, _, mean, _ in rows}
normal_4 = step.get(("normal", 4), float("nan"))
heavy_64 = step["heavy-tailed", 64]
predict.compare("53.1", normal_4=normal_4, normal_64=step["normal", 64], heavy_64=heavy_64)

# %% [markdown]
# **Explain.** "+-" is the standard error of the mean step: two rows that differ by about twice that
# need not differ at all. On real ranks "predicted" is no surer: it comes from 60 times of one rank.
# Steady steps stay as long as one rank's: only jitter makes more ranks slower. On the few real
# ranks the two shapes hardly differ. On 64 ranks they are some 10 ms apart, for times of one mean
# and one standard deviation. **The tail decides, and a few ranks do not show it.**
#
# You may see instead: on real ranks some ms more than predicted, even in the steady row. Then your
# computer was busy, and a rank that had slept enough was not woken at once.
#
# Your function got 60 steps of one rank. Would you trust it for 1,024 ranks?
# <details><summary>Answer</summary>
#
# No. It knows no time longer than the longest of the 60. Nearly always one of 1,024 ranks would
# meet that one, so the function returns just about that, whatever else may happen. To say something
# about p ranks you need many more than p samples, or a formula for the tail.
# </details>
#
# ## 2. Who was late?
# Your job is slower than predicted. Which of the ranks is it? A step of one rank has three parts:
# **input** (it reads), **compute**, and **exchange** (it is in the allreduce). Here is a step of
# four ranks, played by the rules of [lab 23](23_ring_allreduce.ipynb)'s ring. Rank 2 computes for longer than the others.

# %%
shown = lab53.case("slow core", seed=1, ranks=4)
lab53.draw_step(shown.steps[1], "One rank is late. Who seems to have a slow network?")

# %% [markdown]
# The exchange is short on rank 2, and long on everybody else: a timer around the allreduce blames
# the innocent ([lab 50](50_strong_and_weak_scaling.ipynb)). So look *inside* the exchange. A rank either **sends**, or it **waits** for
# others:
#
# **wait = exchange - send**, and the rank that waits least is the one that all others wait for.
#
# ### Predict
# One rank of four gets 10 ms later to the allreduce than the other three, who come at the same
# time. The messages are short. By how many ms does the *exchange* grow, on the late rank and on the
# others?

# %%
predict("53.2", late_rank=..., others=...)

# %%
predict.right("53.2", late_rank=0, others=10)


# %% [markdown]
# A timeline is a list of spans `(rank, kind, begin, end)`, in seconds. The kinds are "input",
# "compute", "exchange" and "send". A rank's sends lie within its exchange, one span for each
# message.
#
# ### Exercise 53.2 · From spans to parts
# Add up the spans of one step: return a dict with an array (ranks,) of seconds for each of "input",
# "compute", "send" and "wait". Spans come in any order. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: sums</summary>
#
# Begin with `np.zeros(ranks)` for each kind. For each span add `end - begin` to its kind, at its
# rank.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for rank, kind, begin, end in spans: seconds[kind][rank] += end - begin`, and at the end
# `seconds["wait"] = seconds["exchange"] - seconds["send"]`.
# </details>

# %%
def parts(spans, ranks):
    """Seconds of one step by rank: {"input": (ranks,), "compute": …, "send": …, "wait": …}."""
    raise NotImplementedError("exercise 53.2: From spans to parts")


# %%
# Asked: The seconds of each part, by rank, of a step made up.
check("53.2", parts)

# %%
print(pandas.DataFrame(parts(shown.steps[1], 4)).mul(1e3).round(1).rename_axis("rank"), "(ms)")
print("Images of each rank:", shown.images.tolist())


# %% [markdown]
# **Explain.** These are the parts of the picture. Who waits least? Rank 2: all others wait for it.
# Its compute is longest, too. But longest alone says nothing: who reads for longest?
#
# <details><summary>Answer</summary>
#
# Rank 3. But it has fewer images and computes for less, so that it comes to the exchange no later
# than ranks 0 and 1, and waits even longer than they do.
# </details>
#
# Who trains with Horovod finds the waiting in its timeline, as `NEGOTIATE` ([lab 44](44_timeline_and_fusion.ipynb)).
#
# ## 3. Whose fault, and why?
# One step proves nothing: any rank may have a bad one. So look at several steps. The suspects:
#
# | cause | what you see, on the rank that waits least | where to look, what helps |
# |---|---|---|
# | "slow disk" | its input is longer than the others' | read ahead, files nearby ([lab 15](15_input_pipeline.ipynb)) |
# | "slow core" | it computes longer *for each image* | heat, a second job: exclude the node |
# | "imbalance" | it computes longer, as it has more images | cut the batch evenly |
# | "slow link" | its bytes leave slowly: send is longer | cable, switch: exclude the node |
# | "jitter" | in each step it is another rank | nobody is to blame: section 4 |
#
# ### Exercise 53.3 · The hunter
# Return `(rank, cause)`, with a cause of the table, or `(None, "jitter")`. `steps` is a list of
# what your `parts` returns, `images` the number of images that each rank has in every step.
#
# 1. Which rank waits least, in most steps? If it is in no more than half of them: jitter.
# 2. Take the mean of its input, compute and send over the steps. Which of the three is furthest
#    above the others'? `lab53.above(values, rank)` is how far a rank's value is above the median of
#    all other ranks.
# 3. If that is compute: how far are its seconds *for each image* above the others'? If by more than
#    a tenth of the median of all ranks, the core is slow. Else it has too many images.
#
# About 12 lines. *(advanced)*
#
# <details><summary>Hint 1: the rank</summary>
#
# `latest = [int(np.argmin(step["wait"])) for step in steps]`, and
# `max(set(latest), key=latest.count)` is what stands in that list most often.
# </details>
# <details><summary>Hint 2: the part</summary>
#
# `np.mean([step[part] for step in steps], axis=0)` is an array by rank. Put one for each of the
# three parts into a dict `mean`, and compare `lab53.above(mean[part], rank)`.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# `part = max(mean, key=lambda part: lab53.above(mean[part], rank))`. For compute,
# `each = mean["compute"] / images`, and the core is slow if
# `lab53.above(each, rank) > 0.1 * np.median(each)`.
# </details>

# %%
def find(steps, images):
    """(rank, cause) of the straggler. steps: dicts of `parts`, at least one; images: (ranks,) of a
    step."""
    raise NotImplementedError("exercise 53.3: The hunter")


def hunt(steps, images):
    """The same for steps that are lists of spans."""
    return find([parts(spans, len(images)) for spans in steps], images)


# %%
# Asked: Rank and cause in 40 cases; each has one very bad step, and one rank
# that reads for long.
check("53.3", find, hunt)

# %% [markdown]
# ### A recording of real ranks
# The same on real ranks and a real clock: `labkit.profiling` records the spans, and brings all
# ranks' clocks together. Work is a nap again, and so is the time in which bytes leave. Read the
# picture yourself first. About 5 s.

# %%
# A case that `mystery` picks, recorded, and its median step.
if ranks >= 4:
    profile, images, hidden = launch.run(
        lab53.recorded, None, mystery, recorded_steps, ranks=ranks, threads=1
    )[0]
    lab53.draw_step(lab53.spans_of(profile, profile.middle[0]), "Who is late, and why?")
    print("Images of each rank:", images.tolist())
else:
    print("The hunt needs 4 ranks or more.")

# %% [markdown]
# ### Predict
# The rank, as a number, and the cause, as in the table: "slow disk", "slow core", "imbalance",
# "slow link".

# %%
predict("53.3", rank=..., cause=...)

# %% [markdown]
# ### Measure
# Your hunter on that recording, and on one of each cause. About 15 s.

# %%
if ranks >= 4:
    recording = [lab53.spans_of(profile, number) for number in range(recorded_steps)]
    print(f"Your hunter: {hunt(recording, images)}. It was {hidden}.")
    predict.right("53.3", rank=hidden[0], cause=hidden[1])
    rows = []
    for cause in lab53.CAUSES:
        taken, counts, truth = launch.run(
            lab53.recorded, cause, mystery + 1, recorded_steps, ranks=ranks, threads=1
        )[0]
        recording = [lab53.spans_of(taken, number) for number in range(recorded_steps)]
        rows.append([hunt(recording, counts), truth])
    print(pandas.DataFrame(rows, columns=["your hunter", "really"]))

# %% [markdown]
# How late must a rank be to be found? Fresh cases on paper, with a culprit that is behind by some
# percent of its computing. All times vary by 3 % (one standard deviation).

# %%
rows = []
for late in (0.02, 0.05, 0.1, 0.2, 0.4):
    rank_found, both_found = lab53.share_found(hunt, late, range(1000, 1000 + fresh))
    rows.append([f"{late:.0%}", f"{rank_found:.0%}", f"{both_found:.0%}"])
print(
    pandas.DataFrame(rows, columns=["late by", "rank found", "rank and cause"]).to_string(
        index=False
    )
)
blamed = lab53.share_blamed(hunt, range(1000, 1000 + 4 * fresh))
print(f"Nobody late: {blamed:.0%} of the cases blame a rank.")

# %% [markdown]
# **Explain.** On real ranks your hunter should be right in all five recordings: who is behind
# there, is so by 80 % of its computing. (On a busy computer a rank may sleep too long, and be late
# by that: run it again.)
#
# On paper it finds nearly every rank that is late by 10 %. It misses most that are late by 2 %,
# which is less than the jitter. And in some cases it blames a rank though nobody is late: by chance
# one waits least in most of the 12 steps of a case.
#
# The causes come later than the ranks. Why is a slow core that is late by 5 % called something
# else?
# <details><summary>Answer</summary>
#
# Your rule asks for a tenth more seconds for each image. A finer limit would find smaller faults,
# and could call a healthy core slow.
# </details>
#
# ## 4. Nobody to blame: wait for fewer, or less often
# Against jitter there is nothing to mend. Two ideas:
#
# - **Backup workers** (Chen and others, 2016): a step is over as soon as all but b of the ranks
#   have their gradients. The average is over these. The b late ones drop theirs, and begin the next
#   step with all.
# - **Local SGD** (Stich, 2018): each rank takes H steps on its own. Then the *weights* of all are
#   averaged, and a new **round** of H steps begins. The sum of 16 times has a standard deviation
#   √16 = 4 times as large as one, not 16 times: so the slowest sum is nearer to the mean.
#
# We let ten ranks try both, with H = 16, against jitter of both shapes and with a culprit, rank 7,
# that takes 1.5 times as long in every step. Milliseconds for a step:
#
# | | synchronous | 1 backup | local SGD |
# |---|---|---|---|
# | normal | 27.6 | 24.9 | 22.1 |
# | heavy-tailed | 28.7 | 23.0 | 22.2 |
# | rank 7 slow | 30.0 | 20.7 | 30.0 |
#
# Against jitter both help; a backup gains most where the tail is heavy. With rank 7 slow, local SGD
# gains nothing, as a rank that is 10 ms late in each step is 160 ms late after 16. One backup hides
# it completely, and there is the trap. A gradient that is dropped is lost, and these are always the
# same rank's. We trained the digits' net of [lab 10](10_train_on_one_device.ipynb) so, 300 steps; each rank had either *mixed*
# images or *its own digit*. Percent right of all test images, and of the sevens (medians of three
# seeds):
#
# | | mixed: all | mixed: sevens | own digit: all | own digit: sevens |
# |---|---|---|---|---|
# | synchronous | 97 | 100 | 97 | 100 |
# | 1 backup, jitter | 97 | 100 | 96 | 100 |
# | 1 backup, rank 7 slow | 96 | 100 | 87 | 0 |
# | local SGD, H = 16 | 97 | 100 | 81 | 95 |
#
# With own digits and rank 7 slow, the net knows **no seven**. Lost by jitter, the gradients are now
# this rank's, now that one's, and nothing is missing. And local SGD suffers when ranks read
# different images: for 16 steps each net sees one digit only. So shuffle, and mend the culprit.
# (Local SGD has a second gain: it sends a sixteenth of the bytes. Chen and others kept synchronous
# SGD and a few backups; in TensorFlow 1 this was `SyncReplicasOptimizer`, which still has a
# `replicas_to_aggregate` and a `total_num_replicas`.)
#
# ### Going further: a slow node
# In an allreduce a slow link slows down all, and real sends wait at both of its ends. So test
# **pairs** of nodes: each two alone, a message there and back, the quickest of ten ([lab 22](22_latency_and_bandwidth.ipynb)'s
# ping-pong). A node whose *best* partner is slow sits behind the slow link. It takes three nodes,
# as of a single pair both ends look slow. `make tabletop NODES=4` and
# `make tabletop-slow NODE=2 BANDWIDTH=50mbit` give you such a cluster, on Linux with Slurm ([lab 42](42_horovod_mvapich2_gdr.ipynb)); `make tabletop-heal NODE=2` mends it.
#
# ### What you take away
# - The slowest of p: (i/n)ᵖ - ((i-1)/n)ᵖ. The tail decides, and few ranks do not show it.
# - Who waits *least* is late; its own longest part, beside the others', says why.
# - Backup workers drop gradients. Ask whose.
# - Local SGD averages out jitter, and no slow rank. It wants well-mixed images.
# - Mend what has a cause; only then wait for fewer, or less often.
