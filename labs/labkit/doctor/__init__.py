"""What this machine and site really have, and which lab runs here: `make doctor`. Lab 00 teaches to
read it.

| name | what it is |
|---|---|
| `show` | the report as tables, in a notebook or on the terminal |
| `report` | the same as plain data: report()["mpi"]["version"] |
| `judge` | does a lab run on a machine with such a report: RUNS, REDUCED or NEEDS, and a sentence |
| `show_labs` | which labs run, to be shown by others |
| `which_mpi` | the MPI that a rank would load here, asked in a process of its own |
| `infiniband_ports` | the ports of this node, and which are up |
"""

from labkit.doctor.facts import infiniband_ports
from labkit.doctor.findings import report
from labkit.doctor.fitness import NEEDS, REDUCED, RUNS, judge
from labkit.doctor.processes import which_mpi
from labkit.doctor.view import show, show_labs
