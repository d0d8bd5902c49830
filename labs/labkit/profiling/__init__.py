"""Where the step time goes: compute, communication (overlapped or exposed), input wait, idle; by rank.

    with profiling.span("communication", "bucket 3"): …
    profile = profiling.record(step, comm=comm)
    profile.table(); profile.show(); profile.save("trace.json")

| name | what it is |
|---|---|
| `record` | runs a step several times and gives the `Profile` |
| `Profile` | the table of the parts of a step, its operators, its picture, its trace for Perfetto |
| `span`, `mark` | what a thread does in a block; a request, from its start to its end |
| `IN_FLIGHT` | the thread of a request that no thread is busy with |
| `busy`, `pieces`, `without` | of spans: when each kind is on; the parts of a step; intervals less others |
"""

from labkit.profiling.parts import busy, pieces, without
from labkit.profiling.profile import Profile
from labkit.profiling.recording import record
from labkit.profiling.spans import IN_FLIGHT, mark, span

__all__ = [
    "IN_FLIGHT",
    "Profile",
    "busy",
    "mark",
    "pieces",
    "record",
    "span",
    "without",
]
