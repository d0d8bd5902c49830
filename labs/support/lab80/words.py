"""The numbers in a report's text that stand for nothing on record, and figures that words beside
them change.

What is looked at is the Markdown itself, without its emphasis: `9**1** %` is read as 91 %.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping

# In place of the placeholder number i stands the character FIRST + i, which no text has by itself.
FIRST = 0xF0000
PLACEHOLDER = re.compile(r"\{([^{}\n]*)\}")
MARK = f"[{chr(FIRST)}-{chr(FIRST + 0xFFFD)}]"

_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_UNITS = (
    r"%|‰|percent(?:age)?|per ?cent|times|points?|[mµun]?s|(?:milli|micro|nano)?seconds?|"
    r"minutes?|hours?|days?|[kMG]?J|joules?|[kM]?Wh?|watts?|[KMGT]i?B|bytes?|[kMGT]?flops?|"
    r"images?|node-hours?|thousand|million|billion|x"
)
_PART = "(?:half|halve|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)"
_IN_WORDS = re.compile(
    r"\b(?:(?:thir|four|fif|six|seven|eigh|nine)teen|(?:eleven|twelve|twenty|thirty|forty|fifty|sixty|"
    r"seventy|eighty|ninety)(?:-\w+)?|"
    r"(?:hundred|thousand|million|billion|dozen)s?|twice|thrice|(?:doubl|tripl|quadrupl|halv)\w+|\w+-?fold|"
    r"(?<!middle )half (?:of|the|a|as)|(?:by|in|an?) half|a quarter|"
    rf"factors? of (?:{'|'.join(_SMALL)})|"
    # A third cause is no number, and a third of the causes is.
    rf"a {_PART}(?= (?:of|is|are|was|were)\b|[.,;])|(?:{'|'.join(_SMALL)})[ -]{_PART}s?|"
    rf"(?:{'|'.join(_SMALL)})[ -](?:{_UNITS}))(?!\w)",
    re.IGNORECASE,
)
_COUNT = rf"(?:\d[\d,]*|{'|'.join(_SMALL)})"
_COUNTS = re.compile(
    rf"(?<![\w.,+\-−–/*^×·$€#=~<>])"
    rf"((?:no )?{_COUNT}(?:, {_COUNT})*(?:,? (?:and|or|to) {_COUNT})?)[\s-]"
    # Behind a count these make another number of it: 32 images a second.
    r"(ranks?|gpus?|nodes?|images?|steps?|rounds?|cores?)\b(?!\s*(?:/|per\b|an?"
    r" (?:second|minute|hour|day)))",
    re.IGNORECASE,
)
# They count nothing: "in one step all wait", "no two images are alike".
_NO_COUNT = re.compile(r"one[\s-](?:step|image)|no two[\s-](?:steps|images)", re.IGNORECASE)
_LABS = re.compile(
    r"\blabs? \d\d(?:(?:, | and | or | to )\d\d)*(?![\d.,]*\d|\s*(?:%|percent))", re.IGNORECASE
)
_NAME = re.compile(r"(?<![\w.,+−–/*^])[^\W\d_][^\W_]*(?:[-_.][^\W_]+)*")
_NUMBER = re.compile(
    rf"(?:[^\W\d_]+-?|[+\-−–])?\d(?:[\d., ]*\d)?(?:[eE][+-]?\d+)?(?:\s*(?:{_UNITS})(?!\w)|\w+)?"
    r"(?:\s*/\s*s\b| per \w+| an? (?:second|minute|hour|day))?"
)
_BEFORE = re.compile(rf"([\w+\-−–/*^×·.,~≈=<>]|\bminus |[-−–/*×·÷] )({MARK})")
_BEHIND = re.compile(
    rf"({MARK})([\w%/^*×·]"
    rf"|\s(?:{_UNITS}|ranks?|GPUs?|nodes?|steps?|rounds?|cores?)(?!\w)|\s[/*×·÷^])"
)


def odd(text: str) -> list[str]:
    """Sentences about what may hold a number that is no text."""
    sentences = []
    if re.search(r"<[A-Za-z/!?]|&#?\w+;", text):
        sentences.append("The text holds HTML (`<…` or `&…;`). A report is plain Markdown.")
    if re.search(r"!\[", text):
        sentences.append(
            "A picture can hold numbers that nobody checks: use {plot_strong} and the like."
        )
    return sentences


def plain(text: str) -> str:
    """Markdown as its reader sees it, line by line: without addresses, emphasis and the numbers of
    lists."""
    text = re.sub(r"\]\(\S+\)|https?://\S+", " ", text)
    text = re.sub(r"^\s*\d[.)] ", " ", text, flags=re.MULTILINE)
    return unicodedata.normalize("NFKC", re.sub(r"[*`\\]|(?<!\w)_|_(?!\w)", "", text))


def bare_numbers(
    text: str, counts: Mapping[str, Collection[int]], names: Collection[str]
) -> list[tuple[int, str, str]]:
    """(number of its line, the number, why it is refused) of each number in a text that no record
    supports.

    counts: noun -> the numbers of them that were there. names: of things, as `plain_name` has them.
    """
    found: list[tuple[int, str, str]] = []

    def refuse(match: re.Match, number: str, why: str) -> None:
        found.append((match.string.count("\n", 0, match.start()) + 1, number.strip(), why))

    def count(match: re.Match) -> str:
        if _NO_COUNT.fullmatch(match[0]):
            return _blank(match)
        there = counts[match[2].lower().removesuffix("s") + "s"]
        for part in re.findall(_COUNT, match[1], re.IGNORECASE):
            number = (
                _SMALL.index(part.lower()) if part.lower() in _SMALL else int(part.replace(",", ""))
            )
            if number not in there:
                numbers = ", ".join(f"{n:,}" for n in sorted(there)) or "none at all"
                refuse(match, f"{part} {match[2]}", f"the records of this study have {numbers}")
        return _blank(match)

    def in_words(match: re.Match) -> str:
        refuse(match, match[0], "a number in words is a number")
        return _blank(match)

    left = _LABS.sub(_blank, text)
    left = _NAME.sub(
        lambda match: _blank(match) if plain_name(match[0]) in names else match[0], left
    )
    left = _COUNTS.sub(count, left)
    left = _IN_WORDS.sub(in_words, left)
    for match in _NUMBER.finditer(left):
        refuse(match, match[0], "")
    return list(dict.fromkeys(found))


def _blank(match: re.Match) -> str:
    """Nothing in its place, but its lines."""
    return re.sub(r"[^\n]", " ", match[0])


def changed_figures(text: str, printed: Callable[[str], str]) -> list[str]:
    """Sentences about figures whose value a sign, a digit or a unit beside them changes.

    printed: what the figure behind a mark will look like.
    """
    before = [
        f"{match[1].strip()!r} stands right before {printed(match[2])} and makes another number"
        " of it."
        for match in _BEFORE.finditer(text)
    ]
    behind = [
        f"{match[2].strip()!r} stands right behind {printed(match[1])}, which is complete: it"
        " brings its own unit."
        for match in _BEHIND.finditer(text)
    ]
    return before + behind


def plain_name(text: str) -> str:
    """`ResNet-101` and `resnet101` are one name."""
    return re.sub(r"[-_. ]", "", text.casefold())
