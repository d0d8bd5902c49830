"""How much of the first GPU's memory is in use: a record that names a GPU is not yet a tensor on one."""

from __future__ import annotations


class Witness:
    """Looks at the memory in use, whenever it is asked to; None without NVIDIA's library."""

    def __init__(self) -> None:
        self._handle = _first_gpu()
        self._before = self._in_use()
        self._most = self._before

    def look(self) -> None:
        """Note the memory that is in use now."""
        if self._handle is not None:
            self._most = max(self._most, self._in_use())

    def grown(self) -> int | None:
        """The most bytes that were in use beyond those at the beginning; None where nobody can say."""
        return None if self._handle is None else self._most - self._before

    def _in_use(self) -> int:
        if self._handle is None:
            return 0
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
