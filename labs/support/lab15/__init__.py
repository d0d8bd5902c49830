"""What lab 15 needs beside its exercises: images in four formats, slow storage, trial shards, threads.

| name | what it gives |
|---|---|
| `write`, `from_files`, `from_shards` | the images on disk, in four formats; readers of files and of shards |
| `decode`, `batches`, `trainer` | a JPEG's pixels; batches of them; a training step |
| `Storage` | a stand-in for storage of a chosen bandwidth and latency |
| `trial_shards` | shards whose members stand in several orders, some of them missing |
| `counted` | items that are counted as they are taken |
| `read_ahead`, `read_all`, `read_slowly`, `read_with_error`, `read_and_stop` | what prefetch does |
| `through_one_pipe`, `show_ranks` | real ranks that read from one storage; their rates |
| `compare_opens`, `compare_formats`, `compare_loaders` | files and shards; all formats; DataLoader |
| `classes_in_batch` | how well a shuffle buffer mixes |
| `knob`, `lanes` | a training over storage of several bandwidths; three of its steps as lanes |
"""

from support.lab15.cases import trial_shards
from support.lab15.checks import counted, read_ahead, read_all, read_and_stop, read_slowly, read_with_error
from support.lab15.files import from_files, from_shards, write
from support.lab15.pipeline import batches, decode, trainer
from support.lab15.ranks import through_one_pipe
from support.lab15.show import (
    classes_in_batch,
    compare_formats,
    compare_loaders,
    compare_opens,
    knob,
    lanes,
    show_ranks,
)
from support.lab15.storage import Storage

__all__ = [
    "Storage",
    "batches",
    "classes_in_batch",
    "compare_formats",
    "compare_loaders",
    "compare_opens",
    "counted",
    "decode",
    "from_files",
    "from_shards",
    "knob",
    "lanes",
    "read_ahead",
    "read_all",
    "read_and_stop",
    "read_slowly",
    "read_with_error",
    "show_ranks",
    "through_one_pipe",
    "trainer",
    "trial_shards",
    "write",
]
