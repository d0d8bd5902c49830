"""What Horovod fuses, asks and waits for: tensors, timelines read back, and real ranks. Behind lab 44.

What is said of Horovod is of 0.28.1: its source (controller.cc, response_cache.cc, timeline.cc), and what it
did here.
"""

from labkit._fusion_cases import expect_asked, expect_fused, expect_reading, expect_step_time, travelled
from labkit._fusion_lines import PHASES, Line, Tensor, asked_in, lines, sent, spent, story, tensors
from labkit._fusion_ranks import Way, measure, timelines, ways
from labkit._fusion_show import (
    keep,
    keep_activities,
    knobs,
    show,
    show_job,
    show_lines,
    show_predicted,
    show_travelled,
)
from labkit._fusion_stories import made_up

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
