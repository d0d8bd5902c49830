"""A rank of a job on a cluster: `python -m support.lab71.rank`, its task in $LAB71_FOLDER."""

from __future__ import annotations

import os

from labkit import noise

from support.lab71 import training

if __name__ == "__main__":
    noise.silence()
    training.play(os.getppid())
