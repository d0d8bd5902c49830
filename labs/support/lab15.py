"""Lab 15: its checks, the images on disk, storage of a chosen speed, and a small training."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import io
import itertools
import os
import queue
import shutil
import struct
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from labkit import check, data, expect, launch, paths, timing, world
from labkit.errors import CheckFailed, LabError

SHORTEST = 1e-3  # seconds: shorter sleeps are put together, the system would oversleep most of them
WARM_UP = 3  # steps that are not counted
PATIENCE = 5  # seconds for what threads do in milliseconds


@check.exercise("15.1")
def samples_dealt_to_ranks(my_samples):
    """Every rank reads n // ranks samples, none is read twice, and each epoch has another order and
    other parts."""
    for n, ranks, workers in itertools.product((96, 100, 7, 3), (1, 2, 3, 4, 8), (1, 2, 3)):
        with check.case(f"{n} samples, ranks: {ranks}, workers of each: {workers}"):
            _each_sample_at_most_once(my_samples, n, ranks, workers)

    def deal(epoch):
        return [list(map(int, my_samples(103, epoch, rank, 4))) for rank in range(4)]

    epochs = [deal(epoch) for epoch in range(6)]
    expect(
        deal(0) == epochs[0],
        "Asked twice, a rank gets another order. Only seed and epoch may matter.",
    )
    for first, second in itertools.combinations(range(6), 2):
        expect(epochs[first] != epochs[second], f"Epochs {first} and {second} have the same order.")
    order = list(map(int, my_samples(103, 0, 0, 4, seed=1)))
    for epoch in range(2000):
        again = order == list(map(int, my_samples(103, epoch, 0, 4)))
        sentence = f"Seed 1 in epoch 0 has the order of seed 0 in epoch {epoch}"
        expect(not again, f"{sentence}: use the tuple (seed, epoch), no sum of the two.")
    expect(
        epochs[0][0] != sorted(epochs[0][0]),
        "Rank 0 reads its samples in the stored order: shuffle.",
    )
    follow = [set(itertools.pairwise(my_samples(103, epoch, 0, 1))) for epoch in (0, 1)]
    expect(
        len(follow[0] & follow[1]) < 25,
        "Epoch 1 has the order of epoch 0, moved on: who follows whom stays. Shuffle anew each"
        " epoch.",
    )
    together = max(len({*own} & {*other}) for own, other in itertools.product(*epochs[:2]))
    expect(
        together < 20,  # 6 by chance
        f"{together} of 25 samples that one rank read in epoch 0 stay together on one rank in"
        " epoch 1. Shuffle all of the samples anew, then deal them out.",
    )
    read = {number for epoch in range(30) for own in deal(epoch) for number in own}
    lost = sorted(set(range(103)) - read)
    expect(
        not lost,
        f"103 samples, 4 ranks: in 30 epochs nobody reads samples {lost}. Shuffle first, then"
        " drop.",
    )


def _each_sample_at_most_once(my_samples, n, ranks, workers):
    by_rank = []
    for rank in range(ranks):
        own = [
            np.asarray(my_samples(n, 2, rank, ranks, worker, workers, seed=3))
            for worker in range(workers)
        ]
        for part in own:
            expect(
                part.ndim == 1, f"give the numbers of the samples, an array; this is {part!r:.60}."
            )
            whole = part.dtype.kind in "iu" or not part.size
            expect(whole, f"numbers of samples are whole numbers; these are {part.dtype}.")
        sizes = [part.size for part in own]
        expect(
            max(sizes) - min(sizes) <= 1,
            f"the workers of rank {rank} read {sizes} samples. They may differ by one at most.",
        )
        by_rank.append([int(number) for part in own for number in part])
    times = Counter(itertools.chain(*by_rank))
    twice = [number for number in times if times[number] > 1]
    again = f"samples {twice[:3]} are read more than once in an epoch"
    expect(not twice, f"{again}. (The same order on all ranks? Each worker a part of its rank's?)")
    counts = [len(own) for own in by_rank]
    expect(len(set(counts)) == 1, f"the ranks read {counts} samples; all need as many.")
    expect.equal(counts[0], n // ranks, "samples of a rank (drop what does not divide)")
    strange = sorted(times.keys() - set(range(n)))
    expect(not strange, f"there are no samples {strange[:3]}.")


@check.exercise("15.2")
def samples_of_a_shard(read_shard):
    """40 samples: label first, other files between, image or label missing; the first one comes at
    once."""
    for name, kinds in (
        ("with a .json between", ("cls", "json", "jpg")),
        ("with a .small.jpg between", ("jpg", "small.jpg", "cls")),
        ("with a .json behind", ("jpg", "cls", "json")),
        ("every third without its image", ("jpg", "cls")),
        ("every third without its label", ("cls", "jpg")),
    ):
        # They lack the first of their files.
        lacking = set(range(0, 40, 3) if "every third" in name else ())
        rng = np.random.default_rng(0)
        samples = [(rng.bytes(3000 + 700 * number), (number * 37) % 1000) for number in range(40)]
        wanted = [sample for number, sample in enumerate(samples) if number not in lacking]
        stream = _Stream(_tar(samples, kinds, lacking))
        with check.case(name):
            got = _samples(read_shard, stream)
            first = list(itertools.islice(got, 1))
            none = f"no sample came out of a shard of {len(wanted)}. (Kinds come in any order"
            expect(first, f"{none}; a name has any length, and ends at its first dot.)")
            late = (
                f"the first sample came after {stream.taken:,} bytes, the whole shard. Yield each"
                " at once."
            )
            expect(stream.taken < len(stream.getvalue()) / 2, late)
            got = first + list(got)
            for number, pair in enumerate(got):
                expect(
                    len(pair) == 2, f"sample {number} has {len(pair)} parts: give (image, label)."
                )
                own = not lacking or dict(samples).get(pair[0], pair[1]) == pair[1]
                neighbors = (
                    "an image came with its neighbor's label. The files of a sample have one name"
                )
                expect(own, f"{neighbors} and stand side by side.")
            _are_these(got, wanted)


def _are_these(got, wanted):
    images = {image for image, _ in got if isinstance(image, bytes)}
    lost = [number for number, (jpeg, _) in enumerate(wanted) if jpeg not in images]
    again = "A sample's files stand side by side; the same name further on is another sample's"
    if lost and len(got) < len(wanted):
        again = f"Sample {lost[0]} of them is missing (counted from 0)"
    twice = {"every sample came twice. Yield it only when its second part comes": 2 * len(wanted)}
    expect.equal(
        len(got), len(wanted), f"samples of a shard of {len(wanted)}", slips=twice, because=again
    )
    for number, ((image, label), (jpeg, right)) in enumerate(zip(got, wanted, strict=True)):
        expect.equal(label, right, f"sample {number}: label, a whole number")
        whole = hasattr(label, "__index__")
        expect(whole, f"sample {number}: label {label!r:.30} is no whole number. int()?")
        expect(
            isinstance(image, bytes),
            f"sample {number}: the image is {type(image).__name__}, not bytes.",
        )
        sizes = f"({len(image)}, it has {len(jpeg)})"
        expect(image == jpeg, f"sample {number}: not the image's bytes {sizes}.")


def _samples(read_shard, stream) -> Iterator:
    """read_shard(stream); what streams and members in any order bring about becomes a sentence."""
    samples = read_shard(stream)
    expect(
        hasattr(samples, "__iter__"), f"read_shard returns {samples!r:.60}. `yield` each sample."
    )
    try:
        yield from samples
    except tarfile.StreamError as error:
        cure = (
            "a member passes by once. Take them in a `for`, and read each before the next one"
            " comes."
        )
        raise CheckFailed(cure) from error
    except OSError as error:
        if type(error).__name__ != "UnidentifiedImageError":
            raise
        raise CheckFailed(
            "Give the JPEG's bytes as they are. Decoding comes later, elsewhere."
        ) from error
    except ValueError as error:
        if "invalid literal for int" not in str(error):
            raise
        raise CheckFailed(
            "int() got what is no label. A member's name says what it is: see behind the first dot."
        ) from error


class _Stream(io.BytesIO):
    """A tar that only goes forward."""

    @property
    def taken(self) -> int:
        """Bytes read so far."""
        return super().tell()

    def seek(self, *_):
        raise LabError(
            'The shard came over a network and only goes forward, but was asked to seek. "r|"?'
        )

    tell = seek


def _tar(samples: list[tuple[bytes, int]], kinds: tuple[str, ...], lacking: set[int]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for number, (jpeg, label) in enumerate(samples):
            content = {"jpg": jpeg, "cls": b"%d" % label, "json": b"{}", "small.jpg": jpeg[:9]}
            # Names of several lengths; each comes again 20 samples further on, and is another
            # sample then.
            name = f"{'sample' if number % 2 else ''}{(number % 20) ** 3}"
            for kind in kinds[1:] if number in lacking else kinds:
                _add_member(tar, f"{name}.{kind}", content[kind])
    return target.getvalue()


@check.exercise("15.3")
def two_ends_of_a_queue(work, take, prefetch):
    """Items, end, errors and a stop in the queue, one after the other; then a thread that reads
    ahead."""
    ready = _Patient()
    seen = []

    def watched(items):
        for item in items:
            seen.append(len(ready.queue))
            yield item

    work(watched([1, None, "end"]), ready, threading.Event())
    pairs = [("item", 1), ("item", None), ("item", "end"), ("end", None)]
    expect.equal(list(ready.queue), pairs, 'work on the items 1, None, "end": what is in the queue')
    expect.equal(seen, [0, 1, 2], "In the queue when each was read. Put each as soon as it is read")
    expect.equal(list(take(ready)), [1, None, "end"], "take of these pairs")
    odd = [None, 0, False, ..., (), "error", StopIteration]
    work(iter(odd), ready, threading.Event())
    expect.equal(list(take(ready)), odd, "items such as None or 'error', through work and take")
    for good in (0, 3):
        with check.case(f"the reader fails after {good} items"):
            _the_error_passes(work, take, good)
    for before in (0, 2):
        _nothing_behind_a_stop(work, before)
    _waits_for_minutes(work, take)
    _through_a_thread(prefetch)


class _NoImage(Exception):
    """An error that no answer knows by name."""


def _the_error_passes(work, take, good):
    trouble = _NoImage("this is no JPEG")

    def failing():
        yield from range(good)
        raise trouble

    ready = _Patient()
    try:
        work(failing(), ready, threading.Event())
    except _NoImage:
        raise CheckFailed(
            "the thread dies of the error, and the loop waits forever. Put any error, as Exception."
        ) from None
    pairs = [("item", number) for number in range(good)] + [("error", trouble)]
    because = 'The error is put instead of ("end", None)'
    expect.equal(list(ready.queue), pairs, "what is in the queue", because=because)
    outcome = "the items came without it"
    try:
        list(take(ready))
    except _NoImage:
        return
    except CheckFailed:
        raise
    except Exception as error:
        outcome = f"{type(error).__name__} came instead"
    raise CheckFailed(
        f"the reader's own error must come out of take, but {outcome}. Use `raise value`."
    )


def _nothing_behind_a_stop(work, before):
    ready, stop = _Patient(), threading.Event()

    def items():
        for number in range(10):
            if number == before:
                stop.set()
            yield number

    work(items(), ready, stop)
    what = f"stop is set before item {before}: what is in the queue"
    because = "Look at `stop` before each put"
    expect.equal(list(ready.queue), [("item", n) for n in range(before)], what, because=because)


class _Patient(queue.Queue):
    """A queue whose other end is slow: the first `late` ("put" or "get") that has a limit ends in
    vain.

    On a thread of its own nobody fills it, so a get from the empty queue is an error and not a
    wait.
    """

    def __init__(self, late: str = "", pairs: Iterable[tuple] = ()):
        super().__init__()
        self.late = late
        for pair in pairs:
            super().put(pair)

    def put(self, item, block=True, timeout=None):
        self._in_vain("put", queue.Full, block and timeout is None)
        super().put(item)

    def get(self, block=True, timeout=None):
        self._in_vain("get", queue.Empty, block and timeout is None)
        expect(
            self.queue, "take waits forever: it asks for more behind the end, or behind an error."
        )
        return super().get()

    def _in_vain(self, name, error, patient):
        if name == self.late and not patient:
            self.late = ""
            raise error


def _waits_for_minutes(work, take):
    because = "A step or a batch may take minutes: {} waits as long as that, without a timeout"
    pairs = [("item", 1), ("end", None)]
    ready = _Patient(late="put")
    with contextlib.suppress(queue.Full):
        work(iter([1]), ready, threading.Event())
    full = "where the queue stays full for long"
    expect.equal(list(ready.queue), pairs, full, because=because.format("put"))
    got = []
    with contextlib.suppress(queue.Empty):
        got = list(take(_Patient("get", pairs)))
    expect.equal(got, [1], "where the queue stays empty for long", because=because.format("get"))


def _through_a_thread(prefetch):
    """40 items in order, at most 2 in the queue and one in the hand; then a loop that ends
    early."""
    reads, got, ahead = [], [], []

    def items():
        for item in range(40):
            if item in (0, 20):
                time.sleep(0.05)  # the queue is empty meanwhile
            reads.append(item)
            yield item

    def read():
        for item in prefetch(items(), 2):
            got.append(item)
            time.sleep(0.002)
            ahead.append(len(reads) - len(got))
        with contextlib.closing(prefetch(itertools.count(), 2)) as early:
            got.append(next(early, None))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    expect(not thread.is_alive(), "it waits forever. Who empties the queue, and who fills it?")
    what = "items 0 to 39 through prefetch, then item 0 of a loop that ends early"
    because = (
        "An empty queue is not the end: the thread is still reading. get waits for the next pair"
    )
    expect.equal(got, [*range(40), 0], what, because=because)
    expect.between(max(ahead), 1, 3, "prefetch with depth 2: items that were read ahead")


@check.exercise("15.4")
def input_on_paper(exposed, shard_seconds):
    """Input shorter and longer than compute; one rank and many, by their own and by a shared
    bandwidth."""
    for read, compute in ((1, 3), (2, 2), (3, 2), (5, 0.125)):
        with check.case(f"input {read} s, compute {compute} s"):
            whole = {"a step's whole time was returned. Return what it waits": read + compute}
            expect.close(exposed(read, compute, False), read, "no prefetch", slips=whole)
            slips = {
                "this is all of the input. It goes on while the step computes": read,
                "a step cannot wait less than 0 s": read - compute,
                "this is a step's whole time. Return what it waits": max(read, compute),
            }
            expect.close(
                exposed(read, compute, True), max(0, read - compute), "prefetch", slips=slips
            )
    for nbytes, ranks, own, together, latency in (
        (1000, 1, 10, 100, 2),
        (1000, 20, 10, 100, 0),
        (1000, 6, 10, 100, 3),  # many ranks, and each gets all of its own
        (400, 4, 100, 100, 1),
        (1001, 20, 10, 50, 0),  # no whole number of seconds
    ):
        right = latency + nbytes / min(own, together / ranks)
        expect.close(
            shard_seconds(nbytes, ranks, own, together, latency),
            right,
            f"{nbytes} bytes, ranks: {ranks}, own {own} B/s, together {together} B/s, open"
            f" {latency} s",
            slips={
                "an open takes time, so add one latency": right - latency,
                "all ranks open at once, so add one latency": right + latency * (ranks - 1),
                "all ranks share `together`: each gets an equal part": (
                    latency + nbytes / min(own, together)
                ),
                "`own` and a rank's part of `together` both limit it. The narrower pipe decides": (
                    latency + nbytes / max(own, together / ranks)
                ),
            },
        )


@dataclass(frozen=True)
class Stored:
    """The same images (JPEG) as single files and in tar shards. nbytes: of the JPEGs together."""

    folder: Path
    labels: np.ndarray
    files: list[Path]
    shards: list[Path]
    nbytes: int


def write(n: int, side: int, shards: int) -> Stored:
    """Store n images of side x side pixels in a new folder in paths.home(), class by class.

    They are scikit-learn's digits, enlarged, with noise, as JPEG. All are deleted when the process
    ends. The ranks of a batch job share one folder, which lies in the job's own and is deleted with
    it, however the job ends.
    """
    of_job = os.environ.get("LABKIT_NOTES")
    if of_job and world.launcher():
        return launch.run(_write_on_root, of_job, n, side, shards, ranks=world.size())[0]
    folder = Path(tempfile.mkdtemp(prefix="lab15-", dir=paths.home()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _write_into(folder, n, side, shards)


def _write_on_root(comm, of_job: str, n: int, side: int, shards: int) -> Stored | None:
    """Rank 0 alone writes, into a new folder in that of the job."""
    if comm.rank:
        return None
    return _write_into(Path(tempfile.mkdtemp(prefix="lab15-", dir=of_job)), n, side, shards)


def _write_into(folder: Path, n: int, side: int, shards: int) -> Stored:
    jpegs, labels = _images(n, side)
    files = [folder / str(label) / f"{number:06}.jpg" for number, label in enumerate(labels)]
    for path, jpeg in zip(files, jpegs, strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg)
    tars = [folder / f"shard-{number:03}.tar" for number in range(shards)]
    for path, part in zip(tars, np.array_split(np.arange(n), shards), strict=True):
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in part:
                _add_member(tar, f"{number:06}.jpg", jpegs[number])
                _add_member(tar, f"{number:06}.cls", b"%d" % labels[number])
    return Stored(folder, labels, files, tars, sum(map(len, jpegs)))


def _images(n: int, side: int) -> tuple[list[bytes], np.ndarray]:
    from PIL import Image

    digits = data.digits()
    rng = np.random.default_rng(0)
    jpegs = []
    labels = np.sort(np.resize(digits.train_y, n))  # class by class
    for label in labels:
        chosen = rng.choice(np.flatnonzero(digits.train_y == label))
        small = Image.fromarray((255 * digits.train_x[chosen].reshape(8, 8)).astype(np.uint8))
        large = np.asarray(small.resize((side, side), Image.Resampling.BICUBIC), np.int16)
        noisy = large[..., None] + rng.integers(-30, 31, (side, side, 3))
        target = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(target, "JPEG", quality=85)
        jpegs.append(target.getvalue())
    return jpegs, labels


def _add_member(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def from_files(stored: Stored, order: Iterable[int], open=open) -> Iterator[tuple[bytes, int]]:
    """Images from single files, in this order. A label is the name of the folder."""
    for number in order:
        with open(stored.files[number], "rb") as file:
            yield file.read(), int(stored.files[number].parent.name)


def from_shards(read_shard, paths: Iterable[Path], open=open) -> Iterator[tuple[bytes, int]]:
    """Images from these tar shards, one after the other, by the learner's read_shard(stream)."""
    for path in paths:
        with open(path, "rb") as stream:
            yield from read_shard(stream)


class Storage:
    """Opens files for reading, at most `bandwidth` bytes/s for this reader, with `latency` seconds
    an open.

    A stand-in, and real: the file is read from this machine's disk, and the reader sleeps until the
    clock says that storage of this bandwidth and latency would have delivered. shared: bytes/s of a
    pipe that all readers with the same `pipe` (a file that `new_pipe` made) share, one after the
    other. `opens` and `nbytes` count what was read.
    """

    def __init__(
        self, bandwidth=float("inf"), latency=0.0, shared=float("inf"), pipe: Path | None = None
    ):
        self.bandwidth = bandwidth
        self.latency = latency
        self.shared = shared
        self.pipe = pipe
        self.opens = self.nbytes = 0
        self._free = self._overslept = 0.0

    def open(self, path: str | Path, mode: str = "rb") -> _Held:
        """The file, opened; reading it takes as long as from this storage."""
        self.opens += 1
        self._until(self._begin() + self.latency, least=0)
        return _Held(path, mode, self)

    def carry(self, nbytes: int) -> None:
        """Wait until so many bytes would have come."""
        self.nbytes += nbytes
        begin = self._begin()
        end = begin + nbytes / self.bandwidth
        if self.pipe is not None:
            with open(self.pipe, "r+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
                (free,) = struct.unpack("d", file.read(8))
                done = max(free, begin) + nbytes / self.shared
                file.seek(0)
                file.write(struct.pack("d", done))
            end = max(end, done)
        self._until(end)

    def _begin(self) -> float:
        return max(self._free, time.perf_counter() - self._overslept)

    def _until(self, end: float, least: float = SHORTEST) -> None:
        self._free = end
        left = end - time.perf_counter()
        if left > least:
            time.sleep(left)
            self._overslept = max(0.0, time.perf_counter() - end)
        elif left < 0:
            self._overslept = 0.0


class _Held(io.FileIO):
    """A file that is read at the storage's speed."""

    def __init__(self, path: str | Path, mode: str, storage: Storage):
        super().__init__(path, mode)
        self._storage = storage

    def read(self, size: int = -1) -> bytes:
        content = super().read(size)
        self._storage.carry(len(content))
        return content


def new_pipe() -> Path:
    """A file by which the readers of one machine agree on when their storage is free."""
    handle, path = tempfile.mkstemp(prefix="lab15-pipe-")
    with os.fdopen(handle, "wb") as file:
        file.write(struct.pack("d", 0.0))
    return Path(path)


def compare_opens(stored: Stored, read_shard: Callable, latency: float) -> timing.Ratio:
    """Read a quarter of the images from storage of 100 MB/s and this latency an open: files over
    shards."""
    shards = max(1, len(stored.shards) // 4)
    part = sum(len(labels) for labels in np.array_split(stored.labels, len(stored.shards))[:shards])
    storage = {"files": Storage(1e8, latency), "shards": Storage(1e8, latency)}
    ratio = timing.ratio(
        lambda: list(from_files(stored, range(part), storage["files"].open)),
        lambda: list(from_shards(read_shard, stored.shards[:shards], storage["shards"].open)),
        repeat=5,
        warmup=0,
    )
    for name, used in storage.items():
        print(f"{name:6}: {used.opens // 5:4} opens, {used.nbytes // 5:9,} bytes for {part} images")
    return ratio


def decode(jpeg: bytes) -> np.ndarray:
    """The pixels of a JPEG: uint8, (height, width, 3)."""
    from PIL import Image

    return np.array(Image.open(io.BytesIO(jpeg)))


def batches(
    samples: Iterable[tuple[bytes, int]], batch: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Decoded batches of (JPEG, label) pairs: float32 (batch, 3, side, side), int64."""
    samples = iter(samples)
    while (
        len(taken := [(decode(jpeg), label) for jpeg, label in itertools.islice(samples, batch)])
        == batch
    ):
        images = np.stack([image for image, _ in taken]).transpose(0, 3, 1, 2)
        yield images / np.float32(255), np.array([label for _, label in taken])


def trainer(device: str, width: int) -> Callable:
    """A small convolutional net: returns step(images, labels), a training step."""
    import torch

    torch.manual_seed(0)
    nn = torch.nn
    convolutions = [nn.Conv2d(3, width, 5, 4), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU()]
    classifier = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, 10)]
    net = nn.Sequential(*convolutions, *classifier).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(images, labels) -> float:
        sgd.zero_grad()
        images = torch.from_numpy(images).to(device)
        labels = torch.from_numpy(labels).to(device)
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        sgd.step()
        return loss.item()  # waits for a GPU

    return step


def runs(stored, read_shard, prefetch, train, batch, shares, steps, rounds) -> Iterator[tuple]:
    """Training runs from storage whose bandwidth makes input take about `shares` of compute.

    Yields (share, input, compute, exposed). Input is the wait of a step without prefetch, in
    seconds; compute and exposed are timed with prefetch.
    """

    def feed(storage: Storage) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for epoch in itertools.count():
            order = np.random.default_rng((0, epoch)).permutation(len(stored.shards))
            paths = [stored.shards[number] for number in order]
            yield from batches(from_shards(read_shard, paths, storage.open), batch)

    nbytes = batch * sum(path.stat().st_size for path in stored.shards) / len(stored.labels)
    for _ in range(rounds):
        # A storage without waiting; in every round, as the machine's speed may change.
        decoding, alone = _time_steps(feed(Storage()), train, steps)
        for share in shares:
            bandwidth = nbytes / max(share * alone - decoding, 0.2 * decoding)
            read, _ = _time_steps(feed(Storage(bandwidth)), train, steps)
            ahead = prefetch(feed(Storage(bandwidth)), 2)
            waited, compute = _time_steps(ahead, train, steps)
            yield share, read, compute, waited


def _time_steps(source: Iterator, train: Callable, steps: int) -> tuple[float, float]:
    """Seconds that a step waits for its batch, and that it computes: medians of `steps`, after a
    warm-up."""
    waits = []
    computes = []
    for _ in range(WARM_UP + steps):
        begin = time.perf_counter()
        ready = next(source)
        middle = time.perf_counter()
        train(*ready)
        waits.append(middle - begin)
        computes.append(time.perf_counter() - middle)
    source.close()
    return float(np.median(waits[WARM_UP:])), float(np.median(computes[WARM_UP:]))


def through_one_pipe(comm, read_shard, prefetch, stored: Stored, storages: dict, rounds: int):
    """On 1, 2, 4, … ranks: all read a shard at once. Returns {storage: {ranks: seconds}}.

    storages: name -> (bytes/s of a rank, bytes/s that all share, seconds an open).
    """
    from mpi4py import MPI

    seconds: dict[str, dict[int, object]] = {name: {} for name in storages}
    sizes = sorted({min(2**power, comm.size) for power in range(comm.size.bit_length() + 1)})
    for size in sizes:
        group = comm.Split(int(comm.rank >= size))
        if comm.rank >= size:
            continue
        node = group.Split_type(MPI.COMM_TYPE_SHARED)
        for name, (own, shared, latency) in storages.items():
            pipe = node.bcast(new_pipe() if node.rank == 0 else None)
            # On several nodes, each has a pipe of its own: its part of the bandwidth.
            storage = Storage(own, latency, shared * node.size / size, pipe)
            path = stored.shards[group.rank % len(stored.shards)]

            def read(storage=storage, path=path) -> None:
                for jpeg, _ in prefetch(from_shards(read_shard, [path], storage.open), 8):
                    decode(jpeg)

            try:
                seconds[name][size] = timing.measure(read, repeat=rounds, warmup=1, comm=group)
            finally:
                if node.rank == 0:
                    pipe.unlink()
    return seconds
