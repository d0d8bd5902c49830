"""`python -m env.container`: build the image; `make container`.

The image holds an archive of `make release`, the learners' or the instructors'. In a checkout that archive is
made of the last commit; in an unpacked archive its files are taken as they are.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from env.container import builder
from env.install.environment import ROOT
from env.install.steps import StepFailed


def context_of(edition: str | None, folder: Path) -> tuple[Path, str]:
    """(folder that the image is made of, its edition). Raises StepFailed."""
    here = builder.edition_of(ROOT)
    if here:
        if edition not in (None, here):
            raise StepFailed(
                f"this is the {here}' archive, and an image of the {edition}' edition is made elsewhere",
                "Make it in a checkout, or in that archive.",
            )
        context = folder / "labs"
        shutil.copytree(ROOT, context, ignore=builder.NOT_COPIED, symlinks=True)
        return context, here
    edition = edition or builder.LEARNERS
    run([sys.executable, str(ROOT / "env" / "setup.py")])
    python = str(ROOT / ".venv" / "bin" / "python")
    run([python, "-m", "authoring", "release", "--out", str(folder / "release")])
    archive = next((folder / "release").glob(f"*-{edition}-*.tar.gz"))
    return builder.unpack(archive, folder / "unpacked"), edition


def run(command: list[str]) -> None:
    """Run a command that says itself what goes wrong. Raises StepFailed when it fails."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
        raise StepFailed(f"{Path(command[0]).name} {command[1]} failed", "What it said is above.")


def build(options: argparse.Namespace) -> None:
    """Build, then say how large the image is and how it starts. Raises StepFailed."""
    program = builder.find()
    with tempfile.TemporaryDirectory(prefix="container-") as scratch:
        context, edition = context_of(options.edition, Path(scratch))
        builder.add_wheels(context)
        arguments = {
            "BASE": options.base,
            "SECTIONS": " ".join(builder.sections(edition)),
            "TORCH_INDEX": options.torch_index,
        }
        command = program.command(context, options.image, arguments, shlex.split(options.options))
        begun = time.monotonic()
        if subprocess.run(command, check=False).returncode:
            raise StepFailed(f"{program.name} could not build the image", "What it said is above.")
        seconds = time.monotonic() - begun
    print(f"{options.image}: the {edition}' edition, built by {program.name} in {seconds:.0f} s")
    if options.archive:
        builder.write_archive(program, options.image, options.archive)
        megabytes = options.archive.stat().st_size / 1e6
        print(f"{options.archive}: {megabytes:.0f} MB")
        print(f"  a laptop takes it by: podman load -i {options.archive.name}")
    starter = "podman" if program.name == "buildah" else program.name
    print(f"JupyterLab at the first lab:\n  {builder.start_command(starter, options.image)}")


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make container", description="Build the labs' container image.")
    parser.add_argument("--edition", choices=(builder.LEARNERS, builder.INSTRUCTORS), default=None)
    parser.add_argument("--image", default=builder.IMAGE, help=f"its name (default: {builder.IMAGE})")
    parser.add_argument("--base", default="", help="the Debian 12 that it begins with")
    parser.add_argument(
        "--torch-index", default=os.environ.get("TORCH_INDEX", ""), help="PyTorch's CPU packages"
    )
    parser.add_argument("--options", default="", help="more options for the program that builds")
    parser.add_argument("--archive", type=Path, default=None, help="also write it to .tar or .tar.gz")
    options = parser.parse_args(arguments)
    try:
        build(options)
    except StepFailed as error:
        print(f"container: {error.message}", file=sys.stderr)
        if error.cure:
            print(f"  cure: {error.cure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncontainer: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
