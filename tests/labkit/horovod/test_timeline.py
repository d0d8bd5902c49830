"""The reader of Horovod's timeline: a real file of Horovod 0.28.1, cut off anywhere, and made-up
ones."""

import json
from pathlib import Path

import pytest
from labkit.errors import LabError
from labkit.horovod import timeline

# Two ranks, three steps, four gradients fused.
FILE = Path(__file__).with_name("horovod_timeline.json")
TEXT = FILE.read_text()
WHOLE = json.loads(TEXT)


def row(pid, tensor):
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": tensor}}


def begin(pid, name, at):
    return {"ph": "B", "name": name, "ts": at, "pid": pid}


def end(pid, at):
    return {"ph": "E", "ts": at, "pid": pid}


def test_a_real_file_says_which_library_carried_which_tensors_and_when():
    events = timeline.read(FILE)
    assert events == WHOLE
    calls = timeline.collectives(events)
    assert [(call.name, call.backend) for call in calls] == [("MPI_ALLREDUCE", "MPI")] * 3
    tensors = [f"allreduce.{layer}.weight" for layer in range(4)]
    assert [sorted(call.tensors) for call in calls] == [tensors] * 3
    assert all(0 < call.seconds < 1 for call in calls)
    assert timeline.backends(events) == {"MPI_ALLREDUCE": 3}
    activities = timeline.activities(events)
    begins = [activity.start for activity in activities]
    assert begins == sorted(begins)
    wanted = ("MPI_ALLREDUCE", "allreduce.3.weight")
    first = next(each for each in activities if (each.name, each.tensor) == wanted)
    assert (first.start, first.seconds) == pytest.approx((3.360249, 0.008154))


def test_a_file_cut_off_anywhere_gives_its_whole_events():
    lengths = set()
    for cut in range(1, len(TEXT), 7):
        events = timeline.parse(TEXT[:cut])
        assert events == WHOLE[: len(events)]
        lengths.add(len(events))
    assert len(lengths) > len(WHOLE) / 2
    assert max(lengths) >= len(WHOLE) - 1
    cut = TEXT[: TEXT.index('"MPI_ALLREDUCE"') + 200]
    (call,) = timeline.collectives(timeline.parse(cut))
    assert (call.seconds, call.tensors[0]) == (None, "allreduce.3.weight"), "it never ended"


def test_tensors_travel_together_only_if_all_begin_before_one_ends():
    rows = [row(pid, f"t{pid}") for pid in (1, 2)]
    name = "NCCL_ALLREDUCE"
    apart = [begin(1, name, 1), end(1, 2), begin(2, name, 2), end(2, 3)]
    # Another thread's event between two tensors of one call.
    other = begin(1, "NEGOTIATE_ALLREDUCE", 1)
    together = [begin(1, name, 1), other, begin(2, name, 1), end(1, 1), end(1, 5), end(2, 5)]
    assert [call.tensors for call in timeline.collectives(rows + apart)] == [["t1"], ["t2"]]
    assert [call.tensors for call in timeline.collectives(rows + together)] == [["t1", "t2"]]
    of_no_length = [event for _ in range(3) for event in (begin(1, name, 1), end(1, 1))]
    assert timeline.backends([*rows, *of_no_length]) == {name: 3}, "they stay apart"


def test_operations_of_all_libraries_are_known():
    known = ["MPI_ADASUM_ALLREDUCE", "NCCL_REDUCESCATTER", "CCL_BCAST", "MPI_CROSS_ALLGATHER"]
    own = ["INIT_NCCL", "NEGOTIATE_ALLREDUCE", "ALLREDUCE", "MEMCPY_IN_FUSION_BUFFER"]
    for name in known + own:
        found = timeline.backends([begin(1, name, 1), end(1, 2)])
        assert found == ({name: 1} if name in known else {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("   \n", "is empty"),
        ('{"traceEvents": []}', "does not begin with"),
        ("[1, 2]", "event 1 has no `ph`"),
        (TEXT[:2000] + TEXT[2010:], "damaged after event"),
        (None, "set HOROVOD_TIMELINE to a file before hvd.init"),
    ],
)
def test_what_is_no_timeline_is_refused_in_a_sentence(text, says, tmp_path):
    if text is not None:
        (tmp_path / "file").write_text(text)
    with pytest.raises(LabError, match=says):
        timeline.read(tmp_path / "file")
