"""Lab 61: bytes by the kernel and by servers, and a mistake in a real cluster of processes."""

from __future__ import annotations

import json
import multiprocessing
import socket
import sys

import numpy as np
import pytest
from labkit import timing
from labkit.errors import LabError
from support import lab61

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="counts by Linux's TCP_INFO"
)


def _send(address, count: int, pipe) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(bytes(count))
        assert connection.recv(1) == b"k"  # all of it has arrived, so all of it is acknowledged
        pipe.send(lab61.tcp_bytes())
        assert connection.recv(1) == b""


def test_bytes_of_a_connection_are_counted():
    count = 300_000
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        own, other = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        sender = context.Process(target=_send, args=(listening.getsockname(), count, other))
        before = lab61.tcp_bytes()[1]
        sender.start()
        connection, _ = listening.accept()
        with connection:
            left = count
            while left:
                left -= len(connection.recv(left))
            connection.sendall(b"k")
            sent, _ = own.recv()
            received = lab61.tcp_bytes()[1] - before
        sender.join(10)
    assert received == count
    assert sent >= count


def test_servers_are_read_from_devices_and_bytes_from_logs():
    took = timing.Measurement(np.full(5, 0.1))
    names = [f"/job:ps/replica:0/task:{task}/device:CPU:0" for task in (0, 1, 0)]
    leader = lab61.Chief(
        took, steps=10, begin=2.0, end=5.0, sizes=[1, 2, 3], devices=names, losses=[1.0]
    )
    log = [(1.0, 100, 0), (1.9, 200, 0), (3.0, 900, 0), (4.9, 1200, 0), (5.1, 5000, 0)]
    members = ("ps 0", "worker 0", "worker 1")
    outcome = lab61.of_chief(leader, dict.fromkeys(members, log))
    assert outcome.servers == [0, 1, 0]
    assert outcome.sent == dict.fromkeys(members, 200)  # 1000 in 5 rounds of 2 workers


def tf_config(slurm, hosts, port):
    tasks = int(slurm["SLURM_NTASKS"])
    workers = [f"{hosts[0]}:{port + task}" for task in range(tasks)]
    task = {"type": "worker", "index": int(slurm["SLURM_PROCID"])}
    return json.dumps({"cluster": {"worker": workers}, "task": task})


def broken_step(strategy, net, optimizer, pictures, labels):
    raise ValueError("a mistake in the step")


@pytest.mark.slow
def test_a_mistake_in_the_step_ends_the_cluster_in_a_sentence():
    ways = [(lab61.RING, lab61.NETS)]
    with pytest.raises(LabError, match="a mistake in the step"):
        lab61.train(broken_step, tf_config, ways, nodes=2, batch=4, repeat=5, proof=1)
