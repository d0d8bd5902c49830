# %% [markdown]
# # 30 Average gradients
#
# Data-parallel training by hand: every rank has the whole net and a part of each batch; ten lines make them
# one.
#
# **You will be able to** (1) shard a batch, start equal, average gradients, (2) prove that four ranks compute
# what one process does, (3) say what breaks, silently, without each part, (4) measure what communication
# costs.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 40 · Before: 10, 20, 21

# %%
import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, data, expect, hint, lab, launch, nets, plots, predict, record, timing, world
from labkit.counting import CallLog, on_every_size
from labkit.placement import through_numpy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

lab.start("30_average_gradients")

# %% tags=["parameters"]
batch = 128  # images per step, over all ranks together (the global batch)
epochs = 10  # passes over the 1,536 training images
learning_rate = 0.2  # plain SGD
workers = 4  # ranks to start, unless a launcher has started some
patience = 30  # seconds after which a check calls the ranks stuck


# %% [markdown]
# The loss of a batch is a mean over its images, so its gradient is the mean of the images' gradients. Cut the
# batch into p equal parts: the mean of the parts' gradients is the gradient of the batch. So p ranks can
# share the work on each batch, and nothing changes but the time. Lab 10's training, to compare with:

# %%
def train_alone():
    """One process. Returns the loss of every step."""
    images, labels = (torch.tensor(part, device=world.device()) for part in data.digits()[:2])
    net = nets.torch_digits(nets.start_weights(seed=0)).to(world.device())
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed=0):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# %%
def to_vector(tensors):
    """All numbers of the tensors in one flat float32 array."""
    return parameters_to_vector(tensors).detach().cpu().numpy()


def from_vector(vector, tensors):
    """Write a flat array back into the tensors, in the same order."""
    vector_to_parameters(torch.from_numpy(vector).to(world.device()), tensors)


ranks = launch.ranks_here(workers)
alone = train_alone()
print(f"one process on {world.device()}: loss from {alone[0]:.3f} to {alone[-1]:.3f} in {len(alone)} steps")

# %% [markdown]
# ### Predict
# With four ranks: images for each rank in a step, and float32 values each puts into the average?

# %%
predict("30.1", images_per_rank=..., values_averaged=...)


# %% [markdown]
# ### Exercise 30.1 · Shard the batch
# `rows` are the image numbers of a global batch, the same on all ranks. Return this rank's part: equal parts,
# every image on exactly one rank. One line.
#
# <details><summary>Hint 1: dealing cards</summary>
#
# Deal the rows like cards: the first to rank 0, the second to rank 1, … What does rank r get?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# A slice with a step: begin at `rank`, take every `size`-th: `rows[start::step]`.
# </details>

# %%
def my_share(rows, rank, size):
    """This rank's part of a global batch: len(rows) / size of its rows."""
    raise NotImplementedError("exercise 30.1: Shard the batch")


# %%
with check("30.1"):
    rows = data.batches(1536, batch, epoch=0)[1]
    for size in (1, 2, 4, 8):
        shares = [np.asarray(my_share(rows, rank, size)) for rank in range(size)]
        lengths = [len(share) for share in shares]
        expect.equal(lengths, [batch // size] * size, f"Images on each of {size} ranks")
        together = np.concatenate(shares)
        expect(np.isin(together, rows).all(), f"With {size} ranks, some rows are not of this batch at all.")
        twice = len(together) - len(set(together))
        expect(not twice, f"With {size} ranks, {twice} images are seen twice, and as many by nobody.")
    net_values = to_vector(nets.torch_digits().parameters())
    predict.compare("30.1", images_per_rank=batch // 4, values_averaged=len(net_values))


# %% [markdown]
# ### Exercise 30.2 · Start equal
# Equal gradients keep equal weights equal; they do not make them so. Give every rank rank 0's weights. 3
# lines, with the helpers `to_vector(tensors)` and `from_vector(vector, tensors)` from above.
#
# <details><summary>Hint 1: three steps</summary>
#
# All weights (`net.parameters()`) into one vector; rank 0's vector to everybody (lab 21); back into the net.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Bcast(weights, root=0)` overwrites `weights` on all ranks but 0.
# </details>

# %%
def start_equal(comm, net):
    """Give the net of every rank the weights of rank 0."""
    raise NotImplementedError("exercise 30.2: Start equal")


# %%
def changed_by_start(comm):
    """Names of the weights that are not what rank 0 began with."""
    net = nets.torch_digits(nets.start_weights(seed=comm.rank)).to(world.device())
    from_vector(to_vector(net.parameters()) + 0.1 * comm.rank, net.parameters())  # biases differ too
    own = {name: to_vector([weight]) for name, weight in net.named_parameters()}
    before = comm.bcast(own, root=0)
    start_equal(comm, net)
    after = {name: to_vector([weight]) for name, weight in net.named_parameters()}
    return [name for name in after if not np.array_equal(after[name], before[name])]


with check("30.2"):
    for rank, names in enumerate(launch.run(changed_by_start, ranks=ranks, timeout=patience)):
        expect(not names, f"On rank {rank}, {', '.join(names)} is not what rank 0 began with.")


# %% [markdown]
# ### Exercise 30.3 · Average the gradients
# After `backward()` each weight has its gradient in `.grad`: replace it by the mean over the ranks. Every
# message costs a latency, so put all six (real nets: hundreds) into **one** vector. 5 lines.
#
# <details><summary>Hint 1: which tensors?</summary>
#
# `gradients = [weight.grad for weight in net.parameters()]`: weights and biases, in the same order
# everywhere.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `own = to_vector(gradients)`, then as in 21.4 an `Allreduce` into another array, and the mean back with
# `from_vector`.
# </details>

# %%
def average_gradients(comm, net):
    """Replace every gradient of the net by its mean over all ranks."""
    raise NotImplementedError("exercise 30.3: Average the gradients")


# %%
def expect_average(comm):
    """Fail unless all gradients are the mean. Returns how many calls of MPI that took."""
    net = nets.torch_digits().to(world.device())
    for weight in net.parameters():
        weight.grad = torch.rand(weight.shape, generator=torch.Generator().manual_seed(comm.rank)).to(weight)
    own = {name: to_vector([weight.grad]) for name, weight in net.named_parameters()}
    log = CallLog(comm)
    average_gradients(log, net)
    for name, weight in net.named_parameters():
        total = sum(comm.allgather(own[name]))
        slips = {
            "This is the sum, not the mean": total,
            f"The gradient of {name} is still this rank's own": own[name],
        }
        subject = f"{comm.size} ranks, rank {comm.rank}, gradient of {name}"
        expect.close(to_vector([weight.grad]), total / comm.size, subject, slips=slips)
    return len(log.calls)


with check("30.3"):
    calls = launch.run(on_every_size, expect_average, ranks=ranks, timeout=patience)[0]
    most = max(calls.values())
    expect(most <= 1, f"The mean is right, but it took {most} calls of MPI: use one vector for all.")


# %% [markdown]
# ### Exercise 30.4 · The training step
# The loop of `train_alone`, on every rank with its rows `share`. Call `average(comm, net)` at the right
# place. `losses` gets the loss of the *global* batch, the same number on every rank. 6 lines.
#
# <details><summary>Hint 1: where does the average go?</summary>
#
# `backward()` makes gradients, `optimizer.step()` uses them. The rate stays: it is the same global batch.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# As in `train_alone`, with `images[share]`, `labels[share]`. The loss:
# `comm.allreduce(loss.item()) / comm.size`.
# </details>

# %%
def train(comm, average=average_gradients):
    """Data-parallel SGD. Returns the global loss of every step, and this rank's weights at the end."""
    images, labels = (torch.tensor(part, device=world.device()) for part in data.digits()[:2])
    net = nets.torch_digits(nets.start_weights(seed=comm.rank)).to(world.device())  # each its own seed
    start_equal(comm, net)
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed=0):
            share = my_share(rows, comm.rank, comm.size)
            raise NotImplementedError("exercise 30.4: The training step")
    return losses, to_vector(net.parameters())


# %%
def watched(comm, average):
    """train, and before each average: how far this rank's weights and gradient are from rank 0's."""
    apart = []

    def watch(comm, net):
        expect(net[0].weight.grad is not None, "No gradients yet: `backward()` comes before `average`.")
        own = [to_vector(net.parameters()), to_vector([weight.grad for weight in net.parameters()])]
        of_rank_0 = comm.bcast(own)
        apart.append([np.linalg.norm(here - there) for here, there in zip(own, of_rank_0, strict=True)])
        average(comm, net)

    losses, weights = train(comm, watch)
    return losses, weights, np.array(apart)


# %%
with check("30.4"):
    expect(batch % ranks == 0, f"{batch} images do not make {ranks} equal parts: use 2 or 4 ranks.")
    results = launch.run(watched, average_gradients, ranks=ranks, timeout=patience)
    curves, weights, apart = zip(*results, strict=True)
    expect.equal([len(curves[0]), len(apart[0])], [len(alone)] * 2, "Losses, averages: one a step")
    expect.equal(curves, [curves[0]] * ranks, "The losses of all ranks, the same on each: [rank][step]")
    expect.close(curves[0][0], alone[0], "The first loss, before any update, against one process")
    same = ranks > 1 and apart[1][0, 1] == 0
    expect(not same, "All ranks find the same gradient: each works on the whole batch, not on its part.")
    expect.close(curves[0][1], alone[1], "The loss after one update (average before it? the rate as it was?)")
    expect.close(curves[0], alone, "The loss of every step against one process")
    for rank in range(ranks):
        expect.equal(weights[rank], weights[0], f"At the end, rank {rank}'s weights against rank 0's")
plots.loss({"one process": alone, f"{ranks} ranks": curves[0]}, title="The same training")

# %% [markdown]
# To rounding: a floating-point sum depends on its order. *Between the ranks* every bit is equal.
#
# ### Measure
# Without the average, how far do the ranks drift apart? And which share of a step is the average?

# %%
predict("30.4", percent_for_average=...)


def step_times(comm):
    """Milliseconds of the two parts of a step."""
    net = nets.torch_digits().to(world.device())
    rows = my_share(np.arange(batch), comm.rank, comm.size)
    images, labels = (torch.tensor(part[rows], device=world.device()) for part in data.digits()[:2])
    compute = timing.measure(lambda: F.cross_entropy(net(images), labels).backward(), comm=comm)
    average = timing.measure(lambda: average_gradients(comm, net), comm=comm)
    return {"compute": compute.median * 1e3, "average": average.median * 1e3}


# %%
def no_average(comm, net):
    """In place of average_gradients: every rank goes its own way."""


drift = {}
for rank, (_, _, apart) in enumerate(launch.run(watched, no_average, ranks=ranks)):
    drift[f"rank {rank}"] = apart[:, 0]
plots.lines(drift, xlabel="step", ylabel="distance of the weights to rank 0's", title="Without the average")
# Across ranks: with more ranks than cores, they would wait for a core, not for messages.
times = launch.run(on_every_size, step_times, ranks=min(ranks, max(2, world.cores())))[0]
plots.bars({f"p = {size}": times[size] for size in sorted(times)}, title="One step on p ranks")
most = times[max(times)]
record.add("step", unit="ms", ranks=max(times), **most, **through_numpy().fields())
predict.compare("30.4", percent_for_average=100 * most["average"] / sum(most.values()))

# %% [markdown]
# ### What you take away
# - Equal parts, equal start, the mean of the gradients before every update: p ranks are one, to rounding.
# - No error warns of a sum for a mean or of unequal starts; comparing with one process does.
# - The average stays 69 kB on any number of ranks, the computing shrinks. A net so small gains little.
# - Next: who should add (lab 31), how to hide the average behind backward (32), Horovod does it all (40).
