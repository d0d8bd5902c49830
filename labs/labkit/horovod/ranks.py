"""How many ranks a lab with Horovod takes where NCCL would be given GPUs."""

from __future__ import annotations

import os

from labkit import builds, launch, world
from labkit.errors import LabError, counted


def ranks_here(n: int) -> int:
    """As launch.ranks_here(n), and no more than this machine's GPUs where Horovod's build is the
    one for NCCL, which refuses two ranks on one GPU.

    Under a launcher LabError in place of NCCL's own error, where there are certainly too many.
    """
    gpus = gpus_of_node()
    build = os.environ.get("LABKIT_HOROVOD") or builds.current_horovod()
    if build != "nccl" or not gpus:
        return launch.ranks_here(n)
    if world.launcher() is None:
        return min(n, gpus)
    if world.local_size() > gpus:
        raise LabError(
            f"{world.local_size()} ranks and {counted(gpus, 'GPU')} on this node: NCCL refuses two"
            " ranks on one GPU. Start no more ranks than GPUs, or take the build of Horovod that"
            " goes through host memory: HOROVOD=host of make run and make submit."
        )
    return world.size()


def gpus_of_node() -> int:
    """NVIDIA GPUs of this node, without an import of PyTorch: TensorFlow's labs have not loaded it.

    A rank that is shown one GPU alone counts all of the node, since the others have theirs.
    """
    if os.environ.get("LABKIT_DEVICE") == "cpu":
        return 0
    there = world.gpu_files()
    shown = world.shown_gpus()
    if shown is None or (shown and world.launcher()):
        return there
    return min(there, len(shown))
