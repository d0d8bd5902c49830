"""Mistakes of learners in lab 28: exercise, mistake, what is replaced, by what, a phrase of the rejection."""

from tests.labs.wrong_answers import Wrong

SMALL = {"nodes": 2}

_RULE = """    if nbytes <= 2048:
        return rounds * (alpha + nbytes * beta)
"""
_LONG = "    return 2 * rounds * alpha + 2 * (p - 1) / p * nbytes * beta"

# fmt: off
WRONG = [
    Wrong("28.1", "doubling at every size", _LONG, "    return rounds * (alpha + nbytes * beta)",
          "above 2,048 bytes it is Rabenseifner"),
    Wrong("28.1", "Rabenseifner at every size", _RULE, "", "up to 2,048 bytes it is doubling"),
    Wrong("28.1", "the limit is one off", "nbytes <= 2048", "nbytes < 2048", "2,048 bytes on 8 ranks"),
    Wrong("28.1", "the whole vector once", "rounds * (alpha + nbytes * beta)",
          "rounds * alpha + nbytes * beta", "each message has the whole vector"),
    Wrong("28.1", "one way only", _LONG, "    return rounds * alpha + 2 * (p - 1) / p * nbytes * beta",
          "2 lg p messages: there and back"),
    Wrong("28.1", "bytes one way", _LONG, "    return 2 * rounds * alpha + (p - 1) / p * nbytes * beta",
          "goes there and back"),
    Wrong("28.1", "its own part is sent, too", _LONG, "    return 2 * rounds * alpha + 2 * nbytes * beta",
          "keeps its own part"),
    Wrong("28.1", "the logarithm to base e", "math.log2(p)", "math.log(p)", "base e"),
    Wrong("28.1", "nothing comes back", [_RULE, _LONG], [_RULE.replace("return ", "_ = "),
          _LONG.replace("return ", "_ = ")], "returns nothing"),
    Wrong("28.2", "of one message", "return math.log2(p) * p / (p - 1) * alpha / beta",
          "return alpha / beta", "a single message"),
    Wrong("28.2", "one message each way", "math.log2(p) * p / (p - 1)", "p / (p - 1)",
          "lg p messages each way"),
    Wrong("28.2", "all of the vector travels", "math.log2(p) * p / (p - 1)", "math.log2(p)",
          "only (p - 1)/p travel"),
    Wrong("28.2", "multiplied by the share", "p / (p - 1)", "(p - 1) / p", "by the share that travels"),
    Wrong("28.2", "the 2 is left", "math.log2(p) * p", "2 * math.log2(p) * p", "it cancels"),
    Wrong("28.2", "times beta", "alpha / beta", "alpha * beta", "divide by it"),
    Wrong("28.2", "the logarithm to base e", "math.log2(p)", "math.log(p)", "base e"),
    Wrong("28.3", "less than nothing waits", "max(0, exchange - hidden * compute)",
          "exchange - hidden * compute", "it is 0, not less"),
    Wrong("28.3", "a share of the exchange is hidden", "exchange - hidden * compute",
          "exchange - hidden * exchange", "not of the exchange"),
    Wrong("28.3", "nothing is hidden", "exchange - hidden * compute", "exchange", "is covered in this"),
    Wrong("28.3", "a share of the computing", "exposed / (compute + exposed)", "exposed / compute",
          "a step is longer"),
    Wrong("28.3", "seconds", "return exposed / (compute + exposed)", "return exposed",
          "divide by the step's"),
    Wrong("28.3", "a step of all", "(compute + exposed)", "(compute + exchange)",
          "does not make the step longer"),
    Wrong("28.3", "the share that computes", "return exposed /", "return compute /",
          "the share that computes"),
    Wrong("28.4", "upside down", "return peak / bandwidth", "return bandwidth / peak", "upside down"),
    Wrong("28.4", "a product", "return peak / bandwidth", "return peak * bandwidth",
          "no such unit"),
    Wrong("28.4", "the higher roof", "min(peak, bandwidth * intensity)", "max(peak, bandwidth * intensity)",
          "memory is the limit"),
    Wrong("28.4", "no peak", "min(peak, bandwidth * intensity)", "bandwidth * intensity",
          "nothing passes the peak"),
    Wrong("28.4", "no memory", "return min(peak, bandwidth * intensity)", "return peak",
          "memory is the limit"),
    Wrong("28.4", "divided by the intensity", "bandwidth * intensity", "bandwidth / intensity",
          "by operations a byte"),
]
# fmt: on
