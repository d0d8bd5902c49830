"""A very small lab with two exercises, for the tests of the generator and of the checks."""

from __future__ import annotations

import subprocess

from labkit import paths

STEM = "90_tiny"
NOTEBOOK, SCRIPT = f"notebooks/{STEM}.ipynb", f"labs/{STEM}.py"
BATCH = f"slurm/{STEM}.sbatch"
WRITTEN = [SCRIPT, NOTEBOOK, BATCH, "README.md", "docs/LABS.md"]

LAB = '''\
# %% [markdown]
# # 90 Tiny lab
#
# Two small functions,
# to see how a lab is put together.
#
# **You will be able to** (1) add, (2) scale.
#
# Needs: cpu · Ranks: 2 · Minutes: 5 · Level: beginner · Before: -

# %%
from labkit import check, hint, lab, predict, world

lab.start("90_tiny")

# %% tags=["parameters"]
length = 10**3  # numbers
name = "ünï"  # a word
sizes = (1, 2)  # two numbers

# %% [markdown]
# ### Predict
# How much is 1 + 2?

# %%
predict(
    "90.1",
    total=3.5,  # a number, for the ä of it
    word="é",  # a word
)

# %% [markdown]
# ### Exercise 90.1 · Add "them" up
# Write the sum.
#
# <details><summary>Hint 1: what is a sum?</summary>
#
# One *after* the other.
#
# </details>
#
# <details><summary>Hint 2: nearly the answer</summary>
#
# `a + …`
#
# </details>


# %%
def add(a, b):
    """The sum."""
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION


# %%
check("90.1", add)

# %%
# Printing.
print("length is", length, name)
predict.compare("90.1", total=add(1, 2), word="é")

# %% [markdown]
# ### Exercise 90.2 · Scale a list
# Every number times `factor`.
# <details><summary>Hint 1: how?</summary>
#
# A list comprehension.
#
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `[factor * …]`
#
# </details>

# %%
before = "kept"


def scale(numbers, factor):
    if not numbers:
        ### BEGIN SOLUTION
        return []
        ### END SOLUTION
    print("scaling")
    ### BEGIN SOLUTION
    return [factor * number for number in numbers]
    ### END SOLUTION


# %%
check("90.2", scale)

# %% [markdown]
# ### What you take away
# - Sums.
'''

CHECKS = '''\
from labkit import check, expect


@check.exercise("90.1")
def sums(add, length):
    """`add` gives the sum of two numbers."""
    expect.equal(add(1, 2), 3, "add(1, 2)")
    expect.equal(add(length, -1), length - 1, "add(length, -1)")


@check.exercise("90.2")
def scaled(scale):
    """`scale` multiplies each number."""
    expect.equal(scale([], 2), [], "scale([], 2)")
    expect.equal(scale([1, 2], 2), [2, 4], "scale([1, 2], 2)")
'''

WRONG = """\
from tests.labs.wrong_answers import Right, Wrong

SMALL = dict(length=10)
WRONG = [
    Wrong("90.1", "takes away", old="a + b", new="a - b", says="expected 3, got -1"),
    Wrong("90.1", "forgets b", old="return a + b", new="return a", says="expected 3, got 1"),
    Wrong("90.1", "forgets to return", old="return a + b", new="a + b", says="Does the function return"),
    Wrong("90.2", "no list", old="return []", new="return None", says="got None"),
    Wrong("90.2", "adds", old="factor * number", new="factor + number", says="expected 2 at [0], got 3"),
    Wrong("90.2", "both", old=["[]", "factor * number"], new=["[1]", "number"], says="expected 0 values"),
]
RIGHT = [
    Right("90.1", "the other way round", old="a + b", new="b + a"),
]
"""


def changed(changes: dict[str, str]) -> str:
    """The lab with these texts in the place of others, one after the other."""
    text = LAB
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def put(checkout, text: str = LAB, stem: str = STEM) -> None:
    """Make `text` the source of a lab in a checkout; the checks and the wrong answers stand beside
    it."""
    number = stem[:2]
    (checkout.root / "solutions" / f"{stem}.py").write_text(text, encoding="utf-8")
    (checkout.root / f"labs/support/lab{number}.py").write_text(
        CHECKS.replace("90", number), encoding="utf-8"
    )
    wrong = WRONG.replace('"90', f'"{number}')
    (checkout.root / f"tests/labs/wrong_answers/{stem}.py").write_text(wrong, encoding="utf-8")


def files(checkout) -> dict[str, bytes]:
    """What the generator has written, by name."""
    return {name: (checkout.root / name).read_bytes() for name in WRITTEN}


def set_aside() -> list[str]:
    """The work that was set aside, by name."""
    folder = paths.home() / "set_aside"
    return sorted(
        str(path.relative_to(folder)).split("/", 1)[1]
        for path in folder.rglob("*")
        if path.is_file()
    )


def commit(root) -> None:
    """All that is there, in a repository of its own."""
    git = "git -c user.name=Ann -c user.email=ann@example.org -c commit.gpgsign=false"
    command = f"git init -q && git add -A && {git} commit -qm All"
    subprocess.run(command, shell=True, cwd=root, check=True, capture_output=True)
