"""What lab 42 needs: MVAPICH2's behaviour as cases, job commands read as launchers do, the MPI that is here.

LIBRARIES                    texts of MPI libraries and of mpiname, and which library and version they mean
MAPS                         texts as of /proc/self/maps, and the MPI libraries in them
THREAD_LEVELS                variables, ranks, cores, and the thread level that MVAPICH2 grants
LOCAL_RANKS                  a rank's variables, and its local rank
VARIABLES                    flavours of MVAPICH, and what Horovod needs in each
TIMELINES, timeline_of       calls of libraries, and a timeline with them in it

read_command, options_of     a line that starts a job, taken apart; the options that it should have

UNBOUND, SINGLE              variables for all threads, or for one, of Horovod's MPI
look_inside                  on a rank: texts that tell its MPI library, and its thread level
thread_level                 on a rank: the level that Horovod was given
mpiname                      what MVAPICH2's own tool prints
"""

from support.lab42.cases import (
    LIBRARIES,
    LOCAL_RANKS,
    MAPS,
    THREAD_LEVELS,
    TIMELINES,
    VARIABLES,
    timeline_of,
)
from support.lab42.commands import options_of, read_command
from support.lab42.ranks import SINGLE, UNBOUND, look_inside, mpiname, thread_level

__all__ = [
    "LIBRARIES",
    "LOCAL_RANKS",
    "MAPS",
    "SINGLE",
    "THREAD_LEVELS",
    "TIMELINES",
    "UNBOUND",
    "VARIABLES",
    "look_inside",
    "mpiname",
    "options_of",
    "read_command",
    "thread_level",
    "timeline_of",
]
