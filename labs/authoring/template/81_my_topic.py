# %% [markdown]
# # 81 My topic
#
# One sentence: what the learner builds here, and why it matters.
#
# **After this lab you can** (1) write one thing, (2) predict another, (3) tell when it is the wrong
# tool.
#
# Needs: cpu · Ranks: 1 · Minutes: 10 · Level: beginner · Before: -

# %%
from labkit import check, hint, lab, predict, timing

lab.start("81_my_topic")

# %% tags=["parameters"]
length = 100_000  # numbers in the list

# %% [markdown]
# ## The problem
# Say what the problem is before what the tool is. Two or three sentences.
#
# ### Predict
# How many additions does the sum of n numbers take? Write it for n = 5.

# %%
predict("81.1", additions_of_5=4)  # a number

# %% [markdown]
# ### Exercise 81.1 · Add the numbers up
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
check("81.1", total)

# %% [markdown]
# ### Measure

# %%
print(timing.measure(lambda: total(range(length))))
predict.compare("81.1", additions_of_5=4)

# %% [markdown]
# ### Explain
# What does the difference between your prediction and the measurement say?
#
# ### What you take away
# - One thing to remember.
# - A second one.
# - A third one, and the lab that goes on from here.
