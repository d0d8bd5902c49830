"""The tour: every solved lab is run in order, and report/index.html shows what came of it.

main    `python -m authoring tour [--labs 10,20] [--small] [--out report]`
"""

from authoring.tour.conduct import main

__all__ = ["main"]
