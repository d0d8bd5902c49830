"""The checks of lab 42."""

from __future__ import annotations

from collections import Counter

from labkit import check, expect
from labkit.horovod import timeline

from support.lab42.cases import JOBS, LIBRARIES, THREAD_LEVELS, VARIABLES
from support.lab42.commands import shortcoming
from support.lab42.timelines import JOURNEYS, TIMELINES, device_and_build, gradients, timeline_of


@check.exercise("42.1")
def check_which_mpi(which_mpi, inside):
    """Family and version of eight texts, and of the libraries here."""
    for text, tool, want in LIBRARIES:
        expect.equal(which_mpi(text, tool), want, f"Text {text.splitlines()[0]!r}, mpiname {tool[:18]!r}")
    for mpi, rank in inside.items():
        got = which_mpi(rank.text, rank.mpiname)
        expect.equal(" ".join(map(str, got)), rank.library, f"The library of {mpi or 'this job'}")


@check.exercise("42.2")
def check_granted(granted):
    """The level for thirteen settings."""
    for env, want in THREAD_LEVELS:
        setting = ", ".join(f"{name}={value}" for name, value in env.items()) or "No variable"
        expect.equal(granted(env), want, setting)


@check.exercise("42.3")
def check_variables(variables, command):
    """The variables of each flavour, and seven lines, read as their launchers read them. Further
    harmless options, such as --cpu-bind=cores, are welcome.
    """
    for flavour, want in VARIABLES.items():
        expect.equal(variables(flavour), want, f"Variables of {flavour}")
    program = ["python", "train.py", "--name=a=b"]
    for launcher, job in JOBS:
        needed = variables("mvapich2-gdr" if job.gpus else "mvapich2")
        line = command(launcher, job, needed, program)
        wrong = shortcoming(line, launcher, job, needed, program)
        expect(not wrong, f"{launcher}, {job}: {wrong}")


@check.exercise("42.4")
def check_carried(carried, activities, short_run):
    """Calls and tensors of three made up timelines, and calls of the one above."""
    for calls, want in TIMELINES:
        expect.equal(carried(timeline_of(*calls)), want, f"The timeline of {calls}")
    if short_run:
        got = {name: calls for name, (calls, tensors) in carried(activities).items()}
        expect.equal(got, timeline.backends(short_run), "Calls by name in the timeline of real ranks")


@check.exercise("42.5")
def check_way_of(way_of, libraries, results):
    """The way of eleven gradients, and of those that were trained above."""
    for journey in JOURNEYS:
        row = f"{journey.told}, {journey.device}, build {journey.build!r}: {' '.join(journey.activities[2:])}"
        got = way_of(journey.activities, journey.device, journey.build)
        expect.equal(got, journey.verdict, row, because=journey.because)
    for library in libraries.values():
        training = results[library]["fused"]
        rows = gradients(timeline.activities(training.events or []))
        got = Counter(way_of(row, *device_and_build(training)) for row in rows.values())
        expect.equal(len(got), 1 if rows else 0, f"Ways of the gradients over {library}, {got}")
