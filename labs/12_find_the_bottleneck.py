# %% [markdown]
# <!-- Generated from solutions/12_find_the_bottleneck.py by `make labs`. Learners work on a copy in work/. -->
# # 12 Find the bottleneck
#
# Before a step is spread over 100 devices it should be fast on one. Two measured numbers of this
# machine tell for each layer how fast that could be. Then you find what holds up a training step,
# and mend it.
#
# **You will be able to** (1) count a layer's flops and bytes, (2) measure a machine's two roofs,
# (3) say what a layer's time could be, (4) find a step's bottleneck in a profile.
#
# Needs: torch · Ranks: 1 · Minutes: 60 · Level: intermediate · Before: 01, 10

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
compiled = True  # also try torch.compile at the end, which takes some ten seconds

# %%
torch.set_num_threads(threads or world.cores())
torch.backends.cudnn.allow_tf32 = False  # on a GPU: convolutions in float32, too, not with 19 bits
print(
    f"{device}; PyTorch uses {torch.get_num_threads()} of this process's {world.cores()} CPU cores"
)
print("instructions of the CPU that PyTorch uses:", torch.backends.cpu.get_cpu_capability())

# %% [markdown]
# ## What a layer does, and what it moves
# A layer is arithmetic, counted in floating-point operations (**flops**). A multiply-add is two of
# them. The numbers are read from memory and the result is written back: these are its **bytes**.
# Flops over bytes is the **arithmetic intensity**.
#
# A small example: a linear layer with 3 inputs and 2 outputs has 6 weights. One image takes 6
# multiply-adds, 12 flops. It reads 3 + 6 numbers and writes 2: 11 numbers, 44 bytes in float32. Its
# intensity is 12/44.
#
# ### Predict
# A linear layer has 4,096 inputs and outputs, so 16.8 million float32 weights, of 4 bytes each. How
# many flops per byte with one image, and with 128? (With one image the weights are nearly all that
# is moved.)

# %%
predict("12.1", one_image=..., many_images=...)  # flops per byte


# %% [markdown]
# ### Exercise 12.1 · Flops and bytes
# Count one forward pass of a layer, without bias. 2 and 5 lines. *(beginner)*
#
# Bytes: the *least* there can be. Images and weights are read once, the result is written once,
# `size` bytes a number.
#
# A linear layer does a multiply-add for each weight and image.
#
# A **convolution** moves a small window over a picture: `kernel x kernel` pixels, over all
# `channels`. It has `filters` filters of `channels x kernel x kernel` weights. It does a
# multiply-add for each weight, for each place of the picture that comes out, and for each image.
# That picture has `(height + 2 * padding - kernel) // stride + 1` rows, and likewise columns:
# `padding` pixels of 0 are put around it, and the window moves on by `stride`.
#
# <details><summary>Hint 1: a linear layer</summary>
#
# Three arrays: images `batch x inputs`, weights `inputs x outputs`, the result `batch x outputs`.
# </details>
# <details><summary>Hint 2: a convolution, nearly the answer</summary>
#
# `weights = filters * channels * kernel**2`; flops are `2 * batch * rows * columns * weights`.
# Images are `batch * channels * height * width` numbers, the result is
# `batch * filters * rows * columns`.
# </details>

# %%
def linear_cost(batch, inputs, outputs, size):
    """(flops, least bytes) of a linear layer's forward pass; size: bytes of a number."""
    raise NotImplementedError("exercise 12.1: Flops and bytes")


def conv_cost(batch, channels, height, width, filters, kernel, stride, padding, size):
    """(flops, least bytes) of a convolution's forward pass; size: bytes of a number."""
    raise NotImplementedError("exercise 12.1: Flops and bytes")


# %%
# Asked: You count the flops that PyTorch counts, and the bytes of its tensors,
# for layers of odd shapes, with strides and padding, in float32 and float16.
check("12.1", linear_cost, conv_cost)

# %%
intensities = {}
for name, number in (("one_image", 1), ("many_images", 128)):
    flops, moved = linear_cost(number, 4096, 4096, 4)
    intensities[name] = flops / moved
predict.right("12.1", **intensities)

# %% [markdown]
# **Explain.** With one image each weight of 4 bytes is fetched for one multiply-add: half a flop
# per byte. With 128 images it is fetched once and used 128 times. The bytes of the images and of
# the results are the reason why that is 60 and not 64.
#
# ## The two roofs
# How fast could a layer be? Two speeds of the machine decide: arithmetic and memory. Data sheets
# tell speeds that nobody reaches, so we measure both.
#
# * Arithmetic: a product of two large matrices. Hardly any other work comes nearer to what a
#   processor can do.
# * Memory: a copy of an array far larger than the caches.
#
# ### Predict
# How many Gflop/s (10⁹ flops a second), and how many GB/s?
#
# * A CPU's core does 32 flops a clock cycle with AVX2 instructions, 64 with AVX-512, and 16 to 32
#   on ARM (which PyTorch does not print as AVX), at about 3 GHz. Take as many cores as PyTorch uses
#   threads.
# * A channel of memory moves some 20 GB/s (DDR4). Laptops have two, servers up to twelve, shared by
#   all their cores; without root no program tells how many you have, so choose one.
# * A data-centre GPU does some 20,000 to 60,000 Gflop/s in float32, and 1,500 to 4,000 GB/s.

# %%
predict("12.2", gigaflops=..., gigabytes=...)


# %% [markdown]
# ### Exercise 12.2 · Measure both
# `timing.measure(call, device=device, seconds=seconds)` warms up, waits for a GPU, and returns a
# measurement with a `.median`. Make the arrays before: the call does one thing. 3 and 4 lines.
# *(intermediate)*
#
# * The product: `a @ b`. Each of its n² numbers takes n multiply-adds.
# * The copy: `target.copy_(source)`. Count bytes read *and* written (as McCalpin's STREAM does,
#   1995). Write to an array that is there: with a new one each time, you would time how the system
#   finds memory.
#
# `torch.randn(rows, columns, device=device)` gives random numbers,
# `torch.ones(count, device=device)` ones. Do not copy `zeros` or `empty`: for memory that nobody
# wrote to, Linux has one page of zeros, and you would read that from a cache.
#
# <details><summary>Hint 1: the product</summary>
#
# `a` and `b` from `torch.randn(n, n, device=device)`. The call: `lambda: a @ b`. The work:
# `2 * n**3` flops.
# </details>
# <details><summary>Hint 2: what to copy, nearly the answer</summary>
#
# A float32 has 4 bytes: `source = torch.ones(nbytes // 4, device=device)`. The `target` may be
# `torch.empty_like(source)`, the call is `lambda: target.copy_(source)`, the work
# `2 * source.nbytes`.
# </details>

# %%
def matrix_peak(n, device):
    """FLOP/s of the product of two n x n matrices, float32."""
    raise NotImplementedError("exercise 12.2: Measure both")


def memory_bandwidth(nbytes, device):
    """Bytes/s, read and written, while an array of nbytes bytes is copied to another."""
    raise NotImplementedError("exercise 12.2: Measure both")


# %%
# Asked: One product of two n x n float32 matrices is timed, and 2 n³ over the
# median is returned; a copy of a filled array is timed, and the bytes moved
# over the median come out; arrays lie on `device`; and both speeds are about
# what labkit's own functions measure.
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
# **Explain.** Ten times off is nothing unusual for a first guess. Less than you reckoned: other
# programs, a lower clock under load, or cores of which each stands for half of one ([lab 13](13_cpu_threads_and_affinity.ipynb)). The
# two numbers are this machine's, today: everything below is held against them.
#
# ## The roofline
# At best a machine fetches while it computes, and the slower of both decides. At intensity I,
# memory lets `bandwidth * I` flops pass in a second. So a layer reaches at most that, and never
# more than the peak: the **roofline** (Williams and others, 2009).
#
# The two roofs meet at the **ridge**, I = peak / bandwidth. Left of it a layer is **memory-bound**,
# right of it **compute-bound**.
#
# ### Predict
# Use your two numbers and the intensities of 12.1. By the roofline, 128 images take the linear
# layer how many times as long as one? And with one image, what percent of the peak does it reach?

# %%
predict("12.3", times_as_long=..., percent_of_peak=...)


# %% [markdown]
# ### Exercise 12.3 · What is possible
# The roofline as flop/s, and as seconds: the least time for so much work. 1 line each. *(beginner)*
#
# <details><summary>Hint 1: two roofs</summary>
#
# Under two roofs the lower one is the limit. Of two things that go on at once the longer one
# counts.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min` of the peak and `bandwidth * intensity`; `max` of `flops / peak` and the bytes over the
# bandwidth.
# </details>

# %%
def attainable(intensity, peak, bandwidth):
    """The most flop/s at an intensity in flops per byte. peak: flop/s, bandwidth: bytes/s."""
    raise NotImplementedError("exercise 12.3: What is possible")


def least_seconds(flops, nbytes, peak, bandwidth):
    """The least time for so many flops and bytes."""
    raise NotImplementedError("exercise 12.3: What is possible")


# %%
# Asked: You return the lower of the two roofs, and the longer of the two times,
# on two machines.
check("12.3", attainable, least_seconds)

# %% [markdown]
# ### Measure
# Layers of several kinds, timed one after the other. `torch.inference_mode()` leaves out what
# PyTorch would keep for a backward pass. "linear, 8" is the linear layer with 8 images.

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
    points[name] = [flops / moved], [times[name].rate(flops) / 1e9]
    share = least[name] / times[name].median
    print(
        f"{name:12} {times[name].rate(flops) / peak:6.1%} of the peak, least / measured {share:.2f}"
    )
print(f"the ridge is at {peak / bandwidth:.3g} flops/byte")
grid = np.geomspace(0.06, 10 * peak / bandwidth, 200)
roofs = {"the two roofs": (grid, [attainable(place, peak, bandwidth) / 1e9 for place in grid])}
axes = {
    "xlabel": "arithmetic intensity (flops/byte)",
    "ylabel": "Gflop/s",
    "logx": True,
    "logy": True,
}
plots.lines(
    {**roofs, **points}, title=f"Roofline of this machine ({device})", name="roofline", **axes
)
predicted = {name: 1e3 * value for name, value in least.items()}
measured = {name: 1e3 * took.samples for name, took in times.items()}
plots.compare(predicted, measured, unit="ms", title="Least time by the roofline, and measured")

# %%
with_one = times["linear, 1"].median  # seconds
with_many = times["linear, 128"].median
percent = 100 * 2 * side**2 / with_one / peak
predict.compare("12.3", times_as_long=with_many / with_one, percent_of_peak=percent)


# %% [markdown]
# **Explain.** With one image the linear layer fetches 4 bytes for two flops and lies far left,
# under the slanted roof. By the model more images cost next to nothing up to the ridge: that is why
# one computes in batches. ReLU treats each number by itself (it is **element-wise**). It does a
# flop for 8 bytes, whatever the batch, and stays on the left.
#
# *Below* the roof it may be calls whose fixed price counts, results that are written to fresh
# memory, or, near the ridge, arithmetic and fetching that overlap only in part. This figure does
# not tell which.
#
# *Above* the roof? That needs a reason, as it cannot be by the model.
# <details><summary>Answer</summary>
#
# * Numbers that were still in a cache: a large server's last cache holds 67 MB of weights.
# * A layer that only *reads*, as a linear layer nearly does. Our slanted roof is a copy, counted as
#   two arrays. Many processors read a line of memory before they write to it. Then a copy moves
#   three, and reading alone may be 1.5 times as fast as our roof.
# * Writing where one has just read (ReLU works in place) saves that reading, too.
# * A library whose convolution beats the product's, or takes fewer multiplications than we count.
# * A roof that was measured while others used the machine: then run 12.2 again.</details>
#
# ## A step that is too slow
# A colleague's training step, of a net with four convolutions. Its loss falls, so it is right.
# Where does the time go?
#
# PyTorch's profiler tells (`kind="torch"`): it lists the operators that ran, with their calls and
# seconds. Names with `conv` are convolutions, `aten::mm` and `aten::addmm` products of matrices.

# %%
def slow_step(net, optimizer, pixels, labels, rows):
    """One SGD step with the images `rows` of a data set of pixels, 0 to 255. Returns their mean
    loss."""
    numbers = pixels.float()
    images = (numbers - numbers.mean()) / numbers.std()  # mean 0, spread 1
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
print(before, before.operators(12).to_string(), sep="\n")

# %% [markdown]
# In the table `calls` are per step, and `seconds` an operator's own, without those that it called.
# How often should four convolutions be called in a step? And of how many images are mean and spread
# taken (`sub`, `div`, `std`), if the step needs one batch?
#
# ### Predict
# With both mended, how many times as fast is the step? What is done for the whole data set goes:
# add its seconds up. What is called for each image is called once: its fixed price goes, its
# arithmetic stays. Guess the rest.

# %%
predict("12.4", times_as_fast=...)


# %% [markdown]
# ### Exercise 12.4 · Mend it
# Same loss, same weights after it. But `prepare` is called *once*, before training, and its result
# is given to each `quick_step` in place of the pixels. No work image by image, none for the whole
# data set. 2 and 5 lines. *(beginner)*
#
# <details><summary>Hint 1: the loop</summary>
#
# `images[rows]` picks the whole batch, and `F.cross_entropy` takes the mean over it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `prepare`: the slow step's first two lines, returned. `quick_step` is lab 10's:
# `optimizer.zero_grad()`, `loss = F.cross_entropy(net(prepared[rows]), labels[rows])`, backward,
# step, `return loss.item()`.
# </details>

# %%
def prepare(pixels):
    """What all steps share, done once: returns whatever quick_step wants."""
    raise NotImplementedError("exercise 12.4: Mend it")


def quick_step(net, optimizer, prepared, labels, rows):
    """One SGD step with the images `rows`. Returns their mean loss, a plain number."""
    raise NotImplementedError("exercise 12.4: Mend it")


# %%
# Asked: The training stays the same, a batch of 4 takes as many operators as
# one of 12, the net runs once a step, and a step moves as many bytes where 40
# images are stored as where 400 are.
check("12.4", prepare, quick_step)

# %%
mended = partial(quick_step, net, optimizer, prepare(pixels), labels, chosen)
after = profiling.record(mended, kind="torch", device=device)
after.show("The step, mended")
print(after, after.operators(12).to_string(), sep="\n")
every_operator = after.operators(1000)
of_convolutions = every_operator[every_operator.name.str.contains("conv")]
print(f"convolutions and their backward: {of_convolutions.share.sum():.0%} of the step")

# %% [markdown]
# ### Measure
# Four steps take turns: as found, mended, and as controls with only one of the two things mended.
# `one_by_one` still goes image by image, but over a data set of this batch alone; `all_again` takes
# the batch at once, but prepares all pictures in each step.

# %%
batch_pixels = pixels[chosen]
batch_labels = labels[chosen]
one_by_one = partial(
    slow_step, net, optimizer, batch_pixels, batch_labels, torch.arange(batch, device=device)
)


def all_again():
    """The mended step, with the data set prepared anew."""
    return quick_step(net, optimizer, prepare(pixels), labels, chosen)


steps = {"as found": as_found, "one_by_one": one_by_one, "all_again": all_again, "mended": mended}
times = timing.in_turns(steps, device=device, repeat=9, warmup=1)
plots.spread(times, title=f"Both mends count (a training step, {batch} images)", name="steps")
work = lab12.flops(mended)
for name, took in times.items():
    print(
        f"{name:10} {took.rate(work) / 1e9:7.3g} Gflop/s, {took.rate(work) / peak:6.1%} of the peak"
    )
    record.add("step", step=name, batch=batch, flops=work, seconds=took, **where)
gain = np.median(times["as found"].samples / times["mended"].samples)
predict.compare("12.4", times_as_fast=gain)


# %% [markdown]
# **Explain.** Each mend takes its part away, and the controls say how much. The arithmetic of the
# net is the same in all four. The mended step is still some way from the peak. The profile above
# says how much of it the convolutions are, and lists the largest operators of the rest. The calls'
# fixed price is not measured here.
#
# Which of the two mends matters more with ten times as many pictures in the data set?
# <details><summary>Answer</summary> `prepare`: its work grows with the data set, in every step. The loop's
# price depends on the batch alone.</details>
#
# ### What you take away
# - Flops over bytes tell if a layer waits for arithmetic or for memory. The ridge is peak over
#   bandwidth.
# - Small batches and element-wise operators are memory-bound. For a larger batch the weights are
#   read once.
# - In a profile look at calls, too: the work may be done in small pieces.
# - Next: threads (13), fewer bits (14), input (15). Across devices the network is a third roof (22,
#   32).
#
# ## Going further: which library ran?
# PyTorch hands heavy work on.
#
# * Matrix products go to a **BLAS** (basic linear algebra subprograms; products of matrices are its
#   level 3, Dongarra and others, 1990): MKL or OpenBLAS, on GPUs cuBLAS.
# * Convolutions go to a **DNN library**: oneDNN (once MKL-DNN), on GPUs cuDNN. Or to the BLAS, as
#   it sees fit.
# * ReLU is PyTorch's own loop.
#
# The profiler tells: `aten::mm` and `aten::addmm` are products, `aten::mkldnn_convolution` is
# oneDNN's.

# %%
# Each layer once, under the profiler. (overhead=False: do not also measure what recording costs.)
def each_once():
    """Each layer, on its images."""
    with torch.inference_mode():
        for layer, images, *_ in layers.values():
            layer(images)


ran = profiling.record(each_once, steps=2, kind="torch", device=device, overhead=False)
print(ran.operators(6).to_string())


# %% [markdown]
# **Explain.** Which names do you see? Those with `mkldnn` or `cudnn` are the DNN library's, `mm`
# and `addmm` the BLAS'. With `ONEDNN_VERBOSE=1` set before Python starts, oneDNN also says which
# instructions it uses.
#
# ## Going further: fewer bytes, by a compiler
# What is memory-bound gets faster if it moves less. `relu(x * 0.5 + 1) + x` is four operators.
# PyTorch runs them one after the other as it meets them, which is called **eager**. They read and
# write 2, 2, 2 and 3 arrays, nine in all.
#
# **torch.compile** makes one loop of them: it **fuses** them. The loop reads x and writes the
# result, two arrays. By the roofline that should be 9/2 = 4.5 times as fast.

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
# **Explain.** By counting you may expect a little less than 4.5, and not less than 4.
#
# * If each written line is read first, the eager operators move 3 + 3 + 3 + 4 = 13 arrays and the
#   loop 3: that is 4.33.
# * The eager operators make four new arrays a call, and the loop one. If finding memory took all
#   the time, that would be 4.
#
# Below 4 something else is at work, and this cell does not tell what: an eager operator may find in
# a cache what the one before it wrote, or the loop may wait for arithmetic. More than 4.5 takes an
# eager price that we did not count, such as a call's (try fewer `megabytes`).
#
# Without a C++ compiler (g++, clang++) the cell measures nothing.
