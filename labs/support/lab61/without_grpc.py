"""The same nets with Horovod: its allreduce carries the gradients, and no gRPC."""

from __future__ import annotations

import time
from collections.abc import Sequence

from labkit import launch, noise, timing, world

from support.lab61 import nets
from support.lab61.counters import tcp_bytes
from support.lab61.roles import PAUSE, RATE, Mirrored

HOROVOD = "ring, Horovod"


def with_horovod(kinds: Sequence[str], ranks: int, batch: int, repeat: int) -> dict[str, list[Mirrored]]:
    """{net: what each rank measured}. By MPI in a job; here by Gloo, as MPI's ranks would share memory."""
    results = launch.run(
        _worker,
        list(kinds),
        batch,
        repeat,
        ranks=ranks,
        controller="mpi" if world.launcher() else "gloo",
        threads=1,
        env={"CUDA_VISIBLE_DEVICES": ""},
        timeout=200,
    )
    return {kind: [result[kind] for result in results] for kind in kinds}


def _worker(kinds: list[str], batch: int, repeat: int) -> dict[str, Mirrored]:
    noise.silence()
    import horovod.tensorflow as hvd

    hvd.init()
    try:
        return {kind: _measure(hvd, kind, batch, repeat) for kind in kinds}
    finally:
        hvd.shutdown()


def _measure(hvd, kind: str, batch: int, repeat: int) -> Mirrored:
    import tensorflow as tf

    images = nets.global_batches(batch * hvd.size(), 1)[0]
    pictures, labels = (tf.constant(values) for values in nets.part_of(images, hvd.rank(), hvd.size()))
    net = nets.build(kind)
    together = _step(net, hvd.DistributedGradientTape, pictures, labels)
    alone = _step(nets.build(kind), lambda tape: tape, pictures, labels)
    losses = [float(together())]
    turns = timing.in_turns({"step": together, "alone": alone}, repeat=repeat, warmup=2)
    time.sleep(PAUSE)
    before = tcp_bytes()
    for _ in range(repeat):
        together()
    time.sleep(PAUSE)
    after = tcp_bytes()
    sent, received = ((late - early) / repeat for early, late in zip(before, after, strict=True))
    return Mirrored(turns["step"], turns["alone"], sent, received, nets.sizes_of(net), losses)


def _step(net, wrap, pictures, labels):
    import keras
    import tensorflow as tf

    optimizer = nets.optimizer_for(net, RATE)

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
