"""Lab 61: bytes by the kernel and in logs, and a mistake in a real cluster of processes."""

from __future__ import annotations

import json
import socket
import sys
import time

import numpy as np
import pytest
from labkit import timing
from labkit.errors import LabError
from support import lab61

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="counts by Linux's TCP_INFO"
)


def test_bytes_of_a_connection_are_counted():
    count = 20_000
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as sender,
    ):
        receiver, _ = listening.accept()
        with receiver:
            before = lab61.bytes_sent()
            sender.sendall(bytes(count))
            assert len(receiver.recv(count, socket.MSG_WAITALL)) == count
            for _ in range(500):  # the other side may take its time to acknowledge them
                if lab61.bytes_sent() == before + count:
                    return
                time.sleep(0.01)
    pytest.fail("the bytes were not counted")


def test_bytes_are_read_from_logs():
    took = timing.Measurement(np.full(5, 0.1))
    span = lab61.Span(lab61.Outcome(took, {}, [1.0]), begin=2.0, end=5.0, rounds=5)
    log = [(1.0, 100), (1.9, 200), (3.0, 900), (4.9, 1200), (5.1, 5000)]
    outcome = lab61.of_chief(span, {"ps 0": log, "worker 0": log, "worker 1": log})
    assert outcome.sent == {"ps 0": 200, "worker 0": 200, "worker 1": 200}  # 1000 in 5 rounds


def test_many_workers_take_some_digits_twice():
    pictures, labels = lab61.global_batches(1600, 1)[0]
    assert len(pictures) == len(labels) == 1600


def test_one_worker_is_told_to_start_another():
    with pytest.raises(LabError, match="Start two or more"):
        lab61.train(None, None, [], nodes=1)


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
