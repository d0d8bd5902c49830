"""A communicator that takes tensors of GPUs: the calls of MPI's, by NCCL where GPUs are; and groups
of torch.distributed."""

from __future__ import annotations

import time
import weakref

import numpy as np
import pytest
import torch
from labkit import launch, world
from labkit.errors import LabError
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tests import emulated_gpu
from tests.labkit.launch.leftovers import failed

pytestmark = pytest.mark.slow


def gpus(monkeypatch, count: int) -> None:
    for name, value in emulated_gpu.environment(count).items():
        monkeypatch.setenv(name, value)


def a_number(rank: int) -> torch.Tensor:
    return torch.full((3,), rank + 1.0, device=world.device())


@launch.on_devices()
def each_call(comm) -> dict:
    """What each call brought on this rank of two, and how it went."""
    own = a_number(comm.rank)
    got = {"device": own.device.type}
    room = torch.empty(3, device=world.device())
    other = 1 - comm.rank
    request = comm.Isend(own, dest=other, tag=7)  # both send before either receives
    comm.Recv(room, source=other, tag=7)
    request.Wait()
    got["message"] = room.tolist()
    total = torch.empty_like(own)
    comm.Allreduce(own, total)
    got["sum"] = total.tolist()
    comm.Iallreduce(own, total).Wait()
    got["sum later"] = total.tolist()
    whole = torch.empty(6, device=world.device())
    comm.Allgather(own, whole)
    got["gathered"] = whole.tolist()
    comm.Reduce_scatter_block(whole, room)
    got["scattered"] = room.tolist()
    swapped = torch.empty_like(whole[:4])
    comm.Alltoall(whole[:4] + comm.rank, swapped)
    got["swapped"] = swapped.tolist()
    outgoing, incoming = ([1, 3], [1, 2]) if comm.rank == 0 else ([2, 1], [3, 1])
    uneven = torch.empty(sum(incoming), device=world.device())
    comm.Alltoallv([whole[: sum(outgoing)], outgoing], [uneven, incoming])
    got["uneven"] = uneven.tolist()
    comm.Bcast(own, root=1)
    got["root's"] = own.tolist()
    vector = np.ones(2)
    got["by MPI"] = comm.allreduce(comm.rank), comm.Allreduce(vector.copy(), vector), vector[0]
    got["backend"] = distributed.get_backend() if distributed.is_initialized() else None
    return got


RIGHT = {
    "message": lambda rank: [2.0 - rank] * 3,
    "sum": lambda rank: [3.0] * 3,
    "sum later": lambda rank: [3.0] * 3,
    "gathered": lambda rank: [1.0] * 3 + [2.0] * 3,
    "scattered": lambda rank: [2.0 + 2 * rank] * 3,
    "swapped": lambda rank: [[1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 2.0, 3.0]][rank],
    "uneven": lambda rank: [[1.0] * 3, [1.0, 1.0, 2.0, 1.0]][rank],
    "root's": lambda rank: [2.0] * 3,
    "by MPI": lambda rank: (1, None, 2.0),
}


@pytest.mark.parametrize(
    ("count", "device", "backend"), [(0, "cpu", None), (1, "cpu", None), (2, "cuda", "nccl")]
)
def test_the_same_program_on_cpus_and_on_gpus(count, device, backend, monkeypatch):
    """Two ranks; on one GPU, which NCCL refuses to share, their tensors stay in host memory."""
    if count:
        gpus(monkeypatch, count)
    for rank, got in enumerate(launch.run(each_call, ranks=2)):
        right = {name: value(rank) for name, value in RIGHT.items()}
        assert got == right | {"device": device, "backend": backend}


@launch.on_devices(group=True)
def backend_and_sum(comm) -> tuple[str, int, float]:
    own = a_number(comm.rank)
    distributed.all_reduce(own)
    return distributed.get_backend(), distributed.get_world_size(), own[0].item()


@launch.on_devices()
def in_a_group(comm) -> bool:
    return distributed.is_initialized()


def test_a_group_on_cpus_is_asked_for():
    both = launch.run(lambda comm: (backend_and_sum(comm), in_a_group(comm)), ranks=2)
    assert both == [(("gloo", 2, 3.0), False)] * 2


@launch.on_devices()
def by_numpy(comm) -> None:
    comm.Send(a_number(0).numpy(), dest=1 - comm.rank)


@launch.on_devices()
def into_host_memory(comm) -> None:
    comm.Recv(torch.empty(3), source=1 - comm.rank)


@launch.on_devices()
def a_call_that_is_not_there(comm) -> None:
    comm.Scan(a_number(0), a_number(0))


@launch.on_devices()
def displacements_beside_counts(comm) -> None:
    own = a_number(0)[:2]
    counts = [1, 1]
    comm.Alltoallv([own, (counts, [0, 1])], [own.clone(), (counts, [0, 1])])


REFUSED = {
    by_numpy: "where `.numpy()` cannot reach",
    into_host_memory: "was given memory of the host",
    a_call_that_is_not_there: "comm.Scan takes no tensor on cuda:",
    displacements_beside_counts: "without displacements",
}


def what_is_refused(comm) -> list[str]:
    said = []
    for program in REFUSED:
        with pytest.raises(LabError) as refused:
            program(comm)
        said.append(str(refused.value))
    return said


def test_what_a_gpu_refuses_gets_a_sentence(monkeypatch):
    gpus(monkeypatch, 2)
    for said in launch.run(what_is_refused, ranks=2, timeout=60):
        for text, says in zip(said, REFUSED.values(), strict=True):
            assert says in text


# --- a group of torch.distributed is left after all that was made inside is gone

models: list[weakref.ref] = []  # of this rank


@launch.in_group()
def one_way_back() -> float:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, other = (DistributedDataParallel(torch.nn.Linear(4, 1, device=device)) for _ in range(2))
    other.itself = [other]  # a circle, which only the garbage collector takes away
    models.extend(map(weakref.ref, (model, other)))
    model(torch.full((2, 4), distributed.get_rank() + 1.0, device=device)).sum().backward()
    return model.module.weight.grad.mean().item()


def models_left() -> tuple[float, list[bool]]:
    """The gradient, and which models are still there when the group is left.

    A model that is would take the group's threads along as it goes, holding Python's lock. One of
    those that still has to let go of a tensor waits for that lock, and the rank never ends.
    """
    left = []
    destroy = distributed.destroy_process_group

    def look_and_destroy() -> None:
        left.extend(model() is not None for model in models)
        destroy()

    distributed.destroy_process_group = look_and_destroy
    return one_way_back(), left


def test_models_are_gone_before_the_group():
    assert launch.run(models_left, ranks=2, controller="torch") == [(3.0, [False, False])] * 2


@launch.in_group()
def sizes() -> tuple[int, int, str]:
    return distributed.get_rank(), distributed.get_world_size(), distributed.get_backend()


def sizes_and_afterwards() -> tuple:
    return *sizes(), distributed.is_initialized()


def test_the_function_knows_its_rank_and_the_group_is_gone_afterwards():
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    told = launch.run(sizes_and_afterwards, ranks=3, controller="torch")
    assert told == [(rank, 3, backend, False) for rank in range(3)]


# --- the error of one rank is told, and not what follows from it on the others


def one_fails() -> None:
    destroy = distributed.destroy_process_group

    def leave() -> None:
        destroy()  # the others hear of it at once
        time.sleep(1)

    distributed.destroy_process_group = leave
    if distributed.get_rank() == 1:
        raise ValueError("of rank 1")
    distributed.all_reduce(torch.ones(4, device=world.device()))


@launch.on_devices(group=True)
def one_fails_beside_mpi(comm) -> None:
    one_fails()


@pytest.mark.parametrize(
    ("program", "controller"),
    [(launch.in_group()(one_fails), "torch"), (one_fails_beside_mpi, "mpi")],
)
def test_an_error_in_a_group_is_told_with_its_line(program, controller):
    error = failed(program, ranks=2, controller=controller, timeout=60)
    assert str(error).startswith("rank 1 failed: ValueError: of rank 1  (line ")
