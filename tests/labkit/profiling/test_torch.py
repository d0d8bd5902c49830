"""labkit.profiling with torch.profiler: input types, and the events of a GPU's trace."""

from __future__ import annotations

import torch
from labkit import profiling
from labkit.profiling import libraries
from labkit.profiling import parts as step_parts
from labkit.profiling import torch as recorder


def test_the_types_of_its_inputs_tell_a_products_library():
    whole = torch.ones(64, 64)
    half = whole.to(torch.bfloat16)

    def step():
        return whole @ whole, half @ half

    profile = profiling.record(step, 3, kind="torch", overhead=False)
    used = [[s.library for s in spans if s.name == "aten::mm"] for spans in profile.ranks[0].spans]
    types = ("float", "c10::BFloat16")
    assert used == 3 * [[libraries.torch_operator("aten::mm", (each,))[2] for each in types]]


KERNELS = [  # category, name, begin and duration in µs, stream; the library
    ("kernel", "sm90_xmma_gemm_f32f32_tn", 1, 10, 7, "cuBLAS"),
    ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 10, 20, "NCCL"),
    ("kernel", "void cudnn::winograd_nonfused", 11, 1, 7, "cuDNN"),
    ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 20, 5, 7, "CUDA"),
]


def test_a_gpus_trace_tells_its_kernels():
    """Events in the form that torch.profiler gives kernels; made by hand, as no GPU was at hand."""
    fields = ("cat", "name", "ts", "dur", "tid")
    rows = [("cpu_op", "aten::mm", 0, 2, 7, libraries.torch_blas()), *KERNELS]
    events = [dict(zip(fields, row[:5], strict=True), ph="X", pid=0) for row in rows]
    spans = recorder.spans_of(events, 0.0, {7: "MainThread"})
    assert [span.library for span in spans] == [row[5] for row in rows]
    parts = step_parts.parts((0, 25e-6), step_parts.busy(spans))
    want = {"compute": 11, "communication": 10, "overlapped": 7, "exposed": 3}
    want |= {"input": 5, "idle": 6, "step": 25}
    assert {part: round(seconds * 1e6) for part, seconds in parts.items()} == want
