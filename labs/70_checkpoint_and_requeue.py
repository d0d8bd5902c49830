# %% [markdown]
# <!-- Generated from solutions/70_checkpoint_and_requeue.py by `make labs`. Learners work on a copy in work/. -->
# # 70 Checkpoint and requeue
#
# A batch job often ends before its training run does, because its time is up, a node fails, or an
# urgent job takes its place. On many thousands of GPUs, such interruptions happen several times a
# day. Without a **checkpoint**, a file from which the training run can continue, all work is lost.
# With a checkpoint that lacks a part of the state, the job continues but silently becomes a
# different training run. A job that is killed while it writes may lose the checkpoint, too.
#
# In this lab we save everything that an exact resume needs, in a way that no kill can spoil, and
# let Slurm continue the job with the same losses, bit for bit. In optional parts we compute what
# failures cost, and a job continues with fewer [ranks](../labs/GLOSSARY.md#rank) than it began with.
#
# **After this lab you can** (1) say what a resume needs, and what is lost without each part, (2)
# write a file that a kill cannot leave incomplete, and check it before you trust it, (3) choose how
# often to save, (4) write a loop that saves when it is asked to stop, and read the script by which
# Slurm continues it, (5, optional) compute which share of the time failures cost, and (6, optional)
# divide the data so that no sample is lost or repeated when the number of ranks changes, and set
# the batch size and [learning rate](../labs/GLOSSARY.md#learning-rate).
#
# ![A job saves after steps 5 and 10 and is killed after step 13. Its second life reads the checkpoint of step 10 and computes steps 11 to 13 again](../notebooks/figures/70_lives.svg)
#
# *A job that saves after every fifth step is killed after step 13 and started again. Its second
# life begins from the last checkpoint, so steps 11 to 13 are computed again.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 70 · Level: intermediate · Before: 30, 40, 60

# %%
import hashlib
import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas
import torch
from labkit import check, hint, home, lab, launch, own_folder, predict, record, timing
from support import lab70

lab.start("70_checkpoint_and_requeue")
ranks = min(launch.ranks_here(2), 64)  # a batch has 64 images, one for each rank at least

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
# In [lab 40](40_horovod_pytorch.ipynb), rank 0 wrote the network and the optimizer to a checkpoint. Is this enough to continue
# exactly? `lab70.Training(comm)` is a data-parallel training run as in [lab 30](30_average_gradients.ipynb), with the parts that
# nearly every real one has:
#
# | part | how to read it, and how to put it back |
# |---|---|
# | network, optimizer (Adam and its averages), learning-rate schedule | `state_dict()`, `load_state_dict(…)` |
# | the position in the shuffled data | two numbers: `training.epoch`, and `training.step` within the epoch (the order follows from the epoch number, so it is not saved) |
# | PyTorch's random numbers, for dropout | `torch.get_rng_state()`, `torch.set_rng_state(…)` |
# | NumPy's random numbers, for noise in the pixels | read, or assign, `training.noise.bit_generator.state` |
#
# *Dropout* sets some of the [activations](../labs/GLOSSARY.md#activation) in the network to zero, at random, in every step. A
# **random state** is what a generator needs to draw the same numbers again.
#
# `state_dict()` returns the training run's own tensors, not copies, so write the file before the
# next step changes them.
#
# Each rank has its own two random states, but only rank 0 writes the file. Rank 0 therefore
# collects them first. `comm.gather(value)` returns the list of all ranks' values on rank 0, and
# `None` on all other ranks. With two ranks, for example, `comm.gather(10 + comm.rank)` returns
# `[10, 11]` on rank 0 and `None` on rank 1.
#
# ### Exercise 70.1 · Capture and restore
# All ranks call both functions. In `capture`, the variable `own` is the pair of this rank's random
# states, first PyTorch's and then NumPy's. *(intermediate)*
#
# - `capture` returns on rank 0 the dict `state` with one more key, `"random"`, which contains the
#   list of all ranks' `own`. On the other ranks it returns `None`. 5 lines.
# - `restore` puts such a dict, which is the same on every rank, into a fresh training run. The
#   position and this rank's two random states are your part. 5 lines.
#
# <details><summary>Hint 1: on all ranks first</summary>
#
# Call `everybody = comm.gather(own)` on every rank, and only then `if comm.rank != 0: return None`.
# </details>
# <details><summary>Hint 2: nearly the answer for restore</summary>
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
# A step of this training run has four parts:
#
# 1. It takes the images and adds noise.
# 2. It computes the [loss](../labs/GLOSSARY.md#loss) through dropout.
# 3. It computes the [gradients](../labs/GLOSSARY.md#gradient), and steps the optimizer.
# 4. The schedule sets the rate of the *next* step, in the optimizer's state.
#
# Suppose that one part of the state is forgotten. Which is the first loss after the resume that
# differs: the first, the second, or the third?

# %%
predict("70.1", random_states=..., position=..., optimizer=..., schedule=...)  # 1, 2 or 3

# %% [markdown]
# ### Measure: one part forgotten
# The training run is captured after step 36 (three fifths of `last`), in the middle of the second
# [epoch](../labs/GLOSSARY.md#epoch). It is then resumed six times: with all parts, with one part forgotten (four times), and with
# rank 0's random states on every rank. A forgotten part is as a fresh training run has it.

# %%
stop = 3 * last // 5
if stop % 24 == 0:  # the end of an epoch, where the position is that of a fresh run
    stop += 1
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
    position=answers["position"],
    optimizer=answers["optimizer"],
    schedule=answers["schedule"],
)


# %% [markdown]
# **Explain.** With all parts, no loss differs by even one bit. (This holds for the same number of
# ranks and threads on the same kind of processor. Otherwise numbers are added in another order.) If
# a part is forgotten, its first effect depends on where a step uses it:
#
# - The random states and the position affect the [forward pass](../labs/GLOSSARY.md#forward-pass), so they show in the first loss. So
#   do rank 0's random states on every rank, because a loss is the mean over all ranks.
# - The optimizer's state affects the weights, which show one step later.
# - The schedule shows in the third loss. The rate of the first step is part of the optimizer's
#   state, so only the second step has a wrong rate, and the third loss is the first that uses its
#   weights.
#
# No training run crashed, and no last loss looks absurd, so you get no warning that a part was
# forgotten. Therefore test your own training run. Resume it in a fresh process, as in section 5,
# and compare the losses with `==`.
#
# ## 2. A file that no kill can tear
# The state is now a dict, which has to become a file. `open(path, "wb")` empties the old file
# before the first byte of the new one is written. If a job is killed at this moment, the file
# contains neither the old checkpoint nor the new one.
#
# The solution is to write to **another name** first, and to rename the file when it is complete.
# Here are the lines that do this, in alphabetical order:
#
# | line | what it does |
# |---|---|
# | `file.flush()` | passes Python's buffer to the operating system's kernel |
# | `file.write(content)` | writes all bytes, perhaps only into Python's buffer |
# | `folder = os.open(path.parent, os.O_RDONLY)` | opens the folder, which stores the *names* of its files |
# | `os.close(folder)` | closes it, because otherwise every save would leave one more open |
# | `os.fsync(file.fileno())` | waits until the bytes that the kernel has are on the disk |
# | `os.fsync(folder)` | waits until the names are on the disk |
# | `os.replace(temporary, path)` | renames atomically: a reader sees all of the old file, or all of the new one |
# | `temporary = path.with_name(path.name + ".new")` | makes another name, in the same folder (and so on the same disk) |
# | `with open(temporary, "wb") as file:` | opens the file, and empties what a killed save may have left there |
#
# These lines protect against two kinds of accidents:
#
# - `kill -9` ends the process at once. The kernel keeps running and still writes the bytes that
#   it was given, so the temporary file and the rename are enough.
# - A power cut ends the kernel, too, so each `fsync` counts.
#
# | without `fsync` of | after a power cut |
# |---|---|
# | the file | the final name might belong to an empty file, if the kernel renamed the file before it wrote the bytes |
# | the folder | the old file may be back; it is complete, but a save that you believed to be finished is lost |
#
# ### Exercise 70.2 · Old or new, never between
# `write(path, content)` puts the bytes `content` into the file `path` (a `Path`). No matter when it
# is killed, `path` contains either everything that it contained before, or all of `content`. Copy
# the 9 lines in the right order. *(beginner)*
#
# <details><summary>Hint 1: what is inside `with`</summary>
#
# Write, flush, and fsync of the file.
# </details>
# <details><summary>Hint 2: what comes after it</summary>
#
# First rename. Only then open, fsync and close the folder.
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
# ### Measure: kills at random moments
# A process saves version after version, is killed at a random moment, and starts again. It saves
# with your `write` and, as a control, in the obvious way, which overwrites the file itself. This
# takes about 10 s.
#
# The table counts what the file contained after each of the kills:
#
# - `newest`: the version that was finished last, or already the next one
# - `lost`: an older version
# - `torn`: not a complete version

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
# **Explain.** With your `write`, a kill costs at most the save that it interrupts. The obvious way
# leaves torn files, and how many depends on your machine and its file system. No kill shows whether
# an `fsync` is there, because only a power cut would. The check therefore looks for the calls
# themselves.
#
# ## 3. Look before you trust it
# Even a file that was written in this way can be bad. A disk may return a wrong bit, a copy may
# have been cut short, or the file may belong to another network. To notice this,
# `lab70.pack(payload, model)` puts one line, a label, before the bytes of the state:
#
#     {"model": "5d1c…", "bytes": 207120, "sha256": "9b0f…"}
#
# `model` is a short string computed from the names and shapes of the network's tensors. `sha256` is
# a **checksum** of the bytes after the line, `hashlib.sha256(payload).hexdigest()`. If one bit of
# these bytes changes, so does the checksum.
#
# ### Exercise 70.3 · Is it whole, and mine?
# `judge` returns what the content of a file is. The first line is given. It splits the content into
# `label`, the line as a dict, and `payload`, the bytes after the line. The first of these cases
# that applies is the answer. 7 lines. *(beginner)*
#
# 1. `"incomplete"`: `label` is `None` (not even the line is complete), or the number of bytes of
#    `payload` is not the one in the label
# 2. `"damaged"`: the checksum of `payload` is not the one in the label
# 3. `"another model"`: the label's model is not `model`
# 4. `"good"`: none of these
#
# For example, a file that is cut short *and* belongs to another network is `"incomplete"`.
#
# <details><summary>Hint 1: in which order</summary>
#
# Follow the order of the list, with one `return` for each case.
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
# ### Measure: two bad files
# `lab70.newest` calls your `judge` on the files, beginning with the newest one, and takes the first
# good file. There are three files. Then the newest is damaged and the one before it is cut short,
# and `lab70.newest` is called again.

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
# **Explain.** Two bad files cost two intervals between saves, and not the whole training run, so
# keep more than one checkpoint.
#
# ## 4. How often?
# If you save often, you spend your time on saving. If you save rarely, a failure costs much work.
# Three numbers determine the best compromise, in this section all in seconds:
#
# - `save`: the duration of a save
# - `every`: how long you compute between two saves (in the parameters, `every` counts steps)
# - `mtbf`: the **mean time between failures** of the whole job
#
# They determine two shares of the time:
#
# - Saving takes about `save / every` of the time.
# - A failure happens at some moment between two saves, so on average half of `every` has to be
#   computed again. This happens once in each `mtbf`, so repeated work takes `every / (2 * mtbf)`
#   of the time.
#
# If `every` grows, the first share falls and the second rises, and their product stays the same.
# Their sum is therefore smallest where the two are equal, and there `every` is the square root of
# `2 * save * mtbf`. This is **Young's** interval, published by J. W. Young in 1974. It leaves out
# the time that a restart takes, which does not depend on `every`.
#
# For example, if a save takes 20 s and the mtbf is 1,000 s, Young's interval is √(2 · 20 · 1,000) s
# = 200 s. The table compares it with half and twice this interval:
#
# | `every` | saving | repeated work | sum |
# |---|---|---|---|
# | 100 s | 20 % | 5 % | 25 % |
# | **200 s** | 20 / 200 = 10 % | 200 / 2,000 = 10 % | **20 %** |
# | 400 s | 5 % | 20 % | 25 % |
#
# You don't need to know `save` and the mtbf exactly. With half or twice Young's interval, one share
# is halved and the other one doubled, so their sum is only 1.25 times as large.
#
# ### Young's interval in numbers (optional)
# The rest of this section computes the interval for a large cluster and for your disk. It takes
# about 15 more minutes. You can also go on with section 5.
#
# ### Exercise 70.4 · Young's interval (optional)
# All times are in seconds. One line for each function. *(beginner)*
#
# - `interval` returns the seconds between two saves according to Young. In the example above,
#   `interval(20, 1000)` is 200.
# - `lost` returns the share of the time that saving and repeated work take together. In the example
#   above, `lost(200, 20, 1000)` is 0.2.
#
# <details><summary>Hint 1: the share</summary>
#
# It is the sum of the two shares above.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `math.sqrt(…)` of the product that the text names.
# </details>

# %%
def interval(save, mtbf):
    """Seconds of computing between two saves, by Young. save, mtbf: in seconds."""
    raise NotImplementedError("exercise 70.4: Young's interval (optional)")


def lost(every, save, mtbf):
    """The share of the time that saves and repeated work take, if one saves after each `every`
    seconds."""
    raise NotImplementedError("exercise 70.4: Young's interval (optional)")


# %%
# Asked: Young's formula, and both shares.
check("70.4", interval, lost)

# %% [markdown]
# ### Predict
# Meta's training of Llama 3 on 16,384 GPUs was interrupted unexpectedly 419 times in 54 days
# (according to the 2024 paper), which is an mtbf of 3.1 hours. We assume that a save takes 60 s:
#
# | GPUs | mtbf | save | Young's interval | time lost |
# |---|---|---|---|---|
# | all | 3.1 hours | 60 s | 19.3 minutes | 10.4 % |
# | an eighth | 8 times as long | 60 s | ? | ? |
#
# The failures of all GPUs add up, so on n times fewer GPUs a failure is n times rarer. How many
# minutes is the interval in the second row, and what percentage of the time is lost?

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
# **Explain.** With an mtbf that is 8 times as long, the interval is √8 times as long, and the loss
# is divided by √8. The first lines show that half or twice Young's interval increases the loss by
# only a quarter.
#
# ### Measure: your disk
# How long does a save with your `write` take on this disk? The cell does three things:
#
# 1. It times a save of 64 MB.
# 2. From its rate it computes the save of a network of a billion parameters, whose state has 12 GB.
# 3. It computes Young's interval for 1,000 nodes, of which each fails once in five years.

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
    f"12 GB at this rate: {own_save:.0f} s; one save every {minutes:.0f} minutes,"
    f" {percent:.1f} % lost"
)


# %% [markdown]
# **Explain.** The second line is extrapolated to a file far larger than the one that was timed, and
# to a single disk for all nodes. The file contains zeros, so a disk that compresses looks faster
# than it is. Therefore time the saves of your own job.
#
# ## 5. Asked to stop
# Some ends are announced, because Slurm can send a **signal** before it kills a job. A signal
# interrupts a process, which then runs a function, its *handler*, or ends if it has none. A signal
# can come in the middle of a step, when the state is not complete. The lines below therefore only
# set a flag:
#
#     heard = []
#     before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
#     …                                       # the training; stopped() returns bool(heard)
#     signal.signal(signal.SIGUSR1, before)   # at the end: the earlier handler again
#
# The loop calls `stopped()` after each step. But the ranks do not receive the signal at the same
# time. If rank 1 leaves after step 7 while rank 0 begins step 8, rank 0 waits forever, because its
# [allreduce](../labs/GLOSSARY.md#allreduce) needs rank 1's gradients.
#
# All ranks therefore have to leave after the same step, so they ask each other with
# `comm.allgather(value)`, which returns the list of all ranks' values on every rank.
#
# For example, two ranks train to step 7 with a save after every third step, and rank 1 is asked to
# stop during step 4. Then both ranks save after steps 3 and 4, and leave after step 4.
#
# ### Exercise 70.5 · The loop
# Three lines of `train` are given. `training.done` counts the steps of the whole training run, and
# goes on counting after `restore`. After each step, do three things. 5 lines. *(intermediate)*
#
# 1. Ask the ranks once, with `training.comm`.
# 2. Call `save(training)`, once, if **any** rank was asked to stop, or if a save is `due`. All
#    ranks call it, because it gathers their random states.
# 3. If any rank was asked to stop, return.
#
# <details><summary>Hint 1: one question in each step</summary>
#
# `stop = any(training.comm.allgather(stopped()))` in each step, and on all ranks, not only on those
# whose own flag is set.
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
# Two ranks train for 60 steps with all your functions, and save after every 10 steps. After step 27
# a rank is killed with `kill -9`, and the job is started again. With which step does it begin, and
# how many steps are done a second time?

# %%
predict("70.5", first_step=..., done_again=...)

# %% [markdown]
# ### Measure: killed and resumed
# Each loss is recorded to the last bit and compared, with `==`, to that of a training run without
# interruption. The table has a row for each life of the job. This takes about 10 s.
#
# The message about the rank that died names a usual cause, but here the lab killed the rank. (In a
# batch job no rank is killed at this place, and you see one life.)

# %%
killed_after = 2 * every + 7 * every // 10
mine = lab70.Answers(capture, restore, write, judge, train)
folder = own_folder() / "70_lives"
story, whole = lab70.killed_and_resumed(mine, folder, last, every, killed_after, ranks)
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
# **Explain.** The second life begins right after the last good checkpoint, and repeats at most one
# interval (all of it, if the kill interrupts a save). No loss differs, so the kill cost only time.
#
# ## 6. Slurm: signal and requeue
# How does a job that was interrupted get back to work? **Requeue** means that it goes back into
# [Slurm's](https://slurm.schedmd.com/sbatch.html) queue under the same number, and later starts again from the first line
# of its script. The ranks find their checkpoint and continue. Two signals matter here:
#
# - **USR1** is a warning shortly before the job's time is up, if the script asks for it with
#   `--signal`. Then the ranks save, and the script requeues the job.
# - **SIGTERM** is sent to end a process. These ranks do not handle it, so they die without saving.
#   (SIGKILL follows, 30 s later unless the site sets another `KillWait`.)
#
# Four things can end the job:
#
# | what | how it is announced | the ranks | what starts the job again |
# |---|---|---|---|
# | its time is up | USR1, 60 to 120 s before: `--signal=B:USR1@60` | save | its script: `scontrol requeue` |
# | **preemption**: an urgent job takes its nodes | USR1 or SIGTERM, as the site decides | save only on USR1 | its script, or Slurm (`--requeue`) |
# | an operator requeues it | SIGTERM | die | Slurm (`--requeue`) |
# | a node fails | not at all on that node; SIGTERM on the others | die | Slurm (`--requeue`) |
#
# The next cell prints the script. `B:` in `--signal` sends USR1 only to the batch script, which
# passes it on to the ranks with these commands:
#
# - `trap 'command' USR1` runs the command when USR1 comes. Bash does so only while no command runs
#   in the foreground, so the script starts `srun` in the background with `&`, and waits with
#   `wait`.
# - `$!` is the number of the process that was started last in the background.
#
# While you read the script, look for the line that puts the job back into the queue.

# %%
print(lab70.script())

# %% [markdown]
# ### Predict
# The same training run now runs as a job. USR1 comes in the middle of a step, and later the
# job starts again. How many steps are done again?

# %%
predict("70.5", after_signal=...)

# %% [markdown]
# ### On the tabletop (optional)
# `make tabletop` starts a small real Slurm on this machine. If you have no tabletop, read on.
#
# The next cell submits the job there, on two nodes, and interrupts it twice. The first time, it
# sends USR1 to the batch script, as Slurm would. The second time, `scontrol requeue` does what an
# operator would do, without USR1. Each step takes half a second longer than before, so that there
# is time for these interruptions, and the cell takes about a minute. The table has a row for each
# life of the job.

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
# **Explain.** After USR1, the second life begins right after the last step of the first one. The
# signal came, all ranks agreed, rank 0 saved, and no step was done twice. After `scontrol requeue`
# without USR1, the third life begins right after a multiple of 10, because SIGTERM ended the second
# life before it could save. The losses equal those of an uninterrupted run that the job performed
# afterwards on the same nodes.
#
# In the script, the line that you were looking for is `scontrol requeue`. It runs only if USR1
# came.
#
# On your cluster, ask these questions:
#
# - May a job requeue itself?
# - Does preemption send your signal? (The setting is `send_user_signal` in `PreemptParameters`, and
#   in Slurm 22.05 `preempt_send_user_signal` in `SlurmctldParameters`.)
# - How long is the grace time after the signal (`GraceTime`), and is your save shorter than it?
#
# ### What you take away
# - An exact resume needs the network, the optimizer, the schedule, the position in the data, and
#   the random states of *every* rank. Test it with `==`.
# - Write to another name, fsync, rename, and fsync the folder. Verify a checksum before you trust
#   the file, and keep more than one.
# - Save every √(2 · save · mtbf) seconds. Half or twice this interval loses only a quarter more.
# - A signal sets a flag, all ranks agree on the step, and the script requeues the job.
#
# ## 7. Going further (optional): fewer ranks
# This part takes about 25 more minutes.
#
# A job that has lost a node does not have to wait for another one. An **elastic** job continues
# with the ranks that are left. This changes each rank's part of the data, and perhaps the batch
# size.
#
# With a fixed number of ranks p, the whole epoch is often divided in advance, so that rank r takes
# samples r, r + p, r + 2p and so on. What goes wrong if p changes during the epoch? In the next
# cell, each rank keeps its position in its own list, and the epoch has 96 samples:
#
# 1. Two ranks take 12 samples each.
# 2. A single rank is left. It takes 24 samples.
# 3. Two ranks go on again, and take 12 samples each.

# %%
# Each rank keeps its position in its own list, and goes on from there in the list for the new p.
used = []
position = 0
for size, each in ((2, 12), (1, 24), (2, 12)):
    for rank in range(size):
        used += list(range(rank, 96, size))[position : position + each]
    position += each
often = np.bincount(used, minlength=96)
print(
    f"{len(used)} samples taken: {np.sum(often == 0)} of 96 never, {np.sum(often > 1)} more than"
    " once"
)


# %% [markdown]
# Some samples were used twice, and others will never be used, because both lists are at their end.
# A single number solves this problem: `done`, the number of samples in the epoch's order that have
# been used. It is part of the checkpoint. The samples that come next then depend only on `done`,
# and a group of any size divides *these* samples among its ranks.
#
# For example, let the order be 7, 2, 9, 4, 0, 5, 1, let three samples be done, and let a step have
# four samples. The next step has the samples 4, 0, 5 and 1. On three ranks, one rank may compute 4
# and 1, another one 0, and the third one 5.
#
# Suppose that two ranks with 24 samples each make steps of 48 samples, with a learning rate of 0.2,
# and that now only one rank is left. It has two options:
#
# | | the rank computes | a step has | learning rate |
# |---|---|---|---|
# | **keep** the global batch | twice as much | 48 samples | as before |
# | **rescale** | as much as before | 24 samples | by the linear scaling rule ([lab 34](34_large_batch.ipynb)): half |
#
# If you keep the global batch, the training run is the same as without a failure, up to rounding.
# (With dropout or batch normalization it is not, because these depend on which rank computes which
# samples.) But each step takes longer, and the memory must suffice.
#
# If you rescale, a step takes as long as before, but it is another training run.
#
# In both cases compute from the values at the **start** of the job, because the current values do
# not show for how many ranks they were set.
#
# ### Exercise 70.6 · Fewer ranks, or more (optional)
# `own_part` returns this rank's part of the next step. 2 lines. *(beginner)*
#
# - `order` is an array of sample numbers. The next step uses the next `batch` of them after the
#   first `done`. At the end of the epoch there may be fewer.
# - The sizes of the parts differ by at most one sample, and together the parts are the step.
#
# `after_resize` returns the number of samples in a step, an integer, and the learning rate. 3
# lines.
#
# - The job began with `first` ranks, steps of `batch` samples, and the rate `rate`. `batch` is
#   divisible by `first`.
# - Now there are `ranks` ranks. If `keep` is true, keep the global batch, otherwise rescale.
#
# <details><summary>Hint 1: first the step, then the part</summary>
#
# `order[done : done + batch]` are the samples of the step. A slice that extends beyond the end is
# cut off there. `[rank::ranks]` takes every `ranks`-th sample, beginning with sample `rank`.
# </details>
# <details><summary>Hint 2: per rank</summary>
#
# At the start each rank had `batch // first` samples. With `ranks` ranks, the step has `ranks`
# times this number.
# </details>

# %%
def own_part(order, done, batch, rank, ranks):
    """The numbers of the samples that this rank computes in the next step."""
    raise NotImplementedError("exercise 70.6: Fewer ranks, or more (optional)")


def after_resize(batch, rate, first, ranks, keep):
    """Samples of a step of all `ranks` ranks, and its learning rate. keep: the global batch
    stays."""
    raise NotImplementedError("exercise 70.6: Fewer ranks, or more (optional)")


# %%
# Asked: An epoch in which the number of ranks changes uses each sample exactly
# once, also if it is resumed between two multiples of `batch`; and the rule for
# batch and rate, when ranks go and when they come.
check("70.6", own_part, after_resize)

# %% [markdown]
# ### torchrun, a launcher for elastic jobs
# PyTorch's [launcher](../labs/GLOSSARY.md#launcher) for elastic jobs is [`torchrun`](https://docs.pytorch.org/docs/stable/elastic/run.html). On each node it starts an
# **agent**, which starts the node's ranks and monitors them. The agents meet in a **rendezvous**,
# through a store (a server for keys and values), which here runs on node 1:
#
#     torchrun --nnodes=1:2 --nproc-per-node=1 --max-restarts=3 \
#         --rdzv-backend=c10d --rdzv-endpoint=node1:29500 train.py
#
# `--max-restarts` is 0 by default, so that no rank is restarted after it has failed.
#
# ### Predict
# Two agents train here with your two functions, with steps of 48 samples and a checkpoint after
# every third step. In step 8 the second node fails, and with it its agent and its rank. How many
# finished steps are done again? Is the rank that continues a new process (1), or the old one (0)?

# %%
predict("70.6", done_again=..., new_processes=...)

# %% [markdown]
# ### Measure: a node is lost
# The next cell runs real processes on this machine and, as a control, the same training run in a
# single process that is not killed. It takes about half a minute, because the agents need several
# seconds to notice the failure and to meet again.

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
# **Explain.** The rank that continues is a new process, although the old one had not failed. When
# the set of nodes or ranks changes, the agents **end all ranks** and start new ones, with different
# numbers in `RANK` and `WORLD_SIZE`. A new rank begins without any state, so it has to read a
# checkpoint. The failure therefore cost the steps since the last checkpoint, and the one that was
# being computed.
#
# The epoch has 1,000 samples, and the final weights contain each of them once. The last loss is
# that of the control, although two different groups of ranks computed the steps. A single number
# for the position in the data made this possible.
#
# Keeping the global batch is not always the best choice. When a job *grows* from 2 to 200 ranks,
# there is hardly any work left for each rank if the batch stays the same. In this case, rescale,
# and increase the learning rate gradually over a few hundred steps ([lab 34](34_large_batch.ipynb)).
#
# Here the process was killed, which is noticed at once, because its kernel closes its connections.
# When a node is unplugged, no connection is closed, and a silent node looks like a [straggler](../labs/GLOSSARY.md#straggler). The
# other ranks wait until a timeout, which is ten minutes with [NCCL](../labs/GLOSSARY.md#NCCL) and half an hour with PyTorch's
# Gloo, unless you set another value ([lab 72](72_hangs_and_failures.ipynb)).
#
# On Slurm, an elastic job also needs `--no-kill` for `sbatch` and `srun`. Otherwise Slurm ends it
# along with the lost node.
#
# ## 8. Going further (optional): other systems
# This part takes about 5 more minutes.
#
# ### Who survives a lost rank?
# Three systems let a job continue after a failure. They differ in what survives:
#
# | | what survives | what the program has to do |
# |---|---|---|
# | `torchrun` | the agents, but no rank | read a checkpoint, in new ranks |
# | [Horovod Elastic](https://horovod.readthedocs.io/en/stable/elastic_include.html) | the other ranks, with a copy of the state in memory | call `state.commit()` often, and train from `state` |
# | MPI with [ULFM](https://docs.open-mpi.org/en/v5.0.x/features/ulfm.html), user-level failure mitigation | the other ranks | handle the error (`MPI_Comm_revoke` interrupts ranks that have not noticed it), agree (`MPI_Comm_agree`), and make a communicator without the failed ranks (`MPI_Comm_shrink`) |
#
# In Horovod Elastic, one of two exceptions tells a rank what has happened:
#
# - After `HorovodInternalError`, a step was interrupted in its middle, so all ranks return to the
#   last copy.
# - After `HostsUpdatedInterrupt`, a node has come or will go, and all ranks are between the same two
#   steps. If the ranks look for new nodes only in `state.commit()`, which makes the copy first, no
#   step has to be undone.
#
# Such a job is started by `horovodrun --min-np 1 --host-discovery-script ./hosts.sh …`, where the
# script prints a line such as `node7:4` for each node. `ElasticSampler` divides the data again when
# the number of ranks changes.
#
# The kit runs only `torchrun`. Its Horovod has no servers for elastic jobs (`env/HOROVOD.md`), and
# ULFM needs an [MPI](../labs/GLOSSARY.md#MPI) library that offers it, such as Open MPI 5 with `mpirun --with-ft ulfm`. In all
# three systems, the state that only the lost rank had is gone, so a checkpoint, or a copy on
# another rank, is still necessary.
#
# ### Files and processes that you do not trust
# `torch.save` writes a *pickle*, and a pickle can contain a function call, which is executed when
# the file is read (*unpickled*). The labs read files with `torch.load(path, weights_only=True)`,
# which accepts tensors, numbers, strings, and lists, tuples and dicts of them, and refuses such
# calls.
#
# A rendezvous decides which processes become ranks, and ranks unpickle what they receive, so a
# stranger's process can run any code in them. PyTorch's store has no secret and listens on every
# address, and Horovod 0.28.1, as `pip` installs it, unpickles what a stranger sends
# (CVE-2024-10190). Use your own nodes (`sbatch --exclusive`) and a network that other jobs do not
# reach.
#
# ### In pieces, and in the background
# In this lab, rank 0 writes for all ranks. With [FSDP](../labs/GLOSSARY.md#FSDP) (fully sharded data parallel), rank 0 does not
# even have the whole network. PyTorch's [distributed checkpoint](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html) ([lab 60](60_ddp_and_fsdp.ipynb)) lets each
# rank write its own shards, and `async_save` returns as soon as the state has been copied. Use a
# new folder for each checkpoint, because in a folder with an older one, PyTorch 2.13 removes the
# old `.metadata` before it renames the new one.
#
# ### What this lab does not show
#
# - GPUs. On a GPU, some sums change from run to run. `torch.use_deterministic_algorithms(True)`
#   chooses another algorithm, or raises an error that names the operation. A GPU also has its own
#   random state, `torch.cuda.get_rng_state()`.
# - A shuffle that draws from a generator. A resume needs the state of this generator at the
#   *beginning* of the epoch, where the order was drawn. The workers of a data loader have random
#   states, too.
# - Object storage, which has no rename.
#
# ### Further reading
# - J. Young, *[A first order approximation to the optimum checkpoint interval](https://doi.org/10.1145/361147.361115)*, Communications of the ACM 17(9), 1974. The two pages that derive the interval of section 4.
# - J. Daly, *[A higher order estimate of the optimum checkpoint interval for restart dumps](https://doi.org/10.1016/j.future.2004.11.016)*, Future Generation Computer Systems 22(3), 2006. A more accurate formula, for saves that are not short compared with the mtbf.
# - A. Grattafiori et al., *[The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783)*, 2024. Section 3.3 lists the causes of the 419 interruptions of Llama 3.
# - [Slurm: sbatch](https://slurm.schedmd.com/sbatch.html). The options `--signal`, `--requeue` and `--no-kill`.
# - [PyTorch: torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html). How agents restart ranks, and which options control it.
# - [PyTorch: Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html). Where PyTorch's results may differ from run to run.
