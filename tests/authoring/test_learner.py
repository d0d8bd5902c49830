"""A learner's work: never lost when files are written anew, the same in the notebook and in the
script."""

from __future__ import annotations

import asyncio
import json
import os
import shutil

import labkit
import nbformat
import pytest
from authoring import generate, learner
from authoring.cells import learner_cells, solved_cells
from labkit import copies, paths
from labkit.errors import LabError

from tests.authoring import tiny_lab
from tests.authoring.tiny_lab import NOTEBOOK, SCRIPT, set_aside

OWN, OWN_SCRIPT = f"work/{tiny_lab.STEM}.ipynb", f"work/{tiny_lab.STEM}.py"


@pytest.fixture
def brought(built):
    """A checkout with the tiny lab, and the learner's copy of it."""
    copies.bring(built.root)
    return built


def files(checkout) -> dict[str, bytes]:
    return {name: (checkout.root / name).read_bytes() for name in (OWN, OWN_SCRIPT)}


def test_work_is_set_aside_before_it_is_overwritten(built, capsys):
    """Outputs are work, too; what nobody edited is overwritten quietly."""
    tiny_lab.put(built, tiny_lab.LAB.replace("Write the sum.", "Write their sum."))
    assert generate.write_all() == [SCRIPT, NOTEBOOK]
    assert capsys.readouterr().out == ""
    assert set_aside() == []
    path = built.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[1].outputs = [nbformat.v4.new_output("stream", text="measured for an hour")]
    nbformat.write(book, path)
    assert generate.write_all() == [NOTEBOOK]
    assert set_aside() == [NOTEBOOK]
    assert capsys.readouterr().out.startswith(f"Set aside: {NOTEBOOK} -> ")
    (folder,) = (paths.home() / "set_aside").iterdir()
    assert "measured for an hour" in (folder / NOTEBOOK).read_text()
    (built.root / SCRIPT).write_text("mine\n")
    assert generate.write_all() == [SCRIPT]
    assert set_aside() == [SCRIPT, NOTEBOOK]
    assert generate.write_all(check=True) == []


def test_what_git_has_committed_is_not_work(built):
    (built.root / SCRIPT).write_text("an older version, committed\n")
    tiny_lab.commit(built.root)
    generate.write_all()
    assert set_aside() == []


def test_solve_puts_one_answer_in_and_leaves_the_rest(brought):
    book = nbformat.read(brought.root / OWN, as_version=4)
    book.cells[8].source = "mine = 1"
    nbformat.write(book, brought.root / OWN)
    learner.solve("90", "90.2")
    book = nbformat.read(brought.root / OWN, as_version=4)
    lab = generate.load("90_tiny")
    wanted = [cell.source for cell in learner_cells(lab)]
    wanted[8], wanted[10] = "mine = 1", solved_cells(lab)[10].source
    assert [cell.source for cell in book.cells] == wanted
    text = (brought.root / OWN_SCRIPT).read_text(encoding="utf-8")
    assert "return [factor * number" in text
    assert "return a + b" not in text
    assert "mine = 1" in text
    assert "SOLUTION" not in text
    assert set(set_aside()) == {OWN, OWN_SCRIPT}
    assert json.loads((brought.root / OWN).read_text())["cells"][10]["id"] == "cell-11"


def test_solve_finds_a_cell_that_has_moved(brought):
    path = brought.root / OWN
    book = nbformat.read(path, as_version=4)
    book.cells[6].id = "moved"
    book.cells.insert(0, nbformat.v4.new_code_cell("note = 1"))
    nbformat.write(book, path)
    learner.solve("90", "90.1")
    assert nbformat.read(path, as_version=4).cells[7].source.endswith("return a + b")
    assert "return a + b" in (brought.root / OWN_SCRIPT).read_text()


@pytest.mark.parametrize(
    ("ids", "stub"),
    [
        ("another cell's", "def add(a, b):\n    raise NotImplementedError"),
        ("another cell's", "def add(a, b):\n    return (a +"),
        ("none", "def add(a, b):\n    raise NotImplementedError"),
        ("its own", ""),
    ],
)
def test_solve_goes_by_the_function_where_ids_do_not_tell(brought, ids, stub):
    """A new version of the lab may have a cell more above; nbformat 4.4 has no ids; a function may
    be half written, or its cell empty."""
    path = brought.root / OWN
    book = nbformat.read(path, as_version=4)
    book.cells[6].source = stub
    if ids == "none":
        book.nbformat_minor = 4
        for cell in book.cells:
            del cell["id"]
    if ids == "another cell's":
        book.cells[6].id, book.cells[7].id = "cell-06a", "cell-07"
    before = [cell.source for cell in book.cells]
    nbformat.write(book, path)
    learner.solve("90", "90.1")
    after = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    assert after[6].endswith("return a + b")
    assert before[:6] + before[7:] == after[:6] + after[7:]


def test_solve_says_what_is_wrong(brought):
    with pytest.raises(LabError, match="no exercise '90.7'; it has 90.1, 90.2"):
        learner.solve("90", "90.7")
    book = nbformat.read(brought.root / OWN, as_version=4)
    del book.cells[6]
    nbformat.write(book, brought.root / OWN)
    before = files(brought)
    with pytest.raises(LabError, match=r"no cell with add\(\). `make reset LAB=90`"):
        learner.solve("90", "90.1")
    assert files(brought)[OWN] == before[OWN]


class Jupyter:
    """JupyterLab's file side with jupytext's pairing, as the server of `make lab` has it."""

    def __init__(self, root):
        from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
        from jupytext.async_contentsmanager import (
            build_async_jupytext_contents_manager_class as build_class,
        )
        from nbformat.sign import MemorySignatureStore, NotebookNotary

        shutil.copy(labkit.__file__.split("/labs/")[0] + "/pyproject.toml", root)
        # Signatures are kept in memory, not in a database of the user's that stays open.
        notary = NotebookNotary(store_factory=MemorySignatureStore, secret=b"a test")
        self.manager = build_class(AsyncLargeFileManager)(root_dir=str(root), notary=notary)

    def open_and_save(self, edit=lambda cells: None) -> list[dict]:
        """Open the notebook, let `edit` change its cells, save it; returns the cells."""
        model = asyncio.run(self.manager.get(OWN))
        # As a kernel reports it.
        model["content"]["metadata"]["language_info"]["version"] = "3.11.2"
        edit(model["content"]["cells"])
        asyncio.run(self.manager.save(model, OWN))
        return model["content"]["cells"]


def test_saving_in_jupyterlab_changes_nothing_of_its_own(brought):
    before = files(brought)
    jupyter = Jupyter(brought.root)
    jupyter.open_and_save()
    jupyter.open_and_save()
    assert files(brought)[OWN_SCRIPT] == before[OWN_SCRIPT]
    book = nbformat.read(brought.root / OWN, as_version=4)
    numbers = range(1, len(book.cells) + 1)
    assert [cell.id for cell in book.cells] == [f"cell-{number:02d}" for number in numbers]
    copies.reset("90")
    assert set_aside() == [], "opening and saving is not work"
    assert files(brought) == before


def test_an_edit_in_jupyterlab_reaches_the_script_and_back(brought):
    jupyter = Jupyter(brought.root)

    def solve(cells):
        cells[6]["source"] = "def add(a, b):\n    return b + a"

    jupyter.open_and_save(solve)
    script = (brought.root / OWN_SCRIPT).read_text(encoding="utf-8")
    assert "return b + a" in script
    assert '# %% tags=["parameters"]' in script
    assert "jupytext" not in script
    edited = script.replace("b + a", "a + b + 0")
    (brought.root / OWN_SCRIPT).write_text(edited, encoding="utf-8")
    os.utime(brought.root / OWN_SCRIPT, (2_000_000_000, 2_000_000_000))
    cells = jupyter.open_and_save()
    assert "a + b + 0" in cells[6]["source"]
    assert (brought.root / OWN_SCRIPT).read_text(encoding="utf-8") == edited
    learner.solve("90", "90.2")
    assert "a + b + 0" in (brought.root / OWN_SCRIPT).read_text(encoding="utf-8")
