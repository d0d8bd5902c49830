"""The class board: who of those who agreed is on which lab and exercise, and at what half the class
is stuck.

`make board` and `python -m classroom` for people and for a hub; for other parts of the kit, `main`
is the command line, `make_folder` makes a class folder and `look` reads one, `as_text` and
`as_page` show what it saw. A learner agrees by `make share` (labkit.journal); without that there is
no file that is read here.
"""

from classroom.command import main, make_folder
from classroom.page import as_page
from classroom.terminal import as_text
from classroom.view import look
