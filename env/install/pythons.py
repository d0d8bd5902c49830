"""Which Pythons the set-up serves, and which of them is here: in words that Python 3.6 understands,
which may be the one that looks."""

import os
import re
import shutil
import subprocess
import sys

# In the order in which they are looked for: the best tested one first. Also in pyproject.toml.
NAMES = ("python3.11", "python3.12", "python3.13", "python3.10")
ASK = (
    "import platform, sys, sysconfig; print('%s %d.%d %s' % (platform.python_implementation(), "
    "sys.version_info[0], sys.version_info[1], sysconfig.get_config_var('Py_GIL_DISABLED') or 0))"
)
SUPPORTED = [name.replace("python", "CPython ") + " 0" for name in NAMES]
INSTALL = (
    "Install Python 3.10, 3.11, 3.12 or 3.13 (Debian 12 and 13: `sudo apt-get install python3"
    " python3-venv python3-dev`; pyenv, uv or conda bring one without root) and, where it is not in"
    " PATH, name it: make setup PYTHON=/path/to/python3.13"
)


class NoPython(Exception):
    """There is none that the set-up can use. Its two arguments: what was found, and what to do."""


def ask(path: str) -> str:
    """What an interpreter says of itself, such as "CPython 3.11 0"; its last word is 1 without the
    global lock.

    Empty when it does not run, as some of pyenv's shims, or is no Python.
    """
    try:
        answer = subprocess.check_output([path, "-c", ASK], stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    said = answer.decode(errors="replace").strip()
    return said if re.match(r"\w+ \d+\.\d+ [01]$", said) else ""


def in_words(said: str) -> str:
    """The interpreter that said this, as one would call it."""
    implementation, version, without_lock = said.split()
    if implementation != "CPython":
        return f"{implementation} {version}"
    lock = ", built without the global lock" if without_lock == "1" else ""
    return f"Python {version}{lock}"


def reason(said: str) -> str:
    """Why the set-up cannot use the interpreter that said this, as a sentence."""
    if not re.match(r"CPython .* 0$", said):
        return "PyTorch, TensorFlow and Horovod are built here for CPython with its global lock."
    if int(said.split()[1].split(".")[1]) > 13:
        return (
            f"{in_words(said)} waits for TensorFlow 2.22; this kit pins 2.21, which is not built"
            " for it."
        )
    return f"{in_words(said)} is too old for PyTorch and TensorFlow of today."


def find(wanted, venv) -> str:
    """The path of the interpreter to use: PYTHON if it is `wanted`, else the environment's own if
    there is one.

    Else the first that is here and supported. Raises NoPython when there is none.
    """
    if wanted:
        return check(wanted)
    own = os.path.join(str(venv), "bin", "python")
    if ask(own) in SUPPORTED:
        return own
    others = []
    for name in (*NAMES, "python3", sys.executable):
        path = shutil.which(name)
        said = ask(path) if path else ""
        if said in SUPPORTED:
            return path
        if said:
            others.append(f"{name} is {in_words(said)}")
    here = "; ".join(others) or "no python3 either"
    running = ask(sys.executable)
    why = f"{reason(running)} " if running and running not in SUPPORTED else ""
    raise NoPython(f"none of {', '.join(NAMES)} was found ({here})", why + INSTALL)


def check(wanted: str) -> str:
    """The path of the interpreter that PYTHON names. Raises NoPython when it cannot be used."""
    path = shutil.which(wanted)
    if path is None:
        raise NoPython(f"PYTHON={wanted} was not found", INSTALL)
    said = ask(path)
    if not said:
        raise NoPython(f"PYTHON={wanted} does not run, or is no Python", INSTALL)
    if said not in SUPPORTED:
        raise NoPython(f"PYTHON={wanted} is {in_words(said)}", f"{reason(said)} {INSTALL}")
    return path
