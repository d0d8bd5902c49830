"""What a lab's prose points to: other labs, documentation and papers, concept figures.

In a source stand `lab 23`, `[Horovod](@horovod)`, `[@goyal2017]` and `![A ring of …](23_ring.svg)`.
The keys are those of solutions/bibliography.yaml, which is the one list of external links. The
first use of a word that another lab introduces leads to the glossary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from labkit import labfile
from labkit.errors import LabError

BIBLIOGRAPHY = "solutions/bibliography.yaml"
FIGURES = "notebooks/figures"
GLOSSARY = "labs/GLOSSARY.md"
SHORTEST_ALT = 5  # words

_KEY = re.compile(r"\]\(@(\w+)\)|\[@(\w+)\]")
_FIGURE = re.compile(r"!\[([^\]]*)\]\((\d\d_\w+\.svg)\)")
_LINKED = re.compile(r"(?<!!)\[([^\]]*)\]\((?:@\w+|[^)]*)\)")
_ADDRESS = re.compile(r"https?://\S+")
_CODE = r"```.*?```|^ {4,}\S[^\n]*|`[^`\n]*`"
# A hint is displayed from the source, as it stands there.
_HINT = r"<details>\s*<summary>\s*Hint.*?</details>"
# Where no lab is linked: hints, code, headings, the line of facts, links, tags, formulas.
_LEFT = (
    rf"{_HINT}|{_CODE}|^#[^\n]*|^Needs:[^\n]*|!?\[[^\]]*\]\([^)]*\)"
    r"|<summary>.*?</summary>|<[^>]+>|\$[^$]+\$"
)
_NEXT = r"(?:,\s+(?:and\s+)?|\s+(?:and|or|to)\s+|–)"
_LABS = rf"\b(?P<word>[Ll]abs?)\s+(?P<numbers>\d\d(?:{_NEXT}\d\d)*)\b"
_LAB = re.compile(f"{_LEFT}|{_LABS}", re.MULTILINE | re.DOTALL)
_TERM = re.compile(r"^## (?P<term>.+)\n(?:.+\n|\n(?!## ))*?.*\[(?P<lab>\d\d)\]", re.MULTILINE)
# Everyday words, too: in a lab that does not introduce them they mostly mean something else.
_EVERYDAY = {"batch", "decode", "eager", "expert", "overlap", "padding", "progress", "stage"}


@cache
def bibliography(root: Path) -> Mapping[str, Mapping]:
    """Key -> title and url of documentation; of a paper authors, venue and year, too."""
    import yaml

    return yaml.safe_load((root / BIBLIOGRAPHY).read_text(encoding="utf-8"))


def reference(entry: Mapping) -> str:
    """An entry as *Further reading* cites it, with a period at its end."""
    linked = f"[{entry['title']}]({entry['url']})"
    if "authors" not in entry:
        return f"{linked}."
    printed = [entry["venue"]] if "venue" in entry else []
    return ", ".join([entry["authors"], f"*{linked}*", *printed, f"{entry['year']}."])


def expand(text: str, stem: str, root: Path) -> str:
    """The prose with all links written out. Raises LabError for what does not exist.

    root: the checkout. A figure is named by a path that is right from notebooks/ and from work/.
    """
    bare = _ADDRESS.search(_without_code(text))
    if bare:
        raise LabError(
            f"{bare[0]} stands in the text: give it a key in {BIBLIOGRAPHY}, and write"
            " [words](@key), or [@key] for the whole reference."
        )
    text = _cited(text, root)
    text = _FIGURE.sub(lambda found: _figure(found, root), text)
    stems = {each[:2]: each for each in labfile.stems(root) if each != stem}

    def link(found: re.Match) -> str:
        if found["word"] is None:
            return found[0]
        return _labs(found["word"], found["numbers"], stems)

    return _LAB.sub(link, text)


@cache
def glossary(root: Path) -> Mapping[str, str]:
    """Term -> number of the lab that introduces it; empty where there is no glossary."""
    path = root / GLOSSARY
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {found["term"]: found["lab"] for found in _TERM.finditer(text)}


def to_glossary(texts: Iterable[str], stem: str, root: Path) -> list[str]:
    """A lab's prose, cell by cell, with a link at the first use of each word of the glossary.

    Left out are words that this lab introduces, or prints in bold as its own.
    """
    texts = list(texts)
    if not glossary(root):
        return texts
    whole = "\n".join(texts).lower()
    terms = {}
    for term, lab in glossary(root).items():
        own = lab == stem[:2] or term in _EVERYDAY or f"**{term.lower()}" in whole
        terms[term] = terms[term[0].upper() + term[1:]] = None if own else term
    words = "|".join(re.escape(term) for term in sorted(terms, key=len, reverse=True))
    pattern = re.compile(
        rf"{_LEFT}|\*\*.*?\*\*|^\|[^\n]*|(?<![\w-])(?P<term>{words})s?(?![\w-])",
        re.MULTILINE | re.DOTALL,
    )
    linked = set()

    def link(found: re.Match) -> str:
        term = terms[found["term"]] if found["term"] else None
        if term is None or term in linked:
            return found[0]
        linked.add(term)
        return f"[{found[0]}](../{GLOSSARY}#{term.replace(' ', '-')})"

    return [pattern.sub(link, text) for text in texts]


def cited(text: str) -> set[str]:
    """The keys that a text uses."""
    return {inline or whole for inline, whole in _KEY.findall(_without_code(text))}


def figures(text: str) -> list[str]:
    """The files of the figures that a text shows."""
    return [name for _, name in _FIGURE.findall(text)]


def plain(text: str) -> str:
    """The prose without links and figures, for pages that stand elsewhere; citations stay keys."""
    return _LINKED.sub(r"\1", _FIGURE.sub("", text))


def _without_code(text: str) -> str:
    return re.sub(_CODE, "", text, flags=re.MULTILINE | re.DOTALL)


def _cited(text: str, root: Path) -> str:
    def write(found: re.Match) -> str:
        key = found[1] or found[2]
        try:
            entry = bibliography(root)[key]
        except KeyError:
            raise LabError(
                f"@{key} is not in {BIBLIOGRAPHY}: add it there, with title and url."
            ) from None
        return f"]({entry['url']})" if found[1] else reference(entry)

    return _KEY.sub(write, text) if "@" in text else text


def _figure(found: re.Match, root: Path) -> str:
    alt, name = found.groups()
    if not (root / FIGURES / name).exists():
        raise LabError(
            f"there is no {FIGURES}/{name}: draw it in labs/authoring/figures/lab{name[:2]}.py,"
            " then `make labs`."
        )
    if len(alt.split()) < SHORTEST_ALT:
        raise LabError(f"the alt text of {name} has to say in a sentence what the figure shows.")
    return f"![{alt}](../{FIGURES}/{name})"


def _labs(word: str, numbers: str, stems: Mapping[str, str]) -> str:
    """`lab 23`, or several numbers, each a link; the word belongs to the link of a single one."""
    if re.fullmatch(r"\d\d", numbers):
        stem = stems.get(numbers)
        return f"[{word} {numbers}]({stem}.ipynb)" if stem else f"{word} {numbers}"

    def link(found: re.Match) -> str:
        stem = stems.get(found[0])
        return f"[{found[0]}]({stem}.ipynb)" if stem else found[0]

    linked = re.sub(r"\d\d", link, numbers)
    return f"{word} {linked}"
