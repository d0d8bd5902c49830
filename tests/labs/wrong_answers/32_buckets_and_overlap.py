"""Mistakes that learners make in lab 32, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "gpus": (4,),
    "images": 4,
    "bucket_sizes": (1e4, 3e7),
    "workers": 2,
    "patience": 20,
}

HOOK = "weight.register_post_accumulate_grad_hook(lambda weight, i=i: ready(i))"
LAST = """        if waiting:
            send()
"""
CAST = """        for i in net.numbers:
            # Across ranks: rank 0's new parameters, in the order in which forward needs them.
            broadcasts[i] = comm.Ibcast(net.parameters[i], root=0)
"""
BEFORE = """        if i in broadcasts:
            broadcasts.pop(i).Wait()
"""
BEGIN = "requests[i] = comm.Iallreduce(net.gradients[i], sums[i])"

# fmt: off
RIGHT = [
    Right("32.1", "arguments by name, a list of functions", ["comm.Allreduce(own, total)",
                                                            "    return ready, finish\n"],
          ["comm.Allreduce(sendbuf=own, recvbuf=total)", "    return [ready, finish]\n"]),
    Right("32.1", "numbers from NumPy, a sum in place, and partial",
          ["comm.Allreduce(own, total)\n        for i, piece in net.cut(total",
           "enumerate(module.parameters())", HOOK],
          ["from mpi4py import MPI\n\n        comm.Allreduce(MPI.IN_PLACE, own)\n"
           "        for i, piece in net.cut(own",
           "zip(np.arange(6), module.parameters())",
           "weight.register_post_accumulate_grad_hook(partial(lambda i, _: ready(i), i))"]),
    Right("32.2", "buffers by name, Waitall", [BEGIN, """\
        for i, request in requests.items():
            # Across ranks: until the others' parts are in.
            request.Wait()
"""], ["requests[i] = comm.Iallreduce(recvbuf=sums[i], sendbuf=net.gradients[i])", """\
        from mpi4py import MPI

        MPI.Request.Waitall(list(requests.values()))
        for i in requests:
"""]),
    Right("32.2", "whichever is over first", """\
        for i, request in requests.items():
            # Across ranks: until the others' parts are in.
            request.Wait()
            net.update(i, sums[i] / comm.size)
""", """\
        from mpi4py import MPI

        numbers = list(requests)
        for _ in numbers:
            i = numbers[MPI.Request.Waitany(list(requests.values()))]
            net.update(i, sums[i] / comm.size)
"""),
    Right("32.2", "tests until it is over", "            request.Wait()\n",
          "            while not request.Test():\n                pass\n"),
    Right("32.3", "a count of bytes, wait()", ["    flying = []\n", """\
        if sum(net.gradients[j].nbytes for j in waiting) >= size or len(waiting) >= most:
            send()
""", "            request.Wait()\n            for"], ["    flying = []\n    filled = [0]\n", """\
        filled[0] += 4 * len(net.gradients[i])
        if filled[0] >= size or len(waiting) >= most:
            send()
            filled[0] = 0
""", "            filled[0] = 0\n            request.wait()\n            for"]),
    Right("32.3", "a box for each bucket's sum, in place", """\
        total = np.empty_like(own)
        # Across ranks: one allreduce for the whole bucket.
        flying.append((comm.Iallreduce(own, total), total, list(waiting)))
""", """\
        from mpi4py import MPI

        flying.append((comm.Iallreduce(MPI.IN_PLACE, own), own, tuple(waiting)))
"""),
    Right("32.4", "arguments by name, Waitall for the reductions", [
        "comm.Ireduce(net.gradients[i], sums[i], root=0)", """\
        for i, request in reductions.items():
            request.Wait()
            if comm.rank == 0:
                net.update(i, sums[i] / comm.size)
""", "comm.Ibcast(net.parameters[i], root=0)"], [
        "comm.Ireduce(sendbuf=net.gradients[i], recvbuf=sums[i], root=0)", """\
        from mpi4py import MPI

        MPI.Request.Waitall(list(reductions.values()))
        for i in reductions if comm.rank == 0 else ():
            net.update(i, sums[i] / comm.size)
""", "comm.Ibcast(buf=net.parameters[i], root=0)"]),
    Right("32.4", "wait(), and None for what is over", """\
        if i in broadcasts:
            broadcasts.pop(i).Wait()
""", """\
        request = broadcasts.pop(i, None)
        if request is not None:
            request.wait()
"""),
]
WRONG = [
    Wrong("32.1", "all hooks name the last tensor", "weight, i=i:", "weight:", "told of [5, 5"),
    Wrong("32.1", "PyTorch's weight takes the place of i",
          "lambda weight, i=i: ready(i)", "lambda i=i: ready(i)", "ready gets a weight, not its number"),
    Wrong("32.1", "ready is called, not handed over", HOOK, "ready(i)", "`watch` calls ready"),
    Wrong("32.1", "a hook that comes before the gradient is written",
          HOOK, "weight.register_hook(lambda gradient, i=i: ready(i))", "before `.grad` of parameter"),
    Wrong("32.1", "the sum, not the mean", "net.update(i, piece / comm.size)", "net.update(i, piece)",
          "This is with the sum of the gradients, not their mean"),
    Wrong("32.1", "one sum for each tensor", """\
        own = net.join(net.numbers)
        total = np.empty_like(own)
        # Across ranks: one allreduce for all gradients.
        comm.Allreduce(own, total)
        for i, piece in net.cut(total, net.numbers):
            net.update(i, piece / comm.size)
""", """\
        for i in net.numbers:
            total = np.empty_like(net.gradients[i])
            comm.Allreduce(net.gradients[i], total)
            net.update(i, total / comm.size)
""", "Allreduce is called for [3000, 10, 5000, 700, 1, 2500] values"),
    Wrong("32.1", "ready is called in place of the hook", "lambda weight, i=i: ready(i)", "ready(i)",
          "`watch` calls ready itself"),
    Wrong("32.1", "counted from 1", "enumerate(module.parameters())", "enumerate(module.parameters(), 1)",
          "ready was told of [6, 5, 4, 3, 2, 1]"),
    Wrong("32.1", "each tensor is updated twice with half the mean", "net.update(i, piece / comm.size)",
          "net.update(i, piece / comm.size / 2)\n            net.update(i, piece / comm.size / 2)",
          "In 1 step rank 3 calls net.update 12 times"),
    Wrong("32.1", "only rank 0 updates", "        for i, piece in net.cut(total, net.numbers):",
          "        for i, piece in net.cut(total, net.numbers) if comm.rank == 0 else ():",
          "rank 3 calls net.update 0 times"),
    Wrong("32.1", "all numbers are told when the first layer's gradient comes", """\
    for i, weight in enumerate(module.parameters()):
        weight.register_post_accumulate_grad_hook(lambda weight, i=i: ready(i))""", """\
    weights = list(module.parameters())

    def tell(weight):
        for i in reversed(range(len(weights))):
            ready(i)

    weights[0].register_post_accumulate_grad_hook(tell)""", "ready(i) is called late"),
    Wrong("32.1", "only the first backward pass is told of", [
        "    for i, weight in enumerate(module.parameters()):\n", HOOK], [
        "    told = set()\n    for i, weight in enumerate(module.parameters()):\n",
        "weight.register_post_accumulate_grad_hook(\n            lambda weight, i=i: None if i in told"
        " else (told.add(i), ready(i)) and None\n        )"],
          "In a second backward pass, ready was told of 0 gradients"),
    Wrong("32.1", "names, not numbers", "i, weight in enumerate(module.parameters())",
          "i, weight in module.named_parameters()", "ready gets ['4.bias'], not a parameter's number"),
    Wrong("32.2", "each gradient waits for the allreduce before it", BEGIN,
          "for request in requests.values():\n            request.Wait()\n        " + BEGIN,
          "`ready` waits"),
    Wrong("32.2", "a list that is never emptied", [
        "    requests = {}\n", BEGIN, "in requests.items():", "        requests.clear()\n"], [
        "    requests = []\n", "requests.append((i, comm.Iallreduce(net.gradients[i], sums[i])))",
        "in requests:", ""], "Does `finish` empty what `ready` has collected"),
    Wrong("32.2", "updates before it waits", [BEGIN, "            request.Wait()\n            net.update(i, sums[i] / comm.size)\n"],
          [BEGIN, "            net.update(i, sums[i] / comm.size)\n            request.Wait()\n"],
          "A result was used before its request was waited for"),
    Wrong("32.2", "all sums begin with the first gradient",
          "        requests[i] = comm.Iallreduce(net.gradients[i], sums[i])\n",
          "        for j in reversed(net.numbers):\n            if j not in requests:\n"
          "                requests[j] = comm.Iallreduce(net.gradients[j].copy(), sums[j])\n",
          "Too early: gradients"),
    Wrong("32.2", "waited for at once: nothing overlaps",
          BEGIN, BEGIN + "\n        requests[i].Wait()", "`ready` waits"),
    Wrong("32.2", "a blocking sum in the hook", [BEGIN, "            request.Wait()\n"],
          ["requests[i] = comm.Allreduce(net.gradients[i], sums[i])", ""],
          "comm.Allreduce is called; only Iallreduce should be used"),
    Wrong("32.2", "the sums begin only in finish",
          [BEGIN, "        for i, request in requests.items():\n            # Across ranks: until"],
          ["requests[i] = None", """\
        for i in requests:
            requests[i] = comm.Iallreduce(net.gradients[i], sums[i])
        for i, request in requests.items():
            # Across ranks: until"""], "No overlap: backward ends 12.0 ms"),
    Wrong("32.2", "`return` is forgotten",
          "        requests.clear()\n\n    return ready, finish", "        requests.clear()",
          "one_by_one(comm, net) returns nothing"),
    Wrong("32.2", "only the last sum is waited for",
          "            request.Wait()\n", "            list(requests.values())[-1].Wait()\n",
          "never waited for"),
    Wrong("32.2", "nobody waits",
          "            request.Wait()\n            net.update(i, sums[i] / comm.size)\n",
          "            net.update(i, sums[i] / comm.size)\n", "never waited for"),
    Wrong("32.3", "the last bucket is never sent", LAST, "",
          "size=12,805 bytes, most=1000: Iallreduce is called for"),
    Wrong("32.3", "a count of bytes that the last bucket does not set back", ["    flying = []\n", """\
        if sum(net.gradients[j].nbytes for j in waiting) >= size or len(waiting) >= most:
            send()
"""], ["    flying = []\n    filled = [0]\n", """\
        filled[0] += net.gradients[i].nbytes
        if filled[0] >= size or len(waiting) >= most:
            send()
            filled[0] = 0
"""], "size=12,805 bytes, most=1000: Iallreduce is called for"),
    Wrong("32.3", "the list in flight is cleared with the other",
          "list(waiting)))", "waiting))", "Was the list cleared"),
    Wrong("32.3", "a tensor too many", "len(waiting) >= most", "len(waiting) > most",
          "size=1,000,000,000 bytes, most=4"),
    Wrong("32.3", "more than `size` bytes, not at least", ">= size or", "> size or",
          "size=10,000 bytes, most=1000: Iallreduce is called for"),
    Wrong("32.3", "a delay of its own on each rank, as by its clock",
          "len(waiting) >= most:", "len(waiting) >= most + comm.rank:",
          "make the same collective calls in the same order"),
    Wrong("32.3", "a byte less than `size` is enough", ">= size or", ">= size - 1 or",
          "size=12,805 bytes, most=1000: Iallreduce is called for"),
    Wrong("32.3", "the bucket before is waited for when the next is sent",
          "        own = net.join(waiting)\n",
          "        if flying:\n            flying[-1][0].Wait()\n        own = net.join(waiting)\n",
          "`ready` waits"),
    Wrong("32.4", "broadcasts are launched only in before", [
        "broadcasts[i] = comm.Ibcast(net.parameters[i], root=0)", "broadcasts.pop(i).Wait()"], [
        "broadcasts[i] = True",
        "broadcasts.pop(i)\n            comm.Ibcast(net.parameters[i], root=0).Wait()"],
          "Ibcast had been called for 1 of 6 tensors"),
    Wrong("32.4", "a layer waits for the next layer's parameters, too", BEFORE, """\
        for tensor in range(i + 2):
            if tensor in broadcasts:
                broadcasts.pop(tensor).Wait()
""", "Layer 1 began its next forward pass only when a later layer's parameters had arrived"),
    Wrong("32.4", "before is not returned", "return ready, finish, before", "return ready, finish",
          "end it with `return ready, finish, before`"),
    Wrong("32.4", "a blocking broadcast in before", [
        "broadcasts[i] = comm.Ibcast(net.parameters[i], root=0)", "broadcasts.pop(i).Wait()"], [
        "broadcasts[i] = True",
        "broadcasts.pop(i)\n            comm.Bcast(net.parameters[i], root=0)"],
          "comm.Bcast is called; only Ireduce and Ibcast should be used"),
    Wrong("32.4", "nobody broadcasts",
          CAST, "", "Ibcast is called for [] values"),
    Wrong("32.4", "all broadcasts are waited for before the first layer",
          BEFORE, "        for tensor in list(broadcasts):\n            broadcasts.pop(tensor).Wait()\n",
          "no later layer had to wait"),
    Wrong("32.4", "broadcast in the order of backward", "        for i in net.numbers:\n            # Across",
          "        for i in reversed(net.numbers):\n            # Across", "they should be sent first"),
    Wrong("32.4", "only rank 0 waits for its reductions",
          "            request.Wait()\n            if comm.rank == 0:\n",
          "            if comm.rank == 0:\n                request.Wait()\n", "were never waited for"),
    Wrong("32.4", "every rank makes the step, with sums that only rank 0 has",
          ["sums = [np.empty_like(part) for part in net.gradients]\n    reductions",
           "            if comm.rank == 0:\n                net.update(i, sums[i] / comm.size)\n"],
          ["""\
sums = [np.zeros_like(part) for part in net.gradients]
    reductions""",  # else NumPy may warn of what is there
           "            net.update(i, sums[i] / comm.size)\n"],
          "Ranks other than 0 call net.update"),
    Wrong("32.3", "values for bytes", "net.gradients[j].nbytes for", "len(net.gradients[j]) for",
          "Iallreduce is called for [11211, 11211] values"),
    Wrong("32.4", "the sum, not the mean", "net.update(i, sums[i] / comm.size)", "net.update(i, sums[i])",
          "This is with the sum of the gradients, not their mean"),
]
