"""FACE of labkit.record."""

from labkit.record.jsonl import append, read
from labkit.record.provenance import batch_job, cpu_model
from labkit.record.records import add, entries, load, path, reference

__all__ = [
    "add",
    "append",
    "batch_job",
    "cpu_model",
    "entries",
    "load",
    "path",
    "read",
    "reference",
]
