"""check, expect, hint, predict: what the learner reads, and what is kept."""

from __future__ import annotations

import os
import re
import sys
import types

import numpy as np
import pytest
import torch
from labkit import check, expect, hint, journal, lab, paths, predict, timing
from labkit.errors import CheckFailed, LabError, RankFailed

from tests.authoring import tiny_lab
from tests.labkit.checks.tried import tried


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with the tiny lab in the place of the checkout; that lab is the current one."""
    for folder in ("solutions", "labs/support", "tests/labs/wrong_answers"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    monkeypatch.setenv("LABKIT_LAB", tiny_lab.STEM)
    tiny_lab.put(types.SimpleNamespace(root=tmp_path))


def failure(body, number: str = "90.1") -> str:
    """The text of the CheckFailed of a check around body()."""
    with pytest.raises(CheckFailed) as caught:
        tried(number, body)
    assert caught.value.__suppress_context__
    return str(caught.value)


def raised(error: BaseException):
    """A body that raises it."""

    def body():
        raise error

    return body


def mean(numbers):
    return sum(numbers) / len(numbers)


def mean_in_a_case():
    with check.case("for 0 bytes"):
        mean([])


STUB = NotImplementedError('exercise 90.1: Add "them" up')
OF_RANK = RankFailed("rank 2 failed: no  (line 3 in f: x)", rank=2, kind="ValueError")
STUB_OF_RANK = RankFailed(f"rank 2 failed: {STUB}", rank=2, kind="NotImplementedError")
UNSOLVED = r"not solved yet\. Write your code"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda: expect(np.float32(1) > 2, "No."), r'No\.\n        hint\("90\.1"\) shows the next'),
        (lambda: None, "This check looked at nothing"),
        (raised(STUB), UNSOLVED),
        (raised(STUB_OF_RANK), UNSOLVED),
        (raised(NotImplementedError("no kernel")), "NotImplementedError: no kernel"),
        (mean_in_a_case, r"For 0 bytes: ZeroDivisionError: .*  \(line \d+ in mean: return sum"),
        (lambda: np.zeros(3).reshape(2, 2), r"ValueError: cannot reshape .*np\.zeros\(3\)\.resh"),
        (raised(OF_RANK), r"rank 2 failed: no  \(line 3 in f: x\)\n"),
        (lambda: sys.exit(0), r"Your code called exit\(\)"),
    ],
)
def test_a_failure_says_what_is_wrong(tiny, body, says):
    tried("90.1", lambda: expect(True, ""))  # expectations of an earlier check do not count
    assert re.match(f"✗ 90.1  {says}", failure(body))
    assert journal.entry("90.1")["tries"] == 2


def test_a_stub_is_refused_before_anything_runs(tiny):
    ran = []

    def stub():
        ran.append("stub")
        raise NotImplementedError("exercise 90.1: Add them up")

    def left_below():
        expect(ran.append("answer") is None, "")
        return
        raise NotImplementedError("exercise 90.1: Add them up")

    assert re.match(f"✗ 90.1  {UNSOLVED}", failure(stub))
    assert ran == []
    tried("90.1", left_below)
    assert ran == ["answer"]
    assert "✗ 90.2  not solved yet: this needs exercise 90.1" in failure(raised(STUB), "90.2")


def test_ctrl_c_is_no_answer(tiny):
    with pytest.raises(KeyboardInterrupt):
        tried("90.1", raised(KeyboardInterrupt()))
    assert journal.progress() == {}


def test_wrong_number_lists_the_labs_own(tiny):
    for call in (check, hint, predict, predict.recall):
        with pytest.raises(LabError, match=r"no exercise '90\.7' in lab 90_tiny.*90\.1, 90\.2"):
            call("90.7")
    with pytest.raises(LabError, match="in quotes"):
        check(90.1)
    lab.reset_for_tests()
    with pytest.raises(LabError, match="no lab for exercise '55.1'"):
        check("55.1")


def test_hints_come_one_by_one_and_then_the_way_out(tiny, capsys):
    power = tiny_lab.LAB.replace("`a + …`", "`a + 2**0 * …`")
    tiny_lab.put(types.SimpleNamespace(root=paths.root()), power)
    hint("90.1")
    assert capsys.readouterr().out == "Hint 1: what is a sum? (1 of 2)\n\nOne *after* the other.\n"
    assert 'hint("90.1") shows the next hint (2 of 2).' in failure(raised(STUB))
    hint("90.1")
    assert "`a + 2**0 * …`" in capsys.readouterr().out
    assert "`make solve LAB=90 EX=90.1`" in failure(raised(STUB))
    hint("90.1")
    assert capsys.readouterr().out.startswith(
        "No more hints for 90.1. `make solve LAB=90 EX=90.1` puts"
    )
    assert journal.entry("90.1")["hints"] == 2


def test_predictions_are_kept_recalled_and_compared(tiny, capsys):
    predict("90.1", total=3.5, word="é", missing=...)
    out = capsys.readouterr().out
    assert "90.1  your prediction: total = 3.5" in out
    assert "Your guess for missing goes in place of `...`" in out
    assert predict.recall("90.1") == {"total": 3.5, "word": "é"}
    assert predict.recall("90.2") == {}
    predict.compare("90.1", total=np.float64(7), word="é", missing=(1, 2))
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split("  ")[-1] == "yours / measured"
    assert rows[1].split() == ["total", "3.5", "7", "0.5"]
    assert rows[2].split() == ["word", "'é'", "'é'", "the", "same"]
    assert rows[3].split() == ["missing", "none", "[1,", "2]"]
    predict("90.1", sizes=(1, 2))
    predict.compare("90.1", sizes=np.array([1, 2]))
    assert "the same" in capsys.readouterr().out
    # What was counted is right, also in a tensor, which has a method `median`.
    predict.right("90.1", total=torch.tensor(7.0))
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].endswith("yours / right")
    assert rows[1].split() == ["total", "3.5", "7", "0.5"]
    steady = timing.Measurement([2.0, 7.0, 9.0])
    predict.compare("90.1", total=steady)
    assert capsys.readouterr().out.splitlines()[1].split() == ["total", "3.5", "7", "0.5"]
    fresh = type(predict)()
    assert fresh.recall("90.1") == {"total": 3.5, "word": "é", "sizes": [1, 2]}
    with pytest.raises(LabError, match="a number, a word or a tuple"):
        predict("90.1", total=object())
    with pytest.raises(LabError, match="times must be a finite number or a word; this is .*inf"):
        predict("90.1", times=(2.0, float("inf")))
    predict.compare("90.1", total=float("inf"))
    assert capsys.readouterr().out.splitlines()[1].split() == ["total", "3.5", "inf", "0"]
    with pytest.raises(LabError, match="at least one"):
        predict("90.1")


def test_a_folder_that_cannot_be_written_costs_a_sentence(tiny, capsys, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:10]))
    tried("90.1", lambda: expect(True, ""))
    monkeypatch.setenv("LABKIT_HOME", "/dev/null/x")
    tried("90.1", lambda: expect(True, ""))
    captured = capsys.readouterr()
    assert captured.out.count("✓ 90.1") == 2
    full, nowhere = captured.err.splitlines()
    assert full.startswith("Your progress could not be saved: Cannot write the progress to")
    assert "No space left" in full
    assert "/dev/null/x cannot be made" in nowhere
    assert journal.progress() == {}, "nothing is there, and nothing fails"


def test_a_solved_notebook_counts_as_nobodys_progress(tiny, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "/somewhere/solutions/90_tiny.ipynb")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # as `start` changes it
    lab.start(tiny_lab.STEM)
    assert lab.solved()
    tried("90.1", lambda: expect(True, ""))
    assert journal.progress() == {}


def test_ranks_above_0_say_and_store_nothing(tiny, capsys, monkeypatch):
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    tried("90.1", lambda: expect(True, ""))
    predict("90.1", total=3)
    hint("90.1")
    predict.compare("90.1", total=3)
    assert capsys.readouterr().out == ""
    assert journal.progress() == {}
    assert predict.recall("90.1")["total"] == 3, "every rank knows the prediction"
    assert "✗ 90.1  no" in failure(lambda: expect(False, "no"))


# --- a check in the lab's module


@pytest.fixture
def module(tiny, tmp_path, monkeypatch):
    """The module of lab 90, with the check of 90.1."""
    module = types.ModuleType("support.lab90")
    module.__file__ = str(tmp_path / "labs" / "support" / "lab90.py")

    @check.exercise("90.1")
    def adds_up(total, scale):
        """The total of two numbers."""
        with check.case(f"scale {scale}"):
            expect.equal(total([1, 2]), 3 * scale, "the total of 1 and 2")

    module.adds_up = adds_up
    monkeypatch.setitem(sys.modules, "support.lab90", module)
    return module


def lab_calls(line: str, **names) -> None:
    """Run a lab's line where the lab has these names."""
    exec(line, {"check": check, **names})


def test_a_line_tries_the_answer_with_the_lab_s_other_names(module, capsys):
    lab_calls('check("90.1", total)', total=lambda numbers: 2 * sum(numbers), scale=2)
    assert capsys.readouterr().out == '✓ 90.1  Add "them" up\n'
    says = r"✗ 90.1  Scale 3: the total of 1 and 2: expected 9, got 3\."
    with pytest.raises(CheckFailed, match=says):
        lab_calls('check("90.1", total)', total=sum, scale=3)
    assert journal.entry("90.1")["tries"] == 2
    assert journal.entry("90.1")["passed"], "a later failure does not take it away"


def test_what_a_check_misses_is_a_sentence(module):
    with pytest.raises(CheckFailed, match="There is no `scale` yet: run the cells above this one"):
        lab_calls('check("90.1", total)', total=sum)
    with pytest.raises(LabError, match=r"lab90.py has no function for exercise 90\.2"):
        lab_calls('check("90.2", total)', total=sum)


def test_a_check_shows_what_it_tries(module, capsys):
    check.show("90.1")
    assert '"""The total of two numbers."""' in capsys.readouterr().out
    assert module.adds_up.__name__ == "adds_up", "it stays a plain function"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('check(\n    "90.1",\n    total)\n', "There is no `total` yet: run the cells above this"),
        ("print(total)\n", "NameError: name 'total' is not defined"),
    ],
)
def test_a_cell_that_was_not_run_is_a_sentence(checkout, text, says):
    """In a notebook; and in a script, where nothing else is printed."""
    tiny_lab.put(checkout)
    script = checkout.root / "script.py"
    script.write_text(f'from labkit import check, lab\nlab.start("{tiny_lab.STEM}")\n{text}')
    ended = checkout.python(str(script))
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(says)
    shell = checkout.python("-m", "IPython", "--colors=NoColor", "-c", script.read_text())
    assert says in shell.stdout
    assert ("Traceback" in shell.stdout) == ("NameError" in says)


def test_a_long_sentence_is_broken_between_words_in_a_notebook():
    text = "✗ 90.1  " + "several words " * 20 + "\n    as far in as this"
    (text,) = CheckFailed(text)._render_traceback_()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 78
    assert {line.split()[-1] for line in lines[1:-1]} <= {"several", "words"}
    assert lines[-1] == "    as far in as this"
