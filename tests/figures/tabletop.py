"""Training over slow links, measured on the tabletop cluster: `python -m tests.figures.tabletop`.

Three tables, each from real Slurm jobs on two nodes: the step time of Horovod with VGG-16's gradients beside
the least that a ring may take, 2 (p - 1)/p times the gradient's bytes at the link's rate (Patarasuk and Yuan
2009); a two-level allreduce beside MPI's own; fp16 compression beside none. Medians of labkit.timing.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from slurm import tabletop

ROOT = Path(__file__).resolve().parents[2]
RATES = {"50mbit": 50e6, "100mbit": 100e6, "200mbit": 200e6, "500mbit": 500e6, "1gbit": 1e9, "2gbit": 2e9}
# One thread a rank: the nodes are one machine, and with more its cores are what is measured, not the link.
STEP = (
    "source slurm/sites/tabletop.sh; export OMP_NUM_THREADS=1; "
    "exec srun --mpi=pmi2 {python} -m tests.tabletop_ranks {what}"
)


def job(table, ranks_per_node: int, what: str) -> dict:
    """Run tests.tabletop_ranks as a job on two nodes; what its rank 0 found."""
    script = STEP.format(python=sys.executable, what=what)
    options = ["-N2", f"--ntasks-per-node={ranks_per_node}", "-t", "30"]
    done = table.run(["salloc", *options, "bash", "-c", script], cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"The job failed: {done.stderr.strip()}")
    found = json.loads(done.stdout.splitlines()[-1])
    if found["ranks"] != 2 * ranks_per_node:
        raise SystemExit(f"{found['ranks']} ranks ran, not {2 * ranks_per_node}.")
    return found


def gradients(table) -> None:
    """Step time with VGG-16's gradients by link, beside the ring's bound."""
    print("Horovod step, VGG-16's gradients, 2 nodes x 1 rank")
    print("    link   measured [s]          bound [s]  ratio")
    for name, rate in RATES.items():
        for node in (1, 2):
            table.slow(node, name)
        found = job(table, 1, "horovod vgg16 none")
        p, taken = found["ranks"], found["none"]
        bound = 2 * (p - 1) / p * found["bytes"] / (rate / 8)
        spread = f"{taken['median']:6.2f} ({taken['q1']:.2f} to {taken['q3']:.2f})"
        print(f"{name:>8}   {spread:<22} {bound:6.2f}   {taken['median'] / bound:5.2f}", flush=True)


def compare(table, link: str, ranks_per_node: int, what: str, title: str, first: str, second: str) -> None:
    """Two ways in turns in one job."""
    for node in (1, 2):
        table.slow(node, link)
    found = job(table, ranks_per_node, what)
    a, b = found[first]["median"], found[second]["median"]
    ratio = f"{second} / {first} = {b / a:.2f}"
    print(f"{title}, {link}: {first} {a:.3f} s, {second} {b:.3f} s; {ratio}", flush=True)


def main(only: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as home, tabletop.up("figures", nodes=2, home=Path(home)) as table:
        if only in (None, "two_level"):
            title = "Allreduce of 16 MiB, 2 nodes x 2 ranks"
            for link in ("200mbit", "1gbit"):
                compare(table, link, 2, f"two_level {16 << 20}", title, "flat", "two levels")
        if only in (None, "fp16"):
            title = "Horovod step, ResNet-50's gradients, 2 nodes x 1 rank"
            for link in ("200mbit", "1gbit"):
                compare(table, link, 1, "horovod resnet50 none fp16", title, "none", "fp16")
        if only in (None, "gradients"):
            gradients(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
