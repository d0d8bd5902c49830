"""The learner's commands: `python -m labkit VERB …`, which the Makefile calls.

| name | what it is |
|---|---|
| `main` | runs one verb: run, submit, results, scaling, trace, share, unshare, progress, doctor |
"""

from labkit.cli.verbs import main
