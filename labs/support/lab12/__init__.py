"""What lab 12 needs beside its exercises: a layer's cost, the two roofs, the roofline, and a step to mend.

| name | what it gives |
|---|---|
| `begin` | sets PyTorch's threads; a sentence for parameters that leave nothing to measure |
| `layers`, `run` | the layers that are measured, with their flops and bytes; each of them once |
| `setting` | net, optimizer, images and labels of the step that is too slow |
| `flops` | the operations of a call, as PyTorch counts them |
| `trial_layers` | layers of odd shapes, with the flops and bytes that PyTorch's tensors tell |
| `watch` | what a function does with `timing.measure`, told by a clock that counts |
| `wrong_rates` | the values of known mistakes in a rate, by the times of that clock |
| `measure_both` | the learner's roof, and labkit's own beside it |
| `train_both` | the slow step and the quick one side by side: losses, weights, operators, bytes |
| `show_roofline`, `compiled` | the roofline with the layers; a compiled function beside the eager one |

The roofline model: Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009.
"""

from support.lab12.cases import trial_layers
from support.lab12.checks import measure_both, train_both, watch, wrong_rates
from support.lab12.counting import flops
from support.lab12.roofline import begin, layers, run, setting
from support.lab12.show import compiled, show_roofline

__all__ = [
    "begin",
    "compiled",
    "flops",
    "layers",
    "measure_both",
    "run",
    "setting",
    "show_roofline",
    "train_both",
    "trial_layers",
    "watch",
    "wrong_rates",
]
