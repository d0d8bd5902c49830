"""labkit.profiling on one process: the parts of a step, spans and marks, table, operators and
trace."""

import json
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labkit import profiling
from labkit.errors import LabError
from labkit.profiling import libraries, spans
from labkit.profiling import parts as step_parts
from labkit.profiling import torch as recorder
from labkit.profiling.spans import EXPLICIT, IN_FLIGHT, OPERATION, Span

PARTS = ["compute", "exposed", "input", "idle"]


@st.composite
def some_spans(draw):
    """Spans with whole times: of three threads, on both layers, nested or not, and in flight."""
    spans = []
    for _ in range(draw(st.integers(0, 12))):
        begin = draw(st.integers(0, 19))
        kind = draw(st.sampled_from(["compute", "communication", "input", "other"]))
        thread = draw(st.sampled_from([IN_FLIGHT, "main", "loader"]))
        layer = draw(st.sampled_from([OPERATION, EXPLICIT]))
        spans.append(Span(kind, begin, begin + draw(st.integers(0, 9)), "", thread, layer))
    return spans


def moment_by_moment(spans, window):
    """The parts by their definition, one unit of time after the other."""
    parts = dict.fromkeys(step_parts.PARTS, 0)
    for moment in range(*window):
        on = {
            span.kind
            for span in spans
            if span.thread == IN_FLIGHT and span.begin <= moment < span.end
        }
        for thread in ("main", "loader"):
            nested = [s for s in spans if s.thread == thread and s.begin <= moment < s.end]
            on |= {max(nested, key=lambda s: (s.layer, s.begin, -s.end)).kind} if nested else set()
        compute, communication = "compute" in on, "communication" in on
        parts["compute"] += compute
        parts["communication"] += communication
        parts["overlapped"] += compute and communication
        parts["exposed"] += communication and not compute
        parts["input"] += "input" in on and not (compute or communication)
        parts["idle"] += not on & {"compute", "communication", "input"}
        parts["step"] += 1
    return parts


def unambiguous(spans):
    """Of spans with the same place in a thread's order, the first alone."""
    return list({(s.thread, s.layer, s.begin, s.end): s for s in reversed(spans)}.values())


@settings(max_examples=300, deadline=None)
@given(some_spans(), st.integers(0, 10), st.integers(1, 20))
def test_parts_are_what_their_definition_says_and_sum_to_the_step(spans, begin, long):
    spans, window = unambiguous(spans), (begin, begin + long)
    parts = step_parts.parts(window, step_parts.busy(spans))
    assert parts == pytest.approx(moment_by_moment(spans, window))
    assert sum(parts[part] for part in PARTS) == pytest.approx(parts["step"])
    assert parts["overlapped"] + parts["exposed"] == pytest.approx(parts["communication"])


def test_operations_own_time_leaves_out_what_they_call():
    spans = [Span("compute", 0, 10, "outer", "main"), Span("compute", 2, 5, "inner", "main")]
    spans.append(Span("communication", 1, 9, "in flight"))
    own = {span.name: seconds for span, seconds in step_parts.own(spans)}
    assert own == {"outer": 7, "inner": 3, "in flight": 8}


def test_threads_nesting_and_requests_in_flight():
    def loads():
        with profiling.span("input", "next batch"):
            time.sleep(0.01)

    def step():
        loader = threading.Thread(target=loads, name="loader")
        with profiling.span("compute", "backward"):
            loader.start()
            begin = time.perf_counter()
            time.sleep(0.01)
            profiling.mark("communication", begin, time.perf_counter(), "bucket 1")
            # Blocking: the thread does not compute.
            with profiling.span("communication", "bucket 2"):
                time.sleep(0.005)
        loader.join()

    profile = profiling.record(step, 4)
    row = profile.table().loc[0]
    names = profile.operators().set_index("name")
    assert set(names.index) == {"backward", "bucket 1", "bucket 2", "next batch"}
    assert row["overlapped"] == pytest.approx(names.loc["bucket 1", "seconds"], rel=1e-6)
    assert row["exposed"] == pytest.approx(names.loc["bucket 2", "seconds"], rel=1e-6)
    assert names.loc["backward", "seconds"] == pytest.approx(row["compute"], rel=1e-6)
    assert row["input"] < 0.5 * names.loc["next batch", "seconds"]  # it loads while others compute
    assert row[PARTS].sum() == pytest.approx(row["step"], rel=0.02)


def test_no_operator_takes_more_than_the_steps_however_uneven_they_are():
    pauses = iter([0, 0.002, 0.002, 0.05])

    def step():
        with profiling.span("compute", "one"):
            time.sleep(next(pauses))

    operators = profiling.record(step, 3, overhead=False).operators().set_index("name")
    assert 0.5 < operators.loc["one", "share"] <= 1


def test_spans_still_open_on_other_threads_count_from_begin_to_end_of_each_step():
    stop = threading.Event()

    def works(kind):
        with profiling.span(kind):
            stop.wait()

    kinds = ("compute", "communication")
    workers = [threading.Thread(target=works, args=(kind,), name="worker") for kind in kinds]
    for worker in workers:
        worker.start()
    try:
        profile = profiling.record(lambda: time.sleep(0.003), 4)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    row = profile.table().loc[0]
    assert row["compute"] == pytest.approx(row["step"], rel=1e-6)
    assert row["overlapped"] == pytest.approx(row["step"], rel=1e-6)
    shares = profile.operators().set_index("name")["share"]
    assert dict(shares) == pytest.approx({"compute": 1, "communication": 1})


def test_overhead_is_seen(monkeypatch):
    recorded = threading.Event()

    class Noted(spans.Recorder):
        def start(self):
            super().start()
            recorded.set()

        def stop(self, begin, end):
            recorded.clear()
            return super().stop(begin, end)

    monkeypatch.setattr(spans, "Recorder", Noted)
    profile = profiling.record(lambda: time.sleep(0.02 if recorded.is_set() else 0.005), 6)
    assert profile.overhead.median > 1.5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: profiling.record(print, 0), "records nothing"),
        (lambda: profiling.record(print, kind="pytorch"), "no kind 'pytorch'; it has spans and to"),
        (lambda: profiling.record(lambda: profiling.record(print), warmup=0), "already recording"),
        (lambda: profiling.mark("communication", 2.0, 1.0, "bucket 1"), "before it begins"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(LabError, match=says):
        call()
    assert profiling.record(time.perf_counter, 1).step.median > 0, "the recording has ended"


def test_the_trace_has_a_track_for_each_thread_and_all_of_the_steps(tmp_path):
    def step():
        begin = time.perf_counter()
        with profiling.span("compute", "forward"):
            time.sleep(0.002)
        middle = time.perf_counter()
        time.sleep(0.001)
        profiling.mark("communication", begin, time.perf_counter(), "a")
        profiling.mark("communication", middle, time.perf_counter(), "b")  # beside it

    profile = profiling.record(step, 3)
    events = json.loads(profile.save(tmp_path / "trace.json").read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tracks = {"steps", "where the time goes", "MainThread", "in flight", "in flight 2"}
    assert set(names.values()) == tracks
    slices = [(names[e["pid"], e["tid"]], e["dur"]) for e in events if e["ph"] == "X"]
    assert {track for track, _ in slices} == tracks
    parts = [seconds for track, seconds in slices if track == "where the time goes"]
    assert sum(parts) == pytest.approx(1e6 * profile.step.samples.sum(), rel=1e-3)


# --- with torch.profiler


def test_the_types_of_its_inputs_tell_a_products_library():
    import torch

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
    seen = recorder.spans_of(events, 0.0, {7: "MainThread"})
    assert [span.library for span in seen] == [row[5] for row in rows]
    parts = step_parts.parts((0, 25e-6), step_parts.busy(seen))
    want = {"compute": 11, "communication": 10, "overlapped": 7, "exposed": 3}
    want |= {"input": 5, "idle": 6, "step": 25}
    assert {part: round(seconds * 1e6) for part, seconds in parts.items()} == want


@pytest.mark.slow
def test_torch_operators_with_their_libraries():
    import torch

    matrix = torch.randn(600, 600)
    net, pictures = torch.nn.Conv2d(8, 16, 3), torch.randn(8, 8, 64, 64)
    took = []

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            time.sleep(0.002)
            return torch.zeros(4)

    loader = iter(torch.utils.data.DataLoader(Slow(), 4))

    def step():
        begin = time.perf_counter()
        next(loader)
        loaded = time.perf_counter()
        for _ in range(4):
            matrix @ matrix
        net(pictures).sum().backward()
        took.append((loaded - begin, time.perf_counter() - loaded))

    profile = profiling.record(step, 6, kind="torch", overhead=False)
    row = profile.table().loc[0]
    loads, computes = np.mean([took[1 + step] for step in profile.middle], axis=0)
    assert row["input"] == pytest.approx(loads, rel=0.25)
    assert row["compute"] == pytest.approx(computes, rel=0.25)
    assert row[PARTS].sum() == pytest.approx(row["step"], rel=0.02)
    operators = profile.operators(50).set_index("name")
    assert operators.loc["aten::mm", "library"] == libraries.torch_blas()
    assert operators.loc["aten::mm", "calls"] == 4
    if torch.backends.mkldnn.is_available():
        assert operators.loc["aten::mkldnn_convolution", "library"] == "oneDNN"
        assert operators.loc["aten::convolution_backward", "library"] == "oneDNN"
    assert profile.clock_error < 0.1 * profile.step.median
