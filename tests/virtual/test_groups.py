"""Communicators of some of the virtual ranks, and grids: as mpi4py's on real ranks."""

from __future__ import annotations

import mpi4py
import numpy as np
import pytest
import virtual
from labkit import launch
from labkit.errors import LabError

mpi4py.rc.initialize = False


def split_inside_split(comm):
    """Halves, odd and even in each, keys that turn the order; sums and messages in every one of them."""
    from mpi4py import MPI

    n, rank, out = comm.Get_size(), comm.Get_rank(), []
    half = comm.Split(2 * rank // n, key=-rank)
    part = half.Split(half.rank % 2, key=0)
    lonely = comm.Split(MPI.UNDEFINED if rank == n - 1 else 7)
    for group in (half, part, lonely):
        if group == MPI.COMM_NULL:
            out.append(bool(group))
            continue
        total = np.empty(3, int)
        group.Allreduce(np.full(3, rank), total)
        got = np.empty(1, int)
        right, left = (group.rank + 1) % group.size, (group.rank - 1) % group.size
        group.Sendrecv(np.array([rank]), right, 5, got, left, 5)
        out.append((group.Get_rank(), group.Get_size(), total.tolist(), got.tolist(), group.allgather(rank)))
    half.Free()
    part.Free()
    return out


def grids(comm):
    from mpi4py import MPI

    n, out = comm.Get_size(), []
    for dims, periods in [
        ([n], [True]),
        ([n], None),
        ([1, n], [False, True]),
        ([max(1, n // 2), 2], [True, False]),
    ]:
        if np.prod(dims) > n:
            continue
        grid = comm.Create_cart(dims, periods) if periods else comm.Create_cart(dims)
        if grid == MPI.COMM_NULL:
            out.append("outside")
            continue
        line = [grid.rank, grid.size, grid.Get_dim(), grid.Get_topo(), grid.dims, grid.periods, grid.coords]
        line += [grid.Get_coords(rank) for rank in range(grid.size)]
        line += [grid.Get_cart_rank(grid.Get_coords(rank)) for rank in range(grid.size)]
        line += [grid.Shift(axis, step) for axis in range(len(dims)) for step in (1, -1, 2)]
        got = np.full(2, -1)
        source, dest = grid.Shift(len(dims) - 1, 1)
        grid.Sendrecv(np.array([grid.rank, 3]), dest, 0, got, source, 0)
        row = grid.Sub([axis == len(dims) - 1 for axis in range(len(dims))])
        out.append([*line, got.tolist(), row.rank, row.dims, row.periods, row.allgather(grid.rank)])
    return out


def others(comm):
    from mpi4py import MPI

    twin = comm.Dup()
    node = twin.Split_type(MPI.COMM_TYPE_SHARED)
    turned = comm.Split_type(MPI.COMM_TYPE_SHARED, key=-comm.rank)
    nobody = comm.Split_type(MPI.UNDEFINED)
    seen = [twin.rank, twin.size, node.rank, node.size, turned.allgather(comm.rank), nobody == MPI.COMM_NULL]
    if comm.size > 1:
        if comm.rank == 0:  # the same tag to the same rank, each message in its own communicator
            comm.send("comm", 1)
            twin.send("twin", 1)
        elif comm.rank == 1:
            seen += [twin.recv(), comm.recv()]
    return seen


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_as_on_real_ranks(ranks):
    def all_of_them(comm):
        return split_inside_split(comm), grids(comm), others(comm)

    assert virtual.Cluster(1, ranks).run(all_of_them).results == launch.run(all_of_them, ranks=ranks)


@pytest.mark.parametrize(("nodes", "each"), [(1, 4), (3, 2), (4, 4)])
def test_by_node(nodes, each):
    def two_levels(comm, vector):
        node = comm.Split_type()
        leaders = comm.Split(0 if node.rank == 0 else 1, comm.rank)
        inside, total = np.empty_like(vector), np.empty_like(vector)
        node.Reduce(vector, inside, root=0)
        if node.rank == 0:
            leaders.Allreduce(inside, total)
        node.Bcast(total, root=0)
        return node.rank, node.size, float(total[0]), total.size

    run = virtual.Cluster(nodes, each).run(two_levels, np.ones(1000))
    p = nodes * each
    assert run.results == [(rank % each, each, float(p), 1000) for rank in range(p)]
    assert all(
        source % each == dest % each == 0 for source, dest in run.links if source // each != dest // each
    )
    assert not any(run.node_links.get(pair) for pair in [(0, 0)])


@pytest.mark.parametrize("ranks", [5, 8, 16])
def test_random_trees_of_communicators(ranks):
    def descend(comm, seed):
        draw = np.random.default_rng(seed)  # the same on all ranks
        world, here, path = comm.rank, comm, []
        for _ in range(4):
            colors, keys = draw.integers(0, 3, 16), draw.integers(0, 4, 16)
            everyone = here.allgather((int(colors[world]), int(keys[world]), here.rank, world))
            here = here.Split(int(colors[world]), int(keys[world]))
            part = sorted(member[1:] for member in everyone if member[0] == colors[world])
            assert [member[2] for member in part] == here.allgather(world)
            total = np.empty(700)
            here.Allreduce(np.full(700, float(world)), total)
            assert (total == sum(member[2] for member in part)).all()
            path.append(here.size)
        return path

    for seed in range(5):
        assert virtual.Cluster(ranks).run(descend, seed).results[0][0] >= 1


def test_making_one_takes_no_messages_but_waits_for_all():
    def late(comm):
        comm.compute((comm.rank * 3 % 4) * 1e-3)
        ring = comm.Create_cart([comm.size], [True])
        after = comm.Wtime()
        return after, ring.Dup().Split(0).Wtime(), ring.Get_size()

    run = virtual.Cluster(4).run(late)
    assert sum(run.sent) == sum(run.steps) == 0
    assert run.results == [(3e-3, 3e-3, 4)] * 4


def test_without_mpi4py_undefined_gives_a_false_communicator(monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)

    def leave_out(comm):
        sub = comm.Split(-32766 if comm.rank == 0 else 0)
        if not sub:
            assert sub == None  # noqa: E711 - it says that it equals None
            with pytest.raises(LabError, match="Barrier of no communicator"):
                sub.Barrier()
            return "none"
        total = np.empty(2)
        sub.Allreduce(np.ones(2), total)
        return total.sum()

    assert virtual.Cluster(3).run(leave_out).results == ["none", 4.0, 4.0]


def after_free(comm):
    twin = comm.Dup()
    twin.Free()
    twin.Bcast(np.zeros(2))


def free_all(comm):
    comm.Free()


def negative(comm):
    comm.Split(-3)


def no_number(comm):
    comm.Split("red")


def too_large(comm):
    comm.Create_cart([comm.size, 2], [True, True])


def other_type(comm):
    comm.Split_type(77)


def no_grid(comm):
    comm.Shift(0, 1)


def no_axis(comm):
    comm.Create_cart([comm.size], [True]).Shift(1, 1)


def off_the_edge(comm):
    comm.Create_cart([comm.size], [False]).Get_cart_rank([-1])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (after_free, "Bcast of no communicator"),
        (free_all, "the communicator of all ranks cannot be freed"),
        (negative, "a color is 0 or more, or MPI.UNDEFINED, not -3"),
        (no_number, "color and key are whole numbers, not 'red'"),
        (too_large, "3 ranks cannot lie on a grid of dims [3, 2]"),
        (other_type, "splits by node: MPI.COMM_TYPE_SHARED"),
        (no_grid, "comm.Create_cart([3], [True])"),
        (no_axis, "a grid of dims [3] has no direction 1"),
        (off_the_edge, "[-1] is outside of the grid [3]"),
    ],
)
def test_what_cannot_be(wrong, says):
    with pytest.raises(LabError) as error:
        virtual.Cluster(3).run(wrong)
    assert says in str(error.value)
