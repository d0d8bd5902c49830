"""Lab 34: large batches, their schedules and optimizers, and what they are worth.

| of | name | what it is |
|---|---|---|
| training | `start_weights`, `fresh_state` | the net's weights, and an optimizer's state, at the start |
| | `sweep` | trainings of several ways and batches, one for each seed |
| time | `step_times` | seconds that a core computes in a step |
| | `allreduce_seconds` | virtual seconds to sum the gradients on GPUs |
| | `times_to_goal`, `speed_ups` | of an epoch and of an accuracy, on GPUs of a virtual machine |
| checks | `SCHEDULES` | trainings whose rates are known |
| | `lars_steps`, `lamb_steps` | steps of both optimizers, the right weights, and mistakes that are known |
| | `distances` | how far a step of LARS moves matrices |
| | `three_steps`, `one_process` | a step on many ranks, and what one process makes of it |
| | `expect_one_process` | both compared |
| shown | `show`, `holds` | wrong test images by batch, and how far a way holds |
| | `keep`, `keep_times` | the records |
"""

from support.lab34.cases import distances, lamb_steps, lars_steps
from support.lab34.checks import expect_one_process, one_process, three_steps
from support.lab34.schedule import SCHEDULES
from support.lab34.show import holds, keep, keep_times, show
from support.lab34.times import allreduce_seconds, speed_ups, step_times, times_to_goal
from support.lab34.training import fresh_state, start_weights, sweep

__all__ = [
    "SCHEDULES",
    "allreduce_seconds",
    "distances",
    "expect_one_process",
    "fresh_state",
    "holds",
    "keep",
    "keep_times",
    "lamb_steps",
    "lars_steps",
    "one_process",
    "show",
    "speed_ups",
    "start_weights",
    "step_times",
    "sweep",
    "three_steps",
    "times_to_goal",
]
