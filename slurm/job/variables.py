"""What a job's ranks get on top of its environment: their builds, MPI's switches, the user's variables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from labkit import builds, mpis


def chosen(env: Mapping[str, str]) -> dict[str, str]:
    """What is set for the ranks of a job with the environment `env`. NotHere for a build that is not here.

    The user's own value of a variable wins: one that is in LABKIT_ENV, and one that is set already wins over
    what an MPI is told for Horovod.
    """
    own = users_own(env)
    everything = {**env, **own}
    variables = builds.variables(environ=everything)
    if not brings_its_launcher(env):
        variables = mpis.switches(env.get("LABKIT_MPI"), everything) | variables
    return variables | own


def users_own(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of `make submit ENV="A=1 B=2"`."""
    pairs = (word.partition("=") for word in shlex.split(env.get("LABKIT_ENV", "")))
    return {name: value for name, _, value in pairs}


def brings_its_launcher(env: Mapping[str, str]) -> bool:
    """Do the ranks run on another MPI than the site's, which then starts them itself?"""
    name = env.get("LABKIT_MPI_BUILD")
    return bool(name) and name != builds.own_mpi()
