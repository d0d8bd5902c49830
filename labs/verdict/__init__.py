"""Is my bandwidth normal? A verdict on a communication benchmark: `make verdict FILE=out.txt`.

    print(verdict.of_text(text, machine="h100_ndr"))

| name | what it gives |
|---|---|
| `of_text` | verdicts on all tables of a text, as a report in words |
| `of_file` | the same of a file; LabError with a sentence where it cannot be read |
| `of_record` | the same of one of the kit's records, as `record.add` returns it |
| `verdicts` | the same as `Verdict` objects: word, ratio, confidence, reasons, likeliest causes |

What is typed beside the text, all of it text: machine (of virtual.machines()), or link, nic, nics,
nodes, gpus (ranks of a node) and latency. `readings` finds the tables of nccl-tests, OSU, mpi4py
and the kit's records; `hardware` knows what links reach, with sources (known.yaml); `judge`
compares the two, and `causes` orders what may be wrong.
"""

from verdict.report import of_file, of_record, of_text, verdicts
