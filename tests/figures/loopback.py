"""What it costs that ranks on one machine listen to it alone: `python -m tests.figures.loopback`.

Three ways to start two ranks, in turns: as labkit does, with the settings for MPI, Gloo and NCCL but without
the library before `bind`, and without either. Measured: from launch.run to its end, for a function that does
nothing; and, inside of such a run, the time of a round trip of short and long messages. By labkit.timing, as
medians with the middle half.
"""

from __future__ import annotations

import sys

import numpy as np
from labkit import launch, timing
from labkit.launch import loopback

SIZES = (8, 1024, 65_536, 1_048_576, 16_777_216)  # bytes
WAYS = ("as labkit does", "settings alone", "neither")


def start(way: str, function, *arguments) -> list:
    """One run of two ranks, started that way."""
    before = loopback.loopback_variables
    chosen = before({})
    if way == "neither":
        chosen = {}
    if way == "settings alone":
        chosen.pop("LD_PRELOAD", None)
    loopback.loopback_variables = lambda environ: chosen
    try:
        return launch.run(function, *arguments, ranks=2, echo=False, timeout=900)
    finally:
        loopback.loopback_variables = before


def nothing(comm) -> None:
    """The least that a rank can do."""


def round_trips(comm, sizes) -> dict[int, float]:
    """Median seconds of a round trip, for each size [bytes]."""
    medians = {}
    for size in sizes:
        box = np.zeros(size, np.uint8)

        def there_and_back(box=box) -> None:
            if comm.rank == 0:
                comm.Send(box, 1)
                comm.Recv(box, 1)
            else:
                comm.Recv(box, 0)
                comm.Send(box, 0)

        short = size < 1_000_000
        measured = timing.measure(there_and_back, comm=comm, repeat=30, batch=20 if short else 2)
        medians[size] = measured.median
    return medians


def main(rounds: int = 15) -> None:
    """Print both tables."""
    calls = {way: (lambda way=way: start(way, nothing)) for way in WAYS}
    print("launch.run of two ranks that do nothing")
    for way, measured in timing.in_turns(calls, repeat=rounds, warmup=1).items():
        print(f"  {way:<15} {measured}", flush=True)
    trips: dict[str, list[dict]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS if turn % 2 else WAYS[::-1]:
            trips[way].append(start(way, round_trips, SIZES)[0])
    print(f"round trip between two ranks: medians of {rounds} runs in turns, each a median of 30")
    for size in SIZES:
        for way in WAYS:
            measured = timing.Measurement(np.array([trip[size] for trip in trips[way]]))
            print(f"  {size:>9} bytes, {way:<15} {measured}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
