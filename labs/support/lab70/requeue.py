"""A training as a job of the tabletop cluster that is preempted, requeued, or out of time, and resumed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit import paths, world
from labkit.cluster import slurm
from labkit.errors import LabError

from support.lab70 import lives, order

PAUSE = 0.5  # seconds that a step takes longer, in lives that will be interrupted
LONG_PAUSE = 1.5  # the same, in a life that will be out of time
MINUTES = 2  # the time limit of that life: the least with which the signal comes after the first steps
ENOUGH = "TimeLimit=10"  # minutes, for the life after it
URGENT = "urgent"  # the partition that preempts
# Not at once: a job's credential counts whole seconds. In the second in which the job was ended slurmd takes
# it for the old one ("already killed, do not launch batch job"), and the job fails.
SOON = "StartTime=now+2"
_OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
SCRIPT = """\
#!/usr/bin/env bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=00:10:00
# USR1 about 60 s before the end, or when preempted. A step and a save have to fit into that time.
#SBATCH --signal=B:USR1@60  # B: to this shell alone, so the trap below passes it on
#SBATCH --requeue           # Slurm may put this job back into the queue, and start it again
#SBATCH --open-mode=append  # each start writes on in the same output file
trap 'asked=1; kill -USR1 $ranks' USR1  # to srun, which passes it on to all ranks
# srun in the background (&): a shell acts on a signal only when no command runs in the foreground
{launcher} {python} -m support.lab70.job {folder} &
ranks=$!
wait $ranks   # until the ranks end, or USR1 comes: it ends this wait
if [[ ${{asked:-}} ]]; then
    wait $ranks                      # so wait again, until they have saved and ended
    scontrol requeue $SLURM_JOB_ID   # this job, from the beginning of this script
fi
"""


def script(folder: Path | str = "FOLDER") -> str:
    """The batch script."""
    return SCRIPT.format(
        launcher="srun --mpi=pmi2", python=shlex.quote(paths.shown(sys.executable)), folder=folder
    )


def three_lives(
    answers: lives.Answers, last: int, every: int, moments: tuple[int, int], limit: float = 300
) -> tuple[list[lives.Loss], list[str]] | None:
    """Submit the training and interrupt it twice: preempted once, requeued without a warning once.

    moments: after how many steps. limit: seconds for each thing that is waited for. Prints what happens.
    Returns the losses of all lives, and those without a break from the same nodes. None inside of a job, and
    where there is no tabletop: no other cluster's jobs are disturbed. LabError when the job fails.
    """
    wanted = order.Order(answers, last, every, PAUSE, len(moments))
    return _tell(wanted, lambda story: _interrupt(story, moments), limit)


def out_of_time(
    answers: lives.Answers, last: int, every: int, limit: float = 300
) -> tuple[list[lives.Loss], list[str]] | None:
    """Submit the training with a time limit that its first life does not keep, and leave the rest to Slurm.

    `last` steps have to take longer than a minute with LONG_PAUSE seconds each: by then the signal has come.
    limit, and what is printed, returned and raised: as in three_lives.
    """
    return _tell(order.Order(answers, last, every, LONG_PAUSE, 1), _outlast, limit, f"--time={MINUTES}")


def _tell(
    wanted: order.Order, story_of: Callable[[_Story], None], limit: float, *options: str
) -> tuple[list[lives.Loss], list[str]] | None:
    """Submit the job with these options of sbatch and go through its story; returns as three_lives."""
    if world.launcher() is not None:
        return None
    if slurm.tabletop() is None:
        print("No tabletop cluster runs here: `make tabletop` starts one. Then run this cell again.")
        return None
    folder = slurm.learners_home() / "70_job"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    order.leave(wanted, folder)
    (folder / "job.sh").write_text(sourcing(script(shlex.quote(str(folder)))), encoding="utf-8")
    client = slurm.at("tabletop", _environment())
    named = ["--job-name=70_resume", f"--output={folder}/job.out"]
    number = client.submit(*named, *options, str(folder / "job.sh"))
    try:
        story_of(_Story(client, number, folder, limit))
    finally:
        client.ask("scancel", number)
    whole = json.loads((folder / order.WHOLE).read_text(encoding="utf-8"))
    return lives.read(folder), whole


def _interrupt(story: _Story, moments: tuple[int, int]) -> None:
    """What happens to the job of three_lives, in order."""
    client = story.client
    number = story.number
    story.say(f"job {number} is submitted")
    story.wait_for_step(0, moments[0])
    story.say(f"{story.steps()} steps are done. An urgent job comes, and wants both nodes")
    with _urgent_partition(client):
        wants = ["--nodes=2", "--ntasks-per-node=1", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"]
        urgent = client.submit(f"--partition={URGENT}", *wants)
        story.wait_until(lambda: client.job(urgent)["JobState"] in _OVER, "the urgent job to end")
        story.start_again(1)
    story.wait_for_step(1, moments[1])
    story.say(f"{story.steps()} steps are done. `scontrol requeue {number}`, without a warning")
    client.call("scontrol", "requeue", number)
    story.start_again(2)
    story.finish()


def _outlast(story: _Story) -> None:
    """What happens to the job of out_of_time, in order."""
    story.say(f"job {story.number} is submitted, with a limit of {MINUTES} minutes")
    story.wait_for_step(0, 1)
    story.say("the first step is done. Nobody interrupts the job: the signal will come from Slurm")
    story.start_again(1, ENOUGH)
    story.finish()


class _Story:
    """A job under way: what is waited for, and what is told."""

    def __init__(self, client: slurm.Client, number: str, folder: Path, limit: float):
        self.client = client
        self.number = number
        self.folder = folder
        self.limit = limit
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """A line with the seconds since the beginning."""
        print(f"{time.monotonic() - self.began:5.1f} s  {text}", flush=True)

    def facts(self) -> dict[str, str]:
        """What Slurm says of the job."""
        return self.client.job(self.number)

    def steps(self) -> int:
        """Steps done by now."""
        return max((loss.step for loss in lives.read(self.folder)), default=0)

    def output(self) -> str:
        """What the job has printed."""
        path = self.folder / "job.out"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait_until(self, question: Callable[[], bool], what: str) -> None:
        """Ask until the answer is yes. LabError after `limit` seconds."""
        deadline = time.monotonic() + self.limit
        while not question():
            if time.monotonic() > deadline:
                raise LabError(f"Waited {self.limit:g} s for {what} in vain.\n{self.output()[-1000:]}")
            time.sleep(0.1)

    def wait_for_step(self, life: int, step: int) -> None:
        """Until this life has done that step. LabError when the job ends before."""

        def there() -> bool:
            losses = lives.read(self.folder)
            if any(loss.life == life and loss.step >= step for loss in losses):
                return True
            if self.facts()["JobState"] in _OVER:
                raise LabError(f"Job {self.number} ended too early:\n{self.output()[-1000:]}")
            return False

        self.wait_until(there, f"step {step} of life {life}")

    def start_again(self, restarts: int, *changes: str) -> None:
        """Once the job is back in the queue: let it start soon, with these changes of what Slurm keeps."""

        def queued() -> bool:
            facts = self.facts()
            if facts["JobState"] in _OVER:
                raise LabError(f"Job {self.number} ended before it was interrupted:\n{self.output()[-1000:]}")
            return facts["JobState"] == "PENDING" and int(facts["Restarts"]) >= restarts

        self.wait_until(queued, "the job to be back in the queue")
        wanted = [SOON, *changes]
        self.say(
            f"{self.steps()} steps are done, job {self.number} is back in the queue. Slurm would wait two "
            f"minutes; we say {' '.join(wanted)}"
        )
        self.client.call("scontrol", "update", f"JobId={self.number}", *wanted)

    def finish(self) -> None:
        """Until the job has ended. LabError when it has not completed."""
        self.wait_until(lambda: self.facts()["JobState"] in _OVER, "the job to end")
        state = self.facts()["JobState"]
        if state != "COMPLETED":
            raise LabError(f"Job {self.number} is {state}. Its last lines:\n{self.output()[-1000:]}")
        self.say(f"job {self.number} has completed, {self.steps()} steps are done")


@contextmanager
def _urgent_partition(client: slurm.Client) -> Iterator[None]:
    """A partition whose jobs preempt those of the others; gone at the end."""
    if URGENT not in [partition.name for partition in client.partitions()]:
        settings = ["Nodes=ALL", "PriorityTier=10", "PreemptMode=OFF"]
        client.call("scontrol", "create", f"PartitionName={URGENT}", *settings)
    try:
        yield
    finally:
        client.ask("scontrol", "delete", f"PartitionName={URGENT}")


def sourcing(text: str) -> str:
    """The script with what a job of this kit needs before it starts ranks: the site's settings."""
    root = shlex.quote(str(paths.root()))
    lines = f"cd {root}\nsource slurm/sites/tabletop.sh\nexport PYTHONPATH=labs OMP_NUM_THREADS=1\n"
    return text.replace("\ntrap ", f"\n{lines}trap ", 1)


def _environment() -> dict[str, str]:
    """For sbatch: this process's, without what a launcher or a notebook's kernel has left there."""
    env = world.clean(os.environ)
    return {name: value for name, value in env.items() if name not in ("MPLBACKEND", "PYTHONPATH")}
