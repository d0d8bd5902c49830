"""Mistakes that learners make in lab 33, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"ranks_virtual": 8, "patience": 20}

WEIGHT = "W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))"
REST = "        W[i, i] = 1 - W[i].sum()"
POST = """    requests = [comm.Irecv(box, source=other) for other, box in boxes.items()]
    requests += [comm.Isend(vector, dest=other) for other in neighbours]
    for request in requests:
        request.Wait()
    vector *= weights[comm.rank]
    for other, box in boxes.items():
        vector += weights[other] * box"""
MIX = """    vector *= weights[comm.rank]
    for other, box in boxes.items():
        vector += weights[other] * box"""

# fmt: off
RIGHT = [
    Right("33.1", "arrays in place of loops", """\
    for i, others in enumerate(neighbours):
        for j in others:
            W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))
        W[i, i] = 1 - W[i].sum()""", """\
    degree = np.array([len(others) for others in neighbours])
    for i, others in enumerate(neighbours):
        W[i, others] = 1 / (1 + np.maximum(degree[i], degree[others]))
    W += np.diag(1 - W.sum(axis=1))"""),
    Right("33.1", "each link once", """\
            W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))
        W[i, i] = 1 - W[i].sum()""", """\
            if i < j:
                W[i, j] = W[j, i] = 1 / (max(len(others), len(neighbours[j])) + 1)
    for i in range(len(neighbours)):
        W[i, i] = 1 - W[i].sum()"""),
    Right("33.2", "Waitall, and a sum written into the vector", [
        "    for request in requests:\n        request.Wait()\n" + MIX], ["""\
    from mpi4py import MPI

    MPI.Request.Waitall(requests)
    vector[:] = weights[comm.rank] * vector + sum(weights[other] * box for other, box in boxes.items())"""]),
    Right("33.2", "blocking receives, mixed one by one, of copies that were sent", POST, """\
    old = vector.copy()
    requests = [comm.Isend(old, other) for other in neighbours]
    vector *= weights[comm.rank]
    for other in neighbours:
        comm.Recv(boxes[other], other)
        vector += weights[other] * boxes[other]
    for request in requests:
        request.wait()"""),
    Right("33.2", "distance by distance, which is a matching", POST, """\
    from mpi4py import MPI

    old = vector.copy()
    vector *= weights[comm.rank]
    for ahead in range(1, comm.size):
        to, source = (comm.rank + ahead) % comm.size, (comm.rank - ahead) % comm.size
        box = boxes.get(source, np.empty_like(old))
        comm.Sendrecv(old, to if to in boxes else MPI.PROC_NULL, recvbuf=box,
                      source=source if source in boxes else MPI.PROC_NULL)
        if source in boxes:
            vector += weights[source] * box"""),
]
WRONG = [
    Wrong("33.1", "no weight of its own: rows do not sum to 1", REST, "", "the sums of the rows"),
    Wrong("33.1", "one over all neighbours and itself: the columns do not sum to 1",
          WEIGHT, "W[i, j] = 1 / (1 + len(others))", "not to 1: the average over all ranks would drift"),
    Wrong("33.1", "the smaller number, not the larger",
          "max(len(others)", "min(len(others)", "wheel of 5: the weights of the links"),
    Wrong("33.1", "the rank itself is not counted",
          WEIGHT, "W[i, j] = 1 / max(len(others), len(neighbours[j]))", "the weights of the links"),
    Wrong("33.1", "everybody with everybody",
          [WEIGHT, REST], ["pass", "        W[i] = 1 / len(neighbours)"], "a weight where there is no link"),
    Wrong("33.1", "a matrix of whole numbers",
          WEIGHT, "W[i, j] = 1 // (1 + max(len(others), len(neighbours[j])))", "the weights of the links"),
    Wrong("33.1", "the result is not returned",
          REST, REST + "\n    return None", "Does the function return its result?"),
    Wrong("33.1", "lists, with which W @ W fails later",
          REST, REST + "\n    W = W.tolist()", "the shape of W, an array: expected (4, 4), got 'list'"),
    Wrong("33.1", "takes the neighbors out of the caller's lists",
          "        for j in others:", "        while others:\n            j = others.pop()",
          "`neighbours` was changed; it belongs to the caller"),
    Wrong("33.1", "the larger number of all ranks, not of the two",
          "max(len(others), len(neighbours[j]))", "max(map(len, neighbours))",
          "wheel of 5: the weights of the links"),
    Wrong("33.2", "mixes with what is mixed already", POST, """\
    for other in sorted(neighbours):
        sent = comm.Isend(vector.copy(), dest=other)
        comm.Recv(boxes[other], source=other)
        sent.Wait()
        vector += weights[other] * (boxes[other] - vector)""", "against W @ X"),
    Wrong("33.2", "blocking sends: long vectors wait in a circle", POST, """\
    for other in neighbours:
        comm.Send(vector, dest=other)
    for other, box in boxes.items():
        comm.Recv(box, source=other)
""" + MIX, "deadlock"),
    Wrong("33.2", "mixes before the old vector has left",
          "    for request in requests:\n        request.Wait()\n" + MIX,
          MIX + "\n    for request in requests:\n        request.Wait()", "before its Wait"),
    Wrong("33.2", "waits for what comes alone", POST, """\
    receives = [comm.Irecv(box, source=other) for other, box in boxes.items()]
    sends = [comm.Isend(vector, dest=other) for other in neighbours]
    for request in receives:
        request.Wait()
""" + MIX, "never waited for"),
    Wrong("33.2", "a plain mean instead of the weights",
          MIX, "    vector[:] = (vector + sum(boxes.values())) / (1 + len(boxes))",
          "wheel of 5, 305 values, 1 step, against W @ X"),
    Wrong("33.2", "a new array: the caller's vector stays",
          "vector *= weights[comm.rank]", "vector = vector * weights[comm.rank]",
          "No rank's vector has changed. Mix in place"),
    Wrong("33.2", "a weight by place in the list, not by rank", MIX, """\
    vector *= weights[comm.rank]
    for place, box in enumerate(boxes.values()):
        vector += weights[place] * box""", "against W @ X"),
    Wrong("33.2", "sends to the left only", "comm.Isend(vector, dest=other) for other in neighbours]",
          "comm.Isend(vector, dest=(comm.rank - 1) % comm.size)]", "deadlock"),
    Wrong("33.2", "everybody's vectors: right, with too many messages", POST, """\
    everybody = [np.empty_like(vector) for _ in range(comm.size)]
    requests = [comm.Irecv(everybody[other], source=other) for other in range(comm.size)]
    requests += [comm.Isend(vector, dest=other) for other in range(comm.size)]
    for request in requests:
        request.Wait()
    vector[:] = sum(weights[other] * everybody[other] for other in range(comm.size))""",
          "messages; it should be"),
    Wrong("33.2", "boxes of float32 for vectors of float64",
          "np.empty_like(vector)", "np.empty(len(vector), np.float32)", "sent float64"),
    Wrong("33.2", "takes the next vector that arrives, also a neighbor's second", POST, """\
    from mpi4py import MPI

    requests = [comm.Isend(vector.copy(), dest=other) for other in neighbours]
    vector *= weights[comm.rank]
    for box in boxes.values():
        status = MPI.Status()
        comm.Recv(box, status=status)
        vector += weights[status.Get_source()] * box
    for request in requests:
        request.Wait()""", "rank 1 late, so that steps overlap"),
    Wrong("33.2", "sorts the caller's list", MIX, MIX + "\n    neighbours.sort()",
          "a rank's `neighbours` was changed"),
    Wrong("33.2", "scales the caller's weights", MIX, MIX + "\n    weights /= 2",
          "a rank's `weights` was changed"),
]
