"""What the generator refuses in a lab's source, by file and line."""

from __future__ import annotations

import pytest
from authoring import generate
from labkit import paths
from labkit.errors import LabError

from tests.authoring import tiny_lab
from tests.checkout import Checkout

BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"
RETURN = "    return a + b\n"
CHECK = '\n\n# %%\ncheck("90.1", add)'
HEADING, PRINT = "### Exercise 90.2 · Scale a list", 'print("length is", length, name)'
LOOP = "for length in range(3):\n    pass\n"
MAIN = 'if __name__ == "__main__":\n    print()'

# What is replaced, by what, the text at the line that is named, what is said.
WRONG_SOURCES = [
    (BEGIN + RETURN + END, BEGIN + RETURN, "### BEGIN SOLUTION", "never closed"),
    (BEGIN + RETURN, RETURN, "### END SOLUTION", "without its partner"),
    (BEGIN + RETURN, BEGIN + BEGIN + RETURN, "### BEGIN SOLUTION\n    return", "never nested"),
    (RETURN + END, RETURN + "    " + END, "### END", "another indent"),
    (RETURN + END, END, "### END", "no answer between"),
    (BEGIN + RETURN, "    ### BEGIN SOLUTION please\n" + RETURN, "### BEGIN", "alone on its line"),
    (BEGIN + RETURN + END, RETURN, 'check("90.1", add)', "no answer between"),
    ('before = "kept"\n', "### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n",
     "### BEGIN SOLUTION\nx", "outside of a function"),
    ("# Write the sum.", "# ### BEGIN SOLUTION", "# ### BEGIN SOLUTION", "in prose"),
    ('check("90.2", scale)', 'check("90.1", scale)',
     'check("90.1", scale)', "heading of exercise 90.2"),
    ('check("90.2", scale)', "print()", HEADING, 'has no check: add a cell `check("90.2", …)`'),
    (END + CHECK, END + '\n\ncheck("90.1", add)', 'check("90.1", add)', "a cell of its own"),
    (HEADING, "### Exercise 90.3 · Scale a list",
     'check("90.2", scale)', "stands under the heading of exercise 90.3"),
    (HEADING, "### Exercise 90.2: Scale a list",
     "### Exercise 90.2:", "a heading of an exercise reads"),
    (HEADING, "### Build · exercise 90.2", 'before = "kept"', "below the check of exercise 90.1"),
    ("Hint 2: nearly the answer</summary>\n#\n# `a", "Answer</summary>\n#\n# `a",
     "### Exercise 90.1", "needs 2 to 4 hints"),
    ("# <details><summary>Hint 1: how?", "# <details><summary>Hint 2: how?",
     HEADING, "misnumbered"),
    ("Hint 1: how?</summary>\n#\n", "Hint 1: how?</summary>\n", "# <details><summary>Hint 1: how",
     "an empty line follows `</summary>`"),
    ("# A list comprehension.\n#\n# </details>\n", "# A list comprehension.\n",
     "### Exercise 90.2", "has no `</details>`"),
    (PRINT, PRINT + "\n# **Explain.** Three.", "# **Explain", "prose stands in a cell of code"),
    ("Ranks: 2", "Rank: 2", "# Needs", "ends with a line such as"),
    ("Needs: cpu", "Needs: cpu, luck", "# Needs", "'luck' is not one of cpu, mpi"),
    ("Before: -", "Before: lab 3", "# Needs", "ends with a line such as"),
    ("Ranks: 2", "Ranks: 0", "# Needs", "ends with a line such as"),
    ("beginner", "easy", "# Needs", "a level is one of beginner"),
    ("# # 90 Tiny lab", "# # 91 Tiny lab", "# # 91", "begins with the title"),
    ("**You will be able to**", "You will", "# # 90", "After this lab you"),
    ('lab.start("90_tiny")', 'lab.start("91_tiny")', "# # 90", "second cell holds"),
    ("length = 10**3", "length = len(name)", "length = len", "a parameter is one line"),
    ('# %% tags=["parameters"]', "# %%", "# %% [markdown]", "exactly one cell"),
    ("predict(\n", "guess = predict(\n", "guess = ", "top level"),
    ('    "90.1",\n    total', '    "90.7",\n    total',
     "predict(\n", "an exercise here: 90.1, 90.2"),
    ("total=3.5", "total=1 + len(name)", "predict(\n", "the value is a literal"),
    (PRINT, "%matplotlib inline", "%matplotlib", "not plain Python"),
    (PRINT, "input()", "input()", "stop a batch job"),
    (PRINT, MAIN, "if __name__", "from top to bottom"),
    (PRINT, LOOP, "for length", "'length' is a parameter"),
    (PRINT, "def length():\n    pass\n", "def length", "'length' is a parameter"),
    (PRINT, "import math as length\n", "import math", "'length' is a parameter"),
    ("# %%\n# Printing", "# %% a title\nprint", "# %% a title", "a cell begins with"),
    ("# %% [markdown]\n# # 90", "# ---\n# x: y\n# ---\n\n# %% [markdown]\n# # 90",
     "# ---", "no header above it"),
    (", hint,", ",", "from labkit import check, lab", "a failed check recommends hint"),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One checkout for all: nothing is ever written into it."""
    return Checkout(tmp_path_factory.mktemp("source") / "checkout")


@pytest.mark.parametrize(("old", "new", "at", "says"), WRONG_SOURCES)
def test_a_wrong_source_is_refused_by_file_and_line(place, monkeypatch, old, new, at, says):
    monkeypatch.setattr(paths, "root", lambda: place.root)
    assert old in tiny_lab.LAB
    text = tiny_lab.LAB.replace(old, new, 1)
    tiny_lab.put(place, text)
    with pytest.raises(LabError) as caught:
        generate.write_all()
    assert says in str(caught.value)
    line = text[: text.index(at)].count("\n") + 1
    assert str(caught.value).startswith(f"solutions/90_tiny.py:{line}: ")
    assert not (place.root / "labs" / "90_tiny.py").exists()
