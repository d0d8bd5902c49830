"""The labs as a container image: built by podman, docker or buildah, started as a normal user.

__main__    `python -m env.container`, which is `make container`
builder     which of the three programs is here, and what it is told
start       inside the container: the learner's own copy, then JupyterLab
"""
