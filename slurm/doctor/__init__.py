"""The doctor of a site: `make doctor SITE=x`, or `python -m slurm.doctor x`, on the cluster's login
node.

Does the cluster do what slurm/sites/x.sh says, and which labs run there?

| module | what it does |
|---|---|
| `login` | on the login node: reads the site file, asks sbatch, tries one short job |
| `node`, `links` | in that job: ranks, cores, GPUs, MPI, network, labkit's doctor |
| `verdict` | what that job found, in sentences |

Each sentence is a Finding of `findings`: ok, note, WRONG or unchecked.
"""
