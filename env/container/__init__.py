"""The labs as a container image: build.sh, which `make container` runs, and start.py inside it."""
