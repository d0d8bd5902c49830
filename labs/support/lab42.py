"""Lab 42: its checks, MPI seen from inside, lines that start jobs, timelines and their rows.

As a program it asks each rank who it is, and how fast its MPI adds a gradient; rank 0 prints all
of it in one line, after ROLL_CALL, as JSON:

    srun --mpi=pmi2 --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 python -m support.lab42
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from labkit import (
    builds,
    check,
    cluster,
    expect,
    launch,
    mpis,
    paths,
    placement,
    record,
    timing,
    world,
)
from labkit.errors import LabError, counted
from labkit.horovod import Training, timeline, train_ways


@check.exercise("42.1")
def family_and_version(which_mpi, inside):
    """Family and version of nine texts, and of the libraries here that are of the four families."""
    for text, tool, want in LIBRARIES:
        row = f"Text {text.splitlines()[0]!r}, mpiname {tool[:18]!r}"
        got = which_mpi(text, tool)
        nothing = isinstance(got, tuple | list) and list(got) == [None, None]
        expect(
            not nothing or want[0] is None,
            f"{row}: no family was found, although the text begins with one of the four names.",
        )
        expect.equal(got, want, row)
    for mpi, rank in inside.items():
        if not has_rule(rank.text):  # a site's library of another family
            continue
        got = which_mpi(rank.text, rank.mpiname)
        expect.equal(" ".join(map(str, got)), rank.library, f"The library of {mpi or 'this job'}")


@check.exercise("42.2")
def lines_that_start_jobs(variables, command):
    """The variables of each flavor, and four commands for srun in which each argument of the table
    stands in its place. Further options that do no harm, such as --cpu-bind=cores, are accepted.
    The command for mpiexec is as it was given.
    """
    for flavor, want in VARIABLES.items():
        expect.equal(variables(flavor), want, f"Variables of {flavor}")
    for job in SRUN_JOBS:
        needed = variables("mvapich2-gdr" if job.gpus else "mvapich2")
        given, own = dict(needed), list(TRAIN)
        with check.case(f"srun, {job}"):
            line = command("srun", job, given, own)
            expect.unchanged(TRAIN, own, "the argument `program`")
            expect.unchanged(needed, given, "the argument `variables`")
            expect_line(line, "srun", job, needed, TRAIN)
    small = Job(2, 2, 3, 0)
    line = ["env", "A=1", "OMP_NUM_THREADS=3", "mpiexec", "-n", "4", "-bind-to", "core:3", *TRAIN]
    got = command("mpiexec", small, {"A": "1"}, list(TRAIN))
    expect.equal(got, line, f"mpiexec, {small}", because="leave the part for mpiexec as it was")


@check.exercise("42.3")
def calls_and_tensors(carried, activities, short_run):
    """Calls and tensors of six made-up timelines, and calls of the one above."""
    for calls, want in TIMELINES:
        expect.equal(carried(timeline_of(*calls)), want, f"The timeline of {calls}")
    expect.equal(carried([]), {}, "A timeline without activities")
    if short_run:
        got = {name: calls for name, (calls, tensors) in carried(activities).items()}
        expect.equal(
            got, timeline.backends(short_run), "Calls by name in the timeline of real ranks"
        )


@check.exercise("42.4")
def way_of_each_gradient(way_of, libraries, results):
    """The way of thirteen gradients, and of those that were trained above."""
    for journey in JOURNEYS:
        row = (
            f"{journey.told}, {journey.device}, build {journey.build!r}:"
            f" {' '.join(journey.activities[2:])}"
        )
        own = list(journey.activities)
        got = way_of(own, journey.device, journey.build)
        expect.unchanged(journey.activities, own, f"{row}: the argument `activities`")
        expect.equal(got, journey.verdict, row, because=journey.because)
    for library in libraries.values():
        training = results[library]["fused"]
        rows = gradients(timeline.activities(training.events or []))
        got = ways_of_gradients(way_of, training)
        expect.equal(len(got), 1 if rows else 0, f"Ways of the gradients over {library}, {got}")


@check.exercise("42.5")
def lines_for_mpirun_rsh(rsh_command):
    """Three commands for mpirun_rsh, in which each argument of the table stands in its place."""
    for job in RSH_JOBS:
        needed = VARIABLES["mvapich2-gdr" if job.gpus else "mvapich2"]
        given, own = dict(needed), list(TRAIN)
        with check.case(f"mpirun_rsh, {job}"):
            line = rsh_command(job, given, own)
            expect.unchanged(TRAIN, own, "the argument `program`")
            expect.unchanged(needed, given, "the argument `variables`")
            expect_line(line, "mpirun_rsh", job, needed, TRAIN)


# ---------------------------------------- which MPI

_MV2 = "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02 22:00:00 EST 2022\n"

# MPI_Get_library_version's text, what `mpiname -a` prints, (family, version). MVAPICH2 2.3.7: its
# src/mpi/misc/library_version.c, and run here; the name MVAPICH2-GDR in mpiname: DeepSpeed's test
# in deepspeed/launcher/multinode_runner.py; MVAPICH 3.0rc, 4.0: their library_version.c and
# initinfo.c; MPICH 5.0.2 and Open MPI 5.0.11: run. The paths and names in the rest of the texts are
# made up, to trap guesses.
LIBRARIES = (
    (
        _MV2,
        "MVAPICH2 2.3.7 Wed March 02 22:00:00 EST 2022 ch3:mrail\n--prefix=/GDR/mvapich2-gdr",
        ("MVAPICH2", "2.3.7"),
    ),
    (_MV2, "MVAPICH2-GDR 2.3.7", ("MVAPICH2-GDR", "2.3.7")),
    (_MV2, "\nMVAPICH2-GDR 2.3.7 ch3:mrail", ("MVAPICH2-GDR", "2.3.7")),
    (
        "MVAPICH Version        :\t3.0rc\nMVAPICH Device         :\tch4:ucx\n",
        "",
        ("MVAPICH", "3.0rc"),
    ),
    (
        "MVAPICH Version:        4.0\nMVAPICH Release date:   06 Mar 2025\n",
        "MVAPICH2-GDR 2.3.7",
        ("MVAPICH", "4.0"),
    ),
    (
        "MPICH Version:      5.0.2\nMPICH configure:    --prefix=/opt/MVAPICH2\n",
        "",
        ("MPICH", "5.0.2"),
    ),
    # PATH and process differ.
    ("MPICH Version:      5.0.2\n", "MVAPICH2-GDR 2.3.7", ("MPICH", "5.0.2")),
    (
        "Open MPI v5.0.11, package: MPICH Version: 1 is only its name\nMPICH Version: 1\n",
        "",
        ("Open MPI", "5.0.11"),
    ),
    ("Some MPI v2.0, with the ABI of MPICH Version: 4.1", "", (None, None)),
)


def has_rule(text: str) -> bool:
    """Whether exercise 42.1 says how to read this text of an MPI library."""
    return bool(re.match(r"(MVAPICH2|MVAPICH|MPICH|Open MPI)( Version\s*:| v)", text))


UNBOUND = mpis.switches("mvapich2", {})  # what MVAPICH2 needs to grant MPI_THREAD_MULTIPLE
SINGLE = {"HOROVOD_MPI_THREADS_DISABLE": "1"}  # Horovod then asks for MPI_THREAD_SINGLE
# MPI's order; 0 to 3 in MPICH's kin and Open MPI.
LEVELS = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")


class Inside(NamedTuple):
    """What a rank tells of itself.

    library: "MPICH 5.0.2". text: of MPI_Get_library_version. mpiname: what that tool prints. files:
    the MPI libraries that the process has mapped. level: the thread level that MPI gave.
    """

    library: str
    text: str
    mpiname: str
    files: list[str]
    level: str


def settings_of(library: str) -> dict[str, dict[str, str]]:
    """{name: variables} of the settings whose thread level is asked for, beside UNBOUND's.

    labkit gives MVAPICH2's ranks UNBOUND, unless they have another setting: so "on" is said.
    """
    bound = {"MV2_ENABLE_AFFINITY": "1"}
    settings = {"asked for less": UNBOUND | SINGLE}
    if library.startswith("MVAPICH2"):
        settings["affinity on"] = bound
        settings["affinity on, socket"] = bound | {"MV2_CPU_BINDING_LEVEL": "socket"}
    return settings


def channel(text: str) -> str:
    """The part of an MPI that moves the bytes, as its text names it, such as "ch3:sock"; "" if
    unnamed."""
    named = re.search(r"^\w+ Device\s*:\s*(\S+)", text, re.MULTILINE)
    return named[1] if named else ""


def look_inside() -> Inside:
    """On a rank: see Inside.

    mpi4py begins, asking for MPI_THREAD_MULTIPLE as Horovod would, and calls nothing while
    Horovod's thread runs: imported after it, on a lower level, it can break a rank.
    """
    from mpi4py import MPI

    text = MPI.Get_library_version().strip("\0\n ")
    level = LEVELS[MPI.Query_thread()]
    import horovod.torch as hvd

    hvd.init()
    hvd.shutdown()  # it leaves MPI to mpi4py
    tool = mpis.mpiname()
    library = " ".join(map(str, mpis.identify(text, tool)))
    return Inside(library, text, tool, mpis.loaded(), level)


def thread_level() -> str:
    """On a rank: one of LEVELS, what MPI gave Horovod, which started it.

    Nothing but Horovod may use MPI meanwhile: below MULTIPLE, another thread's calls can break it.
    A rank ends its MPI when it is left, which MVAPICH2 does not survive at the level that it grants
    a bound rank.
    """
    import horovod.torch as hvd

    hvd.init()
    level = LEVELS[_level_given()]
    own_process = "LABKIT_RUN" in os.environ  # it ends with this function: leave Horovod to its end
    if hvd.mpi_threads_supported() and not own_process:
        hvd.shutdown()  # so that this process may start Horovod again
    return level


def levels(inside: Mapping[str | None, Inside], ranks: int, start: bool) -> list[dict]:
    """A record of the thread level by MPI and setting. inside: by the build of the MPI.

    start: whether ranks can be started with other settings; in a job MPI runs, and its level stays.
    """
    rows = []
    for mpi, rank in inside.items():
        given = {"affinity off": rank.level}
        for setting, env in settings_of(rank.library).items() if start else ():
            given[setting] = launch.run(thread_level, ranks=ranks, mpi=mpi, env=env)[0]
        named = {"mpi": rank.library, "channel": channel(rank.text)}
        rows += [
            record.add("thread level", ranks=ranks, setting=setting, level=level, **named)
            for setting, level in given.items()
        ]
    return rows


def _level_given() -> int:
    """MPI_Query_thread of the library that this process holds; any thread may call it on any
    level."""
    given = ctypes.c_int()
    ctypes.CDLL(mpis.loaded()[0]).MPI_Query_thread(ctypes.byref(given))
    return given.value


# ---------------------------------------- lines that start jobs


class Job(NamedTuple):
    """How large a job is to be: nodes; ranks and GPUs on each of them; cores for each rank."""

    nodes: int
    ranks: int
    cores: int
    gpus: int

    def __str__(self) -> str:
        gpus = counted(self.gpus, "GPU") if self.gpus else "no GPU"
        size = f"{counted(self.nodes, 'node')} of {counted(self.ranks, 'rank')} and {gpus}"
        return f"{size}, {counted(self.cores, 'core')} a rank"


# What Horovod needs, by flavor.
VARIABLES = {
    flavor: mpis.switches(flavor, {}) for flavor in ("mvapich-plus", "mvapich2-gdr", "mvapich2")
}

# Jobs whose lines are checked, by launcher, and their program.
SRUN_JOBS = (
    Job(2, 4, 14, 4),
    Job(1, 2, 3, 0),
    Job(3, 1, 8, 1),
    Job(2, 8, 4, 2),  # ranks share GPUs
)
RSH_JOBS = (Job(2, 4, 14, 4), Job(3, 2, 1, 0), Job(2, 8, 4, 2))
TRAIN = ["python", "train.py", "--name=a=b"]


def words_needed(launcher: str, job: Job) -> dict[str, str]:
    """Options that a line for this job needs, in order: what is wrong without them."""
    ranks = job.nodes * job.ranks
    threads = f"OMP_NUM_THREADS={job.cores}"
    if launcher == "mpirun_rsh":
        return {
            f"-np {ranks}": (
                f"the job does not get {ranks} ranks, {job.ranks} on each of {job.nodes} nodes"
            ),
            "-hostfile hosts": f"the next {ranks} arguments are taken for host names",
            "-export-all": "ranks on other nodes do not get your environment, such as PATH",
            threads: (
                "each rank starts a thread for every core of the node, as mpirun_rsh binds no ranks"
            ),
        }
    words = {
        "--mpi=pmi2": "the programs do not know of each other, and every one is rank 0",
        f"--nodes={job.nodes}": f"the job does not get {counted(job.nodes, 'node')}",
        f"--ntasks-per-node={job.ranks}": f"a node does not get {counted(job.ranks, 'rank')}",
        f"--cpus-per-task={job.cores}": (
            "many sites give a rank ONE core, which it shares with Horovod's thread and the loaders"
        ),
    }
    if job.gpus:
        words[f"--gpus-per-node={job.gpus}"] = f"a node does not get {counted(job.gpus, 'GPU')}"
        words["--gpu-bind=none"] = (
            "a site might show a rank only its own GPU, and CUDA IPC then fails"
        )
    return words


def expect_line(
    words: Sequence[str], launcher: str, job: Job, variables: Mapping[str, str], program: list[str]
) -> None:
    """Fail, with the reason, unless the line will do for this job."""
    texts = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
    start = "mpirun_rsh" if launcher == "mpirun_rsh" else "env"
    expect(texts, f'The command must be a list of strings: ["{start}", …, "{program[0]}", …].')
    words = list(words)
    expect(launcher in words, f"The command does not start {launcher}.")
    found = [at for at in range(len(words)) if words[at : at + len(program)] == program]
    expect(found, f"The program should be {program}; the command is {words}.")
    before, behind = words[: found[0]], words[found[0] + len(program) :]
    expect(
        not behind,
        f"{behind} stand behind the program, which takes them for arguments of its own.",
    )
    for word in before:
        expect(" " not in word, f"{word!r} contains a space: write each part as one string.")
    at = before.index(launcher)
    options = before[at + 1 :]
    pairs = [word for word in options if "=" in word and not word.startswith("-")]
    if launcher == "mpirun_rsh":
        place = allowed = options[len(options) - len(pairs) :]  # directly before the program
        because = "stands before an option: variables come directly before the program."
    else:
        place = before[1:at]
        allowed = []
        because = "behind srun is taken for the program: env and variables come before it."
    for pair in pairs:
        expect(pair in allowed, f"{pair} {because}")
    expect(before[0] == start, f"The command must begin with {start}, not with {before[0]!r}.")
    for name, value in variables.items():
        pair = f"{name}={value}"
        missing = f"{pair} is missing before the program, or has another value there."
        expect(pair in place, missing)
    for pair in place:
        known = pair.partition("=")[0] in variables or not pair.startswith(("MV2_", "MVP_"))
        expect(known, f"{pair} is not among the given `variables`.")
    given = _plain(options, launcher)
    expect(
        "--gpus-per-task" not in given,
        "--gpus-per-task hides the other GPUs of the node from a rank, and CUDA IPC between them"
        " fails.",
    )
    for word, without in words_needed(launcher, job).items():
        name, *value = _plain(word.split(), launcher)
        there = _value(given, name) if value else None
        right = there == value[0] if value else name in given
        reason = f"The command has {there!r} instead" if there else f"Without it, {without}"
        expect(right, f"{word} is missing. {reason}.")
    total = str(job.nodes * job.ranks)
    ranks = _value(given, "--ntasks")
    expect(ranks in (None, total), f"--ntasks={ranks}, but this job has {total} ranks in all.")
    hidden = _value(given, "--export") in ("NONE", "NIL")
    expect(not hidden, "With this --export, the ranks do not get the variables before srun.")
    asked = [word for word in options if "gpu" in word]
    expect(job.gpus or not asked, f"This job has no GPUs, and asks for some: {asked}.")


_LONG = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task"}  # srun's short options


def _plain(words: Sequence[str], launcher: str) -> list[str]:
    """Options and values as words of their own: `--nodes=2`, `--nodes 2` and srun's `-N2` alike."""
    plain: list[str] = []
    for word in words:
        if word.startswith("--gres=gpu:"):
            plain += ["--gpus-per-node", word.removeprefix("--gres=gpu:")]
        elif word.startswith("--"):
            plain += word.split("=", 1)
        elif launcher == "srun" and word[:2] in _LONG:
            plain += [_LONG[word[:2]], *filter(None, [word[2:]])]
        else:
            plain.append(word)
    return plain


def _value(plain: Sequence[str], name: str) -> str | None:
    """The value of an option in `_plain` words; the last, as srun does, if it is given twice."""
    values = [value for option, value in itertools.pairwise(plain) if option == name]
    return values[-1] if values else None


PROGRAM = [sys.executable, "-m", "support.lab42"]  # words that say what a line has started


def launcher_here() -> str | None:
    """Whose line can be started here: "srun", or "mpiexec" where there is no Slurm.

    None for a site that starts by mpirun_rsh, and for an mpiexec that is not of MPICH's kin.
    """
    site = cluster.here()
    if site is None:
        return "mpiexec" if launch.flavor(launch.mpiexec()) == "hydra" else None
    chosen = cluster.sites.load(site).get("LABKIT_LAUNCHER", "srun").split()[0]
    return None if chosen == "mpirun_rsh" else "srun"


def job_here(cores: int = 1) -> Job:
    """A small job that fits: two nodes of Slurm with a rank on each, or two ranks on this machine.

    On a GPU cluster it has one GPU on each node, unless the site gives whole nodes and refuses the
    option.
    """
    site = cluster.here()
    if site is None:
        return Job(1, 2, cores, 0)
    partitions = cluster.slurm.at(site).partitions()
    nodes = min(2, max(partition.largest for partition in partitions))
    known = cluster.sites.load(site)
    gpus = (
        0 if known.get("LABKIT_GPU_FORM") == "none" else int(known.get("LABKIT_GPUS_PER_NODE", "0"))
    )
    return Job(nodes, 1, cores, min(1, gpus))


def start_here(command: Callable, variables: Callable, libraries: Sequence[str]) -> None:
    """Start the line that `command` writes for this place with each of these builds of MPI, and
    print what its ranks answer."""
    import pandas

    launcher = launcher_here()
    if launcher is None:
        print("No command can be started here: its launcher is neither srun nor MPICH's mpiexec.")
        return
    job = job_here(cores=1)
    for mpi in libraries:
        line = command(
            launcher, job, variables("mvapich2-gdr" if job.gpus else "mvapich2"), PROGRAM
        )
        print(*line)
        columns = ["rank", "host", "cores", "mpi", "level", "staged", "MB/s"]
        print(pandas.DataFrame(start(line, mpi))[columns].to_string(index=False), "\n")


def start(words: Sequence[str], mpi: str | None = None, timeout: float = 180) -> list[dict]:
    """Start a line whose program is PROGRAM, wait for its end, and return what each rank answered.

    mpi: a build of labkit.builds; None: the one in use. srun asks for nodes of its own. See
    `answer` for the fields. Raises LabError with the last words of a line that fails, or that does
    not end in time.
    """
    command = list(words)
    # The settings of the MPI are for the line to say, and threads are left to the cores that it
    # gives.
    env = {
        name: value
        for name, value in world.clean_env().items()
        if name not in launch.THREAD_VARIABLES
    }
    site = cluster.here()
    if "srun" in words:
        # How Slurm's commands find their controller.
        clients = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")
        own = {name: os.environ[name] for name in clients if name in os.environ}
        env = cluster.sites.environment(site, env) | own
        at = command.index("srun") + 1
        for own_plugin in re.findall(r"--mpi=\S+", env.get("LABKIT_LAUNCHER", "")):
            command = [own_plugin if word.startswith("--mpi=") else word for word in command]
        command[at:at] = [*shlex.split(env.get("LABKIT_SBATCH_OPTIONS", "")), "--time=10"]
        modules = 'source slurm/launch.sh; read_site 42_horovod_mvapich2_gdr; exec "$@"'
        command = ["bash", "-c", modules, "line", *command]
    else:
        env["PATH"] = os.pathsep.join([str(Path(launch.mpiexec(mpi)).parent), env["PATH"]])
    chosen = builds.variables(mpi=mpi)
    env |= {name: value for name, value in chosen.items() if not name.startswith(("MV2_", "MVP_"))}
    env["PYTHONPATH"] = os.pathsep.join(
        [str(paths.root() / "labs"), env.get("PYTHONPATH", "")]
    ).rstrip(":")
    with tempfile.TemporaryFile("w+") as file:
        ended = launch.run_to_end(
            command,
            timeout=timeout,
            env=env,
            cwd=paths.root(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        file.seek(0)
        printed = file.read()
    last = "\n".join([line for line in printed.splitlines() if line.strip()][-5:]) or "nothing"
    if ended.cause == "timeout":
        raise LabError(f"The line did not end within {timeout:g} s. It printed: {last}")
    if ended.status:
        raise LabError(f"The line ended with status {ended.status}: {last}")
    jobs = [json.loads(line.partition(MARK)[2]) for line in printed.splitlines() if MARK in line]
    if len(jobs) != 1:
        raise LabError(
            f"The ranks did not find each other: jobs that answered: {len(jobs)}. Last: {last}"
        )
    return jobs[0]


MARK = "ROLL_CALL "
REPEAT = 12
GRADIENT = 16 << 20  # bytes


def answer(comm) -> dict:
    """This rank's place, its cores and threads, its MPI, and an allreduce.

    "MB/s": bytes of a gradient of 16 MiB over the seconds of its allreduce by MPI, from the rank's
    device. "staged": it goes through the host there.
    """
    import torch
    from mpi4py import MPI

    family, version = mpis.identify(MPI.Get_library_version(), "")
    device = world.device()
    where = placement.of_mpi()
    gradient = torch.zeros(GRADIENT // 4, device=device)
    summed = timing.measure(
        lambda: where.allreduce(comm, gradient), repeat=REPEAT, warmup=2, comm=comm, device=device
    )
    return {
        "rank": comm.rank,
        "host": socket.gethostname(),
        "cores": world.cores(),
        "threads": torch.get_num_threads(),
        "mpi": f"{family} {version}",
        "level": LEVELS[MPI.Query_thread()],
        "staged": where.staged,
        "MB/s": round(GRADIENT / summed.median / 1e6),
    }


# ---------------------------------------- timelines

ON_GPU = "stayed on the GPU"
AWARE = "CUDA-aware MPI"
STAGED = "staged through the host"
ON_CPU = "CPU tensors"


class Journey(NamedTuple):
    """What one gradient's row of a timeline holds, in order, and what that says of its way.

    told: what job it was. device: where the gradient is. build: Horovod's "host", "nccl" or "mpi".
    verdict: ON_GPU, AWARE, STAGED or ON_CPU. because: why, in a sentence.
    """

    told: str
    device: str
    build: str
    activities: list[str]
    verdict: str
    because: str


def _row(*inside: str) -> list[str]:
    return ["NEGOTIATE_ALLREDUCE", "ALLREDUCE", *inside]


_WAIT = ("WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA")
_IN = "MEMCPY_IN_FUSION_BUFFER"
_OUT = "MEMCPY_OUT_FUSION_BUFFER"
_HOST = ("MEMCPY_IN_HOST_BUFFER", "MPI_ALLREDUCE", "MEMCPY_OUT_HOST_BUFFER")
_ADASUM = ("MEMCPY_IN_HOST_BUFFER", "MPI_ADASUM_ALLREDUCE", "MEMCPY_OUT_HOST_BUFFER")

# The rows of a gradient that travels with others, unless `told` says alone. That of a laptop was
# recorded. The others follow Horovod 0.28.1's source, operation by operation, in the order in which
# they are written to the file: horovod/common/ops/nccl_operations.cc (NCCL, hierarchical, torus,
# reducescatter), mpi_gpu_operations.cc (CUDA-aware MPI), adasum_gpu_operations.cc,
# mpi_operations.cc and gloo_operations.cc with DoAllreduceCudaOnCPU of torch/mpi_ops_v2.cc (host),
# gpu_operations.cc (QUEUE), collective_operations.cc (WAIT_FOR_DATA; a build with CUDA writes it
# for CPU tensors, too: ReadyEventList in common.h counts an event that is none). The last is what
# github.com/horovod/horovod/issues/321 tells (2018), whose file is not at hand.
JOURNEYS = (
    Journey(
        "a laptop",
        "cpu",
        "host",
        _row(_IN, "MPI_ALLREDUCE", _OUT),
        ON_CPU,
        "the gradients are CPU tensors",
    ),
    Journey(
        "NCCL",
        "cuda:0",
        "nccl",
        _row("INIT_NCCL", *_WAIT, "QUEUE", _IN, "NCCL_ALLREDUCE", _OUT),
        ON_GPU,
        "NCCL moves GPU memory, and the fusion buffer is GPU memory, too",
    ),
    Journey(
        "a CUDA-aware MPI",
        "cuda:0",
        "mpi",
        _row(*_WAIT, _IN, "MPI_ALLREDUCE", _OUT),
        AWARE,
        "the build `mpi` hands GPU memory to MPI",
    ),
    Journey(
        "MPI, without CUDA in it",
        "cuda:0",
        "host",
        _row(*_WAIT, _IN, "MPI_ALLREDUCE", _OUT),
        STAGED,
        "the build `host` copies a GPU tensor to host memory before MPI sees it",
    ),
    Journey(
        "NCCL named for broadcasts only",
        "cuda:0",
        "nccl",
        _row(*_WAIT, _IN, "MPI_ALLREDUCE", _OUT),
        STAGED,
        "a build `nccl` copies to host memory in operations for which no library was named",
    ),
    Journey(
        "NCCL inside the nodes, MPI between them (hierarchical)",
        "cuda:0",
        "nccl",
        _row(*_WAIT, "QUEUE", _IN, "NCCL_REDUCESCATTER", *_HOST, "NCCL_ALLGATHER", _OUT),
        STAGED,
        "MEMCPY_IN_HOST_BUFFER copies to host memory, for MPI between the nodes",
    ),
    Journey(
        "NCCL inside and between nodes (torus)",
        "cuda:0",
        "nccl",
        _row(*_WAIT, "NCCL_ALLREDUCE", "QUEUE", _IN, "NCCL_REDUCESCATTER", "NCCL_ALLGATHER", _OUT),
        ON_GPU,
        "NCCL carries it inside the nodes and between them",
    ),
    Journey(
        "NCCL, one gradient alone",
        "cuda:1",
        "nccl",
        _row(*_WAIT, "QUEUE", "NCCL_ALLREDUCE"),
        ON_GPU,
        "cuda:1 is a GPU, too, and NCCL moves its memory",
    ),
    Journey(
        "NCCL, for an optimizer whose state is sharded (reducescatter)",
        "cuda:0",
        "nccl",
        [
            "NEGOTIATE_REDUCESCATTER",
            "REDUCESCATTER",
            *_WAIT,
            *("ALLOCATE_OUTPUT", "QUEUE", _IN, "NCCL_REDUCESCATTER", _OUT),
        ],
        ON_GPU,
        "any name that begins with NCCL_ moves GPU memory, not only NCCL_ALLREDUCE",
    ),
    Journey(
        "Adasum with NCCL",
        "cuda:0",
        "nccl",
        _row(*_WAIT, "QUEUE", _IN, "NCCL_REDUCESCATTER", *_ADASUM, "NCCL_ALLGATHER", _OUT),
        STAGED,
        "Adasum between the nodes is computed in host memory",
    ),
    Journey(
        "a metric on the CPU, in a build with NCCL",
        "cpu",
        "nccl",
        _row(*_WAIT, "MPI_ALLREDUCE"),
        ON_CPU,
        "it is a CPU tensor; a build with CUDA writes WAIT_FOR_DATA for these, too",
    ),
    Journey(
        "GPUs, with Gloo",
        "cuda:0",
        "host",
        _row(*_WAIT, _IN, "GLOO_ALLREDUCE", _OUT),
        STAGED,
        "Gloo is given host memory by Horovod",
    ),
    Journey(
        "issue 321: a GPU job, built without NCCL",
        "cuda:0",
        "host",
        _row("MPI_ALLREDUCE", _OUT),
        STAGED,
        "without GPU operations TensorFlow copies to host memory, so Horovod sees CPU tensors",
    ),
)

# Calls of communication libraries for `timeline_of`, and {operation: (calls, tensors)}.
TIMELINES = (
    ([("MPI_ALLREDUCE", 3)], {"MPI_ALLREDUCE": (1, 3)}),
    ([("GLOO_ALLREDUCE", 1)] * 4, {"GLOO_ALLREDUCE": (4, 4)}),
    ([("CCL_ALLREDUCE", 2), ("CCL_ALLREDUCE", 1)], {"CCL_ALLREDUCE": (2, 3)}),
    (
        [("MPI_BCAST", 2), ("NCCL_ALLREDUCE", 5), ("NCCL_ALLREDUCE", 1)],
        {"MPI_BCAST": (1, 2), "NCCL_ALLREDUCE": (2, 6)},
    ),
    # Names that are made up: a library's name stands inside, or is only a part of the first word.
    (
        [("WAIT_FOR_MPI_BUFFER", 1), ("NCCLX_SETUP", 1), ("CC_RESET", 1), ("GLOO_BROADCAST", 2)],
        {"GLOO_BROADCAST": (1, 2)},
    ),
)


def timeline_of(*calls: tuple[str, int]) -> list[timeline.Activity]:
    """Activities as Horovod leaves them: ("MPI_ALLREDUCE", 3) is one call with 3 tensors; NCCL is
    started before its call."""
    begun: list[tuple[str, str]] = []
    for name, tensors in calls:
        kind = name.partition("_")[2].replace("BCAST", "BROADCAST")
        start = ["INIT_NCCL"] if name.startswith("NCCL_") else []
        for activity in (f"NEGOTIATE_{kind}", kind, *start, _IN, name, _OUT):
            begun += [(f"layer {tensor}", activity) for tensor in range(tensors)]
    return [
        timeline.Activity(tensor, name, 1e-6 * place, 1e-6)
        for place, (tensor, name) in enumerate(begun)
    ]


def trained(
    ways: Mapping[str, Mapping[str, str]],
    size: tuple[int, int, int],
    ranks: int,
    mpi: str | None = None,
) -> dict[str, Training]:
    """Rank 0's trainings of a small net, by way. ways: {name: environment variables}.

    size: weight matrices, their rows and columns, and steps. mpi: a build of labkit.builds; None:
    the one in use.
    """
    folder = paths.own_folder()
    return launch.run(train_ways, *size, ways, folder, ranks=ranks, env=UNBOUND, mpi=mpi)[0]


class Calls(NamedTuple):
    """Calls of an allreduce in a step: the mean of all steps, and the fewest in one of them."""

    mean: float
    fewest: int


def calls_of_each_step(events: list[dict], layers: int) -> list[int]:
    """Calls of an allreduce in each step; a step ends when it has averaged `layers` tensors."""
    each, calls, tensors = [], 0, 0
    for call in timeline.collectives(events):
        if "ALLREDUCE" in call.name:
            calls, tensors = calls + 1, tensors + len(call.tensors)
            if tensors >= layers:
                each.append(calls)
                calls, tensors = 0, 0
    return each


def calls_per_step(
    carried: Callable,
    results: Mapping[str, Mapping[str, Training]],
    layers: int,
    *,
    ranks: int,
    nodes: int,
) -> dict[tuple[str, str], Calls]:
    """{(library, way): calls of an allreduce in a step}, printed and recorded with what carried it.

    results: {library: {way: Training}}. A timeline counts calls and tensors over all of its steps,
    each of which has a tensor for each of the `layers`.
    """
    per_step = {}
    for library, trainings in results.items():
        for way, training in trainings.items():
            proof = carried(timeline.activities(training.events or []))
            allreduces = {name: counts for name, counts in proof.items() if "ALLREDUCE" in name}
            names = " ".join(allreduces)
            calls = sum(calls * layers / tensors for calls, tensors in allreduces.values())
            each = calls_of_each_step(training.events or [], layers)
            counts = f"from {min(each)} to {max(each)}" if each else "no whole step"
            print(f"{library}, {way}: {names}, {calls:.1f} calls per step, {counts}")
            per_step[library, way] = Calls(calls, min(each, default=0))
            fields = {"way": way, "calls_per_step": calls, "carried_by": names, "nodes": nodes}
            fields.update(training.where.fields())
            record.add("step", ranks=ranks, mpi=library, seconds=training.took, **fields)
    return per_step


def show_rows(journeys: Sequence[Journey]) -> None:
    """Print the row of one gradient for each of these jobs."""
    for job in journeys:
        print(f"{job.told} (gradients on {job.device}, build {job.build!r} of Horovod):")
        print("   ", " ".join(job.activities), "\n")


def ways_of_gradients(way_of: Callable, training: Training) -> Counter[str]:
    """How many of a training's gradients took which way, as `way_of` judges their rows."""
    rows = gradients(timeline.activities(training.events or []))
    return Counter(way_of(row, *device_and_build(training)) for row in rows.values())


def gradients(activities: Sequence[timeline.Activity]) -> dict[str, list[str]]:
    """{tensor: the names of its activities, in order} of the tensors that were averaged."""
    rows: dict[str, list[str]] = {}
    for activity in activities:
        rows.setdefault(activity.tensor, []).append(activity.name)
    return {tensor: names for tensor, names in rows.items() if "ALLREDUCE" in names}


def device_and_build(training: Training) -> tuple[str, str]:
    """Where a training's gradients were, and the build of Horovod that carried them.

    The build is "host" as well where the lab itself copied them to the host, as that build would
    have done.
    """
    build = "host" if training.where.by_lab else builds.current_horovod()
    return training.where.device, build


def main() -> None:
    """Ask every rank, and print on rank 0."""
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD.gather(answer(MPI.COMM_WORLD))
    if ranks:
        os.write(1, f"\n{MARK}{json.dumps(ranks)}\n".encode())


if __name__ == "__main__":
    main()
