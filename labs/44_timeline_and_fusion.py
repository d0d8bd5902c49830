# %% [markdown]
# <!-- Generated from solutions/44_timeline_and_fusion.py by `make labs`. Learners work on a copy in work/. -->
# # 44 Timeline and fusion
#
# Between your gradients and MPI sits Horovod's own thread: it looks, asks, packs and sends. You
# read what it writes about itself, predict what each of its knobs does, and measure who was right.
#
# **You will be able to** (1) read a timeline line by line, and find the rank that others wait for,
# (2) say which tensors travel together, (3) predict a step's time from fusion threshold and cycle
# time, (4) keep the response cache working.
#
# Needs: mpi, horovod, torch · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 32, 40, 42

# %%
from functools import partial

import numpy as np
import pandas as pd
from labkit import check, cluster, hint, home, lab, launch, plots, predict, record, scaling, world
from labkit.horovod import ranks_here
from support import lab44

lab.start("44_timeline_and_fusion")

# %% tags=["parameters"]
workers = 4  # real ranks, unless a launcher has started some
layers = 24  # of the net: a weight and a bias each
backward = 0.05  # seconds in which the gradients become ready, one after the other
long_cycle = 20  # ms between two looks, tried beside Horovod's 1
slow_link = (5e-4, 2.5e7)  # seconds for a message, and its bytes per second: about 200 mbit/s
rounds = 3  # turns of each way of a step, 5 steps each

# %% [markdown]
# ## What Horovod's thread does
# Your call of `hvd.allreduce_async` leaves a request, and returns at once. The rest is done by a
# thread of Horovod's, one on each rank:
#
# 1. **Look.** Every `HOROVOD_CYCLE_TIME` milliseconds it looks which tensors have been handed over.
#    The default is 1.
# 2. **Negotiate.** Each rank tells rank 0 what it has. A tensor may travel when **all** ranks have
#    it.
# 3. **Fuse.** Tensors that may travel are packed into messages of at most
#    `HOROVOD_FUSION_THRESHOLD` bytes. The default is 128 MiB.
# 4. **Sum.** The messages go one after the other. Each is one call of a library: MPI, NCCL or Gloo.
#
# Rank 0 writes down what happened to each tensor, and when: the **timeline**. The next cell lets
# real ranks record some. In all of them a rank hands the tensors of a step over in one moment, so
# you know what is ready together. (In training they become ready one by one. That is exercise
# 44.2.)
#
# The first recording is called "late". Three tensors a, b and c are summed in each of 2 steps, and
# one rank comes 200 ms late to both. (It is recorded without Horovod's cache. Exercise 44.3 says
# what that is.) Here are the lines of tensor a. About 15 s.

# %%
ranks = ranks_here(workers)
on_node = world.local_size() if world.launcher() else ranks
start = partial(launch.run, ranks=ranks, threads=1, env={"HOROVOD_LOG_LEVEL": "error"})
late_rank = ranks // 2
events = start(lab44.timelines, lab44.ways(late_rank, pause=0.2), home())[0]
late = lab44.lines(events["late"])
print(
    f"{sum(line.kind == 'i' for line in late)} looks (CYCLE_START), and of tensor a, in both steps:"
)
for line in late:
    if line.tensor == "a":
        print(f"{line.when:9d} µs  {line.kind}  {line.name}")

# %% [markdown]
# ## Read it
# A line has a time in µs, a kind, and a name. There are four kinds:
#
# | kind | what it says |
# |---|---|
# | `B` | something begins; its name says what |
# | `E` | what this tensor began last ends, like a closing bracket; it has no name |
# | `X` | a rank has this tensor ready; the name is the rank's number, as text |
# | `i` | a look begins (`CYCLE_START`); it belongs to no tensor |
#
# Rank 0 hears of other ranks only when it looks. So the `X` of the others come up to a cycle late.
#
# What begins with `B` has long names. We call the phases of a tensor's life like this:
#
# | phase | from | in it |
# |---|---|---|
# | negotiate | `B NEGOTIATE_ALLREDUCE` | not all ranks have the tensor |
# | queue | the end of NEGOTIATE to `B ALLREDUCE` | other messages go first |
# | copy in | `B MEMCPY_IN_FUSION_BUFFER` | it is packed with others |
# | sum | `B MPI_ALLREDUCE` (or `NCCL_…`, `GLOO_…`) | the library works |
# | copy out | `B MEMCPY_OUT_FUSION_BUFFER` | it is unpacked |
#
# The kit adds up the phases of each tensor, over both steps:

# %%
print(pd.DataFrame(lab44.spent(events["late"])).T, "in µs", sep="\n")

# %% [markdown]
# Nearly all of the time is *negotiate*. The gradients are not sent in it. So it is no slow network:
# Horovod **waits for the last rank**. For which one? The `X` tell.
#
# ### Predict
# One rank comes 200 ms late to each of 2 steps. In each step three tensors wait for it, at the same
# time. How many ms of wall time does it cost the others, over both steps?

# %%
predict("44.1", ms_lost=...)


# %% [markdown]
# ### Exercise 44.1 · Who was late?
# In each negotiation of a tensor, some rank is last. Had it come sooner, the negotiation could have
# ended when the rank before it was ready. So charge the rank of the **last** `X` with the span from
# the `X` before it to its own. Here rank 2 is charged with the span (20, 1010):
#
#     when   tensor  kind  name
#        5   a       B     NEGOTIATE_ALLREDUCE
#        6   a       X     0
#       20   a       X     1
#     1010   a       X     2
#     1011   a       E
#
# The first `E` of a tensor behind its `X` ends the negotiation. Lines of other tensors may stand in
# between. A lone `X` has none before it: its span is empty, as `(6, 6)` is, and its rank is charged
# with 0 (or left out).
#
# Several tensors may wait for the same rank at the same time. That time is lost **once**. The kit
# has a function for it: `lab44.covered([(0, 10), (5, 20)])` is 20, the µs that lie in at least one
# of the spans.
#
# Write `charge`: for each rank that was last in some negotiation the µs that were lost to it. The
# loop over the lines is there. When a negotiation ends, `seen` holds its `X` in order, a pair
# (when, rank) each. Two parts are left to you: put its span into `spans`, a list for each rank; and
# at the end return what the spans of each rank cover. About 4 lines. *(intermediate)*
#
# <details><summary>Hint 1: the span</summary>
#
# `last, rank = seen[-1]`, and `before = seen[-2][0]`, or `last` if there is one alone.
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
# **Explain.** You should see about 400 ms for one rank, and little for the others. Added up over
# the three tensors it would be about 1200 ms: more time than has passed.
#
# You may see less. On a busy machine another rank may come late, too, and rank 0 notes the others
# only when it looks. If rank 0 itself gets no core for 200 ms, all `X` have the same time. Then run
# the cell with `events =` again.
#
# Somebody is last in *every* negotiation. Call a rank late that is charged with much more than the
# others, and with more than a cycle (1 ms) a step. Who is charged with less was last by chance.
#
# ## What travels together?
# Several tensors may travel now. Which go into one message? Horovod's rule (`FuseResponses` in its
# `controller.cc`, 0.28.1) takes them in order. The **first** that is left begins a message, however
# large it is. Then it goes through the others:
#
# - One **of the same type** joins, if the message with it has at most `limit` bytes.
# - Any other is **skipped**: it is left for a later message. But if the bytes of the message and of
#   **all** tensors skipped so far, this one too, are above `limit`, the message is closed: this one
#   and all behind it are left.
#
# Two examples with a limit of 100. First `a:60 b:50 c:30`, three tensors of one type and their
# bytes:
#
# | tensor | message so far | what happens |
# |---|---|---|
# | a, 60 | none | begins a message |
# | b, 50 | a: 60 | 60 + 50 is above 100: it does not join. Skip it? 60 + 50 is above 100, too: closed |
# | b, 50 | none | begins the next message |
# | c, 30 | b: 50 | 50 + 30 is within 100: it joins |
#
# So it is `a|b c`, although c would have fitted beside a. Then `a:40 b:40:float64 c:40`:
#
# | tensor | message so far | what happens |
# |---|---|---|
# | a, 40 | none | begins a message |
# | b, 40, float64 | a: 40 | another type. Skip it: 40 + 40 is within 100 |
# | c, 40 | a: 40 | 40 + 40 is within 100: it joins |
#
# So it is `a c|b`. This is what skipping is for: in mixed precision types alternate.
#
# The `limit` is the threshold, rounded **up** to a multiple of 512 bytes times the ranks on a node.
# With 4 ranks 50000 becomes 51200. The rule as a function:

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
        left = []  # what does not travel with the first one, in order
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
# ### Predict
# Tensors a to g may travel together: 60000, 40200, 30000, 30000, 20000, 8000 and 60000 bytes. c and
# f are float64, the others float32. How many messages, with a limit of 0, and of 128 MiB?

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
# **Explain.** Even with 128 MiB there are two messages: one for each type. At 100000, a and b
# travel together, although they are 100200 bytes. Why?
# <details><summary>Answer</summary>
#
# 100000 is rounded up to a multiple of 512 bytes times the ranks on a node: with 4 ranks to 100352.
# </details>
#
# ## What does a step cost?
# Now tensors become ready one by one, as in a backward pass. This is all that you need to know of
# the thread:
#
# - A look takes as long as a message of 0 bytes: the ranks compare what they have. It takes what
#   was ready when it **began**.
# - Then its messages go, one after the other.
# - The next look begins one `cycle` after the last look **began**; if that is past, at once.
#
# For example a, 300 bytes, ready at 0, b and c, 100 bytes each, ready at 2 and 3. A message of n
# bytes takes 1 + n/100 seconds, so a look takes 1. The cycle is 1 second, and the limit is large:
#
#     seconds   0   1   2   3   4   5   6   7   8   9
#     ready     a       b   c
#     thread    |look|  message a   |look| msg b+c |
#               0    1              5    6         9
#
# The look at 0 finds a alone. While a travels, b and c become ready: the look at 5 finds both. The
# step is over at 9, with two messages. With a cycle of 10 the second look would begin at 10, and
# the step end at 14.
#
# ### Predict
# 24 layers, a weight of 64 KiB and a bias of 256 bytes each, become ready one by one within 50 ms,
# the first layer after 2 ms. The link takes 0.5 ms for a message, and sends 25 MB/s: a layer takes
# 2.6 ms, all of them 63 ms. The threshold is 128 MiB. How many ms is a step with a look every 100
# ms?
#
# For those who have time: and with one every 20 ms? Ask at each look how many layers are ready. The
# figure will tell.

# %%
predict("44.2", ms_100=...)


# %% [markdown]
# ### Exercise 44.2 · The thread as a loop
# Write `step_time` by the three rules above. `seconds(n)` is the time of a message of n bytes, and
# `seconds(0)` that of a look. The first look begins at 0, with the step. The loop over looks is
# there, and what a look finds. Let time pass (`now`) for the look, and for each message of
# `fuse(found, limit)`. Keep in `end` when the last message ended, and count the messages in
# `calls`. Then move `now` on to the next look. About 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: one look</summary>
#
# `now += seconds(0)`, then `now += seconds(sum(tensor.bytes for tensor in message))` for each
# message.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After the messages `end = now`, then `now = max(now, look + cycle)`. The step is over at `end`,
# not at the look after it.
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
        look = now  # a look begins
        found = [tensor for tensor in left if tensor.ready <= look]
        left = [tensor for tensor in left if tensor.ready > look]
        raise NotImplementedError("exercise 44.2: The thread as a loop")
    return end, calls


# %%
# Asked: When a step ends, and with how many messages, of eleven steps counted
# by hand.
check("44.2", step_time)

# %%
# Your step_time draws these curves, for the net and the link of the prediction.
net = lab44.net(layers, backward)
ends = lab44.draw_predicted(step_time, net, *slow_link)
for ms, (end, messages) in ends.items():
    print(f"look every {ms:3} ms: {1e3 * end:3.0f} ms, {len(net)} tensors, messages: {messages}")
predict.compare("44.2", ms_100=1e3 * ends[100][0])

# %% [markdown]
# **Explain.** Read the curves from left to right. Up to 65536 bytes they are flat. Why?
# <details><summary>Answer</summary>
#
# A weight alone has 65536 bytes. Nothing fits beside it, so all 48 tensors travel alone.
# </details>
#
# And why does a long cycle cost time here, and a large threshold none?
# <details><summary>Answer</summary>
#
# With a long cycle the last gradient waits up to a whole cycle for the next look, and the link
# idles meanwhile. The threshold makes nobody wait: it only says how much of what **is** ready goes
# together. (The model leaves out the copies into the buffer, and its memory.)
# </details>
#
# Now look at the printed messages. In a ms hardly more than one tensor gets ready. But with a look
# every ms there are far fewer messages than tensors: while one travels, more get ready for the
# next. **A slow link fuses by itself.**
#
# ## What does asking cost?
# In every look rank 0 collects lists of names from all ranks, and sends back what may travel. With
# a thousand tensors on a thousand ranks these are long lists. The **response cache** saves them: a
# tensor that all ranks know from an earlier step is *one bit*, and one small allreduce compares the
# bits of all.
#
# Only tensors that are **not** known are asked about by name, and only these get an `X`. A tensor
# is known by its name, its bytes and its type. If one of them changes, it is asked about once more,
# and replaces what was known by that name.
#
# ### Predict
# 4 steps of the same 6 tensors, each with a name. About how many tensors is asked in all: (a) so;
# (b) with a metric besides, which has a new name in each step; (c) as (a), without a cache?

# %%
predict("44.3", asked=..., asked_with_metric=..., asked_without_cache=...)


# %% [markdown]
# ### Exercise 44.3 · Keep the cache working
# For each step count the tensors that are asked about. `cached=False` is Horovod without a cache:
# it knows nothing, ever. `tensor.name` is a name; two Tensors are equal (`==`) if name, bytes and
# type are. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: a dict of what is known</summary>
#
# `known = {}`, by name. `known.get(tensor.name)` is the Tensor that was last asked about under that
# name, or None.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `new = [tensor for tensor in step if not cached or known.get(tensor.name) != tensor]`, then put
# each of `new` into `known`, and append `len(new)`.
# </details>

# %%
def asked(steps, cached=True):
    """steps: lists of Tensors. Returns for each step how many of them rank 0 asks about by name."""
    counts = []
    raise NotImplementedError("exercise 44.3: Keep the cache working")
    return counts


# %%
# Asked: For each step how many tensors are asked about, in steps made up, and
# on real ranks.
check("44.3", asked)

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
# **Explain.** In `f changes` tensor f has 400, 400, 80, 80, 400 bytes: each change is asked about
# once.
#
# A metric that is averaged by `hvd.allreduce(loss)`, without `name=`, is called
# `allreduce.noname.17`, the next time `.18`: new for ever. So **name what you average**.
#
# The cache holds `HOROVOD_CACHE_CAPACITY` tensors, by default 1024; what was not used for longest
# goes first. For those who have time: in `four places` it holds 4, for 6 tensors. Why are 2 of them
# asked about in each step, and not all 6?
# <details><summary>Answer</summary>
#
# The four that are known are used first, and then the two that are asked about come in and push out
# two. So in the next step four are known again.
# </details>
#
# And exercise 44.1? What is known has no `X`, so the last line above is of the first step alone. To
# see who is late, record with `HOROVOD_CACHE_CAPACITY=0`.
#
# ## Measure
# Now the net of 44.2 for real. The ranks sleep until a gradient is "ready", so that cores are free
# for Horovod's threads. Your `step_time` is given what a message costs MPI.
#
# Four more steps have nothing to do with the net. 60 small tensors of 256 bytes, ready at once:
#
# | step | what it shows |
# |---|---|
# | 60 known | the cache works |
# | 60 asked | no cache |
# | 60 without names | a cache, but new names in each step |
# | 1 of 15 KiB | the control: the same bytes as one tensor |
#
# All ways take turns. Bars show the median, and a line the middle half of the steps. About 20 s.

# %%
ways = lab44.knobs(net, long_cycle)
measured = start(lab44.measure, ways, rounds)[0]
print(measured.where.describe())
fit = scaling.fit_alpha_beta(measured.link)
print(f"MPI sums n bytes in {1e6 * fit.alpha:.0f} µs + n · {1e9 * fit.beta:.2f} ns")
nodes = ranks // on_node
steps = {}
for way, took in measured.times.items():
    end, messages = lab44.prediction(way, ways, step_time, fit, on_node)
    steps[way] = 1e3 * end
    record.add(
        "step" if nodes > 1 else "step, one node",
        way=way,
        seconds=took,
        predicted=float(end),
        messages=messages,
        ranks=ranks,
        nodes=nodes,
        **measured.where.fields(),
    )
times = {way: 1e3 * took.samples for way, took in measured.times.items()}
plots.compare(steps, times, unit="ms", title="Messages cost, and tensors, too")

# %% [markdown]
# **Explain.** Here the network is the memory of one machine, so the net's steps take as long as
# "backward", whatever the threshold: there is nothing to hide. `look every 20 ms` costs its last
# cycle. If your ranks share cores, all may take longer than predicted, because each waits for its
# turn on a core. On a busy machine the ranks also wait for a core while MPI is measured. Then a
# message looks far too expensive (the line "MPI sums n bytes" shows it), and your model predicts
# more than is measured: run the cell again on a quiet machine.
#
# Now the knobs on a **slow** link: two nodes, 200 Mb/s. `make tabletop BANDWIDTH=200mbit` starts
# such a cluster on this machine, and `make submit LAB=44 NODES=2` runs the lab there. Below is what
# your newest job measured, else the kit's reference.

# %%
frame, whose = cluster.records_or_reference("44", "step")
last = frame.groupby("way", sort=False).last()
between = {"predicted": last["predicted"], "measured": last["seconds"]}
between |= {"quarter below": last["seconds_q1"], "quarter above": last["seconds_q3"]}
print(f"ms of a step on {last['nodes'].max()} nodes ({whose}):")
print((1e3 * pd.DataFrame(between)).round(1).assign(messages=last["messages"]))

# %% [markdown]
# **Explain.** For the net your model comes close, without having seen a step. In the kit's
# reference the threshold hardly matters: 48 messages take 66.0 ms and ten take 65.7. The bytes
# alone take 63 ms on this link whatever the threshold, and a message costs little beside them. (The
# link of exercise 44.2, with 0.5 ms for a message, is another one.) If the middle halves of two
# ways overlap, call neither the faster one. The cycle of 20 ms is different: it adds 17 ms,
# predicted and measured.
#
# At 60 tensors your model is far too fast. It knows what *messages* cost, and 60 tensors of 256
# bytes are one message. The control is one message, too. So `60 known` less the control is the
# price of 60 **tensors**: for each a request, a place in the lists, two copies, a line of Python.
#
# Where tensors are asked about by name, as in `60 asked` and `60 without names`, it should be more
# than with bits. Believe that only where the middle halves do not overlap.
#
# ## Going further: does Horovod turn the knobs itself?
# `HOROVOD_AUTOTUNE=1` tries other values while you train, and `HOROVOD_AUTOTUNE_LOG=file` writes
# down which. Here is the log of four ranks on the kit's machine. A step was 12 matrices of 256 KiB,
# ready at once:
#
# | cycle time (ms) | threshold (MiB) | score (bytes/µs, the median of five) |
# |---|---|---|
# | 5 | 4 | 109 |
# | 50 | 32 | 61 |
# | 25 | 16 | 82 |
# | 10 | 8 | 67 |
# | 83.9 | 19.8 | 36 |
# | 5.0 | 4.0 | 125 |
# | 22.2 | 12.5 | 59 |
# | 27.8 | 14.0 | 59 |
#
# The first four are built in. Then a statistical model (a Gaussian process) proposes more, from 1
# to 100 ms and from 0 to 64 MiB. At the end it keeps the best, 5 ms with 4 MiB. **The default, 1 ms
# with 128 MiB, is not among them**: so compare the choice with the default in one run, by medians.
# In our runs on 1, 2, 4 and 8 nodes it was slower than the default, or as slow. A real search is
# longer, 1,050 steps; and it begins anew for each combination of the switches that nobody has set,
# up to 16 of them in a build with NCCL (`parameter_manager.cc`, 0.28.1).
#
# ## Going further: does Horovod obey its switches?
# `HOROVOD_HIERARCHICAL_ALLREDUCE=1` and `HOROVOD_HIERARCHICAL_ALLGATHER=1` ask for one way inside a
# node and another one between nodes (lab 26). A Horovod without operations for GPUs silently
# ignores both (`operations.cc`, 0.28.1). A variable that is set proves nothing. The timeline does:
# it names `NCCL_…`, or `MPI_CROSS_ALLGATHER`.
#
# ### What you take away
# - A long NEGOTIATE is waiting for the last rank. Without the cache, the timeline tells which one
#   it was.
# - Same type, in order, up to the threshold, what is ready at one look: that travels together.
# - The threshold saves latencies; a long cycle costs up to one cycle a step; a busy thread fuses by
#   itself.
# - Name what you average, and keep its shape.
# - Autotune knows only what it tries. Next: which library carries it all (46).
