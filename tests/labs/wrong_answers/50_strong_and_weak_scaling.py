"""Lab 50: the classic mistakes of scaling studies."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"images": 16, "width": 16, "repeat": 6, "warmup": 2, "most": 2, "late": 0.05}

SLOPE = "return np.sum(x * y) / np.sum(x * x)"

# fmt: off
WRONG = [
    Wrong("50.1", "the caller's times are overwritten",
          "return {p: ideal[p] / times[p] for p in times}",
          "times.update({p: ideal[p] / times[p] for p in times})\n    return times",
          "The dict of times was changed"),
    Wrong("50.1", "weak efficiency computed like strong",
          "times[b] if weak else times[b] * b / p", "times[b] * b / p", "weak efficiency"),
    Wrong("50.1", "one rank expected in every table", "b = min(times)", "b = 1", "KeyError: 1"),
    Wrong("50.1", "the first entry as baseline",
          "b = min(times)", "b = next(iter(times))", "strong efficiency"),
    Wrong("50.1", "the longest time as the strong baseline",
          "times[b] * b / p", "max(times.values()) * b / p", "strong efficiency of {1: 8.0, 2: 9.0}"),
    Wrong("50.1", "a baseline of b ranks treated as one rank",
          "times[b] * b / p", "times[b] / p", "{32: 10.0, 160: 4.0}"),
    Wrong("50.1", "measured over ideal",
          "ideal[p] / times[p]", "times[p] / ideal[p]", "strong efficiency of"),
    Wrong("50.1", "speed-up without the ranks", "useful * p for", "useful for", "strong speed-up"),
    Wrong("50.1", "weak speed-up as a ratio of step times",
          "    return {p: useful * p for p, useful in efficiency(times, weak).items()}",
          "    return {p: times[min(times)] * min(times) / t for p, t in times.items()}", "weak speed-up"),
    Wrong("50.1", "speed-up relative to the baseline's ranks",
          "useful * p for", "useful * p / min(times) for", "strong speed-up of {32: 10.0, 160: 4.0}"),
    Wrong("50.1", "nothing is better than ideal",
          "ideal[p] / times[p] for", "min(1, ideal[p] / times[p]) for",
          "weak efficiency of {8: 2.0, 20: 2.5, 12: 1.6}"),
    Wrong("50.1", "the ideal time in whole seconds", "times[b] * b / p", "times[b] * b // p",
          "strong efficiency of {3: 8.0, 7: 3.0}"),
    Wrong("50.1", "only whole multiples of the baseline", "times[b] * b / p", "times[b] / (p // b)",
          "strong efficiency of {3: 8.0, 7: 3.0}"),
    Wrong("50.2", "one rank is taken out of the caller's dict",
          ["    p = np.array(list(times))", "t / times[1]"],
          ["    one = times.pop(1)\n    p = np.array(list(times))", "t / one"],
          "The dict of times was changed"),
    Wrong("50.2", "the parallel share", SLOPE, "return 1 - np.sum(x * y) / np.sum(x * x)", "with s = 0.05"),
    Wrong("50.2", "speed-up in place of time", "t / times[1]", "times[1] / t", "follow the law"),
    Wrong("50.2", "only the largest number of ranks",
          SLOPE, "return y[np.argmax(p)] / x[np.argmax(p)]", "every point counts"),
    Wrong("50.2", "the mean of the points' shares",
          SLOPE, "return np.mean(y[p > 1] / x[p > 1])", "every point counts"),
    Wrong("50.2", "one rank divides zero by zero",
          SLOPE, "with np.errstate(invalid='ignore'):\n        return np.mean(y / x)", "got nan"),
    Wrong("50.2", "the first entry taken for one rank", "t / times[1]", "t / t[0]", "follow the law"),
    Wrong("50.2", "seconds in place of shares", "t / times[1]", "t", "follow the law"),
    Wrong("50.2", "only powers of two", "p = np.array(list(times))\n    t = np.array(list(times.values()))",
          "p = 2 ** np.arange(len(times))\n    t = np.array([times[one] for one in sorted(times)])",
          "follow the law"),
    Wrong("50.2", "cut off at zero", SLOPE, "return max(0, np.sum(x * y) / np.sum(x * x))", "super-linear"),
    Wrong("50.2", "the longest time as the baseline", "t / times[1]", "t / t.max()",
          "where more ranks take longer"),
    Wrong("50.1", "the numbers of ranks as text", "return {p: ideal[p] / times[p] for p in times}",
          "return {str(p): ideal[p] / times[p] for p in times}", "the keys [1, 2, 4], got ['1', '2', '4']"),
    Wrong("50.3", "the whole step among its parts", '"communicate": sending}',
          '"communicate": sending, "step": (compute + allreduce).mean(axis=1)}', "these three and no other"),
    Wrong("50.3", "three ranks, always", '"compute": compute.mean(axis=1)', '"compute": compute.sum(axis=1) / 3',
          "compute, of four steps of one rank"),
    Wrong("50.3", "one rank taken to send nothing", "sending = allreduce.min(axis=1)",
          "sending = allreduce.min(axis=1) * (allreduce.shape[1] > 1)",
          "communicate, of four steps of one rank"),
    Wrong("50.3", "the caller's array loses what is sending",
          "    waiting = allreduce.mean(axis=1) - sending\n",
          "    allreduce -= sending[:, None]\n    waiting = allreduce.mean(axis=1)\n",
          "`compute` or `allreduce` was changed"),
    Wrong("50.3", "waiting counted as communication",
          "sending = allreduce.min(axis=1)", "sending = allreduce.mean(axis=1)",
          "of the rank that arrived last"),
    Wrong("50.3", "per rank in place of per step",
          "sending = allreduce.min(axis=1)", "sending = allreduce.min(axis=0)",
          "in each step, of the rank that arrived last"),
    Wrong("50.3", "the rank that computed longest, taken for the last",
          "allreduce.min(axis=1)", "allreduce[np.arange(len(allreduce)), compute.argmax(axis=1)]",
          "In the third step rank 1 computes longest, but rank 0 came last"),
    Wrong("50.3", "the largest lead of computing over the allreduce",
          "allreduce.min(axis=1)", "allreduce[np.arange(len(allreduce)), (compute - allreduce).argmax(axis=1)]",
          "In the third step rank 1 computes longest, but rank 0 came last"),
    Wrong("50.3", "the shortest of all steps",
          "sending = allreduce.min(axis=1)", "sending = np.full(len(allreduce), allreduce.min())",
          "in each step, of the rank that arrived last"),
    Wrong("50.3", "the slowest rank's compute, so that waiting counts twice",
          "compute.mean(axis=1)", "compute.max(axis=1)", "compute: in each step, the mean"),
    Wrong("50.3", "all of the time in the allreduce is waiting",
          "allreduce.mean(axis=1) - sending", "allreduce.mean(axis=1)", "less communicate"),
    Wrong("50.3", "the longest wait in place of the mean",
          "allreduce.mean(axis=1) - sending", "allreduce.max(axis=1) - sending", "less communicate"),
]

RIGHT = [
    Right("50.1", "sorted keys, loops, the speed-up by its own formula", """\
    b = min(times)
    ideal = {p: times[b] if weak else times[b] * b / p for p in times}
    return {p: ideal[p] / times[p] for p in times}""", """\
    b, *_ = sorted(times)
    useful = {}
    for p, seconds in sorted(times.items()):
        useful[p] = times[b] / seconds * (1 if weak else b / p)
    return useful"""),
    Right("50.1", "NumPy's arrays, zipped at the end", [
          "return {p: ideal[p] / times[p] for p in times}",
          "return {p: useful * p for p, useful in efficiency(times, weak).items()}"], [
          "p = np.array(list(times))\n    t = np.array(list(times.values()))\n"
          "    return dict(zip(p.tolist(), np.array([ideal[one] for one in p.tolist()]) / t))",
          "return {p: np.float64(p) * efficiency(times=times, weak=weak)[p] for p in times}"]),
    Right("50.2", "least squares by NumPy", SLOPE, "return np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]"),
    Right("50.2", "sums in a loop over the dict", """\
    p = np.array(list(times))
    t = np.array(list(times.values()))
    x = 1 - 1 / p
    y = t / times[1] - 1 / p
    return np.sum(x * y) / np.sum(x * x)""", """\
    above = below = 0.0
    for p, t in times.items():
        x = 1 - 1 / p
        above += x * (t / times[1] - 1 / p)
        below += x**2
    return above / below"""),
    Right("50.3", "lists, step by step", """\
    sending = allreduce.min(axis=1)
    waiting = allreduce.mean(axis=1) - sending
    return {"compute": compute.mean(axis=1), "wait": waiting, "communicate": sending}""", """\
    sending = [min(row) for row in allreduce.tolist()]
    waiting = [np.mean(row) - least for row, least in zip(allreduce, sending)]
    return {"communicate": sending, "wait": waiting, "compute": [np.mean(row) for row in compute]}"""),
    Right("50.3", "by the rank that came last", "allreduce.min(axis=1)",
          "np.take_along_axis(allreduce, allreduce.argmin(axis=1)[:, None], axis=1)[:, 0]"),
]
