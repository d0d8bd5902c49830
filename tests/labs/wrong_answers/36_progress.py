"""Mistakes that learners make in lab 36, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"width": 32, "repeat": 2}

CARRY = """    for request in requests:
        request.Test()"""
# fmt: off
RIGHT = [
    Right("36.1", "MPI's call for several", CARRY,
          "    from mpi4py import MPI\n\n    MPI.Request.Testall(requests)"),
    Right("36.1", "mpi4py's call for several, in small letters", CARRY,
          "    from mpi4py import MPI\n\n    return MPI.Request.testall(requests)[0]"),
    Right("36.1", "from the newest to the oldest, in a list", CARRY,
          "    return [request.Test() for request in reversed(requests)]"),
    Right("36.1", "MPI's call for some, with its numbers returned", CARRY,
          "    from mpi4py import MPI\n\n    return MPI.Request.Testsome(requests)"),
    Right("36.1", "mpi4py's small letters, and Wait for what has completed", "request.Test()",
          "if request.test()[0]:\n            request.wait()"),
]
WRONG = [
    Wrong("36.1", "only the newest", CARRY, "    requests[-1].Test()",
          "Only the newest allreduce makes progress"),
    Wrong("36.1", "only the oldest", CARRY, "    requests[0].Test()",
          "Only the oldest allreduce makes progress"),
    Wrong("36.1", "it waits", "request.Test()", "request.Wait()", "`carry` waits"),
    Wrong("36.1", "it stops at the first that is not over",
          CARRY, "    for request in requests:\n        if not request.Test():\n            break",
          "Only the oldest allreduce makes progress"),
    Wrong("36.1", "it stops at the first that is over", CARRY,
          "    any(request.Test() for request in requests)", "does a loop end early"),
    Wrong("36.1", "no more than four", CARRY,
          "    for i in range(min(4, len(requests))):\n        requests[i].Test()",
          "5 allreduces launched: Tests of each in flight in one call of `carry`: expected 1 at [4]"),
    Wrong("36.1", "the newest eight", CARRY, CARRY.replace("requests:", "requests[-8:]:"),
          "The oldest allreduce is not tested"),
    Wrong("36.1", "the newest is left out", CARRY, CARRY.replace("requests:", "requests[:-1]:"),
          "The newest allreduce is not tested"),
    Wrong("36.1", "it waits once many are in flight", CARRY,
          CARRY + "\n    if len(requests) > 4:\n        requests[0].Wait()", "`carry` waits"),
    Wrong("36.1", "a generator that is never run", CARRY,
          "    return (request.Test() for request in requests)", "This call tests none of them"),
    Wrong("36.1", "the method is named, not called", "request.Test()", "request.Test",
          "with its parentheses"),
    Wrong("36.1", "it asks until it is over, which is to wait",
          CARRY, "    for request in requests:\n        while not request.Test():\n            pass",
          "which is waiting"),
    Wrong("36.1", "it takes the requests out of the list", CARRY,
          "    while requests:\n        requests.pop().Test()", "`carry` changes its list"),
    Wrong("36.1", "it drops the completed ones from the list", CARRY,
          "    requests[:] = [request for request in requests if not request.Test()]",
          "`carry` changes its list"),
    Wrong("36.1", "twice each", CARRY, CARRY + "\n        request.Test()", "tested twice"),
]
