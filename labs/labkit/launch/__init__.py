"""One function on several processes: from a notebook, a script, or a job that is there already.

For labs:

    run                 run(fn, ranks=4): call fn on that many ranks, and return their results by rank
    ranks_here          how many ranks a run will use: those of the launcher this file runs under, else n

For the kit's other parts:

    environment         environment variables for the time of a block
    my_cores            what this rank may compute on
    mpiexec, flavor     the MPI launcher that is here, and whose options a launcher takes
    launcher_options    that launcher's options for so many ranks, here or over a batch job's nodes
    run_to_end          a command in the foreground: signals passed on, and nothing left of it
    THREAD_VARIABLES    what sets the number of threads of the libraries
    reserve_port        a free port that stays reserved
    Frame, innermost    lines of a stack, and the learner's innermost one
    is_learners         is a file the learner's own code?
    describe, raised    an exception as plain data, and as the sentence for a rank that raised it
    stack, ranks_text   where a thread is; `ranks 0, 3`
    leave_stack         a rank of a batch job leaves its line, should Slurm end it
    print_lab_errors_plainly    a script that fails prints its sentence alone, and ends the whole job
    die_with_parent     end this process when its parent does
"""

from labkit.launch.command import run_to_end
from labkit.launch.diagnosis import Frame, describe, innermost, is_learners, raised, ranks_text, stack
from labkit.launch.excepthook import print_lab_errors_plainly
from labkit.launch.notes import leave_stack
from labkit.launch.plans import THREAD_VARIABLES, flavor, launcher_options, mpiexec, plan, reserve_port
from labkit.launch.process import environment, my_cores
from labkit.launch.runs import ranks_here, run
from labkit.launch.supervisor import die_with_parent

__all__ = [
    "Frame",
    "THREAD_VARIABLES",
    "describe",
    "die_with_parent",
    "environment",
    "flavor",
    "innermost",
    "launcher_options",
    "is_learners",
    "leave_stack",
    "mpiexec",
    "my_cores",
    "plan",
    "print_lab_errors_plainly",
    "raised",
    "ranks_here",
    "ranks_text",
    "reserve_port",
    "run",
    "run_to_end",
    "stack",
]
