"""Make the environment: `make setup`, or `python3 env/setup.py [--tests]`.

Settings come as environment variables: PYTHON, MPI_HOME, GPU_OPERATIONS (NCCL or MPI), NCCL_HOME, CUDA_HOME,
TORCH_INDEX. No root is needed. A second call sees the stamp of the first and ends at once.
"""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def with_a_recent_python():
    """Restart under a supported Python when this one is too old for the rest (this file runs on 3.6)."""
    if sys.version_info >= (3, 10):  # noqa: UP036 - the system's python3 may well be older
        return
    for name in [os.environ.get("PYTHON", ""), "python3.11", "python3.12", "python3.10"]:
        found = shutil.which(name)
        probe = "import sys; sys.exit(sys.version_info < (3, 10))"
        if found and subprocess.call([found, "-c", probe], stderr=subprocess.DEVNULL) == 0:
            os.execv(found, [found, os.path.abspath(__file__)] + sys.argv[1:])
    sys.exit(
        "setup: this is Python {}.{}, and Python 3.10, 3.11 or 3.12 is needed; none was found in PATH. "
        "Install one, or name one: make setup PYTHON=/path/to/python3.11".format(*sys.version_info)
    )


if __name__ == "__main__":
    with_a_recent_python()
    sys.path[0] = ROOT
    from env.sequence import main

    sys.exit(main(sys.argv[1:]))
