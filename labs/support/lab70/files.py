"""A checkpoint as a file: a line that says what follows, and the bytes; which file is the newest good one."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

GOOD = "good"
_ENDING = ".checkpoint"


def to_bytes(state: dict) -> bytes:
    """A state as torch.save writes it."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def from_bytes(payload: bytes) -> dict:
    """The state in these bytes. Nothing but tensors, numbers, texts, lists and dicts: no code is run."""
    import torch

    return torch.load(io.BytesIO(payload), weights_only=True)


def model_of(net) -> str:
    """A short text that is the same for two nets whose tensors have the same names and shapes."""
    shapes = [(name, list(tensor.shape)) for name, tensor in net.state_dict().items()]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:12]


def pack(payload: bytes, model: str) -> bytes:
    """The content of a file: a line of JSON, the label, and then the payload."""
    label = {"model": model, "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
    return json.dumps(label).encode() + b"\n" + payload


def split(content: bytes) -> tuple[dict | None, bytes]:
    """(label, payload) of a file's content; the label is None where its line is not whole."""
    line, newline, payload = content.partition(b"\n")
    try:
        label = json.loads(line)
    except ValueError:
        label = None
    if not newline or not isinstance(label, dict) or not {"model", "bytes", "sha256"} <= label.keys():
        return None, payload
    return label, payload


def path_of(folder: Path, done: int) -> Path:
    """The file for the state after `done` steps. Names sort as numbers do."""
    return Path(folder) / f"step_{done:06}{_ENDING}"


def newest(folder: Path, model: str, judge: Callable[[bytes, str], str]) -> bytes | None:
    """The payload of the newest file that judge(content, model) calls "good"; None if there is none.

    Says of each file that it passes over what is wrong with it.
    """
    for path in sorted(Path(folder).glob(f"*{_ENDING}"), reverse=True):
        content = path.read_bytes()
        verdict = judge(content, model)
        if verdict == GOOD:
            return split(content)[1]
        print(f"{path.name} is not taken: {verdict}")
    return None


def forget_older(folder: Path, keep: int = 2) -> None:
    """Remove all checkpoints but the newest `keep`. Called once a new one is whole."""
    for path in sorted(Path(folder).glob(f"*{_ENDING}"))[:-keep]:
        path.unlink()


def damaged(content: bytes, zeros: bool = False) -> bytes:
    """The same content with one bit of its payload turned over, or with its last half zero."""
    changed = bytearray(content)
    if zeros:
        half = len(content) // 2
        changed[half:] = bytes(len(content) - half)
    else:
        changed[-7] ^= 1
    return bytes(changed)
