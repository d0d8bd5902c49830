"""A real Slurm cluster on one Linux machine: nodes with their own address, links held to a chosen
bandwidth.

    from slurm import tabletop
    with tabletop.up("table", nodes=2, bandwidth="200mbit") as table:
        table.run(["srun", "-N2", "hostname"])

From the command line: `python -m slurm.tabletop up|status|down|fail|heal|slow`, or `make tabletop`.
"""

from slurm.tabletop.settings import CPUS, MOST_NODES
from slurm.tabletop.table import Tabletop, also_name, find, running, up

__all__ = ["CPUS", "MOST_NODES", "Tabletop", "also_name", "find", "running", "up"]
