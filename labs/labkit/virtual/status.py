"""The status of a message."""

from __future__ import annotations

import numpy as np


class Status:
    """Source, tag and length of a received message."""

    def __init__(self):
        self.source, self.tag, self._length = -1, -1, 0

    def Get_source(self) -> int:
        return self.source

    def Get_tag(self) -> int:
        return self.tag

    def Get_count(self, datatype=None) -> int:
        """Elements of `datatype` (an mpi4py datatype or a NumPy one), bytes without it."""
        size = 1 if datatype is None else getattr(datatype, "size", None) or np.dtype(datatype).itemsize
        return self._length // size

    @staticmethod
    def fill(status, source: int, tag: int, length: int) -> None:
        """Write into a Status of ours or of mpi4py."""
        if isinstance(status, Status):
            status.source, status.tag, status._length = source, tag, length
            return
        from mpi4py import MPI

        status.source, status.tag = source, tag
        if MPI.Is_initialized():  # the count needs MPI's types
            status.Set_elements(MPI.BYTE, length)
