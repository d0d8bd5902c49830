"""The tour: labs that run, fail, hang or cannot run here; the report; what is left when it is
stopped."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from authoring import tour, wrong_answers
from authoring.tour import FAILED, RAN, SKIPPED
from labkit.errors import LabError

from tests.authoring import tiny_lab
from tests.helpers import awaited, marked

MEASURE = """\
plots.loss({"mine": [3.0, 2.0, 1.0]}, title="A curve")
for i in range(length):
    record.add("pace", unit="images/s", rate=1000.5 + i, batch=i)"""
PROBE = """\
def sleep():
    open({folder!r} + f"/started-{{time.time()}}", "w").close()
    time.sleep(300)


launch.run(sleep, ranks=2)"""
IMPORTS = "import time\n\nfrom labkit import launch, plots, record\n\n"


def write_lab(checkout, stem, *, needs="cpu", minutes=5, answer="a + b", measure="pass"):
    """The tiny lab, and what can go wrong with it."""
    changes = {
        "90_tiny": stem,
        "90": stem[:2],
        "Needs: cpu · Ranks: 2 · Minutes: 5": f"Needs: {needs} · Ranks: 1 · Minutes: {minutes}",
        "Write the sum.": "A formula, $p_k = \\sum_j e^{z_j}$, and some `code with $dollars$`.",
        "return a + b": f"return {answer}",
        "# Printing.\n": f"{IMPORTS}{measure}\n",
    }
    tiny_lab.put(checkout, tiny_lab.changed(changes), stem)


ENDS = [  # a lab, how it ends, and the sentence about it
    ("10_good_lab", RAN, "$"),
    ("11_wrong_answer", FAILED, r"✗ 11.1 add\(1, 2\): expected 3, got 4"),
    ("12_too_slow", FAILED, r"It took longer than 0 minutes\.$"),
    ("13_not_here", SKIPPED, ".*login node"),
    ("14_own_error", FAILED, "IndexError: list index out of range$"),
    ("15_no_lab", FAILED, "solutions/15_no_lab.py:"),
]


@pytest.mark.slow
def test_a_tour_with_every_kind_of_lab(checkout, tmp_path):
    write_lab(checkout, "10_good_lab", measure=MEASURE)
    write_lab(checkout, "11_wrong_answer", answer="a + b + 1")
    write_lab(checkout, "12_too_slow", minutes=0, measure="time.sleep(300)")
    write_lab(checkout, "13_not_here", needs="slurm")
    write_lab(checkout, "14_own_error", measure="[][0]")
    (checkout.root / "solutions/15_no_lab.py").write_text("# %% [markdown]\n# nothing\n")
    environment = {"SLURM_JOB_ID": "", "LABKIT_HOME": ""}

    done = checkout.python("-m", "authoring", "tour", "--small", timeout=500, env=environment)
    assert done.returncode == 1, done.stderr
    out = checkout.root / "report"
    assert re.search(r"✓ ran     10_good_lab +\d+\.\d s of 5 min\n", done.stdout)
    assert "1 of 6 labs ran" in done.stdout
    assert "skipped: 13_not_here" in done.stdout
    assert done.stdout.rstrip().endswith("Report: report/index.html")

    labs = {lab["stem"]: lab for lab in json.loads((out / "tour.json").read_text())["labs"]}
    assert list(labs) == [stem for stem, *_ in ENDS]
    for stem, status, sentence in ENDS:
        assert labs[stem]["status"] == status, stem
        assert re.match(sentence, labs[stem]["sentence"] or ""), labs[stem]["sentence"]
    records = (out / "home/records/10_good_lab.jsonl").read_text().splitlines()
    assert len(records) == 10, "the parameters of the tests' runs"
    assert not (checkout.root / ".labkit").exists(), "the learner's own state is untouched"

    index = (out / "index.html").read_text()
    assert 'href="10_good_lab.html"' in index
    assert 'href="11_wrong_answer.html"' in index, "a failed lab's page shows where it failed"
    assert 'href="13_not_here.html"' not in index
    assert index.count('src="data:image/png;base64,') == 1
    page = (out / "10_good_lab.html").read_text()
    assert page.count('class="math"') == 1
    assert "code with $dollars$" in page
    assert 'src="data:image/png;base64,' in page
    for text in (index, page):
        assert "<script" not in text
        assert not re.search(r"""(?:src|href)=["'](?!data:|#|[\w.]+\.html["'])""", text)
        assert not re.search(r"https?://(?!www\.w3\.org)", text)
        assert "@import" not in text


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_tour_that_is_stopped_leaves_no_process(checkout, tmp_path, number):
    write_lab(checkout, "10_endless", needs="mpi", measure=PROBE.format(folder=str(tmp_path)))
    mark = f"LABKIT_TOUR_TEST={tmp_path.name}-{number}"
    name, _, value = mark.partition("=")
    env = {**os.environ, "PYTHONPATH": str(checkout.root / "labs"), name: value}
    process = subprocess.Popen(
        [sys.executable, "-m", "authoring", "tour"],
        cwd=checkout.root,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        awaited(lambda: len(list(tmp_path.glob("started-*"))) == 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()[1]
        assert len(marked(mark)) >= 5, "tour, lab, kernel, two ranks"
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        if number != signal.SIGKILL:
            assert process.returncode == 130
            assert "what it had started has ended" in said
            assert "Traceback" not in said
        awaited(lambda: not marked(mark), 20 if number == signal.SIGKILL else 1)
    finally:
        process.kill()
        process.communicate()


def test_a_folder_that_is_no_report_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(LabError, match="holds something else than an earlier report"):
        tour.fresh_folder(tmp_path)
    with pytest.raises(LabError, match="is a file"):
        tour.fresh_folder(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").exists()


def test_parameters_of_small_runs(checkout):
    text = "from x import y\n\nSMALL = {'length': 1 << 16}\nSMALL |= {'sizes': (1,)}\nWRONG = []\n"
    (checkout.root / "tests/labs/wrong_answers/10_x.py").write_text(text)
    assert wrong_answers.read(checkout.root, "10_x")["SMALL"] == {"length": 65536, "sizes": (1,)}
    assert wrong_answers.read(checkout.root, "11_y")["SMALL"] == {}
