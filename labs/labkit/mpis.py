"""MPI libraries: how each is told, what turns its use of GPU memory on, and what it wants to be
told.

| name | what it is |
|---|---|
| `MPIS`, `FLAVORS` | the families the kit knows; those that a site file's LABKIT_MPI may mean |
| `identify`, `first_line` | family and version from the text of MPI_Get_library_version |
| `library_text`, `mpiname` | what the loaded MPI says of itself; what MVAPICH2's own tool says |
| `Library`, `loaded_library` | all that, of the MPI of this process |
| `loaded` | the files of the MPI libraries that this process has loaded |
| `prefer_own_cuda` | lets an MPI that is loaded later use the environment's CUDA libraries |
| `name_of`, `launcher_kind` | whose MPI lies in a folder; whose options a launcher takes |
| `switches` | the variables that an MPI wants for Horovod |
| `page` | the documentation's page on a variable of an MPI, of NCCL, or of a network's library |
| `takes_gpu_memory`, `gpu_switch` | does an MPI take GPU memory, by its build and by its switch |
| `parameters` | the environment, and below it what Open MPI's files of parameters say |
| `staging_reason` | why an MPI must not be handed GPU memory; "" if it may be |
| `thread_advice` | what a thread level means for Horovod, and the cure |

The name of the library file does not tell an MPI: MVAPICH2, MPICH and Intel MPI are all
libmpi.so.12.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from labkit import files


class Mpi(NamedTuple):
    """A family of MPI libraries.

    family: its name. version: a pattern that finds it in the text of MPI_Get_library_version.
    flavors: words in a site file's LABKIT_MPI that mean it, its own first. switch: variables that
    turn GPU memory on or off, in the order in which they are read. on: what holds when none is set.
    tool: a program beside its mpiexec by which a folder is told. wants: what it has to be told for
    Horovod.
    """

    family: str
    version: str
    flavors: tuple[str, ...]
    switch: tuple[str, ...]
    on: bool = False
    tool: str = ""
    wants: Mapping[str, str] = {}


_MPICH_SWITCH = ("MPIR_CVAR_ENABLE_GPU", "MPICH_ENABLE_GPU")
_OMPI_SWITCH = ("OMPI_MCA_opal_cuda_support", "OMPI_MCA_mpi_cuda_support")
_MVP_SWITCH = ("MVP_ENABLE_GPU", *_MPICH_SWITCH)

# The only place that knows them. A text or a folder is tried from the last to the first: MVAPICH2
# has all of MPICH's tools, and Cray's text contains MPICH.
#
# MVAPICH2 grants MPI_THREAD_MULTIPLE only to ranks that are not bound to one core (2.3.7's
# src/mpid/ch3/src/mpid_init.c), and binds them so by default; more ranks than cores would end it.
# GDR looks at GPU memory only if told, and wants MV2_SUPPORT_DL for Horovod (user guide of GDR
# 2.3.7, 7.3). MVAPICH-Plus reads no MV2_ variable; its switch is on by default (MVAPICH's list of
# variables) and said all the same.
MPIS = (
    Mpi(
        "MPICH",
        r"^\s*MPICH Version\s*:\s*(\S+)",
        ("mpich",),
        _MPICH_SWITCH,
        True,
        tool="mpichversion",
    ),
    Mpi(
        "MVAPICH2",
        r"^\s*MVAPICH2 Version\s*:\s*(\S+)|^\s*MVAPICH2 ([\d.]+\S*)",
        ("mvapich2",),
        ("MV2_USE_CUDA",),
        tool="mpiname",
        wants={"MV2_ENABLE_AFFINITY": "0"},
    ),
    Mpi(
        "MVAPICH2-GDR",
        r"^\s*MVAPICH2-GDR\b[^\d\n]*([\d.]+\w*)",
        ("mvapich2-gdr", "mvapich2"),
        ("MV2_USE_CUDA",),
        wants={"MV2_ENABLE_AFFINITY": "0", "MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1"},
    ),
    Mpi(
        "MVAPICH-Plus",
        r"^\s*MVAPICH-Plus\b[^\d\n]*([\d.]+\S*)",
        ("mvapich-plus",),
        _MVP_SWITCH,
        True,
        wants={"MVP_ENABLE_GPU": "1"},
    ),
    Mpi("MVAPICH", r"^\s*MVAPICH (?:Version\s*:\s*)?(\S+)", ("mvapich-plus",), _MVP_SWITCH, True),
    Mpi("Cray MPICH", r"CRAY MPICH version (\S+)", ("cray-mpich",), ("MPICH_GPU_SUPPORT_ENABLED",)),
    Mpi("Open MPI", r"^\s*Open MPI v([^\s,]+)", ("openmpi",), _OMPI_SWITCH, True, tool="ompi_info"),
    Mpi(
        "Intel MPI",
        r"Intel\(R\) MPI Library ([\d.]+)",
        ("intelmpi",),
        ("I_MPI_OFFLOAD",),
        tool="impi_info",
    ),
)
MVAPICH2_GUIDE = (
    "https://mvapich.cse.ohio-state.edu/static/media/mvapich/mvapich2-2.3.7-userguide.html"
)
# Begin of a variable's name -> the page that asks for it, or describes it.
_PAGES = {
    "MV2_": MVAPICH2_GUIDE,
    "MV2_ENABLE_AFFINITY": "https://hidl.cse.ohio-state.edu/userguide/horovod/",
    "MV2_SUPPORT_DL": "https://mvapich.cse.ohio-state.edu/userguide/gdr/",  # section 7.3
    "MV2_USE_CUDA": "https://mvapich.cse.ohio-state.edu/userguide/gdr/",  # sections 7.3 and 13.1
    "MV2_GPUDIRECT": "https://mvapich.cse.ohio-state.edu/userguide/gdr/",  # section 7
    "MVP_": "https://mvapich.cse.ohio-state.edu/userguide/",
    "MPICH_": "https://github.com/pmodels/mpich/blob/main/doc/wiki/cvar.md",
    "MPIR_CVAR_": "https://github.com/pmodels/mpich/blob/main/doc/wiki/cvar.md",
    "MPI4PY_": "https://mpi4py.readthedocs.io/en/stable/mpi4py.html",
    "OMPI_MCA_": "https://docs.open-mpi.org/en/v5.0.x/mca.html",
    "UCX_": "https://openucx.readthedocs.io/en/master/faq.html",
    "FI_": "https://ofiwg.github.io/libfabric/main/man/fabric.7.html",
    "FI_TCP_": "https://ofiwg.github.io/libfabric/main/man/fi_tcp.7.html",
    "NCCL_": "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    "GLOO_": "https://docs.pytorch.org/docs/stable/distributed.html",
    "HOROVOD_": "https://horovod.readthedocs.io/en/stable/",
    "OMP_": "https://docs.pytorch.org/docs/stable/threading_environment_variables.html",
    "MKL_": "https://docs.pytorch.org/docs/stable/threading_environment_variables.html",
    "OPENBLAS_": "https://github.com/OpenMathLib/OpenBLAS/blob/develop/docs/runtime_variables.md",
    "TF_NUM_": "https://www.tensorflow.org/api_docs/python/tf/config/threading",
}
_BY_FAMILY = {mpi.family: mpi for mpi in MPIS}
_BY_FLAVOR = {mpi.flavors[0]: mpi for mpi in reversed(MPIS)}

# LABKIT_MPI, and the families that the library itself may then name.
FLAVORS = {
    flavor: tuple(mpi.family for mpi in MPIS if flavor in mpi.flavors)
    for flavor in dict.fromkeys(mpi.flavors[0] for mpi in MPIS)
}

# Whoever sets one of these has chosen a binding.
_BINDINGS = ("MV2_CPU_BINDING_POLICY", "MV2_CPU_BINDING_LEVEL", "MV2_CPU_MAPPING")
# Main libraries of MPIs: MPICH and its kin, MPICH's standard ABI, Cray's, old MPICH. Wrappers for
# C++ and Fortran (libmpicxx, libmpi_mpifh) do not count.
_LIBRARY = re.compile(r"lib(mpi|mpi_abi|mpi_cray|mpi_gnu_\w+|mpi_nvidia|mpich)\.so[.\d]*")
_SUPPORT_CUDA = 0  # MPIX_GPU_SUPPORT_CUDA


class Library(NamedTuple):
    """An MPI library: its family and version (None: not known), its own first words, its files."""

    family: str | None
    version: str | None
    banner: str
    files: list[str]


def identify(text: str, mpiname: str = "") -> tuple[str | None, str | None]:
    """(family, version) from MPI_Get_library_version's text and, for MVAPICH2, what `mpiname -a`
    prints."""
    for mpi in reversed(MPIS):
        match = re.search(mpi.version, text, re.MULTILINE)
        if match:
            gdr = mpi.family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname
            version = next(group for group in match.groups() if group)
            return "MVAPICH2-GDR" if gdr else mpi.family, version
    return None, None


def first_line(text: str) -> str:
    """The first line of what an MPI says of itself, white space made single."""
    lines = text.strip("\0\n ").splitlines()
    return " ".join(lines[0].split()) if lines else ""


def library_text() -> str:
    """What the MPI that this process has loaded says of itself; "" where none is. It need not run
    yet."""
    module = sys.modules.get("mpi4py.MPI")
    if module is not None:
        return module.Get_library_version().strip("\0\n ")
    files = loaded()
    if not files:
        return ""
    text = ctypes.create_string_buffer(8192)
    ctypes.CDLL(files[0]).MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
    return text.value.decode(errors="replace").strip("\0\n ")


def mpiname(tool: str | Path = "mpiname") -> str:
    """What MVAPICH2's tool prints with -a; "" where there is none, or none that answers.

    MVAPICH2-GDR was made from MVAPICH2's source and calls itself so: its tool says which of the two
    it is.
    """
    return files.output(str(tool), "-a", limit=5.0) or ""


def loaded_library() -> Library:
    """The MPI that this process has loaded; it need not run yet."""
    text = library_text()
    tool = mpiname() if "MVAPICH2" in text else ""
    return Library(*identify(text, tool), first_line(text), loaded())


def prefer_own_cuda() -> list[Path]:
    """Load the CUDA runtime and the NCCL of this environment, those of PyTorch's packages; the
    files. For a process that loads MPI before PyTorch.

    A library is known by its name inside of a process: after a CUDA-aware MPI has brought the
    site's libcudart.so.12 along, PyTorch is given that one, too, which may be older than PyTorch
    needs. The other way round MPI is given PyTorch's, and a newer runtime serves programs of an
    older one of the same major version (NVIDIA, CUDA Compatibility: minor version compatibility).
    """
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations if package else None
    files_of_cuda = [
        file
        for folder in map(Path, folders or ())
        for name in ("libcudart.so.*", "libnccl.so.*")
        for file in sorted(folder.glob(f"*/lib/{name}"))
    ]
    for file in files_of_cuda:
        ctypes.CDLL(str(file))
    return files_of_cuda


def loaded(maps: str | Path = "/proc/self/maps") -> list[str]:
    """The MPI libraries that this process has loaded, by their real paths; [] where no system
    tells."""
    try:
        lines = Path(maps).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    files = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    return sorted(
        {os.path.realpath(file) for file in files if _LIBRARY.fullmatch(os.path.basename(file))}
    )


@lru_cache
def name_of(prefix: Path) -> str:
    """Whose MPI lies in a folder, by its tools: its flavor, or "mpi" where they do not tell."""
    folder = prefix / "bin"
    mpi = next((mpi for mpi in reversed(MPIS) if mpi.tool and (folder / mpi.tool).exists()), None)
    if mpi is None:
        return "mpi"
    gdr = mpi.tool == "mpiname" and "MVAPICH2-GDR" in mpiname(folder / "mpiname")
    return "mvapich2-gdr" if gdr else mpi.flavors[0]


def launcher_kind(text: str) -> str:
    """Whose options a launcher takes, by what its --version prints: "openmpi", "srun", or "hydra"
    (MPICH and kin)."""
    if text.startswith("slurm"):  # the set-up's mpiexec where an MPI has no launcher, as Cray's
        return "srun"
    return "openmpi" if any(word in text for word in ("Open MPI", "OpenRTE", "PRRTE")) else "hydra"


def switches(flavor: str | None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What an MPI wants to be told for Horovod, without what `environ` says already.

    flavor: as in a site file's LABKIT_MPI. environ: where LABKIT_GDRCOPY may name libgdrapi.so,
    which MVAPICH2-GDR then loads; by default this process's environment.
    """
    environ = os.environ if environ is None else environ
    wanted = dict(_BY_FLAVOR[flavor].wants) if flavor in _BY_FLAVOR else {}
    if any(name in environ for name in _BINDINGS):
        wanted.pop("MV2_ENABLE_AFFINITY", None)
    if flavor == "mvapich2-gdr" and environ.get("LABKIT_GDRCOPY"):
        wanted["MV2_GPUDIRECT_GDRCOPY_LIB"] = environ["LABKIT_GDRCOPY"]
    return {name: value for name, value in wanted.items() if name not in environ}


def page(variable: str) -> str:
    """The page that asks for a variable, or describes it; "" for one of the kit's own."""
    begins = [begin for begin in _PAGES if variable.startswith(begin)]
    return _PAGES[max(begins, key=len)] if begins else ""


def gpu_switch(
    family: str | None, environment: Mapping[str, str], version: str | None = None
) -> tuple[bool, str] | None:
    """(on?, "MV2_USE_CUDA is not set: off") for the run-time switch of this family; None if it has
    none.

    environment: for Open MPI what `parameters` gives. From version 5 on it has no switch: what it
    says of itself is then true of this run.
    """
    mpi = _BY_FAMILY.get(family or "")
    if mpi is None or (family == "Open MPI" and _major(version) >= 5):
        return None
    for name in mpi.switch:
        value = environment.get(name)
        if value is not None:
            on = value.strip().lower() not in ("", "0", "no", "off", "false", "n")
            return on, f"{name}={value}: {'on' if on else 'off'}"
    return mpi.on, f"{mpi.switch[0]} is not set: {'on' if mpi.on else 'off'}"


def parameters(
    environment: Mapping[str, str], libraries: Sequence[str] | None = None
) -> dict[str, str]:
    """The environment and, under Open MPI, what its parameter files say, in the words of variables.

    `opal_cuda_support = 0` in a file, as in that of conda-forge's package, is
    OMPI_MCA_opal_cuda_support=0 here, unless the environment sets that. (`mpiexec --mca` sets the
    variables of its ranks.) libraries: paths of the MPI; default: those that this process has
    loaded. Files and their order: Open MPI 4.1.6, opal/mca/base/mca_base_var.c.
    """
    paths = loaded() if libraries is None else libraries
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
    """The lines `name = value` of one of Open MPI's files, as variables; {} where there is no such
    file."""
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

    library: its ctypes.CDLL; by default the one that this process has loaded. MPI has to run
    (MVAPICH2 answers before it does). Where both functions exist MPIX_GPU_query_support is asked,
    and nothing else: in some old MPICHs the other one, MPIX_Query_cuda_support, ends the program.
    """
    if library is None:
        files = loaded()
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

    built: what takes_gpu_memory says. environment: see `parameters`. What is not known for certain
    is a reason: an MPI that does not take GPU memory reads it as if it were the host's, and
    crashes, or worse.
    """
    if family not in _BY_FAMILY:
        return f"it is not known whether {family or 'this MPI'} takes GPU memory"
    state = gpu_switch(family, environment, version)
    if state and not state[0]:
        return f"{family} takes GPU memory only when told to: {state[1]}"
    # Cray MPICH need not offer the query; its switch alone is documented.
    if built or (built is None and family == "Cray MPICH"):
        return ""
    return f"this {family} does not take GPU memory"


def thread_advice(family: str | None, level: str) -> str:
    """What a thread level below MPI_THREAD_MULTIPLE means for Horovod, and the cure."""
    cure = ""
    if (family or "").startswith("MVAPICH2"):
        cure = " MV2_ENABLE_AFFINITY=0 cures it; then bind the ranks with srun or numactl."
    return f"MPI allows {level} only, but Horovod wants MPI_THREAD_MULTIPLE.{cure}"
