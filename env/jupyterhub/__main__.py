"""What the hub needs, into .venv/hub: `python -m env.jupyterhub`, on the first `make hub`.

Its own virtual environment, beside the learners', and the proxy's Node package. Both come from locks with
hashes; once they are there nothing is asked of the network.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from env.install.steps import Step, StepFailed, pip_progress

HERE = Path(__file__).resolve().parent
VENV = HERE.parents[1] / ".venv"
HUB = VENV / "hub"
STAMP = HUB / "installed.txt"
LOCKS = ("requirements.txt", "package.json", "package-lock.json")
NODE = 20  # the proxy's package asks for this version or a later one


def fingerprint() -> str:
    """A hash of the locks and of this Python's version."""
    digest = hashlib.sha256(sys.version.encode())
    for name in LOCKS:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def check_node() -> None:
    """Raise StepFailed where there is no Node, too old a one, or no npm."""
    cure = (
        f"Install Node {NODE} or later, with npm: `sudo apt-get install nodejs npm` on Debian 13. Debian 12 "
        "has version 18: there unpack nodejs.org's archive, and put its bin/ first in PATH."
    )
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        lacking = "node" if node is None else "npm"
        raise StepFailed(f"there is no {lacking} here, and the hub's proxy is a Node program", cure)
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    major = said.removeprefix("v").split(".")[0]
    if not major.isdigit() or int(major) < NODE:
        raise StepFailed(f"node is version {said or 'unknown'}, and the hub's proxy needs {NODE}", cure)


def install() -> None:
    """Both parts, then the stamp. Raises StepFailed."""
    check_node()
    STAMP.unlink(missing_ok=True)
    logs = VENV / "setup-logs"
    step = Step(1, 2, "JupyterHub", logs / "hub-1-packages.log")
    python = HUB / "bin" / "python"
    step.run([sys.executable, "-m", "venv", "--clear", HUB])
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--no-deps"]
    step.run([*pip, "--require-hashes", "-r", HERE / "requirements.txt"], progress=pip_progress)
    step.done()
    step = Step(2, 2, "Its proxy", logs / "hub-2-proxy.log")
    for name in LOCKS[1:]:
        shutil.copy(HERE / name, HUB)
    step.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HUB)
    step.done()
    STAMP.write_text(fingerprint() + "\n", encoding="utf-8")


def main() -> int:
    """Install unless it is there. Returns the exit status."""
    try:
        HUB.mkdir(exist_ok=True)
        with (VENV / "hub.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second one waits for the first
            if not STAMP.exists() or STAMP.read_text(encoding="utf-8").strip() != fingerprint():
                install()
            else:
                check_node()
    except StepFailed as error:
        print(f"hub: {error.message}.", file=sys.stderr)
        if error.log:
            print(f"  log:  {error.log}", file=sys.stderr)
        if error.cure:
            print(f"  cure: {error.cure}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"hub: {error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nhub: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
