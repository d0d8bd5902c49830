"""What this machine and site really have, and which lab runs here: `make doctor`. Lab 00 teaches to read it.

| name | what it is |
|---|---|
| `show` | the report as tables, in a notebook or on the terminal |
| `report` | the same as plain data: report()["mpi"]["version"] |
| `require` | NotHere that names what is missing of some needs |
| `judge` | does a lab run on a machine with such a report: RUNS, REDUCED or NEEDS, and a sentence |
| `rows`, `readable`, `show_labs` | the report's parts, to be shown by others |
| `identify`, `banner` | an MPI's family, version and first words, by what it says of itself |
| `loaded_mpi`, `loaded_mpi_described` | the MPI libraries that this process has loaded |
| `which_mpi` | the MPI that a rank would load here, asked in a process of its own |
| `takes_gpu_memory`, `switch` | does an MPI take GPU memory, by its build and by its switch |
| `parameters` | the environment, and below it what Open MPI's files of parameters say |
| `staging_reason` | why an MPI must not be handed GPU memory; "" if it may be |
| `thread_advice` | what a thread level means for Horovod, and the cure |
| `infiniband_ports` | the ports of this node, and which are up |
"""

from labkit.doctor.findings import report, require
from labkit.doctor.fitness import NEEDS, REDUCED, RUNS, judge
from labkit.doctor.machine import infiniband_ports, loaded_mpi_described, which_mpi
from labkit.doctor.mpi import (
    banner,
    identify,
    loaded_mpi,
    parameters,
    staging_reason,
    switch,
    takes_gpu_memory,
    thread_advice,
)
from labkit.doctor.view import readable, rows, show, show_labs

__all__ = [
    "NEEDS",
    "REDUCED",
    "RUNS",
    "banner",
    "identify",
    "infiniband_ports",
    "judge",
    "loaded_mpi",
    "loaded_mpi_described",
    "parameters",
    "readable",
    "report",
    "require",
    "rows",
    "show",
    "show_labs",
    "staging_reason",
    "switch",
    "takes_gpu_memory",
    "thread_advice",
    "which_mpi",
]
