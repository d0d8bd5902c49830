"""What `profiling.record` records with: a recorder for each kind, and all of them together.

| kind | what it sees |
|---|---|
| spans | what `span` and `mark` say; always |
| torch | torch.profiler: operators on the CPU's threads, kernels on a GPU's streams |
| tensorflow | TensorFlow's profiler: operations on its threads, and on a GPU's streams |
| horovod | Horovod's timeline: which library carried tensors, and waiting for all ranks |
| nsys | nothing by itself: it marks ranges for NVIDIA's Nsight Systems |

A module of a kind is loaded when that kind is asked for.
"""

from labkit.profiling.recorders.together import KINDS, Recorder, Together

__all__ = ["KINDS", "Recorder", "Together"]
