"""Lab 01: what a first timer gets wrong."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"repeat": 10, "warmup": 2, "steps": 1000}

_LOOP = """    for _ in range(repeat):
        begin = clock()
        call()
        samples.append(clock() - begin)
    return samples"""
_ALL = f"    for _ in range(warmup):\n        call()\n    samples = []\n{_LOOP}"
_TOTAL = "    begin = clock()\n    for _ in range(repeat):\n        call()\n"
_DEVICE_LOOP = """        synchronize()
        begin = clock()
        call()
        synchronize()
        samples.append(clock() - begin)"""

# fmt: off
WRONG = [
    Wrong("01.1", "six calls, whatever is asked", "range(repeat)", "range(6)", "with repeat=3"),
    Wrong("01.1", "no warm-up", "in range(warmup)", "in range(0)", "`call` ran 6 times, not 9"),
    Wrong("01.1", "a warm-up of three, whatever is asked", "in range(warmup)", "in range(3)",
          "With warmup=0, repeat=6 `call` ran 9 times, not 6"),
    Wrong("01.1", "made-up durations", _LOOP, "    return [0.1, 0.2] * (repeat // 2)", "`call` ran 3 times"),
    Wrong("01.1", "warms up afterwards",
          ["    for _ in range(warmup):\n        call()\n", "    return samples"],
          ["", "    for _ in range(warmup):\n        call()\n    return samples"], "warm up first"),
    Wrong("01.1", "the warm-up calls are timed, too", """\
    for _ in range(warmup):
        call()
    samples = []
    for _ in range(repeat)""", "    samples = []\n    for _ in range(warmup + repeat)",
          "asks for a list of six durations"),
    Wrong("01.1", "warm-up taken off the repeats",
          "in range(repeat)", "in range(repeat - warmup)", "asks for a list of six durations"),
    Wrong("01.1", "the clock is read once, before the loop",
          "    for _ in range(repeat):\n        begin = clock()",
          "    begin = clock()\n    for _ in range(repeat):", "The samples grow"),
    Wrong("01.1", "one mean for all calls",
          _LOOP, _TOTAL + "    return (clock() - begin) / repeat", "a list of six durations"),
    Wrong("01.1", "reads another clock", ["begin = clock()", "samples.append(clock() - begin)"],
          ["begin = time.perf_counter()", "samples.append(time.perf_counter() - begin)"],
          "the clock that was handed in"),
    Wrong("01.1", "returns nothing", "    return samples", "", "returned None"),
    Wrong("01.1", "milliseconds", "clock() - begin", "1e3 * (clock() - begin)", "return seconds"),
    Wrong("01.1", "the later reading is subtracted", "clock() - begin", "begin - clock()",
          "These are negative"),
    Wrong("01.1", "rounded to microseconds", "clock() - begin", "round(clock() - begin, 6)",
          "expected 0.0001234, got 0.000123"),
    Wrong("01.1", "the call comes after both readings",
          ["        call()\n        samples.append(clock() - begin)"],
          ["        samples.append(clock() - begin)\n        call()"], "No time passes"),
    Wrong("01.2", "in order of their size", "return samples", "return sorted(samples)",
          "another order than the calls"),
    Wrong("01.2", "the mean of all, for each", "return samples", "return [sum(samples) / repeat] * repeat",
          "time the calls one by one"),
    Wrong("01.2", "the clock is read once, before the loop",
          "    for _ in range(repeat):\n        synchronize()\n        begin = clock()",
          "    begin = clock()\n    for _ in range(repeat):\n        synchronize()", "The samples grow"),
    Wrong("01.2", "four calls, whatever is asked", "range(repeat)", "range(4)", "with repeat=3"),
    Wrong("01.2", "no warm-up", "in range(warmup)", "in range(0)", "`call` ran 4 times, not 7"),
    Wrong("01.2", "reads another clock", ["begin = clock()", "samples.append(clock() - begin)"],
          ["begin = time.perf_counter()", "samples.append(time.perf_counter() - begin)"],
          "the clock that was handed in"),
    Wrong("01.2", "the launch is not timed", "        begin = clock()\n        call()\n",
          "        call()\n        begin = clock()\n", "The launch is missing"),
    Wrong("01.2", "made-up durations", _DEVICE_LOOP, "        samples.append(0.1 + 10e-6)",
          "`call` ran 3 times"),
    Wrong("01.2", "nobody waits", _DEVICE_LOOP, """\
        begin = clock()
        call()
        samples.append(clock() - begin)""", "the launch alone"),
    Wrong("01.2", "waits before the call only",
          "        call()\n        synchronize()\n", "        call()\n", "the launch alone"),
    Wrong("01.2", "waits after the call only",
          "        synchronize()\n        begin", "        begin", "work that was in the queue before it"),
    Wrong("01.2", "waits while it warms up, and after each call",
          ["        call()\n    samples", "        synchronize()\n        begin"], ["""\
        call()
        synchronize()
    samples""", "        begin"], "With warmup=0 the first sample"),
    Wrong("01.2", "waits after the second reading",
          "        synchronize()\n        samples.append(clock() - begin)",
          "        samples.append(clock() - begin)\n        synchronize()", "the launch alone"),
    Wrong("01.2", "the first wait is timed as well",
          "        synchronize()\n        begin = clock()", "        begin = clock()\n        synchronize()",
          "work that was in the queue before it"),
    Wrong("01.3", "an entry is forgotten", '        "q1": q1,\n', "", "no entry q1"),
    Wrong("01.3", "sorts the caller's samples", "    q1, median, q3 =",
          "    samples.sort()\n    q1, median, q3 =", "The array of samples was changed"),
    Wrong("01.3", "divides the caller's samples by their median",
          ["    q1, median, q3 = np.percentile(samples, [25, 50, 75])\n", "(q3 - q1) / median"],
          ["    q1, median, q3 = np.percentile(samples, [25, 50, 75])\n"
           "    samples = np.asarray(samples, dtype=float)\n    samples /= median\n",
           "np.subtract(*np.percentile(samples, [75, 25]))"], "The array of samples was changed"),
    Wrong("01.3", "a word for steady", "bool(spread <= widest)", '"yes" if spread <= widest else ""',
          "it must be True or False"),
    Wrong("01.3", "the mean in place of the median",
          "    spread =", "    median = np.mean(samples)\n    spread =", "their mean"),
    Wrong("01.3", "spread from the shortest to the longest",
          "spread = (q3 - q1) / median", "spread = (max(samples) - min(samples)) / median",
          "the middle half only"),
    Wrong("01.3", "a share of the mean",
          "spread = (q3 - q1) / median", "spread = (q3 - q1) / np.mean(samples)", "a share of their mean"),
    Wrong("01.3", "the spread in seconds",
          "spread = (q3 - q1) / median", "spread = q3 - q1", "as a share of the median"),
    Wrong("01.3", "q1 and q3 swapped", "q1, median, q3 =", "q3, median, q1 =", "q1 and q3"),
    Wrong("01.3", "steady the wrong way round", "spread <= widest", "spread > widest", "A spread of 0 is steady"),
    Wrong("01.3", "another definition of quartiles", "    q1, median, q3 = np.percentile(samples, [25, 50, 75])",
          "    import statistics\n\n    q1, median, q3 = statistics.quantiles(list(samples), n=4)",
          "as `np.percentile` computes them"),
    Wrong("01.3", "rounded to four digits", "np.percentile(samples, [25, 50, 75])",
          "np.round(np.percentile(samples, [25, 50, 75]), 4)", "expected 0.0003702, got 0.0004"),

    Wrong("01.3", "a limit of its own", "spread <= widest", "spread <= 0.25", "at widest=0.7"),
    Wrong("01.3", "less than, not at most", "spread <= widest", "spread < widest", "at widest=0.25: at most"),
    Wrong("01.3", "one of the two in the middle", "    spread =",
          "    median = sorted(samples)[len(samples) // 2]\n    spread =", "the median of four samples"),
    Wrong("01.3", "the middle one, not put in order", "    spread =", """\
    count = len(samples)
    median = (samples[(count - 1) // 2] + samples[count // 2]) / 2
    spread =""", "put them in order"),
]

RIGHT = [
    Right("01.1", "one loop that leaves the first calls out, as a tensor", _ALL, """\
    samples = []
    for number in range(warmup + repeat):
        begin = clock()
        call()
        end = clock()
        if number >= warmup:
            samples.append(end - begin)
    return torch.tensor(samples, dtype=torch.float64)"""),
    Right("01.1", "a function of one's own, and a comprehension", _ALL, """\
    def one():
        begin = clock()
        call()
        return clock() - begin

    return [one() for _ in range(warmup + repeat)][warmup:]"""),
    Right("01.2", "timed from the first call on, and cut", [
          "    for _ in range(warmup):\n        call()\n", "in range(repeat)", "return samples"],
          ["", "in range(warmup + repeat)", "return torch.tensor(samples[warmup:], dtype=torch.float64)"]),
    Right("01.2", "waits once after the warm-up, then after each call", [
          "        call()\n    samples = []\n", "        synchronize()\n        begin"], [
          "        call()\n    synchronize()\n    samples = []\n", "        begin"]),
    Right("01.3", "sorted, by quantile, a NumPy bool", [
          "np.percentile(samples, [25, 50, 75])", "bool(spread <= widest)"],
          ["np.quantile(np.sort(np.asarray(samples)), (0.25, 0.5, 0.75))", "spread <= widest"]),
    Right("01.3", "the standard library", [
          "    q1, median, q3 = np.percentile(samples, [25, 50, 75])\n", "(q3 - q1) / median"], [
          "    import statistics\n\n"
          "    q1, median, q3 = statistics.quantiles(list(samples), n=4, method=\"inclusive\")\n",
          "float(q3 - q1) / float(median)"]),
]
