"""A doctor's report with some facts, made up for tests."""

from __future__ import annotations

from labkit.doctor import facts


def report_with(**values) -> dict:
    """A report with these facts: report_with(mpi_version="5.0.2")."""
    report = facts.empty()
    report["machine"]["cores"] = 4
    for name, value in values.items():
        facts.put(report, name.replace("_", ".", 1), value)
    return report
