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


@check.exercise("31.1")
def one_server(server_step, epochs, per_worker, learning_rate, patience):
    """The server's step, with the mean of the workers' gradients, is in the parameters of all 2 to
    16 virtual ranks, which began with different ones, and no byte too many is sent; and real ranks
    train as one process.
    """
    for size in (2, 3, 4, 5, 8, 16):
        for length in (16 * size, 1000 + size, 1):
            expect_step(server_step, size, length)
    expect_training(server_step, 1, [], epochs, per_worker, learning_rate, patience)


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
def several_servers(servers_step, cut, epochs, per_worker, learning_rate, patience):
    """The step is right for many numbers of workers and servers, and nobody waits for one after
    another; and real ranks train as one process.
    """
    for size, servers in ((2, 1), (3, 1), (3, 2), (4, 2), (5, 3), (8, 4), (16, 3)):
        for length in (16 * size, 1000 + size, 1):
            expect_step(servers_step, size, length, cut([length], servers))
    run = expect_step(servers_step, 16, 160_000, cut([160_000], 8))
    waits = (
        "Right, but a rank waits for one message before it launches the next:"
        f" {run.time * 1e3:.1f} ms, where 1.3 would be enough."
    )
    expect(run.time < 1.5e-3, f"{waits} Launch all messages, then wait for them.")
    servers = min(2, launch.ranks_here(4) - 1)
    options = [cut([17226], servers)]
    expect_training(servers_step, servers, options, epochs, per_worker, learning_rate, patience)


def one_step(comm, parameters, gradient, step, *options):
    """What a step at rate 0.5 leaves in this rank's parameters; its gradient before and after."""
    before = gradient.copy()
    step(comm, parameters, gradient, 0.5, *options)
    return parameters, before, gradient


def expect_step(step, size, length, pieces=()):
    """One step on virtual ranks: right everywhere, and no byte too many. pieces: the servers', if
    several."""
    servers = len(pieces) or 1
    workers = size - servers
    bring = "1 brings" if workers == 1 else f"{workers} bring"
    starts, gradients = (
        np.random.default_rng(length).integers(-50, 50, (2, size, length)).astype(np.float32)
    )
    gradients[:servers] = 1e9  # a server has no gradient: what stands there means nothing
    total = gradients[servers:].sum(axis=0)
    of_servers = starts[0].copy()
    for server, piece in enumerate(pieces):
        of_servers[piece] = starts[server][piece]
    by_rank = [virtual.by_rank([*vectors]) for vectors in (starts, gradients)]
    options = [pieces] if pieces else []
    run = virtual.Cluster(nodes=size, machine=STRICT).run(one_step, *by_rank, step, *options)
    for rank, (got, before, gradient) in enumerate(run.results):
        # A server minds its piece alone.
        part = pieces[rank] if pieces and rank < servers else slice(None)
        after = {count: (of_servers - total / count / 2)[part] for count in (1, workers, size)}
        own = np.array_equal(got[part], starts[rank][part])
        old, whose = (starts[rank], "") if own else (of_servers, ", the server's")
        slips = {
            "This step took the sum, not the mean": after[1],
            f"This is a mean over {size} ranks, but {bring} a gradient": after[size],
            f"Rank {rank} still has the old parameters{whose}": old[part],
        }
        rule = (
            "ranks begin with different parameters here: a worker takes the server's new ones,"
            " unchanged"
        )
        because = rule if rank >= servers else ""
        if rank < servers and np.abs(got[part]).max(initial=0) > 1e6:
            because = "the server counted its own gradient, which means nothing"
        subject = f"{size} ranks, {length} values: the parameters on rank {rank}"
        expect.close(got[part], after[workers], subject, atol=1e-3, slips=slips, because=because)
        if rank >= servers:
            expect.unchanged(before, gradient, f"`gradient` on rank {rank}, a worker,")
    sent = [workers]  # vectors, by rank
    if pieces:
        sent = [workers * (piece.stop - piece.start) / length for piece in pieces]
    run.expect_sent(exactly=sent + [1.0] * workers, unit=4 * length)
    return run


def expect_training(step, servers, options, epochs, per_worker, rate, patience):
    """Servers and workers on real ranks: the same training as one process."""
    ranks = launch.ranks_here(4)
    expect(ranks > servers, f"This needs {servers + 1} ranks or more: start the file on so many.")
    work = (per_worker * (ranks - servers), epochs, rate)
    losses, parameters = virtual.Cluster(nodes=1).run(train, None, 0, [], *work).results[0]
    results = launch.run(train, step, servers, options, *work, ranks=ranks, timeout=patience)
    of_workers, last = zip(*results[servers:], strict=True)
    mean = np.mean(of_workers, axis=0)
    expect.close(
        mean, losses, "Real ranks, messages in any order: each loss against one process", rtol=1e-3
    )
    wants = [parameters] * len(last)
    expect.close(last, wants, "Real ranks: all workers' parameters", rtol=0.01, atol=1e-3)


def train(comm, step, servers, options, batch, epochs, rate):
    """Lab 30's training, its net as one flat vector. Returns the losses of this rank's images;
    parameters."""
    images, labels = (torch.tensor(part) for part in data.digits()[:2])
    net = nets.torch_digits()
    parameters = parameters_to_vector(net.parameters()).detach().numpy()
    gradient = parameters.copy()  # of a server, where it means nothing
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch):
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
        isinstance(piece, slice) and None not in (piece.start, piece.stop) for piece in pieces
    )
    expect(slices, "Return a list of slices: slice(first, end), two numbers, for each server.")
    subject = f"{total:,} values, servers: {servers}"
    counts = [len(range(total)[piece]) for piece in pieces]
    ends = [0, *(piece.stop for piece in pieces)]
    expect.equal(
        [piece.start for piece in pieces], ends[:-1], f"{subject}: pieces begin where the last ends"
    )
    expect.equal(
        [len(pieces), ends[-1]], [servers, total], f"{subject}: pieces, and the last one's end"
    )
    expect(
        max(counts) - min(counts) <= 1,
        f"{subject}: {max(counts):,} on one, {min(counts):,} on another.",
    )


def in_ratio(values, length):
    """Slices of a vector of `length` values, one after another, that share it as the servers share
    theirs."""
    ends = [round(end / sum(values) * length) for end in np.cumsum([0, *values])]
    return [slice(low, high) for low, high in zip(ends, ends[1:], strict=False)]
