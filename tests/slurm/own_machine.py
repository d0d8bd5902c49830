"""For tests run by root: a machine of its own, as far as users and their homes go.

/etc is a copy there and /home an empty folder, in a mount namespace of the test's own: users are
made and removed for real, and the machine itself does not hear of them. What learners run is shown
where a stranger may read it, as a Python below /root may not be.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from labkit import paths

from env.install import debian
from slurm import tabletop
from slurm.hub import process
from tests.helpers import ran

LACKING = debian.lacks_slurm() and not os.environ.get("CI")
needs_slurm = pytest.mark.skipif(
    bool(LACKING), reason=f"needs {debian.command(debian.packages('tabletop'))}"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users")
_COVER = """
while read -r what where; do mount --rbind "$what" "$where"; done <"$0/mounts"
cd "$1"; shift
exec "$@"
"""


def command_line(*arguments: str, module: str = "slurm.tabletop", **options) -> CompletedProcess:
    """`python -m slurm.tabletop …`, or that of another module, from the checkout's root."""
    return ran(sys.executable, "-m", module, *arguments, cwd=paths.root(), **options)


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class OwnMachine:
    """Runs commands as root of such a machine. As a context manager its folder is removed at the
    end."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="own-machine-"))
        self.folder.chmod(0o755)
        self.home = self.folder / "labkit"
        self.home.mkdir(mode=0o755)
        shutil.copytree("/etc", self.folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
        self._number_users()
        (self.folder / "home").mkdir(mode=0o755)
        mounts = [(self.folder / "etc", Path("/etc"))]
        shown = {paths.root(), Path(sys.base_prefix).resolve()}
        closed = {Path("/home"), *filter(None, map(closed_above, shown))}
        for number, covered in enumerate(sorted(closed)):
            stand_in = self.folder / ("home" if covered == Path("/home") else f"cover{number}")
            stand_in.mkdir(mode=0o755, exist_ok=True)
            for path in shown:
                if path.is_relative_to(covered):
                    inside = stand_in / path.relative_to(covered)
                    inside.mkdir(mode=0o755, parents=True)
                    mounts.append((path, inside))
            mounts.append((stand_in, covered))
        lines = "".join(f"{what} {where}\n" for what, where in mounts)
        (self.folder / "mounts").write_text(lines, encoding="utf-8")

    def _number_users(self) -> None:
        """Users have numbers of their own: those of another such machine are not to be taken for
        them."""
        file = self.folder / "etc" / "login.defs"
        first = 10_000 + os.getpid() % 400 * 100
        lines = re.sub(r"(?m)^([UG]ID_MIN)\s.*$", rf"\1 {first}", file.read_text(encoding="utf-8"))
        file.write_text(lines, encoding="utf-8")

    def cover(self, *places: str) -> None:
        """Put an empty folder, into which everybody may write, over each of these places."""
        with (self.folder / "mounts").open("a", encoding="utf-8") as mounts:
            for place in places:
                stand_in = Path(tempfile.mkdtemp(prefix="place-", dir=self.folder))
                stand_in.chmod(0o1777)
                mounts.write(f"{stand_in} {place}\n")

    def __enter__(self) -> OwnMachine:
        return self

    def __exit__(self, *_) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *command: str) -> list[str]:
        """The command as one types it outside."""
        cover = ["unshare", "--mount", "bash", "-ec", _COVER, str(self.folder)]
        return [*cover, str(paths.root()), *command]

    def run(self, *command: str, timeout: float = 400, **more) -> CompletedProcess:
        """Run a command there, with a folder of its own for what labkit keeps."""
        env = {**os.environ, "LABKIT_HOME": str(self.home), **more}
        options = {"env": env, "stdin": subprocess.DEVNULL, "timeout": timeout}
        return ran(*self.command(*command), **options)

    def module(self, name: str, *arguments: str, timeout: float = 400) -> CompletedProcess:
        """`python -m name …` there."""
        return self.run(sys.executable, "-m", name, *arguments, timeout=timeout)

    def become(self, name: str) -> list[str]:
        """Make a normal user there; the words before a command of theirs."""
        assert self.run("useradd", "--create-home", name).returncode == 0
        home = f"/home/{name}"
        return ["runuser", "-u", name, "--", "env", f"HOME={home}", f"LABKIT_HOME={home}/labkit"]

    def hub(self, *arguments: str) -> CompletedProcess:
        """`python -m slurm.hub …` there."""
        return self.module("slurm.hub", *arguments)

    def tabletop(self, *arguments: str) -> CompletedProcess:
        """`python -m slurm.tabletop …` there."""
        return self.module("slurm.tabletop", *arguments)

    def end(self) -> None:
        """End root's hub and tabletop there, if they run."""
        if process.found(self.home.resolve() / "hub"):
            self.hub("down")
        if tabletop.find("table", self.home):
            self.tabletop("down")


def closed_above(path: Path) -> Path | None:
    """The first folder above `path` that is closed to others, if there is one."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None
