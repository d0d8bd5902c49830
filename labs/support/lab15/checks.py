"""What lab 15's checks ask of samplers and of readers of shards. Names as in labkit.inputs."""

from __future__ import annotations

import io
import itertools
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from labkit.checks import expect
from labkit.errors import CheckFailed, LabError

from support.lab15.files import add_member


def expect_split(split: Callable) -> None:
    """Fail unless split(n, epoch, rank, ranks, worker, workers) deals an epoch out as asked in 15.1."""
    for n, p, workers in itertools.product((96, 100, 7, 3), (1, 2, 3, 4, 8), (1, 2, 3)):
        who = f"{n} samples, {p} ranks of {workers} workers"
        parts = [[_read(split, n, 0, rank, p, w, workers) for w in range(workers)] for rank in range(p)]
        for rank, mine in enumerate(parts):
            sizes = [len(one) for one in mine]
            uneven = max(sizes) - min(sizes) > 1
            expect(not uneven, f"{who}: the workers of rank {rank} read {sizes}: differ by one at most.")
        ranks = [list(itertools.chain(*mine)) for mine in parts]
        twice = [number for number, times in Counter(itertools.chain(*ranks)).items() if times > 1]
        words = f"{who}: sample {twice[0] if twice else ''} is read more than once in an epoch. "
        expect(not twice, words + "(The same order on all ranks? Each worker a part of its rank's?)")
        counts = [len(mine) for mine in ranks]
        expect(len(set(counts)) == 1, f"{who}: the ranks read {counts} samples; all need as many.")
        expect.equal(counts[0], n // p, f"{who}: samples of a rank (drop what does not divide)")
        strange = [number for number in itertools.chain(*ranks) if not 0 <= number < n]
        expect(not strange, f"{who}: there is no sample {strange[0] if strange else ''}.")
    _expect_orders(split)


def _read(split, *where) -> list[int]:
    found = split(*where)
    expect(np.ndim(found) == 1, f"Give the numbers of the samples, an array; this is {found!r:.60}.")
    return [int(number) for number in found]


def _expect_orders(split) -> None:
    def epoch(number, seed=0):
        return [_read(split, 103, number, rank, 4, 0, 1, seed) for rank in range(4)]

    expect(epoch(0) == epoch(0), "Asked twice, a rank gets another order. Only seed and epoch may matter.")
    orders = [epoch(number) for number in range(6)]
    for one, other in itertools.combinations(range(6), 2):
        expect(orders[one] != orders[other], f"Epochs {one} and {other} have the same order.")
    expect(epoch(0) != epoch(0, seed=1), "Seeds 0 and 1 give the same order.")
    expect(epoch(0)[0] != sorted(epoch(0)[0]), "Rank 0 reads its samples in the stored order: shuffle.")
    pairs = [set(itertools.pairwise(_read(split, 103, number, 0, 1))) for number in (0, 1)]
    moved = "Epoch 1 has the order of epoch 0, moved on: who follows whom stays. Shuffle anew each epoch."
    expect(len(pairs[0] & pairs[1]) < 25, moved)
    together = max(len({*one} & {*other}) for one, other in itertools.product(*orders[:2]))
    words = f"{together} samples that one rank read in epoch 0 stay together on one rank in epoch 1, of "
    words += f"{len(orders[0][0])}. Shuffle all of the samples anew, then deal them out."
    expect(together < 20, words)  # 6 by chance
    read = {number for one in range(30) for mine in epoch(one) for number in mine}
    lost = sorted(set(range(103)) - read)
    text = f"103 samples, 4 ranks: in 30 epochs nobody reads samples {lost}. Shuffle first, then drop."
    expect(not lost, text)


def expect_as_torch(split: Callable) -> None:
    """Fail unless counts are those of PyTorch's DistributedSampler with drop_last (its order is another)."""
    from torch.utils.data import DistributedSampler

    for n, p in itertools.product((96, 103, 7, 3), (1, 2, 4, 5)):
        theirs = [len(list(DistributedSampler(range(n), p, rank, drop_last=True))) for rank in range(p)]
        ours = [len(_read(split, n, 0, rank, p, 0, 1)) for rank in range(p)]
        expect.equal(
            ours, theirs, f"{n} samples: what {p} ranks read, beside DistributedSampler(drop_last=True)"
        )


class _Stream(io.RawIOBase):
    """A tar that only goes forward. `taken`: bytes read so far."""

    def __init__(self, content: bytes):
        self._inner, self.taken = io.BytesIO(content), 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._inner.read(size)
        self.taken += len(content)
        return content

    def seek(self, *_):
        raise LabError(
            'The shard came in over a network and only goes forward, but it was asked to seek. "r|"?'
        )

    tell = seek


def _passing(read_shard, stream, name):
    """read_shard(stream); what streams and members in any order bring about becomes a sentence."""
    found = read_shard(stream)
    expect(hasattr(found, "__iter__"), f"read_shard returns {found!r:.60}. `yield` each sample.")
    try:
        yield from found
    except tarfile.StreamError as error:
        words = "a member passes by once. Take them in a `for`, and read each before the next one comes."
        raise CheckFailed(f"{name}: {words}") from error
    except OSError as error:
        if type(error).__name__ != "UnidentifiedImageError":
            raise
        raise CheckFailed("Give the JPEG's bytes as they are. Decoding comes later, elsewhere.") from error
    except ValueError as error:
        if "invalid literal for int" not in str(error):
            raise
        words = "int() got what is no label. A member's name says what it is: see behind the first dot."
        raise CheckFailed(f"{name}: {words}") from error


_CASES = {  # the order of a sample's files, by kind: the name from the first dot on
    "image, then label": ("jpg", "cls"),
    "label, then image": ("cls", "jpg"),
    "with a .json behind": ("jpg", "cls", "json"),
    "with a .json between": ("cls", "json", "jpg"),
    "with a .small.jpg between": ("jpg", "small.jpg", "cls"),
    "every third without its image": ("jpg", "cls"),
    "every third without its label": ("cls", "jpg"),
}


def _lacks(name: str, number: int) -> bool:
    """Whether this sample lacks the first of its files."""
    return "every third" in name and number % 3 == 1


def expect_reader(read_shard: Callable) -> None:
    """Fail unless read_shard(stream) yields a tar's (image, label) in order, one by one, never going back."""
    rng = np.random.default_rng(0)
    stored = [(rng.bytes(3000 + 700 * number), (number * 37) % 1000) for number in range(40)]
    labels = dict(stored)
    for name, kinds in _CASES.items():
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w") as tar:
            for number, (jpeg, label) in enumerate(stored):
                content = {"jpg": jpeg, "cls": b"%d" % label, "json": b"{}", "small.jpg": jpeg[:9]}
                for kind in kinds[_lacks(name, number) :]:
                    add_member(tar, f"{'sample' * (number % 2)}{number**3}.{kind}", content[kind])
        want = [pair for number, pair in enumerate(stored) if not _lacks(name, number)]
        stream = _Stream(target.getvalue())
        found = _passing(read_shard, stream, name)
        got = list(itertools.islice(found, 1))
        words = f"{name}: no sample came out of a shard of {len(want)}. "
        expect(got, words + "(A name may have any length, and ends at its first dot.)")
        early = stream.taken < len(target.getvalue()) / 2
        expect(
            early, f"The first sample came after {stream.taken:,} bytes, the whole shard. Yield each at once."
        )
        got += list(found)
        if "every third" in name:
            for pair in got:
                own = labels.get(pair[0]) in (None, pair[1])
                words = "an image came with its neighbour's label. The files of a sample have one name."
                expect(own, f"{name}: {words}")
        expect.equal(len(got), len(want), f"{name}: samples of a shard of {len(want)}")
        for number, (pair, (jpeg, label)) in enumerate(zip(got, want, strict=True)):
            expect(len(pair) == 2, f"{name}: sample {number} has {len(pair)} parts: give (image, label).")
            words = f"{name}: sample {number}: "
            expect.equal(pair[1], label, words + "label, a whole number")
            expect(hasattr(pair[1], "__index__"), words + f"label {pair[1]!r:.30} is no whole number. int()?")
            expect(isinstance(pair[0], bytes), words + f"the image is {type(pair[0]).__name__}, not bytes.")
            expect(pair[0] == jpeg, words + f"not the image's bytes ({len(pair[0])}, it has {len(jpeg)}).")


# What lab 15's checks ask of shuffle buffers and of prefetching. Names as in labkit.inputs.


PATIENCE = 3  # seconds for what threads do in milliseconds


def _counted(items, taken: list, error: Exception | None = None) -> Iterator:
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


def expect_prefetch(prefetch: Callable) -> None:
    """Fail unless prefetch(items, depth) reads ahead in order, so far and no further, and ends well."""
    for depth in (1, 2, 5):
        _in_time(depth, _expect_ahead, prefetch, depth)
        _in_time(depth, _expect_any_item, prefetch, depth)
        for good, trouble in ((0, OSError("the disk is on fire")), (3, ValueError("this is no JPEG"))):
            _in_time(depth, _expect_error, prefetch, depth, good, trouble)
        for read, items in ((1, itertools.count()), (3, itertools.count()), (1, range(depth + 2))):
            _in_time(depth, _expect_no_thread, prefetch, depth, read, items)
    _in_time(1, _expect_patience, prefetch)


def _in_time(depth: int, look: Callable, *args) -> None:
    """look(*args) on a thread, so that a prefetch that never comes back does not hold up the learner."""
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            look(*args)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    hook, threading.excepthook = threading.excepthook, lambda _: None  # a thread that dies says so on screen
    try:
        thread.start()
        thread.join(2 * PATIENCE)
    finally:
        threading.excepthook = hook
    expect(
        not thread.is_alive(), f"depth {depth}: it waits for ever. Who empties the queue, and who fills it?"
    )
    if outcome:
        raise outcome[0]


def _expect_any_item(prefetch, depth) -> None:
    expect.equal(list(prefetch([], depth)), [], f"depth {depth}: of nothing to read")
    odd = [None, 0, False, ..., (), "end", "error", StopIteration]
    expect.equal(list(prefetch(iter(odd), depth)), odd, f"depth {depth}: items such as None or 'end'")


def _expect_ahead(prefetch, depth) -> None:
    taken: list[int] = []
    before = set(threading.enumerate())
    found = iter(prefetch(_counted(range(40), taken), depth))
    got = list(itertools.islice(found, 1))
    expect(got, f"depth {depth}: of 40 items, none came out.")
    ahead = _wait(lambda: len(taken) >= 1 + depth)
    expect(ahead, f"depth {depth}: with one item out, only {len(taken)} were read. Does a thread read ahead?")
    while len(got) < 40:
        time.sleep(0.002)  # long enough for a thread that does not wait
        most = len(got) + depth + 1
        words = f"depth {depth}: {len(taken)} items read when {len(got)} were out: the queue has no bound?"
        expect(len(taken) <= most, words)
        got += list(itertools.islice(found, 1)) or [None] * 40
    expect.equal(got[:40], list(range(40)), f"depth {depth}: the items, in order")
    expect.equal(list(found), [], f"depth {depth}: behind the last item")
    gone = _wait(lambda: set(threading.enumerate()) <= before)
    expect(gone, f"depth {depth}: a thread is left after the last item.")


def _expect_patience(prefetch) -> None:
    """A reader that takes its time: before an item, and before it ends."""

    def slow() -> Iterator[int]:
        yield 0
        time.sleep(1.2)
        yield 1
        time.sleep(0.1)

    got: list[int] = []
    consumer = threading.Thread(target=lambda: got.extend(prefetch(slow(), 1)), daemon=True)
    consumer.start()
    consumer.join(PATIENCE)
    words = (
        "The reader ends a while after its last item, and the consumer waits for ever. Put an end behind it."
    )
    expect(not consumer.is_alive(), words)
    expect.equal(got, [0, 1], "a reader that is slow once: wait for its end, an empty queue is none")


def _expect_error(prefetch, depth, good, trouble) -> None:
    got: list[int] = []
    outcome: list[object] = []

    def consume() -> None:
        try:
            got.extend(prefetch(_counted(range(good), [], trouble), depth))
            outcome.append("the items ended, as if all was well")
        except Exception as error:
            outcome.append(error)

    reader = threading.Thread(target=consume, daemon=True)
    reader.start()
    reader.join(PATIENCE)
    words = f"depth {depth}, the reader fails after {good} items"
    expect(bool(outcome), f"{words}: the consumer waits for ever. The thread has to pass its error on.")
    expect(outcome[0] is trouble, f"{words}: its {trouble!r} should come out, but {outcome[0]!r}")
    expect.equal(got, list(range(good)), f"{words}: items before that")


def _expect_no_thread(prefetch, depth, read, items) -> None:
    before, taken = set(threading.enumerate()), []
    found = iter(prefetch(_counted(items, taken), depth))
    list(itertools.islice(found, read))
    _wait(lambda: len(taken) >= read + depth)
    time.sleep(0.02)  # now a thread that waits for a place does so
    closer = threading.Thread(target=getattr(found, "close", lambda: None), daemon=True)
    closer.start()
    closer.join(PATIENCE)
    words = f"depth {depth}: the consumer stopped after {read} items"
    expect(not closer.is_alive(), f"{words}, and close() waits for ever: a full queue holds the thread up.")
    gone = _wait(lambda: set(threading.enumerate()) <= before)
    expect(gone, f"{words}, and a thread is left behind. It waits for a place in the queue.")


def expect_buffer(shuffled: Callable) -> None:
    """Fail unless shuffled(items, size, seed) is a shuffle buffer: complete, bounded, by seed, well mixed."""
    for n, size in itertools.product((0, 1, 7, 60), (1, 2, 5, 60, 100)):
        taken: list[int] = []
        got, who = [], f"{n} items, buffer of {size}"
        for item in shuffled(_counted(range(n), taken), size, 1):
            got.append(item)
            held = len(taken) - len(got)
            expect(held <= size, f"{who}: {held} items are held when item {len(got)} comes out.")
            if len(taken) < n:
                expect(held >= size - 1, f"{who}: only {held} are held when item {len(got)} comes out.")
        lost, twice = set(range(n)) - set(got), len(got) - len(set(got))
        expect(not lost, f"{who}: {len(lost)} items never come out. What is in the buffer at the end?")
        expect(not twice, f"{who}: {twice} items come out twice.")
        again = list(shuffled(range(n), size, 1))
        words = "items came out of a range (or list): a second `for` over it begins anew. iter() once?"
        expect(len(again) == n, f"{who}: {len(again)} {words}")
        expect.equal(again, got, f"{who}: the same seed again")
        if n == 60 and size >= 5:
            words = "seeds 1 and 2 give the same order. (Is what is left at the end shuffled, too?)"
            expect(list(shuffled(range(n), size, 2)) != got, f"{who}: {words}")
    got = list(shuffled(((b"JPEG", number) for number in range(200)), 20, 1))
    streams = [shuffled(range(60), 5, 1) for _ in range(2)]
    mixed = list(zip(*streams, strict=False))
    words = "Two streams with the same seed, read in turns, differ. Each needs a generator of its own: "
    expect(all(one == other for one, other in mixed), words + "np.random.default_rng(seed).")
    kept = all(isinstance(item, tuple) for item in got)
    expect(kept, f"A pair (JPEG, label) went in, and {got[-1]!r:.60} came out. Give items out as they came.")
    follow = sum(after == before + 1 for (_, before), (_, after) in itertools.pairwise(got))
    words = f"200 items, buffer of 20: {follow} of 199 come out right behind the one stored before them. "
    expect(follow < 80, words + "A new random place for each item, from one generator?")
    trials, size = 400, 5
    for n in (20, size):
        first = Counter(next(iter(shuffled(range(n), size, seed))) for seed in range(trials))
        rare = [item for item in range(size) if not trials / size / 2 < first[item] < 2 * trials / size]
        words = f"{n} items, buffer of {size}, {trials} seeds: item {rare[0] if rare else ''} is first "
        words += f"{first[rare[0]] if rare else ''} times, {trials // size} times would be fair."
        expect(not rare, words)
    tails = Counter(tuple(shuffled(range(4), 9, seed)) for seed in range(trials))
    many = len(tails) >= 20  # of 24 orders
    expect(
        many, f"4 items, buffer of 9: only {len(tails)} of 24 orders in {trials} seeds. Shuffle the rest too."
    )
