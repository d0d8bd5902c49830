"""A learner's notebook and script of one lab: the newer one wins, and nothing is lost."""

from __future__ import annotations

import os
import time

import jupytext
import nbformat
import pytest
from authoring import generate
from labkit import copies
from labkit.errors import LabError

from tests.authoring import tiny_lab

NOTEBOOK, SCRIPT = "notebooks/90_tiny.ipynb", "labs/90_tiny.py"


@pytest.fixture
def pair(checkout):
    """A checkout with the tiny lab, and a function that edits a file of it and makes it the newer one."""
    tiny_lab.put(checkout)
    generate.write_all()

    def edit(name: str, old: str, new: str) -> None:
        path = checkout.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        later = time.time() + 60
        os.utime(path, (later, later))

    checkout.edit = edit
    return checkout


def test_nothing_is_said_of_files_that_agree(pair):
    assert copies.sync("90_tiny", pair.root) is None
    pair.edit(NOTEBOOK, '"nbformat_minor": ', '"nbformat_minor":  ')  # saved again: no cell differs
    assert copies.sync("90_tiny", pair.root) is None


def test_the_newer_notebook_wins(pair, capsys):
    pair.edit(NOTEBOOK, "Write the sum.", "Write a sum.")
    sentence = copies.sync("90_tiny", pair.root)
    assert sentence.startswith(f"{NOTEBOOK} is newer than {SCRIPT} and wins")
    assert "# Write a sum." in (pair.root / SCRIPT).read_text(encoding="utf-8")
    assert f"Set aside: {SCRIPT}" in capsys.readouterr().out
    assert copies.sync("90_tiny", pair.root) is None


def test_the_newer_script_wins_and_outputs_of_other_cells_stay(pair):
    path = pair.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[1].outputs = [nbformat.v4.new_output("stream", text="hello")]
    nbformat.write(book, path)
    pair.edit(SCRIPT, "# Write the sum.", "# Write a sum.")
    assert copies.sync("90_tiny", pair.root).startswith(f"{SCRIPT} is newer than {NOTEBOOK} and wins")
    after = nbformat.read(path, as_version=4)
    assert after.cells[1].outputs[0].text == "hello"
    assert [cell.id for cell in after.cells] == [cell.id for cell in book.cells]
    script = jupytext.read(pair.root / SCRIPT, fmt="py:percent")
    assert [cell.source for cell in after.cells] == [cell.source for cell in script.cells]
    assert copies.sync("90_tiny", pair.root) is None


def test_a_file_that_is_missing_or_broken(pair):
    (pair.root / SCRIPT).unlink()
    assert copies.sync("90_tiny", pair.root).startswith(f"{SCRIPT} was missing")
    (pair.root / NOTEBOOK).write_text("{", encoding="utf-8")
    with pytest.raises(LabError, match="90_tiny.ipynb is no notebook: `make reset LAB=90`"):
        copies.sync("90_tiny", pair.root)
    (pair.root / SCRIPT).unlink()
    (pair.root / NOTEBOOK).unlink()
    with pytest.raises(LabError, match="labs/90_tiny.py is missing: `make reset LAB=90`"):
        copies.sync("90_tiny", pair.root)
