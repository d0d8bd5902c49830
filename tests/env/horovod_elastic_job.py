"""A rank of an elastic job: writes down what it sees, waits for the test's word, and one rank dies once.

Arguments: a folder. The rank on the host 127.0.0.1 kills itself when the file `die` is there; the others end
when `end` is there. Each rank writes `seen-HOST.json`, anew after each change of the job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import horovod.torch as hvd
import torch

FOLDER = Path(sys.argv[1])


def command_lines_with(text: bytes) -> list[str]:
    """The processes of this machine in whose command line this stands."""
    hits = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in file.read_bytes():
                hits.append(file.parent.name)
        except OSError:  # it ended meanwhile
            continue
    return hits


@hvd.elastic.run
def work(state) -> None:
    """A sum over the ranks in each turn."""
    host = os.environ["HOROVOD_HOSTNAME"]
    key = os.environ.get("_HOROVOD_SECRET_KEY", "")
    seen = {
        "port": int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]),
        "address": os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
        "size": hvd.size(),
        "key_length": len(key),
        "key_on_command_lines": command_lines_with(key.encode()) if key else [],
    }
    end = False
    while not end:
        state.turn += 1
        own = torch.tensor([1.0, float((FOLDER / "end").exists())])
        ranks, ending = hvd.allreduce(own, op=hvd.Sum).tolist()
        end = ending > 0  # all ranks leave in the same turn
        seen |= {"turn": state.turn, "sum": ranks}
        scratch = FOLDER / f"seen-{host}.tmp"
        scratch.write_text(json.dumps(seen), encoding="utf-8")
        scratch.replace(FOLDER / f"seen-{host}.json")
        if host == "127.0.0.1" and (FOLDER / "die").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        state.commit()
        time.sleep(0.1)


hvd.init()
work(hvd.elastic.TorchState(turn=0))
