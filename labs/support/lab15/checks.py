"""What lab 17's checks look at: how prefetch reads, and what its thread does when all is not well.

Everything happens on threads of its own and is given up after some seconds: a prefetch that never comes back
does not hold up the learner.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from labkit import check, expect
from torch.utils.data import DistributedSampler

from support.lab15.cases import trial_shards

PATIENCE = 3  # seconds for what threads do in milliseconds


def counted(items: Iterable, taken: list, error: Exception | None = None) -> Iterator:
    """The items; each is put into `taken` when it is taken. At the end `error` is raised, if there is one."""
    for item in items:
        taken.append(item)
        yield item
    if error is not None:
        raise error


def _wait(until: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not until() and time.monotonic() < end:
        time.sleep(0.002)
    return until()


def _in_time(depth: int, call: Callable, *arguments):
    """call(*arguments) on a thread; a sentence, if it does not come back. What it raises is raised here."""
    results: list = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call(*arguments))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    hook = threading.excepthook
    threading.excepthook = lambda _: None  # a thread that dies says so on screen
    try:
        thread.start()
        thread.join(2 * PATIENCE)
    finally:
        threading.excepthook = hook
    for_ever = f"depth {depth}: it waits for ever. Who empties the queue, and who fills it?"
    expect(not thread.is_alive(), for_ever)
    if errors:
        raise errors[0]
    return results[0]


def read_all(prefetch: Callable, items: Iterable, depth: int) -> list:
    """All that prefetch(items, depth) yields."""
    return _in_time(depth, lambda: list(prefetch(items, depth)))


@dataclass
class Ahead:
    """How prefetch went through 40 items, 0 to 39."""

    read_at_first: int = 0  # items read when the first was out, and some time had passed
    items: list = field(default_factory=list)
    reads: list[int] = field(default_factory=list)  # items read, by items that were out by then
    behind_last: list = field(default_factory=list)
    thread_left: bool = False


def read_ahead(prefetch: Callable, depth: int) -> Ahead:
    """Take 40 items through prefetch, with time between them for a thread that does not wait."""
    return _in_time(depth, _read_ahead, prefetch, depth)


def _read_ahead(prefetch: Callable, depth: int) -> Ahead:
    ahead = Ahead()
    taken: list[int] = []
    before = set(threading.enumerate())
    stream = iter(prefetch(counted(range(40), taken), depth))
    ahead.items += itertools.islice(stream, 1)
    _wait(lambda: len(taken) >= 1 + depth)
    ahead.read_at_first = len(taken)
    while 0 < len(ahead.items) < 40:
        time.sleep(0.002)
        ahead.reads.append(len(taken))
        some = list(itertools.islice(stream, 1))
        if not some:
            break
        ahead.items += some
    ahead.behind_last = list(stream)
    ahead.thread_left = not _wait(lambda: set(threading.enumerate()) <= before)
    return ahead


def read_slowly(prefetch: Callable) -> tuple[list, bool]:
    """(items, whether they ended) of a reader that takes its time: before an item, and at its end."""

    def slow() -> Iterator[int]:
        yield 0
        time.sleep(1.2)
        yield 1
        time.sleep(0.1)

    return _in_time(1, _consume, lambda: prefetch(slow(), 1))[:2]


def read_with_error(
    prefetch: Callable, depth: int, good: int, trouble: Exception
) -> tuple[list, bool, object]:
    """(items, whether they ended, the error or None) of a reader that fails after `good` items."""
    return _in_time(depth, _consume, lambda: prefetch(counted(range(good), [], trouble), depth))


def _consume(stream: Callable[[], Iterable]) -> tuple[list, bool, object]:
    items: list = []
    errors: list[Exception] = []

    def consume() -> None:
        try:
            items.extend(stream())
        except Exception as error:
            errors.append(error)

    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()
    consumer.join(PATIENCE)
    return items, not consumer.is_alive(), errors[0] if errors else None


def read_and_stop(prefetch: Callable, depth: int, read: int, items: Iterable) -> tuple[bool, bool]:
    """(whether close() came back, whether a thread is left) when the consumer stops after `read` items."""
    return _in_time(depth, _read_and_stop, prefetch, depth, read, items)


def _read_and_stop(prefetch: Callable, depth: int, read: int, items: Iterable) -> tuple[bool, bool]:
    before = set(threading.enumerate())
    taken: list = []
    stream = iter(prefetch(counted(items, taken), depth))
    list(itertools.islice(stream, read))
    _wait(lambda: len(taken) >= read + depth)
    time.sleep(0.02)  # now a thread that waits for a place does so
    closer = threading.Thread(target=getattr(stream, "close", lambda: None), daemon=True)
    closer.start()
    closer.join(PATIENCE)
    if closer.is_alive():
        return False, True
    return True, not _wait(lambda: set(threading.enumerate()) <= before)


def expect_dealt_out(my_samples, n, ranks, workers):
    """Every rank reads n // ranks samples, its workers about equally many, and no sample is read twice."""
    case = f"{n} samples, {ranks} ranks of {workers} workers"
    by_rank = []
    for rank in range(ranks):
        parts = [my_samples(n, 0, rank, ranks, worker, workers) for worker in range(workers)]
        for part in parts:
            expect(np.ndim(part) == 1, f"Give the numbers of the samples, an array; this is {part!r:.60}.")
        sizes = [len(part) for part in parts]
        even = max(sizes) - min(sizes) <= 1
        expect(even, f"{case}: the workers of rank {rank} read {sizes}: differ by one at most.")
        by_rank.append([int(number) for part in parts for number in part])
    times = Counter(itertools.chain(*by_rank))
    twice = [number for number in times if times[number] > 1]
    again = f"{case}: samples {twice[:3]} are read more than once in an epoch"
    expect(not twice, f"{again}. (The same order on all ranks? Each worker a part of its rank's?)")
    counts = [len(own) for own in by_rank]
    expect(len(set(counts)) == 1, f"{case}: the ranks read {counts} samples; all need as many.")
    expect.equal(counts[0], n // ranks, f"{case}: samples of a rank (drop what does not divide)")
    strange = [number for number in times if not 0 <= number < n]
    expect(not strange, f"{case}: there are no samples {strange[:3]}.")


def samples_of(my_samples, epoch, seed=0):
    """By rank, what 4 ranks read of 103 samples."""
    return [[int(number) for number in my_samples(103, epoch, rank, 4, seed=seed)] for rank in range(4)]


def expect_shuffled(my_samples):
    """The order depends on seed and epoch alone, and each epoch has another order and another deal."""
    epochs = [samples_of(my_samples, epoch) for epoch in range(6)]
    same = "Asked twice, a rank gets another order. Only seed and epoch may matter."
    expect(samples_of(my_samples, 0) == epochs[0], same)
    for first, second in itertools.combinations(range(6), 2):
        expect(epochs[first] != epochs[second], f"Epochs {first} and {second} have the same order.")
    order = [int(number) for number in my_samples(103, 0, 0, 4, seed=1)]
    for epoch in range(2000):
        again = order == [int(number) for number in my_samples(103, epoch, 0, 4)]
        case = f"Seed 1 in epoch 0 has the order of seed 0 in epoch {epoch}"
        expect(not again, f"{case}: use the tuple (seed, epoch), no sum of the two.")
    stored_order = "Rank 0 reads its samples in the stored order: shuffle."
    expect(epochs[0][0] != sorted(epochs[0][0]), stored_order)
    follow = [set(itertools.pairwise(my_samples(103, epoch, 0, 1))) for epoch in (0, 1)]
    moved = "Epoch 1 has the order of epoch 0, moved on: who follows whom stays. Shuffle anew each epoch."
    expect(len(follow[0] & follow[1]) < 25, moved)
    together = max(len({*own} & {*other}) for own, other in itertools.product(*epochs[:2]))  # 6 by chance
    stay = (
        f"{together} of {len(epochs[0][0])} samples that one rank read in epoch 0 stay together on one rank"
    )
    expect(together < 20, f"{stay} in epoch 1. Shuffle all of the samples anew, then deal them out.")
    read = {number for epoch in range(30) for own in samples_of(my_samples, epoch) for number in own}
    lost = sorted(set(range(103)) - read)
    never = f"103 samples, 4 ranks: in 30 epochs nobody reads samples {lost}. Shuffle first, then drop."
    expect(not lost, never)


@check.exercise("15.1")
def check_my_samples(my_samples):
    """Every rank reads as many samples, none twice, in another order in each epoch; and as many as
    PyTorch's DistributedSampler gives it.
    """
    for n, ranks, workers in itertools.product((96, 100, 7, 3), (1, 2, 3, 4, 8), (1, 2, 3)):
        expect_dealt_out(my_samples, n, ranks, workers)
    expect_shuffled(my_samples)
    for n, ranks in itertools.product((96, 103, 7, 3), (1, 2, 4, 5)):
        theirs = [
            len(list(DistributedSampler(range(n), ranks, rank, drop_last=True))) for rank in range(ranks)
        ]
        yours = [len(my_samples(n, 0, rank, ranks)) for rank in range(ranks)]
        what = f"{n} samples: what {ranks} ranks read, beside DistributedSampler(drop_last=True)"
        expect.equal(yours, theirs, what)


def expect_samples(read_shard, shard):
    """All samples in order, (bytes of the JPEG, label), the first before half of the shard has passed."""
    samples = shard.samples(read_shard)
    got = list(itertools.islice(samples, 1))
    none = f"{shard.name}: no sample came out of a shard of {len(shard.wanted)}"
    expect(got, f"{none}. (A name may have any length, and ends at its first dot.)")
    late = f"The first sample came after {shard.taken:,} bytes, the whole shard. Yield each at once."
    expect(shard.taken < shard.nbytes / 2, late)
    got += samples
    for number, pair in enumerate(got):
        expect(len(pair) == 2, f"{shard.name}: sample {number} has {len(pair)} parts: give (image, label).")
        if shard.incomplete:
            own = shard.label_of.get(pair[0]) in (None, pair[1])
            neighbours = "an image came with its neighbour's label. The files of a sample have one name"
            neighbours = f"{neighbours} and stand side by side"
            expect(own, f"{shard.name}: {neighbours}.")
    what = f"{shard.name}: samples of a shard of {len(shard.wanted)}"
    again = "A sample's files stand side by side; the same name further on is another sample's"
    expect.equal(len(got), len(shard.wanted), what, because=again)
    for number, ((image, label), (jpeg, right)) in enumerate(zip(got, shard.wanted, strict=True)):
        case = f"{shard.name}: sample {number}:"
        expect.equal(label, right, f"{case} label, a whole number")
        whole = hasattr(label, "__index__")
        expect(whole, f"{case} label {label!r:.30} is no whole number. int()?")
        expect(isinstance(image, bytes), f"{case} the image is {type(image).__name__}, not bytes.")
        expect(image == jpeg, f"{case} not the image's bytes ({len(image)}, it has {len(jpeg)}).")


@check.exercise("15.2")
def check_read_shard(read_shard):
    """What is asked of 40 samples: image or label first, other files behind or between, image or label
    missing.
    """
    for shard in trial_shards():
        expect_samples(read_shard, shard)


def expect_complete(shuffled, n, size):
    """Each item comes out once, the same seed gives the same order, and no more than `size` are held."""
    case = f"{n} items, buffer of {size}"
    taken, got = [], []
    for item in shuffled(counted(range(n), taken), size, 1):
        got.append(item)
        held = len(taken) - len(got)
        expect(held <= size, f"{case}: {held} items are held when item {len(got)} comes out.")
        filled = held >= size - 1 or len(taken) == n
        expect(filled, f"{case}: only {held} are held when item {len(got)} comes out.")
    lost = len(set(range(n)) - set(got))
    expect(not lost, f"{case}: {lost} items never come out. What is in the buffer at the end?")
    twice = len(got) - len(set(got))
    expect(not twice, f"{case}: {twice} items come out twice.")
    again = list(shuffled(range(n), size, 1))
    anew = "items came out of a range (or list): a second `for` over it begins anew. iter() once?"
    expect(len(again) == n, f"{case}: {len(again)} {anew}")
    expect.equal(again, got, f"{case}: the same seed again")
    if n == 60 and size >= 5:
        seeds = "seeds 1 and 2 give the same order. (Is what is left at the end shuffled, too?)"
        expect(list(shuffled(range(n), size, 2)) != got, f"{case}: {seeds}")


def expect_items_as_they_are(shuffled):
    """Two streams do not disturb each other, pairs stay pairs, and few come out as they were stored."""
    streams = [shuffled(range(60), 5, 1) for _ in range(2)]
    alike = all(first == second for first, second in zip(*streams, strict=False))
    differ = "Two streams with the same seed, read in turns, differ. Each needs a generator of its own"
    expect(alike, f"{differ}: np.random.default_rng(seed).")
    got = list(shuffled(((b"JPEG", number) for number in range(200)), 20, 1))
    changed = f"A pair (JPEG, label) went in, and {got[-1]!r:.60} came out. Give items out as they came."
    expect(all(isinstance(item, tuple) for item in got), changed)
    follow = sum(after == before + 1 for (_, before), (_, after) in itertools.pairwise(got))
    case = f"200 items, buffer of 20: {follow} of 199 come out right behind the one stored before them"
    expect(follow < 80, f"{case}. A new random place for each item, from one generator?")


def expect_every_place(shuffled, n):
    """With a buffer of 5, each of the first 5 items is first about equally often, over 400 seeds."""
    first = Counter(next(iter(shuffled(range(n), 5, seed))) for seed in range(400))
    for item in range(5):
        rare = f"item {item} is first {first[item]} times, 80 times would be fair"
        expect(40 < first[item] < 160, f"{n} items, buffer of 5, 400 seeds: {rare}.")


@check.exercise("15.3")
def check_shuffled(shuffled):
    """Each item once, of streams shorter and longer than the buffer, in any place; and all orders of
    what is left at the end.
    """
    for n, size in itertools.product((0, 1, 7, 60), (1, 2, 5, 60, 100)):
        expect_complete(shuffled, n, size)
    expect_items_as_they_are(shuffled)
    expect_every_place(shuffled, 20)
    expect_every_place(shuffled, 5)
    orders = len({tuple(shuffled(range(4), 9, seed)) for seed in range(400)})
    left = f"4 items, buffer of 9: only {orders} of 24 orders in 400 seeds. Shuffle the rest too."
    expect(orders >= 20, left)
