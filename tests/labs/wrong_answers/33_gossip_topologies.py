"""Mistakes that learners make in lab 33, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 1, "ranks_virtual": 8, "patience": 20}

WEIGHT = "W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))"
REST = "        W[i, i] = 1 - W[i].sum()"
POST = """    requests = [comm.Irecv(box, source=other) for other, box in boxes.items()]
    requests += [comm.Isend(vector, dest=other) for other in neighbours]
    for one in requests:
        one.Wait()
    vector *= weights[comm.rank]
    for other, box in boxes.items():
        vector += weights[other] * box"""
MIX = """    vector *= weights[comm.rank]
    for other, box in boxes.items():
        vector += weights[other] * box"""
STEP = """        gradient = gradient_at(parameters, mine)
        # Across ranks: only neighbours talk.
        gossip(comm, parameters, neighbours[comm.rank], W[comm.rank])
        parameters -= learning_rate * gradient
"""

WRONG = [
    Wrong(
        "33.1", "no weight of its own: rows do not sum to 1", old=REST, new="", says="the sums of the rows"
    ),
    Wrong(
        "33.1",
        "one over all neighbours and itself: the columns do not sum to 1",
        old=WEIGHT,
        new="W[i, j] = 1 / (1 + len(others))",
        says="not to 1: the average over all ranks would drift",
    ),
    Wrong(
        "33.1",
        "the other's number of neighbours alone",
        old=WEIGHT,
        new="W[i, j] = 1 / (1 + len(neighbours[j]))",
        says="not to 1: the average over all ranks would drift",
    ),
    Wrong(
        "33.1",
        "the smaller number, not the larger",
        old="max(len(others)",
        new="min(len(others)",
        says="wheel of 5: the weights of the links",
    ),
    Wrong(
        "33.1",
        "the rank itself is not counted",
        old=WEIGHT,
        new="W[i, j] = 1 / max(len(others), len(neighbours[j]))",
        says="the weights of the links",
    ),
    Wrong(
        "33.1",
        "everybody with everybody",
        old=[WEIGHT, REST],
        new=["pass", "        W[i] = 1 / len(neighbours)"],
        says="a weight where there is no link",
    ),
    Wrong(
        "33.1",
        "a matrix of whole numbers",
        old=WEIGHT,
        new="W[i, j] = 1 // (1 + max(len(others), len(neighbours[j])))",
        says="the weights of the links",
    ),
    Wrong(
        "33.1",
        "the result is not returned",
        old=REST,
        new=REST + "\n    return None",
        says="Does the function return its result?",
    ),
    Wrong(
        "33.1",
        "lists, with which W @ W fails later",
        old=REST,
        new=REST + "\n    W = W.tolist()",
        says="the shape of W, an array",
    ),
    Wrong(
        "33.2",
        "mixes with what is mixed already",
        old=POST,
        new="""    for other in sorted(neighbours):
        sent = comm.Isend(vector.copy(), dest=other)
        comm.Recv(boxes[other], source=other)
        sent.Wait()
        vector += weights[other] * (boxes[other] - vector)""",
        says="against W @ X",
    ),
    Wrong(
        "33.2",
        "blocking sends: long vectors wait in a circle",
        old=POST,
        new="""    for other in neighbours:
        comm.Send(vector, dest=other)
    for other, box in boxes.items():
        comm.Recv(box, source=other)
"""
        + MIX,
        says="deadlock",
    ),
    Wrong(
        "33.2",
        "mixes before the old vector has left",
        old="    for one in requests:\n        one.Wait()\n" + MIX,
        new=MIX + "\n    for one in requests:\n        one.Wait()",
        says="before its Wait",
    ),
    Wrong(
        "33.2",
        "a plain mean instead of the weights",
        old=MIX,
        new="    vector[:] = (vector + sum(boxes.values())) / (1 + len(boxes))",
        says="wheel of 5, 80 values, 1 steps, against W @ X",
    ),
    Wrong(
        "33.2",
        "its own weight is forgotten",
        old="    vector *= weights[comm.rank]\n",
        new="",
        says="ring of 4, 64 values, 1 steps, against W @ X",
    ),
    Wrong(
        "33.2",
        "a new array: the caller's vector stays",
        old="vector *= weights[comm.rank]",
        new="vector = vector * weights[comm.rank]",
        says="no rank's vector has changed",
    ),
    Wrong(
        "33.2",
        "a weight by place in the list, not by rank",
        old=MIX,
        new="""    vector *= weights[comm.rank]
    for place, box in enumerate(boxes.values()):
        vector += weights[place] * box""",
        says="against W @ X",
    ),
    Wrong(
        "33.2",
        "sends to the left only",
        old="comm.Isend(vector, dest=other) for other in neighbours]",
        new="comm.Isend(vector, dest=(comm.rank - 1) % comm.size)]",
        says="deadlock",
    ),
    Wrong(
        "33.2",
        "everybody's vectors: right, with too many messages",
        old=POST,
        new="""    everybody = [np.empty_like(vector) for _ in range(comm.size)]
    requests = [comm.Irecv(everybody[other], source=other) for other in range(comm.size)]
    requests += [comm.Isend(vector, dest=other) for other in range(comm.size)]
    for one in requests:
        one.Wait()
    vector[:] = sum(weights[other] * everybody[other] for other in range(comm.size))""",
        says="messages; it should be",
    ),
    Wrong(
        "33.2",
        "boxes of float64 for vectors of float32",
        old="np.empty_like(vector)",
        new="np.empty(len(vector))",
        says="float",
    ),
    Wrong(
        "33.3",
        "gradients are mixed, not parameters",
        old="gossip(comm, parameters, neighbours",
        new="gossip(comm, gradient, neighbours",
        says="1 steps: rank",
    ),
    Wrong(
        "33.3",
        "the step comes before the mixing",
        old=STEP,
        new="""        parameters -= learning_rate * gradient_at(parameters, mine)
        gossip(comm, parameters, neighbours[comm.rank], W[comm.rank])
""",
        says="1 steps: rank",
    ),
    Wrong(
        "33.3",
        "the gradient of the mixed parameters",
        old=STEP,
        new="""        gossip(comm, parameters, neighbours[comm.rank], W[comm.rank])
        parameters -= learning_rate * gradient_at(parameters, mine)
""",
        says="2 steps: rank",
    ),
    Wrong(
        "33.3",
        "nobody talks",
        old="        gossip(comm, parameters, neighbours[comm.rank], W[comm.rank])\n",
        new="",
        says="2 steps: rank",
    ),
    Wrong(
        "33.3",
        "the gradient of the whole batch on every rank",
        old="gradient_at(parameters, mine)",
        new="gradient_at(parameters, rows)",
        says="1 steps: rank",
    ),
    Wrong(
        "33.3",
        "rank 0's weights on all ranks",
        old="neighbours[comm.rank], W[comm.rank]",
        new="neighbours[comm.rank], W[0]",
        says="1 steps: rank",
    ),
]
