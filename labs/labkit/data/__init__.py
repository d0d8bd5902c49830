"""Data for the labs, and the order in which ranks read it. Nothing is ever downloaded.

Always there:

    digits                handwritten digits, 8 x 8 pixels, TRAIN_IMAGES of them to train on
    corpus                Python's own source text, as numbers

From files that the learner has:

    load                  what a lab's parameter `dataset` names: the digits, or files of MNIST or
                          CIFAR-10

The order:

    batches               the global batches of an epoch, the same list on every rank
    shard                 the part of a batch that belongs to a rank
"""

from labkit.data.files import Dataset
from labkit.data.named import load
from labkit.data.order import batches, shard
from labkit.data.samples import TRAIN_IMAGES, corpus, digits
