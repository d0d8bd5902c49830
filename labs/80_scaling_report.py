# %% [markdown]
# <!-- Generated from solutions/80_scaling_report.py by `make labs`. Learners work on a copy in work/. -->
# # 80 Scaling report
#
# You ask a question about scaling, predict the answer, measure it, and write a report in which
# every number leads to its record. `make report` refuses any other.
#
# **You will be able to** (1) ask a question that a measurement can answer, (2) plan runs so that a
# busy moment cannot spoil all runs of one number of ranks, (3) say where lost time went and what it
# costs, (4) write only what your records support.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 60 · Level: advanced · Before: 01, 23, 50

# %%
from labkit import check, hint, lab, plots, predict, scaling
from support import lab80

lab.start("80_scaling_report")

# %% tags=["parameters"]
question = "Up to how many ranks does it pay to share out one fixed batch?"
enough = 0.7  # your rule: from this efficiency on it pays
where = "virtual"  # or "here": real ranks of this machine, or of the batch job that runs this
machine = "roce25_p100"  # of the virtual cluster; virtual.machines() lists them
net = "resnet101"  # on virtual ranks: the net whose gradients are summed
# its images a second on one "Pascal" GPU alone (Horovod's README, 2017); a P100, we assume
speed = 119.4
jitter = 0.02  # by how much a virtual rank's step varies, as a share of it: an assumption
seed = 1  # of that jitter: take another one, and you have another cluster
images = 256  # of the whole job (strong scaling), of each rank (weak); for real ranks take 32
most = 32  # ranks at most; real ones: as many as there are cores, or ranks of the job
rounds = 3  # how often everything is run, in turns
steps = 6  # timed steps of each run
epoch = 1281167  # images of an epoch, for the cost: ImageNet's training set

# %% [markdown]
# ## 1. A question, and an answer before measuring
# "How does it scale?" is no question: no measurement answers it. A question that can be answered
# names what varies, what stays the same, and which **rule** settles it. The rule is chosen before
# anything is measured. Otherwise one finds, afterwards, that whatever came out was enough.
#
# Ours stands in the parameters: up to how many ranks does it pay to share out one batch? The rule:
# it pays as long as the efficiency (lab 50) is at least `enough`. Change `enough`, if you like: the
# rest of the lab follows. (Another question would need its own rule, in code.)
#
# By default all runs are on the virtual cluster: it takes seconds, and 32 GPUs are free. In the end
# you can take real ranks instead, with the same cells.
#
# | | command |
# |---|---|
# | virtual | the notebook, as it is |
# | this machine's cores | `make run LAB=80 SET="where=here images=32"` |
# | a tabletop or a cluster | `make submit LAB=80 NODES=2 SET="where=here images=32" WAIT=1` |

# %%
setup = lab80.begin(where, machine, net, speed, images, most)
print(setup)


# %% [markdown]
# This line says what a prediction needs. A *message* costs `latency` seconds, some microseconds,
# whatever its size. A *byte* costs `beta` seconds, one over the bandwidth.
#
# The simplest model of a step has two parts. First the rank computes its own images. Then a ring
# sums the gradients ([lab 23](23_ring_allreduce.ipynb)): `scaling.costs.ring_allreduce_time(nbytes, ranks, latency, beta)`
# gives its seconds. In this model nothing overlaps, and no rank is ever late.
#
# - Strong scaling: the ranks share `images`. Where they do not share evenly, all wait for the rank
#   that has one more: its share is `images / ranks`, **rounded up**.
# - Weak scaling: each rank has all of `images`.
#
# An example: 10 images on 4 ranks, 2 ms an image, and a ring of 5 ms. Strong: 3 · 2 + 5 = 11 ms.
# Weak: 10 · 2 + 5 = 25 ms.
#
# ### Exercise 80.1 · Foretell a step
# Write `foretell`. About 4 lines. *(beginner)*
#
# <details><summary>Hint 1: rounding up</summary>
#
# `-(-images // ranks)` is the share, rounded up: `//` rounds down, so the minus signs turn it
# round.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `own = images if kind == "weak" else -(-images // ranks)`, and the result is `own * per_image` and
# the ring.
# </details>

# %%
def foretell(kind, ranks, images, per_image, nbytes, latency, beta):
    """Seconds of a step on `ranks` ranks. kind: "strong" or "weak"; per_image: seconds of an
    image."""
    raise NotImplementedError("exercise 80.1: Foretell a step")


# %%
# Asked: Both kinds, one rank and many, even shares and others.
check("80.1", foretell)

# %% [markdown]
# ### Predict
# Your function now foretells every run. The next cell prints it, in ms. Which efficiency do *you*
# expect at the largest number p of ranks? Give a fraction of 1: t(1) / (p · t(p)) in strong
# scaling, t(1) / t(p) in weak. You may take the model's, or a lower one, if you think that it
# forgets something.

# %%
predicted = {}
for kind in ("strong", "weak"):
    for ranks in setup.counts:
        latency, beta = setup.link(ranks)
        predicted[kind, ranks] = foretell(
            kind, ranks, images, setup.per_image, setup.nbytes, latency, beta
        )
        print(f"{kind:6} {ranks:3} ranks: {1e3 * predicted[kind, ranks]:8.1f} ms a step, foretold")

# %%
predict("80.1", efficiency_strong=..., efficiency_weak=...)  # at the largest number of ranks

# %% [markdown]
# Now what your function foretold is written down, each time as a **record** with the time of day.
# The checker will look at it: a prediction that is younger than the first measurement is none.
#
# A number that you have read somewhere is a record, too: with its source in place of a machine.
# `notes.cite` writes one. A report then calls the first one below `{published_kurth}`, and its
# source `{source_kurth}`. Two results of that paper are cited, not the better one alone.

# %%
chosen = {
    "where": where,
    "machine": machine,
    "net": net,
    "speed": speed,
    "jitter": jitter,
    "seed": seed,
}
chosen |= {"images": images, "most": most, "rounds": rounds, "steps": steps, "epoch": epoch}
chosen |= {"question": question, "enough": enough}
notes = lab80.Notes(setup, predicted, chosen)
kurth = "Kurth and others, SC18, https://arxiv.org/abs/1810.01993"
notes.cite("kurth", 90.7, "%", kurth)
notes.cite("kurth_gpus", 27360, "GPUs", kurth)
notes.cite("kurth_p100", 79.0, "%", kurth)
notes.cite("kurth_p100_gpus", 5300, "GPUs", kurth)
print(f"Study {notes.name}")


# %% [markdown]
# ## 2. Measure
# A machine has moods. For a while something else runs, or clocks are lower. If all runs of "8
# ranks" fall into that while, 8 ranks look bad. So everything is run in **rounds**: each
# configuration once, and then all of them again.
#
# One thing is still unfair. What comes first in a round meets cold caches each time. So each round
# begins with another configuration: the list is turned on by one. (With 3 rounds only three of them
# ever come first, but none does so always.)
#
#     round 0:   A B C
#     round 1:   B C A
#     round 2:   C A B
#
# ### Exercise 80.2 · Plan the runs
# `configurations` is a list such as `[("strong", 1), ("strong", 2), ("weak", 1)]`. Return the list
# of all runs in order. Do not change the list that you are given. With more rounds than
# configurations it goes round again. About 4 lines. *(beginner)*
#
# <details><summary>Hint 1: turning a list</summary>
#
# `configurations[k:] + configurations[:k]` begins with number k.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For each `number` in `range(rounds)`: `k = number % len(configurations)`, and then `order += …`.
# </details>

# %%
def plan(configurations, rounds):
    """[(kind, ranks), …] of all runs, in the order in which they are made."""
    raise NotImplementedError("exercise 80.2: Plan the runs")


# %%
# Asked: Each configuration once a round, each round with another one first, the
# given list untouched.
check("80.2", plan)

# %% [markdown]
# ### Measure
# A step runs from the end of one allreduce to the end of the next. So its parts add up, and nothing
# is left out. Each configuration becomes one record: median, every sample, parts, and where it was
# measured. Some seconds on the virtual cluster; on real ranks about a second for each run.

# %%
notes.measure(plan(notes.configurations(), rounds))

# %%
study = notes.study()
weak = {ranks: run["samples"] for ranks, run in study.runs["weak"].items()}
strong = {ranks: run["samples"] for ranks, run in study.runs["strong"].items()}
plots.scaling(strong, title="Strong: where it bends, the batch is used up")
plots.efficiency(weak, weak=True, title="Weak: each rank keeps its work")
last = max(strong)
useful = scaling.efficiency(strong)[last]
predict.compare(
    "80.1", efficiency_strong=useful, efficiency_weak=scaling.efficiency(weak, weak=True)[last]
)

# %% [markdown]
# **Explain.** On the virtual cluster you should see strong scaling bend. The ranks have less and
# less to compute, and the ring takes no less time, rather more: section 3 shows both. Weak scaling
# stays high: each rank computes for seconds before it sends.
#
# On two real cores you see two points, and they may be anything from bad to better than ideal. A
# verdict "do not quote" in the lines above means: run the notebook once more, from its top, on a
# quieter machine. The report will mark such numbers.
#
# The virtual ranks are a **model**, too: a fuller one than yours, as messages meet in ports and
# ranks come late. That a prediction agrees with it says that two models agree. Only real ranks say
# more.
#
# ## 3. Where the time went, and what it costs
# On p ranks a step takes t seconds; ideally it would take less. Efficiency is ideal / t. What is
# lost, 1 - efficiency, went to three places:
#
# | share of the step lost to | seconds, over t |
# |---|---|
# | `communicate` | the allreduce itself |
# | `wait` | waiting in it for the rank that came last |
# | `slower` | computing, less the ideal time |
#
# The ideal is `alone`, the step of one rank: `alone / ranks` in strong scaling, `alone` in weak.
#
# An example, strong, 4 ranks: alone 40 ms, so ideally 10 ms. Measured: compute 11, wait 2,
# communicate 3, so t = 16 ms. Lost: 3/16 to sending, 2/16 to waiting, 1/16 to slower computing.
# Together 6/16; and the efficiency is 10/16. Computing may also be *faster* than ideal. Then
# `slower` is below 0.
#
# Time is paid for in **node-hours**: nodes times hours. A node is paid for as a whole, also if only
# some of its GPUs are used. An example: 1,000 steps of 1.8 s on 6 ranks, 4 to a node: 2 nodes · 0.5
# hours = 1.
#
# ### Predict
# Which number of ranks gives the cheapest epoch in strong scaling? A node of the default machine
# has 4 GPUs. Compute it from the times that your model foretold: one rank, 4 ranks or 32?

# %%
predict("80.3", cheapest_ranks=...)


# %% [markdown]
# ### Exercise 80.3 · What is lost, and what it costs
# Write `losses`, a dict of the three shares, and `node_hours`. About 5 lines, and 2.
# *(intermediate)*
#
# <details><summary>Hint 1: the step</summary>
#
# t is the sum of all three parts: `sum(parts.values())`. Every share is over t.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `ideal = alone / ranks if kind == "strong" else alone`, and slower is
# `(parts["compute"] - ideal) / t`. Nodes are `-(-ranks // per_node)`, rounded up as in the first
# exercise.
# </details>

# %%
def losses(kind, ranks, alone, parts):
    """Shares of a step. alone: s on one rank; parts: s of "compute", "wait", "communicate"."""
    raise NotImplementedError("exercise 80.3: What is lost, and what it costs")


def node_hours(seconds, ranks, per_node, steps):
    """Node-hours of `steps` steps of so many seconds; a node has room for per_node ranks."""
    raise NotImplementedError("exercise 80.3: What is lost, and what it costs")


# %%
# Asked: The example; weak scaling; computing that got faster; nodes that are
# full, or not quite.
check("80.3", losses, node_hours)

# %%
names = ("compute", "wait", "communicate")
efficiencies = {"strong": scaling.efficiency(strong), "weak": scaling.efficiency(weak, weak=True)}
for kind in ("strong", "weak"):
    first = study.runs[kind][min(study.runs[kind])]
    alone = sum(first[name] for name in names)
    for ranks, run in study.runs[kind].items():
        parts = {name: run[name] for name in names}
        lost = losses(kind, ranks, alone, parts)
        shares = ", ".join(f"{share:6.1%} {name}" for name, share in lost.items())
        per_node = -(-ranks // run["nodes"])  # so many ranks share a node in this run
        hours = node_hours(run["seconds"], ranks, per_node, epoch / run["images"])
        print(f"{kind:6} {ranks:3} ranks lose {shares}; an epoch: {hours:.3g} node-hours")
        times = ", ".join(f"{name} {1e3 * parts[name]:.1f}" for name in ("compute", "communicate"))
        print(f"{'':17} in ms: {times}; lost in all {sum(lost.values()):.1%}")
        print(f"{'':17} 1 - efficiency: {1 - efficiencies[kind][ranks]:.1%}")
figures = lab80.all_of(study)
predict.right("80.3", cheapest_ranks=figures["cheapest_strong"].value)

# %% [markdown]
# **Explain.** The three shares add up to 1 - efficiency, to within a percent: they are means of all
# steps, while the efficiency takes medians.
#
# What strong scaling loses here is nearly all sending. Waiting is a few percent at most. With
# `jitter = 0` it is nearly gone: it comes from the slowest of many, and your model knows no late
# ranks. One thing the virtual ranks do not know either: a real GPU takes longer for each image when
# it has few of them. `speed` is the same for every share here; on real GPUs `slower` would show it.
#
# With the seed as it is, `slower` is below 0 in strong scaling, on every number of ranks above one.
# Do virtual ranks compute faster in company? They cannot. One rank takes another time with each
# `seed`. This study's was slow by a percent, and it is the *baseline* of all the others. An unlucky
# baseline moves every efficiency. That is a reason to measure it with care.
#
# On the default machine a node has four GPUs. One rank alone pays for four and uses one. So a full
# node is the cheapest; beyond it each step comes sooner and each epoch costs more. On a laptop
# there is one node, and the cheapest run is the fastest one.
#
# Is the cheapest number of ranks the right one?
#
# <details><summary>Answer</summary>
#
# Not always. Somebody waits for the result, and people cost more than nodes. The report gives both,
# the cheapest and the soonest, and says which one it would take, and why.
# </details>
#
# ### Energy
# Node-hours are what a site bills. Energy is what it pays for. Two kinds of counters tell it, where
# they may be read:
#
# - **RAPL**, of processors: `/sys/class/powercap/intel-rapl:0/energy_uj`, in microjoules. Since
#   2020 only root may read it: power tells an observer secrets (CVE-2020-8694). A virtual machine
#   rarely has it.
# - **NVML**, of NVIDIA's GPUs since Volta, in millijoules.
#
# `labs/support/lab80/energy.py` reads both, on one rank of each node. Where it can read nothing,
# the report says so and holds no number. A zero would be a lie, and a guess from the data sheet one
# with digits.

# %%
lab80.print_figures(study, last)

# %% [markdown]
# ## 4. The report
# The cell above has printed the names that a report may hold, in curly brackets.
# `{efficiency_strong_8}` becomes the number, with a small link to its formula and records. `_most`
# stands for the largest number of ranks.
#
# **A number that you type yourself is refused.** It stays when you measure again, and nobody can
# tell where it came from. Counts that a record holds are fine: "on 4 ranks", "256 images". So are
# names, such as "ResNet-101" and "lab 50", if a record or the kit knows them.
#
# Also refused are:
#
# - numbers in words: "twice", "ninety percent";
# - a sign or a unit that changes a figure: `-{time_weak_4}`, `{time_weak_4} hours`;
# - runs of two machines or of two batches in one study: they cannot be compared;
# - two records of the same run: one might choose the better;
# - a record whose median is not the median of its own samples: somebody changed it.
#
# What the checker cannot see is whether a sentence is *true*. `{wait_strong_most}` may stand where
# sending is meant. For that there is a rubric, the last page of the report, and somebody who marks
# with it: 20 points for question, prediction, measurement, strong and weak, where the time goes,
# prediction against measurement, cost and limits.
#
# A report has ten sections. Four are written for you, in the next cell; they show how it goes, and
# you may change them.

# %%
given = {
    "Question": (
        """{question} It pays as long as the efficiency is at least {enough}. Whoever asks for
        nodes has to know where to stop, since a larger batch may train worse (lab 34)."""
    ),
    "Prediction": (
        """A step is computing, and then a ring that sums the gradients; nothing overlaps and
        nobody is late. By this model it pays up to {predicted_answer_strong}, and on {ranks_most} the
        efficiency is {predicted_efficiency_strong_most} in strong scaling and
        {predicted_efficiency_weak_most} in weak."""
    ),
    "Method": (
        """{method} In turns, so that a busy moment cannot spoil all runs of one number of ranks. Strong
        scaling shares out {images}; in weak scaling each rank has as many."""
    ),
    "Reference": (
        """{reference} Kurth and others kept {published_kurth} on {published_kurth_gpus}, and
        {published_kurth_p100} on {published_kurth_p100_gpus} of an older kind, weakly, with other nets on
        other machines; so only the order of size compares ({source_kurth})."""
    ),
}


# %% [markdown]
# ### Exercise 80.4 · Write it
# Return a dict with the other six sections: heading -> your text, in Markdown. Each has at least 12
# words of your own, and a name as in its row. Write plain strings, without an f before them: the
# checker fills the braces.
#
# | heading | holds |
# |---|---|
# | Strong scaling | the answer to the question, `{answer_strong}` |
# | Weak scaling | a time, speed-up, efficiency or answer, such as `{efficiency_weak_most}` |
# | Where the time goes | a part, such as `{communicate_strong_most}` |
# | Prediction against measurement | an error, such as `{error_strong_most}` |
# | Cost | node-hours, such as `{node_hours_strong_most}`, and `{energy}` |
# | Limits | no name is needed: what was not varied, not measured, or assumed |
#
# Tables and plots, such as `{table_strong}`, stand on lines of their own. Some 25 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: a section</summary>
#
# `"Weak scaling": "With the same work for each rank, {ranks_most} keep {efficiency_weak_most}. That is …",`
# </details>
# <details><summary>Hint 2: what the check says</summary>
#
# Begin with one section, and run the check: it lists what is missing, section by section, and names
# every number that it refuses, with the name that you may have meant.
# </details>

# %%
def own_words():
    """{heading: text} of the report."""
    raise NotImplementedError("exercise 80.4: Write it")


# %%
# Asked: All ten sections, every number by its name, nothing that no record
# supports.
check("80.4", own_words)

# %%
# The page, with all provenance. Open it in a browser; printed, it fits on A4.
sections = given | own_words()
lab80.publish(lab80.assemble("A scaling study", sections, study), study)

# %% [markdown]
# **Explain.** Open the page. Each number leads to a row with its formula, and from there to
# records: file and line, date, machine, revision, command. With these anybody can ask for the same
# number again.
#
# The text is `.labkit/report/report.md`. Edit it, if you like, and `make report` checks and renders
# it. The notebook's last cell writes it anew from your words; a file that you had edited is kept as
# `report-1.md`. After another measurement run section 4 again: the words stay, the numbers are new.
#
# Try to cheat: type "98 %" into a section, and run the check. Then change a digit of a step's
# `seconds` in the records (copy the file first: `.labkit/records/80_scaling_report.jsonl`), and run
# `make report`. Both are refused. Which other cheat would go through?
#
# <details><summary>Answer</summary>
#
# Whoever rewrites a record with all its samples and parts, consistently, is believed: the checker
# holds records against each other, not against the world. So is whoever measures ten times and
# reports the best study. The last page says how many other studies are on record. Against the rest
# only one thing helps: somebody else runs the command.
# </details>
#
# ## 5. Going further: reading, where deep learning and HPC meet
# Each paragraph names its source. Nothing in it was measured here.
#
# **Convergence.** Supercomputers train nets on simulations, and nets replace parts of simulations.
# Kurth and others (SC18, arxiv.org/abs/1810.01993) trained on climate data at 27,360 GPUs. Ben-Nun
# and Hoefler (arxiv.org/abs/1802.09941) survey what training took over from HPC: collectives,
# overlap, cost models.
#
# **How to report.** Hoefler and Belli (SC15, doi.org/10.1145/2807591.2807644) looked at 120 papers,
# and found the practice lacking: often one cannot tell progress from chance. They give twelve
# rules. The first asks authors to report what the base case of a speed-up is; you have met it in
# lab 50.
#
# **Benchmarks.** They answer different questions:
#
# | benchmark | what it times | source |
# |---|---|---|
# | MLPerf Training | hours until a stated quality | arxiv.org/abs/1910.01500 |
# | MLPerf HPC | the same, for climate, cosmology, catalysts | arxiv.org/abs/2110.11466 |
# | HPL-MxP, once HPL-AI | a linear system, by arithmetic of few bits | hpl-mxp.org |
# | Graph500 | edges visited in a second by a search | graph500.org |
#
# - **MLPerf Training** counts speed *and* learning: a batch from which the net learns nothing is no
#   gain.
# - **MLPerf HPC** has data sets of 5.1 TB (CosmoFlow) and 8.8 TB (DeepCAM), so storage counts. It
#   times one model on many nodes, which is strong scaling, and many models side by side, which is
#   weak.
# - **HPL-MxP** factors a matrix with 16 bits or more and refines the result to 64. It shows an
#   accelerator's matrix units. Of networks it says little.
# - **Graph500** sends small messages to everywhere. Nets on graphs do so, too; an allreduce does
#   not.
#
# **Open issues.** Large batches stop helping at a point that is known only roughly before: Shallue
# and others measured it for many nets (arxiv.org/abs/1811.03600). Energy is seldom reported;
# Strubell and others (arxiv.org/abs/1906.02243) asked for it. Strong scaling of training ends with
# the batch, which leaves cutting the net (labs 62 to 64). And a result on 10,000 GPUs can be
# repeated by nobody who has none: that is why its record must say so much.
#
# Which of the four benchmarks would show that a cluster's network is too slow for VGG-16?
#
# <details><summary>Answer</summary>
#
# MLPerf Training or HPC with such a net, and none of the others surely. HPL-MxP computes far more
# than it sends. Graph500 sends small messages: it would complain about latency, and VGG-16 needs
# bandwidth.
# </details>
#
# ### What you take away
# - A question has a rule that settles it, chosen before. A prediction is older than the
#   measurement.
# - Measure in turns (lab 01). Keep every sample.
# - What is lost goes to sending, waiting or slower computing: the three add up to 1 - efficiency.
# - The cheapest number of ranks and the soonest may be two numbers.
# - A number without a record is an opinion. Where nothing can be read, say so.
