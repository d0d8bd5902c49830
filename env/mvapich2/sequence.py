"""`make mvapich2`: the steps, in order, and the note that says they are done."""

from __future__ import annotations

import argparse
import fcntl
import json
import signal
import sys
import time
from pathlib import Path

from env.install import environment
from env.install.steps import Step, StepFailed
from env.mvapich2 import archive, build, needs, prefix, verify

VENV = environment.ROOT / ".venv"
TARGET = VENV / "mvapich2"
NOTE = "installed.json"
LOGS = VENV / "setup-logs"
TITLES = ("Look round", "Sources", "Configure", "Compile", "Install", "Two ranks")


def check_device(wanted: str) -> str:
    """The device in small letters. Raises StepFailed for an unknown one."""
    if wanted.lower() not in build.DEVICES:
        known = "; ".join(f"DEVICE={name}: {device.carries}" for name, device in build.DEVICES.items())
        raise StepFailed(f"DEVICE={wanted} is unknown", f"There are: {known}.")
    return wanted.lower()


def installed() -> dict[str, str]:
    """The note in .venv/mvapich2; empty when nothing complete is there."""
    try:
        return json.loads((TARGET / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


class Installation:
    """Runs the steps, and numbers them.

    source: the file that SOURCE names, or "".
    device: as DEVICE says, or "": the installed one, else the default.
    """

    def __init__(self, source: str, device: str):
        self.title = TITLES[0]
        self._source = source
        self._device = device

    def run(self) -> None:
        """All that is still to be done. Raises StepFailed."""
        note = installed()
        device = check_device(self._device or note.get("device", build.DEFAULT))
        file = None
        sources = archive.KNOWN  # any of them will do
        if self._source:
            file, chosen = archive.given(self._source)
            sources = (chosen,)
        if self._is_there(note, sources, device):
            print(f"already there: {note['library']}, {build.DEVICES[device].channel}")
            return
        places = (build.place(source, device) for source in sources)
        built = next((place for place in places if place.is_dir()), None)
        if built:
            print(f"compiled before with the same settings: taken from {built}")
        self._install(built or self._build(file, sources[0], device), device)

    def _is_there(self, note: dict, sources: tuple[archive.Archive, ...], device: str) -> bool:
        """True when what is installed is what was asked for, with all that can be compiled by now."""
        made = note.get("recipe") in [build.recipe(source, device) for source in sources]
        return made and (note["managers"] == build.managers() or "mpirun" in note["managers"])

    def _build(self, file: Path | None, source: archive.Archive, device: str) -> Path:
        step = self._step("Look round")
        archive.cache_root().mkdir(parents=True, exist_ok=True)
        needs.see_to(step, device, archive.cache_root())
        step.done(f"{needs.compiler_version()}, {build.jobs()} at a time")

        step = self._step("Sources")
        if file is None:
            file, source = archive.in_cache() or archive.fetch(step)
        with build.Build(source, device) as made:
            if made.ready:
                step.done("built meanwhile")
                return made.place
            made.unpack(file)
            step.done(f"{file.name} ({source.origin})")

            start = time.monotonic()
            step = self._step("Configure")
            made.configure(step)
            step.done(build.DEVICES[device].channel)

            step = self._step("Compile")
            made.compile(step)
            made.keep(step, time.monotonic() - start)
            step.done()
            return made.place

    def _install(self, built: Path, device: str) -> None:
        step = self._step("Install")
        new = prefix.put(built, TARGET)
        step.done(f"{prefix.size(new) / 1e6:.0f} MB in {TARGET.relative_to(environment.ROOT)}")

        step = self._step("Two ranks")
        note = json.loads((new / build.STORY).read_text(encoding="utf-8")) | verify.two_ranks(step, VENV, new)
        (new / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
        prefix.take_over(TARGET)
        step.done(f"mpi4py and Horovod: sums right, one MPI library, {note['library']}")

    def _step(self, title: str) -> Step:
        """Begin that step; its log is called after it."""
        self.title = title
        number = TITLES.index(title) + 1
        log = LOGS / f"mvapich2-{number}-{title.lower().replace(' ', '-')}.log"
        return Step(number, len(TITLES), title, log)


def report(error: StepFailed, title: str) -> None:
    """Say which step failed, why, where the whole story is, and what to do."""
    print(f"\nmvapich2: {title}: {error.message}", file=sys.stderr)
    if error.log and error.log.exists():
        print(f"  log:  {error.log}", file=sys.stderr)
    if error.cure:
        print(f"  cure: {error.cure}", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m env.mvapich2", description=__doc__)
    parser.add_argument("--source", default="", help="the source archive")
    parser.add_argument("--device", default="", help=", ".join(build.DEVICES))
    options = parser.parse_args(arguments)
    installation = Installation(options.source, options.device)
    # Ended by `kill`, or by a terminal that is closed, it tidies up as at Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        if not (VENV / "bin" / "python").exists():
            raise StepFailed(f"{VENV} is not there yet", "Type `make mvapich2`, which sets up first.")
        with (VENV / "mvapich2.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second `make mvapich2` of this checkout waits for the first
            installation.run()
    except StepFailed as error:
        report(error, installation.title)
        return 1
    except OSError as error:
        report(StepFailed(str(error)), installation.title)
        return 1
    except KeyboardInterrupt:
        print("\nmvapich2: interrupted; run it again, it begins that build anew", file=sys.stderr)
        return 130
    return 0
