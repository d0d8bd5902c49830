"""The set-up's steps, in order, and the stamp that says they are done."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from env.horovod import build, cuda, flavours
from env.horovod.cuda import Toolkit
from env.install import behind, debian, environment, mpi, pythons, verify
from env.install.steps import PACKAGES, Step, StepFailed, exit_status

VENV = environment.ROOT / ".venv"
STAMP = VENV / "setup-stamp.json"
LOGS = VENV / "setup-logs"
LOCK = environment.ROOT / ".setup.lock"  # not in .venv, which may be made anew while it is held
TITLES = (
    "Look round",
    "Virtual environment",
    "Packages",
    "MPI",
    "labkit and its kernel",
    "Horovod",
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
    return stamp if same and flavours.all_there(VENV) else None


class Setup:
    """Runs the steps; `step(name)` numbers them and names their logs.

    lab_first: JupyterLab is opened before Horovod is compiled, if it has to be.
    """

    def __init__(self, chosen: dict[str, str], lab_first: bool = False):
        self.chosen = chosen
        self.lab_first = lab_first
        self.steps: list[Step] = []
        self.toolkit: Toolkit | None = None  # on a GPU machine, once it is found

    def step(self, name: str) -> Step:
        """Begin the next step; its log is called after `name`."""
        number = len(self.steps) + 1
        step = Step(number, len(TITLES), TITLES[number - 1], LOGS / f"{number:02d}-{name}.log")
        self.steps.append(step)
        return step

    def failed(self, error: Exception) -> StepFailed:
        """That the step that is under way has failed, and with which settings."""
        cause = error if isinstance(error, StepFailed) else StepFailed(str(error))
        words = environment.in_words(self.chosen)
        message = f"step {len(self.steps)} ({TITLES[len(self.steps) - 1]}) failed: {cause.message}"
        return StepFailed(message + (f"\n  with: {words}" if words else ""), cause.cure, cause.log)

    def run(self) -> dict:
        """All steps; returns the stamp's contents. Raises StepFailed."""
        chosen = self.chosen
        start = time.monotonic()

        step = self.step("look")
        builds = flavours.wanted(chosen.get("GPU_OPERATIONS", ""))
        python = self._look(step)
        if self.toolkit:
            step.done(f"{python}, {build.compiler()}, {self.toolkit}")
        else:
            step.done(f"{python}, {build.compiler()}")

        STAMP.unlink(missing_ok=True)  # from here on the environment changes
        step = self.step("venv")
        environment.create(step, python, VENV, chosen)
        environment.keep(VENV, chosen)
        step.done(str(VENV.relative_to(environment.ROOT)))

        step = self.step("packages")
        environment.install(step, VENV, chosen)
        versions = build.read_versions(VENV / "bin" / "python")
        if self.toolkit:
            cuda.check_torch(versions["cuda"], versions["torch"], self.toolkit)
        step.done()

        step = self.step("mpi")
        library = mpi.find(VENV, chosen.get("MPI_HOME"))
        if library.site:
            environment.install_mpi4py(
                step, VENV, library.environment(dict(verify.clean_environment(VENV)))
            )
            mpi.put_site_commands(library, VENV)
        step.done(library.identity)

        step = self.step("labkit")
        environment.install_labkit(step, VENV)
        environment.build_loopback(step, VENV, build.compiler_path())
        step.done()

        step = self.step("horovod")
        wheels = {}
        compiled = []
        seconds = {}
        for flavour in builds:
            begun = time.monotonic()
            wheel, fresh = self._build(step, library, flavour)
            seconds[flavour] = round(time.monotonic() - begun, 1)
            wheels[flavour] = str(wheel)
            compiled += [flavour] if fresh else []
        flavours.keep_only(VENV, builds)
        step.done(built_in_words(wheels, compiled))

        step = self.step("verify")
        if chosen.get("VERIFY"):
            script = verify.write_job(VENV, bool(self.toolkit))
            step.done(f"left to a job: sbatch {script}")
            answers = []
        else:
            answers = verify_builds(step, builds)
        return {
            "root": str(environment.ROOT),
            "seconds": round(time.monotonic() - start, 1),
            "seconds_by_step": {
                title: round(step.seconds, 1)
                for title, step in zip(TITLES, self.steps, strict=True)
            },
            "seconds_by_build": seconds,
            "compiled": compiled,
            "wheels": wheels,
            "mpi": library.identity,
            "cuda": str(self.toolkit) if self.toolkit else None,
            "settings": chosen,
            "versions": versions,
            "verified": answers,
        }

    def _look(self, step: Step) -> str:
        environment.check_room(environment.ROOT, VENV, self.chosen)
        if self.chosen.get("VERIFY") not in (None, "job"):
            raise StepFailed(
                f"VERIFY={self.chosen['VERIFY']} is not known",
                "VERIFY=job leaves the check of two ranks to a batch job; VERIFY=none takes that"
                " back.",
            )
        python = pythons.find(self.chosen.get("PYTHON"), VENV)
        if self.chosen.get("MPI_HOME"):
            mpi.site_home(self.chosen["MPI_HOME"])  # now, and not after gigabytes were fetched
        missing = debian.missing_tools()
        if missing and debian.may_install():
            step.say(f"installing {' '.join(missing)}")
            debian.install(step, debian.packages("setup"))
        elif missing:
            raise StepFailed(
                f"{', '.join(missing)} not found, and Horovod must be compiled",
                f"Install: {PACKAGES['compiler']} All that Debian needs: "
                + debian.command(debian.packages("setup")),
            )
        if self.chosen.get("GPU_OPERATIONS"):
            self.toolkit = self._look_for_cuda(step)
        return python

    def _look_for_cuda(self, step: Step) -> Toolkit:
        """What can be known before gigabytes are fetched: nvcc, driver, a site's NCCL."""
        major = environment.cuda_major()
        toolkit = cuda.find(self.chosen.get("CUDA_HOME"), major)
        with tempfile.TemporaryDirectory() as work:
            cuda.try_out(step, toolkit, build.compiler_path(), Path(work))
        cuda.check_driver(major)
        if self.chosen.get("NCCL_HOME"):
            cuda.nccl_home(self.chosen["NCCL_HOME"], VENV)
        mixed = cuda.warning_of_foreign_libraries(os.environ.get("LD_LIBRARY_PATH", ""))
        if mixed:
            step.warn(mixed)
        return toolkit

    def _build(self, step: Step, library: mpi.Mpi, flavour: str) -> tuple[Path, bool]:
        """See that this flavour of Horovod is in its folder; its wheel, and whether it was
        compiled."""
        if self.toolkit:
            step.say(f"build '{flavour}'")

        def open_lab() -> None:
            if self.lab_first:
                self.lab_first = False
                behind.go_on(step, VENV)

        wheel, fresh = build.provide_wheel(
            step, VENV, library, flavour, self.toolkit, self.chosen.get("NCCL_HOME"), open_lab
        )
        flavours.install(step, VENV, flavour, wheel)
        behind.stand_in(VENV).unlink(missing_ok=True)
        return wheel, fresh


def verify_builds(step: Step, builds: Iterable[str]) -> list[dict]:
    """Two ranks with each of these builds of Horovod; their answers. Raises StepFailed."""
    answers = verify.two_ranks(step, VENV, {name: flavours.folder(VENV, name) for name in builds})
    for warning in verify.warnings(answers):
        step.warn(warning)
    step.done(verify.in_words(answers))
    return answers


def verify_in_job() -> None:
    """What a set-up with VERIFY=job has left to a job. Raises StepFailed."""
    if not STAMP.exists():
        raise StepFailed("the environment is not set up", "Run `make setup VERIFY=job` first.")
    stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    step = Step(1, 1, TITLES[-1], LOGS / "verify-in-job.log")
    stamp["verified"] = verify_builds(step, stamp["wheels"])
    STAMP.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")


def built_in_words(wheels: dict[str, str], compiled: list[str]) -> str:
    """What came of each flavour: "compiled", or the wheel from the cache."""
    stories = {
        flavour: (
            "compiled"
            if flavour in compiled
            else f"wheel from the cache, {Path(wheel).parent.name}"
        )
        for flavour, wheel in wheels.items()
    }
    if len(stories) == 1:
        return stories[flavours.DEFAULT]
    return "; ".join(f"{flavour}: {story}" for flavour, story in stories.items())


def in_use(stamp: dict) -> str:
    """The environment in a line: its MPI, its builds of Horovod, the settings that are kept."""
    builds = ", ".join(stamp["wheels"])
    words = environment.in_words(stamp["settings"])
    return "; ".join(
        [stamp["mpi"], f"Horovod {build.VERSION} ({builds})", *([words] if words else [])]
    )


def way_back(chosen: dict[str, str]) -> str:
    """That the settings are kept, and how to take them back; empty when there are none."""
    words = environment.in_words(chosen)
    if not words:
        return ""
    name = "GPU_OPERATIONS" if "GPU_OPERATIONS" in chosen else words.split("=")[0]
    return (
        f"kept for every later `make`: {words}; `make setup {name}={environment.NONE}` takes {name}"
        " back"
    )


def for_tests() -> None:
    """See to what only the tests need: a browser, and Slurm. Where it may not be installed, say
    how."""
    needs = [
        ("Browser for the notebook test", "90-browser", "tests", not debian.browser()),
        (
            "Slurm for the tests of the tabletop cluster",
            "91-slurm",
            "tabletop",
            bool(debian.lacks_slurm()),
        ),
    ]
    for title, log, section, lacking in needs:
        names = debian.packages(section)
        if lacking and debian.may_install():
            step = Step(1, 1, title, LOGS / f"{log}.log")
            debian.install(step, names)
            step.done()
        elif lacking:
            print(f"{title}: not here. To have it: {debian.command(names)}")


def set_up(options: argparse.Namespace) -> None:
    """Set up what is not set up yet, while no other process does. Raises StepFailed."""
    VENV.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        build.wait_for(lock, "set-up of this checkout is under way")
        chosen = environment.settings(VENV)
        key = environment.fingerprint(chosen)
        stamp = None if options.again else already(key, chosen.get("PYTHON"))
        if stamp:
            print(f"already set up ({in_use(stamp)})")
        else:
            setup = Setup(chosen, options.lab_first)
            try:
                result = setup.run() | {"key": key}
            except (StepFailed, OSError) as error:
                raise setup.failed(error) from None
            STAMP.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(f"ready in {result['seconds']:.0f} s")
            if way_back(chosen):
                print(way_back(chosen))
        if options.tests:
            for_tests()


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="env/setup.py", description=__doc__)
    parser.add_argument(
        "--tests",
        action="store_true",
        help="also see to what only the tests need (a browser, Slurm)",
    )
    parser.add_argument(
        "--again", action="store_true", help="run every step even if the stamp says they are done"
    )
    parser.add_argument(
        "--lab-first",
        action="store_true",
        help="end before Horovod is compiled; a copy of this goes on",
    )
    parser.add_argument("--verify", action="store_true", help="only the two ranks, in a job")
    options = parser.parse_args(arguments)
    if options.verify:
        return exit_status("setup", verify_in_job)
    return exit_status("setup", lambda: set_up(options))
