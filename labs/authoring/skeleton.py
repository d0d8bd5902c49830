"""`make new LAB=66_my_topic`: a small complete lab to start from, with its wrong answers."""

from __future__ import annotations

from pathlib import Path

from labkit import labfile, paths
from labkit.errors import LabError

from authoring import generate
from authoring.source import STEM

LAB = '''\
# %% [markdown]
# # {number} {title}
#
# One sentence: what the learner builds here, and why it matters.
#
# **You will be able to** (1) write one thing, (2) predict another, (3) tell when it is the wrong tool.
#
# Needs: cpu · Ranks: 1 · Minutes: 10 · Before: -

# %%
from labkit import check, expect, lab, predict, timing

lab.start("{stem}")

# %% tags=["parameters"]
length = 100_000  # numbers in the list

# %% [markdown]
# Say what the problem is before what the tool is. Two or three sentences.
#
# ### Predict
# How many additions does the sum of n numbers take? Write it for n = 5.

# %%
predict("{number}.1", additions_of_5=4)  # a number

# %% [markdown]
# ### Exercise {number}.1 · Add the numbers up
# Write `total(numbers)` without `sum`. About 4 lines. Of no numbers the total is 0.
#
# <details><summary>Hint 1: where does it begin?</summary>
#
# With a total of 0, before the first number.
#
# </details>
#
# <details><summary>Hint 2: nearly the answer</summary>
#
# A loop over the numbers, and `result += number` in it.
#
# </details>


# %%
def total(numbers):
    """The sum of a list of numbers; 0 for an empty one."""
    ### BEGIN SOLUTION
    result = 0
    for number in numbers:
        result += number
    return result
    ### END SOLUTION


# %%
with check("{number}.1"):
    for count in (0, 1, 2, 5):
        numbers = [3.5 * place + 1 for place in range(count)]
        expect.close(total(numbers), sum(numbers), f"the total of {{count}} numbers")

# %% [markdown]
# ### Measure

# %%
print(timing.measure(lambda: total(range(length))))
predict.compare("{number}.1", additions_of_5=4)

# %% [markdown]
# ### Explain
# What does the difference between your prediction and the measurement say?
#
# ### What you take away
# - One thing to remember.
# - A second one.
# - A third one, and the lab that goes on from here.
'''

WRONG_ANSWERS = '''\
"""Wrong answers of lab {number}."""

from tests.wrong_answers import Wrong

SMALL = dict(length=1_000)
WRONG = [
    Wrong("{number}.1", "begins at 1", old="result = 0", new="result = 1", says="the total of 0 numbers"),
    Wrong("{number}.1", "keeps one", old="result += number", new="result = number", says="the total of 2"),
    Wrong("{number}.1", "forgets to return", old="return result", new="pass", says="Does the function"),
]
'''


def new(stem: str, root: Path | None = None) -> list[str]:
    """Write solutions/STEM.py, tests/wrong_answers/STEM.py and the learner's files; return the paths.

    Raises LabError for a stem that is not NN_words, or a number that is taken.
    """
    root = root or paths.root()
    if not STEM.fullmatch(stem):
        raise LabError(
            f"A lab is named by two digits, an underscore and lower-case words (66_my_topic), not {stem!r}."
        )
    taken = [known for known in labfile.stems(root) if known[:2] == stem[:2]]
    if taken:
        raise LabError(f"The number {stem[:2]} is taken by {taken[0]}; numbers are never given twice.")
    fields = {"stem": stem, "number": stem[:2], "title": stem[3:].replace("_", " ").capitalize()}
    written = {f"solutions/{stem}.py": LAB, f"tests/wrong_answers/{stem}.py": WRONG_ANSWERS}
    for name, text in written.items():
        path = root / name
        if path.exists():
            raise LabError(f"{name} exists already; move it away first.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(**fields), encoding="utf-8")
    names = [*written, *generate.write_all(root, only=[stem])]
    print(f"Written: {', '.join(names)}. Edit solutions/{stem}.py, then `make labs`.")
    return names
