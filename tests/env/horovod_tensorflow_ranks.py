"""What each rank of test_horovod.py does with Horovod in TensorFlow and Keras 3.

Every check is a function that returns what it measured; rank 0 prints one JSON line of {check: [by
rank]}.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import horovod.tensorflow as hvd_tf
import horovod.tensorflow.keras as hvd
import keras
import numpy as np
import tensorflow as tf
from horovod_report import report

ONE = np.ones((1, 1), np.float32)


def mean_of_predictions(_, predictions):
    """A loss with a constant gradient: that of a weight is the mean of its inputs."""
    return tf.reduce_mean(predictions, axis=-1)


def line(optimizer, loss="mse", start=0.0):
    """The net y = w x, compiled; w starts at `start`."""
    dense = keras.layers.Dense(
        1, use_bias=False, kernel_initializer=keras.initializers.Constant(start)
    )
    model = keras.Sequential([keras.Input((1,)), dense])
    model.compile(optimizer=optimizer, loss=loss)
    return model


def weight(model):
    """w of `line`."""
    return float(model.get_weights()[0][0, 0])


def mine():
    """One input: rank + 1."""
    return ONE * (hvd.rank() + 1)


def flat(model):
    """All weights of a model in one list."""
    return np.concatenate([w.ravel() for w in model.get_weights()]).tolist()


def net_of_this_rank():
    """A net with dropout (its seed is an unsigned integer) whose weights depend on the rank."""
    keras.utils.set_random_seed(hvd.rank())
    layers = [keras.layers.Dense(3), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((4,)), *layers])


def broadcast_variables():
    """Did the ranks differ, and have they the root's weights now?"""
    model = net_of_this_rank()
    before = hvd_tf.allgather_object(flat(model))
    hvd_tf.broadcast_variables(model.variables, root_rank=0)
    return [before[0] != before[1], flat(model) == before[0]]


def optimizer_in_fit():
    model = line(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), start=1.0)
    model.fit(mine(), 0 * ONE, verbose=0)
    return weight(model)


def optimizer_applied_by_hand():
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    w = keras.Variable([0.0])
    optimizer.apply_gradients([(tf.constant([hvd.rank() + 1.0]), w)])
    return float(w.numpy()[0])


def gradient_tape():
    w = keras.Variable(0.0)
    with tf.GradientTape() as tape:
        loss = w * (hvd.rank() + 1.0)
    return float(hvd_tf.DistributedGradientTape(tape).gradient(loss, [w])[0])


def broadcast_callback():
    model = net_of_this_rank()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.0)), loss="mse")
    before = hvd_tf.allgather_object(flat(model))
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=1)
    model.fit(np.ones((2, 4)), np.ones((2, 2)), callbacks=[callback], verbose=0)
    return [before[0] != before[1], flat(model) == before[1]]


def metric_average():
    model = line(keras.optimizers.SGD(0.0))
    callbacks = [hvd.callbacks.MetricAverageCallback()]
    return model.fit(ONE, mine(), callbacks=callbacks, verbose=0).history["loss"]


def warmup():
    model = line(hvd.DistributedOptimizer(keras.optimizers.SGD(0.2)))
    callback = hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.2, warmup_epochs=2)
    data = np.ones((4, 1), np.float32)
    return model.fit(data, data, batch_size=1, epochs=3, callbacks=[callback], verbose=0).history[
        "lr"
    ]


def schedule():
    model = line(keras.optimizers.SGD(0.1))
    callback = hvd.callbacks.LearningRateScheduleCallback(
        initial_lr=0.1, multiplier=lambda epoch: 0.5**epoch
    )
    return model.fit(ONE, ONE, epochs=3, callbacks=[callback], verbose=0).history["lr"]


def momentum_correction():
    result = {}
    for corrected in (True, False):
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
        model = line(optimizer, loss=mean_of_predictions)
        callback = hvd.callbacks.LearningRateScheduleCallback(
            initial_lr=0.1, multiplier=lambda epoch: 0.5**epoch, momentum_correction=corrected
        )
        model.fit(ONE, ONE, epochs=2, callbacks=[callback], verbose=0)
        result[str(corrected)] = weight(model)
    return result


def load_model():
    """It has a distributed optimizer with its state, which trains on; and it loads without
    Horovod."""
    model = line(hvd.DistributedOptimizer(keras.optimizers.Adam(0.25)))
    model.fit(mine(), 0 * ONE + 3, epochs=2, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        plain, loaded = keras.models.load_model(path), hvd.load_model(path)
    state = [np.asarray(v).tolist() for v in loaded.optimizer.variables]
    same_state = state == [np.asarray(v).tolist() for v in model.optimizer.variables]
    loaded.fit(mine(), 0 * ONE + 3, epochs=2, verbose=0)
    weights = hvd_tf.allgather_object(weight(loaded))  # trained with different data on each rank
    facts = [type(loaded.optimizer).__name__, float(loaded.optimizer.learning_rate), same_state]
    return [*facts, weights[0] == weights[1], type(plain.optimizer) is keras.optimizers.Adam]


def sparse_gradients():
    table = tf.Variable(tf.zeros((4, 1)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [hvd.rank(), 2]))
    grad = hvd_tf.DistributedGradientTape(tape).gradient(loss, [table])[0]
    is_sparse = isinstance(grad, tf.IndexedSlices)
    return [is_sparse, *tf.convert_to_tensor(grad)[:, 0].numpy().tolist()]


def sparse_in_fit():
    """Two steps of Adam with an embedding: like with the same gradients made dense, and on both
    ranks?"""
    result = []
    for as_dense in (False, True):
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.1), sparse_as_dense=as_dense)
        embedding = keras.layers.Embedding(4, 1, embeddings_initializer="zeros")
        model = keras.Sequential([keras.Input((2,), dtype="int32"), embedding])
        model.compile(optimizer=optimizer, loss="mse")
        indices = np.array([[hvd.rank(), 2]], np.int32)
        model.fit(indices, np.full((1, 2, 1), 1.0 + hvd.rank()), epochs=2, verbose=0)
        result.append(flat(model))
    sparse, dense = result
    ranks = hvd_tf.allgather_object(sparse)
    return [
        np.allclose(sparse, dense, atol=1e-5),
        sparse[0] != 0,
        sparse[3] == 0,
        ranks[0] == ranks[1],
    ]


def backward_passes(average):
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=2, average_aggregated_gradients=average
    )
    model = line(optimizer, loss=mean_of_predictions)
    weights = []
    for _ in range(4):
        model.train_on_batch(mine(), ONE)
        weights.append(weight(model))
    return [*weights, int(optimizer.iterations)]


def backward_passes_summed():
    return backward_passes(False)


def backward_passes_averaged():
    return backward_passes(True)


def keras_accumulation():
    inner = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    model = line(hvd.DistributedOptimizer(inner), loss=mean_of_predictions)
    for _ in range(2):
        model.train_on_batch(mine(), ONE)
    return weight(model)


def loss_scale():
    """One rank has an infinite gradient: all ranks must leave the step out, and halve the scale,
    together."""
    inner = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=4.0)
    optimizer = hvd.DistributedOptimizer(inner)
    w = keras.Variable([1.0])
    for value in (np.inf if hvd.rank() == 1 else 4.0, 4.0 * (hvd.rank() + 1)):
        optimizer.apply_gradients([(tf.constant([value], tf.float32), w)])
    return {"weight": float(w.numpy()[0]), "scale": float(optimizer.dynamic_scale)}


def auto_jit_on_a_gpu():
    """What jit_compile="auto" gives where TensorFlow sees a GPU."""
    listed, gpu = (
        tf.config.list_physical_devices,
        tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU"),
    )
    tf.config.list_physical_devices = lambda *_: [gpu]
    try:
        distributed = line(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))).jit_compile
        return {"distributed": distributed, "plain": line(keras.optimizers.SGD(0.1)).jit_compile}
    finally:
        tf.config.list_physical_devices = listed


def wrapped_twice():
    try:
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    except ValueError as error:
        return "only once" in str(error)
    return False


def rate_is_settable():
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    optimizer.learning_rate = 0.02
    return [
        float(optimizer.learning_rate),
        len(optimizer.variables) == len(optimizer.variables()) > 0,
    ]


def sync_batch_norm():
    layer = hvd_tf.SyncBatchNormalization(axis=-1, momentum=0.0)
    layer(tf.constant([[0.0 + hvd.rank()], [2.0 + hvd.rank()]]), training=True)
    return [float(layer.moving_mean[0]), float(layer.moving_variance[0])]


def elastic_state():
    model = line(keras.optimizers.SGD(0.1), start=float(hvd.rank() + 1))
    state = hvd.elastic.KerasState(model, epoch=10 + hvd.rank())
    state.sync()
    return [weight(model), state.epoch]


def controller():
    """Is MPI in use, with how many ranks, from how many libraries?"""
    with open("/proc/self/maps") as maps:
        libraries = {os.path.realpath(line.split()[-1]) for line in maps if "/libmpi" in line}
    return [bool(hvd.mpi_enabled()), hvd.size(), len(libraries)]


CHECKS = (
    broadcast_variables, optimizer_in_fit, optimizer_applied_by_hand, gradient_tape, broadcast_callback,
    metric_average, warmup, schedule, momentum_correction, load_model, sparse_gradients, sparse_in_fit,
    backward_passes_summed, backward_passes_averaged, keras_accumulation, loss_scale, auto_jit_on_a_gpu,
    wrapped_twice, rate_is_settable, sync_batch_norm, elastic_state, controller,
)  # fmt: skip

if __name__ == "__main__":
    hvd.init()
    tf.get_logger().setLevel("ERROR")
    report(hvd, CHECKS, hvd_tf.allgather_object)
