"""What lab 61 needs beside its exercises: real TensorFlow clusters, and their bytes on the wire.

SERVERS, RING, HOROVOD   the three ways: parameter servers and a ring over gRPC, Horovod's ring without it
NETS                     names of the two small nets
build, sizes_of          a net in Keras; the numbers in each of its variables
variables_of             the same of a well-known net, such as VGG-16
slurm_of                 what srun sets for a task, of the variables of the lab
devices                  have TensorFlow take this machine for several devices
try_step                 the learner's step on several devices of this process
losses_alone             losses of the same training in one process
train                    the learner's step on real processes over gRPC: a Run for each way and net
with_horovod             the same nets with Horovod
of_run, of_workers       an Outcome: time of a step, bytes by process, losses
RATE                     SGD's learning rate in all of them
tcp_bytes                bytes of this process's TCP connections, by the kernel
Chief, Run, seats        what a chief and a whole cluster report; who is what in a cluster
elsewhere, table         the lab as a batch job, and its table
"""

from support.lab61.away import elsewhere, table
from support.lab61.cluster import RING, SERVERS, Run, seats, slurm_of, train
from support.lab61.counters import tcp_bytes
from support.lab61.nets import NETS, build, sizes_of, variables_of
from support.lab61.outcome import Outcome, of_run, of_workers
from support.lab61.replicas import devices, losses_alone, try_step
from support.lab61.roles import RATE, Chief
from support.lab61.without_grpc import HOROVOD, with_horovod

__all__ = [
    "Chief",
    "HOROVOD",
    "NETS",
    "RATE",
    "RING",
    "SERVERS",
    "Outcome",
    "Run",
    "build",
    "devices",
    "elsewhere",
    "losses_alone",
    "of_run",
    "of_workers",
    "seats",
    "sizes_of",
    "slurm_of",
    "table",
    "tcp_bytes",
    "train",
    "try_step",
    "variables_of",
    "with_horovod",
]
