"""What a benchmark printed, from any text: nccl-tests (text, JSON), OSU's, mpi4py.bench, the kit's
records.

A text that nobody foresaw gives no readings, never an error: a row counts if it has the columns of
its table, and if its size, time and bandwidths agree with each other.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from labkit.scaling import costs

PAIRS = ("latency", "bandwidth", "bidirectional", "pairs")  # tests between pairs of ranks
LEAST_SECONDS, MOST_SECONDS = 1e-10, 1e5  # a call that takes less or more is a damaged number
MOST_RATE = 1e14  # bytes per second that no link and no memory carries
_TESTS = {
    "all_reduce": "allreduce",
    "allreduce": "allreduce",
    "all_gather": "allgather",
    "allgather": "allgather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "alltoall",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "sendrecv": "sendrecv",
    "reduce": "reduce",
}
_TYPES = r"u?int\d*|float\d*|half|double|bfloat16|f8e\dm\d|fp8_?\w*"
_ROW = re.compile(rf"(?<![\w.])(\d{{1,18}})\s+\d{{1,18}}\s+({_TYPES})\s+(\S.*)", re.ASCII)
_PERF = re.compile(r"([a-z_]+)_perf(?:_mpi)?\b")
_DEVICE = re.compile(r"Rank\s+(\d{1,6})\s.*? on\s+(\S+)\s+device\s+\d+ \[[^]]*\]\s*(.*)", re.ASCII)
_HEADER = re.compile(r"\bsize\s+count\s+(?:\(elements\)\s+)?type\b")
_FOOTER = re.compile(r"Avg bus bandwidth\s*:\s*([\d.]*)", re.ASCII)
_PREFIX = re.compile(r"\[\d+(?:,\d+)?\](?:<std(?:out|err)>:)?|^\s*\d+: ", re.ASCII)
_OSU = re.compile(r"^\s*#?\s*OSU MPI\S* (.*?)(?: Latency)? Test\b", re.I)
_OSU_COLUMNS = re.compile(r"^\s*#?\s*Size\s.*?(Latency|Bandwidth|MB/s)", re.I)
_NUMBERS = re.compile(r"^\s*(\d{1,18})((?:\s+[\d.eE+-]+)+)\s*$", re.ASCII)
_MPI4PY = re.compile(r"^\s*(\d{1,18})\s+[\d.]+\s+\|\s+(\S+) ± (\S+)\s+\d+\s*$", re.ASCII)
# What a text says about the way that the data take: fact -> its sign.
_SET = r"(?:=| set by environment to )"
_SIGNS = {
    "socket": r"via NET/Socket|Using network Socket",
    "no verbs": r"Failed to open libibverbs",
    "ib off": rf"NCCL_IB_DISABLE{_SET}1",
    "no gdr": r"\bGDR 0\b",
    "shm": r"via (?:SHM|direct shared memory)",
    "p2p off": rf"NCCL_P2P_DISABLE{_SET}1|NCCL_P2P_LEVEL{_SET}LOC",
    "ring": rf"NCCL_ALGO{_SET}['\"]?ring",
    "gpu": r"OSU MPI-\w|Buffer on DEVICE",
    "failed": r"Out of bounds values\s*:\s*[1-9]\d*\s+FAILED",
}


@dataclass(frozen=True)
class Row:
    """bus: bytes per second as printed, 0 where none is printed. wrong: values that failed the
    check. calls: seconds of the fastest and slowest call, where they were timed one by one."""

    size: int
    seconds: float
    bus: float = 0.0
    wrong: float = 0.0
    calls: tuple[float, ...] = ()


@dataclass
class Reading:
    """A table. test: a collective's name, or one of PAIRS.

    pairs: senders at once, of a test between pairs. dropped: rows that contradict themselves.
    facts: of _SIGNS, "interleaved" and "commas". uneven: sentences on calls and ranks.
    """

    tool: str
    test: str = ""
    rows: list[Row] = field(default_factory=list)
    ranks: int | None = None
    nodes: int | None = None
    gpu: str = ""
    pairs: int = 0
    average: float = 0.0
    dropped: int = 0
    facts: set[str] = field(default_factory=set)
    uneven: list[str] = field(default_factory=list)
    title: str = ""

    @property
    def _best(self) -> Row | None:
        """The row whose bus bandwidth is printed with most digits."""
        return max(self.rows, key=lambda row: row.bus, default=None)

    @property
    def factor(self) -> float | None:
        """Printed bus bandwidth over size / time, from the row that prints most digits."""
        best = self._best
        return best.bus * best.seconds / best.size if best and best.bus and best.size else None

    def could_be_of(self, ranks: int) -> bool:
        """Would so many ranks print this bus bandwidth? Its two decimals, in GB/s, are rounded, and
        so is the time."""
        if self.factor is None or ranks < 2:
            return False
        rounded = 1e-3 + 1e7 / self._best.bus
        return abs(self.factor / costs.busbw(1, 1, ranks, self.test) - 1) < rounded

    @property
    def counted(self) -> int | None:
        """How many ranks took part: as listed, or as busbw / algbw tells, as lists may be cut."""
        if self.ranks and self.could_be_of(self.ranks):
            return self.ranks
        printed, told = self.factor or 0.0, 0
        if self.test == "allreduce" and 0.9 < printed < 1.97:
            told = round(2 / (2 - printed))
        if self.test in ("allgather", "reduce_scatter", "alltoall") and 0.4 < printed < 0.97:
            told = round(1 / (1 - printed))
        return max(told, self.ranks or 0) or None

    def add(self, row: Row | None) -> None:
        self.rows += [row] if row else []
        self.dropped += row is None


def read(text: str) -> list[Reading]:
    """All tables of a text, in their order."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).lstrip("\ufeff")
    found = _from_json(text) or list(_from_records(text))
    if not found:
        parts = _sections(text)
        found = [reading for part in parts for reading in _nccl(part, text)]
        found += [*_osu(text), *_mpi4py(text)]
    for reading in found:
        reading.rows = _merged(reading.rows)
    return [reading for reading in found if reading.rows or reading.dropped]


def _number(value: object) -> float:
    """A finite number, 0 or more; NaN for all else."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) and number >= 0 else math.nan


def _row(size: object, seconds: float, algbw=0.0, bus=0.0, wrong: object = 0) -> Row | None:
    """A row if its numbers can be; where bandwidths are printed, if they follow from size and time.

    They have two decimals, times four digits. Old nccl-tests print the bus bandwidth as algbw in
    some tests, so one of the two must fit; and bus is at most twice size / time.
    """
    size = _number(size)
    if not (
        0 <= size < 1e18 and LEAST_SECONDS < seconds < MOST_SECONDS and size / seconds < MOST_RATE
    ):
        return None
    own = size / seconds
    slack = 0.02 * own + 6e6
    if bus or algbw:
        fits = abs(algbw - own) < slack or abs(algbw - bus) < 1
        if not fits or not 0.3 * own - slack < bus < 2 * own + slack:
            return None
    failed = _number(wrong)
    return Row(int(size), seconds, bus, 0.0 if math.isnan(failed) else failed)


def _merged(rows: Iterable[Row]) -> list[Row]:
    """One row a size, by size: the one of median time."""
    by_size = defaultdict(list)
    for row in rows:
        by_size[row.size].append(row)
    groups = [sorted(same, key=lambda row: row.seconds) for _, same in sorted(by_size.items())]
    return [same[(len(same) - 1) // 2] for same in groups]


def _facts(text: str) -> set[str]:
    return {fact for fact, sign in _SIGNS.items() if re.search(sign, text, re.I)}


# nccl-tests and rccl-tests


def _sections(text: str) -> Iterator[list[str]]:
    """The lines of each run: a header that comes after a footer begins the next one."""
    part, ended = [], False
    for line in text.splitlines():
        if ended and (_HEADER.search(line) or "nThread" in line):
            yield part
            part, ended = [], False
        part.append(line[:2000])
        ended = ended or bool(_FOOTER.search(line))
    yield part


def _nccl(lines: list[str], text: str) -> Iterator[Reading]:
    tables: dict[tuple, Reading] = defaultdict(lambda: Reading("nccl-tests"))
    has_root = False
    for line in lines:
        has_root = "root" in line if _HEADER.search(line) else has_root
        line = _PREFIX.sub("  ", line)
        match = None if line.lstrip().startswith("#") else _ROW.search(line)
        if match:
            redop, row = _nccl_row(match[1], match[3].split(), has_root)
            tables[match[2], redop].add(row)
            if re.search(r"\d,\d", match[3]):
                tables[match[2], redop].facts.add("commas")
    if not tables:
        return
    kind, redop = max(tables, key=lambda key: sum(row.size for row in tables[key].rows))
    reading, part = tables[kind, redop], "\n".join(lines)
    reading.facts |= _facts(text)
    reading.facts -= {"failed"} - _facts(part)
    if len(tables) > 1:
        reading.title = f"{kind} {redop}, one of {len(tables)} tables".replace("  ", " ")
    heads = max(sum(bool(sign.search(line)) for line in lines) for sign in (_HEADER, _FOOTER))
    if heads > 1 and len({row.size for row in reading.rows}) < len(reading.rows):
        reading.facts.add("interleaved")
    devices = _DEVICE.findall(part) or _DEVICE.findall(text)
    _place(reading, devices)
    footer = _FOOTER.search(part)
    reading.average = (_number(footer[1]) if footer else 0.0) * 1e9
    _spikes(reading)
    reading.test = _test((part, text), redop, reading)
    yield reading


def _nccl_row(size: str, words: list[str], has_root: bool) -> tuple[str, Row | None]:
    """(redop, the row): out of place, or in place where that makes no sense."""
    redop = words.pop(0) if re.fullmatch(r"[a-z]\w*", words[0]) else ""
    words = [word for word in words if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?|N/A", word, re.I)]
    whole = len(words) in (8, 16)  # both halves without a root; a time is never below 0
    if words and (words[0].startswith("-") or (has_root and not whole) or len(words) in (9, 17)):
        words.pop(0)
    half = len(words) // 2 if len(words) in (8, 16) else len(words)
    for place in (words[:half], words[half:]):
        if len(place) >= 3:
            time, algbw, bus = map(_number, place[:3])
            # Until 2022 the column "error" has a deviation, as 5e-07, and no count.
            wrong = place[3] if len(place) > 3 and "e" not in place[3] else 0
            row = _row(size, time * 1e-6, algbw * 1e9, bus * 1e9, wrong)
            if row:
                calls = tuple(_number(us) * 1e-6 for us in place[4:6]) if len(place) == 8 else ()
                return redop, Row(row.size, row.seconds, row.bus, row.wrong, calls)
    return redop, None


def _place(reading: Reading, devices: list[tuple[str, str, str]]) -> None:
    """devices: (rank, host, GPU) of each rank that is listed; a list may be cut."""
    if devices:
        reading.ranks = max(int(rank) for rank, _, _ in devices) + 1
        reading.nodes = len({host for _, host, _ in devices})
        gpus = Counter(gpu.strip()[:60] for _, _, gpu in devices)
        reading.gpu = gpus.most_common(1)[0][0]


def _test(sources: Iterable[str], redop: str, reading: Reading) -> str:
    """The collective: by its program's name, unless busbw is of algbw what it is in others."""
    for source in sources:
        names = [_TESTS[name] for name in _PERF.findall(source) if name in _TESTS]
        if names and _explains(names[-1], reading):
            return names[-1]
    whole = (reading.factor or 0) > 0.99
    if redop in ("", "none"):
        return "broadcast" if whole else "allgather"
    return "allreduce" if whole else "reduce_scatter"


def _explains(test: str, reading: Reading) -> bool:
    if not reading.factor or not reading.ranks or reading.ranks < 2:
        return True
    return abs(reading.factor / costs.busbw(1, 1, reading.ranks, test) - 1) < 0.1


def _spikes(reading: Reading) -> None:
    timed = [row for row in reading.rows if len(row.calls) == 2 and row.calls[0] > 0]
    slow = [row for row in timed if row.calls[1] > 2 * row.seconds]
    if slow:
        worst = max(slow, key=lambda row: row.calls[1] / row.seconds)
        reading.uneven.append(
            f"Spikes: at {len(slow)} of {len(timed)} sizes a call took more than twice the mean,"
            f" most for {worst.size} bytes with {worst.calls[1] * 1e6:.4g} µs."
        )


def _list(value: object) -> list:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict:
    return value if isinstance(value, dict) else {}


def _from_json(text: str) -> list[Reading]:
    """The file that nccl-tests write with -J."""
    try:
        data = _dict(json.loads(text)) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return []
    entries = [entry for entry in _list(data.get("results")) if isinstance(entry, dict)]
    reading = Reading("nccl-tests (JSON)")
    for entry in entries:
        place = _dict(entry.get("out_of_place") or entry.get("in_place"))
        us, algbw, bus = map(_number, map(place.get, ("time", "alg_bw", "bus_bw")))
        row = _row(entry.get("size"), us * 1e-6, algbw * 1e9, bus * 1e9, place.get("nwrong"))
        reading.add(row)
        reading.uneven += _calls(entry.get("size"), _dict(entry.get("out_of_place_per_iter")))
    words = "\n".join(map(str, _list(data.get("args")) + _list(data.get("env"))))
    reading.facts = _facts(words)
    listed = _list(data.get("devices")) or _list(_dict(data.get("config")).get("devices"))
    names = ("rank", "hostname", "device_info")
    devices = [tuple(str(row.get(name)) for name in names) for row in map(_dict, listed)]
    _place(reading, [row for row in devices if re.fullmatch(r"\d{1,6}", row[0], re.ASCII)])
    reading.test = _test([words], str(entries[0].get("redop")) if entries else "", reading)
    return [reading] if entries else []


def _calls(size: object, calls: dict) -> Iterator[str]:
    """Sentences on spikes and stragglers of one size, from the times of its calls (-I)."""
    times = np.array([*map(_number, _list(calls.get("times_us")))])
    usual = float(np.median(times)) if len(times) else math.nan
    spikes = np.flatnonzero(times > 2 * usual)
    if len(spikes):
        yield (
            f"Spikes: of {len(times)} calls with {size} bytes {len(spikes)} took more than twice"
            f" their median of {usual:.4g} µs, the first one was call {spikes[0]}."
        )
    by_rank = [[*map(_number, _list(row))] for row in _list(calls.get("per_process_max_times_us"))]
    medians = np.array([np.median(row) if row else math.nan for row in by_rank])
    if len(medians) > 1 and medians.max() > 1.1 * np.median(medians):
        yield (
            f"Straggler: process {medians.argmax()} takes {medians.max():.4g} µs for {size} bytes,"
            f" where the median of the processes is {np.median(medians):.4g} µs."
        )


# MPI's benchmarks, and the kit's records


def _osu(text: str) -> list[Reading]:
    found: list[Reading] = []
    lines = [line[:500] for line in text.splitlines()]
    titles = [*filter(None, map(_OSU.match, lines))]
    pairs, name, in_table = 1, titles[0][1].strip() if titles else "", False
    for line in lines:
        title, columns = _OSU.match(line), _OSU_COLUMNS.match(line)
        count = re.search(r"\[ pairs: (\d{1,6}) \]", line, re.ASCII)
        row = _NUMBERS.match(line) if in_table else None
        if title:
            name, in_table = title[1].strip(), False
        elif count:
            pairs = int(count[1])
        elif columns:
            test = _osu_test(name, columns[1].lower())
            in_table = bool(test)
            if test:
                found.append(Reading("OSU's benchmark", test, title=name))
                found[-1].pairs = pairs if test in PAIRS else 0
        elif row:
            size, value = int(row[1]), _number(row[2].split()[0])
            by_rate = found[-1].test in PAIRS[1:]
            seconds = size / (value * 1e6) if by_rate and value else value * 1e-6
            found[-1].add(_row(size, math.nan if by_rate and not value else seconds))
        elif line.strip() and not line.lstrip().startswith("#"):
            in_table = False
    for reading in found:
        reading.facts = _facts(text)
    return found


def _osu_test(title: str, column: str) -> str:
    """The test, or one of PAIRS; "" for collectives that are not known here, such as a gather."""
    words = re.sub("[-_]", "", title.lower()).split()
    known = {name.replace("_", ""): test for name, test in _TESTS.items()}
    tests = [known[word] for word in words if word in known]
    if tests:
        return tests[0]
    if column == "latency":
        between_two = {"latency", "multi", "multithreaded", "multiprocess"}
        return "latency" if between_two.issuperset(words) else ""
    kinds = {"multiple": "pairs", "bidirectional": "bidirectional"}
    return next((kinds[word] for word in words if word in kinds), "bandwidth")


def _mpi4py(text: str) -> Iterator[Reading]:
    rows = [*filter(None, map(_MPI4PY.match, text.splitlines()))]
    if "MPI PingPong Test" not in text or not rows:
        return
    reading = Reading("mpi4py.bench", "latency", pairs=1, title="ping-pong")
    for match in rows:
        reading.add(_row(match[1], _number(match[2])))
    noisy = sum(_number(match[3]) > _number(match[2]) for match in rows)
    if noisy:
        reading.uneven.append(
            f"Spikes: at {noisy} of {len(rows)} sizes the standard deviation is larger than the"
            " mean, so single rounds were interrupted."
        )
    yield reading


def _from_records(text: str) -> Iterable[Reading]:
    """The newest of each kind among the kit's records (JSON lines of labs 22 and 51)."""
    newest: dict[str, Reading] = {}
    for line in text.splitlines():
        try:
            entry = _dict(json.loads(line)) if line.startswith("{") else {}
        except (ValueError, RecursionError):
            entry = {}
        kind, sizes = entry.get("result"), _list(entry.get("bytes"))
        columns = {"us": 1e-6, "median": 1.0, "MB_per_s": 1e6}
        column = next((name for name in columns if _list(entry.get(name))), "")
        if kind in ("latency", "bandwidth", "allreduce") and column:
            where = str(entry.get("backend") or entry.get("where") or "MPI")[:40]
            ranks, nodes = (_number(entry.get(name)) for name in ("ranks", "nodes"))
            reading = Reading("the kit's record", kind, title=where, pairs=int(kind != "allreduce"))
            reading.ranks = int(ranks) if 0 < ranks < 1e6 else None
            between = 2 if where == "between nodes" else 1
            reading.nodes = int(nodes) if 0 < nodes < 1e6 else between
            for size, value in zip(sizes, entry[column], strict=False):
                number = _number(value) * columns[column]
                by_rate = _number(size) / number if number else math.nan
                reading.add(_row(size, by_rate if kind == "bandwidth" else number))
            newest[f"{kind}, {where}"] = reading
    return newest.values()
