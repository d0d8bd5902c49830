"""Lab 69's support: what the trace's spans say, and how much of a gather computing hides."""

from __future__ import annotations

import threading

import pytest
from labkit import profiling
from labkit.profiling.spans import Span
from support import lab69


def test_operators_of_this_thread_count_once_and_the_engine_does_not():
    here = threading.current_thread().name
    spans = [
        Span("compute", 0.0, 9.0, "autograd::engine::evaluate_function: MmBackward0", here),
        Span("compute", 1.0, 3.0, "aten::linear", here),
        Span("compute", 2.0, 3.0, "aten::addmm", here),
        Span("compute", 4.0, 5.0, "aten::copy_", "another"),
        Span("communication", 2.0, 6.0, "gloo:all_gather", "another"),
        Span("communication", 6.0, 7.0, "gloo:all_reduce", "another"),
        Span("compute", 8.0, 9.0, "void gemm", "GPU 0 stream 7"),
    ]
    rows = lab69.rows_of(spans)
    assert rows["computes"] == [(1.0, 3.0), (8.0, 9.0)]
    assert rows["gathers"] == [(2.0, 6.0)]
    assert rows["reduces"] == [(6.0, 7.0)]
    hidden = profiling.common(rows["gathers"], rows["computes"])
    assert profiling.length(hidden) == pytest.approx(1.0)
