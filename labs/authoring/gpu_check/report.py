"""REPORT.md: one page of what the check found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labkit.timing import digits

from authoring.gpu_check.plan import AIMS
from authoring.gpu_check.proof import CONTRADICTION, CPU, NOT_SHOWN, ON_DEVICE, STAGED, Finding
from authoring.gpu_check.trial import Tried

WORDS = {
    ON_DEVICE: "on the device",
    STAGED: "staged",
    CPU: "**CPU: a failure**",
    CONTRADICTION: "**contradiction: a failure**",
    NOT_SHOWN: "not shown",
}


@dataclass
class LabRun:
    """How a lab went. not_run: why not, in a sentence. failed: what went wrong. findings: of its tensors."""

    stem: str
    seconds: float = 0.0
    not_run: str = ""
    failed: str = ""
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_failure(self) -> bool:
        return bool(self.failed) or any(finding.failed for finding in self.findings)


@dataclass
class Check:
    """All that one run of gpu-check found. facts: rows of the machine. horovod: how its compilation went."""

    when: str
    minutes: float
    seconds: float
    facts: Sequence[tuple[str, str]]
    gpus: int
    device: str
    tried: Tried
    labs: Sequence[LabRun]
    flops: Sequence[Mapping[str, object]]
    horovod: str = ""
    peak_sentence: str = ""

    @property
    def failures(self) -> list[str]:
        """What failed, a sentence each."""
        sentences = [f"test {name}: {why}" for name, why in self.tried.failed.items()]
        for lab in self.labs:
            sentences += [f"lab {lab.stem}: {lab.failed}"] if lab.failed else []
            failed = [finding for finding in lab.findings if finding.failed]
            for (verdict, because), ways in grouped(failed).items():
                sentences.append(f"lab {lab.stem}: {verdict}, {because} ({ways})")
        return sentences


def render(check: Check) -> str:
    """The page, in Markdown."""
    rehearsal = check.device == "cpu"
    head = "# A rehearsal of the GPU check, on the CPU" if rehearsal else "# What ran on a GPU"
    minutes = f"{check.seconds / 60:.1f} of {check.minutes:g} minutes"
    parts = [head, f"{check.when}, {minutes}, written by `make gpu-check`."]
    if rehearsal:
        parts.append("Nothing here was measured on a GPU: every proof of a device has to fail.")
    parts += [
        _verdict(check),
        "## The machine",
        _table(("", ""), check.facts),
        *([check.horovod] if check.horovod else []),
        "## Tests marked gpu",
        _tests(check.tried),
        "## Where the tensors were",
        _placements(check),
        "## Flop/s",
        _flops(check),
    ]
    return "\n\n".join(parts) + "\n"


def _verdict(check: Check) -> str:
    failures = check.failures
    if not failures:
        return "No test failed, and no lab's tensors were where they should not be."
    lines = [f"**Failures: {len(failures)}.**", *[f"- {sentence}" for sentence in failures]]
    return "\n".join(lines)


def _tests(tried: Tried) -> str:
    counts = f"{len(tried.passed)} passed, {len(tried.failed)} failed, {len(tried.skipped)} skipped."
    lines = [f"{counts} {tried.sentence}".strip()]
    lines += [f"- skipped: {name}: {why}" for name, why in tried.skipped.items()]
    return "\n".join(lines)


def _placements(check: Check) -> str:
    """Grouped by lab and verdict: ways that went alike share a line."""
    rows = []
    for lab in check.labs:
        took = f"{lab.seconds:.0f} s" if lab.seconds else ""
        if lab.not_run:
            rows.append((lab.stem, took, "not run", lab.not_run))
        if lab.failed:
            rows.append((lab.stem, took, "**failed**", lab.failed))
        for (verdict, because), ways in grouped(lab.findings).items():
            if (verdict, ways) == (NOT_SHOWN, "one GPU"):
                rows.append((lab.stem, took, "not shown on one GPU", because))
            else:
                rows.append((lab.stem, took, WORDS[verdict], f"{ways}: {because}"))
    note = (
        "*On the device*: the library was given GPU memory, or nothing was sent. *Staged*: the tensors were "
        "on the GPU and went through host memory on their way."
    )
    return f"{note}\n\n{_table(('lab', 'took', 'tensors', 'what says so'), _merged(rows))}"


def grouped(findings: Sequence[Finding]) -> dict[tuple[str, str], str]:
    """(verdict, why) -> the ways of a lab that went so, in short."""
    ways: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        ways.setdefault((finding.verdict, finding.because), []).append(finding.what)
    return {
        story: "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for story, names in ways.items()
    }


def _merged(rows: list[tuple]) -> list[tuple]:
    """A lab's name and time on the first of its rows only."""
    merged = []
    last = None
    for stem, took, *rest in rows:
        merged.append(("", "", *rest) if stem == last else (stem, took, *rest))
        last = stem
    return merged


def _flops(check: Check) -> str:
    rows = []
    for row in check.flops:
        if "not_run" in row:
            rows.append((row["net"], row["way"], "", "", "", f"not run: {row['not_run']}"))
            continue
        share = f"{row['share']:.0%}" if "share" in row else ""
        aim = f"{row['aim']:.0%}" if "aim" in row else ""
        doubt = "" if row["seconds_steady"] else "unsteady"
        speed = digits(row["flops_per_s"] / 1e12)
        rows.append((row["net"], f"{row['way']}, {row['kind']}", speed, share, aim, doubt))
    note = (
        "Medians; the product of matrices and each net's steps took turns, and a share is of the product "
        "beside it. A step is forward, loss, backward and update; an update's flops are not counted."
    )
    if check.peak_sentence:
        note += f" {check.peak_sentence}"
    heads = ("", "how", "Tflop/s", "share of the product", "aim", "")
    return f"{note}\n\n{_table(heads, rows)}" if rows else note


def best(flops: Sequence[Mapping[str, object]], net: str) -> Mapping[str, object] | None:
    """The fastest way of a net that was measured."""
    measured = [row for row in flops if row.get("net") == net and "share" in row]
    return max(measured, key=lambda row: row["share"], default=None)


def aims_in_words(flops: Sequence[Mapping[str, object]]) -> list[str]:
    """For the screen: each net's best share beside its aim."""
    lines = []
    for net, aim in AIMS.items():
        row = best(flops, net)
        said = f"{row['share']:.0%} of the product of matrices ({row['way']})" if row else "not measured"
        lines.append(f"{net}: {said}; the aim is {aim:.0%}")
    return lines


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
