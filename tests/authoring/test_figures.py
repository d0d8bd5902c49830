"""Concept figures: up to date, readable, and shown by their lab."""

import pytest
from authoring import figures, links
from labkit import labfile, paths

from tests.labkit.plots import texts

ROOT = paths.root()
NUMBERS = {stem[:2]: stem for stem in labfile.stems(ROOT)}


@pytest.fixture(scope="module")
def drawn():
    return list(figures.drawn(NUMBERS))


@pytest.mark.slow
def test_figures_can_be_read_and_their_files_are_those_that_are_drawn(drawn):
    for name, canvas, text in drawn:
        assert not texts.faults(canvas.figure), name
        assert text == (ROOT / figures.FOLDER / name).read_text(encoding="utf-8"), (
            f"{name} is stale: `make labs` draws it anew"
        )


@pytest.mark.slow
def test_each_figure_is_shown_by_its_lab_and_none_is_left_over(drawn):
    shown = {
        name
        for stem in NUMBERS.values()
        for name in links.figures(labfile.solved_script(stem).read_text(encoding="utf-8"))
    }
    assert shown == {path.name for path in (ROOT / figures.FOLDER).glob("*.svg")}
    assert shown == {name for name, *_ in drawn}


def test_an_old_figure_is_named_and_goes(tmp_path):
    folder = tmp_path / figures.FOLDER
    folder.mkdir(parents=True)
    (folder / "40_old.svg").write_text("<svg/>")
    names = [f"{figures.FOLDER}/40_step.svg", f"{figures.FOLDER}/40_old.svg"]
    assert figures.write(tmp_path, ["40"], check=True) == names
    assert not (folder / "40_step.svg").exists()
    assert figures.write(tmp_path, ["40"]) == names
    assert figures.write(tmp_path, ["40"]) == []
