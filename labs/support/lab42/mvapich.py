"""What MVAPICH2 and its kin say and do, as cases to check answers against; none of them is needed here.

`TEXTS`, `THREAD_LEVELS`, `LOCAL_RANKS`: (what is given, what comes of it), from sources named at each.
`MAPS`, `VARIABLES` likewise; `read` takes a job's command apart as its launcher does. Lab 42.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from labkit.errors import LabError

_MV2 = "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02 22:00:00 EST 2022\n"

# MPI_Get_library_version's text, what `mpiname -a` prints, (family, version). MVAPICH2 2.3.7: its
# src/mpi/misc/library_version.c, and run here; the name MVAPICH2-GDR in mpiname: DeepSpeed's test in
# deepspeed/launcher/multinode_runner.py; MVAPICH 3.0rc, 4.0: their library_version.c and initinfo.c; MPICH
# 5.0.2 and Open MPI 5.0.11: run. The paths and names in the rest of the texts are made up, to trap guesses.
TEXTS = (
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
_MPI = (f"{_ROW}/my lab/lib/libmpi.so.12.1.1\n", f"{_ROW}/opt/mv4/libmpi.so.0\n")
_OTHERS = ("/opt/mpich/libucp.so.0", "/x/MPI.mpich.so", "/x/libmpicxx.so.12", "/dev/shm/mpi_1", "[heap]", "")
_OTHER = "".join(f"{_ROW}{path}\n" for path in _OTHERS)

# A text like that of /proc/self/maps (man 5 proc), and the MPI libraries in it. Both are made up.
MAPS = (
    (_OTHER, []),
    (_MPI[0] + _OTHER + _MPI[0], ["/my lab/lib/libmpi.so.12.1.1"]),
    (_MPI[1] + _OTHER + _MPI[0], ["/my lab/lib/libmpi.so.12.1.1", "/opt/mv4/libmpi.so.0"]),
)

_HYBRID, _TWO = {"MV2_CPU_BINDING_POLICY": "hybrid"}, {"MV2_THREADS_PER_PROCESS": "2"}

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
UNBOUND = {"MV2_ENABLE_AFFINITY": "0"}
SINGLE = {"HOROVOD_MPI_THREADS_DISABLE": "1"}  # Horovod then asks for MPI_THREAD_SINGLE
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

_WITH_VALUE = ("np", "ppn", "hostfile", "launcher", "config", "sg")
_ALONE = ("export", "export-all", "debug", "show", "v", "legacy", "fastssh")
_SRUN = ("mpi", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "gpus-per-task")
_SRUN += ("gpus", "gpu-bind", "cpu-bind", "gres", "export")


def mpiname() -> str:
    """What MVAPICH2's own tool `mpiname -a` prints; "" where there is none."""
    tool = shutil.which("mpiname")
    if tool is None:
        return ""
    return subprocess.run([tool, "-a"], capture_output=True, text=True, timeout=10, check=False).stdout


def look_inside() -> tuple[str, str, str]:
    """On a rank: the texts of MPI_Get_library_version and /proc/self/maps, and the level as `thread_level`.

    mpi4py begins, asking for MPI_THREAD_MULTIPLE as Horovod would, and calls nothing while Horovod's thread
    runs: imported after it, on a lower level, it can break a rank.
    """
    from mpi4py import MPI

    text = MPI.Get_library_version().strip("\0\n ")
    import horovod.torch as hvd

    hvd.init()
    level = "MULTIPLE" if hvd.mpi_threads_supported() else "less"
    maps = Path("/proc/self/maps").read_text()
    hvd.shutdown()  # it leaves MPI to mpi4py
    return text, maps, level


def thread_level() -> str:
    """On a rank: "MULTIPLE" if that is what Horovod was given, by hvd.mpi_threads_supported(); else "less".

    Nothing but Horovod may use MPI meanwhile: on less, another thread's calls can break it. A rank ends its
    MPI when it is left, which MVAPICH2 does not survive at the level that it grants a bound rank.
    """
    import horovod.torch as hvd

    hvd.init()
    if not hvd.mpi_threads_supported():
        return "less"
    hvd.shutdown()  # so that this process may start Horovod again
    return "MULTIPLE"


def options(launcher: str, nodes: int, gpus: int) -> dict[str, str]:
    """The options, as `read` gives them, of a job on every GPU of so many nodes."""
    if launcher == "mpirun_rsh":
        return {"export-all": "", "np": str(nodes * gpus), "hostfile": "hosts"}
    each = {"nodes": str(nodes), "ntasks-per-node": str(gpus), "gpus-per-node": str(gpus)}
    return {"mpi": "pmi2", "gpu-bind": "none", **each}


def read(words: list[str]) -> dict:
    """Take a line that starts a job apart as its launcher does: {"options": {name: value}, "variables":
    {name: value}, "program": [words]}. words: `mpirun_rsh …`, or `env VAR=value … srun …`, as a list of text.

    Raises LabError where the launcher would stop.
    """
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        raise LabError('The line must be a list of words, all of them text: ["mpirun_rsh", "-np", "4", …].')
    if words[0] == "mpirun_rsh":
        return _mpirun_rsh(words[1:])
    if words[0] in ("env", "srun"):
        return _srun(words)
    raise LabError(f"The line must begin with mpirun_rsh, or with env or srun, not with {words[0]!r}.")


def _mpirun_rsh(words: list[str]) -> dict:
    """MVAPICH2 2.3.7, src/pm/mpirun: commandLine in mpirun_params.c, and the loop over aout_index in
    mpirun_rsh.c: words with a `=` are variables, up to the first without. Its user guide, 5.2."""
    given, rest = _options(words, _ALONE, _WITH_VALUE, "mpirun_rsh")
    ranks = given.get("np", "")
    if not ranks.isdigit() or int(ranks) < 1:
        raise LabError("mpirun_rsh needs the number of ranks, -np N, before hosts, variables and program.")
    if not {"hostfile", "ppn", "config"} & set(given):
        hosts, rest = rest[: int(ranks)], rest[int(ranks) :]
        raise LabError(f"Without -hostfile, mpirun_rsh takes the next {ranks} words for hosts: {hosts}.")
    variables, program = _variables(rest)
    if not program:
        raise LabError("mpirun_rsh finds no program behind the variables.")
    return {"options": given, "variables": variables, "program": program}


def _srun(words: list[str]) -> dict:
    variables, rest = _variables(words[1:]) if words[0] == "env" else ({}, words)
    if rest[:1] != ["srun"]:
        raise LabError(f"Behind env and its variables stands {rest[:1]}, not srun.")
    given, program = _options(rest[1:], (), _SRUN, "srun")
    if not program:
        raise LabError("srun finds no program behind its options.")
    return {"options": given, "variables": variables, "program": program}


def _options(words: list[str], alone: tuple, with_value: tuple, launcher: str) -> tuple[dict, list[str]]:
    """({option: value}, the words from the first that is no option on)."""
    given, rest = {}, list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        if name in alone:
            given[name] = ""
        elif name in with_value and (equals or rest):
            given[name] = value if equals else rest.pop(0)
        else:
            raise LabError(f"{launcher}: -{name} is no option that is of use here, or its value is missing.")
    return given, rest


def _variables(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """({VAR: value}, the words from the first without a `=` on)."""
    found, rest = {}, list(words)
    while rest and "=" in rest[0]:
        name, found[name] = rest.pop(0).split("=", 1)
    return found, rest
