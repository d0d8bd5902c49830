"""record: many writers at once, killed writers, broken lines, provenance."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
import pytest
from labkit import jsonl, paths, record, world
from labkit.errors import LabError
from labkit.record import provenance
from labkit.timing import Measurement, Ratio

STEM = "01_time_it_properly"


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LABKIT_LAB", STEM)


def lines():
    return record.path(STEM).read_text().splitlines()


def test_a_record_says_where_it_comes_from():
    entry = record.add("step", unit="images/s", value=120.5, ranks=4, backend="gloo")
    assert [json.loads(line) for line in lines()] == [entry]
    said = {"lab": STEM, "result": "step", "unit": "images/s", "value": 120.5}
    said |= {"ranks": 4, "backend": "gloo"}  # what is given takes the place of what is found
    said |= {"cores": world.cores(), "device": world.device(), "launcher": None}
    said |= {"python": ".".join(map(str, sys.version_info[:3]))}
    assert said.items() <= entry.items()
    assert entry["utc"].endswith("+00:00")
    always = "host cpu torch tensorflow horovod mpi4py mpi horovod_build revision changed"
    assert set(always.split()) <= set(entry)


def test_numbers_and_measurements_become_json():
    steps = Measurement(np.array([1.0, 2, 3, 4, 5]))
    given = {  # what is kept of it
        "integer": (np.int64(3), 3),
        "real": (np.float32(0.5), 0.5),
        "vector": (np.arange(3), [0, 1, 2]),
        "missing": (float("nan"), None),
        "table": ({1: [np.float64(1), (2, 3)]}, {"1": [1.0, [2, 3]]}),
        "flag": (np.bool_(True), True),
        "where": (record.path(STEM), str(record.path(STEM))),
        "steps": (steps, 3.0),
        "times": (Ratio(steps, steps), 1.0),
    }
    entry = record.add("mixed", **{name: value for name, (value, _) in given.items()})
    again = json.loads(lines()[0])
    assert again == entry
    want = {name: kept for name, (_, kept) in given.items()} | {"times_runs": 5}
    want |= {"steps_q1": 2.0, "steps_q3": 4.0, "steps_runs": 5, "steps_steady": False}
    assert {name: again[name] for name in want} == want
    assert record.add("step", seconds=steps)["unit"] == "s"
    assert record.add("ratio", times=Ratio(steps, steps))["unit"] is None


@pytest.mark.parametrize(
    ("lab", "fields", "says"),
    [
        (STEM, {"model": object()}, "cannot keep `model`, a object"),
        (STEM, {"utc": 1}, "writes `utc` itself"),
        ("", {"value": 1}, r"lab\.start"),
    ],
)
def test_what_cannot_be_kept_is_a_sentence(monkeypatch, lab, fields, says):
    monkeypatch.setenv("LABKIT_LAB", lab)
    with pytest.raises(LabError, match=says):
        record.add("x", **fields)
    assert not record.path(STEM).exists()


def test_what_is_read_again(capsys, monkeypatch, tmp_path):
    record.add("step", seconds=0.5, ranks=1)
    link = record.add("link", value=0.1)
    kept = record.entries(record.path(STEM))
    assert list(record.frame(kept, None, "it")["result"]) == ["step", "link"]
    assert len(lines()) == 2
    steps = record.frame(kept, "step", "it")
    assert list(steps["ranks"]) == [1]
    assert "value" not in steps.columns
    assert record.frame(kept, "loss", "it").empty
    assert "No result 'loss' in it; it has link, step" in capsys.readouterr().out
    monkeypatch.setenv("LABKIT_LAB", "00_check_environment")
    later = record.add("link", value=2)
    assert record.of_kind("link") == [link, later], "of all labs, oldest first"
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    assert record.of_kind("link", reference=True) == []
    assert record.reference("no_such_lab").empty
    assert "no reference results for no_such_lab" in capsys.readouterr().out
    folder = tmp_path / "solutions" / "results"
    folder.mkdir(parents=True)
    (folder / f"{STEM}.jsonl").write_text('{"result": "link", "alpha": 1}\n{"result": "step"}\n')
    assert record.of_kind("link", reference=True) == [{"result": "link", "alpha": 1}]
    assert list(record.reference(STEM, "link")["alpha"]) == [1]


WHOLE = b'{"result": "step", "value": 1}\n'


@pytest.mark.parametrize(
    ("before", "spoilt", "kept"),
    [
        (WHOLE, b'{"result": "ste', [1, 2]),  # its writer was killed
        (WHOLE, WHOLE * 400 + WHOLE[:-3], [1] * 401 + [2]),
        (b"", WHOLE[:9], [2]),
        (WHOLE, b"a note of my own", [1, 2]),
        (WHOLE, b"not json\n", [1, 2]),
        (WHOLE, b"[1, 2]\n", [1, 2]),
        (WHOLE, b'{"no": "result name"}\n', [1, 2]),
        (WHOLE, b"\x00\xff\n", [1, 2]),
        (WHOLE, b"[" * 100_000 + b"\n", [1, 2]),
    ],
)
def test_a_broken_line_is_named_and_skipped_and_stays_alone(before, spoilt, kept):
    record.path(STEM).parent.mkdir(parents=True)
    record.path(STEM).write_bytes(before + spoilt)
    record.add("step", value=2)
    number = (before + spoilt).rstrip(b"\n").count(b"\n") + 1
    said = rf"{STEM}\.jsonl:{number}: not a record, skipped"
    with pytest.warns(UserWarning, match=said) as caught:
        entries = record.entries(record.path(STEM))
    assert [entry["value"] for entry in entries] == kept
    assert len(caught) == 1
    assert record.path(STEM).read_bytes().startswith(before + spoilt)


def test_a_line_is_kept_that_lacks_only_its_end():
    record.add("step", value=1)
    record.path(STEM).write_bytes(record.path(STEM).read_bytes()[:-1])
    record.add("step", value=2)
    kept = record.numbered(record.path(STEM))
    assert [(number, entry["value"]) for number, entry in kept] == [(1, 1), (2, 2)]


def test_a_full_disk_leaves_no_half_line_and_a_folder_in_the_way_is_said(monkeypatch, tmp_path):
    record.add("step", value=1)
    before = record.path(STEM).read_bytes()
    write = os.write
    monkeypatch.setattr(jsonl.os, "write", lambda handle, data: write(handle, data[:10]))
    with pytest.raises(LabError, match="No space left"):
        record.add("step", value=2)
    assert record.path(STEM).read_bytes() == before
    (paths.home() / "records").rename(tmp_path / "away")
    (paths.home() / "records").touch()
    with pytest.raises(LabError, match="set LABKIT_HOME to a folder you can write to"):
        record.add("x", value=1)


@pytest.mark.parametrize(("number", "works"), [(errno.ENOLCK, True), (errno.EIO, False)])
def test_a_file_system_without_locks_still_works(monkeypatch, number, works):
    refuse = mock.Mock(side_effect=OSError(number, os.strerror(number)))
    monkeypatch.setattr(jsonl.fcntl, "flock", refuse)
    refused = pytest.raises(LabError, match="Cannot write the record")
    with contextlib.nullcontext() if works else refused:
        record.add("step", value=1)
    assert record.path(STEM).read_bytes().count(b"\n") == works


WRITER = """if True:
    import sys
    from labkit import record
    writer, count = int(sys.argv[1]), int(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        record.add("step", writer=writer, number=number, ballast="x" * (number * 37 % 3000))
"""


def test_many_writers_and_killed_ones_spoil_no_line():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = []
    for writer, count in enumerate([60, 60, 60, 10**9]):
        command = [sys.executable, "-c", WRITER, str(writer), str(count)]
        started.append(subprocess.Popen(command, **pipes))
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    *whole, killed = started
    for process in whole:
        process.communicate(timeout=120)
    killed.kill()
    killed.communicate()
    record.add("step", writer=-1, number=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = record.frame(record.entries(record.path(STEM)), None, STEM)
    torn = len(record.path(STEM).read_bytes().splitlines()) - len(frame)
    assert torn <= 1, "at most one broken line a writer that was killed"
    for writer, numbers in frame.groupby("writer")["number"]:
        assert list(numbers) == list(range(len(numbers))), "nobody's lines overtake each other"
        assert writer not in range(3) or len(numbers) == 60
    assert frame["writer"].iloc[-1] == -1


def test_a_rank_that_does_not_write_does_not_ask_git(monkeypatch):
    monkeypatch.setattr(world, "is_root", lambda: False)
    monkeypatch.setattr(provenance, "git", mock.Mock(side_effect=AssertionError))
    assert record.add("step", value=1)["value"] == 1
    assert not record.path(STEM).exists()


def test_revision_and_changes_of_a_checkout(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        subprocess.run(command, check=True, capture_output=True)

    unknown = {"revision": None, "changed": None}
    assert provenance.git(str(tmp_path / "nowhere")) == unknown
    (tmp_path / "file").write_text("1")
    for command in (["init"], ["add", "file"], ["commit", "-m", "one"]):
        git(*command)
    clean = provenance.git(str(tmp_path))
    assert len(clean["revision"]) == 12
    assert clean["changed"] is False
    (tmp_path / "file").write_text("2")
    assert provenance.git(str(tmp_path)) == clean  # asked once a process
    provenance.git.cache_clear()
    assert provenance.git(str(tmp_path)) == {**clean, "changed": True}
    monkeypatch.setenv("PATH", "")
    provenance.git.cache_clear()
    assert provenance.git(str(tmp_path)) == unknown


LOADED = [
    ("sys", ""),
    ("mpi4py.MPI", "mpi4py"),
    pytest.param("horovod.torch", "horovod torch", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("imports", "loaded"), LOADED)
def test_the_mpi_in_use_is_named_and_no_framework_imported_for_it(imports, loaded):
    code = f"""if True:
        import sys, {imports}
        from labkit.record import provenance
        facts = provenance.here()
        assert facts["torch"] and facts["mpi"] and facts["cpu"], facts
        assert ("(installed)" in facts["mpi"]) == (not {loaded!r}), facts["mpi"]
        print(*sorted({{"torch", "tensorflow", "horovod", "mpi4py"}} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (loaded, "")
