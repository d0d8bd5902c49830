"""The container, built and started for real: `python -m tests.figures.container`.

Printed: how long the build takes, when JupyterLab answers, what the doctor says inside, and lab 23,
solved, on two ranks inside. It needs podman or docker, takes 5 GB of its storage, and leaves
neither container nor volume behind; the image stays unless --remove is given.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
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


def run(command: list[str], **more) -> subprocess.CompletedProcess:
    """Run a command; SystemExit with its last words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise SystemExit(
            f"{shlex.join(command[:4])} … failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done


def status(address: str) -> int:
    """The HTTP status of an address; 0 while nothing answers."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def free_port() -> int:
    """A port of the loopback interface that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def build(options: argparse.Namespace) -> None:
    """`make container`, timed."""
    begun = time.monotonic()
    words = [f"OPTIONS={options.options}"] if options.options else []
    words += [f"BASE={options.base}"] if options.base else []
    run(["make", "container", *words], cwd=ROOT)
    print(f"make container: {time.monotonic() - begun:.0f} s", flush=True)


def start(program: str, volume: str, name: str) -> None:
    """Start JupyterLab as the guide says, twice: with a new volume, and with one that has a
    copy."""
    token = secrets.token_hex(16)
    for first in ("with a new volume", "again"):
        port = free_port()
        words = shlex.split(START.format(program))
        place = words.index(IMAGE)
        words[place:place] = ["-d", "--name", name, "-e", "JUPYTER_TOKEN"]
        words = [
            word.replace("127.0.0.1:8888:", f"127.0.0.1:{port}:") for word in words if word != "-it"
        ]
        words = [word.replace("hpdl-labs:/home", f"{volume}:/home") for word in words]
        address = f"http://127.0.0.1:{port}/api/contents/notebooks"
        begun = time.monotonic()
        run(words, env={**os.environ, "JUPYTER_TOKEN": token})
        while status(f"{address}?token={token}") != 200:
            if time.monotonic() - begun > PATIENCE:
                raise SystemExit(run([program, "logs", name]).stdout)
            time.sleep(0.2)
        seconds = time.monotonic() - begun
        print(
            f"JupyterLab answers after {seconds:.1f} s, {first}; without its token"
            f" {status(address)}"
        )
        begun = time.monotonic()
        run([program, "stop", "-t", "30", name])
        print(f"  stopped in {time.monotonic() - begun:.1f} s", flush=True)


def inside(program: str, volume: str, script: str, text: str = "") -> str:
    """What a shell's script prints in the learner's copy; text is its standard input."""
    words = [program, "run", "--rm", "-i", "--shm-size=1g"]
    words += ["-v", f"{volume}:/home/learner", IMAGE, "bash", "-ec", script]
    return run(words, input=text).stdout


def work(program: str, volume: str) -> None:
    """The doctor, and the lab as a learner has solved it."""
    print(inside(program, volume, "id; df -h --output=size /dev/shm"), flush=True)
    begun = time.monotonic()
    said = inside(program, volume, "make doctor")
    print(f"make doctor: {time.monotonic() - begun:.0f} s\n{said}", flush=True)
    solution = (ROOT / "solutions" / f"{LAB}.py").read_text(encoding="utf-8")
    begun = time.monotonic()
    said = inside(
        program,
        volume,
        f"mkdir -p work; cat > work/{LAB}.py; make run LAB=23 NP=2; find .labkit -type f",
        solution,
    )
    print(f"lab 23 on 2 ranks: {time.monotonic() - begun:.0f} s\n{said}", flush=True)


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="", help="the Debian 12 that the image begins with")
    parser.add_argument("--options", default="", help="more options for the program that builds")
    parser.add_argument("--built", action="store_true", help="the image is there")
    parser.add_argument("--remove", action="store_true", help="remove the image at the end")
    options = parser.parse_args(arguments)
    program = next(filter(shutil.which, ("podman", "docker")), None)
    if program is None:
        raise SystemExit("Neither podman nor docker is here.")
    if not options.built:
        build(options)
    volume = f"labs-figures-{os.getpid()}"
    try:
        start(program, volume, volume)
        work(program, volume)
    finally:
        subprocess.run([program, "rm", "-f", volume], capture_output=True)
        subprocess.run([program, "volume", "rm", "-f", volume], capture_output=True)
    if options.remove:
        run([program, "rmi", IMAGE])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
