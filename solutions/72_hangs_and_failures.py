# %% [markdown]
# # 72 Hangs and failures
#
# A training job on many ranks often fails without an error message. One rank waits for a disk or
# takes another branch of the code, all other ranks wait for it in a collective, and the job hangs
# until its time limit. With a hundred ranks, it is hard to see which one caused this. In other
# failures the job does not stop at all, but keeps computing with wrong numbers.
#
# In this lab we produce real failures on three ranks, read the evidence that they leave behind, and
# fix their causes. First one rank is missing from a collective, then the ranks call different
# collectives, then their shards have unequal lengths, and finally one rank computes a NaN (not a
# number). The parts that are marked as optional take about 35 more minutes.
#
# **After this lab you can** (1) name the rank for which all other ranks wait, and the line in which
# it is, (2) find the first collective call that does not match the calls of the other ranks,
# (3) train on uneven shards, and (4) find the first NaN, and skip a step on all ranks together.
#
# ![Left: ranks 0 and 2 wait in an allreduce while rank 1 is still reading a file. Right: rank 1 makes one extra call, a broadcast, so all its later calls are paired with the wrong calls of ranks 0 and 2](72_hang.svg)
#
# *Two kinds of hang. Left: one rank is missing from the allreduce, because it is still reading a
# file. Right: all ranks are in a collective, but rank 1 has made an additional call, the broadcast,
# so from the second calls on, the calls of the ranks no longer match.*
#
# Needs: mpi, horovod, torch · Ranks: 1 · Minutes: 65 · Level: advanced · Before: 21, 30, 40, 60

# %%
from fcntl import LOCK_EX, flock

import horovod.torch as hvd
import torch
import torch.distributed as dist
from labkit import check, hint, lab, launch, predict
from support import lab72

lab.start("72_hangs_and_failures")

# %% tags=["parameters"]
mystery = 1  # which faults you meet: any number from 0 on
patience = 40  # seconds after which a check calls a program stuck

# %% [markdown]
# The failures in this lab are real. The notebook itself is one process, and `lab72.play` starts
# three ranks on this computer, lets them fail, inspects them from outside, and ends them. The ranks
# form a process group of [`torch.distributed`](@pytorch_distributed) over the backend
# [Gloo](@gloo).
#
# The rank, the step and the line at fault are drawn from your user name, your computer and
# `mystery`, so your neighbor usually gets other faults.
#
# ## 1. All ranks wait: who is missing?
# The function `epoch` below is one epoch of data-parallel training, in which each rank reads its
# own shard, a list of files. To keep it short, it has no neural network, and the gradient of a step
# is simply the length of a file.
#
# After each step the rank prints to a log and appends a row to a table. Other programs write to
# this table, too, so `flock` waits until no other program holds a lock on that file.


# %%
def epoch(files, log, table):
    """An epoch on one rank. files: its shard. log: an open file. table: a path."""
    for number, file in enumerate(files):
        gradient = torch.tensor([float(len(file.read_bytes()))])
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
        print(number, gradient.item(), file=log, flush=True)
        with table.open("a") as lines:
            flock(lines, LOCK_EX)
            lines.write(f"{number} {gradient.item()}\n")
    dist.barrier()


# %% [markdown]
# Suppose that one rank does not arrive at its next `all_reduce`. All other ranks wait for it
# silently in their own `all_reduce`. Unless you set another limit, they wait for half an hour over
# Gloo and for ten minutes over [NCCL](@nccl) (NVIDIA Collective Communications Library).
#
# The tool [py-spy](@py_spy) shows from outside in which line a running Python process is, for
# example with `py-spy dump --pid 4711`. You don't need to prepare the process for it. py-spy prints
# the process's **stack**, which is the list of functions that have been called and have not yet
# returned. For example, this rank is in line 7 of a function `copy`, which called `sleep` of
# another file:
#
#     rank 0 waits (seen by py-spy)
#         sleep (tools/waiting.py:15)
#         copy (work/copying.py:7)
#
# The next cell prints `epoch` with its line numbers, runs it on three ranks until none makes
# progress, and prints their stacks. Read each stack from the bottom up. The last entry is `epoch`,
# with the number of the line in which the rank is, and the entries above it are the functions that
# this line has called. The cell takes about 10 s, because it also runs three more jobs with other
# faults, which the check of your exercise will use.

# %%
lab72.show_program(epoch)
faults = lab72.fresh(lab72.Hang, mystery)
hangs = lab72.play([lab72.Job(epoch, fault, py_spy=fault == faults[0]) for fault in faults])
lab72.show_stacks(hangs[0])

# %% [markdown]
# ### Predict
# For which rank do the others wait, and in which line of `epoch` is that rank? Give the line's
# number in the listing above. You don't have to guess, because the stacks above tell you.

# %%
predict("72.1", rank=..., line=...)

# %%
predict.right("72.1", rank=faults[0].rank, line=lab72.line_of(epoch, faults[0]))

# %% [markdown]
# **Explain.** Two ranks are in the same line, which is a collective, and these ranks are healthy.
# The third rank is in another line, and the others wait for it. Its line tells what was broken:
#
# | on the line with | what was broken | how to fix it |
# |---|---|---|
# | `read_bytes` | the disk or the network file system does not answer | read from a copy on a local disk |
# | `print` | the log is a pipe, which is full because its reader has stopped | give each rank its own log file |
# | `flock` | another program holds the lock, perhaps a job that has died | write one file per rank |
# | `dist.barrier` | this rank's shard is shorter, so it finished earlier | let all ranks stop after the shortest shard |
#
# With 1,000 ranks it is not practical to read 1,000 stacks. Therefore write down the rule that you
# have just used as a function.
#
# ### Exercise 72.1 · The odd one out
# Write `odd_one_out(stacks)`. Return the rank whose line of `epoch` no other rank shares, together
# with that line: `return rank, line`.
#
# `stacks[rank]` is a list of **frames**, one for each function of the stack, and a frame has a
# `.line`. The list begins with the function that was called first, so `stacks[rank][0]` is the
# frame of `epoch`. (The printed stacks are in the opposite order.)
#
# For example, if five ranks are in lines 5, 12, 9, 12 and 5 of `epoch`, the answer is `(2, 9)`,
# because rank 2 alone is in line 9. About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: one number for each rank</summary>
#
# `lines = [stack[0].line for stack in stacks]` contains the line of each rank, and `lines.count(7)`
# says how often 7 is in it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min(range(len(lines)), key=lambda rank: lines.count(lines[rank]))` is the rank whose line occurs
# least often in the list.
# </details>


# %%
def odd_one_out(stacks):
    """(rank, line) of the rank whose line no other rank shares. stacks: by rank, frames, outermost
    first."""
    ### BEGIN SOLUTION
    lines = [stack[0].line for stack in stacks]
    rank = min(range(len(lines)), key=lambda rank: lines.count(lines[rank]))
    return rank, lines[rank]
    ### END SOLUTION


# %%
check("72.1", odd_one_out)

# %% [markdown]
# With only two ranks, no rank shares its line, so counting does not help. Look at the lines
# instead, because the rank that does not wait in a collective keeps the other one waiting. If both
# ranks wait in collectives, you need section 2.
#
# ### Remove the causes (optional)
# The rest of this section removes the four causes. It takes about 10 more minutes. You can also go
# on with section 2.
#
# The table of causes above has a fix for each of them. In three fixes, each rank uses its own files
# on a local disk. For the fourth cause, every rank has to stop after the shortest shard, but a rank
# knows only the length of its own shard. If each rank puts this length into a tensor `fewest`, an
# allreduce tells all ranks the smallest value:
#
#     dist.all_reduce(fewest, op=dist.ReduceOp.MIN)
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | `fewest` before, the rank's number of files | 5 | 5 | 3 |
# | `fewest` afterwards | 3 | 3 | 3 |
#
# ### Exercise 72.2 · Local files, and as many as the shortest shard (optional)
# `mend(files, log, table, nearby)` runs on each rank before `epoch`, and returns what `epoch` gets
# in place of `files`, `log` and `table`. `nearby` is a folder on this rank's own disk, with a copy
# of each of the rank's files. The new log and table, also in this folder, are given. Write the list
# `copies`, with the paths of the copies:
#
# - Include only the first files, as many as the shortest shard has. You can slice a list with a
#   tensor: `files[:fewest]`.
# - The copy of a file is `nearby / file.name`. (`nearby / file` would be the original file.)
#
# About 2 lines. *(beginner)*
#
# <details><summary>Hint 1: the smallest shard</summary>
#
# Call the `all_reduce` above. After it, `files[:fewest]` are the files that remain.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `copies` is `[… for file in files[:fewest]]`, with the path of one copy in place of the dots.
# </details>


# %%
def mend(files, log, table, nearby):
    """What epoch is given on this rank instead of files, log, table. nearby: a folder with
    copies."""
    fewest = torch.tensor(len(files))
    ### BEGIN SOLUTION
    # Across ranks: as many steps as the shortest shard allows.
    dist.all_reduce(fewest, op=dist.ReduceOp.MIN)
    copies = [nearby / file.name for file in files[:fewest]]
    ### END SOLUTION
    return copies, (nearby / "log").open("w"), nearby / "table"


# %%
check("72.2", mend)

# %% [markdown]
# ## 2. All ranks are in a collective, and wait
# MPI (Message Passing Interface) and `torch.distributed` do not identify tensors by name. They pair
# **the first call of each rank, then the second call of each rank, and so on**. If a rank makes one
# call too many or too few, its calls no longer match the others' from that call on. If it makes two
# calls in another order, these two do not match.
#
# In the function below, a batch's loss and its list of statistics decide which collectives a rank
# calls. (`"right"` is the number of right answers.)


# %%
def train(batches):
    """Steps on one rank. A batch says what its loss is, and which statistics are wanted after
    it."""
    gradient = torch.ones(6)
    loss = torch.ones(1)
    parts = [torch.zeros(2) for _ in range(dist.get_world_size())]
    for batch in batches:
        dist.all_reduce(gradient)
        if batch["loss"] > 100:  # it went wrong: begin again from rank 0
            dist.broadcast(gradient, src=0)
        for statistic in batch["statistics"]:
            if statistic == "right":
                dist.all_gather(parts, torch.ones(2))
            else:
                dist.reduce(loss, dst=0)
    dist.barrier()


# %% [markdown]
# The line in which a rank waits now may be a late consequence of an earlier mismatch,
# because some calls return before the other ranks have arrived. For example, `broadcast` can return
# on the rank that sends, and `reduce` on the ranks that do not get the result. We therefore need
# the list of all collectives that each rank has called, in order. PyTorch's [flight
# recorder](@flight_recorder) keeps this list, by default for the last 2,000 calls of a rank.
#
# The next cell runs `train` on three ranks until they hang, and prints their last calls, in one
# column for each rank. (It again runs further jobs for your exercise.) In this example,
# `all_reduce(6) line 8` is an allreduce of 6 numbers that was called in line 8:
#
#     call  rank 0                rank 1                rank 2
#        0  all_reduce(6) line 8  all_reduce(6) line 8  all_reduce(6) line 8
#        1  reduce(1) line 15     barrier(0) line 16    reduce(1) line 15
#
# Read the rows from top to bottom, and find the first one in which the calls are not all alike,
# here row 1. Rank 1 has left out `reduce`, so its next call, `barrier` in line 16, is paired with
# the others' `reduce`. The first call that does not match is therefore that of rank 1 in line 16.

# %%
lab72.show_program(train)
disorders = lab72.fresh(lab72.Disorder, mystery)
mixed_up = lab72.play([lab72.Job(train, fault) for fault in disorders])
lab72.show_records(mixed_up[0])

# %% [markdown]
# ### Predict
# Which rank was the first to make a call that does not match the calls of the other two? In which
# line of `train` did it make this call?

# %%
predict("72.3", rank=..., line=...)

# %%
predict.right("72.3", rank=disorders[0].rank, line=lab72.line_of(train, disorders[0]))

# %% [markdown]
# **Explain.** One batch was different on one rank. It made this rank take another path through the
# code, because each rank evaluates a condition such as `batch["loss"] > 100` with its *own*
# numbers. The line that you found tells how the batch in your job differs:
#
# | on the line with | this rank's batch |
# |---|---|
# | `dist.broadcast` | has a loss above 100 |
# | `dist.reduce` | has its statistics in another order |
# | `dist.all_reduce` | lacks a statistic, so the rank is already in its next step |
#
# ### Exercise 72.3 · The first call that does not fit
# Write `first_difference(records)`. `records[rank]` is the list of a rank's calls, in order. A
# record has `.call` ("all_reduce"), `.numbers` (6) and `.line`. The loop over the positions in
# these lists is given.
#
# At the first position where the ranks do not all have the same call with the same number of
# values, return the rank that differs from most others, and the line of *its* call. For the example
# above, the answer is `(1, 16)`.
#
# If all calls match as far as the shortest list goes, return `None`. A rank has then stopped
# between two collectives, as in most hangs of section 1. About 4 lines. *(intermediate)*
#
# <details><summary>Hint 1: do they differ?</summary>
#
# `kinds = [(call.call, call.numbers) for call in calls]` has one entry for each rank, and
# `len(set(kinds)) > 1` is true if the entries are not all alike.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The rank is the one whose entry occurs least often in `kinds`, as in 72.1. Return it with
# `calls[rank].line`, inside the loop.
# </details>


# %%
def first_difference(records):
    """(rank, line) of the first call that does not fit. records: by rank, the calls in order."""
    for calls in zip(*records, strict=False):  # calls[rank]: each rank's first call, its second, …
        ### BEGIN SOLUTION
        kinds = [(call.call, call.numbers) for call in calls]
        if len(set(kinds)) > 1:
            rank = min(range(len(kinds)), key=lambda rank: kinds.count(kinds[rank]))
            return rank, calls[rank].line
        ### END SOLUTION
    return None


# %%
check("72.3", first_difference)

# %% [markdown]
# ### Let the ranks agree
# To prevent such a hang, base each decision on numbers that are the same on all ranks. The cheapest
# are numbers that are reduced over all ranks anyway, because other numbers require an additional
# collective for each batch.
#
# Also, never let a `set` of names determine an order, because Python may iterate over such a set in
# a different order in each process. `sorted` returns an order that is the same on all ranks.
#
# ### One batch for all ranks (optional)
# In this part, the ranks agree on each batch of `train`. It takes about 10 more minutes. You can
# also go on with the next part, "Measure: in the wrong order, and no hang".
#
# If all ranks use the same loss and the same statistics in their conditions, their calls match. For
# example, two ranks with different batches agree on one batch:
#
# | | loss | statistics |
# |---|---|---|
# | batch of rank 0 | 2.0 | right, loss |
# | batch of rank 1 | 150.0 | loss, area |
# | agreed, on both ranks | 150.0 | area, loss, right |
#
# Both ranks now begin again from rank 0, because the agreed loss is above 100.
#
# ### Exercise 72.4 · One batch for all (optional)
# The check calls `agree(batch)` on each rank, for each batch in turn, and passes the returned batch
# to `train`. `everybody`, the list of all ranks' batches, is given.
#
# Return a new dict, which is the same on all ranks. Its `"loss"` is the largest loss of all ranks.
# Its `"statistics"` is the list of all statistics in at least one rank's list, once each, in
# alphabetical order. About 2 lines. *(intermediate)*
#
# <details><summary>Hint 1: all statistics that some rank wants</summary>
#
# `wanted = {name for other in everybody for name in other["statistics"]}` is a set of these names,
# in no particular order.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `max(other["loss"] for other in everybody)` is the largest loss. Return it in a dict with the keys
# `"loss"` and `"statistics"`.
# </details>


# %%
def agree(batch):
    """A batch that is the same on all ranks: the largest loss, all statistics that some rank
    wants."""
    # Across ranks: everybody sees everybody's batch; everybody[rank] is what that rank gave.
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, batch)
    ### BEGIN SOLUTION
    wanted = {name for other in everybody for name in other["statistics"]}
    return {"loss": max(other["loss"] for other in everybody), "statistics": sorted(wanted)}
    ### END SOLUTION


# %%
check("72.4", agree)

# %% [markdown]
# ### Measure: in the wrong order, and no hang
# A mismatch leads to a hang or an error only if the calls look different. In the next cell, two
# ranks add up the tensors `a` and `b`, but rank 1 swaps the two calls, which look alike:
#
# | | `a` | `b` | order of the calls |
# |---|---|---|---|
# | rank 0 | 1 | 10 | `a`, `b` |
# | rank 1 | 1 | 10 | `b`, `a` |
# | right sum | 2 | 20 | |
#
# As a control, the same program runs with [Horovod](@horovod), in which every tensor has a name.
# The cell takes about 10 s.

# %%
for rank, sums in enumerate(lab72.sums_in_another_order()):
    for library, (a, b) in sums.items():
        print(f"rank {rank}, {library:18} a = {a:3.0f}  b = {b:3.0f}")

# %% [markdown]
# **Explain.** `torch.distributed` adds `a` of one rank to `b` of the other, so both sums are 11,
# and it reports no error. **Such a failure is worse than a hang**, because the training run
# continues with wrong numbers.
#
# Horovod asks all ranks which tensors are ready and pairs them by name (lab 44). The order
# therefore does not matter, as long as each rank submits both tensors before it waits for one of
# them (with `hvd.allreduce_async`).
#
# ## 3. Uneven shards
# If you divide 3,125 batches among three ranks, one rank gets one batch fewer than the other two.
# This rank finishes first, and the others wait for it in their last allreduce.
#
# Horovod notices this with its **stall check**, because rank 0 hears from all ranks which tensors
# are ready. Two environment variables set its limits:
#
# | environment variable | after this time | default | in the next cell |
# |---|---|---|---|
# | `HOROVOD_STALL_CHECK_TIME_SECONDS` | the stall check prints a warning | 60 s | 1 s |
# | `HOROVOD_STALL_SHUTDOWN_TIME_SECONDS` | the stall check ends the job | 0, which means never | 2 s |
#
# In the next cell, three ranks with only a few batches allreduce one tensor for each batch, with
# the names `step.0`, `step.1` and so on. The line below "Missing ranks" gives the number of a rank,
# and in brackets the tensors that this rank has not submitted. The cell takes about 10 s.

# %%
lengths = lab72.shards(mystery)
lab72.stall(lengths)

# %% [markdown]
# ### Predict
# Which rank is missing, and how many batches does it have?

# %%
predict("72.5", rank=..., batches=...)

# %%
predict.right("72.5", rank=lengths.index(min(lengths)), batches=min(lengths))

# %% [markdown]
# **Explain.** The tensor in brackets is the first for which the rank had no batch. If it is
# `step.3`, the rank has completed steps 0, 1 and 2, so it has three batches. The last line
# of the output names another rank, one that waited, because the missing rank itself raises no
# error.
#
# Horovod's solution is `hvd.join()`. A rank calls it when it has no more batches. From then on,
# this rank takes part in every allreduce with zeros. The call returns when all ranks have called
# `hvd.join()`.
#
# These zeros cause a problem, because `hvd.allreduce` *averages* by default, over all ranks. If one
# of three ranks has joined, and the other two contribute 3 and 5, the result is (3 + 5 + 0) / 3
# instead of the mean of 3 and 5. We therefore add up both the values and **the number of ranks that
# contribute a value**:
#
# | | rank 0 | rank 1 | rank 2, which has joined | sum |
# |---|---|---|---|---|
# | value | 3 | 5 | 0 | 8 |
# | number of ranks that contribute | 1 | 1 | 0 | 2 |
#
# The average is 8/2 = 4. For a sum instead of an average, call `hvd.allreduce` with `op=hvd.Sum`:
#
#     total = hvd.allreduce(tensor, op=hvd.Sum, name=name)
#
# ### Exercise 72.5 · Averages over those who are still there
# `gradients` is this rank's list of tensors of 3 numbers each, one tensor for each of its batches.
# Another rank may have more tensors, or none at all.
#
# Put into `results` the average of each of *this rank's* gradients, over the ranks that have a
# gradient in that step. No rank may hang. The loop is given. Write 2 or 3 lines in the loop, in
# place of the first `raise`, and one line below the loop, in place of the second.
# *(intermediate)*
#
# <details><summary>Hint 1: how many ranks contribute?</summary>
#
# Append a 1 to the gradient: `torch.cat([gradient, torch.ones(1)])` has four numbers. In the sum,
# the last of them is the number of ranks that contributed a gradient, because a rank that has
# joined sends zeros.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `total = hvd.allreduce(torch.cat(…), op=hvd.Sum, name=name)`, and the average is
# `total[:3] / total[3]`. After the loop: `hvd.join()`.
# </details>


# %%
def averages(gradients):
    """The average of each step, over the ranks that have a gradient in it: a list, as long as
    gradients."""
    results = []
    for step, gradient in enumerate(gradients):
        name = f"step.{step}"
        ### BEGIN SOLUTION
        counted = torch.cat([gradient, torch.ones(1)])
        total = hvd.allreduce(counted, op=hvd.Sum, name=name)
        results.append(total[:3] / total[3])
        ### END SOLUTION
    ### BEGIN SOLUTION
    hvd.join()
    ### END SOLUTION
    return results


# %%
check("72.5", averages)

# %% [markdown]
# It is simpler still to give all ranks the same number of samples. PyTorch's `DistributedSampler`
# does this by repeating some samples or, with `drop_last=True`, by leaving some out. For uneven
# shards, PyTorch's DDP (`DistributedDataParallel`) can also join: `with Join([model]):`.
#
# ## 4. NaN: which rank was first?
# A NaN results, for example, from 0 / 0 or from infinity minus infinity, and nearly every
# calculation with a NaN returns a NaN again. In data-parallel training it spreads at once, because
# **after the next allreduce all ranks have it**, and each of them could be the source.
#
# The function below trains a small network on images of digits. One image of one rank is broken.


# %%
def learn(batches):
    """Steps on one rank: the energy, brightness and contrast of images, and a network of 64
    weights."""
    weights = torch.zeros(64)
    for step, images in enumerate(batches):
        energy = (images**2).mean(dim=1)
        bright = images / images.sum(dim=1, keepdim=True)
        contrast = torch.log(images.std(dim=1))
        error = bright @ weights + contrast - energy
        gradient = bright.T @ error
        dist.all_reduce(gradient)
        weights -= 0.1 / (step + 1) * gradient


# %% [markdown]
# To find the source, we watch every rank for the first number that is not finite, which means NaN
# or infinite. `lab72.watch_numbers` looks at all tensors after each line, as a debugger can, and
# notes `(step, line)` of the first such number, or None. For example, `(2, 7)` means that line 7
# computed the rank's first such number in step 2. The next cell prints the notes of the three
# ranks.

# %%
lab72.show_program(learn)
poisons = lab72.fresh(lab72.Poison, mystery)
poisoned = lab72.play([lab72.Job(learn, fault, watch=lab72.watch_numbers) for fault in poisons])
for rank in poisoned[0]:
    print(f"rank {rank.rank} {rank.state}; first not finite: (step, line) = {rank.note}")

# %% [markdown]
# ### Predict
# Which rank was the first with a number that is not finite, and which line computed this number?
# (There was no error, and all three ranks ran to the end.)

# %%
predict("72.6", rank=..., line=...)

# %%
predict.right("72.6", rank=poisons[0].rank, line=lab72.line_of(learn, poisons[0]))

# %% [markdown]
# **Explain.** Two of the ranks note the line with `dist.all_reduce`, so the bad number came to them
# from another rank. The remaining rank, where the bad number arose, notes an earlier line of the
# same step. If you compare the notes by step first and then by line, the source has the smallest
# note. Its line tells what is wrong with the image:
#
# | on the line with | the broken image | what the line computes |
# |---|---|---|
# | `bright` | is black, so its sum is 0 | 0 / 0, a NaN |
# | `contrast` | has a single color, so its standard deviation is 0 | the logarithm of 0, minus infinity |
# | `energy` | has a very bright pixel | a square that is too large for 32 bits, infinity |
#
# ### A program that finds the first rank (optional)
# With many ranks, a program has to find the smallest note. This part takes about 5 more minutes.
# You can also go on with the next part, "Skip together".
#
# ### Exercise 72.6 · Name the first (optional)
# Write `first_bad(notes)`. `notes[rank]` is `(step, line)` or None, as above. Return `(rank, line)`
# of the smallest note. Python compares such pairs like this: `(1, 9) < (1, 12) < (2, 5)`.
#
# For example, with the notes `[(3, 11), (3, 7), (3, 11)]` the answer is `(1, 7)`, because rank 1
# computed a NaN in line 7 of step 3, and the others got it in line 11. The list `ranks`, with the
# numbers of the ranks that have a note, is given. About 2 lines. *(beginner)*
#
# <details><summary>Hint 1: the smallest pair</summary>
#
# `min(ranks, key=lambda rank: notes[rank])` is the rank with the smallest pair.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# If `first` is this rank, `notes[first][1]` is its line. Return both.
# </details>


# %%
def first_bad(notes):
    """(rank, line) of the first number that was not finite. notes: by rank (step, line) or None."""
    ranks = [rank for rank in range(len(notes)) if notes[rank]]
    ### BEGIN SOLUTION
    first = min(ranks, key=lambda rank: notes[rank])
    return first, notes[first][1]
    ### END SOLUTION


# %%
check("72.6", first_bad)

# %% [markdown]
# ### Skip together
# One solution is to skip a step with a bad number, but the step must be skipped **on all ranks or
# on none**. If one rank alone leaves out a collective, the result is the hang of section 2. This
# attempt is therefore wrong:
#
#     if not torch.isfinite(gradient).all():   # true only on the rank with the broken image
#         return False                         # so only this rank leaves out the next line
#     dist.all_reduce(gradient)
#
# ### Exercise 72.7 · Skip on all ranks or on none
# `average(gradient)` runs on each rank, and either averages or skips:
#
# - If all numbers on all ranks are finite, replace the tensor, in place, by the average of all
#   ranks' gradients, and return True.
# - If any number on any rank is not finite, return False on *all* ranks. The content of the tensor
#   then does not matter.
#
# For example, on two ranks:
#
# | gradient of rank 0 | gradient of rank 1 | afterwards, on both ranks | returned, on both ranks |
# |---|---|---|---|
# | 1, 2 | 5, 4 | 3, 3 | True |
# | 1, 2 | 5, NaN | any | False |
#
# One collective is enough. About 3 lines. *(advanced)*
#
# <details><summary>Hint 1: is it finite?</summary>
#
# `torch.isfinite(gradient).all()` is a tensor with True or False, and `bool(…)` converts it to
# Python's True or False.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Call `dist.all_reduce(gradient)` on every rank, and do not decide anything before it. The sum is
# the same on all ranks, and it is not finite if any of the numbers in it was not. So look at the
# *sum*. (If the sum itself is too large, the step has to be skipped, too.)
# </details>


# %%
def average(gradient):
    """Average in place over all ranks, and True; or False on all ranks, if any number is not
    finite."""
    ### BEGIN SOLUTION
    # Across ranks: everybody sums, and everybody sees the same sum.
    dist.all_reduce(gradient)
    gradient /= dist.get_world_size()
    return bool(torch.isfinite(gradient).all())
    ### END SOLUTION


# %%
check("72.7", average)

# %% [markdown]
# If a rank looked at its own gradient, it would have to tell the others about a NaN, with a second
# collective or with one more number in the tensor. The sum in `average` tells all ranks about the
# NaN without this additional communication.
#
# ### What you take away
# - For a hang, look at the stacks of all ranks. The rank whose line no other rank shares is the one
#   that the others are waiting for.
# - If all ranks are in collectives, compare their calls in order, and find the first call that does
#   not match. To prevent this, base decisions on numbers that are the same on all ranks.
# - With uneven shards, join, and count the ranks that contribute. The zeros of a joined rank are
#   not a gradient.
# - For a NaN, find the rank that had it before the allreduce, and skip the step on all ranks or on
#   none.
#
# ## Going further (optional): what to switch on before a job
# This part takes about 7 more minutes.
#
# You have to ask for evidence *before* a job fails. For example, with
# `TORCH_DISTRIBUTED_DEBUG=DETAIL`, the ranks tell each other before each collective which call they
# are about to make. This is extra work in every call, so PyTorch's documentation recommends it only
# for debugging.
#
# The next cell runs your job of section 2 again with this setting. It prints for each rank the call
# that this rank makes, and below it the call of another rank that does not match.

# %%
with launch.environment({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}):
    (ranks,) = lab72.play([lab72.Job(train, disorders[0])])
for rank in ranks:
    own, _, other = rank.error.partition(", but ")
    print(f"rank {rank.rank} {rank.state}: {own[:170]} …")
    print(f"    … but {other[:108]} …")

# %% [markdown]
# The job no longer hangs, because every rank raises an error. The error names two calls that do not
# match, but you still have to find out which rank is the odd one. The error's `SequenceNumber` is
# one more than the number of the row that you found in section 2.
#
# Before every job, decide on these three:
#
# | what | how | Gloo | NCCL | Horovod |
# |---|---|---|---|---|
# | a time limit | `init_process_group(timeout=…)` | raises | a watchdog ends the process | stall check |
# | the calls | flight recorder: `TORCH_FR_BUFFER_SIZE` (2,000; 0 is off) | yes, on demand | yes | no, but the timeline (lab 44) |
# | what the library does | `NCCL_DEBUG=WARN`, or `INFO` | no | yes | `HOROVOD_LOG_LEVEL` |
#
# When you search for a fault, these tools help:
#
# | what | how | Gloo | NCCL | Horovod |
# |---|---|---|---|---|
# | stacks | py-spy (may need root's rights), `faulthandler` | yes | yes, of the Python code | yes |
# | comparison of calls | `TORCH_DISTRIBUTED_DEBUG=DETAIL` | yes | yes | always, by name |
#
# The columns for NCCL come from the documentation of PyTorch and NCCL and were not tested here,
# because this lab also runs on machines without GPUs. Lab 43 shows `NCCL_DEBUG` where there are
# GPUs.
#
# <details><summary>More about NCCL: watchdog, errors, dumps, RAS and the Inspector</summary>
#
# - **Watchdog.** Keep the default (`TORCH_NCCL_ASYNC_ERROR_HANDLING=3`), with which this thread of
#   PyTorch ends the process after an error or at the time limit. With 0, the job hangs until its
#   time limit.
# - **Errors in Python.** Python itself sees no error, because NCCL calls return before the GPU has
#   completed them. Only with `TORCH_NCCL_BLOCKING_WAIT=1` does `wait()` block and raise an error at
#   the limit.
# - **Dumps.** With `TORCH_NCCL_DUMP_ON_TIMEOUT=1`, the calls are written to files after the time
#   limit. `python -m torch.distributed.flight_recorder.fr_trace` compares the files of the
#   flight recorder as you did in 72.3.
# - **[RAS](@nccl_ras)** (reliability, availability and serviceability, from NCCL 2.24 on). NCCL's
#   threads in all processes exchange keep-alive messages, so `ncclras`, on a node of the running
#   job, can ask any one of them which processes no longer answer.
# - **[NCCL Inspector](@nccl_inspector)** (a profiler plugin, from NCCL 2.28 on). Load it with
#   `NCCL_PROFILER_PLUGIN`, and switch it on with `NCCL_INSPECTOR_ENABLE=1`. Its records of the
#   bandwidth of each communicator and collective help to find a slow link.
# </details>
#
# ## Going further (optional): seven more failures and their symptoms
# This part takes about 3 more minutes. Its table is for reference, and lists failures that you did
# not produce here, with the message or behavior by which you recognize them.
#
# | symptom | what happened | how to fix it |
# |---|---|---|
# | "can't allocate memory", or SIGKILL (`dmesg` tells the reason) | losses were stored as tensors, with their graphs | store `loss.item()` |
# | Gloo: no message, only slow; NCCL stops: "Duplicate GPU detected" (from 2.30 on "Multiple Ranks are using the same GPU") | two ranks use one device | choose the device by `LOCAL_RANK` |
# | "DataLoader worker … killed", in any line | memory ran out, and a worker was ended | fewer workers (lab 15) |
# | DDP: "params … appears not to match sizes" | two nodes have two versions of the code | print the versions on all ranks |
# | `torch.save`: "unexpected pos" | a disk is full | free space; rename only complete files (lab 70) |
# | "connection refused" at once | no process listens at that address | check that rank 0 runs; try another `MASTER_PORT` |
# | no connection, and no message | a firewall, or the wrong network interface | set `NCCL_SOCKET_IFNAME`, `GLOO_SOCKET_IFNAME` |
#
# After such a failure, the other ranks report "connection closed by peer" or "reset by peer", and
# on a cluster their messages may be the first that you read. **A message with "by peer" is rarely
# the cause, so look for a rank with a different message.**
#
# ### Further reading
# - [@flight_recorder] How to switch on the flight recorder, and how to read and compare its files.
# - [@pytorch_distributed] The section on debugging describes `TORCH_DISTRIBUTED_DEBUG` and the
#   environment variables of the part "what to switch on before a job".
# - [@horovod_api] The reference describes `join` and the operations of `allreduce`.
# - [@pytorch_join] A tutorial on uneven inputs with DDP, which is PyTorch's counterpart of
#   `hvd.join()`.
# - [@nccl_variables] The meaning of `NCCL_DEBUG` and of NCCL's other environment variables.
# - [@py_spy] The page of py-spy explains which rights it needs and how to use it in containers.
