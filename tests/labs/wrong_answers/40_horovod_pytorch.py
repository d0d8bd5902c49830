"""Mistakes that learners make in lab 40, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 2}

DISTRIBUTED = "hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())"
PARAMETERS = "    hvd.broadcast_parameters(net.state_dict(), root_rank=0)\n"
STATE = "    hvd.broadcast_optimizer_state(optimizer, root_rank=0)"
RANK_0 = "    if hvd.rank() == 0:\n        torch.save("

# fmt: off
WRONG = [
    Wrong("40.1", "no init", "    hvd.init()\n", "", "hvd.init()"),
    Wrong("40.1", "the device by rank, not by local rank", "{hvd.local_rank() % gpus}", "{hvd.rank()}",
          "two ranks and two GPUs on each node: expected 'cuda:0' at [2], got 'cuda:2'"),
    Wrong("40.1", "all on the first GPU", "{hvd.local_rank() % gpus}", "0", "expected 'cuda:1' at [1]"),
    Wrong("40.1", "a GPU that is not there", ' if gpus else "cpu"', "", "modulo by zero"),
    Wrong("40.1", "every rank trains on all images",
          "data.shard(rows, hvd.rank(), hvd.size())", "rows", "takes the same samples"),
    Wrong("40.1", "every rank takes the first part",
          "data.shard(rows, hvd.rank(), hvd.size())", "data.shard(rows, 0, hvd.size())",
          "takes the same samples"),
    Wrong("40.1", "images dropped",
          "data.shard(rows, hvd.rank(), hvd.size())", "data.shard(rows, hvd.rank(), 2 * hvd.size())",
          "images by rank, of 48 in the batch: expected 12 at [0], got 6"),
    Wrong("40.2", "no broadcast of the parameters", PARAMETERS, "", "Sum of the weights by rank"),
    Wrong("40.2", "no broadcast of the optimizer's state", STATE, "", "Sum of the momentum by rank"),
    Wrong("40.2", "another root",
          [PARAMETERS, STATE], [PARAMETERS.replace("=0", "=1"), STATE.replace("=0", "=1")],
          "Learning rate by rank, in the optimizer's state (rank 0's is 1)"),
    Wrong("40.2", "only rank 0 broadcasts: the others never answer",
          PARAMETERS, "    if hvd.rank() == 0:\n    " + PARAMETERS, "rank"),
    Wrong("40.3", "no distributed optimizer", DISTRIBUTED, "optimizer", "nothing is averaged"),
    Wrong("40.3", "sum for mean", DISTRIBUTED, DISTRIBUTED[:-1] + ", op=hvd.Sum)", "summed, not averaged"),
    Wrong("40.3", "learning rate of one rank",
          "rate_per_rank * hvd.size()", "rate_per_rank", "learning rate by rank (it grows with the ranks)"),
    Wrong("40.3", "learning rate by rank", "rate_per_rank * hvd.size()", "rate_per_rank * (1 + hvd.rank())",
          "learning rate by rank (it grows with the ranks)"),
    Wrong("40.4", "the sum of the losses",
          'torch.tensor(values), name="metric"', 'torch.tensor(values), name="metric", op=hvd.Sum',
          "the sum over the ranks, not the mean"),
    Wrong("40.4", "each rank reports its own",
          'hvd.allreduce(torch.tensor(values), name="metric").tolist()', "values",
          "mean_over_ranks([rank, 5]), by rank"),
    Wrong("40.4", "every rank writes",
          RANK_0, "    if True:\n        torch.save(", "Ranks that wrote the checkpoint"),
    Wrong("40.4", "the last rank writes",
          "if hvd.rank() == 0:", "if hvd.rank() == hvd.size() - 1:", "Ranks that wrote the checkpoint"),
    Wrong("40.4", "the optimizer is forgotten",
          ', "optimizer": optimizer.state_dict()}', "}", "What the checkpoint holds"),
]
