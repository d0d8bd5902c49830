"""What lab 12 needs beside its exercises: a layer's cost, the two roofs, the roofline, and a step to mend.

| name | what it gives |
|---|---|
| `begin` | sets PyTorch's threads; a sentence for parameters that leave nothing to measure |
| `layers`, `run` | the layers that are measured, with their flops and bytes; each of them once |
| `setting` | net, optimizer, images and labels of the step that is too slow |
| `flops` | the operations of a call, as PyTorch counts them |
| `show_roofline`, `compiled` | the roofline with the layers; a compiled function beside the eager one |

The roofline model: Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009.
"""

from support.lab12.counting import flops
from support.lab12.roofline import begin, layers, run, setting
from support.lab12.show import compiled, show_roofline

__all__ = [
    "begin",
    "compiled",
    "flops",
    "layers",
    "run",
    "setting",
    "show_roofline",
]
