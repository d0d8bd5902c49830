"""What lab 43 needs: a reader of NCCL's logs, real logs to read, and allreduces that know nodes.

read, parse        a Log of NCCL from files, or from text: transports, rings, trees, choices, problems
examples           names of the real logs that come with the kit
example            the file of one of them
report             on GPUs: what NCCL tells of Horovod's allreduces here; elsewhere why nothing runs
most_ranks         ranks that a build of Horovod may have on this machine
trees              NCCL's two trees of some nodes
leaving            vectors and messages that leave the busiest node in an allreduce, and its latencies
gains              how many times as fast as a flat ring other allreduces are, on a virtual machine
"""

from support.lab43.allreduces import gains, leaving
from support.lab43.double_tree import trees
from support.lab43.nccl_log import example, examples, parse, read
from support.lab43.ranks import most_ranks, report

__all__ = ["example", "examples", "gains", "leaving", "most_ranks", "parse", "read", "report", "trees"]
