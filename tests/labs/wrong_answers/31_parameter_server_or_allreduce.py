"""Mistakes that learners make in lab 31, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"workers_virtual": (2, 4), "values_real": 4096, "patience": 20}

GATHER = """        for _ in range(workers):
            # Across ranks: whichever gradient comes first.
            comm.Recv(box)
            total += box
"""
SPREAD = """        for worker in range(1, comm.size):
            # Across ranks: the workers wait for this.
            comm.Send(parameters, dest=worker)
"""
WORKER = """        comm.Send(gradient, dest=0)
        comm.Recv(parameters, source=0)"""
WAIT = """    for request in requests:
        request.Wait()"""
OUT = "requests = [comm.Isend(own, dest=worker) for worker in range(servers, comm.size)]"
IN = "requests = [comm.Irecv(box, source=servers + i) for i, box in enumerate(boxes)]"
ENDS = "    ends = [s * total // servers for s in range(servers + 1)]\n"
CUT = "    total = sum(sizes)\n" + ENDS
SLICES = "    return [slice(low, high) for low, high in zip(ends, ends[1:], strict=False)]"

# fmt: off
RIGHT = [
    Right("31.1", "one box for each worker, by requests", [GATHER, "total = np.zeros_like(parameters)",
                                                          "rate * total / workers"], ["""\
        boxes = np.empty((workers, len(parameters)), np.float32)
        from mpi4py import MPI

        MPI.Request.Waitall([comm.Irecv(boxes[i], source=i + 1) for i in range(workers)])
""", "", "np.float32(rate) * boxes.mean(axis=0)"]),
    Right("31.1", "a status, the order of ranks, a step of its own for each worker's share", GATHER, """\
        from mpi4py import MPI

        status = MPI.Status()
        for worker in range(workers, 0, -1):
            comm.Recv(buf=box, source=worker, status=status)
            total[:] += box
"""),
    Right("31.2", "NumPy's pieces", CUT + SLICES, """\
    parts = np.array_split(np.arange(sum(sizes)), servers)
    ends = np.cumsum([0] + [len(part) for part in parts])
    return [slice(ends[s], ends[s + 1]) for s in range(servers)]"""),
    Right("31.2", "the remainder goes to the first servers", ENDS, """\
    least, more = divmod(total, servers)
    ends = [s * least + min(s, more) for s in range(servers + 1)]
"""),
    Right("31.3", "Waitall on both sides, an answer to each worker from a copy", [
        "        for request in requests:\n            request.Wait()\n        own -=", OUT, WAIT],
        ["        from mpi4py import MPI\n\n        MPI.Request.Waitall(requests)\n        own -=",
         "new = own.copy()\n        requests = [comm.Isend(new, w) for w in range(servers, comm.size)]",
         "    from mpi4py import MPI\n\n    MPI.Request.Waitall(requests)"]),
]
WRONG = [
    Wrong("31.1", "a worker makes the step's part of its own gradient",
          ["        comm.Send(gradient, dest=0)\n", "parameters -= rate * total / workers"],
          ["        gradient *= rate / workers\n        comm.Send(gradient, dest=0)\n",
           "parameters -= total"], "`gradient` on rank 1, a worker, was changed"),
    Wrong("31.1", "a mean over all ranks: the server has no gradient",
          "rate * total / workers", "rate * total / comm.size",
          "a mean over 2 ranks, but 1 brings a gradient"),
    Wrong("31.1", "sum for mean",
          "rate * total / workers", "rate * total", "This step took the sum, not the mean"),
    Wrong("31.1", "the server counts its own gradient",
          "np.zeros_like(parameters)", "gradient.copy()", "The server counted its own gradient"),
    Wrong("31.1", "the parameters are never sent back", SPREAD, "", "comm.Recv(parameters, source=0)"),
    Wrong("31.1", "the parameters go out before the update", GATHER,
          SPREAD.replace("            # Across ranks: the workers wait for this.\n", "")
          + GATHER + "        parameters -= rate * total / workers\n        return\n",
          "still has the old parameters"),
    Wrong("31.1", "worker after worker: each is served before the next is heard", GATHER, """\
        for worker in range(1, comm.size):
            comm.Recv(box, source=worker)
            total += box
            comm.Send(parameters - rate * total / workers, dest=worker)
        parameters -= rate * total / workers
        return
""", "3 ranks, 48 values: the parameters on rank 1"),
    Wrong("31.1", "the mean goes out, and each worker makes the step itself",
          ["comm.Send(parameters, dest=worker)", "        comm.Recv(parameters, source=0)"],
          ["comm.Send(total / workers, dest=worker)",
           "        mean = np.empty_like(parameters)\n        comm.Recv(mean, source=0)\n"
           "        parameters -= rate * mean"], "a worker takes the server's new ones, unchanged"),
    Wrong("31.1", "the new parameters go into the gradient",
          "comm.Recv(parameters, source=0)", "comm.Recv(gradient, source=0)",
          "Rank 1 still has the old parameters"),
    Wrong("31.1", "pull before push: everybody waits",
          WORKER, "        comm.Recv(parameters, source=0)\n        comm.Send(gradient, dest=0)",
          "deadlock: rank 0 waits in Recv"),
    Wrong("31.1", "a server leaves while its parameters are on their way",
          "comm.Send(parameters, dest=worker)", "comm.Isend(parameters, dest=worker)", "never waited for"),
    Wrong("31.2", "ends that are no whole numbers",
          "s * total // servers", "s * total / servers", "slice indices must be integers"),
    Wrong("31.2", "the remainder is dropped",
          ENDS, "    ends = [s * (total // servers) for s in range(servers + 1)]\n",
          "the last slice ends at 138,357,543"),
    Wrong("31.2", "the remainder all goes to the last server",
          ENDS, "    ends = [s * (total // servers) for s in range(servers)] + [total]\n", "on one, "),
    Wrong("31.2", "one piece for each layer",
          CUT, "    ends = [sum(sizes[:s]) for s in range(len(sizes) + 1)]\n",
          "servers: 1: your list has 16 slices"),
    Wrong("31.2", "pieces overlap by a value", "slice(low, high)", "slice(low, high + 1)",
          "servers: 1: the last slice ends at 138,357,545"),
    Wrong("31.2", "start and length instead of start and end",
          "slice(low, high)", "slice(low, high - low)", "pieces begin where the last ends"),
    Wrong("31.2", "16 servers where there are many", ENDS, "    servers = 16 if servers > 4 else servers\n" + ENDS,
          "servers: 7: your list has 16 slices"),
    Wrong("31.2", "every second value", "slice(low, high)", "slice(low, high, 2)",
          "Return a list of slices"),
    Wrong("31.2", "pairs of numbers", "slice(low, high)", "(low, high)", "Return a list of slices"),
    Wrong("31.2", "the caller's list is used up", "total = sum(sizes)",
          "total = 0\n    while sizes:\n        total += sizes.pop()", "The list `sizes` was changed"),
    Wrong("31.2", "a generator", SLICES, SLICES.replace("[", "(", 1)[:-1] + ")", "Return a list of slices"),
    Wrong("31.3", "a mean over all ranks but one: right with one server alone", "sum(boxes) / workers",
          "sum(boxes) / (comm.size - 1)", "a mean over 2 ranks, but 1 brings a gradient"),
    Wrong("31.3", "pieces of equal length in place of those given", "    if comm.rank < servers:",
          "    pieces = cut([parameters.size], servers)\n    if comm.rank < servers:",
          "A server updates the piece that it is given"),
    Wrong("31.3", "the whole gradient to every server",
          ["comm.Isend(gradient[piece], dest=s)", "np.empty_like(own)", "sum(boxes)"],
          ["comm.Isend(gradient, dest=s)", "np.empty_like(parameters)", "sum(boxes)[pieces[comm.rank]]"],
          "rank 2 sent 2.00 vectors; it should be 1.00"),
    Wrong("31.3", "one server after the other",
          ["requests = [comm.Irecv(parameters[piece], source=s) for s, piece in enumerate(pieces)]",
           "requests += [comm.Isend(gradient[piece], dest=s) for s, piece in enumerate(pieces)]"],
          ["requests = []", """for s, piece in enumerate(pieces):
            comm.Send(gradient[piece], dest=s)
            comm.Recv(parameters[piece], source=s)"""],
          "a rank waits for one message before it launches the next"),
    Wrong("31.3", "all servers take the first worker's, then the second's: they meet in one link", IN,
          "requests = [comm.Recv(box, source=servers + i) for i, box in enumerate(boxes)][:0]",
          "a rank waits for one message before it launches the next"),
    Wrong("31.3", "all servers send to the first worker, then to the second: they meet in one link", OUT,
          "requests = [comm.Send(own, dest=worker) for worker in range(servers, comm.size)][:0]",
          "a rank waits for one message before it launches the next"),
    Wrong("31.3", "nobody waits for what comes",
          WAIT, WAIT.replace("request.Wait()", "pass"), "were never waited for"),
    Wrong("31.3", "the piece is a copy: the server's parameters stay old",
          "own -= rate * sum", "own = own - rate * sum", "Rank 0 still has the old parameters"),
    Wrong("31.3", "the workers ask the first server only",
          "[comm.Irecv(parameters[piece], source=s) for s, piece in enumerate(pieces)]",
          "[comm.Irecv(parameters[pieces[0]], source=0)]", "rank 1 sent rank 2 128 bytes with tag 0"),
    Wrong("31.3", "workers counted from 1: right with one server alone",
          "source=servers + i", "source=1 + i", "deadlock"),
]
