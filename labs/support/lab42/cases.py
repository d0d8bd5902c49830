"""What MVAPICH2 and its kin say and do, as cases to check answers against; none of them is needed here.

Each table holds (what is given, what comes of it); the sources are named at each.
"""

from __future__ import annotations

from labkit.horovod import timeline

from support.lab42.ranks import UNBOUND

_MV2 = "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02 22:00:00 EST 2022\n"

# MPI_Get_library_version's text, what `mpiname -a` prints, (family, version). MVAPICH2 2.3.7: its
# src/mpi/misc/library_version.c, and run here; the name MVAPICH2-GDR in mpiname: DeepSpeed's test in
# deepspeed/launcher/multinode_runner.py; MVAPICH 3.0rc, 4.0: their library_version.c and initinfo.c; MPICH
# 5.0.2 and Open MPI 5.0.11: run. The paths and names in the rest of the texts are made up, to trap guesses.
LIBRARIES = (
    (_MV2, "MVAPICH2 2.3.7 Wed March 02 22:00:00 EST 2022 ch3:mrail\n", ("MVAPICH2", "2.3.7")),
    (_MV2, "MVAPICH2-GDR 2.3.7", ("MVAPICH2-GDR", "2.3.7")),
    ("MVAPICH Version        :\t3.0rc\nMVAPICH Device         :\tch4:ucx\n", "", ("MVAPICH", "3.0rc")),
    ("MVAPICH Version:        4.0\nMVAPICH Release date:   06 Mar 2025\n", "", ("MVAPICH", "4.0")),
    ("MPICH Version:      5.0.2\nMPICH configure:    --prefix=/opt/MVAPICH2\n", "", ("MPICH", "5.0.2")),
    ("MPICH Version:      5.0.2\n", "MVAPICH2-GDR 2.3.7", ("MPICH", "5.0.2")),  # PATH and process differ
    ("Open MPI v5.0.11, package: MPICH Version: 1 is only its name", "", ("Open MPI", "5.0.11")),
    ("Some MPI v2.0, with the ABI of MPICH Version: 4.1", "", (None, None)),
)

_ROW = "7f1e00000000-7f1e00001000 r-xp 00000000 fe:00 1234      "
_MPICH = f"{_ROW}/my lab/lib/libmpi.so.12.1.1\n"
_MVAPICH4 = f"{_ROW}/opt/mv4/libmpi.so.0\n"
_OTHER_FILES = (
    "/opt/mpich/libucp.so.0",
    "/x/MPI.mpich.so",
    "/x/libmpicxx.so.12",
    "/dev/shm/mpi_1",
    "[heap]",
    "",
)
_OTHERS = "".join(f"{_ROW}{path}\n" for path in _OTHER_FILES)

# A text like that of /proc/self/maps (man 5 proc), and the MPI libraries in it. Both are made up.
MAPS = (
    (_OTHERS, []),
    (_MPICH + _OTHERS + _MPICH, ["/my lab/lib/libmpi.so.12.1.1"]),
    (_MVAPICH4 + _OTHERS + _MPICH, ["/my lab/lib/libmpi.so.12.1.1", "/opt/mv4/libmpi.so.0"]),
)

_HYBRID = {"MV2_CPU_BINDING_POLICY": "hybrid"}
_TWO = {"MV2_THREADS_PER_PROCESS": "2"}

# variables, ranks on the node, its cores, what MVAPICH2 2.3.7 makes of a request for MPI_THREAD_MULTIPLE:
# src/mpid/ch3/src/mpid_init.c and src/mpid/ch3/channels/common/src/affinity/hwloc_bind.c. Run here too
# were: no variable, affinity 0, scatter, socket, hybrid without a number and with 1 or 2 threads.
THREAD_LEVELS = (
    ({}, 4, 16, "SINGLE"),
    ({"MV2_ENABLE_AFFINITY": "1"}, 16, 16, "SINGLE"),
    ({"MV2_ENABLE_AFFINITY": "0"}, 4, 16, "MULTIPLE"),
    ({"MV2_ENABLE_AFFINITY": "0", "MV2_CPU_BINDING_LEVEL": "core"}, 32, 16, "MULTIPLE"),
    ({}, 4, 2, "aborts"),
    (_HYBRID, 16, 16, "MULTIPLE"),
    (_HYBRID, 17, 16, "aborts"),
    (_HYBRID | _TWO, 4, 16, "MULTIPLE"),
    (_HYBRID | {"OMP_NUM_THREADS": "4"}, 4, 16, "MULTIPLE"),
    (_HYBRID | {"OMP_NUM_THREADS": "5"}, 4, 16, "aborts"),
    (_HYBRID | _TWO | {"OMP_NUM_THREADS": "8"}, 4, 16, "MULTIPLE"),
    ({"MV2_CPU_BINDING_POLICY": "scatter"} | _TWO, 4, 16, "SINGLE"),
    ({"OMP_NUM_THREADS": "8"}, 4, 16, "SINGLE"),
    ({"MV2_CPU_BINDING_LEVEL": "socket"}, 4, 16, "MULTIPLE"),
    ({"MV2_CPU_BINDING_LEVEL": "numanode"}, 20, 16, "aborts"),
    (_HYBRID | _TWO | {"MV2_CPU_BINDING_LEVEL": "core"}, 4, 16, "SINGLE"),
)

# A rank's variables, and its local rank: MVAPICH2's src/pm/mpirun/mpispawn.c, MPICH's hydra, Slurm's srun.
LOCAL_RANKS = (
    ({"MV2_COMM_WORLD_LOCAL_RANK": "3", "MV2_COMM_WORLD_RANK": "7", "SLURM_LOCALID": "0"}, 3),
    ({"PMI_RANK": "6", "MPI_LOCALRANKID": "2", "SLURM_LOCALID": "0"}, 2),
    ({"PMI_RANK": "4", "MPI_LOCALRANKID": "0", "SLURM_LOCALID": "1"}, 0),
    ({"PMI_RANK": "5", "SLURM_PROCID": "5", "SLURM_LOCALID": "1"}, 1),
    ({}, 0),
)

# What Horovod needs: MVAPICH2-GDR 2.3.7's user guide, 7.3, and its list of variables; MVAPICH's list of
# variables (MVP_ENABLE_GPU); the rule behind THREAD_LEVELS.
_GDR = {"MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1", **UNBOUND}
_LIB = "/opt/gdrcopy/lib64/libgdrapi.so"
VARIABLES = (  # flavour, path of GDRCopy's library, variables
    ("mvapich-plus", None, {"MVP_ENABLE_GPU": "1"}),
    ("mvapich-plus", _LIB, {"MVP_ENABLE_GPU": "1"}),
    ("mvapich2", None, UNBOUND),
    ("mvapich2", _LIB, UNBOUND),
    ("mvapich2-gdr", None, _GDR),
    ("mvapich2-gdr", _LIB, _GDR | {"MV2_GPUDIRECT_GDRCOPY_LIB": _LIB}),
)

# Calls of communication libraries for `timeline_of`, and {operation: (calls, tensors)}.
TIMELINES = (
    ([("MPI_ALLREDUCE", 3)], {"MPI_ALLREDUCE": (1, 3)}),
    ([("GLOO_ALLREDUCE", 1)] * 4, {"GLOO_ALLREDUCE": (4, 4)}),
    (
        [("MPI_BCAST", 2), ("NCCL_ALLREDUCE", 5), ("NCCL_ALLREDUCE", 1)],
        {"MPI_BCAST": (1, 2), "NCCL_ALLREDUCE": (2, 6)},
    ),
)


def timeline_of(*calls: tuple[str, int]) -> list[timeline.Activity]:
    """Activities as Horovod's CPU operations leave them: ("MPI_ALLREDUCE", 3) is one call with 3 tensors."""
    begun: list[tuple[str, str]] = []
    for name, tensors in calls:
        kind = name.partition("_")[2].replace("BCAST", "BROADCAST")
        packed = ("MEMCPY_IN_FUSION_BUFFER", name, "MEMCPY_OUT_FUSION_BUFFER")
        for activity in (f"NEGOTIATE_{kind}", kind, *packed):
            begun += [(f"layer {tensor}", activity) for tensor in range(tensors)]
    return [timeline.Activity(tensor, name, 1e-6 * place, 1e-6) for place, (tensor, name) in enumerate(begun)]
