"""Run two real ranks: mpi4py, then each build of Horovod in both frameworks, carried by MPI and by
Gloo."""

from __future__ import annotations

import json
import os
from pathlib import Path

from env.install import mpi
from env.install.steps import Step, StepFailed

RANKS = Path(__file__).resolve().parent / "verify_ranks.py"
LIMIT = 300  # seconds for the ranks to start, import a framework and add two numbers


def clean_environment(venv: Path) -> dict[str, str]:
    """The user's environment without another launcher's variables, the virtual environment first in
    PATH.

    Where srun starts the ranks, it finds its job in Slurm's variables.
    """
    alien = ("HOROVOD_", "OMPI_", "PMI", "MV2_COMM_", "HYDRA_", "PYTHONPATH", "LABKIT_")
    alien += () if mpi.by_srun(venv) else ("SLURM_",)
    env = {name: value for name, value in os.environ.items() if not name.startswith(alien)}
    env["PATH"] = f"{venv / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    env.update(OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3")
    env.setdefault("MV2_ENABLE_AFFINITY", "0")  # or MVAPICH2 refuses Horovod's threads
    env.setdefault("MV2_SUPPORT_DL", "1")  # MVAPICH2-GDR, for libraries that Python loads
    env.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
    )
    return env


def run(
    step: Step, venv: Path, what: str, carrier: str, flavour: str, folder: Path, ranks: int = 2
) -> dict:
    """Start ranks with this build of Horovod; rank 0's answer. Raises StepFailed with what a rank
    said, or what is wrong with the answer."""
    subject = f"{ranks} rank{'s' if ranks > 1 else ''} with {what} over {carrier}"
    subject += f", build '{flavour}'" if flavour != "host" else ""
    step.say(subject)
    env = clean_environment(venv)
    if flavour != "host":
        env["PYTHONPATH"] = str(folder)
    if flavour == "mpi" and Path("/dev/nvidia0").exists():
        # Without it MVAPICH2 takes no GPU memory, with it it wants a GPU.
        env["MV2_USE_CUDA"] = "1"
    if carrier == "Gloo":
        env |= {"HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_IFACE": "lo"}
    mpiexec = [venv / "bin" / "mpiexec", "-n", str(ranks)]
    command = [*mpiexec, venv / "bin" / "python", RANKS, what, flavour]
    try:
        lines = step.run(command, env=env, timeout=LIMIT).splitlines()
    except StepFailed as error:
        error.message = f"{subject}: {error.message}"
        raise
    answers = [json.loads(line) for line in lines if line.startswith('{"what"')]
    if not answers:
        problem = "the ranks ended without an answer"
    elif len(answers) > 1 or answers[0]["size"] != ranks:
        problem = (
            f"each process takes itself for one of {answers[0]['size']}, so this launcher and this"
            " MPI do not belong together"
        )
    else:
        problem = wrong(answers[0], carrier, folder)
    if problem:
        raise StepFailed(f"{subject}: {problem}", "", step.log)
    return answers[0]


def wrong(answer: dict, carrier: str, folder: Path) -> str:
    """What is wrong with an answer; empty when nothing is."""
    if answer["what"] == "mpi4py":
        return ""
    if answer["by"] != carrier:
        return f"Horovod used {answer['by']}"
    if answer["horovod"] != str(folder):
        return f"Horovod came from {answer['horovod']}, not from {folder}"
    if bool(answer["nccl_built"]) != (answer["flavour"] == "nccl"):
        return f"nccl_built() says {answer['nccl_built']}"
    return ""


def two_ranks(step: Step, venv: Path, folders: dict[str, Path]) -> list[dict]:
    """Run all checks of the builds in these folders; return their answers. Raises StepFailed.

    NCCL wants a GPU for each rank: where there is a single one, a single rank sums a tensor on it.
    """
    answers = [run(step, venv, "mpi4py", "MPI", "host", folders["host"])]
    for flavour, folder in folders.items():
        for carrier in ("MPI", "Gloo"):
            for what in ("torch", "tensorflow"):
                answer = run(step, venv, what, carrier, flavour, folder)
                answers.append(answer)
                if (flavour, carrier) == ("nccl", "MPI") and "wants one each" in answer["gpu"]:
                    answers.append(run(step, venv, what, carrier, flavour, folder, ranks=1))
    return answers


def warnings(answers: list[dict]) -> list[str]:
    """Sentences on what these builds must not be used for."""
    seen = dict.fromkeys(answer["warning"] for answer in answers if answer.get("warning"))
    takes = next(answer["takes_gpu_memory"] for answer in answers if answer["what"] == "mpi4py")
    if takes or not any(answer["flavour"] == "mpi" for answer in answers):
        return list(seen)
    says = "says that it does not take" if takes is False else "does not say whether it takes"
    return [
        *seen,
        (
            f"this MPI {says} GPU memory. Horovod's build 'mpi' is ready, but hand it no tensor on"
            " a GPU: it would crash. Use 'nccl' or 'host' for these, or set up with a CUDA-aware"
            " MPI: MPI_HOME=/path/to/it"
        ),
    ]


def write_job(venv: Path, gpus: bool) -> Path:
    """A batch script that runs the two ranks on a compute node, for login nodes that forbid it."""
    script = venv / "verify.sbatch"
    wish = "#SBATCH --gpus-per-node=2\n" if gpus else ""
    script.write_text(
        f"""#!/bin/bash
#SBATCH --job-name=verify
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --time=00:20:00
#SBATCH --output={venv}/verify-%j.log
{wish}
exec "{venv}/bin/python" "{venv.parent}/env/setup.py" --verify
""",
        encoding="utf-8",
    )
    return script


def in_words(answers: list[dict]) -> str:
    """What was seen, in a line."""
    builds = list(dict.fromkeys(answer["flavour"] for answer in answers))
    head = "MPI and Gloo, PyTorch and TensorFlow: all sums right"
    if builds == ["host"]:
        return f"{head}, one MPI library per process"
    on_gpu = dict.fromkeys(answer["flavour"] for answer in answers if "gpu_sum" in answer)
    gpus = f"GPU tensors with {', '.join(on_gpu)}" if on_gpu else "no GPU tensor tried"
    return (
        f"{head} with {', '.join(builds)}; one MPI, one CUDA runtime, one NCCL per process; {gpus}"
    )
