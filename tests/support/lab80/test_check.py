"""Reports that say more than their records do, in all the ways that were thought of: each is
refused."""

from __future__ import annotations

import pytest
from labkit.errors import LabError
from support.lab80 import figures, records, report

from tests.support.lab80 import studies

HOOK = "since nobody waits for anybody in the model of lab 80."


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The small study, in a folder of its own."""
    file = studies.put(studies.entries(), tmp_path_factory.mktemp("records") / "80.jsonl")
    return records.load(None, file)


def refused(text: str, study: records.Study) -> str:
    """All sentences about a report."""
    return "\n".join(report.read(text, study).problems)


def with_words(words: str) -> str:
    """The right report with other words at the end of a section."""
    assert studies.REPORT.count(HOOK) == 1
    return studies.REPORT.replace(HOOK, f"{HOOK} {words}")


def test_the_right_report_passes(study):
    assert refused(studies.REPORT, study) == ""


@pytest.mark.parametrize(
    "words",
    [
        "We took 4 ranks of 1 node, 64 images and 2 rounds.",
        "On 1, 2 and 4 ranks it held.",
        (
            "ResNet-101 is a large net, resnet101 in the records; P100 is a GPU, and roce25 is a"
            " network."
        ),
        "Labs 23 and 50 tell why, and lab 34 what follows.",
        "A batch had 256 images on four ranks, and an epoch 1,281,167 images.",
        (
            "The first and the second cause are one: there are two things to say, in percent of a"
            " step."
        ),
        "- a list\n- of {time_weak_4}\n\n1. and\n2. another",
        "| what | seconds |\n|---|---|\n| a step | {time_weak_4} |",
        "It is **much** [slower](https://arxiv.org/abs/1810.01993) (see above).",
        "In the middle half of steps nothing happened; a third cause is the ring.",
        "In one step all ranks wait; no two steps are alike, and only one image is left.",
    ],
)
def test_what_records_say_may_be_said(study, words):
    assert refused(with_words(f"\n\n{words}\n"), study) == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        # Numbers that stand in no record
        ("The efficiency is 97%.", "“97%” is supported by no record"),
        ("It is 0.97 of the ideal.", "“0.97” is supported by no record"),
        (
            "It scales to 1,024 GPUs.",
            "“1,024 GPUs” is supported by no record (the records of this study",
        ),
        ("On 2, 4 and eight ranks it held.", "“eight ranks” is supported by no record"),
        ("It used 12 nodes.", "“12 nodes”"),
        ("A batch had 63 images.", "“63 images”"),
        ("It waits in one or two steps of no two ranks.", "“two steps”"),
        ("It reads one image a second.", "“one image”"),
        # A number that a figure has, typed: the name is told
        ("It is 93.0 % efficient.", "If you mean {efficiency_weak_4} (93.0 %)"),
        # In words
        ("Half of the time is lost.", "“Half of”"),
        ("Two thirds of it are lost.", "“Two thirds”"),
        ("It is three times as fast.", "“three times”"),
        ("A fifth is lost.", "“A fifth”"),
        # Hidden from whoever reads the text, not from whoever reads the page
        ("It is &#57;&#55; efficient.", "holds HTML"),
        ("<!-- 97 --> It is good.", "holds HTML"),
        ('It is [good](https://example.org "97 %").', "“97 %” is supported by no record"),
        ("\n\n97. percent of the ideal\n", "“97” is supported by no record"),
        ("\n\n### 97 of it\n", "“97” is supported by no record"),
        ("It is ９７ of the ideal.", "“97” is supported by no record"),
        ("It is ½ of the ideal.", "“1” is supported by no record"),
        (f"It is {chr(0xF0000)}7 of it.", "“7” is supported by no record"),
        # Names and counts that are none
        ("The efficiency-97 was reached.", "“efficiency-97” is supported by no record"),
        ("A VGG-19 was trained.", "“VGG-19” is supported by no record. As a name it is unknown"),
        ("It took ms12 on H100.", "“H100” is supported by no record"),
        ("By lab 50 % is lost.", "“50 %” is supported by no record"),
        ("We trained 64 images a second.", "“64 images a second” is supported by no record"),
        ("On 10^4 ranks it held.", "is supported by no record"),
        # Figures that are changed by what stands beside them
        ("It is 9{efficiency_weak_4}.", "is supported by no record"),
        ("It is minus {efficiency_weak_4} off.", "makes another number of it"),
        ("It is {time_weak_4}/{time_weak_1}.", "makes another number of it"),
        ("It is {efficiency_weak_4}%.", "brings its own unit"),
        # Names of nothing
        ("It is {{time_weak_4}}.", "A curly bracket is left over"),
        ("It is {}.", "no record and no formula has this name"),
    ],
)
def test_what_no_record_says_is_refused(study, words, says):
    assert says in refused(with_words(words), study)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (f"study: {studies.NAME}", "study: another", "The report is about the study 'another'"),
        ("# A study of ResNet-101", "", "has no title"),
        ("# A study of ResNet-101", "# 97 % on 64 GPUs", "“97 %” is supported by no record"),
        ("{predicted_answer_strong}", "the end", "lacks a prediction"),
        ("{efficiency_weak_most}", "high", "lacks a figure of weak scaling"),
        ("{reference}", "", "lacks {reference}"),
        ("{question}", "How does it scale?", "lacks {question}"),
    ],
)
def test_what_a_report_lacks_is_named(study, old, new, says):
    assert studies.REPORT.count(old) == 1
    assert says in refused(studies.REPORT.replace(old, new), study)


def double(lines: list[dict]) -> None:
    lines.append(dict(studies.measured(lines, "strong", 4)))


def strong(**fields):
    """Change the record of strong scaling on 4 ranks."""
    return lambda lines: studies.measured(lines, "strong", 4).update(fields)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (strong(seconds=0.21), "the median of its own samples"),
        (strong(samples=[]), "lacks its time, its samples"),
        (strong(seconds=float("nan")), "lacks its time, its samples"),
        (strong(wait=None), "lacks its time, its samples or what the time was spent on"),
        (strong(wait=0.0), "but the mean of its samples is"),
        (strong(host="faster"), "differ in `host`"),
        (strong(images=32), "keeps the images of the job the same"),
        (
            lambda lines: studies.measured(lines, "weak", 4).update(images=64),
            "keeps the images of each rank the same",
        ),
        (double, "nobody may choose among them"),
        (
            lambda lines: lines[1].update(utc="2026-11-23T09:00:00.000+00:00"),
            "was made after the first measurement",
        ),
        (lambda lines: lines.pop(1), "There is no prediction of strong scaling on 1 ranks"),
        (lambda lines: [lines.remove(line) for line in lines[-3:]], "no records of weak scaling"),
        (
            lambda lines: lines[0].update(question="How do we get 97 % at last?"),
            "“97 %” is supported by no record",
        ),
    ],
)
def test_records_that_support_nothing_are_refused(change, says):
    assert says in refused(studies.REPORT, studies.study(change))


def test_no_study_is_a_sentence():
    with pytest.raises(LabError, match="no scaling study on record yet"):
        records.load()
    studies.put(studies.entries())
    with pytest.raises(LabError, match="no study 'other' on record. There are 2026"):
        records.load("other")


def test_energy_that_was_read_may_be_said():
    def with_meter(lines: list[dict]) -> None:
        for line in lines:
            if line["result"] in ("strong", "weak"):
                line.update(joules=3.2, meter="RAPL package-0", no_meter=None)

    study = studies.study(with_meter)
    assert refused(with_words("A step takes {joules_strong_4}."), study) == ""
    assert "RAPL package-0" in figures.sentences(study)["energy"]
    assert "no meter" in figures.sentences(studies.study())["energy"]
