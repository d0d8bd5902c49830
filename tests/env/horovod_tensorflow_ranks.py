"""Horovod's documented API in TensorFlow and Keras 3: what each of two ranks gets.

test_horovod.py has pytest run this file on both at once.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import horovod.tensorflow as hvd_tf
import horovod.tensorflow.keras as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf

hvd.init()
tf.get_logger().setLevel("ERROR")
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


def about(value):
    """Of float32."""
    return pytest.approx(value, abs=1e-5)


def test_broadcast_variables():
    model = net_of_this_rank()
    before = hvd_tf.allgather_object(flat(model))
    assert before[0] != before[1]
    hvd_tf.broadcast_variables(model.variables, root_rank=0)
    assert flat(model) == before[0]


def test_optimizer_in_fit():
    """y = w x, w = 1, x = 1 and 2: gradients 2 w x² are 2 and 8, their mean 5: w is 1 - 0.1 * 5."""
    model = line(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), start=1.0)
    model.fit(mine(), 0 * ONE, verbose=0)
    assert weight(model) == about(0.5)


def test_optimizer_applied_by_hand():
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    w = keras.Variable([0.0])
    optimizer.apply_gradients([(tf.constant([hvd.rank() + 1.0]), w)])
    assert w.numpy()[0] == about(-0.15)


def test_gradient_tape():
    w = keras.Variable(0.0)
    with tf.GradientTape() as tape:
        loss = w * (hvd.rank() + 1.0)
    assert float(hvd_tf.DistributedGradientTape(tape).gradient(loss, [w])[0]) == about(1.5)


def test_broadcast_callback():
    model = net_of_this_rank()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.0)), loss="mse")
    before = hvd_tf.allgather_object(flat(model))
    assert before[0] != before[1]
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=1)
    model.fit(np.ones((2, 4)), np.ones((2, 2)), callbacks=[callback], verbose=0)
    assert flat(model) == before[1]


def test_metric_average():
    """Of losses 1 and 4."""
    model = line(keras.optimizers.SGD(0.0))
    callbacks = [hvd.callbacks.MetricAverageCallback()]
    losses = model.fit(ONE, mine(), callbacks=callbacks, verbose=0).history["loss"]
    assert losses == about([2.5])


def test_warmup():
    """lr/size (epoch (size - 1)/warmup + 1) with lr 0.2, size 2, warmup 2, at the end of epochs 1
    and 2."""
    model = line(hvd.DistributedOptimizer(keras.optimizers.SGD(0.2)))
    callback = hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.2, warmup_epochs=2)
    data = np.ones((4, 1), np.float32)
    told = model.fit(data, data, batch_size=1, epochs=3, callbacks=[callback], verbose=0)
    assert told.history["lr"] == about([0.15, 0.2, 0.2])


@pytest.mark.parametrize(("corrected", "after"), [(True, -0.195), (False, -0.24)])
def test_schedule_and_momentum_correction(corrected, after):
    """Velocity -0.1, then 0.9 * (0.05 / 0.1) * -0.1 - 0.05 with the correction, 0.9 * -0.1 - 0.05
    without."""
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    model = line(optimizer, loss=mean_of_predictions)
    callback = hvd.callbacks.LearningRateScheduleCallback(
        initial_lr=0.1, multiplier=lambda epoch: 0.5**epoch, momentum_correction=corrected
    )
    rates = model.fit(ONE, ONE, epochs=2, callbacks=[callback], verbose=0).history["lr"]
    assert rates == about([0.1, 0.05])
    assert weight(model) == about(after)


def test_load_model(tmp_path):
    """It has a distributed optimizer with its state, which trains on; and it loads without
    Horovod."""
    model = line(hvd.DistributedOptimizer(keras.optimizers.Adam(0.25)))
    model.fit(mine(), 0 * ONE + 3, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    plain = keras.models.load_model(tmp_path / "model.keras")
    loaded = hvd.load_model(tmp_path / "model.keras")
    assert type(plain.optimizer) is keras.optimizers.Adam
    assert type(loaded.optimizer).__name__ == "Adam"
    assert float(loaded.optimizer.learning_rate) == 0.25
    state = [np.asarray(v).tolist() for v in loaded.optimizer.variables]
    assert state == [np.asarray(v).tolist() for v in model.optimizer.variables]
    loaded.fit(mine(), 0 * ONE + 3, epochs=2, verbose=0)
    weights = hvd_tf.allgather_object(weight(loaded))  # trained with different data on each rank
    assert weights[0] == weights[1]


def test_sparse_gradients():
    table = tf.Variable(tf.zeros((4, 1)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [hvd.rank(), 2]))
    grad = hvd_tf.DistributedGradientTape(tape).gradient(loss, [table])[0]
    assert isinstance(grad, tf.IndexedSlices)
    assert tf.convert_to_tensor(grad)[:, 0].numpy() == about([0.5, 0.5, 1.0, 0.0])


def test_sparse_in_fit():
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
    assert sparse == about(dense)
    assert sparse[0] != 0
    assert sparse[3] == 0
    ranks = hvd_tf.allgather_object(sparse)
    assert ranks[0] == ranks[1]


@pytest.mark.parametrize(("average", "step"), [(False, -0.3), (True, -0.15)])
def test_backward_passes(average, step):
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=2, average_aggregated_gradients=average
    )
    model = line(optimizer, loss=mean_of_predictions)
    weights = []
    for _ in range(4):
        model.train_on_batch(mine(), ONE)
        weights.append(weight(model))
    assert weights == about([0, step, step, 2 * step])
    assert int(optimizer.iterations) == 4


def test_keras_accumulation():
    inner = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    model = line(hvd.DistributedOptimizer(inner), loss=mean_of_predictions)
    for _ in range(2):
        model.train_on_batch(mine(), ONE)
    assert weight(model) == about(-0.15)


def test_loss_scale():
    """One rank has an infinite gradient: all ranks leave the step out, and halve the scale of 4,
    together. Then gradients are 4 and 8, over 2, and their mean 3."""
    inner = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=4.0)
    optimizer = hvd.DistributedOptimizer(inner)
    w = keras.Variable([1.0])
    for value in (np.inf if hvd.rank() == 1 else 4.0, 4.0 * (hvd.rank() + 1)):
        optimizer.apply_gradients([(tf.constant([value], tf.float32), w)])
    assert w.numpy()[0] == about(0.7)
    assert float(optimizer.dynamic_scale) == 2.0


def test_auto_jit_on_a_gpu(monkeypatch):
    """What jit_compile="auto" gives where TensorFlow sees a GPU."""
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [gpu])
    wrapped = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    assert line(wrapped).jit_compile is False
    assert line(keras.optimizers.SGD(0.1)).jit_compile is True


def test_of_horovod_nothing_is_translated_into_graph_code():
    """AutoGraph would take two seconds for it at each rank's first step."""
    w = tf.Variable(1.0)

    @tf.function
    def step_of_the_user():
        with tf.GradientTape() as tape:
            loss = w * (hvd.rank() + 1.0)
        return hvd_tf.DistributedGradientTape(tape).gradient(loss, [w])[0]

    assert float(step_of_the_user()) == 1.5
    model = line(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    model.fit(mine(), ONE, verbose=0)
    translated = [
        Path(module.__file__).read_text(encoding="utf-8")
        for name, module in sys.modules.items()
        if name.startswith("__autograph_generated_file")
    ]
    assert any("step_of_the_user" in text for text in translated)
    assert not any("allreduce" in text for text in translated)


def test_wrapped_twice():
    with pytest.raises(ValueError, match="only once"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))


def test_rate_is_settable():
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    optimizer.learning_rate = 0.02
    assert float(optimizer.learning_rate) == about(0.02)
    assert len(optimizer.variables) == len(optimizer.variables()) > 0


def test_sync_batch_norm():
    """Of 0, 2 and 1, 3."""
    layer = hvd_tf.SyncBatchNormalization(axis=-1, momentum=0.0)
    layer(tf.constant([[0.0 + hvd.rank()], [2.0 + hvd.rank()]]), training=True)
    assert [float(layer.moving_mean[0]), float(layer.moving_variance[0])] == about([1.5, 1.25])


def test_elastic_state():
    model = line(keras.optimizers.SGD(0.1), start=float(hvd.rank() + 1))
    state = hvd.elastic.KerasState(model, epoch=10 + hvd.rank())
    state.sync()
    assert (weight(model), state.epoch) == (1.0, 10)


def test_mpi_is_in_use_from_one_library():
    with open("/proc/self/maps") as maps:
        libraries = {os.path.realpath(line.split()[-1]) for line in maps if "/libmpi" in line}
    assert (hvd.mpi_enabled(), hvd.size(), len(libraries)) == (True, 2, 1)
