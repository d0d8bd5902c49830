"""Device memory behind one small interface, and ways to send it from rank to rank, tried and raced.

A device has `name`, `empty(nbytes)`, `array(values)`, `peek(memory)`, `pinned(*shape)`, `for_mpi(memory)`,
and asynchronous copies, `to_host(host, memory)` and `to_device(memory, host)`, whose result has `wait()`.
Everything is bytes (uint8). Device memory is sliced as arrays are: `memory[start:stop]`.

    Cuda, StandIn              a GPU; memory of the host that only copies at a stated pace reach
    here                       the device of this rank
    ask_mpi                    what this rank's MPI says of device memory

    trial                      a way, run round a ring of virtual ranks: what it did, and what it may cost
    exchange                   the same on a real rank: what it received
    message, sent_by           a message as one reads it; the bytes that a rank sends
    EMPTY, UNUSED              bytes of device memory, of a pinned buffer, that nobody filled

    race, STEPS, direct        ways raced on two real ranks, the steps of staging, the way without the host
    busy                       what is busy when, in a traced trial

    pipeline_time              seconds of so many chunks in a pipeline
    COPY_ENGINE, CPU_TO_HOST, CPU_TO_DEVICE    published times of copies
"""

from support.lab27.checks import message, trial
from support.lab27.choice import ask_mpi, here
from support.lab27.cuda import Cuda
from support.lab27.emulated import EMPTY, UNUSED, StandIn
from support.lab27.published import COPY_ENGINE, CPU_TO_DEVICE, CPU_TO_HOST, pipeline_time
from support.lab27.ranks import STEPS, race
from support.lab27.ring import direct, exchange, sent_by
from support.lab27.show import busy

__all__ = [
    "COPY_ENGINE",
    "CPU_TO_DEVICE",
    "CPU_TO_HOST",
    "EMPTY",
    "STEPS",
    "UNUSED",
    "Cuda",
    "StandIn",
    "ask_mpi",
    "busy",
    "direct",
    "exchange",
    "here",
    "message",
    "pipeline_time",
    "race",
    "sent_by",
    "trial",
]
