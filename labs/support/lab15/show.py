"""Lab 15's measurements: formats cold and cached, how well a buffer mixes, the step over a slow storage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from labkit import plots, profiling, record, timing
from labkit.errors import LabError
from labkit.timing import human

from support.lab15.files import Stored, from_files, from_hdf5, from_lmdb, from_webdataset
from support.lab15.pipeline import loader
from support.lab15.storage import Storage, cold_and_cached

STEPS = 3  # of training, in one recording


def compare_formats(stored: Stored, order, from_shards: Callable, decode: Callable, rounds: int) -> float:
    """Time all readers cold and cached, and decoding; show and record it. Files: times as long when cold.

    order: numbers of images, for the formats that can be read at random. from_shards(paths): the learner's.
    """
    readers = {
        "files": (lambda: list(from_files(stored, order)), stored.files),
        "HDF5": (lambda: list(from_hdf5(stored, order)), [stored.hdf5]),
        "LMDB": (lambda: list(from_lmdb(stored, order)), [stored.lmdb]),
        "shards,\nyours": (lambda: list(from_shards(stored.shards)), stored.shards),
        "web-\ndataset": (lambda: list(from_webdataset(stored)), stored.shards),
    }
    times, left = cold_and_cached(readers, rounds)
    count = len(stored.labels)
    jpegs = [jpeg for jpeg, _ in from_files(stored, range(count))]
    decoding = timing.measure(lambda: [decode(jpeg) for jpeg in jpegs], repeat=5, warmup=1)
    each = 1e6 / count  # seconds for all to microseconds for one
    bars = {}
    for name, (cold, cached) in times.items():
        more = np.maximum(0, cold.samples - cached.samples)
        bars[name] = {"cached": cached.samples * each, "more when cold": more * each}
        way = name.replace("-\n", "").replace("\n", " ")
        record.add("format", way=way, images=count, seconds=cached, cold=cold, pages_left=left)
        print(f"{way:18} {cached.rate(count):9,.0f} images/s cached, {cold.rate(count):9,.0f} cold")
    record.add("decode", images=count, seconds=decoding)
    print(f"{'decoding':18} {decoding.rate(count):9,.0f} images/s")
    print(f"Dropped: at most {left:.0%} of the pages were left in memory.", end=" ")
    print("This file system keeps them (tmpfs?): cold is not cold here." if left > 0.5 else "")
    bars["decoding"] = {"decoding": decoding.samples * each}
    plots.bars(bars, ylabel="time (µs per image)", title="Reading one image, and decoding it", name="formats")
    cold, cached = times["files"]
    return float(np.median(cold.samples / cached.samples))


def compare_opens(stored: Stored, from_shards: Callable, latency: float) -> timing.Ratio:
    """Read a quarter of the images from storage of 100 MB/s and this latency an open: files over shards."""
    shards = max(1, len(stored.shards) // 4)
    part = sum(len(labels) for labels in np.array_split(stored.labels, len(stored.shards))[:shards])
    storage = {"files": Storage(1e8, latency), "shards": Storage(1e8, latency)}
    ratio = timing.ratio(
        lambda: list(from_files(stored, range(part), storage["files"].open)),
        lambda: list(from_shards(stored.shards[:shards], storage["shards"].open)),
        repeat=5,
        warmup=0,
    )
    for name, used in storage.items():
        print(f"{name:6}: {used.opens // 5:4} opens, {used.nbytes // 5:9,} bytes for {part} images")
    return ratio


def compare_loaders(stored: Stored, batch: int, workers: int) -> None:
    """Print and record `loader` without workers, and with them."""
    if workers < 0:
        raise LabError(f"loader_workers is 0 or more, not {workers}.")
    for count in sorted({0, workers}):
        first, rate = loader(stored, batch, count)
        record.add("loader", workers=count, first_batch=first, rate=rate, unit="images/s")
        print(f"DataLoader, {count} workers: first batch after {first:.2f} s, then {rate:,.0f} images/s")


def show_ranks(took: dict, storages: dict, images: int, nbytes: float) -> list[float]:
    """Show and record what through_one_pipe found. Returns how many times one rank's rate all ranks have.

    images: of a shard, each of `nbytes` bytes there.
    """
    speed = {name: {p: p * images / time.samples for p, time in row.items()} for name, row in took.items()}
    gains = [float(np.median(row[max(row)]) / np.median(row[1])) for row in speed.values()]
    for name, (own, shared, latency) in storages.items():
        each = {p: latency + images * nbytes / min(own, shared / p) for p in took[name]}
        speed[f"{name}, predicted"] = list(each), [p * images / seconds for p, seconds in each.items()]
        for p, time in took[name].items():
            record.add("storage", way=name, ranks=p, images=p * images, seconds=time, predicted=each[p])
    axes = {"xlabel": "ranks", "ylabel": "images/s", "logx": True, "logy": True}
    plots.lines(speed, **axes, title="All ranks read at once", name="ranks")
    return gains


def classes_in_batch(shuffled: Callable, stored: Stored, sizes, whole: bool, batch: int = 32) -> dict:
    """{size of buffer: mean number of classes in a batch, for five seeds}. whole: shards shuffled, too."""
    dealt = np.array_split(stored.labels, len(stored.shards))
    classes: dict[int, list[float]] = {}
    for size in sizes:
        for seed in range(5):
            numbers = np.random.default_rng(seed).permutation(len(dealt)) if whole else range(len(dealt))
            labels = list(shuffled((label for number in numbers for label in dealt[number]), size, seed))
            parts = [labels[at : at + batch] for at in range(0, len(labels) - batch + 1, batch)]
            classes.setdefault(size, []).append(float(np.mean([len(set(part)) for part in parts])))
    return classes


def knob(feed: Callable, train: Callable, prefetch: Callable, batch: int, nbytes: float, shares) -> dict:
    """Train over storage of several bandwidths, with and without prefetch; show and record it.

    feed(storage): endless batches of `batch` images, of `nbytes` bytes. shares: of a batch's input, over the
    arithmetic of a step. Returns {(share, way): (profile of STEPS steps, seconds exposed, seconds computed)}.
    Exposed is predicted by the compute of the same run: on a busy machine that is longer if something reads.
    """
    if np.ndim(shares) != 1 or not {1, 2} <= set(shares) or min(shares) <= 0:
        raise LabError(
            f"shares are more than 0, and 1 and 2 are among them: the lab looks at those. Not {shares}."
        )
    source = feed(Storage())
    ready = next(source)
    compute = timing.measure(lambda: train(*ready), repeat=15).median
    decoding = timing.measure(lambda: next(source), repeat=15).median
    print(f"compute {human(compute)} a step; input from memory, most of it decoding, {human(decoding)}")
    runs = {}
    rate = {}
    for share in shares:
        # Decoding takes its part of the input; where it takes all (a fast GPU), the bytes take some more.
        carry = max(share * compute - decoding, 0.2 * share * decoding)
        speed = float(f"{nbytes / carry / 1e6:.2g}")  # MB/s
        alone = nbytes / speed / 1e6 + decoding
        for way in ("no prefetch", "prefetch"):
            taken, waits, busy = _over(
                feed(Storage(speed * 1e6)), train, prefetch if way == "prefetch" else None
            )
            predicted = max(0.0, alone - busy) if way == "prefetch" else alone
            runs[share, way] = taken, waits, busy
            rate.setdefault(way, {})[speed] = STEPS * batch / taken.step.samples
            lines = rate.setdefault(f"{way}, predicted", ([], []))
            lines[0].append(speed)
            lines[1].append(batch / (busy + predicted))
            print(f"{speed:5g} MB/s, {way:11}: compute {human(busy)}, input alone {human(alone)}", end="; ")
            print(f"exposed {human(predicted)} predicted, {human(waits)} measured")
            step = timing.Measurement(taken.step.samples / STEPS, taken.step.resolution / STEPS)
            shown = {"compute": busy, "input_alone": alone, "exposed": waits, "exposed_predicted": predicted}
            record.add("step", way=way, bandwidth=speed * 1e6, seconds=step, **shown)
    axes = {"xlabel": "bandwidth of the storage (MB/s)", "ylabel": "images/s", "logx": True}
    plots.lines(rate, **axes, title="The storage's bandwidth as a knob", name="knob")
    return runs


def _over(source, train, prefetch) -> tuple[profiling.Profile, float, float]:
    source = source if prefetch is None else prefetch(source, 2)

    def steps() -> None:
        for _ in range(STEPS):
            with profiling.span("input", "wait"):
                batch = next(source)
            train(*batch)

    profile = profiling.record(steps, steps=5, overhead=False)
    source.close()
    row = profile.table().iloc[0] / STEPS
    return profile, float(row["input"]), float(row["compute"])


def lanes(runs: dict, share) -> dict:
    """For plots.lanes: when the step computes and when something reads, without and with prefetch."""
    rows: dict[str, list] = {}
    for (of_share, way), (profile, *_) in runs.items():
        if of_share == share:
            if rows:
                rows[""] = []  # a gap, and both ways have the same colours
            middle = profile.middle[0]
            rank = profile.ranks[0]
            begin = rank.steps[middle][0]
            busy = rank.busy(middle)
            for kind, verb in (("compute", "computes"), ("input", "reads")):
                spans = [(max(0.0, start - begin), end - begin) for start, end in busy[kind]]
                rows[f"{way}: {verb}"] = spans
    return rows
