"""Reference programs on `comm`, and the table that holds their virtual times against labkit's closed forms.

`python -m tests.virtual.algorithms` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import virtual
from labkit.scaling import costs
from labkit.timing import human


def ring_reduce_scatter(comm, chunks):
    """Rank r ends with the sum of chunk (r + 1) mod p."""
    p, right, left = comm.size, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    box = np.empty_like(max(chunks, key=len))
    for step in range(p - 1):
        outgoing, summed = chunks[(comm.rank - step) % p], chunks[(comm.rank - step - 1) % p]
        comm.Sendrecv(outgoing, dest=right, recvbuf=box[: len(summed)], source=left)
        summed += box[: len(summed)]


def ring_allgather(comm, chunks, first=1):
    """Rank r begins with chunk (r + first) mod p; all end with all."""
    p, right, left = comm.size, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(p - 1):
        outgoing = chunks[(comm.rank + first - step) % p]
        comm.Sendrecv(outgoing, dest=right, recvbuf=chunks[(comm.rank + first - step - 1) % p], source=left)


def ring_allreduce(comm, vector):
    chunks = np.array_split(vector, comm.size)
    ring_reduce_scatter(comm, chunks)
    ring_allgather(comm, chunks)


def recursive_doubling_allreduce(comm, vector):
    """Where p is no power of two, the last ranks give to and take from the first ones."""
    box, most = np.empty_like(vector), 1 << (comm.size.bit_length() - 1)
    partner = comm.rank ^ most
    if comm.rank >= most:
        comm.Send(vector, dest=partner)
        comm.Recv(vector, source=partner)
        return
    if partner < comm.size:
        comm.Recv(box, source=partner)
        vector += box
    for step in range(most.bit_length() - 1):
        comm.Sendrecv(vector, dest=comm.rank ^ (1 << step), recvbuf=box, source=comm.rank ^ (1 << step))
        vector += box
    if partner < comm.size:
        comm.Send(vector, dest=partner)


def rabenseifner_allreduce(comm, vector):
    """Halving reduce-scatter, doubling allgather; p a power of two that divides the length."""
    box = np.empty_like(vector)
    own = vector
    halvings = []  # (partner, own half, the partner's half)
    distance = comm.size // 2
    while distance:
        partner = comm.rank ^ distance
        own, other = np.split(own, 2)
        if comm.rank > partner:
            own, other = other, own
        comm.Sendrecv(other, dest=partner, recvbuf=box[: len(own)], source=partner)
        own += box[: len(own)]
        halvings.append((partner, own, other))
        distance //= 2
    for partner, own, other in reversed(halvings):
        comm.Sendrecv(own, dest=partner, recvbuf=other, source=partner)


def _reaches(p):
    return [1 << step for step in range((p - 1).bit_length())]


def tree_broadcast(comm, vector):
    for reach in _reaches(comm.size):
        if comm.rank < reach and comm.rank + reach < comm.size:
            comm.Send(vector, dest=comm.rank + reach)
        elif reach <= comm.rank < 2 * reach:
            comm.Recv(vector, source=comm.rank - reach)


def tree_reduce(comm, vector):
    box = np.empty_like(vector)
    for reach in reversed(_reaches(comm.size)):
        if reach <= comm.rank < 2 * reach:
            comm.Send(vector, dest=comm.rank - reach)
        elif comm.rank < reach and comm.rank + reach < comm.size:
            comm.Recv(box, source=comm.rank + reach)
            vector += box


def tree_allreduce(comm, vector):
    tree_reduce(comm, vector)
    tree_broadcast(comm, vector)


def scatter_allgather_broadcast(comm, vector):
    """Binomial scatter, ring allgather; p a power of two."""
    chunks = np.array_split(vector, comm.size)
    ends = np.cumsum([0] + [len(chunk) for chunk in chunks])
    reach = comm.size // 2
    while reach:
        if comm.rank % (2 * reach) == 0:
            comm.Send(vector[ends[comm.rank + reach] : ends[comm.rank + 2 * reach]], dest=comm.rank + reach)
        elif comm.rank % (2 * reach) == reach:
            comm.Recv(vector[ends[comm.rank] : ends[comm.rank + reach]], source=comm.rank - reach)
        reach //= 2
    ring_allgather(comm, chunks, first=0)


def chain_broadcast(comm, vector, count):
    for chunk in np.array_split(vector, count):
        if comm.rank > 0:
            comm.Recv(chunk, source=comm.rank - 1)
        if comm.rank + 1 < comm.size:
            comm.Send(chunk, dest=comm.rank + 1)


def parameter_server(comm, vector):
    """Rank 0 serves: it takes all gradients in, then sends the parameters out."""
    box = np.empty_like(vector)
    if comm.rank > 0:
        comm.Send(vector, dest=0)
        comm.Recv(vector, source=0)
        return
    for worker in range(1, comm.size):
        comm.Recv(box, source=worker)
    for worker in range(1, comm.size):
        comm.Send(vector, dest=worker)


def leader_allreduce(comm, vector, per_node):
    local = comm.Split(color=comm.rank // per_node, key=comm.rank)
    leaders = comm.Split(color=comm.rank % per_node, key=comm.rank)
    tree_reduce(local, vector)
    if local.rank == 0:
        ring_allreduce(leaders, vector)
    tree_broadcast(local, vector)


def two_dimensional_allreduce(comm, vector, per_node):
    local = comm.Split(color=comm.rank // per_node, key=comm.rank)
    across = comm.Split(color=comm.rank % per_node, key=comm.rank)
    chunks = np.array_split(vector, per_node)
    ring_reduce_scatter(local, chunks)
    ring_allreduce(across, chunks[(local.rank + 1) % per_node])
    ring_allgather(local, chunks)


class Case(NamedTuple):
    """One line of the table. seconds: by the closed form."""

    name: str
    ranks: int
    nbytes: float
    virtual: float
    seconds: float

    @property
    def ratio(self) -> float:
        return self.virtual / self.seconds


ALPHA, BANDWIDTH, REDUCE = 2e-6, 5e9, 12e9
NUMBERS = ALPHA, 1 / BANDWIDTH, 1 / REDUCE  # α, β, γ
SIZES = (64.0, 1e4, 1e6, 1e8)
POWERS, ANY = (2, 4, 8, 16, 64), (2, 3, 4, 5, 8, 12, 16, 31, 64)
FLAT: dict[str, tuple[Callable, Callable, tuple, bool]] = {
    "ring allreduce": (ring_allreduce, costs.ring_allreduce_time, ANY, True),
    "recursive doubling": (
        recursive_doubling_allreduce,
        costs.recursive_doubling_allreduce_time,
        POWERS,
        True,
    ),
    "Rabenseifner": (rabenseifner_allreduce, costs.rabenseifner_allreduce_time, POWERS, True),
    "reduce + broadcast, binomial": (tree_allreduce, costs.tree_allreduce_time, POWERS, True),
    "broadcast, binomial": (tree_broadcast, costs.tree_broadcast_time, POWERS, False),
    "broadcast, scatter-allgather": (
        scatter_allgather_broadcast,
        costs.scatter_allgather_broadcast_time,
        POWERS,
        False,
    ),
}
INSIDE, BETWEEN = (1e-6, 1 / 20e9), (5e-6, 1 / 3e9)  # (α, β)
SHAPES = ((2, 2), (4, 4), (8, 2), (3, 4), (16, 8))  # nodes, ranks per node
TWO_LEVELS = {
    "leaders, two levels": (leader_allreduce, costs.leader_allreduce_time),
    "2-D, a card for each rank": (two_dimensional_allreduce, costs.two_dimensional_allreduce_time),
}
CHAINS = ((3, 1), (4, 8), (8, 8), (16, 40))  # ranks, chunks


def standing_for(nbytes: float, p: int):
    return virtual.vector(np.ones(12 * p * p if p < 16 else 4 * p), stands_for=nbytes)


def flat(name: str) -> Iterator[Case]:
    """One port a rank, all links alike: the closed forms' own world."""
    program, closed, ranks, adds = FLAT[name]
    machine = virtual.ideal(ALPHA, BANDWIDTH, REDUCE)
    for p in ranks:
        for nbytes in SIZES:
            run = virtual.Cluster(nodes=p, machine=machine).run(program, standing_for(nbytes, p))
            yield Case(name, p, nbytes, run.time, closed(nbytes, p, *NUMBERS[: 2 + adds]))


def chains() -> Iterator[Case]:
    """A port takes up the next chunk when the last has arrived, as the formula has it: gap = α + n/k β."""
    for p, count in CHAINS:
        for nbytes in SIZES[1:]:
            gap = ALPHA + nbytes / count / BANDWIDTH
            link = virtual.Link(ALPHA, BANDWIDTH, gap=gap)
            machine = virtual.ideal().but(inside=link, between=link)
            vector = virtual.vector(np.ones(10 * count), stands_for=nbytes)
            run = virtual.Cluster(nodes=p, machine=machine).run(chain_broadcast, vector, count)
            closed = costs.chain_broadcast_time(nbytes, p, *NUMBERS[:2], count)
            yield Case("broadcast, pipelined chain", p, nbytes, run.time, closed)


def servers() -> Iterator[Case]:
    machine = virtual.ideal(ALPHA, BANDWIDTH)
    for workers in (1, 2, 4, 16, 63):
        for nbytes in SIZES:
            vector = virtual.vector(np.ones(16), stands_for=nbytes)
            run = virtual.Cluster(nodes=workers + 1, machine=machine).run(parameter_server, vector)
            yield Case(
                "parameter server",
                workers,
                nbytes,
                run.time,
                costs.parameter_server_time(nbytes, workers, *NUMBERS[:2]),
            )


def two_level_machine(cards: int) -> virtual.Machine:
    inside, between = (virtual.Link(alpha, 1 / beta) for alpha, beta in (INSIDE, BETWEEN))
    return virtual.Machine("two levels", inside, between, nics=cards, reduce=REDUCE)


def two_levels(name: str) -> Iterator[Case]:
    program, closed = TWO_LEVELS[name]
    for nodes, per_node in SHAPES:
        for nbytes in SIZES:
            machine = two_level_machine(per_node)
            vector = virtual.vector(np.ones(nodes * per_node * 2), stands_for=nbytes)
            run = virtual.Cluster(nodes, per_node, machine).run(program, vector, per_node)
            seconds = closed(nbytes, nodes, per_node, INSIDE, BETWEEN, NUMBERS[2])
            yield Case(name, nodes * per_node, nbytes, run.time, seconds)


def table() -> Iterator[Case]:
    for name in FLAT:
        yield from flat(name)
    yield from chains()
    yield from servers()
    for name in TWO_LEVELS:
        yield from two_levels(name)


def main() -> None:
    print(f"{'algorithm':30}{'ranks':>6}{'bytes':>13}{'virtual':>10}{'closed form':>13}{'ratio':>10}")
    for case in table():
        times = f"{human(case.virtual):>10}{human(case.seconds):>13}"
        print(f"{case.name:30}{case.ranks:>6}{case.nbytes:>13,.0f}{times}{case.ratio:>10.6f}")


if __name__ == "__main__":
    main()
