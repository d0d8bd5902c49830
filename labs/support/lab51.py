"""Lab 51: its checks, and one allreduce behind a name: "mpi", "torch-gloo", "horovod-nccl" and
more.

    def program(link):              # on each rank, by lab51.each(["torch-gloo", …], program,
                                    ranks=2)
        vector = link.vector(1000)  # float32 zeros where this backend wants them, on the host or on
                                    a GPU
        link.sum(vector)            # in place, over all ranks; the result is there when it returns

The ranks are those of an MPI job, whatever carries the vector: so one file runs under mpiexec and
srun.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import virtual
from labkit import (
    builds,
    check,
    expect,
    launch,
    nets,
    placement,
    plots,
    record,
    timing,
    world,
)
from labkit.errors import LabError, NotHere


@check.exercise("51.1")
def variables_of_a_meeting(meeting):
    """Rank 0's address and each rank's own numbers, as text. PyTorch's ranks find each other by
    it."""
    # Virtual ranks, two on each node. Rank 0 has neither the first host nor the first or last port.
    for p in (1, 2, 3, 5):
        hosts = [f"node{(rank // 2 + 1) % 3}" for rank in range(p)]
        ports = [40000 + 10 * p + (2 + 3 * rank) % 5 for rank in range(p)]
        with patch.dict(os.environ):  # or this kernel would take itself for a rank of torchrun
            before = dict(os.environ)
            run = virtual.Cluster(p).run(meeting, virtual.by_rank(hosts), virtual.by_rank(ports))
            expect(
                os.environ == before,
                "`meeting` changed os.environ. Only return the dict; labkit sets the variables.",
            )
        for rank, got in enumerate(run.results):
            want = {"MASTER_ADDR": hosts[0], "MASTER_PORT": str(ports[0])}
            want |= {"RANK": str(rank), "WORLD_SIZE": str(p)}
            with check.case(f"ranks: {p}, two a node; rank {rank} at {hosts[rank]}:{ports[rank]}"):
                expect.equal(got, want, "variables")
    name, ranks = "torch-gloo", launch.ranks_here(3)  # then real ranks, or the launcher's
    results, why_not = each([name], met, ranks=ranks, timeout=60, meeting=meeting)
    if why_not:
        raise NotHere(f"{name} cannot run: {why_not[name]}.")
    for rank, (place, total) in enumerate(results[name]):
        with check.case(f"by Gloo on real ranks, rank {rank}"):
            expect.equal(place, (rank, ranks), "its rank in PyTorch's group, and the group's size")
            whole = ranks * (ranks + 1) / 2
            expect.close(total, whole, f"the sum of 1 to {ranks}, a number of each rank")


def met(link):
    """What a rank of torch.distributed says: (its rank, the group's size), the sum of all rank +
    1."""
    import torch.distributed as dist

    number = link.vector(1) + link.rank + 1
    link.sum(number)
    return (dist.get_rank(), dist.get_world_size()), number.item()


@check.exercise("51.2")
def clear_lead_or_either(best):
    """The backend that leads every other clearly; else "either"."""
    fast, slow, sharp = (0.9, 1.0, 1.1), (1.8, 2.0, 2.1), (0.98, 1.0, 1.01)
    for row, wanted in (
        ({"x": slow, "y": fast}, "y"),
        ({"x": (1.12, 1.13, 1.2), "y": fast}, "y"),
        ({"x": (1.105, 1.11, 1.12), "y": sharp}, "y"),
        ({"x": (1.05, 1.2, 1.3), "y": sharp}, "y"),  # x's median counts, not its q1
        ({"x": (2.0e-5, 2.1e-5, 2.2e-5), "y": (0.9e-5, 1.0e-5, 1.1e-5)}, "y"),  # some µs
        ({"y": fast}, "y"),
        # In any order, and whether x and z overlap does not count.
        ({"y": fast, "x": slow, "z": (2.05, 2.1, 3.0)}, "y"),
        ({"x": fast, "y": slow}, "x"),
        ({"x": (1.05, 1.3, 1.6), "y": fast}, "either"),  # not by the spread
        ({"x": (1.05, 1.05, 1.06), "y": sharp}, "either"),  # not by the medians
        ({"x": (1.085, 1.09, 1.1), "y": sharp}, "either"),  # not by the medians, either
        ({"x": (1.05, 1.08, 1.2), "y": sharp}, "either"),  # x's median counts, not its q3
        # not before z
        ({"w": slow, "y": fast, "z": (1.0, 3.0, 4.0), "x": (1.12, 1.13, 1.2)}, "either"),
        ({"x": (1.1, 1.3, 1.6), "y": fast}, "either"),  # q1 is not above q3
        # not above 1.1 times; 10 and 11, so that every way to compute this agrees
        ({"x": (10.5, 11.0, 12.0), "y": (9.8, 10.0, 10.1)}, "either"),
        ({"x": fast, "y": fast}, "either"),  # the same
    ):
        given = dict(row)
        expect.equal(best(given), wanted, f"best({row})")
        expect.unchanged(row, given, "The dict `row`")


def gradient_bytes(net: str) -> dict[str, int]:
    """{layer: bytes of its float32 gradient} of a net of nets.layer_table, in forward order."""
    rows = nets.layer_table(net).itertuples()
    return {row.layer: 4 * row.parameters for row in rows if row.parameters}


def buckets(sizes: Mapping[str, int], limit: int) -> list[list[str]]:
    """Which gradients leave together: buckets of layers, in the order in which they leave.

    sizes: {layer: bytes}, in forward order; backward yields the last layer first. A new bucket
    begins when the next gradient would not fit into `limit` bytes; one beyond the limit is alone.
    """
    plan: list[list[str]] = []
    filled = 0
    for layer in reversed(sizes):
        if not plan or filled + sizes[layer] > limit:
            plan.append([])
            filled = 0
        plan[-1].append(layer)
        filled += sizes[layer]
    return plan


def sweep(link, *, time_calls: Callable, rounds: Sequence[tuple[int, int, int]], longest: int):
    """On a rank: {bytes: seconds of each call}, of 4, 16, 64 … bytes.

    rounds: (bytes, calls, warm-up calls) for vectors of up to these bytes.
    """
    rows = {}
    nbytes = 4
    while nbytes <= longest:
        calls, warmup = _counts(nbytes, rounds)
        vector = link.vector(nbytes // 4)
        rows[nbytes] = time_calls(link, partial(link.sum, vector), calls, warmup)
        nbytes *= 4
    return rows


def _counts(nbytes: int, rounds: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    for up_to, calls, warmup in rounds:
        if nbytes <= up_to:
            return calls, warmup
    raise LabError(f"`rounds` ends before {nbytes} bytes.")


def shortest(link, *, time_calls: Callable):
    """On a rank: seconds of each call, of one number."""
    return time_calls(link, partial(link.sum, link.vector(1)), 100, 10)


def step(
    link,
    *,
    exchange: Callable,
    time_calls: Callable,
    named: Sequence[str],
    bucket: int,
    steps: int,
):
    """On a rank: {(net, way): seconds of each exchange}, after one that does not count.

    named: nets of nets.layer_table. link.finish: an exchange is over when the GPU, too, has made
    its copies. What the backward pass could hide is lab 32's question.
    """
    rows = {}
    silent = replace(link, sum=lambda tensor: None)  # carries nothing
    for net in named:
        sizes = gradient_bytes(net)
        gradients = {layer: link.vector(nbytes // 4) for layer, nbytes in sizes.items()}
        plan = buckets(sizes, bucket)
        ways = {
            "alone": partial(_one_by_one, link, gradients),
            "fused": partial(exchange, link, gradients, plan),
            "copies": partial(exchange, silent, gradients, plan),
        }
        for way, call in ways.items():
            rows[net, way] = time_calls(link, link.finish(call), steps, 1)
    return rows


def _one_by_one(link, gradients: Mapping) -> None:
    """Sum every gradient by a call of its own, last layer first."""
    for gradient in reversed(gradients.values()):
        link.sum(gradient)


def quartiles(times: Mapping[str, Mapping[int, np.ndarray]], ranks: int) -> dict[str, dict]:
    """{backend: {bytes: (q1, median, q3)}} of {backend: {bytes: seconds of each call}}, recorded
    too."""
    here: dict[str, dict] = {}
    where = {"ranks": ranks, "nodes": launch.nodes_here()}
    for name, row in times.items():
        here[name] = {
            n: tuple(np.percentile(took, (25, 50, 75)).tolist()) for n, took in row.items()
        }
        q1, median, q3 = zip(*here[name].values(), strict=True)
        calls = {"bytes": list(row), "q1": q1, "median": median, "q3": q3, "unit": "s"}
        record.add("allreduce", backend=name, **calls, **where, **place(name).fields())
    return here


def measurements(times: Mapping[str, Mapping], ranks: int) -> dict[tuple, timing.Measurement]:
    """{(backend, net, way): Measurement} of {backend: {(net, way): seconds of each exchange}},
    recorded too."""
    took = {}
    where = {"ranks": ranks, "nodes": launch.nodes_here()}
    for name, rows in times.items():
        for (net, way), seconds in rows.items():
            took[name, net, way] = timing.Measurement(seconds)
            what = {"backend": name, "net": net, "way": way, "seconds": took[name, net, way]}
            record.add("step", **what, **where, **place(name).fields())
    return took


def plot_exchange(took: Mapping[tuple, timing.Measurement], net: str) -> None:
    """Bars of one net: each backend one by one and fused, with the copies of the latter.

    Only a bar's end has a mark, the quartiles of the whole: that of `calls` would be lower.
    """
    bars = {}
    for name in dict.fromkeys(name for name, _, _ in took):
        label = name.replace("horovod", "hvd").replace("-", "\n")
        alone, fused, copies = (
            1e3 * took[name, net, way].samples for way in ("alone", "fused", "copies")
        )
        bars[f"{label}\nalone"] = {"calls": alone}
        calls = max(0.0, np.median(fused) - np.median(copies))
        bars[f"{label}\nfused"] = {"calls": calls, "copies": fused - calls}
    title = f"{net}: fusing saves calls, costs copies"
    plots.bars(bars, ylabel="time of all gradients (ms)", title=title)


class Backend(NamedTuple):
    """Who calls ("mpi4py", "torch", "horovod"), who carries ("mpi", "gloo", "nccl"), from where.

    build: the build of Horovod that it takes; None: any.
    """

    caller: str
    carrier: str
    on_gpu: bool = False
    build: str | None = None


# A carrier's own name: of vectors in host memory. "-gpu": of vectors in a GPU's memory.
BACKENDS = {
    "mpi": Backend("mpi4py", "mpi"),
    # A CUDA-aware MPI such as MVAPICH2-GDR (lab 27)
    "mpi-gpu": Backend("mpi4py", "mpi", on_gpu=True),
    "torch-gloo": Backend("torch", "gloo"),
    "torch-gloo-gpu": Backend("torch", "gloo", on_gpu=True),
    "torch-mpi": Backend("torch", "mpi"),
    "torch-nccl": Backend("torch", "nccl", on_gpu=True),
    "horovod-mpi": Backend("horovod", "mpi"),
    "horovod-mpi-gpu": Backend("horovod", "mpi", on_gpu=True, build="mpi"),
    "horovod-gloo": Backend("horovod", "gloo"),
    "horovod-nccl": Backend("horovod", "nccl", on_gpu=True, build="nccl"),
}
NAMES = tuple(BACKENDS)
_LIBRARIES = {"mpi": "MPI", "gloo": "Gloo", "nccl": "NCCL"}


@dataclass(frozen=True)
class Link:
    """An open backend. sum(tensor): in place over all ranks. barrier(): all ranks wait for each
    other.

    where: the placement of its vectors.
    """

    name: str
    rank: int
    size: int
    where: placement.Placement
    sum: Callable
    barrier: Callable

    def vector(self, values: int, dtype=None):
        """A torch tensor of zeros (float32 if dtype is None) on this backend's device."""
        import torch

        return torch.zeros(values, dtype=dtype or torch.float32, device=self.where.device)

    def finish(self, call: Callable[[], object]) -> Callable[[], None]:
        """A call of `call` that returns when the device has done all that was asked of it."""

        def call_and_wait() -> None:
            call()
            timing.device_sync(self.where.device)

        return call_and_wait


def place(name: str) -> placement.Placement:
    """Where the backend's vectors are, and what carries them."""
    backend = _backend(name)
    library = _LIBRARIES[backend.carrier]
    if not backend.on_gpu:
        return placement.on_host(library)
    # ProcessGroupGloo copies CUDA tensors to pinned memory and back; MPI and NCCL are opened for
    # GPU memory only where they take it.
    staged = backend.carrier == "gloo"
    reason = "PyTorch copies them to host memory and back" if staged else ""
    return placement.Placement(world.device(), staged, library, reason=reason)


def _backend(name: str) -> Backend:
    if name not in BACKENDS:
        raise LabError(f"There is no backend {name!r}; there are {', '.join(NAMES)}.")
    return BACKENDS[name]


def missing(name: str, comm=None) -> str:
    """Why this process cannot use the backend `name`, in words; "" if it can.

    comm: the MPI job's communicator, without which MPI is not asked, nor who shares a GPU; all its
    ranks call this. Raises LabError for a name that is none.
    """
    backend = _backend(name)
    gpus = comm.allgather(placement.own_gpu()) if comm else []
    if backend.on_gpu and world.device() == "cpu":
        return "no GPU here" + (
            ", and NCCL moves GPU memory only" if backend.carrier == "nccl" else ""
        )
    reason = ""
    if backend.caller == "torch":
        reason = _torch_lacks(backend.carrier)
    elif backend.caller == "horovod":
        reason = _horovod_lacks(name, backend, comm is not None)
    if not reason and backend.carrier == "nccl":
        reason = gpus_lack(gpus, placement.own_gpu())
    if not reason and backend.carrier == "mpi" and backend.on_gpu and comm is not None:
        reason = placement.mpi_reason()
    return reason


def each(names: Sequence[str], fn: Callable, *args, ranks: int, timeout: float = 120, meeting=None):
    """fn(link, *args) on `ranks` ranks by each backend: ({name: results by rank}, {name: why it
    cannot}).

    Alone, each backend gets processes of its own, with the build of Horovod that it takes; under a
    launcher all use the job's. meeting(comm, host, port): the environment variables by which
    torch.distributed's ranks find each other, from this rank's own host and a free port there
    (default: `meet_at_rank_0`).
    """
    results: dict[str, list] = {}
    why_not: dict[str, str] = {}
    for name in names:
        # On a job's nodes the ranks decide together, and have their build.
        alone = world.launcher() is None
        reason = missing(name) if alone else ""
        if reason:
            why_not[name] = reason
            continue
        build = BACKENDS[name].build if alone else None
        arguments = (name, fn, args, meeting)
        by_rank = launch.run(_on_link, *arguments, ranks=ranks, timeout=timeout, horovod=build)
        if isinstance(by_rank[0], str):
            why_not[name] = by_rank[0]
        else:
            results[name] = [result for (result,) in by_rank]
    return results, why_not


def _on_link(comm, name: str, fn: Callable, args: tuple, meeting: Callable | None):
    """Why `name` cannot run on some rank, or (what fn returns,)."""
    reason = next(filter(None, comm.allgather(missing(name, comm))), "")
    if reason:
        return reason
    where = place(name)
    with _started(BACKENDS[name], comm, where.device, meeting or meet_at_rank_0) as call:
        return (fn(Link(name, comm.rank, comm.size, where, call, comm.Barrier), *args),)


def _torch_lacks(carrier: str) -> str:
    import torch.distributed as dist

    built = {
        "gloo": dist.is_gloo_available,
        "mpi": dist.is_mpi_available,
        "nccl": dist.is_nccl_available,
    }
    if dist.is_available() and built[carrier]():
        return ""
    cure = "; that takes a build from its sources" if carrier == "mpi" else ""
    return f"this PyTorch was built without {carrier.upper()}{cure}"


def _horovod_lacks(name: str, backend: Backend, on_ranks: bool) -> str:
    if backend.build and not on_ranks:
        # Its ranks will have that build; this process may have another.
        cure = f"`make setup GPU_OPERATIONS={backend.build.upper()}` builds it"
        return (
            ""
            if backend.build in builds.horovod_builds()
            else f"Horovod's build {backend.build} is not here; {cure}"
        )
    try:
        import horovod.torch as hvd
    except ImportError as error:
        return f"horovod.torch cannot be imported ({error}); `make setup` builds it"
    current = builds.current_horovod()
    if backend.build and current != backend.build:
        return (
            f"this job has Horovod's build {current}; start this file once more with "
            f"HOROVOD={backend.build} and backends {name!r} alone"
        )
    built = {"mpi": hvd.mpi_built, "gloo": hvd.gloo_built, "nccl": hvd.nccl_built}
    if not built[backend.carrier]():
        return f"this Horovod was built without {backend.carrier.upper()}"
    return ""


def gpus_lack(gpus: Sequence[str | None], own: str | None) -> str:
    """Why NCCL cannot run on this rank's GPU `own`, where a job's ranks have these; "" if it is its
    alone."""
    ranks = gpus.count(own)
    return f"NCCL takes one rank a GPU, and {ranks} ranks share this one" if ranks > 1 else ""


@contextmanager
def _started(backend, comm, device: str, meeting: Callable) -> Iterator[Callable]:
    """Start a backend on all ranks of comm; yields sum(tensor), in place, done when it returns.

    backend: one of BACKENDS. device: of its tensors.
    """
    with ExitStack() as stack:
        if device != "cpu":
            import torch

            torch.cuda.set_device(device)
        if backend.caller == "torch":
            call = stack.enter_context(_torch(comm, backend.carrier, meeting))
        elif backend.caller == "horovod":
            call = stack.enter_context(_horovod(comm, backend.carrier))
        else:
            call = _mpi(comm)
        yield call if device == "cpu" else _finished(call, device)


def meet_at_rank_0(comm, host: str, port: int) -> dict[str, str]:
    """What init_process_group reads: this rank's numbers, and rank 0's host and port."""
    host, port = comm.bcast((host, port), root=0)
    where = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    return {**where, "RANK": str(comm.rank), "WORLD_SIZE": str(comm.size)}


@contextmanager
def _address(comm) -> Iterator[tuple[str, int]]:
    """(this host, as the other ranks of comm reach it; a port free on it, kept free inside of the
    `with`)."""
    alone = len(set(comm.allgather(socket.gethostname()))) == 1
    host = "127.0.0.1" if alone else socket.gethostname()
    with launch.reserve_port(host if alone else "") as taken:
        yield host, taken.getsockname()[1]


def _finished(call: Callable, device: str) -> Callable:
    """`call` between two waits for the device.

    MPI reads memory that a kernel may still write, and NCCL's call returns before its kernel has
    run.
    """
    import torch

    def sum_and_wait(tensor) -> None:
        torch.cuda.synchronize(device)
        call(tensor)
        torch.cuda.synchronize(device)

    return sum_and_wait


def _mpi(comm) -> Callable:
    from mpi4py import MPI

    def call(tensor) -> None:
        # A numpy view of the tensor's memory costs less than the protocol by which mpi4py reads
        # tensors.
        comm.Allreduce(MPI.IN_PLACE, tensor if tensor.is_cuda else tensor.numpy())

    return call


@contextmanager
def _torch(comm, carrier: str, meeting: Callable) -> Iterator[Callable]:
    import torch.distributed as dist

    with _address(comm) as (host, port):
        variables = {name: str(value) for name, value in meeting(comm, host, port).items()}
        with launch.environment(variables):
            dist.init_process_group(carrier)
        # or a rank that is done at once would leave while another still connects to it
        comm.Barrier()
    try:
        yield dist.all_reduce
    finally:
        dist.destroy_process_group()


@contextmanager
def _horovod(comm, carrier: str) -> Iterator[Callable]:
    import horovod.torch as hvd

    with launch.environment({"HOROVOD_CPU_OPERATIONS": "gloo" if carrier == "gloo" else "mpi"}):
        hvd.init()
        try:
            # One name for each length: Horovod then remembers the tensor (its response cache).
            yield lambda tensor: hvd.allreduce_(
                tensor, op=hvd.Sum, name=f"{tensor.dtype}.{tensor.numel()}"
            )
        finally:
            hvd.shutdown()
            comm.Barrier()
