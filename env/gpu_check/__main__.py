"""`make gpu-check`: see that there is a GPU, and an environment; then authoring.gpu_check runs in it.

`python -m env.gpu_check [--bundle FOLDER] [--device cpu] …`: what it does not know is handed on. With a
bundle nothing is fetched. Without one the set-up is asked for Horovod's build with NCCL, unless another wish
was kept.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from env.gpu_check import place
from env.install import environment
from env.install.environment import ROOT
from env.install.steps import StepFailed

NO_GPU = "There is no NVIDIA GPU here (its driver shows none), and gpu-check is about GPUs: nothing was done."
PATIENCE = 20.0  # seconds that the compilation gets to end when it is told to


def gpus() -> int:
    """GPUs that the NVIDIA driver shows; 0 where there is no driver."""
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    return 0 if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) else count.value


def set_up(rehearsal: bool) -> Path:
    """The environment of `make setup`, with NCCL if no wish is kept; its Python. Raises StepFailed.

    For a rehearsal as it is.
    """
    venv = ROOT / ".venv"
    env = dict(os.environ)
    if not rehearsal:
        kept = environment.kept(venv).get("GPU_OPERATIONS")
        env["GPU_OPERATIONS"] = env.get("GPU_OPERATIONS") or kept or "NCCL"
    if subprocess.run([sys.executable, ROOT / "env" / "setup.py"], env=env, check=False).returncode:
        raise StepFailed("the set-up did not come to its end", "Its last lines above say why.")
    return venv / "bin" / "python"


def start_compilation(python: Path, note: Path) -> subprocess.Popen | None:
    """Compile Horovod beside what follows; None where it is there already."""
    listed = python.parents[1] / "horovod-builds.json"
    if note.exists() and listed.exists() and json.loads(note.read_text(encoding="utf-8"))["state"] == "done":
        return None
    note.write_text(json.dumps({"state": "compiling", "builds": {}, "sentence": ""}) + "\n", encoding="utf-8")
    log = note.with_suffix(".log")
    with log.open("w", encoding="utf-8") as sink:
        return subprocess.Popen(
            [python, "-m", "env.gpu_check.compile", python.parents[1], note],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process, which ends it
        )


def end(process: subprocess.Popen | None) -> None:
    """End the compilation, if it still runs, with all that it started.

    Its steps are sessions of their own, and end with it.
    """
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def check(python: Path, arguments: list[str]) -> int:
    """Run the check; its exit status."""
    env = dict(os.environ)
    env.pop("PYTHONPATH", None)
    # As in an activated environment: labs look for mpiexec, and tests for Python, in the path.
    env["PATH"] = f"{python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    process = subprocess.Popen([python, "-m", "authoring.gpu_check", *arguments], cwd=ROOT, env=env)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # it has got it, too, and ends what it has started
            continue


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    begun = time.time()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="env.gpu_check", description=__doc__)
    parser.add_argument("--bundle", type=Path, help="the folder that `make gpu-bundle` wrote")
    parser.add_argument("--device", default="cuda", help="cpu: a rehearsal without a GPU")
    options, rest = parser.parse_known_args(arguments)
    if options.device != "cpu" and not gpus():
        print(NO_GPU, file=sys.stderr)
        return 1
    compilation = None
    try:
        handed = ["--device", options.device, "--begun", str(begun), *rest]
        if options.bundle:
            python = place.provide(options.bundle.absolute())
            note = python.parents[1] / "horovod.json"
            compilation = start_compilation(python, note)
            handed += ["--horovod", str(note)]
        else:
            python = set_up(rehearsal=options.device == "cpu")
            handed[3] = str(time.time())  # the set-up is not part of the ten minutes
        return check(python, handed)
    except StepFailed as error:
        print(f"\ngpu-check: {error.message}", file=sys.stderr)
        if error.cure:
            print(f"  cure: {error.cure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ngpu-check: interrupted", file=sys.stderr)
        return 130
    finally:
        end(compilation)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
