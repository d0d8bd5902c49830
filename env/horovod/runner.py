"""Horovod's package `horovod.runner` in this build: ranks are started by MPI, and nothing here
listens.

Horovod 0.28.1 starts ranks over Gloo, on other hosts and in elastic jobs as well, by servers that
unpickle what they are sent; CVE-2024-10190 is in one of them. This file takes the place of them
all.
"""

from enum import IntFlag


def run(*args, **kwargs):
    """`horovod.run`, which hands a function to ranks through a server. Raises
    NotImplementedError."""
    raise NotImplementedError(
        "horovod.run is not in this build of Horovod. Put the function into a file and start that"
        " on all ranks: mpiexec -n 2 python train.py, or srun in a job."
    )


class HostUpdateResult(IntFlag):
    """What `hvd.elastic` calls a change of the hosts."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class WorkerNotificationManager:
    """Whom `hvd.elastic.run` asks for news of hosts. There are none: a job of MPI keeps its
    hosts."""

    def init(self):
        """No server is started."""

    def register_listener(self, listener):
        """There will be no news."""

    def remove_listener(self, listener):
        """See `register_listener`."""
