"""Trial shards of lab 15: tars that only go forward, whose members stand in several orders."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator

import numpy as np
from labkit.checks import expect
from labkit.errors import CheckFailed, LabError

from support.lab15.files import add_member

# The order of a sample's files, by kind: the name from the first dot on.
ORDERS = {
    "image, then label": ("jpg", "cls"),
    "label, then image": ("cls", "jpg"),
    "with a .json behind": ("jpg", "cls", "json"),
    "with a .json between": ("cls", "json", "jpg"),
    "with a .small.jpg between": ("jpg", "small.jpg", "cls"),
    "every third without its image": ("jpg", "cls"),
    "every third without its label": ("cls", "jpg"),
}


class Stream(io.RawIOBase):
    """A tar that only goes forward. `taken`: bytes read so far."""

    def __init__(self, content: bytes):
        self._inner = io.BytesIO(content)
        self.taken = 0

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


class TrialShard:
    """40 samples in a tar. name: what is special about it. wanted: (JPEG's bytes, label) in order."""

    def __init__(self, name: str, kinds: tuple[str, ...]):
        self.name = name
        self.incomplete = "every third" in name
        rng = np.random.default_rng(0)
        samples = [(rng.bytes(3000 + 700 * number), (number * 37) % 1000) for number in range(40)]
        self.label_of = dict(samples)
        self.wanted = [sample for number, sample in enumerate(samples) if not self._lacks(number)]
        content = _tar(samples, lambda number: kinds[1:] if self._lacks(number) else kinds)
        self.nbytes = len(content)
        self._stream = Stream(content)

    def _lacks(self, number: int) -> bool:
        """Whether this sample lacks the first of its files."""
        return self.incomplete and number % 3 == 1

    @property
    def taken(self) -> int:
        """Bytes that were read of the shard so far."""
        return self._stream.taken

    def samples(self, read_shard: Callable) -> Iterator:
        """read_shard(stream); what streams and members in any order bring about becomes a sentence."""
        samples = read_shard(self._stream)
        expect(hasattr(samples, "__iter__"), f"read_shard returns {samples!r:.60}. `yield` each sample.")
        try:
            yield from samples
        except tarfile.StreamError as error:
            cure = "a member passes by once. Take them in a `for`, and read each before the next one comes."
            raise CheckFailed(f"{self.name}: {cure}") from error
        except OSError as error:
            if type(error).__name__ != "UnidentifiedImageError":
                raise
            raise CheckFailed(
                "Give the JPEG's bytes as they are. Decoding comes later, elsewhere."
            ) from error
        except ValueError as error:
            if "invalid literal for int" not in str(error):
                raise
            cure = "int() got what is no label. A member's name says what it is: see behind the first dot."
            raise CheckFailed(f"{self.name}: {cure}") from error


def _tar(samples: list[tuple[bytes, int]], kinds_of: Callable) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for number, (jpeg, label) in enumerate(samples):
            content = {"jpg": jpeg, "cls": b"%d" % label, "json": b"{}", "small.jpg": jpeg[:9]}
            # Names of several lengths; each comes again 20 samples further on, and is another sample then.
            name = f"{'sample' if number % 2 else ''}{(number % 20) ** 3}"
            for kind in kinds_of(number):
                add_member(tar, f"{name}.{kind}", content[kind])
    return target.getvalue()


def trial_shards() -> Iterator[TrialShard]:
    """A shard for each order of a sample's files."""
    for name, kinds in ORDERS.items():
        yield TrialShard(name, kinds)
