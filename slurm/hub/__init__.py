"""JupyterHub for a class: on the tabletop cluster, at a site, or on one machine without Slurm.

    python -m slurm.hub up|status|down|forget  # behind make hub, hub-status, hub-stop, hub-forget

| module | what it is |
|---|---|
| `course` | the course as a git bundle, of which each learner gets a copy |
| `install` | the hub's packages and proxy, from locks with hashes |
| `learners` | Unix users that the hub makes and removes |
| `process` | the hub as a process: started, found, ended |
| `settings` | what `jupyterhub_config` reads |
| `site_users` | users that a site has: checked, and let in |

The hub's own Python runs `keep`, which holds the hub, and `jupyterhub_config`, with `passwords`; a
learner's server begins with `job.sh` and `session`.
"""
