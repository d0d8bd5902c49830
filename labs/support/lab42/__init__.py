"""What lab 42 needs: MVAPICH2's behaviour as cases, job lines read and started, timelines and their rows.

LIBRARIES                    texts of MPI libraries and of mpiname, and which library and version they mean
THREAD_LEVELS                variables, and the thread level that MVAPICH2 grants
VARIABLES                    flavours of MVAPICH, and what Horovod needs in each
Job, JOBS                    how large a job is to be; jobs for the check, by launcher

read_command, shortcoming    a line that starts a job, taken apart; what is wrong with it, in a sentence
launcher_here, job_here      whose line can be started here, and a small job that fits
PROGRAM, start               a program that says what has started it; a line, started

TIMELINES, timeline_of       calls of libraries, and a timeline with them in it
JOURNEYS                     rows of timelines, by what carried a gradient, and whether it stayed on the GPU
show, gradients              a timeline printed; the rows of its averaged tensors
together, device_and_build   runs of several rounds as one; where its gradients were, and Horovod's build

UNBOUND                      variables with which MVAPICH2 binds nobody
settings_of                  the settings whose thread levels are compared, by library
look_inside, thread_level    on a rank: its library, files and level; the level that Horovod was given
mpiname, channel             what MVAPICH2's own tool prints; the device that a library's text names
"""

from support.lab42.cases import JOBS, LIBRARIES, THREAD_LEVELS, VARIABLES
from support.lab42.commands import Job, read_command, shortcoming
from support.lab42.lines import PROGRAM, job_here, launcher_here, start
from support.lab42.ranks import UNBOUND, channel, look_inside, mpiname, settings_of, thread_level
from support.lab42.timelines import (
    JOURNEYS,
    TIMELINES,
    device_and_build,
    gradients,
    show,
    timeline_of,
    together,
)

__all__ = [
    "JOBS",
    "JOURNEYS",
    "LIBRARIES",
    "PROGRAM",
    "THREAD_LEVELS",
    "TIMELINES",
    "UNBOUND",
    "VARIABLES",
    "Job",
    "channel",
    "device_and_build",
    "gradients",
    "job_here",
    "launcher_here",
    "look_inside",
    "mpiname",
    "read_command",
    "settings_of",
    "shortcoming",
    "show",
    "start",
    "thread_level",
    "timeline_of",
    "together",
]
