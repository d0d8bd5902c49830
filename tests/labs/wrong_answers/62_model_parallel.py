"""Mistakes of learners in lab 62: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"width": 32, "depth": 5, "images": 16, "repeat": 5}

_BEST = "    return min(([0, *places, len(costs)] for places in choices), key=dearest)"
_SEND = "        comm.Send(leaving.detach(), dest=comm.rank + 1)"
_RECEIVE = """        entering = pictures.new_empty(len(pictures), stage[0][0].in_features)
        comm.Recv(entering, source=comm.rank - 1)
"""
_BACK = "        comm.Send(entering.grad, dest=comm.rank - 1)"

# fmt: off
WRONG = [
    Wrong("62.1", "costs are cut to whole numbers", "max(sum(costs[first:end])",
          "max(int(sum(costs[first:end]))", "a better cut has 0.08"),
    Wrong("62.1", "equal numbers of blocks", _BEST,
          "    return [len(costs) * stage // stages for stage in range(stages + 1)]", "a better cut has"),
    Wrong("62.1", "nearest to equal shares", _BEST,
          """    sums = [sum(costs[:place]) for place in range(len(costs) + 1)]
    wanted = [sums[-1] * stage / stages for stage in range(stages + 1)]
    return [min(range(len(sums)), key=lambda place: abs(sums[place] - share)) for share in wanted]""",
          "62.1"),
    Wrong("62.1", "greedy: a stage ends when it has its share", _BEST,
          """    edges, total = [0], 0
    for place, cost in enumerate(costs):
        total += cost
        left = stages - len(edges)
        if left and (total >= sum(costs) / stages or len(costs) - place - 1 == left):
            edges.append(place + 1)
            total = 0
    return edges + [len(costs)]""",
          "a better cut has"),
    Wrong("62.1", "the most even costs", "max(sum(costs[first:end]) for first, end in itertools.pairwise(edges))",
          "np.ptp([sum(costs[first:end]) for first, end in itertools.pairwise(edges)])",
          "a better cut has 6"),
    Wrong("62.1", "the first cut", _BEST, "    return next([0, *places, len(costs)] for places in choices)",
          "a better cut has"),
    Wrong("62.1", "the cheapest stage is cheapest", "        return max(sum", "        return min(sum",
          "better cut"),
    Wrong("62.1", "without the ends", "[0, *places, len(costs)] for places in choices), key=dearest)",
          "list(places) for places in choices), key=lambda edges: 0)", "2 stages need 3 edges"),
    Wrong("62.1", "empty stages", _BEST, "    return [0] * stages + [len(costs)]", "edges rise"),
    Wrong("62.2", "nobody sends", _SEND, "        pass", "without an end", hangs=True),
    Wrong("62.2", "the first rank receives from rank -1",
          f"    if comm.rank == 0:\n        entering = pictures\n    else:\n{_RECEIVE}",
          f"    if True:\n{_RECEIVE}", "-1"),
    Wrong("62.2", "pickled", [_SEND, _RECEIVE],
          ["        comm.send(leaving.detach(), dest=comm.rank + 1)",
           "        entering = comm.recv(source=comm.rank - 1)\n"], "packs any object"),
    Wrong("62.2", "no gradient for what entered", "        entering.requires_grad_()\n", "",
          "Call `requires_grad_()`"),
    Wrong("62.2", "the gradient is asked for after the stage",
          ["        entering.requires_grad_()\n", "    leaving = stage(entering)"],
          ["", "    leaving = stage(entering)\n    entering.requires_grad_()"], "before the stage computes"),
    Wrong("62.2", "the stage computes with a copy", "    leaving = stage(entering)",
          "    leaving = stage(entering.detach())", "before the stage computes"),
    Wrong("62.2", "computed once more for the message", "Send(leaving.detach()", "Send(stage(entering).detach()",
          "computed 2 times"),
    Wrong("62.2", "Isend, never waited for", "comm.Send(", "comm.Isend(", "never waited for"),
    Wrong("62.2", "the pictures on every rank", _RECEIVE,
          _RECEIVE + "        entering = torch.ones(len(pictures), stage[0][0].in_features)\n",
          "what leaves the last rank"),
    Wrong("62.2", "computed without a past", "    leaving = stage(entering)",
          "    with torch.no_grad():\n        leaving = stage(entering)", "has no history"),
    Wrong("62.2", "sends what entered", "leaving.detach(), dest", "entering.detach(), dest",
          "62.2"),
    Wrong("62.2", "round the ring", "    if comm.rank < comm.size - 1:\n        comm.Send(leaving",
          "    if comm.size > 1:\n        comm.Send(leaving", "62.2"),
    Wrong("62.2", "returns the answer alone", "    return entering, leaving", "    return leaving",
          "two tensors"),
    Wrong("62.3", "only the last rank", "        leaving.backward(gradient)", "        pass", "62.3"),
    Wrong("62.3", "a gradient of ones", "        leaving.backward(gradient)",
          "        leaving.backward(torch.ones_like(leaving))", "the gradient of its"),
    Wrong("62.3", "Isend, never waited for", "comm.Send(", "comm.Isend(", "never waited for"),
    Wrong("62.3", "nothing goes back", _BACK, "        pass", "without an end", hangs=True),
    Wrong("62.3", "sends the activations", "comm.Send(entering.grad,",
          "comm.Send(entering.detach(),",
          "the gradient of its"),
    Wrong("62.3", "twice", "        leaving.backward(gradient)",
          "        leaving.backward(gradient, retain_graph=True)\n        leaving.backward(gradient)",
          "the gradient of its"),
]

RIGHT = [
    Right("62.1", "NumPy, a tuple", _BEST,
          "    edges = [np.array([0, *places, len(costs)]) for places in choices]\n"
          "    return tuple(edges[int(np.argmin([dearest(list(one)) for one in edges]))])"),
    Right("62.1", "a loop that remembers the best", _BEST, """\
    best = None
    for places in choices:
        edges = [0] + list(places) + [len(costs)]
        if best is None or dearest(edges) < dearest(best):
            best = edges
    return best"""),
    Right("62.2", "Isend and Irecv, waited for", [_SEND, "comm.Recv(entering, source=comm.rank - 1)"],
          ["        comm.Isend(leaving.detach().numpy(), dest=comm.rank + 1).Wait()",
           "request = comm.Irecv(entering.numpy(), source=comm.rank - 1)\n        request.wait()"]),
    Right("62.2", "block by block", "    leaving = stage(entering)",
          "    leaving = entering\n    for block in stage:\n        leaving = block(leaving)"),
    Right("62.2", "a NumPy box, keywords, a list", [
        _RECEIVE, "comm.Send(leaving.detach(), dest=comm.rank + 1)", "return entering, leaving"], [
        "        box = np.empty((len(pictures), stage[0][0].in_features), np.float32)\n"
        "        comm.Recv(buf=box, source=comm.rank - 1)\n        entering = torch.from_numpy(box)\n",
        "comm.Send(buf=leaving.detach().numpy(), dest=comm.rank + 1)", "return [entering, leaving]"]),
    Right("62.3", "torch.autograd.backward, Irecv",
          ["        comm.Recv(gradient, source=comm.rank + 1)\n        leaving.backward(gradient)"],
          ["        comm.Irecv(gradient.numpy(), source=comm.rank + 1).Wait()\n"
           "        torch.autograd.backward([leaving], [gradient])"]),
    Right("62.3", "a NumPy box", [
        "gradient = torch.empty_like(leaving).detach()", "comm.Recv(gradient, source",
        "leaving.backward(gradient)"], [
        "box = np.empty(tuple(leaving.shape), np.float32)", "comm.Recv(box, source",
        "leaving.backward(torch.from_numpy(box))"]),
]
# fmt: on
