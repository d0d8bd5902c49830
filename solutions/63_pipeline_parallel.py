# %% [markdown]
# # 63 Pipeline parallelism
#
# If a network is partitioned into stages, as in lab 62, only one rank computes at a time while all
# others wait. **Pipeline parallelism** reduces the waiting. The batch is divided into several small
# batches, so that a rank can process one of them while the next rank processes the previous one.
# How much idle time remains, and how much memory is needed, depends on the **schedule**, the order
# in which each rank does its forward and backward passes. Training systems for large language
# models offer several schedules and expect you to choose one by its name.
#
# In this lab we write two common schedules, GPipe and 1F1B, compute their idle time and memory, and
# run a schedule on real ranks. Then we measure whether idle time and memory are as computed.
#
# **After this lab you can** (1) write the schedules of GPipe and 1F1B, (2) say how much of the time
# they leave idle and how much memory they need, (3) run a schedule on real ranks, and (4) tell
# which change reduces idle time and which reduces memory.
#
# ![Schedules of GPipe and 1F1B on three ranks with four micro-batches. Both have the same idle time; 1F1B starts the first backward pass as early as possible](63_schedules.svg)
#
# *Two schedules with the same idle time (white). With 1F1B (bottom), rank 0 never keeps the
# activations of more than three micro-batches. With GPipe (top), it keeps those of all four.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Level: advanced · Before: 20, 62

# %%
import numpy as np
import pandas
from labkit import check, hint, lab, launch, plots, predict, record
from support import lab63

lab.start("63_pipeline_parallel")
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
counts = (1, 2, 4, 8)  # micro-batches that are tried
nap = 0.02  # seconds for which a stage of the measurement sleeps in a forward pass
width = 512  # features between two stages of the network in the check
patience = 20  # seconds after which a check calls a program stuck

# %% [markdown]
# ## 1. A schedule for every rank
# The batch of a step is divided into **micro-batches**, numbered from 0. When rank 0 has sent the
# first one to rank 1, it can begin with the next. The gradients of all micro-batches are added up,
# and the weights change once, at the end of the step. If the loss of each micro-batch is divided by
# their number, our network learns the same as without micro-batches, up to rounding. (With batch
# normalization or dropout it would not.)
#
# The schedule of a rank is written as a list of actions. `("F", 0)` is the forward pass of
# micro-batch 0 through this rank's stage, and `("B", 0)` is its backward pass. A rank does its
# actions in order, and waits for data that is not there yet:
#
# - F of a micro-batch needs the activations from the *previous* rank.
# - B needs the gradient from the *next* rank. On the last rank it needs only the F of the same
#   micro-batch.
#
# **GPipe** ([Huang et al., 2018](@huang2019)) is the simplest schedule: every rank does the forward
# passes of all micro-batches in order, and then all backward passes in the same order (in the
# paper's figure, in the reverse order). For example, with two micro-batches the schedule of a rank
# is `[("F", 0), ("F", 1), ("B", 0), ("B", 1)]`.
#
# ### Exercise 63.1 · GPipe's schedule
# Return a list with one schedule for each of `ranks` ranks, for `micro` micro-batches. 2 or 3
# lines. *(beginner)*
#
# <details><summary>Hint 1: one rank</summary>
#
# `[("F", number) for number in range(micro)]` is the first half of each rank's schedule.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Add the same list with "B", and call the two lists together `schedule`. All ranks have the same
# one, so return `[schedule for rank in range(ranks)]`.
# </details>


# %%
def gpipe(ranks, micro):
    """GPipe's schedules: for each rank a list of ("F", number) and ("B", number)."""
    ### BEGIN SOLUTION
    schedule = [("F", number) for number in range(micro)]
    schedule += [("B", number) for number in range(micro)]
    return [list(schedule) for _ in range(ranks)]
    ### END SOLUTION


# %%
check("63.1", gpipe)

# %% [markdown]
# ### A plot of the schedule
# `lab63.play` simulates the schedules of all ranks. A forward pass takes 1 unit of time, a backward
# pass takes 2 (lab 02), and a message takes no time. In the plot each row is a rank, and the
# numbers are those of the micro-batches. The empty spaces are called the **bubble**.

# %%
drawn = {f"micro-batches: {micro}": lab63.play(gpipe(4, micro)) for micro in (1, 4)}
lab63.draw(drawn, name="gpipe", idle=False)

# %% [markdown]
# ### Predict
# In the two plots, compare how long a rank waits with how long it computes, from the first forward
# pass of rank 0 to its last backward pass. What share of the time is idle for 4 ranks and 1, 4 and
# 16 micro-batches?

# %%
predict("63.1", idle_1=..., idle_4=..., idle_16=...)  # three numbers between 0 and 1

# %%
played = {micro: lab63.play(gpipe(4, micro)).idle for micro in (1, 4, 16)}
predict.right("63.1", idle_1=played[1], idle_4=played[4], idle_16=played[16])
print("Played:  ", {micro: round(idle, 3) for micro, idle in played.items()})
print("Formula: ", {micro: round(3 / (micro + 3), 3) for micro in played}, "(p - 1) / (m + p - 1)")

# %% [markdown]
# **Explain.** With p ranks and m micro-batches, the last rank waits for p − 1 forward passes before
# it can begin, and it finishes p − 1 backward passes before rank 0 does. Each other rank waits as
# long in all, although at other times. Waiting therefore takes as long as p − 1 micro-batches, work
# takes as long as m, and (p − 1) / (m + p − 1) of the time is idle.


# %%
# Move the sliders: which choices have the same share of idle time?
def draw_schedule(ranks, micro):
    title = f"{ranks} ranks, {micro} micro-batches"
    lab63.draw({title: lab63.play(gpipe(ranks, micro))}, name="chosen_schedule")


plots.slider(draw_schedule, ranks=(2, 3, 4, 5, 9), micro=(2, 4, 6, 12, 16))

# %% [markdown]
# Two choices of ranks and micro-batches have the same idle share if their ratio (p − 1)/m is the
# same, as for 3 ranks with 6 micro-batches and 5 ranks with 12. Twice as many micro-batches
# therefore help as much as halving p − 1. The bubble becomes smaller but never disappears. An idle
# share of 10 %, for example, needs m = 9 (p − 1), which is 27 micro-batches for 4 ranks.
#
# Why not divide the batch into single images, then?
# <details><summary>Answer</summary>
#
# Small micro-batches compute less efficiently, because a matrix product with one row moves as many
# weights as one with a hundred rows (lab 12). In addition, a layer such as batch normalization sees
# only its micro-batch.
# </details>
#
# ## 2. Memory: one forward, one backward
# From its F until its B, a micro-batch occupies memory for its saved activations, which the
# backward pass needs (lab 02). Such a micro-batch is **in flight**. This function counts the
# maximum number in flight at once. Each F adds one, and each B removes one:


# %%
def most_in_flight(schedule):
    """The most micro-batches whose backward pass is still to come, at any time of a rank's
    schedule."""
    now = 0
    most = 0
    for kind, *_ in schedule:
        now += 1 if kind == "F" else -1
        most = max(most, now)
    return most


# %% [markdown]
# With GPipe all m micro-batches are in flight before the first backward pass. With the 27
# micro-batches that reduced the bubble to 10 %, a rank keeps 27 sets of activations, although it
# works on one at a time.
#
# **1F1B** ("one forward, one backward") begins each backward pass as early as possible. It comes
# from [PipeDream](@harlap2018), and we use it with a *flush*, which means that all backward passes
# are finished before the weights change. Rank r of p does:
#
# 1. a *warm-up* of as many F as there are later ranks, p − 1 − r (or m, if that is less);
# 2. then alternately one F and one B, as long as there are F left;
# 3. then the remaining B.
#
# Each kind of action goes through the micro-batches in order: 0, 1, 2, … For example, rank 1 of 3
# with four micro-batches does F0, then F1 B0 F2 B1 F3 B2, and then B3.
#
# ### Exercise 63.2 · The 1F1B schedule
# Return the schedules of all ranks. About 9 lines. *(intermediate)*
#
# <details><summary>Hint 1: three parts of a list</summary>
#
# For each rank: `warm = min(micro, ranks - 1 - rank)`. The first part is F of 0 to warm − 1.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The second part is
# `for number in range(warm, micro): schedule += [("F", number), ("B", number - warm)]`, and the
# third part is B of `micro - warm` to `micro - 1`.
# </details>


# %%
def one_f_one_b(ranks, micro):
    """1F1B's schedules: for each rank a list of ("F", number) and ("B", number)."""
    ### BEGIN SOLUTION
    schedules = []
    for rank in range(ranks):
        warm = min(micro, ranks - 1 - rank)
        schedule = [("F", number) for number in range(warm)]
        for number in range(warm, micro):
            schedule += [("F", number), ("B", number - warm)]
        schedule += [("B", number) for number in range(micro - warm, micro)]
        schedules.append(schedule)
    return schedules
    ### END SOLUTION


# %%
check("63.2", one_f_one_b)

# %% [markdown]
# ### Three schedules
# The next cell simulates GPipe and your 1F1B with 3 ranks and 6 micro-batches. The third plot is
# [interleaved 1F1B](@narayanan2021) from Megatron-LM. It divides the network into six parts of half
# the size, the *model chunks*, and gives each rank *two* of them. Rank 0 has chunks 0 and 3, rank 1
# has 1 and 4, and rank 2 has 2 and 5. Compare the idle time in the plots, and the printed numbers
# of micro-batches in flight and of messages.

# %%
chunked = "Interleaved, two chunks"
schedules = {"GPipe": gpipe(3, 6), "1F1B": one_f_one_b(3, 6)}
schedules[chunked] = lab63.interleaved(3, 6, 2)
played = {name: lab63.play(schedules[name]) for name in ("GPipe", "1F1B")}
# A chunk is half of a stage, so its passes take half as long.
played[chunked] = lab63.play(schedules[chunked], forward=0.5, backward=1.0)
lab63.draw(played, name="three_schedules")
flying = {name: [most_in_flight(own) for own in all_ranks] for name, all_ranks in schedules.items()}
print("Most in flight (interleaved: chunks of half the size):")
print(pandas.DataFrame(flying).rename_axis("rank"))
# Each action sends one message, except the forward passes of the network's last stage and the
# backward passes of its first.
messages = {name: sum(map(len, all_ranks)) - 2 * 6 for name, all_ranks in schedules.items()}
print("Messages in a step:", messages)

# %% [markdown]
# **Explain.** In this simulation, 1F1B has exactly the same bubble as GPipe. In both, rank 2 begins
# after two forward passes, works without a gap, and ends two backward passes before rank 0. What
# 1F1B saves is **memory**: rank r has at most p − r micro-batches in flight, however many there are
# in all.
#
# The interleaved schedule has a smaller bubble, because a chunk takes half as long, and filling the
# pipeline takes half as long, too. This has two prices:
#
# - There are 60 messages instead of 24.
# - On rank 0, 8 chunks of half the size are in flight. They need as much memory as 4 micro-batches
#   of a whole stage, compared with 3 in 1F1B.
#
# Which rank needs the most memory with 1F1B, and what can you do about it?
# <details><summary>Answer</summary>
#
# If all stages are equal, it is rank 0, with p micro-batches in flight, while the last rank has
# one. You can give rank 0 fewer layers, or compute activations again in the backward pass instead
# of keeping them (lab 14), as the GPipe library does.
# </details>
#
# ## 3. On real ranks
# Now a schedule runs with real messages. The argument `work` does the arithmetic of this rank's
# stage. It takes and returns tensors on this rank's device, and `comm` sends them from there.
#
# | call | what it does |
# |---|---|
# | `work.room_for_entering(number)` | a new tensor, to receive the input of this stage |
# | `work.forward(number, entering)` | the forward pass; returns the output, which is sent to the next rank |
# | `work.room_for_gradient(number)` | a new tensor, to receive a gradient from the next rank |
# | `work.backward(number, gradient)` | the backward pass; returns the gradient for the previous rank |
#
# The first rank passes `None` for entering and does not send a gradient. The last rank passes
# `None` for the gradient and does not send activations. On rank 1 of 3, for example, `("F", 5)`
# means to receive the input of micro-batch 5 from rank 0, to call `work.forward`, and to send the
# output to rank 2.
#
# A `Send` in each action would be a mistake, because a long `Send` waits until the receiver asks
# for the message (lab 20). In 1F1B on two ranks, rank 0 may be sending the activations of
# micro-batch 1 to rank 1 while rank 1 is sending the gradient of micro-batch 0 to rank 0. Then both
# wait forever.
#
# Therefore send with `Isend`, which returns a *request* at once, keep the requests, and wait for
# all of them at the end:
#
#     pending.append(comm.Isend(tensor, dest=1, tag=number))
#     ...
#     for request in pending:
#         request.Wait()
#
# The `tag` is a number that is sent with the message, and `Recv(tensor, source=0, tag=3)` accepts
# only a message with tag 3. With the micro-batch's number as its tag, a message cannot be taken for
# that of another micro-batch.
#
# ### Exercise 63.3 · Run a schedule
# Do the actions of `schedule`, the list for this rank, in order. About 16 lines. *(advanced)* The
# check runs 1F1B, and GPipe with its backward passes in the reverse order, on 1 to 4 ranks. This
# can take half a minute.
#
# <details><summary>Hint 1: one action</summary>
#
# For "F": receive the input if this is not rank 0, compute, and send the output if this is not the
# last rank. "B" is the same with the neighbors exchanged.
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
def run_schedule(comm, schedule, work):
    """Do this rank's schedule, a list of ("F", number) and ("B", number), with `work`."""
    ### BEGIN SOLUTION
    # Across ranks: what leaves goes to the next rank, its gradient comes back from there.
    pending = []
    for kind, number in schedule:
        if kind == "F":
            entering = None
            if comm.rank > 0:
                entering = work.room_for_entering(number)
                comm.Recv(entering, source=comm.rank - 1, tag=number)
            leaving = work.forward(number, entering)
            if comm.rank < comm.size - 1:
                pending.append(comm.Isend(leaving, dest=comm.rank + 1, tag=number))
        else:
            gradient = None
            if comm.rank < comm.size - 1:
                gradient = work.room_for_gradient(number)
                comm.Recv(gradient, source=comm.rank + 1, tag=number)
            back = work.backward(number, gradient)
            if comm.rank > 0:
                pending.append(comm.Isend(back, dest=comm.rank - 1, tag=number))
    for request in pending:
        request.Wait()
    ### END SOLUTION


# %%
check("63.3", run_schedule)

# %% [markdown]
# ### Try: the deadlock
# Replace **both** `pending.append(comm.Isend(…))` with `comm.Send(…)`, and run both cells again.
# With long messages this is the deadlock described above, and after 20 s the check reports that the
# program is stuck. Replacing only one of them is not enough, because then only one of two neighbors
# waits. Afterwards restore the two calls of `Isend`.
#
# ### Predict
# Take 4 ranks and 8 micro-batches. On rank 0, how many times as many bytes does GPipe keep for the
# backward pass as 1F1B does? And with 1F1B, what share of the time is idle, on real ranks with
# real messages?

# %%
predict("63.3", bytes_gpipe_over_1f1b=..., idle=...)  # two numbers

# %% [markdown]
# ### Measure: memory
# This run does real arithmetic, and asks PyTorch for every tensor that it keeps for the backward
# pass. If each rank has its own GPU, its stage is on that GPU, and [NCCL](@nccl), NVIDIA's library
# for messages between GPUs, sends the messages of `run_schedule`. Otherwise tensors stay in host
# memory and MPI sends them.

# %%
size = min(ranks, 4)
micro = max(counts)
images = 512  # in the whole batch
held = {}
for name, schedule_of in (("GPipe", gpipe), ("1F1B", one_f_one_b)):
    own = schedule_of(size, micro)
    results = launch.run(
        lab63.train_schedule, run_schedule, own, micro, width, images, ranks=size, threads=1
    )
    held[name] = [result["bytes"] for result in results]
    device = results[0]["device"]
    record.add(
        "memory", ranks=size, schedule=name, micro=micro, bytes=held[name], trained_on=device
    )
table = pandas.DataFrame(held, index=pandas.Index(range(size), name="rank")) / 1e6
print(f"Most megabytes held for the backward pass, {device} on rank 0:", table.round(2), sep="\n")

# %% [markdown]
# ### Measure: the bubble
# This machine may have fewer cores than ranks, and then ranks would wait for cores and not for each
# other. Therefore each stage uses an emulated device that *sleeps* instead of computing, which
# needs hardly any CPU time. The ranks and the messages are real. The plot shows the median of three
# runs for each number of micro-batches, and each bar goes from the lowest to the highest of the
# three. This takes about 15 s if no other program runs.

# %%
idle = {}
for micro in counts:
    schedules = one_f_one_b(size, micro)
    runs = [
        launch.run(
            lab63.sleep_through, run_schedule, schedules, nap, 2 * nap, ranks=size, threads=1
        )[0]
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
fastest = min(runs, key=lambda run: run.time)
title = f"Measured, 1F1B, {max(counts)} micro-batches, fastest of {len(runs)} runs"
lab63.draw({title: fastest}, unit="seconds", name="measured")

# %% [markdown]
# **Explain.** *Memory.* On rank 0, GPipe keeps twice as many bytes, because it has m = 8
# micro-batches in flight and 1F1B has p = 4. Compare a rank only with itself, because the stages
# differ. For example, rank 0 has small images as its input.
#
# *Bubble.* By the formula, 3 / 11 = 27 % is idle with 8 micro-batches. The measured medians should
# be slightly larger. Likely causes, which this measurement does not distinguish, are messages,
# Python, and sleeps of unequal length. If a bubble is much larger and its bar is wide, probably
# other programs keep the cores busy, so that a rank does not continue at once after its sleep.
#
# ### What you take away
# - Micro-batches fill the pipeline, and (p − 1) / (m + p − 1) of the time remains idle.
# - 1F1B has the bubble of GPipe and needs less memory, with at most p micro-batches in flight
#   instead of m.
# - Smaller model chunks make the bubble smaller, at the price of more messages and more memory.
# - Send with `Isend`, because two stages that send to each other may otherwise wait forever.
#
# ## Going further (optional): PyTorch's own schedules
# [`torch.distributed.pipelining`](@pytorch_pipeline) offers these schedules: `ScheduleGPipe`,
# `Schedule1F1B`, `ScheduleInterleaved1F1B`, and some newer ones that split the backward pass in two
# ("zero bubble"). On each rank:
#
# ```python
# stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
# schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=functional.cross_entropy)
# schedule.step(images)  # on rank 0; schedule.step(target=labels, losses=losses) on the last rank
# ```
#
# In practice you would use this library. Now you know the schedules behind its names, and how large
# a bubble and how much memory to expect.
#
# ### Further reading
# - [@huang2019] GPipe: micro-batches, and recomputation of activations.
# - [@harlap2018] PipeDream, where 1F1B comes from.
# - [@narayanan2021] Interleaved 1F1B, and how pipelines combine with tensor and data parallelism.
# - [@pytorch_pipeline] PyTorch's schedules, with the newer ones.
