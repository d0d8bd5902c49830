"""Training steps with Horovod for labs on what its communication costs, and what its timeline tells of them.

train             on a rank: some steps of a small net; their time, and the events of the timeline
train_ways        the same in several ways, one after the other, each with variables of its own
DEFAULT_FUSION    bytes of Horovod's fusion buffer where nothing else is said
timeline          the reader of timelines: which library carried which tensors
"""

from labkit.horovod import timeline
from labkit.horovod.steps import DEFAULT_FUSION, train, train_ways

__all__ = [
    "DEFAULT_FUSION",
    "timeline",
    "train",
    "train_ways",
]
