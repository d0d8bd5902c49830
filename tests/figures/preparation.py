"""An instructor's preparation, word for word, timed: `python3 -m tests.figures.preparation FOLDER`,
as root.

The commands are those of docs/TEACHING.md, "Before the class, and after it". They run in a fresh
clone in FOLDER, which other users must be able to reach, with empty caches of this kit and of pip.
While the hub runs, learner01 logs in and starts two ranks. Printed: the seconds of each command,
with the last line that it said. It ends at the first one that fails. Only Python's own library is
needed: a fresh machine has nothing else.

The hub makes users on this machine, and removes them: it is for a machine of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADING = "## Before the class, and after it"
# A learner's first minutes, by the clone's own client: log in, wait for the server, use two ranks,
# log out.
VISIT = '''
import sys
from tests.slurm.hub_client import Learner

learner = Learner("http://127.0.0.1:8000", sys.argv[1], sys.argv[2])
assert learner.log_in(), "the password was not taken"
seconds = learner.start()
code = """
from labkit import launch

def rank():
    from mpi4py import MPI
    return MPI.COMM_WORLD.rank

print(launch.run(rank, ranks=2))
"""
printed = learner.kernel().run(code)
assert "[0, 1]" in printed, printed
learner.log_out()
print(f"log-in to the first page: {seconds:.1f} s; two ranks ran")
'''


def commands(page: Path = ROOT / "docs" / "TEACHING.md") -> list[str]:
    """The lines of the blocks below the heading."""
    section = page.read_text(encoding="utf-8").partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    if not blocks:
        raise SystemExit(f"{page} has no commands below '{HEADING}'")
    return "".join(blocks).splitlines()


def visit(clone: Path) -> str:
    """The command by which learner01 comes to the hub."""
    words = (clone / ".labkit/hub/private/passwords.txt").read_text(encoding="utf-8")
    found = re.search(r"^(learner0*1)\s+(\S+)$", words, re.MULTILINE)
    if found is None:
        raise SystemExit("The file of passwords names no learner01.")
    return shlex.join([".venv/bin/python", "-c", VISIT, found[1], found[2]])


def follow(clone: Path, command: str, name: str, environment: dict[str, str]) -> None:
    """Run one command and say its seconds; SystemExit with its last words when it fails."""
    begun = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", command], cwd=clone, env=environment, capture_output=True, text=True
    )
    lines = (done.stdout + done.stderr).strip().splitlines() or [""]
    if done.returncode:
        raise SystemExit(f"{name}: status {done.returncode}\n" + "\n".join(lines[-30:]))
    print(f"{time.monotonic() - begun:7.1f} s  {name}\n           {lines[-1][:100]}", flush=True)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("Name a folder that is not there yet, such as /srv/preparation.")
    folder = Path(sys.argv[1]).resolve()
    if os.geteuid() != 0:
        raise SystemExit("The hub makes users: be root, on a machine of its own.")
    if folder.exists():
        raise SystemExit(f"{folder} is there already.")
    folder.mkdir(mode=0o755, parents=True)
    clone = folder / "labs"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    caches = {"XDG_CACHE_HOME": str(folder / "cache"), "PIP_CACHE_DIR": str(folder / "cache/pip")}
    environment = {**os.environ, **caches}
    environment.pop("VIRTUAL_ENV", None)
    begun = time.monotonic()
    try:
        for command in commands():
            follow(clone, command, command, environment)
            if command == "make hub-status":
                follow(clone, visit(clone), "learner01 logs in", environment)
    except BaseException:
        # What came before may have made users and a cluster: none of them stays. The folder does,
        # to be read.
        if (clone / ".labkit" / "hub").exists():
            for goal in ("hub-stop", "hub-forget", "tabletop-down"):
                subprocess.run(["make", goal], cwd=clone, env=environment, capture_output=True)
        print(f"{folder} is left, to be looked into.", file=sys.stderr)
        raise
    print(f"{(time.monotonic() - begun) / 60:.1f} minutes in all")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
