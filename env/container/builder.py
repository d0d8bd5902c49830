"""Which program builds images here, and what it is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from env.horovod.build import cache_root
from env.install.steps import StepFailed

PROGRAMS = ("podman", "docker", "buildah")
IMAGE = "hpdl-labs"
LEARNERS = "learners"
INSTRUCTORS = "instructors"
SECTIONS = ("setup", "tabletop", "container")
FOR_INSTRUCTORS = ("tests",)
# Beside an archive's files, in a folder where it was unpacked and used.
NOT_COPIED = shutil.ignore_patterns(
    ".venv", ".git", ".labkit", "build", "release", "report", "guide", "__pycache__", "*.egg-info"
)
# Memory that ranks share: /dev/shm has 64 MB in a container unless more is asked for.
SHARED_MEMORY = "1g"


@dataclass(frozen=True)
class Builder:
    """A program that builds images: its name, and where it is."""

    name: str
    path: str

    def command(self, context: Path, image: str, arguments: dict[str, str], more: list[str]) -> list[str]:
        """The command that builds the image out of a folder.

        arguments: build arguments; those without a value are left out. more: options as the user gave them.
        """
        words = [self.path, "build", "-f", str(context / "env" / "Containerfile"), "-t", image]
        for name, value in arguments.items():
            if value:
                words += ["--build-arg", f"{name}={value}"]
        return [*words, *more, str(context)]

    def save(self, image: str) -> list[str]:
        """The command that writes the image to its standard output, as all of them and Apptainer read it.

        Podman and buildah call it localhost/NAME. Pushed, not saved, it has in the archive the plain name as
        well, by which alone Docker finds it.
        """
        if self.name == "docker":
            return [self.path, "save", image]
        named = image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"
        return [self.path, "push", "--quiet", image, f"docker-archive:/dev/stdout:{named}"]


def find() -> Builder:
    """The first of podman, docker and buildah that is here and works. StepFailed when none does."""
    silent = []
    for name in PROGRAMS:
        path = shutil.which(name)
        if path and answers(path):
            return Builder(name, path)
        if path:
            silent.append(name)
    if silent:
        raise StepFailed(
            f"{' and '.join(silent)} cannot be used: `{silent[0]} info` fails",
            "Start Docker or Podman Desktop, or its service; or install another: sudo apt-get install podman",
        )
    raise StepFailed(
        "a container image is built by podman, docker or buildah, and none of them is here",
        "Install one: on Debian and Ubuntu `sudo apt-get install podman`; on macOS and Windows "
        "Podman Desktop or Docker Desktop.",
    )


def answers(path: str) -> bool:
    """Does it work here? Docker's command, say, is nothing without its daemon."""
    try:
        return subprocess.run([path, "info"], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def sections(edition: str) -> list[str]:
    """The sections of the list of Debian packages that an image of this edition has."""
    return [*SECTIONS, *(FOR_INSTRUCTORS if edition == INSTRUCTORS else ())]


def edition_of(root: Path) -> str | None:
    """Which archive of `make release` this folder is; None for a checkout."""
    try:
        return json.loads((root / "EDITION.json").read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive of `make release`; the folder of its files."""
    with tarfile.open(archive) as tar:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, **safe)
    return next(path for path in folder.iterdir() if path.is_dir())


def add_wheels(context: Path) -> None:
    """Put the wheels of Horovod that were compiled here beside the files: what fits is not compiled again."""
    for wheel in sorted(cache_root().glob("*/horovod-*.whl")):
        target = context / "build" / "wheels" / wheel.parent.name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(wheel, target)


def start_command(program: str, image: str) -> str:
    """What a learner types."""
    return (
        f"{program} run --rm -it --shm-size={SHARED_MEMORY} -p 127.0.0.1:8888:8888 "
        f"-v hpdl-labs:/home/learner {image}"
    )


def write_archive(builder: Builder, image: str, target: Path) -> None:
    """Save the image as one file, .tar or .tar.gz. Raises StepFailed when that does not work."""
    packer = ("gzip", "-c") if target.suffix == ".gz" else ("cat",)
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    with open(part, "wb") as stream:
        saving = subprocess.Popen(builder.save(image), stdout=subprocess.PIPE)
        packing = subprocess.run(packer, stdin=saving.stdout, stdout=stream, check=False)
        saving.stdout.close()
        failed = saving.wait() or packing.returncode
    if failed:
        part.unlink()
        raise StepFailed(f"{target} could not be written", "See above; is the disk full?")
    os.replace(part, target)
