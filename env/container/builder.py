"""Which program builds images here, and what it is told."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from env.horovod.build import cache_root
from env.install.steps import StepFailed

IMAGE = "hpdl-labs"
# Edition -> the sections of the list of Debian packages that its image has.
SECTIONS = {
    "learners": ("setup", "tabletop", "container"),
    "instructors": ("setup", "tabletop", "container", "tests"),
}
# What an image for GPUs begins with: nvcc of a CUDA 12, and the Python of Ubuntu 22.04.
GPU_BASE = "docker.io/nvidia/cuda:12.8.1-devel-ubuntu22.04"
# How each program hands the machine's GPUs to a container.
GPUS = {"podman": "--device nvidia.com/gpu=all", "docker": "--gpus all"}
# Memory that ranks share: /dev/shm has 64 MB in a container unless more is asked for.
SHARED_MEMORY = "1g"


@dataclass(frozen=True)
class Builder:
    """A program that builds images: its name, and where it is."""

    name: str
    path: str

    def command(self, context: Path, arguments: dict[str, str], more: list[str]) -> list[str]:
        """The command that builds the image out of a folder.

        arguments: build arguments; those without a value are left out. more: options as the user
        gave them.
        """
        words = [self.path, "build", "-f", str(context / "env" / "Containerfile"), "-t", IMAGE]
        given = [f"--build-arg={name}={value}" for name, value in arguments.items() if value]
        return [*words, *given, *more, str(context)]

    def save(self) -> list[str]:
        """The command that writes the image to its standard output, as all of them and Apptainer
        read it.

        Podman and buildah call it localhost/NAME. Pushed, not saved, it has in the archive the
        plain name as well, by which alone Docker finds it.
        """
        if self.name == "docker":
            return [self.path, "save", IMAGE]
        return [self.path, "push", "--quiet", IMAGE, f"docker-archive:/dev/stdout:{IMAGE}:latest"]


def find() -> Builder:
    """The first of podman, docker and buildah that is here and works. StepFailed when none does."""
    there = [
        (name, path) for name in ("podman", "docker", "buildah") if (path := shutil.which(name))
    ]
    for name, path in there:
        # Docker's command, say, is nothing without its daemon.
        if subprocess.run([path, "info"], capture_output=True, check=False).returncode == 0:
            return Builder(name, path)
    if there:
        silent = [name for name, _ in there]
        raise StepFailed(
            f"{' and '.join(silent)} cannot be used: `{silent[0]} info` fails",
            "Start Docker or Podman Desktop, or its service; or install another: sudo apt-get"
            " install podman",
        )
    raise StepFailed(
        "a container image is built by podman, docker or buildah, and none of them is here",
        "Install one: on Debian and Ubuntu `sudo apt-get install podman`; on macOS and Windows "
        "Podman Desktop or Docker Desktop.",
    )


def add_wheels(context: Path) -> None:
    """Put the wheels of Horovod that were compiled here beside the files: what fits is not compiled
    again."""
    for wheel in sorted(cache_root().glob("*/horovod-*.whl")):
        target = context / "build" / "wheels" / wheel.parent.name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(wheel, target)


def build_arguments(edition: str, base: str, env: Mapping[str, str]) -> dict[str, str]:
    """The build arguments by name. StepFailed for PyTorch's CPU packages in an image for GPUs."""
    operations = env.get("GPU_OPERATIONS", "")
    index = env.get("TORCH_INDEX", "")
    if operations and index:
        raise StepFailed(
            f"GPU_OPERATIONS={operations} needs PyTorch's CUDA build, and TORCH_INDEX={index} names"
            " another place",
            "Leave TORCH_INDEX out.",
        )
    return {
        "BASE": base or (GPU_BASE if operations else ""),
        "SECTIONS": " ".join(SECTIONS[edition]),
        "TORCH_INDEX": index,
        "GPU_OPERATIONS": operations,
    }


def start_command(program: str, gpus: bool = False) -> str:
    """What a learner types. gpus: the image is one for GPUs."""
    devices = f"{GPUS[Path(program).name]} " if gpus else ""
    return (
        f"{program} run --rm -it {devices}--shm-size={SHARED_MEMORY} -p 127.0.0.1:8888:8888 "
        f"-v hpdl-labs:/home/learner {IMAGE}"
    )


def write_archive(builder: Builder, target: Path) -> None:
    """Save the image as one file, .tar or .tar.gz. Raises StepFailed when that does not work."""
    part = target.with_name(target.name + ".part")
    packed = "| gzip" if target.suffix == ".gz" else ""
    script = f"set -o pipefail; {shlex.join(builder.save())} {packed} > {shlex.quote(str(part))}"
    if subprocess.run(["bash", "-c", script], check=False).returncode:
        part.unlink(missing_ok=True)
        raise StepFailed(f"{target} could not be written", "See above; is the disk full?")
    os.replace(part, target)
