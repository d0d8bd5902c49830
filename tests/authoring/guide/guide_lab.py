"""A small lab with all that the guide reads: a figure, questions, wrong answers, records, a batch script."""

from __future__ import annotations

import json

STEM = "91_guided"
LAB = """\
# %% [markdown]
# # 91 Guided
#
# Why one does it.
#
# **You will be able to** (1) add, (2, for those who have time) scale `x`, and
# (3) stop.
#
# Needs: mpi · Ranks: 4 · Minutes: 30 · Level: beginner · Before: -

# %%
from labkit import check, hint, lab, plots, predict

lab.start("91_guided")

# %% tags=["parameters"]
length = 3  # numbers

# %% [markdown]
# ### 1. Sums
# A sum is one number. It costs $n - 1$ additions. A third sentence.
#
# ### Exercise 91.1 · Add
# Add them up, as [lab 90](90_tiny.ipynb) does. *(beginner)*
#
# <details><summary>Hint 1: what is a sum</summary>
#
# One after the other.
# </details>
# <details><summary>Hint 2: nearly</summary>
#
# `a + …`
# </details>


# %%
def add(a, b):
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION


# %%
check("91.1", add)

# %% [markdown]
# ### Exercise 91.2 · Twice
# By the function above. *(advanced)*
#
# <details><summary>Hint 1: how?</summary>
#
# Add.
# </details>
# <details><summary>Hint 2: nearly</summary>
#
# `add(a, …)`
# </details>


# %%
def twice(a):
    ### BEGIN SOLUTION
    both = a
    both = add(both, a)
    return both
    ### END SOLUTION


# %%
check("91.2", twice)

# %% [markdown]
# ### Measure
# What does it cost?

# %%
plots.bars({"yours": 1.0}, title=f"Sums of {length} grow")

# %% [markdown]
# **Explain.** You should see one bar. It is short.
#
# Is it long for more numbers?
# <details><summary>Answer</summary> Yes: it grows.</details>

# %%
numbers = [twice(add(place, 1)) for place in range(length)]
print(numbers)

# %% [markdown]
# ### What you take away
# - Sums add.
#
# ## For those who have time
# More.

# %%
plots.loss({"more": [1.0]}, title="A last one")
"""
WRONG = """\
from tests.labs.wrong_answers import Wrong

SMALL = dict(length=2)
MINUS = "a - b"
# fmt: off
WRONG = [
    Wrong("91.1", "takes <away>", "a + b", MINUS, "expected 3, got -1"),
    Wrong("91.1", "forgets b", "return a + b", "return a", "expected 3, got 1"),
    Wrong("91.1", "hangs", "return a + b", "while True: pass", says="without an end", hangs=True),
    Wrong("91.2", "three times", ["both = a", "add(both, a)"], ["both = a + a", "add(both, a)"], "got 6"),
]
"""
BATCH = """\
#!/usr/bin/env bash
#SBATCH --nodes=2               # computers
#SBATCH --ntasks-per-node=2     # ranks on each of them
#SBATCH --time=00:15:00         # hours:minutes:seconds
"""
SUPPORT = """\
from labkit import check, expect

@check.exercise("91.1")
def sums(add):
    "`add` gives the sum."
    expect.equal(add(1, 2), 3, "add(1, 2)")

@check.exercise("91.2")
def twofold(twice):
    "`twice` doubles."
    expect.equal(twice(2), 4, "twice(2)")

def said(place):
    return f"{place}: It is got 6 in {place}, not less."
"""
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
    """Two records of one machine, a minute apart, and one of another."""
    common = {"lab": STEM, "result": "sum", "unit": "s", "cpu": "A CPU", "cores": 2, "device": "cpu"}
    common |= {"revision": "aaaabbbbcccc", "changed": False}
    first = {**common, "utc": "2026-01-02T03:04:00+00:00", "seconds": 0.5}
    later = {**common, "utc": "2026-01-02T03:05:00+00:00", "seconds": 0.25}
    other = {**first, "cpu": "Another", "device": "cuda:0", "seconds": 0.125}
    return "".join(json.dumps(entry) + "\n" for entry in (first, later, other))


def put(checkout) -> None:
    """Write the lab and what belongs to it into a checkout."""
    root = checkout.root
    texts = {
        f"solutions/{STEM}.py": LAB,
        f"tests/labs/wrong_answers/{STEM}.py": WRONG,
        f"slurm/{STEM}.sbatch": BATCH,
        f"solutions/results/{STEM}.jsonl": records(),
        "labs/authoring/guide/timetables.yaml": TIMETABLES,
        "labs/support/lab91.py": SUPPORT,
        "docs/TEACHING.md": "## Before the class, and after it\n\nType `make hub`.\n\n## More\n",
        "pyproject.toml": '[project]\nversion = "9.9.9"\n',
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
