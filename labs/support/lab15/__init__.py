"""What labs 15 and 17 need beside their exercises: images in four formats, slow storage, shards, threads.

| name | what it gives |
|---|---|
| `write` | the images on disk, in four formats |
| `from_files`, `from_shards`, `read_shards` | readers of files; of shards, by a given function and without |
| `decode`, `batches`, `trainer` | a JPEG's pixels; batches of them; a training step |
| `Storage` | a stand-in for storage of a chosen bandwidth and latency |
| `trial_shards` | shards whose members stand in several orders, some of them missing |
| `counted` | items that are counted as they are taken |
| `read_ahead`, `read_all`, `read_slowly`, `read_with_error`, `read_and_stop` | what prefetch does |
| `through_one_pipe` | real ranks that read from one storage |
| `compare_opens`, `compare_formats`, `compare_loaders` | files and shards; all formats; DataLoader |
| `classes_in_batch` | how well a shuffle buffer mixes |
| `check_shares`, `storage_for`, `time_steps`, `time_reading` | a training over storage of a set bandwidth |
| `judge`, `show_rounds` | what its rounds say, and which of them may be judged |
| `three_steps` | three of its steps as lanes |
"""

from support.lab15.cases import trial_shards
from support.lab15.checks import counted, read_ahead, read_all, read_and_stop, read_slowly, read_with_error
from support.lab15.files import from_files, from_shards, read_shards, write
from support.lab15.pipeline import (
    batches,
    check_shares,
    decode,
    storage_for,
    time_reading,
    time_steps,
    trainer,
)
from support.lab15.ranks import through_one_pipe
from support.lab15.show import (
    classes_in_batch,
    compare_formats,
    compare_loaders,
    compare_opens,
    judge,
    show_rounds,
    three_steps,
)
from support.lab15.storage import Storage

__all__ = [
    "Storage",
    "batches",
    "check_shares",
    "classes_in_batch",
    "compare_formats",
    "compare_loaders",
    "compare_opens",
    "counted",
    "decode",
    "from_files",
    "from_shards",
    "judge",
    "read_ahead",
    "read_all",
    "read_and_stop",
    "read_shards",
    "read_slowly",
    "read_with_error",
    "show_rounds",
    "storage_for",
    "three_steps",
    "through_one_pipe",
    "time_reading",
    "time_steps",
    "trainer",
    "trial_shards",
    "write",
]
