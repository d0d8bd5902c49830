"""TensorFlow clusters over the nodes of a run: who is what, at which address, and what they report."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import cloudpickle
from labkit import launch, ports, world
from labkit.errors import LabError

from support.lab61.roles import Chief, Log, Mirrored, Order

SERVERS = "servers, gRPC"
RING = "ring, gRPC"
LIMIT = 300  # seconds for all ways together


class Run(NamedTuple):
    """What a cluster reported: a Chief and all servers' logs by name, or the Mirrored of each worker."""

    chief: Chief | None
    logs: dict[str, Log]
    workers: list[Mirrored]


class Seat(NamedTuple):
    """One process of a cluster: on which node, what it does, and TensorFlow's word for that."""

    node: int
    role: str
    job: str  # chief, ps or worker
    index: int


def seats(way: str, nodes: int) -> list[Seat]:
    """A cluster's processes. Every node has a worker, and with servers also a server; node 0 the chief."""
    if way == RING:
        return [Seat(node, "mirrored worker", "worker", node) for node in range(nodes)]
    everyone = []
    for node in range(nodes):
        everyone.append(Seat(node, "server", "ps", node))
        everyone.append(Seat(node, "server", "worker", node))
    return [*everyone, Seat(0, "chief", "chief", 0)]


def train(
    step: Callable, tf_config: Callable, ways: Sequence[tuple[str, str]], nodes: int, **order: int
) -> dict[tuple[str, str], Run]:
    """Train each net in its way, one after the other, on real processes: {(way, net): Run}.

    step, tf_config: the learner's. ways: pairs of a way and a net. nodes: that this machine plays; in a job
    each rank is one. order: batch, repeat and proof, as in Order.
    """
    ranks = launch.ranks_here(1)
    nodes = ranks if world.launcher() else nodes
    # As bytes: a rank only passes the step on, and needs no TensorFlow for that.
    pickled = cloudpickle.dumps(step), cloudpickle.dumps(tf_config)
    env = {
        "CUDA_VISIBLE_DEVICES": "",  # bytes are the subject: all runs on CPUs, on a GPU machine, too
        # A server waits inside of a thread for what another thread has to bring: with one it waits for ever.
        "TF_NUM_INTEROP_THREADS": "4",
    }
    results = launch.run(
        _on_rank, *pickled, list(ways), nodes, order, ranks=ranks, threads=1, env=env, timeout=LIMIT
    )
    return results[0]


def _on_rank(comm, step: bytes, tf_config: bytes, ways: list, nodes: int, order: dict) -> dict:
    """On each rank: the processes of its nodes. Returns what all of them reported."""
    runs = {}
    names = comm.allgather(socket.gethostname())
    with ExitStack() as outside:
        # One nursery for a host: importing TensorFlow is most of the work.
        leads = names.index(names[comm.rank]) == comm.rank
        nursery = outside.enter_context(_nursery()) if leads else None
        for way, net in ways:
            everyone = seats(way, nodes)
            own = [seat for seat in everyone if names.index(names[seat.node % comm.size]) == comm.rank]
            with ExitStack() as stack:
                first = stack.enter_context(ports.agree(comm, len(everyone)))
                configs = _configs(names, way, everyone, first, cloudpickle.loads(tf_config))
                orders = [
                    (seat.role, Order(configs[seat], step, net, workers=nodes, **order)) for seat in own
                ]
                reports = _ask(nursery, ("play", orders))
                _wait_for_all(comm)
                logs = _ask(nursery, ("end",))
            pieces = comm.allgather((reports, logs))
            reports = {name: report for reported, _ in pieces for name, report in reported}
            logs = {name: log for _, ended in pieces for name, log in ended}
            leader = reports.get("chief 0")
            workers = [reports[f"worker {node}"] for node in range(nodes)] if leader is None else []
            runs[way, net] = Run(leader, logs, workers)
    return runs


def _configs(
    names: list[str], way: str, everyone: list[Seat], base: int, tf_config: Callable
) -> dict[Seat, str]:
    """TF_CONFIG of each seat: the learner's with a ring, the kit's own with servers. names: hosts by rank."""
    hosts = list(dict.fromkeys(names))  # ranks fill hosts one after the other
    if len(hosts) == 1:
        hosts = ["127.0.0.1"]
        names = hosts * len(names)
    if way == RING:
        return {seat: tf_config(slurm_of(seat.index, len(everyone), hosts), hosts, base) for seat in everyone}
    addresses: dict[str, list[str]] = {}
    for offset, seat in enumerate(everyone):
        host = names[seat.node % len(names)]
        addresses.setdefault(seat.job, []).append(f"{host}:{base + offset}")
    return {
        seat: json.dumps({"cluster": addresses, "task": {"type": seat.job, "index": seat.index}})
        for seat in everyone
    }


def slurm_of(task: int, tasks: int, hosts: Sequence[str]) -> dict[str, str]:
    """What srun sets for this task, of the variables of the lab: nodes are filled one after the other."""
    each = tasks // len(hosts)
    return {
        "SLURM_NTASKS": str(tasks),
        "SLURM_NNODES": str(len(hosts)),
        "SLURM_PROCID": str(task),
        "SLURM_NODEID": str(task // each),
        "SLURM_LOCALID": str(task % each),
    }


def _ask(nursery, command: tuple) -> list[tuple[str, object]]:
    """Send a command; the reports of processes by name. LabError when one has failed. None has none."""
    if nursery is None:
        return []
    nursery.send(command)
    try:
        answers = nursery.recv()
    except EOFError:
        raise LabError("The process that starts TensorFlow's processes has died.") from None
    for name, kind, report in answers:
        if kind == "error":
            raise LabError(f"TensorFlow's {name} failed: {report}")
    return [(name, report) for name, _, report in answers]


def _wait_for_all(comm) -> None:
    """A barrier that leaves the cores to TensorFlow: MPI's own would spin."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.05)


@contextmanager
def _nursery() -> Iterator:
    """A nursery as a child of this process; yields its pipe."""
    own, other = multiprocessing.Pipe()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "support.lab61.nursery", str(other.fileno()), str(os.getpid())]
    process = subprocess.Popen(command, env=env, pass_fds=[other.fileno()])
    other.close()
    try:
        yield own
    finally:
        own.close()
        process.kill()  # its children die with it
        process.wait()
