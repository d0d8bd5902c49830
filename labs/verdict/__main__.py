"""`python -m verdict FILE [--machine=NAME] [--link=25GB/s] …`: what `make verdict` runs."""

from __future__ import annotations

import argparse
import sys

from labkit.errors import LabError

from verdict.hardware import TYPED
from verdict.judge import NONE
from verdict.report import TOOLS, of_verdicts, text_of, verdicts


def main(arguments: list[str] | None = None) -> int:
    """0 where there is a verdict, 1 where there is none, 2 for what cannot be read."""
    parser = argparse.ArgumentParser(prog="verdict", description=__doc__)
    parser.add_argument("file")
    for name in TYPED:
        parser.add_argument(f"--{name}")
    typed = vars(parser.parse_args(arguments))
    path = typed.pop("file")
    try:
        found = verdicts(text_of(path), **typed)
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    if not found:
        print(f"No verdict: there is no table of {TOOLS} in {path}.", file=sys.stderr)
        return 2
    print(of_verdicts(found))
    return int(all(verdict.word == NONE for verdict in found))


if __name__ == "__main__":
    sys.exit(main())
