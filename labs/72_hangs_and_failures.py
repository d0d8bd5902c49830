# %% [markdown]
# <!-- Generated from solutions/72_hangs_and_failures.py by `make labs`. Learners work on a copy in work/. -->
# # 72 Hangs and failures
#
# A training job on many ranks that fails seldom says why. Mostly it says nothing, and stands still.
# You produce four failures, read what they leave behind, and mend them.
#
# **You will be able to** (1) name the rank and the line that all others wait for, (2) find the
# first call that does not fit the others', (3) train on uneven shards, (4) find the first NaN, and
# skip a step on all ranks together.
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
# The failures here are real ones. `lab72.play` starts three ranks, which meet in a group of
# `torch.distributed` over Gloo, on this computer alone. It lets them fail, looks at them from
# outside, and ends them. Which rank, step and line are at fault is drawn by your user name, your
# computer and `mystery`: the programs do not show it, and your neighbour's faults are others.
#
# ## 1. All wait: who is missing?
# An epoch of data parallelism: each rank reads its own shard, a list of files. It writes a log, and
# a table that other programs write to as well: `flock` waits until nobody else holds that file.

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
# One rank does not come. All others wait for it in their next `all_reduce`, and say nothing: over
# Gloo for half an hour, over NCCL for ten minutes, if nobody sets another limit.
#
# **py-spy** tells in which line a running Python process is, from outside:
# `py-spy dump --pid 4711`. The process need not be prepared. This is what it sees of the three
# ranks, once nothing moves any more. Read it from the bottom: the last line of each rank is one of
# `epoch`, and above it stands what that line has called, if it is Python. About 10 s. (Three more
# runs, with other faults, are made along with it for your exercise.)

# %%
lab72.show_program(epoch)
faults = lab72.fresh(lab72.Hang, mystery)
hangs = lab72.play([lab72.Job(epoch, fault, py_spy=fault == faults[0]) for fault in faults])
lab72.show_stacks(hangs[0])

# %% [markdown]
# ### Predict
# Which rank do the others wait for? In which line of `epoch` is it? This is no guess: it stands
# above.

# %%
predict("72.1", rank=..., line=...)

# %%
predict.right("72.1", rank=faults[0].rank, line=lab72.line_of(epoch, faults[0]))


# %% [markdown]
# **Explain.** Two ranks are in the same line, an exchange: they are healthy. The third is in
# another line, and that is the one to look at. What had happened there, by the line:
#
# | in the line with | what was broken | the mend |
# |---|---|---|
# | `read_bytes` | the disk or the network file system does not answer | a copy nearby ([lab 15](15_input_pipeline.ipynb)) |
# | `print` | nobody reads the log any more: the pipe is full | log to a file of one's own |
# | `flock` | somebody holds the lock, perhaps a job that died | one file for each rank |
# | `dist.barrier` | its shard is shorter, so it was through sooner | all stop after the shortest shard |
#
# (Were its shard *longer*, it would stand in `all_reduce`, and the others in the barrier.)
#
# With 1,000 ranks nobody reads 1,000 stacks. So teach the computer your rule. Then mend the epoch:
# not `epoch` itself, but what it works with.
#
# ### Exercise 72.1 · The odd one out
# - `odd_one_out(stacks)`: `stacks[rank]` is a list of frames, outermost first: `stacks[rank][0]` is
#   the one of `epoch`. A frame has a `.line`. Return the rank whose line of `epoch` no other rank
#   shares, and that line: `return rank, line`.
# - `mend(files, log, table, nearby)`: runs on each rank, and returns what its epoch gets in place
#   of `files`, `log` and `table`: all of them in `nearby`, a folder on this rank's own disk. The
#   log and the table are given. Your part is `copies`, a list of paths: `nearby / file.name` is a
#   copy of a file (`nearby / file` would be the file itself). Take the first files alone, on all
#   ranks as many as the shortest shard has. For that, all ranks have to know the smallest of their
#   numbers:
#
#       dist.all_reduce(fewest, op=dist.ReduceOp.MIN)   # fewest: now the smallest of all ranks'
#
#   A list can be cut with such a tensor: `files[:fewest]`.
#
# 3 lines and 2. *(beginner)*
#
# <details><summary>Hint 1: one number for each rank</summary>
#
# `lines = [stack[0].line for stack in stacks]` are the lines by rank. `lines.count(7)` is how often
# 7 is in it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min(range(len(lines)), key=lambda rank: lines.count(lines[rank]))` is the rank whose line is in
# the list least often.
# </details>
# <details><summary>Hint 3: the smallest shard</summary>
#
# After the `all_reduce`, `files[:fewest]` are those that remain.
# </details>

# %%
def odd_one_out(stacks):
    """(rank, line) of the rank that is in a line of its own. stacks: by rank, frames, outermost
    first."""
    raise NotImplementedError("exercise 72.1: The odd one out")


def mend(files, log, table, nearby):
    """What epoch is given on this rank instead of files, log, table. nearby: a folder with
    copies."""
    fewest = torch.tensor(len(files))
    raise NotImplementedError("exercise 72.1: The odd one out")
    return copies, (nearby / "log").open("w"), nearby / "table"


# %%
# Asked: Rank and line of the four runs; then `epoch` with what `mend` returns,
# on ranks with the same faults, to its end.
check("72.1", odd_one_out, mend)


# %% [markdown]
# With two ranks, each is in a line of its own. Then look at the lines: who waits in an exchange is
# healthy, who waits elsewhere keeps it waiting. If both wait in exchanges, you need the next
# section.
#
# ## 2. All are in an exchange, and wait
# MPI and `torch.distributed` do not know tensors by name. They pair **the first call of each rank,
# then the second, and so on**. A rank that makes one call too many or too few, or two in another
# order, is out of step from there on.

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
# Where each rank waits *now* may be a consequence, some calls later. What helps is what each of
# them has *called*, in order. PyTorch's **flight recorder** notes the last 2,000 calls, with the
# tensors' lengths and the line of the call; `lab72.play` asks for it.
#
# Here are the last calls of three ranks that hang: `all_reduce(6) line 7` is an allreduce of 6
# numbers. (Again more runs are made along with it, for later.)

# %%
lab72.show_program(train)
disorders = lab72.fresh(lab72.Disorder, mystery)
mixed_up = lab72.play([lab72.Job(train, fault) for fault in disorders])
lab72.show_records(mixed_up[0])

# %% [markdown]
# ### Predict
# Which rank made a call that does not fit the other two's, and in which line of `train`?

# %%
predict("72.2", rank=..., line=...)

# %%
predict.right("72.2", rank=disorders[0].rank, line=lab72.line_of(train, disorders[0]))


# %% [markdown]
# **Explain.** A batch that differs on one rank sent that rank another way through the code. A
# condition such as `batch["loss"] > 100` was decided on *one* rank's numbers. The mend: decide on
# numbers that are the same on all, at best on some that are summed anyway; else that costs an
# exchange for each batch. And never let a `set` of names decide on an order: Python draws another
# one in each process. `sorted` makes one that is the same everywhere.
#
# ### Exercise 72.2 · The first call that does not fit
# - `first_difference(records)`: `records[rank]` is the list of a rank's calls, in order. A record
#   has `.call` ("all_reduce"), `.numbers` (6) and `.line`. The loop over the places is given. At
#   the first place where not all ranks have the same call with as many numbers, return the rank
#   that differs from most others, and the line of *its* call. (If it left a call out, that is the
#   next one: look above it. If there is no such place, `None` is right: then one rank just stopped,
#   as in section 1.)
# - `agree(batch)`: runs on each rank, for each batch in turn. `everybody`, all ranks' batches, is
#   given. Return a new dict that is the same on all ranks: its `"loss"` is the largest of all
#   ranks', and its `"statistics"` are all those that some rank wants, once each, in alphabetical
#   order.
#
# 4 lines and 2. *(intermediate)*
#
# <details><summary>Hint 1: do they differ?</summary>
#
# `kinds = [(call.call, call.numbers) for call in calls]`, and `len(set(kinds)) > 1` if they are not
# all alike.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The rank is the one whose kind is in `kinds` least often, as in 72.1. Return it with
# `calls[rank].line`, from inside of the loop.
# </details>
# <details><summary>Hint 3: all that somebody wants</summary>
#
# `wanted = {name for other in everybody for name in other["statistics"]}` is a set of them, without
# an order. `max(other["loss"] for other in everybody)` is the largest loss.
# </details>

# %%
def first_difference(records):
    """(rank, line) of the first call that does not fit. records: by rank, the calls in order."""
    for calls in zip(*records, strict=False):  # calls[rank]: each rank's first call, its second, …
        raise NotImplementedError("exercise 72.2: The first call that does not fit")
    return None


def agree(batch):
    """A batch that is the same on all ranks: the largest loss, all statistics that some rank
    wants."""
    # Across ranks: everybody sees everybody's batch; everybody[rank] is what that rank gave.
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, batch)
    raise NotImplementedError("exercise 72.2: The first call that does not fit")


# %%
# Asked: Rank and line of the first call that does not fit, of made-up records
# and of the three runs; then trainings on ranks with the same faults, to their
# end.
check("72.2", first_difference, agree)

# %% [markdown]
# ### Measure: in the wrong order, and no hang
# What if two calls are swapped that look alike? Two ranks add up `a`, which is 1 on each, and `b`,
# which is
# 10. Rank 1 begins with `b`. As a control the same with Horovod, where every tensor has a name.
#     About 10 s.

# %%
for rank, sums in enumerate(lab72.sums_in_another_order()):
    for library, (a, b) in sums.items():
        print(f"rank {rank}, {library:18} a = {a:3.0f}  b = {b:3.0f}")

# %% [markdown]
# **Explain.** Right would be a = 2 and b = 20. `torch.distributed` adds a to b, and says nothing:
# **the worst failure is the one that goes on**. Horovod asks all ranks which tensors are ready and
# pairs them by name ([lab 44](44_timeline_and_fusion.ipynb)), so that the order does not matter, as long as each rank gives both
# before it waits for one (`hvd.allreduce_async`, as here).
#
# ## 3. Uneven shards
# 3,125 batches on three ranks: one has a batch less. It is through, and the others wait for it.
# (Here the shards are a few batches long.) Horovod notices, since rank 0 hears from all ranks what
# is ready. This **stall check** warns after `HOROVOD_STALL_CHECK_TIME_SECONDS` (60, unless you set
# it), and ends everything after `HOROVOD_STALL_SHUTDOWN_TIME_SECONDS` (0, unless you set it:
# never).
#
# Three ranks sum one tensor a batch, `step.0`, `step.1` and so on. Here the warning comes after 1
# s, the end after 2 s. About 10 s.

# %%
lengths = lab72.shards(mystery)
lab72.stall(lengths)

# %% [markdown]
# ### Predict
# Which rank is missing, and how many batches has it?

# %%
predict("72.3", rank=..., batches=...)

# %%
predict.right("72.3", rank=lengths.index(min(lengths)), batches=min(lengths))


# %% [markdown]
# **Explain.** "Missing ranks", then the rank, and in brackets the tensors that it has not given. If
# that is `step.3`, it had the steps 0, 1, 2: three batches.
#
# The mend is `hvd.join()`. A rank that has no more batches calls it: "from now on I join in every
# allreduce, with zeros". It returns when all ranks have called it.
#
# There is a trap. `hvd.allreduce` *averages*, over all ranks, and zeros count. With three ranks, of
# which one has joined, (3 + 5 + 0) / 3 is not the mean of 3 and 5. So add up two things: the
# numbers, and **how many ranks have some**:
#
#     total = hvd.allreduce(tensor, op=hvd.Sum, name=name)   # the sum; zeros do not change it
#
# ### Exercise 72.3 · Averages over those who are still there
# `gradients` is this rank's list of tensors of 3 numbers, one for each of its batches; another rank
# may have more, or none at all. Put into `results` the average of each of *this rank's* gradients,
# over the ranks that have one in that step. Nobody may hang. The loop is given: 2 or 3 lines in it,
# in place of the first `raise`, and one below it, in place of the second. *(intermediate)*
#
# <details><summary>Hint 1: how many are there?</summary>
#
# Append a 1 to the gradient: `torch.cat([gradient, torch.ones(1)])` has four numbers. In the sum,
# the last one is the number of ranks that sent something: who has joined sends zeros.
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
        raise NotImplementedError("exercise 72.3: Averages over those who are still there")
    raise NotImplementedError("exercise 72.3: Averages over those who are still there")
    return results


# %%
# Asked: The averages on three ranks with even and uneven shards, one of them
# empty.
check("72.3", averages)


# %% [markdown]
# The simplest mend is another: give all ranks equally many. PyTorch's `DistributedSampler` does: it
# repeats some samples, or leaves some out, with `drop_last=True`.
#
# ## 4. NaN: who was first?
# A NaN ("not a number") comes from 0 / 0, for example, or from infinite minus infinite. What is
# calculated with it is nearly always NaN again (a comparison or `torch.where` may lose it). In data
# parallelism it spreads at once: **after the next exchange all ranks have it**, and all look
# guilty.

# %%
def learn(batches):
    """Steps on one rank: the energy, brightness and contrast of pictures, and a net of 64
    weights."""
    weights = torch.zeros(64)
    for step, pictures in enumerate(batches):
        energy = (pictures**2).mean(dim=1)
        bright = pictures / pictures.sum(dim=1, keepdim=True)
        contrast = torch.log(pictures.std(dim=1))
        error = bright @ weights + contrast - energy
        gradient = bright.T @ error
        dist.all_reduce(gradient)
        weights -= 0.1 / (step + 1) * gradient


# %% [markdown]
# So watch every rank for its first number that is not finite: NaN or infinite.
# `lab72.watch_numbers` looks at all tensors after each line, as a debugger can, and notes
# `(step, line)` of the first, or None. The pictures are digits; one picture of one rank is broken.

# %%
lab72.show_program(learn)
poisons = lab72.fresh(lab72.Poison, mystery)
poisoned = lab72.play([lab72.Job(learn, fault, watch=lab72.watch_numbers) for fault in poisons])
for rank in poisoned[0]:
    print(f"rank {rank.rank} {rank.state}; first not finite: (step, line) = {rank.note}")

# %% [markdown]
# ### Predict
# Which rank was first, and in which line? (No error came: all three ranks ran to the end.)

# %%
predict("72.4", rank=..., line=...)

# %%
predict.right("72.4", rank=poisons[0].rank, line=lab72.line_of(learn, poisons[0]))


# %% [markdown]
# **Explain.** The two others note `dist.all_reduce`: it came to them from another rank. The first
# one notes a line of its own, above it, in the same step. In `bright` a black picture does that: 0
# / 0. In `contrast` one of a single colour: the logarithm of 0. In `energy` one with a pixel so
# bright that its square is too large for 32 bits.
#
# The mend: leave such a step out, but **on all ranks, or on none**. A rank that leaves out an
# exchange alone is section 2.
#
# ### Exercise 72.4 · Name the first, and skip together
# - `first_bad(notes)`: `notes[rank]` is `(step, line)` or None, as above. Return `(rank, line)` of
#   the smallest note: `(1, 9) < (1, 12) < (2, 5)`. `ranks`, the numbers of those that have one, is
#   given.
# - `average(gradient)`: runs on each rank. Make the tensor the average of all ranks' gradients, in
#   place, and return True. But if any number of any rank is not finite, return False, on *all*
#   ranks. One exchange is enough.
#
# 2 lines and 3. *(advanced)*
#
# <details><summary>Hint 1: the smallest pair</summary>
#
# `min(ranks, key=lambda rank: notes[rank])` is the rank with the smallest pair.
# </details>
# <details><summary>Hint 2: is it finite?</summary>
#
# `torch.isfinite(gradient).all()` is a tensor with True or False. `bool(…)` makes it Python's.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# Make no decision before the exchange: `dist.all_reduce(gradient)` on every rank. The sum is the
# same on all ranks, and it is not finite if any of its numbers was not. So look at the *sum*.
# </details>

# %%
def first_bad(notes):
    """(rank, line) of the first number that was not finite. notes: by rank (step, line) or None."""
    ranks = [rank for rank in range(len(notes)) if notes[rank]]
    raise NotImplementedError("exercise 72.4: Name the first, and skip together")


def average(gradient):
    """Average in place over all ranks, and True; or False on all ranks, if any number is not
    finite."""
    raise NotImplementedError("exercise 72.4: Name the first, and skip together")


# %%
# Asked: The first of made-up notes and of three runs; and one decision on all
# ranks, in each step.
check("72.4", first_bad, average)

# %% [markdown]
# Why does the average look at the sum, and not at its own gradient before it?
# <details><summary>Answer</summary>
#
# Its own gradient is known to one rank alone: it would need a second exchange to tell the others.
# The sum carries the news at no extra cost.
# </details>
#
# ## 5. Six more failures, by their signs
#
# | sign | what happened | the mend |
# |---|---|---|
# | "can't allocate memory", or SIGKILL (`dmesg` says why) | losses kept as tensors | `loss.item()` |
# | half of the speed; NCCL: "Duplicate GPU detected" | two ranks on a device | `LOCAL_RANK` |
# | "DataLoader worker … killed", in any line | memory ran out: a worker was ended | fewer workers ([lab 15](15_input_pipeline.ipynb)) |
# | DDP: "params … appears not to match sizes" | two versions on two nodes | print versions on all ranks |
# | `torch.save`: "unexpected pos" | a disk is full | room; rename what is complete ([lab 70](70_checkpoint_and_requeue.ipynb)) |
# | ranks do not meet: refused at once | nobody listens there | is rank 0 up? another `MASTER_PORT` |
# | ranks do not meet: silence | a firewall | `NCCL_SOCKET_IFNAME`, `GLOO_SOCKET_IFNAME` |
#
# The other ranks then say "connection closed by peer", or "reset by peer", and on a cluster their
# words may be the first that you read. **"By peer" is seldom the cause: look for a rank that says
# something else.**
#
# Two of the signs vary. From NCCL 2.30 on, the second row's message is "Multiple Ranks are using
# the same GPU". And when memory runs out, Linux as a rule ends the process that holds most of it,
# which may be the rank itself or a worker of its DataLoader.
#
# ## 6. What to switch on before (to look things up in)
# Evidence must be asked for *before* a job fails. What exists for what:
#
# | what | how | Gloo | NCCL | Horovod |
# |---|---|---|---|---|
# | stacks | py-spy (may need root's rights), `faulthandler` | yes | yes, Python's side | yes |
# | the calls | flight recorder: `TORCH_FR_BUFFER_SIZE` | yes, on demand | yes | no: the timeline ([lab 44](44_timeline_and_fusion.ipynb)) |
# | written after a time limit | `TORCH_NCCL_DUMP_ON_TIMEOUT=1` | no | yes | no |
# | calls compared | `TORCH_DISTRIBUTED_DEBUG=DETAIL` | yes | yes | always, by name |
# | a limit of time | `init_process_group(timeout=…)` | raises | see below | stall check |
# | what the library does | `NCCL_DEBUG=WARN`, or `INFO` | no | yes | `HOROVOD_LOG_LEVEL` |
# | uneven shards | DDP: `with Join([model]):` | yes | yes | `hvd.join()` |
#
# NCCL's calls return before the GPU is through. So no line of Python raises when one hangs, unless
# `TORCH_NCCL_BLOCKING_WAIT=1` makes `wait()` block, and raise at the limit. A watchdog thread looks
# after the calls, and `TORCH_NCCL_ASYNC_ERROR_HANDLING` says what it does after an error or the
# limit: 0 nothing, 1 abort NCCL and end the process, 2 only abort NCCL, 3 (as it is) end the
# process without. 0 means a job that hangs until its time is over, and you pay for it.
# `python -m torch.distributed.flight_recorder.fr_trace` compares the recorder's files as you did in
# 72.2.
#
# The column NCCL comes from PyTorch's and NCCL's documentation. This lab shows none of it, since it
# runs everywhere. [Lab 43](43_horovod_nccl2.ipynb) shows `NCCL_DEBUG` where there are GPUs.
#
# With `TORCH_DISTRIBUTED_DEBUG=DETAIL` each call first exchanges what it is about to do. That is
# work in every call: PyTorch's documentation advises it for the search alone. Your case of section
# 2 again:

# %%
with launch.environment({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}):
    (ranks,) = lab72.play([lab72.Job(train, disorders[0])])
for rank in ranks:
    print(f"rank {rank.rank} {rank.state}: {rank.error[:200]} …")

# %% [markdown]
# No hang any more: an error, on every rank, which names two calls that do not fit. Which rank is
# the odd one you still have to find out.
#
# ## What you take away
# - A hang: stacks of all ranks. The odd one out is the one that all wait for.
# - All in exchanges: the calls of all ranks, in order. The first that does not fit.
# - Uneven shards: join, and count who is there. A zero is no gradient.
# - A NaN: who had it before the exchange? Skip on all ranks or on none.
# - "Closed by peer", "reset by peer" (section 5): these tell of another. Look for who speaks of
#   itself.
