"""What a batch job does on its first node: `python -m slurm.job NN_name`, which slurm/launch.sh
calls.

| name | what it is |
|---|---|
| `shape` | the job as Slurm describes it: nodes, ranks on each, cores, GPUs |
| `launcher` | `launcher.command(…)`: what starts the ranks, from the site's LABKIT_LAUNCHER |
|  | `launcher.chosen(env)`: the ranks' variables: builds, MPI's switches, the user's own |
"""

from slurm.job import launcher, shape

__all__ = ["launcher", "shape"]
