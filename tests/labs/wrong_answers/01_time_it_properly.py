"""Lab 01: what a first timer gets wrong."""

from tests.labs.wrong_answers import Wrong

SMALL = {"repeat": 10, "warmup": 2, "steps": 1000}

_LOOP = """    for _ in range(repeat):
        begin = clock()
        call()
        samples.append(clock() - begin)
    return samples"""
_TOTAL = "    begin = clock()\n    for _ in range(repeat):\n        call()\n"
_DEVICE_LOOP = """        synchronize()
        begin = clock()
        call()
        synchronize()
        samples.append(clock() - begin)"""

WRONG = [
    Wrong("01.1", "no warm-up", old="in range(warmup)", new="in range(0)", says="Did you warm up?"),
    Wrong(
        "01.1",
        "one call too few warms up",
        old="in range(warmup)",
        new="in range(warmup - 1)",
        says="warm up?",
    ),
    Wrong(
        "01.1",
        "the warm-up calls are timed, too",
        old="    for _ in range(warmup):\n        call()\n    samples = []\n    for _ in range(repeat)",
        new="    samples = []\n    for _ in range(warmup + repeat)",
        says="asks for a list of six durations",
    ),
    Wrong(
        "01.1",
        "warm-up taken off the repeats",
        old="in range(repeat)",
        new="in range(repeat - warmup)",
        says="asks for a list of six durations",
    ),
    Wrong(
        "01.1",
        "the clock is read once, before the loop",
        old="    for _ in range(repeat):\n        begin = clock()",
        new="    begin = clock()\n    for _ in range(repeat):",
        says="The samples grow",
    ),
    Wrong(
        "01.1",
        "one mean for all calls",
        old=_LOOP,
        new=_TOTAL + "    return (clock() - begin) / repeat",
        says="a list of six durations",
    ),
    Wrong(
        "01.1",
        "the mean, as often as asked",
        old=_LOOP,
        new=_TOTAL + "    return [(clock() - begin) / repeat] * repeat",
        says="the six durations",
    ),
    Wrong(
        "01.1",
        "reads another clock",
        old=["begin = clock()", "samples.append(clock() - begin)"],
        new=["begin = time.perf_counter()", "samples.append(time.perf_counter() - begin)"],
        says="the clock that was handed in",
    ),
    Wrong(
        "01.1",
        "the clock itself is kept, not what it says",
        old="begin = clock()",
        new="begin = clock",
        says="TypeError",
    ),
    Wrong("01.1", "returns nothing", old="    return samples", new="", says="returned None"),
    Wrong(
        "01.2",
        "nobody waits",
        old=_DEVICE_LOOP,
        new="        begin = clock()\n        call()\n        samples.append(clock() - begin)",
        says="the launch alone",
    ),
    Wrong(
        "01.2",
        "waits before the call only",
        old="        call()\n        synchronize()\n",
        new="        call()\n",
        says="the launch alone",
    ),
    Wrong(
        "01.2",
        "waits after the call only",
        old="        synchronize()\n        begin",
        new="        begin",
        says="work that was in the queue before it",
    ),
    Wrong(
        "01.2",
        "waits while it warms up, and after each call",
        old=["        call()\n    samples", "        synchronize()\n        begin"],
        new=["        call()\n        synchronize()\n    samples", "        begin"],
        says="With warmup=0 the first sample",
    ),
    Wrong(
        "01.2",
        "waits after the second reading",
        old="        synchronize()\n        samples.append(clock() - begin)",
        new="        samples.append(clock() - begin)\n        synchronize()",
        says="the launch alone",
    ),
    Wrong(
        "01.2",
        "the first wait is timed as well",
        old="        synchronize()\n        begin = clock()",
        new="        begin = clock()\n        synchronize()",
        says="work that was in the queue before it",
    ),
    Wrong(
        "01.2",
        "the wait is not called",
        old="        call()\n        synchronize()\n",
        new="        call()\n        synchronize\n",
        says="the launch alone",
    ),
    Wrong(
        "01.3",
        "the mean in place of the median",
        old="    spread =",
        new="    median = np.mean(samples)\n    spread =",
        says="their mean",
    ),
    Wrong(
        "01.3",
        "spread from the shortest to the longest",
        old="spread = (q3 - q1) / median",
        new="spread = (max(samples) - min(samples)) / median",
        says="the middle half only",
    ),
    Wrong(
        "01.3",
        "the standard deviation as spread",
        old="spread = (q3 - q1) / median",
        new="spread = np.std(samples) / median",
        says="the middle half only",
    ),
    Wrong(
        "01.3",
        "the spread in seconds",
        old="spread = (q3 - q1) / median",
        new="spread = q3 - q1",
        says="as a share of the median",
    ),
    Wrong(
        "01.3",
        "the spread as a percentage",
        old="/ median",
        new="/ median * 100",
        says="as a share of the median",
    ),
    Wrong(
        "01.3", "tenths in place of quarters", old="[25, 50, 75]", new="[10, 50, 90]", says="middle half only"
    ),
    Wrong("01.3", "q1 and q3 swapped", old="q1, median, q3 =", new="q3, median, q1 =", says="q1 and q3"),
    Wrong(
        "01.3", "steady the wrong way round", old="spread <= widest", new="spread > widest", says="One hiccup"
    ),
    Wrong("01.3", "a limit of its own", old="spread <= widest", new="spread <= 0.25", says="at widest=0.7"),
    Wrong(
        "01.3", "always steady", old="bool(spread <= widest)", new="True", says="not steady at widest=0.25"
    ),
]
