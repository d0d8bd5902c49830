"""Lab 61: bytes by the kernel and in logs, and a mistake in a real cluster of processes."""

from __future__ import annotations

import json
import os
import socket
import sys
import time

import cloudpickle
import numpy as np
import pytest
from labkit import launch, timing
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


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (["n1", "n1"], ["127.0.0.1", "127.0.0.1"]),
        (["n1", "n1", "n2", "n2"], ["n1", "n1", "n1", "n1"]),  # as the learner's says
        (["n1", "n1", "n1", "n2"], ["n1", "n1", "n1", "n2"]),
        (["n1", "n2", "n1", "n2"], ["n1", "n2", "n1", "n2"]),
    ],
)
def test_a_ring_whose_ranks_fill_no_equal_nodes_gets_the_kits_own_addresses(names, hosts):
    seats = lab61.seats(lab61.RING, len(names))
    configs = lab61.configs_of(names, lab61.RING, seats, 5000, tf_config)
    for seat in seats:
        workers = json.loads(configs[seat])["cluster"]["worker"]
        assert [address.partition(":")[0] for address in workers] == hosts


def cores_of_workers(comm, cores) -> list[int]:
    """Each rank is bound to one core. Returns the cores of the second process of the first one."""

    def looks(order, pipe):
        step = timing.Measurement(np.ones(5))
        return {"net": lab61.Outcome(step, {}, sorted(os.sched_getaffinity(0)))}

    def without_tensorflow(calls, env, preload):
        return processes(calls, env)

    processes = launch.processes
    launch.processes = without_tensorflow
    lab61.mirrored_worker = looks
    os.sched_setaffinity(0, {cores[comm.rank]})
    order = {"batch": 1, "repeat": 1, "proof": 1}
    pickled = cloudpickle.dumps(tf_config)
    ways = [(lab61.RING, ("net",))]
    return lab61.on_rank(comm, b"", pickled, ways, 2, order)["net", lab61.RING].losses


def test_a_nodes_processes_may_use_the_cores_of_all_of_its_ranks():
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("two ranks need a core each to be bound to")
    assert launch.run(cores_of_workers, cores, ranks=2) == [cores, cores]


def broken_step(strategy, net, optimizer, pictures, labels):
    raise ValueError("a mistake in the step")


@pytest.mark.slow
def test_a_mistake_in_the_step_ends_the_cluster_in_a_sentence():
    ways = [(lab61.RING, lab61.NETS)]
    with pytest.raises(LabError, match="a mistake in the step"):
        lab61.train(broken_step, tf_config, ways, nodes=2, batch=4, repeat=5, proof=1)
