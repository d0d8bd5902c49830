"""timing.benchmarks: which ranks play, what they measure, and other tools' output."""

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
    """Who plays of these ranks; what each size of a sweep is given; what a rank alone is told; and
    one measurement of each kind."""
    from mpi4py import MPI

    who = benchmarks.on_pairs(comm, lambda two: (two.rank, two.size))
    sizes = benchmarks.sweep(comm, sizes_seen, (8, 8192, 8193), (9, 2), (3, 1), factor=2)
    with pytest.raises(LabError, match="A message needs two ranks"):
        benchmarks.on_pairs(MPI.COMM_SELF, lambda two: None)
    clock = time.perf_counter
    swap = benchmarks.on_pairs(comm, lambda two: benchmarks.step(two, 1024, 20, 2, clock))
    pingpong = benchmarks.mpi4py_pingpong(comm, 1024, loops=20)
    calls = benchmarks.allreduces(comm, (8, 16384), (5, 1), (3, 1))
    return who, sizes, swap, pingpong, calls, benchmarks.additions(comm, (1024,))


@pytest.mark.slow
def test_two_of_the_ranks_play_and_the_others_wait():
    results = launch.run(played, ranks=3)
    inside = "inside a node"
    assert [who for who, *_ in results] == [{inside: (0, 2)}, {inside: (1, 2)}, {}]
    _, sizes, swap, pingpong, calls, added = results[0]
    assert sizes[inside] == {
        8: (16, 9, 2, True),
        8192: (16384, 9, 2, True),
        8193: (16386, 3, 1, True),
    }
    assert list(pingpong[inside]) == [1 << power for power in range(11)]
    assert min(swap[inside], *pingpong[inside].values(), added[1024].median) > 0
    assert {n: len(seconds) for n, seconds in calls.items()} == {8: 5, 16384: 3}


OSU = {"osu_bw": ""}


@pytest.mark.parametrize(
    ("tools", "said"),
    [  # what stands in the PATH, and what comes of it
        ({}, "osu_bw is not in the PATH"),
        (OSU, "mpiexec is not in the PATH"),
        (OSU | {"mpiexec": 'echo "is $*"'}, "is -n 2 {path}/osu_bw -m 1:8"),
        (OSU | {"mpiexec": "echo none >&2; exit 3"}, "osu_bw ended with status 3: none"),
        (OSU | {"mpiexec": "exec /bin/sleep 60"}, "osu_bw gave nothing: "),
    ],
)
def test_an_osu_benchmark_is_run_by_the_mpiexec_beside_it(tools, said, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    got = benchmarks.osu("osu_bw", 2, "-m", "1:8", timeout=1.0)
    assert got.startswith(said.format(path=tmp_path))
    monkeypatch.setattr(world, "launcher", lambda: "srun")
    assert "srun -n 2 osu_bw" in benchmarks.osu("osu_bw", 2), "inside a job nothing is started"
