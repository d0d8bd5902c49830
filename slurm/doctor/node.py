"""What the site doctor's job runs: `python -m slurm.doctor.node FOLDER` on its first node.

It starts the job's ranks with the site's launcher, `python -m slurm.doctor.node FOLDER rank`, and then looks
at the node with the doctor. Every finding is a JSON file in FOLDER, which the login node reads.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from labkit import doctor, paths, world
from labkit.errors import LabError

from slurm import job

RANKS_SECONDS = 45  # to start the ranks and exchange one message
DOCTOR_SECONDS = 40


def write(folder: Path, name: str, found: dict) -> None:
    """Write FOLDER/NAME.json as a whole: a reader never sees half of it."""
    part = folder / f".{name}.{os.getpid()}"
    part.write_text(json.dumps(found), encoding="utf-8")
    part.replace(folder / f"{name}.json")


def first_node(folder: Path) -> int:
    """Start the ranks, then look at this node. Status 0: what is wrong is said in the files."""
    write(folder, "begun", {"host": socket.gethostname(), "python": sys.executable})
    write(folder, "launch", _start_ranks(folder))
    command = [sys.executable, "-m", "labkit", "doctor", "--json", "--limit", str(DOCTOR_SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        write(folder, "node", json.loads(done.stdout))
    else:
        print(done.stderr, file=sys.stderr)
    return 0


def _start_ranks(folder: Path) -> dict:
    """How the launcher ended: {"ranks", "hosts", "status" (None: too slow), "said" (its last lines)}."""
    env = dict(os.environ)
    try:
        shape = job.read(env)
        rank = [sys.executable, "-m", "slurm.doctor.node", str(folder), "rank"]
        command = job.command(shape, rank, env, folder)
    except LabError as error:
        return {"ranks": 0, "hosts": [], "status": 1, "said": str(error), "command": ""}
    found = {"ranks": shape.ranks, "hosts": list(shape.hosts), "command": " ".join(command)}
    log = folder / "ranks.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            status = process.wait(RANKS_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # the launcher then ends its ranks; the job's own end takes care of the rest
            status = None
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return {**found, "status": status, "said": "\n".join(lines[-5:])}


def one_rank(folder: Path) -> int:
    """Say what this rank sees; then exchange its host's name with all the others."""
    found = {"host": socket.gethostname(), "cores": world.cores(), "labkit": str(paths.root())}
    found |= {"gpus": _gpus(), "python": sys.version.split()[0], "devices": _devices()}
    network = doctor.empty()
    doctor.network(network)
    found["infiniband"] = network["network"]["infiniband"]
    name = f"rank-{found['host']}-{os.getpid()}"
    write(folder, name, found)
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    text = MPI.Get_library_version()
    family, version = doctor.identify(text, doctor.tool("mpiname", "-a") or "")
    found |= {"family": family, "version": version, "banner": doctor.banner(text)}
    found["files"] = doctor.loaded_mpi()
    write(folder, name, found)
    level = MPI.Init_thread(MPI.THREAD_MULTIPLE)
    names = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    found["threads"] = next(one for one in names if getattr(MPI, f"THREAD_{one}") == level)
    found |= {"rank": MPI.COMM_WORLD.rank, "size": MPI.COMM_WORLD.size}
    write(folder, name, found)
    begin = time.perf_counter()
    found["met"] = sorted(set(MPI.COMM_WORLD.allgather(found["host"])))
    found["seconds"] = time.perf_counter() - begin
    write(folder, name, found)
    MPI.Finalize()
    return 0


def _gpus() -> int:
    """GPUs that Slurm gives on this node, by the variables it sets."""
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"):
        value = os.environ.get(name, "")
        if name == "SLURM_GPUS_ON_NODE" and value.isdecimal():
            return int(value)
        if value:
            return len(value.split(","))
    return 0


def _devices() -> int:
    """GPUs with a device file: NVIDIA's, or AMD's render nodes where AMD's compute driver is."""
    dev = Path("/dev")
    nvidia = [path for path in dev.glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal()]
    amd = dev.glob("dri/renderD*") if (dev / "kfd").exists() else ()
    return len(nvidia) or len(list(amd))


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.exit(one_rank(place) if sys.argv[2:] == ["rank"] else first_node(place))
