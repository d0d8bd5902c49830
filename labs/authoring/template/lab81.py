"""The checks of lab 81."""

from __future__ import annotations

from labkit import check, expect


@check.exercise("81.1")
def total_of_any_list(total):
    """The totals of lists of 0 to 5 numbers."""
    for count in (0, 1, 2, 5):
        numbers = [3.5 * place + 1 for place in range(count)]
        expect.close(total(numbers), sum(numbers), f"the total of {count} numbers")
