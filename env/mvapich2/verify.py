"""Run two real ranks on a built MVAPICH2, under its own mpiexec: mpi4py, then Horovod for PyTorch.

`python -m env.mvapich2.verify PREFIX DEVICE KEY LOG` writes PREFIX/installed.json when all is well.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from env.install import verify
from env.install.steps import Step, StepFailed, exit_status

LIMIT = 180  # seconds for two ranks to start, import a framework and add two numbers


def library_of(step: Step, prefix: Path, what: str) -> str:
    """What carried two ranks with mpi4py or torch, as it calls itself. Raises StepFailed.

    A rank ends with an error if it holds two MPI libraries or a sum is wrong; here it is seen that
    the one library is that below `prefix`.
    """
    venv = prefix.parent
    env = verify.clean_environment(venv)
    env["PATH"] = f"{prefix / 'bin'}{os.pathsep}{env['PATH']}"
    folders = [str(prefix / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    env.update(
        LD_LIBRARY_PATH=os.pathsep.join(folders), MPI4PY_MPIABI="mpich", MV2_ENABLE_AFFINITY="0"
    )
    command = [prefix / "bin" / "mpiexec", "-n", "2", venv / "bin" / "python", verify.RANKS, what]
    answer = verify.answer_of(step.run(command, env=env, timeout=LIMIT))
    files = answer["libraries"]["MPI"]
    if not all(Path(file).is_relative_to(prefix.resolve()) for file in files):
        raise StepFailed(
            f"2 ranks with {what} were to run on MVAPICH2 and ran on {', '.join(files)}"
        )
    return " ".join(re.sub(r"Version\s*:", "", answer["by"]).split())


def check(prefix: Path, device: str, key: str, step: Step) -> None:
    """Run the ranks, and write the note. Raises StepFailed."""
    libraries = {}
    for what, begins in (("mpi4py", "MVAPICH2"), ("torch", "MPI")):
        libraries[what] = library_of(step, prefix, what)
        if not libraries[what].startswith(begins):
            raise StepFailed(
                f"2 ranks with {what} were to run on {begins} and ran on {libraries[what]}"
            )
    note = {"library": libraries["mpi4py"], "device": device, "key": key}
    (prefix / "installed.json").write_text(json.dumps(note) + "\n", encoding="utf-8")
    step.done(f"mpi4py and Horovod: sums right, one MPI library, {note['library']}")


if __name__ == "__main__":
    log = Path(sys.argv[4])
    step = Step(1, 1, "Two ranks", log.with_stem("mvapich2-ranks"))
    sys.exit(exit_status("mvapich2", lambda: check(Path(sys.argv[1]), *sys.argv[2:4], step)))
