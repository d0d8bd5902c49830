"""Lab 80: a scaling study on record, and a report of it in which every number has its record.

| name | what it is |
|---|---|
| `begin`, `Notes` | what is studied; its records, written down as it goes on |
| `all_of` | the numbers that a report may hold, by the names that stand in curly brackets |
| `print_figures` | names and values of all that may stand there |
| `assemble`, `publish` | the text of report.md; it and its page written, or refused |

`records` reads records and says what is wrong with them; `figures` computes from them; `words`
reads a text as its reader does; `report` brings the three together; `page` renders, with
`rubric.md` for whoever marks. The checks stand in `checks`; `make report` is
`python -m support.lab80`.
"""

from support.lab80.figures import all_of
from support.lab80.notes import Notes
from support.lab80.page import assemble, print_figures, publish
from support.lab80.steps import begin

__all__ = ["Notes", "all_of", "assemble", "begin", "print_figures", "publish"]
