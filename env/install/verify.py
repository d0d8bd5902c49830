"""Run two real ranks: mpi4py, then Horovod in both frameworks under its MPI and its Gloo controller."""

from __future__ import annotations

import json
import os
from pathlib import Path

from env.install.steps import Step, StepFailed

RANKS = Path(__file__).resolve().parent / "verify_ranks.py"
LIMIT = 120  # seconds for two ranks to start, import a framework and add two numbers


def clean_environment(venv: Path) -> dict[str, str]:
    """The user's environment without another launcher's variables, the virtual environment first in PATH."""
    alien = ("HOROVOD_", "OMPI_", "PMI", "PMIX", "SLURM_", "MV2_COMM_", "HYDRA_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(alien)}
    env["PATH"] = f"{venv / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    env.update(OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3", HOROVOD_RENDEZVOUS_BIND="127.0.0.1")
    env.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
    )
    return env


def _answer(output: str) -> dict:
    """The JSON line of rank 0 in a launcher's output (horovodrun puts a prefix before it)."""
    lines = [line[line.index("{") :] for line in output.splitlines() if '{"what"' in line]
    if not lines:
        raise StepFailed("two ranks ended without an answer")
    return json.loads(lines[0])


def two_ranks(step: Step, venv: Path) -> list[dict]:
    """Run all five checks; return their answers. Raises StepFailed with what a rank said."""
    python, env = venv / "bin" / "python", clean_environment(venv)
    mpi = [venv / "bin" / "mpiexec", "-n", "2", python, RANKS]
    horovodrun = [python, "-m", "horovod.runner.launch", "--network-interfaces", "lo"]
    gloo = [*horovodrun, "--gloo", "-np", "2", python, RANKS]
    plan = [(mpi, "mpi4py"), (mpi, "torch"), (mpi, "tensorflow"), (gloo, "torch"), (gloo, "tensorflow")]
    answers = []
    for launcher, what in plan:
        name = "Gloo" if launcher is gloo else "MPI"
        step.say(f"{what} over {name}")
        try:
            answer = _answer(step.run([*launcher, what], env=env, timeout=LIMIT))
        except StepFailed as error:
            error.message = f"2 ranks with {what} over {name}: {error.message}"
            raise
        if what != "mpi4py" and answer["by"] != name:
            raise StepFailed(f"{what} was to use {name} and used {answer['by']}", log=step.log)
        answers.append(answer)
    return answers
