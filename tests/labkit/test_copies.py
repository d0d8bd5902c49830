"""A learner's copies of a lab: brought, begun afresh, the newer of the two wins, and nothing is
lost."""

import errno
import os
import shutil
import time
from pathlib import Path
from unittest import mock

import jupytext
import nbformat
import pytest
from authoring import generate
from labkit import copies
from labkit.errors import LabError

from tests.authoring import tiny_lab

NOTEBOOK, SCRIPT = "work/90_tiny.ipynb", "work/90_tiny.py"


@pytest.fixture
def pair(checkout):
    """A checkout with the tiny lab, and a function that edits a file of it and makes it the newer
    one."""
    tiny_lab.put(checkout)
    generate.write_all()
    copies.bring(checkout.root)

    def edit(name: str, old: str, new: str) -> None:
        path = checkout.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        later = time.time() + 60
        os.utime(path, (later, later))

    checkout.edit = edit
    return checkout


def texts(root: Path, book: str = NOTEBOOK, script: str = SCRIPT) -> list[str]:
    """The learner's copies, or other files."""
    return [(root / name).read_text(encoding="utf-8") for name in (book, script)]


def generated(root: Path) -> list[str]:
    return texts(root, tiny_lab.NOTEBOOK, tiny_lab.SCRIPT)


def test_nothing_is_said_of_files_that_agree_and_the_newer_notebook_wins(pair, capsys):
    assert copies.sync("90_tiny", pair.root) is None
    pair.edit(NOTEBOOK, '"nbformat_minor": ', '"nbformat_minor":  ')  # saved again: no cell differs
    assert copies.sync("90_tiny", pair.root) is None
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
    sentence = copies.sync("90_tiny", pair.root)
    assert sentence.startswith(f"{SCRIPT} is newer than {NOTEBOOK} and wins")
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
    for name in (NOTEBOOK, SCRIPT):
        (pair.root / name).unlink()
    with pytest.raises(LabError, match="work/90_tiny.py is missing: `make reset LAB=90`"):
        copies.sync("90_tiny", pair.root)
    assert copies.script("90_tiny", root=pair.root) == pair.root / SCRIPT
    assert texts(pair.root) == generated(pair.root), "they are brought again"
    shutil.rmtree(pair.root / "work")
    (pair.root / "work").write_text("a file")
    with pytest.raises(LabError, match="cannot be written into .*: copy the whole folder of the"):
        copies.bring(pair.root)


def test_a_notebook_that_was_deleted_is_brought_again(pair):
    (pair.root / NOTEBOOK).unlink()
    copies.bring(pair.root)
    assert texts(pair.root) == generated(pair.root)
    pair.edit(SCRIPT, "# Write the sum.", "# Mine.")
    (pair.root / NOTEBOOK).unlink()
    edited = (pair.root / SCRIPT).read_text(encoding="utf-8")
    for _ in range(2):
        copies.bring(pair.root)
        assert "Mine." in texts(pair.root)[0]
        assert texts(pair.root)[1] == edited


def test_a_copy_follows_the_lab_until_somebody_edits_it(pair, capsys):
    assert texts(pair.root) == generated(pair.root)
    tiny_lab.put(pair, tiny_lab.LAB.replace("Write the sum.", "Write their sum."))
    generate.write_all()
    copies.bring(pair.root)
    assert texts(pair.root) == generated(pair.root)
    pair.edit(NOTEBOOK, "Write their sum.", "Mine.")
    edited = texts(pair.root)
    tiny_lab.put(pair)
    generate.write_all()
    copies.bring(pair.root)
    assert texts(pair.root) == edited
    assert capsys.readouterr().out == ""


def test_a_copy_of_a_lab_that_is_gone_goes_unless_somebody_edited_it(pair):
    edited = {name: name.replace("90_tiny", "91_edited") for name in (NOTEBOOK, SCRIPT)}
    for name, other in edited.items():
        shutil.copy(pair.root / name, pair.root / other)
    pair.edit(edited[NOTEBOOK], "Write the sum.", "Mine.")
    (pair.root / "solutions/90_tiny.py").rename(pair.root / "solutions/92_other.py")
    copies.bring(pair.root)
    left = {f"work/{path.name}" for path in (pair.root / "work").iterdir()}
    assert left == set(edited.values())


def test_work_of_an_earlier_version_is_brought_once(pair):
    shutil.rmtree(pair.root / "work")
    pair.edit(tiny_lab.NOTEBOOK, "Write the sum.", "Mine.")
    copies.bring(pair.root)
    generate.write_all()
    copies.bring(pair.root)
    assert "Mine." in texts(pair.root)[0]
    assert copies.sync("90_tiny", pair.root).startswith(f"{NOTEBOOK} is newer")
    assert "Mine." in texts(pair.root)[1]


def test_reset_begins_afresh(pair, capsys):
    pair.edit(NOTEBOOK, "Write the sum.", "Mine.")
    (pair.root / SCRIPT).write_text("mine\n")
    copies.reset("90", pair.root)
    assert texts(pair.root) == generated(pair.root)
    assert tiny_lab.set_aside() == [NOTEBOOK, SCRIPT]
    assert "Lab 90_tiny is fresh" in capsys.readouterr().out
    copies.reset("90_tiny", pair.root)
    assert len(tiny_lab.set_aside()) == 2, "nothing to set aside the second time"


def test_a_changed_copy_that_cannot_be_deleted_does_not_fail_its_run(tmp_path, monkeypatch):
    """NFS keeps a file that a rank has still open, under another name."""
    script = tmp_path / "90_tiny.py"
    script.write_text('# %% tags=["parameters"]\nlength = 10\n', encoding="utf-8")
    with copies.with_parameters(script, {"length": 7}) as copy:
        assert "length = 7" in copy.read_text(encoding="utf-8")
        monkeypatch.setattr(os, "rmdir", mock.Mock(side_effect=OSError(errno.ENOTEMPTY, "busy")))
