"""FACE of labkit.horovod."""

from labkit.horovod import timeline
from labkit.horovod.steps import DEFAULT_FUSION, train, train_ways

__all__ = [
    "DEFAULT_FUSION",
    "timeline",
    "train",
    "train_ways",
]
