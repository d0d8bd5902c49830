"""How much of the first GPU's memory is in use: a record that names a GPU is not yet a tensor on one."""

from __future__ import annotations


class Rise:
    """The largest rise of a number above the least that was before: processes end, too."""

    def __init__(self) -> None:
        self.largest = 0
        self._least: int | None = None

    def note(self, number: int) -> None:
        """The number as it is now."""
        self._least = number if self._least is None else min(self._least, number)
        self.largest = max(self.largest, number - self._least)


class Witness:
    """Looks at the memory in use, whenever it is asked to; None without NVIDIA's library."""

    def __init__(self) -> None:
        self._handle = _first_gpu()
        self._rise = Rise()
        self.look()

    def look(self) -> None:
        """Note the memory that is in use now."""
        if self._handle is not None:
            self._rise.note(self._in_use())

    def grown(self) -> int | None:
        """By how many bytes the memory in use rose; None where nobody can say."""
        return None if self._handle is None else self._rise.largest

    def _in_use(self) -> int:
        import pynvml

        return int(pynvml.nvmlDeviceGetMemoryInfo(self._handle).used)


def _first_gpu():
    """NVML's handle of the GPU; None without a driver, or without its package."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByIndex(0)
    except ImportError:
        return None
    except pynvml.NVMLError:
        return None
