"""What all devices share: pinned memory of the host, copies under way, and what every device refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from labkit.errors import LabError


class Pinned(np.ndarray):
    """Page-locked memory of the host: the only memory that a device's engines reach by themselves."""


class Copy:
    """A copy under way. It is over when `wait()` has returned; before that, leave both its ends alone."""

    def __init__(self, wait: Callable[[], None]):
        self.wait = wait


def refuse(host, memory, kind: type, call: str) -> None:
    """Raise LabError unless host is pinned, memory of the device's `kind`, and both are equally long."""
    if not isinstance(host, Pinned) or not isinstance(memory, kind):
        kinds = f"{type(host).__name__} and {type(memory).__name__}"
        raise LabError(
            f"device.{call}: `host` is pinned memory from device.pinned, `memory` the device's; not {kinds}."
        )
    if len(host) != len(memory):
        raise LabError(
            f"device.{call}: the host's buffer has {len(host)} bytes, the device's memory {len(memory)}. "
            "Slice the longer one."
        )
