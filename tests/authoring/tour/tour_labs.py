"""Very small labs for the tests of the tour: one that works, and what can go wrong with it."""

from __future__ import annotations

LAB = '''\
# %% [markdown]
# # {number} {title}
#
# A lab for the tests.
#
# **You will be able to** (1) see the tour work.
#
# Needs: {needs} · Ranks: 1 · Minutes: {minutes} · Level: beginner · Before: -

# %%
import time

from labkit import check, hint, lab, launch, plots, record

lab.start("{number}_{stem}")

# %% tags=["parameters"]
length = 3  # numbers

# %% [markdown]
# A formula, $p_k = e^{{z_k}} / \\sum_j e^{{z_j}}$, and some `code with $dollars$`.
#
# ### Exercise {number}.1 · Double it
# Twice as much.
# <details><summary>Hint 1: how?</summary>
#
# Add it to itself.
#
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `x + …`
#
# </details>


# %%
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return {answer}
    ### END SOLUTION


# %%
check("{number}.1", double)

# %%
{measure}

# %% [markdown]
# ### What you take away
# - Tours.
'''
CHECKS = '''\
from labkit import check, expect

@check.exercise("{number}.1")
def doubled(double):
    """`double` gives twice its argument."""
    expect.equal(double(2), 4, "double(2)")
'''
MEASURE = """\
plots.loss({"mine": [3.0, 2.0, 1.0]}, title="A curve")
for i in range(length):
    record.add("pace", unit="images/s", rate=1000.5 + i, batch=i)"""
PROBE = """\
def sleep():
    open({folder!r} + f"/started-{{time.time()}}", "w").close()
    time.sleep(300)


launch.run(sleep, ranks=2)"""


def write_lab(checkout, stem, *, needs="cpu", minutes=5, answer="x + x", measure="pass", small="length=2"):
    """Put the lab into a checkout, with its wrong-answers file, which holds the parameters of the tests."""
    number, name = stem.split("_", 1)
    title = name.replace("_", " ").capitalize()
    text = LAB.format(
        number=number, stem=name, title=title, needs=needs, minutes=minutes, answer=answer, measure=measure
    )
    (checkout.root / f"solutions/{stem}.py").write_text(text)
    (checkout.root / f"labs/support/lab{number}.py").write_text(CHECKS.format(number=number))
    wrong = f"from tests.labs.wrong_answers import Wrong\n\nSMALL = dict({small})\nWRONG = [Wrong]\n"
    (checkout.root / f"tests/labs/wrong_answers/{stem}.py").write_text(wrong)
