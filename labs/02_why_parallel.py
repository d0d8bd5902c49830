# %% [markdown]
# <!-- Generated from solutions/02_why_parallel.py by `make labs`. Learners work on a copy in work/. -->
# # 02 Why parallel?
#
# Suppose you want to train a well-known neural network and have one GPU. Three questions decide
# whether you need more of them:
#
# - How long will the training take? If the answer is *years*, you need more devices.
# - Does it fit into the memory of the device? If it does not, you need more devices, too.
# - How much faster can a hundred devices be, at best, when they have to exchange their [gradients](../labs/GLOSSARY.md#gradient)
#   over a network after every step? This decides whether it is worth paying for them.
#
# In this lab we answer the three questions by counting the operations, the bytes and the messages
# of a training run, from the list of a network's layers. After each count we compare the number
# with a measurement, ours or a published one, because a count may leave out something that matters.
#
# **After this lab you can** (1) count the operations of a training run and convert them to days,
# (2) count the bytes that a training step needs and see what does not fit, and (3) derive an upper
# bound for the [speed-up](../labs/GLOSSARY.md#speed-up) of many devices.
#
# ![A batch of images goes into a device that computes the forward and the backward pass; the operations give the time, the parameters and activations give the memory, and the gradients give the message to other devices](../notebooks/figures/02_costs.svg)
#
# *The three costs of a training step. The operations determine the time, the parameters and the
# activations determine the memory, and the gradients are what devices have to exchange.*
#
# Needs: cpu, torch · Ranks: 1 · Minutes: 45 · Level: beginner · Before: 00

# %%
import numpy as np
import pandas
import torch
from labkit import check, hint, lab, nets, plots, predict, record, timing, world
from support import lab02

lab.start("02_why_parallel")

# %% tags=["parameters"]
images = 8  # images in the convolution that is timed
repeat = 15  # timed calls of it


# %% [markdown]
# ## 1. What does a training run cost?
# A neural network for images is a list of layers. Each layer has *parameters*, which are the
# numbers that are learned, and *activations*, which are the numbers that it passes to the next
# layer.
#
# The next cell prints the first layers of [VGG-16](https://arxiv.org/abs/1409.1556), for one image. The column
# `flops` counts the *floating-point operations* of each layer, and the last column counts its
# activations.

# %%
def layers(net):
    """The layers of a well-known network. flops as float: those of a training run do not fit into
    64-bit integers."""
    return nets.layer_table(net).astype({"flops": float})


vgg16 = layers("vgg16")
print(vgg16.head(6).to_string(index=False))
print(f"… {len(vgg16)} rows; parameters {vgg16.parameters.sum():,}, flops {vgg16.flops.sum():.4g}")


# %% [markdown]
# Most of the operations are in the `conv` layers. A **convolution** moves a small window, its
# *kernel*, over an image that has several numbers (*channels*) at each point.
#
# In the first row, the image enters with 3 channels and leaves with 64, and the kernel covers 3 by
# 3 points. Each of the 224 by 224 points therefore takes 3 · 64 · 3 · 3 multiplications and as many
# additions, which makes 2 · 3 · 64 · 3 · 3 · 224 · 224 = 173,408,256 operations. (Those of `relu`
# and `pool` are few in comparison, and we leave them out.)
#
# This was the **forward pass**, which computes the network's answer from the image. Training also
# needs the **backward pass**, which goes from the last layer to the first (in [lab 10](10_train_on_one_device.ipynb) you write it
# by hand). For each layer it computes how the [loss](../labs/GLOSSARY.md#loss), the error that training reduces, depends on
#
# - the layer's parameters;
# - the layer's input.
#
# Each of these two computations takes as many operations as the forward pass. Therefore **a
# training step takes three times the operations of the forward pass**, for each image. (The first
# layer's input needs no gradient. We count it all the same, which adds at most 4 % for the networks
# of this lab.)
#
# ### Exercise 02.1 · Count the operations of a training run
# `table` is a table of layers as above, for one image. How many operations does a training run take
# that uses `pictures` images in each of `epochs` epochs? (One *epoch* uses every image of the
# dataset once.) 1 line. *(beginner)*
#
# For example, a network with 10 operations in its forward pass takes 30 operations for each image,
# and 600 for 5 images in 4 epochs.
#
# <details><summary>Hint 1: a column's sum</summary>
#
# `table.flops.sum()` is the number of operations of the forward pass for one image.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# That sum, times 3, times the number of images that are used in the whole training run.
# </details>

# %%
def training_flops(table, pictures, epochs):
    """Floating-point operations of a whole training run. table: a pandas.DataFrame with a column
    flops."""
    raise NotImplementedError("exercise 02.1: Count the operations of a training run")


# %%
# Asked: The operations of two training runs.
check("02.1", training_flops)

# %% [markdown]
# ### Is that how others count?
# In 2018 OpenAI counted the operations of well-known training runs. Their unit is the
# **petaflop/s-day**: 10¹⁵ operations per second for one day. The next cell counts two of these runs
# with your function, using 1.2 million images as OpenAI did. (Their dataset, ImageNet, has 1.28
# million.)
#
# In the plot a ring marks your counts among the published ones. Its vertical axis is logarithmic,
# so each line stands for ten times the value of the line below.

# %%
own = {}
for name, net, epochs in (("AlexNet", "alexnet", 90), ("VGG-16", "vgg16", 74)):
    flops = training_flops(layers(net), 1_200_000, epochs)
    own[name] = flops / lab02.PETAFLOP_DAY
    (published,) = [cost for cost in lab02.COSTS if cost.net == name]
    print(f"{name:<9} yours {own[name]:.4f}   published {published.days:.4f} petaflop/s-days")
lab02.draw_costs(lab02.COSTS, own)

# %% [markdown]
# **Explain.** Your counts agree with the published ones within 5 %.
#
# From the first to the last run of the plot, the operations grew much more than the *peak* of one
# GPU, the most operations per second that it can perform.
#
# | | AlexNet (2012) | [GPT-3](https://arxiv.org/abs/2005.14165) (2020) | factor |
# |---|---|---|---|
# | petaflop/s-days of the run, published | 0.0054 | 3,640 | about 670,000 |
# | peak of one GPU, in teraflop/s | 1.6 (GTX 580) | 125 (V100, 16-bit numbers) | about 80 |
#
# If both runs reached a similar share of the peak, a factor of 670,000 / 80, more than 8,000,
# remains. It came from **more GPUs**, which also ran for longer.
#
# ## 2. How many days is that?
# ### Predict
# GPT-3 took 3,640 petaflop/s-days. Assume that one H100, a GPU of 2022, computes 0.4 petaflop/s in
# training, which is 40 % of its peak with 16-bit numbers. How many years would a single H100 need?

# %%
predict("02.1", years=...)  # a number

# %%
predict.right("02.1", years=3640 / 0.4 / 365.25)

# %% [markdown]
# **Explain.** An H100 needs 1 / 0.4 = 2.5 days for a petaflop/s-day, so 3,640 of them take 9,100
# days, or 25 years.
#
# ### Measure
# How fast does *this* machine compute? We time the forward and backward passes of two typical
# convolutions on images of 56 by 56 points, and divide their number of operations by the time. The
# first has a 3 by 3 kernel and 64 channels, the second a 1 by 1 kernel and 128 channels. This takes
# a few seconds.

# %%
device = world.device()


def time_convolution(channels, kernel):
    """Operations of the forward and backward pass with `images` images, and the Measurement of
    their time."""
    layer = torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2).to(device)
    # The backward pass has to compute the gradient of the input, too, as between two layers.
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
# Next we compute how many days a training run of 90 epochs takes, with 1.28 million images each.
# Each row of the printed table is a network, and these are the columns:
#
# | column | computed from |
# |---|---|
# | this machine | your count and the higher of the two measured rates |
# | one P100, a GPU of 2016 | published rates; at 219 images/s, for example, ResNet-50 takes 6.09 days |
# | a hundred P100, at best | a hundredth of the column before |

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
shown = days.map(np.format_float_positional, precision=3, fractional=False, trim="-")
print("Days of training:", shown, sep="\n")


# %% [markdown]
# **Explain.** Divide the first column by 365 to get years. It is optimistic, because networks also
# contain layers that compute more slowly than the faster of our two. Section 4 asks how much of the
# last column's speed-up is possible.
#
# Does the number of operations predict the number of days? In the column of the P100, compare
# VGG-16 with AlexNet, which takes 1/22 of its operations, and with ResNet-50, which takes 1/3.8.
#
# <details><summary>Answer</summary>
#
# It does for AlexNet, which takes 1/19 of the days, but not for ResNet-50, which takes 1/1.4 of the
# days. Two reasons are likely, neither of them measured here.
#
# - VGG-16 is faster than our count allows: its 154 images/s would be 14 teraflop/s, while a P100's
#   peak is 10.6. For 3 by 3 kernels NVIDIA's library cuDNN can use Winograd's method, which needs
#   fewer multiplications.
# - ResNet-50 is slower, because it has many small layers that move numbers rather than compute with
#   them (labs [12](12_find_the_bottleneck.ipynb) and [14](14_mixed_precision_and_memory.ipynb)).
# </details>
#
# ## 3. Does it fit?
# A training run keeps the numbers of the table below in memory, each with 32 bits, or 4 bytes. The
# *optimizer* updates the parameters. We use Adam, a common one, which keeps an average of each
# gradient and an average of its square. A *batch* is the set of images that one step uses.
#
# | what | how many numbers |
# |---|---|
# | the parameters | one for each parameter |
# | their gradients, which the backward pass computes | one for each parameter |
# | Adam's two averages, the state of the optimizer | two for each parameter |
# | the activations, which the backward pass needs | **at most** one for each activation of **each** image |
#
# Only the activations grow with the batch. The sum is an upper bound, because a framework does not
# keep a result that the backward pass does not need.
#
# ### Exercise 02.2 · Count the bytes
# `table` is a table of layers, for one image. How many bytes does a training step with Adam keep at
# most, if it uses `batch` images? A batch of 0 has no activations. 2 lines. *(beginner)*
#
# For example, 10 parameters and their gradients (without Adam's averages) take 80 bytes, whatever
# the batch is. For 5 activations per image, a batch of 2 takes 40 bytes.
#
# <details><summary>Hint 1: which depend on the batch?</summary>
#
# Only the activations do, since twice as many images have twice as many activations. There is only
# one copy of the parameters.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `4 * (4 * table.parameters.sum() + … * table.activations.sum())`
# </details>

# %%
def training_bytes(table, batch):
    """The most bytes that a step with Adam keeps. table: a DataFrame of parameters and
    activations."""
    raise NotImplementedError("exercise 02.2: Count the bytes")


# %%
# Asked: The bytes for two tables, and batches of 0 to 256 images.
check("02.2", training_bytes)

# %% [markdown]
# ### Measure: does PyTorch keep 16 bytes for each parameter?
# We take one step with Adam in a small network, and then ask every tensor for its size in bytes.

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
# **Explain.** You should see 16 bytes for each parameter, which is the sum of the first three rows
# of the table above exercise 02.2. For its last row, the activations, `lab02.kept` asks PyTorch for
# every tensor that it keeps for the backward pass, apart from the parameters.

# %%
kept = {batch: lab02.kept(net, torch.rand(batch, 1000)) for batch in (1, 8, 64)}
for batch, size in kept.items():
    print(f"batch of {batch:>2}: {size:>7} bytes, {size / batch:.0f} for each image")

# %% [markdown]
# **Explain.** Each image takes 6,000 bytes, whatever the batch is: 1,000 inputs and 500 results of
# the ReLU, with 4 bytes each. PyTorch does not keep what entered the ReLU, because the ReLU's
# backward pass needs only its result.
#
# Your count would give 4,040 bytes, because it leaves out the network's input, which PyTorch keeps
# here. For networks of images the input is small compared with the activations.

# %% [markdown]
# Now we can list which networks do not fit. In the next table, each row is a network and each
# column is a batch size.

# %%
rows = []
for net_name in ("alexnet", "resnet50", "vgg16"):
    table = layers(net_name)
    rows.append(
        {"net": net_name}
        | {f"batch of {batch}": training_bytes(table, batch) / 1e9 for batch in (1, 32, 256)}
    )
print("Gigabytes (a P100 has 16):", pandas.DataFrame(rows).set_index("net").round(1), sep="\n")
gpt3 = pandas.DataFrame({"parameters": [175_000_000_000], "flops": [0.0], "activations": [0]})
print(f"GPT-3, without any activation: {training_bytes(gpt3, 0) / 1e9:,.0f} GB; an H100 has 80 GB")


# %% [markdown]
# **Explain.** The bytes in this table are an upper bound of what a step *keeps*. Of the activations
# of ResNet-50 and VGG-16 PyTorch keeps about 60 %, as the authors of this kit measured with
# `lab02.kept`. Even with 60 %, neither of the two fits into a P100 with a batch of 256. (While the
# step runs, it also needs memory for intermediate results and for the libraries, which our count
# leaves out.)
#
# With a batch of 32 both fit. Convolutional networks fit if the batch is small enough, because
# their *activations* fill the memory. It therefore helps at once to give each device a small batch,
# which is **data parallelism** (labs [30](30_average_gradients.ipynb) to [46](46_three_libraries.ipynb)).
#
# GPT-3 does not fit even without an input, because its parameters, gradients and averages alone
# fill 35 GPUs with 80 GB each. Then the *model* has to be partitioned:
#
# - by layers (**model parallelism** and **pipeline parallelism**);
# - by matrices (**tensor parallelism**);
# - by the numbers of the optimizer (**sharding**).
#
# [Lab 14](14_mixed_precision_and_memory.ipynb) shows how to free memory on one device before you use a second one.
#
# ## 4. What could a hundred devices give, at best?
# In data parallelism every device keeps a whole copy of the model and its own batch, as large as if
# it were alone, so p devices use p times as many images in a step.
#
# Before they update the parameters, the devices average their gradients, so that all of them have
# the same model again. The message for this average has as many values as the model has parameters.
# (If the devices shared one batch, each would compute less, but the message would stay as long.)
#
# Suppose that each device has its own *node*, which is a computer with one network interface card
# (NIC), and that the devices themselves add the gradients. Then each device sends most of its
# gradients once, so that they can be added, and most of the sum once, so that all devices get it.
#
# With the best methods each of p NICs sends 2 (p − 1) / p times the bytes of the gradients, and no
# method lets the busiest NIC send less ([lab 23](23_ring_allreduce.ipynb) shows such a method, and what changes if switches
# add). For example, with four devices and gradients of 100 MB, each NIC sends 2 · 3 / 4 · 100 = 150
# MB.
#
# The NIC can send while the backward pass is still computing the gradients of earlier layers ([lab 32](32_buckets_and_overlap.ipynb)). **At best**, a step therefore takes as long as the computation or the communication,
# whichever is *longer*. If computing takes 0.5 s and communication takes 1 s, for example, four
# devices need 1 s for four times the images. One device needs 0.5 s for its images, so the speed-up
# is at most 2.
#
# ### Exercise 02.3 · An upper bound
# At best, how many times the [throughput](../labs/GLOSSARY.md#throughput) of one device, in images per second, do `devices` devices
# reach? One device alone does not communicate. 3 lines. *(intermediate)*
#
# - `compute`: the seconds that one device computes in a step;
# - `gradient`: the bytes of its gradients;
# - `link`: the bytes per second of a node's NIC.
#
# <details><summary>Hint 1: the communication</summary>
#
# `exchange = 2 * (devices - 1) / devices * gradient / link` is its time in seconds.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# A step on all devices takes `max(compute, exchange)` and processes `devices` times as many images
# as one device processes in `compute` seconds.
# </details>

# %%
def best_speedup(devices, compute, gradient, link):
    """Upper bound of the speed-up in images per second. compute: seconds. gradient: bytes. link:
    bytes per second."""
    raise NotImplementedError("exercise 02.3: An upper bound")


# %%
# Asked: The bound where computation takes longer, and where communication does.
check("02.3", best_speedup)

# %% [markdown]
# ### The bound, and what was reached
# The next cell draws your bound for 64 GPUs with 64 images per step on each, and for NICs from 1 to
# 100 Gb/s (a byte has 8 bits). The ideal, 100 %, is a speed-up of 64.
#
# The points are published results for NICs with 40 Gb/s, so nothing in this plot is measured here.
# In those runs four GPUs shared a NIC, while your bound gives each GPU its own. This changes the
# bound by at most 5 %, provided that the four GPUs first add up their gradients among themselves.

# %%
speeds = np.geomspace(1, 100, 201)  # Gb/s
bounds = {}
reached = {}
for net_name, (together, alone) in lab02.SCALED.items():
    gradient = 4 * layers(net_name).parameters.sum()
    most = [best_speedup(64, 64 / alone, gradient, speed * 1e9 / 8) for speed in speeds]
    bounds[f"{net_name}, at best"] = speeds, [100 * times / 64 for times in most]
    percent = 100 * together / alone / 64
    reached[f"{net_name}, reached: {percent:.0f} %"] = [40], [percent]
axes = {"xlabel": "Gb/s of a node's NIC", "ylabel": "% of the ideal", "logx": True}
title = "What the NICs allow at best, and what was reached"
plots.lines(bounds | reached, **axes, title=title, name="bounds")

# %% [markdown]
# **Explain.** Each curve has a knee. To the left of the knee the communication takes longer than
# the computation, and the GPUs wait for the network. VGG-16 has 553 MB of gradients, so with NICs
# of 10 Gb/s the 64 GPUs do about half of the work that they could, however well the program is
# written. Inception v3 has a sixth of these bytes, and 10 Gb/s is enough for it.
#
# At 40 Gb/s all three networks are to the right of their knees, so the bound allows them the full
# speed-up. Nevertheless VGG-16 reached only 64 % of the ideal, and the two networks with fewer
# bytes reached 83 % (Inception v3) and 89 % (ResNet-101). The bound leaves out that
#
# - communication cannot begin before the first gradient has been computed;
# - messages have a [latency](../labs/GLOSSARY.md#latency);
# - a processor has to add and copy the values.
#
# Most of this kit is about this difference.
#
# ### Scale-up and scale-out
# There are two ways to get a hundred devices. **Scale-up** adds more or faster devices where the
# fast links are: NVLink connects eight GPUs in a DGX H100, and 72 in a rack of GB200 NVL72.
# **Scale-out** connects more nodes by a network, which is slower but has no such limit. Your bound
# limits scale-out first, because its network is the slower one.
#
# <details><summary>Sources of the published numbers</summary>
#
# - *Costs of training runs*: Amodei and Hernandez, "AI and Compute" (OpenAI, 2018, appendix), which
#   rounds the number of operations per image; for GPT-3 Brown et al. (2020), table D.1.
# - *Peaks*, from NVIDIA's data sheets: 1.6 teraflop/s for the GTX 580 (AlexNet), 125 for the V100
#   (GPT-3), 10.6 for the P100 with NVLink (that of a DGX-1) with 32-bit numbers.
# - *Images per second of a P100*: TensorFlow's page "Benchmarks", May 2017, synthetic images; 512
#   images per step for AlexNet and 64 for the others. *Winograd's method*: Lavin and Gray, arXiv
#   1509.09308.
# - *64 GPUs*: [Horovod's README of 2017](https://github.com/horovod/horovod/blob/d54e3a88/README.md), Pascal GPUs, [NCCL](../labs/GLOSSARY.md#NCCL).
# </details>
#
# ### What you take away
# - A training run takes three times the operations of the forward pass, for each image and epoch.
#   Divided by a measured rate, this number gives the time in seconds.
# - Activations grow with the batch, while parameters, gradients and Adam's averages take 16 bytes
#   for each parameter.
# - Scale-up ends where the fast links end. Scale-out continues beyond that, over a network that has
#   to transfer the gradients.
# - At best, many devices are as fast as the longer of computation and communication allows. [Lab 30](30_average_gradients.ipynb)
#   begins with the communication, and [lab 50](50_strong_and_weak_scaling.ipynb) measures what is lost.
#
# ## Going further (optional): half a page of history, and applications (5 minutes)
# The table shows how the number of GPUs grew in six years.
#
# | year | training run | time | GPUs |
# |---|---|---|---|
# | 2012 | [AlexNet](https://doi.org/10.1145/3065386), which wins the ImageNet contest | 5 to 6 days | 2 gaming GPUs, each with half of the network |
# | 2017 | ResNet-50, by [Facebook](https://arxiv.org/abs/1706.02677) | 1 hour | 256 P100 |
# | 2018 | ResNet-50, by [Sony](https://arxiv.org/abs/1811.05233) | 224 seconds | 2,176 V100 |
# | 2018 | a network that finds [storms in climate models](https://arxiv.org/abs/1810.01993) | (a study of scaling) | up to 27,360, of the supercomputer Summit |
#
# Distributed training is used for image and speech recognition, translation, language models and
# science. The costs of this lab tell what an application demands from a cluster. What is large in
# autonomous driving, in medical imaging, and in generating images: the data, a single sample, or
# the work?
#
# <details><summary>Answer</summary>
#
# | application | what is large | what it demands from a cluster |
# |---|---|---|
# | autonomous driving | the data: 1 to 5 TB per hour from a car | storage and input for petabytes ([lab 15](15_input_pipeline.ipynb)) |
# | medical imaging | a sample: 1 GiB for a scan of a lung | memory: recomputation, partitioned models (labs [14](14_mixed_precision_and_memory.ipynb) and [62](62_model_parallel.ipynb)) |
# | generating images | the work: 150,000 GPU hours for Stable Diffusion, on 256 A100 | hundreds of GPUs for weeks; checkpoints ([lab 70](70_checkpoint_and_requeue.ipynb)) |
#
# Sources: Grzywaczewski, "Training AI for Self-Driving Vehicles" (NVIDIA, 2017); NetApp, "How to
# build a data pipeline for autonomous driving"; TorchIO's documentation, "Patch-based pipelines";
# Stable Diffusion v1's model card.
# </details>
#
# ### Further reading
# - T. Ben-Nun and T. Hoefler, *[Demystifying Parallel and Distributed Deep Learning: An In-Depth Concurrency Analysis](https://arxiv.org/abs/1802.09941)*, ACM Computing Surveys 52(4), 2019. A survey of the forms of parallelism that the next labs introduce one by one.
# - P. Goyal et al., *[Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour](https://arxiv.org/abs/1706.02677)*, 2017. How 256 GPUs trained ResNet-50 in an hour without losing accuracy.
# - J. Kaplan et al., *[Scaling Laws for Neural Language Models](https://arxiv.org/abs/2001.08361)*, 2020. How the loss of language models depends on parameters, data and computation.
# - P. Mattson et al., *[MLPerf Training Benchmark](https://arxiv.org/abs/1910.01500)*, MLSys, 2020. MLPerf, the benchmark in which vendors compare their training times today.
