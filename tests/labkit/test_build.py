"""The generator: what it writes, what it refuses, and that a learner's work is never lost."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import shutil
import subprocess

import jupytext
import labkit
import nbformat
import pytest
from labkit import build, learner
from labkit.errors import LabError
from labkit.exercises import exercises_in

from tests.labkit import tiny_lab

NOTEBOOK, SCRIPT, SOLVED = "notebooks/90_tiny.ipynb", "labs/90_tiny.py", "solutions/90_tiny.ipynb"
BATCH = "slurm/90_tiny.sbatch"


@pytest.fixture
def built(checkout):
    """A checkout with the tiny lab's files written."""
    tiny_lab.put(checkout)
    assert build.write_all() == [SCRIPT, NOTEBOOK, SOLVED, BATCH, "README.md"]
    return checkout


def files(checkout) -> dict[str, bytes]:
    return {
        name: (checkout.root / name).read_bytes() for name in (SCRIPT, NOTEBOOK, SOLVED, BATCH, "README.md")
    }


def test_a_rebuild_changes_no_byte(built):
    before = files(built)
    assert build.write_all(check=True) == []
    assert build.write_all() == []
    for name in before:
        if name != "README.md":
            (built.root / name).unlink()
    assert build.write_all(check=True) == [SCRIPT, NOTEBOOK, SOLVED, BATCH]
    assert build.write_all() == [SCRIPT, NOTEBOOK, SOLVED, BATCH]
    assert files(built) == before


def test_a_batch_script_goes_with_several_ranks(built):
    text = (built.root / BATCH).read_text(encoding="utf-8")
    assert "#SBATCH --nodes=2 " in text
    assert "#SBATCH --ntasks-per-node=1 " in text
    assert text.endswith("\nlaunch 90_tiny\n")
    (built.root / BATCH).write_text(text.replace("00:15:00", "01:00:00"), encoding="utf-8")
    assert build.write_all() == [BATCH]
    assert set_aside() == [BATCH], "a person's own time limit is not lost"
    tiny_lab.put(built, tiny_lab.LAB.replace("Ranks: 2", "Ranks: 1"))
    assert BATCH in build.write_all(check=True)
    with pytest.raises(LabError, match="slurm/90_tiny.sbatch has no lab with several ranks"):
        build.write_all()


def test_the_learners_script(built):
    text = (built.root / SCRIPT).read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n# # 90 Tiny lab\n")
    assert "SOLUTION" not in text
    assert "return a + b" not in text
    assert "    total=...,  # a number, for the ä of it\n    word=...,  # a word\n" in text
    assert '# %% tags=["parameters"]\nlength = 10**3  # numbers\nname = "ünï"  # a word\n' in text
    assert '    raise NotImplementedError("exercise 90.1: Add \\"them\\" up")\n' in text
    assert text.count('raise NotImplementedError("exercise 90.2: Scale a list")') == 2
    ast.parse(text)
    assert text.endswith("# - Sums.\n")


def test_the_notebooks(built):
    book, solved = (nbformat.read(built.root / name, as_version=4) for name in (NOTEBOOK, SOLVED))
    nbformat.validate(book)
    nbformat.validate(solved)
    assert [cell.id for cell in book.cells] == [f"cell-{n:02d}" for n in range(1, len(book.cells) + 1)]
    assert book.metadata.kernelspec.name == "python3"
    assert [cell.metadata for cell in book.cells if cell.metadata] == [{"tags": ["parameters"]}]
    assert not any(cell.get("outputs") for cell in [*book.cells, *solved.cells])
    assert "return a + b" in solved.cells[6].source
    assert "SOLUTION" not in str(solved)
    assert "total=3.5" in solved.cells[4].source
    assert [cell.source for cell in book.cells if cell.cell_type == "markdown"] == [
        cell.source for cell in solved.cells if cell.cell_type == "markdown"
    ]


def test_script_and_notebook_hold_the_same_cells(built):
    book = nbformat.read(built.root / NOTEBOOK, as_version=4)
    script = jupytext.read(built.root / SCRIPT)
    assert [(one.cell_type, one.source) for one in book.cells] == [
        (one.cell_type, one.source) for one in script.cells
    ]


def test_the_readmes_table(built):
    lines = (built.root / "README.md").read_text(encoding="utf-8").splitlines()
    link, summary = (
        "[90 Tiny lab](notebooks/90_tiny.ipynb)",
        "Two small functions, to see how a lab is put together.",
    )
    assert lines[5] == f"| {link} | {summary} | cpu | 2 | 5 |"
    (built.root / "README.md").write_text("no marks\n")
    for check in (True, False):
        with pytest.raises(LabError, match="README.md needs the lines"):
            build.write_all(check=check)


def test_stubs_fail_with_their_own_sentence(built):
    names: dict[str, object] = {}
    for cell in nbformat.read(built.root / NOTEBOOK, as_version=4).cells:
        if "def " in cell.source:
            exec(cell.source, names)
    with pytest.raises(NotImplementedError, match='^exercise 90.1: Add "them" up$'):
        names["add"](1, 2)
    with pytest.raises(NotImplementedError, match="^exercise 90.2: Scale a list$"):
        names["scale"]([], 2)


def test_one_wrong_lab_does_not_keep_the_others_from_being_written(checkout):
    tiny_lab.put(checkout)
    (checkout.root / "solutions" / "91_other.py").write_text(tiny_lab.LAB)
    with pytest.raises(LabError, match=r"solutions/91_other\.py:2: "):
        build.write_all()
    assert (checkout.root / SCRIPT).exists()


def test_orphans_are_named(built):
    (built.root / "solutions" / "90_tiny.py").rename(built.root / "solutions" / "91_tiny.py")
    text = (built.root / "solutions" / "91_tiny.py").read_text(encoding="utf-8").replace("90", "91")
    (built.root / "solutions" / "91_tiny.py").write_text(text, encoding="utf-8")
    assert set(build.write_all(check=True)) >= {SCRIPT, NOTEBOOK, SOLVED, BATCH}
    with pytest.raises(LabError, match="labs/90_tiny.py has no source"):
        build.write_all()


def edit_notebook(checkout, position: int, text: str) -> None:
    path = checkout.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[position].source = text
    nbformat.write(book, path)


def set_aside() -> list[str]:
    folder = labkit.home() / "set_aside"
    return sorted(
        str(path.relative_to(folder)).split("/", 1)[1] for path in folder.rglob("*") if path.is_file()
    )


def test_work_is_set_aside_before_it_is_overwritten(built, capsys):
    edit_notebook(built, 6, "def add(a, b):\n    return 'mine'")
    assert build.write_all() == [NOTEBOOK]
    assert set_aside() == [NOTEBOOK]
    assert capsys.readouterr().out.startswith(f"Set aside: {NOTEBOOK} -> ")
    (folder,) = (labkit.home() / "set_aside").iterdir()
    assert "'mine'" in (folder / NOTEBOOK).read_text()
    assert build.write_all(check=True) == []


def test_what_nobody_edited_is_overwritten_quietly(built, capsys):
    tiny_lab.put(built, tiny_lab.LAB.replace("Write the sum.", "Write their sum."))
    assert build.write_all() == [SCRIPT, NOTEBOOK, SOLVED]
    assert capsys.readouterr().out == ""
    assert set_aside() == []


def test_outputs_are_work_too_and_so_is_a_script(built):
    path = built.root / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    book.cells[1].outputs = [nbformat.v4.new_output("stream", text="measured for an hour")]
    nbformat.write(book, path)
    (built.root / SCRIPT).write_text("mine\n")
    build.write_all()
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
    build.write_all()
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
    lab = build.load("90_tiny")
    for number, (cell, stub) in enumerate(zip(book.cells, build.learner_cells(lab), strict=True)):
        wanted = (
            build.solved_cells(lab)[10].source if number == 10 else "mine = 1" if number == 8 else stub.source
        )
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


def test_other_parameters(built):
    text = (built.root / "solutions/90_tiny.py").read_text(encoding="utf-8")
    changed = build.with_parameters(text, {"length": 7, "name": "é'", "sizes": (3,)})
    assert (
        'length = 7  # numbers\nname = "é\'"  # a word\nsizes = (3,)  # two numbers\n\n# %% [markdown]'
        in changed
    )
    assert len(changed.splitlines()) == len(text.splitlines())
    assert build.with_parameters(text, {}) == text
    with pytest.raises(LabError, match="no parameter 'lenght'. The parameters are length, name, sizes"):
        build.with_parameters(text, {"lenght": 1})


def test_labs_are_found_by_number_or_stem(built):
    for name in ("90", 90, "90_tiny", "90_tiny.py"):
        assert build.find(name) == "90_tiny"
    with pytest.raises(LabError, match="no lab '91'. These exist: 90_tiny"):
        build.find("91")


def test_hints_keep_their_text():
    lab = next(one for one in exercises_in(tiny_lab.LAB) if one.number == "90.1")
    assert lab.title == 'Add "them" up'
    assert lab.hints == [
        ("Hint 1: what is a sum?", "One *after* the other."),
        ("Hint 2: nearly the answer", "`a + …`"),
    ]


class Jupyter:
    """JupyterLab's file side with jupytext's pairing, as the server of `make lab` has it."""

    def __init__(self, root):
        from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
        from jupytext.async_contentsmanager import build_async_jupytext_contents_manager_class as build_class

        shutil.copy(labkit.__file__.split("/labs/")[0] + "/pyproject.toml", root)
        self.manager = build_class(AsyncLargeFileManager)(root_dir=str(root))

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
    build.write_all()
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
