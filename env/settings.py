"""The names of the set-up's settings, as environment variables or typed after `make`, whose program
labs/labkit/make.py reads them here."""

SETTINGS = (
    "PYTHON",
    "MPI_HOME",
    "GPU_OPERATIONS",  # NCCL or MPI
    "NCCL_HOME",
    "CUDA_HOME",
    "TORCH_INDEX",
    "VERIFY",
)
