"""Data for the labs, and the order in which ranks read it. Nothing is ever downloaded.

Always there:

    digits                handwritten digits, 8 x 8 pixels, TRAIN_IMAGES of them to train on
    synthetic_imagenet    random images in ImageNet's shape
    corpus                Python's own source text, as numbers

From files that the learner has:

    load                  what a lab's parameter `dataset` names: the digits, or one of the next two, flat
    mnist, cifar10        the standard files, as a Dataset
    image_folder          a folder for each class, as ImageNet's

The order:

    batches               the global batches of an epoch, the same list on every rank
    shard                 the part of a batch that belongs to a rank
"""

from labkit.data.files import Dataset, cifar10, mnist
from labkit.data.folder import image_folder
from labkit.data.named import load
from labkit.data.order import batches, shard
from labkit.data.samples import TRAIN_IMAGES, corpus, digits, synthetic_imagenet

__all__ = [
    "TRAIN_IMAGES",
    "Dataset",
    "batches",
    "cifar10",
    "corpus",
    "digits",
    "image_folder",
    "load",
    "mnist",
    "shard",
    "synthetic_imagenet",
]
