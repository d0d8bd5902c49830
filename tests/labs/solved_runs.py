"""What is asked of every run of a solved lab, under mpiexec or as a batch job."""

from __future__ import annotations

from authoring import generate
from labkit import paths


def own_warnings_are_errors() -> str:
    """PYTHONWARNINGS for a run in which a warning of the lab itself or of the kit is an error."""
    labs = paths.root() / "labs"
    kit = ("labkit", "virtual", "support")
    files = [path for name in kit for path in sorted((labs / name).rglob("*.py"))]
    names = [".".join(path.relative_to(labs).with_suffix("").parts) for path in files]
    return ",".join(f"error:::{name.removesuffix('.__init__')}" for name in ("__main__", *names))


def assert_each_check_passed_once(stem: str, output: str) -> None:
    """Each check has passed, and rank 0 alone has said so."""
    for exercise in generate.load(stem).exercises:
        assert output.count(f"✓ {exercise.number}  ") == 1, output[-3000:]
    assert "Traceback" not in output
