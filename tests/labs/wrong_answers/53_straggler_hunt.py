"""Mistakes of learners in lab 53: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"steps": 4, "many": 100, "fresh": 1, "recorded_steps": 3, "training_steps": 16}

_SLOWEST = "return np.sum(np.sort(samples) * np.diff(at_most))"
_LATEST = 'latest = [int(np.argmin(step["wait"])) for step in steps]'
_LIMIT = '    if latest.count(rank) <= len(steps) / 2:\n        return None, "jitter"\n'
_PART = "part = max(mean, key=lambda part: lab53.above(mean[part], rank))"
_WAIT = 'seconds["wait"] = seconds.pop("exchange") - seconds["send"]'

# fmt: off
WRONG = [
    Wrong("53.1", "one rank's mean", _SLOWEST, "return np.mean(samples)", "one rank's mean"),
    Wrong("53.1", "the longest of all", _SLOWEST, "return np.max(samples)", "the longest of all"),
    Wrong("53.1", "not sorted", "np.sort(samples)", "samples", "Slowest of"),
    Wrong("53.1", "sorts in place", _SLOWEST,
          "samples.sort()\n    return np.sum(samples * np.diff(at_most))", "The array of samples"),
    Wrong("53.1", "equal times only once",
          "n = len(samples)", "samples = np.unique(samples)\n    n = len(samples)", "4 samples from 1 to 3"),
    Wrong("53.1", "the fastest", "np.sort(samples)", "np.sort(samples)[::-1]", "Slowest of 2"),
    Wrong("53.1", "times ranks in place of power", "(np.arange(n + 1) / n) ** ranks",
          "(np.arange(n + 1) / n) * ranks", "Slowest of 2"),
    Wrong("53.1", "one quantile", _SLOWEST, "return np.quantile(samples, 1 - 1 / (ranks + 1))", "Slowest of"),
    Wrong("53.1", "thrown, not computed", _SLOWEST,
          "dice = np.random.default_rng(0)\n"
          "    return dice.choice(samples, (1000, ranks)).max(axis=1).mean()", "Slowest of"),

    Wrong("53.2", "a tuple, not a dict", _WAIT, _WAIT + "\n    seconds = tuple(seconds.values())",
          "Return a dict"),
    Wrong("53.2", "three ranks, always", "np.zeros(ranks)", "np.zeros(3)", "Only rank 0 of 2"),
    Wrong("53.2", "only ranks with spans", "np.zeros(ranks)", "np.zeros(1 + max(span[0] for span in spans))",
          "Only rank 0 of 2"),
    Wrong("53.2", "the last compute", "seconds[kind][rank] += end - begin",
          'seconds[kind][rank] = end - begin + (kind == "send") * seconds[kind][rank]', "seconds of compute"),
    Wrong("53.2", "sorts the caller's spans", "    seconds = {kind", "    spans.sort()\n    seconds = {kind",
          "The list of spans was changed"),
    Wrong("53.2", "empties the caller's list", "    for rank, kind, begin, end in spans:\n",
          "    while spans:\n        rank, kind, begin, end = spans.pop()\n",
          "The list of spans was changed"),
    Wrong("53.2", "the whole exchange", _WAIT, 'seconds["wait"] = seconds["exchange"]',
          "its sends are no waiting"),
    Wrong("53.2", "the last span of a kind", "seconds[kind][rank] += end - begin",
          "seconds[kind][rank] = end - begin", "seconds of send"),
    Wrong("53.2", "no wait", _WAIT, "pass", "no 'wait'"),
    Wrong("53.2", "all ranks together", "seconds[kind][rank] += end - begin",
          "seconds[kind] += end - begin", "seconds of input"),
    Wrong("53.2", "until the end", "+= end - begin", "+= end", "seconds of compute"),
    Wrong("53.2", "send less exchange", _WAIT, 'seconds["wait"] = seconds["send"] - seconds["exchange"]',
          "seconds of wait"),

    Wrong("53.3", "the wait is taken out of the caller's steps", _LATEST,
          'latest = [int(np.argmin(step.pop("wait"))) for step in steps]',
          "The list of steps was changed"),
    Wrong("53.3", "who waits most", "np.argmin", "np.argmax", "rank and cause"),
    Wrong("53.3", "the longest compute", _LATEST,
          'latest = [int(np.argmax(step["compute"])) for step in steps]', "rank and cause"),
    Wrong("53.3", "nobody is innocent", _LIMIT, "", "one bad step is no slow rank"),
    Wrong("53.3", "half is most", "<= len(steps) / 2", "< len(steps) / 2", "Half of the steps are not most"),
    Wrong("53.3", "the mean over the steps",
          [_LATEST, "rank = max(set(latest), key=latest.count)", _LIMIT],
          ['waits = np.mean([step["wait"] for step in steps], axis=0)', "rank = int(waits.argmin())", ""],
          "rank and cause"),
    Wrong("53.3", "the first step decides", "for step in steps]\n    rank",
          "for step in steps[:1]]\n    rank", "rank and cause"),
    Wrong("53.3", "the longest part, beside nobody", _PART,
          "part = max(mean, key=lambda part: mean[part][rank])", "rank and cause"),
    Wrong("53.3", "core or images, by the images", "    if lab53.above(each, rank) > 0.1 * np.median(each):",
          "    if images[rank] <= 1.1 * np.median(images):", "9 % more for each image"),
    Wrong("53.3", "never the link", '("input", "compute", "send")', '("input", "compute")', "slow link"),
    Wrong("53.3", "imbalance for every core", 'return rank, "slow core"', 'return rank, "imbalance"',
          "slow core"),
    Wrong("53.3", "three quarters of the steps", "<= len(steps) / 2", "<= len(steps) * 3 / 4",
          "more than half of the steps"),
    Wrong("53.3", "the median over the steps", "np.mean([step[part] for step in steps], axis=0)",
          "np.median([step[part] for step in steps], axis=0)", "The mean over all steps decides"),
    Wrong("53.3", "the parts of the first step", "np.mean([step[part] for step in steps], axis=0)",
          "steps[0][part]", "The mean over all steps decides"),
    Wrong("53.3", "the parts of the steps in which it is latest",
          "np.mean([step[part] for step in steps], axis=0)",
          "np.mean([step[part] for step, last in zip(steps, latest) if last == rank], axis=0)",
          "The mean over all steps decides"),
    Wrong("53.3", "the part that is relatively longest", "lab53.above(mean[part], rank))",
          "lab53.above(mean[part], rank) / np.median(mean[part]))", "2.8 s more than 24 is further"),
    Wrong("53.3", "above the mean of the others", "lab53.above(mean[part], rank))",
          "mean[part][rank] - np.delete(mean[part], rank).mean())", "the median of the others"),
    Wrong("53.3", "above the median of all", "lab53.above(mean[part], rank))",
          "mean[part][rank] - np.median(mean[part]))", "the median of the others"),
    Wrong("53.3", "a tenth of the mean", "0.1 * np.median(each)", "0.1 * np.mean(each)", "the tenth is of a median"),
    Wrong("53.3", "the part that differs most", "lab53.above(mean[part], rank))",
          "abs(lab53.above(mean[part], rank)))", "reads less than the others"),
    Wrong("53.3", "the rank as a string", 'return rank, "slow disk"',
          'return str(rank), "slow disk"',
          "The rank is a number or None"),
    Wrong("53.3", "the cause alone", 'return rank, "slow disk"', 'return "slow disk"', "rank and cause"),
]

RIGHT = [
    Right("53.1", "the chances one by one, in a loop", _SLOWEST, """\
    total = 0
    for i, value in enumerate(sorted(samples.tolist())):
        total += value * (at_most[i + 1] - at_most[i])
    return total""".lstrip()),
    Right("53.1", "the integral of the chance to be longer", _SLOWEST, """\
    ordered = np.sort(samples)
    return ordered[0] + np.sum((1 - at_most[1:-1]) * np.diff(ordered))""".lstrip()),
    Right("53.2", "arrays of one kind at a time, whole numbers from NumPy", """\
    seconds = {kind: np.zeros(ranks) for kind in ("input", "compute", "exchange", "send")}
    for rank, kind, begin, end in spans:
        seconds[kind][rank] += end - begin
    seconds["wait"] = seconds.pop("exchange") - seconds["send"]
    return seconds""", """\
    def of(kind):
        own = [(rank, end - begin) for rank, name, begin, end in spans if name == kind]
        where, weights = zip(*own)
        return np.bincount(where, weights=weights, minlength=ranks)

    whole = {kind: of(kind) for kind in ("input", "compute", "send")}
    return whole | {"wait": of("exchange") - whole["send"]}"""),
    Right("53.2", "lists, with the exchange left in", _WAIT, """\
    seconds = {kind: values.tolist() for kind, values in seconds.items()}
    seconds["wait"] = [a - b for a, b in zip(seconds["exchange"], seconds["send"])]""".lstrip()),
    Right("53.3", "counted by bincount, NumPy's numbers, a list", [
          _LATEST, "rank = max(set(latest), key=latest.count)", "latest.count(rank) <= len(steps) / 2",
          'return rank, "imbalance"'], [
          'latest = np.array([np.argmin(step["wait"]) for step in steps])',
          "rank = np.bincount(latest).argmax()", "2 * np.sum(latest == rank) <= len(latest)",
          'return [rank, "imbalance"]']),
    Right("53.3", "sums in place of means", "np.mean([step[part] for step in steps], axis=0)",
          "sum(step[part] for step in steps)"),
]
# fmt: on
