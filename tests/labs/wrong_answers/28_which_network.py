"""Mistakes of learners in lab 28: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"nodes": 2}

_RULE = """    if nbytes <= 2048:
        return rounds * (alpha + nbytes * beta)
"""
_LONG = "    return 2 * rounds * alpha + 2 * (p - 1) / p * nbytes * beta"

# fmt: off
WRONG = [
    Wrong("28.1", "doubling at every size", _LONG, "    return rounds * (alpha + nbytes * beta)",
          "2,049 bytes, ranks: 8"),
    Wrong("28.1", "Rabenseifner at every size", _RULE, "", "up to 2,048 bytes it is recursive doubling"),
    Wrong("28.1", "the limit is one off", "nbytes <= 2048", "nbytes < 2048", "2,048 bytes, ranks: 8"),
    Wrong("28.1", "the limit is one too high", "nbytes <= 2048", "nbytes <= 2049",
          "above 2,048 bytes it is Rabenseifner"),
    Wrong("28.1", "the whole vector once", "rounds * (alpha + nbytes * beta)",
          "rounds * alpha + nbytes * beta", "each message has the whole vector"),
    Wrong("28.1", "one way only", _LONG, "    return rounds * alpha + 2 * (p - 1) / p * nbytes * beta",
          "2 log₂ p messages"),
    Wrong("28.1", "bytes one way", _LONG, "    return 2 * rounds * alpha + (p - 1) / p * nbytes * beta",
          "sends the bytes twice"),
    Wrong("28.1", "its own part is sent, too", _LONG, "    return 2 * rounds * alpha + 2 * nbytes * beta",
          "does not send its own part"),
    Wrong("28.1", "the logarithm to base e", "math.log2(p)", "math.log(p)",
          "seconds, compared with the virtual cluster's: expected"),
    Wrong("28.1", "µs", [_RULE, _LONG], [_RULE.replace("return ", "return 1e6 * "),
          _LONG.replace("return 2", "return 1e6 * (2") + ")"], "return seconds"),
    Wrong("28.1", "nothing comes back", [_RULE, _LONG], [_RULE.replace("return ", "_ = "),
          _LONG.replace("return ", "_ = ")], "Does the function return its result"),
    Wrong("28.2", "of one message", "return math.log2(p) * p / (p - 1) * alpha / beta",
          "return alpha / beta", "a single message"),
    Wrong("28.2", "one message each way", "math.log2(p) * p / (p - 1)", "p / (p - 1)",
          "bytes: expected"),
    Wrong("28.2", "all of the vector travels", "math.log2(p) * p / (p - 1)", "math.log2(p)",
          "not 2 n"),
    Wrong("28.2", "multiplied by the share", "p / (p - 1)", "(p - 1) / p", "instead of multiplying"),
    Wrong("28.2", "the 2 is left", "math.log2(p) * p", "2 * math.log2(p) * p", "have a factor 2"),
    Wrong("28.2", "times beta", "alpha / beta", "alpha * beta", "divide by it"),
    Wrong("28.2", "at least 2,048 bytes", "return math.log2(p) * p / (p - 1) * alpha / beta",
          "return max(2048, math.log2(p) * p / (p - 1) * alpha / beta)", "below 2,048 bytes, too"),
    Wrong("28.2", "the logarithm to base e", "math.log2(p)", "math.log(p)", "bytes: expected"),
    Wrong("28.3", "less than nothing waits", "max(0, exchange - hidden * compute)",
          "exchange - hidden * compute", "the share is 0, not less"),
    Wrong("28.3", "a share of the exchange is hidden", "exchange - hidden * compute",
          "exchange - hidden * exchange", "not of the exchange"),
    Wrong("28.3", "nothing is hidden", "exchange - hidden * compute", "exchange",
          "the share that waits: expected"),
    Wrong("28.3", "a share of the computing", "exposed / (compute + exposed)", "exposed / compute",
          "a step is longer"),
    Wrong("28.3", "seconds", "return exposed / (compute + exposed)", "return exposed",
          "the share that waits: expected"),
    Wrong("28.3", "a step of all", "(compute + exposed)", "(compute + exchange)",
          "only the exposed part"),
    Wrong("28.3", "a step may take less than the computation", "compute + exposed",
          "compute + exchange - hidden * compute", "division by zero"),
    Wrong("28.3", "nothing waits if all is hidden", "exposed / (compute + exposed)",
          "exposed / (compute + exposed) if hidden < 1 else 0", "so a part is exposed"),
    Wrong("28.3", "in percent", "return exposed", "return 100 * exposed", "between 0 and 1"),
    Wrong("28.3", "the share that computes", "return exposed /", "return compute /",
          "the share that waits: expected"),
]

RIGHT = [
    Right("28.1", "NumPy's logarithm, one return", _RULE + _LONG, """\
    bytes_sent = rounds * nbytes if nbytes <= 2048 else 2 * (p - 1) / p * nbytes
    return np.log2(p) * (1 + (nbytes > 2048)) * alpha + bytes_sent * beta"""),
    Right("28.1", "whole numbers by bit_length", "math.log2(p)", "p.bit_length() - 1"),
    Right("28.2", "a loop counts the rounds", "    return math.log2(p) * p / (p - 1) * alpha / beta", """\
    rounds = 0
    while 2**rounds < p:
        rounds += 1
    return rounds * alpha / (beta * (1 - 1 / p))"""),
    Right("28.2", "whole bytes", "math.log2(p) * p / (p - 1) * alpha / beta",
          "int(math.log2(p) * p / (p - 1) * alpha / beta)"),
    Right("28.2", "as a NumPy number", "math.log2(p) * p", "np.log2(np.float32(p)) * p"),
    Right("28.3", "with if", "exposed = max(0, exchange - hidden * compute)",
          "exposed = exchange - hidden * compute if exchange > hidden * compute else 0"),
    Right("28.3", "one less the share that computes", [
          "max(0, exchange", "exposed / (compute + exposed)"], [
          "np.maximum(0, exchange", "1 - compute / (compute + exposed)"]),
]
# fmt: on
