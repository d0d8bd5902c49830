"""Lab 61: checks; real TensorFlow clusters, and their bytes on the wire; the same nets with
Horovod."""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import NamedTuple

import cloudpickle
import numpy as np
from labkit import check, data, expect, launch, nets, noise, ports, timing, world
from labkit.errors import LabError, NotHere, counted

# -- the checks


@check.exercise("61.1")
def tf_config_of_each_task(tf_config):
    """JSON with all workers' addresses, and this task's own number among all."""
    jobs = ((["n2", "n9", "n1"], 2, 6100), (["127.0.0.1"], 3, 5000), (["a7"], 1, 5000))
    for hosts, each, port in jobs:
        tasks = each * len(hosts)
        addresses = [f"{host}:{port + place}" for host in hosts for place in range(each)]
        for number in range(tasks):
            where = f"task {number} of {tasks} on {', '.join(hosts)}, first port {port}"
            text = tf_config(slurm_of(number, tasks, hosts), hosts, port)
            expect(
                isinstance(text, str),
                f"{where}: TF_CONFIG is a text, not {text!r}: use json.dumps.",
            )
            try:
                config = json.loads(text)
            except ValueError:
                config = None
            expect(isinstance(config, dict), f"{where}: this is not a dictionary in JSON: {text}")
            workers = config.get("cluster", {}).get("worker", [])
            why = f"tasks fill node after node, take ports from {port} on, and share no port"
            expect.equal(workers, addresses, f"{where}: the workers' addresses", because=why)
            why = "the index is a whole number, which counts all tasks of the job"
            wanted = {"type": "worker", "index": number}
            expect.equal(config.get("task", {}), wanted, f"{where}: the task", because=why)


@check.exercise("61.2")
def step_of_one_device(train_step):
    """Weights and loss as of one device with all images, on 3 replicas and on 1."""
    for replicas in (3, 1):
        with check.case(f"on {counted(replicas, 'replica')}"):
            batch = global_batches(12 * replicas, 1)[0]
            weights, moved, loss = try_step(train_step, batch, replicas)
            pictures, labels = batch
            right = -STEP_RATE * nets.join(nets.gradient(weights, *batch))
            untrained = -STEP_RATE * nets.join(nets.gradient(weights, 2 * pictures, labels))
            slips = {
                "the weights have not moved": 0 * right,
                f"this is {replicas} times the step: divide each loss by the number of replicas,"
                " and have only apply_gradients add": replicas * right,
                "this is divided twice": right / replicas,
                "call the network with training=True": untrained,
            }
            expect.close(
                moved, right, "the step of the variables", rtol=1e-3, atol=1e-5, slips=slips
            )
            expect(
                loss is not None, "`train_step` returns None: return the mean loss over all images."
            )
            expect(
                not hasattr(loss, "values"),
                "`train_step` returns a loss for each replica: add them up with strategy.reduce.",
            )
            losses = _cross_entropies(weights, *batch)
            right = losses.mean()
            slips = {
                "this is the sum of the replicas' means": replicas * right,
                "this is divided twice": right / replicas,
                "this is the first replica's share alone; strategy.reduce adds all processes'": (
                    data.shard(losses, 0, replicas).mean() / replicas
                ),
            }
            expect.close(np.asarray(loss), right, "the loss", rtol=1e-4, slips=slips)


@check.exercise("61.3")
def bytes_of_servers_and_ring(servers_send, ring_sends):
    """The variables in turn, to each worker once; the ring's 2 (p - 1) / p."""
    for values, servers, workers in (
        ([5, 7, 11, 13, 19], 3, 5),
        ([102_760_448, 4096], 4, 64),  # VGG-16's fc6: more bytes than an int32 holds
        ([5, 7, 11], 1, 1),
    ):
        given = list(values)
        got = servers_send(given, servers, workers)
        of_ring = ring_sends(given, workers)
        where = f"variables {values}, servers: {servers}, workers: {workers}"
        expect.unchanged(values, given, f"{where}: `sizes`")
        dealt = [0] * servers
        for place, value in enumerate(values):
            dealt[place % servers] += 4 * workers * value
        slips = {
            "these are numbers; each has 4 bytes": [value / 4 for value in dealt],
            "this is for one worker": [value / workers for value in dealt],
            "this is cut into equal parts; servers get whole variables": (
                [sum(dealt) / servers] * servers
            ),
        }
        why = "servers take variables in turn, and send each of theirs to each worker"
        what = f"{where}: the list of bytes that each server sends"
        expect.close(got, dealt, what, slips=slips, because=why)
        sent = 8 * sum(values) * (workers - 1) / workers
        slips = {
            "these are numbers; each has 4 bytes": sent / 4,
            "this is half of the ring": sent / 2,
            "this is what all workers send together": sent * workers,
        }
        expect.close(of_ring, sent, f"{where}: a ring's worker", slips=slips)


# -- nets and data

NETS = ("small VGG", "small ResNet")
SEED = 61


def build(kind: str):
    """The Keras net of this name, (n, 64) -> logits (n, 10), always with the same weights. No
    biases.

    small VGG: three convolutions, then three dense layers. The first of those holds 77 % of the
    parameters, as VGG-16's fc6 holds 74 %. small ResNet: seven convolutions, most of them around
    short cuts, and one small dense layer: a third of the parameters, spread evenly, as those of
    ResNet-101.
    """
    import keras

    keras.utils.set_random_seed(SEED)
    layers = keras.layers

    def convolved(values, activation="relu"):
        layer = layers.Conv2D(64, 3, padding="same", activation=activation, use_bias=False)
        return layer(values)

    pictures = keras.Input((64,))
    flow = convolved(layers.Reshape((8, 8, 1))(pictures))
    if kind == "small VGG":
        flow = convolved(convolved(flow))
        flow = layers.Flatten()(layers.MaxPooling2D()(flow))
        for units in (512, 160):
            flow = layers.Dense(units, activation="relu", use_bias=False)(flow)
    else:
        for block in range(3):
            inner = convolved(convolved(flow), activation=None)
            flow = layers.ReLU()(layers.Add()([flow, inner]))
            if block == 0:
                flow = layers.MaxPooling2D()(flow)
        flow = layers.GlobalAveragePooling2D()(flow)
    return keras.Model(pictures, layers.Dense(10, use_bias=False)(flow))


def sizes_of(net) -> list[int]:
    """Numbers in each variable of a net that is trained, in the order in which they were made."""
    return [int(np.prod(weights.shape)) for weights in net.trainable_variables]


def optimizer_for(net, rate: float):
    """Plain SGD for the net, all its own variables made at once."""
    import keras

    optimizer = keras.optimizers.SGD(rate)
    optimizer.build(net.trainable_variables)
    return optimizer


def global_batches(images: int, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(pictures, labels) of each step's `images` digits of all workers together, the same
    everywhere. Many workers ask for more digits than there are, then some are taken twice."""
    digits = data.digits()
    count = len(digits.train_x)
    places = max(count, images)
    every_epoch = (data.batches(places, images, epoch, seed=SEED) for epoch in itertools.count())
    batches = itertools.islice(itertools.chain.from_iterable(every_epoch), steps)
    rows_of_steps = [rows % count for rows in batches]
    return [(digits.train_x[rows], digits.train_y[rows].astype(np.int32)) for rows in rows_of_steps]


# -- one step in this process

STEP_RATE = 0.5  # SGD's learning rate in one step


def devices(count: int) -> list[str]:
    """Have TensorFlow take this machine for `count` devices, and leave GPUs alone; their names.

    LabError where it has begun with another number: that cannot be changed later.
    """
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    try:
        tf.config.set_visible_devices([], "GPU")
        tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError:  # TensorFlow has begun: fine if it has begun so
        pass
    tf.get_logger().setLevel("ERROR")  # else each strategy tells how it reduces
    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    if len(names) != count:
        raise LabError(f"TensorFlow runs on {len(names)} devices already. Restart the kernel.")
    return names


def try_step(train_step: Callable, batch: tuple, replicas: int) -> tuple:
    """train_step(strategy, net, optimizer, pictures, labels) once, on so many devices, inside of
    tf.function, each with a part of the batch: a small net's weights before, how far they moved
    (one vector), and what was returned."""
    import keras
    import tensorflow as tf

    # Without collectives: TensorFlow 2.21 ends those of a third device when two were used before.
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{place}" for place in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    with strategy.scope():
        keras.utils.set_random_seed(1)
        # Like dropout, a layer that depends on `training`.
        scale = keras.layers.Lambda(lambda values, training=False: values * (1 if training else 2))
        net = keras.Sequential([keras.Input((64,)), scale, keras.layers.Dense(10)])
        optimizer = optimizer_for(net, STEP_RATE)
    before = net.get_weights()
    local = strategy.experimental_local_results
    # As in a cluster, where a process has only the results of its own replica.
    strategy.experimental_local_results = lambda values: local(values)[:1]

    def of_replicas(values):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                data.shard(values, context.replica_id_in_sync_group, replicas)
            )
        )

    returned = _graph(train_step, strategy, net, optimizer)(*map(of_replicas, batch))
    return before, nets.join(net.get_weights()) - nets.join(before), returned


def _cross_entropies(weights: list, pictures: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Of each image, with a net of one layer."""
    logits = pictures @ weights[0] + weights[1]
    return np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(labels)), labels]


def _graph(train_step: Callable, strategy, net, optimizer) -> Callable:
    import tensorflow as tf

    @tf.function(autograph=False)
    def step(pictures, labels):
        return train_step(strategy, net, optimizer, pictures, labels)

    return step


def losses_alone(
    train_step: Callable, kind: str, images: int, steps: int, rate: float
) -> list[float]:
    """Losses of the same training in this one process, with all `images` of a step at once."""
    import tensorflow as tf

    net = build(kind)
    strategy = tf.distribute.get_strategy()  # the one that is there without any: one replica
    step = _graph(train_step, strategy, net, optimizer_for(net, rate))
    return [float(step(*map(tf.constant, batch))) for batch in global_batches(images, steps)]


# -- what each process of a cluster does

RATE = 0.1  # SGD's learning rate
PAUSE = 0.3  # seconds of silence before and behind steps whose bytes are counted
LOOK = 0.1  # seconds between two looks at a server's counter
EACH = 4  # steps of a worker that the chief waits for at a time


class Order(NamedTuple):
    """What a process is told: its TF_CONFIG, the learner's step (pickled), and how much to do."""

    tf_config: str
    step: bytes
    kinds: tuple[str, ...]  # of nets, one after the other
    batch: int  # images of each worker
    repeat: int  # timed rounds
    workers: int
    proof: int  # steps that are compared with one process
    cores: list[int]  # that it may use: those of all ranks of its node; [] on macOS


class Outcome(NamedTuple):
    """Of one way with one net.

    step: time in which every worker has done one step. sent: {process: bytes in that step}, as
    counted. alone: the same step of a worker by itself; None with servers. servers: of each
    variable, its server.
    """

    step: timing.Measurement
    sent: dict[str, float]
    losses: list[float]
    alone: timing.Measurement | None = None
    servers: list[int] | None = None


class Span(NamedTuple):
    """The chief's outcome without bytes, and the time in which the servers' bytes are of `rounds`
    steps of every worker."""

    outcome: Outcome
    begin: float  # time.time()
    end: float
    rounds: int


Log = list[tuple[float, int]]  # time.time(), bytes sent


def mirrored_worker(order: Order, ended) -> dict[str, Outcome]:
    """A worker of MultiWorkerMirroredStrategy."""
    import tensorflow as tf

    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    return {kind: _in_step(strategy, order, kind) for kind in order.kinds}


def _in_step(strategy, order: Order, kind: str) -> Outcome:
    """Some steps of a net for proof, then timed, then counted."""
    import tensorflow as tf

    worker = json.loads(order.tf_config)["task"]["index"]
    batches = global_batches(order.batch * order.workers, max(1, order.proof))
    parts = [
        [tf.constant(data.shard(values, worker, order.workers)) for values in batch]
        for batch in batches
    ]
    with strategy.scope():
        net = build(kind)
        optimizer = optimizer_for(net, RATE)
    step = _graph(cloudpickle.loads(order.step), strategy, net, optimizer)
    losses = [float(step(*part)) for part in parts]
    twin = build(kind)
    by_itself = _graph(
        cloudpickle.loads(order.step), tf.distribute.get_strategy(), twin, optimizer_for(twin, RATE)
    )
    return measured(
        worker,
        lambda: step(*parts[0]).numpy(),
        lambda: by_itself(*parts[0]).numpy(),
        order.repeat,
        losses,
    )


def measured(
    worker: int, step: Callable, alone: Callable, repeat: int, losses: list[float]
) -> Outcome:
    """Of this worker: both timed in turns, then the bytes that it sends in a step(), by `repeat` of
    them between two silences."""
    turns = timing.in_turns({"step": step, "alone": alone}, repeat=repeat, warmup=2)
    time.sleep(PAUSE)
    before = bytes_sent()
    for _ in range(repeat):
        step()
    time.sleep(PAUSE)
    sent = (bytes_sent() - before) / repeat
    return Outcome(turns["step"], {f"worker {worker}": sent}, losses, turns["alone"])


def chief(order: Order, ended) -> Span:
    """The chief of ParameterServerStrategy: hands steps to the workers, and times and counts them.

    Of one net: the strategy would go on with the next one's variables at the server behind the
    last.
    """
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    (kind,) = order.kinds
    with strategy.scope():
        net = build(kind)
        optimizer = optimizer_for(net, RATE)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    pictures, labels = global_batches(order.batch * order.workers, 1)[0]

    def dataset():
        return tf.data.Dataset.from_tensor_slices((pictures, labels)).repeat().batch(order.batch)

    batches = iter(coordinator.create_per_worker_dataset(dataset))
    learners_step = cloudpickle.loads(order.step)

    @tf.function(autograph=False)
    def step(source):
        return learners_step(strategy, net, optimizer, *next(source))

    losses = []

    def round_of_steps() -> None:
        """Some steps for each worker. Nobody says which worker does which."""
        count = EACH * order.workers
        results = [coordinator.schedule(step, args=(batches,)) for _ in range(count)]
        coordinator.join()
        losses.append(float(results[-1].fetch()))

    took = timing.measure(round_of_steps, repeat=order.repeat, warmup=2)
    time.sleep(PAUSE)
    begin = time.time()
    for _ in range(order.repeat):
        round_of_steps()
    time.sleep(PAUSE)
    end = time.time()
    places = [
        int(weights.value.device.partition("task:")[2].partition("/")[0])
        for weights in net.trainable_variables
    ]
    each = timing.Measurement(took.samples / EACH)
    return Span(Outcome(each, {}, losses, servers=places), begin, end, EACH * order.repeat)


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
        log.append((time.time(), bytes_sent()))
    del running
    return log


def play(pipe, role: Callable, order: Order) -> None:
    """In a process of its own: the role; its report goes into pipe. It stays until it is told to
    end."""
    os.environ["TF_CONFIG"] = order.tf_config
    if order.cores:  # else all processes of a node would share those of the rank that starts them
        os.sched_setaffinity(0, order.cores)
    try:
        report = ("report", role(order, pipe))
    except Exception as error:  # whatever the learner's step raises is told by the rank
        report = ("error", f"{type(error).__name__}: {error}")
    pipe.send(report)
    if role is not server:
        pipe.poll(None)  # who leaves early breaks the others' connections
    os._exit(0)  # TensorFlow's own end waits for servers that have gone


# -- clusters of processes

SERVERS = "servers, gRPC"
RING = "ring, gRPC"
LIMIT = 300  # seconds for all ways together


class Seat(NamedTuple):
    """One process of a cluster: on which node, TensorFlow's word for what it does, and its number
    there."""

    node: int
    job: str  # chief, ps or worker
    index: int

    @property
    def name(self) -> str:
        return f"{self.job} {self.index}"


def seats(way: str, nodes: int) -> list[Seat]:
    """A cluster's processes. Every node has a worker, and with servers also a server; node 0 the
    chief."""
    jobs = ("worker",) if way == RING else ("ps", "worker")
    everyone = [Seat(node, job, node) for node in range(nodes) for job in jobs]
    return everyone if way == RING else [*everyone, Seat(0, "chief", 0)]


def train(
    step: Callable, tf_config: Callable, ways: Sequence[tuple[str, tuple]], nodes: int, **order: int
) -> dict[tuple[str, str], Outcome]:
    """Train nets in each way, one after the other, on real processes: {(net, way): Outcome}.

    step, tf_config: the learner's. ways: pairs of a way and its nets; with servers one net. nodes:
    that this machine plays; in a job each rank is one. order: batch, repeat and proof, as in Order.
    """
    ranks = launch.ranks_here(1)
    nodes = ranks if world.launcher() else nodes
    if nodes == 1:
        raise LabError(
            "One worker has nobody to send to. Start two or more: make run LAB=61 NP=2, or"
            " make submit LAB=61 NODES=2."
        )
    # As bytes: a rank only passes the step on, and needs no TensorFlow for that.
    pickled = cloudpickle.dumps(step), cloudpickle.dumps(tf_config)
    env = {
        # Bytes are the subject: all runs on CPUs, on a GPU machine, too.
        "CUDA_VISIBLE_DEVICES": "",
        # A server waits inside of a thread for what another thread has to bring: with one it waits
        # for ever.
        "TF_NUM_INTEROP_THREADS": "4",
    }
    results = launch.run(
        on_rank, *pickled, list(ways), nodes, order, ranks=ranks, threads=1, env=env, timeout=LIMIT
    )
    return results[0]


def on_rank(comm, step: bytes, tf_config: bytes, ways: list, nodes: int, order: dict) -> dict:
    """On each rank: the processes of its nodes. Returns what came of all."""
    outcomes = {}
    places = comm.allgather(launch.my_cores())
    names = [name for name, _ in places]
    of_node = {core for name, cores in places if name == names[comm.rank] for core in cores}
    order = {**order, "cores": sorted(of_node)}
    # Triton first, as `noise` explains. A rank whose host has an earlier one starts none.
    preload = ["triton._C.libtriton", "tensorflow", "keras"]
    env = {**noise.SETTINGS, **os.environ}
    for way, kinds in ways:
        everyone = seats(way, nodes)
        own = [seat for seat in everyone if names.index(names[seat.node % comm.size]) == comm.rank]
        roles = {"chief": chief, "ps": server, "worker": mirrored_worker if way == RING else server}
        with ports.agree(comm, len(everyone)) as first:
            configs = configs_of(names, way, everyone, first, cloudpickle.loads(tf_config))
            calls = [
                (play, roles[seat.job], Order(configs[seat], step, kinds, workers=nodes, **order))
                for seat in own
            ]
            with launch.processes(calls, env, preload) as started:
                processes = {seat.name: one for seat, one in zip(own, started, strict=True)}
                servers = {seat.name for seat in own if roles[seat.job] is server}
                told = _reports({name: processes[name] for name in processes.keys() - servers})
                _wait_for_all(comm)
                for one in started:
                    one.pipe.send("end")
                told |= _reports({name: processes[name] for name in servers})
        told = {
            name: report for of_rank in comm.allgather(told) for name, report in of_rank.items()
        }
        if way == RING:
            for kind in kinds:
                outcomes[kind, way] = of_workers([told[seat.name][kind] for seat in everyone])
        else:
            outcomes[kinds[0], way] = of_chief(told.pop("chief 0"), told)
    return outcomes


def _reports(processes: dict[str, launch.Process]) -> dict[str, object]:
    """What each of these processes says, as soon as it says it. LabError at the first that
    fails."""
    reports = {}
    missing = {one.pipe: name for name, one in processes.items()}
    while missing:
        for pipe in connection.wait(list(missing)):
            name = missing.pop(pipe)
            try:
                kind, report = pipe.recv()
            except (EOFError, ConnectionError):
                last = processes[name].log.read_text(errors="replace").strip().splitlines()[-3:]
                kind, report = "error", f"it ended. {' '.join(last)}"
            if kind == "error":
                raise LabError(f"TensorFlow's {name} failed: {report}")
            reports[name] = report
    return reports


def configs_of(
    names: list[str], way: str, everyone: list[Seat], base: int, tf_config: Callable
) -> dict[Seat, str]:
    """TF_CONFIG of each seat: the learner's with a ring, the kit's own with servers. names: hosts
    by rank.

    The learner's is for ranks that fill one host after the other, with as many on each. Where a
    job's do not, a ring gets the kit's own, too.
    """
    hosts = list(dict.fromkeys(names))
    if len(hosts) == 1:
        hosts = ["127.0.0.1"]
        names = hosts * len(names)
    each = len(names) // len(hosts)
    if way == RING and names == [host for host in hosts for _ in range(each)]:
        return {
            seat: tf_config(slurm_of(seat.index, len(everyone), hosts), hosts, base)
            for seat in everyone
        }
    addresses: dict[str, list[str]] = {}
    for offset, seat in enumerate(everyone):
        host = names[seat.node % len(names)]
        addresses.setdefault(seat.job, []).append(f"{host}:{base + offset}")
    return {
        seat: json.dumps({"cluster": addresses, "task": {"type": seat.job, "index": seat.index}})
        for seat in everyone
    }


def slurm_of(task: int, tasks: int, hosts: Sequence[str]) -> dict[str, str]:
    """What srun sets for this task, of the variables of the lab: nodes are filled one after the
    other."""
    each = tasks // len(hosts)
    return {
        "SLURM_NTASKS": str(tasks),
        "SLURM_NNODES": str(len(hosts)),
        "SLURM_PROCID": str(task),
        "SLURM_NODEID": str(task // each),
        "SLURM_LOCALID": str(task % each),
    }


def _wait_for_all(comm) -> None:
    """A barrier that leaves the cores to TensorFlow: MPI's own would spin."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.05)


def of_workers(workers: Sequence[Outcome]) -> Outcome:
    """Of workers in step with each other: times are those of worker 0."""
    sent = {name: count for worker in workers for name, count in worker.sent.items()}
    return workers[0]._replace(sent=sent)


def of_chief(span: Span, logs: dict[str, Log]) -> Outcome:
    """Of a cluster with servers, by its chief and the logs of the servers by name."""
    sent = {
        name: _between(log, span.begin, span.end) / span.rounds
        for name, log in sorted(logs.items())
    }
    return span.outcome._replace(sent=sent)


def _between(log: Log, begin: float, end: float) -> int:
    """Bytes sent from the last look before `begin` to the last before `end`."""
    times = np.array([when for when, _ in log])
    first, last = (int(np.searchsorted(times, when)) - 1 for when in (begin, end))
    return log[max(0, last)][1] - log[max(0, first)][1]


# -- bytes on the wire, as the kernel counts them for each connection of a process

# struct tcp_info of Linux 4.1 and later (linux/tcp.h): bytes_acked, of 64 bits.
_OFFSET = 120
_OPEN = 1  # tcpi_state: TCP_ESTABLISHED


def bytes_sent() -> int:
    """Bytes sent and acknowledged, over all TCP connections that this process has open.

    With what a library adds to its tensors, without the headers of TCP and IP. NotHere but on
    Linux.
    """
    if not sys.platform.startswith("linux"):
        raise NotHere(
            "Bytes are counted by Linux's TCP_INFO; this system has none. Run the lab on Linux."
        )
    return sum(_sent_by(int(entry.name)) for entry in Path("/proc/self/fd").iterdir())


def _sent_by(descriptor: int) -> int:
    """By one open file; 0 for what is no open TCP connection, or has just been closed."""
    try:
        link = os.readlink(f"/proc/self/fd/{descriptor}")
        if not link.startswith("socket:"):
            return 0
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            if connection.type != socket.SOCK_STREAM or connection.family == socket.AF_UNIX:
                return 0
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return 0
    return struct.unpack_from("Q", info, _OFFSET)[0] if info[0] == _OPEN else 0


# -- with Horovod

HOROVOD = "ring, Horovod"


def with_horovod(kinds: Sequence[str], ranks: int, batch: int, repeat: int) -> dict[str, Outcome]:
    """{net: Outcome}. By MPI in a job; here by Gloo, as MPI's ranks would share memory."""
    env = {
        "CUDA_VISIBLE_DEVICES": "",
        "HOROVOD_CPU_OPERATIONS": "mpi" if world.launcher() else "gloo",
    }
    given = (list(kinds), batch, repeat)
    results = launch.run(_worker, *given, ranks=ranks, threads=1, env=env, timeout=200)
    return {kind: of_workers([result[kind] for result in results]) for kind in kinds}


def _worker(kinds: list[str], batch: int, repeat: int) -> dict[str, Outcome]:
    noise.silence()
    import horovod.tensorflow as hvd

    hvd.init()
    try:
        outcomes = {kind: _of_horovod(hvd, kind, batch, repeat) for kind in kinds}
        hvd.join()  # whoever ends closes connections that another worker may still count
        return outcomes
    finally:
        hvd.shutdown()


def _of_horovod(hvd, kind: str, batch: int, repeat: int) -> Outcome:
    import tensorflow as tf

    images = global_batches(batch * hvd.size(), 1)[0]
    part = [tf.constant(data.shard(values, hvd.rank(), hvd.size())) for values in images]
    together = _step(build(kind), hvd.DistributedGradientTape, *part)
    alone = _step(build(kind), lambda tape: tape, *part)
    return measured(hvd.rank(), together, alone, repeat, [float(together())])


def _step(net, wrap, pictures, labels):
    import keras
    import tensorflow as tf

    optimizer = optimizer_for(net, RATE)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(
                labels, net(pictures, training=True), from_logits=True
            )
            loss = tf.reduce_mean(losses)
        gradients = wrap(tape).gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    return lambda: step().numpy()
