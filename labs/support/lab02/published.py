"""Published costs and speeds of training, as their sources give them."""

from __future__ import annotations

from typing import NamedTuple

PETAFLOP_DAY = 1e15 * 86_400  # operations: 10^15 a second, for a day


class Cost(NamedTuple):
    """What training one net cost. days: petaflop/s-days. counted: by operations, not by GPUs and hours."""

    net: str
    year: float
    days: float
    counted: bool
    source: str


_OPENAI = "Amodei and Hernandez, AI and Compute, OpenAI 2018, appendix"
_BROWN = "Brown and others, Language Models are Few-Shot Learners, 2020, table D.1"

# The years are those of the papers' first versions on arXiv, or of the conference (AlexNet). GPT-3's table
# gives 3.64e3 petaflop/s-days.
COSTS = (
    Cost("AlexNet", 2012.9, 0.0054, True, _OPENAI),
    Cost("DQN", 2013.9, 2.7e-5, True, _OPENAI),
    Cost("VGG-16", 2014.7, 0.098, True, _OPENAI),
    Cost("Seq2Seq", 2014.7, 0.085, True, _OPENAI),
    Cost("ResNet-152", 2015.9, 0.117, True, _OPENAI),
    Cost("Deep Speech 2", 2015.9, 0.30, True, _OPENAI),
    Cost("Neural translation", 2016.7, 79.0, False, _OPENAI),
    Cost("Xception", 2016.8, 5.0, False, _OPENAI),
    Cost("Architecture search", 2016.8, 22.0, True, _OPENAI),
    Cost("GPT-3", 2020.4, 3640.0, True, _BROWN),
)

# Images per second in training, synthetic images, one P100 of a DGX-1; 512 images a step for AlexNet, 64 for
# the others. TensorFlow's page "Benchmarks", May 2017.
P100 = {"alexnet": 2987.0, "inception_v3": 142.0, "resnet50": 219.0, "vgg16": 154.0}

# (images per second of 64 GPUs, of one): 16 servers of 4 Pascal GPUs, 40 Gb/s, 64 images a GPU, Horovod with
# NCCL over TCP. Horovod's README, commit d54e3a88 (2017).
SCALED = {"inception_v3": (7932.1, 148.8), "resnet101": (7741.6, 136.0), "vgg16": (6084.2, 149.6)}
