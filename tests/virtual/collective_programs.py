"""Programs of collectives for real ranks and for virtual ones: `play(comm, programs)` gives their
results.

A step is (call, root, length, op, dtype, in_place); root is taken modulo the ranks there are. All
data follow from the rank and the number of the step, so that both worlds begin alike; results are
exact in their type.
"""

from __future__ import annotations

import functools

import numpy as np

ARRAYS = ["Bcast", "Reduce", "Allreduce", "Allgather", "Allgatherv", "Reduce_scatter_block"]
ARRAYS += ["Reduce_scatter", "Scatter", "Gather", "Alltoall", "Alltoallv", "Scan"]
ARRAYS += ["Iallreduce", "Ireduce", "Ibcast"]
OBJECTS = ["barrier", "bcast", "reduce", "allreduce", "scan", "allgather", "gather", "scatter"]
OBJECTS += ["alltoall"]
OTHERS = ["Barrier", "Ibarrier", "ring", "several"]
GROUPS = ["split", "halves", "some", "dup", "node", "back"]
OPS = ["SUM", "PROD", "MAX", "MIN", "BXOR"]
DTYPES = ["f4", "f8", "i4", "i8"]


def play(comm, programs: list[list[tuple]]) -> list[list]:
    """What each step of each program gave on this rank."""
    return [_play(comm, program) for program in programs]


def _play(comm, program: list[tuple]) -> list:
    from mpi4py import MPI

    comms, out = [comm], []
    for number, step in enumerate(program):
        here = comms[-1]
        if step[0] in GROUPS:
            out.append(_group(comms, here, MPI, step))
        elif here is not None:
            out.append(_step(here, MPI, number, *step))
    for left in comms[1:]:
        if left is not None:
            left.Free()
    return out


def _group(comms: list, here, MPI, step: tuple):
    """Go into a communicator made of the present one, or back."""
    if step[0] == "back":
        left = comms.pop() if len(comms) > 1 else None
        if left is not None:
            left.Free()
        return None
    if here is None:
        comms.append(None)
        return None
    n, rank = here.Get_size(), here.Get_rank()
    made = {
        "split": lambda: here.Split(rank % (1 + step[1] % 3), -rank if step[5] else rank),
        "halves": lambda: here.Split(2 * rank // n, key=(rank * 7) % 5),
        "some": lambda: here.Split(MPI.UNDEFINED if rank == step[1] % n and n > 1 else 4, 0),
        "dup": lambda: here.Dup(),
        "node": lambda: here.Split_type(MPI.COMM_TYPE_SHARED, key=-rank),
    }[step[0]]()
    if made == MPI.COMM_NULL:
        comms.append(None)
        return "no communicator"
    comms.append(made)
    return made.Get_rank(), made.Get_size(), made.rank, made.size


def data(rank: int, number: int, length: int, dtype: str, op: str = "SUM") -> np.ndarray:
    """Whole numbers from 1 on; small ones where they are to be multiplied."""
    numbers = np.arange(length) * 7 + rank * 13 + number * 5
    return (numbers % (3 if op == "PROD" else 97) + 1).astype(dtype)


def _step(comm, MPI, number: int, call: str, root: int, length: int, op: str, dtype, in_place):
    n, rank = comm.Get_size(), comm.Get_rank()
    root %= n
    made = functools.partial(data, rank, number, dtype=dtype, op=op)
    op = getattr(MPI, "MAX" if op == "BXOR" and (dtype[0] == "f" or call in OBJECTS) else op)
    at_root = rank == root
    own, whole = made(length), made(length * n)
    if call in OBJECTS:
        return _objects(comm, call, root, op, n, rank, number)
    if call in OTHERS:
        return _others(comm, MPI, call, n, rank, own, op)
    into, wide = np.zeros(length, dtype), np.zeros(length * n, dtype)
    if in_place:
        into, wide = own.copy(), np.zeros(length * n, dtype)
        wide[rank * length : (rank + 1) * length] = own
    send, here = (MPI.IN_PLACE, MPI.IN_PLACE) if in_place else (own, whole)
    if call in ("Bcast", "Ibcast"):
        _ended(getattr(comm, call)(own, root=root))
        return own.tolist()
    if call in ("Reduce", "Ireduce"):
        _ended(getattr(comm, call)(send if at_root else own, into if at_root else None, op, root))
        return into.tolist() if at_root else None
    if call == "Gather":
        comm.Gather(send if at_root else own, wide if at_root else None, root)
        return wide.tolist() if at_root else None
    if call == "Scatter":
        stays = in_place and at_root
        comm.Scatter(whole if at_root else None, MPI.IN_PLACE if stays else into, root)
        return whole.tolist() if stays else into.tolist()
    if call in ("Allreduce", "Scan", "Iallreduce"):
        _ended(getattr(comm, call)(send, into, op=op))
        return into.tolist()
    if call == "Allgather":
        comm.Allgather(send, wide)
        return wide.tolist()
    if call == "Allgatherv":
        counts = [length + more for more in range(n)]
        block = made(counts[rank])
        wide = np.zeros(sum(counts), dtype)
        if in_place:
            begin = sum(counts[:rank])
            wide[begin : begin + counts[rank]] = block
        comm.Allgatherv(MPI.IN_PLACE if in_place else block, [wide, counts])
        return wide.tolist()
    if call == "Alltoall":
        comm.Alltoall(here, whole if in_place else wide)
        return (whole if in_place else wide).tolist()
    if call == "Alltoallv":
        counts = [length + (rank + other) % 3 for other in range(n)]  # the same from both sides
        block, wide = made(sum(counts)), np.zeros(sum(counts), dtype)
        comm.Alltoallv(MPI.IN_PLACE if in_place else [block, counts], [wide, counts])
        return wide.tolist()
    if call == "Reduce_scatter_block":
        comm.Reduce_scatter_block(here, whole if in_place else into, op)
        return (whole[:length] if in_place else into).tolist()
    assert call == "Reduce_scatter"
    counts = [length + more for more in range(n)]
    work, into = made(sum(counts)), np.zeros(counts[rank], dtype)
    if in_place:
        comm.Reduce_scatter(MPI.IN_PLACE, work, counts, op)
        return work[: counts[rank]].tolist()
    comm.Reduce_scatter(work, into, counts if number % 2 else None, op=op)
    return into.tolist()


def _ended(request) -> None:
    """Wait for what a call has begun; one that blocks gives none."""
    if request is not None:
        request.Wait()


def _objects(comm, call: str, root: int, op, n: int, rank: int, number: int):
    thing = {"rank": rank, "number": number}
    each = [(rank, to) for to in range(n)]
    return {
        "barrier": lambda: comm.barrier(),
        "bcast": lambda: comm.bcast(thing if rank == root else None, root=root),
        "reduce": lambda: [comm.reduce([rank], root=root), comm.reduce(rank + 2, op, root)],
        "allreduce": lambda: [comm.allreduce([rank]), comm.allreduce(rank + 2, op=op)],
        "scan": lambda: [comm.scan([rank]), comm.scan(rank + 2, op)],
        "allgather": lambda: comm.allgather(thing),
        "gather": lambda: comm.gather(thing, root=root),
        "scatter": lambda: comm.scatter(each if rank == root else None, root),
        "alltoall": lambda: comm.alltoall(each),
    }[call]()


def _others(comm, MPI, call: str, n: int, rank: int, own: np.ndarray, op):
    if call == "Barrier":
        return comm.Barrier()
    if call == "Ibarrier":
        return comm.Ibarrier().Wait()
    if call == "ring":
        into = np.empty_like(own)
        comm.Sendrecv(own, (rank + 1) % n, 3, into, (rank - 1) % n, 3)
        return into.tolist()
    total, first, both = np.empty_like(own), own.copy(), np.empty_like(own)
    # Several at once, ended out of order:
    requests = [comm.Iallreduce(own, total, op), comm.Ibcast(first, 0), comm.Ibarrier()]
    comm.Allreduce(own, both, op)
    for request in requests[::-1]:
        request.Wait()
    return total.tolist(), first.tolist(), both.tolist()
