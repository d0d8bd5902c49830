"""`make site`: a few questions, then slurm/sites/NAME.sh for a new cluster. Nothing is overwritten."""

from __future__ import annotations

import datetime
import os
import re
import sys
from pathlib import Path
from typing import TextIO

import labkit
from labkit._site_questions import QUESTIONS, Answers, Machine, Question, RefusedBySlurm
from labkit.errors import LabError

# What may stand between double quotes in bash without a meaning of its own.
_PLAIN = re.compile(r"[\w./:+=@,% -]*")


def run(answers_from: TextIO | None = None) -> Path:
    """Ask, check, write. Returns the new file. LabError, and nothing written, if the answers end too soon."""
    answers_from = answers_from or sys.stdin
    machine = Machine()
    print("A site file for this cluster. Enter takes the value in [brackets], - leaves it empty.")
    if machine.version.ok:
        print(f"Slurm {machine.version.text} answers here, so that each answer is checked at once.\n")
    else:
        reason = machine.version.reason
        print(f"Slurm does not answer here ({reason}): `make doctor` checks the answers later.\n")
    answers: Answers = {}
    for question in QUESTIONS:
        answers[question.key] = _ask(question, machine, answers, answers_from)
    file = _write(answers, text(answers, machine))
    name = answers["name"]
    print(f"\nWritten: slurm/sites/{name}.sh. Next, also on a login node: make doctor SITE={name}")
    return file


def _ask(question: Question, machine: Machine, answers: Answers, lines: TextIO) -> str:
    """One answer that passes its check. What only Slurm refused may be said twice: then it is kept."""
    default, refused = question.suggest(machine, answers), None
    while True:
        answer = _answer(question.text, default, lines)
        try:
            if not _PLAIN.fullmatch(answer):
                raise LabError("Only letters, digits, spaces and . / : + = @ , % _ - may stand in an answer.")
            question.check(machine, answers, answer)
            return answer
        except RefusedBySlurm as error:
            if answer == refused:
                print("  Kept, since you said it twice.")
                return answer
            print(f"  {error} Say the same again to keep it.")
            refused = answer
        except LabError as error:
            print(f"  {error}")


def _answer(asked: str, default: str, lines: TextIO) -> str:
    """The next line: Enter is the default, - is nothing. LabError when there is no line any more."""
    print(f"{asked} [{default}]: ", end="", flush=True)
    line = lines.readline()
    if not line:
        print()
        raise LabError(f"The answers ended at the question {asked!r}: nothing was written.")
    given = line.strip()
    if not lines.isatty():
        print(given)  # so that a log shows the answers beside the questions
    return "" if given == "-" else given or default


def text(answers: Answers, machine: Machine) -> str:
    """The site file."""
    name, gpus, form = answers["name"], answers["gpus"], answers["form"]
    today = datetime.date.today().isoformat()
    lines = [
        f"# {name}: written by `make site` on {today}. slurm/sites/template.sh explains each line.",
        f"# Check it on the cluster with `make doctor SITE={name}`; what is empty was not known.",
        f"export SITE={name}",
        "",
        "# The account that pays. A user's own SBATCH_ACCOUNT wins.",
        _choice("SBATCH_ACCOUNT", answers["account"]),
        "# The partition (queue) whose nodes the jobs use.",
        _choice("SBATCH_PARTITION", answers["partition"]),
        "",
        "# GPUs in a node, and how this site wants them asked for.",
        f"export LABKIT_GPUS_PER_NODE={gpus}",
        f'export LABKIT_GPU_FORM="{form}"',
    ]
    lines += [f"export SBATCH_GPUS_PER_NODE={gpus}"] if form == "gpus-per-node" else []
    lines += [f'export SBATCH_GRES="gpu:{gpus}"'] if form == "gres" else []
    cores = machine.cores(answers["partition"]) // int(gpus) if gpus != "0" and answers["partition"] else 0
    lines += [
        f"# Further options of sbatch{': the cores of a node, shared out over its GPUs' if cores else ''}.",
        f'export LABKIT_SBATCH_OPTIONS="{f"--cpus-per-task={cores}" if cores else ""}"',
        "",
        "# Modules, what starts the ranks, and which MPI library they then run on.",
        f'export LABKIT_MODULES="{answers["modules"]}"',
        f'export LABKIT_LAUNCHER="{answers["launcher"]}"',
        f'export LABKIT_MPI="{answers["flavor"]}"',
    ]
    return "\n".join(lines) + "\n"


def _choice(variable: str, value: str) -> str:
    if not value:  # set but empty, it would be an account of no name
        return f"# export {variable}=…"
    return f'export {variable}="${{{variable}:-{value}}}"'


def _write(answers: Answers, content: str) -> Path:
    file = labkit.root() / "slurm" / "sites" / f"{answers['name']}.sh"
    part = file.with_suffix(".part")
    try:
        part.write_text(content, encoding="utf-8")
        os.link(part, file)  # as a whole, and only if nobody else wrote one meanwhile
    except FileExistsError:
        raise LabError(f"slurm/sites/{file.name} has appeared meanwhile and is left as it is.") from None
    except OSError as error:
        raise LabError(f"slurm/sites/{file.name} cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)
    return file
