"""One function on several processes: from a notebook, a script, or a job that is there already.

For labs:

    run                 run(fn, ranks=4): call fn on that many ranks, and return their results by
                        rank
    ranks_here          how many ranks a run will use: those of the launcher this file runs under,
                        else n
    nodes_here          on how many nodes a job's ranks are; 1 where no launcher started this file
    case                `with case("with root 1"):` errors and hangs inside say that; check.case in
                        labs

For the kit's other parts:

    in_group            a decorator: the function runs inside a group of torch.distributed
    on_devices          a decorator: the function's `comm` takes tensors of this rank's own GPU, too
    environment         environment variables for the time of a block
    my_cores            what this rank may compute on
    mpiexec, flavor     the MPI launcher that is here, and whose options a launcher takes
    launcher_options    that launcher's options for so many ranks, here or over a batch job's nodes
    launcher_variables  what that launcher has to find in its environment
    page                the page of a launcher's documentation on one of its options
    loopback_variables  what a run on one machine is started with, so that it listens to no other
    loopback_gap        a sentence on what is missing for that; None where nothing is
    sharing_variables   what ranks that share cores are started with, so that those that wait sleep
    in_batch_job        does a batch job surround this process?
    run_to_end          a command in the foreground: signals passed on, and nothing left of it
    THREAD_VARIABLES    what sets the number of threads of the libraries
    reserve_port        a free port that stays reserved
    Frame, innermost    lines of a stack, and the learner's innermost one
    is_learners         is a file the learner's own code?
    describe, raised    an exception as plain data, and as the sentence for a rank that raised it
    case_of             what was being tried when an exception was raised
    in_check, of_check  is a line one of a check; what is said of an exception there
    stack, dumped       where a thread is, now or in what faulthandler wrote
    ranks_text          `ranks 0, 3`
    without_code        a sentence about such lines, without what is written in them
    leave_stack         a rank of a batch job leaves its line, should Slurm end it
    refuse_without_mpi  a lab that torchrun started ends with a sentence
    print_lab_errors_plainly    a script that fails prints its sentence alone, and ends the whole
                                job
    processes, Process  functions on processes that may hang and die, forked by one server; one of
                        them
    die_with_parent     end this process when its parent does
    adopt_orphans       become the parent of descendants whose own parent dies

Each name is imported when it is first used: a rank needs few of them, and every rank of every run
would wait.
"""

from __future__ import annotations

import importlib

_NAMES_OF = {
    "labkit.launch.cases": ["case", "case_of"],
    "labkit.launch.command": ["run_to_end"],
    "labkit.launch.devices": ["on_devices"],
    "labkit.launch.diagnosis": [
        "Frame",
        "describe",
        "dumped",
        "in_check",
        "innermost",
        "is_learners",
        "of_check",
        "raised",
        "ranks_text",
        "stack",
        "without_code",
    ],
    "labkit.launch.excepthook": ["print_lab_errors_plainly"],
    "labkit.launch.groups": ["in_group"],
    "labkit.launch.jobs": ["Process", "processes"],
    "labkit.launch.loopback": ["in_batch_job", "loopback_gap", "loopback_variables"],
    "labkit.launch.meeting": ["refuse_without_mpi"],
    "labkit.launch.notes": ["leave_stack"],
    "labkit.launch.plans": [
        "THREAD_VARIABLES",
        "flavor",
        "launcher_options",
        "launcher_variables",
        "mpiexec",
        "page",
        "reserve_port",
        "sharing_variables",
    ],
    "labkit.launch.process": ["environment", "my_cores"],
    "labkit.launch.runs": ["nodes_here", "ranks_here", "run"],
    "labkit.launch.supervisor": ["adopt_orphans", "die_with_parent"],
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
__all__ = list(_MODULE_OF)


def __getattr__(name: str):
    if name not in _MODULE_OF:
        raise AttributeError(f"labkit.launch has no {name!r}; it offers {', '.join(__all__)}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the next use finds it without this detour
    return value
