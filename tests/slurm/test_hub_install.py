"""What the hub is installed from: locks with hashes, one version with the learners' environment."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from labkit.errors import LabError

from slurm.hub import install

ROOT = Path(__file__).resolve().parents[2]
HUB = ROOT / "slurm" / "hub"


def locked(path: Path) -> set[str]:
    """name==version, markers left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {
        re.match(r"[\w.-]+==[^\s;\\]+", line)[0].lower()
        for line in lines
        if re.match(r"[\w.-]+==", line)
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
    asked = re.findall(
        r"(?m)^#? ?([\w-]+==\S+)", (HUB / "requirements.in").read_text(encoding="utf-8")
    )
    assert set(asked) <= locked(HUB / "requirements.txt")
    proxy = json.loads((HUB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert [name for name, package in proxy.items() if name and "integrity" not in package] == []


def test_what_both_environments_have_has_one_version():
    """A notebook server loads both. For each Python of the lock a line of its own may stand in
    either."""
    shared = versions(ROOT / "env" / "requirements.txt")
    hub = versions(HUB / "requirements.txt")
    common = hub.keys() & shared.keys()
    assert len(common) > 20
    assert {name: hub[name] for name in common if not hub[name] & shared[name]} == {}


def test_what_pip_or_npm_says_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "LOG", tmp_path / "hub.log")
    monkeypatch.setattr(install, "HUB", tmp_path)
    monkeypatch.setattr(install, "VENV", tmp_path)
    monkeypatch.setattr(install, "STAMP", tmp_path / "installed.txt")
    monkeypatch.setattr(install.sys, "executable", "/bin/false")
    with pytest.raises(LabError, match=r"(?s)cannot be installed.*\$ /bin/false -m venv"):
        install.ensure()
    assert not (tmp_path / "installed.txt").exists()
