"""Mistakes of learners in lab 63: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"counts": (1, 2), "nap": 0.005, "width": 256}

_GPIPE = (
    '    plan = [("F", number) for number in range(micro)] + [("B", number) for number in'
    " range(micro)]"
)
_TURN = '            plan += [("F", number), ("B", number - warm)]'
_ISEND = "pending.append(comm.Isend(leaving, dest=comm.rank + 1, tag=number))"
_ISEND_BACK = "pending.append(comm.Isend(back, dest=comm.rank - 1, tag=number))"

# fmt: off
WRONG = [
    Wrong("63.1", "one plan for all", "return [list(plan) for _ in range(ranks)]", "return plan",
          "a plan for each of"),
    Wrong("63.1", "no way back", _GPIPE, '    plan = [("F", number) for number in range(micro)]',
          "goes backwards"),
    Wrong("63.1", "micro-batches from 1", _GPIPE, _GPIPE.replace("range(micro)", "range(1, micro + 1)"),
          "right are 0 to"),
    Wrong("63.1", "one after the other", _GPIPE,
          '    plan = [(kind, number) for number in range(micro) for kind in "FB"]',
          "irst all F, then all B"),
    Wrong("63.1", "back first", _GPIPE,
          '    plan = [(kind, number) for kind in "BF" for number in range(micro)]',
          "before it went forwards"),
    Wrong("63.1", "back in the other order", _GPIPE,
          '    plan = [("F", number) for number in range(micro)]\n'
          '    plan += [("B", micro - 1 - number) for number in range(micro)]', "irst all F, then all B"),
    Wrong("63.2", "GPipe's", "    return plans", "    return gpipe(ranks, micro)",
          "its plan"),
    Wrong("63.2", "one more in the warm-up", "ranks - 1 - rank", "ranks - rank",
          "2 F in front of the first B, where 1 is right"),
    Wrong("63.2", "the ranks the other way round", "ranks - 1 - rank", "rank", "waits for ever"),
    Wrong("63.2", "B before F in turn", _TURN, '            plan += [("B", number - warm), ("F", number)]',
          "63.2"),
    Wrong("63.2", "B of the wrong micro-batch", _TURN, '            plan += [("F", number), ("B", number)]',
          "goes backwards with micro-batches"),
    Wrong("63.2", "warm-up without a limit", "min(micro, ranks - 1 - rank)", "ranks - 1 - rank",
          "goes forwards"),
    Wrong("63.2", "the rest is forgotten",
          '        plan += [("B", number) for number in range(micro - warm, micro)]\n', "", "goes backwards"),
    Wrong("63.3", "empties the caller's plan", "    for kind, number in plan:\n",
          "    while plan:\n        kind, number = plan.pop(0)\n", "the list `plan` was changed"),
    Wrong("63.3", "GPipe, whatever the plan says", "    for kind, number in plan:",
          "    for kind, number in sorted(plan, key=lambda action: action[0] == 'B'):",
          "what it did, in order"),
    Wrong("63.3", "Send waits", [_ISEND, _ISEND_BACK],
          ["comm.Send(leaving, dest=comm.rank + 1, tag=number)",
          "comm.Send(back, dest=comm.rank - 1, tag=number)"],
          "without an end", hangs=True),
    Wrong("63.3", "nothing is waited for", "        request.Wait()", "        pass", "were not waited for"),
    Wrong("63.3", "only the last is waited for", "    for request in pending:\n        request.Wait()",
          "    if pending:\n        pending[-1].Wait()", "were not waited for"),
    Wrong("63.3", "the first rank sends to rank -1",
          f"            if comm.rank > 0:\n                {_ISEND_BACK}",
          f"            {_ISEND_BACK}", "-1"),
    Wrong("63.3", "nothing is sent back", _ISEND_BACK, "pass", "without an end", hangs=True),
    Wrong("63.3", "the way back is left out", "            back = work.backward(number, gradient)",
          "            back = gradient if comm.rank else None", "63.3"),
    Wrong("63.3", "a gradient of ones",
          "                comm.Recv(gradient, source=comm.rank + 1, tag=number)",
          "                comm.Recv(gradient, source=comm.rank + 1, tag=number)\n"
          "                gradient[:] = 1", "gradient of parameter"),
    Wrong("63.3", "always micro-batch 0", "leaving = work.forward(number, entering)",
          "leaving = work.forward(0, entering)", "63.3"),
    Wrong("63.3", "rank 0 receives from rank -1", """\
            entering = None
            if comm.rank > 0:
                entering = work.room_for_entering(number)
                comm.Recv(entering, source=comm.rank - 1, tag=number)
""", """\
            entering = work.room_for_entering(number)
            comm.Recv(entering, source=comm.rank - 1, tag=number)
            entering = entering if comm.rank else None
""", "source=-1: there is no such rank"),
    Wrong("63.3", "pickled", [_ISEND, "comm.Recv(entering, source=comm.rank - 1, tag=number)"],
          ["pending.append(comm.isend(leaving, dest=comm.rank + 1, tag=number))",
           "entering = comm.recv(source=comm.rank - 1, tag=number)"], "pack any object"),
    Wrong("63.3", "the gradient is not received", "backward(number, gradient)", "backward(number, None)",
          "got None for the gradient"),
    Wrong("63.3", "only forwards", "        else:\n            gradient = None",
          '        elif kind == "C":\n            gradient = None', "has no gradient"),
]

RIGHT = [
    Right("63.1", "a product, a tuple of plans", [
        _GPIPE, "return [list(plan) for _ in range(ranks)]"], [
        '    plan = [(kind, number) for kind in "FB" for number in range(micro)]',
        "return (plan,) * ranks"]),
    Right("63.1", "loops", "return [list(plan) for _ in range(ranks)]",
          "plans = []\n    while len(plans) < ranks:\n        plans.append(plan[:])\n    return plans"),
    Right("63.2", "by counters", """\
        warm = min(micro, ranks - 1 - rank)
        plan = [("F", number) for number in range(warm)]
        for number in range(warm, micro):
            plan += [("F", number), ("B", number - warm)]
        plan += [("B", number) for number in range(micro - warm, micro)]
""", """\
        plan, forwards, back = [], 0, 0
        while back < micro:
            if forwards < micro and forwards - back < ranks - rank:
                plan.append(("F", forwards))
                forwards += 1
            else:
                plan.append(("B", back))
                back += 1
"""),
    Right("63.2", "iterators, lists for actions", _TURN,
          '            plan.extend([["F", number], ["B", number - warm]])'),
    Right("63.3", "Irecv, waited for at once; Waitall by hand",
          ["comm.Recv(entering, source=comm.rank - 1, tag=number)",
           "    for request in pending:\n        request.Wait()"],
          ["comm.Irecv(entering, source=comm.rank - 1, tag=number).Wait()",
           "    while pending:\n        pending.pop().wait()"]),
    Right("63.3", "keywords; waits for the request before", [_ISEND, _ISEND_BACK], [
        "pending += [comm.Isend(buf=leaving, dest=comm.rank + 1, tag=number)]",
        "pending += [comm.Isend(buf=back, dest=comm.rank - 1, tag=number)]"]),
]
# fmt: on
