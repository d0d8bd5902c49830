"""The kit's packages as a wheel: built, installed elsewhere, every module imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from labkit import paths

PACKAGES = ("labkit", "virtual", "verdict", "classroom", "support", "authoring")
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[2:]:
    package = importlib.import_module(name)
    assert package.__file__.startswith(sys.argv[1]), package.__file__
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            print(module.name)
"""


def run(*command: str, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **more)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_wheel_installed_elsewhere_imports_every_module(tmp_path):
    # From what git knows, as somebody who fetched it would build it.
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    names = run(
        "git", "ls-files", "-co", "--exclude-standard", "pyproject.toml", "labs", cwd=paths.root()
    )
    run("cp", "--parents", *names.split(), str(source), cwd=paths.root())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(
        *pip,
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(tmp_path),
        str(source),
    )
    (wheel,) = tmp_path.glob("*.whl")
    run(*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["PYTHONPATH"] = str(site)
    imported = run(
        sys.executable, "-c", IMPORT_ALL, str(site), *PACKAGES, cwd=tmp_path, env=env
    ).split()
    sources = [path for name in PACKAGES for path in (source / "labs" / name).rglob("*.py")]
    # Programs that are started, as those of lab 65, lie in folders that are no packages.
    modules = [
        path
        for path in sources
        if path.name != "__main__.py" and path.with_name("__init__.py").exists()
    ]
    assert len(imported) == len(modules) - len(PACKAGES), "the packages themselves are not printed"
    assert (site / "support/lab43_logs/duplicate_gpu.log").exists()
    assert (site / "support/lab52.csv").exists()
    assert (site / "support/lab64_vtrain/LICENSE").exists()
    assert (site / "authoring/template/81_my_topic.py").exists()
    assert (site / "support/lab65_scripts/torch_ddp.py").exists()
    assert (site / "authoring/tour/tour.html.j2").exists()
    assert (site / "classroom/board.html.j2").exists()
    assert (site / "verdict/causes.yaml").exists()
