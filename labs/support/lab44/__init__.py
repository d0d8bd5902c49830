"""What Horovod fuses, asks and waits for: tensors, timelines read back, and real ranks. Behind lab 44.

What is said of Horovod is of 0.28.1: its source (controller.cc, response_cache.cc, timeline.cc), and what it
did here.
"""

from support.lab44.cases import made_up
from support.lab44.checks import expect_asked, expect_fused, expect_reading, expect_step_time, travelled
from support.lab44.ranks import Way, measure, timelines, ways
from support.lab44.show import (
    keep,
    keep_activities,
    knobs,
    show,
    show_job,
    show_lines,
    show_predicted,
    show_travelled,
)
from support.lab44.timeline import PHASES, Line, Tensor, asked_in, lines, sent, spent, story, tensors

__all__ = [
    "PHASES",
    "Line",
    "Tensor",
    "Way",
    "asked_in",
    "expect_asked",
    "expect_fused",
    "expect_reading",
    "expect_step_time",
    "keep",
    "keep_activities",
    "knobs",
    "lines",
    "made_up",
    "measure",
    "sent",
    "show",
    "show_job",
    "show_lines",
    "show_predicted",
    "show_travelled",
    "spent",
    "story",
    "tensors",
    "timelines",
    "travelled",
    "ways",
]
