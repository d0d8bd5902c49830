# %% [markdown]
# # 12 Find the bottleneck
#
# Before a step is spread over 100 devices it should be fast on one. Two measured numbers of this machine tell
# for each layer how fast that could be. Then you find what holds up a training step, and mend it.
#
# **You will be able to** (1) count a layer's flops and bytes, (2) measure a machine's two roofs, (3) say what
# a layer's time could be, and which library it is spent in, (4) find a step's bottleneck in a profile.
#
# Needs: torch · Ranks: 1 · Minutes: 45 · Before: 01, 10

# %%
from functools import partial

import torch
import torch.nn.functional as F
from labkit import check, hint, lab, plots, predict, profiling, record, timing, world
from support import lab12

lab.start("12_find_the_bottleneck")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"

# %% tags=["parameters"]
threads = 0  # of PyTorch on the CPU; 0: as many as this process has cores
rows = 2048  # rows and columns of the matrices whose product is the peak; on a GPU four times as many
megabytes = 256  # size of each array that is copied: take far more than your caches hold
side = 4096  # inputs and outputs of the linear layer, as in AlexNet and VGG-16
pictures = 4096  # images in the data set of 12.4, in CIFAR-10's shape
batch = 32  # images per training step there
seconds = 2  # spent on each measurement, about
compiled = True  # also try torch.compile, which takes some ten seconds

# %% [markdown]
# ## What a layer does, and what it moves
# A layer is arithmetic, counted in floating-point operations (**flops**; a multiply-add is two), on numbers
# that come from memory and go back there (**bytes**). Flops over bytes is its **arithmetic intensity**.
# **Predict**: a linear layer has 4,096 inputs and outputs, 16.8 million float32 weights, of 4 bytes each. How
# many flops per byte with one image, and with 128?
#
# ### Exercise 12.1 · Flops and bytes
# Count one forward pass, without bias. Bytes: the *least* there can be: images and weights are read once, the
# result is written once, `size` bytes a number. A linear layer does a multiply-add for each weight and image.
# A convolution has `filters` filters of `channels x kernel x kernel` weights, and does a multiply-add for
# each weight, place of the picture that comes out, and image. Rows of that picture, and likewise columns:
# `(height + 2 * padding - kernel) // stride + 1`. 2 and 5 lines.
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
lab12.begin(threads, pictures, batch, rows=rows, megabytes=megabytes, side=side, seconds=seconds)
torch.backends.cudnn.allow_tf32 = False  # on a GPU: convolutions in float32, too, not with 19 bits
print(f"{device}; PyTorch uses {torch.get_num_threads()} of this process's {world.cores()} CPU cores")
predict("12.1", one_image=0.5, many_images=64)  # flops per byte


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
with check("12.1"):  # PyTorch is the referee: its count of flops, its tensors' bytes; float32 and float16
    lab12.expect_costs(linear_cost, conv_cost)
intensity = [flops / moved for flops, moved in (linear_cost(n, 4096, 4096, 4) for n in (1, 128))]
predict.compare("12.1", one_image=intensity[0], many_images=intensity[1])

# %% [markdown]
# ## The two roofs
# Data sheets tell speeds that nobody reaches; we measure. Arithmetic: a product of large matrices, as little
# comes nearer. Memory: a copy far larger than the caches. **Predict**: how many Gflop/s (10⁹ a second), GB/s?
#
# ### Exercise 12.2 · Measure both
# `timing.measure(call, device=device, seconds=seconds)` warms up, waits for a GPU, and returns a measurement
# with a `.median`. Make the arrays before: the call does one thing. Each of the product's n² numbers takes n
# multiply-adds. For the copy count bytes read *and* written (as McCalpin's STREAM does, 1995), and write to
# an array that is there: with a new one each time, you would time how the system finds memory. 3 and 4 lines.
#
# <details><summary>Hint 1: the product</summary>
#
# `a` and `b` from `torch.randn(n, n, device=device)`. The call: `lambda: a @ b`. The work: `2 * n**3` flops.
# </details>
# <details><summary>Hint 2: what to copy, nearly the answer</summary>
#
# A float32 has 4 bytes: `source = torch.ones(nbytes // 4, device=device)`. Not `zeros` or `empty`: for memory
# that nobody wrote to, Linux has one page of zeros, and you would read that from a cache. The `target` may be
# `torch.empty_like(source)`, the call is `lambda: target.copy_(source)`, the work `2 * source.nbytes`.
# </details>


# %%
predict("12.2", gigaflops=200, gigabytes=20)


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
n, nbytes = rows if device == "cpu" else 4 * rows, megabytes * 10**6
with check("12.2"):  # with a clock that counts and tells known times; then for real, beside labkit's own
    peak, bandwidth = lab12.expect_roofs(matrix_peak, memory_bandwidth, n, nbytes, device)
predict.compare("12.2", gigaflops=peak / 1e9, gigabytes=bandwidth / 1e9)
where = {"device": device, "threads": torch.get_num_threads(), "peak": peak, "bandwidth": bandwidth}
record.add("roofs", rows=n, nbytes=nbytes, **where)

# %% [markdown]
# ## The roofline
# At best a machine fetches while it computes, and the slower of both decides: at intensity I a layer reaches
# at most `bandwidth * I` flop/s, and never more than the peak (Williams and others, 2009). The roofs meet at
# the **ridge**. Left of it a layer is **memory-bound**, right of it **compute-bound**. **Predict**: 128
# images take the linear layer how many times as long as one? With one, what percent of the peak?
#
# ### Exercise 12.3 · What is possible
# The roofline as flop/s and as seconds, and how long a layer's forward pass takes: time `layer(images)` below
# `with torch.inference_mode():` (no notes for a backward pass). Return the measurement. 1, 1 and 2 lines.
#
# <details><summary>Hint 1: two roofs</summary>
#
# Under two roofs the lower one is the limit: `min`. Of two things that go on at once the longer one counts.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min(peak, bandwidth * intensity)`; `max(flops / peak, nbytes / bandwidth)`; and below the `with`
# `return timing.measure(lambda: layer(images), device=device, seconds=seconds)`.
# </details>


# %%
predict("12.3", times_as_long=20, percent_of_peak=5)


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


def forward_time(layer, images, device):
    """What timing.measure says of layer(images)."""
    ### BEGIN SOLUTION
    with torch.inference_mode():
        return timing.measure(lambda: layer(images), device=device, seconds=seconds)
    ### END SOLUTION


# %%
with check("12.3"):
    lab12.expect_bounds(attainable, least_seconds)
    lab12.expect_forward(forward_time, device)
layers = lab12.layers(linear_cost, conv_cost, side, device)  # name: layer, images, flops, bytes
times = {name: forward_time(layer, images, device) for name, (layer, images, *_) in layers.items()}
lab12.show(attainable, least_seconds, layers, times, **where)
for name, (*_, flops, moved) in layers.items():
    record.add("layer", layer=name, flops=flops, nbytes=moved, seconds=times[name], **where)
one, many = times["linear, 1"].median, times["linear, 128"].median
predict.compare("12.3", times_as_long=many / one, percent_of_peak=100 * 2 * side**2 / one / peak)

# %% [markdown]
# **Explain.** ("linear, 8": with 8 images.) With one image the linear layer fetches 4 bytes for two flops.
# By the model, more images cost next to nothing up to the ridge: hence batches. ReLU has a flop for 8 bytes,
# whatever the batch. *Below* the roof: a call's fixed price, fresh memory, or, near the ridge, two waits
# that overlap in part. *Above*: numbers from a cache, or written where they were read (ReLU), a library that
# beats the product's, or a roof measured while others used the machine: then run 12.2 again.
#
# ### Which library ran?
# PyTorch hands heavy work on: matrix products to a **BLAS** (basic linear algebra subprograms, Lawson and
# others, 1979): MKL, OpenBLAS, on GPUs cuBLAS; convolutions to a **DNN library**: oneDNN (once MKL-DNN), on
# GPUs cuDNN; or to the BLAS, as it sees fit. ReLU is PyTorch's own loop. The profiler tells. With
# `ONEDNN_VERBOSE=1` set, oneDNN does, too: `avx512_core` on the AMD EPYC of our reference results. Its
# convolution does about twice the flop/s of MKL's product there: the point above the flat roof.

# %%
ran = profiling.record(lambda: lab12.run(layers), steps=2, kind="torch", device=device, overhead=False)
print(ran.operators(6).to_string())

# %% [markdown]
# ## A step that is too slow
# A colleague's step, of a net with four convolutions; its loss falls. Where does the time go?


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
# `calls` are per step, `seconds` an operator's own, without those that it called. How often should four
# convolutions be called? On a CPU a long block begins the step: `sub`, `div`, `std` of how many images, if it
# needs a batch? **Predict**: with both mended, how many times as fast is the step?
#
# ### Exercise 12.4 · Mend it
# Same loss, same weights after it. But `prepare` is called *once*, before training; its result is given to
# each `quick_step` in place of the pixels. No work image by image, none for the whole data set. 2, 5 lines.
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
predict("12.4", times_as_fast=4)


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
with check("12.4"):  # losses and weights of three steps; operators and bytes are counted
    lab12.expect_mended(slow_step, prepare, quick_step)
mended = partial(quick_step, net, optimizer, prepare(pixels), labels, chosen)
after = profiling.record(mended, kind="torch", device=device)
after.show("The step, mended")
print(after, after.operators(6).to_string(), sep="\n")
ratio, work = timing.ratio(as_found, mended, device=device, repeat=9, warmup=1), lab12.flops(mended)
times = {"as found": ratio.a, "mended": ratio.b}
plots.spread(times, title=f"A training step, {batch} images")
for name, took in times.items():
    print(f"{name:9} {took.rate(work) / 1e9:7.3g} Gflop/s, {took.rate(work) / peak:6.1%} of the peak")
    record.add("step", step=name, batch=batch, flops=work, seconds=took, **where)
predict.compare("12.4", times_as_fast=ratio)

# %% [markdown]
# ## Fewer bytes: a compiler
# What is memory-bound gets faster if it moves less. `relu(x * 0.5 + 1) + x` is four operators; they move 2,
# 2, 2 and 3 arrays, nine in all. **torch.compile** makes one loop of them, which reads x and writes the
# result: two arrays. By the roofline that should be 9/2 = 4.5 times as fast.

# %%
if compiled:
    gain = lab12.compiled(lambda x: torch.relu(x * 0.5 + 1) + x, nbytes // 8, device, predicted=9 / 2)
    record.add("compiled", times_as_fast=gain, **where)

# %% [markdown]
# ### What you take away
# - Flops over bytes tell if a layer waits for arithmetic or for memory. The ridge is peak over bandwidth.
# - Small batches and element-wise operators are memory-bound: share the weights, fuse the operators.
# - A BLAS and a DNN library do the work. In a profile look at calls, too: it may reach them in small pieces.
# - Next: threads (13), fewer bits (14), input (15). Across devices the network is a third roof (22, 32).
