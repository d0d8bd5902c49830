"""The site files slurm/sites/NAME.sh: which there are, and what one of them sets. Lab 42 shows
one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from labkit import paths
from labkit.cluster import slurm
from labkit.errors import LabError

LAUNCHERS = ("srun", "mpirun_rsh", "mpiexec", "mpirun", "ibrun")
GPU_FORMS = ("gpus-per-node", "gres", "none")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=|:\s+\$\{(\w+):?=")


def here() -> str | None:
    """The site we are at: $SITE, else "tabletop" when one runs on this machine, else None."""
    return os.environ.get("SITE") or ("tabletop" if slurm.tabletop() else None)


def names() -> list[str]:
    """The sites that have a file, in order; the template is none."""
    return sorted(path.stem for path in _folder().glob("*.sh") if path.stem != "template")


def path(name: str) -> Path:
    """The file of a site. LabError that names the known sites when there is none."""
    file = _folder() / f"{name}.sh"
    if not _NAME.fullmatch(name) or name == "template" or not file.is_file():
        raise LabError(
            f"There is no site {name!r}. These are known: {', '.join(names()) or 'none'}. "
            "On a login node `make site NAME=x` writes one."
        )
    return file


def load(name: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the site file sets, variable -> value, as bash sees it after sourcing the file; no empty
    values.

    `environ`: the environment in which it is read, by default this process's. The user's
    SBATCH_ACCOUNT, SBATCH_PARTITION, … win where the file lets them (`${SBATCH_ACCOUNT:-…}`). What
    an earlier `source` of another site's file left there is not taken for the user's own.
    """
    file = path(name)
    start = without_other_site(name, os.environ if environ is None else environ)
    return {key: value for key, value in _sourced(file, start).items() if value}


def environment(name: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """A whole environment for sbatch: the user's, without what another site's file left there, and
    load()."""
    start = without_other_site(name, os.environ if environ is None else environ)
    return {**start, **load(name, start)}


def gpus_per_node(known: Mapping[str, str]) -> int:
    """GPUs of a node; 0 where the file gives no number, which `make doctor SITE=…` calls wrong."""
    gpus = known.get("LABKIT_GPUS_PER_NODE", "")
    return int(gpus) if gpus.isdecimal() else 0


def ranks_per_node(known: Mapping[str, str]) -> int | None:
    """A rank for each GPU of a node, where nobody says how many; None: as the batch script says.

    known: what `load` gives.
    """
    gpus = gpus_per_node(known)
    return gpus if gpus > 1 else None


def assigned(text: str) -> list[str]:
    """The variables that the text of a site file assigns, in order of appearance."""
    variables = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        words = [line] if re.match(r"\s*:\s", line) else _words(line)
        matches = [_ASSIGNED.match(word) for word in words]
        variables += [match[1] or match[2] for match in matches if match]
    return list(dict.fromkeys(variables))


def without_other_site(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the values that the file of another site, named by $SITE, has set
    there."""
    before = environ.get("SITE", "")
    if before == name or before not in names():
        return dict(environ)
    bare = {key: environ[key] for key in ("PATH", "HOME") if key in environ}
    left = _sourced(path(before), bare)
    return {key: value for key, value in environ.items() if left.get(key) != value}


def _folder() -> Path:
    return paths.root() / "slurm" / "sites"


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # an open quote: bash says what is wrong when it reads the file
        return line.split()


def _sourced(file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Run the file in bash as a job would, and see what its variables are then."""
    try:
        wanted = assigned(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise LabError(f"{paths.shown(file)} is not a text in UTF-8: save it as one.") from None
    # -a: a variable set without `export` is seen as well.
    script = 'set -aeu; source "$1"; exec env -0'
    try:
        done = subprocess.run(
            ["bash", "-c", script, "bash", str(file)],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabError(
            f"{paths.shown(file)} does not end within 60 s. A site file only sets variables; "
            "modules go into LABKIT_MODULES."
        ) from None
    if done.returncode:
        complaint = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise LabError(f"bash cannot read {paths.shown(file)}: {complaint[0]}")
    pairs = (pair.partition("=") for pair in done.stdout.decode(errors="replace").split("\0"))
    values = {key: value for key, _, value in pairs}
    return {key: values[key] for key in wanted if key in values}
