"""What a function does with files, noted call by call; and a death by kill -9 at a chosen moment of it."""

from __future__ import annotations

import builtins
import io
import json
import os
import pathlib
import signal

_real_open = io.open
_real_write = os.write


class Watch:
    """Once installed, calls on files are noted as JSON lines in a pipe, and the process kills itself.

    die_at: at which of its moments, counted from 1; 0: at none. A moment is before each call, and within
    each writing when half of the bytes are in the file. Only for a process that does nothing else.
    """

    def __init__(self, pipe: int, die_at: int):
        self.pipe = pipe
        self.die_at = die_at
        self.moments = 0

    def install(self) -> None:
        """From now on in this process."""
        builtins.open = self.open
        io.open = self.open
        for name in ("replace", "rename"):
            setattr(os, name, self._renaming(getattr(os, name)))
        real_fsync = os.fsync

        def fsync(descriptor) -> None:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            self.moment("fsync", path=os.readlink(f"/proc/self/fd/{number}"))
            real_fsync(number)

        os.fsync = fsync
        os.write = self.write
        if hasattr(pathlib, "_NormalAccessor"):
            # Python 3.10: its paths call the functions that were there when pathlib was imported.
            for name, function in (("open", self.open), ("replace", os.replace), ("rename", os.rename)):
                setattr(pathlib._NormalAccessor, name, staticmethod(function))

    def moment(self, call: str, **facts: object) -> None:
        """Note the call that comes next; die if this is the moment."""
        self.moments += 1
        self.note(call=call, **facts)
        if self.moments == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self, **facts: object) -> None:
        """A line of the pipe that is no moment."""
        _real_write(self.pipe, json.dumps(facts).encode() + b"\n")

    def open(self, file, mode="r", buffering=-1, *rest, **options):
        """As Python's own; what is opened to write bytes is watched."""
        if isinstance(file, int) or "b" not in mode or not set("wxa+") & set(mode):
            return _real_open(file, mode, buffering, *rest, **options)
        self.moment("open", path=os.path.realpath(file))
        raw = _Raw(self, file, mode.replace("b", ""))
        return raw if buffering == 0 else io.BufferedWriter(raw)

    def write(self, descriptor: int, content) -> int:
        """As os.write; all of it, in two halves."""
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        return self.halves(path, content, lambda part: _real_write(descriptor, part))

    def halves(self, path: str, content, write) -> int:
        """Write the first half; a moment; the rest."""
        content = memoryview(content)
        half = content.nbytes // 2
        self.moment("write", path=path, bytes=content.nbytes)
        written = 0
        for stop in (half, content.nbytes):
            while written < stop:
                written += write(content[written:stop])
            if stop == half:
                self.moment("half", path=path)
        return written

    def _renaming(self, real):
        def rename(source, target, **options) -> None:
            places = {"path": os.path.realpath(source), "to": os.path.realpath(target)}
            self.moment("replace", **places)
            real(source, target, **options)

        return rename


class _Raw(io.FileIO):
    """A file without a buffer whose writings are moments."""

    def __init__(self, watch: Watch, file, mode: str):
        super().__init__(file, mode)
        self.watch = watch
        self.path = os.path.realpath(file)

    def write(self, content) -> int:
        return self.watch.halves(self.path, content, super().write)
