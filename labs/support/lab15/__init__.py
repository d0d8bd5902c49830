"""FACE of support.lab15."""

from support.lab15.checks import expect_as_torch, expect_buffer, expect_prefetch, expect_reader, expect_split
from support.lab15.files import from_files, from_shards, write
from support.lab15.inputs import batches, compare_loaders, decode, through_one_pipe, trainer
from support.lab15.show import classes_in_batch, compare_formats, compare_opens, knob, lanes, show_ranks

__all__ = [
    "batches",
    "classes_in_batch",
    "compare_formats",
    "compare_loaders",
    "compare_opens",
    "decode",
    "expect_as_torch",
    "expect_buffer",
    "expect_prefetch",
    "expect_reader",
    "expect_split",
    "from_files",
    "from_shards",
    "knob",
    "lanes",
    "show_ranks",
    "through_one_pipe",
    "trainer",
    "write",
]
