"""What the README shows runs as printed."""

from __future__ import annotations

import re

import pytest
from labkit import paths

README = (paths.root() / "README.md").read_text(encoding="utf-8")


def example(about: str) -> str:
    """The one Python example with that word in it."""
    found = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if about in block]
    assert len(found) == 1, about
    return found[0]


def test_the_example_of_the_virtual_cluster_runs(capsys):
    exec(compile(example("virtual.Cluster"), "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "8 ranks" in said
    assert "14 rounds" in said


@pytest.mark.slow
def test_the_example_of_a_profile_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(example("profiling.record"), "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "exposed" in said
    assert "aten::addmm" in said
    assert (tmp_path / "trace.json").exists()


def test_links_and_pictures_are_there():
    for target in re.findall(r"\]\(([^)#\s]+)\)", README):
        assert target.startswith("https://") or (paths.root() / target).exists(), target
