"""Mistakes that learners make in lab 30, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"epochs": 1, "workers": 2, "patience": 15, "workload": "tiny"}

BCAST = "comm.Bcast(weights, root=0)"
ALLREDUCE = """    total = np.empty_like(own)
    # Across ranks: one sum for all gradients, and everybody gets it.
    comm.Allreduce(own, total)
    from_vector(total / comm.size, gradients)"""
AVERAGE = """            # Across ranks: the mean of all ranks' gradients, before anybody moves.
            average(comm, net)
            optimizer.step()
"""
LOSS = "comm.allreduce(loss.item()) / comm.size"

# fmt: off
RIGHT = [
    Right("30.1", "a list, by the remainder", "rows[rank::size]",
          "[row for place, row in enumerate(rows) if place % size == rank]"),
    Right("30.1", "a block for each rank", "rows[rank::size]", "np.array_split(rows, size)[rank]"),
    Right("30.2", "rank 0's array, received by the others", [BCAST], [
        "weights = weights if comm.rank == 0 else np.empty_like(weights)\n    comm.Bcast(buf=weights)"]),
    Right("30.2", "an object for all", BCAST, "weights = comm.bcast(weights)"),
    Right("30.2", "a request, and a wait for its end", BCAST, "comm.Ibcast(weights, root=0).Wait()"),
    Right("30.2", "new parameters from what rank 0 sends", BCAST, """\
for layer, theirs in zip(net, comm.bcast(net), strict=True):
        if hasattr(layer, "weight"):
            layer.weight = torch.nn.Parameter(theirs.weight.detach().clone())
            layer.bias = torch.nn.Parameter(theirs.bias.detach().clone())
    weights = to_vector(net.parameters())"""),
    Right("30.3", "a request, and a wait for its end", "comm.Allreduce(own, total)",
          "comm.Iallreduce(own, total).Wait()"),
    Right("30.3", "summed in float64, written back as float32", ALLREDUCE, """\
    total = np.empty(own.size)
    comm.Allreduce(own.astype(np.float64), total)
    from_vector((total / comm.size).astype(np.float32), gradients)"""),
    Right("30.3", "gathered by all, and the mean along the ranks", ALLREDUCE, """\
    every = np.empty((comm.size, own.size), own.dtype)
    comm.Allgather(own, every)
    from_vector(every.mean(axis=0), gradients)"""),
    Right("30.3", "in place, with MPI's names", ALLREDUCE, """\
    from mpi4py import MPI

    comm.Allreduce(MPI.IN_PLACE, [own, MPI.FLOAT], op=MPI.SUM)
    own /= comm.Get_size()
    from_vector(own, gradients)"""),
    Right("30.3", "new gradients, and nothing to do on one rank", ALLREDUCE, """\
    if comm.size == 1:
        return
    total = np.empty_like(own)
    comm.Allreduce(sendbuf=own, recvbuf=total)
    start = 0
    for weight in net.parameters():
        part = total[start : start + weight.numel()] / comm.size
        weight.grad = torch.from_numpy(part).view_as(weight)
        start += weight.numel()"""),
    Right("30.4", "a NumPy number", LOSS, "comm.allreduce(loss.detach().numpy()) / comm.size"),
    Right("30.4", "an array of one loss", f"losses.append({LOSS})", """\
total = np.empty(1, np.float32)
            comm.Allreduce(np.array([loss.item()], np.float32), total)
            losses.append(total[0] / np.float32(comm.size))"""),
]
WRONG = [
    Wrong("30.1", "every rank works on the whole batch",
          "rows[rank::size]", "rows", "Images on each of 2 ranks: expected 64"),
    Wrong("30.1", "every rank takes the first part",
          "rows[rank::size]", "rows[: len(rows) // size]", "64 images are seen twice, and as many by nobody"),
    Wrong("30.1", "one further each rank, not size further",
          "rows[rank::size]", "rows[rank : rank + len(rows) // size]", "images are seen twice"),
    Wrong("30.1", "places in the batch instead of image numbers",
          "rows[rank::size]", "np.arange(rank, len(rows), size)", "some rows are not of this batch at all"),
    Wrong("30.1", "each rank draws its images by lot",
          "rows[rank::size]", "np.random.default_rng(rank).choice(rows, len(rows) // size, replace=False)",
          "images are seen twice"),
    Wrong("30.1", "rows before the rank are forgotten",
          "rows[rank::size]", "rows[rank:]", "Images on each of 2 ranks"),
    Wrong("30.1", "the lab's batch, not the rows that are given",
          "rows[rank::size]", "rows[rank * (batch // size) : (rank + 1) * (batch // size)]",
          "a batch of 24 images"),
    Wrong("30.1", "for powers of two alone", "rows[rank::size]",
          "rows[np.arange(len(rows)) & (size - 1) == rank]", "Images on each of 3 ranks"),
    Wrong("30.1", "shuffles the caller's rows", "return rows[rank::size]",
          "np.random.default_rng(0).shuffle(rows)\n    return rows[rank::size]", "the array `rows` was changed"),
    Wrong("30.1", "rows as floats", "rows[rank::size]", "rows[rank::size] * 1.0",
          "a list or an array of integers"),
    Wrong("30.1", "a tuple, which picks a single value of images", "rows[rank::size]",
          "tuple(rows[rank::size])", "A tuple cannot pick images"),
    Wrong("30.1", "nothing is returned", "return rows", "rows", "has to return image numbers"),
    Wrong("30.2", "written back before the broadcast",
          [f"    {BCAST}\n", "    from_vector(weights, net.parameters())"],
          ["", f"    from_vector(weights, net.parameters())\n    {BCAST}"],
          "Unchanged: it is what this rank drew itself"),
    Wrong("30.2", "the broadcast is forgotten", BCAST, "pass",
          "Unchanged: it is what this rank drew itself"),
    Wrong("30.2", "the vector is never written back",
          "    from_vector(weights, net.parameters())", "", "Unchanged: it is what this rank drew itself"),
    Wrong("30.2", "weights without biases",
          ["to_vector(net.parameters())", "from_vector(weights, net.parameters())"],
          ["to_vector([weight for weight in net.parameters() if weight.ndim > 1])",
           "from_vector(weights, [weight for weight in net.parameters() if weight.ndim > 1])"],
          "rank 1, 0.bias"),
    Wrong("30.2", "no message: every rank draws rank 0's weights, whose seed it knows",
          ["    weights = to_vector(net.parameters())\n", f"    {BCAST}\n"],
          ["    weights = to_vector(nets.torch_digits(nets.start_weights(seed=0)).parameters())\n", ""],
          "It should be what rank 0 began with"),
    Wrong("30.2", "the mean of all starts",
          BCAST, "weights = sum(comm.allgather(weights)) / comm.size", "rank 0, 0.weight"),
    Wrong("30.2", "every rank is the root of its own broadcast", "root=0", "root=comm.rank", "root",
          hangs=True),
    Wrong("30.2", "only rank 0 calls the broadcast",
          BCAST, "comm.rank == 0 and comm.Bcast(weights, root=0)", "rank 0 waits in line 5 of start_equal",
          hangs=True),
    Wrong("30.2", "float64 weights, which no float32 image can meet", "to_vector(net.parameters())",
          "to_vector(net.parameters()).astype(np.float64)", "0.weight is now float64"),
    Wrong("30.2", "never waited for", BCAST, "comm.Ibcast(weights, root=0)",
          "comm.Ibcast only starts, and its request is never waited for"),
    Wrong("30.2", "the last rank's weights", "root=0", "root=comm.size - 1", "It is what rank 1 drew"),
    Wrong("30.2", "messages to the lab's number of ranks, not to those of comm", BCAST, """\
if comm.rank == 0:
        for other in range(1, ranks):
            comm.Send(weights, dest=other)
    else:
        comm.Recv(weights, source=0)""", "there is no such rank"),
    Wrong("30.2", "weights that no longer learn", "    from_vector(weights, net.parameters())", """\
    from_vector(weights, net.parameters())
    for weight in net.parameters():
        weight.requires_grad = False""", "no longer takes a gradient"),
    Wrong("30.3", "right for the digits' six gradients alone",
          "for weight in net.parameters()]", "for weight in list(net.parameters())[:6]]",
          "of a convolutional net"),
    Wrong("30.3", "float64 gradients", ALLREDUCE, """\
    total = np.empty(own.size)
    comm.Allreduce(own.astype(np.float64), total)
    from_vector(total / comm.size, gradients)""", "is right, but float64"),
    Wrong("30.3", "never waited for", "comm.Allreduce(own, total)", "comm.Iallreduce(own, total)",
          "comm.Iallreduce only starts, and its request is never waited for"),
    Wrong("30.3", "divided, but nothing was sent", ALLREDUCE,
          "    from_vector(own / comm.size, gradients)", "own gradient, divided by comm.size"),
    Wrong("30.3", "the mean goes into the weights", "from_vector(total / comm.size, gradients)",
          "from_vector(total / comm.size, net.parameters())", "0.weight itself was changed"),
    Wrong("30.3", "gradients are cleared at the end", "    from_vector(total / comm.size, gradients)",
          "    from_vector(total / comm.size, gradients)\n    net.zero_grad()",
          "there is none after the call"),
    Wrong("30.3", "sum for mean", "total / comm.size", "total", "This is the sum, not the mean"),
    Wrong("30.3", "divided by the number of tensors", "total / comm.size", "total / len(gradients)",
          "divide the sum by comm.size, once"),
    Wrong("30.3", "the mean is never written back",
          "    from_vector(total / comm.size, gradients)", "", "is still this rank's own"),
    Wrong("30.3", "biases are forgotten",
          "for weight in net.parameters()", "for weight in net.parameters() if weight.ndim > 1",
          "The gradient of 0.bias is still this rank's own"),
    Wrong("30.3", "weights are averaged instead of gradients",
          "weight.grad for weight in net.parameters()", "weight for weight in net.parameters()",
          "is still this rank's own"),
    Wrong("30.3", "one message for each tensor", "    own = to_vector(gradients)\n" + ALLREDUCE, """\
    for gradient in gradients:
        total = np.empty_like(gradient.numpy())
        comm.Allreduce(gradient.numpy(), total)
        gradient.copy_(torch.from_numpy(total / comm.size))""", "it took 6 calls of MPI"),
    Wrong("30.3", "an allreduce that pickles", ALLREDUCE,
          "    total = comm.allreduce(own)\n    from_vector(total / comm.size, gradients)",
          "the call for arrays is written with a capital"),
    Wrong("30.4", "average after the update",
          AVERAGE, "            optimizer.step()\n            average(comm, net)\n",
          "The loss after one update"),
    Wrong("30.4", "the average is forgotten",
          "            average(comm, net)\n", "", "was called 0 times in 12 steps"),
    Wrong("30.4", "the net never moves",
          "            optimizer.step()\n", "", "`optimizer.step()` is missing"),
    Wrong("30.4", "the loss of the whole batch, computed once more on every rank",
          "comm.allreduce(loss.item()) / comm.size",
          "F.cross_entropy(net(images[rows]), labels[rows]).item()", "images go through each rank's net"),
    Wrong("30.4", "a tensor in place of a number",
          LOSS, "loss.detach() * 0 + comm.allreduce(loss.item()) / comm.size", "`losses` holds tensors"),
    Wrong("30.4", "an array in place of a number",
          LOSS, "np.array([comm.allreduce(loss.item())]) / comm.size", "`losses` holds arrays of shape (1,)"),
    Wrong("30.4", "the loss of rank 0's part", LOSS, "comm.bcast(loss.item())",
          "It should be the mean of the losses of all ranks' parts"),
    Wrong("30.4", "divided before backward and in the average",
          ["            loss.backward()", LOSS],
          ["            loss = loss / comm.size\n            loss.backward()", "comm.allreduce(loss.item())"],
          "called on the mean loss of the rank's own part"),
    Wrong("30.4", "the sum of the losses",
          LOSS, "comm.allreduce(loss.item())", "the sum of the ranks' losses, not their mean"),
    Wrong("30.4", "gradients are cleared after backward",
          ["            optimizer.zero_grad()\n", "            loss.backward()\n"],
          ["", "            loss.backward()\n            optimizer.zero_grad()\n"],
          "`zero_grad()` clears them after it"),
    Wrong("30.4", "the rate times the number of ranks, at the same global batch",
          "            optimizer.step()",
          '            optimizer.param_groups[0]["lr"] = learning_rate * comm.size\n'
          "            optimizer.step()",
          "The loss after one update"),
    Wrong("30.4", "an update by hand, with the lab's rate", "            optimizer.step()",
          "            with torch.no_grad():\n                for weight in net.parameters():\n"
          "                    weight -= learning_rate * weight.grad",
          "the update has to use `rate`"),
    Wrong("30.4", "each rank reports its own loss", LOSS, "loss.item()",
          "The losses of the ranks: [rank][step]"),
    Wrong("30.4", "divided by the lab's number of ranks, not by that of comm",
          LOSS, "comm.allreduce(loss.item()) / ranks", "divided by a number of ranks other than comm.size"),
    Wrong("30.4", "gradients of earlier steps stay",
          "            optimizer.zero_grad()\n", "", "Are the gradients of the step before cleared?"),
]
