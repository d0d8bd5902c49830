"""Lab 27: what a stand-in's copies cost, when their bytes move, what is refused; a GPU if there is one."""

from __future__ import annotations

import numpy as np
import pytest
import virtual
from labkit import launch, world
from labkit.errors import LabError
from support import lab27

HAS_GPU = world.device().startswith("cuda")
every_device = pytest.mark.parametrize(
    "name",
    [
        "stand-in",
        pytest.param("cuda", marks=pytest.mark.skipif(not HAS_GPU, reason="this machine has no GPU")),
    ],
)


def device_of(name: str):
    return lab27.Cuda(world.device()) if name == "cuda" else lab27.StandIn(1e-4, 1e9)


def on_clock():
    """A stand-in on a clock of its own, and the list of how long it paused."""
    now = [0.0]
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        now[0] += seconds

    return lab27.StandIn(1.0, 10.0, lambda: now[0], pause), now, pauses


@every_device
def test_bytes_go_there_and_back(name):
    device = device_of(name)
    values = np.arange(1000, dtype=np.uint8)
    memory, other, host = device.array(values), device.empty(1000), device.pinned(2, 400)
    for at in (0, 400, 800):
        part = host[at // 400 % 2][: min(400, 1000 - at)]
        device.to_host(part, memory[at : at + 400]).wait()
        device.to_device(other[at : at + 400], part).wait()
    assert (device.peek(other) == values).all()
    assert (device.peek(memory) == values).all()
    assert len(memory) == 1000
    assert isinstance(host[0][:3], lab27.Pinned)


@every_device
def test_wrong_arguments_get_a_sentence(name):
    device = device_of(name)
    memory, host = device.empty(10), device.pinned(9)
    with pytest.raises(LabError, match="host's buffer has 9 bytes, the device's memory 10"):
        device.to_host(host, memory)
    with pytest.raises(LabError, match="pinned memory from device.pinned"):
        device.to_host(np.zeros(10, np.uint8), memory)
    with pytest.raises(LabError, match=r"to_device\(memory, host\)"):
        device.to_device(host, memory)


def test_a_copy_takes_its_start_and_its_bytes():
    device, now, pauses = on_clock()
    device.to_host(device.pinned(20), device.empty(20)).wait()
    assert now == [3.0]
    assert pauses == [3.0]
    assert device.log == [("to host", 20, 0.0, 3.0)]


def test_one_engine_works_in_turns_two_at_once():
    device, now, _ = on_clock()
    host, memory = device.pinned(2, 10), device.empty(20)
    first = device.to_host(host[0], memory[:10])
    second = device.to_host(host[1], memory[10:])
    back = device.to_device(memory[:10], device.pinned(10))
    first.wait()
    assert now == [2.0]
    back.wait()
    assert now == [2.0]
    second.wait()
    assert now == [4.0]
    second.wait()
    assert now == [4.0]


def test_bytes_move_when_they_are_waited_for():
    device, _, _ = on_clock()
    memory, host = device.array(np.full(4, 7)), device.pinned(4)
    copy = device.to_host(host, memory)
    assert (host == 0xDD).all()
    copy.wait()
    assert (host == 7).all()
    device.to_device(memory, host)
    host[:] = 9
    device.to_device(memory, host).wait()  # the engine keeps the order, so the first copy is over as well
    assert (device.peek(memory) == 9).all()


def test_the_host_cannot_look_into_device_memory():
    memory = lab27.Memory(np.zeros(4, np.uint8))
    with pytest.raises(LabError, match="Copy it to pinned memory first"):
        np.asarray(memory)
    with pytest.raises(LabError, match="slice it"):
        memory[0]
    with pytest.raises(LabError, match="No MPI takes the memory of a stand-in"):
        lab27.StandIn(0, 1e9).for_mpi(memory)


def send_memory(comm):
    comm.Send(lab27.Memory(np.zeros(4, np.uint8)), dest=0)


def test_real_mpi_refuses_a_stand_ins_memory():
    with pytest.raises(LabError, match="neither the host nor its MPI can read it"):
        launch.run(send_memory, ranks=1)


def test_pipeline_time():
    steps = [(1.0, 0.1), (2.0, 0.2), (0.0, 0.1)]
    assert lab27.pipeline_time(10, 1, steps) == pytest.approx(7.0)
    assert lab27.pipeline_time(10, 2, steps) == pytest.approx(1.5 + 3 + 0.5 + 3)
    assert set(lab27.CPU_TO_HOST) == set(lab27.CPU_TO_DEVICE)


def test_a_virtual_device_goes_by_the_virtual_clock():
    def program(comm):
        device = lab27.StandIn(1.0, 10.0, comm.Wtime, comm.compute)
        copy = device.to_host(device.pinned(10), device.empty(10))
        comm.compute(0.5)
        copy.wait()
        return comm.Wtime()

    assert virtual.Cluster(1).run(program).results == [2.0]
