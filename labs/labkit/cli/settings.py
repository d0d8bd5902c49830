"""The option by which `make run` and `make submit` change a lab's parameters."""

from __future__ import annotations

import argparse


def add_set(parser: argparse.ArgumentParser) -> None:
    """--set NAME=VALUE …, once or more often."""
    parser.add_argument(
        "--set",
        nargs="*",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="other values of parameters",
    )
