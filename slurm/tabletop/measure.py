"""Bandwidth asked against measured, between the first two nodes: TCP each way, MPI both ways at once."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from labkit.errors import LabError

from slurm.tabletop import config
from slurm.tabletop.settings import spell_rate
from slurm.tabletop.table import Tabletop

LINK = str(config.INSIDE / "link.py")
SITE = str(config.ROOT / "slurm" / "sites" / "tabletop.sh")
RATES = (50e6, 100e6, 200e6, 500e6, 1e9, 2e9)
# MPI's settings, as for a lab.
WITH_SITE = ["bash", "-c", f'source {shlex.quote(SITE)} && exec "$@"', "bash"]


def tcp(table: Tabletop, rate: float, source: int, target: int, seconds: float = 1.5) -> float:
    """Goodput [mbit/s] of one TCP connection from node `source` to node `target`. Raises LabError."""
    total = int(rate / 8 * seconds)
    port = 40000 + source
    env = os.environ | table.env
    command = [str(table.state / "bin" / "tabletop-node"), str(target), sys.executable, LINK]
    with subprocess.Popen(
        [*command, "take", str(port), str(total)], stdout=subprocess.PIPE, text=True, env=env
    ) as taker:
        try:
            taker.stdout.readline()
            give = ["give", config.address(target), str(port), str(total)]
            sent = table.run(["tabletop-node", str(source), sys.executable, LINK, *give], timeout=120)
            if sent.returncode:
                raise LabError(f"node{source} could not send to node{target}: {sent.stderr.strip()}")
            return float(taker.stdout.readline())
        finally:
            taker.kill()


def mpi(table: Tabletop, rate: float, seconds: float = 1.0) -> float:
    """Mbit/s in each direction of an MPI Sendrecv between node1 and node2. Raises LabError."""
    launch = ["srun", "--mpi=pmi2", "-N2", "-n2", "-w", "node1,node2", "-t", "2", *WITH_SITE]
    done = table.run([*launch, sys.executable, LINK, "exchange", str(int(rate / 8 * seconds))])
    if done.returncode:
        raise LabError(f"The exchange by MPI failed: {done.stderr.strip()}")
    return float(done.stdout)


def all_rates(table: Tabletop, rates=RATES, with_mpi: bool = True):
    """Hold node1 and node2 to each rate in turn, then heal them; yields (rate, there, back, MPI) [mbit/s]."""
    if table.settings.nodes < 2:
        raise LabError("Bandwidth is measured between two nodes, and this cluster has one.")
    try:
        for rate in rates:
            for node in (1, 2):
                table.slow(node, spell_rate(rate))
            there = tcp(table, rate, 1, 2)
            back = tcp(table, rate, 2, 1)
            yield rate, there, back, mpi(table, rate) if with_mpi else None
    finally:
        for node in (1, 2):
            table.heal(node)


def report(table: Tabletop) -> None:
    """Print the table that `python -m slurm.tabletop measure` shows."""
    print(f"{'asked':>8} {'TCP 1->2':>10} {'TCP 2->1':>10} {'MPI Sendrecv':>13}   [mbit/s]; least/asked")
    for rate, *measured in all_rates(table):
        share = min(measured) / rate * 1e6
        there, back, by_mpi = measured
        row = f"{spell_rate(rate):>8} {there:>10.1f} {back:>10.1f} {by_mpi:>13.1f}   {share:.3f}"
        print(row, flush=True)
