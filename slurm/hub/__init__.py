"""JupyterHub for a class: on the tabletop cluster, at a site, or on one machine without Slurm.

    python -m slurm.hub up|status|down|forget  # behind make hub, hub-status, hub-stop, hub-forget

| module | what it is |
|---|---|
| `course` | the course as a git bundle, of which each learner gets a copy |
| `install` | the hub's packages and proxy, from locks with hashes |
| `names` | of users, files and a variable, as the labs' Python and the hub's call them |
| `passwords` | who may log in with a password of the hub's own |
| `people` | Unix users: those that the hub makes and removes, those of a site, the board's |
| `process` | the hub as processes and jobs: started, held, found, ended |
| `settings` | where a hub runs, and what it is told |

The hub's own Python runs `jupyterhub_config`, with `names` and `passwords`; a learner's server
begins with `job.sh` and `session`.
"""
