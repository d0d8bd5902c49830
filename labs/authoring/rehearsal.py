"""`make rehearse SITE=x`: the jobs of the track "PPoPP hands-on" on the cluster itself, before a
class does.

Each lab of the track runs solved, with the tests' small parameters; lab 46 once with each build of
Horovod. What a job's records say of its tensors is compared with what the site file says of the
nodes' GPUs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from labkit import builds, cluster, labfile, paths
from labkit.errors import LabError, counted, exit_status

from authoring import wrong_answers

TRACK = ("40", "41", "42", "43", "46")
PATIENCE = 1800.0  # seconds for each job, the time in the queue included


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Status 1 where something is not ready."""
    parser = argparse.ArgumentParser(prog="make rehearse")
    parser.add_argument("--site", help="a file of slurm/sites/")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--labs", default=",".join(TRACK), help="numbers, such as 40,42")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for each job")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _rehearse(options))


def _rehearse(options: argparse.Namespace) -> int:
    site = options.site or cluster.here()
    if site is None:
        raise LabError(
            "Say which site this is: SITE=name. `make tabletop` starts a cluster on this machine."
        )
    gpus = cluster.sites.gpus_per_node(cluster.sites.load(site))
    jobs = submit(options.labs.split(","), site, options.nodes)
    not_ready = 0
    for job in jobs:
        try:
            problems = judge(job, gpus, options.patience)
        except cluster.StoppedWaiting:
            raise LabError(f"The rehearsal was stopped. {cancelled(jobs)}") from None
        not_ready += bool(problems)
        said = "; ".join(problems) or what_was_seen(job)
        print(f"{'✗' if problems else '✓'} {_title(job)}: {said}", flush=True)
    print(f"{len(jobs) - not_ready} of {counted(len(jobs), 'job')} ready on {site}.")
    return 1 if not_ready else 0


def submit(labs: Sequence[str], site: str, nodes: int) -> list:
    """Submit the track's jobs, all of them or none.

    LabError for an unknown lab or site, and with Slurm's words if it refuses a job; the jobs that
    it took before are cancelled then.
    """
    jobs = []
    try:
        for number, horovod, small in list(_wanted(labs)):
            job = cluster.submit(
                number, nodes, site=site, settings=small, solved=True, horovod=horovod
            )
            jobs.append(job)
    except LabError as error:
        if not jobs:
            raise
        raise LabError(f"{error} {cancelled(jobs)}") from None
    except KeyboardInterrupt:
        print(cancelled(jobs), file=sys.stderr)
        raise
    return jobs


def _wanted(labs: Sequence[str]) -> Iterator[tuple[str, str | None, dict]]:
    """(lab, build of Horovod, parameters) of each job."""
    there = list(builds.horovod_builds())
    builds_of = {"46": there, "43": [name for name in there if name == "nccl"]}
    for number in labs:
        small = wrong_answers.read(paths.root(), labfile.find(number))["SMALL"]
        for horovod in builds_of.get(number) or [None]:
            yield number, horovod, small


def cancelled(jobs: Sequence) -> str:
    """Cancel those of the jobs that have not ended; a sentence that says which."""
    gone, left = [], []
    for job in jobs:
        try:
            if not job.status().ended:
                job.cancel()
                gone.append(job.number)
        except LabError:
            left.append(job.number)
    if left:
        numbers = ", ".join(left)
        return f"These jobs of the rehearsal could not be cancelled: {numbers} (`scancel`)."
    if not gone:
        return "No job of the rehearsal is left in the queue."
    return f"The rehearsal cancelled its jobs ({', '.join(gone)}); none is left in the queue."


def judge(job, gpus: int, patience: float) -> list[str]:
    """Sentences on what is wrong with a job; [] where it is ready. gpus: of a node, by the site
    file. StoppedWaiting at Ctrl-C."""
    try:
        job.wait(patience)
    except cluster.StoppedWaiting:
        raise
    except LabError as error:
        return [str(error).splitlines()[0]]
    if not job.status().ended:
        job.cancel()
        return [f"it has not ended within {patience:.0f} s, and was cancelled ({job.state()})"]
    problems = []
    for entry in _placed(job):
        device, library = entry["device"], entry.get("library")
        if gpus and device == "cpu":
            problems.append(
                "its tensors were in host memory, although the site file says that nodes have GPUs"
            )
        if job.horovod == "nccl" and library != "NCCL":
            problems.append(f"{library} performed the allreduce, not NCCL")
        if job.horovod == "mpi" and entry.get("staged") not in (None, "no"):
            problems.append("its tensors were staged through the host, so MPI took no GPU memory")
    return list(dict.fromkeys(problems))


def what_was_seen(job) -> str:
    """Where its tensors were, and which library performed the allreduce, by its records."""
    seen = []
    for entry in _placed(job):
        by = f", {entry['library']}" if entry.get("library") else ""
        seen.append(f"tensors on {entry['device']}{by}")
    return "; ".join(dict.fromkeys(seen)) or "every check passed"


def _placed(job) -> list[dict]:
    return [entry for entry in job.entries() if "device" in entry]


def _title(job) -> str:
    build = f", Horovod's build {job.horovod}" if job.horovod else ""
    return f"{job.lab}{build} (job {job.number})"


if __name__ == "__main__":
    sys.exit(main())
