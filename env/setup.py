"""Make the environment: `make setup`, or `python3 env/setup.py [--tests]`.

No root is needed. A second call sees the stamp of the first and ends at once. This file and
install/pythons.py run on any Python from 3.6 on, and find one that can go on.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def restart_if_old():
    """Go on under a newer Python when this one cannot read the rest."""
    if sys.version_info >= (3, 10):  # noqa: UP036 - the system's python3 may well be older
        return
    from env.install import pythons

    try:
        newer = pythons.find(os.environ.get("PYTHON"), os.path.join(ROOT, ".venv"))
    except pythons.NoPython as error:
        sys.exit("setup: {}\n  cure: {}".format(*error.args))
    os.execv(newer, [newer, os.path.abspath(__file__)] + sys.argv[1:])


if __name__ == "__main__":
    sys.path[0] = ROOT
    restart_if_old()
    from env.sequence import main

    sys.exit(main(sys.argv[1:]))
