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
| checks | `expect_hooks`, `told_by_hooks` | what PyTorch's hooks tell `ready` |
| | `expect_begun`, `expect_two_sides` | when a way begins its sums, and what it broadcasts when |
| | `planned`, `EACH_ALONE`, `ALL_TOGETHER` | the buckets of the toy net's sums |
| | `backward_ms`, `AFTER_FIRST_MS` | how long backward took, and takes alone |
| real ranks | `train_digits`, `train_digits_alone` | PyTorch's net trained in a way, and in one process |
| | `torch_step` | a step in PyTorch in a way |
| | `Arrays` | a net's tensors as arrays for MPI |
| virtual GPUs | `Table`, `table`, `on_gpus`, `messages_alone` | a known net, its steps, its messages |
| | `unhidden`, `one_after_other` | a way without its overlap, and with one sum at a time |
| | `waited_at_once` | a way that waits for each sum as soon as it has begun it |
| | `bucket_sweep`, `lanes`, `plot_efficiency` | what is drawn of them |
"""

from support.lab32.checks import (
    AFTER_FIRST_MS,
    ALL_TOGETHER,
    EACH_ALONE,
    SIZES,
    backward_ms,
    expect_begun,
    expect_hooks,
    expect_two_sides,
    one_step,
    planned,
    told_by_hooks,
)
from support.lab32.gpus import (
    Table,
    messages_alone,
    on_gpus,
    one_after_other,
    table,
    unhidden,
    waited_at_once,
)
from support.lab32.ranks import torch_step, train_digits, train_digits_alone
from support.lab32.show import bucket_sweep, lanes, plot_efficiency
from support.lab32.staging import Arrays
from support.lab32.training import Net, Steps, swapped, train, trained_alone

__all__ = [
    "AFTER_FIRST_MS",
    "ALL_TOGETHER",
    "EACH_ALONE",
    "SIZES",
    "Arrays",
    "Net",
    "Steps",
    "Table",
    "backward_ms",
    "bucket_sweep",
    "expect_begun",
    "expect_hooks",
    "expect_two_sides",
    "lanes",
    "messages_alone",
    "on_gpus",
    "one_after_other",
    "one_step",
    "planned",
    "plot_efficiency",
    "swapped",
    "table",
    "told_by_hooks",
    "torch_step",
    "train",
    "train_digits",
    "train_digits_alone",
    "trained_alone",
    "unhidden",
    "waited_at_once",
]
