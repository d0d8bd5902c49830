"""What a batch script does on the first node of its job: `python -m slurm.job NN_name`.

slurm/launch.sh has read the site file and loaded its modules by then. This looks at the
environment, prints where the ranks will be, starts them with the site's launcher, and ends as they
end. The last lines of what a failed job prints say which rank failed first, and why; its status is
not zero.

From the environment: SITE; SOLVED=1 runs the solved lab, with records of its own; SET="epochs=1
steps=2" changes parameters; LABKIT_ENV="A=1 B=2" sets variables of the ranks; LABKIT_HOROVOD and
LABKIT_MPI_BUILD choose builds; LABKIT_LAUNCHER, LABKIT_MPI, LABKIT_GPU_FORM and LABKIT_GDRCOPY come
from the site file.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit import copies, labfile, launch, paths, world
from labkit.errors import exit_status

from slurm.job import launcher, outcome
from slurm.job import shape as job_shape
from slurm.job.header import header

# Seconds the launcher gets to end its ranks; Slurm itself kills after KillWait, 30 s by default.
PATIENCE = 15.0


def run(lab: str) -> int:
    """Run the ranks of one lab in this job. The status with which the job ends; a LabError is for
    the caller to show."""
    began = time.monotonic()
    stem = labfile.find(lab)
    # Here as well: what is asked here is what ranks have.
    os.environ.update(launcher.chosen(os.environ))
    env = world.without_secrets(os.environ)
    shape = job_shape.read(env)
    solved = env.get("SOLVED", "0") not in ("", "0")
    if solved:
        env |= {"LABKIT_HOME": str(paths.home() / "solved"), "LABKIT_SOLVED": "1"}
        Path(env["LABKIT_HOME"]).mkdir(exist_ok=True)
    env |= dict.fromkeys(launch.THREAD_VARIABLES, str(shape.threads)) | env
    env |= launcher.environment(shape, env)
    settings = shlex.split(env.get("SET", ""))
    values = dict(labfile.read_setting(text) for text in settings)
    path = copies.script(stem, solved)
    newer = None if solved else copies.sync(stem, paths.root())
    _say(header(stem, shape, env, solved, settings), newer)
    with (
        copies.with_parameters(path, values) as script,
        # For the ranks' notes: a folder that every node sees.
        tempfile.TemporaryDirectory(
            dir=paths.home(),
            prefix=f"job-{shape.number}-",
            ignore_cleanup_errors=True,  # NFS keeps a name for a file that a rank has still open
        ) as folder,
    ):
        env["LABKIT_NOTES"] = folder
        command = launcher.command(shape, [sys.executable, str(script)], env, Path(folder))
        typed = shlex.join(command).replace(f"{paths.root()}{os.sep}", "")
        _say(f"Looked at in {time.monotonic() - began:.1f} s. Now: {typed}", "")
        return _follow(command, env, shape, Path(folder), stem)


def _say(*lines: str | None) -> None:
    print(*(line for line in lines if line is not None), sep="\n", flush=True)


def _follow(command: list[str], env: dict, shape: job_shape.Shape, folder: Path, stem: str) -> int:
    """Start the ranks and wait for them. The last lines say what went wrong, if something did."""
    began = time.monotonic()
    listener = outcome.Listener()

    def hear(line: bytes) -> None:
        """Pass on what ranks and launcher write on stderr; hear what the launcher says of them."""
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
        listener.hear(line.decode(errors="replace").rstrip(), time.time())

    ended = launch.run_to_end(
        command, patience=PATIENCE, hear=hear, env=env, cwd=paths.root(), stdin=subprocess.DEVNULL
    )
    code = ended.status
    if ended.cause:
        code = code or 128 + signal.SIGTERM
        failure = outcome.ended_by_slurm(shape.number, folder, listener)
    else:
        failure = outcome.first_failure(folder, listener)
        if failure:
            # srun gives the highest status, most often that of the ranks it ended; a launcher may
            # lose it.
            code = listener.status() or code or 1
    seconds = time.monotonic() - began
    if code:
        failure = failure or "No rank left a message, nor does the launcher name one; see above."
        _say("", f"Lab {stem} failed after {seconds:.0f} s, exit status {code}.", failure)
        return code
    hosts = outcome.hosts(folder)
    where = " and ".join(sorted(set(hosts))) or "?"
    _say("", f"Lab {stem}: {shape.ranks} ranks on {where} ended well after {seconds:.0f} s.")
    if len(hosts) < shape.ranks:
        _say(
            f"Only {len(hosts)} of them were seen here: {folder.parent} must be a folder of all"
            " nodes."
        )
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(sys.argv[1])))
