"""What compiling MVAPICH2 needs of the machine, and what to do about that which is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from env.install import debian
from env.install.steps import Step, StepFailed

BYTES = 1.5e9  # unpacked, compiled, installed, and the copy in .venv


@dataclass(frozen=True)
class Need:
    """Something that may be missing: what it is, and the Debian package that brings it."""

    what: str
    package: str


PROGRAMS = {
    "make": Need("make", "make"),
    "ar": Need("ar", "binutils"),
    "perl": Need("perl", "perl"),
    "awk": Need("awk", "mawk"),
}
COMPILER = Need("a C compiler", "gcc")
C_LIBRARY = Need("the C library's headers (stdlib.h)", "libc6-dev")
VERBS = Need("InfiniBand's headers (infiniband/verbs.h)", "libibverbs-dev")
FOR_MPIRUN_RSH = {"bison": Need("bison", "bison"), "flex": Need("flex", "flex")}


def compiler() -> str | None:
    """The C compiler's path: $CC, else cc, else gcc; None when there is none."""
    return shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")


def compiler_version() -> str:
    """The first line of the compiler's --version; part of the key of the cached build. "" without one."""
    cc = compiler()
    if cc is None:
        return ""
    answer = subprocess.run([cc, "--version"], capture_output=True, text=True, timeout=60)
    return answer.stdout.partition("\n")[0]


def missing(device: str) -> list[Need]:
    """What a build for that device lacks here."""
    lacking = _not_in_path(PROGRAMS)
    cc = compiler()
    if cc is None:
        return [COMPILER, *lacking]
    if not _compiles(cc, "#include <stdlib.h>\n#include <pthread.h>\n"):
        lacking.append(C_LIBRARY)
    elif device == "mrail" and not _compiles(cc, "#include <infiniband/verbs.h>\n"):
        lacking.append(VERBS)
    return lacking


def missing_for_mpirun_rsh() -> list[Need]:
    """What mpirun_rsh wants beyond that; all else does without."""
    return _not_in_path(FOR_MPIRUN_RSH)


def _not_in_path(programs: dict[str, Need]) -> list[Need]:
    return [need for program, need in programs.items() if not shutil.which(program)]


def _compiles(cc: str, headers: str) -> bool:
    """True when a C program with these headers compiles and links."""
    program = f"{headers}int main(void) {{ return 0; }}\n"
    command = [cc, "-x", "c", "-", "-o", os.devnull]
    return subprocess.run(command, input=program, capture_output=True, text=True, timeout=60).returncode == 0


def see_to(step: Step, device: str, room: Path) -> None:
    """See that all is there, as root by installing it, as the set-up does. Raises StepFailed.

    Without what mpirun_rsh wants, say that it is left out.
    """
    lacking = missing(device)
    wishes = missing_for_mpirun_rsh()
    if lacking and debian.may_install():
        _install(step, lacking)
        lacking = missing(device)
    if lacking:
        cure = f"On Debian and Ubuntu: {_command(lacking)}"
        if VERBS in lacking:
            cure += " (they are rdma-core's). Without InfiniBand: make mvapich2 DEVICE=nemesis."
        raise StepFailed(f"{_words(lacking)} not found, and MVAPICH2 must be compiled", cure)
    if wishes and debian.may_install():
        try:
            _install(step, wishes)
            wishes = []
        except StepFailed:
            pass  # no network: it is a wish
    if wishes:
        step.warn(f"{_words(wishes)} not found: mpirun_rsh is left out (to have it: {_command(wishes)})")
    free = shutil.disk_usage(room).free
    if free < BYTES:
        raise StepFailed(
            f"{free / 1e9:.1f} GB are free in {room}, {BYTES / 1e9:.1f} GB are needed", "Free some space."
        )


def _install(step: Step, needs: Iterable[Need]) -> None:
    names = [need.package for need in needs]
    step.say(f"installing {' '.join(names)}")
    debian.install(step, names)


def _words(needs: Iterable[Need]) -> str:
    return " and ".join(need.what for need in needs)


def _command(needs: Iterable[Need]) -> str:
    return debian.command([need.package for need in needs])
