"""What the checks of lab 44 try, and with which words they reject. Part of labkit.fusion."""

from __future__ import annotations

from labkit._fusion_lines import Tensor, asked_in, lines, sent, spent, story, tensors
from labkit._fusion_ranks import CACHED, SEVEN, THRESHOLDS
from labkit.expectations import expect

# Tensors that are ready, the largest sum of bytes that may travel together, and what does.
CASES = (
    ("a:40 b:40 c:40", 80, "a b|c"),
    ("a:40 b:40 c:40", 79, "a|b|c"),
    ("a:40 b:40 c:40", 120, "a b c"),
    ("a:40 b:40 c:40", 0, "a|b|c"),
    ("a:200 b:8 c:8", 100, "a|b c"),
    ("a:60 b:50 c:30", 100, "a|b c"),
    ("a:40 b:40:float64 c:40 d:40:float64", 100, "a c|b d"),
    ("a:40 b:80:float64 c:40", 100, "a|b|c"),
    ("a:20 b:20:float64 c:20 d:20:float64 e:20", 200, "a c e|b d"),
    ("a:30 b:30:float64 c:30 d:30", 90, "a c d|b"),
    ("a:30 b:30:float64 c:30 d:1:float64 e:30", 90, "a c|b d|e"),
    ("a:8", 100, "a"),
    ("", 100, ""),
)

# Threshold, ranks of a node, limit.
ROUNDED = (
    (0, 4, 0),
    (1, 1, 512),
    (512, 1, 512),
    (513, 1, 1024),
    (50_000, 4, 51_200),
    (100_000, 3, 101_376),
    (128 << 20, 4, 128 << 20),
)

# "name:bytes:ready at", limit, seconds between looks, of a message, bytes per second, (end, messages).
STEPS = (
    ("a:100:0", 1000, 10, 1, 100, (3, 1)),
    ("a:100:2", 1000, 10, 1, 100, (13, 1)),
    ("a:100:0 b:100:0", 199, 10, 1, 100, (5, 2)),
    ("a:100:0 b:100:0", 200, 10, 1, 100, (4, 1)),
    ("a:300:0 b:100:2 c:100:3", 1000, 1, 1, 100, (9, 2)),
    ("a:100:0.5", 1000, 1, 1, 100, (4, 1)),
    ("b:100:2 a:100:0", 1000, 5, 1, 100, (8, 2)),
    ("a:100:0 b:100:4 c:100:9 d:300:20", 1000, 4, 0.5, 200, (22.5, 4)),
)

# Steps, places in the cache, tensors asked about by step.
ASKED = (
    (("a:4 b:4", "a:4 b:4", "a:4 b:4"), 10, [2, 0, 0]),
    (("a:4 b:4", "a:4 b:4", "a:4 b:4"), 0, [2, 2, 2]),
    (("a:4 b:4 c:4",) * 3, 2, [3, 1, 1]),
    (("a:4 b:4", "a:8 b:4", "a:8 b:4", "a:4 b:4"), 10, [2, 1, 0, 1]),
    (("a:8", "a:8:float64", "a:8:float64"), 10, [1, 1, 0]),
    (("a:4", "b:4", "a:4", "c:4", "a:4"), 2, [1, 1, 0, 1, 0]),
    (("a:4 m1:4", "a:4 m2:4", "a:4 m3:4"), 10, [2, 1, 1]),
)

# Made up, as Horovod writes it: lines, phases, and what was waited for by rank.
STORIES = {
    "a and b travel together, c alone": (
        """
0 - i CYCLE_START
5 a B NEGOTIATE_ALLREDUCE
6 a X 0
7 b B NEGOTIATE_ALLREDUCE
8 b X 0
20 a X 2
21 b X 2
1000 - i CYCLE_START
1003 c B NEGOTIATE_ALLREDUCE
1004 c X 0
1010 a X 1
1011 a E -
1012 b X 1
1013 b E -
1014 c X 1
1017 c X 2
1018 c E -
1030 a B ALLREDUCE
1031 b B ALLREDUCE
1040 a B MEMCPY_IN_FUSION_BUFFER
1041 b B MEMCPY_IN_FUSION_BUFFER
1050 a E -
1052 b E -
1053 a B MPI_ALLREDUCE
1054 b B MPI_ALLREDUCE
1353 a E -
1354 b E -
1355 a B MEMCPY_OUT_FUSION_BUFFER
1356 b B MEMCPY_OUT_FUSION_BUFFER
1361 a E -
1362 b E -
1370 a E -
1371 b E -
1380 c B ALLREDUCE
1381 c B MPI_ALLREDUCE
1581 c E -
1590 c E -
""",
        {
            "a": {"negotiate": 1006, "queue": 19, "copy in": 10, "sum": 300, "copy out": 6},
            "b": {"negotiate": 1006, "queue": 18, "copy in": 11, "sum": 300, "copy out": 6},
            "c": {"negotiate": 15, "queue": 362, "copy in": 0, "sum": 200, "copy out": 0},
        },
        {1: 1981, 2: 3},
    ),
    "a twice, then from the cache": (
        """
0 a B NEGOTIATE_ALLREDUCE
1 a X 1
2 a X 0
12 a X 2
13 a E -
20 a B ALLREDUCE
21 a B MPI_ALLREDUCE
121 a E -
130 a E -
1000 - i CYCLE_START
1001 a B NEGOTIATE_ALLREDUCE
1002 a X 0
3000 a X 1
3004 a X 2
3005 a E -
3011 a B ALLREDUCE
3012 a B MPI_ALLREDUCE
3062 a E -
3070 a E -
4000 a B NEGOTIATE_ALLREDUCE
4050 a E -
4060 a B ALLREDUCE
4061 a B MPI_ALLREDUCE
4071 a E -
4080 a E -
""",
        {"a": {"negotiate": 2067, "queue": 23, "copy in": 0, "sum": 160, "copy out": 0}},
        {2: 14},
    ),
}


def expect_reading(phases, late, events) -> None:
    """44.1, on made-up lines and on two timelines of real ranks."""
    for name, (text, table, waited) in STORIES.items():
        expect.equal(phases(story(text)), table, f"phases, '{name}'")
        expect.equal(late(story(text)), waited, f"late, '{name}'")
    for name in ("late", "always the same"):
        what = f"phases, timeline '{name}' of real ranks"
        expect.equal(phases(lines(events[name])), spent(events[name]), what)


def expect_fused(rounded, fuse, events, ranks_on_node: int) -> None:
    """44.2, on made-up tensors and on what real ranks sent."""
    for threshold, many, want in ROUNDED:
        expect.equal(rounded(threshold, many), want, f"Limit for {threshold} bytes, {many} ranks on a node")
    for text, limit, want in CASES:
        ready = tensors(text)
        messages = fuse(ready, limit)
        expect(messages is not None, "fuse returned None. Does it return its messages?")
        got = "|".join(" ".join(one.name for one in message) for message in messages)
        expect.equal(got, want, f"Messages of '{text}', limit {limit}")
        expect(ready == tensors(text), "fuse changed the list that it was given.")
    for threshold, calls in travelled(events).items():
        mine = [[one.name for one in message] for message in fuse(SEVEN, rounded(threshold, ranks_on_node))]
        expect.equal(mine, calls, f"Messages of the seven tensors, real ranks, threshold {threshold}")


def travelled(events) -> dict[int, list[list[str]]]:
    """{threshold: names of SEVEN, call by call}, from the timelines of real ranks."""
    return {n: sent(events[f"up to {n}"], len(SEVEN)) for n in THRESHOLDS}


def expect_step_time(step_time) -> None:
    """44.3, on made-up steps."""
    for text, limit, cycle, alpha, rate, want in STEPS:
        gradients = [Tensor(one.name, one.bytes, ready=float(one.dtype)) for one in tensors(text)]
        what = f"'{text}' (bytes, ready at), limit {limit}, a look every {cycle} s, {alpha} s + n / {rate}"
        got = step_time(gradients, limit, cycle, lambda n, a=alpha, r=rate: a + n / r)
        pair = isinstance(got, tuple | list) and len(got) == 2
        expect(pair, f"{what}: return two values, end and messages.")
        expect.close(got[0], want[0], f"{what}: end of the step", rtol=1e-9)
        expect.equal(got[1], want[1], f"{what}: messages")


def expect_asked(asked, events) -> dict[str, list[int]]:
    """44.4, on made-up steps and on real ranks. Returns {way: what real ranks asked about, by step}."""
    for texts, places, want in ASKED:
        got = asked([tensors(text) for text in texts], places)
        expect.equal(got, want, f"Steps {' | '.join(texts)}, {places} places")
    truth = {name: asked_in(events[name], steps) for name, (_, steps) in CACHED.items()}
    for name, (places, steps) in CACHED.items():
        what = f"Tensors asked about, by step, real ranks, '{name}'"
        expect.equal(asked(steps, places), truth[name], what)
    return truth
