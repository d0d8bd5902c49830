"""What lab 15's checks ask of shuffle buffers and of prefetching. Names as in labkit.inputs."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from labkit.expectations import expect

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
