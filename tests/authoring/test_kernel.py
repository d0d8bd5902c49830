"""Cells in a kernel, as the tour and the visits run them."""

import pytest
from authoring import kernel
from authoring.cell import Cell
from labkit import paths

SLIDER = """\
import ipywidgets
ipywidgets.interact(lambda turns: print("turns:", turns), turns=(0, 4));"""


@pytest.mark.slow
def test_what_a_slider_draws_comes_to_its_cell():
    """Were it sent to the widget instead, some runs would never end."""
    cells = [Cell("code", SLIDER, 0)]
    book, error = kernel.run("00_sliders", cells, paths.root(), seconds=120, env={})
    assert error is None
    printed = [output.text for output in book.cells[0].outputs if output.output_type == "stream"]
    assert "turns: 2" in "".join(printed)
