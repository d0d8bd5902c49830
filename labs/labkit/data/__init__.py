"""FACE of labkit.data."""

from labkit.data.files import Dataset
from labkit.data.samples import TRAIN_IMAGES, batches, digits, shard

__all__ = [
    "Dataset",
    "TRAIN_IMAGES",
    "batches",
    "digits",
    "shard",
]
