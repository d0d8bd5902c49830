"""Devices: what a stand-in's copies cost, when their bytes move, what is refused; a GPU if there is one."""

from __future__ import annotations

import time

import numpy as np
import pytest
from labkit import launch, virtual, world
from labkit.errors import CheckFailed, LabError
from support import lab27
from support.lab27.emulated import Memory, Pinned, _sleep

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


def staged(comm, device, out, into, outbox, inbox, dest, source):
    device.to_host(outbox, out).wait()
    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)
    device.to_device(into, inbox).wait()


def in_halves(comm, device, out, into, outbox, inbox, dest, source):
    """Right, but nothing overlaps."""
    for at in range(0, len(out), outbox.shape[1]):
        piece = slice(at, min(at + outbox.shape[1], len(out)))
        n = piece.stop - piece.start
        staged(comm, device, out[piece], into[piece], outbox[0][:n], inbox[0][:n], dest, source)


def on_clock():
    """A stand-in on a clock of its own, and the list of how long it paused."""
    now, pauses = [0.0], []

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
    assert isinstance(host[0][:3], Pinned)


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
    memory = Memory(np.zeros(4, np.uint8))
    with pytest.raises(LabError, match="Copy it to pinned memory first"):
        np.asarray(memory)
    with pytest.raises(LabError, match="slice it"):
        memory[0]
    with pytest.raises(LabError, match="No MPI takes the memory of a stand-in"):
        lab27.StandIn(0, 1e9).for_mpi(memory)
    with pytest.raises(LabError, match="not 0, 0"):
        lab27.StandIn(0, 0)


def send_memory(comm):
    comm.Send(Memory(np.zeros(4, np.uint8)), dest=0)


def test_real_mpi_refuses_a_stand_ins_memory():
    with pytest.raises(LabError, match="neither the host nor its MPI can read it"):
        launch.run(send_memory, ranks=1)


@pytest.mark.parametrize("seconds", [5e-5, 3e-3])
def test_a_pause_is_never_short(seconds):
    start = time.perf_counter()
    _sleep(seconds)
    assert time.perf_counter() - start >= seconds


def test_here_says_what_it_is():
    device = lab27.here(4e-4, 2.5e8)
    assert device.name.startswith("cuda:" if HAS_GPU else "stand-in, 0.25 GB/s after 400 µs")


def test_ask_mpi():
    text, built = launch.run(lab27.ask_mpi, ranks=1)[0]
    assert "\n" in text.strip() or "MPI" in text
    assert built in (True, False, None)
    if not HAS_GPU and text.startswith("MPICH"):
        assert built is False


def test_trials_take_a_right_way():
    runs = lab27.trials(staged, [1, 100], ranks=[1, 3])
    assert [run.ranks for run in runs] == [1, 1, 3, 3]
    assert runs[1].time == pytest.approx(2 * (1e-5 + 1e-7) + 2e-6 + 1e-7)


def lazy(comm, device, out, into, outbox, inbox, dest, source):
    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)
    device.to_host(outbox, out).wait()
    device.to_device(into, inbox).wait()


def twice(comm, device, out, into, outbox, inbox, dest, source):
    staged(comm, device, out, into, outbox, inbox, dest, source)
    device.to_host(outbox, out).wait()


def all_of_it_thrice(comm, device, out, into, outbox, inbox, dest, source):
    staged(comm, device, out, into, outbox, inbox, dest, source)
    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)


@pytest.mark.parametrize(
    ("way", "chunk", "says"),
    [
        (lazy, None, "rubbish of a pinned buffer"),
        (twice, None, "the number of copies to host: expected 1, got 2"),
        (all_of_it_thrice, None, "the messages that rank 0 sent: expected 1, got 2"),
        (in_halves, 100, "in turns"),
    ],
)
def test_trials_refuse(way, chunk, says):
    with pytest.raises(CheckFailed, match=says):
        lab27.trials(way, [1000], chunk, ranks=[2])


def test_on_ranks_and_race():
    launch.run(lab27.on_ranks, staged, 1001, None, 1e-5, 1e9, ranks=3)
    ways = {"one piece": (staged, None), "chunks": (in_halves, 50), **lab27.STEPS}
    rows, name = launch.run(lab27.race, [100], ways, 1e-5, 1e9, seconds=0.1, ranks=2)[0]
    assert set(rows["inside a node"]) == set(ways)
    assert name == lab27.here(1e-5, 1e9).name


def test_busy():
    [run] = lab27.trials(staged, [1000], ranks=[2], trace=True)
    rows = lab27.busy(run, "x")
    assert list(rows) == ["to host, x", "message, x", "to device, x"]
    assert [len(spans) for spans in rows.values()] == [1, 1, 1]
    assert rows["to host, x"][0] == pytest.approx((0, 1.1e-5))


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
