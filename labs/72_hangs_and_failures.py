# %% [markdown]
# <!-- Generated from solutions/72_hangs_and_failures.py by `make labs`. Learners work on a copy in work/. -->
# # 72 Hangs and failures
#
# A training job on many ranks that fails seldom says why. Mostly it says nothing, and stands still. You
# produce four failures, and six more if you have time, read what they leave behind, and mend them.
#
# **You will be able to** (1) name the rank and the line that all others wait for, (2) find the first call
# that does not fit the others', (3) train on uneven shards, (4) find the first NaN, and skip a step on all
# ranks together.
#
# Needs: mpi, horovod, torch · Ranks: 1 · Minutes: 65 · Before: 21, 30, 40, 60

# %%
import os
import random
import resource
import signal
import tempfile
import time
from fcntl import LOCK_EX, flock
from importlib import metadata

import horovod.torch as hvd
import torch
import torch.distributed as dist
from labkit import check, hint, lab, predict
from support import lab72
from torch.nn.parallel import DistributedDataParallel

lab.start("72_hangs_and_failures")

# %% tags=["parameters"]
mystery = 1  # which faults you meet: any number from 0 on
patience = 40  # seconds after which a check calls a program stuck


# %% [markdown]
# The failures here are real ones. `lab72.play` starts three ranks, which meet in a group of
# `torch.distributed` over Gloo, on this computer alone. It lets them fail, looks at them from outside, and
# ends them. Which rank, step and line are at fault is drawn by your user name, your computer and `mystery`:
# the programs do not show it, and your neighbour's faults are others.
#
# A cell that begins with `# What is asked` is a check: run it; it need not be read.
#
# ## 1. All wait: who is missing?
# An epoch of data parallelism: each rank reads its own shard, a list of files. It writes a log, and a table
# that other programs write to as well: `flock` waits until nobody else holds that file.

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
# One rank does not come. All others wait for it in their next `all_reduce`, and say nothing: over Gloo for
# half an hour, over NCCL for ten minutes, if nobody sets another limit.
#
# **py-spy** tells in which line a running Python process is, from outside: `py-spy dump --pid 4711`. The
# process need not be prepared. This is what it sees of the three ranks, once nothing moves any more. Read it
# from the bottom: the last line of each rank is one of `epoch`, and above it stands what that line has
# called, if it is Python. About 10 s. (Three more runs, with other faults, are made along with it for your
# exercise.)

# %%
lab72.show_program(epoch)
faults = lab72.fresh(lab72.hang, mystery)
hangs = lab72.play([lab72.Job(epoch, fault) for fault in faults])
lab72.show_stacks(hangs[0])

# %% [markdown]
# ### Predict
# Which rank do the others wait for? In which line of `epoch` is it? This is no guess: it stands above.

# %%
predict("72.1", rank=..., line=...)

# %%
predict.right("72.1", rank=faults[0].rank, line=lab72.line_of(epoch, faults[0].text))


# %% [markdown]
# **Explain.** Two ranks are in the same line, an exchange: they are healthy. The third is in another line,
# and that is the one to look at. What had happened there, by the line:
#
# | in the line with | what was broken | the mend |
# |---|---|---|
# | `read_bytes` | the disk or the network file system does not answer | a copy nearby (lab 15) |
# | `print` | nobody reads the log any more: the pipe is full | log to a file of one's own |
# | `flock` | somebody holds the lock, perhaps a job that died | one file for each rank |
# | `dist.barrier` | its shard is shorter, so it was through sooner | all stop after the shortest shard |
#
# (Were its shard *longer*, it would stand in `all_reduce`, and the others in the barrier.)
#
# With 1,000 ranks nobody reads 1,000 stacks. So teach the computer your rule. Then mend the epoch: not
# `epoch` itself, but what it works with.
#
# ### Exercise 72.1 · The odd one out
# - `odd_one_out(stacks)`: `stacks[rank]` is a list of frames, outermost first: `stacks[rank][0]` is the one
#   of `epoch`. A frame has a `.line`. Return the rank whose line of `epoch` no other rank shares, and that
#   line: `return rank, line`.
# - `mend(files, log, table, nearby)`: runs on each rank, and returns what its epoch gets in place of `files`,
#   `log` and `table`: all of them in `nearby`, a folder on this rank's own disk. The log and the table are
#   given. Your part is `copies`, a list of paths: `nearby / file.name` is a copy of a file (`nearby / file`
#   would be the file itself). Take the first files alone, on all ranks as many as the shortest shard has. For
#   that, all ranks have to know the smallest of their numbers:
#
#       dist.all_reduce(fewest, op=dist.ReduceOp.MIN)   # fewest: now the smallest of all ranks'
#
#   A list can be cut with such a tensor: `files[:fewest]`.
#
# 3 lines and 2. *(beginner)*
#
# <details><summary>Hint 1: one number for each rank</summary>
#
# `lines = [stack[0].line for stack in stacks]` are the lines by rank. `lines.count(7)` is how often 7 is in
# it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min(range(len(lines)), key=lambda rank: lines.count(lines[rank]))` is the rank whose line is in the list
# least often.
# </details>
# <details><summary>Hint 3: the smallest shard</summary>
#
# After the `all_reduce`, `files[:fewest]` are those that remain.
# </details>

# %%
def odd_one_out(stacks):
    """(rank, line) of the rank that is in a line of its own. stacks: by rank, frames, outermost first."""
    raise NotImplementedError("exercise 72.1: The odd one out")


def mend(files, log, table, nearby):
    """What epoch is given on this rank instead of files, log, table. nearby: a folder with copies."""
    fewest = torch.tensor(len(files))
    raise NotImplementedError("exercise 72.1: The odd one out")
    return copies, (nearby / "log").open("w"), nearby / "table"


# %%
# Asked: Rank and line of the four runs; then `epoch` with what `mend` returns, on
# ranks with the same faults, to its end.
check("72.1", odd_one_out, mend)


# %% [markdown]
# With two ranks, each is in a line of its own. Then look at the lines: who waits in an exchange is healthy,
# who waits elsewhere keeps it waiting. If both wait in exchanges, you need the next section.
#
# ## 2. All are in an exchange, and wait
# MPI and `torch.distributed` do not know tensors by name. They pair **the first call of each rank, then the
# second, and so on**. A rank that makes one call too many or too few, or two in another order, is out of step
# from there on.

# %%
def train(batches):
    """Steps on one rank. A batch says what its loss is, and which statistics are wanted after it."""
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
# Where each rank waits *now* may be a consequence, some calls later. What helps is what each of them has
# *called*, in order. PyTorch's **flight recorder** notes the last 2,000 calls, with the tensors' lengths and
# the line of the call; `lab72.play` asks for it.
#
# Here are the last calls of three ranks that hang: `all_reduce(6) line 7` is an allreduce of 6 numbers.
# (Again more runs are made along with it, for later.)

# %%
lab72.show_program(train)
disorders = lab72.fresh(lab72.disorder, mystery)
mixed_up = lab72.play([lab72.Job(train, fault, recorded=True) for fault in disorders])
lab72.show_records(mixed_up[0])

# %% [markdown]
# ### Predict
# Which rank made a call that does not fit the other two's, and in which line of `train`?

# %%
predict("72.2", rank=..., line=...)

# %%
predict.right("72.2", rank=disorders[0].rank, line=lab72.line_of(train, disorders[0].text))


# %% [markdown]
# **Explain.** A batch that differs on one rank sent that rank another way through the code. A condition such
# as `batch["loss"] > 100` was decided on *one* rank's numbers. The mend: decide on numbers that are the same
# on all, at best on some that are summed anyway; else that costs an exchange for each batch. And never let a
# `set` of names decide on an order: Python draws another one in each process. `sorted` makes one that is the
# same everywhere.
#
# ### Exercise 72.2 · The first call that does not fit
# - `first_difference(records)`: `records[rank]` is the list of a rank's calls, in order. A record has `.call`
#   ("all_reduce"), `.numbers` (6) and `.line`. The loop over the places is given. At the first place where
#   not all ranks have the same call with as many numbers, return the rank that differs from most others, and
#   the line of *its* call. (If it left a call out, that is the next one: look above it. If there is no such
#   place, `None` is right: then one rank just stopped, as in section 1.)
# - `agree(batch)`: runs on each rank, for each batch in turn. `everybody`, all ranks' batches, is given.
#   Return a new dict that is the same on all ranks: its `"loss"` is the largest of all ranks', and its
#   `"statistics"` are all those that some rank wants, once each, in alphabetical order.
#
# 4 lines and 2. *(intermediate)*
#
# <details><summary>Hint 1: do they differ?</summary>
#
# `kinds = [(call.call, call.numbers) for call in calls]`, and `len(set(kinds)) > 1` if they are not all
# alike.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The rank is the one whose kind is in `kinds` least often, as in 72.1. Return it with `calls[rank].line`,
# from inside of the loop.
# </details>
# <details><summary>Hint 3: all that somebody wants</summary>
#
# `wanted = {name for other in everybody for name in other["statistics"]}` is a set of them, without an order.
# `max(other["loss"] for other in everybody)` is the largest loss.
# </details>

# %%
def first_difference(records):
    """(rank, line) of the first call that does not fit. records: by rank, the calls in order."""
    for calls in zip(*records, strict=False):  # calls[rank]: that rank's first call, then its second, …
        raise NotImplementedError("exercise 72.2: The first call that does not fit")
    return None


def agree(batch):
    """A batch that is the same on all ranks: the largest loss, all statistics that some rank wants."""
    # Across ranks: everybody sees everybody's batch; everybody[rank] is what that rank gave.
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, batch)
    raise NotImplementedError("exercise 72.2: The first call that does not fit")


# %%
# Asked: Rank and line of the first call that does not fit, of made-up records and of
# the three runs; then trainings on ranks with the same faults, to their end.
check("72.2", first_difference, agree)

# %% [markdown]
# ### Measure: in the wrong order, and no hang
# What if two calls are swapped that look alike? Two ranks add up `a`, which is 1 on each, and `b`, which is
# 10. Rank 1 begins with `b`. As a control the same with Horovod, where every tensor has a name. About 10 s.

# %%
for rank, sums in enumerate(lab72.sums_in_another_order()):
    for library, (a, b) in sums.items():
        print(f"rank {rank}, {library:18} a = {a:3.0f}  b = {b:3.0f}")

# %% [markdown]
# **Explain.** Right would be a = 2 and b = 20. `torch.distributed` adds a to b, and says nothing: **the
# worst failure is the one that goes on**. Horovod asks all ranks which tensors are ready and pairs them by
# name (lab 44), so that the order does not matter, as long as each rank gives both before it waits for one
# (`hvd.allreduce_async`, as here).
#
# ## 3. Uneven shards
# 3,125 batches on three ranks: one has a batch less. It is through, and the others wait for it. (Here the
# shards are a few batches long.) Horovod notices, since rank 0 hears from all ranks what is ready. This
# **stall check** warns after `HOROVOD_STALL_CHECK_TIME_SECONDS` (60, unless you set it), and ends everything
# after `HOROVOD_STALL_SHUTDOWN_TIME_SECONDS` (0, unless you set it: never).
#
# Three ranks sum one tensor a batch, `step.0`, `step.1` and so on. Here the warning comes after 1 s, the end
# after 2 s. About 10 s.

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
# **Explain.** "Missing ranks", then the rank, and in brackets the tensors that it has not given. If that is
# `step.3`, it had the steps 0, 1, 2: three batches.
#
# The mend is `hvd.join()`. A rank that has no more batches calls it: "from now on I join in every allreduce,
# with zeros". It returns when all ranks have called it.
#
# There is a trap. `hvd.allreduce` *averages*, over all ranks, and zeros count. With three ranks, of which one
# has joined, (3 + 5 + 0) / 3 is not the mean of 3 and 5. So add up two things: the numbers, and **how many
# ranks have some**:
#
#     total = hvd.allreduce(tensor, op=hvd.Sum, name=name)   # the sum; zeros do not change it
#
# ### Exercise 72.3 · Averages over those who are still there
# `gradients` is this rank's list of tensors of 3 numbers, one for each of its batches; another rank may have
# more, or none at all. Put into `results` the average of each of *this rank's* gradients, over the ranks that
# have one in that step. Nobody may hang. The loop is given: 2 or 3 lines in it, in place of the first
# `raise`, and one below it, in place of the second. *(intermediate)*
#
# <details><summary>Hint 1: how many are there?</summary>
#
# Append a 1 to the gradient: `torch.cat([gradient, torch.ones(1)])` has four numbers. In the sum, the last
# one is the number of ranks that sent something: who has joined sends zeros.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `total = hvd.allreduce(torch.cat(…), op=hvd.Sum, name=name)`, and the average is `total[:3] / total[3]`.
# After the loop: `hvd.join()`.
# </details>

# %%
def averages(gradients):
    """The average of each step, over the ranks that have a gradient in it: a list, as long as gradients."""
    results = []
    for step, gradient in enumerate(gradients):
        name = f"step.{step}"
        raise NotImplementedError("exercise 72.3: Averages over those who are still there")
    raise NotImplementedError("exercise 72.3: Averages over those who are still there")
    return results


# %%
# Asked: The averages on three ranks with even and uneven shards, one of them empty.
check("72.3", averages)


# %% [markdown]
# The simplest mend is another: give all ranks equally many. PyTorch's `DistributedSampler` does: it repeats
# some samples, or leaves some out, with `drop_last=True`.
#
# ## 4. NaN: who was first?
# A NaN ("not a number") comes from 0 / 0, for example, or from infinite minus infinite. What is calculated
# with it is NaN again. In data parallelism it spreads at once: **after the next exchange all ranks have it**,
# and all look guilty.

# %%
def learn(batches):
    """Steps on one rank: the energy, brightness and contrast of pictures, and a net of 64 weights."""
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
# So watch every rank for its first number that is not finite: NaN or infinite. `lab72.watch_numbers` looks at
# all tensors after each line, as a debugger can, and notes `(step, line)` of the first, or None. The pictures
# are digits; one picture of one rank is broken.

# %%
lab72.show_program(learn)
poisons = lab72.fresh(lab72.poison, mystery)
poisoned = lab72.play([lab72.Job(learn, fault, watch=lab72.watch_numbers) for fault in poisons])
for rank in poisoned[0]:
    print(f"rank {rank.rank} {rank.state}; first not finite: (step, line) = {rank.note}")

# %% [markdown]
# ### Predict
# Which rank was first, and in which line? (No error came: all three ranks ran to the end.)

# %%
predict("72.4", rank=..., line=...)

# %%
predict.right("72.4", rank=poisons[0].rank, line=lab72.line_of(learn, poisons[0].text))


# %% [markdown]
# **Explain.** The two others note `dist.all_reduce`: it came to them from another rank. The first one notes a
# line of its own, above it, in the same step. In `bright` a black picture does that: 0 / 0. In `contrast` one
# of a single colour: the logarithm of 0. In `energy` one with a pixel so bright that its square is too large
# for 32 bits.
#
# The mend: leave such a step out, but **on all ranks, or on none**. A rank that leaves out an exchange alone
# is section 2.
#
# ### Exercise 72.4 · Name the first, and skip together
# - `first_bad(notes)`: `notes[rank]` is `(step, line)` or None, as above. Return `(rank, line)` of the
#   smallest note: `(1, 9) < (1, 12) < (2, 5)`. `ranks`, the numbers of those that have one, is given.
# - `average(gradient)`: runs on each rank. Make the tensor the average of all ranks' gradients, in place, and
#   return True. But if any number of any rank is not finite, return False, on *all* ranks. One exchange is
#   enough.
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
# Make no decision before the exchange: `dist.all_reduce(gradient)` on every rank. The sum is the same on all
# ranks, and it is not finite if any of its numbers was not. So look at the *sum*.
# </details>

# %%
def first_bad(notes):
    """(rank, line) of the first number that was not finite. notes: by rank (step, line) or None."""
    ranks = [rank for rank in range(len(notes)) if notes[rank]]
    raise NotImplementedError("exercise 72.4: Name the first, and skip together")


def average(gradient):
    """Average in place over all ranks, and True; or False on all ranks, if any number is not finite."""
    raise NotImplementedError("exercise 72.4: Name the first, and skip together")


# %%
# Asked: The first of made-up notes and of three runs; and one decision on all ranks,
# in each step.
check("72.4", first_bad, average)

# %% [markdown]
# Why does the average look at the sum, and not at its own gradient before it?
# <details><summary>Answer</summary>
#
# Its own gradient is known to one rank alone: it would need a second exchange to tell the others. The sum
# carries the news at no extra cost.
# </details>
#
# ## 5. A gallery (for those who have time: 50 minutes)
# If you have none: go on at *What you take away*, at the end.
#
# Six more failures and their mends. Which rank it hits is drawn anew in each run: no cell says it, what the
# ranks leave behind does. Each cell takes some 5 s. `failures` keeps the runs that fail, for two exercises at
# the end.
#
# ### A rank runs out of memory
# One rank may have 100 MB more than now (`RLIMIT_AS`). All keep every loss for a plot.

# %%
night = random.randrange(1000)  # decides whom each failure hits
failures = {}  # by failure: what was found of the ranks
culprits = {}  # by failure: which rank was dealt it. For the checks; you read the evidence


def remember(megabytes, careful):
    if megabytes:
        lab72.limit_memory(megabytes)
    history = []
    for _ in range(40):
        loss = torch.ones(2**20)  # 4 MB
        dist.all_reduce(loss[:1])
        history.append(loss[0].item() if careful else loss)
    return f"{len(history)} losses kept"


culprits["memory"], limits = lab72.one_of_three("memory", night, None, 100)
careless = [(limit, False) for limit in limits]
failures["memory"], mended = lab72.play_ways(remember, careless, [(limit, True) for limit in limits])
for ranks in (failures["memory"], mended):
    lab72.show_ends(ranks)


# %% [markdown]
# One rank says what was missing. The others say something else, "connection closed by peer" (or "reset by
# peer"), and on a cluster their words may be the first that you read. **"By peer" is seldom the cause: look
# for a rank that says something else.** One that Linux itself ends for want of memory says nothing at all:
# signal 9 (SIGKILL), and a line in the kernel's log (`dmesg`). The cure here: keep numbers (`.item()`), no
# tensors.
#
# ### Two ranks on one device
# Where there is no GPU, a core is the device. Two ranks are each to take one, and one of two maps is wrong.

# %%
def place(rule):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rule(int(os.environ["LOCAL_RANK"])) % len(cores)]})
    (core,) = os.sched_getaffinity(0)
    return f"core {core}"


first = lab72.drawn("core", night, 64)
wrong_map = [(lambda local_rank: first + local_rank // 2,)] * 2
failures["map"], mended = lab72.play_ways(place, wrong_map, [(lambda local_rank: first + local_rank,)] * 2)
for ranks in (failures["map"], mended):
    lab72.show_ends(ranks)


# %% [markdown]
# Nothing fails: two ranks share a core, and nobody says so. (With a single core here, both maps are
# wrong.) With GPUs over NCCL it is an error: "Duplicate GPU detected : rank 1 and rank 0 both on CUDA
# device". With the *global* rank as the number, everything goes well on one node; on the second, "invalid
# device ordinal". The cure: `LOCAL_RANK`, and such a line from every rank at the beginning of every job.
#
# ### A data loader's worker is killed
# The worker is a process of its own, and the first that the system ends when memory runs out.

# %%
class Pictures(torch.utils.data.Dataset):
    def __init__(self, deadly):
        self.deadly = deadly

    def __len__(self):
        return 8

    def __getitem__(self, place):
        if place == self.deadly:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)  # as the system does
        return torch.full((4,), float(place))


def load(deadly):
    total = torch.zeros(4)
    for pictures in torch.utils.data.DataLoader(Pictures(deadly), batch_size=2, num_workers=1):
        total += pictures.sum(dim=0)
        dist.all_reduce(total)
    return "all pictures read"


culprits["worker"], deadly = lab72.one_of_three("worker", night, None, 1)
failures["worker"], mended = lab72.play_ways(load, [(picture,) for picture in deadly], [(None,)] * 3)
for ranks in (failures["worker"], mended):
    lab72.show_ends(ranks)


# %% [markdown]
# One rank names the worker. Believe its sentence, and not the line below it: the news of the death comes as a
# signal, wherever the rank is just then. In another job that may be an `all_reduce` that is innocent. Cures:
# fewer workers, smaller batches, no copies of the data set in each worker (lab 15).
#
# ### Two nodes, two versions
# Each rank imports from the folder of its own "node". On one of them a package `recipe` has another version.

# %%
def build(folder, roll_call):
    lab72.use_node(folder)
    import recipe

    if roll_call:
        return f"recipe {metadata.version('recipe')}"
    net = DistributedDataParallel(recipe.net())
    return f"a net of {sum(weights.numel() for weights in net.parameters())} numbers"


with lab72.two_nodes() as nodes:
    usual, other = lab72.shuffled("versions", night, nodes)
    culprits["versions"], folders = lab72.one_of_three("node", night, usual, other)
    mixed = [(folder, False) for folder in folders]
    called = [(folder, True) for folder in folders]
    failed, failures["versions"], mended = lab72.play_ways(build, mixed, called, [(usual, False)] * 3)
    for ranks in (failed, failures["versions"], mended):
        lab72.show_ends(ranks)


# %% [markdown]
# DDP compares the parameters of all ranks when it begins, and so says *that* the nets differ. It does not
# say why. Only the roll call does, the second run: have every rank tell its versions at the beginning of a
# job. (`make doctor` shows those of a node.)
#
# ### A disk is full
# Each rank saves its part of the weights to a disk of its own. On one of them files may grow to 100 kB
# (`RLIMIT_FSIZE`), as with a full quota.

# %%
def save(folder, limit, careful):
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    net = torch.nn.Linear(500, 500)  # 1 MB
    name = os.path.join(folder, f"net_{dist.get_rank()}.pt")
    file = f"{name}.part" if careful else name
    saved = torch.ones(1)
    try:
        torch.save(net.state_dict(), file)
        os.replace(file, name)  # only a complete file gets this name
    except (OSError, RuntimeError):
        if not careful:
            raise
        saved.zero_()
    dist.all_reduce(saved, op=dist.ReduceOp.MIN)
    return "saved" if saved else "not saved, and all know it: go on, and call a person"


culprits["disk"], limits = lab72.one_of_three("disk", night, None, 100_000)
with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
    careless = [(one, limit, False) for limit in limits]
    failures["disk"], mended = lab72.play_ways(save, careless, [(other, limit, True) for limit in limits])
    for folder, ranks in ((one, failures["disk"]), (other, mended)):
        lab72.show_ends(ranks)
        files = sorted(os.scandir(folder), key=lambda file: file.name)
        print("left:", [f"{file.name}, {file.stat().st_size} bytes" for file in files])


# %% [markdown]
# "unexpected pos" is how a full disk reads in PyTorch: no word of a disk. Worse is what is left: a `.pt`
# that is no checkpoint, perhaps in place of the last good one. The cure: make room; and write to another
# name, give it the right one when it is complete, and tell all ranks how it went.
#
# ### A firewall
# Ranks meet at a port of rank 0's node. Here three ranks have been given three ports of this computer, and
# knock. Behind one a firewall seems to swallow all packets.

# %%
def reach(port):
    return f"port {port}: {lab72.knock(port, patience=1)}"


with lab72.three_ports() as ports:
    dealt = lab72.shuffled("ports", night, list(ports.values()))
    (failures["port"],) = lab72.play_ways(reach, [(port,) for port in dealt])
    lab72.show_ends(failures["port"])
    culprits["port"] = dealt.index(ports["a firewall drops it"])
    print()
    for kind in ("nobody listens", "a firewall drops it"):
        print(f"{kind}; PyTorch: {lab72.meet(ports[kind], patience=1)}")


# %% [markdown]
# PyTorch gives the same words for both bad ports: it timed out. A simple `knock` tells them apart. **Refused,
# at once**: the packet arrived, and nobody listens there: rank 0 died, has not begun, or listens at another
# port. **Silence**: a firewall, or an address that is not reached. Cures: `MASTER_PORT` from the range that
# the site has opened, and `NCCL_SOCKET_IFNAME`, `GLOO_SOCKET_IFNAME` for a network between the nodes that has
# no firewall.
#
# ### Exercise 72.5 · Who speaks of itself?
# One rank fails; the others lose it, and fail as well. `ranks[r]` is what was found of rank r:
#
# - `.rank`: r, its number.
# - `.state`: "finished", "raised", the name of the signal that ended it such as "SIGKILL", or "ended with
#   status 70".
# - `.error`: its last words, "" if there were none. `.line`: the line that they came from, 0 if there is
#   none.
#
# Return the rank that failed first, as far as words tell: the one that did not finish, and does not just
# complain of a connection "closed by peer" or "reset by peer". With it its line: `return rank, line`.
# 3 lines. *(beginner)*
#
# The check takes made-up endings, and the ranks of `remember`, `load` and `save` above.
#
# <details><summary>Hint 1: a loop over all</summary>
#
# `for rank in ranks:`, and in it one `if` with two conditions.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if rank.state != "finished" and "by peer" not in rank.error:`
# </details>

# %%
def first_cause(ranks):
    """(rank, line) of the rank that failed by itself; None if all finished. ranks: what was found of each."""
    raise NotImplementedError("exercise 72.5: Who speaks of itself?")
    return None


# %%
# Asked: The rank that fails by itself, of made-up endings and of three of the
# gallery.
check("72.5", first_cause)


# %% [markdown]
# ### Exercise 72.6 · Six jobs on your desk
# The six jobs of `failures`, in an order that is drawn, and nobody says which is which. `diagnose` gets the
# ranks of one and returns two things. First *where* to look, as far as the evidence says:
#
# - A rank failed by itself: `first_cause(ranks)`.
# - All finished, and one node has another version: the rank, such as `2`.
# - All finished, and two ranks have one device: the device, as they wrote it: `"core 0"`.
# - All finished, and one port is silent: that port: `"port 40123"`.
#
# `failures["versions"]` is the roll call, and `failures["port"]` holds the knocks alone.
#
# Second, what to do first, one of these words:
#
# | word | what to do | word | what to do |
# |---|---|---|---|
# | "again" | submit the job again, unchanged | "port" | ask for a port that is open between the nodes |
# | "install" | one version on all nodes | "room" | make room where the files go |
# | "map" | take the device by `LOCAL_RANK` | "timeout" | let all wait for longer |
# | "numbers" | keep numbers, no tensors | "workers" | fewer workers of the data loader |
#
# Look into the outputs above for words that only this failure leaves. A rank that finished has no `.error`,
# but a `.result`: what stands behind "finished" above. One of the six is given. About 9 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: the signs</summary>
#
# "DataLoader worker", "unexpected pos", "recipe", "core"; and of the three ports, the silent one "timed out".
# </details>
# <details><summary>Hint 2: the odd one and the double one</summary>
#
# `min(results, key=results.count)` is the result that is there least often, `results.index(…)` its rank.
# With `max` it is the one that is there most often.
# </details>
# <details><summary>Hint 3: the silent port</summary>
#
# `for result in results:`, `if "timed out" in result:`, and `result.split(":")[0]` is what stands before the
# first colon.
# </details>

# %%
def diagnose(ranks):
    """(where, what to do first) of one of the six jobs. ranks: what was found of each."""
    words = " ".join(f"{rank.error} {rank.result}" for rank in ranks)
    results = [str(rank.result) for rank in ranks]
    if "can't allocate memory" in words:
        return first_cause(ranks), "numbers"
    raise NotImplementedError("exercise 72.6: Six jobs on your desk")
    return None


# %%
# Asked: Where to look in each of the six jobs, and what to do first; then as if they
# had failed on other ranks, cores and ports.
check("72.6", diagnose)

# %% [markdown]
# ## 6. What to switch on before (for those who have time: to look things up in)
# Evidence must be asked for *before* a job fails. What exists for what:
#
# | what | how | Gloo | NCCL | Horovod |
# |---|---|---|---|---|
# | stacks | py-spy (may need root's rights), `faulthandler` | yes | yes, Python's side | yes |
# | the calls | flight recorder: `TORCH_FR_BUFFER_SIZE` | yes, on demand | yes | no: the timeline (lab 44) |
# | written after a time limit | `TORCH_NCCL_DUMP_ON_TIMEOUT=1` | no | yes | no |
# | calls compared | `TORCH_DISTRIBUTED_DEBUG=DETAIL` | yes | yes | always, by name |
# | a limit of time | `init_process_group(timeout=…)` | raises | see below | stall check |
# | what the library does | `NCCL_DEBUG=WARN`, or `INFO` | no | yes | `HOROVOD_LOG_LEVEL` |
# | uneven shards | DDP: `with Join([model]):` | yes | yes | `hvd.join()` |
#
# NCCL's calls return before the GPU is through. So no line of Python raises when one hangs: a watchdog thread
# looks after them, and `TORCH_NCCL_ASYNC_ERROR_HANDLING` says what it does after an error or the limit: 0
# nothing, 1 abort NCCL and end the process, 2 only abort NCCL, 3 (as it is) end the process without. 0 means
# a job that hangs until its time is over, and you pay for it. `python -m
# torch.distributed.flight_recorder.fr_trace` compares the recorder's files as you did in 72.2.
#
# The column NCCL comes from PyTorch's and NCCL's documentation. This lab shows none of it, since it runs
# everywhere. Lab 43 shows `NCCL_DEBUG` where there are GPUs.
#
# With `TORCH_DISTRIBUTED_DEBUG=DETAIL` each call first exchanges what it is about to do. That is work in
# every call: PyTorch's documentation advises it for the search alone. Your case of section 2 again:

# %%
lab72.show_ends(lab72.play([lab72.Job(train, disorders[0], detail=True)])[0])

# %% [markdown]
# No hang any more: an error, on every rank, which names two calls that do not fit. Which rank is the odd one
# you still have to find out.
#
# ## What you take away
# - A hang: stacks of all ranks. The odd one out is the one that all wait for.
# - All in exchanges: the calls of all ranks, in order. The first that does not fit.
# - Uneven shards: join, and count who is there. A zero is no gradient.
# - A NaN: who had it before the exchange? Skip on all ranks or on none.
# - "Closed by peer", "reset by peer" (section 5): these tell of another. Look for who speaks of itself.

# %%
lab72.close()
