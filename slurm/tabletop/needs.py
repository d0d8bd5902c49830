"""What a tabletop cluster needs of this machine: programs, namespaces, netem. Each lack gets one
sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from labkit.errors import LabError

# The program, and the packages that bring it (Debian and Ubuntu, Fedora).
PROGRAMS = {
    "slurmctld": ("slurmctld", "slurm-slurmctld"),
    "slurmd": ("slurmd", "slurm-slurmd"),
    "sbatch": ("slurm-client", "slurm"),
    "munged": ("munge", "munge"),
    "ip": ("iproute2", "iproute"),
    "tc": ("iproute2", "iproute-tc"),
    "unshare": ("util-linux", "util-linux"),
    "nsenter": ("util-linux", "util-linux"),
}
FOR_USERS = {"newuidmap": ("uidmap", "shadow-utils"), "newgidmap": ("uidmap", "shadow-utils")}


def path() -> str:
    """PATH with the folders of system programs, and without the commands of a cluster that is being
    used."""
    folders = [folder for folder in os.environ.get("PATH", "").split(":") if folder]
    own = [
        folder for folder in folders if not os.path.exists(os.path.join(folder, "tabletop-enter"))
    ]
    return ":".join([*own, "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"])


def program(name: str) -> str | None:
    """Where the machine's own program of this name is."""
    return shutil.which(name, path=path())


def is_root() -> bool:
    """Root needs no user namespace of its own."""
    return os.geteuid() == 0


def check_programs() -> None:
    """Install what is missing, where root and apt-get are at hand. LabError that names the
    programs that are still not there, and the packages that bring them."""
    if _lacking() and is_root() and program("apt-get"):
        _install(sorted({debian for debian, _ in _lacking().values()}))
    if lacking := _lacking():
        debian, fedora = (
            " ".join(sorted(set(packages))) for packages in zip(*lacking.values(), strict=True)
        )
        raise LabError(
            f"The tabletop cluster needs {', '.join(lacking)}. Debian, Ubuntu: sudo apt-get install"
            f" {debian}. Fedora: sudo dnf install {fedora}."
        )


def _lacking() -> dict[str, tuple[str, str]]:
    """Programs that are not there, with the packages that bring them."""
    wanted = PROGRAMS if is_root() else PROGRAMS | FOR_USERS
    return {name: packages for name, packages in wanted.items() if not program(name)}


def _install(packages: list[str]) -> None:
    """apt-get install, with a fresh list of packages."""
    print(f"Installing {' '.join(packages)} …", flush=True)
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", *words], env=env, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr[-1000:])


def slurm_version() -> tuple[int, int]:
    """(22, 5) for Slurm 22.05.8."""
    output = subprocess.run([program("sinfo"), "--version"], capture_output=True, text=True).stdout
    version = re.search(r"(\d+)\.(\d+)", output)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _apart(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in namespaces of its own, as a cluster's processes do."""
    users = [] if is_root() else ["--user", "--map-root-user"]
    unshare = [program("unshare"), *users, "--mount", "--net"]
    return subprocess.run([*unshare, *command], capture_output=True, text=True, check=False)


def check_namespaces() -> None:
    """A cluster lives in namespaces of its own. Raises LabError when this machine forbids them."""
    tried = _apart(program("ip"), "link", "set", "lo", "up")
    if tried.returncode:
        raise LabError(_why_forbidden(tried.stderr.strip()))


def _why_forbidden(complaint: str) -> str:
    if is_root():
        return (
            f"Root may make no namespaces here ({complaint}). A container needs more rights for"
            " that, such as docker run --privileged; the machine around it has them."
        )
    switches = {
        "user/max_user_namespaces": ("0", "user.max_user_namespaces=15000"),
        "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
        "kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    }
    for name, (closed, cure) in switches.items():
        file = Path("/proc/sys") / name
        if file.exists() and file.read_text(encoding="utf-8").strip() == closed:
            return (
                f"This machine forbids user namespaces to normal users ({complaint}). Its"
                f" administrator can allow them with: sudo sysctl {cure}. As root the tabletop"
                " cluster needs none."
            )
    return (
        f"No user namespace can be made here ({complaint}); a container often forbids them. "
        "Run make tabletop outside of the container, or as root."
    )


def check_netem(latency: int) -> None:
    """Links can only be delayed by a kernel that has netem. Raises LabError where it has none."""
    if not latency:
        return
    delay = ["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    tried = _apart(program("tc"), *delay)
    if tried.returncode:
        raise LabError(
            "LATENCY cannot be kept here: this machine's kernel has no netem, which delays packets"
            f" ({tried.stderr.strip()}). Leave LATENCY out, or load it where there is such a"
            " module: sudo modprobe sch_netem."
        )
