"""Mistakes that learners make in lab 32, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "gpus": (8,),
    "images": 4,
    "bucket_sizes": (1e6, 1e7),
    "width": 32,
    "repeat": 2,
    "workers": 2,
    "patience": 20,
}

HOOK = "weight.register_post_accumulate_grad_hook(lambda weight, i=i: ready(i))"
LAST = """        if waiting:
            send()
"""
TEST = """        for request, *_ in flying:
            request.Test()
"""
CAST = """        for i in net.numbers:
            # Across ranks: rank 0's new parameters, in the order in which forward needs them.
            broadcasts[i] = comm.Ibcast(net.parameters[i], root=0)
"""
BEFORE = """        if i in broadcasts:
            broadcasts.pop(i).Wait()
"""

WRONG = [
    Wrong("32.1", "all hooks name the last tensor", old="weight, i=i:", new="weight:", says="told of [5, 5"),
    Wrong(
        "32.1",
        "PyTorch's weight takes the place of i",
        old="lambda weight, i=i: ready(i)",
        new="lambda i=i: ready(i)",
        says="ready gets a weight, not its number",
    ),
    Wrong("32.1", "ready is called, not handed over", old=HOOK, new="ready(i)", says="`watch` calls ready"),
    Wrong(
        "32.1",
        "a hook that comes before the gradient is written",
        old=HOOK,
        new="weight.register_hook(lambda gradient, i=i: ready(i))",
        says="before `.grad` of parameter",
    ),
    Wrong(
        "32.1",
        "the sum, not the mean",
        old="net.update(i, piece / comm.size)",
        new="net.update(i, piece)",
        says="2 ranks, 3 steps: parameters of tensor 0",
    ),
    Wrong(
        "32.1",
        "one sum for each tensor",
        old="""        mine = net.join(net.numbers)
        total = np.empty_like(mine)
        # Across ranks: one sum for all gradients.
        comm.Allreduce(mine, total)
        for i, piece in net.cut(total, net.numbers):
            net.update(i, piece / comm.size)
""",
        new="""        for i in net.numbers:
            total = np.empty_like(net.gradients[i])
            comm.Allreduce(net.gradients[i], total)
            net.update(i, total / comm.size)
""",
        says="Allreduce, values of one call after the other: expected 1 values, got 6",
    ),
    Wrong(
        "32.2",
        "waited for at once: nothing overlaps",
        old="requests[i] = comm.Iallreduce(net.gradients[i], sums[i])",
        new="requests[i] = comm.Iallreduce(net.gradients[i], sums[i])\n        requests[i].Wait()",
        says="`ready` waits",
    ),
    Wrong(
        "32.2",
        "a blocking sum in the hook",
        old=["requests[i] = comm.Iallreduce(net.gradients[i], sums[i])", "            request.Wait()\n"],
        new=["requests[i] = comm.Allreduce(net.gradients[i], sums[i])", ""],
        says="Allreduce is called; the sum should be made of Iallreduce",
    ),
    Wrong(
        "32.2",
        "the sums begin only in finish",
        old=[
            "requests[i] = comm.Iallreduce(net.gradients[i], sums[i])",
            "        for i, request in requests.items():\n            # Across ranks: until",
        ],
        new=[
            "requests[i] = None",
            "        for i in requests:\n"
            "            requests[i] = comm.Iallreduce(net.gradients[i], sums[i])\n"
            "        for i, request in requests.items():\n            # Across ranks: until",
        ],
        says="No overlap: gradient 5 came",
    ),
    Wrong(
        "32.2",
        "nobody waits",
        old="            request.Wait()\n            net.update(i, sums[i] / comm.size)\n",
        new="            net.update(i, sums[i] / comm.size)\n",
        says="that is not over",
    ),
    Wrong(
        "32.3",
        "the last bucket is never sent",
        old=LAST,
        new="",
        says="size=15,000, most=1000: Iallreduce, values",
    ),
    Wrong(
        "32.3",
        "a count of bytes that the last bucket does not set back",
        old=[
            "waiting, flying = [], []",
            """        if sum(net.gradients[j].nbytes for j in waiting) >= size or len(waiting) >= most:
            send()
""",
        ],
        new=[
            "waiting, flying, filled = [], [], [0]",
            """        filled[0] += net.gradients[i].nbytes
        if filled[0] >= size or len(waiting) >= most:
            send()
            filled[0] = 0
""",
        ],
        says="size=15,000, most=1000: Iallreduce, values",
    ),
    Wrong("32.3", "no progress", old=TEST, new="", says="Test is called 0 times"),
    Wrong(
        "32.3",
        "the list in flight is cleared with the other",
        old="list(waiting)))",
        new="waiting))",
        says="net.cut",
    ),
    Wrong(
        "32.3",
        "a bucket goes when the next gradient would overfill it",
        old=""">= size or len(waiting) >= most:
            send()
""",
        new="""> size or len(waiting) > most:
            send()
""",
        says="size=1,000,000,000, most=4",
    ),
    Wrong(
        "32.3",
        "a delay of its own on each rank, as by its clock",
        old="len(waiting) >= most:",
        new="len(waiting) >= most + comm.rank:",
        says="make the same collective calls in the same order",
    ),
    Wrong(
        "32.4",
        "nobody broadcasts",
        old=CAST,
        new="",
        says="2 ranks, 3 steps: parameters of tensor 0",
    ),
    Wrong(
        "32.4",
        "all broadcasts are waited for before the first layer",
        old=BEFORE,
        new="        for one in list(broadcasts):\n            broadcasts.pop(one).Wait()\n",
        says="for no other had to wait",
    ),
    Wrong(
        "32.4",
        "broadcast in the order of backward",
        old="        for i in net.numbers:\n            # Across",
        new="        for i in reversed(net.numbers):\n            # Across",
        says="those should be sent first",
    ),
    Wrong(
        "32.4",
        "only rank 0 waits for its reductions",
        old="            request.Wait()\n            if comm.rank == 0:\n",
        new="            if comm.rank == 0:\n                request.Wait()\n",
        says="were never waited for",
    ),
    Wrong(
        "32.4",
        "every rank makes the step, with sums that only rank 0 has",
        old=[
            "sums, reductions, broadcasts = [np.empty_like(one)",
            """            if comm.rank == 0:
                net.update(i, sums[i] / comm.size)
""",
        ],
        new=[
            "sums, reductions, broadcasts = [np.zeros_like(one)",  # else NumPy may warn of what is there
            "            net.update(i, sums[i] / comm.size)\n",
        ],
        says="Ranks other than 0 call net.update",
    ),
    Wrong(
        "32.4",
        "the sum, not the mean",
        old="net.update(i, sums[i] / comm.size)",
        new="net.update(i, sums[i])",
        says="2 ranks, 3 steps: parameters of tensor 0",
    ),
]
