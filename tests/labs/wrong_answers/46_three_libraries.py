"""Mistakes that learners make in lab 46, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"images": 4, "repeat": 5, "watched_steps": 3}

CALLS = "calls * (wait + 2 * math.log2(p) * alpha)"
COST = CALLS + " + 2 * (p - 1) / p * nbytes * beta"

# fmt: off
RIGHT = [
    Right("46.1", "by Python's own median, and loops",
          ["return sum(images_by_rank) / np.median(seconds)", "return np.median(1 - alone / step)"],
          ["import statistics\n    return np.sum(images_by_rank) / statistics.median(seconds.tolist())",
           "return float(np.median([(a - b) / a for a, b in zip(step, alone)]))"]),
    Right("46.1", "ranks and rates sorted, the base as a share of each",
          """\
    fewest = min(rates)
    of_one_rank = rates[fewest] / fewest
    return {p: rate / (p * of_one_rank) for p, rate in rates.items()}""",
          """\
    by_ranks = sorted(rates.items())
    fewest, base = by_ranks[0]
    result = {}
    for p, rate in by_ranks:
        result[p] = np.float64(rate) / base * fewest / p
    return result"""),
    Right("46.2", "an array of two, the logarithm by hand",
          ["math.log2(p)", "return max(alone, communication), alone + communication"],
          ["(math.log(p) / math.log(2))",
           "return np.array([np.maximum(alone, communication), np.add(alone, communication)])"]),
    Right("46.2", "whole rounds, which those of a power of two are", COST,
          COST.replace("math.log2(p)", "int(math.log2(p))")),
    Right("46.2", "a list, and the larger one by `if`",
          "    return max(alone, communication), alone + communication", """\
    hidden = alone
    if communication > alone:
        hidden = communication
    return [hidden, communication + alone]"""),
]

WRONG = [
    Wrong("46.1", "images of one rank", "sum(images_by_rank)", "images_by_rank[0]",
          "are the images of one rank"),
    Wrong("46.1", "as many on every rank", "sum(images_by_rank)", "len(images_by_rank) * images_by_rank[0]",
          "ne rank has fewer images than the first"),
    Wrong("46.1", "by the mean", "np.median(seconds)", "np.mean(seconds)",
          "the mean, the one step of 8 s decides"),
    Wrong("46.1", "by the best step", "np.median(seconds)", "np.min(seconds)", "images per second"),
    Wrong("46.1", "seconds per image", "sum(images_by_rank) / np.median(seconds)",
          "np.median(seconds) / sum(images_by_rank)", "images per second"),
    Wrong("46.1", "speed-up for efficiency", "rate / (p * of_one_rank)", "rate / of_one_rank",
          "is the speed-up"),
    Wrong("46.1", "one rank is the baseline", "fewest = min(rates)", "fewest = 1", "1"),
    Wrong("46.1", "the first in the dict is the baseline", "min(rates)", "next(iter(rates))",
          "efficiency of {8: 450.0, 2: 150.0, 4: 300.0}"),
    Wrong("46.1", "the smallest job for one rank", "rates[fewest] / fewest", "rates[fewest]",
          "with the rate of the whole smallest job"),
    Wrong("46.1", "medians before pairs",
          "np.median(1 - alone / step)", "1 - np.median(alone) / np.median(step)",
          "two medians are of different moments"),
    Wrong("46.1", "the mean of the pairs", "np.median(1 - alone / step)", "np.mean(1 - alone / step)",
          "the one step that was held up counts"),
    Wrong("46.1", "the share of computing", "np.median(1 - alone / step)", "np.median(alone / step)",
          "expected 0.2, got 0.8"),
    Wrong("46.1", "over the control", "np.median(1 - alone / step)", "np.median(step / alone - 1)",
          "is over the control; the share"),
    Wrong("46.1", "never below zero", "np.median(1 - alone / step)", "max(0, np.median(1 - alone / step))",
          "negative, leave it so"),
    Wrong("46.1", "a share for each pair", "np.median(1 - alone / step)", "1 - alone / step",
          "expected shape ()"),
    Wrong("46.1", "the first step left out as warm-up", "np.median(seconds)", "np.median(seconds[1:])",
          "very step was timed after the warm-up"),
    Wrong("46.1", "the best rank is the base", "of_one_rank = rates[fewest] / fewest",
          "of_one_rank = max(rate / p for p, rate in rates.items())", "efficiency of"),
    Wrong("46.1", "the caller's seconds are sorted", "    return sum(images_by_rank) / np.median(seconds)",
          "    seconds.sort()\n    return sum(images_by_rank) / np.median(seconds)",
          "The array of seconds was changed"),
    Wrong("46.1", "the upper one of two in the middle", "np.median(seconds)",
          "sorted(seconds)[len(seconds) // 2]", "the mean of the two in the middle"),
    Wrong("46.1", "the caller's rates are overwritten",
          "return {p: rate / (p * of_one_rank) for p, rate in rates.items()}",
          "rates.update({p: rate / (p * of_one_rank) for p, rate in rates.items()})\n    return rates",
          "The dict of rates was changed"),
    Wrong("46.1", "the caller's steps are overwritten", "    return np.median(1 - alone / step)",
          "    step -= alone\n    return np.median(step / (step + alone))",
          "An array of seconds was changed"),
    Wrong("46.1", "the upper one of two shares in the middle", "np.median(1 - alone / step)",
          "sorted(1 - alone / step)[len(step) // 2]", "0.3, got 0.4"),
    Wrong("46.1", "the median of the differences over that of the steps", "np.median(1 - alone / step)",
          "np.median(step - alone) / np.median(step)", "irst the share of each pair"),
    Wrong("46.1", "each array put in order, and then the pairs", "np.median(1 - alone / step)",
          "np.median(1 - np.sort(alone) / np.sort(step))", "irst the share of each pair"),
    Wrong("46.1", "the median of the rates", "sum(images_by_rank) / np.median(seconds)",
          "np.median(sum(images_by_rank) / seconds)", "ivide by the median of the seconds"),
    Wrong("46.2", "whole calls", COST, COST.replace("calls * (", "int(calls) * ("), "alls can be a fraction"),
    Wrong("46.2", "α by heart", COST, COST.replace("alpha", "3e-4"), "4 MB in 2 calls"),
    Wrong("46.2", "β by heart", COST, COST.replace("beta", "2e-10"), "4 MB in 2 calls"),
    Wrong("46.2", "the bytes by heart", COST, COST.replace("nbytes", "1e8"), "4 MB in 2 calls"),
    Wrong("46.2", "α once a step", COST,
          COST.replace(CALLS, "calls * wait + 2 * math.log2(p) * alpha"),
          "counts α once, not for each call"),
    Wrong("46.2", "the wait once a step", COST,
          COST.replace(CALLS, "wait + calls * 2 * math.log2(p) * alpha"),
          "he wait comes with each call"),
    Wrong("46.2", "the wait left out", COST, COST.replace("wait + ", ""),
          "a step with nothing hidden: expected 0.5412, got 0.5342"),
    Wrong("46.2", "bytes in every call", COST, COST.replace("alpha) + ", "alpha) + calls * "),
          "he bytes of all calls together are nbytes"),
    Wrong("46.2", "the natural logarithm", COST, COST.replace("math.log2", "math.log"),
          "he logarithm is to base 2"),
    Wrong("46.2", "one number", "return max(alone, communication), alone + communication",
          "return alone + communication", "bounds returns two numbers"),
    Wrong("46.2", "one message in each round", COST, COST.replace("2 * math", "math"),
          "expected 0.5412, got 0.5391"),
    Wrong("46.2", "all bytes in each direction", COST, COST.replace("2 * (p - 1) / p * ", "2 * "),
          "a step with nothing hidden"),
    Wrong("46.2", "the rounds of a ring", COST, COST.replace("math.log2(p)", "(p - 1)"),
          "a step with nothing hidden"),
    Wrong("46.2", "communication alone", "alone + communication", "communication",
          "expected 0.5412, got 0.0412"),
    Wrong("46.2", "nothing is returned", "return max(", "result = max(", "bounds returns two numbers"),
    Wrong("46.2", "computing hides all", "max(alone, communication)", "alone",
          "step is never shorter than its communication"),
    Wrong("46.2", "the shorter of both", "max(alone, communication)", "min(alone, communication)",
          "step is never shorter than its computation"),
    Wrong("46.2", "bounds the other way round", "return max(alone, communication), alone + communication",
          "return alone + communication, max(alone, communication)",
          "is the step with all hidden: it comes first"),
]
