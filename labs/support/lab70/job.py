"""One life of a training inside of a Slurm job: `srun python -m support.lab70.job FOLDER`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from support.lab70 import lives, order
from support.lab70.asked import listening


def main(folder: Path) -> None:
    """Live, until the training is done or somebody asks for a stop. The last life trains once more, whole."""
    with listening() as stopped:
        from mpi4py import MPI

        wanted = order.find(folder)
        comm = MPI.COMM_WORLD
        life = int(os.environ.get("SLURM_RESTART_COUNT", 0))
        pause = wanted.pause if life < wanted.interruptions else 0.0
        sizes = (wanted.last, wanted.every)
        done = lives.live(comm, wanted.answers, folder, *sizes, life, stopped=stopped, pause=pause)
        if comm.rank == 0:
            print(f"Life {life} ends; {done} of {wanted.last} steps are done.", flush=True)
        if done == wanted.last:
            whole = lives.without_a_break(comm, wanted.last)
            if comm.rank == 0:
                (folder / order.WHOLE).write_text(json.dumps(whole), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
