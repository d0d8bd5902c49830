"""A script that is to be killed: a run whose ranks never end, each with a child process of its own
and a temporary file.

`endless_job.py [CONTROLLER]` prints "up" once both ranks are at it.
"""

from __future__ import annotations

import sys

from labkit.launch import runs


def endless():
    import subprocess
    import tempfile
    import time

    tempfile.mkstemp()  # as TensorFlow leaves some
    subprocess.Popen(["sleep", "1000"])
    # A daemon: away from our process group.
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("up", flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    runs.run(endless, ranks=2, controller=sys.argv[1] if len(sys.argv) > 1 else "mpi", timeout=900)
