"""What the site doctor's job runs: `python -m slurm.doctor.node FOLDER` on its first node.

It starts the job's ranks with the site's launcher, `python -m slurm.doctor.node FOLDER rank`, and
then looks at the node with the doctor. Every finding is a JSON file in FOLDER, which the login node
reads.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from labkit import builds, doctor, launch, mpis, paths, world
from labkit.errors import LabError

from slurm.doctor import links
from slurm.job import launcher, shape

RANKS_SECONDS = 45  # to start the ranks, exchange one message and try the link
GPU_SECONDS = 60  # more, where PyTorch is imported for NCCL
DOCTOR_SECONDS = 40
_THREAD_LEVELS = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")


def write(folder: Path, name: str, facts: dict) -> None:
    """Write FOLDER/NAME.json as a whole: a reader never sees half of it."""
    part = folder / f".{name}.{os.getpid()}"
    part.write_text(json.dumps(facts), encoding="utf-8")
    part.replace(folder / f"{name}.json")


def first_node(folder: Path) -> int:
    """Start the ranks, then look at this node. Status 0: what is wrong is said in the files."""
    write(folder, "begun", {"host": socket.gethostname(), "python": sys.executable})
    write(folder, "builds", _builds())
    write(folder, "launch", _start_ranks(folder))
    command = [sys.executable, "-m", "labkit", "doctor", "--json", "--limit", str(DOCTOR_SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        write(folder, "node", json.loads(done.stdout))
    else:
        print(done.stderr, file=sys.stderr)
    return 0


def _builds() -> dict:
    """What can be chosen on this node: {"horovod": names, "mpi": names, "gdrcopy": is the library
    there?}."""
    gdrcopy = os.environ.get("LABKIT_GDRCOPY", "")
    return {
        "horovod": list(builds.horovod_builds()),
        "mpi": list(builds.mpi_builds()),
        "gdrcopy": Path(gdrcopy).is_file(),
    }


def _start_ranks(folder: Path) -> dict:
    """How the launcher ended: {"ranks", "hosts", "status" (None: too slow), "said" (its last
    lines)}."""
    # These ranks try MPI out; whether Horovod's build is there is said apart.
    env = {name: value for name, value in os.environ.items() if name != "LABKIT_HOROVOD"}
    try:
        job = shape.read(env)
        env |= launcher.chosen(env)
        env |= launcher.environment(job, env)
        rank = [sys.executable, "-m", "slurm.doctor.node", str(folder), "rank"]
        command = launcher.command(job, rank, env, folder)
    except LabError as error:
        return {"ranks": 0, "hosts": [], "status": 1, "said": str(error), "command": ""}
    log = folder / "ranks.log"
    with log.open("w") as out:
        ended = launch.run_to_end(
            command,
            timeout=RANKS_SECONDS + (GPU_SECONDS if _devices() else 0),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return {
        "ranks": job.ranks,
        "hosts": list(job.hosts),
        "status": None if ended.cause == "timeout" else ended.status,
        "said": "\n".join(lines[-5:]),
        "command": " ".join(command),
    }


def one_rank(folder: Path) -> int:
    """Say what this rank sees; exchange its host's name with all the others; try MPI's link, and
    NCCL's."""
    facts = {"host": socket.gethostname(), "cores": world.cores(), "labkit": str(paths.root())}
    facts |= {"gpus": _gpus(), "python": sys.version.split()[0], "devices": _devices()}
    facts["infiniband"] = doctor.infiniband_ports()
    name = f"rank-{facts['host']}-{os.getpid()}"
    write(folder, name, facts)
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    facts |= mpis.loaded_library()._asdict()
    write(folder, name, facts)
    level = MPI.Init_thread(MPI.THREAD_MULTIPLE)
    levels = {getattr(MPI, f"THREAD_{word}"): word for word in _THREAD_LEVELS}
    facts["threads"] = levels[level]
    facts |= {"rank": MPI.COMM_WORLD.rank, "size": MPI.COMM_WORLD.size}
    write(folder, name, facts)
    comm = MPI.COMM_WORLD
    begin = time.perf_counter()
    hosts = comm.allgather(facts["host"])
    facts["met"] = sorted(set(hosts))
    facts["seconds"] = time.perf_counter() - begin
    write(folder, name, facts)
    if facts["devices"]:
        import torch  # noqa: F401 - the ranks' device is asked of PyTorch, where there are GPUs
    facts["mpi"] = links.by_mpi(comm, hosts)
    write(folder, name, facts)
    try:
        facts["nccl"] = links.by_nccl(comm, folder)
    except RuntimeError as error:
        facts["nccl"] = {"failed": str(error).splitlines()[0]}
    write(folder, name, facts)
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
