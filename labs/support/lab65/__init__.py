"""What lab 65 needs beside its exercises: one job in five ways, on real processes, and scores of trainings.

WAYS, ALONE      the ways by name, and one device by framework
scripts          the texts of a way's two scripts: for one device and for many
alone_of, groups which one-device run a way is compared with; whom a decision may be among
measure          train in each way on real processes, kill one, and watch the others: Runs
Run, Report      what was seen of all processes of a training, and of one
after_death      of each way: how the others ended, how soon, and what was left
last_words       of a way: why one of the others ended, as it said itself
apart            how far a way's losses are from those of one device
COLUMNS          what is measured of each way, and whether more of it is better
evidence         from all that: {column: {way: (lowest, highest)}}
show             the evidence as a table
Decision         a line of the learner's decision table
not_ruled_out    the ways that evidence leaves, for checks
made_up          runs whose start and speed are known, for checks
trainings        lab 34's trainings to an accuracy: seconds by way, batch and seed
"""

from support.lab65.cases import made_up
from support.lab65.evidence import (
    COLUMNS,
    Decision,
    after_death,
    apart,
    evidence,
    last_words,
    not_ruled_out,
    show,
)
from support.lab65.processes import Report, Run, measure
from support.lab65.scores import trainings
from support.lab65.ways import ALONE, WAYS, alone_of, groups, scripts

__all__ = [
    "ALONE",
    "COLUMNS",
    "WAYS",
    "Decision",
    "Report",
    "Run",
    "after_death",
    "alone_of",
    "apart",
    "evidence",
    "groups",
    "last_words",
    "made_up",
    "measure",
    "not_ruled_out",
    "scripts",
    "show",
    "trainings",
]
