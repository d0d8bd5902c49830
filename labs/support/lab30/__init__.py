"""Lab 30: what its checks see of a net trained on several ranks, and the parts of a step, timed.

| of | name | what it is |
|---|---|---|
| checks | `Started`, `started` | a rank's weights before and after they were made equal |
| | `expect_average` | gradients against their mean over the ranks |
| | `Seen`, `watched` | a training on a rank, and what was seen of it on the way (`Seen`) |
| measuring | `step_times` | the two parts of a step, of a small net and of one that computes much |
"""

from support.lab30.checks import Seen, Started, expect_average, started, watched
from support.lab30.times import step_times

__all__ = ["Seen", "Started", "expect_average", "started", "step_times", "watched"]
