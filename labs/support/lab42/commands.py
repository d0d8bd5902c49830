"""The lines that start a job: taken apart as their launchers do, and held against the job that is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from labkit.errors import LabError


class Job(NamedTuple):
    """How large a job is to be: nodes; ranks and GPUs on each of them; cores for each rank."""

    nodes: int
    ranks: int
    cores: int
    gpus: int

    def __str__(self) -> str:
        gpus = f"{self.gpus} GPUs" if self.gpus else "no GPU"
        return f"{self.nodes} nodes of {self.ranks} ranks and {gpus}, {self.cores} cores a rank"


class Line(NamedTuple):
    """A line, taken apart: {option: value}, {variable: value}, and the words of the program."""

    options: dict[str, str]
    variables: dict[str, str]
    program: list[str]


# A launcher's options by the number of words that they take; the rest of their options is of no use here.
_ALONE = {
    "mpirun_rsh": ("export", "export-all", "debug", "show", "v", "legacy", "fastssh"),
    "mpiexec": ("l", "prepend-rank", "print-rank-map", "verbose"),
    "srun": ("label", "unbuffered", "exclusive", "overlap", "verbose", "quiet", "exact"),
}
_WITH_VALUE = {
    "mpirun_rsh": ("np", "n", "ppn", "hostfile", "launcher", "config", "sg"),
    "mpiexec": ("n", "np", "ppn", "bind-to", "map-by", "f", "hosts", "launcher"),
    "srun": (
        "mpi", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "gpus-per-task",
        "gpus", "gpu-bind", "cpu-bind", "gres", "export", "distribution", "hint", "mem", "mem-per-cpu",
        "mem-bind",
        "time", "partition", "account", "qos", "constraint", "job-name", "output", "error", "nodelist",
        "kill-on-bad-exit", "threads-per-core", "ntasks-per-core", "wait",
    ),
}  # fmt: skip
_SHORT = {
    "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "l": "label", "u": "unbuffered", "m": "distribution",
    "t": "time", "p": "partition", "A": "account", "C": "constraint", "w": "nodelist", "J": "job-name",
    "o": "output", "e": "error", "K": "kill-on-bad-exit", "v": "verbose",
}  # fmt: skip


def read_command(words: Sequence[str]) -> Line:
    """Take a line that starts a job apart as its launcher does.

    words: `mpirun_rsh …`, `env VAR=value … srun …` or `env VAR=value … mpiexec …`, as a list of text.
    Raises LabError where the launcher would stop.
    """
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        raise LabError('The line must be a list of words, all of them text: ["mpirun_rsh", "-np", "4", …].')
    if words[0] == "mpirun_rsh":
        return _mpirun_rsh(list(words[1:]))
    if words[0] in ("env", "srun", "mpiexec"):
        return _behind_env(list(words))
    raise LabError(f"The line must begin with mpirun_rsh, srun, mpiexec or env, not with {words[0]!r}.")


def shortcoming(
    words: Sequence[str], launcher: str, job: Job, variables: Mapping[str, str], program: list[str]
) -> str:
    """What is wrong with a line for this job, in a sentence with its reason; "" if it will do.

    Further options that do no harm may be in it. Raises LabError as read_command does.
    """
    line = read_command(words)
    if launcher not in words[: len(words) - len(line.program)]:
        return f"It is not started by {launcher}."
    if line.program != program:
        return _wrong_program(line.program, program)
    for name, value in variables.items():
        if line.variables.get(name) != value:
            return f"{name}={value} is missing before the program, or has another value there."
    return _JUDGES[launcher](line, job)


def _mpirun_rsh(words: list[str]) -> Line:
    """As MVAPICH2 2.3.7 does: words with a `=` are variables, up to the first without.

    src/pm/mpirun: commandLine in mpirun_params.c, and the loop over aout_index in mpirun_rsh.c; its user
    guide, 5.2.
    """
    options, rest = _options(words, "mpirun_rsh")
    ranks = options.get("np", options.get("n", ""))
    if not ranks.isdigit() or int(ranks) < 1:
        raise LabError("mpirun_rsh needs the number of ranks, -np N, before hosts, variables and program.")
    if not {"hostfile", "ppn", "config"} & set(options):
        hosts = rest[: int(ranks)]
        raise LabError(f"Without -hostfile, mpirun_rsh takes the next {ranks} words for hosts: {hosts}.")
    variables, program = _variables(rest)
    if not program:
        raise LabError("mpirun_rsh finds no program behind the variables.")
    return Line(options, variables, program)


def _behind_env(words: list[str]) -> Line:
    """As srun and hydra's mpiexec do; env and its variables may stand before them, and before the program."""
    variables: dict[str, str] = {}
    rest = words
    if words[0] == "env":
        variables, rest = _variables(words[1:])
    launcher = rest[0] if rest else ""
    if launcher not in ("srun", "mpiexec"):
        raise LabError(f"Behind env and its variables stands {launcher!r}, not srun or mpiexec.")
    options, program = _options(rest[1:], launcher)
    for pair in options.get("export", "").split(","):
        name, equals, value = pair.partition("=")
        if equals:
            variables[name] = value
    if program[:1] == ["env"]:
        more, program = _variables(program[1:])
        variables |= more
    if not program:
        raise LabError(f"{launcher} finds no program behind its options.")
    return Line(options, variables, program)


def _options(words: list[str], launcher: str) -> tuple[dict[str, str], list[str]]:
    """({option: value}, the words from the first that is no option on)."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if launcher == "srun" and not word.startswith("--"):
            name = _SHORT.get(name[:1], name)
            value = word[2:]
            equals = value
        if name in _ALONE[launcher] or name == "kill-on-bad-exit":
            options[name] = value
        elif name in _WITH_VALUE[launcher] and (equals or rest):
            options[name] = value if equals else rest.pop(0)
        else:
            raise LabError(f"{launcher}: {word} is no option that is of use here, or its value is missing.")
    return options, rest


def _variables(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """({VAR: value}, the words from the first without a `=` on)."""
    variables: dict[str, str] = {}
    rest = list(words)
    while rest and "=" in rest[0]:
        name, value = rest.pop(0).split("=", 1)
        variables[name] = value
    return variables, rest


def _wrong_program(got: list[str], wanted: list[str]) -> str:
    """Why the words at the end are not the program alone."""
    behind = got[len(wanted) :]
    if got[: len(wanted)] == wanted:
        return f"{behind} stand behind the program, which takes them for arguments of its own."
    if got and got[0].startswith("-"):
        return f"{got[0]} is taken for the program."
    if got and "=" in got[0]:
        return f"{got[0]} behind srun's options is taken for the program: env and variables come before srun."
    return f"The program should be {wanted}; the launcher finds {got}."


def _judge_rsh(line: Line, job: Job) -> str:
    options = line.options
    ranks = job.nodes * job.ranks
    if options.get("np", options.get("n")) != str(ranks):
        return f"-np is the number of all ranks, {job.nodes} nodes times {job.ranks}: {ranks}."
    if "export-all" not in options:
        return (
            "Without -export-all the ranks miss your environment, such as PATH, or (-export) what a node has "
            "set already wins over it."
        )
    if options.get("hostfile") != "hosts":
        return "-hostfile hosts is missing: the file with a line for each node."
    if line.variables.get("OMP_NUM_THREADS") != str(job.cores):
        return (
            f"OMP_NUM_THREADS={job.cores} is missing: mpirun_rsh binds nobody, and each rank would start a "
            "thread for every core of the node."
        )
    return ""


def _judge_mpiexec(line: Line, job: Job) -> str:
    ranks = job.nodes * job.ranks
    if line.options.get("n", line.options.get("np")) != str(ranks):
        return f"-n is the number of ranks: {ranks}."
    if line.options.get("bind-to") != f"core:{job.cores}":
        return f"-bind-to core:{job.cores} is missing: it gives each rank {job.cores} cores of its own."
    if line.variables.get("OMP_NUM_THREADS") != str(job.cores):
        # Seen with torch 2.13.0 and its MKL 2024.2: MPI_LOCALNRANKS, which hydra sets, makes it one thread.
        return f"OMP_NUM_THREADS={job.cores} is missing: under mpiexec PyTorch would start one thread alone."
    return ""


def _judge_srun(line: Line, job: Job) -> str:
    options = line.options
    if options.get("mpi") not in ("pmi2", "pmix"):
        return "Without --mpi=pmi2, srun starts programs that do not know of each other: every one is rank 0."
    if options.get("nodes") != str(job.nodes):
        return f"The job has {job.nodes} nodes: --nodes={job.nodes}."
    by_node = options.get("ntasks-per-node") == str(job.ranks)
    if not by_node and options.get("ntasks") != str(job.nodes * job.ranks):
        return f"There are {job.ranks} ranks on a node: --ntasks-per-node={job.ranks}."
    if "cpus-per-task" not in options:
        return (
            "Without --cpus-per-task Slurm gives a rank ONE core, which it then shares with Horovod's thread "
            f"and the loaders: --cpus-per-task={job.cores}."
        )
    if options["cpus-per-task"] != str(job.cores):
        return f"--cpus-per-task={options['cpus-per-task']}: {job.cores} cores for each rank were asked for."
    return _judge_gpus(options, job)


def _judge_gpus(options: dict[str, str], job: Job) -> str:
    asked = {name: value for name, value in options.items() if name.startswith("gpu") or name == "gres"}
    if not job.gpus:
        return f"This job has no GPUs, and asks for some: {', '.join(asked)}." if asked else ""
    if "gpus-per-task" in options:
        return (
            "--gpus-per-task hides the other GPUs of the node from a rank, and CUDA IPC between them fails: "
            f"--gpus-per-node={job.gpus}."
        )
    named = options.get("gpus-per-node", options.get("gres", "").removeprefix("gpu:"))
    if named.rpartition(":")[2] != str(job.gpus):
        return f"There are {job.gpus} GPUs on a node: --gpus-per-node={job.gpus}."
    if options.get("gpu-bind") != "none":
        return "Without --gpu-bind=none a site may show a rank only its own GPU, and CUDA IPC fails."
    return ""


_JUDGES = {"mpirun_rsh": _judge_rsh, "mpiexec": _judge_mpiexec, "srun": _judge_srun}
