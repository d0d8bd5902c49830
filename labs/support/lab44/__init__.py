"""Lab 44: Horovod's timeline, what it fuses, asks and waits for.

What is said of Horovod is of 0.28.1: its source (controller.cc, response_cache.cc, timeline.cc), and what it
did here.

| of | name | what it is |
|---|---|---|
| tensors and lines | `Tensor`, `tensors` | a gradient; several, from "a:40 b:8:float64" |
| | `Line`, `lines` | a line of a timeline; all lines of a timeline's events |
| | `PHASES` | what a line begins: its name in the timeline, and here |
| | `covered` | how much lies in at least one of some spans |
| | `limit` | the bytes that may travel together, by threshold and ranks on a node |
| made up to be checked | `MADE_UP`, `made_up` | timelines with right readings; the lines of one |
| | `one_rank_alone` | lines of a negotiation of a single rank |
| | `FUSED`, `STEPS`, `ASKED` | cases of fusion, a step's time, the cache |
| | `patient` | tensors that stop a loop without end |
| | `names` | messages of tensors as text |
| real ranks | `timelines`, `ways` | what Horovod writes in several ways of a few steps |
| | `SEVEN`, `CACHED` | the tensors of those ways; by way the places in the cache and the steps |
| | `spent`, `travelled`, `asked_about` | time by phase, messages, what rank 0 asked about |
| | `measure`, `Measured`, `knobs` | steps under several settings, timed |
| shown and kept | `show_lines`, `show_travelled`, `show_predicted`, `show`, `show_job` | |
| | `keep`, `keep_activities` | records |
"""

from support.lab44.cases import ASKED, FUSED, MADE_UP, STEPS, made_up, one_rank_alone
from support.lab44.checks import asked_about, names, patient, travelled
from support.lab44.ranks import CACHED, SEVEN, Measured, measure, timelines, ways
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
from support.lab44.timeline import PHASES, Line, Tensor, covered, limit, lines, spent, tensors

__all__ = [
    "ASKED",
    "CACHED",
    "FUSED",
    "MADE_UP",
    "PHASES",
    "SEVEN",
    "STEPS",
    "Line",
    "Measured",
    "Tensor",
    "asked_about",
    "covered",
    "keep",
    "keep_activities",
    "knobs",
    "limit",
    "lines",
    "made_up",
    "measure",
    "names",
    "one_rank_alone",
    "patient",
    "show",
    "show_job",
    "show_lines",
    "show_predicted",
    "show_travelled",
    "spent",
    "tensors",
    "timelines",
    "travelled",
    "ways",
]
