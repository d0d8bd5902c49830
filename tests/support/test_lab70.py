"""Lab 70's support: kills of a save, failures simulated beside their formulas, files, and losses by life."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from labkit.errors import LabError
from support import lab70
from support.lab70 import killer, kills, requeue

from tests.processes import lives

DAY = 86_400


def write(path: Path, content: bytes) -> None:
    """As the lab asks for it."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def overwrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def by_numbers(path: Path, content: bytes) -> None:
    """With the calls of the system itself."""
    temporary = path.parent / "new"
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(number, content)
    os.fsync(number)
    os.close(number)
    temporary.rename(path)
    number = os.open(path.parent, os.O_RDONLY)
    os.fsync(number)


def by_rename(path: Path, content: bytes) -> None:
    """os.rename does on POSIX what os.replace does everywhere. Without a buffer there is nothing to flush."""
    temporary = path.with_name("new")
    with open(temporary, "wb", buffering=0) as file:
        file.write(content)
        os.fsync(file)
    os.rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def by_paths(path: Path, content: bytes) -> None:
    """With the methods of paths, which have functions of their own below them in Python 3.10."""
    temporary = path.with_name("new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


@pytest.mark.parametrize("function", [write, by_numbers, by_rename, by_paths])
def test_a_safe_save_leaves_old_or_new_at_every_moment(function):
    trial = lab70.kill_everywhere(function)
    assert len(trial.deaths) >= 5
    assert {death.left for death in trial.deaths} == {"old", "new"}
    assert trial.end == "new"
    assert trial.renamed
    assert trial.synced_before
    assert trial.synced_after
    assert trial.other_folders == []


def test_the_obvious_save_is_torn_at_some():
    trial = lab70.kill_everywhere(overwrite)
    assert [death.left for death in trial.deaths] == ["old", "empty", "half"]
    assert trial.deaths[2].where == "when half of the bytes are in net.checkpoint"
    assert not trial.renamed


@pytest.mark.slow
def test_100_kills_at_random_moments_lose_no_good_checkpoint(monkeypatch):
    # In memory an fsync costs nothing, and a kill does what it does on a disk: the kernel lives on.
    if os.path.isdir("/dev/shm"):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    counts = lab70.kill_at_random(write, kills=100, size=300_000)
    assert (counts["kills"], counts["newest"], counts["lost"], counts["torn"]) == (100, 100, 0, 0)
    assert counts["in a save"] > 10


@pytest.mark.slow
def test_10_kills_on_the_disk_lose_no_good_checkpoint():
    counts = lab70.kill_at_random(write, kills=10, size=200_000)
    assert (counts["newest"], counts["lost"], counts["torn"]) == (10, 0, 0)


def unflushed(path: Path, content: bytes) -> None:
    temporary = path.with_name("new")
    with open(temporary, "wb") as file:
        file.write(content[:-100])
        file.write(content[-100:])
        os.fsync(file)
    os.replace(temporary, path)


@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_bytes_left_in_pythons_buffer_are_found(size):
    trial = lab70.kill_everywhere(unflushed, size)
    assert trial.renamed
    assert not trial.synced_before


def appended(path: Path, content: bytes) -> None:
    temporary = path.with_name("new")
    with open(temporary, "ab") as file:
        file.write(content)
    os.replace(temporary, path)


def test_a_save_behind_what_a_killed_one_left_is_found():
    assert lab70.kill_everywhere(appended).end == "the new one behind what a killed save had left"


def fails(path: Path, content: bytes) -> None:
    raise OSError(28, "No space left on device", str(path))


def test_what_a_save_raises_is_a_sentence():
    with pytest.raises(LabError, match=r"`write` failed. OSError: .*No space left on device"):
        lab70.kill_everywhere(fails)
    with pytest.raises(LabError, match=r"`write` failed. OSError: .*No space left on device"):
        lab70.kill_at_random(fails, kills=2, size=100)


def endless(path: Path, content: bytes) -> None:
    while True:
        time.sleep(1)


@pytest.mark.parametrize("kill", [lab70.kill_everywhere, lambda write: lab70.kill_at_random(write, 2, 100)])
def test_a_save_without_an_end_is_told_in_a_sentence(kill, monkeypatch):
    monkeypatch.setattr(kills, "SECONDS", 0.5)
    with pytest.raises(LabError, match=r"`write` was not through .* does a loop in it have no end\?"):
        kill(endless)


def is_there(pid: int) -> bool:
    try:
        return lives(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def test_no_save_outlives_the_process_that_kills_it(tmp_path):
    def alone(path: Path, content: bytes) -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        endless(path, content)

    with pytest.raises(LabError, match="ended the process that tried it"):
        lab70.kill_everywhere(alone)
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 60
    while is_there(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("first_save", [0.01, 0.8, 30.0])
def test_all_kills_fit_into_the_time_however_long_the_first_save_took(first_save):
    left = 45 - first_save
    for number in range(50):
        wait = killer.longest_wait(first_save, left, 50 - number)
        assert 0 < wait <= 3 * first_save
        left -= wait
    assert left > -1e-9
    assert killer.longest_wait(50.0, -5.0, 50) == 0
    assert killer.longest_wait(0.01, 44.0, 50) == 3 * 0.01


@pytest.mark.parametrize(("save", "mtbf"), [(60, 11_160), (600, 11_160), (1, DAY)])
def test_dalys_interval_is_nearly_the_best(save, mtbf):
    best = lab70.best(save, mtbf)
    least = lab70.expected(best, save, mtbf, 0)
    for factor in (0.8, 0.95, 1.05, 1.25):
        assert lab70.expected(factor * best, save, mtbf, 0) > least
    assert lab70.daly(save, mtbf) == pytest.approx(best, rel=0.001)


def test_a_save_longer_than_two_mtbf():
    assert lab70.daly(200, 100) == 100


@pytest.mark.parametrize("every", [300, 1157, 4000])
def test_what_is_simulated_is_what_is_expected(every):
    simulated = [lab70.simulate(every, 60, 11_160, 120, 30 * DAY, seed) for seed in range(8)]
    assert sum(simulated) / 8 == pytest.approx(lab70.expected(every, 60, 11_160, 120), rel=0.05)


def test_without_failures_only_saves_are_lost():
    share = lab70.simulate(100, 10, 1e15, 0, 10_000)
    assert share == pytest.approx(10 / 110)


def test_a_file_comes_apart_as_it_was_put_together():
    content = lab70.pack(b"some\nbytes", "net A")
    label, payload = lab70.split(content)
    assert payload == b"some\nbytes"
    assert (label["model"], label["bytes"]) == ("net A", 10)
    for cut in (0, 5, content.index(b"\n")):
        assert lab70.split(content[:cut])[0] is None
    assert lab70.split(b"[1]\n")[0] is None
    for zeros in (False, True):
        broken = lab70.damaged(content * 9, zeros)
        assert len(broken) == 9 * len(content)
        assert broken != content * 9


def test_a_wrong_bit_in_the_label_makes_no_file_pass_for_another():
    content = lab70.pack(b"some bytes", "net A")
    label, payload = lab70.split(content)
    for place in range(8 * content.index(payload)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        other, rest = lab70.split(bytes(changed))
        assert other is None or (other, rest) != (label, payload), f"bit {place}"


def test_the_newest_good_file_is_taken(tmp_path, capsys):
    for done in (5, 40, 300):
        lab70.path_of(tmp_path, done).write_bytes(str(done).encode())
    verdicts = {b"300": "damaged", b"40": "good", b"5": "good"}
    lab70.newest(tmp_path, "net", lambda content, model: verdicts[content])
    assert capsys.readouterr().out == "step_000300.checkpoint is not taken: damaged\n"
    assert lab70.newest(tmp_path, "net", lambda content, model: "incomplete") is None


def test_a_signal_sets_a_flag_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGUSR1)
    with lab70.listening() as stopped:
        assert not stopped()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stopped()
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_table_counts_steps_done_again_and_losses_that_differ():
    whole = [float(step).hex() for step in range(1, 5)]
    losses = [lab70.Loss(0, step, whole[step - 1]) for step in (1, 2, 3)]
    losses += [lab70.Loss(1, step, whole[step - 1]) for step in (3, 4)]
    frame = lab70.table(losses, whole)
    assert frame["first step"].tolist() == [1, 3]
    assert frame["done again"].tolist() == [0, 1]
    assert frame["losses that differ"].tolist() == [0, 0]
    losses[-1] = lab70.Loss(1, 4, (4.0 + 1e-15).hex())
    assert lab70.table(losses, whole)["losses that differ"].tolist() == [0, 1]


def test_the_batch_script_asks_for_what_the_lab_tells():
    text = lab70.script("here")
    for line in ("--signal=B:USR1@60", "--requeue", "--open-mode=append", "scontrol requeue $SLURM_JOB_ID"):
        assert line in text
    assert "support.lab70.job here &" in text


def test_the_job_runs_the_shown_script_line_by_line_and_the_sites_settings_before_it():
    shown = lab70.script("here").splitlines()
    run = requeue.sourcing(lab70.script("here")).splitlines()
    added = [line for line in run if line not in shown]
    assert [line.split()[0] for line in added] == ["cd", "source", "export"]
    assert [line for line in run if line not in added] == shown
