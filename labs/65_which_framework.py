# %% [markdown]
# <!-- Generated from solutions/65_which_framework.py by `make labs`. Learners work on a copy in work/. -->
# # 65 Which framework?
#
# The same net, the same images, five ways to train it on two ranks. You count, measure, and decide
# by what the evidence carries, and by nothing else.
#
# **You will be able to** (1) count what a framework asks you to change, (2) read start-up and speed
# from the outside, alike for all, (3) decide from spans, not from single numbers, and (4) score a
# benchmark by MLPerf's rule.
#
# Needs: horovod, torch, tensorflow · Ranks: 2 · Minutes: 45 · Level: intermediate · Before: 34, 41, 60, 61

# %%
import difflib
import importlib.util
from pathlib import Path

import numpy as np
import pandas
import torch
from labkit import check, hint, lab, launch, predict, record
from support import lab65

lab.start("65_which_framework")
ranks = launch.ranks_here(2)

# %% tags=["parameters"]
ways = ("PyTorch DDP", "FSDP2", "Horovod on PyTorch", "Horovod on TensorFlow", "tf.distribute")
width = 1024  # units of the net's three hidden layers
batch = 64  # images of all ranks together, in a step
steps = 60  # of each training
rounds = 2  # all ways one after the other, so many times

# %% [markdown]
# ## 1. The same job, five times
# The job: a net of 64 pixels, three hidden layers and ten digits learns from `batch` images in a
# step, with Adam. There is a script for one device in PyTorch, one in TensorFlow, and five for many
# ranks:
#
# | way | on top of | who starts it, as a rule | labs |
# |---|---|---|---|
# | PyTorch DDP | PyTorch | `torchrun` | 60 |
# | FSDP2 (`fully_shard`) | PyTorch | `torchrun` | 60 |
# | Horovod on PyTorch | PyTorch | `horovodrun`, `mpiexec` | 40 |
# | Horovod on TensorFlow | TensorFlow | `horovodrun`, `mpiexec` | 41 |
# | `tf.distribute` | TensorFlow | you, with a `TF_CONFIG` each; `srun`, with a `SlurmClusterResolver` | 61 |
#
# Each is a plain script of about 40 lines, in `labs/support/lab65_scripts`. It trains, and after
# each step it prints the step's number, the time, and the loss. Here is one, beside that for one
# device:

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
# How much work is that? One measure is the **lines changed**. It is a crude one, but it can be
# counted, if one says how:
#
# - Empty lines and comments (their first character is `#`, after spaces) are taken away first, from
#   both.
# - A line that finds no partner in the same order counts: once if it was taken out, once if it was
#   put in. So a line that was altered counts twice, and so does one that went to another place.
# - A line that moved to the right is another line: somebody has to move it.
#
# `difflib.ndiff(before, after)` compares two lists of lines. It yields each line with two
# characters in front: `"- "` taken out, `"+ "` put in, `"  "` in both. (Those with `"? "` are hints
# for the eye.)
#
# ### Exercise 65.1 · Count the changes
# `one_device` and `many` are texts of scripts. Return two numbers: lines taken out, lines put in. 4
# to 6 lines. *(beginner)*
#
# <details><summary>Hint 1: the lines that count</summary>
#
# `[line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]`. Do
# that to both texts *before* you compare them.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `marks = [line[:2] for line in difflib.ndiff(before, after)]`, and then `marks.count("- ")`.
# </details>

# %%
def changes(one_device, many):
    """(lines taken out, lines put in) between two scripts. Empty lines and comments do not
    count."""
    raise NotImplementedError("exercise 65.1: Count the changes")


# %%
# Asked: The counts of small texts, and of each way's scripts. What was put in,
# less what was taken out, is how much longer a script became.
check("65.1", changes)

# %% [markdown]
# ### Predict
# Two guesses: how many lines, out and in together, for Horovod on PyTorch? And for `tf.distribute`,
# where the net has to be built inside of `with strategy.scope():`?

# %%
predict("65.1", horovod=..., tf_distribute=...)

# %%
lines = {way: sum(changes(*lab65.scripts(way))) for way in lab65.WAYS}
for way, count in lines.items():
    print(f"{way}: {count} lines changed")
predict.right("65.1", horovod=lines["Horovod on PyTorch"], tf_distribute=lines["tf.distribute"])

# %%
for way in ("Horovod on PyTorch", "FSDP2", "tf.distribute"):
    before, after = (text.splitlines() for text in lab65.scripts(way))
    print(way)
    print(
        "\n".join(
            line
            for line in difflib.unified_diff(before, after, n=0, lineterm="")
            if line[:2] != "@@"
        )
    )


# %% [markdown]
# **Explain.** All of them do the same four things: find the others, take this rank's part of the
# batch, average gradients, and begin with equal weights. For most that is a handful of lines. Only
# two ways must touch the net: FSDP2 has to know which layers to cut, and `tf.distribute` has to be
# there when a variable is made. With the latter the net moves to the right, and every line of it
# counts.
#
# What does the count leave out?
# <details><summary>Answer</summary>
#
# Which lines they are, and how easily one gets them wrong. `/ workers` in `tf_distribute.py` is
# half a line, and without it the gradients are sums ([lab 61](61_tf_distribute.ipynb)). Nor does it count what happens
# outside of the script: who starts the ranks, and who sets `TF_CONFIG`.
# </details>
#
# ## 2. Read a run from the outside
# Each framework has timers of its own, and they mean different things. So we measure from the
# **outside**: the processes are started, and whatever they print is read. What we know of a
# training is
#
# - `started`: the moment at which all processes were started, in seconds;
# - `moments`: a list for each rank, of the moments at which it ended its steps 0, 1, 2, …
#
# A step is over when the *slowest* rank has ended it. The **start-up** lasts from `started` until
# step 0 is over. It has all that a user waits for: Python, imports, meeting the others, the first
# step with its compilation.
#
# The **speed** of a later step is `batch` divided by its duration: from the end of the step before
# to its own end. `batch` counts the images of all ranks together.
#
# The first steps may be slower than the rest: memory is taken, connections are opened. (You will
# see by how much.) So the speeds of steps 1 to 4 are left out, and step 5 is the first whose speed
# counts: `first=5`.
#
# ### Exercise 65.2 · Start-up and speeds
# Return the start-up in seconds and a list of the speeds, in images/s, of steps 5, 6, 7, …: up to
# the last step that *all* ranks have ended. 5 to 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: the end of each step</summary>
#
# `zip(*moments)` yields, for each step, the moments of all ranks. It stops with the rank that has
# the fewest. So `[max(step) for step in zip(*moments)]` are the ends.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.diff(ends)` are the durations of steps 1, 2, 3, …: its number 4 is that of step 5.
# </details>

# %%
def read_run(started, moments, batch, first=5):
    """(start-up in seconds, [images/s of step first, first + 1, …]) of a training. moments: by
    rank, step."""
    raise NotImplementedError("exercise 65.2: Start-up and speeds")


# %%
# Asked: Both of runs that are known, with one and two ranks, slow first steps,
# a late rank.
check("65.2", read_run)

# %% [markdown]
# ## 3. Measure
# Each way runs on two real processes, with one thread each. One device of either framework runs on
# one such process. Gloo carries the gradients for all but `tf.distribute`, which brings its own
# ring over gRPC (lab 61). After 60 steps the lab looks at each process's memory, and ends it.
#
# ### Predict
# Two guesses. How long will it take from the start until the first step is over, in seconds: for
# PyTorch DDP, for `tf.distribute`?

# %%
predict("65.2", ddp_start=..., tf_distribute_start=...)

# %% [markdown]
# ### Measure
# About two minutes, most of it to start; more on a busy machine. Read on meanwhile.

# %%
alone = sorted({lab65.alone_of(way) for way in ways})
sizes = {"width": width, "batch": batch, "steps": steps}
runs = lab65.measure([*alone, *ways], ranks, rounds, **sizes)

# %%
first_steps = 5
print(f"The losses of the first {first_steps} steps, and one device's with all the images:")
for way in ways:
    distance, change = lab65.apart(runs, way, first_steps)
    print(
        f"{way}: at most {distance:.0e} apart. From step to step they change by up to {change:.0e}"
    )
spans = lab65.evidence(runs, lines, read_run, batch)
print()
print(lab65.show(spans).to_string())

# %%
rows = []
for way in [*alone, *ways]:
    for turn, reports in enumerate(runs[way], 1):
        moments = [report.moments for report in reports]
        start_up, speeds = read_run(reports[0].started, moments, batch, first=1)
        row = {
            "way": way,
            "round": turn,
            "start-up (s)": start_up,
            "steps 1-4": np.median(speeds[:4]),
        }
        rows.append(row | {"from 5 on": np.median(speeds[4:])})
print("Start-up, and images/s in the middle:")
print(pandas.DataFrame(rows).set_index(["way", "round"]).round(1).to_string())

# %%
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
# **Explain.** First the control. All ways follow one device's losses to the last digits. That is a
# necessary sign of the same job, and no proof. How far a loss changes from step to step is the
# scale to hold it against. (The two frameworks draw other start weights, so each is compared with
# its own.)
#
# One mistake would hide here: sums in place of means. Adam divides a gradient by its usual size, so
# twice the gradient is nearly the same step. With SGD it would not hide: exercise 61.2 checks that.
#
# Each entry is a **span**. For images/s it holds the middle half of all steps; for the rest the
# lowest and the highest of the rounds and ranks.
#
# A span of two rounds is a poor one. Compare the start-ups of your rounds in the second table: they
# may differ much, for one if files have to be read from disk. For a decision that matters, take
# `rounds=5`.
#
# - *images/s*. Two ranks share a batch that one device had for itself, on cores that may be shared
#   with others. So expect no speed-up here, and a wide span.
# - *start-up*. Look at the two rows of one device first. Most of the time is the framework's own,
#   and what the way adds comes on top. Training for days, you will not care. Debugging, you wait
#   for it fifty times a day.
# - *memory*. It is what the process holds, its libraries included. TensorFlow's are the larger
#   ones. Is FSDP2 below DDP? Its parameters, gradients and Adam's averages are halved. But this net
#   has few of them, against the libraries, and FSDP2 has buffers to gather layers in. [Lab 60](60_ddp_and_fsdp.ipynb) counts
#   the tensors alone.
#
# Which net would show FSDP2's gain in this column?
# <details><summary>Answer</summary>
#
# A large one. 2.2 million parameters take 16 bytes each with Adam: 35 MB, of which two ranks save
# half. With `width=4096` it is 34 million parameters and 540 MB. Where this was written FSDP2 then
# held a third less than DDP. Run the lab anew with that, if your machine has the memory:
# `make run LAB=65 SET="width=4096"`.
# </details>
#
# None of the five goes on when a rank dies: a connection over TCP breaks when its process is gone,
# the next message of each other rank fails, and the script ends with an error. [Lab 70](70_checkpoint_and_requeue.ipynb) goes on with
# fewer ranks, and [lab 72](72_hangs_and_failures.ipynb) shows what is left of a rank that hangs.
#
# ## 4. Decide by evidence
# Two ways, one faster than the other: a reason to take it? Not if the spans overlap. Then another
# run may turn the order round. The rule here: **a way is ruled out if another one's span lies
# wholly on the better side of its own**. Who is not ruled out is still in. If all are still in,
# that column decides nothing.
#
# The rule is no better than its spans. A span of start-ups has one value a round. Two ways that are
# really alike part by luck in 1 of 3 tables of two rounds: of the 6 orders of four values, 2 have
# both of one way first. With three rounds it is 1 of 10, with five 1 of 126.
#
# ### Exercise 65.3 · Who is still in?
# `still_in(of_ways, more_is_better)` returns the list of those ways that nobody rules out.
# `of_ways` is a dict from a way to (low, high). About 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: ruled out</summary>
#
# Where less is better, a way with `low` is ruled out if any other's high is below `low`:
# `any(other[1] < low for other in of_ways.values())`. Where more is better, the other way round.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for way, (low, high) in of_ways.items():`, and in the loop one of the two questions; whom it does
# not rule out goes into a list.
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
# Here is what your rule says of the table above: by each column, among all ways, and among those of
# one framework. Write three decisions down, of three columns: what you need, among whom you choose,
# and whom you take, or that nothing decides.

# %%
rows = {}
for among, chosen in lab65.groups(ways).items():
    for column, more_is_better in lab65.COLUMNS.items():
        left = still_in({way: spans[column][way] for way in chosen}, more_is_better)
        rows[among, column] = "nothing decides" if len(left) == len(chosen) else ", ".join(left)
print(pandas.Series(rows, name="still in").to_string())


# %% [markdown]
# **Explain.** Where several ways are still in, the one you take is a matter of taste, among these.
#
# Which columns decide depends on your machine. The column *lines changed* does on every machine,
# and start-up between the two frameworks as a rule. Speed on two shared cores often decides little,
# and that is a result, too: **here** you would not choose by it.
#
# A difference may be clear, and too small to matter: three megabytes of 330, say. The rule tells
# you what was seen, and not what you need.
#
# What no column shows may weigh most. The net is written in one of the frameworks already. The
# site's staff knows one launcher. FSDP2 is there for nets that do not fit, and then nothing else in
# the table matters. Horovod 0.28.1 is of 2023, and is the last release.
#
# ## 5. A benchmark by MLPerf's rule
# Images per second are not the goal (lab 34): the goal is an accuracy. **MLPerf** is the benchmark
# by which makers of machines compare themselves, and its result is the **time to a quality
# target**. That time depends on the seed, often strongly. So the rules say (MLPerf Training Rules,
# "Benchmark Results", github.com/mlcommons/training_policies):
#
# - a benchmark is run several times, and the *fastest and the slowest* run are dropped;
# - the result is the *mean* of the rest;
# - *one* run that never reaches the target may count as the slowest, and be dropped; with more than
#   one the result is invalid.
#
# ### Exercise 65.4 · The score
# `seconds` is a list of at least three times, in the order of the runs. `None` is a run that missed
# the target. Return the score, or `None` for an invalid result. Leave the caller's list as it is.
# About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: who missed it is slowest</summary>
#
# Replace `None` by `np.inf`, and sort:
# `sorted(np.inf if value is None else value for value in seconds)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `kept = ordered[1:-1]`. If infinity is still among them, the result is invalid.
# </details>

# %%
def score(seconds):
    """MLPerf's score of several runs: seconds to the target each, None for a run that missed it."""
    raise NotImplementedError("exercise 65.4: The score")


# %%
# Asked: The rule, for three to ten runs, in any order, with none, one and two
# that missed the target.
check("65.4", score)

# %% [markdown]
# ### Predict
# Lab 34 trained by seven recipes (an optimizer and a rule for its rate), each at eight sizes of
# batch, each with five seeds: 56 benchmarks. Its epochs are real, and its seconds those of GPUs
# that were only modelled. A guess: how many of the 56 have a valid result?

# %%
predict("65.4", valid=...)

# %% [markdown]
# ### Measure
# The kit's records of lab 34. For a span, each benchmark is scored as many times more as it has
# seeds, with one of them left out.

# %%
trainings = lab65.trainings()
rows = {}
around = {}
for (way, of_step), seconds in trainings.items():
    if score(seconds) is not None:
        parts = [score(seconds[:place] + seconds[place + 1 :]) for place in range(len(seconds))]
        finite = [np.inf if part is None else part for part in parts]
        around[way, of_step] = (min(finite), max(finite))
        best = min(value for value in seconds if value is not None)
        row = {"ms, fastest seed": best, "ms, score": score(seconds), "lowest": min(finite)}
        rows[way, of_step] = row | {"highest": max(finite)}
frame = 1e3 * pandas.DataFrame.from_dict(rows, orient="index")
print("Trainings to 95 %. The ten best scores, and their span with one seed less:")
print(frame.sort_values("ms, score").head(10).round(1).to_string())
print(f"{len(rows)} of {len(trainings)} benchmarks are valid. Not valid are the batches")
for name in dict.fromkeys(way for way, _ in trainings):
    invalid = [str(size) for way, size in trainings if way == name and (way, size) not in rows]
    print(f"  {', '.join(invalid) or 'none'}: {name}")
print("Nobody rules out:", *(f"{way} at {of_step};" for way, of_step in still_in(around, False)))
record.add("scores", valid=len(rows), benchmarks=len(trainings))
predict.compare("65.4", valid=len(rows))

# %% [markdown]
# **Explain.** Nearly half of the benchmarks are invalid: those of the largest batches.
# With a large batch an epoch takes the least time ([lab 34](34_large_batch.ipynb)), but the target is missed.
#
# Compare the first two columns. The fastest seed flatters, and not everybody by the same: it would
# be the number to publish, if the rules let one choose. Dropping both ends takes away luck and bad
# luck alike.
#
# And the order? The span tells how far one seed moves a score. By your own rule of 65.3 several
# benchmarks are still in: five seeds do not say which of them is best. MLPerf asks for more runs
# the more a net's times vary, and for fewer the more a run costs: three for the most expensive
# nets, ten for most others. U-Net3D once needed 40, of which the four fastest and the four slowest
# were dropped.
#
# ## 6. Going further: those that went before
# Seven frameworks of ten years ago. None of them is a first choice today. What each of them brought
# is in the ones that you have just compared:
#
# | | since | what it brought, and where that lives on | |
# |---|---|---|---|
# | Torch | 2002 | tensors and layers over a library in C; PyTorch began as a fork of Torch7 | [1] |
# | Theano | 2007 | a formula as a graph, its gradient derived from it, code for GPUs; TensorFlow | [2] |
# | Caffe | 2014 | a net as data, apart from code; trained nets to download; S-Caffe over MPI | [3] |
# | CNTK | 2015 | 1-bit SGD with error feedback (lab 35); with Facebook: ONNX, files to exchange nets | [4] |
# | Chainer | 2015 | *define by run*: the graph is what Python has just done; PyTorch; CuPy | [5] |
# | MXNet | 2015 | graphs and plain calls mixed; a store of keys and values on servers (lab 31) | [6] |
# | Caffe2 | 2017 | **Gloo**; ResNet-50 in an hour on 256 GPUs (lab 34); a part of PyTorch since 2018 | [7] |
#
# Sources, for what each brought and what became of it:
#
# - [1] Collobert and others, "Torch7", 2011; Chintala, "PyTorch's design origins", soumith.ch, 2023
# - [2] Bergstra and others, SciPy 2010; PyMC developers, "The Future of PyMC3, or: Theano is Dead,
#   Long Live Theano", pymc-devs.medium.com, 2020 (today it is PyMC's PyTensor)
# - [3] Jia and others, arXiv 1408.5093; Awan and others, "S-Caffe", PPoPP 2017
# - [4] Seide and others, Interspeech 2014; "Microsoft and Facebook create open ecosystem for AI
#   model interoperability", azure.microsoft.com, 2017; release notes of CNTK, 10 October 2017
# - [5] Tokui and others, 2015; "Looking back on Chainer", beam2d.net, 2019 (its makers went to
#   PyTorch)
# - [6] Chen and others, arXiv 1512.01274; Smola, "Raising MXNet from the Attic", 2026 (retired in
#   2023)
# - [7] Goyal and others, arXiv 1706.02677; "Caffe2 and PyTorch join forces", caffe2.ai/blog, 2018
#
# Some of it lies on this machine. Look:

# %%
include = Path(torch.__file__).parent / "include"
print(
    "PyTorch's C++ headers:",
    [name for name in ("ATen", "c10", "caffe2") if (include / name).is_dir()],
)
print("PyTorch was built with Gloo:", torch.distributed.is_gloo_available())
print(
    "Horovod still has a module for MXNet:", importlib.util.find_spec("horovod.mxnet") is not None
)

# %% [markdown]
# **Explain.** Of Caffe2 there are still headers, and a name: "Caffe2 + ATen = C10", says PyTorch's
# manual. (ATen, "A Tensor library", took the place of Torch's C code.) Gloo has carried most
# gradients of this lab.
#
# What this lab does not show: GPUs, where NCCL carries for all five; more than one node, unless you
# run it as a job (`make submit LAB=65 NODES=2`).
#
# ### What you take away
# - The same job, to the last digits, in five ways: first check that, then compare.
# - Lines can be counted, start-up and speed read from the outside. Each number has a span.
# - Decide by a column only where the spans part. "Nothing decides" is an answer.
# - A benchmark is a time to an accuracy, over several seeds, without the best and the worst.
