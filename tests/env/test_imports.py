"""What imports what in env/: the arrows lead one way."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def module_of(file: Path) -> str:
    """env/horovod/edits/__init__.py -> env.horovod.edits"""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in (ROOT / "env").rglob("*.py")}


def imports(module: str) -> set[str]:
    """The modules of env/ that this one imports, anywhere in it, and the packages loaded on the way."""
    named = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    loaded = set()
    for name in named & MODULES.keys():
        parts = name.split(".")
        packages = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        # A module's own packages are there before it is.
        loaded |= {package for package in packages if not f"{module}.".startswith(f"{package}.")}
    return loaded


def test_there_is_no_circle():
    order = list(TopologicalSorter({module: imports(module) for module in MODULES}).static_order())
    assert (
        order.index("env.horovod.edit") < order.index("env.horovod.edits") < order.index("env.horovod.build")
    )


def test_packages_are_in_one_order():
    inside = {module: imports(module) for module in MODULES if module.startswith("env.install")}
    assert not [module for module, names in inside.items() if any("horovod" in name for name in names)]
