"""Where the step time goes: compute, communication (overlapped or exposed), input wait, idle; by
rank.

    with profiling.span("communication", "bucket 3"): …
    profile = profiling.record(step, comm=comm)
    profile.table(); profile.show(); profile.save("trace.json")

| name | what it is |
|---|---|
| `record` | runs a step several times and gives the `Profile` |
| `Profile` | the table of the parts of a step, its operators, its picture, its trace for Perfetto |
| `span`, `mark` | what a thread does in a block; a request, from its start to its end |
| `clock` | how far this rank's clock is ahead of rank 0's |
| `union`, `common`, `length` | of intervals: disjoint ones, the moments in two unions, seconds |
"""

from labkit.profiling import clock
from labkit.profiling.parts import common, length, union
from labkit.profiling.profile import Profile
from labkit.profiling.recording import record
from labkit.profiling.spans import mark, span
