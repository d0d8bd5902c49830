"""The tabletop cluster's command line: `python -m slurm.tabletop VERB`, behind `make tabletop` and
others."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from labkit.errors import LabError, exit_status

from slurm.tabletop import status, table

# Verb -> what it does, and its options beside --name: the default, or ... where one must be given.
VERBS = {
    "up": ("start a cluster", {"nodes": "2", "bandwidth": "200mbit", "latency": "", "gpus": "2"}),
    "status": ("show its nodes and jobs", {}),
    "down": ("end it, and everything in it", {}),
    "fail": ("lose a node", {"node": ...}),
    "heal": ("mend a node", {"node": ...}),
    "slow": ("hold a node's link to another rate", {"node": ..., "bandwidth": ...}),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. Returns the exit status; a LabError is one sentence on stderr and status 1."""
    top = argparse.ArgumentParser(prog="python -m slurm.tabletop", description=__doc__)
    parsers = top.add_subparsers(dest="verb", required=True)
    for verb, (text, options) in VERBS.items():
        parser = parsers.add_parser(verb, help=text, description=text)
        parser.add_argument("--name", default="table", help="which cluster (default: table)")
        for option, value in options.items():
            needed = value is ...
            parser.add_argument(f"--{option}", required=needed, default=None if needed else value)
    typed = top.parse_args(arguments)
    # A start that is ended leaves nothing half done.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return exit_status(lambda: print(_said(typed)))


def _said(typed: argparse.Namespace) -> str:
    """Do what the verb says; the sentence about it."""
    begin = time.monotonic()
    there = table.find(typed.name)
    if typed.verb == "up":
        cluster = table.up(typed.name, typed.nodes, typed.bandwidth, typed.latency, typed.gpus)
        took = "is running already" if there else f"is up after {time.monotonic() - begin:.1f} s"
        return (
            f"The tabletop cluster '{cluster.name}' {took}: {cluster.settings}.\n"
            f"In each shell in which you want to use it:\n  source {cluster.state}/env.sh"
        )
    if typed.verb == "down":
        if there and there.down():
            return (
                f"The tabletop cluster '{typed.name}' is gone after"
                f" {time.monotonic() - begin:.1f} s."
            )
        return f"No tabletop cluster '{typed.name}' is running."
    if there is None:
        raise LabError(
            f"No tabletop cluster '{typed.name}' is running. "
            f"To start it: make tabletop{table.also_name(typed.name)}"
        )
    if typed.verb == "status":
        return status.screen(there)
    node = "node" + typed.node.removeprefix("node")
    if typed.verb == "fail":
        there.fail(typed.node)
        return f"{node} is unplugged. Slurm notices within about 15 s: make tabletop-status"
    if typed.verb == "heal":
        there.heal(typed.node)
        return f"{node} is whole again."
    there.slow(typed.node, typed.bandwidth)
    return f"{node}'s link is held to {typed.bandwidth}, both ways."


if __name__ == "__main__":
    sys.exit(main())
