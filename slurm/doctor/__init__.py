"""The doctor of a site: `make doctor SITE=x`, or `python -m slurm.doctor x`, on the cluster's login
node.

Does the cluster do what slurm/sites/x.sh says, and which labs run there? In the order in which it
looks:

| module | what it looks at |
|---|---|
| `login` | the site file's words, launcher and modules; would sbatch take such a job? |
| `trial` | one short job, which runs `node`: ranks, cores, GPUs, network, labkit's doctor |
| `verdict` | what that job found, in sentences |

Each sentence is a Finding of `findings`: ok, note, WRONG or unchecked.
"""
