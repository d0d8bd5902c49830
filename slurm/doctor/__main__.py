"""`make doctor SITE=x`: python -m slurm.doctor NAME [--nodes N] [--patience SECONDS]."""

from __future__ import annotations

import argparse
import sys

from labkit.errors import LabError

from slurm.doctor.examination import examine


def main(arguments: list[str] | None = None) -> int:
    """0: nothing is wrong; 1: something is, or the site is unknown; 130: Ctrl-C."""
    parser = argparse.ArgumentParser(prog="slurm.doctor", description="Check a cluster by its site file.")
    parser.add_argument("site", help="its file in slurm/sites/, without .sh; on the cluster's login node")
    parser.add_argument("--nodes", type=int, help="nodes of the trial job (default 2)")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds it may wait in the queue (120)"
    )
    options = parser.parse_args(arguments)
    try:
        return examine(options.site, options.nodes, options.patience)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
