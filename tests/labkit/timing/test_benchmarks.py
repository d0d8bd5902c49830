"""timing.benchmarks: which ranks play, what they measure, and other tools' output."""

from __future__ import annotations

import stat
import time

import pytest
from labkit import launch, world
from labkit.errors import LabError
from labkit.timing import benchmarks


@pytest.mark.parametrize(
    ("hosts", "want"),
    [
        (["a"], {}),
        (["a", "a"], {"inside a node": [0, 1]}),
        (["a", "b"], {"between nodes": [0, 1]}),
        (["a", "a", "b", "b"], {"inside a node": [0, 1], "between nodes": [0, 2]}),
        (["a", "b", "a", "b"], {"inside a node": [0, 2], "between nodes": [0, 1]}),
    ],
)
def test_who_plays(hosts, want):
    assert benchmarks.pairs(hosts) == want


def count_ranks(comm):
    return benchmarks.on_pairs(comm, lambda two: (two.rank, two.size))


def test_two_of_the_ranks_play_and_the_others_wait():
    assert launch.run(count_ranks, ranks=3) == [{"inside a node": (0, 2)}, {"inside a node": (1, 2)}, {}]


def count_ranks_of_two_hosts(comm):
    benchmarks.socket.gethostname = lambda: f"node{comm.rank // 2}"
    return benchmarks.on_pairs(comm, lambda two: (two.rank, two.size))


def test_ranks_of_two_hosts_play_inside_and_between():
    first, second, third = launch.run(count_ranks_of_two_hosts, ranks=3)
    assert first == {"inside a node": (0, 2), "between nodes": (0, 2)}
    assert second == {"inside a node": (1, 2)}
    assert third == {"between nodes": (1, 2)}


def test_one_rank_alone_is_told():
    with pytest.raises(LabError, match="A message needs two ranks"):
        launch.run(count_ranks, ranks=1)


def sizes_seen(two, nbytes, rounds, skip, clock, factor=1):
    return nbytes * factor, rounds, skip, clock() > 0


def test_short_and_long_messages_have_rounds_of_their_own():
    seen = launch.run(benchmarks.sweep, sizes_seen, (8, 8192, 8193), (9, 2), (3, 1), factor=2, ranks=2)[0]
    assert seen["inside a node"] == {
        8: (16, 9, 2, True),
        8192: (16384, 9, 2, True),
        8193: (16386, 3, 1, True),
    }


def measure_all(comm):
    pingpong = benchmarks.mpi4py_pingpong(comm, 1024, loops=20)
    swap = benchmarks.on_pairs(comm, lambda two: benchmarks.step(two, 1024, 20, 2, time.perf_counter))
    calls = benchmarks.allreduces(comm, (8, 16384), (5, 1), (3, 1))
    return pingpong, swap, calls, benchmarks.additions(comm, (1024,))


@pytest.mark.slow
def test_what_is_measured_is_positive_and_complete():
    pingpong, swap, calls, added = launch.run(measure_all, ranks=2)[0]
    assert list(pingpong["inside a node"]) == [1 << power for power in range(11)]
    assert min(pingpong["inside a node"].values()) > 0
    assert swap["inside a node"] > 0
    assert {n: len(seconds) for n, seconds in calls.items()} == {8: 5, 16384: 3}
    assert added[1024].median > 0


def tool(folder, name, text):
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_an_osu_benchmark_that_is_there_is_run_by_the_mpiexec_beside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool(tmp_path, "mpiexec", 'echo "started with $*"')
    tool(tmp_path, "osu_latency", "")
    assert benchmarks.osu("osu_latency", 2, "-m", "1:8") == f"started with -n 2 {tmp_path}/osu_latency -m 1:8"


def test_an_osu_benchmark_that_fails_or_hangs_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool(tmp_path, "mpiexec", "echo no device >&2; exit 3")
    tool(tmp_path, "osu_bw", "")
    assert benchmarks.osu("osu_bw", 2) == "osu_bw ended with status 3: no device"
    tool(tmp_path, "mpiexec", "exec sleep 60")
    assert benchmarks.osu("osu_bw", 2, timeout=0.2).startswith("osu_bw gave nothing: ")


def test_what_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert benchmarks.osu("osu_bw", 2).startswith("osu_bw is not in the PATH")
    tool(tmp_path, "osu_bw", "")
    assert benchmarks.osu("osu_bw", 2).startswith("mpiexec is not in the PATH")
    monkeypatch.setattr(world, "launcher", lambda: "srun")
    assert "srun -n 2 osu_bw" in benchmarks.osu("osu_bw", 2)


def test_tables_look_like_the_osu_benchmarks(capsys):
    benchmarks.show("A test", "Latency (us)", {1: 1.5, 1 << 20: 80.25})
    assert capsys.readouterr().out.split("\n")[:4] == [
        "# A test",
        "# Size        Latency (us)",
        "1                     1.50",
        "1048576              80.25",
    ]
