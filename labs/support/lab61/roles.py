"""What each process of a TensorFlow cluster does. Each runs in a process of its own, forked by a nursery."""

from __future__ import annotations

import json
import os
import time
from typing import NamedTuple

import cloudpickle
from labkit import timing

from support.lab61 import nets
from support.lab61.counters import tcp_bytes

RATE = 0.1  # SGD's learning rate
PAUSE = 0.3  # seconds of silence before and behind steps whose bytes are counted
LOOK = 0.1  # seconds between two looks at a server's counters


class Order(NamedTuple):
    """What a process is told: its TF_CONFIG, the learner's step (pickled), and how much to do."""

    tf_config: str
    step: bytes
    net: str
    batch: int  # images of each worker
    repeat: int  # timed rounds
    workers: int
    proof: int  # steps that are compared with one process


class Mirrored(NamedTuple):
    """What a worker of MultiWorkerMirroredStrategy reports; bytes of one step."""

    step: timing.Measurement
    alone: timing.Measurement  # the same step without other workers
    sent: float
    received: float
    sizes: list[int]
    losses: list[float]


class Chief(NamedTuple):
    """What the chief of ParameterServerStrategy reports."""

    step: timing.Measurement  # time in which every worker does one step, on the average
    steps: int  # of one worker each, between `begin` and `end`
    begin: float  # time.time()
    end: float
    sizes: list[int]
    devices: list[str]
    losses: list[float]


Log = list[tuple[float, int, int]]  # time.time(), bytes sent, bytes received


def name_of(order: Order) -> str:
    """ "worker 1"."""
    task = json.loads(order.tf_config)["task"]
    return f"{task['type']} {task['index']}"


def mirrored_worker(order: Order, ended) -> Mirrored:
    """A worker of MultiWorkerMirroredStrategy: some steps for proof, then timed, then counted."""
    import tensorflow as tf

    strategy = _mirrored()
    worker = json.loads(order.tf_config)["task"]["index"]
    batches = nets.global_batches(order.batch * order.workers, max(1, order.proof))
    parts = [nets.part_of(batch, worker, order.workers) for batch in batches]
    with strategy.scope():
        net = nets.build(order.net)
        optimizer = nets.optimizer_for(net, RATE)
    step = _graph(cloudpickle.loads(order.step), strategy, net, optimizer)
    losses = [float(step(*part)) for part in map(_tensors, parts)]
    pictures, labels = _tensors(parts[0])
    twin = nets.build(order.net)
    by_itself = _graph(
        cloudpickle.loads(order.step), tf.distribute.get_strategy(), twin, nets.optimizer_for(twin, RATE)
    )
    turns = timing.in_turns(
        {
            "step": lambda: step(pictures, labels).numpy(),
            "alone": lambda: by_itself(pictures, labels).numpy(),
        },
        repeat=order.repeat,
        warmup=2,
    )
    time.sleep(PAUSE)
    before = tcp_bytes()
    for _ in range(order.repeat):
        step(pictures, labels).numpy()
    time.sleep(PAUSE)
    after = tcp_bytes()
    sent, received = ((late - early) / order.repeat for early, late in zip(before, after, strict=True))
    return Mirrored(turns["step"], turns["alone"], sent, received, nets.sizes_of(net), losses)


def chief(order: Order, ended) -> Chief:
    """The chief of ParameterServerStrategy: hands steps to the workers, and times and counts them."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        net = nets.build(order.net)
        optimizer = nets.optimizer_for(net, RATE)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    pictures, labels = nets.global_batches(order.batch * order.workers, 1)[0]

    def dataset():
        return tf.data.Dataset.from_tensor_slices((pictures, labels)).repeat().batch(order.batch)

    batches = iter(coordinator.create_per_worker_dataset(dataset))
    learners_step = cloudpickle.loads(order.step)

    @tf.function(autograph=False)
    def step(source):
        return learners_step(strategy, net, optimizer, *next(source))

    losses = []

    def round_of_steps() -> None:
        """As many steps as there are workers. Nobody says which worker does which."""
        results = [coordinator.schedule(step, args=(batches,)) for _ in range(4 * order.workers)]
        coordinator.join()
        losses.append(float(results[-1].fetch()))

    took = timing.measure(round_of_steps, repeat=order.repeat, warmup=2)
    time.sleep(PAUSE)
    begin = time.time()
    for _ in range(order.repeat):
        round_of_steps()
    time.sleep(PAUSE)
    end = time.time()
    devices = [weights.value.device for weights in net.trainable_variables]
    each = timing.Measurement(took.samples / 4)
    steps = 4 * order.workers * order.repeat
    return Chief(each, steps, begin, end, nets.sizes_of(net), devices, losses)


def server(order: Order, ended) -> Log:
    """A gRPC server, of variables or of a worker of ParameterServerStrategy; it notes its bytes."""
    import tensorflow as tf

    config = json.loads(order.tf_config)
    task = config["task"]
    running = tf.distribute.Server(
        config["cluster"], job_name=task["type"], task_index=task["index"], protocol="grpc"
    )
    log: Log = []
    while not ended.poll(LOOK):
        log.append((time.time(), *tcp_bytes()))
    del running
    return log


def _mirrored():
    import tensorflow as tf

    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _graph(learners_step, strategy, net, optimizer):
    import tensorflow as tf

    @tf.function(autograph=False)
    def step(pictures, labels):
        return learners_step(strategy, net, optimizer, pictures, labels)

    return step


def _tensors(part: tuple) -> tuple:
    import tensorflow as tf

    return tuple(tf.constant(values) for values in part)


ROLES = {"mirrored worker": mirrored_worker, "chief": chief, "server": server}


def play(role: str, order: Order, pipe, errors: str) -> None:
    """In a process of its own: the role; its report goes into pipe. It stays until it is told to end."""
    with open(errors, "wb") as file:
        os.dup2(file.fileno(), 2)
    os.environ["TF_CONFIG"] = order.tf_config
    try:
        report = ("report", ROLES[role](order, pipe))
    except Exception as error:  # whatever the learner's step raises is told by the rank
        report = ("error", f"{type(error).__name__}: {error}")
    pipe.send(report)
    if role != "server":
        pipe.poll(None)  # who leaves early breaks the others' connections
    os._exit(0)  # TensorFlow's own end waits for servers that have gone
