"""`python -m authoring VERB …`: the generator, a new lab, solve, the tour, the guide, a release."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from labkit import labfile, paths
from labkit.errors import exit_status

from authoring import book, figures, generate, guide, learner, rehearsal, release, skeleton, tour


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. A LabError becomes its sentence and status 1; Ctrl-C is status 130."""
    verb_and_options = list(sys.argv[1:] if arguments is None else arguments)
    parts = {
        "tour": tour,
        "book": book,
        "guide": guide,
        "rehearse": rehearsal,
        "release": release,
    }
    for verb, part in parts.items():
        if verb_and_options[:1] == [verb]:
            return part.main(verb_and_options[1:])
    options = _parser().parse_args(verb_and_options)
    return exit_status(lambda: options.call(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="authoring", description="How labs are made.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    labs = verbs.add_parser(
        "labs", help="write the learner's files, figures and the README's table from solutions/"
    )
    labs.add_argument("lab", nargs="*", help="only these labs (number or stem)")
    labs.add_argument(
        "--check", action="store_true", help="write nothing; name what is out of date, status 1"
    )
    labs.set_defaults(call=_labs)

    new = verbs.add_parser("new", help="begin a new lab")
    new.add_argument("lab", help="its stem, such as 81_my_topic")
    new.set_defaults(call=_new)

    solve = verbs.add_parser("solve", help="put the answer of one exercise into your notebook")
    solve.add_argument("lab", help="number or stem")
    solve.add_argument("exercise", help="such as 40.1")
    solve.set_defaults(call=_solve)

    verbs.add_parser("tour", help="run every solved lab and write a report")
    verbs.add_parser("book", help="write the labs of a tour as a web book")
    verbs.add_parser("guide", help="write the instructor's guide, and slides")
    verbs.add_parser("rehearse", help="the jobs of the GPU track, before a class does them")
    verbs.add_parser("release", help="write the learners' and the instructors' archive")
    return parser


def _labs(options: argparse.Namespace) -> int:
    only = [labfile.find(lab) for lab in options.lab]
    numbers = [stem[:2] for stem in only or labfile.stems()]
    stale = figures.write(paths.root(), numbers, check=options.check)
    stale += generate.write_all(check=options.check, only=only)
    if not options.check:
        print(
            f"{len(labfile.stems())} labs; written:"
            f" {', '.join(stale) or 'nothing, all was up to date'}"
        )
        return 0
    if stale:
        print(
            f"Out of date or without a source: {', '.join(stale)}. `make labs` writes them.",
            file=sys.stderr,
        )
    return 1 if stale else 0


def _new(options: argparse.Namespace) -> int:
    skeleton.new(options.lab)
    return 0


def _solve(options: argparse.Namespace) -> int:
    learner.solve(options.lab, options.exercise)
    return 0


if __name__ == "__main__":
    sys.exit(main())
