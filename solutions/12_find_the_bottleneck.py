# %% [markdown]
# # 12 Find the bottleneck
#
# Before a step is spread over 100 devices it should be fast on one. Two measured numbers of this machine tell
# for each layer how fast that could be. Then you find what holds up a training step, and mend it.
#
# **You will be able to** (1) count a layer's flops and bytes, (2) measure a machine's two roofs, (3) say what
# a layer's time could be, (4) find a step's bottleneck in a profile.
#
# Needs: torch · Ranks: 1 · Minutes: 60 · Before: 01, 10

# %%
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, expect, hint, lab, plots, predict, profiling, record, timing, world
from support import lab12

lab.start("12_find_the_bottleneck")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"

# %% tags=["parameters"]
threads = 0  # of PyTorch on the CPU; 0: as many as this process has cores
rows = 2048  # rows and columns of the matrices whose product is the peak; on a GPU four times as many
megabytes = 256  # size of each array that is copied: take far more than your caches hold
side = 4096  # inputs and outputs of the linear layer, as in AlexNet and VGG-16: weights of 67 MB
pictures = 4096  # images in the data set of 12.4, in CIFAR-10's shape
batch = 32  # images per training step there
seconds = 2  # spent on each measurement, about
compiled = True  # also try torch.compile at the end, which takes some ten seconds

# %%
lab12.begin(threads, pictures, batch, rows=rows, megabytes=megabytes, side=side, seconds=seconds)
torch.backends.cudnn.allow_tf32 = False  # on a GPU: convolutions in float32, too, not with 19 bits
print(f"{device}; PyTorch uses {torch.get_num_threads()} of this process's {world.cores()} CPU cores")
print("instructions of the CPU that PyTorch uses:", torch.backends.cpu.get_cpu_capability())

# %% [markdown]
# ## What a layer does, and what it moves
# A layer is arithmetic, counted in floating-point operations (**flops**). A multiply-add is two of them. The
# numbers are read from memory and the result is written back: these are its **bytes**. Flops over bytes is
# the **arithmetic intensity**.
#
# A small example: a linear layer with 3 inputs and 2 outputs has 6 weights. One image takes 6 multiply-adds,
# 12 flops. It reads 3 + 6 numbers and writes 2: 11 numbers, 44 bytes in float32. Its intensity is 12/44.
#
# ### Predict
# A linear layer has 4,096 inputs and outputs, so 16.8 million float32 weights, of 4 bytes each. How many
# flops per byte with one image, and with 128? (With one image the weights are nearly all that is moved.)

# %%
predict("12.1", one_image=0.5, many_images=60)  # flops per byte

# %% [markdown]
# ### Exercise 12.1 · Flops and bytes
# Count one forward pass of a layer, without bias. 2 and 5 lines. *(beginner)*
#
# Bytes: the *least* there can be. Images and weights are read once, the result is written once, `size` bytes
# a number.
#
# A linear layer does a multiply-add for each weight and image.
#
# A **convolution** moves a small window over a picture: `kernel x kernel` pixels, over all `channels`. It has
# `filters` filters of `channels x kernel x kernel` weights. It does a multiply-add for each weight, for each
# place of the picture that comes out, and for each image. That picture has
# `(height + 2 * padding - kernel) // stride + 1` rows, and likewise columns: `padding` pixels of 0 are put
# around it, and the window moves on by `stride`.
#
# <details><summary>Hint 1: a linear layer</summary>
#
# Three arrays: images `batch x inputs`, weights `inputs x outputs`, the result `batch x outputs`.
# </details>
# <details><summary>Hint 2: a convolution, nearly the answer</summary>
#
# `weights = filters * channels * kernel**2`; flops are `2 * batch * rows * columns * weights`. Images are
# `batch * channels * height * width` numbers, the result is `batch * filters * rows * columns`.
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
# What is asked: PyTorch's own count of flops, and the bytes of its tensors, for layers of odd shapes, with
# strides and padding, in float32 and float16.
with check("12.1"):
    for trial in lab12.trial_layers():
        cost = {"linear": linear_cost, "conv": conv_cost}[trial.kind](*trial.arguments, trial.size)
        expect(np.shape(cost) == (2,), "Return two numbers: flops, bytes.")
        flops, moved = cost
        wrong_flops = {
            "the other way round: flops first, then bytes": trial.nbytes,
            "a multiply-add is two operations": trial.flops / 2,
            "each multiply-add twice?": trial.flops * 2,
        }
        expect.equal(flops, trial.flops, f"flops of {trial}", slips=wrong_flops)
        sizes = f"bytes of {trial}, {trial.size} a number"
        expect.equal(moved, trial.nbytes, sizes, slips=trial.wrong_bytes())

# %%
intensities = {}
for name, number in (("one_image", 1), ("many_images", 128)):
    flops, moved = linear_cost(number, 4096, 4096, 4)
    intensities[name] = flops / moved
predict.right("12.1", **intensities)

# %% [markdown]
# **Explain.** With one image each weight of 4 bytes is fetched for one multiply-add: half a flop per byte.
# With 128 images it is fetched once and used 128 times. The bytes of the images and of the results are the
# reason why that is 60 and not 64.
#
# ## The two roofs
# How fast could a layer be? Two speeds of the machine decide: arithmetic and memory. Data sheets tell speeds
# that nobody reaches, so we measure both.
#
# * Arithmetic: a product of two large matrices. Hardly any other work comes nearer to what a processor can
#   do.
# * Memory: a copy of an array far larger than the caches.
#
# ### Predict
# How many Gflop/s (10⁹ flops a second), and how many GB/s?
#
# * A CPU's core does 32 flops a clock cycle with AVX2 instructions, 64 with AVX-512, and 16 to 32 on ARM
#   (which PyTorch does not print as AVX), at about 3 GHz. Take as many cores as PyTorch uses threads.
# * A channel of memory moves some 20 GB/s (DDR4). Laptops have two, servers up to twelve, shared by all their
#   cores; without root no program tells how many you have, so choose one.
# * A data-centre GPU does some 20,000 to 60,000 Gflop/s in float32, and 1,500 to 4,000 GB/s.

# %%
predict("12.2", gigaflops=200, gigabytes=20)

# %% [markdown]
# ### Exercise 12.2 · Measure both
# `timing.measure(call, device=device, seconds=seconds)` warms up, waits for a GPU, and returns a measurement
# with a `.median`. Make the arrays before: the call does one thing. 3 and 4 lines. *(intermediate)*
#
# * The product: `a @ b`. Each of its n² numbers takes n multiply-adds.
# * The copy: `target.copy_(source)`. Count bytes read *and* written (as McCalpin's STREAM does, 1995).
#   Write to an array that is there: with a new one each time, you would time how the system finds memory.
#
# `torch.randn(rows, columns, device=device)` gives random numbers, `torch.ones(count, device=device)` ones.
# Do not copy `zeros` or `empty`: for memory that nobody wrote to, Linux has one page of zeros, and you
# would read that from a cache.
#
# <details><summary>Hint 1: the product</summary>
#
# `a` and `b` from `torch.randn(n, n, device=device)`. The call: `lambda: a @ b`. The work: `2 * n**3` flops.
# </details>
# <details><summary>Hint 2: what to copy, nearly the answer</summary>
#
# A float32 has 4 bytes: `source = torch.ones(nbytes // 4, device=device)`. The `target` may be
# `torch.empty_like(source)`, the call is `lambda: target.copy_(source)`, the work `2 * source.nbytes`.
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
# Trial, need not be read. `lab12.watch` calls your function with another clock. It counts what the timed
# call does, insists on device=device, a warm-up and at least five runs, and tells known times, whose median
# is 2 s.


def expect_product():
    """The timed call is one product of two n x n float32 matrices, and 2 n³ over the median is returned."""
    timed = lab12.watch(matrix_peak, 97, device)
    others = timed.others("mm", "matmul", "bmm")
    expect(timed.flops, "The call that you time does no product of two matrices in PyTorch.")
    expect(not others, f"The call that you time does more than a product: {others}.")
    because = "are both n x n, whatever n is?"
    expect.equal(timed.flops, 2 * 97**3, "For n=97, the operations of a product", because=because)
    expect.equal(timed.types, ["float32"], "Types of the numbers (the layers will use torch.float32)")
    expect(isinstance(timed.result, float), f"Return one number, flops per second. This is {timed.result!r}.")
    what = "flops per second (in this check the median run takes 2 s)"
    wrong = lab12.wrong_rates(timed.flops, "flops", half="a multiply-add is two operations")
    expect.close(timed.result, timed.flops / 2, what, slips=wrong)


# %%
# Trial, need not be read.
def expect_copy():
    """The timed call copies a dense, filled array of 120,004 bytes; bytes moved over the median come out."""
    timed = lab12.watch(memory_bandwidth, 120_004, device)
    expect(timed.moved, "The call that you time moves no numbers: a view is not a copy.")
    fresh = "Each call makes a new tensor, and finding memory takes time. Write to an old one."
    expect(not timed.fresh, fresh)
    expect(not timed.onto_itself, "Source and target are one array: PyTorch sees that and copies nothing.")
    gaps = "The array that is read has gaps, or one number many times: take one without slices and expand."
    expect(timed.dense, gaps)
    size = f"The array that is read has {timed.read} bytes, not 120004"
    expect(timed.read > 0.99 * 120_004, f"{size}: too near a cache.")
    expect(timed.read < 1.01 * 120_004, f"{size}: a float32 has 4 bytes.")
    zeros = "The array that is read was not written, or with zeros: the system may have one page for it all"
    expect(timed.filled, f"{zeros}. Fill it, with torch.ones for example.")
    expect(isinstance(timed.result, float), f"Return one number, bytes per second. This is {timed.result!r}.")
    what = "bytes per second (in this check the median run takes 2 s)"
    wrong = lab12.wrong_rates(timed.moved, "bytes", half="what is read and what is written, both are moved")
    expect.close(timed.result, timed.moved / 2, what, slips=wrong)


# %%
# What is asked: the two above; arrays on `device`; and for real, about what labkit's own functions measure.
n = rows if device == "cpu" else 4 * rows
nbytes = megabytes * 10**6
with check("12.2"):
    expect_product()
    expect_copy()
    for function in (matrix_peak, memory_bandwidth):
        # "meta": a device that is everywhere, and computes nothing
        left_out = f"{function.__name__} leaves `device` out: make its arrays with device=device."
        expect(lab12.watch(function, 100, "meta").devices == {"meta"}, left_out)
    peak, own = lab12.measure_both("peak", matrix_peak, n, device)
    expect.between(peak, own / 4, own * 4, f"flop/s, beside labkit's own measurement, {own:.3g}")
    bandwidth, own = lab12.measure_both("bandwidth", memory_bandwidth, nbytes, device)
    expect.between(bandwidth, own / 4, own * 4, f"bytes/s, beside labkit's own measurement, {own:.3g}")

# %%
predict.compare("12.2", gigaflops=peak / 1e9, gigabytes=bandwidth / 1e9)
where = {"device": device, "threads": torch.get_num_threads(), "peak": peak, "bandwidth": bandwidth}
record.add("roofs", rows=n, nbytes=nbytes, **where)

# %% [markdown]
# **Explain.** Ten times off is nothing unusual for a first guess. Less than you reckoned: other programs, a
# lower clock under load, or cores of which each stands for half of one (lab 13). The two numbers are this
# machine's, today: everything below is held against them.
#
# ## The roofline
# At best a machine fetches while it computes, and the slower of both decides. At intensity I, memory lets
# `bandwidth * I` flops pass in a second. So a layer reaches at most that, and never more than the peak: the
# **roofline** (Williams and others, 2009).
#
# The two roofs meet at the **ridge**, I = peak / bandwidth. Left of it a layer is **memory-bound**, right
# of it **compute-bound**.
#
# ### Predict
# Use your two numbers and the intensities of 12.1. By the roofline, 128 images take the linear layer how many
# times as long as one? And with one image, what percent of the peak does it reach?

# %%
predict("12.3", times_as_long=20, percent_of_peak=5)

# %% [markdown]
# ### Exercise 12.3 · What is possible
# The roofline as flop/s, and as seconds: the least time for so much work. 1 line each. *(beginner)*
#
# <details><summary>Hint 1: two roofs</summary>
#
# Under two roofs the lower one is the limit. Of two things that go on at once the longer one counts.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min` of the peak and `bandwidth * intensity`; `max` of `flops / peak` and the bytes over the bandwidth.
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
# Trial, need not be read.
def expect_roofs(work, moved, top, speed):
    """Both functions for so many flops and bytes, on a machine with these roofs, in flop/s and bytes/s."""
    intensity = work / moved
    machine = f"of a peak of {top}, with {speed} bytes/s"
    slanted = speed * intensity  # flop/s
    higher = {"this is the higher of the two roofs": max(top, slanted)}
    what = f"flop/s at {intensity:g} flops per byte, {machine}"
    expect.close(attainable(intensity, top, speed), min(top, slanted), what, slips=higher)
    arithmetic = work / top  # seconds
    memory = moved / speed
    wrong_seconds = {
        "arithmetic and memory go on at once: the longer one counts, not the sum": arithmetic + memory,
        "this is the shorter one. It waits for the other": min(arithmetic, memory),
    }
    what = f"seconds for {work} flops and {moved} bytes, {machine}"
    seconds_needed = least_seconds(work, moved, top, speed)
    expect.close(seconds_needed, max(arithmetic, memory), what, slips=wrong_seconds)


# %%
# What is asked: the lower of the two roofs, and the longer of the two times, on two machines.
with check("12.3"):
    for work, moved in ((50, 100), (4000, 100), (1000, 100), (70, 7)):  # flops, bytes
        expect_roofs(work, moved, top=1000, speed=100)
        expect_roofs(work, moved, top=300, speed=50)

# %% [markdown]
# ### Measure
# Layers of several kinds, timed one after the other. `torch.inference_mode()` leaves out what PyTorch would
# keep for a backward pass. "linear, 8" is the linear layer with 8 images.

# %%
layers = lab12.layers(linear_cost, conv_cost, side, device)  # name: layer, images, flops, bytes
times = {}
for name, (layer, images, flops, moved) in layers.items():
    with torch.inference_mode():
        times[name] = timing.measure(partial(layer, images), device=device, seconds=seconds)
    record.add("layer", layer=name, flops=flops, nbytes=moved, seconds=times[name], **where)
lab12.show_roofline(attainable, least_seconds, layers, times, **where)

# %%
with_one = times["linear, 1"].median  # seconds
with_many = times["linear, 128"].median
percent = 100 * 2 * side**2 / with_one / peak
predict.compare("12.3", times_as_long=with_many / with_one, percent_of_peak=percent)

# %% [markdown]
# **Explain.** With one image the linear layer fetches 4 bytes for two flops and lies far left, under the
# slanted roof. By the model more images cost next to nothing up to the ridge: that is why one computes in
# batches. ReLU treats each number by itself (it is **element-wise**). It does a flop for 8 bytes, whatever
# the batch, and stays on the left.
#
# *Below* the roof it may be calls whose fixed price counts, results that are written to fresh memory, or,
# near the ridge, arithmetic and fetching that overlap only in part. This figure does not tell which.
#
# *Above* the roof? That needs a reason, as it cannot be by the model. <details><summary>Answer</summary>
#
# * Numbers that were still in a cache: a large server's last cache holds 67 MB of weights.
# * A layer that only *reads*, as a linear layer nearly does. Our slanted roof is a copy, counted as two
#   arrays. Many processors read a line of memory before they write to it. Then a copy moves three, and
#   reading alone may be 1.5 times as fast as our roof.
# * Writing where one has just read (ReLU works in place) saves that reading, too.
# * A library whose convolution beats the product's, or takes fewer multiplications than we count.
# * A roof that was measured while others used the machine: then run 12.2 again.</details>
#
# ## A step that is too slow
# A colleague's training step, of a net with four convolutions. Its loss falls, so it is right. Where does the
# time go?
#
# PyTorch's profiler tells (`kind="torch"`): it lists the operators that ran, with their calls and seconds.
# Names with `conv` are convolutions, `aten::mm` and `aten::addmm` products of matrices.


# %%
def slow_step(net, optimizer, pixels, labels, rows):
    """One SGD step with the images `rows` of a data set of pixels, 0 to 255. Returns their mean loss."""
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
# In the table `calls` are per step, and `seconds` an operator's own, without those that it called. How often
# should four convolutions be called in a step? And of how many images are mean and spread taken (`sub`,
# `div`, `std`), if the step needs one batch?
#
# ### Predict
# With both mended, how many times as fast is the step? What is done for the whole data set goes: add its
# seconds up. What is called for each image is called once: its fixed price goes, its arithmetic stays. Guess
# the rest.

# %%
predict("12.4", times_as_fast=4)

# %% [markdown]
# ### Exercise 12.4 · Mend it
# Same loss, same weights after it. But `prepare` is called *once*, before training, and its result is given
# to each `quick_step` in place of the pixels. No work image by image, none for the whole data set. 2 and 5
# lines. *(beginner)*
#
# <details><summary>Hint 1: the loop</summary>
#
# `images[rows]` picks the whole batch, and `F.cross_entropy` takes the mean over it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `prepare`: the slow step's first two lines, returned. `quick_step` is lab 10's: `optimizer.zero_grad()`,
# `loss = F.cross_entropy(net(prepared[rows]), labels[rows])`, backward, step, `return loss.item()`.
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
# Trial, need not be read.
def expect_same_training(training):
    """Three steps with the losses and weights of the slow step, in float32, and not more arithmetic."""
    for step in training.steps:
        number = f"Return the loss as a plain number, loss.item(). This is {step.loss!r}."
        expect(isinstance(step.loss, float), number)
        what = f"the loss in step {step.number} (mean and spread of all pixels? labels of `rows`?)"
        summed = {"this is the sum of the images' losses, not their mean": training.batch * step.wanted}
        expect.close(step.loss, step.wanted, what, rtol=3e-5, slips=summed)
        still = "The weights do not move: zero_grad, then loss.backward(), then optimizer.step()."
        expect(step.moved, still)
        off = f"the weights after it are off by {step.difference:.2g}: {step.cure()}"
        expect(step.difference < 1e-4, f"The loss of step {step.number} is right, {off}")
    double = "float64: twice the bytes and less than half the speed for digits unused."
    expect(not training.double, double)
    again = f"{training.flops / training.flops_of_slow:.3g} times the flops of the slow step"
    twice = f"Right, but {again}: does the net see more than the batch, or see it twice?"
    expect(training.flops <= training.flops_of_slow, twice)


# %%
# What is asked: the same training; as many operators for a batch of 4 as of 12; the net runs once a step; as
# many bytes a step where 40 images are stored as where 400 are.
with check("12.4"):
    of_4 = lab12.train_both(slow_step, prepare, quick_step, images=40, batch=4)
    of_12 = lab12.train_both(slow_step, prepare, quick_step, images=40, batch=12)
    of_400 = lab12.train_both(slow_step, prepare, quick_step, images=400, batch=12)
    for training in (of_4, of_12, of_400):
        expect_same_training(training)
    calls = f"{of_4.operators} operators for 4 images, {of_12.operators} for 12"
    expect(of_4.operators == of_12.operators, f"Right, but {calls}: still something for each image.")
    runs = f"the net ran {of_12.runs} times for one batch. Give it all images of the batch at once."
    expect(of_12.runs == 1, f"Right, but {runs}")
    grew = f"{of_12.moved:,} bytes a step with 40 images to choose from, {of_400.moved:,} with 400"
    whole = f"Right, but it moves {grew}: still something for the whole data set."
    expect(of_12.moved == of_400.moved, whole)

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
# `one_by_one` still goes image by image, but over a data set of this batch alone; `all_again` takes the
# batch at once, but prepares all pictures in each step.

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
    print(f"{name:10} {took.rate(work) / 1e9:7.3g} Gflop/s, {took.rate(work) / peak:6.1%} of the peak")
    record.add("step", step=name, batch=batch, flops=work, seconds=took, **where)
gain = np.median(times["as found"].samples / times["mended"].samples)
predict.compare("12.4", times_as_fast=gain)

# %% [markdown]
# **Explain.** Each mend takes its part away, and the controls say how much. The arithmetic of the net is the
# same in all four. The mended step is still some way from the peak. The profile above says how much of it the
# convolutions are, and lists the largest operators of the rest. The calls' fixed price is not measured here.
#
# Which of the two mends matters more with ten times as many pictures in the data set?
# <details><summary>Answer</summary> `prepare`: its work grows with the data set, in every step. The loop's
# price depends on the batch alone.</details>
#
# ### What you take away
# - Flops over bytes tell if a layer waits for arithmetic or for memory. The ridge is peak over bandwidth.
# - Small batches and element-wise operators are memory-bound. For a larger batch the weights are read once.
# - In a profile look at calls, too: the work may be done in small pieces.
# - Next: threads (13), fewer bits (14), input (15). Across devices the network is a third roof (22, 32).
#
# ## For those who have time: which library ran?
# PyTorch hands heavy work on.
#
# * Matrix products go to a **BLAS** (basic linear algebra subprograms; products of matrices are its level 3,
#   Dongarra and others, 1990): MKL or OpenBLAS, on GPUs cuBLAS.
# * Convolutions go to a **DNN library**: oneDNN (once MKL-DNN), on GPUs cuDNN. Or to the BLAS, as it sees
#   fit.
# * ReLU is PyTorch's own loop.
#
# The profiler tells: `aten::mm` and `aten::addmm` are products, `aten::mkldnn_convolution` is oneDNN's.

# %%
# Each layer once, under the profiler. (overhead=False: do not also measure what recording costs.)
ran = profiling.record(lambda: lab12.run(layers), steps=2, kind="torch", device=device, overhead=False)
print(ran.operators(6).to_string())

# %% [markdown]
# **Explain.** Which names do you see? Those with `mkldnn` or `cudnn` are the DNN library's, `mm` and
# `addmm` the BLAS'. With `ONEDNN_VERBOSE=1` set before Python starts, oneDNN also says which instructions it
# uses.
#
# ## For those who have time: fewer bytes, by a compiler
# What is memory-bound gets faster if it moves less. `relu(x * 0.5 + 1) + x` is four operators. PyTorch runs
# them one after the other as it meets them, which is called **eager**. They read and write 2, 2, 2 and 3
# arrays, nine in all.
#
# **torch.compile** makes one loop of them: it **fuses** them. The loop reads x and writes the result, two
# arrays. By the roofline that should be 9/2 = 4.5 times as fast.

# %%
if compiled:
    # About 20 s: the first call writes a program and compiles it.
    gain = lab12.compiled(lambda x: torch.relu(x * 0.5 + 1) + x, nbytes // 8, device, predicted=9 / 2)
    record.add("compiled", times_as_fast=gain, **where)

# %% [markdown]
# **Explain.** By counting you may expect a little less than 4.5, and not less than 4.
#
# * If each written line is read first, the eager operators move 3 + 3 + 3 + 4 = 13 arrays and the loop 3:
#   that is 4.33.
# * The eager operators make four new arrays a call, and the loop one. If finding memory took all the time,
#   that would be 4.
#
# Below 4 something else is at work, and this cell does not tell what: an eager operator may find in a cache
# what the one before it wrote, or the loop may wait for arithmetic. More than 4.5 takes an eager price that
# we did not count, such as a call's (try fewer `megabytes`).
#
# Without a C++ compiler the cell says so, and measures nothing.
