# %% [markdown]
# <!-- Generated from solutions/02_why_parallel.py by `make labs`. Learners work on a copy in work/. -->
# # 02 Why parallel?
#
# From a list of a net's layers you compute how long one device would train it, whether the training
# fits into its memory, and what a hundred devices could give at best.
#
# **You will be able to** (1) count the operations of a training, and turn them into days, (2) count
# the bytes that a training needs, and see what does not fit, (3) give an upper bound for many
# devices.
#
# Needs: cpu, torch · Ranks: 1 · Minutes: 40 · Level: beginner · Before: 00

# %%
import numpy as np
import pandas
import torch
from labkit import check, hint, lab, nets, plots, predict, record, timing, world
from support import lab02

lab.start("02_why_parallel")

# %% tags=["parameters"]
images = 8  # pictures in the convolution that is timed
repeat = 15  # timed calls of it


# %% [markdown]
# ## 1. What does a training cost?
# A net for pictures is a list of layers. Each has *parameters*, the numbers that are learned, and
# *activations*, the numbers that it hands to the next layer. Here are the first layers of VGG-16,
# for one picture:

# %%
def layers(net):
    """The layers of a well-known net. flops as float: those of a training do not fit into 64-bit
    integers."""
    return nets.layer_table(net).astype({"flops": float})


vgg16 = layers("vgg16")
print(vgg16.head(6).to_string(index=False))
print(f"… {len(vgg16)} rows; parameters {vgg16.parameters.sum():,}, flops {vgg16.flops.sum():.4g}")


# %% [markdown]
# The column `flops` holds *floating-point operations* of the way forward: from the picture to the
# net's answer. A multiplication and an addition count as two.
#
# Training also goes back through the net ([lab 10](10_train_on_one_device.ipynb) does it by hand). The way back computes two things
# in each layer: how the error depends on the layer's parameters, and how it depends on the layer's
# input. Each of these takes as many operations as the way forward. (Only the first layer's input,
# the picture, needs none; we leave that out.) So **a training step takes three times the operations
# of the way forward**, for each picture.
#
# One *epoch* shows every picture of the data set once.
#
# ### Exercise 02.1 · Count the operations of a training
# `table` is a table of layers as above, for one picture. How many operations does a training take
# that shows `pictures` pictures in each of `epochs` epochs? 1 line. *(beginner)*
#
# <details><summary>Hint 1: a column's sum</summary>
#
# `table.flops.sum()` is the number of operations of one picture on its way forward.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# That sum, times 3, times how many pictures are shown in the whole training.
# </details>

# %%
def training_flops(table, pictures, epochs):
    """Floating-point operations of a whole training. table: a pandas.DataFrame with a column
    flops."""
    raise NotImplementedError("exercise 02.1: Count the operations of a training")


# %%
# Asked: The operations of three trainings.
check("02.1", training_flops)

# %% [markdown]
# ### Is that how others count?
# In 2018 OpenAI counted the trainings of well-known nets. Their unit is the **petaflop/s-day**:
# 10¹⁵ operations in each second of a day. Two of their nets are among our tables. Their data set,
# ImageNet, has 1.28 million pictures; they count 1.2 million.

# %%
own = {}
for name, net, epochs in (("AlexNet", "alexnet", 90), ("VGG-16", "vgg16", 74)):
    flops = training_flops(layers(net), 1_200_000, epochs)
    own[name] = flops / lab02.PETAFLOP_DAY
    (published,) = [cost for cost in lab02.COSTS if cost.net == name]
    print(f"{name:<9} yours {own[name]:.4f}   published {published.days:.4f} petaflop/s-days")
lab02.draw_costs(lab02.COSTS, own)

# %% [markdown]
# **Explain.** Your counts are within 5 % of the published ones. (They rounded the operations of a
# picture.)
#
# The axis is logarithmic: each line is ten times the one below. From AlexNet to GPT-3, in eight
# years, the dearest training grew some 670,000 times. One GPU's peak grew about 80 times in these
# years: from 1.6 teraflop/s (GTX 580, AlexNet's) to 125 (V100, GPT-3's, in 16 bits). The rest came
# from **more GPUs**, for longer.
#
# *Sources: the points until 2016 are from Amodei and Hernandez, "AI and Compute" (OpenAI, 2018,
# appendix); GPT-3 is from Brown and others (2020), table D.1; the peaks are NVIDIA's, from the data
# sheets.*
#
# ## 2. How many days is that?
# ### Predict
# GPT-3 took 3,640 petaflop/s-days. Say that one H100, a GPU of 2022, computes 0.4 petaflop/s in
# training, which is 40 % of its peak in 16 bits. How many years would it need alone?

# %%
predict("02.2", years=...)  # a number

# %%
predict.right("02.2", years=3640 / 0.4 / 365.25)

# %% [markdown]
# **Explain.** 3,640 / 0.4 are 9,100 days, or 25 years. One GPU is not enough, however patient its
# owner.
#
# ### Measure
# How fast does *this* machine compute? Such nets are mostly convolutions. We time the way forward
# and back of two typical ones, and divide their operations by the time. For each picture and each
# of its 56 by 56 points, a convolution of k by k takes channels · channels · k · k multiplications
# and as many additions. About 10 s.

# %%
device = world.device()


def time_convolution(channels, kernel):
    """Operations of the way forward and back with `images` pictures, and the Measurement of their
    time."""
    layer = torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2).to(device)
    # The way back is to compute the gradient of the input, too, as between two layers.
    entering = torch.rand(images, channels, 56, 56, device=device, requires_grad=True)

    def forward_and_back():
        layer.zero_grad()
        layer(entering).sum().backward()

    operations = 3 * 2 * channels**2 * kernel**2 * 56 * 56 * images
    return operations, timing.measure(forward_and_back, repeat=repeat, device=device)


rates = {}  # operations per second
for channels, kernel in ((64, 3), (128, 1)):
    operations, took = time_convolution(channels, kernel)
    name = f"{kernel} by {kernel}, {channels} channels"
    rates[name] = operations / took.median
    record.add("convolution", seconds=took, flops=operations, layer=name, device=device)
    print(f"{name}: {took}: {rates[name] / 1e9:.0f} billion operations per second, on {device}")
rate = max(rates.values())

# %% [markdown]
# Now the days of a training of 90 epochs, 1.28 million pictures each: on this machine by your count
# and the better of the two rates, and on one P100, a GPU of 2016, by the images per second that
# were published for it.

# %%
pictures_shown = 90 * 1_281_167
rows = []
for net, images_per_second in lab02.P100.items():
    flops = training_flops(layers(net), 1_281_167, 90)
    rows.append(
        {
            "net": net,
            "this machine": flops / rate / 86_400,
            "one P100": pictures_shown / images_per_second / 86_400,
            "a hundred P100, at best": pictures_shown / images_per_second / 86_400 / 100,
        }
    )
days = pandas.DataFrame(rows).set_index("net")
print("Days of training:", days.map("{:.3g}".format), sep="\n")


# %% [markdown]
# **Explain.** The first column is what this machine would need alone. Divide it by 365 for years.
# It is too good: the rate is the better one of two layers, and nets have other layers, which
# compute worse. (The two rates above show how much layers differ.)
#
# The P100's days are from measured trainings, though on made-up pictures, which nobody had to read
# from a disk. The last column only divides them by a hundred. Section 4 asks what of that can be
# had.
#
# Do operations predict days? Compare VGG-16 with AlexNet (22 times fewer operations; timed with 512
# pictures a step, the others with 64) and with ResNet-50 (3.8 times fewer) in the P100's column.
# <details><summary>Answer</summary> AlexNet takes 19 times fewer days, so the operations predict that well.
# ResNet-50 takes only 1.4 times fewer, for two likely reasons, neither measured here. Nearly all of
# VGG-16's operations are convolutions of 3 by 3, which NVIDIA's library cuDNN can compute by
# Winograd's method, with up to four times fewer multiplications than we count. By our count VGG-16
# therefore runs at 135 % of the P100's peak of 10.6 teraflop/s, and ResNet-50 at 51 %. And
# ResNet-50 has many small layers between its convolutions, which move numbers rather than compute
# with them. Labs [12](12_find_the_bottleneck.ipynb) and [14](14_mixed_precision_and_memory.ipynb) are about that.</details>
#
# *Sources: TensorFlow's page "Benchmarks", May 2017, synthetic images, one GPU of a DGX-1; Lavin
# and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308.*
#
# ## 3. Does it fit?
# A training holds in memory, in 32-bit numbers of 4 bytes:
#
# | what | numbers |
# |---|---|
# | the parameters | one for each parameter |
# | their gradients: what the way back computes | one for each parameter |
# | the optimizer's own: Adam keeps averages of each gradient and of its square | two for each parameter |
# | the activations, which the way back needs | **at most** one for each activation of **each** picture |
#
# Only *at most*, because a result that the way back does not need is not kept. So what you compute
# now is an upper bound.
#
# ### Exercise 02.2 · Count the bytes
# `table` is a table of layers, for one picture. How many bytes does a training with Adam hold at
# most, if a step shows `batch` pictures? 2 lines. *(beginner)*
#
# <details><summary>Hint 1: which depend on the batch?</summary>
#
# Only the activations: twice as many pictures, twice as many of them. The parameters are there
# once.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `4 * (4 * table.parameters.sum() + … * table.activations.sum())`
# </details>

# %%
def training_bytes(table, batch):
    """The most bytes that a step with Adam holds. table: a DataFrame of parameters and
    activations."""
    raise NotImplementedError("exercise 02.2: Count the bytes")


# %%
# Asked: The bytes for two tables, and batches of 1 to 256 pictures.
check("02.2", training_bytes)

# %% [markdown]
# ### Measure: does PyTorch hold 16 bytes for each parameter?
# A small net, one step with Adam, and then we ask every tensor for its bytes.

# %%
net = torch.nn.Sequential(torch.nn.Linear(1000, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10))
optimizer = torch.optim.Adam(net.parameters())
net(torch.rand(4, 1000)).sum().backward()
optimizer.step()
parameters = sum(weights.numel() for weights in net.parameters())
held = {
    "parameters": sum(weights.nbytes for weights in net.parameters()),
    "gradients": sum(weights.grad.nbytes for weights in net.parameters()),
    "Adam's averages": sum(
        state[average].nbytes
        for state in optimizer.state.values()
        for average in ("exp_avg", "exp_avg_sq")
    ),
}
for what, size in held.items():
    print(f"{what:<16} {size / parameters:.2f} bytes for each parameter")
record.add("bytes", parameters=parameters, held=sum(held.values()))
print(f"{'together':<16} {sum(held.values()) / parameters:.2f}")

# %% [markdown]
# And the activations? `lab02.kept` asks PyTorch for every tensor that it keeps for the way back,
# apart from the parameters, for batches of 1, 8 and 64 pictures.

# %%
kept = {batch: lab02.kept(net, torch.rand(batch, 1000)) for batch in (1, 8, 64)}
for batch, size in kept.items():
    print(f"{batch:>2} pictures: {size:>7} bytes, {size / batch:.0f} for each picture")

# %% [markdown]
# **Explain.** 16 bytes for each parameter, and activations in proportion to the batch.

# %% [markdown]
# And what does not fit?

# %%
rows = []
for net_name in ("alexnet", "resnet50", "vgg16"):
    table = layers(net_name)
    rows.append(
        {"net": net_name}
        | {f"{batch} pictures": training_bytes(table, batch) / 1e9 for batch in (1, 32, 256)}
    )
print("Gigabytes (a P100 has 16):", pandas.DataFrame(rows).set_index("net").round(1), sep="\n")
gpt3 = pandas.DataFrame({"parameters": [175_000_000_000], "flops": [0.0], "activations": [0]})
print(f"GPT-3, without any activation: {training_bytes(gpt3, 0) / 1e9:,.0f} GB; an H100 has 80 GB")


# %% [markdown]
# **Explain.** The activations in this table are an upper bound. Of ResNet-50's, PyTorch keeps 57 %
# (86 of 150 MB a picture), and of VGG-16's 64 %, as the kit's authors measured with `lab02.kept`. A
# ReLU, for example, may write its result over its input, because its way back needs only the
# result.
#
# Convolutional nets fit, if the batch is small enough: it is the *activations* that fill the
# memory. Giving each device a small batch helps at once, and that is **data parallelism** (labs [30](30_average_gradients.ipynb)
# to [46](46_three_libraries.ipynb)).
#
# GPT-3 does not fit even without a picture: its parameters, gradients and averages alone fill 35
# GPUs of 80 GB. Then the *net* must be shared out: its layers (**model** and **pipeline
# parallelism**), its matrices (**tensor parallelism**), or the optimizer's numbers (**sharding**).
#
# What frees memory on one device, before any second one: [lab 14](14_mixed_precision_and_memory.ipynb).
#
# ## 4. What could a hundred devices give, at best?
# In data parallelism every device keeps a batch of its own, as large as if it were alone: p devices
# show p times the pictures in a step. Then they average their gradients, so that all have the same
# net again. That is a message as long as the net's parameters.
#
# Two directions lead to a hundred devices. **Scale-up** puts more of them, or faster ones, where
# the fast links are: NVLink joins eight GPUs in a DGX H100, and 72 in a rack of GB200 NVL72.
# **Scale-out** joins more nodes by a network, and has no such end. Networks are slower than NVLink,
# so scale-out is where the exchange of gradients hurts, and it is what we bound now.
#
# Devices stand in *nodes*, computers with one network card each. Unless the switches add up the
# gradients themselves (as those with NVIDIA's SHARP do), each card has to send about 2 (p - 1) / p
# times these bytes among p devices (lab 23 shows why). It may do so while the way back still
# computes the gradients of earlier layers (lab 32). So, **at best**, a step takes as long as the
# *longer* of the two: computing, or exchanging.
#
# ### Exercise 02.3 · An upper bound
# `compute` is the seconds that one device computes in a step, `gradient` the bytes of its
# gradients, `link` the bytes per second of a node's network card. How many times as many pictures
# per second as one device do `devices` devices give, at best? One device alone exchanges nothing. 3
# lines. *(intermediate)*
#
# <details><summary>Hint 1: the exchange</summary>
#
# `exchange = 2 * (devices - 1) / devices * gradient / link` is its time in seconds.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# A step of all takes `max(compute, exchange)` and shows `devices` times the pictures that one
# device shows in `compute` seconds.
# </details>

# %%
def best_speedup(devices, compute, gradient, link):
    """Upper bound of pictures per second, as times those of one device. compute in s, gradient in
    bytes."""
    raise NotImplementedError("exercise 02.3: An upper bound")


# %%
# Asked: The bound where computing takes longer, and where the exchange does.
check("02.3", best_speedup)

# %% [markdown]
# ### The bound, and what was reached
# 64 GPUs, 64 pictures a step on each, and cards from 1 to 100 Gb/s (a byte has 8 bits). The points
# are what was published for cards of 40 Gb/s: nothing is measured here.

# %%
speeds = np.geomspace(1, 100, 41)  # Gb/s
bounds = {}
reached = {}
for net_name, (together, alone) in lab02.SCALED.items():
    gradient = 4 * layers(net_name).parameters.sum()
    most = [best_speedup(64, 64 / alone, gradient, speed * 1e9 / 8) for speed in speeds]
    bounds[f"{net_name}, at best"] = speeds, [100 * times / 64 for times in most]
    percent = 100 * together / alone / 64
    reached[f"{net_name}, reached: {percent:.0f} %"] = [40], [percent]
axes = {"xlabel": "Gb/s of a node's card", "ylabel": "% of the ideal", "logx": True}
title = "What the cards allow at best, and what was reached"
plots.lines(bounds | reached, **axes, title=title, name="bounds")

# %% [markdown]
# **Explain.** Each curve has a knee. Left of it the exchange takes longer than the computing, and
# more GPUs wait for the network. VGG-16 has 553 MB of gradients: with cards of 10 Gb/s 64 GPUs do
# about half of the work that they could, however well it is programmed. Inception v3 has a sixth of
# these bytes, and 10 Gb/s serve it well.
#
# At 40 Gb/s all three nets are right of their knees: the bound says that nothing need be lost. And
# yet VGG-16 reached 64 % of the ideal, and the two with fewer bytes 83 % (Inception v3) and 89 %
# (ResNet-101).
#
# That is what a bound leaves out. The exchange cannot begin before the first gradient is there,
# messages have a latency, and somebody has to add and copy. Most of this kit is about that gap.
# (The formula also counts each GPU as a node. In those servers four GPUs share a card: if they
# first sum among themselves, the card sends 1.88 times the bytes instead of 1.97, so the true bound
# is 5 % higher where the exchange is longer.)
#
# *Source: Horovod's README of 2017 (commit d54e3a88): Pascal GPUs, 4 a server, NCCL.*
#
# ## Half a page of history
# In 2012 **AlexNet** won the ImageNet contest after five to six days on two gaming GPUs. Each held
# half of the net, since it did not fit into one. In 2017 **Facebook** trained ResNet-50 in an hour
# on 256 P100. In 2018 **Tencent** took 6.6 minutes on 2,048 P40, and **Sony** 224 seconds on 2,176
# V100. In 2020 **GPT-3** took the 3,640 petaflop/s-days above.
#
# Who needs it? Whoever would wait weeks for an answer: recognising pictures and speech,
# translating, language models, and science. In 2018 a net that finds storms in climate models was
# scaled to 27,360 GPUs of **Summit**. What is large in an application decides what it demands from
# a cluster:
#
# | application | what is large | what it demands from a cluster |
# |---|---|---|
# | autonomous driving | the data: 1 to 5 TB an hour from a car | storage and input for petabytes (lab 15) |
# | medical imaging | a sample: 1 GiB for a scan of a lung | memory: recomputing, nets cut up (labs 14, 62) |
# | generating images | the work: 150,000 hours of a GPU | hundreds of GPUs for weeks; checkpoints (lab 70) |
#
# A CT scan of 512 · 512 · 1,069 points leaves room for only one or two in a batch, so it is often
# cut into patches. The 150,000 hours are those of Stable Diffusion, trained by data parallelism: a
# step had 2,048 images on 256 A100, and its 860 million parameters make 3.4 GB of gradients that
# all of them exchange.
#
# *Sources: Krizhevsky and others 2012; Goyal and others, arXiv 1706.02677; Jia and others, arXiv
# 1807.11205; Mikami and others, arXiv 1811.05233; Kurth and others, arXiv 1810.01993. Of the table:
# Grzywaczewski, "Training AI for Self-Driving Vehicles" (NVIDIA, 2017), and NetApp, "How to build a
# data pipeline for autonomous driving"; TorchIO's documentation, "Patch-based pipelines"; Stable
# Diffusion v1's model card.*
#
# ### What you take away
# - Training counts as three times the operations of the way forward, for each picture and epoch;
#   divided by a measured rate that is seconds.
# - Activations grow with the batch; parameters, gradients and Adam's averages take 16 bytes a
#   parameter.
# - Scale-up ends where the fast links end. Scale-out goes on, over a network that has to carry the
#   gradients.
# - Many devices give at best what the longer of computing and exchanging allows. Lab 30 begins with
#   the exchange; lab 50 measures what is lost.
