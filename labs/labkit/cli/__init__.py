"""The learner's verbs: `python -m labkit run|submit|results|scaling|trace|doctor|progress`."""

from labkit.cli.main import main

__all__ = ["main"]
