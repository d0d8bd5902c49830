"""What a batch job is asked for, checked before Slurm hears of it: a mistake costs no time in the
queue."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from labkit import builds, copies, labfile, paths, world
from labkit import lab as this_lab
from labkit.cluster import job as cluster_job
from labkit.cluster import sites, slurm
from labkit.cluster.job import Job
from labkit.errors import LabError, counted

# What a notebook's kernel and make leave in the environment; a job is neither.
_NOT_FOR_JOBS = (
    "JPY_SESSION_NAME", "JPY_PARENT_PID", "FORCE_COLOR", "CLICOLOR_FORCE", "MAKEFLAGS", "MFLAGS",
    "MAKELEVEL",
    "SOLVED", "SET", "ENV", "HOROVOD", "MPI", "SBATCH_EXPORT",
)  # fmt: skip
# Variables that are no business of ENV: begin of the name -> what sets them.
_NOT_BY_ENV = {
    "LABKIT_HOROVOD": "HOROVOD=… chooses the build of Horovod",
    "LABKIT_MPI_BUILD": "MPI=… chooses the build of MPI",
    "LABKIT_": "the kit itself sets it",
    "SLURM_": "Slurm itself sets it",
    "SBATCH_": "set it in your shell, where sbatch reads it",
}
# How a client finds its Slurm. The rest of SLURM_* is of the job in which this process may run
# itself.
_FOR_CLIENTS = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")


@dataclass(frozen=True)
class Request:
    """A lab's batch script with all that does not change with the number of nodes."""

    stem: str
    site: str
    client: slurm.Client
    options: tuple[str, ...]
    choices: Mapping[str, object]  # settings, solved, env, horovod, mpi: as a Job has them

    @classmethod
    def checked(
        cls,
        lab: str | int,
        nodes: Sequence[int],
        ranks_per_node: int | None = None,
        site: str | None = None,
        settings: Mapping[str, object] | None = None,
        solved: bool | None = None,
        env: Mapping[str, str] | None = None,
        horovod: str | None = None,
        mpi: str | None = None,
    ) -> Request:
        """Refuse in a sentence what cannot be, for each of these numbers of nodes; see `submit`."""
        stem, choices = asked(lab, nodes, ranks_per_node, settings, solved, env, horovod, mpi)
        site = site or sites.here()
        if site is None:
            _no_site()
        known = sites.load(site)
        env = environment(os.environ, known, site, choices)
        builds.variables(environ=env)  # NotHere for a build that the nodes will not find either
        client = slurm.at(site)
        options = shlex.split(known.get("LABKIT_SBATCH_OPTIONS", ""))
        _check_nodes(max(nodes), known, options, client)
        ranks_per_node = ranks_per_node or sites.ranks_per_node(known)
        if ranks_per_node is not None:
            options.append(f"--ntasks-per-node={ranks_per_node}")
        return cls(stem, site, slurm.Client(client.folder, env), tuple(options), choices)

    def send(self, nodes: int, study: str | None = None) -> Job:
        """Submit it for so many nodes and write the job down. LabError with Slurm's words if it
        refuses, and where the job cannot be written down, which is then cancelled."""
        home = paths.home().resolve()
        learners = slurm.learners_home()
        (home / "jobs").mkdir(exist_ok=True)
        # With the time: a cluster that starts afresh numbers its jobs afresh, and nothing is
        # overwritten.
        name = f"{self.stem}-%j-{datetime.now():%Y%m%d-%H%M%S}.out"
        pattern = f"{str(home / 'jobs').replace('%', '%%')}/{name}"
        named = [f"--nodes={nodes}", f"--job-name={self.stem}", f"--output={pattern}"]
        submitted = cluster_job.now()
        folder = self.client.folder
        # Its records name this time: another cluster at this site may have a job of the same
        # number.
        client = slurm.Client(folder, {**self.client.env, "LABKIT_SUBMITTED": submitted})
        # No Ctrl-C between Slurm's taking the job and its being written down.
        with _interrupts_held():
            number = client.submit(
                "--export=ALL", *self.options, *named, f"slurm/{self.stem}.sbatch"
            )
            job = Job(
                number=number,
                lab=self.stem,
                site=self.site,
                nodes=nodes,
                ranks=None,
                submitted=submitted,
                file=str(home / "jobs" / name.replace("%j", number)),
                home=str(learners / "solved" if self.choices["solved"] else learners),
                study=study,
                commands=str(folder) if folder else None,
                **self.choices,
            )
            try:
                with suppress(LabError):  # Slurm has the job, whatever it can say of it now
                    job.ranks = job.status().ranks
            finally:
                _write_down(job)
        return job


def _write_down(job: Job) -> None:
    """Write a job down that Slurm took; LabError where that cannot be, and the job is cancelled."""
    try:
        cluster_job.remember(job)
    except LabError as error:
        job.client.ask("scancel", job.number)
        raise LabError(
            f"Slurm took the job as number {job.number}, but `make results` would never find it,"
            f" so `scancel {job.number}` was run. {error}"
        ) from error


def asked(
    lab: str | int,
    nodes: Sequence[int],
    ranks_per_node: int | None = None,
    settings: Mapping[str, object] | None = None,
    solved: bool | None = None,
    env: Mapping[str, str] | None = None,
    horovod: str | None = None,
    mpi: str | None = None,
) -> tuple[str, dict[str, object]]:
    """(stem of the lab, choices as a Request has them). LabError, a sentence, for what can be at no
    site."""
    stem = labfile.find(lab)
    if not (paths.root() / "slurm" / f"{stem}.sbatch").exists():
        raise LabError(f"Lab {stem} runs on one rank and has no batch job: make run LAB={stem[:2]}")
    if min(nodes) < 1 or (ranks_per_node is not None and ranks_per_node < 1):
        raise LabError("A job has 1 node or more (NODES=2), and 1 rank or more on each (RANKS=4).")
    choices = {
        "settings": dict(settings or {}),
        "solved": this_lab.solved() if solved is None else solved,
        "env": dict(env or {}),
        "horovod": horovod,
        "mpi": mpi,
    }
    _check_settings(stem, choices["settings"], choices["solved"])
    _check_variables(choices["env"])
    return stem, choices


def read_variable(text: str) -> tuple[str, str]:
    """(name, value) of "NCCL_DEBUG=INFO". LabError for what is no such pair."""
    name, equals, value = text.partition("=")
    if not equals:
        raise LabError(
            f'A variable is set as NAME=VALUE, such as ENV="NCCL_DEBUG=INFO"; {text!r} is not.'
        )
    return name, value


def _check_settings(stem: str, settings: Mapping[str, object], solved: bool) -> None:
    """LabError that names the lab's parameters for an unknown one."""
    path = copies.script(stem, solved)
    if settings:
        labfile.with_parameters(path.read_text(encoding="utf-8"), settings)


def _value_text(value: object) -> str:
    """A word stands for itself; a word that looks like a number or a truth value, and all else,
    as Python writes it."""
    if not isinstance(value, str):
        return repr(value)
    return value if labfile.read_setting(f"name={value}") == ("name", value) else repr(value)


def _check_variables(env: Mapping[str, str]) -> None:
    """LabError for a variable that cannot be set, or that something else sets."""
    for name, value in env.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise LabError(
                f"{name!r} is no name of a variable: letters, digits and _, as in NCCL_DEBUG=INFO."
            )
        if not isinstance(value, str) or not value.isprintable():
            raise LabError(
                f"The value of a variable is text in one line, which {name}={value!r} is not."
            )
        for begin, cure in _NOT_BY_ENV.items():
            if name.startswith(begin):
                raise LabError(f"{name} is not for ENV: {cure}.")
        if world.is_secret(name):
            raise LabError(
                f"{name} looks like a secret, and all users of a node can read a launcher's command"
                " line: keep it in a file that only you can read."
            )


def environment(
    own: Mapping[str, str], known: Mapping[str, str], site: str, choices: Mapping
) -> dict[str, str]:
    """The environment of sbatch, and so of the job: the user's own, the site's, and what launch.sh
    reads, such as SET: "steps=5 sizes='[1, 2]'"."""
    kept = {name: own[name] for name in _FOR_CLIENTS if name in own}
    env = world.clean(sites.without_other_site(site, own))
    env = {name: value for name, value in env.items() if name not in _NOT_FOR_JOBS}
    if env.get("MPLBACKEND", "").startswith("module:"):  # a notebook's; in a job there is none
        del env["MPLBACKEND"]
    env = {name: value for name, value in env.items() if value or not name.startswith("SBATCH_")}
    env.pop("LABKIT_ENV", None)  # of a job in which this process runs itself
    wishes = {"LABKIT_HOROVOD": choices["horovod"], "LABKIT_MPI_BUILD": choices["mpi"]}
    # The user's own choice wins over the site file's, whichever way that was written.
    wishes = {name: wish or env.get(name) for name, wish in wishes.items()}
    env |= {**kept, **known, "SITE": site, "LABKIT_HOME": str(slurm.learners_home())}
    env |= {name: wish for name, wish in wishes.items() if wish}
    settings = {name: _value_text(value) for name, value in choices["settings"].items()}
    for name, values in (("SET", settings), ("LABKIT_ENV", choices["env"])):
        if values:
            env[name] = shlex.join(f"{key}={value}" for key, value in values.items())
    if choices["solved"]:
        env["SOLVED"] = "1"
    return env


def _no_site() -> None:
    """Nobody said which site this is: is there a Slurm at all?"""
    slurm.at(None).partitions()  # NotHere says how to come by one
    names = ", ".join(sites.names()) or "none"
    raise LabError(
        f"Say which site this is: SITE=name. These are known: {names}. `make site NAME=x` writes"
        " one."
    )


def _check_nodes(
    nodes: int, known: Mapping[str, str], options: Sequence[str], client: slurm.Client
) -> None:
    """LabError for too many nodes: Slurm itself lets such a job wait for ever."""
    partitions = client.partitions()
    names = partition_names(known, options)
    if names:
        fitting = [partition for partition in partitions if partition.name in names]
    else:
        fitting = [partition for partition in partitions if partition.default] or partitions[:1]
    if not fitting:
        return  # a partition that sinfo does not show: sbatch knows more
    widest = max(fitting, key=lambda partition: partition.largest)
    if nodes > widest.largest:
        more = ""
        if client.folder is not None:  # a tabletop
            more = " `make tabletop-down`, then `make tabletop NODES=…` starts a larger one."
        count = counted(widest.largest, "node")
        raise LabError(
            f"A job in partition {widest.name} can have {count}, so NODES={nodes} will not"
            f" start.{more}"
        )


def partition_names(known: Mapping[str, str], options: Sequence[str]) -> list[str]:
    """The partitions that a job will ask for; [] for the default one."""
    match = re.search(r"(?:^|\0)(?:--partition(?:=|\0)|-p\0?)([^\0]+)", "\0".join(options))
    named = (
        match[1]
        if match
        else known.get("SBATCH_PARTITION") or os.environ.get("SBATCH_PARTITION", "")
    )
    return [name for name in named.split(",") if name]


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the end of this block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
