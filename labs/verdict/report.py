"""Verdicts in words, with the table that they rest on."""

from __future__ import annotations

import json
from pathlib import Path

from labkit.errors import LabError
from labkit.timing import digits, human

from verdict.causes import likeliest
from verdict.hardware import TYPED, choose
from verdict.judge import FASTER, NONE, SLOWER, Verdict, judge
from verdict.readings import Reading, read

LARGEST = 20 << 20  # bytes of a file
MOST_TABLES = 8
MOST_ROWS = 12
TOOLS = "nccl-tests (text or -J file), OSU's benchmarks, mpi4py.bench pingpong or the kit's records"


def of_file(path: str | Path, **typed: str) -> str:
    """The report on a file. LabError, a sentence, where it cannot be read."""
    return of_text(text_of(path), **typed)


def text_of(path: str | Path) -> str:
    """The text of a file; LabError with a sentence for all that is none."""
    if str(path) == "-":
        raise LabError("verdict reads a file: save the output first, all_reduce_perf … > out.txt.")
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LabError(f"{path} cannot be read: {reason}.") from None
    if len(content) > LARGEST:
        raise LabError(f"{path} has more than {LARGEST >> 20} MiB: cut out the benchmark's tables.")
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")  # a text of Windows
    if b"\0" in content and not wide:
        raise LabError(f"{path} is a binary file, and not what a benchmark printed.")
    return content.decode("utf-16" if wide else "utf-8", errors="replace")


def verdicts(text: str, **typed: str | None) -> list[Verdict]:
    """A verdict on each table of a text. LabError where `typed` will not do."""
    unknown = sorted(set(typed) - set(TYPED))
    if unknown:
        raise LabError(f"verdict does not know {unknown[0]!r}; it takes {', '.join(TYPED)}.")
    given = {name: str(value) for name, value in typed.items() if value is not None}
    choose(Reading("no table"), given)  # what is typed wrongly is said for any text
    return [judge(reading, choose(reading, given)) for reading in read(text)]


def of_text(text: str, **typed: str) -> str:
    """The report on all tables of a text."""
    found = verdicts(text, **typed)
    if not found:
        return f"No verdict: there is no table of {TOOLS} in this text."
    return of_verdicts(found)


def of_verdicts(found: list[Verdict]) -> str:
    """All tables with their verdicts, in words; of very many the first."""
    texts = [of_verdict(verdict) for verdict in found[:MOST_TABLES]]
    left_out = len(found) - len(texts)
    if left_out:
        texts.append(f"{left_out} more tables are not shown: put them into a file of their own.")
    return "\n\n".join(texts)


def of_record(entry: dict, **typed: str) -> str:
    """The report on one of the kit's records, as record.add returns it."""
    return of_text(json.dumps(entry), **typed)


def of_verdict(verdict: Verdict) -> str:
    """One table with its verdict, in words."""
    lines = [_title(verdict)]
    if verdict.expectation:
        lines += [*_table(verdict), *_expectation(verdict)]
    lines += [*verdict.reading.uneven[:4], sentence(verdict), *verdict.reasons]
    if verdict.word == SLOWER:
        lines.append("Likeliest causes:")
        lines += [f"  {place}. {cause}" for place, cause in enumerate(likeliest(verdict), 1)]
    return "\n".join(lines)


def sentence(verdict: Verdict) -> str:
    """The verdict in one sentence, with its confidence."""
    if verdict.word == NONE:
        return "No verdict."
    because = f", because {'; '.join(verdict.doubts)}" if verdict.doubts else ""
    confidence = f"(confidence: {verdict.confidence}{because})"
    if verdict.word == FASTER:
        return f"Verdict: {verdict.word} {confidence}."
    if verdict.measured is None:
        return f"Verdict: {verdict.word}, by the latency of short messages {confidence}."
    what = verdict.expectation.what
    return (
        f"Verdict: {verdict.word}, since the longest calls run at {verdict.ratio:.0%} of the speed"
        f" that is known of {what} {confidence}."
    )


def _title(verdict: Verdict) -> str:
    reading, nodes = verdict.reading, verdict.hardware.nodes
    where = f"{verdict.ranks or '?'} ranks on {nodes} node{'s' if nodes > 1 else ''}"
    gpu = f", {reading.gpu}" if reading.gpu else ""
    more = f" ({reading.title})" if reading.title else ""
    return f"{reading.tool}: {reading.test}{more}, {where}{gpu}"


def _table(verdict: Verdict) -> list[str]:
    """A line for each size: time, both bandwidths, the share of the bound, and what decides."""
    rows = [row for row in verdict.reading.rows if row.size]
    step = max(1, -(-len(rows) // MOST_ROWS))
    lines = [f"{'bytes':>12} {'time':>10} {'algbw':>8} {'busbw':>8}  of the bound  decided by"]
    for row in rows[::-1][::step][::-1]:
        share = verdict.bus(row) / verdict.expectation.bound
        decides = "latency" if verdict.of_bytes(row) < verdict.floor else "bandwidth"
        lines.append(
            f"{row.size:>12} {human(row.seconds):>10} {verdict.algbw(row) / 1e9:>8.2f}"
            f" {verdict.bus(row) / 1e9:>8.2f}  {f'{share:.0%}' if share else '?':>12}  {decides}"
        )
    return lines if rows else []


def _expectation(verdict: Verdict) -> list[str]:
    found, average = verdict.expectation, verdict.reading.average
    if found.bound == float("inf"):
        return []
    lines = [
        f"Bound: {found.what}, {digits(found.bound / 1e9)} GB/s in one direction, of which"
        f" {digits(found.reached / 1e9)} are known to be reached ({found.source})."
    ]
    if verdict.best:
        lines.append(f"Nearest closed form: {verdict.best}.")
    if verdict.measured and 0 < average < 0.9 * verdict.measured:
        lines.append(
            f"The printed average of {digits(average / 1e9)} GB/s is over all sizes, short ones"
            " included, so compare the largest sizes with the link."
        )
    return lines
