"""Lab 27: its checks, device memory behind one small interface, and ways to send it, tried and
raced.

A device has `name`, `empty(nbytes)`, `array(values)`, `peek(memory)`, `pinned(*shape)`,
`for_mpi(memory)`, and asynchronous copies, `to_host(host, memory)` and `to_device(memory, host)`,
whose result has `wait()`. Everything is bytes (uint8). Device memory is sliced as arrays are:
`memory[start:stop]`.

A way to send is a function (comm, device, out, into, outbox, inbox, dest, source): it sends device
memory `out` to rank dest and fills device memory `into` with what rank source sends. outbox, inbox:
pinned buffers, each of the whole length, or of two rows of one chunk.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil

import numpy as np
import virtual
from labkit import check, expect, launch, placement, timing, world
from labkit.errors import LabError, counted
from labkit.timing import benchmarks, human

Step = tuple[float, float]  # start in seconds, and seconds per byte
# Bytes that stand for rubbish.
EMPTY = 0xEE  # in device memory that nobody filled
UNUSED = 0xDD  # in a pinned buffer that nobody filled
CLOSED = (
    "This is device memory: neither the host nor its MPI can read it. Copy it to pinned memory"
    " first."
)
CHANGED = (
    "The source of a copy {} was changed between its start and its wait. Start a copy when its"
    " source is complete, and change the source only after the wait."
)
LINKS = [  # a copy, a message: each (start, seconds per byte)
    ((2e-5, 1e-10), (1e-5, 1.6e-10)),
    ((1e-4, 1e-9), (2e-4, 2e-10)),
    ((1e-16, 1e-10), (1e-16, 1e-10)),
]

# (start, seconds per byte) of a copy engine: cudaMemcpy takes 6 to 7 µs (README of
# NVIDIA/gdrcopy), and moves 10.06 GB/s (bandwidthTest with a K40; rcuda.net, "rCUDA achieves
# maximum performance with … Connect-IB").
COPY_ENGINE = (6.5e-6, 1 / 10.06e9)


@check.exercise("27.1")
def staged_through_the_host(staged, here, ranks):
    """The right bytes arrive, without waste, round a ring of 1 to 5 virtual ranks and on real
    ranks.
    """
    for p, nbytes in itertools.product((1, 2, 3, 4, 5), (1, 1000, 4099)):
        tried = trial(staged, p, nbytes)
        _received([into for into, _ in tried.results])
        _no_waste(tried, nbytes)
    _received(launch.run(exchange, staged, 100_003, None, **here, ranks=ranks, timeout=20))


@check.exercise("27.2")
def pipelined_in_two_halves(pipelined, staged, here, ranks):
    """The right bytes arrive in chunks, without waste, whichever step is the slowest, and on real
    ranks faster than staged.
    """
    # (bytes, bytes of a chunk, a copy's seconds per byte); a message takes 1e-9 seconds per byte
    even = [(nbytes, 1000, 1e-9) for nbytes in (1, 999, 1000, 2000, 1001, 7003)]
    uneven = [(200_000, 20_000, beta) for beta in (2e-10, 1e-9, 5e-9)]
    for (nbytes, chunk, beta), p in itertools.product(even + uneven, (1, 2, 3, 4, 5)):
        tried = trial(pipelined, p, nbytes, chunk, copy=(1e-5, beta))
        _received([into for into, _ in tried.results], chunk)
        _no_waste(tried, nbytes, chunk, (1e-5, beta))
    for p in (3, 4):  # rank 1 begins 1 ms later than the others: what is sent to it has to wait
        tried = trial(pipelined, p, 7003, 1000, late=1e-3)
        _received([into for into, _ in tried.results], 1000)
    received = launch.run(exchange, pipelined, 100_003, 30_000, **here, ranks=ranks, timeout=20)
    _received(received, 30_000)
    # Function, bytes of a chunk.
    ways = {"staged": (staged, None), "pipelined": (pipelined, 1 << 19)}
    races, name = launch.run(race, [1 << 21], ways, start=1e-3, rate=5e7, ranks=ranks)[0]
    for times in races.values():
        fastest = {way: min(times[way][1 << 21].samples) for way in ways}  # the machine may be busy
        gain = fastest["staged"] / fastest["pipelined"]
        expect(
            gain > 1.15 or "cuda" in name,
            f"4 chunks, real ranks: {gain:.2f} times as fast as staged.",
        )


@check.exercise("27.3")
def best_chunk(choose):
    """T is least for your chunks, and you return 0 where `direct` is faster than these, but only
    there.
    """
    for (copy, link), n in itertools.product(LINKS, (1000, 10**6, 10**9)):
        case = f"{n:.0e} bytes, copies {copy}, message {link}:"
        steps = [copy, link, copy]
        chunk = choose(n, steps)
        expect.unchanged([copy, link, copy], steps, "The list of steps")
        best = n / min(np.geomspace(1, n, 9001), key=lambda count: pipeline_time(n, count, steps))
        whole = isinstance(chunk, int | np.integer) and chunk > 0
        near = whole and abs(chunk - best) < 1 + best / 50
        expect(
            near, f"{case} you take chunks of {chunk!r}; {best:.0f} bytes, a whole number, is best."
        )
        for share in (0.97, 1.03):
            half = share * pipeline_time(n, n / best, steps) / 2  # to start, and for all bytes
            zero = choose(n, steps, direct=(half, half / n)) == 0
            cure = "faster, so return 0" if share < 1 else "slower, so return the bytes of a chunk"
            took = f"direct takes {share} times as long as the best chunks"
            expect(zero == (share < 1), f"{case} {took}: it is {cure}.")


def _received(received: list[np.ndarray], chunk: int | None = None) -> None:
    """What `into` holds, by rank, is what the next rank has sent."""
    for rank, got in enumerate(received):
        source = (rank + 1) % len(received)
        case = f"{counted(len(received), 'rank')}, {message(len(got), chunk)}:"
        filled = not (got == EMPTY).any()
        expect(filled, f"{case} part of `into` on rank {rank} was not filled. All copies awaited?")
        waited = not (got == UNUSED).any()
        expect(waited, f"{case} rank {rank} got rubbish of a pinned buffer. Did you wait for it?")
        want = sent_by(source, len(got))
        expect.equal(got, want, f"{case} `into` on rank {rank}, beside `out` of rank {source}")


def _no_waste(
    tried: virtual.Run, nbytes: int, chunk: int | None = None, copy: Step = (1e-5, 1e-9)
) -> None:
    """One copy each way and one message for each chunk, and hardly more time than the slowest step
    needs."""
    chunks = ceil(nbytes / chunk) if chunk else 1
    case = (
        f"The answer is right. But of {message(nbytes, chunk)} on {counted(tried.ranks, 'rank')},"
    )
    for rank, (_, log) in enumerate(tried.results):
        for engine in ("to host", "to device"):
            copies = sum(one[0] == engine for one in log)
            expect.equal(copies, chunks, f"{case} the number of copies {engine}")
        expect.equal(tried.sent[rank], chunks, f"{case} the messages that rank {rank} sent")
        expect.equal(tried.sent_bytes[rank], nbytes, f"{case} the bytes that rank {rank} sent")
    steps, length = (copy, LINK, copy), chunk or nbytes
    in_turns = chunks * pipeline_time(length, 1, steps)
    overlapped = pipeline_time(chunks * length, chunks, steps)
    # A good pipeline may need a step more than the best one, and 2 %.
    spare = max(pipeline_time(length, 1, [step]) for step in steps) if chunks > 1 else 0.0
    times = f"in turns {1e6 * in_turns:.0f}, overlapped {1e6 * overlapped:.0f}"
    times = times if chunk else f"its three steps take {1e6 * in_turns:.0f}"
    good = tried.time < 1.02 * (overlapped + spare)
    expect(good, f"{case} it takes {1e6 * tried.time:.0f} µs; {times}.")


LINK: Step = (2e-6, 1e-9)  # of the virtual cluster, if nothing else is said


def trial(
    way, ranks, nbytes, chunk=None, copy: Step = (1e-5, 1e-9), link=LINK, late=0.0, **options
):
    """Run `way` round a ring of virtual ranks with virtual devices. A send waits for its receive.

    copy, link: start in seconds, and seconds per byte. late: seconds that rank 1 begins after the
    others, so that what is sent to it waits. Further options go to Cluster.run. Returns its run;
    each of run.results is (what `into` holds, the log of the device's copies).
    """
    start, per_byte = link
    machine = virtual.ideal(start, 1 / per_byte).but(eager=0)

    def on_virtual_device(comm):
        if comm.rank == 1:
            comm.compute(late)
        device = StandIn(copy[0], 1 / copy[1], comm.Wtime, comm.compute)
        return _exchange_on(device, comm, way, nbytes, chunk), device.log

    return virtual.Cluster(ranks, machine=machine).run(on_virtual_device, **options)


def message(nbytes: int, chunk: int | None) -> str:
    """A message as one reads it: "1000 bytes in chunks of 100"."""
    whole = counted(nbytes, "byte")
    return f"{whole} in chunks of {chunk}" if chunk else whole


def pipeline_time(nbytes: float, count: float, steps: Sequence[tuple[float, float]]) -> float:
    """Seconds of nbytes in `count` equal chunks: the steps of one, and the slowest of them for each
    further.

    steps: (start in seconds, seconds per byte) of each step that a chunk takes. count 1: staged, no
    overlap.
    """
    times = [start + nbytes / count * per_byte for start, per_byte in steps]
    return sum(times) + (count - 1) * max(times)


def sent_by(rank: int, nbytes: int) -> np.ndarray:
    """The bytes that a rank sends, 1 to 199: none that stands for rubbish, as EMPTY and UNUSED
    do."""
    return np.random.default_rng(rank).integers(1, 200, nbytes, np.uint8)


def _memory(device, rank: int, nbytes: int, chunk: int | None) -> tuple:
    """out, into, outbox, inbox of a rank. The boxes are pinned: each of the whole length, or of two
    rows of one chunk."""
    shape = (2, min(chunk, nbytes)) if chunk else (nbytes,)
    out = device.array(sent_by(rank, nbytes))
    return out, device.empty(nbytes), device.pinned(*shape), device.pinned(*shape)


def _exchange_on(device, comm, way: Callable, nbytes: int, chunk: int | None) -> np.ndarray:
    """Run `way` round the ring of all ranks of comm, on this device: what `into` holds then."""
    out, into, outbox, inbox = _memory(device, comm.rank, nbytes, chunk)
    dest = (comm.rank - 1) % comm.size  # not the habit, rank + 1
    source = (comm.rank + 1) % comm.size
    way(comm, device, out, into, outbox, inbox, dest, source)
    return device.peek(into)


def exchange(
    comm, way: Callable, nbytes: int, chunk: int | None, start: float, rate: float
) -> np.ndarray:
    """What `into` holds after the same on the device that is here.

    start, rate: of a stand-in, where there is no GPU.
    """
    return _exchange_on(here(start, rate), comm, way, nbytes, chunk)


def direct(comm, device, out, into, outbox, inbox, dest, source):
    """The way without the host, for a CUDA-aware MPI alone: any other crashes. The boxes are not
    used."""
    comm.Sendrecv(device.for_mpi(out), dest=dest, recvbuf=device.for_mpi(into), source=source)


def here(latency: float, rate: float) -> StandIn | Cuda:
    """This rank's GPU; where there is none, a stand-in. latency: seconds a copy. rate: bytes per
    second."""
    name = world.device()
    return Cuda(name) if name.startswith("cuda") else StandIn(latency, rate)


def why_not(comm) -> str:
    """Why this MPI must not be handed a GPU's memory; "" if it may be. comm: any, as MPI has to
    run."""
    return placement.mpi_reason()


def race(
    comm,
    sizes: Sequence[int],
    ways: Mapping[str, tuple],
    start: float,
    rate: float,
    seconds: float = 1,
) -> tuple[dict[str, dict], str]:
    """({where: {way: {bytes: Measurement}}}, the device's name) of two ranks, by
    `benchmarks.on_pairs`.

    ways: name -> (way, bytes per chunk; None: one piece). start, rate: of a stand-in, where there
    is no GPU. seconds: about as long for each size.
    """
    device = here(start, rate)

    def rows(two):
        table: dict[str, dict] = {name: {} for name in ways}
        for nbytes in sizes:
            peer = 1 - two.rank
            calls = {
                name: partial(
                    way, two, device, *_memory(device, two.rank, nbytes, chunk), peer, peer
                )
                for name, (way, chunk) in ways.items()
            }
            measured = timing.in_turns(calls, comm=two, repeat=11, seconds=seconds)
            for name, took in measured.items():
                table[name][nbytes] = took
        return table

    return benchmarks.on_pairs(comm, rows), device.name


def _to_host(comm, device, out, into, outbox, inbox, dest, source):
    device.to_host(outbox, out).wait()


def _message(comm, device, out, into, outbox, inbox, dest, source):
    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)


def _to_device(comm, device, out, into, outbox, inbox, dest, source):
    device.to_device(into, inbox).wait()


# The steps of staging, each alone, for `race`.
STEPS = {"to host": (_to_host, None), "message": (_message, None), "to device": (_to_device, None)}


def busy(run: virtual.Run, name: str, rank: int = 0) -> dict[str, list[tuple[float, float]]]:
    """When each engine and the network of a rank were busy, in a traced trial.

    Returns {"to host, name": [(start, end)], "message, name": …, "to device, name": …}, in virtual
    seconds.
    """
    _, copies = run.results[rank]
    spans: dict[str, list] = {"to host": [], "message": [], "to device": []}
    for engine, _, start, end in copies:
        spans[engine].append((start, end))
    for owner, kind, start, end, *_ in run.trace:
        if owner == rank and kind == "send":
            spans["message"].append((start, end))
    return {f"{step}, {name}": times for step, times in spans.items()}


class Memory:
    """Memory of a stand-in device: the host may slice it, but not look into it."""

    def __init__(self, values: np.ndarray):
        self._values = values

    def __getitem__(self, place: slice) -> Memory:
        if not isinstance(place, slice):
            raise LabError(
                "Device memory cannot be read byte by byte from the host; slice it: memory[a:b]."
            )
        return Memory(self._values[place])

    def __len__(self) -> int:
        return len(self._values)

    def _closed(self, *_, **__):
        raise LabError(CLOSED)

    # The last is what mpi4py asks first of memory that is not the host's.
    __array__ = __dlpack__ = __dlpack_device__ = _closed


class StandIn:
    """No GPU, but memory that only copies reach: each takes `latency` seconds, and 1/`rate` more
    for a byte.

    One engine copies to the host and one to the device, as in a GPU; each does one copy after
    another, while the program goes on. The bytes really move, in `wait`: the last moment that a GPU
    might choose, so that a forgotten wait shows. log: (engine, bytes, start, end) of each copy.
    clock, pause: with `comm.Wtime` and `comm.compute` of a virtual rank it is a virtual device.
    """

    def __init__(self, latency: float, rate: float, clock=time.perf_counter, pause=None):
        self.latency = latency
        self.rate = rate
        self.name = f"stand-in, {rate / 1e9:g} GB/s after {human(latency)}"
        self._clock = clock
        self._pause = pause or _sleep
        self._virtual = pause is not None
        self._queue: dict[str, list] = {"to host": [], "to device": []}
        self._free = dict.fromkeys(self._queue, 0.0)
        self.log: list[tuple[str, int, float, float]] = []

    def empty(self, nbytes: int) -> Memory:
        """Device memory of nbytes; what is in it is rubbish."""
        return Memory(np.full(nbytes, EMPTY, np.uint8))

    def array(self, values: np.ndarray) -> Memory:
        """Device memory with these bytes in it, outside of all timing."""
        return Memory(np.array(values, np.uint8))

    def peek(self, memory: Memory) -> np.ndarray:
        """What is there now, for checks: a copy that nobody waited for has not come."""
        return memory._values.copy()

    def pinned(self, *shape: int) -> Pinned:
        """A buffer of the host for copies, full of rubbish. Slow to get: once, not for each
        message."""
        return np.full(shape, UNUSED, np.uint8).view(Pinned)

    def to_host(self, host: Pinned, memory: Memory) -> Copy:
        """Start to copy device memory into a host buffer of the same length."""
        _refuse(host, memory, Memory, "to_host(host, memory)")
        return self._start("to host", host, memory._values)

    def to_device(self, memory: Memory, host: Pinned) -> Copy:
        """Start to copy a host buffer into device memory of the same length."""
        _refuse(host, memory, Memory, "to_device(memory, host)")
        return self._start("to device", memory._values, host)

    def for_mpi(self, memory: Memory):
        """A GPU's memory may go to a CUDA-aware MPI; a stand-in's to none."""
        raise LabError(f"No MPI takes the memory of a {self.name}.")

    def _start(self, engine: str, into: np.ndarray, source: np.ndarray) -> Copy:
        begin = max(self._clock(), self._free[engine])
        end = self._free[engine] = begin + self.latency + len(source) / self.rate
        self.log.append((engine, len(source), begin, end))
        queue = self._queue[engine]
        began = source.copy() if self._virtual else source
        job = (into, source, began)
        queue.append(job)

        def wait() -> None:
            # An engine keeps the order: copies before it come first.
            while any(queued is job for queued in queue):
                target, values, before = queue.pop(0)
                if before is not values and not np.array_equal(values, before):
                    raise LabError(CHANGED.format(engine))
                target[...] = values
            left = end - self._clock()
            if left > 0:
                self._pause(left)

        return Copy(wait)


def _sleep(seconds: float) -> None:
    """Asleep, so that other ranks have the core; the last 0.1 ms awake, as nobody is woken on
    time."""
    end = time.perf_counter() + seconds
    if seconds > 2e-4:
        time.sleep(seconds - 1e-4)
    while time.perf_counter() < end:
        os.sched_yield()


class Pinned(np.ndarray):
    """Page-locked memory of the host: the only memory that a device's engines reach by
    themselves."""


class Copy:
    """A copy under way. It is over when `wait()` has returned; before that, leave both its ends
    alone."""

    def __init__(self, wait: Callable[[], None]):
        self.wait = wait


def _refuse(host, memory, kind: type, call: str) -> None:
    """Raise LabError unless host is pinned, memory of the device's `kind`, and both are equally
    long."""
    owner = host
    while isinstance(getattr(owner, "base", None), np.ndarray):
        owner = owner.base
    unpinned = isinstance(owner, Pinned)  # NumPy's, as by np.empty_like(outbox)
    if unpinned or not isinstance(host, Pinned) or not isinstance(memory, kind):
        kinds = f"{'unpinned' if unpinned else type(host).__name__} and {type(memory).__name__}"
        raise LabError(
            f"device.{call}: `host` is pinned memory from device.pinned, `memory` the device's; not"
            f" {kinds}."
        )
    if len(host) != len(memory):
        raise LabError(
            f"device.{call}: the host's buffer has {len(host)} bytes, the device's memory"
            f" {len(memory)}. Slice the longer one."
        )


class Cuda:
    """An NVIDIA GPU through PyTorch; `name` is "cuda:0 (…)". Copies run on a stream for each
    direction."""

    def __init__(self, name: str):
        import torch

        self._torch = torch
        self._device = torch.device(name)
        torch.cuda.set_device(self._device)  # MPI libraries look at the current device, too
        self._up = torch.cuda.Stream(self._device)
        self._down = torch.cuda.Stream(self._device)
        self.name = f"{name} ({torch.cuda.get_device_name(self._device)})"

    def empty(self, nbytes: int):
        return self._torch.full((nbytes,), EMPTY, dtype=self._torch.uint8, device=self._device)

    def array(self, values: np.ndarray):
        return self._torch.from_numpy(np.array(values, np.uint8)).to(self._device)

    def peek(self, memory) -> np.ndarray:
        return memory.cpu().numpy()

    def pinned(self, *shape: int) -> Pinned:
        return (
            self._torch.empty(shape, dtype=self._torch.uint8, pin_memory=True).numpy().view(Pinned)
        )

    def to_host(self, host: Pinned, memory) -> Copy:
        _refuse(host, memory, self._torch.Tensor, "to_host(host, memory)")
        return self._start(self._down, self._torch.from_numpy(host), memory)

    def to_device(self, memory, host: Pinned) -> Copy:
        _refuse(host, memory, self._torch.Tensor, "to_device(memory, host)")
        return self._start(self._up, memory, self._torch.from_numpy(host))

    def for_mpi(self, memory):
        """The tensor itself: mpi4py takes its address. MPI knows no streams, so all work has to be
        over."""
        self._torch.cuda.synchronize(self._device)
        return memory

    def _start(self, stream, into, source) -> Copy:
        # Kernels that still write `source`.
        stream.wait_stream(self._torch.cuda.current_stream(self._device))
        with self._torch.cuda.stream(stream):
            into.copy_(source, non_blocking=True)
            over = self._torch.cuda.Event()
            over.record(stream)
        return Copy(over.synchronize)
