# %% [markdown]
# <!-- Generated from solutions/53_straggler_hunt.py by `make labs`. Learners work on a copy in work/. -->
# # 53 Straggler hunt
#
# In synchronous training, all [ranks](../labs/GLOSSARY.md#rank) wait in every step for the slowest one. A single node with a
# hot processor, a slow disk or a bad cable can therefore slow down a thousand healthy GPUs. Even if
# all nodes are healthy, their times vary a little, and with more ranks it becomes more likely that
# one of them is slow.
#
# A timer around the [allreduce](../labs/GLOSSARY.md#allreduce) of one rank does not show which rank is slow, and timers on all ranks
# do not show why.
#
# In this lab we predict how slow the slowest of many ranks is, find out from [timelines](../labs/GLOSSARY.md#timeline) which rank
# is late and why, and see what helps if the cause is only chance.
#
# **After this lab you can** (1) predict the step time of p ranks from the times of one, (2) name a
# late rank and its cause from a timeline, and (3) say what two methods against chance delays gain
# and cost: backup workers and local SGD (stochastic [gradient](../labs/GLOSSARY.md#gradient) descent).
#
# ![Timeline of four ranks over three steps. In each step another rank computes longest, and the other ranks wait until it has finished](../notebooks/figures/53_jitter.svg)
#
# *Each step ends when its slowest rank has finished, and all other ranks wait (striped). With
# jitter (times that vary by chance), the slowest rank changes from step to step. A straggler with a
# cause would be the same rank in most steps.*
#
# Needs: mpi · Ranks: 4 · Minutes: 60 · Level: advanced · Before: 01, 23, 50

# %%
import numpy as np
import pandas
from labkit import check, hint, lab, launch, plots, predict, record
from support import lab53

lab.start("53_straggler_hunt")
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
steps = 60  # of each kind on real ranks
many = 1000  # steps of 16 and 64 ranks, drawn by chance
fresh = 10  # cases of each cause with which your hunter is tried
mystery = 10  # which recording section 3 shows: any number from 0 on
recorded_steps = 8  # of each recording
training_steps = 304  # of the digits' network in section 4; a multiple of 16

# %% [markdown]
# ## 1. The slowest of p
# A **straggler** is a rank for which others wait. It does not have to be broken. Each rank's step
# time varies a little, which is called **jitter**, and a synchronous step takes as long as the step
# of the slowest rank.
#
# [Lab 01](01_time_it_properly.ipynb) showed in its optional part, with random disturbances, that in most steps of many ranks at
# least one of them takes long. Here we predict how long.
#
# Suppose that a rank's step takes 20 ms on average, with a standard deviation of 5 ms. If the times
# follow a **normal** distribution, the slowest of p ranks takes, averaged over many steps, the mean
# plus this number of standard deviations:
#
# | ranks | 1 | 4 | 10 | 64 | 1024 |
# |---|---|---|---|---|---|
# | standard deviations | 0 | 1.03 | 1.54 | 2.34 | 3.25 |
#
# For example, the slowest of 10 ranks takes 20 + 1.54 · 5 = 27.7 ms on average.
#
# Times of real programs are often **heavy-tailed** instead. Most of them are a little below the
# mean, and a few are far above it. The heavy-tailed times of this lab (a Pareto distribution) have
# the same mean and the same standard deviation, but very long times are much more probable:
#
# | probability of a time | above 30 ms | above 40 ms |
# |---|---|---|
# | normal | 2.3 % | 0.003 % |
# | heavy-tailed | 3.0 % | 0.8 % |
#
# ### Predict
# Predict the mean step time in ms in three cases:
#
# - `normal_4` and `normal_64`: for 4 and for 64 ranks with normal times, which you can compute
# - `heavy_64`: for 64 ranks with heavy-tailed times, which you have to guess

# %%
predict("53.1", normal_4=..., normal_64=..., heavy_64=...)


# %% [markdown]
# In practice you have no formula, but n measured times of *one* rank. Sort them, so that t₁ ≤ t₂ ≤
# … ≤ tₙ. Suppose that every step takes one of these times, each with probability 1/n, independently
# of the other ranks.
#
# - A step of one rank takes at most tᵢ with probability i/n.
# - The steps of p ranks *all* take at most tᵢ with probability (i/n)ᵖ.
# - Therefore the slowest of p ranks takes exactly tᵢ with probability **(i/n)ᵖ - ((i-1)/n)ᵖ**.
#
# As an example, take 2 ranks and two measured times, 10 ms and 20 ms. The slowest takes 10 ms with
# probability (1/2)² = 1/4, and 20 ms with probability 1 - 1/4 = 3/4. The expected time is therefore
# 10 · 1/4 + 20 · 3/4 = 17.5 ms.
#
# ### Exercise 53.1 · Expect the slowest
# Return the expected time of the slowest of `ranks` ranks. `samples` are the times of one rank, in
# any order. Do not change this array. About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: all probabilities at once</summary>
#
# `at_most = (np.arange(n + 1) / n) ** ranks` are the probabilities (i/n)ᵖ for i from 0 to n.
# `np.diff(at_most)` contains the n differences between neighbors.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.sum(np.sort(samples) * np.diff(at_most))` multiplies each time by its probability.
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
# ### Measure: real ranks
# Now real ranks make steps in which the work is a nap of random length, followed by an allreduce.
# They *sleep* instead of computing, because your computer may have fewer cores than ranks. The
# control is "steady", with naps of exactly 20 ms.
#
# Your function gets only the 60 measured steps of one rank. This takes about 15 s.

# %%
naps = {kind: lab53.draw(kind, steps, ranks, seed=1) for kind in lab53.KINDS}
measured = launch.run(lab53.step_seconds, naps, ranks=ranks, threads=1)[0]
real = []
for kind, by_size in measured.items():
    for size, seconds in by_size.items():
        predicted = expected_slowest(by_size[1], size)
        real.append((kind, size, predicted, seconds))
        record.add("slowest", kind=kind, ranks=size, seconds=seconds.mean(), predicted=predicted)
print("Milliseconds, on real ranks:", lab53.table(real), sep="\n")
if ranks >= 4:
    predict.compare("53.1", normal_4=1e3 * measured["normal"][4].mean())

# %% [markdown]
# **Explain.** Each row compares the result of your function, "predicted", with the mean step on
# this number of ranks. "+-" is the standard error of the mean. The prediction has an error of
# similar size, because it is computed from only 60 times. If the prediction and the mean differ by
# less than about three standard errors, they agree.
#
# You should see that steady steps take about 20 ms on any number of ranks. So the messages cost
# almost nothing here, and only jitter makes these steps longer on more ranks.
#
# For normal times on 4 ranks, the numbers of section 1 give 20 + 1.03 · 5 = 25.2 ms. On so few
# ranks, heavy-tailed steps hardly differ from normal ones.
#
# ### Compute: up to 64 ranks
# For more ranks, the next cell draws the times at random. Your function gets 10,000 times drawn for
# one rank, and the table compares its prediction with the mean of 1,000 drawn steps of 16 and of 64
# ranks. The plot adds the predictions for 1 to 64 ranks.

# %%
rows = []
curves = {}
for kind in ("normal", "heavy-tailed"):
    samples = lab53.draw(kind, 10_000, 1, seed=2).ravel()
    curves[f"{kind}, predicted"] = {
        size: 1e3 * expected_slowest(samples, size) for size in (1, 2, 4, 8, 16, 32, 64)
    }
    for size in (16, 64):
        seconds = lab53.draw(kind, many, size).max(axis=1)
        rows.append((kind, size, expected_slowest(samples, size), seconds))
print("Milliseconds, drawn at random:", lab53.table(rows), sep="\n")
for kind, size, _, seconds in real + rows:
    curves.setdefault(f"{kind}, real or drawn", {})[size] = 1e3 * seconds.mean()
plots.lines(
    curves,
    xlabel="ranks",
    ylabel="mean step (ms)",
    title="The slowest of p ranks: the tail decides",
    logx=True,
    name="slowest",
)
of_64 = {kind: 1e3 * seconds.mean() for kind, size, _, seconds in rows if size == 64}
predict.compare("53.1", normal_64=of_64["normal"], heavy_64=of_64["heavy-tailed"])

# %% [markdown]
# **Explain.** On 64 ranks, normal steps take about 20 + 2.34 · 5 = 31.7 ms, and heavy-tailed steps
# about 10 ms longer, although both have the same mean and the same standard deviation. **The tail
# of the distribution determines the result.**
#
# The two predicted curves cross at about 8 ranks. On 2 to 7 ranks, the prediction for heavy-tailed
# steps is even slightly shorter, because most of these times are below the mean. **A few ranks do
# not show the tail.**
#
# On real ranks your function got 60 steps of one rank. Would you trust its prediction for 1,024
# ranks?
#
# <details><summary>Answer</summary>
#
# No. The function knows no time longer than the longest of the 60, and with 1,024 ranks nearly
# every step would contain this time. To predict the slowest of p ranks, you need many more than p
# samples, or a formula for the tail.
# </details>
#
# ## 2. Who was late?
# Suppose that your job is slower than predicted, and that you want to know which rank is
# responsible. A step of one rank has three parts:
#
# | part | what the rank does |
# |---|---|
# | **input** | reads its images |
# | **compute** | computes its gradient |
# | **exchange** | takes part in the allreduce |
#
# ### Predict
# One of four ranks arrives at the allreduce 10 ms later than the other three, which arrive at the
# same time. The messages are short. By how many ms does the *exchange* get longer on the late rank,
# and by how many on the others?

# %%
predict("53.2", late_rank=..., others=...)

# %%
predict.right("53.2", late_rank=0, others=10)

# %% [markdown]
# **Explain.** The late rank finds all others ready, so its exchange gets no longer. The others wait
# for it, 10 ms each.
#
# The next cell draws a step of four ranks in which one rank computes for longer than the others. It
# is simulated by the rules of the [ring allreduce](../labs/GLOSSARY.md#ring-allreduce) of [lab 23](23_ring_allreduce.ipynb).

# %%
shown = lab53.case("slow core", seed=1, ranks=4)
lab53.draw_step(shown.steps[1], "One rank is late. Who seems to have a slow network?")


# %% [markdown]
# **Explain.** The exchange is short on rank 2 and long on all other ranks. The others seem to have
# a slow network, but they wait for rank 2, which arrived last ([lab 50](50_strong_and_weak_scaling.ipynb)).
#
# Comparing the exchanges does not find a rank with a slow link. Such a rank arrives on time, and
# its exchange is as long as that of the others. To find this rank, too, we look *inside* the
# exchange. At each moment, a rank either **sends**, or **waits** for other ranks:
#
# **wait = exchange - send**
#
# The rank that waits least is the one for which all others wait, whether it computes late or sends
# slowly. The timeline must therefore show each send by itself, without the time spent waiting.
#
# In this lab, a timeline is a list of spans `(rank, kind, begin, end)`, in seconds. The kinds are
# "input", "compute", "exchange" and "send". The sends of a rank are within its exchange, and each
# message has one span.
#
# For example, an exchange from 3 to 8 s with sends from 3 to 4 s and from 6 to 7 s has 2 s of send
# and therefore 3 s of wait.
#
# ### Exercise 53.2 · From spans to parts
# Add up the spans of one step. Return a dict with an array of shape (ranks,), in seconds, for each
# of "input", "compute", "send" and "wait". The spans may come in any order, and a rank may have
# several spans of a kind, or none. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: sums</summary>
#
# Begin with `np.zeros(ranks)` for each kind. For each span, add `end - begin` to the array of its
# kind, at the position of its rank.
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
# **Explain.** These are the parts of the step in the plot. Rank 2 waits least, so all other ranks
# wait for it. Its compute time is also the longest.
#
# But a rank with a long part is not always a straggler. Which rank has the longest input, and why
# do the others not wait for it?
#
# <details><summary>Answer</summary>
#
# Rank 3. But it has fewer images and computes for a shorter time. It therefore arrives at the
# exchange no later than ranks 0 and 1, and waits even longer than they do.
# </details>
#
# ## 3. Whose fault, and why?
# A single step proves nothing, because any rank may have a slow step now and then. We therefore
# look at several steps. These are the possible causes:
#
# | cause | what you see on the rank that waits least | where to look, and what helps |
# |---|---|---|
# | "slow disk" | its input takes longer than that of the others | read ahead ([lab 15](15_input_pipeline.ipynb)), use local copies of the files |
# | "slow core" | it computes longer *for each image* | heat, a second job; exclude the node |
# | "imbalance" | it computes longer, because it has more images | divide the batch evenly |
# | "slow link" | its bytes leave slowly, so send takes longer | cable, switch; exclude the node |
# | "jitter" | in each step it is another rank | no rank is to blame, see section 4 |
#
# As an example, we find the cause in the step above:
#
# 1. Rank 2 waits least.
# 2. Its input is as long as the median of the other ranks, its send is 0.1 ms longer, and its
#    compute is 10.5 ms longer, so we look at compute.
# 3. Rank 2 computes 25 images in 34.6 ms, which is 1.4 ms for each image, while the other ranks
#    need 1 ms. The difference is more than a tenth of this, so the core is slow.
#
# ### Exercise 53.3 · The hunter
# Return `(rank, cause)`, with a cause from the table, or `(None, "jitter")`. `steps` is a list of
# dicts as your `parts` returns them, and `images` contains the number of images that each rank has
# in every step. `lab53.above(values, rank)` returns how far a rank's value is above the median of
# all other ranks, for example 4 for rank 1 in `[10, 14, 10, 10]`.
#
# 1. Find the rank that waits least in the largest number of steps. If it waits least in no more
#    than half of the steps, the answer is jitter. (Only one rank can account for more than half, so
#    ties do not matter.)
# 2. For input, compute and send, take the mean over the steps on each rank. Find the part in which
#    this rank is furthest above the others. If it is input, the disk is slow. If it is send, the
#    link is slow.
# 3. If the part is compute, divide *each* rank's mean by that rank's images. If this rank's time
#    per image is above the others by more than a tenth of the median over all ranks, its core is
#    slow. Otherwise the rank has too many images (imbalance).
#
# About 12 lines. *(advanced)*
#
# <details><summary>Hint 1: the rank</summary>
#
# `latest = [int(np.argmin(step["wait"])) for step in steps]`, and
# `max(set(latest), key=latest.count)` is the value that occurs most often in this list.
# </details>
# <details><summary>Hint 2: the part</summary>
#
# `np.mean([step[part] for step in steps], axis=0)` is an array indexed by rank. Put one such array
# for each of the three parts into a dict `mean`, and compare `lab53.above(mean[part], rank)`.
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
# Asked: Rank and cause in 30 cases; each has one very bad step, and one rank
# that reads for long.
check("53.3", find, hunt)

# %% [markdown]
# ### A recording of real ranks
# Now we record a timeline on real ranks, with their clocks synchronized. As before, the work is a
# nap, and so is the time in which a rank sends its bytes. First read the plot yourself. This takes
# about 5 s.

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
# Give the rank as a number, and the cause as in the table: "slow disk", "slow core", "imbalance" or
# "slow link". This recording does not show jitter.

# %%
predict("53.3", rank=..., cause=...)

# %% [markdown]
# ### Measure: your hunter on recordings
# Your hunter now analyzes this recording, and then one recording of each cause. Each of them draws
# its late rank at random. This takes about 15 s.

# %%
if ranks >= 4:
    recording = [lab53.spans_of(profile, number) for number in range(recorded_steps)]
    print(f"Your hunter: {hunt(recording, images)}. It was {hidden}.")
    predict.right("53.3", rank=hidden[0], cause=hidden[1])
    rows = []
    for seed, cause in enumerate(lab53.CAUSES, start=mystery + 1):
        taken, counts, truth = launch.run(
            lab53.recorded, cause, seed, recorded_steps, ranks=ranks, threads=1
        )[0]
        recording = [lab53.spans_of(taken, number) for number in range(recorded_steps)]
        rows.append([hunt(recording, counts), truth])
    print(pandas.DataFrame(rows, columns=["your hunter", "really"]))

# %% [markdown]
# **Explain.** In the table, each row should show the same answer twice. Your hunter should be right
# in all six recordings. (On a busy computer, a rank may sleep too long and be late for this reason.
# In that case, run the cell again.)
#
# In five of the recordings one rank needs longer by 80 % of its computing time, and in the
# recording of jitter this is another rank, drawn by lot, in each step.
#
# Sending is a nap here, which makes the hunt easier than in practice. In a real allreduce, the
# sends at *both* ends of a slow link take long, so your hunter could not tell which end is slow.
# (The last optional part shows how to find out.)
#
# ## 4. No rank to blame: wait for fewer ranks, or less often
# Jitter is not the fault of one rank. You may remove some of it, such as background processes of
# the operating system, but some always remains. Two methods reduce its effect:
#
# - **Backup workers** (Chen et al., 2016): a step is complete as soon as all but b of the ranks
#   have their gradients, and the average is taken over these ranks. The b late ranks drop their
#   gradients, and begin the next step together with the others.
# - **Local SGD** (Stich, 2018): each rank makes H steps on its own. Then the *weights* of all ranks
#   are averaged, and a new **round** of H steps begins.
#
# Why does local SGD help? The sum of 16 independent times of 20 ms has a mean of 320 ms, but its
# standard deviation is only √16 = 4 times 5 ms. For the slowest of 10 ranks with normal times this
# means:
#
# | | mean | standard deviation | slowest of ten | per step |
# |---|---|---|---|---|
# | 1 step | 20 ms | 5 ms | 20 + 1.54 · 5 = 27.7 ms | 27.7 ms |
# | 16 steps | 320 ms | 20 ms | 320 + 1.54 · 20 = 350.8 ms | 21.9 ms |
#
# ### Measure: time
# The next cell computes the mean step time of ten ranks from times drawn at random, without
# messages, with 16 steps in a round. The first two rows of the table show normal and heavy-tailed
# jitter. In the third row, rank 7 takes 1.5 times as long in every step, with little jitter.

# %%
H = 16
drawn = {kind: lab53.draw(kind, 100 * H, 10) for kind in ("normal", "heavy-tailed")}
drawn["rank 7 slow"] = lab53.slow_rank(100 * H, 10, 7)
rows = {}
for kind, seconds in drawn.items():  # (steps, ranks)
    in_order = np.sort(seconds, axis=1)
    sums = seconds.reshape(-1, H, 10).sum(axis=1)  # of the H steps of a round
    rows[kind] = {
        "synchronous": in_order[:, -1].mean(),
        "1 backup": in_order[:, -2].mean(),
        "local SGD": sums.max(axis=1).mean() / H,
    }
print("Milliseconds per step:", (1e3 * pandas.DataFrame(rows).T).round(1), sep="\n")


# %% [markdown]
# **Explain.** The normal row shows about the 27.7 ms and the 21.9 ms from above. Against jitter
# both methods help, and a backup gains most where the tail is heavy.
#
# If rank 7 is slow, local SGD gains nothing, because a rank that is 10 ms late in each step is 160
# ms late after 16 steps. One backup hides the slow rank completely, but the dropped gradients are
# lost, and here they are always those of the same rank.
#
# ### Measure: what the network learns
# What do dropped gradients and separate steps cost? The next cell trains the digit network of [lab 10](10_train_on_one_device.ipynb) on ten ranks in four ways:
#
# - synchronously
# - with one backup under normal jitter
# - with one backup while rank 7 is slow
# - with local SGD
#
# It does this twice. First, each rank has *mixed* images, and then only images of *its own digit*,
# so that rank 7 has the sevens. The table shows the percentage of correct answers for all test
# images and for the sevens (medians of three seeds). This takes about 20 s.

# %%
def in_time(seconds):
    """Whose gradients are used with 1 backup: all but those of the slowest rank of each step."""
    seconds = np.resize(seconds, (training_steps, 10))  # if there are too few, from the first again
    return seconds < seconds.max(axis=1, keepdims=True)


everyone = np.ones((training_steps, 10), bool)
ways = {
    "synchronous": (everyone, 1),
    "1 backup, jitter": (in_time(drawn["normal"]), 1),
    "1 backup, rank 7 slow": (in_time(drawn["rank 7 slow"]), 1),
    "local SGD": (everyone, H),
}
rows = {}
for way, (used, every) in ways.items():
    rows[way] = {}
    for images_of, own_digits in (("mixed", False), ("own digit", True)):
        right = [lab53.train(used, every, own_digits, seed) for seed in range(3)]
        rows[way][f"{images_of}: all"], rows[way][f"{images_of}: sevens"] = np.median(right, axis=0)
print("Percent right:", pandas.DataFrame(rows).T.round(0).astype(int).to_string(), sep="\n")

# %% [markdown]
# **Explain.** With one backup, if each rank has its own digit and rank 7 is slow, the network does
# **not recognize a single seven**. If jitter decides which gradient is dropped, it is the gradient
# of any rank, by chance, so no digit is missing.
#
# Local SGD also suffers if each rank has only one digit, probably because each rank's network sees
# only one digit for 16 steps.
#
# With mixed images, all ways are about equally good, and local SGD sends only a sixteenth of the
# bytes. Therefore shuffle the images, and repair a node that is always slow.
#
# ### What you take away
# - The slowest of p ranks takes tᵢ with probability (i/n)ᵖ - ((i-1)/n)ᵖ. The tail determines the
#   result, and a few ranks do not show it.
# - In most steps, the others wait for the rank that waits *least*. The part in which it is furthest
#   above the other ranks tells you why.
# - Backup workers drop gradients, so ask whose gradients they are.
# - Local SGD averages out jitter, but not a slow rank. It needs well-mixed images.
# - Fix whatever has a cause, and only then wait for fewer ranks or wait less often.
#
# ## Going further (optional): how small a delay does your hunter find?
# This part takes about 4 minutes. The next cell tries your hunter on computed timelines, in which
# one rank is late by a few percent of its computing time. All times vary by 3 % (one standard
# deviation). Each row of the table shows in how many percent of the cases your hunter names the
# right rank, and in how many it names both the right rank and the right cause.

# %%
rows = []
for late in (0.02, 0.05, 0.1, 0.2, 0.4):
    rank_found, both_found = lab53.share_found(hunt, late, range(1000, 1000 + fresh))
    rows.append([f"{late:.0%}", f"{rank_found:.0%}", f"{both_found:.0%}"])
found = pandas.DataFrame(rows, columns=["late by", "rank found", "rank and cause"])
print(found.to_string(index=False))
blamed = lab53.share_blamed(hunt, range(1000, 1000 + 4 * fresh))
print(f"No rank late: {blamed:.0%} of the cases blame a rank.")

# %% [markdown]
# **Explain.** Your hunter finds nearly every rank that is late by 10 %. It misses most ranks that
# are late by 2 %, which is less than the jitter. (In this row, the ranks with imbalance are not
# late at all, because 2 % of 24 images is less than one image.)
#
# Naming a slow core requires a larger delay than finding the rank, because your rule asks for more
# than 10 % more time per image.
#
# In some cases your hunter blames a rank although none is late, because by chance one rank waits
# least in more than half of the steps.
#
# ## Going further (optional): pairs of nodes
# This part takes about a minute. How can you find a slow link, if real sends wait at both of its
# ends? Test **pairs** of nodes, one pair at a time. Each pair sends a message there and back, and
# you take the fastest of ten (the ping-pong of [lab 22](22_latency_and_bandwidth.ipynb)). If a node is slow even with its *best*
# partner, this node is behind the slow link. You need at least three nodes, because both ends of a
# single pair look slow.
#
# On Linux with Slurm ([lab 42](42_horovod_mvapich2_gdr.ipynb)), `make tabletop NODES=4` starts a cluster. `make tabletop-slow NODE=2
# BANDWIDTH=50mbit` slows down one of its links, and `make tabletop-heal NODE=2` restores it.
#
# ### Further reading
# - J. Dean and L. Barroso, *[The Tail at Scale](https://doi.org/10.1145/2408776.2408794)*, Communications of the ACM 56(2), 2013. Why the slowest of many machines determines the response time, and what large
#   services do about it.
# - F. Petrini, D. Kerbyson and S. Pakin, *[The Case of the Missing Supercomputer Performance](https://doi.org/10.1145/1048935.1050204)*, SC, 2003. How small disturbances by the operating system halved the performance of an
#   application on a supercomputer.
# - J. Chen, X. Pan, R. Monga, S. Bengio and R. Jozefowicz, *[Revisiting Distributed Synchronous SGD](https://arxiv.org/abs/1604.00981)*, 2016. Measured straggler times of up to 100 workers, and training with backup
#   workers.
# - S. Stich, *[Local SGD Converges Fast and Communicates Little](https://arxiv.org/abs/1805.09767)*, 2018. The analysis of local SGD.
# - T. Hoefler and R. Belli, *[Scientific Benchmarking of Parallel Computing Systems](https://doi.org/10.1145/2807591.2807644)*, SC, 2015. How to report times that vary.
