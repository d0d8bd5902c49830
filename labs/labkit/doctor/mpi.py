"""Which MPI is it, and does it take GPU memory?

The name of the library file does not tell: MVAPICH2, MPICH and Intel MPI are all libmpi.so.12. The text of
MPI_Get_library_version does, if the families are tried from the most to the least special.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from labkit.builds import loaded_mpi

_SUPPORT_CUDA = 0  # MPIX_GPU_SUPPORT_CUDA

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
        match = re.search(pattern, text, re.MULTILINE)
        if not match:
            continue
        if family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname:
            family = "MVAPICH2-GDR"
        return family, next(group for group in match.groups() if group)
    return None, None


def banner(text: str) -> str:
    """The first line of the text, white space made single."""
    return " ".join(text.strip().splitlines()[0].split()) if text.strip() else ""


def switch(
    family: str | None, environment: Mapping[str, str], version: str | None = None
) -> tuple[bool, str] | None:
    """(on?, "MV2_USE_CUDA is not set: off") for the run-time switch of this family; None if it has none.

    environment: for Open MPI what `parameters` gives. From version 5 on it has no switch: what it says of
    itself is then true of this run.
    """
    if family not in SWITCHES or (family == "Open MPI" and _major(version) >= 5):
        return None
    names, default = SWITCHES[family]
    for name in names:
        value = environment.get(name)
        if value is not None:
            on = value.strip().lower() not in ("", "0", "no", "off", "false", "n")
            return on, f"{name}={value}: {'on' if on else 'off'}"
    return default, f"{names[0]} is not set: {'on' if default else 'off'}"


def parameters(environment: Mapping[str, str], libraries: Sequence[str] | None = None) -> dict[str, str]:
    """The environment and, under Open MPI, what its parameter files say, in the words of variables.

    `opal_cuda_support = 0` in a file, as in that of conda-forge's package, is OMPI_MCA_opal_cuda_support=0
    here, unless the environment sets that. (`mpiexec --mca` sets the variables of its ranks.) libraries:
    paths of the MPI; default: those that this process has loaded. Files and their order: Open MPI 4.1.6,
    opal/mca/base/mca_base_var.c.
    """
    paths = loaded_mpi() if libraries is None else libraries
    open_mpi = [path for path in paths if os.path.basename(path).startswith("libmpi.so.40")]
    if not open_mpi:
        return dict(environment)
    folder = _parameter_folder(open_mpi[0])
    values = _read_parameters(folder / "openmpi-mca-params.conf")
    values |= _read_parameters(Path.home() / ".openmpi" / "mca-params.conf")
    values |= environment
    return values | _read_parameters(folder / "openmpi-mca-params-override.conf")


def _parameter_folder(library: str) -> Path:
    """PREFIX/etc of PREFIX/lib/libmpi.so.40; Debian's packages have theirs in /etc."""
    own = Path(library).parents[1] / "etc"
    return own if own.is_dir() else Path("/etc/openmpi")


def _read_parameters(file: Path) -> dict[str, str]:
    """The lines `name = value` of one of Open MPI's files, as variables; {} where there is no such file."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = re.findall(r"^[ \t]*(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE)
    return {f"OMPI_MCA_{name}": value for name, value in lines}


def _major(version: str | None) -> int:
    number = re.match(r"\d+", version or "")
    return int(number[0]) if number else 0


def takes_gpu_memory(library=None) -> bool | None:
    """What an MPI says of itself: does it take CUDA memory? None where it has no such function.

    library: its ctypes.CDLL; by default the one that this process has loaded. MPI has to run (MVAPICH2
    answers before it does). Where both functions exist MPIX_GPU_query_support is asked, and nothing else: in
    some old MPICHs the other one, MPIX_Query_cuda_support, ends the program.
    """
    if library is None:
        files = loaded_mpi()
        if not files:
            return None
        library = ctypes.CDLL(files[0])
    if hasattr(library, "MPIX_GPU_query_support"):
        supported = ctypes.c_int(0)
        library.MPIX_GPU_query_support(_SUPPORT_CUDA, ctypes.byref(supported))
        return bool(supported.value)
    if hasattr(library, "MPIX_Query_cuda_support"):
        return bool(library.MPIX_Query_cuda_support())
    return None


def staging_reason(
    family: str | None, version: str | None, built: bool | None, environment: Mapping[str, str]
) -> str:
    """Why this MPI must not be handed GPU memory, in words; "" if it may be.

    built: what takes_gpu_memory says. environment: see `parameters`. What is not known for certain is a
    reason: an MPI that does not take GPU memory reads it as if it were the host's, and crashes, or worse.
    """
    if family not in SWITCHES:
        return f"it is not known whether {family or 'this MPI'} takes GPU memory"
    state = switch(family, environment, version)
    if state and not state[0]:
        return f"{family} takes GPU memory only when told to: {state[1]}"
    # Cray MPICH need not offer the query; its switch alone is documented.
    if built or (built is None and family == "Cray MPICH"):
        return ""
    return f"this {family} does not take GPU memory"


def advice(report: dict, environment: Mapping[str, str]) -> list[str]:
    """Sentences on what will go wrong with this MPI, most important first."""
    mpi = report["mpi"]
    sentences = []
    files = mpi["files"] or []
    if len(files) > 1:
        sentences.append(
            f"Two MPI libraries meet in one process: {' and '.join(files)}. Horovod and mpi4py must "
            "use the same one: put one MPI's lib folder first in LD_LIBRARY_PATH, or build again with "
            "`make setup` and MPI_HOME."
        )
    if mpi["threads"] not in (None, "MPI_THREAD_MULTIPLE"):
        sentences.append(thread_advice(mpi["family"], mpi["threads"]))
    state = switch(mpi["family"], parameters(environment, files), mpi["version"])
    if mpi["cuda_built"] and report["gpu"]["devices"] and state and not state[0]:
        name = SWITCHES[mpi["family"]][0][0]
        sentences.append(f"This MPI was built for GPU memory, but that is switched off: set {name}=1.")
    return sentences


def thread_advice(family: str | None, level: str) -> str:
    """What a thread level below MPI_THREAD_MULTIPLE means for Horovod, and the cure."""
    cure = ""
    if (family or "").startswith("MVAPICH2"):
        cure = " MV2_ENABLE_AFFINITY=0 cures it; then bind the ranks with srun or numactl."
    return f"MPI allows {level} only, but Horovod wants MPI_THREAD_MULTIPLE.{cure}"
