"""The virtual cluster: a function on many ranks, each with a clock; messages cost as on a given
machine.

    run = virtual.Cluster(nodes=4, ranks_per_node=2, machine="dgx1").run(fn, vector)

| name | what it is |
|---|---|
| `Cluster` | nodes of a machine with ranks on them; `run(fn, …)` calls fn(comm, …) on every rank |
| `Run` | what a run returns: results, virtual time, messages and bytes; `expect_…` for checks |
| `trials` | one function on many numbers of ranks and lengths, against the right answer |
| `by_rank` | an argument of which each rank gets its own part |
| `vector`, `Vector` | an array that stands for a larger one; its additions take virtual time |
| `machine`, `machines` | a machine by name, "here" among them; their names |
| `ideal` | the machine of the closed forms: α and β alone |
| `Machine`, `Link` | a machine from numbers of your own |
| `accuracy` | percent right after training on virtual ranks, with one's own exchange of gradients |

fn's `comm` answers to mpi4py's names: what a call gives is what real ranks give, or a sentence that
says what to write instead (tests/virtual/test_programs.py holds both side by side).

Where the code is: `cluster` starts a run in the `engine`, which lets ranks take turns in virtual
time; `comm` (with `collectives`, made of `algorithms`, and `groups`) turns calls into messages, and
`transport` brings them together with their receives. `wires` charges for them by the machine's
numbers (`loggp`, `machines`, `here`): messages that meet in a port share it fairly. Mistakes are
told by `explain` (in a call), `matching` (in collectives) and `stuck` (of a whole run).
"""

from virtual.buffers import Vector, vector
from virtual.cluster import Cluster, trials
from virtual.loggp import Link, Machine, ideal
from virtual.machines import machine, machines
from virtual.run import Run, by_rank
from virtual.training import accuracy
