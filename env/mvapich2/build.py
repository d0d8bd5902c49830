"""Compile MVAPICH2, or take it from the cache.

The cache lies outside the checkout, so that a second checkout does not compile again. Its key covers all
that goes into the build. A build happens in a folder of its own, and what it leaves is renamed into place at
its end: an interrupted one leaves nothing that could be taken for a build. Who wants the same build meanwhile
waits.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from env.install.steps import Step
from env.mvapich2 import archive, edits, needs, prefix


@dataclass(frozen=True)
class Device:
    """What carries messages: configure's name for it, other options, in words, and how much is compiled."""

    channel: str
    options: tuple[str, ...]
    carries: str
    files: int  # lines of a whole `make`, for the percentage only


DEVICES = {
    "nemesis": Device("ch3:nemesis:tcp", (), "shared memory inside a node, TCP between nodes", 880),
    # A rank that waits sleeps, where those of the others ask again and again: with more ranks than cores it
    # is the fastest.
    "sock": Device("ch3:sock", (), "TCP inside a node and between nodes", 860),
    "mrail": Device(
        "ch3:mrail",
        ("--with-rdma=gen2", "--disable-mcast"),
        "shared memory inside a node, InfiniBand between nodes",
        1000,
    ),
}
DEFAULT = "nemesis"
OPTIONS = (
    "--enable-threads=multiple",  # as Horovod asks for
    "--disable-fortran",
    "--disable-cxx",
    "--disable-static",
    "--enable-shared",
    "--disable-omb",
    "--disable-libxml2",  # hydra's, and of no use here
    "--disable-maintainer-mode",  # the archive's generated files are good, whatever their dates
    "--disable-dependency-tracking",
    "--enable-silent-rules",  # one line a file, which is the progress that is shown
)
# The sources are C of before 1999 in places. GCC 10 no longer merges variables that are defined twice, GCC 14
# and Clang 16 stop at calls of undeclared functions and the like, GCC 15 reads C23 unless told otherwise.
FLAGS = (
    "-std=gnu11",
    "-fcommon",
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=implicit-int",
    "-Wno-error=int-conversion",
    "-Wno-error=incompatible-pointer-types",
)
STORY = "built-from.json"  # in each build: what it was made of
# Of the user's environment these would change the build, and the key does not know them.
FOREIGN = re.compile(r"\w*FLAGS|LIBS|CXX|FC|F77|(MPICH|MPICHLIB|MV2|HYDRA)_\w+")


def recipe(source: archive.Archive, device: str) -> str:
    """A hash over all that this kit decides of a build."""
    return _hash(
        {
            "archive": source.sha256,
            "edits": [(edit.path, edit.old, edit.new) for edit in edits.EDITS],
            "device": [DEVICES[device].channel, *DEVICES[device].options],
            "options": OPTIONS,
            "flags": FLAGS,
            "layout": prefix.LAYOUT,
        }
    )


def key(source: archive.Archive, device: str) -> str:
    """The cache's key: a hash over all that goes into a build, of this kit and of this machine."""
    return _hash(
        {
            "recipe": recipe(source, device),
            "managers": managers(),
            "compiler": needs.compiler_version(),
            "machine": f"{platform.machine()} {' '.join(platform.libc_ver())}",
        }
    )


def _hash(parts: dict) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def managers() -> str:
    """What can be compiled here of hydra (mpiexec; Slurm's pmi2 speaks its protocol, too) and mpirun_rsh."""
    return "hydra" if needs.missing_for_mpirun_rsh() else "hydra:mpirun"


def place(source: archive.Archive, device: str) -> Path:
    """Where that build lies in the cache, once it is there."""
    return archive.cache_root() / key(source, device)


def jobs() -> int:
    """Compilations at a time: as MAKEFLAGS says, else one for each usable core."""
    asked = re.search(r"-j ?(\d+)", os.environ.get("MAKEFLAGS", ""))
    return int(asked[1]) if asked else len(os.sched_getaffinity(0))


def environment() -> dict[str, str]:
    """The environment of the compilation, without what would change the build behind the key's back."""
    env = {name: value for name, value in os.environ.items() if not FOREIGN.fullmatch(name)}
    env.pop("MAKELEVEL", None)
    return env | {"MAKEFLAGS": f"-j{jobs()}", "CC": needs.compiler() or "cc", "LC_ALL": "C"}


class Build:
    """One build in the cache, being made: `with Build(…) as build`, then unpack, configure, compile, keep.

    While it is made no other process makes the same one. `ready` tells that another has made it meanwhile.
    """

    def __init__(self, source: archive.Archive, device: str):
        self.source = source
        self.device = device
        self.place = place(source, device)
        self.work = self.place.with_suffix(".work")
        self._lock = self.place.with_suffix(".lock")

    def __enter__(self) -> Build:
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._lock.open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print(
                "      MVAPICH2 is being built elsewhere with the same settings; waiting for it", flush=True
            )
            fcntl.flock(self._file, fcntl.LOCK_EX)
        shutil.rmtree(self.work, ignore_errors=True)  # of a build that was killed
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self._file.close()

    @property
    def ready(self) -> bool:
        return self.place.is_dir()

    def unpack(self, file: Path) -> None:
        """Unpack the archive and edit the sources. Raises StepFailed."""
        self.work.mkdir(parents=True)
        self._sources = archive.unpack(file, self.work)
        edits.apply_all(self._sources)

    def configure(self, step: Step) -> None:
        """Run the sources' configure. Raises StepFailed."""
        device = DEVICES[self.device]
        command = [self._sources / "configure", f"--prefix={prefix.PLACEHOLDER}"]
        command += [f"--with-device={device.channel}", *device.options, *OPTIONS]
        command.append(f"--with-pm={managers()}")
        command.append(f"CFLAGS={' '.join(FLAGS)}")
        step.run(command, env=environment(), cwd=self._sources, progress=configure_progress)

    def compile(self, step: Step) -> None:
        """Run make. Raises StepFailed."""
        progress = compile_progress(DEVICES[self.device].files)
        step.run(["make"], env=environment(), cwd=self._sources, progress=progress)

    def keep(self, step: Step, seconds: float) -> Path:
        """Install the build, make it work in any folder, and put it into the cache. Raises StepFailed.

        seconds: what configure and make took, for the note that lies in it.
        """
        stage = self.work / "stage"
        command = ["make", "install", f"DESTDIR={stage}"]
        step.run(command, env=environment(), cwd=self._sources, progress=compile_progress(0))
        tree = stage / prefix.PLACEHOLDER.lstrip("/")
        prefix.make_movable(tree, " ".join(FLAGS))
        story = {
            "archive": self.source.name,
            "sha256": self.source.sha256,
            "device": self.device,
            "channel": DEVICES[self.device].channel,
            "compiler": needs.compiler_version(),
            "recipe": recipe(self.source, self.device),
            "managers": managers(),
            "seconds": round(seconds),
        }
        (tree / STORY).write_text(json.dumps(story, indent=1) + "\n", encoding="utf-8")
        os.replace(tree, self.place)
        return self.place


def configure_progress(line: str) -> str | None:
    """What configure looks for."""
    check = re.match(r"checking (?:for |whether )?(.*?)\.\.\.", line)
    return f"looks for {check[1]}" if check else None


def compile_progress(files: int) -> Callable[[str], str | None]:
    """A reader of make's lines, which says the percentage and the file; without `files`, the file alone."""
    done = 0

    def news(line: str) -> str | None:
        nonlocal done
        match = re.match(r"\s+[A-Z]{2,}\s+(\S+)", line)
        if match is None:
            return None
        done += 1
        share = f"{min(99, 100 * done // files)} % " if files else ""
        return f"{share}{match[1]}"

    return news
