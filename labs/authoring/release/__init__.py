"""A release: the learners' archive without solutions, tests and answers; the instructors' with
everything.

main            `python -m authoring release [--out release] [--keep-answers]`

For the tests:

archive         a tar file that has the same bytes each time
contents        what a learner gets of a checkout's files
leaks           solution text that a learner would get after all
"""

from authoring.release import archive, contents, leaks
from authoring.release.command import main

__all__ = ["archive", "contents", "leaks", "main"]
