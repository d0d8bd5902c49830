# %% [markdown]
# <!-- Generated from solutions/65_which_framework.py by `make labs`. Learners work on a copy in work/. -->
# # 65 Which framework?
#
# Teams often choose a framework for distributed training on the basis of a published benchmark, or
# of a single number that they measured once. Such numbers depend on the machine, on the network and
# on chance. Moreover, the fastest framework is not necessarily the one that is easiest to adopt,
# starts fastest, or needs the least memory. A good decision needs the same job for all candidates,
# measurements that mean the same for all of them, and a rule that says when a difference is more
# than chance.
#
# In this lab we train the same network on the same images with five methods, on two [ranks](../labs/GLOSSARY.md#rank). We count
# how many lines of a script each method changes, measure start-up, speed and memory from the
# outside, and base decisions on ranges. An optional part scores a benchmark by MLPerf's rule.
#
# **After this lab you can** (1) count what a framework asks you to change, (2) measure start-up and
# speed from the outside, in the same way for all frameworks, and (3) decide from ranges instead of
# single numbers.
#
# ![Two pairs of ranges: the pair that overlaps rules nothing out, the pair that does not overlap rules one method out](../notebooks/figures/65_spans.svg)
#
# *A decision from ranges. If the ranges of two candidates overlap, the measurement does not show
# which one is better. If they do not overlap, the worse one is ruled out.*
#
# Needs: horovod, torch, tensorflow · Ranks: 2 · Minutes: 55 · Level: intermediate · Before: 34, 41, 60, 61

# %%
import difflib

import numpy as np
import pandas
from labkit import check, hint, lab, launch, predict, record
from support import lab65

lab.start("65_which_framework")
ranks = launch.ranks_here(2)

# %% tags=["parameters"]
ways = ("PyTorch DDP", "FSDP2", "Horovod on PyTorch", "Horovod on TensorFlow", "tf.distribute")
width = 1024  # units of the net's three hidden layers
batch = 64  # images of all ranks together, in a step
steps = 60  # of each training run
rounds = 2  # how often all ways run, one after the other

# %% [markdown]
# ## 1. The same job, five times
# The job is a network with 64 inputs, three hidden layers and ten outputs, which learns from
# `batch` images per step, with Adam. There is one script for a single device in PyTorch, one in
# TensorFlow, and five for several ranks, one for each method (the code calls the methods `ways`):
#
# | method | based on | usually started by | labs |
# |---|---|---|---|
# | PyTorch DDP | PyTorch | `torchrun` | 60 |
# | FSDP2 (`fully_shard`) | PyTorch | `torchrun` | 60 |
# | Horovod on PyTorch | PyTorch | `horovodrun`, `mpiexec` | 40 |
# | Horovod on TensorFlow | TensorFlow | `horovodrun`, `mpiexec` | 41 |
# | `tf.distribute` | TensorFlow | you, with a `TF_CONFIG` for each; `srun`, with a `SlurmClusterResolver` | 61 |
#
# Each is a plain script of about 40 lines, in `labs/support/lab65_scripts`. It trains, and after
# each step it prints the step's number, the time, and the [loss](../labs/GLOSSARY.md#loss).
#
# The next cell compares the script for [DDP](../labs/GLOSSARY.md#DDP) with the one for a single device. A `-` marks a line
# that is only in the script for a single device, and a `+` marks one that is only in the script
# for DDP.

# %%
one_device, many = lab65.scripts("PyTorch DDP")
print(
    "".join(
        difflib.unified_diff(
            one_device.splitlines(True), many.splitlines(True), "alone", "DDP", n=1
        )
    )
)


# %% [markdown]
# How much work is such a change? One measure is the number of **lines changed**. It is crude, but
# it can be counted if the rules are clear:
#
# - Empty lines (also those that contain only spaces) and comments (lines whose first character
#   after spaces is `#`) are first removed from both scripts.
# - Then every line that has no partner in the other script, in the same order, counts once.
# - A modified line counts twice, once as an old line and once as a new one, and so does a line that
#   was moved. A newly indented line is a modified one.
#
# **An example.** In the comparison above, no line is removed and 5 lines are added. The first line
# of each script is a comment, so it does not count.
#
# `difflib.ndiff(before, after)` compares two lists of lines. It yields each line with two
# characters in front: `"- "` for removed lines, `"+ "` for added lines, and `"  "` for lines in
# both. (Lines with `"? "` are hints for human readers.)
#
# ### Exercise 65.1 · Count the changes
# `one_device` and `many` are the texts of two scripts. Return two numbers: lines removed and lines
# added. If one line of a script is modified, for example, the result is 1 and 1. 4 to 6 lines.
# *(beginner)*
#
# <details><summary>Hint 1: the lines that count</summary>
#
# `[line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]`. Do
# this for both texts *before* you compare them.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `marks = [line[:2] for line in difflib.ndiff(before, after)]`, and then `marks.count("- ")`.
# </details>

# %%
def changes(one_device, many):
    """(lines removed, lines added) between two scripts. Empty lines and comments do not count."""
    raise NotImplementedError("exercise 65.1: Count the changes")


# %%
# Asked: The counts of small texts, and of each way's scripts. Lines added, less
# lines removed, are how much longer a script became.
check("65.1", changes)

# %% [markdown]
# ### Predict
# Make two guesses: how many lines does Horovod on PyTorch change, counting both removed and added
# lines? And how many does `tf.distribute` change, where the network has to be built inside
# `with strategy.scope():`?

# %%
predict("65.1", horovod=..., tf_distribute=...)

# %%
lines = {way: sum(changes(*lab65.scripts(way))) for way in lab65.WAYS}
for way, count in lines.items():
    print(f"{way}: {count} lines changed")
predict.right("65.1", horovod=lines["Horovod on PyTorch"], tf_distribute=lines["tf.distribute"])

# %% [markdown]
# Which lines are these? The next cell shows those that count, for three of the methods.

# %%
for way in ("Horovod on PyTorch", "FSDP2", "tf.distribute"):
    before, after = (text.splitlines() for text in lab65.scripts(way))
    print(way)
    for line in difflib.ndiff(before, after):
        if line[0] in "-+" and line[2:].strip() and not line[2:].startswith("#"):
            print(line)


# %% [markdown]
# **Explain.** All five scripts find the other ranks, take this rank's part of the batch, average
# [gradients](../labs/GLOSSARY.md#gradient), and begin with equal weights. DDP and Horovod do this with a handful of lines. The two
# other methods also depend on how the network is built:
#
# - FSDP2 has to know which layers to shard, so lines are added after the network is built. It does
#   not [broadcast](../labs/GLOSSARY.md#broadcast) the weights. They are equal because all ranks set the same seed.
# - `tf.distribute` has to be active when a variable is created, so the code of the network is
#   indented, and every line of it counts as modified.
#
# The count does not say how easy it is to get these lines wrong. `/ workers` in `tf_distribute.py`
# is half a line, and without it the gradients are sums ([lab 61](61_tf_distribute.ipynb)).
#
# ## 2. Observe a run from the outside
# Each framework has its own timers, and they measure different things. Therefore we measure from
# the **outside**: we start the processes and read what they print. For each run we know
#
# - `started`: the moment at which all processes were started, in seconds;
# - `moments`: for each rank a list of the moments at which it finished its steps 0, 1, 2, …
#
# A step ends when the *slowest* rank has finished it. From this we compute two numbers:
#
# - The **start-up** is the time from `started` to the end of step 0. It contains everything that a
#   user waits for: Python, imports, connections, and the first step with its compilation.
# - The **speed** of a later step is `batch` divided by its duration, which is the time from the end
#   of the previous step to its own end. `batch` is the number of images of all ranks together.
#
# **An example.** Two ranks were started at 1000 s, and `batch` is 48. Rank 0 finished its steps 0
# and 1 at 1003.0 and 1004.0 s, and rank 1 at 1002.5 and 1004.5 s. So step 0 ended at 1003.0 s, and
# the start-up is 3 s. Step 1 ended at 1004.5 s, after 1.5 s, and its speed is 48 / 1.5 = 32
# images/s.
#
# The first steps may be slower than the others. The speeds of steps 1 to 4 are therefore left out,
# and step 5 is the first one whose speed counts: `first=5`.
#
# ### Exercise 65.2 · Start-up and speeds
# Return the start-up in seconds and a list of the speeds, in images/s, of steps 5, 6, 7, …, up to
# the last step that *all* ranks have finished. 5 to 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: the end of each step</summary>
#
# `zip(*moments)` yields the moments of all ranks for each step, and stops with the rank that has
# the fewest. So `[max(step) for step in zip(*moments)]` gives the moments at which the steps ended.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.diff(ends)` gives the durations of steps 1, 2, 3, …, so its entry `[4]` belongs to step 5.
# </details>

# %%
def read_run(started, moments, batch, first=5):
    """(start-up in seconds, [images/s of step first, first + 1, …]) of a run. moments: by rank,
    step."""
    raise NotImplementedError("exercise 65.2: Start-up and speeds")


# %%
# Asked: Both of runs that are known, with one to four ranks, slow first steps,
# a late rank.
check("65.2", read_run)

# %% [markdown]
# ## 3. Run all five
# Each of the five methods runs on two real processes with one thread each. For comparison, each
# framework also runs alone on one such process. [Gloo](https://github.com/pytorch/gloo) transports the gradients for all
# methods except `tf.distribute`, which has its own ring over gRPC ([lab 61](61_tf_distribute.ipynb)). After 60 steps the lab
# measures the memory of each process and ends it.
#
# ### Predict
# Make two guesses: how many seconds pass from the start of the processes to the end of the first
# step, for PyTorch DDP and for `tf.distribute`?

# %%
predict("65.2", ddp_start=..., tf_distribute_start=...)

# %% [markdown]
# ### Measure
# Every method is run twice, and so is each framework on one device. This takes two to eight
# minutes, depending on how busy the machine is. Read on in the meantime.

# %%
alone = sorted({lab65.alone_of(way) for way in ways})
sizes = {"width": width, "batch": batch, "steps": steps}
runs = lab65.measure([*alone, *ways], ranks, rounds, **sizes)

# %% [markdown]
# ### Control: are all five the same job?
# We compare the losses of the first steps with those of one device that has all the images. The two
# frameworks choose different initial weights, so each method is compared with its own framework on
# one device.

# %%
first_steps = 5
print(f"The losses of the first {first_steps} steps, and one device's with all the images:")
for way in ways:
    distance, change = lab65.apart(runs, way, first_steps)
    print(
        f"{way}: at most {distance:.0e} apart. From step to step they change by up to {change:.0e}"
    )

# %% [markdown]
# **Explain.** In each line, the first number should be far smaller than the second one, so that all
# methods match the losses of one device down to the last digits. This is a necessary sign of the
# same job, but not a proof.
#
# Which mistake would remain hidden here?
# <details><summary>Answer</summary>
#
# Sums instead of means. Adam divides a gradient by its usual size, so twice the gradient leads to
# nearly the same update. With SGD this mistake would be visible, and exercise 61.2 checks it.
# </details>
#
# ### The evidence
# The next cell prints one row for each method. Each entry is a **range**, called `span` in the
# code. For example, "102 to 131" under images/s would mean that the middle half of this method's
# steps had speeds between 102 and 131 images/s.
#
# - For images/s, the range contains the middle half of all steps (the [interquartile range](../labs/GLOSSARY.md#interquartile-range)).
# - For the other columns, it goes from the lowest to the highest value of all rounds and ranks.
#
# Your guesses of the start-up are compared with the middle of its range.

# %%
spans = lab65.evidence(runs, lines, read_run, batch)
print(lab65.show(spans).to_string())
for way in [*alone, *ways]:
    found = {column: row[way] for column, row in spans.items() if way in row}
    record.add(
        "framework",
        way=way,
        ranks=ranks if way in ways else 1,
        width=width,
        batch=batch,
        spans=found,
    )
starts = {way: sum(span) / 2 for way, span in spans["start-up (s)"].items()}
answers = {
    "ddp_start": starts.get("PyTorch DDP"),
    "tf_distribute_start": starts.get("tf.distribute"),
}
predict.compare("65.2", **{name: value for name, value in answers.items() if value is not None})


# %% [markdown]
# **Explain.** Read the table column by column:
#
# - *images/s*. Two ranks share a batch that a single device had to itself, on cores that may be
#   shared with other programs. Expect no [speed-up](../labs/GLOSSARY.md#speed-up) here, and a wide range.
# - *start-up*. Look first at the two rows of a single device, which show how long each framework
#   needs alone. The difference from these rows contains what a method adds. On shared cores it also
#   contains a delay, because two processes load their libraries at the same time.
# - *memory*. This is the memory of a process, including its libraries, and TensorFlow's libraries
#   are the larger ones. FSDP2 might not need less memory than DDP here, because the parameters
#   and Adam's averages of this network are small.
#
# Which network would show the advantage of FSDP2 in this column?
# <details><summary>Answer</summary>
#
# A large one. With Adam, 2.2 million parameters take 16 bytes each, which is 35 MB, and two ranks
# save half of them. With `width=4096` there are 34 million parameters and 540 MB. FSDP2 then needed
# at least a third less memory than DDP on the authors' machine (`make run LAB=65
# SET="width=4096"`).
# </details>
#
# ## 4. Decide by evidence
# Suppose that one method was faster than another. Is this a reason to choose it? Not if their
# ranges overlap, because another run may then reverse the order. Our rule is that **a method is
# ruled out if the range of another method is completely on the better side of its own**. A method
# that is not ruled out is still in. If all methods are still in, this column gives no reason to
# prefer one of them, so it *does not decide*.
#
# The rule is only as good as its ranges. With two rounds, the start-up ranges of two methods that
# are in fact equally fast may easily fail to overlap by chance, and the steps of a run are not
# independent of each other. For a decision that matters, use `rounds=5`.
#
# <details><summary>How often does this happen?</summary>
#
# With two rounds, each method has two values, and in 2 of the 6 possible orders of these four
# values, both values of one method come first. So the ranges of two equally fast methods do not
# overlap in 1 of 3 tables, and with five rounds in 1 of 126.
# </details>
#
# ### Exercise 65.3 · Who is still in?
# `still_in(of_ways, more_is_better)` returns the list of the methods that no other method rules
# out. `of_ways` is a dictionary from the name of a method to its range (low, high). For example, if
# less is better, (3, 4) is ruled out by (1, 2), but not by (1, 3), because these two ranges touch.
# About 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: ruled out</summary>
#
# If less is better, a method whose range starts at `low` is ruled out if the upper end of another
# range is below `low`: `any(other[1] < low for other in of_ways.values())`. If more is better, it
# is the other way round.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for way, (low, high) in of_ways.items():`, and in the loop check one of the two conditions.
# Append each `way` that is not ruled out to a list.
# </details>

# %%
def still_in(of_ways, more_is_better):
    """The ways of of_ways, {way: (low, high)}, that no other way's span rules out."""
    raise NotImplementedError("exercise 65.3: Who is still in?")


# %%
# Asked: The rule, on spans that are known: of one value, that touch, that
# overlap, and without an end.
check("65.3", still_in)

# %% [markdown]
# The next cell applies your rule to each column of the evidence. A row of its table could read
#
#     any        images/s    PyTorch DDP, FSDP2
#
# This would mean that the speed rules out three of the five methods, and that these two are still
# in if you may choose among `any` of them. Other rows offer a choice only among the methods of one
# framework. If a row says `all of them`, the column does not decide.

# %%
rows = {}
for among, chosen in lab65.groups(ways).items():
    for column, more_is_better in lab65.COLUMNS.items():
        left = still_in({way: spans[column][way] for way in chosen}, more_is_better)
        rows[among, column] = "all of them" if len(left) == len(chosen) else ", ".join(left)
print(pandas.Series(rows, name="still in").to_frame().to_string())


# %% [markdown]
# Write down three decisions, such as "start-up matters to me, I may choose among all five, and I
# take …". For each of three columns, say what you need, which methods you choose from, and which
# one you choose (or that the column does not decide).
#
# **Explain.** If several methods are still in, this column leaves the choice among them to you.
#
# Which columns rule out a method depends on your machine. *Lines changed* does wherever the counts
# differ, because its ranges are single numbers, and the start-up usually shows which of the two
# frameworks starts faster. The speed on two shared cores often rules out few methods or none, so
# **here** you would not choose by speed.
#
# A difference can be clear and still too small to matter, for example three megabytes out of 330.
# The rule tells you what was observed, not what you need.
#
# The most important reasons may not appear in any column:
#
# - Your model may already be written in one of the frameworks.
# - The staff of your computing center may know only one of the [launchers](../labs/GLOSSARY.md#launcher).
# - FSDP2 is made for models that do not fit on one device, and for such a model nothing else in the
#   table matters.
# - The latest release of Horovod is 0.28.1, from 2023.
# - None of the five scripts continues when a rank's process dies. [Lab 70](70_checkpoint_and_requeue.ipynb) shows what this takes.
#
# This lab shows neither GPUs, where [NCCL](../labs/GLOSSARY.md#NCCL) would transport the gradients for all five methods, nor
# more than one node, unless you run it as a job (`make submit LAB=65 NODES=2`).
#
# ### What you take away
# - First check that all candidates do the same job, down to the last digits of the loss, and then
#   compare them.
# - Lines can be counted, and start-up and speed can be measured from the outside. Each number has a
#   range.
# - Base a decision on a column only if the ranges do not overlap. "This column does not decide" is
#   a valid answer.
#
# ## Going further (optional): a benchmark by MLPerf's rule (15 minutes)
# The goal of training is an accuracy, not a number of images per second ([lab 34](34_large_batch.ipynb)).
# [MLPerf](https://arxiv.org/abs/1910.01500) is the benchmark with which vendors compare their machines, and its result
# is the **time to a quality target**. This time depends on the seed, often strongly. Therefore
# MLPerf's rules (github.com/mlcommons/training_policies) say:
#
# - A benchmark is run several times, and the *fastest and the slowest* run are dropped.
# - The result is the *mean* of the others.
# - *One* run that never reaches the target may count as the slowest and be dropped. If there is
#   more than one, the result is invalid.
#
# ### Exercise 65.4 · The score (optional)
# `seconds` is a list of at least three times, in the order of the runs. `None` is a run that missed
# the target. Return the score, or `None` for an invalid result. Do not change the caller's list.
# For example, the times 10, 12, 14 and 30 have the score 13. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: a missed target is the slowest</summary>
#
# Replace `None` by `np.inf`, and sort:
# `sorted(np.inf if value is None else value for value in seconds)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `kept = ordered[1:-1]`. If infinity is still among these values, the result is invalid.
# </details>

# %%
def score(seconds):
    """MLPerf's score of several runs: seconds to the target each, None for a run that missed it."""
    raise NotImplementedError("exercise 65.4: The score (optional)")


# %%
# Asked: The rule, for three to ten runs, in any order, with none, one and two
# that missed the target.
check("65.4", score)

# %% [markdown]
# ### Predict
# [Lab 34](34_large_batch.ipynb) trained with seven recipes (an optimizer and a rule for its [learning rate](../labs/GLOSSARY.md#learning-rate)), each with eight
# batch sizes, which makes 56 benchmarks. Each of them was run with five seeds, and the target is an
# accuracy of 95 %. The [epochs](../labs/GLOSSARY.md#epoch) and the time of a step were measured, and the time of an [allreduce](../labs/GLOSSARY.md#allreduce)
# was computed, as in [lab 34](34_large_batch.ipynb). Guess how many of the 56 have a valid result.

# %%
predict("65.4", valid=...)

# %% [markdown]
# ### Measure
# The next cell scores these runs of [lab 34](34_large_batch.ipynb), which the authors recorded, with your function. It
# prints a table of the ten best scores, in which each row is a recipe and a batch size:
#
# | column | meaning |
# |---|---|
# | `ms, fastest seed` | the time of the fastest of the five seeds |
# | `ms, score` | the score of the five |
# | `lowest`, `highest` | a range for the score |
#
# To get a range from five seeds, we leave out the first one and score the other four, then leave
# out the second one, and so on. For the times 10, 12, 14, 16 and 30, the scores are 15 without 10,
# 15 without 12, 14 without 14, 13 without 16, and 13 without 30. So the range goes from 13 to 15.
#
# Below the table, you see the batch sizes of each recipe whose result is invalid, and in the last
# line the benchmarks that your rule from 65.3 does not rule out.

# %%
trainings = lab65.trainings()
frame, around = lab65.score_all(trainings, score)  # around: the ranges, by benchmark
print("Runs to 95 %. The ten best scores, and their range with one seed left out:")
print(frame.sort_values("ms, score").head(10).round(1).to_string())
print(f"{len(frame)} of {len(trainings)} benchmarks are valid. Invalid batch sizes, by recipe:")
for recipe, batches in lab65.invalid_batches(trainings, frame).items():
    print(f"  {', '.join(batches) or 'none'}: {recipe}")
print("Not ruled out:", *(f"{way} at {of_step};" for way, of_step in still_in(around, False)))
record.add("scores", valid=len(frame), benchmarks=len(trainings))
predict.compare("65.4", valid=len(frame))

# %% [markdown]
# **Explain.** Nearly half of the benchmarks are invalid, namely those with the largest batch sizes
# of each recipe. With a large batch an epoch takes the least time ([lab 34](34_large_batch.ipynb)), but more than one of
# the five seeds misses the target.
#
# Compare the first two columns. The fastest seed makes a result look better, and not by the same
# amount for all recipes. Dropping the fastest and the slowest run reduces the influence of good and
# bad luck alike.
#
# In the last line, several benchmarks are still in, so five seeds do not show which of them is
# best. One that is ruled out may also be as good as these, because the ranges are narrow: any two
# of the five scores share three seeds. We simulated pairs of equally fast benchmarks, with five
# normally distributed times each, and the ranges did not overlap for 49 % of the pairs.
#
# ## Going further (optional): the frameworks before these (4 minutes)
# These seven frameworks date from 2002 to 2017, and none of them is a first choice today. Most of
# them introduced something that lives on in the frameworks that you have just compared:
#
# | | since | what it introduced | what became of it | |
# |---|---|---|---|---|
# | Torch | 2002 | tensors and layers on top of a C library | PyTorch began as a fork of Torch7 | [1] |
# | Theano | 2007 | a formula as a graph, its gradient derived from it, code for GPUs | TensorFlow's graphs work like this, too; PyMC's PyTensor continues Theano | [2] |
# | Caffe | 2014 | a network as data, separate from code; trained networks to download | S-Caffe trains it over MPI | [3] |
# | CNTK | 2015 | 1-bit SGD with error feedback ([lab 35](35_compress_gradients.ipynb)) | with Facebook: ONNX, files to exchange networks | [4] |
# | Chainer | 2015 | *define by run*: the graph is what Python has just executed | PyTorch works like this, too; Chainer's arrays are CuPy today | [5] |
# | MXNet | 2015 | graphs and direct calls mixed; a key-value store on servers ([lab 31](31_parameter_server_or_allreduce.ipynb)) | retired in 2023 | [6] |
# | Caffe2 | 2017 | **Gloo**; ResNet-50 in an hour on 256 GPUs ([lab 34](34_large_batch.ipynb)) | a part of PyTorch since 2018 | [7] |
#
# Gloo transported the gradients for four of the five methods in this lab.
#
# <details><summary>Sources of the table</summary>
#
# - [1] Collobert et al., "Torch7", 2011; Chintala, soumith.ch, 2023
# - [2] Bergstra et al., SciPy 2010; "The Future of PyMC3", pymc-devs.medium.com, 2020
# - [3] Jia et al., arXiv 1408.5093; Awan et al., "S-Caffe", PPoPP 2017
# - [4] Seide et al., Interspeech 2014; Microsoft and Facebook on ONNX, azure.microsoft.com, 2017
# - [5] Tokui et al., 2015; "Looking back on Chainer", beam2d.net, 2019
# - [6] Chen et al., arXiv 1512.01274; attic.apache.org/projects/mxnet.html
# - [7] Goyal et al., arXiv 1706.02677; "Caffe2 and PyTorch join forces", caffe2.ai/blog, 2018
# </details>
#
# ### Further reading
# - P. Mattson et al., *[MLPerf Training Benchmark](https://arxiv.org/abs/1910.01500)*, MLSys, 2020. The design of MLPerf Training, with the reasons for its rules.
# - T. Hoefler and R. Belli, *[Scientific Benchmarking of Parallel Computing Systems](https://doi.org/10.1145/2807591.2807644)*, SC, 2015. How to report measurements so that others can interpret them.
# - [PyTorch: DistributedDataParallel notes](https://docs.pytorch.org/docs/stable/notes/ddp.html). The documentation of DDP, the first of the five methods.
# - [TensorFlow: Distributed training](https://www.tensorflow.org/guide/distributed_training). The documentation of `tf.distribute`, the last of them.
