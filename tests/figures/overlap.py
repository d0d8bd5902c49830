"""Lab 32's buckets beside DDP and Horovod, on the tabletop cluster: `python -m tests.figures.overlap [LINK]`.

A real Slurm job on two nodes, one rank each, over a shaped link. The net is like lab 32's, twice as deep; a
step has so many images that the backward pass lasts about as long as the sum of the gradients. The link is
slow, for here the cores that compute also move the bytes: the fewer in a second, the less of the step is the
network's own work, which on a cluster its card does. All steps are timed in turns; the fastest runs are given
beside the medians, for on a busy machine the medians tell of the neighbours.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from slurm import tabletop

ROOT = Path(__file__).resolve().parents[2]
STEP = "source slurm/sites/tabletop.sh; exec srun --mpi=pmi2 {python} -m tests.overlap_ranks {repeat}"


def measured(table, repeat: int) -> dict:
    """What rank 0 of tests.overlap_ranks found, as a job on two nodes."""
    script = STEP.format(python=sys.executable, repeat=repeat)
    done = table.run(["salloc", "-N2", "--ntasks-per-node=1", "-t", "25", "bash", "-c", script], cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"The job failed: {done.stderr.strip()}")
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def ratios(times: dict, which: str) -> None:
    """The two ratios that the lab promises, of the medians or of the fastest runs."""
    ours = min(times[name][which] for name in ("(c)", "(c) + thread"))
    theirs = {name: times[name][which] for name in ("DDP", "Horovod")}
    best = min(theirs, key=theirs.get)
    bound = max(times["arithmetic"][which], times["communication"][which])
    of_best = f"{ours / theirs[best]:.2f} of the better, {best} (at most 1.05 is the aim)"
    print(f"{which}: (c) takes {of_best}; {ours / bound:.2f} of the longer part alone (at most 1.15)")


def main(link: str = "50mbit", repeat: str = "25") -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        tabletop.up("overlap", nodes=2, bandwidth=link, home=Path(home)) as table,
    ):
        found = measured(table, int(repeat))
    times = found["times"]
    print(f"2 nodes x 1 rank, {link}, {found['bytes'] / 1e6:.1f} MB of gradients, {found['images']} images")
    for name, one in times.items():
        spread = f"{1e3 * one['q1']:.0f} to {1e3 * one['q3']:.0f}"
        print(f"{name:<14} median {1e3 * one['median']:6.0f} ms ({spread}), fastest {1e3 * one['least']:.0f}")
    for which in ("median", "least"):
        ratios(times, which)


if __name__ == "__main__":
    main(*sys.argv[1:])
