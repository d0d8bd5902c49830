"""The generator: what it writes, and what it refuses."""

from __future__ import annotations

import ast

import jupytext
import nbformat
import pytest
from authoring import generate, overview
from labkit import labfile
from labkit.errors import LabError

from tests.authoring import tiny_lab
from tests.authoring.tiny_lab import BATCH, NOTEBOOK, SCRIPT, files, set_aside


def test_a_rebuild_changes_no_byte(built):
    before = files(built)
    assert generate.write_all(check=True) == []
    assert generate.write_all() == []
    for name in before:
        if name != "README.md":
            (built.root / name).unlink()
    assert generate.write_all(check=True) == [SCRIPT, NOTEBOOK, BATCH, "docs/LABS.md"]
    assert generate.write_all() == [SCRIPT, NOTEBOOK, BATCH, "docs/LABS.md"]
    assert files(built) == before


def test_a_batch_script_goes_with_several_ranks(built):
    text = (built.root / BATCH).read_text(encoding="utf-8")
    assert "#SBATCH --nodes=2 " in text
    assert "#SBATCH --ntasks-per-node=1 " in text
    assert text.endswith("\nlaunch 90_tiny\n")
    (built.root / BATCH).write_text(text.replace("00:15:00", "01:00:00"), encoding="utf-8")
    assert generate.write_all() == [BATCH]
    assert set_aside() == [BATCH], "a person's own time limit is not lost"
    tiny_lab.put(built, tiny_lab.LAB.replace("Ranks: 2", "Ranks: 1"))
    assert BATCH in generate.write_all(check=True)
    with pytest.raises(LabError, match="slurm/90_tiny.sbatch has no lab with several ranks"):
        generate.write_all()


def test_the_learners_script(built):
    text = (built.root / SCRIPT).read_text(encoding="utf-8")
    begins = "# %% [markdown]\n# <!-- Generated from solutions/90_tiny.py by `make labs`."
    assert text.startswith(begins)
    assert "SOLUTION" not in text
    assert "return a + b" not in text
    assert "    total=...,  # a number, for the ä of it\n    word=...,  # a word\n" in text
    assert '# %% tags=["parameters"]\nlength = 10**3  # numbers\nname = "ünï"  # a word\n' in text
    assert '    raise NotImplementedError("exercise 90.1: Add \\"them\\" up")\n' in text
    assert text.count('raise NotImplementedError("exercise 90.2: Scale a list")') == 2
    ast.parse(text)
    assert text.endswith("# - Sums.\n")


def test_the_notebooks(built):
    book = nbformat.read(built.root / NOTEBOOK, as_version=4)
    solved = nbformat.reads(generate.solved_notebook(generate.load("90_tiny")), as_version=4)
    nbformat.validate(book)
    nbformat.validate(solved)
    numbers = range(1, len(book.cells) + 1)
    assert [cell.id for cell in book.cells] == [f"cell-{number:02d}" for number in numbers]
    script = jupytext.read(built.root / SCRIPT)
    assert [(cell.cell_type, cell.source) for cell in book.cells] == [
        (cell.cell_type, cell.source) for cell in script.cells
    ]
    assert book.metadata.kernelspec.name == "python3"
    assert [cell.metadata for cell in book.cells if cell.metadata] == [{"tags": ["parameters"]}]
    assert not any(cell.get("outputs") for cell in [*book.cells, *solved.cells])
    assert "return a + b" in solved.cells[6].source
    assert "SOLUTION" not in str(solved)
    assert "total=3.5" in solved.cells[4].source
    prose = [cell.source for cell in book.cells if cell.cell_type == "markdown"]
    assert prose[0].partition("\n")[2].startswith("# 90 Tiny lab\n")
    assert prose[1:] == [cell.source for cell in solved.cells if cell.cell_type == "markdown"][1:]


def test_the_readmes_table(built):
    text = (built.root / "README.md").read_text(encoding="utf-8")
    link = "[90 Tiny lab](notebooks/90_tiny.ipynb)"
    summary = "Two small functions, to see how a lab is put together."
    assert f"| Further labs | {link} (5) |\n" in text
    page = (built.root / "docs/LABS.md").read_text(encoding="utf-8")
    row = f"| {link.replace('notebooks', '../notebooks')} | {summary} | beginner | cpu | 2 | 5 |\n"
    assert row in page
    (built.root / "README.md").write_text("no marks\n")
    for check in (True, False):
        with pytest.raises(LabError, match="README.md needs the lines"):
            generate.write_all(check=check)


@pytest.mark.slow
def test_the_course_stands_by_itself_and_every_lab_has_its_place():
    labs = {stem[:2]: generate.load(stem) for stem in labfile.stems()}
    content = overview.read()
    met = [content["begin"]]
    for number in content["course"]:
        assert set(labs[number].header.before) <= set(met), f"lab {number} comes too early"
        met.append(number)
    places = [*met, *(number for row in content["library"].values() for number in row)]
    assert sorted(places) == sorted(labs)


def test_one_wrong_lab_does_not_keep_the_others_from_being_written(checkout):
    tiny_lab.put(checkout)
    (checkout.root / "solutions" / "91_other.py").write_text(tiny_lab.LAB)
    with pytest.raises(LabError, match=r"solutions/91_other\.py:2: "):
        generate.write_all()
    assert (checkout.root / SCRIPT).exists()


def test_orphans_are_named(built):
    (built.root / "solutions" / "90_tiny.py").unlink()
    tiny_lab.put(built, tiny_lab.changed({"90": "91"}), "91_tiny")
    assert set(generate.write_all(check=True)) >= {SCRIPT, NOTEBOOK, BATCH}
    with pytest.raises(LabError, match="labs/90_tiny.py has no source"):
        generate.write_all()


def test_other_parameters(built):
    text = (built.root / "solutions/90_tiny.py").read_text(encoding="utf-8")
    changed = labfile.with_parameters(text, {"length": 7, "name": "é'", "sizes": (3,)})
    cell = 'length = 7  # numbers\nname = "é\'"  # a word\nsizes = (3,)  # two numbers\n\n# %% ['
    assert cell in changed
    assert len(changed.splitlines()) == len(text.splitlines())
    assert labfile.with_parameters(text, {}) == text
    with pytest.raises(LabError, match="no parameter 'lenght'. The parameters are length, name"):
        labfile.with_parameters(text, {"lenght": 1})
    own = text.replace("length = 10", 'print("mine")\nsteps: int = 2\nlength = 10')
    assert "\nsteps: int = 4\nlength = 7" in labfile.with_parameters(own, {"steps": 4, "length": 7})
    with pytest.raises(LabError, match=r"parameters is not Python \(.*\): length = = 10"):
        labfile.with_parameters(text.replace("length = 10", "length = = 10"), {"length": 1})
