"""What jupyterhub_config.py reads: made from the site file, the tabletop, or nothing (one
machine)."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labkit import paths
from labkit.cluster import sites
from labkit.errors import LabError

TABLETOP_ADDRESS = "10.77.0.1"  # its login node, as the nodes see it
_TIME = re.compile(r"(\d+-)?\d{1,3}(:\d\d){0,2}")


@dataclass(frozen=True)
class Job:
    """The request for a learner's job, as sbatch's options spell it; "" leaves the site's
    default."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    time: str = "02:00:00"
    cpus: str = "1"
    memory: str = ""
    options: str = ""
    prologue: str = ""


@dataclass(frozen=True)
class Place:
    """Where servers run: under Slurm or beside the hub, and how they reach it."""

    site: str  # "" without Slurm
    hub_address: str
    hub_port: int
    job: Job = field(default_factory=Job)
    pam: str = ""  # at a site: the service of PAM that knows the passwords of its users


def read_port(text: str) -> int:
    """The port that browsers use. LabError when it is none, or a reserved one."""
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise LabError(f"PORT={text} will not do: give a whole number from 1024 to 65535.")
    return int(text)


def listen(port: int) -> socket.socket:
    """The socket for browsers, at the loopback address. LabError when something has the port
    already."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise LabError(
            f"Port {port} is in use on this machine ({error.strerror}). Choose another: make hub "
            f"PORT={port + 1}"
        ) from None
    return listening


def free_port() -> int:
    """A port of the loopback address that nobody listens on now.

    Somebody else may take it before the hub does; the hub then ends, and says so.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def on_tabletop() -> Place:
    """On the tabletop, whose login node has ports of its own."""
    return Place("tabletop", TABLETOP_ADDRESS, 8081, Job(time="08:00:00"))


def on_one_machine() -> Place:
    """Servers are processes of this machine."""
    return Place("", "127.0.0.1", free_port())


def at_site(name: str, environ: Mapping[str, str] | None = None) -> Place:
    """As the site file says. LabError for an unknown site, or where the hub's own lines lack
    something."""
    known = sites.load(name, environ)
    address = known.get("LABKIT_HUB_ADDRESS", "")
    if not address:
        raise LabError(
            f"slurm/sites/{name}.sh does not say at which address of this machine the compute nodes"
            " reach the hub: add a line such as export LABKIT_HUB_ADDRESS=10.0.0.1; template.sh"
            " has all of the hub's lines."
        )
    pam = known.get("LABKIT_HUB_PAM", "")
    if is_root() and not pam:
        raise LabError(
            f"slurm/sites/{name}.sh does not say which service of PAM checks passwords. Use the "
            "service that your log-in nodes use, usually sshd, for others may ask for less: "
            'export LABKIT_HUB_PAM="sshd".'
        )
    return Place(name, address, 8081, site_job(name, known), pam)


def site_job(name: str, known: Mapping[str, str]) -> Job:
    """A learner's job at a site. known: what its file sets. LabError for what Slurm would not
    take."""
    time = known.get("LABKIT_HUB_TIME", Job.time)
    if not _TIME.fullmatch(time):
        raise LabError(
            f"LABKIT_HUB_TIME={time} in slurm/sites/{name}.sh is no time: write"
            " hours:minutes:seconds."
        )
    numbers = {}
    for variable, default in (("LABKIT_HUB_CPUS", "4"), ("LABKIT_HUB_GPUS", "0")):
        numbers[variable] = known.get(variable, default)
        if not numbers[variable].isdecimal():
            raise LabError(
                f"{variable}={numbers[variable]} in slurm/sites/{name}.sh is no whole number."
            )
    constraint = known.get("SBATCH_CONSTRAINT", "")
    options = [f"--constraint={constraint}"] if constraint else []
    options += gpu_option(
        name, int(numbers["LABKIT_HUB_GPUS"]), known.get("LABKIT_GPU_FORM", "none")
    )
    modules = known.get("LABKIT_MODULES", "")
    job = Job(
        partition=known.get("LABKIT_HUB_PARTITION") or known.get("SBATCH_PARTITION", ""),
        account=known.get("SBATCH_ACCOUNT", ""),
        qos=known.get("SBATCH_QOS", ""),
        reservation=known.get("LABKIT_HUB_RESERVATION") or known.get("SBATCH_RESERVATION", ""),
        time=time,
        cpus=numbers["LABKIT_HUB_CPUS"],
        memory=known.get("LABKIT_HUB_MEMORY", ""),
        options=" ".join(options),
        prologue=_bring(modules) if modules else "",
    )
    for key, value in asdict(job).items():
        if not value.isprintable():
            raise LabError(
                f"The {key} that slurm/sites/{name}.sh gives for the hub is more than one line."
            )
    return job


def _bring(modules: str) -> str:
    """Shell that loads modules as the batch scripts do; the job ends with a sentence where that
    fails."""
    return (
        'source "$LABS_HUB_ROOT/slurm/launch.sh"; set +eu; bring_modules; '
        f"LABKIT_MODULES={shlex.quote(modules)}; load_modules"
    )


def gpu_option(name: str, count: int, form: str) -> list[str]:
    """How this site wants to be asked for `count` GPUs of a node. LabError where its file knows no
    way."""
    if not count:
        return []
    if form not in ("gpus-per-node", "gres"):
        raise LabError(
            f"slurm/sites/{name}.sh asks for LABKIT_HUB_GPUS={count}, but its LABKIT_GPU_FORM is"
            f" {form!r}."
        )
    return [f"--gpus-per-node={count}" if form == "gpus-per-node" else f"--gres=gpu:{count}"]


def write(
    place: Place, state: Path, port: int, commands: Path | None, people: Sequence[str] = ()
) -> Path:
    """Write settings.json into the hub's private folder; its path.

    state: the hub's folder. port: for browsers. commands: bin/ of the tabletop on which it runs,
    else None. people: the site's users who may log in; none: those in the file of passwords.
    """
    values = {
        **asdict(place),
        "people": list(people),
        "real_users": is_root(),
        "port": port,
        "commands": str(commands) if commands else None,
    }
    path = state / "private" / "settings.json"
    part = path.with_suffix(".part")  # in one step: with a full disk the old ones stay
    part.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def folder() -> Path:
    """Where the hub keeps its files (made on first use): `private/` for the hub alone, the course
    for all."""
    state = paths.home().resolve() / "hub"
    state.mkdir(exist_ok=True)
    private = state / "private"
    private.mkdir(exist_ok=True)
    private.chmod(0o700)
    return state


def is_root() -> bool:
    """Only root can start servers of other users."""
    return os.geteuid() == 0
