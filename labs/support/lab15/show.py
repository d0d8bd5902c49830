"""What labs 15 and 17 measure: formats cold and cached, how a buffer mixes, steps over a slow storage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from labkit import plots, profiling, record, timing
from labkit.errors import LabError

from support.lab15.files import Stored, from_files, from_hdf5, from_lmdb, from_webdataset
from support.lab15.pipeline import loader
from support.lab15.storage import Storage, cold_and_cached

STEPS = 3  # of training, in one recording
WAYS = ("no prefetch", "prefetch")
SLOWED = 1.5  # with prefetch a thread decodes beside the step, and may slow it down
MOVED = 1.25  # a round whose compute or input changed by more than this is not judged


def compare_formats(stored: Stored, order, from_shards: Callable, decode: Callable, rounds: int) -> dict:
    """Time all readers cold and cached, and decoding; show and record it.

    Returns, for single files, "cold_over_cached" and "decoding_over_reading" (from memory): times as long.
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
    plots.bars(
        bars,
        ylabel="time (µs per image)",
        title="An image is read in less time than it is decoded",
        name="formats",
    )
    cold, cached = times["files"]
    return {
        "cold_over_cached": float(np.median(cold.samples / cached.samples)),
        "decoding_over_reading": decoding.median / cached.median,
    }


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


def judge(results: list[dict]) -> list[dict]:
    """What each round of the training over slow storage says, in units of compute; recorded, too.

    results: rows {"share": asked for, "compute": seconds, calibrated, "input": seconds, read alone, and by
    way ("no prefetch", "prefetch") the (seconds waited, seconds computed) of a step}. Returns rows {"share",
    "no prefetch", "prefetch": waited over computed, "input, no prefetch", "input, prefetch": read over
    computed, "steady"}. What was computed is that of the same run. A round is steady if without prefetch
    compute and input are still what they were, within MOVED, and with prefetch compute is, within SLOWED.
    """
    rows = []
    for row in results:
        compute = row["compute"]
        read_again, computed_again = row["no prefetch"]
        judged = {"share": row["share"]}
        for way in WAYS:
            waited, computed = row[way]
            judged[way] = waited / computed
            judged[f"input, {way}"] = row["input"] / computed
        same = _still(compute, computed_again) and _still(row["input"], read_again)
        judged["steady"] = same and _still(compute, row["prefetch"][1], SLOWED)
        rows.append(judged)
        record.add("step", unit="1", compute=compute, **judged)
    return rows


def _still(before: float, after: float, times: float = MOVED) -> bool:
    return max(before, after) <= times * min(before, after)


@plots.styled
def show_rounds(rows: list[dict], exposed: Callable) -> None:
    """Draw and print the rounds of `judge` beside the learner's exposed(read, compute, ahead)."""
    title = "Prefetch hides input up to one compute"
    figure, axes = plots.one_axes(title, "input (in units of compute)", "exposed (in units of compute)")
    grid = np.linspace(0, 1.1 * max(row[f"input, {way}"] for row in rows for way in WAYS), 100)
    for index, way in enumerate(WAYS):
        color = plots.COLORS[index]
        line = [exposed(x, 1.0, way == "prefetch") for x in grid]
        axes.plot(grid, line, color=color, linestyle="--" if index else "-", label=f"{way}, predicted")
        for steady, marker in ((True, "o^"[index]), (False, "x")):
            of_kind = [row for row in rows if row["steady"] is steady]
            places = [row[f"input, {way}"] for row in of_kind]
            heights = [row[way] for row in of_kind]
            label = f"{way}, measured" if steady else f"{way}, not judged"
            if places:
                axes.plot(places, heights, linestyle="", marker=marker, color=color, label=label)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.set_figwidth(1.3 * figure.get_figwidth())
    plots.done(figure, "exposed")
    for share in dict.fromkeys(row["share"] for row in rows):
        of_share = [row for row in rows if row["share"] == share]
        steady = [row for row in of_share if row["steady"]]
        if not steady:
            print(f"input {share:g} x compute: none of {len(of_share)} rounds was steady enough to judge")
            continue
        print(f"input {share:g} x compute, {len(steady)} of {len(of_share)} rounds judged:")
        for way in WAYS:
            had = float(np.median([row[f"input, {way}"] for row in steady]))
            waited = float(np.median([row[way] for row in steady]))
            told = exposed(had, 1.0, way == "prefetch")
            print(f"    {way:12} {had:.2f} measured; exposed {told:.2f} predicted, {waited:.2f} measured")


def three_steps(feed: Callable, train: Callable, prefetch: Callable, new_storage: Callable) -> dict:
    """For plots.lanes: when three steps compute and when something reads, without and with prefetch."""
    rows: dict[str, list] = {}
    for way in WAYS:
        source = feed(new_storage())
        profile = _recorded(prefetch(source, 2) if way == "prefetch" else source, train)
        middle = profile.middle[0]
        rank = profile.ranks[0]
        begin = rank.steps[middle][0]
        busy = rank.busy(middle)
        for kind, verb in (("compute", "computes"), ("input", "reads")):
            spans = []
            for start, end in busy[kind]:
                start = max(0.0, start - begin)
                # A little shorter, so that two batches that are read one behind the other are seen as two.
                spans.append((start, start + 0.97 * (end - begin - start)))
            rows[f"{way}: {verb}"] = spans
    return rows


def _recorded(source, train) -> profiling.Profile:
    def steps() -> None:
        for _ in range(STEPS):
            with profiling.span("input", "wait"):
                batch = next(source)
            train(*batch)

    profile = profiling.record(steps, steps=5, overhead=False)
    source.close()
    return profile
