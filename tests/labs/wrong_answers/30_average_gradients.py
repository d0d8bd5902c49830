"""Mistakes that learners make in lab 30, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 2, "workers": 2, "patience": 15}

BCAST = "comm.Bcast(weights, root=0)"
ALLREDUCE = """    total = np.empty_like(mine)
    # Across ranks: one sum for all gradients, and everybody gets it.
    comm.Allreduce(mine, total)
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
          "On rank 1, 0.weight, 0.bias, 2.weight, 2.bias, 4.weight, 4.bias is not what rank 0 began with"),
    Wrong("30.2", "the vector is never written back",
          "    from_vector(weights, net.parameters())", "", "is not what rank 0 began with"),
    Wrong("30.2", "weights without biases",
          ["to_vector(net.parameters())", "from_vector(weights, net.parameters())"],
          ["to_vector([one for one in net.parameters() if one.ndim > 1])",
           "from_vector(weights, [one for one in net.parameters() if one.ndim > 1])"],
          "0.bias, 2.bias, 4.bias is not what rank 0 began with"),
    Wrong("30.2", "the mean of all starts",
          BCAST, "weights = sum(comm.allgather(weights)) / comm.size", "On rank 0, "),
    Wrong("30.2", "only rank 0 calls the broadcast",
          BCAST, "comm.rank == 0 and comm.Bcast(weights, root=0)", "rank 0 waits in line 5 of start_equal"),
    Wrong("30.3", "sum for mean", "total / comm.size", "total", "the sum, not the mean"),
    Wrong("30.3", "the mean is never written back",
          "    from_vector(total / comm.size, gradients)", "", "still this rank's own"),
    Wrong("30.3", "biases are forgotten",
          "for weight in net.parameters()", "for weight in net.parameters() if weight.ndim > 1",
          "gradient of 0.bias: still this rank's own"),
    Wrong("30.3", "weights are averaged instead of gradients",
          "weight.grad for weight in net.parameters()", "weight for weight in net.parameters()",
          "still this rank's own"),
    Wrong("30.3", "one message for each tensor", "    mine = to_vector(gradients)\n" + ALLREDUCE, """\
    for gradient in gradients:
        total = np.empty_like(gradient.numpy())
        comm.Allreduce(gradient.numpy(), total)
        gradient.copy_(torch.from_numpy(total / comm.size))""", "it took 6 calls of MPI"),
    Wrong("30.4", "average after the update",
          AVERAGE, "            optimizer.step()\n            average(comm, net)\n",
          "The loss after one update"),
    Wrong("30.4", "the average is forgotten",
          "            average(comm, net)\n", "", "Losses, averages: one a step"),
    Wrong("30.4", "the rate times the number of ranks, at the same global batch",
          "            optimizer.step()",
          '            optimizer.param_groups[0]["lr"] = learning_rate * comm.size\n'
          "            optimizer.step()",
          "The loss after one update"),
    Wrong("30.4", "each rank reports its own loss", LOSS, "loss.item()", "The losses of all ranks"),
    Wrong("30.4", "the loss of rank 0's part for all",
          LOSS, "comm.bcast(loss.item())", "The first loss, before any update"),
    Wrong("30.4", "every rank works on the whole batch: the right curve, and no time won",
          ["images[mine]", "labels[mine]"], ["images[rows]", "labels[rows]"],
          "All ranks find the same gradient: each works on the whole batch"),
    Wrong("30.4", "the average comes before backward", [AVERAGE, "            loss.backward()\n"],
          ["            optimizer.step()\n", "            average(comm, net)\n            loss.backward()\n"],
          "No gradients yet: `backward()` comes before `average`"),
    Wrong("30.4", "the sum of the images' losses",
          "labels[mine])", 'labels[mine], reduction="sum")', "The first loss, before any update"),
    Wrong("30.4", "gradients of earlier steps stay",
          "            optimizer.zero_grad()\n", "", "The loss of every step against one process"),
]
