"""Does a report say only what its records support? `read` tells all places that do not."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

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
    "Cost": {
        r"node_hours_\w+": "node-hours",
        r"energy": "{energy}, which says so where nothing was read",
    },
    "Limits": {},
}
# What goes on a separate line.
TABLES = ("table_strong", "table_weak", "table_parts", "table_cost")
PLOTS = ("plot_strong", "plot_weak")
_HEAD = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


@dataclass
class Reading:
    """A report that was read: its text with a mark for each placeholder, their names, and what is
    wrong."""

    title: str
    text: str
    names: list[str]
    problems: list[str]


def study_named_in(text: str) -> str | None:
    """The study that a report says it is about, in its first lines; None where it says none."""
    head = _HEAD.match(text)
    named = re.search(r"^study: *(\S.*?) *$", head[1], re.MULTILINE) if head else None
    return named[1] if named else None


def read(text: str, study: Study) -> Reading:
    """A report's text, with all its problems."""
    if study.faults:  # of records that do not fit nothing can be computed
        return Reading("", "", [], study.faults)
    known = figures_module.all_of(study)
    sentences = figures_module.sentences(study)
    usable = [*known, *sentences, *TABLES, *PLOTS]
    found: list[str] = []
    named = study_named_in(text)
    if named not in (None, study.name):
        found.append(
            f"The report is about the study {named!r}; these are records of {study.name!r}."
        )
    names: list[str] = []

    def mark(match: re.Match) -> str:
        name = match[1].strip()
        if name not in usable:
            found.append(_unknown(match[0], name, study, usable))
        names.append(name)
        return chr(words.FIRST + len(names) - 1)

    body = _HEAD.sub(lambda match: "\n" * match[0].count("\n"), text)  # lines keep their numbers
    found += words.odd(body)
    marked = words.PLACEHOLDER.sub(mark, re.sub(words.MARK, "", body))
    if re.search("[{}]", marked):
        found.append(
            "A curly bracket is left over: a figure's name stands in one pair, {time_strong_most}."
        )
    seen = words.plain(marked)
    counts = _counts(study)
    for line, number, why in words.bare_numbers(seen, counts, spoken_names(study)):
        reason = f" ({why})" if why else ""
        heads = re.findall(r"^## +(.*?) *$", "\n".join(seen.splitlines()[:line]), re.MULTILINE)
        where = f"Section {heads[-1]!r}, line {line} of the report" if heads else f"Line {line}"
        found.append(
            f"{where}: “{number}” is supported by no record{reason}.{_meant(number, known)}"
        )
    for index, name in enumerate(names):
        alone = re.search(rf"^\s*{chr(words.FIRST + index)}\s*$", marked, re.MULTILINE)
        if name in (*TABLES, *PLOTS) and not alone:
            found.append(f"{{{name}}} becomes a table or a plot: put it on a separate line.")
    # The question is a sentence of the learner's: what it says is looked at as all else.
    for _, number, _ in words.bare_numbers(sentences["question"], counts, spoken_names(study)):
        found.append(f"The question: “{number}” is supported by no record.")

    def printed(character: str) -> str:
        name = names[ord(character) - words.FIRST]
        return f"{{{name}}} (`{known[name].text}`)" if name in known else f"{{{name}}}"

    found += words.changed_figures(seen, printed)
    found += _sections(marked, names)
    title = re.search(r"^# +(\S.*)$", seen, re.MULTILINE)
    if not title:
        found.append("The report has no title: its first line is `# Words`.")
    return Reading(title[1] if title else "", marked, names, list(dict.fromkeys(found)))


def _counts(study: Study) -> dict[str, set[int]]:
    """Noun -> how many of them there were, by the study's records."""
    runs = [entry for kind in KINDS for entry in study.runs[kind].values()]
    ranks = {entry["ranks"] for entry in runs}
    images = {entry["images"] for entry in runs} | {
        entry["images"] // entry["ranks"] for entry in runs
    }
    return {
        "ranks": ranks,
        "gpus": set() if any(entry["device"] == "cpu" for entry in runs) else ranks,
        "nodes": {entry["nodes"] for entry in runs},
        "images": images | {study.setup["images"], study.setup["epoch"]},
        "steps": {len(entry["samples"]) for entry in runs},
        "rounds": {study.setup["rounds"]},
        "cores": {entry["cores"] for entry in runs if study.setup["where"] != "virtual"},
    }


def _unknown(written: str, name: str, study: Study, usable: list[str]) -> str:
    """Why there is no figure of that name, and which were meant, perhaps."""
    match = re.fullmatch(r"(\w+?)_(strong|weak)_(\d+|most)", name)
    if match and f"{match[1]}_{match[2]}_most" in usable:
        ranks = ", ".join(map(str, study.ranks(match[2])))
        return f"{written}: {match[2]} scaling was measured on {ranks} ranks, not on {match[3]}."
    if match and match[1] == "joules":
        return (
            f"{written}: no energy is on record, so no number of it can be given. {{energy}} says"
            " why."
        )
    if match and match[1] == "reference_efficiency":
        return (
            f"{written}: the kit has no such record to compare with. {{reference}} says what it"
            " has."
        )
    near = difflib.get_close_matches(name, usable, 3, 0.6)
    meant = f" Did you mean {' or '.join(f'{{{other}}}' for other in near)}?" if near else ""
    return f"{written}: no record and no formula has this name.{meant}"


def _meant(number: str, known: dict[str, Figure]) -> str:
    """` If you mean {efficiency_weak_4} (93.1 %), write that name` where a figure rounds to that
    number; the nearest of them."""
    typed = re.fullmatch(r"[+\-−–]?(\d+)(\.\d+)?\s*(\D*)", number.replace(",", ""))
    if not typed and number[0].isalpha() and re.search(r"\d", number):
        return " As a name it is unknown: no record holds it. Say what it is without its digits."
    if not typed:
        return " A number is written as the name of a figure, such as {efficiency_strong_most}."
    value = float(typed[1] + (typed[2] or ""))
    places = len(typed[2] or ".") - 1
    near = []
    for name, figure in known.items():
        shown = re.match(r"[+-]?([\d.]+) ?(\S*)", figure.text.replace(",", ""))
        if shown and round(float(shown[1]), places) == value and typed[3].strip() in ("", shown[2]):
            near.append((abs(float(shown[1]) - value), name, figure.text))
    if not near:
        return " No figure of this study has that value: measure it, or leave it out."
    _, name, shown = min(near, key=lambda row: row[0])
    return (
        f" If you mean {{{name}}} ({shown}), write that name: a typed number stays when you"
        " measure again."
    )


def _sections(text: str, names: list[str]) -> list[str]:
    """What headings, figures and words are missing."""
    parts = re.split(r"^## +(.*?) *$", text, flags=re.MULTILINE)
    held = dict(zip(parts[1::2], parts[2::2], strict=True))
    sentences = []
    for heading, needed in SECTIONS.items():
        if heading not in held:
            sentences.append(f"The section `## {heading}` is missing.")
            continue
        part = held[heading]
        used = [names[ord(character) - words.FIRST] for character in re.findall(words.MARK, part)]
        for pattern, what in needed.items():
            if not any(re.fullmatch(pattern, name) for name in used):
                sentences.append(f"The section {heading!r} lacks {what}.")
        if len(re.findall(r"[^\W\d_]{2,}", part)) < FEWEST_WORDS:
            sentences.append(
                f"The section {heading!r} has fewer than {FEWEST_WORDS} words of your own."
            )
        if "…" in part or re.search(r"\bTODO\b", part):
            sentences.append(
                f"The section {heading!r} is not finished: it still holds a prompt (… or TODO)."
            )
    return sentences
