"""The exercise engine. Lab 01 shows it first.

For labs, offered by `labkit` itself too:

    check       `check("23.1", answer)`; check.case(words): what is being tried just now
    expect      expect(condition, sentence), and .equal, .close, .unchanged, .between
    hint        the next hint of an exercise
    predict     keep guesses; predict.recall, predict.compare, predict.right

For the kit's other parts:

    plain       a tensor or variable of any framework as NumPy can compare it
"""

from labkit.checks.exercise import check
from labkit.checks.expectations import expect, plain
from labkit.checks.hints import hint
from labkit.checks.predictions import predict
