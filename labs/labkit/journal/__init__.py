"""What a learner did, kept for them alone; and, once they say so, for their instructor's class
board.

For learners, in a notebook or (`make share`, `make unshare`) in a terminal:

    share       let the class board show where you are, by your name or by a pseudonym
    unshare     take that back: what was shared is deleted
    status      what is shared, in a sentence

For the kit's other parts:

    note            one more event: a lab begun, a check passed or failed, a hint read, a guess
    progress, entry what the events add up to: of all exercises, or of one
    show            that as a table
    PSEUDONYM       what a pseudonym looks like
    file_name       the name of a user's file in the class folder
    Unanswered      raised by share, where nobody said whether the name is to be shown
"""

from labkit.journal.names import PSEUDONYM
from labkit.journal.progress import entry, note, progress, show
from labkit.journal.sharing import Unanswered, file_name, share, status, unshare
