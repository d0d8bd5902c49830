"""Mistakes that learners make in lab 31, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 1, "workers_virtual": (2, 4), "values_real": 4096, "patience": 20}

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
WAIT = """        for one in requests:
            one.Wait()"""
ENDS = "    ends = [s * total // servers for s in range(servers + 1)]\n"
CUT = "    total = sum(sizes)\n" + ENDS

WRONG = [
    Wrong(
        "31.1",
        "a mean over all ranks: the server has no gradient",
        old="rate * total / workers",
        new="rate * total / comm.size",
        says="a mean over 2 ranks, but 1 bring a gradient",
    ),
    Wrong(
        "31.1", "sum for mean", old="rate * total / workers", new="rate * total", says="the sum, not the mean"
    ),
    Wrong(
        "31.1",
        "the server counts its own gradient",
        old="np.zeros_like(parameters), np",
        new="gradient.copy(), np",
        says="2 ranks, 32 values: the parameters on rank 0",
    ),
    Wrong(
        "31.1",
        "the parameters are never sent back",
        old=SPREAD,
        new="",
        says="comm.Recv(parameters, source=0)",
    ),
    Wrong(
        "31.1",
        "only one worker gets the parameters",
        old=SPREAD,
        new="        comm.Send(parameters, dest=1)\n",
        says="rank 2 waits in Recv from rank 0",
    ),
    Wrong(
        "31.1",
        "the parameters go out before the update",
        old=GATHER,
        new=SPREAD.replace("            # Across ranks: the workers wait for this.\n", "")
        + GATHER
        + "        parameters -= rate * total / workers\n        return\n",
        says="still the old parameters",
    ),
    Wrong(
        "31.1",
        "worker after worker: each is served before the next is heard",
        old=GATHER,
        new="""        for worker in range(1, comm.size):
            comm.Recv(box, source=worker)
            total += box
            comm.Send(parameters - rate * total / workers, dest=worker)
        parameters -= rate * total / workers
        return
""",
        says="3 ranks, 48 values: the parameters on rank 1",
    ),
    Wrong(
        "31.1",
        "received into the sum: only the last gradient counts",
        old="            comm.Recv(box)\n            total += box\n",
        new="            comm.Recv(total)\n",
        says="3 ranks, 48 values: the parameters on rank 0",
    ),
    Wrong(
        "31.1",
        "the worker makes the step itself, with its own gradient alone",
        old=WORKER,
        new="""        comm.Send(gradient, dest=0)
        comm.Recv(np.empty_like(parameters), source=0)
        parameters -= rate * gradient
""",
        says="3 ranks, 48 values: the parameters on rank 1",
    ),
    Wrong(
        "31.1",
        "the new parameters go into the gradient",
        old="comm.Recv(parameters, source=0)",
        new="comm.Recv(gradient, source=0)",
        says="on rank 1, still the old parameters",
    ),
    Wrong(
        "31.1",
        "pull before push: everybody waits",
        old=WORKER,
        new="        comm.Recv(parameters, source=0)\n        comm.Send(gradient, dest=0)",
        says="deadlock: rank 0 waits in Recv",
    ),
    Wrong(
        "31.1",
        "every worker gets the parameters twice",
        old=[SPREAD, WORKER],
        new=[SPREAD + SPREAD, WORKER + "\n        comm.Recv(parameters, source=0)"],
        says="rank 0 sent 2.00 vectors",
    ),
    Wrong(
        "31.1",
        "a box of another dtype: its bytes mean other numbers",
        old="np.empty_like(parameters)",
        new="np.zeros(len(parameters))",
        says="sent float32 and rank 0 receives into float64",
    ),
    Wrong(
        "31.2",
        "ends that are no whole numbers",
        old="s * total // servers",
        new="s * total / servers",
        says="slice indices must be integers",
    ),
    Wrong(
        "31.2",
        "the remainder is dropped",
        old=ENDS,
        new="    ends = [s * (total // servers) for s in range(servers + 1)]\n",
        says="pieces, and the last one's end",
    ),
    Wrong(
        "31.2",
        "the remainder all goes to the last server",
        old=ENDS,
        new="    ends = [s * (total // servers) for s in range(servers)] + [total]\n",
        says="on one, ",
    ),
    Wrong(
        "31.2",
        "equally many layers, not values",
        old=CUT,
        new="""    ends = [sum(sizes[: s * len(sizes) // servers]) for s in range(servers + 1)]
""",
        says="138,357,544 values, servers: 3: ",
    ),
    Wrong(
        "31.2",
        "one piece for each layer",
        old=CUT,
        new="    ends = [sum(sizes[:s]) for s in range(len(sizes) + 1)]\n",
        says="pieces, and the last one's end",
    ),
    Wrong(
        "31.2",
        "pieces overlap by a value",
        old="slice(low, high)",
        new="slice(low, high + 1)",
        says="servers: 1: pieces, and the last one's end: expected 138357544 at [1], got 138357545",
    ),
    Wrong(
        "31.2",
        "start and length instead of start and end",
        old="slice(low, high)",
        new="slice(low, high - low)",
        says="pieces begin where the last ends",
    ),
    Wrong(
        "31.3",
        "a mean over all ranks",
        old="rate * total / workers",
        new="rate * total / comm.size",
        says="a mean over 2 ranks, but 1 bring a gradient",
    ),
    Wrong(
        "31.3",
        "the whole gradient to every server",
        old=["comm.Isend(gradient[piece], dest=s)", "np.empty_like(mine)", "total += box"],
        new=["comm.Isend(gradient, dest=s)", "np.empty_like(parameters)", "total += box[pieces[comm.rank]]"],
        says="rank 2 sent 2.00 vectors; it should be 1.00",
    ),
    Wrong(
        "31.3",
        "one server after the other",
        old=[
            "requests = [comm.Irecv(parameters[piece], source=s) for s, piece in enumerate(pieces)]",
            "requests += [comm.Isend(gradient[piece], dest=s) for s, piece in enumerate(pieces)]",
            WAIT,
        ],
        new=[
            "for s, piece in enumerate(pieces):",
            "    comm.Send(gradient[piece], dest=s)",
            "            comm.Recv(parameters[piece], source=s)",
        ],
        says="servers wait for one another",
    ),
    Wrong(
        "31.3",
        "nobody waits for what comes",
        old="            one.Wait()",
        new="            pass",
        says="were never waited for",
    ),
    Wrong(
        "31.3",
        "the piece is a copy: the server's parameters stay old",
        old="mine -= rate * total / workers",
        new="mine = mine - rate * total / workers",
        says="on rank 0, still the old parameters",
    ),
    Wrong(
        "31.3",
        "the workers ask the first server only",
        old="[comm.Irecv(parameters[piece], source=s) for s, piece in enumerate(pieces)]",
        new="[comm.Irecv(parameters[pieces[0]], source=0)]",
        says="rank 1 sent rank 2 96 bytes with tag 0",
    ),
    Wrong(
        "31.3",
        "workers counted from 1: right with one server alone",
        old="for worker in range(servers, comm.size)",
        new="for worker in range(1, comm.size)",
        says="and nobody received them",
    ),
]
