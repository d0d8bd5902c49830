"""A script that is to be killed or interrupted: two processes, one of which stands still, the other
stopped.

`notebook_job.py` prints their numbers, and then waits.
"""

from __future__ import annotations

import os
import signal
import time

from labkit import launch

print("main", flush=True)  # once: a process does not run the script again


def stand(pipe, stopped):
    pipe.send(os.getpid())
    if stopped:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)


with launch.processes([(stand, False), (stand, True)], dict(os.environ)) as running:
    print(*(one.pipe.recv() for one in running), flush=True)
    time.sleep(1000)
