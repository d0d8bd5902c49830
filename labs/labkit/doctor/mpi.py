"""Which MPI is it, and would it take GPU memory? Pure functions on what the probes found.

The name of the library file does not tell: MVAPICH2, MPICH and Intel MPI are all libmpi.so.12. The text of
MPI_Get_library_version does, if the families are tried from the most to the least special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# (family, pattern in the text). Order matters: MVAPICH2 contains MVAPICH, Cray's text contains MPICH.
FAMILIES = (
    ("MVAPICH2-GDR", r"^\s*MVAPICH2-GDR\b[^\d\n]*([\d.]+\w*)"),
    ("MVAPICH2", r"^\s*MVAPICH2 Version\s*:\s*(\S+)|^\s*MVAPICH2 ([\d.]+\S*)"),
    ("MVAPICH-Plus", r"^\s*MVAPICH-Plus\b[^\d\n]*([\d.]+\S*)"),
    ("MVAPICH", r"^\s*MVAPICH (?:Version\s*:\s*)?(\S+)"),
    ("Cray MPICH", r"CRAY MPICH version (\S+)"),
    ("MPICH", r"^\s*MPICH Version\s*:\s*(\S+)"),
    ("Open MPI", r"^\s*Open MPI v([^\s,]+)"),
    ("Intel MPI", r"Intel\(R\) MPI Library ([\d.]+)"),
)

# family: (variables that switch GPU memory on, in the order they are read; what holds when none is set)
SWITCHES = {
    "MVAPICH2": (("MV2_USE_CUDA",), False),
    "MVAPICH2-GDR": (("MV2_USE_CUDA",), False),
    "MVAPICH": (("MVP_ENABLE_GPU", "MPIR_CVAR_ENABLE_GPU", "MPICH_ENABLE_GPU"), True),
    "MVAPICH-Plus": (("MVP_ENABLE_GPU", "MPIR_CVAR_ENABLE_GPU", "MPICH_ENABLE_GPU"), True),
    "MPICH": (("MPIR_CVAR_ENABLE_GPU", "MPICH_ENABLE_GPU"), True),
    "Cray MPICH": (("MPICH_GPU_SUPPORT_ENABLED",), False),
    "Open MPI": (("OMPI_MCA_opal_cuda_support", "OMPI_MCA_mpi_cuda_support"), True),
    "Intel MPI": (("I_MPI_OFFLOAD",), False),
}


def identify(text: str, mpiname: str = "") -> tuple[str | None, str | None]:
    """(family, version) from MPI_Get_library_version's text and, for MVAPICH2, what `mpiname -a` prints."""
    for family, pattern in FAMILIES:
        found = re.search(pattern, text, re.MULTILINE)
        if not found:
            continue
        if family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname:
            family = "MVAPICH2-GDR"
        return family, next(group for group in found.groups() if group)
    return None, None


def banner(text: str) -> str:
    """The first line of the text, white space made single."""
    return " ".join(text.strip().splitlines()[0].split()) if text.strip() else ""


def switch(family: str | None, environment: Mapping[str, str]) -> tuple[bool, str] | None:
    """(on?, "MV2_USE_CUDA is not set: off") for the run-time switch of this family; None if it has none."""
    if family not in SWITCHES:
        return None
    names, default = SWITCHES[family]
    for name in names:
        value = environment.get(name)
        if value is not None:
            on = value.strip().lower() not in ("", "0", "no", "off", "false", "n")
            return on, f"{name}={value}: {'on' if on else 'off'}"
    return default, f"{names[0]} is not set: {'on' if default else 'off'}"


def advice(report: dict, environment: Mapping[str, str]) -> list[str]:
    """Sentences on what will go wrong with this MPI, most important first."""
    mpi, said = report["mpi"], []
    files = mpi["files"] or []
    if len(files) > 1:
        said.append(
            f"Two MPI libraries meet in one process: {' and '.join(files)}. Horovod and mpi4py must "
            "use the same one: put one MPI's lib folder first in LD_LIBRARY_PATH, or build again with "
            "`make setup` and MPI_HOME."
        )
    if mpi["threads"] not in (None, "MPI_THREAD_MULTIPLE"):
        cure = ""
        if (mpi["family"] or "").startswith("MVAPICH2"):
            cure = " MV2_ENABLE_AFFINITY=0 cures it; then bind the ranks with srun or numactl."
        said.append(f"MPI allows {mpi['threads']} only, but Horovod wants MPI_THREAD_MULTIPLE.{cure}")
    state = switch(mpi["family"], environment)
    if mpi["cuda_built"] and report["gpu"]["devices"] and state and not state[0]:
        name = SWITCHES[mpi["family"]][0][0]
        said.append(f"This MPI was built for GPU memory, but that is switched off: set {name}=1.")
    return said
