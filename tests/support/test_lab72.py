"""Lab 72's support: ranks that hang, die and finish; what is found of them; nothing of them is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import cloudpickle
import psutil
import pytest
import torch
import torch.distributed as dist
from labkit.errors import CheckFailed
from support import lab72
from support.lab72 import evidence, nursery, ranks, ward

from tests.processes import lives


@pytest.fixture(autouse=True)
def _functions_travel_whole():
    """As those of a notebook do; and no process is left of any test."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    lab72.close()


def ways_to_end(way: str, folder: str) -> str:
    Path(folder, f"pid.{dist.get_rank()}").write_text(str(os.getpid()))
    if way == "waits":
        time.sleep(1000)
    elif way == "raises":
        raise ValueError("no more")
    elif way == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    print("through")
    return way


def two_calls(extra: bool) -> None:
    dist.all_reduce(torch.ones(3))
    if extra:
        dist.broadcast(torch.ones(2), src=0)
    dist.barrier()


@pytest.mark.slow
def test_what_is_found_of_ranks_and_that_none_is_left(tmp_path, monkeypatch):
    before = set(psutil.Process().children(recursive=True))  # of other tests
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    arguments = [(way, str(tmp_path)) for way in ("waits", "raises", "dies", "finishes")]
    alone, all_in_step, prepared = lab72.play(
        [
            lab72.Job(ways_to_end, lab72.Given(arguments), recorded=True),
            lab72.Job(
                two_calls, lab72.Given([(False,), (True,), (False,)]), recorded=True, from_outside=False
            ),
            lab72.Job(ways_to_end, lab72.Given([(str(tmp_path),)] * 2), prepare=through, tell=len),
        ]
    )
    assert [rank.state for rank in alone] == ["waits", "raised", "SIGKILL", "finished"]
    assert alone[0].stack[0].line == lab72.line_of(ways_to_end, "time.sleep")
    assert alone[1].error == "ValueError: no more"
    assert alone[1].line == lab72.line_of(ways_to_end, "raise ValueError")
    assert "Traceback" in alone[1].log
    assert alone[3].result == "finishes"
    assert alone[3].log == "through\n"
    assert [rank.result for rank in prepared] == ["finishes"] * 2
    assert [rank.note for rank in prepared] == [len(str(tmp_path))] * 2
    calls = [[(record.call, record.numbers) for record in rank.records] for rank in all_in_step]
    usual = [("all_reduce", 3), ("barrier", 0)]
    assert calls[0] == calls[2] == usual
    assert calls[1][:2] == [("all_reduce", 3), ("broadcast", 2)]
    waiting = [rank for rank in all_in_step if rank.state == "waits"]
    assert {rank.stack[0].function for rank in waiting} == {"two_calls"}
    assert {rank.seen_by for rank in waiting} == {"the rank itself"}
    pids = [int(file.read_text()) for file in tmp_path.glob("pid.*")]
    assert len(pids) == 4
    assert not any(psutil.pid_exists(pid) for pid in pids)
    lab72.close()
    assert list((tmp_path / "tmp").glob("lab72-*")) == []
    assert set(filter(lives, psutil.Process().children(recursive=True))) <= before


def in_the_middle(way: str) -> object:
    while way == "goes on":
        time.sleep(0.001)
    return (number for number in range(3)) if way == "cannot leave" else way


def closed_early(jobs: list, folder: str) -> list:
    """Of one job: what is found when rank 1 is through and rank 2 has ended, whatever rank 0 does."""
    one = ward.Ward(jobs[0], Path(folder, "early"))
    while one.look().get(1) != "finished" or 2 not in one.ended:
        time.sleep(0.05)
    return one.close()


@pytest.mark.slow
def test_a_rank_that_needs_longer_is_no_rank_that_hangs_and_what_cannot_be_sent_is_raised():
    job = lab72.Job(in_the_middle, lab72.Given([("goes on",), ("finishes",), ("cannot leave",)]))
    longer, through, mute = nursery.ask(closed_early, [job], 300)
    assert (through.state, through.result) == ("finished", "finishes")
    assert longer.state == evidence.UNDECIDED
    assert mute.state == "raised"
    with pytest.raises(CheckFailed, match=r"rank 2 raised .* cannot leave .* 'generator' object\): numbers"):
        ranks.expect_through([mute], "A trial")
    with pytest.raises(CheckFailed, match=r"rank 0 had neither .* too busy to tell .* Run the cell again"):
        ranks.expect_through([longer, through], "A trial")


def test_ranks_that_wait_are_told_that_nobody_may_decide_alone():
    standing = [lab72.Rank(0, "finished"), lab72.Rank(1, "waits"), lab72.Rank(2, "waits")]
    with pytest.raises(CheckFailed, match=r"It stands rank 1: waits; rank 2: waits\. .* may decide alone"):
        ranks.expect_through(standing, "A trial")


def test_a_py_spy_that_does_not_answer_shows_no_lines(tmp_path, monkeypatch):
    slow = tmp_path / "py-spy"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(ward, "LOOKING", 0.2)
    assert ward.look_from_outside(os.getpid()) == []


KILLED = """
import sys
import psutil
from support import lab72

def wait(file):
    import time
    open(file, "w").close()
    time.sleep(1000)

if __name__ == "__main__":
    lab72.play([lab72.Job(wait, lab72.Given([(f"{sys.argv[1]}/{rank}",) for rank in range(2)]))])
"""


@pytest.mark.slow
def test_nothing_is_left_when_the_notebook_is_killed(tmp_path):
    for name in ("tmp", "begun"):
        (tmp_path / name).mkdir()
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "begun")], env=env, stderr=subprocess.DEVNULL
    )
    until(lambda: len(list((tmp_path / "begun").iterdir())) == 2)
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) == 4  # the nursery, its fork, two ranks
    process.kill()
    process.wait()
    until(lambda: not any(map(lives, below)))
    until(lambda: list((tmp_path / "tmp").iterdir()) == [])


def until(come_true, patience: float = 100) -> None:
    end = time.monotonic() + patience
    while not come_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def through(folder: str) -> tuple[str, str]:
    return "finishes", folder


def test_cases_are_of_each_kind_and_the_same_again():
    for deal, kinds in ((lab72.hang, 4), (lab72.disorder, 3), (lab72.poison, 3)):
        cases = lab72.fresh(deal, 5)
        assert len({case.what for case in cases}) == kinds
        assert len({case.rank for case in cases}) > 1
        assert cases == lab72.fresh(deal, 5)
        assert cases[0] == deal(5)
    assert len({deal(number).rank for deal in (lab72.hang,) for number in range(30)}) == 3
    lengths = lab72.shards(2)
    assert sorted(lengths)[0] < sorted(lengths)[1] == sorted(lengths)[2]


def test_what_is_drawn_is_the_same_again_and_another_in_another_case():
    values = [1, 2, 3]
    orders = [lab72.shuffled("x", number, values) for number in range(20)]
    assert all(sorted(order) == values for order in orders)
    assert len({tuple(order) for order in orders}) > 2
    assert orders[3] == lab72.shuffled("x", 3, values)
    rank, dealt = lab72.one_of_three("x", 4, "usual", None)
    assert dealt.index(None) == rank == lab72.drawn("x", 4, 3)
    assert dealt.count("usual") == 2


def six_jobs() -> dict[str, tuple[int | None, list]]:
    """By failure: the rank that was hit, and what was found of all."""
    lost = "RuntimeError: Connection closed by peer"
    broken = [
        lab72.Rank(0, "raised", lost, 8),
        lab72.Rank(1, "raised", "own words", 5),
        lab72.Rank(2, "raised", lost, 8),
    ]
    versions = ["recipe 1.1", "recipe 1.1", "recipe 1.0"]
    ports = ["port 7: TimeoutError: timed out", "port 8: connected", "port 9: ConnectionRefusedError"]
    return {
        "memory": (1, broken),
        "worker": (1, broken),
        "disk": (1, broken),
        "versions": (2, [lab72.Rank(rank, "finished", result=text) for rank, text in enumerate(versions)]),
        "map": (None, [lab72.Rank(rank, "finished", result="core 3") for rank in range(2)]),
        "port": (0, [lab72.Rank(rank, "finished", result=text) for rank, text in enumerate(ports)]),
    }


RIGHT = {
    "memory": ((1, 5), "numbers"),
    "worker": ((1, 5), "workers"),
    "disk": ((1, 5), "room"),
    "versions": (2, "install"),
    "map": ("core 3", "map"),
    "port": ("port 7", "port"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_diagnosis_passes_if_both_its_parts_are_right(name):
    culprit, ranks = six_jobs()[name]
    where, first = RIGHT[name]
    lab72.expect_diagnosis((where, first), name, ranks, culprit)
    for wrong, says in (
        ((where, "again"), "Nothing has changed"),
        ((where, "timeout"), "Nobody was too slow"),
        ((where, "port" if first != "port" else "room"), "That mends"),
        (((9, 9), first), "where"),
        ([where], "two things"),
        (None, "none of your signs"),
    ):
        with pytest.raises(CheckFailed, match=says):
            lab72.expect_diagnosis(wrong, name, ranks, culprit)


@pytest.mark.parametrize(
    ("name", "where", "says"),
    [
        ("disk", (2, 8), "Rank 2 only lost its connection"),
        ("disk", 1, "This is the rank"),
        ("versions", 0, "As many as two ranks have the version of rank 0"),
        ("versions", "recipe 1.0", "name the rank"),
        ("map", 0, "name the device"),
        ("port", "port 8", "This one answers"),
        ("port", "port 9", "refuses at once"),
        ("port", 0, "This is the rank"),
    ],
)
def test_a_wrong_place_is_told_why(name, where, says):
    culprit, ranks = six_jobs()[name]
    with pytest.raises(CheckFailed, match=says):
        lab72.expect_diagnosis((where, RIGHT[name][1]), name, ranks, culprit)


@pytest.mark.parametrize("name", RIGHT)
def test_the_same_job_elsewhere_has_other_numbers_and_the_same_signs(name):
    culprit, ranks = six_jobs()[name]
    (same, hit), (elsewhere, moved) = lab72.twice(ranks, culprit)
    assert (same, hit) == (ranks, culprit)
    assert [rank.rank for rank in elsewhere] == list(range(len(ranks)))
    assert {rank.error for rank in elsewhere} == {rank.error for rank in ranks}
    where, first = RIGHT[name]
    if culprit is not None:
        assert elsewhere[moved].error == ranks[culprit].error
    with pytest.raises(CheckFailed, match="where"):
        lab72.expect_diagnosis((where, first), name, elsewhere, moved)


def test_ports_answer_refuse_and_are_silent():
    with lab72.three_ports() as ports:
        answers, refused, silent = (lab72.knock(port, patience=0.5) for port in ports.values())
        assert answers.startswith("connected")
        assert refused.startswith("ConnectionRefusedError")
        assert silent.startswith("TimeoutError")
        numbers = list(ports.values())
    for number in numbers:
        with socket.socket() as later, pytest.raises(ConnectionRefusedError):
            later.connect(("127.0.0.1", number))


def test_two_nodes_differ_and_go():
    with lab72.two_nodes() as folders:
        texts = [(folder / "recipe.py").read_text() for folder in folders]
        assert texts[0] != texts[1]
    assert not any(folder.exists() for folder in folders)
