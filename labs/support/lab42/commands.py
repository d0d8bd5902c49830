"""The lines that start a job, taken apart as mpirun_rsh and srun do."""

from __future__ import annotations

from labkit.errors import LabError

# Options that are of use here: of mpirun_rsh those that stand alone and those with a value, and srun's.
RSH_ALONE = ("export", "export-all", "debug", "show", "v", "legacy", "fastssh")
RSH_WITH_VALUE = ("np", "ppn", "hostfile", "launcher", "config", "sg")
SRUN_WITH_VALUE = (
    "mpi",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "cpus-per-task",
    "gpus-per-node",
    "gpus-per-task",
    "gpus",
    "gpu-bind",
    "cpu-bind",
    "gres",
    "export",
)


def options_of(launcher: str, nodes: int, gpus: int) -> dict[str, str]:
    """The options, as `read_command` gives them, of a job on every GPU of so many nodes."""
    if launcher == "mpirun_rsh":
        return {"export-all": "", "np": str(nodes * gpus), "hostfile": "hosts"}
    each = {"nodes": str(nodes), "ntasks-per-node": str(gpus), "gpus-per-node": str(gpus)}
    return {"mpi": "pmi2", "gpu-bind": "none", **each}


def read_command(words: list[str]) -> dict:
    """Take a line that starts a job apart as its launcher does.

    words: `mpirun_rsh …`, or `env VAR=value … srun …`, as a list of text. Returns {"options": {name: value},
    "variables": {name: value}, "program": [words]}. Raises LabError where the launcher would stop.
    """
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        raise LabError('The line must be a list of words, all of them text: ["mpirun_rsh", "-np", "4", …].')
    if words[0] == "mpirun_rsh":
        return _mpirun_rsh(words[1:])
    if words[0] in ("env", "srun"):
        return _srun(words)
    raise LabError(f"The line must begin with mpirun_rsh, or with env or srun, not with {words[0]!r}.")


def _mpirun_rsh(words: list[str]) -> dict:
    """As MVAPICH2 2.3.7 does: words with a `=` are variables, up to the first without.

    src/pm/mpirun: commandLine in mpirun_params.c, and the loop over aout_index in mpirun_rsh.c; its user
    guide, 5.2.
    """
    options, rest = _options(words, RSH_ALONE, RSH_WITH_VALUE, "mpirun_rsh")
    ranks = options.get("np", "")
    if not ranks.isdigit() or int(ranks) < 1:
        raise LabError("mpirun_rsh needs the number of ranks, -np N, before hosts, variables and program.")
    if not {"hostfile", "ppn", "config"} & set(options):
        hosts = rest[: int(ranks)]
        raise LabError(f"Without -hostfile, mpirun_rsh takes the next {ranks} words for hosts: {hosts}.")
    variables, program = _variables(rest)
    if not program:
        raise LabError("mpirun_rsh finds no program behind the variables.")
    return {"options": options, "variables": variables, "program": program}


def _srun(words: list[str]) -> dict:
    """As srun does; before it, env and its variables may stand."""
    variables: dict[str, str] = {}
    rest = words
    if words[0] == "env":
        variables, rest = _variables(words[1:])
    if rest[:1] != ["srun"]:
        raise LabError(f"Behind env and its variables stands {rest[:1]}, not srun.")
    options, program = _options(rest[1:], (), SRUN_WITH_VALUE, "srun")
    if not program:
        raise LabError("srun finds no program behind its options.")
    return {"options": options, "variables": variables, "program": program}


def _options(words: list[str], alone: tuple, with_value: tuple, launcher: str) -> tuple[dict, list[str]]:
    """({option: value}, the words from the first that is no option on)."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        if name in alone:
            options[name] = ""
        elif name in with_value and (equals or rest):
            options[name] = value if equals else rest.pop(0)
        else:
            raise LabError(f"{launcher}: -{name} is no option that is of use here, or its value is missing.")
    return options, rest


def _variables(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """({VAR: value}, the words from the first without a `=` on)."""
    variables: dict[str, str] = {}
    rest = list(words)
    while rest and "=" in rest[0]:
        name, value = rest.pop(0).split("=", 1)
        variables[name] = value
    return variables, rest
