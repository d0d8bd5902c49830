"""Results as JSON lines, with where and how they were measured; safe with many writers and with
killed ones.

| name | what it does |
|---|---|
| `add` | append a result of the current lab, with machine, versions and git revision |
| `reference` | the kit's own records of a lab, to compare with |
| `of_kind` | one kind of result from all labs, as dicts: the learner's or the kit's |
| `path`, `entries` | the file of a lab's records; the records in a file, as dicts |
| `frame` | records in hand as a DataFrame |
| `numbered` | the same with the number of each one's line |
| `BY_MPI` | fields of results of arrays in host memory that travel by MPI, on a GPU machine, too |
| `batch_job`, `cpu_model` | of what a record says on its own: the batch job, the processor |
"""

from labkit.record.provenance import BY_MPI, batch_job, cpu_model
from labkit.record.records import add, entries, frame, numbered, of_kind, path, reference
