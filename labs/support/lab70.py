"""Lab 70: checks; a training to resume, killed saves, lives of a job, a job that loses a node."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from numbers import Integral
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import cloudpickle
import numpy as np
from labkit import check, data, expect, jsonl, launch, nets, paths, world
from labkit.cluster import slurm
from labkit.errors import LabError, counted

# -- the checks


@check.exercise("70.1")
def resume_is_exact(capture, restore, patience, ranks):
    """Captured in the middle of an epoch and at its end, restored into a fresh training: all is as
    it was, on every rank, and the losses that follow are the same to the last bit.
    """
    tried = launch.run(try_resume, capture, restore, ranks=ranks, timeout=patience)
    for stop, got in tried[0].items():
        where = f"Captured after {stop} steps, {STOPS[stop]}"
        why = "rank 0 alone returns the state, and the others None"
        expect.equal(got["holders"], [0], f"{where}: ranks with a state", because=why)
        expect(
            not got["stored"],
            f"{where}: this state cannot be stored and read again. {got['stored']}",
        )
        expect(got["after"] == got["whole"], f"{where}: `capture` has changed the training run.")
        for rank, results in enumerate(tried):
            for part, same in results[stop]["parts"].items():
                expect(same, f"{where}, on rank {rank}: {PARTS[part]} not as before.")
        expect.equal(got["losses"], got["whole"], f"{where}: the losses after the resume")


@check.exercise("70.2")
def old_or_new(write):
    """At each line of `write`, the file is the old or the new one, whole: that is what a kill
    before this line would leave. And each fsync is in its place.
    """
    seen = watch_saves(write)
    for number, state in seen.moments:
        line = launch.Frame(write.__code__.co_filename, number, write.__name__).place()
        expect(
            state in ("old", "new"),
            f"Killed before the line in brackets, the file is {state}. It must be the old one or"
            f" the new one, whole.  ({line})",
        )
    expect.equal(seen.end, "new", "The file after a save that nobody killed")
    renames = [
        place
        for place, call in enumerate(seen.calls)
        if call[0] == "rename" and call[2] == seen.path
    ]
    why = "write to another name first, and then os.replace(temporary, path)."
    expect(renames, f"No complete file was renamed to `path`: {why}")
    last = renames[-1]
    temporary = seen.calls[last][1]
    folder = os.path.dirname(seen.path)
    there = os.path.dirname(temporary)
    expect(there == folder, "The temporary file belongs in the folder of `path`.")
    why = "os.fsync(file.fileno()) comes after file.flush() and before os.replace."
    synced = ("fsync", temporary, len(NEW)) in seen.calls[:last]
    expect(synced, f"When the name changes, some bytes may not be on the disk yet: {why}")
    synced = any(call[:2] == ("fsync", folder) for call in seen.calls[last:])
    why = "os.fsync of path.parent comes after os.replace."
    expect(synced, f"At the end, the new name may not be on the disk yet: {why}")
    why = "let the temporary file have the same name each time, and the next save overwrites it"
    one = len(seen.sources) == 1
    expect(one, f"A killed save leaves a file behind, and the next one another: {why}.")
    why = "os.close(folder) at the end."
    expect(not seen.left_open, f"Each save leaves a file or folder open: {why}")


OLD = b"o" * 2000
NEW = b"n" * 2000  # shorter than Python's buffer: without flush() nothing is in the file
LEFT = b"half a save" * 200  # longer than NEW: what is not emptied shows


def watch_saves(write):
    """write(path, NEW) over OLD, twice, watched; the second save finds half a save under the
    temporary name.

    Returns `moments`, (line, what the file is) before each line of `write`; `calls`, the last
    save's fsyncs and renames in order; `end`, the file afterwards; `sources`, names that were
    renamed; `left_open`.
    """
    moments: list = []
    calls: list = []
    sources: set = set()

    def noting(real):
        def noted(first, *rest, **options):
            if rest:
                calls.append(("rename", *map(os.path.realpath, (first, rest[0]))))
            else:
                file = first if isinstance(first, int) else first.fileno()
                size = os.fstat(file).st_size  # if closed: "Bad file descriptor", as of fsync
                calls.append(("fsync", os.readlink(f"/proc/self/fd/{file}"), size))
            return real(first, *rest, **options)

        return noted

    with tempfile.TemporaryDirectory() as folder, ExitStack() as patches:
        path = Path(os.path.realpath(folder), "net.checkpoint")

        def state():
            content = path.read_bytes() if path.exists() else None
            if content != NEW and NEW in (content or b""):
                return "the new one and, before or after it, what a killed save had left"
            return {OLD: "old", NEW: "new", b"": "empty", None: "gone"}.get(content, "half")

        def look(frame, event, _):
            moments.append((frame.f_lineno, state()))
            return look

        for name in ("fsync", "fdatasync", "replace", "rename"):
            noted = noting(getattr(os, name))
            patches.enter_context(patch(f"os.{name}", noted))
            # Python 3.10 keeps them there.
            if name[0] == "r" and hasattr(pathlib, "_NormalAccessor"):
                patches.enter_context(
                    patch.object(pathlib._NormalAccessor, name, staticmethod(noted))
                )
        for _ in range(2):
            path.write_bytes(OLD)
            for source in sources:
                Path(source).write_bytes(LEFT)
            calls.clear()
            tracer = sys.gettrace()
            sys.settrace(lambda frame, *_: look if frame.f_code is write.__code__ else None)
            try:
                write(path, NEW)
            finally:
                sys.settrace(tracer)
            sources |= {call[1] for call in calls if call[0] == "rename"}
        # Of this folder alone: other threads of a notebook open and close files meanwhile.
        links = map(os.path.realpath, Path("/proc/self/fd").iterdir())
        left_open = any(link.startswith(str(path.parent)) for link in links)
        return SimpleNamespace(
            path=str(path),
            moments=moments,
            calls=calls,
            end=state(),
            sources=sources,
            left_open=left_open,
        )


@check.exercise("70.3")
def files_are_judged(judge):
    """The right word for whole, cut, lengthened, changed and foreign files."""
    for size in (0, 1000):
        good = pack(bytes(range(250)) * (size // 250), "net A")
        whole = "whole" if size else "whole, of a state of 0 bytes"
        cases = {whole: (good, "good"), "empty": (b"", "incomplete")}
        cases["a whole one twice"] = (good + good, "incomplete")
        for share in (0.1, 0.5, 0.99):
            cut = good[: int(share * len(good))]
            cases[f"cut to {share:.0%} of its length"] = (cut, "incomplete")
        if size:
            zeros = damaged(good, zeros=True)
            cases["whole but for one bit"] = (damaged(good), "damaged")
            cases["as long as it should be, but half of it zeros"] = (zeros, "damaged")
        for what, (content, verdict) in cases.items():
            what = f"`judge` of a file that is {what}"
            expect.equal(judge(content, "net A"), verdict, what)
            if verdict != "good":
                what = f"{what}, and of another network, too"
                expect.equal(judge(content, "net B"), verdict, what)
        why = "names or shapes of its tensors differ, and you learn it before loading"
        what = "`judge` of a file of another network"
        expect.equal(judge(good, "net B"), "another model", what, because=why)


@check.exercise("70.4")
def youngs_interval(interval, lost):
    """Young's formula, and both shares."""
    for save, mtbf in ((60, 11_160), (2, 86_400), (600, 36_000)):
        where = f"a save of {save} s, an mtbf of {mtbf:,} s"
        right = (2 * save * mtbf) ** 0.5
        slips = {"the 2 is missing": (save * mtbf) ** 0.5, "this is its square": 2 * save * mtbf}
        expect.close(interval(save, mtbf), right, f"{where}: the interval", slips=slips)
        for seconds in (right / 3, right, 3 * right):
            share = save / seconds + seconds / mtbf / 2
            slips = {
                "a failure costs half an interval on average": save / seconds + seconds / mtbf,
                "this is the saving alone": save / seconds,
                "this is the repeating alone": seconds / mtbf / 2,
                "you divided by `every + save`; `save / every` is asked": (
                    save / (seconds + save) + seconds / mtbf / 2
                ),
            }
            what = f"{where}: the share that is lost, with a save each {seconds:.0f} s"
            expect.close(lost(seconds, save, mtbf), share, what, slips=slips)


@check.exercise("70.5")
def loop_saves_and_stops(train, patience, ranks):
    """All ranks do equally many steps, save after the right ones, and stop when one was asked."""
    cases = loop_cases(ranks)
    tried = launch.run(try_loop, train, cases, ranks=ranks, timeout=patience)
    for number, case in enumerate(cases):
        steps = [by_rank[number]["done"] for by_rank in tried]
        why = "a rank that is left alone waits for ever: all have to leave after the same step"
        expect.equal(steps, [steps[0]] * ranks, f"{case}: steps done, by rank", because=why)
        expect.equal(steps[0], case.saves[-1], f"{case}: steps done")
        asked = max(by_rank[number]["asked"] for by_rank in tried)
        why = "a signal that comes between two questions has two answers"
        expect(asked == 0, f"{case}: `stopped()` is called more than once in a step: {why}.")
        for rank, by_rank in enumerate(tried):
            why = "all ranks call `save` after the same steps, as `capture` in it asks all of them"
            what = f"{case}: saved after steps, on rank {rank}"
            expect.equal(by_rank[number]["saves"], case.saves, what, because=why)


@check.exercise("70.6")
def fewer_and_more_ranks(own_part, after_resize):
    """An epoch in which the number of ranks changes uses each sample exactly once, also if it is
    resumed between two multiples of `batch`; and the rule for batch and rate, when ranks go and
    when they come.
    """
    for samples, begin, length, sizes in (
        (20, 0, 4, (1,)),
        (50, 0, 8, (2, 2, 1, 3)),
        (47, 5, 10, (4, 3, 5)),  # at the end two samples for three ranks
        (7, 0, 9, (2,)),
    ):
        order = np.random.default_rng(samples).permutation(1000)[:samples]
        for number, done in enumerate(range(begin, samples, length)):
            size = sizes[number % len(sizes)]
            ranks = counted(size, "rank")
            where = f"{done} of {samples} samples done, a step of {length}, {ranks}"
            given = order.copy()
            parts = [own_part(given, done, length, rank, size) for rank in range(size)]
            expect.unchanged(order, given, f"{where}: the array `order`")
            step_is_dealt_out(parts, list(order[done : done + length]), where)
    for first, now in ((4, 3), (3, 8), (2, 1), (2, 2)):
        each = 10 + first + now
        rate = 0.05 * now
        start = f"{counted(first, 'rank')} at the start"
        where = f"{start}, with a rate of {rate:.2f} and {each} samples for each, {now} now"
        for keep, words in ((True, "keep"), (False, "rescale")):
            what = f"{where}, {words}"
            got = after_resize(each * first, rate, first, now, keep)
            sentence = f"return two numbers, the samples of a step and the rate, not {got!r}."
            expect(np.shape(got) == (2,), f"{what}: {sentence}")
            samples, new_rate = got
            why = f"{'the step has' if keep else 'a rank computes'} as many as before"
            wanted = each * (first if keep else now)
            expect.equal(samples, wanted, f"{what}: samples of a step", because=why)
            whole = isinstance(samples, Integral)
            expect(whole, f"{what}: {samples!r} samples, and not a whole number.")
            what = f"{what}: the rate"
            if keep:
                expect.close(new_rate, rate, what)
                continue
            stays = "this is the old rate, though a step has another number of samples"
            swapped = "this is divided where it has to be multiplied"
            slips = {swapped: rate * first / now, stays: rate}
            expect.close(new_rate, rate * now / first, what, slips=slips)


def step_is_dealt_out(parts, step, where):
    """The ranks' parts of a step are together the step, each sample once, and about equally
    long."""
    for rank, part in enumerate(parts):
        missing = " Does the function return it?" if part is None else ""
        sentence = f"rank {rank}'s part has to be an array of sample numbers, and is {part!r}."
        expect(np.ndim(part) == 1, f"{where}: {sentence}{missing}")
    together = [int(one) for part in parts for one in part]
    twice = sorted({one for one in together if together.count(one) > 1})
    expect(not twice, f"{where}: sample(s) {twice} are computed by two ranks.")
    missing = [int(one) for one in step if one not in together]
    expect(not missing, f"{where}: sample(s) {missing} are in no rank's part.")
    other = [one for one in together if one not in step]
    expect(not other, f"{where}: sample(s) {other} do not belong to this step.")
    lengths = [len(part) for part in parts]
    expect(max(lengths) - min(lengths) <= 1, f"{where}: the parts have {lengths} samples.")


# -- the training, and its checkpoints

RATE = 0.003  # Adam's first learning rate
DROPPED = 0.2  # the share of hidden units that dropout sets to zero
NOISE = 0.1  # standard deviation of what is added to each pixel


class Training:
    """Data-parallel training of the digits' net on the ranks of `comm`, the same with every number
    of them.

    net, optimizer (Adam), schedule (a cosine that falls over `horizon` steps): PyTorch's own.
    epoch, step: the next batch is number `step` of epoch `epoch`. noise: this rank's NumPy
    generator, for the pixels' noise. Dropout draws from PyTorch's global generator, which this
    seeds. done: steps done since the start.

    One thread a rank, and on CPUs: sums are then always taken in the same order.
    """

    def __init__(self, comm, seed: int = 0, batch: int = 64, horizon: int = 60):
        import torch

        torch.set_num_threads(1)
        self.comm = comm
        self.data = _digits()
        self.batch = batch
        self.net = build(seed)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=horizon)
        self.noise = np.random.default_rng((seed, comm.rank))
        torch.manual_seed(1000 * seed + comm.rank)
        self.epoch = 0
        self.step = 0

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch."""
        return data.TRAIN_IMAGES // self.batch

    @property
    def done(self) -> int:
        """Steps done since the start."""
        return self.epoch * self.steps_per_epoch + self.step

    def advance(self) -> float:
        """One step on all ranks. Returns the mean loss of the whole batch."""
        import torch

        indices = data.batches(data.TRAIN_IMAGES, self.batch, self.epoch)[self.step]
        own = data.shard(indices, self.comm.rank, self.comm.size)
        pictures = self.data.train_x[own]
        pictures = pictures + self.noise.normal(0, NOISE, pictures.shape).astype(np.float32)
        labels = torch.from_numpy(self.data.train_y[own])
        loss = torch.nn.functional.cross_entropy(self.net(torch.from_numpy(pictures)), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self._average()
        self.optimizer.step()
        self.schedule.step()
        self.epoch, self.step = divmod(self.done + 1, self.steps_per_epoch)
        return self.comm.allreduce(loss.item()) / self.comm.size

    def _average(self) -> None:
        """The mean over the ranks in each gradient, by one allreduce."""
        import torch

        gradients = [weights.grad for weights in self.net.parameters()]
        flat = torch.cat([gradient.flatten() for gradient in gradients]).numpy()
        total = np.empty_like(flat)
        self.comm.Allreduce(flat, total)
        torch.nn.utils.vector_to_parameters(torch.from_numpy(total / self.comm.size), gradients)


@cache
def _digits() -> data.Dataset:
    """Read once in a process: that takes longer than many steps."""
    return data.digits()


def build(seed: int = 0):
    """The digits' net with dropout behind each hidden layer."""
    import torch

    layers = []
    for layer in nets.torch_digits(nets.start_weights(seed)):
        layers.append(layer)
        if isinstance(layer, torch.nn.ReLU):
            layers.append(torch.nn.Dropout(DROPPED))
    return torch.nn.Sequential(*layers)


_ENDING = ".checkpoint"


def to_bytes(state: dict) -> bytes:
    """A state as torch.save writes it."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def from_bytes(payload: bytes) -> dict:
    """The state in these bytes. Nothing but tensors, numbers, texts, lists and dicts: no code is
    run."""
    import torch

    return torch.load(io.BytesIO(payload), weights_only=True)


def model_of(net) -> str:
    """A short text that is the same for two nets whose tensors have the same names and shapes."""
    shapes = [(name, list(tensor.shape)) for name, tensor in net.state_dict().items()]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:12]


def pack(payload: bytes, model: str) -> bytes:
    """The content of a file: a line of JSON, the label, and then the payload."""
    label = {"model": model, "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
    return json.dumps(label).encode() + b"\n" + payload


def split(content: bytes) -> tuple[dict | None, bytes]:
    """(label, payload) of a file's content; the label is None where its line is not whole."""
    line, newline, payload = content.partition(b"\n")
    try:
        label = json.loads(line)
    except ValueError:
        label = None
    fields = label.keys() if isinstance(label, dict) else set()
    return (label if newline and fields >= {"model", "bytes", "sha256"} else None), payload


def path_of(folder: Path, done: int) -> Path:
    """The file for the state after `done` steps. Names sort as numbers do."""
    return Path(folder) / f"step_{done:06}{_ENDING}"


def newest(folder: Path, model: str, judge: Callable[[bytes, str], str]) -> bytes | None:
    """The payload of the newest file that judge(content, model) calls "good"; None if there is
    none.

    Says of each file that it passes over what is wrong with it.
    """
    for path in sorted(Path(folder).glob(f"*{_ENDING}"), reverse=True):
        content = path.read_bytes()
        verdict = judge(content, model)
        if verdict == "good":
            return split(content)[1]
        print(f"{path.name} is not taken: {verdict}")
    return None


def forget_older(folder: Path, keep: int = 2) -> None:
    """Remove all checkpoints but the newest `keep`. Called once a new one is whole."""
    for path in sorted(Path(folder).glob(f"*{_ENDING}"))[:-keep]:
        path.unlink()


def damaged(content: bytes, zeros: bool = False) -> bytes:
    """The same content with one bit of its payload turned over, or with its last half zero."""
    half = len(content) // 2
    if zeros:
        return content[:half] + bytes(len(content) - half)
    return content[:-7] + bytes([content[-7] ^ 1]) + content[-6:]


# -- on ranks: is a resume exact, and when does a loop save and stop?

LAST = 6  # steps of each training that is tried
BATCH = 512  # so an epoch has three steps
STOPS = {5: "in the middle of an epoch", 3: "at the end of an epoch"}  # epoch, step: 1, 2; 1, 0
PARTS = {
    "net": "the network's parameters are",
    "optimizer": "the optimizer's averages are",
    "schedule": "the learning rate's schedule is",
    "position": "the position in the data is",
    "dropout": "PyTorch's random state (each rank has its own) is",
    "noise": "NumPy's random state (each rank has its own) is",
}


def try_resume(comm, capture: Callable, restore: Callable) -> dict[int, dict]:
    """A training that is captured after each of STOPS steps, and resumed by a fresh one. By the
    stop:

    "holders": ranks on which capture returned something. "stored": "" or why the state cannot be
    stored. "parts": {part: is it as it was?}, of PARTS. Losses of the steps that follow: "losses",
    of the resumed training; "after", of the one that was captured; "whole", of one without a break.
    """
    whole = Training(comm, batch=BATCH)
    losses = [whole.advance() for _ in range(LAST)]
    results = {}
    for stop in STOPS:
        with launch.case(f"captured after step {stop}"):
            results[stop] = _try_at(comm, capture, restore, stop) | {"whole": losses[stop:]}
    return results


def _try_at(comm, capture: Callable, restore: Callable, stop: int) -> dict:
    training = Training(comm, batch=BATCH)
    for _ in range(stop):
        training.advance()
    before = _parts(training)
    state = capture(training, comm)
    result: dict[str, object] = {}
    holders = comm.allgather(state is not None)
    result["holders"] = [rank for rank, holds in enumerate(holders) if holds]
    # Before the next step changes the same tensors.
    result["stored"], state = _through_a_file(comm, state)
    result["after"] = [training.advance() for _ in range(LAST - stop)]
    if result["stored"] or result["holders"] != [0]:
        return result
    if "random" not in state:
        raise LabError('The dict that `capture` returns has no key "random".')
    fresh = Training(comm, seed=7, batch=BATCH)
    fresh.advance()
    keys = set(state)
    restore(fresh, state, comm)
    if set(state) != keys:
        raise LabError("`restore` has changed the keys of the dict; it belongs to the caller.")
    if not isinstance(fresh.noise, np.random.Generator):
        raise LabError(
            "training.noise is no generator any more: assign training.noise.bit_generator.state."
        )
    now = _parts(fresh)
    result["parts"] = {part: now[part] == before[part] for part in PARTS}
    result["losses"] = [fresh.advance() for _ in range(LAST - stop)] if fresh.done == stop else []
    return result


def _through_a_file(comm, state) -> tuple[str, dict | None]:
    """("", the state as every rank reads it), or (why it cannot be stored, None)."""
    content = None
    trouble = ""
    if comm.rank == 0:
        try:
            content = to_bytes(state)
            from_bytes(content)
        except Exception as error:
            trouble = str(error).strip().splitlines()[0]
    trouble = comm.bcast(trouble)
    content = comm.bcast(content)
    return trouble, None if trouble else from_bytes(content)


def _parts(training: Training) -> dict[str, object]:
    """What decides how it goes on, by part, as bytes, texts and numbers that compare."""
    import torch

    adam = training.optimizer.state_dict()
    averages = [value for entry in adam["state"].values() for value in entry.values()]
    rates = [group["lr"] for group in adam["param_groups"]]
    return {
        "net": [weights.detach().numpy().tobytes() for weights in training.net.parameters()],
        "optimizer": [average.numpy().tobytes() for average in averages],
        "schedule": [training.schedule.last_epoch, *rates],
        "position": (training.epoch, training.step),
        "dropout": torch.get_rng_state().numpy().tobytes(),
        "noise": str(training.noise.bit_generator.state),
    }


class LoopCase(NamedTuple):
    """A training that has done `done` steps; the ranks `asked` are asked to stop during `step`.

    saves: after which steps it has to save; the last of them is its end.
    """

    done: int
    last: int
    every: int
    asked: Sequence[int]
    step: int
    saves: list[int]

    def __str__(self) -> str:
        start = f"from step {self.done} " if self.done else ""
        asked = " and ".join(f"rank {rank}" for rank in self.asked)
        asked = f"{asked} asked to stop during step {self.step}" if asked else "no rank is asked"
        return f"{start}to step {self.last}, a save every {self.every}, {asked}"


def loop_cases(ranks: int) -> list[LoopCase]:
    """Cases for a loop on so many ranks."""
    return [
        LoopCase(0, 7, 3, [], 0, [3, 6, 7]),
        LoopCase(4, 8, 4, [], 0, [8]),
        LoopCase(0, 7, 3, [ranks - 1], 4, [3, 4]),
        LoopCase(0, 9, 3, [0], 6, [3, 6]),
        LoopCase(0, 8, 3, range(ranks), 5, [3, 5]),
    ]


def try_loop(comm, train: Callable, cases: list[LoopCase]) -> list[dict]:
    """Runs train(walk, last, every, stopped, save) for each case; only the steps of the walk count.

    Returns for each case what this rank did: "done", its steps, "saves", after which of them it
    saved, and "asked", the number of steps in which it called stopped() more than once.
    """
    results = []
    for case in cases:
        with launch.case(str(case)):
            results.append(_walk(comm, train, case))
        comm.Barrier()  # no message of this case is taken for one of the next
    return results


def _walk(comm, train: Callable, case: LoopCase) -> dict:
    saves: list[int] = []
    asked: list[int] = []  # the steps done so far, at each question
    walk = SimpleNamespace(comm=comm, done=case.done)

    def advance() -> float:
        walk.done += 1
        return 0.0

    def stopped() -> bool:
        asked.append(walk.done)
        return comm.rank in case.asked and walk.done >= case.step

    walk.advance = advance
    train(walk, case.last, case.every, stopped, lambda walk: saves.append(walk.done))
    return {"done": walk.done, "saves": saves, "asked": len(asked) - len(set(asked))}


def _captured(training: Training, capture: Callable) -> bytes:
    """What capture returns on rank 0, as bytes, on all ranks."""
    state = capture(training, training.comm)
    return training.comm.bcast(to_bytes(state) if training.comm.rank == 0 else None)


def forget(
    comm, capture: Callable, restore: Callable, stop: int, last: int
) -> dict[str, list[float]]:
    """Losses of steps stop + 1 to last: without a break, and resumed with one part of the state
    forgotten.

    A forgotten part is as a fresh training has it. Keys: "without a break", "nothing", each part,
    and "rank 0's random states for all".
    """
    whole = Training(comm, horizon=last)
    losses = []
    state = b""
    for _ in range(last):
        if whole.done == stop:
            state = _captured(whole, capture)
        losses.append(whole.advance())
    blank = _captured(Training(comm, seed=7, horizon=last), capture)
    results = {"without a break": losses[stop:]}
    mixtures = {"nothing": from_bytes(state)}
    for name, key in (
        ("random states", "random"),
        ("schedule", "schedule"),
        ("position in the epoch", "step"),
        ("optimizer", "optimizer"),
    ):
        mixtures[name] = from_bytes(state) | {key: from_bytes(blank)[key]}
    of_all = from_bytes(state)
    of_all["random"] = [of_all["random"][0]] * comm.size
    mixtures["rank 0's random states for all"] = of_all
    for name, mixed in mixtures.items():
        fresh = Training(comm, seed=7, horizon=last)
        restore(fresh, mixed, comm)
        results[name] = [fresh.advance() for _ in range(last - stop)]
    return results


# -- kills at random moments


def kill_at_random(write: Callable, kills: int, size: int) -> dict[str, int]:
    """Kill a process that saves one version after the other, `kills` times, each at a random
    moment.

    Returns counts: "kills"; what the file held afterwards: "newest" (the version last finished, or
    the one that was being saved), "lost" (an older one) and "torn" (no whole one).
    """
    dice = random.Random(0)
    counts = dict.fromkeys(("kills", "newest", "lost", "torn"), 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        begin = time.perf_counter()
        write(path, version(0, size))
        longest = 3 * min(time.perf_counter() - begin, 0.1)
        done = 0
        for _ in range(kills):
            call = (_save_on, write, path, done + 1, size)
            with launch.processes([call], here_alone(), preload=["support.lab70"]) as (saver,):
                saver.pipe.recv()
                time.sleep(dice.uniform(0, longest))
                saver.process.kill()
                saver.process.join()
                with suppress(EOFError):
                    while saver.pipe.poll():
                        done = saver.pipe.recv()
            content = path.read_bytes()
            number = int(content[:DIGITS] or b"0")
            whole = content == version(number, size)
            counts["kills"] += 1
            counts["newest" if whole and number >= done else "lost" if whole else "torn"] += 1
            done = max(number, done)
    return counts


def here_alone() -> dict[str, str]:
    """The environment of processes that none but this machine can reach.

    Whoever reaches torchrun's rendezvous is in the job, as it knows no secret.
    """
    env = {**world.clean_env(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return env | launch.loopback_variables(env)


DIGITS = 8


def version(number: int, size: int) -> bytes:
    """The content number `number`."""
    return f"{number:0{DIGITS}}".encode() * (size // DIGITS)


def _save_on(pipe, write: Callable, path: Path, first: int, size: int) -> None:
    """In a process of its own: save version after version, and say after each that it is done."""
    pipe.send(first - 1)
    for number in itertools.count(first):
        write(path, version(number, size))
        pipe.send(number)


# -- lives of a training


@contextmanager
def listening(number: int = signal.SIGUSR1) -> Iterator[Callable[[], bool]]:
    """While the block runs, yields a function that says whether signal `number` has come since."""
    heard: list[int] = []
    before = signal.signal(number, lambda which, frame: heard.append(which))
    try:
        yield lambda: bool(heard)
    finally:
        signal.signal(number, before)


LOSSES = "losses.jsonl"


class Answers(NamedTuple):
    """The learner's functions."""

    capture: Callable
    restore: Callable
    write: Callable
    judge: Callable
    train: Callable


class Loss(NamedTuple):
    """The mean loss of a step, in which life of the training. As text that holds every bit."""

    life: int
    step: int
    loss: str


def live(
    comm, answers: Answers, folder: Path, last: int, every: int, life: int = 0,
    stopped: Callable[[], bool] = bool, die_after: int | None = None, pause: float = 0.0,
) -> int:  # fmt: skip
    """One life of a training: from the newest good checkpoint in `folder`, or from the start, to
    the end.

    Losses go to `folder`/LOSSES. die_after: the last rank kills itself with kill -9 after this
    step. pause: seconds that each step takes longer, as if the net were larger. Returns the steps
    done.
    """
    training = Training(comm, horizon=last)
    model = model_of(training.net)
    payload = comm.bcast(newest(folder, model, answers.judge) if comm.rank == 0 else None)
    if payload is not None:
        answers.restore(training, from_bytes(payload), comm)

    step = training.advance

    def advance() -> float:
        loss = step()
        time.sleep(pause)
        if comm.rank == 0:
            line = Loss(life, training.done, loss.hex())
            jsonl.append(folder / LOSSES, line._asdict())
        if training.done == die_after:
            comm.Barrier()  # the line is written before the end comes
            if comm.rank == comm.size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return loss

    def save(training: Training) -> None:
        """All ranks call this."""
        state = answers.capture(training, comm)
        if comm.rank == 0:
            content = pack(to_bytes(state), model)
            answers.write(path_of(folder, training.done), content)
            forget_older(folder)

    training.advance = advance
    answers.train(training, last, every, stopped, save)
    return training.done


def without_a_break(comm, last: int) -> list[str]:
    """The losses of a training that nobody interrupts and nothing saves, as text."""
    training = Training(comm, horizon=last)
    return [training.advance().hex() for _ in range(last)]


def killed_and_resumed(
    answers: Answers, folder: Path, last: int, every: int, die_after: int, ranks: int
) -> tuple[list[Loss], list[str]]:
    """On ranks of this machine: a life that ends by kill -9 of a rank, and one that resumes it.

    Returns the losses of both lives, and those of a training without a break. Inside of a job
    nobody is killed, as that would end the job: there is one life only. What was in `folder` is
    removed.
    """
    if world.is_root():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    if world.launcher() is None:
        try:
            launch.run(
                live, answers, folder, last, every, die_after=die_after, ranks=ranks, threads=1
            )
        except LabError as error:
            print(str(error).splitlines()[0])
    whole = launch.run(_second_life, answers, folder, last, every, ranks=ranks, threads=1)[0]
    return read(folder), whole


def _second_life(comm, answers: Answers, folder: Path, last: int, every: int) -> list[str]:
    live(comm, answers, folder, last, every, life=1)
    return without_a_break(comm, last)


def read(folder: Path) -> list[Loss]:
    """The losses written so far."""
    return [Loss(**entry) for entry in jsonl.read(folder / LOSSES, lambda entry: "loss" in entry)]


def table(losses: Sequence[Loss], whole: Sequence[str]):
    """A DataFrame with a row for each life, from 1: its steps, those done again, and losses that
    differ."""
    import pandas

    frame = pandas.DataFrame(losses)
    frame["again"] = frame["step"].duplicated()
    frame["differs"] = [loss.loss != whole[loss.step - 1] for loss in losses]
    columns = {
        "first step": ("step", "first"),
        "last step": ("step", "last"),
        "done again": ("again", "sum"),
        "losses that differ": ("differs", "sum"),
    }
    return frame.groupby(frame["life"] + 1).agg(**columns)


# -- a job of the tabletop cluster

PAUSE = 0.5  # seconds that a step takes longer, in lives that will be interrupted
# Not at once: a job's credential counts whole seconds. In the second in which the job was ended
# slurmd takes it for the old one ("already killed, do not launch batch job"), and the job fails.
SOON = "StartTime=now+2"
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
ORDER = "order"
WHOLE = "without_a_break.json"
SCRIPT = """\
#!/usr/bin/env bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=00:10:00
# USR1 60 to 120 s before the end, or at preemption. A step and a save must fit into what is left.
#SBATCH --signal=B:USR1@60  # B: to this shell alone, so the trap below passes it on
#SBATCH --requeue           # Slurm may put this job back into the queue, and start it again
#SBATCH --open-mode=append  # each start writes on in the same output file
trap 'asked=1; kill -USR1 $ranks' USR1  # to srun, which passes it on to all ranks
# srun in the background (&): a shell acts on a signal only when no command runs in the foreground
{launcher} {python} -m support.lab70 {folder} &
ranks=$!
wait $ranks   # until the ranks end, or USR1 comes: it ends this wait
if [[ ${{asked:-}} ]]; then
    wait $ranks                      # so wait again, until they have saved and ended
    scontrol requeue $SLURM_JOB_ID   # this job, from the beginning of this script
fi
"""


def script(folder: Path | str = "FOLDER") -> str:
    """The batch script."""
    python = shlex.quote(paths.shown(sys.executable))
    return SCRIPT.format(launcher="srun --mpi=pmi2", python=python, folder=folder)


def sourcing(text: str) -> str:
    """The script with what a job of this kit needs before it starts ranks: the site's settings."""
    root = shlex.quote(str(paths.root()))
    lines = f"cd {root}\nsource slurm/sites/tabletop.sh\nexport PYTHONPATH=labs OMP_NUM_THREADS=1\n"
    return text.replace("\ntrap ", f"\n{lines}trap ", 1)


def three_lives(
    answers: Answers, last: int, every: int, moments: tuple[int, int], limit: float = 300
) -> tuple[list[Loss], list[str]] | None:
    """Submit the training and interrupt it twice: by USR1 first, later by a requeue without USR1.

    moments: after how many steps. limit: seconds for each thing that is waited for. Prints what
    happens. Returns the losses of all lives, and those without a break from the same nodes. None
    inside of a job, and where there is no tabletop: no other cluster's jobs are disturbed. LabError
    when the job fails.
    """
    if world.launcher() is not None:
        return None
    if slurm.tabletop() is None:
        print(
            "No tabletop cluster runs here: `make tabletop` starts one. Then run this cell again."
        )
        return None
    folder = slurm.learners_home() / "70_job"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    leave_order(folder, live_in_job, answers, last, every, len(moments))
    (folder / "job.sh").write_text(sourcing(script(shlex.quote(str(folder)))), encoding="utf-8")
    # sbatch takes this process's environment along: not what a launcher or a notebook's kernel has
    # left.
    env = world.clean(os.environ)
    kept = {name: value for name, value in env.items() if name not in ("MPLBACKEND", "PYTHONPATH")}
    client = slurm.at("tabletop", kept)
    number = client.submit(
        "--job-name=70_resume", f"--output={folder}/job.out", str(folder / "job.sh")
    )

    def done(life: int | None = None) -> int:
        return max((loss.step for loss in read(folder) if life in (None, loss.life)), default=0)

    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')}  {done()} steps are done: {text}", flush=True)

    def wait_for(state: str, life: int, step: int) -> None:
        """Until the job is in this state, in this life, which has done that step."""
        deadline = time.monotonic() + limit
        while True:
            facts = client.job(number)
            now = facts["JobState"]
            if now == state and int(facts["Restarts"]) >= life and done(life) >= step:
                return
            if now in OVER or time.monotonic() > deadline:
                path = folder / "job.out"
                said = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
                raise LabError(
                    f"Job {number} is {now}, and was to be {state} with {step} steps of life {life}"
                    f" done. Its last lines:\n{said[-1000:]}"
                )
            time.sleep(0.1)

    try:
        say(f"job {number} is submitted")
        for life, command in enumerate(
            (["scancel", "--batch", "--signal=USR1", number], ["scontrol", "requeue", number])
        ):
            wait_for("RUNNING", life, moments[life])
            say(f"`{' '.join(command)}`")
            client.call(*command)
            wait_for("PENDING", life + 1, 0)
            say(f"back in the queue. Slurm would wait two minutes; we say {SOON}")
            client.call("scontrol", "update", f"JobId={number}", SOON)
        wait_for("COMPLETED", 2, last)
        say("the job has completed")
    finally:
        client.ask("scancel", number)
    return read(folder), json.loads((folder / WHOLE).read_text(encoding="utf-8"))


def live_in_job(folder: Path, answers: Answers, last: int, every: int, interruptions: int) -> None:
    """On a rank of the job: live until the training is done or somebody asks for a stop.

    The last life trains once more, without a break.
    """
    with listening() as stopped:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        life = int(os.environ.get("SLURM_RESTART_COUNT", 0))
        pause = PAUSE if life < interruptions else 0.0
        done = live(comm, answers, folder, last, every, life, stopped=stopped, pause=pause)
        if comm.rank == 0:
            print(f"Life {life} ends; {done} of {last} steps are done.", flush=True)
        if done == last:
            whole = without_a_break(comm, last)
            if comm.rank == 0:
                (folder / WHOLE).write_text(json.dumps(whole), encoding="utf-8")


def leave_order(folder: Path, function: Callable, *arguments: object) -> None:
    """What `python -m support.lab70 FOLDER` is to do."""
    (folder / ORDER).write_bytes(cloudpickle.dumps((function, arguments)))


# -- a job of torchrun's that loses a node

SAMPLES = 1000  # of its epoch
# A meeting that has enough nodes waits for more of them; an agent that is silent for 5 s is dead.
TIMES = "last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=5"


def with_fewer_ranks(
    own_part: Callable,
    after_resize: Callable,
    batch: int,
    rate: float,
    every: int,
    dies: int,
    limit: float,
) -> tuple[list[dict], list[float]] | None:
    """Train an epoch by two torchruns, a rank each, of which the second dies with its rank in step
    `dies`.

    Returns (steps, losses): a dict for each step of each rank, "step", "rank", "ranks", "used"
    (samples), "loss" and "process", in order; and the losses of one process that nothing happens
    to. None inside of a job.
    """
    if world.launcher() is not None:
        return None
    env = here_alone() | {"GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        leave_order(folder, train_elastically, own_part, after_resize, batch, rate, every, dies)
        with launch.reserve_port() as free:
            port = free.getsockname()[1]
        # The node that dies is not to host the meeting point: with it, all would end.
        calls = [(_torchrun, port, hosts, folder) for hosts in (1, 0)]
        with launch.processes(calls, env, preload=["torch.distributed.run"]) as (first, _):
            first.process.join(limit)
            if first.process.exitcode != 0:
                words = " ".join(first.log.read_text(errors="replace").splitlines()[-3:])
                state = "has not ended" if first.process.exitcode is None else "failed"
                raise LabError(
                    f"The job {state} after {limit:.0f} s at most. Its last lines: {words}"
                )
        steps = jsonl.read(folder / "steps.jsonl", lambda entry: "loss" in entry)

    def whole_step(order, done, batch, rank, ranks):
        return order[done : done + batch]

    control = epoch(whole_step, batch, rate, 0, 1, add=lambda tensor, step: None)
    return steps, [line["loss"] for line, _ in control]


def _torchrun(pipe, port: int, hosts: int, folder: Path) -> None:
    """What the command torchrun does, for a node of one rank."""
    from torch.distributed import run

    options = (
        "--nnodes=1:2 --nproc-per-node=1 --max-restarts=3 --monitor-interval=0.1"
        f" --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-id=lab70"
        f" --rdzv-conf=is_host={hosts},{TIMES} --local-addr=127.0.0.1"
    )
    run.main([*options.split(), f"--log-dir={folder}", "-m", "support.lab70", str(folder)])


def train_elastically(
    folder: Path,
    own_part: Callable,
    after_resize: Callable,
    batch: int,
    rate: float,
    every: int,
    dies: int,
) -> None:
    """On a rank of torchrun: from the last checkpoint, or the start, to the end of the epoch."""
    import torch
    import torch.distributed as dist

    launch.die_with_parent(os.getppid())
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    ranks = dist.get_world_size()
    last = folder / "last.pt"

    def add(tensor, step: int) -> None:
        if ranks == 2 and rank == 1 and step == dies:
            os.kill(os.getppid(), signal.SIGKILL)  # the node: its torchrun, and this rank with it
            time.sleep(1000)
        dist.all_reduce(tensor)

    start = torch.load(last, weights_only=True) if last.exists() else None
    sizes = after_resize(batch, rate, 2, ranks, True)
    for line, state in epoch(own_part, *sizes, rank, ranks, add, start):
        line |= {"rank": rank, "ranks": ranks, "process": os.getpid()}
        jsonl.append(folder / "steps.jsonl", line)
        if rank == 0 and line["step"] % every == 0:
            torch.save(state, folder / "next.pt")
            os.replace(folder / "next.pt", last)
    dist.destroy_process_group()


def epoch(
    own_part: Callable, batch: int, rate: float, rank: int, ranks: int, add: Callable, start=None
) -> Iterator[tuple[dict, tuple]]:
    """Train for the rest of an epoch, from a state on; yields (its record, the state) after each
    step.

    add(tensor, step): sum it over all ranks, in place. The numbers have 64 bits, so that sums in
    another order show nothing.
    """
    import torch

    digits = _digits()
    order = np.random.default_rng(71).permutation(SAMPLES)
    pictures = torch.tensor(digits.train_x[:SAMPLES], dtype=torch.float64)
    labels = torch.tensor(digits.train_y[:SAMPLES])
    torch.manual_seed(71)
    net = torch.nn.Linear(64, 10, dtype=torch.float64)
    step, done, saved = start or (0, 0, net.state_dict())
    net.load_state_dict(saved)
    while done < SAMPLES:
        step += 1
        whole = min(batch, SAMPLES - done)
        own = np.asarray(own_part(order, done, batch, rank, ranks), dtype=np.int64)
        logits = net(pictures[own])
        loss = torch.nn.functional.cross_entropy(logits, labels[own], reduction="sum") / whole
        loss.backward()
        loss = loss.detach()
        add(loss, step)
        for weights in net.parameters():
            add(weights.grad, step)
            weights.data -= rate * weights.grad
            weights.grad = None
        done += whole
        line = {"step": step, "used": own.tolist(), "loss": loss.item()}
        yield line, (step, done, net.state_dict())


if __name__ == "__main__":  # a rank of the job, or of torchrun
    where = Path(sys.argv[1])
    function, arguments = cloudpickle.loads((where / ORDER).read_bytes())
    function(where, *arguments)
