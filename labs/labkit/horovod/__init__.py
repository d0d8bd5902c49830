"""Training steps with Horovod for labs on what its communication costs, and what its timeline tells
of them.

train             on a rank: some steps of a small net; their time, and the events of the timeline
train_ways        the same in several ways, one after the other, each with variables of its own
Training          what they return: also where net and images were, and what carried the gradients
as_it_is          on a rank: where tensors are that Horovod is handed as they are
ranks_here        launch.ranks_here, and no more than GPUs where NCCL would carry their tensors
timeline          the reader of timelines: which library carried which tensors
"""

from labkit.horovod import timeline
from labkit.horovod.ranks import ranks_here
from labkit.horovod.steps import Training, as_it_is, train, train_ways
