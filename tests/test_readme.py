"""What the README and docs/ show runs as printed."""

from __future__ import annotations

import re

import pytest
from labkit import paths

ROOT = paths.root()
TOOLS = (ROOT / "docs" / "TOOLS.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "AGENTS.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "labs" / "GLOSSARY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def example(about: str) -> str:
    """The one Python example with that word in it."""
    found = [
        block for block in re.findall(r"```python\n(.*?)```", TOOLS, re.DOTALL) if about in block
    ]
    assert len(found) == 1, about
    return found[0]


def test_the_example_of_the_virtual_cluster_runs(capsys):
    exec(compile(example("virtual.Cluster"), "docs/TOOLS.md", "exec"), {})
    said = capsys.readouterr().out
    assert "8 ranks" in said
    assert "14 steps" in said


@pytest.mark.slow
def test_the_example_of_a_profile_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(example("profiling.record"), "docs/TOOLS.md", "exec"), {})
    said = capsys.readouterr().out
    assert "exposed" in said
    assert "aten::addmm" in said
    assert (tmp_path / "trace.json").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_are_there(page):
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if target.startswith("https://"):
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        if heading:
            headings = re.findall(r"(?m)^#+ (.+)$", there.read_text(encoding="utf-8"))
            assert heading in [
                re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for words in headings
            ]
