"""Which kind of wrong a prediction of activations is."""

import pytest

pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")

from labkit._memory_checks import kind_of_wrong  # noqa: E402  (needs torch)

ROWS = [("conv", 9, 1000), ("relu", 0, 1000), ("pool", 0, 250), ("linear", 90, 40)]
IMAGE, BATCH, RIGHT = 192, 5, 4 * (192 + 1000 + 250 + 40) + 8 * 250


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (0, ""),
        (123, ""),  # no sentence fits: the numbers alone are shown
        (-4 * IMAGE, "images are missing"),
        (-8 * 250, "places of its maxima"),
        (-4 * 40, "last layer's outputs are missing"),
        (4 * 1000, "no output of its own"),
        (RIGHT / BATCH - RIGHT, "bytes of one image"),
    ],
)
def test_kind_of_wrong(change, words):
    layers = pandas.DataFrame(ROWS, columns=["kind", "parameters", "activations"])
    said = kind_of_wrong(BATCH * (RIGHT + change), layers, IMAGE, BATCH, 4)
    assert words in said
    assert bool(said) == bool(words)
