"""The set-up's steps, in order, and the stamp that says they are done."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from env.horovod import build, cuda, flavours
from env.horovod.cuda import Toolkit
from env.install import behind, debian, environment, mpi, pythons, verify
from env.install.steps import Step, StepFailed

VENV = environment.ROOT / ".venv"
STAMP = VENV / "setup-stamp.json"
LOGS = VENV / "setup-logs"
VERIFY = "Two ranks"
LOCK = environment.ROOT / ".setup.lock"  # not in .venv, which may be made anew while it is held


def already(key: str) -> dict | None:
    """The stamp of an earlier set-up with the same inputs, if its environment is still there."""
    if not STAMP.exists() or not (VENV / "bin" / "python").exists():
        return None
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except ValueError:  # cut off, for the disk was full
        return None
    python = os.environ.get("PYTHON")
    same = stamp["key"] == key and stamp["root"] == str(environment.ROOT)
    same = same and (not python or python == stamp.get("python"))
    return stamp if same and flavours.all_there(VENV) else None


class Setup:
    """The steps, in `run`. Each returns what came of it, in a line.

    lab_first: JupyterLab is opened before Horovod is compiled, if it has to be.
    """

    def __init__(self, chosen: dict[str, str], lab_first: bool = False):
        self.chosen = chosen
        self.lab_first = lab_first
        self.builds = flavours.wanted(chosen.get("GPU_OPERATIONS", ""))
        self.python = ""
        self.toolkit: Toolkit | None = None  # on a GPU machine, once it is found
        self.mpi: mpi.Mpi | None = None
        self.wheels: dict[str, str] = {}

    def run(self) -> dict:
        """All steps; returns the stamp's contents. Raises StepFailed."""
        steps = (
            ("look", "Look round", self.look_round),
            ("venv", "Virtual environment", self.make_environment),
            ("packages", "Packages", self.install_packages),
            ("mpi", "MPI", self.find_mpi),
            ("labkit", "labkit and its kernel", self.install_labkit),
            ("horovod", "Horovod", self.build_horovod),
            ("verify", VERIFY, self.verify),
        )
        for number, (name, title, work) in enumerate(steps, 1):
            step = Step(number, len(steps), title, LOGS / f"{number:02d}-{name}.log")
            try:
                step.done(work(step))
            except (StepFailed, OSError) as error:
                cause = error if isinstance(error, StepFailed) else StepFailed(str(error))
                words = environment.in_words(self.chosen)
                message = f"{step.label} failed: {cause.message}"
                message += f"\n  with: {words}" if words else ""
                raise StepFailed(message, cause.cure, cause.log) from None
        return {
            "root": str(environment.ROOT),
            "python": os.environ.get("PYTHON"),
            "mpi": self.mpi.identity,
            "settings": self.chosen,
            "wheels": self.wheels,
        }

    def look_round(self, step: Step) -> str:
        """Find what the others need, before anything is fetched."""
        environment.check_room(environment.ROOT, VENV, self.chosen)
        if self.chosen.get("VERIFY") not in (None, "job"):
            raise StepFailed(
                f"VERIFY={self.chosen['VERIFY']} is not known",
                "VERIFY=job leaves the check of two ranks to a batch job; VERIFY=none takes that"
                " back.",
            )
        try:
            self.python = pythons.find(os.environ.get("PYTHON"), VENV)
        except pythons.NoPython as error:
            raise StepFailed(*error.args) from None
        if self.chosen.get("MPI_HOME"):
            mpi.site_home(self.chosen["MPI_HOME"])
        see_to_tools(step)
        if not self.chosen.get("GPU_OPERATIONS"):
            return f"{self.python}, {build.compiler()}"
        major = environment.cuda_major()
        self.toolkit = cuda.find(self.chosen.get("CUDA_HOME"), major)
        with tempfile.TemporaryDirectory() as work:
            cuda.try_out(step, self.toolkit, debian.compiler(), Path(work))
        cuda.check_driver(major)
        if self.chosen.get("NCCL_HOME"):
            cuda.nccl_home(self.chosen["NCCL_HOME"], VENV)
        mixed = cuda.warning_of_foreign_libraries(os.environ.get("LD_LIBRARY_PATH", ""))
        if mixed:
            step.warn(mixed)
        return f"{self.python}, {build.compiler()}, {self.toolkit}"

    def make_environment(self, step: Step) -> str:
        """From here on the environment changes, so that the stamp goes."""
        STAMP.unlink(missing_ok=True)
        environment.create(step, self.python, VENV, self.chosen)
        environment.keep(VENV, self.chosen)
        return str(VENV.relative_to(environment.ROOT))

    def install_packages(self, step: Step) -> str:
        """Those of the lock; PyTorch must be of the toolkit's kind."""
        environment.install(step, VENV, self.chosen)
        if self.toolkit:
            versions = build.read_versions(VENV)
            cuda.check_torch(versions["cuda"], versions["torch"], self.toolkit)
        return "done"

    def find_mpi(self, step: Step) -> str:
        """The wheel's, or a site's, which gets an mpi4py of its own."""
        if not self.chosen.get("MPI_HOME") and environment.has_compiled_mpi4py(VENV):
            mpi.remove_commands(VENV)
            environment.install_mpi_wheels(step, VENV)
        self.mpi = mpi.find(VENV, self.chosen.get("MPI_HOME"))
        if self.mpi.site:
            own = self.mpi.environment(verify.clean_environment(VENV))
            environment.install_mpi4py(step, VENV, own)
            mpi.remove_commands(VENV)  # or what the site's MPI lacks would be the wheel's
            mpi.put_site_commands(self.mpi, VENV)
        return self.mpi.identity

    def install_labkit(self, step: Step) -> str:
        """labkit, the kernel, and the library that keeps servers on the loopback address."""
        environment.install_labkit(step, VENV)
        environment.build_loopback(step, VENV)
        return "done"

    def build_horovod(self, step: Step) -> str:
        """Each build that is wanted, compiled or from the cache, into its folder."""
        compiled = []

        def before_compiling() -> None:
            compiled.append(flavour)
            if self.lab_first:
                self.lab_first = False
                behind.go_on(step, VENV)

        stories = []
        nccl = self.chosen.get("NCCL_HOME")
        for flavour in self.builds:
            if self.toolkit:
                step.say(f"build '{flavour}'")
            wheel = build.provide_wheel(
                step, VENV, self.mpi, flavour, self.toolkit, nccl, before_compiling
            )
            flavours.install(step, VENV, flavour, wheel)
            behind.stand_in(VENV).unlink(missing_ok=True)
            self.wheels[flavour] = str(wheel)
            cached = f"wheel from the cache, {wheel.parent.name}"
            stories.append(f"{flavour}: {'compiled' if flavour in compiled else cached}")
        flavours.keep_only(VENV, self.builds)
        return "; ".join(stories)

    def verify(self, step: Step) -> str:
        """Two ranks with each build, here or in a job."""
        if self.chosen.get("VERIFY"):
            return f"left to a job: sbatch {verify.write_job(VENV, bool(self.toolkit))}"
        return verify_builds(step, self.builds)


def see_to_tools(step: Step) -> None:
    """Install the programs that compile, as root on a Debian; else raise StepFailed where one is
    missing."""
    missing = debian.missing_tools()
    if missing and debian.may_install():
        step.say(f"installing {' '.join(missing)}")
        debian.install(step, debian.packages("setup"))
    elif missing:
        raise StepFailed(
            f"{', '.join(missing)} not found, and Horovod must be compiled",
            "Install them: on Fedora g++ is `gcc-c++`; all that Debian needs: "
            + debian.command(debian.packages("setup")),
        )


def verify_builds(step: Step, builds: Iterable[str]) -> str:
    """Two ranks with each of these builds of Horovod; what was seen. Raises StepFailed."""
    answers = verify.two_ranks(step, VENV, {name: flavours.folder(VENV, name) for name in builds})
    for warning in verify.warnings(answers):
        step.warn(warning)
    return verify.in_words(answers)


def verify_in_job() -> None:
    """What a set-up with VERIFY=job has left to a job. Raises StepFailed."""
    if not STAMP.exists():
        raise StepFailed("the environment is not set up", "Run `make setup VERIFY=job` first.")
    wheels = json.loads(STAMP.read_text(encoding="utf-8"))["wheels"]
    step = Step(1, 1, VERIFY, LOGS / "verify-in-job.log")
    step.done(verify_builds(step, wheels))


def in_use(stamp: dict) -> str:
    """The environment in a line: its MPI, its builds of Horovod, the settings that are kept."""
    words = environment.in_words(stamp["settings"])
    builds = f"Horovod {build.VERSION} ({', '.join(stamp['wheels'])})"
    return "; ".join([stamp["mpi"], builds, *([words] if words else [])])


def say_ready(seconds: float, chosen: dict[str, str]) -> None:
    """That it is done; where there are settings, that they are kept and how to take them back."""
    print(f"ready in {seconds:.0f} s")
    words = environment.in_words(chosen)
    if words:
        name = "GPU_OPERATIONS" if "GPU_OPERATIONS" in chosen else words.split("=")[0]
        print(
            f"kept for every later `make`: {words};"
            f" `make setup {name}={environment.NONE}` takes {name} back"
        )


def for_tests() -> None:
    """See to what only the tests need: a browser, and Slurm. Where it may not be installed, say
    how."""
    if debian.browser() and not debian.lacks_slurm():
        return
    names = debian.packages("tests") + debian.packages("tabletop")
    if debian.may_install():
        step = Step(1, 1, "Browser and Slurm for the tests", LOGS / "90-tests.log")
        debian.install(step, names)
        step.done()
    else:
        print(f"Tests that need a browser or Slurm are left out: {debian.command(names)}")


def set_up(options: argparse.Namespace) -> None:
    """Set up what is not set up yet, while no other process does. Raises StepFailed."""
    VENV.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        build.wait_for(lock, "set-up of this checkout is under way")
        chosen = environment.settings(VENV)
        key = environment.fingerprint(chosen)
        stamp = None if options.again else already(key)
        if stamp:
            print(f"already set up ({in_use(stamp)})")
        elif VENV.is_symlink():
            raise StepFailed(
                f".venv is a link to {VENV.resolve()}, the environment of another checkout",
                "Remove the link (rm .venv): the set-up makes an environment for this checkout.",
            )
        else:
            begun = time.monotonic()
            result = Setup(chosen, options.lab_first).run() | {"key": key}
            part = STAMP.with_suffix(".part")
            part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            part.replace(STAMP)
            say_ready(time.monotonic() - begun, chosen)
        if options.tests:
            for_tests()


def exit_status(work: Callable[[], object]) -> int:
    """Do the work: 0; 1 after StepFailed, whose sentences are said; 130 after Ctrl-C."""
    try:
        work()
    except (StepFailed, OSError) as error:
        failed = error if isinstance(error, StepFailed) else StepFailed(str(error))
        print(f"\nsetup: {failed.message}", file=sys.stderr)
        if failed.log and failed.log.exists():
            print(f"  log:  {failed.log}", file=sys.stderr)
        if failed.cure:
            print(f"  cure: {failed.cure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="env/setup.py",
        description="Make the environment, with settings as environment variables: "
        + ", ".join(environment.SETTINGS),
    )
    for option, words in {
        "--tests": "also see to what only the tests need (a browser, Slurm)",
        "--again": "run every step even if the stamp says they are done",
        "--lab-first": "end before Horovod is compiled; a copy of this goes on",
        "--verify": "only the two ranks, in a job",
    }.items():
        parser.add_argument(option, action="store_true", help=words)
    options = parser.parse_args(arguments)
    return exit_status(verify_in_job if options.verify else lambda: set_up(options))
