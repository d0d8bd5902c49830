"""The command line of the tabletop cluster."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from labkit.errors import LabError

from slurm.tabletop import measure, status, table


def parser() -> argparse.ArgumentParser:
    """All verbs and their options."""
    top = argparse.ArgumentParser(prog="python -m slurm.tabletop", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)

    def verb(name: str, text: str, **defaults: str) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, help=text, description=text)
        one.add_argument("--name", default="table", help="which cluster (default: table)")
        for option, value in defaults.items():
            one.add_argument(
                f"--{option}", default=value or None, help=f"default: {value}" if value else None
            )
        return one

    verb("up", "start a cluster", nodes="2", bandwidth="200mbit", latency="", gpus="2")
    verb("status", "show its nodes and jobs")
    verb("down", "end it, and everything in it")
    verb("fail", "lose a node").add_argument("--node", required=True)
    verb("heal", "mend a node").add_argument("--node", required=True)
    slow = verb("slow", "hold a node's link to another rate")
    slow.add_argument("--node", required=True)
    slow.add_argument("--bandwidth", required=True)
    verb("measure", "bandwidth asked against measured, from 50mbit to 2gbit; about a minute")
    return top


def main(arguments: list[str]) -> int:
    """Run one verb. Returns the exit status; a LabError is one sentence on stderr and status 1."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a start that is ended leaves nothing half done
    try:
        return _VERBS[options.verb](options)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _there(options) -> table.Tabletop:
    found = table.find(options.name)
    if not found:
        raise LabError(
            f"No tabletop cluster '{options.name}' is running. "
            f"To start it: make tabletop{table.also_name(options.name)}"
        )
    return found


def _node(options) -> str:
    return "node" + options.node.removeprefix("node")


def _up(options) -> int:
    begin = time.monotonic()
    running = table.find(options.name)
    made = table.up(options.name, options.nodes, options.bandwidth, options.latency, options.gpus)
    took = "is running already" if running else f"is up after {time.monotonic() - begin:.1f} s"
    print(
        f"The tabletop cluster '{made.name}' {took}: {made.settings}.\n"
        f"In each shell in which you want to use it:\n  source {made.state}/env.sh"
    )
    return 0


def _down(options) -> int:
    begin = time.monotonic()
    found = table.find(options.name)
    if found and found.down():
        print(f"The tabletop cluster '{options.name}' is gone after {time.monotonic() - begin:.1f} s.")
    else:
        print(f"No tabletop cluster '{options.name}' is running.")
    return 0


def _status(options) -> int:
    print(status.screen(_there(options)))
    return 0


def _fail(options) -> int:
    made = _there(options)
    made.fail(options.node)
    print(f"{_node(options)} is unplugged. Slurm notices within about 15 s: make tabletop-status")
    return 0


def _heal(options) -> int:
    made = _there(options)
    made.heal(options.node)
    print(f"{_node(options)} is whole again.")
    return 0


def _slow(options) -> int:
    made = _there(options)
    made.slow(options.node, options.bandwidth)
    print(f"{_node(options)}'s link is held to {options.bandwidth}, both ways.")
    return 0


def _measure(options) -> int:
    measure.report(_there(options))
    return 0


_VERBS = {
    "up": _up,
    "status": _status,
    "down": _down,
    "fail": _fail,
    "heal": _heal,
    "slow": _slow,
    "measure": _measure,
}
