"""A data set by the name that a lab's parameter `dataset` gives it, in the form that its net takes:
flat."""

from __future__ import annotations

from pathlib import Path

from labkit import paths
from labkit.data.files import Dataset, cifar10, mnist
from labkit.data.samples import digits
from labkit.errors import LabError

FROM_FILES = {"mnist": mnist, "cifar10": cifar10}


def load(dataset: str) -> Dataset:
    """Ten classes of flat images: train_x and test_x are float32 (n, pixels) in [0, 1], labels
    int64.

    dataset: "digits" (64 pixels), or where the learner has the standard files and says in which
    folder, "mnist:FOLDER" (784; Fashion-MNIST's files have the same names) or "cifar10:FOLDER"
    (3,072: 32 x 32 red, then green, then blue). A folder that does not begin with / or ~ is one of
    the checkout. Raises NotHere where a file is missing, and LabError where one is damaged or the
    name is of no data set.
    """
    name, _, folder = dataset.partition(":")
    if dataset == "digits":
        return digits()
    if name not in FROM_FILES:
        raise LabError(
            f'dataset = "{dataset}" names no data set. There are "digits", and of your own files '
            '"mnist:FOLDER" and "cifar10:FOLDER".'
        )
    if not folder:
        raise LabError(
            f'dataset = "{dataset}" does not say in which folder its files are: write'
            f' "{name}:FOLDER". Nothing is downloaded.'
        )
    train_x, train_y, test_x, test_y = FROM_FILES[name](paths.root() / Path(folder).expanduser())
    return Dataset(
        train_x.reshape(len(train_x), -1), train_y, test_x.reshape(len(test_x), -1), test_y
    )
