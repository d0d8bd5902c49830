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


def sizes_seen(two, nbytes, rounds, skip, clock, factor=1):
    return nbytes * factor, rounds, skip, clock() > 0


def played(comm):
    """Who plays of these ranks; what each size of a sweep is given; and what a rank alone is
    told."""
    from mpi4py import MPI

    who = benchmarks.on_pairs(comm, lambda two: (two.rank, two.size))
    sizes = benchmarks.sweep(comm, sizes_seen, (8, 8192, 8193), (9, 2), (3, 1), factor=2)
    with pytest.raises(LabError) as refused:
        benchmarks.on_pairs(MPI.COMM_SELF, lambda two: None)
    return who, sizes, str(refused.value)


def test_two_of_the_ranks_play_and_the_others_wait():
    who, sizes, refused = zip(*launch.run(played, ranks=3), strict=True)
    assert who == ({"inside a node": (0, 2)}, {"inside a node": (1, 2)}, {})
    assert sizes[0]["inside a node"] == {
        8: (16, 9, 2, True),
        8192: (16384, 9, 2, True),
        8193: (16386, 3, 1, True),
    }
    assert all("A message needs two ranks" in said for said in refused)


def measure_all(comm):
    pingpong = benchmarks.mpi4py_pingpong(comm, 1024, loops=20)
    swap = benchmarks.on_pairs(
        comm, lambda two: benchmarks.step(two, 1024, 20, 2, time.perf_counter)
    )
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


@pytest.mark.parametrize(
    ("tools", "said"),
    [  # what stands in the PATH, and what comes of it
        ({}, "osu_bw is not in the PATH"),
        ({"osu_bw": ""}, "mpiexec is not in the PATH"),
        (
            {"osu_bw": "", "mpiexec": 'echo "started with $*"'},
            "started with -n 2 {path}/osu_bw -m 1:8",
        ),
        (
            {"osu_bw": "", "mpiexec": "echo no device >&2; exit 3"},
            "osu_bw ended with status 3: no device",
        ),
        ({"osu_bw": "", "mpiexec": "exec /bin/sleep 60"}, "osu_bw gave nothing: "),
    ],
)
def test_an_osu_benchmark_is_run_by_the_mpiexec_beside_it(tools, said, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, text in tools.items():
        tool(tmp_path, name, text)
    got = benchmarks.osu("osu_bw", 2, "-m", "1:8", timeout=1.0)
    assert got.startswith(said.format(path=tmp_path))


def test_inside_a_job_nothing_is_started(monkeypatch):
    monkeypatch.setattr(world, "launcher", lambda: "srun")
    assert "srun -n 2 osu_bw" in benchmarks.osu("osu_bw", 2)
