"""A learner's session: the copy of the course is brought up to date, then the notebook server
starts.

The hub runs this as the learner, in a Slurm job or as a process, with the shared environment's
Python. $LABS_HUB_ROOT is the checkout with that environment, $LABS_HUB_COURSE the course as a git
bundle.
"""

import functools
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit


def bring_packages(root: Path) -> None:
    """The hub's packages, behind those of the shared environment: what both have is the
    latter's."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(root / ".venv" / "hub" / "lib" / version / "site-packages"))


def keep_token() -> None:
    """Hand the hub's token, which opens the learner's notebook server, to JupyterHub's code alone.

    It leaves the environment, which git, kernels and terminals inherit, and all that they start.
    """
    from jupyterhub.services.auth import HubAuth

    token = os.environ.pop("JUPYTERHUB_API_TOKEN")
    os.environ.pop("JPY_API_TOKEN", None)  # its older name
    HubAuth.__init__ = functools.partialmethod(HubAuth.__init__, api_token=token)


def in_the_way(copy: Path) -> bool:
    """Is there something that is no copy of the course, such as a checkout, which has no
    EDITION.json?"""
    is_copy = (copy / ".git").is_dir() and (copy / "EDITION.json").is_file()
    return copy.exists() and not is_copy


def bring_course(course: str, copy: Path) -> None:
    """Clone the course, or merge what is new into the learner's copy; their own lines stay.

    SystemExit, a sentence, where something else is there: a pull would commit what is in it.
    """
    if in_the_way(copy):
        sys.exit(
            f"{copy} is there already and no copy of the course. It was left as it is. Rename it, "
            "then start the server again."
        )
    from nbgitpuller.pull import GitPuller

    try:
        for line in GitPuller(course, str(copy), branch="main", depth=0).pull():
            print(line, end="", flush=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        if not (copy / "notebooks").is_dir():
            raise
        print(
            f"The course could not be brought up to date ({error}); here is the copy as it was.",
            flush=True,
        )


def settle(root: Path, copy: Path) -> None:
    """Make the copy the checkout that labkit and `make` see, with the shared environment in it."""
    environment = copy / ".venv"
    if not environment.is_symlink():
        environment.symlink_to(root / ".venv")
    exclude = copy / ".git" / "info" / "exclude"
    if "/.venv\n" not in exclude.read_text(encoding="utf-8"):
        with exclude.open("a", encoding="utf-8") as stream:
            stream.write("/.venv\n")
    os.environ["PYTHONPATH"] = str(copy / "labs")
    os.environ["PATH"] = f"{root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"


def listen_towards_hub() -> None:
    """Of this node's addresses the server takes the one from which the hub is reached, and no
    other."""
    hub = urlsplit(os.environ["JUPYTERHUB_API_URL"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((hub.hostname, hub.port))  # nothing is sent
        own = probe.getsockname()[0]
    service = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    os.environ["JUPYTERHUB_SERVICE_URL"] = service._replace(
        netloc=f"{own}:{service.port or 0}"
    ).geturl()


def main() -> None:
    """Prepare, then become the notebook server."""
    os.umask(0o077)
    del sys.path[0]  # this folder, whose modules are the hub's
    root = Path(os.environ["LABS_HUB_ROOT"])
    copy = Path.home() / "labs"
    bring_packages(root)
    keep_token()
    bring_course(os.environ["LABS_HUB_COURSE"], copy)
    settle(root, copy)
    os.chdir(copy)
    # What fails is in the log.
    subprocess.run([sys.executable, "-m", "labkit", "bring"], check=False)
    server = str(root / ".venv" / "hub" / "bin" / "jupyterhub-singleuser")
    sys.argv = [server]
    # A kernel listens on this node's loopback address, where others could read along: they get no
    # word without the key in the connection file, of mode 600. Sockets in a folder of mode 700
    # would do the same, but their paths may have 107 characters at most, and below a site's home
    # they can be longer.
    sys.argv.append("--KernelManager.transport_encryption=required")
    if os.geteuid() == 0:  # a normal user's tabletop: root of a user namespace is this user
        sys.argv.append("--allow-root")
    if os.environ.get("LABS_HUB_SLURM"):
        listen_towards_hub()
        from batchspawner import singleuser

        sys.argv = ["batchspawner-singleuser", *sys.argv]
        singleuser.main()
    else:
        from jupyterhub.singleuser import main as serve

        serve()


if __name__ == "__main__":
    main()
