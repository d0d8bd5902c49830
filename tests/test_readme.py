"""What the README shows runs as printed."""

from __future__ import annotations

import re

import labkit

README = (labkit.root() / "README.md").read_text(encoding="utf-8")


def test_the_example_of_the_virtual_cluster_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "8 ranks" in said
    assert "14 rounds" in said


def test_links_and_pictures_are_there():
    for target in re.findall(r"\]\(([^)#\s]+)\)", README):
        assert target.startswith("https://") or (labkit.root() / target).exists(), target
