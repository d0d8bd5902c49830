"""Lab 65: checks; one job in five ways, on real processes, and scores of trainings."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from labkit import check, expect, launch, paths, ports, record, world
from labkit.errors import LabError

# -- the checks


@check.exercise("65.1")
def changed_lines(changes):
    """The counts of small texts, and of each way's scripts. Lines added, less lines removed, are
    how much longer a script became.
    """
    cases = {
        "a line added": ("a\nb\n", "a\nnew\nb\n", (0, 1)),
        "a line modified": ("a\nb\nc\n", "a\nB\nc\n", (1, 1)),
        "a number modified": ("a\nrate = 0.1\n", "a\nrate = 0.2\n", (1, 1)),
        "a line newly indented": ("a\nb\n", "a\n    b\n", (1, 1)),
        "the same line added again": ("a\nb\n", "a\nb\na\n", (0, 1)),
        "only comments and empty lines": ("a\nb\n", "#why\na\n\n  \n\t# how\nb\n", (0, 0)),
        "a comment behind a line": ("a\n", "a  # one\n", (1, 1)),
        "a line removed": ("a\nb\nb\n", "a\nb\n", (1, 0)),
        "a line that was moved": ("a\nb\nc\nd\n", "b\nc\nd\na\n", (1, 1)),
        "a line that was moved behind comments": ("a\n# x\n# y\nb\n", "b\n# x\n# y\na\n", (1, 1)),
    }
    for what, (before, after, want) in cases.items():
        got = changes(before, after)
        two = np.size(got) == 2
        expect(two, f"{what}: return two numbers, removed and added; this is {got!r}.")
        slips = {"These are swapped": want[::-1]}
        expect.equal(tuple(got), want, f"{what}: (removed, added)", slips=slips)
    for way in WAYS:
        texts = [[line.strip() for line in text.splitlines()] for text in scripts(way)]
        alone, many = (sum(line[:1] not in ("", "#") for line in text) for text in texts)
        out, put = changes(*scripts(way))
        expect.equal(put - out, many - alone, f"{way}: lines added, less those removed")


@check.exercise("65.2")
def start_up_and_speeds(read_run):
    """Both of runs that are known, with one to four ranks, slow first steps, a late rank."""
    for what, moments, start_up, seconds in RUNS:
        given = [list(of_rank) for of_rank in moments]
        got = read_run(STARTED, given, BATCH)
        expect.unchanged(moments, given, f"{what}: the list of moments")
        two = isinstance(got, (tuple, list)) and len(got) == 2 and np.ndim(got[1]) == 1
        expect(two, f"{what}: return two: the start-up, and a list of speeds.")
        why = "it lasts from `started` until the slowest rank has finished step 0"
        expect.close(got[0], start_up, f"{what}: start-up", rtol=0, atol=1e-4, because=why)
        why = "steps 5, 6, … up to the last that all ranks have ended"
        expect.equal(len(got[1]), len(seconds), f"{what}: how many speeds", because=why)
        why = (
            "a step lasts from the end of the previous one until its slowest rank has finished it, "
            "and its speed is `batch` divided by that"
        )
        want = BATCH / np.array(seconds)
        slips = {"`batch` is already the number for all ranks together": want * len(moments)}
        expect.close(np.array(got[1]), want, f"{what}: speeds", rtol=1e-4, slips=slips, because=why)
        why = "`first` says which step is the first whose speed counts"
        later = read_run(STARTED, given, BATCH, first=7)[1]
        expect.equal(len(later), len(seconds) - 2, f"{what}, first=7: how many speeds", because=why)


STARTED = 999.0
BATCH = 47  # in no text, and no speed is a whole number
ALONE_ENDED = [1003.021, 1004.0, 1004.5, 1005.0, 1005.5, 1005.7, 1006.1, 1006.9, 1007.0]
FIRST_ENDED = [1002.0, 1003.0, 1003.5, 1004.0, 1004.5, 1004.6, 1005.2, 1005.6, 1006.0]
# It stops a step earlier.
SECOND_ENDED = [1002.527, 1003.2, 1003.4, 1004.1, 1004.4, 1004.8, 1005.1, 1005.8]
RUNS = (  # what, when each rank ended each step, start-up, seconds of steps 5, 6, …
    ("1 rank", [ALONE_ENDED], 4.021, [0.2, 0.4, 0.8, 0.1]),
    ("2 ranks", [FIRST_ENDED, SECOND_ENDED], 3.527, [0.3, 0.4, 0.6]),
    ("4 ranks", [FIRST_ENDED, FIRST_ENDED, SECOND_ENDED, FIRST_ENDED], 3.527, [0.3, 0.4, 0.6]),
)


@check.exercise("65.3")
def spans_that_part(still_in):
    """The rule, on spans that are known: of one value, that touch, that overlap, and without an
    end."""
    known = {"a": (1, 2), "b": (1.5, 4), "c": (2.5, 5), "d": (2, 2), "e": (9, np.inf)}
    why = "a way is ruled out only by a span on its better side that does not touch its own"
    right = {"less": ["a", "b", "d"], "more": ["e"]}
    for name, other in (("less", "more"), ("more", "less")):
        given = dict(known)
        got = still_in(given, name == "more")
        expect.unchanged(known, given, "The dict of ways")
        some = got is not None and not isinstance(got, str)
        expect(some, f"Return the list of ways; this is {got!r}.")
        slips = {
            "this is right for the other value of more_is_better": right[other],
            "these are the ways that are ruled out": sorted(set(known) - set(right[name])),
        }
        what = f"{known}, where {name} is better: still in"
        expect.equal(sorted(got), right[name], what, slips=slips, because=why)
    pairs = ({"a": (1, 3), "b": (2, 4)}, {"a": (1, 2), "b": (2, 3)})
    for pair, more_is_better in itertools.product(pairs, (False, True)):
        got = sorted(still_in(pair, more_is_better))
        expect.equal(got, ["a", "b"], f"{pair}: still in", because=why)
    long = {"a": (1, 10), "b": (2, 3), "c": (5, 6)}
    why = "any other way can rule one out, also one whose best end is not the best of all"
    for more_is_better, want in ((False, ["a", "b"]), (True, ["a", "c"])):
        got = still_in(dict(long), more_is_better)
        what = f"{long}, more is better: {more_is_better}: still in"
        expect.equal(sorted(got), want, what, because=why)


@check.exercise("65.4")
def mlperfs_score(score):
    """The rule, for three to ten runs, in any order, with none, one and two that missed the
    target."""
    for seconds, want in (
        ([3.5, 9.0, 2.0, 3.0, 6.0], 12.5 / 3),
        ([5.0, 1.0, 3.0], 3.0),
        ([3.0, None, 2.0, 3.0, 7.0], 13 / 3),
        ([None, 7e5, 5e5], 7e5),
        ([4.0, None, 2.0, None, 4.0], None),
        ([10.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0], 45 / 8),
    ):
        given = list(seconds)
        got = score(given)
        expect.unchanged(seconds, given, "The list of seconds")
        what = f"The score of {seconds}"
        if want is None:
            why = "More than one run missed the target."
            expect(got is None, f"{what}: expected None, got {got!r}. {why}")
            continue
        there = [value for value in seconds if value is not None]
        inside = [value for value in seconds[1:-1] if value is not None]
        forgotten = sorted(there)[1:-1] or there
        zeros = sorted(value or 0 for value in seconds)
        slips = {
            "a run that missed the target has to count as the slowest": np.mean(zeros[1:-1]),
            "a run that missed the target is the slowest, and the one to drop": np.mean(forgotten),
            "this is the mean of all; drop the fastest and the slowest": np.mean(there),
            "this drops by place in the list; sort first": np.mean(inside),
            "this is the median": np.median(there),
            "this drops only the slowest": np.mean(sorted(there)[:-1]),
            "this drops only the fastest": np.mean(sorted(there)[1:]),
            "this is the fastest run": min(there),
        }
        why = "One run may miss the target: it counts as the slowest."
        expect(got is not None, f"{what}: got None. {why}")
        expect.close(got, want, what, slips=slips)


# -- the ways


class Way(NamedTuple):
    """A way to train: its script, the one-device script beside it, and how its processes meet."""

    script: str
    alone: str
    meet: str  # torch, horovod, tensorflow, or "" for one device


WAYS = {
    "PyTorch DDP": Way("torch_ddp", "torch_alone", "torch"),
    "FSDP2": Way("torch_fsdp", "torch_alone", "torch"),
    "Horovod on PyTorch": Way("torch_horovod", "torch_alone", "horovod"),
    "Horovod on TensorFlow": Way("tf_horovod", "tf_alone", "horovod"),
    "tf.distribute": Way("tf_distribute", "tf_alone", "tensorflow"),
}
ALONE = {
    "PyTorch alone": Way("torch_alone", "torch_alone", ""),
    "TensorFlow alone": Way("tf_alone", "tf_alone", ""),
}


def path_of(name: str) -> Path:
    """The file of a script."""
    return Path(__file__).with_name("lab65_scripts") / f"{name}.py"


def scripts(way: str) -> tuple[str, str]:
    """The texts of two scripts: for one device, and for many in this way."""
    alone, many = path_of(WAYS[way].alone), path_of(WAYS[way].script)
    return alone.read_text(encoding="utf-8"), many.read_text(encoding="utf-8")


def alone_of(way: str) -> str:
    """The name, in ALONE, of the one-device run that a way has to be compared with."""
    return next(name for name, one in ALONE.items() if one.script == WAYS[way].alone)


def groups(ways: list[str]) -> dict[str, list[str]]:
    """Whom a decision may be among: "any" of the ways, or those of one framework, where there are
    several."""
    chosen = {"any": list(ways)}
    for framework in ("PyTorch", "TensorFlow"):
        chosen[framework] = [way for way in ways if alone_of(way) == f"{framework} alone"]
    return {name: some for name, some in chosen.items() if len(some) > 1}


@contextmanager
def meeting(comm, meet: str) -> Iterator[dict[str, str]]:
    """The variables by which this rank's process finds the others, while the block lasts. All ranks
    enter.

    Each framework reads its own: RANK and MASTER_ADDR, or HOROVOD_…, or TF_CONFIG. On one machine
    Gloo keeps to its loopback.
    """
    rank, size = str(comm.rank), str(comm.size)
    names = comm.allgather(socket.gethostname())
    together = len(set(names)) == 1
    hosts = ["127.0.0.1"] * comm.size if together else names
    if meet == "horovod":
        with _folder(comm) as folder:
            # Gloo brings the processes together, by files in the folder: no launcher of MPI has
            # started them. Each counts as a host of its own.
            variables = {"CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo"}
            variables |= {"GLOO_RENDEZVOUS_FOLDER": folder, "HOSTNAME": f"process-{rank}"}
            variables |= {"RANK": rank, "LOCAL_RANK": "0", "CROSS_RANK": rank}
            variables |= {"SIZE": size, "LOCAL_SIZE": "1", "CROSS_SIZE": size}
            # Between nodes the site file's, of which the environment of `_child` is cleaned.
            interface = "lo" if together else os.environ.get("HOROVOD_GLOO_IFACE")
            variables |= {"GLOO_IFACE": interface} if interface else {}
            yield {f"HOROVOD_{name}": value for name, value in variables.items()}
    elif meet == "torch":
        with ports.agree(comm, 1) as port:  # what torchrun would set
            variables = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": "0"}
            variables |= {"MASTER_ADDR": hosts[0], "MASTER_PORT": str(port)}
            yield variables | ({"GLOO_SOCKET_IFNAME": "lo"} if together else {})
    elif meet == "tensorflow":
        with ports.agree(comm, comm.size) as first:
            workers = [f"{host}:{first + number}" for number, host in enumerate(hosts)]
            task = {"type": "worker", "index": comm.rank}
            yield {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task})}
    else:
        yield {}


@contextmanager
def _folder(comm) -> Iterator[str]:
    """A folder for all ranks of comm, on storage that their hosts share; only this user may look
    into it."""
    own = tempfile.mkdtemp(prefix="horovod-", dir=paths.home()) if comm.rank == 0 else None
    folder = comm.bcast(own)
    try:
        yield folder
        _gather(comm, None)  # or a rank that is late would find nothing
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- real processes that train, measured from outside

FOR_EVER = "1000000"  # steps: every process trains until it is ended
START = 240  # seconds to wait for a process's steps
LOOK = 0.05  # seconds between two looks


class Report(NamedTuple):
    """What was seen of one process. Times as of time.time().

    moments: when each of its steps ended. losses: of its own images. megabytes: its memory while it
    trained.
    """

    started: float
    moments: list[float]
    losses: list[float]
    megabytes: float


def measure(
    names: Sequence[str], ranks: int, rounds: int, *, width: int, batch: int, steps: int
) -> dict[str, list[list[Report]]]:
    """{way: for each round a Report of each process}: each way in each round. Prints what it is at.

    names: of WAYS and ALONE. width: of the net. batch: images of all ranks in a step. steps: that
    are seen.
    """
    runs: dict[str, list[list[Report]]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names:
            way = (ALONE | WAYS)[name]
            if world.is_root():
                print(f"round {turn + 1}: {name}", flush=True)
            size = launch.ranks_here(ranks) if way.meet else 1
            arguments = (way, [str(width), str(batch), FOR_EVER], steps)
            # START is for the children; what they report comes at once.
            reports = launch.run(_on_rank, *arguments, ranks=size, threads=1, timeout=2 * START)[0]
            runs[name].append(reports)
    return runs


def _on_rank(comm, way: Way, arguments: list[str], steps: int) -> list[Report]:
    """On each rank: start its process, wait for its steps, see what it holds, and end it."""
    with meeting(comm, way.meet) as variables, tempfile.TemporaryDirectory() as folder:
        _gather(comm, None)  # all begin together
        with _child(path_of(way.script), arguments, variables, Path(folder)) as child:
            problems = [text for text in _gather(comm, child.train(steps)) if text]
            if problems:
                raise LabError(f"{way.script}.py does not train here: {problems[0]}")
            return _gather(comm, child.report())


def _gather(comm, value: object) -> list:
    """Everyone's value. Waits without a core: MPI's own waiting would take it from those who
    train."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(LOOK)
    return comm.allgather(value)


class _Child(NamedTuple):
    """A process that trains, with files for what it says."""

    process: subprocess.Popen
    started: float
    out: Path
    err: Path

    def train(self, steps: int) -> str:
        """Wait until it has done so many steps; "" then, else what went wrong."""
        end = time.monotonic() + START
        while len(self.steps()) < steps:
            if self.process.poll() is not None:
                words = self.err.read_text(errors="replace").splitlines()
                telling = [line.strip() for line in words if "Error: " in line]
                return (telling or [f"it ended with status {self.process.returncode}"])[-1]
            if time.monotonic() > end:
                return f"it has not done {steps} steps within {START} s"
            time.sleep(LOOK)
        return ""

    def report(self) -> Report:
        """What there is to say. Memory: resident, shared pages included, in 1e6 bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("VmRSS:")]
        steps = self.steps()
        moments = [float(moment) for _, moment, _ in steps]
        losses = [float(loss) for _, _, loss in steps]
        return Report(self.started, moments, losses, 1024 * int(line.split()[1]) / 1e6)

    def steps(self) -> list[list[str]]:
        """The whole lines of steps, in words: step, moment, loss. Libraries may print others."""
        text = self.out.read_text(errors="replace")
        whole = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
        return [words for words in whole if len(words) == 3 and words[0].isdigit()]


@contextmanager
def _child(
    script: Path, arguments: list[str], variables: dict[str, str], folder: Path
) -> Iterator[_Child]:
    """A process of the script, while the block lasts."""
    settings = {
        "TMPDIR": str(folder),  # TensorFlow leaves files there when it is killed
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # With one thread, one that waits for another process would keep the rest from running.
        "TF_NUM_INTEROP_THREADS": "4",
    }
    out = folder / "out.txt"
    err = folder / "err.txt"
    started = time.time()
    with out.open("wb") as said, err.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            # Without the launcher's variables: it is no rank of the job that its parent belongs to.
            env=world.clean_env() | settings | variables,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=errors,
        )
    try:
        yield _Child(process, started, out, err)
    finally:
        process.kill()
        process.wait()


# What is measured of each way -> is more of it better?
COLUMNS = {"lines changed": False, "images/s": True, "start-up (s)": False, "memory (MB)": False}


def evidence(
    runs: Mapping[str, Sequence[Sequence[Report]]],
    lines: Mapping[str, int],
    read_run: Callable,
    batch: int,
) -> dict[str, dict[str, tuple[float, float]]]:
    """{column: {way: (low, high)}}. lines: changed in each way. read_run: the learner's, of
    exercise 65.2.

    images/s: the quartiles of all steps of all rounds. The rest: the least and the most, of rounds
    and ranks. Runs on one device have no lines.
    """
    spans: dict[str, dict[str, tuple[float, float]]] = {column: {} for column in COLUMNS}
    for name, rounds in runs.items():
        read = [read_run(of[0].started, [one.moments for one in of], batch) for of in rounds]
        start_ups = [float(start_up) for start_up, _ in read]
        speeds = np.concatenate([of_steps for _, of_steps in read])
        memory = [report.megabytes for reports in rounds for report in reports]
        spans["images/s"][name] = tuple(np.percentile(speeds, [25, 75]).tolist())
        spans["start-up (s)"][name] = (min(start_ups), max(start_ups))
        spans["memory (MB)"][name] = (min(memory), max(memory))
        if name in WAYS:
            spans["lines changed"][name] = (lines[name], lines[name])
    return spans


def apart(
    runs: Mapping[str, Sequence[Sequence[Report]]], way: str, steps: int
) -> tuple[float, float]:
    """How far the losses of the first steps are apart: of a way from one device's, and of these in
    a step.

    A way's loss is the mean over its ranks: each has equally many images. The second number is the
    largest change of the one device's loss from a step to the next, to compare the first with.
    """
    together = np.mean([report.losses[:steps] for report in runs[way][0]], axis=0)
    alone = np.array(runs[alone_of(way)][0][0].losses[:steps])
    return float(np.abs(together - alone).max()), float(np.abs(np.diff(alone)).max())


def show(spans: Mapping[str, Mapping[str, tuple[float, float]]]):
    """The evidence as a DataFrame of texts: `low to high`, or one number."""
    import pandas

    def text(span: tuple[float, float]) -> str:
        low, high = span
        digits = 0 if high >= 20 else 1
        return f"{low:.0f}" if low == high else f"{low:,.{digits}f} to {high:,.{digits}f}"

    rows = {column: {way: text(row[way]) for way in row} for column, row in spans.items()}
    return pandas.DataFrame(rows).fillna("")


# -- lab 34's trainings as runs of a benchmark


def trainings() -> dict[tuple[str, int], list[float | None]]:
    """{(way, batch): seconds to the goal of each seed}, None for a seed that missed it: the kit's
    of lab 34.

    Seconds: epochs to the goal, as trained, times the seconds of an epoch, on as many GPUs as the
    batch fills there, as lab 34 has them.
    """
    epochs: dict[tuple[str, int], list] = {}
    seconds: dict[tuple[str, int], float] = {}
    for entry in record.entries(paths.root() / "solutions" / "results" / "34_large_batch.jsonl"):
        keys = [(entry.get("way"), batch) for batch in entry.get("batches", ())]
        if entry["result"] == "accuracy":
            epochs |= zip(keys, entry["epochs_to_goal"], strict=True)
        elif entry["result"] == "times":
            seconds |= zip(keys, entry["epoch"], strict=True)
    return {
        key: [None if number is None else number * seconds[key] for number in of_seeds]
        for key, of_seeds in epochs.items()
    }


def score_all(trainings: Mapping, score: Callable) -> tuple:
    """A table of the valid benchmarks in ms, and {(way, batch): (lowest, highest) score, in s, with
    one seed left out}."""
    import pandas

    rows, around = {}, {}
    for key, seconds in trainings.items():
        if score(seconds) is None:
            continue
        parts = [score(seconds[:place] + seconds[place + 1 :]) for place in range(len(seconds))]
        finite = [np.inf if part is None else part for part in parts]
        around[key] = (min(finite), max(finite))
        best = min(value for value in seconds if value is not None)
        row = {"ms, fastest seed": best, "ms, score": score(seconds)}
        rows[key] = row | {"lowest": min(finite), "highest": max(finite)}
    return 1e3 * pandas.DataFrame.from_dict(rows, orient="index"), around


def invalid_batches(trainings: Mapping, frame) -> dict[str, list[str]]:
    """The batches of each way that are not in the table of `score_all`."""
    invalid: dict[str, list[str]] = {way: [] for way, _ in trainings}
    for way, batch in trainings:
        if (way, batch) not in frame.index:
            invalid[way].append(str(batch))
    return invalid
