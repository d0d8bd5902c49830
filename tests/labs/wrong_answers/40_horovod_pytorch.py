"""Mistakes that learners make in lab 40, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"epochs": 2, "workload": "tiny"}

DISTRIBUTED = "hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())"
PARAMETERS = "    hvd.broadcast_parameters(net.state_dict(), root_rank=0)"
STATE = "    hvd.broadcast_optimizer_state(optimizer, root_rank=0)\n"
BATCH = "images_per_rank * hvd.size(), epoch, seed=0"
OWN = "make_step(net, optimizer, images, labels, part(rows))"
START = "    start(net, optimizer)\n"
CURRENT = "    torch.cuda.set_device(number)\n"
RANK_0 = "    if hvd.rank() == 0:\n        torch.save("

# fmt: off
RIGHT = [
    Right("40.1", "started once, a torch.device, a slice with a step",
          ["    hvd.init()\n", "set_device(number)", "data.shard(rows, hvd.rank(), hvd.size())"],
          ["    if not hvd.is_initialized():\n        hvd.init()\n",
           'set_device(torch.device("cuda", number))', "rows[hvd.rank() :: hvd.size()].tolist()"]),
    Right("40.2", "the net by names and tensors, the root by place", [STATE, "net.state_dict(), root_rank=0"],
          [STATE.replace("root_rank=", ""), "list(net.state_dict().items()), 0"]),
    Right("40.3", "the mean by its name, a list of parameters, the rate set in the optimizer's groups",
          [DISTRIBUTED, "lr=rate_per_rank * hvd.size())"],
          ["hvd.DistributedOptimizer(optimizer, list(net.named_parameters()), op=hvd.Average)", """\
lr=rate_per_rank)
    for group in optimizer.param_groups:
        group["lr"] *= hvd.size()"""]),
    Right("40.4", "the sum over the number of ranks; not rank 0: nothing to do; into an open file",
          ["hvd.allreduce(torch.tensor(values)).tolist()", "if hvd.rank() == 0:", "torch.save({",
           "optimizer.state_dict()}, path)"],
          ["[float(value) / hvd.size() for value in hvd.allreduce(torch.tensor(values), op=hvd.Sum)]",
           "if hvd.rank():\n        return\n    with open(path, \"wb\") as file:", "torch.save({",
           "optimizer.state_dict()}, file)"]),
    Right("40.5", "a list of all batches, reported before it is saved", ["""\
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(images), images_per_rank * hvd.size(), epoch, seed=0):
            losses.append(make_step(net, optimizer, images, labels, part(rows)))
""", "    save(net, optimizer, path)\n", "return mean_over_ranks(losses)"], ["""\
    size = hvd.size() * images_per_rank
    batches = [rows for epoch in range(epochs) for rows in data.batches(len(images), size, epoch)]
    losses = [make_step(net, optimizer, images, labels, part(rows)) for rows in batches]
""", "    means = mean_over_ranks(losses)\n", "save(net, optimizer, path)\n    return means"]),
]
WRONG = [
    Wrong("40.1", "no init", "    hvd.init()\n", "", "hvd.init()"),
    Wrong("40.1", "no init where there are GPUs",
          ["    hvd.init()\n", '        return "cpu"\n'], ["", '        hvd.init()\n        return "cpu"\n'],
          "use hvd.init()"),
    Wrong("40.1", "the device by rank, not by local rank", "hvd.local_rank() % gpus", "hvd.rank() % gpus",
          "two ranks and four GPUs: expected 'cuda:0' at [2], got 'cuda:2'"),
    Wrong("40.1", "no remainder: a GPU that is not there", "hvd.local_rank() % gpus", "hvd.local_rank()",
          "three ranks and two GPUs: expected 'cuda:0' at [2], got 'cuda:2'"),
    Wrong("40.1", "a GPU where there is none",
          '    if not gpus:\n        return "cpu"\n', "", "modulo by zero"),
    Wrong("40.1", "the GPU is not made current", CURRENT, "", "GPUs made current by rank, on nodes of two"),
    Wrong("40.1", "always GPU 0 is made current", CURRENT, CURRENT.replace("number", "0"),
          "expected 'cuda:1' at [1][0], got 'cuda:0'"),
    Wrong("40.1", "a GPU is made current on a node that has none",
          '        return "cpu"\n', '        torch.cuda.set_device(0)\n        return "cpu"\n',
          "GPUs made current by rank, on nodes without GPUs"),
    Wrong("40.1", "each node trains on the whole batch",
          "data.shard(rows, hvd.rank(), hvd.size())", "data.shard(rows, hvd.local_rank(), hvd.local_size())",
          "Two ranks take the same samples"),
    Wrong("40.1", "the number of ranks spelled out",
          "data.shard(rows, hvd.rank(), hvd.size())", "rows[hvd.rank() :: 4]",
          "in the batch, with twice as many ranks: expected 12 at [0], got 24"),
    Wrong("40.2", "no broadcast of the parameters", PARAMETERS, "", "The weights by rank (expected: that of rank 0)"),
    Wrong("40.2", "no broadcast of the optimizer's state", STATE, "",
          "The momentum by rank (expected: that of rank 0)"),
    Wrong("40.2", "another root",
          [PARAMETERS, STATE], [PARAMETERS.replace("=0", "=1"), STATE.replace("=0", "=1")],
          "The weights by rank (expected: that of rank 0)"),
    Wrong("40.2", "another root for the optimizer alone", STATE, STATE.replace("=0", "=1"),
          "The momentum by rank (expected: that of rank 0)"),
    Wrong("40.2", "only what is trained",
          "net.state_dict(), root_rank", "list(net.named_parameters()), root_rank",
          "The running mean of the batch normalization by rank"),
    Wrong("40.2", "parameters before the optimizer's state, whose first step moves them",
          STATE + PARAMETERS, PARAMETERS + "\n" + STATE.rstrip(),
          "broadcast_optimizer_state can change weights"),
    Wrong("40.2", "nothing at all", [STATE, PARAMETERS], ["    pass\n", ""],
          "Nothing was sent, so each rank kept its own"),
    Wrong("40.2", "only rank 0 broadcasts: the others never answer",
          PARAMETERS, "    if hvd.rank() == 0:\n    " + PARAMETERS, "rank", hangs=True),
    Wrong("40.3", "no distributed optimizer", DISTRIBUTED, "optimizer", "so nothing was averaged"),
    Wrong("40.3", "sum for mean", DISTRIBUTED, DISTRIBUTED[:-1] + ", op=hvd.Sum)", "summed, not averaged"),
    Wrong("40.3", "learning rate of one rank",
          "rate_per_rank * hvd.size()", "rate_per_rank", "learning rate by rank (it grows with the ranks)"),
    Wrong("40.3", "learning rate by rank", "rate_per_rank * hvd.size()", "rate_per_rank * (1 + hvd.rank())",
          "learning rate by rank (it grows with the ranks)"),
    Wrong("40.3", "learning rate by the ranks of a node",
          "rate_per_rank * hvd.size()", "rate_per_rank * hvd.local_size()",
          "learning rate by rank (it grows with the ranks)"),
    Wrong("40.3", "the number of ranks spelled out", "rate_per_rank * hvd.size()", "rate_per_rank * 4",
          "with twice as many ranks"),
    Wrong("40.3", "momentum, which nobody asked for", "lr=rate_per_rank * hvd.size()",
          "lr=rate_per_rank * hvd.size(), momentum=0.9", "plain SGD changes the weight as much in the second step"),
    Wrong("40.3", "weight decay, which nobody asked for", "lr=rate_per_rank * hvd.size()",
          "lr=rate_per_rank * hvd.size(), weight_decay=1e-4", "for plain SGD without weight decay"),
    Wrong("40.3", "Adam", "torch.optim.SGD(", "torch.optim.Adam(", "for plain SGD without weight decay"),
    Wrong("40.4", "divided by the notebook's number of ranks", "hvd.allreduce(torch.tensor(values)).tolist()",
          "(hvd.allreduce(torch.tensor(values), op=hvd.Sum) / ranks).tolist()",
          "Means of [3, 5] over seven ranks"),
    Wrong("40.4", "a tensor, not a list", ".tolist()", "", "returns a tensor, not a list"),
    Wrong("40.4", "the sum of the losses",
          "torch.tensor(values)", "torch.tensor(values), op=hvd.Sum", "the sum over the ranks, not the mean"),
    Wrong("40.4", "divided once more", "hvd.allreduce(torch.tensor(values))",
          "(hvd.allreduce(torch.tensor(values)) / hvd.size())", "divided by the number of ranks twice"),
    Wrong("40.4", "each rank reports its own",
          "hvd.allreduce(torch.tensor(values)).tolist()", "values", "mean_over_ranks([rank, 5]) on rank 0: 1 of 2 values is off"),
    Wrong("40.4", "the first rank of each node writes",
          "if hvd.rank() == 0:", "if hvd.local_rank() == 0:", "Ranks that wrote the checkpoint"),
    Wrong("40.4", "every rank writes",
          RANK_0, "    if True:\n        torch.save(", "Ranks that wrote the checkpoint"),
    Wrong("40.4", "the optimizer is forgotten",
          ', "optimizer": optimizer.state_dict()}', "}", "The content of the checkpoint"),
    Wrong("40.4", "nothing is returned", "return hvd.allreduce", "hvd.allreduce",
          "mean_over_ranks([rank, 5])"),
    Wrong("40.4", "a message for each value", "hvd.allreduce(torch.tensor(values)).tolist()",
          "[hvd.allreduce(torch.tensor(value)).item() for value in values]",
          "Average all values of the list in one call"),
    Wrong("40.4", "the right names, nothing under them", "net.state_dict(), \"optimizer\"",
          'dict.fromkeys(net.state_dict()), "optimizer"', "The content of the checkpoint"),
    Wrong("40.4", "only rank 0 returns the means", "return hvd.allreduce(torch.tensor(values)).tolist()",
          "means = hvd.allreduce(torch.tensor(values)).tolist()\n"
          "    if hvd.rank() == 0:\n        return means", "on rank 1: got None"),
    Wrong("40.4", "the parameters, without what else a layer keeps", '"net": net.state_dict()',
          '"net": dict(net.named_parameters())', "expected the keys ['0.bias', '0.num_batches_tracked'"),
    Wrong("40.4", "the net itself, not its state", '{"net": net.state_dict(),', '{"net": net,',
          "The content of the checkpoint"),
    Wrong("40.5", "all ranks take all images of a batch", OWN, OWN.replace("part(rows)", "rows"),
          "at ['part']"),
    Wrong("40.5", "the batch of one rank", BATCH, "images_per_rank, epoch, seed=0",
          "global batch has images_per_rank images for each"),
    Wrong("40.5", "the ranks' global batches differ", BATCH, BATCH.replace("=0", "=hvd.rank()"),
          "The first loss (did all ranks begin with rank 0's network"),
    Wrong("40.5", "nets begin as they are", START, "", "at ['start']"),
    Wrong("40.5", "a piece by its name", "part(rows)", "my_rows(rows)",
          "Train has to call its arguments, not make_optimizer"),
    Wrong("40.5", "a plain optimizer", "optimizer = optimize(net)",
          "optimizer = torch.optim.SGD(net.parameters(), lr=rate_per_rank * hvd.size())",
          "Train has to call its arguments, not make_optimizer"),
    Wrong("40.5", "a message in every step", [OWN, "return mean_over_ranks(losses)"],
          [f"mean_over_ranks([{OWN}])[0]", "return losses"], "in one call after the last step"),
    Wrong("40.5", "the notebook's global batch", BATCH, "whole_batch, epoch, seed=0",
          "with twice as many ranks"),
    Wrong("40.5", "a file after every epoch", "    save(net, optimizer, path)\n",
          "        save(net, optimizer, path)\n", "Files that rank 0 wrote: expected 1, got 2"),
    Wrong("40.5", "all begin equal before the optimizer is there", ["    optimizer = optimize(net)\n", START],
          ["    start(net, torch.optim.SGD(net.parameters(), lr=rate_per_rank))\n",
           "    optimizer = optimize(net)\n"], "`start` did not get the optimizer that `optimize` returns"),
    Wrong("40.5", "nobody saves", "    save(net, optimizer, path)\n", "", "No rank saved"),
    Wrong("40.5", "nothing is returned", "return mean_over_ranks(losses)", "mean_over_ranks(losses)",
          "train returned nothing"),
]
