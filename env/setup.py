"""Make the environment: `make setup`, or `python3 env/setup.py [--tests]`.

Settings come as environment variables: PYTHON, MPI_HOME, GPU_OPERATIONS (NCCL or MPI), NCCL_HOME,
CUDA_HOME, TORCH_INDEX. No root is needed. A second call sees the stamp of the first and ends at
once.
"""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHONS = ["python3.11", "python3.12", "python3.13", "python3.10"]


def restart_if_old():
    """Go on under a newer Python when this one cannot read the rest: this file alone runs on any of
    them."""
    if sys.version_info >= (3, 10):  # noqa: UP036 - the system's python3 may well be older
        return
    probe = "import sys; sys.exit(sys.version_info < (3, 10))"
    for name in [os.environ.get("PYTHON") or PYTHONS[0]] + PYTHONS:
        try:
            with open(os.devnull, "w") as nowhere:
                usable = subprocess.call([name, "-c", probe], stderr=nowhere) == 0
        except OSError:
            continue
        if usable:
            os.execvp(name, [name, os.path.abspath(__file__)] + sys.argv[1:])
    sys.exit(
        "setup: this is Python {}.{}, and Python 3.10, 3.11, 3.12 or 3.13 is needed; none was found"
        " in PATH. Install one, or name one: make setup PYTHON=/path/to/python3.13".format(
            *sys.version_info
        )
    )


if __name__ == "__main__":
    restart_if_old()
    sys.path[0] = ROOT
    from env.sequence import main

    sys.exit(main(sys.argv[1:]))
