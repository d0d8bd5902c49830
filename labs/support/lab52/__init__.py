"""Lab 52: published scaling points, a fit of the learner's step-time model, steps of this machine, tables.

| of | name | what it is |
|---|---|---|
| points | `Row` | one published run, or one that is asked for, with what the model needs |
| | `published`, `read` | the kit's table; one of the same columns, whose first line names COLUMNS |
| | `SEEN` | the systems of the kit's table that the fit may see |
| | `at`, `ten_times` | a system with another number of GPUs; a row that is spoilt |
| fit | `fit`, `Learned` | the numbers of a model that suit rows best |
| | `without_each` | the same once more without each system |
| this machine | `measure_here`, `Here` | a link, and steps with and without DDP |
| | `table_here`, `run_here`, `BUCKET_HERE` | layers of their net; their row; bytes of their buckets |
| shown | `print_systems`, `print_rows`, `print_rivals`, `draw` | predicted against published |
| answers tried | `SMALL`, `BUCKETS`, `forwards` | a net of three layers, its buckets, and wrong ones |
| | `run_of`, `LEARNED` | a made-up row; made-up numbers of a model |
| | `Exchange`, `Step`, `expect_errors` | what is expected of `exchange`, `step`, `errors` |
"""

from support.lab52.cases import (
    BUCKETS,
    LEARNED,
    SMALL,
    forwards,
    run_here,
    run_of,
    ten_times,
)
from support.lab52.checks import Exchange, Step, expect_errors
from support.lab52.fits import Learned, fit, without_each
from support.lab52.here import BUCKET_HERE, Here, measure_here, table_here
from support.lab52.rows import COLUMNS, SEEN, Row, at, published, read
from support.lab52.show import draw, print_rivals, print_rows, print_systems

__all__ = [
    "BUCKETS",
    "BUCKET_HERE",
    "COLUMNS",
    "LEARNED",
    "SEEN",
    "SMALL",
    "Exchange",
    "Here",
    "Learned",
    "Row",
    "Step",
    "at",
    "draw",
    "expect_errors",
    "fit",
    "forwards",
    "measure_here",
    "print_rivals",
    "print_rows",
    "print_systems",
    "published",
    "read",
    "run_here",
    "run_of",
    "table_here",
    "ten_times",
    "without_each",
]
