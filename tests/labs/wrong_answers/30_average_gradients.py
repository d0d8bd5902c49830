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

WRONG = [
    Wrong(
        "30.1",
        "every rank works on the whole batch",
        old="rows[rank::size]",
        new="rows",
        says="Images on each of 2 ranks: expected 64",
    ),
    Wrong(
        "30.1",
        "every rank takes the first part",
        old="rows[rank::size]",
        new="rows[: len(rows) // size]",
        says="64 images are seen twice, and as many by nobody",
    ),
    Wrong(
        "30.1",
        "one further each rank, not size further",
        old="rows[rank::size]",
        new="rows[rank : rank + len(rows) // size]",
        says="images are seen twice",
    ),
    Wrong(
        "30.1",
        "places in the batch instead of image numbers",
        old="rows[rank::size]",
        new="np.arange(rank, len(rows), size)",
        says="some rows are not of this batch at all",
    ),
    Wrong(
        "30.1",
        "each rank draws its images by lot",
        old="rows[rank::size]",
        new="np.random.default_rng(rank).choice(rows, len(rows) // size, replace=False)",
        says="images are seen twice",
    ),
    Wrong(
        "30.1",
        "every rank begins at row 0",
        old="rows[rank::size]",
        new="rows[::size]",
        says="images are seen twice",
    ),
    Wrong(
        "30.1",
        "rows before the rank are forgotten",
        old="rows[rank::size]",
        new="rows[rank:]",
        says="Images on each of 2 ranks",
    ),
    Wrong(
        "30.2",
        "the broadcast is forgotten",
        old=BCAST,
        new="pass",
        says="On rank 1, 0.weight, 0.bias, 2.weight, 2.bias, 4.weight, 4.bias is not what rank 0 began with",
    ),
    Wrong(
        "30.2",
        "the vector is never written back",
        old="    from_vector(weights, net.parameters())",
        new="",
        says="is not what rank 0 began with",
    ),
    Wrong(
        "30.2",
        "weights without biases",
        old=["to_vector(net.parameters())", "from_vector(weights, net.parameters())"],
        new=[
            "to_vector([one for one in net.parameters() if one.ndim > 1])",
            "from_vector(weights, [one for one in net.parameters() if one.ndim > 1])",
        ],
        says="0.bias, 2.bias, 4.bias is not what rank 0 began with",
    ),
    Wrong(
        "30.2",
        "the mean of all starts",
        old=BCAST,
        new="weights = sum(comm.allgather(weights)) / comm.size",
        says="On rank 0, ",
    ),
    Wrong(
        "30.2",
        "only rank 0 calls the broadcast",
        old=BCAST,
        new="comm.rank == 0 and comm.Bcast(weights, root=0)",
        says="rank 0 waits in line 5 of start_equal",
    ),
    Wrong("30.3", "sum for mean", old="total / comm.size", new="total", says="the sum, not the mean"),
    Wrong(
        "30.3",
        "the mean is never written back",
        old="    from_vector(total / comm.size, gradients)",
        new="",
        says="still this rank's own",
    ),
    Wrong(
        "30.3",
        "biases are forgotten",
        old="for weight in net.parameters()",
        new="for weight in net.parameters() if weight.ndim > 1",
        says="gradient of 0.bias: still this rank's own",
    ),
    Wrong(
        "30.3",
        "weights are averaged instead of gradients",
        old="weight.grad for weight in net.parameters()",
        new="weight for weight in net.parameters()",
        says="still this rank's own",
    ),
    Wrong(
        "30.3",
        "one message for each tensor",
        old="    mine = to_vector(gradients)\n" + ALLREDUCE,
        new="""    for gradient in gradients:
        total = np.empty_like(gradient.numpy())
        comm.Allreduce(gradient.numpy(), total)
        gradient.copy_(torch.from_numpy(total / comm.size))""",
        says="it took 6 calls of MPI",
    ),
    Wrong(
        "30.4",
        "average after the update",
        old=AVERAGE,
        new="            optimizer.step()\n            average(comm, net)\n",
        says="The loss after one update",
    ),
    Wrong(
        "30.4",
        "the average is forgotten",
        old="            average(comm, net)\n",
        new="",
        says="Losses, averages: one a step",
    ),
    Wrong(
        "30.4",
        "the rate times the number of ranks, at the same global batch",
        old="            optimizer.step()",
        new="""            optimizer.param_groups[0]["lr"] = learning_rate * comm.size
            optimizer.step()""",
        says="The loss after one update",
    ),
    Wrong(
        "30.4", "each rank reports its own loss", old=LOSS, new="loss.item()", says="The losses of all ranks"
    ),
    Wrong(
        "30.4",
        "the loss of rank 0's part for all",
        old=LOSS,
        new="comm.bcast(loss.item())",
        says="The first loss, before any update",
    ),
    Wrong(
        "30.4",
        "every rank works on the whole batch: the right curve, and no time won",
        old=["images[mine]", "labels[mine]"],
        new=["images[rows]", "labels[rows]"],
        says="All ranks find the same gradient: each works on the whole batch",
    ),
    Wrong(
        "30.4",
        "the average comes before backward",
        old=[AVERAGE, "            loss.backward()\n"],
        new=[
            "            optimizer.step()\n",
            "            average(comm, net)\n            loss.backward()\n",
        ],
        says="No gradients yet: `backward()` comes before `average`",
    ),
    Wrong(
        "30.4",
        "the sum of the images' losses",
        old="labels[mine])",
        new='labels[mine], reduction="sum")',
        says="The first loss, before any update",
    ),
    Wrong(
        "30.4",
        "gradients of earlier steps stay",
        old="            optimizer.zero_grad()\n",
        new="",
        says="The loss of every step against one process",
    ),
]
