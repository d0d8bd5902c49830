"""Inside the container: bring the learner's own copy up to date, then become JupyterLab, or another
command.

`start.py` opens JupyterLab at the first lab; `start.py make doctor` runs that in the copy. The
course with its environment lies in /opt/hpdl-labs, which the learner cannot change. The copy is
~/labs, or $LABS_COPY; it holds the records, too. Only what Python itself brings is used here.
"""

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parents[2]
# The copy's environment is the course's, which is set up. Instructors' goals read tests/.
LEFT_OUT = ("env", ".venv", "build", ".ci")
DELIVERED = ".labkit/delivered.json"
FIRST = "work/00_check_environment.ipynb"


def main(command: list[str]) -> None:
    """Prepare the copy, then become the command; without one, JupyterLab."""
    copy = Path(os.environ.get("LABS_COPY") or Path.home() / "labs").expanduser().absolute()
    if is_checkout(copy):
        sys.exit(
            f"{copy} is a checkout of its own, in which the course must not be unpacked: name"
            " another folder, LABS_COPY=/path/to/it."
        )
    try:
        kept = deliver(COURSE, copy)
    except OSError as error:
        sys.exit(
            f"{copy} cannot be written ({error.strerror}): mount a volume there that is yours."
        )
    if kept:
        names = ", ".join(kept[:3]) + (", …" if len(kept) > 3 else "")
        print(
            f"The course has newer versions of files that you have changed; yours stay: {names}",
            flush=True,
        )
    os.environ.update(variables(COURSE, copy, os.environ))
    os.chdir(copy)
    if not command:
        subprocess.run(
            [str(COURSE / ".venv" / "bin" / "python"), "-m", "labkit", "bring"], check=False
        )
    words = command or jupyter(copy, os.environ)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        sys.exit(f"{words[0]} cannot be started: {error.strerror}")


def is_checkout(copy: Path) -> bool:
    """Is there a clone, or an environment of its own? A copy of the course has neither."""
    venv = copy / ".venv"
    return (copy / ".git").exists() or (venv.exists() and not venv.is_symlink())


def deliver(course: Path, copy: Path) -> list[str]:
    """Bring the copy up to date with the course: what is missing, and what the learner has not
    changed.

    Returns the files that the learner has changed and that are newer in the course; they stay. A
    file that was removed comes again, as it was at first. Raises OSError.
    """
    record = copy / DELIVERED
    before = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    delivered = {}
    kept = []
    for source in files(course):
        name = str(source.relative_to(course))
        target = copy / name
        digest = digest_of(source)
        present = digest_of(target)
        if present in (None, before.get(name)) and present != digest:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        elif present != digest and before.get(name) not in (None, digest):
            kept.append(name)
        delivered[name] = digest
    environment = copy / ".venv"
    if not environment.is_symlink():
        environment.symlink_to(course / ".venv")
    record.parent.mkdir(exist_ok=True)
    part = record.with_suffix(".part")
    part.write_text(json.dumps(delivered), encoding="utf-8")
    part.replace(record)
    return kept


def files(course: Path) -> list[Path]:
    """The course's files that a learner gets."""
    tops = [path for path in course.iterdir() if path.name not in LEFT_OUT]
    found = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*"))]
    made = ("__pycache__", ".egg-info")
    return sorted(
        path for path in found if path.is_file() and not any(word in str(path) for word in made)
    )


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file; None where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def variables(course: Path, copy: Path, env: dict) -> dict[str, str]:
    """What the copy's processes find in their environment: the course's programs, the copy's
    labkit.

    MPICH takes a long message straight out of the other rank's memory. Where the container forbids
    that, as Docker 20.10 does, the message fails; told so, MPICH copies by way of shared memory.
    """
    chosen = "MPIR_CVAR_CH4_CMA_ENABLE" in env
    copying = {} if chosen or may_read_memory() else {"MPIR_CVAR_CH4_CMA_ENABLE": "0"}
    return copying | {
        "PATH": f"{course / '.venv' / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}",
        "PYTHONPATH": str(copy / "labs"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


class Piece(ctypes.Structure):
    """A piece of memory, as process_vm_readv(2) takes it: struct iovec."""

    _fields_ = (("start", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


def may_read_memory() -> bool:
    """Does this container allow the call that reads another process's memory?

    Tried with this process's own memory, which the kernel itself never refuses: a refusal is the
    container's.
    """
    source, target = ctypes.create_string_buffer(b"x", 1), ctypes.create_string_buffer(1)
    there = Piece(ctypes.addressof(source), 1)
    here = Piece(ctypes.addressof(target), 1)
    read = ctypes.CDLL(None).process_vm_readv
    return read(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 1


def jupyter(copy: Path, env: dict) -> list[str]:
    """The command of JupyterLab at the first lab of the copy.

    It listens to the container's own network, of which the machine passes on one port. Apptainer's
    containers have the machine's network, and there it listens to that machine alone. $LABS_ADDRESS
    chooses.
    """
    shared = "APPTAINER_CONTAINER" in env or "SINGULARITY_CONTAINER" in env
    address = env.get("LABS_ADDRESS") or ("127.0.0.1" if shared else "0.0.0.0")
    port = env.get("LABS_PORT") or "8888"
    # Where the network is the machine's, other users can connect to a kernel's port.
    encrypted = "--KernelManager.transport_encryption=required"
    folder = [f"--ServerApp.root_dir={copy}", f"--LabApp.default_url=/lab/tree/{FIRST}"]
    return [
        "jupyter",
        "lab",
        "--no-browser",
        f"--ip={address}",
        f"--port={port}",
        encrypted,
        *folder,
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
