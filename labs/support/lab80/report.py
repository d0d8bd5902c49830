"""Does a report say only what its records support? `problems(text, study)`: a sentence for each place."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from labkit import labfile

from support.lab80 import figures as figures_module
from support.lab80 import words
from support.lab80.figures import Figure
from support.lab80.records import KINDS, Study, spoken_names

FEWEST_WORDS = 12  # of one's own in each section
# Heading -> the placeholders of which it needs at least one each, and what they are for, in words.
SECTIONS = {
    "Question": {r"question": "{question}", r"enough": "{enough}, the rule that answers it"},
    "Prediction": {r"predicted_\w+": "a prediction, such as {predicted_efficiency_strong_most}"},
    "Method": {r"method": "{method}"},
    "Strong scaling": {r"answer_strong": "{answer_strong}, which answers the question"},
    "Weak scaling": {r"(time|speedup|efficiency|answer)_weak\w*": "a figure of weak scaling"},
    "Where the time goes": {
        r"(compute|wait|communicate|slower)_\w+": "a part of a step, such as {wait_strong_most}"
    },
    "Prediction against measurement": {r"error_\w+": "an error, such as {error_strong_most}"},
    "Reference": {r"reference": "{reference}"},
    "Cost": {r"node_hours_\w+": "node-hours", r"energy": "{energy}, which says so where nothing was read"},
    "Limits": {},
}
BLOCKS = {
    "table_strong": "the table of strong scaling",
    "table_weak": "the table of weak scaling",
    "table_parts": "the table of what steps are made of",
    "table_cost": "the table of costs",
    "plot_strong": "speed-up of strong scaling against ranks",
    "plot_weak": "efficiency of weak scaling against ranks",
    "plot_parts": "what steps are made of",
}
_HEAD = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


@dataclass
class Reading:
    """A report that was read: HTML with a mark for each placeholder, their names, and what is wrong."""

    title: str
    html: str
    names: list[str]
    problems: list[str]


def study_named_in(text: str) -> str | None:
    """The study that a report says it is about, in its first lines; None where it says none."""
    head = _HEAD.match(text)
    named = re.search(r"^study: *(\S.*?) *$", head[1], re.MULTILINE) if head else None
    return named[1] if named else None


def problems(text: str, study: Study) -> list[str]:
    """A sentence for each thing in a report that this study's records do not support, and that it lacks."""
    return read(text, study).problems


def read(text: str, study: Study) -> Reading:
    """A report's text, with all its problems."""
    if study.faults:  # of records that do not fit nothing can be computed
        return Reading("", "", [], study.faults)
    known_figures = figures_module.all_of(study)
    known_words = figures_module.sentences(study)
    found: list[str] = []
    body = _without_head(text, study, found)
    found += words.odd_characters(body)
    # The question is a sentence of the learner's: what it says is looked at as all else.
    body = body.replace("{question}", f"{{question}}{known_words['question']}")
    names: list[str] = []
    usable = [*known_figures, *known_words, *BLOCKS]

    def mark(match: re.Match) -> str:
        name = match[1].strip()
        if name not in usable:
            found.append(_unknown(match[0], name, study, usable))
        names.append(name)
        return chr(words.FIRST + len(names) - 1)

    marked = words.PLACEHOLDER.sub(mark, body)
    page = words.Page(marked)
    found += page.odd
    if "{" in page.text or "}" in page.text:
        found.append("A curly bracket is left over: a figure's name stands in one pair, {time_strong_most}.")

    def printed(character: str) -> str:
        name = names[ord(character) - words.FIRST]
        figure = known_figures.get(name)
        return f"{{{name}}} (`{figure.text}`)" if figure else f"{{{name}}}"

    # The question's mark says nothing: its words follow.
    text_seen = page.text
    for index, name in enumerate(names):
        if name == "question":
            text_seen = text_seen.replace(chr(words.FIRST + index), "")
    for number, why in words.bare_numbers(text_seen, known_of(study)):
        found.append(_unsupported(number, why, text, known_figures))
    found += words.changed_figures(text_seen, printed)
    found += _sections(page, names)
    title = next((heading for level, heading in page.headings if level == 1), "")
    if not title.strip():
        found.append("The report has no title: its first line is `# Words`.")
    return Reading(title, words.to_html(marked), names, list(dict.fromkeys(found)))


def known_of(study: Study) -> words.Known:
    """Counts, names and versions in a study's records."""
    runs = [entry for kind in KINDS for entry in study.runs[kind].values()]
    ranks = {entry["ranks"] for entry in runs}
    on_cpu = any(entry["device"] == "cpu" for entry in runs)
    images = {entry["images"] for entry in runs} | {entry["images"] // entry["ranks"] for entry in runs}
    counts = {
        "ranks": ranks,
        "gpus": set() if on_cpu else ranks,
        "nodes": {entry["nodes"] for entry in runs},
        "images": images | {study.setup["images"], study.setup["epoch"]},
        "steps": {len(entry["samples"]) for entry in runs if isinstance(entry["samples"], list)},
        "rounds": {study.setup["rounds"]},
        "cores": {entry["cores"] for entry in runs if study.setup["where"] != "virtual"},
    }
    versions = {
        name: str(study.setup[name]) for name in ("python", "torch", "tensorflow", "horovod", "mpi4py")
    }
    labs = {stem[:2] for stem in labfile.stems()}
    return words.Known(counts, spoken_names(study), versions, labs)


def _without_head(text: str, study: Study, found: list[str]) -> str:
    named = study_named_in(text)
    if named is not None and named != study.name:
        found.append(f"The report is about the study {named!r}; these are records of {study.name!r}.")
    return _HEAD.sub("", text)


def _unknown(written: str, name: str, study: Study, usable: list[str]) -> str:
    """Why there is no figure of that name, and which were meant, perhaps."""
    match = re.fullmatch(r"(\w+?)_(strong|weak)_(\d+|most)", name)
    if match and f"{match[1]}_{match[2]}_most" in usable:
        counts = ", ".join(map(str, study.ranks(match[2])))
        return f"{written}: {match[2]} scaling was measured on {counts} ranks, not on {match[3]}."
    if match and match[1] in ("joules", "joules_image"):
        return f"{written}: no energy is on record, so no number of it can be given. {{energy}} says why."
    if match and match[1] in ("reference_efficiency", "difference"):
        return f"{written}: the kit has no such record to compare with. {{reference}} says what it has."
    near = difflib.get_close_matches(name, usable, 3, 0.6)
    meant = f" Did you mean {' or '.join(f'{{{other}}}' for other in near)}?" if near else ""
    return f"{written}: no record and no formula has this name.{meant}"


def _unsupported(number: str, why: str, text: str, known: dict[str, Figure]) -> str:
    """The sentence that names a number, its line, and the figure that was meant, perhaps."""
    head = _HEAD.match(text)
    above = head[0].count("\n") if head else 0  # the lines that name the study are no text
    digits = re.search(r"\d[\d.,]*\d|\d", number)
    sought = digits[0] if digits else number
    lines = enumerate(text.splitlines(), 1)
    line = next((count for count, content in lines if count > above and sought in content), 0)
    where = f"Line {line}: " if line else ""
    meant = _meant(number, known)
    reason = f" ({why})" if why else ""
    return f"{where}“{number}” is supported by no record{reason}.{meant}"


def _meant(number: str, known: dict[str, Figure]) -> str:
    """` If you mean {efficiency_weak_4} (93.1 %), write its name.` where a figure rounds to that number."""
    match = re.fullmatch(r"([+\-−–]?)(\d+)(?:\.(\d+))?\s*(\D*)", number.replace(",", ""))
    if not match:
        return " A number is written as the name of a figure, such as {efficiency_strong_most}."
    value = float(f"{match[2]}.{match[3] or 0}")
    places = len(match[3] or "")
    unit = match[4].strip().replace("percent", "%")
    same = []
    for name, figure in known.items():
        shown = re.fullmatch(r"[+-]?([\d,]+(?:\.\d+)?) ?(\D*)", figure.text)
        if shown and not name.endswith("_most"):
            its = float(shown[1].replace(",", ""))
            if round(its, places) == value and (not unit or shown[2].split(" ")[0] == unit):
                same.append(f"{{{name}}} ({figure.text})")
    if not same:
        return " No figure of this study has that value: measure it, or leave it out."
    return (
        f" If you mean {' or '.join(same[:2])}, write that name: a typed number stays when you measure again."
    )


def _sections(page: words.Page, names: list[str]) -> list[str]:
    """What headings, figures and words are missing."""
    parts: dict[str, str] = {}
    current = ""
    headings = [heading.strip() for level, heading in page.headings if level == 2]
    left = list(headings)
    for line in page.lines:
        if left and line.strip() == left[0]:
            current = left.pop(0)
            parts.setdefault(current, "")
        else:
            parts[current] = parts.get(current, "") + line + "\n"
    sentences = []
    said: dict[str, str] = {}
    for heading, needed in SECTIONS.items():
        if heading not in parts:
            sentences.append(f"The section `## {heading}` is missing.")
            continue
        text = parts[heading]
        used = [names[ord(character) - words.FIRST] for character in text if ord(character) >= words.FIRST]
        for pattern, what in needed.items():
            if not any(re.fullmatch(pattern, name) for name in used):
                sentences.append(f"The section {heading!r} lacks {what}.")
        own = " ".join(re.findall(r"[^\W\d_]+", text.casefold()))
        if own and own in said:
            sentences.append(f"The sections {said[own]!r} and {heading!r} say the same words.")
        said.setdefault(own, heading)
        if words.own_words(text) < FEWEST_WORDS:
            sentences.append(f"The section {heading!r} has fewer than {FEWEST_WORDS} words of your own.")
        if "…" in text or re.search(r"\bTODO\b", text):
            sentences.append(f"The section {heading!r} is not finished: it still holds a prompt (… or TODO).")
    return sentences
