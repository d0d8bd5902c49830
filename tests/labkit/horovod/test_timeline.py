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


def row(pid, tensor):
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": tensor}}


def begin(pid, name, at):
    return {"ph": "B", "name": name, "ts": at, "pid": pid}


def end(pid, at):
    return {"ph": "E", "ts": at, "pid": pid}


def test_a_real_file_is_read_as_json_reads_it():
    assert timeline.read(FILE) == json.loads(TEXT)


def test_the_real_file_says_which_library_carried_which_tensors():
    calls = timeline.collectives(timeline.read(FILE))
    assert [call.name for call in calls] == ["MPI_ALLREDUCE"] * 3
    assert [call.backend for call in calls] == ["MPI"] * 3
    for call in calls:
        assert sorted(call.tensors) == [f"allreduce.{layer}.weight" for layer in range(4)]
        assert 0 < call.seconds < 1
    assert timeline.backends(timeline.read(FILE)) == {"MPI_ALLREDUCE": 3}


def test_activities_are_in_the_order_of_their_begin_and_have_their_duration():
    activities = timeline.activities(timeline.read(FILE))
    begins = [activity.start for activity in activities]
    assert begins == sorted(begins)
    first = next(
        activity
        for activity in activities
        if (activity.name, activity.tensor) == ("MPI_ALLREDUCE", "allreduce.3.weight")
    )
    assert first.start == pytest.approx(3.360249)
    assert first.seconds == pytest.approx(0.008154)


def test_a_file_cut_off_anywhere_gives_its_whole_events():
    whole = json.loads(TEXT)
    lengths = set()
    for cut in range(1, len(TEXT), 7):
        events = timeline.parse(TEXT[:cut])
        assert events == whole[: len(events)]
        lengths.add(len(events))
    assert len(lengths) > len(whole) / 2
    assert max(lengths) >= len(whole) - 1


def test_a_call_that_never_ended_has_no_duration():
    cut = TEXT[: TEXT.index('"MPI_ALLREDUCE"') + 200]
    (call,) = timeline.collectives(timeline.parse(cut))
    assert call.seconds is None
    assert call.tensors[0] == "allreduce.3.weight"


def test_tensors_travel_together_only_if_all_begin_before_one_ends():
    rows = [row(pid, f"t{pid}") for pid in (1, 2)]
    name = "NCCL_ALLREDUCE"
    apart = [begin(1, name, 1), end(1, 2), begin(2, name, 2), end(2, 3)]
    # Another thread's event between two tensors of one call.
    other = begin(1, "NEGOTIATE_ALLREDUCE", 1)
    together = [begin(1, name, 1), other, begin(2, name, 1), end(1, 1), end(1, 5), end(2, 5)]
    assert [call.tensors for call in timeline.collectives(rows + apart)] == [["t1"], ["t2"]]
    assert [call.tensors for call in timeline.collectives(rows + together)] == [["t1", "t2"]]


def test_calls_of_no_length_stay_apart():
    same = [event for at in (1, 1, 1) for event in (begin(1, "MPI_BCAST", at), end(1, at))]
    assert timeline.backends([row(1, "t"), *same]) == {"MPI_BCAST": 3}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("MPI_ADASUM_ALLREDUCE", True),
        ("NCCL_REDUCESCATTER", True),
        ("CCL_BCAST", True),
        ("MPI_CROSS_ALLGATHER", True),
        ("INIT_NCCL", False),  # Horovod's own
        ("NEGOTIATE_ALLREDUCE", False),
        ("ALLREDUCE", False),
        ("MEMCPY_IN_FUSION_BUFFER", False),
    ],
)
def test_operations_of_all_libraries_are_known(name, known):
    assert timeline.backends([begin(1, name, 1), end(1, 2)]) == ({name: 1} if known else {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("   \n", "is empty"),
        ('{"traceEvents": []}', "does not begin with"),
        ("[1, 2]", "event 1 has no `ph`"),
        (TEXT[:2000] + TEXT[2010:], "damaged after event"),
    ],
)
def test_what_is_no_timeline_is_refused_in_a_sentence(text, says):
    with pytest.raises(LabError, match=says):
        timeline.parse(text)


def test_a_missing_file_says_what_to_set(tmp_path):
    with pytest.raises(LabError, match="set HOROVOD_TIMELINE to a file before hvd.init"):
        timeline.read(tmp_path / "none.json")
