"""Mistakes that learners make in lab 30, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 1, "workers": 2, "patience": 15}

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
    Wrong("30.1", "every rank begins at row 0", "rows[rank::size]", "rows[::size]", "images are seen twice"),
    Wrong("30.1", "rows before the rank are forgotten",
          "rows[rank::size]", "rows[rank:]", "Images on each of 2 ranks"),
    Wrong("30.2", "the broadcast is forgotten", BCAST, "pass",
          "Unchanged: it is what this rank drew itself"),
    Wrong("30.2", "the vector is never written back",
          "    from_vector(weights, net.parameters())", "", "Unchanged: it is what this rank drew itself"),
    Wrong("30.2", "weights without biases",
          ["to_vector(net.parameters())", "from_vector(weights, net.parameters())"],
          ["to_vector([weight for weight in net.parameters() if weight.ndim > 1])",
           "from_vector(weights, [weight for weight in net.parameters() if weight.ndim > 1])"],
          "Rank 1: 0.bias"),
    Wrong("30.2", "no message: every rank draws rank 0's weights, whose seed it knows",
          ["    weights = to_vector(net.parameters())\n", f"    {BCAST}\n"],
          ["    weights = to_vector(nets.torch_digits(nets.start_weights(seed=0)).parameters())\n", ""],
          "It should be what rank 0 began with"),
    Wrong("30.2", "the mean of all starts",
          BCAST, "weights = sum(comm.allgather(weights)) / comm.size", "Rank 0: 0.weight"),
    Wrong("30.2", "every rank is the root of its own broadcast", "root=0", "root=comm.rank", "root",
          hangs=True),
    Wrong("30.2", "only rank 0 calls the broadcast",
          BCAST, "comm.rank == 0 and comm.Bcast(weights, root=0)", "rank 0 waits in line 5 of start_equal",
          hangs=True),
    Wrong("30.3", "sum for mean", "total / comm.size", "total", "This is the sum, not the mean"),
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
    Wrong("30.4", "average_gradients, whatever `average` is",
          "            average(comm, net)\n", "            average_gradients(comm, net)\n",
          "was called 0 times in 12 steps"),
    Wrong("30.4", "the net never moves",
          "            optimizer.step()\n", "", "`optimizer.step()` is missing"),
    Wrong("30.4", "the loss of the whole batch, computed once more on every rank",
          "comm.allreduce(loss.item()) / comm.size",
          "F.cross_entropy(net(images[rows]), labels[rows]).item()", "images go through each rank's net"),
    Wrong("30.4", "a tensor in place of a number",
          LOSS, "loss.detach() * 0 + comm.allreduce(loss.item()) / comm.size", "`losses` holds tensors"),
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
    Wrong("30.4", "each rank reports its own loss", LOSS, "loss.item()",
          "The losses of the ranks: [rank][step]"),
    Wrong("30.4", "divided by the lab's number of ranks, not by that of comm",
          LOSS, "comm.allreduce(loss.item()) / ranks", "divided by a number of ranks other than comm.size"),
    Wrong("30.4", "the loss of rank 0's part for all",
          LOSS, "comm.bcast(loss.item())", "The loss of the first step, before any update"),
    Wrong("30.4", "every rank works on the whole batch: the right curve, and no time won",
          ["images[share]", "labels[share]"], ["images[rows]", "labels[rows]"],
          "go through each rank's net in a step, not its part"),
    Wrong("30.4", "the average comes before backward", [AVERAGE, "            loss.backward()\n"],
          ["            optimizer.step()\n", "            average(comm, net)\n            loss.backward()\n"],
          "Either `backward()` comes later"),
    Wrong("30.4", "the sum of the images' losses",
          "labels[share])", 'labels[share], reduction="sum")', "The loss of the first step"),
    Wrong("30.4", "gradients of earlier steps stay",
          "            optimizer.zero_grad()\n", "", "Are the gradients of the step before cleared?"),
]
