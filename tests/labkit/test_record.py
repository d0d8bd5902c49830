"""record: many writers at once, killed writers, broken lines, provenance."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
from labkit import paths, record, world
from labkit.errors import LabError
from labkit.record import jsonl, provenance
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
    assert (entry["lab"], entry["result"], entry["unit"], entry["value"]) == (STEM, "step", "images/s", 120.5)
    assert (entry["ranks"], entry["backend"]) == (4, "gloo")
    assert (entry["cores"], entry["device"], entry["launcher"]) == (world.cores(), world.device(), None)
    assert entry["python"] == ".".join(map(str, sys.version_info[:3]))
    always = {"utc", "host", "cpu", "torch", "tensorflow", "horovod", "mpi4py", "mpi"}
    always |= {"horovod_build", "revision", "changed"}
    assert always <= set(entry)
    assert entry["utc"].endswith("+00:00")


def test_numbers_of_all_kinds_become_json():
    entry = record.add(
        "mixed",
        integer=np.int64(3),
        real=np.float32(0.5),
        vector=np.arange(3),
        missing=float("nan"),
        table={1: [np.float64(1), (2, 3)]},
        flag=np.bool_(True),
        where=record.path(STEM),
    )
    again = json.loads(lines()[0])
    assert again == entry
    assert (again["integer"], again["real"], again["vector"]) == (3, 0.5, [0, 1, 2])
    assert again["missing"] is None
    assert again["table"] == {"1": [1.0, [2, 3]]}
    assert again["flag"] is True
    assert again["where"].endswith(".jsonl")


def test_a_measurement_is_kept_as_median_and_quartiles():
    seconds = Measurement(np.array([1.0, 2, 3, 4, 5]))
    entry = record.add("step", seconds=seconds)
    assert entry["unit"] == "s"
    kept = {name: entry[name] for name in entry if name.startswith("seconds")}
    assert kept == {
        "seconds": 3.0,
        "seconds_q1": 2.0,
        "seconds_q3": 4.0,
        "seconds_runs": 5,
        "seconds_steady": False,
    }
    ratio = record.add("ratio", times=Ratio(seconds, seconds))
    assert (ratio["times"], ratio["times_runs"], ratio["unit"]) == (1.0, 5, None)


def test_what_cannot_be_kept_is_named():
    with pytest.raises(LabError, match="cannot keep `model`, a object"):
        record.add("x", model=object())
    with pytest.raises(LabError, match="writes `utc` itself"):
        record.add("x", utc=1)
    assert not record.path(STEM).exists()


def test_outside_a_lab_it_says_what_to_call(monkeypatch):
    monkeypatch.delenv("LABKIT_LAB")
    with pytest.raises(LabError, match=r"lab\.start"):
        record.add("x", value=1)


def test_only_rank_0_writes(monkeypatch):
    monkeypatch.setattr(world, "is_root", lambda: False)
    assert record.add("x", value=1)["value"] == 1
    assert not record.path(STEM).exists()


def test_load_gives_a_frame():
    record.add("step", seconds=0.5, ranks=1)
    record.add("step", seconds=0.3, ranks=2)
    record.add("loss", value=0.1)
    frame = record.load(STEM)
    assert list(frame["result"]) == ["step", "step", "loss"]
    steps = record.load(result="step")
    assert list(steps["ranks"]) == [1, 2]
    assert "value" not in steps.columns


def test_nothing_to_load_is_said(capsys):
    assert record.load("50_strong_and_weak_scaling").empty
    assert "No records of 50_strong_and_weak_scaling yet" in capsys.readouterr().out
    assert record.reference("no_such_lab").empty
    assert "no reference results for no_such_lab" in capsys.readouterr().out
    record.add("step", value=1)
    assert record.load(result="loss").empty
    assert "it has step" in capsys.readouterr().out


def test_reference_reads_the_kits_own_results(tmp_path, monkeypatch):
    results = tmp_path / "solutions" / "results"
    results.mkdir(parents=True)
    (results / f"{STEM}.jsonl").write_text('{"result": "step", "seconds": 1.5}\n')
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    assert list(record.reference(STEM)["seconds"]) == [1.5]


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
    with pytest.warns(UserWarning, match=rf"{STEM}\.jsonl:{number}: not a record, skipped") as caught:
        entries = record.entries(record.path(STEM))
    assert [entry["value"] for entry in entries] == kept
    assert len(caught) == 1
    assert record.path(STEM).read_bytes().startswith(before + spoilt)


def test_a_line_is_kept_that_lacks_only_its_end():
    record.add("step", value=1)
    record.path(STEM).write_bytes(record.path(STEM).read_bytes()[:-1])
    assert list(record.load()["value"]) == [1]
    record.add("step", value=2)
    assert list(record.load()["value"]) == [1, 2]
    assert [number for number, _ in record.numbered(record.path(STEM))] == [1, 2]


def test_a_full_disk_leaves_no_half_line(monkeypatch):
    record.add("step", value=1)
    before = record.path(STEM).read_bytes()
    write = os.write
    monkeypatch.setattr(jsonl.os, "write", lambda handle, data: write(handle, data[:10]))
    with pytest.raises(LabError, match="No space left"):
        record.add("step", value=2)
    assert record.path(STEM).read_bytes() == before


def test_a_folder_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "records").symlink_to(tmp_path / "file")
    with pytest.raises(LabError, match="set LABKIT_HOME to a folder you can write to"):
        record.add("x", value=1)


def test_a_file_system_without_locks_still_works(monkeypatch):
    def no_locks(handle, kind):
        raise OSError(jsonl.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(jsonl.fcntl, "flock", no_locks)
    record.add("step", value=1)
    assert list(record.load()["value"]) == [1]


WRITER = """
    import sys
    from labkit import record
    writer, count = int(sys.argv[1]), int(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        record.add("step", writer=writer, number=number, ballast="x" * (number * 37 % 3000))
"""


def writers(count, each):
    """That many processes which all begin to write when told to."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER)]
    started = [
        subprocess.Popen(
            [*command, str(writer), str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for writer in range(count)
    ]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    return started


def begin(processes):
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def end(processes):
    for process in processes:
        process.wait(timeout=120)
        process.stdin.close()
        process.stdout.close()


@pytest.mark.slow
def test_eight_processes_append_at_once():
    started = writers(8, 200)
    begin(started)
    end(started)
    assert [process.returncode for process in started] == [0] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = record.load(STEM)
    assert len(frame) == 1600
    assert len(frame.groupby(["writer", "number"])) == 1600
    for _, numbers in frame.groupby("writer")["number"]:
        assert list(numbers) == list(range(200))  # nobody's lines overtake each other


def test_killed_writers_spoil_no_line():
    started = writers(4, 10**9)
    begin(started)
    while not record.path(STEM).exists() or record.path(STEM).stat().st_size < 200_000:
        time.sleep(0.01)
    for process in started:
        process.send_signal(signal.SIGKILL)
    end(started)
    record.add("step", writer=-1, number=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = record.entries(record.path(STEM))
    assert len(entries) > 50
    assert len(lines()) - len(entries) <= 4, "at most one broken line a writer"
    assert entries[-1]["writer"] == -1


def test_revision_and_changes_of_a_checkout(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    assert provenance.git(str(tmp_path / "nowhere")) == {"revision": None, "changed": None}
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "one")
    clean = provenance.git(str(tmp_path))
    assert len(clean["revision"]) == 12
    assert clean["changed"] is False
    (tmp_path / "file").write_text("2")
    assert provenance.git(str(tmp_path)) == clean  # asked once a process
    provenance.git.cache_clear()
    assert provenance.git(str(tmp_path)) == {**clean, "changed": True}


def test_without_git_the_revision_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance.git(str(tmp_path / "b")) == {"revision": None, "changed": None}


def test_provenance_imports_no_framework():
    code = """
        import sys
        from labkit.record import provenance
        facts = provenance.here()
        assert facts["torch"] and facts["mpi"] and facts["cpu"], facts
        print(*sorted({"torch", "tensorflow", "horovod", "mpi4py", "pandas"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_loaded_mpi_library_is_named():
    code = """
        from mpi4py import MPI
        from labkit.record import provenance
        print(provenance.here()["mpi"])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "(installed)" not in done.stdout


@pytest.mark.slow
def test_the_mpi_that_horovod_has_loaded_is_named_without_mpi4py():
    code = """
        import sys
        import horovod.torch
        from labkit.record import provenance
        print(provenance.here()["mpi"], "mpi4py" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(" False")
    assert "(installed)" not in done.stdout


def test_records_of_one_kind_come_from_all_labs_oldest_first(monkeypatch):
    first = record.add("link", bandwidth=1)
    record.add("other", value=0)
    monkeypatch.setenv("LABKIT_LAB", "00_check_environment")
    second = record.add("link", bandwidth=2)
    assert record.of_kind("link") == [first, second]
    assert record.of_kind("nothing") == []


def test_the_kits_records_of_one_kind(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    assert record.of_kind("link", reference=True) == []
    folder = tmp_path / "solutions" / "results"
    folder.mkdir(parents=True)
    (folder / "22_x.jsonl").write_text('{"result": "link", "alpha": 1}\n{"result": "step"}\n')
    assert record.of_kind("link", reference=True) == [{"result": "link", "alpha": 1}]
    assert record.of_kind("link") == []
