"""The instructor's guide: timetables, and a page for each lab, made from what the kit already
knows; slides.

main            `python -m authoring guide [--track half_day] [--learners 40] [--out guide] …`

For the tests:

expected        the kit's own results, by machine
lesson          what the guide tells of one lab
mistakes        what learners do wrong, and what the check says
timetable       timetables.yaml, held against the labs
"""

from authoring.guide import expected, lesson, mistakes, timetable
from authoring.guide.command import main

__all__ = ["expected", "lesson", "main", "mistakes", "timetable"]
