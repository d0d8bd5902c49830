"""A class at a site, as its hub sees it: `python -m tests.slurm.hub_at_site PORT`, on the site's
login node.

Runs on the tabletop's login node, which has ports of its own. Starts the hub twice, the second time
for fewer people, and prints what happened as JSON. test_hub_users.py says what must have happened.
"""

from __future__ import annotations

import json
import subprocess
import sys

from labkit import paths

from tests.slurm.hub_client import Learner

CELL = """\
import getpass, os, stat
from pathlib import Path
mode = lambda name: format(stat.S_IMODE(Path(name).stat().st_mode), "o")
print(getpass.getuser(), os.getuid() == Path.home().stat().st_uid, Path.home(), mode(Path.home()))
print(mode(Path.home() / "labs"), mode(Path.home() / "labs-hub.log"))
print(os.environ["SLURM_JOB_ID"].isdigit())
"""


def printed(*command: str) -> str:
    """What a command prints. CalledProcessError when it fails."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def hub(*arguments: str) -> str:
    return printed(sys.executable, "-m", "slurm.hub", *arguments)


def queue() -> list[str]:
    """Users and names of all jobs."""
    return printed("squeue", "-h", "-o", "%u %j").split()


def main(port: str) -> None:
    """Log in, start a server, run a cell; then the same with ada no more on the list."""
    said = hub("up", "--site", "here", "--names", "ada grace", "--port", port)
    address = f"http://127.0.0.1:{port}"
    ada = Learner(address, "ada", "the password of ada")
    facts = {"said": said, "ada": ada.log_in()}
    word = "the password of "
    for name, password in (("grace", f"{word}ada"), ("eve", f"{word}eve"), ("root", "")):
        facts[f"{name}, refused"] = not Learner(address, name, password).log_in()
    file = paths.home() / "hub" / "private" / "passwords.txt"
    words = dict(line.split() for line in file.read_text(encoding="utf-8").splitlines())
    teacher = Learner(address, "instructor", words["instructor"])
    facts["words"] = list(words)
    facts["instructor"] = teacher.log_in()
    facts["board"] = teacher.session.get(f"{address}/services/board/", timeout=60).status_code
    ada.start()
    facts["cell"] = ada.kernel().run(CELL).split()
    facts["queue"] = queue()
    hub("down")
    facts["afterwards"] = queue()
    hub("up", "--site", "here", "--names", "grace", "--port", port)
    again = ada.session.get(f"{address}/hub/home", allow_redirects=False, timeout=60)
    facts["ada's cookie"] = again.headers.get("Location", f"status {again.status_code}")
    facts["ada, refused"] = not Learner(address, "ada", "the password of ada").log_in()
    facts["grace"] = Learner(address, "grace", "the password of grace").log_in()
    facts["down"] = hub("down")
    facts["forget"] = hub("forget")
    print(json.dumps(facts))


if __name__ == "__main__":
    main(sys.argv[1])
