"""What lab 15's checks ask of samplers and of readers of shards. Names as in labkit.inputs."""

from __future__ import annotations

import io
import itertools
import tarfile
from collections import Counter
from collections.abc import Callable

import numpy as np

from labkit._input_files import add_member
from labkit.errors import CheckFailed, LabError
from labkit.expectations import expect


def expect_split(split: Callable) -> None:
    """Fail unless split(n, epoch, rank, ranks, worker, workers) deals an epoch out as asked in 15.1."""
    for n, p, workers in itertools.product((96, 100, 7, 3), (1, 2, 3, 4, 8), (1, 2, 3)):
        who = f"{n} samples, {p} ranks of {workers} workers"
        parts = [[_read(split, n, 0, rank, p, w, workers) for w in range(workers)] for rank in range(p)]
        for rank, mine in enumerate(parts):
            sizes = [len(one) for one in mine]
            uneven = max(sizes) - min(sizes) > 1
            expect(not uneven, f"{who}: the workers of rank {rank} read {sizes}: differ by one at most.")
        ranks = [list(itertools.chain(*mine)) for mine in parts]
        twice = [number for number, times in Counter(itertools.chain(*ranks)).items() if times > 1]
        words = f"{who}: sample {twice[0] if twice else ''} is read more than once in an epoch. "
        expect(not twice, words + "(The same order on all ranks? Each worker a part of its rank's?)")
        counts = [len(mine) for mine in ranks]
        expect(len(set(counts)) == 1, f"{who}: the ranks read {counts} samples; all need as many.")
        expect.equal(counts[0], n // p, f"{who}: samples of a rank (drop what does not divide)")
        strange = [number for number in itertools.chain(*ranks) if not 0 <= number < n]
        expect(not strange, f"{who}: there is no sample {strange[0] if strange else ''}.")
    _expect_orders(split)


def _read(split, *where) -> list[int]:
    found = split(*where)
    expect(np.ndim(found) == 1, f"Give the numbers of the samples, an array; this is {found!r:.60}.")
    return [int(number) for number in found]


def _expect_orders(split) -> None:
    def epoch(number, seed=0):
        return [_read(split, 103, number, rank, 4, 0, 1, seed) for rank in range(4)]

    expect(epoch(0) == epoch(0), "Asked twice, a rank gets another order. Only seed and epoch may matter.")
    orders = [epoch(number) for number in range(6)]
    for one, other in itertools.combinations(range(6), 2):
        expect(orders[one] != orders[other], f"Epochs {one} and {other} have the same order.")
    expect(epoch(0) != epoch(0, seed=1), "Seeds 0 and 1 give the same order.")
    expect(epoch(0)[0] != sorted(epoch(0)[0]), "Rank 0 reads its samples in the stored order: shuffle.")
    pairs = [set(itertools.pairwise(_read(split, 103, number, 0, 1))) for number in (0, 1)]
    moved = "Epoch 1 has the order of epoch 0, moved on: who follows whom stays. Shuffle anew each epoch."
    expect(len(pairs[0] & pairs[1]) < 25, moved)
    together = max(len({*one} & {*other}) for one, other in itertools.product(*orders[:2]))
    words = f"{together} samples that one rank read in epoch 0 stay together on one rank in epoch 1, of "
    words += f"{len(orders[0][0])}. Shuffle all of the samples anew, then deal them out."
    expect(together < 20, words)  # 6 by chance
    read = {number for one in range(30) for mine in epoch(one) for number in mine}
    lost = sorted(set(range(103)) - read)
    text = f"103 samples, 4 ranks: in 30 epochs nobody reads samples {lost}. Shuffle first, then drop."
    expect(not lost, text)


def expect_as_torch(split: Callable) -> None:
    """Fail unless counts are those of PyTorch's DistributedSampler with drop_last (its order is another)."""
    from torch.utils.data import DistributedSampler

    for n, p in itertools.product((96, 103, 7, 3), (1, 2, 4, 5)):
        theirs = [len(list(DistributedSampler(range(n), p, rank, drop_last=True))) for rank in range(p)]
        ours = [len(_read(split, n, 0, rank, p, 0, 1)) for rank in range(p)]
        expect.equal(
            ours, theirs, f"{n} samples: what {p} ranks read, beside DistributedSampler(drop_last=True)"
        )


class _Stream(io.RawIOBase):
    """A tar that only goes forward. `taken`: bytes read so far."""

    def __init__(self, content: bytes):
        self._inner, self.taken = io.BytesIO(content), 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._inner.read(size)
        self.taken += len(content)
        return content

    def seek(self, *_):
        raise LabError(
            'The shard came in over a network and only goes forward, but it was asked to seek. "r|"?'
        )

    tell = seek


def _passing(read_shard, stream, name):
    """read_shard(stream); what streams and members in any order bring about becomes a sentence."""
    found = read_shard(stream)
    expect(hasattr(found, "__iter__"), f"read_shard returns {found!r:.60}. `yield` each sample.")
    try:
        yield from found
    except tarfile.StreamError as error:
        words = "a member passes by once. Take them in a `for`, and read each before the next one comes."
        raise CheckFailed(f"{name}: {words}") from error
    except OSError as error:
        if type(error).__name__ != "UnidentifiedImageError":
            raise
        raise CheckFailed("Give the JPEG's bytes as they are. Decoding comes later, elsewhere.") from error
    except ValueError as error:
        if "invalid literal for int" not in str(error):
            raise
        words = "int() got what is no label. A member's name says what it is: see behind the first dot."
        raise CheckFailed(f"{name}: {words}") from error


_CASES = {  # the order of a sample's files, by kind: the name from the first dot on
    "image, then label": ("jpg", "cls"),
    "label, then image": ("cls", "jpg"),
    "with a .json behind": ("jpg", "cls", "json"),
    "with a .json between": ("cls", "json", "jpg"),
    "with a .small.jpg between": ("jpg", "small.jpg", "cls"),
    "every third without its image": ("jpg", "cls"),
    "every third without its label": ("cls", "jpg"),
}


def _lacks(name: str, number: int) -> bool:
    """Whether this sample lacks the first of its files."""
    return "every third" in name and number % 3 == 1


def expect_reader(read_shard: Callable) -> None:
    """Fail unless read_shard(stream) yields a tar's (image, label) in order, one by one, never going back."""
    rng = np.random.default_rng(0)
    stored = [(rng.bytes(3000 + 700 * number), (number * 37) % 1000) for number in range(40)]
    labels = dict(stored)
    for name, kinds in _CASES.items():
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w") as tar:
            for number, (jpeg, label) in enumerate(stored):
                content = {"jpg": jpeg, "cls": b"%d" % label, "json": b"{}", "small.jpg": jpeg[:9]}
                for kind in kinds[_lacks(name, number) :]:
                    add_member(tar, f"{'sample' * (number % 2)}{number**3}.{kind}", content[kind])
        want = [pair for number, pair in enumerate(stored) if not _lacks(name, number)]
        stream = _Stream(target.getvalue())
        found = _passing(read_shard, stream, name)
        got = list(itertools.islice(found, 1))
        words = f"{name}: no sample came out of a shard of {len(want)}. "
        expect(got, words + "(A name may have any length, and ends at its first dot.)")
        early = stream.taken < len(target.getvalue()) / 2
        expect(
            early, f"The first sample came after {stream.taken:,} bytes, the whole shard. Yield each at once."
        )
        got += list(found)
        if "every third" in name:
            for pair in got:
                own = labels.get(pair[0]) in (None, pair[1])
                words = "an image came with its neighbour's label. The files of a sample have one name."
                expect(own, f"{name}: {words}")
        expect.equal(len(got), len(want), f"{name}: samples of a shard of {len(want)}")
        for number, (pair, (jpeg, label)) in enumerate(zip(got, want, strict=True)):
            expect(len(pair) == 2, f"{name}: sample {number} has {len(pair)} parts: give (image, label).")
            words = f"{name}: sample {number}: "
            expect.equal(pair[1], label, words + "label, a whole number")
            expect(hasattr(pair[1], "__index__"), words + f"label {pair[1]!r:.30} is no whole number. int()?")
            expect(isinstance(pair[0], bytes), words + f"the image is {type(pair[0]).__name__}, not bytes.")
            expect(pair[0] == jpeg, words + f"not the image's bytes ({len(pair[0])}, it has {len(jpeg)}).")
