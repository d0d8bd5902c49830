"""A report's text as its reader sees it, and the numbers in it that stand for nothing on record.

What is looked at is the page that Markdown makes of the text, not the text: `9**1** %` is read as 91 %.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

# In place of the placeholder number i stands the character FIRST + i, which no text has by itself.
FIRST = 0xF0000
PLACEHOLDER = re.compile(r"\{([^{}\n]*)\}")
_MARK = f"[{chr(FIRST)}-{chr(FIRST + 0xFFFD)}]"
_BLOCKS = (
    *("paragraph", "block_text", "heading", "block_code", "block_html", "block_quote"),
    *("list", "list_item", "table_head", "table_row"),
)

_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_TEENS = "eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_LARGE = re.compile(
    rf"\b((?:{_TEENS}|{_TENS})(?:-\w+)?|hundreds?|thousands?|millions?|billions?|dozens?|twice|thrice|"
    r"doubl(?:e|es|ed|ing)|tripl(?:e|es|ed|ing)|quadrupl\w+|halv(?:e|es|ed|ing)|"
    r"\w+-?fold|(?<!middle )half (?:of|the|a|as)|"
    r"(?:a|one|two|three) (?:thirds?|quarters?|fifths?|tenths?) of|(?:a|one) half)\b",
    re.IGNORECASE,
)
_UNITS = (
    r"%|‰|percent(?:age)?|per ?cent|times|points?|[mµun]?s|milliseconds?|microseconds?|nanoseconds?|seconds?|"
    r"minutes?|hours?|days?|[kMG]?J|joules?|[kM]?Wh?|watts?|kilowatt\w*|[KMGT]i?B|bytes?|[kMGT]?flops?|"
    r"images?|node-hours?|thousand|million|billion|x"
)
# Behind a count these make another number of it: 32 images a second.
_RATE = r"(?!\s*(?:/|per\b|an? (?:second|minute|hour|day)|each second|every second))"
_NOUNS = "ranks?|gpus?|nodes?|images?|steps?|rounds?|cores?"
_COUNT = rf"(?:\d[\d,]*|{'|'.join(_SMALL)})"
_COUNTS = re.compile(
    rf"(?<![\w.,+\-−–/*^×·$€#=~<>])({_COUNT}(?:, {_COUNT})*(?:,? (?:and|or|to) {_COUNT})?)[ \u00a0-]"
    rf"({_NOUNS})\b{_RATE}",
    re.IGNORECASE,
)
_LABS = re.compile(
    r"\blabs? (\d\d(?:, \d\d)*(?:,? (?:and|or|to) \d\d)?)(?![\d.,]*\d|\s*(?:%|percent))",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<![\w.,+−–/*^])[^\W\d_][^\W_]*(?:[-_.][^\W_]+)*")
_VERSION = re.compile(r"\b(python|torch|pytorch|tensorflow|horovod|mpi4py) (\d+(?:\.\w+)*)", re.IGNORECASE)
_NUMBER = re.compile(
    r"[+\-−–]?\d[\d.,  '’]*(?:[eE][+-]?\d+)?(?:\s*(?:" + _UNITS + r")(?!\w))?"
    r"(?:\s*/\s*s\b| per \w+| an? (?:second|minute|hour|day))?"
)
_SMALL_WITH_UNIT = re.compile(rf"\b({'|'.join(_SMALL)})[ -]({_UNITS})(?!\w)", re.IGNORECASE)
_BEFORE = re.compile(rf"([\w+\-−–/*^×·.,~≈=<>]|\bminus |[-−–/*×·÷] )({_MARK})")
_BEHIND = re.compile(rf"({_MARK})([\w%/^*×·]|[  ](?:{_UNITS})(?!\w)|[  ][/*×·÷^])")

_PICTURE = "A picture can hold numbers that nobody checks: use {plot_strong} and the like."


@dataclass(frozen=True)
class Known:
    """What a study's records say besides its figures: counts by their noun, names, versions, labs."""

    counts: Mapping[str, Collection[int]]
    names: Collection[str]
    versions: Mapping[str, str]
    labs: Collection[str]


class Page:
    """A Markdown text as its reader sees it. lines: one for each block; headings: (level, text) of each.

    odd: sentences about what may hold a number that is no text.
    """

    def __init__(self, text: str):
        import mistune

        self.lines = [""]
        self.headings: list[tuple[int, str]] = []
        self.odd: list[str] = []
        self._read(mistune.create_markdown(renderer=None, plugins=["table"])(text))

    def _read(self, tokens: list[dict]) -> None:
        for token in tokens:
            kind = token["type"]
            options = token.get("attrs", {})
            if kind in _BLOCKS:
                self._new_line()
            if kind in ("softbreak", "linebreak", "table_cell"):
                self.lines[-1] += "\n"
            if options.get("start", 1) != 1:
                self.odd.append(f"A list begins with number {options['start']}: begin it with 1.")
            if options.get("title"):
                title = options["title"]
                self.odd.append(f"A link has a title that only the mouse shows, {title!r}: leave it out.")
            if kind == "image":
                self.odd.append(
                    "A picture can hold numbers that nobody checks: use {plot_strong} and the like."
                )
                continue
            self.lines[-1] += token.get("raw", "")
            self._read(token.get("children", []))
            if kind == "heading":
                self.headings.append((options["level"], self.lines[-1]))
            if kind in _BLOCKS:
                self._new_line()

    def _new_line(self) -> None:
        if self.lines[-1].strip():
            self.lines.append("")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def to_html(text: str) -> str:
    """Markdown as HTML; what looks like HTML in it is shown as it is written."""
    import mistune

    return mistune.create_markdown(escape=True, plugins=["table"])(text)


def odd_characters(text: str) -> list[str]:
    """Sentences about characters that look like something else, or like nothing."""
    sentences = []
    for character in dict.fromkeys(text):
        kind = unicodedata.category(character)
        name = unicodedata.name(character, f"character {ord(character):#x}").lower()
        if kind in ("Cf", "Co", "Cn", "Cs") or (kind == "Cc" and character not in "\n\r\t"):
            sentences.append(f"The text holds a character that cannot be seen ({name}): delete it.")
        elif not character.isascii() and unicodedata.numeric(character, None) is not None:
            sentences.append(f"{character!r} ({name}) is a number: write the name of a figure in its place.")
    if re.search(r"<[A-Za-z/!?]", text):
        sentences.append("The text holds HTML (`<…`). A report is plain Markdown.")
    if re.search(r"&#?\w+;", text):
        sentences.append("The text writes a character by its number or name (`&…;`). Write the character.")
    return sentences


def bare_numbers(text: str, known: Known) -> list[tuple[str, str]]:
    """(number, why it is refused) of each number in a page's text that no record supports."""
    left = unicodedata.normalize("NFKC", text)
    found: list[tuple[str, str]] = []

    def count(match: re.Match) -> str:
        there = known.counts.get(match[2].lower().removesuffix("s") + "s", ())
        for part in re.findall(_COUNT, match[1], re.IGNORECASE):
            number = _SMALL.index(part.lower()) if part.lower() in _SMALL else int(part.replace(",", ""))
            if number not in there:
                numbers = ", ".join(f"{n:,}" for n in sorted(there)) or "none at all"
                found.append((f"{part} {match[2]}", f"the records of this study have {numbers}"))
        return " "

    left = _LABS.sub(lambda match: _blank_labs(match, known), left)
    left = _VERSION.sub(lambda match: _blank_version(match, known), left)
    left = _NAME.sub(lambda match: _blank_name(match, known), left)
    left = _COUNTS.sub(count, left)
    for in_words in (_LARGE, _SMALL_WITH_UNIT):
        found += [(match[0], "a number in words is a number") for match in in_words.finditer(left)]
        left = in_words.sub(" ", left)
    for match in _NUMBER.finditer(left):
        found.append((match[0].strip(" .,'’\u00a0"), ""))
    left = _NUMBER.sub(" ", left)
    for match in re.finditer(r"[^\W\d_]*\d\S*", left):
        found.append((match[0], ""))
    for match in re.finditer(r"\S*\s*[%‰]|(?<!\bin )\b(?:percent|per cent)\b", left):
        if not re.search(_MARK, match[0]):  # told below, as a unit that is there twice
            found.append((match[0].strip(), "a share without a figure"))
    return list(dict.fromkeys(found))


def _blank_labs(match: re.Match, known: Known) -> str:
    return " " if all(number in known.labs for number in re.findall(r"\d\d", match[1])) else match[0]


def _blank_version(match: re.Match, known: Known) -> str:
    name = match[1].lower().removeprefix("py") if match[1].lower() == "pytorch" else match[1].lower()
    there = known.versions.get(name, "")
    same = there == match[2] or there.startswith((f"{match[2]}.", f"{match[2]}+"))
    return " " if same else match[0]


def _blank_name(match: re.Match, known: Known) -> str:
    has_digit = any(character.isdigit() for character in match[0])
    return " " if has_digit and plain_name(match[0]) in known.names else match[0]


def changed_figures(text: str, printed: Callable[[str], str]) -> list[str]:
    """Sentences about figures whose value a sign, a digit or a unit beside them changes.

    printed: what the figure behind a mark will look like.
    """
    sentences = []
    for match in _BEFORE.finditer(text):
        sentences.append(
            f"{match[1].strip()!r} stands right before {printed(match[2])} and makes another number of it."
        )
    for match in _BEHIND.finditer(text):
        sentences.append(
            f"{match[2].strip()!r} stands right behind {printed(match[1])}, which is complete: it brings its "
            "own unit."
        )
    return sentences


def own_words(text: str) -> int:
    """How many words of somebody's own a text has: placeholders and marks are none."""
    return len(re.findall(r"[^\W\d_]{2,}", text))


def plain_name(text: str) -> str:
    """`ResNet-101` and `resnet101` are one name."""
    return re.sub(r"[-_. ]", "", text.casefold())
