# %% [markdown]
# <!-- Generated from solutions/70_checkpoint_and_requeue.py by `make labs`. Learners work on a copy in work/. -->
# # 70 Checkpoint and requeue
#
# A job often ends before its training does: its time is up, a node dies, somebody more urgent
# comes. You save what an exact resume needs, so that no kill can spoil it, and have Slurm go on
# with the same losses, bit for bit. At the end a job goes on with fewer ranks than it began with.
#
# **You will be able to** (1) say what a resume needs, and what is lost without each part, (2) write
# a file that no kill can tear, and check it before you trust it, (3) compute how often to save, (4)
# write a loop that saves when it is asked to stop, and read the script by which Slurm goes on with
# it, (5, for those who have time) deal out the data so that no sample is lost or repeated when the
# number of ranks changes, and set batch and rate.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 70 · Level: intermediate · Before: 30, 40, 60

# %%
import hashlib
import math
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pandas
import torch
from labkit import check, hint, home, lab, launch, predict, record, timing
from support import lab70

lab.start("70_checkpoint_and_requeue")
ranks = launch.ranks_here(2)

# %% tags=["parameters"]
last = 60  # steps of each training; an epoch has 24
every = 10  # steps from one save to the next
kills = 50  # of each way to save
kilobytes = 512  # of a file that is killed while it is saved
megabytes = 64  # of a state whose save is timed
repeat = 5  # timed saves
dies = 8  # the step in which a node is lost
limit = 300  # seconds to wait for a job
patience = 60  # seconds after which a check calls a program stuck


# %% [markdown]
# ## 1. What does an exact resume need?
# In [lab 40](40_horovod_pytorch.ipynb) rank 0 wrote the net and the optimizer into a file, a **checkpoint**. Is that enough to
# go on as if nothing had happened? `lab70.Training(comm)` is a data-parallel training as in [lab 30](30_average_gradients.ipynb),
# with what nearly every real one has:
#
# | part | how it is read, and put back |
# |---|---|
# | net, optimizer (Adam and its averages), learning rate's schedule | `state_dict()`, `load_state_dict(…)` |
# | the place in the shuffled data | two numbers: `training.epoch`, and `training.step` within the epoch |
# | PyTorch's random numbers, for dropout | `torch.get_rng_state()`, `torch.set_rng_state(…)` |
# | NumPy's random numbers, for noise in the pixels | read, or assign, `training.noise.bit_generator.state` |
#
# The order of the data follows from the epoch's number, so it need not be saved.
#
# *Dropout* sets some of the net's inner numbers to zero, at random, in every step. A **random
# state** is what a generator needs to draw the same numbers again. Each rank has its own two. So
# rank 0, which writes the file, asks the others first: `comm.gather(value)` gives rank 0 the list
# of all ranks' values, and the others `None`.
#
# ### Exercise 70.1 · Capture and restore
# All ranks call both functions. In `capture` rank 0 returns `state` with one more key, `"random"`:
# the list of all ranks' `own`. The others return `None`. 5 lines. `restore` puts such a dict, the
# same on every rank, into a fresh training. The place and the two random states are left to you. 5
# lines. *(intermediate)*
#
# <details><summary>Hint 1: on all ranks first</summary>
#
# `everybody = comm.gather(own)` on every rank. Only then `if comm.rank != 0: return None`.
# </details>
# <details><summary>Hint 2: nearly the answer, of restore</summary>
#
# `training.epoch = state["epoch"]`, and so on. Then `dropout, noise = state["random"][comm.rank]`,
# `torch.set_rng_state(dropout)` and `training.noise.bit_generator.state = noise`.
# </details>

# %%
def capture(training, comm):
    """All that an exact resume needs, as a dict on rank 0; None on the others. All ranks call
    this."""
    state = {
        "net": training.net.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "schedule": training.schedule.state_dict(),
        "epoch": training.epoch,
        "step": training.step,
    }
    # This rank's, PyTorch's and NumPy's.
    own = (torch.get_rng_state(), training.noise.bit_generator.state)
    raise NotImplementedError("exercise 70.1: Capture and restore")


def restore(training, state, comm):
    """Put what `capture` returned on rank 0 into this rank's training. All ranks call this."""
    training.net.load_state_dict(state["net"])
    training.optimizer.load_state_dict(state["optimizer"])
    training.schedule.load_state_dict(state["schedule"])
    raise NotImplementedError("exercise 70.1: Capture and restore")


# %%
# Asked: Captured in the middle of an epoch and at its end, restored into a
# fresh training: all is as it was, on every rank, and the losses that follow
# are the same to the last bit.
check("70.1", capture, restore)

# %% [markdown]
# ### Predict
# What if one part is forgotten? A step takes the images and adds noise; computes the loss, through
# dropout; computes gradients; steps the optimizer; then the schedule sets the rate of the *next*
# step, in the optimizer's state. Which is the first loss after the resume that differs: the first,
# the second, the third?

# %%
predict("70.1", random_states=..., place=..., optimizer=..., schedule=...)  # 1, 2 or 3

# %% [markdown]
# ### Measure
# Captured after step 36, in the middle of the second epoch, and resumed six times: with all parts,
# with one forgotten (four times), and with rank 0's random states on every rank.

# %%
stop = 3 * last // 5
losses = launch.run(lab70.forget, capture, restore, stop, last, ranks=ranks, threads=1)[0]
whole = losses.pop("without a break")
rows = {}
first = {}
for forgotten, values in losses.items():
    apart = [abs(value - right) for value, right in zip(values, whole, strict=True)]
    first[forgotten] = next((number for number, gap in enumerate(apart, 1) if gap), None)
    rows[forgotten] = {
        "first loss that differs": first[forgotten] or "none",
        "last loss": values[-1],
    }
    record.add("forgotten", part=forgotten, first=first[forgotten], largest=max(apart), ranks=ranks)
print(pandas.DataFrame.from_dict(rows, orient="index").to_string())
answers = {name.split()[0]: number for name, number in first.items()}
predict.right(
    "70.1",
    random_states=answers["random"],
    place=answers["place"],
    optimizer=answers["optimizer"],
    schedule=answers["schedule"],
)


# %% [markdown]
# **Explain.** With all parts no loss differs, not by one bit. (That holds for the same number of
# ranks and threads, on the same kind of processor: others add in another order.) Random states and
# place feed the forward pass, and show in the first loss; so does the last row, as rank 1 then
# draws rank 0's numbers (a loss is the mean over all ranks). The optimizer's state shows one step
# later, through the weights. The schedule shows last: the optimizer brought the rate of the first
# step with it.
#
# No training crashed, and no last loss looks absurd: a forgotten part gives no warning. So test a
# training of your own: resume it in a fresh process, as section 5 will, and compare the losses with
# `==`.
#
# ## 2. A file that no kill can tear
# `open(path, "wb")` empties the old file before the first byte of the new one is there. A job that
# is killed then has neither. The cure: write to **another name**, and rename when all is there.
# Here are the lines, in the order of the alphabet:
#
# | line | what it does |
# |---|---|
# | `file.flush()` | Python's buffer goes to the kernel |
# | `file.write(content)` | all bytes, perhaps only into Python's buffer |
# | `folder = os.open(path.parent, os.O_RDONLY)` | opens the folder, which holds the *names* |
# | `os.close(folder)` | or each save would leave one more open |
# | `os.fsync(file.fileno())` | waits until the bytes that the kernel has are on the disk |
# | `os.fsync(folder)` | waits until the names are on the disk |
# | `os.replace(temporary, path)` | renames in one go: anybody sees all of the old file, or all of the new |
# | `temporary = path.with_name(path.name + ".new")` | another name, in the same folder (so on one disk) |
# | `with open(temporary, "wb") as file:` | opens it, and empties what a killed save may have left there |
#
# The temporary file and the rename are for `kill -9`: it ends the process at once, but not the
# kernel, which still writes what it was given. Each `fsync` is for a power cut, which ends both:
# the kernel might rename first and write the bytes later, and the good name would then hold
# nothing. Without the second one the old file may be there again: whole, but a save that you
# believed done is gone.
#
# ### Exercise 70.2 · Old or new, never between
# `write(path, content)` puts the bytes `content` into the file `path` (a `Path`). Whenever it is
# killed, `path` holds all that it held before, or all of `content`. Copy the 9 lines in the right
# order. *(beginner)*
#
# <details><summary>Hint 1: what is inside of `with`</summary>
#
# Write, flush, fsync of the file.
# </details>
# <details><summary>Hint 2: what comes after it</summary>
#
# Rename. Only then the folder's three: open, fsync, close.
# </details>

# %%
def write(path, content):
    """Put `content` (bytes) into the file `path`: all of it or nothing, whatever happens
    meanwhile."""
    raise NotImplementedError("exercise 70.2: Old or new, never between")


# %%
# Asked: At each line of `write`, the file is the old or the new one, whole:
# that is what a kill before this line would leave. And each fsync is in its
# place.
check("70.2", write)


# %% [markdown]
# ### Measure
# A process saves version after version, is killed at a random moment, and starts again: with your
# `write`, and, as a control, in the obvious way, into the file itself. About 10 s.
#
# The table says what the file held after each of the kills: `newest`, the version last finished, or
# already the next one; `lost`, an older one; `torn`, no whole one.

# %%
def overwrite(path, content):
    """The obvious way, for comparison."""
    path.write_bytes(content)


rows = {}
for way, function in {"yours": write, "the obvious way": overwrite}.items():
    rows[way] = lab70.kill_at_random(function, kills, 1000 * kilobytes)
    record.add("killed", way=way, **rows[way], bytes=1000 * kilobytes)
print(pandas.DataFrame.from_dict(rows, orient="index").to_string())


# %% [markdown]
# **Explain.** With your `write` a kill costs at most the save that it falls into. The obvious way
# leaves torn files: how many depends on your machine and its file system. No kill shows whether an
# `fsync` is there: that takes a power cut, so the check looks for the calls themselves.
#
# ## 3. Look before you trust it
# A file can be bad even so: a disk returns another bit, a copy was cut short, or it is another
# net's. So `lab70.pack(payload, model)` puts one line before the bytes of the state, a label:
#
#     {"model": "5d1c…", "bytes": 207120, "sha256": "9b0f…"}
#
# `model` is a short text computed from names and shapes of the net's tensors. `sha256` is a
# **checksum** of the bytes behind the line, `hashlib.sha256(payload).hexdigest()`: change one bit
# of them, and it is another.
#
# ### Exercise 70.3 · Is it whole, and mine?
# `judge` says of a file's content what it is. The first that holds is the answer. 7 lines.
# *(beginner)*
#
# 1. `"incomplete"`: `label` is `None` (not even that line is whole), or the bytes are not as many
#    as it says
# 2. `"damaged"`: another checksum
# 3. `"another model"`: than `model`
# 4. `"good"`
#
# <details><summary>Hint 1: in which order</summary>
#
# The order of the list, each question with its own `return`. (The label has no checksum. A wrong
# bit in it makes the file "incomplete", "damaged" or "another model": it is not taken either.)
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if label is None or len(payload) != label["bytes"]:` is the first question.
# </details>

# %%
def judge(content, model):
    """What a checkpoint file's content is: "good", "incomplete", "damaged" or "another model"."""
    label, payload = lab70.split(content)  # the line as a dict, and the bytes that follow it
    raise NotImplementedError("exercise 70.3: Is it whole, and mine?")


# %%
# Asked: The right word for whole, cut, lengthened, changed and foreign files.
check("70.3", judge)

# %% [markdown]
# ### Measure
# `lab70.newest` asks your `judge`, from the newest file on, and takes the first good one. Three are
# there. Then the newest is damaged, the one before it is cut, and it is asked again.

# %%
with tempfile.TemporaryDirectory() as name:
    for done in (10, 20, 30):
        write(lab70.path_of(name, done), lab70.pack(f"after {done} steps".encode() * 100, "net A"))
    print("all three are whole; taken:", lab70.newest(name, "net A", judge)[:14].decode())
    newest_file = lab70.path_of(name, 30)
    newest_file.write_bytes(lab70.damaged(newest_file.read_bytes()))
    before_it = lab70.path_of(name, 20)
    before_it.write_bytes(before_it.read_bytes()[:500])
    taken = lab70.newest(name, "net A", judge)
    print("taken:", taken[:14].decode())


# %% [markdown]
# **Explain.** Two bad files cost two intervals, and not the training: so keep more than one
# checkpoint.
#
# ## 4. How often?
# Save often, and you spend your time on saving. Save rarely, and a failure costs much work. Three
# numbers decide, in seconds: `save`, what a save takes; `every`, how long you compute between two
# of them (in this section seconds, elsewhere steps); `mtbf`, the **mean time between failures** of
# the whole job.
#
# - Saving costs about the share `save / every` of the time.
# - A failure comes somewhere between two saves: in the mean, half of `every` is done again. That is
#   lost once in each `mtbf`: a share of `every / (2 * mtbf)`.
#
# The sum is least where both are equal: there `every` is the square root of `2 * save * mtbf`. That
# is **Young's** interval (J. W. Young, Communications of the ACM 17, 1974).
#
# Meta's training of Llama 3 on 16,384 GPUs had 419 unexpected ends in 54 days ("The Llama 3 Herd of
# Models", 2024): an mtbf of 3.1 hours. Failures add up: on n times fewer GPUs they come n times
# more rarely.
#
# ### Exercise 70.4 · Young's interval
# `interval` returns the seconds between two saves, by Young, and `lost` the share of the time that
# saving and repeating take together. All times in seconds. 2 lines. *(beginner)*
#
# <details><summary>Hint 1: the share</summary>
#
# The sum of the two shares above.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `math.sqrt(…)` of the product that the text names.
# </details>

# %%
def interval(save, mtbf):
    """Seconds of computing between two saves, by Young. save, mtbf: in seconds."""
    raise NotImplementedError("exercise 70.4: Young's interval")


def lost(every, save, mtbf):
    """The share of the time that saves and repeated work take, if one saves after each `every`
    seconds."""
    raise NotImplementedError("exercise 70.4: Young's interval")


# %%
# Asked: Young's formula, and both shares.
check("70.4", interval, lost)

# %% [markdown]
# ### Predict
# With an mtbf of 3.1 hours and a save of 60 s Young says 19.3 minutes, and 10.4 % of the time is
# lost. On an eighth of the GPUs, with the same time for a save: how many minutes, and how many
# percent?

# %%
predict("70.4", minutes=..., percent=...)

# %%
llama = 3.1 * 3600
young = interval(60, llama)
for factor in (0.5, 1, 2):
    percent = 100 * lost(factor * young, 60, llama)
    print(
        f"all GPUs, {factor} times Young's interval: {factor * young / 60:.1f} minutes,"
        f" {percent:.1f} %"
    )
eighth = interval(60, 8 * llama)
predict.right("70.4", minutes=eighth / 60, percent=100 * lost(eighth, 60, 8 * llama))

# %% [markdown]
# ### Measure
# What does a save with your `write` take on this disk, and how often would you save a large net on
# 1,000 nodes?

# %%
with tempfile.TemporaryDirectory(dir=home()) as name:
    content = lab70.pack(bytes(1_000_000 * megabytes), "zeros")
    took = timing.measure(lambda: write(Path(name) / "timed", content), repeat=repeat, warmup=1)
rate = 1e6 * megabytes / took.median
print(f"{megabytes} MB in {took}: {rate / 1e6:.0f} MB/s")
own_save = 12e9 / rate  # a net of 1e9 parameters: 4 bytes each, and 8 for Adam's averages
mtbf = 5 * 365 * 86_400 / 1000  # if each of the nodes fails once in five years
minutes = interval(own_save, mtbf) / 60
percent = 100 * lost(60 * minutes, own_save, mtbf)
record.add("save", seconds=took, bytes=len(content), bytes_per_second=rate)
print(
    f"12 GB at this rate: {own_save:.0f} s; a save each {minutes:.0f} minutes, {percent:.1f} % lost"
)


# %% [markdown]
# **Explain.** The second line is extrapolated, to a file far larger than the timed one, and to one
# disk for all. You need not know `save` and the mtbf exactly: half or twice Young's interval loses
# a quarter more, as the lines above say of Llama 3.
#
# ## 5. Asked to stop
# Some ends are announced: Slurm can send a **signal** before it kills. It interrupts a process
# wherever it is, perhaps in the middle of a step, so nothing may be saved there. The lines below
# set a flag, and no more. (Without them USR1 would end the process.)
#
#     heard = []
#     before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
#     …                                       # the training; stopped() returns bool(heard)
#     signal.signal(signal.SIGUSR1, before)   # the end: the signal does again what it did
#
# The loop asks `stopped()` after each step. But ranks do not hear the signal at the same time. If
# rank 1 leaves after step 7, and rank 0 begins step 8, rank 0 waits for ever: its allreduce needs
# rank 1's gradients. So all ranks have to leave after the same step, and ask each other:
# `comm.allgather(value)` gives every rank the list of all values.
#
# ### Exercise 70.5 · The loop
# Three lines of `train` are there. `training.done` counts the steps of the whole training, computed
# from `epoch` and `step`: it goes on after `restore`. After each step ask once. Call
# `save(training)`, once, if **any** rank was asked to stop, or if a save is `due`. If any was
# asked, return then. The ranks are `training.comm`. 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: one question in each step</summary>
#
# `stop = any(training.comm.allgather(stopped()))`: in each step, on all ranks, not only where the
# own flag is set.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Then `if stop or due: save(training)`, and `if stop: return`, both inside the loop.
# </details>

# %%
def train(training, last, every, stopped, save):
    """Train until `last` steps are done, or until a rank was asked to stop. training.comm: the
    ranks."""
    while training.done < last:
        training.advance()
        due = training.done % every == 0 or training.done == last
        raise NotImplementedError("exercise 70.5: The loop")


# %%
# Asked: All ranks do equally many steps, save after the right ones, and stop
# when one was asked.
check("70.5", train)

# %% [markdown]
# ### Predict
# Two ranks train for 60 steps, with all your functions, and save after every 10. After step 27 a
# rank is killed with `kill -9`, and the training is started again. With which step does it begin,
# and how many steps are done a second time?

# %%
predict("70.5", first_step=..., done_again=...)

# %% [markdown]
# ### Measure
# Each loss is written down with all its bits, and compared with `==` to a training without a break.
# About 10 s. (The message on the rank that died names a usual cause. Here the lab killed it. In a
# batch job nobody is killed at this place, and you see one life.)

# %%
killed_after = 2 * every + 7 * every // 10
mine = lab70.Answers(capture, restore, write, judge, train)
story, whole = lab70.killed_and_resumed(mine, home() / "70_lives", last, every, killed_after, ranks)
lives = lab70.table(story, whole)
print(lives.to_string())
for life, row in lives.iterrows():
    again, differ = int(row["done again"]), int(row["losses that differ"])
    record.add(
        "life", life=life, steps=int(row["last step"]), again=again, differ=differ, way="kill -9"
    )
if len(lives) > 1:  # in a batch job nobody is killed here
    final = lives.iloc[-1]
    predict.right("70.5", first_step=int(final["first step"]), done_again=int(final["done again"]))

# %% [markdown]
# **Explain.** The second life begins right after the last good checkpoint, and does at most one
# interval again (all of it, if the kill hits a save). No loss differs: the kill cost time, and
# nothing else.
#
# ## 6. Slurm: signal and requeue
# In a batch job four things can end a training early, and Slurm can start it again after each of
# them:
#
# | what | how it is announced | who starts it again |
# |---|---|---|
# | its time is up | `--signal=B:USR1@60`: signal USR1, about 60 s before | its script: `scontrol requeue` |
# | **preemption**: an urgent job comes | SIGTERM, or your signal | Slurm (`--requeue`), or the script |
# | an operator requeues it | SIGTERM, and `KillWait` later SIGKILL | Slurm, with `--requeue` |
# | a node fails | not at all there; SIGTERM on the other nodes | Slurm, with `--requeue` |
#
# **SIGTERM** ends a process that does not listen for it; SIGKILL (`kill -9`) ends any. `KillWait`,
# the time between the two, is 30 s unless the site sets another. Before a preemption, SIGTERM comes
# early where the site grants a grace time, and on some sites your own signal comes in its place.
# The ranks of this lab listen only for USR1, so an operator's requeue does not warn them: SIGTERM
# ends them without a save.
#
# **Requeue** means: back into the queue, under the same number, and later from the first line of
# the script again. The ranks find their checkpoint and go on. In the script, `B:` sends the signal
# to the batch script alone, and its `trap` passes it on to the ranks. Which line puts the job back
# into the queue?

# %%
print(lab70.script())

# %% [markdown]
# ### Predict
# The same training as a job. The signal comes, as before a preemption. How many steps are done
# again?

# %%
predict("70.5", after_signal=...)

# %% [markdown]
# ### On the tabletop
# `make tabletop` starts a small real Slurm on this machine. This cell submits the job there, on two
# nodes, and interrupts it twice. `scancel --batch --signal=USR1` sends the batch script the signal
# that Slurm would send; later `scontrol requeue` does as an operator would, without USR1. Its steps
# take half a second longer, so that there is time for that. About a minute. Without a tabletop read
# on: the table that it prints has a row for each life of the job.

# %%
# Steps after which it is interrupted, each in the middle of an epoch.
moments = (last // 5, last // 2 - 1)
outcome = lab70.three_lives(mine, last, every, moments, limit)
if outcome is not None:
    lives = lab70.table(*outcome)
    print(lives.to_string())
    for life, row in lives.iterrows():
        again, differ = int(row["done again"]), int(row["losses that differ"])
        record.add(
            "life", life=life, steps=int(row["last step"]), again=again, differ=differ, way="Slurm"
        )
    predict.right("70.5", after_signal=int(lives["done again"].iloc[1]))

# %% [markdown]
# **Explain.** The second life begins right after the last step of the first: the signal came, all
# ranks agreed, rank 0 saved, and nothing was done twice. The third begins right after a multiple of
# 10, because SIGTERM ended the second before it could save. All have the losses of the training
# without a break, which ran on the same nodes at the end. The line that you looked for is
# `scontrol requeue`: it runs where the ranks ended because they were asked.
#
# On your cluster ask three things. May a job requeue itself? Does preemption send your signal
# (`send_user_signal` in `PreemptParameters`; before Slurm 23.02 `preempt_send_user_signal` in
# `SlurmctldParameters`), and how long is the grace (`GraceTime`)? And how long does your save take?
#
# ## 7. For those who have time: fewer ranks
# A job that has lost a node need not wait for another one: an **elastic** job goes on with those
# that are left. Then the parts of the data change, and perhaps the batch.
#
# With a fixed number of ranks one often deals the whole epoch out beforehand: rank r takes samples
# r, r + p, r + 2p … After a change of p, that goes wrong. Below, two ranks take 12 samples each,
# then one rank is left, takes 24 of its own list, and goes on with two again:

# %%
# Each rank keeps its place in its own list, and goes on from there in the list for the new p.
used = []
place = 0
for size, each in ((2, 12), (1, 24), (2, 12)):
    for rank in range(size):
        used += list(range(rank, 96, size))[place : place + each]
    place += each
often = np.bincount(used, minlength=96)
print(
    f"{len(used)} samples taken: {np.sum(often == 0)} of 96 never, {np.sum(often > 1)} more than"
    " once"
)


# %% [markdown]
# Some were used twice, and others never will be: both lists are at their end. The cure is one
# number, `done`: how many samples of the epoch's order have been used. It is part of the
# checkpoint. What comes next then depends on `done` alone, and a group of any size deals *that*
# out.
#
# Two ranks with 24 samples each make steps of 48, with a learning rate of 0.2. Now there is one
# rank left:
#
# | | the rank computes | a step is of | learning rate |
# |---|---|---|---|
# | **keep** the global batch | twice as much | 48 samples | as before |
# | **rescale** | as much as before | 24 samples | by the linear scaling rule ([lab 34](34_large_batch.ipynb)): half |
#
# Keep, and the training is the same as without a failure, up to rounding. (With dropout or batch
# norm it is not: they depend on which rank computes what.) Steps take longer, and memory must
# suffice. Rescale, and a step takes as long as before, but it is another training. The values of
# the **start** are what counts, not those of now: after a resume nobody knows for how many ranks
# the present ones were set.
#
# ### Exercise 70.6 · Fewer ranks, or more
# - `own_part`: `order` is an array of sample numbers. The next step is of the next `batch` of them
#   after the first `done`; at the end of the epoch there may be fewer. Return this rank's part of
#   it. Parts differ by one sample at most, and together they are the step.
# - `after_resize`: the job began with `first` ranks, steps of `batch` samples and the rate `rate`.
#   Now there are `ranks` ranks. Return the samples of a step, a whole number, and the rate. `batch`
#   is divisible by `first`.
#
# 2 lines and 3. *(beginner)*
#
# <details><summary>Hint 1: first the step, then the part</summary>
#
# `order[done : done + batch]` are the samples of the step. A slice that goes beyond the end is cut
# off. With `[rank::ranks]` one takes every `ranks`-th, from the `rank`-th on.
# </details>
# <details><summary>Hint 2: per rank</summary>
#
# At the start each rank had `batch // first` samples. With `ranks` ranks there are `ranks` times as
# many.
# </details>

# %%
def own_part(order, done, batch, rank, ranks):
    """The numbers of the samples that this rank computes in the next step."""
    raise NotImplementedError("exercise 70.6: Fewer ranks, or more")


def after_resize(batch, rate, first, ranks, keep):
    """Samples of a step of all `ranks` ranks, and its learning rate. keep: the global batch
    stays."""
    raise NotImplementedError("exercise 70.6: Fewer ranks, or more")


# %%
# Asked: An epoch in which the number of ranks changes uses each sample exactly
# once; and the rule for batch and rate, when ranks go and when they come.
check("70.6", own_part, after_resize)

# %% [markdown]
# ### Predict
# PyTorch's launcher for such jobs is `torchrun`. On each node it starts an **agent**, which starts
# the node's ranks and watches them. The agents meet at a store, here that of node 1:
#
#     torchrun --nnodes=1:2 --nproc-per-node=1 --max-restarts=3 \
#         --rdzv-backend=c10d --rdzv-endpoint=node1:29500 train.py
#
# When anything changes, the agents **end all ranks** and start new ones, with other numbers in
# `RANK` and `WORLD_SIZE`. A rank knows nothing of before: it has to read a checkpoint.
# (`--max-restarts` bounds how often an agent starts anew because a rank failed; the default is 0:
# never.)
#
# Two agents train here with your two functions, steps of 48, a checkpoint after every third step.
# In step 8 the second node dies: its agent and its rank. How many finished steps are done again? Of
# the ranks that go on, how many are new processes?

# %%
predict("70.6", done_again=..., new_processes=...)

# %% [markdown]
# ### Measure
# Real processes on this machine, and as a control the same training in one process, with nobody
# killed. About half a minute: an agent counts as dead after 5 s without a sign of life, and a
# meeting with enough nodes waits 5 s more for others. (So it was set here; PyTorch's own values are
# 15 s and 30 s.)

# %%
ran = lab70.with_fewer_ranks(
    own_part, after_resize, batch=48, rate=0.2, every=3, dies=dies, limit=limit
)
if ran is not None:  # in a batch job nobody is killed
    steps, control = ran
    # Where a step was done twice, the second counts.
    by_step = {step["step"]: step["loss"] for step in steps}
    again = len([step for step in steps if step["rank"] == 0]) - len(by_step)
    alone = [step for step in steps if step["ranks"] == 1]
    # Processes of before the failure.
    begun = {step["process"] for step in steps if step["ranks"] == 2}
    new = {step["process"] for step in alone} - begun
    kept = alone + [
        step for step in steps if step["ranks"] == 2 and step["step"] < alone[0]["step"]
    ]
    samples = [sample for step in kept for sample in step["used"]]
    print(f"steps by two ranks up to {max(step['step'] for step in steps if step['ranks'] == 2)}")
    print(f"steps by one rank from {alone[0]['step']} to {alone[-1]['step']}; done again: {again}")
    print(f"samples in the final weights: {len(samples)}, {len(set(samples))} of them different")
    print(f"last loss {by_step[max(by_step)]:.6f}; control, one process: {control[-1]:.6f}")
    predict.right("70.6", done_again=again, new_processes=len(new))


# %% [markdown]
# **Explain.** The failure cost the steps since the last checkpoint, and the one under way. The rank
# that goes on is a new process, though nothing was wrong with the one before: after a failure
# inside a GPU's driver there is no other way. The losses are the control's, step by step, though
# two groups computed them.
#
# Why not always keep? A rank then needs room for twice the activations, or gradients are
# accumulated over two halves ([lab 60](60_ddp_and_fsdp.ipynb)). And when a job *grows* from 2 to 200 ranks, "keep" leaves a
# rank nothing to do; then one rescales, and lets the rate grow over some hundred steps ([lab 34](34_large_batch.ipynb)).
#
# A killed process says goodbye: its kernel closes its connections, and the others notice at once.
# An unplugged node says nothing, and silence looks like slowness: ranks wait for it as long as a
# late one may take, 30 s with Horovod's Gloo, up to half an hour with PyTorch's, if nothing else is
# said. (A rank that is sending hears sooner: Linux gives up a TCP connection after about a quarter
# of an hour.) On Slurm `sbatch --no-kill` and `srun --no-kill` keep a job that has lost a node; a
# lost node does not come back to it, so a new job has to bring one.
#
# ## 8. Going further (optional)
# ### Horovod Elastic, in terms of this lab
# Horovod's elastic jobs do the same with other words. Survivors go on in the same process:
#
# | Horovod Elastic | here | torchrun |
# |---|---|---|
# | `state.save()`, or `commit()`: a copy in memory | `capture` and `write` | a file of your own |
# | `state.restore()`: back to the last copy | `restore` | all ranks start anew and read the file |
# | `state.sync()`: rank 0's to all, newcomers too | `comm.bcast`, then `restore` | every rank reads |
# | `ElasticSampler` | `done` and `own_part` | a number in your file |
# | discovery: a script prints `node7:4` for 4 ranks | Slurm's list of nodes | agents come to the store |
# | rendezvous, after every change | `MPI_Init` | the same |
# | blacklist: no node twice on which a rank died | `sbatch --exclude` | none |
# | dies with | the node of the job script | the node of the store |
#
# Two exceptions tell a rank what has happened: `HorovodInternalError`, a message failed and the
# step is cut off in its middle; `HostsUpdatedInterrupt`, a node has come or will go, and all ranks
# are between the same two steps.
#
# **On paper.** `train(state)` trains from `state.step` on and returns when it is done; `meet()`
# goes to the rendezvous. Write the loop around them. What must a rank do first in each of the two
# cases, before it meets the others again?
# <details><summary>Answer</summary>
#
# ```python
# while True:
#     try:
#         state.sync()
#         return train(state)
#     except HorovodInternalError:
#         state.restore()  # the last copy is of a moment that was the same on all ranks
#     except HostsUpdatedInterrupt:
#         state.save()  # nothing was cut off, and nothing needs to be lost
#     meet()
# ```
#
# `sync` is inside of `try`: a rank may die there, too. Horovod's own `hvd.elastic.run` is this loop
# without the `save` (0.28.1): `sync` then sends the net of now with the counters of the last copy,
# and the steps in between are taken twice. So ask for newcomers in `state.commit()` only.
# </details>
#
# Such a job is started by `horovodrun --min-np 1 --host-discovery-script ./hosts.sh …`. It always
# runs over Gloo, which Horovod must have been built with, because an ordinary MPI job ends with its
# first rank. This kit's Horovod has no servers, and so no elastic jobs (`env/HOROVOD.md`).
#
# **Who may enter?** The rendezvous decides who is a rank, and ranks *unpickle* what they are sent,
# which can run any code. Horovod 0.28.1 as it comes from `pip` unpickles what a stranger sends
# (CVE-2024-10190). PyTorch's store knows no secret, and listens on every address: above, the kit
# let it listen on the loopback alone. On a cluster use nodes of your own (`sbatch --exclusive`),
# and a network that other jobs do not reach.
#
# ### A file from a stranger
# Reading is where a stranger could harm you. `torch.save` writes a *pickle*, and a pickle can hold
# a call, which is made when it is read. `weights_only=True` takes tensors, numbers, texts, and
# lists, tuples and dicts of them, and refuses such calls: that is how the labs read.

# %%
class Harmless:
    """A pickle of it holds a call: whoever reads it makes that call."""

    def __reduce__(self):
        return (print, ("  this was printed by reading the file",))


with tempfile.TemporaryDirectory() as name:
    stranger = Path(name) / "stranger.checkpoint"
    torch.save({"net": Harmless()}, stranger)
    for only in (False, True):
        print(f"read with weights_only={only}:")
        try:
            torch.load(stranger, weights_only=only)
        except pickle.UnpicklingError:
            print("  refused")

# %% [markdown]
# ### In pieces, and in the background
# Rank 0 writes for everybody: with FSDP it does not even have the whole net. PyTorch's *distributed
# checkpoint* ([lab 60](60_ddp_and_fsdp.ipynb)) lets each rank write its own pieces, and `async_save` returns when the state
# is copied. (It needs a backend for CPUs. On GPUs begin with
# `init_process_group("cpu:gloo,cuda:nccl")`.) Two things it does not do as you do (PyTorch 2.13).
# It renames `.metadata` without an fsync of the folder; and in a folder that has an older
# checkpoint it *removes* the old `.metadata` before it renames the new one. So take a new folder
# for each checkpoint, and remove the older one when the new one is whole.
#
# ### What this lab does not show
#
# - GPUs. Some sums change there from run to run; `torch.use_deterministic_algorithms(True)` takes
#   another way, or raises an error that names the operation. And a GPU has a random state of its
#   own, `torch.cuda.get_rng_state()`.
# - A shuffle that draws from a generator: a resume needs its state at the *beginning* of the epoch,
#   where the order was drawn. Data loaders with workers have random states of their own, too.
# - Object storage, which has no rename.
#
# ## What you take away
# - An exact resume needs net, optimizer, schedule, place in the data, and the random states of
#   *every* rank. Test it with `==`.
# - Another name, fsync, rename, fsync of the folder. Then a checksum, before you trust the file.
# - Save each √(2 · save · mtbf) seconds; half or twice of it loses a quarter more.
# - A signal sets a flag; all ranks agree on the step; the script requeues the job.
# - Keep the place in the data as one number: then any number of ranks can go on. Keep the global
#   batch, and the training is the same.
# - Whoever reaches a rendezvous without a secret is in the job: let nobody reach it.
