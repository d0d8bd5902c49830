"""How Horovod 0.28.1's sources are changed before they are built: all edits, and the files that join them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from env.horovod.edit import Edit
from env.horovod.edits.build import BUILD, CUDA_TORCH
from env.horovod.edits.keras import KERAS
from env.horovod.edits.runner import RUNNER
from env.horovod.edits.secret import SECRET

# Files of ours that join the wheel: their place there -> their place here.
HERE = Path(__file__).resolve().parents[1]
ADDED = {
    "horovod/_keras/keras3.py": HERE / "keras3.py",
    "horovod/runner/common/util/proof.py": HERE / "proof.py",
    "horovod/common/gloo/proof.h": HERE / "proof.h",
}


def all_edits(cuda_torch: bool = True) -> tuple[Edit, ...]:
    """All edits in the order in which they are applied; some only where PyTorch was built with CUDA."""
    return BUILD + RUNNER + SECRET + KERAS + (CUDA_TORCH if cuda_torch else ())


def apply_all(root: Path, cuda_torch: bool) -> list[str]:
    """Apply the edits to the sources under `root`, add our files, and return the edits' names.

    Raises EditError when the sources are not those that an edit was written for.
    """
    edits = all_edits(cuda_torch)
    for edit in edits:
        edit.apply(root)
    for target, source in ADDED.items():
        (root / target).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return [edit.name for edit in edits]


def digest(cuda_torch: bool) -> str:
    """A fingerprint of everything that is changed or added: part of the cache key of the wheel."""
    parts = ["\0".join((edit.path, edit.old, edit.new)) for edit in all_edits(cuda_torch)]
    parts += [target + source.read_text(encoding="utf-8") for target, source in ADDED.items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def table() -> str:
    """The edits as the rows of a Markdown table: HOROVOD.md holds these very lines."""
    rows = [f"| `{edit.name}` | `{edit.path}` | {edit.why} |" for edit in all_edits()]
    return "\n".join(["| edit | file | why |", "|---|---|---|", *rows])
