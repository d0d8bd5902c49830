"""Lab 32: training steps whose gradients are summed while backward still runs, on virtual and on real ranks.

A way is a function way(comm, net) that returns (ready, finish) or (ready, finish, before):

    ready(i)   in the backward pass, as soon as net.gradients[i] is there
    finish()   after the backward pass; it calls net.update(i, mean) for every tensor i
    before(i)  in the forward pass, before net.parameters[i] is used

Tensors are numbered in forward order; gradients come from the last to the first.

| of | name | what it is |
|---|---|---|
| a toy net | `Net`, `train`, `trained_alone` | its arrays; trained in a way on ranks, and in one process |
| | `SIZES`, `one_step` | its tensors, and what a rank saw of a step (`Steps`) |
| | `swapped` | what happens if gradients come in another order on one rank |
| checks | `told_by_hooks` | what PyTorch's hooks tell `ready` |
| | `planned`, `EACH_ALONE`, `ALL_TOGETHER` | the buckets of the toy net's sums |
| | `begun`, `backward_ms`, `AFTER_FIRST_MS` | when sums began; how long backward took, and takes alone |
| real ranks | `train_digits`, `train_digits_alone` | PyTorch's net trained in a way, and in one process |
| | `torch_step`, `arithmetic_step` | a step in PyTorch in a way, and without messages |
| | `linear_net`, `balanced` | its net, and its images |
| | `Arrays` | a net's tensors as arrays for MPI |
| | `Progress` | a thread that calls MPI |
| | `measure`, `show`, `over_slow_link` | ways timed, shown and recorded; over a slow link |
| virtual GPUs | `Table`, `table`, `on_gpus`, `unhidden` | a known net, its steps, a way without overlap |
| | `bucket_sweep`, `lanes`, `plot_efficiency`, `plot_beside_s_caffe` | what is drawn of them |
"""

from support.lab32.checks import (
    AFTER_FIRST_MS,
    ALL_TOGETHER,
    EACH_ALONE,
    SIZES,
    backward_ms,
    begun,
    one_step,
    planned,
    told_by_hooks,
)
from support.lab32.gpus import Table, on_gpus, table, unhidden
from support.lab32.ranks import (
    Progress,
    arithmetic_step,
    balanced,
    linear_net,
    measure,
    torch_step,
    train_digits,
    train_digits_alone,
)
from support.lab32.show import (
    bucket_sweep,
    lanes,
    over_slow_link,
    plot_beside_s_caffe,
    plot_efficiency,
    show,
)
from support.lab32.staging import Arrays
from support.lab32.training import Net, Steps, swapped, train, trained_alone

__all__ = [
    "AFTER_FIRST_MS",
    "ALL_TOGETHER",
    "EACH_ALONE",
    "SIZES",
    "Arrays",
    "Net",
    "Progress",
    "Steps",
    "Table",
    "arithmetic_step",
    "backward_ms",
    "balanced",
    "begun",
    "bucket_sweep",
    "lanes",
    "linear_net",
    "measure",
    "on_gpus",
    "one_step",
    "over_slow_link",
    "plot_beside_s_caffe",
    "plot_efficiency",
    "planned",
    "show",
    "swapped",
    "table",
    "told_by_hooks",
    "torch_step",
    "train",
    "train_digits",
    "train_digits_alone",
    "trained_alone",
    "unhidden",
]
