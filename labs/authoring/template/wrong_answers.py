"""Mistakes of learners in lab 81: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"length": 1_000}

WRONG = [
    Wrong("81.1", "begins at 1", "result = 0", "result = 1", "the total of 0 numbers"),
    Wrong("81.1", "keeps one", "result += number", "result = number", "the total of 2"),
    Wrong("81.1", "forgets to return", "return result", "pass", "Does the function"),
]
RIGHT = [
    Right("81.1", "from the other end", "for number in numbers", "for number in reversed(numbers)"),
]
