# %% [markdown]
# # 44 Timeline and fusion
#
# Between your gradients and MPI sits Horovod's own thread: it looks, asks, packs and sends. You read what it
# writes about itself, predict what each of its knobs does, and measure who was right.
#
# **You will be able to** (1) read a timeline line by line, and find the rank that others wait for, (2) say
# which tensors travel together, (3) predict a step's time from fusion threshold and cycle time, (4) keep the
# response cache working.
#
# Needs: mpi, horovod, torch · Ranks: 4 · Minutes: 60 · Before: 32, 40, 42

# %%
from functools import partial

import numpy as np
import pandas as pd
from labkit import check, cluster, expect, hint, home, lab, launch, predict, world
from support import lab44
from support.lab44 import PHASES

lab.start("44_timeline_and_fusion")

# %% tags=["parameters"]
workers = 4  # real ranks, unless a launcher has started some
layers = 24  # of the net: a weight and a bias each
backward = 0.05  # seconds in which the gradients become ready, one after the other
long_cycle = 20  # ms between two looks, tried beside Horovod's 1
slow_link = (5e-4, 2.5e7)  # seconds for a message, and its bytes per second: about 200 mbit/s
rounds = 3  # turns of each way of a step, 5 steps each

# %% [markdown]
# Your call of `hvd.allreduce_async` only leaves a request. Horovod's thread looks every
# `HOROVOD_CYCLE_TIME` ms (1) for requests. The ranks compare what they have: they *negotiate*. What **all**
# have is packed into messages of at most `HOROVOD_FUSION_THRESHOLD` bytes (128 MiB), one after the other.
# Here a step's tensors are handed over in one moment: so we know what is ready together. In the timeline
# `late`, one rank comes 50 ms late to each of 2 steps.

# %%
ranks = launch.ranks_here(workers)
on_node = world.local_size() if world.launcher() else ranks
start = partial(launch.run, ranks=ranks, threads=1, env={"HOROVOD_LOG_LEVEL": "error"})
events = start(lab44.timelines, lab44.ways(ranks // 2, pause=0.05), home())[0]
first = lab44.lines(events["late"])
lab44.show_lines(first, "a")
print("PHASES:", PHASES)


# %% [markdown]
# `B` opens something, `E` closes what this tensor opened last, like brackets. `X` is a rank that has it
# ready: its number is the name. Rank 0 writes it all, and hears of others only when it looks.
#
# ### Exercise 44.1 · Where does the time go, and who was late?
# - `phases`: for each tensor the µs in each phase, over all its steps. `PHASES` (above) names four by the
#   line that begins them, the sum by each library that may do it; other lines count for none. A fifth is
#   "queue", from the end of NEGOTIATE to `B ALLREDUCE`: other messages go first. An `E` has an empty name.
#   11 lines.
# - `late`: somebody is always last. In each negotiation, charge the rank of the tensor's **last** `X` with
#   the µs since the `X` before it: so much sooner all would have been ready. A lone `X` costs 0. 8 lines.
#
# <details><summary>Hint 1: pairs</summary>
#
# A list for each tensor: `begun.setdefault(tensor, []).append((when, name))` at B; at E the partner is
# `since, name = begun[tensor].pop()`. Keep `ended[tensor] = when`: at `B ALLREDUCE`, NEGOTIATE ended then.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `phases`: for lines of kind B or E, `spent = table.setdefault(tensor, dict.fromkeys([*PHASES.values(),
# "queue"], 0))`. At E: `if name in PHASES: spent[PHASES[name]] += when - since`. At `B ALLREDUCE`:
# `spent["queue"] += when - ended[tensor]`.
#
# `late`: at X, `ticks.setdefault(tensor, []).append((when, int(name)))`. The first E after it ends the
# negotiation: `seen = ticks.pop(tensor)`, `last, rank = seen[-1]`, `before = seen[-2][0]` (alone: `last`).
# </details>

# %%
def phases(lines):
    """lines: (when [µs], tensor, kind, name) in order. Returns {tensor: {phase: µs}}, also phases of 0 µs."""
    table = {}
    begun = {}
    ended = {}
    raise NotImplementedError("exercise 44.1: Where does the time go, and who was late?")
    return table


def late(lines):
    """Returns {rank: µs that all waited for it alone, over all tensors}, for ranks that were last in some."""
    waited = {}
    ticks = {}
    raise NotImplementedError("exercise 44.1: Where does the time go, and who was late?")
    return waited


# %%
# What is asked: µs by tensor and phase, and µs by late rank, of timelines made up, and of real ranks.
with check("44.1"):
    for name, right in lab44.MADE_UP.items():
        timeline = lab44.made_up(name)
        expect.equal(phases(timeline), right.phases, f'phases(lab44.made_up("{name}"))')
        expect.unchanged(lab44.made_up(name), timeline, "The timeline that `phases` got")
        expect.equal(
            late(timeline),
            right.late,
            f'late(lab44.made_up("{name}"))',
            slips={"a rank is a number here, not a word": {str(rank): us for rank, us in right.late.items()}},
        )
    alone = late(lab44.one_rank_alone())
    expect(not any(alone.values()), f"late, of one rank alone: it waits for nobody, but you charge {alone}.")
    for name in ("late", "always the same"):  # timelines of real ranks
        timeline = lab44.lines(events[name])
        expect.equal(phases(timeline), lab44.spent(events[name]), f'phases(lab44.lines(events["{name}"]))')

# %%
print(pd.DataFrame(phases(first)).T, "in µs", sep="\n")
print(f"µs waited for one rank, summed over tensors: {late(first)}.")
print(f"Rank {ranks // 2} was 50000 late in each of 2 steps, and 3 tensors waited at the same time.")
print("With the cache:", late(lab44.lines(events["always the same"])), "in 4 steps. Exercise 44.4 says why.")

# %% [markdown]
# To negotiate is to **wait for the last rank**: a long NEGOTIATE means a late rank, not a slow network.
#
# ### Predict
# Tensors a to g are ready together: 60000, 40200, 30000, 30000, 20000, 8000 and 60000 bytes; c and f are
# float64, the others float32. How many messages, with a threshold of 0, of 50000, of 128 MiB?

# %%
predict("44.2", messages_0=..., messages_50000=..., messages_128_MiB=...)


# %% [markdown]
# ### Exercise 44.2 · What travels together?
# Horovod's rule (`FuseResponses` in its `controller.cc`): the first tensor that is left begins a message. Go
# through the `rest` in order; what does not join stays `left`, in its order:
# - one **of its type** joins, if the message's bytes with it are at most the limit;
# - any other is *skipped*: look further, if the message's bytes and **all** skipped bytes together are still
#   at most the limit. Else the message is closed, before this one.
#
# The limit is the threshold, rounded **up** to a multiple of 512 bytes times the ranks on a node;
# `-(-a // b) * b` rounds a up. 1 and 12 lines.
#
# <details><summary>Hint 1: what to keep, and how to close</summary>
#
# Two sums: `size` of the message, and `skipped`. To close at place i of `rest`, all from there on is left:
# `left += rest[i:]`, then `break`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for i, tensor in enumerate(rest):` `if tensor.dtype == first.dtype and size + tensor.bytes <= limit:`
# append, add to size. Else `skipped += tensor.bytes`; `if size + skipped > limit:` close; else
# `left.append(tensor)`.
# </details>

# %%
def rounded(threshold, ranks_on_node):
    """The limit in bytes that Horovod makes of its threshold."""
    raise NotImplementedError("exercise 44.2: What travels together?")


def fuse(ready, limit):
    """ready: Tensors (.bytes, .dtype) in order. Returns the messages in order, each a list of Tensors."""
    messages, left = [], list(ready)
    while left:
        first, *rest = left
        message, left = [first], []
        raise NotImplementedError("exercise 44.2: What travels together?")
        messages.append(message)
    return messages


# %%
# What is asked: the limit in bytes, and who travels with whom, of tensors made up, and of real ranks.
with check("44.2"):
    for threshold, ranks_on_node, limit in lab44.LIMITS:
        what = f"Limit for {threshold} bytes, {ranks_on_node} ranks on a node"
        expect.equal(rounded(threshold, ranks_on_node), limit, what)
    for text, limit, want, why in lab44.FUSED:
        ready = lab44.patient(text)  # tensors that stop a loop without end
        messages = lab44.names(fuse(ready, limit))  # "a b|c": a and b together, then c
        expect.equal(messages, want, f"Messages of '{text}', limit {limit}", because=why)
        expect.unchanged(lab44.tensors(text), ready, "The list of tensors that `fuse` got")
    for threshold, want in lab44.travelled(events).items():  # seven tensors on real ranks
        messages = lab44.names(fuse(lab44.SEVEN, rounded(threshold, on_node)))
        expect.equal(messages, want, f"Messages of the seven tensors, real ranks, threshold {threshold}")

# %%
none, some, _, most = lab44.show_travelled(events)
predict.compare("44.2", messages_0=none, messages_50000=some, messages_128_MiB=most)

# %% [markdown]
# Why look further at all? In mixed precision types alternate. At 100000, why do a and b, 100200 bytes, join?
#
# ### Predict
# 24 layers, a weight of 64 KiB and a bias of 256 bytes each, become ready one by one within 50 ms. The link
# takes 0.5 ms for a message, and sends 25 MB/s. How many ms is a step, looked for every 1, 20, 100 ms?

# %%
predict("44.3", ms_1=..., ms_20=..., ms_100=...)


# %% [markdown]
# ### Exercise 44.3 · What does a step cost?
# A message of n bytes takes `seconds(n)`, a look `seconds(0)`: the ranks compare. The first look begins at 0,
# with the step. What was `ready` when it **began** is then fused, and sent, one message after the other. The
# next begins `cycle` after the last began; if that is past, at once. The last message ends a step. 10 lines.
#
# <details><summary>Hint 1: one look</summary>
#
# `look = now`, then `now += seconds(0)`, then `now += seconds(sum(tensor.bytes for tensor in message))` for
# each message of `fuse([tensor for tensor in left if tensor.ready <= look], limit)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# While something is left: one look; `left = [tensor for tensor in left if tensor.ready > look]`; `end = now`;
# then `now = max(now, look + cycle)`. The step is over at `end`, not at the look after it.
# </details>

# %%
def step_time(gradients, limit, cycle, seconds):
    """gradients: Tensors with .ready [s]. cycle in s. Returns (end of the step in s, number of messages)."""
    left = sorted(gradients, key=lambda tensor: tensor.ready)
    now, calls = 0.0, 0
    raise NotImplementedError("exercise 44.3: What does a step cost?")


# %%
# What is asked: when a step ends, and with how many messages; a case says its gradients, cycle and link.
with check("44.3"):
    for case in lab44.STEPS:
        gradients = case.tensors()
        got = step_time(gradients, case.limit, case.cycle, case.link())
        expect.equal(np.size(got), 2, f"{case}: values that `step_time` returns (end, messages)")
        expect.close(got[0], case.end, f"{case}: end of the step", rtol=1e-9, because=case.why)
        expect.equal(got[1], case.messages, f"{case}: messages", because=case.why)
        expect.unchanged(case.tensors(), gradients, "The list of gradients that `step_time` got")

# %%
net, ms = lab44.show_predicted(step_time, layers, backward, *slow_link)
predict.compare("44.3", ms_1=ms[1], ms_20=ms[20], ms_100=ms[100])

# %% [markdown]
# **Explain.** Why is the plot flat up to 65536 bytes? Why is a large threshold never wrong here, and a long
# cycle nearly always? While a message travels, more gets ready for the next: a slow link fuses by itself.
#
# ### Predict
# Without help, rank 0 collects lists of names from all ranks in every look. The **response cache** saves it:
# a known tensor is one bit, and one small allreduce compares all bits. In 4 steps of the same 6 tensors,
# about how many must rank 0 ask in all (`X`)? With a metric besides, of a new name each time? Without cache?

# %%
predict("44.4", asked=..., asked_with_metric=..., asked_without_cache=...)


# %% [markdown]
# ### Exercise 44.4 · Keep the cache working
# Horovod asks about a tensor unless the cache knows its name **with these bytes and this type**. After a
# step all its tensors are the newest entries: first the known ones, then those asked about, each in their
# order. A name has one entry. If a new name finds no place, the oldest goes. 0 places know nothing. 9 lines.
#
# <details><summary>Hint 1: a dict is in order</summary>
#
# The first key of a dict is the one put in first. `cache.pop(name, None)`, then `cache[name] = tensor`: now
# it is the newest. The oldest goes by `cache.pop(next(iter(cache)))`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `known = [tensor for tensor in step if cache.get(tensor.name) == tensor]`; `new`: the others. Given any
# places, for each of `known + new`: pop its name; `if len(cache) >= places:` the oldest goes; put it in.
# </details>

# %%
def asked(steps, places):
    """steps: lists of Tensors. Returns for each step about how many of them rank 0 asks rank by rank."""
    cache = {}
    counts = []
    raise NotImplementedError("exercise 44.4: Keep the cache working")
    return counts


# %%
# What is asked: for each step how many tensors are asked about, in steps made up, and on real ranks.
with check("44.4"):
    for texts, places, want, why in lab44.ASKED:
        steps = [lab44.tensors(text) for text in texts]
        counts = asked(steps, places)
        expect.equal(counts, want, f"Steps {' | '.join(texts)}, {places} places", because=why)
        unchanged = [lab44.tensors(text) for text in texts]
        expect.unchanged(unchanged, steps, "The list of steps that `asked` got")
    truth = lab44.asked_about(events)  # way -> counts, as real ranks asked
    for name, (places, steps) in lab44.CACHED.items():
        what = f"Tensors asked about, by step, real ranks, '{name}'"
        expect.equal(asked(steps, places), truth[name], what)

# %%
print(*truth.items(), sep="\n")
total = [sum(truth[name]) for name in ("always the same", "a metric without a name", "no cache")]
predict.compare("44.4", asked=total[0], asked_with_metric=total[1], asked_without_cache=total[2])

# %% [markdown]
# `hvd.allreduce(loss)` without `name=` is called `allreduce.noname.17`, next time `.18`: new for ever. **Name
# what you average**. And what is known has no `X`: for `late`, record with `HOROVOD_CACHE_CAPACITY=0`.
#
# ### Measure
# The net above, on real ranks that sleep while "backward" runs, so that cores are free; and 60 small tensors
# ready at once: known, asked about (no cache), without names. They are on this machine's device, and your
# model is given what a message costs the library that carries them: MPI's own allreduce, or NCCL's.
#
# If ranks share cores, each waits for turns, and it may err. So next two nodes with a slow link: a job, where
# there is a cluster (`make tabletop BANDWIDTH=200mbit` starts one), else the kit's records of one.

# %%
ways = lab44.knobs(net, long_cycle)
measured = start(lab44.measure, ways, rounds)[0]
print(measured.where.describe())
lab44.show(lab44.keep(ways, measured, step_time, rounded, ranks, on_node), "Here")
lab44.keep_activities(events, measured.where, ranks, on_node)
there = cluster.here() and not world.launcher()
job = cluster.submit("44", ranks_per_node=1, settings={"rounds": rounds}) if there else None
lab44.show_job(job)

# %% [markdown]
# **Explain.** On two nodes, where is your model far too fast? It knows costs of messages, none of tensors.
#
# And the hierarchical ways, the two lines in capitals: `HOROVOD_HIERARCHICAL_ALLREDUCE` and `…_ALLGATHER` ask
# for one way inside a node and another between nodes (lab 43). Did your Horovod follow? One without
# operations for GPUs ignores both: no line says `NCCL_…` or `MPI_CROSS_ALLGATHER` (`operations.cc`, 0.28.1).
# A variable that is set proves nothing, the timeline does.
#
# ### What you take away
# - NEGOTIATE is waiting for the last rank. Without the cache, the timeline tells which one it was.
# - Same type, in order, up to the threshold, what is ready at one look: that travels together.
# - Threshold saves latencies, cycle time costs up to one cycle a step; a busy thread fuses by itself.
# - Name what you average, keep its shape. Next: let Horovod turn the knobs (45).
