"""Times of programs and of patterns that meet in ports on SimGrid's ideal links, for tests/virtual.

Not run by the tests. With Debian's python3-simgrid:
`/usr/bin/python3 tests/figures/record_simgrid.py tests/virtual/simgrid.json`.
Links: full duplex, one up and one down per host, CM02 model, its corrections for TCP switched off.
"""

import json
import platform as machine
import subprocess
import sys
import tempfile
from pathlib import Path

from simgrid import Actor, Comm, Engine, Mailbox, simgrid_version, this_actor

sys.path.insert(0, str(Path(__file__).parents[1] / "virtual"))  # without labkit and NumPy
from patterns import patterns

# Seconds, bytes per second; the latency of a route is that of two links.
ALPHA, BANDWIDTH = 2e-6, 5e9
IDEAL = (
    "model:CM02",
    "TCP-gamma:0",
    "crosstraffic:0",
    "latency-factor:1",
    "bandwidth-factor:1",
    "weight-S:0",
    # The lazy solver, which is the default, lets some flows of "servers" into one host faster than
    # its link.
    "optim:Full",
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
    """Everybody sends to rank 0 at once: SimGrid shares its link, a queue serves one after the
    other."""
    if rank:
        box(rank, 0).put("vector", int(nbytes))
        return
    for other in range(1, p):
        Actor.create(f"from{other}", this_actor.get_host(), lambda other=other: box(other, 0).get())


PROGRAMS = {program.__name__: program for program in (ring_allreduce, tree_broadcast, all_to_one)}
RANKS = {
    "ring_allreduce": (2, 3, 4, 8, 12, 32),
    "tree_broadcast": (2, 4, 8, 32),
    "all_to_one": (2, 3, 8, 32),
}


def platform(p):
    cluster = (
        f'<cluster id="c" prefix="rank" suffix="" radical="0-{p - 1}" speed="1Gf"'
        f' bw="{BANDWIDTH:.0f}Bps" '
    )
    cluster += f'lat="{ALPHA / 2 * 1e6}us" sharing_policy="SPLITDUPLEX"/>'
    head = '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    with tempfile.NamedTemporaryFile("w", suffix=".xml", delete=False) as file:
        file.write(f'<?xml version="1.0"?>{head}<platform version="4.1">{cluster}</platform>')
    return file.name


def engine(p):
    options = [f"--cfg=network/{option}" for option in IDEAL] + [
        f"--cfg={option}" for option in PRECISION
    ]
    made = Engine(["record", *options])
    made.load_platform(platform(p))
    return made


def run_one(name, p, nbytes):
    made = engine(p)
    for rank in range(p):
        Actor.create(
            f"rank{rank}", made.host_by_name(f"rank{rank}"), PROGRAMS[name], rank, p, nbytes
        )
    made.run()
    print(json.dumps({"program": name, "ranks": p, "bytes": nbytes, "seconds": made.clock}))


def meet(rank, pattern, arrivals):
    """What a rank does in a pattern; arrivals: (round, source, dest) -> seconds, filled."""
    this_actor.sleep_for(pattern.starts[rank])
    for number, messages in enumerate(pattern.rounds):
        sent = [
            box(source, dest).put_async("message", nbytes)
            for source, dest, nbytes in messages
            if source == rank
        ]
        waiting = []
        for source, dest, _ in messages:
            if dest == rank:
                key = number, source, dest
                waiting.append(Actor.create(str(key), this_actor.get_host(), arrive, key, arrivals))
        Comm.wait_all(sent)
        for actor in waiting:
            actor.join()


def arrive(key, arrivals):
    box(*key[1:]).get()
    arrivals[key] = Engine.clock


def meet_all(place):
    pattern = list(patterns())[place]
    made = engine(pattern.ranks)
    arrivals = {}
    for rank in range(pattern.ranks):
        Actor.create(f"rank{rank}", made.host_by_name(f"rank{rank}"), meet, rank, pattern, arrivals)
    made.run()
    in_order = [
        arrivals[number, source, dest]
        for number, messages in enumerate(pattern.rounds)
        for source, dest, _ in messages
    ]
    rounded = [float(f"{seconds:.9g}") for seconds in in_order]
    print(json.dumps({"pattern": pattern.name, "ranks": pattern.ranks, "arrivals": rounded}))


def ask(*arguments):
    """What this file prints for them, in a process of its own: SimGrid has one engine a process."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def record(file):
    runs = []
    for name in PROGRAMS:
        for p in RANKS[name]:
            for nbytes in (96_000, 9_600_000):
                runs.append(ask(name, p, nbytes))
    lines = ",\n".join(f"    {json.dumps(run)}" for run in runs)
    met = [ask(place) for place in range(len(list(patterns())))]
    met_lines = ",\n".join(f"    {json.dumps(run)}" for run in met)
    about = (
        f"SimGrid {simgrid_version} on {machine.system()} {machine.machine()}, Python "
        f"{machine.python_version()}; network model CM02 without TCP corrections, solver Full; see "
        "tests/figures/record_simgrid.py"
    )
    head = f'"about": "{about}",\n  "alpha": {ALPHA},\n  "bandwidth": {BANDWIDTH},'
    file.write_text(f'{{\n  {head}\n  "runs": [\n{lines}\n  ],\n  "met": [\n{met_lines}\n  ]\n}}\n')


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].isdigit():
        meet_all(int(sys.argv[1]))
    elif len(sys.argv) == 2:
        record(Path(sys.argv[1]))
    else:
        run_one(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
