"""What a checkpoint holds, in a form in which two of them can be compared and printed."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path


def summary(saved: object) -> dict:
    """{name: state} of what was or is to be saved; each tensor of a state as the sum of its numbers.

    What is no dict is told by its type: {"all": "a Sequential"}.
    """
    if not isinstance(saved, Mapping):
        return {"all": _kind(saved)}
    return {name: _state(state) for name, state in saved.items()}


def read_checkpoint(path: Path) -> dict:
    """The summary of what torch.save wrote to path; {} if there is no file.

    A whole net in it is not rebuilt, as that would run code that the file names.
    """
    import torch

    if not path.exists():
        return {}
    try:
        return summary(torch.load(path, weights_only=True))
    except pickle.UnpicklingError:
        return {"all": "a whole object, of which weights_only=True reads nothing"}


def _state(state: object) -> dict | str:
    import torch

    if not isinstance(state, Mapping):
        return _kind(state)
    return {
        name: value.double().sum().item() if torch.is_tensor(value) else value
        for name, value in state.items()
    }


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"
