"""JupyterHub for a class, its commands: on the tabletop cluster, at a site, or on one machine without Slurm.

    python -m slurm.hub up|status|down|forget      # behind make hub, hub-status, hub-stop, hub-forget

What the hub itself is made of lies in env/jupyterhub/. For the tests and the load test:

course      the course as a git bundle, of which each learner gets a copy
learners    Unix users that the hub makes and removes
process     the hub as a process: started, found, ended
settings    what jupyterhub_config.py reads
site_users  users that a site has: checked, and let in
"""

from slurm.hub import course, learners, process, settings, site_users

__all__ = ["course", "learners", "process", "settings", "site_users"]
