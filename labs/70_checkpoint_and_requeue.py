# %% [markdown]
# # 70 Checkpoint and requeue
#
# A job often ends before its training does: its time is up, a node dies, somebody more urgent comes. You
# save what an exact resume needs, so that no kill can spoil it, and have Slurm go on with the same losses,
# bit for bit.
#
# **You will be able to** (1) say what a resume needs, and what is lost without each part, (2) write a file
# that no kill can tear, and check it before you trust it, (3) compute how often to save, (4) write a loop
# that saves when it is asked to stop, and read the script by which Slurm goes on with it.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 60 · Before: 16, 30, 40, 60

# %%
import hashlib
import math
import os
import pickle
import tempfile
from pathlib import Path

import pandas
import torch
from labkit import check, expect, hint, home, lab, launch, plots, predict, record, timing, world
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
days = 30  # of a training with failures, played
limit = 300  # seconds to wait for a job
patience = 60  # seconds after which a check calls a program stuck


# %% [markdown]
# ## 1. What does an exact resume need?
# "Checkpoint" has two meanings. In lab 16 it was an activation that is kept for the way back. Here it is what
# the word means everywhere else: **the state of a training, in a file**. In lab 40 rank 0 wrote the net and
# the optimizer. Is that enough to go on as if nothing had happened?
#
# `lab70.Training(comm)` is a data-parallel training as in lab 30, on handwritten digits. It has some more
# things, which nearly every real training has:
#
# | part | how it is read, and put back |
# |---|---|
# | the net's parameters | `training.net.state_dict()`, `training.net.load_state_dict(…)` |
# | the optimizer: Adam, with two averages for each parameter | the same two calls of `training.optimizer` |
# | the schedule: a learning rate that falls from step to step | the same two calls of `training.schedule` |
# | the place in the shuffled data | two numbers: `training.epoch`, and `training.step` within the epoch |
# | PyTorch's random numbers, for dropout | `torch.get_rng_state()`, `torch.set_rng_state(…)` |
# | NumPy's random numbers, for noise in the pixels | read, or assign, `training.noise.bit_generator.state` |
#
# *Dropout* sets some of the net's inner numbers to zero, at random, in every step. A **random state** is what
# a generator needs to draw the same numbers again.
#
# The order of the images needs no random state here: `data.batches` computes it from the epoch's number (lab
# 30). A shuffle that draws from a generator would need its state at the *beginning* of the epoch, where the
# order was drawn.
#
# Which of these are the same on all ranks? The first four. But every rank has its own random states, or all
# ranks would drop the same. So one rank can write the file, if it asks the others first. `comm.gather(value)`
# does that: rank 0 gets the list of all ranks' values, the others get `None`.
#
# ### Exercise 70.1 · Capture and restore
# All ranks call both functions. `capture` returns on rank 0 a dict with the keys `net`, `optimizer`,
# `schedule`, `epoch`, `step` and `random`, and `None` on all other ranks. `random` is a list with an entry
# for each rank: a pair of PyTorch's and NumPy's state. `restore` puts such a dict into a fresh training;
# every rank has the whole dict. About 7 lines each. *(intermediate)*
#
# <details><summary>Hint 1: on all ranks first</summary>
#
# `own = (torch.get_rng_state(), training.noise.bit_generator.state)` on every rank, then
# `everybody = comm.gather(own)`. Only then `if comm.rank != 0: return None`.
# </details>
# <details><summary>Hint 2: nearly the answer, of restore</summary>
#
# `training.net.load_state_dict(state["net"])`, and so on. At the end
# `dropout, noise = state["random"][comm.rank]`, `torch.set_rng_state(dropout)` and
# `training.noise.bit_generator.state = noise`.
# </details>

# %%
def capture(training, comm):
    """All that an exact resume needs, as a dict on rank 0; None on the others. All ranks call this."""
    raise NotImplementedError("exercise 70.1: Capture and restore")


def restore(training, state, comm):
    """Put what `capture` returned on rank 0 into this rank's training. All ranks call this."""
    raise NotImplementedError("exercise 70.1: Capture and restore")


# %%
# What is asked: captured in the middle of an epoch and at its end, restored into a fresh training: all is
# as it was, on every rank, and the losses that follow are the same to the last bit.
with check("70.1"):
    tried = launch.run(lab70.try_resume, capture, restore, ranks=ranks, timeout=patience)
    for stop, got in tried[0].items():
        where = f"Captured after {stop} steps, {lab70.place_of(stop)}"
        why = "rank 0 alone returns the state, and the others None"
        expect.equal(got["holders"], [0], f"{where}: ranks with a state", because=why)
        expect(not got["stored"], f"{where}: this state cannot be stored and read again. {got['stored']}")
        expect(got["after"] == got["whole"], f"{where}: `capture` itself has changed the training.")
        for rank, results in enumerate(tried):
            for part, same in results[stop]["parts"].items():
                expect(same, f"{where}, on rank {rank}: {lab70.PARTS[part]} not as before.")
        expect.equal(got["losses"], got["whole"], f"{where}: the losses after the resume")

# %% [markdown]
# ### Predict
# What happens if one part is forgotten? A step goes in this order: it takes the images and adds noise; it
# computes the loss, through dropout; it computes gradients; the optimizer steps; the schedule computes the
# rate of the *next* step and puts it into the optimizer, where the optimizer's own state keeps it.
#
# Which is the first loss after the resume that differs: the first, the second, the third?

# %%
predict("70.1", random_states=..., place=..., optimizer=..., schedule=...)  # 1, 2 or 3

# %% [markdown]
# ### Measure
# A training is captured after step 36, in the middle of its second epoch. It is resumed six times: once
# with all parts, four times with another part as a fresh training has it, and once with rank 0's random
# states on every rank.

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
        "largest difference": max(apart),
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
# **Explain.** With all parts no loss differs: not by a little, by nothing. That line is the control for the
# five others. The two parts that feed the forward pass, random states and place, show in the first loss.
# The optimizer's state (its averages, and the rate of this step) shows one step later, in the loss of the
# next weights. The schedule shows last: the optimizer brought the right rate for the first step with it.
# And random states of one rank do not serve for all.
#
# None of these trainings crashed, and none of the last losses looks absurd beside the control's. That is the
# trouble: a forgotten part makes no noise. How would you find such a mistake in a training of your own?
# <details><summary>Answer</summary>
#
# As here: train 20 steps, save after 10, resume in a fresh process, and compare the last ten losses with
# `==`. If they differ on a GPU even with all parts, some operation there adds in an order that changes from
# run to run. `torch.use_deterministic_algorithms(True)` takes another way there, or, where there is none,
# raises an error that names the operation. A GPU also has a random state of its own,
# `torch.cuda.get_rng_state()`.
# </details>
#
# ## 2. A file that no kill can tear
# Now to the file. `open(path, "wb")` empties the old file before the first byte of the new one is there. A
# job that is killed while it saves then has neither. It is not rare: many jobs are killed *because* their
# time is up, while they write their last checkpoint.
#
# The cure is old. Write to **another name**, and rename when all is there:
#
# | | call | what it does |
# |---|---|---|
# | 1 | `open(temporary, "wb")`, `file.write(content)` | a file of another name, **in the same folder** |
# | 2 | `file.flush()`, `os.fsync(file.fileno())` | Python's buffer to the kernel; wait for the disk |
# | 3 | `os.replace(temporary, path)` | in one go: anybody sees all of the old file, or all of the new |
# | 4 | `folder = os.open(path.parent, os.O_RDONLY)`, `os.fsync(folder)` | the *name* is on the disk, too |
#
# The other name is the same at each save. And at the end `os.close(folder)`: a training that forgets it has
# one more open file after each save, until it may open none.
#
# 1 and 3 are for `kill -9`: it ends the process at once, but not the kernel, which still writes what it was
# given. 2 and 4 are for a power cut, which ends both. Without 2 the kernel may rename first and write the
# bytes later: after a power cut the good name then holds nothing. Programs that many people trust got this
# wrong: a study of 11 of them found 60 such mistakes (Pillai and others, OSDI 2014).
#
# ### Exercise 70.2 · Old or new, never between
# `write(path, content)` puts the bytes `content` into the file `path` (a `Path`). Whenever it is killed,
# `path` holds all that it held before, or all of `content`. 9 lines. *(beginner)*
#
# <details><summary>Hint 1: a name next to it</summary>
#
# `temporary = path.with_name(path.name + ".new")` is in the same folder. From another disk `os.replace` does
# not rename at all; what copies instead can be torn. And with a new name each time (`tempfile.mkstemp`) every
# kill would leave one more file.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `with open(temporary, "wb") as file:` holds rows 1 and 2 of the table. Below it, no longer inside, come rows
# 3 and 4.
# </details>

# %%
def write(path, content):
    """Put `content` (bytes) into the file `path`: all of it or nothing, whatever happens meanwhile."""
    raise NotImplementedError("exercise 70.2: Old or new, never between")


# %%
# What is asked: killed at any moment of a save, the file is the old or the new one; and each fsync is in its
# place. A small process does the saving. It is really killed, once at every moment.
with check("70.2"):
    trial = lab70.kill_everywhere(write)
    expect.equal(trial.end, "new", "The file after a save that nobody killed")
    for death in trial.deaths:
        what = f"Killed {death.where}, the file is {death.left}"
        expect(death.left in ("old", "new"), f"{what}. It must be the old one or the new one, whole.")
    expect(trial.renamed, "The new name comes by os.replace(temporary, path).")
    expect(not trial.other_folders, "The temporary file belongs into the folder of `path`.")
    why = "os.fsync(file.fileno()) comes after file.flush() and before os.replace."
    expect(trial.synced_before, f"When the name changes, some bytes may not be on the disk yet: {why}")
    why = "os.fsync of path.parent comes after os.replace."
    expect(trial.synced_after, f"At the end, the new name may not be on the disk yet: {why}")
    why = "let the temporary file have the same name each time, and the next save overwrites it"
    expect(trial.leftovers <= 1, f"Killed saves have left {trial.leftovers} files behind: {why}.")
    expect(not trial.left_open, "Each save leaves a file or folder open: os.close(folder) at the end.")


# %% [markdown]
# ### Measure
# A process saves version after version, and is killed at a random moment; then it starts again. Your `write`,
# and as a control the obvious way, which writes into the file itself. About 10 s.

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
# **Explain.** `in a save` are the kills that came between the begin and the end of a save. After each, the
# file is looked at. `newest` is good: the file holds the version last finished, or already the one that was
# being saved. `lost` would be an older one. With your `write` every kill ends in `newest`: a kill in a save
# costs that save, and never an older one. The obvious way leaves `torn` files, which hold no whole version at
# all. How many depends on how long the disk takes.
#
# These kills say nothing of rows 2 and 4 of the table: without them no file would be torn either. That
# takes a power cut, so the check looks for the two calls themselves.
#
# What is left behind when your `write` is killed, and does it harm?
# <details><summary>Answer</summary>
#
# The temporary file, whole or not. It does no harm: nobody reads that name, and the next save overwrites it.
# </details>
#
# ## 3. Look before you trust it
# A file can be bad even so: a disk returns another bit, a copy was cut short, or somebody put the checkpoint
# of another net into the folder. So the file says what it should be. `lab70.pack(payload, model)` puts one
# line before the bytes of the state, a label:
#
#     {"model": "5d1c…", "bytes": 207120, "sha256": "9b0f…"}
#
# `model` is a short text made of names and shapes of the net's tensors. `sha256` is a **checksum**: 64
# characters computed from all bytes. Change one bit, and it is another:
# `hashlib.sha256(payload).hexdigest()`. `label, payload = lab70.split(content)` takes a file's content
# apart again. `label` is `None` if not even that line is whole.
#
# ### Exercise 70.3 · Is it whole, and mine?
# `judge` says of a file's content what it is. It returns `"incomplete"` (no label, or not as many bytes as it
# says), `"damaged"` (another checksum), `"another model"` (than `model`), or `"good"`. If several hold, the
# first of this sentence is the answer. 8 lines. *(beginner)*
#
# <details><summary>Hint 1: in which order</summary>
#
# The order of the sentence above. A file that is cut short also has another checksum, but "incomplete" says
# more. And what a damaged file says of its model may be damaged, too.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if label is None or len(payload) != label["bytes"]:` is the first question.
# </details>

# %%
def judge(content, model):
    """What a checkpoint file's content is: "good", "incomplete", "damaged" or "another model"."""
    raise NotImplementedError("exercise 70.3: Is it whole, and mine?")


# %%
# What is asked: the right word for whole, cut, lengthened, changed and foreign files.
with check("70.3"):
    for size in (0, 1000):
        good = lab70.pack(bytes(range(250)) * (size // 250), "net A")
        cases = {"whole": (good, "good"), "empty": (b"", "incomplete"), "twice": (good + good, "incomplete")}
        for share in (0.1, 0.5, 0.99):
            cases[f"cut to {share:.0%} of its length"] = (good[: int(share * len(good))], "incomplete")
        if size:
            cases["whole but for one bit"] = (lab70.damaged(good), "damaged")
            cases["as long as it should be, but half of it zeros"] = (lab70.damaged(good, True), "damaged")
        for what, (content, verdict) in cases.items():
            expect.equal(judge(content, "net A"), verdict, f"`judge` of a file that is {what}")
            if verdict != "good":
                what = f"{what}, and of another net besides"
                expect.equal(judge(content, "net B"), verdict, f"`judge` of a file that is {what}")
        why = "its shapes would not fit, or worse, fit by chance"
        expect.equal(judge(good, "net B"), "another model", "`judge` of another net's file", because=why)

# %% [markdown]
# ### Measure
# Three checkpoints in a folder, and the newest is taken. Then that one is damaged, the one before it is cut,
# and it is asked again. `lab70.newest` asks your `judge`, from the newest file on.

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
# **Explain.** Two bad files cost two intervals, and not the training. That is why one keeps more than one
# checkpoint, and some older ones on another disk. The training of section 5 keeps the newest two: that would
# not have been enough here.
#
# Reading is also where a stranger could harm you. `torch.save` writes a *pickle*, and a pickle can hold a
# call, which is made when it is read. `weights_only=True` takes tensors, numbers, texts, and lists and
# dicts of them, and refuses everything else: that is how the labs read.
#
# ## 4. How often?
# Save often, and you spend your time on saving. Save rarely, and a failure costs much work. Three numbers
# decide, in seconds: `save`, what a save takes; `every`, how long you compute between two of them (in this
# section seconds, elsewhere steps); `mtbf`, the **mean time between failures** of the whole job.
#
# - Saving costs the share `save / every` of the time.
# - A failure comes somewhere between two saves: in the mean, half of `every` is done again. That is lost once
#   in each `mtbf`: a share of `every / (2 * mtbf)`.
#
# The sum is least where both are equal. That is **Young's** interval (J. W. Young, Communications of the ACM
# 17, 1974): the square root of `2 * save * mtbf`. Daly (2006) added terms for saves that are not short
# against the mtbf.
#
# Failures add up. If one node fails once in `m` hours in the mean, one of n nodes fails each `m / n` hours.
# Meta's training of Llama 3 on 16,384 GPUs had 419 unexpected ends in 54 days ("The Llama 3 Herd of Models",
# 2024): an mtbf of 3.1 hours.
#
# ### Exercise 70.4 · Young's interval
# `interval` returns the seconds between two saves, by Young, and `lost` the share of the time that saving and
# repeating take together. All times in seconds. 2 lines. *(beginner)*
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
    raise NotImplementedError("exercise 70.4: Young's interval")


def lost(every, save, mtbf):
    """The share of the time that saves and repeated work take, if one saves after each `every` seconds."""
    raise NotImplementedError("exercise 70.4: Young's interval")


# %%
# What is asked: Young's formula; both shares; and the least loss where it says.
with check("70.4"):
    for save, mtbf in ((60, 11_160), (2, 86_400), (600, 36_000)):
        where = f"a save of {save} s, an mtbf of {mtbf:,} s"
        right = (2 * save * mtbf) ** 0.5
        slips = {"the 2 is missing": (save * mtbf) ** 0.5, "this is its square": 2 * save * mtbf}
        expect.close(interval(save, mtbf), right, f"{where}: the interval", slips=slips)
        for seconds in (right / 3, right, 3 * right):
            share = save / seconds + seconds / mtbf / 2
            slips = {
                "a failure costs half an interval in the mean": save / seconds + seconds / mtbf,
                "this is the saving alone": save / seconds,
                "this is the repeating alone": seconds / mtbf / 2,
            }
            what = f"{where}: the share that is lost, with a save each {seconds:.0f} s"
            expect.close(lost(seconds, save, mtbf), share, what, slips=slips)

# %% [markdown]
# ### Predict
# A save takes 60 s, and the mtbf is 3.1 hours. After how many minutes should it save? How many percent of the
# time are lost then? And on an eighth of the GPUs, with the same time for a save: after how many minutes?

# %%
predict("70.4", minutes=..., percent=..., minutes_on_an_eighth=...)

# %%
llama = 3.1 * 3600
best_seconds = interval(60, llama)
share = lost(best_seconds, 60, llama)
predict.right(
    "70.4", minutes=best_seconds / 60, percent=100 * share, minutes_on_an_eighth=interval(60, 8 * llama) / 60
)

# %% [markdown]
# ### Measure
# First your own disk: what does a save with your `write` take? Then a training of a month is played, with
# failures at random, for several intervals: saves, repeated work, and 2 minutes for each restart.

# %%
with tempfile.TemporaryDirectory(dir=home()) as name:
    content = lab70.pack(bytes(1_000_000 * megabytes), "zeros")
    took = timing.measure(lambda: write(Path(name) / "timed", content), repeat=repeat, warmup=1)
rate = 1e6 * megabytes / took.median
print(f"{megabytes} MB in {took}: {rate / 1e6:.0f} MB/s")
own_save = 12e9 / rate  # a net of 1e9 parameters: 4 bytes each, and 8 for Adam's averages
for nodes in (1, 100, 10_000):
    mtbf = 5 * 365 * 86_400 / nodes  # if a node fails once in five years
    minutes = interval(own_save, mtbf) / 60
    percent = 100 * lost(60 * minutes, own_save, mtbf)
    print(f"{nodes:6,} nodes, {own_save:.0f} s for 12 GB: each {minutes:.0f} minutes, {percent:.1f} % lost")
record.add("save", seconds=took, bytes=len(content), bytes_per_second=rate)

# %%
restart = 120  # seconds
played = {}
by_formula = {}
by_daly = {}
for factor in (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 4, 8):
    seconds = factor * best_seconds
    played[seconds / 60] = 100 * lab70.simulate(seconds, 60, llama, restart, 86_400 * days)
    by_formula[seconds / 60] = 100 * lost(seconds, 60, llama)
    by_daly[seconds / 60] = 100 * lab70.expected(seconds, 60, llama, restart)
# Daly: of the time for `every` seconds of work, with restarts, and failures in saves and in restarts, too:
# lost = 1 - every / (mtbf * exp(restart / mtbf) * (exp((every + save) / mtbf) - 1))
curves = {"played": played, "yours": by_formula, "Daly's full formula": by_daly}
title = "A wide valley: half or twice the interval costs little"
plots.lines(curves, xlabel="minutes between saves", ylabel="percent lost", title=title, logx=True)
daly = lab70.daly(60, llama)
print(f"Young: {best_seconds / 60:.1f} minutes; Daly: {daly / 60:.1f} minutes")
for name, seconds in {"Young's": best_seconds, "Daly's": daly, "the best": lab70.best(60, llama)}.items():
    print(f"lost at {name} interval, in the mean: {100 * lab70.expected(seconds, 60, llama, restart):.3f} %")


# %% [markdown]
# **Explain.** The played losses lie along Daly's full formula, which counts restarts, and failures during
# saves and repeated work, too. One month is one throw of the dice, so single points stray. At the bottom
# yours lies a little below: it leaves the restarts out. At both ends it is too rough: it adds shares as if
# they were small. Both formulas have their lowest point where Young said.
#
# The valley is wide. Your figures of `save` and of the mtbf may be a good deal wrong: that hardly matters,
# as the root halves such mistakes. The two ends of the curve do matter. And Daly's terms gain nothing to
# speak of here, as a save is short against the mtbf.
#
# Your disk is one disk, and the table above holds for it alone. A cluster's file system is another, and many
# ranks write to it at once: measure it there, with `make submit LAB=70`.
#
# ## 5. Asked to stop
# Some ends are announced. Slurm can send a **signal** before it kills: a number that interrupts a process
# wherever it is. Nothing may be saved while it interrupts: half of a step may be done. So the signal sets a
# flag, and the loop looks at the flag after each step. In the lab the loop is given a function: `stopped()`
# says whether the signal has come to this rank.
#
# Ranks do not hear it at the same time. Suppose that rank 1 hears it during step 7, and rank 0 during step 8.
# If each looks at its own flag only, rank 1 leaves after step 7. What does rank 0 do in step 8?
# <details><summary>Answer</summary>
#
# It waits for ever: its allreduce needs the gradients of rank 1, which has gone.
# </details>
#
# All ranks have to leave after the same step. So they ask each other: `comm.allgather(value)` gives every
# rank the list of all values.
#
# ### Exercise 70.5 · The loop
# `train` calls `training.advance()` until `training.done` (the steps done since the start) is `last`; that
# may be so at once. It calls `save(training)` after every step whose number is a multiple of `every`, after
# the `last`, and when **any** rank was asked to stop. In that case it also returns. At most one save a step.
# All ranks do the same. 6 lines. *(advanced)*
#
# <details><summary>Hint 1: one question in each step</summary>
#
# `stop = any(training.comm.allgather(stopped()))`, after `advance`: in each step, on all ranks, not only
# where the own flag is set.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In the loop: `advance`, `stop = …`, then `if stop or training.done % every == 0 or …: save(training)`, then
# `if stop: return`.
# </details>

# %%
def train(training, last, every, stopped, save):
    """Train until `last` steps are done, or until a rank was asked to stop. training.comm: the ranks."""
    raise NotImplementedError("exercise 70.5: The loop")


# %%
# What is asked: all ranks do equally many steps, save after the right ones, and stop when one was asked.
with check("70.5"):
    cases = lab70.loop_cases(ranks)
    tried = launch.run(lab70.try_loop, train, cases, ranks=ranks, timeout=patience)
    for number, case in enumerate(cases):
        steps = [by_rank[number]["done"] for by_rank in tried]
        why = "a rank that is left alone waits for ever: all have to leave after the same step"
        expect.equal(steps, [steps[0]] * ranks, f"{case}: steps done, by rank", because=why)
        expect.equal(steps[0], case.end, f"{case}: steps done")
        for rank, by_rank in enumerate(tried):
            expect.equal(by_rank[number]["saves"], case.saves, f"{case}: saved after steps, on rank {rank}")

# %% [markdown]
# ### Predict
# Now all your functions together. Two ranks train for 60 steps and save after every 10. After step 27 a
# rank is killed with `kill -9`. The training is started again. With which step does it begin, and how many
# steps are done a second time?

# %%
predict("70.5", first_step=..., done_again=...)

# %% [markdown]
# ### Measure
# It is done on this machine, with real ranks. The loss of each step is written down with all its bits. At the
# end the same training runs once more without a break, and losses are compared with `==`. About 10 s. The
# line that says who died also names the usual reason for such an end. This time it was us.

# %%
killed_after = 2 * every + 7 * every // 10
mine = lab70.Answers(capture, restore, write, judge, train)
story, whole = lab70.killed_and_resumed(mine, home() / "70_lives", last, every, killed_after, ranks)
lives = lab70.table(story, whole)
print(lives.to_string())
for life, row in lives.iterrows():
    again, differ = int(row["done again"]), int(row["losses that differ"])
    record.add("life", life=life, steps=int(row["last step"]), again=again, differ=differ, way="kill -9")
if len(lives) > 1:  # in a batch job nobody is killed here
    final = lives.iloc[-1]
    predict.right("70.5", first_step=int(final["first step"]), done_again=int(final["done again"]))

# %% [markdown]
# **Explain.** The second life begins behind the last good checkpoint. Less than one interval was done
# twice, and those steps had the same losses both times: the column of losses that differ holds zeros, in
# both lives. So the kill cost time, and nothing else. (In a batch job nobody is killed here, and you see
# one life.)
#
# ## 6. Slurm: signal, requeue, preempt
# In a batch job three things can end a training early, and Slurm can start it again after each of them:
#
# | what | how it is announced | who starts it again |
# |---|---|---|
# | its time is up | `--signal=B:USR1@60`: signal USR1, about 60 s before | its script: `scontrol requeue` |
# | **preemption**: an urgent job takes the nodes | on some sites by that signal | Slurm, with `--requeue` |
# | a node fails, or an operator requeues it | not at all | Slurm, with `--requeue` |
#
# **Requeue** means: back into the queue, under the same number, and later from the first line of the script
# again. The ranks find their checkpoint and go on. `SLURM_RESTART_COUNT` tells a job how often that has been.
# Here is such a script:

# %%
print(lab70.script())

# %% [markdown]
# Read it from the bottom up. The last lines put the job back into the queue. Before that, the shell waits
# until the ranks have saved. It waits twice: the signal ends the first `wait`. `B:` sends the signal to
# this shell alone, so `trap` has to pass it on. And `srun` stands in the background, since a shell acts on
# a signal only when no command in the foreground is running.
#
# `@60` is not exact: by Slurm's manual the signal may come up to 60 s earlier. It has to leave time for one
# step and one save. In a trial here, with a limit of two minutes, it came 54 s after the start.
#
# ### Predict
# The training above as a job, with 60 steps and a save after every 10. First an urgent job preempts it,
# with a signal; then it is requeued without any. How many steps are done again after the signal? And how many
# at most without it, if the kill may also fall into a save?

# %%
predict("70.5", after_signal=..., at_most_without=...)

# %% [markdown]
# ### On the tabletop
# `make tabletop` starts a small real Slurm on this machine. This cell then submits the training on two
# nodes. Each step takes half a second longer there, as if the net were larger, so that there is time to
# interrupt it. An urgent job comes from a partition with a higher priority, which the cell creates for
# that. Takes about a minute.

# %%
moments = (last // 5, last // 2 - 1)  # steps after which it is interrupted, each in the middle of an epoch
outcome = lab70.three_lives(mine, last, every, moments, limit)
if outcome is not None:
    lives = lab70.table(*outcome)
    print(lives.to_string())
    for life, row in lives.iterrows():
        again, differ = int(row["done again"]), int(row["losses that differ"])
        record.add("life", life=life, steps=int(row["last step"]), again=again, differ=differ, way="Slurm")
    # The second is by counting: all steps since the last save that is whole.
    predict.right("70.5", after_signal=int(lives["done again"].iloc[1]), at_most_without=every)

# %% [markdown]
# **Explain.** You should see three lives. The second begins with the step behind the last one of the first:
# the signal came, all ranks agreed, rank 0 saved, and nothing was done twice. The third begins behind a
# multiple of 10: nobody was warned, and the steps since the last save were done again. By counting, at most
# 10 can be lost so: if the kill falls into the save, which none did here. All lives have the losses of the
# training without a break, which ran on the same nodes at the end. Both ends fell into the middle of an
# epoch.
#
# Slurm lets a requeued job wait, here for two minutes: `scontrol show job` names the time. We cut that
# short with `scontrol update … StartTime=now`.
#
# On your cluster ask three things. May a job requeue itself? Does preemption send the signal
# (`preempt_send_user_signal`), and how long is the grace (`GraceTime`)? And how long does your save take?
#
# ## 7. In pieces, and in the background (for those who have time)
# Two things are still slow. Rank 0 writes for everybody: with FSDP (lab 60) it does not even have the whole
# net. And all wait until it is done. PyTorch's *distributed checkpoint* (DCP), which lab 60 used, mends
# both:
#
#     checkpoint.save(state, checkpoint_id=folder)                # each rank writes its own pieces
#     future = checkpoint.async_save(state, checkpoint_id=folder) # returns when the state is copied
#     future.result()                                             # waits until the files are there
#
# Saving in the background needs a **copy**. A `state_dict` holds the tensors themselves, and the next step
# changes them in place:

# %%
weights = torch.ones(3)
state = {"as it is": weights, "a copy": weights.clone()}  # to be written by and by
weights.mul_(0)  # the next step comes before that
print("what would be written:", {name: values.tolist() for name, values in state.items()})

# %% [markdown]
# ### Measure
# A net with Adam, in pieces on two ranks. It is saved both ways. Right after `async_save` has returned, all
# weights are set to zero: a training that goes on, only worse. About 10 s.

# %%
width = 512
folder = home() / "70_pieces"
saved = launch.run(lab70.save_in_pieces, folder, width, ranks=ranks, controller="torch", threads=1)
for rank, by_rank in enumerate(saved):
    print(f"rank {rank} wrote {by_rank['files']} bytes")
for what, seconds in saved[0]["seconds"].items():
    print(f"{what}: {1e3 * seconds:.0f} ms")
right = lab70.weights_then(width)
for way in ("sync", "async"):
    loaded = lab70.load_whole(folder / way, width)
    same = all((loaded[name] == right[name]).all() for name in right)
    print(f"{way}: read by one process, every weight is as it was saved: {same}")

# %%
if world.launcher() is None:  # in a job several ranks run this cell, and one file can be taken away once
    print("Read without its file .metadata:", lab70.without_metadata(folder / "async", width))

# %% [markdown]
# **Explain.** Each rank wrote about half of the bytes, and one process could read them all. The zeros are
# not in the file of `async_save`: it had copied the state before it returned. That copy costs memory. The
# times are one sample each: on a net as small as this, starting the work may cost more than writing. On a
# large one the training stands still for the copy alone: that is then the `save` in Young's formula.
#
# The last line is how DCP marks a whole checkpoint. All ranks write their pieces first; then rank 0 writes
# `.metadata` under a temporary name, and renames it, as you did in 70.2. A folder without it was never
# finished. But one thing DCP does not do as you do (PyTorch 2.13, `filesystem.py`): in a folder that has an
# older checkpoint it *removes* the old `.metadata` before it renames the new one. What follows for you?
# <details><summary>Answer</summary>
#
# A new folder for each checkpoint, and the older one goes when the new one is whole. In one and the same
# folder the pieces of the new save have the names of the old ones, and are overwritten first: a kill
# meanwhile leaves the old `.metadata` beside new and torn pieces. A kill between removing and renaming
# leaves none.
# </details>
#

# %% [markdown]
# What this lab does not show: GPUs, whose sums may not repeat bit for bit; data loaders with workers, which
# have random states of their own; a resume with another number of ranks (lab 71); object storage, which has
# no rename.
#
# ### What you take away
# - An exact resume needs net, optimizer, schedule, place in the data, and the random states of *every* rank.
#   Test it with `==`.
# - Another name, fsync, rename, fsync of the folder. Then a checksum, before you trust the file.
# - Save each √(2 · save · mtbf) seconds; half or twice of it costs little.
# - A signal sets a flag; all ranks agree on the step; the script requeues the job.
# - Next: go on with fewer ranks instead of waiting for a new job (71).
