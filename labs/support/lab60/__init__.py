"""What lab 60 needs beside its exercises: a net, DDP's buckets and hooks, counters of bytes and traffic.

new_net, batch_of  the net of the lab, the same on every rank; a rank's own pictures and labels
buckets_of         parameters in the order in which their gradients come, in buckets of at most so many bytes
attach             start(bucket) as soon as a bucket's gradients are there; returns the finish of a step
Traffic            a block that counts what its collectives send, in numbers, by the kind of collective
held               bytes of parameters, gradients and optimizer on this rank
try_ddp            on a rank: gradients by the learner's start and finish, by PyTorch's DDP, and by nobody
compare_steps      on a rank: times of a step of the learner's DDP, PyTorch's, and without any exchange
try_start          on a rank: does start wait for a rank that comes late?
try_accumulate     on a rank: what the learner's accumulation gave, and how many numbers were sent
sharded            on a rank: what DDP, ZeRO-1 and FSDP hold and send in a step
save_and_load      on a rank: a sharded checkpoint written by all ranks, and what it holds
load               that checkpoint in one process
"""

from support.lab60.checks import try_accumulate, try_ddp, try_start
from support.lab60.counters import Traffic, held
from support.lab60.hooks import attach, buckets_of
from support.lab60.net import batch_of, new_net
from support.lab60.studies import compare_steps, load, save_and_load, sharded

__all__ = [
    "Traffic",
    "attach",
    "batch_of",
    "buckets_of",
    "compare_steps",
    "held",
    "load",
    "new_net",
    "save_and_load",
    "sharded",
    "try_accumulate",
    "try_ddp",
    "try_start",
]
