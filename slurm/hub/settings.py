"""Where a hub runs, and what it is told: settings.json, which `make hub` writes."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from labkit import files, paths
from labkit.cluster import sites
from labkit.errors import LabError

_PAM = ("/etc/pam.d", "/usr/lib/pam.d")
# What sbatch is asked for: its option, the site file's variables, of which the first that is set
# counts, what is asked for without any, and how it is written. A blank would begin another option.
_JOB = (
    ("partition", ("LABKIT_HUB_PARTITION", "SBATCH_PARTITION"), "", r"\S+"),
    ("account", ("SBATCH_ACCOUNT",), "", r"\S+"),
    ("qos", ("SBATCH_QOS",), "", r"\S+"),
    ("reservation", ("LABKIT_HUB_RESERVATION", "SBATCH_RESERVATION"), "", r"\S+"),
    ("constraint", ("SBATCH_CONSTRAINT",), "", r"\S+"),
    ("time", ("LABKIT_HUB_TIME",), "02:00:00", r"(\d+-)?\d{1,3}(:\d\d){0,2}"),
    ("cpus-per-task", ("LABKIT_HUB_CPUS",), "4", r"\d+"),
    ("mem", ("LABKIT_HUB_MEMORY",), "", r"\S+"),
)
_GPUS = {"gpus-per-node": "--gpus-per-node={}", "gres": "--gres=gpu:{}"}


def read_port(text: str) -> int:
    """The port that browsers use. LabError when it is none, or a reserved one."""
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise LabError(f"PORT={text} will not do: give a whole number from 1024 to 65535.")
    return int(text)


def listen(port: int) -> socket.socket:
    """The socket for browsers, at the loopback address. LabError when something has the port."""
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


def at(name: str, of_site: bool) -> dict:
    """The settings that stand in a site's file; "" is one machine without Slurm.

    of_site: do the site's own users log in, whose passwords PAM knows? LabError for an unknown
    site, and where the file lacks something.
    """
    if not name:
        return {"site": "", "address": "127.0.0.1", "job": [], "pam": ""}
    known = sites.environment(name)  # sbatch's own variables are the administrator's, if set
    address = known.get("LABKIT_HUB_ADDRESS", "")
    if not address:
        raise LabError(
            f"slurm/sites/{name}.sh does not say at which address of this machine the compute nodes"
            " reach the hub: add a line such as export LABKIT_HUB_ADDRESS=10.0.0.1; template.sh"
            " has all of the hub's lines."
        )
    pam = known.get("LABKIT_HUB_PAM", "")
    if of_site and not _is_service(pam):
        raise LabError(
            f"slurm/sites/{name}.sh says LABKIT_HUB_PAM={pam!r}, and PAM has no service {pam!r} on"
            f" this machine (a file in {_PAM[0]}). Name the one that checks passwords on your"
            " log-in nodes, usually sshd, for others may ask for less: export"
            ' LABKIT_HUB_PAM="sshd".'
        )
    return {"site": name, "address": address, "job": job(name, known), "pam": pam}


def _is_service(name: str) -> bool:
    """Has PAM rules for this service?"""
    return bool(re.fullmatch(r"[A-Za-z0-9_-]+", name)) and any(
        Path(folder, name).is_file() for folder in _PAM
    )


def job(name: str, known: Mapping[str, str]) -> list[str]:
    """The options of sbatch for a learner's job at a site.

    known: what its file and sbatch's own variables say. LabError for what Slurm would not take.
    """
    options = []
    for option, variables, default, form in _JOB:
        variable = next((each for each in variables if known.get(each)), variables[0])
        value = known.get(variable, default)
        if value and not (re.fullmatch(form, value) and value.isprintable()):
            raise LabError(
                f"{variable}={value!r} in slurm/sites/{name}.sh, or in your environment, will"
                f" not do for the hub: sbatch does not take it as its --{option}."
            )
        options += [f"--{option}={value}"] if value else []
    gpus, form = known.get("LABKIT_HUB_GPUS", "0"), known.get("LABKIT_GPU_FORM", "none")
    if gpus != "0" and not (gpus.isdecimal() and form in _GPUS):
        raise LabError(
            f"slurm/sites/{name}.sh asks for LABKIT_HUB_GPUS={gpus}, but its LABKIT_GPU_FORM is"
            f" {form!r}."
        )
    return options if gpus == "0" else [*options, _GPUS[form].format(int(gpus))]


def write(state: Path, values: Mapping[str, object]) -> Path:
    """Write settings.json into the hub's private folder, in one step; its path.

    values: those of `at`, and `port`, for browsers; `real_users`, does root run the hub, for
    others?; `people`, the site's users who may log in, none where all are in the file of passwords;
    `commands`, bin/ of the tabletop on which the hub runs, else "".
    """
    path = state / "private" / "settings.json"
    files.replace(path, json.dumps(values, indent=1) + "\n")
    return path


def read(state: Path) -> dict:
    """The settings of the hub that runs, or ran last; empty where none ever did."""
    file = state / "private" / "settings.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def folder() -> Path:
    """Where the hub keeps its files (made on first use): `private/` for the hub alone, the course
    for all."""
    state = paths.services().resolve() / "hub"
    private = state / "private"
    private.mkdir(parents=True, exist_ok=True)
    private.chmod(0o700)
    return state


def is_root() -> bool:
    """Only root can start servers of other users."""
    return os.geteuid() == 0
