"""Labs for the tests of the tour: the tiny lab, and what can go wrong with it."""

from __future__ import annotations

from tests.authoring import tiny_lab

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
    """Put the lab into a checkout, with its wrong-answers file, which holds the parameters of the
    tests."""
    changes = {
        "90_tiny": stem,
        "90": stem[:2],
        "Needs: cpu · Ranks: 2 · Minutes: 5": f"Needs: {needs} · Ranks: 1 · Minutes: {minutes}",
        "Write the sum.": (
            "A formula, $p_k = e^{z_k} / \\sum_j e^{z_j}$, and some `code with $dollars$`."
        ),
        "return a + b": f"return {answer}",
        "# Printing.\n": f"{IMPORTS}{measure}\n",
    }
    tiny_lab.put(checkout, tiny_lab.changed(changes), stem)
