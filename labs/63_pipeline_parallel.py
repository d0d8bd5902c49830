# %% [markdown]
# <!-- Generated from solutions/63_pipeline_parallel.py by `make labs`. Learners work on a copy in work/. -->
# # 63 Pipeline parallelism
#
# In lab 62 the net was cut into stages, and one rank computed while the others waited. Here the
# batch is cut, too: several small batches follow each other through the stages. You write who does
# what when, and run it.
#
# **You will be able to** (1) write GPipe's plan and 1F1B's, (2) say how much of the time they leave
# idle, and how much memory they need, (3) run a plan on real ranks, (4) tell which change helps
# against what.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 65 · Level: advanced · Before: 20, 62

# %%
import numpy as np
import pandas
from labkit import check, hint, lab, launch, plots, predict, record
from support import lab63

lab.start("63_pipeline_parallel")
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
counts = (1, 2, 4, 8)  # micro-batches that are tried
nap = 0.02  # seconds for which a stage of the measurement sleeps on its way forward
width = 512  # numbers between two stages of the net in the check
patience = 20  # seconds after which a check calls a program stuck


# %% [markdown]
# ## 1. A plan for every rank
# The batch of a step is cut into **micro-batches**, numbered from 0. When rank 0 has sent the first
# one on, it can begin with the next. Gradients of all micro-batches are added up; the weights
# change once, at the end of the step. So, but for rounding, nothing changes in what our net learns.
# (With batch normalisation or dropout something would.)
#
# What a rank does is written as a list, its **plan**: `("F", 0)` is the way forward of micro-batch
# 0 through this rank's stage, `("B", 0)` the way back. A rank does its plan in order. It waits
# where something is not there yet:
#
# - F of a micro-batch needs what the rank *before* sends of it;
# - B needs what the rank *behind* sends of it, and on the last rank only the F of the same
#   micro-batch.
#
# **GPipe** (Huang and others, 2018) is the simplest plan: every rank goes forwards with all
# micro-batches, in order, and then back with all of them. Here it goes back in the same order, as
# in PyTorch's GPipe; in the paper's figure the last micro-batch goes back first, which changes
# neither the idle time nor the memory.
#
# ### Exercise 63.1 · GPipe's plan
# Return a list with one plan for each of `ranks` ranks, for `micro` micro-batches. 2 or 3 lines.
# *(beginner)*
#
# <details><summary>Hint 1: one rank</summary>
#
# `[("F", number) for number in range(micro)]` is the first half of each rank's plan.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Add the same with "B". All ranks have the same plan, so return `[plan for rank in range(ranks)]`.
# </details>

# %%
def gpipe(ranks, micro):
    """GPipe's plans: for each rank a list of ("F", number) and ("B", number)."""
    raise NotImplementedError("exercise 63.1: GPipe's plan")


# %%
# Asked: Plans that can be run, with all ways forward in front of all ways back.
check("63.1", gpipe)

# %% [markdown]
# ### The picture
# `lab63.play` lets all ranks do their plans on paper: a way forward takes 1, a way back 2 (lab 02),
# a message nothing. Look at the empty places: they are called the **bubble**.

# %%
pictures = {f"micro-batches: {micro}": lab63.play(gpipe(4, micro)) for micro in (1, 4)}
lab63.draw(pictures, name="gpipe", idle=False)

# %% [markdown]
# ### Predict
# With p ranks and m micro-batches, the last rank must wait for p - 1 ways forward before it can
# begin, and it ends p - 1 ways back before the first rank does. So each rank waits as long as p - 1
# micro-batches take, and works as long as m take. Which share of the time is idle, for 4 ranks and
# 1, 4, 16 micro-batches?

# %%
predict("63.1", idle_1=..., idle_4=..., idle_16=...)  # three numbers between 0 and 1

# %%
played = {micro: lab63.play(gpipe(4, micro)).idle for micro in (1, 4, 16)}
predict.right("63.1", idle_1=played[1], idle_4=played[4], idle_16=played[16])
print("Played:  ", {micro: round(idle, 3) for micro, idle in played.items()})
print("Formula: ", {micro: round(3 / (micro + 3), 3) for micro in played}, "(p - 1) / (m + p - 1)")


# %% [markdown]
# **Explain.** The formula is that of the text: p - 1 parts of waiting, m parts of work. More
# micro-batches make the bubble smaller, and never zero. Why not cut the batch into single pictures,
# then?
# <details><summary>Answer</summary> Small pieces compute less well: a matrix product of one row moves as many
# weights as one of a hundred rows ([lab 12](12_find_the_bottleneck.ipynb)). And a layer such as batch normalisation sees only its
# micro-batch.</details>
#
# ## 2. Memory: one forward, one backward
# From its F until its B, a micro-batch holds memory: its activations, which the way back needs (lab
# 02). Such a micro-batch is **in flight**.
#
# How many are in flight at once, at the most? F adds one, B takes one away:

# %%
def most_in_flight(plan):
    """The most micro-batches that have gone forwards and not yet back, at any time of a rank's
    plan."""
    now = 0
    most = 0
    for kind, _ in plan:
        now += 1 if kind == "F" else -1
        most = max(most, now)
    return most


# %% [markdown]
# GPipe holds all m micro-batches before the first one goes back. (Google's own GPipe therefore
# keeps only what enters a stage, and computes the other activations again on the way back: [lab 14](14_mixed_precision_and_memory.ipynb).)
# **1F1B** ("one forward, one backward"; PipeDream, Narayanan and others 2019, with a flush at the
# end of the step) goes back as soon as it can. Rank r of p does:
#
# 1. a *warm-up* of as many F as there are ranks behind it: p - 1 - r (or m, if that is less);
# 2. then, in turn, one F and one B, as long as there are F left;
# 3. then the B that are left.
#
# Each kind goes through the micro-batches in order: 0, 1, 2, … ("Behind" a rank are those with
# higher numbers, which hold later layers. "Flush": all micro-batches are back before the weights
# change.)
#
# ### Exercise 63.2 · The plan 1F1B
# Return the plans of all ranks. About 9 lines. *(intermediate)*
#
# <details><summary>Hint 1: three parts of a list</summary>
#
# For each rank: `warm = min(micro, ranks - 1 - rank)`. The first part is F of 0 to warm - 1.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The second part:
# `for number in range(warm, micro): plan += [("F", number), ("B", number - warm)]`. The third one
# is B of `micro - warm` to `micro - 1`.
# </details>

# %%
def one_f_one_b(ranks, micro):
    """1F1B's plans: for each rank a list of ("F", number) and ("B", number)."""
    raise NotImplementedError("exercise 63.2: The plan 1F1B")


# %%
# Asked: Plans that can be run, in the order of the text.
check("63.2", one_f_one_b)

# %%
both = {"GPipe": gpipe(4, 8), "1F1B": one_f_one_b(4, 8)}
played = {name: lab63.play(plans) for name, plans in both.items()}
# Two pieces of the net on each rank, so a way forward through one takes half as long.
played["Interleaved, two pieces"] = lab63.play(
    lab63.interleaved(4, 8, 2), forward=0.5, backward=1.0
)
lab63.draw(played, name="three_plans")
for name, plans in both.items():
    print(f"{name:<6} in flight on ranks 0 to 3: {[most_in_flight(plan) for plan in plans]}")
inter = [most_in_flight([action[:2] for action in plan]) for plan in lab63.interleaved(4, 8, 2)]
print(f"Interleaved, in flight, pieces of half the size: {inter}")
# Each action sends one message, but for the ways forward at the net's end and the ways back at its
# beginning.
messages = {name: sum(map(len, plans)) - 2 * 8 for name, plans in both.items()}
messages["Interleaved"] = sum(map(len, lab63.interleaved(4, 8, 2))) - 2 * 8
print(f"Messages in a step: {messages}")


# %% [markdown]
# **Explain.** 1F1B leaves exactly the same bubble as GPipe: rank 3 cannot begin any earlier, and
# rank 0 cannot end any earlier. What it saves is **memory**: rank r holds at most p - r
# micro-batches, however many there are.
#
# What makes the bubble itself smaller is cutting the net finer. In the third picture each rank has
# *two* pieces of the net, 0 and 4, 1 and 5, …, and the pipe is filled by pieces of half the length
# (Megatron-LM, Narayanan and others 2021). The price: more than twice as many messages (the last
# line counts them), and more in flight again. A piece of half the size holds half as much, so 11 of
# them are like 5 or 6 whole ones.
#
# Which rank needs most memory with 1F1B, and what would you do about it?
# <details><summary>Answer</summary> If all stages are alike, rank 0: p micro-batches are in flight there, and
# one on the last rank. One may give rank 0 fewer layers, or compute activations again on the way
# back in place of keeping them ([lab 14](14_mixed_precision_and_memory.ipynb)).</details>
#
# ## 3. On real ranks
# Now a plan is run with real messages. `work` does the arithmetic of this rank's stage. It takes
# and gives tensors on this rank's device, which `comm` carries as they are:
#
# | call | what it does |
# |---|---|
# | `work.room_for_entering(number)` | an empty tensor, to receive what enters this stage |
# | `work.forward(number, entering)` | the way forward; returns what leaves, to be sent to the next rank |
# | `work.room_for_gradient(number)` | an empty tensor, to receive a gradient from the next rank |
# | `work.backward(number, gradient)` | the way back; returns the gradient to be sent to the rank before |
#
# The first rank gives `None` for entering and sends nothing back; the last gives `None` for the
# gradient and sends nothing on.
#
# There is a trap. A long `Send` waits until the receiver asks (lab 20). In 1F1B rank 0 may be
# sending F 1 to rank 1, while rank 1 is sending the gradient of B 0 to rank 0: both wait for ever.
# So send with `Isend`, which returns a *request* at once, keep the requests, and wait for all of
# them at the end:
#
#     pending.append(comm.Isend(tensor, dest=1, tag=number))
#     ...
#     for request in pending:
#         request.Wait()
#
# The `tag` is a number on the envelope: `Recv(tensor, source=0, tag=3)` takes only a message with
# tag 3.
#
# ### Exercise 63.3 · Run a plan
# Do the actions of `plan`, a list for this rank, in order. About 16 lines. *(advanced)* The check
# starts up to twelve small jobs: half a minute.
#
# When it passes, put `comm.Send(…)` in place of **both** `pending.append(comm.Isend(…))` and run it
# again: with long messages that is the hang. One of the two is not enough: then only one of two
# neighbours waits. Then put the two `Isend` back.
#
# <details><summary>Hint 1: one action</summary>
#
# For "F": receive what enters, if this is not rank 0; compute; send what leaves, if this is not the
# last rank. "B" is the same with the neighbours the other way round.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# ```python
# if kind == "F":
#     entering = None
#     if comm.rank > 0:
#         entering = work.room_for_entering(number)
#         comm.Recv(entering, source=comm.rank - 1, tag=number)
#     leaving = work.forward(number, entering)
#     if comm.rank < comm.size - 1:
#         pending.append(comm.Isend(leaving, dest=comm.rank + 1, tag=number))
# ```
# </details>

# %%
def run_plan(comm, plan, work):
    """Do this rank's plan, a list of ("F", number) and ("B", number), with its stage's `work`."""
    raise NotImplementedError("exercise 63.3: Run a plan")


# %%
# Asked: The gradients and the loss of one process, for both plans, with short
# and with long messages.
check("63.3", run_plan)

# %% [markdown]
# ### Predict
# 4 ranks, 8 micro-batches. On rank 0, how many times as many bytes does GPipe hold for the way back
# as 1F1B does? And which share of the time is idle, on real ranks with real messages?

# %%
predict("63.3", bytes_gpipe_over_1f1b=..., idle=...)  # two numbers

# %% [markdown]
# ### Measure: memory
# Real arithmetic, and PyTorch is asked for every tensor that it keeps for the way back. Where each
# rank has a GPU to itself, the stages are there, and NCCL, NVIDIA's library for messages between
# GPUs, carries what `run_plan` sends; otherwise tensors stay in host memory and MPI carries them.

# %%
size = min(ranks, 4)
micro = max(counts)
held = {}
for name, plan_of in (("GPipe", gpipe), ("1F1B", one_f_one_b)):
    results = launch.run(
        lab63.train_plan, run_plan, plan_of(size, micro), micro, width, 512, ranks=size, threads=1
    )
    held[name] = [result["bytes"] for result in results]
    device = results[0]["device"]
    record.add("memory", ranks=size, plan=name, micro=micro, bytes=held[name], trained_on=device)
table = pandas.DataFrame(held, index=pandas.Index(range(size), name="rank")) / 1e6
print(f"Most megabytes held for the way back, {device} on rank 0:", table.round(2), sep="\n")

# %% [markdown]
# ### Measure: the bubble
# This machine may have fewer cores than there are ranks; then ranks would wait for cores, not for
# each other. So each stage has a stand-in device that needs no core: it *sleeps*. Ranks and
# messages are real. For each number of micro-batches three runs; the middle one counts, and the
# bars show the others. About 15 s on a free machine.

# %%
idle = {}
for micro in counts:
    plans = one_f_one_b(size, micro)
    runs = [
        launch.run(lab63.sleep_through, run_plan, plans, nap, 2 * nap, ranks=size, threads=1)[0]
        for _ in range(3)
    ]
    idle[micro] = [100 * run.idle for run in runs]
    record.add("bubble", ranks=size, micro=micro, idle=float(np.median(idle[micro])) / 100)
formula = {micro: 100 * (size - 1) / (micro + size - 1) for micro in counts}
plots.lines(
    {"measured on real ranks": idle, "(p - 1) / (m + p - 1)": formula},
    xlabel="micro-batches",
    ylabel="% idle",
    title=f"The bubble of {size} ranks",
    logx=True,
)
predict.compare(
    "63.3",
    bytes_gpipe_over_1f1b=held["GPipe"][0] / held["1F1B"][0],
    idle=float(np.median(idle[max(counts)])) / 100,
)

# %%
last = max(runs, key=lambda run: -run.time)
lab63.draw({f"Measured, 1F1B, {max(counts)} micro-batches": last}, unit="seconds", name="measured")

# %% [markdown]
# **Explain.** Measured and computed agree, and the measured bubble is a little larger. Likely
# causes are messages, Python, and naps that do not all last equally long, so that others wait; each
# is met more often with more micro-batches. Nothing here tells them apart. The memory agrees with
# what you counted: m in flight against p on rank 0. Compare a rank with itself, not with others:
# rank 0 keeps less for each micro-batch, since what enters it are the small pictures, and the last
# rank has two blocks.
#
# You may see a much larger bubble, with a wide bar: then something else keeps this machine's cores
# busy, and a rank that has slept enough is not woken at once.
#
# ## 4. Going further: PyTorch's own
# `torch.distributed.pipelining` has these plans: `ScheduleGPipe`, `Schedule1F1B`,
# `ScheduleInterleaved1F1B` and some newer ones that split the way back in two ("zero bubble"). On
# each rank:
#
# ```python
# stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
# schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=functional.cross_entropy)
# schedule.step(pictures)  # on rank 0; schedule.step(target=labels, losses=losses) on the last rank
# ```
#
# Its gradients are those of one process, too. In practice you take it; now you know what its names
# mean, and which bubble and which memory to expect.
#
# ### What you take away
# - Cutting the batch fills the pipe: (p - 1) / (m + p - 1) of the time stays idle.
# - 1F1B has GPipe's bubble and less memory: p micro-batches in flight, not m.
# - Smaller pieces of the net make the bubble smaller, for more messages.
# - Send with `Isend`: two stages that send to each other would wait for ever.
