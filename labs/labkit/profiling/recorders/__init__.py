"""FACE of labkit.profiling.recorders."""
