# %% [markdown]
# <!-- Generated from solutions/44_timeline_and_fusion.py by `make labs`. Learners work on a copy in work/. -->
# # 44 Timeline and fusion
#
# When training with Horovod is slower than expected, your own code does not show why. Horovod's
# background thread runs between your [gradients](../labs/GLOSSARY.md#gradient) and the network, and decides when a gradient is sent
# and with which others. It can wait for a [straggler](../labs/GLOSSARY.md#straggler) (a [rank](../labs/GLOSSARY.md#rank) that is later than the others), wake up
# too rarely, or send hundreds of small messages where one would do. Horovod writes what it does to
# a file, the timeline, and has settings for most of these decisions.
#
# In this lab we read a timeline and find out which rank the others waited for, write a model of the
# background thread that predicts the time of a step from two settings, and then measure whether the
# model is right, on this machine and over a slow link.
#
# **After this lab you can** (1) read a timeline line by line and find the rank that the others wait
# for, (2) say which tensors are sent together, (3) predict the time of a step from the fusion
# threshold (the most bytes in a message) and the cycle time (how often the thread wakes up), and
# (4) keep the response cache working, in which Horovod remembers the tensors of earlier steps.
#
# ![The path of two tensors through Horovod's thread: ready, negotiation, fusion into one message, one allreduce, and the copy back; one rank is late](../notebooks/figures/44_cycle.svg)
#
# *Tensor a is ready early on rank 0. Its negotiation, in which rank 0 finds out which ranks have a,
# lasts until the last rank has it. Then a and b are fused into one message.*
#
# Needs: mpi, horovod, torch · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 32, 40, 42

# %%
from functools import partial

import numpy as np
import pandas as pd
from labkit import (
    check,
    cluster,
    hint,
    lab,
    launch,
    own_folder,
    plots,
    predict,
    record,
    scaling,
    world,
)
from labkit.horovod import ranks_here
from support import lab44

lab.start("44_timeline_and_fusion")

# %% tags=["parameters"]
workers = 4  # real ranks, unless a launcher has started some
layers = 24  # of the net: a weight and a bias each
backward = 0.05  # seconds in which the gradients become ready, one after the other
long_cycle = 20  # ms, a cycle time to try beside Horovod's 1
slow_link = (5e-4, 2.5e7)  # assumed: seconds for a message, and bytes per second (200 Mb/s)
rounds = 3  # turns of each way of a step, 5 steps each

# %% [markdown]
# ## What Horovod's background thread does
# Your call of `hvd.allreduce_async` creates a request and returns at once. A background thread of
# [Horovod](https://horovod.readthedocs.io) on each rank then does four things:
#
# 1. **Cycle.** Every `HOROVOD_CYCLE_TIME` milliseconds the thread wakes up and looks for tensors
#    that have been submitted. The default is 1.
# 2. **Negotiation.** A tensor is *ready* on a rank when the rank has submitted it. Each rank tells
#    rank 0 which tensors are ready, and a tensor can be sent when it is ready on **all** ranks.
# 3. **Fusion.** Tensors that can be sent are fused into messages of at most
#    `HOROVOD_FUSION_THRESHOLD` bytes. The default is 128 MiB.
# 4. **Allreduce.** The messages are processed one after the other. Each message is one call of a
#    library, which is [MPI](../labs/GLOSSARY.md#MPI), [NCCL](../labs/GLOSSARY.md#NCCL) or Gloo.
#
# ## Read the timeline
# Rank 0 writes down what happened to each tensor, and when. This file is the **timeline**. Each of
# its lines has a time in µs, a tensor, a kind and a name:
#
# | kind | meaning |
# |---|---|
# | `B` | an activity begins; its name says which one |
# | `E` | like a closing bracket, ends that open activity of this tensor which began last; it has no name |
# | `X` | a rank has this tensor ready; the name is the rank's number, as a string |
# | `i` | a cycle begins (`CYCLE_START`); it belongs to no tensor |
#
# Activities nest like brackets. For example, the activity `ALLREDUCE` of a tensor contains the
# copies into and out of the message, and between them `MPI_ALLREDUCE`, the call of the library.
#
# The next cell records all timelines of this lab on real ranks, in about 15 s. From the timeline
# "late" it prints the number of cycles and the lines of tensor a. In each of the 2 steps of this
# timeline, each rank submits three tensors a, b and c together, and one rank does so late.
# (Horovod's response cache, to which we come below, is off in this timeline.)

# %%
ranks = ranks_here(workers)
on_node = world.local_size() if world.launcher() else ranks
start = partial(launch.run, ranks=ranks, threads=1, env={"HOROVOD_LOG_LEVEL": "error"})
late_rank = ranks // 2
events = start(lab44.timelines, lab44.ways(late_rank, pause=0.2), own_folder())[0]
late = lab44.lines(events["late"])
print(f"{sum(line.kind == 'i' for line in late)} cycles (CYCLE_START), and tensor a in both steps:")
for line in late:
    if line.tensor == "a":
        print(f"{line.when:9d} µs  {line.kind}  {line.name}")

# %% [markdown]
# The lines are easier to read in phases, for which we use these names:
#
# | phase | from | what happens in it |
# |---|---|---|
# | negotiate | `B NEGOTIATE_ALLREDUCE` | not all ranks have the tensor yet |
# | queue | the end of NEGOTIATE to `B ALLREDUCE` | other messages are processed first |
# | copy in | `B MEMCPY_IN_FUSION_BUFFER` | the tensor is copied into the fusion buffer, the memory of the message |
# | sum | `B MPI_ALLREDUCE` (or `NCCL_…`, `GLOO_…`) | the library performs the allreduce |
# | copy out | `B MEMCPY_OUT_FUSION_BUFFER` | the result is copied out of the buffer |
#
# `INIT_FUSION_BUFFER`, in the first step, allocates the buffer and belongs to no phase.
#
# The next table adds up the µs of each phase over both steps, with a row for each tensor:

# %%
print(pd.DataFrame(lab44.spent(events["late"])).T, "in µs", sep="\n")

# %% [markdown]
# Nearly all of the time is in the column *negotiate*, in which no gradient is sent, so the network
# is not the reason. Horovod **waits for the last rank**, and the `X` lines tell us which rank that
# is.
#
# ### Predict
# The table has three tensors, and each of them spent about 400 ms in *negotiate*. By how many ms of
# wall time (time on a clock) did the late rank delay the two steps together?

# %%
predict("44.1", ms_lost=...)


# %% [markdown]
# ### Exercise 44.1 · Who was late?
# Write `charge`, which returns for each rank that was last in a negotiation the µs that were lost
# because of it.
#
# In each negotiation of a tensor, one rank is the last to report. Without it, the negotiation could
# have ended when the previous rank was ready. Therefore charge the rank of the **last** `X` with
# the span (from, to) from the previous `X` to its own. In this example rank 2 is charged with the
# span (20, 1010):
#
#     when   tensor  kind  name
#        5   a       B     NEGOTIATE_ALLREDUCE
#        6   a       X     0
#       20   a       X     1
#     1010   a       X     2
#     1011   a       E
#
# Three rules make this precise:
#
# - The negotiation of a tensor ends at its first `E` after its `X` lines.
# - Lines of other tensors may appear in between; they do not count.
# - A single `X` has an empty span, for example `(6, 6)`, and its rank is charged 0 (or left out).
#
# Several tensors can wait for the same rank at the same time, and this time is lost only **once**.
# The kit has a function for it: `lab44.covered([(0, 10), (5, 20)])` is 20, the number of µs that
# are in at least one of the spans.
#
# The loop over the lines is in the cell, and follows the first two rules. Two parts are missing:
#
# - When a negotiation ends, `seen` contains its `X` lines in order, each as a pair (when, rank).
#   Append the span to the list of this rank in `spans`, a dictionary of lists.
# - At the end, return how much time the spans of each rank cover.
#
# About 4 lines. *(intermediate)*
#
# <details><summary>Hint 1: the span</summary>
#
# `last, rank = seen[-1]`, and `before = seen[-2][0]`, or `last` if there is only one.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `spans.setdefault(rank, []).append((before, last))`, and at the end return
# `{rank: lab44.covered(of_rank) for rank, of_rank in spans.items()}`.
# </details>

# %%
def charge(lines):
    """lines: (when [µs], tensor, kind, name) in order. Returns {rank, an int: µs of wall time lost
    to it}."""
    ticks = {}  # tensor -> (when, rank) of each X of the negotiation that goes on
    spans = {}  # rank -> (from, to) of each negotiation in which it was last
    for when, tensor, kind, name in lines:
        if kind == "X":
            ticks.setdefault(tensor, []).append((when, int(name)))
        elif kind == "E" and tensor in ticks:
            seen = ticks.pop(tensor)  # this negotiation is over
            raise NotImplementedError("exercise 44.1: Who was late?")
    raise NotImplementedError("exercise 44.1: Who was late?")


# %%
# Asked: The µs lost to each rank, of two timelines; and nothing, where one rank
# waits for nobody.
check("44.1", charge)

# %%
lost = charge(lab44.lines(events["late"]))
for rank, microseconds in sorted(lost.items()):
    print(f"rank {rank}: {microseconds / 1000:6.1f} ms lost to it")
predict.compare("44.1", ms_lost=lost.get(late_rank, 0) / 1000)


# %% [markdown]
# **Explain.** You should see about 400 ms for one rank, which began each of the 2 steps 200 ms
# late, and little for the others. The sum over the three tensors would be about 1200 ms, more time
# than has elapsed. (If a busy machine shows less, run the cell with `events =` again.)
#
# In *every* negotiation some rank is last. Moreover, rank 0 learns about the other ranks only once
# per cycle, so their `X` appear up to one cycle late. Therefore call a rank a straggler only if it
# is charged with much more time than the others, and with more than a cycle (1 ms) per step.
#
# ## Which tensors are sent together?
# Now suppose that several tensors are ready on all ranks. Which of them are fused into one message?
# Horovod goes through them in order (`FuseResponses` in `controller.cc` of version 0.28.1). The
# **first** remaining tensor begins a message, however large it is. Each of the following tensors
# then does one of three things, which depend on `limit`, the fusion threshold after a rounding that
# is explained below:
#
# | the tensor | if | what happens |
# |---|---|---|
# | joins | it has the type of the first tensor, and the message then has at most `limit` bytes | it is sent in this message |
# | is skipped | it cannot join, and the message together with **all** skipped tensors, including this one, has at most `limit` bytes | it remains for a later message |
# | closes the message | neither is the case | this tensor and all tensors after it remain |
#
# Here are two examples with a limit of 100. The first is `a:60 b:50 c:30`, three tensors of one
# type with their bytes. The result is `a|b c`, where a bar separates two messages:
#
# | tensor | message so far | what happens |
# |---|---|---|
# | a, 60 | none | begins a message |
# | b, 50 | a: 60 | 60 + 50 exceeds 100, so b can neither join nor be skipped, and closes the message |
# | b, 50 | none | begins the next message |
# | c, 30 | b: 50 | 50 + 30 is at most 100, so c joins |
#
# So c is not sent with a, although it would have fitted into that message.
#
# The second example is `a:40 b:40:float64 c:40`, with the result `a c|b`. Here b cannot join
# because of its type. The message and b have 80 bytes together, at most 100, so b is only skipped,
# and c joins a. This is useful in [mixed precision](../labs/GLOSSARY.md#mixed-precision), where the types alternate.
#
# The `limit` is the threshold, rounded **up** to a multiple of 512 bytes times the number of ranks
# on a node. With 4 ranks, for example, 50000 becomes 51200. The function `fuse` follows these
# rules:

# %%
def fuse(ready, limit):
    """ready: Tensors (.bytes, .dtype) in order. limit: bytes of a message at most, rounded up
    already.

    Returns the messages in order, each a list of Tensors.
    """
    messages = []
    left = list(ready)
    while left:
        first, *rest = left
        message = [first]
        left = []  # what is not sent with the first one, in order
        size = first.bytes
        skipped = 0
        for i, tensor in enumerate(rest):
            if tensor.dtype == first.dtype and size + tensor.bytes <= limit:
                message.append(tensor)
                size += tensor.bytes
                continue
            skipped += tensor.bytes
            if size + skipped > limit:
                left += rest[i:]
                break
            left.append(tensor)
        messages.append(message)
    return messages


# %% [markdown]
# ### Predict the messages
# These tensors are ready together. How many messages do they need with a limit of 0, and how many
# with 128 MiB?
#
# | tensor | a | b | c | d | e | f | g |
# |---|---|---|---|---|---|---|---|
# | bytes | 60000 | 40200 | 30000 | 30000 | 20000 | 8000 | 60000 |
# | type | float32 | float32 | float64 | float32 | float32 | float64 | float32 |
#
# The cell after your prediction prints the answer for four thresholds, first as real ranks have
# sent the tensors, and then by `fuse`.

# %%
predict("44.2", messages_0=..., messages_128_MiB=...)

# %%
together = lab44.travelled(events)  # on real ranks: threshold -> "a b|c"
for threshold, text in together.items():
    messages = fuse(lab44.SEVEN, lab44.limit(threshold, on_node))
    by_rule = "|".join(" ".join(tensor.name for tensor in message) for message in messages)
    print(f"threshold {threshold:9d}: {text}, by the rule {by_rule}")
none, *_, most = (1 + text.count("|") for text in together.values())
predict.compare("44.2", messages_0=none, messages_128_MiB=most)

# %% [markdown]
# **Explain.** Even with 128 MiB there are two messages, one for each type.
#
# With 4 ranks and a threshold of 100000, tensors a and b are sent together although they have
# 100200 bytes, because the threshold is rounded up to 100352.
#
# ## What does a step cost?
# Now tensors become ready one by one, as in a [backward pass](../labs/GLOSSARY.md#backward-pass). For a model of the background thread,
# three rules are enough:
#
# - Each cycle begins with a negotiation, which takes as long as a message of 0 bytes, even if it
#   finds nothing. It finds the tensors that were ready when it **began**.
# - Then the messages for these tensors are sent, one after the other.
# - The next cycle begins one cycle time after the previous cycle **began**, or at once if that
#   moment has passed.
#
# As an example, take these three tensors, a cycle time of 1 second, and a large limit. A message of
# n bytes takes 1 + n/100 seconds, so a negotiation takes 1 second:
#
# | tensor | a | b | c |
# |---|---|---|---|
# | bytes | 300 | 100 | 100 |
# | ready at | 0 s | 2 s | 3 s |
#
#     seconds   0   1   2   3   4   5   6   7   8   9
#     ready     a       b   c
#     thread    |neg|   message a   |neg|  msg b+c  |
#
# The cycle at 0 finds only a. While a is sent, b and c become ready, and the cycle at 5 finds both.
# The step ends at 9, with two messages.
#
# With a cycle time of 10 seconds, the second cycle would begin at 10, and the step would end at 14.
#
# ### Predict the step
# How many ms does a step take with a cycle time of 100 ms, including the negotiations?
#
# | quantity | value |
# |---|---|
# | layers | 24, each with a weight of 64 KiB and a bias of 256 bytes |
# | ready | one layer after the other within 50 ms, the first one after 2 ms |
# | time of a message | 0.5 ms, and in addition 1 s for every 25 MB (both *assumed*) |
# | time for the bytes of all layers | 63 ms |
# | threshold | 128 MiB |

# %%
predict("44.2", ms_100=...)


# %% [markdown]
# ### Exercise 44.2 · The thread as a loop
# Write `step_time` by the three rules above. It returns the end of the step and the number of
# messages. `seconds(n)` is the time of a message of n bytes, and `seconds(0)` is that of a
# negotiation. The first cycle begins at 0, together with the step.
#
# The loop over cycles is in the cell, and so are the tensors that a cycle finds. In each cycle, do
# the following:
#
# - Advance the time (`now`) by the negotiation, and by each message of `fuse(found, limit)`.
# - Count the messages in `calls`, and store in `end` when the last message ended.
# - Advance `now` to the beginning of the next cycle.
#
# About 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: one cycle</summary>
#
# `now += seconds(0)`, then `now += seconds(sum(tensor.bytes for tensor in message))` for each
# message.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After the messages `end = now`, then `now = max(now, look + cycle)`. The step ends at `end`, not
# at the cycle after it.
# </details>

# %%
def step_time(gradients, limit, cycle, seconds):
    """gradients: Tensors with .ready [s]. cycle in s. Returns (end of the step in s, number of
    messages)."""
    left = sorted(gradients, key=lambda tensor: tensor.ready)
    now = 0.0
    end = 0.0
    calls = 0
    while left:
        look = now  # a cycle begins
        found = [tensor for tensor in left if tensor.ready <= look]
        left = [tensor for tensor in left if tensor.ready > look]
        raise NotImplementedError("exercise 44.2: The thread as a loop")
    return end, calls


# %%
# Asked: When a step ends, and with how many messages, of eight steps counted by
# hand.
check("44.2", step_time)

# %%
# Your step_time draws these curves, for the net and the link of the prediction.
net = lab44.net(layers, backward)
ends = lab44.draw_predicted(step_time, net, *slow_link)
for ms, (end, messages) in ends.items():
    print(f"cycle of {ms:3} ms: {1e3 * end:3.0f} ms, {len(net)} tensors, messages: {messages}")
predict.compare("44.2", ms_100=1e3 * ends[100][0])

# %% [markdown]
# **Explain.** With a cycle time of 100 ms, the first cycle finds nothing, and the second one begins
# at 100 ms. It takes 0.5 ms for the negotiation, 0.5 ms for the only message and 63 ms for the
# bytes, so the step ends at 164 ms.
#
# Read the curves from left to right. Up to 65536 bytes they are flat, because a weight alone has
# 65536 bytes. No other tensor fits into its message, and all 48 tensors are sent separately.
#
# With a larger threshold and a cycle time of 1 ms, the step time falls from 93 ms to 73 ms, because
# 7 messages replace 48, and we assumed 0.5 ms for each message.
#
# Why does a long cycle time make the step slower here, while a large threshold does not?
# <details><summary>Answer</summary>
#
# With a long cycle time, the last gradient waits up to a whole cycle until the thread wakes up, and
# the link is idle in the meantime. The first gradients wait, too. The threshold does not make any
# tensor wait. It only determines how many of the tensors that **are** ready are sent together. (A
# [bucket](../labs/GLOSSARY.md#bucket) of [lab 32](32_buckets_and_overlap.ipynb), in contrast, is sent only when all of its gradients are ready.)
# </details>
#
# With a cycle time of 1 ms, about one tensor becomes ready per cycle, and yet the printed number of
# messages is far smaller than the number of tensors, because more tensors become ready while a
# message is sent. **A slow link leads to fusion by itself.**
#
# ## What does the negotiation cost?
# In every cycle rank 0 collects lists of names from all ranks, and sends back which tensors can be
# sent. With a thousand tensors on a thousand ranks these lists are long.
#
# The **response cache** shortens them. A tensor that all ranks know from an earlier step is
# represented by *one bit*, and one small allreduce compares the bits of all ranks. Only tensors
# that are **not** in the cache are negotiated by name, and only these get an `X`.
#
# A tensor is known by its name, its bytes and its type. If one of them changes, the tensor is
# negotiated once more. It replaces the entry with the same name, if there is one.
#
# ### Predict
# In 4 steps the same 6 tensors are averaged, each with a name. How many tensors are negotiated by
# name over all steps?
#
# - `asked`: in this case
# - `asked_with_metric`: with an additional metric that has a new name in each step
# - `asked_without_cache`: without the metric and without a cache

# %%
predict("44.3", asked=..., asked_with_metric=..., asked_without_cache=...)


# %% [markdown]
# ### Exercise 44.3 · Keep the cache working
# For each step, count the tensors that are negotiated by name. For example, the counts of these
# three steps are `[2, 1, 1]`:
#
# | step | tensors with their bytes | negotiated by name |
# |---|---|---|
# | 1 | `a:4 b:4` | a and b, because no tensor is known yet |
# | 2 | `a:4 b:8` | b, because its bytes have changed |
# | 3 | `a:4 b:4` | b, because its entry now has 8 bytes |
#
# `cached=False` is Horovod without a cache, which never knows any tensor. `tensor.name` is the name
# of a tensor, and two Tensors are equal (`==`) if name, bytes and type are equal. About 6 lines.
# *(beginner)*
#
# <details><summary>Hint 1: a dictionary of known tensors</summary>
#
# Use `known = {}`, by name. Then `known.get(tensor.name)` is the Tensor that was last negotiated
# under this name, or None.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `new = [tensor for tensor in step if not cached or known.get(tensor.name) != tensor]`, then put
# each tensor of `new` into `known`, and append `len(new)`.
# </details>

# %%
def asked(steps, cached=True):
    """steps: lists of Tensors. Returns for each step how many of them are negotiated by name."""
    counts = []
    raise NotImplementedError("exercise 44.3: Keep the cache working")
    return counts


# %%
# Asked: How many tensors each step negotiates by name, in made-up steps and on
# real ranks.
check("44.3", asked)

# %% [markdown]
# The timelines that you recorded above contain five runs of this kind, in which tensors a to f have
# 400 bytes each:
#
# | run | tensors that the cache can hold | steps |
# |---|---|---|
# | always the same | 1024 | 4 equal ones |
# | no cache | 0 | 4 equal ones |
# | four places | 4 | 4 equal ones |
# | f changes | 1024 | 5, in which f has 400, 400, 80, 80, 400 bytes |
# | a metric without a name | 1024 | 4, each with a metric in addition, under a new name |
#
# The next cell prints for each run how many tensors were negotiated by name, step by step. Its last
# line applies your `charge` of exercise 44.1 to the run *always the same*.

# %%
truth = lab44.asked_about(events)
for way, counts in truth.items():
    print(f"{way:>24}: {counts}, in all {sum(counts)}")
names = {"asked": "always the same", "asked_with_metric": "a metric without a name"}
names["asked_without_cache"] = "no cache"
predict.compare("44.3", **{guess: sum(truth[way]) for guess, way in names.items()})
print(
    "44.1 once more, of four steps with the cache:", charge(lab44.lines(events["always the same"]))
)

# %% [markdown]
# **Explain.** Compare each row with the table above. The first step negotiates all of its tensors,
# and without a cache, so does each later step. With enough room in the cache, a later step
# negotiates only the tensors that are new in it. In *f changes* this is f, whenever its bytes have
# changed.
#
# A metric that is averaged by `hvd.allreduce(loss)`, without `name=`, is called
# `allreduce.noname.17`, and the next time `.18`, so it is always new. **Give a name to everything
# you average**.
#
# The cache holds `HOROVOD_CACHE_CAPACITY` tensors, by default 1024, and drops the least recently
# used one. In *four places* there is room for only 4 of the 6 tensors, so 2 of them are negotiated
# in each later step. In a cycle, Horovod first looks up all 6 tensors, finds 4, and only then
# stores the other 2 in place of old ones.
#
# The cache also affects exercise 44.1. Tensors in the cache have no `X`, so the last line shows
# step 1 only. To find stragglers, record with `HOROVOD_CACHE_CAPACITY=0`, as in the timeline
# "late".
#
# ## Measure
# Is the model right? Now we run the network of 44.2 on real ranks, with three thresholds (named in
# the plot), and once with a cycle time of 20 ms. The ranks sleep until a gradient is "ready", so
# that the cores are free for Horovod's threads.
#
# We no longer assume the cost of a message. Instead, the cell measures MPI's messages and passes
# the result to your `step_time`. The plot shows for each setting your prediction and the measured
# median, with a line for the [interquartile range](../labs/GLOSSARY.md#interquartile-range) (the middle half) of the steps.
#
# The cell takes about 20 s, because it also runs four kinds of steps with small tensors, which we
# look at under *Going further*.

# %%
ways = lab44.knobs(net, long_cycle)
measured = start(lab44.measure, ways, rounds)[0]
print(measured.where.describe())
fit = scaling.fit_alpha_beta(measured.link)
print(f"MPI sums n bytes in {1e6 * fit.alpha:.0f} µs + n · {1e9 * fit.beta:.2f} ns")
steps = lab44.predict_and_record(measured, ways, step_time, fit, ranks, on_node)  # ms
times = {way: 1e3 * took.samples for way, took in measured.times.items()}
of_net = {way: times[way] for way in times if way not in lab44.OF_SMALL}
plots.compare(steps, of_net, unit="ms", title="A step by its settings: predicted and measured")

# %% [markdown]
# **Explain.** Here the messages go through the memory of one machine and are short. With every
# threshold a step therefore takes little more than 50 ms, the time in which the gradients become
# ready. With *cycle of 20 ms* it takes about 60 ms, because the last gradients, ready after 50 ms,
# wait for the cycle at 60 ms. (If your steps take much longer, run the cell again when the machine
# is idle.)
#
# What changes on a **slow** link? `make tabletop BANDWIDTH=200mbit` starts a small Slurm cluster on
# this machine, with two nodes and a link of 200 Mb/s between them, and `make submit LAB=44 NODES=2`
# runs this lab there as a job. The next cell shows your most recent job, or the kit's reference if
# you have none.
#
# Compare the columns `predicted` and `measured`, in ms. `quarter below` and `quarter above` are the
# two ends of the interquartile range, and the last column is the number of messages in the model.

# %%
frame, whose = cluster.records_or_reference("44", "step")
last = frame.groupby("way", sort=False).last()
slow = lab44.in_ms(last)
print(f"ms of a step on {last['nodes'].max()} nodes ({whose}):")
print(slow.drop(lab44.OF_SMALL, errors="ignore"))
if "alpha" in last:
    print(f"A message costs {1e6 * last['alpha'].max():.0f} µs there, in addition to its bytes.")

# %% [markdown]
# **Explain.** The model (yours in your own job, the kit's in the reference) should come close,
# although it has not seen any step. In the kit's reference, the bytes alone take 62 ms, and the two
# settings have different effects:
#
# | change | predicted | measured |
# |---|---|---|
# | threshold from 0 to 128 MiB, 48 to 10 messages | 66.2 to 65.6 ms | 66.0 to 65.7 ms |
# | cycle time from 1 to 20 ms | 65.6 to 82.4 ms | 65.7 to 82.6 ms |
#
# The long cycle time costs 17 ms, nearly a whole cycle. The large threshold saves about half a
# millisecond at most. In exercise 44.2 it saved 20 ms, because a message was more expensive there:
#
# | | exercise 44.2 | kit's reference |
# |---|---|---|
# | a message costs | 0.5 ms (assumed) | 14 µs (measured) |
# | messages saved | 48 - 7 = 41 | 48 - 10 = 38 |
# | this should save | 41 · 0.5 ms, about 20 ms | 38 · 14 µs, about 0.5 ms |
#
# **The threshold matters only where a message is expensive**, for example in a ring of many ranks
# ([lab 23](23_ring_allreduce.ipynb)).
#
# ### What you take away
# - A long NEGOTIATE phase is waiting for the last rank. The timeline shows which rank it was, if
#   the cache is off.
# - Tensors are sent together if they have the same type, are ready in the same cycle, and fit below
#   the threshold, in order.
# - The threshold saves the cost of messages, which matters only where a message is expensive. A
#   long cycle time costs up to one cycle per step. A slow link leads to fusion by itself.
# - Give a name to everything you average, and keep its shape.
#
# ## Going further (optional): what does a tensor cost?
# *(5 minutes)* Your model knows only what **messages** cost. To see what a **tensor** costs, the
# measurement above also averaged 60 tensors of 256 bytes that are ready at once:
#
# | step | what is different |
# |---|---|
# | 60 known | nothing: the tensors are in the cache |
# | 60 negotiated | no cache |
# | 60 without names | a cache, but new names in each step |
# | 1 of 15 KiB | the control: the same bytes as one tensor |

# %%
of_small = {way: times[way] for way in times if way in lab44.OF_SMALL}
plots.compare(steps, of_small, unit="ms", title="60 small tensors: predicted and measured")
print(f"ms of a step over the slow link ({whose}):")
print(slow[slow.index.isin(lab44.OF_SMALL)])

# %% [markdown]
# **Explain.** The model predicts the same time for all four, because the 60 tensors fit into one
# message, just as the control does. Compared with the control, the 60 tensors take several
# milliseconds longer, on this machine and over the slow link. This is the cost of the **tensors**,
# because each of them needs a request, an entry in the lists, two copies, and a line of Python.
#
# In `60 negotiated` and `60 without names` the tensors are negotiated by name, which should take
# longer than `60 known`. Believe a difference only if the interquartile ranges do not overlap. In
# the kit's reference they overlap.
#
# ## Going further (optional): does Horovod find the best settings itself?
# *(3 minutes)* `HOROVOD_AUTOTUNE=1` tries other cycle times and thresholds while you train, and
# keeps the best pair that it has tried. `HOROVOD_AUTOTUNE_LOG=file` writes down which ones. **The
# default, 1 ms with 128 MiB, is not among them** (`parameter_manager.cc`, 0.28.1), so compare the
# result with the default in one run, by medians. In our runs on 1, 2, 4 and 8 nodes the result was
# never faster than the default.
#
# Two more settings do not always have an effect. `HOROVOD_HIERARCHICAL_ALLREDUCE=1` and
# `HOROVOD_HIERARCHICAL_ALLGATHER=1` request one algorithm inside a node and another between nodes
# ([lab 26](26_hierarchical_allreduce.ipynb)), but a Horovod without operations for GPUs silently ignores both (`operations.cc`,
# 0.28.1). If they work, the timeline contains `NCCL_REDUCESCATTER` or `MPI_CROSS_ALLGATHER`.
#
# ### Further reading
# - [Horovod: Analyze Performance (Timeline)](https://horovod.readthedocs.io/en/stable/timeline_include.html). All activities of a timeline and how to view it in a browser.
# - [Horovod: Tensor Fusion](https://horovod.readthedocs.io/en/stable/tensor-fusion_include.html). Horovod's description of tensor fusion and its two settings.
# - [Horovod: Autotune](https://horovod.readthedocs.io/en/stable/autotune_include.html). The automatic search, with all of its variables.
# - A. Sergeev and M. Del Balso, *[Horovod: fast and easy distributed deep learning in TensorFlow](https://arxiv.org/abs/1802.05799)*, 2018. The paper explains why tensor fusion was added.
