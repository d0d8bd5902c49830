"""Mistakes of learners in lab 63: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"counts": (1, 30), "nap": 0.005, "width": 256}

_GPIPE = """\
    schedule = [("F", number) for number in range(micro)]
    schedule += [("B", number) for number in range(micro)]"""
_TURN = '            schedule += [("F", number), ("B", number - warm)]'
_ISEND = "pending.append(comm.Isend(leaving, dest=comm.rank + 1, tag=number))"
_ISEND_BACK = "pending.append(comm.Isend(back, dest=comm.rank - 1, tag=number))"

# fmt: off
WRONG = [
    Wrong("63.1", "one schedule for all", "return [list(schedule) for _ in range(ranks)]", "return schedule",
          "a schedule for each of"),
    Wrong("63.1", "no way back", _GPIPE, '    schedule = [("F", number) for number in range(micro)]',
          "has B of micro-batches"),
    Wrong("63.1", "micro-batches from 1", _GPIPE, _GPIPE.replace("range(micro)", "range(1, micro + 1)"),
          "must have F of 0 to"),
    Wrong("63.1", "one after the other", _GPIPE,
          '    schedule = [(kind, number) for number in range(micro) for kind in "FB"]',
          "irst all F, then all B"),
    Wrong("63.1", "back first", _GPIPE,
          '    schedule = [(kind, number) for kind in "BF" for number in range(micro)]',
          "before F of the same micro-batch"),
    Wrong("63.1", "back in the other order", _GPIPE,
          '    schedule = [("F", number) for number in range(micro)]\n'
          '    schedule += [("B", micro - 1 - number) for number in range(micro)]', "irst all F, then all B"),
    Wrong("63.2", "GPipe's", "    return schedules", "    return gpipe(ranks, micro)",
          "its schedule"),
    Wrong("63.2", "one more in the warm-up", "ranks - 1 - rank", "ranks - rank",
          "4 F before the first B, where 3 is right"),
    Wrong("63.2", "the ranks the other way round", "ranks - 1 - rank", "rank", "waits forever"),
    Wrong("63.2", "B before F in turn", _TURN, '            schedule += [("B", number - warm), ("F", number)]',
          "before F of the same micro-batch"),
    Wrong("63.2", "B of the wrong micro-batch", _TURN, '            schedule += [("F", number), ("B", number)]',
          "has B of micro-batches"),
    Wrong("63.2", "warm-up without a limit", "min(micro, ranks - 1 - rank)", "ranks - 1 - rank",
          "has F of micro-batches"),
    Wrong("63.2", "the rest is forgotten",
          '        schedule += [("B", number) for number in range(micro - warm, micro)]\n', "", "has B of micro-batches"),
    Wrong("63.3", "F and B exchanged", 'if kind == "F":', 'if kind == "B":', "comes before its work.forward"),
    Wrong("63.3", "empties the caller's schedule", "    for kind, number in schedule:\n",
          "    while schedule:\n        kind, number = schedule.pop(0)\n", "the list `schedule` was changed"),
    Wrong("63.3", "GPipe, whatever the schedule says", "    for kind, number in schedule:",
          "    for kind, number in sorted(schedule, key=lambda action: action[0] == 'B'):",
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
    Wrong("63.3", "a gradient of ones",
          "                comm.Recv(gradient, source=comm.rank + 1, tag=number)",
          "                comm.Recv(gradient, source=comm.rank + 1, tag=number)\n"
          "                gradient[:] = 1", "gradient of parameter"),
    Wrong("63.3", "always micro-batch 0", "leaving = work.forward(number, entering)",
          "leaving = work.forward(0, entering)", "comes before its work.forward"),
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
    Wrong("63.3", "counts, whatever the numbers say", "    for kind, number in schedule:\n",
          "    counts = {'F': 0, 'B': 0}\n    for kind, _ in schedule:\n"
          "        number = counts[kind]\n        counts[kind] += 1\n", "what it did, in order"),
    Wrong("63.3", "Irecv, waited for at the end",
          "comm.Recv(entering, source=comm.rank - 1, tag=number)",
          "pending.append(comm.Irecv(entering, source=comm.rank - 1, tag=number))", "wait for an Irecv"),
    Wrong("63.3", "one box for all that enters", "entering = work.room_for_entering(number)",
          "entering = box = locals().get('box', work.room_for_entering(0))", "into a new tensor"),
    Wrong("63.3", "the first rank passes an empty tensor", "            entering = None\n",
          "            entering = work.room_for_entering(number)\n", "no previous rank here, so pass None"),
    Wrong("63.3", "the last rank passes an empty tensor", "            gradient = None\n",
          "            gradient = work.room_for_gradient(number)\n", "no next rank here, so pass None"),
    Wrong("63.3", "the gradient is not received", "backward(number, gradient)", "backward(number, None)",
          "work.backward got None"),
    Wrong("63.3", "only forwards", "        else:\n            gradient = None",
          '        elif kind == "C":\n            gradient = None', "has no gradient"),
    Wrong("63.1", "small letters", _GPIPE,
          '    schedule = [(kind, number) for kind in "fb" for number in range(micro)]',
          "an action is ("),
    Wrong("63.1", "number first", _GPIPE,
          '    schedule = [(number, kind) for kind in "FB" for number in range(micro)]', "an action is ("),
    Wrong("63.1", "each schedule is a generator", "list(schedule)", "iter(schedule)", "not a list"),
    Wrong("63.3", "a barrier for each action", "    for kind, number in schedule:\n",
          "    for kind, number in schedule:\n        comm.Barrier()\n", "make all ranks wait"),
]

RIGHT = [
    Right("63.1", "a product, a tuple of schedules", [
        _GPIPE, "return [list(schedule) for _ in range(ranks)]"], [
        '    schedule = [(kind, number) for kind in "FB" for number in range(micro)]',
        "return (schedule,) * ranks"]),
    Right("63.2", "by counters", """\
        warm = min(micro, ranks - 1 - rank)
        schedule = [("F", number) for number in range(warm)]
        for number in range(warm, micro):
            schedule += [("F", number), ("B", number - warm)]
        schedule += [("B", number) for number in range(micro - warm, micro)]
""", """\
        schedule, forwards, back = [], 0, 0
        while back < micro:
            if forwards < micro and forwards - back < ranks - rank:
                schedule.append(("F", forwards))
                forwards += 1
            else:
                schedule.append(("B", back))
                back += 1
"""),
    Right("63.2", "iterators, lists for actions", _TURN,
          '            schedule.extend([["F", number], ["B", number - warm]])'),
    Right("63.3", "Irecv, waited for at once; Waitall by hand",
          ["comm.Recv(entering, source=comm.rank - 1, tag=number)",
           "    for request in pending:\n        request.Wait()"],
          ["comm.Irecv(entering, source=comm.rank - 1, tag=number).Wait()",
           "    while pending:\n        pending.pop().wait()"]),
    Right("63.3", "keywords; waits for the request before", [_ISEND, _ISEND_BACK], [
        "pending += [comm.Isend(buf=leaving, dest=comm.rank + 1, tag=number)]",
        "pending += [comm.Isend(buf=back, dest=comm.rank - 1, tag=number)]"]),
    Right("63.3", "NumPy views of the tensors", [_ISEND, _ISEND_BACK], [
        "pending.append(comm.Isend(leaving.numpy(), dest=comm.rank + 1, tag=number))",
        "pending.append(comm.Isend(back.numpy(), dest=comm.rank - 1, tag=number))"]),
]
# fmt: on
