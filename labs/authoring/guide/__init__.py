"""The instructor's guide: a page for each lab and timetables, made from what the kit already knows;
slides.

main            `python -m authoring guide [--out guide] [--learners 40] [--report report] …`

For the tests and for releases:

command         what main does: the sheets, the page, the slides
figures         the one figure to show
lesson          what a lab's own text tells
mistakes        what learners do wrong, and what the check says
page, slides    the guide, and slides of a lab
results         the kit's own results, by machine
reveal          reveal.js, out of a pinned package
timetable       timetables.yaml, held against the labs
"""

from authoring.guide import (
    command,
    figures,
    lesson,
    mistakes,
    page,
    results,
    reveal,
    slides,
    timetable,
)
from authoring.guide.command import main

__all__ = [
    "command",
    "figures",
    "lesson",
    "main",
    "mistakes",
    "page",
    "results",
    "reveal",
    "slides",
    "timetable",
]
