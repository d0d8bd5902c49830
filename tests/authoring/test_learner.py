"""A learner's work: never lost when files are written anew, the same in the notebook and in the script."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess

import labkit
import nbformat
import pytest
from authoring import generate, learner
from authoring.cells import learner_cells, solved_cells
from labkit import paths
from labkit.errors import LabError

from tests.authoring import tiny_lab
from tests.authoring.tiny_lab import NOTEBOOK, SCRIPT, files, set_aside


def edit_notebook(checkout, position: int, text: str) -> None:
    path = checkout.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[position].source = text
    nbformat.write(book, path)


def test_work_is_set_aside_before_it_is_overwritten(built, capsys):
    edit_notebook(built, 6, "def add(a, b):\n    return 'mine'")
    assert generate.write_all() == [NOTEBOOK]
    assert set_aside() == [NOTEBOOK]
    assert capsys.readouterr().out.startswith(f"Set aside: {NOTEBOOK} -> ")
    (folder,) = (paths.home() / "set_aside").iterdir()
    assert "'mine'" in (folder / NOTEBOOK).read_text()
    assert generate.write_all(check=True) == []


def test_what_nobody_edited_is_overwritten_quietly(built, capsys):
    tiny_lab.put(built, tiny_lab.LAB.replace("Write the sum.", "Write their sum."))
    assert generate.write_all() == [SCRIPT, NOTEBOOK]
    assert capsys.readouterr().out == ""
    assert set_aside() == []


def test_outputs_are_work_too_and_so_is_a_script(built):
    path = built.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[1].outputs = [nbformat.v4.new_output("stream", text="measured for an hour")]
    nbformat.write(book, path)
    (built.root / SCRIPT).write_text("mine\n")
    generate.write_all()
    assert set_aside() == [SCRIPT, NOTEBOOK]


def test_what_git_has_committed_is_not_work(built):
    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments], cwd=built.root, check=True
        )

    (built.root / SCRIPT).write_text("an older version, committed\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    generate.write_all()
    assert set_aside() == []


def test_reset_begins_afresh(built, capsys):
    before = files(built)
    edit_notebook(built, 6, "mine")
    (built.root / SCRIPT).write_text("mine\n")
    learner.reset("90")
    assert files(built) == before
    assert set_aside() == [SCRIPT, NOTEBOOK]
    assert "Lab 90_tiny is fresh" in capsys.readouterr().out
    learner.reset("90_tiny")
    assert len(set_aside()) == 2, "nothing to set aside the second time"


def test_solve_puts_one_answer_in_and_leaves_the_rest(built):
    edit_notebook(built, 8, "mine = 1")
    script = (
        (built.root / SCRIPT)
        .read_text(encoding="utf-8")
        .replace('print("length is", length, name)', "mine = 1")
    )
    (built.root / SCRIPT).write_text(script, encoding="utf-8")
    learner.solve("90", "90.2")
    book = nbformat.read(built.root / NOTEBOOK, as_version=4)
    lab = generate.load("90_tiny")
    for number, (cell, stub) in enumerate(zip(book.cells, learner_cells(lab), strict=True)):
        wanted = solved_cells(lab)[10].source if number == 10 else "mine = 1" if number == 8 else stub.source
        assert cell.source == wanted
    text = (built.root / SCRIPT).read_text(encoding="utf-8")
    assert "return [factor * number" in text
    assert "return a + b" not in text
    assert "mine = 1" in text
    assert "SOLUTION" not in text
    assert set_aside() == [SCRIPT, NOTEBOOK]
    assert json.loads((built.root / NOTEBOOK).read_text())["cells"][10]["id"] == "cell-11"


def test_solve_finds_a_cell_that_has_moved(built):
    path = built.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[6].id = "moved"
    book.cells.insert(0, nbformat.v4.new_code_cell("note = 1"))
    nbformat.write(book, path)
    learner.solve("90", "90.1")
    assert nbformat.read(path, as_version=4).cells[7].source.endswith("return a + b")
    assert "return a + b" in (built.root / SCRIPT).read_text()


def test_solve_says_what_is_wrong(built):
    with pytest.raises(LabError, match="no exercise '90.7'; it has 90.1, 90.2"):
        learner.solve("90", "90.7")
    edit_notebook(built, 6, "gone = 1")
    book = nbformat.read(built.root / NOTEBOOK, as_version=4)
    del book.cells[6]
    nbformat.write(book, built.root / NOTEBOOK)
    before = files(built)
    with pytest.raises(LabError, match=r"no cell with add\(\). `make reset LAB=90`"):
        learner.solve("90", "90.1")
    assert files(built) == before
    (built.root / SCRIPT).unlink()
    with pytest.raises(LabError, match="is missing: `make reset LAB=90` writes it"):
        learner.solve("90", "90.2")


class Jupyter:
    """JupyterLab's file side with jupytext's pairing, as the server of `make lab` has it."""

    def __init__(self, root):
        from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
        from jupytext.async_contentsmanager import build_async_jupytext_contents_manager_class as build_class
        from nbformat.sign import MemorySignatureStore, NotebookNotary

        shutil.copy(labkit.__file__.split("/labs/")[0] + "/pyproject.toml", root)
        # Signatures are kept in memory, not in a database of the user's that stays open.
        notary = NotebookNotary(store_factory=MemorySignatureStore, secret=b"a test")
        self.manager = build_class(AsyncLargeFileManager)(root_dir=str(root), notary=notary)

    def open_and_save(self, edit=lambda cells: None) -> list[dict]:
        """Open the notebook, let `edit` change its cells, save it; returns the cells that were opened."""
        model = asyncio.run(self.manager.get(NOTEBOOK))
        model["content"]["metadata"]["language_info"]["version"] = "3.11.2"  # as a kernel reports it
        edit(model["content"]["cells"])
        asyncio.run(self.manager.save(model, NOTEBOOK))
        return model["content"]["cells"]


def test_saving_in_jupyterlab_changes_nothing_of_its_own(built):
    before = files(built)
    jupyter = Jupyter(built.root)
    jupyter.open_and_save()
    jupyter.open_and_save()
    assert files(built)[SCRIPT] == before[SCRIPT]
    book = nbformat.read(built.root / NOTEBOOK, as_version=4)
    assert [cell.id for cell in book.cells] == [f"cell-{n:02d}" for n in range(1, len(book.cells) + 1)]
    generate.write_all()
    assert set_aside() == [], "opening and saving is not work"
    assert files(built) == before


def test_an_edit_in_jupyterlab_reaches_the_script_and_back(built):
    jupyter = Jupyter(built.root)

    def solve(cells):
        cells[6]["source"] = "def add(a, b):\n    return b + a"

    jupyter.open_and_save(solve)
    script = (built.root / SCRIPT).read_text(encoding="utf-8")
    assert "return b + a" in script
    assert '# %% tags=["parameters"]' in script
    assert "jupytext" not in script
    (built.root / SCRIPT).write_text(script.replace("b + a", "a + b + 0"), encoding="utf-8")
    os.utime(built.root / SCRIPT, (2_000_000_000, 2_000_000_000))
    cells = jupyter.open_and_save()
    assert "a + b + 0" in cells[6]["source"]
    assert (built.root / SCRIPT).read_text(encoding="utf-8") == script.replace("b + a", "a + b + 0")
    learner.solve("90", "90.2")
    assert "a + b + 0" in (built.root / SCRIPT).read_text(encoding="utf-8")
