"""FACE of slurm."""
