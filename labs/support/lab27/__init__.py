"""Device memory behind one small interface: a GPU's, or a stand-in's that copies at a stated pace (lab 27).

A device has `name`, `empty(nbytes)`, `array(values)`, `peek(memory)`, `pinned(*shape)`, `for_mpi(memory)`,
and asynchronous copies, `to_host(host, memory)` and `to_device(memory, host)`, whose result has `wait()`.
Everything is bytes (uint8). Device memory is sliced as arrays are: `memory[start:stop]`.
"""

from support.lab27.checks import STEPS, busy, direct, on_ranks, race, trials
from support.lab27.choice import ask_mpi, here
from support.lab27.cuda import Cuda
from support.lab27.emulated import StandIn
from support.lab27.published import COPY_ENGINE, CPU_TO_DEVICE, CPU_TO_HOST, pipeline_time

__all__ = [
    "COPY_ENGINE",
    "CPU_TO_DEVICE",
    "CPU_TO_HOST",
    "STEPS",
    "Cuda",
    "StandIn",
    "ask_mpi",
    "busy",
    "direct",
    "here",
    "on_ranks",
    "pipeline_time",
    "race",
    "trials",
]
