"""Lab 36: who moves a message that was begun? On ranks whose messages move in calls alone, and on real ones.

| of | name | what it is |
|---|---|---|
| virtual ranks | `CallsOnly`, `Sum` | a communicator whose sums go on in calls of MPI alone; such a sum |
| | `step` | a step whose sum is begun first, computed beside, and waited for |
| | `ROUND_MS`, `timed` | what a round takes there; a step's milliseconds |
| checks | `expect_carried` | what `carry` does with three sums |
| | `Looks`, `looks` | what a thread of the learner's does on a rank |
| real ranks | `measure`, `linear_net`, `balanced` | steps timed in all ways; their net, and their images |
| | `arithmetic_step` | a step without messages |
| | `Looking` | a thread that calls MPI while a block runs |
| | `show`, `over_slow_link` | what was timed, plotted and recorded; over a slow link |
"""

from support.lab36.calls import ROUND_MS, CallsOnly, Sum, step, timed
from support.lab36.checks import Looks, expect_carried, looks
from support.lab36.ranks import Looking, arithmetic_step, balanced, linear_net, measure
from support.lab36.show import over_slow_link, show

__all__ = [
    "ROUND_MS",
    "CallsOnly",
    "Looking",
    "Looks",
    "Sum",
    "arithmetic_step",
    "balanced",
    "expect_carried",
    "linear_net",
    "looks",
    "measure",
    "over_slow_link",
    "show",
    "step",
    "timed",
]
