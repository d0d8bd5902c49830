"""Lab 72: ranks that hang and die, their evidence, and faults that are placed at random.

| of | name | what it is |
|---|---|---|
| ranks that may fail | `play`, `play_ways` | several jobs at once, each on ranks of its own |
| | `Job`, `Given` | a program, what its ranks are dealt, and what watches it; a deal known before |
| | `watch_numbers` | a watcher: the first step and line whose result is no finite number |
| | `close` | ends the process that the ranks are forked from |
| what is found | `Rank`, `Frame`, `Record` | of a rank; a line of its stack; a call of the flight recorder |
| faults | `hang`, `disorder`, `poison`, `shards` | of sections 1, 2, 4, 3: this learner's case of a number |
| | `fresh`, `line_of` | one case of each kind; the number of a program's line |
| mends tried | `Nearby`, `written` | a hang's files with copies; what an epoch wrote beside those |
| | `WISHES`, `as_dealt` | batches on which ranks have to agree; a program that returns them |
| | `expect_epoch`, `expect_agreed`, `expect_in_step` | what is expected of ranks with a mend |
| real ranks | `stall`, `sums_in_another_order` | Horovod's stall check; two tensors in another order |
| | `try_on_ranks`, `train_safely`, `tries` | the learner's mends on a rank; a job that tries one |
| | `three`, `expect_together` | numbers of a gradient; what is expected of that job |
| the gallery | `limit_memory`, `two_nodes`, `use_node`, `three_ports`, `knock`, `meet` | |
| | `drawn`, `shuffled` | a number, an order: this learner's case of a number |
| | `one_of_three` | what three ranks are dealt, one of which gets something else |
| | `expect_diagnosis`, `twice` | what a diagnosis has to be; the job, and as if it were elsewhere |
| shown | `show_program`, `show_stacks`, `show_records`, `show_ends` | |
"""

from support.lab72.diagnosis import expect_diagnosis, twice
from support.lab72.evidence import (
    Frame,
    Rank,
    Record,
    show_ends,
    show_program,
    show_records,
    show_stacks,
)
from support.lab72.faults import (
    Nearby,
    disorder,
    drawn,
    fresh,
    hang,
    line_of,
    one_of_three,
    poison,
    shards,
    shuffled,
    written,
)
from support.lab72.gallery import knock, limit_memory, meet, three_ports, two_nodes, use_node
from support.lab72.nursery import close
from support.lab72.ranks import (
    WISHES,
    as_dealt,
    expect_agreed,
    expect_epoch,
    expect_in_step,
    expect_together,
    stall,
    sums_in_another_order,
    three,
    train_safely,
    tries,
    try_on_ranks,
)
from support.lab72.ward import Given, Job, play, play_ways
from support.lab72.watch import watch_numbers

__all__ = [
    "WISHES",
    "Frame",
    "Given",
    "Job",
    "Nearby",
    "Rank",
    "Record",
    "as_dealt",
    "close",
    "disorder",
    "drawn",
    "expect_agreed",
    "expect_diagnosis",
    "expect_epoch",
    "expect_in_step",
    "expect_together",
    "fresh",
    "hang",
    "knock",
    "limit_memory",
    "line_of",
    "meet",
    "one_of_three",
    "play",
    "play_ways",
    "poison",
    "shards",
    "show_ends",
    "show_program",
    "show_records",
    "show_stacks",
    "shuffled",
    "stall",
    "sums_in_another_order",
    "three",
    "three_ports",
    "train_safely",
    "tries",
    "try_on_ranks",
    "twice",
    "two_nodes",
    "use_node",
    "watch_numbers",
    "written",
]
