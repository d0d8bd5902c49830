"""`make share` and `make unshare`: let the class board show what you do, or take that back."""

from __future__ import annotations

import argparse


def add_verbs(verbs) -> None:
    """Add share and unshare to labkit's parser."""
    share = verbs.add_parser("share", help="let your instructor's class board show where you are")
    share.add_argument("--hidden", action="store_true", help="by a pseudonym, without your name")
    share.add_argument("--status", action="store_true", help="change nothing; say what is shared")
    share.set_defaults(call=_share)
    verbs.add_parser("unshare", help="take that back, and delete what was shared").set_defaults(call=_unshare)


def _share(options: argparse.Namespace) -> int:
    from labkit import journal

    if options.status:
        print(journal.status())
    else:
        journal.share(named=not options.hidden)
    return 0


def _unshare(options: argparse.Namespace) -> int:
    from labkit import journal

    journal.unshare()
    return 0
