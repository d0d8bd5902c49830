"""What a learner did, kept for them alone; and, once they say so, for their instructor's class board.

For learners, in a notebook or (`make share`, `make unshare`) in a terminal:

    share       let the class board show where you are; share(named=False): without your name
    unshare     take that back: what was shared is deleted
    status      what is shared, in a sentence

For the kit's other parts:

    note        one more line: a lab begun, a check passed or failed, a hint read
    FILE        the name of a learner's shared file in their own folder
    PSEUDONYM   what a pseudonym looks like
"""

from labkit.journal.events import note
from labkit.journal.names import PSEUDONYM
from labkit.journal.sharing import FILE, share, status, unshare

__all__ = ["FILE", "PSEUDONYM", "note", "share", "status", "unshare"]
