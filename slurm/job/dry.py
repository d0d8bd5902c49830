"""`make submit LAB=40 NODES=2 DRY=1`: what a job would be, without one.

sbatch's line, the batch script, the modules, the parameters that are changed, the variables of the
ranks, and the launcher's whole command for nodes that are called node1, node2, …: what `slurm.job`
will start there. A table names the page of the vendor's documentation for each option of the
launcher and each variable that is not the kit's own. Where MPI's launcher is not on this machine,
LABKIT_MPI in the site file says whose options it takes.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from labkit import cluster, copies, labfile, launch, mpis, paths
from labkit.errors import LabError, exit_status

from slurm.job import launcher
from slurm.job.shape import Shape

# What a rank is told: by the kit, by an MPI, by NCCL, Gloo and Horovod, by the networks under them.
_SHOWN = re.compile(
    r"(LABKIT|MV2|MVP|MPICH|MPIR|OMPI|UCX|FI|NCCL|GLOO|HOROVOD|OMP|OPENBLAS|MKL|TF_NUM)_|SITE"
)


def main(arguments: list[str] | None = None) -> int:
    """Print it. Returns 1 after a sentence for what cannot be."""
    parser = argparse.ArgumentParser(prog="make submit DRY=1")
    parser.add_argument("lab")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--site")
    parser.add_argument("--solved", action="store_true")
    for name in ("--set", "--env"):
        parser.add_argument(name, nargs="*", action="extend", default=[])
    parser.add_argument("--horovod")
    parser.add_argument("--mpi")
    options = parser.parse_args(arguments)
    return exit_status(lambda: print(text(options)))


def text(options: argparse.Namespace) -> str:
    """All of it. LabError for what `make submit` refuses without asking Slurm."""
    site = options.site or cluster.here()
    if site is None:
        raise LabError("Say which site this is: SITE=name. `make site NAME=x` writes its file.")
    known = cluster.sites.load(site)
    stem, choices = cluster.asked(
        options.lab,
        [options.nodes],
        options.ranks,
        settings=dict(labfile.read_setting(word) for word in options.set),
        solved=options.solved,
        env=dict(cluster.read_variable(word) for word in options.env),
        horovod=options.horovod,
        mpi=options.mpi,
    )
    batch = (paths.root() / "slurm" / f"{stem}.sbatch").read_text(encoding="utf-8")
    env = cluster.environment(os.environ, known, site, choices)
    if options.solved:
        env |= {"LABKIT_HOME": str(Path(env["LABKIT_HOME"], "solved")), "LABKIT_SOLVED": "1"}
    extra = shlex.split(known.get("LABKIT_SBATCH_OPTIONS", ""))
    each = (
        options.ranks
        or cluster.sites.ranks_per_node(known)
        or _option(batch, "ntasks-per-node", extra)
    )
    cores = _option(batch, "cpus-per-task", extra)
    sizes = [f"--nodes={options.nodes}", f"--ntasks-per-node={each}"]
    gpus = cluster.sites.gpus_per_node(known)
    hosts = tuple(f"node{number}" for number in range(1, options.nodes + 1))
    shape = Shape("JOB", hosts, (each,) * options.nodes, cores, gpus)
    env |= launcher.chosen(env)
    env |= dict.fromkeys(launch.THREAD_VARIABLES, str(cores)) | env
    script = copies.script(stem, options.solved)
    rank = ["python", str(script.relative_to(paths.root()))]
    command = launcher.command(shape, rank, env, Path(), dry=True)
    variables = [f"{name}={env[name]}" for name in sorted(env) if _SHOWN.match(name)]
    parts = {
        "sbatch": [shlex.join(["sbatch", *extra, *sizes, f"slurm/{stem}.sbatch"])],
        "the batch script": batch.splitlines(),
        "modules in the job": [known.get("LABKIT_MODULES", "none")],
        "parameters of the script": options.set or ["its own"],
        "variables that the ranks find": variables,
        "the documentation's page": documented(command[: -len(rank)], env),
        "the ranks are started by": [shlex.join(command)],
    }
    return "\n\n".join("\n".join([f"# {title}", *lines]) for title, lines in parts.items())


def documented(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Lines "option  page": of sbatch, of the launcher's words in `command`, of variables."""
    kind = launcher.kind(command[0], env)
    options = [word.partition("=")[0] for word in command[1:] if word.startswith("-")]
    pages = {"sbatch": "https://slurm.schedmd.com/sbatch.html"}
    pages |= {f"{command[0]} {option}": launch.page(kind, option) for option in options}
    names = (name for name in sorted(env) if _SHOWN.match(name))
    pages |= {name: page for name in names if (page := mpis.page(name))}
    width = max(map(len, pages))
    return [f"{what:<{width}}  {page}" for what, page in pages.items()]


def _option(batch: str, name: str, extra: list[str]) -> int:
    """An option's number: the site's, else the batch script's, else 1."""
    found = re.findall(rf"--{name}=(\d+)", "\n".join([*extra, batch]))
    return int(found[0]) if found else 1


if __name__ == "__main__":
    sys.exit(main())
