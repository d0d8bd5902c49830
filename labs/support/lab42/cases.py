"""What MVAPICH2 and its kin say and do, as cases to check answers against; none of them is needed here.

Each table holds (what is given, what comes of it); the sources are named at each.
"""

from __future__ import annotations

from labkit import builds

from support.lab42.commands import Job

_MV2 = "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02 22:00:00 EST 2022\n"

# MPI_Get_library_version's text, what `mpiname -a` prints, (family, version). MVAPICH2 2.3.7: its
# src/mpi/misc/library_version.c, and run here; the name MVAPICH2-GDR in mpiname: DeepSpeed's test in
# deepspeed/launcher/multinode_runner.py; MVAPICH 3.0rc, 4.0: their library_version.c and initinfo.c; MPICH
# 5.0.2 and Open MPI 5.0.11: run. The paths and names in the rest of the texts are made up, to trap guesses.
LIBRARIES = (
    (_MV2, "MVAPICH2 2.3.7 Wed March 02 22:00:00 EST 2022 ch3:mrail\n--prefix=/GDR", ("MVAPICH2", "2.3.7")),
    (_MV2, "MVAPICH2-GDR 2.3.7", ("MVAPICH2-GDR", "2.3.7")),
    ("MVAPICH Version        :\t3.0rc\nMVAPICH Device         :\tch4:ucx\n", "", ("MVAPICH", "3.0rc")),
    ("MVAPICH Version:        4.0\nMVAPICH Release date:   06 Mar 2025\n", "", ("MVAPICH", "4.0")),
    ("MPICH Version:      5.0.2\nMPICH configure:    --prefix=/opt/MVAPICH2\n", "", ("MPICH", "5.0.2")),
    ("MPICH Version:      5.0.2\n", "MVAPICH2-GDR 2.3.7", ("MPICH", "5.0.2")),  # PATH and process differ
    ("Open MPI v5.0.11, package: MPICH Version: 1 is only its name", "", ("Open MPI", "5.0.11")),
    ("Some MPI v2.0, with the ABI of MPICH Version: 4.1", "", (None, None)),
)

_HYBRID = {"MV2_CPU_BINDING_POLICY": "hybrid"}
_TWO = {"MV2_THREADS_PER_PROCESS": "2"}

# variables, and what MVAPICH2 2.3.7's InfiniBand device (ch3:mrail) makes of a request for
# MPI_THREAD_MULTIPLE where the node has cores enough: src/mpid/ch3/src/mpid_init.c and
# src/mpid/ch3/channels/common/src/affinity/hwloc_bind.c. Run here too were: no variable, affinity 0, scatter,
# socket, hybrid without a number and with 1 or 2 threads.
THREAD_LEVELS = (
    ({}, "SINGLE"),
    ({"MV2_ENABLE_AFFINITY": "1"}, "SINGLE"),
    ({"MV2_ENABLE_AFFINITY": "0"}, "MULTIPLE"),
    ({"MV2_ENABLE_AFFINITY": "0", "MV2_CPU_BINDING_LEVEL": "core"}, "MULTIPLE"),
    (_HYBRID, "MULTIPLE"),
    (_HYBRID | _TWO, "MULTIPLE"),
    ({"MV2_CPU_BINDING_POLICY": "bunch"} | _TWO, "SINGLE"),
    ({"MV2_CPU_BINDING_POLICY": "scatter"}, "SINGLE"),
    (_TWO, "SINGLE"),
    ({"MV2_CPU_BINDING_LEVEL": "socket"}, "MULTIPLE"),
    ({"MV2_CPU_BINDING_LEVEL": "numanode"}, "MULTIPLE"),
    ({"MV2_CPU_BINDING_LEVEL": "core"}, "SINGLE"),
    (_HYBRID | {"MV2_CPU_BINDING_LEVEL": "core"}, "SINGLE"),
)

# What Horovod needs, by flavour.
VARIABLES = {
    flavour: builds.switches(flavour, {}) for flavour in ("mvapich-plus", "mvapich2", "mvapich2-gdr")
}

# Jobs whose lines are checked, by launcher. Without Slurm mpiexec starts ranks on one machine.
JOBS = (
    ("srun", Job(2, 4, 14, 4)),
    ("srun", Job(1, 2, 3, 0)),
    ("srun", Job(3, 1, 8, 1)),
    ("mpirun_rsh", Job(2, 4, 14, 4)),
    ("mpirun_rsh", Job(3, 2, 1, 0)),
    ("mpiexec", Job(1, 4, 2, 0)),
    ("mpiexec", Job(1, 1, 8, 0)),
)
