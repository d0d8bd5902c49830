"""Horovod 0.28.1 from its sources: how they are edited and built, and its own tests."""
