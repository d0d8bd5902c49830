# %% [markdown]
# <!-- Generated from solutions/71_elastic_training.py by `make labs`. Learners work on a copy in work/. -->
# # 71 Elastic training
#
# A job on hundreds of nodes loses one of them sooner or later. An *elastic* job goes on with those that are
# left, and takes in those that come. You write what its ranks decide, then kill real ranks and count what is
# lost.
#
# **You will be able to** (1) write the loop that carries a rank over a failure and over a newcomer, (2) deal
# out the data so that no sample is lost or repeated when the number of ranks changes, (3) set batch and
# learning rate after a change, (4) say what Horovod Elastic and torchrun do differently, and what either must
# be protected from.
#
# Needs: horovod, torch · Ranks: 1 · Minutes: 60 · Before: 30, 34, 40

# %%
import numpy as np
import pandas
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from labkit import check, expect, hint, lab, plots, predict
from support import lab71

lab.start("71_elastic_training")

# %% tags=["parameters"]
batch = 48  # samples of a step at the start, on two ranks
rate = 0.2  # learning rate at the start
every = 3  # steps between two commits
dies = 8  # the step in which a rank is killed
waits = 14  # the step after which a rank that is alone waits for the other node
limit = 150  # seconds after which a job is called stuck


# %% [markdown]
# ## 1. Four words
# When a rank of an ordinary MPI job dies, the launcher ends all others. An elastic launcher does not. It has
# to find out who is there, now and later:
#
# - **Discovery**: Horovod runs a script of yours, once a second. It prints a line for each node that may be
#   used, as `node7:4` for four ranks. On a cluster it would ask the scheduler.
# - **Rendezvous**: the meeting point, a small server. All ranks ask it who takes part, and get their rank and
#   the group's size. They meet again after every change.
# - **Blacklist**: a node on which a rank died is not used again, or only after a while.
# - **Commit**: from time to time each rank keeps a copy of net, optimizer and counters, in its memory. That
#   is what it can go back to.
#
# With Horovod the command is
#
#     horovodrun --gloo -np 2 --min-np 1 --max-np 2 --host-discovery-script ./hosts.sh \
#         --blacklist-cooldown-range 60 600 python train.py
#
# It starts with 2 ranks, goes on while there is at least 1, and lets a blacklisted node in again after some
# minutes. `--gloo` is needed: Gloo is a library that sends Horovod's messages over TCP, and it outlives the
# death of a rank. An ordinary MPI does not.
#
# Inside of `train.py` two exceptions tell what has happened:
#
# | exception | means | where the ranks are |
# |---|---|---|
# | `HorovodInternalError` | a message failed: some rank is gone | somewhere in the middle of a step |
# | `HostsUpdatedInterrupt` | a node has come, or will go | all between the same two steps |
#
# The second is raised by `state.commit()` and by `state.check_host_updates()`. Both ask whether discovery has
# found a change. So a rank is never interrupted in the middle of a step by a node that *comes*.
#
# The object `state` knows net, optimizer, and your counters. It has three verbs for you:
#
# - `state.save()` keeps a copy of all of them as they are now. (`commit` does that, too.)
# - `state.restore()` goes back to the last copy.
# - `state.sync()` sends rank 0's to all ranks, so that newcomers have them. Net and optimizer are sent **as
#   they are**, but counters such as `state.step` **as in the last copy**. (So Horovod 0.28.1 does it.)
#
# And if rank 0 dies? Then a survivor becomes rank 0, never a newcomer: by its source, Horovod keeps the nodes
# that stay in their order, and puts new ones behind them. If none stays, it ends the job.
#
# What must a rank do first in each of the two cases, before it meets the others again?
# <details><summary>Answer</summary>
#
# After a failure: `restore`. The step was cut off in its middle. The last copy is of a moment that was the
# same on all ranks, and there is no later copy.
#
# For a newcomer: `save`. Nothing was cut off, and nothing needs to be lost. Without it `sync` would send the
# net of now with the counters of the last copy, and the steps in between would be taken twice.
# </details>
#
# ### Exercise 71.1 · A loop that survives
# Write what `hvd.elastic.run` does around a training, with one improvement (section 3 shows which).
# `train(state)` trains from `state.step` on, and returns something when it is done: return that. `meet()`
# goes to the rendezvous and forms the new group. It also calls what a program registered for such a change,
# and that looks at the state: so have it in order **before**. Before **every** call of `train`, all ranks
# `sync`. A rank may die during `sync`, too. Any other exception is a mistake in the program, and has to come
# out, also another `RuntimeError`. About 9 lines. *(intermediate)*
#
# <details><summary>Hint 1: the frame</summary>
#
# An endless loop. In it first `try:` with `sync` and `train`, then two `except`, each with one line of its
# own, then `meet()`.
# </details>
# <details><summary>Hint 2: the two lines</summary>
#
# They are in the answer above this exercise: one verb after `except HorovodInternalError:`, the other after
# `except HostsUpdatedInterrupt:`.
# </details>

# %%
def run_elastic(train, state, meet):
    """Train until train(state) returns, over all failures and newcomers. Returns what train returns."""
    raise NotImplementedError("exercise 71.1: A loop that survives")


# %%
# What is asked: restore after a failure, save for a newcomer, then meet, then sync. A rank is played here, in
# this process; real ones follow. It saves after every third step.
with check("71.1"):
    for case in lab71.CASES:
        with check.case(f"when {case.words}"):
            got = lab71.try_loop(run_elastic, case)
            end = case.rounds[-1][1]
            mistake = lab71.MISTAKES.get(end)
            if mistake:
                sentence = f"When {case.words}: the {end} has to come out, as it is. {got.came_out()}"
                expect(got.error is mistake, sentence)
            else:
                expect(got.error is None, f"When {case.words}: {got.came_out()} {got.advice()}")
            sentence = "train has returned, and is called again. Return what it returned: that ends the loop."
            expect(not got.endless, f"When {case.words}: {sentence}")
            for number, (call, step) in enumerate(zip(got.calls, case.begins, strict=False)):
                where = f"When {case.words}, call {number + 1} of train"
                expect(call.met, f"{where}: it trains on without `meet()`: the old group is gone.")
                expect(call.synced, f"{where}: `sync` is missing between `meet()` and `train`.")
                why = "save what is there, or restore what was: `sync` mixes the two"
                expect.equal(call.weights, call.step, f"{where}: steps that the net has done", because=why)
                why = "a failure undoes the steps since the last save, a newcomer none"
                expect.equal(call.step, step, f"{where}: the step it goes on from", because=why)
                why = "`meet` looks at the state, which has to be in order by then"
                expect(call.orderly, f"{where}: restore or save comes before `meet()`: {why}.")
            why = "run_elastic ends before train has returned"
            expect.equal(len(got.calls), len(case.begins), f"When {case.words}: calls of train", because=why)
            if not mistake:
                expect.equal(got.result, "done", f"When {case.words}: what run_elastic returns")

# %% [markdown]
# ## 2. Whose samples?
# An epoch has an order: all samples, shuffled once, the same on every rank. A step takes the next `batch` of
# them. Each rank computes a part of these, and the parts together are exactly these.
#
# With a fixed number of ranks one often deals the whole epoch out beforehand: rank r takes samples r, r + p,
# r + 2p … After a change of p, that goes wrong. Below, two ranks take 12 samples each, then one rank is left,
# takes 24 of its own list, and goes on with two again:

# %%
# Each rank keeps its place in its own list, and goes on from there in the list for the new p.
used = []
place = 0
for size, each in ((2, 12), (1, 24), (2, 12)):
    for rank in range(size):
        used += list(range(rank, 96, size))[place : place + each]
    place += each
often = np.bincount(used, minlength=96)
print(f"{len(used)} samples taken: {np.sum(often == 0)} of 96 never, {np.sum(often > 1)} more than once")


# %% [markdown]
# Some were used twice, and others never will be: both lists are at their end.
#
# The cure is one number, `done`: how many samples of the order have been used. It is part of the state, so it
# is committed, restored and sent with the net. What comes next then depends on `done` alone, and every group
# of any size deals *that* out.
#
# ### Exercise 71.2 · This rank's part
# `order` is an array of sample numbers. Return this rank's part of the next step: of the next `batch` numbers
# after the first `done`. At the end of the epoch there may be fewer. Parts differ by one sample at most. 1 or
# 2 lines. *(beginner)*
#
# <details><summary>Hint 1: first the step, then the part</summary>
#
# `order[done : done + batch]` are the samples of the step. A slice that goes beyond the end is cut off.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `step[rank::ranks]` takes every `ranks`-th, from the `rank`-th on.
# </details>

# %%
def own_part(order, done, batch, rank, ranks):
    """The numbers of the samples that this rank computes in the next step."""
    raise NotImplementedError("exercise 71.2: This rank's part")


# %%
# What is asked: an epoch in which the number of ranks changes, and each sample is used exactly once.
with check("71.2"):
    for samples, length, sizes in ((20, 4, (1,)), (50, 8, (2, 2, 1, 3)), (47, 10, (4, 3, 5)), (7, 9, (2,))):
        order = np.random.default_rng(samples).permutation(1000)[:samples]
        for number, done in enumerate(range(0, samples, length)):
            size = sizes[number % len(sizes)]
            where = f"{done} of {samples} samples done, a step of {length}, {size} ranks"
            parts = []
            for rank in range(size):
                part = own_part(order, done, length, rank, size)
                sentence = f"rank {rank}'s part is to be an array of sample numbers, and is {part!r}."
                missing = " Does the function return it?" if part is None else ""
                expect(np.ndim(part) == 1, f"{where}: {sentence}{missing}")
                parts.append(list(part))
            together = sum(parts, [])
            step = list(order[done : done + length])
            twice = sorted({int(one) for one in together if together.count(one) > 1})
            expect(not twice, f"{where}: sample(s) {twice} are computed by two ranks.")
            missing = [int(one) for one in step if one not in together]
            expect(not missing, f"{where}: sample(s) {missing} are in nobody's part.")
            other = [int(one) for one in together if one not in step]
            expect(not other, f"{where}: sample(s) {other} do not belong to this step.")
            lengths = [len(part) for part in parts]
            expect(max(lengths) - min(lengths) <= 1, f"{where}: the parts have {lengths} samples.")


# %% [markdown]
# **Explain.** Parts may differ by a sample, so the mean over the ranks' means is not the mean over all
# samples. In the jobs below each rank divides the *sum* of its losses by the samples of the whole step, and
# gradients are added up over the ranks, not averaged (lab 30).
#
# Horovod's `hvd.elastic.ElasticSampler` keeps the same number. By its source it gives some samples twice
# where what is left does not divide among the ranks.
#
# ## 3. Batch and learning rate
# Two ranks with 24 samples each make steps of 48, with a learning rate of 0.2. Now there is one rank left.
# There are two ways:
#
# | | the rank computes | a step is of | learning rate |
# |---|---|---|---|
# | **keep** the global batch | twice as much | 48 samples | as before |
# | **rescale** | as much as before | 24 samples | by the linear scaling rule (lab 34): half |
#
# Keep, and the training is the same as without a failure, up to rounding. (With dropout or batch norm it is
# not: they depend on which rank computes what.) Steps take longer, and memory must suffice.
# Rescale, and a step takes as long as before, but it is another training: more and smaller steps.
#
# The values of the **start** are what counts, not those of now. The rule is asked after every change, and
# after a `restore` nobody knows for how many ranks the present ones were set.
#
# ### Exercise 71.3 · After a change of size
# The job began with `first` ranks, steps of `batch` samples and the rate `rate`. Now there are `ranks` ranks.
# Return the samples of a step, a whole number, and the rate. `batch` divides by `first`. About 4 lines.
# *(beginner)*
#
# Then the check starts a **real** job under `horovodrun`: your loop, your parts, your rule, on the digits'
# images. Two names of this machine play two nodes. In step 8 rank 1 is killed with `SIGKILL`. The rank that
# is left trains on alone up to step 14, and waits there. Then the discovery script prints a third name: a new
# node. A control does the same training in one process, with nobody killed.
#
# <details><summary>Hint 1: per rank</summary>
#
# At the start each rank had `batch // first` samples. With `ranks` ranks there are `ranks` times as many.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# ```python
# if keep:
#     return batch, rate
# return batch // first * ranks, …
# ```
# </details>

# %%
def after_resize(batch, rate, first, ranks, keep):
    """Samples of a step of all `ranks` ranks, and its learning rate. keep: the global batch stays."""
    raise NotImplementedError("exercise 71.3: After a change of size")


# %%
# What is asked: the rule for shrinking and growing; then a real job that loses nothing but steps. 10 s or so.
with check("71.3"):
    for first, now in ((2, 1), (1, 2), (4, 3), (2, 2), (3, 8)):
        each = 10 + first + now
        begun = 0.05 * now
        where = f"{first} ranks at the start, with a rate of {begun:.2f} and {each} samples a rank, {now} now"
        got = after_resize(each * first, begun, first, now, True)
        expect.equal(got, (each * first, begun), f"{where}, keep: samples of a step, and rate")
        got = after_resize(each * first, begun, first, now, False)
        sentence = f"two numbers are to be returned, samples of a step and rate, not {got!r}."
        expect(np.shape(got) == (2,), f"{where}, rescale: {sentence}")
        samples, new_rate = got
        why = "a rank computes as many as before"
        expect.equal(samples, each * now, f"{where}, rescale: samples of a step", because=why)
        expect(isinstance(samples, int), f"{where}, rescale: {samples!r} samples, and not a whole number.")
        slips = {
            "this is divided where it has to be multiplied": begun * first / now,
            "the rate stays, though a step has other samples: the rule lets it grow as they do": begun,
        }
        expect.close(new_rate, begun * now / first, f"{where}, rescale: the rate", slips=slips)
    start = (batch, rate, lab71.RANKS)
    keep = lab71.Task(own_part, after_resize, run_elastic, start, True, every, dies, waits)
    kept = lab71.with_horovod(keep, limit)
    control = lab71.losses_alone(batch, rate)
    often = sorted(set(kept.used().values()))
    expect.equal((len(kept.used()), often), (lab71.SAMPLES, [1]), "Real job: samples used, and how often")
    expect.close(kept.losses(), control, "Real job: the loss of each step, beside one process", rtol=1e-6)

# %% [markdown]
# ### Predict
# The rank was killed in step 8: seven steps were done. There was a commit after every third step. How many
# finished steps had to be done again?
#
# Once the new node has come, two ranks train again: how many of the two are new processes?

# %%
predict("71.3", lost_by_death=..., new_processes=...)

# %% [markdown]
# ### Measure
# The ranks keep a diary: a line for each step, with its loss and samples. From it we count.

# %%
# Counting and a table; need not be read.
rows = []
for ranks, fresh in kept.processes():
    rows.append({"ranks": ranks, "new processes": fresh})
print(pandas.DataFrame(rows, index=["start", "after the failure", "with the new node"]))
sizes = kept.sizes()
print(f"steps by 2, 1, 2 ranks: {sizes.count(2)} by two, {sizes.count(1)} by one")
lost = kept.lost()
print(f"finished steps that were done again: {lost[0]} after the failure, {sum(lost[1:])} for the new node")
print(f"samples in the final weights: {len(kept.used())}, each once; last loss {kept.losses()[-1]:.6f}")
print(f"control, one process:                                      last loss {control[-1]:.6f}")
fresh = kept.processes()[-1][1]
predict.compare("71.3", lost_by_death=lost[0], new_processes=fresh)

# %% [markdown]
# **Explain.** The failure cost the steps since the last commit, here 1, and the one under way. The new node
# cost none: your `save` kept what was done. The survivor was never started anew; it is the same process all
# along, and only the node that came has a new one. The losses are the control's, step by step, though three
# groups computed them.
#
# A commit is a copy in memory, which takes time. How often would you commit, if a copy takes as long as a
# step, and a rank dies every 1,000 steps?
# <details><summary>Answer</summary>
#
# With a commit every k steps, copies cost 1 / k of a step for each step. A failure costs k / 2 steps on the
# average, every 1,000: k / 2000. Both together are least at k = √2000, about every 45 steps. (Young, 1974.)
# </details>
#
# ### Measure: a loop without save
# In this respect Horovod's own loop, `hvd.elastic.run`, is yours **without** the `save`: it takes for granted
# that a newcomer is let in right behind a commit. (By its source it also skips `sync` where nodes have only
# gone; and it calls `state.on_reset()` itself, which for your loop our `meet` does.) Our job waits with
# `check_host_updates` after step 14, behind no commit. The same job with Horovod's own loop:

# %%
own = lab71.with_horovod(keep._replace(run_elastic=lab71.OWN), limit)
again = own.lost()[1:]
print(f"steps done again when the new node came: {again}")
print(f"last loss {own.losses()[-1]:.6f}; yours {kept.losses()[-1]:.6f}; control {control[-1]:.6f}")

# %% [markdown]
# **Explain.** Steps 13 and 14 were done twice, and the net keeps both: `sync` sent the net of step 14 with
# the counter of step 12. Nothing warns of it; the final loss is not the control's. With Horovod's own loop,
# therefore, ask for newcomers in `state.commit()` only, or `state.save()` before `check_host_updates()`.
#
# ### Measure: keep or rescale
# The same job again, with `keep=False`.

# %%
rescale = keep._replace(keep=False)
scaled = lab71.with_horovod(rescale, limit)

# %%
# Need not be read: the plot.
curves = {
    "nobody killed": dict(zip(kept.samples(), control, strict=True)),
    "keep": dict(zip(kept.samples(), kept.losses(), strict=True)),
    "rescale": dict(zip(scaled.samples(), scaled.losses(), strict=True)),
}
axes = {"xlabel": "samples used", "ylabel": "loss of a step"}
plots.lines(curves, title="Keep the global batch, and the training is the same", **axes)
print(f"steps in the epoch: keep {len(kept.losses())}, rescale {len(scaled.losses())}")

# %% [markdown]
# **Explain.** "Keep" lies on the control. "Rescale" leaves it where the rank was killed: steps of 24 samples
# jump more, and there are more of them. Which of the two trains better, this one run cannot tell. What it
# tells: after "keep" you need not ask.
#
# Why not always keep? "Keep" needs a rank with half of its memory free, or gradients are accumulated over two
# halves (lab 60). And when a job *grows* from 2 to 200 ranks, "keep" leaves a rank nothing to do;
# then one rescales, and lets the rate grow over some hundred steps (lab 34).
#
# ## 4. torchrun
# PyTorch's launcher takes another way. Each node has an **agent**, the process `torchrun`, which starts the
# node's ranks and watches them. The agents meet at a store, here that of node 1:
#
#     torchrun --nnodes=1:2 --nproc-per-node=1 --max-restarts=3 \
#         --rdzv-backend=c10d --rdzv-endpoint=node1:29500 train.py
#
# When anything changes, the agents **end all ranks** and start new ones, with other numbers in `RANK` and
# `WORLD_SIZE`. A rank knows nothing of before: it has to read a file, a *checkpoint*. In our job rank 0
# writes one after every third step. `--max-restarts` bounds how often an agent starts anew because a rank
# failed; the default is 0: never.
#
# ### Predict
# A real job with two agents, and your functions of 71.2 and 71.3. Three things happen, one after the other:
# in step 8 rank 1 is killed; in step 11 its node, the agent and its rank; and after step 14, where the rank
# that is left waits again, the node comes back, as a new agent. How many finished steps are lost each time?
#
# After the first of the three, two ranks train again: how many of them are new processes?

# %%
predict("71.3", lost_rank=..., lost_node=..., lost_return=..., new_under_torchrun=...)

# %% [markdown]
# ### Measure
# About 30 s. An agent counts as dead after 5 s without a sign of life, and a meeting with enough nodes waits
# 5 s more for others. (So it was set here; PyTorch's own values are 15 s and 30 s.)

# %%
torchs = keep._replace(run_elastic=None, node_dies_in=dies + every)
ran = lab71.with_torchrun(torchs, limit)

# %%
# Counting and a table; need not be read.
rows = [{"ranks": ranks, "new processes": fresh} for ranks, fresh in ran.processes()]
print(pandas.DataFrame(rows))
print(f"finished steps that were done again: {ran.lost()}")
print(f"samples in the final weights: {len(ran.used())}; last loss {ran.losses()[-1]:.6f}")
names = ("lost_rank", "lost_node", "lost_return")
fresh = rows[1]["new processes"]
predict.compare("71.3", **dict(zip(names, ran.lost(), strict=True)), new_under_torchrun=fresh)

# %% [markdown]
# **Explain.** All ranks are new each time, also where nothing was wrong with them. And the *return* costs
# steps, too: those since the last checkpoint. For that, a rank of torchrun needs no loop like yours, and
# starts from a clean process each time: after a failure inside a GPU's driver there is no other way.
#
# | | Horovod Elastic | torchrun |
# |---|---|---|
# | after a failure | survivors go on | all ranks are started anew |
# | goes back to | a copy in memory | a file |
# | a newcomer costs | nothing, if you save | the steps since the last file |
# | dies with (not tried here) | the node of `horovodrun` | the node of the store |
#
# If a node that comes later fails after a minute (seen with PyTorch 2.13, not run here), set
# `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`, as our job does.
#
# In these jobs processes are forked from one that has imported PyTorch already. A rank of your own job
# imports it at each start: seconds, in which nobody trains.
#
# ## 5. Who may enter?
# **An elastic rendezvous must be protected from everybody who can reach its port. Horovod's is here, twice:
# this kit's Horovod answers only to who knows the job's secret, and all of the job stands in a network of its
# own. PyTorch's is protected by that network alone.**
#
# Why so strict? The rendezvous decides who is a rank, and where the others are. And ranks *unpickle* what
# they are sent: they make Python objects of bytes, which can run any code. Horovod 0.28.1 as it comes from
# `pip` unpickles what a stranger sends to its elastic server (CVE-2024-10190). This kit's Horovod asks for a
# proof first. Nobody knocks in this lab: `env/HOROVOD.md` tells how the proof works, and how both were
# attacked in a test.
#
# PyTorch's store knows no secret: who reaches it may read and write. So it must not be reached. A *network
# namespace* of Linux is a network of one's own; ours has nothing in it but a loopback device and this job.
#
# What listened in the job's network while a rank was alone? And was any of it open in this machine's own
# network at that moment? A control: for that moment this notebook opened a port of its own, and the same
# function has to find it.

# %%
rows = []
for job, story in {"horovodrun": kept, "torchrun": ran}.items():
    for who, sockets in {job: story.ports, f"control, beside {job}": [story.known]}.items():
        for address, port in sockets:
            outside = "yes" if (address, port) in story.outside else "no"
            rows.append({"opened by": who, "address": address, "port": port, "open outside": outside})
print(pandas.DataFrame(rows).to_string(index=False))
if not lab71.spaces():
    print("This machine allows no network of one's own: the jobs listened at the machine's own addresses.")

# %% [markdown]
# **Explain.** A "no" counts only beside a control's "yes": that the port is found where it is open. The
# server of this kit's Horovod and its ranks listen on 127.0.0.1, the loopback. PyTorch's
# store and its agents listen on `::`, too, which is *every* address. In a network of one's own that is
# harmless. On a cluster's login node everybody could knock. On compute nodes others usually can, too: their
# jobs reach yours over the network, and over the loopback if they share the node. Nodes of your own (with
# `sbatch --exclusive`) shut the loopback to them, and only a firewall between jobs shuts the network.
#
# ## 6. Pull the plug (for those who have time)
# A killed process says goodbye: its kernel closes its connections, and the others notice at once. An
# unplugged node says nothing. Who waits for it waits until a time runs out.
#
# With `make tabletop` (lab 00) the next cell submits a job to two nodes, under torchrun, and pulls the plug
# of node 2 in the middle of it, as `make tabletop-fail NODE=2` does. After a message has waited for 10 s,
# PyTorch gives it up. Later the node comes back, as `make tabletop-heal NODE=2`, and a second job with the
# same `--rdzv-endpoint` brings it in. About two minutes.

# %%
lab71.unplugged(keep._replace(run_elastic=None), limit)

# %% [markdown]
# **Explain.** On Slurm three things make this work. `sbatch --no-kill` and `srun --no-kill` keep the job when
# Slurm finds a node dead, which would end it otherwise. The store is on a node that lives. And Slurm never
# gives a job its lost node back: a new job has to bring one.
#
# Why does it take so long until an unplugged node is noticed?
# <details><summary>Answer</summary>
#
# Silence looks like slowness. The ranks cannot tell a dead node from a late one, and so they wait as long as
# a late one may take: 10 s here, 30 s with Horovod's Gloo, half an hour with PyTorch's Gloo, if nothing else
# is said. If the time is too short, a rank that only waits for a slow file counts as dead.
# </details>
#
# ### What you take away
# - A failure: restore. A newcomer: save. Then meet, sync, go on.
# - What is lost are the steps since the last copy. Data is lost or repeated only if its place is not kept and
#   sent together with the net.
# - Keep the global batch, and the training is the same (up to rounding, without dropout or batch norm);
#   rescale, and it is another one.
# - Horovod's survivors go on; torchrun starts all anew, from a file.
# - Whoever reaches a rendezvous without a secret is in the job: let nobody reach it.

# %%
lab71.close()
