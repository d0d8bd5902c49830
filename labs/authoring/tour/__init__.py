"""The tour: every solved lab is run in order, and report/index.html shows what came of it.

main            `python -m authoring tour [--labs 10,20] [--small] [--out report]`

For others:

run             run one lab solved, and how it went
fresh_folder    the empty folder of a report, of a guide or of a book
MARK            the file in a report that says what ran
RAN, FAILED, SKIPPED    how a lab went
"""

from authoring.tour.command import FAILED, MARK, RAN, SKIPPED, fresh_folder, main, run

__all__ = ["FAILED", "MARK", "RAN", "SKIPPED", "fresh_folder", "main", "run"]
