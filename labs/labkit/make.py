"""What stands behind a goal of the Makefile: `python labs/labkit/make.py GOAL…` runs its program.

What was typed after make (NAME=value) is read from MAKEFLAGS, where make leaves it, and becomes an
argument of that program. Neither make nor a shell expands it on the way. This file runs on any
Python from 3.6 on, as the set-up does.
"""

import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENV = os.path.join(ROOT, ".venv")  # or a link to that of a checkout which many people share
PYTHON = os.path.join(VENV, "bin", "python")
# A learner's copy on a hub has none.
SET_UP = os.path.join(ROOT, "env", "setup.py")

# Goal -> the module or shell script, and the words that it takes: NAME is `--name VALUE`, NAME? is
# `--name` for any value but those of OFF, NAME* is `--name` with one argument for each word of the
# value, <NAME> is the value alone, <NAME!> too, and must be there. NAME:option spells the option
# otherwise.
OFF = ("0", "no", "false", "off")
_JOB = "<LAB!> NODES RANKS SITE SOLVED? WAIT? SET* ENV* HOROVOD MPI"
GOALS = {
    "labs": "authoring labs",
    "new": "authoring new <LAB!>",
    "run": "labkit run <LAB!> NP SOLVED? SET* HOROVOD MPI",
    "submit": "labkit submit " + _JOB,
    "submit DRY": "slurm.job.dry <LAB!> NODES RANKS SITE SOLVED? SET* ENV* HOROVOD MPI",
    "results": "labkit results <LAB>",
    "scaling": "labkit scaling " + _JOB,
    "trace": "labkit trace <FILE!> PORT",
    "verdict": "verdict <FILE!> MACHINE LINK NIC NICS NODES GPUS LATENCY",
    "report": "support.lab80 <FILE> SOLVED?",
    "reset": "labkit reset <LAB!>",
    "solve": "authoring solve <LAB!> <EX!>",
    "progress": "labkit progress",
    "share": "labkit share NAMED? HIDDEN? UNTIL",
    "unshare": "labkit unshare",
    "board": "classroom <DIR> HTML CSV HIDDEN?:hide-names WATCH? NEW?",
    "doctor": "labkit doctor",
    "doctor SITE": "slurm.doctor <SITE> NODES PATIENCE",
    "site": "slurm.new_site <NAME!>",
    "tour": "authoring tour LABS SMALL?",
    "book": "authoring book",
    "guide": "authoring guide TRACK LEARNERS",
    "rehearse": "authoring rehearse SITE NODES LABS PATIENCE",
    "release": "authoring release KEEP_ANSWERS?",
    "container": "env/container/build.sh EDITION BASE ARCHIVE OPTIONS*",
    "mvapich2": "env/mvapich2/build.sh SOURCE DEVICE",
    "tabletop": "slurm.tabletop up NODES BANDWIDTH LATENCY GPUS NAME",
    "tabletop-status": "slurm.tabletop status NAME",
    "tabletop-down": "slurm.tabletop down NAME",
    "tabletop-fail": "slurm.tabletop fail NODE NAME",
    "tabletop-heal": "slurm.tabletop heal NODE NAME",
    "tabletop-slow": "slurm.tabletop slow NODE BANDWIDTH NAME",
    "hub": "slurm.hub up LEARNERS NAMES SITE PLAIN? PORT NAME",
    "hub-status": "slurm.hub status",
    "hub-stop": "slurm.hub down",
    "hub-forget": "slurm.hub forget",
    "lab": "jupyter lab PORT",
    "kernel": "ipykernel install PREFIX",
}
_TESTS = ("test", "test-fast", "test-gpu", "lint", "setup-tests")
_WORD = re.compile(r"(?P<value><)?(?P<name>[A-Z_]+)(?P<kind>[?*!]?)(?::(?P<option>[a-z-]+))?>?")


def typed(flags):
    """NAME -> value of what was typed after make. flags: MAKEFLAGS, as make gives it to a recipe.

    There a blank and a backslash have a backslash before them, and a dollar is two.
    """
    values = {}
    for word in re.findall(r"(?:\\.|[^\\ ])+", flags.partition(" -- ")[2], re.DOTALL):
        name, equals, value = re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL).partition("=")
        if equals:
            values[name.rstrip(":+?!")] = value.replace("$$", "$")
    return {name: value for name, value in values.items() if value}


def command(goal, values):
    """The program and its arguments for a goal. ValueError, a sentence, where what was typed will
    not do."""
    words = GOALS[_variant(goal, values)].split()
    arguments = []
    for word in words:
        match = _WORD.fullmatch(word)
        arguments += _arguments(goal, match, values) if match else [word]
    if goal == "lab":
        return _jupyterlab(arguments[2:])
    if goal == "kernel":
        arguments += _kernel(values)
    if arguments[0].endswith(".sh"):
        return ["bash", os.path.join(ROOT, arguments[0]), *arguments[1:]]
    return [PYTHON, "-m", *arguments]


def _variant(goal, values):
    """The goal's entry in GOALS: with SITE and DRY, the doctor and submit run other programs."""
    for name in ("SITE", "DRY"):
        if values.get(name, "no").lower() not in OFF and f"{goal} {name}" in GOALS:
            goal = f"{goal} {name}"
    return goal


def _arguments(goal, word, values):
    name = word["name"]
    value = values.get(name)
    if value is None and word["kind"] == "!":
        raise ValueError(_missing(goal, name, values))
    if value is None:
        return []
    if word["value"]:
        return [value]
    option = "--" + (word["option"] or name.lower().replace("_", "-"))
    if word["kind"] == "?":
        return [] if value.lower() in OFF else [option]
    if word["kind"] == "*":
        try:
            return [option, *shlex.split(value)]
        except ValueError as error:
            raise ValueError(f"{name}={value}: {str(error).lower()}.") from None
    return [f"{option}={value}"]


def _missing(goal, name, values):
    lab = values.get("LAB", "81_my_topic" if goal == "new" else "40")
    what, example = {
        "LAB": ("lab", f"LAB={lab}"),
        "FILE": ("output", "FILE=out.txt") if goal == "verdict" else ("trace", "FILE=trace.json"),
        "EX": ("exercise", f"LAB={lab} EX={lab}.1"),
        "NAME": ("cluster", "NAME=mycluster"),
    }[name]
    return f"Say which {what}: make {goal} {example}"


def _jupyterlab(options):
    """JupyterLab at the first lab. Kernels encrypt what they say: all users here reach their
    ports."""
    arguments = [
        "--ServerApp.root_dir=" + ROOT,
        "--KernelManager.transport_encryption=required",
        "--LabApp.default_url=/lab/tree/work/00_check_environment.ipynb",
        *options,
    ]
    if os.geteuid() == 0:
        arguments.append("--allow-root")  # in a container one is often root
    return [os.path.join(ROOT, ".venv", "bin", "jupyter"), "lab", *arguments]


def _kernel(values):
    """The kernel of .venv for a JupyterHub or Open OnDemand that is already there: this user's, or
    PREFIX's.

    Jupyter puts its own PATH in place of ${PATH}; labs look for mpiexec there.
    """
    path = os.path.dirname(PYTHON) + os.pathsep + "${PATH}"
    owner = [] if "PREFIX" in values else ["--user"]
    return [*owner, "--name=hpdl-labs", "--display-name=HPDL labs", "--env", "PATH", path]


def is_here(goal):
    """Is this goal in this edition? The learners' archive has neither solutions nor tests, and a
    copy that uses a shared environment has no env/."""
    program = GOALS.get(goal, "").split(" ")[0]
    if program.endswith(".sh") and not os.path.exists(os.path.join(ROOT, program)):
        return False
    if goal not in _TESTS and not GOALS.get(goal, "").startswith("authoring"):
        return True
    try:
        with open(os.path.join(ROOT, "EDITION.json")) as file:
            return json.load(file)["kind"] != "learners"
    except OSError:
        return True


def settings():
    """The names that the set-up reads in the environment, where a site's modules may have set them,
    too."""
    file = os.path.join(ROOT, "env", "settings.py")
    return runpy.run_path(file)["SETTINGS"] if os.path.exists(file) else ()


def check(goals, values):
    """ValueError, a sentence, where a goal is not here, or does not take what was typed."""
    for goal in goals[1:] or goals:
        if not is_here(goal):
            raise ValueError(
                f"make {goal} is not in this copy, whose environment others set up: ask them."
                if goal not in _TESTS and not GOALS[goal].startswith("authoring")
                else f"make {goal} is not in the learners' archive, which holds no solutions and no"
                " tests. Your instructor has it."
            )
    known = set()
    for goal in set(goals).intersection(GOALS):
        command(goal, values)
        words = GOALS[_variant(goal, values)].split()
        known |= {match["name"] for match in map(_WORD.fullmatch, words) if match}
        known |= {variant.split()[1] for variant in GOALS if variant.startswith(f"{goal} ")}
    unknown = set(values).difference(known, settings(), ["SHELL"])
    if unknown and set(goals) <= {*GOALS, "setup"}:
        takes = ", ".join(sorted(known or settings()))
        raise ValueError(f"make {goals[-1]} does not know {min(unknown)}; it takes {takes}.")


def show_help():
    """The goals of the Makefile that this edition has, with what stands beside them."""
    print("High-Performance Distributed Deep Learning Labs")
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        lines = re.findall(r"^(?:##@|([a-z0-9-]+):.*?##) (.+)$", file.read(), re.MULTILINE)
    for goal, text in lines:
        if not goal:
            print(f"\n{text}")
        elif is_here(goal):
            print(f"  make {goal:<15} {text}")


def main(goals):
    """Run the goal's program; "setup" is the set-up for the goals behind it. Returns the exit
    status."""
    values = typed(os.environ.get("MAKEFLAGS", ""))
    try:
        check(goals, values)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    # What was typed is not for a make that a program of the goal's may start.
    os.environ["MAKEFLAGS"] = os.environ.get("MAKEFLAGS", "").partition(" -- ")[0]
    os.environ.update({name: values[name] for name in settings() if name in values})
    if os.path.islink(VENV):  # its labkit is another one
        path = [os.path.join(ROOT, "labs"), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    if goals[0] == "help":
        show_help()
        return 0
    if goals[0] in ("setup", "setup-tests"):
        return _set_up(goals)
    argv = command(goals[0], values)
    if goals[0] == "lab":
        return _lab(argv)
    return os.execvp(argv[0], argv)  # it does not return


def _set_up(goals):
    options = {"setup-tests": ["--tests"]}.get(goals[0], [])
    if goals[1:] == ["lab"]:
        options = ["--lab-first"]
    if os.path.islink(VENV) and not os.path.exists(PYTHON):
        print(
            f".venv is a link to {os.readlink(VENV)}, where no environment is set up.",
            file=sys.stderr,
        )
        return 1
    if not os.path.exists(SET_UP) or (goals[0] == "setup" and os.path.islink(VENV)):
        return 0  # the link leads to an environment that is set up
    return os.execv(sys.executable, [sys.executable, SET_UP, *options])


def _lab(argv):
    """JupyterLab, with the learner's own copies of the labs."""
    if subprocess.call([PYTHON, "-m", "labkit", "bring"], cwd=ROOT):
        return 1
    os.environ["PATH"] = os.pathsep.join(
        [os.path.dirname(PYTHON), os.environ.get("PATH", os.defpath)]
    )
    return _before_horovod(argv) if _set_up_behind() else os.execvp(argv[0], argv)


def _set_up_behind():
    """The number of the process that compiles Horovod behind JupyterLab; None where there is
    none."""
    try:
        with open(os.path.join(ROOT, ".venv", "setup-logs", "behind.pid")) as file:
            process = int(file.read())
        with open(f"/proc/{process}/cmdline") as file:
            return process if "--lab-first" in file.read() else None
    except (OSError, ValueError):
        return None


def _before_horovod(argv):
    """Run JupyterLab; when it ends, so does the set-up behind it."""
    lab = subprocess.Popen(argv, cwd=ROOT)
    # Ctrl-C is for JupyterLab, which asks whether it is meant.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: lab.terminate())
    try:
        return lab.wait()
    finally:
        process = _set_up_behind()
        if process:
            print("The set-up of Horovod ends here; `make setup` or `make lab` goes on with it.")
            os.kill(process, signal.SIGTERM)
        while _set_up_behind():
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
