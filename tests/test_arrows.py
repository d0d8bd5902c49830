"""Who may import whom: labs -> support -> virtual -> labkit; verdict -> virtual; the others ->
labkit; no circles; faces.

The rules are kept for imports anywhere in a file, also for those inside functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from labkit import paths

ROOT = paths.root()
FOLDERS = {
    "labkit": ROOT / "labs",
    "classroom": ROOT / "labs",
    "virtual": ROOT / "labs",
    "verdict": ROOT / "labs",
    "support": ROOT / "labs",
    "authoring": ROOT / "labs",
    "slurm": ROOT,
    "env": ROOT,
}
# Whom the modules of each part may import, beside those of their own part.
MAY_IMPORT = {
    "labkit": set(),
    "classroom": {"labkit"},
    "virtual": {"labkit"},
    "verdict": {"labkit", "virtual"},
    "support": {"labkit", "virtual"},
    "authoring": {"labkit"},
    "slurm": {"labkit", "classroom", "verdict"},
    "env": set(),
    "labs": {"labkit", "virtual", "verdict", "support"},
}


class Import(NamedTuple):
    """An import: its module ("labkit.timing"), the name ("" for `import x`), and what that is bound
    to."""

    line: int
    module: str
    name: str
    bound: str = ""


class Use(NamedTuple):
    """`owner.name` somewhere in a source."""

    line: int
    owner: str
    name: str


@cache  # one source is asked by every rule
def read(text: str) -> tuple[tuple[Import, ...], tuple[Use, ...]]:
    """What a source imports, wherever it does so, and the attributes that it uses of plain
    names."""
    imported, used = [], []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported += [
                Import(node.lineno, alias.name, "", alias.asname or "") for alias in node.names
            ]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported += [
                Import(node.lineno, node.module, alias.name, alias.asname or alias.name)
                for alias in node.names
            ]
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_NAMES_OF":
            # A face that imports a name on its first use imports it all the same.
            imported += [Import(node.lineno, module, "") for module in ast.literal_eval(node.value)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.append(Use(node.lineno, node.value.id, node.attr))
    return tuple(imported), tuple(used)


def imports(text: str) -> tuple[Import, ...]:
    return read(text)[0]


def uses(text: str) -> tuple[Use, ...]:
    return read(text)[1]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_sources() -> dict[str, str]:
    """Module -> text, of all that the kit consists of; labs by their stems
    ("labs.20_ranks_and_messages")."""
    sources = {}
    for part, folder in FOLDERS.items():
        for path in sorted((folder / part).rglob("*.py")):
            if "template" not in path.parts:
                sources[module_name(path, folder)] = path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "solutions").glob("*.py")):
        sources[f"labs.{path.stem}"] = path.read_text(encoding="utf-8")
    return sources


def module_name(path: Path, folder: Path) -> str:
    """labs/labkit/timing/__init__.py is "labkit.timing"."""
    return ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def targets(found: Import, modules: Collection[str]) -> str:
    """The module that an import reaches: "labkit.timing" for `from labkit import timing`."""
    full = f"{found.module}.{found.name}"
    return full if full in modules else found.module


def package(module: str) -> str:
    """The package whose face stands before a module: "labkit.timing" for "labkit.timing.timer", or
    ""."""
    parts = module.split(".")
    deep = parts[0] in ("labkit", "support", "slurm")
    depth = 2 if deep or parts[:2] == ["authoring", "tour"] else 1
    return ".".join(parts[:depth]) if len(parts) > depth else ""


def against_arrows(sources: dict[str, str]) -> list[str]:
    """Imports that go where none may go."""
    wrong = []
    for module, text in sources.items():
        part = module.split(".")[0]
        for found in imports(text):
            target = targets(found, sources)
            to = target.split(".")[0]
            another_lab = part == to == "support" and not inside(target, package(module) or module)
            forbidden = to in FOLDERS and to != part and to not in MAY_IMPORT[part]
            if forbidden or (another_lab and target != "support"):
                wrong.append(f"{module}:{found.line} imports {target}")
    return wrong


def inside(module: str, folder: str) -> bool:
    return module == folder or module.startswith(folder + ".")


@cache
def offered(text: str) -> set[str]:
    """The names that a face offers: those it lists, and all that it imports, since it is but a
    page."""
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names |= (
                set(ast.literal_eval(node.value)) if isinstance(node.value, ast.List) else set()
            )
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_NAMES_OF":
            names |= {
                name
                for names_of_one in ast.literal_eval(node.value).values()
                for name in names_of_one
            }
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def past_faces(sources: dict[str, str]) -> list[str]:
    """Imports from a package's inside by somebody outside; names that a face does not list."""
    wrong = []
    faces = faces_of(sources)
    for module, text in sources.items():
        for found in imports(text):
            target = targets(found, sources)
            face = package(target)
            if face and face in sources and not inside(module, face):
                public = target.removeprefix(face + ".") in offered(sources[face])
                if not public:
                    wrong.append(f"{module}:{found.line} imports {target}, past the face of {face}")
            of_face = target == found.module and target in faces and not inside(module, target)
            if of_face and found.name and found.name not in offered(sources[target]):
                wrong.append(
                    f"{module}:{found.line} takes {found.name}, which {target} does not list"
                )
    return wrong


def faces_of(sources: dict[str, str]) -> set[str]:
    """The modules that are the page before a package."""
    return {package(module) for module in sources}


def faces_with_code(sources: dict[str, str]) -> list[str]:
    """Faces that hold more than a page does; modules that import their own face."""
    wrong = []
    faces = faces_of(sources)
    for module, text in sources.items():
        if module in faces:
            for node in ast.parse(text).body:
                if not _belongs_to_a_page(node):
                    wrong.append(f"{module}:{node.lineno} is more than a page")
        own_face = package(module)
        if not own_face or module.endswith("__main__"):
            continue
        for found in imports(text):
            if targets(found, sources) == own_face:
                wrong.append(f"{module}:{found.line} imports its own face")
    return wrong


def _belongs_to_a_page(node: ast.stmt) -> bool:
    """A docstring, imports, __all__; or the tables and the function that import a name on its first
    use."""
    if isinstance(node, ast.Assign):
        return getattr(node.targets[0], "id", "") in ("__all__", "_NAMES_OF", "_MODULE_OF")
    if isinstance(node, ast.FunctionDef):
        return node.name == "__getattr__"
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr))


def circles(sources: dict[str, str]) -> list[list[str]]:
    """Groups of modules that import each other, directly or round a corner."""
    edges = {
        module: {targets(found, sources) for found in imports(text)} & set(sources) - {module}
        for module, text in sources.items()
    }
    reached: dict[str, set[str]] = {}
    for module in edges:
        seen, waiting = set(), [module]
        while waiting:
            for target in edges[waiting.pop()] - seen:
                seen.add(target)
                waiting.append(target)
        reached[module] = seen
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in edges
        if module in reached[module]
    }
    return [list(group) for group in sorted(groups)]


def private_crossings(sources: dict[str, str]) -> list[str]:
    """Private names of one module that another module uses."""
    wrong = []
    for module, text in sources.items():
        known = {}
        for found in imports(text):
            target = targets(found, sources)
            if target not in sources:
                continue
            if target != found.module or not found.name:
                known[found.bound] = target
            elif is_private(found.name):
                wrong.append(f"{module}:{found.line} takes {found.name} of {target}")
        for use in uses(text):
            if use.owner in known and is_private(use.name):
                wrong.append(f"{module}:{use.line} uses {use.name} of {known[use.owner]}")
    return wrong


RULES = {
    "arrows": against_arrows,
    "faces": past_faces,
    "pages": faces_with_code,
    "circles": circles,
    "private names": private_crossings,
}


@pytest.fixture(scope="module")
def kit() -> dict[str, str]:
    return own_sources()


@pytest.mark.parametrize("rule", RULES)
def test_the_kit_keeps_the_rules(kit, rule):
    assert RULES[rule](kit) == []


def test_labkits_page_names_its_parts(kit):
    page = ast.get_docstring(ast.parse(kit["labkit"]))
    rows = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    parts = {module.split(".")[1] for module in kit if module.startswith("labkit.")}
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == parts - {"__main__"}


def test_tests_take_no_private_names(kit):
    tests = {
        module_name(path, ROOT): path.read_text("utf-8")
        for path in sorted((ROOT / "tests").rglob("*.py"))
    }
    crossings = private_crossings({**kit, **tests})
    assert [line for line in crossings if line.startswith("tests.")] == []


@pytest.mark.parametrize(
    ("rule", "module", "line"),
    [
        ("arrows", "labkit.lab", "from authoring import generate"),
        ("faces", "slurm.hub.__main__", "from classroom.view import look"),
        ("arrows", "labkit.plots.spans", "def later():\n    import virtual"),
        ("faces", "support.lab23", "from virtual.engine import Engine"),
        ("arrows", "labkit.cluster.slurm", "def later():\n    from slurm import job"),
        ("arrows", "support.lab44", "from support.lab32 import case"),
        ("arrows", "labs.40_horovod_pytorch", "from authoring import generate"),
        ("faces", "labs.40_horovod_pytorch", "from labkit.timing.timer import measure"),
        ("faces", "labkit.record.records", "from labkit.timing import measurement"),
        ("pages", "labkit.timing", "def measure(): ..."),
        ("pages", "labkit.timing.timer", "from labkit import timing"),
        (
            "circles",
            "labkit.timing.measurement",
            "def later():\n    from labkit.timing import timer",
        ),
        (
            "private names",
            "labkit.record.records",
            "from labkit.timing import timer as clock\nclock._collect",
        ),
        (
            "private names",
            "labkit.record.records",
            "from labkit.timing.timer import _collect as collect",
        ),
    ],
)
def test_a_forbidden_import_is_found(kit, rule, module, line):
    spoilt = {**kit, module: f"{kit[module]}\n{line}\n"}
    assert RULES[rule](spoilt) != []
