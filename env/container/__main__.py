"""`python -m env.container`: build the image of an archive of the last commit; `make container`."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from env.container import builder
from env.install.environment import ROOT
from env.install.steps import StepFailed, exit_status, unpack


def context_of(edition: str, folder: Path) -> Path:
    """The files of `make release`, unpacked below `folder`: what the image is made of. Raises
    StepFailed."""
    if (ROOT / "EDITION.json").exists():
        raise StepFailed(
            "`make container` makes the image of a checkout's last commit, and this is an unpacked"
            " archive",
            f"Here, type: podman build -f env/Containerfile -t {builder.IMAGE} .",
        )
    run([sys.executable, str(ROOT / "env" / "setup.py")])
    python = str(ROOT / ".venv" / "bin" / "python")
    run([python, "-m", "authoring", "release", "--out", str(folder)])
    archive = next(folder.glob(f"*-{edition}-*.tar.gz"))
    unpack(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


def run(command: list[str]) -> None:
    """Run a command that says itself what goes wrong. Raises StepFailed when it fails."""
    # Both are for the image, not for this checkout's own environment.
    own = ("PYTHON", "GPU_OPERATIONS")
    env = {name: value for name, value in os.environ.items() if name not in own}
    if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
        raise StepFailed(f"{' '.join(command[:2])} failed", "What it said is above.")


def build(options: argparse.Namespace) -> None:
    """Build, then say how the image starts. Raises StepFailed."""
    program = builder.find()
    arguments = builder.build_arguments(options.edition, options.base, os.environ)
    with tempfile.TemporaryDirectory(prefix="container-") as scratch:
        context = context_of(options.edition, Path(scratch))
        builder.add_wheels(context)
        begun = time.monotonic()
        run(program.command(context, arguments, shlex.split(options.options)))
    seconds = time.monotonic() - begun
    print(
        f"{builder.IMAGE}: the {options.edition}' edition, built by {program.name} in"
        f" {seconds:.0f} s"
    )
    if options.archive:
        builder.write_archive(program, options.archive)
        print(f"{options.archive}: a laptop takes it by podman load -i {options.archive.name}")
    starter = "podman" if program.name == "buildah" else program.name
    command = builder.start_command(starter, gpus=bool(arguments["GPU_OPERATIONS"]))
    print(f"JupyterLab at the first lab:\n  {command}")


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="make container", description="Build the labs' container image."
    )
    parser.add_argument("--edition", choices=list(builder.SECTIONS), default="learners")
    parser.add_argument("--base", default="", help="the image that it begins with")
    parser.add_argument("--options", default="", help="more options for the program that builds")
    parser.add_argument(
        "--archive", type=Path, default=None, help="also write it to .tar or .tar.gz"
    )
    options = parser.parse_args(arguments)
    return exit_status("container", lambda: build(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
