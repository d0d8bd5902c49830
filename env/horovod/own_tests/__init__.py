"""Horovod's own tests, against the Horovod of this environment: `python -m env.horovod.own_tests`."""
