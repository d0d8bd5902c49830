"""Lab 41: Horovod in TensorFlow and Keras: what its checks try, and ResNet-50 on ranks and threads.

What tries and measures runs on ranks, after `hvd.init()`. TensorFlow and Horovod are imported when they are
first needed.

| of | name | what it is |
|---|---|---|
| checks | `on_a_node`, `Devices` | a node that is made up: numbers on it, and its GPUs |
| | `plans`, `as_text` | how many variables each broadcast would send, by rank |
| | `expect_as_one_process` | two steps on all ranks, beside one process |
| | `steps_seen` | a callback of fit: the loss of each step, and whether the nets were equal |
| | `suspect` | what to look at first where many ranks do not compute what one does |
| ResNet-50 | `network` | a net of keras.applications, and pictures made of random numbers |
| | `on_rank_0` | a call that rank 0 makes alone while the others sleep |
| | `facts` | what a record says beside its times: pictures, gradients, cores, where tensors are |
| shown | `crowding` | a sentence on cores that ranks share, or do not |
| | `keep`, `show_rates` | a record, and a plot, of images per second by ranks |
| | `show_ways` | ranks and threads beside each other |
| | `show_study` | images per second of jobs |
"""

from support.lab41.callbacks import steps_seen
from support.lab41.checks import Devices, as_text, expect_as_one_process, on_a_node, plans, suspect
from support.lab41.resnet import facts, network, on_rank_0
from support.lab41.show import crowding, keep, show_rates, show_study, show_ways

__all__ = [
    "Devices",
    "as_text",
    "crowding",
    "expect_as_one_process",
    "facts",
    "keep",
    "network",
    "on_a_node",
    "on_rank_0",
    "plans",
    "show_rates",
    "show_study",
    "show_ways",
    "steps_seen",
    "suspect",
]
