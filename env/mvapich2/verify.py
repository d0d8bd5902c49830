"""Run two real ranks on a built MVAPICH2, under its own mpiexec: mpi4py, then Horovod for PyTorch."""

from __future__ import annotations

import os
import re
from pathlib import Path

from env.install import verify
from env.install.steps import Step, StepFailed

LIMIT = 180  # seconds for two ranks to start, import a framework and add two numbers
PLAN = ("mpi4py", "torch")


def variables(prefix: Path) -> dict[str, str]:
    """What a process needs in its environment to run on that MVAPICH2; see this package's own docstring."""
    folders = [str(prefix / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(folders),
        "MPI4PY_MPIABI": "mpich",
        "MV2_ENABLE_AFFINITY": "0",
    }


def two_ranks(step: Step, venv: Path, prefix: Path) -> dict[str, str]:
    """Run the checks; returns {"library": "MVAPICH2 2.3.7"}, as it calls itself. Raises StepFailed.

    A rank ends with an error if it holds two MPI libraries or a sum is wrong; here it is seen that the one
    library is that MVAPICH2.
    """
    env = verify.clean_environment(venv) | variables(prefix)
    env["PATH"] = f"{prefix / 'bin'}{os.pathsep}{env['PATH']}"
    library = ""
    for what in PLAN:
        step.say(f"{what} on two ranks")
        command = [prefix / "bin" / "mpiexec", "-n", "2", venv / "bin" / "python", verify.RANKS, what]
        try:
            answer = verify.answer_of(step.run(command, env=env, timeout=LIMIT))
        except StepFailed as error:
            error.message = f"2 ranks with {what} on MVAPICH2: {error.message}"
            error.log = step.log
            raise
        files = answer["libraries"]["MPI"]
        if not all(Path(file).is_relative_to(prefix.resolve()) for file in files):
            raise StepFailed(f"{what} was to run on MVAPICH2 and ran on {', '.join(files)}", log=step.log)
        if what == "mpi4py":
            library = " ".join(re.sub(r"Version\s*:", "", answer["by"]).split())
        elif answer["by"] != "MPI":
            raise StepFailed(f"Horovod was to use MPI and used {answer['by']}", log=step.log)
    if not library.startswith("MVAPICH2"):
        raise StepFailed(f"the library says of itself: {library!r}, not MVAPICH2", log=step.log)
    return {"library": library}
