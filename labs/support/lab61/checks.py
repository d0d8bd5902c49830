"""The checks of lab 61."""

from __future__ import annotations

import json

from labkit import check, expect

from support.lab61.cluster import slurm_of
from support.lab61.replicas import try_step


@check.exercise("61.1")
def check_tf_config(tf_config):
    """JSON with all workers' addresses, and this task's own number among all."""
    jobs = (["a7"], 1, 5000), (["127.0.0.1"], 2, 6100), (["n1", "n2"], 1, 5000), (["n1", "n2", "n3"], 2, 6100)
    for hosts, each, port in jobs:
        tasks = each * len(hosts)
        addresses = [f"{host}:{port + place}" for host in hosts for place in range(each)]
        for number in range(tasks):
            where = f"task {number} of {tasks} on {len(hosts)} node(s), first port {port}"
            text = tf_config(slurm_of(number, tasks, hosts), hosts, port)
            expect(isinstance(text, str), f"{where}: TF_CONFIG is a text, not {text!r}: use json.dumps.")
            expect(text.startswith("{") and "'" not in text, f"{where}: this is not JSON: {text}")
            config = json.loads(text)
            workers = config.get("cluster", {}).get("worker")
            why = f"tasks fill node after node, take ports from {port} on, and share no port"
            expect.equal(workers, addresses, f"{where}: the workers' addresses", because=why)
            why = "a whole number, which counts all tasks of the job"
            wanted = {"type": "worker", "index": number}
            expect.equal(config.get("task"), wanted, f"{where}: the task", because=why)


@check.exercise("61.2")
def check_train_step(train_step):
    """Weights and loss as of one device with all images, on 2, 1 and 3 replicas."""
    for replicas in (2, 1, 3):
        with check.case(f"on {replicas} replica(s)"):
            got = try_step(train_step, replicas)
            moved = got.after - got.before
            right = got.right_after - got.before
            slips = {
                "the weights have not moved": 0 * right,
                "the replicas' gradients were added; divide each loss": replicas * right,
                "this is divided twice": right / replicas,
            }
            slips = {words: value for words, value in slips.items() if replicas > 1 or not value.any()}
            what = f"on {replicas} replica(s): the step of the weights"
            expect.close(moved, right, what, rtol=1e-3, atol=1e-5, slips=slips)
            expect(got.loss is not None, "`train_step` returns None: return the mean loss over all images.")
            slips = {
                "this is the sum of the replicas' means": replicas * got.right_loss,
                "this is divided twice": got.right_loss / replicas,
                "this is the first replica's alone": got.first_loss,
                "this is the first replica's share alone": got.first_loss / replicas,
            }
            what = f"on {replicas} replica(s): the loss"
            expect.close(got.loss, got.right_loss, what, rtol=1e-4, slips=slips if replicas > 1 else {})


@check.exercise("61.3")
def check_servers_send(servers_send, ring_sends):
    """The variables dealt like cards, to each worker once; the ring's 2 (p - 1) / p."""
    for values, servers, workers in (([5, 7, 11], 1, 1), ([5, 7, 11, 13, 17], 2, 3), ([100, 2], 4, 5)):
        where = f"variables {values}, {servers} server(s), {workers} worker(s)"
        dealt = [0] * servers
        for place, value in enumerate(values):
            dealt[place % servers] += 4 * workers * value
        slips = {
            "these are numbers; each has 4 bytes": [value / 4 for value in dealt],
            "this is for one worker": [value / workers for value in dealt],
            "this is cut into equal parts; servers get whole variables": [sum(dealt) / servers] * servers,
        }
        slips = {words: value for words, value in slips.items() if value != dealt}
        got = servers_send(values, servers, workers)
        expect.close(got, dealt, f"{where}: bytes sent by each server", slips=slips)
        sent = 8 * sum(values) * (workers - 1) / workers
        slips = {"these are numbers; each has 4 bytes": sent / 4, "this is half of the ring": sent / 2}
        slips = slips if workers > 1 else {}
        expect.close(ring_sends(values, workers), sent, f"{where}: a ring's worker", slips=slips)
