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
    profile = profiling.record(
        lambda: (whole @ whole, half @ half), 3, kind="torch", overhead=False
    )
    used = [[s.library for s in spans if s.name == "aten::mm"] for spans in profile.ranks[0].spans]
    assert used == 3 * [
        [libraries.torch_operator("aten::mm", (kind,))[2] for kind in ("float", "c10::BFloat16")]
    ]


def test_a_gpus_trace_tells_its_kernels():
    """Events in the form that torch.profiler gives kernels; made by hand, as no GPU was at hand."""
    kernel = {"cat": "kernel", "ph": "X", "pid": 0}
    events = [
        {"cat": "cpu_op", "ph": "X", "name": "aten::mm", "ts": 0, "dur": 2, "tid": 7, "args": {}},
        {**kernel, "name": "sm90_xmma_gemm_f32f32_tn", "ts": 1, "dur": 10, "tid": 7},
        {
            **kernel,
            "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "ts": 5,
            "dur": 10,
            "tid": 20,
        },
        {**kernel, "name": "void cudnn::winograd_nonfused", "ts": 11, "dur": 1, "tid": 7},
        {
            **kernel,
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD (Pinned -> Device)",
            "ts": 20,
            "dur": 5,
            "tid": 7,
        },
    ]
    spans = recorder.spans_of(events, 0.0, {7: "MainThread"})
    assert [span.library for span in spans] == [
        libraries.torch_blas(),
        "cuBLAS",
        "NCCL",
        "cuDNN",
        "CUDA",
    ]
    parts = step_parts.parts((0, 25e-6), step_parts.busy(spans))
    assert {part: round(seconds * 1e6) for part, seconds in parts.items()} == {
        "compute": 11,
        "communication": 10,
        "overlapped": 7,
        "exposed": 3,
        "input": 5,
        "idle": 6,
        "step": 25,
    }
