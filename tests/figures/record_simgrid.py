"""Times of three programs on SimGrid's ideal links, for tests/labkit/virtual/test_costs.py.

Not run by the tests. With Debian's python3-simgrid:
`/usr/bin/python3 tests/figures/simgrid.py tests/labkit/virtual/simgrid.json`.
Links: full duplex, one up and one down per host, CM02 model, its corrections for TCP switched off.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from simgrid import Actor, Engine, Mailbox, simgrid_version, this_actor

ALPHA, BANDWIDTH = 2e-6, 5e9  # seconds, bytes per second; the latency of a route is that of two links
IDEAL = (
    "model:CM02",
    "TCP-gamma:0",
    "crosstraffic:0",
    "latency-factor:1",
    "bandwidth-factor:1",
    "weight-S:0",
)
PRECISION = ("surf/precision:1e-13", "maxmin/precision:1e-9")


def box(source, dest):
    return Mailbox.by_name(f"{source}-{dest}")


def ring_allreduce(rank, p, nbytes):
    for _ in range(2 * (p - 1)):
        sent = box(rank, (rank + 1) % p).put_async("chunk", int(nbytes / p))
        box((rank - 1) % p, rank).get()
        sent.wait()


def tree_broadcast(rank, p, nbytes):
    for step in range((p - 1).bit_length()):
        reach = 1 << step
        if rank < reach and rank + reach < p:
            box(rank, rank + reach).put("vector", int(nbytes))
        elif reach <= rank < 2 * reach:
            box(rank - reach, rank).get()


def all_to_one(rank, p, nbytes):
    """Everybody sends to rank 0 at once: SimGrid shares its link, a queue serves one after the other."""
    if rank:
        box(rank, 0).put("vector", int(nbytes))
        return
    for other in range(1, p):
        Actor.create(f"from{other}", this_actor.get_host(), lambda other=other: box(other, 0).get())


PROGRAMS = {program.__name__: program for program in (ring_allreduce, tree_broadcast, all_to_one)}
RANKS = {"ring_allreduce": (2, 3, 4, 8, 12, 32), "tree_broadcast": (2, 4, 8, 32), "all_to_one": (2, 3, 8, 32)}


def platform(p):
    cluster = (
        f'<cluster id="c" prefix="rank" suffix="" radical="0-{p - 1}" speed="1Gf" bw="{BANDWIDTH:.0f}Bps" '
    )
    cluster += f'lat="{ALPHA / 2 * 1e6}us" sharing_policy="SPLITDUPLEX"/>'
    head = '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    with tempfile.NamedTemporaryFile("w", suffix=".xml", delete=False) as file:
        file.write(f'<?xml version="1.0"?>{head}<platform version="4.1">{cluster}</platform>')
    return file.name


def run_one(name, p, nbytes):
    options = [f"--cfg=network/{option}" for option in IDEAL] + [f"--cfg={option}" for option in PRECISION]
    engine = Engine(["record", *options])
    engine.load_platform(platform(p))
    for rank in range(p):
        Actor.create(f"rank{rank}", engine.host_by_name(f"rank{rank}"), PROGRAMS[name], rank, p, nbytes)
    engine.run()
    print(json.dumps({"program": name, "ranks": p, "bytes": nbytes, "seconds": engine.clock}))


def record(file):
    runs = []
    for name in PROGRAMS:
        for p in RANKS[name]:
            for nbytes in (96_000, 9_600_000):
                command = [sys.executable, __file__, name, str(p), str(nbytes)]  # one engine a process
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                runs.append(json.loads(done.stdout.splitlines()[-1]))
    lines = ",\n".join(f"    {json.dumps(run)}" for run in runs)
    about = (
        f"SimGrid {simgrid_version}, network model CM02 without TCP corrections; see tests/figures/simgrid.py"
    )
    head = f'"about": "{about}",\n  "alpha": {ALPHA},\n  "bandwidth": {BANDWIDTH},'
    file.write_text(f'{{\n  {head}\n  "runs": [\n{lines}\n  ]\n}}\n')


if __name__ == "__main__":
    if len(sys.argv) == 2:
        record(Path(sys.argv[1]))
    else:
        run_one(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
