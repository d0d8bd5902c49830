# %% [markdown]
# <!-- Generated from solutions/62_model_parallel.py by `make labs`. Learners work on a copy in work/. -->
# # 62 Model parallelism
#
# Plain [data parallelism](../labs/GLOSSARY.md#data-parallelism) needs a full copy of the model on every device. If the model does not fit
# into the memory of one device, this is impossible, and the model itself has to be partitioned.
#
# The simplest partition cuts the network between its layers into **stages**, one for each [rank](../labs/GLOSSARY.md#rank). The
# [activations](../labs/GLOSSARY.md#activation) then travel from stage to stage in the [forward pass](../labs/GLOSSARY.md#forward-pass), and their [gradients](../labs/GLOSSARY.md#gradient) travel back.
# Each device needs less memory, and we will measure how the partition changes the time of a step.
#
# In this lab we partition a network into stages, write its forward and [backward pass](../labs/GLOSSARY.md#backward-pass) across the
# ranks, show that it learns exactly as before, and measure how much memory each rank saves and how
# long it is idle.
#
# **After this lab you can** (1) partition a network into stages, (2) send activations forward and
# gradients back between ranks, (3) show that the network learns exactly as before, and (4) say how
# much memory this saves, and which ranks are idle when.
#
# ![Three ranks with the stages of a network of five blocks: two blocks, one block, two blocks; solid arrows with activations lead from each rank to the next, and dashed arrows with gradients lead back](../notebooks/figures/62_stages.svg)
#
# *A network of five blocks in three stages. Activations (solid) travel to the next rank, and their
# gradients (dashed) travel back.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 50 · Level: intermediate · Before: 02, 20, 30

# %%
import itertools

import numpy as np
import pandas
import torch
from labkit import check, hint, lab, launch, nets, predict, record, timing, world
from support import lab62
from torch.nn import functional

lab.start("62_model_parallel")
ranks = launch.ranks_here(4)

# %% tags=["parameters"]
width = 512  # input and output features of the inner blocks
depth = 10  # blocks of the network, of which two are small: the first and the last
images = 256  # images in a step
repeat = 10  # timed steps
patience = 20  # seconds after which a check calls a program stuck


# %% [markdown]
# ## 1. Where to partition
# In [lab 30](30_average_gradients.ipynb) every rank had the whole network and a part of the images, which is *data parallelism*.
# Here it is the opposite: every rank processes all images and has a part of the **network**, which
# is *model parallelism*.
#
# Our network is a list of **blocks**, each of which is a layer and its ReLU (the last block has no
# ReLU). The blocks of one rank are its **stage**.
#
# Each block has a cost, for example time or bytes. Here the cost is the bytes of its parameters,
# their gradients and their optimizer state (here Adam's averages). We do not count the bytes of
# activations, which are smaller here.
#
# Every rank needs enough memory for its stage. Therefore the most expensive stage should be as
# cheap as possible.
#
# A partition is written as a list of stage boundaries, called **edges** in the code. Stage s has
# the blocks from `edges[s]` up to, but not including, `edges[s + 1]`. In the figure above, the
# edges are `[0, 2, 3, 5]`, so stage 0 has the blocks 0 and 1.
#
# **An example.** Three blocks with the costs 1, 1, 4 form two stages in two ways. The second
# partition is better, because its most expensive stage costs less.
#
# | edges | costs of the blocks in each stage | costs of the stages | most expensive stage |
# |---|---|---|---|
# | `[0, 1, 3]` | (1) and (1, 4) | 1 and 5 | 5 |
# | `[0, 2, 3]` | (1, 1) and (4) | 2 and 4 | **4** |
#
# ### Exercise 62.1 · The best cut
# `costs` contains one number for each block. Return the edges of `stages` stages with at least one
# block each, chosen so that the most expensive stage is as cheap as possible. There are few blocks,
# so try every partition. Two functions help:
#
# - `itertools.combinations(range(1, 5), 2)` yields every choice of two of the numbers 1, 2, 3, 4,
#   in order: `(1, 2), (1, 3), …`
# - `min(choices, key=function)` returns the choice with the smallest value of the function.
#
# About 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: every partition</summary>
#
# To partition the blocks into 3 stages, choose 2 places between blocks as inner edges. Put 0 before
# these places and the number of blocks after them: `[0, *places, len(costs)]`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The cost of the most expensive stage is
# `max(sum(costs[a:b]) for a, b in itertools.pairwise(edges))`. Write this as a function, and pass
# the function to `min` as its `key`.
# </details>

# %%
def cut(costs, stages):
    """Edges of `stages` stages of the blocks with these costs: stages + 1 numbers, from 0 to
    len(costs)."""
    raise NotImplementedError("exercise 62.1: The best cut")


# %%
# Asked: Whole, rising edges from 0 to the end, and no cut whose most expensive
# stage is cheaper.
check("62.1", cut)


# %% [markdown]
# ## 2. The forward pass across the ranks
# A rank receives the result of the previous rank, computes its stage, and sends the result to the
# next rank:
#
# - Rank 0 takes the images themselves.
# - The last rank sends nothing, because the result of its stage is the network's answer.
#
# For the backward pass, PyTorch records how each tensor was computed. This record is the *history*
# of the tensor. The next cell shows how far a gradient gets if a tensor is copied on its way, as in
# a message:
#
# - Inside one process, the cell cuts a network between its two blocks, by detaching
#   (`tensor.detach()`) and copying the activations.
# - `entering.requires_grad_()` makes PyTorch compute the gradient of the copy.
# - The cell calls `loss.backward()` and prints the gradient of the first block's weights.
#
# Before you run the cell: will this gradient be right, zero or missing?

# %%
def cut_in_one_process():
    """Print what the first block's weights get as gradient, of the whole network and of its
    halves."""
    first, second = nets.torch_blocks([64, 32, 10])
    pictures = torch.rand(8, 64)
    labels = torch.arange(8)
    weights = first[0].weight
    functional.cross_entropy(second(first(pictures)), labels).backward()
    whole = weights.grad
    weights.grad = None
    leaving = first(pictures)
    entering = leaving.detach().clone()  # as if it had arrived in a message
    entering.requires_grad_()
    functional.cross_entropy(second(entering), labels).backward()
    print("gradient of the first block after loss.backward():", weights.grad)
    leaving.backward(entering.grad)  # continues from there
    same = torch.allclose(weights.grad, whole)
    print("after leaving.backward(entering.grad), is it that of the whole network?", same)


cut_in_one_process()


# %% [markdown]
# The first line prints `None`, so the gradient is missing. `loss.backward()` ends at the copy,
# because the copy has no history that leads to the first block. The backward pass only needs the
# gradient of the copy in order to continue in the first block, as the second line shows.
#
# A tensor that arrives in a message has no history either, because PyTorch records a computation
# only inside one process. So the previous rank needs the gradient **of the tensor that entered the
# stage**, and in section 3 this gradient will be a message.
#
# PyTorch computes the gradient if you call `tensor.requires_grad_()` *after* `Recv` has filled the
# tensor and *before* the stage computes with the tensor. After the backward pass the gradient is in
# `tensor.grad`.
#
# ### Exercise 62.2 · One stage forwards
# Return two tensors, first the one that **entered** this rank's stage, then the one that **leaves**
# the stage.
#
# - `stage(tensor)` computes the stage. Call it once.
# - `comm.Send(tensor, dest=…)` and `comm.Recv(tensor, source=…)` send tensors as they send NumPy
#   arrays, and `Recv` fills the tensor that it is given.
# - A tensor with a history must be detached before it is sent. Don't convert tensors to NumPy
#   arrays, because section 4 runs your functions on GPUs if each rank has its own.
# - `pictures.new_empty(len(pictures), stage[0][0].in_features)` is a tensor to receive into, on the
#   device of the images. Here `stage[0][0]` is the layer of the stage's first block, and
#   `in_features` is its number of input features for each image.
# - Every rank gets `pictures`, but ranks other than 0 use only the number and the device of the
#   images.
#
# About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: three kinds of ranks</summary>
#
# On rank 0, `entering = pictures`. All others create an empty tensor, `Recv` into it from
# `comm.rank - 1`, and then call `entering.requires_grad_()`. All ranks except the last one send.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `leaving = stage(entering)`, then
# `if comm.rank < comm.size - 1: comm.Send(leaving.detach(), dest=comm.rank + 1)`, then
# `return entering, leaving`.
# </details>

# %%
def forward(comm, stage, pictures):
    """This rank's part of the forward pass. Returns (what entered the stage, what leaves it)."""
    raise NotImplementedError("exercise 62.2: One stage forwards")


# %%
# Asked: On 1 to 4 ranks, the answer of one process, by Send and Recv, ready for
# the backward pass.
check("62.2", forward)


# %% [markdown]
# ## 3. The backward pass
# The last rank has the [loss](../labs/GLOSSARY.md#loss). There `loss.backward()` computes the gradients of the rank's
# parameters and the gradient of the tensor that entered its stage, `entering.grad`.
#
# The rank sends `entering.grad` to the previous rank. For the previous rank, it is the gradient of
# the tensor that *left* its stage, so `leaving.backward(gradient)` continues the backward pass, as
# in the cell of section 2.
#
# ### Exercise 62.3 · One stage back
# `loss` is a tensor on the last rank, and None on all others. After `backward`, every parameter of
# every stage must have its gradient. `torch.empty_like(leaving)` is a tensor to receive into. About
# 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: two beginnings</summary>
#
# The last rank begins with `loss.backward()`. The other ranks first receive a gradient from
# `comm.rank + 1`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The others: `gradient = torch.empty_like(leaving)`, `comm.Recv(gradient, source=comm.rank + 1)`,
# `leaving.backward(gradient)`. Then all ranks except 0 send `entering.grad` to `comm.rank - 1`.
# </details>

# %%
def backward(comm, entering, leaving, loss):
    """This rank's part of the backward pass: gradients for its stage's parameters, and one for the
    previous rank."""
    raise NotImplementedError("exercise 62.3: One stage back")


# %%
# Asked: On 1 to 4 ranks, every gradient that one process computes.
check("62.3", backward)

# %% [markdown]
# ## 4. What is it good for?
# Now all stages train together. What does the partition save, and what does it cost?
#
# ### Predict
# A network of eight equal blocks plus a small block at each end is spread over four ranks.
#
# - `bytes_share`: what share (0 to 1) of the whole network's bytes (parameters, gradients, Adam's
#   two averages for each parameter) does the fullest rank have?
# - `busy_share`: for what share of a step does a rank compute, on average, if only computation
#   takes time?

# %%
predict("62.3", bytes_share=..., busy_share=...)  # two numbers between 0 and 1


# %% [markdown]
# ### Measure
# `study` runs training steps with Adam on one rank, on two and on four, which took 5 s on two CPU
# cores. On each number of ranks, `study` returns
#
# - the bytes of each rank's stage (without the other layers, which each rank builds first),
# - the time of a step,
# - the losses of the first and of the last step,
# - the times at which each rank computed.
#
# If each rank has its own GPU, `launch.on_devices` runs the same functions there, and
# [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html), NVIDIA's library for messages between GPUs, sends the tensors. Otherwise tensors
# stay in host memory, and [MPI](../labs/GLOSSARY.md#MPI) sends them.

# %%
@launch.on_devices()
def study(comm):
    """Bytes held, the Measurement of a step, the first and the last loss, spans of one step, and
    the device, on every rank."""
    widths = [64] + [width] * (depth - 1) + [10]
    blocks = nets.torch_blocks(widths)
    costs = [block[0].weight.numel() for block in blocks]
    edges = cut(costs, comm.size)
    device = world.device()
    stage = torch.nn.Sequential(*blocks[edges[comm.rank] : edges[comm.rank + 1]]).to(device)
    optimizer = torch.optim.Adam(stage.parameters(), lr=1e-4)
    pictures = torch.rand(images, 64, generator=torch.Generator().manual_seed(0)).to(device)
    labels = torch.arange(images, device=device) % 10

    def step():
        optimizer.zero_grad()
        entering, leaving = forward(comm, stage, pictures)
        last = comm.rank == comm.size - 1
        loss = functional.cross_entropy(leaving, labels) if last else None
        backward(comm, entering, leaving, loss)
        optimizer.step()
        return loss.item() if last else None

    first = step()
    measured = timing.measure(step, repeat=repeat, comm=comm, device=device)
    losses = first, step()  # with as many steps between them for every number of ranks
    spans = lab62.busy_spans(comm, stage, step)
    held = lab62.held(stage, optimizer)
    return held, measured, comm.bcast(losses, root=comm.size - 1), spans, device


# %%
ranks = min(ranks, depth)  # in a larger job, some ranks would have no block
sizes = sorted({1, 2, ranks})
studies = {size: launch.run(study, ranks=size, threads=1) for size in sizes}
rows = []
for size, results in studies.items():
    most = max(held for held, *_ in results)
    _, step, (first, loss), _, device = results[0]
    record.add("model parallel", seconds=step, ranks=size, bytes=most, loss=loss, trained_on=device)
    rows.append(
        {
            "ranks": size,
            "device of rank 0": device,
            "most MB on a rank": most / 1e6,
            "ms a step": 1e3 * step.median,
            "first loss": first,
            "last loss": loss,
        }
    )
    print(f"{size} ranks: {step}")
print(pandas.DataFrame(rows).set_index("ranks").round(4))

# %% [markdown]
# The loss falls. The control is the row of one rank, which has the whole network. In each of the
# two loss columns, the value should be the same in all rows, so the partitioned network learns as
# before.
#
# The next cell prints the bytes of each rank in the last run, and the share of a step in which the
# rank computes. The plot shows when each rank computed.

# %%
_, step, _, spans, _ = studies[ranks][0]
end = max(finish for own in spans for _, _, finish in own)
busy = [sum(finish - start for _, start, finish in own) / end for own in spans]
whole = studies[1][0][0]
most = max(held for held, *_ in studies[ranks])
megabytes = [round(held / 1e6, 2) for held, *_ in studies[ranks]]
print(f"Megabytes on each rank: {megabytes}, of {whole / 1e6:.2f}")
print(
    "Share of the step in which each rank computes:",
    np.round(busy, 2),
    "together",
    round(sum(busy), 2),
)
predict.compare("62.3", bytes_share=most / whole, busy_share=float(np.mean(busy)))
lab62.draw_busy(spans, "One stage computes, the others wait")

# %% [markdown]
# **Explain: memory.** Each rank has roughly, but not exactly, its share of the bytes, because
# blocks cannot be halved. Model parallelism is meant for **networks that do not fit into one
# device**.
#
# A parameter takes 16 bytes, 4 each for the parameter, its gradient and Adam's two averages, so a
# block of 512 × 512 weights takes 4.2 MB. With 4 ranks, rank 0 has two of these blocks and the
# small first block, which is 8.9 of 34.2 MB, or 26 %.
#
# **Explain: time.** The stages do not make training faster. In the forward pass a stage needs the
# result of the previous one, and in the backward pass the gradient of the next one, so the colored
# spans in the plot never overlap in time.
#
# On average, each of four ranks therefore computes for at most a quarter of the step. All spans
# together take about as long as one rank needs for the whole network, so the step is not shorter.
#
# <details><summary>My step is shorter, or longer, on several ranks. Why?</summary>
#
# It may be a little shorter, because a rank does its part of Adam's arithmetic while earlier ranks
# still compute, or because a smaller stage fits better into a core's cache. It may be longer
# because of the messages or shared cores. This measurement does not distinguish these causes.
# </details>
#
# What could the ranks do in their idle time?
# <details><summary>Answer</summary>
#
# They could process other images. While rank 1 computes with the first images, rank 0 could begin
# with the next ones. This is [pipeline parallelism](../labs/GLOSSARY.md#pipeline-parallelism) ([lab 63](63_pipeline_parallel.ipynb)).
# </details>
#
# ### What you take away
# - Model parallelism partitions the network. Activations are sent forward, and their gradients are
#   sent back.
# - With p ranks, each rank has about 1/p of the parameters, gradients and optimizer state.
# - With stages, unless you do more, only one rank at a time computes its forward or backward pass,
#   so p ranks are hardly faster than one. [Lab 63](63_pipeline_parallel.ipynb) fills the idle time.
#
# ## Going further (optional): all devices in one process (1 minute)
# If all devices belong to one process, for example the GPUs of one node, you don't need to write
# messages. The program says where each part is computed, and the framework copies the tensors, with
# `block.to("cuda:1")` and `values.to("cuda:1")` in PyTorch or `tf.device` in TensorFlow ([lab 61](61_tf_distribute.ipynb)).
#
# The GPUs of other nodes usually belong to other processes, and then you have to send, as you did
# here. (TensorFlow can also connect to servers on other nodes.)
#
# ### Further reading
# - A. Krizhevsky, I. Sutskever and G. Hinton, *[ImageNet Classification with Deep Convolutional Neural Networks](https://doi.org/10.1145/3065386)*, NIPS, 2012. AlexNet was split over two GPUs because it did not fit into one.
# - J. Dean et al., *[Large Scale Distributed Deep Networks](https://papers.nips.cc/paper/4687-large-scale-distributed-deep-networks)*, NIPS, 2012. Model parallelism on clusters of CPUs, before GPUs took over.
# - Y. Huang et al., *[GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism](https://arxiv.org/abs/1811.06965)*, NeurIPS, 2019. GPipe, which fills the idle time with micro-batches ([lab 63](63_pipeline_parallel.ipynb)).
# - T. Ben-Nun and T. Hoefler, *[Demystifying Parallel and Distributed Deep Learning: An In-Depth Concurrency Analysis](https://arxiv.org/abs/1802.09941)*, ACM Computing Surveys 52(4), 2019. The survey compares model parallelism with the other forms.
