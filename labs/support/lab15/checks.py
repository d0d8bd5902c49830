"""What lab 17's checks look at: how prefetch reads, and what its thread does when all is not well.

Everything happens on threads of its own and is given up after some seconds: a prefetch that never comes back
does not hold up the learner.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from labkit.checks import expect

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
