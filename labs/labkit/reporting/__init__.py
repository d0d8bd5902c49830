"""A report of a scaling study, in which every number has its record. Lab 80 writes it.

| name | what it is |
|---|---|
| `problems` | what a report's text says that no record supports, and what it lacks: a sentence each |
| `write`, `write_pdf` | one HTML page with all provenance, and a PDF of it where there is Chromium |
| `Study`, `load`, `reference` | the records of a study: of the learner, and of the kit beside it |
| `Entry`, `study_named_in` | a record with its file and line; the study that a text is about |
| `all_of`, `sentences`, `BLOCKS` | what may stand in curly brackets: numbers, words, tables and plots |
| `Figure`, `FORMULAS`, `ONES` | a number with its formula and records; the formulas by name |
| `SECTIONS`, `ROWS` | the sections that a report has; the rubric that it is marked with |
| `LAB` | the lab whose records these are |

`study` reads records and says what is wrong with them; `figures` computes from them; `words` reads a text as
its reader does; `check` brings the three together; `page` renders with `pictures` and `rubric`.
"""

from labkit.reporting.check import BLOCKS, SECTIONS, problems, study_named_in
from labkit.reporting.figures import FORMULAS, ONES, Figure, all_of, sentences
from labkit.reporting.page import write, write_pdf
from labkit.reporting.rubric import ROWS
from labkit.reporting.study import LAB, Entry, Study, load, reference

__all__ = [
    "BLOCKS",
    "FORMULAS",
    "LAB",
    "ONES",
    "ROWS",
    "SECTIONS",
    "Entry",
    "Figure",
    "Study",
    "all_of",
    "load",
    "problems",
    "reference",
    "sentences",
    "study_named_in",
    "write",
    "write_pdf",
]
