# %% [markdown]
# # 80 Scaling report
#
# A scaling study ends with a report, which other people use to decide whether a project gets more
# GPU hours, or which cluster to buy. In many reports, the reader cannot find out where a number
# came from, or whether it was chosen because it looked good. A good report answers a question that
# was asked before the measurement, compares the result with a prediction, and lets every reader
# trace each number to its measurement.
#
# In this lab we plan, measure and write such a report for data-parallel training. We ask a
# question, predict the answer with a model, and measure it on the virtual cluster or on real ranks.
# Then we find out where time was lost and what it costs. Finally we write a text in which every
# number refers to its **record**, a stored prediction, measurement or citation. `make report`
# refuses a result without a record.
#
# **After this lab you can** (1) ask a question that a measurement can answer, (2) order the runs so
# that a busy moment of the machine cannot spoil all runs on one number of ranks, (3) say where the
# lost time went and what it costs, and (4) write only statements that your records support.
#
# ![A study as a chain: question with its rule, prediction, measurement in rounds, records, report; every number in the report points back to its record](80_study.svg)
#
# *A scaling study. The question and the prediction come before the measurement, and every number in
# the report refers to its records. (The 44.5 % is an example.)*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 75 · Level: advanced · Before: 01, 23, 50

# %%
from labkit import check, hint, lab, plots, predict, scaling
from support import lab80

lab.start("80_scaling_report")

# %% tags=["parameters"]
question = "Up to how many ranks does it pay to share one fixed batch?"
enough = 0.7  # your rule: from this efficiency on it pays
where = "virtual"  # or "here": real ranks of this machine, or of the batch job that runs this
machine = "roce25_p100"  # of the virtual cluster; virtual.machines() lists them
net = "resnet101"  # on virtual ranks: the network whose gradients are summed
# its images a second on one "Pascal" GPU alone (Horovod's README, 2017); a P100, we assume
speed = 119.4
jitter = 0.02  # by how much a virtual rank's step varies, as a share of it: an assumption
seed = 1  # of that jitter: with another seed, other ranks are late
images = 256  # of the whole job (strong scaling), of each rank (weak); for real ranks take 32
most = 32  # ranks at most; real ones: as many as there are cores, or ranks of the job
rounds = 3  # how often everything is run, in turns
steps = 6  # timed steps of each run
epoch = 1281167  # images of an epoch, for the cost: ImageNet's training set

# %% [markdown]
# ## 1. A question, and an answer before measuring
# "How does it scale?" is not a question that a measurement can answer. A question that it can
# answer names what varies, what stays the same, and the **rule** that decides. We choose the rule
# before anything is measured, because afterwards it is tempting to call any result good enough.
#
# Our question asks up to how many ranks it pays to share one batch. The number of ranks varies, and
# the batch stays the same. Our rule says that sharing pays as long as the efficiency (lab 50) is at
# least `enough`. You can change `enough` in the parameters, and the rest of the lab follows.
#
# By default, all runs use the virtual cluster, a simulator, so 32 GPUs cost nothing. The same cells
# can measure real ranks, as an optional part at the end shows. The next cell prints what is known
# before the study.

# %%
setup = lab80.begin(where, machine, net, speed, images, most)
print(setup)

# %% [markdown]
# With the default parameters, the line says:
#
# | in the line | default | name in the next exercise |
# |---|---|---|
# | time of an image on one rank: one second divided by `speed` | 8.38 ms | `per_image` |
# | size of the gradients | 178.20 MB | `nbytes` |
# | cost of a *message* on the slowest link, whatever its size | 5 µs | `latency` |
# | bandwidth of the slowest link | 2.90 GB/s | `beta`, the cost of a *byte*: one over the bandwidth |
#
# The simplest model of a step has two parts. First each rank computes its own images:
#
# - In strong scaling, the ranks share `images`. If the number of images is not divisible by the
#   number of ranks, all ranks wait for those that have one more image, so a share is
#   `images / ranks`, **rounded up**.
# - In weak scaling, each rank has all of `images`.
#
# Then a ring performs the allreduce of the gradients (lab 23). This takes
# `scaling.costs.ring_allreduce_time(nbytes, ranks, latency, beta)` seconds. In this model
# computation and communication do not overlap, and no rank is ever late.
#
# For example, take 10 images on 4 ranks, 2 ms per image, and a ring of 5 ms. A step takes
# 3 · 2 + 5 = 11 ms in strong scaling, and 10 · 2 + 5 = 25 ms in weak scaling.
#
# ### Exercise 80.1 · Predict a step
# Write `predict_step`, which predicts the time of a step by this model. About 4 lines. *(beginner)*
#
# <details><summary>Hint 1: rounding up</summary>
#
# `-(-images // ranks)` is the share, rounded up: `//` rounds down, and the two minus signs reverse
# the direction.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `own = images if kind == "weak" else -(-images // ranks)`, and the result is `own * per_image`
# plus the ring.
# </details>


# %%
def predict_step(kind, ranks, images, per_image, nbytes, latency, beta):
    """Seconds of a step on `ranks` ranks. kind: "strong" or "weak"; per_image: seconds of an
    image."""
    ### BEGIN SOLUTION
    own = images if kind == "weak" else -(-images // ranks)
    return own * per_image + scaling.costs.ring_allreduce_time(nbytes, ranks, latency, beta)
    ### END SOLUTION


# %%
check("80.1", predict_step)

# %% [markdown]
# ### Predict
# The next cell prints the time t(p) of a step on p ranks that your function predicts, for every
# run. From these times you can compute efficiencies. In the example above, t(1) is 20 ms, because
# one rank computes all 10 images and needs no ring:
#
# | | efficiency on p ranks | in the example, on 4 ranks |
# |---|---|---|
# | strong scaling | t(1) / (p · t(p)) | 20 / (4 · 11) = 45 % |
# | weak scaling | t(1) / t(p) | 20 / 25 = 80 % |
#
# Predict three numbers:
#
# - `pays_up_to`, the answer to our question: the largest number of ranks on which the efficiency in
#   strong scaling is at least `enough`;
# - `efficiency_strong` and `efficiency_weak`, as fractions of 1, at the largest number of ranks.
#
# Take the values of the model, or others if you think that it leaves something out.

# %%
predicted = {}
for kind in ("strong", "weak"):
    for ranks in setup.counts:
        latency, beta = setup.link(ranks)
        predicted[kind, ranks] = predict_step(
            kind, ranks, images, setup.per_image, setup.nbytes, latency, beta
        )
        print(f"{kind:6} {ranks:3} ranks: {1e3 * predicted[kind, ranks]:8.1f} ms a step, predicted")

# %%
predict("80.1", pays_up_to=...)  # so many ranks
predict("80.1", efficiency_strong=..., efficiency_weak=...)  # at the largest number of ranks

# %% [markdown]
# The next cell stores your function's predictions, each as a record with the time of day. The
# checker of the report can then see that the predictions are older than the first measurement.

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
print(f"Study {notes.name}")

# %% [markdown]
# ### Numbers from a paper
# A number that you have read somewhere becomes a record, too, with a source instead of a machine.
# For comparison we cite the efficiencies that Kurth et al. report for weak scaling on two
# supercomputers, and not only the higher one.

# %%
kurth = "Kurth and others, SC18, https://arxiv.org/abs/1810.01993"
notes.cite("kurth", 90.7, "%", kurth)
notes.cite("kurth_gpus", 27360, "GPUs", kurth)
notes.cite("kurth_p100", 79.0, "%", kurth)
notes.cite("kurth_p100_gpus", 5300, "GPUs", kurth)

# %% [markdown]
# ## 2. Measure
# The speed of a machine varies, because another program may run for a while, or the clock rate may
# drop. If all runs of "8 ranks" happen during that time, 8 ranks look bad. Therefore everything is
# run in **rounds**, each of which runs every configuration once.
#
# The place in a round can matter, too. For example, the very first run is often slow, because the
# caches are still cold. Therefore the list of configurations is rotated by one in each round, so
# that no configuration is always the first. In as many rounds as there are configurations, each
# configuration takes each place once:
#
#     round 0:   A B C
#     round 1:   B C A
#     round 2:   C A B
#
# ### Exercise 80.2 · Plan the runs
# `configurations` is a list such as `[("strong", 1), ("strong", 2), ("weak", 1)]`. Write `plan`,
# which returns one list of all runs in order, round after round:
#
# - Do not change the list that you are given.
# - With more rounds than configurations, the rotation starts again.
# - The opposite rotation, `C A B` in round 1, is as fair, and is accepted, too.
#
# About 4 lines. *(beginner)*
#
# <details><summary>Hint 1: rotating a list</summary>
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
    ### BEGIN SOLUTION
    order = []
    for number in range(rounds):
        k = number % len(configurations)
        order += configurations[k:] + configurations[:k]
    return order
    ### END SOLUTION


# %%
check("80.2", plan)

# %% [markdown]
# ### Measure
# The next cell runs your plan, which takes a few seconds. For each configuration, it prints the
# median time of a step and whether the times were steady, and stores them with every sample in a
# record.

# %%
notes.measure(plan(notes.configurations(), rounds))

# %%
study = notes.study()
weak = {ranks: run["samples"] for ranks, run in study.runs["weak"].items()}
strong = {ranks: run["samples"] for ranks, run in study.runs["strong"].items()}
plots.efficiency(strong, title="Strong: the ranks share the work, and the efficiency falls")
plots.efficiency(weak, weak=True, title="Weak: each rank keeps its work and most of its efficiency")
last = max(strong)
predict.compare(
    "80.1",
    pays_up_to=lab80.all_of(study)["answer_strong"].value,
    efficiency_strong=scaling.efficiency(strong)[last],
    efficiency_weak=scaling.efficiency(weak, weak=True)[last],
)

# %% [markdown]
# **Explain.** With the default parameters, you should see these efficiencies in strong scaling:
#
# | ranks | 4 | 8 | 16 |
# |---|---|---|---|
# | efficiency | 96 % | 72 % | 54 % |
#
# With `enough` at 70 %, the answer to our question is therefore 8 ranks.
#
# A node has 4 GPUs, so on 8 ranks the ring has to use the slower network between nodes, and takes
# about four times as long as on 4. Beyond 8 ranks the ring takes only slightly longer, but the time
# to compute is halved each time that the number of ranks doubles.
#
# Weak scaling has the same ring, but its efficiency stays above 90 %, because each rank computes
# for two seconds before it sends.
#
# The virtual ranks are a **model**, too. It is more complete than yours, because messages contend
# for ports and ranks can be late. If your prediction agrees with it, this only shows that two
# models agree.
#
# ## 3. Where the time went, and what it costs
# A step lasts from the end of one allreduce to the end of the next, so its three parts,
# computation, waiting and communication, add up to its time t.
#
# If a step on one rank takes the time `alone`, the ideal time on more ranks is `alone / ranks` in
# strong scaling, and `alone` in weak scaling. The efficiency is the ideal time divided by t. The
# lost part, 1 − efficiency, has the three causes in the table below.
#
# For example, one rank alone takes 40 ms, so in strong scaling 4 ranks ideally take 10 ms. We
# measure 11 ms of computation, 2 ms of waiting and 3 ms of communication, so t is 16 ms:
#
# | share of the step lost to | seconds, divided by t | in the example |
# |---|---|---|
# | `communicate` | the allreduce itself | 3/16 |
# | `wait` | waiting in the allreduce for the last rank | 2/16 |
# | `slower` | computation, minus the ideal time | (11 − 10)/16 = 1/16 |
# | together: 1 − efficiency | | 6/16 |
#
# The efficiency is 10/16. Computation can also be *faster* than ideal, and then `slower` is
# negative.
#
# The cost of time is given in **node-hours**, which are nodes times hours. You pay for a whole node
# even if you use only some of its GPUs. For example, 1,000 steps of 1.8 s on 6 ranks with 4 per
# node cost 2 nodes · 0.5 hours = 1 node-hour.
#
# ### Predict
# Which number of ranks gives the cheapest epoch in strong scaling: 1, 4 or 32? Compute it from the
# times that your model predicted, with 4 GPUs per node. An epoch has equally many steps in all
# three cases.

# %%
predict("80.3", cheapest_ranks=...)

# %% [markdown]
# ### Exercise 80.3 · What is lost, and what it costs
# Write two functions. *(intermediate)*
#
# - `losses` returns a dictionary of the three shares, with the keys `"communicate"`, `"wait"` and
#   `"slower"`. About 5 lines.
# - `node_hours` returns the cost of the steps in node-hours. About 2 lines.
#
# <details><summary>Hint 1: the step</summary>
#
# t is the sum of all three parts: `sum(parts.values())`. Every share is divided by t.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `ideal = alone / ranks if kind == "strong" else alone`, and slower is
# `(parts["compute"] - ideal) / t`. The number of nodes is `-(-ranks // per_node)`, rounded up as in
# the first exercise.
# </details>


# %%
def losses(kind, ranks, alone, parts):
    """Shares of a step. alone: s on one rank; parts: s of "compute", "wait", "communicate"."""
    ### BEGIN SOLUTION
    step = sum(parts.values())
    ideal = alone / ranks if kind == "strong" else alone
    lost = {name: parts[name] / step for name in ("communicate", "wait")}
    return lost | {"slower": (parts["compute"] - ideal) / step}
    ### END SOLUTION


def node_hours(seconds, ranks, per_node, steps):
    """Node-hours of so many steps, perhaps with a fraction of one, that take `seconds` each; a node
    has room for per_node ranks."""
    ### BEGIN SOLUTION
    nodes = -(-ranks // per_node)
    return nodes * seconds * steps / 3600
    ### END SOLUTION


# %%
check("80.3", losses, node_hours)

# %% [markdown]
# The next cell applies your functions to the study, and prints a row for each number of ranks. The
# column `together` is the sum of your three shares, and `1 - eff.` comes from the measured
# efficiency, so these two should agree within a percent.

# %%
names = ("compute", "wait", "communicate")
efficiencies = {"strong": scaling.efficiency(strong), "weak": scaling.efficiency(weak, weak=True)}
for kind in ("strong", "weak"):
    first = study.runs[kind][min(study.runs[kind])]
    alone = sum(first[name] for name in names)
    print(f"{kind:>6} |     ms of a step     |   shares of the step that are lost")
    heads = "communicate  wait  slower  together | 1 - eff. | node-hours"
    print(" ranks | compute  communicate |", heads)
    for ranks, run in study.runs[kind].items():
        parts = {name: run[name] for name in names}
        lost = losses(kind, ranks, alone, parts)
        per_node = -(-ranks // run["nodes"])  # so many ranks share a node in this run
        hours = node_hours(run["seconds"], ranks, per_node, epoch / run["images"])
        print(
            f"{ranks:6} | {1e3 * parts['compute']:7.1f}  {1e3 * parts['communicate']:11.1f} |"
            f" {lost['communicate']:11.1%} {lost['wait']:5.1%} {lost['slower']:7.1%}"
            f" {sum(lost.values()):9.1%} | {1 - efficiencies[kind][ranks]:8.1%} | {hours:10.3g}"
        )
figures = lab80.all_of(study)
predict.right("80.3", cheapest_ranks=figures["cheapest_strong"].value)

# %% [markdown]
# **Explain.** With the default parameters, the cheapest number of ranks is 4, because a single rank
# pays for the four GPUs of its node and uses one. With more nodes, each step finishes earlier and
# each epoch costs more.
#
# Is the cheapest number of ranks the right one?
#
# <details><summary>Answer</summary>
#
# Not always. People wait for the result, and they cost more than nodes. The report gives both the
# cheapest and the fastest configuration, and says which one it recommends, and why.
# </details>
#
# The rows also show where the time was lost, for example for 32 ranks in strong scaling:
#
# | `communicate` | `wait` | `slower` | `together` | `1 - eff.` |
# |---|---|---|---|---|
# | 62.9 % | 1.6 % | −0.4 % | 64.1 % | 63.9 % |
#
# The last two differ because the efficiency uses medians, while the shares are means of all steps.
#
# In strong scaling, nearly all lost time is communication, and most of it appears from 8 ranks on.
#
# In weak scaling, waiting for the slowest of many ranks matters, too, with 3.4 % of the step on 32
# ranks. Your model has no late ranks, which is why it predicted a higher efficiency of weak scaling
# than was measured. With `jitter = 0` the waiting nearly disappears.
#
# The column `slower` is negative in strong scaling because the jitter, with this seed, slowed down
# the run of the single rank by one percent. On 32 ranks computation is about a third of the step,
# so one percent of it makes roughly the −0.4 % above.
#
# The run of the single rank is the **baseline**, with which all other runs are compared. An unlucky
# baseline changes every efficiency, so measure it with care. In the kit's reference, which is the
# same study with seed 80, the single rank was a little fast, and `slower` is slightly above zero in
# strong scaling.
#
# The virtual ranks do not model that a real GPU takes longer for each image if it has only a few of
# them. On real GPUs `slower` can therefore be positive.
#
# ### Energy
# Sites bill node-hours, but they themselves pay for energy. On real ranks, the study reads the
# energy counters of CPUs and GPUs. Virtual ranks have no counter. If a counter cannot be read, the
# report says so and contains no number. A zero would be false, and so would a guess from the data
# sheet.
#
# ## 4. The report
# You write every result in the report as a name in curly brackets. For example, you type
# `{ranks_most} reach {efficiency_strong_most}`, and the page shows "32 ranks³ reach 36.1 %⁴". Each
# small number is a link to the value's formula and records.
#
# **A result that you type yourself is refused**, because its origin could not be found, and it
# would stay the same when you measure again. You can type counts of the study. Examples:
#
# | in your text | what the checker says |
# |---|---|
# | `32 ranks reach 36.1 %` | refused: no record supports the 36.1 % that you typed |
# | `twice as fast`, `half of`, `a quarter`, `five times` | refused: these are numbers, too, in words |
# | `{ranks_most} ranks` | refused: the page would show "32 ranks ranks" |
# | `on 4 ranks`, `256 images`, `ResNet-101` | accepted: a record has these counts and this name |
# | `one fixed batch`, `the two curves` | accepted: a small number in words, without a unit |
#
# The next cell prints the names with their values. Most names consist of a quantity, `strong` or
# `weak`, and a number of ranks. Of these, the cell shows the names for the largest number, such as
# `{time_weak_32}`. You can also write `{time_weak_4}` for 4 ranks, or `{time_weak_most}` for the
# largest number.
#
# The name `{energy}` becomes a sentence about the energy counters, as explained under *Energy*. The
# last line lists the names of whole tables and plots, such as `{table_strong}`.

# %%
lab80.print_figures(study, last)

# %% [markdown]
# The checker cannot see whether a sentence is *true*. For example, it accepts `{wait_strong_most}`
# in a sentence about communication. Therefore another person reads the report, too. The last page
# of the report has a rubric of 20 points for this reader.
#
# <details><summary>What else the checker refuses</summary>
#
# - a sign or a unit that changes a value, such as `-{time_weak_4}` or `{time_weak_4} hours`;
# - runs on two machines or with two batches in one study, because they cannot be compared;
# - two records of the same run, because one could choose the better one;
# - a record whose median is not the median of its own samples, because it was changed.
# </details>
#
# A report has ten sections. Five of them are written in the next cell as examples, and you can
# change them. Read at least `"Weak scaling"`, a whole section of results with a table and a plot.

# %%
given = {
    "Question": (
        """{question} It pays as long as the efficiency is at least {enough}. Anyone who
        asks for nodes has to know where to stop, since a larger batch may train worse (lab 34)."""
    ),
    "Prediction": (
        """In our model a step is computation, followed by a ring that sums the gradients. Nothing
        overlaps, and no rank is late. By this model it pays up to {predicted_answer_strong}, and on
        {ranks_most} the efficiency is {predicted_efficiency_strong_most} in strong scaling and
        {predicted_efficiency_weak_most} in weak scaling."""
    ),
    "Method": (
        """{method} Because the runs take turns, a busy moment cannot spoil all runs of one number of
        ranks. In strong scaling the ranks share {images}, and in weak scaling each rank has as many."""
    ),
    "Weak scaling": (
        """With the same work for each rank, {ranks_most} keep an efficiency of
        {efficiency_weak_most}. Their step takes {time_weak_most}, for a batch that grows with the ranks.

        {table_weak}

        {plot_weak}"""
    ),
    "Reference": (
        """{reference} In weak scaling, Kurth and others kept {published_kurth} on
        {published_kurth_gpus}, and {published_kurth_p100} on {published_kurth_p100_gpus} of an older kind.
        Their networks and machines differ from ours, so only the order of magnitude can be compared
        ({source_kurth})."""
    ),
}

# %% [markdown]
# ### Exercise 80.4 · Write it
# Return a dictionary that maps the headings of the other five sections to your text in Markdown, in
# the form of `"Weak scaling"` above. About 20 lines. *(intermediate)*
#
# - Each text has at least 12 words besides the names in brackets.
# - Each text contains a name of the kind that its row in the table shows.
# - Put tables and plots, such as `{table_strong}`, on separate lines.
# - Write plain strings without an f before them, because the checker fills in the values.
#
# | heading | contains |
# |---|---|
# | Strong scaling | the answer to the question, `{answer_strong}` |
# | Where the time goes | a part, such as `{communicate_strong_most}` |
# | Prediction against measurement | an error, such as `{error_strong_most}`; below zero, the step took longer than predicted |
# | Cost | node-hours, such as `{node_hours_strong_most}`, and `{energy}` |
# | Limits | no name is needed: what was not varied, not measured, or assumed |
#
# <details><summary>Hint 1: a section</summary>
#
#     "Strong scaling": """By our rule it pays up to {answer_strong}. On {ranks_most}, the
#         efficiency is {efficiency_strong_most}, because …""",
# </details>
# <details><summary>Hint 2: the messages of the check</summary>
#
# Begin with one section and run the check. It lists the missing parts, section by section, and
# names every number that it refuses, together with the name that you may have meant.
# </details>


# %%
def own_words():
    """{heading: text} of the report."""
    ### BEGIN SOLUTION
    return {
        "Strong scaling": (
            """It pays up to {answer_strong}. On {ranks_most} a step takes
            {time_strong_most}, which is {speedup_strong_most} as fast as on one rank: an efficiency of
            {efficiency_strong_most}.

            {table_strong}

            {plot_strong}"""
        ),
        "Where the time goes": (
            """Of a step on {ranks_most}, in strong scaling, {communicate_strong_most} is
            sending and {wait_strong_most} is waiting for the rank that came last. Slower computing takes
            {slower_strong_most}.

            {table_parts}"""
        ),
        "Prediction against measurement": (
            """On {ranks_most} the predicted step is off by {error_strong_most}
            in strong scaling, and by {error_weak_most} in weak. The model knows no late ranks. A run with a
            larger jitter would show whether that explains the difference."""
        ),
        "Cost": (
            """An epoch of {epoch} costs {node_hours_strong_most} on {ranks_most}. The cheapest is
            {cheapest_strong}, the soonest {soonest_strong}. While nobody waits for the result we would take
            the cheapest. {energy}

            {table_cost}"""
        ),
        "Limits": """One net, one size of batch, one way to sum. Nothing overlaps here, though real libraries
            hide a part of the sum behind the computing (lab 32). Input and accuracy were not measured.""",
    }
    ### END SOLUTION


# %%
check("80.4", own_words)

# %%
# The page, with all provenance. Open it in a browser; printed, it fits on A4.
sections = given | own_words()
lab80.publish(lab80.assemble("A scaling study", sections, study), study)

# %% [markdown]
# **Explain.** Open the page, whose path in the kit's folder is printed by the last cell. Each
# number leads to a row with its formula, and from there to records with file and line, date,
# machine, revision and command. With this information another person can measure the same number
# again.
#
# The text is in `.labkit/report/report.md`. You can edit it, and `make report` checks and renders
# it. After another measurement, run section 4 again. The words stay, and the numbers are new. (The
# last cell keeps a file that you have edited as `report-1.md`.)
#
# ### What you take away
# - A question needs a rule that decides it. Choose the rule and write down the prediction before
#   the measurement.
# - Let the runs that you compare take turns (lab 01), and keep every sample.
# - The lost time goes to communication, waiting or slower computation, and the three shares add up
#   to 1 − efficiency.
# - The cheapest and the fastest number of ranks can be different.
# - A number without a record is an opinion. If a value cannot be read, say so.
#
# ## Going further (optional): try to cheat
# This part takes about 6 more minutes. Try two ways of cheating, which are both refused:
#
# - Type "98 %" into a section, and run the check.
# - Copy the file `.labkit/records/80_scaling_report.jsonl`, change a digit of a step's `seconds` in
#   it, and run `make report`. Then put the copy back.
#
# Which other way of cheating would work?
#
# <details><summary>Answer</summary>
#
# If you rewrite a record with all its samples and parts consistently, the checker believes it,
# because it compares records with each other and not with the world. It also cannot prevent you
# from measuring ten times and reporting the best study, but the last page says how many other
# studies are on record. The complete remedy is that another person runs the command.
# </details>
#
# ## Going further (optional): real ranks and energy
# This part takes about 4 more minutes. These commands run the same study on real ranks:
#
# | ranks | command |
# |---|---|
# | this machine's cores | `make run LAB=80 SET="where=here images=32"` |
# | a tabletop or a cluster | `make submit LAB=80 NODES=2 SET="where=here images=32" WAIT=1` |
#
# On two cores the plots have two points, which can be anything from bad to better than ideal. A
# laptop has one node, so its cheapest run is also its fastest. If the lines of section 2 say "do
# not quote", repeat the study when the machine is less busy, because the report marks such numbers.
#
# Two kinds of counters measure energy, **RAPL** (Running Average Power Limit) for CPUs, which only
# root may read on Linux since 2020, and **NVML** (NVIDIA Management Library) for NVIDIA's GPUs
# since Volta. The study reads both on one rank of each node.
#
# ## Going further (optional): where deep learning and HPC meet
# This part takes about 2 more minutes. Nothing in it was measured here.
#
# **Convergence.** Supercomputers train networks on simulations, as [Kurth et al.](@kurth2018) did
# with climate data on 27,360 GPUs. In return, deep learning has adopted collectives, overlap and
# cost models from high-performance computing (HPC), which [Ben-Nun and Hoefler](@bennun2019)
# survey.
#
# **Benchmarks.** Different benchmarks answer different questions:
#
# | benchmark | what it times | what to know |
# |---|---|---|
# | MLPerf Training ([Mattson et al.](@mattson2020)) | hours until a stated quality | a batch from which the network learns nothing is no gain |
# | MLPerf HPC ([Farrell et al.](@farrell2021)) | the same, for climate, cosmology and catalysts | datasets of up to 8.8 TB, so storage matters |
# | HPL-MxP (hpl-mxp.org) | a linear system, factored in low precision and refined to 64 bits | it shows the matrix units of an accelerator, and little of the network |
# | Graph500 (graph500.org) | edges visited per second by a search | it sends small messages to all nodes, which an allreduce does not |
#
# **Open issues.** Large batches stop helping at a point that is known only roughly in advance,
# which [Shallue et al.](@shallue2019) measured for many networks. Beyond that point, the model has
# to be partitioned (labs 62 to 64). Energy is rarely reported, although [Strubell et
# al.](@strubell2019) asked for it.
#
# ### Further reading
# - [@hoefler2015] Twelve rules for reporting performance, with examples of bad practice.
# - [@kurth2018] A scaling study on the largest machine of its time, with prediction, analysis of
#   the lost time, and limits.
# - [@mattson2020] How a benchmark decides what counts as the same work.
