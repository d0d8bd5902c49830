"""Published times of copies between host and GPU, and the time of a pipeline of such steps."""

from __future__ import annotations

from collections.abc import Sequence

# Bytes -> seconds of a copy by the CPU through GDRCopy's mapping: README of NVIDIA/gdrcopy, copylat on a
# Tesla P100 (PCIe). To the device only the issuing is timed, as copylat itself warns.
CPU_TO_DEVICE = {
    128: 0.1011e-6,
    512: 0.1342e-6,
    2048: 0.2606e-6,
    4096: 0.4336e-6,
    8192: 0.8141e-6,
    32768: 3.1999e-6,
    131072: 12.7635e-6,
}
CPU_TO_HOST = {
    128: 3.4641e-6,
    512: 3.5207e-6,
    2048: 5.5507e-6,
    4096: 10.5047e-6,
    8192: 17.8014e-6,
    32768: 58.1767e-6,
    131072: 241.5278e-6,
}

# (start, seconds per byte) of a copy engine: cudaMemcpy takes 6 to 7 µs (the same README), and moves
# 10.06 GB/s (bandwidthTest with a K40; rcuda.net, "rCUDA achieves maximum performance with … Connect-IB").
COPY_ENGINE = (6.5e-6, 1 / 10.06e9)


def pipeline_time(nbytes: float, count: float, steps: Sequence[tuple[float, float]]) -> float:
    """Seconds of nbytes in `count` equal chunks: the steps of one, and the slowest of them for each further.

    steps: (start in seconds, seconds per byte) of each step that a chunk takes. count 1: staged, no overlap.
    """
    times = [start + nbytes / count * per_byte for start, per_byte in steps]
    return sum(times) + (count - 1) * max(times)
