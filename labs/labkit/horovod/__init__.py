"""FACE of labkit.horovod."""

from labkit.horovod import timeline
from labkit.horovod.steps import DEFAULT_FUSION

__all__ = [
    "DEFAULT_FUSION",
    "timeline",
]
