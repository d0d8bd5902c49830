"""labkit: what the labs share. Each module does one job and is imported on first use."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # pathlib costs each rank of a run a few milliseconds
    from pathlib import Path

_MODULES = (
    "build",
    "cluster",
    "data",
    "doctor",
    "errors",
    "lab",
    "launch",
    "models",
    "plots",
    "profiling",
    "record",
    "scaling",
    "sites",
    "timing",
    "virtual",
    "world",
)
_CHECK_NAMES = ("check", "expect", "hint", "predict")
__all__ = [*_MODULES, *_CHECK_NAMES, "home", "root"]


def __getattr__(name: str):
    if name in _CHECK_NAMES:
        return getattr(importlib.import_module("labkit.checks"), name)
    if name in _MODULES:
        return importlib.import_module(f"labkit.{name}")
    raise AttributeError(f"labkit has no {name!r}; it offers {', '.join(__all__)}")


def root() -> Path:
    """The checkout: the folder that holds labs/, notebooks/ and solutions/."""
    from pathlib import Path

    return Path(__file__).resolve().parents[2]


def home() -> Path:
    """This learner's own folder for progress, records and plots (created on first use).

    $LABKIT_HOME if set; else `.labkit/` in the checkout when the checkout belongs to the user; else, in a
    shared checkout such as a JupyterHub course folder, `~/.local/state/labkit`.
    """
    from pathlib import Path

    chosen = os.environ.get("LABKIT_HOME")
    if chosen:
        folder = Path(chosen).expanduser()
    elif os.access(root(), os.W_OK) and root().stat().st_uid == os.getuid():
        folder = root() / ".labkit"
    else:
        folder = Path.home() / ".local" / "state" / "labkit"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
