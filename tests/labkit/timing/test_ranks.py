"""labkit.timing on real MPI ranks: the slowest counts, and nobody is left waiting."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from labkit import launch, world


def mpi(ranks, code, folder):
    """What each of `ranks` real MPI ranks prints as JSON."""
    script = folder / "ranks.py"
    script.write_text(textwrap.dedent(code))
    environment = {**world.clean_env(), "OMP_NUM_THREADS": "1", "OUT": str(folder)}
    command = [launch.mpiexec(), "-n", str(ranks), sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.slow
def test_the_slowest_rank_counts(tmp_path):
    """Rank 1 sleeps 30 ms, rank 0 only 1 ms: both must report at least 30 ms, run by run the same."""
    code = """
        import json, os, time
        from mpi4py import MPI
        from labkit import timing
        from labkit.timing import timer
        comm = MPI.COMM_WORLD
        pause = 0.03 if comm.rank == 1 else 0.001
        alone = timing.measure(lambda: time.sleep(pause), repeat=5, warmup=0)
        fixed = timing.measure(lambda: time.sleep(pause), repeat=6, warmup=1, comm=comm)
        until = timing.measure(lambda: time.sleep(pause), repeat=1000, seconds=0.4, warmup=1, comm=comm)
        pair = timing.ratio(lambda: time.sleep(pause), lambda: time.sleep(0.03), repeat=5, comm=comm)
        results = {"alone": alone.median, "fixed": list(fixed.samples), "until": list(until.samples)}
        results["pair"] = pair.median
        # Clocks that disagree must not let one rank stop before the other: that would be a deadlock.
        timer.perf_counter_ns = lambda: (1 + 2 * comm.rank) * time.perf_counter_ns()
        skewed = timing.measure(lambda: time.sleep(0.01), repeat=1000, seconds=0.6, comm=comm)
        results["skewed"] = len(skewed.samples)
        open(f"{os.environ['OUT']}/{comm.rank}.json", "w").write(json.dumps(results))
    """
    first, second = mpi(2, code, tmp_path)
    assert first["alone"] < second["alone"]  # without comm each rank knows only itself
    assert first["fixed"] == second["fixed"]
    assert len(first["fixed"]) == 6
    assert min(first["fixed"]) >= 0.03
    assert first["until"] == second["until"]
    assert 5 <= len(first["until"]) <= 14
    assert first["pair"] == second["pair"] > 0.3
    assert first["skewed"] == second["skewed"] >= 5


def test_every_run_waits_for_the_late_rank(tmp_path):
    """A rank that comes late to the barrier must not add its lateness to the others' time."""
    code = """
        import json, os, time
        from mpi4py import MPI
        from labkit import timing
        comm = MPI.COMM_WORLD

        class Late:
            def Barrier(self):
                time.sleep(0.05 * comm.rank)
                comm.Barrier()
            Allreduce = staticmethod(comm.Allreduce)

        barrier = timing.measure(comm.Barrier, repeat=7, comm=Late())
        open(f"{os.environ['OUT']}/{comm.rank}.json", "w").write(json.dumps(barrier.median))
    """
    first, second = mpi(2, code, tmp_path)
    assert first == second < 0.05
