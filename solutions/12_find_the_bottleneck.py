# %% [markdown]
# # 12 Find the bottleneck
#
# A training step that wastes time on one device wastes it a hundred times on a hundred devices, so
# it should be fast on a single device first. A measured time alone does not show whether it is. A
# layer that takes 5 ms may be as fast as this machine allows, or ten times slower than necessary.
# To judge the time we have to know how fast the layer could be.
#
# In this lab we find out for each layer of a network how fast it could be on this machine, and what
# limits it. We count the arithmetic and the memory traffic of a layer, measure the two speeds of
# the machine that limit them, and combine both in the *roofline model*. We then read the profile of
# a training step that is correct but slow, find its bottleneck, and remove it. An optional part
# (about 5 minutes more) shows what a compiler can save.
#
# **After this lab you can** (1) count the floating-point operations and the bytes of a layer, (2)
# measure the peak arithmetic rate and the memory bandwidth of a machine, (3) compute the least time
# that a layer can take, and (4) find the bottleneck of a training step in a profile.
#
# ![The roofline: attainable speed rises with arithmetic intensity up to the ridge and is flat beyond it. Layers left of the ridge are memory-bound, layers right of it compute-bound](12_roofline.svg)
#
# *The roofline model. The thick line, the roof, is the highest speed that the machine allows, and
# the ridge is where it becomes flat. Left of the ridge the memory bandwidth limits a layer, and
# right of it the peak arithmetic rate does. A and C are as fast as the model allows, while B, which
# is below the roof, could be faster.*
#
# Needs: torch · Ranks: 1 · Minutes: 75 · Level: intermediate · Before: 01, 10

# %%
import shutil
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, hint, lab, plots, predict, profiling, record, timing, world
from support import lab12

lab.start("12_find_the_bottleneck")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"

# %% tags=["parameters"]
threads = 0  # of PyTorch on the CPU; 0: as many as this process has cores
rows = (
    2048  # rows and columns of the matrices whose product is the peak; on a GPU four times as many
)
megabytes = 256  # size of each array that is copied: take far more than your caches hold
side = 4096  # inputs and outputs of the linear layer, as in AlexNet and VGG-16: weights of 67 MB
pictures = 4096  # images in the data set of 12.4, in CIFAR-10's shape
batch = 32  # images per training step there
seconds = 2  # spent on each measurement, about
compiled = True  # also try torch.compile at the end, which takes about 20 s

# %%
torch.set_num_threads(threads or world.cores())
torch.backends.cudnn.allow_tf32 = False  # on a GPU: convolutions in float32, too, not with 19 bits
print(
    f"{device}; PyTorch uses {torch.get_num_threads()} of this process's {world.cores()} CPU cores"
)
print("instructions of the CPU that PyTorch uses:", torch.backends.cpu.get_cpu_capability())

# %% [markdown]
# ## What a layer computes and what it moves
# Three numbers describe the work of a layer:
#
# - Its **flops** are its floating-point operations. A multiply-add counts as two of them.
# - Its **bytes** are the size of all numbers that it reads from memory or writes there.
# - Its **arithmetic intensity** is the number of flops divided by the number of bytes.
#
# For example, a linear layer with 3 input features and 2 output features has 3 · 2 = 6 weights.
# With one image, in float32 (4 bytes per number), its numbers are:
#
# | | what is counted | |
# |---|---|---|
# | flops | 6 multiply-adds | 12 flops |
# | bytes | 3 inputs and 6 weights are read, 2 results are written | 11 · 4 = 44 bytes |
# | intensity | flops divided by bytes | 12/44 = 0.27 flops per byte |
#
# ### Predict
# A linear layer with 4,096 input and output features has 16.8 million float32 weights of 4 bytes
# each. What is its intensity, in flops per byte, with one image, and with 128 images? (With one
# image, nearly all bytes that are moved are weights.)

# %%
predict("12.1", one_image=0.5, many_images=60)  # flops per byte

# %% [markdown]
# ### Exercise 12.1 · Flops and bytes
# Write `linear_cost` and `conv_cost`, which return the flops and the bytes of one forward pass of a
# layer without a bias. 2 and 5 lines. *(beginner)*
#
# Count the *least* number of bytes that is possible, with `size` bytes per number:
#
# - The images and the weights are read once, and the result is written once.
# - Zeros that are added as padding are not read from memory, so they do not count.
#
# A **linear layer** does one multiply-add for each weight and image.
#
# A **convolution** moves a small window over each image. At each position of the window, each of
# its filters multiplies the numbers in the window by weights and adds the products to one number of
# the result:
#
# | parameter | meaning |
# |---|---|
# | `channels`, `height`, `width` | an image has `height x width` pixels with `channels` numbers each |
# | `kernel` | the window has `kernel x kernel` pixels |
# | `filters` | number of filters, each with `channels x kernel x kernel` weights |
# | `padding` | rows and columns of zeros that are added on each side of the image |
# | `stride` | number of pixels by which the window moves |
#
# The number of multiply-adds follows from these parameters:
#
# - `rows = (height + 2 * padding - kernel) // stride + 1`, and `columns` follows in the same way
#   from `width`;
# - positions = rows · columns;
# - multiply-adds = images · positions · weights of all filters.
#
# For example, take one image of 32 x 32 pixels with 3 channels, and 8 filters with a 3 x 3 window,
# stride 1 and padding 1:
#
# | | |
# |---|---|
# | rows, and also columns | (32 + 2 − 3) + 1 = 32 |
# | weights | 8 · 3 · 3 · 3 = 216 |
# | multiply-adds | 32 · 32 · 216 = 221,184 |
# | flops | 2 · 221,184 = 442,368 |
#
# <details><summary>Hint 1: a linear layer</summary>
#
# Three arrays are moved: the images, `batch x inputs`, the weights, `inputs x outputs`, and the
# result, `batch x outputs`.
# </details>
# <details><summary>Hint 2: a convolution, nearly the answer</summary>
#
# `weights = filters * channels * kernel**2`, and the flops are
# `2 * batch * rows * columns * weights`. The images consist of `batch * channels * height * width`
# numbers, and the result consists of `batch * filters * rows * columns`.
# </details>


# %%
def linear_cost(batch, inputs, outputs, size):
    """(flops, least bytes) of a linear layer's forward pass; size: bytes of a number."""
    ### BEGIN SOLUTION
    flops = 2 * batch * inputs * outputs
    return flops, size * (batch * inputs + inputs * outputs + batch * outputs)
    ### END SOLUTION


def conv_cost(batch, channels, height, width, filters, kernel, stride, padding, size):
    """(flops, least bytes) of a convolution's forward pass; size: bytes of a number."""
    ### BEGIN SOLUTION
    rows = (height + 2 * padding - kernel) // stride + 1
    columns = (width + 2 * padding - kernel) // stride + 1
    weights = filters * channels * kernel**2
    numbers = batch * channels * height * width + weights + batch * filters * rows * columns
    return 2 * batch * rows * columns * weights, size * numbers
    ### END SOLUTION


# %%
check("12.1", linear_cost, conv_cost)

# %%
intensities = {}
for name, number in (("one_image", 1), ("many_images", 128)):
    flops, moved = linear_cost(number, 4096, 4096, 4)
    intensities[name] = float(flops / moved)
predict.right("12.1", **intensities)

# %% [markdown]
# **Explain.** With one image, each weight of 4 bytes is read for a single multiply-add, which makes
# half a flop per byte. With 128 images each weight is still read only once, but used 128 times. The
# intensity is 60 and not 64, because the bytes of the images and of the results count as well.
#
# ## Two speeds of the machine
# The speed of a layer is limited by the arithmetic and by the memory of the machine. Data sheets
# state values that programs rarely reach, so we measure both.
#
# * For the arithmetic we time a product of two large matrices, which comes close to what a
#   processor can do.
# * For the memory we time a copy of an array that is far larger than the caches.
#
# ### Predict
# How many Gflop/s (10⁹ flops per second) and how many GB/s does this machine reach? For a CPU,
#
# - multiply the value for arithmetic by the number of cores. The first cells have printed it, and
#   also the instructions (AVX2, AVX-512, …), which tell you the row;
# - multiply the value for memory by the number of memory channels, which are separate connections
#   to the memory. You have to guess this number. It is 2 in laptops and up to 8 (DDR4 memory) or 12
#   (DDR5 memory) in servers.
#
# | device | arithmetic (Gflop/s) | memory (GB/s) |
# |---|---|---|
# | CPU with AVX2 | 96 for each core (3 GHz · 32 flops per cycle) | 20 (DDR4) to 38 (DDR5) for each memory channel |
# | CPU with AVX-512 | 192 for each core | the same |
# | ARM CPU | 48 to 96 for each core | the same |
# | data-center GPU (V100 to H200) | 16,000 to 67,000 in float32 | 900 to 4,800 |
#
# For example, two cores with AVX2 do at most 2 · 96 = 192 Gflop/s at 3 GHz, and two channels of
# DDR4 reach at most 2 · 20 = 40 GB/s.

# %%
predict("12.2", gigaflops=200, gigabytes=20)

# %% [markdown]
# ### Exercise 12.2 · Measure both
# Write `matrix_peak`, which returns flop/s, and `memory_bandwidth`, which returns bytes/s. 3 and 4
# lines. *(intermediate)*
#
# `timing.measure(call, device=device, seconds=seconds)` warms up, waits for a GPU, and returns a
# measurement with a `.median`. For example,
# `timing.measure(lambda: torch.relu(a), device=device, seconds=1).median` is the time in seconds of
# one ReLU on an array `a` that was made before.
#
# * The product is `a @ b`. Each of its n² numbers takes n multiply-adds.
# * The copy is `target.copy_(source)`. Count the bytes that are read *and* those that are written,
#   as the benchmark STREAM does.
#
# Make all arrays before the measurement, so that the call does only what you want to time:
#
# * `torch.randn(rows, columns, device=device)` makes the random numbers for the product.
# * `torch.ones(count, device=device)` makes the source of the copy. Do not use `zeros` or `empty`,
#   for which Linux can use a single page of zeros, so you would read that page from a cache.
# * The target exists before, too, because with a new array in each call you would also time how the
#   system allocates memory. For the target, `torch.empty_like(source)` is enough, because the calls
#   for warm-up write to it.
#
# <details><summary>Hint 1: the product</summary>
#
# Make `a` and `b` with `torch.randn(n, n, device=device)`. The call is `lambda: a @ b`, and its
# work is `2 * n**3` flops.
# </details>
# <details><summary>Hint 2: what to copy, nearly the answer</summary>
#
# A float32 has 4 bytes, so `source = torch.ones(nbytes // 4, device=device)`. The `target` can be
# `torch.empty_like(source)`, the call is `lambda: target.copy_(source)`, and its work is
# `2 * source.nbytes`.
# </details>


# %%
def matrix_peak(n, device):
    """FLOP/s of the product of two n x n matrices, float32."""
    ### BEGIN SOLUTION
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    return 2 * n**3 / timing.measure(lambda: a @ b, device=device, seconds=seconds).median
    ### END SOLUTION


def memory_bandwidth(nbytes, device):
    """Bytes/s, read and written, while an array of nbytes bytes is copied to another."""
    ### BEGIN SOLUTION
    source = torch.ones(nbytes // 4, device=device)
    target = torch.empty_like(source)
    took = timing.measure(lambda: target.copy_(source), device=device, seconds=seconds)
    return 2 * source.nbytes / took.median
    ### END SOLUTION


# %%
check("12.2", matrix_peak, memory_bandwidth)

# %%
n = rows if device == "cpu" else 4 * rows
nbytes = megabytes * 10**6
peak = matrix_peak(n, device)
bandwidth = memory_bandwidth(nbytes, device)
where = {"device": device, "threads": torch.get_num_threads(), "peak": peak, "bandwidth": bandwidth}
record.add("roofs", rows=n, nbytes=nbytes, **where)
predict.compare("12.2", gigaflops=peak / 1e9, gigabytes=bandwidth / 1e9)

# %% [markdown]
# **Explain.** If the measured values are below your estimate, other programs may be running, or two
# of the "cores" may be the two hardware threads of one core (lab 13). Everything below is compared
# with these two measured speeds.
#
# ## The roofline
# At best, a machine reads and writes memory while it computes, so the slower of these two
# activities determines the time. A layer with an intensity of I flops per byte has two limits:
#
# - The memory allows `bandwidth * I` flops per second.
# - The arithmetic allows `peak` flops per second.
#
# The lower limit is the **roofline** (Williams *et al.*, 2009). In the figure at the top, the limit
# of the memory is the slanted part of the roof, and the limit of the arithmetic is the flat part.
#
# The two parts meet at the **ridge**, where I = peak / bandwidth. A layer with a lower intensity,
# left of the ridge, is **memory-bound**, and a layer with a higher intensity is **compute-bound**.
#
# For example, take a machine with 100 Gflop/s and 20 GB/s, whose ridge is at 5 flops per byte. With
# 1 and with 8 images the linear layer of 12.1 is memory-bound:
#
# | images | intensity | highest speed | percentage of the peak |
# |---|---|---|---|
# | 1 | 0.5 | 20 · 0.5 = 10 Gflop/s | 10 % |
# | 8 | about 4 | 20 · 4 = 80 Gflop/s | 80 % |
#
# Eight images have 8 times the flops, at 8 times the speed, so they take as long as one image.
#
# ### Predict
# Use your two measured speeds and the intensities of 12.1. According to the roofline, how many
# times as long as one image do 128 images take in the linear layer? And what percentage of the peak
# does the layer reach with one image?

# %%
predict("12.3", times_as_long=20, percent_of_peak=5)

# %% [markdown]
# ### Exercise 12.3 · What is possible
# Write the roofline in two forms, with 1 line each. *(beginner)*
#
# - `attainable` returns the highest possible flop/s at a given intensity, as in the example above.
# - `least_seconds` returns the least time in seconds for given work. With one image, for example,
#   the linear layer has 34 million flops and moves 67 MB. At 100 Gflop/s the arithmetic takes 0.34
#   ms, and at 20 GB/s the memory traffic takes 3.4 ms, so the least time is 3.4 ms.
#
# <details><summary>Hint 1: two limits</summary>
#
# The lower of two speeds is the limit. If two activities go on at the same time, the longer one
# determines the time.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The first is the `min` of the peak and `bandwidth * intensity`. The second is the `max` of
# `flops / peak` and the bytes divided by the bandwidth.
# </details>


# %%
def attainable(intensity, peak, bandwidth):
    """The most flop/s at an intensity in flops per byte. peak: flop/s, bandwidth: bytes/s."""
    ### BEGIN SOLUTION
    return min(peak, bandwidth * intensity)
    ### END SOLUTION


def least_seconds(flops, nbytes, peak, bandwidth):
    """The least time for so many flops and bytes."""
    ### BEGIN SOLUTION
    return max(flops / peak, nbytes / bandwidth)
    ### END SOLUTION


# %%
check("12.3", attainable, least_seconds)

# %% [markdown]
# ### Measure: layers under the roofline
# The next cell times layers of several kinds and prints two shares for each of them:
#
# - the measured speed as a share of the peak;
# - the least time divided by the measured time. A value of 1 means that the layer is on the roof,
#   and 0.5 means that it takes twice as long as the model allows.
#
# "linear, 8" is the linear layer with 8 images. In the plot of the roofline, the number next to
# each point is its number of images. The second plot compares each least time with the measured
# time. (`torch.inference_mode()` leaves out what PyTorch would store for a backward pass.)

# %%
layers = lab12.layers(linear_cost, conv_cost, side, device)  # name: layer, images, flops, bytes
times = {}
for name, (layer, images, flops, moved) in layers.items():
    with torch.inference_mode():
        times[name] = timing.measure(partial(layer, images), device=device, seconds=seconds)
    record.add("layer", layer=name, flops=flops, nbytes=moved, seconds=times[name], **where)

least, points = {}, {}
for name, (_, _, flops, moved) in layers.items():
    least[name] = least_seconds(flops, moved, peak, bandwidth)
    speed = times[name].rate(flops)
    points[name] = flops / moved, speed
    share = least[name] / times[name].median
    print(f"{name:13} {speed / peak:6.1%} of the peak, least / measured {share:.2f}")
print(f"the ridge is at {peak / bandwidth:.3g} flops/byte")
lab12.show_roofline(points, attainable, peak, bandwidth, device)
predicted = {name: 1e3 * value for name, value in least.items()}
measured = {name: 1e3 * took.samples for name, took in times.items()}
plots.compare(predicted, measured, unit="ms", title="Least time by the roofline, and measured")

# %%
with_one = times["linear, 1"].median  # seconds
with_many = times["linear, 128"].median
percent = 100 * 2 * side**2 / with_one / peak
predict.compare("12.3", times_as_long=with_many / with_one, percent_of_peak=percent)

# %% [markdown]
# **Explain.** You should see the linear layer with one image far on the left, where the roof is
# slanted. According to the model, additional images cost next to nothing until the intensity
# reaches the ridge, and this is the reason for computing in batches. On the machine with 100
# Gflop/s and 20 GB/s, for example, the 128 images reach the peak, so they take 128 · 10/100 = 12.8
# times as long as one image, and not 128 times.
#
# The prediction assumes that the layer is on the roof with one image and with 128. If your measured
# ratio differs from the prediction, look at `least / measured` of "linear, 1" and "linear, 128".
#
# ReLU treats each number by itself, which is called **element-wise**. It does one flop for every 8
# bytes, so its point is still further left.
#
# A layer might be *below* the roof, which means that it is slower than the model allows. The plot
# does not show why. Possible reasons are the overhead of each call, and a library function that is
# not made for this shape.
#
# You might also see a layer *above* the roof, which is impossible in the model. What could be the
# reason?
# <details><summary>Answer</summary>
#
# * The numbers were still in a cache. The last-level cache of a large server, for example, can hold
#   67 MB of weights, or the 51 MB that the ReLU reads and overwrites.
# * The slanted roof is too low for this layer. It was measured with a copy, for which we counted
#   two arrays. Many processors read a cache line (a small block of memory) before they write to it,
#   so that a copy moves three arrays. A layer that writes little, as a linear layer does, or writes
#   where it has just read, as this ReLU does, avoids this and can be up to 1.5 times as fast as our
#   roof.
# * The roof was measured while other programs used the machine. In this case run 12.2 again.
#
# </details>
#
# ## A training step that is too slow
# The next cell contains a colleague's training step for a network with four convolutions. The step
# computes the right result, but it is slow. Where does its time go?
#
# [PyTorch's profiler](@pytorch_profiler) lists the operators that ran, with the number of their
# calls and the seconds that they took. Names with `conv` are convolutions, and `aten::mm` and
# `aten::addmm` are matrix products.


# %%
def slow_step(net, optimizer, pixels, labels, rows):
    """One SGD step with the images `rows` of a data set of pixels, 0 to 255. Returns their mean
    loss."""
    numbers = pixels.float()
    images = (numbers - numbers.mean()) / numbers.std()  # mean 0, standard deviation 1
    optimizer.zero_grad()
    total = 0.0
    for row in rows.tolist():
        loss = F.cross_entropy(net(images[row : row + 1]), labels[row : row + 1])
        (loss / len(rows)).backward()
        total += loss.item()
    optimizer.step()
    return total / len(rows)


net, optimizer, pixels, labels, chosen = lab12.setting(pictures, batch, device)
as_found = partial(slow_step, net, optimizer, pixels, labels, chosen)
before = profiling.record(as_found, kind="torch", device=device)
before.show("The step as it was found")
print(before, before.operators(16).to_string(), sep="\n")
print(f"sum of all calls: {before.operators(1000).calls.sum():.0f}")

# %% [markdown]
# The plot shows when operators ran (compute) and when none did (idle). In the table, `calls` counts
# calls per step, and `seconds` is the time of the operator itself, without the operators that it
# called. The last line has the sum of all calls.
#
# Look for the two faults of this step:
#
# - How often are convolutions called in the forward pass, and how often should four convolutions be
#   called? (The names of the backward pass contain `backward`. One call of a layer appears in
#   several rows, because `conv2d` calls `convolution`, and so on.)
# - To prepare the images, the step makes the pixels floats (`copy_`), computes their mean (`sum` or
#   `mean`) and their standard deviation (`std`), and applies both (`sub`, `div`). For how many
#   images is this done, although the step needs only one batch?
#
# <details><summary>Answer</summary>
#
# The loop passes the 32 images of the batch one by one, so the four convolutions are called 4 · 32
# = 128 times instead of 4 times. The step also prepares all 4,096 images of the dataset instead of
# 32.
# </details>
#
# ### Predict
# How many times as fast is the step when both faults are removed? Estimate the new time from three
# numbers of the profile:
#
# - The old time is that of the step, printed above the table.
# - A is the sum of the `seconds` in the rows named above that prepare the images. This work
#   disappears.
# - C is the sum of all calls. Operators that are now called for each image will be called only
#   once, which saves nearly (`batch` − 1) / `batch` = 31/32 of the calls.
#
# We assume an overhead of 5 µs for each call, and that the arithmetic itself takes as long as
# before. Then the new time is the old time − A − 31/32 · C · 5 µs. (The loop calls some of the
# operators in A, too, but for few numbers, and we ignore that.)
#
# For example, a step takes 50 ms, with A = 20 ms and C = 3,200. Of the calls, 31/32 · 3,200 = 3,100
# are saved, which take 3,100 · 5 µs = 15.5 ms. The new time is 50 − 20 − 15.5 = 14.5 ms, so the
# step is 3.4 times as fast.

# %%
predict("12.4", times_as_fast=4)

# %% [markdown]
# ### Exercise 12.4 · Remove both faults
# Write a faster version of the slow step as two functions. The loss, and the weights after the
# step, stay the same. 2 and 5 lines. *(beginner)*
#
# - `prepare` is called *once*, before training, and its result is passed to each `quick_step` in
#   place of the pixels.
# - `quick_step` does no work image by image and does not process the whole dataset.
#
# For example, the loop `for row in rows.tolist(): total += numbers[row].sum()` calls an operator
# for each row, while `numbers[rows].sum()` computes the same total with two calls.
#
# <details><summary>Hint 1: the loop</summary>
#
# `images[rows]` selects the whole batch, and `F.cross_entropy` takes the mean over it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `prepare` consists of the slow step's first two lines and returns their result. `quick_step` is
# the step of lab 10: `optimizer.zero_grad()`,
# `loss = F.cross_entropy(net(prepared[rows]), labels[rows])`, the backward pass, the optimizer's
# step, and `return loss.item()`.
# </details>


# %%
def prepare(pixels):
    """What all steps share, done once: returns whatever quick_step wants."""
    ### BEGIN SOLUTION
    numbers = pixels.float()
    return (numbers - numbers.mean()) / numbers.std()
    ### END SOLUTION


def quick_step(net, optimizer, prepared, labels, rows):
    """One SGD step with the images `rows`. Returns their mean loss, a plain number."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    loss = F.cross_entropy(net(prepared[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %%
check("12.4", prepare, quick_step)

# %%
fixed = partial(quick_step, net, optimizer, prepare(pixels), labels, chosen)
after = profiling.record(fixed, kind="torch", device=device)
after.show("The step without the two faults")
print(after, after.operators(12).to_string(), sep="\n")
every_operator = after.operators(1000)
of_convolutions = every_operator[every_operator.name.str.contains("conv")]
print(f"convolutions and their backward: {of_convolutions.share.sum():.0%} of the step")

# %% [markdown]
# The last line shows what share of the fixed step the convolutions account for, in the forward and
# the backward pass. PyTorch passes such expensive operations on to libraries. Which libraries
# computed this step?
# <details><summary>Answer</summary>
#
# The column `library` of the profile names them.
#
# | layer | on a CPU | on a GPU |
# |---|---|---|
# | linear | a **BLAS** library (Basic Linear Algebra Subprograms), MKL or [OpenBLAS](@openblas) | [cuBLAS](@cublas) |
# | convolution | a **DNN library** (deep neural networks), [oneDNN](@onednn), or the BLAS library | [cuDNN](@cudnn) |
# | ReLU and other element-wise operators | PyTorch itself | PyTorch itself |
#
# </details>
#
# ### Measure: each fault by itself
# Four versions of the step take turns: the step as it was found, the fixed one, and two controls in
# which only one of the two faults was removed.
#
# - `one_by_one` still goes image by image, but over a dataset that consists only of this batch.
#   (Its mean and its loss differ from those of the other versions, so we use only its time.)
# - `all_again` computes the batch at once, but prepares all images in each step.

# %%
batch_pixels = pixels[chosen]
batch_labels = labels[chosen]
one_by_one = partial(
    slow_step, net, optimizer, batch_pixels, batch_labels, torch.arange(batch, device=device)
)


def all_again():
    """The fixed step, with the data set prepared anew."""
    return quick_step(net, optimizer, prepare(pixels), labels, chosen)


steps = {"as found": as_found, "one_by_one": one_by_one, "all_again": all_again, "fixed": fixed}
times = timing.in_turns(steps, device=device, repeat=9, warmup=1)
plots.spread(
    times, title=f"A training step of {batch} images, with and without each fault", name="steps"
)
work = lab12.flops(fixed)
for name, took in times.items():
    print(
        f"{name:10} {took.rate(work) / 1e9:7.3g} Gflop/s, {took.rate(work) / peak:6.1%} of the peak"
    )
    record.add("step", step=name, batch=batch, flops=work, seconds=took, **where)
gain = np.median(times["as found"].samples / times["fixed"].samples)
predict.compare("12.4", times_as_fast=gain)

# %% [markdown]
# **Explain.** The arithmetic of the network is the same in all four steps. You should see that
# removing either fault makes the step faster, and the controls show how much each of them costs on
# your machine. The list above shows how far the fixed step is from the peak.
#
# The estimate assumed that the arithmetic itself takes as long as before, which might not hold on a
# CPU. If your first profile lists `_slow_conv2d_forward`, each call had a single small image, and
# PyTorch computed the convolutions as matrix products with the BLAS library. For the batch it
# called the DNN library oneDNN (`mkldnn_convolution`).
#
# Which of the two corrections matters more if the dataset has ten times as many images?
# <details><summary>Answer</summary>
#
# `prepare` matters more, because its work grows with the dataset and was done in every step. The
# cost of the loop depends only on the batch.
# </details>
#
# ### What you take away
# - The number of flops divided by the number of bytes tells whether a layer waits for arithmetic or
#   for memory. The ridge between the two cases is at peak / bandwidth.
# - Linear layers with few images and element-wise operators are memory-bound. With a larger batch
#   the weights are still read only once.
# - In a profile, look at the number of calls, too, because the work may be done in many small
#   pieces.
# - The next labs are about threads (13), numbers with fewer bits (14) and input (15). Across
#   devices the network is a third limit (22, 32).
#
# ## Going further (optional): fewer bytes, by a compiler (5 minutes)
# A memory-bound operation becomes faster if it moves fewer bytes. `relu(x * 0.5 + 1) + x` consists
# of four operators. By default, PyTorch runs each operator as soon as it meets it, which is called
# **eager** execution. The first three operators each read one array and write one, and the last
# addition reads two and writes one, so they move nine arrays in all.
#
# **torch.compile** makes one loop of the four operators, that is, it **fuses** them. The loop reads
# x and writes the result, which are two arrays. According to the roofline, the fused loop should
# therefore be 9/2 = 4.5 times as fast. (On a CPU, the next cell needs a C++ compiler, and measures
# nothing without one.)


# %%
def four_operators(x):
    """Element-wise, and memory-bound."""
    return torch.relu(x * 0.5 + 1) + x


if compiled and (device != "cpu" or shutil.which("g++") or shutil.which("clang++")):
    # About 20 s: the first call writes a program and compiles it.
    quick = torch.compile(four_operators)
    numbers = torch.randn(nbytes // 8, device=device)
    gain = timing.ratio(
        lambda: four_operators(numbers), lambda: quick(numbers), device=device, seconds=3
    )
    print(f"eager / compiled: {gain}, predicted 4.5")
    record.add("compiled", times_as_fast=gain, **where)

# %% [markdown]
# **Explain.** A ratio somewhat below 4.5 fits the count of bytes, too. If each cache line is read
# before it is written, the eager operators move 3 + 3 + 3 + 4 = 13 arrays and the loop moves 3,
# which gives 13/3 = 4.33. If you see a ratio below 4 or above 4.5, something plays a role that this
# cell does not measure, such as a cache or the overhead of each call.
#
# ### Further reading
# - [@williams2009] The paper that introduced the roofline.
# - [@pytorch_profiler] The documentation of the profiler used here.
# - [@nvidia_matmul] How intensity determines the speed of matrix products on GPUs.
# - [@dongarra1990] The interface that MKL, OpenBLAS and cuBLAS have in common.
# - [@stream] The memory benchmark whose way of counting bytes we use.
