"""Which packages a bundle holds: what the check and its labs import, less what the GPU machine has itself."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatch

from env.install.environment import ENV

# Imported by labkit, by the labs that the check runs, or by the check. Nothing for learners: no JupyterLab.
WANTED = (
    # ranks
    "mpich", "mpi4py", "greenlet", "cloudpickle", "psutil", "threadpoolctl", "nvidia-ml-py",
    # labs: numbers and plots, the digits, lab 15's images
    "torch", "numpy", "scipy", "pandas", "matplotlib", "scikit-learn", "h5py", "pillow",
    # solved notebooks, and what is shown of them
    "ipykernel", "jupytext", "nbformat", "nbclient", "nbconvert", "papermill", "jinja2", "rich",
    # Horovod: its build and its own imports
    "setuptools", "wheel", "packaging", "cmake", "cffi", "pyyaml",
    # tests marked gpu
    "pytest", "pytest-timeout",
)  # fmt: skip
# What a machine set up for PyTorch has: these and what comes with them are left out (triton and NVIDIA's
# packages come with torch). TensorFlow and Keras are in no bundle: nothing in WANTED asks for them.
WITHOUT = ("torch", "triton", "nvidia-*-cu*", "numpy", "scipy", "pandas", "matplotlib")
# Left out always: a debugger for notebooks, without which a kernel works; and what only reads from clouds.
SPARED = ("debugpy", "aiohttp", "sympy")
# Carried always: Horovod's build wants these versions, and a machine's own may be others.
ALWAYS = ("setuptools", "wheel", "packaging")


def normal(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a package is among those named, such as "torch" or "nvidia-*"."""
    return any(fnmatch(name, normal(pattern)) for pattern in patterns)


def marker_holds(marker, python: str, extra: str = "") -> bool:
    """Whether a requirement's marker is true on Linux, x86-64, with that Python ("3.12")."""
    target = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "extra": extra,
    }
    return marker is None or marker.evaluate(target)


def locked(python: str) -> dict[str, str]:
    """Package -> "name==version" of the kit's lock, for that Python."""
    from packaging.requirements import Requirement  # here: the GPU machine's Python may not have it yet

    pins = {}
    for line in (ENV / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            if marker_holds(pin.marker, python):
                pins[normal(pin.name)] = f"{pin.name}{pin.specifier}"
    return pins


def needs(requirements: Iterable[str], python: str, extras: Iterable[str] = ()) -> dict[str, set[str]]:
    """Package -> its extras, of "Requires-Dist" lines, as they hold for that Python."""
    from packaging.requirements import Requirement

    wanted: dict[str, set[str]] = {}
    for line in requirements:
        each = Requirement(line)
        if any(marker_holds(each.marker, python, extra) for extra in ("", *extras)):
            wanted.setdefault(normal(each.name), set()).update(each.extras)
    return wanted


def brought_along(names: Iterable[str], python: str) -> set[str]:
    """These packages and what they need in turn, as the environment here knows them."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        waiting += needs(requirements, python)
    return seen


def left_out(without: Iterable[str], python: str) -> set[str]:
    """Packages of the lock that the GPU machine has: those named, and what comes with them."""
    named = [name for name in locked(python) if matches(name, without)]
    # What TensorFlow would bring is not there because somebody says that TensorFlow is not wanted.
    here = brought_along([name for name in named if name in WANTED], python)
    return (here | set(named)) - set(ALWAYS)


def complete(
    python: str, without: Iterable[str], requirements_of: Callable[[list[str]], dict[str, list[str]]]
) -> dict[str, str]:
    """Package -> "name==version" of all that the bundle holds.

    requirements_of: ["name==version", …] -> {package: its "Requires-Dist" lines}; asked for each once.
    """
    pins = locked(python)
    absent = left_out(without, python) | set(SPARED)
    chosen: dict[str, str] = {}
    waiting = {name: set() for name in WANTED}
    while waiting:
        new = {name: extras for name, extras in waiting.items() if name not in absent and name not in chosen}
        new = {name: extras for name, extras in new.items() if name in pins}
        chosen |= {name: pins[name] for name in new}
        told = requirements_of([pins[name] for name in new]) if new else {}
        waiting = {}
        for name, lines in told.items():
            for needed, extras in needs(lines, python, new[name]).items():
                waiting.setdefault(needed, set()).update(extras)
    return dict(sorted(chosen.items()))


def expected(python: str, without: Iterable[str]) -> list[str]:
    """Packages of WANTED that the bundle leaves to the GPU machine."""
    absent = left_out(without, python)
    return sorted(name for name in WANTED if name in absent)
