"""What the site doctor's job runs: `python -m slurm.doctor.node FOLDER` on its first node.

It starts the job's ranks with the site's launcher, `python -m slurm.doctor.node FOLDER rank`, and
then looks at the node with labkit's doctor. FOLDER takes a JSON file of the node and one of each
rank, which the login node reads. They grow: whoever hangs has said what it found before.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from labkit import builds, doctor, launch, mpis, world
from labkit.cluster import sites
from labkit.errors import LabError

from slurm.doctor import links
from slurm.job import launcher, shape

RANKS_SECONDS = 45  # to start the ranks, exchange one message and try the link
GPU_SECONDS = 60  # more, where PyTorch is imported for its GPUs and NCCL
DOCTOR_SECONDS = 40
_THREAD_LEVELS = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")


def write(file: Path, found: Iterable[dict]) -> None:
    """Write the facts after each further finding, and the file as a whole: a reader never sees half
    of it."""
    facts: dict = {}
    for more in found:
        facts |= more
        part = file.with_suffix(".part")
        part.write_text(json.dumps(facts), encoding="utf-8")
        part.replace(file)


def of_node(folder: Path) -> Iterator[dict]:
    """What can be chosen on this node, how its ranks fared, and what labkit's doctor says of it."""
    gdrcopy = Path(os.environ.get("LABKIT_GDRCOPY", "")).is_file()
    yield {
        "host": socket.gethostname(),
        "horovod": list(builds.horovod_builds()),
        "gdrcopy": gdrcopy,
    }
    yield _start_ranks(folder)
    command = [sys.executable, "-m", "labkit", "doctor", "--json", "--limit", str(DOCTOR_SECONDS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    yield {"report": json.loads(done.stdout) if done.returncode == 0 else None}


def _start_ranks(folder: Path) -> dict:
    """How the launcher ended: {"wanted": ranks, "status" (None: too slow), "said": its last
    lines}."""
    # These ranks try MPI out; whether Horovod's build is there is said apart.
    env = {name: value for name, value in os.environ.items() if name != "LABKIT_HOROVOD"}
    try:
        job = shape.read(env)
        env |= launcher.chosen(env)
        env |= launcher.environment(job, env)
        rank = [sys.executable, "-m", "slurm.doctor.node", str(folder), "rank"]
        command = launcher.command(job, rank, env, folder)
    except LabError as error:
        return {"wanted": 0, "status": 1, "said": str(error)}
    log = folder / "ranks.log"
    with log.open("w") as out:
        ended = launch.run_to_end(
            command,
            timeout=RANKS_SECONDS + (GPU_SECONDS if sites.gpus_per_node(env) else 0),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    status = None if ended.cause == "timeout" else ended.status
    return {"wanted": job.ranks, "status": status, "said": "\n".join(lines[-5:])}


def of_rank(folder: Path) -> Iterator[dict]:
    """What this rank sees; then it exchanges its host's name with all the others, and tries MPI's
    link, and NCCL's."""
    host = socket.gethostname()
    yield {"host": host, "cores": world.cores(), "infiniband": doctor.infiniband_ports()}
    yield {"gpus": world.gpu_count()}  # imports PyTorch where GPUs are: its CUDA comes before MPI's
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    yield mpis.loaded_library()._asdict()
    level = MPI.Init_thread(MPI.THREAD_MULTIPLE)
    levels = {getattr(MPI, f"THREAD_{word}"): word for word in _THREAD_LEVELS}
    comm = MPI.COMM_WORLD
    yield {"threads": levels[level], "size": comm.size}
    begin = time.perf_counter()
    hosts = comm.allgather(host)
    yield {"met": sorted(set(hosts)), "seconds": time.perf_counter() - begin}
    yield {"mpi": links.by_mpi(comm, hosts)}
    try:
        yield {"nccl": links.by_nccl(comm, folder)}
    except RuntimeError as error:
        yield {"nccl": {"failed": str(error).splitlines()[0]}}
    MPI.Finalize()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if sys.argv[2:] == ["rank"]:
        write(place / f"rank-{socket.gethostname()}-{os.getpid()}.json", of_rank(place))
    else:
        write(place / "node.json", of_node(place))
