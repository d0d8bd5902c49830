"""The tour: every solved lab is run in order, and report/index.html shows what came of it.

main            `python -m authoring tour [--labs 10,20] [--small] [--out report]`

For other commands that run solved labs:

run             one lab in a process of its own, and how it went
report          index.html of what ran, and its words for times
fresh_folder    the empty folder of a report, or of a guide
"""

from authoring.tour import report, run
from authoring.tour.command import MARK, fresh_folder, main

__all__ = ["MARK", "fresh_folder", "main", "report", "run"]
