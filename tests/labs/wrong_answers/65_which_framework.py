"""Mistakes of learners in lab 65: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

# Two ways of one framework; all five are run in tests/support/test_lab65.py.
SMALL = {"ways": ("PyTorch DDP", "FSDP2"), "width": 32, "batch": 16, "steps": 8, "rounds": 1}

_LINES = '[line for line in rows if line.strip() and not line.strip().startswith("#")]'
_COUNT = 'return marks.count("- "), marks.count("+ ")'
_INFINITE = "sorted(np.inf if value is None else value for value in seconds)"

# fmt: off
WRONG = [
    Wrong("65.1", "swapped", _COUNT, 'return marks.count("+ "), marks.count("- ")', "swapped"),
    Wrong("65.1", "one number", _COUNT, 'return marks.count("- ") + marks.count("+ ")', "two numbers"),
    Wrong("65.1", "comments count", ' and not line.strip().startswith("#")', "", "comment"),
    Wrong("65.1", "empty lines count", "line.strip() and not line.strip()", "not line.strip()",
          "only comments and empty lines"),
    Wrong("65.1", "comments behind spaces count", 'not line.strip().startswith("#")',
          'not line.startswith("#")', "only comments and empty lines"),
    Wrong("65.1", "comments without a space count", '.startswith("#")', '.startswith("# ")',
          "only comments and empty lines"),
    Wrong("65.1", "lines of spaces count", "line.strip() and", "line and", "only comments and empty lines"),
    Wrong("65.1", "spaces in front are dropped", _LINES, _LINES.replace("[line for", "[line.strip() for"),
          "newly indented"),
    Wrong("65.1", "sets of lines", _COUNT,
          "return len(set(texts[0]) - set(texts[1])), len(set(texts[1]) - set(texts[0]))", "added again"),
    Wrong("65.1", "hints count", _COUNT, 'return marks.count("- ") + marks.count("? "), marks.count("+ ")',
          "(removed, added)"),
    Wrong("65.1", "lengths alone", _COUNT, "return 0, len(texts[1]) - len(texts[0])", "a line modified"),
    Wrong("65.1", "the order is lost", _COUNT,
          "count = __import__('collections').Counter\n    before, after = map(count, texts)\n"
          "    return (before - after).total(), (after - before).total()",
          "a line that was moved:"),
    Wrong("65.1", "compared before comments are taken away", [_LINES, "difflib.ndiff(*texts)]"],
          ["rows", 'difflib.ndiff(*texts) if line[2:].strip() and line[2:].strip()[0] != "#"]'],
          "behind comments"),
    Wrong("65.2", "the batch by heart", "batch / seconds", "48 / seconds", "1 rank: speeds"),
    Wrong("65.2", "the first and the last rank alone", "zip(*moments, strict=False)",
          "zip(moments[0], moments[-1], strict=False)", "4 ranks: start-up"),
    Wrong("65.2", "sorts the caller's ranks", "    ends = [max", "    moments.sort()\n    ends = [max",
          "the list of moments was changed"),
    Wrong("65.2", "a dict", "return ends[0] - started, [batch / seconds for seconds in durations[first - 1 :]]",
          "return {0: ends[0], 'speeds': durations}", "return two: the start-up"),
    Wrong("65.2", "cuts the caller's lists to the shortest one",
          "    ends = [max(of_ranks)",
          "    for of_rank in moments:\n        del of_rank[min(map(len, moments)) :]\n"
          "    ends = [max(of_ranks)", "the list of moments was changed"),
    Wrong("65.2", "always the fifth", "durations[first - 1 :]", "durations[4:]", "first=7"),
    Wrong("65.2", "the first rank begins", "return ends[0] - started", "return moments[0][0] - started",
          "until the slowest rank has finished step 0"),
    Wrong("65.2", "a moment", "return ends[0] - started", "return ends[0]", "lasts from `started`"),
    Wrong("65.2", "the fastest rank ends a step", "max(of_ranks)", "min(of_ranks)", "start-up"),
    Wrong("65.2", "a rank's images", "batch / seconds for", "batch / len(moments) / seconds for", "speeds"),
    Wrong("65.2", "ranks counted twice", "batch / seconds for", "batch * len(moments) / seconds for",
          "already the number for all ranks"),
    Wrong("65.2", "durations", "batch / seconds for", "seconds for", "divided by that"),
    Wrong("65.2", "all steps", "durations[first - 1 :]", "durations", "how many speeds"),
    Wrong("65.2", "one step too late", "durations[first - 1 :]", "durations[first:]", "how many speeds"),
    Wrong("65.2", "the mean alone", "[batch / seconds for seconds in durations[first - 1 :]]",
          "batch / durations[first - 1 :].mean()", "return two: the start-up"),
    Wrong("65.2", "rounded speeds", "[batch / seconds for", "[round(batch / seconds) for", "1 rank: speeds"),
    Wrong("65.2", "each rank's own durations", ["durations = np.diff(ends)"],
          ["durations = np.max([np.diff(rank[: len(ends)]) for rank in moments], axis=0)"], "2 ranks: speeds"),
    Wrong("65.2", "the first rank's steps", "durations = np.diff(ends)",
          "durations = np.diff(moments[0][: len(ends)])", "slowest rank"),
    Wrong("65.3", "takes ways out of the caller's dict", "    return left",
          "    for way in [way for way in of_ways if way not in left]:\n        del of_ways[way]\n"
          "    return list(of_ways)", "The dict of ways was changed"),
    Wrong("65.3", "always less", "if more_is_better:", "if False:", "where more is better"),
    Wrong("65.3", "the middle decides", [
        "any(other[0] > high for other in of_ways.values())",
        "any(other[1] < low for other in of_ways.values())"], [
        "any(sum(other) > low + high for other in of_ways.values())",
        "any(sum(other) < low + high for other in of_ways.values())"], "better side"),
    Wrong("65.3", "touching rules out", "any(other[1] < low", "any(other[1] <= low", "still in"),
    Wrong("65.3", "the best end decides", "any(other[1] < low", "any(other[0] < low", "better side"),
    Wrong("65.3", "only the one that begins best", [
        "any(other[0] > high for other in of_ways.values())",
        "any(other[1] < low for other in of_ways.values())"], [
        "max(of_ways.values(), key=lambda span: span[1])[0] > high", "min(of_ways.values())[1] < low"],
        "still in"),
    Wrong("65.3", "who is ruled out", "if not ruled_out:", "if ruled_out:", "These are the ways that are ruled out"),
    Wrong("65.3", "whole numbers", "(low, high) in of_ways.items()",
          "(low, high) in [(way, (span[0] // 1, span[1])) for way, span in of_ways.items()]", "still in"),
    Wrong("65.3", "returns nothing", "return left", "left.sort()", "this is None"),
    Wrong("65.3", "touching rules out where more is better", "any(other[0] > high", "any(other[0] >= high",
          "still in"),
    Wrong("65.3", "one text", "return left", 'return ", ".join(left)', "Return the list of ways; this is 'a, b, d'"),
    Wrong("65.4", "the mean of all", "kept = ordered[1:-1]", "kept = ordered", "drop the fastest"),
    Wrong("65.4", "not sorted", _INFINITE, "[np.inf if value is None else value for value in seconds]",
          "sort first"),
    Wrong("65.4", "the median", "return sum(kept) / len(kept)", "return float(np.median(kept))", "median"),
    Wrong("65.4", "the fastest", "return sum(kept) / len(kept)", "return ordered[0]", "the fastest run"),
    Wrong("65.4", "who missed it is forgotten", _INFINITE, "sorted(value for value in seconds if value)",
          "the one to drop"),
    Wrong("65.4", "one is too many", "if np.inf in kept", "if None in seconds", "One run may miss"),
    Wrong("65.4", "a missed run counts as 1000 s", ["np.inf if value", "np.inf in kept"],
          ["1000 if value", "1000 in kept"], "has to count as the slowest"),
    Wrong("65.4", "only the slowest is dropped", "ordered[1:-1]", "ordered[:-1]", "drops only the slowest"),
    Wrong("65.4", "equal times once", "sorted(np.inf if value is None else value for value in seconds)",
          "sorted({np.inf if value is None else value for value in seconds})", "None, 2.0, 3.0, 7.0]: expected"),
    Wrong("65.4", "a missed run counts as 0 s", "np.inf if value is None else value", "value or 0",
          "has to count as the slowest"),
    Wrong("65.4", "infinite", "        return None\n", "        return np.inf\n", "expected None"),
    Wrong("65.4", "the caller's list", [_INFINITE, "kept = ordered[1:-1]"],
          [_INFINITE, "kept = ordered[1:-1]\n    seconds.sort(key=str)"], "was changed"),
]

RIGHT = [
    Right("65.1", "unified_diff without its context", [
        "marks = [line[:2] for line in difflib.ndiff(*texts)]", _COUNT], [
        "marks = list(difflib.unified_diff(*texts, n=0))[2:]",
        'return sum(line[0] == "-" for line in marks), sum(line[0] == "+" for line in marks)']),
    Right("65.1", "a list of two, a regular expression", [
        _LINES, _COUNT], [
        "[line for line in rows if not __import__('re').match(r'\\s*(#|$)', line)]",
        'return [marks.count("- "), marks.count("+ ")]']),
    Right("65.2", "NumPy all the way",
          ["ends = [max(of_ranks) for of_ranks in zip(*moments, strict=False)]",
           "[batch / seconds for seconds in durations[first - 1 :]]"],
          ["shortest = min(map(len, moments))\n"
           "    ends = np.max([rank[:shortest] for rank in moments], axis=0)",
           "batch / durations[first - 1 :]"]),
    Right("65.2", "a loop over steps, a list", [
        "return ends[0] - started, [batch / seconds for seconds in durations[first - 1 :]]"], [
        "speeds = []\n    for step in range(first, len(ends)):\n"
        "        speeds.append(batch / (ends[step] - ends[step - 1]))\n"
        "    return [ends[0] - started, speeds]"]),
    Right("65.3", "the best bar, a set", """\
    left = []
    for way, (low, high) in of_ways.items():
        if more_is_better:
            ruled_out = any(other[0] > high for other in of_ways.values())
        else:
            ruled_out = any(other[1] < low for other in of_ways.values())
        if not ruled_out:
            left.append(way)
    return left""", """\
    if more_is_better:
        bar = max(low for low, _ in of_ways.values())
        return {way for way, (_, high) in of_ways.items() if high >= bar}
    bar = min(span[1] for span in of_ways.values())
    return {way for way in of_ways if of_ways[way][0] <= bar}"""),
    Right("65.3", "all in place of any", "any(other[1] < low for other in of_ways.values())",
          "not all(low <= high for _, high in of_ways.values())"),
    Right("65.4", "min and max are taken out",
          ["kept = ordered[1:-1]", "return sum(kept) / len(kept)"],
          ["kept = list(ordered)\n    kept.remove(min(kept))\n    kept.remove(max(kept))",
           "return np.mean(kept)"]),
    Right("65.4", "counts of None first",
          "ordered = sorted(np.inf if value is None else value for value in seconds)",
          "if seconds.count(None) > 1:\n        return None\n"
          "    ordered = sorted(seconds, key=lambda value: (value is None, value or 0))"),
]
# fmt: on
