"""A run as it was asked for, and how its function travels to the ranks and results back:
cloudpickle."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
import sysconfig
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

from labkit.errors import LabError
from labkit.launch.diagnosis import NO_ROOM

CONTROLLERS = ("mpi", "torch")
_INSTALLED = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


@dataclass(frozen=True)
class Task:
    """A function with its arguments, as each rank calls it."""

    fn: Callable
    args: tuple
    kwargs: dict

    @property
    def name(self) -> str:
        """The name under which a learner knows the function."""
        return getattr(_function(self.fn), "__name__", type(self.fn).__name__)

    @property
    def wants_comm(self) -> bool:
        """Is the function's first parameter named `comm`?"""
        try:
            names = list(inspect.signature(self.fn).parameters)
        except (TypeError, ValueError):  # some functions written in C have no signature
            return False
        return names[:1] == ["comm"]


@dataclass(frozen=True)
class Run:
    """All that one call of `launch.run` asks for; the fields are its parameters, of the same
    names."""

    task: Task
    ranks: int
    controller: str
    timeout: float
    threads: int | None
    env: dict[str, str]
    echo: bool
    horovod: str | None
    mpi: str | None

    def __post_init__(self):
        """Raises LabError for what cannot be run."""
        if not callable(self.task.fn):
            raise LabError(
                f"launch.run needs a function to run on the ranks, but got {self.task.fn!r}. Leave"
                " out its parentheses."
            )
        if self.controller not in CONTROLLERS:
            raise LabError(
                f"controller must be one of {', '.join(CONTROLLERS)}, not {self.controller!r}."
            )
        if (
            isinstance(self.timeout, bool)
            or not isinstance(self.timeout, Real)
            or not self.timeout > 0
        ):
            raise LabError(f"timeout must be a number of seconds above 0, not {self.timeout!r}.")
        if not all(isinstance(item, str) for pair in self.env.items() for item in pair):
            raise LabError(f"env must hold text, as in env={{'NAME': '1'}}, not {self.env!r}.")
        if self.task.wants_comm and self.controller != "mpi":
            raise LabError(
                f"{self.task.name} asks for an MPI communicator (its first parameter is named"
                " comm), which "
                f'controller="{self.controller}" does not have. Use controller="mpi", or rename'
                " the "
                "parameter."
            )


def count(name: str, value: object) -> int:
    """The parameter's value as an int; LabError unless it is one from 1 on, of any type."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise LabError(f"{name} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def _function(fn: Callable) -> Callable:
    """The function itself, of a partial."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


@contextmanager
def _own_module_by_value(fn: Callable):
    """Send functions of a learner's or test's own module whole: the ranks may be unable to import
    it.

    cloudpickle does so by itself for `__main__`, that is for scripts and notebooks.
    """
    import cloudpickle

    module = sys.modules.get(getattr(_function(fn), "__module__", None) or "")
    file = str(getattr(module, "__file__", None) or "")
    kit = module is not None and module.__name__.split(".")[0] in ("labkit", "virtual", "support")
    own = file and not file.startswith(_INSTALLED) and not kit
    if not own or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield cloudpickle
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield cloudpickle
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def save(file: Path, task: Task) -> None:
    """Write the task. Raises LabError when something in it cannot travel."""
    try:
        with _own_module_by_value(task.fn) as cloudpickle, file.open("wb") as out:
            cloudpickle.dump((task.fn, task.args, task.kwargs), out, protocol=5)
    except OSError as error:
        raise LabError(
            f"{task.name} and its arguments cannot be written to a temporary file:"
            f" {error.strerror or error}. {NO_ROOM}"
        ) from None
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise LabError(
            f"{task.name} cannot be sent to the ranks: {reason}. Open files, locks, generators and"
            " communicators cannot travel; make them inside the function."
        ) from None


def load_result(file: Path, rank: int) -> object:
    """The result of one rank. Raises LabError when it cannot be rebuilt here."""
    try:
        with file.open("rb") as source:
            return pickle.load(source)
    except Exception as error:
        raise LabError(
            f"The result of rank {rank} cannot be rebuilt here: {type(error).__name__}: {error}. "
            "Return numbers, strings, arrays, or lists, tuples and dicts of them."
        ) from None
