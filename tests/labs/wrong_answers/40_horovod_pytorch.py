"""Mistakes that learners make in lab 40, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 2}

DISTRIBUTED = "hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())"
PARAMETERS = "    hvd.broadcast_parameters(net.state_dict(), root_rank=0)\n"
STATE = "    hvd.broadcast_optimizer_state(optimizer, root_rank=0)"
RANK_0 = "    if hvd.rank() == 0:\n        torch.save("

WRONG = [
    Wrong("40.1", "no init", old="    hvd.init()\n", new="", says="hvd.init()"),
    Wrong(
        "40.1",
        "the device by rank, not by local rank",
        old="{hvd.local_rank() % gpus}",
        new="{hvd.rank()}",
        says="two ranks and two GPUs on each node: expected 'cuda:0' at [2], got 'cuda:2'",
    ),
    Wrong(
        "40.1",
        "all on the first GPU",
        old="{hvd.local_rank() % gpus}",
        new="0",
        says="expected 'cuda:1' at [1]",
    ),
    Wrong(
        "40.1",
        "a GPU that is not there",
        old=' if gpus else "cpu"',
        new="",
        says="modulo by zero",
    ),
    Wrong(
        "40.1",
        "every rank trains on all images",
        old="data.shard(rows, hvd.rank(), hvd.size())",
        new="rows",
        says="takes the same samples",
    ),
    Wrong(
        "40.1",
        "every rank takes the first part",
        old="data.shard(rows, hvd.rank(), hvd.size())",
        new="data.shard(rows, 0, hvd.size())",
        says="takes the same samples",
    ),
    Wrong(
        "40.1",
        "images dropped",
        old="data.shard(rows, hvd.rank(), hvd.size())",
        new="data.shard(rows, hvd.rank(), 2 * hvd.size())",
        says="images by rank, of 48 in the batch: expected 12 at [0], got 6",
    ),
    Wrong(
        "40.2", "no broadcast of the parameters", old=PARAMETERS, new="", says="Sum of the weights by rank"
    ),
    Wrong(
        "40.2", "no broadcast of the optimizer's state", old=STATE, new="", says="Sum of the momentum by rank"
    ),
    Wrong(
        "40.2",
        "another root",
        old=[PARAMETERS, STATE],
        new=[PARAMETERS.replace("=0", "=1"), STATE.replace("=0", "=1")],
        says="Learning rate by rank, in the optimizer's state (rank 0's is 1)",
    ),
    Wrong(
        "40.2",
        "only rank 0 broadcasts: the others never answer",
        old=PARAMETERS,
        new="    if hvd.rank() == 0:\n        hvd.broadcast_parameters(net.state_dict(), root_rank=0)\n",
        says="rank",
    ),
    Wrong("40.3", "no distributed optimizer", old=DISTRIBUTED, new="optimizer", says="nothing is averaged"),
    Wrong(
        "40.3",
        "sum for mean",
        old=DISTRIBUTED,
        new=DISTRIBUTED[:-1] + ", op=hvd.Sum)",
        says="summed, not averaged",
    ),
    Wrong(
        "40.3",
        "learning rate of one rank",
        old="rate_per_rank * hvd.size()",
        new="rate_per_rank",
        says="learning rate by rank (it grows with the ranks)",
    ),
    Wrong(
        "40.3",
        "learning rate by rank",
        old="rate_per_rank * hvd.size()",
        new="rate_per_rank * (1 + hvd.rank())",
        says="learning rate by rank (it grows with the ranks)",
    ),
    Wrong(
        "40.4",
        "the sum of the losses",
        old='torch.tensor(values), name="metric"',
        new='torch.tensor(values), name="metric", op=hvd.Sum',
        says="the sum over the ranks, not the mean",
    ),
    Wrong(
        "40.4",
        "each rank reports its own",
        old='hvd.allreduce(torch.tensor(values), name="metric").tolist()',
        new="values",
        says="mean_over_ranks([rank, 5]), by rank",
    ),
    Wrong(
        "40.4",
        "every rank writes",
        old=RANK_0,
        new="    if True:\n        torch.save(",
        says="Ranks that wrote the checkpoint",
    ),
    Wrong(
        "40.4",
        "the last rank writes",
        old="if hvd.rank() == 0:",
        new="if hvd.rank() == hvd.size() - 1:",
        says="Ranks that wrote the checkpoint",
    ),
    Wrong(
        "40.4",
        "the optimizer is forgotten",
        old=', "optimizer": optimizer.state_dict()}',
        new="}",
        says="What the checkpoint holds",
    ),
]
