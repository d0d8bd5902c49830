# %% [markdown]
# <!-- Generated from solutions/62_model_parallel.py by `make labs`. Learners work on a copy in work/. -->
# # 62 Model parallelism
#
# A net that does not fit into one device is cut into stages, and each rank holds one. You cut it,
# run it forwards and back over the ranks, and see what that gains, and what it does not.
#
# **You will be able to** (1) cut a net into stages, (2) carry activations forwards and gradients
# back between ranks, (3) show that the net learns exactly as before, (4) say how much memory it
# saves, and who is idle.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 45 · Level: intermediate · Before: 02, 20, 30

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
width = 512  # numbers between two blocks
depth = 10  # blocks of the net, of which two are small: the first and the last
images = 256  # pictures in a step
repeat = 10  # timed steps
patience = 20  # seconds after which a check calls a program stuck


# %% [markdown]
# ## 1. Where to cut
# In lab 30 every rank held the whole net and a part of the pictures: *data parallelism*. Here it is
# the other way round. Every rank sees all pictures, and holds a part of the **net**: *model
# parallelism*.
#
# The simplest way is to cut between layers. Our net is a list of **blocks**, each a layer and its
# ReLU. The blocks of one rank are its **stage**: rank 0 has the first ones, rank 1 the next, and so
# on.
#
#     pictures → [block 0, block 1] → [block 2] → [block 3, block 4] → loss
#                      rank 0           rank 1          rank 2
#
# Blocks cost differently: time, or bytes. The dearest stage decides how much memory a rank needs;
# or, where several batches are under way (lab 63), how fast they follow each other. So it should be
# as cheap as possible.
#
# A cut is written as a list of **edges**: stage s holds the blocks from `edges[s]` up to, but
# without, `edges[s + 1]`. The picture above is `[0, 2, 3, 5]`.
#
# ### Exercise 62.1 · The best cut
# `costs` holds one number for each block. Return the edges of `stages` stages, each of one block or
# more, so that the dearest stage is as cheap as possible. There are few blocks, so you may try
# every cut.
#
# `itertools.combinations(range(1, 5), 2)` gives every choice of 2 of the places 1, 2, 3, 4, in
# order: `(1, 2), (1, 3), …`. `min(choices, key=function)` gives the choice whose function is least.
# About 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: every cut</summary>
#
# A cut into 3 stages chooses 2 places between the blocks. In front of them stands 0, behind them
# the number of blocks: `[0, *places, len(costs)]`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The dearest stage of edges is `max(sum(costs[a:b]) for a, b in itertools.pairwise(edges))`. Write
# that as a function, and let `min` choose by it.
# </details>

# %%
def cut(costs, stages):
    """Edges of `stages` stages of the blocks with these costs: stages + 1 numbers, from 0 to
    len(costs)."""
    raise NotImplementedError("exercise 62.1: The best cut")


# %%
# Asked: Whole, rising edges from 0 to the end, and no cut with a cheaper
# dearest stage.
check("62.1", cut)


# %% [markdown]
# ## 2. Forwards, over the ranks
# A rank takes what the rank before it gives, computes its stage, and gives the result to the next:
#
# - rank 0 takes the pictures themselves;
# - the last rank gives nothing: what leaves it is the net's answer.
#
# `comm.Send(tensor, dest=…)` and `comm.Recv(tensor, source=…)` carry tensors as they carry NumPy
# arrays: `Recv` fills the tensor that it is given. A tensor that is part of a computation must be
# detached from it first: `tensor.detach()`. (`tensor.numpy()`, an array that shares the tensor's
# memory, would do on a CPU. A GPU's memory is no NumPy array, and where each rank has a GPU to
# itself, section 4 runs your functions on GPUs.)
#
# One thing is new. PyTorch remembers a computation as long as it stays in one process. What arrives
# in a message has no past. On the way back, PyTorch must compute the gradient **of what entered the
# stage**, for the rank before. It does so only for a tensor of which one has said
# `tensor.requires_grad_()`, *after* it was filled.
#
# ### Exercise 62.2 · One stage forwards
# Return two tensors: what **entered** this rank's stage, and what **leaves** it. `stage(tensor)`
# computes. `stage[0][0]` is the layer of the stage's first block; its `in_features` is how many
# numbers enter for each picture. So `pictures.new_empty(len(pictures), stage[0][0].in_features)` is
# a tensor to receive into, on the device where the pictures are. About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: three kinds of ranks</summary>
#
# Rank 0: `entering = pictures`. All others: make an empty tensor, `Recv` into it from
# `comm.rank - 1`, and then `entering.requires_grad_()`. All but the last rank send.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `leaving = stage(entering)`, then
# `if comm.rank < comm.size - 1: comm.Send(leaving.detach(), dest=comm.rank + 1)`, then
# `return entering, leaving`.
# </details>

# %%
def forward(comm, stage, pictures):
    """This rank's part of the way forward. Returns (what entered the stage, what leaves it)."""
    raise NotImplementedError("exercise 62.2: One stage forwards")


# %%
# Asked: On 1 to 4 ranks, the answer of one process, by Send and Recv, and open
# for the way back.
check("62.2", forward)


# %% [markdown]
# ## 3. And back
# The last rank has the loss. `loss.backward()` computes the gradients of its parameters, and that
# of what entered its stage: `entering.grad`. This gradient goes to the rank before. There it is the
# gradient of what *left* that stage, and `leaving.backward(gradient)` goes on from it.
#
# ### Exercise 62.3 · One stage back
# `loss` is a tensor on the last rank, and None on all others. Afterwards every parameter of every
# stage has its gradient. `torch.empty_like(leaving)` is a tensor to receive into. About 7 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: two beginnings</summary>
#
# The last rank begins with `loss.backward()`; the others receive a gradient from `comm.rank + 1`
# first.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The others: `gradient = torch.empty_like(leaving)`,
# `comm.Recv(gradient, source=comm.rank + 1)`, `leaving.backward(gradient)`. Then all ranks but 0
# send `entering.grad` to `comm.rank - 1`.
# </details>

# %%
def backward(comm, entering, leaving, loss):
    """This rank's part of the way back: gradients for its stage's parameters, and one for the rank
    before."""
    raise NotImplementedError("exercise 62.3: One stage back")


# %%
# Asked: On 1 to 4 ranks, every gradient that one process computes.
check("62.3", backward)

# %% [markdown]
# ## 4. What is it good for?
# ### Predict
# A net of eight equal blocks, and a small one at each end, on four ranks. Which share (0 to 1) of
# one process's bytes (parameters, gradients, Adam's averages) does the fullest rank hold? And for
# which share of a step does a rank compute, on average, if computing is all that takes time?

# %%
predict("62.3", bytes_share=..., busy_share=...)  # two numbers between 0 and 1


# %% [markdown]
# ### Measure
# One training step with Adam on one rank, and on several. We ask for the bytes that each rank holds
# afterwards, for the time of a step, and for when each rank computed. About 20 s.
#
# `launch.on_devices` lets the same functions run on GPUs. Where each rank has one to itself, stages
# and pictures are there, and `comm` hands tensors to NCCL, NVIDIA's library for messages between
# GPUs; otherwise tensors stay in host memory and MPI carries them.

# %%
@launch.on_devices()
def study(comm):
    """Bytes held, the Measurement of a step, the loss after these, spans of one step, and the
    device, on every rank."""
    widths = [64] + [width] * (depth - 1) + [10]
    blocks = nets.torch_blocks(widths)
    costs = [block[0].weight.numel() for block in blocks]
    edges = cut(costs, comm.size)
    device = world.device()
    stage = torch.nn.Sequential(*blocks[edges[comm.rank] : edges[comm.rank + 1]]).to(device)
    optimizer = torch.optim.Adam(stage.parameters())
    pictures = torch.rand(images, 64, generator=torch.Generator().manual_seed(0)).to(device)
    labels = torch.arange(images, device=device) % 10

    def step(stage_or_watched):
        optimizer.zero_grad()
        entering, leaving = forward(comm, stage_or_watched, pictures)
        last = comm.rank == comm.size - 1
        loss = functional.cross_entropy(leaving, labels) if last else None
        backward(comm, entering, leaving, loss)
        optimizer.step()
        return loss.item() if last else None

    measured = timing.measure(lambda: step(stage), repeat=repeat, comm=comm, device=device)
    loss = step(stage)  # after as many steps for every number of ranks
    spans = lab62.busy_spans(comm, stage, step)
    held = lab62.held(stage, optimizer)
    return held, measured, comm.bcast(loss, root=comm.size - 1), spans, device


# %%
sizes = sorted({1, 2, ranks})
studies = {size: launch.run(study, ranks=size, threads=1) for size in sizes}
rows = []
for size, results in studies.items():
    most = max(held for held, *_ in results)
    _, step, loss, _, device = results[0]
    record.add("model parallel", seconds=step, ranks=size, bytes=most, loss=loss, trained_on=device)
    rows.append(
        {
            "ranks": size,
            "device of rank 0": device,
            "most MB on a rank": most / 1e6,
            "ms a step": 1e3 * step.median,
            "loss": loss,
        }
    )
    print(f"{size} ranks: {step}")
print(pandas.DataFrame(rows).set_index("ranks").round(4))

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
# **Explain.** After a dozen steps the loss is the same for any number of ranks: the net learns as
# before. Each rank holds about its share of the bytes; not exactly, since blocks cannot be halved.
# That is what model parallelism is for: **nets that do not fit**.
#
# It is not for speed. A stage cannot begin before the one in front of it has ended, so the coloured
# pieces never stand above each other: together they fill about one rank's time. So the step takes
# about as long as on one rank. (You may see a somewhat *shorter* step. One likely cause is Adam's
# arithmetic, which is not in the picture: each rank does its part of it right after its own way
# back, while the ranks before it still compute. Another may be a core's cache, into which a smaller
# stage fits better. Nothing here tells the two apart. You may see a longer step, where ranks share
# cores, and for the messages.)
#
# In data parallelism every rank would compute all the time, and hold *everything*: on each rank the
# bytes of the table's first line.
#
# What would fill the empty places?
# <details><summary>Answer</summary> Other pictures. While rank 1 computes on the first pictures, rank 0 could
# begin with the next ones. That is pipeline parallelism, [lab 63](63_pipeline_parallel.ipynb).</details>
#
# Where the devices belong to **one** process, as the GPUs of one node may, no messages need be
# written. The program says where each piece is to be computed, and the framework copies:
# `block.to("cuda:1")` and `values.to("cuda:1")` in PyTorch, `tf.device` in TensorFlow ([lab 61](61_tf_distribute.ipynb) shows
# it). In PyTorch this reaches only the process's own devices. Those of other nodes belong to other
# processes, and there somebody has to send, as you did. TensorFlow can be connected to servers on
# other nodes (`tf.config.experimental_connect_to_cluster`); then `tf.device` names their devices,
# too, and TensorFlow sends the tensors for you.
#
# ### What you take away
# - Model parallelism cuts the net. Activations travel forwards, their gradients back.
# - Each rank holds about 1/p of parameters, gradients and optimizer.
# - Without more, one rank computes at a time: p ranks are hardly faster than one. Lab 63 fills the
#   pipe.
