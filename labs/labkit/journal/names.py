"""Pseudonyms for the class board: drawn at random, so that no name can be computed back from
them."""

from __future__ import annotations

import re
import secrets

_QUALITIES = (
    "Amber", "Bold", "Brisk", "Calm", "Clear", "Deep", "Dusky", "Early", "Fair", "Fleet", "Gentle",
    "Glad",
    "Golden", "Green", "Keen", "Kind", "Late", "Light", "Lively", "Merry", "Mild", "Misty", "Noble",
    "Olive",
    "Plain", "Proud", "Quiet", "Rapid", "Silver", "Steady", "Sunny", "Tall",
)  # fmt: skip
_ANIMALS = (
    "Badger", "Beaver", "Bison", "Crane", "Curlew", "Dolphin", "Eagle", "Falcon", "Finch", "Fox",
    "Gecko",
    "Hare", "Heron", "Ibex", "Jay", "Kestrel", "Koala", "Lark", "Linnet", "Lynx", "Marten", "Otter",
    "Owl",
    "Panda", "Plover", "Puffin", "Raven", "Robin", "Seal", "Stork", "Swift", "Wren",
)  # fmt: skip
# Of our own words alone: else somebody could call themselves by another learner's name.
PSEUDONYM = re.compile(rf"(?:{'|'.join(_QUALITIES)}) (?:{'|'.join(_ANIMALS)}) [1-9]\d")


def draw() -> str:
    """A new pseudonym, such as "Quiet Heron 42"; one of 92,160."""
    return f"{secrets.choice(_QUALITIES)} {secrets.choice(_ANIMALS)} {10 + secrets.randbelow(90)}"
