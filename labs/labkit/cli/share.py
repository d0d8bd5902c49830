"""`make share` and `make unshare`: let the class board show what you do, or take that back."""

from __future__ import annotations

import argparse
import sys


def add_verbs(verbs) -> None:
    """Add share and unshare to labkit's parser."""
    share = verbs.add_parser("share", help="let your instructor's class board show where you are")
    name = share.add_mutually_exclusive_group()
    name.add_argument("--named", action="store_true", default=None, help="by your name")
    name.add_argument("--hidden", dest="named", action="store_false", help="by a pseudonym")
    share.add_argument("--until", default="", metavar="DAY", help="the last day, such as 2026-12-01")
    share.add_argument("--status", action="store_true", help="change nothing; say what is shared")
    share.set_defaults(call=_share)
    verbs.add_parser("unshare", help="take that back, and delete what was shared").set_defaults(call=_unshare)


def _share(options: argparse.Namespace) -> int:
    from labkit import journal

    if options.status:
        print(journal.status())
        return 0
    try:
        journal.share(options.named, options.until)
    except journal.Unanswered as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _unshare(options: argparse.Namespace) -> int:
    from labkit import journal

    journal.unshare()
    return 0
