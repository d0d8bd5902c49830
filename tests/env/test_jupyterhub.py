"""What the hub is installed from: locks with hashes, one version with the learners' environment, and Node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("node", "said"), [(None, "no node here"), ("v18.20.4", "version v18.20.4")])
def test_without_node_or_with_an_old_one_nothing_is_installed(tmp_path, node, said):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, word in (("node", node), ("npm", "10")):
        if word:
            (programs / name).write_text(f"#!/bin/sh\necho {word}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
    script = "from env.jupyterhub import __main__ as m; m.check_node()"
    env = {**os.environ, "PATH": str(programs)}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True)
    assert said in done.stderr
    assert "StepFailed" in done.stderr
