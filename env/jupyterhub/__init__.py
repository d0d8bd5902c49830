"""JupyterHub for a class: what it is made of. `make hub` starts it; see README.md in this folder."""
