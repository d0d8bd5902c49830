"""The checks of lab 31, and the step on virtual ranks that its measurements make too."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
import virtual
from labkit import check, data, expect, launch, nets
from torch.nn.utils import parameters_to_vector, vector_to_parameters

# As in a real MPI, the send of a long message (here: over 1,000 bytes) waits for its receive.
STRICT = virtual.ideal().but(eager=1000)
RATE = 0.75  # of one step on virtual ranks: no 1/n, which a mean could be taken for


@check.exercise("31.1")
def one_server(server_step, patience):
    """The server's step, with the mean of the workers' gradients, is in the parameters of all 2 to
    16 virtual ranks, which began with different ones, and no byte too many is sent; and real ranks
    train as one process.
    """
    for size in (2, 3, 4, 5, 8, 16):
        for length in (16 * size, 1000 + size, 1):
            expect_step(server_step, size, length)
    expect_training(server_step, 1, [], patience)


@check.exercise("31.2")
def equal_pieces(cut, layers):
    """There are so many slices, one after another, from the first value to the last, equal but for
    one value.
    """
    for sizes in (layers["vgg16"], [3, 1000, 4], [2]):
        for servers in (1, 3, 7, 16):
            given = list(sizes)
            expect_pieces(cut(given, servers), sum(sizes), servers)
            expect.unchanged(sizes, given, "The list `sizes`")


@check.exercise("31.3")
def several_servers(servers_step, patience):
    """The step is right for many numbers of workers and servers, whose pieces differ in length, and
    no rank waits for one message after another; and real ranks train as one process.
    """
    for size, servers in ((2, 1), (3, 1), (3, 2), (4, 2), (5, 3), (8, 4), (16, 3)):
        for length in (16 * size, 1000 + size, 1):
            pieces = in_ratio(range(1, servers + 1), length)
            expect_step(servers_step, size, length, pieces)
    run = expect_step(servers_step, 16, 160_000, in_ratio([1] * 8, 160_000))
    waits = (
        "Right, but a rank waits for one message before it launches the next:"
        f" {run.time * 1e3:.1f} ms, where 1.3 would be enough."
    )
    expect(run.time < 1.5e-3, f"{waits} Launch all messages, then wait for them.")
    servers = min(2, launch.ranks_here(4) - 1)
    options = [in_ratio(range(1, servers + 1), 17226)]
    expect_training(servers_step, servers, options, patience)


def one_step(comm, parameters, gradient, step, *options):
    """What a step at RATE leaves in this rank's parameters; its gradient before and after."""
    before = gradient.copy()
    step(comm, parameters, gradient, RATE, *options)
    return parameters, before, gradient


def expect_step(step, size, length, pieces=()):
    """One step on virtual ranks: right everywhere, and no byte too many. pieces: the servers', if
    several."""
    servers = len(pieces) or 1
    workers = size - servers
    lengths = [piece.stop - piece.start for piece in pieces] or [length]
    told = f" in pieces of {lengths}" if servers > 1 else ""
    bring = "1 brings" if workers == 1 else f"{workers} bring"
    starts, gradients = (
        np.random.default_rng(length).integers(-50, 50, (2, size, length)).astype(np.float32)
    )
    gradients[:servers] = 1e9  # a server has no gradient: what stands there means nothing
    total = gradients[servers:].sum(axis=0)
    of_servers = starts[0].copy()
    for server, piece in enumerate(pieces):
        of_servers[piece] = starts[server][piece]
    factors = {
        "This step took the sum, not the mean": RATE,
        "This step did not use the rate": 1 / workers,
        "This step added the mean where it subtracts it": -RATE / workers,
    }
    for count in (size, size - 1):
        factors[f"This is a mean over {count} ranks, but {bring} a gradient"] = RATE / count
    after = {text: of_servers - factor * total for text, factor in factors.items()}
    right = of_servers - RATE / workers * total
    by_rank = [virtual.by_rank([*vectors]) for vectors in (starts, gradients)]
    options = [pieces] if pieces else []
    run = virtual.Cluster(nodes=size, machine=STRICT).run(one_step, *by_rank, step, *options)
    for rank, (got, before, gradient) in enumerate(run.results):
        # A server minds its piece alone.
        part = pieces[rank] if pieces and rank < servers else slice(None)
        own = np.array_equal(got[part], starts[rank][part])
        old, whose = (starts[rank], "") if own else (of_servers, ", the server's")
        slips = {text: values[part] for text, values in after.items()}
        slips[f"Rank {rank} still has the old parameters{whose}"] = old[part]
        rule = (
            "ranks begin with different parameters here: a worker takes the server's new ones,"
            " unchanged"
        )
        because = rule if rank >= servers else ""
        if rank < servers > 1 and 2 * np.sum(got[part] == right[part]) > lengths[rank]:
            because = "a server updates the piece that it is given, and pieces differ in length"
        if rank < servers and 1e6 < np.abs(got[part]).max(initial=0) < 1e11:
            because = "the server counted its own gradient, which means nothing"
        subject = f"{size} ranks, {length} values{told}: the parameters on rank {rank}"
        expect.close(got[part], right[part], subject, atol=1e-3, slips=slips, because=because)
        if rank >= servers:
            expect.unchanged(before, gradient, f"`gradient` on rank {rank}, a worker,")
    sent = [workers * values / length for values in lengths]  # vectors, by server
    run.expect_sent(exactly=sent + [1.0] * workers, unit=4 * length)
    return run


def expect_training(step, servers, options, patience):
    """Servers and workers on real ranks: the same epoch as one process, 32 images per worker and
    step."""
    ranks = launch.ranks_here(4)
    expect(ranks > servers, f"This needs {servers + 1} ranks or more: start the file on so many.")
    work = (32 * (ranks - servers), 0.2)
    losses, parameters = virtual.Cluster(nodes=1).run(train, None, 0, [], *work).results[0]
    results = launch.run(train, step, servers, options, *work, ranks=ranks, timeout=patience)
    of_workers, last = zip(*results[servers:], strict=True)
    mean = np.mean(of_workers, axis=0)
    expect.close(
        mean, losses, "Real ranks, messages in any order: each loss against one process", rtol=1e-3
    )
    wants = [parameters] * len(last)
    expect.close(last, wants, "Real ranks: all workers' parameters", rtol=0.01, atol=1e-3)


def train(comm, step, servers, options, batch, rate):
    """An epoch of lab 30's training, its net as one flat vector. Returns the losses of this rank's
    images; parameters."""
    images, labels = (torch.tensor(part) for part in data.digits()[:2])
    net = nets.torch_digits()
    parameters = parameters_to_vector(net.parameters()).detach().numpy()
    gradient = parameters.copy()  # of a server, where it means nothing
    losses = []
    for rows in data.batches(len(images), batch, 0):
        if comm.rank >= servers:
            share = rows[comm.rank - servers :: comm.size - servers]
            loss = F.cross_entropy(net(images[share]), labels[share])
            gradient = parameters_to_vector(
                torch.autograd.grad(loss, list(net.parameters()))
            ).numpy()
            losses.append(loss.item())
        if servers:
            step(comm, parameters, gradient, rate, *options)
        else:  # one process
            parameters -= rate * gradient
        vector_to_parameters(torch.tensor(parameters), net.parameters())
    return losses, parameters


def expect_pieces(pieces, total, servers):
    slices = isinstance(pieces, (list, tuple)) and all(
        isinstance(piece, slice)
        and None not in (piece.start, piece.stop)
        and piece.step in (None, 1)
        for piece in pieces
    )
    expect(slices, "Return a list of slices: slice(first, end), two numbers, for each server.")
    subject = f"{total:,} values, servers: {servers}"
    counts = [len(range(total)[piece]) for piece in pieces]
    expect(len(pieces) == servers, f"{subject}: your list has {len(pieces)} slices.")
    ends = [0, *(piece.stop for piece in pieces)]
    expect.equal(
        [piece.start for piece in pieces], ends[:-1], f"{subject}: pieces begin where the last ends"
    )
    expect(ends[-1] == total, f"{subject}: the last slice ends at {ends[-1]:,}.")
    expect(
        max(counts) - min(counts) <= 1,
        f"{subject}: {max(counts):,} on one, {min(counts):,} on another.",
    )


def in_ratio(values, length):
    """Slices of a vector of `length` values, one after another, that share it as the servers share
    theirs."""
    ends = [round(end / sum(values) * length) for end in np.cumsum([0, *values])]
    return [slice(low, high) for low, high in zip(ends, ends[1:], strict=False)]


def exchange(step, machine, workers, sizes, way):
    """A step's messages on virtual ranks, for layers of such sizes. way: an allreduce, or values on
    each server."""
    vectors = [
        virtual.vector(np.zeros(4096, np.float32), stands_for=4 * sum(sizes)) for _ in range(2)
    ]
    if callable(way):
        return virtual.Cluster(nodes=workers, machine=machine).run(way, vectors[0])
    cluster = virtual.Cluster(nodes=workers + len(way), machine=machine)
    return cluster.run(one_step, *vectors, step, in_ratio(way, 4096))
