"""The container, started for real: `python -m tests.figures.container`, after `make container`.

Printed: when JupyterLab answers, what the doctor says inside, and lab 23, solved, on two ranks
inside. It needs podman or docker, and leaves neither container nor volume behind.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "hpdl-labs"
LAB = "23_ring_allreduce"
# As build.sh prints it, and docs/CONTAINER.md.
START = f"{{}} run --rm -it --shm-size=1g -p 127.0.0.1:8888:8888 -v hpdl-labs:/home/learner {IMAGE}"
PATIENCE = 300  # seconds until JupyterLab answers


def run(command: list[str], what: str, **more) -> str:
    """What a command prints. Its seconds are said; SystemExit with its last words when it fails."""
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise SystemExit(f"{what} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    print(f"{what}: {time.monotonic() - begun:.1f} s", flush=True)
    return done.stdout


def status(address: str) -> int:
    """The HTTP status of an address; 0 while nothing answers."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def start(program: str, volume: str) -> None:
    """Start JupyterLab as the guide says."""
    token = secrets.token_hex(16)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = START.format(program).replace("127.0.0.1:8888:", f"127.0.0.1:{port}:")
    text = text.replace("hpdl-labs:/home", f"{volume}:/home")
    words = shlex.split(text.replace("-it", f"-d --name {volume} -e JUPYTER_TOKEN"))
    address = f"http://127.0.0.1:{port}/api/contents/notebooks"
    begun = time.monotonic()
    run(words, "started", env={**os.environ, "JUPYTER_TOKEN": token})
    while status(f"{address}?token={token}") != 200:
        if time.monotonic() - begun > PATIENCE:
            raise SystemExit(run([program, "logs", volume], "its words"))
        time.sleep(0.2)
    seconds = time.monotonic() - begun
    print(f"JupyterLab answers after {seconds:.1f} s; without its token: {status(address)}")
    run([program, "stop", "-t", "30", volume], "stopped")


def main() -> None:
    program = next(filter(shutil.which, ("podman", "docker")), None)
    if program is None:
        raise SystemExit("Neither podman nor docker is here.")
    volume = f"labs-figures-{os.getpid()}"
    words = f"{program} run --rm -i --shm-size=1g -v {volume}:/home/learner {IMAGE} bash -ec"
    solution = (ROOT / "solutions" / f"{LAB}.py").read_text(encoding="utf-8")
    try:
        for what in ("a new volume", "one that has a copy"):
            print(f"With {what}:")
            start(program, volume)
        for script in (
            "id; df -h --output=size /dev/shm",
            "make doctor",
            f"mkdir -p work; cat > work/{LAB}.py; make run LAB=23 NP=2; find .labkit -type f",
        ):
            print(
                run([*words.split(), script], f"In the learner's copy, `{script}`", input=solution)
            )
    finally:
        subprocess.run([program, "rm", "-f", volume], capture_output=True)
        subprocess.run([program, "volume", "rm", "-f", volume], capture_output=True)


if __name__ == "__main__":
    main()
