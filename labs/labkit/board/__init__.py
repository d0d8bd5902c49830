"""The class board: who of those who agreed is on which lab and exercise, and at what half the class is stuck.

`make board` and `python -m labkit.board` for people; for the kit's other parts and a hub:

    look        read the shared files in a class folder: a Classroom
    as_text     a Classroom for a terminal
    as_page     a Classroom as one HTML page that loads nothing but itself
    hub_service that page, read afresh at each request, as a JupyterHub's service
    main        the command line

A learner agrees by `make share` (labkit.journal); without that there is no file that is read here.
"""

from labkit.board.command import main
from labkit.board.page import as_page
from labkit.board.server import hub_service
from labkit.board.terminal import as_text
from labkit.board.view import look

__all__ = ["as_page", "as_text", "hub_service", "look", "main"]
