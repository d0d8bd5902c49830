"""The tiny lab with all that the guide reads: a figure, questions, wrong answers, and records."""

from __future__ import annotations

import json

from tests.authoring import tiny_lab

STEM = "91_guided"
IDEA = """\
# ### 1. Sums
# A sum is one number. It costs $n - 1$ additions. A third sentence.
#
# ### Exercise 91.1 · Add
# Add them up, as [lab 90](90_tiny.ipynb) does. *(beginner)*
#
# ![Two numbers become one sum](91_sum.svg)
#
# *A sum, as `add` does it.*
"""
TWICE = "    both = numbers\n    both = add(both, both)\n    return both\n"
MEASURE = """\
# %% [markdown]
# ### Measure
# What does it cost?

# %%
plots.bars({"yours": 1.0}, title=f"Sums of {length} grow")

# %% [markdown]
# **Explain.** You should see one bar. It is short.
#
# Is it long for more numbers?
# <details><summary>Answer</summary>
#
# Yes: it grows.
# </details>

# %% [markdown]
# ### What you take away
# - Sums add.
#
# ## Going further (optional)
# More.

# %%
plots.loss({"more": [1.0]}, title="A last one")
"""
LAB = tiny_lab.changed(
    {
        "90_tiny": STEM,
        "90": "91",
        "Tiny lab": "Guided",
        "Two small functions,\n# to see how a lab is put together.": "Why one does it.\n#\n# In short.",
        "(1) add, (2) scale.": "(1) add, (2, for those who have time) scale `x`, and\n# (3) stop.",
        "Needs: cpu · Ranks: 2 · Minutes: 5": "Needs: mpi · Ranks: 4 · Minutes: 30",
        "lab, predict": "lab, plots, predict",
        '# ### Exercise 91.1 · Add "them" up\n# Write the sum.\n': IDEA,
        "Every number times `factor`.": "Every number times `factor`. *(advanced)*",
        "    return [factor * number for number in numbers]\n": TWICE,
        "# %% [markdown]\n# ### What you take away\n# - Sums.\n": MEASURE,
    }
)
WRONG = """\
from tests.labs.wrong_answers import Wrong

SMALL = dict(length=2)
MINUS = "a - b"
# fmt: off
WRONG = [
    Wrong("91.1", "takes <away>", "a + b", MINUS, "expected 3, got -1"),
    Wrong("91.1", "forgets b", "return a + b", "return a", "expected 3, got 1"),
    Wrong("91.1", "hangs", "return a + b", "while True: pass", says="without an end", hangs=True),
    Wrong("91.2", "three times", ["both = numbers", "add(both, both)"], ["both = []", "both"], "got 6"),
]
"""
SUPPORT = '\n\ndef said(place):\n    return f"{place}: It is got 6 in {place}, not less."\n'
TIMETABLES = """\
timetables:
  short:
    title: Short
    for: Everybody
    level: beginner
    days:
      - begins: "09:50"
        ends: "10:30"
        slots:
          - {lecture: Why, minutes: 10}
          - {lab: "91"}
figures:
  "91": Sums of
must_do:
  "91": ["91.2", "91.1"]
"""


def records() -> str:
    """Two records of one machine, and one of another."""
    first = {"lab": STEM, "result": "sum", "unit": "s", "seconds": 0.5}
    first |= {"utc": "2026-01-02T03:04:00+00:00", "revision": "aaaabbbbcccc", "changed": False}
    first |= {"cpu": "A CPU", "cores": 2, "device": "cpu"}
    later = {**first, "utc": "2026-01-02T03:05:00+00:00", "seconds": 0.25}
    other = {**first, "cpu": "Another", "device": "cuda:0", "seconds": 0.125}
    return "".join(json.dumps(entry) + "\n" for entry in (first, later, other))


def put(checkout) -> None:
    """Write the lab and what belongs to it into a checkout."""
    tiny_lab.put(checkout, LAB, STEM)
    texts = {
        f"tests/labs/wrong_answers/{STEM}.py": WRONG,
        f"solutions/results/{STEM}.jsonl": records(),
        "labs/authoring/guide/timetables.yaml": TIMETABLES,
        "labs/support/lab91.py": tiny_lab.CHECKS.replace("90", "91") + SUPPORT,
        "docs/TEACHING.md": "## Before the class, and after it\n\nType `make hub`.\n\n## More\n",
        "notebooks/figures/91_sum.svg": "<svg/>",
        "pyproject.toml": '[project]\nversion = "9.9.9"\n',
    }
    for name, text in texts.items():
        path = checkout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
