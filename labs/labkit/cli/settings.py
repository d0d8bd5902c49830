"""The options that `make run` and the verbs of batch jobs share: parameters, and the builds to use."""

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


def add_builds(parser: argparse.ArgumentParser) -> None:
    """--horovod NAME and --mpi NAME: which of the builds that are here the ranks use."""
    parser.add_argument("--horovod", metavar="BUILD", help="a build of Horovod: host, nccl or mpi")
    parser.add_argument("--mpi", metavar="BUILD", help="an MPI that `make doctor` lists, such as mvapich2")
