"""The set-up's steps, in order, and the stamp that says they are done."""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
import time

from env.horovod import build, gpu
from env.install import debian, environment, mpi, pythons, verify
from env.install.steps import PACKAGES, Step, StepFailed

VENV = environment.ROOT / ".venv"
STAMP = VENV / "setup-stamp.json"
LOGS = VENV / "setup-logs"
TITLES = (
    "Look round",
    "Virtual environment",
    "Packages",
    "MPI",
    "Horovod",
    "labkit and its kernel",
    "Two ranks",
)


def already(key: str, python: str | None) -> dict | None:
    """The stamp of an earlier set-up with the same inputs, if its environment is still there.

    `python` is the interpreter that was asked for, if one was.
    """
    if not STAMP.exists() or not (VENV / "bin" / "python").exists():
        return None
    stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    same = stamp.get("key") == key and stamp.get("root") == str(environment.ROOT)
    same = same and python in (None, stamp.get("settings", {}).get("PYTHON"))
    return stamp if same and any(VENV.glob("lib/python3.*/site-packages/horovod/metadata.json")) else None


class Setup:
    """Runs the steps; `step(name)` numbers them and names their logs."""

    def __init__(self, chosen: dict[str, str]):
        self.chosen, self.number = chosen, 0

    @property
    def title(self) -> str:
        """What the step that is under way is called; before the first one, the first's name."""
        return TITLES[max(0, self.number - 1)]

    def step(self, name: str) -> Step:
        """Begin the next step; its log is called after `name`."""
        self.number += 1
        return Step(self.number, len(TITLES), self.title, LOGS / f"{self.number:02d}-{name}.log")

    def run(self) -> dict:
        """All steps; returns the stamp's contents. Raises StepFailed."""
        chosen, start = self.chosen, time.monotonic()
        operations = gpu.check_operations(chosen.get("GPU_OPERATIONS", ""))

        step = self.step("look")
        python = self._look(step)
        step.done(f"{python}, {build.compiler()}")

        STAMP.unlink(missing_ok=True)  # from here on the environment changes
        step = self.step("venv")
        environment.create(step, python, VENV)
        step.done(str(VENV.relative_to(environment.ROOT)))

        step = self.step("packages")
        environment.install(step, VENV, chosen)
        step.done()

        step = self.step("mpi")
        library = mpi.find(VENV, chosen.get("MPI_HOME"))
        if library.site:
            environment.install_mpi4py(step, VENV, library.environment(dict(verify.clean_environment(VENV))))
            mpi.put_site_commands(library, VENV)
        step.done(library.identity)

        step = self.step("horovod")
        wheel, compiled = build.provide_wheel(
            step, VENV, library, operations, chosen.get("CUDA_HOME"), chosen.get("NCCL_HOME")
        )
        if not build.is_installed(VENV, wheel):
            pip = [VENV / "bin" / "python", "-m", "pip", "install", "--no-deps", "--force-reinstall"]
            step.run([*pip, "--no-input", wheel])
        step.done("compiled" if compiled else f"wheel from the cache, {wheel.parent.name}")

        step = self.step("labkit")
        environment.install_labkit(step, VENV)
        step.done()

        step = self.step("verify")
        answers = verify.two_ranks(step, VENV)
        step.done("MPI and Gloo, PyTorch and TensorFlow: all sums right, one MPI library per process")
        return {
            "root": str(environment.ROOT),
            "seconds": round(time.monotonic() - start, 1),
            "compiled": compiled,
            "wheel": str(wheel),
            "mpi": library.identity,
            "settings": chosen,
            "versions": build.read_versions(VENV / "bin" / "python"),
            "verified": answers,
        }

    def _look(self, step: Step) -> str:
        environment.check_room(environment.ROOT)
        python = pythons.find(self.chosen.get("PYTHON"), VENV)
        missing = debian.missing_tools()
        if missing and debian.may_install():
            step.say(f"installing {' '.join(missing)}")
            debian.install(step, debian.packages("setup"))
        elif missing:
            raise StepFailed(
                f"{' and '.join(missing)} not found, and Horovod must be compiled",
                f"Install: {PACKAGES['compiler']} All that Debian needs: "
                + debian.command(debian.packages("setup")),
            )
        return python


def for_tests() -> None:
    """See to what only the tests need: a browser, and Slurm. Where it may not be installed, say how."""
    needs = [
        ("Browser for the notebook test", "90-browser", "tests", not debian.browser()),
        ("Slurm for the tests of the tabletop cluster", "91-slurm", "tabletop", bool(debian.lacks_slurm())),
    ]
    for title, log, section, lacking in needs:
        names = debian.packages(section)
        if lacking and debian.may_install():
            step = Step(1, 1, title, LOGS / f"{log}.log")
            debian.install(step, names)
            step.done()
        elif lacking:
            print(f"{title}: not here. To have it: {debian.command(names)}")


def report(error: StepFailed, setup: Setup) -> None:
    """Say which step failed, why, where the whole story is, and what to do."""
    print(f"\nsetup: step {setup.number} ({setup.title}) failed: {error.message}", file=sys.stderr)
    if error.log and error.log.exists():
        print(f"  log:  {error.log}", file=sys.stderr)
    if error.cure:
        print(f"  cure: {error.cure}", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="env/setup.py", description=__doc__)
    parser.add_argument(
        "--tests", action="store_true", help="also see to what only the tests need (a browser, Slurm)"
    )
    parser.add_argument(
        "--again", action="store_true", help="run every step even if the stamp says they are done"
    )
    options = parser.parse_args(arguments)
    chosen = environment.settings()
    setup = Setup(chosen)
    try:
        key = environment.fingerprint(chosen)
        VENV.mkdir(exist_ok=True)
        with (VENV / "setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second set-up of this checkout waits for the first
            stamp = None if options.again else already(key, chosen.get("PYTHON"))
            if stamp:
                print(f"already set up ({stamp['mpi']}; Horovod {build.VERSION})")
            else:
                result = setup.run() | {"key": key}
                STAMP.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
                print(f"ready in {result['seconds']:.0f} s")
            if options.tests:
                for_tests()
    except StepFailed as error:
        report(error, setup)
        return 1
    except OSError as error:
        report(StepFailed(str(error), ""), setup)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0
