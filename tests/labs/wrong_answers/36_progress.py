"""Mistakes that learners make in lab 36, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"width": 32, "repeat": 2, "patience": 30}

CARRY = """    for request in requests:
        request.Test()"""
LOOK = """    while not over.wait(every):
        comm.Iprobe()"""
NEXT = "now = later[0] if later else arrives"

# fmt: off
WRONG = [
    Wrong("36.1", "only the newest", CARRY, "    requests[-1].Test()", "Only the newest sum is moved on"),
    Wrong("36.1", "only the oldest", CARRY, "    requests[0].Test()", "Only the oldest sum is moved on"),
    Wrong("36.1", "it waits", "request.Test()", "request.Wait()", "`carry` waits"),
    Wrong("36.1", "it stops at the first that is not over",
          CARRY, "    for request in requests:\n        if not request.Test():\n            break",
          "Only the oldest sum is moved on"),
    Wrong("36.1", "nothing at all", CARRY, "    pass", "Tests of each, after one call"),
    Wrong("36.1", "the method is named, not called", "request.Test()", "request.Test", "Tests of each"),
    Wrong("36.1", "it asks until it is over, which is to wait",
          CARRY, "    for request in requests:\n        while not request.Test():\n            pass",
          "Tests of each, after one call"),
    Wrong("36.2", "as if somebody else moved them",
          NEXT, "now = arrives", "3 layers of 20 ms, 6 rounds of 10 ms: expected 90, got 60"),
    Wrong("36.2", "the last Test, not the first",
          "later[0]", "later[-1]", "which hide behind them: expected 150, got 160"),
    Wrong("36.2", "computing that outlasts the sum is forgotten",
          "return max(now, end)", "return now", "which hide behind them"),
    Wrong("36.2", "computing and sum one after the other",
          "return max(now, end)", "return end + rounds * round_ms", "which hide behind them"),
    Wrong("36.2", "one round too few",
          "range(rounds)", "range(rounds - 1)", "No layers, 6 rounds of 10 ms: expected 60, got 50"),
    Wrong("36.2", "a Test just when a round is over does not count", "test >= arrives", "test > arrives",
          "a Test just when one is over"),
    Wrong("36.2", "rounds are always of 10 ms", "now + round_ms", "now + 10", "6 rounds of 5 ms"),
    Wrong("36.3", "it looks once", "while not over.wait(every):", "if not over.wait(every):",
          "look again and again"),
    Wrong("36.3", "a pause of its own", "over.wait(every)", "over.wait(0.02)", "sleep 40 ms before each"),
    Wrong("36.3", "it asks without a pause",
          LOOK, "    while not over.is_set():\n        comm.Iprobe()", "sleep 20 ms before each"),
    Wrong("36.3", "it sleeps, and never asks",
          "        comm.Iprobe()", "        pass", "never calls comm.Iprobe()"),
    Wrong("36.3", "it never ends",
          LOOK, "    comm.Iprobe()\n    while True:\n        over.wait()\n"
          "        over.clear()", "has not ended"),
    Wrong("36.3", "a pause of its own, a tenth of what was asked",
          "over.wait(every)", "over.wait(every / 10)", "sleep 20 ms before each"),
]
