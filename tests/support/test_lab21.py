"""Lab 21: the roots with which its checks try a collective."""

import pytest
from support import lab21


def rooted(comm, vector, root):
    pass


def without_root(comm, vector):
    pass


@pytest.mark.parametrize(
    ("function", "size", "roots"),
    [
        (without_root, 512, [[]]),
        (rooted, 1, [[0]]),
        (rooted, 5, [[0], [1], [2], [3], [4]]),
        (rooted, 512, [[0], [170], [511]]),
    ],
)
def test_a_large_group_is_tried_with_few_roots(function, size, roots):
    assert lab21.roots_of(function, size) == roots
