"""Training steps whose gradients are summed while backward still runs: on virtual and on real ranks. Lab 32.

A way is a function way(comm, net) that returns (ready, finish) or (ready, finish, before):

    ready(i)   in the backward pass, as soon as net.gradients[i] is there
    finish()   after the backward pass; it calls net.update(i, mean) for every tensor i
    before(i)  in the forward pass, before net.parameters[i] is used

Tensors are numbered in forward order; gradients come from the last to the first.
"""

from labkit.counting import Call, CollectiveLog

from support.lab32.checks import (
    SIZES,
    expect_begun,
    expect_buckets,
    expect_casts,
    expect_one_process,
    expect_watch,
    one_step,
    planned,
)
from support.lab32.ranks import (
    Progress,
    balanced,
    linear_net,
    measure,
    nothing,
    over_slow_link,
    show,
    torch_step,
)
from support.lab32.show import (
    Table,
    bucket_sweep,
    lanes,
    on_gpus,
    plot_beside_s_caffe,
    plot_efficiency,
    strong_scaling,
    table,
    unhidden,
)
from support.lab32.training import Net, Steps, swapped, train, trained_alone

__all__ = [
    "SIZES",
    "Call",
    "Net",
    "Progress",
    "Steps",
    "Table",
    "CollectiveLog",
    "balanced",
    "bucket_sweep",
    "expect_begun",
    "expect_buckets",
    "expect_casts",
    "expect_one_process",
    "expect_watch",
    "lanes",
    "linear_net",
    "measure",
    "nothing",
    "on_gpus",
    "one_step",
    "over_slow_link",
    "planned",
    "plot_beside_s_caffe",
    "plot_efficiency",
    "swapped",
    "show",
    "strong_scaling",
    "table",
    "torch_step",
    "train",
    "trained_alone",
    "unhidden",
]
