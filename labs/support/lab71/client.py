"""Stands where a launcher starts a rank: asks the nursery for the process, and ends as that process ends.

Run by path with the standard library alone, so that it is up in milliseconds. It hands over its environment,
its launcher's process number and its standard streams.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> int:
    """The exit status of the rank; a signal that ends the rank ends this process, too."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["LAB71_NURSERY"])
    text = json.dumps({"env": dict(os.environ), "launcher": os.getppid()}).encode()
    socket.send_fds(line, [len(text).to_bytes(4, "little")], [0, 1, 2])
    line.sendall(text)
    answer = line.makefile("rb").readline()  # nothing, if the nursery has gone
    status = int(answer) if answer else 1
    if status < 0:
        os.kill(os.getpid(), signal.SIGKILL)  # its launcher is to see that end
    return status


if __name__ == "__main__":
    sys.exit(main())
