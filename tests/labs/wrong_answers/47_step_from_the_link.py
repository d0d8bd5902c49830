"""Mistakes that learners make in lab 47, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"images": 4, "repeat": 5, "watched_steps": 3}

CALLS = "calls * (wait + 2 * math.log2(p) * alpha)"
COST = CALLS + " + 2 * (p - 1) / p * nbytes * beta"
BETA = "(long - short) / (there_and_back * (LONG - SHORT))"
ALPHA = "(by_mpi - there_and_back * SHORT * beta) / (2 * math.log2(p))"

# fmt: off
WRONG = [
    Wrong("47.1", "β with the wait in it", BETA, BETA.replace("long - short", "long - by_mpi"),
          "he wait is in it"),
    Wrong("47.1", "a byte moves once", BETA, "(long - short) / (LONG - SHORT)",
          "byte moves 2 (p - 1)/p times"),
    Wrong("47.1", "all bytes of the long one", BETA, "long / (there_and_back * LONG)", "β"),
    Wrong("47.1", "the bytes of the long one alone", BETA, BETA.replace("(LONG - SHORT)", "LONG"),
          "he two calls differ by LONG - SHORT bytes"),
    Wrong("47.1", "α by Horovod", ALPHA, ALPHA.replace("by_mpi", "short"),
          "he wait is in it: take MPI's time"),
    Wrong("47.1", "α of all messages", ALPHA, ALPHA.replace(" / (2 * math.log2(p))", ""),
          "here are 2 lg p messages"),
    Wrong("47.1", "bytes left in α", ALPHA, "by_mpi / (2 * math.log2(p))", "hat the bytes cost is in it"),
    Wrong("47.1", "lg p messages", ALPHA, ALPHA.replace("2 * math.log2(p)", "math.log2(p)"), "α"),
    Wrong("47.1", "all of H is the wait", "return short - by_mpi", "return short", "hat is all of H"),
    Wrong("47.1", "the wait from the long one", "return short - by_mpi", "return long - by_mpi",
          "the wait, in ms"),
    Wrong("47.1", "for two ranks only", "2 * (p - 1) / p", "1", "4 ranks"),
    Wrong("47.1", "nothing is returned", "return short", "result = short", "returns three numbers, not None"),
    Wrong("47.2", "α once a step", COST,
          COST.replace(CALLS, "calls * wait + 2 * math.log2(p) * alpha"),
          "counts α once, not for each call"),
    Wrong("47.2", "the wait once a step", COST,
          COST.replace(CALLS, "wait + calls * 2 * math.log2(p) * alpha"),
          "he wait comes with each call"),
    Wrong("47.2", "the wait left out", COST, COST.replace("wait + ", ""), "he wait is left out"),
    Wrong("47.2", "the wait in each round", COST,
          COST.replace("(wait + 2 * math.log2(p) * alpha)", "2 * math.log2(p) * (wait + alpha)"),
          "paid once a call, not in each of 2 lg p rounds"),
    Wrong("47.2", "whole rounds", COST, COST.replace("math.log2(p)", "int(math.log2(p))"),
          "6 ranks, 0.5 s alone"),
    Wrong("47.2", "bytes in every call", COST, COST.replace("alpha) + ", "alpha) + calls * "),
          "bytes are those of all calls together"),
    Wrong("47.2", "one message in each round", COST, COST.replace("2 * math", "math"),
          "here are 2 lg p rounds"),
    Wrong("47.2", "all bytes in each direction", COST, COST.replace("2 * (p - 1) / p * ", "2 * "),
          "a step with nothing hidden"),
    Wrong("47.2", "the rounds of a ring", COST, COST.replace("math.log2(p)", "(p - 1)"),
          "a step with nothing hidden"),
    Wrong("47.2", "communication alone", "alone + communication", "communication",
          "is the communication alone"),
    Wrong("47.2", "nothing is returned", "return max(", "result = max(", "bounds returns two numbers"),
    Wrong("47.2", "computing hides all", "max(alone, communication)", "alone",
          "step is never shorter than its communication"),
    Wrong("47.2", "the shorter of both", "max(alone, communication)", "min(alone, communication)",
          "step is never shorter than its communication"),
    Wrong("47.2", "bounds the other way round", "return max(alone, communication), alone + communication",
          "return alone + communication, max(alone, communication)",
          "is the step with all hidden: it comes first"),
]
