"""A check whose body a test gives."""

from __future__ import annotations

import types
from collections.abc import Callable
from unittest import mock

from labkit import check
from labkit.checks import modules


def tried(number: str, body: Callable[[], object]) -> None:
    """`check(number, body)`, where the lab's module has one function, which calls body()."""
    module = types.ModuleType(f"support.lab{number[:2]}")
    module.calls = check.exercise(number)(lambda body: body())
    with mock.patch.object(modules, "_module", return_value=module):
        check(number, body)
