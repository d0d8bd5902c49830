"""Lab 27: what a stand-in's copies cost, when their bytes move, what is refused; a GPU if there is
one."""

from __future__ import annotations

import numpy as np
import pytest
from labkit import launch, world
from labkit.errors import LabError
from support import lab27


@pytest.mark.parametrize("name", ["stand-in", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_bytes_go_there_and_back(name):
    device = lab27.Cuda(world.device()) if name == "cuda" else lab27.StandIn(1e-4, 1e9)
    values = np.arange(1000, dtype=np.uint8)
    memory, other, host = device.array(values), device.empty(1000), device.pinned(2, 400)
    for at in (0, 400, 800):
        part = host[at // 400 % 2][: min(400, 1000 - at)]
        device.to_host(part, memory[at : at + 400]).wait()
        device.to_device(other[at : at + 400], part).wait()
    assert (device.peek(other) == values).all()
    assert (device.peek(memory) == values).all()
    memory, host = device.empty(10), device.pinned(9)
    with pytest.raises(LabError, match="host's buffer has 9 bytes, the device's memory 10"):
        device.to_host(host, memory)
    with pytest.raises(LabError, match=r"to_device\(memory, host\): `host` is pinned memory"):
        device.to_device(host, memory)


def test_one_engine_works_in_turns_two_at_once_and_bytes_move_when_they_are_waited_for():
    now = [0.0]

    def pause(seconds):
        now[0] += seconds

    device = lab27.StandIn(1.0, 10.0, lambda: now[0], pause)
    memory, host, other = device.array(np.full(20, 7)), device.pinned(2, 10), device.pinned(10)
    first = device.to_host(host[0], memory[:10])
    second = device.to_host(host[1], memory[10:])
    other[:] = 9
    back = device.to_device(memory[:10], other)
    assert (host == 0xDD).all()
    for copy, time in ((first, 2.0), (back, 2.0), (second, 4.0), (second, 4.0)):
        copy.wait()
        assert now == [time]
    assert (host == 7).all()
    assert device.peek(memory).tolist() == [9] * 10 + [7] * 10
    first, second, back = device.log
    assert (first, second) == (("to host", 10, 0.0, 2.0), ("to host", 10, 2.0, 4.0))
    assert back == ("to device", 10, 0.0, 2.0)


def send_memory(comm):
    comm.Send(lab27.Memory(np.zeros(4, np.uint8)), dest=0)


def test_neither_the_host_nor_mpi_can_look_into_device_memory():
    memory = lab27.Memory(np.zeros(4, np.uint8))
    with pytest.raises(LabError, match="Copy it to pinned memory first"):
        np.asarray(memory)
    with pytest.raises(LabError, match="slice it"):
        memory[0]
    with pytest.raises(LabError, match="No MPI takes the memory of a stand-in"):
        lab27.StandIn(0, 1e9).for_mpi(memory)
    with pytest.raises(LabError, match="neither the host nor its MPI can read it"):
        launch.run(send_memory, ranks=1)


def test_pipeline_time():
    steps = [(1.0, 0.1), (2.0, 0.2), (0.0, 0.1)]
    assert lab27.pipeline_time(10, 1, steps) == pytest.approx(7.0)
    assert lab27.pipeline_time(10, 2, steps) == pytest.approx(1.5 + 3 + 0.5 + 3)
