"""What lab 43 needs: a reader of NCCL's logs, real logs to read, and allreduces that know nodes.

read, parse        a Log of NCCL from files, or from text: transports, rings, trees, choices, problems
examples           names of the real logs that come with the kit
example            the file of one of them
report             on GPUs: what NCCL tells of Horovod's allreduces here; elsewhere why nothing runs
leaving            vectors and messages that leave the busiest node in an allreduce, and its rounds
gains              how many times as fast as a flat ring other allreduces are, on a virtual machine
"""

from support.lab43.allreduces import gains, leaving
from support.lab43.nccl_log import example, examples, parse, read
from support.lab43.ranks import report

__all__ = ["example", "examples", "gains", "leaving", "parse", "read", "report"]
